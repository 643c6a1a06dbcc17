"""Nested search: the player searches again at each of its decisions, in the current subgame.

Kubíček, Lisý and Sandholm (2026), §8.1. A search is a function of the public history alone: it runs a fixed
number of iterations from a fixed initial state. All searches that the player's own play can reach are
therefore run in batches, one for each decision, and together they form a policy of the whole game, whose
exploitability is computed.

Alternatively, a search is a function of the player's own infostate and its knowledge there (`knowledge`;
Zhang and Sandholm 2021). The strategy at each own infostate is then the result of its search, which also
gives a policy of the whole game. It has no safety guarantee, as the searches of a level improve against the
opponent's infostates independently of each other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from jaxgadget.core.regret import Rule
from jaxgadget.core.results import LaneResult, convergence
from jaxgadget.core.solver import Solver, choose_solver
from jaxgadget.gadgets.capabilities import Capability, check_capabilities
from jaxgadget.gadgets.gadget import Gadget, describe, gadget_columns
from jaxgadget.gadgets.games import group_gadgets
from jaxgadget.gadgets.prior import NoPrior
from jaxgadget.gadgets.trunk_gadgets import OptimalContinuation
from jaxgadget.opponents.gains import best_gain_against, gain_against, mixture_bound
from jaxgadget.opponents.opponent import Opponent, OpponentLike, Opponents, list_opponents
from jaxgadget.policy.evaluate import check_value, exploitability
from jaxgadget.policy.exact import find_value
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.policy.solve import check_fits
from jaxgadget.subgames.continual import search_continually
from jaxgadget.subgames.knowledge import Knowledge, check_knowledge, knowledge_columns
from jaxgadget.subgames.leaves import GameEnd, Leaf, OptimalValues, history_leaves
from jaxgadget.subgames.nested_run import NestedRun, Visits
from jaxgadget.subgames.refine import list_gadgets
from jaxgadget.subgames.schedule import Lookahead, Schedule, make_schedule
from jaxgadget.tree.history import check_histories, check_whole
from jaxgadget.tree.public import PublicTree, Tree, check_tree
from jaxgadget.util.arguments import check_player, moved
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.lanes import Lanes
from jaxgadget.util.progress import progress_bar
from jaxgadget.util.viewers import Explorable
from jaxgadget.values.histories import ValueFunction
from jaxgadget.values.ranges import RangeValues, check_lanes, warn_of_doubts

ITERATIONS = 3000
"""Default number of iterations, as in the paper's nested solving (Kubíček et al. 2026, Table 1)."""

EPSILON = 2e-2
"""Probability of mistakes, ε, in the same experiments."""


SEARCH_ARRAYS = 10.0
"""Memory of policies in hand form, in float64 arrays over all sequences: the blueprint, the assembled policy
and the plan, each with a copy during updates, and the strategies of a level."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Nested(LaneResult, Explorable):
    """Blueprints with one player's decisions replaced by nested search.

    Lanes are all combinations of gadgets, opponents and blueprints; see `lanes`. Values are in the
    searching player's utility.

    Attributes:
      player: the searching player.
      blueprint: the blueprints.
      gadgets: gadgets of all searches, except a first search before which the opponent has not acted.
      opponents: opponents assumed by the searches.
      schedule: beginnings and ends of the searches; None if they end at a cut.
      num_entries: K, number of strategies that each player chooses from at the limit.
      leaf: source of the values at the limit.
      policy: the assembled policies, one per lane.
      blueprint_exploitability: `[lanes]` the game's value minus the value that the blueprint guarantees.
      nested_exploitability: `[lanes]` the same for the assembled policy.
      gain: `[lanes]` value of the assembled policy against the model, minus the game's value; NaN without a
        model.
      best_response_gain: `[lanes]` gain of a best response to the model, which is the maximum; NaN without a
        model.
      objectives: `[levels, lanes]` value at every level: p × the value against the model, followed to the
        limit with the values there for the game below, + (1−p) × the guaranteed value; NaN if unknown.
      exploitability_bound: `[lanes]` bound for the assembled policy: (p × gain + all gaps) / (1−p), for joint
        searches with optimal values; NaN otherwise.
      gap_max: `[lanes]` the largest NashConv of a search's game; with range values, only below the limit.
      searches: `[lanes]` number of subgames searched.
      game_value: bracket of player 0's value of the game.
      algorithm: the algorithm's name, or `lp`.
      iterations: `[lanes]` maximum over the searches; of the simplex method if `algorithm` is `lp`.
      seconds: `[lanes]` a lane's share of the time.
      value_seconds: seconds spent in the value function, over all lanes; NaN for range values.
      visits: for each blueprint, visits of the leaves by its searches; empty unless requested.
      failures: lanes in which a search overflowed, with the subgame; their exploitability and gap are NaN.
      knowledge: the player's knowledge at its infostates; None if subgames are common knowledge.
    """

    player: int
    blueprint: Policy
    gadgets: tuple[Gadget, ...]
    opponents: Opponents
    schedule: Schedule | None
    num_entries: int
    leaf: str
    policy: Policy
    blueprint_exploitability: FloatArray
    nested_exploitability: FloatArray
    gain: FloatArray
    best_response_gain: FloatArray
    objectives: FloatArray
    exploitability_bound: FloatArray
    gap_max: FloatArray
    searches: npt.NDArray[np.int64]
    game_value: tuple[float, float]
    algorithm: str
    iterations: npt.NDArray[np.int64]
    seconds: FloatArray
    value_seconds: float
    visits: tuple[Visits, ...]
    failures: Mapping[int, str]
    knowledge: Knowledge | None = None

    @property
    def exploitability(self) -> FloatArray:
        """`[lanes]` `nested_exploitability`, by the name of `Responses` and of the table."""
        return self.nested_exploitability

    @property
    def lanes(self) -> Lanes:
        """The gadget, opponent and blueprint of every lane."""
        return Lanes.product(
            gadgets=len(self.gadgets), opponents=len(self.opponents), blueprints=self.blueprint.num_lanes
        )

    @property
    def depth(self) -> int | None:
        """Moves of the players down to the limit; None if it is a cut, or the end of the game."""
        return None if self.schedule is None else self.schedule.depth

    @property
    def message(self) -> str:
        """One-sentence summary of the searches' convergence, with a remedy if it is insufficient."""
        if len(self.failures) == self.policy.num_lanes:
            return f"no result is defined: {self.failures[0]}"
        return convergence(
            self.gap_max,
            int(self.iterations.max()),
            self.algorithm,
            small=1e-2 * self.policy.tree.payoff_range,
            name="largest gap of a search",
        )

    @property
    def lane_columns(self) -> dict[str, Any]:
        """Blueprint, opponent, gadget, knowledge and schedule of each lane."""
        lanes, opponents, schedule = self.lanes, self.opponents, self.schedule
        knowledge = knowledge_columns(self.knowledge)
        if self.knowledge is not None:
            knowledge["combine"] = self.knowledge.follow
        return {
            "player": self.player,
            "blueprint": [self.blueprint.labels[blueprint] for blueprint in lanes.blueprint.tolist()],
            "model": [opponents.labels[opponent] for opponent in lanes.opponent.tolist()],
            "p": opponents.p[lanes.opponent],
            "beyond": [opponents.beyond[opponent] for opponent in lanes.opponent.tolist()],
            **gadget_columns(self.gadgets, lanes.gadget),
            **knowledge,
            "limit": None if schedule is None else schedule.kind,
            "depth": self.depth,
            "step": None if schedule is None else schedule.step,
            "k": self.num_entries,
            "leaf": self.leaf,
            "algorithm": self.algorithm,
        }

    @property
    def number_columns(self) -> dict[str, Any]:
        """Exploitabilities, gains, objectives, gaps and effort of each lane."""
        return {
            "iterations": self.iterations,
            "blueprint_exploitability": self.blueprint_exploitability,
            "nested_exploitability": self.nested_exploitability,
            "gain": self.gain,
            "best_response_gain": self.best_response_gain,
            "exploitability": self.exploitability,
            "exploitability_bound": self.exploitability_bound,
            "objectives": self.objectives.T.tolist(),
            "gap_max": self.gap_max,
            "searches": self.searches,
            "seconds": self.seconds,
        }


@moved(knowledge="lookahead=Lookahead(knowledge=…)")
def nested_search(
    tree: Tree,
    blueprint: PolicyLike | Sequence[PolicyLike],
    gadgets: Gadget | Sequence[Gadget] | None = None,
    lookahead: Lookahead | None = None,
    *,
    opponent: OpponentLike | Sequence[OpponentLike] | None = None,
    player: int = 0,
    value: tuple[float, float] | None = None,
    solver: Solver | None = None,
    iterations: int | None = None,
    algorithm: str | Rule | None = None,
) -> Nested:
    """Searches at every decision that a player's own play reaches, and evaluates the assembled policy.

    The first search on a path is unsafe if the opponent has not acted, which is exact, as its reach is 1;
    otherwise it uses the blueprint's range, and alternative values from best responses, down to the limit, to
    the blueprint continued by entry 0. Later searches take reach, range and values from the previous one.
    Large games call `jax.clear_caches`.

    Against an opponent that follows a model with probability p this is a continual depth-limited restricted
    Nash response, or with p = 1 a best response (Milec, Kubíček and Lisý 2024). `OptimalContinuation`, the
    default, then searches all subgames of a level jointly, which is safe. Other gadgets search each subgame
    separately; the assembled policy is not safe.

    With `Lookahead.knowledge` a player searches from each own infostate separately, using its knowledge there
    up to an order. Its belief about its own play at other infostates is the result of its previous search
    wherever that search was free, and otherwise the blueprint of that search (`follow="believed"`), or the
    results of the searches from those infostates (`assembled`). In lookaheads frozen infostates continue with
    the blueprint, which is entry 0 at the limit. The result is not safe, and no bound is known. At order
    `math.inf` searches start from public states.

    With range values the search is DeepStack's: from the game's root down to the limit, then again from the
    public states there to the end, with the opponent's values from the search above.

    Args:
      tree: the game, in history or hand form. In hand form, searches extend to the end of the game, or have
        `OptimalValues()` at their limit.
      blueprint: profiles, as in `refine`; infosets not reached by search are unchanged.
      gadgets: by default those of `refine` (with ε of 1e-3; the paper's nested solving has 2e-2); with an
        opponent, or with optimal values, `OptimalContinuation(NoPrior())`.
      lookahead: beginning and end of the searches, and the values at their limit; by default a search at each
        own decision, to the end of the game. Its `knowledge` cannot be combined with `opponent`, or with
        gadgets that need the trunk or the optimal continuation.
      opponent: one or several, each with models and p; by default one that adapts.
      player: the searching player, 0 or 1.
      value: bracket of player 0's value of the game; by default `game_value(tree)`.
      solver: settings of every search; by default 3000 iterations of CFR+ in float32. Takes no `target_gap`,
        `check_every` or `checkpoint`; `lp` is for optimal values.
      iterations: short for `Solver(iterations=…)`.
      algorithm: short for `Solver(algorithm=…)`.

    Raises:
      ValueError: for bad arguments, a value function that does not return numbers, gadgets that need the
        trunk where it is unknown, or a game in which an infoset lies on both sides of a level.

    Warns:
      UserWarning: for unreliable range values, such as those of a network whose training is unfinished.
    """
    check_player(player)
    lookahead = Lookahead() if lookahead is None else lookahead
    optimal = isinstance(lookahead.values, OptimalValues)
    without = ("target_gap", "check_every", "checkpoint")
    default = Solver(iterations=ITERATIONS)
    solver = choose_solver(solver, default, iterations=iterations, algorithm=algorithm, without=without)
    solver = solver if optimal else solver.iterative()
    if gadgets is None and (opponent is not None or optimal):
        gadgets = OptimalContinuation(NoPrior())
    requested = list_gadgets(gadgets, optimal, (player,))
    check_capabilities(
        requested, frozenset(Capability) - {Capability.AUTO_EPSILON}, "nested search", "a number for epsilon"
    )
    opponents = list_opponents(
        Opponent() if opponent is None else opponent, check_tree(tree), name="opponent"
    )
    profiles = as_policy(blueprint, tree, name="blueprint")
    _check_tree(tree, lookahead, requested, opponents, profiles.num_lanes, solver)
    check_value(value, tree)
    if lookahead.knowledge is not None:
        check_knowledge(lookahead.knowledge, requested, opponent)
    if (ranged := lookahead.range_values) is not None:
        warn_of_doubts([ranged])
        if opponent is None:
            check_lanes(ranged, profiles.num_lanes)
        return _search_to_cut(profiles, requested, opponents, ranged, lookahead.cut, player, solver, value)
    depth = 1 if lookahead.depth is None and lookahead.values is not None else lookahead.depth
    schedule = make_schedule(tree, player, depth, lookahead.kind, lookahead.step, lookahead.first)
    if value is None:
        value = find_value(tree, solver.rule is None, solver.progress, time_limit=solver.time_limit)
    runs = _run(
        profiles,
        requested,
        opponents,
        schedule,
        _leaves(cast("Leaf | ValueFunction | None", lookahead.values), profiles),
        solver,
        visits=lookahead.visits is not False and not optimal,
        knowledge=lookahead.knowledge,
    )
    return _measured(profiles, requested, opponents, value, knowledge=lookahead.knowledge, **_joined(runs))


def _leaves(
    values: ValueFunction | Sequence[ValueFunction] | Leaf | None, profiles: Policy
) -> Sequence[Leaf]:
    """One leaf for each blueprint."""
    if values is None:
        return [GameEnd()] * profiles.num_lanes
    if isinstance(values, Leaf):
        return [values] * profiles.num_lanes
    return history_leaves(values, profiles)


def _check_tree(
    tree: Tree,
    lookahead: Lookahead,
    gadgets: Sequence[Gadget],
    opponents: Opponents,
    num_blueprints: int,
    solver: Solver,
) -> None:
    """Raises ValueError unless the tree is of the whole game, and has histories if the searches need them."""
    if not isinstance(tree, PublicTree):
        check_whole(tree)
        return
    if lookahead.knowledge is not None:
        check_histories(tree, "search from own infostates")
    if lookahead.values is not None and not isinstance(lookahead.values, OptimalValues):
        check_histories(tree, f"a limit with values={lookahead.values!r}")
    if lookahead.values is not None and not opponents.adapt:
        check_histories(tree, "a limit for an opponent that follows a model")
    lanes = len(gadgets) * len(opponents) * num_blueprints
    check_fits(tree.hands_game, solver.precision, solver.memory_limit, lanes=lanes, policies=SEARCH_ARRAYS)


def _run(
    profiles: Policy,
    gadgets: tuple[Gadget, ...],
    opponents: Opponents,
    schedule: Schedule,
    leaves: Sequence[Leaf],
    solver: Solver,
    *,
    visits: bool,
    knowledge: Knowledge | None,
) -> list[tuple[IntArray, NestedRun]]:
    """Runs all searches; lanes of one leaf and, if it is continued, one kind of gadget form a batch.

    Returns:
      The runs, each with the indices of its lanes.
    """
    lanes = Lanes.product(gadgets=len(gadgets), opponents=len(opponents), blueprints=profiles.num_lanes)
    batches: list[tuple[Leaf, tuple[Gadget, ...], IntArray, Lanes]] = []
    if leaves[0].is_continued:
        for group in group_gadgets(gadgets):
            numbers = lanes.of_gadgets(group)
            together = tuple(gadgets[gadget] for gadget in group)
            batches.append((leaves[0], together, numbers, lanes.only_gadgets(group)))
    else:
        for blueprint, leaf in enumerate(leaves):
            numbers = lanes.where(blueprint=blueprint)
            batches.append((leaf, gadgets, numbers, lanes.take(numbers)))
    work = sum(level.num_subgames for level in schedule.levels) * solver.num_iterations
    runs = list[tuple[IntArray, NestedRun]]()
    with progress_bar("nested search", len(batches) * work, solver.progress) as report:
        for number, (leaf, together, numbers, part) in enumerate(batches):
            run = NestedRun(
                schedule,
                leaf,
                profiles,
                together,
                opponents,
                solver=solver,
                lanes=part,
                visits=visits,
                knowledge=knowledge,
            )
            run.run(lambda done, before=number * work: report(before + done))
            runs.append((numbers, run))
    return runs


def _joined(runs: Sequence[tuple[IntArray, NestedRun]]) -> dict[str, Any]:
    """Joins the results of runs, in the order of all lanes; arguments of `_measured`."""
    order = np.argsort(np.concatenate([numbers for numbers, _ in runs]))
    first = runs[0][1]

    def join(of_run: Callable[[NestedRun], FloatArray | IntArray]) -> Any:
        return np.concatenate([of_run(run) for _, run in runs], axis=-1)[..., order]

    return {
        "player": first.player,
        "rows": join(lambda run: run.assembled.probabilities[run.player]),
        "gaps": join(lambda run: run.gaps),
        "schedule": first.schedule,
        "gap_max": join(lambda run: run.gap_max),
        "failures": {int(numbers[lane]): why for numbers, run in runs for lane, why in run.failures.items()},
        "leaf": first.leaf.name,
        "num_entries": first.leaf.num_entries,
        "searches": join(lambda run: run.searches),
        "algorithm": first.solver.name,
        "iterations": join(lambda run: run.iterations),
        "seconds": join(lambda run: np.full(len(run.lanes), run.seconds / len(run.lanes))),
        "value_seconds": np.nan if first.leaf.is_continued else sum(run.value_seconds for _, run in runs),
        "objectives": join(lambda run: run.objectives),
        "visits": () if first.leaf.is_continued else tuple(_join_visits(run) for _, run in runs),
    }


def _search_to_cut(
    profiles: Policy,
    gadgets: tuple[Gadget, ...],
    opponents: Opponents,
    values: RangeValues,
    limit: Any,
    player: int,
    solver: Solver,
    value: tuple[float, float] | None,
) -> Nested:
    """A search down to a cut, with range values there, and searches below it."""
    with (watch := Stopwatch()).phase("run"):
        trunk, below = search_continually(profiles, gadgets, opponents, values, limit, player, solver, value)
    lanes = below.policy.num_lanes
    return _measured(
        profiles,
        gadgets,
        opponents,
        below.game_value,
        player=player,
        rows=below.policy.probabilities[player],
        gaps=np.full(lanes, np.nan),
        schedule=None,
        gap_max=np.nanmax(below.gap, axis=0, initial=0.0),
        failures=below.failures,
        leaf=f"{getattr(values, 'name', type(values).__name__)} at {trunk.limit.cut.name}",
        num_entries=1,
        searches=1 + below.has_decision.sum(axis=0),
        algorithm=below.algorithm,
        iterations=np.maximum(below.iterations, trunk.iterations),
        seconds=np.full(lanes, watch.seconds["run"] / lanes),
        value_seconds=np.nan,
        objectives=np.zeros((0, lanes)),
        visits=(),
    )


def _measured(
    profiles: Policy,
    gadgets: tuple[Gadget, ...],
    opponents: Opponents,
    value: tuple[float, float],
    *,
    player: int,
    rows: FloatArray,
    gaps: FloatArray,
    **searched: Any,
) -> Nested:
    """Evaluates the results in the full game.

    Args:
      profiles: the blueprints.
      gadgets: the gadgets.
      opponents: the opponents.
      value: bracket of player 0's value of the game.
      player: the searching player.
      rows: `[Q, lanes]` its strategies.
      gaps: `[lanes]` sum of the gaps of all games, NaN where they give no bound.
      **searched: further fields of `Nested`.
    """
    lanes = Lanes.product(gadgets=len(gadgets), opponents=len(opponents), blueprints=profiles.num_lanes)
    labels = lanes.labels(profiles.labels, [describe(gadget) for gadget in gadgets], opponents.descriptions)
    before = profiles.take_lanes(lanes.blueprint)
    policy = dataclasses.replace(before.with_player(player, rows), labels=labels)
    after = exploitability(policy, player, value=value)
    gain = gain_against(policy, opponents, lanes.opponent, player, value)
    bound = mixture_bound(gain, opponents.p[lanes.opponent], gaps, value)
    for measured in (after, gain, searched["gap_max"], bound, searched["objectives"].T):
        measured[list(searched["failures"])] = np.nan
    return Nested(
        player=player,
        blueprint=profiles,
        gadgets=gadgets,
        opponents=opponents,
        policy=policy,
        blueprint_exploitability=exploitability(profiles, player, value=value)[lanes.blueprint],
        nested_exploitability=after,
        gain=gain,
        best_response_gain=best_gain_against(opponents, player, value)[lanes.opponent],
        exploitability_bound=bound,
        game_value=value,
        **searched,
    )


def _join_visits(run: NestedRun) -> Visits:
    """Visits of all searches of a run; empty for a player that never acts."""
    size = run.leaf.num_entries
    none = Visits(np.zeros(0, np.int64), np.zeros((0, size, size)))
    return Visits(*map(np.concatenate, zip(none, *(run.visits or ()), strict=True)))
