"""What every command that computes does first, and what it says last."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

import typer

from jaxgadget.cli.command import refuse_unused
from jaxgadget.report.output import warn, working

if TYPE_CHECKING:
    from jaxgadget.games.game import Game
    from jaxgadget.hands.form import HandsForm
    from jaxgadget.policy.policy import Policy
    from jaxgadget.tree.history import HistoryTree

UNDEFINED = 3
"""Exit status where all was done and written, but some results are not defined."""

FEW_FAILURES = 3
"""So many reasons are said at most; `--json` has all."""


def keep_programs() -> None:
    """Switches on JAX's compilation cache, and so imports JAX: not before there is something to compute."""
    from jaxgadget.util.compilation import enable_compilation_cache

    enable_compilation_cache()


def enumerate_named(game: str, max_histories: int, *, computes: bool = True) -> tuple[HistoryTree, float]:
    """The histories of the game that was named, and the seconds that enumerating took.

    Args:
      game: its name.
      max_histories: stop with an error beyond that many.
      computes: whether JAX has something to compute afterwards.
    """
    if computes:
        keep_programs()
    from jaxgadget.games.registry import load
    from jaxgadget.tree.history import enumerate_game

    began = time.perf_counter()
    with working(f"enumerating {game}"):
        tree = enumerate_game(load(game), max_histories=max_histories)
    return tree, time.perf_counter() - began


def lay_out_by_hands(context: typer.Context, game: str, max_histories: int) -> tuple[HandsForm, float]:
    """The form by hands of the game that was named, and the seconds that this took; see `enumerate_named`.

    Raises:
      ValueError: if a number of histories was asked for and the game, which knows its hands, lists none.
    """
    keep_programs()
    from jaxgadget.games.hands import DealsHands
    from jaxgadget.games.registry import load
    from jaxgadget.hands.form import HandsForm, by_hands
    from jaxgadget.tree.history import enumerate_game

    began = time.perf_counter()
    with working(f"laying out {game}"):
        rules = load(game)
        told = isinstance(rules, DealsHands)
        if told:
            refuse_unused(context, f"with --form hands for {rules.name}, which lists none", "max_histories")
        form = HandsForm(by_hands(rules if told else enumerate_game(rules, max_histories=max_histories)))
    return form, time.perf_counter() - began


def exit_if_undefined(failures: Collection[str], total: int) -> None:
    """Ends with status `UNDEFINED` and the reasons if some of all results are not defined."""
    if not failures:
        return
    shown = [reason.replace("dtype='float64'", "--dtype float64") for reason in failures][:FEW_FAILURES]
    rest = [f"and {len(failures) - FEW_FAILURES} more"] * (len(failures) > FEW_FAILURES)
    warn("\n  ".join([f"{len(failures)} of {total} results are undefined, and not saved:", *shown, *rest]))
    raise typer.Exit(UNDEFINED)


def save_defined(policy: Policy, failures: Collection[int], path: pathlib.Path) -> pathlib.Path | None:
    """Writes the lanes whose solve did not fail; the path, or None if there are none to write."""
    lanes = [policy.lane(lane) for lane in range(policy.num_lanes) if lane not in failures]
    if not lanes:
        return None
    policy.stack(lanes).save(path)
    return path


def first_cut(game: Game) -> str:
    """The cut of a game if none is asked for: the first that it names, else after a move of the players."""
    return next(iter(game.cuts()), "depth:1")
