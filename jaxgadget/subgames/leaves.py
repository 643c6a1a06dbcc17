"""Leaves: ends of the lookaheads of a search, and their payoffs.

A lookahead extends to the end of the game (`GameEnd`), to a limit with values of its histories
(`HistoryLeaf`), or beyond the limit to the end of the game with optimal play (`OptimalValues`).
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from jaxgadget.gadgets.models import Mixtures
from jaxgadget.opponents.opponent import Opponents
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.values.histories import ExactValues, ValueFunction, blueprint_digest, leaf_values, one_each


@runtime_checkable
class Leaf(Protocol):
    """The end of a search's lookaheads: its properties and its payoffs."""

    @property
    def name(self) -> str:
        """Name in tables."""
        ...

    @property
    def num_entries(self) -> int:
        """K, number of strategies that each player chooses from at the limit; 1 if there is no choice."""
        ...

    @property
    def ends_lookahead(self) -> bool:
        """True if payoffs at the limit replace the rest of the game."""
        ...

    @property
    def is_continued(self) -> bool:
        """True if the plan below the limit is the blueprint of the next searches.

        In this case a whole level is searched before the next one, and its value is that of its plan in the
        game.
        """
        ...

    @property
    def knows_models(self) -> bool:
        """True if payoffs are available for an opponent that follows its model beyond the limit."""
        ...

    def payoffs(self, tree: HistoryTree, histories: IntArray, dtype: npt.DTypeLike) -> FloatArray:
        """`[H, K, K]` payoffs of player 0 at the limit."""
        ...

    def model_payoffs(self, tree: HistoryTree, histories: IntArray, player: int, model: Policy) -> FloatArray:
        """`[H, K]` payoffs of a player's entries at the limit, against an opponent that follows a model."""
        ...


@dataclasses.dataclass(frozen=True)
class GameEnd:
    """Lookaheads that extend to the end of the game."""

    name: str = dataclasses.field(default="none", init=False, repr=False)
    num_entries: int = dataclasses.field(default=1, init=False, repr=False)
    ends_lookahead: bool = dataclasses.field(default=False, init=False, repr=False)
    is_continued: bool = dataclasses.field(default=False, init=False, repr=False)
    knows_models: bool = dataclasses.field(default=True, init=False, repr=False)

    def payoffs(self, tree: HistoryTree, histories: IntArray, dtype: npt.DTypeLike) -> FloatArray:
        """`[0, 1, 1]`: no lookahead has a limit."""
        return np.zeros((0, 1, 1))

    def model_payoffs(self, tree: HistoryTree, histories: IntArray, player: int, model: Policy) -> FloatArray:
        """`[0, 1]`: no lookahead has a limit."""
        return np.zeros((0, 1))


@dataclasses.dataclass(frozen=True)
class OptimalValues(GameEnd):
    """Values at a limit computed by solving the game below it together with the search.

    They depend on the ranges at the limit and need neither a network nor a portfolio; a search costs as much
    as solving everything below its roots. An opponent that follows a model beyond the limit
    (`Opponent.beyond`) is locked to it until the end of the game.
    """

    name: str = dataclasses.field(default="optimal", init=False, repr=False)
    is_continued: bool = dataclasses.field(default=True, init=False, repr=False)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class HistoryLeaf:
    """A limit with values of its histories.

    Attributes:
      values: the value function.
    """

    values: ValueFunction
    ends_lookahead: bool = dataclasses.field(default=True, init=False, repr=False)
    is_continued: bool = dataclasses.field(default=False, init=False, repr=False)

    def __repr__(self) -> str:
        return repr(self.values)

    @property
    def name(self) -> str:
        """The value function's name, or its class's."""
        return getattr(self.values, "name", type(self.values).__name__)

    @property
    def num_entries(self) -> int:
        """K of the value function."""
        return self.values.num_entries

    @property
    def knows_models(self) -> bool:
        """True for exact values, whose portfolio can be evaluated against a model."""
        return isinstance(self.values, ExactValues)

    def payoffs(self, tree: HistoryTree, histories: IntArray, dtype: npt.DTypeLike) -> FloatArray:
        """`[H, K, K]` checked values of the value function."""
        return leaf_values(self.values, tree, histories, dtype)

    def model_payoffs(self, tree: HistoryTree, histories: IntArray, player: int, model: Policy) -> FloatArray:
        """`[H, K]` values of the portfolio's entries against the model (one lane)."""
        assert isinstance(self.values, ExactValues)  # other values cannot be evaluated against a model
        portfolio = self.values.portfolio.on(tree)
        rows = model.take_lanes(np.zeros(portfolio.num_lanes, np.int64)).probabilities[1 - player]
        table = ExactValues(portfolio.with_player(1 - player, rows))(tree, histories)
        return table[:, :, 0] if player == 0 else -table[:, 0, :]


def history_leaves(
    values: ValueFunction | Sequence[ValueFunction], profiles: Policy
) -> tuple[HistoryLeaf, ...]:
    """A leaf with values of histories for each blueprint.

    Args:
      values: one value function, or one for each blueprint.
      profiles: the blueprints.

    Raises:
      ValueError: as `one_each`.

    Warns:
      UserWarning: if a network (`NetworkValues.blueprint`) was trained for another blueprint.
    """
    functions = one_each(values, profiles.num_lanes)
    for lane, function in enumerate(functions):
        trained_for = getattr(function, "blueprint", None)
        if isinstance(trained_for, str) and trained_for != blueprint_digest(profiles.lane(lane)):
            warnings.warn(
                f"{function!r} was trained for another blueprint than {profiles.labels[lane]!r}: entry 0 is "
                "not the blueprint, as alternative values assume",
                stacklevel=3,
            )
    return tuple(HistoryLeaf(function) for function in functions)


def opponent_mixtures(forest: Forest, player: int, opponents: Opponents, leaf: Leaf) -> Mixtures:
    """Mixtures of models and adaptive play of the opponents in a forest.

    Args:
      forest: the forest; at its extra roots models cease to apply, unless the opponent follows its model
        beyond them.
      player: the searching player.
      opponents: M opponents.
      leaf: evaluation at the end of the forest.

    Raises:
      ValueError: if a model is followed beyond the limit, but the leaf has no payoffs for it.
    """
    rational = opponents.over(forest, player)
    beyond = np.array([beyond == "model" for beyond in opponents.beyond])
    if forest.extra is None or not beyond.any():
        return rational
    to_the_end = opponents.over(dataclasses.replace(forest, extra=None), player)
    if len(forest.leaves):
        if not leaf.knows_models:
            raise ValueError(
                f"beyond='model' with values={leaf!r}: these cannot evaluate a model below the limit; "
                "expected ExactValues(portfolio), OptimalValues(), or beyond='rational'"
            )
        at_limit = _earned_beyond(forest, player, opponents, leaf)
        to_the_end = dataclasses.replace(to_the_end, earned=to_the_end.earned + at_limit)
    return rational.replaced(to_the_end, beyond)


def _earned_beyond(forest: Forest, player: int, opponents: Opponents, leaf: Leaf) -> FloatArray:
    """`[S, N]` value of each choice of a player at the limit against models, as `Mixtures.earned`."""
    tree, histories, models = forest.histories, forest.leaves.histories, opponents.models
    reach = models.reach(1 - player)[tree.sequence[1 - player, histories]]
    first_copies = forest.leaves.sequence[player][: len(histories)]  # copies below extra roots follow
    earned = np.zeros((forest.form.treeplex[player].num_sequences, models.num_lanes))
    for model_idx in range(models.num_lanes):
        by_entry = leaf.model_payoffs(tree, histories, player, models.lane(model_idx))
        weight = tree.chance[histories] * reach[:, model_idx]
        np.add.at(earned[:, model_idx], first_copies, weight[:, None] * by_entry)
    return earned
