"""User-defined games by name: `module:Class` or `path.py:Class`, with parameters in parentheses."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any, NamedTuple, TypeGuard

from jaxgadget.games.game import Budget, Game, HistoryLevel
from jaxgadget.games.parameters import name_with, parse_parameters, read_parameter
from jaxgadget.games.stepwise import Rules, StepwiseGame
from jaxgadget.games.wrapped import WrappedGame

_SUFFIX = ".py"
_FORM = "expected module:Class or path.py:Class, optionally with parameters in parentheses"
_GAME_MEMBERS = ("name", "num_actions", "levels", "infostate_string", "action_string", "cuts")


_added = set[str]()
"""Folders that this process added to `sys.path` for files it ran; other processes do not search them."""


class OwnSpec(NamedTuple):
    """A parsed specification: module or file, class name, and the text between the parentheses."""

    where: str
    member: str
    parameters: str


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


def is_game(thing: object) -> TypeGuard[Game]:
    """True if `thing` is an instance with all members of the `Game` protocol."""
    return not isinstance(thing, type) and all(hasattr(thing, member) for member in _GAME_MEMBERS)


def parse_own(spec: str) -> OwnSpec | None:
    """Parses a specification; returns None if it has another form."""
    match = re.fullmatch(r"\s*(.+?)\s*:\s*([^\W\d]\w*)\s*(?:\((.*)\))?\s*", spec, re.DOTALL)
    if match is None:
        return None
    where, member, parameters = match.groups(default="")
    is_module = all(part.isidentifier() for part in where.split("."))
    return OwnSpec(where, member, parameters) if where.lower().endswith(_SUFFIX) or is_module else None


def load_own(spec: str, own: OwnSpec) -> OwnGame:
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
    where = _resolve(own.where)
    module = _import(spec, where)
    maker = _find_maker(spec, where, module, own.member)
    parameters = _parameters(maker)
    values = {key: _value(spec, own.member, key, text, parameters) for key, text in texts.items()}
    try:
        made = maker(**values)
    except Exception as error:
        shown = ", ".join(f"{key}={value!r}" for key, value in values.items())
        raise ValueError(
            f"game {spec!r}: {own.member}({shown}) raised {_told(error)}; correct the parameters or the class"
        ) from error
    game = StepwiseGame(made) if isinstance(made, Rules) else made
    if not is_game(game):
        raise ValueError(
            f"game {spec!r}: {own.member} returned {made!r}, which is not a game; expected a Rules, or an "
            "object "
            f"with {', '.join(_GAME_MEMBERS)} (jaxgadget.games.game.Game), such as jaxgadget.team(…) returns"
        )
    defaults = {key: parameter.default for key, parameter in parameters.items()}
    return OwnGame(game, name_with(f"{where}:{own.member}", values, defaults))


def _resolve(where: str) -> str:
    """A file's absolute path, or the name of a module that other processes can import."""
    if where.lower().endswith(_SUFFIX):
        return os.path.abspath(os.path.expanduser(where))
    top, file = where.partition(".")[0], pathlib.Path.cwd() / f"{where}{_SUFFIX}"
    ours = {str(pathlib.Path.cwd()), *_added}
    elsewhere = [folder for folder in sys.path if folder and folder not in ours]
    if top in sys.builtin_module_names or PathFinder.find_spec(top, elsewhere) or not file.is_file():
        return where
    return str(file)


def _import(spec: str, where: str) -> ModuleType:
    is_file = where.lower().endswith(_SUFFIX)
    if is_file and not os.path.isfile(where):
        raise ValueError(f"game {spec!r}: file {where!r} not found; {_FORM}")
    try:
        return _run_file(where) if is_file else importlib.import_module(where)
    except ModuleNotFoundError as error:
        if not is_file and error.name and f"{where}.".startswith(f"{error.name}."):
            raise ValueError(
                f"game {spec!r}: module {error.name!r} not found; {_FORM}, such as {where}{_SUFFIX}:Class "
                "for a file, or set PYTHONPATH"
            ) from error
        raise ValueError(f"game {spec!r}: importing {where!r} raised {_told(error)}; correct it") from error
    except (Exception, SystemExit) as error:
        raise ValueError(f"game {spec!r}: importing {where!r} raised {_told(error)}; correct it") from error


def _run_file(path: str) -> ModuleType:
    name = f"{pathlib.Path(path).stem}_{hashlib.sha256(path.encode()).hexdigest()[:16]}"
    loader = SourceFileLoader(name, path)
    module_spec = importlib.util.spec_from_loader(name, loader)
    assert module_spec is not None  # never None for a file loader
    if (folder := os.path.dirname(path)) not in sys.path:
        sys.path.append(folder)
        _added.add(folder)
    module = sys.modules[name] = importlib.util.module_from_spec(module_spec)  # dataclasses look it up there
    try:  # not `exec_module`, which may use stale bytecode of a file that was just changed
        exec(loader.source_to_code(loader.get_data(path), path), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _find_maker(spec: str, where: str, module: ModuleType, member: str) -> Callable[..., Any]:
    maker = getattr(module, member, None)
    if callable(maker):
        return maker
    classes = [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    available = ", ".join(difflib.get_close_matches(member, classes) or classes) or "no class"
    problem = "has no class" if maker is None else f"defines {maker!r}, which is not a class, as"
    raise ValueError(
        f"game {spec!r}: {where!r} {problem} {member!r}; expected a game class; classes there: {available}"
    )


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


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
