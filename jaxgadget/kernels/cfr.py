"""The loop: gradient → values → regrets → reach, alternating between the players.

The convention is that of OpenSpiel's `CFRPlusSolver`: an update sees the newest strategy
of the other player, and the average takes the strategy that a sweep used, before its
update. All rules, gadgets and whole games run through this one loop.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxgadget.kernels.problem import (
    Parts,
    Problem,
    follow,
    values_up,
)
from jaxgadget.kernels.regret import Bounds, Rule, learn, match
from jaxgadget.kernels.response import evaluate, payoff_reaches
from jaxgadget.kernels.treeplex import Treeplex, expand_infosets, sum_actions


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class State:
    """What the next iteration needs.

    Attributes:
      iteration: number of iterations done.
      strategy: both players' current strategies, `[Q, lanes]`.
      plan: both players' current plans, `[S, lanes]`: how likely they play every sequence.
      regret_sum: both players' regrets, `[Q, lanes]`.
      strategy_sum: both players' weighted sums of plans, `[S, lanes]`.
      payoff: the payoff operator's own state.
    """

    iteration: jax.Array
    strategy: tuple[Parts, Parts]
    plan: tuple[Parts, Parts]
    regret_sum: tuple[Parts, Parts]
    strategy_sum: tuple[Parts, Parts]
    payoff: Any


@jax.jit
def start(problem: Problem, payoff_state: Any = None) -> State:
    """No regrets yet: uniform strategies, with a floor (1−ε)·uniform + ε·prior."""
    regret = [
        Parts(
            jnp.zeros((side.entry.num_actions, problem.num_lanes), problem.dtype),
            jnp.zeros((side.body.num_actions, problem.num_lanes), problem.dtype),
        )
        for side in problem.sides
    ]
    strategy = [_match(problem, player, regret[player]) for player in (0, 1)]
    plan = [follow(problem.sides[p], problem.terms[p], strategy[p]) for p in (0, 1)]
    nothing = [jax.tree.map(jnp.zeros_like, part) for part in plan]
    return State(
        iteration=jnp.zeros((), jnp.int32),
        strategy=(strategy[0], strategy[1]),
        plan=(plan[0], plan[1]),
        regret_sum=(regret[0], regret[1]),
        strategy_sum=(nothing[0], nothing[1]),
        payoff=payoff_state,
    )


def step(problem: Problem, rule: Rule, state: State) -> State:
    """One iteration: both players update once, in the problem's order."""
    state = dataclasses.replace(state, iteration=state.iteration + 1)
    for player in problem.order:
        state = update(problem, rule, state, player)
    return state


def update(problem: Problem, rule: Rule, state: State, player: int) -> State:
    """One player's update."""
    side, terms = problem.sides[player], problem.terms[player]
    t = state.iteration.astype(problem.dtype)
    reach = payoff_reaches(problem, state.plan)
    gradient, payoff_state = problem.payoff.gradient(player, reach, state.payoff)
    values = values_up(side, terms, gradient, state.strategy[player])
    weight = rule.weight(t)
    strategy_sum = jax.tree.map(
        lambda total, plan: total + weight * plan, state.strategy_sum[player], state.plan[player]
    )
    before = state.regret_sum[player]
    entry = values.actions.entry, values.infosets.entry
    body = values.actions.body, values.infosets.body
    first = learn(side.entry, rule, terms.entry, before.entry, entry, t)
    second = learn(side.body, rule, terms.body, before.body, body, t)
    # The old strategy and plan are done with here: without the barrier XLA keeps copies of them.
    regret_sum, basis, strategy_sum = jax.lax.optimization_barrier(
        (Parts(first[0], second[0]), Parts(first[1], second[1]), strategy_sum)
    )
    strategy = _match(problem, player, basis)
    return dataclasses.replace(
        state,
        strategy=_put(state.strategy, player, strategy),
        plan=_put(state.plan, player, follow(side, terms, strategy)),
        regret_sum=_put(state.regret_sum, player, regret_sum),
        strategy_sum=_put(state.strategy_sum, player, strategy_sum),
        payoff=payoff_state,
    )


def _put(pair: tuple[Parts, Parts], player: int, value: Parts) -> tuple[Parts, Parts]:
    return (value, pair[1]) if player == 0 else (pair[0], value)


def _match(problem: Problem, player: int, basis: Parts) -> Parts:
    side, terms = problem.sides[player], problem.terms[player]
    tolerance = problem.regret_tolerance[player]
    return Parts(
        match(side.entry, basis.entry, tolerance.entry, terms.entry),
        match(side.body, basis.body, tolerance.body, terms.body),
    )


@jax.jit
def average(problem: Problem, state: State) -> tuple[Parts, Parts]:
    """Both players' average strategies, `[Q, lanes]`; uniform (with floors) where there is no mass."""
    return averages(problem, state.strategy_sum)


def averages(problem: Problem, strategy_sum: tuple[Parts, Parts]) -> tuple[Parts, Parts]:
    """The same from both players' sums of plans."""
    first, second = (
        Parts(
            normalise(side.entry, total.entry[side.entry.num_roots :], terms.entry),
            normalise(side.body, total.body[side.body.num_roots :], terms.body),
        )
        for side, terms, total in zip(problem.sides, problem.terms, strategy_sum, strict=True)
    )
    return first, second


def normalise(treeplex: Treeplex, weight: jax.Array, bounds: Bounds) -> jax.Array:
    """Weights of actions → probabilities, `[Q, lanes]`; the bounds' uniform where all are 0."""
    total = expand_infosets(treeplex, sum_actions(treeplex, weight))
    fallback = bounds.floored(treeplex, jnp.broadcast_to(bounds.uniform(treeplex), weight.shape))
    return jnp.where(total > 0, weight / jnp.where(total > 0, total, 1), fallback)


@functools.partial(jax.jit, static_argnames=("rule",), donate_argnames=("state",))
def run(problem: Problem, state: State, until: jax.Array, *, rule: Rule) -> State:
    """Iterates on the device until iteration `until`; the buffers of `state` are donated."""
    return _iterate(problem, rule, state, until)


@functools.partial(jax.jit, static_argnames=("rule", "check_every"), donate_argnames=("state",))
def run_to_gap(
    problem: Problem,
    state: State,
    until: jax.Array,
    target_gap: jax.Array,
    *,
    rule: Rule,
    check_every: int,
) -> tuple[State, jax.Array]:
    """Iterates on the device until the gap is small enough.

    Args:
      problem: the games.
      state: where to go on; its buffers are donated.
      until: stop after this iteration in any case.
      target_gap: stop when a look finds no subgame of any lane with a larger gap.
      rule: the regret-matching rule.
      check_every: how many iterations lie between two looks.

    Returns:
      The state and the gap seen last, infinite if there was no look.
    """

    def unfinished(carry: tuple[State, jax.Array]) -> jax.Array:
        return (carry[0].iteration < until) & (carry[1] > target_gap)

    def advance(carry: tuple[State, jax.Array]) -> tuple[State, jax.Array]:
        last = jnp.minimum(carry[0].iteration + check_every, until)
        state = _iterate(problem, rule, carry[0], last)
        return state, largest_gap(problem, state)

    return jax.lax.while_loop(unfinished, advance, (state, jnp.full((), jnp.inf, problem.dtype)))


def _iterate(problem: Problem, rule: Rule, state: State, until: jax.Array) -> State:
    return jax.lax.fori_loop(state.iteration, until, lambda _, s: step(problem, rule, s), state)


@jax.jit
def largest_gap(problem: Problem, state: State) -> jax.Array:
    """The largest gap of the average strategies over subgames and lanes."""
    return evaluate(problem, average(problem, state), state.payoff).gap.max()
