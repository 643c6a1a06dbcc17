"""Rules by states, converted to levels."""

import dataclasses
import enum
import itertools
import math
import re
from typing import Any, NamedTuple

import numpy as np
import pytest

from jaxgadget.games.game import TERMINAL, Budget, TooLargeError
from jaxgadget.games.kuhn import KuhnPoker
from jaxgadget.games.stepwise import CHANCE, Rules, Step, StepwiseGame
from jaxgadget.tree.cut import cut
from jaxgadget.tree.history import enumerate_game


class Deal(NamedTuple):
    cards: str = ""
    line: str = ""


class Kuhn(Rules[Deal]):
    """Kuhn poker, cards dealt one by one as in OpenSpiel."""

    name = "kuhn"
    actions = ("pass", "bet")

    def initial_state(self):
        return Deal()

    def actors(self, state):
        if len(state.cards) < 2:
            return (CHANCE,)
        return () if state.line in ("pp", "bp", "bb", "pbp", "pbb") else (len(state.line) % 2,)

    def legal_actions(self, state, player):
        return (1, 0)

    def chance_outcomes(self, state):
        left = [k for k in range(3) if "JQK"[k] not in state.cards]
        return [(k, 1 / len(left)) for k in reversed(left)]

    def step(self, state, move):
        if len(state.cards) < 2:
            card = "JQK"[move]
            seen = (card, None) if not state.cards else (None, card)
            return Step(Deal(state.cards + card), private=seen)
        after = Deal(state.cards, state.line + "pb"[move])
        return Step(after, reward=self.payoff(after), public=self.actions[move])

    def payoff(self, deal):
        won = 1 if "JQK".index(deal.cards[0]) > "JQK".index(deal.cards[1]) else -1
        return {"pp": won, "bp": 1, "pbp": -1, "bb": 2 * won, "pbb": 2 * won}.get(deal.line, 0)


@dataclasses.dataclass
class Toy(Rules[Any]):
    """Player 0 moves, player 1 moves; every method can be replaced by an invalid one."""

    name: str = "toy"
    actions: Any = ("left", "right")
    actors_of: Any = dataclasses.field(default_factory=lambda: {0: (0,), 1: (1,), 2: ()})
    legal: Any = (0, 1)
    outcomes: Any = ((0, 0.5), (1, 0.5))
    result: Any = dataclasses.field(default_factory=dict)
    strings: Any = None

    def initial_state(self):
        return 0

    def actors(self, state):
        return self.actors_of[state]

    def legal_actions(self, state, player):
        return self.legal

    def chance_outcomes(self, state):
        return self.outcomes

    def step(self, state, move):
        if callable(self.result):
            return self.result(state, move)
        return Step(state + 1, **self.result)

    def infostate_string(self, state, player):
        return self.strings and self.strings(state, player)


def same_partition(first, second):
    pairs = len(set(zip(first.tolist(), second.tolist(), strict=True)))
    return pairs == len(np.unique(first)) == len(np.unique(second))


def test_kuhn_is_the_built_in_game():
    mine, theirs = enumerate_game(StepwiseGame(Kuhn())), enumerate_game(KuhnPoker())
    for field in ("level_offset", "parent", "actor", "action", "num_moves", "payoff"):
        np.testing.assert_array_equal(getattr(mine, field), getattr(theirs, field), err_msg=field)
    np.testing.assert_allclose(mine.chance, theirs.chance, rtol=1e-15)
    for player in (0, 1):
        assert same_partition(mine.infoset[player], theirs.infoset[player])
    assert same_partition(mine.public[4:], theirs.public[4:])  # below the deals


def test_default_infostate_strings_are_readable_unique_and_found():
    tree = enumerate_game(StepwiseGame(Kuhn()))
    assert set(tree.infoset_names[0]) == {
        f"0: [{c}]{line}" for c in "JQK" for line in ("", ", >pass pass, bet")
    }
    assert set(tree.infoset_names[1]) == {f"1: [{c}], {line}" for c in "JQK" for line in ("pass", "bet")}
    assert tree.find_infoset("1: [Q], bet")[0] == 1
    assert [tree.game.action_string(0, a) for a in range(tree.game.num_actions)] == ["pass", "bet"]


class Suit(enum.Enum):
    HEARTS = 1


def test_observations_read_the_same_in_every_run():
    """Sets are sorted (their order depends on the hash seed); enum members and NumPy numbers are plain."""
    seen = (frozenset("abcdefgh"), Suit.HEARTS, np.int64(3), -0.5, "two words", "", (1,), True)
    game = StepwiseGame(Toy(result=lambda s, m: Step(s + 1, public=seen)))
    text = "({a, b, c, d, e, f, g, h}, HEARTS, 3, -0.5, 'two words', '', (1), True)"
    assert game.infostate_string(1, (0,)) == f"1: {text}"


def test_strings_distinguish_similar_observations():
    """One step with two observations differs from two steps with one each; separators are quoted."""
    seen = {
        (0, 0): ("a", ("b", None)),  # in one step
        (0, 1): ("a, [b]", (None, None)),  # a text that contains the separator
        (1, 0): ("a", (None, None)),
        (1, 1): (("a", "b"), (None, None)),
    }

    def step(state, move):
        if isinstance(state, tuple):
            return Step(state, public="end")
        public, private = seen[state, move]
        return Step(1 if state == 0 else 2, public=public, private=private)

    game = StepwiseGame(
        Toy(
            actors_of={0: (1,), 1: (1,), 2: (0,), 3: ()}, result=lambda s, m: step(s, m) if s < 2 else Step(3)
        )
    )
    tree = enumerate_game(game)
    assert sorted(tree.infoset_names[0]) == [
        "0: 'a, [b]', (a, b)",
        "0: 'a, [b]', a",
        "0: a [b], (a, b)",
        "0: a [b], a",
    ]


def test_unobserved_steps_keep_the_infostate():
    tree = enumerate_game(StepwiseGame(Toy()))
    assert len(set(tree.infostate[1, :3].tolist())) == 1  # player 0's move, at another length
    assert len(set(tree.infostate[0, 1:].tolist())) == 2  # player 0 knows its own move
    assert len(set(tree.public.tolist())) == 1


def test_public_observations_make_public_states():
    tree = enumerate_game(StepwiseGame(Toy(result=lambda s, m: Step(s + 1, public=m if s == 0 else None))))
    assert len(set(tree.public[:3].tolist())) == 3
    np.testing.assert_array_equal(tree.public[3:], tree.public[tree.parent[3:]])
    assert cut(tree, "depth:1").num_subgames == 2


def test_simultaneous_moves_are_one_step():
    tree = enumerate_game(
        StepwiseGame(
            Toy(actors_of={0: (0, 1), 1: ()}, result=lambda s, m: Step(s + 1, reward=float(m[0] == m[1])))
        )
    )
    assert tree.num_histories == 5 and tree.num_moves.max() == 1
    assert [tree.moves(h) for h in range(1, 5)] == [((a, b),) for a in (0, 1) for b in (0, 1)]
    np.testing.assert_array_equal(tree.payoff[1:], [1, 0, 0, 1])


def test_rewards_add_up_and_may_be_constant_sum():
    tree = enumerate_game(
        StepwiseGame(Toy(result=lambda s, m: Step(s + 1, reward=(10.0**s * m, 5 - 10.0**s * m))))
    )
    assert tree.constant == 10
    for level in tree.game.levels(Budget("toy")):
        assert (level.returns[:, level.actor != TERMINAL] == 0).all()
    np.testing.assert_array_equal(tree.payoff[3:], np.array([0, 10, 1, 11]) - 5)


def test_the_budget_stops_an_endless_game_before_it_is_made():
    made = []

    def step(state, move):
        made.append(move)
        return Step(0)

    game = StepwiseGame(Toy(result=step))
    with pytest.raises(ValueError, match="max_histories="):
        for _ in game.levels(Budget(game.name, 100)):
            pass
    assert len(made) == 62  # levels 1 … 5


def test_a_level_that_does_not_fit_in_memory_is_refused_while_its_moves_are_counted():
    counted = []

    class Counted(StepwiseGame):
        def branches(self, node):
            counted.append(node)
            return super().branches(node)

    game = Counted(Toy(result=lambda state, move: Step(0)))
    budget = Budget(game.name, history_bytes=game.history_bytes, memory=50_000)
    with pytest.raises(TooLargeError, match=re.escape("51 kB of memory, but 50 kB is available")):
        for _ in game.levels(budget):
            pass
    assert len(counted) == 25  # two moves each: the root's, and those of 24 histories, 51 of which are built


def test_progress_of_an_enumeration_is_reported_history_by_history():
    reports = []
    game = StepwiseGame(Toy(result=lambda state, move: Step(0)))
    with pytest.raises(TooLargeError):
        for _ in game.levels(Budget(game.name, 3000, report=reports.append)):
            pass
    assert {1000, 2000} <= set(reports) and sorted(reports) == reports


class Plain:
    """A class whose repr is an address."""


class Mute:
    def __repr__(self):
        return "mute"


BAD = [
    ({"name": ""}, r"Toy: name='', .*expected the game's name"),
    ({"actions": ()}, r"actions=\[\]: expected .*distinct names"),
    ({"actions": ("a", "a")}, r"actions=\['a', 'a'\]: expected .*distinct names"),
    (
        {"actors_of": {0: (2,)}},
        r"toy: actors\(\) returned \(2,\) after history \(\); expected \(0,\), \(1,\)",
    ),
    ({"actors_of": {0: 0}}, r"actors\(\) returned 0 after history \(\)"),
    ({"actors_of": {0: (0,), 1: (1, CHANCE)}}, r"actors\(\) returned \(1, 4\) after history \(0,\)"),
    ({"actors_of": {0: (0,), 1: (1,)}, "legal": ()}, r"player 0 acts, but legal_actions\(\) returned \(\)"),
    ({"legal": (0, 2)}, r"player 0 acts, but .*returned \(0, 2\) after history \(\).*\('left', 'right'\)"),
    ({"legal": (0, 0)}, r"returned \(0, 0\) after history \(\); expected distinct"),
    ({"legal": (-1,)}, r"returned \(-1,\)"),
    ({"legal": ("left",)}, r"returned \('left',\)"),
    ({"legal": None}, r"returned None"),
    (
        {"actors_of": {0: (CHANCE,), 1: ()}, "outcomes": ((0, 0.5), (1, 0.4))},
        r"sum to 0.9 after history \(\)",
    ),
    ({"actors_of": {0: (CHANCE,), 1: ()}, "outcomes": ((0, 1.5), (1, -0.5))}, r"probabilities >= 0"),
    ({"actors_of": {0: (CHANCE,), 1: ()}, "outcomes": ((0, math.nan),)}, r"sum to nan"),
    ({"actors_of": {0: (CHANCE,), 1: ()}, "outcomes": ((0, 10**400),)}, r"sum to nan"),
    ({"actors_of": {0: (CHANCE,), 1: ()}, "outcomes": ((0, 0.5), (0, 0.5))}, r"distinct integers"),
    ({"actors_of": {0: (CHANCE,), 1: ()}, "outcomes": (("a", 1.0),)}, r"distinct integers"),
    ({"actors_of": {0: (CHANCE,), 1: ()}, "outcomes": (0.5, 0.5)}, r"expected pairs"),
    ({"actors_of": {0: (CHANCE,), 1: ()}, "outcomes": ()}, r"chance_outcomes\(\) returned \[\]"),
    ({"result": {"reward": math.nan}}, r"toy: reward=nan of player 0 after history \(0,\); expected finite"),
    ({"result": {"reward": (0.0, math.inf)}}, r"reward=\(0.0, inf\) of player 1 after history \(0,\)"),
    ({"result": {"reward": (0.0,)}}, r"reward=\(0.0,\)"),
    ({"result": {"reward": "much"}}, r"reward='much'"),
    ({"result": {"reward": 10**400}}, r"reward=10+ of player 0 after history"),
    (
        {"result": {"public": [1]}},
        r"the observation \[1\] of both players is not hashable after history \(0,\)",
    ),
    ({"result": {"private": (None, {})}}, r"the observation \{\} of player 1 is not hashable"),
    ({"result": {"private": 7}}, r"step\(\) returned Step\(.*private=7\) after history \(0,\); return Step"),
    ({"result": lambda s, m: s + 1}, r"step\(\) returned 1 after history \(0,\)"),
    ({"result": {"public": Plain()}}, r"of both players .*__repr__"),
    (
        {"result": lambda s, m: Step(s + 1, private=(Mute(), None))},
        r"mute of player 0",
    ),
    (
        {"strings": lambda s, p: "same", "result": {"public": 1}, "actors_of": {0: (0,), 1: (0,), 2: ()}},
        r"infostate_string\(\) of player 0 returned 'same' after history \(0,\)",
    ),
    (
        {"strings": lambda s, p: str(next(COUNTER))},
        r"infostate_string\(\) of player 1 returned '2' after .*'1'",
    ),
]
COUNTER = itertools.count()


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_bad_rules_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        enumerate_game(StepwiseGame(Toy(**changes)))


def test_chance_without_outcomes_is_an_error():
    class NoChance(Toy):
        chance_outcomes = Rules.chance_outcomes

    with pytest.raises(NotImplementedError, match="chance_outcomes"):
        enumerate_game(StepwiseGame(NoChance(actors_of={0: (CHANCE,)})))


def test_a_cut_of_the_rules_must_mark_every_history():
    class Cutting(Toy):
        def cuts(self):
            return {"second": lambda tree: tree.num_moves == 1, "short": lambda tree: tree.num_moves[:3] > 0}

    tree = enumerate_game(StepwiseGame(Cutting()))
    assert cut(tree, "second").roots.tolist() == [1, 2]
    with pytest.raises(ValueError, match="short"):
        cut(tree, "short")
