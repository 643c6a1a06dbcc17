"""Forms of the loop: one CUDA graph, blocks, or with returns to the host; arrays whole or in pieces."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from experiments.performance.programs import fastest, form_of
from experiments.study import Settings
from jaxgadget.bench.bench import whole_game_runner
from jaxgadget.bench.defaults import DEFAULT_GAMES
from jaxgadget.core import cfr, payoff
from jaxgadget.core.loops import LOOP_FORM, LOOP_FORMS
from jaxgadget.core.regret import CFR_PLUS

NAME = "forms"
LEDUC, LIARS_DICE, GOOFSPIEL = DEFAULT_GAMES
BY_FORM = ((LEDUC, 1), (LEDUC, 1024), (LEDUC, 65_536), (LIARS_DICE, 1024), (GOOFSPIEL, 1024))
BY_ARRAYS = (
    (LEDUC, 2048),
    (LEDUC, 8192),
    (LEDUC, 65_536),
    (LIARS_DICE, 8192),
    (GOOFSPIEL, 2048),
    (GOOFSPIEL, 16_384),
)
LEAST = {"whole": 1 << 40, "pieces": 1}
"""Values of `MANY_LANES` and `PIECE_BYTES` with which arrays are kept so, whatever their size."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, number of lanes and form."""
    keys = list(_cases())
    if settings.smoke:
        keys = [{"game": "kuhn_poker", "lanes": 4, "form": form, "arrays": "whole"} for form in LOOP_FORMS]
    return settings.gather(NAME, keys, functools.partial(measure, seconds=settings.pick(1.0, 0.02)))


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Microseconds of an iteration, by form of the loop and of its arrays.

    XLA reuses kernels that it compiled for an earlier row, so that `compile_seconds` cannot be compared.
    """
    return frame


def _cases() -> Iterator[dict[str, Any]]:
    for game, lanes in BY_FORM:
        for form in LOOP_FORMS:
            if form != "blocks" or lanes < 65_536:  # arrays in pieces are never run in blocks
                yield {"game": game, "lanes": lanes, "form": form, "arrays": "default"}
    for game, lanes in BY_ARRAYS:
        for arrays in LEAST:
            yield {"game": game, "lanes": lanes, "form": LOOP_FORM, "arrays": arrays}


def measure(key: dict[str, Any], seconds: float) -> pd.DataFrame:
    """A row."""
    many, size = (LEAST.get(key["arrays"], default) for default in (cfr.MANY_LANES, cfr.PIECE_BYTES))
    with (
        mock.patch.object(cfr, "MANY_LANES", many),
        mock.patch.object(payoff, "MANY_LANES", many),
        mock.patch.object(cfr, "PIECE_BYTES", size),
    ):
        runner = whole_game_runner(
            form_of(key["game"]),
            lanes=key["lanes"],
            dtype=np.dtype(np.float32),
            rule=CFR_PLUS,
            loop_form=key["form"],
        )
    row = {**key, "us": fastest(runner.advance, seconds), "compile_seconds": runner.compile_seconds}
    return pd.DataFrame([row | {"peak_mb": (runner.peak_bytes or np.nan) / 1e6}])
