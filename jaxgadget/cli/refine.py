"""`jaxgadget refine GAME`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxgadget.cli.command import exit_if_failed, keeping_checkpoints, refuse_unused
from jaxgadget.cli.fields import Fields, option, request
from jaxgadget.cli.options import (
    BlueprintOptions,
    CutOptions,
    GadgetOptions,
    KnowledgeOptions,
    ModelOptions,
    PlayerOptions,
    PlotOutput,
    SavedOutput,
    TreeOptions,
    check_solver,
    form_record,
    make_opponent,
    make_range_priors,
)
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.registry import DEFAULT_GADGETS, GADGETS

if TYPE_CHECKING:
    from rich.console import RenderableType

    from jaxgadget.gadgets.gadget import Gadget
    from jaxgadget.subgames.refine import BothRefined, Refinement

REFINE_EXAMPLES = """\
Examples:

`jaxgadget refine leduc_poker --plot leduc.png`

`jaxgadget refine leduc_poker --gadget auto`

`jaxgadget refine leduc_poker --cut flop --player 1 --blueprint cfr:10 --blueprint uniform --gadget resolving`

`jaxgadget refine "goofspiel(num_cards=4,imp_info=True)" --cut depth:1 --blueprint cfr:100 --json -`

`jaxgadget refine leduc_poker --blueprint cfr:100 --gadget resolving --model uniform --p 0.1 --p 0.5 --p 1`

`jaxgadget refine "n_matching_pennies(num_deals=20)" --blueprint uniform --order 1 --combine in-turn`

`jaxgadget refine leduc_poker --player both --blueprint cfr:100 --gadget resolving --gadget
optimal-continuation --algorithm lp --epsilon auto`
"""


AUTO = "auto"
"""Name of the recommended gadget."""


@request
class RefineGadgetOptions(GadgetOptions):
    """Gadgets of `refine`.

    Attributes:
      gadget: the gadget by which the opponent enters a subgame; `auto` chooses one by the size of the game.
    """

    gadget: tuple[str, ...] = option(DEFAULT_GADGETS, choices=(*GADGETS, AUTO))

    @property
    def is_auto(self) -> bool:
        """True for the recommended gadget alone."""
        return self.gadget == (AUTO,)

    def make(self, context: typer.Context) -> list[Gadget]:
        """Creates the gadgets, none for `auto`; raises ValueError for `auto` with other gadget options."""
        if not self.is_auto:
            if AUTO in self.gadget:
                raise ValueError("--gadget auto: expected no other gadget with it")
            return super().make(context)
        others = (field.name for field in dataclasses.fields(GadgetOptions) if field.name != "gadget")
        refuse_unused(context, "with --gadget auto, which chooses it", *others)
        return []


@request
class RefineOptions(PlayerOptions):
    """Settings of `refine` alone.

    Attributes:
      player: the resolving player; the other is the opponent. With `both`, each player in turn, with NashConv
        of the two results combined.
      infostate: re-solve only the subgame that contains this infostate.
    """

    infostate: str | None = option(None, metavar="STRING")


@request
class RefineOutput(PlotOutput, SavedOutput):
    """Files to write and the table to print.

    Attributes:
      plot: draw refined against blueprint exploitability, as .png, .svg or .pdf.
      rows: print every row instead of a summary.
    """

    rows: bool = False


def refine(
    context: typer.Context,
    game: TreeOptions,
    cuts: CutOptions,
    options: RefineOptions,
    blueprints: BlueprintOptions,
    gadgets: RefineGadgetOptions,
    models: ModelOptions,
    knowing: Annotated[KnowledgeOptions, Fields(without=("follow",))],
    solver: Annotated[Solver, Fields(algorithm="cfr+", iterations=2000, dtype="float32", progress=True)],
    output: RefineOutput,
) -> None:
    """Re-solve all subgames below a cut, for every blueprint, gadget, prior, epsilon, model and p.

    Prints one row for each result, or a summary if there are many. Exploitability is v* − value against a
    best response; the command therefore also computes a bracket of the game's value v*.
    """
    check_solver(context, solver)
    if output.to_standard_output:
        refuse_unused(context, "with --json -, which has all rows", "rows")
    output.check(folder=solver.checkpoint_path)
    model_specs, specs = models.parse(), blueprints.parse()
    games = gadgets.make(context)
    knowledge = knowing.make(context, knowing.order)
    tree, build = game.lay_out(context, solver.memory_limit)
    from jaxgadget.policy.blueprints import make_blueprints
    from jaxgadget.subgames.recommended import recommended
    from jaxgadget.subgames.refine import refine as refine_subgames
    from jaxgadget.subgames.refine import refine_both
    from jaxgadget.tree.cut import cut
    from jaxgadget.util.clock import Stopwatch

    subgames, reason = cut(tree, cuts.of(tree.game)), ""
    subgames = subgames if options.infostate is None else subgames.only(options.infostate)
    with (watch := Stopwatch()).phase("build"):
        profiles = make_blueprints(tree, specs, progress=True)
        if gadgets.is_auto:
            chosen = recommended(tree, subgames.whole, memory_limit=solver.memory_limit)
            games, reason = [chosen.gadget], chosen.reason
        arguments = (tree, subgames, profiles, make_range_priors(tree, games))
    solving: dict[str, Any] = {
        "solver": solver,
        "opponent": make_opponent(tree, model_specs, models.p),
        "knowledge": knowledge,
    }
    spent = watch.seconds | {"build": watch.seconds["build"] + build}
    with keeping_checkpoints(solver):
        if options.player == "both":
            both_refined = refine_both(*arguments, **solving)
            results, policy = list(both_refined.players), both_refined.policy
        else:
            both_refined = None
            results = [refine_subgames(*arguments, player=options.players[0], **solving)]
            policy = results[0].policy
    failures = {lane for result in results for lane in result.failures}
    output = output.save_defined(policy, failures)
    output.write_page(both_refined or results)
    _report(results, both_refined, spent, output, reason)
    exit_if_failed(results)


def _report(
    results: Sequence[Refinement],
    both_refined: BothRefined | None,
    spent: Mapping[str, float],
    output: RefineOutput,
    reason: str,
) -> None:
    """Writes the files and prints the tables.

    Args:
      results: one refinement for each resolving player.
      both_refined: both players' refinements combined, if both re-solved.
      spent: seconds before re-solving, by phase.
      output: the output files.
      reason: why the gadget was chosen; empty if the user chose it.
    """
    from jaxgadget.report import plots, tables

    tree, (low, high) = results[0].forest.tree, results[0].game_value
    if output.json is not None:
        seconds = {name: spent[name] + sum(r.seconds[name] for r in results) for name in spent}
        record = tables.refinement_record(results[0], seconds, both_refined)
        output.write_json(record | form_record(tree))
    if output.plot is not None:
        title = f"{tree.game.name}, {tables.count_subgames(results[0])} below {results[0].forest.cut.name}"
        table = results[0].table if both_refined is None else both_refined.table
        plots.draw_picture(table, output.plot, title=title, resolution=(high - low) / 2)
    shown: list[tuple[RenderableType, list[str]]] = []
    for number, result in enumerate(results):
        seconds = {
            name: value + (spent[name] if number == 0 else 0) for name, value in result.seconds.items()
        }
        table = tables.refinement_table(result, every_row=output.rows)
        shown.append((table, [*filter(None, [reason]), *tables.refinement_notes(result, seconds)]))
    if both_refined is not None:
        shown.append((tables.both_table(both_refined), []))
    output.print(*shown, warnings=[tables.constant_note(tree)])
