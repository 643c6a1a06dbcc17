"""`jaxgadget off-tree GAME`: answers to actions outside the blueprint's menu."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxgadget.cli.command import exit_if_failed, keeping_checkpoints, refuse_unused
from jaxgadget.cli.fields import Fields, option, request
from jaxgadget.cli.options import (
    BlueprintOptions,
    GadgetOptions,
    GameOptions,
    PlayerOptions,
    SavedOutput,
    check_solver,
)
from jaxgadget.core.solver import LP, Solver
from jaxgadget.report.output import working

if TYPE_CHECKING:
    from jaxgadget.gadgets.gadget import Gadget
    from jaxgadget.policy.policy import Policy
    from jaxgadget.subgames.off_tree import OffTree
    from jaxgadget.tree.history import HistoryTree

TRANSLATION = "translation"
SOLVING = ("inexpensive", "expensive", "safe")
"""Methods of `nested_off_tree`; a test compares them with the library's."""

DEFAULT_METHODS = (f"{TRANSLATION}:pseudo-harmonic", "inexpensive")
DEFAULT_GADGETS = ("resolving", "max-margin")
DEFAULT_BLUEPRINT = "cfr+:1000"

OFF_TREE_EXAMPLES = """\
Examples:

`jaxgadget off-tree "no_limit_leduc(bets=1/2-1-2-a,max_raises=2)" --menu 1-a --blueprint cfr+:1000`

`jaxgadget off-tree "no_limit_leduc(bets=1/2-1-a,max_raises=1,stack=9)" --menu 1-a --blueprint cfr+:300
--method translation:linear --method inexpensive --method safe --gadget resolving --prior none --json -`

`jaxgadget off-tree coin_toss --menu Sell --opponent-only --blueprint uniform --method inexpensive
--algorithm lp`
"""


@request
class OffTreeOptions(PlayerOptions):
    """Actions off the menu and answers to them.

    Attributes:
      menu: actions of the blueprint. In games with bets: shares of the pot, and `a` for all-in, such as
        `50%,100%,a` or `1/2-1-a`; all other actions are included. In other games: names of actions, separated
        by `|`.
      opponent_only: restrict only the opponent to the menu; the answering player has all actions.
      off_tree: the opponent's off-menu actions, in the same format. With this option, the whole game in which
        exploitability is measured has no other off-menu actions of the opponent.
      player: the answering player; the other leaves the menu. With `both`, each player in turn, with NashConv
        of the two results combined.
      method: `translation:RULE` maps the action to one on the menu, by the rule `pseudo-harmonic`, `linear`
        or `nearest`; `inexpensive` solves the subgame after the action, `expensive` the one at the decision
        before it, and `safe` the one after it, guaranteeing no less than translation.
      levels: number of departures from the menu that are answered; further bets are translated.
    """

    menu: str = option(metavar="ACTIONS")
    opponent_only: bool = False
    off_tree: str | None = option(None, metavar="ACTIONS", default="all off-menu actions")
    method: tuple[str, ...] = option(DEFAULT_METHODS, metavar="NAME")
    levels: int | None = option(None, min=0, default="all that are possible")


def off_tree(
    context: typer.Context,
    game: GameOptions,
    options: Annotated[OffTreeOptions, Fields(player="1")],
    blueprints: Annotated[BlueprintOptions, Fields(blueprint=(DEFAULT_BLUEPRINT,))],
    gadgets: Annotated[GadgetOptions, Fields("gadget", "prior", "epsilon", "spread", gadget=DEFAULT_GADGETS)],
    solver: Annotated[Solver, Fields(algorithm="cfr+", iterations=2000, dtype="float32", progress=True)],
    output: SavedOutput,
) -> None:
    """Answer actions outside the blueprint's menu, by translation or by solving subgames.

    Prints one row for each method, gadget, prior and blueprint: the value guaranteed by the strategy (its
    certificate) and its exploitability in the whole game. The values of two games bound the optimum. Saved
    strategies are for the whole game.
    """
    check_solver(context, solver)
    output.check(folder=solver.checkpoint_path)
    methods = list(dict.fromkeys(options.method))
    _check_methods(methods)
    solves = [name for name in methods if name in SOLVING]
    if not solves:
        refuse_unused(
            context,
            "if all off-menu actions are translated",
            *("gadget", "prior", "epsilon", "spread", "levels"),
            *("iterations", "dtype", "target_gap", "checkpoint", "memory_limit"),
        )
    from jaxgadget.policy.blueprints import make_blueprints
    from jaxgadget.subgames.refine import list_gadgets

    specs = blueprints.parse()
    offers = gadgets.make(context)
    players = options.players
    if solves:
        list_gadgets(offers, solver.algorithm == LP, players)  # raises before blueprints are made
    gadgets_by_method = {name: gadgets_of(name, offers, solves, len(specs)) for name in solves}
    tree, leaving = _enumerate(game, options, players)
    profiles = make_blueprints(tree, specs, progress=True)
    size = game.max_histories
    solving: dict[str, Any] = {"max_histories": size, "off_tree_actions": leaving}
    whole = None if output.save is None else _enumerate_whole(tree, size)
    results: list[list[OffTree]] = []
    checkpoint = solver.checkpoint_path
    with keeping_checkpoints(solver):
        for player in players:
            folder = checkpoint if checkpoint is None or len(players) == 1 else checkpoint / f"player{player}"
            own = dataclasses.replace(solver, checkpoint=folder)
            results.append(
                [
                    _answer(tree, profiles, name, gadgets_by_method, player, options.levels, own, solving)
                    for name in methods
                ]
            )
    if whole is not None:
        output = _save(results, whole, output)
    from jaxgadget.report.off_tree import off_tree_notes, off_tree_record, off_tree_table

    output.write_page([result for answered in results for result in answered])
    output.write_json(off_tree_record(results))
    output.print((off_tree_table(results), off_tree_notes(results)))
    exit_if_failed([result for answered in results for result in answered])


def _check_methods(methods: list[str]) -> None:
    """Raises ValueError for an unknown method."""
    for name in methods:
        kind, colon, rule = name.partition(":")
        if name in SOLVING:
            continue
        if kind != TRANSLATION or not colon or not rule:
            raise ValueError(
                f"--method {name!r}: expected {', '.join(SOLVING)} or {TRANSLATION}:RULE, such as "
                f"{DEFAULT_METHODS[0]}"
            )
        from jaxgadget.policy.translation import check_rule

        check_rule(rule)


def gadgets_of(method: str, gadgets: list[Gadget], methods: list[str], num_blueprints: int) -> list[Gadget]:
    """A method's gadgets, validated; of several methods only `expensive` has the unsafe gadget."""
    from jaxgadget.subgames.off_tree import check_gadget

    if method != "expensive" and "expensive" in methods:
        gadgets = [gadget for gadget in gadgets if gadget.name != "unsafe"] or gadgets
    for gadget in gadgets:
        check_gadget(gadget, method, num_blueprints)
    return gadgets


def _enumerate(
    game: GameOptions, options: OffTreeOptions, players: tuple[int, ...]
) -> tuple[HistoryTree, tuple[str, ...] | None]:
    """The tree of the game with the menu, and the off-menu actions; None for all of them."""
    from jaxgadget.games.menu import MenuAbstraction, check_off_tree, read_actions, read_menu
    from jaxgadget.tree.history import enumerate_game

    rules = game.load()
    limited = {0, 1}
    if options.opponent_only:
        if len(players) == 2:
            raise ValueError("--opponent-only with --player both: no player has all actions; choose 0 or 1")
        limited = {1 - players[0]}
    menus = {player: read_menu(rules, player, options.menu, "--menu") for player in limited}
    leaving = None
    if options.off_tree is not None:
        leaving = read_actions(rules, min(limited), options.off_tree, "--off-tree")
    for player in players:  # rejects impossible actions before blueprints are made
        check_off_tree(
            MenuAbstraction(rules, menus, off_tree=1, off_tree_player=1 - player, off_tree_actions=leaving)
        )
    with working(f"enumerating {game.game} with the menu {options.menu}"):
        return enumerate_game(MenuAbstraction(rules, menus), max_histories=game.max_histories), leaving


def _answer(
    tree: HistoryTree,
    profiles: Policy,
    method: str,
    gadgets: dict[str, list[Gadget]],
    player: int,
    levels: int | None,
    solver: Solver,
    solving: dict[str, Any],
) -> OffTree:
    """Runs one method for one player, with checkpoints in a separate folder."""
    from jaxgadget.subgames.off_tree import Answering, nested_off_tree, translate_off_tree

    kind, _, rule = method.partition(":")
    if kind == TRANSLATION:
        solver = solver.only("algorithm", "time_limit", "progress")
        return translate_off_tree(tree, profiles, rule, player=player, solver=solver, **solving)
    if (folder := solver.checkpoint_path) is not None:
        solver = dataclasses.replace(solver, checkpoint=folder / method)
    any_method: Any = method
    return nested_off_tree(
        tree,
        profiles,
        gadgets[method],
        Answering(any_method, levels=levels, **solving),
        player=player,
        solver=solver,
    )


def _enumerate_whole(tree: HistoryTree, max_histories: int) -> HistoryTree:
    """The tree of the game of which this one is an abstraction."""
    from jaxgadget.games.menu import MenuAbstraction
    from jaxgadget.tree.history import enumerate_game

    assert isinstance(tree.game, MenuAbstraction)
    return enumerate_game(tree.game.game, max_histories=max_histories)


def _save(results: list[list[OffTree]], whole: HistoryTree, output: SavedOutput) -> SavedOutput:
    """Writes the strategies of all methods for the whole game, with both players' halves combined."""
    from jaxgadget.policy.policy import Policy

    failures: set[int] = set()
    policies: list[Policy] = []
    lanes = 0
    for answered in zip(*results, strict=True):
        method, on_whole = answered[0].method, [result.on(whole) for result in answered]
        labels = tuple(f"{method} | {label}" for label in on_whole[0].labels)
        policies.append(Policy(whole, (on_whole[0].probabilities[0], on_whole[-1].probabilities[1]), labels))
        failures |= {lanes + lane for result in answered for lane in result.failures}
        lanes += policies[-1].num_lanes
    return output.save_defined(Policy.stack(policies), failures)
