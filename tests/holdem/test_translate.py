"""Blueprints of other menus: the result of `translate` in the histories, or an error."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.games.game import ACTOR_BIT
from jaxgadget.games.sizes import ALL_IN
from jaxgadget.holdem.betting import BetMenu
from jaxgadget.holdem.solve import evaluate_spot
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.strategies import action_nodes, rows_to_policy
from jaxgadget.holdem.translate import translate_solution
from jaxgadget.policy.evaluate import normalise_rows
from jaxgadget.tree.public import public_tree
from jaxgadget.util.arrays import FloatArray
from tests.holdem.enumerated import SpotRules
from tests.holdem.test_solve import random_play

Play: TypeAlias = Callable[[Spot, int], jg.Policy]
"""Policies of a spot by seed."""

COARSE = Spot(
    board="Td9d6hQc2s",
    oop="AsKd,QsQh",
    ip="AcKh,8d7d",
    pot=60,
    stack=400,
    menus=BetMenu(bets=(0.5, 1.5), raises=(1.0,), cap=2),
)


TURN = Spot(
    board="Td9d6hQc",
    oop="AsKd,QsQh",
    ip="AcKh",
    pot=100,
    stack=200,
    menus=BetMenu(bets=(1.0, ALL_IN), raises=(), cap=1),
)


def sparse_play(spot: Spot, seed: int) -> jg.Policy:
    """Random play in which a hand takes an action often or never."""
    policy = random_play(spot, seed)
    pair: list[FloatArray] = []
    for player, rows in enumerate(policy.probabilities):
        infosets = policy.tree.infosets[player]
        largest = np.maximum.reduceat(rows, infosets.first_sequence - 1, axis=0)[infosets.infoset[1:]]
        pair.append(normalise_rows(np.where(rows > 0.6 * largest, rows, 0), infosets.infoset[1:]))
    return jg.Policy(policy.tree, (pair[0], pair[1]), ("sparse",))


@pytest.mark.parametrize("play", [random_play, sparse_play])
@pytest.mark.parametrize("rule", ["pseudo-harmonic", "nearest"])
@pytest.mark.parametrize(
    "menus",
    [
        BetMenu(bets=(0.25, 0.5, 1.0, ALL_IN), raises=(0.75, ALL_IN), cap=3),
        (BetMenu(bets=(1.0,), raises=()), BetMenu(bets=(0.7, 2.0), raises=(1.0,), cap=2)),
    ],
)
def test_another_menu_is_met_as_histories_meet_it(menus: Any, rule: str, play: Play):
    """Weighted shadows, own bets that are unavailable, raises that the blueprint lacks."""
    check_against_histories(COARSE, dataclasses.replace(COARSE, menus=menus), rule, play(COARSE, 1))


@pytest.mark.slow
@pytest.mark.parametrize("play", [random_play, sparse_play])
def test_a_turn_is_met_as_histories_meet_it(play: Play):
    """Shadows that have ended remain while play continues."""
    menus = BetMenu(bets=(1.5,), raises=(ALL_IN,))
    fine = dataclasses.replace(TURN, menus=menus, river_menus=BetMenu(bets=(ALL_IN,), raises=()))
    check_against_histories(TURN, fine, "pseudo-harmonic", play(TURN, 1))


def check_against_histories(coarse: Spot, fine: Spot, rule: str, policy: jg.Policy) -> None:
    solution = evaluate_spot(coarse, policy)
    listed: dict[str, list[float]] = {}
    small, large = (jg.enumerate_game(jg.load(SpotRules(spot))) for spot in (coarse, fine))
    for line in lines(coarse):
        player = solution.actor(line)
        strategy = solution.strategy(line)
        for hand in np.flatnonzero(coarse.range_weights[player]).tolist():
            row = sorted(
                (coarse.betting.names.index(action), float(p[hand])) for action, p in strategy.items()
            )
            listed[f"{player} {hand} {line}"] = [p for _, p in row]
    possible = {*small.infoset_names[0], *small.infoset_names[1]}  # without hands that contain the river card
    listed = {infostate: row for infostate, row in listed.items() if infostate in possible}
    expected = jg.translate(jg.Policy.from_dict(small, listed), large, rule).to_frame()
    found = evaluate_spot(fine, translate_solution(solution, fine, rule))
    rows = {line: found.strategy(line) for line in lines(fine)}
    assert len(expected) > 20
    columns = (expected[name].tolist() for name in ("infostate", "action", "probability"))
    for infostate, action, probability in zip(*columns, strict=True):
        _, hand, line = (*infostate.split(" ", 2), "")[:3]
        found_probability = rows[line][fine.betting.names[action]][int(hand)]
        assert found_probability == pytest.approx(probability, abs=1e-12)


def lines(spot: Spot) -> list[str]:
    """The betting lines of all nodes where a player acts."""
    tree = spot.betting
    return [tree.line(node) for node in np.flatnonzero(np.isin(tree.tree.actor, ACTOR_BIT)).tolist()]


def test_a_bet_that_was_taken_for_all_in_is_called_to_the_end():
    """A bet of 1.5 pots maps to one pot with 0.4, which folds to all-in, and otherwise to all-in."""
    betting = TURN.betting
    pair: list[FloatArray] = []
    for player in (0, 1):
        children = action_nodes(betting.tree, player)
        answers = [("check", "call" if betting.card[child] < 0 else "fold") for child in children]
        taken = [betting.action_name(c) in names for c, names in zip(children, answers, strict=True)]
        pair.append(np.repeat(np.array(taken, np.float64)[:, None], len(TURN.hands), axis=1))
    solution = evaluate_spot(TURN, rows_to_policy(public_tree(TURN), (pair[0], pair[1]), "folds rivers"))
    fine = dataclasses.replace(TURN, menus=BetMenu(bets=(1.5, ALL_IN), raises=()))
    found = evaluate_spot(fine, translate_solution(solution, fine))
    for line, action, probability in (
        ("check, bet 150", "call", 1.0),
        ("check, bet 150, call, 2c", "check", 1.0),
        ("check, bet 150, call, 2c, check, all-in 50", "call", 0.6),
        ("check, bet 150, call, 2c, check, all-in 50", "fold", 0.4),
    ):
        possible = ["2c" not in line or "2c" not in name for name in fine.hand_names]
        np.testing.assert_allclose(found.strategy(line)[action][possible], probability, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"board": "Td9d6hQc3s"}, "board="),
        ({"pot": 61}, "pot="),
        ({"stack": 401}, "stack="),
    ],
)
def test_other_spots_are_refused(changes: dict[str, Any], message: str):
    solution = evaluate_spot(COARSE, random_play(COARSE, 2))
    with pytest.raises(ValueError, match=message):
        translate_solution(solution, dataclasses.replace(COARSE, **changes))


def test_a_call_that_was_removed_is_replaced_by_the_smallest_bet():
    """A shadow that is over checks or calls; where it can do neither, it bets or folds."""
    forced = dataclasses.replace(COARSE, remove=["check, check", "bet 30, call"])
    translated = evaluate_spot(
        forced, translate_solution(evaluate_spot(COARSE, random_play(COARSE, 1)), forced)
    )
    for line, actions in (("check", {"bet 30", "bet 90"}), ("bet 30", {"fold", "raise to 150"})):
        strategy = translated.strategy(line)
        assert set(strategy) == actions
        np.testing.assert_allclose(sum(strategy.values()), 1, rtol=0, atol=1e-12)
