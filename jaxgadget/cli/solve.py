"""`jaxgadget solve GAME`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from jaxgadget.cli.command import keeping_checkpoints, refuse_unused
from jaxgadget.cli.fields import Fields, option, request
from jaxgadget.cli.options import GameOptions, SavedOutput, check_solver, keep_programs
from jaxgadget.core.solver import Solver
from jaxgadget.report.output import working

if TYPE_CHECKING:
    from jaxgadget.policy.solve import Solution
    from jaxgadget.tree.public import PublicTree, Tree

SOLVE_EXAMPLES = """\
Examples:

`jaxgadget solve leduc_poker`

`jaxgadget solve "goofspiel(num_cards=4,imp_info=True)" --algorithm pcfr+ --iterations 500`

`jaxgadget solve kuhn_poker --target-gap 1e-6 --save equilibrium.npz --json result.json`

`jaxgadget solve "liars_dice(numdice=2,dice_sides=4)" --form hands --algorithm dcfr --dtype float32`
"""


@request
class SolveOptions:
    """Settings of `solve` alone.

    Attributes:
      form: layout of the game. Where private hands are dealt first and all that follows is public, `hands`
        lists no histories: kuhn_poker, leduc_poker, liars_dice. In other games hands are looked for in the
        histories.
      floor: probability with which a player's hand trembles and plays uniformly, at every infoset.
    """

    form: Literal["histories", "hands"] = "histories"
    floor: float = option(0.0, metavar="E", min=0, max=1)


def solve(
    context: typer.Context,
    game: GameOptions,
    options: SolveOptions,
    solver: Annotated[Solver, Fields(algorithm="cfr+", iterations=1000, dtype="float64", progress=True)],
    output: SavedOutput,
) -> None:
    """Solve a whole game: an equilibrium, its value and its NashConv."""
    check_solver(context, solver)
    output.check(checkpoint=solver.checkpoint_path)
    solution, build = _solve(context, game, options, solver)
    from jaxgadget.report import tables

    seconds = solution.seconds | {"build": build + solution.seconds["build"]}
    if output.save is not None:
        solution.policy.save(output.save)
    output.write_json(tables.solution_record(solution, seconds))
    constant = tables.constant_words(solution.name, solution.constant)
    notes = [constant, f"{solution.message}."]
    output.print((tables.solution_table(solution, seconds), notes), warnings=[constant])


def _solve(
    context: typer.Context, game: GameOptions, options: SolveOptions, solver: Solver
) -> tuple[Solution, float]:
    """A solved game, and the seconds that laying it out took."""
    tree: Tree
    if options.form == "hands":
        tree, build = _lay_out_by_hands(context, game)
    else:
        refuse_unused(context, "without --form hands", "memory_limit")
        tree, build = game.enumerate()
    from jaxgadget.policy.solve import solve as solve_game

    with keeping_checkpoints(solver.checkpoint_path):
        return solve_game(tree, floors=options.floor or None, solver=solver), build


def _lay_out_by_hands(context: typer.Context, game: GameOptions) -> tuple[PublicTree, float]:
    """The public tree of a game, and the seconds that this took.

    Raises:
      ValueError: for `--max-histories` with a game that knows its hands and lists no histories.
    """
    keep_programs()
    from jaxgadget.games.hands import DealsHands
    from jaxgadget.tree.history import enumerate_game
    from jaxgadget.tree.public import public_tree

    began = time.perf_counter()
    with working(f"laying out {game.game}"):
        rules = game.load()
        if isinstance(rules, DealsHands):
            refuse_unused(context, f"with --form hands for {rules.name}, which lists none", "max_histories")
            tree = public_tree(rules)
        else:
            tree = public_tree(enumerate_game(rules, max_histories=game.max_histories))
    return tree, time.perf_counter() - began
