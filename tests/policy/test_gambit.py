"""Policies as Gambit behaviour profiles: Gambit reads them, and its solvers agree on equilibria."""

import collections
import pathlib
from typing import Any

import numpy as np
import pytest

from jaxgadget import (
    Policy,
    enumerate_game,
    evaluate_policy,
    load,
    nash_conv,
    solve,
    write_efg,
    write_profile,
)
from jaxgadget.tree.gambit import infoset_order
from jaxgadget.tree.history import HistoryTree
from tests.reference.random_games import SHAPES, random_game

gambit: Any = pytest.importorskip("pygambit")

GAMES = ["kuhn_poker", "goofspiel(num_cards=3,imp_info=True)", "coin_toss", "matching_pennies_twist", *SHAPES]

EXACT = ["kuhn_poker", "coin_toss", "weather", "delays"]
"""Games whose equilibria Gambit finds with fractions in less than a second."""


def make_tree(name: str) -> HistoryTree:
    """Payoffs of random games are rounded, because Gambit's solver uses fractions."""
    if name not in SHAPES:
        return enumerate_game(load(name))
    game = random_game(name, 5)
    game.returns = {history: round(value, 1) for history, value in game.returns.items()}
    chance = collections.Counter(history[:-1] for history, p in game.probability.items() if p != 1)
    game.probability |= {h: 1 / chance[h[:-1]] for h, p in game.probability.items() if p != 1}
    return enumerate_game(game)


def read_game(tree: HistoryTree, folder: pathlib.Path) -> Any:
    write_efg(tree, folder / "game.efg")
    return gambit.read_efg(str(folder / "game.efg"))


def read_rows(profile: Any, player: str) -> list[list[float]]:
    """A player's rows, in Gambit's order of infosets and actions."""
    return [[float(probability) for _, probability in row] for _, row in profile[player]]


def read_profiles(game: Any, path: pathlib.Path) -> list[Any]:
    profiles: list[Any] = []
    for line in path.read_text().splitlines():
        tag, *numbers = line.split(",")
        assert tag == "NE"
        rest = iter(map(float, numbers))
        uniform = game.mixed_behavior_profile(rational=False)
        rows = [[[next(rest) for _ in row] for row in read_rows(uniform, player)] for player in game.players]
        assert next(rest, None) is None
        profiles.append(game.mixed_behavior_profile(rows, rational=False))
    return profiles


def to_policy(tree: HistoryTree, profile: Any) -> Policy:
    """A Gambit profile as a policy."""
    rows = [np.zeros((infosets.num_sequences - 1, 1)) for infosets in tree.infosets]
    for player, order in enumerate(infoset_order(tree)):
        for infoset, row in zip(order, read_rows(profile, f"Player {player}"), strict=True):
            first = tree.infosets[player].first_sequence[infoset] - 1
            assert min(row) > -1e-12  # Gambit's floating-point arithmetic
            rows[player][first : first + len(row), 0] = np.maximum(row, 0)
    return Policy(tree, (rows[0], rows[1]), ("gambit",))


@pytest.mark.parametrize("name", GAMES)
def test_gambit_reads_every_lane_and_values_it_alike(name: str, tmp_path: pathlib.Path):
    tree = make_tree(name)
    policy = Policy.stack([Policy.uniform(tree), Policy.dirichlet(tree, 0), Policy.dirichlet(tree, 1, 0.1)])
    write_profile(policy, tmp_path / "profiles.txt")
    game = read_game(tree, tmp_path)
    profiles = read_profiles(game, tmp_path / "profiles.txt")
    assert len(profiles) == 3
    values = evaluate_policy(policy).value
    for lane, profile in enumerate(profiles):
        assert float(profile.payoffs["Player 0"]) == pytest.approx(
            values[lane] + tree.constant / 2, rel=1e-9, abs=1e-12
        )
        again = to_policy(tree, profile)
        for player in (0, 1):
            np.testing.assert_array_equal(
                again.probabilities[player][:, 0], policy.probabilities[player][:, lane]
            )


@pytest.mark.parametrize("name", [GAMES[0], pytest.param(GAMES[1], marks=pytest.mark.slow), *GAMES[2:5]])
def test_equilibria_are_gambit_s(name: str, tmp_path: pathlib.Path):
    """Ours has no regret in Gambit's game and vice versa, and both have the same value."""
    tree = make_tree(name)
    solution = solve(tree, algorithm="lp")
    write_profile(solution.policy, tmp_path / "equilibrium.txt")
    game = read_game(tree, tmp_path)
    (ours,) = read_profiles(game, tmp_path / "equilibrium.txt")
    scale = tree.payoff_range
    assert float(ours.payoffs["Player 0"]) == pytest.approx(
        solution.value + tree.constant / 2, abs=1e-8 * scale
    )
    assert ours.max_regret() == pytest.approx(0, abs=1e-8 * scale)
    equilibria = [gambit.nash.lcp_solve(game, rational=False).equilibrium]
    if name in EXACT:
        equilibria.append(gambit.nash.lp_solve(game, rational=True).equilibrium)
    for theirs in equilibria:
        value = float(theirs.payoffs["Player 0"]) - tree.constant / 2
        assert value == pytest.approx(solution.value, abs=1e-8 * scale)
        assert nash_conv(to_policy(tree, theirs))[0] == pytest.approx(0, abs=1e-8 * scale)
