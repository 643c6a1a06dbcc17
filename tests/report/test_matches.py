import pandas as pd

from jaxgadget.report.matches import draw_matches
from tests.report.test_heatmap import cells
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
    assert ax.get_title() == "Goofspiel"
    assert "12,000 matches a pair,\n± 0.006 at most" in ax.get_xlabel()
