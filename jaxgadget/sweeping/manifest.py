"""The request of a sweep, and the pieces into which it is divided before anything is solved."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from jaxgadget.core.memory import suggest_chunk, whole_memory
from jaxgadget.core.solver import LP, Solver
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.games import group_gadgets
from jaxgadget.gadgets.registry import ALTERNATIVES, GADGETS, PRIORS
from jaxgadget.gadgets.specs import make_alternative, make_gadgets
from jaxgadget.games.game import Game
from jaxgadget.games.own import OwnGame
from jaxgadget.games.registry import load
from jaxgadget.opponents.opponent import Opponent, Opponents, list_opponents
from jaxgadget.policy.blueprints import DRAWS, FORMS, make_blueprints, parse_blueprint
from jaxgadget.policy.policy import Policy, as_policy
from jaxgadget.subgames.knowledge import Knowledge, check_knowledge
from jaxgadget.subgames.refine import list_gadgets
from jaxgadget.sweeping.grid import Cuts, SweepGrid
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.tree.knowledge import knowledge_cover
from jaxgadget.util.arguments import check_player, check_whole_number
from jaxgadget.util.digest import digest
from jaxgadget.util.registry import find

FORMAT = 2
"""Of manifests and pieces."""

LARGEST_SEED = 2**32 - 1

FINGERPRINT = "fingerprint"
"""Property of an object that names a folder: digest of the folder's content."""

KINDS = {place: name for table in (GADGETS, PRIORS, ALTERNATIVES) for name, place in table.items()}
"""Names of gadgets, priors and alternative values: `module:object` → name."""


@dataclasses.dataclass(frozen=True, eq=False)
class Request:
    """Checked arguments of `jaxgadget.sweep`.

    Attributes:
      games: loaded, by name, with the cuts of each.
      own: names of the caller's own games, whose rules may have changed since the sweep began.
      blueprints: SPECs.
      policies: blueprints given as policies, of the only game.
      gadgets: all of them, in the order of the results.
      opponents: as passed, with models of SPECs or policies; empty without models.
      knowledge: the players' knowledge; None for common knowledge.
      solvers: solver settings for every number of iterations.
      record: the request as JSON.
    """

    games: dict[str, tuple[Game, tuple[str, ...]]]
    own: frozenset[str]
    blueprints: tuple[str, ...]
    policies: Policy | None
    seeds: tuple[int, ...]
    gadgets: tuple[Gadget, ...]
    opponents: tuple[Opponent, ...]
    knowledge: tuple[Knowledge | None, ...]
    players: tuple[int, ...]
    solvers: dict[int, Solver]
    at_once: int
    max_histories: int
    record: dict[str, Any]

    @property
    def exact(self) -> bool:
        """True if linear programs solve the gadget games."""
        return any(solver.rule is None for solver in self.solvers.values())

    def game_key(self, name: str) -> str:
        """Digest of all that a game's blueprints and value depend on."""
        keys = ("blueprints", "seeds", "files", "opponents")
        inputs = {key: self.record[key] for key in keys if key in self.record}
        return record_digest({"format": FORMAT, "game": name, "exact": self.exact, **inputs})


@dataclasses.dataclass(frozen=True)
class Piece:
    """A unit of work, lost if interrupted: gadgets that share lanes, for some blueprints.

    All opponents are part of each.

    Attributes:
      key: digest of all that its results depend on; the name of its file.
      gadgets: indices of gadgets in the request.
      blueprints: range of blueprints of the game, end exclusive.
      chunk: lanes that are solved at once.
      work: estimated run time, in arbitrary units.
      opponents: number of opponents.
      knowledge: index of the knowledge in the request.
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
    opponents: int = 1
    knowledge: int = 0

    @staticmethod
    def read(record: Mapping[str, Any]) -> Piece:
        """From a manifest; ValueError if that is damaged."""
        try:
            lists: dict[str, Any] = {key: tuple(record[key]) for key in ("gadgets", "blueprints")}
            piece = Piece(**{**record, **lists})
            texts: list[Any] = [piece.key, piece.game, piece.cut]
            if not all(isinstance(text, str) for text in texts) or not re.fullmatch(
                "[0-9a-f]{16}", piece.key
            ):
                raise ValueError(f"{texts!r}: expected a key of sixteen hexadecimal digits, a game and a cut")
            check_whole_number("player", piece.player, 0, 1)
            for key, least in {"iterations": 0, "chunk": 1, "work": 0}.items():
                check_whole_number(key, record[key], least)
            check_whole_number("opponents", piece.opponents, 1)
            check_whole_number("knowledge", piece.knowledge, 0)
            for gadget_idx in piece.gadgets:
                check_whole_number("gadgets", gadget_idx, 0)
            begin, end = piece.blueprints
            check_whole_number("blueprints", end, check_whole_number("blueprints", begin, 0) + 1)
            return piece
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{record!r} describes no piece of a sweep: {error}") from error

    @property
    def num_rows(self) -> int:
        """Results, one for each gadget, opponent and blueprint."""
        return len(self.gadgets) * self.opponents * (self.blueprints[1] - self.blueprints[0])


class Setup(NamedTuple):
    """A game about to be swept: tree, blueprints, the seed of each (None for no seed), value, opponents."""

    tree: HistoryTree
    blueprints: Policy
    seeds: list[int | None]
    value: tuple[float, float]
    opponents: Opponents | None = None

    @property
    def num_opponents(self) -> int:
        """Number of opponents; 1 without any."""
        return 1 if self.opponents is None else len(self.opponents)


def make_request(grid: SweepGrid, solver: Solver, blueprints_at_once: int) -> Request:
    """Checks everything that can be checked without a tree; arguments as `jaxgadget.sweep` has them."""
    if not isinstance(grid, SweepGrid):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"grid={grid!r}: expected a SweepGrid, such as SweepGrid(games='kuhn_poker')")
    if not isinstance(solver.algorithm, str):
        raise ValueError(f"algorithm={solver.algorithm!r}: expected a name, such as 'cfr+'")
    by_name, own = _games(grid.games, grid.cuts)
    specs, blueprint_policies = _split_blueprints(grid.blueprints)
    policies = _policies(by_name, blueprint_policies, grid.max_histories) if blueprint_policies else None
    kinds = {_kind(spec) for spec in specs}
    seeds = [check_whole_number("seeds", seed, 0, LARGEST_SEED) for seed in _several("seeds", grid.seeds)]
    resolvers = _several("players", grid.players)
    for player in resolvers:
        check_player(player)
    is_exact = solver.algorithm == LP
    counts = [0] if is_exact else _several("iterations", grid.iterations)
    solvers = {
        count: dataclasses.replace(solver, iterations=1 if is_exact else count, progress=None)
        for count in counts
    }
    listed = _gadgets(
        _several("gadgets", grid.gadgets),
        grid.priors,
        grid.epsilons,
        grid.alternatives,
        exact=is_exact,
        players=resolvers,
    )
    opponents = _opponents(by_name, grid.opponent, grid.max_histories)
    knowledge = _knowledge(grid.knowledge, listed, opponents)
    record: dict[str, Any] = {
        "games": {name: list(names) for name, (_, names) in by_name.items()},
        "files": _file_digests(grid.games, [*specs, *_model_specs(opponents)]),
        "blueprints": [*specs, *_policy_records(policies)],
        "seeds": seeds if DRAWS in kinds else [],
        "gadgets": [identity(gadget) for gadget in listed],
        "players": resolvers,
        "algorithm": solver.algorithm,
        "iterations": list(solvers),
        "dtype": solver.precision.name,
        "blueprints_at_once": check_whole_number("blueprints_at_once", blueprints_at_once, 1),
        "memory_limit": solver.memory_limit,
    }
    if opponents:  # records without opponents keep their digests
        record["opponents"] = [_opponent_record(opponent) for opponent in opponents]
    if any(item is not None for item in knowledge):
        record["knowledge"] = [identity(item) for item in knowledge]
    return Request(
        games=by_name,
        own=own,
        blueprints=tuple(specs),
        policies=policies,
        seeds=tuple(record["seeds"]),
        gadgets=listed,
        opponents=opponents,
        knowledge=knowledge,
        players=tuple(resolvers),
        solvers=solvers,
        at_once=record["blueprints_at_once"],
        max_histories=check_whole_number("max_histories", grid.max_histories, 1),
        record=record,
    )


def cut_pieces(request: Request, setup: Setup, forest: Forest, name: str, cut: str) -> list[Piece]:
    """Pieces of one game and cut: blueprints in blocks of equal size, gadgets that are solved together.

    Their sizes depend on the request, the game, the kind of machine and its memory, never on free memory.
    """
    lanes = setup.blueprints.num_lanes
    blocks = -(-lanes // request.at_once)
    bounds = [lanes * k // blocks for k in range(blocks + 1)]
    groups = group_gadgets(request.gadgets)
    if request.exact:  # gadgets are solved one by one anyway: smaller pieces lose less
        groups = [[idx] for idx in range(len(request.gadgets))]
    pieces: list[Piece] = []
    by_player = itertools.product(enumerate(request.knowledge), request.players)
    searches = [(idx, player, *_known(forest, player, knowledge)) for (idx, knowledge), player in by_player]
    for iterations, solver in request.solvers.items():
        memory = solver.memory_limit or whole_memory(solver.placement)
        for idx, player, subgames, draws in searches:
            for gadget_group in groups:
                for begin, end in itertools.pairwise(bounds):
                    lanes = len(gadget_group) * setup.num_opponents * (end - begin) * draws
                    sequences = subgames.form.num_sequences
                    chunk = suggest_chunk(sequences, lanes, solver.precision, solver.placement, memory)
                    work = lanes * max(iterations, 1) * subgames.form.payoff.num_entries
                    made_of = (name, cut, player, iterations, tuple(gadget_group), (begin, end))
                    piece = Piece("", *made_of, chunk, work, setup.num_opponents, idx)
                    pieces.append(dataclasses.replace(piece, key=piece_key(request, setup, forest, piece)))
    return pieces


def _known(forest: Forest, player: int, knowledge: Knowledge | None) -> tuple[Forest, int]:
    """Subgames of a player's knowledge, and the number of searches of each."""
    if knowledge is None:
        return forest, 1
    covered = knowledge_cover(forest.cut, player, knowledge.order, unfrozen=knowledge.unfrozen)
    return build_forest(forest.tree, covered.cover), knowledge.draws


def piece_key(request: Request, setup: Setup, forest: Forest, piece: Piece) -> str:
    """Digest of all that a piece's rows depend on, except versions and device.

    Raises:
      ValueError: if the request has no such gadgets, blueprints or number of iterations.
    """
    profiles, lanes = setup.blueprints, range(*piece.blueprints)
    try:
        solver = request.solvers[piece.iterations]
        gadgets = [request.record["gadgets"][gadget_idx] for gadget_idx in piece.gadgets]
        knowledge = request.knowledge[piece.knowledge]
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
            "settings": [solver.name, piece.iterations, str(solver.precision), solver.memory_limit],
            "chunk": piece.chunk,
            **({} if setup.opponents is None else {"opponents": _opponents_digest(setup.opponents)}),
            **({} if knowledge is None else {"knowledge": identity(knowledge)}),
        }
    )


def identity(thing: Any) -> Any:
    """A gadget or `Knowledge` as JSON, equal for equal ones; arrays and folders by their digest.

    Raises:
      ValueError: for a value that is neither a dataclass nor a plain value.
    """
    if thing is None or isinstance(thing, bool | int | float | str):
        return thing
    if isinstance(thing, tuple | list | frozenset | set):
        return [identity(item) for item in (thing if isinstance(thing, tuple | list) else sorted(thing))]
    if isinstance(thing, np.integer | np.floating):
        return thing.item()
    if isinstance(thing, Policy):
        return {"label": ", ".join(thing.labels), "digest": digest(*thing.probabilities)}
    if hasattr(thing, "__array__"):
        array = np.asarray(thing)
        return {"shape": list(array.shape), "dtype": str(array.dtype), "digest": digest(array)}
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        fields = dataclasses.fields(thing)
        names = {field.name: None for field in fields} | getattr(thing, "__dict__", {})
        for field in fields:  # sweeps that were begun before there was such a field go on
            if field.metadata.get("later", False) and getattr(thing, field.name) is field.default:
                del names[field.name]
        kind = f"{type(thing).__module__}.{type(thing).__qualname__}"
        names |= {FINGERPRINT: None} if hasattr(type(thing), FINGERPRINT) else {}
        return {"class": kind} | {name: identity(getattr(thing, name)) for name in names}
    raise ValueError(
        f"{thing!r} in a gadget, prior or generation: a sweep must tell it from others when it is resumed; "
        "expected a dataclass of numbers, strings and arrays"
    )


def record_digest(record: Mapping[str, Any]) -> str:
    """Digest of a record, sixteen hexadecimal digits."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


def fingerprint(tree: HistoryTree) -> str:
    """Digest of a game's histories, payoffs, chances, infostates and infosets."""
    if "fingerprint" not in tree.cache:
        names = np.frombuffer("\n".join("\0".join(each) for each in tree.infoset_names).encode(), np.uint8)
        arrays = [tree.parent, tree.actor, tree.action, tree.chance, tree.payoff]
        arrays += [tree.infostate, tree.infoset]
        tree.cache["fingerprint"] = digest(*arrays, names)
    return tree.cache["fingerprint"]


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Differences between two records, a line each, with the names of tables."""
    lines: list[str] = []
    for name in {**old, **new}:
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            changes = differences(before, after)
        elif isinstance(before, list | None) and isinstance(after, list | None):
            before, after = before or [], after or []  # nothing asked for: no line of its own
            old_items = {label(item): item for item in before if item not in after}
            new_items = {label(item): item for item in after if item not in before}
            changes = [f"{name} only then" for name in old_items if name not in new_items]
            changes += [f"{name} only now" for name in new_items if name not in old_items]
            changes += [f"{name} {_change(old_items[name])}" for name in old_items if name in new_items]
            changes = changes or ["in another order"]
        else:
            changes = [f"{label(before)} then, {label(after)} now"]
        lines += [f"{name}: {line}" for line in changes]
    return lines


def _change(thing: Any) -> str:
    """Description of a change under the same name."""
    if f'"{FINGERPRINT}"' in json.dumps(thing):
        return "is not what it was: its folder holds another network now"
    return "is not what it was"


def label(thing: Any) -> str:
    """Name in tables of an item of a record; for gadgets and priors, see `identity`."""
    if isinstance(thing, list):
        return ", ".join(map(label, thing))
    if not isinstance(thing, Mapping):
        return "none" if thing is None else f"{thing:g}" if isinstance(thing, float) else str(thing)
    if "digest" in thing:
        return f"array {thing['digest']}"
    module, _, kind = str(thing.get("class")).rpartition(".")
    path = f"{module}:{kind}"
    defaults = identity(find({path: path}, path, "kind")()) if path in KINDS else {}
    words = [str(thing.get("name") or KINDS.get(path, kind))]
    for field, value in thing.items():
        if field == "prior" and label(value) != "none":
            words.append(f"{label(value)} prior, epsilon {label(thing.get('epsilon'))}")
        elif field not in ("class", "name", "prior", "epsilon", FINGERPRINT) and value != defaults.get(field):
            words.append(f"{field} {label(value)}")
    return ", ".join(words)


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


def _split_blueprints(blueprints: Any) -> tuple[list[Any], list[Any]]:
    """Splits blueprints into SPECs and policies."""
    alone = isinstance(blueprints, str) or _is_policy(blueprints) or not isinstance(blueprints, Iterable)
    listed: list[Any] = [blueprints] if alone else list(blueprints)
    policies = [blueprint for blueprint in listed if _is_policy(blueprint)]
    specs = [blueprint for blueprint in listed if not _is_policy(blueprint)]
    return ([] if policies and not specs else _several("blueprints", specs)), policies


def _is_policy(blueprint: Any) -> bool:
    return isinstance(blueprint, Policy | Mapping) or hasattr(blueprint, "action_probabilities")


def _policies(
    games: Mapping[str, tuple[Game, tuple[str, ...]]], blueprints: Sequence[Any], max_histories: int
) -> Policy:
    """Blueprints that are policies, for the only game, each lane with a unique label."""
    if len(games) != 1:
        raise ValueError(
            f"blueprints: policies are for one game, and the sweep has {', '.join(games)}; sweep each game "
            "by itself"
        )
    ((game, _),) = games.values()
    policies = as_policy(blueprints, enumerate_game(game, max_histories=max_histories), name="blueprints")
    twice = [label for label, count in collections.Counter(policies.labels).items() if count > 1]
    if twice:
        raise ValueError(
            f"blueprints: several policies are called {', '.join(map(repr, twice))}; give each its own "
            "label, as by Policy.from_openspiel(tree, policy, label)"
        )
    return policies


def _opponents(
    games: Mapping[str, tuple[Game, tuple[str, ...]]], argument: Any, max_histories: int
) -> tuple[Opponent, ...]:
    """Opponents whose models are a list of SPECs, or a policy for the only game."""
    if argument is None:
        return ()
    listed: list[Any] = list(argument) if isinstance(argument, Sequence) else [argument]
    if not listed or not all(isinstance(opponent, Opponent) for opponent in listed):
        raise ValueError(f"opponent={argument!r}: expected Opponent(model, p=…), or a list of them")
    opponents: list[Opponent] = []
    for opponent in listed:
        if opponent.model is None:
            opponents.append(opponent)
            continue
        specs, policies = _split_blueprints(opponent.model)
        if specs and policies:
            raise ValueError(f"model={opponent.model!r}: expected SPECs of blueprints or policies, not both")
        for spec in specs:
            _kind(spec)
        model: Any = _policies(games, policies, max_histories) if policies else specs
        opponents.append(dataclasses.replace(opponent, model=model))
    return tuple(opponents)


def _knowledge(
    argument: Any, gadgets: Sequence[Gadget], opponents: Sequence[Opponent]
) -> tuple[Knowledge | None, ...]:
    """The players' knowledge without duplicates; None for common knowledge."""
    listed: list[Any] = list(argument) if isinstance(argument, Sequence) else [argument]
    if not listed:
        raise ValueError("knowledge=[] is empty: expected at least one, or None for what is common knowledge")
    for item in listed:
        if item is not None:
            check_knowledge(item, gadgets, opponents or None)
    # a user's generation need not be hashable
    return tuple(item for k, item in enumerate(listed) if item not in listed[:k])


def _model_specs(opponents: Sequence[Opponent]) -> list[str]:
    """The SPECs among their models."""
    models = [opponent.model for opponent in opponents if isinstance(opponent.model, list)]
    return [spec for model in models for spec in cast("list[str]", model)]


def _opponent_record(opponent: Opponent) -> dict[str, Any]:
    """Record of an opponent."""
    model: Any = opponent.model
    models = _policy_records(model) if isinstance(model, Policy) else model
    p: Any = opponent.p
    return {"name": "opponent", "model": models, "p": np.atleast_1d(np.asarray(p, np.float64)).tolist()}


def settle_opponents(request: Request, tree: HistoryTree) -> Opponents | None:
    """The opponents of a game with their models as policies; None without opponents."""
    if not request.opponents:
        return None
    made = [
        dataclasses.replace(
            opponent,
            model=make_blueprints(tree, cast("list[str]", opponent.model), progress=False, argument="model"),
        )
        if isinstance(opponent.model, list)
        else opponent
        for opponent in request.opponents
    ]
    return list_opponents(made, tree, name="opponent")


def _opponents_digest(opponents: Opponents) -> list[Any]:
    rows = opponents.policy.probabilities
    return [
        [opponents.labels[k], float(opponents.p[k]), digest(*(player_rows[:, k] for player_rows in rows))]
        for k in range(len(opponents))
    ]


def _policy_records(policies: Policy | None) -> list[dict[str, str]]:
    """Records of blueprints that are policies."""
    if policies is None:
        return []
    return [
        {"label": label, "digest": digest(*(rows[:, lane] for rows in policies.probabilities))}
        for lane, label in enumerate(policies.labels)
    ]


def _kind(spec: Any) -> str:
    if not isinstance(spec, str):
        raise ValueError(
            f"blueprints: {spec!r} is no text and no policy; expected {FORMS}; `Policy.save` makes a file"
        )
    return parse_blueprint(spec).kind


def _specs(games: Any) -> list[Any]:
    if isinstance(games, Mapping):
        return list(games)
    game: Any = games
    alone = isinstance(games, str) or not isinstance(games, Sequence)
    return [game] if alone else list(game)


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


def _gadgets(
    gadgets: Sequence[Any],
    priors: Any,
    epsilons: Any,
    alternatives: Any,
    *,
    exact: bool,
    players: Sequence[int],
) -> tuple[Gadget, ...]:
    """Named gadgets with every prior, ε and alternative values, then gadget objects; without duplicates."""
    names = [gadget for gadget in gadgets if isinstance(gadget, str)]
    made: list[Any] = [gadget for gadget in gadgets if not isinstance(gadget, str)]
    if names:
        sources = [
            make_alternative(alternative) if isinstance(alternative, str) else alternative
            for alternative in _several("alternatives", alternatives)
        ]
        made = make_gadgets(names, _several("priors", priors), _several("epsilons", epsilons), sources) + made
    unique: dict[tuple[Any, ...], Gadget] = {}
    for gadget in list_gadgets(made, exact, players):
        unique.setdefault((type(gadget), type(gadget.prior), json.dumps(identity(gadget))), gadget)
    return tuple(unique.values())


def _file_digests(games: Any, specs: Sequence[str]) -> dict[str, str]:
    """Digests of the files of games and blueprints: a sweep depends on their content."""
    paths = [str(spec) for spec in _specs(games) if str(spec).lower().endswith(".efg")]
    paths += [parse_blueprint(spec).path for spec in specs if parse_blueprint(spec).path]
    digests: dict[str, str] = {}
    for path in paths:
        try:
            digests[path] = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()[:16]
        except OSError as error:
            raise ValueError(f"cannot read {path!r}: {error.strerror}") from error
    return digests
