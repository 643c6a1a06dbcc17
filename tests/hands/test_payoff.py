"""Payoffs of public ends: sums over all pairs of hands, by tables or by matrix-free operators."""

import dataclasses
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgadget.core import hands as payoff
from jaxgadget.core.devices import AbstractDevice, assume_device
from jaxgadget.core.hands import HandsPayoff, build_hands_payoff
from jaxgadget.core.rows import RowSums, ScatteredSums
from jaxgadget.games.hands import HandsGame, PublicEnds
from jaxgadget.policy.solve import solve
from jaxgadget.tree.public import public_tree
from jaxgadget.tree.public_form import hand_entries
from jaxgadget.util.precision import precision
from tests.hands import alike

HANDS = (4, 3)
NUM_BLOCKS = (5, 6)
LANES = 2


@pytest.fixture(params=["cpu", "gpu"])
def platform(request: pytest.FixtureRequest) -> Iterator[str]:
    """Platform of the default device; the sums for accelerators run on any device."""
    described = AbstractDevice("described", 10**9, platform=request.param)
    with assume_device(described):
        yield request.param


def drawn() -> tuple[HandsPayoff, np.ndarray]:
    """Eleven ends with four tables, two of which pay nothing, and the matrix over pairs of sequences."""
    rng = np.random.default_rng(0)
    node = np.arange(9).reshape(3, 3)
    ends = (
        PublicEnds(node[:2], rng.normal(size=(2, 3)), rng.normal(size=(2, *HANDS))),
        PublicEnds(np.array([[9, 10]]), np.zeros((1, 2)), rng.normal(size=(1, *HANDS))),
        PublicEnds(node[2:], rng.normal(size=(1, 3)), rng.normal(size=(1, *HANDS))),
    )
    # Several ends below one pair of sequences, sequences without ends, an unreachable node.
    sequence = np.array([1, 1, 2, 2, 2, 4, 4, 4, 1, 3, -1]), np.array([0, 3, 3, 3, 5, 5, 5, 5, 0, 1, -1])
    with precision(np.float64):
        built = build_hands_payoff(hand_entries(HANDS, ends, sequence, NUM_BLOCKS), np.float64)
    matrix = np.zeros((NUM_BLOCKS[0], HANDS[0], NUM_BLOCKS[1], HANDS[1]))
    for group in ends:
        for table, nodes in enumerate(group.node):
            for place, end in enumerate(nodes):
                earned = group.scale[table, place] * group.pays[table]
                matrix[sequence[0][end], :, sequence[1][end]] += earned
    return built, matrix.reshape(NUM_BLOCKS[0] * HANDS[0], -1)


def all_gradients(built: HandsPayoff, reach, state: int):
    """Gradients of both players, then their largest absolute values."""
    return [x.gradient(player, reach, state) for x in (built, built.absolute()) for player in (0, 1)]


def test_gradients_are_the_matrix(platform: str):
    built, matrix = drawn()
    assert {type(sums) for sums in built.sums} == {ScatteredSums if platform == "cpu" else RowSums}
    rng = np.random.default_rng(1)
    reach = [rng.random((count, LANES)) for count in matrix.shape]
    with precision(np.float64):
        arguments = jnp.asarray(reach[0]), jnp.asarray(reach[1])
        (first, state), (second, _), *largest = jax.jit(all_gradients)(built, arguments, 7)
    assert int(state) == 7
    np.testing.assert_allclose(first, matrix @ reach[1], rtol=0, atol=1e-13)
    np.testing.assert_allclose(second, -matrix.T @ reach[0], rtol=0, atol=1e-13)
    for player, (most, _) in enumerate(largest):
        expected = np.abs(matrix if player == 0 else matrix.T) @ reach[1 - player]
        assert (np.asarray(most) >= expected - 1e-12).all()


@pytest.mark.usefixtures("platform")
def test_nothing_is_paid():
    """No group pays, or there is no group."""
    node, rng = np.arange(2)[None], np.random.default_rng(0)
    unpaid = PublicEnds(node, np.zeros(node.shape), rng.normal(size=(1, *HANDS)))
    for ends in ((unpaid,), ()):
        with precision(np.float64):
            sequence = np.zeros(2, np.int64), np.zeros(2, np.int64)
            built = build_hands_payoff(hand_entries(HANDS, ends, sequence, NUM_BLOCKS), np.float64)
            reach = tuple(jnp.ones((b * h, LANES)) for b, h in zip(NUM_BLOCKS, HANDS, strict=True))
            for player in (0, 1):
                earned, _ = built.gradient(player, reach, None)
                assert earned.shape == reach[player].shape and not earned.any()
        assert built.entries().shape == (len(reach[0]), len(reach[1]))
        assert not np.any(built.entries().value)


@pytest.mark.usefixtures("platform")
def test_entries_are_the_matrix(monkeypatch: pytest.MonkeyPatch):
    built, matrix = drawn()
    entries = built.entries()
    assert entries.shape == matrix.shape
    written = np.zeros(matrix.shape)
    written[entries.row, entries.column] = entries.value
    np.testing.assert_allclose(written, matrix, rtol=0, atol=1e-13)
    monkeypatch.setattr(payoff, "MAX_ENTRIES", 131)
    with pytest.raises(ValueError, match="11 ends and 4 × 3 hands: expected at most 131 pairs"):
        built.entries()


def test_bytes():
    built, _ = drawn()
    fixed, lane = built.num_bytes()
    assert lane == 11 * sum(HANDS) * 8
    assert fixed == sum(x.nbytes for x in jax.tree.leaves(built))
    assert built.take_lanes(np.array([1])) is built


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Fold:
    """Hands are cards: all pairs except equal cards, by inclusion and exclusion."""

    deal: jax.Array

    def __call__(self, player, reach):
        return self.deal[:, None, None, None] * (reach.sum(axis=2, keepdims=True) - reach)

    def absolute(self):
        return self

    def dense(self):
        return np.asarray(self.deal)[:, None, None] * (1 - np.eye(3))[None]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Showdown:
    """The higher card wins: the sum below minus the sum above, by cumulative sums from either end."""

    deal: jax.Array

    def __call__(self, player, reach):
        total = jnp.cumsum(reach, axis=2)
        below, above = total - reach, total[:, :, -1:] - total
        won = below - above if player == 0 else above - below
        return self.deal[:, None, None, None] * won

    def absolute(self):
        return Fold(self.deal)

    def dense(self):
        card = np.arange(3)
        return np.asarray(self.deal)[:, None, None] * np.sign(card[:, None] - card)[None]


def kuhn_by_operators() -> HandsGame:
    game = alike.public("kuhn_poker").hands_game
    fold = 0 if (game.ends[0].pays[0] >= 0).all() else 1
    operators = {fold: Fold, 1 - fold: Showdown}
    ends = tuple(
        group._replace(pays=operators[number](np.full(1, 1 / 6))) for number, group in enumerate(game.ends)
    )
    return dataclasses.replace(game, ends=ends)


@pytest.mark.parametrize("algorithm", ["cfr+", "lp"])
def test_operators_stand_for_tables(algorithm: str):
    """Folds and showdowns without a table of pairs give the same solutions."""
    ours = solve(public_tree(kuhn_by_operators()), algorithm=algorithm, iterations=5)
    theirs = solve(alike.public("kuhn_poker"), algorithm=algorithm, iterations=5)
    assert abs(ours.value - theirs.value) < 1e-12
    for one, other in zip(ours.policy.probabilities, theirs.policy.probabilities, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
