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

from jaxgadget.core.loops import BLOCK, LOOP_FORM, LOOP_OPTIONS, LoopForm
from jaxgadget.core.problem import (
    Parts,
    Problem,
    check_precision,
    follow,
    values_up,
)
from jaxgadget.core.regret import Bounds, Rule
from jaxgadget.core.response import evaluate, payoff_reaches
from jaxgadget.core.treeplex import Treeplex, expand_infosets, sum_actions
from jaxgadget.util.compilation import CompiledFunction, compiled
from jaxgadget.util.players import replaced


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class State:
    """Solver state between iterations.

    Attributes:
      iteration: number of iterations done.
      strategy: both players' current strategies, `[Q, lanes]`.
      plan: both players' current realisation plans, `[S, lanes]`.
      rule: the rule's state for both players, such as their regrets `[Q, lanes]`.
      strategy_sum: both players' weighted sums of plans, `[S, lanes]`; 0 at a fixed entry.
      payoff: the payoff operator's own state.
    """

    iteration: jax.Array
    strategy: tuple[Parts, Parts]
    plan: tuple[Parts, Parts]
    rule: tuple[Parts, Parts]
    strategy_sum: tuple[Parts, Parts]
    payoff: Any


@compiled
def start(problem: Problem, rule: Rule, payoff_state: Any = None) -> State:
    """Initial state: uniform strategies, with a floor (1−ε)·uniform + ε·prior."""
    check_precision(problem)
    strategy: list[Parts] = []
    rule_state: list[Parts] = []
    plan: list[Parts] = []
    for side, terms in zip(problem.sides, problem.terms, strict=True):
        strategy.append(
            Parts(
                _uniform(problem, side.entry, terms.entry),
                _uniform(problem, side.body, terms.body),
            )
        )
        plan.append(follow(side, terms, strategy[-1]))
        rule_state.append(
            Parts(
                rule.init(side.entry, problem.num_lanes, problem.dtype),
                rule.init(side.body, problem.num_lanes, problem.dtype),
            )
        )
    zero_sums = [jax.tree.map(jnp.zeros_like, side_plan) for side_plan in plan]
    return State(
        iteration=jnp.zeros((), jnp.int32),
        strategy=(strategy[0], strategy[1]),
        plan=(plan[0], plan[1]),
        rule=(rule_state[0], rule_state[1]),
        strategy_sum=(zero_sums[0], zero_sums[1]),
        payoff=payoff_state,
    )


def _uniform(problem: Problem, treeplex: Treeplex, bounds: Bounds) -> jax.Array:
    """`[Q, lanes]` equal probabilities of all legal actions, then the floor."""
    uniform = bounds.uniform(treeplex)
    return bounds.floored(treeplex, jnp.broadcast_to(uniform, (treeplex.num_actions, problem.num_lanes)))


def step(problem: Problem, rule: Rule, state: State, running: jax.Array | None = None) -> State:
    """One iteration: both players update once, in the problem's order.

    Args:
      problem: the games.
      rule: the regret-matching rule.
      state: the state before it.
      running: `[lanes]` mask of the lanes whose sums of plans go on; by default all. Those of the others, and
        so their averages, stay as they are.
    """
    state = dataclasses.replace(state, iteration=state.iteration + 1)
    for player in problem.order:
        state = update(problem, rule, state, player, running)
    return state


def update(
    problem: Problem, rule: Rule, state: State, player: int, running: jax.Array | None = None
) -> State:
    """One player's update; arguments as in `step`."""
    side, terms = problem.sides[player], problem.terms[player]
    t = state.iteration.astype(problem.dtype)
    reach = payoff_reaches(problem, state.plan)
    gradient, payoff_state = problem.payoff.gradient(player, reach, state.payoff)
    values = values_up(side, terms, gradient, state.strategy[player])
    weight = rule.weight(t)
    if running is not None:
        weight = jnp.where(running, weight, 0)[None]
    strategy_sum = jax.tree.map(
        lambda total, plan: total + weight * plan, state.strategy_sum[player], state.plan[player]
    )
    tolerance, before, played = problem.regret_tolerance[player], state.rule[player], state.strategy[player]
    entry_state, entry = rule.update(
        side.entry,
        terms.entry,
        tolerance.entry,
        before.entry,
        played.entry,
        (values.actions.entry, values.infosets.entry),
        t,
    )
    entry = terms.entry.respond(side.entry, values.actions.entry, entry)
    body_state, body = rule.update(
        side.body,
        terms.body,
        tolerance.body,
        before.body,
        played.body,
        (values.actions.body, values.infosets.body),
        t,
    )
    # The old plan is not used below: without the barrier XLA keeps a copy of it.
    strategy, strategy_sum = jax.lax.optimization_barrier((Parts(entry, body), strategy_sum))
    plan = follow(side, terms, strategy)
    return dataclasses.replace(
        state,
        strategy=replaced(state.strategy, player, strategy),
        plan=replaced(state.plan, player, side.keep_fixed(state.plan[player], plan)),
        rule=replaced(state.rule, player, Parts(entry_state, body_state)),
        strategy_sum=replaced(
            state.strategy_sum, player, side.keep_fixed(state.strategy_sum[player], strategy_sum)
        ),
        payoff=payoff_state,
    )


@compiled
def average(problem: Problem, state: State) -> tuple[Parts, Parts]:
    """Both players' average strategies, `[Q, lanes]`; uniform (with floors) where there is no mass."""
    check_precision(problem)
    return averages(problem, state.strategy_sum)


def averages(problem: Problem, strategy_sum: tuple[Parts, Parts]) -> tuple[Parts, Parts]:
    """Both players' average strategies, `[Q, lanes]`, from their sums of plans."""
    first, second = (
        Parts(
            normalise(side.entry, total.entry[side.entry.num_roots :], terms.entry),
            normalise(side.body, total.body[side.body.num_roots :], terms.body),
        )
        for side, terms, total in zip(problem.sides, problem.terms, strategy_sum, strict=True)
    )
    return first, second


def normalise(treeplex: Treeplex, weight: jax.Array, bounds: Bounds) -> jax.Array:
    """Weights of actions → probabilities within the bounds, `[Q, lanes]`; their uniform where all are 0.

    An average of strategies may round to less than a floor, and its gap would then be too small, even
    negative. So what exceeds the floors is scaled to the probability that they leave.
    """
    total = expand_infosets(treeplex, sum_actions(treeplex, weight))
    fallback = bounds.floored(treeplex, jnp.broadcast_to(bounds.uniform(treeplex), weight.shape))
    rows = jnp.where(total > 0, weight / jnp.where(total > 0, total, 1), fallback)
    if bounds.floor is None:
        return rows
    excess = jnp.maximum(rows - bounds.floor, 0)
    free = expand_infosets(treeplex, sum_actions(treeplex, excess))
    return bounds.floored(treeplex, excess / jnp.where(free == 0, 1, free))


@functools.cache
def loop_program(form: LoopForm) -> CompiledFunction:
    """The program `run(problem, state, until, *, rule)`, which iterates until iteration `until`.

    Args:
      form: how an accelerator runs the loop. The buffers of `state` are donated.
    """

    def run(problem: Problem, state: State, until: jax.Array, *, rule: Rule) -> State:
        return _iterate(problem, rule, state, until, form)

    return compiled(run, donate_argnames=("state",), gpu_options=LOOP_OPTIONS[form])


run = loop_program(LOOP_FORM)


@compiled(
    static_argnames=("check_every",),
    donate_argnames=("state",),
    gpu_options=LOOP_OPTIONS[LOOP_FORM],
)
def run_to_gap(
    problem: Problem,
    state: State,
    stopped: jax.Array,
    until: jax.Array,
    target_gap: jax.Array,
    *,
    rule: Rule,
    check_every: int,
) -> tuple[State, jax.Array]:
    """Iterates on the device until the gap of every lane is small enough.

    A lane stops at the first check that finds it so. Its average is then left alone, as if it had been solved
    separately, while the other lanes continue.

    Args:
      problem: the games.
      state: the state to continue from; its buffers are donated.
      stopped: `[lanes]` iteration at which each lane has stopped, 0 for those that continue.
      until: largest number of iterations.
      target_gap: a lane stops when no subgame of it has a larger gap.
      rule: the regret-matching rule.
      check_every: the gap is checked at multiples of this number of iterations.

    Returns:
      The state and `stopped`.
    """

    def unfinished(carry: tuple[State, jax.Array]) -> jax.Array:
        return (carry[0].iteration < until) & (carry[1] == 0).any()

    def advance(carry: tuple[State, jax.Array]) -> tuple[State, jax.Array]:
        state, stopped = carry
        check = (state.iteration // check_every + 1) * check_every
        state = _iterate(problem, rule, state, jnp.minimum(check, until), running=stopped == 0)
        return state, jnp.where(state.iteration == check, stop(problem, state, stopped, target_gap), stopped)

    return jax.lax.while_loop(unfinished, advance, (state, stopped))


@compiled
def stop(problem: Problem, state: State, stopped: jax.Array, target_gap: jax.Array) -> jax.Array:
    """`[lanes]` `stopped`, and the current iteration for the lanes that stop here; see `run_to_gap`."""
    is_small = largest_gaps(problem, state) <= target_gap
    return jnp.where((stopped == 0) & is_small, state.iteration, stopped)


def _iterate(
    problem: Problem,
    rule: Rule,
    state: State,
    until: jax.Array,
    form: LoopForm = LOOP_FORM,
    running: jax.Array | None = None,
) -> State:
    """Iterates until iteration `until`; `running` as in `step`."""
    check_precision(problem)

    def one(_: Any, state: State) -> State:
        return step(problem, rule, state, running)

    if form == "blocks":
        state = jax.lax.while_loop(
            lambda s: s.iteration + BLOCK <= until, lambda s: jax.lax.fori_loop(0, BLOCK, one, s), state
        )
    return jax.lax.fori_loop(state.iteration, until, one, state)


@compiled
def largest_gaps(problem: Problem, state: State) -> jax.Array:
    """`[lanes]` the largest finite gap of the average strategies over subgames."""
    gap = evaluate(problem, average(problem, state), state.payoff).gap
    return jnp.where(jnp.isfinite(gap), gap, -jnp.inf).max(axis=0)
