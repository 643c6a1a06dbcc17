"""`jaxgadget solve GAME`."""

from __future__ import annotations

from typing import Annotated

import typer

from jaxgadget.cli.command import keeping_checkpoints, refuse_unused
from jaxgadget.cli.fields import Fields, option, request
from jaxgadget.cli.options import SavedOutput, TreeOptions, check_solver
from jaxgadget.core.solver import Solver

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
      floor: probability of a tremble, a uniformly random action, at every infoset.
    """

    floor: float = option(0.0, metavar="E", min=0, max=1)


def solve(
    context: typer.Context,
    game: TreeOptions,
    options: SolveOptions,
    solver: Annotated[Solver, Fields(algorithm="cfr+", iterations=1000, dtype="float64", progress=True)],
    output: SavedOutput,
) -> None:
    """Solve a whole game, and report its value and the NashConv of the strategies."""
    check_solver(context, solver)
    if game.form == "histories":
        refuse_unused(context, "by histories, whose number --max-histories limits", "memory_limit")
    output.check(checkpoint=solver.checkpoint_path)
    tree, build = game.lay_out(context, solver.memory_limit)
    from jaxgadget.policy.solve import solve as solve_game
    from jaxgadget.report import tables

    with keeping_checkpoints(solver):
        solution = solve_game(tree, floors=options.floor or None, solver=solver)
    seconds = solution.seconds | {"build": build + solution.seconds["build"]}
    if output.save is not None:
        solution.policy.save(output.save)
    output.write_page(solution)
    output.write_json(tables.solution_record(solution, seconds))
    constant = tables.constant_words(solution.name, solution.constant)
    notes = [constant, f"{solution.message}."]
    output.print((tables.solution_table(solution, seconds), notes), warnings=[constant])
