"""Names in pictures and tables, broken where they may be and never within a word."""

from jaxgadget.report.names import without_shared

GAME = "goofspiel(imp_info=True,num_cards=4,points_order=descending)"


def test_an_epsilon_that_all_share_is_said_once():
    names = ["unsafe", "resolving, uniform prior, epsilon 0.02", "max-margin, uniform prior, epsilon 0.02"]
    assert without_shared(names) == (
        ["unsafe", "resolving, uniform prior", "max-margin, uniform prior"],
        "epsilon 0.02",
    )
    assert without_shared([*names, "x, epsilon 0.1"]) == ([*names, "x, epsilon 0.1"], "")
    assert without_shared(["a", "b"]) == (["a", "b"], "")
