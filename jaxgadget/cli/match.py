"""`jaxgadget match GAME`."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from jaxgadget.cli.command import exit_if_undefined, refuse_unused
from jaxgadget.cli.fields import Fields, option, request
from jaxgadget.cli.leaves import (
    EPSILON,
    LeafOptions,
    SearchBlueprintOptions,
    is_network_folder,
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
    from jaxgadget.games.machine import StateMachine
    from jaxgadget.policy.matches import Matches, MatchPlayer
    from jaxgadget.policy.player import Baseline
    from jaxgadget.policy.policy import Policy
    from jaxgadget.subgames.schedule import Lookahead
    from jaxgadget.tree.history import HistoryTree

MATCH_EXAMPLES = """\
Examples:

`jaxgadget match kuhn_poker --blueprint cfr:5 --matches 2000`

`jaxgadget match "liars_dice(dice_sides=3)" --blueprint uniform --gadget resolving --json -`

`jaxgadget match "goofspiel(num_cards=9,imp_info=True)" --blueprint file:policy --leaf critic --matches 5`

`jaxgadget match leduc_poker --blueprint cfr:100 --gadget none --against openspiel:uniform_random`
"""


NO_SEARCH = "none"
"""`--gadget none`: the blueprint does not search."""

MATCHES_AT_ONCE = 1000
"""Default number of matches between checkpoints, unless players search from public states."""


@request
class MatchGadgetOptions(GadgetOptions):
    """Gadgets of the players.

    Attributes:
      gadget: the gadget by which the opponent enters a subgame; `none` for no search.
    """

    gadget: tuple[str, ...] = option(DEFAULT_GADGETS, choices=(*DEFAULT_GADGETS, NO_SEARCH))

    def make(self, context: typer.Context) -> list[Gadget]:
        """The gadgets of the searches, empty without search."""
        if NO_SEARCH not in self.gadget:
            return super().make(context)
        if len(self.gadget) > 1:
            raise ValueError(
                f"--gadget {NO_SEARCH} cannot be combined with other gadgets; expected only one of both"
            )
        unused = ("prior", "epsilon", "depth", "iterations", "k", "memory_limit")
        refuse_unused(context, f"with --gadget {NO_SEARCH}", *unused)
        return []


@request
class MatchOptions:
    """Matches to play.

    Attributes:
      against: a further player: `openspiel:BOT`, a bot of OpenSpiel, such as `openspiel:uniform_random`, or a
        strategy, as for `--blueprint`.
      matches: number of matches of each pair; a match is two games, one in each seating.
      epsilon: probability of the opponent's mistakes at the gadget, at least 0 and below 1.
      checkpoint: folder for finished games; the same command resumes from it.
      every: number of matches of each pair between two checkpoints; an interruption loses at most these.
    """

    against: tuple[str, ...] = option((), metavar="SPEC", default="none")
    epsilon: float = option(float(EPSILON), metavar="E", min=0, max=1)
    matches: int = option(1000, min=1)
    checkpoint: pathlib.Path | None = option(None, metavar="FOLDER")
    every: int | None = option(
        None, min=1, default=f"1 for searches from public states, otherwise {MATCHES_AT_ONCE}"
    )


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
    solver: Annotated[Solver, Fields("iterations", "memory_limit", iterations=3000, progress=True)],
    options: MatchOptions,
    output: MatchOutput,
) -> None:
    """Play nested search with every gadget and prior against each other, in both seatings with shared chance.

    The blueprint also takes part, and so do the players of --against. If --leaf is a critic of
    `train-critic`, or values of ranges and the blueprint is a network, the game is not enumerated: players
    search from each public state that a match reaches. A search takes seconds, so choose few --matches. Where
    a search exceeds a given --memory-limit, the player plays its blueprint. Matches of networks and bots
    alone (`--gadget none`) do not enumerate the game either.
    """
    output.check(options.checkpoint)
    if options.checkpoint is None:
        refuse_unused(context, "without --checkpoint", "every")
    leaves.refuse_for_ranges(context)
    offers = dataclasses.replace(gadgets, epsilon=(str(options.epsilon),)).make(context)
    played = _MatchRun(game, blueprints, offers, leaves, options, solver).play()
    spec, frame, wins = blueprints.only(), played.frame, played.wins_are_equal
    from jaxgadget.report import search as report

    if output.plot is not None:
        from jaxgadget.report.matches import match_picture
        from jaxgadget.report.plots import save_picture

        picture = match_picture(frame, win_rates=wins, title=played.game)
        save_picture(picture, output.plot)
    settings = {"seed": leaves.seed, "blueprint": spec}
    if offers:
        depth = None if leaves.is_of_ranges else leaves.depth
        settings |= {"depth": depth, "iterations": solver.num_iterations}
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
    """Matches, with notes for the report.

    Attributes:
      game: name of the game.
      frame: `Matches.table`.
      wins_are_equal: True if every win pays the same.
      num_entries: K, number of strategies at the limit; 0 without search.
      notes: notes about the searches.
      reasons: reasons of failed searches.
    """

    game: str
    frame: pd.DataFrame
    wins_are_equal: bool
    num_entries: int
    notes: Sequence[str] = ()
    reasons: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class _MatchRun:
    """One run of the command; fields as in `match`, with the gadgets created."""

    game: GameOptions
    blueprints: SearchBlueprintOptions
    gadgets: Sequence[Gadget]
    leaves: LeafOptions
    options: MatchOptions
    solver: Solver

    def play(self) -> Played:
        """Plays the matches; enumerates the game only if a player needs it."""
        needs_no_tree = not self.gadgets or self.leaves.is_of_ranges
        if self.leaves.is_critic or (needs_no_tree and self.blueprints.is_network):
            return self._play_states()
        return self._play_in_tree()

    def _play_in_tree(self) -> Played:
        """Matches of policies that nested search assembles for the whole game."""
        others = self._others()
        tree, profile = self.blueprints.make_one(self.game)
        from jaxgadget.policy.matches import are_wins_equal
        from jaxgadget.policy.player import PolicyPlayer
        from jaxgadget.policy.policy import Policy

        policy, notes, reasons = Policy(tree, profile.probabilities, ("blueprint",)), list[str](), list[str]()
        num_entries = 0
        if self.gadgets:
            from jaxgadget.subgames.schedule import Lookahead

            if self.leaves.is_of_ranges:
                lookahead, num_entries = Lookahead(self.leaves.load_ranges(tree)), 1
            else:
                values = self.leaves.make_histories(tree, profile)
                lookahead, num_entries = Lookahead(values, self.leaves.depth), values[0].num_entries
            searched, unused, reasons = _assemble(tree, profile, self.gadgets, lookahead, self.solver)
            policy = Policy.stack([*searched, policy])
            notes = [unused] if unused else []
        players = {label: PolicyPlayer(policy, lane) for lane, label in enumerate(policy.labels)}
        matches = self._play(tree, players, others(tree))
        return Played(tree.game.name, matches.table, are_wins_equal(tree), num_entries, notes, reasons)

    def _play_states(self) -> Played:
        """Matches of networks, and of players that search from public states, without an enumerated game."""
        others = self._others()
        network = self.blueprints.load_network(self.game)
        critic = self.leaves.load_critic(network) if self.leaves.is_critic else None
        ranges = self.leaves.load_ranges(network.machine) if self.leaves.is_of_ranges else None
        from jaxgadget.gadgets.gadget import describe
        from jaxgadget.subgames.search_player import SearchPlayer

        searches = {
            describe(gadget): SearchPlayer(
                network,
                gadget,
                values=critic if ranges is None else ranges,
                depth=self.leaves.depth if ranges is None else None,
                skip_too_large=self.solver.memory_limit is not None,
                solver=self.solver,
            )
            for gadget in self.gadgets
        }
        baseline = None if critic is None else critic.baseline
        players = {**searches, "blueprint": network}
        played = self._play(network.machine, players, others(None), baseline, 1 if searches else None)
        notes = list[str]()
        if searches:
            seats = [(player, seat) for player in searches.values() for seat in (0, 1)]
            notes.append(
                f"{sum(player.searches(seat) for player, seat in seats)} public states were searched."
            )
            if skipped := sum(player.skipped(seat) for player, seat in seats):
                notes.append(
                    f"At {skipped} others the blueprint was played, as the search, or an earlier one, "
                    "exceeded --memory-limit."
                )
        if critic is not None:
            notes.append(
                "Without luck: the mean return minus the critic's estimate of luck, which has mean 0."
            )
        entries = int(ranges is not None) if critic is None else critic.num_entries
        return Played(network.machine.name, played.table, played.wins_are_equal, entries, notes)

    def _others(self) -> Callable[[HistoryTree | None], dict[str, MatchPlayer]]:
        """Checks the players of --against; returns a function that creates them, given an enumerated game."""
        from jaxgadget.games.openspiel import PREFIX
        from jaxgadget.policy.blueprints import make_blueprints, parse_blueprint
        from jaxgadget.policy.bots import OpenSpielBot
        from jaxgadget.policy.network import load_policy
        from jaxgadget.policy.player import PolicyPlayer

        texts = [text for text in self.options.against if not text.startswith(PREFIX)]
        specs = [parse_blueprint(text, "--against") for text in texts]

        def make(tree: HistoryTree | None) -> dict[str, MatchPlayer]:
            made: dict[str, MatchPlayer] = {
                text: OpenSpielBot(text.removeprefix(PREFIX))
                for text in self.options.against
                if text.startswith(PREFIX)
            }
            tables = specs
            if tree is None:
                networks = [spec for spec in specs if is_network_folder(spec.path)]
                made |= {spec.text: load_policy(spec.path, self.game.load()) for spec in networks}
                tables = [spec for spec in specs if spec not in networks]
                tree = self.game.enumerate()[0] if tables else None
            if tree is not None and tables:
                policy = make_blueprints(tree, tables, progress=True, argument="--against")
                made |= {label: PolicyPlayer(policy, lane) for lane, label in enumerate(policy.labels)}
            return made

        return make

    def _play(
        self,
        where: HistoryTree | StateMachine[Any],
        players: Mapping[str, MatchPlayer],
        others: Mapping[str, MatchPlayer],
        baseline: Baseline | None = None,
        every: int | None = None,
    ) -> Matches:
        """Plays the matches; `every` is the default of the option."""
        from jaxgadget.policy.matches import play_players

        if twice := sorted(players.keys() & others.keys()):
            raise ValueError(f"--against {twice[0]}: a player of that name already takes part; leave it out")
        options = self.options
        with working(f"playing {options.matches} matches of each pair"):
            return play_players(
                where,
                {**players, **others},
                matches=options.matches,
                seed=self.leaves.seed,
                baseline=baseline,
                checkpoint=options.checkpoint,
                every=options.every or every or MATCHES_AT_ONCE,
            )


def _assemble(
    tree: HistoryTree,
    profile: Policy,
    gadgets: Sequence[Gadget],
    lookahead: Lookahead,
    solver: Solver,
) -> tuple[list[Policy], str, list[str]]:
    """Assembles both players' policies, one for each gadget.

    Gadgets whose search fails are excluded.

    Returns:
      The policies, a note about them, and the reasons of failed searches.
    """
    from jaxgadget.gadgets.gadget import describe
    from jaxgadget.policy.policy import Policy
    from jaxgadget.subgames.nested import nested_search

    bracket = tree.payoff_bounds  # exploitabilities are not requested
    searches = [
        nested_search(
            tree,
            profile,
            gadgets,
            lookahead,
            player=player,
            value=bracket,
            solver=solver,
        )
        for player in (0, 1)
    ]
    searched = Policy(tree, join(searches).probabilities, tuple(describe(gadget) for gadget in gadgets))
    failures = {lane for result in searches for lane in result.failures}
    players = [searched.lane(lane) for lane in range(len(gadgets)) if lane not in failures]
    reasons = [why for result in searches for why in result.failures.values()]
    unused = note_unused(searches) if lookahead.range_values is None else ""
    return players, unused, reasons
