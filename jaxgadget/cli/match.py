"""`jaxgadget match GAME`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from jaxgadget.cli.command import exit_if_undefined
from jaxgadget.cli.fields import Fields, option, request
from jaxgadget.cli.leaves import (
    EPSILON,
    LeafOptions,
    SearchBlueprintOptions,
    join,
    note_unused,
)
from jaxgadget.cli.options import GadgetOptions, GameOptions, PlotOutput
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.registry import DEFAULT_GADGETS
from jaxgadget.report.output import working

if TYPE_CHECKING:
    import pandas as pd

    from jaxgadget.gadgets.gadget import Gadget
    from jaxgadget.policy.policy import Policy
    from jaxgadget.tree.history import HistoryTree
    from jaxgadget.values.histories import ValueFunction

MATCH_EXAMPLES = """\
Examples:

`jaxgadget match kuhn_poker --blueprint cfr:5 --matches 2000`

`jaxgadget match "liars_dice(dice_sides=3)" --blueprint uniform --gadget resolving --json -`

`jaxgadget match "goofspiel(num_cards=9,imp_info=True)" --blueprint file:policy --leaf critic --matches 5`
"""


@request
class MatchGadgetOptions(GadgetOptions):
    """Gadgets of the players.

    Attributes:
      gadget: the gadget by which the opponent enters a subgame.
    """

    gadget: tuple[str, ...] = option(DEFAULT_GADGETS, choices=DEFAULT_GADGETS)


@request
class MatchOptions:
    """Matches to play.

    Attributes:
      matches: number of matches of each pair; a match is two games, one in each seating.
      epsilon: probability of the opponent's mistakes at the gadget, at least 0 and below 1.
    """

    epsilon: float = option(float(EPSILON), metavar="E", min=0, max=1)
    matches: int = option(1000, min=1)


@request
class MatchOutput(PlotOutput):
    """Files to write.

    Attributes:
      plot: draw mean returns, and win rates if all wins pay the same, as heat maps, as .png, .svg or .pdf.
    """


def match(
    context: typer.Context,
    game: GameOptions,
    blueprints: SearchBlueprintOptions,
    gadgets: Annotated[MatchGadgetOptions, Fields("gadget", "prior")],
    leaves: LeafOptions,
    solver: Annotated[Solver, Fields("iterations", iterations=3000, progress=True)],
    options: MatchOptions,
    output: MatchOutput,
) -> None:
    """Play nested search with every gadget and prior against each other, in both seatings with shared chance.

    The blueprint also takes part. With a critic at --leaf, made by `train-critic`, the game is not
    enumerated: the blueprint is a network, and searches run at the public states that matches reach, which
    take seconds each; choose few --matches.
    """
    output.check()
    offers = dataclasses.replace(gadgets, epsilon=(str(options.epsilon),)).make(context)
    if leaves.is_critic:
        played = _play_states(game, blueprints, offers, leaves, options, solver)
    else:
        played = _play_in_tree(game, blueprints, offers, leaves, options, solver)
    spec, frame, wins = blueprints.only(), played.frame, played.wins_are_equal
    from jaxgadget.report import search as report

    if output.plot is not None:
        from jaxgadget.report.matches import match_picture
        from jaxgadget.report.plots import save_picture

        picture = match_picture(frame, win_rates=wins, title=played.game)
        save_picture(picture, output.plot)
    settings = {"seed": leaves.seed, "blueprint": spec}
    settings |= {"depth": leaves.depth, "iterations": solver.num_iterations}
    settings |= {"k": played.num_entries, "leaf": leaves.leaf, "epsilon": options.epsilon}
    output.write_json(report.match_record(played.game, frame) | settings)
    score = "win rate" if wins else "mean return"
    notes = [
        "± is half of a 95 % confidence interval; a match is two games, one in each seating. Mean return: in "
        f"units of payoff; first and second: the row's {score} as player 0 and as player 1.",
        *played.notes,
    ]
    output.print((report.match_table(frame, win_rates=wins), notes), warnings=played.notes)
    exit_if_undefined(played.reasons, 2 * len(offers))


class Played(NamedTuple):
    """Matches, and what else is reported.

    Attributes:
      game: name of the game.
      frame: `Matches.table`.
      wins_are_equal: True if every win pays the same.
      num_entries: K, number of strategies at the limit.
      notes: notes about the searches.
      reasons: why searches failed.
    """

    game: str
    frame: pd.DataFrame
    wins_are_equal: bool
    num_entries: int
    notes: Sequence[str] = ()
    reasons: Sequence[str] = ()


def _play_in_tree(
    game: GameOptions,
    blueprints: SearchBlueprintOptions,
    gadgets: Sequence[Gadget],
    leaves: LeafOptions,
    options: MatchOptions,
    solver: Solver,
) -> Played:
    """Matches of policies that nested search assembles for the whole game."""
    tree, profile = blueprints.make_one(game)
    from jaxgadget.policy.matches import are_wins_equal, play_matches

    values = leaves.make_histories(tree, profile)
    policy, unused, reasons = _assemble(tree, profile, gadgets, values, leaves.depth, solver)
    with working(f"playing {options.matches} matches of each pair"):
        frame = play_matches(policy, matches=options.matches, seed=leaves.seed).table
    notes = [unused] if unused else []
    return Played(tree.game.name, frame, are_wins_equal(tree), values[0].num_entries, notes, reasons)


def _play_states(
    game: GameOptions,
    blueprints: SearchBlueprintOptions,
    gadgets: Sequence[Gadget],
    leaves: LeafOptions,
    options: MatchOptions,
    solver: Solver,
) -> Played:
    """Matches of players that search from public states, in a game that is not enumerated."""
    network = blueprints.load_network(game)
    critic = leaves.load_critic(network)
    from jaxgadget.gadgets.gadget import describe
    from jaxgadget.policy.matches import play_players
    from jaxgadget.subgames.search_player import SearchPlayer

    searches = {
        describe(gadget): SearchPlayer(network, gadget, values=critic, depth=leaves.depth, solver=solver)
        for gadget in gadgets
    }
    with working(f"playing {options.matches} matches of each pair"):
        played = play_players(
            network.machine,
            {**searches, "blueprint": network},
            matches=options.matches,
            seed=leaves.seed,
            baseline=critic.baseline,
        )
    count = sum(player.searches(seat) for player in searches.values() for seat in (0, 1))
    notes = [
        f"{count} public states were searched. Without luck: the mean return minus the critic's estimate of "
        "luck, which has mean 0."
    ]
    return Played(network.machine.name, played.table, played.wins_are_equal, critic.num_entries, notes)


def _assemble(
    tree: HistoryTree,
    profile: Policy,
    gadgets: Sequence[Gadget],
    values: Sequence[ValueFunction],
    depth: int,
    solver: Solver,
) -> tuple[Policy, str, list[str]]:
    """Assembles both players' policies, one lane per gadget, and the blueprint.

    Gadgets whose search fails are excluded.

    Returns:
      The policies, a note about them, and the reasons why searches failed.
    """
    from jaxgadget.gadgets.gadget import describe
    from jaxgadget.policy.policy import Policy
    from jaxgadget.subgames.nested import nested_search
    from jaxgadget.subgames.schedule import Lookahead

    bracket = tree.payoff_bounds  # exploitabilities are not requested
    searches = [
        nested_search(
            tree,
            profile,
            gadgets,
            Lookahead(values, depth=depth),
            player=player,
            value=bracket,
            solver=solver,
        )
        for player in (0, 1)
    ]
    searched = Policy(tree, join(searches).probabilities, tuple(describe(gadget) for gadget in gadgets))
    failures = {lane for result in searches for lane in result.failures}
    players = [searched.lane(lane) for lane in range(len(gadgets)) if lane not in failures]
    plain = Policy(tree, profile.probabilities, ("blueprint",))
    reasons = [why for result in searches for why in result.failures.values()]
    return Policy.stack([*players, plain]), note_unused(searches), reasons
