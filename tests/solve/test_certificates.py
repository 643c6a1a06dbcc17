"""Certificates: the linear program's optimum is bracketed, and exploitability keeps to its bound.

Every game here is the grove: the five random shapes side by side (see `grove.py`), so one draw
tests a game of every shape. Best responses, `V`, `V̄` and programs are those of explicit trees.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from jaxgadget import (
    ArrayPrior,
    BlueprintPrior,
    MaxMargin,
    NoPrior,
    Refinement,
    Resolving,
    UniformPrior,
    Unsafe,
    refine,
)
from jaxgadget.solve.gadget import Gadget
from tests.reference import efg, gadgets, lp
from tests.reference.efg import Array, Label
from tests.reference.random_games import SHAPES, random_policy
from tests.solve import grove

ROUNDING = 1e-9
players = pytest.mark.parametrize("player", [0, 1])


def solved(seed: int, player: int, rows: Sequence[efg.Strategy], asked: Sequence[Gadget], iterations: int):
    """`refine`, always with the same numbers of lanes. The game's value is put at 0: only rises matter."""
    tree, _ = grove.grove(seed)
    return refine(
        tree,
        grove.grove_cut(seed),
        grove.to_policy(tree, rows),
        asked,
        player=player,
        iterations=iterations,
        dtype="float64",
        value=(0.0, 0.0),
    )


def drawn_blueprints(seed: int, draw: int, zeros: float) -> list[dict[Label, Array]]:
    tree, _ = grove.grove(seed)
    rng = np.random.default_rng(draw)
    return [random_policy(tree, rng, zeros) for _ in range(2)]


@dataclasses.dataclass(frozen=True)
class Checked:
    """One lane of a refinement against explicit trees.

    Attributes:
      seed: of the game.
      result: the refinement.
      lane: which lane.
    """

    seed: int
    result: Refinement
    lane: int

    @property
    def player(self) -> int:
        return self.result.player

    @property
    def gadget(self) -> Gadget:
        return self.result.gadgets[self.lane // self.blueprints]

    @property
    def blueprints(self) -> int:
        return self.result.blueprint.num_lanes

    @functools.cached_property
    def refined(self) -> dict[Label, Array]:
        return grove.from_policy(self.result.policy, self.lane)

    @functools.cached_property
    def before(self) -> dict[Label, Array]:
        return grove.from_policy(self.result.blueprint, self.lane % self.blueprints)

    @functools.cached_property
    def subgames(self) -> list[gadgets.Subgame]:
        return grove.subgames(self.seed, self.player, self.before)

    def prior(self, subgame: gadgets.Subgame) -> Array:
        """Probability of following at each of the opponent's states, or weights of all of them."""
        prior, states = self.gadget.prior, subgame.states
        if isinstance(prior, ArrayPrior):
            row = self.result.forest.roots[1 - self.player].infostate.tolist()
            values = prior.values[:, None] if prior.values.ndim == 1 else prior.values
            lane = self.lane % self.blueprints % values.shape[1]
            return np.array([values[row.index(s), lane] for s in states])
        if self.gadget.name == "resolving":
            return np.array([gadgets.resolving_prior(subgame, s, self.prior_name)[0] for s in states])
        weights = dict.fromkeys(states, 0.0)
        picked = gadgets.max_margin_states(subgame)
        if picked:
            chosen = gadgets.max_margin_prior(subgame, self.prior_name)
            weights |= dict(zip(picked, chosen.tolist(), strict=True))
        return np.array(list(weights.values()))

    @property
    def prior_name(self) -> str:
        return next(name for name, prior in grove.PRIORS.items() if type(prior) is type(self.gadget.prior))

    def numbers(self, subgame: gadgets.Subgame) -> tuple[float, float]:
        """The objective of design §3 at the refined strategy, and `Σ p·(V−V̄)` with `p` of the gadget."""
        epsilon, p = self.gadget.epsilon, self.prior(subgame)
        worst = np.array([subgame.worst_value(s, self.refined) for s in subgame.states])
        bar = np.array([subgame.alternative(s) for s in subgame.states])
        if self.gadget.name == "resolving":
            value = (1 - epsilon) * np.minimum(worst, bar) + epsilon * (p * worst + (1 - p) * bar)
            return float(value.sum()), float(p @ (worst - bar))
        mass = np.array([subgame.normalizer(s) for s in subgame.states])
        if not mass.any():
            return 0.0, 0.0
        margin = (worst - bar)[mass > 0] / mass[mass > 0]
        p = np.where(mass > 0, p, 0)[mass > 0]
        if p.sum() == 0:  # nothing to perturb towards
            return float(margin.min()), 0.0
        p = p / p.sum()
        return float((1 - epsilon) * margin.min() + epsilon * p @ margin), float(p @ margin)

    @functools.cached_property
    def rises(self) -> Array:
        """`[S]` what each subgame may add by its certificate."""
        gap = self.result.gap[:, self.lane]
        change = np.array([self.numbers(subgame)[1] for subgame in self.subgames])
        return np.maximum(gap + self.gadget.epsilon * change, 0) / (1 - self.gadget.epsilon)

    def total(self, rises: Array) -> float:
        return float(rises.sum() if self.gadget.name == "resolving" else rises.max())

    @functools.cached_property
    def parts(self) -> Array:
        """`[S]` the shape that each subgame is of."""
        tree, _ = grove.grove(self.seed)
        return np.array([grove.part_of(tree, subgame.roots[0]) for subgame in self.subgames])

    def exploited(self, strategies: efg.Strategy) -> Array:
        """What the opponent gets at best in every shape, weighted by its probability."""
        root = grove.grove(self.seed)[1].root
        assert isinstance(root, efg.Chance)
        values = [efg.best_response_value(child, 1 - self.player, strategies) for child in root.children]
        return np.array(root.weights) * values

    def check(self) -> Array:
        """Everything about the lane; returns how much every shape improved."""
        result, lane = self.result, self.lane
        before, after = self.exploited(self.before), self.exploited(self.refined)
        assert result.blueprint_exploitability[lane] == pytest.approx(before.sum(), abs=ROUNDING)
        assert result.refined_exploitability[lane] == pytest.approx(after.sum(), abs=ROUNDING)
        values = [self.numbers(subgame)[0] for subgame in self.subgames]
        np.testing.assert_allclose(result.gadget_value[:, lane], values, rtol=0, atol=ROUNDING)
        assert (result.gap[:, lane] >= -ROUNDING).all()
        bound = before.sum() + self.total(self.rises)
        assert result.exploitability_bound[lane] == pytest.approx(bound, abs=ROUNDING)
        assert result.refined_exploitability[lane] <= result.exploitability_bound[lane] + ROUNDING
        weights = np.array(grove.grove(self.seed)[1].root.weights)
        for part in range(len(SHAPES)):  # as if every shape were a game of its own
            allowed = self.total(self.rises[self.parts == part])
            scale = 1.0 if self.gadget.name == "resolving" else weights[part]
            assert after[part] - before[part] <= scale * allowed + ROUNDING
            if self.gadget.epsilon == 0:
                gap = self.total(result.gap[self.parts == part, lane])
                assert after[part] - before[part] <= scale * gap + ROUNDING
        return (before - after) / weights


# Linear programs

NAMED = [
    kind(prior, 0.02)
    for kind in (Resolving, MaxMargin)
    for prior in (NoPrior(), UniformPrior(), BlueprintPrior())
]


@players
def test_values_and_gaps_bracket_the_linear_program(player: int) -> None:
    """`value ≤ LP ≤ value + gap` in every subgame, after few iterations and after more."""
    seed = 2
    rows = [drawn_blueprints(seed, 0, 0.0)[0], drawn_blueprints(seed, 0, 0.35)[0]]
    results = [solved(seed, player, rows, NAMED, iterations) for iterations in (7, 300)]
    for lane in range(results[0].policy.num_lanes):
        checked = [Checked(seed, result, lane) for result in results]
        gadget, name = checked[0].gadget, checked[0].prior_name
        for number, subgame in enumerate(checked[0].subgames):
            explicit = gadgets.build(gadget.name, subgame, name, gadget.epsilon)
            optimum = lp.solve(explicit.root, player, explicit.floors).value
            for result in results:
                low = result.gadget_value[number, lane]
                assert low - ROUNDING <= optimum <= low + result.gap[number, lane] + ROUNDING
        for one in checked:
            one.check()
    early, late = (result.gap.max() for result in results)
    assert late < 0.02 < early


@players
def test_unsafe_values_bracket_the_program_and_have_no_bound(player: int) -> None:
    seed = 2
    rows = [drawn_blueprints(seed, 0, 0.0)[0], drawn_blueprints(seed, 0, 0.35)[0]]
    result = solved(seed, player, rows, [Unsafe()], 50)
    for lane in range(2):
        for number, subgame in enumerate(grove.subgames(seed, player, rows[lane])):
            optimum = lp.solve(gadgets.unsafe(subgame).root, player).value
            low = result.gadget_value[number, lane]
            assert low - ROUNDING <= optimum <= low + result.gap[number, lane] + ROUNDING
            refined = grove.from_policy(result.policy, lane)
            assert low == pytest.approx(gadgets.objective("unsafe", subgame, refined), abs=ROUNDING)
    assert np.isnan(result.exploitability_bound).all()


# Bounds


@st.composite
def drawn_priors(draw: st.DrawFn, num_roots: int) -> ArrayPrior:
    """Numbers in [0, 1], 0 among them, for every root or for every root and blueprint."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.sampled_from([(num_roots,), (num_roots, 1), (num_roots, 2)]))
    return ArrayPrior(rng.random(shape) * (rng.random(shape) < draw(st.floats(0.2, 1.0))))


@players
@hypothesis.given(data=st.data())
@hypothesis.settings(max_examples=10)
def test_exploitability_keeps_to_its_bound(player: int, data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 2**16), "payoffs and chance")
    zeros = data.draw(st.sampled_from([0.0, 0.2, 0.5]), "zeros")
    rows = drawn_blueprints(seed, data.draw(st.integers(0, 2**16), "blueprints"), zeros)
    roots = len(grove.forest(seed).roots[1 - player])
    epsilon = st.floats(0.0, 0.5) | st.sampled_from([0.0, 1e-3, 0.9])
    asked = [
        gadget
        for kind in (Resolving, MaxMargin)
        for gadget in (
            kind(NoPrior()),
            kind(data.draw(drawn_priors(roots), "prior"), data.draw(epsilon, "ε")),
            kind(BlueprintPrior(), data.draw(epsilon, "ε")),
        )
    ]
    iterations = data.draw(st.integers(1, 60), "iterations")
    result = solved(seed, player, rows, asked, iterations)
    for lane in range(result.policy.num_lanes):
        Checked(seed, result, lane).check()


@players
def test_many_games_improve(player: int) -> None:
    """So that the bounds are not kept by doing nothing: 40 games, 8 of every shape."""
    improved: dict[int, list[float]] = {}
    for seed in range(4):
        result = solved(seed, player, drawn_blueprints(seed, seed, 0.0), NAMED, 200)
        for lane in range(result.policy.num_lanes):
            found = Checked(seed, result, lane).check()
            improved.setdefault(lane // 2, []).extend(found.tolist())
    for number, gains in improved.items():
        assert len(gains) == 40
        share = np.mean(np.array(gains) > 1e-3)
        assert share >= 0.3, f"{NAMED[number]}: {share:.0%}"
