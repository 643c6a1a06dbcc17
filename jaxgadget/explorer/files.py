"""Policies and spots from files, whose games are loaded by the names in them."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence

from jaxgadget.games.game import DEFAULT_MAX_HISTORIES
from jaxgadget.games.registry import load
from jaxgadget.holdem.saved import SOLUTIONS
from jaxgadget.holdem.solution import SpotSolution, SpotSolutions
from jaxgadget.policy.blueprints import make_blueprints
from jaxgadget.policy.network import find_game, load_policy
from jaxgadget.policy.policy import POLICY_FILE, Policy
from jaxgadget.tree.public import Form, Tree, lay_out
from jaxgadget.util.folders import KINDS, SWEPT, find_kind
from jaxgadget.util.store import find_format, read_header


def read_strategies(
    paths: Sequence[str | os.PathLike[str]],
    specs: Sequence[str] = (),
    *,
    max_histories: int = DEFAULT_MAX_HISTORIES,
) -> list[Policy | SpotSolution]:
    """Reads the strategies of files; those of one game become lanes of one policy.

    Args:
      paths: files written by `Policy.save` or `SpotSolution.save`, or folders of `train_policy`.
      specs: SPECs of further strategies of every game, as for `make_blueprints`.
      max_histories: as in `enumerate_game`.

    Raises:
      ValueError: if a path is none of these, a file is damaged or its game unknown, or there are SPECs for a
        spot of hold'em.
    """
    solved = [path for path in paths if find_format(path) == SOLUTIONS.name]
    if solved and specs:
        raise ValueError(
            f"compare={specs[0]!r}: {os.fspath(solved[0])!r} has spots of hold'em, which SPECs do not solve; "
            "expected another file of solutions of the same spots in its place"
        )
    solutions = [solution for path in solved for solution in SpotSolutions.load(path)]
    return [*_read_policies([path for path in paths if path not in solved], specs, max_histories), *solutions]


def _read_policies(
    paths: Sequence[str | os.PathLike[str]], specs: Sequence[str], max_histories: int
) -> list[Policy]:
    """Policies of games, one for each game."""
    trees: dict[tuple[str, str], Tree] = {}
    by_tree: dict[tuple[str, str], list[Policy]] = {}
    for path in paths:
        key = _game_of(path)
        if key not in trees:
            form: Form = "hands" if key[1] == "hands" else "histories"
            trees[key] = lay_out(load(key[0]), form, max_histories=max_histories)
        tree, name = trees[key], pathlib.Path(path).name
        policy = load_policy(path, tree.game).on(tree) if os.path.isdir(path) else Policy.load(path, tree)
        if len(paths) > 1:
            policy = dataclasses.replace(policy, labels=tuple(f"{name}: {each}" for each in policy.labels))
        by_tree.setdefault(key, []).append(policy)
    policies: list[Policy] = []
    for key, several in by_tree.items():
        more = [make_blueprints(trees[key], list(specs), argument="compare")] if specs else []
        policies.append(Policy.stack([*several, *more]))
    return policies


def is_sweep(path: str | os.PathLike[str]) -> bool:
    """True for the folder of a sweep."""
    return find_kind(path) is KINDS[SWEPT]


def _game_of(path: str | os.PathLike[str]) -> tuple[str, str]:
    """The game's name and the layout of a file or folder of strategies."""
    if os.path.isdir(path):
        return find_game(path), "histories"
    header = read_header(path, POLICY_FILE)
    if header is None:
        raise ValueError(
            f"policy file {os.fspath(path)!r} does not exist; expected a file written by --save, or a folder "
            "of train-policy"
        )
    return str(header.get("game")), str(header.get("tree", "histories"))
