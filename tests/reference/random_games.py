"""Random games: of five fixed shapes, whose seed changes payoffs and chance only, or of a random shape.

Every fixed shape has chance, information hidden from both players, decisions of both above and below
its cut, subgames of different sizes and unequal numbers of actions (ids up to 3, not always
contiguous). Payoffs are normal draws, so there are no ties. `random_shape` draws the structure too.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
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
"""Actor (as in `HistoryLevel.actor`) and its moves, ascending."""

END: Turn = (TERMINAL, ())
NUM_ACTIONS = 4


def _as_drawn(history: History, draw: float) -> float:
    return draw


def _even(history: History) -> float:
    return 1.0


@dataclasses.dataclass(frozen=True, eq=False)
class Shape:
    """The structure of a game.

    Attributes:
      name: key of `SHAPES`, if it is one of these.
      cut: the cut to use.
      subgames: number of subgames of that cut, 0 if unknown.
      turn: the actor after a history.
      seen: a player's observation on arrival at a history, None for none (own actions are known anyway).
      public: the public observations, or None if the shape does not define them.
      payoff: player 0's payoff at a terminal history, of a normal draw.
      unevenness: of the chance after a history: the power to which its probabilities are raised.
      bets: whether action 0 is a check or call and the others are bets, so that they can be translated.
    """

    name: str
    cut: str
    subgames: int
    turn: Callable[[History], Turn]
    seen: Callable[[int, History], Hashable]
    public: Callable[[History], Hashable] | None = None
    payoff: Callable[[History, float], float] = _as_drawn
    unevenness: Callable[[History], float] = _even
    bets: bool = False


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
        return ("on", h[2][1] == 3)  # player 0's decision to continue depends on player 1's bid
    return h[-1] if len(h) == 3 and _SIGNAL[h[1]] == 2 else None


# weather: player 0 holds a card, player 1 moves unseen, then chance makes a public move.


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
    """The moves of the players, without card and delay, where actions 1 and 2 of player 0 are alike."""
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


# uneven: forced moves, a player without a choice in a subgame, and subgames of a single history.

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


# Random shapes

SMALLEST, LARGEST = 20, 300
"""ChoiceRule on the number of histories of a random shape."""


def side_by_side(name: str, shapes: Sequence[Shape]) -> Shape:
    """Shapes as one game: chance picks the shape, and both players see it."""

    def of(h: History) -> Shape:
        number = h[0]
        assert isinstance(number, int)
        return shapes[number]

    return Shape(
        name,
        "",
        sum(shape.subgames for shape in shapes),
        lambda h: of(h).turn(h[1:]) if h else (CHANCE, tuple(range(len(shapes)))),
        lambda player, h: h[0] if len(h) == 1 else of(h).seen(player, h[1:]),
        payoff=lambda h, draw: of(h).payoff(h[1:], draw),
        unevenness=lambda h: of(h).unevenness(h[1:]) if h else 1.0,
        bets=all(shape.bets for shape in shapes),
    )


def random_shape(seed: int) -> Shape:
    """A structure of `SMALLEST` to `LARGEST` histories in which both players act, and a `depth:` cut.

    The cut has roots, but may cross an infoset.
    """
    rng = np.random.default_rng(seed)
    while True:
        draft = _Draft(rng, most=int(np.exp(rng.uniform(np.log(SMALLEST), np.log(LARGEST)))))
        depths = draft.depths()
        if SMALLEST <= draft.size <= LARGEST and draft.actors() >= {0, 1} and depths:
            break
    if len(depths) > 1 and rng.random() < 0.9:
        depths = depths[1:]  # usually, a player has moved before
    depth = depths[int(rng.integers(len(depths)))]
    public = draft.public.__getitem__ if rng.random() < 0.5 else None
    scale, power = 10.0 ** float(rng.choice([-2, 0, 2])), float(rng.choice([1, 3]))
    kind = int(rng.integers(3))

    def payoff(h: History, draw: float) -> float:
        """All different, tied, or mostly 0."""
        return scale * (draw, float(np.round(1.5 * draw)), draw if abs(draw) > 1 else 0.0)[kind]

    return Shape(
        f"random-{seed}",
        f"depth:{depth}",
        0,
        _table(draft.turns),
        lambda player, h: draft.seen[player].get(h),
        public,
        payoff,
        lambda h: power,
    )


def random_hands_shape(seed: int) -> Shape:
    """A structure that begins with a deal and is public otherwise, so that it has a form by hands.

    Player 0 opens with one of three moves; the cut lies below it. Some pairs of hands are never dealt.
    """
    rng = np.random.default_rng(seed)
    deals, turns = _random_deals(rng), _public_turns(rng)
    scale = 10.0 ** float(rng.choice([-2, 0, 2]))
    return _hands_shape(f"hands-{seed}", deals, turns, lambda h, draw: scale * draw, {})


def random_hands_shapes(seed: int, count: int) -> list[Shape]:
    """Structures as those of `random_hands_shape` with the same deal, to be joined by `after_one_deal`.

    Payoffs are all different, or a factor of the line of play times one of two tables over the deals.
    Chance may show a card of a player: then outcome k is impossible with hand k, but for 0.
    """
    rng = np.random.default_rng(seed)
    deals = _random_deals(rng)
    tables = rng.normal(size=(2, len(deals)))
    return [_structure_after_deal(f"hands-{seed}-{number}", rng, deals, tables) for number in range(count)]


def _structure_after_deal(
    name: str, rng: np.random.Generator, deals: Sequence[tuple[int, ...]], tables: Array
) -> Shape:
    turns = _public_turns(rng)
    shown = {
        line: int(rng.integers(2))
        for line, (actor, _) in turns.items()
        if actor == CHANCE and rng.random() < 0.7
    }
    ends = [(*line, move) for line, (_, moves) in turns.items() for move in moves]
    factor = {line: float(rng.normal()) for line in ends}
    table = {line: tables[int(rng.integers(2))] for line in ends}
    scale, is_product = 10.0 ** float(rng.choice([-2, 0, 2])), bool(rng.random() < 0.7)

    def payoff(h: History, draw: float) -> float:
        return scale * (factor[h[1:]] * float(table[h[1:]][_deal(h)]) if is_product else draw)

    return _hands_shape(name, deals, turns, payoff, shown)


def _random_deals(rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Pairs of two or three hands of each player; hand 0 meets all of the other player's."""
    counts = rng.integers(2, 4, size=2).tolist()
    pairs = itertools.product(*map(range, counts))
    return [pair for pair in pairs if 0 in pair or rng.random() < 0.7]


def _public_turns(rng: np.random.Generator) -> dict[History, Turn]:
    """Turns by line of play after a deal: player 0 opens with one of three moves."""
    turns: dict[History, Turn] = {}

    def grow(line: History) -> None:
        odds = [0.0, 0.4, 0.4, 0.2] if len(line) == 1 else [0.3, 0.3, 0.3, 0.1]
        actor = int(rng.choice([TERMINAL, PLAYER_0, PLAYER_1, CHANCE], p=odds)) if line else PLAYER_0
        if actor == TERMINAL or len(line) == 5:
            return
        turns[line] = actor, tuple(range(3 if not line else int(rng.integers(2, 4))))
        for move in turns[line][1]:
            grow((*line, move))

    grow(())
    return turns


def _hands_shape(
    name: str,
    deals: Sequence[tuple[int, ...]],
    turns: Mapping[History, Turn],
    payoff: Callable[[History, float], float],
    shown: Mapping[History, int],
) -> Shape:
    """A structure of a deal and public turns.

    Args:
      name: its name.
      deals: both players' hands by outcome of the deal.
      turns: turns by line of play after the deal.
      payoff: as in `Shape`.
      shown: lines after which chance shows a card, and the player whose hands it excludes.
    """

    def turn(h: History) -> Turn:
        if not h:
            return CHANCE, tuple(range(len(deals)))
        actor, moves = turns.get(h[1:], END)
        if h[1:] in shown:
            hand = deals[_deal(h)][shown[h[1:]]]
            moves = tuple(move for move in moves if move == 0 or move != hand)
        return actor, moves

    return Shape(
        name,
        "depth:1",
        0,
        turn,
        lambda player, h: h[-1] if len(h) > 1 else deals[_deal(h)][player],
        payoff=payoff,
        bets=True,
    )


def _deal(h: History) -> int:
    assert isinstance(h[0], int)
    return h[0]


def after_one_deal(name: str, shapes: Sequence[Shape]) -> Shape:
    """Shapes of `random_hands_shapes` as one game that has a form by hands.

    After the deal player 0 has a single move, so that the deal ends there, and public chance picks the shape.
    """

    def of(h: History) -> tuple[Shape, History]:
        number = h[2]
        assert isinstance(number, int)
        return shapes[number], (h[0], *h[3:])

    def turn(h: History) -> Turn:
        if len(h) > 2:
            shape, own = of(h)
            return shape.turn(own)
        return (shapes[0].turn(h), (PLAYER_0, (0,)), (CHANCE, tuple(range(len(shapes)))))[len(h)]

    def payoff(h: History, draw: float) -> float:
        shape, own = of(h)
        return shape.payoff(own, draw)

    return Shape(
        name,
        "",
        0,
        turn,
        lambda player, h: h[-1] if len(h) > 1 else shapes[0].seen(player, h),
        payoff=payoff,
    )


def with_first_actions(shape: Shape) -> Shape:
    """The same structure with the actions of each turn numbered 0, 1, … in order: every turn has action 0."""

    @functools.cache
    def old(h: History) -> History:
        if not h:
            return ()
        above, move = old(h[:-1]), h[-1]
        actor, moves = shape.turn(above)
        if actor == CHANCE:
            return (*above, move)
        if isinstance(move, int):
            return (*above, moves[move])
        return (*above, (_side(moves, 0)[move[0]], _side(moves, 1)[move[1]]))

    def turn(h: History) -> Turn:
        actor, moves = shape.turn(old(h))
        if actor in (CHANCE, TERMINAL):
            return actor, moves
        if actor != SIMULTANEOUS:
            return actor, tuple(range(len(moves)))
        return actor, tuple(itertools.product(*(range(len(_side(moves, player))) for player in (0, 1))))

    return dataclasses.replace(
        shape,
        turn=turn,
        seen=lambda player, h: shape.seen(player, old(h)),
        public=None,
        payoff=lambda h, draw: shape.payoff(old(h), draw),
        unevenness=lambda h: shape.unevenness(old(h)),
    )


def _side(moves: Sequence[Move], player: int) -> list[int]:
    """A player's actions in a simultaneous turn, ascending."""
    return sorted({move[player] for move in moves if isinstance(move, tuple)})


@dataclasses.dataclass(eq=False)
class _Spot:
    """Histories with equal public observations.

    Attributes:
      histories: the set.
      public: their public observations.
      length: number of previous turns.
    """

    histories: list[History]
    public: tuple[int, ...]
    length: int


class _Draft:
    """A random structure under construction: a tree of spots, each with one turn for all its histories.

    A player's legal actions depend on its infostate. A move shows both players one of a few signals, which
    lead to different spots, and may show each player a private one; before that, some moves may lead through
    a turn of chance or of a player that others do not see. Players remember all their observations and moves:
    perfect recall.

    Attributes:
      size: number of histories.
      turns: by history, those that are not terminal.
      seen: both players' observations on arrival, if any, by history.
      public: all signals that both have seen, by history.
    """

    def __init__(self, rng: np.random.Generator, most: int):
        self._rng, self._most, self.size = rng, most, 1
        self._known: dict[History, tuple[Hashable, Hashable]] = {(): ((), ())}
        self._menus: dict[Hashable, tuple[int, ...]] = {}
        self.turns: dict[History, Turn] = {}
        self.seen: tuple[dict[History, Hashable], dict[History, Hashable]] = ({}, {})
        self.public: dict[History, Hashable] = {(): ()}
        spots = [_Spot([()], (), 0)]
        while spots:
            spots += self._grow(spots.pop(int(rng.integers(len(spots)))))

    def actors(self) -> set[int]:
        """The players that have more than one action somewhere."""
        several = {actor for actor, moves in self.turns.values() if len(moves) > 1}
        return {player for player in (0, 1) if any(actor & (PLAYER_0, PLAYER_1)[player] for actor in several)}

    def depths(self) -> list[int]:
        """The distinct numbers of players' moves before decisions."""
        return sorted(
            {
                sum(self.turns[h[:k]][0] != CHANCE for k in range(len(h)))
                for h, (actor, _) in self.turns.items()
                if actor != CHANCE
            }
        )

    def _happens(self, probability: float) -> bool:
        return bool(self._rng.random() < probability)

    def _actor(self, spot: _Spot) -> int:
        weights = [0.8, 0.05, 0.05, 0.1, 0.0] if spot.length == 0 else [0.15, 0.28, 0.28, 0.15, 0.14]
        return int(self._rng.choice([CHANCE, PLAYER_0, PLAYER_1, SIMULTANEOUS, TERMINAL], p=weights))

    def _menu(self, player: int, h: History) -> tuple[int, ...]:
        """The player's actions; equal wherever its information is equal."""
        key = player, self._known[h][player]
        if key not in self._menus:
            count = int(self._rng.choice([1, 2, 3], p=[0.1, 0.6, 0.3]))
            actions = self._rng.choice(NUM_ACTIONS, size=count, replace=False)
            self._menus[key] = tuple(sorted(actions.tolist()))
        return self._menus[key]

    def _moves(self, actor: int, h: History, outcomes: int) -> tuple[Move, ...]:
        if actor == CHANCE:
            return tuple(range(outcomes))
        menus = [self._menu(player, h) for player in (0, 1) if actor & (PLAYER_0, PLAYER_1)[player]]
        return tuple(itertools.product(*menus)) if len(menus) == 2 else menus[0]

    def _arrive(
        self, actor: int, h: History, move: Move, seen: Sequence[Hashable], public: Hashable
    ) -> History:
        """Add a history after a move of `actor`."""
        below = (*h, move)
        known: list[Hashable] = []
        for player in (0, 1):
            own = (move[player] if isinstance(move, tuple) else move) if actor & (1 << player) else None
            if seen[player] is not None:
                self.seen[player][below] = seen[player]
            step = () if own is None and seen[player] is None else ((own, seen[player]),)
            known.append((*self._known[h][player], *step))
        self._known[below] = known[0], known[1]
        self.public[below] = public
        self.size += 1
        return below

    def _grow(self, spot: _Spot) -> list[_Spot]:
        """Choose a spot's turn and return the spots that follow; end the game if the size is exhausted."""
        rng, actor = self._rng, self._actor(spot)
        staying = spot.histories
        if actor != TERMINAL and spot.length > 0 and len(staying) > 2 and self._happens(0.1):
            ends = rng.random(len(staying)) < 0.3  # for reasons that need not be observed
            staying = [h for h, end in zip(staying, ends, strict=True) if not end]
        outcomes = int(rng.integers(2, 5))
        if actor == TERMINAL or not staying:
            return []
        moves = {h: self._moves(actor, h, outcomes) for h in staying}
        if self.size + sum(map(len, moves.values())) > self._most:
            return []
        all_moves = sorted({move for options in moves.values() for move in options})
        classes = int(rng.choice([1, 2, len(all_moves)], p=[0.2, 0.3, 0.5]))
        signal = {
            move: number if classes == len(all_moves) else int(rng.integers(classes))
            for number, move in enumerate(all_moves)
        }
        private = [self._private(actor, player, all_moves) for player in (0, 1)]
        aside = {move for move in all_moves if self._happens(0.3)} if self._happens(0.15) else set[Move]()
        who = int(rng.choice([CHANCE, PLAYER_0, PLAYER_1]))
        following: dict[int, list[History]] = {}
        for h, options in moves.items():
            self.turns[h] = actor, options
            for move in options:
                public = (*spot.public, signal[move]) if classes > 1 else spot.public
                seen: list[Hashable] = []
                for player in (0, 1):
                    shown = (signal[move] if classes > 1 else None, private[player].get(move))
                    asked = ("asked",) if move in aside and who & (1 << player) else ()
                    seen.append(None if shown == (None, None) and not asked else (*shown, *asked))
                below = [self._arrive(actor, h, move, seen, public)]
                if move in aside:
                    below = self._step_aside(who, below[0], public)
                following.setdefault(signal[move], []).extend(below)
        return [
            _Spot(histories, (*spot.public, number) if classes > 1 else spot.public, spot.length + 1)
            for number, histories in following.items()
        ]

    def _step_aside(self, who: int, h: History, public: Hashable) -> list[History]:
        """A turn that at most its own player observes."""
        options = self._moves(who, h, 2)
        self.turns[h] = who, options
        return [self._arrive(who, h, move, (None, None), public) for move in options]

    def _private(self, actor: int, player: int, moves: Sequence[Move]) -> dict[Move, int]:
        """A private observation of one player for every move, if any; more often after chance moves."""
        if not self._happens(0.6 if actor == CHANCE else 0.25):
            return {}
        return {move: int(self._rng.integers(2)) for move in moves}


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
                    self.returns[h] = shape.payoff(h, float(rng.normal()))
                chance = np.ones(len(moves))
                if actor == CHANCE:
                    chance = _probabilities(rng, len(moves), shape.unevenness(h))
                for move, p in zip(moves, chance, strict=True):
                    self.probability[(*h, move)] = float(p)
                    below.append((*h, move))
            self.histories.append(below)
        self.histories.pop()

    def levels(self, budget: Budget) -> Iterator[HistoryLevel]:
        for level in self._levels:
            budget.claim(len(level.parent))
            yield level

    @functools.cached_property
    def _levels(self) -> list[HistoryLevel]:
        ids: dict[Hashable, int] = {}
        row: dict[History, int] = {(): 0}
        levels: list[HistoryLevel] = []
        for histories in self.histories:
            level = HistoryLevel(
                parent=np.array([row[h[:-1]] for h in histories], np.int32),
                actor=np.array([self.shape.turn(h)[0] for h in histories], np.uint8),
                action=self._actions(histories),
                chance=np.array([self.probability[h] for h in histories]),
                returns=np.array([[s * self.returns.get(h, 0.0) for h in histories] for s in (1, -1)]),
                infostate=np.array(
                    [[_number(ids, (p, self.knows(p, h))) for h in histories] for p in (0, 1)], np.int64
                ),
                public=self._public(ids, histories),
            )
            row = {h: k for k, h in enumerate(histories)}
            levels.append(level)
        return levels

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        return f"player {player}: {self.knows(player, tuple(history))}"

    def action_string(self, player: int, action: int) -> str:
        return f"a{action}"

    def cuts(self) -> Mapping[str, CutRule]:
        return {}

    def knows(self, player: int, h: History) -> tuple[tuple[int, Hashable], ...]:
        """The player's (own action, observation) at every step with either."""
        known: list[tuple[int, Hashable]] = []
        for k in range(1, len(h) + 1):
            action, seen = self._own(player, h[:k]), self.shape.seen(player, h[:k])
            if action >= 0 or seen is not None:
                known.append((action, seen))
        return tuple(known)

    def _own(self, who: int, h: History) -> int:
        """The last action of player 0, player 1 or chance (2), -1 for none."""
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


class RandomBets(RandomGame):
    """A random game in which action 0 is a check or call and the others are bets: they can be translated."""

    def bet_fraction(self, history: Sequence[Move], action: int) -> float:
        return float(action)


def random_game(shape: str, seed: int) -> RandomGame:
    """A game of a shape of `SHAPES`; the seed changes payoffs and chance probabilities only."""
    return RandomGame(SHAPES[shape], seed)


def random_policy(tree: HistoryTree, rng: np.random.Generator, zeros: float = 0.0) -> dict[Label, Array]:
    """Rows of both players of a `HistoryTree`, labelled `(player, infoset)` as in `efg.from_tree`.

    Dirichlet rows. With probability `zeros` each, a row is pure, an action has probability 0, or an action
    has a tiny probability (a factor of 1e-5): reaches are then unequal, clipped and zero.
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


def _probabilities(rng: np.random.Generator, count: int, unevenness: float) -> Array:
    """Random chance probabilities: the largest is at most 11 times the smallest, to the given power."""
    weights = (0.1 + rng.dirichlet(np.ones(count))) ** unevenness
    return weights / weights.sum()


def _number(ids: dict[Hashable, int], key: Hashable) -> int:
    return ids.setdefault(key, len(ids))
