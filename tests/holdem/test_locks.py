"""Node locking: values equal linear programs of explicit games in which locked decisions are chance's."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any, cast

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.games.game import ACTOR_BIT
from jaxgadget.holdem.betting import BetMenu
from jaxgadget.holdem.locks import Lock, find_locked, read_locks
from jaxgadget.holdem.solution import SpotSolution
from jaxgadget.holdem.solve import evaluate_spot, resume_spots, solve_spots
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.strategies import action_nodes
from jaxgadget.util.arrays import FloatArray
from tests.holdem.enumerated import explicit_game
from tests.holdem.test_solve import BLUFFS, random_play
from tests.holdem.test_values import RIVER
from tests.reference import efg, lp

TURN = Spot(
    board="Td9d6hQc",
    oop="AsKd,8c7c",
    ip="AcKh,5d4d",
    pot=60,
    stack=90,
    menus=BetMenu(bets=(1.0,), raises=(), cap=1),
)
LOCKS = {
    "everything after a bet": [
        Lock(line="bet 30", strategy={"fold": 0.25, "call": 0.5, "raise to 150": 0.25})
    ],
    "some hands of the first player": [
        Lock(line="", strategy={"bet 30": 1}, hands="QsQh,Ts3s"),
        Lock(line="check, bet 30", strategy={"fold": 1}, hands="AsKd"),
    ],
    "both players at one line": [
        Lock(line="check", strategy={"check": 0.1, "bet 30": 0.9}, hands="AcKh,8d7d"),
        Lock(line="check", strategy={"check": 1.0}, hands="6s5s"),
        Lock(line="check, bet 30", strategy={"fold": 0.4, "call": 0.6}),
    ],
    "an action that is never taken": [
        Lock(line="", strategy={"check": 1}),
        Lock(line="bet 30", strategy={"fold": 1}),
    ],
}


def fixed_by(spot: Spot, locks: list[Lock]) -> Any:
    """The locked strategies, read from the locks without the library."""

    def fixed(player: int, line: str, hand: int) -> dict[str, float] | None:
        words = [word for word in line.split(", ") if len(word) != 2]  # without a dealt card
        for lock in locks:
            held = None if lock.hands is None else str(lock.hands).split(",")
            if lock.line in (line, ", ".join(words)) and (held is None or spot.hand_names[hand] in held):
                return {action: float(np.asarray(p).flat[0]) for action, p in lock.strategy.items()}
        return None

    return fixed


def rows_of(solution: SpotSolution, root: efg.Node) -> dict[Any, Any]:
    """The solution's strategy at the decisions of an explicit game."""
    betting = solution.spot.betting
    return {
        (player, hand, node): np.array([p[hand] for p in solution.strategy(betting.line(node)).values()])
        for player, hand, node in map(tuple, cast("list[Any]", list(efg.infosets(root))))
    }


def check(spot: Spot, locks: list[Lock], iterations: int = 3000, small: float = 1e-4) -> SpotSolution:
    """The locked value is the linear program's, and both gaps are those of explicit best responses."""
    fixed = fixed_by(spot, locks)
    game, free = explicit_game(spot, fixed), explicit_game(spot, lambda *_: None)
    value = lp.solve(game, 0).value
    for count, most in ((2, 1.0), (iterations, small)):
        (solution,) = solve_spots([spot], locks=locks, solver=jg.Solver(iterations=count, dtype="float64"))
        for player, line, hand in ((player, line, hand) for player, hand, line in _locked(spot, fixed)):
            expected = fixed(player, line, hand)
            found = {action: float(p[hand]) for action, p in solution.strategy(line).items()}
            assert found == pytest.approx({action: expected.get(action, 0.0) for action in found}, abs=1e-12)
        assert solution.gap == pytest.approx(efg.nash_conv(game, rows_of(solution, game)), abs=1e-9)
        rows = rows_of(solution, free)
        assert solution.unlocked_gap == pytest.approx(efg.nash_conv(free, rows), abs=1e-9)
        for player, (gain, ev) in enumerate(zip(solution.unlocked_gains, solution.ev, strict=True)):
            best = efg.best_response_value(free, player, rows)
            assert gain == pytest.approx(best - (ev - spot.pot / 2), abs=1e-9)
        assert abs(solution.ev[0] - spot.pot / 2 - value) <= solution.gap + 1e-9
        assert solution.gap < most * spot.pot
    return solution


def _locked(spot: Spot, fixed: Any) -> list[tuple[int, int, str]]:
    betting = spot.betting
    return [
        (player, hand, line)
        for node in range(len(betting.tree))
        if (player := int(betting.tree.actor[node]) - 1) in (0, 1)
        for line in [betting.line(node)]
        for hand in np.flatnonzero(spot.range_weights[player]).tolist()
        if fixed(player, line, hand) is not None
    ]


@pytest.mark.parametrize("name", LOCKS)
def test_a_locked_river_has_the_value_of_a_linear_program(name: str):
    solution = check(RIVER, LOCKS[name])
    assert solution.unlocked_gap > solution.gap + 0.1, "a lock that costs nothing tests little"
    assert f"{len(LOCKS[name])} lock(s), {solution.unlocked_exploitability:.3g} without" in repr(solution)


@pytest.mark.parametrize("seed", range(3))
def test_random_locks_have_the_value_of_a_linear_program(seed: int):
    """Any hands at any nodes, of both players, some of them never reached."""
    rng, locks, betting = np.random.default_rng(seed), list[Lock](), RIVER.betting
    for node in np.flatnonzero(np.isin(betting.tree.actor, ACTOR_BIT)).tolist():
        line, actions = betting.line(node), [betting.action_name(child) for child in betting.children(node)]
        for hand in np.flatnonzero(RIVER.range_weights[betting.actor(line)]).tolist():
            if rng.random() < 0.4:
                row = rng.dirichlet(np.full(len(actions), 0.5)).round(3)
                row[0] += 1 - row.sum()
                strategy = dict(zip(actions, np.maximum(row, 0).tolist(), strict=True))
                locks.append(Lock(line=line, strategy=strategy, hands=RIVER.hand_names[hand]))
    assert len(locks) > 5
    check(RIVER, locks)


def test_a_lock_without_a_card_is_for_every_river():
    locks = [
        Lock(line="check, check", strategy={"check": 1}, hands="AsKd"),
        Lock(line="check, check, 2s", strategy={"bet 60": 1}, hands="8c7c"),
        Lock(line="check, check, check", strategy={"check": 0.5, "bet 60": 0.5}),
    ]
    locked = find_locked(TURN, locks)
    assert locked is not None
    first, second = (TURN.hand_names.index(name) for name in ("AsKd", "8c7c"))
    betting = TURN.betting

    def floors(player: int, line: str) -> dict[str, FloatArray]:
        rows, nodes = locked.floors(TURN, player), action_nodes(betting.tree, player)
        children = betting.children(betting.find(line))
        return {betting.action_name(child): rows[np.searchsorted(nodes, child)] for child in children}

    for card in ("2s", "Ah", "8d"):
        start, reply = floors(0, f"check, check, {card}"), floors(1, f"check, check, {card}, check")
        assert start["check"][first] == 1 and start["bet 60"][first] == 0
        assert start["bet 60"][second] == float(card == "2s") and start["check"][second] == 0
        assert (reply["check"] == 0.5).all() and (reply["bet 60"] == 0.5).all()
    assert sum(row.sum() for row in floors(0, "bet 60, call, 2s").values()) == 0


def test_hands_with_the_card_of_a_line_cannot_be_locked():
    lock = Lock(line="check, check, As", strategy={"check": 1}, hands="AsKd")
    with pytest.raises(ValueError, match="hands='AsKd': none is left on 'Td9d6hQcAs'"):
        find_locked(TURN, [lock])


def test_spots_are_locked_one_by_one_or_all_alike():
    """A batch has locked spots and free ones, each with the result that it has alone."""
    spots = [RIVER, dataclasses.replace(RIVER, pot=80), dataclasses.replace(RIVER, pot=70)]
    own = [LOCKS["everything after a bet"], [], [Lock(line="bet 35", strategy={"call": 1})]]
    solver = jg.Solver(iterations=20, dtype="float64")
    together = solve_spots(spots, locks=own, solver=solver)
    for spot, locks, solution in zip(spots, own, together, strict=True):
        (alone,) = solve_spots([spot], locks=locks, solver=solver)
        assert solution.ev == pytest.approx(alone.ev, abs=1e-9)
        assert solution.gap == pytest.approx(alone.gap, abs=1e-9)
        assert list(solution.locks) == locks
        assert (solution.unlocked_gap == solution.gap) == (not locks)
    alike = solve_spots([RIVER, RIVER], locks=own[0], solver=solver)
    assert [solution.ev for solution in alike] == [pytest.approx(together[0].ev, abs=1e-9)] * 2


def test_a_whole_strategy_is_locked_and_answered():
    """The answer to a locked strategy is a best response: its EV is that of the exact one."""
    played = evaluate_spot(RIVER, random_play(RIVER, 4))
    (answer,) = solve_spots(
        [RIVER], locks=played.locks_of(1), solver=jg.Solver(iterations=2000, dtype="float64")
    )
    response = jg.best_response(played.policy, 0)
    assert answer.ev[0] - RIVER.pot / 2 == pytest.approx(response.value, abs=answer.gap + 1e-9)
    assert answer.gap < 1e-6 * RIVER.pot
    for line in ("check", "bet 30"):
        for action, row in answer.strategy(line).items():
            held = RIVER.range_weights[1] > 0
            np.testing.assert_allclose(row[held], played.strategy(line)[action][held], rtol=0, atol=1e-12)
    below = played.locks_of(1, "bet 30")
    assert [lock.line for lock in below] == ["bet 30"]


def test_locks_in_float32_are_played_exactly():
    (solution,) = solve_spots([RIVER], locks=LOCKS["both players at one line"], iterations=300)
    hand = RIVER.hand_names.index("AcKh")
    assert {action: p[hand] for action, p in solution.strategy("check").items()} == pytest.approx(
        {"check": 0.1, "bet 30": 0.9}, abs=1e-12
    )
    assert solution.gap < 0.01 * RIVER.pot


def test_locked_solutions_are_saved_and_continued(tmp_path: pathlib.Path):
    played = evaluate_spot(RIVER, random_play(RIVER, 4))
    locks = [*LOCKS["some hands of the first player"], played.lock("bet 30", "AcKh,8d7d")]
    (begun,) = solve_spots([RIVER], locks=locks, iterations=20, keep_state=True)
    begun.save(tmp_path / "locked.npz")
    loaded = SpotSolution.load(tmp_path / "locked.npz")
    assert [lock.line for lock in loaded.locks] == [lock.line for lock in locks]
    assert loaded.unlocked_gains == begun.unlocked_gains and begun.unlocked_gap > begun.gap
    (straight,) = solve_spots([RIVER], locks=locks, iterations=50)
    (resumed,) = resume_spots(loaded, iterations=50)
    assert (resumed.ev, resumed.gap, resumed.unlocked_gap) == (
        straight.ev,
        straight.gap,
        straight.unlocked_gap,
    )
    free = dataclasses.replace(begun, locks=())
    with pytest.raises(ValueError, match="state of"):
        resume_spots(free, iterations=50)


def test_checkpoints_distinguish_locks(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    solver = jg.Solver(iterations=5, checkpoint=tmp_path)
    locks = LOCKS["everything after a bet"]
    (locked,), (free,) = solve_spots([RIVER], locks=locks, solver=solver), solve_spots([RIVER], solver=solver)
    assert locked.ev != free.ev
    monkeypatch.delattr("jaxgadget.core.driver.run")
    (again,) = solve_spots([RIVER], locks=locks, solver=solver)
    assert (again.ev, again.unlocked_gap, list(again.locks)) == (locked.ev, locked.unlocked_gap, locks)


@pytest.mark.parametrize(
    ("lock", "message"),
    [
        ({"line": "bet 31"}, "locks[0]: line='bet 31': 'bet 31' is not legal at the start"),
        ({"line": "check, check"}, "locks[0]: line='check, check': no player acts there"),
        (
            {"strategy": {"bet 40": 1}},
            "locks[0]: strategy: 'bet 40' is not legal after line=''; expected some of check",
        ),
        ({"strategy": {"check": 0.5}}, "is no distribution; expected probabilities >= 0 that sum to 1"),
        ({"strategy": {"check": 1.5, "bet 30": -0.5}}, "is no distribution"),
        ({"strategy": {"check": "half"}}, "strategy: 'check' has 'half'; expected a probability"),
        ({"strategy": {"check": np.ones(3)}}, "expected a probability, or one for each of the 1081 hands"),
        ({"hands": "TdTs"}, "hands='TdTs': none is left on 'Td9d6hQc2s'"),
        ({"hands": "QsQh:x"}, "hands='QsQh:x'"),
    ],
)
def test_bad_locks_are_refused_before_anything_is_solved(
    lock: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delattr("jaxgadget.holdem.solve.build_batch")
    fields: dict[str, Any] = {"line": "", "strategy": {"check": 1}}
    with pytest.raises(ValueError, match=r".") as error:
        solve_spots([RIVER], locks=[Lock(**(fields | lock))])
    assert message in str(error.value)


def test_locks_that_contradict_each_other_are_refused():
    both = [Lock(line="", strategy={"check": 1}), Lock(line="", strategy={"bet 30": 1}, hands="QQ")]
    with pytest.raises(ValueError, match=r"locks\[1\]: QhQd is locked twice after line=''"):
        solve_spots([RIVER], locks=both)
    for locks, message in (
        ("check", "expected a list of Lock"),
        ([3], r"locks\[0\]=3: expected a Lock"),
    ):
        with pytest.raises(ValueError, match=message):
            solve_spots([RIVER], locks=locks)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="2 lists for 1 spots"):
        solve_spots([RIVER], locks=[both[:1], []])
    with pytest.raises(ValueError, match="cannot be combined with locks"):
        solve_spots([BLUFFS], locks=[Lock(line="", strategy={"check": 1})], suit_isomorphism=True)
    for changes, message in (
        ({"line": 3}, "line=3: expected actions"),
        ({"strategy": 1}, "strategy=1: expected a dict"),
    ):
        with pytest.raises(ValueError, match=message):
            Lock(**({"line": "", "strategy": {"check": 1}} | changes))  # pyright: ignore[reportArgumentType]


def test_locks_are_read_from_json(tmp_path: pathlib.Path):
    path = tmp_path / "locks.json"
    path.write_text(json.dumps([{"line": "check", "strategy": {"check": 0.5, "bet 30": 0.5}, "hands": "QQ"}]))
    (lock,) = read_locks(path)
    assert (lock.line, lock.strategy, lock.hands) == ("check", {"check": 0.5, "bet 30": 0.5}, "QQ")
    for text, message in (
        ("{", "cannot be read"),
        ("[]", "holds no list of locks"),
        ('[{"line": "check"}]', "lock 0: .* is not a lock"),
        ('[{"line": "", "strategy": {}, "hand": "QQ"}]', "lock 0: .* is not a lock"),
        ('[{"line": 1, "strategy": {}}]', "lock 0: line=1: expected actions"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=f"locks.json'.*{message}"):
            read_locks(path)
