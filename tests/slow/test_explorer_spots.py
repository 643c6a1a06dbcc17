"""Numbers of spots of hold'em in the explorer, and `--explore` of commands whose results have no file."""

from __future__ import annotations

import base64
import gzip
import json
import pathlib
import re

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.explorer.nodes import find_nodes
from jaxgadget.explorer.sources import find_sources
from jaxgadget.explorer.values import find_numbers
from jaxgadget.games.game import CHANCE
from tests.cli.commands import run

RIVER = ("--board", "Td9d6hQc2s", "--oop", "AA,KQs", "--ip", "KK,QJs", "--pot", 100, "--stack", 100)


@pytest.mark.parametrize(
    ("arguments", "lanes"),
    [
        (("solve", "kuhn_poker"), 1),
        (("nested", "kuhn_poker", "--blueprint", "uniform", "--gadget", "resolving", "--iterations", 5), 4),
        (("respond", "kuhn_poker", "--model", "uniform", "--p", 0.5, "--iterations", 5), 2),
        (("holdem", *RIVER, "--iterations", 5), 1),
        (("holdem", *RIVER, "--iterations", 5, "--gadget", "resolving"), 4),
    ],
)
def test_commands_write_pages(arguments: tuple[object, ...], lanes: int, tmp_path: pathlib.Path) -> None:
    page = tmp_path / "page.html"
    result = run(*arguments, "--explore", page)
    assert result.exit_code == 0 and f"Wrote the page to {page}" in result.stdout, result.stderr
    found = re.search(r'id="header">(.*?)</script>', page.read_text("utf-8"))
    assert found is not None
    (view,) = json.loads(gzip.decompress(base64.b64decode(found[1])))["views"]
    assert len(view["lanes"]) == lanes


def test_numbers_of_a_turn_are_the_solutions() -> None:
    """Ranges, strategies, EVs and equities; on a river they are those of the river as a spot of its own."""
    menus = jg.BetMenu(bets=(1.0,), raises=(), cap=1)
    ranges = {"oop": "AA,KQs,76s:0.5", "ip": "KK,QJs,A5s"}
    turn = jg.Spot(board="Td9d6hQc", pot=100, stack=300, menus=menus, **ranges)
    (solution,) = jg.solve_spots([turn], iterations=30)
    nodes = find_nodes(solution.policy.tree, turn)
    numbers = find_numbers(nodes, solution.policy)
    for player in (0, 1):
        cells, seat = nodes.cells[player], numbers.seats[player]
        start = cells.at(0)
        hands = cells.hand[start]
        np.testing.assert_allclose(seat.ev[start, 0], solution.hand_ev[player][hands], atol=1e-4)
        np.testing.assert_allclose(seat.equity[start, 0], solution.equity[player][hands])
        assert seat.mean_ev[0, 0] == pytest.approx(solution.ev[player], abs=1e-4)
        for node in range(0, len(nodes), 7):
            at = cells.at(node)
            if at.stop == at.start:
                continue
            line = nodes.line(node)
            np.testing.assert_allclose(
                seat.weight[at, 0], solution.weights(line)[player][cells.hand[at]], atol=1e-9
            )
            if solution.spot.betting.actor(line) == player:
                slots = slice(cells.first_slot[at.start], cells.first_slot[at.stop])
                shown = seat.probability[slots, 0].reshape(at.stop - at.start, -1)
                rows = np.stack(list(solution.strategy(line).values()), axis=1)
                np.testing.assert_allclose(shown, rows[cells.hand[at]])
                frequency = seat.weight[at, 0] @ shown
                np.testing.assert_allclose(frequency, list(solution.frequencies(line).values()), atol=1e-9)
                evs = np.stack(list(solution.action_evs(line).values()), axis=1)
                found = seat.action_ev[slots, 0].reshape(shown.shape)
                np.testing.assert_allclose(found, evs[cells.hand[at]], atol=1e-9)
            values = solution.values(line)
            np.testing.assert_allclose(seat.ev[at, 0], values.ev[player][cells.hand[at]], atol=1e-9)
            np.testing.assert_allclose(seat.equity[at, 0], values.equity[player][cells.hand[at]], atol=1e-12)
            assert seat.mean_ev[node, 0] == pytest.approx(values.mean_ev[player], abs=1e-9)
    line = "check, bet 100, call, 2s"
    node = nodes.find(line)
    played = [np.zeros(1326), np.zeros(1326)]
    for player, reach in enumerate(solution.played(line)):
        played[player][turn.hands] = reach
    first, second = (jg.HandRange(weights) for weights in played)
    river = jg.Spot(board="Td9d6hQc2s", oop=first, ip=second, pot=300, stack=200, menus=menus)
    (alone,) = [jg.evaluate_spot(river, jg.Policy.uniform(jg.public_tree(river)))]
    for player in (0, 1):
        cells = nodes.cells[player]
        at = cells.at(node)
        names = [turn.hand_names[hand] for hand in cells.hand[at]]
        expected = dict(zip(river.hand_names, alone.equity[player], strict=True))
        possible = numbers.seats[player].reach[at, 0] > 0
        shown = numbers.seats[player].equity[at, 0][possible]
        wanted = [expected[name] for name, is_possible in zip(names, possible, strict=True) if is_possible]
        np.testing.assert_allclose(shown, wanted, atol=1e-12)


def test_numbers_of_a_flop_are_the_solutions() -> None:
    """The page has the flop's nodes, and counts the turns that it omits; lanes are compared."""
    dead = "".join(
        rank + suit
        for rank in "23456789TJQKA"
        for suit in "cdhs"
        if rank + suit not in "2s 3h 4d 6d 7c 8s 9h Qh Qs Kh Ks Ah As".split()
    )
    flop = jg.Spot(
        board="2s3h4d",
        oop="AsAh,QsQh:0.5",
        ip="KsKh,9h8s",
        pot=20,
        stack=40,
        dead=dead,
        menus=jg.BetMenu(bets=(0.5,), raises=(1.0,)),
        turn_menus=jg.BetMenu(bets=(1.0,), raises=()),
    )
    solutions = [*jg.solve_spots([flop], iterations=10), *jg.solve_spots([flop], iterations=30)]
    (source,) = find_sources(solutions)
    assert source.take([1]).worth is not None
    nodes, numbers = source.nodes, find_numbers(source.nodes, source.policy, source.worth)
    deals = [node for node in range(len(nodes)) if nodes.actor[node] == CHANCE]
    lines = [nodes.line(node) for node in deals]
    assert lines[:3] == ["check, check", "bet 10, call", "check, bet 10, call"] and len(lines) == 5
    document = jg.explore(solutions).document.header["views"][0]
    assert [document["tree"]["omitted"][node] for node in deals] == [10] * len(deals)
    assert document["num_omitted"] == 0 and "Turns have pages of their own" in document["message"]
    for lane, solution in enumerate(solutions):
        for player in (0, 1):
            cells, seat = nodes.cells[player], numbers.seats[player]
            for node in range(len(nodes)):
                at, line = cells.at(node), nodes.line(node)
                reached = solution.pairs(line) / solution.pairs()
                assert numbers.reach[node, lane] == pytest.approx(reached, abs=1e-12)
                if at.stop == at.start:
                    continue
                values, hands = solution.values(line), cells.hand[at]
                np.testing.assert_allclose(seat.ev[at, lane], values.ev[player][hands], atol=1e-9)
                np.testing.assert_allclose(seat.equity[at, lane], values.equity[player][hands], atol=1e-9)
                np.testing.assert_allclose(seat.weight[at, lane], solution.weights(line)[player][hands])
                assert seat.mean_ev[node, lane] == pytest.approx(values.mean_ev[player], abs=1e-9)
                if solution.actor(line) == player:
                    slots = slice(cells.first_slot[at.start], cells.first_slot[at.stop])
                    for shown, wanted in (
                        (seat.probability, solution.strategy(line)),
                        (seat.action_ev, solution.action_evs(line)),
                    ):
                        expected = np.stack(list(wanted.values()), axis=1)[hands]
                        np.testing.assert_allclose(
                            shown[slots, lane].reshape(expected.shape), expected, atol=1e-9
                        )
