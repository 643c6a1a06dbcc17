import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from jaxgadget.report.heatmap import ENDS
from jaxgadget.report.matches import SEATS, draw_matches, match_picture
from tests.report.test_heatmap import cell_color, cells
from tests.report.test_plots import new_axes

RATES = {
    ("a", "b"): 1.0,
    ("a", "c"): 0.5,
    ("b", "a"): 0.0,
    ("b", "c"): 0.25,
    ("c", "a"): 0.5,
    ("c", "b"): 0.75,
}


def table() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "row": [row for row, _ in RATES],
            "column": [column for _, column in RATES],
            "matches": 12_000,
            "win_rate": list(RATES.values()),
            "win_rate_first": [(1 + rate) / 2 for rate in RATES.values()],
            "win_rate_second": [rate / 2 for rate in RATES.values()],
            "ci95": [0.0, 0.004, 0.0, 0.006, 0.004, 0.006],
        }
    )


def test_a_cell_for_every_pair_none_for_oneself():
    ax = draw_matches(
        table().sample(frac=1, random_state=1).sort_values("row"), new_axes(), title="Goofspiel"
    )
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == [label.get_text() for label in ax.get_xticklabels()] == ["a", "b", "c"]
    assert cells(ax) == {
        ("abc".index(row), "abc".index(column)): f"{rate:.2f}" for (row, column), rate in RATES.items()
    }
    np.testing.assert_allclose(cell_color(ax, 0, 2), 1.0, atol=0.01)
    np.testing.assert_allclose(cell_color(ax, 0, 1), to_rgb(ENDS[2]), atol=0.01)
    assert ax.get_title() == "Goofspiel"
    assert "12,000 matches a pair,\n± 0.006 at most" in ax.get_xlabel()


def test_seats_apart():
    for value, row_b in (("win_rate_first", "0.50"), ("win_rate_second", "<.01")):
        ax = draw_matches(table().assign(win_rate_second=0.004), new_axes(), value=value)
        assert cells(ax)[1, 0] == row_b
        assert SEATS[value] in ax.get_xlabel() and "±" not in ax.get_xlabel()


def test_an_exact_table_and_a_match_against_oneself():
    exact = table().drop(columns=["matches", "ci95"])
    ax = draw_matches(pd.concat([exact, exact[:1].assign(column="a", win_rate=0.5)]), new_axes())
    assert cells(ax)[0, 0] == "0.50" and len(cells(ax)) == 7
    assert "±" not in ax.get_xlabel()


@pytest.mark.parametrize(
    ("frame", "value", "message"),
    [
        (table(), "losses", "value='losses': expected one of win_rate, win_rate_first"),
        (table()[:0], "win_rate", "has no rows"),
        (table().drop(columns=["row", "win_rate"]), "win_rate", "lacks the columns row, win_rate"),
        (table()[1:], "win_rate", "has no win_rate for 'a' against 'b'; expected every ordered pair"),
        (pd.concat([table(), table()[2:3]]), "win_rate", "several rows for 'b' against 'a'"),
        (table().assign(win_rate=2.0), "win_rate", r"is 2.0; expected a number in \[0, 1\]"),
    ],
)
def test_tables_that_cannot_be_drawn(frame, value, message):
    with pytest.raises(ValueError, match=message):
        draw_matches(frame, new_axes(), value=value)


def with_returns() -> pd.DataFrame:
    frame = table()
    return frame.assign(mean_return=4 * frame["win_rate"] - 1.5, return_ci95=2 * frame["ci95"])


def test_mean_returns_are_white_where_both_get_as_much():
    ax = draw_matches(with_returns(), new_axes(), value="mean_return")
    np.testing.assert_allclose(cell_color(ax, 0, 2), 1.0, atol=0.01)
    assert cells(ax)[0, 1] == "2.50" and cells(ax)[1, 0] == "-1.50"
    assert "12,000 matches a pair,\n± 0.01 at most" in ax.get_xlabel()
    assert "colours: -1.5 to 2.5" in ax.get_xlabel()


def test_both_side_by_side_with_the_names_once():
    long = {letter: f"resolving, {letter * 12} prior, epsilon 0.02" for letter in "abc"}
    frame = with_returns().replace({"row": long, "column": long})
    figure = match_picture(frame, title="Goofspiel")
    returns, rates = figure.axes
    assert returns.get_title().startswith("Mean return") and rates.get_title().startswith("Win rate")
    assert all("±" in ax.get_xlabel() for ax in figure.axes)
    names = [label.get_text() for label in returns.get_yticklabels()]
    assert names == [f"resolving, {letter * 12} prior  {n}" for n, letter in enumerate("abc", 1)]
    assert [label.get_text() for label in rates.get_yticklabels()] == [""] * 3
    for ax in figure.axes:
        assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2", "3"]
    assert figure.get_suptitle() == "Goofspiel\nepsilon 0.02"
    figure.draw_without_rendering()
    share = sum(ax.get_window_extent().width for ax in figure.axes) / figure.bbox.width
    assert share > 2 / 5


def test_labels_take_less_than_a_third_of_a_map_of_seven():
    names = [f"resolving, blueprint prior {k}, epsilon 0.02" for k in range(7)]
    pairs = [(a, b) for a in names for b in names if a != b]
    frame = pd.DataFrame(pairs, columns=["row", "column"]).assign(
        win_rate=0.5, mean_return=0.0, matches=9, ci95=0.1, return_ci95=0.2
    )
    figure = match_picture(frame)
    figure.draw_without_rendering()
    assert sum(ax.get_window_extent().width for ax in figure.axes) > 2 / 3 * figure.bbox.width
