"""Hands found in histories: equal to those of the rules, or refused with two histories as the reason."""

import numpy as np
import pytest

from jaxgadget.games.game import CHANCE
from jaxgadget.games.hands import HandsGame
from jaxgadget.games.registry import load
from jaxgadget.games.stepwise import Rules, Step
from jaxgadget.tree import hands
from jaxgadget.tree.hands import find_hands
from jaxgadget.tree.history import enumerate_game

QUICK = ("kuhn_poker", "leduc_poker", "leduc_poker(num_ranks=5)", "liars_dice(dice_sides=4)")


def pays(game: HandsGame) -> np.ndarray:
    """`[n, H_0, H_1]` the payoff of every public node, 0 at inner nodes."""
    table = np.zeros((len(game.nodes), *game.num_hands))
    for group in game.ends:
        table[group.node] = group.scale[..., None, None] * group.pays[:, None]
    return table


@pytest.mark.parametrize("spec", [*QUICK, "leduc_poker(starting_player=1,raise_sizes=3-5)"])
def test_hands_in_histories_are_those_of_the_rules(spec: str):
    """Public nodes and hands in the same order, and the same payoff for every pair of hands."""
    game = load(spec)
    tree = enumerate_game(game)
    found, told = find_hands(tree), game.by_hands()
    for field in ("level_offset", "parent", "actor", "action"):
        np.testing.assert_array_equal(getattr(found.game.nodes, field), getattr(told.nodes, field))
    np.testing.assert_allclose(pays(found.game), pays(told), rtol=0, atol=1e-16)
    one, other = (x.deals[x.board] for x in (found.game, told))
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-16)
    assert len(found.game.deals) == len(told.deals)
    assert len(found.game.ends) == len(told.ends), "ends that differ in their scale alone share a table"
    assert found.game.action_names == told.action_names
    assert found.game.payoff_bounds == told.payoff_bounds
    for player in (0, 1):
        nodes = told.nodes.decisions(player)
        every = np.ones((len(told.nodes), told.num_hands[player]), np.bool_)
        one, other = (every if x.possible[player] is None else x.possible[player] for x in (found.game, told))
        np.testing.assert_array_equal(one[nodes], other[nodes])
        assert told.num_infosets(player) == len(tree.infosets[player])
        pairs = np.stack(found.infosets(player), axis=1)
        assert len(np.unique(pairs, axis=0)) == len(pairs)


class Dealt(Rules[tuple[int, ...]]):
    """A card of two for player 0, then each player acts once; `flaw` adds later private information."""

    actions = ("stop", "go")

    def __init__(self, flaw: str) -> None:
        self.name, self.flaw = f"dealt {flaw}", flaw

    def initial_state(self) -> tuple[int, ...]:
        return ()

    def actors(self, state: tuple[int, ...]) -> tuple[int, ...]:
        if self.flaw == "turn" and len(state) == 1:
            return (0,) if state == (0,) else (1,)
        if self.flaw == "over" and state == (1, 1):
            return ()
        if self.flaw == "at once" and len(state) == 1:
            return (0, 1)
        late = self.flaw == "nobody's card"
        return ((CHANCE,), (0,), (CHANCE,) if late else (1,), (1,) if late else (), ())[len(state)]

    def legal_actions(self, state: tuple[int, ...], player: int) -> list[int]:
        return [0] if self.flaw == "choice" and state == (1,) else [0, 1]

    def chance_outcomes(self, state: tuple[int, ...]) -> list[tuple[int, float]]:
        return [(0, 0.5), (1, 0.5)]

    def step(self, state: tuple[int, ...], move) -> Step[tuple[int, ...]]:
        if self.flaw == "at once" and len(state) == 1:
            return Step((*state, 2, 0, 0), public=move, reward=float(move[0]))
        after, reward = (*state, move), float(move) if state else 0.0
        if not state:
            return Step(after, public="dealt", private=(move, None))
        if self.flaw == "peek" and len(after) == 2:
            return Step(after, reward, public=move, private=(None, after[0]))
        if self.flaw == "nobody's card" and len(after) == 3:
            return Step(after, public="dealt")
        if self.flaw == "hidden" and len(after) == 2:
            return Step(after, reward, public="moved")
        return Step(after, reward, public=move)


def test_a_user_defined_game_is_found():
    found = find_hands(enumerate_game(load(Dealt("not at all"))))
    assert found.game.num_hands == (2, 1)
    assert len(found.game.nodes) == 7
    assert found.game.action_names == ("stop", "go")
    np.testing.assert_array_equal(found.game.deals, [[[0.5], [0.5]]])


@pytest.mark.parametrize(
    ("flaw", "why"),
    [
        ("turn", "history"),
        ("over", "history"),
        ("choice", "player 0"),
        ("peek", "player 1"),
        ("nobody's card", "player 1"),
        ("hidden", "player 1"),
        ("at once", "once"),
    ],
)
def test_games_without_a_form_by_hands(flaw: str, why: str):
    with pytest.raises(ValueError, match=why) as error:
        find_hands(enumerate_game(load(Dealt(flaw))))
    assert str(error.value).startswith(f"dealt {flaw} has no hand form: ")


def test_truncated_trees_and_large_tables_are_refused(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ValueError, match="whole game"):
        find_hands(enumerate_game(load("kuhn_poker"), depth=1))
    monkeypatch.setattr(hands, "MAX_PAYS", 80)
    with pytest.raises(ValueError, match="9 public nodes and 3 × 3 hands"):
        find_hands(enumerate_game(load("kuhn_poker")))
