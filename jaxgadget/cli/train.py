"""`jaxgadget train-value GAME`, `train-ranges GAME`, and `train-deals` for a spot of hold'em."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import pathlib
import shlex
from typing import TYPE_CHECKING, Annotated, Any, Literal

from jaxgadget.cli.command import keeping
from jaxgadget.cli.fields import Fields, option, request
from jaxgadget.cli.holdem import SpotOptions
from jaxgadget.cli.leaves import DEFAULT_ENTRIES, SearchBlueprintOptions
from jaxgadget.cli.options import CutOptions, GameOptions, PlotOutput, SeedOptions
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.registry import VALUES
from jaxgadget.report.output import warn, working

if TYPE_CHECKING:
    from jaxgadget.learn.errors import RegressionResult
    from jaxgadget.policy.policy import Policy
    from jaxgadget.tree.history import HistoryTree
    from jaxgadget.values.histories import ValueFunction

VALUE_EXAMPLES = """\
Examples:

`jaxgadget train-value leduc_poker --blueprint cfr:10 --out leduc-values`

`jaxgadget train-value "goofspiel(num_cards=4,imp_info=True)" --k 5 --steps 2000 --out values --json -`
"""

RANGES_EXAMPLES = """\
Examples:

`jaxgadget train-ranges leduc_poker --cut flop --out leduc-ranges`

`jaxgadget refine leduc_poker --cut flop --alternative values:leduc-ranges --gadget resolving`
"""


DEALS_EXAMPLES = """\
Examples:

`jaxgadget train-deals --board Td9d6hQc --oop "66+,A8s+,KQo" --ip "QQ-22,ATo+" --pot 60 --stack 200 --bets 50%
--raises "" --out turn-values`

`jaxgadget holdem --board Td9d6hQc --oop "66+,A8s+,KQo" --ip "QQ-22,ATo+" --pot 60 --stack 200 --bets 50%
--raises "" --leaf turn-values`
"""


@request
class TrainingOptions(SeedOptions):
    """Settings of any training.

    Attributes:
      out: folder of checkpoints and the log; the same command resumes the training.
      steps: number of training steps.
      width: number of units of each layer of the network.
      blocks: number of residual blocks of the network, of two layers each; `depth` in Python.
      batch_size: number of examples in a training step.
      learning_rate: maximum learning rate; it rises during the first 2 % of the steps, then falls.
      heldout: share of the examples, at least 0 and below 1, that are only used to measure the error; as
        searches evaluate these examples, too, 0 is best for search.
    """

    out: pathlib.Path = dataclasses.field(metadata={"metavar": "DIR"})
    steps: int = option(10_000, min=1)
    width: int = option(512, min=1)
    blocks: int = option(1, min=0)
    batch_size: int = option(256, min=1)
    learning_rate: float = option(3e-3, metavar="R")
    heldout: float = option(0.02, metavar="SHARE", min=0, max=1)


@request
class ValueOptions:
    """Values of histories to learn.

    Attributes:
      k: number of strategies that each player chooses from at the limit; the first is the blueprint.
      targets: targets of the network: exact expectations, or sampled returns if these do not fit into memory
        (the game itself must fit).
      depth: number of moves down to the limit of the searches for whose leaves the error is reported.
    """

    k: int = option(DEFAULT_ENTRIES, metavar="K", min=1)
    targets: Literal["exact", "sampled"] = "exact"
    depth: int = option(1, metavar="D", min=1)


@request
class RangesOptions:
    """Values of ranges to learn.

    Attributes:
      samples: number of pairs of ranges drawn initially.
      rounds: number of rounds, each of which collects half as many further samples from the ranges that
        searches with the network query.
      network: `padded` is the most accurate for its cut; `infostates` can also be used at other cuts.
    """

    samples: int = option(8192, min=16)
    rounds: int = option(2, min=0, max=100)
    network: Literal["padded", "infostates"] = "padded"


@request
class DealsOptions:
    """Values of ranges at the first deal to learn.

    Attributes:
      samples: number of pairs of ranges drawn initially, each at all deals.
      rounds: number of rounds, each of which adds half as many from searches with the network.
    """

    samples: int = option(512, min=16)
    rounds: int = option(1, min=0, max=100)


@request
class TrainingOutput(PlotOutput):
    """Files to write.

    Attributes:
      plot: draw the training curves, as .png, .svg or .pdf.
    """


def train_value(
    game: GameOptions,
    training: TrainingOptions,
    options: ValueOptions,
    blueprints: SearchBlueprintOptions,
    solver: Annotated[Solver, Fields("iterations", iterations=200)],
    output: TrainingOutput,
) -> None:
    """Train a network that predicts values of histories under every pair of continuation strategies.

    The strategies are derived from the blueprint, so that the network is valid for this blueprint only.
    Errors are reported for training histories, for held-out histories, and for the leaves visited by nested
    search with the network (resolving with blueprint prior, both players, ITERATIONS iterations each).
    """
    output.check()
    spec = blueprints.only()
    tree, profile = blueprints.make_one(game)
    from jaxgadget.learn.options import TrainingConfig
    from jaxgadget.learn.training import train_value as train
    from jaxgadget.policy.portfolio import make_portfolio
    from jaxgadget.report import search as report

    with working("portfolio"):
        portfolio = make_portfolio(profile, size=options.k, seed=training.seed, progress=True)
    with keeping_steps(training.out, training.steps):
        trained = train(
            tree,
            portfolio,
            folder=training.out,
            config=TrainingConfig(**_shared(training)),
            targets=options.targets,
            progress=True,
        )
    _draw(trained, output)
    try:
        error = _visited_error(tree, profile, portfolio, trained.values, options.depth, solver.num_iterations)
    except ValueError as problem:  # the training is reported nevertheless
        warn(f"The error over leaves that search visits is not known: {problem}")
        error = math.nan
    output.write_json(report.training_record(trained, error, training.steps))
    use = ["jaxgadget", "nested", game.game, "--leaf", str(training.out)]
    use += ["--blueprint", spec, "--k", str(options.k)]
    notes = ["The network is for this game and blueprint only:", shlex.join(use)]
    output.print((report.training_table(trained, error, training.steps), notes))


def train_ranges(
    game: GameOptions,
    cuts: CutOptions,
    options: RangesOptions,
    training: Annotated[TrainingOptions, Fields(width=128, batch_size=64, learning_rate=2e-3, heldout=0.05)],
    solver: Annotated[Solver, Fields("iterations", iterations=300)],
    output: TrainingOutput,
) -> None:
    """Train a network that predicts values of subgames for any ranges of both players.

    The network is for a game and a cut, and can be used with any blueprint by `refine --alternative
    values:DIR` and `nested --leaf values:DIR`. ITERATIONS is the number of iterations of CFR+ in every
    subgame of the training data.
    """
    output.check()
    tree, _ = game.enumerate()
    from jaxgadget.learn.options import RangeTrainingConfig
    from jaxgadget.learn.range_training import describe_kept
    from jaxgadget.learn.range_training import train_ranges as train
    from jaxgadget.report import search as report

    steps = training.steps
    config = RangeTrainingConfig(**_shared(training), **vars(options), iterations=solver.num_iterations)
    with keeping(lambda: describe_kept(training.out, steps)):
        trained = train(
            tree,
            cuts.of(tree.game),
            folder=training.out,
            config=config,
            progress=True,
        )
    _draw(trained, output)
    output.write_json(report.ranges_record(trained, steps))
    use = ["jaxgadget", "refine", game.game, "--cut", trained.values.cut]
    use += ["--alternative", f"{VALUES}:{training.out}"]
    search = ["jaxgadget", "nested", game.game, "--leaf", f"{VALUES}:{training.out}"]
    notes = [*report.ranges_notes(trained), "Use it after any blueprint:"]
    output.print((report.ranges_table(trained, steps), [*notes, shlex.join(use), shlex.join(search)]))


def train_deals(
    spot: Annotated[SpotOptions, Fields(without=("rake", "rake_cap", "label"))],
    options: DealsOptions,
    training: Annotated[
        TrainingOptions, Fields(steps=4000, width=64, batch_size=8, learning_rate=2e-3, heldout=0.05)
    ],
    solver: Annotated[Solver, Fields("iterations", iterations=100)],
    output: TrainingOutput,
) -> None:
    """Train a network that predicts values of hold'em hands when the first card of a spot is dealt.

    It is for the board, and for the pots, stacks and bets after the deals of this spot; weights may differ.
    `jaxgadget holdem --leaf DIR` solves with it. ITERATIONS is the number of iterations of DCFR on the later
    streets for the training data; each sample takes about as long as these iterations of the whole spot.
    """
    output.check()
    from jaxgadget.learn.deal_network import train_deals as train
    from jaxgadget.learn.options import RangeTrainingConfig
    from jaxgadget.learn.range_training import describe_kept
    from jaxgadget.report import search as report

    config = RangeTrainingConfig(
        **_shared(training), **vars(options), network="infostates", iterations=solver.num_iterations
    )
    with keeping(lambda: describe_kept(training.out, training.steps)):
        made = spot.make("--board, --pot and --stack")
        trained = train(made, config=config, folder=training.out, progress=True)
    _draw(trained, output)
    output.write_json(report.deals_record(trained, training.steps))
    solved = f"{trained.samples} pairs of ranges solved, mean gap {trained.gap:.2g} pots"
    notes = [f"{solved}; {trained.seconds:.0f} s in total."]
    notes += [f"Solve with it: jaxgadget holdem … --leaf {shlex.quote(str(training.out))}"]
    output.print((report.deals_table(trained, training.steps), notes))


def _shared(training: TrainingOptions) -> dict[str, Any]:
    """Settings shared by both kinds of training, by their names in Python."""
    settings: dict[str, Any] = dict(vars(training))
    del settings["out"]
    return settings | {"depth": settings.pop("blocks")}


def keeping_steps(out: pathlib.Path, steps: int) -> contextlib.AbstractContextManager[None]:
    """Context manager that adds a description of the folder's checkpoint to an interrupt."""
    from jaxgadget.networks.checkpoints import last_step

    def describe() -> str:
        step = last_step(out)
        return "" if step is None else f"{str(out)!r} keeps the checkpoint of step {step} of {steps}"

    return keeping(describe)


def _draw(trained: RegressionResult, output: TrainingOutput) -> None:
    """Draws the curves of a training if `--plot` names a file."""
    if output.plot is not None:
        from jaxgadget.report.plots import save_picture
        from jaxgadget.report.training import draw_training

        figure = draw_training(trained.log, payoff_range=trained.payoff_range).get_figure(root=True)
        if figure is not None:
            save_picture(figure, output.plot)


def _visited_error(
    tree: HistoryTree,
    profile: Policy,
    portfolio: Policy,
    values: ValueFunction,
    depth: int,
    iterations: int,
) -> float:
    """Root mean squared error at the leaves of nested search with these values, over both players.

    Raises:
      ValueError: if there is no such search, or none ends before the end of the game.
    """
    from jaxgadget.gadgets.root_gadgets import Resolving
    from jaxgadget.learn.training import visited_rmse
    from jaxgadget.subgames.nested import nested_search
    from jaxgadget.subgames.schedule import Lookahead
    from jaxgadget.values.histories import ExactValues

    visits = [
        nested_search(
            tree,
            profile,
            Resolving(),
            Lookahead(values, depth=depth),
            player=player,
            value=tree.payoff_bounds,  # exploitabilities are not requested
            solver=Solver(iterations=iterations, progress=True),
        ).visits[0]
        for player in (0, 1)
    ]
    from numpy import concatenate

    histories, weights = (concatenate(parts) for parts in zip(*visits, strict=True))
    if not len(histories):
        raise ValueError(
            f"all searches extend to the end of the game at depth {depth}; choose a smaller --depth"
        )
    return visited_rmse(values, ExactValues(portfolio), tree, histories, weights)
