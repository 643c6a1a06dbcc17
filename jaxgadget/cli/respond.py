"""`jaxgadget respond GAME`: strategies against models of an opponent, in the whole game."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxgadget.cli.command import exit_if_failed, keeping_checkpoints, refuse_unused
from jaxgadget.cli.fields import Fields, option, request
from jaxgadget.cli.options import (
    ModelOptions,
    PlayerOptions,
    PlotOutput,
    SavedOutput,
    TreeOptions,
    check_solver,
    form_record,
    make_models,
    positive_number,
)
from jaxgadget.core.solver import Solver

if TYPE_CHECKING:
    from jaxgadget.opponents.result import Responses
    from jaxgadget.policy.policy import Policy
    from jaxgadget.tree.public import Tree

RESPOND_EXAMPLES = """\
Examples:

`jaxgadget respond kuhn_poker --model uniform --algorithm lp --best-nash`

`jaxgadget respond leduc_poker --model uniform --model cfr:10 --p 0.1 --p 0.5 --p 0.9 --plot gains.png`

`jaxgadget respond leduc_poker --model file:observed.npz --player 1 --data-biased --json -`
"""

DEFAULT_P = tuple(round(0.1 * k, 1) for k in range(11))
"""Default probabilities, from 0 (an equilibrium) to 1 (a best response)."""


@request
class RespondOptions(PlayerOptions):
    """Settings of `respond` alone.

    Attributes:
      player: the responding player; the other is the opponent.
      best_nash: also find the equilibrium strategy with the highest value against each model.
      data_biased: also find responses to an opponent that follows its model with probability P independently
        at every infoset.
      tolerance: maximum exploitability of `--best-nash`; above 0, in units of payoff.
    """

    best_nash: bool = False
    data_biased: bool = False
    tolerance: float | None = option(
        None, metavar="T", parser=positive_number, default="1e-3 of the payoff range, or 1e-9 with lp"
    )


@request
class ResponseOutput(PlotOutput, SavedOutput):
    """Files to write.

    Attributes:
      plot: draw gain against exploitability, as .png, .svg or .pdf.
    """


def respond(
    context: typer.Context,
    game: TreeOptions,
    modelled: Annotated[ModelOptions, Fields(p=DEFAULT_P)],
    options: RespondOptions,
    solver: Annotated[Solver, Fields(algorithm="cfr+", iterations=1000, dtype="float64", progress=True)],
    output: ResponseOutput,
) -> None:
    """Compute responses to models of an opponent, their gains against the models, and their exploitability.

    Computes restricted Nash responses to every model with every P in one batch: optimal strategies against an
    opponent that follows the model with probability P and is unrestricted otherwise.
    """
    check_solver(context, solver)
    if not modelled.model:
        raise ValueError(
            "--model is missing: expected a strategy that the opponent may play, such as uniform"
        )
    if not options.best_nash:
        refuse_unused(context, "without --best-nash", "tolerance")
    if output.save is not None and options.player == "both":
        raise ValueError("--save with --player both: strategies of one player; choose 0 or 1")
    output.check(folder=solver.checkpoint_path)
    specs = modelled.parse()
    tree, _ = game.lay_out(context, solver.memory_limit)
    models = make_models(tree, specs)
    solving: dict[str, Any] = {"solver": solver}
    by_player: list[list[Responses]] = []
    with keeping_checkpoints(solver):
        for player in options.players:
            solving["player"] = player
            by_player.append(_respond(tree, models, modelled.p, solving, options))
            solving["value"] = by_player[0][0].game_value
    results = [result for responses in by_player for result in responses]
    output = _save(results, output)
    output.write_page(results)
    if output.json is not None:
        from jaxgadget.report.opponents import responses_record

        output.write_json(responses_record(results) | form_record(tree))
    if output.plot is not None:
        _draw(results, output.plot)
    _show(by_player, output)
    exit_if_failed(results)


def _respond(
    tree: Tree,
    models: Policy,
    p: Sequence[float],
    solving: dict[str, Any],
    options: RespondOptions,
) -> list[Responses]:
    """Computes one player's responses by each method; the first also finds the game's value."""
    from jaxgadget.opponents import respond as library
    from jaxgadget.opponents.opponent import Opponent

    opponents = Opponent(models, p)
    responses = [library.respond(tree, opponents, **solving)]
    solving = solving | {"value": responses[0].game_value}
    if options.best_nash:
        responses.append(library.best_nash(tree, models, tolerance=options.tolerance, **solving))
    if options.data_biased:
        responses.append(library.data_biased_response(tree, opponents, **solving))
    return responses


def _save(results: Sequence[Responses], output: ResponseOutput) -> ResponseOutput:
    """Writes the computed strategies."""
    if output.save is None:
        return output
    from jaxgadget.policy.policy import Policy

    before = list(itertools.accumulate((result.policy.num_lanes for result in results), initial=0))
    failures = [
        first + lane for first, result in zip(before, results, strict=False) for lane in result.failures
    ]
    return output.save_defined(Policy.stack([result.policy for result in results]), failures)


def _draw(results: Sequence[Responses], path: pathlib.Path) -> None:
    """Draws gain against exploitability of all results."""
    from matplotlib.figure import Figure

    from jaxgadget.report.opponents import responses_frame
    from jaxgadget.report.pareto import plot_responses
    from jaxgadget.report.plots import save_picture
    from jaxgadget.report.styles import FIGURE_SIZE

    figure = Figure(figsize=FIGURE_SIZE, layout="constrained")
    title = f"{results[0].policy.tree.game.name}, {results[0].algorithm}"
    plot_responses(responses_frame(results), figure.add_subplot(), title=title)
    save_picture(figure, path)


def _show(by_player: Sequence[Sequence[Responses]], output: ResponseOutput) -> None:
    """Prints a table for every player, unless standard output contains only JSON."""
    from jaxgadget.report.opponents import responses_notes, responses_table
    from jaxgadget.report.tables import constant_note

    constant = constant_note(by_player[0][0].policy.tree)
    tables = [(responses_table(responses), responses_notes(responses)) for responses in by_player]
    tables[-1][1].append(constant)
    output.print(*tables, warnings=[constant])
