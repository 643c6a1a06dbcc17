"""Hundreds of mutated Gambit files: each is refused with a message or valid, after bounded work."""

import collections
import pathlib
import random
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jaxgadget import Policy, enumerate_game, evaluate_policy, load, write_efg
from jaxgadget.games.gambit import GambitGame
from tests.games.test_contract import check_contract
from tests.games.test_gambit import CORNERS
from tests.reference.random_games import random_game

MUTATIONS = 800
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{},]|[^\s{},"]+|\s+|"', re.DOTALL)
NUMBER = re.compile(r"(?<![\w.\"])-?\d+(?:[./]\d+)?(?![\w.\"])")
NASTY = (
    *("1e99999999", "-1e99999999", "1e-99999999", "1e999", "1.7e308", "9" * 5000, "0." + "3" * 5000),
    *(
        "1/0",
        "0/1",
        "1/" + "7" * 900,
        "nan",
        "inf",
        "-0",
        "+1",
        "1_0",
        "\u0661",
        "1e\u0661",
        "-1",
        "0",
        "2",
        "7",
    ),
    *("1e30", "1e-300", "18446744073709551616", "0x10", "1/3/3", "1.5.5", "--1", "1e", ".", "1.", ".5"),
)
CALLS_PER_BYTE = 10
"""Limit of function calls per byte of a file, for reading it and listing histories, accepted or not."""


def swapped(text: str, draw: random.Random) -> str:
    tokens = TOKEN.findall(text)
    i, k = draw.randrange(len(tokens)), draw.randrange(len(tokens))
    tokens[i], tokens[k] = tokens[k], tokens[i]
    return "".join(tokens)


def other_tokens(text: str, draw: random.Random) -> str:
    """Tokens are deleted, duplicated, or replaced by another one of the file."""
    tokens = TOKEN.findall(text)
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(tokens))
        tokens[at] = draw.choice(("", tokens[at] + " " + tokens[at], draw.choice(tokens)))
    return "".join(tokens)


def other_numbers(text: str, draw: random.Random) -> str:
    """Some numbers become huge, at all occurrences or one."""
    places = list(NUMBER.finditer(text))
    for match in sorted(draw.sample(places, draw.randint(1, 3)), key=lambda match: -match.start()):
        text = text[: match.start()] + draw.choice(NASTY) + text[match.end() :]
    return text


def other_letters(text: str, draw: random.Random) -> str:
    letters = list(text)
    for _ in range(draw.randint(1, 5)):
        letters[draw.randrange(len(letters))] = draw.choice('"\\{}, \nptc019-/.e\0\ufeff\u0663x')
    return "".join(letters)


def cut_off(text: str, draw: random.Random) -> str:
    return text[: draw.randrange(len(text))]


def lines_repeated(text: str, draw: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    at = draw.randrange(len(lines))
    return "".join([*lines[:at], lines[at] * draw.choice((2, 5, 3000)), *lines[at + 1 :]])


def other_labels(text: str, draw: random.Random) -> str:
    """Labels replace each other: equal labels, equal actions, names like `0:1`."""
    strings = re.findall(r'"[^"]*"', text)
    old, new = draw.choice(strings), draw.choice([*strings, '"0:1"', '"1:1"', '"#2"', '"a#2"', '""'])
    return text.replace(old, new, draw.choice((1, -1)))


KINDS: tuple[Callable[[str, random.Random], str], ...] = (
    *(swapped, other_tokens, other_numbers, other_letters, cut_off, lines_repeated, other_labels),
)


def make_sources(folder: pathlib.Path) -> list[str]:
    sources = [CORNERS]
    for number, game in enumerate((load("kuhn_poker"), load("coin_toss"), random_game("weather", 1))):
        write_efg(enumerate_game(game), folder / f"{number}.efg")
        sources.append((folder / f"{number}.efg").read_text())
    return sources


def mutate(source: str, draw: random.Random) -> bytes:
    if draw.random() < 1 / 8:  # bytes, which need not be valid text
        data = bytearray(source.encode())
        for _ in range(draw.randint(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        return bytes(data)
    return draw.choice(KINDS)(source, draw).encode()


class WorkCounter:
    """Count calls of functions, Python's and C's; stop after too many."""

    def __init__(self, most: int):
        self.calls, self.most = 0, most

    def __enter__(self) -> "WorkCounter":
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _count(self, frame: Any, event: str, argument: Any) -> None:
        self.calls += event in ("call", "c_call")
        if self.calls > self.most:
            sys.setprofile(None)
            raise AssertionError(f"more than {self.most:,} calls")


def largest_number(game: GambitGame) -> int:
    """Bits of the longest numerator or denominator in the game."""
    waiting, most = [game._tree], 0
    while waiting:
        vertex = waiting.pop()
        waiting += vertex.children
        for total in vertex.total:
            most = max(most, total.numerator.bit_length(), total.denominator.bit_length())
    return most


def test_mutations(tmp_path: pathlib.Path):
    sources, outcomes = make_sources(tmp_path), collections.Counter[str]()
    path, again, most = tmp_path / "mutated.efg", tmp_path / "again.efg", 0.0
    for seed in range(MUTATIONS):
        draw = random.Random(seed)
        data = mutate(draw.choice(sources), draw)
        path.write_bytes(data)
        bound = CALLS_PER_BYTE * len(data) + 5_000
        step = "read"
        try:
            with WorkCounter(bound) as reading:
                game = load(path)
            step = "enumerated"
            with WorkCounter(bound) as listing:
                tree = enumerate_game(game)
        except ValueError as error:
            assert str(path) in str(error), (seed, error)
            if step == "read":
                assert re.search(r", line \d+: .*; correct the file$|not a text file", str(error)), (
                    seed,
                    error,
                )
            assert len(str(error)) < 1500, (seed, len(str(error)))
            outcomes[f"not {step}"] += 1
            continue
        most = max(most, reading.calls / len(data), listing.calls / len(data))
        assert isinstance(game, GambitGame) and largest_number(game) < 10_000, seed
        outcomes["a game"] += 1
        check_contract(game)
        values = evaluate_policy(Policy.uniform(tree)) if seed % 20 == 0 else None
        assert values is None or np.isfinite(values.best_response_values).all(), seed
        write_efg(tree, again)
        reread = enumerate_game(load(again))
        for field in ("level_offset", "parent", "actor", "action", "payoff", "infostate", "infoset"):
            np.testing.assert_array_equal(
                getattr(tree, field), getattr(reread, field), err_msg=f"{seed} {field}"
            )
        np.testing.assert_allclose(tree.chance, reread.chance, rtol=1e-9, atol=1e-300, err_msg=str(seed))
        assert tree.infoset_names == reread.infoset_names, seed
    print(dict(outcomes), f"at most {most:.1f} calls a byte")
    assert sum(outcomes.values()) == MUTATIONS
    assert outcomes["a game"] > 80 and outcomes["not read"] > 200 and outcomes["not enumerated"] > 4


def test_the_bound_notices():
    with pytest.raises(AssertionError, match="more than 100 calls"), WorkCounter(100):
        for _ in range(200):
            len("")
