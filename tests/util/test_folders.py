"""Folders say what they hold, and errors where that may be given."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from jaxgadget.learn.network import KIND as VALUE_NETWORK
from jaxgadget.learn.range_network import KIND as RANGE_NETWORK
from jaxgadget.util import folders
from jaxgadget.util.folders import KINDS, MANIFEST, NETWORK, SWEPT, find_kind, wrong_folder


@pytest.mark.parametrize(
    ("name", "record", "kind"),
    [
        *((NETWORK, {"format": name}, kind) for name, kind in KINDS.items()),
        (MANIFEST, {"format": folders.SOLVED_RANGES}, KINDS[folders.SOLVED_RANGES]),
        (MANIFEST, {"format": 2, "request": {}, "pieces": []}, KINDS[SWEPT]),
        (MANIFEST, {"format": "another program's"}, None),
        (MANIFEST, {}, None),
        (MANIFEST, [], None),
        ("other.json", {"format": folders.SOLVED_RANGES}, None),
    ],
    ids=str,
)
def test_what_a_folder_holds(tmp_path: pathlib.Path, name: str, record: Any, kind: Any) -> None:
    (tmp_path / name).write_text(json.dumps(record))
    assert find_kind(tmp_path) == kind


@pytest.mark.parametrize("text", ["", "{", "\x00"], ids=["empty", "half", "bytes"])
def test_what_cannot_be_read_is_nothing(tmp_path: pathlib.Path, text: str) -> None:
    (tmp_path / NETWORK).write_text(text)
    assert find_kind(tmp_path) is None
    assert find_kind(tmp_path / "nothing") is None and find_kind(tmp_path / NETWORK) is None


def test_networks_say_the_formats_that_are_known() -> None:
    assert {VALUE_NETWORK.format, RANGE_NETWORK.format} <= KINDS.keys()
    assert VALUE_NETWORK.content == "a network of histories, from train_value"
    assert RANGE_NETWORK.content == "a network of ranges, from train_ranges"


def test_the_error_says_where_it_belongs() -> None:
    error = wrong_folder("out", KINDS[VALUE_NETWORK.format], RANGE_NETWORK.content)
    assert str(error) == (
        "'out' holds a network of histories, from train_value; expected a network of ranges, from "
        "train_ranges. It is for `--leaf out` or load_values"
    )
