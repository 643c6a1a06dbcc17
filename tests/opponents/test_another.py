"""A user-defined opponent: several models, each with a probability.

Explicit trees draw the model at the root; the package receives the arrays that `resolve` returns.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np
import pytest
from pandas.testing import assert_frame_equal

import jaxgadget as jg
from jaxgadget.opponents.opponent import Beyond
from jaxgadget.policy.policy import Policy
from jaxgadget.sweeping.store import SCHEMA
from jaxgadget.tree.public import Tree
from tests.reference import cuts, depth_limited, efg, gadgets, lp, models
from tests.reference.efg import Chance, Decision, Node, Strategy, Terminal
from tests.reference.random_games import SHAPES, random_tree
from tests.solving import nested_exactly, sweeping

WITHIN = 1e-7
"""Tolerance of optima of linear programs in HiGHS."""

players = pytest.mark.parametrize("player", [1, pytest.param(0, marks=pytest.mark.slow)])


@dataclasses.dataclass(frozen=True)
class DrawnModels:
    """An opponent that draws one of two models at the root, or adapts with the remaining probability."""

    specs: tuple[str, ...] = ("dirichlet:1", "geometric:0.3")
    weights: tuple[float, ...] = (0.35, 0.2)
    beyond: Beyond = "rational"

    def resolve(self, tree: Tree) -> jg.Opponents:
        first, second = map(jg.make_blueprints(tree, self.specs, progress=False).lane, (0, 1))
        p = sum(self.weights)
        return jg.Opponents.of(jg.mix(first, second, self.weights[0] / p), p, beyond=self.beyond)


DRAWN = DrawnModels()
FREE = 1 - sum(DRAWN.weights)


def strategies(tree: jg.HistoryTree, policy: Policy) -> list[Strategy]:
    """One strategy per lane, by infoset."""
    return [
        efg.from_sequences(tree, (np.append(1.0, first), np.append(1.0, second)))
        for first, second in zip(*(rows.T for rows in policy.probabilities), strict=True)
    ]


def drawn_strategies(tree: jg.HistoryTree) -> list[Strategy]:
    return strategies(tree, jg.make_blueprints(tree, DRAWN.specs, progress=False))


def drawn(free: Node, locked: Sequence[Node]) -> Node:
    """Chance first draws the model, unseen by the player."""
    return Chance((FREE, *DRAWN.weights), (free, *locked))


@players
def test_responses_are_those_of_the_tree_in_which_chance_draws_the_model(player: int) -> None:
    tree, game = random_tree("weather", 3)
    locked = [models.locked(game.root, 1 - player, model) for model in drawn_strategies(tree)]
    found = jg.respond(tree, DRAWN, player=player, algorithm="lp")
    assert found.objective == pytest.approx(lp.solve(drawn(game.root, locked), player).value, abs=WITHIN)
    (response,) = strategies(tree, found.policy)
    against = [efg.sign(player) * efg.value(node, response) for node in locked]
    mean = np.dot(DRAWN.weights, against) / sum(DRAWN.weights)
    assert found.value_against_model == pytest.approx(mean, abs=1e-12)
    assert found.exploitability <= found.exploitability_bound + 1e-9
    assert found.table["p"].tolist() == [pytest.approx(sum(DRAWN.weights))]


@players
def test_gadget_games_are_those_of_explicit_trees(player: int) -> None:
    tree, game = random_tree("bids", 3)
    where = SHAPES["bids"].cut
    blueprint = jg.Policy.dirichlet(tree, 7)
    asked = [
        jg.Unsafe(),
        jg.Resolving(jg.UniformPrior(), 0.2),
        jg.MaxMargin(jg.UniformPrior(), 0.2),
        jg.Full(jg.NoPrior()),
        jg.OptimalContinuation(jg.NoPrior()),
    ]
    found = jg.refine(tree, where, blueprint, asked, opponent=DRAWN, player=player, algorithm="lp")
    assert not found.failures
    components = cuts.components(game, cuts.depth_roots(game, int(where.removeprefix("depth:"))))
    (before,) = strategies(tree, blueprint)
    explicit = gadgets.subgames(game, components, player, before)
    for lane, gadget in enumerate(asked):
        kind = gadgets.KINDS[gadget.name]
        for number, subgame in enumerate(explicit[:1] if kind.is_joint else explicit):
            parts = models.parts_of(gadget.name, subgame)
            how = ("none", 0.0) if gadget.epsilon == 0 else ("uniform", 0.2)
            free = gadgets.build(gadget.name, subgame, *how)
            locked = [models.followed(parts, model) for model in drawn_strategies(tree)]
            optimum = lp.solve(drawn(free.root, locked), player, free.floors).value
            assert found.gadget_value[number, lane] == pytest.approx(optimum, abs=WITHIN), (gadget, number)
    is_bounded = [gadgets.KINDS[gadget.name].bound is not None for gadget in asked]
    assert (found.refined_exploitability <= found.exploitability_bound + 1e-9).tolist() == is_bounded


def rational_below(node: Node, number: int) -> Node:
    """A locked copy whose decisions below the limit have their own infosets."""
    if isinstance(node, Terminal):
        return node
    assert isinstance(node, Chance | Decision)
    children = tuple(rational_below(child, number) for child in node.children)
    if isinstance(node, Chance) or not (isinstance(node.infoset, tuple) and node.infoset[0] == "locked"):
        return dataclasses.replace(node, children=children)
    return Decision(node.player, (number, node.infoset), node.actions, children)


@players
def test_searches_are_those_of_games_with_a_copy_of_the_opponent_for_every_model(
    player: int,
) -> None:
    tree, _ = random_tree("betting", 3)
    found = nested_exactly(tree, opponent=DRAWN, depth=1, step=1, player=player)
    (settled,) = strategies(tree, found.policy)
    assert len(found.objectives) > 1
    for level, objective in enumerate(found.objectives[:, 0]):
        roots = depth_limited.level_histories(tree, player, "moves", level, 1)
        limit = depth_limited.limit_histories(tree, player, "moves", roots, 1)
        steps = [
            depth_limited.step_game(tree, player, model, 0.5, settled, roots, limit)
            for model in drawn_strategies(tree)
        ]
        free, copies = efg.children_of(steps[0])[0], [efg.children_of(step)[1] for step in steps]
        explicit = drawn(free, [rational_below(copy, number) for number, copy in enumerate(copies)])
        assert objective == pytest.approx(lp.solve(explicit, player).value, abs=WITHIN), level
    assert (found.nested_exploitability <= found.exploitability_bound + 1e-9).all()


def test_models_that_are_followed_to_the_end_leave_the_searches_a_response() -> None:
    tree, _ = random_tree("betting", 3)
    to_the_end = dataclasses.replace(DRAWN, beyond="model")
    found = nested_exactly(tree, opponent=to_the_end, depth=1, step=1)
    response = jg.respond(tree, DRAWN, algorithm="lp")
    np.testing.assert_allclose(found.objectives[0], response.objective, atol=WITHIN)


def test_sweeps_have_the_rows_of_refine_and_know_the_opponent(tmp_path: pathlib.Path) -> None:
    asked = {
        "games": "kuhn_poker",
        "cuts": "depth:1",
        "blueprints": "uniform",
        "gadgets": "resolving",
        "priors": "none",
        "players": 0,
        "iterations": 5,
        "progress": False,
    }
    both = [DRAWN, jg.Opponent("uniform", 0.25)]
    rows = jg.sweep(tmp_path, **sweeping(opponent=both, **asked))
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    result = jg.refine(
        tree,
        "depth:1",
        jg.Policy.uniform(tree),
        jg.Resolving(jg.NoPrior()),
        opponent=both,
        iterations=5,
        value=tuple(rows[["game_value_low", "game_value_high"]].iloc[0]),
    )
    columns = [name for name in SCHEMA.names if name in result.table and rows[name].notna().all()]
    assert {"model", "p", "gain", "refined_exploitability"} < set(columns)
    assert_frame_equal(rows[columns], result.table[columns], check_exact=True)
    assert rows["p"].tolist() == [pytest.approx(sum(DRAWN.weights)), 0.25]
    assert_frame_equal(jg.sweep(tmp_path, **sweeping(opponent=both, **asked)), rows)
    with pytest.raises(ValueError, match="has other settings"):
        other = dataclasses.replace(DRAWN, weights=(0.2, 0.35))
        jg.sweep(tmp_path, **sweeping(opponent=[other, both[1]], **asked))
