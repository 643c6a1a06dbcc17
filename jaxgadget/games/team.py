"""Team games as two-player games: the resolving seat against all of its opponents.

After GuanDan in *Efficient subgame refinement for extensive-form games* (appendix, C.4): only one member of a
team re-solves, and teammates' nodes become chance nodes with the blueprint's probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from jaxgadget.games.game import CHANCE, PLAYER_0, PROBABILITY_TOLERANCE, CutRule, CutView, level_slices
from jaxgadget.games.multiplayer import CHANCE_SEAT, MultiplayerRules, MultiplayerStep
from jaxgadget.games.openspiel import PREFIX, OpenSpielRules, PyspielGame, is_pyspiel_game
from jaxgadget.games.parameters import name_with
from jaxgadget.games.stepwise import Rules, Step, StepwiseGame, infostate_text, noticed_text, text_of
from jaxgadget.util.arguments import function_name, read_whole_number
from jaxgadget.util.arrays import BoolArray


class Seen(NamedTuple):
    """Observation of one move by a seat: its own action (-1 for none) and its observations."""

    action: int
    public: Hashable
    private: Hashable


Memory: TypeAlias = tuple[Seen, ...]
"""A seat's observations of all moves, in order, without moves that it did not observe."""

TeammatePolicy: TypeAlias = Callable[[Memory, Sequence[int]], Sequence[float]]
"""`policy(memory, legal)`: probabilities of a teammate's legal actions, ascending."""

Table: TypeAlias = Mapping[str, Mapping[str, float]]
"""Probabilities by infostate string (of player 0 in `team(game, (seat,))`) and action; by default 0."""


def uniform(memory: Memory, legal: Sequence[int]) -> list[float]:
    """A teammate's uniform policy."""
    return [1 / len(legal)] * len(legal)


def team(
    game: MultiplayerRules[Any] | PyspielGame | str,
    seats: Sequence[int] = (0,),
    teammates: Mapping[int, TeammatePolicy | Table] | Collection[int] = (),
    *,
    name: str | None = None,
) -> StepwiseGame:
    """Converts a game with two or more players to a two-player game.

    Player 0 controls `seats`; `teammates` are chance nodes that play fixed policies; player 1 controls all
    other seats. A player's payoff is the sum of its team's rewards, including teammates'. Simultaneous seats
    move in sequence without observing each other: player 0's, then player 1's, then teammates'. Teammates'
    actions of probability 0 are omitted from the tree.

    Consequences:

    - Player 1 is all opponents with *joint information*: they share all observations, including cards, and
      act as one. This is stronger than opponents who only coordinate their strategies, so player 0's
      guarantee against player 1 also holds against them: the value is conservative.
    - Teammates follow their policies even after they observe that player 0 deviated from the blueprint. The
      solution is not a team equilibrium but player 0's optimum given its teammates.
    - Several `seats` have joint information, too, which overestimates what they can achieve.
    - The appendix's gadget (C.5), in which each opponent in turn decides whether to enter a subgame, with its
      own alternative value, is not implemented. It has three players, two of them with equal payoffs and
      different information, so it is not two-player zero-sum, and neither the minimax theorem nor the bound
      of a safe gadget holds. In this implementation the joint opponent has one alternative value per joint
      infostate.

    Args:
      game: rules for two or more players, or an OpenSpiel game, as `openspiel:NAME(…)` or a pyspiel object.
      seats: player 0's seats.
      teammates: policies by seat: a function of the seat's memory and its legal actions, or a table by
        infostate strings of `team(game, (seat,))`, for example from a solution of that game; or only the
        seats of teammates, which then play uniformly.
      name: name of the game; by default `team(game=NAME,…)`, which `load` accepts for OpenSpiel games with
        uniform teammates.

    Returns:
      The game, with the named cuts of `game`. Enumeration raises a ValueError if the teams' payoffs do not
      add up to a constant or a policy's probabilities do not sum to 1.

    Raises:
      ValueError: if `game` is not such a game, or a seat is unknown or duplicate, or player 0 or player 1 has
        no seat.
      ImportError: for an OpenSpiel game if OpenSpiel is not installed.
    """
    rules = _read_game(game)
    sides = _read_sides(rules, seats, teammates)
    policy_of = cast("Mapping[int, object]", teammates) if isinstance(teammates, Mapping) else {}
    policies = {seat: _read_policy(rules, seat, policy_of.get(seat, uniform)) for seat in sides.teammates}
    return StepwiseGame(TeamRules(rules, sides, policies, name or _name(rules, sides, policies)))


def load_team(spec: str, texts: Mapping[str, str]) -> StepwiseGame:
    """Loads a multiplayer OpenSpiel game by name, `team(game=openspiel:NAME(…),seats=0+1)`.

    Args:
      spec: the specification, for errors.
      texts: the parameters' texts.

    Raises:
      ValueError: if a parameter is unknown, malformed or invalid.
    """
    if unknown := set(texts) - {"game", "seats", "teammates"}:
        raise ValueError(
            f"game {spec!r}: parameter {min(unknown)!r} is unknown; expected game, seats and teammates"
        )
    if not texts.get("game", "").startswith(PREFIX):
        raise ValueError(
            f"game {spec!r}: expected game={PREFIX}NAME(…), an OpenSpiel game; for other rules write "
            "a function that returns jaxgadget.team(…) and load path.py:function"
        )
    seats = {key: _read_seats(spec, key, texts.get(key, text)) for key, text in _DEFAULTS.items()}
    return team(texts["game"], seats["seats"], seats["teammates"])


def own_decision(n: int) -> CutRule:
    """Cut at player 0's n-th decision, counted from 1."""

    def is_root(view: CutView) -> BoolArray:
        made = np.zeros(len(view.parent), np.int64)
        for begin, end in level_slices(view.parent):
            made[begin:end] = made[view.parent[begin:end]] + (view.action[0, begin:end] >= 0)
        return ((view.actor & PLAYER_0) > 0) & (made == n - 1)

    return is_root


class Sides(NamedTuple):
    """Seats of player 0, of player 1, and of player 0's teammates, each ascending."""

    own: tuple[int, ...]
    opponents: tuple[int, ...]
    teammates: tuple[int, ...]


class TeamState(NamedTuple):
    """A state of the game, with teammates' memories and the seats still to move.

    Attributes:
      state: the game's state.
      memories: memory of each teammate.
      waiting: the seats that are still to move, the next one first; chance; or empty at the end.
      chosen: moves already made in a simultaneous move, as `(seat, action)`.
    """

    state: Any
    memories: tuple[Memory, ...]
    waiting: tuple[int, ...]
    chosen: tuple[tuple[int, int], ...] = ()


class TeamRules(Rules[TeamState]):
    """The two-player rules of `team`.

    A player with one seat has the seat's observations. A player with several seats observes a tuple of
    `(seat, observation)` pairs, and `("acts", seat)` where one of them is to move.
    """

    def __init__(
        self,
        game: MultiplayerRules[Any],
        sides: Sides,
        policies: Mapping[int, TeammatePolicy],
        name: str,
    ):
        self.game = game
        self.name = name
        self.actions = game.actions
        self.sides = sides
        self.policies = policies
        order = [*sides.own, *sides.opponents, *sides.teammates]
        self._rank = {seat: rank for rank, seat in enumerate(order)}

    def initial_state(self) -> TeamState:
        """The game's initial state, with empty memories."""
        state = self.game.initial_state()
        return TeamState(state, ((),) * len(self.sides.teammates), self._waiting(state))

    def actors(self, state: TeamState) -> tuple[int, ...]:
        """The player of the next seat; chance for teammates."""
        if not state.waiting:
            return ()
        return next((((p,) for p in (0, 1) if state.waiting[0] in self.sides[p])), (CHANCE,))

    def legal_actions(self, state: TeamState, player: int) -> Sequence[int]:
        """Legal actions of the next seat."""
        return self.game.legal_actions(state.state, state.waiting[0])

    def chance_outcomes(self, state: TeamState) -> list[tuple[int, float]]:
        """The game's chance outcomes, or a teammate's actions with its policy's probabilities."""
        seat = state.waiting[0]
        if seat == CHANCE_SEAT:
            return list(self.game.chance_outcomes(state.state))
        legal = sorted(self.game.legal_actions(state.state, seat))
        memory = state.memories[self.sides.teammates.index(seat)]
        returned: Any = self.policies[seat](memory, legal)
        try:
            probabilities = [float(p) for p in returned]
        except (OverflowError, TypeError, ValueError):
            probabilities = []
        is_distribution = abs(math.fsum(probabilities) - 1) <= PROBABILITY_TOLERANCE
        if len(probabilities) != len(legal) or not (is_distribution and min(probabilities) >= 0):
            raise ValueError(
                f"{self.name}: the policy of teammate {seat} returned {returned!r} for its legal actions "
                f"{legal} and memory {memory!r}; expected a probability for each of them, with sum 1"
            )
        return [(action, p) for action, p in zip(legal, probabilities, strict=True) if p > 0]

    def step(self, state: TeamState, move: int) -> Step[TeamState]:
        """Records a seat's move; steps the game when all seats have moved."""
        chosen = state.chosen
        if state.waiting[0] != CHANCE_SEAT:
            chosen = (*chosen, (state.waiting[0], move))
            if len(state.waiting) > 1:
                after = TeamState(state.state, state.memories, state.waiting[1:], chosen)
                return Step(after, private=self._observations(after, ()))
        actions = [action for _, action in sorted(chosen)]
        done: Any = self.game.step(state.state, tuple(actions) if len(actions) > 1 else move)
        step, rewards = self._checked(done, state.state)
        memories = tuple(
            _remember(memory, Seen(dict(chosen).get(seat, -1), step.public, _of(step.private, seat)))
            for seat, memory in zip(self.sides.teammates, state.memories, strict=True)
        )
        after = TeamState(step.state, memories, self._waiting(step.state))
        theirs = math.fsum(rewards[seat] for seat in self.sides.opponents)
        ours = math.fsum(rewards[seat] for seat in (*self.sides.own, *self.sides.teammates))
        return Step(after, (ours, theirs), step.public, self._observations(after, step.private))

    def cuts(self) -> Mapping[str, CutRule]:
        """The game's named cuts."""
        return self.game.cuts()

    def _waiting(self, state: Any) -> tuple[int, ...]:
        """Seats to move, in the order of their moves."""
        returned: Any = self.game.actors(state)
        acting: list[Any] = list(returned) if isinstance(returned, Collection) else [None]
        if acting == [CHANCE_SEAT]:
            return (CHANCE_SEAT,)
        if len(set(acting)) < len(acting) or not all(seat in self._rank for seat in acting):
            raise ValueError(
                f"{self.name}: actors() returned {returned!r} at {state!r}; expected distinct seats from 0 "
                f"to {self.game.num_players - 1}, (CHANCE_SEAT,) or ()"
            )
        return tuple(sorted(acting, key=self._rank.__getitem__))

    def _checked(self, step: Any, state: Any) -> tuple[MultiplayerStep[Any], list[float]]:
        """Validates the game's step; returns it with a reward for each seat."""
        count = self.game.num_players
        is_step = isinstance(step, MultiplayerStep) and len(step.private) in (0, count)
        try:
            rewards = [float(reward) for reward in step.rewards] or [0.0] * count if is_step else []
        except (OverflowError, TypeError, ValueError):
            rewards = []
        if len(rewards) != count or not all(map(math.isfinite, rewards)):
            raise ValueError(
                f"{self.name}: step() returned {step!r} at {state!r}; return MultiplayerStep(state, rewards, "
                f"public, private) with {count} finite rewards and {count} private observations, () for none"
            )
        return step, rewards

    def _observations(self, after: TeamState, private: Sequence[Hashable]) -> tuple[Hashable, Hashable]:
        return self._observation(0, after, private), self._observation(1, after, private)

    def _observation(self, player: int, after: TeamState, private: Sequence[Hashable]) -> Hashable:
        """Private observation of a player, from all of its seats."""
        seats: tuple[int, ...] = self.sides[player]
        if len(seats) == 1:
            return _of(private, seats[0])
        seen: list[Hashable] = [
            (seat, _of(private, seat)) for seat in seats if _of(private, seat) is not None
        ]
        if after.waiting and after.waiting[0] in seats:
            seen.append(("acts", after.waiting[0]))
        return tuple(seen) or None


_DEFAULTS = {"seats": "0", "teammates": ""}


def _of(private: Sequence[Hashable], seat: int) -> Hashable:
    return private[seat] if private else None


def _remember(memory: Memory, seen: Seen) -> Memory:
    return memory if seen == (-1, None, None) else (*memory, seen)


def _read_game(game: object) -> MultiplayerRules[Any]:
    if isinstance(game, str) and game.startswith(PREFIX):
        return OpenSpielRules(game.removeprefix(PREFIX))
    if is_pyspiel_game(game):
        return OpenSpielRules(game)
    if not isinstance(game, MultiplayerRules):
        raise ValueError(
            f"game={game!r}: expected multiplayer rules (jaxgadget.games.multiplayer.MultiplayerRules), "
            f"'{PREFIX}NAME(…)', or a pyspiel game; pass an instance, not a class"
        )
    rules = cast("MultiplayerRules[Any]", game)
    count: Any = getattr(rules, "num_players", None)
    if not isinstance(count, int) or count < 2:
        raise ValueError(
            f"{type(rules).__name__}: num_players={count!r}: expected the number of players, at "
            "least 2; set it in the class"
        )
    return rules


def _read_sides(rules: MultiplayerRules[Any], seats: Any, teammates: Any) -> Sides:
    count = rules.num_players
    sides: list[tuple[int, ...]] = []
    for argument, specified in (("seats", seats), ("teammates", teammates)):
        seat_list: list[Any] = list(specified) if isinstance(specified, Collection) else [None]
        is_seat = [
            isinstance(seat, int) and not isinstance(seat, bool) and 0 <= seat < count for seat in seat_list
        ]
        if not all(is_seat) or len(set(seat_list)) < len(seat_list):
            raise ValueError(
                f"{rules.name}: {argument}={specified!r}: expected distinct seats from 0 to {count - 1}, "
                "such as (0,)"
            )
        sides.append(tuple(sorted(seat_list)))
    own, mates = sides
    others = tuple(seat for seat in range(count) if seat not in (*own, *mates))
    if not own or not others or set(own) & set(mates):
        raise ValueError(
            f"{rules.name}: seats={seats!r} and teammates={sorted(mates)} of {count} players: expected at "
            "least one seat of player 0, at least one of its opponent, and no seat in both"
        )
    return Sides(own, others, mates)


def _read_policy(rules: MultiplayerRules[Any], seat: int, policy: object) -> TeammatePolicy:
    if callable(policy):
        return cast("TeammatePolicy", policy)
    if not isinstance(policy, Mapping):
        raise ValueError(
            f"{rules.name}: teammates: {policy!r} of seat {seat}: expected a function of the seat's "
            "memory and legal actions, such as jaxgadget.games.team.uniform, or a table of infostates"
        )
    rows = cast("Table", policy)

    def table(memory: Memory, legal: Sequence[int]) -> list[float]:
        infostate = infostate_text(0, [_as_text(rules, seen) for seen in memory])
        if infostate not in rows:
            raise ValueError(
                f"{rules.name}: the table of teammate {seat} has no row for {infostate!r}; expected one for "
                "each infostate where it acts"
            )
        return [rows[infostate].get(rules.actions[action], 0.0) for action in legal]

    return table


def _as_text(rules: MultiplayerRules[Any], seen: Seen) -> str:
    action = None if seen.action < 0 else text_of(rules.actions[seen.action])
    public, private = (
        None if seen_of is None else text_of(seen_of) for seen_of in (seen.public, seen.private)
    )
    return noticed_text(action, public, private)


def _read_seats(spec: str, key: str, text: str) -> tuple[int, ...]:
    """Parses seats such as `0+2`."""
    numbers = [read_whole_number(part) for part in text.split("+")] if text else []
    if None in numbers:
        raise ValueError(f"game {spec!r}: {key}={text}: expected seats, such as 0 or 0+2")
    return tuple(number for number in numbers if number is not None)


def _name(rules: MultiplayerRules[Any], sides: Sides, policies: Mapping[int, TeammatePolicy]) -> str:
    def shown(seat: int) -> str:
        policy = policies.get(seat, uniform)
        return str(seat) if policy is uniform else f"{seat}:{function_name(policy) or 'own'}"

    values = {key: "+".join(map(shown, getattr(sides, s))) for key, s in _SIDES.items()}
    return name_with("team", {"game": rules.name, **values}, {"game": None, **_DEFAULTS})


_SIDES = {"seats": "own", "teammates": "teammates"}
