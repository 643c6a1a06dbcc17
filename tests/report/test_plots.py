import os
import pathlib
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from jaxgadget.report.plots import (
    EQUAL,
    FIGURE_SIZE,
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
    """A table as `refine` makes it, where the i-th setting divides exploitability by i + 1."""
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


def test_diagonal():
    ax = exploitability_scatter(results([0.1, 2.0]), new_axes())
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), line.get_ydata())


def test_a_look_for_each_setting():
    ax = exploitability_scatter(results([0.1, 0.2]), new_axes())
    edges = [to_hex(np.asarray(drawn.get_edgecolor())[0]) for drawn in ax.collections]
    shapes = [drawn.get_paths()[0].vertices.tobytes() for drawn in ax.collections]
    assert len(set(edges)) == len(set(shapes)) == len(ALL) == 7
    assert legend(ax) == [
        "unsafe",
        "resolving, no prior",
        "resolving, uniform prior",
        "resolving, blueprint prior",
        "max-margin, no prior",
        "max-margin, uniform prior",
        "max-margin, blueprint prior",
        "unchanged",
    ]


def test_looks_do_not_depend_on_what_else_is_drawn():
    alone = exploitability_scatter(results([0.1], ALL[3:4]), new_axes()).collections[0]
    among = exploitability_scatter(results([0.1]), new_axes()).collections[3]
    np.testing.assert_array_equal(alone.get_edgecolor(), among.get_edgecolor())


def test_several_epsilons_and_other_priors():
    settings = [("resolving", "uniform"), ("resolving", "array"), ("max-margin", "array")]
    ax = exploitability_scatter(results([0.1, 0.2], settings, (0.01, 0.1)), new_axes())
    assert legend(ax)[:2] == ["resolving, uniform prior, ε = 0.01", "resolving, uniform prior, ε = 0.1"]
    looks = {
        (
            np.asarray(d.get_edgecolor()).tobytes(),
            np.asarray(d.get_facecolor()).tobytes(),
            d.get_paths()[0].vertices.tobytes(),
        )
        for d in ax.collections
    }
    assert len(looks) == len(ax.collections) == 6


@pytest.mark.parametrize(
    ("before", "scale"), [([0.3, 0.31], "linear"), ([0.01, 3.0], "log"), ([0.0, 0.0], "linear")]
)
def test_logarithmic_where_the_numbers_ask_for_it(before: list[float], scale: str):
    ax = exploitability_scatter(results(before, ALL[:2]), new_axes())
    assert (ax.get_xscale(), ax.get_yscale()) == (scale, scale)
    chosen = exploitability_scatter(results([0.3, 0.31]), new_axes(), log=True)
    assert chosen.get_xscale() == "log"


def test_what_cannot_be_told_from_zero_is_drawn_at_the_edge_and_said():
    table = results([1e-9, 0.01, 3.0], ALL[1:2])
    table.loc[0, "refined_exploitability"] = -1e-9
    ax = exploitability_scatter(table, new_axes(), resolution=1e-6)
    assert np.isfinite(points(ax)).all()
    assert (points(ax) >= 1e-6).all()
    assert any("1 point at most" in text.get_text() for text in ax.texts)
    assert not exploitability_scatter(results([0.01, 3.0]), new_axes()).texts


def test_labels_name_player_and_unit():
    ax = exploitability_scatter(results([0.1]), new_axes(), title="Leduc")
    for label in (ax.get_xlabel(), ax.get_ylabel()):
        assert "player 0" in label
        assert "[payoff]" in label
    assert ax.get_title() == "Leduc"
    players = pd.concat([results([0.1]), results([0.1]).assign(player=1)])
    assert "players 0 and 1" in exploitability_scatter(players, new_axes()).get_xlabel()


@pytest.mark.parametrize("before", [[0.1, 0.11], [0.001, 0.5, 4.0]])
def test_no_text_lies_on_another(before: list[float]):
    ax = exploitability_scatter(results(before), new_axes(), title="leduc_poker, 30 subgames below flop")
    figure = ax.figure
    assert isinstance(figure, Figure)
    figure.set_size_inches(FIGURE_SIZE)
    figure.draw_without_rendering()
    texts = [ax.title, ax.xaxis.label, ax.yaxis.label, *ax.get_legend().get_texts()]
    for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        ticks = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
        texts += [text for tick, text in ticks if low <= tick <= high]
    inside = figure.bbox
    boxes = [text.get_window_extent() for text in texts if text.get_text()]
    for number, box in enumerate(boxes):
        assert inside.x0 <= box.x0 and box.x1 <= inside.x1 + 1
        assert not any(box.overlaps(other) for other in boxes[:number])


def test_makes_its_own_figure():
    ax = exploitability_scatter(results([0.1]))
    assert ax.figure in [plt.figure(number) for number in plt.get_fignums()]
    plt.close("all")


def test_bad_tables():
    with pytest.raises(ValueError, match="refined_exploitability"):
        exploitability_scatter(results([0.1]).drop(columns="refined_exploitability"))
    with pytest.raises(ValueError, match="no rows"):
        exploitability_scatter(results([0.1]).iloc[:0])
    with pytest.raises(ValueError, match="not finite"):
        exploitability_scatter(results([np.nan]))
    assert not plt.get_fignums()


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
        with pytest.raises(ValueError, match="expected a file name"):
            save_picture(Figure(), tmp_path / name)
    with pytest.raises(ValueError, match="does not exist"):
        check_picture(tmp_path / "missing" / "x.png")
    check_picture(tmp_path / "x.png")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("before", [[0.1, 0.11], [0.001, 3.0]], ids=["linear", "log"])
def test_points_that_would_hide_each_other_stand_side_by_side(before: list[float]):
    table = results(before)
    table["refined_exploitability"] = table["blueprint_exploitability"] / 2
    ax = exploitability_scatter(table, new_axes())
    ax.figure.draw_without_rendering()
    drawn = ax.transData.transform(points(ax))
    apart = np.hypot(*(drawn[:, None] - drawn[None]).transpose(2, 0, 1))[~np.eye(len(drawn), dtype=bool)]
    assert apart.min() > 2, "pixels"
    (x, y), expected = points(ax).T, table["blueprint_exploitability"].to_numpy()
    if ax.get_xscale() == "log":
        np.testing.assert_allclose(y / x, 0.5)
    else:
        np.testing.assert_allclose(x - y, expected / 2)
    assert np.abs(x / expected - 1).max() < 0.5 and np.abs(np.log(x / expected).sum()) < 0.2
    assert EQUAL in notes(ax)


def test_points_that_stand_alone_stay():
    ax = exploitability_scatter(results([0.1, 0.2, 0.3], ALL[:3]), new_axes())
    assert EQUAL not in notes(ax)


def notes(ax: Axes) -> str:
    """What stands above the legend's entries."""
    legend = ax.get_legend()
    assert legend is not None
    return legend.get_title().get_text()


@pytest.mark.parametrize("before", [[0.22, 0.7], [0.02, 0.7], [0.0002, 0.7]])
def test_no_label_of_an_axis_lies_on_another(before: list[float]):
    table = results(before)
    table["refined_exploitability"] /= 300
    ax = exploitability_scatter(table, new_axes())
    assert ax.get_xscale() == "log"
    ax.figure.draw_without_rendering()
    for axis in (ax.xaxis, ax.yaxis):
        labels = [label for label in axis.get_ticklabels(which="both") if label.get_text()]
        (low, high), place = sorted(axis.get_view_interval()), ("x", "y").index(axis.axis_name)
        boxes = [label.get_window_extent() for label in labels if low <= label.get_position()[place] <= high]
        assert len(boxes) >= 2
        assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])


def test_nothing_is_cut_off_in_a_file(tmp_path: pathlib.Path):
    """A title wider than the axes is within the picture: its outermost columns of pixels are white."""
    ax = new_axes()
    ax.plot([0, 1])
    ax.set_title("a title that is far wider than the picture itself, " * 3)
    figure = ax.figure
    assert isinstance(figure, Figure)
    save_picture(figure, tmp_path / "wide.png")
    picture = plt.imread(tmp_path / "wide.png")
    assert (picture[:, :2, :3] == 1).all() and (picture[:, -2:, :3] == 1).all()
    assert picture.shape[1] > 200 * figure.get_figwidth()
