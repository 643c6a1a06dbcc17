"""The request of a sweep: its validated arguments, and their record in the manifest."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

import numpy as np

from jaxgadget.core.solver import LP, Solver
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.specs import make_alternative, make_gadgets
from jaxgadget.games.game import DEFAULT_MAX_HISTORIES, Game
from jaxgadget.games.own import OwnGame
from jaxgadget.games.registry import load
from jaxgadget.opponents.opponent import OpponentLike, Opponents, check_opponents, list_opponents
from jaxgadget.policy.blueprints import DRAWS, FORMS, parse_blueprint
from jaxgadget.policy.identity import DEFAULTS, identity, lane_digest, record_digest, restore
from jaxgadget.policy.policy import Policy, as_policy
from jaxgadget.subgames.knowledge import Knowledge, check_knowledge
from jaxgadget.subgames.refine import list_gadgets
from jaxgadget.sweeping.grid import SweepGrid
from jaxgadget.tree.public import Tree, lay_out
from jaxgadget.tree.tree import Form
from jaxgadget.util.arguments import check_player, check_whole_number

FORMAT = 2
"""Format of manifests and pieces, part of their digests."""

MAX_SEED = 2**32 - 1


@dataclasses.dataclass(frozen=True, eq=False)
class SweptGame:
    """A game of a sweep.

    Attributes:
      rules: the game.
      cuts: names of its cuts.
      is_own: True for a user-defined game, whose rules may have changed since the sweep began.
    """

    rules: Game
    cuts: tuple[str, ...]
    is_own: bool


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Request:
    """Validated arguments of `jaxgadget.sweep`.

    Attributes:
      games: loaded games, by name.
      form: layout of all games.
      blueprints: SPECs of blueprints.
      policies: blueprints given as policies; the sweep then has a single game.
      seeds: seeds of `draws` blueprints; empty if there are none.
      gadgets: all gadgets, in the order of the results.
      opponents: opponents of any game, or of the single game if their record contains numbers; empty without
        opponents.
      knowledge: the players' knowledge; None for common knowledge.
      players: resolving players.
      solvers: solver settings, one for every number of iterations.
      blueprints_at_once: maximum number of blueprints in a piece.
      max_histories: maximum number of histories of a game.
      record: the request as JSON.
    """

    games: dict[str, SweptGame]
    form: Form
    blueprints: tuple[str, ...]
    policies: Policy | None
    seeds: tuple[int, ...]
    gadgets: tuple[Gadget, ...]
    opponents: tuple[OpponentLike, ...]
    knowledge: tuple[Knowledge | None, ...]
    players: tuple[int, ...]
    solvers: dict[int, Solver]
    blueprints_at_once: int
    max_histories: int
    record: dict[str, Any]

    @property
    def exact(self) -> bool:
        """True if linear programs solve the gadget games."""
        return any(solver.rule is None for solver in self.solvers.values())

    def game_key(self, name: str) -> str:
        """Digest of all inputs of a game's blueprints and value."""
        keys = ("blueprints", "seeds", "files", "opponents", "form")
        inputs = {key: self.record[key] for key in keys if key in self.record}
        return record_digest({"format": FORMAT, "game": name, "exact": self.exact, **inputs})

    def lay_out(self, name: str) -> Tree:
        """The tree of a game; blueprints given as policies determine it."""
        if self.policies is not None:
            return self.policies.tree
        return lay_out(self.games[name].rules, self.form, max_histories=self.max_histories)

    def make_opponents(self, tree: Tree) -> Opponents | None:
        """The opponents of a game; None without opponents."""
        if not self.opponents:
            return None
        opponents, digests = list_opponents(self.opponents, tree, name="opponent"), dict[str | None, str]()
        for lane, label in zip(opponents.model.tolist(), opponents.labels, strict=True):
            digest = lane_digest(opponents.models, lane)
            if label is not None and digests.setdefault(label, digest) != digest:
                raise ValueError(
                    f"opponent: different models have the label {label!r}; expected unique labels"
                )
        return opponents


def make_request(grid: SweepGrid, solver: Solver, blueprints_at_once: int) -> Request:
    """Validates the arguments of `jaxgadget.sweep`, as far as possible without a tree."""
    if not isinstance(grid, SweepGrid):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"grid={grid!r}: expected a SweepGrid, such as SweepGrid(games='kuhn_poker')")
    if not isinstance(solver.algorithm, str):
        raise ValueError(f"algorithm={solver.algorithm!r}: expected a name, such as 'cfr+'")
    if grid.form not in get_args(Form):
        raise ValueError(f"form={grid.form!r}: expected {' or '.join(map(repr, get_args(Form)))}")
    games = _games(grid)
    specs, blueprint_policies = _split_blueprints(grid.blueprints)
    policies = _policies(games, blueprint_policies, grid) if blueprint_policies else None
    kinds = {_kind(spec) for spec in specs}
    seeds = [check_whole_number("seeds", seed, 0, MAX_SEED) for seed in _several("seeds", grid.seeds)]
    players = _several("players", grid.players)
    for player in players:
        check_player(player)
    is_exact = solver.algorithm == LP
    solvers = _solvers(solver, [0] if is_exact else _several("iterations", grid.iterations))
    gadgets = _gadgets(grid, players, exact=is_exact)
    opponents = _opponents(games, grid)
    knowledge = _knowledge(grid, gadgets, opponents)
    request = Request(
        games=games,
        form=grid.form,
        blueprints=tuple(specs),
        policies=policies,
        seeds=tuple(seeds) if DRAWS in kinds else (),
        gadgets=gadgets,
        opponents=opponents,
        knowledge=knowledge,
        players=tuple(players),
        solvers=solvers,
        blueprints_at_once=check_whole_number("blueprints_at_once", blueprints_at_once, 1),
        max_histories=check_whole_number("max_histories", grid.max_histories, 1),
        record={},
    )
    return dataclasses.replace(request, record=_record(request, grid, solver))


def read_request(record: Mapping[str, Any], max_histories: int = DEFAULT_MAX_HISTORIES) -> Request:
    """Makes a request from its record, to solve pieces again whose blueprints are in the sweep's folder.

    It lacks blueprints that were given as policies, and opponents, which the folder's files of games contain.

    Args:
      record: `Request.record`, from a manifest.
      max_histories: as in `enumerate_game`.

    Raises:
      ValueError: if a game cannot be loaded by its name, or a gadget, prior, alternative values or generation
        is of a user's class.
    """
    games: dict[str, SweptGame] = {}
    for name, cuts in record["games"].items():
        rules = load(name)
        games[name] = SweptGame(rules, tuple(cuts), isinstance(rules, OwnGame))
    return Request(
        games=games,
        form=record.get("form", DEFAULTS["form"]),
        blueprints=tuple(spec for spec in record["blueprints"] if isinstance(spec, str)),
        policies=None,
        seeds=tuple(record["seeds"]),
        gadgets=restore(record["gadgets"]),
        opponents=(),
        knowledge=restore(record.get("knowledge", [None]), Knowledge),
        players=tuple(record["players"]),
        solvers=_solvers(read_solver(record), record["iterations"]),
        blueprints_at_once=record["blueprints_at_once"],
        max_histories=check_whole_number("max_histories", max_histories, 1),
        record=dict(record),
    )


def read_solver(record: Mapping[str, Any]) -> Solver:
    """The settings in the record of a request, without a number of iterations."""
    return Solver(algorithm=record["algorithm"], dtype=record["dtype"], memory_limit=record["memory_limit"])


def _solvers(solver: Solver, counts: Sequence[int]) -> dict[int, Solver]:
    """Settings for each number of iterations; linear programs have none."""
    return {
        count: dataclasses.replace(solver, iterations=1 if solver.algorithm == LP else count, progress=None)
        for count in counts
    }


def _record(request: Request, grid: SweepGrid, solver: Solver) -> dict[str, Any]:
    """The request as JSON; omits unused items of later versions, so that earlier sweeps can be resumed."""
    record: dict[str, Any] = {
        "games": {name: list(game.cuts) for name, game in request.games.items()},
        "files": _file_digests(
            grid.games,
            [*request.blueprints, *(spec for opponent in request.opponents for spec in opponent.specs)],
        ),
        "blueprints": [*request.blueprints, *_policy_records(request.policies)],
        "seeds": list(request.seeds),
        "gadgets": [identity(gadget) for gadget in request.gadgets],
        "players": list(request.players),
        "algorithm": solver.algorithm,
        "iterations": list(request.solvers),
        "dtype": solver.precision.name,
        "blueprints_at_once": request.blueprints_at_once,
        "memory_limit": solver.memory_limit,
    }
    if request.opponents:
        record["opponents"] = [identity(opponent) for opponent in request.opponents]
    if any(item is not None for item in request.knowledge):
        record["knowledge"] = [identity(item) for item in request.knowledge]
    if request.form != DEFAULTS["form"]:
        record["form"] = request.form
    return record


def _several(name: str, values: Any) -> list[Any]:
    """Converts one value or several to a list without duplicates."""
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


def _only_tree(games: Mapping[str, SweptGame], grid: SweepGrid, argument: str) -> Tree:
    """The tree of a sweep's single game; raises ValueError if there are several games."""
    if len(games) != 1:
        raise ValueError(
            f"{argument}: policies are for one game, and the sweep has {', '.join(games)}; sweep each game "
            "separately"
        )
    (game,) = games.values()
    return lay_out(game.rules, grid.form, max_histories=grid.max_histories)


def _policies(games: Mapping[str, SweptGame], blueprints: Sequence[Any], grid: SweepGrid) -> Policy:
    """The blueprints given as policies, for the single game, with a unique label for each lane."""
    policies = as_policy(blueprints, _only_tree(games, grid, "blueprints"), name="blueprints")
    twice = [label for label, count in collections.Counter(policies.labels).items() if count > 1]
    if twice:
        raise ValueError(
            f"blueprints: duplicate labels {', '.join(map(repr, twice))}; expected a unique label for each "
            "policy, as from Policy.from_openspiel(tree, policy, label)"
        )
    return policies


def _opponents(games: Mapping[str, SweptGame], grid: SweepGrid) -> tuple[OpponentLike, ...]:
    """The opponents; one that cannot be recorded is replaced by its numbers in the single game."""
    argument: Any = grid.opponent
    opponents: list[OpponentLike] = []
    for opponent in [] if argument is None else check_opponents(argument, name="opponent"):
        try:
            identity(opponent)
        except ValueError:
            opponent = opponent.resolve(_only_tree(games, grid, "opponent"))
        opponents.append(opponent)
    return tuple(opponents)


def _knowledge(
    grid: SweepGrid, gadgets: Sequence[Gadget], opponents: Sequence[OpponentLike]
) -> tuple[Knowledge | None, ...]:
    """The players' knowledge without duplicates; None for common knowledge."""
    listed = list(grid.knowledge) if isinstance(grid.knowledge, Sequence) else [grid.knowledge]
    if not listed:
        raise ValueError("knowledge=[] is empty: expected at least one, or None for common knowledge")
    for item in listed:
        if item is not None:
            check_knowledge(item, gadgets, opponents or None)
    # a user-defined generation need not be hashable
    return tuple(item for k, item in enumerate(listed) if item not in listed[:k])


def _policy_records(policies: Policy | None) -> list[dict[str, str]]:
    """Records of blueprints that are policies."""
    if policies is None:
        return []
    return [
        {"label": label, "digest": lane_digest(policies, lane)} for lane, label in enumerate(policies.labels)
    ]


def _kind(spec: Any) -> str:
    if not isinstance(spec, str):
        raise ValueError(
            f"blueprints: {spec!r} is neither text nor a policy; expected {FORMS}; `Policy.save` makes a file"
        )
    return parse_blueprint(spec).kind


def _specs(games: Any) -> list[Any]:
    if isinstance(games, Mapping):
        return list(games)
    game: Any = games
    alone = isinstance(games, str) or not isinstance(games, Sequence)
    return [game] if alone else list(game)


def _games(grid: SweepGrid) -> dict[str, SweptGame]:
    """All games with their cuts, by name."""
    specs: Any = grid.games
    if isinstance(specs, Mapping) == (grid.cuts is not None):
        raise ValueError(
            f"cuts={grid.cuts!r}: expected names of cuts for all games, or games as a dict from game to cuts"
        )
    games: dict[str, SweptGame] = {}
    for spec in _specs(specs):
        cuts = _several(f"cuts of {spec!r}", specs[spec] if isinstance(specs, Mapping) else grid.cuts)
        for cut in cuts:
            if not isinstance(cut, str):
                raise ValueError(
                    f"cuts: {cut!r} has no name that identifies it in a resumed sweep; expected 'depth:1' or "
                    "the name of a cut of the game"
                )
        rules = load(spec)
        if rules.name in games:
            raise ValueError(f"games: duplicate game {rules.name!r}; expected each once")
        is_own = not isinstance(spec, str | os.PathLike) or isinstance(rules, OwnGame)
        games[rules.name] = SweptGame(rules, tuple(cuts), is_own)
    if not games:
        raise ValueError("games is empty: expected at least one")
    return games


def _gadgets(grid: SweepGrid, players: Sequence[int], *, exact: bool) -> tuple[Gadget, ...]:
    """Named gadgets with every prior, ε and alternative values, then gadget objects; without duplicates."""
    listed = _several("gadgets", grid.gadgets)
    names = [gadget for gadget in listed if isinstance(gadget, str)]
    made: list[Any] = [gadget for gadget in listed if not isinstance(gadget, str)]
    if names:
        sources = [
            make_alternative(alternative) if isinstance(alternative, str) else alternative
            for alternative in _several("alternatives", grid.alternatives)
        ]
        priors, epsilons = _several("priors", grid.priors), _several("epsilons", grid.epsilons)
        made = make_gadgets(names, priors, epsilons, sources) + made
    unique: dict[tuple[Any, ...], Gadget] = {}
    for gadget in list_gadgets(made, exact, players):
        unique.setdefault((type(gadget), type(gadget.prior), json.dumps(identity(gadget))), gadget)
    return tuple(unique.values())


def _file_digests(games: Any, specs: Sequence[str]) -> dict[str, str]:
    """Digests of the files of games and blueprints, on whose content a sweep depends."""
    paths = [str(spec) for spec in _specs(games) if str(spec).lower().endswith(".efg")]
    paths += [parse_blueprint(spec).path for spec in specs if parse_blueprint(spec).path]
    digests: dict[str, str] = {}
    for path in paths:
        try:
            digests[path] = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()[:16]
        except OSError as error:
            raise ValueError(f"cannot read {path!r}: {error.strerror}") from error
    return digests
