"""Action abstractions: a game restricted to a menu of actions per player.

Histories, infostates and payoffs are those of the game, without histories that contain actions off the menu.
One player may take a limited number of off-menu actions in a hand; this is the game to solve after an
opponent's off-tree action (*Safe and nested subgame solving*, §7). Policies are converted between such games
by action names (`jaxgadget.policy.lift.lift`, `jaxgadget.policy.translation.translate`).
"""

from __future__ import annotations

import fractions
import math
from collections.abc import Generator, Mapping, Sequence

import numpy as np

from jaxgadget.games.game import (
    ACTOR_BIT,
    TERMINAL,
    Budget,
    Game,
    HistoryLevel,
    Move,
    move_of,
    next_level,
)
from jaxgadget.games.parameters import name_with
from jaxgadget.games.sizes import ALL_IN, parse_sizes
from jaxgadget.games.wrapped import WrappedGame
from jaxgadget.util.arguments import check_player, check_whole_number, near_names
from jaxgadget.util.arrays import BoolArray, IntArray

_SEPARATOR = "|"
BET, ALL_IN_NAME = "Bet ", "AllIn"
"""Prefix of the names of bets, and the name of an all-in bet."""

_ALL, _NONE = "all", "none"


class MenuAbstraction(WrappedGame):
    """A game with fewer actions; ids and names of the remaining actions are unchanged.

    Attributes:
      game: the game that is abstracted.
      menus: for both players, the ids of the actions on the menu, ascending; None for all.
      off_tree: maximum number of off-menu actions of `off_tree_player` in a hand.
      off_tree_player: the player that may leave its menu, None if `off_tree` is 0.
      off_tree_actions: ids of its off-menu actions, ascending.
      name: `menu(game=…,actions_0=…,actions_1=…,off_tree=…,…)`, which `jaxgadget.load` accepts if it accepts
        the game's name.
    """

    def __init__(
        self,
        game: Game,
        menus: Mapping[int, Sequence[int | str]],
        *,
        off_tree: int = 0,
        off_tree_player: int | None = None,
        off_tree_actions: Sequence[int | str] | None = None,
    ):
        """Wraps a game, without enumeration.

        Args:
          game: the game to abstract.
          menus: actions on the menu of one or both players, by name (`game.action_string`) or id. A player
            without a menu has all of the game's actions.
          off_tree: maximum number of off-menu actions of `off_tree_player` in a hand.
          off_tree_player: 0 or 1, the player that may leave its menu; required unless `off_tree` is 0.
          off_tree_actions: its off-menu actions, by name or id; by default all that are not on its menu.

        Raises:
          ValueError: if a player or an action is unknown, a menu is empty, `off_tree_player` is missing or
            has no menu, or an off-tree action is on the menu.
        """
        if isinstance(game, type) or not hasattr(game, "levels"):
            raise ValueError(f"game={game!r}: expected a game, from load(…)")
        self.game = game
        self._check_menus(menus)
        first, second = (self._menu(player, menus.get(player)) for player in (0, 1))
        self.menus: tuple[tuple[int, ...] | None, tuple[int, ...] | None] = (first, second)
        self.off_tree = check_whole_number("off_tree", off_tree, 0)
        self.off_tree_player: int | None = None
        self.off_tree_actions: tuple[int, ...] = ()
        if self.off_tree or off_tree_player is not None or off_tree_actions is not None:
            leaving_player, leaving_actions = self._leaving(off_tree_player, off_tree_actions)
            if self.off_tree:  # otherwise neither has an effect
                self.off_tree_player, self.off_tree_actions = leaving_player, leaving_actions
        self.name = self._name()

    def levels(self, budget: Budget) -> Generator[HistoryLevel, BoolArray | None, None]:
        """Yields the game's levels, restricted to the menus.

        The game claims each level from the budget before this method restricts it; dropped histories are then
        released.

        Raises:
          ValueError: if a menu leaves no legal action after some history.
        """
        on_menu, off_tree = self._tables()
        generated = iter(self.game.levels(budget))
        level = next(generated, None)
        # Masks over the rows of the game's own previous level.
        goes_on, new_row, left_menu = np.ones(1, np.bool_), np.zeros(1, np.int64), np.zeros(1, np.int64)
        above: list[HistoryLevel] = []
        while level is not None:
            selected = goes_on[level.parent]
            left_menu = left_menu[level.parent]
            for player in (0, 1):
                action = level.action[player]  # -1, for no action, is the last row of the tables
                leaves = off_tree[player][action] & (left_menu < self.off_tree)
                selected &= on_menu[player][action] | leaves
                left_menu = left_menu + leaves
            budget.release(int(np.count_nonzero(~selected)))
            if above:
                self._check_choices(above, new_row[level.parent[selected]], new_row[goes_on])
            above.append(level.take(selected, new_row))
            expand = yield above[-1]
            goes_on = selected & (level.actor != TERMINAL)
            if expand is not None:
                goes_on[selected] &= expand
            new_row = np.cumsum(selected) - 1
            level = next_level(generated, goes_on) if goes_on.any() else None

    def _check_menus(self, menus: object) -> None:
        if not isinstance(menus, Mapping) or not set(menus) <= {0, 1}:
            raise ValueError(
                f"menus={menus!r}: expected a dictionary from players, 0 or 1, to actions, such as "
                "{0: ['Fold', 'Call']}"
            )

    def _menu(self, player: int, actions: object) -> tuple[int, ...] | None:
        if actions is None:
            return None
        ids = self._ids(f"menus[{player}]", player, actions)
        if not ids:
            raise ValueError(f"menus[{player}] is empty: expected at least one action of player {player}")
        return ids

    def _ids(self, argument: str, player: int, actions: object) -> tuple[int, ...]:
        """Converts names or ids of actions to ids."""
        if isinstance(actions, str) or not isinstance(actions, Sequence):
            raise ValueError(f"{argument}={actions!r}: expected a list of names or ids of actions")
        names = [self.game.action_string(player, action) for action in range(self.num_actions)]
        ids: set[int] = set()
        for action in actions:
            if isinstance(action, str) and names.count(action) == 1:
                ids.add(names.index(action))
            elif isinstance(action, int | np.integer) and 0 <= action < self.num_actions:
                ids.add(int(action))
            else:
                raise ValueError(
                    f"{argument}: {action!r} is no action of {self.game.name}; expected names like "
                    f"{near_names(str(action), names)}, or ids below {self.num_actions}"
                )
        return tuple(sorted(ids))

    def _leaving(self, player: object, actions: object) -> tuple[int, tuple[int, ...]]:
        """The player that may leave its menu, and its off-menu actions."""
        if player is None:
            raise ValueError(f"off_tree={self.off_tree}: requires off_tree_player; expected 0 or 1")
        leaving_player = check_player(player, "off_tree_player")
        menu = self.menus[leaving_player]
        if menu is None:
            raise ValueError(
                f"off_tree_player={player!r}: expected a player with a menu; add one to menus, or choose the "
                "other player"
            )
        if actions is None:
            return leaving_player, tuple(sorted(set(range(self.num_actions)) - set(menu)))
        ids = self._ids("off_tree_actions", leaving_player, actions)
        on_menu = sorted(set(ids) & set(menu))
        if on_menu:
            name = self.game.action_string(leaving_player, on_menu[0])
            raise ValueError(
                f"off_tree_actions: {name!r} is on the menu of player {player!r}; expected off-menu actions"
            )
        return leaving_player, ids

    def _name(self) -> str:
        menus = [_SEPARATOR.join(map(str, menu or ())) or _ALL for menu in self.menus]
        player = -1 if self.off_tree_player is None else self.off_tree_player
        everything = set(range(self.num_actions)) - set(self.menus[player] or ()) if self.off_tree else set()
        off_tree_actions = _ALL
        if set(self.off_tree_actions) != everything:
            off_tree_actions = _SEPARATOR.join(map(str, self.off_tree_actions)) or _NONE
        values = (self.game.name, *menus, self.off_tree, player, off_tree_actions)
        return name_with("menu", dict(zip(_DEFAULTS, values, strict=True)), _DEFAULTS)

    def _tables(self) -> tuple[BoolArray, BoolArray]:
        """Masks `[2, num_actions + 1]` of on-menu and of allowed off-menu actions; last column: no action."""
        on_menu = np.ones((2, self.num_actions + 1), np.bool_)
        off_tree = np.zeros_like(on_menu)
        for player, menu in enumerate(self.menus):
            if menu is not None:
                on_menu[player, :-1] = False
                on_menu[player, list(menu)] = True
        if self.off_tree_player is not None:
            off_tree[self.off_tree_player, list(self.off_tree_actions)] = True
        return on_menu, off_tree

    def _check_choices(self, levels: Sequence[HistoryLevel], parents: IntArray, expanded: IntArray) -> None:
        """Raises ValueError if an expanded row of the last of these levels has no child."""
        childless = np.setdiff1d(expanded, parents)
        if not len(childless):
            return
        row = int(childless[0])
        player = 0 if levels[-1].actor[row] & ACTOR_BIT[0] else 1
        moves: list[Move] = []
        for level in reversed(levels[1:]):
            moves.append(move_of(level.action, row))
            row = int(level.parent[row])
        raise ValueError(
            f"{self.name}: the menu leaves player {player} no legal action after history "
            f"{tuple(reversed(moves))}; add a legal action of {self.game.name} to it"
        )


def check_off_tree(game: MenuAbstraction) -> None:
    """Raises ValueError unless a player may leave its menu with at least one action."""
    if not game.off_tree_actions:
        raise ValueError(
            f"the menu of player {game.off_tree_player} has all actions of {game.game.name}, so that none is "
            "off the menu; expected fewer actions, or a game with more bets, such as "
            "no_limit_leduc(bets=1/2-1-a)"
        )


def read_actions(game: Game, player: int, text: str, option: str) -> tuple[str, ...]:
    """Parses a list of actions: names separated by `|`, or sizes of bets.

    Args:
      game: the game that has the actions.
      player: the player that has the actions.
      text: names as returned by `game.action_string`; or shares of the pot, and `a` for all-in, in the
        notation of `jaxgadget.games.sizes`: "50%,100%,a" or "1/2-1-a".
      option: name of the option, for errors.

    Raises:
      ValueError: if a name or bet is unknown, or the list is empty.
    """
    names, bets = _names(game, player), _bets(game, player)
    tokens = [part.strip() for part in text.split(_SEPARATOR)]
    if set(tokens) <= set(names):
        return tuple(tokens)
    if not bets or len(tokens) > 1:
        strange = next(part for part in tokens if part not in names)
        raise ValueError(
            f"{option} {text!r}: {strange!r} is no action of {game.name}; expected names like "
            f"{near_names(strange, names)}, with {_SEPARATOR} between them"
        )
    chosen: dict[float, str] = {}
    for size in parse_sizes(text, option, max_plain=math.inf):
        same = [name for name in bets if isinstance(size, float) and math.isclose(size, _size_of(name))]
        if not same:
            shown = f"{BET}{size:g}" if isinstance(size, float) else str(size)
            raise ValueError(
                f"{option} {text!r}: {shown!r} is no bet of {game.name}; expected some of {', '.join(bets)}"
            )
        chosen[_size_of(same[0])] = same[0]
    if not chosen:
        raise ValueError(f"{option} {text!r}: expected some of {', '.join(bets)}")
    return tuple(chosen[size] for size in sorted(chosen))


def _size_of(name: str) -> float:
    """Size of a bet, from its name."""
    return ALL_IN if name == ALL_IN_NAME else float(fractions.Fraction(name.removeprefix(BET)))


def read_menu(game: Game, player: int, text: str, option: str) -> tuple[str, ...]:
    """Parses a menu as `read_actions` does; if it lists bets only, all other actions are added."""
    chosen, bets = read_actions(game, player, text, option), _bets(game, player)
    if not set(chosen) <= set(bets):
        return chosen
    return tuple(name for name in _names(game, player) if name in chosen or name not in bets)


def _names(game: Game, player: int) -> list[str]:
    return [game.action_string(player, action) for action in range(game.num_actions)]


def _bets(game: Game, player: int) -> list[str]:
    return [name for name in _names(game, player) if name.startswith(BET) or name == ALL_IN_NAME]


_DEFAULTS: Mapping[str, object] = {
    "game": "no_limit_leduc",
    "actions_0": _ALL,
    "actions_1": _ALL,
    "off_tree": 0,
    "off_tree_player": -1,
    "off_tree_actions": _ALL,
}


def menu(
    game: str = "no_limit_leduc",
    actions_0: str = _ALL,
    actions_1: str = _ALL,
    off_tree: int = 0,
    off_tree_player: int = -1,
    off_tree_actions: str = _ALL,
) -> MenuAbstraction:
    """Creates a game restricted to a menu of actions per player; one player may leave its menu.

    Args:
      game: the game's name.
      actions_0: player 0's menu: ids or names of actions separated by `|`, or `all`.
      actions_1: player 1's menu.
      off_tree: maximum number of off-menu actions in a hand.
      off_tree_player: the player that may leave its menu, 0 or 1.
      off_tree_actions: its off-menu actions, in the same form; `all` that are not on its menu, or `none`.
    """
    from jaxgadget.games.registry import load  # the registry imports this module

    def actions(text: str) -> list[int | str] | None:
        if text == _ALL:
            return None
        tokens = [] if text == _NONE else text.split(_SEPARATOR)
        return [int(part) if part.isdecimal() else part for part in tokens]

    menus = {player: actions(text) for player, text in enumerate((actions_0, actions_1))}
    return MenuAbstraction(
        load(game),
        {player: menu for player, menu in menus.items() if menu is not None},
        off_tree=off_tree,
        off_tree_player=None if off_tree_player == -1 else off_tree_player,
        off_tree_actions=actions(off_tree_actions),
    )
