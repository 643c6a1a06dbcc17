"""The experiments on actions off the menu with tiny settings: data, tables, pictures, and relations."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.off_tree import common, estimates, games
from experiments.off_tree.__main__ import STUDY
from experiments.study import Settings
from jaxgadget.tree.cut import cut
from tests.slow.experiments.frame import every_experiment_is_whole

pytestmark = pytest.mark.longest

test_every_experiment_is_whole = every_experiment_is_whole(STUDY)


def test_the_certificate_is_the_exploitability_and_nothing_beats_the_menu(settings: Settings) -> None:
    """In float64: certificates by a sweep of the abstraction, exploitability in the whole game."""
    for name in ("games", "menus"):
        frame = settings.data_of(name, "this test")
        swept = frame["game_value"] - frame["certificate"]
        np.testing.assert_allclose(frame["exploitability"], swept, rtol=0, atol=1e-9)
        assert (frame["exploitability"] >= frame["menu_exploitability"] - 1e-9).all()
        assert (frame["exploitability"] >= frame["on_menu"] - 1e-9).all()


def test_values_are_those_of_the_abstraction(settings: Settings) -> None:
    frame = settings.data_of("values", "this test")
    row = frame[(frame["game"] == games.SMOKE_GAMES[0]) & (frame["player"] == 0)].iloc[0]
    tree = common.tree_of(row["game"], row["menu"])
    value = sum(common.find_value(tree, True, False)) / 2
    assert row["value_error"] == pytest.approx(abs(value - row["game_value"]), abs=1e-9)


def test_the_finer_game_has_the_menu_before_the_flop_and_everything_after(settings: Settings) -> None:
    game = estimates.SMOKE_GAMES[0]
    finer, whole = estimates.finer(game), common.tree_of(game)
    coarse = common.tree_of(game, estimates.MENU)
    before = cut(finer, "flop").root < 0
    assert before.sum() == (cut(coarse, "flop").root < 0).sum()
    assert coarse.num_histories < finer.num_histories < whole.num_histories
    names = {
        finer.game.action_string(0, action) for action in np.unique(finer.action[0, before]) if action >= 0
    }
    assert names == {"Fold", "Call", "Bet 1", "AllIn"}


def test_nothing_is_better_than_the_optimum_and_theorem_2_holds(settings: Settings) -> None:
    frame = settings.data_of("estimates", "this test")
    assert (frame["refined_exploitability"] >= frame["optimum"] - 1e-9).all()
    exact = frame[frame["gadget"] == "optimal-continuation"]
    np.testing.assert_allclose(exact["refined_exploitability"], exact["optimum"], rtol=0, atol=1e-9)
    told = estimates.theorem(estimates.key_numbers(frame)).set_index("alternative")
    assert (told["broken"] == 0).all() and (told.loc[estimates.OPTIMUM, "error"] == 0).all()
    assert (told.loc[estimates.ESTIMATE, "error"] > 0).all()


def test_values_of_the_optimum_give_the_optimum_up_to_gaps(settings: Settings) -> None:
    """§6: up to the sum of gaps for resolving, up to the largest for max-margin."""
    frame = settings.data_of("estimates", "this test")
    count = cut(estimates.finer(estimates.SMOKE_GAMES[0]), "flop").num_subgames
    times = {"resolving": count, "max-margin": 1}
    plain = frame[
        (frame["alternative"] == estimates.OPTIMUM)
        & (frame["prior"] == "none")
        & frame["gadget"].isin(list(times))
    ]
    allowed = plain["gap_max"] * plain["gadget"].map(times)
    assert len(plain) and (plain["refined_exploitability"] <= plain["optimum"] + allowed + 1e-9).all()
