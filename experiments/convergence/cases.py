"""The games of the convergence study: blueprints, gadgets, priors, and their exact optima."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax
import numpy as np

from jaxgadget import (
    HistoryTree,
    Policy,
    Solver,
    cut,
    enumerate_game,
    exploitability,
    game_value,
    load,
    refine,
)
from jaxgadget.core.certificate import Fallback
from jaxgadget.core.driver import cast_arrays
from jaxgadget.core.problem import Problem, with_regret_tolerance
from jaxgadget.core.treeplex import expand_infosets, sum_actions
from jaxgadget.gadgets.entry import BoundRule
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.games import GadgetGames, Prepared, build_games
from jaxgadget.gadgets.prior import PRIOR_CLIP, BlueprintPrior, UniformPrior
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.gadgets.registry import GADGETS
from jaxgadget.policy.blueprints import make_blueprints
from jaxgadget.policy.evaluate import normalise_rows
from jaxgadget.subgames.prepare import prepare
from jaxgadget.tree.forest import build_forest
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.precision import precision
from jaxgadget.util.registry import find

BLUEPRINTS = ("uniform", "geometric:2.0", "geometric:0.5", "cfr:10", "cfr:100", "dirichlet:0", "dirichlet:1")
EPSILONS = (1e-3, 2e-2)
KINDS = ("resolving", "max-margin")


@dataclasses.dataclass(frozen=True)
class Case:
    """A game, its cut, and the number of iterations to run."""

    name: str
    game: str
    cut: str
    horizon: int


GOOFSPIEL = "goofspiel(num_cards={},imp_info=True,points_order=descending)"

CASES = {
    case.name: case
    for case in (
        Case("leduc", "leduc_poker", "flop", 10_000),
        Case("goofspiel4", GOOFSPIEL.format(4), "depth:1", 10_000),
        Case("liars_dice", "liars_dice(numdice=1,dice_sides=4)", "depth:1", 10_000),
        Case("goofspiel5", GOOFSPIEL.format(5), "depth:1", 5_000),
        Case("kuhn", "kuhn_poker", "depth:1", 50),
    )
}
"""The last one is for smoke tests."""


@dataclasses.dataclass(frozen=True)
class ScaledPrior(BlueprintPrior):
    """The blueprint prior with another scale, clipped as usual.

    Attributes:
      scale: `largest` divides a subgame's reaches by the largest instead of by their sum;
        `squared` squares them before they are divided by their sum.
    """

    scale: str = "largest"

    def follow(self, ranges: Ranges) -> FloatArray:
        """See `Prior`."""
        return _scaled(ranges, self.scale, self.clip, 0.5)

    def weight(self, ranges: Ranges) -> FloatArray:
        """See `Prior`."""
        return _scaled(ranges, self.scale, self.clip, 1.0)


def _scaled(ranges: Ranges, scale: str, clip: float, otherwise: float) -> FloatArray:
    reach = ranges.opponent**2 if scale == "squared" else ranges.opponent
    if scale == "largest":
        whole = np.zeros((ranges.num_subgames, ranges.num_lanes))
        np.maximum.at(whole, ranges.subgame, reach)
    else:
        whole = ranges.per_subgame(reach)
    whole = whole[ranges.subgame]
    share = reach / np.where(whole > 0, whole, 1)
    return np.where(whole > 0, np.maximum(share, clip), otherwise)


FAMILIES = {
    "priors": {"uniform": UniformPrior(), "blueprint": BlueprintPrior()},
    "scales": {
        "by sum": BlueprintPrior(),
        "by largest": ScaledPrior(PRIOR_CLIP, "largest"),
        "squared": ScaledPrior(PRIOR_CLIP, "squared"),
        "clip 0.01": BlueprintPrior(1e-2),
    },
}
"""Contents of one batch: the two priors, or four scales of the blueprint prior."""


@functools.cache
def load_tree(case: Case) -> HistoryTree:
    """The case's histories."""
    return enumerate_game(load(case.game))


@functools.cache
def load_blueprints(case: Case) -> Policy:
    """The case's blueprints, a lane each."""
    return make_blueprints(load_tree(case), BLUEPRINTS, progress=False)


@functools.cache
def load_value(case: Case) -> tuple[float, float]:
    """Bracket of player 0's value of the case's game."""
    return game_value(load_tree(case), progress=False)


@dataclasses.dataclass(frozen=True, eq=False)
class Games:
    """One kind of gadget game of a case, all lanes.

    Lanes run over priors, then ε, then blueprints.

    Attributes:
      case: the game.
      player: the resolving player.
      kind: kind of gadget.
      prepared: the subgames with the blueprints' ranges and values.
      gadgets: one for every prior and ε.
      names: `prior, ε` of every gadget.
      games: the gadget games.
    """

    case: Case
    player: int
    kind: str
    prepared: Prepared
    gadgets: tuple[Gadget, ...]
    names: tuple[tuple[str, float], ...]
    games: GadgetGames

    @property
    def count(self) -> int:
        """Number of games, without padding."""
        return self.games.batch.num_games

    @property
    def rule(self) -> BoundRule | None:
        """Combination of games in the certificate: `sum` for resolving, `max` for max-margin."""
        return self.games.entry.bound_rule(0)

    @functools.cached_property
    def problem(self) -> Problem:
        """The games, in float64."""
        return problem_of(self.games, "float64")

    @functools.cached_property
    def fallback(self) -> Fallback:
        """The blueprint, used where no average is taken."""
        with precision(np.float64):
            lanes = np.arange(self.games.num_lanes)
            return jax.device_put(self.games.fallbacks(lanes, (self.player,))[self.player])

    @property
    def lanes(self) -> list[tuple[str, float, str]]:
        """Prior, ε and blueprint of every lane."""
        labels = load_blueprints(self.case).labels
        return [(prior, epsilon, label) for prior, epsilon in self.names for label in labels]

    def total(self, x: FloatArray) -> FloatArray:
        """Converts payoffs `[games, lanes]` to `[lanes]` shares of the payoff range, combined by `rule`."""
        return (x.sum(axis=0) if self.rule == "sum" else x.max(axis=0)) / load_tree(self.case).payoff_range

    def with_epsilon(self, least: float, factor: float = 1.0) -> GadgetGames:
        """The same games with every ε multiplied, at most 1/2, and at least `least`."""
        raised = [max(g.epsilon, min(factor * g.epsilon, 0.5), least) for g in self.gadgets]
        gadgets = [dataclasses.replace(g, epsilon=e) for g, e in zip(self.gadgets, raised, strict=True)]
        return _build(self.prepared, gadgets)

    def blueprint(self, player: int) -> jax.Array:
        """A player's blueprints below the cut, repeated for every gadget."""
        with precision(np.float64):
            return jax.device_put(np.tile(self.prepared.rows[player], (1, len(self.gadgets))))

    @functools.cached_property
    def entry_blueprint(self) -> jax.Array:
        """`[Q, lanes]` the opponent's blueprint as a strategy of the entry: the blueprint prior."""
        half = [dataclasses.replace(g, prior=BlueprintPrior(), epsilon=0.5) for g in self.gadgets]
        opponent = 1 - self.player
        problem = problem_of(_build(self.prepared, half), "float64")
        entry = problem.sides[opponent].entry
        with precision(np.float64):
            floor = problem.terms[opponent].entry.floor
            return floor / expand_infosets(entry, sum_actions(entry, floor))

    def exploitability(self, strategy: FloatArray) -> FloatArray:
        """`[lanes]` of the refined policies in the full game, from strategies `[Q, lanes]` below the cut."""
        tree, player, value = load_tree(self.case), self.player, load_value(self.case)
        before = Policy.stack([load_blueprints(self.case)] * len(self.gadgets))
        forest, rows = self.prepared.forest, before.probabilities[player].copy()
        sequence = forest.form.action_sequences(player)
        rows[sequence[sequence >= 0] - 1] = strategy[: len(sequence)][sequence >= 0]
        infosets = tree.infosets[player]
        inside = np.isin(infosets.infoset[1:], forest.infosets(player))
        rows = np.where(inside[:, None], normalise_rows(rows, infosets.infoset[1:]), rows)
        return exploitability(before.with_player(player, rows), player, value=value)


@functools.lru_cache(maxsize=1)
def build(case: Case, player: int, kind: str, family: str) -> Games:
    """Builds one kind of gadget game of a case on the device."""
    make = find(GADGETS, kind, "gadget")
    named = {(name, e): make(prior, e) for name, prior in FAMILIES[family].items() for e in EPSILONS}
    tree, gadgets = load_tree(case), tuple(named.values())
    forest = build_forest(tree, cut(tree, case.cut))
    prepared = prepare(forest, player, load_blueprints(case), gadgets)
    return Games(case, player, kind, prepared, gadgets, tuple(named), _build(prepared, gadgets))


def _build(prepared: Prepared, gadgets: Sequence[Gadget]) -> GadgetGames:
    return build_games(prepared, gadgets)


def problem_of(games: GadgetGames, dtype: str) -> Problem:
    """All lanes on the device."""
    problem = cast_arrays(games.batch.problem(), dtype)
    with precision(dtype):
        return with_regret_tolerance(jax.device_put(problem))


def solve_exactly(games: Games) -> tuple[FloatArray, FloatArray]:
    """Optima `[games, lanes]` by linear programs, and exploitabilities of exact policies, `[lanes]`."""
    refined = refine(
        load_tree(games.case),
        games.case.cut,
        load_blueprints(games.case),
        games.gadgets,
        player=games.player,
        solver=Solver(algorithm="lp", progress=False),
        value=load_value(games.case),
    )
    return refined.gadget_value[: games.count], refined.refined_exploitability
