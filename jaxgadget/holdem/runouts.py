"""The game of a spot with the streets below every deal as branches of the first street."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from jax.typing import DTypeLike

from jaxgadget.core.batch import Batch
from jaxgadget.core.branches import BranchedPayoff, Branches
from jaxgadget.core.hands import HandsPayoff, build_hands_payoff
from jaxgadget.core.host import HandTreeplex
from jaxgadget.core.problem import Terms, build_side, fixed_entry
from jaxgadget.core.regret import RegretMatching
from jaxgadget.core.rows import build_sums, on_host
from jaxgadget.core.treeplex import to_device
from jaxgadget.games.hands import PublicEnds
from jaxgadget.holdem.cards import HANDS, board_strengths
from jaxgadget.holdem.operators import (
    BoardTables,
    Raked,
    SpotsPayoff,
    Staked,
    build_board_tables,
)
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.streets import (
    Lane,
    Slices,
    Street,
    Suits,
    exchange_hands,
    find_lanes,
    slice_lanes,
    split_streets,
)
from jaxgadget.tree.public_form import hand_entries
from jaxgadget.util.arrays import BoolArray, IntArray
from jaxgadget.util.precision import precision


class Boards(NamedTuple):
    """Numbers of the payoff on the boards of a street.

    Attributes:
      group: `[slices, lanes, H]` groups of equal strength on rivers; None on earlier streets.
    """

    group: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class StreetPayoff:
    """`SlicedPayoff` of a street: the payoff of its terminal nodes on any boards.

    Attributes:
      hands: the payoff in hand form, with `BoardTables`.
    """

    hands: HandsPayoff

    def of_slice(self, held: jax.Array, numbers: Boards) -> SpotsPayoff:
        """The payoff on the boards of a slice."""

        def on_boards(x: Any) -> Any:
            return x.on_boards(held, numbers.group) if isinstance(x, BoardTables) else x

        tables = jax.tree.map(on_boards, self.hands.tables, is_leaf=lambda x: isinstance(x, BoardTables))
        return SpotsPayoff(hands=dataclasses.replace(self.hands, tables=tables))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Runouts:
    """The layout of a spot by streets.

    Attributes:
      spot: the spot.
      hands: `[H]` indices of the carried hands among the spot's, ascending; -1 for padding at the end.
      streets: the betting of every street.
      lanes: the lanes of every street.
      slices: the lanes of every street in slices, the first street in a single one.
    """

    spot: Spot
    hands: IntArray
    streets: list[Street]
    lanes: list[list[Lane]]
    slices: list[Slices]

    @staticmethod
    def of(spot: Spot, hands: IntArray, exchanges: Sequence[Suits], sizes: Sequence[int]) -> Runouts:
        """Lays out a spot.

        Args:
          spot: the spot.
          hands: as the attribute.
          exchanges: permutations of suits that preserve the spot, by which runouts are merged.
          sizes: number of lanes of a slice on each street after the first.
        """
        streets = split_streets(spot.street_betting)
        lanes = find_lanes(spot.gone, exchanges, len(streets) - 1)
        slices = [Slices(np.zeros((1, 1), np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))]
        for street, size in zip(lanes[1:], sizes, strict=True):
            slices.append(slice_lanes(street, slices[-1].lane, size))
        return Runouts(spot=spot, hands=hands, streets=streets, lanes=lanes, slices=slices)

    @property
    def of_deck(self) -> IntArray:
        """`[H]` the carried hands as indices into `HANDS`, -1 for padding."""
        return np.where(self.hands >= 0, self.spot.hands[self.hands], -1)

    def batch(self, rule: RegretMatching) -> Batch:
        """The game, in float64 and in pots; the reach of a root is its hand's share of the deal."""
        with precision(np.float64):
            below = None
            for number in range(len(self.streets) - 1, 0, -1):
                below = self._branches(number, rule, below)
            assert below is not None
            street, num_hands = self.streets[0], len(self.hands)
            ends = self._payoff(0, street.folds, street.showdowns)
            held = on_host((self.hands >= 0)[None])
            first, second = (
                build_side(
                    HandTreeplex(treeplex, num_hands),
                    fixed_entry(1),
                    np.zeros(num_hands, np.int64),
                    np.float64,
                )
                for treeplex in street.treeplex
            )
            payoff = BranchedPayoff(
                ends=ends.of_slice(held, Boards(None)),
                branches=below,
                bounds=self._bounds().of_slice(held, Boards(None)).absolute(),
                orbit=self._orbits(0),
            )
        scales = [np.where(self.hands >= 0, dealt[self.hands], 0.0)[:, None] for dealt in self.spot.dealt]

        def terms(lanes: IntArray) -> tuple[Terms, Terms]:
            constant = on_host(np.zeros((1, len(lanes))))
            pair = [Terms(scale=on_host(scale), constant=constant) for scale in scales]
            return pair[0], pair[1]

        return Batch(
            name="spots",
            order=(0, 1),
            sides=(first, second),
            payoff=payoff,
            num_lanes=1,
            num_games=1,
            terms=terms,
        )

    @property
    def _most(self) -> float:
        """The most that a player can win or lose, in pots."""
        return self.spot.effective_stack / self.spot.pot + 0.5

    def _branches(self, number: int, rule: RegretMatching, below: Branches | None) -> Branches:
        """The branches of a street."""
        street, above, slices = self.streets[number], self.streets[number - 1], self.slices[number]
        num_hands = len(self.hands)
        lanes = [[self.lanes[number][lane] if lane >= 0 else None for lane in row] for row in slices.lane.tolist()]
        held = np.stack([[self._held(lane) for lane in row] for row in lanes])
        last = number == len(self.streets) - 1
        group = np.stack([[self._groups(lane) for lane in row] for row in lanes]) if last else None
        permutations = {suits: row for row, suits in enumerate(self.lanes[0][0].symmetries)}
        most = max(len(lane.outcomes) for lane in self.lanes[number])
        image, chance = np.zeros((*slices.lane.shape, most), np.int32), np.zeros((*slices.lane.shape, most))
        left = self.spot.num_left - (number - 1)  # cards before the deal, of which the players hold four
        for row, in_slice in enumerate(lanes):
            for place, lane in enumerate(in_slice):
                for nth, (_, suits) in enumerate(lane.outcomes if lane is not None else ()):
                    image[row, place, nth], chance[row, place, nth] = permutations[suits], 1 / (left - 4)
        events = [block[above.deals] for block in above.block]
        first, second = (
            to_device(HandTreeplex(treeplex, num_hands), np.float64) for treeplex in street.treeplex
        )
        sums = [
            build_sums(block, np.ones(len(block), np.bool_), treeplex.num_sequences, np.float64)
            for block, treeplex in zip(events, above.treeplex, strict=True)
        ]
        symmetric = len(permutations) > 1
        dealt = [weights[self.hands[self.hands >= 0]].sum() for weights in self.spot.dealt]
        most = [self._most * other / (left - 4) for other in reversed(dealt)]
        return Branches(
            hands=num_hands,
            rule=jax.tree.map(np.float64, dataclasses.replace(rule, name="")),
            bodies=(first, second),
            payoff=self._payoff(number, street.folds, street.showdowns),
            numbers=Boards(None if group is None else on_host(group)),
            most=(on_host(np.float64(most[0])), on_host(np.float64(most[1]))),
            held=on_host(held),
            events=(on_host(events[0].astype(np.int32)), on_host(events[1].astype(np.int32))),
            sums=(sums[0], sums[1]),
            first=on_host(slices.first.astype(np.int32)),
            above=on_host(slices.above.astype(np.int32)),
            chance=on_host(chance),
            image=on_host(image),
            images=on_host(self._images().astype(np.int32)) if symmetric else None,
            orbit=None if last else self._orbits(number),
            below=below,
        )

    def _images(self) -> IntArray:
        """`[P, H]` image of every hand under each permutation of suits."""
        return np.stack([exchange_hands(self.of_deck, suits) for suits in self.lanes[0][0].symmetries])

    def _orbits(self, number: int) -> Any:
        """The first hand of each hand's orbit in the lanes of a street; None if lanes have no symmetries."""
        if len(self.lanes[0][0].symmetries) == 1:
            return None
        images = dict(zip(self.lanes[0][0].symmetries, self._images(), strict=True))
        every = np.arange(len(self.hands))
        of_lane = [np.min([images[suits] for suits in lane.symmetries], axis=0) for lane in self.lanes[number]]
        lanes = self.slices[number].lane
        orbits = np.stack([[of_lane[lane] if lane >= 0 else every for lane in row] for row in lanes.tolist()])
        return on_host((orbits[0] if number == 0 else orbits).astype(np.int32))

    def _held(self, lane: Lane | None) -> BoolArray:
        """`[H]` mask of the hands that are possible in a lane."""
        if lane is None:
            return np.zeros(len(self.hands), np.bool_)
        cards = HANDS[np.maximum(self.of_deck, 0)]
        return (self.hands >= 0) & ~np.isin(cards, np.asarray(lane.cards)).any(axis=1)

    def _groups(self, lane: Lane | None) -> IntArray:
        """`[H]` groups of equal strength on a river, ascending; 0 for impossible hands."""
        groups = np.zeros(len(self.hands), np.int16)
        if lane is not None:
            held = self._held(lane)
            strengths = board_strengths([*self.spot.cards, *lane.cards], HANDS[self.of_deck[held]])
            groups[held] = np.unique(strengths, return_inverse=True)[1]
        return groups

    def _payoff(self, number: int, folds: IntArray, showdowns: IntArray) -> StreetPayoff:
        """The payoff at terminal nodes of a street, in pots."""
        spot = self.spot
        groups: list[PublicEnds] = []
        for node, shows in ((folds, False), (showdowns, True)):
            if len(node):
                tables = build_board_tables(spot.num_left, self.hands, shows=shows)
                chips, rake = spot.street_stakes(node)
                pays: Any = Staked(tables=cast("Any", tables), chips=on_host(chips[None, :, None] / spot.pot))
                if spot.rake:
                    pays = Raked(staked=pays, rake=on_host(rake[None, :, None] / spot.pot))
                groups.append(PublicEnds(node[None], np.ones((1, len(node))), pays))
        return self._on_device(number, groups)

    def _bounds(self) -> StreetPayoff:
        """A payoff of the first street that bounds the absolute payoffs, with deals as terminal nodes."""
        street, spot = self.streets[0], self.spot
        node = np.sort(np.concatenate([street.folds, street.showdowns, street.deals]))[None]
        tables = build_board_tables(spot.num_left, self.hands, shows=False)
        pays = Staked(tables=cast("Any", tables), chips=on_host(np.full((1, node.size, 1), self._most)))
        return self._on_device(0, [PublicEnds(node, np.ones(node.shape), pays)])

    def _on_device(self, number: int, groups: list[PublicEnds]) -> StreetPayoff:
        street, num_hands = self.streets[number], len(self.hands)
        first, second = street.treeplex
        blocks = (first.num_sequences, second.num_sequences)
        entries = hand_entries((num_hands, num_hands), groups, street.block, blocks)
        return StreetPayoff(hands=build_hands_payoff(entries, np.float64))
