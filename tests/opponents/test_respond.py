"""Responses to opponents in whole games: the papers' numbers, explicit trees, and general properties."""

from __future__ import annotations

import itertools
import pathlib
from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget import HistoryTree, Opponent, Policy, Responses
from jaxgadget.opponents.opponent import Opponents, list_opponents
from tests.policy.test_exact import kuhn, players, strategy
from tests.reference import efg, opponents
from tests.reference.efg import Array, Label
from tests.reference.random_games import SHAPES, RandomGame, random_policy, random_shape, random_tree
from tests.solving import settings
from tests.trees import tree_of

WITHIN = {"lp": 1e-8, "pcfr+": 1e-4}
"""Tolerances of numbers in small games, by algorithm."""
algorithms = pytest.mark.parametrize("algorithm", list(WITHIN))


def model(tree: HistoryTree, player: int, **actions: float) -> Policy:
    """A model of a player by action name; uniform where none of these is legal."""

    def row(p: int, infoset: int, count: int) -> list[float]:
        infosets = tree.infosets[p]
        first = int(infosets.first_sequence[infoset])
        names = [tree.game.action_string(p, a) for a in infosets.action[first : first + count].tolist()]
        given = [actions.get(name, 0.0) for name in names]
        return given if p == player and sum(given) else [1 / count] * count

    return Policy.from_function(tree, row, "model")


def by_infostate(tree: HistoryTree, player: int, rows: dict[str, dict[str, float]]) -> Policy:
    """A model of a player by infostate and action name."""
    names, infosets = tree.infoset_names[player], tree.infosets[player]

    def row(p: int, infoset: int, count: int) -> list[float]:
        if p != player:
            return [1 / count] * count
        first = int(infosets.first_sequence[infoset])
        actions = [tree.game.action_string(p, a) for a in infosets.action[first : first + count].tolist()]
        return [rows[names[infoset]].get(action, 0.0) for action in actions]

    return Policy.from_function(tree, row, "model")


def twist_model(tree: HistoryTree) -> Policy:
    return by_infostate(tree, 1, {"1:": {"Heads": 2 / 3, "Tails": 1 / 3}, "1: >Tails": {"x": 1.0}})


def respond(tree: HistoryTree, to: Any, algorithm: str = "lp", **options: Any) -> Responses:
    """`respond` with enough iterations to distinguish the strategies."""
    return jg.respond(tree, to, **settings(algorithm=algorithm, iterations=2000, **options))


# Worked examples


@algorithms
def test_biased_pennies(algorithm: str) -> None:
    """The response switches at p = 3/11 from (1/2, 1/2), G 3/2, E 0 to Tails, G 17/6, E 1/2."""
    tree = tree_of("matching_pennies_twist")
    switch = 3 / 11
    found = respond(tree, Opponent(twist_model(tree), (0.01, switch - 0.01, switch + 0.01, 1)), algorithm)
    within = WITHIN[algorithm]
    assert found.value == pytest.approx(1 / 2, abs=within)
    np.testing.assert_allclose(found.gain, [3 / 2, 3 / 2, 17 / 6, 17 / 6], rtol=0, atol=within)
    np.testing.assert_allclose(found.exploitability[:3], [0, 0, 1 / 2], rtol=0, atol=within)
    np.testing.assert_allclose(found.best_response_gain, 10 / 3 - 1 / 2, rtol=0, atol=within)
    heads = [found.policy.lane(k)["0:"][0] for k in range(4)]
    np.testing.assert_allclose(heads, [1 / 2, 1 / 2, 0, 0], rtol=0, atol=within)
    assert np.isnan(found.exploitability_bound[3]) and np.isfinite(found.exploitability_bound[:3]).all()


@pytest.mark.parametrize(
    ("name", "build", "expected"),
    [
        ("matching_pennies_twist", twist_model, 2 - 1 / 2),
        # v = −4/3, and −(1/3 + g) where the model, always p, guesses Heads with probability g
        ("biased_matching_pennies", lambda tree: guessing(tree, 0.3), 4 / 3 - (1 / 3 + 0.3)),
        ("kuhn_poker", Policy.uniform, 1 / 6 + 1 / 18),
    ],
)
def test_best_nash_of_the_worked_cases(name: str, build: Any, expected: float) -> None:
    tree = tree_of(name)
    found = jg.best_nash(tree, build(tree), algorithm="lp")
    assert found.method == "best-nash"
    tolerance = tree.payoff_range * 1e-9
    assert found.gain == pytest.approx(expected, abs=10 * tolerance)
    assert found.exploitability == pytest.approx(0, abs=1.1 * tolerance)


def guessing(tree: HistoryTree, heads: float) -> Policy:
    guess = {"Heads": heads, "Tails": 1 - heads}
    return by_infostate(tree, 1, {"1:": {"p": 1.0}, "1: >p": guess, "1: >q": guess})


def test_coin_game_is_played_iff_p_is_above_two_thirds() -> None:
    tree = tree_of("coin_game")
    p = (0.1, 0.6, 2 / 3 - 0.01, 2 / 3 + 0.01, 0.8, 1)
    found = respond(tree, Opponent(model(tree, 1, Tails=1), p))
    plays = np.array([found.policy.lane(k)["0:"][2] for k in range(len(p))])
    within = WITHIN["lp"]
    np.testing.assert_allclose(plays, np.array(p) > 2 / 3, rtol=0, atol=within)
    np.testing.assert_allclose(found.gain, np.where(np.array(p) > 2 / 3, 1.5, 0), rtol=0, atol=within)


def test_sibling_games_are_no_trouble_in_one_piece() -> None:
    """P(h₁) + P(h₂) = 1/2, E 0, G 1/8, as long as the joint response has no reason to deviate."""
    tree = tree_of("coin_toss_siblings")
    seller = by_infostate(
        tree,
        0,
        {
            "0: [Heads]": {"Play": 1.0},
            "0: [Tails]": {"Sell": 1.0},
            **{name: {"x": 1.0} for name in tree.infoset_names[0] if "Play" in name},
        },
    )
    found = respond(tree, Opponent(seller, (0.001, 0.05, 0.2)), player=1)
    within = WITHIN["lp"]
    np.testing.assert_allclose(found.gain, 1 / 8, rtol=0, atol=within)
    np.testing.assert_allclose(found.exploitability, 0, rtol=0, atol=within)
    heads = sum(found.policy.probabilities[1][row] for row in guess_rows(tree))
    np.testing.assert_allclose(heads, 1 / 2, rtol=0, atol=within)


def guess_rows(tree: HistoryTree) -> list[int]:
    """Rows of player 1's guesses of Heads."""
    infosets = tree.infosets[1]
    return [q - 1 for q in range(1, infosets.num_sequences) if infosets.action[q] == 0]


@algorithms
def test_kuhn_against_uniform(algorithm: str) -> None:
    """RNR 1/4: G 4/9, E 1/18; 3/4: G 5/9, E 5/18; a best response gets 1/2, and the value is −1/18."""
    tree = tree_of("kuhn_poker")
    found = respond(tree, Opponent(Policy.uniform(tree), (0.25, 0.75, 1)), algorithm)
    within = WITHIN[algorithm]
    assert found.value == pytest.approx(-1 / 18, abs=within)
    np.testing.assert_allclose(found.gain, [4 / 9, 5 / 9, 5 / 9], rtol=0, atol=within)
    np.testing.assert_allclose(found.exploitability[:2], [1 / 18, 5 / 18], rtol=0, atol=within)
    np.testing.assert_allclose(found.best_response_value, 1 / 2, rtol=0, atol=1e-12)


def test_gadget_breaker_plays_every_action_in_turn() -> None:
    """Action k gains 7k and loses 0, 11, 24, 39, 56: it is best once 7p = (1−p) × the difference."""
    tree = tree_of("gadget_breaker")
    worth = np.array([0, 11, 24, 39, 56])
    switches = np.diff(worth) / (np.diff(worth) + 7)
    edges = np.concatenate([[0.0], switches, [1.0]])
    p = (edges[:-1] + edges[1:]) / 2
    found = respond(tree, Opponent(model(tree, 1, M=1), p.tolist()))
    within = 100 * WITHIN["lp"]
    np.testing.assert_allclose(found.gain, 7.0 * np.arange(5), rtol=0, atol=within)
    np.testing.assert_allclose(found.exploitability, worth, rtol=0, atol=within)
    at_switches = respond(tree, Opponent(model(tree, 1, M=1), switches.tolist()))
    expected = switches * 7 * np.arange(4) - (1 - switches) * worth[:4]
    np.testing.assert_allclose(at_switches.objective, expected, atol=1e-9)


# Explicit trees


@pytest.mark.parametrize("method", ["mixed", "biased"])
@players
@pytest.mark.slow
def test_objectives_are_those_of_explicit_trees(player: int, method: str) -> None:
    """On random games, with models that omit some actions."""
    compared = 0
    for shape, seed in itertools.product(SHAPES, range(2)):
        tree, game = random_tree(shape, seed)
        rows = random_policy(tree, np.random.default_rng(seed), zeros=0.3)
        asked = Opponent(policy_of(tree, rows), (0.0, 0.3, 0.8, 1.0))
        solve = jg.respond if method == "mixed" else jg.data_biased_response
        found = solve(tree, asked, player=player, algorithm="lp")
        oracle = opponents.objective if method == "mixed" else opponents.biased_objective
        expected = [oracle(game.root, player, rows, p) for p in found.opponents.p.tolist()]
        np.testing.assert_allclose(found.objective, expected, rtol=0, atol=1e-7)
        for lane in range(len(expected)):
            check_values(found, lane, game.root)
        compared += len(expected)
    assert compared == 8 * len(SHAPES)


def policy_of(tree: HistoryTree, rows: dict[Label, Array]) -> Policy:
    first, second = (efg.to_sequences(tree, rows, p)[1:, None] for p in (0, 1))
    return Policy(tree, (first, second), ("drawn",))


def check_values(found: Responses, lane: int, root: efg.Node) -> None:
    """Values of a response and of a best response against the model, and their guarantees, from the tree."""
    player, rows = found.player, strategy(found.policy.lane(lane))
    against_model = efg.sign(player) * efg.value(root, rows)
    assert found.value_against_model[lane] == pytest.approx(against_model, abs=1e-9)
    least = -efg.best_response_value(root, 1 - player, rows)
    assert found.guaranteed_value[lane] == pytest.approx(least, abs=1e-9)
    best = efg.best_response_value(root, player, rows)
    assert found.best_response_value[lane] == pytest.approx(best, abs=1e-9)
    if found.method == "restricted-nash":
        p = found.opponents.p[lane]
        assert found.objective[lane] == pytest.approx(p * against_model + (1 - p) * least, abs=1e-9)


# General properties


@players
@pytest.mark.slow
def test_objective_is_convex_and_gain_and_exploitability_rise_with_p(player: int) -> None:
    """In games of five fixed structures and two random ones; half of them for each player."""
    trees = [random_tree(shape, 0)[0] for shape in list(SHAPES)[player::2]]
    trees += [jg.enumerate_game(RandomGame(random_shape(player + 1), player + 1))]
    compared = sum(check_curve(tree, player) for tree in trees)  # the other half: tests/slow
    assert compared == 11 * (4 - player)


def check_curve(tree: HistoryTree, player: int) -> int:
    """d objective / dp = u(x, σ_F) − guaranteed = gain + exploitability, at every p where that is unique."""
    p = np.linspace(0.0, 1.0, 11)
    to = Policy.dirichlet(tree, 0, 0.5)
    found = jg.respond(tree, Opponent(to, p.tolist()), player=player, algorithm="lp")
    unit = tree.payoff_range
    slope = found.gain + found.exploitability
    # The tangent at every p lies below the objective at every other one.
    lines = found.objective[:, None] + slope[:, None] * (p - p[:, None])
    assert (lines <= found.objective + 1e-8 * unit).all()
    assert (np.diff(found.gain) >= -1e-7 * unit).all()
    assert (np.diff(found.exploitability[:-1]) >= -1e-7 * unit).all()
    assert found.gain[1:].min() >= -1e-8 * unit and abs(found.exploitability[0]) <= 1e-8 * unit
    assert found.gain[-1] == pytest.approx(found.best_response_gain[-1], abs=1e-8 * unit)
    assert (found.exploitability[:-1] <= found.exploitability_bound[:-1] + 1e-8 * unit).all()
    # Best Nash is the limit p → 0⁺: (objective − v) / p falls to its gain.
    best = jg.best_nash(tree, to, player=player, value=found.game_value)
    small = jg.respond(
        tree, Opponent(to, (1e-4, 1e-2)), player=player, algorithm="lp", value=found.game_value
    )
    rates = (small.objective - small.value) / small.opponents.p
    assert best.gain[0] <= rates[0] + 1e-4 * unit <= rates[1] + 2e-4 * unit
    if small.exploitability[0] < 1e-9 * unit:  # still an equilibrium strategy
        assert best.gain[0] == pytest.approx(rates[0], abs=1e-4 * unit)
    assert best.exploitability[0] <= 2e-9 * unit
    return len(p)


@players
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.slow
def test_cfr_reaches_every_objective_within_its_gap(player: int, dtype: str) -> None:
    """Three models and six values of p, one of them near 1, in one batch."""
    tree = tree_of("kuhn_poker")
    models = [Policy.uniform(tree), Policy.geometric(tree, 0.2), Policy.dirichlet(tree, 1, 0.3)]
    asked = Opponent(models, (0, 0.1, 0.5, 0.9, 1 - 1e-6, 1))
    exact = jg.respond(tree, asked, player=player, algorithm="lp")
    found = jg.respond(
        tree, asked, player=player, solver=jg.Solver(iterations=1000, dtype=dtype), value=exact.game_value
    )
    assert found.plan is not None and found.plan.num_chunks == 1 and found.plan.lanes == 18
    missing = exact.objective - found.objective
    assert (missing >= -1e-9).all() and (missing <= found.gap + 1e-9).all()
    assert found.gap.max() < 1e-3 and exact.gap.max() < 1e-9
    bounded = asked_p(found) < 1
    assert (found.exploitability <= found.exploitability_bound + 1e-9)[bounded].all()
    assert np.isnan(found.exploitability_bound[~bounded]).all()


def asked_p(found: Responses) -> Array:
    return found.opponents.p


@players
def test_next_to_one_the_free_opponent_still_counts(player: int) -> None:
    """A best response errs where the model never plays; at p = 1 − 1e-6 the response does not."""
    tree, root = kuhn()
    bets = Policy.from_function(tree, lambda p, i, k: [0.0, 1.0], "bets")
    p = 1 - 1e-6
    for dtype, within in (("float64", 1e-3), ("float32", 1e-3)):
        near = jg.respond(
            tree, Opponent(bets, p), player=player, solver=jg.Solver(iterations=2000, dtype=dtype)
        )
        exact = opponents.objective(root, player, strategy(bets), p)
        assert near.objective == pytest.approx(exact, abs=1e-6)
        limit = jg.respond(tree, Opponent(bets, 0.999), player=player, algorithm="lp")
        assert near.exploitability == pytest.approx(limit.exploitability, abs=within)


@pytest.mark.parametrize(("player", "algorithm"), [(0, "cfr+"), (1, "lp")])
def test_a_locked_opponent_is_a_constant_or_a_floor(player: int, algorithm: str) -> None:
    """At p = 1 both methods are best responses, however the opponent is fixed."""
    for shape in SHAPES if algorithm == "lp" else ["bids"]:  # the other by cfr+: tests/slow
        check_locked(shape, player, algorithm)


def check_locked(shape: str, player: int, algorithm: str) -> None:
    tree, _ = random_tree(shape, 0)
    asked = Opponent([Policy.dirichlet(tree, seed, 0.5) for seed in range(3)], 1)
    options = {"player": player, "algorithm": algorithm, "iterations": 500, "value": tree.payoff_bounds}
    constant, floor = (
        jg.respond(tree, asked, **settings(**options)),
        jg.data_biased_response(tree, asked, **settings(**options)),
    )
    slack = constant.gap.max() + floor.gap.max() + 1e-8
    np.testing.assert_allclose(constant.objective, floor.objective, rtol=0, atol=slack)
    np.testing.assert_allclose(constant.objective, constant.best_response_value, rtol=0, atol=slack)
    assert slack < 0.01 * tree.payoff_range
    assert np.isnan(floor.exploitability_bound).all()


def test_the_draw_at_every_infoset_is_another_than_the_one_at_the_root() -> None:
    tree = tree_of("kuhn_poker")
    asked = Opponent(Policy.uniform(tree), 0.5)  # player 0 acts twice
    once = jg.respond(tree, asked, player=1, algorithm="lp")
    anew = jg.data_biased_response(tree, asked, player=1, algorithm="lp")
    assert anew.method == "data-biased" and once.method == "restricted-nash"
    assert abs(once.objective[0] - anew.objective[0]) > 1e-3
    # An opponent with floors is weaker than one that is free half of the time.
    assert anew.objective[0] < once.objective[0]


# Lanes


def test_lanes_are_solved_as_each_by_itself_and_compile_once() -> None:
    tree = tree_of("kuhn_poker")
    first, second = Policy.uniform(tree), Policy.dirichlet(tree, 2)
    options: dict[str, Any] = {"iterations": 50, "value": (-1.0, 1.0)}
    both = jg.respond(tree, [Opponent(first, (0.2, 0.7)), Opponent(second, 0.4)], **settings(**options))
    for lane, (policy, p) in enumerate(((first, 0.2), (first, 0.7), (second, 0.4))):
        alone = jg.respond(tree, Opponent(policy, p), **settings(**options))
        np.testing.assert_allclose(
            both.policy.probabilities[0][:, lane], alone.policy.probabilities[0][:, 0], rtol=0, atol=1e-12
        )
        assert both.objective[lane] == pytest.approx(alone.objective[0], abs=1e-12)
    again = jg.respond(tree, [Opponent(second, (0.9, 0.9 + 1e-9)), Opponent(first, 0)], **settings(**options))
    assert again.seconds["compile"] == 0
    assert again.policy.labels == ("rnr:0.9:dirichlet:2", "rnr:0.900000001:dirichlet:2", "rnr:0:uniform")
    assert both.policy.labels == ("rnr:0.2:uniform", "rnr:0.7:uniform", "rnr:0.4:dirichlet:2")
    np.testing.assert_array_equal(
        both.policy.probabilities[1], both.opponents.policy.probabilities[1], "the model's half stays"
    )


def test_a_checkpoint_resumes_with_other_chunks(tmp_path: pathlib.Path) -> None:
    tree = tree_of("kuhn_poker")
    asked = Opponent([Policy.dirichlet(tree, seed) for seed in range(20)], (0.3, 0.9))
    options: dict[str, Any] = {"iterations": 40, "value": (-1.0, 1.0)}
    whole = jg.respond(tree, asked, **settings(**options))
    kept = options | {"checkpoint": tmp_path / "kept"}
    jg.respond(tree, asked, **settings(**kept | {"iterations": 15}))
    begun = len(list(tmp_path.rglob("restricted-nash-player0*.npz")))
    assert whole.plan is not None and begun == whole.plan.num_chunks
    again = jg.respond(tree, asked, **settings(**kept))
    np.testing.assert_array_equal(whole.objective, again.objective)
    # Other players and methods are tested in separate files.
    jg.respond(tree, asked, player=1, **settings(**kept))
    jg.data_biased_response(tree, asked, **settings(**kept))
    jg.best_nash(tree, [Policy.uniform(tree)], **settings(algorithm="cfr+", **kept))
    assert len(list(tmp_path.rglob("*.npz"))) == 3 * begun + 1
    with pytest.raises(ValueError, match="of another"):
        jg.respond(tree, Opponent(Policy.uniform(tree), 0.5), **settings(**kept))


def test_opponents_without_a_model_are_adaptive() -> None:
    tree = tree_of("kuhn_poker")
    found = jg.respond(tree, [Opponent(), Opponent(Policy.uniform(tree), 0.0)], algorithm="lp")
    assert found.table["model"].tolist() == [None, "uniform"]
    assert np.isnan(found.gain[0]) and np.isfinite(found.gain[1])
    np.testing.assert_allclose(found.exploitability_bound, 0, atol=1e-9)
    np.testing.assert_allclose(found.objective, -1 / 18, atol=1e-9)
    listed = list_opponents(Opponent(Policy.uniform(tree), 0.5), tree)
    assert isinstance(listed, Opponents)
    assert jg.respond(tree, listed, algorithm="lp").gain == pytest.approx(4 / 9, abs=1e-9)


def test_best_nash_by_cfr_keeps_its_promise() -> None:
    """Exploitability is at most tolerance + gap / (1−p), gain at least the best equilibrium's − gap / p."""
    tree = tree_of("kuhn_poker")
    models = [Policy.uniform(tree), Policy.dirichlet(tree, 3), jg.solve(tree, algorithm="lp").policy]
    exact = jg.best_nash(tree, models)
    for tolerance in (0.1, 0.01):
        found = jg.best_nash(
            tree, models, algorithm="pcfr+", tolerance=tolerance, iterations=1000, value=exact.game_value
        )
        p = found.opponents.p
        assert (p * found.best_response_gain / (1 - p) <= tolerance + 1e-9).all() and (p > 0).all()
        assert (found.exploitability <= tolerance + found.gap / (1 - p)).all()
        assert (found.gain >= exact.gain - found.gap / p - 1e-9).all()
    assert p[2] == 0.5  # nothing can be gained against an equilibrium strategy
    assert (found.gain - exact.gain <= 0.02).all()


def test_failures() -> None:
    tree = tree_of("kuhn_poker")
    value = (-1 / 18, -1 / 18)
    failed = jg.respond(
        tree,
        Opponent(Policy.uniform(tree), (0.5, 1)),
        solver=jg.Solver(algorithm="lp", time_limit=1e-9),
        value=value,
    )
    assert sorted(failed.failures) == [0, 1] and "to 'uniform' with p = 0.5" in failed.failures[0]
    assert "not solved in time" in failed.table["failure"][0]
    assert np.isnan(failed.gain).all() and np.isnan(failed.exploitability_bound).all()
    np.testing.assert_array_equal(failed.policy.probabilities[0], failed.opponents.policy.probabilities[0])


def test_a_floor_too_small_for_the_solver_is_its_lane_s_failure_alone() -> None:
    tree = tree_of("kuhn_poker")
    to = Opponent(Policy.uniform(tree), (1e-12, 0.5))
    found = jg.data_biased_response(tree, to, algorithm="lp")
    assert list(found.failures) == [0] and "p × the model's probability" in found.failures[0]
    assert np.isnan(found.objective[0]) and found.gap[1] < 1e-8


def test_linear_programs_take_no_iterations() -> None:
    tree = tree_of("kuhn_poker")
    found = jg.best_nash(tree, Policy.uniform(tree), tolerance=0.1)
    assert found.gap[0] == pytest.approx(0.1) and "increase iterations" not in found.message


def test_a_value_that_no_strategy_guarantees_is_named_in_the_failure() -> None:
    tree = tree_of("kuhn_poker")
    found = jg.best_nash(tree, Policy.uniform(tree), value=(0, 0.1))
    assert "the lower end of value=(0, 0.1)" in found.failures[0]


BAD: list[tuple[Any, str]] = [
    (lambda t, u: jg.best_nash(t, [Opponent(u, 0.5)]), "a best equilibrium has no p"),
    (lambda t, u: jg.respond(t, Opponent("uniformly", 0.5)), "model 'uniformly' is unknown"),
    (
        lambda t, u: jg.respond(t, Opponent(u, 0.5), solver=jg.Solver(memory_limit=10)),
        "memory_limit, or dtype='float32'$",
    ),
    (lambda t, u: jg.refine_both(t, "depth:1", u, opponent={0: 1}), "expected one Opponent for both"),
    (lambda t, u: jg.respond(t, u), "expected Opponent"),
    (lambda t, u: jg.respond(t, []), "expected Opponent"),
    (lambda t, u: jg.respond(t, Opponent(u, 0.5), player=2), "player=2: expected 0 or 1"),
    (lambda t, u: jg.respond(t, Opponent(u, 0.5), value=(1, 0)), "value="),
    (lambda t, u: jg.respond(t, Opponent(u, 0.5), iterations=0), "iterations=0"),
    (lambda t, u: jg.respond(t, Opponent(u, 0.5), algorithm="nosuch"), "nosuch"),
    (
        lambda t, u: jg.respond(t, Opponent(u, 0.5), solver=jg.Solver(algorithm="lp", target_gap=1)),
        "cannot be combined with algorithm='lp'",
    ),
    (lambda t, u: jg.respond("kuhn_poker", Opponent(u, 0.5)), "tree"),
    (lambda t, u: jg.respond(t, Opponent(foreign(), 0.5)), "not for 'kuhn_poker'"),
    (lambda t, u: jg.respond(t, list_opponents(Opponent(foreign(), 0.5), foreign().tree)), "not for"),
    (lambda t, u: jg.best_nash(t, Opponent(u, 0.5)), "expected policies; a best equilibrium has no p"),
    (lambda t, u: jg.best_nash(t, []), "no policies"),
    (lambda t, u: jg.best_nash(t, u, tolerance=0), "tolerance=0: expected a positive number"),
    (lambda t, u: jg.best_nash(t, foreign()), "not for 'kuhn_poker'"),
    (lambda t, u: jg.best_nash(t, with_nan(u)), "is not a distribution"),
    (lambda t, u: jg.data_biased_response(t, u), "expected Opponent"),
]


def test_bad_input_is_named() -> None:
    tree = tree_of("kuhn_poker")
    for ask, told in BAD:
        with pytest.raises(ValueError, match=told):
            ask(tree, Policy.uniform(tree))


def foreign() -> Policy:
    return Policy.uniform(tree_of("coin_game"))


def with_nan(policy: Policy) -> Policy:
    return Policy(policy.tree, (policy.probabilities[0], policy.probabilities[1] * np.nan), ("nan",))


def test_bounds_hold_for_every_value_in_the_bracket():
    """`refine` and `respond` both include half of the width of the bracket of the game's value."""
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    exact = jg.solve(tree, algorithm="lp").value
    wide = (exact - 0.02, exact + 0.04)
    blueprint = jg.Policy.uniform(tree)
    gadget = jg.Resolving(jg.NoPrior())
    found, narrow = (
        jg.refine(tree, "depth:1", blueprint, gadget, player=1, algorithm="lp", value=value)
        for value in (wide, (exact, exact))
    )
    assert (narrow.refined_exploitability <= narrow.exploitability_bound + 1e-9).all()
    assert found.exploitability_bound - found.blueprint_exploitability == pytest.approx(
        narrow.exploitability_bound - narrow.blueprint_exploitability + 0.03, abs=1e-9
    )
    responses = jg.respond(tree, jg.Opponent(), player=1, algorithm="lp", value=wide)
    assert responses.exploitability_bound == pytest.approx(responses.gap + 0.03, abs=1e-9)
