"""`jaxgadget train-deals`; `holdem --leaf`, `--cards`, locks in rows of `--spots`, spots of `--open`."""

import json
import pathlib
from typing import Any

import pytest

from jaxgadget import SpotSolutions, aggregate_cards
from jaxgadget.values import deals
from tests.cli.commands import run, run_to_json
from tests.cli.commands import words as words_of

SPOT: tuple[object, ...] = (
    *("--board", "Td9d8sQc", "--oop", "AA,JTs,A7s", "--ip", "KK,QJs", "--pot", 10, "--stack", 20),
    *("--bets", "50%", "--raises", "", "--dead", "2c2d2h2s3c3d3h3s4c4d4h4s5c5d5h5s6c6d6h6s7c7d8h8c8d"),
)


def row_of(*words: object) -> dict[str, Any]:
    return run_to_json("holdem", *SPOT, "--iterations", 200, *words)["rows"][0]


@pytest.mark.slow
def test_the_first_street_is_solved_with_values_at_the_deal() -> None:
    free, found = row_of(), row_of("--leaf", "equities", "--leaf-iterations", 100)
    assert found["locks"] == 4 and found["gap"] < found["unlocked_gap"] < 4
    assert found["unlocked_gap"] > free["gap"]
    printed = run("holdem", *SPOT, "--iterations", 20, "--leaf", "resolved:2", "--leaf-iterations", 3).stdout
    assert "solved with --leaf resolved:2" in printed and "of the whole strategy" in words_of(printed)
    report = run("holdem", *SPOT, "--iterations", 20, "--leaf", "equities", "--report").stdout
    assert "chips with locks and" in words_of(report) and "--leaf equities" in report


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--leaf", "resolved:0"), "--leaf 'resolved:0': expected a number of iterations"),
        (("--leaf", "nothing"), "--leaf 'nothing': expected equities, resolved:N, or the folder"),
        (
            ("--leaf", "equities", "--rake", "5%"),
            "--leaf 'equities': equities (CheckedDown) of a spot with rake",
        ),
        (("--leaf", "equities", "--suit-isomorphism"), "--suit-isomorphism has no effect with --leaf"),
        (("--leaf-iterations", "5"), "--leaf-iterations has no effect without --leaf"),
    ],
)
def test_bad_leaves(words: tuple[object, ...], message: str) -> None:
    failed = run("holdem", *SPOT, *words)
    assert failed.exit_code == 2 and message in words_of(failed.stderr)


@pytest.mark.slow
def test_rows_of_results_are_found_before_the_first_street_is_solved(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spots, rows = tmp_path / "spots.jsonl", tmp_path / "rows.jsonl"
    names = ("board", "oop", "ip", "pot", "stack")
    turn = dict(zip(names, ("Td9d8sQc", "AA,JTs", "KK,QJs", 10, 20), strict=True))
    spots.write_text(json.dumps(turn), "utf-8")
    few = (*SPOT[-6:], "--iterations", 20, "--leaf-iterations", 5)
    words = ("holdem", "--spots", spots, "--results", rows, *few)
    (first,) = run_to_json(*words, "--leaf", "equities")["rows"]

    def refuse(*args: Any, **more: Any) -> Any:
        raise ValueError("solved again")

    monkeypatch.setattr(deals, "solve_to_deal", refuse)
    assert run_to_json(*words, "--leaf", "equities")["rows"] == [first]
    assert run(*words, "--leaf", "resolved:2").exit_code == 2  # another row
    spots.write_text("\n".join(json.dumps(row) for row in (turn, turn | {"board": "Td9d8sQcAh"})), "utf-8")
    failed = run(*words, "--leaf", "resolved:2")
    assert "no card is dealt after a river" in words_of(failed.stderr)


@pytest.mark.slow
def test_a_network_is_trained_and_used(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("orbax.checkpoint")
    out = tmp_path / "values"
    words = ("--samples", 16, "--rounds", 0, "--steps", 4, "--width", 8, "--iterations", 5)
    found = run_to_json("train-deals", *SPOT, *words, "--out", out)
    assert found["samples"] == 16 and 0 < found["heldout_rmse"] < 3 and found["gap"] > 0
    assert row_of("--leaf", out, "--leaf-iterations", 5)["locks"] == 4
    printed = run("train-deals", *SPOT, *words, "--out", out).stdout
    assert f"--leaf {out}" in printed.replace("\n", "") and "held-out ranges" in printed


def test_rows_of_spots_have_locks_of_their_own(tmp_path: pathlib.Path) -> None:
    names = ("board", "oop", "ip", "pot", "stack")
    values = dict(zip(names, ("Td9d8sQc2h", "AA,JTs,A7s", "KK,QJs", 10, 20), strict=True))
    locks = [{"line": "", "strategy": {"check": 1}}]
    path, of_all = tmp_path / "spots.jsonl", tmp_path / "locks.json"
    path.write_text("\n".join(json.dumps(row) for row in (values, values | {"locks": locks})), "utf-8")
    of_all.write_text(json.dumps([{"line": "", "strategy": {"bet 5": 1}}]), "utf-8")
    menu = ("--bets", "50%", "--raises", "", "--iterations", 50)
    free, checked = run_to_json("holdem", "--spots", path, *menu)["rows"]
    assert not free["locks"] and checked["locks"] == 1 and checked["ev"][0] < free["ev"][0]
    bets, own = run_to_json("holdem", "--spots", path, "--lock", of_all, *menu)["rows"]
    assert bets["locks"] == own["locks"] == 1 and own["ev"] == checked["ev"] != bets["ev"]
    path.write_text(json.dumps(values | {"locks": []}), "utf-8")
    assert run_to_json("holdem", "--spots", path, "--lock", of_all, *menu)["rows"][0]["ev"] == free["ev"]
    path.write_text(json.dumps(values | {"locks": {}}), "utf-8")
    failed = run("holdem", "--spots", path, *menu)
    assert failed.exit_code == 2 and "line 1 holds no list of locks" in words_of(failed.stderr)


@pytest.mark.slow
def test_cards_that_are_dealt_have_a_row_each(tmp_path: pathlib.Path) -> None:
    saved = tmp_path / "spots.npz"
    solving = (*SPOT, "--iterations", 40)
    printed = run("holdem", *solving, "--save", saved, "--line", "check, check", "--cards").stdout
    assert all(name in printed for name in ("oop acts after the card", " all ", " 9c ", "bet 50%"))
    (solution,) = SpotSolutions.load(saved)
    report = aggregate_cards(solution, "check, check", progress=False).set_index("card")
    assert report["chance"].drop("all").sum() == pytest.approx(1) and "Qs" in report.index
    assert report.loc["all", "ev_oop"] == pytest.approx(  # mean over all rivers
        float(solution.values("check, check").mean_ev[0]) / 10, abs=1e-9
    )
    row = report.loc["9c"]
    assert row["bet 50%"] == pytest.approx(solution.frequencies("check, check, 9c")["bet 5"], abs=1e-9)
    failed = run("holdem", *solving, "--line", "check", "--cards")
    assert failed.exit_code == 2 and "expected a line after which a card is dealt" in words_of(failed.stderr)
    with pytest.raises(ValueError, match="after which a card is dealt"):
        aggregate_cards(solution, "check")


@pytest.mark.slow
def test_a_spot_of_a_file_is_selected_by_board_or_label(tmp_path: pathlib.Path) -> None:
    names, rows, saved = ("board", "oop", "ip", "pot", "stack"), tmp_path / "rows.jsonl", tmp_path / "s.npz"
    spots = [
        dict(zip(names, (board, "AA,JTs", "KK,QJs", 10, 20), strict=True)) | {"label": label}
        for board, label in (("Td9d8sQc2h", "one"), ("Td9d8sQc3h", "two"))
    ]
    rows.write_text("\n".join(map(json.dumps, spots)), "utf-8")
    run("holdem", "--spots", rows, "--bets", "50%", "--raises", "", "--iterations", 20, "--save", saved)
    for chosen in (("--board", "3hTd9d8sQc"), ("--label", "two")):
        (row,) = run_to_json("holdem", "--open", saved, *chosen)["rows"]
        assert row["label"] == "two"
        assert "weight" in run("holdem", "--open", saved, *chosen, "--hands", 3).stdout
    failed = run("holdem", "--open", saved, "--board", "2c3c4c5c6d")
    assert failed.exit_code == 2 and "has no spot with this --board" in words_of(failed.stderr)
