"""Layouts of forests, lookaheads and trunks are unchanged, array by array.

`python -m tests.tree.test_golden` writes the digests anew: only for a layout that is meant to change.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from jaxgadget.core.host import Entries, merge_entries
from jaxgadget.subgames.limits import limit_at_decisions, limit_by_depth
from jaxgadget.tree.cut import cut
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.trunk import build_trunk
from jaxgadget.tree.whole import sequence_form
from tests.reference.random_games import SHAPES
from tests.tree.test_history import make

GOLDEN = pathlib.Path(__file__).parents[1] / "data" / "layouts.json"
GOOFSPIEL = "goofspiel(imp_info=True,num_cards=4,points_order=descending)"
LIARS_DICE = "liars_dice(numdice=1,dice_sides=3)"
FORESTS = [
    ("kuhn_poker", "depth:0"),
    ("kuhn_poker", "depth:1"),
    ("leduc_poker", "flop"),
    ("leduc_poker", "before-flop"),
    (GOOFSPIEL, "depth:1"),
    (GOOFSPIEL, "depth:2"),
    (LIARS_DICE, "depth:0"),
    (LIARS_DICE, "depth:1"),
    ("coin_toss_two_subgames", "play"),
    *((f"random {shape.name}", shape.cut) for shape in SHAPES.values()),
]
LOOKAHEADS = [  # game, cut, moves to the limit, the player whose decisions count, K
    ("kuhn_poker", "depth:0", 1, None, 2),
    ("kuhn_poker", "depth:1", 1, None, 3),
    ("kuhn_poker", "depth:1", 9, None, 3),
    (GOOFSPIEL, "depth:0", 2, None, 3),
    (GOOFSPIEL, "depth:1", 1, 0, 2),
    (LIARS_DICE, "depth:2", 2, 0, 3),
    ("leduc_poker", "flop", 1, None, 3),
    ("leduc_poker", "before-flop", 1, None, 2),
    ("leduc_poker", "depth:1", 1, 1, 1),
]


def digest(value: Any) -> str:
    """A digest of the numbers in arrays and dataclasses, independent of integer widths."""
    found = hashlib.sha256()

    def add(part: Any) -> None:
        if dataclasses.is_dataclass(part):
            for field in dataclasses.fields(part):
                if getattr(part, field.name) is None:
                    continue
                found.update(field.name.encode())
                add(getattr(part, field.name))
        elif isinstance(part, tuple | list):
            found.update(f"({len(part)}".encode())
            for member in part:
                add(member)
        else:
            array = np.asarray(part)
            array = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
            found.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())

    add(value)
    return found.hexdigest()[:16]


@functools.cache
def game(name: str) -> HistoryTree:
    return make(name)


def of_forest(forest: Forest) -> list[Any]:
    return [forest.num_subgames, *forest.form.treeplex, *forest.roots, forest.chance, forest.form.payoff]


def of_cut(name: str, where: str, padded: bool) -> Any:
    return of_forest(build_forest(game(name), where, padded=padded))


def of_whole(name: str) -> Any:
    form = sequence_form(game(name))
    return [*form.treeplex, form.payoff]


def of_lookahead(name: str, where: str, depth: int, player: int | None, entries: int, padded: bool) -> Any:
    tree = game(name)
    spot = cut(tree, where)
    leaves = (
        limit_by_depth(tree, spot, depth) if player is None else limit_at_decisions(tree, spot, depth, player)
    )
    look = build_forest(tree, spot, limit=leaves, num_choices=entries, padded=padded)
    values = np.random.default_rng(0).integers(-2, 3, (len(leaves), entries, entries)) / 4
    rows = [np.maximum(look.form.action_sequences(p) - 1, -1) for p in (0, 1)]
    whole, ends = look.with_values(values), look.leaves
    return [of_forest(whole), look.terminals, ends.histories, ends.states, ends.sequence, rows]


def of_trunk(name: str, where: str) -> Any:
    trunk = build_trunk(build_forest(game(name), where))
    first, second = trunk.presence
    assert isinstance(second, Entries)
    by_infoset = merge_entries(second.column, second.row, second.value, second.shape[::-1])
    return [trunk.form.treeplex, trunk.form.payoff, trunk.link, trunk.terminates, (first, by_infoset)]


def layouts() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names and the functions that build them."""
    for name, where in FORESTS:
        yield f"forest: {name} {where} plain", functools.partial(of_cut, name, where, False)
        yield f"forest: {name} {where} padded", functools.partial(of_cut, name, where, True)
        yield f"trunk: {name} {where}", functools.partial(of_trunk, name, where)
    for case in LOOKAHEADS:
        yield f"lookahead: {case} plain", functools.partial(of_lookahead, *case, False)
        yield f"lookahead: {case} padded", functools.partial(of_lookahead, *case, True)
    for name in ("kuhn_poker", "leduc_poker", GOOFSPIEL, LIARS_DICE):
        yield f"whole: {name}", functools.partial(of_whole, name)


LAYOUTS = dict(layouts())


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_are_as_they_were(name: str) -> None:
    assert digest(LAYOUTS[name]()) == json.loads(GOLDEN.read_text())[name]


def test_digests_tell_layouts_apart() -> None:
    """This includes layouts with the same numbers in other shapes or under other names."""
    known = json.loads(GOLDEN.read_text())
    assert known.keys() == LAYOUTS.keys()
    first, second = np.arange(4), np.arange(4).reshape(2, 2)
    assert len({digest(first), digest(second), digest(first / 1), digest([first]), digest(first + 1)}) == 5


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps({name: digest(build()) for name, build in LAYOUTS.items()}, indent=1) + "\n")
