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

import pandas as pd
import pytest

import jaxgadget as jg
from experiments.performance import model
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


@functools.cache
def game(name: str) -> HistoryTree:
    return jg.enumerate_game(jg.load(name))


def solver(**settings: Any) -> Solver:
    return Solver(iterations=2, dtype="float32", progress=False, **settings)


def programs_of(call: Callable[[], Any]) -> tuple[CompiledProgram, ...]:
    """The loops of a call in float32: those of values of games are in float64 on purpose."""
    found = inspect(call, only=LOOPS, progress=False).programs
    return tuple(each for each in found if each.dtype == "float32")


def check(each: CompiledProgram) -> None:
    assert each.iterates and each.is_graph
    assert each.float64 == each.atomics == each.scatters == each.sorts == 0
    assert not each.calls_out
    assert each.most_additions <= 100
    assert each.reused_bytes > 0


@pytest.mark.parametrize("name", model.PROGRAMS)
def test_the_stored_model(name: str) -> None:
    """Whole games, refinements and rivers: each loop is as the table of the H200 has it."""
    table = pd.read_csv(model.stored("h200")).set_index("program")
    loop = model.loop_of(name, "h200")
    check(loop)
    row = model.to_row(name, loop)
    for column in ("lanes", "launches", "bound"):
        assert row[column] == table[column][name], column
    for column in ("megabytes", "temporary_mb"):
        assert row[column] == pytest.approx(table[column][name], rel=0.01, abs=0.002), column


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
    check(program)


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
        check(each)


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
