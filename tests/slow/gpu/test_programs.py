"""What XLA makes of every loop for a GPU: compiled for one that need not exist.

JAX's plugin for CUDA has to be found when JAX starts, so `make test-slow` runs these tests in processes of
their own.
"""

from __future__ import annotations

import functools
import importlib.util
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

import jaxgadget as jg
from jaxgadget.bench.bench import bench
from jaxgadget.bench.inspect import CompiledProgram, inspect
from jaxgadget.core.registry import RULES
from jaxgadget.core.solver import Solver
from jaxgadget.subgames.cfr_d import cfr_d
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.whole import sequence_form
from tests.learn.test_network import make

pytestmark = [
    pytest.mark.optimised,
    pytest.mark.skipif(
        importlib.util.find_spec("jax_plugins") is None,
        reason="JAX's plugin for CUDA is missing: `make test-slow` finds it in .venv/gpu-check",
    ),
]

LOOPS = ("run", "run_to_gap")
GOOFSPIEL = "goofspiel(num_cards=5,imp_info=True,points_order=descending)"
LIARS_DICE = "liars_dice(numdice=1,dice_sides=4)"
MENU = jg.BetMenu(bets=(0.5, 1.0), raises=(1.0,), cap=2)
BOARDS = ("Td9d6hQc2s", "AsKd5d5c2h", "7c7d8h9sTc", "2c4d6h8sTc", "AhAdAc2d3s", "KhQhJh4c4d", "3c5s7h9dJc")


@functools.cache
def game(name: str) -> HistoryTree:
    return jg.enumerate_game(jg.load(name))


def solver(**settings: Any) -> Solver:
    return Solver(iterations=2, dtype="float32", progress=False, **settings)


def programs_of(call: Callable[[], Any]) -> tuple[CompiledProgram, ...]:
    """The loops of a call in float32: those of values of games are in float64 on purpose."""
    found = inspect(call, only=LOOPS, progress=False).programs
    return tuple(each for each in found if each.dtype == "float32")


def check(each: CompiledProgram, most_launches: int | None) -> None:
    assert each.iterates and each.is_graph
    assert each.float64 == each.atomics == each.scatters == each.sorts == 0
    assert not each.calls_out
    assert each.most_additions <= 100
    assert each.reused_bytes > 0
    assert most_launches is None or each.launches <= most_launches


@pytest.mark.parametrize(
    ("name", "lanes", "most_launches"),
    [
        ("leduc_poker", 1, 12),
        ("leduc_poker", 1024, 21),
        ("leduc_poker", 65_536, 52),
        (LIARS_DICE, 1, 19),
        (LIARS_DICE, 1024, 20),
        (LIARS_DICE, 65_536, 77),
        (GOOFSPIEL, 1, 16),
        (GOOFSPIEL, 1024, 36),
        (GOOFSPIEL, 16_384, 50),
    ],
)
def test_whole_games(name: str, lanes: int, most_launches: int) -> None:
    (program,) = programs_of(lambda: bench(name, engines=("jaxgadget",), lanes=(lanes,)))
    assert program.lanes == lanes
    check(program, most_launches)


def test_donated_bytes_of_the_state_are_reused() -> None:
    """All of a state but its counter: strategies, plans, regrets, sums of plans."""
    (program,) = programs_of(lambda: bench("kuhn_poker", engines=("jaxgadget",), lanes=(1000,)))
    sequences = sum(side.num_sequences for side in sequence_form(game("kuhn_poker")).treeplex)
    actions = sequences - 2
    assert program.reused_bytes >= 4 * 1000 * (2 * sequences + 2 * actions)


@pytest.mark.parametrize("algorithm", sorted(RULES))
def test_every_rule(algorithm: str) -> None:
    (program,) = programs_of(
        lambda: bench("kuhn_poker", engines=("jaxgadget",), lanes=(64,), algorithm=algorithm)
    )
    check(program, None)


KUHN_VALUE = (-1 / 18, -1 / 18)


def refined(*gadgets: Any, **options: Any) -> Any:
    tree = game("kuhn_poker")
    return jg.refine(
        tree, "depth:1", jg.Policy.uniform(tree), gadgets, value=KUHN_VALUE, solver=solver(**options)
    )


def search(**lookahead: Any) -> Any:
    tree = game("kuhn_poker")
    return jg.nested_search(
        tree, jg.Policy.uniform(tree), jg.Resolving(), value=KUHN_VALUE, solver=solver(), **lookahead
    )


def lookahead() -> Any:
    tree = game("kuhn_poker")
    uniform = jg.Policy.uniform(tree)
    return jg.search(tree, "depth:0", uniform, jg.Resolving(), values=make(tree), solver=solver())


def decomposed() -> Any:
    trunk = Solver(iterations=2, dtype="float32", progress=False)
    return cfr_d(game("kuhn_poker"), "depth:1", solver=trunk, subgame_iterations=4)


def by_hands() -> Any:
    return jg.solve(jg.public_tree(jg.load("leduc_poker")), solver=solver())


CALLS: dict[str, Callable[[], Any]] = {
    "unsafe": lambda: refined(jg.Unsafe()),
    "resolving": lambda: refined(jg.Resolving()),
    "max-margin": lambda: refined(jg.MaxMargin()),
    "reach-max-margin": lambda: refined(jg.ReachMaxMargin()),
    "full": lambda: refined(jg.Full()),
    "optimal-continuation": lambda: refined(jg.OptimalContinuation(jg.NoPrior())),
    "to a gap": lambda: refined(jg.Resolving(), target_gap=1e-3),
    "nested search": search,
    "lookahead with a network": lookahead,
    "CFR-D": decomposed,
    "by hands": by_hands,
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    programs = programs_of(CALLS[name])
    assert programs
    for each in programs:
        check(each, None)


def test_refining_leducs_flop() -> None:
    """The grid of the paper's Figure 2: 45 blueprints and three gadgets in one batch."""
    tree = game("leduc_poker")
    uniform = [jg.Policy.uniform(tree)] * 45
    gadgets = (jg.Unsafe(), jg.Resolving(), jg.MaxMargin())
    call = functools.partial(
        jg.refine, tree, "flop", uniform, gadgets, value=(-0.0856, -0.0856), solver=solver()
    )
    for each in programs_of(call):
        check(each, 19)


def spot(board: str) -> jg.Spot:
    return jg.Spot(board=board, oop="random", ip="random", pot=200, stack=900, menus=MENU)


@pytest.mark.parametrize(("count", "most_launches"), [(1, 34), (7, 46)])
def test_rivers(count: int, most_launches: int) -> None:
    spots = [spot(board) for board in BOARDS[:count]]
    (program,) = programs_of(lambda: jg.solve_spots(spots, solver=solver()))
    assert program.lanes == count
    check(program, most_launches)


@pytest.mark.parametrize(("gadget", "most_launches"), [(jg.Resolving(), 37), (jg.MaxMargin(), 44)])
def test_rivers_solved_again(gadget: Any, most_launches: int) -> None:
    spots = [spot(BOARDS[0])]

    def call() -> None:
        blueprints = jg.solve_spots(spots, solver=solver())
        jg.refine_spots(spots, [gadget], blueprints=blueprints, solver=solver())

    blueprint, *resolved = programs_of(call)
    assert resolved
    for each in resolved:
        check(each, most_launches)
    check(blueprint, None)


def test_the_command(tmp_path: pathlib.Path) -> None:
    """From its words to the JSON record; another device by its file."""
    import json

    from typer.testing import CliRunner

    from jaxgadget.bench.inspect import find_target
    from jaxgadget.cli import app

    own = tmp_path / "own.txtpb"
    own.write_text(find_target("a100").description.replace("A100-SXM4-80GB", "A100 of mine"))
    words = ["inspect", "--device", str(own), "--json", str(tmp_path / "found.json")]
    result = CliRunner().invoke(
        app, [*words, "refine", "kuhn_poker", "--gadget", "resolving", "--iterations", "3"]
    )
    assert result.exit_code == 0, result.output
    assert "A100 of mine" in result.output and "run*" in result.output
    record = json.loads((tmp_path / "found.json").read_text())
    assert "run" in {program["program"] for program in record["programs"]}
    refused = CliRunner().invoke(app, ["inspect", "refine", "kuhn_poker", "--json", str(tmp_path / "x.json")])
    assert refused.exit_code == 2 and "--json of refine" in refused.output
