"""Refinement → records of its subgames: margins, gains, gaps, and the opponent's entry and promises."""

from __future__ import annotations

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
    forest, player = refinement.forest, refinement.player
    roots = forest.roots[1 - player]
    names = _root_names(refinement)
    before = prepare(forest, player, refinement.blueprint).ranges
    blueprint = refinement.lanes.blueprint
    after = _refined_values(refinement)
    mass, best = before.mass[:, blueprint], before.cbv[:, blueprint]
    played = before.opponent[:, blueprint] * (after - best)
    with np.errstate(invalid="ignore", divide="ignore"):
        promised, worth, now = (
            np.where(mass > 0, x / mass, np.nan) for x in (refinement.alternative, best, after)
        )
    margin = now - np.where(np.isnan(promised), worth, promised)
    response = best_response(refinement.policy, 1 - player).policy.reach(1 - player)
    response = roots.reach(response)
    first = [int(np.flatnonzero(forest.cut.subgame == s)[0]) for s in range(forest.num_subgames)]
    node = number_of[nodes.of[forest.cut.roots[first]]]
    of_subgame = [np.flatnonzero(roots.subgame == s) for s in range(forest.num_subgames)]
    records: list[dict[str, Any]] = []
    for lane in range(refinement.policy.num_lanes):
        rows: list[dict[str, Any]] = []
        for subgame, members in enumerate(of_subgame):
            known = margin[members, lane]
            known = known[~np.isnan(known)]
            rows.append(
                {
                    "subgame": subgame,
                    "node": int(node[subgame]),
                    "value": _number(refinement.gadget_value[subgame, lane]),
                    "gap": _number(refinement.gap[subgame, lane]),
                    "margin": _number(known.min()) if len(known) else None,
                    "gain": _number(played[members, lane].sum()),
                    "decision": bool(refinement.has_decision[subgame, lane]),
                }
            )
        entries = [
            [
                {
                    "name": names[root],
                    "reach": _number(before.opponent[root, blueprint[lane]]),
                    "response": _number(response[root, lane]),
                    "entered": _number(refinement.entered[root, lane]),
                    "mass": _number(mass[root, lane]),
                    "promised": _number(promised[root, lane]),
                    "blueprint": _number(worth[root, lane]),
                    "refined": _number(now[root, lane]),
                    "margin": _number(margin[root, lane]),
                }
                for root in members.tolist()
            ]
            for members in of_subgame
        ]
        records.append({"subgames": rows, "roots": entries})
    return records


def describe_spot(refinement: SpotRefinement) -> dict[str, Any]:
    """The same record for a spot of hold'em, a single subgame; the opponent's roots are hands, in chips."""
    spot, other = refinement.spot, 1 - refinement.player
    promised, refined = spot.pot - refinement.alternative, spot.pot - refinement.best_response
    margin, mass = refined - promised, spot.compatible[other] / spot.weight_of_pairs
    shown = np.flatnonzero(~np.isnan(margin))
    shown = shown[np.argsort(margin[shown], kind="stable")]
    weights = spot.range_weights[other]
    names = spot.hand_names
    gain = float(np.nansum(weights * mass * margin))
    return {
        "subgames": [
            {
                "subgame": 0,
                "node": 0,
                "value": _number(refinement.gadget_value),
                "gap": _number(refinement.gap),
                "margin": _number(refinement.margin),
                "gain": _number(gain),
                "decision": True,
            }
        ],
        "roots": [
            [
                {
                    "name": names[hand],
                    "reach": _number(weights[hand]),
                    "response": None,
                    "entered": _number(refinement.entered[hand]),
                    "mass": _number(mass[hand]),
                    "promised": _number(promised[hand]),
                    "blueprint": None,
                    "refined": _number(refined[hand]),
                    "margin": _number(margin[hand]),
                }
                for hand in shown.tolist()
            ]
        ],
    }


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


def _number(x: Any) -> float | None:
    """A number with five digits; None for NaN."""
    value = jsonable(float(x))
    return None if value is None else float(f"{value:.5g}")
