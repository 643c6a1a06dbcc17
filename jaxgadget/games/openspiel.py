"""Two-player zero- or constant-sum games of OpenSpiel.

Simultaneous moves are kept: one step is a joint action. At a history where a player
acts, its infostate is its `information_state_string`. Elsewhere (the other player's turn, chance, the
end) it is the player's last own infostate and action with the game's string there, if any. Equal
strings after equal own actions are the same infostate, so one may span histories of different
length. If an acting player has one string after different own actions, the game has imperfect recall
and `tree.enumerate_game` raises a ValueError: for example `openspiel:leduc_poker(action_mapping=True)`
and `openspiel:goofspiel(imp_info=False)` from four cards on (the built-in games have perfect recall),
and `openspiel:dark_hex(num_cols=3,num_rows=2)` (perfect recall with `obstype=reveal-numturns`).

With `?observations` after the name, an infostate is instead the sequence of a player's own actions, its
observation strings where they change, and whether it is to act. This is perfect recall by definition, and
the only choice for games without information state strings, such as `openspiel:dark_chess?observations`.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeGuard

from jaxgadget.games.game import ACTOR_BIT, CHANCE, SIMULTANEOUS, TERMINAL, CutRule, Move
from jaxgadget.games.multiplayer import CHANCE_SEAT, MultiplayerRules, MultiplayerStep
from jaxgadget.games.per_state import Branch, Node, PerStateGame
from jaxgadget.games.stepwise import infostate_text, noticed_text, text_of

PREFIX = "openspiel:"

OBSERVATIONS = "?observations"
"""Suffix of the name of a game whose infostates are sequences of observations."""


class PyspielGame(Protocol):
    """Structural type of a pyspiel game, for type checkers."""

    def new_initial_state(self, *args: Any) -> Any:
        """The state before the first move."""
        ...

    def information_state_tensor_size(self) -> int:
        """Size of the information state tensor."""
        ...


def is_pyspiel_game(value: object) -> TypeGuard[PyspielGame]:
    """True if `value` is a pyspiel game."""
    pyspiel: Any = sys.modules.get("pyspiel")
    return pyspiel is not None and isinstance(value, pyspiel.Game)


class _StateAndPast(NamedTuple):
    """An OpenSpiel state, and the past of both players, `(infostate, action)`.

    A past is the infostate and action of the player's last decision. If infostates are made from
    observations, it is those of the last step, with action -1 if the player did not act.
    """

    state: Any
    past: tuple[tuple[int, int], tuple[int, int]]


class _Observed(NamedTuple):
    """The last step of an infostate by observations."""

    previous: int
    action: int
    acts: bool
    text: str | None


class OpenSpielGame(PerStateGame):
    """An OpenSpiel game, given by its string or as a pyspiel object.

    Args:
      spec: the game; a string may end with `?observations`.
      observations: make infostates from observations, as the suffix does.

    Raises:
      ImportError: if OpenSpiel is not installed.
      ValueError: if OpenSpiel has no such game, or the game is not for two players, not constant-sum, has
        sampled chance, or does not have the strings that infostates are made from.
    """

    def __init__(self, spec: str | PyspielGame, *, observations: bool = False):
        if isinstance(spec, str) and spec.strip().endswith(OBSERVATIONS):
            spec, observations = spec.strip().removesuffix(OBSERVATIONS), True
        self._game: Any
        self._game, name, self._error = _open(spec, two_players=True, observations=observations)
        self.name = name + OBSERVATIONS if observations else name
        self.observations = observations
        self._observed: tuple[list[_Observed], list[_Observed]] = ([], [])  # by infostate
        self._ids: tuple[dict[object, int], dict[object, int]] = ({}, {})
        self._acting: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self._action_names: dict[tuple[int, int], str] = {}

    @property
    def num_actions(self) -> int:
        """OpenSpiel's number of distinct actions."""
        return int(self._game.num_distinct_actions())

    def action_string(self, player: int, action: int) -> str:
        """OpenSpiel's name of the action; if state-dependent, as in the first state with the action."""
        name = str(self._game.action_to_string(player, action))
        if name.startswith("Action(id="):  # the game's default where names depend on the state
            return self._action_names.get((player, action), str(action))
        return name

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """OpenSpiel's information state string after the history, or all steps by observations."""
        if self.observations:
            return self._observations_text(player, self.replay(history).infostate[player])
        state = self._game.new_initial_state()
        for length, move in enumerate(history):
            joint = move if isinstance(move, tuple) else None
            actors = (0, 1) if joint else (state.current_player(),)
            moves = joint or (move,)
            if state.is_simultaneous_node() != bool(joint) or any(
                action not in state.legal_actions(p) for p, action in zip(actors, moves, strict=True)
            ):
                raise ValueError(
                    f"{self.name}: history={tuple(history)!r} is not in the game: {move!r} is not a legal "
                    f"move after {tuple(history[:length])!r}; take histories from the game's tree"
                )
            if joint:
                state.apply_actions(list(joint))
            else:
                state.apply_action(move)
        return str(state.information_state_string(player))

    def cuts(self) -> Mapping[str, CutRule]:
        """No named cuts."""
        return {}

    def root(self) -> Node:
        """OpenSpiel's initial state."""
        nothing = (-1, -1)
        return self._arrive(_StateAndPast(self._game.new_initial_state(), (nothing, nothing)))

    def branches(self, node: Node) -> list[Branch]:
        """Legal actions, joint actions, or chance outcomes."""
        position: _StateAndPast = node.state
        if node.actor == CHANCE:
            return [Branch((-1, -1, k), p) for k, p in sorted(position.state.chance_outcomes())]
        legal: list[list[int]] = [[-1], [-1]]
        for player in (0, 1):
            if node.actor & ACTOR_BIT[player]:
                legal[player] = self._legal(position.state, player)
        return [Branch((first, second, -1)) for first in legal[0] for second in legal[1]]

    def child(self, node: Node, branch: Branch) -> Node:
        """Applies a move to a copy of the state."""
        position: _StateAndPast = node.state
        move = branch.move
        state = position.state.clone()
        if isinstance(move, tuple):
            state.apply_actions(list(move))
        else:
            state.apply_action(move)
        first, second, _ = branch.action
        past = (
            (node.infostate[0], first) if first >= 0 or self.observations else position.past[0],
            (node.infostate[1], second) if second >= 0 or self.observations else position.past[1],
        )
        return self._arrive(_StateAndPast(state, past))

    def _arrive(self, position: _StateAndPast) -> Node:
        state = position.state
        if state.is_terminal():
            actor = TERMINAL
        elif state.is_chance_node():
            actor = CHANCE
        elif state.is_simultaneous_node():
            actor = SIMULTANEOUS
        else:
            actor = ACTOR_BIT[state.current_player()]
        infostate = (self._infostate(position, 0, actor), self._infostate(position, 1, actor))
        if actor != TERMINAL:
            return Node(position, actor, infostate)
        first, second = state.returns()
        return Node(None, actor, infostate, (first, second))

    def _infostate(self, position: _StateAndPast, player: int, actor: int) -> int:
        acts = bool(actor & ACTOR_BIT[player])
        if self.observations:
            return self._after_observation(position, player, acts)
        try:
            text = str(position.state.information_state_string(player))
        except self._error:
            if acts:
                raise
            text = None
        ids = self._ids[player]
        number = ids.setdefault((position.past[player], text), len(ids))
        return self._acting[player].setdefault(text, number) if acts and text is not None else number

    def _after_observation(self, position: _StateAndPast, player: int, acts: bool) -> int:
        """The infostate after an observation; unchanged if the player neither acted nor observed anything."""
        try:
            text = str(position.state.observation_string(player))
        except self._error:  # some games have no string where the player does not act
            text = None
        step = _Observed(*position.past[player], acts, text)
        observed = self._observed[player]
        if step.action < 0 and step.previous >= 0 and observed[step.previous][2:] == step[2:]:
            return step.previous
        number = self._ids[player].setdefault(step, len(observed))
        if number == len(observed):
            observed.append(step)
        return number

    def _observations_text(self, player: int, infostate: int) -> str:
        steps: list[str] = []
        while infostate >= 0:
            step = self._observed[player][infostate]
            own = self.action_string(player, step.action) if step.action >= 0 else None
            seen = None if step.text is None else text_of(step.text)
            steps.append(noticed_text(own, seen, None))
            infostate = step.previous
        return infostate_text(player, steps[::-1])

    def _legal(self, state: Any, player: int) -> list[int]:
        legal = sorted(state.legal_actions(player))
        if not legal:
            raise ValueError(
                f"{self.name}: player {player} acts but has no legal action after history {state.history()}; "
                "expected at least one legal action at every decision"
            )
        for action in legal:
            if (player, action) not in self._action_names:
                self._action_names[player, action] = str(state.action_to_string(player, action))
        return legal


class OpenSpielRules(MultiplayerRules[Any]):
    """A constant-sum OpenSpiel game with any number of players; states are pyspiel states.

    A seat observes changes of its `information_state_string`: `+` and the appended suffix, or `=` and the
    whole string. Payoffs are paid at the end.

    Raises:
      ImportError: if OpenSpiel is not installed.
      ValueError: as for `OpenSpielGame`, except for the number of players.
    """

    def __init__(self, spec: str | PyspielGame):
        self._game: Any
        self._game, self.name, self._error = _open(spec, two_players=False, observations=False)
        self.num_players = int(self._game.num_players())
        numbers = range(self._game.num_distinct_actions())
        names = [str(self._game.action_to_string(0, action)) for action in numbers]
        is_named = len(set(names)) == len(names) and not names[0].startswith("Action(id=")
        self.actions = names if is_named else list(map(str, numbers))

    def initial_state(self) -> Any:
        """OpenSpiel's initial state."""
        return self._game.new_initial_state()

    def actors(self, state: Any) -> Sequence[int]:
        """The seat to move, or all seats at a simultaneous move."""
        if state.is_terminal():
            return ()
        if state.is_chance_node():
            return (CHANCE_SEAT,)
        return range(self.num_players) if state.is_simultaneous_node() else (int(state.current_player()),)

    def legal_actions(self, state: Any, seat: int) -> Sequence[int]:
        """OpenSpiel's legal actions."""
        return state.legal_actions(seat)

    def chance_outcomes(self, state: Any) -> Sequence[tuple[int, float]]:
        """OpenSpiel's chance outcomes."""
        return state.chance_outcomes()

    def step(self, state: Any, move: int | tuple[int, ...]) -> MultiplayerStep[Any]:
        """Applies a move to a copy of the state."""
        after = state.clone()
        if isinstance(move, tuple):
            after.apply_actions(list(move))
        else:
            after.apply_action(move)
        private = [self._news(state, after, seat) for seat in range(self.num_players)]
        return MultiplayerStep(after, after.returns() if after.is_terminal() else (), private=private)

    def _news(self, before: Any, after: Any, seat: int) -> str | None:
        old, new = self._text(before, seat), self._text(after, seat)
        if new == old:
            return None
        return "+" + new.removeprefix(old) if new.startswith(old) else "=" + new

    def _text(self, state: Any, seat: int) -> str:
        try:
            return str(state.information_state_string(seat))
        except self._error:  # some games have no string where the seat does not act
            return ""


def _open(
    spec: str | PyspielGame, *, two_players: bool, observations: bool
) -> tuple[Any, str, type[Exception]]:
    """Loads a pyspiel game; returns it with its canonical name and the error class that pyspiel raises."""
    pyspiel: Any = import_pyspiel()
    if isinstance(spec, str):
        spec = spec.strip()
        game: Any = _load(pyspiel, spec)
    else:
        game, spec = spec, str(spec)
    _check_type(game, spec, two_players, observations)
    return game, PREFIX + _canonical(pyspiel, game, spec), pyspiel.SpielError


def import_pyspiel() -> Any:
    """The module pyspiel; raises ImportError if OpenSpiel is not installed."""
    try:
        return importlib.import_module("pyspiel")
    except ImportError as error:
        raise ImportError(
            "OpenSpiel's games, policies and bots need the package open_spiel, which is not installed: "
            "pip install open-spiel"
        ) from error


def _load(pyspiel: Any, spec: str) -> Any:
    short_name = spec.partition("(")[0]
    names: list[str] = list(pyspiel.registered_names())
    if short_name not in names:
        near = difflib.get_close_matches(short_name, names, n=3) or ["kuhn_poker", "leduc_poker"]
        raise ValueError(
            f"{PREFIX}{spec}: OpenSpiel has no game {short_name!r}; expected a name like {', '.join(near)} "
            "(pyspiel.registered_names() lists them all)"
        )
    try:
        return pyspiel.load_game(spec)
    except pyspiel.SpielError as error:
        raise ValueError(
            f"{PREFIX}{spec}: OpenSpiel cannot load this: {error}; expected name(parameter=value,…) with "
            "parameters that the game has"
        ) from error


def _check_type(game: Any, spec: str, two_players: bool, observations: bool) -> None:
    kind = game.get_type()
    dynamics, utility, chance = (
        str(k).rpartition(".")[2] for k in (kind.dynamics, kind.utility, kind.chance_mode)
    )
    if dynamics not in ("SEQUENTIAL", "SIMULTANEOUS"):
        problem = f"its dynamics are {dynamics}; expected SEQUENTIAL or SIMULTANEOUS"
    elif two_players and game.num_players() != 2:
        remedy = f"; team(game={PREFIX}{spec},seats=0) is one of two" * (game.num_players() > 2)
        problem = f"it has {game.num_players()} players; expected 2{remedy}"
    elif utility not in ("ZERO_SUM", "CONSTANT_SUM"):
        problem = f"its utility is {utility}; expected ZERO_SUM or CONSTANT_SUM"
    elif chance == "SAMPLED_STOCHASTIC":
        problem = f"its chance is {chance}; expected explicit outcomes with probabilities"
    elif observations and not kind.provides_observation_string:
        problem = "it has no observation_string; expected a game that has one"
    elif not observations and not kind.provides_information_state_string:
        alternative = "write the game as jaxgadget.games.stepwise.Rules"
        if two_players and kind.provides_observation_string:
            alternative = f"make infostates from observations, as {PREFIX}{spec}{OBSERVATIONS}"
        problem = (
            "it has no information_state_string, which defines what a player remembers; expected a game that "
            f"has one, or {alternative}"
        )
    else:
        return
    raise ValueError(f"{PREFIX}{spec} cannot be solved here: {problem}")


def _canonical(pyspiel: Any, game: Any, spec: str) -> str:
    """The game's own string, unless OpenSpiel cannot read it back (restricted_nash_response)."""
    own = str(game)
    is_known = own.partition("(")[0] in pyspiel.registered_names()
    return own if is_known else spec
