"""Solved spots compared with definitions, linear programs and published figures; units, independence."""

import contextlib
import dataclasses
import os
import pathlib
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgadget.core import driver
from jaxgadget.core.cfr import run, start
from jaxgadget.core.devices import AbstractDevice, Placement, assume_device
from jaxgadget.core.memory import loop_size, problem_shape
from jaxgadget.core.regret import find_rule
from jaxgadget.core.solver import Solver
from jaxgadget.games.sizes import ALL_IN
from jaxgadget.holdem import checkpoint, solve
from jaxgadget.holdem.betting import BetMenu
from jaxgadget.holdem.solution import SpotSolution
from jaxgadget.holdem.solve import build_batch, evaluate_spot, in_pieces, solve_batches, solve_spots
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.strategies import HeldRows, action_nodes, policy_to_rows, rows_to_policy
from jaxgadget.policy.evaluate import best_response, normalise_rows
from jaxgadget.policy.policy import Policy
from jaxgadget.policy.solve import solve as solve_game
from jaxgadget.tree.public import public_tree
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.compilation import watch_programs
from jaxgadget.util.locks import hold
from jaxgadget.util.precision import precision
from tests.holdem.enumerated import expected_chips
from tests.holdem.test_operators import BOARDS
from tests.solving import settings

NEVER = BetMenu(bets=(), raises=())
ALL = BetMenu(bets=(ALL_IN,), raises=())
SMALL = BetMenu(bets=(0.5,), raises=(1.0,), cap=2)
BLUFFS = Spot(
    board="2s3h4d6c7c", oop="AsAh,QsQh", ip="KsKh", pot=20, stack=10, menus=(ALL, NEVER)
)  # value hands, bluffs, and bluff catchers


def random_play(spot: Spot, seed: int) -> Policy:
    tree = public_tree(spot)
    rng = np.random.default_rng(seed)
    first, second = (
        normalise_rows(rng.random((infosets.num_sequences - 1, 1)), infosets.infoset[1:])
        for infosets in tree.infosets
    )
    return Policy(tree, (first, second), ("random",))


def check_against_enumeration(spot: Spot, seed: int) -> SpotSolution:
    """A profile's EVs equal those of the definitions."""
    solution = evaluate_spot(spot, random_play(spot, seed))
    rows: dict[str, Any] = {}

    def play(player: int, line: str, hand: int) -> dict[str, float]:
        if line not in rows:
            rows[line] = solution.strategy(line)
        return {action: float(row[hand]) for action, row in rows[line].items()}

    assert solution.ev == pytest.approx(expected_chips(spot, play), abs=1e-9)
    return solution


def test_evs_of_a_river_are_those_of_all_pairs_of_hands():
    spot = Spot(
        board="Td9d6hQc2s",
        oop="AsKd,QsQh:0.5,8c7c,Ts3s",
        ip="AcKh,8d7d,QdQh,6s5s:0.3",
        pot=60,
        stack=200,
        menus=SMALL,
    )
    solution = check_against_enumeration(spot, 1)
    assert sum(solution.ev) == pytest.approx(60)
    for player, ev in enumerate(solution.ev):
        held = solution.weights()[player]
        assert held @ np.nan_to_num(solution.hand_ev[player]) == pytest.approx(ev)


def test_evs_are_chips_whatever_the_pot():
    spots = [
        Spot(board="Td9d6hQc2s", oop="AK,77", ip="QJ,88", pot=p, stack=3 * p, menus=SMALL) for p in (1, 250)
    ]
    small, large = (evaluate_spot(spot, random_play(spot, 2)) for spot in spots)
    assert np.array(large.ev) == pytest.approx(250 * np.array(small.ev))
    assert large.gap == pytest.approx(250 * small.gap)
    assert large.exploitability == large.gap / 2


@pytest.mark.parametrize(
    ("folds", "evs"), [(0.25, {"AsAh": 27.5, "KsKh": 6.25}), (0.5, {"AsAh": 25, "QsQh": 5, "KsKh": 5})]
)
def test_a_best_response_to_a_hand_that_folds_so_often(folds: float, evs: dict[str, float]):
    tree = public_tree(BLUFFS)
    first, rows = policy_to_rows(Policy.uniform(tree))
    for row, node in enumerate(action_nodes(tree.nodes, 1).tolist()):
        rows[row] = {"fold": folds, "call": 1 - folds, "check": 1.0}[BLUFFS.betting.action_name(node)]
    fixed = rows_to_policy(tree, (first, rows), "folds")
    solution = evaluate_spot(BLUFFS, best_response(fixed, 0).policy)
    place = {name: hand for hand, name in enumerate(BLUFFS.hand_names)}
    for name, ev in evs.items():
        player = 1 if name == "KsKh" else 0
        assert solution.hand_ev[player][place[name]] == pytest.approx(ev, abs=1e-9)


@pytest.fixture(scope="module")
def bluffs() -> SpotSolution:
    (solution,) = solve_spots(
        [BLUFFS], solver=Solver(algorithm="cfr+", iterations=5000, target_gap="0.1%", dtype="float64")
    )
    return solution


def test_bluffs_and_calls_of_a_river_are_those_of_theory(bluffs: SpotSolution):
    place = {name: hand for hand, name in enumerate(BLUFFS.hand_names)}
    bets = bluffs.strategy()["all-in 10"]
    assert bets[place["AsAh"]] == pytest.approx(1, abs=0.01)
    assert bets[place["QsQh"]] == pytest.approx(1 / 3, abs=0.01)
    assert bluffs.strategy("all-in 10")["call"][place["KsKh"]] == pytest.approx(2 / 3, abs=0.01)
    assert bluffs.frequencies()["all-in 10"] == pytest.approx(2 / 3, abs=0.01)
    assert bluffs.equity[1][place["KsKh"]] == 0.5


def test_values_are_those_of_linear_programs():
    ranges = {"oop": "AA,T9s,54s:0.4", "ip": "KK,QJs,87s:0.7"}
    spot = Spot(board="Td9d6hQc2s", pot=100, stack=150, menus=SMALL, **ranges)
    exact = solve_game(public_tree(spot.by_hands(in_range=True)), algorithm="lp")
    (solution,) = solve_spots([spot], iterations=300)
    assert abs(solution.ev[0] - 50 - exact.value) <= solution.gap + 1e-6
    assert solution.gap < 0.5


NARROW = [
    Spot(board="Td9d6hQc2s", oop="66+,A8s+,KQo", ip="QQ-22,ATo+,K5s+,J8s+", pot=200, stack=900, menus=SMALL),
    Spot(board="AsKd5d5c2h", oop="66+,A8s+", ip="AA,KsQs", pot=100, stack=900, menus=SMALL),
]


def hands_of_batches(monkeypatch: pytest.MonkeyPatch, *, all_of_them: bool = False) -> list[int]:
    """Numbers of hands of every batch that is solved from now on.

    Spots are also built alone, to plan memory and split batches; these are not counted.
    """
    carried_hands, solve_batch = solve.carried_hands, solve.solve_batch
    seen, solved = list[int](), list[int]()

    def count(spots: Any) -> Any:
        hands = None if all_of_them else carried_hands(spots)
        seen.append(len(spots[0].hands) if hands is None else hands.shape[1])
        return hands

    def solve_counted(*args: Any, **settings: Any) -> Any:
        solved.append(seen[-1])
        return solve_batch(*args, **settings)

    monkeypatch.setattr(solve, "carried_hands", count)
    monkeypatch.setattr(solve, "solve_batch", solve_counted)
    return solved


@pytest.mark.slow
def test_impossible_hands_are_not_carried(monkeypatch: pytest.MonkeyPatch):
    """Results equal those with all hands; a spot with fewer hands than its neighbour is padded."""
    few, solving = hands_of_batches(monkeypatch), {"iterations": 10, "dtype": "float64"}
    narrow = solve_spots(NARROW, **settings(**solving))
    every = hands_of_batches(monkeypatch, all_of_them=True)
    wide = solve_spots(NARROW, **settings(**solving))
    assert few[0] < 400 < every[0] == 1081
    for spot, one, other in zip(NARROW, narrow, wide, strict=True):
        assert one.ev == pytest.approx(other.ev, rel=0, abs=1e-12 * spot.pot)
        assert one.gap == pytest.approx(other.gap, rel=0, abs=1e-12 * spot.pot)
        for player in (0, 1):
            held = spot.dealt[player] > 0
            ours, theirs = one.probabilities[player], other.probabilities[player]
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours[:, held], theirs[:, held], rtol=0, atol=1e-12)
            evs = one.hand_ev[player][held], other.hand_ev[player][held]
            np.testing.assert_allclose(*evs, rtol=0, atol=1e-11 * spot.pot)
            assert np.isnan(one.hand_ev[player][~held]).all()
        assert evaluate_spot(spot, one.policy).gap == pytest.approx(one.gap, abs=1e-9)


def batches_built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of spots in every batch that is built from now on."""
    built, sizes = solve.build_batch, list[int]()

    def count(spots: Any, *rest: Any) -> Any:
        sizes.append(len(spots))
        return built(spots, *rest)

    monkeypatch.setattr(solve, "build_batch", count)
    return sizes


def test_batches_are_as_large_as_the_memory_allows(monkeypatch: pytest.MonkeyPatch):
    spots = [BLUFFS, dataclasses.replace(BLUFFS, pot=22, board="2s3h4d6c8c")]
    solving: dict[str, Any] = {"iterations": 12, "dtype": "float64"}
    sizes = batches_built(monkeypatch)
    at_once = solve_spots(spots, **settings(**solving))
    limited = solve_spots(spots, **settings(memory_limit=700_000, **solving))
    assert sizes == [1, 2, 1, 1, 1]  # each spot was built alone once
    for ours, theirs in zip(limited, at_once, strict=True):
        assert ours.ev == pytest.approx(theirs.ev, rel=0, abs=1e-10)
    with pytest.raises(ValueError, match="spots"):
        solve_spots(spots, **settings(memory_limit=100_000, **solving))


def test_batches_have_equal_sizes():
    """They share programs, and each device has as many of them."""
    assert [len(piece) for piece in in_pieces(range(9), 4, devices=1)] == [3, 3, 3]
    assert [len(piece) for piece in in_pieces(range(12), 4, devices=2)] == [3, 3, 3, 3]


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="temporaries of a small loop are larger on a GPU")
def test_planned_memory_is_that_of_the_compiled_loop():
    spots = [Spot(board=board, oop="random", ip="random", pot=1, stack=9, menus=SMALL) for board in BOARDS]
    batch = build_batch(spots, sequence_form(public_tree(spots[0])))
    problem, rule = problem_shape(batch, len(spots), np.float32), find_rule("dcfr")
    with precision(np.float32):
        state, last = start.eval_shape(problem, rule), jax.ShapeDtypeStruct((), np.int32)
        found = run.lower(problem, state, last, rule=rule).compile().memory_analysis()
    sizes = found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes
    taken = sizes - found.alias_size_in_bytes
    assert taken / 1.3 <= loop_size(problem).total(len(spots)) <= 1.3 * taken


def test_spots_of_a_checkpoint_are_not_solved_again(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path):
    """Solved spots are found by content, in any order; an interrupted batch resumes."""
    first, second = BLUFFS, dataclasses.replace(BLUFFS, pot=22, board="2s3h4d6c8c")
    solving: dict[str, Any] = {"iterations": 12, "dtype": "float64"}
    undisturbed = solve_spots([first, second], **settings(**solving))
    assert solve_spots([first], **settings(checkpoint=tmp_path, **solving))[0].ev == undisturbed[0].ev
    save, stopped, sizes = driver.save_checkpoint, list[int](), batches_built(monkeypatch)

    def cut_off(path: pathlib.Path, key: str, state: Any, **more: Any) -> None:
        save(path, key, state, **more)
        if not stopped:
            stopped.append(int(state.iteration))
            raise KeyboardInterrupt

    monkeypatch.setattr(driver, "CHECKPOINT_SECONDS", -1.0)
    monkeypatch.setattr(driver, "save_checkpoint", cut_off)
    with pytest.raises(KeyboardInterrupt):
        solve_spots([second, first], **settings(checkpoint=tmp_path, **solving))
    begun: list[int] = []
    load = driver.load_checkpoint
    monkeypatch.setattr(
        driver,
        "load_checkpoint",
        lambda *given: begun.append(int((state := load(*given)).iteration)) or state,  # pyright: ignore
    )
    told: list[dict[int, SpotSolution]] = []
    found = solve_spots([second, first], on_solved=told.append, **settings(checkpoint=tmp_path, **solving))
    assert sizes == [1, 1] and stopped == begun and 0 < begun[0] < 12
    assert [list(numbers) for numbers in told] == [[1], [0]]
    for ours, theirs in zip(found, reversed(undisturbed), strict=True):
        assert ours.to_row() == theirs.to_row()
        assert repr(ours.policy) == repr(theirs.policy)
        for mine, other in zip(
            ours.hand_ev + ours.probabilities, theirs.hand_ev + theirs.probabilities, strict=True
        ):
            np.testing.assert_array_equal(mine, other)
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert len(kept) == 2 and all(name.endswith(".npz") for name in kept)
    (tmp_path / kept[0]).write_bytes(b"PK damaged")
    with pytest.raises(ValueError, match=r"npz' is damaged: .*; delete this file to solve its spots"):
        solve_spots([first], **settings(checkpoint=tmp_path, **solving))


def test_an_accelerator_prepares_a_batch_while_it_solves_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two batches are under way, one of which is solved at a time; solutions are the same."""
    spots = [dataclasses.replace(BLUFFS, board=board) for board in ("2s3h4d6c7c", "2s3h4d6c8c", "2s3h5d6c8c")]
    few = Solver(iterations=20, dtype="float64")
    expected = solve_spots(spots, solver=few)
    solved, preparing, build = list[threading.Thread](), threading.Barrier(2), solve.build_batch
    run_all, running = driver.run_all, threading.Semaphore(1)

    def prepare(*args: Any, **more: Any) -> Any:
        if not solved:
            preparing.wait(30)  # both threads prepare their first batch at the same time
        return build(*args, **more)

    def run_alone(*args: Any) -> Any:
        assert running.acquire(blocking=False)
        solved.append(threading.current_thread())
        results = run_all(*args)
        running.release()
        return results

    monkeypatch.setattr(Placement, "on_cpu", False)
    monkeypatch.setattr(solve, "most_at_once", lambda *args, **more: 1)
    monkeypatch.setattr(solve, "build_batch", prepare)
    monkeypatch.setattr(driver, "run_all", run_alone)
    found = solve_spots(spots, solver=few)
    assert len(solved) == 3 and len(set(solved)) == 2
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.ev, other.ev, atol=1e-9)


def test_a_batch_that_another_process_solves_is_refused(tmp_path: pathlib.Path):
    """Otherwise two processes would remove each other's states."""
    solve_spots([BLUFFS], solver=Solver(iterations=2, checkpoint=tmp_path))
    (archive,) = tmp_path.glob("spots-*.npz")
    archive.unlink()
    with (
        hold(tmp_path / archive.stem, "checkpoint"),
        pytest.raises(ValueError, match=rf"in use by process {os.getpid()} on .*; wait until it ends"),
    ):
        solve_spots([BLUFFS], solver=Solver(iterations=2, checkpoint=tmp_path))
    solve_spots([BLUFFS], solver=Solver(iterations=2, checkpoint=tmp_path))
    assert archive.exists()


def test_a_batch_that_another_process_has_solved_meanwhile_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
):
    """Also if that process was killed before it removed its states, which the next process does."""
    solving = Solver(iterations=2, checkpoint=tmp_path)
    before = solve_spots([BLUFFS], solver=solving)
    (archive,) = tmp_path.glob("spots-*.npz")
    archive.with_suffix(".states").mkdir()
    sizes = batches_built(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "find_spots", lambda *of: {})  # pyright: ignore
        again = solve_spots([BLUFFS], solver=solving)
    assert sizes == [] and again[0].to_row() == before[0].to_row()
    solve_spots([BLUFFS], solver=solving)
    assert list(tmp_path.iterdir()) == [archive]


def test_archives_of_a_checkpoint_are_read_one_by_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
):
    """Only requested archives are loaded, one at a time, since each may take gigabytes."""
    first, second = BLUFFS, dataclasses.replace(BLUFFS, pot=22)
    solving: dict[str, Any] = {"iterations": 2, "checkpoint": tmp_path}
    for spot in (first, second):
        solve_spots([spot], **settings(**solving))
    read: list[pathlib.Path] = []
    read_archive = checkpoint.read_archive
    monkeypatch.setattr(checkpoint, "read_archive", lambda *of: read.append(of[0]) or read_archive(*of))  # pyright: ignore
    for count, solved in enumerate(solve_batches([first, second], **settings(**solving)), 1):
        assert len(solved) == len(set(read)) / count == 1
    read.clear()
    (solved,) = solve_batches([second, second], **settings(**solving))
    assert [solution.spot.pot for solution in solved.values()] == [22, 22] and len(read) == 1


def test_it_stops_at_a_share_of_the_pot(bluffs: SpotSolution):
    assert bluffs.iterations < 5000
    assert 0 <= bluffs.gap <= 0.02


def test_lanes_taken_from_a_batch_are_those_lanes():
    given: dict[str, Any] = {"oop": "QQ+,AK", "ip": "random", "stack": 100, "menus": SMALL}
    spots = [Spot(board=board, pot=pot, **given) for board, pot in (("Td9d6hQc2s", 100), ("2c2d7h7sKs", 101))]
    batch = build_batch(spots, sequence_form(public_tree(spots[0])))
    shared, by_lane = batch.payoff.num_bytes()
    assert sum(batch.payoff.take_lanes(np.array([1])).num_bytes()) == shared + by_lane
    assert by_lane > 8 * 47 * 46 * 46 > 0 < shared
    rng = np.random.default_rng(0)
    with precision(np.float64):
        reach = [
            jnp.asarray(rng.random((treeplex.num_sequences, 2))) for treeplex in (s.body for s in batch.sides)
        ]
        few = batch.problem(np.array([1])).payoff
        gradient = jax.jit(lambda payoff, *reach: payoff.gradient(1, reach, None)[0])
        together, alone = gradient(batch.payoff, *reach), gradient(few, *(own[:, 1:] for own in reach))
    np.testing.assert_allclose(alone[:, 0], together[:, 1], rtol=0, atol=1e-9)


def test_responses_to_a_bet_that_is_never_made_have_weights():
    """Weights are those of the other player's whole range, and of the player's own if it never gets there."""
    spot = Spot(board="2s3h4d6c7c", oop="AK,QQ:0.5", ip="AQ,KK", pot=20, stack=90, menus=SMALL)
    played = random_play(spot, 3)
    rows = policy_to_rows(played)[1].copy()
    for row, node in enumerate(action_nodes(spot.betting.tree, 1).tolist()):
        if spot.betting.line(node) in ("check, check", "check, bet 10"):
            rows[row] = float(spot.betting.line(node) == "check, check")
    solution = evaluate_spot(spot, played)
    never = dataclasses.replace(solution, held=(solution.held[0], HeldRows.every(rows)))
    for line, actor in (("check, bet 10", 0), ("check, bet 10, raise to 50", 1)):
        assert never.actor(line) == actor
        assert never.pairs(line) == 0
        reach = never.played(line)[0] if actor == 0 else spot.range_weights[1]  # player 1 never enters
        expected = reach * spot.compatible[actor]
        expected /= expected.sum()
        np.testing.assert_allclose(never.weights(line)[actor], expected, rtol=0, atol=1e-12)
        frame = never.to_frame(line)
        assert frame["hand"].tolist() == [spot.hand_names[hand] for hand in np.flatnonzero(reach)]
        assert frame["weight"].sum() == pytest.approx(1)
        for action, share in never.frequencies(line).items():
            assert share == pytest.approx(frame["weight"] @ frame[action])
    first, second = never.played("check")  # with positive reach, the reach determines the weights
    pairs = first * spot.compatible_with(second)
    np.testing.assert_array_equal(never.weights("check")[0], pairs / pairs.sum())


def test_a_spot_alone_is_no_list():
    with pytest.raises(ValueError, match="expected a list of spots"):
        solve_spots(BLUFFS)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("target_gap", ["0.1%", 0.02])
def test_spots_of_one_chunk_stop_as_if_alone(target_gap: float | str):
    """A target in chips is another share of every pot."""
    spots = [
        BLUFFS,
        dataclasses.replace(BLUFFS, oop="AsAh,QsQh:0.5", ip="KsKh,JsJh"),
        dataclasses.replace(BLUFFS, pot=40, stack=20, board="2s3h4d6c8c", oop="AsAh,QsQh:0.2"),
    ]
    target = Solver(algorithm="cfr+", iterations=5000, target_gap=target_gap, dtype="float64")
    together = solve_spots(spots, solver=target)
    assert len({solution.iterations for solution in together}) == 3
    for spot, found in zip(spots, together, strict=True):
        (alone,) = solve_spots([spot], solver=target)
        assert found.iterations == alone.iterations < 5000
        assert found.gap == pytest.approx(alone.gap, rel=0, abs=1e-9 * spot.pot)
        assert found.gap <= (0.001 * spot.pot if target_gap == "0.1%" else 0.02)


def test_each_spot_stops_at_its_target_and_progress_counts_its_iterations(monkeypatch: pytest.MonkeyPatch):
    """The second spot is at an equilibrium from the start: betting gains nothing."""
    told: list[tuple[int, ...]] = []

    @contextlib.contextmanager
    def spy(*arguments: Any):
        yield lambda *done: told.append(done)

    monkeypatch.setattr(checkpoint, "progress_bar", spy)
    monkeypatch.setattr(solve, "ALONE", 1)
    easy = dataclasses.replace(BLUFFS, oop="AsAh", ip="AdAc")
    target = Solver(algorithm="cfr+", iterations=5000, target_gap="0.1%")
    hard, first = solve_spots([BLUFFS, easy], solver=target)
    assert max(hard.gap, first.gap) <= 0.001 * BLUFFS.pot
    assert first.iterations < hard.iterations < 5000
    done, total, _ = told[-1]
    assert done == total < hard.iterations + first.iterations + 1
    (alone,) = solve_spots([BLUFFS], solver=target)
    assert alone.iterations == hard.iterations
    assert alone.gap == pytest.approx(hard.gap, rel=0, abs=1e-6)  # a GPU rounds differently in a batch


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"menus": BetMenu(bets=(0.4,), raises=())},
            "is of another menu: it lacks 'all-in 10' and has 'bet 8'",
        ),
        ({"menus": ALL}, "is of another menu: the same bets are allowed elsewhere"),
        ({"board": "2s3h4d6c7d"}, "has the hand .*, which 2s3h4d6c7c excludes|excludes"),
    ],
)
def test_the_difference_of_another_spot_is_named(changes: dict[str, Any], message: str):
    other = dataclasses.replace(BLUFFS, **changes)
    with pytest.raises(ValueError, match=message):
        evaluate_spot(BLUFFS, Policy.uniform(public_tree(other)))


def test_a_batch_of_different_ranges_returns_from_its_checkpoint(tmp_path: pathlib.Path):
    """An archive has as many columns as the widest range; the solutions keep their own hands."""
    solving = settings(iterations=2, checkpoint=tmp_path)
    solved, stored = solve_spots(NARROW, **solving), solve_spots(NARROW, **solving)
    assert len(list(tmp_path.glob("*.npz"))) == 1
    assert len({own.held[0].rows.shape for own in solved}) > 1
    for one, other in zip(solved, stored, strict=True):
        for player in (0, 1):
            np.testing.assert_array_equal(one.held[player].hands, other.held[player].hands)
            np.testing.assert_array_equal(one.probabilities[player], other.probabilities[player])


@pytest.mark.parametrize("changes", [{"menus": ALL}, {"board": "2s3h4d6c7d"}, {"stack": 11}])
def test_a_policy_of_another_spot_is_refused(changes: dict[str, Any]):
    """Another tree; the same tree with other hands; other chips."""
    other = dataclasses.replace(BLUFFS, **changes)
    with pytest.raises(ValueError, match="public_tree"):
        evaluate_spot(BLUFFS, Policy.uniform(public_tree(other)))
    in_range = {"oop": "random", "ip": "KK"}
    same = dataclasses.replace(BLUFFS, **in_range)
    assert evaluate_spot(same, Policy.uniform(public_tree(BLUFFS))).gap > 0


def test_a_spot_that_does_not_fit_is_refused_before_its_tree_is_built(monkeypatch):
    """The check counts its public nodes without building them, and names the largest menu that fits."""
    menus = BetMenu(bets=(0.25, 0.5, 0.75, 1.0, 1.5), raises=(0.5, 1.0, 1.5))
    turn = Spot(board="Td9d6hQc", oop="random", ip="random", pot=200, stack=2000, menus=menus)
    monkeypatch.setattr("jaxgadget.holdem.spots.build_betting", lambda *given: pytest.fail("built"))
    with pytest.raises(ValueError, match=r"spots\[0\]: Td9d6hQc takes about \S+ GB of memory") as error:
        solve_spots([turn], solver=Solver(memory_limit=4 << 30, progress=False))
    assert "4.29 GB is available; expected on the river bets 25%,50%,100%,150%" in str(error.value)


@pytest.mark.parametrize("target_gap", [None, "1%"])
def test_loops_on_a_gpu_add_in_a_fixed_order(target_gap: str | None) -> None:
    """A GPU would implement scatters by atomic additions."""
    with watch_programs() as calls, assume_device(AbstractDevice("described", 10**9)):
        solve_spots([BLUFFS], solver=Solver(iterations=2, target_gap=target_gap, progress=False))
    loops = [call for call in calls if call.program.name in ("run", "run_to_gap")]
    assert loops
    for loop in loops:
        with precision(np.float64 if loop.x64 else np.float32):
            traced = loop.program.jitted.trace(*loop.arguments, **loop.named)
            text = traced.lower(lowering_platforms=("cuda",)).as_text()
        assert "stablehlo.while" in text and "stablehlo.dot_general" in text
        assert "scatter" not in text
