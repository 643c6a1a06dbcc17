"""No-limit hold'em between two players from the turn or river on, as an explicit extensive-form game.

Written from the rules of poker; nothing is shared with `jaxgadget.holdem` except the sizes that a test offers
as a function of the situation. Few hands: every pair of hands and every river are listed.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping

from phevaluator import evaluate_cards

from tests.reference import efg
from tests.reference.efg import Chance, Decision, Node, Terminal

DECK = [rank + suit for rank in "23456789TJQKA" for suit in "cdhs"]
OOP, IP = 0, 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Situation:
    """What is public when a player acts.

    Attributes:
      actor: who acts.
      words: the actions so far, without cards.
      streets: streets that are left, this one included: 1 on the river.
      paid: chips of both players since the start.
      street_paid: chips of each player when this street began.
      raises: by how much each bet and raise on this street exceeded the last one, in order.
      before: who made the last bet or raise on the street before, None if no player did.
    """

    actor: int
    words: tuple[str, ...]
    streets: int
    paid: tuple[float, float] = (0.0, 0.0)
    street_paid: float = 0.0
    raises: tuple[float, ...] = ()
    before: int | None = None

    @property
    def own(self) -> float:
        """The acting player's chips on this street."""
        return self.paid[self.actor] - self.street_paid

    @property
    def facing(self) -> float:
        """The other player's chips on this street."""
        return self.paid[1 - self.actor] - self.street_paid


Sizes = Callable[[Situation], Iterable[float]]
"""Total chips on this street after each bet or raise that is offered; more than the stack is all-in."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Poker:
    """The rules.

    Attributes:
      board: four or five cards, `["Td", …]`.
      ranges: for both players, weights of hands, `{"AsKd": 1.0}`.
      pot: chips in the pot at the start.
      stacks: chips that both players have left.
      sizes: the bets and raises that are offered.
      dead: cards that nobody has, and that are not dealt.
      rake: the share of the pot that the house takes from the winner.
      rake_cap: the most that it takes, in chips.
      removed: actions that are not offered, as `Situation.words` that end with them.
    """

    board: list[str]
    ranges: tuple[Mapping[str, float], Mapping[str, float]]
    pot: float
    stacks: tuple[float, float]
    sizes: Sizes
    dead: list[str] = dataclasses.field(default_factory=list)
    rake: float = 0.0
    rake_cap: float = float("inf")
    removed: tuple[tuple[str, ...], ...] = ()

    def root(self, owner: int) -> Node:
        """The game in which player 0 receives what player `owner` wins, if it is 0, or else loses.

        Without rake both games are equal: what one player wins the other loses. A payoff is a player's share
        of the pot less what it pays from the start on, less half of the pot.
        """
        pairs = [
            (first, second, weight * other)
            for (first, weight), (second, other) in itertools.product(*(held.items() for held in self.ranges))
            if weight * other > 0 and self._possible(first, second)
        ]
        total = sum(weight for *_, weight in pairs)
        start = Situation(actor=OOP, words=(), streets=6 - len(self.board))
        nodes = [self._node(start, (first, second), self.board, owner) for first, second, _ in pairs]
        return Chance(tuple(weight / total for *_, weight in pairs), tuple(nodes))

    def lines(self) -> dict[tuple[str, ...], tuple[float, float]]:
        """What both players have paid after every line of actions, without cards."""
        return dict(self._lines(Situation(actor=OOP, words=(), streets=6 - len(self.board))))

    def _lines(self, now: Situation) -> Iterator[tuple[tuple[str, ...], tuple[float, float]]]:
        yield now.words, now.paid
        for after in self._actions(now).values():
            if isinstance(after, Situation):
                yield from self._lines(after)
            else:
                yield after.words, after.paid

    def _possible(self, *hands: str) -> bool:
        cards = [*self.board, *self.dead, *(hand[k : k + 2] for hand in hands for k in (0, 2))]
        return len(set(cards)) == len(cards)

    def _node(self, now: Situation, hands: tuple[str, str], board: list[str], owner: int) -> Node:
        if 6 - len(board) > now.streets:  # the next card
            held = [hand[k : k + 2] for hand in hands for k in (0, 2)]
            cards = [card for card in DECK if card not in (*board, *self.dead, *held)]
            nodes = [self._node(now, hands, [*board, card], owner) for card in cards]
            return Chance((1 / len(cards),) * len(cards), tuple(nodes))
        below: dict[str, Node] = {}
        for word, after in self._actions(now).items():
            if isinstance(after, Situation):
                below[word] = self._node(after, hands, board, owner)
            else:
                below[word] = self._end(after, hands, board, owner)
        label = (now.actor, hands[now.actor], now.words, tuple(board[len(self.board) :]))
        return Decision(now.actor, label, tuple(below), tuple(below.values()))

    def _end(self, end: _End, hands: tuple[str, str], board: list[str], owner: int) -> Node:
        if end.folded is None and len(board) < 5:  # all-in
            held = [hand[k : k + 2] for hand in hands for k in (0, 2)]
            cards = [card for card in DECK if card not in (*board, *self.dead, *held)]
            nodes = [self._end(end, hands, [*board, card], owner) for card in cards]
            return Chance((1 / len(cards),) * len(cards), tuple(nodes))
        called = min(end.paid)  # nobody loses more than the other player has called
        pot = self.pot + 2 * called
        prize = pot - min(self.rake * pot, self.rake_cap)
        if end.folded is not None:
            share = 1.0 if end.folded == 1 - owner else 0.0
        else:
            own, other = (
                evaluate_cards(*board, *(hands[player][k : k + 2] for k in (0, 2)))
                for player in (owner, 1 - owner)
            )
            share = 0.5 if own == other else float(own < other)  # the evaluator ranks the best hand lowest
        return Terminal(efg.sign(owner) * (share * prize - called - self.pot / 2))

    def _actions(self, now: Situation) -> dict[str, Situation | _End]:
        """What follows after each action."""
        actor, other = now.actor, 1 - now.actor
        owed, stack = now.facing - now.own, self.stacks[actor]
        found: dict[str, Situation | _End] = {}
        if owed > 0:
            found["fold"] = _End((*now.words, "fold"), now.paid, folded=actor)
            called = min(now.paid[other], stack)
            paid = (called, now.paid[1]) if actor == OOP else (now.paid[0], called)
            aggressor = other if now.raises else None
            found["call"] = self._next_street(now, "call", paid, aggressor)
        elif actor == OOP:
            found["check"] = dataclasses.replace(now, actor=IP, words=(*now.words, "check"))
        else:
            found["check"] = self._next_street(now, "check", now.paid, None)
        if now.paid[other] < min(self.stacks):  # neither player is all-in
            for total in sorted({min(x, stack - now.street_paid) for x in self.sizes(now)}):
                word = "raise to" if owed > 0 else "bet"
                if total + now.street_paid >= min(self.stacks):
                    word = "all-in"
                word = f"{word} {total:.12g}"
                mine = total + now.street_paid
                paid = (mine, now.paid[1]) if actor == OOP else (now.paid[0], mine)
                found[word] = dataclasses.replace(
                    now,
                    actor=other,
                    words=(*now.words, word),
                    paid=paid,
                    raises=(*now.raises, total - now.facing),
                )
        return {word: after for word, after in found.items() if (*now.words, word) not in self.removed}

    def _next_street(
        self, now: Situation, word: str, paid: tuple[float, float], aggressor: int | None
    ) -> Situation | _End:
        """What follows when the betting of a street is closed."""
        if now.streets == 1 or min(paid) >= min(self.stacks):
            return _End((*now.words, word), paid)
        return Situation(
            actor=OOP,
            words=(*now.words, word),
            streets=now.streets - 1,
            paid=paid,
            street_paid=paid[0],
            before=aggressor,
        )


@dataclasses.dataclass(frozen=True)
class _End:
    """The end of the betting: a fold, or a showdown once all cards are dealt."""

    words: tuple[str, ...]
    paid: tuple[float, float]
    folded: int | None = None
