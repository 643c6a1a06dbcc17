"""`jaxgadget show GAME` and `infostates GAME`: what there is in a game, and what a policy does there."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxgadget.cli import options
from jaxgadget.cli.prepare import enumerate_named, first_cut
from jaxgadget.games.game import DEFAULT_MAX_HISTORIES
from jaxgadget.report.output import STANDARD_OUTPUT, check_outputs, show, write_json, written

if TYPE_CHECKING:
    from jaxgadget.policy.policy import Policy
    from jaxgadget.tree.forest import Forest
    from jaxgadget.tree.history import HistoryTree

SHOW_EXAMPLES = """\
Examples:

`jaxgadget show leduc_poker --cut flop --subgame 3 --policy equilibrium.npz --plot subgame.png`

`jaxgadget show kuhn_poker --cut depth:1 --policy uniform --json -`
"""

INFOSTATES_EXAMPLES = """\
Examples:

`jaxgadget infostates kuhn_poker`

`jaxgadget infostates leduc_poker --player 1 --match "[Private: 0]" --cut flop --subgame 3 --json -`
"""

POLICY = "cfr+:1000"
"""What is shown if nothing else is asked for."""

Subgame = Annotated[
    int,
    typer.Option("--subgame", metavar="K", min=0, help="The subgame's number."),
]
OneSubgame = Annotated[
    int | None,
    typer.Option("--subgame", metavar="K", min=0, help="Only those in this subgame below the cut."),
]
ShownInfostate = Annotated[
    str | None,
    typer.Option("--infostate", metavar="STRING", help="In place of K: the subgame in which this lies."),
]
PolicySource = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="FILE|SPEC",
        help="A file that `--save` wrote, or a blueprint SPEC as for `refine`.",
    ),
]
Lane = Annotated[
    str | None,
    typer.Option(
        "--lane",
        metavar="LABEL",
        show_default=False,
        help="Which of the policies of a file that holds several, by label or number.",
    ),
]
SubgamePlot = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="Draw hands × actions as heat maps, one for each decision point: .png, .svg or .pdf.",
    ),
]
OnePlayer = Annotated[
    int | None,
    typer.Option("--player", metavar="0|1", min=0, max=1, help="Only this player's."),
]
Matches = Annotated[
    list[str] | None,
    typer.Option(
        "--match", metavar="TEXT", help="Only those whose name has this text in it. *May be repeated: all.*"
    ),
]


def show_subgame(
    game: options.Game,
    cut: options.Cut = None,
    subgame: Subgame = 0,
    infostate: ShownInfostate = None,
    policy: PolicySource = POLICY,
    lane: Lane = None,
    plot: SubgamePlot = None,
    max_histories: options.MaxHistories = DEFAULT_MAX_HISTORIES,
    json: options.Json = None,
) -> None:
    """Show a subgame: both players' root infostates and ranges, and what they do below, under one policy."""
    check_outputs({"--json": json, "--plot": plot})
    from jaxgadget.policy.blueprints import parse_blueprint

    try:
        spec = parse_blueprint(policy)
    except ValueError:
        if not pathlib.Path(policy).exists():
            raise
        spec = parse_blueprint(f"file:{policy}")
    tree, _ = enumerate_named(game, max_histories)
    from jaxgadget.policy.blueprints import make_blueprints
    from jaxgadget.report import show as report

    forest, subgame = _find_subgame(tree, cut, subgame, infostate)
    profile = _find_lane(make_blueprints(tree, [spec]), policy, lane)
    if plot is not None:
        from jaxgadget.report.plots import save_picture

        save_picture(report.subgame_picture(forest, profile, subgame), plot)
    if json is not None:
        write_json(json, report.subgame_record(forest, profile, subgame))
    if json != STANDARD_OUTPUT:
        notes = [
            f"{tree.game.name}, cut {forest.cut.name}: subgame {subgame} of {forest.num_subgames}, numbered "
            "from 0. Reach: how likely the player itself plays to a root; range: its share of the subgame; "
            "N(s): how likely the other player and chance lead there; reached: how likely play gets to an "
            "infostate.",
        ]
        notes += written(results=json, picture=plot)
        show(report.subgame_tables(forest, profile, subgame), notes)


def infostates(
    game: options.Game,
    player: OnePlayer = None,
    match: Matches = None,
    cut: options.Cut = None,
    subgame: OneSubgame = None,
    max_histories: options.MaxHistories = DEFAULT_MAX_HISTORIES,
    json: options.Json = None,
) -> None:
    """List the infostates where a player acts, by the names that everything else here takes.

    With `--cut` or `--subgame`, only those in subgames, with the subgame's number.
    """
    check_outputs({"--json": json})
    tree, _ = enumerate_named(game, max_histories, computes=False)
    from jaxgadget.report.infostates import infostates_table, list_infostates

    forest = None
    if cut is not None or subgame is not None:
        forest, _ = _find_subgame(tree, cut, subgame or 0, None)
    rows = list_infostates(tree, player=player, texts=match or (), forest=forest, subgame=subgame)
    if json is not None:
        record: dict[str, Any] = {"game": tree.game.name, "infostates": rows}
        write_json(json, record | ({} if forest is None else {"cut": forest.cut.name}))
    if json != STANDARD_OUTPUT:
        total = sum(map(len, tree.infosets))
        notes = [f"{tree.game.name}: {len(rows)} of {total} infostates.", *written(results=json)]
        show(infostates_table(rows), notes)


def _find_subgame(
    tree: HistoryTree, name: str | None, subgame: int, infostate: str | None
) -> tuple[Forest, int]:
    """All subgames below a cut, and the number of the one asked for."""
    from jaxgadget.tree.forest import build_forest

    forest = build_forest(tree, first_cut(tree.game) if name is None else name)
    if infostate is not None:
        player, infoset = tree.find_infoset(infostate)
        subgame = int(forest.infoset_subgame(player)[infoset])
        if subgame < 0:
            raise ValueError(
                f"--infostate {infostate!r} lies above the cut {forest.cut.name!r}; expected one below it"
            )
    if subgame >= forest.num_subgames:
        raise ValueError(
            f"--subgame {subgame}: expected a number from 0 to {forest.num_subgames - 1}, the subgames below "
            f"{forest.cut.name!r} of {tree.game.name}"
        )
    return forest, subgame


def _find_lane(profiles: Policy, source: str, lane: str | None) -> Policy:
    """The only policy, or the one that was asked for by label or number."""
    if lane is None:
        if profiles.num_lanes > 1:
            labels = [label.partition("#")[2] or label for label in profiles.labels]
            raise ValueError(
                f"--policy {source!r} holds {profiles.num_lanes} policies; pick one by --lane: {labels}"
            )
        return profiles
    names = [name for name in profiles.labels if lane in (name, name.partition("#")[2])]
    if names:
        return profiles.lane(names[0])
    return profiles.lane(int(lane) if lane.isascii() and lane.isdigit() else lane)
