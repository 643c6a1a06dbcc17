"""Solves the gadget games of a forest, one kind of gadget after the other, all lanes of a kind at once."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from jaxgadget.evaluate import normalise_rows, to_parts
from jaxgadget.files import make_folder
from jaxgadget.games.game import BoolArray, FloatArray
from jaxgadget.policy import Policy
from jaxgadget.progress import progress_bar
from jaxgadget.solve import forest as on_device
from jaxgadget.solve.clock import Stopwatch
from jaxgadget.solve.drive import drive, precision
from jaxgadget.solve.exactly import HostGames, solve_lanes, to_host
from jaxgadget.solve.gadget import AUTO, Gadget, Layout
from jaxgadget.solve.prior import NoPrior
from jaxgadget.solve.problem import Parts
from jaxgadget.solve.ranges import Ranges
from jaxgadget.solve.regret import Rule
from jaxgadget.solve.structure import (
    Structure,
    blueprint_ranges,
    blueprint_values,
    build_structure,
    build_trunk_structure,
    pad_rows,
    trunk_ranges,
)
from jaxgadget.solver import LP
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.trunk import Trunk, build_trunk


@dataclasses.dataclass(frozen=True)
class Settings:
    """How every kind of gadget is solved; see `jaxgadget.refine`. No rule: linear programs."""

    rule: Rule | None
    dtype: np.dtype[Any]
    iterations: int
    target_gap: float | None
    check_every: int
    checkpoint: str | os.PathLike[str] | None
    time_limit: float | None = None

    @property
    def algorithm(self) -> str:
        """The rule's name, or `lp`."""
        return LP if self.rule is None else self.rule.name

    @property
    def folder(self) -> pathlib.Path | None:
        """Where checkpoints are."""
        return None if self.checkpoint is None else pathlib.Path(self.checkpoint)


@dataclasses.dataclass(frozen=True, eq=False)
class Prepared:
    """What comes before a gadget, in float64.

    Attributes:
      forest: the subgames.
      trunk: what lies above them, if a gadget needs it.
      structure: the forest on the device.
      strategy: both players' blueprints below the cut.
      ranges: what the blueprints bring.
    """

    forest: Forest
    trunk: Trunk | None
    structure: Structure
    strategy: tuple[Parts, Parts]
    ranges: Ranges


def prepare(forest: Forest, player: int, blueprint: Policy, gadgets: Iterable[Gadget] = ()) -> Prepared:
    """Puts a forest and blueprints on the device.

    Args:
      forest: the subgames.
      player: who re-solves.
      blueprint: profiles of the forest's game, a lane each.
      gadgets: what is asked for; they say what they need.
    """
    needs = frozenset[str]().union(*(gadget.needs for gadget in gadgets))
    trunk = build_trunk(forest) if "trunk" in needs else None
    with precision(np.float64):
        structure = build_structure(forest, player, np.float64)
        strategy = to_parts(forest.form, blueprint, np.float64)
        reach = _root_reach(forest, blueprint)
        ranges = blueprint_ranges(structure, strategy, reach)
        if "played" in needs:
            ranges = dataclasses.replace(ranges, played=blueprint_values(structure, strategy, reach))
        if trunk is not None:
            own = blueprint.reach(player)[trunk.sequences(player)]
            theirs = blueprint.probabilities[1 - player][trunk.form.action_sequences(1 - player) - 1]
            above = build_trunk_structure(trunk, forest, player, np.float64)
            found = trunk_ranges(above, jax.device_put(own), jax.device_put(theirs))
            ranges = dataclasses.replace(ranges, trunk=found)
    return Prepared(forest, trunk, structure, strategy, ranges)


def _root_reach(forest: Forest, blueprint: Policy) -> tuple[jax.Array, jax.Array]:
    """Both players' own reach of their roots, `[R, lanes]`, 0 for padding."""
    first, second = (
        pad_rows(blueprint.reach(p)[forest.roots[p].sequence], forest.form.treeplex[p].num_roots, 0)
        for p in (0, 1)
    )
    return jax.device_put(first), jax.device_put(second)


@dataclasses.dataclass(frozen=True)
class Lanes:
    """Results of one gadget for all blueprints, `[…, num_blueprints]`; rows of missing games are NaN."""

    strategy: FloatArray
    value: FloatArray
    gap: FloatArray
    live: BoolArray
    bound: FloatArray
    epsilon: FloatArray
    iterations: npt.NDArray[np.int64]


class Batch:
    """Collects the results of one kind of gadget after the other."""

    def __init__(self, prepared: Prepared, blueprint: Policy, settings: Settings, watch: Stopwatch):
        self.prepared, self.blueprint = prepared, blueprint
        self.settings, self.watch = settings, watch
        if settings.folder is not None:
            make_folder(settings.folder)
        self.lanes: dict[int, Lanes] = {}

    def solve_all(self, gadgets: tuple[Gadget, ...], progress: bool | None) -> None:
        """Solves one kind of gadget after the other, or one gadget after the other by linear programs."""
        if self.settings.rule is None:
            self._solve_exactly(gadgets, progress)
            return
        kinds = list(dict.fromkeys(type(gadget) for gadget in gadgets))
        iterations = self.settings.iterations
        with progress_bar("refining", iterations * len(kinds), progress) as report:
            for number, kind in enumerate(kinds):
                places = [i for i, gadget in enumerate(gadgets) if type(gadget) is kind]

                def told(done: int, before: int = number * iterations) -> None:
                    report(before + done)

                self._solve(self.settings.rule, [gadgets[i] for i in places], places, told)

    def _solve(
        self, rule: Rule, gadgets: Sequence[Gadget], places: Sequence[int], report: Callable[[int], None]
    ) -> None:
        """Solves one kind of gadget; `places` says which of the gadgets asked for these are."""
        how, here = self.settings, self.prepared
        with self.watch.phase("build"), precision(np.float64):
            games, layout = on_device.build_games(
                here.forest, here.structure, here.ranges, gadgets, np.float64, here.trunk
            )
            problem = on_device.in_precision(games.problem, how.dtype)
        with self.watch.phase("run"), precision(how.dtype):
            state = drive(
                problem,
                rule,
                iterations=how.iterations,
                target_gap=how.target_gap,
                check_every=how.check_every,
                checkpoint=None if how.folder is None else how.folder / f"{gadgets[0].name}.npz",
                report=report,
            )
        with self.watch.phase("run"), precision(np.float64):
            total = on_device.cast(state.strategy_sum, np.float64)
            blueprint = here.strategy[here.structure.player].body
            found = on_device.conclude(games, total, blueprint, kind=type(gadgets[0]))
        done = np.full(self.blueprint.num_lanes, int(state.iteration))
        epsilon = np.asarray(games.epsilon)
        self._keep(gadgets, places, found, np.asarray(games.live), layout.num_games, epsilon, done)

    def _solve_exactly(self, gadgets: tuple[Gadget, ...], progress: bool | None) -> None:
        """Solves all gadgets by linear programs, with the same certificates as CFR's."""
        labels, here = self.blueprint.labels, self.prepared
        blueprint = here.strategy[here.structure.player].body
        done = itertools.count(1)
        with progress_bar("refining", len(gadgets) * len(labels), progress) as report:
            for place, gadget in enumerate(gadgets):

                @functools.cache
                def games(
                    epsilon: float | None, gadget: Any = gadget
                ) -> tuple[on_device.GadgetGames, Layout]:
                    asked = gadget if epsilon is None else dataclasses.replace(gadget, epsilon=epsilon)
                    with self.watch.phase("build"), precision(np.float64):
                        return on_device.build_games(
                            here.forest, here.structure, here.ranges, [asked], np.float64, here.trunk
                        )

                @functools.cache
                def host(epsilon: float | None, games: Any = games) -> HostGames:
                    found, layout = games(epsilon)
                    return to_host(found, here.forest, layout)

                auto = gadget.epsilon == AUTO
                names = [f"{describe(gadget)} after blueprint {label!r}" for label in labels]
                with self.watch.phase("run"), precision(np.float64):
                    solved = solve_lanes(
                        host,
                        names,
                        np.asarray(blueprint),
                        auto=auto,
                        time_limit=self.settings.time_limit,
                        report=lambda: report(next(done)),
                    )
                    asked, layout = games(0.0 if auto else None)
                    found = on_device.certify(asked, solved.played, blueprint, kind=type(gadget))
                live, iterations = np.asarray(asked.live), solved.iterations.astype(np.int64)
                self._keep([gadget], [place], found, live, layout.num_games, solved.epsilon, iterations)

    def _keep(
        self,
        gadgets: Sequence[Gadget],
        places: Sequence[int],
        found: on_device.Conclusion,
        live: BoolArray,
        num_games: int,
        epsilon: FloatArray,
        iterations: npt.NDArray[np.int64],
    ) -> None:
        """Checks what was found and takes it apart by gadget."""
        count, trees = self.blueprint.num_lanes, self.prepared.forest.num_subgames
        value, gap, rise = (np.asarray(x)[:num_games] for x in (found.value, found.gap, found.rise))
        check_finite(gadgets, self.blueprint, value, gap, self.settings.dtype)
        gap = np.maximum(gap, 0)  # less is rounding
        bound, strategy = on_device.excess(gadgets, rise), np.asarray(found.strategy)
        missing = ((0, trees - num_games), (0, 0))
        value, gap = (np.pad(x, missing, constant_values=np.nan) for x in (value, gap))
        for number, place in enumerate(places):
            mine = slice(number * count, (number + 1) * count)
            self.lanes[place] = Lanes(
                strategy=strategy[:, mine],
                value=value[:, mine],
                gap=gap[:, mine],
                live=live[:trees, mine],
                bound=bound[mine],
                epsilon=epsilon[mine],
                iterations=iterations,
            )

    def policy(self, gadgets: Sequence[Gadget]) -> Policy:
        """The blueprints with the strategies found spliced in, lanes over gadgets, then blueprints."""
        forest, player = self.prepared.forest, self.prepared.structure.player
        before = Policy.stack([self.blueprint] * len(gadgets))
        strategy = np.concatenate([self.lanes[i].strategy for i in range(len(gadgets))], axis=1)
        rows = before.probabilities[player].copy()
        sequence = forest.form.action_sequences(player)
        rows[sequence[sequence >= 0] - 1] = strategy[sequence >= 0]
        infosets = forest.tree.infosets[player]
        inside = np.isin(infosets.infoset[1:], forest.infosets(player))
        rows = np.where(inside[:, None], normalise_rows(rows, infosets.infoset[1:]), rows)
        other = before.probabilities[1 - player]
        labels = tuple(f"{label} | {describe(g)}" for g in gadgets for label in self.blueprint.labels)
        return Policy(forest.tree, (rows, other) if player == 0 else (other, rows), labels)


def check_finite(
    gadgets: Sequence[Gadget], blueprint: Policy, value: FloatArray, gap: FloatArray, dtype: np.dtype[Any]
) -> None:
    """ValueError if a solve overflowed, saying which."""
    bad = ~(np.isfinite(value) & np.isfinite(gap))
    if bad.any():
        subgame, lane = np.argwhere(bad)[0].tolist()
        number, label = divmod(lane, blueprint.num_lanes)
        remedy = "use dtype='float64'" if dtype == np.float32 else "give actions more probability"
        raise ValueError(
            f"{describe(gadgets[number])} after blueprint {blueprint.labels[label]!r}: the solve of subgame "
            f"{subgame} overflowed in {dtype}, because the blueprint reaches it with a probability near 0; "
            f"{remedy}"
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
    """What tables call a gadget's prior."""
    return getattr(gadget.prior, "name", type(gadget.prior).__name__)
