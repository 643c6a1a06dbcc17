"""`jaxgadget respond GAME`: strategies against models of an opponent, in the whole game."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxgadget.cli import options
from jaxgadget.cli.command import (
    check_algorithm,
    check_models,
    keeping_checkpoints,
    make_models,
    parse_models,
    refuse_unused,
)
from jaxgadget.cli.prepare import enumerate_named, exit_if_undefined, save_defined
from jaxgadget.games.game import DEFAULT_MAX_HISTORIES
from jaxgadget.report.output import STANDARD_OUTPUT, check_outputs, show, warn, write_json, written

if TYPE_CHECKING:
    from jaxgadget.opponents.result import Responses
    from jaxgadget.policy.policy import Policy
    from jaxgadget.tree.history import HistoryTree

RESPOND_EXAMPLES = """\
Examples:

`jaxgadget respond kuhn_poker --model uniform --algorithm lp --best-nash`

`jaxgadget respond leduc_poker --model uniform --model cfr:10 --p 0.1 --p 0.5 --p 0.9 --plot gains.png`

`jaxgadget respond leduc_poker --model file:observed.npz --player 1 --data-biased --json -`
"""

DEFAULT_P = tuple(round(0.1 * k, 1) for k in range(11))
"""From an equilibrium to a best response."""

Model = Annotated[
    list[str] | None,
    options.repeatable(
        "--model",
        metavar="SPEC",
        show_default=False,
        help="What the opponent is believed to play; as `--blueprint` of `refine`.",
    ),
]
Probability = Annotated[
    list[float] | None,
    options.repeatable(
        "--p",
        metavar="P",
        show_default="0, 0.1, …, 1",
        help="How likely the opponent follows its model, from 0 to 1; else it plays as it likes.",
    ),
]
BestNash = Annotated[
    bool,
    typer.Option("--best-nash", help="Also the equilibrium strategy that does best against each model."),
]
DataBiased = Annotated[
    bool,
    typer.Option(
        "--data-biased",
        help="Also responses to an opponent who follows its model with probability P at every infoset anew.",
    ),
]
Tolerance = Annotated[
    float | None,
    typer.Option(
        "--tolerance",
        metavar="T",
        parser=options.positive_number,
        show_default="1e-3 of the payoff range, or 1e-9 with lp",
        help="By how much `--best-nash` may guarantee less than the game's value; above 0, in units of "
        "payoff.",
    ),
]
ResponsePlot = Annotated[
    pathlib.Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw gain against exploitability: .png, .svg or .pdf."),
]
Responder = Annotated[
    options.PlayerName,
    typer.Option("--player", metavar="0|1|both", help="Who responds; the other is the opponent."),
]


def respond(
    context: typer.Context,
    game: options.Game,
    model: Model = None,
    p: Probability = None,
    player: Responder = options.PlayerName.FIRST,
    best_nash: BestNash = False,
    data_biased: DataBiased = False,
    tolerance: Tolerance = None,
    algorithm: options.Algorithm = options.CFR_PLUS,
    iterations: options.Iterations = 1000,
    dtype: options.Dtype = options.DtypeName.FLOAT64,
    target_gap: options.TargetGap = None,
    checkpoint: options.CheckpointFolder = None,
    time_limit: options.TimeLimit = None,
    memory_limit: options.MemoryLimit = None,
    plot: ResponsePlot = None,
    save: options.Save = None,
    max_histories: options.MaxHistories = DEFAULT_MAX_HISTORIES,
    json: options.Json = None,
) -> None:
    """Respond to models of an opponent: what is gained, and how exploitable that makes.

    Restricted Nash responses to every model with every P, all in one batch: the best against an opponent
    who follows the model with probability P and plays as it likes otherwise.
    """
    check_algorithm(context, algorithm)
    if not model:
        raise ValueError(
            "--model is missing: expected what the opponent is believed to play, such as uniform"
        )
    if not best_nash:
        refuse_unused(context, "without --best-nash", "tolerance")
    if save is not None and player is options.PlayerName.BOTH:
        raise ValueError("--save with --player both: strategies of one player; choose 0 or 1")
    check_outputs({"--json": json, "--save": save, "--plot": plot}, folder=checkpoint)
    numbers = p or DEFAULT_P
    check_models(model, numbers)
    specs = parse_models(model)
    tree, _ = enumerate_named(game, max_histories)
    models = make_models(tree, specs)
    solving: dict[str, Any] = {
        "algorithm": str(algorithm),
        "iterations": iterations,
        "dtype": dtype.value,
        "target_gap": target_gap,
        "checkpoint": checkpoint,
        "time_limit": time_limit,
        "memory_limit": memory_limit,
        "progress": True,
    }
    by_player: list[list[Responses]] = []
    with keeping_checkpoints(checkpoint):
        for number in (0, 1) if player is options.PlayerName.BOTH else (int(player),):
            solving["player"] = number
            by_player.append(_respond(tree, models, numbers, solving, best_nash, tolerance, data_biased))
            solving["value"] = by_player[0][0].game_value
    results = [result for responses in by_player for result in responses]
    reasons = [why for result in results for why in result.failures.values()]
    if save is not None:
        save = _save(results, save)
    if json is not None:
        from jaxgadget.report.opponents import responses_record

        write_json(json, responses_record(results))
    if plot is not None:
        _draw(results, plot)
    _show(by_player, json, written(results=json, picture=plot, strategies=save))
    exit_if_undefined(reasons, sum(result.policy.num_lanes for result in results))


def _respond(
    tree: HistoryTree,
    models: Policy,
    p: Sequence[float],
    solving: dict[str, Any],
    best_nash: bool,
    tolerance: float | None,
    data_biased: bool,
) -> list[Responses]:
    """One player's responses, method by method; what follows the first knows the game's value."""
    from jaxgadget.opponents import respond as library
    from jaxgadget.opponents.opponent import Opponent

    opponents = Opponent(models, p)
    responses = [library.respond(tree, opponents, **solving)]
    solving = solving | {"value": responses[0].game_value}
    if best_nash:
        responses.append(library.best_nash(tree, models, tolerance=tolerance, **solving))
    if data_biased:
        responses.append(library.data_biased_response(tree, opponents, **solving))
    return responses


def _save(results: Sequence[Responses], path: pathlib.Path) -> pathlib.Path | None:
    """Writes the strategies of one player that were found."""
    from jaxgadget.policy.policy import Policy

    before = list(itertools.accumulate((result.policy.num_lanes for result in results), initial=0))
    failures = [
        first + lane for first, result in zip(before, results, strict=False) for lane in result.failures
    ]
    return save_defined(Policy.stack([result.policy for result in results]), failures, path)


def _draw(results: Sequence[Responses], path: pathlib.Path) -> None:
    """Gain against exploitability of all results."""
    from matplotlib.figure import Figure

    from jaxgadget.report.opponents import responses_frame
    from jaxgadget.report.pareto import plot_responses
    from jaxgadget.report.plots import save_picture
    from jaxgadget.report.styles import FIGURE_SIZE

    figure = Figure(figsize=FIGURE_SIZE, layout="constrained")
    title = f"{results[0].policy.tree.game.name}, {results[0].algorithm}"
    plot_responses(responses_frame(results), figure.add_subplot(), title=title)
    save_picture(figure, path)


def _show(by_player: Sequence[Sequence[Responses]], json: str | None, last: Sequence[str]) -> None:
    """A table for every player, unless standard output has the JSON."""
    from jaxgadget.report.opponents import responses_notes, responses_table
    from jaxgadget.report.tables import constant_note

    constant = constant_note(by_player[0][0].policy.tree)
    if json == STANDARD_OUTPUT:
        warn(constant)
        return
    for number, responses in enumerate(by_player, 1):
        is_last = number == len(by_player)
        notes = [*responses_notes(responses), *([constant, *last] if is_last else [])]
        show(responses_table(responses), notes)
