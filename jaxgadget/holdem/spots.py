"""Hold'em spots: a board, two ranges, a pot, a stack and bet menus. NumPy on the host."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxgadget.core.rows import on_host
from jaxgadget.games.game import ACTOR_BIT, CHANCE, LARGEST_RETURN, TERMINAL
from jaxgadget.games.hands import HandsGame, PublicEnds
from jaxgadget.holdem.betting import PLAYERS, BetMenu, BettingTree, SpotBetting, build_betting, count_nodes
from jaxgadget.holdem.cards import (
    HANDS,
    NUM_CARDS,
    card_name,
    cards_left,
    hand_name,
    hands_left,
    parse_board,
    parse_cards,
)
from jaxgadget.holdem.operators import (
    Dealt,
    Folds,
    Raked,
    Showdowns,
    Staked,
    build_folds,
    build_showdowns,
    incidence,
)
from jaxgadget.holdem.ranges import HandRange
from jaxgadget.util.arguments import is_finite_number
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class End:
    """Terminal nodes of one kind: folds, before or after a card is dealt, or showdowns.

    Attributes:
      node: `[B, T]` public nodes, one row per dealt card.
      chance: probability of each card given a pair of hands; 1 without a dealt card.
      folds: pairs of compatible hands at folds; None at showdowns.
    """

    node: IntArray
    chance: float
    folds: Folds | None


class Deal(NamedTuple):
    """The deal of the turn in a line of a flop.

    Attributes:
      node: the node of `Spot.betting` where the card is dealt.
      card: the card.
      line: the line up to the card, which it includes.
      rest: the rest of the line.
    """

    node: int
    card: int
    line: str
    rest: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spot:
    """A river, a turn with all possible rivers, or a flop with all possible turns and rivers.

    A player's EV is its expected share of the final pot minus its contributions after the start of the spot,
    so that both EVs sum to the pot, less the rake. In the zero-sum game, half of the pot is subtracted from
    each EV. With rake the game is not zero-sum.

    Attributes:
      board: three to five cards, such as `Td9d6hQc2s`.
      oop: range of the first player, who is out of position: in standard notation, as a `HandRange`, or as an
        array of its weights.
      ip: range of the second player, who is in position, in the same form.
      pot: chips in the pot at the start.
      stack: remaining chips of each player, or of both, `(oop, ip)`: the game is that of the smaller number,
        as chips that the other player cannot call are returned (`effective_stack`).
      menus: bet menu of both players, or one for each player.
      turn_menus: for a flop, bet menus on the turn, in the same form; None for those of the flop.
      river_menus: for a flop or turn, bet menus on the river; None for those of the turn.
      min_bet: smallest bet or raise in chips, to which smaller sizes are increased; an all-in may be smaller.
      dead: cards that neither player holds and that are not dealt, such as `AsKd`; for example those of a
        player that has folded.
      rake: share of the final pot, without chips that are not called, that the house takes from the winner at
        a showdown or fold, from 0 to 1.
      rake_cap: largest rake in chips.
      remove: lines such as `check, bet 100, raise to 500` whose last action is removed from the tree; lines
        on a later street have no cards, and are removed for every card.
      label: a name of your own for tables and pictures; spots that only differ in it are equal.
    """

    board: str
    oop: str | HandRange | FloatArray
    ip: str | HandRange | FloatArray
    pot: float
    stack: float | tuple[float, float]
    menus: BetMenu | tuple[BetMenu, BetMenu] = dataclasses.field(default_factory=BetMenu)
    turn_menus: BetMenu | tuple[BetMenu, BetMenu] | None = None
    river_menus: BetMenu | tuple[BetMenu, BetMenu] | None = None
    min_bet: float = 0.0
    remove: Sequence[str] = ()
    dead: str = ""
    rake: float = 0.0
    rake_cap: float = math.inf
    label: str = dataclasses.field(default="", compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.label, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"label={self.label!r}: expected a text")
        for name in PLAYERS:
            if isinstance(weights := getattr(self, name), np.ndarray):
                try:
                    object.__setattr__(self, name, HandRange(weights))  # hashable
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from error
        for name in ("menus", "turn_menus", "river_menus"):
            menus = getattr(self, name)
            if not (_are_menus(menus) or (menus is None and name != "menus")):
                raise ValueError(f"{name}={menus!r}: expected a BetMenu, or one for either player")
        if isinstance(self.stack, list):
            object.__setattr__(self, "stack", tuple(self.stack))  # hashable
        for name in ("pot", "stack"):
            given = getattr(self, name)
            several = given if isinstance(given, tuple) and len(given) == 2 and name == "stack" else (given,)
            for chips in several:
                if not is_finite_number(chips) or not 0 < chips <= LARGEST_RETURN:
                    raise ValueError(
                        f"{name}={given!r}: expected a finite number of chips > 0, at most {LARGEST_RETURN:g}"
                    )
        if not is_finite_number(self.min_bet) or self.min_bet < 0:
            raise ValueError(f"min_bet={self.min_bet!r}: expected a number of chips >= 0")
        if not is_finite_number(self.rake) or not 0 <= self.rake <= 1:
            raise ValueError(f"rake={self.rake!r}: expected a share of the pot from 0 to 1, such as 0.05")
        if not (is_finite_number(self.rake_cap) or self.rake_cap == math.inf) or self.rake_cap <= 0:
            raise ValueError(f"rake_cap={self.rake_cap!r}: expected a number of chips > 0")
        if self.rake_cap < math.inf and not self.rake:
            raise ValueError(f"rake_cap={self.rake_cap!r} has no effect without rake; expected a rake")
        lines: Any = self.remove
        if not isinstance(lines, list | tuple) or not all(isinstance(x, str) and x.strip() for x in lines):  # pyright: ignore[reportUnknownVariableType]
            raise ValueError(f"remove={lines!r}: expected a list of lines, such as ['check, bet 100']")
        object.__setattr__(self, "remove", tuple(lines))  # pyright: ignore[reportUnknownArgumentType]
        if self.river_menus is not None and len(self.cards) == 5:
            raise ValueError(
                f"river_menus on the river {self.board!r}: expected None; menus (--bets, --raises) are "
                "the river's"
            )
        if self.turn_menus is not None and len(self.cards) > 3:
            raise ValueError(
                f"turn_menus on {self.board!r}: expected None unless the board is a flop; menus (--bets, "
                "--raises) are those of the board's street"
            )
        self._check_dead()
        for name, weights in zip(PLAYERS, self.range_weights, strict=True):
            if not weights.any():
                raise ValueError(
                    f"{name}={str(getattr(self, name))!r}: no hand is left on {self.board!r}"
                    f"{self.dead and f' with the dead cards {self.dead!r}'}: expected one without these cards"
                )
        if self.weight_of_pairs <= _NO_PAIR * self.range_weights[0].sum() * self.range_weights[1].sum():
            held = [weights > 0 for weights in self.range_weights]
            if held[0] @ self.compatible_with(held[1].astype(np.float64)) > 0.5:
                raise ValueError(
                    f"oop and ip: the compatible pairs of hands on {self.board!r} have a weight of "
                    f"{self.weight_of_pairs:.2g}, which is too small relative to the others or to 1; "
                    "expected larger weights (they are relative), or ranges without hands that share cards"
                )
            first, second = (hand_name(int(self.hands[np.flatnonzero(weights)[0]])) for weights in held)
            raise ValueError(
                f"oop and ip: no pair of hands is compatible on {self.board!r}, as {first} and {second}; "
                "expected ranges with hands that share no card"
            )
        _ = self.betting  # invalid menus fail early

    @property
    def effective_stack(self) -> float:
        """Chips that each player can lose from the start of the spot on: the smaller stack."""
        return min(self.stack) if isinstance(self.stack, tuple) else self.stack

    @functools.cached_property
    def cards(self) -> tuple[int, ...]:
        """Cards of the board."""
        return parse_board(self.board)

    def _check_dead(self) -> None:
        """Raises ValueError if dead cards are on the board or leave too few cards."""
        on_board = sorted({*self.cards} & {*self.dead_cards})
        if on_board:
            raise ValueError(
                f"dead={self.dead!r}: {card_name(on_board[0])} is on the board {self.board!r}: expected "
                "other cards"
            )
        if self.num_left < (needed := 4 + 5 - len(self.cards)):
            raise ValueError(
                f"dead={self.dead!r}: {self.num_left} cards are left: expected at least {needed}, for two "
                "hands and the river"
            )

    @functools.cached_property
    def dead_cards(self) -> tuple[int, ...]:
        """Dead cards."""
        return parse_cards(self.dead, "dead")

    @property
    def gone(self) -> tuple[int, ...]:
        """Cards of the board and dead cards, which are in no hand and are not dealt."""
        return (*self.cards, *self.dead_cards)

    @property
    def num_left(self) -> int:
        """Number of the other cards."""
        return NUM_CARDS - len(self.gone)

    @functools.cached_property
    def hands(self) -> IntArray:
        """`[H]` the possible hands, as indices into `jaxgadget.holdem.cards.HANDS`."""
        return hands_left(self.gone)

    @property
    def hand_names(self) -> list[str]:
        """Names of these hands."""
        return [hand_name(hand) for hand in self.hands.tolist()]

    @functools.cached_property
    def ranges(self) -> tuple[HandRange, HandRange]:
        """Both players' ranges."""
        first, second = (
            value if isinstance(value, HandRange) else HandRange.parse(value, name)
            for name, value in zip(PLAYERS, (self.oop, self.ip), strict=True)
        )
        return first, second

    @property
    def range_weights(self) -> tuple[FloatArray, FloatArray]:
        """For both players `[H]` weights of the remaining hands in their ranges."""
        first, second = self.ranges
        return first.weights[self.hands], second.weights[self.hands]

    @functools.cached_property
    def compatible(self) -> tuple[FloatArray, FloatArray]:
        """For both players `[H]` total weight of the other player's hands compatible with each hand."""
        return self.compatible_with(self.range_weights[1]), self.compatible_with(self.range_weights[0])

    def compatible_with(self, weights: FloatArray) -> FloatArray:
        """`[H, …]` the other player's total weight, from `[H, …]`, of hands that share no card with each.

        Weights that cannot be distinguished from rounding are 0.
        """
        has, total = incidence(self.num_left), weights.sum(axis=0)
        summed = total - has.T @ (has @ weights) + weights
        return np.where(summed > _NO_WEIGHT * total, summed, 0)

    @property
    def weight_of_pairs(self) -> float:
        """Total weight of all compatible pairs of hands, by which values are normalised."""
        return float(self.range_weights[0] @ self.compatible[0])

    @functools.cached_property
    def dealt(self) -> tuple[FloatArray, FloatArray]:
        """Both ranges `[H]`, scaled so that the total weight of all compatible pairs of hands is 1.

        Hands without a compatible hand of the other player have weight 0, as cancellation of their weights
        would otherwise hide small weights in float32.
        """
        scale = self.weight_of_pairs**-0.5
        first, second = (
            np.where(self.meets(player), self.range_weights[player] * scale, 0.0) for player in (0, 1)
        )
        return first, second

    def meets(self, player: int) -> BoolArray:
        """`[H]` mask of hands with a compatible hand of the other player, up to rounding errors."""
        return self.compatible[player] > _NO_PAIR * self.compatible[player].max()

    def leaves_hands(self, card: int) -> bool:
        """True if both ranges have hands without a card."""
        blocked = (HANDS[self.hands] == card).any(axis=1)
        return all(bool(weights[~blocked].any()) for weights in self.range_weights)

    @functools.cached_property
    def betting(self) -> BettingTree:
        """The public tree; print it to see the bets that the menus allow."""
        return _build_betting(*self._streets, self._num_deals)

    @functools.cached_property
    def num_nodes(self) -> int:
        """Number of public nodes of `betting`, counted without building the tree."""
        betting, cards = self._streets
        return sum(_count_nodes(betting, (len(cards),) * (len(betting.menus) - 1)))

    @functools.cached_property
    def street_betting(self) -> BettingTree:
        """The public tree with a single card for each deal, as the betting is the same after every card."""
        if self.is_flop:
            return self.betting
        betting, cards = self._streets
        return _build_betting(betting, cards[:1], self._num_deals)

    @property
    def is_flop(self) -> bool:
        """True if two cards are dealt: `betting` then has a single card for each deal."""
        return len(self.cards) == 3

    @property
    def rules(self) -> SpotBetting:
        """Parameters of the betting on every street."""
        return self._streets[0]

    @property
    def _num_deals(self) -> int:
        """Number of cards that may be dealt first; 0 on a river."""
        return self.num_left if len(self.cards) < 5 else 0

    @property
    def _streets(self) -> tuple[SpotBetting, tuple[int, ...]]:
        """Rules of the betting on every street, and the cards that may be dealt between them."""
        menus = [_pair(self.menus)]
        for later in (self.turn_menus, self.river_menus)[len(self.cards) - 3 :]:
            menus.append(menus[-1] if later is None else _pair(later))
        cards = tuple(cards_left(self.gone).tolist()) if len(menus) > 1 else ()
        cards = cards[:1] if self.is_flop else cards
        removed = tuple(tuple(word.strip() for word in line.split(",")) for line in self.remove)
        return SpotBetting(self.pot, self.effective_stack, tuple(menus), self.min_bet, removed), cards

    def find_deal(self, line: str) -> Deal | None:
        """The deal of the turn in a line such as `check, check, Ah, bet 100`.

        Returns:
          None for a line that ends on the flop, and if the spot is not a flop.

        Raises:
          ValueError: if an action before the card is not legal, or the card cannot be dealt.
        """
        words = [word.strip() for word in line.split(",")] if self.is_flop and line.strip() else []
        for number, word in enumerate(words):
            before = ", ".join(words[:number])
            node = self.betting.find(before)
            if int(self.betting.tree.actor[node]) != CHANCE:
                continue
            dealt = f"line={line!r}: after {before!r} a card is dealt"
            try:
                (card,) = parse_cards(word)
            except ValueError as error:
                example = card_name(int(cards_left(self.gone)[0]))
                raise ValueError(
                    f"{dealt}, and {word!r} is not one; expected a card, such as {example}"
                ) from error
            if card in self.gone:
                where = "on the board" if card in self.cards else "dead"
                raise ValueError(f"{dealt}, but {word} is {where}; expected another card")
            return Deal(node, card, ", ".join(words[: number + 1]), ", ".join(words[number + 1 :]))
        return None

    def find_street(self, line: str) -> tuple[Spot, str]:
        """The spot of the street on which a line ends, with both whole ranges, and the line's rest there.

        On a flop this is the turn after a line such as `check, check, Ah`, otherwise the spot itself.

        Raises:
          ValueError: as `find_deal` and `after_deal`.
        """
        deal = self.find_deal(line)
        if deal is None:
            return self, line
        first, second = np.zeros((2, len(HANDS)))
        first[self.hands], second[self.hands] = self.range_weights
        return self.after_deal(deal.node, deal.card, (first, second)), deal.rest

    def after_deal(self, node: int, card: int, ranges: tuple[FloatArray, FloatArray]) -> Spot:
        """The next street of a flop or turn after a card, as a spot of its own.

        Args:
          node: the node of `street_betting` where the card is dealt.
          card: the card.
          ranges: both players' weights of all 1,326 hands there.

        Raises:
          ValueError: if there are no decisions on later streets, as after an all-in.
        """
        betting = self.street_betting
        put_in = float(betting.put_in[node].min())
        line, below = betting.line(node), [node]
        for each in below:
            below += betting.children(each)
        if not (betting.tree.num_children[below] > 1).any():
            why = "both players are all-in" if put_in >= self.effective_stack else "the menus have no bets"
            raise ValueError(f"after {line!r} {why}: there are no decisions on later streets")
        menus, *later = self.rules.menus[1:]
        last = betting.tree.parent[node]
        if int(betting.tree.actor[last]) == ACTOR_BIT[0] and betting.action_name(node) == "call":
            first = menus[0]  # the first player called, so that its bets are donk bets
            menus = (first if first.donks is None else dataclasses.replace(first, bets=first.donks), menus[1])
        removed = [line.split(",") for line in self.remove]
        words = [[word.strip() for word in each] for each in removed]
        done = [word.strip() for word in line.split(",")]
        return Spot(
            board="".join(map(card_name, (*self.cards, card))),
            oop=ranges[0],
            ip=ranges[1],
            pot=self.pot + 2 * put_in,
            stack=self.effective_stack - put_in,
            menus=menus,
            river_menus=later[0] if later else None,
            min_bet=self.min_bet,
            remove=[", ".join(each[len(done) :]) for each in words if each[: len(done)] == done],
            dead=self.dead,
            rake=self.rake,
            rake_cap=self.rake_cap,
            label=self.label and f"{self.label}, {line}, {card_name(card)}",
        )

    def check_listed(self) -> None:
        """Raises ValueError if the spot is a flop, whose public tree with all cards is not listed."""
        if self.is_flop:
            raise ValueError(
                f"{self.board} is a flop, whose tree with all turns and rivers is not listed: expected a "
                "turn or river; solve_spots solves flops"
            )

    @functools.cached_property
    def showdowns(self) -> Showdowns:
        """Showdown tables of this river, or of all possible rivers of a turn."""
        self.check_listed()
        return build_showdowns([self.cards], dead=[self.dead_cards])

    @functools.cached_property
    def stakes(self) -> FloatArray:
        """`[n]` chips that player 0 gets at terminal nodes if it wins; negative where it folds.

        With rake, both players also pay half of it there (`half_rakes`): the loser, whose chips are lost
        anyway, then loses as much less as the winner gains.
        """
        return self._stakes(self.betting)

    def _stakes(self, tree: BettingTree) -> FloatArray:
        at_stake = self.pot / 2 + tree.put_in.min(axis=1)
        if self.rake:
            at_stake -= self._half_rakes(tree)
        return np.where(tree.folded == 0, -at_stake, at_stake)

    @functools.cached_property
    def half_rakes(self) -> FloatArray:
        """`[n]` half of the rake at terminal nodes, in chips."""
        return self._half_rakes(self.betting)

    def _half_rakes(self, tree: BettingTree) -> FloatArray:
        final_pot = self.pot + 2 * tree.put_in.min(axis=1)
        return np.minimum(self.rake * final_pot, self.rake_cap) / 2

    def street_stakes(self, nodes: IntArray) -> tuple[FloatArray, FloatArray]:
        """`stakes` and `half_rakes` at terminal nodes of `street_betting`."""
        tree = self.street_betting
        return self._stakes(tree)[nodes], self._half_rakes(tree)[nodes]

    def ends(self) -> tuple[End, ...]:
        """All terminal nodes, grouped by kind."""
        self.check_listed()
        tree, num_cards = self.betting, self.num_left
        over = tree.tree.actor == TERMINAL
        ends: list[End] = []
        for folds in (True, False):
            for shown in (False, True):
                node = np.flatnonzero(over & ((tree.folded >= 0) == folds) & ((tree.card >= 0) == shown))
                if not len(node):
                    continue
                # The terminal nodes below every card are the same, in the same order.
                order = np.argsort(tree.card[node], kind="stable")
                tables = build_folds(num_cards, range(num_cards) if shown else None) if folds else None
                ends.append(
                    End(
                        node=node[order].reshape(num_cards if shown else 1, -1),
                        chance=1 / (num_cards - 4) if shown else 1.0,  # the players hold four cards
                        folds=tables,
                    )
                )
        return tuple(ends)

    def by_hands(self, *, in_range: bool = False) -> HandsGame:
        """The spot as a game in hand form, with payoffs in chips.

        Args:
          in_range: include only hands with positive weight, with explicit payoffs of all pairs; for few
            hands, and for linear programs; without rake.

        Raises:
          ValueError: if `in_range` is set and the spot has rake.
        """
        if in_range and self.rake:
            raise ValueError(
                "in_range=True with rake: the game is not zero-sum; expected a spot without rake"
            )
        every = np.arange(len(self.hands))
        held = [np.flatnonzero(weights) if in_range else every for weights in self.range_weights]
        parts: list[PublicEnds] = []
        for end in self.ends():
            tables = self.showdowns if end.folds is None else end.folds
            scale = end.chance * self.stakes[end.node]
            pays = Dealt(tables=tables, weights=(on_host(self.dealt[0]), on_host(self.dealt[1])))
            # Copies, so that the tables of all hands can be freed.
            table = pays.dense()[:, held[0][:, None], held[1]] if in_range else pays
            if self.rake:
                chips, rake = (on_host(x[end.node][..., None]) for x in (self.stakes, self.half_rakes))
                table = Raked(staked=Staked(tables=pays, chips=chips), rake=rake)
                scale = np.full(scale.shape, end.chance)
            parts.append(PublicEnds(end.node, scale, table))
        names, possible = np.array(self.hand_names), self._possible()
        most = self.pot / 2 + self.effective_stack
        return HandsGame(
            name=self.name,
            hands=(tuple(names[held[0]].tolist()), tuple(names[held[1]].tolist())),
            nodes=self.betting.tree,
            ends=tuple(parts),
            payoff_bounds=(-most, most),
            possible=(None, None) if possible is None else (possible[:, held[0]], possible[:, held[1]]),
            constant=self.pot,
            action_names=self.betting.names,
            zero_sum=not self.rake,
        )

    @property
    def title(self) -> str:
        """The label, or without one the board."""
        return self.label or self.board

    @property
    def name(self) -> str:
        """The canonical string, without the label."""
        board = "".join(map(card_name, self.cards))
        first, second = self.ranges
        chips = f"pot={self.pot:.12g},stack={self.effective_stack:.12g}"
        parts = [f"board={board},oop={first},ip={second},{chips}"]
        parts.append(f"menus={self.menus}" + ("" if self.river_menus is None else f",{self.river_menus}"))
        if self.turn_menus is not None:
            parts.append(f"turn_menus={self.turn_menus}")
        if self.min_bet:  # names of spots without these fields are as before they existed
            parts.append(f"min_bet={self.min_bet:.12g}")
        if self.dead_cards:
            parts.append(f"dead={''.join(map(card_name, self.dead_cards))}")
        if self.rake:
            parts.append(f"rake={self.rake:.12g},rake_cap={self.rake_cap:.12g}")
        if self.remove:
            parts.append(f"remove={list(self.remove)}")
        return f"holdem({','.join(parts)})"

    def _possible(self) -> BoolArray | None:
        """Mask `[n, H]` of hands compatible with the dealt card at each node; None for all."""
        card = self.betting.card
        if (card < 0).all():
            return None
        return ~(HANDS[self.hands][None] == card[:, None, None]).any(axis=2)


_NO_WEIGHT = 1e-14
"""Share of the weight of all hands below which that of compatible hands is a rounding error."""

_NO_PAIR = 1e-12
"""Share of the weight of all pairs below which compatible pairs are rounding errors."""


@functools.lru_cache(maxsize=8)
def _build_betting(betting: SpotBetting, cards: tuple[int, ...], num_deals: int) -> BettingTree:
    """A public tree; all rivers with the same pot, stack and menus share it."""
    return build_betting(betting, cards, num_deals)


_count_nodes = functools.lru_cache(maxsize=64)(count_nodes)


def _are_menus(menus: object) -> bool:
    pair = (menus, menus) if isinstance(menus, BetMenu) else menus
    return isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(menu, BetMenu) for menu in pair)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _pair(menus: BetMenu | tuple[BetMenu, BetMenu]) -> tuple[BetMenu, BetMenu]:
    """The pair of both players' menus."""
    return (menus, menus) if isinstance(menus, BetMenu) else menus
