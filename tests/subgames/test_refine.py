"""`refine`: published numbers; then lanes, padding, single subgames and resuming.

The README of `tests/data/subgames.json` names the sources of its numbers.
"""

from __future__ import annotations

import contextlib
import functools
import json
import pathlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
import pytest

import jaxgadget
from jaxgadget import ArrayPrior, BlueprintPrior, MaxMargin, NoPrior, Policy, Refinement, Resolving, Unsafe
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.subgames.prepare import prepare
from jaxgadget.subgames.refine import default_gadgets, refine
from jaxgadget.tree.cut import cut
from jaxgadget.tree.forest import build_forest
from jaxgadget.tree.history import HistoryTree
from tests.core import grove
from tests.reference import efg, lp
from tests.reference.random_games import SHAPES, random_policy, random_tree
from tests.solving import settings
from tests.trees import tree_of

pytestmark = pytest.mark.optimised

players = pytest.mark.parametrize("player", [0, 1])

# Published numbers

REFERENCE = json.loads((pathlib.Path(__file__).parents[1] / "data" / "subgames.json").read_text())["games"]
RATIO = {"uniform": 1.0, "geometric": 0.5, "steep": 0.05}
CUTS = {"second betting round": "flop", "depth 1": "depth:1", "depth 2": "depth:2"}
GADGETS = (
    "unsafe",
    "resolve",
    "resolve_uniform",
    "resolve_blueprint",
    "maxmargin",
    "maxmargin_uniform",
    "maxmargin_blueprint",
)
NEARLY_UNIQUE = {"unsafe", "resolve_uniform", "resolve_blueprint", "maxmargin_uniform", "maxmargin_blueprint"}
SLACK = 1e-6
GROUPS: dict[tuple[str, str, int], list[tuple[dict[str, Any], dict[str, Any]]]] = {}
for _game in REFERENCE:
    for _case in _game["cases"]:
        GROUPS.setdefault((_game["game"], _game["cut"], _case["resolving_player"]), []).append((_game, _case))


def test_every_published_case_is_compared() -> None:
    names = Counter(case["blueprint"] for group in GROUPS.values() for _, case in group)
    assert names == {"uniform": 4, "geometric": 4, "steep": 2}
    assert {case["epsilon"] for group in GROUPS.values() for _, case in group} == {1e-3}


QUICK = [
    ("leduc_poker", "second betting round", 1),
    ("goofspiel(imp_info=True,num_cards=4,points_order=descending)", "depth 1", 0),
]


@pytest.mark.parametrize(("game", "where", "player"), QUICK)
@pytest.mark.slow
def test_published_subgames(game: str, where: str, player: int) -> None:
    check_published(game, where, player)  # the others: tests/slow


def check_published(game: str, where: str, player: int) -> None:
    """Cases with equal game, cut and player are lanes of one solve, CFR+ for 5,000 iterations in float64."""
    group = GROUPS[game, where, player]
    tree = tree_of(game)
    blueprints = Policy.stack([Policy.geometric(tree, RATIO[case["blueprint"]]) for _, case in group])
    value = group[0][0]["value_player0"]
    result = refine(
        tree,
        CUTS[where],
        blueprints,
        default_gadgets(),
        player=player,
        solver=Solver(iterations=5000, dtype="float64"),
        value=(value, value),
    )
    assert (result.gap.sum(axis=0) < 0.02).all()  # otherwise the brackets would be uninformative
    for number, (published, case) in enumerate(group):
        check_cut(result, published)
        check_values(result, blueprints, number, case)
        lanes = {name: g * len(group) + number for g, name in enumerate(GADGETS)}
        for name, lane in lanes.items():
            exact = case["blueprint_exploitability"]
            assert result.blueprint_exploitability[lane] == pytest.approx(exact, abs=SLACK)
            check_bracket(result.gadget_value[:, lane], result.gap[:, lane], case[name])
            refined = result.refined_exploitability[lane]
            assert refined >= case["optimal_continuation_exploitability"] - SLACK
            if name == "unsafe":
                assert np.isnan(result.exploitability_bound[lane])
            else:
                assert refined <= result.exploitability_bound[lane] + SLACK
            if name in NEARLY_UNIQUE and case["blueprint"] != "steep":
                assert refined <= 1.02 * case[name]["spliced_exploitability_lp_vertex"], name


def check_cut(result: Refinement, published: dict[str, Any]) -> None:
    where, tree = result.forest.cut, result.forest.tree
    assert (tree.num_histories, tree.num_terminals) == (published["histories"], published["terminals"])
    assert [len(infosets) for infosets in tree.infosets] == published["infosets"]
    assert result.num_subgames == published["subgames"]
    shapes: Counter[tuple[int, ...]] = Counter()
    for number in range(where.num_subgames):
        roots = where.roots[where.subgame == number]
        states = [len(np.unique(tree.infostate[p, roots])) for p in (0, 1)]
        shapes[len(roots), *states] += 1
    assert sorted([*shape, count] for shape, count in shapes.items()) == published["root_shapes"]


def check_values(result: Refinement, blueprints: Policy, lane: int, case: dict[str, Any]) -> None:
    """Normalised counterfactual best-response values."""
    ranges = prepare(result.forest, result.player, blueprints).ranges
    count = len(result.forest.roots[1 - result.player])
    assert count == case["opponent_root_infostates"]
    mass = np.asarray(ranges.mass)[:count, lane]
    values = np.asarray(ranges.cbv)[:count, lane][mass > 0] / mass[mass > 0]
    found = values.sum(), values.min(), values.max()
    published = [case[f"normalized_cbv_{what}"] for what in ("sum", "min", "max")]
    assert found == pytest.approx(published, abs=SLACK)


def check_bracket(low: Any, gap: Any, published: dict[str, float]) -> None:
    """`value ≤ LP ≤ value + gap`, summed and for the smallest and largest subgame."""
    high = low + gap
    for kind, summary in (("sum_over_subgames", np.sum), ("min", np.min), ("max", np.max)):
        optimum = published[f"gadget_value_{kind}"]
        assert summary(low) - SLACK <= optimum <= summary(high) + SLACK


# Lanes, padding, forests. A small random game whose sizes are rounded up when padded.

SHAPE = "uneven"
CUT = SHAPES[SHAPE].cut
ASKED: tuple[Gadget, ...] = (
    Unsafe(),
    Resolving(NoPrior()),
    Resolving(BlueprintPrior(), 0.02),
    MaxMargin(NoPrior()),
    MaxMargin(BlueprintPrior(), 0.02),
)
SOME = ASKED[3:]
BY_PLAYER = (ASKED, SOME)  # kinds that share an entry, and one other: each compiles its own programs
EQUAL = 1e-12


def small(seed: int = 0) -> tuple[HistoryTree, efg.Game]:
    return random_tree(SHAPE, seed)


@functools.cache
def blueprints(seed: int = 0) -> Policy:
    """Three random profiles; in the last two, one of the players does not reach some subgames."""
    tree, _ = small(seed)
    rows = [
        random_policy(tree, np.random.default_rng(k), zeros) for k, zeros in ((0, 0.0), (4, 0.3), (6, 0.3))
    ]
    return grove.to_policy(tree, rows)


def solved(seed: int = 0, asked: Sequence[Gadget] = ASKED, lanes: Policy | None = None, **options: Any):
    """`refine` on the small game in float64; its value is set to 0, because only rises matter."""
    tree, _ = small(seed)
    options = {"iterations": 5, "dtype": "float64", "value": (0.0, 0.0), **options}
    where = options.pop("where", CUT)
    return refine(tree, where, blueprints(seed) if lanes is None else lanes, asked, **settings(**options))


@functools.cache
def forest_of_three(player: int, iterations: int) -> Refinement:
    return solved(asked=BY_PLAYER[player], player=player, iterations=iterations)


NUMBERS = (
    "blueprint_exploitability",
    "refined_exploitability",
    "exploitability_bound",
    "gadget_value",
    "gap",
    "has_decision",
)


def check_equal(
    one: Refinement,
    other: Refinement,
    lanes: Any = slice(None),
    atol: float = EQUAL,
    inside: Any = slice(None),
) -> None:
    """Compare `one` with some lanes of `other`, in some or all of its subgames."""
    for rows, expected in zip(one.policy.probabilities, other.policy.probabilities, strict=True):
        np.testing.assert_allclose(rows, expected[:, lanes], rtol=0, atol=atol)
    for name in NUMBERS:
        found, expected = getattr(one, name), getattr(other, name)
        expected = expected[lanes] if expected.ndim == 1 else expected[:, lanes]
        np.testing.assert_allclose(found, expected, rtol=0, atol=atol, err_msg=name)


@pytest.mark.parametrize(
    ("player", "gadget", "lane"), [(0, 2, 1), pytest.param(1, 1, 2, marks=pytest.mark.slow)]
)
def test_a_lane_equals_its_solo_run(player: int, gadget: int, lane: int) -> None:
    check_solo_run(player, gadget, lane)  # another: tests/slow


def check_solo_run(player: int, gadget: int, lane: int) -> None:
    asked, lanes = BY_PLAYER[player][gadget : gadget + 1], blueprints().lane(lane)
    for iterations in range(1, 6):
        alone = solved(asked=asked, lanes=lanes, player=player, iterations=iterations)
        check_equal(alone, forest_of_three(player, iterations), [3 * gadget + lane])


def test_padding_changes_nothing() -> None:
    """In unsafe games; for the other gadgets, `test_driver.py` tests chunks."""
    tree, _ = small()
    sizes = [build_forest(tree, CUT, padded=padded).form.treeplex[0].levels for padded in (True, False)]
    assert sizes[0] != sizes[1]
    for iterations in range(1, 6):
        found = solved(asked=ASKED[:1], padded=False, iterations=iterations)
        check_equal(found, forest_of_three(0, iterations), [0, 1, 2])


@players
def test_permuting_lanes_permutes_results(player: int) -> None:
    order = [2, 0, 1]
    one, two = (rows[:, order] for rows in blueprints().probabilities)
    permuted = Policy(small()[0], (one, two), tuple(blueprints().labels[k] for k in order))
    found = solved(asked=BY_PLAYER[player], lanes=permuted, player=player)
    lanes = [3 * gadget + k for gadget in range(len(BY_PLAYER[player])) for k in order]
    check_equal(found, forest_of_three(player, 5), lanes)
    assert found.policy.labels == tuple(forest_of_three(player, 5).policy.labels[lane] for lane in lanes)


def largest_subgame() -> tuple[int, str]:
    """Its index, and the name of an infostate below its root."""
    tree, _ = small()
    forest = build_forest(tree, CUT)
    number = int(np.bincount(forest.cut.subgame).argmax())
    inside = np.nonzero(forest.infoset_subgame(0) == number)[0]
    return number, tree.infoset_names[0][inside[-1]]


def test_a_single_subgame_is_solved_as_in_the_forest() -> None:
    """Inside, rows and numbers equal those of the whole forest; outside, the blueprint is unchanged."""
    tree, _ = small()
    number, name = largest_subgame()
    inside = build_forest(tree, CUT).infoset_subgame(0) == number
    rows = inside[tree.infosets[0].infoset[1:]]
    before = np.tile(blueprints().probabilities[0], (1, len(ASKED) - 1))
    for iterations in range(1, 6):
        alone = solved(asked=ASKED[1:], where=cut(tree, CUT).only(name), iterations=iterations)
        forest = forest_of_three(0, iterations)
        assert alone.num_subgames == 1 and forest.num_subgames == SHAPES[SHAPE].subgames
        found, expected = alone.policy.probabilities[0], forest.policy.probabilities[0][:, 3:]
        np.testing.assert_array_equal(found[~rows], before[~rows])
        np.testing.assert_allclose(found[rows], expected[rows], rtol=0, atol=EQUAL)
        assert np.abs(found[rows] - before[rows]).max() > 0.01
        for number_of in ("gadget_value", "gap", "has_decision"):
            one, several = getattr(alone, number_of)[0], getattr(forest, number_of)[number, 3:]
            np.testing.assert_allclose(one, several, rtol=0, atol=EQUAL, err_msg=number_of)
        assert (alone.refined_exploitability <= alone.exploitability_bound + 1e-9).all()
        assert (alone.exploitability_bound <= forest.exploitability_bound[3:] + 1e-9).all()


@players
def test_only_the_resolver_changes_and_only_below_the_cut(player: int) -> None:
    tree, _ = small()
    result = forest_of_three(player, 5)
    above = build_forest(tree, CUT).infoset_subgame(player) < 0
    rows = above[tree.infosets[player].infoset[1:]]
    before = [np.tile(part, (1, len(BY_PLAYER[player]))) for part in blueprints().probabilities]
    assert 0 < rows.sum() < len(rows)
    np.testing.assert_array_equal(result.policy.probabilities[player][rows], before[player][rows])
    np.testing.assert_array_equal(result.policy.probabilities[1 - player], before[1 - player])
    assert (result.policy.probabilities[player] != before[player]).any(axis=0).all()


def test_subgames_with_nothing_to_solve_keep_the_blueprint() -> None:
    """Empty max-margin simplices, and unsafe subgames that the opponent never reaches: value and gap 0."""
    tree, _ = small()
    result = forest_of_three(0, 5)
    subgame = build_forest(tree, CUT).infoset_subgame(0)[tree.infosets[0].infoset[1:]]
    before = np.tile(blueprints().probabilities[0], (1, len(ASKED)))
    dead = np.argwhere(~result.has_decision)
    assert {ASKED[lane // 3].name for lane in dead[:, 1].tolist()} == {"unsafe", "resolving", "max-margin"}
    for number, lane in dead.tolist():
        rows = subgame == number
        assert result.gadget_value[number, lane] == result.gap[number, lane] == 0
        found = result.policy.probabilities[0][rows, lane]
        np.testing.assert_allclose(found, before[rows, lane], rtol=0, atol=1e-15)  # normalised
    assert f"; {len(dead)} subgame solves had nothing to solve and kept the blueprint" in result.message
    assert solved(asked=ASKED[1:2], lanes=blueprints().lane(0)).has_decision.all()
    assert "nothing to solve" not in solved(asked=ASKED[1:2], lanes=blueprints().lane(0)).message


def test_the_value_of_the_game_is_found_if_it_is_not_given() -> None:
    tree, game = small()
    result = solved(asked=ASKED[1:2], lanes=blueprints().lane(0), value=None)
    low, high = result.game_value
    exact = lp.solve(game.root, 0).value
    assert low - 1e-9 <= exact <= high + 1e-9
    assert high - low <= 1.01e-6 * tree.payoff_range
    expected = exact + efg.best_response_value(game.root, 1, grove.from_policy(blueprints(), 0))
    assert result.blueprint_exploitability[0] == pytest.approx(expected, abs=1e-6 * tree.payoff_range)


# Stopping, resuming


@pytest.mark.slow
def test_a_target_gap_stops_at_the_first_look_that_meets_it() -> None:
    target = 0.02
    result = solved(asked=SOME, iterations=3000, target_gap=target, check_every=20)
    assert result.gap.max() <= target + EQUAL
    for lane, done in enumerate(result.iterations.tolist()):
        assert done % 20 == 0 and 40 <= done < 3000
        assert solved(asked=SOME, iterations=done - 20).gap[:, lane].max() > target
        then = solved(asked=SOME, iterations=done)
        np.testing.assert_array_equal(result.gap[:, lane], then.gap[:, lane])
        for ours, theirs in zip(result.policy.probabilities, then.policy.probabilities, strict=True):
            np.testing.assert_array_equal(ours[:, lane], theirs[:, lane])
    most = int(result.iterations.max()) - 25
    cut_short = solved(asked=SOME, iterations=most, target_gap=target, check_every=20)
    np.testing.assert_array_equal(cut_short.iterations, np.minimum(result.iterations, most))


@pytest.mark.parametrize("target", [pytest.param(None, marks=pytest.mark.slow), 0.02])
def test_a_resumed_solve_is_bit_identical(target: float | None, tmp_path: pathlib.Path) -> None:
    """Interrupted between looks and chunks; a completed solve is not repeated."""
    options: dict[str, Any] = {"asked": SOME, "target_gap": target, "check_every": 20}
    undisturbed = solved(iterations=700, **options)
    for iterations in (13, 37, 700, 700):
        resumed = solved(iterations=iterations, checkpoint=tmp_path / "here", **options)
        assert resumed.iterations.max() <= iterations
    assert (resumed.iterations == undisturbed.iterations).all()
    check_equal(resumed, undisturbed, atol=0)
    assert [file.name for file in (tmp_path / "here").iterdir()] == ["max-margin.npz"]


@pytest.mark.parametrize(
    "changed",
    [
        {"algorithm": "dcfr"},
        {"seed": 1},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_a_checkpoint_of_another_solve_is_refused(changed: dict[str, Any], tmp_path: pathlib.Path) -> None:
    options: dict[str, Any] = {"asked": SOME, "checkpoint": tmp_path}
    solved(**options)
    before = (tmp_path / "max-margin.npz").read_bytes()
    with pytest.raises(ValueError, match="of another"):
        solved(**{**options, **changed})
    assert (tmp_path / "max-margin.npz").read_bytes() == before


def test_a_broken_checkpoint_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "max-margin.npz").write_bytes(b"no archive")
    with pytest.raises(ValueError, match="checkpoint"):
        solved(asked=SOME, checkpoint=tmp_path)


# Precision and compilation


def test_float32_has_certificates_in_float64() -> None:
    assert not jax.config.jax_enable_x64  # global flags of JAX are unchanged
    precise = solved(asked=SOME, iterations=200)
    single = solved(asked=SOME, iterations=200, dtype="float32")
    assert not jax.config.jax_enable_x64
    assert all(rows.dtype == np.float64 for rows in single.policy.probabilities)
    for result in (precise, single):
        assert result.gadget_value.dtype == result.gap.dtype == np.float64
        assert result.gap.max() < 0.05
        assert (result.refined_exploitability <= result.exploitability_bound + EQUAL).all()
        for player in (0, 1):
            rows = [np.concatenate([[1.0], part[:, 0]]) for part in result.policy.probabilities]
            found = efg.from_sequences(small()[0], (rows[0], rows[1]))
            assert max(abs(row.sum() - 1) for label, row in found.items() if label[0] == player) < 1e-14
    difference = np.abs(single.policy.probabilities[0] - precise.policy.probabilities[0]).max()
    assert 1e-10 < difference
    assert (single.gadget_value <= precise.gadget_value + precise.gap + EQUAL).all()


@contextlib.contextmanager
def counted() -> Iterator[list[str]]:
    """The functions that JAX traces or compiles within the context."""
    found: list[str] = []

    def listen(event: str, duration: float, **about: Any) -> None:
        if event.startswith("/jax/core/compile/"):
            found.append(f"{event}: {about}")

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def forget(*seeds: int) -> None:
    """Small games without cached data, which may be older than JAX's cleared programs."""
    for seed in seeds:
        small(seed)[0].cache.clear()


def test_a_second_forest_of_the_same_shape_compiles_nothing() -> None:
    """Other payoffs, chance, blueprints, priors, ε, iterations and target gaps."""
    values = np.random.default_rng(0).random((14, 3))
    first = (
        Unsafe(),
        Resolving(ArrayPrior(values), 0.1),
        Resolving(),
        MaxMargin(ArrayPrior(values)),
        MaxMargin(),
    )
    second = (
        Unsafe(),
        Resolving(ArrayPrior(values / 2), 0.2),
        Resolving(BlueprintPrior(), 0.3),
        MaxMargin(ArrayPrior(values[:, ::-1]), 0.01),
        MaxMargin(BlueprintPrior(clip=0.1), 0.3),
    )
    with counted() as anything:
        jax.jit(lambda x: x + 1)(1.0)
    assert anything
    forget(0, 1)
    solved(seed=0, asked=first, iterations=5)
    with counted() as compiled:
        result = solved(seed=1, asked=second, iterations=9)
    assert compiled == []
    assert (result.iterations == 9).all()
    solved(seed=0, asked=SOME, target_gap=0.5, check_every=20)
    with counted() as compiled:
        solved(seed=1, asked=SOME, iterations=50, target_gap=0.1, check_every=20)
    assert compiled == []


# Texts of results


def test_table() -> None:
    result = forest_of_three(0, 5)
    table = result.table
    assert table.loc[:, "order":"mean_exploitability"].isna().to_numpy().all()
    assert len(table) == result.policy.num_lanes == 15
    assert set(table["player"]) == {0} == {result.player}
    assert set(forest_of_three(1, 5).table["player"]) == {1}
    assert table["blueprint"].tolist() == ["lane 0", "lane 1", "lane 2"] * 5
    kinds = [("unsafe", "none"), ("resolving", "none"), ("resolving", "blueprint")]
    kinds += [("max-margin", "none"), ("max-margin", "blueprint")]
    asked = list(zip(table["gadget"], table["prior"], strict=True))
    assert asked == [kind for kind in kinds for _ in range(3)]
    assert table["epsilon"].tolist() == [0.0] * 6 + [0.02] * 3 + [0.0] * 3 + [0.02] * 3
    for name in ("blueprint_exploitability", "refined_exploitability", "exploitability_bound"):
        np.testing.assert_array_equal(table[name], getattr(result, name))
    np.testing.assert_allclose(table["gadget_value_sum"], result.gadget_value.sum(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(table["gadget_value_min"], result.gadget_value.min(axis=0))
    np.testing.assert_array_equal(table["gadget_value_max"], result.gadget_value.max(axis=0))
    np.testing.assert_allclose(table["gap_sum"], result.gap.sum(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(table["gap_max"], result.gap.max(axis=0))
    assert table["exploitability_bound"].isna().tolist() == [True] * 3 + [False] * 12
    assert (result.algorithm, set(result.iterations.tolist())) == ("cfr+", {5})
    assert set(result.seconds) == {"build", "compile", "run"} and min(result.seconds.values()) >= 0


# Errors


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"asked": ()}, "is empty"),
        ({"check_every": 0, "target_gap": 1.0}, "check_every="),
        ({"lanes": []}, r"no policies to stack"),
        ({"value": (float("nan"), 1.0)}, "value="),
        ({"asked": (MaxMargin,)}, "is not a gadget"),
    ],
)
def test_bad_arguments(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        solved(**options)


def test_a_blueprint_of_another_game_is_refused() -> None:
    kuhn = tree_of("kuhn_poker")
    with pytest.raises(ValueError, match="uniform"):
        solved(lanes=Policy.uniform(kuhn))
    with pytest.raises(ValueError, match=r"is for 'kuhn_poker.*', not for 'random"):
        solved(lanes=[blueprints(), Policy.uniform(kuhn)])
    with pytest.raises(ValueError, match="another tree"):
        refine(kuhn, cut(small()[0], CUT), Policy.uniform(kuhn), value=(0.0, 0.0))


def test_an_infostate_above_the_cut_lies_in_no_subgame() -> None:
    tree, _ = small()
    above = int(np.nonzero(build_forest(tree, CUT).infoset_subgame(0) < 0)[0][0])
    with pytest.raises(ValueError, match="above"):
        cut(tree, CUT).only(tree.infoset_names[0][above])


@pytest.mark.parametrize(
    ("function", "former", "new"),
    [
        (jaxgadget.refine, "infostate", "cut(tree, …).only"),
        (jaxgadget.refine_both, "padded", "Solver(padded=…"),
        (jaxgadget.search, "infostate", "cut(tree, …).only"),
        (jaxgadget.nested_search, "knowledge", "Lookahead(knowledge=…"),
        (jaxgadget.nested_off_tree, "levels", "Answering(levels=…"),
    ],
)
def test_keywords_of_earlier_versions_name_their_new_places(function: Any, former: str, new: str) -> None:
    with pytest.raises(TypeError, match=re.escape(new)):
        function(small()[0], CUT, blueprints(), **{former: None})
