"""Kuhn poker without a history tree: two treeplexes and a payoff that implements the rules.

The cards are the roots of both players, so that a gadget can stand above them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgadget import MaxMargin, NoPrior, Resolving, UniformPrior
from jaxgadget.core import cfr
from jaxgadget.core.host import HostTreeplex, build_treeplex
from jaxgadget.core.problem import (
    Parts,
    Problem,
    Terms,
    build_side,
    fixed_entry,
    no_regret_tolerance,
    with_regret_tolerance,
)
from jaxgadget.core.regret import find_rule
from jaxgadget.gadgets.entry import EntryTables, TwoLevelEntry
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.policy.evaluate import evaluate_parts as evaluate
from jaxgadget.util.precision import precision
from tests.reference.efg import Array

CARDS = np.arange(3)
VALUE = -1 / 18
STAKES = (1.0, 2.0, 0.5)
PASS, BET = 0, 1


def decisions(above: Array) -> tuple[HostTreeplex, Array]:
    """Two decisions with two actions per card, and `[4, cards]` their sequences.

    Args:
      above: `[2 decisions]` whether a decision follows the first one's pass instead of a root.
    """
    later = np.repeat(above, 3)
    card = np.tile(CARDS, 2)
    treeplex, position = build_treeplex(
        num_roots=3,
        depth=later.astype(np.int64),
        num_actions=np.full(6, 2),
        parent_infoset=np.where(later, card, -1),
        parent_slot=np.where(later, PASS, card),
        infoset=np.arange(6),
    )
    rows = [treeplex.sequence(position[k : k + 3], np.full(3, a)) for k in (0, 3) for a in (PASS, BET)]
    return treeplex, np.stack(rows)


FIRST, FIRST_SEQUENCES = decisions(np.array([False, True]))  # opening; after pass and bet
SECOND, SECOND_SEQUENCES = decisions(np.array([False, False]))  # after a pass; after a bet


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Cards:
    """Payoff by cards: the higher card wins a showdown, and a player who folds loses one chip."""

    sequences: tuple[jax.Array, jax.Array]
    stakes: jax.Array
    higher: jax.Array
    lost: float = -1.0

    def gradient(self, player: int, reach: tuple[jax.Array, jax.Array], state: Any) -> tuple[jax.Array, Any]:
        other = reach[1 - player][self.sequences[1 - player]]  # [4, cards, lanes]
        others_cards = (1 - np.eye(3)) / 6

        def showdown(x: jax.Array) -> jax.Array:
            return jnp.einsum("ab,bl->al", self.higher, x) / 6

        def fold(x: jax.Array) -> jax.Array:
            return jnp.einsum("ab,bl->al", jnp.asarray(others_cards, x.dtype), x)

        if player == 0:
            later = self.lost * fold(other[1]), 2 * showdown(other[1])
            opening = showdown(other[0]), fold(other[2]) + 2 * showdown(other[3])
            earned = jnp.stack([*opening, *later])
        else:
            after_pass = showdown(other[0]), fold(other[2]) + 2 * showdown(other[3])
            earned = jnp.stack([*after_pass, self.lost * fold(other[1]), 2 * showdown(other[1])])
        nothing = jnp.zeros_like(reach[player])
        return nothing.at[self.sequences[player]].add(self.stakes[None, None] * earned), state

    def absolute(self) -> Cards:
        return dataclasses.replace(self, higher=jnp.abs(self.higher), lost=1.0)

    def num_bytes(self) -> tuple[int, int]:
        return self.higher.nbytes + sum(rows.nbytes for rows in self.sequences), self.stakes.itemsize

    def take_lanes(self, lanes: Array) -> Cards:
        return dataclasses.replace(self, stakes=self.stakes[lanes])


def cards(stakes: tuple[float, ...]) -> Cards:
    return Cards(
        sequences=(jnp.asarray(FIRST_SEQUENCES), jnp.asarray(SECOND_SEQUENCES)),
        stakes=jnp.asarray(stakes),
        higher=jnp.asarray(np.sign(CARDS[:, None] - CARDS[None, :]).astype(np.float64)),
    )


def kuhn(stakes: tuple[float, ...], tables: EntryTables | None = None) -> Problem:
    """The whole game, or, given a gadget's tables, a game with player 1's entry above its cards."""
    lanes, entry, link = len(stakes), fixed_entry(1), np.zeros(3, np.int64)
    unit = Terms(scale=jnp.ones((3, lanes)), constant=jnp.zeros((1, lanes)))
    sides, terms = [build_side(FIRST, entry, link, np.float64)], [unit]
    if tables is None:
        terms.append(unit)
    else:
        way_in = TwoLevelEntry(link, 1, [tables])
        entry, link = way_in.treeplex, way_in.link
        terms.append(jax.device_put(way_in.terms(0, np.arange(lanes))))
    sides.append(build_side(SECOND, entry, link, np.float64))
    return with_regret_tolerance(
        Problem(
            order=(1, 0),
            sides=(sides[0], sides[1]),
            terms=(terms[0], terms[1]),
            payoff=cards(stakes),
            regret_tolerance=no_regret_tolerance(sides, lanes, np.float64),
        )
    )


def solved(problem: Problem, iterations: int = 3000) -> tuple[Parts, Parts]:
    rule = find_rule("pcfr+")
    state = cfr.run(problem, cfr.start(problem, rule), jnp.asarray(iterations, jnp.int32), rule=rule)
    return cfr.average(problem, state)


def test_kuhn_by_hand_has_its_value_in_every_lane() -> None:
    with precision(np.float64):
        problem = kuhn(STAKES)
        worth = evaluate(problem, solved(problem))
    assert (np.asarray(worth.gap) < 1e-4).all()
    np.testing.assert_allclose(worth.value[0], VALUE * np.array(STAKES), rtol=0, atol=1e-4)


def test_a_lane_of_it_is_the_game_with_that_stake() -> None:
    with precision(np.float64):
        payoff = cards(STAKES)
        reach = jnp.ones((FIRST.num_sequences, 1)), jnp.ones((SECOND.num_sequences, 1))
        for player in (0, 1):
            lane, _ = payoff.take_lanes(np.array([1])).gradient(player, reach, None)
            alone, _ = cards(STAKES[1:2]).gradient(player, reach, None)
            np.testing.assert_array_equal(lane, alone)


@pytest.mark.parametrize("gadget", [Resolving(NoPrior()), MaxMargin(UniformPrior(), 1e-3)])
def test_gadgets_need_no_history_tree(gadget: Resolving | MaxMargin) -> None:
    """Against an equilibrium the opponent gains nothing by following, given its own alternative values."""
    lanes = len(STAKES)
    with precision(np.float64):
        whole = kuhn(STAKES)
        blueprint = solved(whole)
        best = np.asarray(evaluate(whole, blueprint).below[0])
    ones = np.ones((3, lanes))
    ranges = Ranges(
        num_subgames=1,
        subgame=np.zeros(3, np.int64),
        root=CARDS,
        resolver=ones,
        opponent=ones,
        mass=ones / 3,
        cbv=-best,
    )
    with precision(np.float64):
        game = kuhn(STAKES, gadget.tables(ranges))
        refined = solved(game)
        worth = evaluate(game, refined)
        after = evaluate(whole, (Parts(blueprint[0].entry, refined[0].body), blueprint[1]))
    assert (np.asarray(worth.gap) < 5e-3).all() and refined[1].entry.shape[1] == lanes
    np.testing.assert_allclose(after.guaranteed[0][0], VALUE * np.array(STAKES), rtol=0, atol=5e-3)


def test_another_precision_than_the_problems_is_refused() -> None:
    """JAX would round silently."""
    with precision(np.float64):
        problem, rule = kuhn(STAKES), find_rule("cfr+")
        state = cfr.start(problem, rule)
        strategy = cfr.average(problem, state)
    until = jnp.asarray(1, jnp.int32)
    for refused in (
        lambda: cfr.start(problem, rule),
        lambda: cfr.run(problem, state, until, rule=rule),
        lambda: cfr.average(problem, state),
        lambda: cfr.largest_gaps(problem, state),
        lambda: with_regret_tolerance(problem),
        lambda: evaluate(problem, strategy),
    ):
        with pytest.raises(ValueError, match=r"problem is in float64, but .* `with precision"):
            refused()
    with precision(np.float64):
        assert int(cfr.run(problem, state, until, rule=rule).iteration) == 1
