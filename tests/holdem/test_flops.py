"""Solved flops compared with the game of all turns and rivers, linear programs, and the turn's whole tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jaxgadget.core.devices import AbstractDevice, assume_device
from jaxgadget.core.solver import Solver
from jaxgadget.holdem import runouts
from jaxgadget.holdem.betting import BetMenu
from jaxgadget.holdem.cards import card_name, hand_name, parse_cards
from jaxgadget.holdem.checkpoint import BatchReport
from jaxgadget.holdem.isomorphism import find_exchanges
from jaxgadget.holdem.locks import Lock
from jaxgadget.holdem.runouts import StreetStrategies, choose_turns, lay_out_streets
from jaxgadget.holdem.solution import SpotSolution
from jaxgadget.holdem.solve import _solve_by_streets, solve_spots  # pyright: ignore[reportPrivateUsage]
from jaxgadget.holdem.spots import Spot
from jaxgadget.policy.solve import solve as solve_game
from jaxgadget.tree.public import public_tree
from jaxgadget.util.arrays import BoolArray
from tests.reference.flops import ListedFlop, Node, Values, is_card, place_hands, street_of, values_of

EXACT = 1e-9
"""Relative difference of float64 numbers that are equal by definition."""

BET = BetMenu(bets="50%", raises="", cap=1)
NO_BETS = BetMenu(bets="", raises="")
LEFT = "AsKsAhKhQcJc8d7s"


def dead_but(board: str, left: str) -> str:
    """All cards but those of the board and some others."""
    kept = {*parse_cards(board, "board"), *parse_cards(left, "left")}
    return "".join(card_name(card) for card in range(52) if card not in kept)


def flop(board: str = "Td9d6h", left: str = LEFT, **changes: Any) -> Spot:
    """A flop on which few cards are left."""
    given: dict[str, Any] = {
        "oop": "AsAh,KsKh,QcJc:0.7,8d7s,AhKh:0.4",
        "ip": "AhKs,AsKs:0.5,8d7s,QcJc,Kh8d",
        "pot": 20,
        "stack": 100,
        "menus": BET,
        "dead": dead_but(board, left),
    }
    return Spot(board=board, **(given | changes))


def solve_one(
    spot: Spot,
    iterations: int,
    *,
    merges: bool | None = None,
    dtype: str = "float64",
    compressed: bool = False,
) -> SpotSolution:
    """Solves a spot by DCFR."""
    solver = Solver(algorithm="dcfr", iterations=iterations, dtype=dtype)
    (solution,) = solve_spots([spot], solver=solver, suit_isomorphism=merges, compressed=compressed)
    return solution


def check_values(listed: ListedFlop, solution: SpotSolution) -> Values:
    """Both players' EVs, gains and EVs of hands, also at nodes of the flop, are those of the listed game."""
    values, scale = values_of(listed, solution), EXACT * solution.spot.pot
    assert solution.ev == pytest.approx(values.ev, rel=EXACT)
    assert solution.gains == pytest.approx(values.gains, rel=EXACT, abs=scale)
    assert solution.gap == pytest.approx(sum(values.gains), rel=EXACT, abs=scale)
    start = values.at("")
    for player in (0, 1):
        place, _ = place_hands(solution.spot, listed.hands[player])
        np.testing.assert_allclose(solution.hand_ev[player][place], start.ev[player], rtol=0, atol=scale)
        np.testing.assert_allclose(solution.equity[player][place], start.equity[player], rtol=0, atol=EXACT)
    for node in listed.nodes:
        if not node.cards:
            found, expected = solution.values(node.line), values.at(node.line)
            for player in (0, 1):
                place, _ = place_hands(solution.spot, listed.hands[player])
                rows = found.ev[player][place], expected.ev[player]
                np.testing.assert_allclose(*rows, rtol=0, atol=10 * scale, err_msg=node.line)
    return values


def check_value(listed: ListedFlop, solution: SpotSolution) -> None:
    """The value of a linear program is between what both players guarantee, at most 0.2 % of the pot."""
    value = solve_game(public_tree(listed.by_hands()), algorithm="lp").value
    won = solution.ev[0] - solution.spot.pot / 2
    assert won - solution.gains[1] - EXACT <= value <= won + solution.gains[0] + EXACT
    assert solution.gap < 0.002 * solution.spot.pot


@pytest.fixture(scope="module")
def listed() -> ListedFlop:
    return ListedFlop(flop())


@pytest.fixture(scope="module")
def solved(listed: ListedFlop) -> SpotSolution:
    return solve_one(listed.spot, 150)


@pytest.fixture(scope="module")
def values(listed: ListedFlop, solved: SpotSolution) -> Values:
    return check_values(listed, solved)


MONOTONE = flop(
    "Ts6s2s",
    "AhAdAcKhKdKc8h8d8c",
    oop="A8,AK,88,KK:0.7,AA",
    ip="random",
    menus=NO_BETS,
    turn_menus=BET,
)
"""Three suits can be exchanged."""


TWO_TONE = flop(
    left="AsAhAdAcKsKhKdKcQsQhQdQc7s7h7d7c", oop="A7,KQ", ip="AK,Q7,77", menus=NO_BETS, turn_menus=BET
)
"""Two suits can be exchanged."""


@pytest.fixture(scope="module")
def monotone() -> SpotSolution:
    """Solved in float32, where rounding must not make strategies asymmetric."""
    return solve_one(MONOTONE, 30, dtype="float32")


def test_a_flop_has_the_value_of_a_linear_program(listed: ListedFlop, solved: SpotSolution, values: Values):
    """`values` compares EVs, gains from best responses, EVs of hands and equities with the listed game."""
    check_value(listed, solved)
    assert sum(values.ev) == pytest.approx(listed.spot.pot)


LINES = (
    "",
    "check",
    "bet 10",
    "check, bet 10",
    "bet 10, fold",
    "check, check",  # before a deal
    "bet 10, call, Ah",
    "check, check, 8d, bet 10",
    "check, bet 10, call, Qc, check, check, As",
    "check, check, Ks, check, bet 10, call, 7s, check, bet 20",
)


@pytest.mark.parametrize("line", LINES)
def test_values_at_nodes_are_those_of_the_listed_game(
    listed: ListedFlop, solved: SpotSolution, values: Values, line: str
):
    expected, given = values.at(line), solved.values(line)
    spot, weights = street_of(solved, line.split(", ")), solved.weights(line)
    chance = listed.chance(listed.nodes[listed.by_line[line]].cards) > 0
    pairs = expected.reach[0] @ chance @ expected.reach[1]
    played, node = solved.played(line), listed.nodes[listed.by_line[line]]
    for player in (0, 1):
        place, left = place_hands(spot, listed.hands[player])
        possible = left & (listed.possible(player, node.cards) > 0)
        place, other = place[possible], (chance if player == 0 else chance.T) @ expected.reach[1 - player]
        for name in ("ev", "equity"):
            rows = getattr(given, name)[player][place], getattr(expected, name)[player][possible]
            np.testing.assert_allclose(*rows, rtol=0, atol=1e-8, err_msg=f"{name} of {player}")
        np.testing.assert_allclose(played[player][place], expected.reach[player][possible], rtol=1e-9)
        share = expected.reach[player] * other / pairs
        np.testing.assert_allclose(weights[player][place], share[possible], rtol=1e-9, atol=1e-13)
        met = possible & (share > 0)
        for mean, rows in ((given.mean_ev, expected.ev), (given.mean_equity, expected.equity)):
            assert mean[player] == pytest.approx(float(share[met] @ rows[player][met]), abs=1e-8)
    assert given.pot == pytest.approx(20 + sum(node.put_in))
    assert list(given.action_ev) == list(expected.action_ev)
    for action, evs in expected.action_ev.items():
        place, left = place_hands(spot, listed.hands[node.actor])
        possible = left & (listed.possible(node.actor, node.cards) > 0)
        rows = given.action_ev[action][place[possible]], evs[possible]
        np.testing.assert_allclose(*rows, rtol=0, atol=1e-8, err_msg=action)
    record = solved.to_record(line)
    assert record["line"] == line
    assert record["actor"] == (node.actor if node.actor < 2 else None)
    assert record["reached"] == pytest.approx(pairs / listed.pairs)
    assert record["ev"] == pytest.approx(given.mean_ev, nan_ok=True)
    if node.actor < 2:
        frame = solved.to_frame(line).set_index("hand")
        names = [hand_name(hand) for hand in listed.hands[node.actor].tolist()]
        held = [name for name in names if name in frame.index]
        assert set(held) == set(frame.index)
        evs = dict(zip(names, expected.ev[node.actor], strict=True))
        assert frame.ev[held].tolist() == pytest.approx([evs[name] for name in held], abs=1e-8)
        frequencies = solved.frequencies(line)
        for action in expected.action_ev:
            assert frequencies[action] == pytest.approx(np.dot(frame.weight, frame[action]))


@pytest.mark.parametrize("line", ["", "check", "check, check, Ah", "bet 10,call, Ah,bet 20"])
def test_values_below_a_line_are_those_of_its_nodes(solved: SpotSolution, line: str):
    below = solved.values_below(line)
    begin = ", ".join(word.strip() for word in line.split(",")) if line else ""
    assert next(iter(below)) == begin
    actions = list(solved.strategy(line))
    assert [each for each in below if each.count(",") == begin.count(",") + bool(begin)][-len(actions) :] == [
        f"{begin}, {action}" if begin else action for action in actions
    ]
    for each, found in below.items():
        assert found.mean_ev == pytest.approx(solved.values(each).mean_ev)


@pytest.mark.parametrize("line", ["check, check", "check, bet 10, call", "bet 10, call"])
def test_the_value_of_a_deal_is_the_mean_of_the_turns(solved: SpotSolution, line: str):
    spot, values = solved.spot, solved.values(line)
    played = solved.played(line)
    totals = [np.zeros(len(spot.hands)), np.zeros(len(spot.hands))]
    for name in (LEFT[i : i + 2] for i in range(0, len(LEFT), 2)):
        turn = solved.after(f"{line}, {name}")
        assert (turn.spot.board, turn.spot.pot) == (spot.board + name, values.pot)
        place, _ = place_hands(spot, turn.spot.hands)
        for player in (0, 1):
            np.testing.assert_allclose(turn.spot.range_weights[player], played[player][place])
            met = turn.spot.compatible_with(turn.spot.range_weights[1 - player])
            totals[player][place] += np.nan_to_num(turn.hand_ev[player]) * met / (spot.num_left - 4)
    for player in (0, 1):
        held = played[player] > 0
        met = spot.compatible_with(played[1 - player])
        np.testing.assert_allclose(totals[player][held], (values.ev[player] * met)[held], atol=1e-8)


@pytest.mark.slow
def test_merged_runouts_have_the_values_of_the_listed_game(monotone: SpotSolution):
    assert len(find_exchanges(MONOTONE)[0]) == 6
    check_values(ListedFlop(MONOTONE), monotone)
    lanes = monotone.streets.runouts.lanes if monotone.streets else []
    assert [len(street) for street in lanes] == [1, 3, 3 * (1 + 2 * 2)]  # A, K, 8; then suited or not


@pytest.mark.parametrize("board", [pytest.param("Td9d6h", marks=pytest.mark.slow), "Td9d6h7s"])
def test_rake_counts_where_the_first_street_has_no_folds(board: str):
    """Not even then is the game zero-sum: the gap is the sum of both gains, and a target is met by it."""
    street = {"turn_menus": BET} if len(board) == 6 else {"river_menus": BET}
    spot = flop(board, menus=NO_BETS, rake=0.05, rake_cap=100.0, dead=dead_but(board, LEFT), **street)
    solver = Solver(iterations=400, target_gap="2%", check_every=10)
    (solution,) = solve_spots([spot], solver=solver)
    assert 0 < solution.gap <= 0.02 * spot.pot
    assert solution.gap == pytest.approx(sum(solution.gains), rel=1e-6)


@pytest.mark.slow
def test_16_bits_keep_merged_runouts_symmetric():
    check_values(ListedFlop(MONOTONE), solve_one(MONOTONE, 30, compressed=True))


@pytest.mark.slow
def test_16_bits_of_streets_without_decisions():
    spot = flop(menus=BetMenu(bets="a", raises=""), remove=["check, check"])
    check_values(ListedFlop(spot), solve_one(spot, 20, compressed=True))


@pytest.mark.slow
def test_locks_of_a_flop_hold_on_all_cards(listed: ListedFlop):
    """On the flop for one player, and on all turns for the other with some hands."""
    bet = "bet 10"
    locks = [
        Lock(line="", strategy={"check": 0.7, bet: 0.3}),
        Lock(line=f"check, check, check, {bet}", strategy={"call": 1}, hands="8d7s"),
        Lock(line="check, check, check", strategy={"check": 0.25, bet: 0.75}, hands="AhKs,8d7s"),
    ]
    solver = Solver(algorithm="dcfr", iterations=150, dtype="float64")
    (solution,) = solve_spots([listed.spot], locks=locks, solver=solver)

    def locked(node: Node) -> BoolArray:
        names = [hand_name(hand) for hand in listed.hands[node.actor].tolist()]
        words = [word for word in node.words if not is_card(word)]
        if not words:
            return np.ones(len(names), np.bool_)
        if len(node.cards) == 1 and words == ["check"] * 3:
            return np.isin(names, ["AhKs", "8d7s"])
        return np.isin(names, ["8d7s"] if len(node.cards) == 1 and words == ["check"] * 3 + [bet] else [])

    free, kept = values_of(listed, solution), values_of(listed, solution, locked)
    scale = EXACT * listed.spot.pot
    assert solution.ev == pytest.approx(kept.ev, rel=EXACT)
    assert solution.gains == pytest.approx(kept.gains, rel=EXACT, abs=scale)
    assert solution.unlocked_gains == pytest.approx(free.gains, rel=EXACT, abs=scale)
    assert solution.gap < 0.01 * listed.spot.pot < free.gains[0] + free.gains[1]
    assert solution.frequencies()["check"] == pytest.approx(0.7, abs=EXACT)
    turn = solution.after("check, check, Ks")
    for hand, probability in (("8d7s", 0.25), ("AhKh", None)):
        row = turn.strategy("check")["check"][turn.spot.hand_names.index(hand)]
        assert probability is None or row == pytest.approx(probability, abs=EXACT)


def test_locks_of_a_solution_are_those_before_a_card(solved: SpotSolution):
    locks = solved.locks_of(1)
    assert {lock.line for lock in locks} == {"check", "bet 10"}
    turn = solved.after("check, check, Ks")
    assert len(turn.locks_of(1)) > len(locks)
    lock = solved.lock("check, check, Ks, check", "8d7s")
    assert lock.line == "check, check, Ks, check" and lock.hands == "8d7s"
    for action, row in turn.strategy("check").items():
        np.testing.assert_array_equal(lock.strategy[action], row)
    for method in (solved.node, lambda line: solved.locks_of(1, line)):
        with pytest.raises(ValueError, match=r"on the turn, which has its own tree: expected after\('check"):
            method("check, check, Ks, check")


@pytest.mark.slow
def test_locks_that_distinguish_suits_keep_runouts_apart():
    """Merged runouts have symmetric strategies: only exchanges that preserve the locks merge them."""
    line, solver = "check, check", Solver(iterations=10, dtype="float64")
    merged = []
    for hands in ("AhAd,AhAc,AdAc", "AhAd"):
        locks = [Lock(line=line, strategy={"check": 1}, hands=hands)]
        pair = [
            solve_spots([MONOTONE], locks=locks, solver=solver, suit_isomorphism=merges)[0]
            for merges in (None, False)
        ]
        assert pair[0].ev == pytest.approx(pair[1].ev, rel=EXACT)
        assert pair[0].gains == pytest.approx(pair[1].gains, rel=EXACT)
        assert pair[0].streets is not None
        merged.append(len(pair[0].streets.runouts.lanes[0][0].symmetries))
    assert merged == [6, 2]


@pytest.mark.parametrize("cards", [("Ah", "Ad"), ("Ah", "Ac"), ("8d", "8c")])
def test_isomorphic_turns_have_one_solution_with_exchanged_hands(
    monotone: SpotSolution, cards: tuple[str, str]
):
    """Up to the rounding of rivers in float32."""
    one, other = (monotone.after(f"check, check, {card}") for card in cards)
    assert one.ev == pytest.approx(other.ev, rel=EXACT)
    assert one.gains == pytest.approx(other.gains, rel=1e-5)
    exchanged = {ord(cards[0][1]): cards[1][1], ord(cards[1][1]): cards[0][1]}
    order = "cdhs"

    def named(hand: str) -> str:
        cards = sorted(
            (hand[:2], hand[2:]), key=lambda card: (-"23456789TJQKA".index(card[0]), -order.index(card[1]))
        )
        return "".join(cards)

    place = {name: row for row, name in enumerate(other.spot.hand_names)}
    image = [place[named(name.translate(exchanged))] for name in one.spot.hand_names]
    for player in (0, 1):
        np.testing.assert_allclose(one.hand_ev[player], other.hand_ev[player][image], atol=1e-5)
    for line in ("", "check", "bet 10"):
        for action, row in one.strategy(line).items():
            np.testing.assert_allclose(row, other.strategy(line)[action][image], atol=1e-5)


@pytest.mark.parametrize(
    ("spot", "sizes"),
    [
        pytest.param(flop(), (8, 416), id="all rivers of several turns"),
        pytest.param(MONOTONE, (2, 100), id="merged runouts"),
        pytest.param(TWO_TONE, (6, 312), id="turns with unequal numbers of rivers", marks=pytest.mark.slow),
        pytest.param(flop(), (3, 4), id="several slices", marks=pytest.mark.slow),
    ],
)
def test_slices_of_several_lanes_change_nothing(
    spot: Spot, sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
):
    """Those of accelerators and others; files of both hold the same strategies."""
    one = solve_one(spot, 3)
    monkeypatch.setattr(runouts, "SLICE_LANES", sizes)
    several = solve_one(spot, 3)
    assert several.streets is not None
    rivers = several.streets.runouts.slices[2]
    assert rivers.lane.shape[1] > 3 and (rivers.num_above > 1) == (sizes != (3, 4))
    assert several.ev == pytest.approx(one.ev, rel=EXACT)
    assert several.gains == pytest.approx(one.gains, rel=EXACT, abs=EXACT * spot.pot)
    exchanges = find_exchanges(spot)[0]
    exchanges = exchanges if len(exchanges) > 1 else ()
    read = StreetStrategies.unpack(spot, exchanges, several.streets.pack())
    assert one.streets is not None and read is not None
    for player in (0, 1):
        last = ("8d", "8dAh") if "8d" in LEFT and spot is not TWO_TONE else ("7d", "7dAh")
        for cards in ("Ah", "AhKh", *last):
            after = parse_cards(cards, "cards")
            expected, _ = one.streets.lane(player, after, np.arange(3))
            found, _ = read.lane(player, after, np.arange(3))
            np.testing.assert_allclose(found, expected, rtol=0, atol=EXACT, err_msg=cards)


def test_a_flop_that_is_checked_down_is_worth_its_equity():
    """The first player may bet on the flop and the other has to call; there are no later bets."""
    spot = flop(turn_menus=NO_BETS, remove=["bet 10, fold", "check, bet 10"])
    listed, solution = ListedFlop(spot), solve_one(spot, 5)
    shares = listed.shares(())
    equity = (listed.compatible * shares) @ listed.weights[1] / (listed.compatible @ listed.weights[1])
    met = listed.weights[0] * (listed.compatible @ listed.weights[1]) / listed.pairs
    best = met @ (20 * equity + np.maximum(10 * (2 * equity - 1), 0))
    assert solution.ev[0] + solution.gains[0] == pytest.approx(best, rel=EXACT)
    assert solution.gains[1] == pytest.approx(0, abs=1e-12)
    place, _ = place_hands(spot, listed.hands[0])
    np.testing.assert_allclose(solution.equity[0][place], equity, rtol=0, atol=EXACT)
    actions = solution.action_evs()
    np.testing.assert_allclose(actions["check"][place], 20 * equity, rtol=EXACT)
    np.testing.assert_allclose(actions["bet 10"][place], 40 * equity - 10, rtol=EXACT, atol=1e-8)
    for player in (0, 1):
        held = spot.range_weights[player] > 0
        after = solution.values("bet 10, call")
        np.testing.assert_allclose(after.ev[player][held], 40 * after.equity[player][held], rtol=EXACT)
        np.testing.assert_allclose(
            solution.equities("check")[1 - player], solution.values("check").equity[1 - player]
        )


def check_by_streets(spot: Spot, iterations: int, *, merges: bool = False) -> None:
    """A turn solved by streets has the strategies of its whole tree."""
    solver = Solver(algorithm="dcfr", iterations=iterations, dtype="float64").iterative()
    exchanges = find_exchanges(spot)[0] if merges else ()
    assert len(exchanges) > 1 or not merges
    report = BatchReport(lambda _: None, iterations, None)
    by_streets = _solve_by_streets(spot, solver, report, None, exchanges, keep_state=False, compressed=False)
    whole = solve_one(spot, iterations)
    assert by_streets.ev == pytest.approx(whole.ev, rel=EXACT)
    assert by_streets.gains == pytest.approx(whole.gains, rel=EXACT, abs=EXACT * spot.pot)
    for player in (0, 1):
        rows = by_streets.probabilities[player], whole.probabilities[player]
        np.testing.assert_allclose(*rows, rtol=0, atol=EXACT)
        np.testing.assert_allclose(
            by_streets.hand_ev[player], whole.hand_ev[player], rtol=0, atol=EXACT * spot.pot
        )


TURN = flop("Td9d6h2c", menus=BetMenu(bets="50%", raises="100%", cap=2))


def test_a_turn_by_streets_is_solved_as_its_whole_tree():
    check_by_streets(TURN, 3)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "expected a line that ends with the turn"),
        ("check, check", "expected a line that ends with the turn"),
        ("check, check, Ah, check", "expected a line that ends with the turn"),
        ("check, check, Td", "but Td is on the board"),
        ("check, check, 3c", "but 3c is dead"),
        ("check, check, 1x", "'1x' is not one; expected a card"),
        ("check, fold, Ah", "'fold' is not legal after 'check': expected one of check, bet 10"),
        ("check, check, AhKh", "'AhKh' is not one; expected a card"),
    ],
)
def test_lines_without_a_turn_are_refused(solved: SpotSolution, line: str, message: str):
    with pytest.raises(ValueError, match=message):
        solved.after(line)


def test_a_turn_after_all_in_has_no_decisions():
    spot = flop(menus=BetMenu(bets="a", raises=""))
    solution = solve_one(spot, 2)
    with pytest.raises(ValueError, match="both players are all-in"):
        solution.after("all-in 100, call, Ah")
    check_values(ListedFlop(spot), solution)


@pytest.mark.parametrize("line", ["check, check, 7s", "check, bet 10, call, As", "bet 10, call, 8d"])
def test_a_river_after_a_turn_is_a_spot_of_its_own(solved: SpotSolution, line: str):
    turn = solved.after("check, check, Ks")
    river = turn.after(line)
    assert river.spot.pot == turn.values(line).pot and len(river.spot.cards) == 5
    place = np.searchsorted(turn.spot.hands, river.spot.hands)
    for below in ("", "check"):
        before, after = turn.values(f"{line}, {below}" if below else line), river.values(below)
        for player in (0, 1):
            ours, theirs = after.ev[player], before.ev[player][place]
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
            assert np.isfinite(ours).any()
    assert list(river.strategy()) == list(turn.strategy(line))
    for action, row in river.strategy().items():
        np.testing.assert_allclose(row, turn.strategy(line)[action][place], atol=1e-12)


def test_lines_without_a_river_are_refused(solved: SpotSolution):
    turn = solved.after("check, check, Ks")
    with pytest.raises(ValueError, match="expected a line that ends with the river"):
        turn.after("check, check")
    with pytest.raises(ValueError, match="is a river"):
        turn.after("check, check, As").after("check, check, 7s")


def test_what_needs_a_listed_tree_is_refused_on_flops(solved: SpotSolution):
    for refused in (
        lambda: solved.policy,
        lambda: solved.spot.by_hands(),
        lambda: public_tree(solved.spot),
        lambda: solved.spot.showdowns,
    ):
        with pytest.raises(ValueError, match="Td9d6h is a flop"):
            refused()
    for algorithm in ("pcfr+",):
        with pytest.raises(ValueError, match="regret matching without predictions"):
            solve_spots([solved.spot], algorithm=algorithm, iterations=1)


def test_turns_at_once_on_accelerators():
    """As many as pad least, and fit into the memory; on a CPU they are single."""
    spot = flop(left="AsAhAdAcKsKhKdKcQsQhQdQc7s7h7d7c")
    with assume_device(AbstractDevice("large", 80 << 30)):
        large = lay_out_streets(spot, ())
        small = lay_out_streets(spot, (), memory_limit=3 * large.slice_bytes(np.float64))
    assert [slices.lane.shape for slices in large.slices] == [(1, 1), (2, 8), (2, 8 * 15)]
    (num_slices, turns), (_, rivers) = (slices.lane.shape for slices in small.slices[1:])
    assert 1 <= turns < 8 and rivers == 15 * turns and num_slices * turns == 16
    assert small.slice_bytes(np.float64) <= large.slice_bytes(np.float64)
    assert [slices.lane.shape for slices in lay_out_streets(spot, ()).slices] == [(1, 1), (16, 1), (240, 1)]
    assert [choose_turns(count, 8) for count in (49, 37, 23, 5)] == [7, 8, 8, 5]
