"""The loop: gradient → values → regrets → reach, alternating between the players.

The convention is that of OpenSpiel's `CFRPlusSolver`: an update uses the newest strategy
of the other player, and the average includes the strategy that a sweep used, before it is
updated. All rules, gadgets and whole games are solved by this loop.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxgadget.core.loops import BLOCK, LOOP_FORM, LOOP_OPTIONS, MANY_LANES, PIECE_BYTES, LoopForm
from jaxgadget.core.payoff import LoopedPayoff, NestedPayoff
from jaxgadget.core.pieces import Pieces, cut, evaluate_pieces, joined
from jaxgadget.core.problem import (
    Parts,
    Problem,
    check_precision,
    follow,
    values_up,
)
from jaxgadget.core.regret import ChoiceRule, Rule, follows_from_regrets, match
from jaxgadget.core.response import evaluate, payoff_reaches
from jaxgadget.core.treeplex import MANY_SLICES, Treeplex, expand_infosets, sum_actions
from jaxgadget.util.compilation import CompiledFunction, compiled
from jaxgadget.util.native import call_kernel
from jaxgadget.util.players import replaced


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class State:
    """Solver state between iterations.

    Attributes:
      iteration: number of completed iterations.
      strategy: both players' current strategies, `[Q, lanes]`. Below the roots they must equal the strategies
        that the rule derives from its state, because with many lanes `run` recomputes them.
      plan: both players' current realisation plans, `[S, lanes]`.
      rule: the rule's state for both players, such as their regrets `[Q, lanes]`.
      strategy_sum: both players' weighted sums of plans, `[S, lanes]`; those of a fixed entry are not used.
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
    if payoff_state is None and isinstance(problem.payoff, NestedPayoff):
        payoff_state = problem.payoff.start(problem.dtype)
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


def _uniform(problem: Problem, treeplex: Treeplex, choice: ChoiceRule) -> jax.Array:
    """`[Q, lanes]` equal probabilities of all legal actions, then the floor."""
    uniform = choice.uniform(treeplex)
    return choice.floored(treeplex, jnp.broadcast_to(uniform, (treeplex.num_actions, problem.num_lanes)))


def step(problem: Problem, rule: Rule, state: State, running: jax.Array | None = None) -> State:
    """One iteration: both players update once, in the problem's order.

    Args:
      problem: the games.
      rule: the regret-matching rule.
      state: the state before the iteration.
      running: `[lanes]` True for lanes whose sums of plans are updated; by default all. In the other lanes
        the sums, and therefore the averages, do not change.
    """
    state = dataclasses.replace(state, iteration=state.iteration + 1)
    weight = rule.weight(state.iteration.astype(problem.dtype))
    if running is not None:
        weight = jnp.where(running, weight, 0)[None]
    for player in problem.order:
        total = _sum_with_plan(state, player, weight)
        state = update(problem, rule, state, player)
        # The old plan is not used below: without the barrier XLA keeps a copy of it.
        strategy, total = jax.lax.optimization_barrier((state.strategy[player], total))
        state = _with_sum(problem, _with_plan(problem, state, player, strategy), player, total)
    return state


def _step_ahead(problem: Problem, rule: Rule, state: State, weight: jax.Array) -> State:
    """One iteration of a state whose sums of plans include the current ones already.

    Each plan is added to its sum where it is computed, which saves one read of the plan.

    Args:
      problem: the games.
      rule: the regret-matching rule.
      state: the state before the iteration.
      weight: weight of the next iteration, with which the new plans are added.
    """
    state = dataclasses.replace(state, iteration=state.iteration + 1)
    for player in problem.order:
        state = update(problem, rule, state, player)
        state = _with_plan(problem, state, player, state.strategy[player])
        state = _with_sum(problem, state, player, _sum_with_plan(state, player, weight))
    return state


def _sum_with_plan(state: State, player: int, weight: jax.Array) -> Parts:
    """A player's sum of plans plus a weight times the current plan."""
    return jax.tree.map(
        lambda total, plan: total + weight * plan, state.strategy_sum[player], state.plan[player]
    )


def _with_sum(problem: Problem, state: State, player: int, total: Parts) -> State:
    kept = problem.sides[player].keep_fixed(state.strategy_sum[player], total)
    return dataclasses.replace(state, strategy_sum=replaced(state.strategy_sum, player, kept))


def _with_plan(problem: Problem, state: State, player: int, strategy: Parts) -> State:
    side = problem.sides[player]
    plan = side.keep_fixed(state.plan[player], follow(side, problem.terms[player], strategy))
    return dataclasses.replace(
        state,
        strategy=replaced(state.strategy, player, strategy),
        plan=replaced(state.plan, player, plan),
    )


def update(problem: Problem, rule: Rule, state: State, player: int) -> State:
    """Updates one player's strategy; its plan is left unchanged."""
    side, terms = problem.sides[player], problem.terms[player]
    t = state.iteration.astype(problem.dtype)
    reach = payoff_reaches(problem, state.plan)
    gradient, payoff_state = problem.payoff.gradient(player, reach, state.payoff)
    values = values_up(side, terms, gradient, state.strategy[player])
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
    return dataclasses.replace(
        state,
        strategy=replaced(state.strategy, player, Parts(entry, body)),
        rule=replaced(state.rule, player, Parts(entry_state, body_state)),
        payoff=payoff_state,
    )


@compiled
def average(problem: Problem, state: State) -> tuple[Parts, Parts]:
    """Both players' average strategies, `[Q, lanes]`; uniform (with floors) where the sums have no mass."""
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


def normalise(treeplex: Treeplex, weight: jax.Array, choice: ChoiceRule) -> jax.Array:
    """Weights of actions → probabilities within the bounds, `[Q, lanes]`; uniform where all weights are 0.

    An average of strategies may round to less than a floor; its gap would then be too small or even
    negative. Therefore only the excess over the floors is scaled, to the probability that the floors leave.
    """
    total = expand_infosets(treeplex, sum_actions(treeplex, weight))
    fallback = choice.floored(treeplex, jnp.broadcast_to(choice.uniform(treeplex), weight.shape))
    rows = jnp.where(total > 0, weight / jnp.where(total > 0, total, 1), fallback)
    if choice.floor is None:
        return rows
    excess = jnp.maximum(rows - choice.floor, 0)
    free = expand_infosets(treeplex, sum_actions(treeplex, excess))
    return choice.floored(treeplex, excess / jnp.where(free == 0, 1, free))


@functools.cache
def loop_program(form: LoopForm) -> CompiledFunction:
    """Compiles `run(problem, state, until, *, rule)`, which iterates until iteration `until`.

    Args:
      form: how an accelerator runs the loop. The buffers of `state` are donated.
    """

    def run(problem: Problem, state: State, until: jax.Array, *, rule: Rule) -> State:
        return _iterate(problem, rule, state, until, form)

    return compiled(run, donate_argnames=("state",), gpu_options=LOOP_OPTIONS[form])


run = loop_program(LOOP_FORM)

_Checked = tuple[State, jax.Array, jax.Array]
"""The state, the iteration at which each lane has stopped, and its gap at the last check."""


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
) -> tuple[State, jax.Array, jax.Array]:
    """Iterates on the device until the gap of every lane is small enough.

    A lane stops at the first check that finds its gap small enough. Its average then no longer changes, as if
    the lane had been solved separately, while the other lanes continue.

    Args:
      problem: the games.
      state: the state to continue from; its buffers are donated.
      stopped: `[lanes]` iteration at which each lane has stopped, 0 for those that continue.
      until: largest number of iterations.
      target_gap: a lane stops when none of its subgames has a larger gap, in units of the payoff.
      rule: the regret-matching rule.
      check_every: the gap is checked at multiples of this number of iterations.

    Returns:
      The state, `stopped`, and `[lanes]` the largest gap of each lane at the last check; NaN without a check.
    """

    def unfinished(carry: _Checked) -> jax.Array:
        return (carry[0].iteration < until) & (carry[1] == 0).any()

    def advance(carry: _Checked) -> _Checked:
        state, stopped, gap = carry
        check = (state.iteration // check_every + 1) * check_every
        state = _iterate(problem, rule, state, jnp.minimum(check, until), running=stopped == 0)
        is_due, (later, new_gap) = state.iteration == check, stop(problem, state, stopped, target_gap)
        return state, jnp.where(is_due, later, stopped), jnp.where(is_due, new_gap, gap)

    unknown = jnp.full(stopped.shape, jnp.nan, problem.dtype)
    return jax.lax.while_loop(unfinished, advance, (state, stopped, unknown))


@compiled
def stop(
    problem: Problem, state: State, stopped: jax.Array, target_gap: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Updates `stopped` `[lanes]`: the current iteration for the lanes that stop now; see `run_to_gap`.

    Returns:
      `stopped`, and `[lanes]` the largest gap of each lane.
    """
    gap = largest_gaps(problem, state)
    return jnp.where((stopped == 0) & (gap <= target_gap), state.iteration, stopped), gap


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
    by_steps = functools.partial(_iterate_by_steps, form=form)
    payoff, arguments = problem.payoff, (problem, rule, state, until, running)
    kernel = payoff.find_loop(problem, rule) if isinstance(payoff, LoopedPayoff) else None
    return call_kernel(kernel, by_steps, *arguments)


def _iterate_by_steps(
    problem: Problem, rule: Rule, state: State, until: jax.Array, running: jax.Array | None, form: LoopForm
) -> State:
    """`_iterate` by XLA's programs."""
    if is_wide(problem):
        return _iterate_in_pieces(problem, rule, state, until, running)

    def one(_: Any, state: State) -> State:
        return step(problem, rule, state, running)

    if form == "blocks":
        state = jax.lax.while_loop(
            lambda s: s.iteration + BLOCK <= until, lambda s: jax.lax.fori_loop(0, BLOCK, one, s), state
        )
    return jax.lax.fori_loop(state.iteration, until, one, state)


def is_wide(problem: Problem) -> bool:
    """True if moving an iteration's bytes takes longer than launching additional kernels."""
    bodies = [side.body for side in problem.sides]
    pieces = [len(body.slots) for body in bodies]
    size = sum(body.num_actions for body in bodies) * problem.num_lanes * problem.dtype.itemsize
    is_narrow = problem.num_lanes < MANY_LANES or max(pieces) > MANY_SLICES
    return not is_narrow and size >= sum(pieces) * PIECE_BYTES


def _iterate_in_pieces(
    problem: Problem, rule: Rule, state: State, until: jax.Array, running: jax.Array | None
) -> State:
    """`_iterate` with the state's arrays over actions and sequences in pieces, see `core.pieces`.

    Strategies below the roots that follow from the regrets are not stored: recomputing them in the kernels
    that read the regrets costs less than writing and reading them.
    """
    matched = problem.order if follows_from_regrets(rule) else ()

    def with_bodies(state: State, body: Callable[[int], jax.Array]) -> State:
        for player in matched:
            strategy = state.strategy[player]._replace(body=body(player))
            state = dataclasses.replace(state, strategy=replaced(state.strategy, player, strategy))
        return state

    def forgotten(state: State) -> State:
        return with_bodies(state, lambda _: jnp.zeros(0, problem.dtype))

    def recalled(state: State) -> State:
        def body(player: int) -> jax.Array:
            tolerance, choice = problem.regret_tolerance[player].body, problem.terms[player].body
            return match(problem.sides[player].body, state.rule[player].body, tolerance, choice)

        return with_bodies(state, body)

    def weight(state: State, later: int) -> jax.Array:
        """Weight of the iteration `later` steps ahead; 0 after the last."""
        number = state.iteration + later
        due = jnp.where(number <= until, rule.weight(number.astype(problem.dtype)), 0)
        return due if running is None else jnp.where(running, due, 0)[None]

    def one(state: State) -> State:
        return forgotten(_step_ahead(problem, rule, recalled(state), weight(state, 2)))

    before = forgotten(state)
    for player in problem.order:
        before = _with_sum(problem, before, player, _sum_with_plan(before, player, weight(before, 1)))
    traced = jax.make_jaxpr(one)(before)

    def iterate(_: Any, state: State) -> State:
        values, structure = jax.tree.flatten(state, is_leaf=_is_pieces)
        results = [
            cut(new, old.sizes) if isinstance(old, Pieces) else joined(new)
            for new, old in zip(evaluate_pieces(traced, values), values, strict=True)
        ]
        return structure.unflatten(results)

    last = jax.lax.fori_loop(state.iteration, until, iterate, _in_pieces(problem, before))
    last = recalled(jax.tree.map(joined, last, is_leaf=_is_pieces))
    # If no iteration is due, strategies do not change, and their buffers become those of the result.
    strategy = jax.tree.map(
        lambda old, new: jnp.where(state.iteration < until, new, old), state.strategy, last.strategy
    )
    return dataclasses.replace(last, strategy=strategy)


def _is_pieces(x: Any) -> bool:
    return isinstance(x, Pieces)


def _in_pieces(problem: Problem, state: State) -> State:
    """The state with its arrays over actions and sequences in pieces."""

    def divide(treeplex: Treeplex, tree: Any) -> Any:
        slots, roots = treeplex.slots, treeplex.num_roots
        sizes = {(sum(slots),): slots, (roots + sum(slots),): [roots, *slots]} if slots else {}
        return jax.tree.map(lambda x: cut(x, sizes[x.shape[:1]]) if x.shape[:1] in sizes else x, tree)

    def divide_both(both: tuple[Parts, Parts]) -> tuple[Parts, Parts]:
        first, second = (
            Parts(divide(side.entry, parts.entry), divide(side.body, parts.body))
            for side, parts in zip(problem.sides, both, strict=True)
        )
        return first, second

    return dataclasses.replace(
        state,
        strategy=divide_both(state.strategy),
        plan=divide_both(state.plan),
        rule=divide_both(state.rule),
        strategy_sum=divide_both(state.strategy_sum),
    )


@compiled
def largest_gaps(problem: Problem, state: State) -> jax.Array:
    """`[lanes]` largest finite gap of the average strategies over all subgames."""
    gap = evaluate(problem, average(problem, state), state.payoff).gap
    return jnp.where(jnp.isfinite(gap), gap, -jnp.inf).max(axis=0)
