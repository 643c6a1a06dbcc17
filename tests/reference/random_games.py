"""Random games of five fixed shapes: the structure never changes, only payoffs and chance.

Every shape has chance, information hidden from both players, decisions of both above and below
its cut, subgames of different sizes and unequal numbers of actions (ids up to 3, not always
contiguous). Payoffs are normal draws, so nothing is tied.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from jaxgadget.games.game import (
    CHANCE,
    PLAYER_0,
    PLAYER_1,
    SIMULTANEOUS,
    TERMINAL,
    Budget,
    CutRule,
    HistoryLevel,
    Move,
)
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.util.arrays import IntArray
from tests.reference import cuts, efg, gadgets
from tests.reference.efg import Array, Label

History: TypeAlias = tuple[Move, ...]
Turn: TypeAlias = tuple[int, tuple[Move, ...]]
"""Who acts (as in `HistoryLevel.actor`) and the moves to choose from, ascending."""

END: Turn = (TERMINAL, ())
NUM_ACTIONS = 4


@dataclasses.dataclass(frozen=True, eq=False)
class Shape:
    """The structure of a game.

    Attributes:
      name: key of `SHAPES`.
      cut: the cut to use.
      subgames: how many subgames that cut has.
      turn: whose turn it is after a history.
      seen: what a player sees on arrival at a history, None for nothing (the own action is known anyway).
      public: what both are known to have seen, or None if the shape does not say.
    """

    name: str
    cut: str
    subgames: int
    turn: Callable[[History], Turn]
    seen: Callable[[int, History], Hashable]
    public: Callable[[History], Hashable] | None = None


def _table(turns: Mapping[History, Turn]) -> Callable[[History], Turn]:
    return lambda line: turns.get(line, END)


# betting: chance deals both a private card; public actions; the last public line is the subgame.

_BETTING = _table(
    {
        (): (PLAYER_0, (0, 1)),
        (0,): (PLAYER_1, (0, 1)),
        (1,): (PLAYER_1, (0, 1, 2)),
        (0, 0): (PLAYER_0, (0, 1)),
        (0, 1): (PLAYER_0, (0, 1, 2)),
        (0, 1, 1): (PLAYER_1, (0, 1)),
        (0, 1, 2): (PLAYER_1, (0, 1)),
        (1, 1): (PLAYER_1, (0, 1)),
        (1, 1, 0): (PLAYER_0, (1, 3)),
        (1, 1, 1): (PLAYER_0, (1, 3)),
    }
)


def _betting_turn(h: History) -> Turn:
    return _BETTING(h[1:]) if h else (CHANCE, (0, 1, 2, 3))


def _betting_seen(player: int, h: History) -> Hashable:
    deal = int(h[0]) if not isinstance(h[0], tuple) else 0
    return h[-1] if len(h) > 1 else (deal // 2, deal % 2)[player]


def _betting_public(h: History) -> Hashable:
    return len(h), h[1:]


# bids: player 0 holds a card; simultaneous bids of which only a signal is public.

_SIGNAL: Mapping[Move, int] = {(0, 0): 0, (0, 1): 0, (1, 0): 0, (1, 1): 1, (1, 2): 1, (0, 2): 2}


def _bids_turn(h: History) -> Turn:
    if len(h) == 0:
        return CHANCE, (0, 1)
    if len(h) == 1:
        return SIMULTANEOUS, tuple((a, b) for a in (0, 1) for b in (0, 1, 2))
    signal = _SIGNAL[h[1]]
    if len(h) == 2:
        if signal == 0:
            return SIMULTANEOUS, tuple((a, b) for a in (0, 1) for b in (0, 1))
        if signal == 1:
            return SIMULTANEOUS, tuple((a, b) for a in (0, 1) for b in (1, 3))
        return PLAYER_1, (0, 1, 2)
    if len(h) == 3 and signal == 1 and isinstance(h[2], tuple) and h[2][1] == 3:
        return PLAYER_0, (0, 2)
    if len(h) == 3 and signal == 2:
        return PLAYER_0, (0, 1, 3)
    return END


def _bids_seen(player: int, h: History) -> Hashable:
    if len(h) == 1:
        return h[0] if player == 0 else None
    if len(h) == 2:
        return _SIGNAL[h[1]]
    if len(h) == 3 and _SIGNAL[h[1]] == 1 and isinstance(h[2], tuple):
        return ("on", h[2][1] == 3)  # who goes on says what player 1 bid
    return h[-1] if len(h) == 3 and _SIGNAL[h[1]] == 2 else None


# weather: player 0 holds a card, player 1 moves in secret, then chance does something public.


def _weather_turn(h: History) -> Turn:
    if len(h) in (0, 3):
        return CHANCE, (0, 1)
    if len(h) == 1:
        return PLAYER_0, (0, 1)
    if len(h) == 2:
        return PLAYER_1, (0, 1)
    if len(h) == 4 and h[3] == 0:
        return PLAYER_1, ((0, 2) if h[1] == 0 else (1,))
    if len(h) == 4:
        return PLAYER_0, (0, 1)
    if len(h) == 5 and h[3] == 1:
        return PLAYER_1, ((0, 1) if h[4] == 0 else (0, 1, 3))
    return END


def _weather_seen(player: int, h: History) -> Hashable:
    if len(h) == 1:
        return h[0] if player == 0 else None
    if len(h) == 3:
        return h[2] if player == 1 else None
    return h[-1]


def _weather_public(h: History) -> Hashable:
    return h[1:2], h[3:]


# delays: an unseen chance move after action 2 gives infostates that span histories of different length.


def _delays_line(h: History) -> History:
    """The moves of the players, card and delay left out; actions 1 and 2 of player 0 go on alike."""
    return (1, *h[3:]) if h[1:2] == (2,) else h[1:]


_DELAYS = _table(
    {
        (): (PLAYER_0, (0, 1, 2)),
        (0,): (PLAYER_1, (0, 1)),
        (1,): (PLAYER_1, (0, 1)),
        (0, 1): (PLAYER_0, (0, 1, 2)),
        (0, 1, 1): (PLAYER_1, (0, 3)),
        (0, 1, 2): (PLAYER_1, (0, 3)),
        (1, 0): (PLAYER_0, (0, 1)),
        (1, 0, 0): (PLAYER_1, (0, 2)),
        (1, 0, 1): (PLAYER_1, (0, 2)),
        (1, 1): (PLAYER_1, (0, 1, 2)),
    }
)


def _delays_turn(h: History) -> Turn:
    if len(h) == 0 or (len(h) == 2 and h[1] == 2):
        return CHANCE, (0, 1)
    return _DELAYS(_delays_line(h))


def _delays_seen(player: int, h: History) -> Hashable:
    if len(h) == 1:
        return h[0] if player == 1 else None
    if len(h) == 2:
        return ("low", "high")[h[1] != 0]
    if len(h) == 3 and h[1] == 2:
        return ("delay", h[2]) if player == 0 else None
    return h[-1]


# uneven: forced moves, a player with no say in a subgame, and subgames of a single history.

_UNEVEN = _table(
    {
        (): (PLAYER_0, (0, 1, 2, 3)),
        (0,): (PLAYER_1, (0, 1)),
        (1,): (PLAYER_1, (0, 1, 2)),
        (2,): (PLAYER_1, (2,)),
        (0, 0): (PLAYER_0, (0, 1)),
        (0, 0, 0): (PLAYER_1, (0, 1)),
        (0, 0, 1): (PLAYER_1, (0, 1)),
        (0, 1): (PLAYER_1, (0, 1, 2)),
        (0, 1, 0): (PLAYER_0, (0, 1)),
        (0, 1, 1): (PLAYER_0, (0, 1)),
        (0, 1, 2): (PLAYER_0, (2, 3)),
        (1, 1): (PLAYER_0, (0,)),
        (1, 1, 0): (PLAYER_1, (0, 1)),
        (1, 2): (PLAYER_0, (0, 1, 2, 3)),
        (2, 2): (SIMULTANEOUS, ((0, 0), (0, 1), (1, 0), (1, 1))),
    }
)


def _uneven_turn(h: History) -> Turn:
    if len(h) == 0:
        return CHANCE, (0, 1, 2)
    return (CHANCE, (0, 1)) if len(h) == 1 else _UNEVEN(h[2:])


def _uneven_seen(player: int, h: History) -> Hashable:
    if len(h) <= 2:
        return h[player] if len(h) == player + 1 else None
    if h[2:] == (2, 2):
        return h[:2]  # both cards are shown
    return None if isinstance(h[-1], tuple) else h[-1]


SHAPES: Mapping[str, Shape] = {
    shape.name: shape
    for shape in (
        Shape("betting", "depth:2", 3, _betting_turn, _betting_seen, _betting_public),
        Shape("bids", "depth:1", 3, _bids_turn, _bids_seen),
        Shape("weather", "depth:2", 4, _weather_turn, _weather_seen, _weather_public),
        Shape("delays", "depth:2", 3, _delays_turn, _delays_seen),
        Shape("uneven", "depth:2", 10, _uneven_turn, _uneven_seen),
    )
}


class RandomGame:
    """A `Game` of one shape with values drawn from a seed."""

    num_actions = NUM_ACTIONS

    def __init__(self, shape: Shape, seed: int):
        self.shape = shape
        self.name = f"random(shape={shape.name},seed={seed})"
        rng = np.random.default_rng(seed)
        self.histories: list[list[History]] = [[()]]
        self.returns: dict[History, float] = {}
        self.probability: dict[History, float] = {(): 1.0}
        while self.histories[-1]:
            below: list[History] = []
            for h in self.histories[-1]:
                actor, moves = shape.turn(h)
                if actor == TERMINAL:
                    self.returns[h] = float(rng.normal())
                chance = _probabilities(rng, len(moves)) if actor == CHANCE else np.ones(len(moves))
                for move, p in zip(moves, chance, strict=True):
                    self.probability[(*h, move)] = float(p)
                    below.append((*h, move))
            self.histories.append(below)
        self.histories.pop()

    def levels(self, budget: Budget) -> Iterator[HistoryLevel]:
        ids: dict[Hashable, int] = {}
        row: dict[History, int] = {(): 0}
        for histories in self.histories:
            budget.claim(len(histories))
            level = HistoryLevel(
                parent=np.array([row[h[:-1]] for h in histories], np.int32),
                actor=np.array([self.shape.turn(h)[0] for h in histories], np.uint8),
                action=self._actions(histories),
                chance=np.array([self.probability[h] for h in histories]),
                returns=np.array([[s * self.returns.get(h, 0.0) for h in histories] for s in (1, -1)]),
                infostate=np.array(
                    [[_number(ids, (p, self._knows(p, h))) for h in histories] for p in (0, 1)], np.int64
                ),
                public=self._public(ids, histories),
            )
            row = {h: k for k, h in enumerate(histories)}
            yield level

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        return f"player {player}: {self._knows(player, tuple(history))}"

    def action_string(self, player: int, action: int) -> str:
        return f"a{action}"

    def cuts(self) -> Mapping[str, CutRule]:
        return {}

    def _knows(self, player: int, h: History) -> tuple[tuple[int, Hashable], ...]:
        """The player's (own action, observation) at every step where there was one of either."""
        known: list[tuple[int, Hashable]] = []
        for k in range(1, len(h) + 1):
            action, seen = self._own(player, h[:k]), self.shape.seen(player, h[:k])
            if action >= 0 or seen is not None:
                known.append((action, seen))
        return tuple(known)

    def _own(self, who: int, h: History) -> int:
        """What player 0, player 1 or chance (2) did last, -1 for nothing."""
        actor, move = self.shape.turn(h[:-1])[0], h[-1]
        if not actor & (PLAYER_0, PLAYER_1, CHANCE)[who]:
            return -1
        return move[who] if isinstance(move, tuple) else move

    def _actions(self, histories: list[History]) -> IntArray:
        rows = [[self._own(who, h) if h else -1 for h in histories] for who in (0, 1, 2)]
        return np.array(rows, np.int32)

    def _public(self, ids: dict[Hashable, int], histories: list[History]) -> IntArray | None:
        public = self.shape.public
        if public is None:
            return None
        return np.array([_number(ids, ("public", public(h))) for h in histories], np.int64)


def random_game(shape: str, seed: int) -> RandomGame:
    """A game of a shape of `SHAPES`; the seed changes payoffs and chance probabilities only."""
    return RandomGame(SHAPES[shape], seed)


def random_policy(tree: HistoryTree, rng: np.random.Generator, zeros: float = 0.0) -> dict[Label, Array]:
    """Rows of both players of a `HistoryTree`, labelled `(player, infoset)` as in `efg.from_tree`.

    Dirichlet rows. With probability `zeros` each, a row is pure, an action is never played, or
    an action is hardly played (1e-5 times): reaches are then unequal, clipped and zero.
    """
    rows: dict[Label, Array] = {}
    for player in (0, 1):
        for infoset, count in enumerate(tree.infosets[player].num_actions.tolist()):
            row = rng.dirichlet(np.ones(count))
            pure, never, hardly = rng.random(3) < zeros
            first, second = int(rng.integers(count)), int(rng.integers(count))
            if hardly:
                row[second] *= 1e-5
            if never and count > 1:
                row[first] = 0.0
            if pure:
                row = np.eye(count)[first]
            rows[player, infoset] = row / row.sum()
    return rows


@functools.cache
def random_tree(shape: str, seed: int) -> tuple[HistoryTree, efg.Game]:
    """A random game's production tree, and the explicit game."""
    tree = enumerate_game(random_game(shape, seed))
    return tree, efg.from_tree(tree)


def random_subgames(shape: str, seed: int, resolver: int, zeros: float = 0.0) -> list[gadgets.Subgame]:
    """The explicit subgames below the shape's cut, with a random blueprint (drawn from the seed too)."""
    tree, game = random_tree(shape, seed)
    blueprint = random_policy(tree, np.random.default_rng(seed), zeros)
    roots = cuts.depth_roots(game, int(SHAPES[shape].cut.removeprefix("depth:")))
    return gadgets.subgames(game, cuts.components(game, roots), resolver, blueprint)


def _probabilities(rng: np.random.Generator, count: int) -> Array:
    """Random chance probabilities, none of them tiny."""
    weights = 0.1 + rng.dirichlet(np.ones(count))
    return weights / weights.sum()


def _number(ids: dict[Hashable, int], key: Hashable) -> int:
    return ids.setdefault(key, len(ids))
