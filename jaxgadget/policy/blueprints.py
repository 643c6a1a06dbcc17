"""Blueprints by name: the specifications of the command line's `--blueprint SPEC`.

All SPECs are parsed first, then created together for a game; checkpoints of one algorithm share a run.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxgadget.core.solver import MAX_ITERATIONS, check_iterations
from jaxgadget.policy.policy import Policy
from jaxgadget.policy.sampled import LARGEST_SEED, external_sampling, public_chance_sampling
from jaxgadget.tree.history import check_histories
from jaxgadget.tree.public import Tree
from jaxgadget.util.arguments import check_whole_number, read_number, read_whole_number

FORMS = (
    "uniform, geometric:R, dirichlet:SEED[:ALPHA], cfr:N, cfr+:N, mccfr:N[:SEED], pcs:N[:SEED], file:PATH, "
    "cfr-spread:COUNT[:N] or draws:COUNT[:ALPHA]"
)
"""Forms of a SPEC."""

ALGORITHMS = ("cfr", "cfr+")
"""Algorithms whose average policies are `ALGORITHM:N`."""

SAMPLED = ("mccfr", "pcs")
"""Sampling algorithms, `ALGORITHM:N[:SEED]`: external-sampling MCCFR, CFR with public-chance sampling."""

SPREAD = "cfr-spread"
"""Kind of SPEC of several checkpoints of one run."""
SPREAD_ITERATIONS = 10_000
"""Default number of iterations."""
SPREAD_STEP = 1.05
"""Factor between the numbers of iterations of successive checkpoints."""

DRAWS = "draws"
"""Kind of SPEC of several draws."""
MAX_DRAWS = 1000
"""Draw k of `draws:COUNT` with seed s is `dirichlet:(1000·s + k)`."""

DEMO_SPECS = (
    *(f"cfr:{n}" for n in (1, 2, 4, 7, 12, 23, 43, 81, 152, 285, 534, 1000)),
    *(f"dirichlet:{seed}" for seed in range(8)),
)
"""Twenty blueprints: twelve checkpoints of one run of CFR, spaced by a factor of 1.9, and eight draws."""


class BlueprintSpec(NamedTuple):
    """A parsed SPEC.

    Attributes:
      text: the original text; the label of its lanes.
      kind: the text before the first colon.
      numbers: the numbers after it, except for a file.
      path: the file, otherwise empty.
    """

    text: str
    kind: str
    numbers: tuple[float, ...] = ()
    path: str = ""


def parse_blueprint(text: str, argument: str = "blueprint") -> BlueprintSpec:
    """Parses a SPEC.

    Args:
      text: `uniform`; `geometric:R`, the k-th legal action ∝ R^k; `dirichlet:SEED[:ALPHA]`, rows
        drawn with NumPy's PCG64; `cfr:N` or `cfr+:N`, the average policy after N iterations; the same for
        `mccfr:N[:SEED]`, external-sampling MCCFR by OpenSpiel, and `pcs:N[:SEED]`, CFR that samples public
        chance, with uniform rows at unsampled infosets;
        `file:PATH`, all lanes of a file written by `Policy.save`, or the network in a folder of
        `train_policy`; `cfr-spread:COUNT[:N]` and `draws:COUNT[:ALPHA]`, several blueprints (described in
        `make_blueprints`).
      argument: name of the argument for errors, such as `model`.

    Raises:
      ValueError: if the text has none of these forms, or a number is out of range.
    """
    kind, colon, rest = text.partition(":")
    named = f"{argument} {text!r}"
    if text == "uniform":
        return BlueprintSpec(text, kind)
    if kind == "file" and rest:
        return BlueprintSpec(text, kind, path=rest)
    if kind == "geometric" and colon:
        return BlueprintSpec(text, kind, (_positive(named, "R", rest),))
    if kind == "dirichlet" and colon:
        seed, second, alpha = rest.partition(":")
        numbers = (_whole(named, "SEED", seed, 0), _positive(named, "ALPHA", alpha) if second else 1.0)
        return BlueprintSpec(text, kind, numbers)
    if kind in (SPREAD, DRAWS) and colon:
        return BlueprintSpec(text, kind, _several_numbers(named, kind, *rest.partition(":")))
    if kind in ALGORITHMS and colon:
        return BlueprintSpec(text, kind, (_whole(named, "N", rest, 1, MAX_ITERATIONS),))
    if kind in SAMPLED and colon:
        count, second, seed = rest.partition(":")
        iterations = _whole(named, "N", count, 1, MAX_ITERATIONS)
        return BlueprintSpec(
            text, kind, (iterations, _whole(named, "SEED", seed, 0, LARGEST_SEED) if second else 0)
        )
    raise ValueError(f"{named} is unknown; expected {FORMS}")


def _several_numbers(named: str, kind: str, count: str, second: str, last: str) -> tuple[float, ...]:
    if kind == DRAWS:
        number = _whole(named, "COUNT", count, 1, MAX_DRAWS)
        return (number, _positive(named, "ALPHA", last) if second else 1.0)
    longest = _whole(named, "N", last, 1, MAX_ITERATIONS) if second else SPREAD_ITERATIONS
    return (_whole(named, "COUNT", count, 1, longest), longest)


def _whole(named: str, name: str, digits: str, least: int, most: int = 2**64 - 1) -> int:
    value = read_whole_number(digits)
    if value is not None and least <= value <= most:
        return value
    raise ValueError(f"{named}: {name} is {digits!r}, expected a whole number from {least} to {most}")


def _positive(named: str, name: str, number: str) -> float:
    value = read_number(number)
    if value is not None and value > 0:
        return value
    raise ValueError(f"{named}: {name} is {number!r}, expected a positive number, such as 0.5")


def make_blueprints(
    tree: Tree,
    specs: str | Sequence[str | BlueprintSpec],
    *,
    seed: Any = 0,
    progress: bool | None = None,
    argument: str = "blueprint",
) -> Policy:
    """Creates the profiles of SPECs, as lanes in the given order.

    A lane's label is the SPEC of this lane alone; lanes of a file with several lanes are labelled
    `file:PATH#LABEL`. Duplicates are dropped. `cfr-spread:COUNT[:N]` is COUNT averages of one run of N
    iterations of CFR, by default 10,000, spaced evenly in the logarithm of NashConv; `draws:COUNT[:ALPHA]` is
    COUNT draws that depend on `seed`.

    Args:
      tree: the game, by histories or by hands.
      specs: one SPEC or several, as text or parsed.
      seed: seed of `draws`, an integer ≥ 0.
      progress: as in `solve`.
      argument: name of the argument for errors, such as `model`.

    Raises:
      ValueError: if a SPEC is malformed, there is none, or a file has no policy of this game.
    """
    specs = [specs] if isinstance(specs, str) else specs
    parsed = [parse_blueprint(s, argument) if isinstance(s, str) else s for s in specs]
    if not parsed:
        raise ValueError(f"{argument}: none is given, expected at least one of {FORMS}")
    seed = check_whole_number("seed", seed, 0)
    by_label: dict[str, Policy] = {}
    by_spec: dict[BlueprintSpec, Policy] = {}
    for spec in dict.fromkeys(parsed):
        if spec.kind == SPREAD:
            count, longest = (int(lane) for lane in spec.numbers)
            by_spec[spec] = spread_checkpoints(tree, count, iterations=longest, progress=progress)
        elif spec.kind not in (*ALGORITHMS, *SAMPLED):
            by_spec[spec] = _make(tree, spec, seed, argument)
    for algorithm in ALGORITHMS:
        same_run = [spec for spec in dict.fromkeys(parsed) if spec.kind == algorithm]
        if same_run:
            by_spec |= _checkpoints(tree, algorithm, same_run, progress)
    for kind, numbers in dict.fromkeys(
        (spec.kind, spec.numbers[1:]) for spec in parsed if spec.kind in SAMPLED
    ):
        same_run = [s for s in dict.fromkeys(parsed) if (s.kind, s.numbers[1:]) == (kind, numbers)]
        by_spec |= _sampled_checkpoints(tree, same_run, progress, argument)
    for spec in parsed:
        policy = by_spec[spec]
        for lane, label in enumerate(policy.labels):
            by_label.setdefault(label, policy.lane(lane))
    return Policy.stack(list(by_label.values()))


def spread_checkpoints(
    tree: Tree, count: int, *, iterations: int = SPREAD_ITERATIONS, progress: bool | None = None
) -> Policy:
    """Averages of one run of CFR, selected to cover exploitabilities evenly; labels `cfr:N`.

    NashConv is evaluated after 1, 2, … iterations, increasing by 5 %. `count` targets are spaced evenly on a
    logarithmic scale between the worst and the best average; each selects the nearest remaining average.
    Lanes are sorted by iterations.

    Args:
      tree: the game, by histories or by hands.
      count: number of averages.
      iterations: iterations of the run.
      progress: as in `solve`.

    Raises:
      ValueError: if fewer than `count` averages are evaluated.
    """
    from jaxgadget.policy.evaluate import nash_conv
    from jaxgadget.policy.solve import cfr_checkpoints

    last = check_iterations(iterations)
    looked = sorted({*range(1, min(20, last) + 1), last, *_growing(last)})
    if not 1 <= check_whole_number("count", count, 0) <= len(looked):
        raise ValueError(
            f"count={count!r}: expected from 1 to {len(looked)}, the number of averages evaluated in "
            f"{last} iterations"
        )
    policy = cfr_checkpoints(tree, looked, progress=progress)
    height = np.log(np.maximum(nash_conv(policy), np.finfo(np.float64).tiny))
    left, chosen = list(range(len(looked))), list[int]()
    for goal in np.linspace(height.max(), height.min(), count):
        nearest = min(left, key=lambda k: (abs(height[k] - goal), k))
        left.remove(nearest)
        chosen.append(nearest)
    return Policy.stack([policy.lane(k) for k in sorted(chosen)])


def _growing(last: int) -> set[int]:
    steps = int(math.log(last) / math.log(SPREAD_STEP)) + 1
    return {min(round(SPREAD_STEP**k), last) for k in range(steps)}


def _make(tree: Tree, spec: BlueprintSpec, seed: int, argument: str) -> Policy:
    if spec.kind == DRAWS:
        count, alpha = int(spec.numbers[0]), spec.numbers[1]
        ending = "" if alpha == 1 else f":{alpha:g}"
        numbers = range(MAX_DRAWS * seed, MAX_DRAWS * seed + count)
        drawn = Policy.stack([Policy.dirichlet(tree, number, alpha) for number in numbers])
        return _relabelled(drawn, *(f"dirichlet:{number}{ending}" for number in numbers))
    if spec.kind == "uniform":
        return Policy.uniform(tree)
    if spec.kind == "geometric":
        return _relabelled(Policy.geometric(tree, spec.numbers[0]), spec.text)
    if spec.kind == "dirichlet":
        return _relabelled(Policy.dirichlet(tree, int(spec.numbers[0]), spec.numbers[1]), spec.text)
    try:
        policy = _load(spec.path, tree)
    except ValueError as error:
        raise ValueError(f"{argument} {spec.text!r}: {error}") from error
    if policy.num_lanes == 1:
        return _relabelled(policy, spec.text)
    return _relabelled(policy, *(f"{spec.text}#{label}" for label in policy.labels))


def _load(path: str, tree: Tree) -> Policy:
    """The policy of a file, or of the network in a folder."""
    if not os.path.isdir(path):
        return Policy.load(path, tree)
    from jaxgadget.policy.network import load_policy

    return load_policy(path, tree.game).on(tree)


def _checkpoints(
    tree: Tree, algorithm: str, specs: Sequence[BlueprintSpec], progress: bool | None
) -> dict[BlueprintSpec, Policy]:
    from jaxgadget.policy.solve import cfr_checkpoints

    counts = [int(spec.numbers[0]) for spec in specs]
    policy = cfr_checkpoints(tree, counts, algorithm=algorithm, progress=progress)
    return {spec: _relabelled(policy.lane(i), spec.text) for i, spec in enumerate(specs)}


def _sampled_checkpoints(
    tree: Tree, specs: Sequence[BlueprintSpec], progress: bool | None, argument: str
) -> dict[BlueprintSpec, Policy]:
    """Checkpoints of one algorithm and seed, from one run."""
    algorithm = external_sampling if specs[0].kind == "mccfr" else public_chance_sampling
    counts, seed = [int(spec.numbers[0]) for spec in specs], int(specs[0].numbers[1])
    try:
        policy = algorithm(check_histories(tree), counts, seed=seed, progress=progress)
    except ValueError as error:
        raise ValueError(f"{argument} {specs[0].text!r}: {error}") from error
    return {spec: _relabelled(policy.lane(i), spec.text) for i, spec in enumerate(specs)}


def _relabelled(policy: Policy, *labels: str) -> Policy:
    return dataclasses.replace(policy, labels=labels)
