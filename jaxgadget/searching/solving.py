"""Lookaheads solved: ranges, gadgets, CFR or linear programs, strategies with their certificate.

Lanes have a gadget, an opponent and ranges of their own, and share the values at the limit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
import numpy.typing as npt

from jaxgadget.gadgets.frozen import Frozen
from jaxgadget.gadgets.gadget import Gadget, describe
from jaxgadget.gadgets.games import GadgetGames, build_games, group_gadgets
from jaxgadget.gadgets.models import Mixtures
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.gadgets.structure import Bodies, Structure, build_structure
from jaxgadget.gadgets.structure import find_ranges as ranges_of
from jaxgadget.kernels.certificate import Certificate, Kept, certify, certify_average, find_overflows
from jaxgadget.kernels.problem import Parts, Problem
from jaxgadget.kernels.rows import on_host, pad_rows
from jaxgadget.policy.policy import Policy
from jaxgadget.solving.driver import Finished, Report, solve
from jaxgadget.solving.lp import solve_lanes
from jaxgadget.solving.options import SolveOptions
from jaxgadget.tree.forest import Forest
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.compilation import compile_quickly
from jaxgadget.util.precision import precision


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

    def bodies(self, look: Forest) -> tuple[FloatArray, FloatArray]:
        """The same of both players."""
        return self.body(look, 0), self.body(look, 1)

    def extended(self, look: Forest) -> Profile:
        """This profile, with entry 0 at the leaf infostates of a lookahead of which it says nothing."""
        states: list[IntArray] = []
        choices: list[FloatArray] = []
        for player in (0, 1):
            fresh = np.setdiff1d(look.leaves.states[player], self.states[player])
            all_states = np.concatenate([self.states[player], fresh])
            choice = np.zeros((len(fresh), look.leaves.num_choices, self.num_lanes))
            choice[:, 0] = 1
            order = np.argsort(all_states)
            states.append(all_states[order])
            choices.append(np.concatenate([self.choice[player], choice])[order])
        return Profile(self.policy, (states[0], states[1]), (choices[0], choices[1]))

    def with_bodies(
        self,
        look: Forest,
        bodies: tuple[FloatArray, FloatArray],
        adopted: tuple[BoolArray, BoolArray] | None = None,
    ) -> Profile:
        """This profile with the strategies found in a lookahead, which may be one part of the limit.

        Args:
          look: the lookahead.
          bodies: both players' strategies `[Q_p, L]` there.
          adopted: for both players `[R_p]` below which roots the strategies count, where subgames overlap. By
            default below all of them; where a player's decisions are there twice, below its usual roots.

        Raises:
          ValueError: if the lookahead's subgames overlap and nobody says which strategies count.
        """
        if adopted is None:
            look.check_disjoint()
            adopted = usual_roots(look)
        rows: list[FloatArray] = []
        choices: list[FloatArray] = []
        for player in (0, 1):
            above = self.policy.probabilities[player]
            states, sequence = look.leaves.states[player], look.form.action_sequences(player)
            sequence = np.where(actions_below(look, player, adopted[player]), sequence, -1)
            choice = self.choice[player].copy()
            number = np.searchsorted(self.states[player], states)
            all_rows = np.concatenate([above, choice[number].reshape(-1, self.num_lanes)])
            all_rows[sequence[sequence > 0] - 1] = bodies[player][sequence > 0]
            choice[number] = all_rows[len(above) :].reshape(-1, look.leaves.num_choices, self.num_lanes)
            rows.append(all_rows[: len(above)])
            choices.append(choice)
        policy = Policy(self.policy.tree, (rows[0], rows[1]), self.policy.labels)
        return Profile(policy, self.states, (choices[0], choices[1]))


def usual_roots(look: Forest) -> tuple[BoolArray, BoolArray]:
    """For both players `[R_p]` all roots but the extra ones."""
    first, second = (np.ones(len(roots), np.bool_) for roots in look.roots)
    return first, second


def actions_below(look: Forest, player: int, roots: BoolArray) -> BoolArray:
    """`[Q]` which actions of a player in a lookahead lie below some of its roots, extra ones left out.

    Args:
      look: the lookahead.
      player: whose.
      roots: `[R]` which roots.
    """
    treeplex = look.form.treeplex[player]
    wanted = pad_rows(roots, treeplex.num_roots, 0)
    return wanted[treeplex.root_of()[treeplex.num_roots :]]


def prepare_lookahead(
    look: Forest, values: FloatArray, player: int, platform: str | None = None
) -> Structure:
    """Puts a lookahead on the device.

    Args:
      look: the lookahead.
      values: `[H, K, K]` at its leaves.
      player: who searches.
      platform: of the devices that will solve; by default that of JAX's default backend.
    """
    return build_structure(look.with_values(values), player, platform)


def find_ranges(structure: Structure, profile: Profile, reach: tuple[FloatArray, FloatArray]) -> Ranges:
    """What a profile brings to the roots: reaches, and the opponent's best response down to the limit.

    Args:
      structure: the lookahead on the device.
      profile: both players' strategies below the roots.
      reach: both players' reach `[R_p, L]` of their roots.
    """
    look = structure.forest
    return ranges_of(structure, profile.bodies(look), reach)


def root_reach(look: Forest, policy: Policy) -> tuple[FloatArray, FloatArray]:
    """Both players' own reach `[R_p, L]` of their root infostates."""
    first, second = (policy.reach(player)[look.roots[player].sequence] for player in (0, 1))
    return first, second


def name_lane(gadget: Gadget, blueprint: str, against: str = "") -> str:
    """What a lane is called in messages.

    Args:
      gadget: the gadget.
      blueprint: the blueprint's label.
      against: the opponent in words; nothing if it only adapts.
    """
    return " ".join(filter(None, (f"{describe(gadget)} after blueprint {blueprint!r}", against)))


class Searched(NamedTuple):
    """Lookaheads that are solved, on the host; S subgames, L lanes.

    Attributes:
      strategy: both players' average strategies `[Q_p, L]`, completed where they say nothing.
      value: `[S, L]` what the searching player's strategy guarantees in each gadget game.
      gap: `[S, L]` NashConv of each gadget game.
      has_decision: `[S, L]` False where there was nothing to solve.
      iterations: `[L]` done.
      failures: lanes that overflowed, and where; their strategies stay, and their numbers are NaN.
    """

    strategy: tuple[FloatArray, FloatArray]
    value: FloatArray
    gap: FloatArray
    has_decision: BoolArray
    iterations: npt.NDArray[np.int64]
    failures: dict[int, str]


_certify = compile_quickly(certify)


@compile_quickly
def _conclude(problem: Problem, strategy_sum: tuple[Parts, Parts], kept: tuple[Kept, Kept]) -> Certificate:
    """Both players' averages, completed, and their certificate."""
    exact = jax.tree.map(lambda x: x.astype(problem.dtype), strategy_sum)
    return certify_average(problem, exact, kept)


def solve_lookahead(
    structure: Bodies,
    ranges: Ranges,
    rows: tuple[FloatArray, FloatArray],
    gadgets: Sequence[Gadget],
    options: SolveOptions,
    report: Report,
    *,
    mixtures: Mixtures | None = None,
    frozen: Frozen | None = None,
    opponent: IntArray | None = None,
    names: Sequence[str],
) -> Searched:
    """Solves the gadget games of all lanes; lane by lane a gadget, with its own ranges.

    Args:
      structure: the lookahead on the device.
      ranges: L lanes.
      rows: both players' strategies `[Q, L]` in its bodies, which stay where a search says nothing.
      gadgets: L of them; those that look at the trunk are refused where `ranges` have none.
      options: how.
      report: is told the number of iterations done in each group of gadgets.
      mixtures: opponents who follow models; by default all only adapt.
      frozen: what is not solved for, in subgames of own infostates, L lanes; by default there is nothing.
      opponent: `[L]` which of them each lane has.
      names: L of them, the lanes' for messages.

    Raises:
      ValueError: for a gadget that needs the trunk, if there is none, or the blueprint's own values.
    """
    check_needs(gadgets, frozenset[str]() if ranges.trunk is None else frozenset({"trunk"}))
    player, count, num_subgames = structure.player, len(gadgets), ranges.num_subgames
    strategy = np.zeros_like(rows[0]), np.zeros_like(rows[1])
    value, gap = np.zeros((num_subgames, count)), np.zeros((num_subgames, count))
    has_decision = np.zeros((num_subgames, count), np.bool_)
    iterations, failures = np.zeros(count, np.int64), dict[int, str]()
    for group in group_gadgets(gadgets):
        lanes = np.array(group)
        distinct = list({id(gadgets[lane]): gadgets[lane] for lane in group}.values())
        number = {id(gadget): row for row, gadget in enumerate(distinct)}
        games = build_games(
            structure,
            ranges,
            distinct,
            mixtures=mixtures,
            frozen=frozen,
            lanes=(
                np.array([number[id(gadgets[lane])] for lane in group]),
                np.zeros_like(lanes) if opponent is None else opponent[lanes],
                lanes,
            ),
        )
        solved = _solve_games(games, rows, options, report, [names[lane] for lane in group])
        certificate, num_games = solved.certificate, games.batch.num_games
        for p in (0, 1):
            strategy[p][:, lanes] = certificate.strategy[p]
        value[:num_games, lanes] = certificate.guaranteed[player][:num_games]
        gap[:num_games, lanes] = certificate.gap[:num_games]
        has_decision[:, lanes] = games.has_decision(np.arange(len(lanes)))
        iterations[lanes] = solved.iterations
        failures |= {group[lane]: why for lane, why in solved.failures}
    remedy = "use dtype='float64'" if options.dtype == np.float32 else "give smaller values at the limit"
    for lane, subgame in find_overflows(value, gap).items():
        why = f"the search of subgame {subgame} overflowed in {options.dtype}; {remedy}"
        failures.setdefault(lane, f"{names[lane]}: {why}")
    for lane in failures:
        for p in (0, 1):
            strategy[p][:, lane] = rows[p][:, lane]
        value[:, lane], gap[:, lane], has_decision[:, lane] = np.nan, np.nan, False
    return Searched(strategy, value, np.maximum(gap, 0), has_decision, iterations, failures)


def check_needs(gadgets: Sequence[Gadget], known: frozenset[str] = frozenset()) -> None:
    """ValueError for a gadget that reads more than ranges and what is known besides."""
    for gadget in gadgets:
        if missing := gadget.needs - known:
            raise ValueError(
                f"gadget {gadget.name!r} needs {', '.join(sorted(missing))}: search knows only ranges "
                "and best-response values at its roots; expected Unsafe(), Resolving() or MaxMargin()"
            )


class _SolvedGames(NamedTuple):
    """Games that share an entry, solved; their lanes in order.

    Attributes:
      certificate: on the host.
      iterations: `[lanes]` done.
      failures: lanes whose programs were not solved, and why.
    """

    certificate: Certificate
    iterations: npt.NDArray[np.int64]
    failures: Sequence[tuple[int, str]]


def _solve_games(
    games: GadgetGames,
    rows: tuple[FloatArray, FloatArray],
    options: SolveOptions,
    report: Report,
    names: Sequence[str],
) -> _SolvedGames:
    """Solves games by CFR, or by linear programs called `names`; `rows` stay where nothing is said."""
    player = games.player

    def kept(lanes: IntArray) -> tuple[Kept, Kept]:
        ours, others = games.kept(rows[player], lanes), rows[1 - player][:, games.blueprint[lanes]]
        theirs = Kept(on_host(others), on_host(np.ones(others.shape, np.bool_)))
        return (ours, theirs) if player == 0 else (theirs, ours)

    def finish(ended: Finished) -> Certificate:
        sums = ended.release()
        return _conclude(ended.in_float64(), sums, ended.placement.by_lane(kept(ended.lanes)))

    if options.rule is not None:
        solved = solve(games.batch, options, finish, report=report)
        return _SolvedGames(solved.outcome, solved.iterations, ())
    lanes = np.arange(games.num_lanes)
    with precision(np.float64):
        problem = games.batch.problem()
        programs = solve_lanes(
            lambda _: problem,
            lanes.tolist(),
            names,
            rows[player][:, games.blueprint],
            auto=False,
            time_limit=options.time_limit,
        )
        certificate = jax.tree.map(np.asarray, _certify(problem, programs.played, kept(lanes)))
    report(options.iterations)
    return _SolvedGames(
        certificate, np.asarray(programs.iterations, np.int64), list(programs.failures.items())
    )
