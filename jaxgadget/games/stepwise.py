"""A game written one state at a time, lifted to the level-by-level protocol of `game.py`.

Your own game: subclass `Rules`, then `jaxgadget.load(MyRules())` or `StepwiseGame(MyRules())`.
"""

from __future__ import annotations

import abc
import enum
import math
import operator
import re
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

from jaxgadget.games.game import ACTOR_BIT, CHANCE, PROBABILITY_TOLERANCE, TERMINAL, CutRule, Move
from jaxgadget.games.per_state import Branch, Node, PerStateGame

State = TypeVar("State")


class Step(NamedTuple, Generic[State]):
    """What one move does.

    Attributes:
      state: the state after the move.
      reward: what player 0 gets for this move, player 1 gets the negative; or a pair, both
        players' rewards. Rewards add up along a history.
      public: what both players see, any hashable value; None is nothing.
      private: what player 0 alone and player 1 alone sees, in the same way. A player always
        knows its own actions, those of the other only if an observation says so.
    """

    state: State
    reward: float | tuple[float, float] = 0.0
    public: Hashable = None
    private: tuple[Hashable, Hashable] = (None, None)


class Rules(abc.ABC, Generic[State]):
    """A two-player zero- or constant-sum game, one state at a time. Subclass it.

    A state is any immutable value. `name` is the game's name, and `actions` are the names
    of the players' actions: action `a` is `actions[a]`.

    A player's infostate is what it knew before, its own action, and what it observed. If it
    neither acted nor observed anything, its infostate stays: it does not notice the move.
    """

    name: str
    actions: Sequence[str]

    @abc.abstractmethod
    def initial_state(self) -> State:
        """The state before the first move."""

    @abc.abstractmethod
    def actors(self, state: State) -> Collection[int]:
        """Who moves: `(0,)`, `(1,)`, both at once `(0, 1)`, `(CHANCE,)`, or `()` at the end."""

    @abc.abstractmethod
    def legal_actions(self, state: State, player: int) -> Sequence[int]:
        """The player's legal actions where it acts, in any order."""

    @abc.abstractmethod
    def step(self, state: State, move: Any) -> Step[State]:
        """Makes a move: an action, a chance outcome, or `(action 0, action 1)` if both act."""

    def chance_outcomes(self, state: State) -> Sequence[tuple[int, float]]:
        """`(outcome, probability)` pairs where chance acts; outcomes are integers >= 0."""
        raise NotImplementedError(f"{self.name}: chance acts, so write chance_outcomes() too")

    def infostate_string(self, state: State, player: int) -> str | None:
        """The player's infostate where it acts, one string each; None for the default string.

        The default lists what the player did and saw: `>own action`, `public`, `[private]`.
        """
        return None

    def bet_fraction(self, state: State, action: int) -> float | None:
        """How large a bet is, as `jaxgadget.games.game.BetSizes` says; by default nothing is a bet."""
        return None

    def cuts(self) -> Mapping[str, CutRule]:
        """Named cuts of the game, by default none."""
        return {}


class _Position(NamedTuple):
    state: Any
    moves: tuple[Move, ...]


_Link: TypeAlias = tuple[int, int, int, int]
"""The infostate before, and what is new: own action, public and private observation, -1 for nothing."""


class StepwiseGame(PerStateGame):
    """Lifts `Rules` to the `Game` protocol; what they return is checked, with a ValueError."""

    says_public = True

    def __init__(self, rules: Rules[Any]):
        name, actions = getattr(rules, "name", None), list(getattr(rules, "actions", None) or ())
        if not isinstance(name, str) or not name or not actions or len(set(actions)) < len(actions):
            raise ValueError(
                f"{type(rules).__name__}: name={name!r}, actions={actions!r}: expected the game's name and "
                "distinct names of the players' actions, such as ('fold', 'call'); set both in the class"
            )
        self.rules = rules
        self.name = name
        self._actions = tuple(map(str, actions))
        start: _Link = (-1, -1, -1, -1)
        self._infostates: tuple[dict[_Link, int], dict[_Link, int]] = ({start: 0}, {start: 0})
        self._links: tuple[list[_Link], list[_Link]] = ([start], [start])
        self._public: dict[tuple[int, int], int] = {}
        self._codes: dict[Hashable, int] = {}  # observation → code
        self._texts: list[str] = []  # by code
        self._taken: set[str] = set()
        self._own_names: tuple[dict[int, str], dict[int, str]] = ({}, {})
        self._named: tuple[dict[str, int], dict[str, int]] = ({}, {})

    @property
    def num_actions(self) -> int:
        """How many names `rules.actions` has."""
        return len(self._actions)

    def action_string(self, player: int, action: int) -> str:
        """The action's name in `rules.actions`."""
        return self._actions[action]

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """The rules' own string, else what the player did and saw, step by step."""
        infostate = self.replay(history).infostate[player]
        if infostate in self._own_names[player]:
            return self._own_names[player][infostate]
        steps: list[str] = []
        while infostate:
            infostate, action, public, private = self._links[player][infostate]
            own = text_of(self._actions[action]) if action >= 0 else None
            seen = (self._texts[code] if code >= 0 else None for code in (public, private))
            steps.append(noticed_text(own, *seen))
        return infostate_text(player, steps[::-1])

    def cuts(self) -> Mapping[str, CutRule]:
        """The cuts that the rules name."""
        return self.rules.cuts()

    def bet_fraction(self, history: Sequence[Move], action: int) -> float | None:
        """What the rules say after the history."""
        position: _Position = self.replay(history).state
        return self.rules.bet_fraction(position.state, action)

    def root(self) -> Node:
        """The history without moves."""
        return self._arrive(Node(_Position(self.rules.initial_state(), ()), TERMINAL, (0, 0)))

    def branches(self, node: Node) -> list[Branch]:
        """Asks the rules for legal actions or chance outcomes."""
        position: _Position = node.state
        if node.actor == CHANCE:
            return self._outcomes(position)
        legal = [self._legal(position, p) if node.actor & ACTOR_BIT[p] else [-1] for p in (0, 1)]
        return [Branch((first, second, -1)) for first in legal[0] for second in legal[1]]

    def child(self, node: Node, branch: Branch) -> Node:
        """Makes one step and takes down who saw what."""
        position: _Position = node.state
        moves = (*position.moves, branch.move)
        step: Any = self.rules.step(position.state, branch.move)
        if not isinstance(step, Step) or not _is_pair(step.private):
            raise self._error(
                moves, f"step() returned {step!r}", "return Step(state, reward, public, (private, private))"
            )
        rewards = self._rewards(step.reward, moves)
        public = self._code(step.public, moves, "both players")
        infostate = list(node.infostate)
        for player in (0, 1):
            seen = self._code(step.private[player], moves, f"player {player}")
            if max(branch.action[player], public, seen) >= 0:
                link = (infostate[player], branch.action[player], public, seen)
                infostate[player] = self._infostates[player].setdefault(link, len(self._links[player]))
                if infostate[player] == len(self._links[player]):
                    self._links[player].append(link)
        after = node.public
        if public >= 0:
            after = self._public.setdefault((after, public), len(self._public) + 1)
        returns = (node.returns[0] + rewards[0], node.returns[1] + rewards[1])
        position = _Position(step.state, moves)
        return self._arrive(Node(position, TERMINAL, (infostate[0], infostate[1]), returns, after))

    def _arrive(self, node: Node) -> Node:
        """Asks who acts at a new history."""
        position: _Position = node.state
        actors: Any = self.rules.actors(position.state)
        who: list[Any] = list(actors) if isinstance(actors, Collection) else [actors, None]
        if not all(player in (0, 1) for player in who) and who != [CHANCE]:
            raise self._error(
                position.moves,
                f"actors() returned {actors!r}",
                "expected (0,), (1,), (0, 1), (CHANCE,) or ()",
            )
        acting = [player for player in (0, 1) if player in who]
        for player in acting:
            self._take_name(player, node.infostate[player], position)
        return node._replace(actor=CHANCE if who == [CHANCE] else sum(ACTOR_BIT[p] for p in acting))

    def _legal(self, position: _Position, player: int) -> list[int]:
        given = self.rules.legal_actions(position.state, player)
        legal = _distinct_integers(given)
        if not legal or max(legal) >= self.num_actions:
            raise self._error(
                position.moves,
                f"player {player} acts, but legal_actions() returned {given!r}",
                f"expected distinct indices of {self._actions}; at the end let actors() return ()",
            )
        return sorted(legal)

    def _outcomes(self, position: _Position) -> list[Branch]:
        given: Any = list(self.rules.chance_outcomes(position.state))
        outcomes = _distinct_integers([pair[0] for pair in given]) if all(map(_is_pair, given)) else None
        probabilities = [float(pair[1]) for pair in given] if outcomes else []
        total = math.fsum(probabilities)
        if not outcomes or min(probabilities) < 0 or not abs(total - 1) <= PROBABILITY_TOLERANCE:
            fault = f"whose probabilities sum to {total:.12g}"
            if not outcomes:
                fault = "which are no pairs with distinct outcomes"
            elif min(probabilities) < 0:
                fault = f"where {min(probabilities):g} is negative"
            raise self._error(
                position.moves,
                f"chance_outcomes() returned {given!r}, {fault}",
                "expected pairs of distinct integers >= 0 and probabilities >= 0 that sum to 1",
            )
        return [Branch((-1, -1, k), p) for k, p in sorted(zip(outcomes, probabilities, strict=True))]

    def _rewards(self, reward: Any, moves: tuple[Move, ...]) -> tuple[float, float]:
        try:
            first, second = map(float, reward if isinstance(reward, tuple) else (reward, 0.0 - reward))
        except (TypeError, ValueError):
            first = second = math.nan
        if not (math.isfinite(first) and math.isfinite(second)):
            raise self._error(
                moves,
                f"reward={reward!r} of player {int(math.isfinite(first))}",
                "expected finite numbers: player 0's, or a tuple of both players'",
            )
        return first, second

    def _code(self, observation: Hashable, moves: tuple[Move, ...], who: str) -> int:
        """Numbers an observation, -1 for None. Equal ones are the same, and so must their texts be."""
        if observation is None:
            return -1
        try:
            code = self._codes.get(observation)
        except TypeError:
            raise self._error(
                moves, f"the observation {observation!r} of {who} is not hashable", "use a tuple or a string"
            ) from None
        if code is None:
            text = text_of(observation)
            if text in self._taken or " at 0x" in text:
                raise self._error(
                    moves,
                    f"the observation {observation!r} of {who} has no text of its own",
                    "give its class a __repr__ that is the same in every run and tells unequal ones apart",
                )
            self._texts.append(text)
            self._taken.add(text)
            code = self._codes[observation] = len(self._codes)
        return code

    def _take_name(self, player: int, infostate: int, position: _Position) -> None:
        """Takes down the rules' own string of an infostate."""
        name = self.rules.infostate_string(position.state, player)
        if name is None:
            return
        known = self._own_names[player].setdefault(infostate, name)
        if known != name or self._named[player].setdefault(name, infostate) != infostate:
            raise self._error(
                position.moves,
                f"infostate_string() of player {player} returned {name!r}",
                f"it must be the same where the player knows the same (here it was {known!r} before), and "
                "different elsewhere; correct the string or the observations",
            )

    def _error(self, moves: tuple[Move, ...], what: str, remedy: str) -> ValueError:
        return ValueError(f"{self.name}: {what} after history {moves!r}; {remedy}")


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple) and len(cast("tuple[object, ...]", value)) == 2


def _distinct_integers(values: Any) -> list[int] | None:
    """The values as integers >= 0, or None if they are not that."""
    try:
        integers = [operator.index(value) for value in values]
    except TypeError:
        return None
    return integers if len(set(integers)) == len(integers) and min(integers, default=0) >= 0 else None


def infostate_text(player: int, steps: Sequence[str]) -> str:
    """The string of a player's infostate that lists what it noticed, step by step."""
    return f"{player}: {', '.join(steps)}".rstrip()


def noticed_text(action: str | None, public: str | None, private: str | None) -> str:
    """What a player noticed of one step: the texts of its own action and of what it saw, None for nothing."""
    parts = [f">{action}"] if action is not None else []
    parts += [public] if public is not None else []
    parts += [f"[{private}]"] if private is not None else []
    return " ".join(parts)


def text_of(value: object) -> str:
    """A text that stands for itself in a list: plain words and numbers bare, all else in quotes."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tuple):
        return f"({', '.join(map(text_of, cast('tuple[object, ...]', value)))})"
    if isinstance(value, frozenset):  # its own repr differs from run to run
        return f"{{{', '.join(sorted(map(text_of, cast('frozenset[object]', value))))}}}"
    text = value.name if isinstance(value, enum.Enum) else value if isinstance(value, str) else repr(value)
    return text if re.fullmatch(r"[\w.+\-*/|#]+", text) else repr(text)
