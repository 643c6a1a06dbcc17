"""Theorem 1 of reach subgame solving on more random games and on no-limit Leduc."""

from __future__ import annotations

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.gadgets.alternative import find_gifts
from jaxgadget.subgames.prepare import prepare
from tests.core import grove
from tests.reference.random_games import SHAPES, random_policy, random_tree

pytestmark = pytest.mark.optimised

ROUNDING = 1e-9


def margins_reached(tree: jg.HistoryTree, where: str, blueprint: jg.Policy, player: int) -> list[float]:
    """N(s) × reach margin, the drop in exploitability by Theorem 1, at roots that a best response reaches.

    Checked for each: with reach-max-margin in all subgames, the strategy is less exploitable by that amount
    than with the blueprint in this one subgame. Everything is exact: linear programs, best responses.
    """
    gadget, opponent = jg.ReachMaxMargin(jg.NoPrior()), 1 - player
    found = jg.refine(tree, where, blueprint, gadget, player=player, algorithm="lp", value=(0.0, 0.0))
    forest = found.forest
    before = prepare(forest, player, blueprint, [gadget]).ranges
    after = prepare(forest, player, found.policy).ranges
    gifts = find_gifts(before, before.cbv, "lower-bound", scaled=False)
    margins = (after.cbv - before.cbv + before.mass * gifts)[:, 0]
    best = jg.best_response(found.policy, opponent)
    infosets = tree.infosets[opponent]
    loss = best.infoset_values[infosets.infoset[1:], 0] - best.action_values[:, 0]
    below = forest.roots[player].subgame[forest.root_of_infoset(player)]
    own = forest.form.treeplex[player].infoset
    without = [
        found.policy.splice(player, own[(own >= 0) & (below == subgame)], blueprint)
        for subgame in range(forest.num_subgames)
    ]
    refined, *elsewhere = jg.exploitability(
        jg.Policy.stack([found.policy, *without]), player, value=(0.0, 0.0)
    )
    reached: list[float] = []
    for root, sequence in enumerate(forest.roots[opponent].sequence.tolist()):
        given_away = 0.0
        while sequence:
            given_away = max(given_away, loss[sequence - 1])
            sequence = int(infosets.parent[infosets.infoset[sequence]])
        if given_away < ROUNDING and before.mass[root, 0] > 0:
            assert refined <= elsewhere[before.subgame[root]] - margins[root] + ROUNDING
            reached.append(float(margins[root]))
    return reached


@pytest.mark.parametrize(("shape", "player"), [(shape, k % 2) for k, shape in enumerate(sorted(SHAPES))])
def test_reach_margins_come_off_exploitability_in_drawn_games(shape: str, player: int) -> None:
    margins: list[float] = []
    for seed in range(6):
        tree, _ = random_tree(shape, seed)
        blueprint = grove.to_policy(tree, [random_policy(tree, np.random.default_rng(seed), zeros=0.1)])
        margins += margins_reached(tree, SHAPES[shape].cut, blueprint, player)
    assert len(margins) >= 6 and max(margins) > 1e-3 and min(margins) > -ROUNDING


@pytest.mark.parametrize(("spec", "player"), [("cfr+:20", 0), ("dirichlet:1", 1)])
def test_reach_margins_come_off_exploitability_in_no_limit_leduc(spec: str, player: int) -> None:
    """There are gifts, because the opponent could have folded."""
    tree = jg.enumerate_game(jg.load("no_limit_leduc(bets=1-a,max_raises=2,stack=7,suit_isomorphism=True)"))
    blueprint = jg.make_blueprints(tree, [spec])
    margins = margins_reached(tree, "before-flop", blueprint, player)
    assert len(margins) >= 4 and max(margins) > 1e-3 and min(margins) > -ROUNDING
