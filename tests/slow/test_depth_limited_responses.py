"""Table 1 of Milec, Kubíček and Lisý (2024): depth-limited best responses to a uniform opponent.

The paper counts the actions that follow a player's own before its limit. Limits at own decisions and plans
that are followed to their end give its columns for 1 and 3; column 5 results from searches of five moves
after every move.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import jaxgadget as jg
from tests.solving import nested_exactly, settings

pytestmark = pytest.mark.optimised

GOOFSPIEL = "goofspiel(imp_info=True,num_cards=4,points_order=descending,returns_type=point_difference)"
GAMES = {"Leduc": "leduc_poker", "IIGS4": f"openspiel:turn_based_simultaneous_game(game={GOOFSPIEL})"}
PRINTED = {"Leduc": (74.4, 96.0, 97.1), "IIGS4": (98.5, 100.0, 100.0)}
SCHEDULES: tuple[dict[str, Any], ...] = (
    {"limit": "own", "depth": 1},
    {"limit": "own", "depth": 3, "step": 2},
    {"limit": "moves", "depth": 5, "step": 1},
)


@pytest.mark.parametrize("name", GAMES)
def test_shares_of_the_best_response(name: str) -> None:
    if name != "Leduc":
        pytest.importorskip("pyspiel")
    tree = jg.enumerate_game(jg.load(GAMES[name]))
    opponent = jg.Opponent(jg.Policy.uniform(tree), 1.0)
    whole = nested_exactly(tree, opponent=opponent, depth=99)
    value = whole.game_value
    for schedule, printed in zip(SCHEDULES, PRINTED[name], strict=True):
        found = nested_exactly(tree, opponent=opponent, value=value, **settings(**schedule))
        share = 100 * found.gain[0] / whole.gain[0]
        print(f"{name}, {schedule}: {share:.1f} % of the best response's gain, printed {printed} %")
        assert share == pytest.approx(printed, abs=0.06)
        objectives = found.objectives[:, 0]
        assert all(after >= before - 1e-7 for before, after in itertools.pairwise(objectives))


def test_a_robust_response_in_leduc_poker_has_low_exploitability() -> None:
    """As in Figure 5: joint levels satisfy p·G ≥ (1−p)·E, and gain more than the best equilibrium."""
    tree = jg.enumerate_game(jg.load("leduc_poker"))
    model = jg.make_blueprints(tree, "cfr:10", progress=False)
    ps = [0.1, 0.5]
    found = nested_exactly(tree, opponent=jg.Opponent(model, ps), limit="own", depth=1)
    low, high = found.game_value
    best = jg.best_nash(tree, model)
    nash = float(best.value_against_model[0]) - (low + high) / 2
    print(f"best equilibrium gains {nash:.4f}")
    for lane, p in enumerate(ps):
        gain, lost = found.gain[lane], found.nested_exploitability[lane]
        most = found.exploitability_bound[lane]
        print(f"p = {p}: gain {gain:.4f}, exploitability {lost:.4f}, at most {most:.4f}")
        assert lost <= p * gain / (1 - p) + 1e-6
    assert found.gain[1] > nash
