"""Small games from the papers, and a few that complement them, defined as explicit trees.

The papers number players from 1, this package from 0; payoffs are player 0's. Each docstring gives the figure
and any assumptions that the paper does not state. The cut `subgame` (`play` in Coin Toss) is that of the
paper's example.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from jaxgadget.games.game import ACTOR_BIT, CHANCE, CutRule, CutView
from jaxgadget.games.menu import MenuAbstraction
from jaxgadget.games.parameters import MAX_ACTIONS, check_integer, check_number, name_with, read_bets
from jaxgadget.games.stepwise import Rules, Step, StepwiseGame
from jaxgadget.util.arrays import BoolArray


class Turn(NamedTuple):
    """A decision: children by action name; the other player observes the action if it is public."""

    player: int
    children: Mapping[str, Tree]
    public: bool = False


class Outcome(NamedTuple):
    """A chance outcome, and the observations of player 0, of player 1 and of both."""

    probability: float
    child: Tree
    private: tuple[Hashable, Hashable] = (None, None)
    public: Hashable = None


class Chance(NamedTuple):
    """A chance node."""

    outcomes: Sequence[Outcome]


Tree: TypeAlias = Turn | Chance | float
"""A leaf is player 0's payoff."""


@dataclasses.dataclass(frozen=True, eq=False)
class TreeRules(Rules[Tree]):
    """Rules of a game defined by a tree; a state is a subtree.

    Attributes:
      name: the game's name.
      actions: names of the actions, in the order of their ids.
      tree: the whole game.
      cut: name of the game's cut; empty for none.
      cut_depth: the cut's roots are the decisions after this number of moves.
      bets: sizes of bets by action name, in the units of `jaxgadget.games.game.BetSizes`.
    """

    name: str
    actions: Sequence[str]
    tree: Tree
    cut: str = ""
    cut_depth: int = 0
    bets: Mapping[str, float] = dataclasses.field(default_factory=dict[str, float])

    def initial_state(self) -> Tree:
        """The root."""
        return self.tree

    def actors(self, state: Tree) -> tuple[int, ...]:
        """The player to move, or chance."""
        return (state.player,) if isinstance(state, Turn) else (CHANCE,) if isinstance(state, Chance) else ()

    def legal_actions(self, state: Tree, player: int) -> list[int]:
        """The actions that have a child."""
        assert isinstance(state, Turn)
        return [self.actions.index(name) for name in state.children]

    def chance_outcomes(self, state: Tree) -> list[tuple[int, float]]:
        """Outcomes and their probabilities, in the tree's order."""
        assert isinstance(state, Chance)
        return [(k, outcome.probability) for k, outcome in enumerate(state.outcomes)]

    def step(self, state: Tree, move: int) -> Step[Tree]:
        """Moves to a child; only leaves have rewards."""
        if isinstance(state, Turn):
            name = self.actions[move]
            child, public, private = state.children[name], name if state.public else None, (None, None)
        else:
            assert isinstance(state, Chance)
            _, child, private, public = state.outcomes[move]
        is_leaf = not isinstance(child, Turn | Chance)
        return Step(child, reward=float(child) if is_leaf else 0.0, public=public, private=private)

    def bet_fraction(self, state: Tree, action: int) -> float | None:
        """Size of a bet, looked up by the action's name."""
        return self.bets.get(self.actions[action])

    def cuts(self) -> Mapping[str, CutRule]:
        """The decisions after `cut_depth` moves, under the name `cut`."""
        return {self.cut: self._is_root} if self.cut else {}

    def _is_root(self, view: CutView) -> BoolArray:
        decides = (view.actor & (ACTOR_BIT[0] | ACTOR_BIT[1])) > 0
        return decides & (view.num_moves == self.cut_depth)


def matching_pennies_forfeit() -> StepwiseGame:
    """Matching pennies that player 0 may forfeit (Equilibrium refinements, Fig. 1).

    Player 1 chooses first, in secret. A match pays player 0 1, a mismatch 0, forfeit −1. The
    value is 1/2; in the only equilibrium both players play Heads and Tails with probability 1/2.
    """
    tree = Turn(1, {coin: Turn(0, {"Forfeit": -1.0} | _match(coin)) for coin in _COIN})
    return _game("matching_pennies_forfeit", ("Forfeit", *_COIN), tree, depth=1)


def three_state_figure5() -> StepwiseGame:
    """Three states of matching pennies, the first with a bonus (Equilibrium refinements, Fig. 5).

    Chance chooses the state uniformly; player 0 cannot tell states 2 and 3 apart, player 1
    states 1 and 2. A match pays 1. In state 1 all but Tails against Heads pay 1 more. The value
    is 7/9. In the only equilibrium player 0 plays Heads with probability 2/3 in state 1 and 1/2 in 2|3,
    player 1 with 1/3 in 1|2 and 2/3 in 3.

    Player 0 moves first, in secret. The paper's blueprint plays Heads with probability 0 in state 1 and 1/2
    in 2|3: this gives the exploitability 4/9 and the values 1/4 and 1/2 of the paper, unlike the strategy
    printed in the paper.
    """
    bonus = {("Heads", "Heads"): 2.0, ("Heads", "Tails"): 1.0, ("Tails", "Tails"): 2.0}
    return _three_states("three_state_figure5", bonus, {}, {})


def three_state_figure11() -> StepwiseGame:
    """Three states of matching pennies with other bonuses (Equilibrium refinements, Fig. 11).

    As in Fig. 5, but two Heads in state 1 pay 2, and two Tails in state 2 pay 3. The value is
    5/6; player 0's only optimal strategy plays Heads with probability 1 in state 1 and 1/4 in 2|3. The
    paper's blueprint plays Heads with probability 0 in state 1 and 1/4 in 2|3: this gives the values 1/8 and
    1/4 of the paper, unlike the strategy printed in the paper.
    """
    first = {("Heads", "Heads"): 2.0, ("Tails", "Tails"): 1.0}
    second = {("Heads", "Heads"): 1.0, ("Tails", "Tails"): 3.0}
    return _three_states("three_state_figure11", first, second, {})


def sequential_rps() -> StepwiseGame:
    """Rock-paper-scissors in which player 1 moves first, in secret (Equilibrium refinements, Fig. 8).

    A win pays 1. The value is 0, and both players play uniformly.
    """
    tree = Turn(1, {b: Turn(0, {a: _beats(a, b) for a in _HANDS}) for b in _HANDS})
    return _game("sequential_rps", _HANDS, tree, depth=1)


def repeated_rps() -> StepwiseGame:
    """Two rounds of rock-paper-scissors (Continual depth-limited responses, Fig. 15).

    Both hands are revealed after the first round. A win pays 1 in each round. The value is 0, and both
    players play uniformly. The paper's game is biased, but the paper does not give the bias. The cut's roots
    are the start of the second round, where both players have the same information.
    """

    def reveal(first: str, second: str, paid: float) -> Tree:
        again = {b: Turn(0, {a: paid + _beats(a, b) for a in _HANDS}) for b in _HANDS}
        return Chance([Outcome(1.0, Turn(1, again), public=(first, second))])

    tree = Turn(1, {b: Turn(0, {a: reveal(a, b, _beats(a, b)) for a in _HANDS}) for b in _HANDS})
    return _game("repeated_rps", _HANDS, tree, depth=2)


def coin_toss(sell_heads: float = 0.5, sell_tails: float = -0.5) -> StepwiseGame:
    """Coin Toss: the opponent guesses the coin unless it is sold (Safe and nested, Fig. 1).

    Only player 0 sees the coin. Selling it ends the game with `sell_heads` or `sell_tails`. After
    Play, a correct guess by player 1 pays −1; a wrong one, and Forfeit, pay 1. The value is 0;
    player 1 guesses Heads with probability 1/4 and Tails with 3/4 (3/4 and 1/4 if the values of Sell are
    swapped).

    The payoff of Forfeit is inferred: with the blueprint of the paper's Fig. 2 (Heads 1/2, Tails 1/4,
    Forfeit 1/4), Play is worth 0 after Heads and 1/2 after Tails.
    """
    prices_by_name = {"sell_heads": sell_heads, "sell_tails": sell_tails}
    prices = {key: check_number("coin_toss", key, price) for key, price in prices_by_name.items()}
    name = name_with("coin_toss", prices, {"sell_heads": 0.5, "sell_tails": -0.5})
    tree = _coin_toss((prices["sell_heads"], prices["sell_tails"]), _guess)
    return _game(name, _COIN_TOSS, tree, 1, "play")


def coin_toss_two_subgames() -> StepwiseGame:
    """Coin Toss with a public chance move after Play: two identical subgames (Safe and nested, Fig. 4).

    Chance selects either subgame with probability 1/2. The value is 0. The price of −0.5 for Tails and the
    action Forfeit are inferred from Fig. 1.
    """

    def two_subgames(coin: str) -> Tree:
        return Chance([Outcome(0.5, _guess(coin), public=name) for name in ("S1", "S2")])

    return _game("coin_toss_two_subgames", _COIN_TOSS, _coin_toss((0.5, -0.5), two_subgames), 1, "play")


def biased_matching_pennies() -> StepwiseGame:
    """Biased matching pennies in two versions (Continual depth-limited responses, Fig. 2).

    Player 1 secretly chooses the standard game p or its own game q, player 0 chooses Heads or Tails, and
    player 1 guesses. In p, a correct guess wins player 1 2 for Heads and 1 for Tails, a wrong one 0;
    in q a wrong guess wins 2, a correct one 1 for Heads and −1 for Tails. The value is −4/3: player
    0 plays Heads with probability 2/3, and player 1 plays q with probability 2/3, then Heads.
    """
    lost = {  # (version, coin, guess): player 0's loss
        ("p", "Heads", "Heads"): 2.0,
        ("p", "Tails", "Tails"): 1.0,
        ("q", "Heads", "Heads"): 1.0,
        ("q", "Heads", "Tails"): 2.0,
        ("q", "Tails", "Heads"): 2.0,
        ("q", "Tails", "Tails"): -1.0,
    }

    def guess(version: str, coin: str) -> Turn:
        return Turn(1, {call: 0.0 - lost.get((version, coin, call), 0.0) for call in _COIN})

    tree = Turn(1, {v: Turn(0, {coin: guess(v, coin) for coin in _COIN}) for v in ("p", "q")})
    return _game("biased_matching_pennies", ("p", "q", *_COIN), tree, depth=1)


def coin_game() -> StepwiseGame:
    """A coin that player 1 places, and player 0 plays or quits (Continual depth-limited responses, Fig. 3).

    Chance picks a red or a green coin, 1/2 each; player 1 sees it and places it heads or tails up.
    Player 0 sees nothing and plays (P) or quits (Q, payoff 0). The value is 0, achieved by Q.

    The payoffs of P are inferred. The values −3, −3.5 and −2 in the text determine red Heads −4, red Tails −1
    and green Heads −2. Green Tails only has to make playing worthwhile: 4, which offsets red Heads.
    """
    pays = {"red": {"Heads": -4.0, "Tails": -1.0}, "green": {"Heads": -2.0, "Tails": 4.0}}
    outcomes = [
        Outcome(0.5, Turn(1, {c: Turn(0, {"P": p, "Q": 0.0}) for c, p in sides.items()}), (None, color))
        for color, sides in pays.items()
    ]
    return _game("coin_game", (*_COIN, "P", "Q"), Chance(outcomes), depth=1)


def matching_pennies_twist() -> StepwiseGame:
    """Matching pennies where player 1 may pay 10 for Tails (Continual depth-limited responses, Fig. 10).

    A match pays 1, but after two Tails player 1 chooses x, which pays 10, or y, which pays 1. The
    value is 1/2, both players play uniformly, and player 1 chooses y.

    Two rules are inferred: player 0 moves first, in secret, so that x or y is below depth 2; and player 1 has
    that decision only after two Tails.
    """
    last = Turn(1, {"x": 10.0, "y": 1.0})
    tree = Turn(
        0,
        {
            "Heads": Turn(1, {"Heads": 1.0, "Tails": 0.0}),
            "Tails": Turn(1, {"Heads": 0.0, "Tails": last}),
        },
    )
    return _game("matching_pennies_twist", (*_COIN, "x", "y"), tree, depth=2)


def n_matching_pennies(num_deals: int = 4) -> StepwiseGame:
    """N-matching pennies, in which all deals form one chain (Subgame solving without common knowledge).

    Chance draws n uniformly from 1 … N, where N is `num_deals`; player 0 sees ⌊n/2⌋, player 1 ⌊(n+1)/2⌋. Two
    Heads pay n, two Tails N − n, a mismatch 0; player 0 moves first, in secret. Each infostate contains at
    most two deals, but all deals are in one subgame, as n is never common knowledge. The value is 9/16 for
    N = 4.
    """
    check_integer("n_matching_pennies", "num_deals", num_deals, 1, MAX_ACTIONS)

    def pennies(n: int) -> Turn:
        pays = {"Heads": {"Heads": n, "Tails": 0}, "Tails": {"Heads": 0, "Tails": num_deals - n}}
        return Turn(0, {a: Turn(1, {b: float(pays[a][b]) for b in _COIN}) for a in _COIN})

    deals = [
        Outcome(1 / num_deals, pennies(n), (str(n // 2), str((n + 1) // 2))) for n in range(1, num_deals + 1)
    ]
    name = name_with("n_matching_pennies", {"num_deals": num_deals}, {"num_deals": 4})
    return _game(name, _COIN, Chance(deals), depth=0)


def coin_toss_siblings() -> StepwiseGame:
    """Coin Toss with two subgames that cannot be searched independently (not from a paper).

    As `coin_toss_two_subgames`, but without Forfeit; after a correct guess of Heads, player 0 chooses x,
    which costs it 1 more, or y, which does not. The value is 0: player 1 guesses Heads with probability 1/4
    on average over the two subgames, in any split. Against the model (Heads plays, Tails sells, x is chosen)
    such a strategy gains player 1 1/8; Heads with probability 1/2 in both subgames gains 1/2 and may lose
    1/4.
    """
    right = {"Heads": Turn(0, {"x": -2.0, "y": -1.0}), "Tails": -1.0}

    def two_subgames(coin: str) -> Tree:
        guess = Turn(1, {call: right[call] if call == coin else 1.0 for call in _COIN})
        return Chance([Outcome(0.5, guess, public=name) for name in ("S1", "S2")])

    tree = _coin_toss((0.5, -0.5), two_subgames)
    return _game("coin_toss_siblings", (*_COIN, "Sell", "Play", "x", "y"), tree, 1, "play")


def gadget_breaker() -> StepwiseGame:
    """A version of `coin_game` with five actions, on which gadgets differ (not from a paper).

    Player 1 sees a red or green coin, 1/2 each, and places it Heads, Tails or M; player 0 sees nothing and
    plays k = 0 … 4. M pays it 7k, Tails 0, and Heads costs it 0, 15, 29, 43, 56 for a red coin and 0, 7, 19,
    35, 56 for a green one. The value is 0, achieved by k = 0; the actions k = 0 … 4 guarantee 0, −11, −24,
    −39 and −56. Against the model, which always plays M, a restricted Nash response plays every k in turn as
    p grows.
    """
    costs = {"red": (0.0, 15.0, 29.0, 43.0, 56.0), "green": (0.0, 7.0, 19.0, 35.0, 56.0)}

    def placed(cost: Sequence[float]) -> Turn:
        pays = {"Heads": [0.0 - loss for loss in cost], "Tails": [0.0] * 5, "M": [7.0 * k for k in range(5)]}
        return Turn(1, {c: Turn(0, {str(k): pays[c][k] for k in range(5)}) for c in pays})

    tree = Chance([Outcome(0.5, placed(cost), (None, color)) for color, cost in costs.items()])
    return _game("gadget_breaker", (*_COIN, "M", *map(str, range(5))), tree, depth=1)


def clairvoyance(bets: str = "1-6") -> StepwiseGame:
    """The clairvoyance game: the bettor knows which hand wins (Ganzfried and Sandholm 2013).

    Both players have paid 1/2. Chance deals player 0 the winning or the losing hand, 1/2 each, which player 1
    does not see. Player 0 checks, which leads to a showdown, or bets a fraction of the pot; player 1 folds or
    calls. In equilibrium player 1 calls a bet x with probability 1/(1+x). With the largest bet B the value is
    B/(2+2B): player 0 always bets B with the winning hand, and with probability B/(1+B) with the losing one.
    """
    sizes, has_all_in = read_bets("clairvoyance", bets)
    if has_all_in:
        raise ValueError(
            f"clairvoyance: bets={bets!r}: expected fractions of the pot only, as there is no stack to go "
            'all-in with; write "1-6", for example'
        )
    shown = "-".join(map(str, sizes))
    fractions = {f"Bet {size}": float(size) for size in sizes}
    outcomes: list[Outcome] = []
    for hand, sign in (("Win", 1.0), ("Lose", -1.0)):
        answers = {bet: Turn(1, {"Fold": 0.5, "Call": sign * (0.5 + x)}) for bet, x in fractions.items()}
        outcomes.append(Outcome(0.5, Turn(0, {"Check": sign * 0.5, **answers}, public=True), (hand, None)))
    name = name_with("clairvoyance", {"bets": shown}, {"bets": "1-6"})
    actions = ("Fold", "Check", "Call", *fractions)
    return StepwiseGame(
        TreeRules(name, actions, Chance(outcomes), bets={"Check": 0.0, "Call": 0.0, **fractions})
    )


def off_tree_coin_toss(
    sell_heads: float = 0.5, sell_tails: float = -0.5, off_tree: int = 0
) -> MenuAbstraction:
    """Coin Toss with a blueprint that only has Sell, so that Play is off-tree (Safe and nested, Fig. 1, §7).

    With `off_tree=1` player 0 may play Play, and the game is Coin Toss. With the default values of Sell,
    player 1 then answers Play by Heads with probability 1/4 and Tails with 3/4, and the value is 0.
    """
    game = coin_toss(sell_heads, sell_tails)
    menu = MenuAbstraction(game, {0: ["Sell"]}, off_tree=off_tree, off_tree_player=0)
    parameters = {"sell_heads": float(sell_heads), "sell_tails": float(sell_tails), "off_tree": off_tree}
    defaults = {"sell_heads": 0.5, "sell_tails": -0.5, "off_tree": 0}
    menu.name = name_with("off_tree_coin_toss", parameters, defaults)
    return menu


_COIN = ("Heads", "Tails")
_HANDS = ("Rock", "Paper", "Scissors")
_COIN_TOSS = (*_COIN, "Forfeit", "Sell", "Play")


def _game(name: str, actions: tuple[str, ...], tree: Tree, depth: int, cut: str = "subgame") -> StepwiseGame:
    return StepwiseGame(TreeRules(name, actions, tree, cut, depth))


def _beats(hand: str, other: str) -> float:
    """Player 0's payoff for its hand."""
    return (0.0, 1.0, -1.0)[(_HANDS.index(hand) - _HANDS.index(other)) % 3]


def _match(coin: str) -> dict[str, float]:
    return {call: float(call == coin) for call in _COIN}


def _guess(coin: str) -> Turn:
    """Player 1's decision: guess the coin or forfeit."""
    return Turn(1, {call: -1.0 if call == coin else 1.0 for call in (*_COIN, "Forfeit")})


def _coin_toss(prices: tuple[float, float], below: Callable[[str], Tree]) -> Tree:
    """The tree of Coin Toss; `below(coin)` returns the subtree after Play."""
    outcomes: list[Outcome] = []
    for coin, price in zip(_COIN, prices, strict=True):
        choice = Turn(0, {"Sell": price, "Play": below(coin)}, public=True)
        outcomes.append(Outcome(0.5, choice, (coin, None)))
    return Chance(outcomes)


def _three_states(name: str, *payoffs: Mapping[tuple[str, str], float]) -> StepwiseGame:
    """Payoffs by (player 0's action, player 1's action) in states 1, 2, 3; the default pays 1 for a match."""
    seen = (("1", "1|2"), ("2|3", "1|2"), ("2|3", "3"))
    outcomes: list[Outcome] = []
    for payoff, private in zip(payoffs, seen, strict=True):
        pays = payoff or {(a, a): 1.0 for a in _COIN}
        state = Turn(0, {a: Turn(1, {b: pays.get((a, b), 0.0) for b in _COIN}) for a in _COIN})
        outcomes.append(Outcome(1 / 3, state, private))
    return _game(name, _COIN, Chance(outcomes), depth=0)
