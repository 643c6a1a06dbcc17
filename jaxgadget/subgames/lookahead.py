"""Solves lookaheads with gadgets, by CFR or linear programs; returns strategies with a certificate.

Each lane has its own gadget, opponent and ranges; all lanes share the values at the limit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from jaxgadget.core.certificate import find_overflows
from jaxgadget.core.driver import Report
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.capabilities import Capability, check_capabilities
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.games import Prepared, build_games, group_gadgets
from jaxgadget.subgames.engine import solve_games
from jaxgadget.util.arrays import BoolArray, FloatArray
from jaxgadget.util.lanes import Lanes

SEARCH = frozenset({Capability.RANGE, Capability.ROOT_VALUES, Capability.ROOT_PRIOR, Capability.SPREAD})
"""Capabilities of searches without the opponent's decisions above their roots."""


class SolvedLookahead(NamedTuple):
    """Solutions of lookaheads, in host memory; S subgames, L lanes.

    Attributes:
      strategy: both players' average strategies `[Q_p, L]`; undefined rows are filled in.
      value: `[S, L]` value guaranteed by the searching player's strategy in each gadget game.
      gap: `[S, L]` NashConv of each gadget game.
      has_decision: `[S, L]` False where there was nothing to solve.
      iterations: `[L]` completed iterations.
      failures: lanes that overflowed, with the subgame; their strategies are unchanged, and their numbers are
        NaN.
    """

    strategy: tuple[FloatArray, FloatArray]
    value: FloatArray
    gap: FloatArray
    has_decision: BoolArray
    iterations: npt.NDArray[np.int64]
    failures: dict[int, str]


def solve_lookahead(
    prepared: Prepared,
    gadgets: Sequence[Gadget],
    lanes: Lanes,
    names: Sequence[str],
    solver: Solver,
    report: Report,
) -> SolvedLookahead:
    """Solves the gadget games of all lanes; each lane has its gadget and ranges.

    Args:
      prepared: the lookahead, with ranges and strategies of L lanes; strategies are unchanged where a search
        has no result.
      gadgets: the gadgets; those that require a trunk are rejected if the ranges have none.
      lanes: the gadget and opponent of each of the L lanes.
      names: L lane names for messages.
      solver: settings of the solve.
      report: progress callback; receives the number of completed iterations in each group of gadgets.

    Raises:
      ValueError: for a gadget that requires data that a search does not provide.
    """
    ranges, rows, player = prepared.ranges, prepared.rows, prepared.player
    trunk = frozenset({Capability.TRUNK, Capability.WAY}) if ranges.trunk is not None else frozenset()
    check_capabilities(gadgets, SEARCH | trunk, "a search", "Unsafe(), Resolving() or MaxMargin()")
    count, num_subgames = len(lanes), ranges.num_subgames
    strategy = np.zeros_like(rows[0]), np.zeros_like(rows[1])
    value, gap = np.zeros((num_subgames, count)), np.zeros((num_subgames, count))
    has_decision = np.zeros((num_subgames, count), np.bool_)
    iterations, failures = np.zeros(count, np.int64), dict[int, str]()
    for group in group_gadgets(gadgets):
        solved_lanes = lanes.of_gadgets(group)
        group_lanes = dataclasses.replace(lanes.only_gadgets(group), blueprint=solved_lanes)
        games = build_games(prepared, [gadgets[gadget] for gadget in group], lanes=group_lanes)
        group_names = [names[int(lane)] for lane in solved_lanes]
        solved = solve_games(games, solver, names=group_names, report=report)
        num_games = games.batch.num_games
        for p in (0, 1):
            strategy[p][:, solved_lanes] = solved.strategy[p]
        value[:num_games, solved_lanes] = solved.guaranteed[player]
        gap[:num_games, solved_lanes] = solved.gap
        has_decision[:, solved_lanes] = games.has_decision(np.arange(len(solved_lanes)))
        iterations[solved_lanes] = solved.iterations
        failures |= {int(solved_lanes[lane]): why for lane, why in solved.failures.items()}
    remedy = "use dtype='float64'" if solver.precision == np.float32 else "use smaller values at the limit"
    for lane, subgame in find_overflows(gap).items():
        why = f"the search of subgame {subgame} overflowed in {solver.precision}; {remedy}"
        failures.setdefault(lane, f"{names[lane]}: {why}")
    for lane in failures:
        for p in (0, 1):
            strategy[p][:, lane] = rows[p][:, lane]
        value[:, lane], gap[:, lane], has_decision[:, lane] = np.nan, np.nan, False
    return SolvedLookahead(strategy, value, np.maximum(gap, 0), has_decision, iterations, failures)
