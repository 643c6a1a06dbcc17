"""Priors: where the opponent's mistakes at a gadget lead.

Kubíček, Lisý and Sandholm (2026), §5.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from jaxgadget.gadgets.alternative import ContinuationValues, on_roots
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.tree.forest import Forest
from jaxgadget.util.arguments import check_player, is_finite_number
from jaxgadget.util.arrays import FloatArray

PRIOR_CLIP = 1e-3
"""Least reach of a root infostate in the blueprint prior (Kubíček et al. 2026, §5)."""


class PriorRefusedError(ValueError):
    """A gadget in which the opponent decides nothing was given a prior of its mistakes."""


class Prior(Protocol):
    """Where the opponent's mistakes at a gadget lead."""

    def follow(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` probability of following at each root, where the alternative is to terminate."""
        ...

    def weight(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` weights ≥ 0 of the roots, where the opponent chooses among those of a subgame."""
        ...

    def choose(self, ranges: Ranges) -> FloatArray:
        """`[Q, L]` weights ≥ 0 of the opponent's actions above the cut, where its way in is the real one."""
        ...


class _Even:
    """All actions of a gadget infoset alike."""

    def follow(self, ranges: Ranges) -> FloatArray:
        """See `Prior`."""
        return np.full_like(ranges.cbv, 0.5)

    def weight(self, ranges: Ranges) -> FloatArray:
        """See `Prior`."""
        return np.ones_like(ranges.cbv)

    def choose(self, ranges: Ranges) -> FloatArray:
        """See `Prior`."""
        return np.ones_like(ranges.above.strategy)


@dataclasses.dataclass(frozen=True)
class NoPrior(_Even):
    """No mistakes: ε counts as 0."""

    name: ClassVar[str] = "none"


@dataclasses.dataclass(frozen=True)
class UniformPrior(_Even):
    """All actions of a gadget infoset alike."""

    name: ClassVar[str] = "uniform"


@dataclasses.dataclass(frozen=True)
class BlueprintPrior:
    """The opponent's blueprint: its reach of each root within the subgame, clipped from below.

    Uniform in a subgame that the opponent's blueprint never reaches (Kubíček et al. 2026, §5).
    """

    clip: float = PRIOR_CLIP
    name: ClassVar[str] = "blueprint"

    def __post_init__(self) -> None:
        if not 0 < self.clip <= 1:
            raise ValueError(f"clip={self.clip!r}: expected a number in (0, 1], such as {PRIOR_CLIP}")

    def follow(self, ranges: Ranges) -> FloatArray:
        """See `Prior`."""
        return self._clipped_reach(ranges, otherwise=0.5)

    def weight(self, ranges: Ranges) -> FloatArray:
        """See `Prior`."""
        return self._clipped_reach(ranges, otherwise=1.0)

    def choose(self, ranges: Ranges) -> FloatArray:
        """See `Prior`."""
        return np.maximum(ranges.above.strategy, self.clip)

    def reach(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` how likely the opponent itself gets to its roots."""
        return ranges.opponent

    def _clipped_reach(self, ranges: Ranges, otherwise: float) -> FloatArray:
        reach = self.reach(ranges)
        reached = ranges.per_subgame(reach)[ranges.subgame] > 0
        return np.where(reached, np.maximum(ranges.share(reach), self.clip), otherwise)


@dataclasses.dataclass(frozen=True)
class ContinuationPrior:
    """The opponent's reach in the optimal continuation, as `BlueprintPrior` takes the blueprint's.

    Attributes:
      continuation: which, such as `ContinuationValues(100)` or `ContinuationValues(FolderRanges(folder))`:
        as an alternative of the same gadget it is solved once.
      clip: least reach of a root infostate.
    """

    continuation: ContinuationValues
    clip: float = PRIOR_CLIP
    name: ClassVar[str] = "continuation"

    def __post_init__(self) -> None:
        BlueprintPrior(self.clip)
        given: Any = self.continuation
        if not isinstance(given, ContinuationValues):
            raise ValueError(
                f"continuation={given!r}: expected ContinuationValues, such as ContinuationValues(100)"
            )

    def follow(self, ranges: Ranges) -> FloatArray:
        """See `Prior`."""
        raise ValueError(f"{self!r} has no numbers: only refine and sweep solve the continuation first")

    weight = choose = follow


@dataclasses.dataclass(frozen=True, eq=False)
class RangePrior:
    """Where a model of the opponent really leads: in proportion to `P_model(s)·N(s)`, not clipped.

    Max-margin with it and ε = α is safe exploitation search, SES(α): the opponent adapts below the cut, and
    what is known of it counts as a range alone. Where the model never comes there is nothing to perturb
    towards, and no floor. Source: Liu et al. (2022), as in Milec, Kubíček and Lisý (2024), appendix H.

    Attributes:
      model: a policy of one lane, or what else `as_policy` takes; None for the opponent's blueprint.

    Raises:
      ValueError: if the model is no policy.
    """

    model: Any = None

    def __post_init__(self) -> None:
        given = self.model
        several = isinstance(given, Sequence) and not isinstance(given, str)
        kinds = ("probabilities", "action_probabilities")
        is_policy = several or isinstance(given, Mapping) or any(hasattr(given, kind) for kind in kinds)
        if given is not None and (isinstance(given, type) or not is_policy):
            hint = f", such as make_blueprints(tree, {given!r})" if isinstance(given, str) else ""
            raise ValueError(f"RangePrior(model={given!r}): expected a policy of one lane{hint}, or None")

    @property
    def name(self) -> str:
        """What tables and labels call it."""
        return "range" if self.model is None else f"range of {getattr(self.model, 'labels', ('a model',))[0]}"

    def follow(self, ranges: Ranges) -> FloatArray:
        """See `Prior`: the share of a root in its subgame."""
        return ranges.share(self.weight(ranges))

    def weight(self, ranges: Ranges) -> FloatArray:
        """See `Prior`."""
        return self.reach(ranges) * ranges.mass

    def choose(self, ranges: Ranges) -> FloatArray:
        """See `Prior`: the strategy itself."""
        self._check()
        return ranges.above.strategy

    def reach(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` how likely the opponent itself gets to its roots."""
        self._check()
        return ranges.opponent

    def _check(self) -> None:
        if self.model is not None:
            raise ValueError(
                "RangePrior(model=…) has no numbers: only refine and sweep look up the model's range first; "
                "expected RangePrior(), the range of the opponent's blueprint"
            )


@dataclasses.dataclass(frozen=True, eq=False)
class ArrayPrior:
    """A user's own prior.

    Attributes:
      values: `[R]` or `[R, L]`, one number for each of the opponent's root infostates in the
        order of `Forest.root_names`: the probability of following for `Resolving`, a weight ≥ 0 for
        `MaxMargin` (normalised over the roots with `N(s) > 0` of a subgame). For `Full` and
        `OptimalContinuation` `[Q]` or `[Q, L]`, a weight ≥ 0 for each of the opponent's actions
        above the cut, in the order of `Trunk.form.action_sequences`.
      name: what tables and labels call it.
      player: who re-solves with it, 0 or 1, if known; then nobody else can.
    """

    values: npt.NDArray[np.floating]
    name: str = "array"
    player: int | None = dataclasses.field(default=None, metadata={"shown": False})

    def __post_init__(self) -> None:
        values = np.asarray(self.values)
        if values.ndim not in (1, 2) or not np.isfinite(values).all() or (values < 0).any():
            raise ValueError(
                f"ArrayPrior values of shape {values.shape}: expected [roots] or [roots, lanes] of finite "
                "numbers >= 0"
            )
        if self.player is not None:
            check_player(self.player)

    @staticmethod
    def from_function(
        forest: Forest, player: int, weight: Callable[[str], float], *, name: str = "array"
    ) -> ArrayPrior:
        """A prior from a function of the names of the opponent's root infostates.

        Args:
          forest: the subgames, from `build_forest(tree, cut)` with the cut that is refined below.
          player: who re-solves, 0 or 1; its opponent's roots are asked for.
          weight: called with each of `forest.root_names(1 - player)`; the number that `values` has there: for
            `Resolving` the probability of following, for `MaxMargin` a weight.
          name: what tables and labels call it.

        Raises:
          ValueError: if `player` is not 0 or 1, or a weight is not a finite number >= 0.
        """
        player = check_player(player)
        weights: list[float] = []
        for root in forest.root_names(1 - player):
            number: Any = weight(root)
            if not is_finite_number(number) or number < 0:
                raise ValueError(
                    f"weight of root infostate {root!r} is {number!r}; expected a finite number >= 0"
                )
            weights.append(float(number))
        return ArrayPrior(np.array(weights), name, player)

    def weight(self, ranges: Ranges) -> FloatArray:
        """See `Prior`."""
        return on_roots(np.asarray(self.values), ranges)

    def follow(self, ranges: Ranges) -> FloatArray:
        """See `Prior`; ValueError if a number is above 1."""
        if np.asarray(self.values).max(initial=0.0) > 1:
            raise ValueError(
                f"ArrayPrior values up to {np.asarray(self.values).max()}: as probabilities of following "
                "they must lie in [0, 1]"
            )
        return self.weight(ranges)

    def choose(self, ranges: Ranges) -> FloatArray:
        """See `Prior`; ValueError if there is not a number for each action."""
        values, shape = np.asarray(self.values, np.float64), ranges.above.strategy.shape
        values = values[:, None] if values.ndim == 1 else values
        if values.shape[0] != shape[0] or values.shape[1] not in (1, shape[1]):
            raise ValueError(
                f"ArrayPrior values of shape {np.shape(self.values)}: expected [{shape[0]}] or "
                f"[{shape[0]}, {shape[1]}], a row for each of the opponent's actions above the cut"
            )
        return np.broadcast_to(values, shape)
