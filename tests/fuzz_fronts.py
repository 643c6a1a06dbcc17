"""Fuzzing of further front ends, as in `tests.fuzz`, with bundles of random structures.

- Responses to models in the whole game, by histories and by hands, and their certificates.
- Private subgames: the optimum of each own infostate's gadget game, and the bound of their combination.
- Games by hands: results of `refine` by hands, against a model too, are checked like those by histories. They
  need bundles of their own, in which all private information is dealt first and all else is public.
- Answers to actions off the menu: the certificate is the strategy's guaranteed value in the whole game; those
  that are safe, in games of that kind, keep the promise of every infostate of the opponent.
- Spots of hold'em: random boards, ranges and stacks, against the enumeration of all pairs of hands and, on
  turns and flops, of all cards.

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
from jaxgadget.holdem.cards import HANDS, NUM_CARDS, RANKS, SUITS, card_name, hand_name, hands_left
from jaxgadget.holdem.solution import SpotSolution
from jaxgadget.holdem.solve import evaluate_spot, solve_spots
from jaxgadget.holdem.spots import Spot
from jaxgadget.policy.policy import Policy
from jaxgadget.subgames.off_tree import Method, _set_up, translate_off_tree
from jaxgadget.subgames.spots import SpotRefinement, refine_spots
from jaxgadget.tree.cut import cut, cut_at
from jaxgadget.tree.hands import hands_of
from jaxgadget.tree.history import enumerate_game
from jaxgadget.tree.knowledge import knowledge_cover
from jaxgadget.tree.tree import Form
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
    against,
    bundle_of,
    draw_gadgets,
    examine,
    find_optimum,
    make_bundle,
)
from tests.holdem.enumerated import OnTheWay, expected_chips
from tests.holdem.test_solve import random_play
from tests.reference import cuts, efg, frozen, gadgets, knowledge, lp, opponents
from tests.reference.efg import Array, Label, Strategy
from tests.reference.flops import ListedFlop, values_of
from tests.reference.random_games import (
    RandomGame,
    Shape,
    after_one_deal,
    random_hands_shape,
    random_hands_shapes,
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


def examine_responses(bundle: Bundle, player: int, findings: Findings, form: Form = "histories") -> None:
    """Restricted Nash and data-biased responses, by linear programs and by CFR; by hands one of them."""
    rng = np.random.default_rng([bundle.seed, player])
    model = to_policy(bundle.tree, [random_policy(bundle.tree, rng)])
    tree = jg.public_tree(bundle.tree) if form == "hands" else bundle.tree
    kind = "responses by hands" if form == "hands" else "responses"
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
    iterated = {"iterations": 200, "progress": False}
    by_cfr = set(best) if form == "histories" else {list(best)[int(rng.integers(2))]}
    for respond, optimum in best.items():
        for how in ({"algorithm": "lp"}, *([iterated] if respond in by_cfr else [])):
            opponent = jg.Opponent(model.on(tree), share)
            found = respond(tree, opponent, player=player, value=bracket, **settings(**how))
            where = f"{found.method} of player {player}, {found.algorithm}, p = {share}, {bundle.name}"
            tolerance = ROUNDING * bundle.unit
            policy = found.policy.on(bundle.tree)
            safe = guaranteed(bundle, policy, player)
            off = np.abs(found.guaranteed_value - safe)
            findings.hold(f"{kind}: the guaranteed value is a best response's", where, off, tolerance)
            after = bundle.rows(policy)
            earned = sum(
                efg.sign(player)
                * efg.value(root, {**lane_of(after, 0, list(model)), **_theirs(model, player)})
                for root, model, _ in roots
            )
            off = np.abs(found.value_against_model - earned)
            findings.hold(f"{kind}: the value against the model is the definition's", where, off, tolerance)
            missing, loose = optimum - found.objective, PROGRAM * bundle.unit
            findings.hold(f"{kind}: the optimum is at least the objective", where, -missing, loose)
            findings.hold(
                f"{kind}: the optimum is at most objective + gap", where, missing - found.gap, loose
            )
            if found.method == "restricted-nash":
                value = efg.sign(player) * bundle.value
                gain, lost = earned - value, value - safe
                bound = (share * gain + found.gap + width) / (1 - share)
                off = np.abs(found.exploitability_bound - bound)
                findings.hold(f"{kind}: the bound is its definition", where, off, tolerance / (1 - share))
                findings.hold(f"{kind}: the bound holds", where, lost - bound, tolerance / (1 - share))


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
)
"""Solved by CFR+ in one program; linear programs solve every gadget."""


def make_hands_bundle(seed: int, count: int) -> Bundle:
    """Structures that have a form by hands, as one game that has one, too."""
    shapes = random_hands_shapes(seed, count)
    rules = RandomGame(after_one_deal("structures after one deal", shapes), seed)
    return bundle_of(shapes, rules, 2, seed, f"by hands {seed}, {count} structures")


def solve_by_hands(
    bundle: Bundle,
    player: int,
    asked: Sequence[Gadget],
    blueprint: Policy,
    opponent: jg.Opponent | None = None,
    iterations: int = 0,
) -> Outcome:
    """`refine` by hands, as an outcome by histories, in which subgames have other numbers.

    Args:
      bundle: structures of `make_hands_bundle`.
      player: the resolving player.
      asked: the gadgets.
      blueprint: by histories.
      opponent: with a model by histories.
      iterations: of CFR+ in float64; 0 for linear programs.
    """
    public, width = jg.public_tree(bundle.tree), _width(bundle)
    how = {"iterations": iterations, "dtype": "float64"} if iterations else {"algorithm": "lp"}
    by_hands = None
    if opponent is not None:
        assert isinstance(opponent.model, Policy)
        by_hands = dataclasses.replace(opponent, model=opponent.model.on(public))
    result = jg.refine(
        public,
        cut_at(public, "roots", np.unique(hands_of(bundle.tree).node[bundle.where.roots])),
        blueprint.on(public),
        asked,
        player=player,
        opponent=by_hands,
        value=(bundle.value - width, bundle.value + width),
        **settings(**how, progress=False),
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
        how=f"{'cfr+' if iterations else 'lp'} by hands{against(opponent)}",
        gadgets=tuple(asked),
        blueprint=blueprint,
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
        opponent=opponent,
    )


def examine_by_hands(bundle: Bundle, programs: int, findings: Findings) -> None:
    """Subgames and responses by hands.

    One player's subgames against an opponent who adapts, by linear programs with every gadget; the other's
    against one who follows a model, by linear programs and, with some gadgets, by CFR+; and responses.

    Args:
      bundle: structures of `make_hands_bundle`.
      programs: as in `examine`.
      findings: record of the checks.
    """
    rng = np.random.default_rng(bundle.seed)
    drawn = to_policy(bundle.tree, [random_policy(bundle.tree, rng, float(rng.choice([0.0, 0.35])))])
    follows = jg.Opponent(drawn, float(rng.uniform(0.05, 0.95)))
    first = int(rng.integers(2))
    for player, opponent in ((first, None), (1 - first, follows)):
        blueprint = bundle.drawn.lane(int(rng.integers(bundle.drawn.num_lanes)))
        outcome = solve_by_hands(bundle, player, draw_gadgets(rng), blueprint, opponent)
        examine(outcome, findings, programs)
    outcome = solve_by_hands(bundle, 1 - first, BY_HANDS, bundle.drawn, follows, 200)
    examine(outcome, findings, programs)
    examine_responses(bundle, first, findings, "hands")


# Actions off the menu


MENU = (0, 1)
OFF_TREE: tuple[Gadget, ...] = (
    jg.Resolving(jg.NoPrior()),
    jg.MaxMargin(jg.NoPrior()),
    jg.MaxMargin(jg.UniformPrior(), 0.05),
)


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


def examine_off_tree(
    bundle: Bundle, player: int, findings: Findings, methods: Sequence[Method] = ("inexpensive", "expensive")
) -> None:
    """The certificate is the answers' guaranteed value in the whole game; play on the menu is unchanged.

    Method `safe` requires that all actions are public, for translation; see `_hold_safe`.
    """
    tree = enumerate_game(with_menu(bundle.rules))
    rng = np.random.default_rng([bundle.seed, player])
    blueprint = to_policy(tree, [random_policy(tree, rng, zeros) for zeros in (0.0, 0.35)])
    value, tolerance = efg.sign(player) * bundle.value, 10 * ROUNDING * bundle.unit
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
            by_translation = translate_off_tree(
                tree, blueprint, player=player, value=(bundle.value, bundle.value), algorithm="lp"
            )
            translated = bundle.rows(by_translation.on(bundle.tree))
            _hold_safe(bundle, player, translated, bundle.rows(found.on(bundle.tree)), findings)
        nothing = found.num_subgames == 0
        findings.hold("off the menu: there is something to answer", where, nothing, 0.5)


def _hold_safe(
    bundle: Bundle, player: int, translated: Strategy, answered: Strategy, findings: Findings
) -> None:
    """Safe answers keep the promise of each of the opponent's infostates after it has left the menu.

    With ε = 0 no infostate after the first departure is worth more to the opponent than against translation:
    its value in the whole game, with all later departures. With max-margin, the answers to the first
    departure are also the best ones while those to later departures are translation's.

    Args:
      bundle: structures with public actions.
      player: the answering player.
      translated: translation, a lane for each blueprint.
      answered: the safe answers, lanes run over `OFF_TREE`, then blueprints.
      findings: record of the checks.
    """
    lanes = next(iter(translated.values())).shape[1]
    for part, lane in itertools.product(bundle.structures, range(lanes)):
        game, roots = _departures(part.game, player)
        before = lane_of(translated, lane, part.labels)
        components = tuple(map(tuple, cuts.components(game, roots)))
        above = gadgets.Above(game, components, player, _on_menu(before, game))
        locked, _ = _departures(part.game, player, before)
        above_locked = gadgets.Above(locked, components, player, _on_menu(before, locked))
        for number, gadget in enumerate(OFF_TREE):
            if gadget.epsilon > 0:
                continue
            after = _on_menu(lane_of(answered, number * lanes + lane, part.labels), game)
            where = f"{describe(gadget)}, blueprint {lane}, player {player}, {part.shape.name}, {bundle.name}"
            for subgame, alone in zip(above.subgames, above_locked.subgames, strict=True):
                lost = [
                    subgame.alternative(state) - subgame.worst_value(state, after) for state in subgame.states
                ]
                findings.hold(
                    "off the menu: safe answers keep every promise",
                    where,
                    np.array(lost),
                    PROGRAM * bundle.unit,
                )
                if gadget.name == "max-margin":
                    margin = gadgets.objective(gadget.name, alone, after)
                    root = gadgets.build(gadget.name, alone).root
                    off = abs(find_optimum(root, player, {}, part.most) - margin)
                    tolerance = (PROGRAM + GAP_TOLERANCE) * part.most
                    findings.hold("off the menu: the smallest margin is the largest", where, off, tolerance)


def _departures(game: efg.Game, player: int, later: Strategy | None = None) -> tuple[efg.Game, list[int]]:
    """A structure in which a player has only its menu, and the decisions after the other's first departure.

    Args:
      game: the structure, whose players act in turn.
      player: the answering player.
      later: the player's rows after the other's second departure, where it then has no choice.
    """
    number = {node: h for h, node in enumerate(game.nodes)}
    nodes: list[efg.Node] = []
    parent: list[int] = []
    source: list[int] = []
    roots: list[int] = []

    def copy(node: efg.Node, above: int, left: int) -> efg.Node:
        here = len(nodes)
        nodes.append(node)
        parent.append(max(above, 0))
        source.append(number[node])
        if isinstance(node, efg.Decision):
            moves = [k for k, action in enumerate(node.actions) if action in MENU or node.player != player]
            children: list[efg.Node] = []
            for k in moves:
                leaves = node.actions[k] not in MENU
                if leaves and left == 0 and not isinstance(node.children[k], efg.Terminal):
                    roots.append(len(nodes))
                children.append(copy(node.children[k], here, left + leaves))
            if later is not None and node.player == player and left > 1:
                nodes[here] = efg.Chance(tuple(later[node.infoset][moves].tolist()), tuple(children))
            else:
                actions = tuple(node.actions[k] for k in moves)
                nodes[here] = dataclasses.replace(node, actions=actions, children=tuple(children))
        elif isinstance(node, efg.Chance):
            children = [copy(child, here, left) for child in node.children]
            nodes[here] = dataclasses.replace(node, children=tuple(children))
        return nodes[here]

    copy(game.root, -1, 0)
    first, second = (tuple(states[h] for h in source) for states in game.infostate)
    return efg.Game(tuple(nodes), tuple(parent), (first, second)), roots


def _on_menu(rows: Strategy, game: efg.Game) -> Strategy:
    """Rows without the actions that a game lacks, which are the last ones."""
    return {label: rows[label][: len(node.actions)] for label, node in efg.infosets(game.root).items()}


# Spots of hold'em

RIVERS = BetMenu(bets=(0.5,), raises=(1.0,), cap=2)
TURNS = BetMenu(bets=(0.5,), raises=(1.0,), cap=1)
"""Menus of `tests.holdem.enumerated.Streets`."""
AT_SPOTS = tuple(gadget for gadget in ALL_GADGETS if gadget.name in ("resolving", "max-margin"))
"""The gadgets and priors of the bundles that need no trunk; each spot batch has unsafe and some of them."""
FEW_AT_SPOTS = 3


def random_spot(rng: np.random.Generator) -> Spot:
    """A river of some hands each, whose stack covers every bet of the menu."""
    board = rng.permutation(NUM_CARDS)[:5].tolist()
    pot = int(rng.integers(1, 200))
    return _make_spot(rng, board, (6, 4), pot=pot, stack=4 * pot, menus=RIVERS)


def random_turn(rng: np.random.Generator) -> Spot:
    """A turn of two hands each; a bet on the turn or on the river is all-in, or neither."""
    board = rng.permutation(NUM_CARDS)[:4].tolist()
    pot = int(rng.integers(1, 200))
    stack = pot * float(rng.choice([0.5, 1.0, 4.0]))
    return _make_spot(rng, board, (4, 2), pot=pot, stack=stack, menus=TURNS)


def _make_spot(rng: np.random.Generator, board: list[int], hands: tuple[int, int], **betting: Any) -> Spot:
    """A spot of random ranges with at least two compatible pairs of hands.

    Args:
      rng: random generator.
      board: the cards.
      hands: number of hands from which both ranges are drawn, and number of hands in each.
      **betting: other arguments of the spot.
    """
    compatible, held = 0, list[list[int]]()
    while compatible < 2:
        pool = rng.permutation(hands_left(board))[: hands[0]]  # the ranges share some hands
        held = [rng.permutation(pool)[: hands[1]].tolist() for _ in range(2)]
        compatible = sum(not set(HANDS[a]) & set(HANDS[b]) for a, b in itertools.product(*held))
    first, second = (
        ",".join(f"{hand_name(hand)}:{rng.uniform(0.05, 1):.2f}" for hand in several) for several in held
    )
    cards = "".join(RANKS[card // 4] + SUITS[card % 4] for card in board)
    return Spot(board=cards, oop=first, ip=second, **betting)


@dataclasses.dataclass(frozen=True, eq=False)
class ExplicitSpot:
    """A spot preceded by moves that make it a proper subgame.

    Attributes:
      spot: the spot.
      rules: rules of the game in which both players first choose whether to continue.
      game: game from these rules.
      roots: the histories in which both continue.
    """

    spot: Spot
    rules: OnTheWay
    game: efg.Game
    roots: tuple[int, ...]

    @staticmethod
    def of(spot: Spot) -> ExplicitSpot:
        rules = OnTheWay(spot)
        game = from_state_rules(rules)
        return ExplicitSpot(spot, rules, game, tuple(cuts.depth_roots(game, 2)))

    @functools.cached_property
    def alone(self) -> efg.Node:
        """The spot alone, with pairs of hands weighted by both ranges."""
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
    spots = [ExplicitSpot.of(random_spot(rng)) for _ in range(count)]
    _examine_batch(spots, (0, 1), FEW_AT_SPOTS, 100, rng, f"spots {seed}", findings)


def examine_turn(seed: int, findings: Findings) -> None:
    """A random turn, solved, and re-solved by one player with few iterations: all hands are carried."""
    rng = np.random.default_rng(seed)
    players = (int(rng.integers(2)),)
    _examine_batch([ExplicitSpot.of(random_turn(rng))], players, 1, 20, rng, f"turn {seed}", findings)


def random_flop(rng: np.random.Generator) -> Spot:
    """A flop with nine cards left and four hands each, of random menus and stacks, half of them with rake.

    Both players have compatible hands after every turn.
    """
    cards = rng.permutation(NUM_CARDS).tolist()
    board, left, dead = cards[:3], cards[3:12], cards[12:]
    pot = int(rng.integers(1, 200))
    menus = [BetMenu(bets=str(rng.choice(["50%", "a"])), raises="", cap=1) for _ in range(2)]
    rake = {"rake": 0.05, "rake_cap": 0.2 * pot} if rng.random() < 0.5 else {}
    held, together = list[list[int]](), list[set[int]]()
    while not held or any(all(card in cards for cards in together) for card in left):
        held = [rng.permutation(hands_left([*board, *dead]))[:4].tolist() for _ in range(2)]
        pairs = [(HANDS[a].tolist(), HANDS[b].tolist()) for a, b in itertools.product(*held)]
        together = [{*first, *second} for first, second in pairs if not {*first} & {*second}]
    first, second = (
        ",".join(f"{hand_name(hand)}:{rng.uniform(0.05, 1):.2f}" for hand in several) for several in held
    )
    return Spot(
        board="".join(map(card_name, board)),
        oop=first,
        ip=second,
        pot=pot,
        stack=pot * float(rng.choice([0.5, 2.0])),
        menus=(menus[0], menus[1]),
        turn_menus=BetMenu(bets="100%", raises="", cap=1),
        river_menus=BetMenu(bets=str(rng.choice(["", "a"])), raises=""),
        dead="".join(map(card_name, dead)),
        **rake,
    )


def examine_flop(seed: int, findings: Findings) -> None:
    """A random flop, solved in 32 or 16 bits, against the same strategies in the game with all cards."""
    rng = np.random.default_rng(seed)
    spot, tolerance = random_flop(rng), 1e-9
    compressed, where = bool(rng.integers(2)), f"{spot.name}, flop {seed}"
    (solution,) = solve_spots([spot], compressed=compressed, iterations=10)
    values = values_of(ListedFlop(spot), solution)
    for name, found, expected in (("EVs", solution.ev, values.ev), ("gains", solution.gains, values.gains)):
        off = np.abs(np.array(found) - np.array(expected)) / spot.pot
        findings.hold(f"flops: {name} are those of all cards", where, off, tolerance)


def _examine_batch(
    spots: Sequence[ExplicitSpot],
    players: Sequence[int],
    count: int,
    iterations: int,
    rng: np.random.Generator,
    where: str,
    findings: Findings,
) -> None:
    """Check solutions and refinements of spots.

    Args:
      spots: the spots.
      players: the resolving players.
      count: number of gadgets that are drawn for each, besides unsafe.
      iterations: of CFR+.
      rng: random generator.
      where: location, for messages.
      findings: record of the checks.
    """
    asked = [each.spot for each in spots]
    how = settings(iterations=iterations, dtype="float64", progress=False)
    for each, solution in zip(spots, solve_spots(asked, **how), strict=True):
        _hold_solution(each, solution, f"{each.spot.name}, {where}", findings)
    blueprints = [evaluate_spot(spot, random_play(spot, int(rng.integers(1000)))) for spot in asked]
    for player in players:
        drawn = [AT_SPOTS[number] for number in rng.permutation(len(AT_SPOTS))[:count].tolist()]
        found = refine_spots(
            asked, (jg.Unsafe(), *drawn), blueprints=blueprints, hands_in_range=True, player=player, **how
        )
        for each, before, refinements in zip(spots, blueprints, found, strict=True):
            for refinement in refinements:
                named = f"{each.spot.name}, player {player}, {describe(refinement.gadget)}, {where}"
                _hold_refinement(each, before, refinement, named, findings)


def _hold_solution(each: ExplicitSpot, solution: SpotSolution, where: str, findings: Findings) -> None:
    spot, rows, tolerance = each.spot, each.rows(solution), 1e-9 * each.spot.pot
    strategy = functools.cache(solution.strategy)

    def play(player: int, line: str, hand: int) -> dict[str, float]:
        return {action: float(row[hand]) for action, row in strategy(line).items()}

    off = np.abs(np.array(solution.ev) - expected_chips(spot, play))
    findings.hold("spots: EVs are those of all pairs of hands", where, off, tolerance)
    off = abs(solution.gap - efg.nash_conv(each.alone, rows))
    findings.hold("spots: the gap is NashConv", where, off, tolerance)
    value = find_optimum(each.alone, 0, {}, spot.pot)
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
    exact = find_optimum(each.alone, 0, {}, spot.pot)
    findings.hold("spots: the value is in its bracket", where, max(low - exact, exact - high), tolerance)
    middle = efg.sign(player) * (low + high) / 2
    for rows, reported in (
        (each.rows(before), found.blueprint_exploitability),
        (each.rows(found.solution), found.refined_exploitability),
    ):
        lost = middle + efg.best_response_value(each.alone, 1 - player, rows)
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
      structures: how many share a game; as many are by hands, half as many may leave a menu, a quarter do so
        with public actions, a tenth are rivers, and one is a turn and
        one a flop.
      findings: record of the checks.
    """
    shapes, _ = accepted_structures(seed, structures, findings)
    bundle = make_bundle(shapes, seed, f"front ends, --seed {seed}, {structures} structures")
    for player in (0, 1):
        examine_responses(bundle, player, findings)
        examine_private(bundle, player, findings)
        menus, _ = make_menu_bundle(seed, max(structures // 2, 1), player)
        examine_off_tree(menus, player, findings)
        public, _ = make_menu_bundle(seed, max(structures // 4, 1), player, random_hands_shape)
        examine_off_tree(public, player, findings, ["safe"])
    examine_by_hands(make_hands_bundle(seed, structures), 6, findings)
    examine_spots(seed, max(structures // 10, 1), findings)
    examine_turn(seed, findings)
    examine_flop(seed, findings)
