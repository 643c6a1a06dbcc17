"""What a sweep is made of: a request, and the pieces that it is cut into before anything is solved."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.games import group_gadgets
from jaxgadget.gadgets.specs import make_gadgets
from jaxgadget.games.game import Game
from jaxgadget.games.own import OwnGame
from jaxgadget.games.registry import load
from jaxgadget.games.stepwise import Rules
from jaxgadget.policy.blueprints import DRAWS, FORMS, parse_blueprint
from jaxgadget.policy.policy import Policy
from jaxgadget.refining.refine import list_gadgets
from jaxgadget.solving.memory import suggest_chunk, whole_memory
from jaxgadget.solving.options import LP, SolveOptions, make_options
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arguments import check_player, check_whole_number
from jaxgadget.util.digest import digest

FORMAT = 2
"""Of manifests and pieces."""

LARGEST_SEED = 2**32 - 1

GameSpec = str | os.PathLike[str] | Game | Rules[Any]
Cuts = str | Sequence[str]


@dataclasses.dataclass(frozen=True, eq=False)
class Request:
    """What was asked for, checked; see `jaxgadget.sweep`.

    Attributes:
      games: loaded, by name, with the cuts of each.
      own: names of games of the caller's, whose rules may have changed since the sweep began.
      blueprints: SPECs.
      gadgets: all of them, in the order of the results.
      options: for every number of iterations, how gadget games are solved.
      record: all of that as JSON has it.
    """

    games: dict[str, tuple[Game, tuple[str, ...]]]
    own: frozenset[str]
    blueprints: tuple[str, ...]
    seeds: tuple[int, ...]
    gadgets: tuple[Gadget, ...]
    players: tuple[int, ...]
    options: dict[int, SolveOptions]
    at_once: int
    max_histories: int
    record: dict[str, Any]

    @property
    def exact(self) -> bool:
        """Whether linear programs solve the gadget games."""
        return any(options.rule is None for options in self.options.values())

    def game_key(self, name: str) -> str:
        """What a game's blueprints and value depend on, in a word."""
        asked = {what: self.record[what] for what in ("blueprints", "seeds", "files")}
        return record_digest({"format": FORMAT, "game": name, "exact": self.exact, **asked})


@dataclasses.dataclass(frozen=True)
class Piece:
    """Work that is done at once, and lost if interrupted: gadgets that share lanes, for some blueprints.

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
        """From a manifest; ValueError if that is damaged."""
        try:
            lists: dict[str, Any] = {what: tuple(record[what]) for what in ("gadgets", "blueprints")}
            return Piece(**{**record, **lists})
        except (KeyError, TypeError) as error:
            raise ValueError(f"{record!r} describes no piece of a sweep") from error

    @property
    def num_rows(self) -> int:
        """Results, one for each gadget and blueprint."""
        return len(self.gadgets) * (self.blueprints[1] - self.blueprints[0])


class Setup(NamedTuple):
    """A game about to be swept: its tree, blueprints, the seed of each (None for no seed), and value."""

    tree: HistoryTree
    blueprints: Policy
    seeds: list[int | None]
    value: tuple[float, float]


def make_request(
    games: Any,
    cuts: Cuts | None,
    *,
    blueprints: Any,
    gadgets: Any,
    priors: Any,
    epsilons: Any,
    players: int | Sequence[int],
    seeds: Any,
    algorithm: object,
    iterations: Any,
    dtype: Any,
    blueprints_at_once: int,
    memory_limit: int | None,
    max_histories: int,
) -> Request:
    """Checks everything that can be checked without a tree; arguments as `jaxgadget.sweep` has them."""
    if not isinstance(algorithm, str):
        raise ValueError(f"algorithm={algorithm!r}: expected a name, such as 'cfr+'")
    by_name, own = _games(games, cuts)
    specs = _several("blueprints", blueprints)
    kinds = {_kind(spec) for spec in specs}
    known_seeds = [check_whole_number("seeds", seed, 0, LARGEST_SEED) for seed in _several("seeds", seeds)]
    resolvers = _several("players", players)
    for player in resolvers:
        check_player(player)
    is_exact = algorithm == LP
    counts = [0] if is_exact else _several("iterations", iterations)
    options = {
        count: make_options(
            algorithm=algorithm,
            iterations=1 if is_exact else count,
            dtype=dtype,
            memory_limit=memory_limit,
        )
        for count in counts
    }
    listed = _gadgets(_several("gadgets", gadgets), priors, epsilons, is_exact)
    record: dict[str, Any] = {
        "games": {name: list(names) for name, (_, names) in by_name.items()},
        "files": _file_digests(games, specs),
        "blueprints": specs,
        "seeds": known_seeds if DRAWS in kinds else [],
        "gadgets": [identity(gadget) for gadget in listed],
        "players": resolvers,
        "algorithm": algorithm,
        "iterations": list(options),
        "dtype": str(np.dtype(dtype)),
        "blueprints_at_once": check_whole_number("blueprints_at_once", blueprints_at_once, 1),
        "memory_limit": None if memory_limit is None else int(memory_limit),
    }
    return Request(
        games=by_name,
        own=own,
        blueprints=tuple(specs),
        seeds=tuple(record["seeds"]),
        gadgets=listed,
        players=tuple(resolvers),
        options=options,
        at_once=record["blueprints_at_once"],
        max_histories=check_whole_number("max_histories", max_histories, 1),
        record=record,
    )


def cut_pieces(request: Request, setup: Setup, forest: Forest, name: str, cut: str) -> list[Piece]:
    """The pieces of one game and cut: blueprints in blocks of equal size, gadgets that are solved together.

    Their sizes depend on the request, the game, the kind of machine and its size, never on what is free.
    """
    lanes = setup.blueprints.num_lanes
    blocks = -(-lanes // request.at_once)
    bounds = [lanes * k // blocks for k in range(blocks + 1)]
    groups = group_gadgets(request.gadgets)
    if request.exact:  # one after the other in any case: less is lost
        groups = [[number] for number in range(len(request.gadgets))]
    pieces: list[Piece] = []
    for iterations, options in request.options.items():
        memory = options.memory_limit or whole_memory(options.placement)
        for player in request.players:
            for numbers in groups:
                for begin, end in itertools.pairwise(bounds):
                    lanes = len(numbers) * (end - begin)
                    chunk = suggest_chunk(forest, lanes, options.dtype, options.placement, memory)
                    work = lanes * max(iterations, 1) * len(forest.form.payoff.value)
                    made_of = (name, cut, player, iterations, tuple(numbers), (begin, end))
                    piece = Piece("", *made_of, chunk, work)
                    pieces.append(dataclasses.replace(piece, key=piece_key(request, setup, forest, piece)))
    return pieces


def piece_key(request: Request, setup: Setup, forest: Forest, piece: Piece) -> str:
    """Everything that a piece's rows depend on, versions and device apart, in a word.

    Raises:
      ValueError: if the request has no such gadgets, blueprints or number of iterations.
    """
    profiles, lanes = setup.blueprints, range(*piece.blueprints)
    try:
        options = request.options[piece.iterations]
        gadgets = [request.record["gadgets"][number] for number in piece.gadgets]
        blueprints = [
            [profiles.labels[k], setup.seeds[k], digest(*(rows[:, k] for rows in profiles.probabilities))]
            for k in lanes
        ]
    except (IndexError, KeyError) as error:
        raise ValueError(f"{piece!r} is no piece of this sweep") from error
    return record_digest(
        {
            "format": FORMAT,
            "game": piece.game,
            "rules": fingerprint(setup.tree),
            "value": list(setup.value),
            "cut": [piece.cut, digest(forest.cut.roots, forest.cut.subgame)],
            "player": piece.player,
            "gadgets": gadgets,
            "blueprints": blueprints,
            "settings": [options.algorithm, piece.iterations, str(options.dtype), options.memory_limit],
            "chunk": piece.chunk,
        }
    )


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
    if hasattr(thing, "__array__"):
        array = np.asarray(thing)
        return {"shape": list(array.shape), "dtype": str(array.dtype), "digest": digest(array)}
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        names = {field.name: None for field in dataclasses.fields(thing)} | getattr(thing, "__dict__", {})
        kind = f"{type(thing).__module__}.{type(thing).__qualname__}"
        return {"class": kind} | {name: identity(getattr(thing, name)) for name in names}
    raise ValueError(
        f"{thing!r} in a gadget or prior: a sweep must tell it from others when it is resumed; expected a "
        "dataclass of numbers, strings and arrays"
    )


def record_digest(record: Mapping[str, Any]) -> str:
    """Sixteen letters that stand for a record."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


def fingerprint(tree: HistoryTree) -> str:
    """What stands for a game's histories, payoffs, chances, infostates and infosets."""
    if "fingerprint" not in tree.cache:
        names = np.frombuffer("\n".join("\0".join(each) for each in tree.infoset_names).encode(), np.uint8)
        arrays = [tree.parent, tree.actor, tree.action, tree.chance, tree.payoff]
        arrays += [tree.infostate, tree.infoset]
        tree.cache["fingerprint"] = digest(*arrays, names)
    return tree.cache["fingerprint"]


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two records, in words."""
    return [
        f"{name}: {_difference(old.get(name), new.get(name))}"
        for name in {**old, **new}
        if old.get(name) != new.get(name)
    ]


def _difference(old: Any, new: Any) -> str:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return ", ".join(differences(old, new))
    if isinstance(old, list) and isinstance(new, list):
        gone, more = [x for x in old if x not in new], [x for x in new if x not in old]
        if not gone and not more:
            return "in another order"
        parts = [f"{json.dumps(part)} only {when}" for part, when in ((gone, "then"), (more, "now")) if part]
        return ", ".join(parts)
    return f"{json.dumps(old)} then, {json.dumps(new)} now"


def _several(name: str, values: Any) -> list[Any]:
    """One or many, as a list without repetitions."""
    alone = isinstance(values, str) or not isinstance(values, Iterable)
    listed = [values] if alone else list(values)
    if not listed:
        raise ValueError(f"{name}={values!r} is empty: expected at least one")
    unique: list[Any] = []
    for value in listed:
        value = value.item() if isinstance(value, np.generic) else value
        if not any(value is other or (type(value) is type(other) and value == other) for other in unique):
            unique.append(value)
    return unique


def _kind(spec: Any) -> str:
    if not isinstance(spec, str):
        raise ValueError(f"blueprints: {spec!r} is no text; expected {FORMS}; `Policy.save` makes a file")
    return parse_blueprint(spec).kind


def _specs(games: Any) -> list[Any]:
    if isinstance(games, Mapping):
        return list(games)
    given: Any = games
    alone = isinstance(games, str) or not isinstance(games, Sequence)
    return [given] if alone else list(given)


def _games(games: Any, cuts: Cuts | None) -> tuple[dict[str, tuple[Game, tuple[str, ...]]], frozenset[str]]:
    """All games with their cuts, by name; and the names of the caller's own."""
    if isinstance(games, Mapping) == (cuts is not None):
        raise ValueError(
            f"cuts={cuts!r}: expected names of cuts for all games, or games as a dict from game to cuts"
        )
    by_name: dict[str, tuple[Game, tuple[str, ...]]] = {}
    own: set[str] = set()
    for spec in _specs(games):
        names = _several(f"cuts of {spec!r}", games[spec] if isinstance(games, Mapping) else cuts)
        for name in names:
            if not isinstance(name, str):
                raise ValueError(
                    f"cuts: {name!r} has no name by which a resumed sweep could know it; expected 'depth:1' "
                    "or a name that the game offers"
                )
        game = load(spec)
        if game.name in by_name:
            raise ValueError(f"games: {game.name!r} is there twice; expected each once")
        by_name[game.name] = (game, tuple(names))
        if not isinstance(spec, str | os.PathLike) or isinstance(game, OwnGame):
            own.add(game.name)
    if not by_name:
        raise ValueError("games is empty: expected at least one")
    return by_name, frozenset(own)


def _gadgets(asked: Sequence[Any], priors: Any, epsilons: Any, exact: bool) -> tuple[Gadget, ...]:
    """Names with every prior and ε, then gadgets as they are; each once."""
    names = [gadget for gadget in asked if isinstance(gadget, str)]
    made: list[Any] = [gadget for gadget in asked if not isinstance(gadget, str)]
    if names:
        made = make_gadgets(names, _several("priors", priors), _several("epsilons", epsilons)) + made
    unique: dict[tuple[Any, ...], Gadget] = {}
    for gadget in list_gadgets(made, exact):
        unique.setdefault((type(gadget), type(gadget.prior), json.dumps(identity(gadget))), gadget)
    return tuple(unique.values())


def _file_digests(games: Any, specs: Sequence[str]) -> dict[str, str]:
    """Of files that games and blueprints come from: another content is another sweep."""
    paths = [str(spec) for spec in _specs(games) if str(spec).lower().endswith(".efg")]
    paths += [parse_blueprint(spec).path for spec in specs if parse_blueprint(spec).path]
    digests: dict[str, str] = {}
    for path in paths:
        try:
            digests[path] = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()[:16]
        except OSError as error:
            raise ValueError(f"cannot read {path!r}: {error.strerror}") from error
    return digests
