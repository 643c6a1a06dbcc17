"""Models of an opponent: one that adapts, one that is locked to a model, or a mixture of both.

The mixture is drawn once, at the root of the game: with probability p the opponent is the model to the end,
else it is free, and the player cannot distinguish the two (Johanson, Zinkevich and Bowling 2007). So p
needs no game of another kind: the model's share of play is a constant of the player's sequences, and the
free opponent's share is a scale.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.tree.public import Tree
from jaxgadget.util.arguments import is_finite_number
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

Beyond = Literal["rational", "model"]
BEYOND: tuple[Beyond, ...] = ("rational", "model")


@dataclasses.dataclass(frozen=True, eq=False)
class Opponent:
    """An opponent that follows a model with probability p, and plays freely otherwise.

    Attributes:
      model: its assumed strategies, a lane each: a `Policy`, or anything that `as_policy` takes. The
        responding player's own rows have no effect. None for an opponent that only adapts.
      p: the probability that the model is followed, in [0, 1], or several, which are crossed with all
        models. 0: the opponent adapts; 1: it is locked to the model.
      beyond: play of the model's share below the limit of a depth-limited search: `rational`, a best
        response, or `model`, the model. No effect without a depth limit.

    Raises:
      ValueError: if a number is not in [0, 1], there is none, or p > 0 without a model.
    """

    model: PolicyLike | Sequence[PolicyLike] | None = None
    p: float | Sequence[float] = 0.0
    beyond: Beyond = "rational"

    def __post_init__(self) -> None:
        numbers = check_probabilities(self.p, "the probability that the model is followed")
        if self.model is None and any(p > 0 for p in numbers):
            raise ValueError(f"Opponent(p={self.p!r}) without a model: expected model=…, or p=0")
        if self.beyond not in BEYOND:
            raise ValueError(f"beyond={self.beyond!r}: expected {' or '.join(map(repr, BEYOND))}")


@dataclasses.dataclass(frozen=True, eq=False)
class Opponents:
    """Opponents as M lanes: models crossed with p, one `Opponent` after the other.

    Attributes:
      models: the models, each once; uniform where there is none.
      model: `[M]` the lane in `models` of every opponent.
      p: `[M]`.
      labels: of every opponent's model; None where there is none.
      beyond: of each.
    """

    models: Policy
    model: IntArray
    p: FloatArray
    labels: tuple[str | None, ...]
    beyond: tuple[Beyond, ...]

    def __len__(self) -> int:
        return len(self.p)

    @property
    def adapt(self) -> bool:
        """True if none of them follows a model."""
        return not self.p.any()

    def describe(self, opponent_idx: int) -> str:
        """Description of an opponent for labels and messages; empty if it only adapts."""
        label = self.labels[opponent_idx]
        if label is None:
            return ""
        beyond = ", followed beyond the limit, too" if self.beyond[opponent_idx] == "model" else ""
        return f"against {label} with p = {show_probability(self.p[opponent_idx])}{beyond}"

    @property
    def descriptions(self) -> list[str]:
        """Descriptions of all opponents; see `describe`."""
        return [self.describe(opponent_idx) for opponent_idx in range(len(self))]

    @property
    def have_models(self) -> BoolArray:
        """`[M]` True for opponents with a model."""
        return np.array([label is not None for label in self.labels], np.bool_)

    @property
    def policy(self) -> Policy:
        """Every opponent's model, M lanes."""
        return self.models.take_lanes(self.model)


def list_opponents(
    opponents: Opponent | Opponents | Sequence[Opponent], tree: Tree, *, name: str = "opponents"
) -> Opponents:
    """Opponents as lanes: for each of them models, and for each model every p.

    Args:
      opponents: one or several.
      tree: for which tree.
      name: the argument's, for messages.

    Raises:
      ValueError: if there are none, something is no opponent, or a model is of another game.
    """
    if isinstance(opponents, Opponents):
        return dataclasses.replace(opponents, models=opponents.models.on(tree))
    listed: list[Any] = list(opponents) if isinstance(opponents, Sequence) else [opponents]
    if not listed or not all(isinstance(opponent, Opponent) for opponent in listed):
        raise ValueError(
            f"{name}={opponents!r}: expected Opponent(model, p=…), or a list of them; a policy alone does "
            "not say how likely it is followed"
        )
    # By what was given as a model: its policy, and the number of its first lane.
    first_lanes: dict[int, tuple[Policy, int]] = {}
    model_lane: list[int] = []
    probabilities: list[float] = []
    labels: list[str | None] = []
    beyond: list[Beyond] = []
    for opponent in listed:
        if id(opponent.model) not in first_lanes:
            model = (
                Policy.uniform(tree)
                if opponent.model is None
                else as_policy(opponent.model, tree, name="model")
            )
            first_lanes[id(opponent.model)] = (
                model,
                sum(policy.num_lanes for policy, _ in first_lanes.values()),
            )
        (model, first), every_p = first_lanes[id(opponent.model)], _numbers(opponent.p)
        for lane in range(model.num_lanes):
            model_lane += [first + lane] * len(every_p)
            probabilities += every_p
            labels += [None if opponent.model is None else model.labels[lane]] * len(every_p)
            beyond += [opponent.beyond] * len(every_p)
    return Opponents(
        models=Policy.stack([policy for policy, _ in first_lanes.values()]),
        model=np.array(model_lane, np.int64),
        p=np.array(probabilities, np.float64),
        labels=tuple(labels),
        beyond=tuple(beyond),
    )


def show_probability(p: float) -> str:
    """A probability with the fewest digits that identify it."""
    return repr(float(p)).removesuffix(".0")


def check_probabilities(p: float | Sequence[float], meaning: str) -> list[float]:
    """One number or several as a list; ValueError unless there are some, all in [0, 1]."""
    numbers = _numbers(p)
    if not numbers or not all(is_finite_number(number) and 0 <= number <= 1 for number in numbers):
        raise ValueError(f"p={p!r}: expected a number in [0, 1], {meaning}, or a list of such")
    return numbers


def _numbers(p: float | Sequence[float]) -> list[float]:
    """One number, or several, as an unchecked list."""
    values: Any = p
    is_several = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
    numbers: list[Any] = list(np.atleast_1d(np.asarray(values, object))) if is_several else [values]
    return numbers
