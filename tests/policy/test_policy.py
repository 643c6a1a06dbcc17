"""Policies: the documented recipes, errors, files, and OpenSpiel's tables."""

import json
import re

import numpy as np
import pytest

from jaxgadget.games.registry import load
from jaxgadget.policy.policy import POLICY_FILE, Policy
from jaxgadget.tree.history import enumerate_game

GOOFSPIEL = "goofspiel(imp_info=True,num_cards=4,points_order=descending)"
NAMES = ["kuhn_poker", "leduc_poker", GOOFSPIEL]


@pytest.fixture(scope="module")
def trees():
    return {name: enumerate_game(load(name)) for name in NAMES}


def rows_of(policy, lane=0):
    """`(player, infostate, {action: probability})` of every infoset."""
    return [
        (player, name, policy.action_probabilities(name, lane))
        for player in (0, 1)
        for name in policy.tree.infoset_names[player]
    ]


def assert_equal(first, second):
    assert first.labels == second.labels
    for a, b in zip(first.probabilities, second.probabilities, strict=True):
        np.testing.assert_array_equal(a, b)


# Recipes


@pytest.mark.parametrize("name", NAMES)
def test_uniform_and_geometric_rows(trees, name):
    tree = trees[name]
    half, double = Policy.geometric(tree, 0.5), Policy.geometric(tree, 2)
    assert (half.labels, double.labels) == (("geometric:0.5",), ("geometric:2",))
    sizes = set()
    for (_, _, even), (_, _, down), (_, _, up) in zip(
        rows_of(Policy.uniform(tree)), rows_of(half), rows_of(double), strict=True
    ):
        k = len(even)
        sizes.add(k)
        assert list(even) == sorted(even) == list(down)
        assert list(even.values()) == pytest.approx([1 / k] * k)
        assert list(down.values()) == pytest.approx([2 ** (k - 1 - j) / (2**k - 1) for j in range(k)])
        assert list(up.values()) == pytest.approx(list(down.values())[::-1])
    assert sizes == {"kuhn_poker": {2}, "leduc_poker": {2, 3}, GOOFSPIEL: {2, 3, 4}}[name]


def test_extreme_geometric_ratios_are_pure_in_the_limit(trees):
    for ratio, first in ((1e-200, 1.0), (1e200, 0.0)):
        policy = Policy.geometric(trees[GOOFSPIEL], ratio)
        row = policy.action_probabilities(trees[GOOFSPIEL].infoset_names[0][0])
        assert row[0] == pytest.approx(first) and sum(row.values()) == pytest.approx(1)


@pytest.mark.parametrize(("seed", "alpha"), [(0, 1.0), (7, 1.0), (7, 0.3)])
@pytest.mark.parametrize("name", NAMES)
def test_dirichlet_draws_follow_the_documented_recipe(trees, name, seed, alpha):
    """NumPy's PCG64, player 0 then 1, infosets sorted by infostate string."""
    tree = trees[name]
    policy = Policy.dirichlet(tree, seed, alpha)
    rng = np.random.Generator(np.random.PCG64(seed))
    rows = {(player, infostate): row for player, infostate, row in rows_of(policy)}
    for player in (0, 1):
        for infostate in sorted(tree.infoset_names[player]):
            row = rows.pop((player, infostate))
            np.testing.assert_array_equal(list(row.values()), rng.dirichlet([alpha] * len(row)))
    assert not rows
    assert policy.labels == (f"dirichlet:{seed}" if alpha == 1 else f"dirichlet:{seed}:{alpha}",)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda tree: Policy.geometric(tree, 0), "geometric"),
        (lambda tree: Policy.dirichlet(tree, 0, 0), "dirichlet"),
        (lambda tree: Policy.dirichlet(tree, -1), "seed="),
        (lambda tree: Policy.stack([]), "stack"),
    ],
)
def test_bad_arguments_are_refused(trees, make, message):
    with pytest.raises(ValueError, match=message):
        make(trees["kuhn_poker"])


# Rows


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ([0.5, 0.4], r"\[0\.5, 0\.4\]"),
        ([1.5, -0.5], r"\[1\.5, -0\.5\]"),
        ([float("nan"), 1.0], r"\[nan, 1\.0\]"),
        ([1.0 + 2e-5, 0.0], r"\[1\.00002, 0\.0\]"),
    ],
)
def test_rows_that_are_no_distributions_are_refused(trees, row, shown):
    player, tree = 1, trees["kuhn_poker"]
    good = Policy.stack([Policy.uniform(tree), Policy.dirichlet(tree, 0)])
    rows = [part.copy() for part in good.probabilities]
    rows[player][4:6, 1] = row  # the third infoset, the second lane
    name = re.escape(repr(tree.infoset_names[player][2]))
    message = rf"policy 'dirichlet:0' of player {player} at {name}: {shown} is not a distribution; expected"
    with pytest.raises(ValueError, match=message):
        Policy(tree, (rows[0], rows[1]), good.labels)


@pytest.mark.parametrize(
    "shape",
    [
        (12, 2),
        (11, 1),
    ],
)
def test_wrong_shapes_are_refused(trees, shape):
    good = Policy.uniform(trees["kuhn_poker"]).probabilities[0]
    with pytest.raises(ValueError, match="shape"):
        Policy(trees["kuhn_poker"], (good, np.full(shape, 0.5)), ("uniform",))


# Lanes


def test_lanes_are_stacked_and_taken_apart(trees):
    tree = trees["kuhn_poker"]
    single = [Policy.uniform(tree), Policy.dirichlet(tree, 1), Policy.geometric(tree, 0.5)]
    together = Policy.stack([Policy.stack(single[:2]), single[2]])
    assert together.labels == ("uniform", "dirichlet:1", "geometric:0.5") and together.num_lanes == 3
    for number, policy in enumerate(single):
        assert_equal(together.lane(number), policy)
        assert_equal(together.lane(policy.labels[0]), policy)
    assert_equal(together.lane(-1), single[2])
    for bad in (3, "nobody"):
        with pytest.raises((IndexError, ValueError)):
            together.lane(bad)


def test_another_enumeration_of_the_same_game_will_do(trees):
    again = enumerate_game(load("kuhn_poker"))
    policy = Policy.dirichlet(trees["kuhn_poker"], 3)
    moved = policy.on(again)
    assert moved.tree is again
    assert_equal(moved, policy)
    assert Policy.stack([Policy.uniform(again), policy]).tree is again
    for other in ("leduc_poker", "openspiel:kuhn_poker"):
        with pytest.raises(ValueError, match=rf"policy 'dirichlet:3' is for 'kuhn_poker', not for '{other}"):
            policy.on(enumerate_game(load(other)))


@pytest.mark.parametrize(("name", "depth"), [("kuhn_poker", 1), ("leduc_poker", 3), (GOOFSPIEL, 2)])
def test_a_truncated_tree_takes_the_rows_that_it_has(trees, name, depth):
    policy = Policy.stack([Policy.dirichlet(trees[name], seed) for seed in (3, 4)])
    short = enumerate_game(load(name), depth=depth)
    moved = policy.on(short)
    assert moved.tree is short and moved.labels == policy.labels
    for lane in (0, 1):
        known = {(player, name): row for player, name, row in rows_of(policy, lane)}
        kept = rows_of(moved, lane)
        assert 0 < len(kept) < len(known)
        assert all(row == known[player, name] for player, name, row in kept)
    again = moved.on(enumerate_game(load(name), depth=depth))
    assert_equal(again, moved)
    with pytest.raises(ValueError, match="history"):
        moved.on(trees[name])


def test_reach_is_the_product_of_the_players_own_moves(trees):
    tree = trees[GOOFSPIEL]
    policy = Policy.stack([Policy.dirichlet(tree, 0), Policy.geometric(tree, 0.5)])
    for player in (0, 1):
        reach, expected = policy.reach(player), {0: np.ones(2)}
        for h in range(1, tree.num_histories):
            above = int(tree.parent[h])
            last, before = int(tree.sequence[player, h]), int(tree.sequence[player, above])
            if tree.action[player, h] >= 0:
                expected[last] = expected[before] * policy.probabilities[player][last - 1]
        assert len(expected) == len(reach)
        np.testing.assert_allclose(reach, [expected[s] for s in range(len(reach))], rtol=1e-14)


def test_splicing_takes_only_the_named_infosets(trees):
    tree = trees["leduc_poker"]
    before = Policy.stack([Policy.uniform(tree), Policy.geometric(tree, 2)])
    after = Policy.stack([Policy.dirichlet(tree, 0), Policy.dirichlet(tree, 1)])
    chosen = np.arange(5, 200, 3)
    for player in (0, 1):
        spliced = before.splice(player, chosen, after)
        inside = np.isin(tree.infosets[player].infoset[1:], chosen)
        rows = spliced.probabilities[player]
        np.testing.assert_array_equal(rows[inside], after.probabilities[player][inside])
        np.testing.assert_array_equal(rows[~inside], before.probabilities[player][~inside])
        np.testing.assert_array_equal(spliced.probabilities[1 - player], before.probabilities[1 - player])


def test_frames_list_every_action_of_every_lane(trees):
    tree = trees["kuhn_poker"]
    policy = Policy.stack([Policy.uniform(tree), Policy.dirichlet(tree, 0)])
    frame = policy.to_frame()
    assert len(frame) == 2 * (12 + 12)
    rows = frame[(frame.lane == "dirichlet:0") & (frame.player == 1) & (frame.infostate == "2b")]
    expected = policy.action_probabilities("2b", 1)
    assert dict(zip(rows.action.tolist(), rows.probability.tolist(), strict=True)) == expected
    assert rows.action_name.tolist() == ["Pass", "Bet"]


# Files


@pytest.mark.parametrize("name", NAMES)
def test_saved_policies_load_again(trees, name, tmp_path):
    tree = trees[name]
    policy = Policy.stack([Policy.dirichlet(tree, 0), Policy.uniform(tree), Policy.geometric(tree, 1e-9)])
    path = tmp_path / "blueprint.npz"
    policy.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["blueprint.npz"]
    loaded = Policy.load(path, enumerate_game(load(name)))
    assert_equal(loaded, policy)
    assert_equal(Policy.load(str(path), tree), policy)


def test_the_file_is_as_documented(trees, tmp_path):
    tree = trees[GOOFSPIEL]
    policy = Policy.stack([Policy.dirichlet(tree, 0), Policy.dirichlet(tree, 1)])
    policy.save(tmp_path / "policy.npz")
    with np.load(tmp_path / "policy.npz", allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files}
    header = {
        "format": "jaxgadget policy",
        "version": 2,
        "game": GOOFSPIEL,
        "tree": "histories",
        "labels": ["dirichlet:0", "dirichlet:1"],
    }
    stored = json.loads(str(arrays.pop("header")))
    assert stored == POLICY_FILE.seal(header, arrays)
    for player in (0, 1):
        names = arrays.pop(f"infostates_{player}").tolist()
        assert names == sorted(tree.infoset_names[player])
        actions, probabilities = arrays.pop(f"actions_{player}"), arrays.pop(f"probabilities_{player}")
        done = 0
        for name, count in zip(names, arrays.pop(f"num_actions_{player}").tolist(), strict=True):
            for lane in (0, 1):
                part = slice(done, done + count)
                row = dict(zip(actions[part].tolist(), probabilities[part, lane].tolist(), strict=True))
                assert row == policy.action_probabilities(name, lane)
            done += count
        assert done == len(actions) == len(probabilities)
    assert not arrays


def test_policies_of_another_game_are_refused(trees, tmp_path):
    path = tmp_path / "policy.npz"
    Policy.uniform(trees["kuhn_poker"]).save(path)
    for other in ("leduc_poker", "openspiel:kuhn_poker"):
        with pytest.raises(
            ValueError, match=rf"is a policy of 'kuhn_poker', not of '{other}.*; load it with"
        ):
            Policy.load(path, enumerate_game(load(other)))


def test_policies_of_version_0_2_are_read(trees, tmp_path):
    """They lack the checksum, which newer files require."""
    tree, path = trees["kuhn_poker"], tmp_path / "policy.npz"
    Policy.dirichlet(tree, 3).save(path)
    with np.load(path) as archive:
        arrays = {key: archive[key] for key in archive.files}
    header = json.loads(str(arrays.pop("header")))
    for name in ("checksum", "written_by"):
        del header[name]
    for version in (1, 2):
        text = json.dumps(header | {"version": version})
        np.savez(path, **(arrays | {"header": np.asarray(text)}))
        if version == 1:
            assert_equal(Policy.load(path, tree), Policy.dirichlet(tree, 3))
            continue
        with pytest.raises(ValueError, match="it has no checksum"):
            Policy.load(path, tree)


# OpenSpiel's tables


@pytest.mark.parametrize("name", NAMES)
def test_openspiels_tables_there_and_back(trees, name):
    pyspiel = pytest.importorskip("pyspiel")
    tree = trees[name]
    policy = Policy.stack([Policy.uniform(tree), Policy.dirichlet(tree, 5)])
    for lane in (0, 1):
        table = policy.to_openspiel(lane)
        back = Policy.from_openspiel(tree, table, policy.labels[lane])
        assert_equal(back, policy.lane(lane))
        assert (table.action_probability_array[~table.legal_actions_mask.astype(bool)] == 0).all()
        check_states(policy, lane, table, pyspiel.load_game(name).new_initial_state())


def check_states(policy, lane, table, state):
    """OpenSpiel reads the policy at all of its own states."""
    if state.is_terminal():
        return
    if state.is_simultaneous_node():
        players, moves = (0, 1), [(a, b) for a in state.legal_actions(0) for b in state.legal_actions(1)]
    else:
        players = () if state.is_chance_node() else (state.current_player(),)
        moves = state.legal_actions()[: 2 if state.is_chance_node() else None]
    for player in players:
        expected = policy.action_probabilities(state.information_state_string(player), lane)
        assert table.action_probabilities(state, player) == expected
    for move in moves:
        child = state.clone()
        child.apply_actions(list(move)) if isinstance(move, tuple) else child.apply_action(move)
        check_states(policy, lane, table, child)


def test_wrapped_games_convert_too(trees):
    pytest.importorskip("pyspiel")
    tree = enumerate_game(load("openspiel:kuhn_poker"))
    policy = Policy.dirichlet(tree, 2)
    table = policy.to_openspiel()
    assert_equal(Policy.from_openspiel(tree, table, "dirichlet:2"), policy)
    assert Policy.from_openspiel(tree, table).labels == ("openspiel",)


@pytest.mark.parametrize("name", ["coin_toss", "leduc_poker(num_ranks=4)"])
def test_games_that_openspiel_has_not_are_refused(name):
    pytest.importorskip("pyspiel")
    policy = Policy.uniform(enumerate_game(load(name)))
    with pytest.raises(ValueError, match=r"OpenSpiel"):
        policy.to_openspiel()


@pytest.mark.parametrize("name", ["goofspiel(num_cards=3)", "leduc_poker(action_mapping=True)"])
def test_games_whose_strings_do_not_tell_infosets_apart_are_refused(name):
    """A table by string cannot represent such a policy: one row would overwrite another."""
    pytest.importorskip("pyspiel")
    policy = Policy.dirichlet(enumerate_game(load(name)), 0)
    with pytest.raises(ValueError, match="several infosets"):
        policy.to_openspiel()
