"""Notes of stored results in interrupts."""

from __future__ import annotations

import pytest

from jaxgadget.util.interrupts import telling_what_is_kept


def unknown() -> str:
    raise OSError("no such folder")


def test_the_outermost_note_stays() -> None:
    with pytest.raises(KeyboardInterrupt) as raised:
        with telling_what_is_kept(lambda: "'out' keeps 2 of 3 pieces", "command"):
            with telling_what_is_kept(lambda: "'out/inside' keeps 1"):
                raise KeyboardInterrupt
    assert raised.value.__notes__ == ["'out' keeps 2 of 3 pieces; repeat the same command to resume."]


def test_without_a_description_the_inner_note_remains() -> None:
    with pytest.raises(KeyboardInterrupt) as raised:
        with telling_what_is_kept(unknown), telling_what_is_kept(lambda: ""):
            with telling_what_is_kept(lambda: "'out/inside' keeps 1"):
                raise KeyboardInterrupt
    assert raised.value.__notes__ == ["'out/inside' keeps 1; repeat the same call to resume."]


def test_errors_have_no_note() -> None:
    with pytest.raises(ValueError, match="wrong") as raised:
        with telling_what_is_kept(lambda: "'out' keeps 1"):
            raise ValueError("wrong")
    assert not hasattr(raised.value, "__notes__")
