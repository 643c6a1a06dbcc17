"""Sampled blueprints: compared with CFR in games without public chance, with OpenSpiel, and by seed."""

from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget import Policy, make_blueprints
from jaxgadget.games.game import CHANCE
from jaxgadget.games.stepwise import Rules, Step
from jaxgadget.policy.sampled import _PublicChance, external_sampling, public_chance_sampling


def assert_same(a: Policy, b: Policy, atol: float = 0) -> None:
    for first, second in zip(a.probabilities, b.probabilities, strict=True):
        np.testing.assert_allclose(first, second, rtol=0, atol=atol)


@pytest.mark.parametrize("name", ["kuhn_poker", "liars_dice(dice_sides=2)"])
def test_without_public_chance_it_is_cfr(name):
    tree = jg.enumerate_game(jg.load(name))
    counts = [1, 2, 30]
    sampled = public_chance_sampling(tree, counts, seed=5)
    assert sampled.labels == ("pcs:1:5", "pcs:2:5", "pcs:30:5")
    assert_same(sampled, jg.cfr_checkpoints(tree, counts), 1e-9)


@pytest.mark.slow
def test_a_sample_is_one_card_for_each_betting(leduc):
    """The sample has one public card per betting line, and its expectation is the whole game."""
    assert leduc.public is not None
    solver, mean = _PublicChance(leduc, 0), np.zeros(leduc.num_histories)
    draws = 3000
    for _ in range(draws):
        histories, weight = solver._sample()
        mean[histories] += weight / draws
        flops = histories[leduc.action[2, histories] >= 0]
        flops = flops[leduc.num_moves[flops] > 0]
        lines = leduc.public[leduc.parent[flops]]
        assert len(np.unique(np.stack([lines, leduc.public[flops]]), axis=1).T) == len(np.unique(lines)) == 5
    # 5 standard errors: a card of three ranks comes with probability 1/3.
    ends = leduc.terminals
    np.testing.assert_allclose(mean[ends], leduc.chance[ends], rtol=5 * np.sqrt(2 / draws))


def test_it_learns(leduc):
    sampled = public_chance_sampling(leduc, [3, 1000])
    before, after = jg.nash_conv(sampled)
    assert after < 0.15 * before


class SecretChoice(Rules[str]):
    """Player 0's secret choice decides whether a coin is shown before player 1 guesses, or it acts at once.

    A correct guess of the coin costs player 0 a unit, a wrong one earns it; without the coin it gets 2 or
    loses 3.
    """

    name = "secret_choice"
    actions = ("left", "right")

    def initial_state(self) -> str:
        return ""

    def actors(self, state: str) -> tuple[int, ...]:
        return {"": (0,), "l": (CHANCE,), "r": (1,), "lh": (1,), "lt": (1,)}.get(state, ())

    def legal_actions(self, state: str, player: int) -> tuple[int, ...]:
        return (0, 1)

    def chance_outcomes(self, state: str) -> list[tuple[int, float]]:
        return [(0, 0.3), (1, 0.7)]

    def step(self, state: str, move: Any) -> Step[str]:
        if state == "":
            return Step("lr"[move])
        if state == "l":
            return Step("l" + "ht"[move], public="ht"[move])
        if state == "r":
            return Step(f"r{move}", reward=(2.0, -3.0)[move])
        return Step(f"{state}{move}", reward=-1.0 if state[1] == "ht"[move] else 1.0)


def test_where_chance_shows_something_only_in_some_histories_of_a_public_state():
    """Players' moves in that public state are followed for every draw, so that it learns as CFR does."""
    tree = jg.enumerate_game(jg.load(SecretChoice()))
    counts, solver = [1, 100, 2000], _PublicChance(tree, 0)
    samples = [solver._sample() for _ in range(200)]
    for histories, _ in samples:
        guesses = [moves for history in histories.tolist() if (moves := tree.moves(history))[:1] == (1,)]
        assert guesses == [(1,), (1, 0), (1, 1)], "no draw leaves out what follows the other choice"
    expected = jg.nash_conv(jg.cfr_checkpoints(tree, counts))
    sampled = jg.nash_conv(public_chance_sampling(tree, counts))
    assert expected[-1] < 2e-3 * expected[0]
    assert sampled[-1] < 5e-3 * expected[0] and sampled[-1] < 0.1 * sampled[1]


def test_games_without_public_states_are_refused():
    pytest.importorskip("pyspiel")
    tree = jg.enumerate_game(jg.load("openspiel:kuhn_poker"))
    with pytest.raises(ValueError, match="blueprint 'pcs:3': openspiel:kuhn_poker"):
        make_blueprints(tree, "pcs:3")


def test_external_sampling_is_openspiels(leduc):
    pyspiel = pytest.importorskip("pyspiel")
    solver = pyspiel.ExternalSamplingMCCFRSolver(pyspiel.load_game("leduc_poker"), 7)
    for _ in range(40):
        solver.run_iteration()
    expected = Policy.from_openspiel(leduc, solver.average_policy())
    found = external_sampling(leduc, [10, 40], seed=7)
    assert found.labels == ("mccfr:10:7", "mccfr:40:7")
    assert_same(found.lane(1), expected)


def test_infosets_that_no_sample_visits_are_uniform(leduc):
    pytest.importorskip("pyspiel")
    policy = external_sampling(leduc, [5])
    uniform = Policy.uniform(leduc)
    same = [np.isclose(a, b).mean() for a, b in zip(policy.probabilities, uniform.probabilities, strict=True)]
    assert 0.5 < min(same) and max(same) < 1


def test_simultaneous_games_take_turns():
    pytest.importorskip("pyspiel")
    name = "goofspiel(imp_info=True,num_cards=3,points_order=descending)"
    tree = jg.enumerate_game(jg.load(name))
    policy = external_sampling(tree, [5, 3000])
    before, after = jg.nash_conv(policy)
    assert after < 0.3 * before


@pytest.mark.parametrize("kind", ["mccfr", "pcs"])
def test_specs(kind, leduc):
    pytest.importorskip("pyspiel")
    specs = [f"{kind}:4", f"{kind}:9:3", f"{kind}:9", "uniform", f"{kind}:9:4"]
    made = make_blueprints(leduc, specs)
    assert made.labels == tuple(specs)
    assert_same(made, make_blueprints(leduc, specs))
    assert_same(made.lane(f"{kind}:4"), make_blueprints(leduc, f"{kind}:4"))
    assert_same(made.lane(f"{kind}:9"), make_blueprints(leduc, f"{kind}:9:0"))
    assert not np.allclose(made.lane(1).probabilities[0], made.lane(4).probabilities[0])


def test_games_that_openspiel_lacks_are_refused(capfd):
    """A one-line error: OpenSpiel itself would list all its games."""
    name, reason = ("leduc_poker(num_ranks=2)", "its leduc_poker has no parameter num_ranks")
    pytest.importorskip("pyspiel")
    tree = jg.enumerate_game(jg.load(name))
    with pytest.raises(ValueError) as error:
        make_blueprints(tree, "mccfr:3:1")
    assert str(error.value) == f"blueprint 'mccfr:3:1': OpenSpiel does not know {tree.game.name!r}: {reason}"
    assert capfd.readouterr() == ("", "")
