import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from jaxgadget.report import convergence_curves
from jaxgadget.report.curves import CURVE_DECADES, MANY_LABELS, spread
from jaxgadget.report.styles import FIGURE_SIZE, STYLES
from tests.report.test_plots import ALL, legend, new_axes

STEPS = [10, 100, 1000]


def results(
    settings: list[tuple[str, str]] = ALL,
    blueprints: tuple[float, ...] = (1.0,),
    epsilons: tuple[float, ...] = (1e-3,),
) -> pd.DataFrame:
    """The i-th setting falls as `blueprint · (i + 1) / iterations`."""
    rows = [
        {
            "gadget": gadget,
            "prior": prior,
            "epsilon": epsilon,
            "blueprint": f"cfr:{start}",
            "iterations": step,
            "refined_exploitability": start * (i + 1) / step,
        }
        for i, (gadget, prior) in enumerate(settings)
        for epsilon in (epsilons if prior != "none" else (0.0,))
        for start in blueprints
        for step in reversed(STEPS)
    ]
    return pd.DataFrame(rows)


def labels(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_a_line_for_each_setting_in_the_scatters_looks():
    ax = convergence_curves(results(), new_axes())
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert len(ax.lines) == len(ALL)
    for i, (setting, line) in enumerate(zip(ALL, ax.lines, strict=True)):
        np.testing.assert_array_equal(line.get_xdata(), STEPS)
        np.testing.assert_allclose(line.get_ydata(), (i + 1) / np.array(STEPS))
        assert to_hex(line.get_color()).upper() == STYLES[setting].color
    assert len({drawn.get_paths()[0].vertices.tobytes() for drawn in ax.collections}) == len(ALL)


def test_several_rows_at_a_place_are_a_median_with_quartiles():
    ax = convergence_curves(results(ALL[:1], (1.0, 2.0, 4.0, 8.0, 100.0)), new_axes())
    (line,) = ax.lines
    np.testing.assert_allclose(line.get_ydata(), 4.0 / np.array(STEPS))
    band = ax.collections[0].get_paths()[0].vertices
    for step in STEPS:
        heights = band[np.isclose(band[:, 0], step), 1]
        np.testing.assert_allclose([heights.min(), heights.max()], [2.0 / step, 8.0 / step])
    assert len(convergence_curves(results(ALL[:1]), new_axes()).collections) == 1, "one row has no band"


def test_names_stand_at_the_ends_in_the_order_of_the_lines():
    ax = convergence_curves(results(), new_axes())
    assert ax.get_legend() is None
    assert labels(ax) == [
        "unsafe",
        "resolving, no prior",
        "resolving, uniform prior",
        "resolving, blueprint prior",
        "max-margin, no prior",
        "max-margin, uniform prior",
        "max-margin, blueprint prior",
        "priors with ε = 0.001",
    ]
    heights = [text.get_position()[1] for text in ax.texts]
    assert (np.diff(heights) > 0).all()
    assert [text.xy for text in ax.texts[:-1]] == [
        pytest.approx((1000, (i + 1) / 1000)) for i in range(len(ALL))
    ]


def test_epsilons_are_told_apart():
    ax = convergence_curves(results(ALL[:3], epsilons=(0.01, 0.1)), new_axes())
    assert labels(ax)[2:] == ["resolving, uniform prior, ε = 0.01", "resolving, uniform prior, ε = 0.1"]
    first, second = ax.lines[2:]
    assert first.get_color() == second.get_color()
    assert first.get_linestyle() != second.get_linestyle()


def test_too_many_names_are_a_legend():
    epsilons = tuple(10.0**-k for k in range(1, 5))
    ax = convergence_curves(results(epsilons=epsilons), new_axes())
    assert len(ax.lines) == 3 + 4 * 4 > MANY_LABELS
    assert not ax.texts
    assert len(legend(ax)) == len(ax.lines)
    low = Figure(figsize=(5, 1), layout="constrained").add_subplot()
    assert len(legend(convergence_curves(results(), low))) == len(ALL), "seven names need more than an inch"


@pytest.mark.parametrize("blueprints", [(1.0,), (0.5, 1.0, 7.0)])
@pytest.mark.parametrize("same_end", [False, True])
def test_no_text_lies_on_another(blueprints: tuple[float, ...], same_end: bool):
    table = results(blueprints=blueprints)
    if same_end:
        table.loc[table["iterations"] == 1000, "refined_exploitability"] = 0.003
    ax = convergence_curves(table, new_axes(), title="leduc_poker, flop")
    figure = ax.figure
    assert isinstance(figure, Figure)
    figure.set_size_inches(FIGURE_SIZE)
    figure.draw_without_rendering()
    texts = [ax.title, ax.xaxis.label, ax.yaxis.label]
    boxes = [Text.get_window_extent(text) for text in (*texts, *ax.texts)]  # without what ties them to lines
    inside = figure.bbox
    for number, box in enumerate(boxes):
        assert inside.x0 <= box.x0 and box.x1 <= inside.x1 + 1
        assert not any(box.overlaps(other) for other in boxes[:number])


def test_what_cannot_be_told_from_zero_is_drawn_at_the_edge_and_said():
    table = results(ALL[:2])
    table.loc[table["iterations"] == 1000, "refined_exploitability"] = [-1e-3, 0.0]
    ax = convergence_curves(table, new_axes(), resolution=1e-6)
    assert [line.get_ydata()[-1] for line in ax.lines] == [0.01, 0.01], "the least number that is positive"
    assert "2 points at most 0.01: drawn there" in labels(ax)
    table.loc[table["iterations"] == 1000, "refined_exploitability"] = 10.0 ** -(CURVE_DECADES + 3)
    ax = convergence_curves(table, new_axes())
    assert ax.lines[0].get_ydata()[-1] == pytest.approx(0.2 / 10**CURVE_DECADES)
    assert not any("drawn there" in text for text in labels(convergence_curves(results(), new_axes())))


def test_nothing_positive_is_linear():
    ax = convergence_curves(results(blueprints=(0.0,)), new_axes())
    assert ax.get_yscale() == "linear"
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [0, 0, 0])


def test_few_decades_have_plain_numbers():
    for start, stop in ((1.0, 2.3), (0.02, 1.0)):
        table = results(ALL[:1])
        table["refined_exploitability"] = np.linspace(start, stop, len(table))
        ax = convergence_curves(table, new_axes())
        ax.figure.draw_without_rendering()
        low, high = ax.get_ylim()
        ticks = zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
        shown = [text.get_text() for tick, text in ticks if low <= tick <= high]
        assert len(shown) >= 3
        assert not any("$" in text for text in shown)


def test_other_columns():
    table = results(ALL[:2]).rename(columns={"iterations": "seconds", "refined_exploitability": "loss"})
    ax = convergence_curves(table, new_axes(), x="seconds", y="loss", title="Kuhn")
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("Seconds", "loss", "Kuhn")


def test_makes_its_own_figure():
    ax = convergence_curves(results())
    assert ax.figure in [plt.figure(number) for number in plt.get_fignums()]
    plt.close("all")


def test_bad_tables():
    with pytest.raises(ValueError, match="table lacks the columns iterations"):
        convergence_curves(results().drop(columns="iterations"))
    with pytest.raises(ValueError, match="no rows"):
        convergence_curves(results().iloc[:0])
    with pytest.raises(ValueError, match="refined_exploitability is not finite"):
        convergence_curves(results(blueprints=(np.inf,)))
    with pytest.raises(ValueError, match="iterations is not positive"):
        convergence_curves(results().assign(iterations=0))
    assert not plt.get_fignums()


def test_spread_by_hand():
    np.testing.assert_allclose(spread(np.array([0.1, 0.5, 0.9]), 0.1), [0.1, 0.5, 0.9])
    np.testing.assert_allclose(spread(np.array([0.5, 0.5]), 0.1), [0.45, 0.55])
    np.testing.assert_allclose(spread(np.array([0.98, 1.0]), 0.1), [0.9, 1.0])
    np.testing.assert_allclose(spread(np.array([0.0, 0.01]), 0.1, 0.5), [0.0, 0.1])


@given(st.lists(st.floats(-0.2, 1.2), min_size=1, max_size=12), st.floats(0.01, 0.08))
def test_spread_keeps_order_distance_and_range(places: list[float], apart: float):
    moved = spread(np.sort(places), apart)
    assert (np.diff(moved) >= apart - 1e-9).all()
    assert -1e-9 <= moved[0] and moved[-1] <= 1 + 1e-9


def test_curves_that_coincide_are_all_seen():
    """Dashes by turns: where one has its gap, another has its dash; markers alternate too."""
    rows = [
        {
            "gadget": "resolving",
            "prior": prior,
            "epsilon": 0.1,
            "iterations": n,
            "refined_exploitability": y / n,
        }
        for prior, y in (("uniform", 1.0), ("blueprint", 1.0), ("array", 3.0))
        for n in (1, 2, 4, 8)
    ]
    ax = convergence_curves(pd.DataFrame(rows), new_axes())
    first, second, alone = ax.lines
    offsets, lengths = zip(*(line._unscaled_dash_pattern for line in (first, second)), strict=True)
    assert lengths[0] == lengths[1] and lengths[0][0] == lengths[0][1] == abs(offsets[1] - offsets[0])
    assert alone.get_linestyle() == "-"
    marked = [set(np.asarray(drawn.get_offsets())[:, 0]) for drawn in ax.collections]
    assert not marked[0] & marked[1] and marked[0] | marked[1] == {1, 2, 4, 8}
