"""Fuzzing of further front ends, as in `tests.fuzz`, with bundles of random structures.

- Responses to models in the whole game, and their certificates.
- Private subgames: the optimum of each own infostate's gadget game, and the bound of their combination.
- Games by hands: results of `refine` by hands are checked like those by histories. They need structures of
  their own, in which all private information is dealt first and all else is public.
- Answers to actions off the menu: the certificate is the strategy's guaranteed value in the whole game; those
  that are safe, in games of that kind, guarantee no less than translation.
- Spots of hold'em: random boards, ranges and stacks, against the enumeration of all pairs of hands.

Every expected number is from `tests/reference`: recursion and linear programs of explicit trees, built from
the rules.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import jaxgadget as jg
from jaxgadget.core.lp.solve import GAP_TOLERANCE
from jaxgadget.gadgets.gadget import Gadget, describe, prior_name
from jaxgadget.games.menu import MenuAbstraction
from jaxgadget.holdem.betting import BetMenu
from jaxgadget.holdem.cards import NUM_CARDS, RANKS, SUITS, hand_name, hands_left
from jaxgadget.holdem.solve import SpotSolution, evaluate_spot, solve_spots
from jaxgadget.holdem.spots import Spot
from jaxgadget.policy.policy import Policy
from jaxgadget.subgames.off_tree import METHODS, Method, _set_up, translate_off_tree
from jaxgadget.subgames.spots import SpotRefinement, refine_spots
from jaxgadget.tree.cut import cut, cut_at
from jaxgadget.tree.hands import hands_of
from jaxgadget.tree.history import enumerate_game
from jaxgadget.tree.knowledge import knowledge_cover
from tests.core.grove import to_policy
from tests.fuzz import (
    ALL_GADGETS,
    PROGRAM,
    ROUNDING,
    Bundle,
    Findings,
    Outcome,
    Structure,
    accepted_structures,
    examine,
    find_optimum,
    make_bundle,
)
from tests.holdem.enumerated import RiverOnTheWay, expected_chips
from tests.holdem.test_solve import random_play
from tests.reference import cuts, efg, frozen, gadgets, knowledge, lp, opponents
from tests.reference.efg import Array, Label, Strategy
from tests.reference.random_games import (
    RandomGame,
    Shape,
    random_hands_shape,
    random_policy,
    random_shape,
    with_first_actions,
)
from tests.reference.rules import from_state_rules
from tests.solving import nested_off_tree, settings


def guaranteed(bundle: Bundle, policy: Policy, player: int) -> Array:
    """`[lanes]` the value that a player's strategies guarantee in all structures together."""
    rows = bundle.rows(policy)
    return sum((efg.guaranteed(part.game.root, player, rows) for part in bundle.structures), np.zeros(1))


def lane_of(rows: Strategy, lane: int, labels: Sequence[Label]) -> dict[Label, Array]:
    return {label: rows[label][:, lane] for label in labels}


# Responses


def examine_responses(bundle: Bundle, player: int, findings: Findings) -> None:
    """Restricted Nash and data-biased responses, by linear programs and by CFR."""
    rng = np.random.default_rng([bundle.seed, player])
    model = to_policy(bundle.tree, [random_policy(bundle.tree, rng)])
    rows, share = bundle.rows(model), float(rng.uniform(0.05, 0.95))
    width = _width(bundle)
    bracket = bundle.value - width, bundle.value + width
    roots = [(part.game.root, lane_of(rows, 0, part.labels), part.unit) for part in bundle.structures]
    mixed = [opponents.mixture(root, player, model, share) for root, model, _ in roots]
    best = {
        jg.respond: sum(
            find_optimum(root, player, {}, part[2]) for root, part in zip(mixed, roots, strict=True)
        ),
        jg.data_biased_response: sum(
            find_optimum(root, player, opponents.model_floors(root, player, model, share), unit)
            for root, model, unit in roots
        ),
    }
    for respond, optimum in best.items():
        for how in ({"algorithm": "lp"}, {"iterations": 200, "progress": False}):
            found = respond(
                bundle.tree, jg.Opponent(model, share), player=player, value=bracket, **settings(**how)
            )
            where = f"{found.method} of player {player}, {found.algorithm}, p = {share}, {bundle.name}"
            tolerance = ROUNDING * bundle.unit
            safe = guaranteed(bundle, found.policy, player)
            off = np.abs(found.guaranteed_value - safe)
            findings.hold("responses: the guaranteed value is a best response's", where, off, tolerance)
            after = bundle.rows(found.policy)
            earned = sum(
                efg.sign(player)
                * efg.value(root, {**lane_of(after, 0, list(model)), **_theirs(model, player)})
                for root, model, _ in roots
            )
            off = np.abs(found.value_against_model - earned)
            findings.hold("responses: the value against the model is the definition's", where, off, tolerance)
            missing, loose = optimum - found.objective, PROGRAM * bundle.unit
            findings.hold("responses: the optimum is at least the objective", where, -missing, loose)
            findings.hold(
                "responses: the optimum is at most objective + gap", where, missing - found.gap, loose
            )
            if found.method == "restricted-nash":
                value = efg.sign(player) * bundle.value
                gain, lost = earned - value, value - safe
                bound = (share * gain + found.gap + width) / (1 - share)
                off = np.abs(found.exploitability_bound - bound)
                findings.hold("responses: the bound is its definition", where, off, tolerance / (1 - share))
                findings.hold("responses: the bound holds", where, lost - bound, tolerance / (1 - share))


def _theirs(model: Strategy, player: int) -> dict[Label, Array]:
    """The other player's rows; labels are `(player, infostate)`."""
    return {(p, state): row for (p, state), row in model.items() if p != player}  # type: ignore[misc]


# Private subgames

PRIVATE: tuple[Gadget, ...] = (
    jg.Unsafe(),
    jg.Resolving(jg.NoPrior()),
    jg.Resolving(jg.UniformPrior(), 0.05),
    jg.MaxMargin(jg.BlueprintPrior(), 0.05),
)


@dataclasses.dataclass(frozen=True, eq=False)
class OwnInfostates:
    """The subgames of the own infostates of one structure.

    Attributes:
      part: the structure.
      above: its explicit cut.
      own: the infostates, ascending.
      row: row of each one's subgame.
      share: step size of `damped` for each.
    """

    part: Structure
    above: gadgets.Above
    own: list[Label]
    row: list[int]
    share: list[float]


def examine_private(bundle: Bundle, player: int, findings: Findings) -> None:
    """Re-solve own infostates separately: optima, reported numbers, and the bound of damped steps."""
    rng = np.random.default_rng([bundle.seed, player, 1])
    blueprint = bundle.blueprints.lane(int(rng.integers(bundle.blueprints.num_lanes)))
    before = bundle.rows(blueprint)
    for order, unfrozen in ((1, False), (3, bool(rng.integers(2)))):
        known = jg.Knowledge(order, unfrozen, combine="together")
        result = _refine_privately(bundle, player, blueprint, known, findings)
        own = [_own_infostates(bundle, part, player, known, before) for part in bundle.structures]
        for lane, each in itertools.product(range(len(PRIVATE)), own):
            number = int(rng.integers(len(each.own)))
            _hold_private(bundle, result, each, number, lane, (order, unfrozen), findings)
        if order == 1:
            damped = _refine_privately(bundle, player, blueprint, jg.Knowledge(combine="damped"), findings)
            _hold_damped(bundle, result, damped, own, findings)
            for combine in ("in-turn", "one-by-one"):
                examine_in_turn(bundle, player, blueprint, jg.Knowledge(combine=combine), findings)


def _refine_privately(
    bundle: Bundle, player: int, blueprint: Policy, known: jg.Knowledge, findings: Findings
) -> jg.Refinement:
    """Refine private subgames; check exploitabilities by best responses, and the reported bound."""
    width = _width(bundle)
    result = jg.refine(
        bundle.tree,
        bundle.where,
        blueprint,
        PRIVATE,
        knowledge=known,
        player=player,
        value=(bundle.value - width, bundle.value + width),
        algorithm="lp",
    )
    where, tolerance = _described(bundle, result), ROUNDING * bundle.unit
    for name, policy, reported in (
        ("before", result.blueprint.take_lanes(result.lanes.blueprint), result.blueprint_exploitability),
        ("after", result.policy, result.refined_exploitability),
    ):
        lost = efg.sign(player) * bundle.value - guaranteed(bundle, policy, player)
        statement = "private subgames: exploitability is that of a best response"
        findings.hold(statement, f"{name}, {where}", np.abs(reported - lost), tolerance)
    has_bound = ~np.isnan(result.exploitability_bound)
    excess = (result.refined_exploitability - result.exploitability_bound)[has_bound]
    findings.hold("private subgames: a reported bound holds", where, excess, tolerance)
    return result


def examine_in_turn(
    bundle: Bundle, player: int, blueprint: Policy, known: jg.Knowledge, findings: Findings
) -> None:
    """Own infostates that are solved one after the other with ε = 0 lose nothing, by best responses."""
    result = _refine_privately(bundle, player, blueprint, known, findings)
    (before,) = guaranteed(bundle, result.blueprint, result.player)
    after = guaranteed(bundle, result.policy, result.player)
    for lane, gadget in enumerate(PRIVATE):
        if gadget.name in gadgets.BOUNDED and gadget.epsilon == 0:
            where = f"{describe(gadget)}, {_described(bundle, result)}"
            lost = before - after[lane]
            findings.hold("private subgames: in turn nothing is lost", where, lost, PROGRAM * bundle.unit)


def _width(bundle: Bundle) -> float:
    """Half the width of the bracket of the game's value that the package receives."""
    return 0.01 * bundle.unit


def _described(bundle: Bundle, result: jg.Refinement) -> str:
    return f"{result.knowledge}, player {result.player}, {result.blueprint.labels[0]}, {bundle.name}"


def _hold_damped(
    bundle: Bundle,
    together: jg.Refinement,
    damped: jg.Refinement,
    own: Sequence[OwnInfostates],
    findings: Findings,
) -> None:
    """The bound of damped steps equals its definition.

    That is the blueprint's exploitability, the losses of all steps, as far as each goes, or the largest, and
    half the bracket.
    """
    after = bundle.rows(together.policy)
    for lane, gadget in enumerate(PRIVATE):
        if gadget.name in gadgets.BOUNDED:
            losses = [_private_losses(each, gadget, together, after, lane) for each in own]
            total = float(sum(np.dot(each.share, loss) for each, loss in zip(own, losses, strict=True)))
            if gadgets.KINDS[gadget.name].bound == "max":
                total = float(np.concatenate(losses).max())
            bound = damped.blueprint_exploitability[lane] + total + _width(bundle)
            off = abs(damped.exploitability_bound[lane] - bound)
            statement = "private subgames: the bound of damped steps is its definition"
            where = f"{describe(gadget)}, {_described(bundle, damped)}"
            findings.hold(statement, where, off, 100 * ROUNDING * bundle.unit)


def _own_infostates(
    bundle: Bundle, part: Structure, player: int, known: jg.Knowledge, before: Strategy
) -> OwnInfostates:
    components = tuple(tuple(roots) for roots in part.components)
    above = gadgets.Above(part.game, components, player, lane_of(before, 0, part.labels))
    cover = knowledge_cover(bundle.where, player, known.order, unfrozen=known.unfrozen)
    states = bundle.tree.infostate[player], bundle.joint.infostate[player]
    row = {
        states[1][root]: int(cover.subgame[np.searchsorted(cover.infostate, states[0][root])])
        for root in bundle.where.roots.tolist()
    }
    own = frozen.own_infostates(above)
    roots = [root for component in components for root in component]
    share = knowledge.degree_shares(knowledge.meeting(part.game.infostate, roots, player))
    return OwnInfostates(part, above, own, [row[state] for state in own], share)


def _hold_private(
    bundle: Bundle,
    result: jg.Refinement,
    each: OwnInfostates,
    number: int,
    lane: int,
    known: tuple[float, bool],
    findings: Findings,
) -> None:
    """The optimum of one own infostate's gadget game lies in `[value, value + gap]`."""
    gadget, row = PRIVATE[lane], each.row[number]
    asked = prior_name(gadget), float(gadget.epsilon)
    tree = frozen.build(gadget.name, each.above, each.own[number], *asked, *known)
    unit = each.part.most if gadgets.KINDS[gadget.name].is_margin else each.part.unit
    optimum = find_optimum(tree.root, result.player, tree.floors, unit)
    value, gap = float(result.gadget_value[row, lane]), float(result.gap[row, lane])
    tolerance = PROGRAM * unit + (ROUNDING + GAP_TOLERANCE) * bundle.unit
    where = f"{each.part.shape.name}, infostate {number}, {describe(gadget)}, {_described(bundle, result)}"
    findings.hold("private subgames: the optimum is at least the value", where, value - optimum, tolerance)
    findings.hold(
        "private subgames: the optimum is at most value + gap", where, optimum - value - gap, tolerance
    )
    if result.has_decision[row, lane]:
        off = abs(value - optimum)
        findings.hold("private subgames: linear programs find the optimum", where, off, tolerance)


def _private_losses(
    each: OwnInfostates, gadget: Gadget, result: jg.Refinement, after: Strategy, lane: int
) -> Array:
    """`[I]` losses at order 1: only the infostate's own decisions change."""
    losses: list[float] = []
    asked = prior_name(gadget), float(gadget.epsilon)
    for own, row in zip(each.own, each.row, strict=True):
        free = frozen.free_infosets(each.above, own)
        strategies = {**each.above.blueprint, **{label: after[label][:, lane] for label in free}}
        subgame, gap = frozen.subgame(each.above, own), float(result.gap[row, lane])
        losses.append(gadgets.rise_bound(gadget.name, subgame, strategies, gap, *asked))
    return np.array(losses)


# Games by hands


BY_HANDS: tuple[Gadget, ...] = (
    jg.Unsafe(),
    jg.Resolving(jg.UniformPrior(), 0.05),
    jg.MaxMargin(jg.BlueprintPrior(), 0.05),
    jg.OptimalContinuation(jg.NoPrior()),
)


def make_hands_bundle(seed: int) -> Bundle:
    """One structure with a form by hands."""
    return make_bundle([random_hands_shape(seed)], seed, f"hands {seed}")


def solve_by_hands(bundle: Bundle, player: int, asked: Sequence[Gadget], iterations: int) -> Outcome:
    """`refine` by hands, as an outcome by histories, in which subgames have other numbers."""
    public = jg.public_tree(bundle.tree)
    width = _width(bundle)
    how = {"iterations": iterations, "dtype": "float64", "progress": False}
    nodes = np.unique(hands_of(bundle.tree).node[bundle.where.roots])
    result = jg.refine(
        public,
        cut_at(public, "roots", nodes),
        bundle.blueprints.on(public),
        asked,
        player=player,
        value=(bundle.value - width, bundle.value + width),
        **settings(**how),
    )
    node_of = hands_of(bundle.tree).node[bundle.where.roots]
    below = result.forest.cut
    found = below.subgame[np.searchsorted(below.roots, node_of)]
    row = np.zeros(bundle.where.num_subgames, np.int64)
    row[bundle.where.subgame] = found
    joint = np.array([gadgets.KINDS[gadget.name].is_joint for gadget in asked])[result.lanes.gadget]

    def by_subgame(numbers: Array) -> Array:
        return np.where(joint, numbers, numbers[row])  # an optimal continuation is one game

    return Outcome(
        bundle=bundle,
        player=player,
        how=f"cfr+ by hands against {result.forest.num_subgames} subgames",
        gadgets=tuple(asked),
        blueprint=bundle.blueprints,
        policy=result.policy.on(bundle.tree),
        value=by_subgame(result.gadget_value),
        gap=by_subgame(result.gap),
        losses=None,
        has_decision=by_subgame(result.has_decision),
        before=result.blueprint_exploitability,
        after=result.refined_exploitability,
        bound=result.exploitability_bound,
        failures=dict(result.failures),
        half_width=width,
    )


# Actions off the menu


MENU = (0, 1)
OFF_TREE: tuple[Gadget, ...] = (jg.Resolving(jg.NoPrior()), jg.MaxMargin(jg.UniformPrior(), 0.05))


def make_menu_bundle(
    seed: int, count: int, player: int, draw: Callable[[int], Shape] = random_shape
) -> tuple[Bundle, int]:
    """Structures in which the other player may leave a menu of two actions, and the seed after the last.

    Structures are left out if that player never can, or if its subgames or the cut cross an infoset.
    """
    first, shapes = seed, []
    while len(shapes) < count:
        shape = with_first_actions(draw(seed))
        if _may_leave(RandomGame(shape, seed), player):
            shapes.append(shape)
        seed += 1
    return make_bundle(shapes, first, f"menus {first}, {count} structures"), seed


def with_menu(game: Any) -> MenuAbstraction:
    return MenuAbstraction(game, {0: MENU, 1: MENU})


def _may_leave(game: RandomGame, player: int) -> bool:
    setting, answers = _set_up(enumerate_game(with_menu(game)), player, None, 10_000), 0
    try:
        cut(setting.whole(), game.shape.cut)
        for k in range(1, setting.depth(None) + 1):
            level = setting.level(k)
            if len(roots := setting.roots(level, k)):
                answers += cut_at(level, "off the menu", roots).num_subgames
    except ValueError:
        return False
    return answers > 0


def examine_off_tree(bundle: Bundle, player: int, findings: Findings, *, public: bool = False) -> None:
    """The certificate is the answers' guaranteed value in the whole game; play on the menu is unchanged.

    Where all actions are public, which translation requires, there are `safe` answers, too. They guarantee
    no less than translation.
    """
    tree = enumerate_game(with_menu(bundle.rules))
    rng = np.random.default_rng([bundle.seed, player])
    blueprint = to_policy(tree, [random_policy(tree, rng, zeros) for zeros in (0.0, 0.35)])
    value, tolerance = efg.sign(player) * bundle.value, 10 * ROUNDING * bundle.unit
    methods: tuple[Method, ...] = ("inexpensive", "expensive")
    translated = np.zeros(0)
    if public:
        methods = METHODS
        by_translation = translate_off_tree(
            tree, blueprint, player=player, value=(bundle.value, bundle.value)
        )
        translated = guaranteed(bundle, by_translation.on(bundle.tree), player)
    for method in methods:
        where = f"{method}, player {player}, {bundle.name}"
        try:
            found = nested_off_tree(
                tree,
                blueprint,
                OFF_TREE,
                player=player,
                method=method,
                value=(bundle.value, bundle.value),
                algorithm="lp",
            )
        except ValueError as error:  # subgames may begin before the action, where they cross an infoset
            refused = method == "expensive" and "crosses an infoset" in str(error)
            findings.hold("off the menu: only a cut that crosses is refused", where, not refused, 0.5)
            continue
        safe = guaranteed(bundle, found.on(bundle.tree), player)
        statement = "off the menu: the certificate is what the strategy guarantees"
        findings.hold(statement, where, np.abs(found.certificate - safe), tolerance)
        off = np.abs(found.exploitability - (value - safe))
        findings.hold("off the menu: exploitability is the value less that", where, off, tolerance)
        change = np.abs(
            jg.lift(found.policy, tree).probabilities[player]
            - np.tile(blueprint.probabilities[player], len(OFF_TREE))
        )
        findings.hold("off the menu: on the menu the blueprint is played", where, change, 1e-12)
        if method == "safe":
            lost = translated - safe[: len(translated)]  # of the first gadget, with ε = 0
            findings.hold("off the menu: safe answers lose nothing", where, lost, PROGRAM * bundle.unit)
        nothing = found.num_subgames == 0
        findings.hold("off the menu: there is something to answer", where, nothing, 0.5)


# Spots of hold'em

RIVERS = BetMenu(bets=(0.5,), raises=(1.0,), cap=2)
"""The menu of `tests.holdem.enumerated.River`."""
AT_SPOTS = tuple(gadget for gadget in ALL_GADGETS if gadget.name in ("resolving", "max-margin"))
"""The gadgets and priors of the bundles that need no trunk; each spot batch has unsafe and some of them."""
FEW_AT_SPOTS = 5


def random_spot(rng: np.random.Generator) -> Spot:
    """A river of some hands each, whose stack covers every bet of the menu."""
    board = rng.permutation(NUM_CARDS)[:5].tolist()
    pool = rng.permutation(hands_left(board))[:6]  # the ranges share some hands
    first, second = (
        ",".join(
            f"{hand_name(hand)}:{rng.uniform(0.05, 1):.2f}" for hand in rng.permutation(pool)[:4].tolist()
        )
        for _ in range(2)
    )
    pot = int(rng.integers(1, 200))
    cards = "".join(RANKS[card // 4] + SUITS[card % 4] for card in board)
    return Spot(board=cards, oop=first, ip=second, pot=pot, stack=4 * pot, menus=RIVERS)


@dataclasses.dataclass(frozen=True, eq=False)
class ExplicitSpot:
    """A river preceded by moves that make it a proper subgame.

    Attributes:
      spot: the spot.
      rules: rules of the game in which both players first choose whether to continue.
      game: game from these rules.
      roots: the histories in which both continue.
    """

    spot: Spot
    rules: RiverOnTheWay
    game: efg.Game
    roots: tuple[int, ...]

    @staticmethod
    def of(spot: Spot) -> ExplicitSpot:
        rules = RiverOnTheWay(spot)
        game = from_state_rules(rules)
        return ExplicitSpot(spot, rules, game, tuple(cuts.depth_roots(game, 2)))

    @functools.cached_property
    def river(self) -> efg.Node:
        """The river alone, with pairs of hands weighted by both ranges."""
        first, second = self.spot.range_weights
        weights = np.array([first[a] * second[b] for a, b in self.rules._pairs])
        weights /= weights.sum()
        return efg.Chance(tuple(weights.tolist()), tuple(self.game.nodes[h] for h in self.roots))

    def rows(self, solution: SpotSolution) -> dict[Label, Array]:
        """Rows of both players, by the rules' names of infosets."""
        named = self.rules.blueprint(solution)
        return {(int(name[0]), name): np.array(row) for name, row in named.items()}


def examine_spots(seed: int, count: int, findings: Findings) -> None:
    """Random rivers, all in one batch, solved and re-solved."""
    rng = np.random.default_rng(seed)
    spots: list[ExplicitSpot] = []
    while len(spots) < count:
        spot = random_spot(rng)
        if len(RiverOnTheWay(spot)._pairs) > 1:
            spots.append(ExplicitSpot.of(spot))
    asked = [each.spot for each in spots]
    solved = solve_spots(asked, **settings(iterations=100, dtype="float64", progress=False))
    for each, solution in zip(spots, solved, strict=True):
        _hold_solution(each, solution, f"{each.spot.name}, spots {seed}", findings)
    blueprints = [evaluate_spot(spot, random_play(spot, seed)) for spot in asked]
    for player in (0, 1):
        drawn = rng.permutation(len(AT_SPOTS))[:FEW_AT_SPOTS].tolist()
        found = refine_spots(
            asked,
            (jg.Unsafe(), *(AT_SPOTS[number] for number in drawn)),
            blueprints=blueprints,
            hands_in_range=True,
            player=player,
            **settings(iterations=100, dtype="float64", progress=False),
        )
        for each, before, refinements in zip(spots, blueprints, found, strict=True):
            for refinement in refinements:
                where = f"{each.spot.name}, player {player}, {describe(refinement.gadget)}, spots {seed}"
                _hold_refinement(each, before, refinement, where, findings)


def _hold_solution(each: ExplicitSpot, solution: SpotSolution, where: str, findings: Findings) -> None:
    spot, rows, tolerance = each.spot, each.rows(solution), 1e-9 * each.spot.pot

    def play(player: int, line: str, hand: int) -> dict[str, float]:
        return {action: float(row[hand]) for action, row in solution.strategy(line).items()}

    off = np.abs(np.array(solution.ev) - expected_chips(spot, play))
    findings.hold("spots: EVs are those of all pairs of hands", where, off, tolerance)
    off = abs(solution.gap - efg.nash_conv(each.river, rows))
    findings.hold("spots: the gap is NashConv", where, off, tolerance)
    value = find_optimum(each.river, 0, {}, spot.pot)
    off = abs(solution.ev[0] - spot.pot / 2 - value)
    findings.hold("spots: the EV is within the gap of the value", where, off - solution.gap, tolerance)


def _hold_refinement(
    each: ExplicitSpot, before: SpotSolution, found: SpotRefinement, where: str, findings: Findings
) -> None:
    """Check the gadget game's optimum, exploitabilities, and the bound by its definition."""
    spot, player, gadget = each.spot, found.player, found.gadget
    asked = prior_name(gadget), float(gadget.epsilon)
    above = gadgets.Above(each.game, (each.roots,), player, each.rows(before))
    (subgame,) = above.subgames
    share = 1.0 if gadgets.KINDS[gadget.name].is_margin else each.rules.chance_of_coming
    tree = gadgets.build(gadget.name, subgame, *asked)
    optimum = lp.solve(efg.Chance((1 / spot.pot,), (tree.root,)), player, tree.floors).value * spot.pot
    value, gap, tolerance = share * found.gadget_value, share * found.gap, 1e-7 * spot.pot
    findings.hold("spots: the optimum is at least the value", where, value - optimum, tolerance)
    findings.hold("spots: the optimum is at most value + gap", where, optimum - value - gap, tolerance)
    low, high = found.game_value
    exact = find_optimum(each.river, 0, {}, spot.pot)
    findings.hold("spots: the value is in its bracket", where, max(low - exact, exact - high), tolerance)
    middle = efg.sign(player) * (low + high) / 2
    for rows, reported in (
        (each.rows(before), found.blueprint_exploitability),
        (each.rows(found.solution), found.refined_exploitability),
    ):
        lost = middle + efg.best_response_value(each.river, 1 - player, rows)
        off = abs(reported - lost)
        findings.hold("spots: exploitability is that of a best response", where, off, tolerance / 100)
    if gadget.name in gadgets.BOUNDED:
        rise = gadgets.rise_bound(gadget.name, subgame, each.rows(found.solution), gap, *asked) / share
        bound = found.blueprint_exploitability + rise + (high - low) / 2
        off = abs(found.exploitability_bound - bound)
        findings.hold("spots: the bound is its definition", where, off, tolerance / 100)


# The attack


def attack(seed: int, structures: int, findings: Findings) -> None:
    """Fuzz all of these front ends, each with its own structures.

    Args:
      seed: seed of the first structure.
      structures: how many share a game; half as many may leave a menu, and a tenth are rivers.
      findings: record of the checks.
    """
    shapes, _ = accepted_structures(seed, structures, findings)
    bundle = make_bundle(shapes, seed, f"front ends, --seed {seed}, {structures} structures")
    hands = make_hands_bundle(seed)
    for player in (0, 1):
        examine_responses(bundle, player, findings)
        examine_private(bundle, player, findings)
        examine(solve_by_hands(hands, player, BY_HANDS, 200), findings, len(BY_HANDS) * 3)
        menus, _ = make_menu_bundle(seed, max(structures // 2, 1), player)
        examine_off_tree(menus, player, findings)
        public, _ = make_menu_bundle(seed, 1, player, random_hands_shape)
        examine_off_tree(public, player, findings, public=True)
    examine_spots(seed, max(structures // 10, 1), findings)
