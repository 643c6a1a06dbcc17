"""User-defined games by name: `module:Class` or `path.py:Class`, with parameters in parentheses."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeGuard

from jaxgadget.games.game import Budget, Game, HistoryLevel
from jaxgadget.games.machine import StateMachine
from jaxgadget.games.parameters import name_with, parse_parameters, read_parameter
from jaxgadget.games.stepwise import Rules, StepwiseGame
from jaxgadget.games.wrapped import WrappedGame, WrappedMachine
from jaxgadget.util.members import OwnSpec, describe_error, find_member, resolve

_GAME_MEMBERS = ("name", "num_actions", "levels", "infostate_string", "action_string", "cuts")


class OwnGame(WrappedGame):
    """A user-defined game whose name is a specification that loads it in any process and from any folder.

    Attributes:
      game: the game that the user's class returned.
      name: `module:Class(…)` or `/…/path.py:Class(…)` with the parameters that differ from their defaults.
    """

    def __init__(self, game: Game, name: str):
        self.game = game
        self.name = name

    def __reduce__(self) -> tuple[Callable[[str], Game], tuple[str]]:
        """Pickles the name: another process must run the user's file again."""
        from jaxgadget.games.registry import load  # the registry imports this module

        return load, (self.name,)

    def levels(self, budget: Budget) -> Iterator[HistoryLevel]:
        """Yields the game's levels."""
        return self.game.levels(budget)


class OwnMachine(WrappedMachine[Any]):
    """A user-defined state machine whose name is a specification, as in `OwnGame`.

    Attributes:
      game: the state machine that the user's class returned.
      name: as in `OwnGame`.
    """

    def __init__(self, game: StateMachine[Any], name: str):
        super().__init__(game)
        self._name = name

    def __reduce__(self) -> tuple[Callable[[str], Game], tuple[str]]:
        """Pickles the name: another process must run the user's file again."""
        from jaxgadget.games.registry import load  # the registry imports this module

        return load, (self.name,)

    @property
    def name(self) -> str:
        """The specification."""
        return self._name


def is_game(value: object) -> TypeGuard[Game]:
    """True if `value` is an instance with all members of the `Game` protocol."""
    return not isinstance(value, type) and all(hasattr(value, member) for member in _GAME_MEMBERS)


def load_own(spec: str, own: OwnSpec) -> OwnGame | OwnMachine:
    """Imports a user's class or function and creates the game.

    A file is run on every call; its folder is appended to `sys.path` for its imports. A module that is only
    in the working folder is treated, and named, as a file.

    Args:
      spec: the specification, for errors.
      own: the parsed specification.

    Raises:
      ValueError: if the file, module or class is missing or does not make a game, a parameter is unknown or
        invalid, or the user's code raises an exception.
    """
    texts = parse_parameters(spec, own.parameters)
    where = resolve(own.where)
    maker = find_member(f"game {spec!r}", where, own.member, "game class")
    parameters = _parameters(maker)
    values = {key: _value(spec, own.member, key, text, parameters) for key, text in texts.items()}
    try:
        made = maker(**values)
    except Exception as error:
        shown = ", ".join(f"{key}={value!r}" for key, value in values.items())
        raise ValueError(
            f"game {spec!r}: {own.member}({shown}) raised {describe_error(error)}; correct the parameters or "
            "the class"
        ) from error
    game = StepwiseGame(made) if isinstance(made, Rules) else made
    if not is_game(game):
        raise ValueError(
            f"game {spec!r}: {own.member} returned {made!r}, which is not a game; expected a Rules, or an "
            "object "
            f"with {', '.join(_GAME_MEMBERS)} (jaxgadget.games.game.Game), such as jaxgadget.team(…) returns"
        )
    defaults = {key: parameter.default for key, parameter in parameters.items()}
    name = name_with(f"{where}:{own.member}", values, defaults)
    return OwnMachine(game, name) if isinstance(game, StateMachine) else OwnGame(game, name)


def _parameters(maker: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        signature = inspect.signature(maker)
    except (TypeError, ValueError):  # functions implemented in C may have no signature
        return {}
    return {
        key: parameter
        for key, parameter in signature.parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }


def _value(
    spec: str, member: str, key: str, text: str, parameters: Mapping[str, inspect.Parameter]
) -> object:
    if key not in parameters:
        accepted = ", ".join(map(str, parameters.values())) or "none"
        raise ValueError(f"game {spec!r}: {member} has no parameter {key!r}; expected one of: {accepted}")
    default, annotation = parameters[key].default, parameters[key].annotation
    return read_parameter(
        member, key, text, annotation if default is inspect.Parameter.empty else type(default)
    )
