"""Leduc poker as a state machine, and in hand form, for any rules of the betting."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxgadget.games.game import CHANCE, TERMINAL, CutRule, CutView
from jaxgadget.games.hands import HandsGame, PublicLevel, PublicNodes, group_ends, name_cards, pair_names
from jaxgadget.games.leduc.betting import BettingLines, BettingRules, BettingTables
from jaxgadget.games.machine import Array, StateMachine, namespace
from jaxgadget.util.arrays import BoolArray, IntArray


class LeducState(NamedTuple):
    """States of Leduc poker.

    Attributes:
      cards: `[3, n]` private cards of player 0 and player 1, then the public card; -1 before they are dealt.
      node: `[n]` node of the betting (`BettingLines`).
      actions: `[V, P, n]` actions by position in the betting, -1 for none yet. If a player's pointless
        actions are private, as seen by player 0 and player 1, otherwise once.
    """

    cards: Array
    node: Array
    actions: Array


class Deck(NamedTuple):
    """Cards of a game; copies of a type are not distinguished.

    Attributes:
      rank: `[types]` rank of each card type.
      copies: number of copies of each type.
    """

    rank: IntArray
    copies: int

    @staticmethod
    def of(num_ranks: int, num_suits: int, suit_isomorphism: bool) -> Deck:
        """The deck of a game; with `suit_isomorphism` its types are the ranks."""
        copies = num_suits if suit_isomorphism else 1
        return Deck(np.arange(num_ranks * num_suits // copies) * copies // num_suits, copies)

    @property
    def types(self) -> int:
        """Number of card types."""
        return len(self.rank)

    @property
    def size(self) -> int:
        """Number of cards."""
        return self.types * self.copies

    def ahead(self, cards: Array) -> Array:
        """1 if player 0's card wins, -1 if player 1's wins, otherwise 0; `cards` are as in `LeducState`."""
        rank = namespace(cards).asarray(self.rank)[cards]
        strength = rank[:2] + self.types * (rank[:2] == rank[2])
        return namespace(cards).sign(strength[0] - strength[1])


class LeducMachine(StateMachine[LeducState]):
    """Base class of games of the Leduc family; chance outcomes are card types.

    A player observes the effects of all actions, its private card and the public card.
    """

    publics_first = True

    @property
    def hides_actions(self) -> bool:
        """True if a player's pointless actions are private."""
        return False

    @functools.cached_property
    def betting(self) -> BettingRules:
        """The rules of the betting."""
        raise NotImplementedError

    @functools.cached_property
    def deck(self) -> Deck:
        """The cards."""
        raise NotImplementedError

    @functools.cached_property
    def lines(self) -> BettingLines:
        """The nodes of the betting."""
        return _lines(self.betting, self.num_actions)

    @property
    def num_outcomes(self) -> int:
        """Number of card types."""
        return self.deck.types

    @property
    def max_moves(self) -> int:
        """Two private cards and the betting."""
        return 2 + self.lines.max_moves

    def _tables(self, state: LeducState) -> BettingTables:
        """The betting tables, up to one move after the states."""
        return self.lines.tables(state.node if namespace(state.node) is np else None)

    def start(self, n: int, xp: Any) -> LeducState:
        """The states before the deal."""
        kind = xp.int8 if self.num_actions < 128 else xp.int16
        actions = xp.full((1 + self.hides_actions, 2 * self.lines.round_length, n), -1, kind)
        return LeducState(xp.full((3, n), -1, xp.int16), xp.zeros(n, xp.int32), actions)

    def actor(self, state: LeducState) -> Array:
        """Chance deals the private cards, then the betting determines the actor."""
        xp = namespace(state.node)
        is_dealt = state.cards[1] >= 0
        return xp.where(is_dealt, xp.asarray(self._tables(state).actor)[state.node], xp.uint8(CHANCE))

    def legal(self, state: LeducState, player: int) -> Array:
        """Legal actions of the betting."""
        return namespace(state.node).asarray(self._tables(state).legal)[:, state.node]

    def chance(self, state: LeducState) -> Array:
        """Probability of each card type: its share of the remaining cards."""
        xp, deck = namespace(state.node), self.deck
        left = deck.copies - (state.cards[:, None] == xp.arange(deck.types)[:, None]).sum(axis=0)
        share = 1.0 / np.maximum(deck.size - np.arange(4), 1)
        return left * xp.asarray(share)[xp.count_nonzero(state.cards >= 0, axis=0)]

    def step(self, state: LeducState, moves: Array) -> tuple[LeducState, Array]:
        """Deals a private card to a player, or the public card, or takes an action."""
        xp, tables, num_actions = namespace(state.node), self._tables(state), self.num_actions
        card = xp.asarray(moves[2], xp.int16)
        dealt = xp.count_nonzero(state.cards >= 0, axis=0)
        bets = dealt > 1  # neither private card is dealt now
        is_dealt = (xp.arange(3)[:, None] == dealt) & (card >= 0)
        move = xp.where(card >= 0, num_actions, xp.maximum(moves[0], moves[1]))
        effect = xp.asarray(tables.effect)[move, state.node]
        node = xp.where(bets, xp.asarray(tables.after)[move, state.node], state.node)
        # Codes: effects of actions, then a card that another player is dealt, the public one, an own one.
        public = xp.where(card < 0, effect, num_actions + xp.where(bets, 1 + card, 0))
        own = num_actions + 1 + self.deck.types + card
        seen = xp.concatenate([xp.where(is_dealt[:2], own, public), public[None]])
        if self.hides_actions:
            effect = xp.where(xp.asarray(moves[:2]) >= 0, move, effect)
        is_now = xp.arange(state.actions.shape[1])[:, None] == xp.asarray(tables.position)[state.node]
        effect = xp.asarray(effect, state.actions.dtype).reshape(state.actions.shape[0], 1, len(card))
        after = LeducState(
            cards=xp.where(is_dealt, card, state.cards),
            node=node,
            actions=xp.where(is_now & (card < 0), effect, state.actions),
        )
        return after, seen

    def returns(self, state: LeducState) -> Array:
        """The smaller contribution, won by the player that did not fold or has the better card."""
        xp, tables = namespace(state.node), self._tables(state)
        ahead = xp.where(xp.asarray(tables.shows)[state.node], self.deck.ahead(state.cards), 1)
        won = ahead * xp.asarray(tables.won)[state.node]
        return xp.stack([won, 0 - won])

    def features(self, state: LeducState, player: int) -> Array:
        """One-hot: the cards that the player sees and the actions by position; 1 if it begins the rounds."""
        xp, n = namespace(state.node), state.node.shape[0]
        cards = xp.arange(self.deck.types)[:, None]
        actions = state.actions[player if self.hides_actions else 0]
        taken = actions[:, None] == xp.arange(self.num_actions)[:, None]
        begins = self.betting.starting_player == player
        return xp.concatenate(
            [
                cards == state.cards[player],
                cards == state.cards[2],
                taken.reshape(len(actions) * self.num_actions, n),
                xp.full((1, n), begins),
            ]
        )

    def cuts(self) -> Mapping[str, CutRule]:
        """`flop`, right after the public card; `before-flop`, at the chance nodes right before it."""
        return {"flop": _after_public_card, "before-flop": _before_public_card}


@functools.lru_cache(maxsize=64)
def _lines(betting: BettingRules, num_actions: int) -> BettingLines:
    return BettingLines(betting, num_actions)


def _after_public_card(tree: CutView) -> BoolArray:
    is_dealt = (tree.action[2] >= 0) & (tree.num_moves > 0)
    return is_dealt & (tree.actor != TERMINAL)  # all-in: no more decisions


def _before_public_card(tree: CutView) -> BoolArray:
    return (tree.actor == CHANCE) & (tree.num_moves > 0)


def leduc_by_hands(game: LeducMachine) -> HandsGame:
    """A game in hand form, if all its actions are public; a hand is a card type."""
    deck, tables = game.deck, game.lines.tables(None)
    types, copies = deck.types, deck.copies
    levels, nodes, cards = list[PublicLevel](), list[IntArray](), list[IntArray]()
    parent, action, node, card = np.zeros(1, int), np.zeros(1, int), np.zeros(1, np.int32), np.full(1, -1)
    while len(node):
        actor = tables.actor[node]
        levels.append(PublicLevel(parent, actor, action))
        nodes.append(node)
        cards.append(card)
        moves = np.zeros((len(node), max(types, game.num_actions)), np.bool_)
        moves[:, : game.num_actions] = tables.legal[:, node].T
        moves[actor == CHANCE, :types] = True
        parent, action = np.nonzero(moves)
        deals = actor[parent] == CHANCE
        node = tables.after[np.where(deals, game.num_actions, action), node[parent]]
        card = np.where(deals, action, card[parent])
    tree, node, card = PublicNodes.of(levels), np.concatenate(nodes), np.concatenate(cards)
    won, shows = tables.won[node][tree.ends], tables.shows[node]
    deal = copies * (1.0 / deck.size) * ((copies - np.eye(types)) * (1.0 / (deck.size - 1)))
    # Tables: before the public card; then for each card, after a fold and at a showdown.
    public, first, second = np.indices((types, types, types))
    left = np.maximum(copies - (first == public) - (second == public), 0)
    shown = deal * (left * (1.0 / (deck.size - 2)))
    ahead = deck.ahead(np.stack([first, second, public]))
    kind = np.where(card < 0, 0, 1 + card + types * shows)[tree.ends]
    possible = np.ones((len(tree), types), np.bool_)
    possible[card >= 0] = (shown.sum(axis=2) > 0)[card[card >= 0]]
    most = float(np.abs(won).max())
    return HandsGame(
        name=game.name,
        hands=pair_names(name_cards(types)),
        nodes=tree,
        ends=group_ends(tree.ends, won, kind, np.concatenate([deal[None], shown, shown * ahead])),
        payoff_bounds=(-most, most),
        deals=np.concatenate([deal[None], shown]),
        board=1 + card,
        possible=(possible, possible),
        action_names=tuple(game.action_string(0, action) for action in range(game.num_actions)),
    )
