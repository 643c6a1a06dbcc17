"""Sequence forms of public trees: the gradients equal those in the histories; games without such a form."""

import dataclasses
import re

import jax
import numpy as np
import pytest

from jaxgadget import enumerate_game, load
from jaxgadget.core.problem import follow
from jaxgadget.policy.evaluate import to_parts, whole_problem
from jaxgadget.policy.solve import solve
from jaxgadget.tree.public import match_sequences, public_tree
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.precision import precision
from tests.hands import alike


@pytest.mark.parametrize("spec", alike.QUICK)
def test_gradients_are_those_of_the_histories(spec: str):
    policies = alike.random_policies(spec)

    def gradients(problem, rows):
        reach = [follow(problem.sides[p], problem.terms[p], rows[p]).body for p in (0, 1)]
        return [problem.payoff.gradient(p, (reach[0], reach[1]), None)[0] for p in (0, 1)]

    found: list[list[np.ndarray]] = []
    with precision(np.float64):
        for policy in policies:
            form, lanes = sequence_form(policy.tree), policy.num_lanes
            problem = whole_problem(policy.tree, lanes, np.float64)
            earned = jax.jit(gradients)(problem, to_parts(form, policy, np.float64))
            of_actions: list[np.ndarray] = []
            for player in (0, 1):
                source, num_roots = form.action_sequences(player), form.treeplex[player].num_roots
                own = np.zeros((policy.tree.infosets[player].num_sequences, lanes))
                own[source[source > 0]] = np.asarray(earned[player])[num_roots:][source > 0]
                of_actions.append(own)
            found.append(of_actions)
    theirs, ours = found
    for player, sequence in enumerate(match_sequences(policies[0].tree, policies[1].tree, "tree")):
        np.testing.assert_allclose(ours[player][sequence[1:]], theirs[player][1:], rtol=0, atol=1e-14)


def test_any_game_that_deals_first_has_the_form():
    """Also from histories; rules that define their hands need none."""
    for game in ("coin_toss", "openspiel:kuhn_poker"):
        tree = enumerate_game(load(game))
        assert len(public_tree(tree).infosets[0]) == len(tree.infosets[0])


@pytest.mark.parametrize(
    ("game", "expected"),
    [
        (load("goofspiel(num_cards=3,imp_info=True)"), "defines no hand form"),
        (load("coin_toss"), "expected kuhn_poker, leduc_poker, liars_dice, or the tree of a game"),
        ("kuhn_poker", "game: 'kuhn_poker' is not a game"),
        (load("leduc_poker(action_mapping=True)"), "leave action_mapping out"),
        (enumerate_game(load("sequential_rps")), "has no hand form: player 0 does not see"),
    ],
)
def test_trees_without_a_form_by_hands(game, expected: str):
    with pytest.raises(ValueError, match=re.escape(expected)):
        public_tree(game)


def test_a_player_who_never_acts():
    """Only player 0 has a choice: the other player's treeplex consists of its hands."""
    game = load("kuhn_poker").by_hands()
    tree = game.nodes
    short = dataclasses.replace(
        tree,
        level_offset=np.array([0, 1, 3]),
        parent=np.zeros(3, np.int64),
        actor=np.array([1, 0, 0], np.uint8),
        action=np.array([-1, 0, 1]),
    )
    ends = tuple(
        group._replace(node=np.array([[k + 1]]), scale=np.ones((1, 1)), pays=group.pays[:1])
        for k, group in enumerate(game.ends[:2])
    )
    changed = dataclasses.replace(game, nodes=short, ends=ends)
    public = public_tree(changed)
    assert sequence_form(public).treeplex[1].num_infosets == len(public.infosets[1]) == 0
    solution = solve(public, iterations=200)
    assert solution.nash_conv < 1e-3
