"""Which gadget and prior on turns and a flop: all subgames at the next card re-solved, and the exact loss.

The blueprint is a turn or flop after a few iterations. One player keeps it on the first street and re-solves
every river, or every turn with its rivers, after every line; the other player's best response deviates on all
streets. Solves are in float64: in float32 the small probabilities of a prior are lost to rounding.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from typing import Any

import numpy as np
import pandas as pd

from experiments.holdem.leaves import FLOP, MENU, SMOKE, TURN
from experiments.study import Settings
from jaxgadget import (
    BlueprintPrior,
    MaxMargin,
    NoPrior,
    Resolving,
    Solver,
    Spot,
    SpotSolution,
    UniformPrior,
    Unsafe,
    evaluate_spot,
    refine_spots,
    solve_spots,
)
from jaxgadget.gadgets.gadget import Gadget, describe
from jaxgadget.games.game import CHANCE
from jaxgadget.holdem.assembled import replace_turns
from jaxgadget.holdem.cards import card_name, cards_left
from jaxgadget.holdem.strategies import HeldRows, action_nodes, find_same, policy_to_rows, rows_to_policy
from jaxgadget.tree.public import public_tree

NAME = "gadgets"
PAIRED = Spot(
    board="Ks8h3d3c",
    oop="QQ-77,A9s+,KTs+,QTs+,JTs,T9s,AJo+,KQo",
    ip="TT+,77,55,33,A2s+,KTs+,QJs,76s,AJo+,KQo",
    pot=100,
    stack=250,
    menus=MENU,
)
"""A turn of another texture, with narrower ranges."""

SPOTS = {spot.board: spot for spot in (TURN, PAIRED, FLOP)}
SMOKE_DEAD = "".join(rank + suit for rank in "235689T" for suit in "cdhs") + "4c4d4s7c7d7sQcQdKcKdAcAd"
SMOKE_SPOTS = {
    TURN.board: SMOKE,
    FLOP.board: dataclasses.replace(FLOP, oop="AhKh,QsQh", ip="JsJd,KsQs", dead=SMOKE_DEAD),
}
"""Few hands and cards, for a smoke test."""

BLUEPRINT_ITERATIONS = (5, 20)
REFERENCE = {"iterations": 2000, "target_gap": "0.005%"}
"""Settings of the solves that give a spot's value and the optimal continuation."""

PRIORS = (NoPrior(), UniformPrior(), BlueprintPrior())
GADGETS: tuple[Gadget, ...] = (
    Unsafe(),
    *(Resolving(prior, epsilon=1e-3) for prior in PRIORS),
    *(MaxMargin(prior, epsilon=1e-3) for prior in PRIORS),
)


def compute(settings: Settings) -> pd.DataFrame:
    """A row for each spot, blueprint, player and gadget."""
    keys = [
        {"spot": board, "blueprint": iterations, "player": player}
        for board in settings.pick(SPOTS, SMOKE_SPOTS)
        for iterations in settings.pick(BLUEPRINT_ITERATIONS, (2,))
        for player in settings.pick((0, 1), (0,))
    ]
    return settings.gather(NAME, keys, functools.partial(_rows, settings))


def _rows(settings: Settings, key: dict[str, Any]) -> pd.DataFrame:
    spot, player = settings.pick(SPOTS, SMOKE_SPOTS)[key["spot"]], key["player"]
    blueprint, optimum = _solved(spot, key["blueprint"]), _optimum(spot, settings.smoke)
    began = time.perf_counter()
    refined, gaps = _refine(settings, blueprint, player)
    seconds = time.perf_counter() - began
    rows = [{"gadget": "blueprint", "exploitability": exploitability(blueprint, optimum, player)}]
    for number, (gadget, gap) in enumerate(zip(GADGETS, gaps, strict=True)):
        strategies = {line: (below, held[number]) for line, (below, held) in refined.items()}
        assembled = _assemble(blueprint, strategies, player, describe(gadget))
        loss = exploitability(assembled, optimum, player)
        rows.append({"gadget": describe(gadget), "exploitability": loss, "largest_gap": gap})
    locks = [lock for lock in blueprint.locks_of(player) if _is_before_deal(spot, lock.line)]
    continued = _reference(spot, settings.smoke, locks=locks)
    best = optimum.ev[player] - continued.ev[player]
    rows.append({"gadget": "optimal continuation", "exploitability": best})
    frame = pd.DataFrame(rows).assign(**key, bracket=optimum.gap / 2, subgames=len(refined), seconds=seconds)
    return frame.astype({"largest_gap": float})


def _refine(
    settings: Settings, blueprint: SpotSolution, player: int
) -> tuple[dict[str, tuple[Spot, list[HeldRows]]], list[float]]:
    """The player's strategies in all subgames at the next card, re-solved.

    Returns:
      By line the subgame, with a strategy for each gadget; and for each gadget the largest gap of its games,
      in chips.
    """
    solver = Solver(iterations=settings.pick(1000, 3), dtype="float64", progress=False)
    refined, gaps = dict[str, tuple[Spot, list[HeldRows]]](), np.zeros(len(GADGETS))
    lines = find_lines(blueprint)
    for number, line in enumerate(lines):
        below = blueprint.after(line)
        (results,) = refine_spots(
            [below.spot], GADGETS, blueprints=[below], player=player, hands_in_range=True, solver=solver
        )
        spot = dataclasses.replace(below.spot)  # a copy without the tables that a spot caches
        hands = np.flatnonzero(spot.range_weights[player] > 0)
        rows = [policy_to_rows(each.policy)[player][:, hands] for each in results]
        nodes, num_hands = spot.betting.tree, len(spot.hands)
        refined[line] = spot, [HeldRows.of(nodes, player, own, hands, num_hands) for own in rows]
        gaps = np.maximum(gaps, [each.gap for each in results])
        if settings.progress:
            print(f"{number + 1} of {len(lines)}: {line}", flush=True)
    return refined, gaps.tolist()


def _solved(spot: Spot, iterations: int, **settings: Any) -> SpotSolution:
    """A spot after some iterations of DCFR, or until its gap is small enough."""
    locks = settings.pop("locks", ())
    solver = Solver(algorithm="dcfr", iterations=iterations, dtype="float32", progress=False, **settings)
    return solve_spots([spot], solver=solver, locks=locks)[0]


def _reference(spot: Spot, smoke: bool, **settings: Any) -> SpotSolution:
    """A spot solved to a small gap."""
    return _solved(spot, 5, **settings) if smoke else _solved(spot, **REFERENCE, **settings)


_optimum = functools.lru_cache(maxsize=1)(_reference)


def find_lines(solution: SpotSolution) -> list[str]:
    """Lines that end with the next card, after which players can still bet.

    On a flop, one card of each class that an exchange of suits merges.
    """
    spot = solution.spot
    betting, lines = spot.street_betting, list[str]()
    cards = cards_left(spot.gone).tolist()
    if solution.streets is not None:
        cards = [lane.cards[0] for lane in solution.streets.runouts.lanes[1]]
    first_street = [
        node for node in np.flatnonzero(betting.tree.actor == CHANCE).tolist() if betting.card[node] < 0
    ]
    for node in first_street:
        below = [betting.children(node)[0]]
        for each in below:
            below += betting.children(each)
        if (betting.tree.num_children[below] > 1).any():
            lines += [f"{betting.line(node)}, {card_name(card)}" for card in cards]
    return lines


def _is_before_deal(spot: Spot, line: str) -> bool:
    """True for a line on the first street."""
    return spot.is_flop or not line or int(spot.betting.card[spot.betting.find(line)]) < 0


def exploitability(profile: SpotSolution, optimum: SpotSolution, player: int) -> float:
    """Loss of a player's strategy against a best response, relative to the spot's value, in chips."""
    other = 1 - player
    return profile.ev[other] + profile.gains[other] - optimum.ev[other]


def _assemble(
    blueprint: SpotSolution, strategies: dict[str, tuple[Spot, HeldRows]], player: int, label: str
) -> SpotSolution:
    """The blueprint with a player's strategies in all subgames replaced, evaluated exactly."""
    spot = blueprint.spot
    if spot.is_flop:
        return replace_turns(blueprint, {k: held for k, (_, held) in strategies.items()}, player, label=label)
    pair, tree = [*blueprint.probabilities], spot.betting.tree
    for line, (river, held) in strategies.items():
        nodes = river.betting.tree
        same = find_same(nodes, tree, spot.betting.find(line))
        place = np.searchsorted(action_nodes(tree, player), same[action_nodes(nodes, player)])
        pair[player][np.ix_(place, np.searchsorted(spot.hands, river.hands))] = held.whole()
    policy = rows_to_policy(public_tree(spot), (pair[0], pair[1]), label)
    return evaluate_spot(spot, policy)


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Exploitability in % of the pot (100 chips), after 5 and 20 iterations of DCFR for the blueprint.

    Of the first player (0) and the second (1), against the spot's value, which is known to ± `bracket`.
    *Optimal continuation*: the least that any play after the next card can reach, with the blueprint before
    it.
    """
    tables: dict[str, pd.DataFrame] = {}
    for board, rows in frame.groupby("spot", sort=False):
        wide = rows.pivot_table(
            index="gadget", columns=["blueprint", "player"], values="exploitability", sort=False
        )
        wide.columns = [f"{iterations} iterations, player {player}" for iterations, player in wide.columns]
        title = f"{board}, value ± {rows['bracket'].max():.2g}"
        tables[title] = wide.reset_index()
    return tables
