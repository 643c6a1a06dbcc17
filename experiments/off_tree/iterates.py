"""Estimates from the last iterate of CFR (§6), and from best responses, in the games of `estimates`.

A blueprint is an average of CFR in the abstraction. The paper's estimates are the opponent's values there
under the last strategy of the same run, which converges to a best response to the average. Here that is the
strategy after all updates. `estimates` uses the best response itself.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pandas as pd

from experiments.off_tree import common
from experiments.off_tree.common import mean
from experiments.off_tree.estimates import ESTIMATE, GAMES, SMOKE_GAMES, coarse_blueprints, finer
from experiments.study import Settings
from jaxgadget import (
    AbstractValues,
    BlueprintValues,
    HistoryTree,
    MaxMargin,
    NoPrior,
    Policy,
    Resolving,
    Solver,
    refine,
    translate,
)
from jaxgadget.core.batch import Batch
from jaxgadget.core.driver import Finished, solve
from jaxgadget.gadgets.alternative import ArrayValues
from jaxgadget.policy.evaluate import to_policy, whole_problem
from jaxgadget.policy.exact import find_value
from jaxgadget.subgames.abstract import look_up
from jaxgadget.subgames.prepare import prepare
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.arrays import FloatArray

NAME = "iterates"
SPECS, SMOKE_SPECS = ("cfr:10", "cfr:100", "cfr+:1000"), ("cfr:10",)
LAST = "last iterate"


def last_iterates(tree: HistoryTree, specs: tuple[str, ...]) -> Policy:
    """Current strategies after the iterations of `cfr:N` and `cfr+:N`, a lane each."""
    policies: list[Policy] = []
    for spec in specs:
        algorithm, _, count = spec.partition(":")
        solver = Solver(algorithm=algorithm, iterations=int(count), dtype="float64")
        found = solve(Batch.of(whole_problem(tree, 1, np.float64)), solver, _current)
        policies.append(to_policy(tree, sequence_form(tree), found.outcome, (spec,)))
    return Policy.stack(policies)


def _current(ended: Finished) -> tuple[jax.Array, jax.Array]:
    first, second = (parts.body for parts in ended.state.strategy)
    return first, second


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, seat, blueprint, gadget and kind of estimates; without priors."""
    specs = settings.pick(SPECS, SMOKE_SPECS)
    iterations = settings.pick(common.ITERATIONS, common.SMOKE_ITERATIONS)

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        return _measure(specs=specs, iterations=iterations, **key).assign(**key)

    games = settings.pick(GAMES, SMOKE_GAMES)
    return settings.gather(
        NAME, [{"game": game, "player": player} for game in games for player in (1, 0)], measure
    )


def _measure(game: str, player: int, specs: tuple[str, ...], iterations: int) -> pd.DataFrame:
    tree, coarse = finer(game), coarse_blueprints(game, specs)
    forest = build_forest(tree, "flop")
    values, distance = last_values(forest, coarse, specs, player)
    alternatives = {ESTIMATE: AbstractValues(coarse), LAST: ArrayValues(values, LAST)}
    gadgets = [
        kind(NoPrior(), alternative=alternative)
        for alternative in alternatives.values()
        for kind in (Resolving, MaxMargin)
    ]
    found = refine(
        tree,
        "flop",
        translate(coarse, tree),
        gadgets,
        player=player,
        value=find_value(tree, True, False),
        solver=Solver(iterations=iterations, progress=False),
    ).table
    columns = ["blueprint", "gadget", "blueprint_exploitability", "refined_exploitability"]
    columns += ["gap_max", "failure"]
    names = np.repeat(list(alternatives), len(gadgets) // len(alternatives) * len(specs))
    return found[columns].assign(alternative=names, distance=found["blueprint"].map(distance))


def last_values(
    forest: Forest, coarse: Policy, specs: tuple[str, ...], player: int
) -> tuple[FloatArray, dict[str, float]]:
    """Values `[R, lanes]` of the opponent's last iterates; their largest distances from `ESTIMATE`, per N(s).

    Translated strategies stay on the menu unless the other player leaves it, so these are values of the
    abstraction.
    """
    last = last_iterates(coarse.histories, specs)
    profile = coarse.with_player(1 - player, last.probabilities[1 - player])
    played = prepare(
        forest, player, translate(profile, forest.histories), (Resolving(alternative=BlueprintValues()),)
    ).ranges
    best = look_up(coarse, forest, player)
    known = best.mass > 0
    mass = np.where(known, best.mass, 1)
    apart = np.where(known, np.abs(played.played_values - best.value) / mass, 0).max(axis=0)
    return played.played_values, dict(zip(specs, apart.tolist(), strict=True))


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Exploitability in antes, geometric means over games and seats; no priors.

    `estimate` uses best responses in the abstraction. `times`: exploitability with last iterates over that;
    `better` and `worse` differ by more than a twentieth. `distance`: the largest difference between both
    kinds of values, in antes.
    """
    keys = ["game", "player", "blueprint", "gadget"]
    rows: list[dict[str, Any]] = []
    for (blueprint, gadget), part in frame.groupby(["blueprint", "gadget"], sort=False):
        wide = part.pivot(index=keys, columns="alternative", values="refined_exploitability")
        times = wide[LAST].clip(lower=common.LEAST) / wide[ESTIMATE].clip(lower=common.LEAST)
        rows.append(
            {
                "blueprint": blueprint,
                "gadget": gadget,
                "translated": mean(part["blueprint_exploitability"]),
                **{name: mean(wide[name]) for name in (ESTIMATE, LAST)},
                "times": mean(times),
                "better": int((times < 1 - common.CHANGED).sum()),
                "worse": int((times > 1 + common.CHANGED).sum()),
                "of": len(times),
                "distance": part["distance"].max(),
            }
        )
    return pd.DataFrame(rows)
