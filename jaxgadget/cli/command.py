"""Common behaviour of all commands: rejected options, errors, interrupts and exit status."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import pathlib
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import typer
from typer.core import TyperCommand, TyperOption

from jaxgadget.core.solver import LP, Solver
from jaxgadget.report.output import warn
from jaxgadget.util.accelerators import import_jax
from jaxgadget.util.interrupts import telling_what_is_kept

if TYPE_CHECKING:
    from jaxgadget.policy.policy import Policy

UNDEFINED = 3
"""Exit status 3: completed, but some results are undefined."""

EXHAUSTED = "RESOURCE_EXHAUSTED"
"""Prefix of the error that JAX raises if the device or the process runs out of memory."""

MAX_REASONS = 3
"""Maximum number of printed reasons; `--json` has all of them."""

OUTPUTS = {
    **{"json": "results", "save": "strategies", "plot": "picture", "csv": "rows", "parquet": "rows"},
    **{"results": "rows", "file": "game", "profile": "strategies"},
    **{"explore": "page", "out": "page", "report": "page"},
}
"""Parameters that name an output file, with a description of its contents."""


class Command(TyperCommand):
    """A command that rejects duplicate single-valued options, and files that are both read and written."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses arguments, and rejects a second value of a single-valued option."""
        order: list[Any] = self.make_parser(ctx).parse_args(args=list(args))[2]
        for position, option in enumerate(order):
            is_single = isinstance(option, TyperOption) and not option.multiple and not option.is_flag
            if is_single and option in order[:position]:
                raise typer.BadParameter("given more than once; expected one value", ctx=ctx, param=option)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command, unless an output file is also an input file."""
        with clear_errors():
            self._check_outputs(ctx)
        return super().invoke(ctx)

    def _check_outputs(self, ctx: Any) -> None:
        """Raises ValueError if a file is both read and written."""
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


class JaxCommand(Command):
    """A command that uses JAX; imports it on the platform of `--device` if the command has that option."""

    def invoke(self, ctx: Any) -> Any:
        """Imports JAX and runs the command."""
        with clear_errors():
            start_jax(ctx.params.get("device"))
        return super().invoke(ctx)


def start_jax(device: str | None = None) -> None:
    """Imports JAX and enables its compilation cache.

    Args:
      device: platform, `cpu` or `gpu`; by default JAX's choice.

    Raises:
      ValueError: if an environment variable is invalid, or there is no such device.
    """
    warn(import_jax(device))
    from jaxgadget.util.compilation import enable_compilation_cache

    enable_compilation_cache()


def _files_in(value: Any) -> list[str]:
    """Existing files named by a value or a sequence of values: `x.efg`, `file:x.npz`, `x.py:Game`."""
    values = value if isinstance(value, list | tuple) else [value]
    files: list[str] = []
    for text in [str(each) for each in values if isinstance(each, str | pathlib.Path)]:
        parts = text.split(":")
        names = [":".join(parts[begin:]) for begin in range(len(parts))] + [":".join(parts[:-1])]
        files += [name for name in names if name and os.path.isfile(name)]
    return files


def is_given(context: typer.Context, name: str) -> bool:
    """True if the option of a parameter is on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def refuse_unused(context: typer.Context, beside: str, *names: str) -> None:
    """Raises ValueError if an option on the command line has no effect.

    Args:
      context: context of the command.
      beside: the condition, such as `without --gadget`.
      names: parameters of the options.
    """
    for name in names:
        if is_given(context, name):
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} has no effect {beside}; leave it out")


@contextlib.contextmanager
def keeping_checkpoints(solver: Solver) -> Generator[None]:
    """Context manager that adds a note to an interrupt: the saved checkpoints, or how to save some."""

    def describe() -> str:
        from jaxgadget.core.checkpoint import describe_kept

        return "" if solver.checkpoint_path is None else describe_kept(solver.checkpoint_path)

    try:
        with keeping(describe):
            yield
    except KeyboardInterrupt as interrupt:
        if solver.checkpoint is None and solver.algorithm != LP:
            interrupt.__notes__ = ["Nothing was saved; with --checkpoint PATH the command can be resumed."]
        raise


def keeping(describe: Callable[[], str]) -> contextlib.AbstractContextManager[None]:
    """Context manager that adds a description of saved work to an interrupt; an empty one is omitted."""
    return telling_what_is_kept(describe, "command")


@contextlib.contextmanager
def clear_errors() -> Generator[None]:
    """Context manager that reports expected errors in one line on standard error, with exit status 2.

    The exit status after an interrupt is 130. Notes of an error are printed below it; notes of an interrupt
    describe the saved work. The library's log is written to standard error.
    """
    with _logging():
        try:
            yield
        except KeyboardInterrupt as interrupt:
            typer.echo(" ".join(["Interrupted.", *notes(interrupt)]), err=True)
            raise typer.Exit(130) from None
        except Exception as error:
            if not _is_expected(error):
                raise
            typer.echo("\n  ".join([f"Error: {_sentence(error)}", *notes(error)]), err=True)
            raise typer.Exit(2) from None


def notes(error: BaseException) -> list[str]:
    """Notes of an error."""
    return getattr(error, "__notes__", [])


def _is_expected(error: Exception) -> bool:
    """True for errors caused by the input or the system; False for errors in the program."""
    if isinstance(error, OSError):
        return error.errno != errno.EPIPE  # standard output was closed
    return isinstance(error, ValueError | ImportError) or _is_exhausted(error)


def _is_exhausted(error: Exception) -> bool:
    """True if there is too little memory."""
    return isinstance(error, MemoryError) or str(error).startswith(EXHAUSTED)


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fspath(error.filename)!r}: {error.strerror}"
    text = " ".join(line.strip() for line in str(error).splitlines()) or type(error).__name__
    if _is_exhausted(error):
        text = f"too little memory ({text.removeprefix(EXHAUSTED).lstrip(': ')}); expected a smaller game, "
        text += "fewer blueprints or gadgets at once, --dtype float32, or a larger limit of the process "
        text += "(`ulimit -v`)"
    return text


class _ToStandardError(logging.Handler):
    """Logging handler that prints one line per record."""

    def emit(self, record: logging.LogRecord) -> None:
        """Prints a record's message."""
        typer.echo(record.getMessage(), err=True)


@contextlib.contextmanager
def _logging() -> Generator[None]:
    """Context manager that redirects the library's log to standard error only."""
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


def exit_if_undefined(failures: Collection[str], total: int) -> None:
    """Prints the reasons and exits with status `UNDEFINED` if some of the results are undefined."""
    if not failures:
        return
    shown = [reason.replace("dtype='float64'", "--dtype float64") for reason in failures][:MAX_REASONS]
    rest = [f"and {len(failures) - MAX_REASONS} more"] * (len(failures) > MAX_REASONS)
    warn("\n  ".join([f"{len(failures)} of {total} results are undefined, and not saved:", *shown, *rest]))
    raise typer.Exit(UNDEFINED)


class MayFail(Protocol):
    """A result with a policy whose lanes may have failed."""

    @property
    def policy(self) -> Policy:
        """The policy."""
        ...

    @property
    def failures(self) -> Mapping[int, str]:
        """Lanes without a result, with the reason."""
        ...


def exit_if_failed(results: Sequence[MayFail]) -> None:
    """Prints the reasons and exits with status `UNDEFINED` if some lanes of the results failed."""
    reasons = [reason for result in results for reason in result.failures.values()]
    exit_if_undefined(reasons, sum(result.policy.num_lanes for result in results))
