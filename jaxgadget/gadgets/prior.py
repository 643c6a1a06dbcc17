"""Priors: distributions of the opponent's mistakes in a gadget.

Source: Kubíček, Lisý and Sandholm (2026), §5.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from jaxgadget.gadgets.alternative import ContinuationValues, Probabilities, on_roots
from jaxgadget.gadgets.capabilities import Capability
from jaxgadget.gadgets.context import Context, Immediate, ModelReach
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.tree.forest import Forest
from jaxgadget.util.arguments import check_player, is_finite_number
from jaxgadget.util.arrays import FloatArray

PRIOR_CLIP = 1e-3
"""Least reach of a root infostate in the blueprint prior (Kubíček et al. 2026, §5)."""


@runtime_checkable
class ActionProbabilities(Protocol):
    """An OpenSpiel policy."""

    def action_probabilities(self, state: Any) -> Any:
        """Maps action ids to probabilities."""
        ...


class PriorRefusedError(ValueError):
    """A prior was passed to a gadget in which the opponent has no decision."""


@runtime_checkable
class Prior(Protocol):
    """Source of the probabilities of the opponent's mistakes at a gadget."""

    @property
    def name(self) -> str:
        """Name in tables."""
        ...

    @property
    def requires(self) -> frozenset[Capability]:
        """Capabilities of the front end that this prior requires."""
        ...

    def resolve(self, context: Context) -> Mistakes:
        """Computes what the prior needs beyond ranges, before the gadget is solved."""
        ...


@runtime_checkable
class Mistakes(Prior, Protocol):
    """A prior that can be computed from the ranges alone; `Immediate` is a base for user-defined priors."""

    def follow(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` probability of following rather than terminating at each root."""
        ...

    def weight(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` weights ≥ 0 of the roots of a subgame in the choice among them."""
        ...

    def choose(self, ranges: Ranges) -> FloatArray:
        """`[Q, L]` weights ≥ 0 of the opponent's actions above the cut, for entries that copy the trunk."""
        ...


class _Even(Immediate):
    """Equal probability for all actions of a gadget infoset."""

    def follow(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` probability of following rather than terminating at each root."""
        return np.full_like(ranges.cbv, 0.5)

    def weight(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` weights ≥ 0 of the roots of a subgame in the choice among them."""
        return np.ones_like(ranges.cbv)

    def choose(self, ranges: Ranges) -> FloatArray:
        """`[Q, L]` weights ≥ 0 of the opponent's actions above the cut, for entries that copy the trunk."""
        return np.ones_like(ranges.above.strategy)


@dataclasses.dataclass(frozen=True)
class NoPrior(_Even):
    """No mistakes: ε is regarded as 0."""

    @property
    def name(self) -> str:
        """Name in tables."""
        return "none"


@dataclasses.dataclass(frozen=True)
class UniformPrior(_Even):
    """Equal probability for all actions of a gadget infoset."""

    @property
    def name(self) -> str:
        """Name in tables."""
        return "uniform"


@dataclasses.dataclass(frozen=True)
class BlueprintPrior(Immediate):
    """The opponent's blueprint: its reach of each root, normalised within the subgame and clipped from below.

    Uniform in subgames that the opponent's blueprint never reaches (Kubíček et al. 2026, §5).

    Attributes:
      clip: least reach of a root infostate.
    """

    clip: float = PRIOR_CLIP

    @property
    def name(self) -> str:
        """Name in tables."""
        return "blueprint"

    def __post_init__(self) -> None:
        if not 0 < self.clip <= 1:
            raise ValueError(f"clip={self.clip!r}: expected a number in (0, 1], such as {PRIOR_CLIP}")

    def follow(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` probability of following rather than terminating at each root."""
        return self._clipped_reach(ranges, otherwise=0.5)

    def weight(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` weights ≥ 0 of the roots of a subgame in the choice among them."""
        return self._clipped_reach(ranges, otherwise=1.0)

    def choose(self, ranges: Ranges) -> FloatArray:
        """`[Q, L]` weights ≥ 0 of the opponent's actions above the cut, for entries that copy the trunk."""
        return np.maximum(ranges.above.strategy, self.clip)

    def reach(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` the opponent's own reach of its roots."""
        return ranges.opponent

    def _clipped_reach(self, ranges: Ranges, otherwise: float) -> FloatArray:
        reach = self.reach(ranges)
        reached = ranges.per_subgame(reach)[ranges.subgame] > 0
        return np.where(reached, np.maximum(ranges.share(reach), self.clip), otherwise)


@dataclasses.dataclass(frozen=True)
class ContinuationPrior:
    """Counterpart of `BlueprintPrior` with the opponent's reach in the optimal continuation.

    Attributes:
      continuation: the continuation, such as `ContinuationValues(100)` or
        `ContinuationValues(FolderRanges(folder))`; it is solved only once if it equals the gadget's
        alternative values.
      clip: least reach of a root infostate.
    """

    continuation: ContinuationValues
    clip: float = PRIOR_CLIP

    @property
    def name(self) -> str:
        """Name in tables."""
        return "continuation"

    def __post_init__(self) -> None:
        BlueprintPrior(self.clip)
        source: Any = self.continuation
        if not isinstance(source, ContinuationValues):
            raise ValueError(
                f"continuation={source!r}: expected ContinuationValues, such as ContinuationValues(100)"
            )

    @property
    def requires(self) -> frozenset[Capability]:
        """The optimal continuation, or range values at the cut."""
        return self.continuation.requires

    def resolve(self, context: Context) -> PrecomputedReach:
        """Solves the continuation; returns the opponent's reach in it."""
        continuation = context.continuation(self.continuation)
        return PrecomputedReach(self.clip, continuation.reach, continuation.failures)


@dataclasses.dataclass(frozen=True, eq=False)
class PrecomputedReach(BlueprintPrior):
    """Counterpart of `BlueprintPrior` with a precomputed reach of the opponent's roots; B blueprints.

    Attributes:
      array: `[R, B]` the opponent's own reach of its roots.
      failures: blueprints without a reach, with the reason.
    """

    array: FloatArray = dataclasses.field(default_factory=lambda: np.zeros((0, 1)))
    failures: Mapping[int, str] = dataclasses.field(default_factory=dict[int, str])

    def reach(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` the precomputed reach."""
        return on_roots(self.array, ranges)

    def choose(self, ranges: Ranges) -> FloatArray:
        """Raises ValueError: only the reach of the roots is known."""
        raise ValueError(
            "ContinuationPrior cannot be combined with a gadget that copies the trunk; expected a gadget "
            "with a prior over roots, such as Resolving or MaxMargin"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class RangePrior(Immediate):
    """A model's range: probabilities proportional to `P_model(s)·N(s)`, not clipped.

    Max-margin with this prior and ε = α is safe exploitation search, SES(α): the opponent adapts below the
    cut, and only the model's range is used. Roots that the model does not reach have no floor. Source: Liu et
    al. (2022), as in Milec, Kubíček and Lisý (2024), appendix H.

    Attributes:
      model: a policy with one lane, or anything that `as_policy` accepts; None for the opponent's blueprint.

    Raises:
      ValueError: if the model is not a policy.
    """

    model: Any = None

    def __post_init__(self) -> None:
        source = self.model
        several = isinstance(source, Sequence) and not isinstance(source, str)
        is_policy = several or isinstance(source, Mapping | Probabilities | ActionProbabilities)
        if source is not None and (isinstance(source, type) or not is_policy):
            hint = f", such as make_blueprints(tree, {source!r})" if isinstance(source, str) else ""
            raise ValueError(f"RangePrior(model={source!r}): expected a policy with one lane{hint}, or None")

    @property
    def name(self) -> str:
        """Name in tables and labels."""
        if self.model is None:
            return "range"
        return f"range of {self.model.labels[0] if isinstance(self.model, Probabilities) else 'a model'}"

    def follow(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` share of each root in its subgame, as the probability of following."""
        return ranges.share(self.weight(ranges))

    def weight(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` weights ≥ 0 of the roots of a subgame in the choice among them."""
        return self.reach(ranges) * ranges.mass

    def choose(self, ranges: Ranges) -> FloatArray:
        """`[Q, L]` the opponent's blueprint above the cut."""
        return ranges.above.strategy

    def reach(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` the opponent's own reach of its roots."""
        return ranges.opponent

    @property
    def requires(self) -> frozenset[Capability]:
        """The range of the opponent's blueprint, or of a model."""
        return frozenset({Capability.RANGE if self.model is None else Capability.MODEL_RANGE})

    def resolve(self, context: Context) -> RangePrior:
        """Computes the range of the model, if there is one."""
        return self if self.model is None else ModelRange(model_reach=context.model_reach(self.model))


@dataclasses.dataclass(frozen=True, eq=False)
class ModelRange(RangePrior):
    """The range of a model, computed before the gadget is solved.

    Attributes:
      model_reach: the model's reach.
    """

    model_reach: ModelReach = dataclasses.field(kw_only=True)

    @property
    def requires(self) -> frozenset[Capability]:
        """Required capabilities of the front end: none, as the range is known."""
        return frozenset()

    def reach(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` the model's reach of the opponent's roots."""
        return on_roots(self.model_reach.roots, ranges)

    def choose(self, ranges: Ranges) -> FloatArray:
        """`[Q, L]` the model's strategy above the cut."""
        assert self.model_reach.above is not None
        return np.broadcast_to(self.model_reach.above, ranges.above.strategy.shape)


@dataclasses.dataclass(frozen=True, eq=False)
class ArrayPrior(Immediate):
    """A user-defined prior.

    Attributes:
      values: `[R]` or `[R, L]`, one number for each of the opponent's root infostates in the
        order of `Forest.root_names`: the probability of following for `Resolving`, a weight ≥ 0 for
        `MaxMargin` (normalised over the roots with `N(s) > 0` of a subgame). For `Full` and
        `OptimalContinuation` `[Q]` or `[Q, L]`, a weight ≥ 0 for each of the opponent's actions
        above the cut, in the order of `Trunk.form.action_sequences`.
      name: name in tables and labels.
      player: the only player that may re-solve with it, 0 or 1; None for either.
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

    @property
    def requires(self) -> frozenset[Capability]:
        """An array of probabilities with a row for each root infostate."""
        return frozenset({Capability.ROOT_PRIOR})

    @staticmethod
    def from_function(
        forest: Forest, player: int, weight: Callable[[str], float], *, name: str = "array"
    ) -> ArrayPrior:
        """Creates a prior from a function of the names of the opponent's root infostates.

        Args:
          forest: the subgames, from `build_forest(tree, cut)` with the same cut as for `refine`.
          player: the resolving player, 0 or 1.
          weight: function of each name in `forest.root_names(1 - player)` that returns its number in
            `values`: for `Resolving` the probability of following, for `MaxMargin` a weight.
          name: name in tables and labels.

        Raises:
          ValueError: if `player` is not 0 or 1, or a weight is not a finite number >= 0.
        """
        player = check_player(player)
        weights: list[float] = []
        for root in forest.root_names(1 - player):
            value: Any = weight(root)
            if not is_finite_number(value) or value < 0:
                raise ValueError(
                    f"weight of root infostate {root!r} is {value!r}; expected a finite number >= 0"
                )
            weights.append(float(value))
        return ArrayPrior(np.array(weights), name, player)

    def weight(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` weights ≥ 0 of the roots of a subgame in the choice among them."""
        return on_roots(np.asarray(self.values), ranges)

    def follow(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` probability of following at each root; raises ValueError if one is above 1."""
        if np.asarray(self.values).max(initial=0.0) > 1:
            raise ValueError(
                f"ArrayPrior values up to {np.asarray(self.values).max()}: expected probabilities of "
                "following, in [0, 1]"
            )
        return self.weight(ranges)

    def choose(self, ranges: Ranges) -> FloatArray:
        """`[Q, L]` weights of the opponent's actions above the cut; raises ValueError for another shape."""
        values, shape = np.asarray(self.values, np.float64), ranges.above.strategy.shape
        values = values[:, None] if values.ndim == 1 else values
        if values.shape[0] != shape[0] or values.shape[1] not in (1, shape[1]):
            raise ValueError(
                f"ArrayPrior values of shape {np.shape(self.values)}: expected [{shape[0]}] or "
                f"[{shape[0]}, {shape[1]}], a row for each of the opponent's actions above the cut"
            )
        return np.broadcast_to(values, shape)
