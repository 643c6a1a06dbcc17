"""Policies of games by hands: what both players do at every public node with every hand."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from jaxgadget.games.game import ACTOR_BIT, Game
from jaxgadget.games.hands import HandsGame
from jaxgadget.hands.form import HandsForm, by_hands
from jaxgadget.policy.policy import OLD_HANDS_FILE as HANDS_FILE
from jaxgadget.policy.policy import Policy, as_policy
from jaxgadget.tree.hands import FoundHands
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arguments import check_player
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.store import read_archive, write_archive

SUM_TOLERANCE = 1e-5
"""How far a row may be from summing to 1."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class HandsPolicy:
    """Both players' policies, one a lane.

    A public node where a player acts has a row for each of its actions: for the node that the action leads to
    (`form.children`). Rows of hands that a node makes impossible say nothing.

    Attributes:
      form: the game.
      probabilities: both players' `[C, H, lanes]`.
      labels: a name for each lane.
    """

    form: HandsForm
    probabilities: tuple[FloatArray, FloatArray]
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        game = self.form.game
        for player, rows in enumerate(self.probabilities):
            expected = (len(self.form.children[player]), game.num_hands[player], len(self.labels))
            if rows.shape != expected:
                raise ValueError(
                    f"probabilities of player {player} have shape {rows.shape}: expected {expected}, "
                    f"[actions at public nodes, hands, lanes] of {game.name}"
                )
            total = sum_siblings(self.form, player, rows)
            least = sum_siblings(self.form, player, rows, np.minimum)
            wrong = ~(np.abs(total - 1) <= SUM_TOLERANCE) | (least < 0)
            if wrong.any():
                node, hand, lane = np.argwhere(wrong)[0].tolist()
                where = game.describe(int(game.nodes.decisions(player)[node])) or "the first move"
                raise ValueError(
                    f"probabilities of player {player} with hand {game.hands[player][hand]!r} at {where!r}, "
                    f"lane {self.labels[lane]!r}, sum to {total[node, hand, lane]:.9g} or are negative: "
                    "expected numbers >= 0 that sum to 1"
                )

    def __repr__(self) -> str:
        return f"<HandsPolicy of {self.form.game.name}: {self.num_lanes} lane(s)>"

    @property
    def game(self) -> HandsGame:
        """The game."""
        return self.form.game

    @property
    def num_lanes(self) -> int:
        """How many policies there are."""
        return len(self.labels)

    @staticmethod
    def uniform(game: Game | HistoryTree | HandsGame | HandsForm) -> HandsPolicy:
        """All actions alike."""
        form = as_form(game)
        first, second = (
            np.ones((len(nodes), hands, 1))
            / form.game.nodes.num_children[form.game.nodes.parent[nodes], None, None]
            for nodes, hands in zip(form.children, form.game.num_hands, strict=True)
        )
        return HandsPolicy(form, (first, second), ("uniform",))

    @staticmethod
    def of_bodies(form: HandsForm, bodies: tuple[Any, Any], labels: Sequence[str]) -> HandsPolicy:
        """Strategies `[Q × H, lanes]` of the form's treeplexes, normalised in float64."""
        pair: list[FloatArray] = []
        for player, body in enumerate(bodies):
            rows = np.empty((len(form.rows[player]), form.game.num_hands[player], len(labels)))
            rows[form.rows[player]] = np.asarray(body).reshape(rows.shape)
            total = sum_siblings(form, player, rows)
            pair.append(
                rows
                / np.repeat(total, form.game.nodes.num_children[form.game.nodes.decisions(player)], axis=0)
            )
        return HandsPolicy(form, (pair[0], pair[1]), tuple(labels))

    def bodies(self) -> tuple[FloatArray, FloatArray]:
        """Both players' strategies in the order of the form's treeplexes, `[Q × H, lanes]`."""
        first, second = (
            rows[order].reshape(-1, self.num_lanes)
            for rows, order in zip(self.probabilities, self.form.rows, strict=True)
        )
        return first, second

    def reach(self, player: int, nodes: IntArray) -> FloatArray:
        """`[nodes, H, lanes]` how likely a player's own choices lead to public nodes with each hand."""
        tree, rows = self.game.nodes, self.probabilities[player]
        factors: list[tuple[IntArray, IntArray]] = []
        node = np.asarray(nodes, np.int64)
        while node.any():
            acted = np.flatnonzero((tree.actor[tree.parent[node]] == ACTOR_BIT[player]) & (node > 0))
            factors.append((acted, np.searchsorted(self.form.children[player], node[acted])))
            node = tree.parent[node]
        reach = np.ones((len(node), *rows.shape[1:]))
        for acted, row in reversed(factors):
            reach[acted] *= rows[row]
        return reach

    def with_bodies(self, part: HandsForm, bodies: tuple[FloatArray, FloatArray]) -> HandsPolicy:
        """The same with strategies `[Q × H, lanes]` of both players in public subgames of the game."""
        pair = [rows.copy() for rows in self.probabilities]
        for rows, body, order in zip(pair, bodies, part.rows, strict=True):
            rows[order] = body.reshape(len(order), *rows.shape[1:])
        return HandsPolicy(self.form, (pair[0], pair[1]), self.labels)

    def lane(self, lane: int) -> HandsPolicy:
        """One lane."""
        return self.lanes([lane])

    def lanes(self, lanes: Sequence[int]) -> HandsPolicy:
        """Some lanes."""
        first, second = (rows[:, :, list(lanes)] for rows in self.probabilities)
        return HandsPolicy(self.form, (first, second), tuple(self.labels[lane] for lane in lanes))

    def action_probabilities(self, node: int, hand: int, lane: int = 0) -> dict[int, float]:
        """Action → probability for whoever acts at a public node, with one of its hands.

        Raises:
          ValueError: if nobody acts there, or the hand or lane is none.
        """
        tree = self.game.nodes
        actor = int(tree.actor[node]) if _is_index(node, len(tree)) else -1
        if actor not in ACTOR_BIT:
            raise ValueError(f"node={node!r}: expected a public node of {self.game.name} where a player acts")
        player = ACTOR_BIT.index(actor)
        num_hands = self.game.num_hands[player]
        if not _is_index(hand, num_hands):
            raise ValueError(
                f"hand={hand!r}: player {player} of {self.game.name} has {num_hands} hands; "
                "expected the number of one"
            )
        if not _is_index(lane, self.num_lanes):
            raise ValueError(f"lane={lane!r}: the policy has {self.num_lanes}; expected the number of one")
        children = tree.first_child[node] + np.arange(tree.num_children[node])
        rows = np.searchsorted(self.form.children[player], children)
        values = self.probabilities[player][rows, hand, lane]
        return dict(zip(tree.action[children].tolist(), values.tolist(), strict=True))

    def to_frame(self, lane: int = 0) -> pd.DataFrame:
        """A row for every player, public node, hand that is possible there, and action."""
        frames: list[pd.DataFrame] = []
        game, tree = self.game, self.game.nodes
        for player, (nodes, rows) in enumerate(zip(self.form.children, self.probabilities, strict=True)):
            above = tree.parent[nodes]
            possible = game.possible[player]
            held = (
                np.ones((len(nodes), game.num_hands[player]), np.bool_)
                if possible is None
                else possible[above]
            )
            row, hand = np.nonzero(held)
            where = {node: game.describe(node) for node in np.unique(above).tolist()}
            names = [
                game.action_names[a] if a < len(game.action_names) else str(a)
                for a in tree.action[nodes].tolist()
            ]
            frames.append(
                pd.DataFrame(
                    {
                        "player": player,
                        "public": [where[node] for node in above[row].tolist()],
                        "hand": [game.hands[player][k] for k in hand.tolist()],
                        "action": [names[k] for k in row.tolist()],
                        "probability": rows[row, hand, lane],
                    }
                )
            )
        return pd.concat(frames, ignore_index=True)

    def to_policy(self, found: FoundHands) -> Policy:
        """The same in the enumerated game.

        Args:
          found: its hands, from `find_hands(tree)`.

        Raises:
          ValueError: if they are of another game.
        """
        _check_same(found, self.form)
        pair: list[FloatArray] = []
        for player in (0, 1):
            row, hand = _cells(found, self.form, player)
            pair.append(self.probabilities[player][row, hand])
        return Policy(found.tree, (pair[0], pair[1]), self.labels)

    @staticmethod
    def from_policy(policy: Policy, found: FoundHands, form: HandsForm | None = None) -> HandsPolicy:
        """A policy of the enumerated game by hands; uniform for hands that are impossible.

        Args:
          policy: of `found.tree`.
          found: the tree's hands.
          form: of the same game, if there is one already.

        Raises:
          ValueError: if the policy, the hands and the form are not of one game.
        """
        _check_found(found)
        form = HandsForm(found.game) if form is None else form
        _check_same(found, form)
        policy = as_policy(policy, found.tree)
        uniform = HandsPolicy.uniform(form).probabilities
        pair = [np.repeat(rows, policy.num_lanes, axis=2) for rows in uniform]
        for player in (0, 1):
            row, hand = _cells(found, form, player)
            pair[player][row, hand] = policy.probabilities[player]
        return HandsPolicy(form, (pair[0], pair[1]), policy.labels)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a `.npz` file, atomically: a header (format, game, labels) and both players' arrays."""
        header = {"game": self.game.name, "labels": list(self.labels)}
        arrays = {f"probabilities_{player}": rows for player, rows in enumerate(self.probabilities)}
        write_archive(path, HANDS_FILE, header, arrays, compress=True)

    @staticmethod
    def load(path: str | os.PathLike[str], game: Game | HistoryTree | HandsGame | HandsForm) -> HandsPolicy:
        """Reads a policy written by `save`.

        Raises:
          ValueError: if the file is no policy by hands, damaged, or of another game.
        """
        form, where = as_form(game), f"policy file {os.fspath(path)!r}"
        archive = read_archive(path, HANDS_FILE)
        if archive is None:
            raise ValueError(f"{where} does not exist")
        header, arrays = archive
        if header.get("game") != form.game.name:
            raise ValueError(f"{where} is of {header.get('game')!r}; expected one of {form.game.name!r}")
        try:
            pair = arrays["probabilities_0"], arrays["probabilities_1"]
            return HandsPolicy(form, pair, tuple(header["labels"]))
        except (KeyError, ValueError) as error:
            raise ValueError(f"{where} is damaged ({error}); write it again") from error


def as_form(game: Game | HistoryTree | HandsGame | HandsForm) -> HandsForm:
    """The form of a game, which is made unless it is given."""
    return game if isinstance(game, HandsForm) else HandsForm(by_hands(game))


def check_hands_policy(policy: object) -> None:
    """ValueError unless it is a policy by hands."""
    if not isinstance(policy, HandsPolicy):
        raise ValueError(
            f"policy=a {type(policy).__name__}: expected a HandsPolicy, such as HandsPolicy.uniform(game), "
            "HandsPolicy.uniform(game) or HandsPolicy.from_policy(policy, find_hands(tree))"
        )


def _is_index(value: object, count: int) -> bool:
    """Whether something is a whole number from 0 to less than `count`."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= int(value) < count


def sum_siblings(form: HandsForm, player: int, rows: FloatArray, combine: np.ufunc = np.add) -> FloatArray:
    """Sums over a player's actions at every public node where it acts: `[C, …]` → `[nodes, …]`."""
    count = form.game.nodes.num_children[form.game.nodes.decisions(player)]
    return combine.reduceat(rows, np.cumsum(count) - count, axis=0) if len(rows) else rows


def _check_found(found: object) -> None:
    """ValueError unless it is the hands of a tree."""
    if not isinstance(found, FoundHands):
        raise ValueError(f"found=a {type(found).__name__}: expected the hands of a tree, find_hands(tree)")


def _check_same(found: FoundHands, form: HandsForm) -> None:
    """ValueError unless histories are those of a game by hands."""
    _check_found(found)
    ours, theirs = form.game, found.game
    same = ours.num_hands == theirs.num_hands and all(
        np.array_equal(getattr(ours.nodes, field), getattr(theirs.nodes, field))
        for field in ("parent", "actor", "action")
    )
    if not same:
        raise ValueError(
            f"found: {theirs!r} has other hands or public nodes than {ours!r}; expected the tree of that game"
        )


def _cells(found: FoundHands, form: HandsForm, player: int) -> tuple[IntArray, IntArray]:
    """`[Q]` the row and `[Q]` the hand of each action of the enumerated game's policy."""
    check_player(player)
    infosets, tree = found.tree.infosets[player], form.game.nodes
    node, hand = found.infosets(player)
    owner = infosets.infoset[1:]
    slot = np.arange(1, infosets.num_sequences) - infosets.first_sequence[owner]
    child = tree.first_child[node[owner]] + slot
    return np.searchsorted(form.children[player], child), hand[owner]
