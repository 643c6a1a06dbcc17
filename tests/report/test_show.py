"""A subgame under a policy: roots, ranges and strategies, compared with walks over Kuhn poker's histories."""

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.report import decisions_frame, roots_frame, save_picture, subgame_picture
from tests.report.test_heatmap import cells
from tests.report.test_subgame import own_reach


@pytest.fixture(scope="module")
def policy(kuhn: jg.HistoryTree) -> jg.Policy:
    return jg.Policy.dirichlet(kuhn, 3)


@pytest.mark.parametrize("subgame", [0, 1])
def test_roots_and_ranges(kuhn, policy, subgame):
    forest = jg.build_forest(kuhn, "depth:1")
    frame = roots_frame(forest, policy, subgame)
    assert frame["player"].tolist() == [0, 0, 0, 1, 1, 1]
    where = forest.cut
    for row in frame.to_dict("records"):
        player, state = row["player"], forest.roots[row["player"]].infostate[row["root"]]
        assert forest.roots[player].subgame[row["root"]] == subgame
        assert row["infostate"] == forest.root_names(player)[row["root"]]
        histories = [h for h in where.roots.tolist() if kuhn.infostate[player, h] == state]
        assert row["reach"] == pytest.approx(own_reach(policy, player, histories[0]), abs=1e-12)
        others = sum(kuhn.chance[h] * own_reach(policy, 1 - player, h) for h in histories)
        assert row["others_reach"] == pytest.approx(others, abs=1e-12)
    for _, part in frame.groupby("player"):
        np.testing.assert_allclose(part["range"], part["reach"] / part["reach"].sum())


def test_decisions_of_both_players(kuhn, policy):
    forest = jg.build_forest(kuhn, "depth:1")
    subgame = int(forest.infoset_subgame(0)[kuhn.find_infoset("0pb")[1]])
    frame = decisions_frame(forest, policy, subgame)
    assert frame["infostate"].tolist() == [n for n in ("0pb", "1pb", "2pb", "0p", "1p", "2p") for _ in "ab"]
    for row in frame.to_dict("records"):
        assert row["probability"] == policy[row["infostate"]][row["action"]]
        assert row["action_name"] == ("Pass", "Bet")[row["action"]]
        histories = np.nonzero(kuhn.infoset[row["player"]] == row["infoset"])[0].tolist()
        reach = sum(kuhn.chance[h] * own_reach(policy, 0, h) * own_reach(policy, 1, h) for h in histories)
        assert row["reach"] == pytest.approx(reach, abs=1e-12)


def test_a_player_without_reach_has_no_range(kuhn):
    forest = jg.build_forest(kuhn, "depth:1")
    passes = {name: {0: 1.0} for player in (0, 1) for name in kuhn.infoset_names[player]}
    subgame = int(forest.infoset_subgame(1)[kuhn.find_infoset("0b")[1]])
    frame = roots_frame(forest, passes, subgame)
    assert frame[frame["player"] == 0]["range"].isna().all()
    assert not frame[frame["player"] == 1]["range"].isna().any()


def test_a_map_for_each_decision_point_with_a_row_for_each_hand(tmp_path):
    tree = jg.enumerate_game(jg.load("leduc_poker"))
    forest, policy = jg.build_forest(tree, "flop"), jg.Policy.dirichlet(tree, 1)
    figure = subgame_picture(forest, policy, 3)
    frame = decisions_frame(forest, policy, 3)
    assert tree.public is not None
    points = [
        np.unique(tree.public[tree.infosets[player].history[part["infoset"]]])
        for player, part in frame.groupby("player")
    ]
    assert len(figure.axes) == sum(map(len, points)) == 6
    hands = [[label.get_text() for label in ax.get_yticklabels()] for ax in figure.axes]
    assert all(len(rows) == 5 and all(row.startswith("Private: ") for row in rows) for rows in hands)
    texts = [text for ax in figure.axes for text in cells(ax).values()]
    assert sorted(texts) == sorted(f"{share:.2f}" for share in frame["probability"])
    titles = [ax.get_title().replace("\n", " ") for ax in figure.axes]
    assert [title[:8] for title in titles] == ["player 0"] * 3 + ["player 1"] * 3
    assert len(set(titles)) == 6 and all("Public: 5" in title for title in titles)
    save_picture(figure, tmp_path / "subgame.png")
    assert (tmp_path / "subgame.png").read_bytes().startswith(b"\x89PNG")
