"""Solved spots: strategies, EVs and equities, ranges and frequencies after every line."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pandas as pd

from jaxgadget.core.results import NO_FAILURES, LaneResult, convergence
from jaxgadget.games.game import ACTOR_BIT
from jaxgadget.holdem.cards import HANDS
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.strategies import action_nodes, rows_to_policy
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.public import public_tree
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.compilation import compiled
from jaxgadget.util.precision import precision
from jaxgadget.util.viewers import Explorable

SMALL_GAP = 0.01
"""Gap, as a share of the pot, below which `message` gives no advice."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SpotSolution(Explorable):
    """A solved spot; its certificate is in float64.

    Attributes:
      spot: the spot.
      probabilities: for both players `[C, H]` average strategies, a row for each node after the player's
        actions, ascending; uniform with hands that a player cannot hold.
      ev: both players' expected chips; they sum to the pot.
      hand_ev: for both players `[H]` expected chips with each hand; NaN for hands outside the player's range
        or without a compatible hand of the other player.
      gap: NashConv in chips, the sum of both players' gains from best responses; twice the exploitability.
      algorithm: the rule's name, or the label of an evaluated policy.
      iterations: completed iterations.
    """

    spot: Spot
    probabilities: tuple[FloatArray, FloatArray]
    ev: tuple[float, float]
    hand_ev: tuple[FloatArray, FloatArray]
    gap: float
    algorithm: str
    iterations: int

    def __repr__(self) -> str:
        first, second = self.ev
        return (
            f"<SpotSolution {self.spot.board}: EVs {first:.6g}, {second:.6g} of {self.spot.pot:.6g} chips, "
            f"exploitability {self.exploitability:.3g} chips, {self.iterations} iterations>"
        )

    @property
    def exploitability(self) -> float:
        """Half of NashConv, in chips: the mean of both players' gains from a best response."""
        return self.gap / 2

    @functools.cached_property
    def policy(self) -> Policy:
        """The strategies as a policy of `public_tree(spot)`, for all functions that take policies."""
        tree = public_tree(self.spot)
        return rows_to_policy(tree, self.probabilities, f"{self.algorithm}:{self.iterations}")

    @functools.cached_property
    def equity(self) -> tuple[FloatArray, FloatArray]:
        """For both players `[H]` equity: the fraction of the pot that each hand wins without further bets.

        NaN for hands without a compatible hand of the other player.
        """
        start = np.full(1, -1)
        first, second = (
            find_equities(self.spot, self.spot.range_weights[1 - player][None], start)[0] for player in (0, 1)
        )
        return first, second

    def node(self, line: str = "") -> int:
        """The public node after a line such as `check, bet 100`; see `BettingTree.find`."""
        return self.spot.betting.find(line)

    def strategy(self, line: str = "") -> dict[str, FloatArray]:
        """Dictionary from each action to its probability `[H]` with each hand, for the player that acts.

        Raises:
          ValueError: if no player acts there.
        """
        self.actor(line)
        betting = self.spot.betting
        return {betting.action_name(child): self._row(child) for child in betting.children(self.node(line))}

    def frequencies(self, line: str = "") -> dict[str, float]:
        """Dictionary from each action after a line to its frequency.

        A frequency is the mean over hands weighted by `weights`, NaN if all weights are 0.

        Raises:
          ValueError: if no player acts there.
        """
        weights = self.weights(line)[self.actor(line)]
        total = weights.sum()
        return {
            action: float(row @ weights / total) if total > 0 else float("nan")
            for action, row in self.strategy(line).items()
        }

    def actor(self, line: str = "") -> int:
        """Acting player after a line, 0 or 1.

        Raises:
          ValueError: if no player acts there.
        """
        return self.spot.betting.actor(line)

    def played(self, line: str = "") -> tuple[FloatArray, FloatArray]:
        """For both players `[H]` the range's weight of each hand × its probability of playing the line.

        The result is 0 for hands that contain a card of the line.
        """
        return self._reaches(self.node(line))

    def weights(self, line: str = "") -> tuple[FloatArray, FloatArray]:
        """For both players `[H]` the fraction of all compatible pairs with each hand after a line.

        If no pair reaches the line, as after a bet that the other player never makes, the other player's
        whole range is assumed; if the player itself never reaches the line, both whole ranges. All weights
        are 0 if these ranges have no compatible pairs either.
        """
        node = self.node(line)
        reaches, whole = self._reaches(node), self._possible(node)
        weights: list[FloatArray] = []
        for player in (0, 1):
            other = 1 - player
            reach_pairs = [
                (reaches[player], reaches[other]),
                (reaches[player], whole[other]),
                (whole[player], whole[other]),
            ]
            candidates = (own * self.spot.compatible_with(others) for own, others in reach_pairs)
            weight = next((pairs for pairs in candidates if pairs.sum() > 0), np.zeros_like(whole[player]))
            weights.append(weight / max(weight.sum(), np.finfo(np.float64).tiny))
        return weights[0], weights[1]

    def pairs(self, line: str = "") -> float:
        """Total weight of compatible pairs of hands that reach a line."""
        first, second = self.played(line)
        return float(first @ self.spot.compatible_with(second))

    def to_frame(self, line: str = "") -> pd.DataFrame:
        """One row per hand of the acting player after a line: weight, EV and equity at the start, strategy.

        Weights are those of `weights`, even if play never reaches the line.
        """
        player = self.actor(line)
        held = self.weights(line)[player]
        columns = {
            "hand": self.spot.hand_names,
            "weight": held,
            "ev": self.hand_ev[player],
            "equity": self.equity[player],
            **self.strategy(line),
        }
        return pd.DataFrame(columns)[held > 0].reset_index(drop=True)

    def to_row(self) -> dict[str, Any]:
        """Row of `jaxgadget holdem --json`; `exploitability` and `gap` are in chips.

        `spot` is the canonical string, which distinguishes spots on the same board.
        """
        return {
            "spot": self.spot.name,
            "board": self.spot.board,
            "ev": list(self.ev),
            "exploitability": self.exploitability,
            "gap": self.gap,
            "iterations": self.iterations,
            "hands": [int((weights > 0).sum()) for weights in self.spot.range_weights],
            "root": self.frequencies(),
        }

    def _row(self, child: int) -> FloatArray:
        """`[H]` probability of the action that leads to a node."""
        player = ACTOR_BIT.index(int(self.spot.betting.tree.actor[self.spot.betting.tree.parent[child]]))
        return self.probabilities[player][np.searchsorted(self._action_nodes[player], child)]

    @functools.cached_property
    def _action_nodes(self) -> tuple[IntArray, IntArray]:
        nodes = self.spot.betting.tree
        return action_nodes(nodes, 0), action_nodes(nodes, 1)

    def _reaches(self, node: int) -> tuple[FloatArray, FloatArray]:
        """For both players `[H]` probability of holding each hand and playing to a node."""
        tree = self.spot.betting.tree
        reaches = self._possible(node)
        while node:
            actor = int(tree.actor[tree.parent[node]])
            if actor in ACTOR_BIT:
                reaches[ACTOR_BIT.index(actor)] *= self._row(node)
            node = int(tree.parent[node])
        return reaches[0], reaches[1]

    def _possible(self, node: int) -> list[FloatArray]:
        """For both players `[H]` the range's weights; 0 for hands that contain the card dealt at a node."""
        possible = [weights.copy() for weights in self.spot.range_weights]
        card = int(self.spot.betting.card[node])
        for weights in possible:
            weights[(HANDS[self.spot.hands] == card).any(axis=1)] = 0
        return possible


def find_equities(spot: Spot, ranges: FloatArray, cards: IntArray) -> FloatArray:
    """Equities of all hands at public nodes: the fraction of the pot that each wins without further bets.

    Args:
      spot: the spot.
      ranges: `[M, H]` weights of the other player's hands at each node.
      cards: `[M]` the dealt card at each node, -1 before the deal.

    Returns:
      `[M, H]`; NaN for hands without a compatible hand of the other player.
    """
    met, won = spot.compatible_with(ranges.T), np.zeros(ranges.T.shape)
    with precision(np.float64):
        showdowns = jax.tree.map(jax.device_put, spot.showdowns)
        tables = spot.showdowns.group.shape[1]
        before = np.flatnonzero(cards < 0)
        if len(before):
            weights = np.broadcast_to(ranges[before].T, (tables, 1, ranges.shape[1], len(before)))
            chance = 1 if tables == 1 else tables - 4
            won[:, before] = np.asarray(_win(showdowns, jax.device_put(weights)))[:, 0].sum(axis=0) / chance
        after = np.flatnonzero(cards >= 0)
        if len(after):  # as many nodes below each card
            after = after[np.argsort(cards[after], kind="stable")].reshape(tables, -1)
            weights = ranges[after].transpose(0, 2, 1)[:, None]
            won[:, after] = np.asarray(_win(showdowns, jax.device_put(weights)))[:, 0].transpose(1, 0, 2)
    least = 1e-12 * met.max(axis=0, initial=0)
    return 0.5 + 0.5 * np.divide(won, met, out=np.full_like(won, np.nan), where=met > least).T


class SpotSolutions(list[SpotSolution], LaneResult, Explorable):
    """Solved spots, in order; each is a row of `table`. EVs, exploitability and gap are in chips."""

    failures = NO_FAILURES

    @property
    def lane_columns(self) -> dict[str, Any]:
        """Columns that identify a spot."""
        return {"spot": [each.spot.name for each in self], "board": [each.spot.board for each in self]}

    @property
    def number_columns(self) -> dict[str, Any]:
        """Columns of results."""
        return {
            "ev_oop": np.array([each.ev[0] for each in self]),
            "ev_ip": np.array([each.ev[1] for each in self]),
            "exploitability": np.array([each.exploitability for each in self]),
            "gap": np.array([each.gap for each in self]),
            "iterations": np.array([each.iterations for each in self], np.int64),
        }

    @property
    def message(self) -> str:
        """One-sentence summary of the solve's convergence, with a remedy if it is insufficient."""
        return convergence_of_spots([(each.spot, each.gap, each.iterations, each.algorithm) for each in self])


def convergence_of_spots(solved: Sequence[tuple[Spot, float, int, str]]) -> str:
    """One-sentence summary of the convergence of solves, with a remedy if it is insufficient.

    Args:
      solved: the spot, gap in chips, iterations and algorithm of every solve.
    """
    if not solved:
        return "no spots"
    return convergence(
        np.array([gap / spot.pot for spot, gap, _, _ in solved]),
        max(iterations for _, _, iterations, _ in solved),
        solved[0][3],
        small=SMALL_GAP,
        name="largest gap, as a share of the pot,",
    )


@compiled
def _win(showdowns: Any, reach: jax.Array) -> jax.Array:
    return showdowns(0, reach)
