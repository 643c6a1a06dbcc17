"""Names and parameters → games: `load`, and the list of what there is."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxgadget.games.gambit import GambitGame
from jaxgadget.games.game import Game
from jaxgadget.games.multiplayer import MultiplayerRules
from jaxgadget.games.openspiel import PREFIX, OpenSpielGame, PyspielGame, is_pyspiel_game
from jaxgadget.games.own import is_game, load_own, parse_own
from jaxgadget.games.parameters import read_parameter
from jaxgadget.games.stepwise import Rules, StepwiseGame
from jaxgadget.games.team import load_team

# Name → (module, what makes the game). Modules are imported when a game of theirs is asked for.
_MAKERS = {
    "kuhn_poker": ("kuhn", "KuhnPoker"),
    "leduc_poker": ("leduc.rules", "LeducPoker"),
    "no_limit_leduc": ("leduc.no_limit", "NoLimitLeduc"),
    "goofspiel": ("goofspiel", "Goofspiel"),
    "liars_dice": ("liars_dice", "LiarsDice"),
    "matching_pennies_forfeit": ("examples", "matching_pennies_forfeit"),
    "three_state_figure5": ("examples", "three_state_figure5"),
    "three_state_figure11": ("examples", "three_state_figure11"),
    "sequential_rps": ("examples", "sequential_rps"),
    "repeated_rps": ("examples", "repeated_rps"),
    "coin_toss": ("examples", "coin_toss"),
    "coin_toss_two_subgames": ("examples", "coin_toss_two_subgames"),
    "biased_matching_pennies": ("examples", "biased_matching_pennies"),
    "coin_game": ("examples", "coin_game"),
    "matching_pennies_twist": ("examples", "matching_pennies_twist"),
    "n_matching_pennies": ("examples", "n_matching_pennies"),
    "coin_toss_siblings": ("examples", "coin_toss_siblings"),
    "gadget_breaker": ("examples", "gadget_breaker"),
    "climb": ("climb", "climb"),
    "clairvoyance": ("examples", "clairvoyance"),
    "off_tree_coin_toss": ("examples", "off_tree_coin_toss"),
    "menu": ("menu", "menu"),
}


class GameEntry(NamedTuple):
    """A game that `load` knows by name: what it is, its parameters with their defaults, its named cuts."""

    name: str
    description: str
    parameters: Mapping[str, object]
    cuts: tuple[str, ...] = ()


def load(spec: str | os.PathLike[str] | Game | Rules[Any] | PyspielGame) -> Game:
    """Makes a game.

    Args:
      spec: a name with parameters as OpenSpiel writes them, such as `leduc_poker` or
        `goofspiel(imp_info=True,num_cards=4,points_order=descending)`; `openspiel:NAME(…)` for
        any game of OpenSpiel's, `team(game=openspiel:NAME(…),seats=0,teammates=2)` for one with more
        players; the path of a Gambit file, ending in `.efg`; a class of your own as
        `module:Class` or `path.py:Class`, with parameters in parentheses; your own `Rules`; a game
        object of pyspiel's; or a game, which is returned.

    Raises:
      ValueError: if the name or a parameter is unknown, refused or malformed, the file or class
        is not there or makes no game, or the code in it raises something.
      ImportError: if a game of OpenSpiel's is asked for and OpenSpiel is missing.
    """
    if isinstance(spec, Rules):
        return StepwiseGame(spec)
    if isinstance(spec, str | os.PathLike):
        text = os.fspath(spec)
        if text.startswith(PREFIX):
            return OpenSpielGame(text.removeprefix(PREFIX))
        if text.lower().endswith(".efg"):
            return GambitGame(text)
        own = None if _is_known(text) else parse_own(text)
        return _make(text) if own is None else load_own(text, own, _parameters(text, own.parameters))
    if isinstance(spec, MultiplayerRules):
        raise ValueError(
            f"spec={spec!r}: these are rules of {spec.num_players} players, expected a game of two; "
            "jaxgadget.team(rules, seats=(0,)) makes one"
        )
    if is_pyspiel_game(spec):
        return OpenSpielGame(spec)
    if not is_game(spec):
        raise ValueError(
            f"spec={spec!r}: expected a game's name, the path of an .efg file, 'module:Class' or "
            "'path.py:Class', a Rules, a Game, or a game of pyspiel's; a class must be called first"
        )
    return spec


def list_games() -> list[GameEntry]:
    """All games that `load` knows by name, without OpenSpiel's."""
    entries: list[GameEntry] = []
    for name in _MAKERS:
        maker = _maker(name)
        lines = (inspect.getdoc(maker) or "").splitlines()
        cuts = tuple(_make(name).cuts())
        entries.append(GameEntry(name, lines[0] if lines else "", _defaults(maker), cuts))
    return entries


def parse_spec(spec: str) -> tuple[str, dict[str, str]]:
    """Splits `name(key=value,…)` into the name and the values' texts; values may have parentheses.

    Raises:
      ValueError: if the text is not of this form, or a parameter is given twice.
    """
    match = re.fullmatch(r"\s*([^\s()=,]+)\s*(?:\((.*)\))?\s*", spec, re.DOTALL)
    if not match:
        raise ValueError(f"{_form(spec)}; correct its spelling")
    return match[1], _parameters(spec, match[2] or "")


def _form(spec: str) -> str:
    return f"game {spec!r}: expected name or name(parameter=value,…)"


def _parameters(spec: str, text: str) -> dict[str, str]:
    """The values' texts of what stands between a specification's parentheses."""
    form, parameters = _form(spec), dict[str, str]()
    for part in _split(text, form):
        key, equals, value = (text.strip() for text in part.partition("="))
        if not key or not equals or not value:
            raise ValueError(f"{form}, got the parameter {part!r}; write it as parameter=value")
        if key in parameters:
            raise ValueError(f"{form}, got the parameter {key!r} twice; leave one of them out")
        parameters[key] = value
    return parameters


def _split(text: str, form: str) -> list[str]:
    """Splits at the commas that are in no parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            break
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    if depth:
        raise ValueError(f"{form}, got unequal parentheses; balance them")
    return parts if text.strip() else []


def _is_known(spec: str) -> bool:
    """Whether a specification is of one of our names, whatever stands between the parentheses."""
    return spec.partition("(")[0].strip() in _MAKERS


def _make(spec: str) -> Game:
    name, texts = parse_spec(spec)
    if name == "team":
        return load_team(spec, texts)
    if name not in _MAKERS:
        near = difflib.get_close_matches(name, _MAKERS, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"expected one of {', '.join(_MAKERS)}."
        raise ValueError(
            f"game {spec!r} is unknown: {hint} OpenSpiel's games are called '{PREFIX}NAME(…)', a Gambit "
            "file ends in .efg, and a class of your own is module:Class or path.py:Class"
        )
    maker = _maker(name)
    defaults = _defaults(maker)
    values: dict[str, object] = {}
    for key, text in texts.items():
        if key not in defaults:
            accepted = ", ".join(f"{k}={v}" for k, v in defaults.items()) or "none"
            raise ValueError(
                f"{name}: parameter {key!r} is unknown; expected one of (with defaults): {accepted}"
            )
        default = defaults[key]
        values[key] = read_parameter(name, key, text, type(default), f", such as the default {default}")
    return maker(**values)


def _maker(name: str) -> Callable[..., Game]:
    module, member = _MAKERS[name]
    return getattr(importlib.import_module(f"jaxgadget.games.{module}"), member)


def _defaults(maker: Callable[..., Game]) -> dict[str, object]:
    return {key: parameter.default for key, parameter in inspect.signature(maker).parameters.items()}
