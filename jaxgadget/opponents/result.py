"""What responses to opponents are worth."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pandas as pd

from jaxgadget.opponents.gains import mixture_bound
from jaxgadget.opponents.opponent import Opponents
from jaxgadget.policy.policy import Policy
from jaxgadget.solving.memory import Plan
from jaxgadget.solving.options import LP
from jaxgadget.util.arrays import FloatArray

RESTRICTED_NASH = "restricted-nash"
BEST_NASH = "best-nash"
DATA_BIASED = "data-biased"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Responses:
    """A player's responses to opponents in a whole game, a lane each. M lanes, values in its utility.

    With v the value of the game, a response x and the model σ_F: its *gain* is u(x, σ_F) − v, and its
    *exploitability* v − guaranteed value. Where p = 1 the exploitability is that of one best response out of
    many, and no property of the method.

    Attributes:
      player: who responds.
      method: `restricted-nash`, `best-nash` or `data-biased`.
      opponents: to whom; of a best Nash strategy by CFR with the p that was chosen, by linear programs 0.
      policy: every opponent's model, with the player's rows replaced by its response.
      value_against_model: `[M]` u(x, σ_F).
      guaranteed_value: `[M]` what the response gets at least, against anybody.
      best_response_value: `[M]` the most that the player can get against the model.
      objective: `[M]` what was maximised: p·u(x, σ_F) + (1−p)·guaranteed value; of a data-biased response
        what it gets at least against opponents who keep to the floors.
      gap: `[M]` NashConv of the game that was solved: by how much less than the largest the objective may
        be. Of a best Nash strategy by linear programs, how much less than the value it guarantees.
      game_value: bracket of player 0's value of the game.
      algorithm: the rule's name, or `lp`.
      iterations: `[M]` done; of the simplex method for `lp`.
      target_gap: what was aimed at, if anything.
      seconds: `build` and `run`.
      plan: how the lanes were split; None for `lp`.
      failures: lanes that were not solved, and why; their numbers are NaN, and their policy the model's.
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
    failures: dict[int, str]

    def __repr__(self) -> str:
        return f"<Responses of player {self.player} in {self.policy.tree.game.name}: {self.message}>"

    @property
    def value(self) -> float:
        """The player's value of the game, the middle of its bracket."""
        return sum(self.game_value) / 2 * (1 if self.player == 0 else -1)

    @property
    def gain(self) -> FloatArray:
        """`[M]` u(x, σ_F) − v; NaN for an opponent without a model."""
        return self._with_model(self.value_against_model - self.value)

    @property
    def best_response_gain(self) -> FloatArray:
        """`[M]` the gain of a best response to the model; NaN likewise."""
        return self._with_model(self.best_response_value - self.value)

    @property
    def exploitability(self) -> FloatArray:
        """`[M]` v − guaranteed value."""
        return self.value - self.guaranteed_value

    @property
    def exploitability_bound(self) -> FloatArray:
        """`[M]` (p·gain + gap) / (1−p); NaN where there is none: p = 1, and data-biased responses.

        See `mixture_bound`.
        """
        bound = mixture_bound(self.gain, self.opponents.p, self.gap, self.game_value)
        return np.where(self.method != DATA_BIASED, bound, np.nan)

    @property
    def message(self) -> str:
        """How far the solves got, and what to do about it, in a sentence."""
        solved = np.delete(self.gap, list(self.failures))
        many = f"{len(self.gap)} response{'s' if len(self.gap) != 1 else ''}"
        failed = f", {len(self.failures)} failed" if self.failures else ""
        if len(solved) == 0:
            return f"{many}{failed}"
        worst = float(solved.max())
        is_small = worst <= 1e-3 * self.policy.tree.payoff_range
        advice = "" if is_small or self.algorithm == LP else "; increase iterations to lower it"
        if self.target_gap is not None and worst > self.target_gap:
            advice = f"; the target of {self.target_gap:g} was not reached, increase iterations"
        iterations = "simplex iterations" if self.algorithm == LP else f"iterations of {self.algorithm}"
        return (
            f"{many}{failed}, largest gap {worst:.3g} after at most "
            f"{int(self.iterations.max())} {iterations}{advice}"
        )

    @property
    def table(self) -> pd.DataFrame:
        """A row for every opponent; what is not defined is NaN."""
        return pd.DataFrame(
            {
                "player": self.player,
                "model": pd.Series(self.opponents.labels, dtype=object),  # None stays None
                "method": self.method,
                "p": self.opponents.p,
                "algorithm": self.algorithm,
                "gain": self.gain,
                "exploitability": self.exploitability,
                "exploitability_bound": self.exploitability_bound,
                "objective": self.objective,
                "best_response_gain": self.best_response_gain,
                "gap": self.gap,
                "iterations": self.iterations,
                "failure": [self.failures.get(lane) for lane in range(len(self.gap))],
            }
        )

    def _with_model(self, values: FloatArray) -> FloatArray:
        return np.where(self.opponents.have_models, values, np.nan)
