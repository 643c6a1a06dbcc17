"""Problems built by hand: values, constants of the body, games side by side, precision."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgadget import Policy, load
from jaxgadget.core import cfr
from jaxgadget.core.certificate import Certificate, certify_average
from jaxgadget.core.host import HostTreeplex, build_treeplex
from jaxgadget.core.payoff import build_payoff
from jaxgadget.core.problem import (
    Parts,
    Problem,
    Terms,
    build_side,
    fixed_entry,
    no_regret_tolerance,
    values_up,
    whole_game,
    with_floors,
    with_regret_tolerance,
)
from jaxgadget.core.regret import ZERO_REGRET, ChoiceRule, find_rule
from jaxgadget.core.response import evaluate
from jaxgadget.opponents.opponent import Opponent
from jaxgadget.opponents.respond import respond
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.precision import precision
from tests.reference.efg import Array
from tests.reference.random_games import SHAPES, RandomGame

LANES = 2
evaluated = jax.jit(evaluate)


@jax.jit
def certified(problem: Problem, sums: tuple[Parts, Parts]) -> Certificate:
    return certify_average(problem, sums, (None, None))


@functools.cache
def game(shape: str, seed: int) -> HistoryTree:
    return enumerate_game(RandomGame(SHAPES[shape], seed))


def test_values_need_a_strategy() -> None:
    """Without one, values would silently be those of a best response."""
    with precision(np.float64):
        form = sequence_form(game("betting", 0))
        problem = whole_game(form.treeplex, form.payoff, num_lanes=1, dtype=np.float64)
        side, terms = problem.sides[0], problem.terms[0]
        gradient = jnp.ones((side.body.num_sequences, 1))
        unchecked: Any = values_up
        with pytest.raises(TypeError, match="strategy"):
            unchecked(side, terms, gradient)


# Certificates


def test_a_player_below_its_floors_does_not_lower_the_gap() -> None:
    """In matching pennies, player 1 has to play Heads with 0.7, and its average is 1e-7 below that."""
    form = sequence_form(enumerate_game(load("matching_pennies_forfeit")))
    floors = np.zeros(3), np.array([0.7, 0.0])
    with precision(np.float64):
        problem = with_floors(whole_game(form.treeplex, form.payoff, num_lanes=1, dtype=np.float64), floors)
        first, second = (
            Parts(jnp.ones((1, 1)), jnp.asarray([1.0, *rows])[:, None])
            for rows in ((0.0, 1.0, 0.0), (0.7 - 1e-7, 0.3 + 1e-7))
        )
        certificate = certified(problem, (first, second))
    (value,), (gap,) = np.asarray(certificate.guaranteed[0])[0], np.asarray(certificate.gap)[0]
    assert value == pytest.approx(0.7, abs=1e-12)
    assert gap == pytest.approx(0, abs=1e-12)


# Constants of the body's sequences


def follow_or_terminate(subgame: Array, num_subgames: int) -> tuple[HostTreeplex, Array]:
    """An entry with a decision above every root, and `[R]` its sequence that leads to each root."""
    count = len(subgame)
    entry, position = build_treeplex(
        num_roots=num_subgames,
        depth=np.zeros(count, np.int64),
        num_actions=np.full(count, 2),
        parent_infoset=np.full(count, -1),
        parent_slot=subgame,
        infoset=np.arange(count),
    )
    return entry, entry.sequence(position, np.zeros(count, np.int64))


def gadget_game(forest: Forest, resolver: int, rng: np.random.Generator, *, chooses: bool) -> Problem:
    """A resolving gadget with random numbers, or an unsafe one if the opponent does not choose."""
    sides, terms = [], []
    for player in (0, 1):
        body, subgame = forest.form.treeplex[player], forest.roots[player].subgame
        entry, link = fixed_entry(forest.num_subgames), subgame
        if player != resolver and chooses:
            entry, link = follow_or_terminate(subgame, forest.num_subgames)
        sides.append(build_side(body, entry, link, np.float64))
        constant = rng.normal(size=(entry.num_sequences, LANES)) * 0.1
        constant[: entry.num_roots] = 0
        floor = rng.uniform(0, 0.1, (entry.num_sequences - entry.num_roots, LANES))
        terms.append(
            Terms(
                scale=jnp.asarray(rng.uniform(0.1, 1, (body.num_roots, LANES))),
                constant=jnp.asarray(constant),
                entry=ChoiceRule(floor=jnp.asarray(floor)),
            )
        )
    problem = Problem(
        order=(1 - resolver, resolver),
        sides=(sides[0], sides[1]),
        terms=(terms[0], terms[1]),
        payoff=build_payoff(forest.form.payoff, np.float64),
        regret_tolerance=no_regret_tolerance(sides, LANES, np.float64),
    )
    return with_regret_tolerance(problem)


def with_terms(problem: Problem, player: int, **changes: Any) -> Problem:
    terms = list(problem.terms)
    terms[player] = dataclasses.replace(terms[player], **changes)
    return dataclasses.replace(problem, terms=(terms[0], terms[1]))


@given(
    seed=st.integers(0, 5),
    player=st.integers(0, 1),
    p=st.sampled_from([0.0, 0.2, 0.5, 0.9]),
    model=st.integers(0, 100),
)
@pytest.mark.slow
def test_an_opponent_who_follows_a_model_is_a_constant(seed: int, player: int, p: float, model: int) -> None:
    """The constant is p·A·x, and 1−p scales the free opponent (Johanson et al. 2007)."""
    tree = game("betting", seed)
    opponent = Policy.dirichlet(tree, model, 0.5)
    exact = respond(tree, Opponent(opponent, p), player=player, algorithm="lp")
    objective = float(p * exact.value_against_model[0] + (1 - p) * exact.guaranteed_value[0])
    with precision(np.float64):
        problem = against_model(tree, opponent, player, p)
        state = cfr.run(
            problem,
            cfr.start(problem, find_rule("pcfr+")),
            jnp.asarray(1000, jnp.int32),
            rule=find_rule("pcfr+"),
        )
        found = jax.tree.map(np.asarray, evaluated(problem, cfr.average(problem, state)))
    low, high = found.guaranteed[player][0, 0], -found.guaranteed[1 - player][0, 0]
    assert low - 1e-9 <= objective <= high + 1e-9
    assert high - low == pytest.approx(found.gap[0, 0], abs=1e-12) and found.gap[0, 0] < 0.005
    signed = found.value[0, 0] * (1 if player == 0 else -1)
    assert low - 1e-12 <= signed <= high + 1e-12


def against_model(tree: HistoryTree, opponent: Policy, player: int, p: float) -> Problem:
    form, other = sequence_form(tree), 1 - player
    problem = whole_game(form.treeplex, form.payoff, num_lanes=1, dtype=np.float64)
    rows = np.concatenate([[[1.0]], opponent.probabilities[other][form.action_sequences(other) - 1]])
    treeplex = form.treeplex[other]
    for infoset in range(treeplex.num_infosets):
        rows[treeplex.rows(infoset) + 1] *= rows[treeplex.parent[infoset]]
    model = jnp.asarray(rows)
    earned, _ = problem.payoff.gradient(player, (model, model), None)
    problem = with_terms(problem, player, body_constant=p * earned)
    problem = with_terms(problem, other, scale=jnp.full((1, 1), 1 - p))
    return with_regret_tolerance(problem)


def test_constants_enter_the_threshold_of_regrets() -> None:
    """Against a model that is always followed, regrets come from the constants alone."""
    tree = game("betting", 0)
    opponent = Policy.dirichlet(tree, 1, 0.5)
    treeplex = sequence_form(tree).treeplex[0]
    with precision(np.float64):
        problem = against_model(tree, opponent, 0, 1.0)
        most = np.abs(np.asarray(problem.terms[0].body_constant))[:, 0]
        tolerance = np.asarray(problem.regret_tolerance[0].body)[:, 0]
    for infoset in reversed(range(treeplex.num_infosets)):
        largest = most[treeplex.rows(infoset) + treeplex.num_roots].max()
        expected = ZERO_REGRET * np.finfo(np.float64).eps * largest
        assert tolerance[infoset] == pytest.approx(expected, rel=1e-12) and expected > 0
        most[treeplex.parent[infoset]] += largest


# Games side by side


def test_roots_without_a_scale_have_reach_1() -> None:
    """Without a scale, tolerance, iterations and values equal those of a scale of 1, bit for bit."""
    form = sequence_form(game("betting", 0))
    rule = find_rule("cfr+")
    with precision(np.float64):
        scaled = free = whole_game(form.treeplex, form.payoff, num_lanes=LANES, dtype=np.float64)
        for player in (0, 1):
            scale = jnp.ones((free.sides[player].body.num_roots, LANES))
            scaled, free = with_terms(scaled, player, scale=scale), with_terms(free, player, scale=None)
        found: list[Any] = []
        for problem in (with_regret_tolerance(free), with_regret_tolerance(scaled)):
            state = cfr.run(problem, cfr.start(problem, rule), 20, rule=rule)
            found.append((problem.regret_tolerance, state, evaluated(problem, cfr.average(problem, state))))
    jax.tree.map(np.testing.assert_array_equal, *found)
