"""A game of more players as one of two: the resolving seat against all of its opponents.

After GuanDan in *Efficient subgame refinement for extensive-form games* (appendix, C.4): only one member of a
team re-solves, and a teammate's nodes become chance that plays the blueprint.
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
    """What a seat noticed of one move: its own action (-1 for none), and what it observed."""

    action: int
    public: Hashable
    private: Hashable


Memory: TypeAlias = tuple[Seen, ...]
"""All that a seat noticed, in order; moves of which it noticed nothing are left out."""

TeammatePolicy: TypeAlias = Callable[[Memory, Sequence[int]], Sequence[float]]
"""`policy(memory, legal)`: the probabilities of a teammate's legal actions, which are ascending."""

Table: TypeAlias = Mapping[str, Mapping[str, float]]
"""A policy by names: infostate, as it is called where the seat is player 0, action (0 if left out)."""


def uniform(memory: Memory, legal: Sequence[int]) -> list[float]:
    """A teammate that plays all legal actions alike."""
    return [1 / len(legal)] * len(legal)


def team(
    game: MultiplayerRules[Any] | PyspielGame | str,
    seats: Sequence[int] = (0,),
    teammates: Mapping[int, TeammatePolicy | Table] | Collection[int] = (),
    *,
    name: str | None = None,
) -> StepwiseGame:
    """Makes a two-player game of one with more players.

    Player 0 sits at `seats`; `teammates` are chance that plays given policies; all other seats are player 1.
    A player's payoff is the sum of its team's rewards, teammates' included. Seats that move at once choose
    one after the other, unseen: player 0's, then player 1's, then teammates'. A teammate's action of
    probability 0 is no history of the game.

    What that means:

    - Player 1 is all opponents with *joint information*: each sees what the other sees, cards included, and
      they act as one. That is stronger than opponents who only agreed on strategies, so what player 0 is
      guaranteed against player 1 it is guaranteed against them: the value is conservative.
    - Teammates follow their policies whatever happens, also where they could see that player 0 deviates from
      the blueprint. So no equilibrium of teams is computed, but player 0's best of it given its teammates.
    - Several `seats` have joint information too, which flatters them: they may not be able to play so.
    - The appendix's gadget (C.5), in which one opponent after the other decides whether to enter a subgame,
      each by its own alternative value, is left out: it has three players, of whom two have equal payoffs and
      different knowledge. So it is not two-player zero-sum, and neither minimax nor the bound of a safe
      gadget holds in it. Here the joint opponent has an alternative value for each of its joint infostates.

    Args:
      game: rules of two or more players; or OpenSpiel's, as `openspiel:NAME(…)` or as pyspiel loaded it.
      seats: where player 0 sits.
      teammates: the policy of each teammate, by seat: a function of what it noticed and its legal actions, or
        a table of infostates as they are called in `team(game, (seat,))`, such as a solution of that game
        has; or only the teammates' seats, then all play uniformly.
      name: what the game is called; by default `team(game=NAME,…)`, which `load` takes back for OpenSpiel's
        games with uniform teammates.

    Returns:
      The game; the cuts are those that `game` names. While it is enumerated, a ValueError says which of the
      rules is broken: payoffs of the teams must add up to a constant, a policy's probabilities to 1.

    Raises:
      ValueError: if `game` is no such game, or a seat is none of the game's, is named twice, or leaves nobody
        as player 0 or as opponent.
      ImportError: if a game of OpenSpiel's is asked for and OpenSpiel is missing.
    """
    rules = _read_game(game)
    sides = _read_sides(rules, seats, teammates)
    given = cast("Mapping[int, object]", teammates) if isinstance(teammates, Mapping) else {}
    policies = {seat: _read_policy(rules, seat, given.get(seat, uniform)) for seat in sides.teammates}
    return StepwiseGame(TeamRules(rules, sides, policies, name or _name(rules, sides, policies)))


def load_team(spec: str, texts: Mapping[str, str]) -> StepwiseGame:
    """Makes a game of OpenSpiel's for more players by its name, `team(game=openspiel:NAME(…),seats=0+1)`.

    Args:
      spec: as it was written, for errors.
      texts: the parameters' texts.

    Raises:
      ValueError: if a parameter is unknown or malformed, or `team` refuses it.
    """
    if unknown := set(texts) - {"game", "seats", "teammates"}:
        raise ValueError(
            f"game {spec!r}: parameter {min(unknown)!r} is unknown; expected game, seats and teammates"
        )
    if not texts.get("game", "").startswith(PREFIX):
        raise ValueError(
            f"game {spec!r}: expected game={PREFIX}NAME(…), a game of OpenSpiel's; for your own rules write "
            "a function that returns jaxgadget.team(…), and name it path.py:function"
        )
    seats = {key: _read_seats(spec, key, texts.get(key, text)) for key, text in _DEFAULTS.items()}
    return team(texts["game"], seats["seats"], seats["teammates"])


def own_decision(number: int) -> CutRule:
    """The cut where player 0 makes its decision of that number, the first being 1."""

    def is_root(view: CutView) -> BoolArray:
        made = np.zeros(len(view.parent), np.int64)
        for begin, end in level_slices(view.parent):
            made[begin:end] = made[view.parent[begin:end]] + (view.action[0, begin:end] >= 0)
        return ((view.actor & PLAYER_0) > 0) & (made == number - 1)

    return is_root


class Sides(NamedTuple):
    """The seats of player 0, of player 1, and of player 0's teammates, each ascending."""

    own: tuple[int, ...]
    opponents: tuple[int, ...]
    teammates: tuple[int, ...]


class TeamState(NamedTuple):
    """A state of the game, with what teammates remember and who is still to move.

    Attributes:
      state: the game's state.
      memories: what each teammate noticed so far.
      waiting: the seats that are still to move here, the next one first; or chance, or nobody.
      chosen: the moves of seats that move at once with the next one, as `(seat, action)`.
    """

    state: Any
    memories: tuple[Memory, ...]
    waiting: tuple[int, ...]
    chosen: tuple[tuple[int, int], ...] = ()


class TeamRules(Rules[TeamState]):
    """The two-player rules that `team` makes.

    A player of one seat observes what the seat does. One of several observes a tuple: pairs of a seat and
    what it saw, and `("acts", seat)` where one of them is to move.
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
        """The game's, with empty memories."""
        state = self.game.initial_state()
        return TeamState(state, ((),) * len(self.sides.teammates), self._waiting(state))

    def actors(self, state: TeamState) -> tuple[int, ...]:
        """The player whose seat is next; chance also where a teammate is."""
        if not state.waiting:
            return ()
        return next((((p,) for p in (0, 1) if state.waiting[0] in self.sides[p])), (CHANCE,))

    def legal_actions(self, state: TeamState, player: int) -> Sequence[int]:
        """Those of the seat that is next."""
        return self.game.legal_actions(state.state, state.waiting[0])

    def chance_outcomes(self, state: TeamState) -> list[tuple[int, float]]:
        """The game's, or a teammate's actions as its policy plays them."""
        seat = state.waiting[0]
        if seat == CHANCE_SEAT:
            return list(self.game.chance_outcomes(state.state))
        legal = sorted(self.game.legal_actions(state.state, seat))
        memory = state.memories[self.sides.teammates.index(seat)]
        given: Any = self.policies[seat](memory, legal)
        try:
            probabilities = [float(p) for p in given]
        except (TypeError, ValueError):
            probabilities = []
        is_distribution = abs(math.fsum(probabilities) - 1) <= PROBABILITY_TOLERANCE
        if len(probabilities) != len(legal) or not (is_distribution and min(probabilities) >= 0):
            raise ValueError(
                f"{self.name}: the policy of teammate {seat} returned {given!r} for its legal actions "
                f"{legal} after it noticed {memory!r}; expected a probability for each of them, with sum 1"
            )
        return [(action, p) for action, p in zip(legal, probabilities, strict=True) if p > 0]

    def step(self, state: TeamState, move: int) -> Step[TeamState]:
        """Takes down a seat's choice, and makes the game's step when all have chosen."""
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
        """The game's."""
        return self.game.cuts()

    def _waiting(self, state: Any) -> tuple[int, ...]:
        """Who moves, in the order in which they choose."""
        given: Any = self.game.actors(state)
        who: list[Any] = list(given) if isinstance(given, Collection) else [None]
        if who == [CHANCE_SEAT]:
            return (CHANCE_SEAT,)
        if len(set(who)) < len(who) or not all(seat in self._rank for seat in who):
            raise ValueError(
                f"{self.name}: actors() returned {given!r} at {state!r}; expected distinct seats from 0 to "
                f"{self.game.num_players - 1}, (CHANCE_SEAT,) or ()"
            )
        return tuple(sorted(who, key=self._rank.__getitem__))

    def _checked(self, step: Any, state: Any) -> tuple[MultiplayerStep[Any], list[float]]:
        """What the game returned, and a reward for each seat."""
        count = self.game.num_players
        is_step = isinstance(step, MultiplayerStep) and len(step.private) in (0, count)
        try:
            rewards = [float(reward) for reward in step.rewards] or [0.0] * count if is_step else []
        except (TypeError, ValueError):
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
        """What a player sees privately, by all of its seats."""
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
            f"game={game!r}: expected rules of more players (jaxgadget.games.multiplayer.MultiplayerRules), "
            f"'{PREFIX}NAME(…)', or a game of pyspiel's; a class must be called first"
        )
    rules = cast("MultiplayerRules[Any]", game)
    count: Any = getattr(rules, "num_players", None)
    if not isinstance(count, int) or count < 2:
        raise ValueError(
            f"{type(rules).__name__}: num_players={count!r}: expected how many players the game has, at "
            "least 2; set it in the class"
        )
    return rules


def _read_sides(rules: MultiplayerRules[Any], seats: Any, teammates: Any) -> Sides:
    count = rules.num_players
    sides: list[tuple[int, ...]] = []
    for argument, given in (("seats", seats), ("teammates", teammates)):
        who: list[Any] = list(given) if isinstance(given, Collection) else [None]
        is_seat = [isinstance(seat, int) and not isinstance(seat, bool) and 0 <= seat < count for seat in who]
        if not all(is_seat) or len(set(who)) < len(who):
            raise ValueError(
                f"{rules.name}: {argument}={given!r}: expected distinct seats from 0 to {count - 1}, such as "
                "(0,)"
            )
        sides.append(tuple(sorted(who)))
    own, mates = sides
    others = tuple(seat for seat in range(count) if seat not in (*own, *mates))
    if not own or not others or set(own) & set(mates):
        raise ValueError(
            f"{rules.name}: seats={seats!r} and teammates={sorted(mates)} of {count} players: expected at "
            "least one seat of player 0, at least one left to be its opponent, and none in both"
        )
    return Sides(own, others, mates)


def _read_policy(rules: MultiplayerRules[Any], seat: int, policy: object) -> TeammatePolicy:
    if callable(policy):
        return cast("TeammatePolicy", policy)
    if not isinstance(policy, Mapping):
        raise ValueError(
            f"{rules.name}: teammates: {policy!r} of seat {seat}: expected a function of what the seat "
            "noticed and its legal actions, such as jaxgadget.games.team.uniform, or a table of infostates"
        )
    rows = cast("Table", policy)

    def table(memory: Memory, legal: Sequence[int]) -> list[float]:
        infostate = infostate_text(0, [_as_text(rules, seen) for seen in memory])
        if infostate not in rows:
            raise ValueError(
                f"{rules.name}: the table of teammate {seat} has no row of {infostate!r}; expected one for "
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
    """`0+2` as seats."""
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
