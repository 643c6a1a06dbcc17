"""What all commands do alike: which options they refuse, what they say of errors, and of what is kept."""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import os
import pathlib
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperOption

from jaxgadget.cli.options import LP
from jaxgadget.gadgets.registry import (
    BEST_RESPONSE,
    CONTINUATION,
    DEFAULT_GADGETS,
    DEFAULT_PRIORS,
    RANGE,
    RANGE_VALUES,
)
from jaxgadget.report.tables import INFINITE
from jaxgadget.util.arguments import read_number
from jaxgadget.util.interrupts import telling_what_is_kept

if TYPE_CHECKING:
    from jaxgadget.gadgets.alternative import Alternative
    from jaxgadget.gadgets.gadget import Gadget
    from jaxgadget.gadgets.prior import Prior
    from jaxgadget.policy.blueprints import BlueprintSpec
    from jaxgadget.policy.policy import Policy
    from jaxgadget.refining.knowledge import Knowledge
    from jaxgadget.tree.history import HistoryTree

MODEL = "--model"
"""What errors call a model's SPEC."""
RANGE_OF = f"--prior {RANGE}:SPEC"
"""What they call the SPEC of a model whose range is a prior."""


OUTPUTS = frozenset({"json", "save", "plot", "csv", "parquet", "profile", "file", "results"})
"""Parameters that name a file to be written."""


class Command(TyperCommand):
    """A command that loses nothing of what it is given.

    An option that takes a single value is refused if it is given twice, and a file that is read is refused
    as one to be written.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See `TyperCommand`."""
        order: list[Any] = self.make_parser(ctx).parse_args(args=list(args))[2]
        for number, option in enumerate(order):
            single = isinstance(option, TyperOption) and not option.multiple and not option.is_flag
            if single and option in order[:number]:
                raise typer.BadParameter("given more than once; expected one value", ctx=ctx, param=option)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """See `TyperCommand`."""
        with clear_errors():
            self._check_outputs(ctx)
        return super().invoke(ctx)

    def _check_outputs(self, ctx: Any) -> None:
        """ValueError for a file that is to be read and to be written."""
        read: dict[str, Any] = {}
        written: dict[Any, str | pathlib.Path] = {}
        for option in self.params:
            value = ctx.params.get(option.name)
            if option.name not in OUTPUTS:
                read |= {os.path.realpath(file): option for file in _files_in(value)}
            elif value is not None:
                written[option] = value
        for option, path in written.items():
            if (reader := read.get(os.path.realpath(path))) is not None:
                ours, theirs = (each.get_error_hint().strip("'") for each in (option, reader))
                raise ValueError(f"{ours} {os.fspath(path)}: {theirs} reads that file; choose another one")


def _files_in(value: Any) -> list[str]:
    """Files that are there and that a value names, or values do: `x.efg`, `file:x.npz`, `x.py:Game`."""
    values = value if isinstance(value, list | tuple) else [value]
    found: list[str] = []
    for text in [str(each) for each in values if isinstance(each, str | pathlib.Path)]:
        parts = text.split(":")
        names = [":".join(parts[number:]) for number in range(len(parts))] + [":".join(parts[:-1])]
        found += [name for name in names if name and os.path.isfile(name)]
    return found


def is_given(context: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line, by the name of its parameter."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def refuse_unused(context: typer.Context, beside: str, *names: str) -> None:
    """ValueError if one of some options was given: `beside` what it means nothing."""
    for name in names:
        if is_given(context, name):
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} means nothing {beside}; leave it out")


def check_algorithm(context: typer.Context, algorithm: str) -> None:
    """ValueError for options that the algorithm does not have."""
    if algorithm == LP:
        none_of_its = ("iterations", "dtype", "memory_limit", "target_gap", "checkpoint", "spread")
        refuse_unused(context, "with --algorithm lp", *none_of_its)
    else:
        refuse_unused(context, f"with --algorithm {algorithm}, only with lp", "time_limit")


def check_gadgets(context: typer.Context, gadgets: Sequence[Gadget]) -> None:
    """ValueError for options that none of the gadgets has."""
    from jaxgadget.gadgets.prior import NoPrior

    if all(isinstance(gadget.prior, NoPrior) for gadget in gadgets):
        refuse_unused(context, "where all gadgets have the prior none", "epsilon")
    names = ", ".join(dict.fromkeys(gadget.name for gadget in gadgets))
    for option, attribute in {
        "alternative": "alternative",
        "spread": "spread",
        "gifts": "gifts",
        "scale_gifts": "scaled",
    }.items():
        if not any(hasattr(gadget, attribute) for gadget in gadgets):
            refuse_unused(context, f"for {names}", option)


def check_models(models: Sequence[str] | None, p: Sequence[float] | None) -> None:
    """ValueError unless models come with how likely they are followed, in [0, 1]."""
    if p and not models:
        raise ValueError(f"--p {p[0]:g}: expected --model with it, what the opponent is believed to play")
    if models and not p:
        raise ValueError(
            f"--model {models[0]}: expected --p with it, how likely the model is followed, from 0 to 1"
        )
    for number in p or ():
        if not 0 <= number <= 1:
            raise ValueError(f"--p {number:g}: expected a number from 0 to 1")


def parse_models(specs: Sequence[str]) -> list[BlueprintSpec]:
    """What `--model` names, taken apart; ValueError, in its words, for what is no SPEC."""
    from jaxgadget.policy.blueprints import parse_blueprint

    return [parse_blueprint(spec, MODEL) for spec in specs]


def make_models(tree: HistoryTree, specs: Sequence[BlueprintSpec]) -> Policy:
    """The models that `--model` names, a lane each; ValueError, in its words, for those of another game."""
    from jaxgadget.policy.blueprints import make_blueprints

    return make_blueprints(tree, specs, progress=True, what=MODEL)


def make_asked_gadgets(
    names: Sequence[str] | None,
    priors: Sequence[str] | None,
    epsilons: Sequence[str] | None,
    alternatives: Sequence[str] | None,
    settings: Mapping[str, Any] | None = None,
) -> list[Gadget]:
    """The gadgets that the options name together; see `make_gadgets`.

    Raises:
      ValueError: as `make_gadgets`, in the words of the options; and for a network that is not finished.
    """
    from jaxgadget.gadgets.alternative import AlternativeRefusedError
    from jaxgadget.gadgets.specs import make_gadgets

    asked = list(dict.fromkeys(alternatives or [BEST_RESPONSE]))
    promises = [_make_promise(text) for text in asked]
    chosen = [_make_prior(text) for text in priors or DEFAULT_PRIORS]
    try:
        return make_gadgets(names or DEFAULT_GADGETS, chosen, epsilons, promises, settings)
    except AlternativeRefusedError:
        raise ValueError(
            f"--alternative {', '.join(asked)} means nothing for --gadget optimal-continuation: play never "
            "leaves that one, so there is nothing to promise; leave one of the two out"
        ) from None


def read_spread(text: str | None) -> float | str | None:
    """What `--spread` says: a number, or a name as it is; ValueError for what is neither."""
    if text is None or text == BEST_RESPONSE:
        return text
    number = read_number(text)
    if number is None or number < 0:
        raise ValueError(f"--spread {text}: expected a number >= 0 in units of payoff, or {BEST_RESPONSE}")
    return number


def _make_prior(text: str) -> str | Prior:
    """What `--prior` names: a name as it is, or the range of models that are made later."""
    from jaxgadget.policy.blueprints import parse_blueprint
    from jaxgadget.refining.range_prior import RangeOfSpec

    name, colon, spec = text.partition(":")
    return RangeOfSpec(spec=parse_blueprint(spec, RANGE_OF)) if name == RANGE and colon else text


def make_range_priors(tree: HistoryTree, gadgets: Sequence[Gadget]) -> list[Gadget]:
    """Gadgets with the range of every model that `--prior range:SPEC` names; ValueError as `make_models`."""
    from jaxgadget.refining.range_prior import make_ranges

    return make_ranges(tree, gadgets, what=RANGE_OF)


def _make_promise(text: str) -> Alternative:
    """What `--alternative` names."""
    from jaxgadget.gadgets.specs import make_alternative
    from jaxgadget.util.registry import find

    name, _, told = text.partition(":")
    if name in RANGE_VALUES and told and find(RANGE_VALUES, name, "values")(told).error is None:
        raise ValueError(
            f"--alternative {text!r}: the training in {told!r} is not finished, so nobody knows how far "
            "off its network is; go on with it, with the same `jaxgadget train-ranges` command"
        )
    if name == CONTINUATION and told and not told.strip("0"):
        raise ValueError(f"--alternative {text!r}: expected {CONTINUATION}:N with at least 1 iteration")
    return make_alternative(text)


def make_knowledge(context: typer.Context, order: str | None, **settings: Any) -> Knowledge | None:
    """What `--order` and the options that go with it ask for; None without it.

    Args:
      context: of the command.
      order: as it was typed.
      settings: what else `Knowledge` has, by the options' names.

    Raises:
      ValueError: in the words of the options.
    """
    if order is None:
        refuse_unused(context, "without --order", *settings)
        return None
    from jaxgadget.gadgets.specs import make_generation
    from jaxgadget.refining.knowledge import Knowledge

    if order != INFINITE and not (order.isdecimal() and len(order) < 10 and int(order) % 2 == 1):
        raise ValueError(f"--order {order}: expected 1, 3, 5, … or {INFINITE}, what is common knowledge")
    if is_given(context, "model"):
        raise ValueError(
            f"--order {order} and --model: what models earn against what is frozen is not looked at; leave "
            "one of the two out"
        )
    if (generate := settings.get("generate")) is not None:
        settings["generate"] = make_generation(generate)
    return Knowledge(math.inf if order == INFINITE else int(order), **settings)


def keeping_checkpoints(checkpoint: pathlib.Path | None) -> contextlib.AbstractContextManager[None]:
    """Where a solve is interrupted, its checkpoints are told."""

    def describe() -> str:
        from jaxgadget.solving.checkpoint import describe_kept

        return "" if checkpoint is None else describe_kept(checkpoint)

    return keeping(describe)


def keeping(describe: Callable[[], str]) -> contextlib.AbstractContextManager[None]:
    """An interrupt inside is told what is kept, if `describe` has something to say."""
    return telling_what_is_kept(describe, "command")


@contextlib.contextmanager
def clear_errors() -> Generator[None]:
    """What can be foreseen becomes a line on standard error and status 2; Ctrl-C is status 130.

    Notes of an error are lines below, those of an interrupt say what was kept. What the library logs is told.
    """
    with _told():
        try:
            yield
        except KeyboardInterrupt as interrupt:
            typer.echo(" ".join(["Interrupted.", *notes(interrupt)]), err=True)
            raise typer.Exit(130) from None
        except (ValueError, ImportError, OSError, MemoryError) as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:  # nobody reads any more
                raise
            typer.echo("\n  ".join([f"Error: {_sentence(error)}", *notes(error)]), err=True)
            raise typer.Exit(2) from None


def notes(error: BaseException) -> list[str]:
    """What was added to an error."""
    return getattr(error, "__notes__", [])


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fspath(error.filename)!r}: {error.strerror}"
    return " ".join(line.strip() for line in str(error).splitlines()) or type(error).__name__


class _ToStandardError(logging.Handler):
    """A line for every record."""

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        typer.echo(record.getMessage(), err=True)


@contextlib.contextmanager
def _told() -> Generator[None]:
    """What the library logs inside goes to standard error, and nowhere else."""
    log, handler = logging.getLogger("jaxgadget"), _ToStandardError()
    before = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before[0])
        log.propagate = before[1]
