"""Solved spots: strategies, EVs and equities, ranges and frequencies after every line."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from jaxgadget.core.results import NO_FAILURES, LaneResult, convergence
from jaxgadget.games.game import ACTOR_BIT, CHANCE
from jaxgadget.holdem.betting import PLAYERS
from jaxgadget.holdem.cards import HANDS, card_name
from jaxgadget.holdem.locks import Lock, find_locked
from jaxgadget.holdem.ranges import HandRange
from jaxgadget.holdem.runouts import StreetStrategies, find_merged
from jaxgadget.holdem.saved import (
    SOLUTIONS,
    decode,
    encode,
    read_solutions,
    read_spot,
    spot_record,
    write_solutions,
)
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.strategies import HeldRows, action_nodes, find_same, rows_to_policy
from jaxgadget.holdem.values import NodeValues, chips_ahead, find_equities, find_met
from jaxgadget.policy.node_values import counterfactual_values, nodes_below, reach_below
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.public import PublicTree, public_tree
from jaxgadget.util.arguments import check_player
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.memory import megabytes
from jaxgadget.util.viewers import Explorable

MAX_CELLS = 1 << 24
"""Public nodes × hands that are evaluated at once, in about five arrays in float64."""

KEPT_TURNS = 8
"""Number of turns of a flop whose solutions are kept; each may take 100 MB."""

SMALL_GAP = 0.01
"""Gap, as a share of the pot, below which `message` gives no advice."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SpotState:
    """The state of the loop after a solve, from which `resume_spots` continues.

    Attributes:
      key: digest of the game as it was laid out, the algorithm and the precision.
      dtype: precision of the solve.
      suit_isomorphism: True if hands, or a flop's runouts, were merged.
      compressed: True if most numbers are kept in 16 bits.
      arrays: the leaves of `core.cfr.State`.
    """

    key: str
    dtype: str
    suit_isomorphism: bool
    arrays: tuple[npt.NDArray[Any], ...]
    compressed: bool = False

    def __repr__(self) -> str:
        return f"<SpotState: {megabytes(sum(array.nbytes for array in self.arrays))} in {self.dtype}>"


Method = TypeVar("Method", bound=Callable[..., Any])


def _on_its_street(method: Method) -> Method:
    """A method of a line that applies to the solution of the street where the line ends."""

    @functools.wraps(method)
    def on_its_street(self: SpotSolution, line: str = "", *args: Any, **settings: Any) -> Any:
        street, rest = self.find_street(line)
        if street is self:
            return method(self, line, *args, **settings)
        try:
            return getattr(street, method.__name__)(rest, *args, **settings)
        except ValueError as error:
            raise ValueError(f"on {street.spot.board}, in line={line!r}: {error}") from error

    return cast("Method", on_its_street)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SpotSolution(Explorable):
    """A solved spot; its certificate is in float64.

    Attributes:
      spot: the spot.
      held: both players' average strategies with the hands of their ranges; `probabilities` has all hands.
      ev: both players' expected chips; they sum to the pot, less the rake.
      hand_ev: for both players `[H]` expected chips with each hand; NaN for hands outside the player's range
        or without a compatible hand of the other player.
      gap: NashConv in chips, the sum of both players' gains from best responses; without rake, twice the
        exploitability. With locks it is that of the locked game, in which a best response keeps the player's
        own locks.
      algorithm: the rule's name, or the label of an evaluated policy.
      iterations: completed iterations.
      unlocked_gains: what each player would gain, in chips, by a best response to the other's strategy that
        may leave its own locks, too. Equals `gains` without locks.
      locks: the strategies that were fixed.
      gains: what each player would gain by a best response, in chips, as in `gap`; NaN in checkpoints written
        before this field.
      state: the solver's state, with `solve_spots(keep_state=True)`, otherwise None.
      streets: the strategies on the turns and rivers of a flop; None for other spots. Methods then also take
        lines with cards, such as `check, check, Ah, bet 100`: arrays are over the hands that are left on that
        turn, those of the spot of `after`.
    """

    spot: Spot
    held: tuple[HeldRows, HeldRows]
    ev: tuple[float, float]
    hand_ev: tuple[FloatArray, FloatArray]
    gap: float
    algorithm: str
    iterations: int
    unlocked_gains: tuple[float, float]
    locks: tuple[Lock, ...] = ()
    gains: tuple[float, float] = (float("nan"), float("nan"))
    state: SpotState | None = None
    streets: StreetStrategies | None = None

    def __repr__(self) -> str:
        first, second = self.ev
        return (
            f"<SpotSolution {self.spot.title}: EVs {first:.6g}, {second:.6g} of {self.spot.pot:.6g} chips, "
            f"{self.describe_quality()}, {self.iterations} iterations>"
        )

    @property
    def probabilities(self) -> tuple[FloatArray, FloatArray]:
        """For both players `[C, H]` average strategies, a row for each node after the player's actions.

        Rows are in ascending order of the nodes, and uniform with hands that a player cannot hold. They are
        computed when accessed; those of a large turn take hundreds of megabytes.
        """
        return self.held[0].whole(), self.held[1].whole()

    @property
    def exploitability(self) -> float:
        """Half of NashConv, in chips: the mean of both players' gains from a best response.

        NaN with rake: the game is not zero-sum, and no value of the game bounds what a strategy can lose.
        """
        return float("nan") if self.spot.rake else self.gap / 2

    @property
    def epsilon(self) -> float:
        """The larger of both players' gains, in chips: the strategies are an ε-equilibrium."""
        return max(self.gains)

    @property
    def expected_rake(self) -> float:
        """Expected chips that the house takes."""
        return max(self.spot.pot - sum(self.ev), 0.0) if self.spot.rake else 0.0

    def describe_quality(self) -> str:
        """Exploitability in chips, also without locks if there are any; with rake, both players' gains."""
        if self.locks and not self.spot.rake:
            return (
                f"exploitability {self.exploitability:.3g} chips with {len(self.locks)} lock(s), "
                f"{self.unlocked_exploitability:.3g} without"
            )
        if not self.spot.rake:
            return f"exploitability {self.exploitability:.3g} chips"
        return f"gains from best responses {self.gains[0]:.3g}, {self.gains[1]:.3g} chips (with rake)"

    @property
    def unlocked_gap(self) -> float:
        """NashConv of the same strategies if nothing is locked, in chips; `gap` without locks."""
        return sum(self.unlocked_gains) if self.locks else self.gap

    @property
    def unlocked_exploitability(self) -> float:
        """Half of `unlocked_gap`, in chips; NaN with rake."""
        return float("nan") if self.spot.rake else self.unlocked_gap / 2

    @functools.cached_property
    def policy(self) -> Policy:
        """The strategies as a policy of `public_tree(spot)`, for all functions that take policies.

        Raises:
          ValueError: if the spot is a flop.
        """
        self.spot.check_listed()
        label = f"{self.algorithm}:{self.iterations}" + (", locked" if self.locks else "")
        return rows_to_policy(self._tree, self.probabilities, label)

    @functools.cached_property
    def equity(self) -> tuple[FloatArray, FloatArray]:
        """For both players `[H]` equity: the fraction of the pot that each hand wins without further bets.

        NaN for hands without a compatible hand of the other player.
        """
        start = np.full(1, -1)
        first, second = (
            find_equities(self.spot, self.spot.range_weights[1 - player][None], start)[0] for player in (0, 1)
        )
        return first, second

    def after(self, line: str) -> SpotSolution:
        """The solution of the next street after a line that ends with its card, such as `check, check, Ah`.

        Its spot has both players' hands with the weights with which they reach the line, or the whole range
        of a player that never does. EVs and exploitability are those of the street's own game.

        Raises:
          ValueError: if the spot is a river, or the line does not end with a card that is dealt to players
            who can still bet.
        """
        street = {3: "turn", 4: "river"}.get(len(self.spot.cards))
        if street is None:
            raise ValueError(f"{self.spot.board} is a river: expected a line of a solution of a flop or turn")
        if self.streets is None:
            node = self.spot.betting.find(line)
            deal = self.spot.betting.tree.parent[node]
            if node and int(self.spot.betting.tree.actor[deal]) == CHANCE:
                return self._solve_after(int(deal), int(self.spot.betting.card[node]))
        elif (found := self.spot.find_deal(line)) is not None and not found.rest:
            return self._turn(found.node, found.card)
        raise ValueError(
            f"line={line!r}: expected a line that ends with the {street}, such as 'check, check, Ah'"
        )

    def find_street(self, line: str) -> tuple[SpotSolution, str]:
        """The solution of the street on which a line ends, and the rest of the line there.

        On a flop this is the turn's after a line such as `check, check, Ah`, otherwise this solution.

        Raises:
          ValueError: as `Spot.find_street`.
        """
        deal = None if self.streets is None else self.spot.find_deal(line)
        return (self, line) if deal is None else (self._turn(deal.node, deal.card), deal.rest)

    def _turn(self, node: int, card: int) -> SpotSolution:
        """The solution of the turn after a card that is dealt at a node."""
        if (node, card) not in self._turns:
            while len(self._turns) >= KEPT_TURNS:
                self._turns.pop(next(iter(self._turns)))
            self._turns[node, card] = self._solve_after(node, card)
        return self._turns[node, card]

    @functools.cached_property
    def _turns(self) -> dict[tuple[int, int], SpotSolution]:
        """Solutions of the last turns that were asked for."""
        return {}

    def _before(self, node: int, card: int) -> tuple[FloatArray, FloatArray]:
        """`_reaches` at the node where a card is dealt; 0 for hands with the card."""
        first, second = (
            np.where((HANDS[self.spot.hands] == card).any(axis=1), 0, reaches)
            for reaches in self._reaches(node)
        )
        return first, second

    def _solve_after(self, node: int, card: int) -> SpotSolution:
        """The solution of the next street after a card that is dealt at a node of `spot.betting`."""
        from jaxgadget.holdem.solve import evaluate_spot

        spot, betting = self.spot, self.spot.betting
        weights: list[FloatArray] = []
        blocked = (HANDS[spot.hands] == card).any(axis=1)
        for name, reaches, whole in zip(PLAYERS, self._before(node, card), spot.range_weights, strict=True):
            if not whole[~blocked].any():
                raise ValueError(
                    f"{card_name(card)} is in all hands of {name}: expected another card after "
                    f"{betting.line(node)!r}"
                )
            weights.append(np.zeros(len(HANDS)))
            weights[-1][spot.hands] = reaches if reaches.any() else whole
        ranges = weights[0], weights[1]
        if self.streets is None:
            street = spot.after_deal(spot.street_betting.find(betting.line(node)), card, ranges)
            root = next(child for child in betting.children(node) if int(betting.card[child]) == card)
            rows = [self._rows_below(player, root, street) for player in (0, 1)]
        else:
            street, root = spot.after_deal(node, card, ranges), betting.children(node)[0]
            rows = [
                self.streets.rows(player, street.betting, street.hands, (card,), root) for player in (0, 1)
            ]
        label = f"{self.algorithm}:{self.iterations}"
        solution = evaluate_spot(street, rows_to_policy(public_tree(street), (rows[0], rows[1]), label))
        return dataclasses.replace(solution, algorithm=self.algorithm, iterations=self.iterations)

    def _rows_below(self, player: int, root: int, street: Spot) -> FloatArray:
        """`[C, H]` a player's strategy in a spot whose tree is the one below a node of this spot's."""
        nodes = street.betting.tree
        same = find_same(nodes, self.spot.betting.tree, root)
        rows = np.searchsorted(self._action_nodes[player], same[action_nodes(nodes, player)])
        return self.held[player].take(rows)[:, np.searchsorted(self.spot.hands, street.hands)]

    def node(self, line: str = "") -> int:
        """The public node after a line such as `check, bet 100`; see `BettingTree.find`.

        Raises:
          ValueError: also if a card is dealt in a line of a flop, as the node is in the turn's own tree.
        """
        self._check_before_deal(line, "node")
        return self.spot.betting.find(line)

    def _check_before_deal(self, line: str, method: str) -> None:
        """Raises ValueError if a card is dealt in a line of a flop."""
        if self.streets is not None and (deal := self.spot.find_deal(line)) is not None:
            raise ValueError(
                f"line={line!r} is on the turn, which has its own tree: expected "
                f"after({deal.line!r}).{method}(…)"
            )

    @_on_its_street
    def strategy(self, line: str = "") -> dict[str, FloatArray]:
        """Dictionary from each action to its probability `[H]` with each hand, for the player that acts.

        Raises:
          ValueError: if no player acts there.
        """
        self.actor(line)
        betting = self.spot.betting
        return {betting.action_name(child): self._row(child) for child in betting.children(self.node(line))}

    @_on_its_street
    def frequencies(self, line: str = "") -> dict[str, float]:
        """Dictionary from each action after a line to its frequency.

        A frequency is the mean over hands weighted by `weights`, NaN if all weights are 0.

        Raises:
          ValueError: if no player acts there.
        """
        weights = self.weights(line)[self.actor(line)]
        total = weights.sum()
        return {
            action: float(row @ weights / total) if total > 0 else float("nan")
            for action, row in self.strategy(line).items()
        }

    @_on_its_street
    def actor(self, line: str = "") -> int:
        """Acting player after a line, 0 or 1.

        Raises:
          ValueError: if no player acts there.
        """
        return self.spot.betting.actor(line)

    def played(self, line: str = "") -> tuple[FloatArray, FloatArray]:
        """For both players `[H]` the range's weight of each hand × its probability of playing the line.

        The result is 0 for hands that contain a card of the line.
        """
        street, rest = self.find_street(line)
        if street is self:
            return self._reaches(self.node(line))
        deal = self.spot.find_deal(line)
        assert deal is not None
        first, second = (  # a player that never gets to the turn has its whole range there
            played * reaches.any()
            for played, reaches in zip(street.played(rest), self._before(deal.node, deal.card), strict=True)
        )
        return first, second

    @_on_its_street
    def weights(self, line: str = "") -> tuple[FloatArray, FloatArray]:
        """For both players `[H]` the fraction of all compatible pairs with each hand after a line.

        If no pair reaches the line, as after a bet that the other player never makes, the other player's
        whole range is assumed; if the player itself never reaches the line, both whole ranges. All weights
        are 0 if these ranges have no compatible pairs either.
        """
        return self._weights(self.node(line))

    def _weights(self, node: int) -> tuple[FloatArray, FloatArray]:
        """`weights` at a public node."""
        reaches, whole = self._reaches(node), self._possible(node)
        weights: list[FloatArray] = []
        for player in (0, 1):
            other = 1 - player
            reach_pairs = [
                (reaches[player], reaches[other]),
                (reaches[player], whole[other]),
                (whole[player], whole[other]),
            ]
            candidates = (own * self.spot.compatible_with(others) for own, others in reach_pairs)
            weight = next((pairs for pairs in candidates if pairs.sum() > 0), np.zeros_like(whole[player]))
            weights.append(weight / max(weight.sum(), np.finfo(np.float64).tiny))
        return weights[0], weights[1]

    def pairs(self, line: str = "") -> float:
        """Total weight of compatible pairs of hands that reach a line."""
        first, second = self.played(line)
        return float(first @ self.find_street(line)[0].spot.compatible_with(second))

    @_on_its_street
    def values(self, line: str = "") -> NodeValues:
        """EVs and equities of both players at the node after a line, from there on.

        Any line is accepted, also one after which a card is dealt or the hand is over.
        """
        node = self.node(line)
        if node not in self._values:
            self._evaluate(node, [node])
        return self._values[node]

    def values_below(self, line: str = "") -> dict[str, NodeValues]:
        """`values` after a line and after all longer lines in which no further card is dealt, by line."""
        street, rest = self.find_street(line)
        if street is not self:
            begin = _words(line)[: len(_words(line)) - len(_words(rest))]
            below = street.values_below(rest).items()
            return {", ".join([*begin, *_words(own)]): values for own, values in below}
        top, betting = self.node(line), self.spot.betting
        nodes = [top]
        for node in nodes:
            if int(betting.tree.actor[node]) != CHANCE:
                nodes += betting.children(node)
        if any(node not in self._values for node in nodes):
            self._evaluate(top, nodes)
        return {betting.line(node): self._values[node] for node in nodes}

    def evs(self, line: str = "") -> tuple[FloatArray, FloatArray]:
        """For both players `[H]` EV of each hand after a line; see `NodeValues.ev`."""
        return self.values(line).ev

    def action_evs(self, line: str = "") -> dict[str, FloatArray]:
        """Dictionary from each action to its EV `[H]` with each hand, for the player that acts.

        Raises:
          ValueError: if no player acts there.
        """
        self.actor(line)
        return self.values(line).action_ev

    def equities(self, line: str = "") -> tuple[FloatArray, FloatArray]:
        """For both players `[H]` equity of each hand after a line; see `NodeValues.equity`."""
        return self.values(line).equity

    def lock(self, line: str = "", hands: str | HandRange | None = None) -> Lock:
        """The strategy of the player that acts after a line, as a lock for other solves.

        Args:
          line: actions such as `check, bet 100`; by default the start. Where a card is dealt, the line names
            it, and the lock holds after this card only.
          hands: the hands to lock; by default all.

        Raises:
          ValueError: if no player acts there.
        """
        return Lock(line=line, strategy=self.strategy(line), hands=hands)

    def locks_of(self, player: int, line: str = "") -> list[Lock]:
        """The strategy of a player at all its nodes at and below a line, as locks for other solves.

        On a flop these are the nodes before a card is dealt.

        Raises:
          ValueError: if a card is dealt in a line of a flop.
        """
        self._check_before_deal(line, "locks_of")
        betting, nodes = self.spot.betting, [self.node(line)]
        for node in nodes:
            if self.streets is None or int(betting.tree.actor[node]) != CHANCE:
                nodes += betting.children(node)
        own = ACTOR_BIT[check_player(player)]
        return [self.lock(betting.line(node)) for node in nodes if int(betting.tree.actor[node]) == own]

    @_on_its_street
    def to_frame(self, line: str = "", player: int | None = None) -> pd.DataFrame:
        """One row per hand of a player after a line: weight, EV, equity, and its actions with their EVs.

        The columns are `hand`, `weight`, `ev`, `equity` and, for the acting player, one for each action, such
        as `bet 100`, followed by one for the EV of each action, such as `ev bet 100`. Weights are those of
        `weights`, even if play never reaches the line; EVs are NaN if the other player never reaches it.

        Args:
          line: actions such as `check, bet 100`; by default the start.
          player: 0 or 1; by default the acting player.

        Raises:
          ValueError: if `player` is omitted and no player acts there.
        """
        player = self.actor(line) if player is None else check_player(player)
        held, values = self.weights(line)[player], self.values(line)
        columns: dict[str, Any] = {"hand": self.spot.hand_names, "weight": held}
        columns |= {"ev": values.ev[player], "equity": values.equity[player]}
        if int(self.spot.betting.tree.actor[self.node(line)]) == ACTOR_BIT[player]:
            columns |= self.strategy(line)
            columns |= {f"ev {action}": evs for action, evs in values.action_ev.items()}
        return pd.DataFrame(columns)[held > 0].reset_index(drop=True)

    def to_record(self, line: str = "") -> dict[str, Any]:
        """The node after a line, as `jaxgadget holdem --json --line` writes it.

        Returns:
          `line`, `actor` (0, 1 or None), `pot` in chips, `reached` (share of the pairs of hands that reach
          the line), `ev` and `equity` of both players, `frequencies` of the actions, and `hands`: for both
          players a list of records with `hand`, `weight`, `ev` and `equity`, for the acting player also
          `strategy` and `action_ev`, by action.
        """
        deal = None if self.streets is None else self.spot.find_deal(line)
        if deal is not None:
            record = self._turn(deal.node, deal.card).to_record(deal.rest)
            return record | {
                "line": ", ".join(filter(None, (deal.line, record["line"]))),
                "reached": self.pairs(line) / self.pairs(),
            }
        node, values = self.node(line), self.values(line)
        actor = int(self.spot.betting.tree.actor[node])
        actions = list(values.action_ev)
        hands: list[list[dict[str, Any]]] = []
        for player in (0, 1):
            records: list[dict[str, Any]] = []
            for row in self.to_frame(line, player).to_dict("records"):
                record: dict[str, Any] = {name: row[name] for name in ("hand", "weight", "ev", "equity")}
                if actor == ACTOR_BIT[player]:
                    record["strategy"] = {action: row[action] for action in actions}
                    record["action_ev"] = {action: row[f"ev {action}"] for action in actions}
                records.append(record)
            hands.append(records)
        return {
            "line": self.spot.betting.line(node),
            "actor": ACTOR_BIT.index(actor) if actor in ACTOR_BIT else None,
            "pot": values.pot,
            "reached": self.pairs(line) / self.pairs(),
            "ev": list(values.mean_ev),
            "equity": list(values.mean_equity),
            "frequencies": self.frequencies(line) if actions else {},
            "hands": hands,
        }

    def to_row(self) -> dict[str, Any]:
        """Row of `jaxgadget holdem --json`; `exploitability` and `gap` are in chips.

        `spot` is the canonical string, which distinguishes spots on the same board. With rake, both players'
        `gains` from best responses and the expected `rake` replace `exploitability`.
        """
        raked = {"gains": list(self.gains), "rake": self.expected_rake}
        return {
            "spot": self.spot.name,
            "label": self.spot.label,
            "board": self.spot.board,
            "ev": list(self.ev),
            **(raked if self.spot.rake else {"exploitability": self.exploitability}),
            "gap": self.gap,
            "unlocked_gap": self.unlocked_gap,
            "unlocked_gains": list(self.unlocked_gains),
            "locks": len(self.locks),
            "iterations": self.iterations,
            "hands": [int((weights > 0).sum()) for weights in self.spot.range_weights],
            "root": self.frequencies(),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the spot and its solution to a `.npz` file, atomically.

        `SpotSolution.load`, `jaxgadget holdem --open` and `jaxgadget explore` read it. With `state` it is
        larger, and `resume_spots` continues from it.
        """
        write_solutions(path, [self._pack()])

    @staticmethod
    def load(path: str | os.PathLike[str]) -> SpotSolution:
        """Reads the only solution of a file; `SpotSolutions.load` reads several.

        Raises:
          ValueError: if there is no such file, it has several solutions, or it is damaged, of another format
            or of another version.
        """
        solutions = SpotSolutions.load(path)
        if len(solutions) != 1:
            raise ValueError(
                f"{SOLUTIONS.label(path)} has {len(solutions)} solutions; expected one, or SpotSolutions.load"
            )
        return solutions[0]

    def _pack(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """The record and the arrays of a file."""
        record: dict[str, Any] = {name: getattr(self, name) for name in _STORED}
        record |= {
            "spot": spot_record(self.spot),
            "ev": list(self.ev),
            "gains": list(self.gains),
            "unlocked_gains": list(self.unlocked_gains),
            "state": None,
        }
        arrays: dict[str, npt.NDArray[Any]] = {}
        record["locks"] = [
            {"line": lock.line, "hands": encode(lock.hands), "actions": list(lock.strategy)}
            for lock in self.locks
        ]
        for number, lock in enumerate(self.locks):
            for action, value in enumerate(lock.strategy.values()):
                arrays[f"lock_{number}_{action}"] = np.asarray(value, np.float64)
        for player in (0, 1):
            arrays |= self.held[player].pack(player)
            arrays[f"hand_ev_{player}"] = self.hand_ev[player]
        if self.state is not None:
            fields = ("key", "dtype", "suit_isomorphism", "compressed")
            record["state"] = {name: getattr(self.state, name) for name in fields}
            arrays |= {f"state_{leaf}": array for leaf, array in enumerate(self.state.arrays)}
        if self.streets is not None:
            record["merged"] = self.streets.runouts.merges
            arrays |= self.streets.pack()
        return record, arrays

    @staticmethod
    def _unpack(record: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> SpotSolution:
        """Restores a solution; raises KeyError, TypeError or ValueError for other records or arrays."""
        spot = read_spot(record["spot"])
        num_hands = len(spot.hands)
        for player in (0, 1):
            evs = arrays[f"hand_ev_{player}"]
            if evs.shape != (num_hands,) or evs.dtype != np.float64:
                raise ValueError(
                    f"hand_ev_{player} has shape {evs.shape}, expected {(num_hands,)} in float64"
                )
        first_held, second_held = (
            HeldRows.unpack(spot.betting.tree, player, num_hands, arrays) for player in (0, 1)
        )
        state = None
        if record["state"] is not None:
            leaves = sum(name.startswith("state_") for name in arrays)
            state = SpotState(
                **record["state"], arrays=tuple(arrays[f"state_{leaf}"] for leaf in range(leaves))
            )
        locks = tuple(
            Lock(
                line=lock["line"],
                strategy={
                    name: arrays[f"lock_{number}_{action}"][()] for action, name in enumerate(lock["actions"])
                },
                hands=decode(lock["hands"]),
            )
            for number, lock in enumerate(record["locks"])
        )
        locked = find_locked(spot, locks) if spot.is_flop else None
        first, second = record["ev"]
        gain, other_gain = record["gains"]
        free_gain, other_free_gain = record["unlocked_gains"]
        return SpotSolution(
            spot=spot,
            locks=locks,
            held=(first_held, second_held),
            ev=(first, second),
            hand_ev=(arrays["hand_ev_0"], arrays["hand_ev_1"]),
            gains=(gain, other_gain),
            unlocked_gains=(free_gain, other_free_gain),
            state=state,
            streets=StreetStrategies.unpack(
                spot, find_merged(spot, record.get("merged"), locked), arrays, locked
            ),
            **{name: record[name] for name in _STORED},
        )

    @functools.cached_property
    def _values(self) -> dict[int, NodeValues]:
        """Values at the public nodes that were asked for."""
        return {}

    def _evaluate(self, top: int, nodes: Sequence[int]) -> None:
        """Adds the values at public nodes, all at or below `top`, to `_values`."""
        spot, betting = self.spot, self.spot.betting
        actors = {node: int(betting.tree.actor[node]) for node in nodes}
        below = {node: betting.children(node) if actors[node] in ACTOR_BIT else [] for node in nodes}
        worth = self._worth_below(top, {*nodes, *itertools.chain(*below.values())})
        rows, reaches = np.array(nodes), [self._reaches(node) for node in nodes]
        plays = [self._plays(node) for node in nodes]
        met, ahead, equity = list[FloatArray](), list[FloatArray](), list[FloatArray]()
        for player in (0, 1):
            others = np.stack([pair[1 - player] for pair in plays])
            ranges = np.stack([pair[1 - player] for pair in reaches])
            met.append(find_met(spot, player, rows, others[..., None])[..., 0])
            ahead.append(chips_ahead(spot, player, rows))
            equity.append(find_equities(spot, ranges, betting.card[rows]))
        for row, node in enumerate(nodes):

            def chips(player: int, at: int, row: int = row) -> FloatArray:
                return ahead[player][row] + _divide(worth[at][player], met[player][row])

            player = ACTOR_BIT.index(actors[node]) if below[node] else 0
            evs, equities = (chips(0, node), chips(1, node)), (equity[0][row], equity[1][row])
            weights = self._weights(node)
            self._values[node] = NodeValues(
                pot=spot.pot + float(betting.put_in[node].sum()),
                ev=evs,
                equity=equities,
                action_ev={betting.action_name(child): chips(player, child) for child in below[node]},
                mean_ev=_means(weights, evs),
                mean_equity=_means(weights, equities),
            )

    def _worth_below(self, top: int, wanted: set[int]) -> dict[int, tuple[FloatArray, FloatArray]]:
        """Both players' counterfactual values `[H]` at those of the wanted nodes that are at or below `top`.

        Large trees are evaluated child by child, so that temporary arrays are small.
        """
        if self.streets is not None:
            return self.flop_worth
        tree, betting = self._tree, self.spot.betting
        nodes, found = nodes_below(tree, top), dict[int, tuple[FloatArray, FloatArray]]()
        if len(nodes) > 1 and len(nodes) * len(self.spot.hands) > MAX_CELLS:
            total = np.zeros((2, len(self.spot.hands)))
            for child in betting.children(top):
                found |= self._worth_below(child, {*wanted, child})
                for player in (0, 1):
                    total[player] += self._chosen(player, np.array([child]))[0] * found[child][player]
            return found | {top: (total[0], total[1])}
        first, second = (self._chosen(player, nodes)[..., None] for player in (0, 1))
        one, other = (
            reach_below(tree, nodes, chosen, play[:, None])
            for chosen, play in zip((first, second), self._plays(top), strict=True)
        )
        values = [
            counterfactual_values(tree, 0, nodes, other, first),
            counterfactual_values(tree, 1, nodes, one, second),
        ]
        for row in np.flatnonzero(np.isin(nodes, list(wanted))).tolist():
            found[int(nodes[row])] = values[0][row, :, 0].copy(), values[1][row, :, 0].copy()
        return found

    @functools.cached_property
    def flop_worth(self) -> dict[int, tuple[FloatArray, FloatArray]]:
        """Both players' counterfactual values `[H]` at all nodes of a flop before the turn is dealt."""
        assert self.streets is not None
        spot, betting, first = self.spot, self.spot.betting, self.streets.runouts.streets[0]
        chips, rakes = spot.street_stakes(first.folds)
        worth: list[dict[int, FloatArray]] = []
        for player in (0, 1):
            values = dict(zip(first.deals.tolist(), self.streets.deal_values[player], strict=True))
            for node, won, rake in zip(first.folds.tolist(), chips, rakes, strict=True):
                other = self._plays(node)[1 - player] * spot.dealt[1 - player]
                earned = (won if player == 0 else -won) - rake
                values[node] = earned * spot.compatible_with(other) * spot.dealt[player]
            for node in range(len(betting.tree) - 1, -1, -1):
                if int(betting.tree.actor[node]) in ACTOR_BIT and node not in values:
                    below = betting.children(node)
                    if all(child in values for child in below):
                        own = int(betting.tree.actor[node]) == ACTOR_BIT[player]
                        values[node] = sum(
                            (self._row(child) if own else 1) * values[child] for child in below
                        )  # pyright: ignore[reportArgumentType]
            worth.append(values)
        return {node: (worth[0][node], worth[1][node]) for node in worth[0]}

    @functools.cached_property
    def _tree(self) -> PublicTree:
        return public_tree(self.spot)

    def _row(self, child: int) -> FloatArray:
        """`[H]` probability of the action that leads to a node."""
        player = ACTOR_BIT.index(int(self.spot.betting.tree.actor[self.spot.betting.tree.parent[child]]))
        return self._chosen(player, np.array([child]))[0]

    def _chosen(self, player: int, nodes: IntArray) -> FloatArray:
        """`[m, H]` probability of a player's action at the parent of each node, 1 where it does not act."""
        tree, chosen = self.spot.betting.tree, np.ones((len(nodes), len(self.spot.hands)))
        own = np.flatnonzero((tree.actor[tree.parent[nodes]] == ACTOR_BIT[player]) & (nodes > 0))
        chosen[own] = self.held[player].take(np.searchsorted(self._action_nodes[player], nodes[own]))
        return chosen

    @functools.cached_property
    def _action_nodes(self) -> tuple[IntArray, IntArray]:
        nodes = self.spot.betting.tree
        return action_nodes(nodes, 0), action_nodes(nodes, 1)

    def _plays(self, node: int) -> tuple[FloatArray, FloatArray]:
        """For both players `[H]` probability of playing to a node with each hand."""
        path: list[int] = []
        while node:
            path.append(node)
            node = int(self.spot.betting.tree.parent[node])
        first, second = (
            self._chosen(player, np.array(path[::-1], np.int64)).prod(axis=0) for player in (0, 1)
        )
        return first, second

    def _reaches(self, node: int) -> tuple[FloatArray, FloatArray]:
        """For both players `[H]` the range's weight of each hand × its probability of playing to a node."""
        first, second = (
            range * play for range, play in zip(self._possible(node), self._plays(node), strict=True)
        )
        return first, second

    def _possible(self, node: int) -> list[FloatArray]:
        """For both players `[H]` the range's weights; 0 for hands that contain the card dealt at a node."""
        possible = [weights.copy() for weights in self.spot.range_weights]
        card = int(self.spot.betting.card[node])
        for weights in possible:
            weights[(HANDS[self.spot.hands] == card).any(axis=1)] = 0
        return possible


def _words(line: str) -> list[str]:
    """The actions and cards of a line."""
    return [word.strip() for word in line.split(",")] if line.strip() else []


_SPOT_COLUMNS = {"spot": "name", "label": "label", "board": "board"}
"""Columns of a table that identify a spot, and its attributes."""

_STORED = ("gap", "algorithm", "iterations")
"""Fields of a solution that are stored unchanged."""


def _divide(values: FloatArray, met: FloatArray) -> FloatArray:
    """Conditional values `[H]`; NaN where the other player is not met."""
    return np.divide(values, met, out=np.full_like(values, np.nan), where=met > 0)


def _means(
    weights: tuple[FloatArray, FloatArray], values: tuple[FloatArray, FloatArray]
) -> tuple[float, float]:
    """Both players' weighted means; NaN if a value with a weight is, or there is no weight."""
    first, second = (
        float(weight @ np.where(weight > 0, value, 0)) if weight.any() else float("nan")
        for weight, value in zip(weights, values, strict=True)
    )
    return first, second


class SpotSolutions(list[SpotSolution], LaneResult, Explorable):
    """Solved spots, in order; each is a row of `table`. EVs, exploitability and gap are in chips."""

    failures = NO_FAILURES

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes `table` as CSV or Parquet, or spots and solutions as `.npz`, depending on the file's suffix.

        Raises:
          ValueError: for another suffix, or for no solutions.
        """
        if pathlib.Path(path).suffix in (".csv", ".parquet"):
            super().save(path)
            return
        if pathlib.Path(path).suffix != ".npz":
            raise ValueError(f"path={os.fspath(path)!r}: expected a file that ends in .npz, .csv or .parquet")
        if not self:
            raise ValueError("no solutions to save; expected at least one")
        write_solutions(path, [solution._pack() for solution in self])  # pyright: ignore[reportPrivateUsage]

    @staticmethod
    def load(path: str | os.PathLike[str]) -> SpotSolutions:
        """Reads the solutions of a file that `save`, `SpotSolution.save` or `holdem --save` wrote.

        Raises:
          ValueError: if there is no such file, or it is damaged, of another format or of another version.
        """
        stored = read_solutions(path)
        try:
            return SpotSolutions(SpotSolution._unpack(*parts) for parts in stored)  # pyright: ignore[reportPrivateUsage]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SOLUTIONS.damaged(path, error) from error

    @property
    def lane_columns(self) -> dict[str, Any]:
        """Columns that identify a spot."""
        return {name: [getattr(each.spot, field) for each in self] for name, field in _SPOT_COLUMNS.items()}

    @property
    def number_columns(self) -> dict[str, Any]:
        """Columns of results."""
        return {
            "ev_oop": np.array([each.ev[0] for each in self]),
            "ev_ip": np.array([each.ev[1] for each in self]),
            "exploitability": np.array([each.exploitability for each in self]),
            "gain_oop": np.array([each.gains[0] for each in self]),
            "gain_ip": np.array([each.gains[1] for each in self]),
            "gap": np.array([each.gap for each in self]),
            "unlocked_gap": np.array([each.unlocked_gap for each in self]),
            "iterations": np.array([each.iterations for each in self], np.int64),
        }

    @property
    def message(self) -> str:
        """One-sentence summary of the solve's convergence, with a remedy if it is insufficient."""
        return convergence_of_spots([(each.spot, each.gap, each.iterations, each.algorithm) for each in self])


def convergence_of_spots(solved: Sequence[tuple[Spot, float, int, str]]) -> str:
    """One-sentence summary of the convergence of solves, with a remedy if it is insufficient.

    Args:
      solved: the spot, gap in chips, iterations and algorithm of every solve.
    """
    if not solved:
        return "no spots"
    return convergence(
        np.array([gap / spot.pot for spot, gap, _, _ in solved]),
        max(iterations for _, _, iterations, _ in solved),
        solved[0][3],
        small=SMALL_GAP,
        name="largest gap, as a share of the pot,",
    )
