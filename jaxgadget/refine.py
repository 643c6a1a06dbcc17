"""The main job: every subgame below a cut, re-solved for many blueprints and gadgets at once.

Cut → forest → gadget games → CFR → strategies spliced back, with exact exploitabilities
before and after and a certificate for every one. All certificates are in float64.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
import pandas as pd
from jax.typing import DTypeLike

from jaxgadget.evaluate import (
    check_player,
    check_value,
    exploitability,
    game_value,
    normalise_rows,
    to_parts,
)
from jaxgadget.files import make_folder
from jaxgadget.games.game import BoolArray, FloatArray
from jaxgadget.policy import Policy
from jaxgadget.progress import progress_bar
from jaxgadget.solve import forest as on_device
from jaxgadget.solve.clock import Stopwatch
from jaxgadget.solve.drive import check_dtype, check_limits, drive, precision
from jaxgadget.solve.gadget import DEFAULT_EPSILON, Gadget, MaxMargin, Resolving, Unsafe
from jaxgadget.solve.prior import BlueprintPrior, NoPrior, UniformPrior
from jaxgadget.solve.regret import Rule, find_rule
from jaxgadget.tree.cut import CutSpec, cut
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree


def default_gadgets(epsilon: float = DEFAULT_EPSILON) -> tuple[Gadget, ...]:
    """Unsafe, and resolving and max-margin without, with a uniform and with a blueprint prior."""
    priors = (NoPrior(), UniformPrior(), BlueprintPrior())
    kinds = (Resolving, MaxMargin)
    return (Unsafe(), *(kind(prior, epsilon) for kind in kinds for prior in priors))


@dataclasses.dataclass(frozen=True, eq=False)
class Refinement:
    """Blueprints with all subgames of one player re-solved.

    Lanes run over gadgets, then blueprints: `lane = gadget * num_blueprints + blueprint`.
    S subgames; everything is in the resolving player's utility, in units of the game's payoff.

    Attributes:
      forest: the subgames.
      player: who re-solved.
      blueprint: the blueprints.
      gadgets: what was solved.
      policy: the refined policies, a lane each.
      blueprint_exploitability: `[lanes]` the game's value less what the blueprint guarantees.
      refined_exploitability: `[lanes]` the same after refinement.
      exploitability_bound: `[lanes]` what the certificate guarantees, NaN where nothing is.
      gadget_value: `[S, lanes]` what the refined strategy guarantees in each gadget game.
      gap: `[S, lanes]` NashConv of each gadget game; its optimum lies in [value, value + gap].
      live: `[S, lanes]` False where a subgame had nothing to solve and the blueprint stayed.
      game_value: bracket of player 0's value of the game.
      algorithm: the rule's name.
      iterations: for every lane, iterations done.
      seconds: `build`, `compile` and `run`.
    """

    forest: Forest
    player: int
    blueprint: Policy
    gadgets: tuple[Gadget, ...]
    policy: Policy
    blueprint_exploitability: FloatArray
    refined_exploitability: FloatArray
    exploitability_bound: FloatArray
    gadget_value: FloatArray
    gap: FloatArray
    live: BoolArray
    game_value: tuple[float, float]
    algorithm: str
    iterations: npt.NDArray[np.int64]
    seconds: dict[str, float]

    @property
    def num_subgames(self) -> int:
        """Subgames below the cut."""
        return self.forest.num_subgames

    @property
    def message(self) -> str:
        """How far the solve got, and what to do about it, in a sentence."""
        worst = float(self.gap.max(initial=0.0))
        share = worst / self.forest.tree.payoff_range
        left = int((~self.live).sum())
        skipped = f"; {left} subgame solves had nothing to solve and kept the blueprint" if left else ""
        advice = "" if share <= 1e-2 else "; increase iterations, or use float64, to close it"
        return f"largest gap {worst:.3g} after {int(self.iterations.max())} iterations{advice}{skipped}"

    @property
    def table(self) -> pd.DataFrame:
        """A row for every gadget and blueprint; NaN where a number is not defined."""
        count = self.blueprint.num_lanes
        rows: list[dict[str, Any]] = []
        for lane in range(self.policy.num_lanes):
            gadget = self.gadgets[lane // count]
            value, gap = self.gadget_value[:, lane], self.gap[:, lane]
            rows.append(
                {
                    "player": self.player,
                    "blueprint": self.blueprint.labels[lane % count],
                    "gadget": gadget.name,
                    "prior": getattr(gadget.prior, "name", type(gadget.prior).__name__),
                    "epsilon": gadget.epsilon,
                    "blueprint_exploitability": self.blueprint_exploitability[lane],
                    "refined_exploitability": self.refined_exploitability[lane],
                    "exploitability_bound": self.exploitability_bound[lane],
                    "gadget_value_sum": value.sum(),
                    "gadget_value_min": value.min(),
                    "gadget_value_max": value.max(),
                    "gap_sum": gap.sum(),
                    "gap_max": gap.max(),
                }
            )
        return pd.DataFrame(rows)


def refine(
    tree: HistoryTree,
    where: CutSpec,
    blueprint: Policy | Sequence[Policy],
    gadgets: Gadget | Sequence[Gadget] | None = None,
    *,
    player: int = 0,
    infostate: str | None = None,
    algorithm: str | Rule = "cfr+",
    iterations: int = 2000,
    target_gap: float | None = None,
    check_every: int = 100,
    dtype: DTypeLike = "float32",
    value: tuple[float, float] | None = None,
    padded: bool = True,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> Refinement:
    """Re-solves every subgame below a cut, for every blueprint and gadget, in one batch.

    CFR on gadget games, perturbed towards the gadget's prior (Kubíček et al. 2026, §7.2).

    Args:
      tree: the game's histories.
      where: the cut; see `jaxgadget.cut`.
      blueprint: profiles, a lane each; the opponent's half gives its prior and unsafe range.
      gadgets: by default unsafe, and resolving and max-margin with every prior.
      player: who re-solves, 0 or 1.
      infostate: re-solve only the subgame in which this infostate lies.
      algorithm: `cfr`, `cfr+`, `linear-cfr`, `dcfr`, `pcfr+`, or a `Rule`.
      iterations: at most that many; an iteration updates both players.
      target_gap: stop when no gadget game of a kind has a larger gap.
      check_every: iterations between two looks at the gap.
      dtype: `float32` or `float64`, of the solve; certificates are always in float64.
      value: bracket of player 0's value of the game, if known; else `game_value(tree)`.
      padded: round the forest's sizes up, so that similar forests share programs.
      checkpoint: a folder to resume from and to save to, a file a kind of gadget.
      progress: show a bar; by default if it takes two seconds and somebody watches.

    Raises:
      ValueError: for another game's blueprint, a cut or infostate that is unknown or crosses
        an infoset, or a number out of range.
    """
    check_player(player)
    check_limits(iterations, target_gap, check_every)
    check_value(value)
    folder = None if checkpoint is None else pathlib.Path(checkpoint)
    settings = _Settings(
        find_rule(algorithm), check_dtype(dtype), iterations, target_gap, check_every, folder
    )
    profiles = (blueprint if isinstance(blueprint, Policy) else Policy.stack(list(blueprint))).on(tree)
    asked, watch = _listed(gadgets), Stopwatch()
    with watch.phase("build"):
        spot = cut(tree, where)
        forest = build_forest(tree, spot if infostate is None else spot.only(infostate), padded=padded)
        solver = _Solver(forest, player, profiles, settings, watch)
    solver.solve_all(asked, progress)
    with watch.phase("run"):
        return solver.finish(asked, game_value(tree, progress=progress) if value is None else value)


@dataclasses.dataclass(frozen=True)
class _Settings:
    """How every kind of gadget is solved."""

    rule: Rule
    dtype: np.dtype[Any]
    iterations: int
    target_gap: float | None
    check_every: int
    folder: pathlib.Path | None


def _listed(gadgets: Gadget | Sequence[Gadget] | None) -> tuple[Gadget, ...]:
    if gadgets is None:
        return default_gadgets()
    several = tuple(gadgets) if isinstance(gadgets, Sequence) else (gadgets,)
    for gadget in several:
        if isinstance(gadget, type) or not hasattr(gadget, "layout"):
            raise ValueError(
                f"gadgets: {gadget!r} is no gadget; expected Unsafe(), Resolving() or MaxMargin()"
            )
    if not several:
        raise ValueError("gadgets=() is empty: expected at least one, such as Resolving()")
    return several


class _Solver:
    """Collects the results of one kind of gadget after the other."""

    def __init__(
        self,
        forest: Forest,
        player: int,
        blueprint: Policy,
        settings: _Settings,
        watch: Stopwatch,
    ):
        self.forest, self.player, self.blueprint = forest, player, blueprint
        self.settings, self.watch = settings, watch
        if settings.folder is not None:
            make_folder(settings.folder)
        with precision(np.float64):
            self.structure = on_device.build_structure(forest, player, np.float64)
            self.strategy = to_parts(forest.form, blueprint, np.float64)
            self.ranges = on_device.blueprint_ranges(self.structure, self.strategy, self._root_reach())
        self.lanes: dict[int, _Lanes] = {}

    def _root_reach(self) -> tuple[Any, Any]:
        """Both players' own reach of their roots, `[R, lanes]`, 0 for padding."""
        reaches: list[Any] = []
        for player in (0, 1):
            roots = self.forest.roots[player]
            rows = np.zeros((self.forest.form.treeplex[player].num_roots, self.blueprint.num_lanes))
            rows[: len(roots)] = self.blueprint.reach(player)[roots.sequence]
            reaches.append(jax.device_put(rows))
        return reaches[0], reaches[1]

    def solve_all(self, gadgets: tuple[Gadget, ...], progress: bool | None) -> None:
        """Solves one kind of gadget after the other."""
        kinds = list(dict.fromkeys(type(gadget) for gadget in gadgets))
        iterations = self.settings.iterations
        with progress_bar("refining", iterations * len(kinds), progress) as report:
            for number, kind in enumerate(kinds):
                places = [i for i, gadget in enumerate(gadgets) if type(gadget) is kind]

                def told(done: int, before: int = number * iterations) -> None:
                    report(before + done)

                self._solve([gadgets[i] for i in places], places, told)

    def _solve(self, gadgets: Sequence[Gadget], places: Sequence[int], report: Callable[[int], None]) -> None:
        """Solves one kind of gadget; `places` says which of the gadgets asked for these are."""
        how = self.settings
        with self.watch.phase("build"), precision(np.float64):
            games = on_device.build_games(self.forest, self.structure, self.ranges, gadgets, np.float64)
            problem = on_device.in_precision(games, how.dtype)
        with self.watch.phase("run"), precision(how.dtype):
            state = drive(
                problem,
                how.rule,
                iterations=how.iterations,
                target_gap=how.target_gap,
                check_every=how.check_every,
                checkpoint=None if how.folder is None else how.folder / f"{gadgets[0].name}.npz",
                report=report,
            )
        with self.watch.phase("run"), precision(np.float64):
            total = on_device.cast(state.strategy_sum, np.float64)
            blueprint = self.strategy[self.player].body
            found = on_device.conclude(games, total, blueprint, player=self.player)
            bound = on_device.excess(self.ranges, gadgets, found)
        done, count, trees = int(state.iteration), self.blueprint.num_lanes, self.forest.num_subgames
        strategy, value, gap, live = (
            np.asarray(x) for x in (found.strategy, found.value, found.gap, games.live)
        )
        _check_finite(gadgets, self.blueprint, value[:trees], gap[:trees], how.dtype)
        for number, place in enumerate(places):
            mine = slice(number * count, (number + 1) * count)
            self.lanes[place] = _Lanes(
                strategy=strategy[:, mine],
                value=value[:trees, mine],
                gap=gap[:trees, mine],
                live=live[:trees, mine],
                bound=bound[mine],
                iterations=np.full(count, done),
            )

    def finish(self, gadgets: tuple[Gadget, ...], value: tuple[float, float]) -> Refinement:
        """Splices the strategies into the blueprints and evaluates them in the full game."""
        lanes = [self.lanes[i] for i in range(len(gadgets))]
        before = Policy.stack([self.blueprint] * len(gadgets))
        labels = tuple(f"{label} | {_label(g)}" for g in gadgets for label in self.blueprint.labels)
        policy = self._splice(before, np.concatenate([lane.strategy for lane in lanes], axis=1), labels)
        exploited = np.tile(exploitability(self.blueprint, self.player, value=value), len(gadgets))
        return Refinement(
            forest=self.forest,
            player=self.player,
            blueprint=self.blueprint,
            gadgets=gadgets,
            policy=policy,
            blueprint_exploitability=exploited,
            refined_exploitability=exploitability(policy, self.player, value=value),
            exploitability_bound=exploited + np.concatenate([lane.bound for lane in lanes]),
            gadget_value=np.concatenate([lane.value for lane in lanes], axis=1),
            gap=np.concatenate([lane.gap for lane in lanes], axis=1),
            live=np.concatenate([lane.live for lane in lanes], axis=1),
            game_value=value,
            algorithm=self.settings.rule.name,
            iterations=np.concatenate([lane.iterations for lane in lanes]),
            seconds=self.watch.seconds,
        )

    def _splice(self, before: Policy, strategy: FloatArray, labels: tuple[str, ...]) -> Policy:
        rows = before.probabilities[self.player].copy()
        sequence = self.forest.form.action_sequences(self.player)
        rows[sequence[sequence >= 0] - 1] = strategy[sequence >= 0]
        infosets = self.forest.tree.infosets[self.player]
        inside = np.isin(infosets.infoset[1:], self.forest.infosets(self.player))
        rows = np.where(inside[:, None], normalise_rows(rows, infosets.infoset[1:]), rows)
        other = before.probabilities[1 - self.player]
        return Policy(self.forest.tree, (rows, other) if self.player == 0 else (other, rows), labels)


@dataclasses.dataclass(frozen=True)
class _Lanes:
    """Results of one gadget for all blueprints, `[…, num_blueprints]`."""

    strategy: FloatArray
    value: FloatArray
    gap: FloatArray
    live: BoolArray
    bound: FloatArray
    iterations: npt.NDArray[np.int64]


def _check_finite(
    gadgets: Sequence[Gadget], blueprint: Policy, value: FloatArray, gap: FloatArray, dtype: np.dtype[Any]
) -> None:
    bad = ~(np.isfinite(value) & np.isfinite(gap))
    if bad.any():
        subgame, lane = np.argwhere(bad)[0].tolist()
        number, label = divmod(lane, blueprint.num_lanes)
        remedy = "use dtype='float64'" if dtype == np.float32 else "give actions more probability"
        raise ValueError(
            f"{_label(gadgets[number])} after blueprint {blueprint.labels[label]!r}: the solve of subgame "
            f"{subgame} overflowed in {dtype}, because the blueprint reaches it with a probability near 0; "
            f"{remedy}"
        )


def _label(gadget: Gadget) -> str:
    prior = getattr(gadget.prior, "name", type(gadget.prior).__name__)
    if isinstance(gadget.prior, NoPrior):
        return gadget.name
    return f"{gadget.name}, {prior} prior, epsilon {gadget.epsilon:g}"
