"""Spots of hold'em, pair of hands by pair of hands and river by river, from the definitions alone."""

from collections.abc import Callable

import numpy as np
from phevaluator import evaluate_cards

from jaxgadget.poker.cards import HANDS, cards_left
from jaxgadget.poker.spots import Spot

Play = Callable[[int, str, int], dict[str, float]]
"""Player, line and hand → action → probability."""


def expected_chips(spot: Spot, play: Play) -> tuple[float, float]:
    """Both players' expected share of the pot, less what they put in."""
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
    if folded >= 0:
        won = np.zeros(2)
        won[1 - folded] = spot.pot + put_in.sum()
        return won - put_in
    assert put_in[0] == put_in[1]
    ranks = [evaluate_cards(*board, *HANDS[spot.hands[hand]].tolist()) for hand in hands]
    shares = [0.5, 0.5] if ranks[0] == ranks[1] else [float(ranks[0] < ranks[1]), float(ranks[1] < ranks[0])]
    return np.array(shares) * (spot.pot + put_in.sum()) - put_in
