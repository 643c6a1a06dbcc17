"""Linear programs compared with those of explicit trees; completion, sequential equilibria, errors."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array

from jaxgadget.core.host import Entries, HostTreeplex, build_treeplex, rounded_size
from jaxgadget.core.lp import highs
from jaxgadget.core.lp import solve as lp
from jaxgadget.core.lp.highs import Model
from jaxgadget.core.lp.program import build_program
from jaxgadget.core.lp.solve import Goal, Optimum, ProgramError
from jaxgadget.core.payoff import Payoff, build_payoff
from jaxgadget.core.problem import (
    Parts,
    Problem,
    Terms,
    build_side,
    evaluation_game,
    fixed_entry,
    no_regret_tolerance,
)
from jaxgadget.core.regret import ChoiceRule
from jaxgadget.games import examples
from jaxgadget.policy.evaluate import evaluate_parts as evaluate
from jaxgadget.policy.evaluate import terminal_payoff
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.tree.sequence import SequenceForm
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.precision import precision
from tests.core.test_problem import with_terms
from tests.reference import cuts, efg, gadgets
from tests.reference import lp as reference
from tests.reference.efg import Array, Label
from tests.reference.random_games import SHAPES, random_subgames, random_tree

CLOSE = 1e-8
shapes = pytest.mark.parametrize("shape", SHAPES)
players = pytest.mark.parametrize("player", [0, 1])


def entry_treeplex(
    num_games: int, game: Array, num_actions: Array, padded: bool
) -> tuple[HostTreeplex, Array]:
    """Decisions directly below the games' roots, and their positions."""
    return build_treeplex(
        num_roots=num_games,
        depth=np.zeros(len(game), np.int64),
        num_actions=num_actions,
        parent_infoset=np.full(len(game), -1),
        parent_slot=game,
        infoset=np.arange(len(game)),
        rounding=rounded_size if padded else lambda size: size,
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Player:
    """One player's decisions and arrays, one lane; by default without floors or constants."""

    body: HostTreeplex
    entry: HostTreeplex = dataclasses.field(default_factory=lambda: fixed_entry(1))
    link: Array
    scale: Array
    constant: Array
    entry_legal: Array | None = None
    entry_floor: Array | None = None
    body_floor: Array | None = None

    def terms(self) -> Terms:
        def lane(values: Array | None):
            return None if values is None else np.asarray(values)[:, None]

        return Terms(
            scale=lane(self.scale),
            constant=lane(self.constant),
            entry=ChoiceRule(legal=lane(self.entry_legal), floor=lane(self.entry_floor)),
            body=ChoiceRule(floor=lane(self.body_floor)),
        )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """A problem of one lane on the host, and the player whose guarantee is maximised."""

    name: str
    maximiser: int
    players: tuple[Player, Player]
    payoff: Entries

    def problem(self) -> Problem:
        with precision(np.float64):
            first, second = (
                build_side(player.body, player.entry, player.link, np.float64) for player in self.players
            )
            return Problem(
                order=(1 - self.maximiser, self.maximiser),
                sides=(first, second),
                terms=(self.players[0].terms(), self.players[1].terms()),
                payoff=build_payoff(self.payoff, np.float64),
                regret_tolerance=no_regret_tolerance((first, second), 1, np.float64),
            )


def solve_program(asked: Asked, *, goal: Goal | None = None, **options) -> Optimum:
    goal = goal or Goal(maximiser=asked.maximiser)
    return lp.solve_program(asked.problem(), 0, goal, name=asked.name, **options)


def refined(asked_for: Callable[[float], Asked], **options) -> Optimum:
    asked = asked_for(0.0)
    goal = Goal(maximiser=asked.maximiser)
    return lp.refined(lambda epsilon: asked_for(epsilon).problem(), 0, goal, name=asked.name, **options)


def rows_of(form: SequenceForm, player: int, values: Array) -> dict[Label, Array]:
    """A body's rows by infoset label."""
    treeplex = form.treeplex[player]
    found: dict[Label, Array] = {}
    for j in np.nonzero(treeplex.infoset >= 0)[0].tolist():
        found[player, int(treeplex.infoset[j])] = values[treeplex.rows(j)]
    return found


def profile(form: SequenceForm, found: Optimum) -> dict[Label, Array]:
    return {key: row for p in (0, 1) for key, row in rows_of(form, p, found.strategy[p].body).items()}


# Whole games


def whole(tree: HistoryTree, maximiser: int, floors: tuple[Array | None, Array | None] = (None, None)):
    form = sequence_form(tree)
    pair = [
        Player(
            body=form.treeplex[p],
            link=np.zeros(1, np.int64),
            scale=np.ones(1),
            constant=np.zeros(1),
            body_floor=floors[p],
        )
        for p in (0, 1)
    ]
    return Asked(name=tree.game.name, maximiser=maximiser, players=(pair[0], pair[1]), payoff=form.payoff)


def random_floors(tree: HistoryTree, seed: int) -> tuple[tuple[Array, Array], dict[Label, Array]]:
    """Random floors of many actions, for the bodies and by label; some infosets are fully determined."""
    rng, form = np.random.default_rng(seed), sequence_form(tree)
    arrays, labels = [], {}
    for p in (0, 1):
        treeplex = form.treeplex[p]
        array = np.zeros(treeplex.num_sequences - 1)
        for j in range(treeplex.num_infosets):
            rows = treeplex.rows(j)
            share = rng.choice([0.0, 0.05, 0.3, 1.0], p=[0.2, 0.3, 0.4, 0.1])
            array[rows] = share * rng.dirichlet(np.ones(len(rows)))
            labels[p, int(treeplex.infoset[j])] = array[rows]
        arrays.append(array)
    return (arrays[0], arrays[1]), labels


@pytest.mark.parametrize("floored", [False, True])
@players
@shapes
def test_whole_games_are_those_of_explicit_trees(shape, player, floored):
    for seed in (1, 2, 3):
        tree, game = random_tree(shape, seed)
        arrays, labels = random_floors(tree, seed) if floored else ((None, None), {})
        found = solve_program(whole(tree, player, arrays))
        value = reference.solve(game.root, player, labels).value
        assert found.value == pytest.approx([value], abs=CLOSE)
        assert found.gap == pytest.approx([0], abs=CLOSE)
        rows = profile(sequence_form(tree), found)
        for p, sign in ((player, 1), (1 - player, -1)):  # a saddle point: neither player gains by deviating
            worst = efg.best_response_value(game.root, 1 - p, rows, labels)
            assert worst == pytest.approx(-sign * value, abs=CLOSE)
        for label, row in rows.items():
            assert row.sum() == pytest.approx(1, abs=1e-14)
            assert (row >= labels.get(label, 0)).all()


@players
def test_strategies_are_mutual_counterfactual_best_responses(player):
    """This holds at infosets that the player itself does not reach, where solver rows are arbitrary."""
    bare = 0
    for shape in SHAPES:
        tree, game = random_tree(shape, 4)
        form, asked = sequence_form(tree), whole(tree, player)
        rows = profile(form, solve_program(asked))
        program = build_program(asked.problem(), 0, Goal(maximiser=player), "raw")
        plan = program.plans({0: highs.run(program.part(0), "raw")}).maximiser
        uncompleted, reached = program.games.maximiser.behaviour(plan, program.stakes[0])
        before = {**rows, **rows_of(form, player, uncompleted)}
        assert not reached.all()
        for p in (0, 1):
            for label, q in efg.counterfactual_values(game.root, p, rows).items():
                assert rows[label] @ q == pytest.approx(q.max(), abs=CLOSE)
        bare += sum(
            before[label] @ q < q.max() - 1e-3
            for label, q in efg.counterfactual_values(game.root, player, before).items()
        )
    assert bare > 3


def test_unreachable_infosets_play_the_fallback():
    tree = enumerate_game(examples.matching_pennies_twist())
    form = sequence_form(tree)  # after two tails, sequence 2 of both, player 1 chooses 3 or 4
    payoff = Entries(
        row=np.array([1, 1, 2, 2, 2]),
        column=np.array([1, 2, 1, 3, 4]),
        value=np.array([-9.0, 20.0, -30.0, 10.0, 1.0]),
        shape=form.payoff.shape,
    )
    asked = dataclasses.replace(whole(tree, 0), payoff=payoff)
    for rows, last in ((None, [0.5, 0.5]), (np.array([0.5, 0.5, 0.3, 0.7]), [0.3, 0.7])):
        found = solve_program(asked, fallback=(None, rows))
        assert found.value == pytest.approx([-9])
        np.testing.assert_array_equal(found.strategy[0].body, [1, 0])
        np.testing.assert_array_equal(found.strategy[1].body, [1, 0, *last])
    asked = whole(tree, 0, (None, np.array([0, 0, 0.4, 0.0])))
    floored = solve_program(dataclasses.replace(asked, payoff=payoff), fallback=(None, rows))
    np.testing.assert_allclose(floored.strategy[1].body, [1, 0, 0.4 + 0.6 * 0.3, 0.6 * 0.7])
    # Against a player 0 who reaches this infoset, the best action is played, not the fallback.
    payoff = dataclasses.replace(payoff, value=np.array([-9.0, 20.0, -8.0, 10.0, 11.0]))
    found = solve_program(dataclasses.replace(asked, payoff=payoff), fallback=(None, rows))
    np.testing.assert_allclose(found.strategy[1].body, [1, 0, 1, 0])


# Gadget games on forests


@dataclasses.dataclass(frozen=True)
class Setting:
    """A gadget over all subgames of a shape, with the explicit subgames."""

    form: SequenceForm
    explicit: list[gadgets.Subgame]
    program_of: Callable[[float], Asked]


@functools.cache
def forest_of(shape: str, seed: int) -> Forest:
    return build_forest(random_tree(shape, seed)[0], SHAPES[shape].cut, padded=True)


def gadget(
    forest: Forest, explicit: list[gadgets.Subgame], kind: str, prior: str = "none", padded: bool = True
) -> Setting:
    """Entries from the explicit subgames' numbers; only the structure is the production code's."""
    resolver, form = explicit[0].resolver, forest.form
    mine, theirs = forest.roots[resolver], forest.roots[1 - resolver]
    reach = {
        (g, explicit[g].game.infostate[resolver][h]): explicit[g].resolver_reach(h)
        for g in range(len(explicit))
        for h in explicit[g].roots
    }
    states = [
        (explicit[g], s) for g, s in zip(theirs.subgame.tolist(), theirs.infostate.tolist(), strict=True)
    ]
    games = len(explicit) + 2 if padded else len(explicit)  # roots of games that do not exist

    def side(entry, player, roots, link, scale, constant, **bounds):
        missing = form.treeplex[player].num_roots - len(roots)
        return Player(
            entry=entry,
            body=form.treeplex[player],
            link=np.pad(link, (0, missing), constant_values=-1),
            scale=np.pad(scale, (0, missing)),
            constant=constant,
            **bounds,
        )

    own = [reach[key] for key in zip(mine.subgame.tolist(), mine.infostate.tolist(), strict=True)]
    fixed = side(fixed_entry(games), resolver, mine, mine.subgame, np.array(own), np.zeros(games))

    def program_of(epsilon: float) -> Asked:
        if kind == "resolving":
            entry, position = entry_treeplex(games, theirs.subgame, np.full(len(states), 2), padded)
            link = entry.first_sequence[position]
            constant, floor = np.zeros(entry.num_sequences), np.zeros(entry.num_sequences)
            constant[link + entry.num_infosets] = [-sub.alternative(s) for sub, s in states]
            for at, (sub, s) in zip(link.tolist(), states, strict=True):
                floor[[at, at + entry.num_infosets]] = epsilon * gadgets.resolving_prior(sub, s, prior)
            legal, scale = None, np.ones(len(states))
        else:
            size = np.bincount(theirs.subgame, minlength=len(explicit))
            entry, position = entry_treeplex(games, np.arange(len(explicit)), size, padded)
            slot = [
                explicit[g].states.index(s) for g, s in zip(theirs.subgame, theirs.infostate, strict=True)
            ]
            link = entry.sequence(position[theirs.subgame], np.array(slot))
            mass = np.array([sub.normalizer(s) for sub, s in states])
            scale = np.where(mass > 0, 1 / np.where(mass > 0, mass, 1), 0)
            constant, floor = np.zeros(entry.num_sequences), np.zeros(entry.num_sequences)
            legal = np.zeros(entry.num_sequences, np.bool_)
            constant[link], legal[link] = scale * [sub.alternative(s) for sub, s in states], mass > 0
            for at, (sub, s) in zip(link.tolist(), states, strict=True):
                choices = gadgets.max_margin_states(sub)
                if s in choices:
                    floor[at] = epsilon * gadgets.max_margin_prior(sub, prior)[choices.index(s)]
            legal = legal[games:]
        bounds = {"entry_legal": legal, "entry_floor": None if prior == "none" else floor[games:]}
        opponent = side(entry, 1 - resolver, theirs, link, scale, constant, **bounds)
        pair = (fixed, opponent) if resolver == 0 else (opponent, fixed)
        return Asked(name=f"{kind} gadget", maximiser=resolver, players=pair, payoff=form.payoff)

    return Setting(form, explicit, program_of)


@pytest.mark.parametrize("kind", ["resolving", "max-margin"])
@players
@shapes
def test_gadgets_are_those_of_explicit_trees(shape, player, kind):
    """Reaches are unequal, zero and clipped; each subgame is a separate program."""
    for zeros in (0.0, 0.4):
        explicit = random_subgames(shape, 7, player, zeros)
        for prior, epsilon in (("none", 0.0), ("uniform", 0.1), ("blueprint", 0.02)):
            setting = gadget(forest_of(shape, 7), explicit, kind, prior)
            found = solve_program(setting.program_of(epsilon))
            assert (found.value[len(explicit) :] == 0).all()
            rows = profile(setting.form, found)
            for g, subgame in enumerate(explicit):
                twin = gadgets.build(kind, subgame, prior, epsilon)
                expected = reference.solve(twin.root, player, twin.floors).value
                assert found.value[g] == pytest.approx(expected, abs=CLOSE)
                kept = gadgets.objective(kind, subgame, rows, prior, epsilon)
                assert kept == pytest.approx(expected, abs=CLOSE)


@pytest.mark.parametrize("kind", ["resolving", "max-margin"])
@players
def test_refined_programs_keep_the_optimum(player, kind):
    """The chosen ε leaves the optimum unchanged, and the solution is optimal in the perturbed game."""
    for shape in SHAPES:
        explicit = random_subgames(shape, 7, player, 0.2)
        setting = gadget(forest_of(shape, 7), explicit, kind, "uniform")
        found, plain = refined(setting.program_of), solve_program(setting.program_of(0.0))
        np.testing.assert_allclose(found.value, plain.value, rtol=0, atol=1e-9)
        rows = profile(setting.form, found)
        for g, subgame in enumerate(explicit):
            if not gadgets.max_margin_states(subgame):
                continue
            assert 0 < found.epsilon[g] <= 1e-3
            perturbed = gadgets.build(kind, subgame, "uniform", found.epsilon[g])
            best = reference.solve(perturbed.root, player, perturbed.floors).value
            kept = gadgets.objective(kind, subgame, rows, "uniform", found.epsilon[g])
            assert kept == pytest.approx(best, abs=1e-9)
        assert np.isnan(found.epsilon[len(explicit) :]).all()


@functools.cache
def pennies() -> tuple[Forest, efg.Game]:
    tree = enumerate_game(examples.matching_pennies_forfeit())
    return build_forest(tree, "depth:1", padded=False), efg.from_tree(tree)


def pennies_gadget(kind: str, prior: str, row: list[float]) -> Setting:
    """Figure 1 of the refinement paper, with a blueprint over forfeit, heads and tails."""
    forest, game = pennies()
    (mine,), (theirs,) = (range(len(forest.tree.infosets[p])) for p in (0, 1))
    blueprint = {(0, mine): np.array(row), (1, theirs): np.array([0.5, 0.5])}
    components = cuts.components(game, cuts.depth_roots(game, 1))
    explicit = gadgets.subgames(game, components, 0, blueprint)
    return gadget(forest, explicit, kind, prior, padded=False)


def test_epsilon_shrinks_until_it_changes_nothing():
    """From an equilibrium nothing may be lost on tails, although large trembles to heads reward it."""
    setting = pennies_gadget("resolving", "uniform", [0.0, 0.5, 0.5])

    def program_of(epsilon: float) -> Asked:
        asked = setting.program_of(epsilon)
        opponent = dataclasses.replace(asked.players[1], entry_floor=epsilon * np.array([0.9, 0.1, 0.1, 0.9]))
        return dataclasses.replace(asked, players=(asked.players[0], opponent))

    assert solve_program(program_of(0.9)).strategy[0].body.max() == pytest.approx(1)
    found = refined(program_of, start=0.9)
    assert found.epsilon[0] == pytest.approx(0.09)
    assert found.value[0] == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(found.strategy[0].body, [0, 0.5, 0.5], rtol=0, atol=1e-12)
    message = "'resolving gadget'.*no optimal basis remains optimal at ε = 0, down to ε = 9e-01"
    with pytest.raises(ProgramError, match=message):
        refined(program_of, start=0.9, least=0.5)
    with pytest.raises(ValueError, match="least="):
        refined(program_of, least=0)


def test_infosets_that_only_mistakes_reach_play_a_best_response():
    """The opponent always terminates and player 0 does not go right; that row is still a best response."""
    body, _ = build_treeplex(
        num_roots=1,
        depth=np.array([0, 1]),
        num_actions=np.array([2, 2]),
        parent_infoset=np.array([-1, 0]),
        parent_slot=np.array([0, 1]),
        infoset=np.arange(2),
    )
    entry, _ = entry_treeplex(1, np.zeros(1, np.int64), np.array([2]), padded=False)
    player = Player(
        entry=fixed_entry(1), body=body, link=np.zeros(1, np.int64), scale=np.ones(1), constant=np.zeros(1)
    )
    opponent = dataclasses.replace(
        player, entry=entry, body=fixed_entry(1), link=np.array([1]), constant=np.array([0, 0, 5.0])
    )
    payoff = Entries(
        row=np.array([1, 3, 4]), column=np.zeros(3, np.int64), value=np.array([1, -1, 0.5]), shape=(5, 1)
    )

    def program_of(epsilon: float) -> Asked:
        floored = dataclasses.replace(opponent, entry_floor=epsilon * np.array([0.5, 0.5]))
        return Asked(name="late", maximiser=0, players=(player, floored), payoff=payoff)

    found = refined(program_of)
    np.testing.assert_array_equal(found.strategy[0].body, [1, 0, 0, 1])
    np.testing.assert_array_equal(found.strategy[1].entry, [0, 1])
    assert found.value == pytest.approx([-5])


# Constants of the body's sequences


def earned_against(form: SequenceForm, player: int, plan: Array) -> Array:
    """`[S, lanes]` payoff of a player's sequences against a plan of the other player."""
    entries = form.payoff
    payoff = csr_array((entries.value, (entries.row, entries.column)), entries.shape)
    return payoff @ plan if player == 0 else -(payoff.T @ plan)


def following(node: efg.Node, player: int, rows: dict[Label, Array]) -> efg.Node:
    """The game in which a player's moves are chance moves, with a strategy's probabilities."""
    if isinstance(node, efg.Terminal):
        return node
    assert not isinstance(node, efg.Past)
    children = tuple(following(child, player, rows) for child in node.children)
    if isinstance(node, efg.Decision) and node.player == player:
        return efg.Chance(tuple(rows[node.infoset].tolist()), children)
    return dataclasses.replace(node, children=children)


@players
@shapes
def test_an_opponent_who_follows_a_model_with_some_probability(shape, player):
    """As a constant and a bonus, compared with the explicit tree in which chance draws the opponent."""
    tree, game = random_tree(shape, 5)
    form, other, rng = sequence_form(tree), 1 - player, np.random.default_rng(5)
    treeplex, rows = form.treeplex[other], {}
    plan = np.ones(treeplex.num_sequences)
    for infoset in range(treeplex.num_infosets):
        actions, label = treeplex.rows(infoset), (other, int(treeplex.infoset[infoset]))
        rows[label] = rng.dirichlet(np.ones(len(actions)))
        plan[actions + 1] = plan[treeplex.parent[infoset]] * rows[label]
    asked, earned = whole(tree, player).problem(), earned_against(form, player, plan[:, None])
    for p in (0.0, 0.3, 0.9, 1.0):
        either = efg.Chance((p, 1 - p), (following(game.root, other, rows), game.root))
        value = reference.solve(either, player).value
        problem = with_terms(asked, player, body_constant=p * earned)
        problem = with_terms(problem, other, scale=np.full((1, 1), 1 - p))
        constant = lp.solve_program(problem, 0, Goal(maximiser=player), name="constant")
        assert constant.value == pytest.approx([value], abs=CLOSE)
        goal = Goal(maximiser=player, guarantee_weight=1 - p, bonus=p * earned[:, 0])
        bonus = lp.solve_program(asked, 0, goal, name="bonus")
        reach = plan_of(form, player, bonus.strategy[player].body)
        assert (1 - p) * bonus.value[0] + p * earned[:, 0] @ reach == pytest.approx(value, abs=CLOSE)
        first, second = (Parts(*(x[:, None] for x in rows)) for rows in constant.strategy)
        with precision(np.float64):
            own = np.asarray(evaluate(asked, (first, second)).guaranteed[player][:, 0])
        reach = plan_of(form, player, constant.strategy[player].body)
        assert (1 - p) * own[0] + p * earned[:, 0] @ reach == pytest.approx(value, abs=CLOSE)


def plan_of(form: SequenceForm, player: int, rows: Array) -> Array:
    treeplex = form.treeplex[player]
    plan = np.ones(treeplex.num_sequences)
    for infoset in range(treeplex.num_infosets):
        actions = treeplex.rows(infoset)
        plan[actions + 1] = plan[treeplex.parent[infoset]] * rows[actions]
    return plan


def test_every_lane_has_its_own_numbers():
    """Payoffs, scales and constants of two lanes, each compared with a problem of one lane."""
    explicit = random_subgames("betting", 7, 0, 0.2)
    asked = gadget(forest_of("betting", 7), explicit, "resolving", "uniform").program_of(0.1)
    other = dataclasses.replace(
        asked,
        players=(dataclasses.replace(asked.players[0], scale=asked.players[0].scale / 2), asked.players[1]),
        payoff=dataclasses.replace(asked.payoff, value=np.sin(asked.payoff.value)),
    )
    with precision(np.float64):
        entries = dataclasses.replace(
            asked.payoff, value=np.stack([asked.payoff.value, other.payoff.value], axis=1)
        )
        first, second = (
            jax.tree.map(lambda *lanes: np.concatenate(lanes, axis=1), *terms)
            for terms in zip(asked.problem().terms, other.problem().terms, strict=True)
        )
        payoff = build_payoff(entries, np.float64)
    problem = dataclasses.replace(asked.problem(), terms=(first, second), payoff=payoff)
    values = [solve_program(alone).value for alone in (asked, other)]
    assert np.abs(values[0] - values[1]).max() > 0.01
    for lane, value in enumerate(values):
        optimum = lp.solve_program(problem, lane, Goal(maximiser=0), name="one of two")
        np.testing.assert_array_equal(optimum.value, value)


# Errors


def test_impossible_and_slow_programs_are_reported():
    tree, _ = random_tree("betting", 1)
    asked = whole(tree, 0)
    value = solve_program(asked).value[0]
    kept = solve_program(asked, goal=Goal(maximiser=0, at_least=value - 1e-6))
    assert kept.value[0] == pytest.approx(value, abs=1e-8)
    message = r"linear program 'random\(shape=betting,seed=1\)' has no solution: HiGHS reports 'Infeasible'"
    with pytest.raises(ProgramError, match=message):
        solve_program(asked, goal=Goal(maximiser=0, at_least=value + 0.1))
    for limit in (0.0, 1e-9):
        with pytest.raises(ProgramError, match="limit"):
            solve_program(asked, time_limit=limit)
    many = gadget(forest_of("bids", 7), random_subgames("bids", 7, 0), "resolving", "uniform")
    with pytest.raises(ProgramError, match="Time limit"):
        solve_program(many.program_of(0.1), time_limit=0)
    with pytest.raises(ProgramError, match="Time limit"):
        refined(many.program_of, time_limit=0)


def test_no_program_runs_without_the_time_limit(monkeypatch):
    """This includes the program that checks a perturbed solution with a non-optimal basis."""
    limits: dict[str, list[float | None]] = {"run": [], "stays_optimal": []}

    def run(*args, time_limit=None, **options):
        limits["run"].append(time_limit)
        return highs.run(*args, time_limit=time_limit, **options)

    def stays_optimal(*args, time_limit=None):
        limits["stays_optimal"].append(time_limit)

    monkeypatch.setattr(lp, "run", run)
    monkeypatch.setattr(lp, "stays_optimal", stays_optimal)
    explicit = random_subgames("bids", 7, 0)
    refined(gadget(forest_of("bids", 7), explicit, "resolving", "uniform").program_of, time_limit=100.0)
    assert len(limits["run"]) > len(limits["stays_optimal"]) >= len(explicit)
    for limit in (*limits["run"], *limits["stays_optimal"]):
        assert limit is not None and 0 < limit < 100


def test_unbounded_and_broken_models_are_reported():
    model = Model(
        cost=np.array([-1.0]),
        lower=np.zeros(1),
        upper=np.full(1, np.inf),
        row_lower=np.zeros(1),
        row_upper=np.full(1, np.inf),
        matrix=csc_array(np.ones((1, 1))),
    )
    with pytest.raises(ProgramError, match=r"it has no solution: HiGHS reports '.*[Uu]nbounded"):
        highs.run(model, "it")
    for change in ({"matrix": csc_array(np.full((1, 1), np.nan))}, {"row_lower": np.full(1, np.nan)}):
        with pytest.raises(ProgramError, match="finite"):
            highs.run(dataclasses.replace(model, **change), "it")
    crossed = dataclasses.replace(model, lower=np.array([np.inf]))
    with pytest.raises(ProgramError, match="Model error"):
        highs.run(crossed, "it")
    with pytest.raises(ProgramError, match="basis"):
        highs.run(model, "it", basis=highs.Basis(np.zeros(3, np.int64), np.zeros(1, np.int64)))


def test_a_wrong_solution_is_noticed(monkeypatch):
    tree, _ = random_tree("betting", 1)

    def spoiled(*args, **options):
        found = highs.run(*args, **options)
        return dataclasses.replace(found, x=np.flip(found.x))

    monkeypatch.setattr(lp, "run", spoiled)
    with pytest.raises(ProgramError, match="is solved inaccurately"):
        solve_program(whole(tree, 0))


def test_programs_that_do_not_fit_are_named():
    tree, _ = random_tree("betting", 1)
    asked = whole(tree, 0)
    size = asked.players[1].body.num_sequences - 1
    for floor, message in (
        (np.ones(size), "sum to up to .* expected numbers >= 0 that sum to at most 1"),
        (np.full(size, -0.1), "floors of player 1 of random.* have minimum -0.1"),
        (np.full(size, 1e-13), "as small as 1.0e-13: HiGHS drops"),
    ):
        floored = dataclasses.replace(asked.players[1], body_floor=floor)
        with pytest.raises(ValueError, match=message):
            solve_program(dataclasses.replace(asked, players=(asked.players[0], floored)))
    for goal, message in (
        (Goal(maximiser=2), "maximiser=2 of random.*: expected 0 or 1"),
        (Goal(maximiser=0, guarantee_weight=2), r"guarantee_weight=2: expected a number in \[0, 1\]"),
        (Goal(maximiser=0, bonus=np.ones(3)), r"bonus of random.* has shape \(3,\): expected"),
    ):
        with pytest.raises(ValueError, match=message):
            solve_program(asked, goal=goal)
    with pytest.raises(ValueError, match="fallback"):
        solve_program(asked, fallback=(np.ones(3), None))
    problem, joint = asked.problem(), Goal(maximiser=0, at_least=-1.0)
    with pytest.raises(ValueError, match="it joins its games"):
        lp.refined(lambda epsilon: problem, 0, joint, name="it")


def test_precision_and_payoffs_without_a_matrix_are_refused():
    tree, _ = random_tree("betting", 1)
    form = sequence_form(tree)

    def ask(payoff: Payoff, dtype: type[np.floating]) -> Optimum:
        return lp.solve_program(
            evaluation_game(form.treeplex, payoff, 1, dtype), 0, Goal(maximiser=0), name="it"
        )

    with pytest.raises(ValueError, match="float32"):
        ask(build_payoff(form.payoff, np.float32), np.float32)
    with precision(np.float64):
        message = (
            r"the payoff of it is a TerminalPayoff, which has no entries\(\): .* use a MatrixPayoff, or CFR"
        )
        with pytest.raises(ValueError, match=message):
            ask(terminal_payoff(form, np.float64), np.float64)
