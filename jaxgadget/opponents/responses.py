"""Exact strategies against a known opponent, by linear programs."""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxgadget.games.game import FloatArray
from jaxgadget.policy.evaluate import check_player, to_policy
from jaxgadget.policy.exact import whole_players
from jaxgadget.policy.policy import Policy, check_policy
from jaxgadget.solving.program import Optimum, Program, solve_program
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.sequence import SequenceForm, sequence_form

EQUILIBRIUM_TOLERANCE = 1e-9
"""By how much `best_equilibrium` may guarantee less than the value, as a share of the payoff range."""


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


def best_equilibrium(opponent: Policy, player: int, *, time_limit: float | None = None) -> Response:
    """Of a player's equilibrium strategies the one that does best against a given opponent.

    Two linear programs: the first finds the value of the game, the second maximises the value
    against the opponent among strategies that guarantee it less `EQUILIBRIUM_TOLERANCE`.

    Args:
      opponent: a policy of one lane; the player's own rows do not matter.
      player: 0 or 1, whose strategy to find.
      time_limit: in seconds for each program; by default none.

    Raises:
      ProgramError: if HiGHS does not solve it.
      ValueError: if the policy has several lanes, or `player` is not 0 or 1.
    """
    tree, form = _check(opponent, player)
    players, linear = whole_players(form, None), _against(form, opponent, player)
    name = f"best equilibrium of player {player} in {tree.game.name}"
    free = Program(name=name, maximiser=player, players=players, payoff=form.payoff)
    value = float(solve_program(free, time_limit=time_limit).value[0])
    bound = dataclasses.replace(
        free,
        guarantee_weight=0.0,
        linear=linear,
        at_least=value - EQUILIBRIUM_TOLERANCE * tree.payoff_range,
    )
    found = solve_program(bound, time_limit=time_limit)
    return _response(form, opponent, player, found, linear, f"best-equilibrium:{opponent.labels[0]}")


def restricted_nash_response(
    opponent: Policy, player: int, p: float, *, time_limit: float | None = None
) -> Response:
    """Best against an opponent who follows a model with probability p, and plays freely otherwise.

    Maximises p × value against the model + (1−p) × guaranteed value: a best response for p = 1, an
    equilibrium strategy for p = 0, and in between the least exploitable of those that gain as much.
    Source: Johanson, Zinkevich and Bowling (2007), Computing robust counter-strategies.

    Args:
      opponent: the model, a policy of one lane; the player's own rows do not matter.
      player: 0 or 1, whose strategy to find.
      p: in [0, 1].
      time_limit: in seconds; by default none.

    Raises:
      ProgramError: if HiGHS does not solve it.
      ValueError: if the policy has several lanes, `player` is not 0 or 1, or p is out of range.
    """
    tree, form = _check(opponent, player)
    if isinstance(p, bool | str) or not 0 <= p <= 1:
        raise ValueError(f"p={p}: expected a number in [0, 1], the probability that the model is followed")
    linear = _against(form, opponent, player)
    program = Program(
        name=f"restricted Nash response of player {player} in {tree.game.name}",
        maximiser=player,
        players=whole_players(form, None),
        payoff=form.payoff,
        guarantee_weight=1.0 - p,
        linear=p * linear,
    )
    found = solve_program(program, time_limit=time_limit)
    return _response(form, opponent, player, found, linear, f"rnr:{p:g}:{opponent.labels[0]}")


def _check(opponent: Policy, player: int) -> tuple[HistoryTree, SequenceForm]:
    check_player(player)
    check_policy(opponent, "opponent")
    if opponent.num_lanes != 1:
        raise ValueError(f"opponent has {opponent.num_lanes} lanes: expected one; pick it by policy.lane(k)")
    return opponent.tree, sequence_form(opponent.tree)


def _against(form: SequenceForm, opponent: Policy, player: int) -> FloatArray:
    """`[S]` what every sequence of the player earns against a policy."""
    other, payoff = 1 - player, form.payoff
    reach = np.ones(form.treeplex[other].num_sequences)
    reach[form.treeplex[other].num_roots :] = opponent.reach(other)[form.action_sequences(other), 0]
    pairs = (payoff.row, payoff.column)
    sign = 1 if player == 0 else -1
    earned = np.bincount(
        pairs[player],
        sign * payoff.value * reach[pairs[other]],
        form.treeplex[player].num_sequences,
    )
    return np.asarray(earned, np.float64)


def _response(
    form: SequenceForm, opponent: Policy, player: int, found: Optimum, linear: FloatArray, label: str
) -> Response:
    rows = to_policy(
        form.tree, form, (found.strategy[0].body[:, None], found.strategy[1].body[:, None]), (label,)
    )
    pair = (
        (rows.probabilities[0], opponent.probabilities[1])
        if player == 0
        else (opponent.probabilities[0], rows.probabilities[1])
    )
    policy = Policy(form.tree, pair, (label,))
    plan = np.ones(form.treeplex[player].num_sequences)
    plan[form.treeplex[player].num_roots :] = policy.reach(player)[form.action_sequences(player), 0]
    return Response(policy, float(linear @ plan), float(found.value[0]), found.iterations)
