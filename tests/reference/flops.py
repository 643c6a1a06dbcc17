"""Flops with every turn and river: betting, payoffs of all pairs of hands, and values, from the rules.

Only small games are feasible: most cards are dead, and the ranges have few hands. Menus have shares of the
pot and all-in bets.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from phevaluator import evaluate_cards

from jaxgadget.core.lp.program import Goal
from jaxgadget.core.lp.solve import solve_program
from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL
from jaxgadget.games.hands import HandsGame, PublicLevel, PublicNodes, group_ends
from jaxgadget.games.sizes import ALL_IN
from jaxgadget.holdem.betting import BetMenu
from jaxgadget.holdem.cards import HANDS, card_name, hand_name
from jaxgadget.holdem.locks import Lock
from jaxgadget.holdem.solution import SpotSolution
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.strategies import action_nodes, rows_to_probabilities
from jaxgadget.policy.exact import exact_problem
from jaxgadget.tree.public import public_tree
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

DEALS, OVER = 2, 3
"""Values of `Node.actor` if no player acts."""

Play = Callable[["Node"], dict[str, FloatArray]]
"""Function from a decision to the probability `[H]` of each action, with each hand in the actor's range."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Node:
    """A public node.

    Attributes:
      words: actions and cards that lead to the node.
      cards: the dealt turn and river.
      actor: the acting player, `DEALS` or `OVER`.
      put_in: both players' chips in the pot since the start.
      begin: chips that each player had put in when the street began.
      last: size of the street's last bet or raise.
      num_bets: bets and raises on the street.
      donks: True if a bet here is a donk bet.
      folded: the player that folded, -1 for none.
    """

    words: tuple[str, ...] = ()
    cards: tuple[int, ...] = ()
    actor: int = 0
    put_in: tuple[float, float] = (0.0, 0.0)
    begin: float = 0.0
    last: float = 0.0
    num_bets: int = 0
    donks: bool = False
    folded: int = -1

    @property
    def line(self) -> str:
        """The words, separated by commas."""
        return ", ".join(self.words)

    @property
    def actions(self) -> tuple[str, ...]:
        """The words without cards."""
        return tuple(word for word in self.words if word not in map(card_name, self.cards))


class AtNode(NamedTuple):
    """Values at a node; arrays are over the hands of each player's range, NaN for hands that meet no other.

    Attributes:
      ev: for both players expected share of the final pot minus the chips put in from the node on.
      equity: for both players expected share of the pot without further bets.
      action_ev: EVs of the acting player's actions.
      reach: for both players weight in the range × probability of playing to the node; 0 for impossible
        hands.
    """

    ev: tuple[FloatArray, FloatArray]
    equity: tuple[FloatArray, FloatArray]
    action_ev: dict[str, FloatArray]
    reach: tuple[FloatArray, FloatArray]


class Values(NamedTuple):
    """Values of strategies; chips are counted as in `SpotSolution`.

    Attributes:
      ev: both players' EVs.
      gains: gains of both players from a best response.
      at: values at every node, by line.
    """

    ev: tuple[float, float]
    gains: tuple[float, float]
    at: Callable[[str], AtNode]


class ListedFlop:
    """A flop (or turn) with all its public nodes.

    Attributes:
      spot: the spot.
      nodes: the public nodes, breadth-first, with the children of a node adjacent.
      parent: `[n]` parent of each node.
      below: children of each node.
      hands: for both players the hands in the range, as indices into `HANDS`.
      weights: for both players the weights of these hands.
    """

    def __init__(self, spot: Spot) -> None:
        self.spot = spot
        deck = [card for card in range(52) if card not in spot.gone]
        self.nodes, self.parent, self.below = [Node()], [0], list[list[int]]()
        for number, node in enumerate(self.nodes):
            children = sorted(_children(spot, deck, node), key=lambda child: _order(child.words[-1]))
            self.below.append(list(range(len(self.nodes), len(self.nodes) + len(children))))
            self.nodes += children
            self.parent += [number] * len(children)
        held = [np.flatnonzero(weights) for weights in spot.range_weights]
        self.hands: tuple[IntArray, IntArray] = (spot.hands[held[0]], spot.hands[held[1]])
        self.weights: tuple[FloatArray, FloatArray] = (
            spot.range_weights[0][held[0]],
            spot.range_weights[1][held[1]],
        )
        cards = HANDS[self.hands[0]][:, None, :, None], HANDS[self.hands[1]][None, :, None, :]
        self.compatible = ~(cards[0] == cards[1]).any(axis=(2, 3))
        self.by_line = {node.line: number for number, node in enumerate(self.nodes)}

    @property
    def pairs(self) -> float:
        """Weight of all compatible pairs."""
        return float(self.weights[0] @ self.compatible @ self.weights[1])

    def possible(self, player: int, cards: tuple[int, ...]) -> FloatArray:
        """`[H]` 1 for hands without dealt cards, 0 for others."""
        return np.where(np.isin(HANDS[self.hands[player]], cards).any(axis=1), 0.0, 1.0)

    def chance(self, cards: tuple[int, ...]) -> FloatArray:
        """`[H_0, H_1]` probability that these cards are dealt to a pair of hands; 0 for impossible pairs."""
        left = 52 - len(self.spot.gone) - 4
        drawn = np.prod([1 / (left - number) for number in range(len(cards))])
        return drawn * self.compatible * np.outer(self.possible(0, cards), self.possible(1, cards))

    def shares(self, cards: tuple[int, ...]) -> FloatArray:
        """`[H_0, H_1]` player 0's share of the pot at a showdown, the mean over cards still to come."""
        return _shares(self.spot.cards, cards, self.spot.gone, tuple(self.hands[0]), tuple(self.hands[1]))

    def paid(self, node: Node) -> tuple[FloatArray, FloatArray]:
        """Both players' chips `[H_0, H_1]` at a terminal node: share of the pot minus all chips put in."""
        spot, called = self.spot, spot_pot(self.spot, node)
        rake = min(spot.rake * called, spot.rake_cap)
        ahead = [max(put - min(node.put_in), 0.0) for put in node.put_in]  # returned, as they are not called
        share = self.shares(node.cards) if node.folded < 0 else np.full(self.compatible.shape, node.folded)
        return (
            share * (called - rake) + ahead[0] - node.put_in[0],
            (1 - share) * (called - rake) + ahead[1] - node.put_in[1],
        )

    def by_hands(self) -> HandsGame:
        """The game in hand form, with explicit payoffs in chips, half of the pot subtracted; without rake."""
        assert not self.spot.rake
        names = sorted(
            {node.words[-1] for node in self.nodes[1:] if node.words[-1] not in _CARDS}, key=_order
        )
        kinds: dict[tuple[tuple[int, ...], bool], int] = {}
        tables: list[FloatArray] = []
        ends: list[tuple[int, float, int]] = []
        deal = np.outer(*self.weights) / self.pairs
        for number, node in enumerate(self.nodes):
            if node.actor != OVER:
                continue
            shown = node.folded < 0
            if (node.cards, shown) not in kinds:
                kinds[node.cards, shown] = len(tables)
                won = 2 * self.shares(node.cards) - 1 if shown else np.ones(self.compatible.shape)
                tables.append(deal * self.chance(node.cards) * won)
            at_stake = self.spot.pot / 2 + min(node.put_in)
            ends.append((number, -at_stake if node.folded == 0 else at_stake, kinds[node.cards, shown]))
        number, stake, kind = map(np.array, zip(*ends, strict=True))
        most = self.spot.pot / 2 + self.spot.effective_stack
        return HandsGame(
            name=f"listed {self.spot.board}",
            hands=(tuple(map(hand_name, self.hands[0])), tuple(map(hand_name, self.hands[1]))),
            nodes=self._public(names),
            ends=group_ends(number, stake, kind, np.stack(tables)),
            payoff_bounds=(-most, most),
            possible=(
                np.stack([self.possible(0, node.cards) > 0 for node in self.nodes]),
                np.stack([self.possible(1, node.cards) > 0 for node in self.nodes]),
            ),
            constant=self.spot.pot,
            action_names=tuple(names),
        )

    def _public(self, names: list[str]) -> PublicNodes:
        ids = {**{name: number for number, name in enumerate(names)}, **_CARDS}
        levels: list[PublicLevel] = []
        above, row = {0: 0}, [0]
        while row:
            levels.append(
                PublicLevel(
                    np.array([above[self.parent[node]] if node else 0 for node in row]),
                    np.array(
                        [(*ACTOR_BIT, CHANCE, TERMINAL)[self.nodes[node].actor] for node in row], np.uint8
                    ),
                    np.array([ids[self.nodes[node].words[-1]] if node else 0 for node in row]),
                )
            )
            above = {node: number for number, node in enumerate(row)}
            row = [child for node in row for child in self.below[node]]
        return PublicNodes.of(levels)

    def evaluate(self, play: Play, locked: Callable[[Node], BoolArray] | None = None) -> Values:
        """Values of both players' strategies.

        Args:
          play: the strategies.
          locked: function of a decision, mask `[H]` of the hands with which best responses play the strategy.
        """
        chosen: list[dict[str, FloatArray]] = [
            play(node) if node.actor in (0, 1) else {} for node in self.nodes
        ]
        reach = [(self.weights[0], self.weights[1])]
        for number in range(1, len(self.nodes)):
            first, second = reach[self.parent[number]]
            node, above = self.nodes[number], self.nodes[self.parent[number]]
            row = chosen[self.parent[number]].get(node.words[-1], np.ones(()))
            dealt = [self.possible(player, node.cards) if above.actor == DEALS else 1.0 for player in (0, 1)]
            reach.append(
                (
                    first * dealt[0] * (row if above.actor == 0 else 1.0),
                    second * dealt[1] * (row if above.actor == 1 else 1.0),
                )
            )
        worth = [self._sweep(player, reach, chosen, best=False) for player in (0, 1)]
        best = [self._sweep(player, reach, chosen, best=True, locked=locked) for player in (0, 1)]
        evs = [float(self.weights[player] @ worth[player][0]) / self.pairs for player in (0, 1)]
        most = [float(self.weights[player] @ best[player][0]) / self.pairs for player in (0, 1)]

        def at(line: str) -> AtNode:
            number = self.by_line[line]
            node, pair = self.nodes[number], reach[number]
            chance, share = self.chance(node.cards), self.shares(node.cards)
            met = chance @ pair[1], chance.T @ pair[0]
            won = (chance * share) @ pair[1], (chance * (1 - share)).T @ pair[0]

            def chips(player: int, number: int) -> FloatArray:
                return node.put_in[player] + _divide(worth[player][number], met[player])

            return AtNode(
                ev=(chips(0, number), chips(1, number)),
                equity=(_divide(won[0], met[0]), _divide(won[1], met[1])),
                action_ev={
                    self.nodes[child].words[-1]: chips(node.actor, child)
                    for child in self.below[number]
                    if node.actor in (0, 1)
                },
                reach=pair,
            )

        return Values((evs[0], evs[1]), (most[0] - evs[0], most[1] - evs[1]), at)

    def _sweep(
        self,
        player: int,
        reach: list[tuple[FloatArray, FloatArray]],
        chosen: list[dict[str, FloatArray]],
        *,
        best: bool,
        locked: Callable[[Node], BoolArray] | None = None,
    ) -> list[FloatArray]:
        """A player's counterfactual values `[H]` at every node, for a best response or its own strategy."""
        values = [np.zeros(len(self.hands[player])) for _ in self.nodes]
        for number in range(len(self.nodes) - 1, -1, -1):
            node, below = self.nodes[number], self.below[number]
            if node.actor == OVER:
                pays = self.chance(node.cards) * self.paid(node)[player]
                values[number] = (pays if player == 0 else pays.T) @ reach[number][1 - player]
            elif node.actor == player:
                values[number] = sum(
                    (chosen[number][self.nodes[child].words[-1]] * values[child] for child in below),
                    np.zeros(len(self.hands[player])),
                )
                if best:
                    free = np.ones(len(values[number]), np.bool_) if locked is None else ~locked(node)
                    most = np.max([values[child] for child in below], axis=0)
                    values[number] = np.where(free, most, values[number])
            else:
                values[number] = np.sum([values[child] for child in below], axis=0)
        return values


def spot_pot(spot: Spot, node: Node) -> float:
    """Chips in the pot at a node that both players have put in, with the pot at the start."""
    return spot.pot + 2 * min(node.put_in)


@functools.cache
def _shares(
    flop: tuple[int, ...],
    cards: tuple[int, ...],
    gone: tuple[int, ...],
    first: tuple[int, ...],
    second: tuple[int, ...],
) -> FloatArray:
    board = (*flop, *cards)
    shares = np.zeros((len(first), len(second)))
    for row, column in itertools.product(range(len(first)), range(len(second))):
        a, b = HANDS[first[row]].tolist(), HANDS[second[column]].tolist()
        if len({*a, *b, *board}) < 4 + len(board):
            continue
        deck = [card for card in range(52) if card not in {*gone, *cards, *a, *b}]
        runouts = list(itertools.combinations(deck, 5 - len(board)))
        shares[row, column] = np.mean([_share((*board, *runout), a, b) for runout in runouts])
    return shares


def _share(board: tuple[int, ...], first: list[int], second: list[int]) -> float:
    one, other = evaluate_cards(*board, *first), evaluate_cards(*board, *second)  # smaller is stronger
    return 0.5 + 0.5 * float(np.sign(other - one))


def _children(spot: Spot, deck: list[int], node: Node) -> Iterator[Node]:
    """Nodes after all actions that the rules and the spot's menus allow."""
    last_street = 5 - len(spot.cards)
    if node.actor == OVER:
        return
    if node.actor == DEALS:
        all_in = min(node.put_in) >= spot.effective_stack
        final = len(node.cards) + 1 == last_street
        for card in deck:
            if card not in node.cards:
                yield Node(
                    words=(*node.words, card_name(card)),
                    cards=(*node.cards, card),
                    actor=(OVER if final else DEALS) if all_in else 0,
                    put_in=node.put_in,
                    begin=node.put_in[0],
                    donks=node.donks,
                )
        return

    def after(word: str, **changes: object) -> Iterator[Node]:
        words = (*node.words, word)
        if ", ".join((*node.actions, word)) not in spot.remove:
            yield dataclasses.replace(node, words=words, donks=False, **changes)  # pyright: ignore[reportArgumentType]

    closed = OVER if len(node.cards) == last_street else DEALS
    own, other = node.put_in[node.actor], node.put_in[1 - node.actor]
    if other > own:
        yield from after("fold", actor=OVER, folded=node.actor)
        for child in after("call", actor=closed, put_in=(other, other)):
            yield dataclasses.replace(child, donks=node.actor == 0)
    else:
        yield from after("check", actor=1 if node.actor == 0 else closed)
    menu = _menu(spot, len(node.cards), node.actor)
    stack = spot.effective_stack
    if other >= stack or (menu.cap is not None and node.num_bets >= menu.cap):
        return
    sizes = menu.raises if other > own else menu.donks if node.donks and menu.donks is not None else menu.bets
    targets: set[float] = set()
    for size in sizes:
        if size == ALL_IN:
            targets.add(stack)
        else:
            assert isinstance(size, float | int)
            targets.add(min(other + max(size * (spot.pot + 2 * other), node.last, spot.min_bet), stack))
    for target in sorted(targets):
        kind = "all-in" if target == stack else "raise to" if other > own else "bet"
        yield from after(
            f"{kind} {target - node.begin:.12g}",
            actor=1 - node.actor,
            put_in=(target, other) if node.actor == 0 else (other, target),
            last=target - other,
            num_bets=node.num_bets + 1,
        )


def _menu(spot: Spot, street: int, player: int) -> BetMenu:
    """A player's menu on a street, 0 for that of the spot's board."""
    menus = spot.menus
    for later in (spot.turn_menus, spot.river_menus)[len(spot.cards) - 3 :][:street]:
        menus = menus if later is None else later
    return menus if isinstance(menus, BetMenu) else menus[player]


_CARDS = {card_name(card): card for card in range(52)}


def _order(word: str) -> tuple[int, float]:
    """Cards by number, passive actions before bets by size."""
    kind, _, size = word.rpartition(" ")
    passive = {"fold": 0, "check": 1, "call": 2}
    return (0, _CARDS[word]) if word in _CARDS else (0, passive[word]) if not kind else (1, float(size))


def _divide(values: FloatArray, met: FloatArray) -> FloatArray:
    return np.divide(values, met, out=np.full_like(values, np.nan), where=met > 1e-12 * met.max(initial=0))


def place_hands(spot: Spot, wanted: IntArray) -> tuple[IntArray, np.ndarray]:
    """Position of hands among those that are left in a spot, and a mask of the hands that are left."""
    place = np.minimum(np.searchsorted(spot.hands, wanted), len(spot.hands) - 1)
    return place, spot.hands[place] == wanted


def values_of(
    listed: ListedFlop, solution: SpotSolution, locked: Callable[[Node], BoolArray] | None = None
) -> Values:
    """Values, in the listed game, of the strategies of all streets; `locked` as in `ListedFlop.evaluate`."""

    def play(node: Node) -> dict[str, FloatArray]:
        strategy = solution.strategy(node.line)
        place, left = place_hands(street_of(solution, node.words), listed.hands[node.actor])
        return {action: np.where(left, row[place], 1 / len(strategy)) for action, row in strategy.items()}

    return listed.evaluate(play, locked)


def is_card(word: str) -> bool:
    """True for a card among the words of a line."""
    return re.fullmatch("[2-9TJQKA][shdc]", word) is not None


def street_of(solution: SpotSolution, words: Sequence[str]) -> Spot:
    """The flop, or the turn's spot on which a line ends."""
    deal = next((number for number, word in enumerate(words) if is_card(word)), None)
    return solution.spot if deal is None else solution.after(", ".join(words[: deal + 1])).spot


def leads_to(line: str, node: Node) -> bool:
    """True if a line leads to a node; cards that it does not name may be any."""
    words = [word.strip() for word in line.split(",")] if line else []
    for word in node.words:
        if words and words[0] == word:
            words.pop(0)
        elif not is_card(word) or (words and is_card(words[0])):
            return False
    return not words


class FixedAt(NamedTuple):
    """The locks of a node.

    Attributes:
      held: `[H]` mask of the locked hands in the acting player's range.
      strategy: probability `[H]` of each action, 0 with other hands.
    """

    held: BoolArray
    strategy: dict[str, FloatArray]


def fixed_at(listed: ListedFlop, locks: Sequence[Lock], node: Node) -> FixedAt:
    """The strategy that locks with numbers and lists of hands fix at a node; no hand is locked twice."""
    names = [hand_name(hand) for hand in listed.hands[node.actor].tolist()]
    below = [listed.nodes[child] for child in listed.below[listed.by_line[node.line]]]
    strategy = {child.words[-1]: np.zeros(len(names)) for child in below}
    held = np.zeros(len(names), np.bool_)
    for lock in locks:
        if leads_to(lock.line, node):
            own = np.array([lock.hands is None or name in str(lock.hands).split(",") for name in names])
            assert not (held & own & (listed.possible(node.actor, node.cards) > 0)).any()
            held |= own
            for action, probability in lock.strategy.items():
                strategy[action][own] = probability
    return FixedAt(held, strategy)


def locked_value(listed: ListedFlop, locks: Sequence[Lock]) -> float:
    """Player 0's value of the locked game in chips, half of the pot subtracted, by a linear program."""
    tree = public_tree(listed.by_hands())
    floors: list[FloatArray] = []
    for player in (0, 1):
        rows: list[FloatArray] = []
        for child in action_nodes(tree.nodes, player).tolist():
            fixed = fixed_at(listed, locks, listed.nodes[listed.parent[child]])
            rows.append(fixed.strategy[listed.nodes[child].words[-1]])
        floors.append(rows_to_probabilities(tree, player, np.stack(rows))[:, 0])
    problem = exact_problem(sequence_form(tree), (floors[0], floors[1]))
    return float(solve_program(problem, 0, Goal(maximiser=0), name="locked flop").value[0])
