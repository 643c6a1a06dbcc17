"""`jaxgadget off-tree GAME`: answers to actions that the blueprint does not have."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxgadget.cli import options
from jaxgadget.cli.command import (
    check_algorithm,
    check_gadgets,
    keeping_checkpoints,
    make_asked_gadgets,
    read_spread,
    refuse_unused,
)
from jaxgadget.cli.prepare import exit_if_undefined, keep_programs, save_defined
from jaxgadget.games.game import DEFAULT_MAX_HISTORIES
from jaxgadget.report.output import STANDARD_OUTPUT, check_outputs, show, warn, working, write_json, written

if TYPE_CHECKING:
    from jaxgadget.gadgets.gadget import Gadget
    from jaxgadget.policy.policy import Policy
    from jaxgadget.refining.off_tree import OffTree
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

Menu = Annotated[
    str,
    typer.Option(
        "--menu",
        metavar="ACTIONS",
        show_default=False,
        help="What the blueprint knows: in games of bets fractions of the pot, and `a` for all-in, with "
        "dashes between them, beside all that is no bet; elsewhere names of actions with `|` between them.",
    ),
]
OpponentOnly = Annotated[
    bool,
    typer.Option("--opponent-only", help="The menu is the opponent's; who answers has all actions."),
]
OffTreeActions = Annotated[
    str | None,
    typer.Option(
        "--off-tree",
        metavar="ACTIONS",
        show_default="all that is not on the menu",
        help="What the opponent may do off the menu, named as there. With this option the whole game, by "
        "which exploitability is measured, has nothing else.",
    ),
]
Answering = Annotated[
    options.PlayerName,
    typer.Option(
        "--player",
        metavar="0|1|both",
        help="Who answers; the other leaves the menu. With `both`, one after the other, and then NashConv.",
    ),
]
Methods = Annotated[
    list[str] | None,
    options.repeatable(
        "--method",
        metavar="NAME",
        show_default=" and ".join(DEFAULT_METHODS),
        help="`translation:RULE` takes the action for one on the menu, by the rule `pseudo-harmonic`, "
        "`linear` or `nearest`; `inexpensive` solves what follows it, `expensive` what follows the decision "
        "before it, and `safe` what follows it, guaranteeing no less than translation.",
    ),
]
Levels = Annotated[
    int | None,
    typer.Option(
        "--levels",
        metavar="N",
        min=0,
        show_default="as often as it can",
        help="How many times the opponent may leave the menu and be answered; then bets are translated.",
    ),
]
OffTreeBlueprint = Annotated[
    list[str] | None,
    options.repeatable(
        "--blueprint",
        metavar="SPEC",
        show_default=DEFAULT_BLUEPRINT,
        help="A strategy of both players for the game with the menu; as `--blueprint` of `refine`.",
    ),
]
OffTreeGadget = Annotated[
    list[options.GadgetName] | None,
    options.repeatable(
        "--gadget",
        metavar="NAME",
        show_default=" and ".join(DEFAULT_GADGETS),
        help="The opponent's way into a subgame: `resolving`, `max-margin`, a `reach-` version of one, or "
        "`unsafe`, for `expensive` alone.",
    ),
]
OffTreePrior = Annotated[
    list[options.PriorName] | None,
    options.repeatable(
        "--prior",
        metavar="NAME",
        show_default="none, uniform and blueprint",
        help="Where the opponent's mistakes at the gadget lead: `none`, `uniform`, or its reach before the "
        "action, `blueprint`.",
    ),
]


def off_tree(
    context: typer.Context,
    game: options.Game,
    menu: Menu,
    opponent_only: OpponentOnly = False,
    off_tree_actions: OffTreeActions = None,
    player: Answering = options.PlayerName.SECOND,
    blueprint: OffTreeBlueprint = None,
    method: Methods = None,
    gadget: OffTreeGadget = None,
    prior: OffTreePrior = None,
    epsilon: options.Epsilon = None,
    spread: options.Spread = None,
    levels: Levels = None,
    algorithm: options.Algorithm = options.CFR_PLUS,
    iterations: options.Iterations = 2000,
    dtype: options.Dtype = options.DtypeName.FLOAT32,
    target_gap: options.TargetGap = None,
    checkpoint: options.CheckpointFolder = None,
    time_limit: options.TimeLimit = None,
    memory_limit: options.MemoryLimit = None,
    max_histories: options.MaxHistories = DEFAULT_MAX_HISTORIES,
    save: options.Save = None,
    json: options.Json = None,
) -> None:
    """Answer actions that the blueprint does not have, by translation or by solving what follows them.

    A line for each method, gadget, prior and blueprint: what the strategy guarantees (its certificate), and
    how exploitable it is in the whole game. The values of two games say what could be had. What is saved are
    strategies for the whole game.
    """
    check_algorithm(context, algorithm)
    check_outputs({"--json": json, "--save": save}, folder=checkpoint)
    methods = list(dict.fromkeys(method or DEFAULT_METHODS))
    _check_methods(methods)
    solves = [name for name in methods if name in SOLVING]
    if not solves:
        refuse_unused(
            context,
            "where all is translated",
            *("gadget", "prior", "epsilon", "spread", "levels"),
            *("iterations", "dtype", "target_gap", "checkpoint", "memory_limit"),
        )
    from jaxgadget.policy.blueprints import make_blueprints, parse_blueprint
    from jaxgadget.refining.refine import list_gadgets

    specs = [parse_blueprint(text) for text in blueprint or [DEFAULT_BLUEPRINT]]
    ways = {"spread": read_spread(spread)}
    gadgets = make_asked_gadgets(gadget or DEFAULT_GADGETS, prior, epsilon, None, ways)
    check_gadgets(context, gadgets)
    players = (0, 1) if player is options.PlayerName.BOTH else (int(player),)
    if solves:
        list_gadgets(gadgets, algorithm == options.LP, players)  # refuses before blueprints are made
    asked = {name: gadgets_of(name, gadgets, solves, len(specs)) for name in solves}
    tree, leaving = _enumerate(game, menu, off_tree_actions, opponent_only, players, max_histories)
    profiles = make_blueprints(tree, specs, progress=True)
    solving: dict[str, Any] = {"algorithm": str(algorithm), "time_limit": time_limit, "progress": True}
    solving |= {"max_histories": max_histories, "off_tree_actions": leaving}
    nested = solving | {"iterations": iterations, "dtype": dtype.value, "target_gap": target_gap}
    nested |= {"memory_limit": memory_limit, "levels": levels}
    whole = None if save is None else _enumerate_whole(tree, max_histories)
    results: list[list[OffTree]] = []
    with keeping_checkpoints(checkpoint):
        for number in players:
            folder = checkpoint if checkpoint is None or len(players) == 1 else checkpoint / f"player{number}"
            results.append(
                [_answer(tree, profiles, name, asked, number, solving, nested, folder) for name in methods]
            )
    if save is not None and whole is not None:
        save = _save(results, whole, save)
    from jaxgadget.report.off_tree import off_tree_notes, off_tree_record, off_tree_table

    if json is not None:
        write_json(json, off_tree_record(results))
    if json == STANDARD_OUTPUT:
        warn("")
    else:
        show(off_tree_table(results), [*off_tree_notes(results), *written(results=json, strategies=save)])
    everything = [result for answered in results for result in answered]
    reasons = [why for result in everything for why in result.failures.values()]
    exit_if_undefined(reasons, sum(result.policy.num_lanes for result in everything))


def _check_methods(methods: list[str]) -> None:
    """ValueError for what is no method."""
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
    """A method's gadgets, checked; where several are asked for, unsafe is for the one that knows it."""
    from jaxgadget.refining.off_tree import check_gadget

    if method != "expensive" and "expensive" in methods:
        gadgets = [gadget for gadget in gadgets if gadget.name != "unsafe"] or gadgets
    for gadget in gadgets:
        check_gadget(gadget, method, num_blueprints)
    return gadgets


def _enumerate(
    name: str,
    menu: str,
    off_tree_actions: str | None,
    opponent_only: bool,
    players: tuple[int, ...],
    max_histories: int,
) -> tuple[HistoryTree, tuple[str, ...] | None]:
    """The tree of the game with the menu, and what may be done off it; None for everything."""
    keep_programs()
    from jaxgadget.games.menu import MenuAbstraction, read_actions, read_menu
    from jaxgadget.games.registry import load
    from jaxgadget.tree.history import enumerate_game

    game = load(name)
    who = {0, 1}
    if opponent_only:
        if len(players) == 2:
            raise ValueError("--opponent-only with --player both: then nobody has all actions; choose 0 or 1")
        who = {1 - players[0]}
    menus = {number: read_menu(game, number, menu, "--menu") for number in who}
    leaving = (
        None if off_tree_actions is None else read_actions(game, min(who), off_tree_actions, "--off-tree")
    )
    for player in players:  # refuses what cannot be done off the menu before blueprints are made
        MenuAbstraction(game, menus, off_tree=1, off_tree_player=1 - player, off_tree_actions=leaving)
    with working(f"enumerating {name} with the menu {menu}"):
        return enumerate_game(MenuAbstraction(game, menus), max_histories=max_histories), leaving


def _answer(
    tree: HistoryTree,
    profiles: Policy,
    method: str,
    gadgets: dict[str, list[Gadget]],
    player: int,
    solving: dict[str, Any],
    nested: dict[str, Any],
    checkpoint: pathlib.Path | None,
) -> OffTree:
    """One method for one player; each keeps checkpoints in a folder of its own."""
    from jaxgadget.refining.off_tree import nested_off_tree, translate_off_tree

    kind, _, rule = method.partition(":")
    if kind == TRANSLATION:
        return translate_off_tree(tree, profiles, rule, player=player, **solving)
    known: Any = method
    folder = None if checkpoint is None else checkpoint / method
    return nested_off_tree(
        tree, profiles, gadgets[method], player=player, method=known, checkpoint=folder, **nested
    )


def _enumerate_whole(tree: HistoryTree, max_histories: int) -> HistoryTree:
    """The tree of the game of which this one is an abstraction."""
    from jaxgadget.games.menu import MenuAbstraction
    from jaxgadget.tree.history import enumerate_game

    assert isinstance(tree.game, MenuAbstraction)
    return enumerate_game(tree.game.game, max_histories=max_histories)


def _save(results: list[list[OffTree]], whole: HistoryTree, path: pathlib.Path) -> pathlib.Path | None:
    """Writes all methods' strategies for the whole game, both players' halves together."""
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
    return save_defined(Policy.stack(policies), failures, path)
