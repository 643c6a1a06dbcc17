"""Game registry: `load` loads games by name and parameters, `list_games` lists them."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxgadget.games.gambit import GambitGame
from jaxgadget.games.game import Game
from jaxgadget.games.multiplayer import MultiplayerRules
from jaxgadget.games.openspiel import PREFIX, OpenSpielGame, PyspielGame, is_pyspiel_game
from jaxgadget.games.own import is_game, load_own
from jaxgadget.games.parameters import parse_spec, read_parameter
from jaxgadget.games.stepwise import Rules, StepwiseGame
from jaxgadget.games.team import load_team
from jaxgadget.util.members import parse_own

# Name → (module, class or function that makes the game). Modules are imported on first use.
_MAKERS = {
    "kuhn_poker": ("kuhn", "KuhnPoker"),
    "leduc_poker": ("leduc.rules", "LeducPoker"),
    "no_limit_leduc": ("leduc.no_limit", "NoLimitLeduc"),
    "goofspiel": ("goofspiel", "Goofspiel"),
    "liars_dice": ("liars_dice", "LiarsDice"),
    "dark_hex": ("phantom", "DarkHex"),
    "phantom_ttt": ("phantom", "PhantomTicTacToe"),
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
    """A registered game: name, description, parameters with defaults, named cuts."""

    name: str
    description: str
    parameters: Mapping[str, object]
    cuts: tuple[str, ...] = ()


def load(spec: str | os.PathLike[str] | Game | Rules[Any] | PyspielGame) -> Game:
    """Loads a game.

    Args:
      spec: a name with parameters in OpenSpiel's syntax, such as `leduc_poker` or
        `goofspiel(imp_info=True,num_cards=4,points_order=descending)`; `openspiel:NAME(…)` for
        any OpenSpiel game, `team(game=openspiel:NAME(…),seats=0,teammates=2)` for one with more
        players; the path of a Gambit file, ending in `.efg`; a user-defined class as `module:Class`
        or `path.py:Class`, with parameters in parentheses; an instance of `Rules`; a pyspiel game;
        or a game, which is returned unchanged.

    Raises:
      ValueError: if the name or a parameter is unknown, invalid or malformed, or the file or class
        is missing, does not make a game or raises an exception.
      ImportError: for an OpenSpiel game if OpenSpiel is not installed.
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
        return _make(text) if own is None else load_own(text, own)
    if isinstance(spec, MultiplayerRules):
        raise ValueError(
            f"spec={spec!r}: rules for {spec.num_players} players; expected a two-player game; "
            "jaxgadget.team(rules, seats=(0,)) converts them"
        )
    if is_pyspiel_game(spec):
        return OpenSpielGame(spec)
    if not is_game(spec):
        raise ValueError(
            f"spec={spec!r}: expected a game's name, the path of an .efg file, 'module:Class' or "
            "'path.py:Class', a Rules, a Game or a pyspiel game; pass an instance, not a class"
        )
    return spec


def list_games() -> list[GameEntry]:
    """All games that `load` accepts by name, except OpenSpiel's."""
    entries: list[GameEntry] = []
    for name in _MAKERS:
        maker = _maker(name)
        lines = (inspect.getdoc(maker) or "").splitlines()
        cuts = tuple(_make(name).cuts())
        entries.append(GameEntry(name, lines[0] if lines else "", _defaults(maker), cuts))
    return entries


def _is_known(spec: str) -> bool:
    """True if a specification has a registered name."""
    return spec.partition("(")[0].strip() in _MAKERS


def _make(spec: str) -> Game:
    name, texts = parse_spec(spec)
    if name == "team":
        return load_team(spec, texts)
    if name not in _MAKERS:
        near = difflib.get_close_matches(name, _MAKERS, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"expected one of {', '.join(_MAKERS)}."
        raise ValueError(
            f"game {spec!r} is unknown: {hint} OpenSpiel's games are named '{PREFIX}NAME(…)', a Gambit "
            "file ends in .efg, and a user-defined class is module:Class or path.py:Class"
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
