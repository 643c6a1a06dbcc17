"""The cost of re-solving own infostates by themselves: that it is measured, not how much it is."""

from experiments.knowledge import cost


def test_both_kinds_of_subgames_are_measured() -> None:
    game = "goofspiel(imp_info=True,num_cards=3,points_order=descending)"
    rows = cost.measure(game, "depth:1", turns=2)
    assert list(rows) == [f"{g}, {kind}" for g in ("resolving", "max-margin") for kind in ("cut", "known")]
    assert all(0 < row["least"] <= row["median"] for row in rows.values())
