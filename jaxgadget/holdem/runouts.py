"""The game of a spot with the streets below every deal as branches of the first street."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxgadget.core.batch import Batch
from jaxgadget.core.branches import (
    SLICE_ARRAYS,
    BranchedPayoff,
    Branches,
    Compressed,
    LaneFloors,
    SliceKernels,
)
from jaxgadget.core.certificate import Certificate, certify_average
from jaxgadget.core.devices import HOME, Placement
from jaxgadget.core.hands import HandsPayoff, build_hands_payoff
from jaxgadget.core.host import HandTreeplex
from jaxgadget.core.memory import whole_memory
from jaxgadget.core.payoff import Payoff
from jaxgadget.core.problem import Parts, Problem, Terms, build_side, fixed_entry, follow
from jaxgadget.core.regret import ChoiceRule, RegretMatching
from jaxgadget.core.response import payoff_reaches
from jaxgadget.core.rows import build_sums, on_host
from jaxgadget.core.treeplex import to_device
from jaxgadget.games.game import CHANCE
from jaxgadget.games.hands import PublicEnds
from jaxgadget.holdem import kernels
from jaxgadget.holdem.betting import BettingTree
from jaxgadget.holdem.cards import HANDS, NUM_CARDS, strength_groups
from jaxgadget.holdem.carried import carried_hands
from jaxgadget.holdem.isomorphism import IDENTITY, exchanged_hands, find_exchanges
from jaxgadget.holdem.kernels import KERNELS, Board, Ends, RiversBelow
from jaxgadget.holdem.locks import Cards, Locked
from jaxgadget.holdem.operators import (
    BoardTables,
    Raked,
    SpotsPayoff,
    Staked,
    build_board_tables,
    cards_of,
    ends_of,
)
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.strategies import action_nodes, uniform_rows
from jaxgadget.holdem.streets import (
    Lane,
    Slices,
    Street,
    Suits,
    exchange_card,
    exchange_hands,
    find_lanes,
    slice_lanes,
    split_streets,
)
from jaxgadget.tree.public_form import hand_entries
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.compilation import compiled
from jaxgadget.util.native import Kernel
from jaxgadget.util.precision import precision

SLICE_LANES = (1, 1)
"""Number of turns and of rivers that are updated together on a CPU; see `core.branches`. By XLA's programs, a
full flop takes 4.1, 3.5, 3.5 and 4.7 s an iteration with 1, 2, 4 and 8 rivers; kernels require 1."""

MOST_TURNS = 8
"""Maximum number of turns that are updated together on accelerators, where operations have launch overhead:
with all their rivers, if memory suffices."""

SLICE_SHARE = 0.25
"""Maximum share of an accelerator's memory, less the state, for a slice's temporary arrays in float64."""


class Boards(NamedTuple):
    """Data of the payoff on the boards of a street.

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

    def of_slice(self, held: jax.Array, lane_data: Boards) -> SpotsPayoff:
        """The payoff on the boards of a slice."""

        def on_boards(x: Any) -> Any:
            return x.on_boards(held, lane_data.group) if isinstance(x, BoardTables) else x

        tables = jax.tree.map(on_boards, self.hands.tables, is_leaf=lambda x: isinstance(x, BoardTables))
        return SpotsPayoff(hands=dataclasses.replace(self.hands, tables=tables))

    def find_kernels(self, branches: Branches, player: int) -> SliceKernels | None:
        """Kernels for rivers, one in a slice."""
        rivers = [pays.tables for pays in cast("Any", self.hands.tables) if pays.tables.shows]
        if not (
            rivers
            and branches.below is None
            and branches.orbit is None
            and branches.held.shape[1] == 1
            and kernels.applies(branches.rule, ())
        ):
            return None

        def describe() -> tuple[Board, tuple[Ends, Ends]]:
            cards = cards_of(rivers[0].slot_of_hand, rivers[0].hand_of_card)[0]
            board = Board(cards=cards, group=branches.lane_data.group, held=branches.held)
            return board, (ends_of(self.hands, 0), ends_of(self.hands, 1))

        below = RiversBelow(branches, player, describe)
        return SliceKernels(Kernel(KERNELS, below.update), Kernel(KERNELS, below.values))


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
        slices = [Slices(np.zeros((1, 1), np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64), 1)]
        for street, size in zip(lanes[1:], sizes, strict=True):
            slices.append(slice_lanes(street, slices[-1].lane, size))
        return Runouts(spot=spot, hands=hands, streets=streets, lanes=lanes, slices=slices)

    @property
    def of_deck(self) -> IntArray:
        """`[H]` the carried hands as indices into `HANDS`, -1 for padding."""
        return np.where(self.hands >= 0, self.spot.hands[self.hands], -1)

    def batch(self, rule: RegretMatching, *, compressed: bool = False, locked: Locked | None = None) -> Batch:
        """The game, in float64 and in pots; the reach of a root is its hand's share of the deal.

        Args:
          rule: the regret-matching rule.
          compressed: keep regrets and averages of later streets in 16 bits.
          locked: strategies that are fixed; they have the symmetries of `exchanges`.
        """
        with precision(np.float64):
            payoff = BranchedPayoff(
                ends=self.ends(),
                branches=self.branches(rule, compressed=compressed, locked=locked),
                bounds=self.bounds().absolute(),
                zero_sum=not self.spot.rake,
                orbit=self._orbits(0),
            )
        return self.first_street(payoff, locked=locked)

    def branches(
        self, rule: RegretMatching, *, compressed: bool = False, locked: Locked | None = None
    ) -> Branches:
        """The streets below the first, in float64 and in pots; arguments as in `batch`."""
        below = None
        with precision(np.float64):
            for street_idx in range(len(self.streets) - 1, 0, -1):
                below = self._branches(street_idx, rule, below, locked, compressed=compressed)
        assert below is not None
        return below

    def ends(self) -> SpotsPayoff:
        """The payoff at the first street's terminal nodes, in float64 and in pots."""
        street, held = self.streets[0], on_host((self.hands >= 0)[None])
        with precision(np.float64):
            return self._payoff(0, street.folds, street.showdowns).of_slice(held, Boards(None))

    def bounds(self) -> SpotsPayoff:
        """A payoff of the first street that bounds the absolute payoffs, with deals as terminal nodes."""
        street, spot, held = self.streets[0], self.spot, on_host((self.hands >= 0)[None])
        node = np.sort(np.concatenate([street.folds, street.showdowns, street.deals]))[None]
        with precision(np.float64):
            tables = build_board_tables(spot.num_left, self.hands, shows=False)
            pays = Staked(
                tables=cast("Any", tables), chips=on_host(np.full((1, node.size, 1), self.max_payoff))
            )
            payoff = self._on_device(0, [PublicEnds(node, np.ones(node.shape), pays)])
            return payoff.of_slice(held, Boards(None))

    def first_street(
        self,
        payoff: Payoff,
        *,
        payoff_state: Any = None,
        num_lanes: int = 1,
        locked: Locked | None = None,
    ) -> Batch:
        """The game of the first street, in float64 and in pots.

        Args:
          payoff: the payoff of its terminal nodes and of what is below its deals.
          payoff_state: initial state of the payoff.
          num_lanes: number of copies.
          locked: as in `batch`.
        """
        num_hands = len(self.hands)
        with precision(np.float64):
            first, second = (
                build_side(
                    HandTreeplex(treeplex, num_hands),
                    fixed_entry(1),
                    np.zeros(num_hands, np.int64),
                    np.float64,
                )
                for treeplex in self.streets[0].treeplex
            )
        scales = [np.where(self.hands >= 0, dealt[self.hands], 0.0)[:, None] for dealt in self.spot.dealt]
        choices = [
            ChoiceRule(floor=None if floors is None else on_host(np.asarray(floors.rows).T))
            for floors in self._floors(0, locked)
        ]

        def terms(lanes: IntArray) -> tuple[Terms, Terms]:
            constant = on_host(np.zeros((1, len(lanes))))
            pair = [
                Terms(
                    scale=on_host(np.repeat(scale, len(lanes), axis=1)),
                    constant=constant,
                    body=choice,
                )
                for scale, choice in zip(scales, choices, strict=True)
            ]
            return pair[0], pair[1]

        return Batch(
            name="spots",
            order=(0, 1),
            sides=(first, second),
            payoff=payoff,
            num_lanes=num_lanes,
            num_games=1,
            terms=terms,
            payoff_state=payoff_state,
        )

    @property
    def max_payoff(self) -> float:
        """The most that a player can win or lose, in pots."""
        return self.spot.effective_stack / self.spot.pot + 0.5

    @property
    def merges(self) -> bool:
        """True if runouts are merged."""
        return len(self.lanes[0][0].symmetries) > 1

    @property
    def shapes(self) -> list[tuple[tuple[int, int, int], tuple[int, int, int]]]:
        """For every street and player the shape `[slices, Q, lanes]` of its regrets."""
        shapes: list[tuple[tuple[int, int, int], tuple[int, int, int]]] = []
        for street, slices in zip(self.streets, self.slices, strict=True):
            count, lanes = slices.lane.shape
            first, second = (
                (count, len(self.hands) * (treeplex.num_sequences - treeplex.num_roots), lanes)
                for treeplex in street.treeplex
            )
            shapes.append((first, second))
        return shapes

    def num_bytes(self, dtype: DTypeLike) -> int:
        """Bytes of regrets and sums of plans of all streets."""
        numbers = sum(math.prod(shape) for pair in self.shapes for shape in pair)
        return 2 * numbers * np.dtype(dtype).itemsize

    def slice_bytes(self, dtype: DTypeLike) -> int:
        """Bytes of the temporary arrays of a slice of each later street."""
        numbers = sum(first[1] * first[2] + second[1] * second[2] for first, second in self.shapes[1:])
        return SLICE_ARRAYS * numbers * np.dtype(dtype).itemsize

    def find_lane(self, cards: Sequence[int]) -> tuple[int, Suits]:
        """The lane of a street after some cards, and the permutation of suits that maps them to its board."""
        lane, suits = 0, self.lanes[0][0].symmetries[0]
        for street_idx, card in enumerate(cards, 1):
            image = exchange_card(card, suits)
            lane, then = next(
                (idx, then)
                for idx, each in enumerate(self.lanes[street_idx])
                if each.above == lane
                for outcome, then in each.outcomes
                if outcome == image
            )
            suits = tuple(then[suit] for suit in suits)
        return lane, suits

    def find_alike(self, betting: BettingTree, root: int) -> IntArray:
        """`[n]` node of the spot's `street_betting` in place of each in a tree below its node `root`."""
        nodes, source = betting.tree, self.spot.street_betting.tree
        alike = np.full(len(nodes), root)
        for level in nodes.levels_below():
            above = nodes.parent[level]
            slot = np.where(nodes.actor[above] == CHANCE, 0, nodes.slot[level])
            alike[level] = source.first_child[alike[above]] + slot
        return alike

    def place(self, street_idx: int, lane: int) -> tuple[int, int]:
        """Slice of a street's lane, and the lane's place within it."""
        (row,), (place,) = np.nonzero(self.slices[street_idx].lane == lane)
        return int(row), int(place)

    def _branches(
        self,
        street_idx: int,
        rule: RegretMatching,
        below: Branches | None,
        locked: Locked | None,
        *,
        compressed: bool,
    ) -> Branches:
        """The branches of a street."""
        street, above, slices = (
            self.streets[street_idx],
            self.streets[street_idx - 1],
            self.slices[street_idx],
        )
        num_hands = len(self.hands)
        lanes = [
            [self.lanes[street_idx][lane] if lane >= 0 else None for lane in row]
            for row in slices.lane.tolist()
        ]
        held = np.stack([[self._held(lane) for lane in row] for row in lanes])
        last = street_idx == len(self.streets) - 1
        group = np.stack([[self._groups(lane) for lane in row] for row in lanes]) if last else None
        permutations = {suits: row for row, suits in enumerate(self.lanes[0][0].symmetries)}
        max_outcomes = max(len(lane.outcomes) for lane in self.lanes[street_idx])
        image, chance = (
            np.zeros((*slices.lane.shape, max_outcomes), np.int32),
            np.zeros((*slices.lane.shape, max_outcomes)),
        )
        left = self.spot.num_left - (street_idx - 1)  # cards before the deal, of which the players hold four
        for row, in_slice in enumerate(lanes):
            for place, lane in enumerate(in_slice):
                if lane is None:
                    continue
                for nth, (_, suits) in enumerate(lane.outcomes):
                    image[row, place, nth], chance[row, place, nth] = permutations[suits], 1 / (left - 4)
        events = [block[above.deals] for block in above.block]
        first, second = (
            to_device(HandTreeplex(treeplex, num_hands), np.float64) for treeplex in street.treeplex
        )
        sums = [
            build_sums(block, np.ones(len(block), np.bool_), treeplex.num_sequences, np.float64)
            for block, treeplex in zip(events, above.treeplex, strict=True)
        ]
        symmetric, num_slices = len(permutations) > 1, np.diff(slices.first)
        dealt = [weights[self.hands[self.hands >= 0]].sum() for weights in self.spot.dealt]
        largest = [self.max_payoff * other for other in reversed(dealt)]
        return Branches(
            hands=num_hands,
            compressed=compressed,
            rule=jax.tree.map(np.float64, dataclasses.replace(rule, name="")),
            bodies=(first, second),
            floors=self._floors(street_idx, locked),
            payoff=self._payoff(street_idx, street.folds, street.showdowns),
            lane_data=Boards(None if group is None else on_host(group)),
            largest_payoff=(on_host(np.asarray(largest[0])), on_host(np.asarray(largest[1]))),
            held=on_host(held),
            events=(on_host(events[0].astype(np.int32)), on_host(events[1].astype(np.int32))),
            sums=(sums[0], sums[1]),
            num_slices=int(num_slices[0]) if (num_slices == num_slices[0]).all() else None,
            first=on_host(slices.first.astype(np.int32)),
            above=on_host(slices.above.astype(np.int32)),
            num_above=slices.num_above,
            chance=on_host(chance),
            image=on_host(image),
            images=on_host(self._images().astype(np.int32)) if symmetric else None,
            orbit=None if last else self._orbits(street_idx),
            below=below,
        )

    def _floors(self, street_idx: int, locked: Locked | None) -> tuple[LaneFloors | None, LaneFloors | None]:
        """Both players' floors on a street, as the locks fix strategies there; None without any."""
        pair: list[LaneFloors | None] = []
        for player in (0, 1):
            row, rows = np.full(self.slices[street_idx].lane.shape, -1, np.int32), list[FloatArray]()
            nodes = self.streets[street_idx].children(self.spot.street_betting.tree, player)
            found: dict[tuple[Cards, ...], int] = {}
            for place, lane in np.ndenumerate(self.slices[street_idx].lane):
                cards = self.lanes[street_idx][lane].cards
                keys = () if lane < 0 or locked is None else locked.matching(player, cards)
                if keys and keys not in found:
                    assert locked is not None
                    found[keys] = len(rows)
                    rows.append(self.fixed(player, locked, keys, nodes).ravel())
                row[place] = found.get(keys, -1)
            pair.append(LaneFloors(rows=on_host(np.stack(rows)), row=on_host(row)) if rows else None)
        return pair[0], pair[1]

    def fixed(self, player: int, locked: Locked, keys: Sequence[Cards], nodes: IntArray) -> FloatArray:
        """`[C, H]` floors as of `Locked.floors`, with the carried hands."""
        floors = locked.floors(self.spot, player, keys, nodes)
        return np.where(self.hands >= 0, floors[:, np.maximum(self.hands, 0)], 0.0)

    def _images(self) -> IntArray:
        """`[P, H]` image of every hand under each permutation of suits."""
        return np.stack([exchange_hands(self.of_deck, suits) for suits in self.lanes[0][0].symmetries])

    def _orbits(self, street_idx: int) -> Any:
        """The first hand of each hand's orbit in the lanes of a street; None if lanes have no symmetries."""
        if len(self.lanes[0][0].symmetries) == 1:
            return None
        images = dict(zip(self.lanes[0][0].symmetries, self._images(), strict=True))
        every = np.arange(len(self.hands))
        of_lane = [
            np.min([images[suits] for suits in lane.symmetries], axis=0) for lane in self.lanes[street_idx]
        ]
        lanes = self.slices[street_idx].lane
        orbits = np.stack([[of_lane[lane] if lane >= 0 else every for lane in row] for row in lanes.tolist()])
        return on_host((orbits[0] if street_idx == 0 else orbits).astype(np.int32))

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
            groups[held] = strength_groups([*self.spot.cards, *lane.cards], HANDS[self.of_deck[held]])
        return groups

    def _payoff(self, street_idx: int, folds: IntArray, showdowns: IntArray) -> StreetPayoff:
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
        return self._on_device(street_idx, groups)

    def _on_device(self, street_idx: int, groups: list[PublicEnds]) -> StreetPayoff:
        street, num_hands = self.streets[street_idx], len(self.hands)
        first, second = street.treeplex
        blocks = (first.num_sequences, second.num_sequences)
        entries = hand_entries((num_hands, num_hands), groups, street.block, blocks)
        return StreetPayoff(hands=build_hands_payoff(entries, np.float64))


Weights = Any
"""An array, or arrays that are `Compressed`."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class StreetStrategies:
    """Average strategies on all streets of a spot, and the values of the first deals.

    Attributes:
      runouts: the layout.
      weights: for every street both players' sums of plans, or probabilities, `[slices, Q, lanes]`; on later
        streets they may be `Compressed`.
      deal_values: for both players `[K, H]` counterfactual values of the first street's deals, with all hands
        that are left on the board and in chips, if both players follow these strategies.
      locked: strategies that were fixed.
    """

    runouts: Runouts
    weights: tuple[tuple[Weights, Weights], ...]
    deal_values: tuple[FloatArray, FloatArray]
    locked: Locked | None = None

    def rows(
        self, player: int, betting: BettingTree, hands: IntArray, dealt: tuple[int, ...] = (), root: int = 0
    ) -> FloatArray:
        """A player's strategy in a tree with all cards, as in `SpotSolution.probabilities`.

        In a tree with a single card for each deal, rows after a deal are uniform.

        Args:
          player: the player.
          betting: the tree.
          hands: `[h]` indices into `HANDS` of the hands in the result.
          dealt: cards that were dealt before the tree's root.
          root: the root's node in the spot's `street_betting`.
        """
        nodes, source = betting.tree, self.runouts.spot.street_betting
        alike = self.runouts.find_alike(betting, root)
        children = action_nodes(nodes, player)
        rows = np.repeat(uniform_rows(nodes, player)[:, None], len(hands), axis=1)
        for card in np.unique(betting.card[children]).tolist():
            if betting is source and card >= 0:
                continue
            own = np.flatnonzero(betting.card[children] == card)
            lane_rows, column = self.lane(player, (*dealt, card) if card >= 0 else dealt, hands)
            carried = np.flatnonzero(column >= 0)
            rows[own[:, None], carried] = lane_rows[alike[children[own]]][:, column[carried]]
        return rows

    def pack(self) -> dict[str, Any]:
        """The arrays of a file."""
        arrays: dict[str, Any] = {}
        for street_idx, pair in enumerate(self.weights):
            for player, own in enumerate(pair):
                numbers, scale = own if isinstance(own, Compressed) else (own, None)
                arrays[f"street_{street_idx}_{player}"] = numbers
                if scale is not None:
                    arrays[f"scale_{street_idx}_{player}"] = scale
        return arrays | {f"deals_{player}": own for player, own in enumerate(self.deal_values)}

    @staticmethod
    def unpack(
        spot: Spot, exchanges: Sequence[Suits], arrays: Mapping[str, Any], locked: Locked | None = None
    ) -> StreetStrategies | None:
        """Restores strategies from the arrays of `pack`; None if there are none.

        Args:
          spot: the spot.
          exchanges: permutations of suits by which runouts were merged; empty for none.
          arrays: the arrays.
          locked: as the attribute.

        Raises:
          ValueError: if the arrays have other shapes than strategies of the spot.
        """
        if "street_0_0" not in arrays:
            return None
        count = 6 - len(spot.cards)
        sizes = [arrays[f"street_{street_idx}_0"].shape[-1] for street_idx in range(1, count)]
        runouts, weights = lay_out_streets(spot, exchanges, sizes), list[tuple[Weights, Weights]]()
        for street_idx, shapes in enumerate(runouts.shapes):
            pair: list[Weights] = []
            for player, shape in enumerate(shapes):
                numbers = arrays[f"street_{street_idx}_{player}"]
                scale = arrays.get(f"scale_{street_idx}_{player}")
                pair.append(numbers if scale is None else Compressed(numbers, scale))
                rows = shape[0], shape[1] // len(runouts.hands), shape[2]
                for name, array, expected in (("street", numbers, shape), ("scale", scale, rows)):
                    if array is not None and array.shape != expected:
                        raise ValueError(
                            f"{name}_{street_idx}_{player} has shape {array.shape}, expected {expected}"
                        )
            weights.append((pair[0], pair[1]))
        values = arrays["deals_0"], arrays["deals_1"]
        expected = len(runouts.streets[0].deals), len(spot.hands)
        if any(own.shape != expected for own in values):
            raise ValueError(f"deals_0 and deals_1 have shapes {values[0].shape}, expected {expected}")
        return StreetStrategies(runouts=runouts, weights=tuple(weights), deal_values=values, locked=locked)

    def lane(self, player: int, cards: Sequence[int], hands: IntArray) -> tuple[FloatArray, IntArray]:
        """A player's strategy after some cards, by the node of `street_betting` after each action.

        Returns:
          `[n, H]` probabilities of the carried hands in the lane of these cards, and `[h]` the column of each
          of the given hands; -1 for hands that the solve did not carry.
        """
        runouts, street_idx = self.runouts, len(cards)
        nodes, street = runouts.spot.street_betting.tree, runouts.streets[street_idx]
        lane, suits = runouts.find_lane(cards)
        slice_idx, place = runouts.place(street_idx, lane)
        weights = self.weights[street_idx][player]
        numbers, scale = weights if isinstance(weights, Compressed) else (weights, None)
        rows, children = np.zeros((len(nodes), len(runouts.hands))), street.children(nodes, player)
        rows[children] = numbers[slice_idx, :, place].reshape(len(children), -1)
        if scale is not None:
            rows[children] *= scale[slice_idx, :, place, None]
        decisions = np.unique(nodes.parent[children])
        count, first = nodes.num_children[decisions], nodes.first_child[decisions]
        of_parent, nth = np.repeat(np.arange(len(decisions)), count), np.arange(count.sum())
        after = first[of_parent] + nth - (np.cumsum(count) - count)[of_parent]
        mass = np.zeros((len(decisions), rows.shape[1]))
        np.add.at(mass, of_parent, rows[after])
        mass, uniform = mass[of_parent], (1 / count)[of_parent, None]
        rows[after] = np.where(mass > 0, rows[after] / np.where(mass > 0, mass, 1), uniform)
        if self.locked is not None:  # a locked strategy that is never reached has no mass
            keys = self.locked.matching(player, runouts.lanes[street_idx][lane].cards)
            fixed = runouts.fixed(player, self.locked, keys, after)
            of_node = np.add.reduceat(fixed, np.cumsum(count) - count, axis=0)[of_parent]
            rows[after] = np.where(of_node > 0.5, fixed, rows[after])
        column = np.full(len(HANDS), -1)
        real = np.flatnonzero(runouts.hands >= 0)
        column[runouts.of_deck[real]] = real
        return rows, column[exchanged_hands(suits)[hands]]


def find_merged(spot: Spot, suit_isomorphism: bool | None, locked: Locked | None = None) -> tuple[Suits, ...]:
    """Permutations of suits by which a spot's hands or runouts are merged; empty if they are not.

    Args:
      spot: the spot.
      suit_isomorphism: as in `solve_spots`.
      locked: the locks of a flop, which the permutations preserve, too.
    """
    if not (spot.is_flop if suit_isomorphism is None else suit_isomorphism):
        return ()
    exchanges = find_exchanges(spot)[0]
    if locked is not None:
        exchanges = [
            suits
            for suits in exchanges
            if locked.is_preserved(
                exchange_hands(spot.hands, suits), functools.partial(exchange_card, suits=suits)
            )
        ]
    return tuple(exchanges) if len(exchanges) > 1 else ()


def lay_out_streets(
    spot: Spot,
    exchanges: Sequence[Suits],
    sizes: Sequence[int] | None = None,
    *,
    placement: Placement = HOME,
    memory_limit: int | None = None,
) -> Runouts:
    """Lays out a flop or turn by streets.

    Args:
      spot: the spot.
      exchanges: permutations of suits by which runouts are merged; empty for none.
      sizes: number of lanes of a slice on the turn and on the river; by default those for the devices.
      placement: the devices.
      memory_limit: bytes on each device; by default those of an empty accelerator.
    """
    carried = carried_hands([spot])
    hands = np.arange(len(spot.hands)) if carried is None else carried[0]
    lay_out = functools.partial(Runouts.of, spot, hands, exchanges or (IDENTITY,))
    if sizes is not None or placement.on_cpu:
        return lay_out((SLICE_LANES if sizes is None else sizes)[len(spot.cards) - 5 :])
    if not spot.is_flop:
        return lay_out((NUM_CARDS,))
    runouts = lay_out((1, NUM_CARDS))
    # Not free memory, which differs between runs: states continue in the same layout.
    memory = whole_memory(placement) if memory_limit is None else memory_limit
    num_turns = len(runouts.lanes[1])
    most = min(MOST_TURNS, num_turns)
    if memory is not None:
        left = max(memory - runouts.num_bytes(np.float64), 0)
        most = max(1, min(most, int(SLICE_SHARE * left) // runouts.slice_bytes(np.float64)))
    turns = choose_turns(num_turns, most)
    return lay_out((turns, turns * NUM_CARDS))


def choose_turns(count: int, most: int) -> int:
    """Number of turns of a slice, from half of `most` to `most`: with the least padding, then the largest."""
    sizes = range(-(-most // 2), most + 1)
    return min(sizes, key=lambda size: (-count % size, -size))


class EvaluatedStreets(NamedTuple):
    """Values of a spot that is solved by streets.

    Attributes:
      certificate: of the first street's strategies.
      deal_values: for both players `[K × H, 1]` counterfactual values of the first street's deals, in pots.
    """

    certificate: Certificate
    deal_values: tuple[jax.Array, jax.Array]


@compiled(quick=True)
def evaluate_streets(
    problem: Problem, strategy_sum: tuple[Parts, Parts], payoff_state: Any
) -> EvaluatedStreets:
    """Certificate of average strategies, with the values of the first street's deals."""
    certificate = certify_average(problem, strategy_sum, (None, None), payoff_state, played=True)
    nothing = jnp.zeros((0, 1), problem.dtype)
    first, second = (
        follow(side, terms, Parts(nothing, body))
        for side, terms, body in zip(problem.sides, problem.terms, certificate.strategy, strict=True)
    )
    reaches, payoff = payoff_reaches(problem, (first, second)), problem.payoff
    assert isinstance(payoff, BranchedPayoff)
    values = [payoff.branches.values(player, reaches, payoff_state[1], 0)[1] for player in (0, 1)]
    return EvaluatedStreets(certificate, (values[0], values[1]))
