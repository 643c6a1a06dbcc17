"""CFR on the forest against the same algorithm on gadget games written out as explicit trees.

The trees of `tests/reference/gadgets.py` compute their own V̄, N and priors. Rules, priors and
blueprints are lanes of one problem, so a gadget and a player compile one program.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgadget.solve import cfr
from jaxgadget.solve.drive import precision
from jaxgadget.solve.problem import Side
from jaxgadget.solve.regret import RULES, Rule
from tests.reference import cfr as reference
from tests.reference import efg, gadgets
from tests.reference.efg import Array, Label, Strategy
from tests.solve import grove

SEED = 20
NUM_BLUEPRINTS = 3
ITERATIONS = 5
EPSILON = 0.02
TOLERANCE = 1e-12
ROUNDING = 1e-14  # positive regrets that sum to no more than this are rounding
REFERENCE_RULES = dict(zip(RULES, reference.RULES, strict=True))
PRIORS = {"unsafe": ("none",), "resolving": gadgets.PRIORS, "max-margin": gadgets.PRIORS}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RuleByLane(Rule):
    """Applies all rules and keeps for every lane what its own says; lanes run over rules first."""

    def weight(self, t: jax.Array) -> jax.Array:
        return jnp.repeat(jnp.stack([rule.weight(t) for rule in RULES.values()]), self._lanes)[None, :]

    def accumulate(self, regret_sum: jax.Array, regret: jax.Array, t: jax.Array) -> jax.Array:
        return self._pick([rule.accumulate(regret_sum, regret, t) for rule in RULES.values()])

    def basis(self, regret_sum: jax.Array, regret: jax.Array) -> jax.Array:
        return self._pick([rule.basis(regret_sum, regret) for rule in RULES.values()])

    @property
    def _lanes(self) -> int:
        return int(self.name)

    def _pick(self, found: list[jax.Array]) -> jax.Array:
        parts = [rows[:, k * self._lanes : (k + 1) * self._lanes] for k, rows in enumerate(found)]
        return jnp.concatenate(parts, axis=1)


step = jax.jit(cfr.step, static_argnames=("rule",))


@pytest.mark.parametrize("player", [0, 1])
def test_blueprints_have_unequal_clipped_and_zero_reaches(player: int) -> None:
    """So that what the tests of this folder compare covers every corner case of design §3."""
    shares, opponent, resolver = [], [], []
    for number in range(NUM_BLUEPRINTS):
        for subgame in grove.explicit(SEED, player, number):
            reach = np.array([subgame.opponent_reach(s) for s in subgame.states])
            shares.extend(reach / reach.sum() if reach.any() else [])
            opponent.append(reach.any())
            resolver.append(np.mean([subgame.normalizer(s) > 0 for s in subgame.states]))
    found, mass = np.array(shares), np.array(resolver)
    assert (found == 0).any() and not all(opponent)
    assert ((found > 0) & (found < gadgets.CLIP)).any()
    assert ((found > 0.1) & (found < 0.9)).any()
    assert (mass == 0).any() and ((mass > 0) & (mass < 1)).any()


@functools.cache
def explicit(kind: str, prior: str, player: int, number: int) -> list[tuple[gadgets.Subgame, gadgets.Gadget]]:
    """Every subgame's gadget game for one blueprint."""
    subgames = grove.explicit(SEED, player, number)
    return [(subgame, gadgets.build(kind, subgame, prior, EPSILON)) for subgame in subgames]


@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize("kind", PRIORS)
def test_five_iterations_equal_those_on_the_explicit_tree(kind: str, player: int) -> None:
    """All rules, priors and blueprints; every subgame of every shape, entry and body, both players."""
    priors = PRIORS[kind]
    asked = [
        grove.KINDS[kind]() if kind == "unsafe" else grove.KINDS[kind](grove.PRIORS[name], EPSILON)
        for name in priors
    ]
    with precision(np.float64):
        games = grove.prepared(SEED, player).games(asked * len(RULES))
        problem = games.problem
        state, rule = cfr.start(problem), RuleByLane(name=str(len(asked) * NUM_BLUEPRINTS))
        found: list[tuple[Any, Any]] = []
        for _ in range(ITERATIONS):
            state = step(problem, rule, state)
            found.append(jax.tree.map(np.asarray, (state.strategy, cfr.average(problem, state))))
    live = np.asarray(games.live)
    compared = 0
    for lane, (name, prior, number) in enumerate(itertools.product(RULES, priors, range(NUM_BLUEPRINTS))):
        ours = [
            [body_and_entry(problem.sides, parts, player, kind, lane) for parts in both] for both in found
        ]
        for subgame_idx, (subgame, gadget) in enumerate(explicit(kind, prior, player, number)):
            reached = any(subgame.normalizer(s) > 0 for s in subgame.states)
            assert live[subgame_idx, lane] == (reached and not isinstance(gadget.root, efg.Terminal))
            iterates = reference.run(
                gadget.root,
                REFERENCE_RULES[name],
                ITERATIONS,
                order=gadget.order,
                floors=gadget.floors,
                threshold=ROUNDING,
            )
            for theirs, (current, average) in zip(iterates, ours, strict=True):
                if not theirs.current:
                    continue
                where = f"{name}, {prior}, blueprint {number}, subgame {subgame_idx}"
                for rows, expected in ((current, theirs.current), (average, theirs.average)):
                    actual = np.concatenate([rows[key] for key in keys(expected, subgame)])
                    wanted = np.concatenate(list(expected.values()))
                    np.testing.assert_allclose(
                        actual, wanted, rtol=0, atol=TOLERANCE, err_msg=f"{where}, {theirs.iteration}"
                    )
                    compared += len(wanted)
    assert compared > 30_000 * len(priors)


def keys(expected: Strategy, subgame: gadgets.Subgame) -> list[Label]:
    """The explicit tree's labels, with the subgame's name for its one max-margin entry."""
    return [subgame.states if label == gadgets.entry_label() else label for label in expected]


def body_and_entry(
    sides: tuple[Side, Side], parts: Any, player: int, kind: str, lane: int
) -> dict[Label, Array]:
    """A lane of production's strategies by the explicit tree's labels."""
    where, other = grove.forest(SEED), 1 - player
    rows = grove.body_rows(where, 0, parts[0].body, lane)
    rows |= grove.body_rows(where, 1, parts[1].body, lane)
    roots, side = where.roots[other], sides[other]
    entry = np.asarray(parts[other].entry)[:, lane]
    action = np.asarray(side.link)[: len(roots)] - side.entry.num_roots
    if kind == "resolving":
        for state, follow in zip(roots.infostate.tolist(), action.tolist(), strict=True):
            rows[gadgets.entry_label(state)] = entry[[follow, follow + 1]]
    if kind == "max-margin":
        blueprint = lane % NUM_BLUEPRINTS
        for subgame, _ in explicit(kind, "none", player, blueprint):
            place = dict(zip(roots.infostate.tolist(), action.tolist(), strict=True))
            picked = gadgets.max_margin_states(subgame)
            rows[subgame.states] = entry[[place[s] for s in picked]]
            assert all(entry[place[s]] == 0 for s in subgame.states if s not in picked)
    return rows
