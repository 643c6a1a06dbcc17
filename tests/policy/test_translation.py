"""Translation: frequencies in the clairvoyance game, the mixture by its definition, draws, errors."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from jaxgadget.games.examples import TreeRules, Turn, coin_toss
from jaxgadget.games.game import CHANCE, Game
from jaxgadget.games.goofspiel import Goofspiel
from jaxgadget.games.leduc.no_limit import NoLimitLeduc
from jaxgadget.games.menu import MenuAbstraction
from jaxgadget.games.stepwise import StepwiseGame
from jaxgadget.policy.evaluate import exploitability
from jaxgadget.policy.exact import solve_exactly
from jaxgadget.policy.lift import lift
from jaxgadget.policy.policy import Policy
from jaxgadget.policy.translation import RULES, TranslatingPlayer, translate
from jaxgadget.tree.history import HistoryTree, enumerate_game
from tests.reference.translation import translated_rows
from tests.trees import tree_of

POT = ["Fold", "Call", "Bet 1", "AllIn"]
rules = pytest.mark.parametrize("rule", RULES)


def large() -> HistoryTree:
    return tree_of("no_limit_leduc(bets=1/2-1-2-a,max_raises=2,num_ranks=2,stack=9,suit_isomorphism=True)")


def small() -> HistoryTree:
    game = MenuAbstraction(large().game, {0: POT, 1: POT})
    return tree_of(game.name)


# The clairvoyance game


@functools.cache
def caller() -> Policy:
    """An equilibrium with the bets 1 and 6: player 1 calls them 1/2 and 1/7 of the time."""
    policy = solve_exactly(tree_of("clairvoyance")).policy
    assert policy["1: 'Bet 1'"][2] == pytest.approx(1 / 2) and policy["1: 'Bet 6'"][2] == pytest.approx(1 / 7)
    return policy


def calls(x: str, rule: str) -> tuple[float, float]:
    """How often a bet of x is called, and the exploitability of calling with that frequency."""
    tree = tree_of(f"clairvoyance(bets=1-{x}-6)")
    translated = translate(caller(), tree, rule)
    value = solve_exactly(tree).value
    assert value == pytest.approx(3 / 7, abs=1e-12)
    return translated[f"1: 'Bet {x}'"][2], float(exploitability(translated, 1, value=(value, value))[0])


@pytest.mark.parametrize("x", ["9/8", "2", "5/2", "3", "4", "9/2", "23/4"])
def test_pseudo_harmonic_calls_as_an_equilibrium_does(x: str):
    called, loss = calls(x, "pseudo-harmonic")
    assert called == pytest.approx(1 / (1 + eval(x)), abs=1e-12)
    assert loss == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("x", "rule", "called", "loss"),
    [
        ("2", "linear", 3 / 7, 0.0),
        ("3", "linear", 5 / 14, 3 / 28),
        ("9/2", "linear", 1 / 4, 15 / 112),
        ("3", "nearest", 1 / 2, 9 / 28),
        ("7/2", "nearest", 1 / 2, 25 / 56),  # the smaller of two equally distant bets
        ("4", "nearest", 1 / 7, 1 / 7),  # bluffing is profitable
    ],
)
def test_exploitability_of_other_rules(x: str, rule: str, called: float, loss: float):
    assert calls(x, rule) == pytest.approx((called, loss), abs=1e-12)


@rules
@pytest.mark.parametrize(("x", "like"), [("1/3", 1 / 2), ("10", 1 / 7)])
def test_beyond_the_menu_it_is_the_nearest_end(rule: str, x: str, like: float):
    tree = tree_of(f"clairvoyance(bets=1-{x}-6)")
    assert translate(caller(), tree, rule)[f"1: 'Bet {x}'"][2] == pytest.approx(like)


def test_an_own_rule():
    asked: list[tuple[float, float, float]] = []

    def always_above(x: float, below: float, above: float) -> float:
        asked.append((x, below, above))
        return 0.0

    tree = tree_of("clairvoyance(bets=1-3-6)")
    assert translate(caller(), tree, always_above)["1: 'Bet 3'"][2] == pytest.approx(1 / 7)
    assert set(asked) == {(3.0, 1.0, 6.0)}
    for given in (1.5, -0.1, float("nan"), None, "half"):
        with pytest.raises(ValueError, match=rf"rule\(3.0, 1.0, 6.0\) returned {given!r}: expected a probab"):
            translate(caller(), tree, lambda x, below, above, given=given: given)


# No-limit Leduc


@rules
def test_with_nothing_off_the_tree_it_is_lifting(rule: str):
    """Between equal menus, and between games that number their actions differently."""
    policy = Policy.stack([Policy.dirichlet(small(), seed) for seed in range(2)])
    again = enumerate_game(
        NoLimitLeduc(bets="1-a", max_raises=2, num_ranks=2, stack=9, suit_isomorphism=True)
    )
    for translated in (translate(policy, small(), rule), translate(policy, again, rule)):
        for mine, its in zip(translated.probabilities, policy.probabilities, strict=True):
            np.testing.assert_allclose(mine, its, atol=1e-12)
    assert translate(policy, again, rule).labels == policy.labels


@rules
def test_on_the_tree_it_is_the_policy(rule: str):
    """If both players kept to the menu, the shadow is the actual history."""
    policy = Policy.dirichlet(small(), 3)
    translated, lifted = translate(policy, large(), rule), lift(policy, large())
    for player in (0, 1):
        names = small().infoset_names[player]
        for name in names:
            assert translated[player, name] == pytest.approx(lifted[player, name], abs=1e-12)
        assert len(names) < len(large().infoset_names[player])


def shadow_sequences(policy: Policy, tree: HistoryTree, player: int, rule: str) -> np.ndarray:
    """The probability that the player plays every sequence of the larger tree, from all shadows.

    From the definition, without beliefs: every history of the larger tree with every possible shadow, and the
    probability that the player's own draws and actions lead to the pair.
    """
    shadow = policy.tree
    below = {t: {h: {} for h in range(t.num_histories)} for t in (tree, shadow)}
    for t, table in below.items():
        for h in range(1, t.num_histories):
            first, second, outcome = t.action[:, h].tolist()
            move = str(outcome) if outcome >= 0 else t.game.action_string(0, max(first, second))
            table[int(t.parent[h])][move] = h

    def fraction(t: HistoryTree, h: int, move: str) -> float:
        child = below[t][h][move]
        return t.game.bet_fraction(t.moves(h), int(t.action[:2, child].max())) or 0.0

    def mapped(h: int, g: int, move: str) -> dict[str, float]:
        if move in below[shadow][g]:
            return {move: 1.0}
        x = fraction(tree, h, move)
        bets = sorted((fraction(shadow, g, m), m) for m in below[shadow][g] if fraction(shadow, g, m) > 0)
        if not bets:
            return {"Call": 1.0}
        lower, upper = [b for b in bets if b[0] <= x], [b for b in bets if b[0] >= x]
        if not lower or not upper:
            return {(upper[0] if upper else lower[-1])[1]: 1.0}
        if lower[-1] == upper[0]:
            return {lower[-1][1]: 1.0}
        share = RULES[rule](x, lower[-1][0], upper[0][0])
        return {lower[-1][1]: share, upper[0][1]: 1 - share}

    def made(h: int, g: int, move: str) -> str:
        if move in below[tree][h]:
            return move
        x = fraction(shadow, g, move)
        bets = [(abs(fraction(tree, h, m) - x), m) for m in below[tree][h] if fraction(tree, h, m) > 0]
        return min(bets)[1] if bets and x > 0 else "Call"

    reach = np.zeros(tree.infosets[player].num_sequences)
    seen = np.zeros(tree.num_histories)

    def walk(h: int, g: int, weight: float) -> None:
        seen[h] += weight
        acts, shadow_acts = int(tree.actor[h]), int(shadow.actor[g]) if g >= 0 else 0
        for move, child in below[tree][h].items():
            if acts == CHANCE:
                walk(child, below[shadow][g][move] if shadow_acts == CHANCE else -1, weight)
            elif acts == 2 - player:  # the other player
                targets = mapped(h, g, move) if shadow_acts == acts else {"": 1.0}
                for target, share in targets.items():
                    walk(child, below[shadow][g][target] if target else -1, weight * share)
            elif shadow_acts != acts:
                walk(child, -1, weight * (move == "Call"))
            else:
                for own, after in below[shadow][g].items():
                    row = int(shadow.sequence[player, after]) - 1
                    if made(h, g, own) == move:
                        walk(child, after, weight * policy.probabilities[player][row, 0])

    walk(0, 0, 1.0)
    reach[tree.sequence[player]] = seen
    for h in range(tree.num_histories):  # moves of the other player and chance have no effect
        assert seen[h] == pytest.approx(reach[tree.sequence[player, h]], abs=1e-12)
    return reach


@rules
@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize("menu", [POT, ["Fold", "Call", "Bet 1/2", "Bet 2"], ["Fold", "Call", "AllIn"]])
def test_the_policy_is_the_mixture_over_shadows(menu: list[str], player: int, rule: str):
    tree = large()
    coarse = enumerate_game(MenuAbstraction(tree.game, {0: menu, 1: menu}))
    policy = Policy.dirichlet(coarse, 4)
    expected = shadow_sequences(policy, tree, player, rule)
    np.testing.assert_allclose(translate(policy, tree, rule).reach(player)[:, 0], expected, atol=1e-12)


MENUS = {
    "pot": POT,
    "half and twice": ["Fold", "Call", "Bet 1/2", "Bet 2"],
    "no bets": ["Fold", "Call"],
    "no folds": ["Call", "Bet 2"],
}


def pure(tree: HistoryTree, seed: int) -> Policy:
    """One action per infoset, so that most actions have probability 0."""
    likely = Policy.dirichlet(tree, seed)
    rows: list[np.ndarray] = []
    for infosets, shares in zip(tree.infosets, likely.probabilities, strict=True):
        most = np.maximum.reduceat(shares, infosets.first_sequence - 1)
        rows.append((shares == most[infosets.infoset[1:]]).astype(float))
    return Policy(tree, (rows[0], rows[1]), ("pure",))


@pytest.mark.parametrize(
    ("first", "second", "rule"),
    [
        ("pot", "half and twice", "linear"),
        ("half and twice", "pot", "pseudo-harmonic"),
        ("no folds", "no bets", "nearest"),
        ("no bets", "no folds", "pseudo-harmonic"),
    ],
)
def test_translation_equals_a_loop_over_histories(first: str, second: str, rule: str):
    """To the last digit; also for actions of probability 0, for drawn shadows, and from a larger game."""
    tree = tree_of("no_limit_leduc(bets=1/2-1-2-a,max_raises=2,num_ranks=2,stack=5,suit_isomorphism=True)")
    coarse = enumerate_game(MenuAbstraction(tree.game, {0: MENUS[first], 1: MENUS[second]}))
    for policy, other in (
        (Policy.stack([Policy.dirichlet(coarse, 1), pure(coarse, 2)]), tree),
        (Policy.dirichlet(tree, 3), coarse),
    ):
        translated = translate(policy, other, rule).probabilities
        for player in (0, 1):
            expected = translated_rows(policy, other, player, rule)
            np.testing.assert_array_equal(translated[player], expected)
            rows = drawn(other, policy, player, seed=5, rule=rule).probabilities[player]
            expected = translated_rows(policy.lane(0), other, player, rule, seed=5)
            np.testing.assert_array_equal(rows, expected)


def test_lanes_are_translated_one_by_one():
    policies = [Policy.dirichlet(small(), seed, 0.2) for seed in range(3)]
    together = translate(Policy.stack(policies), large())
    for lane, policy in enumerate(policies):
        for mine, its in zip(
            together.lane(lane).probabilities, translate(policy, large()).probabilities, strict=True
        ):
            np.testing.assert_allclose(mine, its, atol=1e-12)


def test_after_an_all_in_in_the_shadow_is_called_the_player_checks_and_calls():
    """All-in is the menu's only bet: a bet maps to it with 1/2, and once it is called the shadow is over."""
    tree = large()
    menu = ["Fold", "Call", "AllIn"]
    coarse = enumerate_game(MenuAbstraction(tree.game, {0: menu, 1: menu}))
    translated = translate(Policy.dirichlet(coarse, 0), tree)
    ends = 0
    for h in np.nonzero(tree.infoset[1] >= 0)[0].tolist():
        moves = tree.moves(h)
        if len(moves) > 5 and moves[2] in (2, 3) and moves[3] == 1:  # bet and called before the public card
            assert translated[1, tree.infoset_names[1][tree.infoset[1, h]]][1] == 1
            ends += 1
    assert ends > 20


# Draws


def drawn(tree: HistoryTree, policy: Policy, player: int, seed: int, rule: str = "linear") -> Policy:
    """All rows of a player that draws, as a policy."""
    rows = [np.array(part) for part in Policy.uniform(tree).probabilities]
    histories = np.sort(tree.infosets[player].history)
    asked = TranslatingPlayer(policy, rule, seed).action_probabilities(tree, player, histories)
    infosets = tree.infosets[player]
    for h, row in zip(histories.tolist(), asked, strict=True):
        infoset = int(tree.infoset[player, h])
        first, count = int(infosets.first_sequence[infoset]), int(infosets.num_actions[infoset])
        assert row[count:].sum() == 0
        rows[player][first - 1 : first - 1 + count, 0] = row[:count]
    return Policy(tree, (rows[0], rows[1]), (f"draw {seed}",))


def assert_plays_over_draws(tree: HistoryTree, policy: Policy, player: int, num_draws: int) -> None:
    """Compare every sequence within five standard errors."""
    reaches = np.stack([drawn(tree, policy, player, seed).reach(player)[:, 0] for seed in range(num_draws)])
    expected = translate(policy, tree, "linear").reach(player)[:, 0]
    error = np.sqrt(np.maximum(reaches.var(axis=0), 1e-6) / len(reaches))
    assert (np.abs(reaches.mean(axis=0) - expected) < 5 * error).all()
    assert reaches.std(axis=0).max() > 0.1, "nothing was drawn"


def test_over_draws_the_player_plays_the_translated_policy():
    assert_plays_over_draws(tree_of("clairvoyance(bets=1-2-3-6)"), caller(), 1, 300)


def test_draws_depend_on_the_seed_and_on_nothing_else():
    tree, policy = large(), Policy.dirichlet(small(), 0)
    player = TranslatingPlayer(policy, "linear", 7)
    histories = np.nonzero(tree.infoset[1] >= 0)[0]
    rows = player.action_probabilities(tree, 1, histories)
    some = np.arange(0, len(histories), 7)
    np.testing.assert_array_equal(player.action_probabilities(tree, 1, histories[some]), rows[some])
    other = TranslatingPlayer(policy, "linear", 8).action_probabilities(tree, 1, histories)
    assert np.abs(rows - other).max() > 0.1
    lanes = Policy.stack([Policy.uniform(small()), policy])
    by_lane = TranslatingPlayer(lanes, "linear", 7, lane=1).action_probabilities(tree, 1, histories)
    np.testing.assert_allclose(by_lane, rows, atol=1e-12)


# Errors


def uniform_on(game: Game) -> Policy:
    return Policy.uniform(enumerate_game(game))


def test_another_game_is_refused():
    kuhn = tree_of("kuhn_poker")
    with pytest.raises(ValueError, match="chance outcomes differ"):
        translate(Policy.uniform(kuhn), large())
    with pytest.raises(ValueError, match="game"):
        longer = tree_of(large().game.name.replace("stack=9", "stack=10"))
        TranslatingPlayer(Policy.uniform(small())).action_probabilities(longer, 0, longer.infosets[0].history)
    truncated = enumerate_game(small().game, depth=1)
    with pytest.raises(ValueError, match="whole game"):
        translate(Policy.uniform(truncated), large())


def test_actions_other_than_bets_must_be_on_the_menu():
    game = coin_toss()
    menu = MenuAbstraction(game, {0: ["Sell"]})
    with pytest.raises(ValueError, match="menu"):
        translate(uniform_on(menu), enumerate_game(game))


def test_moves_that_are_made_at_once_or_unseen_are_refused():
    game = Goofspiel(num_cards=3, imp_info=True)
    with pytest.raises(ValueError, match=r"does not observe|both players act after"):
        translate(uniform_on(MenuAbstraction(game, {0: [0, 1, 2]})), enumerate_game(game))
    hidden = Turn(0, {bet: Turn(1, {"Fold": 0.0, "Call": 1.0}) for bet in ("Bet 1", "Bet 2")})
    unseen = StepwiseGame(TreeRules("unseen", ("Fold", "Call", "Bet 1", "Bet 2"), hidden, bets={"Call": 0.0}))
    with pytest.raises(ValueError, match="unseen"):
        translate(uniform_on(MenuAbstraction(unseen, {0: ["Bet 1"]})), enumerate_game(unseen))


def test_a_player_without_check_or_call_is_an_error():
    """A player needs a passive action once the shadow is over."""

    def tree(calls: float) -> StepwiseGame:
        end = Turn(1, {"Stay": 0.0, "Go": 1.0}, public=True)
        first = Turn(0, {"Bet 1": 0.0, "Bet 2": end}, public=True)
        bets = {"Bet 1": 1.0, "Bet 2": 2.0, "Stay": calls}
        return StepwiseGame(TreeRules("stay", ("Stay", "Go", "Bet 1", "Bet 2"), first, bets=bets))

    policy = uniform_on(MenuAbstraction(tree(0.0), {0: ["Bet 1"]}))
    assert translate(policy, enumerate_game(tree(0.0)))["1: 'Bet 2'"] == {0: 1.0, 1: 0.0}
    with pytest.raises(ValueError, match="history"):
        translate(policy, enumerate_game(tree(1.0)))
