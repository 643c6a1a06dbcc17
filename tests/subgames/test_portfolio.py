"""Portfolios: every entry matches its label, by an explicit formula or the reference."""

import functools
import itertools
from collections.abc import Sequence

import numpy as np
import pytest

import jaxgadget
from jaxgadget import Policy, best_response, enumerate_game, evaluate_policy
from jaxgadget.policy.portfolio import DEFAULT_ENTRIES, make_portfolio
from jaxgadget.policy.solve import cfr_checkpoints
from jaxgadget.tree.history import HistoryTree
from jaxgadget.values.histories import ExactValues
from tests.reference import efg
from tests.reference.continuations import mixed
from tests.reference.random_games import random_policy, random_tree

GOOFSPIEL = "goofspiel(num_cards=4,imp_info=True,points_order=descending)"
DICE = "liars_dice(dice_sides=3)"
GAMES = ("kuhn_poker", GOOFSPIEL, DICE, "random uneven")
ALL = ("blueprint", "biased", "checkpoints:40", "draws", "best-responses")


@functools.cache
def game(name: str) -> tuple[HistoryTree, efg.Game]:
    if name.startswith("random "):
        return random_tree(name.removeprefix("random "), 5)
    tree = enumerate_game(jaxgadget.load(name))
    return tree, efg.from_tree(tree)


@functools.cache
def blueprint(name: str, zeros: float = 0.2) -> Policy:
    tree, _ = game(name)
    rows = random_policy(tree, np.random.default_rng(7), zeros)
    first, second = (efg.to_sequences(tree, rows, player)[1:, None] for player in (0, 1))
    return Policy(tree, (first, second), ("mine",))


def made_of(portfolio: Policy, player: int) -> list[str]:
    return [label.split(" | ")[-1 if player else 0] for label in portfolio.labels]


def infosets(tree: HistoryTree, player: int) -> list[tuple[slice, tuple[int, ...]]]:
    """The rows of every infoset, and its action ids."""
    found = tree.infosets[player]
    pairs = zip(found.first_sequence.tolist(), found.num_actions.tolist(), strict=True)
    return [(slice(q - 1, q - 1 + n), tuple(found.action[q : q + n].tolist())) for q, n in pairs]


def assert_same(first: Policy, second: Policy) -> None:
    assert first.labels == second.labels
    for player in (0, 1):
        np.testing.assert_array_equal(first.probabilities[player], second.probabilities[player])


@pytest.fixture(scope="module")
def kuhn() -> HistoryTree:
    return game("kuhn_poker")[0]


# --- whole portfolios ---------------------------------------------------------------------


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("entries", [DEFAULT_ENTRIES, ALL, ("blueprint", "draws")])
@pytest.mark.slow
def test_portfolios_are_full_and_begin_with_the_blueprint(name: str, entries: Sequence[str]):
    """`Policy` checks that rows are distributions; here to the last digits."""
    tree, _ = game(name)
    for size in (1, 2, 5, 10):
        made = make_portfolio(blueprint(name), entries, size=size)
        assert made.num_lanes == size == len(set(made.labels))
        assert made.tree is tree
        for player in (0, 1):
            rows = made.probabilities[player]
            np.testing.assert_array_equal(rows[:, 0], blueprint(name).probabilities[player][:, 0])
            for where, _ in infosets(tree, player):
                np.testing.assert_allclose(rows[where].sum(axis=0), 1, rtol=0, atol=1e-14)
    assert make_portfolio(blueprint(name), entries).num_lanes == 10
    assert_same(make_portfolio(blueprint(name), entries, size=1), blueprint_alone(name))


def blueprint_alone(name: str) -> Policy:
    return Policy(game(name)[0], blueprint(name).probabilities, ("blueprint mine",))


def kinds_of(portfolio: Policy, player: int) -> list[str]:
    short = {"cfr+": "checkpoints", "dirichlet": "draws", "best response": "best-responses"}
    names = [name.split(":")[0].rstrip(" 0123456789") for name in made_of(portfolio, player)]
    return [short.get(name, name.split()[0]) for name in names]


@pytest.mark.parametrize(
    ("name", "entries", "size", "expected"),
    [
        ("kuhn_poker", DEFAULT_ENTRIES, 10, (1, 2, 7)),
        (GOOFSPIEL, DEFAULT_ENTRIES, 10, (1, 4, 5)),
        (DICE, DEFAULT_ENTRIES, 10, (1, 5, 4)),
        ("kuhn_poker", ALL, 10, (1, 2, 3, 2, 2)),
        (GOOFSPIEL, ALL, 10, (1, 3, 2, 2, 2)),
        (GOOFSPIEL, ALL, 4, (1, 1, 1, 1, 0)),
        (GOOFSPIEL, ("blueprint", "best-responses", "biased"), 4, (1, 2, 1)),
        ("kuhn_poker", ("blueprint", "checkpoints:3", "draws"), 12, (1, 3, 8)),
        ("kuhn_poker", ("blueprint", "biased"), 3, (1, 2)),
    ],
)
def test_kinds_share_the_places(name: str, entries: tuple[str, ...], size: int, expected: tuple[int, ...]):
    made = make_portfolio(blueprint(name), entries, size=size)
    for player in (0, 1):
        kinds = kinds_of(made, player)
        names = [entry.split(":")[0] for entry in entries]
        assert [kinds.count(kind) for kind in names] == list(expected)
        assert kinds == sorted(kinds, key=names.index), "in the order of the entries"


def test_the_same_seed_makes_the_same_portfolio():
    made = make_portfolio(blueprint(GOOFSPIEL), ALL, seed=3)
    assert_same(make_portfolio(blueprint(GOOFSPIEL), ALL, seed=3), made)
    other = make_portfolio(blueprint(GOOFSPIEL), ALL, seed=4)
    differ = [
        np.abs(a - b).max(axis=0) > 0 for a, b in zip(made.probabilities, other.probabilities, strict=True)
    ]
    drawn = np.array(kinds_of(made, 0)) == "draws"
    assert differ[0][drawn].all() and differ[1][drawn].all()
    early = np.cumsum(drawn) == 0
    assert not differ[0][early].any() and not differ[1][early].any()


# --- biased -------------------------------------------------------------------------------


def biased_rows(name: str, player: int, ids: set[int], factor: float) -> np.ndarray:
    """Brown, Sandholm and Amos: multiply, renormalise, infoset by infoset."""
    rows = blueprint(name).probabilities[player][:, 0].copy()
    for where, actions in infosets(game(name)[0], player):
        scaled = [p * factor if a in ids else p for p, a in zip(rows[where], actions, strict=True)]
        rows[where] = np.array(scaled) / sum(scaled)
    return rows


def ids_in(label: str) -> set[int]:
    _, _, text = label.rpartition(" to ")
    first, dash, last = text.partition("-")
    return set(range(int(first), int(last) + 1)) if dash else {int(i) for i in text.split(",")}


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize(("spec", "factor"), [("biased", 10), ("biased:0.1", 0.1)])
@pytest.mark.parametrize("size", [2, 10])
def test_biased_entries_favour_a_class_of_actions(name: str, spec: str, factor: float, size: int):
    tree, _ = game(name)
    made = make_portfolio(blueprint(name), ("blueprint", spec, "draws"), size=size)
    for player in (0, 1):
        chosen = {a for _, actions in infosets(tree, player) if len(actions) > 1 for a in actions}
        classes: list[set[int]] = []
        for lane, label in enumerate(made_of(made, player)):
            if label.startswith("biased"):
                assert label.startswith(f"biased:{factor:g} to ")
                classes.append(ids_in(label))
                found = made.probabilities[player][:, lane]
                np.testing.assert_allclose(found, biased_rows(name, player, classes[-1], factor), atol=1e-15)
                assert np.abs(found - made.probabilities[player][:, 0]).max() > 1e-3, "changes nothing"
        assert len(classes) == min(len(chosen), -(-(size - 1) // 2)), "half of the places, rounded up"
        if len(classes) > 1:
            assert sorted(a for ids in classes for a in ids) == sorted(chosen), "classes cover all ids once"
            sizes = [len(ids) for ids in classes]
            assert max(sizes) - min(sizes) <= 1
            assert all(max(a) < min(b) for a, b in itertools.pairwise(classes)), "neighbours"


# --- the other kinds ----------------------------------------------------------------------


def test_checkpoints_are_averages_of_one_run(kuhn: HistoryTree):
    made = make_portfolio(blueprint("kuhn_poker"), ("blueprint", "checkpoints:64"), size=7)
    assert made.labels[1:] == tuple(f"cfr+:{2**n}" for n in range(1, 7))
    expected = cfr_checkpoints(kuhn, [2**n for n in range(1, 7)], algorithm="cfr+")
    for player in (0, 1):
        np.testing.assert_array_equal(made.probabilities[player][:, 1:], expected.probabilities[player])
    for last in (1, 4, 9):
        every = make_portfolio(blueprint("kuhn_poker"), ("blueprint", f"checkpoints:{last}"), size=last + 1)
        assert every.labels[1:] == tuple(f"cfr+:{n}" for n in range(1, last + 1))


def test_draws_are_dirichlet_policies(kuhn: HistoryTree):
    made = make_portfolio(blueprint("kuhn_poker"), ("blueprint", "draws", "draws:0.2"), size=5, seed=2)
    labels = ("dirichlet:2000", "dirichlet:2001", "dirichlet:2000:0.2", "dirichlet:2001:0.2")
    assert made.labels[1:] == labels
    for lane, (seed, alpha) in enumerate([(2000, 1), (2001, 1), (2000, 0.2), (2001, 0.2)], start=1):
        expected = Policy.dirichlet(kuhn, seed, alpha)
        for player in (0, 1):
            found = made.probabilities[player][:, [lane]]
            np.testing.assert_array_equal(found, expected.probabilities[player])


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("entries", [DEFAULT_ENTRIES, ("blueprint", "best-responses", "draws")])
def test_best_responses_answer_the_mix_so_far(name: str, entries: Sequence[str]):
    """The value of the response, against the mixture built by the reference; responses are pure."""
    tree, explicit = game(name)
    made = make_portfolio(blueprint(name), entries, size=6)
    rows = [efg.from_sequences(tree, padded(made, lane)) for lane in range(6)]
    starts = [made_of(made, player).index("best response 1") for player in (0, 1)]
    for player in (0, 1):
        other = 1 - player
        lanes = [i for i, label in enumerate(made_of(made, player)) if label.startswith("best response")]
        assert len(lanes) >= 2
        for nth, lane in enumerate(lanes):
            count = min(starts[other] + nth, 6)
            before = [{j: row for j, row in rows[i].items() if j[0] == other} for i in range(count)]
            mix = mixed(explicit.root, other, before, [1 / count] * count)
            mine = {j: row for j, row in rows[lane].items() if j[0] == player}
            found = efg.sign(player) * efg.value(explicit.root, {**mix, **mine})
            expected = efg.best_response_value(explicit.root, player, mix)
            assert found == pytest.approx(expected, abs=1e-10)
            assert set(np.unique(made.probabilities[player][:, lane])) <= {0.0, 1.0}


def padded(portfolio: Policy, lane: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = (np.append(1.0, rows[:, lane]) for rows in portfolio.probabilities)
    return first, second


def test_the_first_response_has_the_row_players_value_against_the_mixture():
    """By the values: the mean over the other's entries, in a portfolio without entries of other kinds."""
    tree, _ = game(GOOFSPIEL)
    made = make_portfolio(blueprint(GOOFSPIEL), ("blueprint", "draws", "best-responses"), size=5)
    table = ExactValues(made)(tree, np.zeros(1, int))[0]
    start = made_of(made, 0).index("best response 1")
    assert table[start, :start].mean() >= table[:, :start].mean(axis=1).max() - 1e-12
    assert table[:start, start].mean() <= table[:start].mean(axis=0).min() + 1e-12
    alone = make_portfolio(blueprint(GOOFSPIEL), ("blueprint", "best-responses"), size=2)
    table = ExactValues(alone)(tree, np.zeros(1, int))[0]
    against = evaluate_policy(blueprint(GOOFSPIEL)).best_response_values[:, 0]
    np.testing.assert_allclose([-table[0, 1], table[1, 0]], against, atol=1e-12)
    assert best_response(blueprint(GOOFSPIEL), 0).value[0] == pytest.approx(table[1, 0], abs=1e-12)


# --- errors -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "complaint"),
    [
        ([], "expected 'blueprint' first"),
        (["biased", "blueprint"], "blueprint"),
        (["blueprint", "biased", "biased:10"], "biased"),
        (["blueprint", "worst"], "worst"),
        (["blueprint", blueprint("kuhn_poker")], r"append your own policies by Policy\.stack"),
        (["blueprint", "biased:-3"], "biased"),
        (["blueprint", "checkpoints:1e300"], "expected a whole number of iterations up to"),
    ],
)
def test_bad_entries(entries: object, complaint: str):
    with pytest.raises(ValueError, match=complaint):
        make_portfolio(blueprint("kuhn_poker"), entries)
