"""`jaxgadget nested GAME`."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from jaxgadget.cli.command import exit_if_failed, refuse_unused
from jaxgadget.cli.fields import Fields, option, request
from jaxgadget.cli.leaves import (
    END,
    EPSILON,
    EXACT,
    OPTIMAL,
    LeafOptions,
    SearchBlueprintOptions,
    join,
    note_unused,
)
from jaxgadget.cli.options import (
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
)
from jaxgadget.core.solver import LP, Solver
from jaxgadget.gadgets.registry import DEFAULT_GADGETS

if TYPE_CHECKING:
    from jaxgadget.subgames.nested import Nested

NESTED_EXAMPLES = """\
Examples:

`jaxgadget nested leduc_poker --blueprint cfr:10 --gadget resolving --prior blueprint`

`jaxgadget nested leduc_poker --blueprint cfr:10 --leaf leduc-values --depth 1 --player 1 --json -`

`jaxgadget nested leduc_poker --leaf values:leduc-ranges --gadget resolving`

`jaxgadget nested "goofspiel(num_cards=4,imp_info=True)" --leaf end --order 1 --gadget resolving`

`jaxgadget nested leduc_poker --model uniform --p 0.5 --p 1 --leaf optimal --limit moves --algorithm lp`
"""


@request
class NestedOptions(PlayerOptions):
    """Settings of `nested` alone.

    Attributes:
      player: the searching player; the other is the opponent. With `both`, each player in turn, with NashConv
        of the two results combined.
      limit: end of searches: `own`, the searching player's first decision at least D moves down; or `moves`,
        after exactly D moves of either player, with the first search at the game's root.
      step: distance to the next search, in own decisions, or in moves with `--limit moves`.
      beyond: strategy below the limit of a search of an opponent that follows the model.
    """

    limit: Literal["own", "moves"] = "own"
    step: int | None = option(None, min=1, default="1, or D with --limit moves")
    beyond: Literal["rational", "model"] = "rational"


@request
class NestedGadgetOptions(GadgetOptions):
    """Gadgets of nested search.

    Attributes:
      gadget: the gadget by which the opponent enters a subgame: `unsafe`, `resolving`, `max-margin` or `full`
        search each subgame separately; `optimal-continuation` searches all subgames of a level jointly, which
        is safe; or a class of your own, `path.py:Class`.
    """

    gadget: tuple[str, ...] = option(
        (),
        metavar="NAME",
        default="unsafe, resolving and max-margin; with --model or optimal values optimal-continuation",
    )


@request
class NestedOutput(PlotOutput, SavedOutput):
    """Files to write.

    Attributes:
      plot: draw nested against blueprint exploitability, as .png, .svg or .pdf.
    """


def nested(
    context: typer.Context,
    game: TreeOptions,
    options: NestedOptions,
    leaves: LeafOptions,
    blueprints: SearchBlueprintOptions,
    models: ModelOptions,
    knowing: Annotated[KnowledgeOptions, Fields("order", "unfrozen", "follow")],
    gadgets: Annotated[NestedGadgetOptions, Fields("gadget", "prior", "epsilon", epsilon=(EPSILON,))],
    solver: Annotated[
        Solver,
        Fields(
            *("algorithm", "iterations", "time_limit", "dtype"),
            algorithm="cfr+",
            iterations=3000,
            dtype="float32",
            progress=True,
        ),
    ],
    output: NestedOutput,
) -> None:
    """Search again at every own decision, to a depth limit or the end, and report the exploitability.

    The policy is assembled in the whole game, so that its exploitability is exact.
    Times include compilation in the first search of every shape (Leduc: about half a minute).

    With a model that the opponent follows with probability P, play is a continual depth-limited response; the
    table also reports its gain against the model over the game's value.
    """
    _check(context, leaves, knowing.order, solver)
    specs = models.parse()
    if not specs:
        refuse_unused(context, "without --model", "beyond")
    output.check()
    offers = None
    if gadgets.gadget or not (specs or leaves.leaf == OPTIMAL):
        offers = dataclasses.replace(gadgets, gadget=gadgets.gadget or DEFAULT_GADGETS).make(context)
    else:
        refuse_unused(context, "without --gadget, where levels are searched jointly", "prior", "epsilon")
    knowledge = knowing.make(context, knowing.order)
    blueprint_specs = blueprints.parse()
    tree, _ = game.lay_out(context, solver.memory_limit)
    from jaxgadget.policy.blueprints import make_blueprints
    from jaxgadget.policy.evaluate import nash_conv
    from jaxgadget.report import search as report
    from jaxgadget.report.tables import constant_note
    from jaxgadget.subgames.nested import nested_search
    from jaxgadget.subgames.schedule import Lookahead

    profiles = make_blueprints(tree, blueprint_specs, progress=True)
    values = leaves.make(context, tree, profiles)
    opponent = make_opponent(tree, specs, models.p, options.beyond)
    searching: dict[str, Any] = {"opponent": opponent, "solver": solver}
    if leaves.leaf == END:
        lookahead = Lookahead(step=options.step, knowledge=knowledge)
    elif leaves.is_of_ranges:
        lookahead = Lookahead(values, knowledge=knowledge)
    else:
        lookahead = Lookahead(values, leaves.depth, options.limit, options.step, knowledge=knowledge)
    searches: list[Nested] = []
    for player in options.players:
        searches.append(nested_search(tree, profiles, offers, lookahead, player=player, **searching))
        searching["value"] = searches[0].game_value
    joined = join(searches)
    failures = {lane for result in searches for lane in result.failures}
    nash_convs = None
    if len(searches) > 1:
        nash_convs = nash_conv(joined)
        nash_convs[list(failures)] = math.nan
    output = output.save_defined(joined, failures)
    output.write_page(searches)
    if output.plot is not None:
        _draw(searches, output.plot)
    output.write_json(report.nested_records(searches, nash_convs) | form_record(tree))
    unused = ""
    if searches[0].schedule is not None and leaves.leaf not in (OPTIMAL, END):
        unused = note_unused(searches)
    constant = constant_note(tree)
    tables = [(report.nested_table(result), [constant, *report.nested_notes(result)]) for result in searches]
    if nash_convs is not None:
        tables[-1][1].append(report.together_note(joined.labels, nash_convs))
    tables[-1][1].append(unused)
    output.print(*tables, warnings=[constant, unused])
    exit_if_failed(searches)


def _check(context: typer.Context, leaves: LeafOptions, order: str | None, solver: Solver) -> None:
    """Raises ValueError for options that cannot be combined with the values at the limit."""
    leaf = leaves.leaf
    if leaf == OPTIMAL:
        refuse_unused(context, "with optimal values at --leaf", "k", "seed")
    elif leaf == END:
        refuse_unused(context, "with --leaf end", "k", "seed", "depth", "limit")
    elif leaf != EXACT:
        refuse_unused(context, "with a network at --leaf", "seed")
    if order is not None and solver.algorithm == LP:
        raise ValueError(
            f"--algorithm lp and --order {order}: searches from own infostates use CFR; leave one out"
        )
    if solver.algorithm == LP and leaf != OPTIMAL:
        raise ValueError(
            "--algorithm lp: linear programs need optimal values; expected --leaf optimal beside it"
        )
    check_solver(context, solver)
    if order is not None and (leaf == OPTIMAL or leaves.is_of_ranges):
        raise ValueError(
            f"--order {order} with --leaf {leaf}: these values are of public states, but searches from own "
            f"infostates have only parts of these; expected --leaf {EXACT}, {END} or a network of train-value"
        )


def _draw(searches: Sequence[Nested], path: pathlib.Path) -> None:
    """Draws the exploitability of nested search against the blueprint's, for all searching players."""
    import pandas as pd

    from jaxgadget.report.plots import draw_picture

    first, (low, high) = searches[0], searches[0].game_value
    table = pd.concat([result.table for result in searches], ignore_index=True)
    table = table.rename(columns={"nested_exploitability": "refined_exploitability"})
    limit = f"depth {first.depth}, K = {first.num_entries}" if first.depth is not None else first.leaf
    title = f"{first.policy.tree.game.name}, nested search, {limit}"
    draw_picture(table, path, title=title, resolution=(high - low) / 2, after="Nested")
