"""Reports of solved spots by classes of boards."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

import jaxgadget as jg
from jaxgadget.holdem.betting import ALL_IN
from jaxgadget.holdem.boards import CLASSES, aggregate_spots
from jaxgadget.holdem.solution import SpotSolution
from jaxgadget.holdem.solve import evaluate_spot
from jaxgadget.holdem.spots import Spot
from jaxgadget.policy.policy import Policy
from jaxgadget.report.boards import boards_picture, boards_table
from jaxgadget.tree.public import public_tree

MENU = jg.BetMenu(bets=(0.5, 1.0, ALL_IN), raises=(1.0,), cap=2)


def spot(board: str, pot: float = 20, **changes: object) -> Spot:
    fields: dict[str, object] = {"oop": "AhKd,QhJh:0.5,8s8c", "ip": "AcQd,Kh9h,7s6s", "stack": 10 * pot}
    return Spot(board=board, pot=pot, menus=MENU, **(fields | changes))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("board", "classes"),
    [
        ("Td9d6hQc2s", ("unpaired", "two-tone", "straight possible", "Q high")),
        ("AdAs6h6c2s", ("two pairs", "two-tone", "no straight", "A high")),
        ("KdQdTd9d2d", ("unpaired", "monotone", "straight possible", "K high")),
        ("7d7s7h2c2s", ("full house", "two-tone", "no straight", "7 high")),
        ("7d7s7h2c", ("trips", "rainbow", "no straight", "7 high")),
        ("7d7s7h7c2s", ("quads", "two-tone", "no straight", "7 high")),
        ("Ad2d3dJsJc", ("paired", "three of a suit", "straight possible", "A high")),
        ("Ad2d3dJdJc", ("paired", "four of a suit", "straight possible", "A high")),
        ("AdKdQd2s", ("unpaired", "three of a suit", "straight possible", "A high")),
        ("Kd8h3s2c", ("unpaired", "rainbow", "no straight", "K high")),
        ("5d4h2s2c", ("paired", "rainbow", "straight possible", "5 high")),
        ("AhKhQdTd", ("unpaired", "two-tone", "straight possible", "A high")),
    ],
)
def test_boards_have_the_classes_of_their_cards(board: str, classes: tuple[str, ...]):
    random = spot(board, oop="random", ip="random")
    assert tuple(classify(random) for classify in CLASSES.values()) == classes


@pytest.fixture(scope="module")
def solutions() -> list[SpotSolution]:
    spots = [
        spot("Td9d6cQc2s"),
        spot("Ts9d6cQc2s", pot=40),
        spot("Ad9d9cJc2s", label="paired"),
        spot("Tc9d6c5c2c"),
    ]
    solved: list[SpotSolution] = []
    for number, each in enumerate(spots):
        policy = Policy.uniform(public_tree(each)) if number else Policy.geometric(public_tree(each), 0.5)
        solved.append(evaluate_spot(each, policy))
    return solved


def test_a_report_has_the_means_of_its_boards(solutions: list[SpotSolution]):
    report = aggregate_spots(solutions)
    assert list(report)[:6] == ["group", "class", "boards", "ev_oop", "ev_ip", "equity_oop"]
    assert list(report)[6:] == ["check", "bet 50%", "bet 100%", "all-in"]
    assert report.attrs["actor"] == "oop"
    groups = report.groupby("group", sort=False)["boards"].sum()
    assert groups.to_dict() == {"all": 4, "pairs": 4, "suits": 4, "straights": 4, "high": 4, "board": 4}
    boards = report[report["group"] == "board"]
    assert boards["class"].tolist() == ["Td9d6cQc2s", "Ts9d6cQc2s", "paired", "Tc9d6c5c2c"]
    for row, solution in zip(boards.to_dict("records"), solutions, strict=True):
        pot = solution.spot.pot
        assert (row["ev_oop"], row["ev_ip"]) == pytest.approx([ev / pot for ev in solution.ev])
        held = solution.weights()[0]
        assert row["equity_oop"] == pytest.approx(held @ np.nan_to_num(solution.equity[0]))
        shares = [row[name] for name in ("check", "bet 50%", "bet 100%", "all-in")]
        assert shares == pytest.approx(list(solution.frequencies().values()))
    numbers = [str(name) for name in report][3:]
    pairs = report[report["group"] == "pairs"]
    assert list(zip(pairs["class"], pairs["boards"], strict=True)) == [("unpaired", 3), ("paired", 1)]
    unpaired = pairs.iloc[0][numbers].to_numpy(np.float64)
    np.testing.assert_allclose(unpaired, boards.iloc[[0, 1, 3]][numbers].mean())
    np.testing.assert_allclose(report.iloc[0][numbers].to_numpy(np.float64), boards[numbers].mean())
    assert report[report["group"] == "suits"]["class"].tolist() == ["two-tone", "four of a suit"]


def test_a_report_after_a_line_counts_from_there(solutions: list[SpotSolution]):
    same_pot = [solutions[0], solutions[2]]
    report = aggregate_spots(same_pot, "bet 10", {"ends in": lambda spot: spot.board[-2:]})
    assert report["group"].tolist() == ["all", "ends in", "board", "board"]
    assert report.attrs["actor"] == "ip"
    assert list(report)[6:] == ["fold", "call", "raise 100%"]
    for number, solution in enumerate(same_pot):
        values = solution.values("bet 10")
        assert report["ev_ip"].iloc[2 + number] == pytest.approx(values.mean_ev[1] / 30)
    with pytest.raises(ValueError, match="'bet 10' is not legal at the start"):
        aggregate_spots(solutions, "bet 10")
    with pytest.raises(ValueError, match=r"by='pair' is no kind of classes: .* similar names: 'pairs'"):
        aggregate_spots(solutions, by=["pair"])
    with pytest.raises(ValueError, match="expected at least one solved spot"):
        aggregate_spots([])


def test_boards_that_never_get_there_have_no_value(solutions: list[SpotSolution]):
    """Means are those of the others."""
    first = solutions[0]
    tree = public_tree(first.spot)
    always_checks = Policy.geometric(tree, 1e-300)
    one, other = (np.round(rows) for rows in always_checks.probabilities)
    never = evaluate_spot(first.spot, Policy(tree, (one, other), ("checks",)))
    report = aggregate_spots([never, first], "bet 10").set_index("class")
    assert np.isnan(never.values("bet 10").mean_ev[1])
    assert report.loc["all", "ev_ip"] == pytest.approx(first.values("bet 10").mean_ev[1] / 30)


def test_tables_and_pictures_have_a_row_for_each_class(solutions: list[SpotSolution]):
    report = aggregate_spots(solutions, by=["pairs", "high"])
    table = boards_table(report)
    assert [str(column.header) for column in table.columns] == [
        *("class", "boards", "EV oop", "EV ip", "equity oop", "check", "bet 50%", "bet 100%", "all-in")
    ]
    names = list(table.columns[0].cells)
    assert names == ["all", "unpaired", "paired", "A high", "Q high", "T high"]
    assert list(table.columns[1].cells) == ["4", "3", "1", "1", "2", "1"]
    assert list(boards_table(report, boards=True).columns[0].cells)[6:] == report["class"].iloc[6:].tolist()
    ax = boards_picture(report, Figure().add_subplot())
    assert [label.get_text() for label in ax.get_yticklabels()][:2] == ["all (4)", "unpaired (3)"]
    widths = {bar.get_label(): [patch.get_width() for patch in bar] for bar in ax.containers}  # pyright: ignore[reportAttributeAccessIssue, reportGeneralTypeIssues, reportUnknownVariableType]
    np.testing.assert_allclose(widths["all-in"], report["all-in"].iloc[:6])
