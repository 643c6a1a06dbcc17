"""Solves the gadget games of a forest: gadgets that share an entry at once, their lanes in chunks that fit.

Where not even one lane of the whole forest fits, its subgames are solved in parts.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jaxgadget.gadgets.gadget import AUTO, Gadget, Layout
from jaxgadget.gadgets.joint import group_gadgets, join
from jaxgadget.gadgets.prior import NoPrior
from jaxgadget.games.game import BoolArray, FloatArray, IntArray
from jaxgadget.kernels.regret import Rule
from jaxgadget.policy.evaluate import normalise_rows
from jaxgadget.policy.policy import Policy
from jaxgadget.policy.solve import LP
from jaxgadget.refining.prepare import Prepared, prepare
from jaxgadget.solving import forest as on_device
from jaxgadget.solving.alike import find_alike, stack, take
from jaxgadget.solving.checkpoint import load_chunk, save_chunk
from jaxgadget.solving.chunks import Loop, Solved, solve_chunks
from jaxgadget.solving.devices import HOME, Place
from jaxgadget.solving.drive import precision
from jaxgadget.solving.lp import solve_lanes
from jaxgadget.solving.memory import MANY_LANES, DoesNotFit, Plan, plan_ranges, plan_solve
from jaxgadget.solving.parts import has_array, load_parts, restrict, save_parts, separable, take_part
from jaxgadget.tree.forest import Forest
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.files import make_folder
from jaxgadget.util.progress import progress_bar

FEW_LANES = 8
"""With up to so many lanes that are solved together, subgames of equal shape become lanes."""

MANY_ITERATIONS = 10_000
"""From so many iterations on: side by side as 8 lanes, the flops of Leducs of 3 and 10 ranks took a tenth
less time than as one lane, and a quarter of a second longer to build."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """How gadgets are solved; see `jaxgadget.refine`. No rule: linear programs.

    Attributes:
      chunk: lanes to solve at once, whatever the memory and cores; by default what suits them.
    """

    rule: Rule | None
    dtype: np.dtype[Any]
    iterations: int
    target_gap: float | None
    check_every: int
    checkpoint: str | os.PathLike[str] | None
    time_limit: float | None = None
    memory_limit: int | None = None
    place: Place = HOME
    chunk: int | None = None

    @property
    def algorithm(self) -> str:
        """The rule's name, or `lp`."""
        return LP if self.rule is None else self.rule.name

    @property
    def folder(self) -> pathlib.Path | None:
        """Where checkpoints are."""
        return None if self.checkpoint is None else pathlib.Path(self.checkpoint)


@dataclasses.dataclass
class Lanes:
    """Results of one gadget for all blueprints, `[…, num_blueprints]`; rows of missing games are NaN.

    Attributes:
      strategy: `[actions of the tree, num_blueprints]` of the resolving player, 0 outside the subgames.
    """

    strategy: FloatArray
    value: FloatArray
    gap: FloatArray
    live: BoolArray
    bound: FloatArray
    epsilon: FloatArray
    iterations: npt.NDArray[np.int64]


class Planned(NamedTuple):
    """Gadgets that share an entry, over some subgames, about to be solved.

    Attributes:
      here: the subgames; several forests of equal shape, if they are lanes of one solve.
      subgames: their numbers in the whole forest.
      places: which of all gadgets these are.
      gadgets: the gadgets.
      lanes: their lanes.
      plan: how they are split.
      folder: of checkpoints.
    """

    here: tuple[Prepared, ...]
    subgames: tuple[IntArray, ...]
    places: Sequence[int]
    gadgets: Sequence[Gadget]
    lanes: on_device.KindLanes
    plan: Plan
    folder: pathlib.Path | None


class Batch:
    """Solves all gadgets over a forest and keeps the results by gadget."""

    def __init__(
        self,
        forest: Forest,
        player: int,
        blueprint: Policy,
        gadgets: tuple[Gadget, ...],
        settings: Settings,
        watch: Stopwatch,
    ):
        self.forest, self.player, self.blueprint, self.gadgets = forest, player, blueprint, gadgets
        self.settings, self.watch = settings, watch
        self.lanes: list[Lanes] = [self._nothing(gadget) for gadget in gadgets]
        self.plans: list[Plan] = []
        self.groups = group_gadgets(gadgets, settings.rule is None)
        self._whole: list[Planned] | None = None
        for gadget in gadgets:
            gadget.check(len(forest.roots[1 - player]), blueprint.num_lanes)

    def solve_all(self, progress: bool | None) -> None:
        """Solves one group of gadgets after the other, or one gadget after the other by linear programs."""
        rule, folder, iterations = self.settings.rule, self.settings.folder, self.settings.iterations
        if rule is None:
            self._solve_exactly(progress)
            return
        with self.watch.phase("build"):
            if folder is not None:
                make_folder(folder)
            parts = self._split(folder)
        total = len(parts) * len(self.groups)
        with progress_bar("refining", iterations * total, progress) as report:
            for part in parts:
                with self.watch.phase("build"):
                    planned = self._plan(part, parts)
                for one in planned:

                    def told(done: int, before: int = len(self.plans) * iterations) -> None:
                        report(before + done)

                    self._solve(rule, one, told)

    def _split(self, folder: pathlib.Path | None) -> list[IntArray]:
        """The subgames, in as few parts as fit, or as they were if some of this is done already."""
        everything = np.arange(self.forest.num_subgames)
        kept = None if folder is None else load_parts(folder, len(everything))
        if kept is not None:
            return kept
        parts = self._fitting(everything)
        if folder is not None:
            save_parts(folder, parts)
        return parts

    def _fitting(self, subgames: IntArray) -> list[IntArray]:
        try:
            self._plan(subgames, [subgames])
            return [subgames]
        except DoesNotFit:
            if len(subgames) == 1 or not separable(self.gadgets):
                raise
        middle = len(subgames) // 2
        return [*self._fitting(subgames[:middle]), *self._fitting(subgames[middle:])]

    def _plan(self, part: IntArray, parts: Sequence[IntArray]) -> list[Planned]:
        """Puts some subgames on the device and splits the lanes of every group of gadgets."""
        if self._whole is not None and len(part) == self.forest.num_subgames:
            return self._whole
        how = self.settings
        folder = how.folder
        if folder is not None and len(parts) > 1:
            folder /= f"subgames-{part[0]}-to-{part[-1]}"
        alike = self._alike(part)
        here = tuple(self._prepare(some) for some in alike)
        found: list[Planned] = []
        for places in self.groups:
            several = [self.gadgets[i] for i in places]
            lanes = self._lanes(here, several)
            if lanes is None:  # not as alike as they seemed
                alike = [part]
                here = (self._prepare(part),)
                lanes = self._lanes(here, several)
            assert lanes is not None
            chunk = how.chunk if folder is None else load_chunk(folder, lanes.kind.name, lanes.num_lanes)
            plan = plan_solve(lanes, how.dtype, memory_limit=how.memory_limit, chunk=chunk)
            found.append(Planned(here, tuple(alike), places, several, lanes, plan, folder))
        if len(part) == self.forest.num_subgames:
            self._whole = found
        return found

    def _alike(self, part: IntArray) -> list[IntArray]:
        """Some subgames, in parts of equal shape if that makes up for few lanes.

        A solve that may go on with more iterations is of one form whatever their number.
        """
        most = max(map(len, self.groups)) * self.blueprint.num_lanes
        if most > FEW_LANES or self.settings.iterations < MANY_ITERATIONS or self.settings.folder is not None:
            return [part]
        if (
            len(part) < self.forest.num_subgames
            or not separable(self.gadgets)
            or any(map(has_array, self.gadgets))
        ):
            return [part]
        return find_alike(self.forest)

    def _prepare(self, subgames: IntArray) -> Prepared:
        """Puts some subgames on the device."""
        how, forest = self.settings, take_part(self.forest, subgames)
        at_once = min(plan_ranges(forest, how.place, how.memory_limit), how.chunk or MANY_LANES)
        return prepare(forest, self.player, self.blueprint, self.gadgets, at_once=at_once)

    def _lanes(self, here: Sequence[Prepared], gadgets: Sequence[Gadget]) -> on_device.KindLanes | None:
        """The lanes of a group of gadgets; None if several forests are not of equal shape."""
        found: list[on_device.KindLanes] = []
        for one in here:
            mine = [restrict(gadget, self.forest, one.forest, self.player) for gadget in gadgets]
            fixed = (one.forest, one.structure, one.ranges)
            with precision(np.float64):
                place = self.settings.place
                found.append(on_device.build_kind(*fixed, join(mine), np.float64, one.trunk, place))
        if len(found) == 1:
            return found[0]
        with precision(np.float64):
            return stack(found, [one.forest for one in here])

    def _solve(self, rule: Rule, one: Planned, report: Callable[[int], None]) -> None:
        """Solves a group of gadgets."""
        how, folder, lanes, plan = self.settings, one.folder, one.lanes, one.plan
        loop = Loop(rule, how.dtype, how.iterations, how.target_gap, how.check_every)
        if folder is not None:
            make_folder(folder)
            save_chunk(folder, lanes.kind.name, lanes.num_lanes, plan.chunk)
        with self.watch.phase("run"):
            rows = np.concatenate([here.rows for here in one.here], axis=1)
            solved = solve_chunks(lanes, plan, rows, loop, folder=folder, report=report)
        self.plans.append(plan)
        for number, (here, subgames) in enumerate(zip(one.here, one.subgames, strict=True)):
            mine, epsilon = take((solved, lanes.epsilon), number, len(one.here), self.blueprint.num_lanes)
            self._keep(here, subgames, one.places, mine, lanes.layout.num_games, epsilon)

    def _solve_exactly(self, progress: bool | None) -> None:
        """Solves all gadgets by linear programs, with the same certificates as CFR's."""
        labels = self.blueprint.labels
        with self.watch.phase("build"):
            here = prepare(self.forest, self.player, self.blueprint, self.gadgets)
        done = itertools.count(1)
        with progress_bar("refining", len(self.gadgets) * len(labels), progress) as report:
            for place, gadget in enumerate(self.gadgets):

                @functools.cache
                def games(
                    epsilon: float | None, gadget: Any = gadget
                ) -> tuple[on_device.GadgetGames, Layout]:
                    asked = gadget if epsilon is None else dataclasses.replace(gadget, epsilon=epsilon)
                    with self.watch.phase("build"), precision(np.float64):
                        return on_device.build_games(
                            here.forest, here.structure, here.ranges, [asked], np.float64, here.trunk
                        )

                auto = gadget.epsilon == AUTO
                names = [f"{describe(gadget)} after blueprint {label!r}" for label in labels]
                with self.watch.phase("run"), precision(np.float64):
                    programs = solve_lanes(
                        lambda epsilon, games=games: games(epsilon)[0].problem,
                        range(len(labels)),
                        names,
                        here.rows,
                        auto=auto,
                        time_limit=self.settings.time_limit,
                        report=lambda: report(next(done)),
                    )
                    asked, layout = games(0.0 if auto else None)
                    found = on_device.certify(asked, programs.played, here.rows, kind=type(gadget))
                solved = Solved(found, np.asarray(asked.live), programs.iterations.astype(np.int64))
                everything = np.arange(self.forest.num_subgames)
                epsilon = np.asarray(asked.epsilon) if programs.epsilon is None else programs.epsilon
                self._keep(here, everything, [place], solved, layout.num_games, epsilon)

    def _nothing(self, gadget: Gadget) -> Lanes:
        """Before any subgame is solved."""
        count, trees = self.blueprint.num_lanes, self.forest.num_subgames
        actions = self.forest.tree.infosets[self.player].num_sequences - 1
        return Lanes(
            strategy=np.zeros((actions, count)),
            value=np.full((trees, count), np.nan),
            gap=np.full((trees, count), np.nan),
            live=np.zeros((trees, count), np.bool_),
            bound=np.full(count, {None: np.nan, "sum": 0.0, "max": -np.inf}[gadget.bound]),
            epsilon=np.zeros(count),
            iterations=np.zeros(count, np.int64),
        )

    def _keep(
        self,
        here: Prepared,
        subgames: IntArray,
        places: Sequence[int],
        solved: Solved,
        num_games: int,
        epsilon: FloatArray,
    ) -> None:
        """Checks what was found in some subgames and takes it apart by gadget."""
        count, gadgets = self.blueprint.num_lanes, [self.gadgets[place] for place in places]
        value, gap, rise = (
            np.asarray(x)[:num_games] for x in (solved.found.value, solved.found.gap, solved.found.rise)
        )
        check_finite(gadgets, self.blueprint, subgames, value, gap, self.settings.dtype)
        bound = on_device.excess(gadgets, rise)
        sequence = here.forest.form.action_sequences(self.player)
        for number, place in enumerate(places):
            mine, lanes = slice(number * count, (number + 1) * count), self.lanes[place]
            lanes.strategy[sequence[sequence >= 0] - 1] = np.asarray(solved.found.strategy)[
                sequence >= 0, mine
            ]
            lanes.value[subgames[:num_games]] = value[:, mine]
            lanes.gap[subgames[:num_games]] = np.maximum(gap[:, mine], 0)  # less is rounding
            lanes.live[subgames] = solved.live[: len(subgames), mine]
            both = np.add if gadgets[number].bound == "sum" else np.maximum
            lanes.bound = both(lanes.bound, bound[mine])
            lanes.epsilon = epsilon[mine]
            lanes.iterations = np.maximum(lanes.iterations, solved.iterations[mine])

    def policy(self) -> Policy:
        """The blueprints with the strategies found spliced in, lanes over gadgets, then blueprints."""
        tree, player = self.forest.tree, self.player
        before = Policy.stack([self.blueprint] * len(self.gadgets))
        infosets = tree.infosets[player]
        inside = np.isin(infosets.infoset[1:], self.forest.infosets(player))
        strategy = np.concatenate([lanes.strategy for lanes in self.lanes], axis=1)
        rows = np.where(inside[:, None], strategy, before.probabilities[player])
        rows = np.where(inside[:, None], normalise_rows(rows, infosets.infoset[1:]), rows)
        other = before.probabilities[1 - player]
        labels = tuple(f"{label} | {describe(g)}" for g in self.gadgets for label in self.blueprint.labels)
        return Policy(tree, (rows, other) if player == 0 else (other, rows), labels)


def check_finite(
    gadgets: Sequence[Gadget],
    blueprint: Policy,
    subgames: IntArray,
    value: FloatArray,
    gap: FloatArray,
    dtype: np.dtype[Any],
) -> None:
    """ValueError if a solve overflowed, saying which."""
    bad = ~(np.isfinite(value) & np.isfinite(gap))
    if bad.any():
        subgame, lane = np.argwhere(bad)[0].tolist()
        number, label = divmod(lane, blueprint.num_lanes)
        remedy = "use dtype='float64'" if dtype == np.float32 else "give actions more probability"
        raise ValueError(
            f"{describe(gadgets[number])} after blueprint {blueprint.labels[label]!r}: the solve of subgame "
            f"{subgames[subgame]} overflowed in {dtype}, because the blueprint reaches it with a probability "
            f"near 0; {remedy}"
        )


def describe(gadget: Gadget) -> str:
    """A gadget in a few words, as in the labels of refined policies."""
    parts = [gadget.name]
    if not isinstance(gadget.prior, NoPrior):
        epsilon = gadget.epsilon if isinstance(gadget.epsilon, str) else f"{gadget.epsilon:g}"
        parts.append(f"{prior_name(gadget)} prior, epsilon {epsilon}")
    usual = {"alternative": "best-response", "gifts": "lower-bound"}
    parts += [f"{what} {how}" for what, how in gadget.settings.items() if usual.get(what) != how]
    return ", ".join(parts)


def prior_name(gadget: Gadget) -> str:
    """What tables call a gadget's prior: its name, and its numbers where they are not the usual ones."""
    prior: Any = gadget.prior
    parts = [getattr(prior, "name", type(prior).__name__)]
    for field in dataclasses.fields(prior) if dataclasses.is_dataclass(prior) else ():
        value = getattr(prior, field.name)
        if isinstance(value, int | float) and value != field.default:
            parts.append(f"{field.name} {value:g}")
    return ", ".join(parts)
