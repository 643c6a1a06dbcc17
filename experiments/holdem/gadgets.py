"""Which gadget and prior on turns: all rivers below a turn re-solved, and the exact exploitability.

The blueprint is a turn after a few iterations. One player keeps it on the turn and re-solves every river
after every line; the opponent's best response deviates on both streets.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pandas as pd

from experiments.holdem.leaves import SMOKE, TURN
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
from jaxgadget.holdem.cards import card_name, cards_left
from jaxgadget.holdem.strategies import action_nodes, find_same, policy_to_rows, rows_to_policy
from jaxgadget.tree.public import public_tree

NAME = "gadgets"
BLUEPRINT_ITERATIONS = (5, 20)
PRIORS = (NoPrior(), UniformPrior(), BlueprintPrior())
GADGETS: tuple[Gadget, ...] = (
    Unsafe(),
    *(Resolving(prior, epsilon=1e-3) for prior in PRIORS),
    *(MaxMargin(prior, epsilon=1e-3) for prior in PRIORS),
)


def compute(settings: Settings) -> pd.DataFrame:
    """A row for each blueprint, player and gadget."""
    keys = [
        {"blueprint": iterations, "player": player}
        for iterations in settings.pick(BLUEPRINT_ITERATIONS, (2,))
        for player in settings.pick((0, 1), (0,))
    ]
    return settings.gather(NAME, keys, functools.partial(_rows, settings))


def _rows(settings: Settings, key: dict[str, Any]) -> pd.DataFrame:
    turn, player = settings.pick(TURN, SMOKE), key["player"]
    blueprint = _solved(turn, key["blueprint"])
    optimum = _solved(turn, settings.pick(1500, 5))
    lines = find_lines(turn)
    rivers = [blueprint.after(line) for line in lines]
    solver = Solver(iterations=settings.pick(1000, 3), dtype="float32", progress=settings.progress)
    refined = refine_spots(
        [river.spot for river in rivers],
        GADGETS,
        blueprints=rivers,
        player=player,
        hands_in_range=True,
        solver=solver,
    )
    rows = [{"gadget": "blueprint", "exploitability": exploitability(blueprint, optimum, player)}]
    for number, gadget in enumerate(GADGETS):
        assembled = blueprint.probabilities[player].copy()
        for line, each in zip(lines, refined, strict=True):
            _place(
                turn, assembled, line, each[number].spot, policy_to_rows(each[number].policy)[player], player
            )
        pair = [*blueprint.probabilities]
        pair[player] = assembled
        policy = rows_to_policy(public_tree(turn), (pair[0], pair[1]), describe(gadget))
        loss = exploitability(evaluate_spot(turn, policy), optimum, player)
        rows.append({"gadget": describe(gadget), "exploitability": loss})
    locks = [lock for lock in blueprint.locks_of(player) if _is_before_river(turn, lock.line)]
    continued = _solved(turn, settings.pick(1500, 5), locks=locks)
    best = optimum.ev[player] - continued.ev[player]
    rows.append({"gadget": "optimal continuation", "exploitability": best})
    frame = pd.DataFrame(rows)
    return frame.assign(**key, bracket=optimum.gap / 2 + 0 * frame["exploitability"])


def _solved(turn: Spot, iterations: int, **settings: Any) -> SpotSolution:
    solver = Solver(algorithm="dcfr", iterations=iterations, dtype="float32", progress=False)
    return solve_spots([turn], solver=solver, **settings)[0]


def find_lines(turn: Spot) -> list[str]:
    """Lines that end with the river's card, after which players can still bet."""
    betting, lines = turn.street_betting, list[str]()
    for node in np.flatnonzero(betting.tree.actor == CHANCE).tolist():
        (below,) = betting.children(node)
        if betting.tree.num_children[below]:
            lines += [f"{betting.line(node)}, {card_name(card)}" for card in cards_left(turn.gone).tolist()]
    return lines


def _is_before_river(turn: Spot, line: str) -> bool:
    """True for a line on the turn."""
    return int(turn.betting.card[turn.betting.find(line)]) < 0 if line else True


def exploitability(profile: SpotSolution, optimum: SpotSolution, player: int) -> float:
    """Loss of a player's strategy against a best response, relative to the turn's value, in chips."""
    other = 1 - player
    return profile.ev[other] + profile.gains[other] - optimum.ev[other]


def _place(turn: Spot, rows: np.ndarray[Any, Any], line: str, river: Spot, own: Any, player: int) -> None:
    """Writes a player's strategy on a river into its rows `[C, H]` of the turn."""
    tree, nodes = turn.betting.tree, river.betting.tree
    same = find_same(nodes, tree, turn.betting.find(line))
    place = np.searchsorted(action_nodes(tree, player), same[action_nodes(nodes, player)])
    rows[np.ix_(place, np.searchsorted(turn.hands, river.hands))] = own


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Exploitability in % of the pot (100 chips), after 5 and 20 iterations of DCFR for the blueprint.

    Of the first player (0) and the second (1), against the turn's value, which is known to ± `bracket`.
    *Optimal continuation*: the least that any play on the rivers can reach with the blueprint on the turn.
    """
    wide = frame.pivot_table(
        index="gadget", columns=["blueprint", "player"], values="exploitability", sort=False
    )
    wide.columns = [f"{iterations} iterations, player {player}" for iterations, player in wide.columns]
    return wide.reset_index()
