"""`jaxgadget inspect GAME` and `jaxgadget inspect COMMAND ...`."""

from __future__ import annotations

import contextlib
import io
import itertools
from typing import Any

import typer

from jaxgadget.cli.command import OUTPUTS, UNDEFINED, is_given, start_jax
from jaxgadget.cli.fields import option, request
from jaxgadget.cli.options import Output

INSPECTED = ("solve", "refine", "respond", "off-tree", "nested", "match", "holdem", "bench")
"""Commands that can be inspected: those that write no folder."""

INSPECT_EXAMPLES = """\
Examples:

`jaxgadget inspect leduc_poker --lanes 1,1024,65536`

`jaxgadget inspect --device h100 --json - refine leduc_poker --gadget max-margin`

`jaxgadget inspect holdem --board Td9d6hQc2s --pot 200 --stack 900`
"""


@request
class InspectOptions:
    """A command and a device.

    Attributes:
      command: a game, with options of `bench`; or `solve`, `refine`, `respond`, `off-tree`, `nested`,
        `match`, `holdem` or `bench`, with its arguments and options. Those of `inspect` come before it.
      device: `a100`, `h100`, `h200`, or a file that describes another device, an XLA GpuTargetConfigProto in
        text format.
    """

    command: tuple[str, ...] = option(argument=True, metavar="COMMAND")
    device: str = "h200"


def inspect(options: InspectOptions, output: Output) -> None:
    """Compile a command's programs for a GPU, which need not be present, and count their operations.

    The command runs on the CPU with one iteration of every solve, and its results are discarded. Its programs
    are then compiled for the device. The table lists the kernels that an iteration launches, the bytes that
    it moves, and a lower estimate of the time that this takes. Requires the extra `gpu-check`.
    """
    output.check()
    first, *rest = options.command
    words = [first, *rest] if first in INSPECTED else ["bench", first, *rest]
    if first in _commands() and first not in INSPECTED:
        raise ValueError(f"{first}: expected a game or a command among {', '.join(INSPECTED)}")
    _check_order(options.command)
    start_jax("cpu")
    from jaxgadget.bench.inspect import inspect as inspect_call
    from jaxgadget.report.inspect import inspection_notes, inspection_record, inspection_table

    inspection = inspect_call(lambda: _run(words), device=options.device, progress=True)
    output.write_json(inspection_record(inspection))
    output.print((inspection_table(inspection), inspection_notes(inspection)))


def _check_order(words: tuple[str, ...]) -> None:
    """Raises ValueError if the device of `inspect` is given after the command."""
    for word, value in itertools.pairwise([*words, ""]):
        name, _, joined = word.partition("=")
        if name == "--device" and (joined or value) not in ("cpu", "gpu"):
            raise ValueError(
                f"--device {joined or value}: options of inspect come first, as in "
                f"jaxgadget inspect --device {joined or value} {words[0]} …"
            )


def _commands() -> dict[str, Any]:
    """All commands by name."""
    from jaxgadget.cli import app

    group: Any = typer.main.get_command(app)
    return group.commands


def _run(words: list[str]) -> None:
    """Runs a command without its output; exits with its status if it fails."""
    command = _commands()[words[0]]
    context = command.make_context(f"jaxgadget {words[0]}", words[1:])
    for name in (*OUTPUTS, "checkpoint"):
        if context.params.get(name) is not None and is_given(context, name):
            raise ValueError(
                f"--{name} of {words[0]}: inspect discards the results; leave it out, or give --json "
                f"before {words[0]}"
            )
    with context, contextlib.redirect_stdout(io.StringIO()):
        try:
            command.invoke(context)
        except typer.Exit as ended:
            if ended.exit_code not in (0, UNDEFINED):
                raise
