"""Refinement → records of its subgames: margins, gains, gaps, and the opponent's entry and promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxgadget.explorer.nodes import Nodes
from jaxgadget.games.hands import DealsHands
from jaxgadget.policy.evaluate import best_response
from jaxgadget.policy.policy import Policy
from jaxgadget.report.names import short_names
from jaxgadget.subgames.prepare import prepare
from jaxgadget.subgames.refine import Refinement
from jaxgadget.subgames.spots import SpotRefinement
from jaxgadget.tree.hands import hands_of
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.records import jsonable


def describe_subgames(nodes: Nodes, refinement: Refinement, number_of: IntArray) -> list[dict[str, Any]]:
    """A record for each lane of a refinement; see `subgames` in `schema.json`.

    Values at the opponent's roots are in the resolving player's utility and for each visit: those that the
    gadget offered (promised), and those of the opponent's best response inside a subgame, against the
    blueprint and against the refined strategy. Margins are over what was promised, or, if nothing was, over
    the value against the blueprint.

    Args:
      nodes: the public nodes of the refinement's tree.
      refinement: the refinement.
      number_of: `[N]` number of each public node in the document, -1 for none.
    """
    forest, cut = refinement.forest, refinement.forest.cut
    roots = forest.roots[1 - refinement.player]
    columns, gain = _root_columns(refinement)
    names = _root_names(refinement)
    of_subgame = [np.flatnonzero(roots.subgame == s) for s in range(forest.num_subgames)]
    first = [int(np.flatnonzero(cut.subgame == s)[0]) for s in range(forest.num_subgames)]
    node = number_of[nodes.of[cut.roots[first]]]
    records: list[dict[str, Any]] = []
    for lane in range(refinement.policy.num_lanes):
        subgames = [
            {
                "subgame": subgame,
                "node": int(node[subgame]),
                "value": _number(refinement.gadget_value[subgame, lane]),
                "gap": _number(refinement.gap[subgame, lane]),
                "margin": _smallest(columns["margin"][members, lane]),
                "gain": _number(gain[members, lane].sum()),
                "decision": bool(refinement.has_decision[subgame, lane]),
            }
            for subgame, members in enumerate(of_subgame)
        ]
        entries = [_root_records(names, columns, members, lane) for members in of_subgame]
        records.append({"subgames": subgames, "roots": entries})
    return records


def describe_spot(refinement: SpotRefinement) -> dict[str, Any]:
    """The same record for a spot of hold'em, a single subgame; the opponent's roots are hands, in chips."""
    spot, other = refinement.spot, 1 - refinement.player
    promised, refined = spot.pot - refinement.alternative, spot.pot - refinement.best_response
    margin, mass = refined - promised, spot.compatible[other] / spot.weight_of_pairs
    reach, unknown = spot.range_weights[other], np.full(len(margin), np.nan)
    hands = np.flatnonzero(~np.isnan(margin))
    hands = hands[np.argsort(margin[hands], kind="stable")]
    numbers = {
        "reach": reach,
        "response": unknown,
        "entered": refinement.entered,
        "mass": mass,
        "promised": promised,
        "blueprint": unknown,
        "refined": refined,
        "margin": margin,
    }
    columns = {name: values[:, None] for name, values in numbers.items()}
    subgame = {
        "subgame": 0,
        "node": 0,
        "value": _number(refinement.gadget_value),
        "gap": _number(refinement.gap),
        "margin": _number(refinement.margin),
        "gain": _number(np.nansum(reach * mass * margin)),
        "decision": True,
    }
    return {"subgames": [subgame], "roots": [_root_records(spot.hand_names, columns, hands, 0)]}


def _root_columns(refinement: Refinement) -> tuple[dict[str, FloatArray], FloatArray]:
    """Numbers of the opponent's roots, and what was gained at each, `[R, lanes]` each; see `roots`."""
    player, blueprint = refinement.player, refinement.lanes.blueprint
    ranges = prepare(refinement.forest, player, refinement.blueprint).ranges
    reach, mass, before = (x[:, blueprint] for x in (ranges.opponent, ranges.mass, ranges.cbv))
    after = _refined_values(refinement)
    with np.errstate(invalid="ignore", divide="ignore"):
        promised, old, new = (
            np.where(mass > 0, x / mass, np.nan) for x in (refinement.alternative, before, after)
        )
    response = best_response(refinement.policy, 1 - player).policy.reach(1 - player)
    columns = {
        "reach": reach,
        "response": refinement.forest.roots[1 - player].reach(response),
        "entered": refinement.entered,
        "mass": mass,
        "promised": promised,
        "blueprint": old,
        "refined": new,
        "margin": new - np.where(np.isnan(promised), old, promised),
    }
    return columns, reach * (after - before)


def _root_records(
    names: Sequence[str], columns: Mapping[str, FloatArray], roots: IntArray, lane: int
) -> list[dict[str, Any]]:
    """Records of roots from their names and columns `[R, lanes]`."""
    return [
        {"name": names[root], **{key: _number(values[root, lane]) for key, values in columns.items()}}
        for root in roots.tolist()
    ]


def _refined_values(refinement: Refinement) -> FloatArray:
    """`[R, lanes]` counterfactual values of the opponent's best response to the refined strategies."""
    player, lanes = refinement.player, refinement.lanes.blueprint
    blueprint = refinement.blueprint
    rows = (blueprint.probabilities[0][:, lanes], blueprint.probabilities[1][:, lanes])
    profile = Policy(blueprint.tree, rows, refinement.policy.labels)
    profile = profile.with_player(player, refinement.policy.probabilities[player])
    return prepare(refinement.forest, player, profile).ranges.cbv


def _root_names(refinement: Refinement) -> list[str]:
    """`[R]` names of the opponent's private states, short where they are unique in their subgame."""
    forest, other = refinement.forest, 1 - refinement.player
    tree, roots, cut = forest.tree, forest.roots[other], forest.cut
    whole = forest.root_names(other)
    if isinstance(tree, HistoryTree) and isinstance(tree.game, DealsHands):
        hands = tree.game.by_hands().hands[other]
        hand = dict(
            zip(
                tree.infostate[other, cut.roots].tolist(),
                hands_of(tree).hand[other, cut.roots].tolist(),
                strict=True,
            )
        )
        return [hands[hand[state]] for state in roots.infostate.tolist()]
    if not isinstance(tree, HistoryTree):
        hands = forest.tree.hands_game.hands[other]  # pyright: ignore[reportAttributeAccessIssue]
        return [hands[state % len(hands)] for state in roots.infostate.tolist()]
    names = [""] * len(whole)
    for subgame in range(forest.num_subgames):
        members = np.flatnonzero(roots.subgame == subgame).tolist()
        for root, name in zip(members, short_names([whole[root] for root in members])[0], strict=True):
            names[root] = name
    return names


def _smallest(x: FloatArray) -> float | None:
    """The smallest number with five digits; None if all are NaN."""
    return None if np.isnan(x).all() else _number(np.nanmin(x))


def _number(x: Any) -> float | None:
    """A number with five digits; None for NaN."""
    value = jsonable(float(x))
    return None if value is None else float(f"{value:.5g}")
