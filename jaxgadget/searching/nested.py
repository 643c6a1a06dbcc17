"""Nested search: at each own decision a player searches again in the current subgame.

Kubíček, Lisý and Sandholm (2026), §8.1. A search is a function of the public history alone: it runs a
fixed number of iterations from nothing. So it can be run wherever the player's own play leads, for all
that the opponent may do, decision by decision, each of them a batch; and what comes out is a policy of the
whole game whose exploitability is known.

Or a search is a function of the player's own infostate, by what it knows there (`knowledge`; Zhang and
Sandholm 2021). What is played at an own infostate is then what the search from there found, so that too is a
policy of the whole game. Nothing about it is safe: the searches of a level mend the opponent's infostates,
each as if no other did.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
from jax.typing import DTypeLike

from jaxgadget.gadgets.gadget import AUTO, Gadget, describe, prior_name
from jaxgadget.gadgets.games import group_gadgets
from jaxgadget.gadgets.prior import NoPrior
from jaxgadget.gadgets.real_way import OptimalContinuation
from jaxgadget.kernels.regret import Rule
from jaxgadget.opponents.gains import best_gain_against, gain_against, mixture_bound
from jaxgadget.opponents.opponent import Opponent, Opponents, list_opponents
from jaxgadget.policy.evaluate import check_value, exploitability
from jaxgadget.policy.exact import find_value
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.refining.knowledge import Knowledge, check_knowledge, knowledge_columns
from jaxgadget.refining.refine import Refinement, list_gadgets
from jaxgadget.searching.continual import resolve_continually
from jaxgadget.searching.limited import values_for
from jaxgadget.searching.line import Line, Visits
from jaxgadget.searching.optimal import OptimalLine, OptimalValues
from jaxgadget.searching.ranged import respond_continually
from jaxgadget.searching.schedule import LIMIT_KINDS, Schedule, make_schedule
from jaxgadget.searching.solving import Searched
from jaxgadget.solving.devices import Device
from jaxgadget.solving.options import LP, SolveOptions, make_options
from jaxgadget.tree.cut import CutSpec
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.util.arguments import check_player
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.progress import progress_bar

if TYPE_CHECKING:
    from jaxgadget.searching.hands import NestedHands
from jaxgadget.values.histories import ValueFunction
from jaxgadget.values.ranges import RangeValues, check_lanes, warn_of_doubts
from jaxgadget.values.trunk import LimitedTrunk

ITERATIONS = 3000
"""As the paper's nested solving (Kubíček et al. 2026, Table 1)."""

EPSILON = 2e-2
"""Likewise."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Nested:
    """Blueprints with one player's decisions replaced by nested search.

    Lanes run over gadgets, then opponents, then blueprints. Values are in the searching player's utility.

    Attributes:
      player: who searches.
      blueprint: the blueprints.
      gadgets: at every search but the first, and there too where the opponent has acted before.
      opponents: whom it is searched against.
      schedule: when searches begin and where they end; None if that is a cut.
      num_entries: K, strategies of each player to choose from at the limit.
      leaf: what the values at the limit come from.
      policy: the assembled policies, a lane each.
      blueprint_exploitability: `[lanes]` the game's value less what the blueprint guarantees.
      nested_exploitability: `[lanes]` the same for the assembled policy.
      gain: `[lanes]` what the assembled policy earns against the model, less the game's value; NaN without
        a model.
      best_response_gain: `[lanes]` the gain of a best response to the model, the most that there is; NaN
        likewise.
      objectives: `[levels, lanes]` what was found at every level, p × what it earns where the model is
        followed to the limit and play is as the values there say below, + (1−p) × what it guarantees; NaN if
        that is not known.
      exploitability_bound: `[lanes]` of the assembled policy: (p × gain + all gaps) / (1−p), for joint
        searches with optimal values; NaN for others.
      gap_max: `[lanes]` the largest NashConv of a search's game; with range values, below the limit alone.
      searches: `[lanes]` subgames that were searched.
      game_value: bracket of player 0's value of the game.
      algorithm: the rule's name, or `lp`.
      iterations: `[lanes]` the most of a search; of the simplex method if `algorithm` is `lp`.
      seconds: `[lanes]` a lane's share of the time.
      value_seconds: of them, spent in the value function, all lanes together; NaN for values of ranges.
      visits: for each blueprint, where its searches ended; nothing if that was not asked for.
      failures: lanes in which a search overflowed, and where; their exploitability and gap are NaN.
      knowledge: what the player was to know at its infostates, if not what is common knowledge.
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

    def __repr__(self) -> str:
        return f"<Nested of {self.policy.tree.game.name}: {self.policy.num_lanes} lane(s)>"

    @property
    def depth(self) -> int | None:
        """Moves of the players down to the limit; None if it is a cut, or the end of the game."""
        return None if self.schedule is None else self.schedule.depth

    @property
    def table(self) -> pd.DataFrame:
        """A row for every gadget, opponent and blueprint."""
        rows, schedule, knowledge = list[dict[str, Any]](), self.schedule, self.knowledge
        known = knowledge_columns(knowledge)
        if knowledge is not None:
            known["combine"] = knowledge.follow
        for lane in range(self.policy.num_lanes):
            rest, blueprint = divmod(lane, self.blueprint.num_lanes)
            number, opponent = divmod(rest, len(self.opponents))
            gadget = self.gadgets[number]
            row = lane_row(self, lane, gadget, self.blueprint.labels[blueprint])
            said = {
                "model": self.opponents.labels[opponent],
                "p": float(self.opponents.p[opponent]),
                "beyond": self.opponents.beyond[opponent],
                "limit": None if schedule is None else schedule.kind,
                "depth": self.depth,
                "step": None if schedule is None else schedule.step,
                "k": self.num_entries,
                "leaf": self.leaf,
                "gain": self.gain[lane],
                "best_response_gain": self.best_response_gain[lane],
                "exploitability_bound": self.exploitability_bound[lane],
                "objectives": self.objectives[:, lane].tolist(),
            }
            rows.append(row | known | said)
        return pd.DataFrame(rows)


def lane_row(searched: Nested | NestedHands, lane: int, gadget: Gadget, blueprint: str) -> dict[str, Any]:
    """A lane as a row of a table: of a search to the end of the game, against an opponent who adapts.

    Args:
      searched: what came out.
      lane: which.
      gadget: its gadget.
      blueprint: what its blueprint is called.
    """
    return {
        "player": searched.player,
        "blueprint": blueprint,
        "model": None,
        "p": 0.0,
        "beyond": "rational",
        "gadget": gadget.name,
        "prior": prior_name(gadget),
        "epsilon": gadget.epsilon,
        **knowledge_columns(None),
        "limit": "own",
        "depth": None,
        "step": 1,
        "k": 1,
        "leaf": "none",
        "algorithm": searched.algorithm,
        "iterations": int(searched.iterations[lane]),
        "blueprint_exploitability": searched.blueprint_exploitability[lane],
        "nested_exploitability": searched.nested_exploitability[lane],
        "gain": np.nan,
        "best_response_gain": np.nan,
        "exploitability": searched.nested_exploitability[lane],
        "exploitability_bound": np.nan,
        "objectives": [],
        "gap_max": searched.gap_max[lane],
        "searches": int(searched.searches[lane]),
        "seconds": searched.seconds[lane],
        "failure": searched.failures.get(lane),
    }


def nested_search(
    tree: HistoryTree,
    blueprint: PolicyLike | Sequence[PolicyLike],
    gadgets: Gadget | Sequence[Gadget] | None = None,
    *,
    values: ValueFunction | Sequence[ValueFunction] | RangeValues | OptimalValues | None = None,
    opponent: Opponent | Opponents | Sequence[Opponent] | None = None,
    knowledge: Knowledge | None = None,
    player: int = 0,
    depth: int | None = None,
    limit: CutSpec | None = None,
    step: int | None = None,
    algorithm: str | Rule = "cfr+",
    iterations: int = ITERATIONS,
    dtype: DTypeLike = "float32",
    value: tuple[float, float] | None = None,
    memory_limit: int | None = None,
    devices: Sequence[Device] | None = None,
    time_limit: float | None = None,
    visits: bool | None = None,
    progress: bool | None = None,
) -> Nested:
    """Searches at every decision that a player's own play reaches, and evaluates what comes out.

    The first search of a line of play is unsafe where the opponent has not acted (exact: its reach is 1);
    else it has the blueprint's range, and alternative values from best responses, down to the limit, to the
    blueprint continued by entry 0. Later ones take reach, range and values from the search before. Lookaheads
    end at the first decisions of the player at least `depth` moves down, or (`limit="moves"`) after exactly
    `depth` moves, whoever decides then. Large games call `jax.clear_caches`.

    Against an opponent who follows a model with probability p this is a continual depth-limited restricted
    Nash response, or with p = 1 a best response (Milec, Kubíček and Lisý 2024). `OptimalContinuation` then
    searches all subgames of a level jointly, which is safe, and is what is done by default; other gadgets
    search each by itself, which assembled is not.

    With `knowledge` a player searches from each own infostate by itself, by what it knows there up to an
    order. Of its play at other infostates it believes what its own search before found, wherever that one was
    free, and else the blueprint of that search (`follow="believed"`), or what the searches from there found
    (`assembled`). In lookaheads what is frozen goes on as the blueprint, which is entry 0 at the limit. None
    of it is safe, and no bound is known. At order `math.inf` it is the search from public states.

    With values of ranges search is DeepStack's: from the game's root down to `limit`, then again in the
    public states there, to the end, with the opponent's values of the search above.

    Args:
      tree: the game's histories.
      blueprint: profiles, as in `refine`; what search does not reach stays theirs.
      gadgets: by default those of `refine` (with ε of 1e-3; the paper's nested solving has 2e-2); with an
        opponent, or with optimal values, `OptimalContinuation(NoPrior())`.
      values: at the limit; one value function, or one for each blueprint; `OptimalValues()`; or range values.
        By default there is no limit: every search goes on to the end of the game.
      opponent: one or several, each with models and p; by default one who adapts.
      knowledge: search from own infostates in place of public states, with values of histories or to the end;
        for gadgets that look neither at the trunk nor at the optimal continuation, and without `opponent`.
      player: who searches, 0 or 1.
      depth: D, moves of the players down to the limit, by default 1; not for range values, or without values.
      limit: `own` (by default) or `moves`; for range values, the cut where lookaheads end, by default
        the one that a network is for.
      step: how much of a search's plan is played before the next search: own decisions (by default 1), or
        with `limit="moves"` moves, at most and by default D.
      algorithm: a regret-matching rule, as in `refine`; with optimal values also `lp`.
      iterations: of every search.
      dtype: of the solves.
      value: bracket of player 0's value of the game, if known; else `game_value(tree)`.
      memory_limit: bytes a solve may take on each device: subgames go part by part.
      devices: over which lanes are spread.
      time_limit: in seconds, for each linear program.
      visits: count how often play gets to each leaf and pair of entries: K² numbers a leaf; by default for
        values of histories, for which alone it can be.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Raises:
      ValueError: for bad arguments, a value function that returns no numbers, gadgets that look at the
        trunk where nothing of it is known, or a game in which an infoset lies on both sides of a level.

    Warns:
      UserWarning: of range values that are not to be relied on, such as a network that is not finished.
    """
    check_whole(tree)
    check_player(player)
    check_value(value, tree)
    profiles, optimal = as_policy(blueprint, tree, name="blueprint"), isinstance(values, OptimalValues)
    options = make_options(
        algorithm=algorithm,
        iterations=iterations,
        dtype=dtype,
        memory_limit=memory_limit,
        devices=devices,
        time_limit=time_limit,
        exact=optimal,
    )
    if gadgets is None and (opponent is not None or optimal):
        gadgets = OptimalContinuation(NoPrior())
    asked = no_auto(list_gadgets(gadgets, optimal, (player,)))
    opponents = list_opponents(Opponent() if opponent is None else opponent, tree, name="opponent")
    if knowledge is not None:
        _check_known(knowledge, asked, values, opponent)
    if visits and (optimal or _as_ranged(values) is not None):
        raise ValueError(
            f"visits=True for values={values!r}: visits are counted for values of histories alone; leave "
            "it out"
        )
    if (ranged := _as_ranged(values)) is not None:
        at_limit = getattr(ranged, "cut", None) if limit is None else limit
        if at_limit is None:
            raise ValueError(f"limit=None for values={ranged!r}: expected the cut where lookaheads end")
        if isinstance(at_limit, str) and at_limit in LIMIT_KINDS:
            raise ValueError(
                f"limit={at_limit!r} for values={ranged!r}: 'own' and 'moves' are for values of histories "
                "and optimal values; expected the cut where lookaheads end"
            )
        for name, given in (("depth", depth), ("step", step)):
            if given is not None:
                raise ValueError(
                    f"{name}={given!r} for values={ranged!r}: lookaheads end at a cut; expected limit=…"
                )
        warn_of_doubts([ranged])
        if opponent is not None:
            return _responded(profiles, asked, opponents, ranged, at_limit, player, options, value, progress)
        solving = {"algorithm": algorithm, "iterations": iterations, "dtype": dtype, "progress": progress}
        solving |= {"value": value, "memory_limit": memory_limit, "devices": devices}
        check_lanes(ranged, profiles.num_lanes)
        return _search_continually(profiles, asked, ranged, at_limit, player, solving)
    kind: Any = "own" if limit is None else limit
    if values is None and (depth is not None or kind != "own"):
        name, given = ("depth", depth) if depth is not None else ("limit", limit)
        raise ValueError(
            f"{name}={given!r} without values: searches then go on to the end of the game; expected values "
            f"at the limit, or no {name}"
        )
    schedule = make_schedule(tree, player, 1 if depth is None and values is not None else depth, kind, step)
    if value is None:
        value = find_value(tree, options.rule is None, progress, time_limit=time_limit)
    if isinstance(values, OptimalValues):
        return _optimal(profiles, asked, opponents, schedule, options, value, progress)
    at_limit = _NoLimit() if values is None else values
    of_histories = values_for(cast("ValueFunction | Sequence[ValueFunction]", at_limit), profiles)
    searched = _entries(
        profiles, asked, opponents, of_histories, schedule, options, visits is not False, progress, knowledge
    )
    return _measured(profiles, asked, opponents, schedule, value, searched, knowledge)


class _NoLimit:
    """What stands for values where there is no limit to ask for any."""

    name, num_entries = "none", 1

    def __call__(self, tree: HistoryTree, histories: IntArray) -> FloatArray:
        """See `ValueFunction`."""
        raise AssertionError(f"values were asked for at {len(histories)} histories of a search to the end")


def _check_known(knowledge: Knowledge, gadgets: Sequence[Gadget], values: Any, opponent: Any) -> None:
    """ValueError unless search can be from own infostates."""
    if isinstance(values, OptimalValues) or _as_ranged(values) is not None:
        raise ValueError(
            f"knowledge with values={values!r}: these are of public states, of which searches from own "
            "infostates have parts; expected values of histories, or none for searches to the end of the game"
        )
    check_knowledge(knowledge, gadgets, opponent)
    if knowledge.generate is not None:
        raise ValueError(
            f"generate={knowledge.generate!r}: nested search considers all infostates; leave it out"
        )


def nested_exactly(
    tree: HistoryTree,
    blueprint: PolicyLike | Sequence[PolicyLike] | None = None,
    gadgets: Gadget | Sequence[Gadget] | None = None,
    *,
    opponent: Opponent | Opponents | Sequence[Opponent] | None = None,
    player: int = 0,
    depth: int = 1,
    limit: str = "moves",
    step: int | None = None,
    value: tuple[float, float] | None = None,
    time_limit: float | None = None,
    progress: bool | None = None,
) -> Nested:
    """Nested search by linear programs, with optimal values at its limits: for small games.

    Every step is solved exactly, so that `Nested.objectives` are those of the definitions.

    Args:
      tree: the game's histories.
      blueprint: profiles, as in `nested_search`; uniform by default. A joint search plays it nowhere.
      gadgets: by default `OptimalContinuation(NoPrior())`, joint levels.
      opponent: see `nested_search`; this and what follows.
      player: who searches, 0 or 1.
      depth: D.
      limit: `moves` or `own`.
      step: between two searches.
      value: bracket of player 0's value of the game, if known.
      time_limit: in seconds, for each linear program.
      progress: as in `nested_search`.

    Raises:
      ValueError: as `nested_search`.
    """
    return nested_search(
        tree,
        Policy.uniform(tree) if blueprint is None else blueprint,
        gadgets,
        values=OptimalValues(),
        opponent=opponent,
        player=player,
        depth=depth,
        limit=limit,
        step=step,
        algorithm=LP,
        value=value,
        time_limit=time_limit,
        progress=progress,
    )


def no_auto(gadgets: tuple[Gadget, ...]) -> tuple[Gadget, ...]:
    """Gadgets, none of which asks for an ε that is to be found."""
    for gadget in gadgets:
        if gadget.epsilon == AUTO:
            raise ValueError(
                f"epsilon='auto' for {gadget.name}: nested search takes a number; expected one in [0, 1)"
            )
    return gadgets


def _as_ranged(values: Any) -> RangeValues | None:
    """Range values, unless they are values of histories; ValueError for several of them."""
    if isinstance(values, list | tuple) and any(_as_ranged(function) is not None for function in values):
        raise ValueError(
            f"values={values!r}: expected a single object for range values, which serves all blueprints; "
            "several are for values of histories"
        )
    if callable(values) and not hasattr(values, "num_entries"):
        return cast(RangeValues, values)
    return None


def _optimal(
    profiles: Policy,
    gadgets: tuple[Gadget, ...],
    opponents: Opponents,
    schedule: Schedule,
    options: SolveOptions,
    value: tuple[float, float],
    progress: bool | None,
) -> Nested:
    """Searches with optimal values below the limit: gadgets that go together, one kind after the other."""
    groups, lines = group_gadgets(gadgets), list[OptimalLine]()
    work = len(schedule.levels) * options.iterations
    with progress_bar("nested search", len(groups) * work, progress) as report:
        for number, group in enumerate(groups):
            line = OptimalLine(profiles, [gadgets[k] for k in group], opponents, schedule, options)
            line.run(lambda done, before=number * work: report(before + done))
            lines.append(line)
    count = len(opponents) * profiles.num_lanes
    order = np.concatenate([number * count + np.arange(count) for group in groups for number in group])
    back = np.argsort(order)

    def joined(arrays: Sequence[Any]) -> Any:
        return np.concatenate(arrays, axis=-1)[..., back]

    failures = {
        int(order[lane + sum(len(before.gadgets) for before in lines[:number])]): why
        for number, line in enumerate(lines)
        for lane, why in line.failures.items()
    }
    gaps = joined([np.where(line.is_joint and _exact(line), line.gap_sum, np.nan) for line in lines])
    searched = _searched_by(lines, joined, failures, OptimalValues.name)
    searched = dataclasses.replace(searched, gaps=gaps)
    return _measured(profiles, gadgets, opponents, schedule, value, searched)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _AllSearches:
    """What searches brought, in all lanes; as in `Nested` where nothing else is said.

    Attributes:
      rows: `[Q, lanes]` of the player who searched.
      gaps: `[lanes]` all games' gaps together, NaN where they bound nothing; None: everywhere.
      objectives: None if no search has any.
      num_entries: 1 where values at the limit leave no choice.
      value_seconds: NaN where searches and their values take their time together.
    """

    player: int
    rows: FloatArray
    gap_max: FloatArray
    failures: Mapping[int, str]
    leaf: str
    searches: IntArray
    algorithm: str
    iterations: IntArray
    seconds: FloatArray
    gaps: FloatArray | None = None
    objectives: FloatArray | None = None
    num_entries: int = 1
    value_seconds: float = float("nan")
    visits: tuple[Visits, ...] = ()


def _searched_by(
    lines: Sequence[Line] | Sequence[OptimalLine],
    joined: Callable[[Sequence[Any]], Any],
    failures: Mapping[int, str],
    leaf: str,
) -> _AllSearches:
    """What lines of searches brought; `joined` puts arrays `[…, a line's lanes]` in order of all lanes."""
    player = lines[0].player

    def seconds_a_lane(line: Line | OptimalLine) -> FloatArray:
        lanes = len(line.gap_max)
        return np.full(lanes, line.seconds / lanes)

    return _AllSearches(
        player=player,
        rows=joined([line.assembled.probabilities[player] for line in lines]),
        gap_max=joined([line.gap_max for line in lines]),
        failures=failures,
        leaf=leaf,
        searches=joined([line.searches for line in lines]),
        algorithm=lines[0].options.algorithm,
        iterations=joined([line.iterations for line in lines]),
        seconds=joined([seconds_a_lane(line) for line in lines]),
        objectives=joined([line.objectives for line in lines]),
    )


def _searched_below(
    trunk: LimitedTrunk,
    below: Refinement | Searched,
    policy: Policy,
    player: int,
    values: RangeValues,
    algorithm: str,
    seconds: float,
) -> _AllSearches:
    """What a search to a cut, with values of ranges there, and searches below it brought."""
    lanes = policy.num_lanes
    return _AllSearches(
        player=player,
        rows=policy.probabilities[player],
        gap_max=np.nanmax(below.gap, axis=0, initial=0.0),
        failures=below.failures,
        leaf=f"{getattr(values, 'name', type(values).__name__)} at {trunk.limit.cut.name}",
        searches=1 + below.has_decision.sum(axis=0),
        algorithm=algorithm,
        iterations=np.maximum(below.iterations, trunk.iterations),
        seconds=np.full(lanes, seconds / lanes),
    )


def _exact(line: OptimalLine) -> BoolArray:
    """`[lanes]` whether the opponent may do as it likes: mistakes that it must make are no bound's."""
    return np.array([gadget.epsilon == 0 for gadget in line.gadgets])


def _measured(
    profiles: Policy,
    gadgets: tuple[Gadget, ...],
    opponents: Opponents,
    schedule: Schedule | None,
    value: tuple[float, float],
    searched: _AllSearches,
    knowledge: Knowledge | None = None,
) -> Nested:
    """What was found, in the full game.

    Args:
      profiles: the blueprints.
      gadgets: the gadgets.
      opponents: the opponents.
      schedule: of the searches; None if these ended at a cut.
      value: bracket of player 0's value of the game.
      searched: what searches brought.
      knowledge: what the player was to know.
    """
    player, rows = searched.player, searched.rows
    other, count = 1 - player, len(gadgets) * len(opponents)
    kept = np.tile(profiles.probabilities[other], (1, count))
    labels = tuple(
        " | ".join(filter(None, (label, describe(gadget), against)))
        for gadget in gadgets
        for against in map(opponents.describe, range(len(opponents)))
        for label in profiles.labels
    )
    policy = Policy(profiles.tree, (rows, kept) if player == 0 else (kept, rows), labels)
    of_lane = np.tile(np.repeat(np.arange(len(opponents)), profiles.num_lanes), len(gadgets))
    after = exploitability(policy, player, value=value)
    gain = gain_against(policy, opponents, of_lane, player, value)
    best_gain = best_gain_against(opponents, player, value)[of_lane]
    lanes = policy.num_lanes
    gaps = np.full(lanes, np.nan) if searched.gaps is None else searched.gaps
    bound = mixture_bound(gain, opponents.p[of_lane], gaps, value)
    objectives = np.zeros((0, lanes)) if searched.objectives is None else searched.objectives
    for measured in (after, gain, searched.gap_max, bound, objectives.T):
        measured[list(searched.failures)] = np.nan
    return Nested(
        player=player,
        blueprint=profiles,
        gadgets=gadgets,
        opponents=opponents,
        schedule=schedule,
        policy=policy,
        blueprint_exploitability=np.tile(exploitability(profiles, player, value=value), count),
        nested_exploitability=after,
        gain=gain,
        best_response_gain=best_gain,
        exploitability_bound=bound,
        objectives=objectives,
        gap_max=searched.gap_max,
        num_entries=searched.num_entries,
        leaf=searched.leaf,
        game_value=value,
        searches=searched.searches,
        algorithm=searched.algorithm,
        iterations=searched.iterations,
        seconds=searched.seconds,
        value_seconds=searched.value_seconds,
        visits=searched.visits,
        failures=searched.failures,
        knowledge=knowledge,
    )


def _entries(
    profiles: Policy,
    gadgets: tuple[Gadget, ...],
    opponents: Opponents,
    values: Sequence[ValueFunction],
    schedule: Schedule,
    options: SolveOptions,
    visits: bool,
    progress: bool | None,
    knowledge: Knowledge | None,
) -> _AllSearches:
    """Searches with values of histories at the limit, blueprint by blueprint."""
    lines, levels = list[Line](), schedule.levels
    work = sum(level.num_subgames for level in levels) * options.iterations
    with progress_bar("nested search", profiles.num_lanes * work, progress) as report:
        for number, function in enumerate(values):
            line = Line(
                profiles.lane(number),
                gadgets,
                function,
                schedule,
                options,
                visits=visits,
                opponents=opponents,
                knowledge=knowledge,
            )
            line.run(lambda done, before=number * work: report(before + done))
            lines.append(line)
    first, blueprints = lines[0], profiles.num_lanes
    lanes = len(gadgets) * len(opponents)

    def by_lane(arrays: Sequence[Any]) -> Any:
        """Arrays `[…, gadgets × opponents]`, one a blueprint → `[…, gadgets × opponents × blueprints]`."""
        stacked = np.stack(arrays, axis=-1)
        return stacked.reshape(*stacked.shape[:-2], lanes * blueprints)

    failures = {
        lane * blueprints + number: why
        for number, line in enumerate(lines)
        for lane, why in line.failures.items()
    }
    leaf = getattr(first.values, "name", type(first.values).__name__)
    return dataclasses.replace(
        _searched_by(lines, by_lane, failures, leaf),
        num_entries=first.values.num_entries,
        value_seconds=sum(line.value_seconds for line in lines),
        visits=tuple(_join_visits(line) for line in lines),
    )


def _search_continually(
    profiles: Policy,
    gadgets: tuple[Gadget, ...],
    values: RangeValues,
    limit: CutSpec,
    player: int,
    solving: dict[str, Any],
) -> Nested:
    """Continual re-solving with values of ranges."""
    with (watch := Stopwatch()).phase("run"):
        trunk, refined = resolve_continually(profiles, gadgets, values, limit, player, **solving)
    nobody = list_opponents(Opponent(), profiles.tree)
    searched = _searched_below(
        trunk, refined, refined.policy, player, values, refined.algorithm, watch.seconds["run"]
    )
    return _measured(profiles, gadgets, nobody, None, refined.game_value, searched)


def _responded(
    profiles: Policy,
    gadgets: tuple[Gadget, ...],
    opponents: Opponents,
    values: RangeValues,
    limit: CutSpec,
    player: int,
    options: SolveOptions,
    value: tuple[float, float] | None,
    progress: bool | None,
) -> Nested:
    """Continual responses with values of ranges."""
    with (watch := Stopwatch()).phase("run"):
        trunk, policy, searched = respond_continually(
            profiles, gadgets, opponents, values, limit, player, options, progress
        )
    value = find_value(profiles.tree, False, progress) if value is None else value
    brought = _searched_below(
        trunk, searched, policy, player, values, options.algorithm, watch.seconds["run"]
    )
    return _measured(profiles, gadgets, opponents, None, value, brought)


def _join_visits(line: Line) -> Visits:
    """Of all searches of a line; none of a player who never acts."""
    size = line.values.num_entries
    none = Visits(np.zeros(0, np.int64), np.zeros((0, size, size)))
    return Visits(*map(np.concatenate, zip(none, *(line.visits or ()), strict=True)))
