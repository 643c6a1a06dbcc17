"""Locks of a flop after particular cards, compared with the game of all turns and rivers."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import pytest

from jaxgadget.core.regret import DCFR
from jaxgadget.core.solver import Solver
from jaxgadget.holdem.locks import Lock, find_locked
from jaxgadget.holdem.runouts import find_merged, lay_out_streets
from jaxgadget.holdem.solution import SpotSolution
from jaxgadget.holdem.solve import resume_spots, solve_spots
from jaxgadget.holdem.spots import Spot
from jaxgadget.util.arrays import BoolArray, FloatArray
from tests.holdem.test_flops import BET, EXACT, MONOTONE, NO_BETS, flop
from tests.reference.flops import (
    ListedFlop,
    Node,
    fixed_at,
    locked_value,
    place_hands,
    street_of,
    values_of,
)

FLOP = flop(menus=NO_BETS, turn_menus=BET, river_menus=BET)
LOCKS = [
    Lock(line="check, check, Ah, bet 10", strategy={"fold": 0.9, "call": 0.1}),
    Lock(line="check, check, Ks", strategy={"check": 0.25, "bet 10": 0.75}, hands="8d7s,KsKh,AsAh"),
    Lock(line="check, check, Qc, check, check, check", strategy={"bet 10": 1}, hands="8d7s"),
    Lock(line="check, check, Qc, check, check, Ah", strategy={"check": 1}, hands="KsKh,8d7s"),
    Lock(line="check, check, check, check, 7s", strategy={"bet 10": 1}, hands="KsKh,AhKh"),
    Lock(line="check, check, check, bet 10", strategy={"call": 1}, hands="8d7s"),
]
"""After a turn, after a turn and any river, after a pair of both, after a river, and after all cards."""


def solve_locked(
    spot: Spot,
    locks: list[Lock],
    iterations: int,
    *,
    compressed: bool = False,
    merges: bool | None = None,
    dtype: str = "float64",
) -> SpotSolution:
    solver = Solver(algorithm="dcfr", iterations=iterations, dtype=dtype)
    (solution,) = solve_spots(
        [spot], locks=locks, solver=solver, compressed=compressed, suit_isomorphism=merges
    )
    return solution


def rows_at(
    listed: ListedFlop, solution: SpotSolution, node: Node
) -> tuple[dict[str, FloatArray], BoolArray]:
    """The solution's strategy at a node with the hands of the range, and a mask of possible ones."""
    place, left = place_hands(street_of(solution, node.words), listed.hands[node.actor])
    possible = left & (listed.possible(node.actor, node.cards) > 0)
    return {action: row[place] for action, row in solution.strategy(node.line).items()}, possible


def check_locked(
    listed: ListedFlop, locks: list[Lock], solution: SpotSolution, rounding: float = EXACT
) -> None:
    """Locks hold where their lines lead and nowhere else; EVs and gains are those of the listed game.

    Gains without locks are those of the stored sums, up to their rounding.
    """
    fixed = {node.line: fixed_at(listed, locks, node) for node in listed.nodes if node.actor < 2}
    found = {node.line: rows_at(listed, solution, node) for node in listed.nodes if node.actor < 2}
    by_actions: dict[tuple[str, ...], list[bool]] = {}
    for node in (node for node in listed.nodes if node.actor < 2):
        (held, strategy), (rows, possible) = fixed[node.line], found[node.line]
        for action, row in rows.items():
            expected = strategy[action][held & possible]
            np.testing.assert_allclose(row[held & possible], expected, rtol=0, atol=1e-12, err_msg=node.line)
        by_actions.setdefault(node.actions, []).append(bool((held & possible).any()))
    assert any(any(some) and not all(some) for some in by_actions.values())
    values, free = (
        values_of(listed, solution, lambda node: fixed[node.line].held),
        values_of(listed, solution),
    )
    scale = EXACT * listed.spot.pot
    assert solution.ev == pytest.approx(values.ev, rel=EXACT)
    assert solution.gains == pytest.approx(values.gains, rel=EXACT, abs=scale)
    assert solution.unlocked_gains == pytest.approx(free.gains, rel=rounding, abs=scale)
    assert solution.gap == pytest.approx(sum(values.gains), rel=EXACT, abs=scale)
    assert solution.unlocked_gap > solution.gap + 1e-3, "a lock that costs nothing tests little"
    for line in ("check, check, Ah, bet 10", "check, check, Qc, check, check, Kd", "check"):
        if line in listed.by_line:
            given, expected = solution.values(line), values.at(line)
            for player in (0, 1):
                place, left = place_hands(street_of(solution, line.split(", ")), listed.hands[player])
                possible = left & (listed.possible(player, listed.nodes[listed.by_line[line]].cards) > 0)
                rows = given.ev[player][place[possible]], expected.ev[player][possible]
                np.testing.assert_allclose(*rows, rtol=0, atol=1e-8, err_msg=line)


@pytest.fixture(scope="module")
def listed() -> ListedFlop:
    return ListedFlop(FLOP)


@pytest.fixture(scope="module")
def solved() -> SpotSolution:
    return solve_locked(FLOP, LOCKS, 150)


def test_a_flop_locked_after_cards_has_the_value_of_a_linear_program(
    listed: ListedFlop, solved: SpotSolution
):
    check_locked(listed, LOCKS, solved)
    won, value = solved.ev[0] - FLOP.pot / 2, locked_value(listed, LOCKS)
    assert won - solved.gains[1] - EXACT <= value <= won + solved.gains[0] + EXACT
    assert solved.gap < 0.005 * FLOP.pot
    for line in ("check, check, As, bet 10", "check, check, Kh, bet 10"):
        (row, possible), fixed = rows_at(listed, solved, listed.nodes[listed.by_line[line]]), 0.9
        assert (np.abs(row["fold"] - fixed)[possible] > 0.01).any(), line


@pytest.mark.parametrize("compressed", [False, True])
def test_locks_hold_after_their_cards_in_float32(listed: ListedFlop, *, compressed: bool):
    solution = solve_locked(FLOP, LOCKS, 10, compressed=compressed, dtype="float32")
    check_locked(listed, LOCKS, solution, 1e-6)


ON_ONE_TURN = Lock(line="check, check, Ah", strategy={"bet 10": 1}, hands="KdKc,8d8c,Ad8d,Ac8c")
MERGED = {
    "one turn": ([ON_ONE_TURN], 2, [1, 6, 39]),
    "all turns of a rank": (
        [
            Lock(line=f"check, check, A{suit}, bet 10", strategy={"fold": 0.75, "call": 0.25})
            for suit in "hdc"
        ],
        6,
        [1, 3, 15],
    ),
    "a turn and a river": (
        [Lock(line="check, check, Ah, check, check, Kd", strategy={"bet 10": 1}, hands="AdKc,8d8c")],
        1,
        [1, 9, 72],
    ),
    "a river": ([Lock(line="check, check, check, check, 8h", strategy={"bet 10": 1})], 2, [1, 6, 39]),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in MERGED])
def test_runouts_are_merged_as_far_as_locks_allow(name: str):
    """Exchanges of suits that map the locks, with their cards, to themselves."""
    locks, symmetries, lanes = MERGED[name]
    merged, apart = (solve_locked(MONOTONE, locks, 20, merges=merges) for merges in (None, False))
    assert merged.streets is not None and apart.streets is not None
    assert len(merged.streets.runouts.lanes[0][0].symmetries) == symmetries
    assert [len(street) for street in merged.streets.runouts.lanes] == lanes
    assert [len(street) for street in apart.streets.runouts.lanes] == [1, 9, 72]
    assert merged.ev == pytest.approx(apart.ev, rel=EXACT)
    assert merged.gains == pytest.approx(apart.gains, rel=EXACT)
    assert merged.unlocked_gains == pytest.approx(apart.unlocked_gains, rel=EXACT)
    for card in ("Ah", "Ad", "Kc"):
        one, other = (solution.after(f"check, check, {card}") for solution in (merged, apart))
        for player in (0, 1):
            rows = one.probabilities[player], other.probabilities[player]
            np.testing.assert_allclose(*rows, rtol=0, atol=1e-8)
    check_locked(ListedFlop(MONOTONE), locks, merged)


def test_locked_hands_and_cards_decide_which_runouts_are_merged():
    def count(*locks: Lock) -> int:
        return len(find_merged(MONOTONE, None, find_locked(MONOTONE, locks)))

    def bets(line: str, hands: str | None = None) -> Lock:
        return Lock(line=line, strategy={"bet 10": 1}, hands=hands)

    assert count() == 6
    assert count(bets("check, check")) == 6
    assert count(ON_ONE_TURN) == 2  # clubs and diamonds
    assert count(bets("check, check, Ah", "KdKc,8d8c,Ad8d")) == 0
    assert count(bets("check, check, Ah"), bets("check, check, Ad")) == 2
    assert count(*(bets(f"check, check, A{suit}") for suit in "hdc")) == 6
    assert count(bets("check, check, Ah"), bets("check, check, Kd")) == 0


def test_solutions_locked_after_cards_are_saved_and_continued(
    solved: SpotSolution, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    """Also locks with arrays over the hands that are left on a turn, from another solution."""
    locks = [
        *LOCKS[1:],
        solved.lock("check, check, Ah, bet 10"),
        solved.lock("check, check, As", "AhKh,KsKh"),
    ]
    (begun,) = solve_spots([FLOP], locks=locks, iterations=4, keep_state=True)
    begun.save(tmp_path / "locked.npz")
    loaded = SpotSolution.load(tmp_path / "locked.npz")
    assert [lock.line for lock in loaded.locks] == [lock.line for lock in locks]
    assert (loaded.gains, loaded.unlocked_gains) == (begun.gains, begun.unlocked_gains)
    for line in ("check, check, Ah, bet 10", "check, check, As", "check, check, Qc, check, check, Ah"):
        for action, row in begun.strategy(line).items():
            np.testing.assert_array_equal(loaded.strategy(line)[action], row)
            if "Qc" not in line:
                held = solved.weights(line)[solved.actor(line)] > 0
                held &= "As" not in line or np.isin(begun.after(line).spot.hand_names, ["AhKh", "KsKh"])
                np.testing.assert_allclose(row[held], solved.strategy(line)[action][held], rtol=0, atol=1e-12)
    (straight,) = solve_spots([FLOP], locks=locks, iterations=8)
    (resumed,) = resume_spots(loaded, iterations=8)
    assert (resumed.ev, resumed.gap, resumed.unlocked_gap) == (
        straight.ev,
        straight.gap,
        straight.unlocked_gap,
    )
    other = [dataclasses.replace(lock, line=lock.line.replace("Ah", "As")) for lock in LOCKS[:1]]
    with pytest.raises(ValueError, match="state of"):
        resume_spots(dataclasses.replace(begun, locks=tuple(other)), iterations=8)
    solver = Solver(iterations=2, checkpoint=tmp_path / "folder")
    pair = [solve_spots([FLOP], locks=own, solver=solver)[0] for own in (LOCKS[:1], other)]
    assert pair[0].ev != pair[1].ev
    monkeypatch.delattr("jaxgadget.core.driver.run")
    again = [solve_spots([FLOP], locks=own, solver=solver)[0] for own in (LOCKS[:1], other)]
    assert [each.ev for each in again] == [each.ev for each in pair]
    for card, own in (("Ah", again[0]), ("As", again[1])):
        assert (own.strategy(f"check, check, {card}, bet 10")["fold"] == 0.9).any()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["check, check"], {1: (1, 8)}),
        (["check, check, Ah", "check, check, Ks"], {1: (2, 2)}),
        (["check, check, check, check, 7s"], {2: (1, 7)}),
        (
            ["check, check", "check, check, Ah, check, check", "check, check, check, check, 7s"],
            {1: (1, 8), 2: (3, 13)},  # after Ah, after 7s, and after both
        ),
    ],
)
def test_lanes_with_the_same_locks_share_floors(lines: list[str], expected: dict[int, tuple[int, int]]):
    """Memory grows with the number of different locks, not with that of cards."""
    hands = iter(["QcJc", "AsAh,KhJc", "KsKh"])
    locked = find_locked(FLOP, [Lock(line=line, strategy={"check": 1}, hands=next(hands)) for line in lines])
    turns = lay_out_streets(FLOP, ()).branches(DCFR, locked=locked)
    for street_idx, street in ((1, turns), (2, turns.below)):
        assert street is not None and street.floors[1] is None
        floors = street.floors[0]
        assert (floors is not None) == (street_idx in expected)
        if floors is not None:
            count, num_locked = expected[street_idx]
            assert floors.rows.shape == (count, street.bodies[0].num_actions)
            assert floors.row.shape == street.held.shape[:2]
            assert (np.asarray(floors.row) >= 0).sum() == num_locked


def test_locks_with_arrays_of_a_turn_are_those_of_all_hands():
    """An array has the hands that are left on the flop, or on the turn that the line names."""
    line = "check, check, Ah"
    bets = np.random.default_rng(0).random(len(FLOP.hands))
    left = np.array(["Ah" not in name for name in FLOP.hand_names])
    both = [
        find_locked(FLOP, [Lock(line=line, strategy={"bet 10": row, "check": 1 - row})])
        for row in (bets, bets[left])
    ]
    assert both[0] is not None and both[1] is not None
    assert both[0].digest == both[1].digest
    with pytest.raises(ValueError, match="for each of the 28 hands"):
        find_locked(FLOP, [Lock(line="check, check", strategy={"check": bets[left]})])


def refuse(locks: list[Lock]) -> str:
    with pytest.raises(ValueError, match=r".") as error:
        find_locked(FLOP, locks)
    return str(error.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("check, check, Td", "Td is on the board; expected another card"),
        ("check, check, 2c", "2c is dead; expected another card"),
        ("check, check, Ah, check, check, Ah", "Ah is dealt before; expected another card"),
        ("check, Ah", "'Ah' is not legal after 'check': expected one of check"),
        ("check, check, bet 11", "'bet 11' is not legal after 'check, check': expected a card, or one of"),
        ("check, check, Ah, bet 11", "'bet 11' is not legal after 'check, check, Ah': expected one of check"),
        ("check, check, Ah, bet 10, fold", "line='check, check, Ah, bet 10, fold': no player acts there"),
        ("check, check, Ks, bet 10", "strategy: 'check' is not legal after line='check, check, Ks, bet 10'"),
    ],
)
def test_lines_of_locks_that_lead_nowhere_are_refused(line: str, message: str):
    assert message in refuse([Lock(line=line, strategy={"check": 1})])


def test_hands_with_the_card_of_a_line_cannot_be_locked():
    found = refuse([Lock(line="check, check, Ah", strategy={"check": 1}, hands="AsAh,AhKh")])
    assert "hands='AsAh,AhKh': none is left on 'Td9d6hAh'" in found


@pytest.mark.parametrize(
    ("one", "other", "overlaps"),
    [
        ("check, check", "check, check, Ah", True),
        ("check, check, Ah", "check, check, Ah", True),
        ("check, check, Ah", "check, check, As", False),
        ("check, check, Ah, check, check", "check, check, Ah, check, check, Kh", True),
        ("check, check, Ah, check, check", "check, check, check, check, Kh", True),
        ("check, check, Ah, check, check", "check, check, check, check, Ah", False),
        ("check, check, Ah, check, check, Kh", "check, check, Kh, check, check, Ah", False),
        ("check, check, check, check, Ah", "check, check, check, check, Kh", False),
    ],
)
def test_locks_of_a_hand_after_the_same_cards_are_refused(one: str, other: str, *, overlaps: bool):
    """A lock without a card and one with it overlap, unless they are of other hands."""
    locks = [
        Lock(line=line, strategy=strategy, hands=hands)
        for line, strategy, hands in ((one, {"check": 1}, "8d7s,QcJc"), (other, {"bet 10": 1}, "8d7s"))
    ]
    for pair in (locks, locks[::-1]):
        if overlaps:
            found = refuse(pair)
            assert f"8d7s is locked twice after line={pair[1].line!r}; expected one lock" in found
        else:
            assert find_locked(FLOP, pair) is not None
    assert find_locked(FLOP, [locks[0], dataclasses.replace(locks[1], hands="KsKh,KsQc")]) is not None
