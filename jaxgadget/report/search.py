"""What nested search, training and matches found, as tables for people and records for scripts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from jaxgadget.opponents.opponent import show_probability
from jaxgadget.report.opponents import share_of_best
from jaxgadget.report.tables import KNOWLEDGE, make_table, said_order, table_title

if TYPE_CHECKING:
    import pandas as pd

    from jaxgadget.learn.range_training import RangeTraining
    from jaxgadget.learn.training import Training
    from jaxgadget.subgames.knowledge import Knowledge
    from jaxgadget.subgames.nested import Nested
    from jaxgadget.util.arrays import FloatArray

FEW_OBJECTIVES = 12
"""Lanes whose objectives are told below a table; more are in the JSON alone."""


def nested_records(searched: Sequence[Nested], together: FloatArray | None) -> dict[str, Any]:
    """What `jaxgadget nested --json` writes.

    Args:
      searched: for each player who searched.
      together: `[lanes]` NashConv of both players' searches together, in the order of a player's rows.
    """
    tree, any_failed = searched[0].policy.tree, any(nested.failures for nested in searched)
    return {
        "game": tree.game.name,
        "algorithm": searched[0].algorithm,
        "iterations": max(int(nested.iterations.max(initial=0)) for nested in searched),
        "game_value": list(searched[0].game_value),
        "rows": [
            _record(row, [*KNOWLEDGE] * (nested.knowledge is None) + ["failure"] * (not any_failed))
            for nested in searched
            for row in nested.table.to_dict("records")
        ],
        **({"constant": tree.constant} if tree.constant else {}),
        **({} if together is None else {"nash_conv": together.tolist()}),
    }


def _record(row: Mapping[Any, Any], without: Sequence[str]) -> dict[str, Any]:
    """A row of a table as JSON has it."""
    record = {str(name): value for name, value in row.items() if name not in without}
    return record | ({"order": said_order(record["order"])} if "order" in record else {})


def together_note(labels: Sequence[str], together: FloatArray) -> str:
    """NashConv of both players' searches together, `[lanes]`."""
    shown = "; ".join(f"{label}: {number:.5f}" for label, number in zip(labels, together, strict=True))
    return f"NashConv of the two together: {shown}."


def nested_table(nested: Nested) -> Table:
    """A line for every blueprint, opponent and gadget."""
    modelled = any(label is not None for label in nested.opponents.labels)
    names, gains = (("model", "p"), ("gain", "of best", "bound")) if modelled else ((), ())
    effort = () if modelled else ("searches", "seconds")  # the notes have their sums, and lines their ends
    numbers = ("ε", "before", "nested", *gains, "largest\ngap", *effort)
    right = (*names[1:], *numbers)
    columns = ("blueprint", *names, "gadget", "prior", *numbers)
    shown = make_table(*columns, right=right, fold="blueprint")
    shown.title = f"Exploitability of player {nested.player}"
    for lane, row in enumerate(nested.table.to_dict("records")):
        failed = lane in nested.failures
        opponent = (str(row["model"]), show_probability(row["p"])) if modelled else ()
        gain, bound = (_number(row[name]) for name in ("gain", "exploitability_bound"))
        share = share_of_best(row["gain"], row["best_response_gain"], nested.game_value)
        shown.add_row(
            row["blueprint"],
            *opponent,
            row["gadget"],
            row["prior"],
            f"{row['epsilon']:g}",
            f"{row['blueprint_exploitability']:.5f}",
            "–" if failed else f"{row['nested_exploitability']:.5f}",
            *((gain, share, bound) if modelled else ()),
            "–" if failed else f"{row['gap_max']:.2g}",
            *(() if modelled else (str(row["searches"]), f"{row['seconds']:.2f}")),
        )
    return shown


def _number(value: float) -> str:
    """A number that may be unknown."""
    return f"{value:.5f}" if math.isfinite(value) else "–"


def nested_notes(nested: Nested) -> list[str]:
    """What was done, and what the numbers mean."""
    low, high = nested.game_value
    seconds = max(float(nested.seconds.sum()), 1e-9)
    return [
        _how_nested(nested),
        _how_safe(nested.knowledge),
        f"{int(nested.searches.sum())} searches, {nested.searches.sum() / seconds:.1f} a second"
        f"{_in_values(nested, seconds)}. Compiling is counted.",
        *_of_models(nested),
        "Before: the blueprint's; largest gap: NashConv of a search's own depth-limited game; seconds: an "
        "equal share of what all lanes took together.",
        "Exploitability is v* − value against a best response, of the assembled policy in the whole game, "
        f"with v* between {low:.9g} and {high:.9g} (player 0's). OpenSpiel's exploitability is another "
        "number: half of NashConv.",
    ]


def _how_safe(knowledge: Knowledge | None) -> str:
    """That search from own infostates is not safe, if that is what was done."""
    if knowledge is None or knowledge.order == math.inf:
        return ""
    return "Not safe: exploitability may rise, as searches from own infostates do not know of each other."


def _of_models(nested: Nested) -> list[str]:
    """What was found against models, step by step, if there are any."""
    if all(label is None for label in nested.opponents.labels):
        return []
    known = np.flatnonzero(np.isfinite(nested.objectives).any(axis=0))
    steps = [
        f"{nested.policy.labels[lane]}: {', '.join(map(_number, nested.objectives[:, lane].tolist()))}"
        for lane in known.tolist()
    ]
    branches = any(gadget.name != "optimal-continuation" for gadget in nested.gadgets)
    least = ", branch by branch the least of all branches" if branches else ""
    bound = (
        "; bound: of exploitability, (p × gain + all gaps) / (1 − p), for joint searches with optimal values"
    )
    return [
        "Gain: what the policy earns against the model, less the game's value; of best: its share of a best "
        f"response's{bound if np.isfinite(nested.exploitability_bound).any() else ''}.",
        "Objectives of the steps, p × against the model as far as it is followed + (1 − p) × "
        f"guaranteed{least}: {'; '.join(steps)}."
        if 0 < len(steps) <= FEW_OBJECTIVES
        else "",
    ]


def _in_values(nested: Nested, seconds: float) -> str:
    """How much of the time went into values at the limit, if that is known."""
    share = nested.value_seconds / seconds
    return f"; {share:.0%} of the time went into values at the limit" if math.isfinite(share) else ""


def _how_nested(nested: Nested) -> str:
    game = f"{nested.policy.tree.game.name}: player {nested.player} searches"
    iterations = int(nested.iterations.max(initial=0))
    if nested.schedule is None:
        return (
            f"{game} from the root to the limit and again in every public state there, {iterations} "
            f"iterations each, with values of ranges at the limit ({nested.leaf})."
        )
    schedule, lp = nested.schedule, nested.algorithm == "lp"
    how = "by linear programs" if lp else f"{iterations} iterations each"
    choice = f"{nested.num_entries} entries at the limit ({nested.leaf} values)"
    ends = "optimal values at the limit" if nested.leaf == "optimal" else choice
    start = ""
    if (known := nested.knowledge) is not None and known.order < math.inf:
        solved = "unfrozen, " if known.unfrozen else ""
        start = f", from its own infostates (order {known.order}, {solved}{known.follow}),"
    if schedule.kind == "moves":
        return (
            f"{game} at the root and after every {schedule.step} move(s){start or ','} {how}, "
            f"{schedule.depth} move(s) deep, with {ends}."
        )
    every = (f"one in {schedule.step} decisions" if schedule.step > 1 else "every decision") + start
    if nested.depth is None:
        return f"{game} at {every} that its own play reaches, {how}, to the end of the game."
    deep = f"at least {nested.depth} move(s) deep"
    return f"{game} at {every} that its own play reaches, {how}, {deep}, with {ends}."


def match_record(game: str, frame: pd.DataFrame) -> dict[str, Any]:
    """What `jaxgadget match --json` writes."""
    columns = ["row", "column", "matches", "win_rate", "mean_return", "ci95", "return_ci95"]
    return {"game": game, "rows": frame[columns].to_dict("records")}


def match_table(frame: pd.DataFrame) -> Table:
    """A line for every pair."""
    numbers = ("matches", "mean return", "win rate", "first", "second")
    shown = make_table("row", "column", *numbers, right=numbers)
    shown.title = "What the row gets in a game, and its win rate (wins + ½ draws), both seats"
    for row in frame.to_dict("records"):
        shown.add_row(
            row["row"],
            row["column"],
            str(row["matches"]),
            f"{row['mean_return']:+.4f} ± {row['return_ci95']:.4f}",
            f"{row['win_rate']:.4f} ± {row['ci95']:.4f}",
            f"{row['win_rate_first']:.4f}",
            f"{row['win_rate_second']:.4f}",
        )
    return shown


def training_record(training: Training, visited_rmse: float, steps: int) -> dict[str, Any]:
    """What `jaxgadget train-value --json` writes; errors in units of payoff."""
    return {
        "game": training.values.game,
        "k": training.values.num_entries,
        "steps": steps,
        "seconds": training.seconds,
        "examples_per_second": training.examples_per_second,
        "train_rmse": training.train_rmse,
        "heldout_rmse": training.heldout_rmse,
        "heldout_histories": len(training.heldout),
        "visited_rmse": visited_rmse,
        "payoff_range": training.payoff_range,
    }


def training_table(training: Training, visited_rmse: float, steps: int) -> Table:
    """The errors, in payoff and as shares of the payoff range."""
    errors, caption = {"histories trained on": training.train_rmse}, None
    if len(training.heldout):
        errors[f"{len(training.heldout)} histories held out"] = training.heldout_rmse
        caption = "Search asks about histories held out, too; --heldout 0 trains on all."
    errors["leaves that search visits"] = visited_rmse
    shown = _errors_table(training.values.game, steps, errors, training.payoff_range)
    shown.caption = caption
    return shown


def ranges_record(training: RangeTraining, steps: int) -> dict[str, Any]:
    """What `jaxgadget train-ranges --json` writes; errors and gaps in units of payoff."""
    fresh = training.subgames_per_second
    errors = ("train_rmse", "heldout_rmse", "blueprint_rmse", "visited_rmse", "value_rmse")
    return {
        "game": training.values.game,
        "cut": training.values.cut,
        "subgames_per_second": fresh,
        "samples": training.samples,
        "steps": steps,
        "seconds": training.seconds,
        **{name: getattr(training, name) for name in errors},
        "gap_max": training.gap_max,
        "payoff_range": training.payoff_range,
    }


def ranges_table(training: RangeTraining, steps: int) -> Table:
    """The errors, in payoff and as shares of the payoff range."""
    errors = {
        "ranges trained on": training.train_rmse,
        "ranges held out": training.heldout_rmse,
        "… of blueprints held out": training.blueprint_rmse,
        "ranges that searches visit": training.visited_rmse,
        "value of the optimal continuation": training.value_rmse,
    }
    where = f"{training.values.game}, {training.values.cut}"
    return _errors_table(where, steps, errors, training.payoff_range)


def ranges_notes(training: RangeTraining) -> list[str]:
    """What was solved to learn from."""
    speed = training.subgames_per_second
    a_second = f", {speed:.0f} a second" if math.isfinite(speed) else ""
    return [
        f"{training.samples} subgames solved{a_second}, largest gap {training.gap_max:.2g} with a payoff "
        f"range of {training.payoff_range:g}; {training.seconds:.0f} s in all.",
    ]


def _errors_table(what: str, steps: int, errors: dict[str, float], payoff_range: float) -> Table:
    shown = make_table("over", "error", "of the payoff range", right=("error", "of the payoff range"))
    shown.title = table_title(f"{what}: root mean squared error after {steps} steps")
    for name, error in errors.items():
        known = math.isfinite(error)
        share = f"{error / payoff_range:.2%}" if known else "–"
        shown.add_row(name, f"{error:.5f}" if known else "–", share)
    return shown
