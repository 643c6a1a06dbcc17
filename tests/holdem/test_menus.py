"""Menus, compared with games that are enumerated from the rules of poker (`tests/reference/poker.py`)."""

import dataclasses
import functools
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from jaxgadget.core.solver import Solver
from jaxgadget.games.game import CHANCE
from jaxgadget.games.sizes import ALL_IN, Chips, Geometric, Multiple, parse_sizes
from jaxgadget.holdem.betting import BetMenu, SpotBetting, count_nodes
from jaxgadget.holdem.cards import card_name
from jaxgadget.holdem.locks import Lock
from jaxgadget.holdem.solution import SpotSolution
from jaxgadget.holdem.solve import evaluate_spot, solve_spots
from jaxgadget.holdem.spots import Spot
from jaxgadget.policy.evaluate import evaluate_policy
from jaxgadget.policy.policy import Policy
from jaxgadget.policy.solve import solve as solve_game
from jaxgadget.subgames.spots import refine_spots
from jaxgadget.tree.public import public_tree
from tests.holdem.test_solve import random_play
from tests.reference import efg, lp
from tests.reference.efg import Array, Label
from tests.reference.poker import IP, OOP, Poker, Situation

RIVER: dict[str, Any] = {"board": "2s3h4d6c7c", "oop": "AsAh,QsQh:0.5", "ip": "KsKh,8s8h", "pot": 20}
TURN: dict[str, Any] = RIVER | {"board": "2s3h4d6c"}


def poker(spot: Spot, sizes: Any, **rules: Any) -> Poker:
    """The rules of a spot; bets, raises and whatever is removed are the test's."""
    first, second = (
        {spot.hand_names[hand]: float(weights[hand]) for hand in np.flatnonzero(weights)}
        for weights in spot.range_weights
    )
    board = [spot.board[k : k + 2] for k in range(0, len(spot.board), 2)]
    given: dict[str, Any] = {"pot": spot.pot, "stacks": (spot.effective_stack,) * 2, **rules}
    return Poker(board=board, ranges=(first, second), sizes=sizes, **given)


def lines(spot: Spot) -> dict[tuple[str, ...], tuple[float, float]]:
    """Chips that both players have paid after every line of a spot, without cards."""
    betting = spot.betting
    found: dict[tuple[str, ...], tuple[float, float]] = {(): (0.0, 0.0)}
    for node in range(1, len(betting.tree)):
        above, words = node, []
        while above:
            if betting.tree.actor[betting.tree.parent[above]] != CHANCE:
                words.append(betting.action_name(above))
            above = int(betting.tree.parent[above])
        first, second = betting.put_in[node].tolist()
        assert found.setdefault(tuple(reversed(words)), (first, second)) == (first, second)
    return found


def check_lines(spot: Spot, rules: Poker) -> None:
    expected = rules.lines()
    assert lines(spot).keys() == expected.keys()
    for line, paid in lines(spot).items():
        assert paid == pytest.approx(expected[line])


def check_solution(
    rules: Poker, solution: SpotSolution, locked: Mapping[tuple[str, ...], Array] | None = None
) -> tuple[float, float]:
    """Both players' EVs and gains from a best response are those of the enumerated game.

    Args:
      rules: the game.
      solution: both players' strategies.
      locked: strategies that a best response keeps, by the actions before them.

    Returns:
      Both players' gains.
    """
    strategy = functools.cache(solution.strategy)
    hands = {name: hand for hand, name in enumerate(solution.spot.hand_names)}
    gains: list[float] = []
    for player in (0, 1):
        root = rules.root(player)
        rows: dict[Label, Array] = {}
        for label, node in efg.infosets(root).items():
            assert isinstance(label, tuple)
            actor, hand, words, dealt = label  # pyright: ignore[reportUnknownVariableType]
            end = _end_of_street(words)
            found = strategy(", ".join([*words[:end], *dealt, *words[end:]]))
            rows[label] = np.array([found[str(action)][hands[str(hand)]] for action in node.actions])
            assert set(found) == set(node.actions) and actor == node.player
        value = efg.sign(player) * efg.value(root, rows)
        assert solution.ev[player] - solution.spot.pot / 2 == pytest.approx(value, abs=1e-9)
        labels = {label: label[2] for label in rows if isinstance(label, tuple)}
        floors = {label: (locked or {})[words] for label, words in labels.items() if words in (locked or {})}
        gains.append(efg.best_response_value(root, player, rows, floors) - value)
    assert solution.gains == pytest.approx(tuple(gains), abs=1e-9)
    assert solution.gap == pytest.approx(sum(gains), abs=1e-9)
    return gains[0], gains[1]


def _end_of_street(words: Sequence[str]) -> int:
    """Number of the words on the first street."""
    for number, word in enumerate(words, 1):
        if word == "call" or list(words[number - 2 : number]) == ["check", "check"]:
            return number
    return len(words)


def pot_after_call(now: Situation, pot: float) -> float:
    return pot + 2 * max(now.paid)


def test_raises_to_multiples_of_the_bet():
    """Of the chips that the other player has bet on this street; at least as large as the last raise."""
    spot = Spot(**TURN, stack=300, menus=BetMenu(bets="50%", raises="2.5x,1.2x", cap=3))

    def sizes(now: Situation) -> Iterable[float]:
        if not now.raises:
            return [0.5 * pot_after_call(now, 20)]
        if len(now.raises) == 3:
            return []
        return [max(k * now.facing, now.facing + now.raises[-1]) for k in (2.5, 1.2)]

    check_lines(spot, poker(spot, sizes))
    assert spot.betting.find("bet 10, raise to 25, raise to 62.5, call, 2c, bet 72.5, raise to 181.25")


def test_chips_and_a_minimum():
    """Raises are by so many chips; the minimum holds for bets and raises, except all-in."""
    spot = Spot(**TURN, stack=40, menus=BetMenu(bets="2c,9c", raises="7c,100%", cap=2), min_bet=4)

    def sizes(now: Situation) -> Iterable[float]:
        if not now.raises:
            return [4, 9]
        if len(now.raises) == 2:
            return []
        return [now.facing + max(7, now.raises[-1]), now.facing + pot_after_call(now, 20)]

    check_lines(spot, poker(spot, sizes))
    short = Spot(**RIVER, stack=3, menus=BetMenu(bets="1c", raises=()), min_bet=4)
    check_lines(short, poker(short, lambda now: [] if now.raises else [3]))


@pytest.mark.parametrize("text", ["e", "e60%", "1e", "3e"])
def test_geometric_sizes(text: str):
    """Bets and calls of the same share of the pot on every street left are all-in on the last one."""
    spot = Spot(**TURN, stack=90, menus=BetMenu(bets=text, raises=text, cap=3))

    def grown(share: float, streets: int, pot: float) -> float:
        """Chips that are paid when this share is bet and called on each street."""
        paid = 0.0
        for _ in range(streets):
            bet = share * (pot + 2 * paid)
            paid += bet
        return paid

    def sizes(now: Situation) -> Iterable[float]:
        if len(now.raises) == 3:
            return []
        streets = {"1e": 1, "3e": 3}.get(text, now.streets)
        streets = max(streets - max(len(now.raises) - 1, 0), 1)
        pot, left = pot_after_call(now, 20), 90 - max(now.paid)
        low, high = 0.0, 100.0
        while high - low > 1e-13:  # by bisection, from the definition
            share = (low + high) / 2
            low, high = (share, high) if grown(share, streets, pot) < left else (low, share)
        bet = min(low, 0.6) * pot if text == "e60%" else low * pot
        bet = bet if streets == 1 or (text == "e60%" and low > 0.6) else float(f"{bet:.4g}")
        last = now.raises[-1] if now.raises else 0.0
        total = now.facing + max(bet, last)
        return [90 - now.street_paid if total + now.street_paid > 90 - 1e-9 else total]

    check_lines(spot, poker(spot, sizes))


@pytest.mark.parametrize("donks", [(), (0.25,), None])
def test_donk_bets(donks: Any):
    """Bets of the first player on the river after it called a bet or a raise on the turn."""
    menus = BetMenu(bets=(0.5,), raises=(1.0,), cap=2, donks=donks)
    spot = Spot(**TURN, stack=1000, menus=menus)

    def sizes(now: Situation) -> Iterable[float]:
        if len(now.raises) == 2:
            return []
        if now.raises:
            return [now.facing + pot_after_call(now, 20)]
        is_donk = now.actor == OOP and now.before == IP
        shares = donks if is_donk and donks is not None else (0.5,)
        return [share * pot_after_call(now, 20) for share in shares]

    check_lines(spot, poker(spot, sizes))
    after = "check, bet 10, call, 2c"
    offered = [spot.betting.action_name(child) for child in spot.betting.children(spot.betting.find(after))]
    assert offered == ["check", *{(): [], (0.25,): ["bet 10"], None: ["bet 20"]}[donks]]


def test_sizes_by_street_and_position():
    first, second, third = BetMenu(bets="50%", raises=""), BetMenu(bets="", raises="2x"), BetMenu(bets="a")
    spot = Spot(**TURN, stack=100, menus=(first, second), river_menus=(third, first))

    def sizes(now: Situation) -> Iterable[float]:
        pot, left = pot_after_call(now, 20), 100 - now.street_paid
        if now.streets == 2:
            return [[] if now.raises else [pot / 2], [2 * now.facing] if now.raises else []][now.actor]
        if now.actor == OOP:
            return [now.facing + pot, left] if now.raises else [left]
        return [] if now.raises else [pot / 2]

    check_lines(spot, poker(spot, sizes))


def chips_of(size: Any, now: Situation, pot: float, stack: float) -> float:
    """Chips of a bet, or of a raise beyond the call, from the definition of a size."""
    after_call, left = pot_after_call(now, pot), stack - max(now.paid)
    match size:
        case Multiple(factor):
            return factor * now.facing - now.facing
        case Chips(chips):
            return chips
        case Geometric(streets, most):
            streets = max((streets or now.streets) - max(len(now.raises) - 1, 0), 1)
            # The share s of the pot on every street: the pot grows by 1 + 2s on each.
            share = ((after_call + 2 * left) / after_call) ** (1 / streets) / 2 - 0.5
            if share > most:
                return most * after_call
            return left if streets == 1 else float(f"{share * after_call:.4g}")
        case _:
            return size * after_call


@pytest.mark.parametrize("seed", range(20))
def test_random_menus(seed: int):
    """All kinds of sizes, caps, thresholds and minimum bets, by street and position."""
    rng = np.random.default_rng(seed)
    pool = [0.33, 1.0, 2.5, ALL_IN, Chips(3.0), Chips(11.0), Geometric(), Geometric(2), Geometric(None, 0.8)]
    menus: list[tuple[BetMenu, BetMenu]] = []

    def drawn(sizes: list[Any], most: int) -> tuple[Any, ...]:
        return tuple(sizes[k] for k in rng.permutation(len(sizes))[: rng.integers(most + 1)].tolist())

    for _ in range(2):
        first, second = (
            BetMenu(
                bets=drawn(pool, 2) or (0.5,),
                raises=drawn([*pool, Multiple(2.2), Multiple(3.0)], 2),
                cap=int(rng.integers(1, 4)),
                add_all_in=float(rng.choice([0.0, 1.0])),
                force_all_in=float(rng.choice([0.0, 0.2])),
                donks=(None, (), drawn(pool, 2))[rng.integers(3)],
                merge_close=float(rng.choice([0.0, 0.15])),
            )
            for _ in range(2)
        )
        menus.append((first, second))
    stack, min_bet = float(rng.choice([15, 70, 300])), float(rng.choice([0, 5]))
    spot = Spot(**TURN, stack=stack, menus=menus[0], river_menus=menus[1], min_bet=min_bet)

    def sizes(now: Situation) -> Iterable[float]:
        menu = menus[2 - now.streets][now.actor]
        pot, left = pot_after_call(now, 20), stack - max(now.paid)
        if menu.cap is not None and len(now.raises) >= menu.cap:
            return
        is_donk = now.actor == OOP and now.before == IP and not now.raises
        offered = (
            menu.raises if now.raises else menu.donks if is_donk and menu.donks is not None else menu.bets
        )
        beyond: list[float] = []
        for size in (*offered, *([ALL_IN] if left <= menu.add_all_in * pot else [])):
            more = min(max(chips_of(size, now, 20, stack), min_bet, *now.raises[-1:]), left)
            remains = left - more
            if remains <= max(menu.force_all_in * (pot + 2 * more), 1e-9 * stack):
                more = left
            beyond.append(more)
        while beyond:
            largest = max(beyond)
            yield now.facing + largest
            close = (pot + largest) / (1 + menu.merge_close)
            beyond = [more for more in beyond if pot + more < close * (1 - 1e-9)]

    check_lines(spot, poker(spot, sizes))


def test_removed_lines():
    removed = ["bet 10, raise to 50", "check, bet 10, call, check, bet 20", "bet 10, call, check"]
    spot = Spot(**TURN, stack=400, menus=BetMenu(bets="50%", raises="100%", cap=2), remove=removed)

    def sizes(now: Situation) -> Iterable[float]:
        if len(now.raises) == 2:
            return []
        pot = pot_after_call(now, 20)
        return [now.facing + pot] if now.raises else [pot / 2]

    rules = poker(spot, sizes, removed=tuple(tuple(line.split(", ")) for line in removed))
    check_lines(spot, rules)
    assert spot.num_nodes == len(spot.betting.tree)
    assert dataclasses.replace(spot, remove=()).num_nodes > spot.num_nodes


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["bet 11"], "remove='bet 11': at the start 'bet 11' is not in the tree: expected one of check, bet"),
        (["bet 10, call, 2c, check"], "after 'bet 10, call' '2c' is not in the tree: expected one of check,"),
        (["check", "bet 10"], "at the start 'check' is the only action; remove the action before it"),
        (["check, check", "check, check, bet 10"], "after 'check' 'check' is not in the tree"),
        (["bet 10, fold, call"], "expected one of nothing, the hand is over"),
        ([""], "remove=['']: expected a list of lines"),
        ("check", "remove='check': expected a list of lines"),
    ],
)
def test_lines_that_cannot_be_removed(lines: Any, message: str):
    with pytest.raises(ValueError, match=r".") as error:
        Spot(**TURN, stack=50, menus=BetMenu(bets="50%", raises=()), remove=lines)
    assert message in str(error.value)


@pytest.mark.parametrize("stacks", [(90, 24), (24, 90)])
def test_of_unequal_stacks_the_smaller_one_counts(stacks: tuple[float, float]):
    """The longer stack may bet and raise more than the other has: the value is the same."""
    menus = BetMenu(bets="50%,a", raises="100%,a", cap=3)
    spot = Spot(**RIVER, stack=stacks, menus=menus)
    assert spot.name == Spot(**RIVER, stack=24, menus=menus).name

    def sizes(now: Situation) -> Iterable[float]:
        if len(now.raises) == 3:
            return []
        pot, everything = pot_after_call(now, 20), stacks[now.actor]
        return [now.facing + (pot if now.raises else pot / 2), everything, 24, 50]

    rules = poker(spot, sizes, stacks=stacks)
    assert max(paid for both in rules.lines().values() for paid in both) == 90
    value = lp.solve(rules.root(0), 0).value
    alone = solve_game(public_tree(spot.by_hands(in_range=True)), algorithm="lp").value
    assert alone == pytest.approx(value, abs=1e-9) and abs(value) > 0.1


def test_dead_cards_are_neither_held_nor_dealt():
    """Beside the same river without them, in one call: another number of hands, another batch."""
    menus = BetMenu(bets="50%", raises="100%", cap=2)
    whole = Spot(**RIVER | {"oop": "AsAh,QsQh:0.5,AdKd", "ip": "KsKh,8s8h,AdQd"}, stack=60, menus=menus)
    dead = dataclasses.replace(whole, dead="AdTd")

    def sizes(now: Situation) -> Iterable[float]:
        pot = pot_after_call(now, 20)
        return [now.facing + pot] if now.raises else [pot / 2]

    def capped(now: Situation) -> Iterable[float]:
        return [] if len(now.raises) == 2 else sizes(now)

    solver = Solver(iterations=40, dtype="float64", progress=False)
    for spot, solution in zip((whole, dead), solve_spots([whole, dead], solver=solver), strict=True):
        gains = check_solution(poker(spot, capped, dead=[*map(card_name, spot.dead_cards)]), solution)
        assert 0 < sum(gains) < 1
    assert whole.weight_of_pairs > dead.weight_of_pairs


RAKED = Spot(**RIVER, stack=100, menus=BetMenu(bets="50%,a", raises="a", cap=2), rake=0.1, rake_cap=5)


def river_sizes(now: Situation) -> Iterable[float]:
    if len(now.raises) == 2:
        return []
    return [100] if now.raises else [pot_after_call(now, 20) / 2, 100]


@pytest.mark.parametrize("changes", [{}, {"rake_cap": ALL_IN, "ip": "AcAd,KsKh:0.3"}])
def test_rake_is_that_of_the_enumerated_game(changes: dict[str, Any]):
    """Both players' EVs and gains; pots below and above the cap; a split pot (AA against AA)."""
    spot = dataclasses.replace(RAKED, **changes)
    solver = Solver(iterations=300, dtype="float64", progress=False)
    (solution,) = solve_spots([spot], solver=solver)
    rules = poker(spot, river_sizes, rake=spot.rake, rake_cap=spot.rake_cap)
    gains = check_solution(rules, solution)
    assert max(gains) < 0.05 and solution.epsilon == max(solution.gains)
    assert solution.expected_rake == pytest.approx(spot.pot - sum(solution.ev)) and solution.expected_rake > 1
    assert np.isnan(solution.exploitability) and "gains" in repr(solution)
    for player in (0, 1):
        held = spot.dealt[player] > 0
        weights = spot.dealt[player] * spot.compatible_with(spot.dealt[1 - player])
        mean = weights[held] @ solution.hand_ev[player][held]
        assert mean == pytest.approx(solution.ev[player], abs=1e-9)
        np.testing.assert_allclose(
            solution.evs()[player][held], solution.hand_ev[player][held], rtol=0, atol=1e-9
        )


def test_locks_and_rake():
    """The second player always calls half of the pot, and a best response does, too."""
    calls = Lock(line="bet 10", strategy={"call": 1.0})
    solver = Solver(iterations=300, dtype="float64", progress=False)
    (solution,) = solve_spots([RAKED], locks=[calls], solver=solver)
    rules = poker(RAKED, river_sizes, rake=RAKED.rake, rake_cap=RAKED.rake_cap)
    gains = check_solution(rules, solution, {("bet 10",): np.array([0.0, 1.0, 0.0])})
    assert max(gains) < 0.05 and solution.unlocked_gap > solution.gap + 0.1


def test_without_rake_nothing_changes(tmp_path: pathlib.Path):
    """A rake that is almost nothing gives the zero-sum solution; one call solves spots with and without."""
    plain = dataclasses.replace(RAKED, rake=0, rake_cap=ALL_IN)
    assert "rake" not in plain.name and RAKED.name.endswith(",rake=0.1,rake_cap=5)")
    solver = Solver(iterations=50, dtype="float64", progress=False)
    spots = [plain, dataclasses.replace(RAKED, rake=1e-14), RAKED]
    without, hardly, raked = solve_spots(spots, solver=solver)
    assert hardly.ev == pytest.approx(without.ev, abs=1e-9)
    assert hardly.gains == pytest.approx(without.gains, abs=1e-9)
    assert sum(without.gains) == pytest.approx(without.gap, abs=1e-12)
    assert without.exploitability == without.gap / 2 and without.expected_rake == 0
    assert sum(raked.ev) < sum(without.ev) - 1
    again = evaluate_spot(RAKED, raked.policy)
    assert (again.ev, again.gains) == (pytest.approx(raked.ev), pytest.approx(raked.gains, abs=1e-9))
    raked.save(tmp_path / "raked.npz")
    opened = SpotSolution.load(tmp_path / "raked.npz")
    assert (opened.spot, opened.ev, opened.gains) == (RAKED, raked.ev, raked.gains)
    assert set(raked.to_row()) - set(without.to_row()) == {"gains", "rake"}


def test_what_requires_a_zero_sum_game_refuses_rake():
    tree = public_tree(RAKED)
    for refused in (
        lambda: RAKED.by_hands(in_range=True),
        lambda: solve_game(tree, algorithm="lp"),
        lambda: solve_game(tree, iterations=1),
        lambda: evaluate_policy(Policy.uniform(tree)),
        lambda: refine_spots([RAKED], blueprints=[Policy.uniform(tree)]),
    ):
        with pytest.raises(ValueError, match="zero-sum"):
            refused()


OOP_RANGE = "66+,A8s+,A5s-A4s,AJo+,K9s+,KQo,QTs+,JTs,96s+,85s+,75s+,65s,54s"
IP_RANGE = "QQ-22,AQs-A2s,ATo+,K5s+,KJo+,Q8s+,J8s+,T7s+,96s+,86s+,75s+,64s+,53s+"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bets", "raises", "rake", "evs"),
    [
        ("50%,100%,a", "100%,a", {}, (9110.8, 10889.2)),
        ("50%,100%,a", "100%,a", {"rake": 0.05, "rake_cap": 3000}, (8489.4, 10164.1)),
        ("5000c,e", "2.5x,a", {"rake": 0.1}, (7922.2, 9158.5)),
    ],
)
def test_rivers_of_another_solver(bets: str, raises: str, rake: dict[str, Any], evs: tuple[float, float]):
    """EVs of postflop-solver (commit 9d1509f), whose mean gain was 2 of 20,000 chips, as here."""
    menus = BetMenu(bets=bets, raises=raises)
    spot = Spot(board="Td9d6hQc2s", oop=OOP_RANGE, ip=IP_RANGE, pot=20_000, stack=90_000, menus=menus, **rake)
    (solution,) = solve_spots([spot], solver=Solver(iterations=2000, target_gap="0.02%", algorithm="dcfr"))
    assert max(solution.gains) < 4 and solution.gap <= 4
    assert solution.ev == pytest.approx(evs, abs=4)


@pytest.mark.slow
def test_rake_on_a_turn():
    """Also after lines: both EVs sum to the pot less the rake of what is called from there on."""
    spot = Spot(**TURN, stack=30, menus=BetMenu(bets="a", raises="", cap=1), rake=0.05, rake_cap=2.5)
    rules = poker(spot, lambda now: [] if now.raises else [30], rake=0.05, rake_cap=2.5)
    solution = evaluate_spot(spot, random_play(spot, 2))
    check_solution(rules, solution)
    for line, pot, rake in (
        ("all-in 30, call", 80, 2.5),
        ("all-in 30, fold", 50, 1.0),
        ("check, check, Ah, check, check", 20, 1.0),
    ):
        values = solution.values(line)
        assert values.pot == pot
        assert sum(values.mean_ev) == pytest.approx(pot - rake)
    merged = dataclasses.replace(spot, oop="AA,QQ", ip="KK,88", board="2s3s4s6s")
    one, other = (
        solve_spots([merged], suit_isomorphism=which, solver=Solver(iterations=10, dtype="float64"))[0]
        for which in (False, True)
    )
    assert other.ev == pytest.approx(one.ev, abs=1e-9) and other.gains == pytest.approx(one.gains, abs=1e-9)


@pytest.mark.slow
def test_dead_cards_on_a_turn():
    menus = BetMenu(bets="50%", raises="", cap=1)
    spot = Spot(**TURN, stack=60, menus=menus, dead="KdKc2c3c9h")
    rules = poker(
        spot,
        lambda now: [] if now.raises else [pot_after_call(now, 20) / 2],
        dead=["Kd", "Kc", "2c", "3c", "9h"],
    )
    solution = evaluate_spot(spot, random_play(spot, 3))
    check_solution(rules, solution)
    first, second = solution.values("check, check").mean_equity
    assert first + second == pytest.approx(1)


@pytest.mark.slow
def test_a_turn_with_all_kinds_of_sizes_is_the_enumerated_game():
    """EVs and gains of random play; lines removed, no donk bets, geometric bets, multiples and chips."""
    spot = Spot(
        **TURN,
        stack=60,
        menus=(BetMenu(bets="e,4c", raises="3x", donks=()), BetMenu(bets="5c", raises="2c", cap=2)),
        remove=["bet 6, raise to 12", "check, bet 6, call, check, bet 6"],
        min_bet=6,
    )

    def sizes(now: Situation) -> Iterable[float]:
        pot, left = pot_after_call(now, 20), 60 - max(now.paid)
        if now.actor == IP:
            if len(now.raises) >= 2:
                return []
            return [now.facing + max(2, 6, now.raises[-1])] if now.raises else [6]
        if now.raises:
            return [max(3 * now.facing, now.facing + now.raises[-1])]
        if now.before == IP:
            return []
        return [
            60 - now.street_paid
            if now.streets == 1
            else float(f"{pot * ((1 + 2 * left / pot) ** 0.5 - 1) / 2:.4g}"),
            6,
        ]

    rules = poker(spot, sizes, removed=tuple(tuple(line.split(", ")) for line in spot.remove))
    check_lines(spot, rules)
    check_solution(rules, evaluate_spot(spot, random_play(spot, 5)))


def test_menus_and_names_are_read_back():
    menus = BetMenu(
        bets="33%,1/3,12.5c,2e,e150%,a", raises=(Multiple(2.5), 1.0, Geometric(most=1.5)), donks=()
    )
    assert menus.bets == (0.33, 1 / 3, Chips(12.5), Geometric(2), Geometric(most=1.5), ALL_IN)
    scope = {"BetMenu": BetMenu, "Multiple": Multiple, "Chips": Chips, "Geometric": Geometric, "inf": ALL_IN}
    for menu in (menus, BetMenu(), dataclasses.replace(menus, donks=None, cap=2, force_all_in=0.2)):
        assert eval(repr(menu), scope) == menu
    old = "BetMenu(bets=(0.5, 1.0, inf), raises=(1.0, inf), cap=None, add_all_in=0.0, force_all_in=0.0)"
    assert repr(BetMenu()) == old, "checkpoints and results of earlier versions are found by this name"
    spot = Spot(**RIVER, stack=10)
    assert spot.name.endswith(f"stack=10,menus={old})")
    changed = dataclasses.replace(spot, min_bet=2, remove=["check, all-in 10"])
    assert changed.name.endswith(f"menus={old},min_bet=2,remove=['check, all-in 10'])")
    assert hash(changed) != hash(spot) and changed.num_nodes < spot.num_nodes


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("1/2-1-a", (0.5, 1.0, ALL_IN)),
        ("50%, 1, ALL-IN", (0.5, 1.0, ALL_IN)),
        ("2.5X", (Multiple(2.5),)),
        ("3e200%", (Geometric(3, 2.0),)),
    ],
)
def test_sizes_as_they_are_written(text: str, sizes: Any):
    assert parse_sizes(text) == sizes


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("33", "'33' needs a percent sign: 33% or 3300%"),
        ("1x", "'1x' is not a size"),
        ("0c", "'0c' is not a size"),
        ("0e", "'0e' is not a size"),
        ("20c3r", "'20c3r' is not a size"),
        ("-50%", "'' is not a size"),
    ],
)
def test_texts_that_are_no_sizes(text: str, problem: str):
    with pytest.raises(ValueError, match=r".") as error:
        parse_sizes(text, "--bets")
    assert str(error.value).startswith(f"--bets={text!r}: {problem}")


@pytest.mark.parametrize(
    ("menu", "message"),
    [
        ({"bets": "2x"}, "bets='2x': Multiple(factor=2.0) is a multiple of a bet"),
        ({"donks": "2x"}, "Multiple(factor=2.0) is a multiple of a bet"),
        ({"raises": (Multiple(1),)}, "expected a factor > 1"),
        ({"bets": (Geometric(0),)}, "expected streets >= 1"),
        ({"bets": (Chips(-1),)}, "expected a number of chips > 0"),
        ({"bets": "2500%"}, "25.0 is 2500% of the pot"),
    ],
)
def test_sizes_that_do_not_fit(menu: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=r".") as error:
        BetMenu(**menu)
    assert message in str(error.value)


def test_a_minimum_is_a_number():
    with pytest.raises(ValueError, match="min_bet=-1: expected a number of chips >= 0"):
        Spot(**RIVER, stack=10, min_bet=-1)
    assert count_nodes(SpotBetting(20, 10, ((BetMenu(), BetMenu()),)))[0] > 3
