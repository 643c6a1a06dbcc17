"""Opponents: their definitions, and the arrays that they resolve to.

An opponent is drawn at the root of the game: with probability p it plays a fixed strategy, its *model*, to
the end, and otherwise it is free; the player cannot distinguish the two (Johanson, Zinkevich and Bowling
2007). The game has the same structure for all p: the model's share of play is a constant of the player's
sequences, and the free opponent's share is a scale.

`Opponents` contains these numbers, which are all that solvers, bounds, sweeps and reports read. Every class
with the members of `OpponentLike` is an opponent: `resolve` returns its numbers in a tree. `Opponent` is a
model with a probability. Any fixed share of play has this form: for all draws before or during the game a
policy with the same reach exists under perfect recall (Kuhn 1953); for draws at the root it is the plan
mixture of `jaxgadget.mix`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from jaxgadget.gadgets.models import Mixtures, find_mixtures, form_mixtures
from jaxgadget.policy.blueprints import make_blueprints, parse_blueprint
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.public import Tree
from jaxgadget.tree.sequence import SequenceForm
from jaxgadget.util.arguments import is_finite_number
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

Beyond = Literal["rational", "model"]
BEYOND: tuple[Beyond, ...] = ("rational", "model")

MEANING = "the probability that the model is followed"
"""Meaning of p, for errors."""


@runtime_checkable
class OpponentLike(Protocol):
    """One opponent or several, independent of a tree.

    In a sweep it must be a dataclass, whose fields identify it when the sweep is resumed.
    """

    @property
    def specs(self) -> tuple[str, ...]:
        """SPECs of the models, whose files a sweep checks for changes; empty without SPECs."""
        ...

    def resolve(self, tree: Tree) -> Opponents:
        """The numbers in a tree; raises ValueError for a model of another game."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class Opponent:
    """An opponent that follows a model with probability p, and plays freely otherwise.

    Attributes:
      model: its assumed strategies, one lane each: a `Policy`, or anything that `as_policy` accepts. The
        responding player's own rows have no effect. None for an opponent that only adapts.
      p: probability that the model is followed, in [0, 1], or several, which are crossed with all models.
        With 0 the opponent adapts; with 1 it is locked to the model.
      beyond: play of the model's share below the limit of a depth-limited search: `rational`, a best
        response, or `model`, the model. No effect without a depth limit.

    Raises:
      ValueError: if p is empty or not in [0, 1], or positive without a model, or a SPEC is unknown.
    """

    model: PolicyLike | Sequence[PolicyLike] | None = None
    p: float | Sequence[float] = 0.0
    beyond: Beyond = dataclasses.field(default="rational", metadata={"later": True})

    def __post_init__(self) -> None:
        numbers = check_probabilities(self.p, MEANING)
        if self.model is None and any(p > 0 for p in numbers):
            raise ValueError(f"Opponent(p={self.p!r}) without a model: expected model=…, or p=0")
        if self.beyond not in BEYOND:
            raise ValueError(f"beyond={self.beyond!r}: expected {' or '.join(map(repr, BEYOND))}")
        for spec in self.specs:
            parse_blueprint(spec, "model")

    @property
    def specs(self) -> tuple[str, ...]:
        """The models that are SPECs."""
        return tuple(model for model in self._listed if isinstance(model, str))

    def resolve(self, tree: Tree) -> Opponents:
        """Models crossed with p, one lane each."""
        if self.model is None:
            return Opponents.of(Policy.uniform(tree), self.p, labels=[None])
        if len(self.specs) == len(self._listed):  # made together, checkpoints of one algorithm share a run
            models = make_blueprints(tree, self.specs, progress=False, argument="model")
        else:
            models = as_policy(self.model, tree, name="model")
        return Opponents.of(models, self.p, beyond=self.beyond)

    @property
    def _listed(self) -> list[Any]:
        """The models as a list."""
        model: Any = self.model
        return list(model) if isinstance(model, Sequence) and not isinstance(model, str) else [model]


@dataclasses.dataclass(frozen=True, eq=False)
class Opponents:
    """M opponents in a tree, as arrays; an `OpponentLike`.

    Attributes:
      models: the distinct models; uniform for opponents without a model.
      model: `[M]` lane in `models` of each opponent.
      p: `[M]` probability that the model is followed.
      labels: label of each opponent's model; None without a model.
      beyond: `Opponent.beyond` of each opponent.
    """

    models: Policy
    model: IntArray
    p: FloatArray
    labels: tuple[str | None, ...]
    beyond: tuple[Beyond, ...]

    @staticmethod
    def of(
        models: Policy,
        p: float | Sequence[float],
        *,
        beyond: Beyond = "rational",
        labels: Sequence[str | None] | None = None,
    ) -> Opponents:
        """Crosses models with p, in the order of the models; labels are by default those of the models."""
        every_p, count = check_probabilities(p, MEANING), models.num_lanes
        model, number = np.indices((count, len(every_p))).reshape(2, -1)
        named = models.labels if labels is None else labels
        return Opponents(
            models=models,
            model=model,
            p=np.array(every_p, np.float64)[number],
            labels=tuple(named[lane] for lane in model.tolist()),
            beyond=(beyond,) * len(model),
        )

    @staticmethod
    def join(parts: Sequence[Opponents]) -> Opponents:
        """Concatenates opponents; models that are the same policy are stored once."""
        policies = list(dict.fromkeys(part.models for part in parts))
        first = dict(zip(policies, np.cumsum([0, *(policy.num_lanes for policy in policies)]), strict=False))
        return Opponents(
            models=Policy.stack(policies),
            model=np.concatenate([first[part.models] + part.model for part in parts]),
            p=np.concatenate([part.p for part in parts]),
            labels=tuple(label for part in parts for label in part.labels),
            beyond=tuple(beyond for part in parts for beyond in part.beyond),
        )

    @staticmethod
    def from_record(record: Mapping[str, Any], models: Policy) -> Opponents:
        """Restores opponents from their `record` and models; raises ValueError if the record is damaged."""
        try:
            model, p = np.asarray(record["model"], np.int64), np.asarray(record["p"], np.float64)
            labels, beyond = tuple(record["labels"]), tuple(record["beyond"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"opponents={record!r}: expected their models, p, labels and beyond") from error
        fits = len(model) == len(p) == len(labels) == len(beyond) and models.num_lanes == model.max() + 1
        if not fits or not ((p >= 0) & (p <= 1)).all():
            raise ValueError(f"opponents={record!r}: expected a record for {models!r}")
        return Opponents(models=models, model=model, p=p, labels=labels, beyond=beyond)

    def __len__(self) -> int:
        return len(self.p)

    @property
    def specs(self) -> tuple[str, ...]:
        """No SPECs: the models are policies."""
        return ()

    def resolve(self, tree: Tree) -> Opponents:
        """The same opponents in another tree of the same game."""
        return dataclasses.replace(self, models=self.models.on(tree))

    @property
    def record(self) -> dict[str, Any]:
        """JSON value with everything except the models."""
        return {
            "model": self.model.tolist(),
            "p": self.p.tolist(),
            "labels": list(self.labels),
            "beyond": list(self.beyond),
        }

    @property
    def adapt(self) -> bool:
        """True if none of them follows a model."""
        return not self.p.any()

    def over(self, forest: Forest, player: int) -> Mixtures:
        """The shares of play in a forest; at its extra roots models cease to apply.

        Args:
          forest: subgames, or lookaheads.
          player: the resolving player.
        """
        return find_mixtures(forest, player, self.p, self.model, self.models.reach(1 - player))

    def in_form(self, form: SequenceForm, player: int) -> Mixtures:
        """The shares of play in a game from its root: the whole one, or a trunk above a limit.

        Args:
          form: the game.
          player: the responding player.
        """
        return form_mixtures(form, player, self.p, self.model, self.models.reach(1 - player))

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


def check_opponents(
    opponents: OpponentLike | Sequence[OpponentLike], *, name: str = "opponents"
) -> list[OpponentLike]:
    """Returns one opponent or several as a list; raises ValueError for an empty list or other objects."""
    given: Any = opponents
    listed: list[Any] = list(given) if isinstance(given, Sequence) else [given]
    if not listed or not all(isinstance(opponent, OpponentLike) for opponent in listed):
        raise ValueError(
            f"{name}={opponents!r}: expected Opponent(model, p=…), or a list of them; a policy alone has no "
            "probability p"
        )
    return listed


def list_opponents(
    opponents: OpponentLike | Sequence[OpponentLike], tree: Tree, *, name: str = "opponents"
) -> Opponents:
    """Resolves and concatenates opponents.

    Args:
      opponents: one opponent, or a list.
      tree: tree of the result.
      name: name of the argument, for errors.

    Raises:
      ValueError: if the list is empty or contains another object, or a model is of another game.
    """
    return Opponents.join([opponent.resolve(tree) for opponent in check_opponents(opponents, name=name)])


def show_probability(p: float) -> str:
    """A probability with the fewest digits that identify it."""
    return repr(float(p)).removesuffix(".0")


def check_probabilities(p: float | Sequence[float], meaning: str) -> list[float]:
    """One number or several as a list; raises ValueError if it is empty or has a number outside of [0, 1]."""
    numbers = _numbers(p)
    if not numbers or not all(is_finite_number(number) and 0 <= number <= 1 for number in numbers):
        raise ValueError(f"p={p!r}: expected a number in [0, 1], {meaning}, or a list of numbers")
    return numbers


def _numbers(p: float | Sequence[float]) -> list[float]:
    """One number, or several, as an unchecked list."""
    values: Any = p
    is_several = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
    numbers: list[Any] = list(np.atleast_1d(np.asarray(values, object))) if is_several else [values]
    return numbers
