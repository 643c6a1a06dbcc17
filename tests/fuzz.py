"""Fuzzing with random games: hundreds of structures, re-solved by the package and checked by definitions.

    python -m tests.fuzz --structures 300

Solving takes a moment and compiling a minute, and every structure has a program of its own. So chance picks
one of many structures, both players see which, and this one game is solved: its subgames are those of all
structures, side by side in one forest. Results are held against each structure by itself, as an explicit
tree (`tests/reference`) that is built from the rules and not from the package's tree: recursion for best
responses, a linear program of its own for optima.

Every lane (blueprint, gadget, prior, ε) of every structure and either player:

- the refined strategy's exploitability, from a best response of the explicit tree, is ≥ 0 and at most
  the blueprint's plus the losses of the gadget games; for safe gadgets with ε = 0, plus their gaps;
- the exploitability that the package reports, before and after, is the sum over the structures, and so is
  its bound: the blueprint's, all losses, and half the bracket of the game's value;
- nothing changes outside the subgames, or in subgames without a decision.

Every structure is solved twice: against an opponent who adapts, and against one who follows a drawn model
with a drawn probability. Then the bound counts with what is gained from the model, and the gadget games
have a fixed branch.

And of some lanes, drawn at random, of each structure:

- the optimum of the gadget game's explicit tree lies in `[value, value + gap]`, and is the value itself if
  linear programs solved the game;
- value and losses are those of the definitions at the strategy found.

Responses, private subgames, games by hands, answers off the menu and rivers of hold'em follow, see
`tests/fuzz_fronts.py`. `tests/fuzz_planted.py` lists bugs that must be found.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import jaxgadget
from jaxgadget.core.lp.solve import GAP_TOLERANCE
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.gadget import Gadget, describe, prior_name
from jaxgadget.gadgets.prior import RangePrior
from jaxgadget.gadgets.registry import GADGETS, PRIORS
from jaxgadget.gadgets.specs import make_gadgets
from jaxgadget.opponents.opponent import Opponent, list_opponents
from jaxgadget.policy.evaluate import exploitability
from jaxgadget.policy.exact import solve_exactly
from jaxgadget.policy.policy import Policy
from jaxgadget.subgames.engine import Subgames, assemble, solve_subgames
from jaxgadget.subgames.refine import refine
from jaxgadget.tree.cut import Cut, cut
from jaxgadget.tree.forest import build_forest
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.compilation import drop_programs
from tests.core.grove import to_policy
from tests.reference import cuts, efg, gadgets, lp, models
from tests.reference.efg import Array, Label, Strategy
from tests.reference.random_games import (
    RandomBets,
    RandomGame,
    Shape,
    random_policy,
    random_shape,
    side_by_side,
)
from tests.reference.rules import from_rules, histories, labels, reach_of_chance
from tests.solving import settings

EPSILONS = (1e-3, 0.05, 0.3)
"""In addition to 0, which is used with prior `none`."""
ALL_GADGETS = tuple(make_gadgets(list(GADGETS), list(PRIORS), EPSILONS))
SAFE = (
    jaxgadget.Resolving,
    jaxgadget.MaxMargin,
    jaxgadget.ReachResolving,
    jaxgadget.ReachMaxMargin,
)
PRIORS_WITH_MISTAKES = (jaxgadget.UniformPrior(), jaxgadget.BlueprintPrior())
ALGORITHMS = ("cfr+", "dcfr", "pcfr+", "linear-cfr", "cfr", "sapcfr+")
DTYPES = ("float32", "float64")
ROUNDING = 1e-11
"""Tolerance of sums and products, as a share of the largest payoff."""
PROGRAM = 1e-8
"""Tolerance of the optima of linear programs, likewise."""
IS_GUARANTEED = "the value is what the strategy guarantees in the gadget game"


# What was found


@dataclasses.dataclass(eq=False)
class Findings:
    """The statements that were checked and those that failed.

    Attributes:
      held: how often each statement was checked.
      worst: the largest excess of each, as a share of its tolerance; above 1 it is violated.
      violations: a sentence each.
      refusals: structures whose cut the package refuses, each for good reason.
      structures: names of those attacked.
      lanes: number of combinations of structure, player, blueprint, gadget, prior and ε.
      programs: number of lanes with a gadget game that an independent linear program solved.
      gaps: of these games after regret matching, as a share of the largest payoff.
    """

    held: Counter[str] = dataclasses.field(default_factory=Counter)
    worst: dict[str, float] = dataclasses.field(default_factory=dict)
    violations: list[str] = dataclasses.field(default_factory=list)
    refusals: int = 0
    structures: list[str] = dataclasses.field(default_factory=list)
    lanes: set[tuple[str, int, str]] = dataclasses.field(default_factory=set)
    programs: set[tuple[str, int, str]] = dataclasses.field(default_factory=set)
    gaps: list[float] = dataclasses.field(default_factory=list)

    def hold(self, statement: str, where: str, excess: Array | float, tolerance: float) -> None:
        """Check that `excess`, one number or many, is at most the tolerance."""
        share = np.atleast_1d(np.asarray(excess, np.float64)) / tolerance
        self.held[statement] += share.size
        most = float(share.max(initial=-np.inf))
        self.worst[statement] = max(most, self.worst.get(statement, -np.inf))
        bad = ~(share <= 1)  # NaN is no number that holds
        if bad.any():
            number = int(np.argmax(bad))
            self.violations.append(
                f"{statement}: {where}, number {number}: {float(share.flat[number]):.3g} × the tolerance of "
                f"{tolerance:.3g}"
            )

    def summary(self) -> str:
        lines = [
            f"{len(self.structures)} structures, {self.refusals} more with a cut that is refused, "
            f"{len(self.lanes)} combinations, {len(self.programs)} of them with a linear program; gaps after "
            f"regret matching: median {np.median(self.gaps):.1g}, largest {max(self.gaps):.1g} of the payoff",
            *(
                f"  {count:9d} × {statement} (worst {self.worst[statement]:.2g} × the tolerance)"
                for statement, count in sorted(self.held.items())
            ),
            f"{len(self.violations)} violations",
            *(f"  {violation}" for violation in self.violations[:50]),
        ]
        return "\n".join(lines)


# Structures


@dataclasses.dataclass(frozen=True, eq=False)
class Structure:
    """One structure in the joint game.

    Attributes:
      shape: its structure.
      game: the explicit game, its root the chance that picks it, with only this outcome.
      components: the roots of every subgame, numbered in `game`.
      subgames: the number of each subgame in the joint cut.
      weight: the probability that chance picks it.
      most: the largest absolute payoff.
      value: of the game for player 0, times `weight`.
    """

    shape: Shape
    game: efg.Game
    components: list[list[int]]
    subgames: list[int]
    weight: float
    most: float
    value: float

    @property
    def unit(self) -> float:
        """The scale of values below the chance outcome that picks the structure."""
        return self.weight * self.most

    @functools.cached_property
    def labels(self) -> list[Label]:
        """Infosets of both players."""
        return list(efg.infosets(self.game.root))


@dataclasses.dataclass(frozen=True, eq=False)
class Bundle:
    """Many structures as one game, with a cut through all of them.

    Attributes:
      name: the arguments that reproduce it.
      seed: of payoffs, chance, blueprints and the sample of checks.
      rules: the game.
      joint: its explicit game, from the rules.
      tree: all of it, as the package enumerates it.
      where: the cut.
      structures: in the order of chance's outcomes.
    """

    name: str
    seed: int
    rules: RandomGame
    joint: efg.Game
    tree: HistoryTree
    where: Cut
    structures: list[Structure]

    @property
    def unit(self) -> float:
        """The scale of sums over structures."""
        return sum(part.unit for part in self.structures)

    @functools.cached_property
    def value(self) -> float:
        """Player 0's, from the structures' own linear programs."""
        return sum(part.value for part in self.structures)

    @functools.cached_property
    def drawn(self) -> Policy:
        """A random blueprint, and one with zero or tiny reaches."""
        rng = np.random.default_rng(self.seed)
        drawn = to_policy(self.tree, [random_policy(self.tree, rng, zeros) for zeros in (0.0, 0.35)])
        return dataclasses.replace(drawn, labels=("random", "cornered"))

    @functools.cached_property
    def blueprints(self) -> Policy:
        """Those that are drawn, and one near an equilibrium."""
        return Policy.stack([self.drawn, jaxgadget.make_blueprints(self.tree, ["cfr:30"], progress=False)])

    @functools.cached_property
    def _labels(self) -> dict[Label, Label]:
        return labels(self.tree, self.rules, self.joint)

    def rows(self, policy: Policy) -> dict[Label, Array]:
        """`[actions, lanes]` of both players by infoset of the explicit game."""
        top = np.ones((1, policy.num_lanes))
        first, second = (np.concatenate([top, rows]) for rows in policy.probabilities)
        by_infoset = efg.from_sequences(policy.tree, (first, second))
        return {self._labels[label]: rows for label, rows in by_infoset.items()}


def accepted_structures(seed: int, count: int, findings: Findings) -> tuple[list[Shape], int]:
    """The next structures whose cuts the package accepts, and the seed after the last one.

    Refused cuts are checked against the definition, and so are the subgames of accepted ones.
    """
    shapes: list[Shape] = []
    while len(shapes) < count:
        shape = random_shape(seed)
        rules = RandomGame(shape, seed)
        tree, game = enumerate_game(rules), from_rules(rules)
        components = cuts.components(game, cuts.depth_roots(game, int(shape.cut.removeprefix("depth:"))))
        crosses = cuts.crosses(game, components)
        try:
            found = cut(tree, shape.cut)
        except ValueError:
            findings.refusals += 1
            findings.hold("a cut is refused where it crosses an infoset", shape.name, not crosses, 0.5)
        else:
            members = [found.roots[found.subgame == s].tolist() for s in range(found.num_subgames)]
            same = members == components and not crosses
            findings.hold("subgames are the components of a cut's roots", shape.name, not same, 0.5)
            shapes.append(shape)
        seed += 1
    return shapes, seed


def make_bundle(shapes: Sequence[Shape], seed: int, name: str = "") -> Bundle:
    """Join structures: chance picks one first. The seed draws payoffs and chance."""
    joined = side_by_side("structures side by side", shapes)
    return bundle_of(shapes, (RandomBets if joined.bets else RandomGame)(joined, seed), 0, seed, name)


def bundle_of(shapes: Sequence[Shape], rules: RandomGame, place: int, seed: int, name: str) -> Bundle:
    """Structures in one game, apart and together.

    Args:
      shapes: the structures.
      rules: the game. Chance picks the structure by the move at `place`; no player has a choice before it.
      place: number of moves before.
      seed: of the game, blueprints and the sample of checks.
      name: the arguments that reproduce it.
    """
    tree, joint, order = enumerate_game(rules), from_rules(rules), histories(rules)
    drafts: list[tuple[efg.Game, list[list[int]], list[int], float]] = []
    for number, shape in enumerate(shapes):
        inside = [k for k, h in enumerate(order) if h[place : place + 1] == (number,)]
        first = {k: reach_of_chance(rules, order[k]) for k in inside if len(order[k]) == place + 1}
        game = _alone(joint, inside, first)
        roots = cuts.depth_roots(game, int(shape.cut.removeprefix("depth:")))
        drafts.append((game, cuts.components(game, roots), inside, sum(first.values())))
    all_roots = sorted(
        inside[h - 1] for _, parts, inside, _ in drafts for h in itertools.chain(*parts)
    )  # history 0 of a game alone is the joint root
    where = cut(tree, lambda tree: np.array(all_roots))
    subgame_of = dict(zip(where.roots.tolist(), where.subgame.tolist(), strict=True))
    structures: list[Structure] = []
    for shape, (game, components, inside, weight) in zip(shapes, drafts, strict=True):
        most = max(abs(rules.returns.get(order[k], 0.0)) for k in inside) or 1.0
        subgames = [subgame_of[inside[roots[0] - 1]] for roots in components]
        value = find_optimum(game.root, 0, {}, weight * most)
        structures.append(Structure(shape, game, components, subgames, weight, most, value))
    assert sorted(itertools.chain(*(part.subgames for part in structures))) == list(range(where.num_subgames))
    return Bundle(name, seed, rules, joint, tree, where, structures)


def find_optimum(root: efg.Node, player: int, floors: efg.Floors, unit: float) -> float:
    """The value of an explicit tree; payoffs are divided by `unit`, since HiGHS's tolerances are absolute."""
    return unit * lp.solve(efg.Chance((1 / unit,), (root,)), player, floors).value


def _alone(joint: efg.Game, histories: Sequence[int], first: Mapping[int, float]) -> efg.Game:
    """Some histories of the joint game, all of one structure, under a root that leads to these only.

    Args:
      joint: the game.
      histories: those of the structure, ascending.
      first: the histories at which it begins, with chance's reach.
    """
    number = {h: 1 + k for k, h in enumerate(histories)}
    states = tuple(("root", *(states[h] for h in histories)) for states in joint.infostate)
    top = efg.Chance(tuple(first.values()), tuple(joint.nodes[h] for h in first))
    return efg.Game(
        nodes=(top, *(joint.nodes[h] for h in histories)),
        parent=(0, *(number.get(joint.parent[h], 0) for h in histories)),
        infostate=(states[0], states[1]),
    )


# Solving


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """Results of the package; lanes run over gadgets, then blueprints; S subgames.

    Attributes:
      bundle: the structures.
      player: the resolving player.
      how: the algorithm and the precision.
      gadgets: the gadgets that were solved.
      blueprint: policy before.
      policy: policy after.
      value: `[S, lanes]` values of the gadget games.
      gap: `[S, lanes]` gaps of the gadget games.
      losses: `[S, lanes]`; None if the package does not report them.
      has_decision: `[S, lanes]`.
      before: `[lanes]` exploitability of the blueprint.
      after: `[lanes]` refined.
      bound: `[lanes]` of `after`, NaN where there is none.
      failures: lanes without a solution, and the reasons.
      half_width: of the bracket of the game's value that the bound counts.
      opponent: the opponent who follows a model, one lane; None without a model.
    """

    bundle: Bundle
    player: int
    how: str
    gadgets: tuple[Gadget, ...]
    blueprint: Policy
    policy: Policy
    value: Array
    gap: Array
    losses: Array | None
    has_decision: Array
    before: Array
    after: Array
    bound: Array
    failures: dict[int, str]
    half_width: float = 0.0
    opponent: Opponent | None = None

    @property
    def p(self) -> float:
        """The probability that the model is followed."""
        return 0.0 if self.opponent is None else float(np.asarray(self.opponent.p))

    @functools.cached_property
    def model(self) -> dict[Label, Array]:
        """The model, or the blueprint without one (p is then 0)."""
        policy = self.blueprint if self.opponent is None else self.opponent.model
        assert isinstance(policy, Policy)
        return {label: rows[:, 0] for label, rows in self.bundle.rows(policy).items()}

    def has_bound(self, gadget: Gadget) -> bool:
        """True if a bound is known: for reach gadgets only against an opponent that adapts."""
        kind = gadgets.KINDS[gadget.name]
        return kind.bound is not None and (self.p == 0 or not kind.has_gifts)

    @property
    def exact(self) -> bool:
        """True if linear programs solved it."""
        return self.how.startswith("lp")

    def lane_name(self, lane: int) -> str:
        gadget, blueprint = divmod(lane, self.blueprint.num_lanes)
        label = f"{self.blueprint.labels[blueprint]}{against(self.opponent)}"
        return f"{label} | {describe(self.gadgets[gadget])}"


def solve_by_cfr(
    bundle: Bundle,
    player: int,
    *,
    algorithm: str,
    dtype: str,
    iterations: int,
    opponent: Opponent | None = None,
) -> Outcome:
    """All gadgets with all blueprints by regret matching, through `refine`, with the losses of every game."""
    solver = Solver(algorithm=algorithm, iterations=iterations, dtype=dtype, progress=False)
    task = Subgames(
        build_forest(bundle.tree, bundle.where),
        player,
        bundle.blueprints,
        ALL_GADGETS,
        opponents=None if opponent is None else list_opponents(opponent, bundle.tree),
    )
    solutions = solve_subgames(task, solver, Stopwatch())
    policy, value = assemble(task, solutions), (bundle.value, bundle.value)
    before = np.tile(exploitability(task.blueprint, player, value=value), len(task.gadgets))
    return Outcome(
        bundle=bundle,
        player=player,
        how=f"{algorithm} in {dtype}{against(opponent)}",
        gadgets=task.gadgets,
        blueprint=task.blueprint,
        policy=policy,
        value=solutions.value,
        gap=solutions.gap,
        losses=solutions.losses,
        has_decision=solutions.has_decision,
        before=before,
        after=exploitability(policy, player, value=value),
        bound=before + solutions.loss_bound,
        failures=solutions.failures,
        opponent=opponent,
    )


def against(opponent: Opponent | None) -> str:
    return "" if opponent is None else f" against a model with p = {opponent.p}"


def solve_by_programs(
    bundle: Bundle, player: int, rng: np.random.Generator, opponent: Opponent | None = None
) -> Outcome:
    """One blueprint, and every gadget with a random prior and ε, by linear programs.

    The blueprint and the bracket of the game's value are drawn, too.
    """
    asked = draw_gadgets(rng)
    blueprint = bundle.blueprints.lane(int(rng.integers(bundle.blueprints.num_lanes)))
    half_width = float(rng.choice([0.0, 0.01])) * bundle.unit
    bracket = bundle.value - half_width, bundle.value + half_width
    how = {"player": player, "algorithm": "lp", "value": bracket, "progress": False}
    result = refine(bundle.tree, bundle.where, blueprint, asked, opponent=opponent, **settings(**how))
    return Outcome(
        bundle=bundle,
        player=player,
        how=f"lp{against(opponent)}",
        gadgets=asked,
        blueprint=blueprint,
        policy=result.policy,
        value=result.gadget_value,
        gap=result.gap,
        losses=None,
        has_decision=result.has_decision,
        before=result.blueprint_exploitability,
        after=result.refined_exploitability,
        bound=result.exploitability_bound,
        failures=dict(result.failures),
        half_width=half_width,
        opponent=opponent,
    )


def draw_gadgets(rng: np.random.Generator) -> tuple[Gadget, ...]:
    """Every gadget with a random prior and ε, for linear programs.

    HiGHS does not accept floors as small as those that an unclipped range may yield.
    """
    by_name = [
        [gadget for gadget in ALL_GADGETS if gadget.name == name and not isinstance(gadget.prior, RangePrior)]
        for name in GADGETS
    ]
    return tuple(several[int(rng.integers(len(several)))] for several in by_name)


# Checks


def examine_value(bundle: Bundle, findings: Findings) -> None:
    """The package's linear program of the joint game returns the sum of the structures' values."""
    off = abs(solve_exactly(bundle.tree).value - bundle.value)
    findings.hold(
        "the game's value is that of its structures",
        bundle.name,
        off,
        (PROGRAM + GAP_TOLERANCE) * bundle.unit,
    )


def examine_tree(bundle: Bundle, findings: Findings) -> None:
    """The package's enumeration agrees with the rules: histories, chance, payoffs and infostates."""
    tree, order = bundle.tree, histories(bundle.rules)
    same = tree.num_histories == len(order) and all(tree.moves(k) == h for k, h in enumerate(order))
    findings.hold("histories are those of the rules", bundle.name, not same, 0.5)
    reach = np.array([reach_of_chance(bundle.rules, h) for h in order])
    findings.hold("chance is that of the rules", bundle.name, np.abs(tree.chance - reach), ROUNDING)
    payoff = np.array([bundle.rules.returns.get(h, 0.0) for h in order])
    off = np.abs(tree.payoff - payoff)
    findings.hold("payoffs are those of the rules", bundle.name, off, ROUNDING * np.abs(payoff).max())
    for player in (0, 1):
        pairs = set(zip(tree.infostate[player].tolist(), bundle.joint.infostate[player], strict=True))
        counts = [len(set(states)) for states in zip(*pairs, strict=True)]
        merged = counts != [len(pairs)] * 2
        findings.hold("infostates are those of the rules", bundle.name, merged, 0.5)


def examine(outcome: Outcome, findings: Findings, programs: int) -> None:
    """Check everything against the definitions.

    Args:
      outcome: results of the package.
      findings: record of the checks.
      programs: how many random lanes of each structure to solve a gadget game of.
    """
    bundle, player = outcome.bundle, outcome.player
    _hold_solved(f"player {player}, {outcome.how}, {bundle.name}", outcome.failures, findings)
    before, after = bundle.rows(outcome.blueprint), bundle.rows(outcome.policy)
    kept = np.array([efg.guaranteed(part.game.root, player, before) for part in bundle.structures])
    earned = np.array([efg.guaranteed(part.game.root, player, after) for part in bundle.structures])
    for number, part in enumerate(bundle.structures):
        where = f"{part.shape.name}, player {player}, {outcome.how}, {bundle.name}"
        names = {(part.shape.name, player, outcome.lane_name(k)) for k in range(earned.shape[1])}
        findings.lanes |= names
        excess = earned[number] - efg.sign(player) * part.value
        findings.hold("no player guarantees more than the value", where, excess, PROGRAM * part.unit)
        _examine_rise(outcome, part, where, kept[number], earned[number], findings)
    _examine_sums(outcome, kept, earned, findings)
    _examine_rows(outcome, findings)
    aboves = [_aboves(outcome, part, before) for part in bundle.structures]
    _examine_bounds(outcome, after, kept, aboves, findings)
    _examine_games(outcome, after, aboves, kept, findings, programs)


def _hold_solved(where: str, failures: Mapping[int, str], findings: Findings) -> None:
    """Record the reason of every failed lane, whose numbers are NaN."""
    reasons = "; ".join(failures.values())
    findings.hold(
        "every gadget game is solved", f"{where}: {reasons}" if reasons else where, len(failures), 0.5
    )


def _aboves(outcome: Outcome, part: Structure, before: Strategy) -> list[gadgets.Above]:
    """A structure's explicit cut with each blueprint."""
    components = tuple(tuple(roots) for roots in part.components)
    return [
        gadgets.Above(
            part.game, components, outcome.player, {label: before[label][:, lane] for label in part.labels}
        )
        for lane in range(outcome.blueprint.num_lanes)
    ]


def _examine_rise(
    outcome: Outcome, part: Structure, where: str, kept: Array, earned: Array, findings: Findings
) -> None:
    """Bound the rise of a structure's exploitability by its own games' losses; by their gaps for ε = 0.

    An optimal continuation is one game for all structures, so its gap applies to each of them.
    """
    count = len(kept)
    for number, gadget in enumerate(outcome.gadgets):
        if not outcome.has_bound(gadget):
            continue
        lanes = slice(number * count, (number + 1) * count)
        rise, asked = kept - earned[lanes], f"{where}, {describe(gadget)}"
        kind = gadgets.KINDS[gadget.name]
        joint = kind.is_joint
        tolerance = ROUNDING * (outcome.bundle.unit if joint else part.unit)
        if outcome.losses is not None and not (joint and (gadget.epsilon > 0 or outcome.p > 0)):
            most = _allowed(kind, part, outcome.losses[:, lanes])
            statement = f"{gadget.name}: exploitability rises no more than the losses allow"
            findings.hold(statement, asked, rise - most, tolerance)
        if gadget.epsilon == 0 and outcome.p == 0:
            most = _allowed(kind, part, outcome.gap[:, lanes])
            statement = f"{gadget.name}: with ε = 0 exploitability rises no more than the gap"
            findings.hold(statement, asked, rise - most, tolerance)


def _allowed(kind: gadgets.Kind, part: Structure, losses: Array) -> Array:
    """The allowed rise of a structure's exploitability, given its games' losses `[S, lanes]`."""
    if kind.is_joint:
        return losses[0]
    own = losses[part.subgames]
    return own.sum(axis=0) if kind.bound == "sum" else part.weight * own.max(axis=0)


def _examine_sums(outcome: Outcome, kept: Array, earned: Array, findings: Findings) -> None:
    """The package's numbers of the joint game are the sums over the structures."""
    bundle, sign = outcome.bundle, efg.sign(outcome.player)
    where = f"player {outcome.player}, {outcome.how}, {bundle.name}"
    value = sign * bundle.value
    before = np.tile(value - kept.sum(axis=0), len(outcome.gadgets))
    tolerance = ROUNDING * bundle.unit
    after = value - earned.sum(axis=0)
    statement = "the exploitability that is reported is that of a best response"
    findings.hold(statement, f"before, {where}", np.abs(outcome.before - before), tolerance)
    findings.hold(statement, f"after, {where}", np.abs(outcome.after - after), tolerance)
    for number, gadget in enumerate(outcome.gadgets):
        lanes = slice(number * kept.shape[1], (number + 1) * kept.shape[1])
        asked = f"{where}, {describe(gadget)}"
        if outcome.has_bound(gadget):
            statement = f"{gadget.name}: the bound that is reported holds for all structures together"
            findings.hold(statement, asked, after[lanes] - outcome.bound[lanes], tolerance)
        else:
            missing = ~np.isnan(outcome.bound[lanes])
            findings.hold("no bound is reported where there is none", asked, missing.any(), 0.5)


def _examine_bounds(
    outcome: Outcome,
    after: Strategy,
    kept: Array,
    aboves: Sequence[Sequence[gadgets.Above]],
    findings: Findings,
) -> None:
    """The reported bound equals its definition.

    That is the blueprint's exploitability plus the sum or maximum of all games' losses and half the bracket.
    Where the package does not report losses, they are computed here.
    """
    bundle, count = outcome.bundle, outcome.blueprint.num_lanes
    before = efg.sign(outcome.player) * bundle.value - kept.sum(axis=0)
    for lane in range(outcome.policy.num_lanes):
        gadget = outcome.gadgets[lane // count]
        if not outcome.has_bound(gadget):
            continue
        if outcome.losses is None:
            losses = _defined_losses(outcome, after, [several[lane % count] for several in aboves], lane)
        else:
            losses = outcome.losses[:, lane]
        kind = gadgets.KINDS[gadget.name]
        rise = losses[0] if kind.is_joint else losses.sum() if kind.bound == "sum" else losses.max()
        where = f"player {outcome.player}, {outcome.lane_name(lane)}, {outcome.how}, {bundle.name}"
        off = abs(outcome.bound[lane] - (before[lane % count] + rise + outcome.half_width))
        findings.hold(
            "the bound is its definition", where, off, 10 * ROUNDING * bundle.unit / (1 - outcome.p)
        )


def _defined_losses(outcome: Outcome, after: Strategy, aboves: Sequence[gadgets.Above], lane: int) -> Array:
    """`[S]` losses of all gadget games of a lane; a single game for all subgames is in row 0."""
    gadget = outcome.gadgets[lane // outcome.blueprint.num_lanes]
    name, p, asked = gadget.name, outcome.p, (prior_name(gadget), float(gadget.epsilon))
    is_joint, losses = gadgets.KINDS[name].is_joint, np.zeros(len(outcome.gap))
    for part, above in zip(outcome.bundle.structures, aboves, strict=True):
        strategies = {label: after[label][:, lane] for label in part.labels}
        if is_joint:
            losses[0] += _lost_by_continuation(outcome, gadget, above, strategies)
            continue
        for row, subgame in zip(part.subgames, above.subgames, strict=True):
            gap = outcome.gap[row, lane]
            losses[row] = models.rise_bound(name, subgame, strategies, outcome.model, p, gap, *asked)
    if is_joint:
        losses[0] = max(outcome.gap[0, lane] / (1 - p) + losses[0], 0.0)
    return losses


def _lost_by_continuation(
    outcome: Outcome, gadget: Gadget, above: gadgets.Above, strategies: Strategy
) -> float:
    """A structure's share of an optimal continuation's loss, apart from the gap."""
    name, subgame = gadget.name, above.subgames[0]
    gained = models.earned(name, subgame, outcome.model, strategies)
    gained -= models.earned(name, subgame, outcome.model, subgame.blueprint)
    extra = gadgets.rise_bound(name, subgame, strategies, 0.0, prior_name(gadget), float(gadget.epsilon))
    return extra + outcome.p * gained / (1 - outcome.p)


def _examine_rows(outcome: Outcome, findings: Findings) -> None:
    """Rows outside the subgames are unchanged, and all rows are distributions."""
    tree, player = outcome.bundle.tree, outcome.player
    forest = build_forest(tree, outcome.bundle.where)
    infosets = tree.infosets[player]
    subgame = forest.infoset_subgame(player)[infosets.infoset[1:]]
    copies = len(outcome.gadgets)
    where = f"player {player}, {outcome.how}, {outcome.bundle.name}"
    for p in (0, 1):
        rows, blueprint = outcome.policy.probabilities[p], np.tile(outcome.blueprint.probabilities[p], copies)
        change = np.abs(rows - blueprint)
        if p == player:
            solved = (subgame >= 0)[:, None] & outcome.has_decision[np.maximum(subgame, 0)]
            change = np.where(solved, 0.0, change)
        findings.hold("nothing changes where nothing is solved", where, change.max(axis=0), 1e-12)
        findings.hold("probabilities are not negative", where, -rows.min(axis=0), 1e-15)


def _examine_games(
    outcome: Outcome,
    after: Strategy,
    aboves: Sequence[Sequence[gadgets.Above]],
    kept: Array,
    findings: Findings,
    programs: int,
) -> None:
    """Solve gadget games of the explicit trees: some lanes of every structure, one subgame each.

    Args:
      outcome: results of the package.
      after: the refined strategies, by infoset.
      aboves: the explicit cut of every structure with each blueprint.
      kept: `[structures, blueprints]` values that the blueprint guarantees.
      findings: record of the checks.
      programs: number of lanes.
    """
    bundle, count = outcome.bundle, outcome.blueprint.num_lanes
    rng = np.random.default_rng([bundle.seed, outcome.player, outcome.exact])
    joint = [n for n, gadget in enumerate(outcome.gadgets) if gadgets.KINDS[gadget.name].is_joint]
    lanes = np.arange(outcome.policy.num_lanes)
    is_joint = np.isin(lanes // count, joint)
    share = min(1.0, programs / len(lanes))
    of_all = rng.permutation(lanes[is_joint])[: int(np.ceil(share * is_joint.sum()))].tolist()
    totals = {lane: np.zeros(3) for lane in of_all}
    for number, part in enumerate(bundle.structures):
        drawn = rng.permutation(lanes[~is_joint])[: programs - len(of_all)].tolist()
        for lane in [*drawn, *of_all]:
            blueprint = lane % count
            refined = {label: after[label][:, lane] for label in part.labels}
            elsewhere = float(kept[:, blueprint].sum() - kept[number, blueprint])
            findings.programs.add((part.shape.name, outcome.player, outcome.lane_name(lane)))
            if lane in totals:
                totals[lane] += _examine_continuation(
                    outcome, part, aboves[number][blueprint], lane, refined, findings
                )
            else:
                which = int(rng.integers(len(part.components)))
                subgame, row = aboves[number][blueprint].subgames[which], part.subgames[which]
                _examine_game(outcome, part, subgame, row, lane, refined, elsewhere, findings)
    for lane, (optimum, value, extra) in totals.items():
        where = f"player {outcome.player}, {outcome.lane_name(lane)}, {outcome.how}, {bundle.name}"
        _hold_optimum(outcome, 0, lane, optimum, where, (bundle.unit, bundle.unit), findings)
        off = abs(outcome.value[0, lane] - value)
        findings.hold(IS_GUARANTEED, where, off, ROUNDING * bundle.unit)
        if outcome.losses is not None:
            share = 1 - outcome.p
            off = abs(outcome.losses[0, lane] - max(outcome.gap[0, lane] / share + extra, 0.0))
            findings.hold("losses are those of the definition", where, off, ROUNDING * bundle.unit / share)


def _examine_game(
    outcome: Outcome,
    part: Structure,
    subgame: gadgets.Subgame,
    row: int,
    lane: int,
    strategies: Strategy,
    elsewhere: float,
    findings: Findings,
) -> None:
    """Check one gadget game of one lane against its explicit tree.

    Args:
      outcome: results of the package.
      part: the structure.
      subgame: the explicit subgame.
      row: its number in the joint cut.
      lane: lane of the outcome.
      strategies: the refined ones.
      elsewhere: value that the blueprint guarantees in all other structures, added by the full gadget.
      findings: record of the checks.
    """
    gadget = outcome.gadgets[lane // outcome.blueprint.num_lanes]
    name, asked = gadget.name, (prior_name(gadget), float(gadget.epsilon))
    kind = gadgets.KINDS[name]
    where = f"{part.shape.name}, subgame {row}, player {outcome.player}, {outcome.lane_name(lane)}"
    where = f"{where}, {outcome.how}, {outcome.bundle.name}"
    tree = models.build(name, subgame, outcome.model, outcome.p, *asked)
    unit = part.most if kind.is_margin else part.unit
    constant = (1 - outcome.p) * elsewhere if kind.has_siblings else 0.0
    optimum = find_optimum(tree.root, outcome.player, tree.floors, unit) + constant
    largest = outcome.bundle.unit if kind.has_siblings else unit
    _hold_optimum(outcome, row, lane, optimum, where, (unit, largest), findings)
    value = models.objective(name, subgame, strategies, outcome.model, outcome.p, *asked) + constant
    off = abs(outcome.value[row, lane] - value)
    findings.hold(IS_GUARANTEED, where, off, ROUNDING * largest)
    if outcome.losses is not None and outcome.has_bound(gadget):
        gap = outcome.gap[row, lane]
        rise = models.rise_bound(name, subgame, strategies, outcome.model, outcome.p, gap, *asked)
        off = abs(outcome.losses[row, lane] - rise)
        findings.hold("losses are those of the definition", where, off, ROUNDING * unit / (1 - outcome.p))


def _hold_optimum(
    outcome: Outcome,
    row: int,
    lane: int,
    optimum: float,
    where: str,
    units: tuple[float, float],
    findings: Findings,
) -> None:
    """Check certificates against an optimum.

    Args:
      outcome: results of the package.
      row: row of the gadget game.
      lane: lane of the outcome.
      optimum: optimum of the explicit tree.
      where: location, for messages.
      units: scales of payoffs in the explicit tree and in the package's game.
      findings: record of the checks.
    """
    value, gap = float(outcome.value[row, lane]), float(outcome.gap[row, lane])
    tolerance = PROGRAM * units[0] + ROUNDING * units[1]
    findings.hold("the optimum is at least the value", where, value - optimum, tolerance)
    findings.hold("the optimum is at most value + gap", where, optimum - value - gap, tolerance)
    if not outcome.exact:
        findings.gaps.append(gap / units[1])
    else:
        statement = "the optimum is the value that linear programs find"
        findings.hold(statement, where, abs(optimum - value), tolerance + GAP_TOLERANCE * units[1])


def _examine_continuation(
    outcome: Outcome,
    part: Structure,
    above: gadgets.Above,
    lane: int,
    strategies: Strategy,
    findings: Findings,
) -> Array:
    """Check a structure's part of the optimal continuation, one game for all, against its explicit tree.

    Args:
      outcome: results of the package.
      part: the structure.
      above: its explicit cut, with the lane's blueprint.
      lane: lane of the outcome.
      strategies: the refined ones.
      findings: record of the checks.

    Returns:
      The part's optimum, what the strategy guarantees, and what the opponent gains by leaving its floors and
      by what is earned more from a model.
    """
    gadget = outcome.gadgets[lane // outcome.blueprint.num_lanes]
    subgame, asked = above.subgames[0], (prior_name(gadget), float(gadget.epsilon))
    mixture = outcome.model, outcome.p
    tree = models.build(gadget.name, subgame, *mixture, *asked)
    optimum = find_optimum(tree.root, outcome.player, tree.floors, part.unit)
    value = models.objective(gadget.name, subgame, strategies, *mixture, *asked)
    where = f"{part.shape.name}, player {outcome.player}, {outcome.lane_name(lane)}, {outcome.how}"
    where, gap = f"{where}, {outcome.bundle.name}", float(outcome.gap[0, lane])
    tolerance = PROGRAM * part.unit + ROUNDING * outcome.bundle.unit
    statement = "optimal-continuation: no structure is further from its own optimum than the gap"
    findings.hold(statement, where, optimum - value - gap, tolerance)
    findings.hold("the optimum is at least the value", where, value - optimum, tolerance)
    return np.array([optimum, value, _lost_by_continuation(outcome, gadget, above, strategies)])


# The attack


def outcomes(bundle: Bundle, iterations: int) -> Iterator[Outcome]:
    """Both players, by regret matching and by programs, against an adapting opponent and one with a model."""
    rng = np.random.default_rng(bundle.seed)
    algorithm = ALGORITHMS[bundle.seed % len(ALGORITHMS)]
    dtype = DTYPES[bundle.seed // len(ALGORITHMS) % len(DTYPES)]
    drawn = to_policy(bundle.tree, [random_policy(bundle.tree, rng, float(rng.choice([0.0, 0.35])))])
    follows = Opponent(drawn, float(rng.uniform(0.05, 0.95)))
    how = {"algorithm": algorithm, "dtype": dtype, "iterations": iterations}
    for player, opponent in itertools.product((0, 1), (None, follows)):
        yield solve_by_cfr(bundle, player, **how, opponent=opponent)
        yield solve_by_programs(bundle, player, rng, opponent)


def examine_promises(bundle: Bundle, player: int, findings: Findings) -> None:
    """Values of continuations, exact or estimated, as alternatives of safe gadgets, by linear programs.

    Exact ones make safe gadgets the optimal continuation; those of a few iterations are as safe as these;
    with estimates max-margin keeps the bounds of the largest error; a guard keeps the better of these and V̄.
    """
    rng = np.random.default_rng(bundle.seed + player)
    blueprint = bundle.blueprints.lane(int(rng.integers(bundle.blueprints.num_lanes)))
    how: dict[str, Any] = {"player": player, "value": (bundle.value, bundle.value), "progress": False}
    exact, few = jaxgadget.ContinuationValues(), jaxgadget.ContinuationValues(5)
    rough = jaxgadget.ResolvedValues(10)
    bare, guarded = (
        jaxgadget.ContinuationValues(rough, guard=guard, iterations=30) for guard in (False, True)
    )
    none, alone = jaxgadget.NoPrior(), [jaxgadget.OptimalContinuation(jaxgadget.NoPrior())]
    asked: list[Gadget] = [make(none, alternative=v) for v in (exact, few) for make in SAFE]
    asked += [make(prior, "auto", exact) for make in SAFE[:2] for prior in PRIORS_WITH_MISTAKES]
    estimates = (bare, guarded, jaxgadget.BestResponseValues())
    asked += [jaxgadget.MaxMargin(none, alternative=values) for values in estimates]
    found = refine(bundle.tree, bundle.where, blueprint, [*alone, *asked], **settings(algorithm="lp", **how))
    _hold_solved(f"{bundle.name}, player {player}", found.failures, findings)
    (optimum, *after), bounds = found.refined_exploitability.tolist(), found.exploitability_bound.tolist()[1:]
    tolerance = 1e-7 * bundle.unit
    for gadget, number, bound in zip(asked, after, bounds, strict=True):
        values: Any = getattr(gadget, "alternative", None)
        where = f"{bundle.name}, player {player}, {blueprint.labels[0]} | {describe(gadget)}"
        findings.hold("nothing is better than the optimal continuation", where, optimum - number, tolerance)
        if values is exact:
            findings.hold(
                "with V* safe gadgets are the optimal continuation", where, number - optimum, tolerance
            )
        if not getattr(values, "is_estimate", False):
            findings.hold("with values of best responses the bound holds", where, number - bound, tolerance)
            continue
        error = jaxgadget.measure_promise(bundle.tree, bundle.where, blueprint, values, **how)
        for what in ("bound", "theorem2_bound"):
            most = float(getattr(error, what)[0])
            findings.hold(f"with estimates max-margin keeps {what}", where, number - most, tolerance)
    *_, estimated, kept, safe = after
    where = f"{bundle.name}, player {player}, {blueprint.labels[0]} | {describe(asked[-2])}"
    difference = abs(kept - min(estimated, safe))
    findings.hold("a guard keeps the better of estimates and V̄", where, difference, tolerance)


def attack(seed: int, structures: int, batch: int, programs: int, iterations: int) -> Findings:
    """Draw structures and fuzz them, several as one game, and print the progress."""
    from tests import fuzz_fronts  # it imports this module

    findings, began = Findings(), time.perf_counter()
    while len(findings.structures) < structures:
        count, first = min(batch, structures - len(findings.structures)), seed
        shapes, seed = accepted_structures(seed, count, findings)
        name = f"--seed {first} --structures {count} --batch {count}"
        bundle = make_bundle(shapes, first, name)
        examine_tree(bundle, findings)
        examine_value(bundle, findings)
        for outcome in outcomes(bundle, iterations):
            examine(outcome, findings, programs)
        for player in (0, 1):
            examine_promises(bundle, player, findings)
        fuzz_fronts.attack(first, max(count // 5, 1), findings)
        findings.structures += [shape.name for shape in shapes]
        drop_programs()
        print(
            f"{time.perf_counter() - began:6.0f} s: {len(findings.structures)} structures "
            f"(the last {count} with {bundle.tree.num_histories} histories), "
            f"{len(findings.lanes)} combinations, {len(findings.violations)} violations",
            flush=True,
        )
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--structures", type=int, default=300, help="how many (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first one (default %(default)s)")
    parser.add_argument("--batch", type=int, default=100, help="so many as one game (default %(default)s)")
    parser.add_argument(
        "--programs",
        type=int,
        default=20,
        help="lanes of each that linear programs check (default %(default)s)",
    )
    parser.add_argument("--iterations", type=int, default=300, help="of CFR (default %(default)s)")
    options = parser.parse_args()
    began = time.perf_counter()
    findings = attack(**vars(options))
    print(findings.summary())
    print(f"{time.perf_counter() - began:.0f} s")
    return 1 if findings.violations else 0


if __name__ == "__main__":
    from tests import fuzz

    sys.exit(fuzz.main())  # so that `fuzz_fronts` and this script share one module object
