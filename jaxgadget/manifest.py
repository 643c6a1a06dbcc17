"""What a sweep is made of: a request, and the pieces that it is cut into before anything is solved."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxgadget.batch import Settings
from jaxgadget.blueprints import DRAWS, parse_blueprint
from jaxgadget.evaluate import check_player
from jaxgadget.games.game import Game
from jaxgadget.games.registry import load
from jaxgadget.games.stepwise import Rules
from jaxgadget.refine import list_gadgets, make_settings
from jaxgadget.solve.gadget import Gadget
from jaxgadget.solve.plan import suggest_chunk
from jaxgadget.solver import LP
from jaxgadget.specs import make_gadgets
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.history import HistoryTree

FORMAT = 1
"""Of manifests and pieces."""

MOST_SEEDS = 2**32

GameSpec = str | os.PathLike[str] | Game | Rules[Any]
Cuts = str | Sequence[str]


@dataclasses.dataclass(frozen=True, eq=False)
class Request:
    """What was asked for, checked; see `jaxgadget.sweep`.

    Attributes:
      games: loaded, by name, with the cuts of each.
      own: names of games that only the caller's program knows.
      blueprints: SPECs.
      gadgets: all of them, in the order of the results.
      settings: for every number of iterations, how gadget games are solved.
      record: all of that as JSON has it.
    """

    games: dict[str, tuple[Game, tuple[str, ...]]]
    own: frozenset[str]
    blueprints: tuple[str, ...]
    seeds: tuple[int, ...]
    gadgets: tuple[Gadget, ...]
    players: tuple[int, ...]
    settings: dict[int, Settings]
    at_once: int
    max_histories: int
    record: dict[str, Any]

    @property
    def exact(self) -> bool:
        """Whether linear programs solve the gadget games."""
        return any(setting.rule is None for setting in self.settings.values())

    def game_key(self, name: str) -> str:
        """What a game's blueprints and value depend on, in a word."""
        asked = {what: self.record[what] for what in ("blueprints", "seeds", "files")}
        return digest({"format": FORMAT, "game": name, "exact": self.exact, **asked})


@dataclasses.dataclass(frozen=True)
class Piece:
    """Work that is done at once, and lost if it is interrupted: one kind of gadget for some blueprints.

    Attributes:
      key: everything that its results depend on, in a word; the name of its file.
      gadgets: numbers of gadgets in the request.
      blueprints: from and to which blueprint of the game.
      chunk: lanes that are solved at once.
      work: how long it will take, in units that only compare pieces.
    """

    key: str
    game: str
    cut: str
    player: int
    iterations: int
    gadgets: tuple[int, ...]
    blueprints: tuple[int, int]
    chunk: int
    work: int

    @staticmethod
    def read(record: Mapping[str, Any]) -> Piece:
        """From a manifest."""
        lists: dict[str, Any] = {what: tuple(record[what]) for what in ("gadgets", "blueprints")}
        return Piece(**{**record, **lists})


def make_request(
    where: tuple[Any, Cuts | None],
    profiles: tuple[Any, Any],
    gadgets: tuple[Any, Any, Any],
    players: int | Sequence[int],
    solver: tuple[str, Any, str, int | None],
    limits: tuple[int, int],
) -> Request:
    """Checks everything that can be checked without a tree.

    Args:
      where: games and cuts; these and what follows as `jaxgadget.sweep` has them.
      profiles: blueprints and seeds.
      gadgets: these, priors and ε.
      players: who re-solves.
      solver: algorithm, iterations, dtype, memory limit.
      limits: blueprints at once, histories of a game.
    """
    games, (algorithm, iterations, dtype, memory_limit) = where[0], solver
    found, at_once = _games(*where), limits[0]
    specs, seeds = _several("blueprints", profiles[0]), _several("seeds", profiles[1])
    several = [0] if algorithm == LP else _several("iterations", iterations)
    _check_whole("seeds", seeds, 0, MOST_SEEDS)
    _check_whole("blueprints_at_once", [at_once], 1, 1 << 20)
    for player in _several("players", players):
        check_player(player)
    settings = {
        count: make_settings(
            algorithm, (1 if algorithm == LP else count, None, 100), dtype, None, None, memory_limit, None
        )
        for count in several
    }
    kinds = [parse_blueprint(spec).kind for spec in specs]
    listed = list_gadgets(_gadgets(_several("gadgets", gadgets[0]), *gadgets[1:]), algorithm == LP)
    record: dict[str, Any] = {
        "games": {name: list(cuts) for name, (_, cuts) in found.items()},
        "files": _file_digests(games, specs),
        "blueprints": specs,
        "seeds": seeds if DRAWS in kinds else [],
        "gadgets": [identity(gadget) for gadget in listed],
        "players": _several("players", players),
        "algorithm": algorithm,
        "iterations": several,
        "dtype": str(np.dtype(dtype)),
        "blueprints_at_once": at_once,
        "memory_limit": memory_limit,
    }
    return Request(
        games=found,
        own=frozenset(load(spec).name for spec in _specs(games) if not isinstance(spec, str | os.PathLike)),
        blueprints=tuple(specs),
        seeds=tuple(record["seeds"]),
        gadgets=listed,
        players=tuple(record["players"]),
        settings=settings,
        at_once=at_once,
        max_histories=limits[1],
        record=record,
    )


def cut_pieces(request: Request, name: str, forest: Forest, cut: str, labels: Sequence[str]) -> list[Piece]:
    """The pieces of one game and cut: blueprints in blocks of equal size, one kind of gadget at a time."""
    blocks = -(-len(labels) // request.at_once)
    bounds = [len(labels) * k // blocks for k in range(blocks + 1)]
    kinds: dict[type[Any], list[int]] = {}
    for number, gadget in enumerate(request.gadgets):
        kinds.setdefault(type(gadget), []).append(number)
    found: list[Piece] = []
    for iterations, settings in request.settings.items():
        for player in request.players:
            for numbers in kinds.values():
                for begin, end in itertools.pairwise(bounds):
                    lanes = len(numbers) * (end - begin)
                    chunk = suggest_chunk(forest, lanes, settings.dtype)
                    depends = {
                        "format": FORMAT,
                        "game": name,
                        "rules": fingerprint(forest.tree),
                        "cut": cut,
                        "player": player,
                        "gadgets": [request.record["gadgets"][k] for k in numbers],
                        "blueprints": list(labels[begin:end]),
                        "made": request.game_key(name),
                        "settings": [settings.algorithm, iterations, str(settings.dtype), chunk],
                    }
                    work = lanes * max(iterations, 1) * len(forest.form.payoff.value)
                    place = (name, cut, player, iterations, tuple(numbers), (begin, end))
                    found.append(Piece(digest(depends), *place, chunk, work))
    return found


def identity(thing: Any) -> Any:
    """A gadget or prior as JSON has it, equal for equal ones; arrays by their digest.

    Raises:
      ValueError: for what is neither a dataclass nor a plain value.
    """
    if thing is None or isinstance(thing, bool | int | float | str):
        return thing
    if isinstance(thing, tuple | list | frozenset | set):
        return [identity(part) for part in (thing if isinstance(thing, tuple | list) else sorted(thing))]
    if isinstance(thing, np.integer | np.floating):
        return thing.item()
    if isinstance(thing, np.ndarray):
        return {"shape": list(thing.shape), "sha256": hashlib.sha256(_bytes(thing)).hexdigest()}
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        fields = {field.name: identity(getattr(thing, field.name)) for field in dataclasses.fields(thing)}
        return {"class": type(thing).__qualname__, **fields}
    raise ValueError(
        f"{thing!r} in a gadget or prior: a sweep must tell it from others when it is resumed; expected a "
        "dataclass of numbers, strings and arrays"
    )


def digest(record: Mapping[str, Any]) -> str:
    """Sixteen letters that stand for a record."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


def fingerprint(tree: HistoryTree) -> str:
    """Sixteen letters that stand for a game's histories, payoffs, chances and infosets."""
    if "fingerprint" not in tree.cache:
        found = hashlib.sha256()
        for array in (tree.parent, tree.actor, tree.action, tree.chance, tree.payoff, tree.infoset):
            found.update(_bytes(array))
        for names in tree.infoset_names:
            found.update("\0".join(names).encode())
        tree.cache["fingerprint"] = found.hexdigest()[:16]
    return tree.cache["fingerprint"]


def _bytes(array: Any) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two records, in words."""
    return [
        f"{name}: {json.dumps(old.get(name))} then, {json.dumps(new.get(name))} now"
        for name in {**old, **new}
        if old.get(name) != new.get(name)
    ]


def _several(name: str, values: Any) -> list[Any]:
    """One or many, as a list without repetitions."""
    alone = isinstance(values, str) or not isinstance(values, Iterable)
    found = [values] if alone else list(values)
    if not found:
        raise ValueError(f"{name}={values!r} is empty: expected at least one")
    unique: list[Any] = []
    for value in found:
        value = value.item() if isinstance(value, np.generic) else value
        if not any(value is other or (type(value) is type(other) and value == other) for other in unique):
            unique.append(value)
    return unique


def _check_whole(name: str, values: Sequence[Any], low: int, high: int) -> None:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value < high:
            raise ValueError(f"{name}={value!r}: expected a whole number from {low} to {high - 1}")


def _specs(games: Any) -> list[Any]:
    if isinstance(games, Mapping):
        return list(games)
    several: Any = games
    alone = isinstance(games, str) or not isinstance(games, Sequence)
    return [several] if alone else list(several)


def _games(games: Any, cuts: Cuts | None) -> dict[str, tuple[Game, tuple[str, ...]]]:
    """All games with their cuts, by name."""
    if isinstance(games, Mapping) == (cuts is not None):
        raise ValueError(
            f"cuts={cuts!r}: expected names of cuts for all games, or games as a dict from game to cuts"
        )
    found: dict[str, tuple[Game, tuple[str, ...]]] = {}
    for spec in _specs(games):
        mine = _several(f"cuts of {spec!r}", games[spec] if isinstance(games, Mapping) else cuts)
        for name in mine:
            if not isinstance(name, str):
                raise ValueError(
                    f"cuts: {name!r} has no name by which a resumed sweep could know it; expected 'depth:1' "
                    "or a name that the game offers"
                )
        game = load(spec)
        if game.name in found:
            raise ValueError(f"games: {game.name!r} is there twice; expected each once")
        found[game.name] = (game, tuple(mine))
    if not found:
        raise ValueError("games is empty: expected at least one")
    return found


def _gadgets(asked: Sequence[Any], priors: Any, epsilons: Any) -> list[Gadget]:
    """Names with every prior and ε, then gadgets as they are."""
    names = [gadget for gadget in asked if isinstance(gadget, str)]
    made: list[Any] = [gadget for gadget in asked if not isinstance(gadget, str)]
    if names:
        made = make_gadgets(names, _several("priors", priors), _several("epsilons", epsilons)) + made
    return made


def _file_digests(games: Any, specs: Sequence[str]) -> dict[str, str]:
    """Of files that games and blueprints come from: another content is another sweep."""
    paths = [str(spec) for spec in _specs(games) if str(spec).lower().endswith(".efg")]
    paths += [parse_blueprint(spec).path for spec in specs if parse_blueprint(spec).path]
    found: dict[str, str] = {}
    for path in paths:
        try:
            found[path] = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()[:16]
        except OSError as error:
            raise ValueError(f"cannot read {path!r}: {error.strerror}") from error
    return found
