"""Behaviour that all commands share."""

import importlib
import logging
import pathlib
import re
from typing import Any

import jax
import pytest
import typer

from jaxgadget.cli import app
from jaxgadget.cli.command import Command, clear_errors, keeping
from tests.cli.commands import run


def single_options() -> list[tuple[str, str]]:
    """Every option of every command that takes a single value."""
    commands = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]
    return [
        (name, parameter.opts[0])
        for name, command in commands.items()
        for parameter in command.params
        if parameter.param_type_name == "option" and not parameter.multiple and not parameter.is_flag
    ]


def test_all_commands_are_of_one_kind():
    commands = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]
    assert all(isinstance(command, Command) for command in commands.values())
    assert len(commands) > 8 and len(single_options()) > 60


@pytest.mark.parametrize(("command", "option"), single_options()[::25])
def test_an_option_with_one_value_is_refused_twice(command: str, option: str):
    result = run(command, option, "1", f"{option}=2")
    assert result.exit_code == 2 and result.stdout == ""
    assert "given more than once" in result.stderr and "Traceback" not in result.stderr


def test_flags_and_repeatable_options_may_stand_twice(monkeypatch: pytest.MonkeyPatch):
    def asked(*args: Any, **more: Any) -> None:
        raise ValueError(f"{len(args[2].labels)} blueprints")

    monkeypatch.setattr(importlib.import_module("jaxgadget.subgames.refine"), "refine", asked)
    result = run(
        "refine", "kuhn_poker", "--rows", "--rows", "--blueprint", "uniform", "--blueprint", "geometric:2"
    )
    assert result.stderr == "Error: 2 blueprints\n"


def test_notes_of_an_error_are_lines_below(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(typer.Exit) as caught, clear_errors():
        error = ValueError("one\n  line")
        error.add_note("first")
        error.add_note("second")
        raise error
    assert caught.value.exit_code == 2
    assert capsys.readouterr().err == "Error: one line\n  first\n  second\n"


@pytest.mark.parametrize(
    "error", [MemoryError("12 GiB"), jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory, 12 GiB")]
)
def test_too_little_memory_is_a_sentence(error: Exception, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(typer.Exit) as caught, clear_errors():
        raise error
    assert caught.value.exit_code == 2
    said = capsys.readouterr().err
    assert re.fullmatch(r"Error: too little memory \(.*12 GiB\); expected .*\n", said)
    with pytest.raises(jax.errors.JaxRuntimeError), clear_errors():
        raise jax.errors.JaxRuntimeError("INTERNAL: another error")


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ("", "Interrupted.\n"),
        ("'x' keeps all", "Interrupted. 'x' keeps all; repeat the same command to resume.\n"),
    ],
)
def test_an_interrupt_reports_saved_work_if_any(kept: str, said: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(typer.Exit) as caught, clear_errors(), keeping(lambda: kept):
        raise KeyboardInterrupt
    assert caught.value.exit_code == 130
    assert capsys.readouterr().err == said


def test_an_interrupt_survives_an_error_in_its_description(capsys: pytest.CaptureFixture[str]):
    def unknown() -> str:
        raise ValueError("damaged")

    with pytest.raises(typer.Exit), clear_errors(), keeping(unknown):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "Interrupted.\n"


def test_the_librarys_log_is_printed_inside_commands_only(capsys: pytest.CaptureFixture[str]):
    log = logging.getLogger("jaxgadget.core.driver")
    before = logging.getLogger("jaxgadget").handlers[:]
    with clear_errors():
        log.info("Going on at %d", 3)
        log.debug("not that")
    log.info("nor this")
    assert capsys.readouterr().err == "Going on at 3\n"
    assert logging.getLogger("jaxgadget").handlers == before


def interrupted_at(monkeypatch: pytest.MonkeyPatch, iteration: int) -> None:
    """Simulate Ctrl-C as soon as the checkpoint of an iteration is written."""
    driver: Any = importlib.import_module("jaxgadget.core.driver")
    monkeypatch.setattr(driver, "CHECKPOINT_SECONDS", -1.0)
    monkeypatch.setattr(driver, "CHECKPOINT_SHARE", 0)
    save = driver.save_checkpoint

    def interrupt(path: pathlib.Path, key: str, state: Any, **more: Any) -> None:
        save(path, key, state, **more)
        if int(state.iteration) >= iteration:
            raise KeyboardInterrupt

    monkeypatch.setattr(driver, "save_checkpoint", interrupt)


@pytest.mark.parametrize("command", ["solve", "refine", "respond"])
def test_an_interrupted_solve_resumes(command: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    place = tmp_path / "kept"
    more = {"refine": ("--blueprint", "uniform", "--gadget", "unsafe"), "respond": ("--model", "uniform")}
    arguments = (command, "kuhn_poker", "--iterations", 9, *more.get(command, ()), "--checkpoint", place)
    with monkeypatch.context() as patch:
        interrupted_at(patch, 3)
        result = run(*arguments)
    kept = f"{str(place)!r} keeps 1 checkpoint, of iteration 3"
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == f"Interrupted. {kept}; repeat the same command to resume.\n"
    again = run(*arguments, "--json", "-")
    assert again.exit_code == 0
    assert again.stderr.startswith("Resuming ") and again.stderr.endswith("at iteration 3 of 9.\n")
    assert again.stderr.count("\n") == 1
    nothing_left = run(*arguments, "--json", "-")
    assert nothing_left.stderr == ""


def test_an_interrupt_without_a_checkpoint_names_the_option(monkeypatch: pytest.MonkeyPatch):
    def interrupt(*args: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("jaxgadget.policy.solve.solve", interrupt)
    result = run("solve", "kuhn_poker")
    advice = "Nothing was saved; with --checkpoint PATH the command can be resumed."
    assert (result.exit_code, result.stderr) == (130, f"Interrupted. {advice}\n")
    result = run("solve", "kuhn_poker", "--algorithm", "lp")
    assert (result.exit_code, result.stderr) == (130, "Interrupted.\n")


def test_outputs_go_where_links_lead(tmp_path: pathlib.Path):
    link, target = tmp_path / "link.json", tmp_path / "target.json"
    link.symlink_to(target)
    plot, drawn = tmp_path / "link.svg", tmp_path / "drawn.svg"
    plot.symlink_to(drawn)
    options = ("--blueprint", "uniform", "--gadget", "unsafe", "--iterations", 3)
    result = run("refine", "kuhn_poker", *options, "--json", link, "--plot", plot)
    assert result.exit_code == 0, result.stderr
    assert link.is_symlink() and target.read_text().startswith("{")
    assert plot.is_symlink() and drawn.read_bytes().startswith(b"<?xml")
