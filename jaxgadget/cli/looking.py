"""`jaxgadget show GAME` and `infostates GAME`: subgames, infostates, and probabilities under a policy."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

from jaxgadget.cli.fields import option, request
from jaxgadget.cli.options import CutOptions, GameOptions, Output, PlotOutput

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
"""Default policy."""


@request
class SubgameOptions:
    """A subgame and a policy.

    Attributes:
      subgame: number of the subgame.
      infostate: select the subgame that contains this infostate, instead of a number.
      policy: a file written by `--save`, or a blueprint SPEC as for `refine`.
      lane: policy to select from a file with several, by label or number.
    """

    subgame: int = option(0, metavar="K", min=0)
    infostate: str | None = option(None, metavar="STRING")
    policy: str = option(POLICY, metavar="FILE|SPEC")
    lane: str | None = option(None, metavar="LABEL")


@request
class InfostateOptions:
    """Infostates to list.

    Attributes:
      player: list only infostates of this player.
      match: list only infostates whose name contains this text, or all of several texts.
      subgame: list only infostates in this subgame below the cut.
    """

    player: int | None = option(None, metavar="0|1", min=0, max=1)
    match: tuple[str, ...] = option((), metavar="TEXT")
    subgame: int | None = option(None, metavar="K", min=0)


@request
class SubgameOutput(PlotOutput):
    """Files to write.

    Attributes:
      plot: draw hands × actions as heat maps, one for each decision point, as .png, .svg or .pdf.
    """


def show_subgame(game: GameOptions, cuts: CutOptions, options: SubgameOptions, output: SubgameOutput) -> None:
    """Show a subgame: both players' root infostates and ranges, and their play below, under one policy."""
    output.check()
    from jaxgadget.policy.blueprints import parse_blueprint

    policy = options.policy
    try:
        spec = parse_blueprint(policy)
    except ValueError:
        if not pathlib.Path(policy).exists():
            raise
        spec = parse_blueprint(f"file:{policy}")
    tree, _ = game.enumerate()
    from jaxgadget.policy.blueprints import make_blueprints
    from jaxgadget.report import show as report

    forest, subgame = _find_subgame(tree, cuts, options.subgame, options.infostate)
    profile = _find_lane(make_blueprints(tree, [spec]), policy, options.lane)
    if output.plot is not None:
        from jaxgadget.report.plots import save_picture

        save_picture(report.subgame_picture(forest, profile, subgame), output.plot)
    output.write_json(report.subgame_record(forest, profile, subgame))
    notes = [
        f"{tree.game.name}, cut {forest.cut.name}: subgame {subgame} of {forest.num_subgames}, numbered "
        "from 0. Reach: how likely the player itself plays to a root; range: its share of the subgame; "
        "N(s): how likely the other player and chance lead there; reached: how likely play gets to an "
        "infostate.",
    ]
    output.print((report.subgame_tables(forest, profile, subgame), notes))


def infostates(game: GameOptions, cuts: CutOptions, options: InfostateOptions, output: Output) -> None:
    """List the infostates where a player acts, by the names that all other commands accept.

    With `--cut` or `--subgame`, list only infostates in subgames, with the subgame's number.
    """
    output.check()
    tree, _ = game.enumerate()
    from jaxgadget.report.infostates import infostates_table, list_infostates

    forest = None
    subgame = options.subgame
    if cuts.cut is not None or subgame is not None:
        forest, _ = _find_subgame(tree, cuts, subgame or 0, None)
    rows = list_infostates(tree, player=options.player, texts=options.match, forest=forest, subgame=subgame)
    record: dict[str, Any] = {"game": tree.game.name, "infostates": rows}
    output.write_json(record | ({} if forest is None else {"cut": forest.cut.name}))
    total = sum(map(len, tree.infosets))
    output.print((infostates_table(rows), [f"{tree.game.name}: {len(rows)} of {total} infostates."]))


def _find_subgame(
    tree: HistoryTree, cuts: CutOptions, subgame: int, infostate: str | None
) -> tuple[Forest, int]:
    """All subgames below a cut, and the number of the selected one."""
    from jaxgadget.tree.forest import build_forest

    forest = build_forest(tree, cuts.of(tree.game))
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
    """The only policy, or the one with the given label or number."""
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
