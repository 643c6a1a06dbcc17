"""Conversion from and to OpenSpiel policies: tables, and objects with `action_probabilities(state)`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from jaxgadget.games.game import ACTOR_BIT, SIMULTANEOUS
from jaxgadget.games.openspiel import OBSERVATIONS, PREFIX, import_pyspiel
from jaxgadget.games.parameters import parse_spec
from jaxgadget.policy.tables import read_actions
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arrays import FloatArray

if TYPE_CHECKING:
    from open_spiel.python.policy import TabularPolicy


class StatePolicy(Protocol):
    """An OpenSpiel policy: maps an OpenSpiel state to action probabilities.

    Implemented by OpenSpiel's Python and C++ policies. At simultaneous states it is called with the state and
    the player.
    """

    @property
    def action_probabilities(self) -> Callable[..., Mapping[int, float]]:
        """Action id → probability; omitted actions have 0."""
        ...


def is_state_policy(policy: Any) -> bool:
    """True if `action_probabilities` takes one state, as in OpenSpiel, and not the arguments of a `Player`.

    A `Player` requires three arguments or accepts any number.
    """
    pyspiel: Any = sys.modules.get("pyspiel")
    if pyspiel is not None and isinstance(policy, pyspiel.Policy):
        return True
    try:
        parameters = inspect.signature(policy.action_probabilities).parameters.values()
    except ValueError:  # functions of extension modules may have no signature
        return True
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [
        parameter
        for parameter in parameters
        if parameter.kind in positional and parameter.default is parameter.empty
    ]
    return len(required) < 3


def row_reader(tree: HistoryTree, policy: Any, game: Any = None) -> Callable[[int, int, int], FloatArray]:
    """Returns a function that reads an OpenSpiel policy's row, given player, infoset and number of actions.

    Args:
      tree: the game's histories.
      policy: a `TabularPolicy`, or an object with `action_probabilities(state)`.
      game: OpenSpiel's game; by default the policy's own if it has one, otherwise the game of the tree's
        name.

    Raises:
      ImportError: if OpenSpiel is needed and not installed.
      ValueError: if OpenSpiel does not have the tree's game. The returned function raises ValueError if the
        policy lacks the infoset or is of another game.
    """
    if hasattr(policy, "action_probability_array") and _has_all(tree, policy.state_lookup):
        return lambda player, infoset, count: _table_row(tree, policy, player, infoset, count)
    game = getattr(policy, "game", None) if game is None else game
    game = load_game(tree.game.name) if game is None else game

    def read(player: int, infoset: int, count: int) -> FloatArray:
        state = _state_at(tree, game, player, infoset)
        arguments = (state, player) if state.is_simultaneous_node() else (state,)
        try:
            answer = policy.action_probabilities(*arguments)
        except KeyError as error:  # raised by tables
            raise _of_another_game(tree, player, infoset) from error
        return read_actions(tree, player, infoset, answer)

    return read


def load_game(name: str) -> Any:
    """Loads the OpenSpiel game with a game's name.

    Raises:
      ImportError: if OpenSpiel is not installed.
      ValueError: if OpenSpiel has no such game.
    """
    pyspiel: Any = import_pyspiel()
    # OpenSpiel prints unknown names to standard error, with a list of all games: check the name first.
    games = {game.short_name: game for game in pyspiel.registered_games()}
    spec = name.removeprefix(PREFIX).removesuffix(OBSERVATIONS)
    short_name = spec.partition("(")[0]
    if short_name not in games:
        raise ValueError(f"OpenSpiel does not know {name!r}: it has no game of that name")
    unknown = parse_spec(spec)[1].keys() - games[short_name].parameter_specification.keys()
    if unknown:
        raise ValueError(
            f"OpenSpiel does not know {name!r}: its {short_name} has no parameter "
            f"{', '.join(sorted(unknown))}"
        )
    try:
        return pyspiel.load_game(spec)
    except pyspiel.SpielError as error:
        raise ValueError(f"OpenSpiel does not know {name!r}: {error}") from error


def write_table(tree: HistoryTree, probabilities: Sequence[FloatArray], lane: int) -> TabularPolicy:
    """Writes a lane to a table of the OpenSpiel game with the name of the tree's game."""
    game = load_game(tree.game.name)
    from open_spiel.python.policy import TabularPolicy as Table

    table = Table(game)
    rows = table.action_probability_array
    taken: set[str] = set()
    for player in (0, 1):
        infosets = tree.infosets[player]
        for infoset, name in enumerate(tree.infostate_strings[player]):
            if name not in table.state_lookup:
                raise ValueError(
                    f"OpenSpiel's {tree.game.name} has no state {name!r} of player {player}; it cannot "
                    "represent this policy"
                )
            if name in taken:
                raise ValueError(
                    f"OpenSpiel's string {name!r} is shared by several infosets of {tree.game.name}; its "
                    "table cannot represent this policy; use Policy.save instead"
                )
            taken.add(name)
            first, count = infosets.first_sequence[infoset], infosets.num_actions[infoset]
            row = table.state_lookup[name]
            rows[row] = 0
            rows[row, infosets.action[first : first + count]] = probabilities[player][
                first - 1 : first - 1 + count, lane
            ]
    return table


def _has_all(tree: HistoryTree, states: Mapping[str, int]) -> bool:
    """True if a table has all infoset strings of the tree; a turn-based version of the game has others."""
    return all(name in states for names in tree.infostate_strings for name in names)


def _table_row(
    tree: HistoryTree, table: TabularPolicy, player: int, infoset: int, num_actions: int
) -> FloatArray:
    """Probabilities of an infoset's actions in a table that contains it."""
    name = tree.infostate_strings[player][infoset]
    first = tree.infosets[player].first_sequence[infoset]
    row = np.asarray(table.action_probability_array[table.state_lookup[name]], np.float64)
    return row[tree.infosets[player].action[first : first + num_actions]]


def _state_at(tree: HistoryTree, game: Any, player: int, infoset: int) -> Any:
    """OpenSpiel's state at the first history of an infoset, in the game or its turn-based version."""
    history = int(tree.infosets[player].history[infoset])
    state = game.new_initial_state()
    for move in tree.moves(history):
        if isinstance(move, tuple) and state.is_simultaneous_node():
            legal = all(action in state.legal_actions(player_idx) for player_idx, action in enumerate(move))
            if not legal:
                raise _of_another_game(tree, player, infoset)
            state.apply_actions(list(move))
            continue
        for action in move if isinstance(move, tuple) else (move,):
            if state.is_simultaneous_node() or action not in state.legal_actions():
                raise _of_another_game(tree, player, infoset)
            state.apply_action(action)
    # At a simultaneous move in a turn-based game player 1 acts after an arbitrary action of player 0.
    takes_turns = tree.actor[history] == SIMULTANEOUS and not state.is_simultaneous_node()
    if takes_turns and player == 1 and state.current_player() == 0:
        state.apply_action(state.legal_actions()[0])
    acts = state.is_simultaneous_node() or state.current_player() == player
    string = tree.infostate_strings[player][infoset]
    if not acts or not tree.actor[history] & ACTOR_BIT[player]:
        raise _of_another_game(tree, player, infoset)
    own = str(state.information_state_string(player))
    if own != string and not (takes_turns and own.endswith(string)):
        raise _of_another_game(tree, player, infoset)
    return state


def _of_another_game(tree: HistoryTree, player: int, infoset: int) -> ValueError:
    name = tree.infostate_strings[player][infoset]
    return ValueError(
        f"OpenSpiel policy has no state {name!r} of player {player}; expected a policy of {tree.game.name}"
    )
