"""Solutions of whole games: OpenSpiel's iterates, precision, stopping, checkpoints, errors."""

import dataclasses

import jax
import numpy as np
import pytest

from jaxgadget import Solver, cfr_checkpoints, evaluate_policy, load, nash_conv, solve
from jaxgadget.core import registry
from jaxgadget.core.regret import RegretMatching, find_rule
from jaxgadget.tree.history import enumerate_game
from tests.reference import cfr, efg
from tests.solving import settings

RULES = {name: find_rule(name) for name in registry.RULES}

KUHN_VALUE = -1 / 18


def assert_same_rows(first, second, atol=0.0):
    for a, b in zip(first.probabilities, second.probabilities, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=atol)


# Iterates


@pytest.mark.parametrize("algorithm", ["cfr", "cfr+"])
@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_poker"])
def test_averages_are_openspiels(request, name, algorithm):
    pyspiel = pytest.importorskip("pyspiel")
    tree = request.getfixturevalue(name.removesuffix("_poker"))
    counts = (1, 2, 10)
    ours = cfr_checkpoints(tree, counts, algorithm=algorithm)
    assert ours.labels == tuple(f"{algorithm}:{count}" for count in counts)
    solver = {"cfr": pyspiel.CFRSolver, "cfr+": pyspiel.CFRPlusSolver}[algorithm](pyspiel.load_game(name))
    done = 0
    for lane, count in enumerate(counts):
        for _ in range(count - done):
            solver.evaluate_and_update_policy()
        done = count
        theirs = solver.tabular_average_policy().policy_table()
        names = [infostate for names in tree.infoset_names for infostate in names]
        assert sorted(names) == sorted(theirs)
        for infostate in names:
            expected = dict(theirs[infostate])
            assert ours.action_probabilities(infostate, lane) == pytest.approx(expected, rel=0, abs=1e-12)
    assert_same_rows(solve(tree, algorithm=algorithm, iterations=10).policy, ours.lane(2), 1e-15)


def test_a_user_defined_rule(kuhn):
    rule = RegretMatching(name="cubic", plus=True, averaging=3.0)
    found = solve(kuhn, algorithm=rule, iterations=100)
    assert (found.algorithm, found.policy.labels) == ("cubic", ("cubic:100",))
    assert 0 < found.nash_conv < 0.03
    named = solve(kuhn, algorithm=dataclasses.replace(rule, averaging=1.0), iterations=7)
    assert_same_rows(named.policy, solve(kuhn, algorithm="cfr+", iterations=7).policy)


def test_checkpoints_follow_the_counts(kuhn):
    found = cfr_checkpoints(kuhn, [10, 1, 10])
    assert found.labels == ("cfr:10", "cfr:1", "cfr:10")
    assert_same_rows(found.lane(0), found.lane(2))
    assert np.abs(found.probabilities[0][:, 0] - found.probabilities[0][:, 1]).max() > 0.1


# Reported numbers


def test_solutions_carry_their_certificate(kuhn):
    found = solve(kuhn, iterations=50)
    values = evaluate_policy(found.policy)
    assert found.value == values.value[0]
    assert list(found.best_response_values) == values.best_response_values[:, 0].tolist()
    assert found.nash_conv == sum(found.best_response_values) == nash_conv(found.policy)[0]
    assert (found.algorithm, found.iterations, found.policy.labels) == ("cfr+", 50, ("cfr+:50",))
    assert set(found.seconds) == {"build", "compile", "run"} and min(found.seconds.values()) >= 0
    first, second = found.best_response_values
    assert -first <= KUHN_VALUE <= second
    (row,) = found.table.to_dict("records")
    assert (row["game"], row["nash_conv"], row["game_value_high"]) == ("kuhn_poker", found.nash_conv, second)


def test_a_constant_is_removed_and_reported(tmp_path):
    """Matching pennies with a shared payoff of 6: the same solution as without it."""
    path = tmp_path / "constant.efg"
    path.write_text(
        'EFG 2 R "pennies" { "A" "B" }\np "" 1 1 "" { "h" "t" } 0\n'
        'p "" 2 1 "" { "h" "t" } 0 t "" 1 "" { 6 0 } t "" 2 "" { 2 4 }\n'
        'p "" 2 1 "" { "h" "t" } 0 t "" 2 t "" 3 "" { 3 3 }\n',
        encoding="utf-8",
    )
    tree = enumerate_game(load(path))
    found = solve(tree, iterations=2000)
    assert tree.constant == 6
    # Payoffs less 3 are [[3, -1], [-1, 0]]: both play h with probability 1/5, and the value is -1/5.
    assert found.nash_conv == pytest.approx(0, abs=0.01)
    assert found.value == pytest.approx(-0.2, abs=0.01)
    for infostate in ("0:1", "1:1"):
        assert found.policy.action_probabilities(infostate)[0] == pytest.approx(0.2, abs=0.02)


# Precision


def test_both_precisions_and_jaxs_flag_stays_off(kuhn):
    assert not jax.config.jax_enable_x64
    double = solve(kuhn, solver=Solver(iterations=20, dtype="float64"))
    assert not jax.config.jax_enable_x64
    single = solve(kuhn, solver=Solver(iterations=20, dtype=np.float32))
    assert not jax.config.jax_enable_x64
    assert jax.numpy.asarray(np.ones(1)).dtype == np.float32
    for found in (single, double):
        assert all(rows.dtype == np.float64 for rows in found.policy.probabilities)
        for player, rows in enumerate(found.policy.probabilities):  # certificates are of proper strategies
            totals = np.add.reduceat(rows[:, 0], kuhn.infosets[player].first_sequence - 1)
            np.testing.assert_allclose(totals, 1, atol=1e-15)
    difference = max(
        np.abs(a - b).max()
        for a, b in zip(single.policy.probabilities, double.policy.probabilities, strict=True)
    )
    assert 1e-12 < difference < 1e-5  # in another precision, and nearly equal
    exact = cfr.final(efg.from_tree(kuhn).root, "cfr+", 20).average
    for player in (0, 1):
        rows = efg.to_sequences(kuhn, exact, player)[1:]
        np.testing.assert_allclose(double.policy.probabilities[player][:, 0], rows, rtol=0, atol=1e-12)


# Stopping


def test_a_target_gap_stops_at_the_first_look_that_sees_it(kuhn):
    every = 10
    looks = range(every, 200, every)
    gaps = nash_conv(cfr_checkpoints(kuhn, list(looks), algorithm="cfr+"))
    target = 0.02
    first = next(count for count, gap in zip(looks, gaps, strict=True) if gap <= target)
    assert every < first < 200
    found = solve(kuhn, solver=Solver(iterations=10_000, target_gap=target, check_every=every))
    assert (found.iterations, found.policy.labels) == (first, (f"cfr+:{first}",))
    assert found.nash_conv <= target + 1e-12
    assert_same_rows(found.policy, solve(kuhn, iterations=first).policy, 1e-12)


# Checkpoints


@pytest.mark.parametrize("target", [None, 1e-9])
def test_a_resumed_solve_is_the_same_to_the_last_bit(kuhn, tmp_path, target):
    file = tmp_path / "kuhn.npz"
    options = {"target_gap": target, "check_every": 5}
    whole = solve(kuhn, **settings(iterations=30, **options))
    for iterations in (10, 20, 30):
        part = solve(kuhn, **settings(iterations=iterations, checkpoint=file, **options))
        assert part.iterations == iterations
        assert [entry.name for entry in tmp_path.iterdir()] == ["kuhn.npz"]
    assert_same_rows(part.policy, whole.policy)
    again = solve(kuhn, **settings(iterations=30, checkpoint=str(file), **options))  # no iteration is left
    assert_same_rows(again.policy, whole.policy)


def test_a_checkpoint_belongs_to_its_solve(kuhn, tmp_path):
    file = tmp_path / "kuhn.npz"
    solve(kuhn, solver=Solver(iterations=3, checkpoint=file))
    before = file.read_bytes()
    forfeit = enumerate_game(load("matching_pennies_forfeit"))
    others = [
        (kuhn, {"algorithm": "cfr"}),
        (kuhn, {"algorithm": RegretMatching(name="cfr+", plus=True, averaging=2.0)}),
        (kuhn, {"dtype": "float32"}),
        (forfeit, {}),
        (enumerate_game(load("openspiel:misere(game=kuhn_poker())")), {}),  # only payoffs differ
    ]
    for tree, options in others:
        with pytest.raises(ValueError, match="checkpoint"):
            solve(tree, **settings(iterations=5, checkpoint=file, **options))
    assert file.read_bytes() == before
    assert (
        solve(enumerate_game(load("kuhn_poker")), solver=Solver(iterations=5, checkpoint=file)).iterations
        == 5
    )


# Errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "cfr++"}, "algorithm="),
        ({"iterations": -5}, "iterations="),
        ({"dtype": "float16"}, "dtype="),
        ({"target_gap": float("nan")}, "target_gap="),
        ({"check_every": 2.5, "target_gap": 0.1}, "check_every="),
    ],
)
def test_bad_arguments_are_refused(kuhn, options, message):
    with pytest.raises(ValueError, match=message):
        solve(kuhn, **settings(**options))


# Progress
