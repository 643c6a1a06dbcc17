"""The papers' small games: every number in the papers, through the matrix form."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

import jaxgadget
from jaxgadget.games import examples
from jaxgadget.games.game import CHANCE, TERMINAL
from jaxgadget.games.registry import load
from jaxgadget.policy.exact import solve_exactly
from jaxgadget.tree.cut import cut
from jaxgadget.tree.history import enumerate_game
from tests.reference import efg, lp


def pure_strategies(tree, player):
    """All pure strategies, each as one action id per infoset (by name)."""
    sets = tree.infosets[player]
    choices = [
        sets.action[sets.first_sequence[j] : sets.first_sequence[j] + sets.num_actions[j]].tolist()
        for j in range(len(sets))
    ]
    names = tree.infoset_names[player]
    return [dict(zip(names, actions, strict=True)) for actions in itertools.product(*choices)]


def behave(pure):
    return {name: {action: 1.0} for name, action in pure.items()}


def value(tree, first, second, history=0):
    """Player 0's payoff when both play behaviour strategies: name → action → probability."""
    if tree.actor[history] == TERMINAL:
        return tree.payoff[history]
    total = 0.0
    for child in np.nonzero(tree.parent == history)[0]:
        if child == 0:
            continue
        if tree.actor[history] == CHANCE:
            weight = tree.chance[child] / tree.chance[history]
        else:
            player = int(tree.actor[history]) - 1
            name = tree.infoset_names[player][tree.infoset[player, history]]
            weight = (first, second)[player][name].get(int(tree.action[player, child]), 0.0)
        total += weight * value(tree, first, second, int(child)) if weight else 0.0
    return total


def payoff_matrix(tree):
    rows, columns = pure_strategies(tree, 0), pure_strategies(tree, 1)
    return np.array([[value(tree, behave(a), behave(b)) for b in columns] for a in rows])


def solve(matrix):
    """The value that the row player can guarantee."""
    n, m = matrix.shape
    result = linprog(
        np.append(np.zeros(n), -1.0),
        A_ub=np.hstack([-matrix.T, np.ones((m, 1))]),
        b_ub=np.zeros(m),
        A_eq=np.append(np.ones(n), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * n + [(None, None)],
    )
    return -result.fun


def optimal_range(matrix, weights):
    """Smallest and largest value of `weights · x` over all optimal strategies x of the row player."""
    best = solve(matrix)
    n, m = matrix.shape
    ends = [
        linprog(
            sign * np.asarray(weights, float),
            A_ub=-matrix.T,
            b_ub=np.full(m, -best + 1e-9),
            A_eq=np.ones((1, n)),
            b_eq=[1.0],
        ).fun
        * sign
        for sign in (1, -1)
    ]
    return ends


def optimal_probability(tree, player, plan):
    """Range over equilibria of the probability that `player` plays all of `plan` (infoset → action)."""
    matrix = payoff_matrix(tree) if player == 0 else -payoff_matrix(tree).T
    named = [
        {name: tree.game.action_string(player, action) for name, action in pure.items()}
        for pure in pure_strategies(tree, player)
    ]
    return optimal_range(matrix, [all(pure[k] == v for k, v in plan.items()) for pure in named])


EQUILIBRIA = [
    (
        "matching_pennies_forfeit",
        1 / 2,
        [(0, {"0:": "Heads"}, 1 / 2), (0, {"0:": "Forfeit"}, 0), (1, {"1:": "Heads"}, 1 / 2)],
    ),
    (
        "three_state_figure5",
        7 / 9,
        [
            (0, {"0: [1]": "Heads"}, 2 / 3),
            (0, {"0: [2|3]": "Heads"}, 1 / 2),
            (1, {"1: [1|2]": "Heads"}, 1 / 3),
            (1, {"1: [3]": "Heads"}, 2 / 3),
        ],
    ),
    ("three_state_figure11", 5 / 6, [(0, {"0: [1]": "Heads"}, 1), (0, {"0: [2|3]": "Heads"}, 1 / 4)]),
    ("sequential_rps", 0, [(p, {f"{p}:": hand}, 1 / 3) for p in (0, 1) for hand in ("Rock", "Paper")]),
    (
        "coin_toss",
        0,
        [(1, {"1: Play": "Heads"}, 1 / 4), (1, {"1: Play": "Tails"}, 3 / 4), (1, {"1: Play": "Forfeit"}, 0)],
    ),
    ("coin_toss(sell_heads=-0.5,sell_tails=0.5)", 0, [(1, {"1: Play": "Heads"}, 3 / 4)]),
    ("coin_toss_two_subgames", 0, []),
    (
        "biased_matching_pennies",
        -4 / 3,
        [
            (0, {"0:": "Heads"}, 2 / 3),
            (1, {"1:": "q"}, 2 / 3),
            (1, {"1:": "q", "1: >q": "Tails"}, 0),
            (1, {"1:": "p", "1: >p": "Tails"}, 0),
        ],
    ),
    ("coin_game", 0, [(0, {"0:": "Q"}, 1)]),
    (
        "matching_pennies_twist",
        1 / 2,
        [(0, {"0:": "Heads"}, 1 / 2), (1, {"1:": "Heads"}, 1 / 2), (1, {"1:": "Tails", "1: >Tails": "x"}, 0)],
    ),
    ("n_matching_pennies(num_deals=1)", 0, []),
    ("n_matching_pennies(num_deals=2)", 1 / 2, [(1, {"1: [1]": "Heads"}, 0)]),
    ("n_matching_pennies", 9 / 16, []),
    ("coin_toss_siblings", 0, []),
    ("gadget_breaker", 0, [(0, {"0:": "0"}, 1)]),
]


@pytest.mark.parametrize(("name", "expected", "unique"), EQUILIBRIA, ids=[e[0] for e in EQUILIBRIA])
def test_equilibria_are_the_stated_ones(name, expected, unique):
    tree = enumerate_game(load(name))
    assert tree.game.name == name
    assert solve(payoff_matrix(tree)) == pytest.approx(expected, abs=1e-9)
    for player, plan, probability in unique:
        assert optimal_probability(tree, player, plan) == pytest.approx([probability] * 2, abs=1e-6), plan


@pytest.mark.parametrize(
    ("name", "cut_name", "subgames", "roots"),
    [
        ("matching_pennies_forfeit", "subgame", 1, 2),
        ("three_state_figure5", "subgame", 1, 3),
        ("three_state_figure11", "subgame", 1, 3),
        ("sequential_rps", "subgame", 1, 3),
        ("repeated_rps", "subgame", 9, 9),
        ("coin_toss", "play", 1, 2),
        ("coin_toss_two_subgames", "play", 2, 4),
        ("biased_matching_pennies", "subgame", 1, 2),
        ("coin_game", "subgame", 1, 4),
        ("matching_pennies_twist", "subgame", 1, 1),
        ("n_matching_pennies", "subgame", 1, 4),
        ("n_matching_pennies(num_deals=1)", "subgame", 1, 1),
        ("coin_toss_siblings", "play", 2, 4),
        ("gadget_breaker", "subgame", 1, 6),
    ],
)
def test_named_cuts(name, cut_name, subgames, roots):
    tree = enumerate_game(load(name))
    assert list(tree.game.cuts()) == [cut_name]
    found = cut(tree, cut_name)
    assert (found.num_subgames, len(found.roots)) == (subgames, roots)


def best_response(tree, player, strategy):
    """The best-response value of `player` against the other's behaviour strategy."""
    if player == 0:
        return max(value(tree, behave(pure), strategy) for pure in pure_strategies(tree, 0))
    return max(-value(tree, strategy, behave(pure)) for pure in pure_strategies(tree, 1))


def ids(tree, **probabilities):
    """A behaviour at one infoset by action name."""
    names = [tree.game.action_string(0, a) for a in range(tree.game.num_actions)]
    return {names.index(name): probability for name, probability in probabilities.items()}


def test_forfeit_blueprint():
    """Equilibrium refinements §3: with 1/2 on F and H, the value is 0 against Heads, −0.5 against Tails."""
    tree = enumerate_game(examples.matching_pennies_forfeit())
    blueprint = {"0:": ids(tree, Forfeit=0.5, Heads=0.5)}
    against = [value(tree, blueprint, {"1:": ids(tree, **{coin: 1.0})}) for coin in ("Heads", "Tails")]
    assert against == pytest.approx([0, -0.5])


def three_state_values(tree, in_1, in_2_or_3):
    """Player 0's value, and that of player 1's two infostates, chance normalised, against a best response."""
    strategy = {
        "0: [1]": ids(tree, Heads=in_1, Tails=1 - in_1),
        "0: [2|3]": ids(tree, Heads=in_2_or_3, Tails=1 - in_2_or_3),
    }

    def average(states, coin):
        answer = {name: ids(tree, **{coin: 1.0}) for name in tree.infoset_names[1]}
        return np.mean([value(tree, strategy, answer, 1 + state) for state in states])

    inside = [min(average(states, coin) for coin in ("Heads", "Tails")) for states in ((0, 1), (2,))]
    return -best_response(tree, 1, strategy), *inside


def test_figure5_blueprint():
    """Equilibrium refinements, Observation 1: value 1/3, and 0.25 and 0.5 inside (Eqs. 24 and 25)."""
    tree = enumerate_game(examples.three_state_figure5())
    assert three_state_values(tree, 0, 1 / 2) == pytest.approx((1 / 3, 1 / 4, 1 / 2))


def test_figure11_blueprint():
    """Equilibrium refinements, Observation 3: the equilibrium, and the 1/8 and 1/4 of the blueprint."""
    tree = enumerate_game(examples.three_state_figure11())
    assert three_state_values(tree, 1, 1 / 4)[0] == pytest.approx(5 / 6)
    assert three_state_values(tree, 0, 1 / 4)[1:] == pytest.approx((1 / 8, 1 / 4))


@pytest.mark.parametrize(
    ("guess", "expected"),
    [
        ({"Heads": 1.0}, 3 / 4),  # §2
        ({"Tails": 1.0}, 1 / 4),
        ({"Heads": 0.25, "Tails": 0.75}, 0),
        ({"Heads": 5 / 8, "Tails": 3 / 8}, 3 / 8),  # §5
    ],
)
def test_coin_toss_against_a_guess(guess, expected):
    tree = enumerate_game(examples.coin_toss())
    assert best_response(tree, 0, {"1: Play": ids(tree, **guess)}) == pytest.approx(expected)


def test_coin_toss_blueprint():
    """Safe and nested §4.2: Play has value 0 after Heads and 1/2 after Tails, including Forfeit."""
    tree = enumerate_game(examples.coin_toss())
    strategy = {"1: Play": ids(tree, Heads=0.5, Tails=0.25, Forfeit=0.25)}
    roots = cut(tree, "play").roots
    assert [value(tree, {}, strategy, int(h)) for h in roots] == pytest.approx([0, 0.5])


def test_two_subgames_with_tails_in_one_or_both():
    """Safe and nested §5: Tails in S1 only is optimal; Tails in both gives Play after Heads the value 1."""
    tree = enumerate_game(examples.coin_toss_two_subgames())
    tails, even = ids(tree, Tails=1.0), ids(tree, Heads=0.5, Tails=0.5)
    play = {"0: [Heads]": ids(tree, Play=1.0), "0: [Tails]": ids(tree, Play=1.0)}

    def after(coin, s1, s2):
        return value(
            tree, play, {"1: Play, S1": s1, "1: Play, S2": s2}, tree.parent.tolist().index(0, 1) + coin
        )

    assert [after(0, tails, even), after(1, tails, even)] == pytest.approx([0.5, -0.5])
    assert after(0, tails, tails) == pytest.approx(1)
    assert best_response(tree, 0, {"1: Play, S1": tails, "1: Play, S2": even}) == pytest.approx(0)


def biased_loss(tree, heads, q):
    """Player 1's gain with its best guesses if it plays q with a fixed probability."""
    strategy = {"0:": ids(tree, Heads=heads, Tails=1 - heads)}
    guesses = itertools.product(("Heads", "Tails"), repeat=2)
    return max(
        -value(
            tree,
            strategy,
            {
                "1:": ids(tree, p=1 - q, q=q),
                "1: >p": ids(tree, **{in_p: 1.0}),
                "1: >q": ids(tree, **{in_q: 1.0}),
            },
        )
        for in_p, in_q in guesses
    )


def test_biased_pennies_unsafe_solutions():
    """Continual depth-limited responses §2: at the equilibrium's range, Heads from 1/3 to 3/4 is optimal."""
    tree = enumerate_game(examples.biased_matching_pennies())
    grid = np.arange(13) / 12
    loss = np.array([biased_loss(tree, x, 2 / 3) for x in grid])
    optimal = grid[loss <= loss.min() + 1e-9]
    np.testing.assert_allclose(optimal, np.arange(4, 10) / 12)


def test_biased_pennies_values_at_the_uniform_range():
    """The same section: −5/3 and −2/3 (they belong to q and p, not to Heads and Tails)."""
    tree = enumerate_game(examples.biased_matching_pennies())
    grid = np.arange(13) / 12
    best = grid[int(np.argmin([biased_loss(tree, x, 1 / 2) for x in grid]))]
    assert best == pytest.approx(1 / 3)
    assert [biased_loss(tree, best, q) for q in (1.0, 0.0)] == pytest.approx([5 / 3, 2 / 3])


def test_coin_game_utilities_of_playing():
    """Continual depth-limited responses §5: −3 for (RH, GH); follow all but one: −3.5; the worst: −2."""
    tree = enumerate_game(examples.coin_game())
    play = {"0:": ids(tree, P=1.0)}
    heads = {"1: [red]": ids(tree, Heads=1.0), "1: [green]": ids(tree, Heads=1.0)}
    assert value(tree, play, heads) == pytest.approx(-3)
    roots = cut(tree, "subgame").roots
    inside = np.array([tree.chance[h] * value(tree, play, {}, int(h)) for h in roots])
    assert inside[inside < 0].sum() == pytest.approx(-3.5)
    assert inside.min() == pytest.approx(-2)
    model = {"1: [red]": ids(tree, Tails=1.0), "1: [green]": ids(tree, Tails=1.0)}
    assert value(tree, play, model) > 0


def test_twist_against_the_model():
    """Continual depth-limited responses, App. F: T gets 10/3, uniform 2, H 2/3."""
    tree = enumerate_game(examples.matching_pennies_twist())
    model = {"1:": ids(tree, Heads=2 / 3, Tails=1 / 3), "1: >Tails": ids(tree, x=1.0)}
    plays = [ids(tree, Tails=1.0), ids(tree, Heads=0.5, Tails=0.5), ids(tree, Heads=1.0)]
    assert [value(tree, {"0:": play}, model) for play in plays] == pytest.approx([10 / 3, 2, 2 / 3])
    assert best_response(tree, 0, model) == pytest.approx(10 / 3)


@pytest.mark.parametrize(
    ("heads", "gain", "lost"), [((0.5, 0.5), 1 / 2, 1 / 4), ((0.25, 0.25), 1 / 8, 0), ((0.5, 0), 1 / 8, 0)]
)
def test_coin_toss_siblings_share_their_guesses(heads, gain, lost):
    """Player 1 gains by guesses of Heads in either subgame; only their sum is limited, to 1/2."""
    tree = enumerate_game(examples.coin_toss_siblings())
    guesses = {f"1: Play, S{i + 1}": ids(tree, Heads=x, Tails=1 - x) for i, x in enumerate(heads)}
    model = {name: ids(tree, x=1.0) for name in tree.infoset_names[0]}
    model |= {"0: [Heads]": ids(tree, Play=1.0), "0: [Tails]": ids(tree, Sell=1.0)}
    assert -value(tree, model, guesses) == pytest.approx(gain)
    assert best_response(tree, 0, guesses) == pytest.approx(lost)


def test_gadget_breaker_actions():
    """The value of every action against the model, and its guaranteed value."""
    tree = enumerate_game(examples.gadget_breaker())
    model = {name: ids(tree, M=1.0) for name in tree.infoset_names[1]}
    plays = [{"0:": ids(tree, **{str(k): 1.0})} for k in range(5)]
    assert [value(tree, play, model) for play in plays] == pytest.approx([0, 7, 14, 21, 28])
    assert [best_response(tree, 1, play) for play in plays] == pytest.approx([0, 11, 24, 39, 56])


def test_repeated_rock_paper_scissors_forgets_nothing_and_is_worth_nothing():
    """Both rounds count, the first-round hands are public, and uniform play is the equilibrium."""
    tree = enumerate_game(load("repeated_rps"))
    assert tree.game.name == "repeated_rps"
    uniform = jaxgadget.Policy.uniform(tree)
    assert jaxgadget.nash_conv(uniform) == pytest.approx(0.0, abs=1e-12)
    assert tree.payoff_bounds == (-2.0, 2.0)
    assert [len(infosets) for infosets in tree.infosets] == [1 + 9, 1 + 9]
    for rocks in (jaxgadget.Policy.geometric(tree, 0.1), jaxgadget.Policy.geometric(tree, 10.0)):
        assert jaxgadget.nash_conv(rocks)[0] > 1


def pennies_by_hand(most):
    """N-matching pennies as an explicit tree, from its definition."""

    def deal(n):
        def answer(first):
            pays = {"Heads": (float(n), 0.0), "Tails": (0.0, float(most - n))}[first]
            return efg.Decision(1, (1, (n + 1) // 2), ("Heads", "Tails"), tuple(map(efg.Terminal, pays)))

        return efg.Decision(0, (0, n // 2), ("Heads", "Tails"), (answer("Heads"), answer("Tails")))

    return efg.Chance((1 / most,) * most, tuple(deal(n) for n in range(1, most + 1)))


@pytest.mark.parametrize(("deals", "expected"), [(4, 0.5625), (7, None), (10, 1.64), (20, 3.3125)])
def test_n_matching_pennies_has_its_value(deals, expected):
    """The package's program and that of the explicit tree agree; 0.5625 and 1.64 are published."""
    tree = enumerate_game(load(f"n_matching_pennies(num_deals={deals})"))
    exact = jaxgadget.solve(tree, algorithm="lp")
    root = pennies_by_hand(deals)
    for player, sign in ((0, 1), (1, -1)):
        by_hand = sign * lp.solve(root, player).value
        assert exact.value == pytest.approx(by_hand, abs=1e-9)
        assert sign * lp.solve(efg.from_tree(tree).root, player).value == pytest.approx(by_hand, abs=1e-9)
    if expected is not None:
        assert exact.value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("where", ["subgame", "depth:0"])
def test_n_matching_pennies_is_one_chain(where):
    """After the deal of 100: 51 and 50 infostates of at most two deals; all form one subgame."""
    tree = enumerate_game(load("n_matching_pennies(num_deals=100)"))
    found = cut(tree, where)
    assert (tree.num_histories, len(found.roots), found.num_subgames) == (701, 100, 1)
    own, other = (np.unique(tree.infostate[player, found.roots], return_inverse=True)[1] for player in (0, 1))
    assert (own.max() + 1, other.max() + 1) == (51, 50)
    known = [set(np.nonzero(own == state)[0]) for state in range(51)]  # the deals of each own infostate
    assert (np.mean([len(deals) for deals in known]), max(map(len, known))) == (100 / 51, 2)
    beyond = [set(np.nonzero(np.isin(other, other[list(deals)]))[0]) for deals in known]
    assert np.mean([len(deals) for deals in beyond]) == pytest.approx(3.9, abs=0.05)
    assert max(map(len, beyond)) == 4
    assert [len(infosets) for infosets in tree.infosets] == [51, 50]


@pytest.mark.parametrize("player", [0, 1])
def test_both_players_can_refine_n_matching_pennies(player):
    """The subgame is the whole game, so an unsafe search finds an equilibrium."""
    tree = enumerate_game(load("n_matching_pennies(num_deals=10)"))
    uniform = jaxgadget.Policy.uniform(tree)
    result = jaxgadget.refine(
        tree,
        "subgame",
        uniform,
        jaxgadget.Unsafe(),
        player=player,
        solver=jaxgadget.Solver(algorithm="lp", progress=False),
    )
    refined = result.table["refined_exploitability"].to_numpy()
    assert refined == pytest.approx([0.0], abs=1e-9)
    assert (result.table["blueprint_exploitability"].to_numpy() > 0.1).all()


def test_uniform_play_of_n_matching_pennies():
    """With 20 deals, player 0 gets 2.5 against a best response, 0.8125 less than the value."""
    tree = enumerate_game(load("n_matching_pennies(num_deals=20)"))
    guaranteed = 0.0
    for first, second in zip(range(1, 21, 2), range(2, 21, 2), strict=True):  # one infoset of player 1
        heads, tails = first + second, 20 - first + 20 - second
        guaranteed += min(heads, tails) / 2 / 20
    uniform = jaxgadget.Policy.uniform(tree)
    assert jaxgadget.evaluate_policy(uniform).best_response_values[0] == pytest.approx([-guaranteed])
    assert jaxgadget.exploitability(uniform, 0) == pytest.approx([0.8125])
    assert guaranteed == pytest.approx(2.5)


def test_clairvoyance():
    tree = enumerate_game(load("clairvoyance(bets=1/2-2)"))
    solution = solve_exactly(tree)
    assert solution.value == pytest.approx(2 / 6, abs=1e-12)
    assert solution.policy["0: [Lose]"] == pytest.approx({1: 1 / 3, 3: 0.0, 4: 2 / 3}, abs=1e-12)
    assert solution.policy["1: 'Bet 2'"][2] == pytest.approx(1 / 3, abs=1e-12)
    assert examples.clairvoyance("2-0.5").name == "clairvoyance(bets=1/2-2)"
    with pytest.raises(ValueError, match="bets="):
        examples.clairvoyance("1-a")
    with pytest.raises(ValueError, match="fraction of the pot > 0"):
        examples.clairvoyance("0-1")


def test_off_tree_coin_toss():
    sells, plays = (enumerate_game(examples.off_tree_coin_toss(off_tree=k)) for k in (0, 1))
    assert [len(rows) for rows in sells.infosets] == [2, 0]
    whole = enumerate_game(load("coin_toss"))
    np.testing.assert_array_equal(plays.payoff, whole.payoff)
    for swapped, heads in ((False, 0.25), (True, 0.75)):
        prices = (-0.5, 0.5) if swapped else (0.5, -0.5)
        solution = solve_exactly(enumerate_game(examples.off_tree_coin_toss(*prices, off_tree=1)))
        assert solution.value == pytest.approx(0, abs=1e-12)
        guess = solution.policy[1, "1: Play"]
        assert guess == pytest.approx({0: heads, 1: 1 - heads, 2: 0.0}, abs=1e-12)
