"""The form by hands: slices node by node, the gradients of the histories, and what is refused."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgadget import enumerate_game, load
from jaxgadget.core.problem import Parts, follow
from jaxgadget.games.game import ACTOR_BIT
from jaxgadget.hands.form import HandsForm, by_hands
from jaxgadget.policy.evaluate import to_parts, whole_problem
from jaxgadget.policy.solve import solve
from jaxgadget.tree.public import public_tree
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.precision import precision
from tests.hands import alike


def test_hands_of_a_node_lie_side_by_side():
    """A reach at a public node is a slice: what the player did on the way there, hand by hand."""
    spec = "leduc_poker"
    form, (policy, by_hand) = alike.form(spec), alike.random_policies(spec)
    tree = form.game.nodes
    with precision(np.float64):
        problem = form.problem(policy.num_lanes, np.float64)
        for player, side in enumerate(problem.sides):
            rows = jnp.asarray(by_hand.bodies()[player])
            parts = Parts(jnp.zeros((0, policy.num_lanes)), rows)
            plan = jax.jit(follow)(side, problem.terms[player], parts)
            reach = np.asarray(plan.body).reshape(-1, form.game.num_hands[player], policy.num_lanes)
            expected = np.ones((len(tree), *reach.shape[1:]))
            for node in range(1, len(tree)):
                above = int(tree.parent[node])
                expected[node] = expected[above]
                if tree.actor[above] == ACTOR_BIT[player]:
                    row = np.searchsorted(form.children[player], node)
                    expected[node] *= by_hand.probabilities[player][row]
            np.testing.assert_allclose(reach[form.sequence[player]], expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("spec", alike.QUICK)
def test_gradients_are_those_of_the_histories(spec: str):
    form, found, (policy, by_hand) = alike.form(spec), alike.found(spec), alike.random_policies(spec)
    tree, lanes = found.tree, policy.num_lanes
    treeplexes = sequence_form(tree)

    def gradients(problem, rows):
        reach = [follow(problem.sides[p], problem.terms[p], rows[p]).body for p in (0, 1)]
        return [problem.payoff.gradient(p, (reach[0], reach[1]), None)[0] for p in (0, 1)]

    with precision(np.float64):
        problems = form.problem(lanes, np.float64), whole_problem(tree, lanes, np.float64)
        bodies = [Parts(jnp.zeros((0, lanes)), jnp.asarray(rows)) for rows in by_hand.bodies()]
        parts = (bodies, to_parts(treeplexes, policy, np.float64))
        ours, theirs = (
            [np.asarray(x) for x in jax.jit(gradients)(problem, rows)]
            for problem, rows in zip(problems, parts, strict=True)
        )
        for player in (0, 1):
            blocks = ours[player].reshape(-1, form.game.num_hands[player], lanes)
            infosets = tree.infosets[player]
            node, hand = found.infosets(player)
            owner = infosets.infoset[1:]
            slot = np.arange(1, infosets.num_sequences) - infosets.first_sequence[owner]
            own = blocks[form.sequence[player][form.game.nodes.first_child[node[owner]] + slot], hand[owner]]
            expected = np.zeros_like(own)
            source = treeplexes.action_sequences(player)
            expected[source - 1] = theirs[player][treeplexes.treeplex[player].num_roots :]
            np.testing.assert_allclose(own, expected, rtol=0, atol=1e-14)


def test_any_game_that_deals_first_has_the_form():
    """From histories, too; rules that know their hands need none."""
    for game in ("coin_toss", "openspiel:kuhn_poker"):
        tree = enumerate_game(load(game))
        found = by_hands(tree)
        assert found.num_infosets(0) == len(tree.infosets[0])
    game = load("kuhn_poker").by_hands()
    assert by_hands(game) is game
    assert (
        repr(HandsForm(game))
        == "<HandsForm of <HandsGame kuhn_poker: 3 × 3 hands, <PublicNodes: 9 nodes, 5 of them ends>>>"
    )


@pytest.mark.parametrize(
    ("game", "expected"),
    [
        (load("goofspiel(num_cards=3,imp_info=True)"), "does not say which hands it deals"),
        (load("coin_toss"), "expected kuhn_poker, leduc_poker, liars_dice, or the tree of a game"),
        ("kuhn_poker", "game: 'kuhn_poker' is no game"),
        (load("leduc_poker(action_mapping=True)"), "leave action_mapping out"),
        (enumerate_game(load("sequential_rps")), "is no game by hands: player 0 does not see"),
    ],
)
def test_what_has_no_form_by_hands(game, expected: str):
    with pytest.raises(ValueError, match=re.escape(expected)):
        by_hands(game)


def test_a_player_who_never_acts():
    """Only player 0 has a choice: the other's treeplex is its hands alone."""
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
    form = HandsForm(changed)
    assert form.treeplex[1].num_infosets == 0
    assert form.game.num_infosets(1) == 0
    solution = solve(public_tree(changed), iterations=200)
    assert solution.nash_conv < 1e-3
