"""Every loop compiled for a described GPU.

JAX must find its CUDA plugin on startup, so `make test-slow` runs these tests in separate processes.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import jaxgadget as jg
from experiments.performance import model
from jaxgadget.bench.bench import bench
from jaxgadget.bench.inspect import CompiledProgram, inspect
from jaxgadget.core.registry import RULES
from jaxgadget.core.solver import Solver
from jaxgadget.subgames.cfr_d import cfr_d
from jaxgadget.util.accelerators import cuda_plugin
from jaxgadget.util.compilation import compiled
from jaxgadget.util.precision import precision
from tests.learn.test_network import make
from tests.trees import tree_of

pytestmark = [
    pytest.mark.optimised,
    pytest.mark.skipif(
        cuda_plugin() is None,
        reason="JAX's plugin for CUDA is missing: `make test-slow` finds it in .venv/gpu-check",
    ),
]

LOOPS = ("run", "run_to_gap")
SMALL = 1000
"""Bytes: counters, entries without decisions, and the addresses of all arrays."""


def solver(**settings: Any) -> Solver:
    return Solver(iterations=2, dtype="float32", progress=False, **settings)


def programs_of(call: Callable[[], Any]) -> tuple[CompiledProgram, ...]:
    """The loops of a call in float32; those of game values are in float64 on purpose."""
    found = inspect(call, only=LOOPS, progress=False).programs
    return tuple(each for each in found if each.dtype == "float32")


def check(each: CompiledProgram) -> None:
    assert each.iterates and each.is_graph
    assert each.float64 == each.atomics == each.scatters == each.sorts == 0
    assert not each.calls_out
    assert each.most_additions <= 100
    assert each.result_bytes - each.reused_bytes < SMALL, "donated states are written in place"


@pytest.mark.parametrize("name", model.PROGRAMS)
def test_the_stored_model(name: str) -> None:
    """Whole games, refinements and rivers: no loop exceeds the launches or bytes in the table of the H200."""
    stored = pd.read_csv(model.stored("h200")).set_index("program").loc[name]
    loop = model.loop_of(name, "h200")
    check(loop)
    row = model.to_row(name, loop)
    assert (row["lanes"], row["bound"]) == (stored["lanes"], stored["bound"])
    assert row["launches"] <= stored["launches"]
    assert row["megabytes"] <= 1.01 * stored["megabytes"] + 0.001
    if row["jax"] == stored["jax"]:
        assert row["launches"] == stored["launches"]
        assert row["megabytes"] == pytest.approx(stored["megabytes"], rel=0.01, abs=0.001)


def one_bad_thing(name: str) -> CompiledProgram:
    """A loop with one construct that no loop of the package has."""
    index = np.zeros(1000, np.int32)
    bodies: dict[str, Callable[[jax.Array], jax.Array]] = {
        "atomics": lambda x: x.at[index].add(x),
        "scatters": lambda x: x.at[index].add(x),
        "float64": lambda x: x * jnp.float64(1.5),
        "sorts": jnp.sort,
        "calls_out": lambda x: jnp.linalg.cholesky(x[:400].reshape(20, 20) + jnp.eye(20)).sum() + x,
        "most_additions": lambda x: x.at[0].set(
            functools.reduce(jnp.add, [x[k] * x[-k] for k in range(200)])
        ),
    }
    program = compiled(
        lambda x, until: jax.lax.fori_loop(0, until, lambda _, y: bodies[name](y), x), donate_argnums=(0,)
    )
    with precision(np.float64 if name == "float64" else np.float32):
        (found,) = inspect(lambda: program(np.zeros(1000), np.int32(1)), progress=False).programs
    return found


@pytest.mark.parametrize("name", ["atomics", "scatters", "float64", "sorts", "calls_out", "most_additions"])
def test_bad_things_are_found(name: str) -> None:
    found = one_bad_thing(name)
    assert found.iterates and not found.is_graph
    number = getattr(found, name)
    assert len(number) > 0 if name == "calls_out" else number > (100 if name == "most_additions" else 0)


@pytest.mark.parametrize("algorithm", sorted(RULES))
def test_every_rule(algorithm: str) -> None:
    (program,) = programs_of(
        lambda: bench("kuhn_poker", engines=("jaxgadget",), lanes=(64,), algorithm=algorithm)
    )
    check(program)


KUHN_VALUE = (-1 / 18, -1 / 18)


def refined(*gadgets: Any, **options: Any) -> Any:
    tree = tree_of("kuhn_poker")
    return jg.refine(
        tree, "depth:1", jg.Policy.uniform(tree), gadgets, value=KUHN_VALUE, solver=solver(**options)
    )


def search(**lookahead: Any) -> Any:
    tree = tree_of("kuhn_poker")
    return jg.nested_search(
        tree, jg.Policy.uniform(tree), jg.Resolving(), value=KUHN_VALUE, solver=solver(), **lookahead
    )


def lookahead() -> Any:
    tree = tree_of("kuhn_poker")
    uniform = jg.Policy.uniform(tree)
    return jg.search(tree, "depth:0", uniform, jg.Resolving(), values=make(tree), solver=solver())


def decomposed() -> Any:
    trunk = Solver(iterations=2, dtype="float32", progress=False)
    return cfr_d(tree_of("kuhn_poker"), "depth:1", solver=trunk, subgame_iterations=4)


def by_hands() -> Any:
    return jg.solve(jg.public_tree(jg.load("leduc_poker")), solver=solver())


def turns() -> Any:
    """Turns of one board that share hands."""
    menu = jg.BetMenu(bets=(0.5,), raises=())
    spots = [
        jg.Spot(board="Td9d6hQc", oop="AA,KK,76s", ip="KQ,55,T8s", pot=200, stack=900 + extra, menus=menu)
        for extra in (0, 1, 2)
    ]
    return jg.solve_spots(spots, solver=solver())


def flop(**settings: Any) -> Any:
    """A flop with few cards left."""
    dead = "".join(rank + suit for rank in "23457AKJ" for suit in "cdhs") + "6c6dTcThTs9c9h"
    spot = jg.Spot(
        board="Td9s6h",
        oop="88,66",
        ip="QQ,98s",
        pot=200,
        stack=300,
        menus=jg.BetMenu(bets=(0.5,), raises=()),
        dead=dead,
    )
    return jg.solve_spots([spot], solver=solver(), **settings)


def deals() -> Any:
    """The first street of a turn, with all rivers re-solved in every update."""
    spot = jg.Spot(
        board="Td9d6hQc",
        oop="AA,KK",
        ip="QQ,TT",
        pot=60,
        stack=120,
        menus=jg.BetMenu(bets=(0.5,), raises=()),
    )
    return jg.solve_to_deal(spot, jg.ResolvedDeals(2), iterations=2)


def test_values_of_deals() -> None:
    """All rivers of a turn are solved at once, in float64."""
    (loop,) = inspect(deals, only=LOOPS, progress=False).programs
    assert loop.is_graph and loop.dtype == "float64"
    assert loop.atomics == loop.sorts == 0 and not loop.calls_out
    assert loop.launches < 40


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
    "turns": turns,
    "flop": flop,
    "flop in 16 bits": lambda: flop(compressed=True),
}


SHORT = {"steps": 2, "batch_size": 64, "width": 16}


def trained_by(method: Any) -> Any:
    return jg.train_policy(jg.load("kuhn_poker"), method, config=jg.PolicyTrainingConfig(**SHORT))


def values_learned() -> Any:
    tree = tree_of("kuhn_poker")
    return jg.train_value(tree, jg.Policy.uniform(tree), config=jg.TrainingConfig(**SHORT))


def critic_learned(continuations: Any, targets: Any) -> Any:
    policy = trained_by(jg.PPO()).policy
    config = jg.TrainingConfig(**SHORT)
    return jg.train_critic(policy, 3, continuations=continuations, targets=targets, config=config)


def ranges_learned(network: str) -> Any:
    config = jg.RangeTrainingConfig(**SHORT, samples=16, rounds=0, iterations=1, network=network)
    return jg.train_ranges(tree_of("kuhn_poker"), "depth:1", config=config)


TRAININGS: dict[str, Callable[[], Any]] = {
    "values of histories": values_learned,
    "values of ranges": lambda: ranges_learned("padded"),
    "values of ranges, infostates": lambda: ranges_learned("infostates"),
    "critic": lambda: critic_learned("biased", "branch"),
    "critic, learned continuations": lambda: critic_learned("learned", "branch"),
    "critic, V-trace": lambda: critic_learned("biased", "vtrace"),
    "distillation": lambda: trained_by(jg.Distil("uniform")),
    "mirror descent": lambda: trained_by(jg.MirrorDescent()),
    "PPO": lambda: trained_by(jg.PPO()),
    "R-NaD": lambda: trained_by(jg.RNaD()),
}


@pytest.mark.parametrize("name", TRAININGS)
def test_trainings(name: str) -> None:
    """A training's steps are one graph without float64, and add in the same order whenever they run."""
    *_, steps = inspect(TRAININGS[name], only=("advance",), progress=False).programs
    assert steps.iterates and steps.is_graph and steps.dtype == "float32"
    assert steps.float64 == steps.sorts == steps.atomics == 0 and not steps.calls_out


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    programs = programs_of(CALLS[name])
    assert programs
    for each in programs:
        check(each)


def test_the_command(tmp_path: pathlib.Path) -> None:
    """From the command's arguments to the JSON record, and another device by its file."""
    import json

    from typer.testing import CliRunner

    from jaxgadget.bench.inspect import find_compile_target
    from jaxgadget.cli import app

    own = tmp_path / "own.txtpb"
    own.write_text(find_compile_target("a100").description.replace("A100-SXM4-80GB", "A100 of mine"))
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
