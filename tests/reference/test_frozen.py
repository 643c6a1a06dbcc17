"""Subgames of own infostates: the tree with chance, the tree with floors, and the formulas agree."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference import cuts, efg, frozen, gadgets, lp
from tests.reference.random_games import random_policy
from tests.subgames import deals

EPSILON = 0.05
LANES = [
    ("unsafe", "none"),
    *((kind, prior) for kind in ("resolving", "max-margin") for prior in ("none", "uniform", "blueprint")),
]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("player", [0, 1])
def test_chance_floors_and_formulas_agree(player: int, seed: int) -> None:
    tree = deals.drawn(seed)
    game = efg.from_tree(tree)
    blueprint = random_policy(tree, np.random.default_rng(seed))
    parts = cuts.components(game, cuts.depth_roots(game, 0))
    above = gadgets.Above(game, tuple(map(tuple, parts)), player, blueprint)
    for own in frozen.own_infostates(above):
        whole = frozen.subgame(above, own)
        for kind, prior in LANES:
            gadget = frozen.build(kind, above, own, prior, EPSILON)
            solution = lp.solve(gadget.root, player, gadget.floors)
            assert set(solution.strategy) == frozen.free_infosets(above, own)
            unfrozen = gadgets.build(kind, whole, prior, EPSILON)
            floors = frozen.with_floors(above, own, unfrozen)
            assert lp.solve(unfrozen.root, player, floors).value == pytest.approx(solution.value, abs=1e-8)
            strategy = {**blueprint, **solution.strategy}
            objective = gadgets.objective(kind, whole, strategy, prior, EPSILON)
            assert objective == pytest.approx(solution.value, abs=1e-8)
            at_blueprint = gadgets.objective(kind, whole, blueprint, prior, EPSILON)
            assert solution.value >= at_blueprint - 1e-9
            assert lp.solve(unfrozen.root, player, unfrozen.floors).value >= solution.value - 1e-9
