"""Results as tables for people and as records for scripts.

A table is rich's, a record is what `--json` writes: plain Python with null for what is not
defined. Exploitability is always `v* − value against a best response`, as in the papers;
OpenSpiel's number of that name is half of NashConv, and every table says so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from jaxgadget.report.names import break_lines
from jaxgadget.util.store import jsonable

if TYPE_CHECKING:
    import pandas as pd

    from jaxgadget.games.registry import GameEntry
    from jaxgadget.policy.solve import Solution
    from jaxgadget.subgames.knowledge import Knowledge
    from jaxgadget.subgames.refine import BothRefined, Refinement
    from jaxgadget.tree.public import Tree

FEW_ROWS = 30
"""Up to that many rows are shown one by one; more are summed up, unless all are asked for."""

GUARDED = {1.0: "estimates", 0.0: "V̄"}

USUAL: dict[str, str | bool] = {"alternative": "best-response", "gifts": "lower-bound", "auto": False}
"""Columns that are written and shown only where they say something else."""

KNOWLEDGE = ("order", "unfrozen", "generation", "combine", "mean_exploitability")
"""Columns of what a player was to know, written only where it is not what is common knowledge."""

TITLE_WIDTH = 60
"""Letters in a line of a table's title."""

INFINITE = "inf"
"""The order of what is common knowledge, in records."""

NOISE = 1e-9
"""Change of exploitability, as a share of the payoff range, that counts as none."""


# --- records for scripts ------------------------------------------------------------------


def solution_record(solution: Solution, seconds: Mapping[str, float] | None = None) -> dict[str, Any]:
    """What `jaxgadget solve --json` writes.

    Args:
      solution: a solved game.
      seconds: in place of the solution's own, if more was done than to solve.
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
        **({"constant": solution.constant} if solution.constant else {}),
    }


def refinement_record(
    refinement: Refinement,
    seconds: Mapping[str, float] | None = None,
    both_refined: BothRefined | None = None,
) -> dict[str, Any]:
    """What `jaxgadget refine --json` writes; rows go by blueprint, then gadget, prior, epsilon, model and p.

    Rows say what their alternative values and gifts are, whether ε was looked for, what a guard took, and
    why they have no numbers, only if some differ from the default; and what is gained from a model if there
    is one.

    Args:
      refinement: refined blueprints.
      seconds: in place of the refinement's own, if more was done than to refine.
      both_refined: both players', of which `refinement` is one; its rows are written then.
    """
    forest = refinement.forest
    table = by_blueprint(refinement, None if both_refined is None else both_refined.table)
    for name, usual in USUAL.items():
        if name in table and table[name].dropna().eq(usual).all():
            table = table.drop(columns=name)
    for name in ("guard_share", "failure"):
        if name in table and table[name].isna().all():
            table = table.drop(columns=name)
    if refinement.knowledge is None:
        table = table.drop(columns=[*KNOWLEDGE], errors="ignore")
    else:
        table["order"] = table["order"].map(said_order).astype(object)
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
        **({"constant": forest.tree.constant} if forest.tree.constant else {}),
    }


def follows_models(table: pd.DataFrame) -> bool:
    """Whether rows are of opponents with a model; those of other searches have none."""
    return "model" in table and bool(table["model"].notna().any())


def said_order(order: float) -> int | str | None:
    """An order of knowledge as records have it: a number, `inf`, or None where nothing was said."""
    if math.isnan(order):
        return None
    return INFINITE if math.isinf(order) else int(order)


def by_blueprint(refinement: Refinement, table: pd.DataFrame | None = None) -> pd.DataFrame:
    """The refinement's table, or that of both players, with the rows of a blueprint together."""
    table = refinement.table if table is None else table
    count = refinement.blueprint.num_lanes
    order = [lane for first in range(count) for lane in range(first, len(table), count)]
    return table.iloc[order].reset_index(drop=True)


def to_json(record: Mapping[str, Any]) -> str:
    """Strict JSON with a newline at the end: what is not a finite number is null."""
    return json.dumps(jsonable(record), indent=2, allow_nan=False) + "\n"


# --- tables for people --------------------------------------------------------------------


def games_table(entries: Iterable[GameEntry]) -> Table:
    """All games by name, with parameters and their defaults, and the cuts that they name."""
    table = make_table("game", "what it is", "parameters and their defaults", "cuts")
    for entry in entries:
        parameters = "\n".join(f"{key}={value}" for key, value in entry.parameters.items())
        cuts = "\n".join(entry.cuts)
        table.add_row(entry.name, Text(entry.description), Text(parameters or "–"), Text(cuts or "–"))
    table.show_lines = True
    return table


def solution_table(solution: Solution, seconds: Mapping[str, float] | None = None) -> Table:
    """A solved game: sizes, value and certificate."""
    sizes = solution.sizes
    first, second = solution.best_response_values
    low, high = solution.bracket
    table = make_table("", "")
    table.title, table.show_header = table_title(solution.name), False
    if sizes.get("form") == "hands":
        nodes, ends = sizes["num_public_nodes"], sizes["num_public_ends"]
        table.add_row("public nodes, of them ends", f"{nodes:,}, {ends:,}")
        table.add_row("hands of players 0, 1", ", ".join(f"{count:,}" for count in sizes["num_hands"]))
    else:
        histories, terminals = sizes["num_histories"], sizes["num_terminals"]
        table.add_row("histories, of them terminal", f"{histories:,}, {terminals:,}")
    table.add_row("infosets of players 0, 1", ", ".join(f"{count:,}" for count in sizes["num_infosets"]))
    table.add_row("algorithm", f"{solution.algorithm}, {solution.iterations:,} iterations")
    table.add_row("value of player 0, both playing their averages", f"{solution.value:.9g}")
    table.add_row("best response of player 1 to player 0's average gets", f"{first:.9g}")
    table.add_row("best response of player 0 to player 1's average gets", f"{second:.9g}")
    table.add_row("so the value of the game lies between", f"{low:.9g} and {high:.9g}")
    table.add_row("NashConv, the sum of what both gain by best responses", f"{solution.nash_conv:.6g}")
    if solution.gap != solution.nash_conv:
        table.add_row("the same for best responses within the floors", f"{solution.gap:.6g}")
    table.add_row("OpenSpiel's exploitability, half of NashConv", f"{solution.nash_conv / 2:.6g}")
    table.add_row("seconds", _seconds(solution.seconds if seconds is None else seconds))
    return table


def named(table: pd.DataFrame, *, alike: bool = True) -> pd.DataFrame:
    """The table with all that tells gadgets apart in their names.

    Args:
      table: `Refinement.table`.
      alike: give the rows of an ε that was looked for the smallest one that was found.
    """
    table = table.copy()
    parts = {"alternative": "{} values", "gifts": "{} gifts", "auto": "auto ε"}
    name = table["gadget"].astype(str)
    for column, words in parts.items():
        if column in table:
            said = table[column].astype(object).where(table[column].notna(), USUAL[column])
            extra = [f", {_worded(words, value)}" if value != USUAL[column] else "" for value in said]
            name = name + extra
    if follows_models(table):
        opponents = zip(table["model"], table["p"], table["model"].notna(), strict=True)
        name = name + [f", p {p:g} of {model}" if has_model else "" for model, p, has_model in opponents]
    if "order" in table:
        name = name + [_worded_knowledge(row) for row in table.to_dict("records")]
    table["gadget"] = name
    if alike and "auto" in table and table["auto"].any():
        least = table.groupby(["player", "gadget", "prior"])["epsilon"].transform("min")
        table["epsilon"] = table["epsilon"].where(~table["auto"].astype(bool), least)
    return table


def _worded(words: str, value: Any) -> str:
    """Range values are called values already."""
    return value if str(value).startswith("values:") else words.format(value)


def _worded_knowledge(row: Mapping[Any, Any]) -> str:
    """What was to be known, how strategies went together, and what was considered."""
    if math.isnan(row["order"]):
        return ""
    order = "∞" if math.isinf(row["order"]) else f"{row['order']:g}"
    together = "" if math.isinf(row["order"]) else f" {row['combine']}"
    considered = f", {row['generation']}" if isinstance(row["generation"], str) else ""
    return f", order {order}{' unfrozen' if row['unfrozen'] else ''}{together}{considered}"


def _draws(table: pd.DataFrame) -> bool:
    """Whether some rows are mixtures of several draws, which are worth something else one by one."""
    if "mean_exploitability" not in table:
        return False
    mean = table["mean_exploitability"]
    return bool((mean.notna() & (mean != table["refined_exploitability"])).any())


def rows_table(table: pd.DataFrame) -> Table:
    """A line for every row of one player, a section for every blueprint."""
    has_models, has_draws, table = follows_models(table), _draws(table), named(table, alike=False)
    guarded = "guard_share" in table and table["guard_share"].notna().any()
    numbers = ("ε", "before", "refined", "bound", *(("gain",) if has_models else ()), "largest\ngap")
    numbers += ("mean of\ndraws",) if has_draws else ()
    numbers += ("guard\ntook",) if guarded else ()
    shown = make_table("blueprint", "gadget", "prior", *numbers, right=numbers, fold="blueprint")
    shown.title = f"Exploitability of player {table['player'].iloc[0]}"
    previous = None
    for row in table.to_dict("records"):
        if previous not in (None, row["blueprint"]):
            shown.add_section()
        again, previous = previous == row["blueprint"], row["blueprint"]
        shown.add_row(
            Text("" if again else str(row["blueprint"]), overflow="fold"),
            *_setting(row),
            *(_number(row[name]) for name in ("blueprint_exploitability", "refined_exploitability")),
            _number(row["exploitability_bound"]),
            *((_number(row["gain"]),) if has_models else ()),
            _number(row["gap_max"], 2),
            *((_number(row["mean_exploitability"]),) if has_draws else ()),
            *((GUARDED.get(row["guard_share"], "–"),) if guarded else ()),
        )
    return shown


def defined(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of solves that did not fail."""
    return table[table["failure"].isna()] if "failure" in table else table


def _comparable(table: pd.DataFrame, failed: pd.Series[bool]) -> pd.Series[bool]:
    """Which rows are of blueprints that nothing failed for: only their means compare."""
    keys = [table[name] for name in ("player", "blueprint", "seed") if name in table]
    return ~failed.groupby(keys, dropna=False).transform("any")


def summary(table: pd.DataFrame, *, noise: float = NOISE) -> pd.DataFrame:
    """One row for every gadget, prior and epsilon, over all blueprints for which no solve failed.

    Args:
      table: `Refinement.table`.
      noise: change of exploitability that counts as none.

    Returns:
      Columns `gadget`, `prior`, `epsilon`, `blueprints`, `blueprint_mean`, `blueprint_median`,
      `refined_mean`, `refined_median`, `improved`, `worse`, `bound_mean` (NaN if there is no
      bound), `gap_max`; `gain_mean` if there are opponents with a model, who are told apart like gadgets; and
      `drawn_mean` if some rows are mixtures of draws: the mean of these draws one by one.
    """
    import pandas as pd

    has_models, has_draws = follows_models(table), _draws(table)
    table = named(table).reset_index(drop=True)
    failed = table["failure"].notna() if "failure" in table else pd.Series(False, table.index)
    comparable = _comparable(table, failed)
    rows: list[dict[str, Any]] = []
    settings = table.groupby(["gadget", "prior", "epsilon"], sort=False, dropna=False)
    for (gadget, prior, epsilon), all_rows in settings:
        part = all_rows[comparable[all_rows.index]]
        before, after = part["blueprint_exploitability"], part["refined_exploitability"]
        rows.append(
            {
                "gadget": gadget,
                "prior": prior,
                "epsilon": epsilon,
                "blueprints": len(part),
                "blueprint_mean": before.mean(),
                "blueprint_median": before.median(),
                "refined_mean": after.mean(),
                "refined_median": after.median(),
                "improved": int((after < before - noise).sum()),
                "worse": int((after > before + noise).sum()),
                "bound_mean": part["exploitability_bound"].mean(skipna=False),
                "gap_max": part["gap_max"].max(),
                **({"gain_mean": part["gain"].mean()} if has_models else {}),
                **({"drawn_mean": part["mean_exploitability"].mean()} if has_draws else {}),
            }
        )
    return pd.DataFrame(rows)


def summary_table(table: pd.DataFrame, *, noise: float = NOISE) -> Table:
    """A line for every gadget, prior and epsilon; above them the blueprints as they came."""
    summarised = summary(table, noise=noise)
    has_models, has_draws = "gain_mean" in summarised, "drawn_mean" in summarised
    extra = ("mean\ngain",) if has_models else ()
    numbers = ("ε", "mean", "median", "fell", "rose", "mean\nbound", *extra, "largest\ngap")
    numbers += ("mean of\ndraws",) if has_draws else ()
    shown = make_table("gadget", "prior", *numbers, right=numbers, fold="")
    shown.title = f"Exploitability, over {summarised['blueprints'].max()} blueprints"
    first = summarised.iloc[0]
    shown.add_row("blueprint", "", "", *(_number(first[f"blueprint_{name}"]) for name in ("mean", "median")))
    shown.add_section()
    for row in summarised.to_dict("records"):
        shown.add_row(
            *_setting(row),
            _number(row["refined_mean"]),
            _number(row["refined_median"]),
            str(row["improved"]),
            str(row["worse"]),
            _number(row["bound_mean"]),
            *((_number(row["gain_mean"]),) if has_models else ()),
            _number(row["gap_max"], 2),
            *((_number(row["drawn_mean"]),) if has_draws else ()),
        )
    return shown


def refinement_table(refinement: Refinement, *, every_row: bool = False) -> Table:
    """The rows if there are few or all are asked for, else a summary."""
    table = by_blueprint(refinement)
    if every_row or len(table) <= FEW_ROWS:
        return rows_table(table)
    return summary_table(table, noise=NOISE * refinement.forest.tree.payoff_range)


def both_table(both_refined: BothRefined) -> Table:
    """NashConv of both players' refined halves together, a line for every gadget, prior and epsilon."""
    table = both_refined.table
    smallest = table.groupby(["gadget", "prior"])["epsilon"].transform("min")
    table["epsilon"] = table["epsilon"].where(~table["auto"], smallest)  # of both players
    table = named(table.query("player == 0")).reset_index(drop=True)
    comparable = _comparable(table, table["nash_conv"].isna())
    numbers = ("ε", "mean", "smallest", "largest")
    shown = make_table("gadget", "prior", *numbers, right=numbers)
    shown.title = "NashConv of both players' refined halves"
    before = table["blueprint_nash_conv"][comparable]
    shown.add_row("blueprint", "", "", *(_number(x) for x in (before.mean(), before.min(), before.max())))
    shown.add_section()
    settings = table.groupby(["gadget", "prior", "epsilon"], sort=False, dropna=False)
    for (gadget, prior, epsilon), part in settings:
        nash_conv = part["nash_conv"][comparable[part.index]]
        setting = _setting({"gadget": gadget, "prior": prior, "epsilon": epsilon})
        shown.add_row(*setting, *(_number(x) for x in (nash_conv.mean(), nash_conv.min(), nash_conv.max())))
    return shown


# --- what stands below a table ------------------------------------------------------------


def refinement_notes(refinement: Refinement, seconds: Mapping[str, float] | None = None) -> list[str]:
    """What was done, how sure the numbers are, and what they mean: a sentence or two each."""
    tree, player = refinement.forest.tree, refinement.player
    low, high = refinement.game_value
    width = high - low
    subgames = count_subgames(refinement)
    notes = [
        f"{tree.game.name}, cut {refinement.forest.cut.name}: {subgames} re-solved for player {player} with "
        f"{refinement.algorithm}; {refinement.message}.",
        f"Game value of player 0: between {low:.9g} and {high:.9g}, a bracket of width {width:.2g} "
        f"({width / tree.payoff_range:.1g} of the payoff range); exploitabilities are sure to half of it.",
        "Exploitability is v* − value against a best response (the papers' script E), with v* the middle of "
        f"that bracket, in player {player}'s payoff. OpenSpiel's exploitability is another number: half of "
        "NashConv.",
    ]
    if follows_models(refinement.table):
        notes.append("Gain is what the refined strategy gets against the model, less that value.")
    if refinement.knowledge is not None:
        notes.append(knowledge_note(refinement.knowledge))
    constant = constant_note(tree)
    if constant:
        notes.append(constant)
    notes.append(f"Seconds: {_seconds(refinement.seconds if seconds is None else seconds)}.")
    return notes


def knowledge_note(knowledge: Knowledge) -> str:
    """Whether what was re-solved by what a player knows is safe, and if not, why."""
    if knowledge.generate is not None:
        why = "searches do not consider all that the opponent may hold"
    elif knowledge.order == math.inf:
        return "Order ∞ is what is common knowledge: as safe as the gadgets are."
    elif knowledge.unfrozen or knowledge.order > 1:
        why = "own infostates that a search solves for too are not played as it thinks"
    elif knowledge.combine == "together":
        why = "each own infostate mends the opponent's as if no other did"
    else:
        return "Resolving and max-margin are safe here: with ε = 0 and no gap exploitability cannot rise."
    return f"Not safe: exploitability may rise, as {why}."


def count_subgames(refinement: Refinement) -> str:
    """`1 subgame`, `30 subgames`."""
    count = refinement.num_subgames
    return f"{count} subgame{'s' if count != 1 else ''}"


def constant_note(tree: Tree) -> str:
    """That a game is constant-sum and not zero-sum, or nothing."""
    return constant_words(tree.game.name, tree.constant)


def constant_words(game: str, constant: float) -> str:
    """The same of a game by name."""
    if constant == 0:
        return ""
    return (
        f"{game}: the players' payoffs sum to {constant:.9g}; half of that, {constant / 2:.9g}, is "
        "subtracted from each."
    )


def _seconds(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in seconds.items())


def _setting(row: Mapping[Any, Any]) -> tuple[str, str, str]:
    epsilon = float(row["epsilon"])
    return str(row["gadget"]), str(row["prior"]), "–" if math.isnan(epsilon) else f"{epsilon:g}"


def _number(value: float, digits: int = 5) -> str:
    if not math.isfinite(value):
        return "–"
    if digits < 5:
        return f"{value:.{digits}g}"
    return f"{round(value, digits) + 0.0:.{digits}f}" if abs(value) < 1e5 else f"{value:.9g}"


def table_title(text: str) -> Text:
    """A title in lines that are broken where names of games allow it, whatever the table's width."""
    lines = break_lines(text, TITLE_WIDTH)
    return Text("\n".join(lines), style="bold", no_wrap=True, overflow="ignore")


def make_table(*columns: str, right: Iterable[str] = (), fold: str | None = None) -> Table:
    """An empty table in the style of all others.

    Args:
      columns: their headings.
      right: headings of the columns with numbers.
      fold: the only column that may be broken into lines; by default all may.
    """
    table = Table(
        box=box.SIMPLE_HEAD, header_style="bold", title_style="bold", pad_edge=False, collapse_padding=True
    )
    numbers = set(right)
    for name in columns:
        side = "right" if name in numbers else "left"
        table.add_column(Text(name), justify=side, no_wrap=fold is not None and name != fold)
    return table
