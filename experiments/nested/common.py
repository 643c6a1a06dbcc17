"""Shared by the experiments of this folder: games, blueprints, portfolios."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Mapping
from typing import Any

from experiments.common import GOOFSPIEL, LIARS_DICE
from jaxgadget import HistoryTree, Policy, Solver, enumerate_game, game_value, load, make_blueprints
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.registry import DEFAULT_GADGETS
from jaxgadget.gadgets.specs import make_gadgets
from jaxgadget.policy.portfolio import make_portfolio
from jaxgadget.subgames.nested import Nested, nested_search
from jaxgadget.subgames.schedule import Lookahead
from jaxgadget.values.histories import ExactValues

HERE = pathlib.Path(__file__).parent

LIARS_DICE_5 = "liars_dice(dice_sides=5,numdice=1)"
GAMES = ("leduc_poker", GOOFSPIEL, LIARS_DICE, LIARS_DICE_5)
SMALL = ("kuhn_poker",)
"""Replaces them in a smoke test."""

BLUEPRINTS = ("dirichlet:0", "cfr:3", "cfr:10", "cfr:100")
"""Ordered from poor to good."""

MAX_HISTORIES = 50_000_000

TRAINED = "cfr:10"
"""The blueprint of trained networks and of matches."""

EPSILON, ENTRIES, ITERATIONS, DEPTH = 2e-2, 10, 3000, 1
"""As the paper's nested solving (Kubíček et al. 2026, Table 1)."""


def gadgets() -> list[Gadget]:
    """Unsafe, resolving and max-margin with no, uniform and blueprint prior."""
    return make_gadgets(DEFAULT_GADGETS, ["none", "uniform", "blueprint"], [EPSILON])


@functools.cache
def enumerated(name: str) -> HistoryTree:
    """The histories of a game."""
    return enumerate_game(load(name), max_histories=MAX_HISTORIES)


@functools.cache
def value(name: str) -> tuple[float, float]:
    """The bracket of a game's value."""
    return game_value(enumerated(name), progress=False)


@functools.cache
def blueprint(name: str, spec: str) -> Policy:
    """A single blueprint of a game."""
    return make_blueprints(enumerated(name), [spec])


@functools.cache
def portfolio(name: str, spec: str, size: int) -> Policy:
    """The portfolio of a blueprint."""
    return make_portfolio(blueprint(name, spec), size=size, progress=False)


def search_exactly(key: Mapping[str, Any], *, visits: bool = True) -> Nested:
    """Nested search of one player after one blueprint, with all gadgets and exact values at the limit."""
    game, spec = key["game"], key["blueprint"]
    return nested_search(
        enumerated(game),
        blueprint(game, spec),
        gadgets(),
        Lookahead(ExactValues(portfolio(game, spec, key["entries"])), depth=key["depth"], visits=visits),
        player=key["player"],
        solver=Solver(iterations=key["iterations"], progress=False),
        value=value(game),
    )
