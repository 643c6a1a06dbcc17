"""Games defined one state at a time, adapted to the level-by-level protocol of `game.py`.

To define a game, subclass `Rules` and call `jaxgadget.load(MyRules())` or `StepwiseGame(MyRules())`.
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
    """Result of one move.

    Attributes:
      state: the state after the move.
      reward: player 0's reward for this move, player 1's is the negative; or a pair of both
        players' rewards. Rewards add up along a history.
      public: observation of both players, any hashable value; None for none.
      private: private observations of player 0 and of player 1, in the same form. A player always
        knows its own actions, but those of the other player only through observations.
    """

    state: State
    reward: float | tuple[float, float] = 0.0
    public: Hashable = None
    private: tuple[Hashable, Hashable] = (None, None)


class Rules(abc.ABC, Generic[State]):
    """Base class of two-player zero- or constant-sum games that are defined one state at a time.

    A state is any immutable value. `name` is the game's name, and `actions` are the names
    of the players' actions: action `a` is `actions[a]`.

    A player's infostate is its previous infostate, its own action and its observation. It does not change if
    the player neither acted nor observed anything.
    """

    name: str
    actions: Sequence[str]

    @abc.abstractmethod
    def initial_state(self) -> State:
        """The state before the first move."""

    @abc.abstractmethod
    def actors(self, state: State) -> Collection[int]:
        """Acting players: `(0,)`, `(1,)`, `(0, 1)` if simultaneous, `(CHANCE,)`, or `()` at the end."""

    @abc.abstractmethod
    def legal_actions(self, state: State, player: int) -> Sequence[int]:
        """The player's legal actions where it acts, in any order."""

    @abc.abstractmethod
    def step(self, state: State, move: Any) -> Step[State]:
        """Applies a move: an action, a chance outcome, or `(action 0, action 1)` if simultaneous."""

    def chance_outcomes(self, state: State) -> Sequence[tuple[int, float]]:
        """`(outcome, probability)` pairs at a chance node; outcomes are integers >= 0."""
        raise NotImplementedError(f"{self.name} has chance nodes: implement chance_outcomes()")

    def infostate_string(self, state: State, player: int) -> str | None:
        """A unique string of the acting player's infostate; None for the default string.

        The default lists the player's actions and observations: `>own action`, `public`, `[private]`.
        """
        return None

    def bet_fraction(self, state: State, action: int) -> float | None:
        """Size of a bet, as in `jaxgadget.games.game.BetSizes`; by default None (no action is a bet)."""
        return None

    def cuts(self) -> Mapping[str, CutRule]:
        """Named cuts of the game, by default none."""
        return {}


class _Position(NamedTuple):
    state: Any
    moves: tuple[Move, ...]


_Link: TypeAlias = tuple[int, int, int, int]
"""Previous infostate, own action, public and private observation; -1 for none."""


class StepwiseGame(PerStateGame):
    """Adapts `Rules` to the `Game` protocol; raises ValueError if the rules return invalid values."""

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
        """Number of names in `rules.actions`."""
        return len(self._actions)

    def action_string(self, player: int, action: int) -> str:
        """The action's name in `rules.actions`."""
        return self._actions[action]

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """The rules' string; by default the player's actions and observations, step by step."""
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
        """The rules' named cuts."""
        return self.rules.cuts()

    def bet_fraction(self, history: Sequence[Move], action: int) -> float | None:
        """The rules' `bet_fraction` after the history."""
        position: _Position = self.replay(history).state
        return self.rules.bet_fraction(position.state, action)

    def root(self) -> Node:
        """The initial state's node."""
        return self._arrive(Node(_Position(self.rules.initial_state(), ()), TERMINAL, (0, 0)))

    def branches(self, node: Node) -> list[Branch]:
        """Legal actions or chance outcomes of the rules."""
        position: _Position = node.state
        if node.actor == CHANCE:
            return self._outcomes(position)
        legal = [self._legal(position, p) if node.actor & ACTOR_BIT[p] else [-1] for p in (0, 1)]
        return [Branch((first, second, -1)) for first in legal[0] for second in legal[1]]

    def child(self, node: Node, branch: Branch) -> Node:
        """Applies one move and records the observations."""
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
        """Completes a new node with its acting players."""
        position: _Position = node.state
        actors: Any = self.rules.actors(position.state)
        players: list[Any] = list(actors) if isinstance(actors, Collection) else [actors, None]
        if not all(player in (0, 1) for player in players) and players != [CHANCE]:
            raise self._error(
                position.moves,
                f"actors() returned {actors!r}",
                "expected (0,), (1,), (0, 1), (CHANCE,) or ()",
            )
        acting = [player for player in (0, 1) if player in players]
        for player in acting:
            self._take_name(player, node.infostate[player], position)
        return node._replace(actor=CHANCE if players == [CHANCE] else sum(ACTOR_BIT[p] for p in acting))

    def _legal(self, position: _Position, player: int) -> list[int]:
        returned = self.rules.legal_actions(position.state, player)
        legal = _distinct_integers(returned)
        if not legal or max(legal) >= self.num_actions:
            raise self._error(
                position.moves,
                f"player {player} acts, but legal_actions() returned {returned!r}",
                f"expected distinct indices of {self._actions}; actors() must return () at the end",
            )
        return sorted(legal)

    def _outcomes(self, position: _Position) -> list[Branch]:
        returned: Any = list(self.rules.chance_outcomes(position.state))
        outcomes = (
            _distinct_integers([pair[0] for pair in returned]) if all(map(_is_pair, returned)) else None
        )
        probabilities = [_as_float(pair[1]) for pair in returned] if outcomes else []
        total = math.fsum(probabilities)
        if not outcomes or min(probabilities) < 0 or not abs(total - 1) <= PROBABILITY_TOLERANCE:
            fault = f"whose probabilities sum to {total:.12g}"
            if not outcomes:
                fault = "which are not pairs with distinct outcomes"
            elif min(probabilities) < 0:
                fault = f"where {min(probabilities):g} is negative"
            raise self._error(
                position.moves,
                f"chance_outcomes() returned {returned!r}, {fault}",
                "expected pairs of distinct integers >= 0 and probabilities >= 0 that sum to 1",
            )
        return [Branch((-1, -1, k), p) for k, p in sorted(zip(outcomes, probabilities, strict=True))]

    def _rewards(self, reward: Any, moves: tuple[Move, ...]) -> tuple[float, float]:
        try:
            first, second = map(float, reward if isinstance(reward, tuple) else (reward, 0.0 - reward))
        except (OverflowError, TypeError, ValueError):
            first = second = math.nan
        if not (math.isfinite(first) and math.isfinite(second)):
            raise self._error(
                moves,
                f"reward={reward!r} of player {int(math.isfinite(first))}",
                "expected finite numbers: player 0's, or a tuple of both players'",
            )
        return first, second

    def _code(self, observation: Hashable, moves: tuple[Move, ...], observer: str) -> int:
        """Code of an observation, -1 for None; distinct observations must have distinct texts."""
        if observation is None:
            return -1
        try:
            code = self._codes.get(observation)
        except TypeError:
            raise self._error(
                moves,
                f"the observation {observation!r} of {observer} is not hashable",
                "use a tuple or a string",
            ) from None
        if code is None:
            text = text_of(observation)
            if text in self._taken or " at 0x" in text:
                raise self._error(
                    moves,
                    f"the observation {observation!r} of {observer} has no unique text",
                    "define a __repr__ that is deterministic and unique",
                )
            self._texts.append(text)
            self._taken.add(text)
            code = self._codes[observation] = len(self._codes)
        return code

    def _take_name(self, player: int, infostate: int, position: _Position) -> None:
        """Records the rules' string of an infostate."""
        name = self.rules.infostate_string(position.state, player)
        if name is None:
            return
        previous = self._own_names[player].setdefault(infostate, name)
        if previous != name or self._named[player].setdefault(name, infostate) != infostate:
            raise self._error(
                position.moves,
                f"infostate_string() of player {player} returned {name!r}",
                f"it must be unique to the infostate (previously {previous!r}); correct the string or the "
                "observations",
            )

    def _error(self, moves: tuple[Move, ...], problem: str, remedy: str) -> ValueError:
        return ValueError(f"{self.name}: {problem} after history {moves!r}; {remedy}")


def _as_float(value: Any) -> float:
    """The value as a float; NaN for one that is not a number, or an integer beyond the largest float."""
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):
        return math.nan


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple) and len(cast("tuple[object, ...]", value)) == 2


def _distinct_integers(values: Any) -> list[int] | None:
    """The values as integers >= 0, or None if they are not distinct integers >= 0."""
    try:
        integers = [operator.index(value) for value in values]
    except TypeError:
        return None
    return integers if len(set(integers)) == len(integers) and min(integers, default=0) >= 0 else None


def infostate_text(player: int, steps: Sequence[str]) -> str:
    """Default string of a player's infostate: its actions and observations, step by step."""
    return f"{player}: {', '.join(steps)}".rstrip()


def noticed_text(action: str | None, public: str | None, private: str | None) -> str:
    """Text of one step: the player's own action and its observations, None for none."""
    texts = [f">{action}"] if action is not None else []
    texts += [public] if public is not None else []
    texts += [f"[{private}]"] if private is not None else []
    return " ".join(texts)


def text_of(value: object) -> str:
    """An unambiguous text of a value: plain words and numbers as they are, everything else quoted."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tuple):
        return f"({', '.join(map(text_of, cast('tuple[object, ...]', value)))})"
    if isinstance(value, frozenset):  # its repr is not deterministic
        return f"{{{', '.join(sorted(map(text_of, cast('frozenset[object]', value))))}}}"
    text = value.name if isinstance(value, enum.Enum) else value if isinstance(value, str) else repr(value)
    return text if re.fullmatch(r"[\w.+\-*/|#]+", text) else repr(text)
