"""Published figures of an established solver and of theory, beside our results."""

from __future__ import annotations

from typing import Any

import pandas as pd

from experiments.holdem.common import ALL_IN_ONCE, HALF, NARROW, NEVER, RANDOM, river
from experiments.study import Settings
from jaxgadget import Policy, Solver, SpotSolution, best_response, evaluate_spot, public_tree, solve_spots
from jaxgadget.holdem.strategies import action_nodes, policy_to_rows, rows_to_policy

NAME = "figures"

ITERATIONS, SMOKE_ITERATIONS = 1000, 20

SOLVED = {
    "full ranges": (RANDOM, 93.8103, 0.0278),
    "167 × 246 hands": (NARROW, 91.10738, 0.0149),
}
"""EV of the first player and exploitability after 1,000 iterations of DCFR in an established solver."""

FREQUENCIES = {"check": 0.736, "bet 100": 0.260, "bet 200": 0.0043}
"""The first player's initial strategy with full ranges, by the same solver."""

BLUFFS = river(("AsAh,QsQh", "KsKh"), board="2s3h4d6c7c", pot=20, stack=10, menus=(ALL_IN_ONCE, NEVER))
"""The first player has the best hand or a bluff, the second a hand that beats bluffs."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row per figure; `exploitability` is that of our strategies, in chips."""
    iterations = settings.pick(ITERATIONS, SMOKE_ITERATIONS)
    rows: list[dict[str, Any]] = []

    def add(what: str, elsewhere: float, ours: float, theirs_off: float, ours_off: float) -> None:
        rows.append(
            {
                "figure": what,
                "elsewhere": elsewhere,
                "here": ours,
                "exploitability_elsewhere": theirs_off,
                "exploitability": ours_off,
            }
        )

    for name, (ranges, ev, off) in SOLVED.items():
        (solution,) = solve_spots([river(ranges)], iterations=iterations)
        add(f"EV, {name}", ev, solution.ev[0], off, solution.exploitability)
        if ranges == RANDOM:
            found = solution.frequencies()
            for action, share in FREQUENCIES.items():
                add(f"{action}, {name}", share, found[action], off, solution.exploitability)
    for name, menus, ev in (("never bets", (HALF, NEVER), 37.5), ("may bet, too", (HALF, HALF), 33.75)):
        spot = river(board="Td9d6hQc7s", pot=60, stack=100, menus=menus)
        uniform = evaluate_spot(spot, Policy.uniform(public_tree(spot)))
        add(f"EV of uniform play, the second {name}", ev, uniform.ev[0], 0, 0)
    for folds, evs in ((0.25, {"AsAh": 27.5, "KsKh": 6.25}), (0.5, {"AsAh": 25, "QsQh": 5, "KsKh": 5})):
        answer = _best_response(folds)
        for hand, ev in evs.items():
            add(f"EV of {hand}, KK folds {folds:.0%}", ev, _ev(answer, hand), 0, 0)
    (solution,) = solve_spots(
        [BLUFFS], solver=Solver(algorithm="cfr+", iterations=5 * iterations, dtype="float64")
    )
    for what, line, action, hand, share in (
        ("QQ bluffs", "", "all-in 10", "QsQh", 1 / 3),
        ("KK calls", "all-in 10", "call", "KsKh", 2 / 3),
    ):
        played = solution.strategy(line)[action][BLUFFS.hand_names.index(hand)]
        add(what, share, float(played), 0, solution.exploitability)
    return pd.DataFrame(rows)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Figures in chips, or shares of the hands; `off` is the difference.

    Exploitabilities are half of NashConv, in chips; 0 where strategies are given or exact.
    """
    return frame.assign(off=frame["here"] - frame["elsewhere"])


def _best_response(folds: float) -> SpotSolution:
    """The first player's best response to kings that fold with a given probability."""
    tree = public_tree(BLUFFS)
    first, rows = policy_to_rows(Policy.uniform(tree))
    for row, node in enumerate(action_nodes(tree.nodes, 1).tolist()):
        rows[row] = {"fold": folds, "call": 1 - folds}.get(BLUFFS.betting.action_name(node), 1.0)
    fixed = rows_to_policy(tree, (first, rows), "folds")
    return evaluate_spot(BLUFFS, best_response(fixed, 0).policy)


def _ev(solution: SpotSolution, hand: str) -> float:
    player = 1 if hand == "KsKh" else 0
    return float(solution.hand_ev[player][BLUFFS.hand_names.index(hand)])
