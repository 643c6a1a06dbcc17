"""Solved games and refinements as printed tables and JSON records.

A record is the content of `--json`: plain Python with null for undefined numbers. Exploitability is always
`v* − value against a best response`, as in the papers; OpenSpiel's number of that name is half of NashConv,
and every table notes this.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from jaxgadget.report.layout import (
    EPSILON,
    UNDEFINED,
    Column,
    count,
    make_table,
    number,
    number_text,
    rows_to_table,
    table_title,
    text,
)
from jaxgadget.report.names import INFINITE
from jaxgadget.util.records import jsonable

if TYPE_CHECKING:
    import pandas as pd

    from jaxgadget.games.registry import GameEntry
    from jaxgadget.policy.solve import Solution
    from jaxgadget.subgames.knowledge import Knowledge
    from jaxgadget.subgames.refine import BothRefined, Refinement
    from jaxgadget.tree.public import Tree

MAX_SINGLE_ROWS = 30
"""Maximum number of rows that are listed; longer tables are summarised unless all rows are requested."""

GUARDED = {1.0: "estimates", 0.0: "V̄"}

DEFAULTS: dict[str, str | bool] = {"alternative": "best-response", "gifts": "lower-bound", "auto": False}
"""Default values of optional columns, which are omitted if all values are the default."""

KNOWLEDGE = ("order", "unfrozen", "generation", "combine", "mean_exploitability")
"""Columns of knowledge-limited re-solving, written only for orders below infinity."""

NOISE = 1e-9
"""Changes of exploitability up to this fraction of the payoff range count as no change."""


# --- JSON records -------------------------------------------------------------------------


def constant_field(constant: float) -> dict[str, float]:
    """The sum of the players' payoffs as a field of a record; no field for zero-sum games."""
    return {"constant": constant} if constant else {}


def solution_record(solution: Solution, seconds: Mapping[str, float] | None = None) -> dict[str, Any]:
    """Record of `jaxgadget solve --json`.

    Args:
      solution: a solved game.
      seconds: times of all work; by default those of the solution.
    """
    return {
        "game": solution.name,
        **solution.sizes,
        "algorithm": solution.algorithm,
        "iterations": solution.iterations,
        "value": solution.value,
        "best_response_values": list(solution.best_response_values),
        "nash_conv": solution.nash_conv,
        "value_bracket": list(solution.bracket),
        **({} if solution.gap == solution.nash_conv else {"gap_within_floors": solution.gap}),
        "seconds": dict(solution.seconds if seconds is None else seconds),
        **constant_field(solution.constant),
    }


def refinement_record(
    refinement: Refinement,
    seconds: Mapping[str, float] | None = None,
    both_refined: BothRefined | None = None,
) -> dict[str, Any]:
    """Record of `jaxgadget refine --json`; rows go by blueprint, then gadget, prior, epsilon, model and p.

    Alternative values, gifts, automatic ε, a guard's choice and the reason of a failure are written only if a
    row differs from the default; the gain against a model is written only if there is a model.

    Args:
      refinement: refined blueprints.
      seconds: times of all work; by default those of the refinement.
      both_refined: refinements of both players, one of which is `refinement`; if passed, the rows of both are
        written.
    """
    forest = refinement.forest
    table = by_blueprint(refinement, None if both_refined is None else both_refined.table)
    for name, default in DEFAULTS.items():
        if name in table and table[name].dropna().eq(default).all():
            table = table.drop(columns=name)
    table = drop_undefined(table, ("guard_share", "failure"))
    if refinement.knowledge is None:
        table = table.drop(columns=[*KNOWLEDGE], errors="ignore")
    else:
        table["order"] = table["order"].map(order_field).astype(object)
    if follows_models(table):
        table = table.assign(exploitability=table["refined_exploitability"])
    else:
        table = table.drop(columns=["model", "p", "gain"], errors="ignore")
    return {
        "game": forest.tree.game.name,
        "cut": forest.cut.name,
        "num_subgames": refinement.num_subgames,
        "algorithm": refinement.algorithm,
        "iterations": int(refinement.iterations.max()),
        "game_value": list(refinement.game_value),
        "seconds": dict(refinement.seconds if seconds is None else seconds),
        "rows": table.to_dict("records"),
        **constant_field(forest.tree.constant),
    }


def drop_undefined(table: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """Drops those of the named columns that have no values."""
    return table.drop(columns=[name for name in names if name in table and table[name].isna().all()])


def follows_models(table: pd.DataFrame) -> bool:
    """True if some opponents follow a model."""
    return "model" in table and bool(table["model"].notna().any())


def order_field(order: float) -> int | str | None:
    """An order of knowledge in a record: an integer, `inf`, or None if there is none."""
    if math.isnan(order):
        return None
    return INFINITE if math.isinf(order) else int(order)


def by_blueprint(refinement: Refinement, table: pd.DataFrame | None = None) -> pd.DataFrame:
    """Returns `table`, by default the refinement's, ordered by blueprint."""
    table = refinement.table if table is None else table
    num_blueprints = refinement.blueprint.num_lanes
    order = [lane for first in range(num_blueprints) for lane in range(first, len(table), num_blueprints)]
    return table.iloc[order].reset_index(drop=True)


def to_json(record: Mapping[str, Any]) -> str:
    """Strict JSON with a newline at the end; numbers that are not finite are null."""
    return json.dumps(jsonable(record), indent=2, allow_nan=False) + "\n"


# --- tables -------------------------------------------------------------------------------


def games_table(entries: Iterable[GameEntry]) -> Table:
    """All games by name, with parameters, their defaults, and named cuts."""
    table = make_table("game", "description", "parameters and their defaults", "cuts")
    for entry in entries:
        parameters = "\n".join(f"{key}={value}" for key, value in entry.parameters.items())
        cuts = "\n".join(entry.cuts)
        table.add_row(
            entry.name, Text(entry.description), Text(parameters or UNDEFINED), Text(cuts or UNDEFINED)
        )
    table.show_lines = True
    return table


def solution_table(solution: Solution, seconds: Mapping[str, float] | None = None) -> Table:
    """Sizes, value and certificate of a solved game."""
    sizes = solution.sizes
    first, second = solution.best_response_values
    low, high = solution.bracket
    table = make_table("", "")
    table.title, table.show_header = table_title(solution.name), False
    if sizes.get("form") == "hands":
        nodes, ends = sizes["num_public_nodes"], sizes["num_public_ends"]
        table.add_row("public nodes, of them ends", f"{nodes:,}, {ends:,}")
        table.add_row("hands of players 0, 1", ", ".join(f"{hands:,}" for hands in sizes["num_hands"]))
    else:
        histories, terminals = sizes["num_histories"], sizes["num_terminals"]
        table.add_row("histories, of them terminal", f"{histories:,}, {terminals:,}")
    table.add_row(
        "infosets of players 0, 1", ", ".join(f"{infosets:,}" for infosets in sizes["num_infosets"])
    )
    table.add_row("algorithm", f"{solution.algorithm}, {solution.iterations:,} iterations")
    table.add_row("value of player 0 under the average strategies", f"{solution.value:.9g}")
    table.add_row("value of player 1's best response", f"{first:.9g}")
    table.add_row("value of player 0's best response", f"{second:.9g}")
    table.add_row("bounds on the value of the game for player 0", f"{low:.9g} and {high:.9g}")
    table.add_row("NashConv, the sum of both players' gains from best responses", f"{solution.nash_conv:.6g}")
    if solution.gap != solution.nash_conv:
        table.add_row("gap, the same for best responses that respect the floors", f"{solution.gap:.6g}")
    table.add_row("OpenSpiel's exploitability, half of NashConv", f"{solution.nash_conv / 2:.6g}")
    table.add_row("seconds", _seconds(solution.seconds if seconds is None else seconds))
    return table


def named(table: pd.DataFrame, *, alike: bool = True) -> pd.DataFrame:
    """The table, with gadget names that distinguish all settings.

    Args:
      table: `Refinement.table`.
      alike: replace automatic ε of a gadget, prior and player by their minimum in all rows.
    """
    table = table.copy()
    suffixes = {"alternative": ", {} values", "gifts": ", {} gifts", "auto": ", auto ε"}
    name = table["gadget"].astype(str)
    for column, suffix in suffixes.items():
        if column in table:
            values = table[column].astype(object).where(table[column].notna(), DEFAULTS[column])
            name = name + ["" if value == DEFAULTS[column] else _suffix(suffix, value) for value in values]
    if follows_models(table):
        opponents = zip(table["model"], table["p"], table["model"].notna(), strict=True)
        name = name + [f", p {p:g} of {model}" if has_model else "" for model, p, has_model in opponents]
    if "order" in table:
        name = name + [_knowledge_suffix(row) for row in table.to_dict("records")]
    table["gadget"] = name
    if alike and "auto" in table and table["auto"].any():
        smallest = table.groupby(["player", "gadget", "prior"])["epsilon"].transform("min")
        table["epsilon"] = table["epsilon"].where(~table["auto"].astype(bool), smallest)
    return table


def _suffix(suffix: str, value: Any) -> str:
    """A suffix of a gadget's name; the names of range values already contain `values`."""
    return f", {value}" if str(value).startswith("values:") else suffix.format(value)


def _knowledge_suffix(row: Mapping[Any, Any]) -> str:
    """Order of knowledge, combination of strategies, and generation."""
    if math.isnan(row["order"]):
        return ""
    order = "∞" if math.isinf(row["order"]) else f"{row['order']:g}"
    combine = "" if math.isinf(row["order"]) else f" {row['combine']}"
    generation = f", {row['generation']}" if isinstance(row["generation"], str) else ""
    return f", order {order}{' unfrozen' if row['unfrozen'] else ''}{combine}{generation}"


def _has_draws(table: pd.DataFrame) -> bool:
    """True if some rows are mixtures of several draws with separate exploitabilities."""
    if "mean_exploitability" not in table:
        return False
    mean = table["mean_exploitability"]
    return bool((mean.notna() & (mean != table["refined_exploitability"])).any())


def rows_table(table: pd.DataFrame) -> Table:
    """All rows of one player, in one section per blueprint."""
    optional = {
        "gain": follows_models(table),
        "draws": _has_draws(table),
        "guard": "guard_share" in table and table["guard_share"].notna().any(),
    }
    table = named(table, alike=False)
    table["is_first"] = table["blueprint"] != table["blueprint"].shift()
    columns = [
        Column("blueprint", _blueprint_once),
        text("gadget"),
        text("prior"),
        EPSILON,
        number("before", "blueprint_exploitability"),
        number("refined", "refined_exploitability"),
        number("bound", "exploitability_bound"),
        *([number("gain")] if optional["gain"] else []),
        number("largest\ngap", "gap_max", digits=2),
        *([number("mean of\ndraws", "mean_exploitability")] if optional["draws"] else []),
        *([Column("guard\ntook", _guarded, is_number=True)] if optional["guard"] else []),
    ]
    title = f"Exploitability of player {table['player'].iloc[0]}"
    return rows_to_table(table, columns, title=title, fold="blueprint", sections=["blueprint"])


def _blueprint_once(row: Mapping[Any, Any]) -> Text:
    """The blueprint's name in the first of its rows."""
    return Text(str(row["blueprint"]) if row["is_first"] else "", overflow="fold")


def _guarded(row: Mapping[Any, Any]) -> str:
    return GUARDED.get(row["guard_share"], UNDEFINED)


def defined(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of solves that did not fail."""
    return table[table["failure"].isna()] if "failure" in table else table


def _comparable(table: pd.DataFrame, failed: pd.Series[bool]) -> pd.Series[bool]:
    """Mask of the rows of blueprints for which no solve failed; means over these are comparable."""
    keys = [table[name] for name in ("player", "blueprint", "seed") if name in table]
    return ~failed.groupby(keys, dropna=False).transform("any")


def summary(table: pd.DataFrame, *, noise: float = NOISE) -> pd.DataFrame:
    """One row for each gadget, prior and epsilon, over all blueprints for which no solve failed.

    Args:
      table: `Refinement.table`.
      noise: changes of exploitability up to this one, in units of payoff, count as no change.

    Returns:
      Columns `gadget`, `prior`, `epsilon`, `blueprints`, `blueprint_mean`, `blueprint_median`,
      `refined_mean`, `refined_median`, `improved`, `worse`, `bound_mean` (NaN if there is no
      bound), `gap_max`; `gain_mean` if opponents follow models, which then have separate rows; and
      `drawn_mean`, the mean over single draws, if some rows are mixtures of draws.
    """
    import pandas as pd

    has_models, has_draws = follows_models(table), _has_draws(table)
    table = named(table).reset_index(drop=True)
    failed = table["failure"].notna() if "failure" in table else pd.Series(False, table.index)
    comparable = _comparable(table, failed)
    rows: list[dict[str, Any]] = []
    settings = table.groupby(["gadget", "prior", "epsilon"], sort=False, dropna=False)
    for (gadget, prior, epsilon), all_rows in settings:
        compared = all_rows[comparable[all_rows.index]]
        before, after = compared["blueprint_exploitability"], compared["refined_exploitability"]
        rows.append(
            {
                "gadget": gadget,
                "prior": prior,
                "epsilon": epsilon,
                "blueprints": len(compared),
                "blueprint_mean": before.mean(),
                "blueprint_median": before.median(),
                "refined_mean": after.mean(),
                "refined_median": after.median(),
                "improved": int((after < before - noise).sum()),
                "worse": int((after > before + noise).sum()),
                "bound_mean": compared["exploitability_bound"].mean(skipna=False),
                "gap_max": compared["gap_max"].max(),
                **({"gain_mean": compared["gain"].mean()} if has_models else {}),
                **({"drawn_mean": compared["mean_exploitability"].mean()} if has_draws else {}),
            }
        )
    return pd.DataFrame(rows)


def summary_table(table: pd.DataFrame, *, noise: float = NOISE) -> Table:
    """One row for the blueprints, and one for each gadget, prior and epsilon."""
    summarised = summary(table, noise=noise)
    columns = [
        text("gadget"),
        text("prior"),
        EPSILON,
        number("mean", "refined_mean"),
        number("median", "refined_median"),
        count("fell", "improved"),
        count("rose", "worse"),
        number("mean\nbound", "bound_mean"),
        *([number("mean\ngain", "gain_mean")] if "gain_mean" in summarised else []),
        number("largest\ngap", "gap_max", digits=2),
        *([number("mean of\ndraws", "drawn_mean")] if "drawn_mean" in summarised else []),
    ]
    means = (number_text(summarised[f"blueprint_{name}"].iloc[0]) for name in ("mean", "median"))
    title = f"Exploitability, over {summarised['blueprints'].max()} blueprints"
    return rows_to_table(summarised, columns, title=title, fold="", baseline=["blueprint", "", "", *means])


def refinement_table(refinement: Refinement, *, every_row: bool = False) -> Table:
    """All rows if there are few or `every_row` is set, otherwise a summary."""
    table = by_blueprint(refinement)
    if every_row or len(table) <= MAX_SINGLE_ROWS:
        return rows_table(table)
    return summary_table(table, noise=NOISE * refinement.forest.tree.payoff_range)


def both_table(both_refined: BothRefined) -> Table:
    """NashConv of both players' refined strategies, with one row per gadget, prior and epsilon."""
    table = both_refined.table
    smallest = table.groupby(["gadget", "prior"])["epsilon"].transform("min")
    table["epsilon"] = table["epsilon"].where(~table["auto"], smallest)  # of both players
    table = named(table.query("player == 0")).reset_index(drop=True)
    comparable = _comparable(table, table["nash_conv"].isna())
    table["nash_conv"] = table["nash_conv"].where(comparable)
    settings = table.groupby(["gadget", "prior", "epsilon"], sort=False, dropna=False)
    rows = settings["nash_conv"].agg(["mean", "min", "max"]).reset_index()
    before = table["blueprint_nash_conv"][comparable]
    statistics = (number_text(value) for value in (before.mean(), before.min(), before.max()))
    columns = [
        text("gadget"),
        text("prior"),
        EPSILON,
        number("mean"),
        number("smallest", "min"),
        number("largest", "max"),
    ]
    return rows_to_table(
        rows,
        columns,
        title="NashConv of both players' refined halves",
        baseline=["blueprint", "", "", *statistics],
    )


# --- notes below a table ------------------------------------------------------------------


def refinement_notes(refinement: Refinement, seconds: Mapping[str, float] | None = None) -> list[str]:
    """Notes about the solve, the accuracy of the numbers and their meaning."""
    tree, player = refinement.forest.tree, refinement.player
    low, high = refinement.game_value
    width = high - low
    subgames = count_subgames(refinement)
    notes = [
        f"{tree.game.name}, cut {refinement.forest.cut.name}: {subgames} re-solved for player {player} with "
        f"{refinement.algorithm}; {refinement.message}.",
        f"Game value of player 0: between {low:.9g} and {high:.9g}, a bracket of width {width:.2g} "
        f"({width / tree.payoff_range:.1g} of the payoff range); exploitabilities are accurate to "
        "half of it.",
        "Exploitability is v* − value against a best response (the papers' script E), with v* the middle of "
        f"that bracket, in player {player}'s payoff. OpenSpiel's exploitability is another number: half of "
        "NashConv.",
    ]
    if follows_models(refinement.table):
        notes.append("Gain is the refined strategy's value against the model, minus the value of the game.")
    if refinement.knowledge is not None:
        notes.append(knowledge_note(refinement.knowledge))
    constant = constant_note(tree)
    if constant:
        notes.append(constant)
    notes.append(f"Seconds: {_seconds(refinement.seconds if seconds is None else seconds)}.")
    return notes


def knowledge_note(knowledge: Knowledge) -> str:
    """A note on the safety of knowledge-limited re-solving."""
    if knowledge.generate is not None:
        reason = "searches do not consider all infostates that the opponent may be in"
    elif knowledge.order == math.inf:
        return "Order ∞ is common knowledge: as safe as the gadgets are."
    elif knowledge.unfrozen or knowledge.order > 1:
        reason = "the player does not play other own infostates of a search as that search assumes"
    elif knowledge.combine == "together":
        reason = "each own infostate's search changes the opponent's values as if no other search did"
    else:
        return "Resolving and max-margin are safe here: with ε = 0 and no gap exploitability cannot rise."
    return f"Not safe: exploitability may rise, as {reason}."


def count_subgames(refinement: Refinement) -> str:
    """`1 subgame`, `30 subgames`."""
    num_subgames = refinement.num_subgames
    return f"{num_subgames} subgame{'s' if num_subgames != 1 else ''}"


def constant_note(tree: Tree) -> str:
    """A note that the game is constant-sum; empty for a zero-sum game."""
    return constant_words(tree.game.name, tree.constant)


def constant_words(game: str, constant: float) -> str:
    """A note with the sum of the players' payoffs; empty if it is 0."""
    if constant == 0:
        return ""
    return (
        f"{game}: the players' payoffs sum to {constant:.9g}; half of that, {constant / 2:.9g}, is "
        "subtracted from each."
    )


def _seconds(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in seconds.items())
