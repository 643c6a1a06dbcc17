"""Hold'em spots, enumerated by pairs of hands and rivers, from the definitions alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from phevaluator import evaluate_cards

from jaxgadget.games.game import CHANCE
from jaxgadget.games.stepwise import Rules, Step
from jaxgadget.holdem.betting import BetMenu
from jaxgadget.holdem.cards import HANDS, card_name, cards_left
from jaxgadget.holdem.solution import SpotSolution
from jaxgadget.holdem.spots import Spot
from tests.reference import efg

Play = Callable[[int, str, int], dict[str, float]]
"""Player, line and hand → action → probability."""


def expected_chips(spot: Spot, play: Play) -> tuple[float, float]:
    """Both players' expected share of the pot minus the chips that they put in."""
    total = np.zeros(2)
    weight = 0.0
    first, second = spot.range_weights
    for a in np.flatnonzero(first).tolist():
        for b in np.flatnonzero(second).tolist():
            cards = HANDS[spot.hands[[a, b]]]
            if len(set(cards.ravel().tolist())) < 4:
                continue
            pair = float(first[a] * second[b])
            weight += pair
            total += pair * _below(spot, play, 0, (a, b), [*spot.cards])
    return tuple((total / weight).tolist())


class HandValues(NamedTuple):
    """A player's hand at a node.

    Attributes:
      ev: expected share of the final pot minus the chips that the player puts in from the node on.
      equity: expected share of the pot without further bets.
      action_ev: the same as `ev` after each action of the player; empty if it does not act.
    """

    ev: float
    equity: float
    action_ev: dict[str, float]


def values_at(spot: Spot, play: Play, line: str) -> tuple[dict[int, HandValues], dict[int, HandValues]]:
    """Both players' hands with a compatible hand of the other player that gets to the node after a line."""
    tree, node = spot.betting, spot.betting.find(line)
    path: list[int] = []
    while node:
        path.append(node)
        node = int(tree.tree.parent[node])
    node = spot.betting.find(line)
    card = int(tree.card[node])
    board = [*spot.cards, *([card] if card >= 0 else [])]

    def reach(player: int, hand: int) -> float:
        """Probability that a player holds a hand and plays to the node."""
        total = float(spot.range_weights[player][hand])
        for child in path:
            parent = int(tree.tree.parent[child])
            if int(tree.tree.actor[parent]) == 1 + player:
                total *= play(player, tree.line(parent), hand)[tree.action_name(child)]
        return total

    held = [np.flatnonzero(weights).tolist() for weights in spot.range_weights]
    pairs = [
        (a, b)
        for a in held[0]
        for b in held[1]
        if len({*HANDS[spot.hands[[a, b]]].ravel().tolist(), *board}) == 4 + len(board)
    ]
    actor = int(tree.tree.actor[node]) - 1
    children = tree.children(node) if actor in (0, 1) else []
    sums: tuple[dict[int, np.ndarray], dict[int, np.ndarray]] = ({}, {})
    for pair in pairs:
        put_in = tree.put_in[node]
        chips = _below(spot, play, node, pair, board) + put_in
        after = [_below(spot, play, child, pair, board) + put_in for child in children]
        for player in (0, 1):
            weight = reach(1 - player, pair[1 - player])
            row = [1.0, chips[player], _equity(spot, pair, board)[player], *(x[player] for x in after)]
            total = sums[player].setdefault(pair[player], np.zeros(len(row)))
            total += weight * np.array(row)
    found: list[dict[int, HandValues]] = []
    for player in (0, 1):
        means = {hand: total[1:] / total[0] for hand, total in sums[player].items() if total[0] > 0}
        names = [tree.action_name(child) for child in children if actor == player]
        found.append(
            {
                hand: HandValues(
                    float(mean[0]), float(mean[1]), dict(zip(names, mean[2:].tolist(), strict=False))
                )
                for hand, mean in means.items()
            }
        )
    return found[0], found[1]


def _equity(spot: Spot, hands: tuple[int, int], board: list[int]) -> np.ndarray:
    """Both players' shares of the pot if nobody bets, the mean over all rivers."""
    cards = [HANDS[spot.hands[hand]].tolist() for hand in hands]
    if len(board) == 4:
        open_cards = np.setdiff1d(cards_left(board), cards).tolist()
        return np.mean([_equity(spot, hands, [*board, card]) for card in open_cards], axis=0)
    first, second = (evaluate_cards(*board, *own) for own in cards)
    return (
        np.array([0.5, 0.5]) if first == second else np.array([float(first < second), float(second < first)])
    )


def _below(spot: Spot, play: Play, node: int, hands: tuple[int, int], board: list[int]) -> np.ndarray:
    tree = spot.betting
    children = tree.children(node)
    if not children:
        return _paid(spot, node, hands, board)
    actor = int(tree.tree.actor[node])
    if actor == 4:  # chance
        taken = set(HANDS[spot.hands[list(hands)]].ravel().tolist())
        open_cards = [card for card in cards_left(board).tolist() if card not in taken]
        rivers = [child for child in children if int(tree.card[child]) in open_cards]
        assert len(rivers) == len(open_cards) == 44
        values = [_below(spot, play, child, hands, [*board, int(tree.card[child])]) for child in rivers]
        return np.mean(values, axis=0)
    player = 0 if actor == 1 else 1
    total = np.zeros(2)
    for child in children:
        chance = play(player, tree.line(node), hands[player])[tree.action_name(child)]
        if chance:
            total += chance * _below(spot, play, child, hands, board)
    return total


def _paid(spot: Spot, node: int, hands: tuple[int, int], board: list[int]) -> np.ndarray:
    tree = spot.betting
    put_in = tree.put_in[node]
    folded = int(tree.folded[node])
    rake = min(
        spot.rake * (spot.pot + 2 * float(put_in.min())), spot.rake_cap
    )  # not of chips that are not called
    if folded >= 0:
        won = np.zeros(2)
        won[1 - folded] = spot.pot + put_in.sum() - rake
        return won - put_in
    assert put_in[0] == put_in[1]
    ranks = [evaluate_cards(*board, *HANDS[spot.hands[hand]].tolist()) for hand in hands]
    shares = [0.5, 0.5] if ranks[0] == ranks[1] else [float(ranks[0] < ranks[1]), float(ranks[1] < ranks[0])]
    return np.array(shares) * (spot.pot + put_in.sum() - rake) - put_in


def explicit_game(spot: Spot, fixed: Callable[[int, str, int], dict[str, float] | None]) -> efg.Node:
    """A spot as an explicit tree, half of the pot subtracted; decisions with a fixed strategy are chance's.

    Args:
      spot: the spot.
      fixed: function from player, line and hand to the fixed strategy; None for a free decision.
    """
    tree = spot.betting

    def below(node: int, hands: tuple[int, int], board: list[int]) -> efg.Node:
        children = tree.children(node)
        if not children:
            return efg.Terminal(float(_paid(spot, node, hands, board)[0]) - spot.pot / 2)
        actor = int(tree.tree.actor[node])
        if actor == 4:  # chance
            taken = HANDS[spot.hands[list(hands)]]
            rivers = [child for child in children if int(tree.card[child]) not in taken]
            nodes = tuple(below(child, hands, [*board, int(tree.card[child])]) for child in rivers)
            return efg.Chance((1 / len(rivers),) * len(rivers), nodes)
        player, names = actor - 1, [tree.action_name(child) for child in children]
        nodes = tuple(below(child, hands, board) for child in children)
        given = fixed(player, tree.line(node), hands[player])
        if given is not None:
            return efg.Chance(tuple(given.get(name, 0.0) for name in names), nodes)
        return efg.Decision(player, (player, hands[player], node), tuple(names), nodes)

    first, second = spot.range_weights
    pairs = [
        (a, b)
        for a in np.flatnonzero(first).tolist()
        for b in np.flatnonzero(second).tolist()
        if len({*HANDS[spot.hands[[a, b]]].ravel().tolist()}) == 4
    ]
    weights = np.array([first[a] * second[b] for a, b in pairs])
    nodes = tuple(below(0, pair, [*spot.cards]) for pair in pairs)
    return efg.Chance(tuple((weights / weights.sum()).tolist()), nodes)


class Streets(Rules[tuple[int, int, str]]):
    """A river, or a turn and its rivers, with half-pot bets and pot-sized raises, each at most all-in.

    The menu's `cap` bounds the number of bets and raises of a street. A state is a pair of hands and a line:
    letters for the moves of a street (x check, c call, f fold, b bet or raise); on a turn followed by the
    dealt card and the river's letters, such as `bc 37 xb`.
    """

    name = "streets"
    actions = ("fold", "check or call", "bet or raise")

    def __init__(self, spot: Spot):
        assert isinstance(spot.menus, BetMenu) and spot.menus.cap is not None and spot.river_menus is None
        self._spot, self._cap = spot, spot.menus.cap
        first, second = spot.range_weights
        self._pairs = [
            (a, b)
            for a in np.flatnonzero(first).tolist()
            for b in np.flatnonzero(second).tolist()
            if len(set(HANDS[spot.hands[[a, b]]].ravel().tolist())) == 4
        ]
        weights = np.array([first[a] * second[b] for a, b in self._pairs])
        self._chances = (weights / weights.sum()).tolist()

    def initial_state(self) -> tuple[int, int, str]:
        return -1, -1, ""

    def actors(self, state: tuple[int, int, str]) -> tuple[int, ...]:
        if state[0] < 0:
            return (CHANCE,)
        *before, letters = _letters(state[2])
        if letters.endswith("f"):
            return ()
        shown = len(self._spot.cards) + len(before) == 5
        if letters.endswith("c") or letters == "xx":
            return () if shown else (CHANCE,)
        if before and self._put_in(state[2])[0] == self._spot.stack and not letters:
            return ()  # all-in on the turn
        return (len(letters) % 2,)

    def chance_outcomes(self, state: tuple[int, int, str]) -> list[tuple[int, float]]:
        a, b, _ = state
        if a < 0:
            return list(enumerate(self._chances))
        gone = {*self._spot.cards, *HANDS[self._spot.hands[[a, b]]].ravel().tolist()}
        return [(card, 1 / 44) for card in range(52) if card not in gone]

    def legal_actions(self, state: tuple[int, int, str], player: int) -> list[int]:
        line = state[2]
        own, other = self._put_in(line)[player], self._put_in(line)[1 - player]
        may_raise = _letters(line)[-1].count("b") < self._cap and other < self._spot.stack
        return [*([0] if other > own else []), 1, *([2] if may_raise else [])]

    def step(self, state: tuple[int, int, str], move: int) -> Step[tuple[int, int, str]]:
        a, b, line = state
        if a < 0:
            a, b = self._pairs[move]
            return Step((a, b, ""), private=(a, b))
        if self.actors(state) == (CHANCE,):
            after = f"{line} {move} "
        else:
            put_in = self._put_in(line)
            after = line + ("f", "c" if put_in[0] != put_in[1] else "x", "b")[move]
        over = (a, b, after)
        return Step(over, reward=0.0 if self.actors(over) else self._won(over), public=after)

    def _put_in(self, line: str) -> list[float]:
        put_in = [0.0, 0.0]
        for letters in _letters(line):
            begin = put_in[0]
            for turn, letter in enumerate(letters):
                own, other = turn % 2, 1 - turn % 2
                if letter == "b":
                    share = 1.0 if put_in[other] > begin else 0.5
                    more = share * (self._spot.pot + 2 * put_in[other])
                    put_in[own] = min(put_in[other] + more, self._spot.stack)
                elif letter == "c":
                    put_in[own] = put_in[other]
        return put_in

    def _won(self, state: tuple[int, int, str]) -> float:
        """Player 0's return, minus half of the pot."""
        *hands, line = state
        at_stake = self._spot.pot / 2 + min(self._put_in(line))
        if line.endswith("f"):
            return -at_stake if len(_letters(line)[-1]) % 2 else at_stake
        board = [*self._spot.cards, *map(int, line.split(" ")[1:2])]
        first, second = (evaluate_cards(*board, *HANDS[self._spot.hands[hand]].tolist()) for hand in hands)
        return at_stake * float(np.sign(second - first))


def _letters(line: str) -> list[str]:
    """The letters of each street, without the dealt card."""
    return line.split(" ")[::2]


class OnTheWay(Streets):
    """The same spot with an even deal: first both players enter with probabilities given by their ranges.

    A player who stays out pays something. The spot is therefore a subgame, `depth:2`, and ranges are
    reaches.
    """

    name = "on the way"

    def __init__(self, spot: Spot):
        super().__init__(spot)
        self._chances = [1 / len(self._pairs)] * len(self._pairs)

    @property
    def chance_of_coming(self) -> float:
        """The probability that both players enter, given their ranges."""
        first, second = self._spot.range_weights
        return sum(float(first[a] * second[b]) for a, b in self._pairs) / len(self._pairs)

    def initial_state(self) -> tuple[int, int, str]:
        return -1, -1, "?"

    def actors(self, state: tuple[int, int, str]) -> tuple[int, ...]:
        line = state[2]
        if state[0] < 0 or line not in ("?", "??", "left"):
            return super().actors(state)
        return () if line == "left" else (len(line) - 1,)

    def legal_actions(self, state: tuple[int, int, str], player: int) -> list[int]:
        return [0, 1] if state[2] in ("?", "??") else super().legal_actions(state, player)

    def step(self, state: tuple[int, int, str], move: int) -> Step[tuple[int, int, str]]:
        a, b, line = state
        if a < 0:
            a, b = self._pairs[move]
            return Step((a, b, line), private=(a, b))
        if line not in ("?", "??"):
            return super().step(state, move)
        if move == 0:
            return Step((a, b, "left"), reward=-12.0 if line == "?" else 7.0, public="left")
        return Step((a, b, "??" if line == "?" else ""), public="comes")

    def infostate_string(self, state: tuple[int, int, str], player: int) -> str:
        return f"{player} {state[player]} {state[2]}"

    def blueprint(self, solution: SpotSolution) -> dict[str, list[float]]:
        """Entering according to the ranges, then playing a solution of the spot."""
        rows: dict[str, list[float]] = {}
        hands = [sorted({pair[player] for pair in self._pairs}) for player in (0, 1)]
        for player, line in ((0, "?"), (1, "??")):
            for hand in hands[player]:
                weight = float(self._spot.range_weights[player][hand])
                rows[f"{player} {hand} {line}"] = [1 - weight, weight]
        left = [("", "")]
        while left:
            letters, line = left.pop()
            dealt = letters.split(" ")[1:2]
            possible = [
                [hand for hand in held if not {*map(int, dealt)} & {*HANDS[self._spot.hands[hand]].tolist()}]
                for held in hands
            ]
            player, played = solution.actor(line), solution.strategy(line)
            for hand in possible[player]:
                rows[f"{player} {hand} {letters}"] = [float(p[hand]) for p in played.values()]
            for action in played:
                letter = {"check": "x", "call": "c", "fold": "f"}.get(action, "b")
                after, spoken = letters + letter, f"{line}, {action}" if line else action
                actors = self.actors((0, 0, after))
                if actors == (CHANCE,):
                    cards = cards_left(self._spot.cards).tolist()
                    dealt_lines = [(f"{after} {card} ", f"{spoken}, {card_name(card)}") for card in cards]
                    left += [pair for pair in dealt_lines if self.actors((0, 0, pair[0]))]
                elif actors:
                    left.append((after, spoken))
        return rows


class SpotRules(Rules[tuple[int, int, int]]):
    """A spot by its betting tree, for any menus, with the methods that `translate` of histories needs."""

    name = "spot"

    def __init__(self, spot: Spot):
        self._spot, self._tree = spot, spot.betting
        self.actions = self._tree.names
        pairs = [np.flatnonzero(weights).tolist() for weights in spot.range_weights]
        hands = HANDS[spot.hands]
        self._pairs = [(a, b) for a in pairs[0] for b in pairs[1] if not set(hands[a]) & set(hands[b])]

    def initial_state(self) -> tuple[int, int, int]:
        return -1, -1, 0

    def actors(self, state: tuple[int, int, int]) -> tuple[int, ...]:
        if state[0] < 0:
            return (CHANCE,)
        return {1: (0,), 2: (1,), 4: (CHANCE,)}.get(int(self._tree.tree.actor[state[2]]), ())

    def chance_outcomes(self, state: tuple[int, int, int]) -> list[tuple[int, float]]:
        a, b, node = state
        if a < 0:
            return [(pair, 1 / len(self._pairs)) for pair in range(len(self._pairs))]
        taken = HANDS[self._spot.hands[[a, b]]]
        cards = [int(self._tree.card[child]) for child in self._tree.children(node)]
        return [(card, 1 / 44) for card in cards if card not in taken]

    def legal_actions(self, state: tuple[int, int, int], player: int) -> list[int]:
        return [int(self._tree.tree.action[child]) for child in self._tree.children(state[2])]

    def step(self, state: tuple[int, int, int], move: int) -> Step[tuple[int, int, int]]:
        a, b, node = state
        if a < 0:
            a, b = self._pairs[move]
            return Step((a, b, 0), private=(a, b))
        child = next(c for c in self._tree.children(node) if int(self._tree.tree.action[c]) == move)
        return Step((a, b, child), public=self._tree.action_name(child))

    def infostate_string(self, state: tuple[int, int, int], player: int) -> str:
        return f"{player} {state[player]} {self._tree.line(state[2])}"

    def bet_fraction(self, state: tuple[int, int, int], action: int) -> float | None:
        name = self._tree.names[action]
        if name in ("fold", "check", "call"):
            return None if name == "fold" else 0.0
        node = state[2]
        player = 0 if int(self._tree.tree.actor[node]) == 1 else 1
        other = float(self._tree.put_in[node, 1 - player])
        child = next(c for c in self._tree.children(node) if int(self._tree.tree.action[c]) == action)
        return (float(self._tree.put_in[child, player]) - other) / (self._spot.pot + 2 * other)
