"""Names in pictures and tables, broken where they may be and never within a word."""

from rich.console import Console

from jaxgadget.report.names import break_lines, without_shared
from jaxgadget.report.tables import make_table, table_title

GAME = "goofspiel(imp_info=True,num_cards=4,points_order=descending)"


def test_lines_are_broken_at_spaces_and_within_games_after_commas():
    assert break_lines("a b c", 3) == ["a b", "c"]
    assert break_lines(f"{GAME}, cut depth:1", 50) == [
        "goofspiel(imp_info=True,num_cards=4,",
        "points_order=descending), cut depth:1",
    ]
    assert break_lines(GAME, 70) == [GAME]
    assert break_lines("x" * 20 + " y", 5) == ["x" * 20, "y"], "what has neither stays whole"
    assert break_lines("one\n\ntwo", 9) == ["one", "", "two"]


def test_no_word_of_a_title_is_broken():
    table = make_table("x", "y")
    table.title = table_title(f"openspiel:{GAME}, cut depth:1, 50 iterations, player 0\nExploitability")
    table.add_row("1", "2")
    console = Console(width=60, record=True)
    with console.capture() as captured:
        console.print(table)
    lines = [line.strip() for line in captured.get().splitlines()]
    assert lines[0] == "openspiel:goofspiel(imp_info=True,num_cards=4,"
    assert lines[1].startswith("points_order=descending), cut depth:1")
    assert "Exploitability" in lines


def test_an_epsilon_that_all_share_is_said_once():
    names = ["unsafe", "resolving, uniform prior, epsilon 0.02", "max-margin, uniform prior, epsilon 0.02"]
    assert without_shared(names) == (
        ["unsafe", "resolving, uniform prior", "max-margin, uniform prior"],
        "epsilon 0.02",
    )
    assert without_shared([*names, "x, epsilon 0.1"]) == ([*names, "x, epsilon 0.1"], "")
    assert without_shared(["a", "b"]) == (["a", "b"], "")
