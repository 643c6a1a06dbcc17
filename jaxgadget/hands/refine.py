"""Re-solving the public subgames of a game by hands: gadgets with priors, without a history.

A subgame begins at a public node, with a root for every hand that either player may hold there. So what a
gadget asks of histories (`gadgets.ranges`) is there: reaches of hands, the mass `N(s)` of a hand of the
opponent, and its counterfactual best-response value `V̄(s)`. Gadgets of two levels read nothing else; their
tables, entries, solver and certificates are those of `refining`.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax.typing import DTypeLike

from jaxgadget.gadgets.alternative import ContinuationValues
from jaxgadget.gadgets.entry import EntryTables, TwoLevelEntry
from jaxgadget.gadgets.gadget import AUTO, Gadget, TwoLevel, describe, prior_name
from jaxgadget.gadgets.games import select_lanes
from jaxgadget.gadgets.prior import ContinuationPrior, RangePrior
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.gadgets.structure import opponent_values
from jaxgadget.gadgets.two_level import MaxMargin, Resolving
from jaxgadget.games.game import ACTOR_BIT, CHANCE
from jaxgadget.games.hands import HandsGame, group_ends
from jaxgadget.hands.evaluate import evaluate_hands, hands_value, to_parts
from jaxgadget.hands.form import HandsForm
from jaxgadget.hands.payoff import HandsPayoff, build_payoff
from jaxgadget.hands.policy import HandsPolicy
from jaxgadget.kernels.batch import Batch
from jaxgadget.kernels.certificate import Kept, certify_average, find_overflows
from jaxgadget.kernels.problem import Parts, Problem, Side, Terms, attach, follow
from jaxgadget.kernels.regret import Rule
from jaxgadget.kernels.rows import on_host
from jaxgadget.solving.driver import Finished, solve
from jaxgadget.solving.options import SolveOptions, make_options
from jaxgadget.util.arguments import check_player
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.compilation import compile_quickly
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HandsRefinement:
    """Blueprints with their public subgames re-solved by one player. S subgames, L lanes.

    Attributes:
      blueprint: what was refined, B lanes.
      policy: refined, lane = gadget × B + blueprint; the other player's part is the blueprint's.
      form: the subgames; `form.roots` are their public nodes.
      player: who re-solved.
      gadgets: what was asked for.
      gadget_value: `[S, L]` what each solution guarantees in its gadget game.
      gap: `[S, L]` NashConv of each gadget game.
      has_decision: `[S, L]` False where there was nothing to solve and the blueprint stayed.
      blueprint_exploitability: `[L]` of the player's blueprint, in the whole game.
      refined_exploitability: `[L]` of its refined policy.
      exploitability_bound: `[L]` what the certificates guarantee, NaN where nothing is known.
      game_value: bracket of player 0's value; exploitabilities are measured from its middle.
      iterations: `[L]` done.
      failures: why lanes have no numbers; they keep the blueprint.
    """

    blueprint: HandsPolicy
    policy: HandsPolicy
    form: HandsForm
    player: int
    gadgets: tuple[Gadget, ...]
    gadget_value: FloatArray
    gap: FloatArray
    has_decision: BoolArray
    blueprint_exploitability: FloatArray
    refined_exploitability: FloatArray
    exploitability_bound: FloatArray
    game_value: tuple[float, float]
    iterations: IntArray
    failures: dict[int, str]

    def __repr__(self) -> str:
        return f"<HandsRefinement of {self.form.game.name}: {len(self.form.roots)} subgames, {self.message}>"

    @property
    def message(self) -> str:
        """How far the solve got, in a sentence."""
        lower = int((self.refined_exploitability < self.blueprint_exploitability).sum())
        failed = f", {len(self.failures)} undefined" if self.failures else ""
        return (
            f"exploitability fell in {lower} of {self.policy.num_lanes} lane(s){failed}; the largest gap is "
            f"{np.nanmax(self.gap, initial=0.0):.3g}"
        )

    @property
    def table(self) -> pd.DataFrame:
        """A row for every gadget and blueprint, in the columns of `Refinement.table`."""
        count = self.blueprint.num_lanes
        rows: list[dict[str, Any]] = []
        for lane in range(self.policy.num_lanes):
            gadget = self.gadgets[lane // count]
            rows.append(
                {
                    "player": self.player,
                    "blueprint": self.blueprint.labels[lane % count],
                    "gadget": gadget.name,
                    "prior": prior_name(gadget),
                    "epsilon": gadget.epsilon,
                    "blueprint_exploitability": self.blueprint_exploitability[lane],
                    "refined_exploitability": self.refined_exploitability[lane],
                    "exploitability_bound": self.exploitability_bound[lane],
                    "gadget_value_sum": self.gadget_value[:, lane].sum(),
                    "gap_sum": self.gap[:, lane].sum(),
                    "gap_max": self.gap[:, lane].max(),
                    "failure": self.failures.get(lane),
                }
            )
        return pd.DataFrame(rows)


def public_cut(game: HandsGame, where: str | Sequence[int] | IntArray) -> IntArray:
    """`[S]` public nodes at which subgames begin, ascending.

    Args:
      game: whose.
      where: `depth:D`, the first decisions after D moves of the players; `chance`, right after chance has
        shown something in public; or nodes.

    Raises:
      ValueError: if it is none of these, or there are no such nodes.
    """
    tree = game.tree
    if isinstance(where, str):
        name, _, number = where.partition(":")
        moved = tree.actor[tree.parent] != CHANCE
        moved[0] = False
        if name == "chance" and not number:
            found = ~moved & (np.arange(len(tree)) > 0)
        elif name == "depth" and number.isdecimal():
            moves = moved.astype(np.int64)
            for level in tree.levels_below():
                moves[level] += moves[tree.parent[level]]
            found = (moves == int(number)) & np.isin(tree.actor, ACTOR_BIT)
        else:
            raise ValueError(f"where={where!r}: expected 'depth:D', 'chance', or numbers of public nodes")
        nodes = np.flatnonzero(found)
    else:
        nodes = np.unique(np.asarray(where, np.int64))
    if len(nodes) == 0 or nodes[0] < 0 or nodes[-1] >= len(tree):
        raise ValueError(
            f"where={where!r}: {game.name} has {len(tree)} public nodes; expected at least one of them"
        )
    return nodes


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Subgames:
    """Public subgames on the device and what blueprints bring to them, in float64.

    Roots are public nodes × hands; the opponent's R roots are those whose hand is possible.

    Attributes:
      form: their form.
      player: who re-solves.
      sides: both players' bodies with fixed entries.
      payoff: between them.
      root: `[R]` which of the opponent's public nodes × hands each root is.
      ranges: what the blueprints bring.
      resolver: `[S × H, lanes]` the resolving player's reach of its hands.
      rows: `[Q × H, lanes]` its blueprint below.
    """

    form: HandsForm
    player: int
    sides: tuple[Side, Side]
    payoff: HandsPayoff
    root: IntArray
    ranges: Ranges
    resolver: FloatArray
    rows: FloatArray

    @property
    def num_subgames(self) -> int:
        """S."""
        return len(self.form.roots)

    @property
    def subgame_of_action(self) -> IntArray:
        """`[Q × H]` the subgame of each action of the resolving player."""
        treeplex, hands = self.form.treeplex[self.player], self.form.game.num_hands[self.player]
        return np.repeat(treeplex.root_of()[treeplex.num_roots :], hands)


def refine_hands(
    blueprint: HandsPolicy,
    where: str | Sequence[int] | IntArray,
    gadgets: Gadget | Sequence[Gadget] | None = None,
    *,
    player: int = 0,
    algorithm: str | Rule = "cfr+",
    iterations: int = 1000,
    target_gap: float | None = None,
    dtype: DTypeLike = "float32",
    checkpoint: str | os.PathLike[str] | None = None,
    memory_limit: int | None = None,
    value: tuple[float, float] | None = None,
    progress: bool | None = None,
) -> HandsRefinement:
    """Re-solves all public subgames below a cut, for every gadget and blueprint at once.

    Where both forms fit, this is `refine` without histories: the same strategies, gaps and bounds.

    Args:
      blueprint: profiles of a whole game by hands, a lane each.
      where: at which public nodes subgames begin, see `public_cut`.
      gadgets: unsafe, resolving and max-margin with any prior; by default resolving and max-margin.
      player: who re-solves, 0 or 1.
      algorithm: of regret matching, see `solve`.
      iterations: at most that many.
      target_gap: stop when no gadget game has a larger gap.
      dtype: of the solve, `float32` or `float64`; certificates are in float64.
      checkpoint: a file, or a folder where lanes may be split, to resume from and to save to.
      memory_limit: bytes that the solve may take.
      value: bracket of player 0's value, if known; else `hands_value`.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Raises:
      ValueError: if an argument is out of range, a node of the cut is below another, a gadget looks at the
        way to the subgames, or the game does not say how likely its deals are.
    """
    check_player(player)
    asked = _check_gadgets((Resolving(), MaxMargin()) if gadgets is None else gadgets)
    options = make_options(
        algorithm=algorithm,
        iterations=iterations,
        target_gap=target_gap,
        dtype=dtype,
        checkpoint=checkpoint,
        memory_limit=memory_limit,
        exact=False,
    )
    if not blueprint.form.is_whole:
        raise ValueError(f"blueprint of {blueprint.form!r}: expected policies of the whole game")
    played = any("played" in gadget.needs for gadget in asked)
    subgames = _prepare(blueprint, public_cut(blueprint.game, where), player, played)
    for gadget in asked:
        gadget.check(len(subgames.root), blueprint.num_lanes)
    with precision(np.float64):
        tables = [gadget.tables(subgames.ranges) for gadget in asked]
    with progress_bar("refining", iterations, progress) as report:
        entry = TwoLevelEntry(subgames.ranges.subgame, subgames.num_subgames, tables)
        gadget, lane = (
            index.ravel() for index in np.indices((len(asked), blueprint.num_lanes)).reshape(2, -1)
        )
        outcome, done = _solve(subgames, entry, (gadget, lane), options, report)
    strategy, guaranteed, gap, below = outcome
    labels = [f"{describe(asked[g])} of {blueprint.labels[b]}" for g, b in zip(gadget, lane, strict=True)]
    failures = {
        number: f"{labels[number]}: the solve of subgame {subgame} overflowed in {options.dtype}; use "
        "dtype='float64'"
        for number, subgame in find_overflows(guaranteed, gap).items()
    }
    losses = select_lanes(
        gadget, lane, lambda k, b: entry.losses(k, b, gap[:, gadget == k], below[:, gadget == k])
    )
    bounds = _rises(tables, losses, blueprint.num_lanes)
    policy = _splice(subgames, blueprint.lanes(lane.tolist()), strategy, list(failures), labels)
    bracket = hands_value(blueprint.form, progress=progress) if value is None else value
    middle = sum(bracket) / 2 * (1 if player == 0 else -1)
    before = middle + evaluate_hands(blueprint).best_response_values[player][lane]
    after = middle + evaluate_hands(policy).best_response_values[player]
    has_decision = select_lanes(gadget, lane, lambda k, b: tables[k].has_decision[:, b])
    for number in failures:
        after[number] = bounds[number] = np.nan
    return HandsRefinement(
        blueprint=blueprint,
        policy=policy,
        form=subgames.form,
        player=player,
        gadgets=asked,
        gadget_value=guaranteed,
        gap=np.maximum(gap, 0),  # less is rounding
        has_decision=has_decision,
        blueprint_exploitability=before,
        refined_exploitability=after,
        exploitability_bound=before + bounds,
        game_value=bracket,
        iterations=done,
        failures=failures,
    )


def _check_gadgets(gadgets: Gadget | Sequence[Gadget]) -> tuple[Gadget, ...]:
    """Those that need nothing of the way to the subgames."""
    asked = tuple(gadgets) if isinstance(gadgets, Sequence) else (gadgets,)
    if not asked:
        raise ValueError("gadgets=(): expected at least one, such as Resolving()")
    for gadget in asked:
        if not isinstance(gadget, TwoLevel) or "trunk" in cast(Gadget, gadget).needs:
            name = getattr(gadget, "name", repr(gadget))
            raise ValueError(
                f"gadget {name}: it looks at the way to the subgames, which games by hands do not lay out; "
                "expected unsafe, resolving or max-margin"
            )
        prior, alternative = gadget.prior, getattr(gadget, "alternative", None)
        if isinstance(alternative, ContinuationValues) or isinstance(prior, ContinuationPrior):
            raise ValueError(
                f"gadget {describe(gadget)}: optimal continuations are solved in histories alone; expected "
                "another prior, and BestResponseValues(), BlueprintValues() or ArrayValues(array)"
            )
        if isinstance(prior, RangePrior) and prior.model is not None:
            raise ValueError(
                f"gadget {describe(gadget)}: its range is that of a policy of histories; expected "
                "RangePrior(), the blueprint's, or an ArrayPrior"
            )
        if cast(Gadget, gadget).epsilon == AUTO:
            raise ValueError(
                f"epsilon='auto' of {gadget.name}: only linear programs find one; expected a number"
            )
    return asked


def _prepare(blueprint: HandsPolicy, nodes: IntArray, player: int, played: bool) -> _Subgames:
    """Lays subgames out and finds what blueprints bring to them."""
    game, whole, other = blueprint.game, blueprint.form, 1 - player
    if game.deals is None or game.board is None:
        raise ValueError(
            f"deals of {game.name} are not written down; expected a game with `deals` and `board`"
        )
    form = HandsForm(game, nodes)
    strategy = [
        rows[order].reshape(-1, blueprint.num_lanes)
        for rows, order in zip(blueprint.probabilities, form.rows, strict=True)
    ]
    with precision(np.float64):
        problem = whole.problem(blueprint.num_lanes, np.float64)
        plans = _plans(problem, to_parts(blueprint))
        reach = [
            np.asarray(plan)
            .reshape(-1, hands, blueprint.num_lanes)[sequence[nodes]]
            .reshape(-1, blueprint.num_lanes)
            for plan, hands, sequence in zip(plans, game.num_hands, whole.sequence, strict=True)
        ]
        sides, payoff = form.sides(np.float64), form.payoff(np.float64)
        cbv, followed = opponent_values(
            sides, payoff, (strategy[0], strategy[1]), (reach[0], reach[1]), player=player, played=played
        )
        # How likely chance deals what the opponent holds, times the resolving player's reach.
        deals = group_ends(nodes, np.ones(len(nodes)), game.board[nodes].astype(np.int64), game.deals)
        number = np.zeros(len(game.tree), np.int64)
        number[nodes] = np.arange(len(nodes))
        chance = build_payoff(game.num_hands, deals, (number, number), (len(nodes), len(nodes)), np.float64)
        come = jnp.asarray(reach[0]), jnp.asarray(reach[1])
        mass = np.abs(np.asarray(chance.gradient(other, come, None)[0]))
    held = [
        np.ones((len(nodes), hands), np.bool_) if possible is None else possible[nodes]
        for possible, hands in zip(game.possible, game.num_hands, strict=True)
    ]
    root = np.flatnonzero(held[other])
    resolver = np.where(held[player].reshape(-1, 1), reach[player], 0.0)
    ranges = Ranges(
        num_subgames=len(nodes),
        subgame=root // game.num_hands[other],
        root=np.arange(len(root)),
        resolver=resolver,
        opponent=reach[other][root],
        mass=mass[root],
        cbv=-np.asarray(cbv)[root],
        played=-np.asarray(followed)[root] if played else None,
    )
    return _Subgames(
        form=form,
        player=player,
        sides=sides,
        payoff=payoff,
        root=root,
        ranges=ranges,
        resolver=resolver,
        rows=strategy[player],
    )


@jax.jit
def _plans(problem: Problem, strategy: tuple[Parts, Parts]) -> tuple[jax.Array, jax.Array]:
    """Both players' reaches of their own sequences."""
    first, second = (follow(problem.sides[p], problem.terms[p], strategy[p]).body for p in (0, 1))
    return first, second


def _solve(
    subgames: _Subgames,
    entry: TwoLevelEntry,
    lanes: tuple[IntArray, IntArray],
    options: SolveOptions,
    report: Any,
) -> tuple[Any, IntArray]:
    """Solves all lanes, (gadget, blueprint): the resolver's strategy, value, gap and `V(s)`; iterations."""
    player, other, (gadget, blueprint) = subgames.player, 1 - subgames.player, lanes
    count = subgames.sides[other].body.num_roots
    link = np.full(count, -1, np.int64)
    link[subgames.root] = entry.link
    with precision(np.float64):
        body = subgames.sides[other]
        theirs = attach(body.body, body.root_of, entry.treeplex, link, np.float64)
    ours = subgames.sides[player]

    def terms(chosen: IntArray) -> tuple[Terms, Terms]:
        theirs = select_lanes(gadget[chosen], blueprint[chosen], entry.terms)
        scale = np.zeros((count, len(chosen)))
        scale[subgames.root] = theirs.scale
        theirs = dataclasses.replace(theirs, scale=on_host(scale))
        nothing = np.zeros((ours.entry.num_sequences, len(chosen)))
        own = Terms(scale=on_host(subgames.resolver[:, blueprint[chosen]]), constant=on_host(nothing))
        return (own, theirs) if player == 0 else (theirs, own)

    batch = Batch(
        name="gadgets by hands",
        order=(other, player),
        sides=(ours, theirs) if player == 0 else (theirs, ours),
        payoff=subgames.payoff,
        num_lanes=len(gadget),
        num_games=subgames.num_subgames,
        terms=terms,
    )
    subgame_of_action = subgames.subgame_of_action

    def finish(ended: Finished) -> Any:
        sums = ended.release()
        decided = select_lanes(
            gadget[ended.lanes], blueprint[ended.lanes], lambda k, b: entry.has_decision(k)[:, b]
        )
        rows = subgames.rows[:, blueprint[ended.lanes]]
        kept = Kept(on_host(rows), on_host(decided[subgame_of_action]))
        return _conclude(ended.in_float64(), sums, ended.placement.by_lane(kept), player=player)

    solved = solve(batch, options, finish, report=report)
    strategy, value, gap, below = solved.outcome
    return (strategy, value, gap, below[subgames.root]), solved.iterations


@functools.partial(compile_quickly, static_argnames=("player",))
def _conclude(problem: Problem, strategy_sum: tuple[Parts, Parts], kept: Kept, *, player: int) -> Any:
    """The resolving player's averages, completed by the blueprint, and their certificate."""
    exact = jax.tree.map(lambda x: x.astype(jnp.float64), strategy_sum)
    certificate = certify_average(problem, exact, (kept, None) if player == 0 else (None, kept))
    return (
        certificate.strategy[player],
        certificate.guaranteed[player],
        certificate.gap,
        certificate.below[player],
    )


def _rises(tables: Sequence[EntryTables], losses: FloatArray, count: int) -> FloatArray:
    """`[L]` by how much exploitability may rise, given `[S, L]` what each game may add; NaN if unknown."""
    rises: list[FloatArray] = []
    for table, part in zip(tables, np.split(losses, len(tables), axis=1), strict=True):
        if table.bound is None:
            rises.append(np.full(count, np.nan))
        else:
            rises.append(part.sum(axis=0) if table.bound.rule == "sum" else part.max(axis=0))
    return np.concatenate(rises)


def _splice(
    subgames: _Subgames, before: HandsPolicy, strategy: FloatArray, failed: list[int], labels: Sequence[str]
) -> HandsPolicy:
    """Blueprints, a lane each, with strategies `[Q × H, L]` below the roots; failed lanes keep theirs."""
    form, player = subgames.form, subgames.player
    rows = before.probabilities[player].copy()
    ended = np.setdiff1d(np.arange(before.num_lanes), failed)
    order = form.rows[player]
    below = np.asarray(strategy, np.float64).reshape(len(order), rows.shape[1], before.num_lanes)
    rows[order[:, None, None], np.arange(rows.shape[1])[:, None], ended] = below[:, :, ended]
    pair = (rows, before.probabilities[1]) if player == 0 else (before.probabilities[0], rows)
    return HandsPolicy(before.form, pair, tuple(labels))
