"""Resolving with values known up to a distribution, compared with definitions and another optimiser."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import optimize, stats

import jaxgadget as jg
from jaxgadget.games.examples import Chance, Outcome, TreeRules, Turn
from jaxgadget.games.stepwise import StepwiseGame
from jaxgadget.subgames.prepare import prepare
from jaxgadget.tree.forest import build_forest
from tests.solving import settings


class Signals(NamedTuple):
    """Player 0 has a type, player 1 sees a signal of it; 1 acts unseen, then 0.

    Attributes:
      probability: `[types, signals]`.
      payoff: `[types, signals, actions of 1, actions of 0]` to player 0.
    """

    probability: np.ndarray
    payoff: np.ndarray

    def tree(self) -> jg.HistoryTree:
        """The game, with a cut at player 1's decisions; player 0 may also stay out, for 0."""
        types, signals, own, theirs = self.payoff.shape
        actions = ("In", "Out", *(f"a{a}" for a in range(own)), *(f"b{b}" for b in range(theirs)))

        def after(i: int, j: int) -> Turn:
            below = {
                f"a{a}": Turn(0, {f"b{b}": self.payoff[i, j, a, b] for b in range(theirs)})
                for a in range(own)
            }
            return Turn(0, {"In": Turn(1, below), "Out": 0.0}, public=True)

        deals = [
            Outcome(self.probability[i, j], after(i, j), private=(i, j))
            for i in range(types)
            for j in range(signals)
        ]
        rules = TreeRules("signals", actions, Chance(deals), cut="in", cut_depth=1)
        return jg.enumerate_game(StepwiseGame(rules))

    def values(self, strategy: np.ndarray) -> np.ndarray:
        """`[types]` player 0's value of entering, weighted by chance; rows `[signals, actions of 1]`."""
        return np.einsum("ij,ja,ijab->ib", self.probability, strategy, self.payoff).max(axis=1)


def drawn_signals(seed: int) -> Signals:
    rng = np.random.default_rng(seed)
    return Signals(rng.dirichlet(np.ones(6)).reshape(3, 2), rng.uniform(-1, 1, (3, 2, 3, 2)))


def worth(value: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """E max(X, v), in closed form; a step for 0."""
    safe = np.where(deviation > 0, deviation, 1)
    z = (value - mean) / safe
    smooth = mean + (value - mean) * stats.norm.cdf(z) + deviation * stats.norm.pdf(z)
    return np.where(deviation > 0, smooth, np.maximum(value, mean))


def least_loss(game: Signals, mean: np.ndarray, deviation: np.ndarray, epsilon: float) -> float:
    """Player 0's value against the best strategy, by sequential least squares of the convex problem.

    The variables are the strategy and the value of entering for each type. With probability ε player 0 enters
    or stays out with equal probability, independently of the draw.
    """
    types, signals, own, theirs = game.payoff.shape
    gains = np.einsum("ij,ijab->ibja", game.probability, game.payoff).reshape(types * theirs, -1)
    of_value = np.kron(np.eye(types), np.ones((theirs, 1)))

    def loss(x: np.ndarray) -> float:
        v = x[signals * own :]
        return float(((1 - epsilon) * worth(v, mean, deviation) + epsilon * (v + mean) / 2).sum())

    def slope(x: np.ndarray) -> np.ndarray:
        z = (x[signals * own :] - mean) / deviation
        return np.append(np.zeros(signals * own), (1 - epsilon) * stats.norm.cdf(z) + epsilon / 2)

    sums = np.kron(np.eye(signals), np.ones(own))
    constraints: list[Any] = [
        {"type": "ineq", "fun": lambda x: of_value @ x[signals * own :] - gains @ x[: signals * own],
         "jac": lambda x: np.hstack([-gains, of_value])},
        {"type": "eq", "fun": lambda x: sums @ x[: signals * own] - 1,
         "jac": lambda x: np.hstack([sums, np.zeros((signals, types))])},
    ]  # fmt: skip
    strategy = np.full((signals, own), 1 / own)
    begin = np.append(strategy.ravel(), game.values(strategy))
    bounds = [(0, 1)] * (signals * own) + [(None, None)] * types
    found = optimize.minimize(
        loss, begin, jac=slope, bounds=bounds, constraints=constraints, method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 500},
    )  # fmt: skip
    assert found.success
    return float(found.fun)


def solve(game: Signals, gadgets: Any, **options: Any) -> jg.Refinement:
    tree = game.tree()
    usual: dict[str, Any] = {"iterations": 3000, "dtype": "float64", "value": (0.0, 0.0)}
    return jg.refine(tree, "in", jg.Policy.uniform(tree), gadgets, player=1, **settings(**(usual | options)))


def promised(mean: np.ndarray) -> jg.ArrayValues:
    """Player 0's alternative value, weighted by chance, in player 1's utility."""
    return jg.ArrayValues(-mean)


@functools.cache
def several(seed: int) -> tuple[Signals, jg.Refinement, list[tuple[np.ndarray, np.ndarray, float]]]:
    """A game solved with several spreads in one batch; their means, deviations and ε."""
    game, rng = drawn_signals(seed), np.random.default_rng(seed)
    mean = rng.uniform(-0.3, 0.3, 3) * game.probability.sum(axis=1)
    own, mass = rng.uniform(0.01, 0.3, 3), game.probability.sum(axis=1)
    cases = [(mean, mass * 0.05, 0.0), (mean, mass * 0.5, 0.0), (mean, own, 0.0), (mean, own, 0.3)]
    gadgets = [
        jg.Resolving(jg.NoPrior(), alternative=promised(mean), spread=0.05),
        jg.Resolving(jg.NoPrior(), alternative=promised(mean), spread=0.5),
        jg.Resolving(jg.NoPrior(), alternative=promised(mean), spread=jg.ArrayValues(own)),
        jg.Resolving(jg.UniformPrior(), 0.3, promised(mean), spread=jg.ArrayValues(own)),
        jg.Resolving(jg.NoPrior(), alternative=promised(mean), spread=0.0),
        jg.Resolving(jg.NoPrior(), alternative=promised(mean)),
        jg.MaxMargin(jg.NoPrior(), alternative=promised(mean)),
    ]
    return game, solve(game, gadgets), cases


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow
def test_the_optimum_of_another_optimiser_lies_within_the_gap(seed: int) -> None:
    game, result, cases = several(seed)
    assert result.gap[0, :4].max() < 2e-3 and np.isnan(result.exploitability_bound).all()
    rows = result.policy.probabilities[1].reshape(2, 3, -1)
    for lane, (mean, deviation, epsilon) in enumerate(cases):
        value, gap = result.gadget_value[0, lane], result.gap[0, lane]
        optimum = -least_loss(game, mean, deviation, epsilon)
        assert value - 1e-9 <= optimum <= value + gap + 1e-9
        v = game.values(rows[:, :, lane])
        lost = (1 - epsilon) * worth(v, mean, deviation) + epsilon * (v + mean) / 2
        assert value == pytest.approx(-lost.sum(), abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow
def test_with_no_spread_at_all_the_objective_is_resolving_s(seed: int) -> None:
    """In a lane beside others; as the spread decreases, the optimum converges to that of resolving."""
    game, result, _ = several(seed)
    plain, gap = result.gadget_value[0, 5], result.gap[0, 4:6].max()
    assert result.gadget_value[0, 4] == pytest.approx(plain, abs=gap + 1e-9) and gap < 2e-3
    mean = -np.asarray(result.gadgets[5].alternative.array)  # type: ignore[attr-defined]
    deviations = (0.3, 0.03, 0.003)
    off = [plain + least_loss(game, mean, np.full(3, s), 0.0) for s in deviations]
    assert all(
        -gap - 1e-6 <= extra <= 3 * s * stats.norm.pdf(0) + gap
        for extra, s in zip(off, deviations, strict=True)
    )
    assert off[0] > off[1] > off[2] - 1e-6


def test_lanes_without_a_spread_are_unaffected_by_others() -> None:
    game, result, _ = several(0)
    alone = solve(game, result.gadgets[5:])
    np.testing.assert_allclose(alone.gadget_value, result.gadget_value[:, 5:], atol=1e-9)
    rows, together = (found.policy.probabilities[1] for found in (alone, result))
    np.testing.assert_allclose(rows, together[:, 5:], atol=1e-6)


def test_other_spreads_compile_nothing() -> None:
    game, result, _ = several(1)
    others = [jg.Resolving(jg.UniformPrior(), spread=s) for s in (0.0, 0.1, 0.2, 3.0, 7.0)]
    again = solve(game, [*others, jg.Resolving(jg.NoPrior()), jg.MaxMargin()])
    assert again.seconds["compile"] == 0 and result.seconds["run"] > 0
    assert np.unique(again.gadget_value[0, :5]).size == 5


def two_estimates() -> Signals:
    """Two types that player 1 cannot tell apart: two strategies have values (1.01, 0) and (.99, 9.99)."""
    payoff = np.zeros((2, 1, 2, 1))
    payoff[:, 0, 0, 0], payoff[:, 0, 1, 0] = (1.01, 0.0), (0.99, 9.99)
    return Signals(np.full((2, 1), 0.5), payoff)


def test_the_papers_example() -> None:
    """Estimates 1 and 10: the better strategy lowers the second value far below its estimate.

    Resolving prefers the other strategy, by 0.01, and accepts at most the mixture that keeps the first value
    at 1.
    """
    game, mean = two_estimates(), np.array([0.5, 5.0])
    pure = [game.values(np.array([row])) for row in ((1.0, 0.0), (0.0, 1.0))]
    losses = {
        s: [float(worth(v, mean, np.full(2, s / 2)).sum()) for v in pure] for s in (0.0, 0.02, 0.1, 1.0)
    }
    assert losses[0.0] == pytest.approx([5.505, 5.5])
    assert losses[0.02][0] > losses[0.02][1]  # still too certain
    assert losses[0.1][0] < losses[0.1][1] and losses[1.0][0] < losses[1.0][1]
    spreads = (0.0, 0.1, 1.0)
    gadgets = [jg.Resolving(jg.NoPrior(), alternative=promised(mean), spread=s) for s in (None, *spreads)]
    result = solve(game, gadgets)
    first = result.policy.probabilities[1][0]
    assert result.gadget_value[0, 0] == pytest.approx(-5.5, abs=1e-3) and first[0] <= 0.5 + 1e-3
    for lane, s in enumerate(spreads, 1):
        best = optimize.minimize_scalar(
            lambda x, s=s: worth(game.values(np.array([[x, 1 - x]])), mean, np.full(2, s / 2)).sum(),
            bounds=(0, 1), method="bounded", options={"xatol": 1e-9},
        )  # fmt: skip
        value, gap = result.gadget_value[0, lane], result.gap[0, lane]
        assert value - 1e-9 <= -best.fun <= value + gap + 1e-9 and gap < 2e-3
        if s:
            assert 0.02 < first[lane] and best.fun < min(losses[s]) - 1e-3
    assert first[3] > first[2]


def test_the_spread_of_an_estimate_is_how_far_it_is_off() -> None:
    """`best-response` with values of both blueprints, and with gifts in addition."""
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    blueprint, forest = jg.Policy.dirichlet(tree, 1), build_forest(tree, jg.cut(tree, "depth:1"))
    plain = jg.Resolving(jg.NoPrior(), alternative=jg.BlueprintValues())
    ranges = prepare(forest, 0, blueprint, [plain, jg.ReachResolving(jg.NoPrior())]).ranges
    for make in (jg.Resolving, jg.ReachResolving):
        asked = make(jg.NoPrior(), alternative=jg.BlueprintValues(), spread="best-response")
        leave = asked.tables(ranges).leave
        assert leave is not None and leave.spread is not None and ranges.played is not None
        np.testing.assert_allclose(leave.spread, ranges.played - ranges.cbv)
        assert leave.spread.max() > 0.01 and asked.tables(ranges).bound is None
    per_mass = jg.Resolving(jg.NoPrior(), spread=0.3).tables(ranges).leave
    assert per_mass is not None
    np.testing.assert_allclose(per_mass.spread, 0.3 * ranges.mass)


def test_spreads_that_do_not_fit() -> None:
    game = two_estimates()
    with pytest.raises(ValueError, match="spread"):
        jg.Resolving(jg.NoPrior(), spread=jg.ArrayValues(np.array([-1.0, 1.0])))
    with pytest.raises(ValueError, match="spread"):
        solve(game, jg.Resolving(jg.NoPrior(), spread=jg.ArrayValues(np.ones(3))))
    with pytest.raises(ValueError, match="gadgets"):
        tree = game.tree()
        asked = jg.Resolving(jg.NoPrior(), spread=jg.ArrayValues(np.ones(2)))
        jg.refine_both(tree, "in", jg.Policy.uniform(tree), asked)


def test_linear_programs_have_none() -> None:
    with pytest.raises(ValueError, match="spread="):
        solve(two_estimates(), jg.Resolving(jg.NoPrior(), spread=0.5), algorithm="lp", iterations=1)
