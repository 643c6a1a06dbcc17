"""Depth-limited subgames: their payoffs, their values, and properties for every portfolio."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest

from jaxgadget import (
    BlueprintPrior,
    Full,
    HistoryTree,
    MaxMargin,
    NoPrior,
    Policy,
    Resolving,
    Unsafe,
    cut,
    enumerate_game,
    evaluate_policy,
    game_value,
    load,
    nash_conv,
    refine,
    solve,
)
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.structure import build_structure, find_ranges
from jaxgadget.subgames import limits
from jaxgadget.subgames.depth_limited import Search, search
from jaxgadget.subgames.limits import limit_at_decisions, limit_by_depth
from jaxgadget.subgames.profile import Profile, root_reach
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.values.histories import ExactValues, OwnValues
from tests.reference import efg
from tests.reference.continuations import continuation_values, limited_values
from tests.solving import nested_search, settings
from tests.trees import tree_of

GOOFSPIEL = "goofspiel(num_cards=4,imp_info=True,points_order=descending)"
LEDUC = "leduc_poker(num_ranks=2,max_raises=1)"
ROUNDING = 1e-12


def draws(tree: HistoryTree, *seeds: int) -> Policy:
    return Policy.stack([Policy.dirichlet(tree, seed) for seed in seeds])


def halves(first: Policy, second: Policy) -> Policy:
    """Player 0's entries of one portfolio, player 1's of the other."""
    return Policy(first.tree, (first.probabilities[0], second.probabilities[1]), first.labels)


@functools.cache
def equilibrium(name: str) -> Policy:
    return solve(tree_of(name), algorithm="pcfr+", iterations=1500).policy


@functools.cache
def explicit(name: str) -> efg.Game:
    return efg.from_tree(tree_of(name))


def strategies(policy: Policy, player: int) -> list[efg.Strategy]:
    """A player's lanes as rows by infoset."""
    infosets = policy.tree.infosets[player]
    ends = infosets.first_sequence - 1 + infosets.num_actions
    return [
        {
            (player, j): rows[first:last]
            for j, (first, last) in enumerate(zip(infosets.first_sequence - 1, ends, strict=True))
        }
        for rows in policy.probabilities[player].T
    ]


def by_roots(lookahead: Forest, values: Any, policy: Policy, choices: Any) -> Any:
    """`[R_0, R_1, T]` the payoff of a lookahead by root infostates, for T choices `[states, T]` a player."""
    payoff = lookahead.with_values(values).form.payoff
    plans: list[Any] = []
    roots: list[Any] = []
    for player in (0, 1):
        treeplex, sequence = lookahead.form.treeplex[player], lookahead.form.action_sequences(player)
        chosen = np.equal.outer(choices[player].T, np.arange(lookahead.leaves.num_choices))  # [T, states, K]
        above = np.repeat(policy.probabilities[player], len(chosen), axis=1)
        rows = np.concatenate([above, chosen.reshape(len(chosen), -1).T])
        plan, root = np.ones((treeplex.num_sequences, len(chosen))), np.arange(treeplex.num_sequences)
        for q, infoset in enumerate(treeplex.sequence_infoset.tolist()):  # levels from above
            here, parent = treeplex.num_roots + q, treeplex.parent[infoset]
            plan[here] = plan[parent] * (rows[sequence[q] - 1] if sequence[q] > 0 else 0)
            root[here] = root[parent]
        plans.append(plan)
        roots.append(root)
    found = np.zeros(
        (lookahead.form.treeplex[0].num_roots, lookahead.form.treeplex[1].num_roots, plans[0].shape[1])
    )
    cells = payoff.value[:, None] * plans[0][payoff.row] * plans[1][payoff.column]
    np.add.at(found, (roots[0][payoff.row], roots[1][payoff.column]), cells)
    return found


@pytest.mark.parametrize(
    ("name", "where", "depth", "player"),
    [
        ("kuhn_poker", "depth:1", 1, None),
        (GOOFSPIEL, "depth:0", 2, None),
        ("goofspiel(num_cards=3)", "depth:0", 1, None),
        ("liars_dice(dice_sides=3)", "depth:2", 2, 0),
        ("leduc_poker", "flop", 1, None),
        ("leduc_poker", "before-flop", 1, None),
        ("leduc_poker", "depth:1", 1, 1),
    ],
)
def test_the_payoff_is_that_of_an_explicit_recursion(
    name: str, where: str, depth: int, player: int | None
) -> None:
    """Every pair of entries everywhere, then another pair at each leaf; root by root."""
    tree, rng = tree_of(name), np.random.default_rng(0)
    spot = cut(tree, where)
    leaves = (
        limit_by_depth(tree, spot, depth) if player is None else limit_at_decisions(tree, spot, depth, player)
    )
    portfolio, policy = halves(draws(tree, 1, 2, 3), draws(tree, 4, 5, 6)), Policy.dirichlet(tree, 7)
    lookahead = build_forest(tree, spot, limit=leaves, num_choices=3)
    pairs = np.array(list(np.ndindex(3, 3)))
    choices: list[Any] = []
    for p in (0, 1):
        states = np.ones((len(lookahead.leaves.states[p]), 1), int)
        choices.append(np.concatenate([states * pairs[:, p], rng.integers(3, size=(len(states), 4))], axis=1))
    found = by_roots(lookahead, ExactValues(portfolio)(tree, leaves), policy, choices)
    table = continuation_values(explicit(name), (strategies(portfolio, 0), strategies(portfolio, 1)))
    place = [{int(s): i for i, s in enumerate(states)} for states in lookahead.leaves.states]
    worth = {
        h: table[h][tuple(choices[p][place[p][int(tree.infostate[p, h])]] for p in (0, 1))]
        for h in leaves.tolist()
    }
    played = strategies(policy, 0)[0] | strategies(policy, 1)[0]
    below = limited_values(explicit(name), spot.roots.tolist(), worth, played)
    expected = np.zeros_like(found)
    for h, value in zip(spot.roots.tolist(), below, strict=True):
        at = tuple(lookahead.roots[p].infostate.tolist().index(tree.infostate[p, h]) for p in (0, 1))
        expected[at] += tree.chance[h] * value
    assert len(leaves) > 0 and np.ptp(expected[..., :9], axis=-1).max() > 1e-3, "pairs differ"
    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize(
    ("name", "where", "depth", "beyond"),
    [("kuhn_poker", "depth:0", 1, 0), (LEDUC, "depth:1", 2, 0), (LEDUC, "depth:1", 2, 1)],
)
def test_a_tree_to_the_limit_or_beyond_will_do(name: str, where: str, depth: int, beyond: int) -> None:
    """Any tree that contains the limit gives the same result; in Kuhn player 1 then has no infoset."""
    tree = tree_of(name)
    above = enumerate_game(load(name), depth=int(where.removeprefix("depth:")) + depth + beyond)
    assert above.is_truncated and (name != "kuhn_poker" or len(above.infosets[1]) == 0)
    blueprint = Policy.dirichlet(tree, 0)
    values = ExactValues(Policy.stack([blueprint, draws(tree, 1, 2)]))
    how: dict[str, Any] = {"values": values, "depth": depth, "iterations": 20, "dtype": "float64"}
    whole, short = (search(t, where, blueprint, Resolving(), **settings(**how)) for t in (tree, above))
    for what in ("gadget_value", "gap", "has_decision"):
        np.testing.assert_array_equal(getattr(short, what), getattr(whole, what))
    assert short.gap.max() > 0
    for mine, theirs in zip(short.policy.probabilities, whole.policy.on(above).probabilities, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert np.abs(short.policy.probabilities[0] - blueprint.on(above).probabilities[0]).max() > 0.1


@pytest.mark.parametrize(
    ("name", "depth"),
    [("kuhn_poker", 1), (GOOFSPIEL, 1)],
)
def test_with_an_equilibrium_in_both_portfolios_the_value_is_the_games(name: str, depth: int) -> None:
    """Without it in one of them the value differs; the two players' portfolios differ."""
    tree, solved = tree_of(name), equilibrium(name)
    low, high = game_value(tree)
    poor, other = draws(tree, 0, 1, 2), draws(tree, 5, 6, 7)
    second = halves(other, Policy.stack([solved, draws(tree, 6, 7)]))
    with_it = halves(Policy.stack([draws(tree, 0, 1), solved]), second)
    found = limited(tree, with_it, depth)
    slack = float(found.gap.sum()) + float(nash_conv(solved)[0]) + (high - low)
    assert found.gap.sum() < 5e-3 * tree.payoff_range, "the gap says something"
    assert abs(float(found.gadget_value.sum()) - (low + high) / 2) <= slack
    without = limited(tree, halves(poor, second), depth)
    assert abs(float(without.gadget_value.sum()) - (low + high) / 2) > slack + without.gap.sum()


def limited(tree: HistoryTree, portfolio: Policy, depth: int) -> Search:
    how: dict[str, Any] = {"depth": depth, "iterations": 1000, "dtype": "float64"}
    return search(
        tree, "depth:0", Policy.uniform(tree), Unsafe(), values=ExactValues(portfolio), **settings(**how)
    )


def test_one_entry_is_the_blueprint() -> None:
    """With K = 1 every leaf has its value under the blueprint, and the trunk has the blueprint's value."""
    tree = tree_of("kuhn_poker")
    blueprint = Policy.dirichlet(tree, 3)
    found = search(tree, "depth:0", blueprint, Unsafe(), values=ExactValues(blueprint), iterations=1)
    (values,), leaves = found.values, found.lookahead.leaves.histories
    own = strategies(blueprint, 0), strategies(blueprint, 1)
    expected = continuation_values(explicit("kuhn_poker"), own)[leaves]
    assert expected.shape == (12, 1, 1)
    np.testing.assert_allclose(values, expected, rtol=0, atol=ROUNDING)
    worth = {h: values[i, 0, 0] for i, h in enumerate(leaves.tolist())}
    (value,) = limited_values(explicit("kuhn_poker"), [0], worth, own[0][0] | own[1][0])
    assert value == pytest.approx(float(evaluate_policy(blueprint).value[0]), abs=ROUNDING)


@pytest.mark.parametrize(
    ("name", "where", "player", "gadgets"),
    [
        (GOOFSPIEL, "depth:1", 0, [Unsafe(), Resolving(NoPrior()), MaxMargin(BlueprintPrior(), 0.01)]),
        (LEDUC, "flop", 1, [Resolving(NoPrior()), Resolving(BlueprintPrior(), 0.01)]),
    ],
)
def test_beyond_the_end_it_is_the_ordinary_subgame(
    name: str, where: str, player: int, gadgets: list[Gadget]
) -> None:
    """To the last bit; policies are assembled in another order."""
    tree = tree_of(name)
    blueprint = Policy.dirichlet(tree, 0)
    how: dict[str, Any] = {"player": player, "iterations": 5, "dtype": "float64"}
    found = search(
        tree, where, blueprint, gadgets, values=ExactValues(blueprint), depth=99, **settings(**how)
    )
    assert len(found.lookahead.leaves) == 0
    whole = refine(tree, where, blueprint, gadgets, value=(0.0, 0.0), **settings(**how))
    for what in ("gadget_value", "gap", "has_decision"):
        np.testing.assert_array_equal(getattr(found, what), getattr(whole, what))
    rows = found.policy.probabilities[player], whole.policy.probabilities[player]
    np.testing.assert_allclose(*rows, rtol=0, atol=4 * np.finfo(np.float64).eps)
    assert found.table["exploitability_bound"].isna().all(), "a depth limit has no bound"


def test_alternative_values_are_best_responses_down_to_the_limit() -> None:
    """`V̄(s)` is the minimum over the opponent's actions and entries; ranges are the blueprint's."""
    tree = tree_of("kuhn_poker")
    blueprint = Policy.dirichlet(tree, 0)
    values = ExactValues(Policy.stack([blueprint, draws(tree, 1, 2)]))
    where = cut(tree, "depth:1")
    leaves = limit_by_depth(tree, where, 1)
    lookahead = build_forest(tree, where, limit=leaves, num_choices=3)
    table = values(tree, leaves)
    profile = Profile.of_blueprint(lookahead, blueprint)
    ranges = find_ranges(
        build_structure(lookahead.with_values(table), 0),
        profile.bodies(lookahead),
        root_reach(lookahead, blueprint),
    )
    row = {int(h): i for i, h in enumerate(leaves)}
    children = {h: np.nonzero(tree.parent == h)[0][int(h == 0) :].tolist() for h in where.roots.tolist()}
    reach = blueprint.reach(0)
    seen = 0
    for number, state in enumerate(lookahead.roots[1].infostate.tolist()):
        histories = [h for h in where.roots.tolist() if tree.infostate[1, h] == state]
        weights = [tree.chance[h] * reach[tree.sequence[0, h], 0] for h in histories]
        options: list[float] = []
        for action in (0, 1):  # the action ends the game, or leads to a leaf where 1 chooses an entry
            after = [children[h][action] for h in histories]
            if after[0] in row:
                by_entry = sum(w * table[row[h], 0] for w, h in zip(weights, after, strict=True))
                options.append(float(by_entry.min()))
            else:
                options.append(float(sum(w * tree.payoff[h] for w, h in zip(weights, after, strict=True))))
            seen += after[0] in row
        assert float(ranges.cbv[number, 0]) == pytest.approx(min(options), abs=ROUNDING)
        assert float(ranges.mass[number, 0]) == pytest.approx(sum(weights), abs=ROUNDING)
    assert 0 < seen < 2 * len(lookahead.roots[1])


def first_on_every_path(tree: HistoryTree, roots: Any, depth: int, players: tuple[int, ...]) -> list[int]:
    """The first histories below each root after the given number of decisions of these players."""
    children: dict[int, list[int]] = {}
    for h in range(1, tree.num_histories):
        children.setdefault(int(tree.parent[h]), []).append(h)

    def walk(h: int, moves: int) -> list[int]:
        if moves >= depth and any(tree.infoset[p, h] >= 0 for p in players):
            return [h]
        acts = int(tree.infoset[:, h].max() >= 0)
        return [end for child in children.get(h, []) for end in walk(child, moves + acts)]

    return sorted(end for root in roots.tolist() for end in walk(root, 0))


@pytest.mark.parametrize(
    ("name", "above"), [("leduc_poker", "depth:1"), ("goofspiel(num_cards=3)", "depth:0")]
)
@pytest.mark.parametrize("chunk", [37, limits.CHUNK], ids=["many chunks", "one chunk"])
def test_limits(name: str, above: str, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHUNK", chunk)
    tree = tree_of(name)
    where = cut(tree, above)
    for depth in (1, 2, 3):
        everybody = first_on_every_path(tree, where.roots, depth, (0, 1))
        assert limit_by_depth(tree, where, depth).tolist() == everybody
        if everybody:  # a cut is never empty
            assert everybody == cut(tree, f"depth:{depth + int(above[-1])}").roots.tolist()
        for player in (0, 1):
            leaves = limit_at_decisions(tree, where, depth, player).tolist()
            assert leaves == first_on_every_path(tree, where.roots, depth, (player,))
            assert len(leaves) > 0 or name != "leduc_poker", "only Goofspiel 3 is that short"
    assert len(limit_by_depth(tree, where, 99)) == len(limit_at_decisions(tree, where, 99, 0)) == 0


def test_payoffs_that_do_not_fit_are_refused_before_they_are_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kuhn's first limit has 12 leaves, here with 12 million payoffs."""
    tree = tree_of("kuhn_poker")

    def unasked(_: HistoryTree, histories: Any) -> Any:
        raise AssertionError("asked")

    values = OwnValues(unasked, 1000)
    monkeypatch.setattr(limits, "find_memory", lambda place: 12_000_000 * limits.CELL_BYTES - 1)
    message = r"num_entries=1000: a lookahead of kuhn_poker has 12000000 payoffs, which take 5.88 GB, "
    with pytest.raises(ValueError, match=message):
        search(tree, "depth:0", Policy.uniform(tree), Unsafe(), values=values, iterations=2)
    monkeypatch.setattr(limits, "find_memory", lambda place: 1_000_000)
    with pytest.raises(ValueError, match="num_entries="):
        nested_search(tree, Policy.uniform(tree), Unsafe(), values=values, iterations=2)


class Accelerator:
    platform = "gpu"

    def memory_stats(self) -> dict[str, int]:
        return {"bytes_limit": 1_000_000, "bytes_in_use": 600_000}


def test_a_limit_through_an_infoset_is_refused() -> None:
    tree = tree_of("kuhn_poker")
    where = cut(tree, "depth:0")
    limit = limit_by_depth(tree, where, 1)
    assert len(build_forest(tree, where, limit=limit, num_choices=2).leaves) == 12
    with pytest.raises(ValueError, match="limit"):
        build_forest(tree, where, limit=limit[1:], num_choices=2)


def test_a_value_function_is_called_once_for_all_blueprints() -> None:
    tree, asked = tree_of("kuhn_poker"), list[int]()
    exact = ExactValues(draws(tree, 1, 2))

    def noted(where: HistoryTree, histories: Any) -> Any:
        asked.append(len(histories))
        return exact(where, histories)

    one, other = OwnValues(noted, 2), OwnValues(noted, 2)  # one function for two blueprints, one for one
    profiles = draws(tree, 0, 3, 4)
    how: dict[str, Any] = {"iterations": 2, "dtype": "float64"}
    found = search(tree, "depth:1", profiles, Unsafe(), values=[one, other, one], **settings(**how))
    assert asked == [6, 6], "by depth 2"
    for values in found.values:
        np.testing.assert_array_equal(values, exact(tree, found.lookahead.leaves.histories))


def test_reported_iterations_are_those_completed() -> None:
    tree, profiles = tree_of("kuhn_poker"), draws(tree_of("kuhn_poker"), 0, 1)
    how: dict[str, Any] = {"values": ExactValues(profiles), "iterations": 300}
    gadgets = Unsafe(), Resolving(NoPrior())
    assert search(tree, "depth:1", profiles, gadgets, **settings(**how)).iterations.tolist() == [300] * 4
    stopped = search(tree, "depth:1", profiles, gadgets, **settings(target_gap=1e3, **how))
    assert stopped.iterations.tolist() == [100] * 4, "the gap is looked at for the first time then"
    assert "after 100 iterations" in stopped.message


COUNTS: list[Any] = [0, -1, 2.5, True, None, "3", [1]]


@dataclasses.dataclass
class Counted:
    """A value function with the given number of entries."""

    num_entries: Any
    blueprint: str | None = None

    def __call__(self, tree: HistoryTree, histories: Any) -> Any:
        return np.zeros((len(histories), 1, 1))


def test_bad_input() -> None:
    tree = tree_of("kuhn_poker")
    blueprint = Policy.uniform(tree)
    exact = ExactValues(blueprint)
    bad: list[tuple[dict[str, Any], str]] = [
        ({"depth": 0}, "depth=0: expected a whole number of moves >= 1"),
        ({"depth": 1.5}, "depth=1.5"),
        ({"values": [exact, exact]}, "2 value functions for 1 blueprints"),
        ({"values": ExactValues}, "expected a value function"),
        ({"values": "exact"}, "values='exact': expected a value function"),
        *[({"values": Counted(bad)}, rf"values.num_entries={bad!r}".replace("[", r"\[")) for bad in COUNTS],
        (
            {"values": OwnValues(lambda t, h: np.full((len(h), 1, 1), 1e39), 1)},
            r"returned 1e\+39 at .* the range of float32",
        ),
        ({"values": OwnValues(lambda t, h: np.full((len(h), 2, 2), np.nan), 2)}, "history"),
        ({"values": OwnValues(lambda t, h: np.zeros((len(h), 3, 2)), 2)}, "shape"),
        ({"values": ExactValues(Policy.uniform(tree_of(GOOFSPIEL)))}, "goofspiel"),
        ({"gadgets": Full()}, "gadgets: full requires"),
        ({"algorithm": "lp"}, "lp"),
        ({"player": 2}, "player=2"),
    ]
    for options, message in bad:
        how: dict[str, Any] = {"values": exact, "gadgets": Unsafe(), "iterations": 2} | options
        with pytest.raises(ValueError, match=message):
            search(tree, "depth:0", blueprint, how.pop("gadgets"), **settings(**how))
