"""Certificates: exploitability in the whole game respects its bound, on random games and blueprints.

Every game here is the grove: the five random shapes side by side (see `grove.py`), so one draw
tests a game of every shape. Best responses, `V`, `V̄` and gifts come from explicit trees. That
values and gaps bracket the linear program is tested in `test_gadgets.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from jaxgadget import (
    ArrayPrior,
    BlueprintPrior,
    MaxMargin,
    NoPrior,
    OptimalContinuation,
    ReachMaxMargin,
    ReachResolving,
    Refinement,
    Resolving,
    Solver,
    UniformPrior,
    refine,
)
from jaxgadget.gadgets.alternative import GIFT_RULES
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.tree.trunk import build_trunk
from tests.core import grove, twins
from tests.reference import efg, gadgets
from tests.reference.efg import Array, Label
from tests.reference.random_games import SHAPES, random_policy

ROUNDING = 1e-9
SEED = 20  # the structure is the same for all seeds
players = pytest.mark.parametrize("player", [0, 1])


def solved(seed: int, player: int, rows: Sequence[efg.Strategy], asked: Sequence[Gadget], iterations: int):
    """`refine` with as many lanes as in `test_gadgets.py`, so that the two share compiled programs.

    The game's value is set to 0, because only rises matter.
    """
    tree, _ = grove.grove(seed)
    return refine(
        tree,
        grove.grove_cut(seed),
        grove.to_policy(tree, rows),
        asked,
        player=player,
        solver=Solver(iterations=iterations, dtype="float64"),
        value=(0.0, 0.0),
    )


def drawn_blueprints(seed: int, draw: int, zeros: float) -> list[dict[Label, Array]]:
    tree, _ = grove.grove(seed)
    rng = np.random.default_rng(draw)
    return [random_policy(tree, rng, zeros) for _ in range(grove.NUM_BLUEPRINTS)]


@dataclasses.dataclass(frozen=True)
class Checked:
    """One lane of a refinement against explicit trees.

    Attributes:
      seed: of the game.
      result: the refinement.
      lane: which lane.
      above: the explicit cut with the lane's blueprint.
      earlier: the opponent's best-response value against the blueprint in every shape.
    """

    seed: int
    result: Refinement
    lane: int
    above: gadgets.Above
    earlier: Array

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

    @property
    def subgames(self) -> list[gadgets.Subgame]:
        return self.above.subgames

    @functools.cached_property
    def prior(self) -> gadgets.Prior:
        """The prior in the form that the explicit trees expect."""
        prior = self.gadget.prior
        if not isinstance(prior, ArrayPrior):
            return prior.name
        values = prior.values[:, None] if prior.values.ndim == 1 else prior.values
        twin, structure = twins.find_twin(self.gadget.name), grove.prepared(SEED, self.player)
        return twin.name(structure, values[:, self.lane % self.blueprints % values.shape[1]])

    @functools.cached_property
    def gifts(self) -> dict[Label, float] | None:
        rule = getattr(self.gadget, "gifts", None)
        return None if rule is None else self.above.gifts(rule)

    @functools.cached_property
    def games(self) -> list[gadgets.Subgame]:
        """One per gadget game: a single optimal continuation covers all subgames."""
        return self.subgames[:1] if self.joint else self.subgames

    @property
    def joint(self) -> bool:
        return self.gadget.name == "optimal-continuation"

    @functools.cached_property
    def rises(self) -> Array:
        """The largest rise that each game's certificate allows."""
        gap, epsilon = self.result.gap[:, self.lane], self.gadget.epsilon
        return np.array(
            [
                gadgets.rise_bound(
                    self.gadget.name, subgame, self.refined, gap[number], self.prior, epsilon, self.gifts
                )
                for number, subgame in enumerate(self.games)
            ]
        )

    def total(self, rises: Array) -> float:
        return float(rises.sum() if self.gadget.name.endswith("resolving") else rises.max())

    @functools.cached_property
    def parts(self) -> Array:
        """`[S]` the shape of each subgame."""
        tree, _ = grove.grove(self.seed)
        return np.array([grove.part_of(tree, subgame.roots[0]) for subgame in self.subgames])

    def check(self) -> Array:
        """Check one lane; returns the improvement of every shape."""
        result, lane = self.result, self.lane
        before, after = self.earlier, exploited(self.seed, self.player, self.refined)
        assert result.blueprint_exploitability[lane] == pytest.approx(before.sum(), abs=ROUNDING)
        assert result.refined_exploitability[lane] == pytest.approx(after.sum(), abs=ROUNDING)
        values, gap = result.gadget_value[:, lane], result.gap[:, lane]
        for number, subgame in enumerate(self.games):
            expected = gadgets.objective(
                self.gadget.name, subgame, self.refined, self.prior, self.gadget.epsilon, self.gifts
            )
            assert values[number] == pytest.approx(expected, abs=ROUNDING)
        assert (gap[: len(self.games)] >= -ROUNDING).all()
        assert np.isnan(gap[len(self.games) :]).all()
        bound = before.sum() + self.total(self.rises)
        assert after.sum() <= bound + ROUNDING
        if not self.gadget.offer.exact:
            assert np.isnan(result.exploitability_bound[lane])
        else:
            assert result.exploitability_bound[lane] == pytest.approx(bound, abs=ROUNDING)
        if self.gadget.epsilon == 0:
            assert after.sum() - before.sum() <= self.total(gap[: len(self.games)]) + ROUNDING
        weights = np.array(grove.grove(self.seed)[1].root.weights)
        for part in range(0 if self.joint else len(SHAPES)):  # as if every shape were a separate game
            allowed = self.total(self.rises[self.parts == part])
            scale = 1.0 if self.gadget.name.endswith("resolving") else weights[part]
            assert after[part] - before[part] <= scale * allowed + ROUNDING
        return (before - after) / weights


def exploited(seed: int, player: int, strategies: efg.Strategy) -> Array:
    """The opponent's best-response value in every shape, weighted by the shape's probability."""
    root = grove.grove(seed)[1].root
    assert isinstance(root, efg.Chance)
    values = [efg.best_response_value(child, 1 - player, strategies) for child in root.children]
    return np.array(root.weights) * values


def checks(seed: int, result: Refinement) -> list[Checked]:
    """All lanes; those with the same blueprint share its explicit cut."""
    player, count = result.player, result.blueprint.num_lanes
    before = [grove.from_policy(result.blueprint, k) for k in range(count)]
    cuts = [grove.subgames(seed, player, rows)[0].above for rows in before]
    earlier = [exploited(seed, player, rows) for rows in before]
    return [
        Checked(seed, result, lane, cuts[lane % count], earlier[lane % count])
        for lane in range(result.policy.num_lanes)
    ]


REACH = (ReachResolving, ReachMaxMargin)
KINDS = (Resolving, MaxMargin, ReachResolving, ReachMaxMargin, OptimalContinuation)
PRIORS = ((NoPrior(), 0.0), (UniformPrior(), 0.02), (BlueprintPrior(), 0.02), (BlueprintPrior(), 0.2))
NAMED = [kind(prior, epsilon) for kind in KINDS for prior, epsilon in PRIORS]


# ChoiceRule


@st.composite
def drawn_priors(draw: st.DrawFn, kind: type[Any], player: int) -> ArrayPrior:
    """Numbers in [0, 1] for every root or action, shared or per blueprint, some of them 0 where allowed."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    trunk = build_trunk(grove.forest(SEED))
    count = len(grove.forest(SEED).roots[1 - player])
    if kind is OptimalContinuation:
        count = trunk.form.treeplex[1 - player].num_sequences - 1
    shape = draw(st.sampled_from([(count,), (count, 1), (count, grove.NUM_BLUEPRINTS)]))
    share = 1.0 if issubclass(kind, MaxMargin) else draw(st.floats(0.2, 1.0))
    return ArrayPrior(rng.random(shape) * (rng.random(shape) < share))


@players
@hypothesis.given(data=st.data())
@hypothesis.settings(max_examples=2)  # thousands: tests/slow/test_fuzz.py
@pytest.mark.slow
def test_exploitability_keeps_to_its_bound(player: int, data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 2**16), "payoffs and chance")
    zeros = data.draw(st.sampled_from([0.0, 0.2, 0.5]), "zeros")
    rows = drawn_blueprints(seed, data.draw(st.integers(0, 2**16), "blueprints"), zeros)
    epsilon = st.floats(0.0, 0.5) | st.sampled_from([0.0, 1e-3, 0.9])
    asked: list[Gadget] = []
    for kind in KINDS:
        prior = data.draw(drawn_priors(kind, player), "prior")
        first, second, third = data.draw(st.tuples(epsilon, epsilon, epsilon), "ε")
        rule = {"gifts": data.draw(st.sampled_from(GIFT_RULES), "gifts")} if kind in REACH else {}
        asked += [kind(NoPrior()), kind(prior, first), kind(UniformPrior(), second)]
        asked += [kind(BlueprintPrior(), third, **rule)]
    iterations = data.draw(st.integers(1, 60), "iterations")
    result = solved(seed, player, rows, asked, iterations)
    for one in checks(seed, result):
        one.check()


@players
@pytest.mark.slow
def test_many_games_improve(player: int) -> None:
    """Excludes bounds that hold because nothing changes: 30 games, 6 of every shape."""
    improved: dict[int, list[float]] = {}
    for seed in range(2):
        result = solved(seed, player, drawn_blueprints(seed, seed, 0.0), NAMED, 200)
        for one in checks(seed, result):
            improved.setdefault(one.lane // one.blueprints, []).extend(one.check().tolist())
    for number, gains in improved.items():
        assert len(gains) == 30
        share = np.mean(np.array(gains) > 1e-3)
        assert share >= 0.3, f"{NAMED[number]}: {share:.0%}"
