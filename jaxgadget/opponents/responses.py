"""Exact strategies against one known opponent: doors to `respond` and `best_nash` with linear programs."""

from __future__ import annotations

import dataclasses

from jaxgadget.opponents.opponent import Opponent
from jaxgadget.opponents.respond import best_nash, respond
from jaxgadget.opponents.result import Responses
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.solving.lp import ProgramError
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arguments import check_player, is_finite_number


@dataclasses.dataclass(frozen=True, eq=False)
class Response:
    """A player's strategy for a known opponent who may turn out another.

    Attributes:
      policy: the opponent's policy with the player's rows replaced, one lane.
      value_against_model: what the player gets against the opponent's policy.
      guaranteed_value: what it gets at least, against anybody.
      iterations: of the simplex method.
    """

    policy: Policy
    value_against_model: float
    guaranteed_value: float
    iterations: int


def best_equilibrium(
    opponent: PolicyLike, player: int, *, time_limit: float | None = None, tree: HistoryTree | None = None
) -> Response:
    """Of a player's equilibrium strategies the one that does best against a given opponent.

    Two linear programs: the first finds the value of the game, the second maximises the value
    against the opponent among strategies that guarantee it less 1e-9 of the payoff range. `best_nash` does
    so for several.

    Args:
      opponent: a policy of one lane, with a tree what else `as_policy` takes; the player's own rows do not
        matter.
      player: 0 or 1, whose strategy to find.
      time_limit: in seconds for each program; by default none.
      tree: for which tree; by default the opponent's.

    Raises:
      ProgramError: if HiGHS does not solve it.
      ValueError: if the policy has several lanes, or `player` is not 0 or 1.
    """
    opponent = _check(as_policy(opponent, tree, name="opponent"), player)
    return _only(best_nash(opponent.tree, opponent, player=player, time_limit=time_limit))


def restricted_nash_response(
    opponent: PolicyLike,
    player: int,
    p: float,
    *,
    time_limit: float | None = None,
    tree: HistoryTree | None = None,
) -> Response:
    """Best against an opponent who follows a model with probability p, and plays freely otherwise.

    Maximises p × value against the model + (1−p) × guaranteed value: a best response for p = 1, an
    equilibrium strategy for p = 0, and in between the least exploitable of those that gain as much. `respond`
    does so for many models and p at once.
    Source: Johanson, Zinkevich and Bowling (2007), Computing robust counter-strategies.

    Args:
      opponent: the model, a policy of one lane, with a tree what else `as_policy` takes; the player's own
        rows do not matter.
      player: 0 or 1, whose strategy to find.
      p: in [0, 1].
      time_limit: in seconds; by default none.
      tree: for which tree; by default the opponent's.

    Raises:
      ProgramError: if HiGHS does not solve it.
      ValueError: if the policy has several lanes, `player` is not 0 or 1, or p is out of range.
    """
    opponent = _check(as_policy(opponent, tree, name="opponent"), player)
    if not is_finite_number(p) or not 0 <= p <= 1:
        raise ValueError(f"p={p!r}: expected a number in [0, 1], the probability that the model is followed")
    tree = opponent.tree
    # The strategy does not depend on the value of the game, so any bracket will do.
    return _only(
        respond(
            tree,
            Opponent(opponent, p),
            player=player,
            algorithm="lp",
            value=tree.payoff_bounds,
            time_limit=time_limit,
        )
    )


def _check(opponent: Policy, player: int) -> Policy:
    check_player(player)
    if opponent.num_lanes != 1:
        raise ValueError(f"opponent has {opponent.num_lanes} lanes: expected one; pick it by policy.lane(k)")
    return opponent


def _only(responses: Responses) -> Response:
    """The only lane; ProgramError if it was not solved."""
    if responses.failures:
        raise ProgramError(responses.failures[0])
    return Response(
        responses.policy,
        value_against_model=float(responses.value_against_model[0]),
        guaranteed_value=float(responses.guaranteed_value[0]),
        iterations=int(responses.iterations[0]),
    )
