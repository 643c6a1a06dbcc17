"""Gadget games against opponents who follow a model: values from the definitions."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.core.lp.solve import Goal, solve_program
from jaxgadget.core.payoff import multiply
from jaxgadget.gadgets.games import build_games
from jaxgadget.gadgets.models import find_mixtures
from jaxgadget.subgames.prepare import prepare
from jaxgadget.tree.cut import whole_cut
from jaxgadget.tree.forest import build_forest, followed_payoff
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.precision import precision


def after_moves(tree: HistoryTree, moves: int) -> np.ndarray:
    """Decisions after the given number of moves, of either player."""
    acts = (tree.infoset >= 0).any(axis=0)
    return np.nonzero((tree.num_moves == moves) & acts)[0]


def objective(tree: HistoryTree, model: jg.Policy, p: float, moves: int | None, player: int = 0) -> float:
    """The largest guarantee in the mixture if the model is followed for so many moves: a linear program."""
    limit = np.zeros(0, np.int64) if moves is None else after_moves(tree, moves)
    forest = build_forest(tree, whole_cut(tree), second=(1 - player, limit) if len(limit) else None)
    whole = jg.OptimalContinuation(jg.NoPrior())
    prepared = prepare(forest, player, jg.Policy.uniform(tree), (whole,))
    mixtures = find_mixtures(forest, player, np.array([p]), np.array([0]), model.reach(1 - player))
    games = build_games(dataclasses.replace(prepared, mixtures=mixtures), [whole])
    with precision(np.float64):
        optimum = solve_program(games.batch.problem(), 0, Goal(maximiser=player), name="mixture")
    return float(optimum.value[0])


def plays(choose: Callable[[str], tuple[str, float]]) -> Callable[[HistoryTree], jg.Policy]:
    """A model from the probability of one action at each infoset of two actions."""

    def policy(tree: HistoryTree) -> jg.Policy:
        def row(player: int, infoset: int, num_actions: int) -> list[float]:
            action, probability = choose(tree.infoset_names[player][infoset])
            infosets = tree.infosets[player]
            first = int(infosets.first_sequence[infoset])
            names = [
                tree.game.action_string(player, int(infosets.action[first + k])) for k in range(num_actions)
            ]
            if action not in names:
                return [1 / num_actions] * num_actions
            rest = (1 - probability) / (num_actions - 1)
            return [probability if name == action else rest for name in names]

        return jg.Policy.from_function(tree, row, "model")

    return policy


@pytest.mark.parametrize(("moves", "expected"), [(1, -1 / 18), (2, 0.5), (None, 0.5)])
def test_first_objectives_of_depth_limited_responses_in_kuhn_poker(
    moves: int | None, expected: float
) -> None:
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    assert objective(tree, jg.Policy.uniform(tree), 1.0, moves) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("moves", "expected"), [(1, 1 / 2), (2, 2 / 3), (3, 10 / 3), (None, 10 / 3)])
def test_first_objectives_against_a_model_that_gives_ten_away(moves: int | None, expected: float) -> None:
    """The model guesses Heads with ⅔, and x after two Tails; a free opponent chooses y there."""
    tree = jg.enumerate_game(jg.load("matching_pennies_twist"))
    model = plays(lambda name: ("x", 1.0) if ">Tails" in name else ("Heads", 2 / 3))(tree)
    assert objective(tree, model, 1.0, moves) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("player", [0, 1])
def test_a_second_copy_that_nothing_enters_changes_nothing(player: int) -> None:
    tree = jg.enumerate_game(jg.load("leduc_poker"))
    model = jg.Policy.geometric(tree, 0.5)
    for moves in (1, 2, 3):
        assert objective(tree, model, 0.0, moves, player) == pytest.approx(
            objective(tree, model, 0.0, None, player), abs=1e-9
        )


@pytest.mark.parametrize("player", [0, 1])
def test_a_second_copy_excludes_payoffs_of_the_model_above_it(player: int) -> None:
    """If both copies of the opponent follow the model, the result is that of following it to the end."""
    tree = jg.enumerate_game(jg.load("leduc_poker"))
    model, other = jg.Policy.dirichlet(tree, 3), 1 - player
    whole = build_forest(tree, whole_cut(tree))
    expected = _times(whole, player, model)
    for moves in (1, 2, 3, 4):
        forest = build_forest(tree, whole_cut(tree), second=(other, after_moves(tree, moves)))
        assert forest.extra is not None
        above = _times(forest, player, model)
        form, first = forest.form, len(forest.roots[other])
        reach = np.zeros(form.treeplex[other].num_sequences)
        root_reach = model.reach(other)[forest.extra.roots.sequence][:, 0]
        reach[first : first + len(root_reach)] = root_reach
        sequences = form.action_sequences(other)
        below = (sequences >= 0) & (form.treeplex[other].root_of()[form.treeplex[other].num_roots :] >= first)
        reach[form.treeplex[other].num_roots :][below] = model.reach(other)[sequences[below], 0]
        entries = form.payoff
        row, column = (entries.row, entries.column) if player == 0 else (entries.column, entries.row)
        sign = 1 if player == 0 else -1
        earned = np.bincount(row, sign * entries.value * reach[column], minlength=len(above))
        ours = form.action_sequences(player)
        whole_ours = whole.form.action_sequences(player)
        assert np.array_equal(np.sort(ours), np.sort(whole_ours))
        by_tree = np.zeros(tree.infosets[player].num_sequences)
        by_tree[ours[ours >= 0]] = (above + earned)[form.treeplex[player].num_roots :][ours >= 0]
        wanted = np.zeros_like(by_tree)
        kept = whole_ours >= 0
        wanted[whole_ours[kept]] = expected[whole.form.treeplex[player].num_roots :][kept]
        np.testing.assert_allclose(by_tree, wanted, atol=1e-12)


def _times(forest: jg.Forest, player: int, model: jg.Policy) -> np.ndarray:
    return multiply(followed_payoff(forest, player), player, model.reach(1 - player))[:, 0]


def test_second_needs_a_cut() -> None:
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    where = jg.cut(tree, "depth:1")
    with pytest.raises(ValueError, match="lies above or beside"):
        build_forest(tree, where, second=(0, np.array([0])))
