"""Results of responses to opponents."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxgadget.core.memory import Plan
from jaxgadget.core.results import LaneResult, convergence
from jaxgadget.opponents.gains import mixture_bound
from jaxgadget.opponents.opponent import Opponents
from jaxgadget.policy.policy import Policy
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.players import Bracket
from jaxgadget.util.viewers import Explorable

RESTRICTED_NASH = "restricted-nash"
BEST_NASH = "best-nash"
DATA_BIASED = "data-biased"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Responses(LaneResult, Explorable):
    """A player's responses to opponents in a whole game, one lane each: M lanes, values in its utility.

    For the value v of the game, a response x and the model σ_F, the *gain* is u(x, σ_F) − v, and the
    *exploitability* v − guaranteed value. For p = 1 the exploitability is that of one of many best responses,
    not a property of the method.

    Attributes:
      player: the responding player.
      method: `restricted-nash`, `best-nash` or `data-biased`.
      opponents: the opponents; their p for a best Nash strategy is the one chosen by CFR, or 0 for `lp`.
      policy: every opponent's model, with the player's rows replaced by its response.
      value_against_model: `[M]` u(x, σ_F).
      guaranteed_value: `[M]` value of the response against a best response.
      best_response_value: `[M]` value of a best response to the model.
      objective: `[M]` the maximised value: p·u(x, σ_F) + (1−p)·guaranteed value; for a data-biased response
        its guaranteed value against opponents within the floors.
      gap: `[M]` NashConv of the solved game, which bounds the difference of the objective from its maximum.
        For a best Nash strategy by linear programs, the value of the game minus the guaranteed value.
      game_value: bracket of player 0's value of the game.
      algorithm: the rule's name, or `lp`.
      iterations: `[M]` number of completed iterations; of the simplex method for `lp`.
      target_gap: the requested gap, if any.
      seconds: `build` and `run`.
      plan: the division of lanes into chunks; None for `lp`.
      failures: reasons of lanes that were not solved; their numbers are NaN, and their policy is the model's.
    """

    player: int
    method: str
    opponents: Opponents
    policy: Policy
    value_against_model: FloatArray
    guaranteed_value: FloatArray
    best_response_value: FloatArray
    objective: FloatArray
    gap: FloatArray
    game_value: tuple[float, float]
    algorithm: str
    iterations: npt.NDArray[np.int64]
    target_gap: float | None
    seconds: dict[str, float]
    plan: Plan | None
    failures: Mapping[int, str]

    def __repr__(self) -> str:
        return f"<Responses of player {self.player} in {self.policy.tree.game.name}: {self.message}>"

    @property
    def value(self) -> float:
        """The player's value of the game, the midpoint of its bracket."""
        return Bracket(*self.game_value).for_player(self.player).middle

    @property
    def gain(self) -> FloatArray:
        """`[M]` u(x, σ_F) − v; NaN for an opponent without a model."""
        return self._with_model(self.value_against_model - self.value)

    @property
    def best_response_gain(self) -> FloatArray:
        """`[M]` gain of a best response to the model; NaN for an opponent without a model."""
        return self._with_model(self.best_response_value - self.value)

    @property
    def exploitability(self) -> FloatArray:
        """`[M]` v − guaranteed value."""
        return self.value - self.guaranteed_value

    @property
    def exploitability_bound(self) -> FloatArray:
        """`[M]` `mixture_bound`: (p·gain + gap) / (1−p); NaN for p = 1 and for data-biased responses."""
        bound = mixture_bound(self.gain, self.opponents.p, self.gap, self.game_value)
        return np.where(self.method != DATA_BIASED, bound, np.nan)

    @property
    def message(self) -> str:
        """Convergence of the solves and the remedy, in a sentence."""
        responses = f"{len(self.gap)} response{'s' if len(self.gap) != 1 else ''}"
        if self.failures:
            responses += f", {len(self.failures)} failed"
        if len(self.failures) == len(self.gap):
            return responses
        small = 1e-3 * self.policy.tree.payoff_range
        most_iterations = int(self.iterations.max())
        solved = convergence(
            self.gap, most_iterations, self.algorithm, small=small, target_gap=self.target_gap
        )
        return f"{responses}, {solved}"

    @property
    def lane_columns(self) -> dict[str, Any]:
        """Player, model, method, p and algorithm."""
        return {
            "player": self.player,
            "model": self.opponents.labels,
            "method": self.method,
            "p": self.opponents.p,
            "algorithm": self.algorithm,
        }

    @property
    def number_columns(self) -> dict[str, Any]:
        """Gain, exploitability and its bound, objective, the best response's gain, gap and iterations."""
        return {
            "gain": self.gain,
            "exploitability": self.exploitability,
            "exploitability_bound": self.exploitability_bound,
            "objective": self.objective,
            "best_response_gain": self.best_response_gain,
            "gap": self.gap,
            "iterations": self.iterations,
        }

    def _with_model(self, values: FloatArray) -> FloatArray:
        return np.where(self.opponents.have_models, values, np.nan)
