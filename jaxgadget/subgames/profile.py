"""Strategies of both players in a search: in the game, and over the entries at a limit."""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxgadget.core.rows import pad_rows
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.forest import Forest
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray


@dataclasses.dataclass(frozen=True, eq=False)
class Profile:
    """Both players' strategies in the game, and their choices at a limit; L lanes.

    Attributes:
      policy: policies of the whole game, one per lane.
      states: for both players, ids of the leaf infostates, ascending.
      choice: for both players `[states, K, L]` probabilities of the entries at these infostates.
    """

    policy: Policy
    states: tuple[IntArray, IntArray]
    choice: tuple[FloatArray, FloatArray]

    @staticmethod
    def of_blueprint(lookahead: Forest, blueprint: Policy) -> Profile:
        """The profile that follows the blueprint, and at the limit entry 0, which is the blueprint."""
        choices: list[FloatArray] = []
        for states in lookahead.leaves.states:
            choice = np.zeros((len(states), lookahead.leaves.num_choices, blueprint.num_lanes))
            choice[:, 0] = 1
            choices.append(choice)
        return Profile(blueprint, lookahead.leaves.states, (choices[0], choices[1]))

    @property
    def num_lanes(self) -> int:
        """Number of lanes, L."""
        return self.policy.num_lanes

    def take_lanes(self, lanes: IntArray) -> Profile:
        """The given lanes."""
        first, second = (choice[:, :, lanes] for choice in self.choice)
        return Profile(self.policy.take_lanes(lanes), self.states, (first, second))

    def body(self, lookahead: Forest, player: int) -> FloatArray:
        """`[Q, L]` a player's strategy in a lookahead whose leaf infostates are all in `states`.

        Raises:
          ValueError: if a leaf infostate is missing.
        """
        known, states = self.states[player], lookahead.leaves.states[player]
        number = np.searchsorted(known, states)
        if not np.array_equal(known[number % max(len(known), 1)], states):
            raise ValueError("profile: the lookahead has leaf infostates that the profile lacks")
        limit = self.choice[player][number].reshape(-1, self.num_lanes)
        rows = np.concatenate([self.policy.probabilities[player], limit])
        sequence = lookahead.form.action_sequences(player)  # row 0 is sequence 1
        return np.where(sequence[:, None] > 0, rows[sequence - 1], 0)

    def bodies(self, lookahead: Forest) -> tuple[FloatArray, FloatArray]:
        """Both players' strategies in a lookahead; see `body`."""
        return self.body(lookahead, 0), self.body(lookahead, 1)

    def extended(self, lookahead: Forest) -> Profile:
        """Extends this profile with entry 0 at the leaf infostates of a lookahead that it lacks."""
        states: list[IntArray] = []
        choices: list[FloatArray] = []
        for player in (0, 1):
            fresh = np.setdiff1d(lookahead.leaves.states[player], self.states[player])
            all_states = np.concatenate([self.states[player], fresh])
            choice = np.zeros((len(fresh), lookahead.leaves.num_choices, self.num_lanes))
            choice[:, 0] = 1
            order = np.argsort(all_states)
            states.append(all_states[order])
            choices.append(np.concatenate([self.choice[player], choice])[order])
        return Profile(self.policy, (states[0], states[1]), (choices[0], choices[1]))

    def with_bodies(
        self,
        lookahead: Forest,
        bodies: tuple[FloatArray, FloatArray],
        adopted: tuple[BoolArray, BoolArray] | None = None,
    ) -> Profile:
        """Replaces strategies by those of a lookahead, which may cover a part of the limit.

        Args:
          lookahead: the lookahead.
          bodies: both players' strategies `[Q_p, L]` in the lookahead.
          adopted: for each player `[R_p]` mask of the roots below which the strategies are adopted, if
            subgames overlap. By default all roots; if a player's decisions occur twice, its usual roots.

        Raises:
          ValueError: if the lookahead's subgames overlap and `adopted` is missing.
        """
        if adopted is None:
            lookahead.check_disjoint()
            adopted = usual_roots(lookahead)
        rows: list[FloatArray] = []
        choices: list[FloatArray] = []
        for player in (0, 1):
            above = self.policy.probabilities[player]
            states, sequence = lookahead.leaves.states[player], lookahead.form.action_sequences(player)
            sequence = np.where(actions_below(lookahead, player, adopted[player]), sequence, -1)
            choice = self.choice[player].copy()
            number = np.searchsorted(self.states[player], states)
            all_rows = np.concatenate([above, choice[number].reshape(-1, self.num_lanes)])
            all_rows[sequence[sequence > 0] - 1] = bodies[player][sequence > 0]
            choice[number] = all_rows[len(above) :].reshape(-1, lookahead.leaves.num_choices, self.num_lanes)
            rows.append(all_rows[: len(above)])
            choices.append(choice)
        policy = Policy(self.policy.tree, (rows[0], rows[1]), self.policy.labels)
        return Profile(policy, self.states, (choices[0], choices[1]))


def usual_roots(lookahead: Forest) -> tuple[BoolArray, BoolArray]:
    """For each player `[R_p]` mask of all roots except the extra ones."""
    first, second = (np.ones(len(roots), np.bool_) for roots in lookahead.roots)
    return first, second


def actions_below(lookahead: Forest, player: int, roots: BoolArray) -> BoolArray:
    """`[Q]` mask of a player's actions below given roots of a lookahead, without those below extra roots.

    Args:
      lookahead: the lookahead.
      player: the player.
      roots: `[R]` mask of the roots.
    """
    treeplex = lookahead.form.treeplex[player]
    wanted = pad_rows(roots, treeplex.num_roots, 0)
    return wanted[treeplex.root_of()[treeplex.num_roots :]]


def root_reach(lookahead: Forest, policy: Policy) -> tuple[FloatArray, FloatArray]:
    """Both players' own reach `[R_p, L]` of their root infostates."""
    first, second = (lookahead.roots[player].reach(policy.reach(player)) for player in (0, 1))
    return first, second
