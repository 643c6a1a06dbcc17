"""Bots of OpenSpiel as players of matches."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from pandas.testing import assert_frame_equal

from jaxgadget import OpenSpielBot, Policy, enumerate_game, load, play_players
from tests.trees import tree_of

pyspiel = pytest.importorskip("pyspiel")

GAMES = ["leduc_poker", "goofspiel(imp_info=True,num_cards=3)"]


class Reader(pyspiel.Bot):
    """Plays a policy by the strings of OpenSpiel's states; says its probabilities, or draws an action."""

    def __init__(self, policy: Policy, seat: int, draws: bool = False):
        pyspiel.Bot.__init__(self)
        self.policy, self.seat, self.draws = policy, seat, draws
        self.rng, self.moves, self.steps = np.random.default_rng(seat), list[Any](), 0

    def restart(self) -> None:
        self.moves = []

    def inform_action(self, state: Any, player: int, action: int) -> None:
        assert player == state.current_player() == 1 - self.seat
        self.moves.append(action)

    def provides_force_action(self) -> bool:
        return True

    def force_action(self, state: Any, action: int) -> None:
        assert state.current_player() == self.seat
        self.moves.append(action)

    def inform_actions(self, state: Any, actions: list[int]) -> None:
        self.moves.append(tuple(actions))

    def provides_policy(self) -> bool:
        return not self.draws

    def step_with_policy(self, state: Any) -> Any:
        moves = [tuple(each) if isinstance(each, list) else each for each in self.moves]
        known = [each for each in _moves(state) if each is not None]
        assert moves == known
        policy = list(self.policy[self.seat, state.information_state_string(self.seat)].items())
        return policy, policy[0][0]

    def step(self, state: Any) -> int:
        self.steps += 1
        actions, shares = zip(*self.step_with_policy(state)[0], strict=True)
        return int(self.rng.choice(actions, p=shares))


def _moves(state: Any) -> list[Any]:
    """The players' moves of a state, None for chance; simultaneous ones as pairs."""
    replayed, found = state.get_game().new_initial_state(), list[Any]()
    history = state.history()
    while history:
        if replayed.is_simultaneous_node():
            joint, history = history[:2], history[2:]
            found.append(tuple(joint))
            replayed.apply_actions(joint)
        else:
            action, history = history[0], history[1:]
            found.append(None if replayed.is_chance_node() else action)
            replayed.apply_action(action)
    return found


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("in_tree", [True, False])
def test_a_bot_that_reads_a_policy_plays_it(name: str, in_tree: bool) -> None:
    tree = tree_of(name)
    policy, other = Policy.dirichlet(tree, 0), Policy.dirichlet(tree, 1)
    players = {"policy": policy, "other": other}
    bots = (Reader(policy, 0), Reader(policy, 1))
    where: Any = tree if in_tree else tree.game
    expected = play_players(where, players, matches=60, seed=2)
    found = play_players(where, {**players, "policy": bots}, matches=60, seed=2)
    assert_frame_equal(found.table, expected.table)
    assert found.table["mean_return"].abs().max() > 0
    assert found.moves("policy", "other", 7) == expected.moves("policy", "other", 7)


def test_a_bot_without_probabilities_draws_in_every_game() -> None:
    """One draw a decision, also where games have the same history: returns are independent."""
    game = load("kuhn_poker")
    tree = enumerate_game(game)
    policy = Policy.dirichlet(tree, 0)
    pair = (Reader(policy, 0, draws=True), Reader(policy, 1, draws=True))
    matches = 400
    played = play_players(tree, {"bot": pair, "uniform": Policy.uniform(tree)}, matches=matches, seed=1)
    decisions = 0
    for match in range(matches):
        for seat, moves in enumerate(played.moves("bot", "uniform", match)):
            decisions += sum(number % 2 == seat for number in range(len(moves) - 2))
    assert pair[0].steps + pair[1].steps == decisions
    expected = play_players(tree, {"bot": policy, "uniform": Policy.uniform(tree)}, matches=20_000, seed=2)
    found, true = played.table.iloc[0], expected.table.iloc[0]
    assert abs(found["mean_return"] - true["mean_return"]) < 3 * found["return_ci95"]


@pytest.mark.parametrize(
    ("name", "bot", "message"),
    [
        ("kuhn_poker", "uniform_randon", "expected a name like 'uniform_random'"),
        ("kuhn_poker", "fixed_action_preference(actions=1)", "cannot load it"),
        ("leduc_poker(num_ranks=2)", "uniform_random", "has no parameter num_ranks"),
        ("kuhn_poker", 3, "expected a `Player` or a policy"),
    ],
)
def test_what_openspiel_does_not_have_is_refused(name: str, bot: Any, message: str) -> None:
    tree = tree_of(name)
    with pytest.raises(ValueError, match=message):
        player = OpenSpielBot(bot) if isinstance(bot, str) else bot
        play_players(tree, {"bot": player, "uniform": Policy.uniform(tree)}, matches=2, seed=0)


def test_illegal_actions_other_rules_and_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tree_of("kuhn_poker")

    class Cheat(Reader):
        def step(self, state: Any) -> int:
            return 7

    players: dict[str, Any] = {"uniform": Policy.uniform(tree)}
    cheat = Cheat(Policy.uniform(tree), 0, draws=True)
    with pytest.raises(ValueError, match="plays 7 after history"):
        play_players(tree, players | {"bot": (cheat, cheat)}, matches=2, seed=0)
    honest = OpenSpielBot("uniform_random")
    monkeypatch.setattr("jaxgadget.policy.bots.load_game", lambda name: pyspiel.load_game("leduc_poker"))
    with pytest.raises(ValueError, match="has other moves"):
        play_players(tree, players | {"bot": honest}, matches=2, seed=0)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    for bot in ("uniform_random", cheat):
        with pytest.raises(ImportError, match="pip install open-spiel"):
            play_players(tree, players | {"bot": OpenSpielBot(bot)}, matches=2, seed=0)
    with pytest.raises(ValueError, match="one for each seat"):
        OpenSpielBot(3)  # pyright: ignore[reportArgumentType]
