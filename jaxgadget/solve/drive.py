"""Runs the compiled loop from the host: progress, checkpoints, time, precision.

A solve is cut into chunks of iterations; the result does not depend on where.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jaxgadget.files import atomic_writer, check_writable
from jaxgadget.solve.cfr import State, run, start
from jaxgadget.solve.problem import Problem
from jaxgadget.solve.regret import Rule

CHUNK_SECONDS = 0.5
"""How often the host hears of a solve."""

CHECKPOINT_SECONDS = 20.0
"""How much work may be lost."""

CHECKPOINT_FORMAT = "jaxgadget checkpoint 1"

Report = Callable[[int], None]
"""Is told the number of iterations done."""


def precision(dtype: npt.DTypeLike) -> contextlib.AbstractContextManager[Any]:
    """Lets JAX compute in `dtype` inside the block, whatever its global flag says."""
    return jax.enable_x64(np.dtype(dtype) == np.float64)


def check_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """float32 or float64; ValueError otherwise."""
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype={dtype!r}: expected 'float32' or 'float64'")
    assert found is not None
    return found


def check_iterations(iterations: int) -> int:
    """A whole number above 0; ValueError otherwise."""
    if isinstance(iterations, bool) or not isinstance(iterations, int | np.integer) or iterations < 1:
        raise ValueError(f"iterations={iterations!r}: expected a whole number >= 1")
    return int(iterations)


@dataclasses.dataclass(frozen=True)
class Driven:
    """A finished run: the state, and seconds spent compiling and running."""

    state: State
    compile_seconds: float
    run_seconds: float


def drive(
    problem: Problem,
    rule: Rule,
    *,
    iterations: int,
    target_gap: float | None = None,
    check_every: int = 100,
    checkpoint: str | os.PathLike[str] | None = None,
    state: State | None = None,
    report: Report | None = None,
) -> Driven:
    """Runs CFR until `iterations` are done or the gap is small enough.

    Args:
      problem: the games; call inside `precision(problem.dtype)`.
      rule: the regret-matching rule.
      iterations: stop after that many, counted from the very start.
      target_gap: stop when no subgame of any lane has a larger gap.
      check_every: iterations between two looks at the gap.
      checkpoint: file to resume from and to save to.
      state: where to go on, if not from a checkpoint.
      report: is told the number of iterations done.

    Raises:
      ValueError: if the checkpoint is of another problem or rule, or cannot be written.
    """
    check_iterations(iterations)
    if target_gap is not None and not target_gap >= 0:
        raise ValueError(f"target_gap={target_gap!r}: expected a number >= 0")
    if check_every < 1:
        raise ValueError(f"check_every={check_every}: expected a whole number >= 1")
    key = ""
    if checkpoint is not None:
        check_writable(checkpoint)
        key = fingerprint(problem, rule)
        state = load_checkpoint(checkpoint, key, problem)
    goal = None if target_gap is None else jnp.asarray(target_gap, problem.dtype)
    began = time.perf_counter()
    state = start(problem) if state is None else state
    done = int(state.iteration)

    def advance(state: State, until: int) -> State:
        last = jnp.asarray(min(until, iterations), jnp.int32)
        state = run(problem, state, last, goal, rule=rule, check_every=check_every)
        return jax.block_until_ready(state)

    # Nothing to do, but compiled: compile time is told apart from run time.
    state = advance(state, done)
    compiled = time.perf_counter()
    saved = compiled
    chunk = check_every if target_gap is not None else 1
    while done < iterations:
        before = time.perf_counter()
        state = advance(state, done + chunk)
        now = time.perf_counter()
        stopped = int(state.iteration) < min(done + chunk, iterations)
        done = int(state.iteration)
        if report is not None:
            report(done)
        if checkpoint is not None and now - saved > CHECKPOINT_SECONDS:
            save_checkpoint(checkpoint, key, state)
            saved = time.perf_counter()
        if stopped:
            break
        if now - before < CHUNK_SECONDS / 2:
            chunk *= 2
    if checkpoint is not None:
        save_checkpoint(checkpoint, key, state)
    return Driven(state, compiled - began, time.perf_counter() - compiled)


def fingerprint(problem: Problem, rule: Rule) -> str:
    """A digest of everything that a state depends on."""
    leaves, structure = jax.tree.flatten(problem)
    digest = hashlib.sha256(f"{structure} {rule}".encode())
    for leaf in leaves:
        array = np.asarray(leaf)
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def save_checkpoint(path: str | os.PathLike[str], key: str, state: State) -> None:
    """Writes a state, atomically."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
    header = json.dumps({"format": CHECKPOINT_FORMAT, "key": key})
    with atomic_writer(path) as file:
        np.savez(file, header=np.asarray(header), **{f"leaf_{i}": leaf for i, leaf in enumerate(leaves)})


def load_checkpoint(path: str | os.PathLike[str], key: str, problem: Problem) -> State | None:
    """Reads a state; None if there is no file yet; ValueError if it is of another problem."""
    if not pathlib.Path(path).exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as archive:
            header = json.loads(str(archive["header"]))
            leaves = [archive[f"leaf_{i}"] for i in range(len(archive.files) - 1)]
    except Exception as error:
        raise ValueError(
            f"checkpoint {os.fspath(path)!r} cannot be read ({error}); delete it to start again"
        ) from error
    if header.get("format") != CHECKPOINT_FORMAT or header.get("key") != key:
        raise ValueError(
            f"checkpoint {os.fspath(path)!r} is of another solve (game, blueprint, gadget, algorithm or "
            "precision differ); choose another file or delete it"
        )
    structure = jax.tree.structure(jax.eval_shape(start, problem))
    return jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in leaves])
