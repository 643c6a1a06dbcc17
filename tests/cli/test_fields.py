"""Options from dataclasses."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner, Result

from jaxgadget.cli import app
from jaxgadget.cli.fields import Fields, expand, make, names_of, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Size:
    """A size.

    Attributes:
      width: units across,
        at least 1.
    """

    width: int | None = None

    def __post_init__(self) -> None:
        if self.width is not None and self.width < 1:
            raise ValueError(f"width={self.width!r}: expected a whole number >= 1")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """A request.

    Attributes:
      name: the name.
      colour: the colour.
      seeds: seeds.
      out: the file.
      loud: print more.
      lid: Of the lid.

    Raises:
      ValueError: never.
    """

    name: str = option(argument=True)
    colour: Literal["red", "blue"] = "red"
    seeds: tuple[int, ...] = option((3,), flag="--seed")
    out: pathlib.Path | None = None
    loud: bool = False
    size: Annotated[Size, Fields(width=7)]
    lid: Size = dataclasses.field(metadata={"prefix": "lid_"})
    hidden: int = option(5, option=False)


def called(*arguments: str, **fields: Any) -> tuple[Result, list[Any]]:
    """A command with one request, and the list of requests that it received."""
    received: list[Any] = []

    def command(context: typer.Context, request: Request, more: int = 1) -> None:
        received.append(request)

    command.__annotations__ = {
        "context": typer.Context,
        "request": Annotated[Request, Fields(**fields)],
        "more": int,
    }
    small = typer.Typer(rich_markup_mode="markdown")
    small.command()(expand(command))
    return CliRunner(env={"COLUMNS": "200"}).invoke(small, arguments), received


def test_fields_have_the_values_of_their_options():
    _, (request,) = called("x")
    assert request == Request(name="x", size=Size(width=7), lid=Size())
    options = ("--colour", "blue", "--seed", "1,2", "--seed", "3", "--out", "a", "--loud", "--lid-width", "4")
    _, (request,) = called("x", *options, "--width", "9")
    assert request.colour == "blue" and type(request.colour) is str
    assert request.seeds == (1, 2, 3) and request.out == pathlib.Path("a") and request.loud
    assert request.size == Size(width=9) and request.lid == Size(width=4) and request.hidden == 5


def test_a_command_may_leave_fields_out_and_change_defaults():
    result, (request,) = called(
        "x", without=("seeds", "size", "lid"), colour="blue", size=Size(), lid=Size(width=2)
    )
    assert result.exit_code == 0
    assert request.colour == "blue" and request.seeds == (3,) and request.lid == Size(width=2)
    refused, _ = called("x", "--seed", "1", without=("seeds", "size", "lid"), size=Size(), lid=Size())
    assert refused.exit_code == 2
    with pytest.raises(TypeError, match="hue"):
        called("x", hue="red")
    assert names_of(Request, Fields("seeds", "lid")) == ["seeds", "lid_width"]


def test_help_is_the_attributes_text():
    text = " ".join(called("--help")[0].stdout.replace("│", " ").split())
    assert "--width N Units across, at least 1. [default: 7]" in text
    assert "--lid-width N Units across, at least 1. Of the lid." in text
    assert "--seed N Seeds. May be repeated, or a list with commas. [default: (3)]" in text
    assert "--colour red|blue The colour. [default: red]" in text
    assert "hidden" not in text


def test_errors_of_the_class_name_the_option():
    values = {
        "name": "x",
        "colour": "red",
        "seeds": [],
        "out": None,
        "loud": False,
        "width": 1,
        "lid_width": 0,
    }
    with pytest.raises(ValueError, match=r"^--lid-width 0: expected a whole number >= 1$"):
        make(Request, values)


@pytest.mark.parametrize(("option", "value"), [("--colour", "green"), ("--out", ""), ("--seed", "a")])
def test_invalid_values_are_refused(option: str, value: str):
    result, received = called("x", option, value)
    assert result.exit_code == 2 and not received
    assert option in result.stderr


def test_every_option_of_every_command_has_a_help_text():
    commands = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]
    for name, command in commands.items():
        for parameter in command.params:
            assert parameter.help and not parameter.help[0].islower(), (name, parameter.name)
