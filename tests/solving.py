"""Helpers that bundle keyword arguments into `Solver` and other settings."""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxgadget.core.solver import SETTINGS, Solver
from jaxgadget.learn.options import TrainingConfig
from jaxgadget.policy.policy import Policy
from jaxgadget.subgames import nested, off_tree
from jaxgadget.subgames.leaves import OptimalValues
from jaxgadget.subgames.schedule import Lookahead
from jaxgadget.sweeping.grid import SweepGrid
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.public import Tree


def settings(**keywords: Any) -> dict[str, Any]:
    """The keywords, with settings of the solve bundled in `solver` if there are any."""
    bundled = {name: keywords.pop(name) for name in (*SETTINGS, "padded", "chunk") if name in keywords}
    return {**keywords, "solver": Solver(**bundled)} if bundled else keywords


def sweeping(**keywords: Any) -> dict[str, Any]:
    """The keywords of a sweep, with axes bundled in `grid` and settings of the solve in `solver`."""
    axes = {field.name for field in dataclasses.fields(SweepGrid)}
    grid = SweepGrid(**{name: keywords.pop(name) for name in axes & set(keywords)})
    return {"grid": grid, **settings(**keywords)}


def configured(kind: type[TrainingConfig] = TrainingConfig, **keywords: Any) -> dict[str, Any]:
    """The keywords of a training, with its settings bundled in `config`."""
    names = {field.name for field in dataclasses.fields(kind)}
    config = kind(**{name: keywords.pop(name) for name in names & set(keywords)})
    return {**keywords, "config": config}


def nested_search(tree: Tree, *arguments: Any, **keywords: Any) -> nested.Nested:
    """`jaxgadget.nested_search`, with settings of its lookahead and its solve as keywords."""
    names = {field.name for field in dataclasses.fields(Lookahead)}
    lookahead = Lookahead(**{name: keywords.pop(name) for name in names & set(keywords)})
    keywords = keywords if "solver" in keywords else settings(**keywords)
    return nested.nested_search(tree, *arguments, lookahead=lookahead, **keywords)


def nested_off_tree(tree: HistoryTree, *arguments: Any, **keywords: Any) -> off_tree.OffTree:
    """`jaxgadget.nested_off_tree`, with settings of its answers and its solve as keywords."""
    names = {field.name for field in dataclasses.fields(off_tree.Answering)}
    answering = off_tree.Answering(**{name: keywords.pop(name) for name in names & set(keywords)})
    return off_tree.nested_off_tree(tree, *arguments, answering=answering, **settings(**keywords))


def nested_exactly(
    tree: Tree, blueprint: Policy | None = None, *arguments: Any, **keywords: Any
) -> nested.Nested:
    """Nested search by linear programs with optimal values, by default at limits one move down."""
    policy = Policy.uniform(tree) if blueprint is None else blueprint
    exactly = {"values": OptimalValues(), "limit": "moves", "algorithm": "lp"}
    return nested_search(tree, policy, *arguments, **(exactly | keywords))
