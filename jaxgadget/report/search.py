"""Nested search, training and matches as printed tables and JSON records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from jaxgadget.report.layout import (
    EPSILON,
    UNDEFINED,
    Column,
    Row,
    count,
    decimal,
    number,
    number_text,
    rows_to_table,
    table_title,
    text,
)
from jaxgadget.report.opponents import probability, share_of_best
from jaxgadget.report.tables import KNOWLEDGE, constant_field, order_field

if TYPE_CHECKING:
    import pandas as pd

    from jaxgadget.learn.critic import CriticTraining
    from jaxgadget.learn.deal_network import DealTraining
    from jaxgadget.learn.policy_training import PolicyTraining
    from jaxgadget.learn.range_training import RangeTraining
    from jaxgadget.learn.training import Training
    from jaxgadget.subgames.knowledge import Knowledge
    from jaxgadget.subgames.nested import Nested
    from jaxgadget.util.arrays import FloatArray

SHOWN_STEPS = 10
"""Maximum number of rows of a training's log that are printed."""

MAX_OBJECTIVES = 12
"""Maximum number of lanes whose objectives are printed below a table; the JSON record has all lanes."""


def nested_records(searched: Sequence[Nested], together: FloatArray | None) -> dict[str, Any]:
    """Record of `jaxgadget nested --json`.

    Args:
      searched: the result of each player that searched.
      together: `[lanes]` NashConv of both players' searched strategies, in the order of a player's rows; None
        if one player searched.
    """
    tree, first = searched[0].policy.tree, searched[0]
    unused = [] if any(nested.failures for nested in searched) else ["failure"]
    rows: list[Row] = []
    for nested in searched:
        table = nested.table.drop(columns=unused, errors="ignore")
        if nested.knowledge is None:
            table = table.drop(columns=[*KNOWLEDGE], errors="ignore")
        elif "order" in table:
            table["order"] = table["order"].map(order_field).astype(object)
        rows += table.to_dict("records")
    return {
        "game": tree.game.name,
        "algorithm": first.algorithm,
        "iterations": max(int(nested.iterations.max(initial=0)) for nested in searched),
        "game_value": list(first.game_value),
        "rows": rows,
        **constant_field(tree.constant),
        **({} if together is None else {"nash_conv": together.tolist()}),
    }


def together_note(labels: Sequence[str], together: FloatArray) -> str:
    """A note with the NashConv of both players' searched strategies, `[lanes]`."""
    shown = "; ".join(f"{label}: {nash_conv:.5f}" for label, nash_conv in zip(labels, together, strict=True))
    return f"NashConv of the two together: {shown}."


def nested_table(nested: Nested) -> Table:
    """One row for each blueprint, opponent and gadget."""

    def of_best(row: Row) -> str:
        return share_of_best(row["gain"], row["best_response_gain"], nested.game_value)

    has_models = any(label is not None for label in nested.opponents.labels)
    gains = [number("gain"), Column("of best", of_best, True), number("bound", "exploitability_bound")]
    # With models the table is already wide, so only the notes give the total effort.
    effort = [count("searches"), decimal("seconds", digits=2)]
    columns = [
        text("blueprint"),
        *([text("model"), probability("p")] if has_models else []),
        text("gadget"),
        text("prior"),
        EPSILON,
        number("before", "blueprint_exploitability"),
        number("nested", "nested_exploitability"),
        *(gains if has_models else []),
        number("largest\ngap", "gap_max", digits=2),
        *([] if has_models else effort),
    ]
    title = f"Exploitability of player {nested.player}"
    return rows_to_table(nested.table, columns, title=title, fold="blueprint")


def nested_notes(nested: Nested) -> list[str]:
    """The searches, and the meaning of the numbers."""
    low, high = nested.game_value
    seconds = max(float(nested.seconds.sum()), 1e-9)
    return [
        _describe_searches(nested),
        _safety_note(nested.knowledge),
        f"{int(nested.searches.sum())} searches, {nested.searches.sum() / seconds:.1f} per second, including "
        f"compilation{_value_time(nested, seconds)}.",
        *_model_notes(nested),
        "Before: the blueprint's exploitability; largest gap: NashConv of the worst depth-limited "
        "game; seconds: an equal share of the time of all lanes.",
        "Exploitability is v* − value against a best response, of the assembled policy in the whole game, "
        f"with v* between {low:.9g} and {high:.9g} (player 0's). OpenSpiel's exploitability is another "
        "number: half of NashConv.",
    ]


def _safety_note(knowledge: Knowledge | None) -> str:
    """A note that searches from own infostates are not safe; empty for other searches."""
    if knowledge is None or knowledge.order == math.inf:
        return ""
    return "Not safe: exploitability may rise, as searches from own infostates are independent of each other."


def _model_notes(nested: Nested) -> list[str]:
    """The meaning of gains, and the objectives of all steps, if there are models."""
    if all(label is None for label in nested.opponents.labels):
        return []
    modelled = np.flatnonzero(np.isfinite(nested.objectives).any(axis=0))
    steps = [
        f"{nested.policy.labels[lane]}: {', '.join(map(number_text, nested.objectives[:, lane].tolist()))}"
        for lane in modelled.tolist()
    ]
    branches = any(gadget.name != "optimal-continuation" for gadget in nested.gadgets)
    minimum = ", the minimum over all branches" if branches else ""
    bound = (
        "; bound: of exploitability, (p × gain + all gaps) / (1 − p), for joint searches with optimal values"
    )
    return [
        "Gain: the policy's value against the model, less the game's; of best: its share of a best "
        f"response's{bound if np.isfinite(nested.exploitability_bound).any() else ''}.",
        "Objectives of the steps, p × value against the model while it is followed + (1 − p) × "
        f"guaranteed{minimum}: {'; '.join(steps)}."
        if 0 < len(steps) <= MAX_OBJECTIVES
        else "",
    ]


def _value_time(nested: Nested, seconds: float) -> str:
    """The share of time spent on values at the limit; empty if it is unknown."""
    share = nested.value_seconds / seconds
    return f"; values at the limit took {share:.0%} of the time" if math.isfinite(share) else ""


def _describe_searches(nested: Nested) -> str:
    game = f"{nested.policy.tree.game.name}: player {nested.player} searches"
    iterations = int(nested.iterations.max(initial=0))
    if nested.schedule is None:
        return (
            f"{game} from the root to the limit and again in every public state there, {iterations} "
            f"iterations each, with values of ranges at the limit ({nested.leaf})."
        )
    schedule, lp = nested.schedule, nested.algorithm == "lp"
    effort = "by linear programs" if lp else f"{iterations} iterations each"
    choice = f"{nested.num_entries} entries at the limit ({nested.leaf} values)"
    ends = "optimal values at the limit" if nested.leaf == "optimal" else choice
    start = ""
    if (knowledge := nested.knowledge) is not None and knowledge.order < math.inf:
        unfrozen = "unfrozen, " if knowledge.unfrozen else ""
        start = f", from its own infostates (order {knowledge.order}, {unfrozen}{knowledge.follow}),"
    if schedule.kind == "moves":
        return (
            f"{game} at the root and after every {schedule.step} move(s){start or ','} {effort}, "
            f"{schedule.depth} move(s) deep, with {ends}."
        )
    every = (f"one in {schedule.step} decisions" if schedule.step > 1 else "every decision") + start
    if nested.depth is None:
        return f"{game} at {every} that its own play reaches, {effort}, to the end of the game."
    depth = f"at least {nested.depth} move(s) deep"
    return f"{game} at {every} that its own play reaches, {effort}, {depth}, with {ends}."


def match_record(game: str, frame: pd.DataFrame) -> dict[str, Any]:
    """Record of `jaxgadget match --json`."""
    columns = ["row", "column", "matches", "win_rate", "mean_return", "ci95", "return_ci95"]
    columns += [name for name in ("adjusted_return", "adjusted_ci95") if name in frame]
    return {"game": game, "rows": frame[columns].to_dict("records")}


def match_table(frame: pd.DataFrame, *, win_rates: bool) -> Table:
    """One row for each pair of players, which the frame contains in both orders.

    Args:
      frame: `Matches.table`.
      win_rates: show win rates, too; they are misleading if wins differ in payoff.
    """

    def mean_return(row: Row) -> str:
        return f"{row['mean_return']:+.4f} ± {row['return_ci95']:.4f}"

    def adjusted(row: Row) -> str:
        return f"{row['adjusted_return']:+.4f} ± {row['adjusted_ci95']:.4f}"

    def win_rate(row: Row) -> str:
        return f"{row['win_rate']:.4f} ± {row['ci95']:.4f}"

    seats = "win_rate" if win_rates else "mean_return"
    columns = [
        text("row"),
        text("column"),
        count("matches"),
        Column("mean return", mean_return, True),
        *([Column("without luck", adjusted, True)] if "adjusted_return" in frame else []),
        *([Column("win rate", win_rate, True)] if win_rates else []),
        decimal("first", f"{seats}_first", digits=4),
        decimal("second", f"{seats}_second", digits=4),
    ]
    wins = ", and its win rate (wins + ½ draws), both seats" if win_rates else ", both seats"
    position = {name: number for number, name in enumerate(dict.fromkeys([*frame["row"], *frame["column"]]))}
    once = frame[frame["row"].map(position) < frame["column"].map(position)]
    return rows_to_table(once, columns, title=f"The row's mean return in a game{wins}")


def training_record(training: Training, visited_rmse: float, steps: int) -> dict[str, Any]:
    """Record of `jaxgadget train-value --json`; errors are in payoff units."""
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
    """Errors in payoff units and as fractions of the payoff range."""
    errors, caption = {"histories of the training set": training.train_rmse}, None
    if len(training.heldout):
        errors[f"{len(training.heldout)} held-out histories"] = training.heldout_rmse
        caption = "Search also evaluates held-out histories; --heldout 0 trains on all."
    errors["leaves that search visits"] = visited_rmse
    shown = _errors_table(training.values.game, steps, errors, training.payoff_range)
    shown.caption = caption
    return shown


def policy_record(training: PolicyTraining, method: str, steps: int) -> dict[str, Any]:
    """Record of `jaxgadget train-policy --json`."""
    last = training.log.iloc[-1]
    return {
        "game": training.policy.machine.name,
        "method": method,
        "steps": steps,
        "seconds": training.seconds,
        "examples_per_second": training.examples_per_second,
        "loss": float(last["loss"]),
        "nash_conv": training.nash_conv,
    }


def policy_table(training: PolicyTraining, method: str) -> Table:
    """Loss and NashConv at selected steps of the training."""
    log = training.log
    last = len(log) - 1
    chosen = sorted({round(last * k / (SHOWN_STEPS - 1)) for k in range(SHOWN_STEPS)})
    rows = [{**row, "step": int(row["step"])} for row in log.iloc[chosen].to_dict("records")]
    table = rows_to_table(rows, [count("step"), number("loss"), number("NashConv", "nash_conv")])
    table.title = table_title(f"{training.policy.machine.name}: training by {method}")
    return table


def ranges_record(training: RangeTraining, steps: int) -> dict[str, Any]:
    """Record of `jaxgadget train-ranges --json`; errors and gaps are in payoff units."""
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
    """Errors in payoff units and as fractions of the payoff range."""
    errors = {
        "ranges of the training set": training.train_rmse,
        "held-out ranges": training.heldout_rmse,
        "… of held-out blueprints": training.blueprint_rmse,
        "ranges that searches visit": training.visited_rmse,
        "value of the optimal continuation": training.value_rmse,
    }
    game = f"{training.values.game}, {training.values.cut}"
    return _errors_table(game, steps, errors, training.payoff_range)


def deals_record(training: DealTraining, steps: int) -> dict[str, Any]:
    """Record of `jaxgadget train-deals --json`; errors and gaps are in pots at the deal."""
    return {
        "samples": training.samples,
        "steps": steps,
        "seconds": training.seconds,
        "train_rmse": training.train_rmse,
        "heldout_rmse": training.heldout_rmse,
        "gap": training.gap,
    }


def deals_table(training: DealTraining, steps: int) -> Table:
    """Errors in pots at the deal and as fractions of the payoff range."""
    errors = {"ranges of the training set": training.train_rmse, "held-out ranges": training.heldout_rmse}
    name = f"{training.values.name}, in pots when the card is dealt"
    return _errors_table(name, steps, errors, training.payoff_range)


def ranges_notes(training: RangeTraining) -> list[str]:
    """The solved subgames that the network was trained on."""
    speed = training.subgames_per_second
    per_second = f", {speed:.0f} per second" if math.isfinite(speed) else ""
    return [
        f"{training.samples} subgames solved{per_second}, largest gap {training.gap_max:.2g} with a payoff "
        f"range of {training.payoff_range:g}; {training.seconds:.0f} s in total.",
    ]


def critic_record(training: CriticTraining, steps: int) -> dict[str, Any]:
    """Record of `jaxgadget train-critic --json`."""
    return {
        "game": training.critic.machine.name,
        "k": training.critic.num_entries,
        "steps": steps,
        "seconds": training.seconds,
        "games_per_second": training.examples_per_second,
        "root_loss": _root_loss(training),
        "scale": training.critic.scale,
    }


def critic_table(training: CriticTraining, steps: int) -> Table:
    """The last loss, in payoff units."""
    rows: list[Row] = [
        {"over": "targets, whose noise is included", "error": _root_loss(training) * training.critic.scale}
    ]
    table = rows_to_table(rows, [text("over"), number("error")])
    table.title = table_title(f"{training.critic.machine.name}: root of the loss after {steps} steps")
    return table


def _root_loss(training: CriticTraining) -> float:
    return math.sqrt(float(training.log["loss"].iloc[-1]))


def _errors_table(game: str, steps: int, errors: dict[str, float], payoff_range: float) -> Table:
    def fraction(row: Row) -> str:
        return f"{row['error'] / payoff_range:.2%}" if math.isfinite(row["error"]) else UNDEFINED

    rows = [{"over": name, "error": error} for name, error in errors.items()]
    columns = [text("over"), number("error"), Column("of the payoff range", fraction, True)]
    table = rows_to_table(rows, columns)
    table.title = table_title(f"{game}: root mean squared error after {steps} steps")
    return table
