import os
import pathlib
import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxgadget.report import plots
from jaxgadget.report.plots import (
    PICTURE_FORMATS,
    check_picture,
    draw_picture,
    exploitability_scatter,
    save_picture,
)

ALL = [("unsafe", "none")] + [
    (g, p) for g in ("resolving", "max-margin") for p in ("none", "uniform", "blueprint")
]


def results(
    before: list[float], settings: list[tuple[str, str]] = ALL, epsilons: tuple[float, ...] = (1e-3,)
) -> pd.DataFrame:
    """A table as `refine` returns it, in which the i-th setting divides exploitability by i + 1."""
    rows = [
        {
            "player": 0,
            "blueprint": f"cfr:{k}",
            "gadget": gadget,
            "prior": prior,
            "epsilon": epsilon,
            "blueprint_exploitability": x,
            "refined_exploitability": x / (i + 1),
        }
        for i, (gadget, prior) in enumerate(settings)
        for epsilon in (epsilons if prior != "none" else (0.0,))
        for k, x in enumerate(before)
    ]
    return pd.DataFrame(rows)


def new_axes() -> Axes:
    return Figure(layout="constrained").add_subplot()


def points(ax: Axes) -> np.ndarray:
    return np.concatenate([np.asarray(drawn.get_offsets()) for drawn in ax.collections])


def legend(ax: Axes) -> list[str]:
    legend = ax.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def test_every_row_is_a_point():
    table = results([0.1, 0.2, 0.3], ALL[:3])
    ax = exploitability_scatter(table, new_axes())
    expected = table[["blueprint_exploitability", "refined_exploitability"]].to_numpy()
    np.testing.assert_allclose(points(ax), expected)
    (x_low, x_high), (y_low, y_high) = ax.get_xlim(), ax.get_ylim()
    assert ((points(ax) > [x_low, y_low]) & (points(ax) < [x_high, y_high])).all()


def test_equal_points_stay_where_their_numbers_are():
    """All settings are equal, and the largest number lies in the corner of the plot."""
    table = results([0.01, 3.06])
    table["refined_exploitability"] = table["blueprint_exploitability"]
    ax = exploitability_scatter(table, new_axes())
    assert ax.get_xscale() == "log"
    np.testing.assert_allclose(points(ax), table[["blueprint_exploitability"] * 2].to_numpy())
    faces = [drawn.get_facecolor()[0][3] for drawn in ax.collections[1:]]
    assert faces == [0.0] * len(faces), "open markers"


def test_a_picture_has_panels_of_few_series_on_equal_axes(monkeypatch: pytest.MonkeyPatch):
    epsilons = (1e-4, 1e-3, 1e-2)
    table = pd.concat([results([0.02, 1.0], epsilons=epsilons), results([0.03]).assign(player=1)])
    drawn: list[Figure] = []
    monkeypatch.setattr(plots, "save_picture", lambda figure, path: drawn.append(figure))
    draw_picture(table, "x.png", title="Leduc")
    (figure,) = drawn
    series = [len(legend(ax)) - 1 for ax in figure.axes]
    titles = [ax.get_title() for ax in figure.axes]
    assert series == [8, 7, 7]
    assert titles == ["Leduc, player 0", "Leduc, player 0", "Leduc, player 1"]
    first, second, _ = figure.axes
    assert (first.get_xlim(), first.get_ylim()) == (second.get_xlim(), second.get_ylim())


def test_bad_tables():
    with pytest.raises(ValueError, match="refined_exploitability"):
        exploitability_scatter(results([0.1]).drop(columns="refined_exploitability"))
    with pytest.raises(ValueError, match="no rows"):
        exploitability_scatter(results([0.1]).iloc[:0])
    with pytest.raises(ValueError, match="finite"):
        exploitability_scatter(results([np.nan]))


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("PDF", b"%PDF")])
def test_files_by_ending(tmp_path: pathlib.Path, kind: str, start: bytes):
    paths = [tmp_path / f"{name}.{kind}" for name in "ab"]
    for path in paths:
        draw_picture(results([0.1, 0.2]), path)
    first, second = (path.read_bytes() for path in paths)
    assert first.startswith(start)
    assert first == second, "the same picture is the same file"


def test_bad_endings_and_places(tmp_path: pathlib.Path):
    for name in ("x.gif", "x", "png"):
        with pytest.raises(ValueError, match=re.escape(", ".join(f".{kind}" for kind in PICTURE_FORMATS))):
            check_picture(tmp_path / name)
        with pytest.raises(ValueError, match="name"):
            save_picture(Figure(), tmp_path / name)
    with pytest.raises(ValueError, match="does not exist"):
        check_picture(tmp_path / "missing" / "x.png")
    check_picture(tmp_path / "x.png")
    assert not os.listdir(tmp_path)
