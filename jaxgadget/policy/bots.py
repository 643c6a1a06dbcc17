"""OpenSpiel bots as players of matches, in games that OpenSpiel has under the same name.

A bot receives the OpenSpiel state after the moves of a match. As in OpenSpiel itself, the state contains the
private information of both players; using only its own is the bot's responsibility.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from jaxgadget.games.game import Move
from jaxgadget.games.openspiel import PREFIX, import_pyspiel
from jaxgadget.games.parameters import parse_spec
from jaxgadget.policy.openspiel import load_game
from jaxgadget.policy.positions import StatePositions
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arguments import near_names
from jaxgadget.util.arrays import FloatArray, IntArray


class Bot(Protocol):
    """OpenSpiel's interface of a bot, as implemented by `pyspiel.Bot` and its subclasses in Python.

    `inform_action`, `inform_actions`, `provides_force_action` with `force_action`, and `provides_policy` with
    `step_with_policy` are used where a bot has them.
    """

    @property
    def restart(self) -> Callable[[], None]:
        """Prepares for a new game."""
        ...

    @property
    def step(self) -> Callable[[Any], int]:
        """The bot's action at a state."""
        ...


def is_bot(player: object) -> bool:
    """True for a bot, or a pair of bots, one for each seat."""
    if isinstance(player, tuple | list):
        return len(player) == 2 and all(map(is_bot, player))  # pyright: ignore[reportUnknownArgumentType]
    return not isinstance(player, type) and all(
        callable(getattr(player, method, None)) for method in ("step", "restart")
    )


class OpenSpielBot:
    """An OpenSpiel bot as a `Player` and a `StatePlayer`, in either seat.

    Before each request the bot is restarted and informed of the moves so far. A bot with probabilities
    (`provides_policy`) is asked for these. Any other bot draws an action in each game from its own random
    numbers: then the seed does not determine the matches, and `replay_players` does not repeat them.

    Args:
      bot: a name that `pyspiel.load_bot` accepts, optionally with parameters, such as `uniform_random` or
        `fixed_action_preference(actions=1:0)`; a bot that plays either seat; or a pair of bots for seat 0 and
        seat 1.

    Attributes:
      bot: as given.

    Raises:
      ImportError: if a bot is named and OpenSpiel is not installed.
      ValueError: if OpenSpiel has no bot of that name, or the argument is neither.
    """

    def __init__(self, bot: str | Bot | Sequence[Bot]):
        if not isinstance(bot, str) and not is_bot(bot):
            raise ValueError(
                f"bot={bot!r}: expected the name of a bot of OpenSpiel, an object with the methods `step` "
                "and `restart`, or a pair of them, one for each seat"
            )
        if isinstance(bot, str):
            _parse(bot)
        self.bot = bot
        self._games: dict[str, Any] = {}
        self._bots: dict[tuple[str, int], Any] = {}

    def __repr__(self) -> str:
        return f"OpenSpielBot({self.bot!r})"

    @property
    def fingerprint(self) -> str | None:
        """Name and parameters of a named bot; the attribute `fingerprint` of an object."""
        return f"{PREFIX}{self.bot}" if isinstance(self.bot, str) else getattr(self.bot, "fingerprint", None)

    def restart(self) -> None:
        """Reloads named bots, with their initial random numbers, at their next moves."""
        self._bots.clear()

    def draws(self, game: str, player: int) -> bool:
        """True if the bot of a seat draws actions because it has no probabilities.

        Raises:
          ImportError: if OpenSpiel is not installed.
          ValueError: if OpenSpiel does not have the game, or the bot cannot play it.
        """
        return not _call(self._seat(game, player), "provides_policy")

    def action_probabilities(self, tree: HistoryTree, player: int, histories: IntArray) -> FloatArray:
        """The bot's probabilities at some histories, or 1 for the actions that it draws; see `Player`.

        Raises:
          ImportError: if OpenSpiel is not installed.
          ValueError: if OpenSpiel does not have the game, or the bot cannot play it or makes an illegal move.
        """
        infosets = tree.infosets[player]
        infoset = tree.infoset[player, histories]
        rows = np.zeros((len(histories), infosets.num_actions[infoset].max(initial=1)))
        for row, history, number in zip(rows, histories.tolist(), infoset.tolist(), strict=True):
            first = infosets.first_sequence[number]
            legal = infosets.action[first : first + infosets.num_actions[number]].tolist()
            probabilities = self._ask(tree.game.name, player, tree.moves(history), legal)
            row[: len(legal)] = [probabilities.get(action, 0.0) for action in legal]
        return rows

    def state_probabilities(self, games: StatePositions, player: int) -> FloatArray:
        """The bot's probabilities in some games, or 1 for the actions that it draws; see `StatePlayer`.

        Raises:
          ImportError: if OpenSpiel is not installed.
          ValueError: if OpenSpiel does not have the game, or the bot cannot play it or makes an illegal move.
        """
        legal = np.asarray(games.machine.legal(games.state, player)).T
        rows = np.zeros(legal.shape)
        for number, row in enumerate(rows):
            actions = np.flatnonzero(legal[number]).tolist()
            for action, share in self._ask(games.game, player, games.moves(number), actions).items():
                row[action] = share
        return rows

    def _seat(self, name: str, player: int) -> Any:
        """The bot of a seat."""
        if name not in self._games:
            self._games[name] = load_game(name)
        if not isinstance(self.bot, str):
            return self.bot[player] if isinstance(self.bot, Sequence) else self.bot
        if (name, player) not in self._bots:
            self._bots[name, player] = _load(self.bot, self._games[name], player)
        return self._bots[name, player]

    def _ask(
        self, name: str, player: int, moves: Sequence[Move], legal: Sequence[int]
    ) -> Mapping[int, float]:
        """The bot's probabilities of legal actions after some moves."""
        bot = self._seat(name, player)
        state = _follow(self._games[name], name, moves, bot, player)
        if sorted(state.legal_actions(player)) != list(legal):
            raise _differs(name, moves)
        if _call(bot, "provides_policy"):
            chosen = {int(action): float(share) for action, share in bot.step_with_policy(state)[0]}
        else:
            chosen = {int(bot.step(state)): 1.0}
        if illegal := [action for action, share in chosen.items() if share and action not in legal]:
            raise ValueError(
                f"bot {self.bot!r} in seat {player} plays {illegal[0]} after history {tuple(moves)}; "
                f"expected one of the legal actions {list(legal)}"
            )
        return {action: share for action, share in chosen.items() if action in legal}


def _load(spec: str, game: Any, player: int) -> Any:
    """Loads a named bot for a seat."""
    name, texts = _parse(spec)
    import pyspiel

    if name not in pyspiel.bots_that_can_play_game(game, player):
        raise ValueError(f"bot {spec!r} does not play {game} in seat {player}; expected another bot")
    try:
        return pyspiel.load_bot(name, game, player, {key: _value(text) for key, text in texts.items()})
    except (TypeError, pyspiel.SpielError) as error:
        raise ValueError(
            f"bot {spec!r}: OpenSpiel cannot load it: {error}; expected name(parameter=value,…)"
        ) from error


def _parse(spec: str) -> tuple[str, dict[str, str]]:
    """The name of a bot of OpenSpiel, and its parameters."""
    pyspiel = import_pyspiel()
    name, texts = parse_spec(spec)
    known: list[str] = pyspiel.registered_bots()
    if name not in known:
        raise ValueError(
            f"bot {spec!r} is not one of OpenSpiel's; expected a name like {near_names(name, known)}"
        )
    return name, texts


def _value(text: str) -> int | float | bool | str:
    """A parameter's value."""
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _call(bot: Any, method: str, *arguments: Any) -> Any:
    """The result of a method; None for an object without it."""
    function = getattr(bot, method, None)
    return None if function is None else function(*arguments)


def _follow(game: Any, name: str, moves: Sequence[Move], bot: Any, player: int) -> Any:
    """OpenSpiel's state after some moves; informs a restarted bot of them."""
    state = game.new_initial_state()
    bot.restart()
    for number, move in enumerate(moves):
        joint = list(move) if isinstance(move, tuple) else None
        if joint is None:
            is_possible = not state.is_simultaneous_node() and move in state.legal_actions()
        else:
            is_possible = state.is_simultaneous_node() and all(
                action in state.legal_actions(seat) for seat, action in enumerate(joint)
            )
        if not is_possible:
            raise _differs(name, moves[: number + 1])
        if joint is not None:
            _call(bot, "inform_actions", state, joint)
            state.apply_actions(joint)
            continue
        if state.current_player() == player:
            if _call(bot, "provides_force_action"):
                bot.force_action(state, move)
        elif not state.is_chance_node():
            _call(bot, "inform_action", state, state.current_player(), move)
        state.apply_action(move)
    return state


def _differs(name: str, moves: Sequence[Move]) -> ValueError:
    return ValueError(
        f"OpenSpiel's game {name!r} has other moves at history {tuple(moves)}; expected a game with "
        "OpenSpiel's rules"
    )
