"""Lookaheads solved: ranges, gadgets, CFR, strategies of both players with their certificate.

Lanes have a gadget and ranges of their own, and share the values at the limit.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.joint import group_gadgets, join
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.gadgets.structure import Structure, blueprint_ranges, build_structure, pad_rows
from jaxgadget.games.game import BoolArray, FloatArray, IntArray
from jaxgadget.kernels.cfr import averages
from jaxgadget.kernels.problem import Parts
from jaxgadget.kernels.treeplex import expand_infosets, sum_actions
from jaxgadget.policy.policy import Policy
from jaxgadget.refining.batch import Settings
from jaxgadget.solving.chunks import Loop, solve_chunks
from jaxgadget.solving.drive import Report, precision
from jaxgadget.solving.forest import GadgetGames, KindLanes, build_kind, conclude, with_lanes
from jaxgadget.solving.memory import plan_solve
from jaxgadget.tree.forest import Forest


@dataclasses.dataclass(frozen=True, eq=False)
class Profile:
    """Both players' strategies in the game, and what they choose at a limit; L lanes.

    Attributes:
      policy: of the whole game, a lane each.
      states: for both players, ids of the leaf infostates, ascending.
      choice: for both players `[states, K, L]` probabilities of the entries there.
    """

    policy: Policy
    states: tuple[IntArray, IntArray]
    choice: tuple[FloatArray, FloatArray]

    @staticmethod
    def of_blueprint(look: Forest, blueprint: Policy) -> Profile:
        """The blueprint, and at the limit entry 0, which is the blueprint."""
        choices: list[FloatArray] = []
        for states in look.leaves.states:
            choice = np.zeros((len(states), look.leaves.num_choices, blueprint.num_lanes))
            choice[:, 0] = 1
            choices.append(choice)
        return Profile(blueprint, look.leaves.states, (choices[0], choices[1]))

    @property
    def num_lanes(self) -> int:
        """L."""
        return self.policy.num_lanes

    def body(self, look: Forest, player: int) -> FloatArray:
        """`[Q, L]` a player's strategy in a lookahead whose leaf infostates are all among these.

        Raises:
          ValueError: if one is not.
        """
        known, states = self.states[player], look.leaves.states[player]
        number = np.searchsorted(known, states)
        if not np.array_equal(known[number % max(len(known), 1)], states):
            raise ValueError("profile: the lookahead has leaf infostates of which it says nothing")
        limit = self.choice[player][number].reshape(-1, self.num_lanes)
        rows = np.concatenate([self.policy.probabilities[player], limit])
        sequence = look.form.action_sequences(player)  # 1 is that of row 0
        return np.where(sequence[:, None] > 0, rows[sequence - 1], 0)

    def extended(self, look: Forest) -> Profile:
        """This profile, with entry 0 at the leaf infostates of a lookahead of which it says nothing."""
        states: list[IntArray] = []
        choices: list[FloatArray] = []
        for player in (0, 1):
            fresh = np.setdiff1d(look.leaves.states[player], self.states[player])
            both = np.concatenate([self.states[player], fresh])
            choice = np.zeros((len(fresh), look.leaves.num_choices, self.num_lanes))
            choice[:, 0] = 1
            order = np.argsort(both)
            states.append(both[order])
            choices.append(np.concatenate([self.choice[player], choice])[order])
        return Profile(self.policy, (states[0], states[1]), (choices[0], choices[1]))

    def with_bodies(self, look: Forest, bodies: tuple[FloatArray, FloatArray]) -> Profile:
        """This profile with the strategies found in a lookahead, which may be one part of the limit.

        Raises:
          ValueError: if the lookahead's subgames overlap.
        """
        look.check_disjoint()
        rows: list[FloatArray] = []
        choices: list[FloatArray] = []
        for player in (0, 1):
            above = self.policy.probabilities[player]
            states, sequence = look.leaves.states[player], look.form.action_sequences(player)
            limit = np.empty((len(states) * look.leaves.num_choices, self.num_lanes))
            both = np.concatenate([above, limit])
            both[sequence[sequence > 0] - 1] = bodies[player][sequence > 0]
            choice = self.choice[player].copy()
            number = np.searchsorted(self.states[player], states)
            choice[number] = both[len(above) :].reshape(-1, look.leaves.num_choices, self.num_lanes)
            rows.append(both[: len(above)])
            choices.append(choice)
        policy = Policy(self.policy.tree, (rows[0], rows[1]), self.policy.labels)
        return Profile(policy, self.states, (choices[0], choices[1]))


class Prepared(NamedTuple):
    """A lookahead with values, on the device."""

    forest: Forest
    structure: Structure


def prepare(look: Forest, values: FloatArray, player: int) -> Prepared:
    """Puts a lookahead on the device.

    Args:
      look: the lookahead.
      values: `[H, K, K]` at its leaves.
      player: who searches.
    """
    forest = look.with_values(values)
    with precision(np.float64):
        return Prepared(forest, build_structure(forest, player, np.float64))


def find_ranges(here: Prepared, profile: Profile, reach: tuple[FloatArray, FloatArray]) -> Ranges:
    """What a profile brings to the roots: reaches, and the opponent's best response down to the limit.

    Args:
      here: the lookahead.
      profile: both players' strategies below the roots.
      reach: both players' reach `[R_p, L]` of their roots.
    """
    empty = np.zeros((0, profile.num_lanes))
    with precision(np.float64):
        first, second = (Parts(*jax.device_put((empty, profile.body(here.forest, p)))) for p in (0, 1))
        padded = [
            pad_rows(rows, treeplex.num_roots, 0)
            for rows, treeplex in zip(reach, here.forest.form.treeplex, strict=True)
        ]
        roots = jax.device_put(padded[0]), jax.device_put(padded[1])
        return blueprint_ranges(here.structure, (first, second), roots)


def root_reach(look: Forest, policy: Policy) -> tuple[FloatArray, FloatArray]:
    """Both players' own reach `[R_p, L]` of their root infostates."""
    first, second = (policy.reach(player)[look.roots[player].sequence] for player in (0, 1))
    return first, second


class Searched(NamedTuple):
    """Lookaheads that are solved, on the host; S subgames, L lanes.

    Attributes:
      strategy: both players' average strategies `[Q_p, L]`, completed where they say nothing.
      value: `[S, L]` what the searching player's strategy guarantees in each gadget game.
      gap: `[S, L]` NashConv of each gadget game.
      live: `[S, L]` False where there was nothing to solve.
    """

    strategy: tuple[FloatArray, FloatArray]
    value: FloatArray
    gap: FloatArray
    live: BoolArray


class _Concluded(NamedTuple):
    strategy: tuple[jax.Array, jax.Array]
    value: jax.Array
    gap: jax.Array


@functools.partial(jax.jit, static_argnames=("kind",))
def _conclude(
    games: GadgetGames,
    strategy_sum: tuple[Parts, Parts],
    rows: tuple[jax.Array, jax.Array],
    *,
    kind: type[Gadget],
) -> _Concluded:
    """Both players' averages, and the searching player's certificate; `rows` where they say nothing."""
    player = games.problem.order[1]
    found = conclude(games, strategy_sum, rows[player], kind=kind)
    other = 1 - player
    played, body = averages(games.problem, strategy_sum)[other].body, games.problem.sides[other].body
    mass = expand_infosets(body, sum_actions(body, strategy_sum[other].body[body.num_roots :]))
    theirs = jnp.where(mass > 0, played, rows[other])
    pair = (found.strategy, theirs) if player == 0 else (theirs, found.strategy)
    return _Concluded(pair, found.value, found.gap)


def solve_lookahead(
    here: Prepared,
    ranges: Ranges,
    profile: Profile,
    gadgets: Sequence[Gadget],
    settings: Settings,
    report: Report,
) -> Searched:
    """Solves the gadget games of all lanes; lane by lane a gadget, with its own ranges.

    Args:
      here: the lookahead.
      ranges: L lanes.
      profile: L lanes; it stays where a search says nothing.
      gadgets: L of them; those that look at the whole trunk are refused.
      settings: how.
      report: is told the number of iterations done in each group of gadgets.

    Raises:
      ValueError: for a gadget that needs the trunk or the blueprint's own values.
    """
    rule = settings.rule
    if rule is None:
        raise ValueError("algorithm='lp': search runs regret matching; expected 'cfr+', for example")
    rows = profile.body(here.forest, 0), profile.body(here.forest, 1)
    count, subgames = len(gadgets), here.forest.num_subgames
    strategy = np.zeros_like(rows[0]), np.zeros_like(rows[1])
    value, gap = np.zeros((subgames, count)), np.zeros((subgames, count))
    live = np.zeros((subgames, count), np.bool_)
    loop = Loop(rule, settings.dtype, settings.iterations, settings.target_gap, settings.check_every)
    for lanes in group_gadgets(gadgets, exact=False):
        kind = _build_lanes(here, ranges, [gadgets[lane] for lane in lanes], np.array(lanes), settings)
        mine = rows[0][:, lanes], rows[1][:, lanes]
        plan = plan_solve(kind, settings.dtype, memory_limit=settings.memory_limit, chunk=settings.chunk)
        solved = solve_chunks(kind, plan, mine, loop, report=report, finish=_conclude)
        for player in (0, 1):
            strategy[player][:, lanes] = solved.found.strategy[player]
        value[:, lanes], gap[:, lanes] = solved.found.value[:subgames], solved.found.gap[:subgames]
        live[:, lanes] = solved.live[:subgames]
    if not np.isfinite(gap).all():
        raise ValueError(f"search: the solve overflowed in {settings.dtype}; use dtype='float64'")
    return Searched(strategy, value, np.maximum(gap, 0), live)


def _build_lanes(
    here: Prepared, ranges: Ranges, gadgets: Sequence[Gadget], lanes: IntArray, settings: Settings
) -> KindLanes:
    """Lanes of one group of gadgets, each with the ranges of its own lane."""
    for gadget in gadgets:
        if gadget.needs:
            raise ValueError(
                f"gadget {gadget.name!r} needs {', '.join(sorted(gadget.needs))}: search knows only ranges "
                "and best-response values at its roots; expected Unsafe(), Resolving() or MaxMargin()"
            )

    def lane(number: int) -> Ranges:
        return with_lanes(ranges, lambda x: x[:, number : number + 1])

    asked = join(gadgets)
    with precision(np.float64):
        own = [lane(number) for number in lanes.tolist()]
        shared = build_kind(here.forest, here.structure, own[0], asked[:1], np.float64, None, settings.place)
        pairs = list(zip(asked, own, strict=True))
        return shared._replace(
            ranges=with_lanes(settings.place.everywhere(ranges), lambda x: np.asarray(x)[:, lanes]),
            alternatives=np.concatenate([gadget.alternatives(one) for gadget, one in pairs], axis=1),
            mistakes=np.concatenate([gadget.mistakes(one) for gadget, one in pairs], axis=1),
            epsilon=np.array([gadget.epsilon for gadget in asked], np.float64),
        )
