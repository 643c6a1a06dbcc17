"""Methods: regret-matching rules, averagings, annealed ε, warm starts, precision."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from experiments.convergence.cases import EPSILONS, Games
from jaxgadget.core.cfr import State, run, start
from jaxgadget.core.problem import Parts, follow
from jaxgadget.core.regret import RegretMatching, Rule, find_rule
from jaxgadget.core.treeplex import expand_infosets, sum_actions
from jaxgadget.util.players import replaced

Warmth = Literal["blueprint", "regrets", "strategy", "entry"]


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["plus", "positive_discount", "negative_discount", "trust", "averaging", "decay"],
    meta_fields=["predictive"],
    drop_fields=["name"],
)
@dataclasses.dataclass(frozen=True, kw_only=True)
class Tried(RegretMatching):
    """A rule with an additional setting.

    Attributes:
      decay: regrets are multiplied by (t / (t + 1))^decay after iteration t.
    """

    decay: float = 0.0

    def kept(self, t: jax.Array) -> tuple[jax.Array, jax.Array]:
        """See `RegretMatching`."""
        positive, negative = super().kept(t)
        share = (t / (t + 1)) ** self.decay
        return positive * share, negative * share


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
    """A solution method.

    Attributes:
      name: name in tables.
      rule: regret matching and averaging.
      everywhere: run in all games; otherwise only in those of `study.CHEAP`.
      anneal: at iteration t ε is at least anneal / t, until it is the gadget's own.
      finish: at iteration t ε is finish / t times the gadget's own, but no more than a half, until t is
        that many.
      restart: restart the average whenever ε changes.
      warm: initial regrets; see `begin`.
      warmth: factor of the initial regrets.
      dtype: precision of the solve.
    """

    name: str
    rule: Rule
    everywhere: bool = False
    anneal: float = 0.0
    finish: int = 0
    restart: bool = False
    warm: Warmth | None = None
    warmth: float = 1.0
    dtype: str = "float64"


def _plus(averaging: float, trust: float = 0.0, decay: float = 0.0, discount: float = math.inf) -> Rule:
    return Tried(
        name="tried",
        plus=True,
        predictive=trust > 0,
        averaging=averaging,
        trust=trust,
        decay=decay,
        positive_discount=discount,
    )


CFR_PLUS, PREDICTIVE, CAUTIOUS = find_rule("cfr+"), find_rule("pcfr+"), _plus(2.0, 1 / 3)

METHODS = {
    method.name: method
    for method in (
        Method(name="CFR+ linear", rule=CFR_PLUS, everywhere=True),
        Method(name="PCFR+ quadratic", rule=PREDICTIVE, everywhere=True),
        Method(name="SAPCFR+ quadratic", rule=CAUTIOUS, everywhere=True),
        Method(name="DCFR", rule=find_rule("dcfr"), everywhere=True),
        Method(name="CFR+ quadratic", rule=_plus(2.0), everywhere=True),
        Method(name="PCFR+ linear", rule=_plus(1.0, 1.0), everywhere=True),
        Method(name="SAPCFR+ linear", rule=_plus(1.0, 1 / 3), everywhere=True),
        Method(name="SAPCFR+ quadratic, annealed", rule=CAUTIOUS, everywhere=True, anneal=1.0),
        Method(name="SAPCFR+ quadratic, annealed slowly", rule=CAUTIOUS, everywhere=True, anneal=10.0),
        Method(name="SAPCFR+ quadratic, annealed till 2,500", rule=CAUTIOUS, everywhere=True, finish=2_500),
        Method(name="CFR+ linear, annealed till 2,500", rule=CFR_PLUS, finish=2_500),
        Method(name="CFR+ uniform", rule=_plus(0.0)),
        Method(name="PCFR+ uniform", rule=_plus(0.0, 1.0)),
        Method(name="SAPCFR+ quintic", rule=_plus(5.0, 1 / 3)),
        Method(name="SAPCFR+ 2/3 quadratic", rule=_plus(2.0, 2 / 3)),
        Method(name="PDCFR+", rule=_plus(5.0, 1.0, discount=2.3)),
        Method(name="CFR+ quadratic, decay 1", rule=_plus(2.0, decay=1.0)),
        Method(name="PCFR+ quadratic, decay 1", rule=_plus(2.0, 1.0, decay=1.0)),
        Method(name="PCFR+ quadratic, decay 4", rule=_plus(2.0, 1.0, decay=4.0)),
        Method(name="CFR+ linear, annealed", rule=CFR_PLUS, anneal=1.0),
        Method(name="CFR+ linear, annealed, restarted", rule=CFR_PLUS, anneal=1.0, restart=True),
        Method(name="CFR+ linear, annealed slowly", rule=CFR_PLUS, anneal=10.0),
        Method(name="CFR+ linear, from blueprint", rule=CFR_PLUS, warm="blueprint"),
        Method(name="CFR+ linear, regrets × 10", rule=CFR_PLUS, warm="regrets", warmth=10.0),
        Method(name="CFR+ linear, strategy × 1", rule=CFR_PLUS, warm="strategy"),
        Method(name="CFR+ linear, strategy × 10", rule=CFR_PLUS, warm="strategy", warmth=10.0),
        Method(name="CFR+ linear, entry from blueprint", rule=CFR_PLUS, warm="entry"),
        Method(name="SAPCFR+ quadratic, from blueprint", rule=CAUTIOUS, warm="blueprint"),
        Method(name="CFR+ linear, float32", rule=CFR_PLUS, dtype="float32"),
        Method(name="SAPCFR+ quadratic, float32", rule=CAUTIOUS, dtype="float32"),
    )
}
"""In the order in which they run."""

LARGE = 1e9
"""Regrets relative to which those of one iteration are negligible."""


def begin(games: Games, method: Method) -> State:
    """Initial state of a method; call in its precision.

    Without a warm start play is uniform. `blueprint`: both players' first strategies below the cut are their
    blueprints. `regrets`: the same, with the regrets of that play multiplied. `strategy`: initial regrets are
    proportional to the blueprints' strategies, scaled at every infoset to the sum of absolute regrets against
    the blueprint. `entry`: the opponent's first strategy at the gadget's root is its blueprint, as in
    DeepStack (Kubíček et al. 2026, §5).
    """
    problem = games.problem
    if method.warm is None:
        return start(problem, method.rule)
    if method.warm == "entry":
        return _from_entry(games, start(problem, method.rule))
    bodies = [games.blueprint(player) for player in (0, 1)]
    fresh = start(problem, CFR_PLUS)
    large = [Parts(jnp.full_like(r.entry, LARGE), LARGE * b) for r, b in _pairs(fresh, bodies)]
    played = run(problem, dataclasses.replace(fresh, rule=tuple(large)), jnp.int32(1), rule=CFR_PLUS)
    nothing = jax.tree.map(jnp.zeros_like, (played.rule, played.strategy_sum))
    first = dataclasses.replace(played, iteration=jnp.int32(0), rule=nothing[0], strategy_sum=nothing[1])
    if method.warm == "blueprint":
        return first
    rule = CFR_PLUS if method.warm == "regrets" else find_rule("cfr")
    seen = run(problem, first, jnp.int32(1), rule=rule)
    if method.warm == "regrets":
        regret = jax.tree.map(lambda r: method.warmth * r, seen.rule)
        return dataclasses.replace(seen, rule=regret)
    regret = [
        Parts(jnp.zeros_like(r.entry), method.warmth * b * _size(side.body, r.body))
        for side, (r, b) in zip(problem.sides, _pairs(seen, bodies), strict=True)
    ]
    return dataclasses.replace(start(problem, CFR_PLUS), rule=(regret[0], regret[1]))


def _from_entry(games: Games, state: State) -> State:
    """The state with the opponent's blueprint as the strategy of its entry, floors included."""
    opponent = 1 - games.player
    side, terms = games.problem.sides[opponent], games.problem.terms[opponent]
    entry = terms.entry.floored(side.entry, games.entry_blueprint)
    strategy = state.strategy[opponent]._replace(entry=entry)
    plan = jax.jit(follow)(side, terms, strategy)
    return dataclasses.replace(
        state,
        strategy=replaced(state.strategy, opponent, strategy),
        plan=replaced(state.plan, opponent, plan),
    )


def _pairs(state: State, bodies: list[jax.Array]) -> list[tuple[Parts, jax.Array]]:
    return list(zip(state.rule, bodies, strict=True))


def _size(treeplex: object, regret: jax.Array) -> jax.Array:
    return expand_infosets(treeplex, sum_actions(treeplex, jnp.abs(regret)))


def epsilon_at(method: Method, iteration: int) -> tuple[float, float]:
    """From this iteration to the next evaluation: the least ε, and the factor of every gadget's own ε."""
    t = max(iteration, 2)
    least = min(0.5, method.anneal / t)
    return least if least > min(EPSILONS) else 0.0, max(1.0, method.finish / t)


def as_numpy(sums: tuple[Parts, Parts]) -> tuple[Parts, Parts]:
    """A copy that the next run does not overwrite."""
    return jax.tree.map(lambda x: np.array(x, np.float64), sums)
