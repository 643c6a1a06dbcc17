"""Checkpoints of matches: resumed ones are the same to the last bit, others are refused."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from pandas.testing import assert_frame_equal

from jaxgadget import ExactValues, MaxMargin, OpenSpielBot, Policy, SearchPlayer, Solver, play_players
from jaxgadget.policy import matches as match_module
from jaxgadget.policy.match_folder import MatchFolder
from jaxgadget.policy.player import play_games
from tests.trees import kuhn, tree_of

HOW: dict[str, Any] = {"matches": 7, "seed": 3, "every": 2}


def players() -> dict[str, Any]:
    return {"one": Policy.dirichlet(kuhn(), 0), "two": Policy.dirichlet(kuhn(), 1)}


class Leads:
    """Half of the true values, as a baseline."""

    fingerprint = "half"

    def __call__(self, games: Any) -> Any:
        return 0.1 * np.array([sum(map(hash, games.moves(k))) % 7 for k in range(len(games.actor))])


@pytest.mark.parametrize("in_tree", [True, False])
def test_an_interrupted_match_goes_on_to_the_same_result(
    in_tree: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where: Any = kuhn() if in_tree else kuhn().game
    asked: dict[str, Any] = HOW | {"baseline": Leads()}
    whole = play_players(where, players(), **asked, checkpoint=tmp_path / "whole")
    assert_frame_equal(whole.table, play_players(where, players(), **asked).table)
    played: list[range] = []

    def interrupted(*arguments: Any) -> Any:
        played.append(arguments[4])
        if len(played) == 3:
            raise KeyboardInterrupt
        return play_games(*arguments)

    monkeypatch.setattr(match_module, "play_games", interrupted)
    folder = tmp_path / "interrupted"
    with pytest.raises(KeyboardInterrupt) as stopped:
        play_players(where, players(), **asked, checkpoint=folder)
    assert "keeps 4 of 7 matches" in stopped.value.__notes__[0]
    resumed = play_players(where, players(), **asked, checkpoint=folder)
    assert played == [range(2), range(2, 4), range(4, 6), range(4, 6), range(6, 7)]
    assert_frame_equal(resumed.table, whole.table, check_exact=True)
    np.testing.assert_array_equal(resumed.luck, whole.luck)
    assert resumed.moves("one", "two", 6) == whole.moves("one", "two", 6)
    more_asked: dict[str, Any] = asked | {"matches": 9}
    more = play_players(where, players(), **more_asked, checkpoint=folder)
    assert played[5:] == [range(6, 8), range(8, 9)]  # the last part was shorter
    assert_frame_equal(more.table, play_players(where, players(), **more_asked).table, check_exact=False)


def test_other_matches_and_players_that_cannot_be_recognised_are_refused(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "matches"
    play_players(kuhn(), players(), **HOW, checkpoint=folder)
    leduc = tree_of("leduc_poker")
    for arguments, message in (
        ({"seed": 4}, "seed: 3 before, 4 now"),
        ({"every": 3}, "every: 2 before, 3 now"),
        ({"baseline": Leads()}, "baseline: none before, half now"),
        ({"players": players() | {"two": Policy.uniform(kuhn())}}, "players: two"),
        ({"pairs": [(0, 0)]}, "seatings"),
        ({"tree": kuhn().game}, "game: "),
        ({"tree": leduc, "players": {"one": Policy.uniform(leduc), "two": Policy.uniform(leduc)}}, "game: "),
        ({"players": players() | {"two": lambda state, player: 0}, "tree": kuhn().game}, "cannot tell"),
        ({"every": 0}, "every=0"),
    ):
        asked: dict[str, Any] = {"tree": kuhn(), "players": players(), "checkpoint": folder} | HOW | arguments
        with pytest.raises(ValueError, match=message):
            play_players(**asked)
    (folder / "part-00001.npz").write_bytes((folder / "part-00000.npz").read_bytes())
    again = play_players(kuhn(), players(), **HOW, checkpoint=folder)  # another part's games are not taken
    assert_frame_equal(again.table, play_players(kuhn(), players(), **HOW).table)
    with pytest.raises(ValueError, match="expected an empty folder, or one with solved ranges"):
        from jaxgadget import build_forest, draw_ranges, solve_ranges

        forest = build_forest(kuhn(), "depth:1")
        solve_ranges(forest, draw_ranges(forest, 1, seed=0), solver=Solver(checkpoint=folder, iterations=2))


def test_games_that_do_not_follow_the_rules_are_damaged(tmp_path: pathlib.Path) -> None:
    play_players(kuhn(), players(), **HOW, checkpoint=tmp_path)
    store = MatchFolder(tmp_path, _manifest(tmp_path))
    store.write_shard(
        1, {"begin": 2, "end": 4}, {"games_history": np.zeros(4, np.int64), "luck": np.zeros(4)}
    )
    with pytest.raises(ValueError, match="do not end by the rules"):
        play_players(kuhn(), players(), **HOW, checkpoint=tmp_path)


def _manifest(folder: pathlib.Path) -> Any:
    from jaxgadget.policy.match_folder import MANIFEST
    from jaxgadget.util.shards import read_manifest

    return read_manifest(folder, MANIFEST)


def test_players_are_recognised_by_everything_that_their_play_depends_on() -> None:
    blueprint = Policy.dirichlet(kuhn(), 0)
    values = ExactValues(Policy.stack([blueprint, Policy.uniform(kuhn())]))

    def search(blueprint: Policy = blueprint, **settings: Any) -> SearchPlayer:
        return SearchPlayer(blueprint, MaxMargin(), values=values, **settings)

    assert search().fingerprint == search().fingerprint
    for other in (search(iterations=4), search(depth=2), search(Policy.uniform(kuhn()))):
        assert other.fingerprint != search().fingerprint
    with pytest.raises(ValueError, match="skip_too_large=True without a limit"):
        search(skip_too_large=True)
    bots = OpenSpielBot("uniform_random"), OpenSpielBot("fixed_action_preference")
    assert bots[0].fingerprint != bots[1].fingerprint
