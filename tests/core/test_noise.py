"""Actions of noisy value: the choice and its value, compared with quadrature of their definitions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, optimize, stats

from jaxgadget.core.host import build_treeplex
from jaxgadget.core.noise import NoisyChoice
from jaxgadget.core.treeplex import Treeplex, to_device
from jaxgadget.util.precision import precision

CASES = [  # value of the first action, mean and deviation of the second
    *((0.3, 0.0, 1.0), (-1.2, 0.4, 0.7), (2.0, 2.0, 3.0), (5.0, 1.0, 0.5), (-4.0, 1.0, 0.5)),
    *((1.0, 1.0, 0.0), (1.0, 2.0, 0.0), (2.0, 1.0, 0.0)),
]


def entries(count: int) -> Treeplex:
    """Two-action decisions, one after the other below each root."""
    treeplex, _ = build_treeplex(
        num_roots=count,
        depth=np.zeros(count, np.int64),
        num_actions=np.full(count, 2),
        parent_infoset=np.full(count, -1),
        parent_slot=np.arange(count),
        infoset=np.arange(count),
    )
    return to_device(treeplex, np.float64)


def columns(first: list[float], second: list[float]) -> np.ndarray:
    """`[2 × infosets, 1]` numbers of the first actions, then of the second, in treeplex order."""
    return np.concatenate([first, second])[:, None]


def worth(value: float, mean: float, deviation: float) -> float:
    """E max(X, v), by quadrature."""
    if deviation == 0:
        return max(value, mean)
    width = 12 * deviation
    density = stats.norm(mean, deviation).pdf
    total, _ = integrate.quad(
        lambda x: max(x, value) * density(x), mean - width, mean + width, points=[value, mean], limit=200
    )
    return total


@jax.jit
def chosen(
    treeplex: Treeplex, choice: NoisyChoice, values: jax.Array, otherwise: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The strategy, and the values of infosets under a best response and under that strategy."""
    (level,) = treeplex.levels()
    played = choice.respond(treeplex, values, otherwise)
    return played, choice.best(level, values), choice.expected(level, played, values)


@pytest.fixture(autouse=True)
def _in_float64():
    with precision(np.float64):
        yield


@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_the_choice_and_its_worth_are_those_of_the_definition(epsilon: float) -> None:
    count, (value, mean, deviation) = len(CASES), (list(part) for part in zip(*CASES, strict=True))
    treeplex = entries(count)
    noise = jnp.asarray(columns([np.nan] * count, deviation))
    values = jnp.asarray(columns(value, mean))
    floor = np.full((2 * count, 1), epsilon / 2)
    choice = NoisyChoice(floor=jnp.asarray(floor) if epsilon else None, deviation=noise)
    played, best, followed = chosen(treeplex, choice, values, jnp.full((2 * count, 1), jnp.nan))
    enters = [
        stats.norm(m, s).cdf(v) if s else float(v >= m)
        for v, m, s in CASES
    ]  # fmt: skip
    expected = (1 - epsilon) * np.array(enters) + epsilon / 2
    np.testing.assert_allclose(played[:count, 0], expected, atol=1e-14)
    np.testing.assert_allclose(played[count:, 0], 1 - expected, atol=1e-14)
    free = np.array([worth(*case) for case in CASES])
    mistaken = (np.array(value) + np.array(mean)) / 2
    expected = (1 - epsilon) * free + epsilon * mistaken
    np.testing.assert_allclose(best[:, 0], expected, atol=1e-9)
    np.testing.assert_allclose(followed[:, 0], expected, atol=1e-9)


def test_the_value_of_a_strategy_uses_the_largest_draws() -> None:
    """For a plan in proportion to the reach; no strategy exceeds the best response."""
    shares = [0.0, 1e-9, 0.1, 0.5, 0.8, 1.0]
    count, mean, deviation = len(shares), 0.3, 0.6
    treeplex = entries(count)
    choice = NoisyChoice(deviation=jnp.asarray(columns([np.nan] * count, [deviation] * count)))
    strategy = jnp.asarray(columns(shares, [1 - share for share in shares]))
    (level,) = treeplex.levels()
    nothing = jnp.zeros_like(strategy)
    found = np.asarray(choice.expected(level, strategy, nothing)[:, 0])
    drawn = stats.norm(mean, deviation)
    for share, extra in zip(shares, found.tolist(), strict=True):
        least = np.clip(drawn.ppf(share), mean - 12 * deviation, mean + 12 * deviation)
        left, _ = integrate.quad(lambda x: x * drawn.pdf(x), least, mean + 12 * deviation, points=[mean])
        assert (1 - share) * mean + extra == pytest.approx(left, abs=1e-9)
    reach = jnp.asarray(np.arange(count, dtype=float))[:, None]
    plan = strategy * jnp.concatenate([reach, reach])
    plans = jnp.concatenate([reach, plan])  # roots first
    by_plan = jax.jit(NoisyChoice.earned)(choice, treeplex, jnp.zeros_like(plans), plans)
    np.testing.assert_allclose(by_plan[2 * count :, 0], found * np.arange(count), atol=1e-14)
    assert (np.asarray(by_plan[: 2 * count]) == 0).all()
    for value in (-1.0, 0.2, 0.9):
        best = optimize.minimize_scalar(
            lambda q, value=value: -(
                q * value + (1 - q) * mean + deviation * stats.norm.pdf(stats.norm.ppf(q))
            ),
            bounds=(1e-12, 1 - 1e-12), method="bounded", options={"xatol": 1e-10},
        )  # fmt: skip
        assert -best.fun == pytest.approx(worth(value, mean, deviation), abs=1e-9)


def test_where_nothing_is_drawn_nothing_changes() -> None:
    """In a lane without noise beside one with noise, and in decisions without noise beside others."""
    treeplex = entries(2)
    noise = jnp.asarray([[np.nan, np.nan], [np.nan, np.nan], [np.nan, 0.5], [np.nan, np.nan]])
    values = jnp.asarray([[0.1, 0.1], [0.2, 0.2], [0.3, 0.3], [0.4, 0.4]])
    strategy = jnp.asarray([[0.6, 0.6], [0.7, 0.7], [0.4, 0.4], [0.3, 0.3]])
    played, best, _ = map(np.asarray, chosen(treeplex, NoisyChoice(deviation=noise), values, strategy))
    np.testing.assert_array_equal(played[:, 0], strategy[:, 0])
    np.testing.assert_array_equal(played[[1, 3], 1], strategy[np.array([1, 3]), 1])
    assert played[0, 1] == pytest.approx(stats.norm.cdf(-0.2 / 0.5))
    np.testing.assert_array_equal(best[:, 0], [0.3, 0.4])
    assert best[1, 1] == 0.4 and best[0, 1] > 0.31
