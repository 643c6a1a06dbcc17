"""Gadgets paired with explicit trees: the data that a new gadget needs for the common tests.

A kind of gadget is tested if `tests/reference/gadgets.py` builds its explicit tree under its name and `TWINS`
maps its entry's actions to those of that tree.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping

import numpy as np

from jaxgadget import ArrayPrior, BlueprintPrior, NoPrior, UniformPrior
from jaxgadget.core.host import HostTreeplex
from jaxgadget.core.problem import Problem
from jaxgadget.gadgets.entry import Entry, TwoLevelEntry
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.games import GadgetGames, Prepared
from jaxgadget.gadgets.prior import Prior
from jaxgadget.gadgets.registry import GADGETS
from jaxgadget.gadgets.trunk_gadgets import WayEntry
from jaxgadget.tree.trunk import build_trunk
from jaxgadget.util.registry import find
from tests.core import grove
from tests.reference import gadgets
from tests.reference.efg import Array, Label

EPSILON = 0.05

Rows = dict[Label, list[int]]
"""The opponent's entry decisions in an explicit tree → positions of their actions in `[Q]` of the entry."""


@dataclasses.dataclass(frozen=True)
class Built:
    """Gadget games of one kind over the grove.

    Attributes:
      kind: its name.
      here: the data above the gadget.
      games: the games.
    """

    kind: str
    here: Prepared
    games: GadgetGames

    @property
    def player(self) -> int:
        return self.here.player

    @property
    def entry(self) -> Entry:
        return self.games.entry

    @functools.cached_property
    def problem(self) -> Problem:
        """All lanes, in float64."""
        return grove.problem_of(self.games)

    @property
    def opponent(self) -> int:
        return 1 - self.player

    @property
    def num_games(self) -> int:
        return self.entry.num_games

    @functools.cached_property
    def root_of(self) -> dict[Label, int]:
        """The row of each of the opponent's root infostates."""
        states = self.here.forest.roots[self.opponent].infostate.tolist()
        return {state: row for row, state in enumerate(states)}

    def action(self, state: Label) -> int:
        """The entry's action that leads to a root."""
        return int(self.entry.link[self.root_of[state]]) - self.entry.treeplex.num_roots

    def rows(self, number: int, above: gadgets.Above) -> Rows:
        """The entry decisions of one of the games."""
        return TWINS[self.kind].rows(self, number, above)


def _nothing(built: Built, number: int, above: gadgets.Above) -> Rows:
    return {}


def _follow_or_terminate(built: Built, number: int, above: gadgets.Above) -> Rows:
    states = above.subgames[number].states
    entry = built.entry
    assert isinstance(entry, TwoLevelEntry) and entry.left is not None
    left = (entry.left - entry.treeplex.num_roots).tolist()
    return {gadgets.entry_label(s): [built.action(s), left[built.root_of[s]]] for s in states}


def _pick(built: Built, number: int, above: gadgets.Above) -> Rows:
    picked = gadgets.max_margin_states(above.subgames[number])
    return {gadgets.entry_label(): [built.action(s) for s in picked]} if picked else {}


def _way(built: Built, number: int, above: gadgets.Above) -> Rows:
    trunk, entry = build_trunk(built.here.forest), built.entry
    assert isinstance(entry, WayEntry)
    names, way, found = trunk.form.treeplex[built.opponent].infoset, entry.treeplex, {}
    for infoset, game in enumerate(way.root_of()[way.first_sequence].tolist()):
        copied = int(entry.infoset[infoset])
        if game == number and copied >= 0:
            found[built.opponent, int(names[copied])] = way.rows(infoset).tolist()
    return found


def _of_roots(rng: np.random.Generator, here: Prepared) -> Array:
    """Numbers in [0.01, 1] for every root and blueprint."""
    count = len(here.forest.roots[1 - here.player])
    return rng.uniform(0.01, 1.0, (count, grove.NUM_BLUEPRINTS))


def _of_actions(rng: np.random.Generator, here: Prepared) -> Array:
    """Numbers for every action of the opponent above the cut and blueprint, some of them 0."""
    count = build_trunk(here.forest).form.treeplex[1 - here.player].num_sequences - 1
    shape = (count, grove.NUM_BLUEPRINTS)
    return rng.uniform(0.01, 1.0, shape) * (rng.random(shape) < 0.8)


def _by_root(built_for: Prepared, values: Array) -> Mapping[Label, float]:
    states = built_for.forest.roots[1 - built_for.player].infostate.tolist()
    return dict(zip(states, values.tolist(), strict=True))


def _by_infoset(built_for: Prepared, values: Array) -> Mapping[Label, Array]:
    other = 1 - built_for.player
    treeplex: HostTreeplex = build_trunk(built_for.forest).form.treeplex[other]
    return {
        (other, infoset): values[treeplex.rows(number)]
        for number, infoset in enumerate(treeplex.infoset.tolist())
    }


@dataclasses.dataclass(frozen=True)
class Twin:
    """Comparison of a kind of gadget with its explicit tree.

    Attributes:
      rows: maps the entry's actions to those of the tree.
      draw: numbers for an `ArrayPrior`; None if the gadget takes no prior.
      name: the same numbers, `[…]` of one blueprint, as the explicit tree takes them.
    """

    rows: Callable[[Built, int, gadgets.Above], Rows]
    draw: Callable[[np.random.Generator, Prepared], Array] | None = None
    name: Callable[[Prepared, Array], gadgets.Prior] = _by_root


TWINS: dict[str, Twin] = {
    "unsafe": Twin(_nothing),
    "resolving": Twin(_follow_or_terminate, _of_roots),
    "reach-resolving": Twin(_follow_or_terminate, _of_roots),
    "max-margin": Twin(_pick, _of_roots),
    "reach-max-margin": Twin(_pick, _of_roots),
    "full": Twin(_way, _of_actions, _by_infoset),
    "optimal-continuation": Twin(_way, _of_actions, _by_infoset),
}
HOW_TO = (
    "gadget {name!r} has no explicit twin: build its tree in tests/reference/gadgets.py (`build`, `KINDS`, "
    "`objective`, and `rise_bound` if it has a bound), and say in TWINS of tests/core/twins.py which of "
    "its entry's actions are which of the tree's"
)


def find_twin(name: str) -> Twin:
    """The twin of a kind; an AssertionError explains how to add a missing one."""
    assert name in TWINS and name in gadgets.KINDS, HOW_TO.format(name=name)
    return TWINS[name]


NAMED_PRIORS: dict[str, Prior] = {"none": NoPrior(), "uniform": UniformPrior(), "blueprint": BlueprintPrior()}


@dataclasses.dataclass(frozen=True)
class Lane:
    """One lane of the gadget games of a kind, and its data for the explicit trees.

    Attributes:
      lane: its number; lanes run over priors, then blueprints.
      blueprint: number of the blueprint.
      name: of the prior.
      prior: the prior as the explicit trees take it.
      above: the explicit cut.
    """

    lane: int
    blueprint: int
    name: str
    prior: gadgets.Prior
    above: gadgets.Above


@functools.cache
def asked(seed: int, kind: str, player: int, epsilon: float) -> list[Gadget]:
    """The kind with every prior that it accepts."""
    twin = find_twin(kind)
    if twin.draw is None:
        return [find(GADGETS, kind, "gadget")()]
    values = twin.draw(np.random.default_rng(seed), grove.prepared(seed, player))
    make = find(GADGETS, kind, "gadget")
    return [make(prior, epsilon) for prior in [*NAMED_PRIORS.values(), ArrayPrior(values)]]


@functools.cache
def lanes(seed: int, kind: str, player: int, epsilon: float) -> list[Lane]:
    """All lanes of the games of `asked`."""
    twin, here, found = find_twin(kind), grove.prepared(seed, player), []
    for number, gadget in enumerate(asked(seed, kind, player, epsilon)):
        for b in range(grove.NUM_BLUEPRINTS):
            lane, above = number * grove.NUM_BLUEPRINTS + b, grove.above(seed, player, b)
            prior: gadgets.Prior = gadget.prior.name
            if isinstance(gadget.prior, ArrayPrior):
                prior = twin.name(here, gadget.prior.values[:, b])
            found.append(Lane(lane, b, gadget.prior.name, prior, above))
    return found


@functools.cache
def built(seed: int, kind: str, player: int, epsilon: float) -> Built:
    """The gadget games of `asked`."""
    here = grove.prepared(seed, player)
    return Built(kind, here, grove.games(here, asked(seed, kind, player, epsilon)))


@functools.cache
def explicit(seed: int, kind: str, player: int, epsilon: float, lane: int) -> list[gadgets.Gadget]:
    """The explicit trees of one lane's games."""
    one = lanes(seed, kind, player, epsilon)[lane]
    return gadgets.build_all(kind, one.above, one.prior, epsilon)
