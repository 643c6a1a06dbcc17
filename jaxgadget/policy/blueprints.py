"""Blueprints by name: what the command line's `--blueprint SPEC` means.

A SPEC is parsed before any work is done; then all of them are made for a game at once, and
the checkpoints of one algorithm come from one run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxgadget.policy.policy import Policy
from jaxgadget.policy.sampled import LARGEST_SEED, external_sampling, public_chance_sampling
from jaxgadget.solving.options import MOST_ITERATIONS, check_iterations
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arguments import check_whole_number, read_number, read_whole_number

FORMS = (
    "uniform, geometric:R, dirichlet:SEED[:ALPHA], cfr:N, cfr+:N, mccfr:N[:SEED], pcs:N[:SEED], file:PATH, "
    "cfr-spread:COUNT[:N] or draws:COUNT[:ALPHA]"
)
"""Every form of a SPEC."""

ALGORITHMS = ("cfr", "cfr+")
"""Whose average policies can be asked for as `ALGORITHM:N`."""

SAMPLED = ("mccfr", "pcs")
"""Those that sample, `ALGORITHM:N[:SEED]`: external-sampling MCCFR, and CFR with public-chance sampling."""

SPREAD = "cfr-spread"
"""Many checkpoints of one run."""
SPREAD_ITERATIONS = 10_000
"""How long it is if nothing is said."""
SPREAD_STEP = 1.05
"""The factor between two numbers of iterations that are looked at."""

DRAWS = "draws"
"""Many draws."""
MOST_DRAWS = 1000
"""`draws:COUNT` with seed s is `dirichlet:1000·s` and those after it."""

DEMO_SPECS = (
    *(f"cfr:{n}" for n in (1, 2, 4, 7, 12, 23, 43, 81, 152, 285, 534, 1000)),
    *(f"dirichlet:{seed}" for seed in range(8)),
)
"""Twenty blueprints: a run of CFR looked at twelve times, a step a factor of 1.9, and eight draws."""


class BlueprintSpec(NamedTuple):
    """A SPEC taken apart.

    Attributes:
      text: how it was written; the lanes made from it bear this name.
      kind: what stands before the first colon.
      numbers: what follows it, but for a file.
      path: the file, else empty.
    """

    text: str
    kind: str
    numbers: tuple[float, ...] = ()
    path: str = ""


def parse_blueprint(text: str, what: str = "blueprint") -> BlueprintSpec:
    """Takes a SPEC apart.

    Args:
      text: `uniform`; `geometric:R`, the k-th legal action ∝ R^k; `dirichlet:SEED[:ALPHA]`, rows
        drawn with NumPy's PCG64; `cfr:N` or `cfr+:N`, the average policy after N iterations; the same for
        `mccfr:N[:SEED]`, external-sampling MCCFR by OpenSpiel, and `pcs:N[:SEED]`, CFR that samples public
        chance, with uniform rows where no sample came;
        `file:PATH`, all lanes of a file written by `Policy.save`; `cfr-spread:COUNT[:N]` and
        `draws:COUNT[:ALPHA]`, which stand for several (see `make_blueprints`).
      what: errors call it, as `model`.

    Raises:
      ValueError: if it has none of these forms, or a number is out of range.
    """
    kind, colon, rest = text.partition(":")
    named = f"{what} {text!r}"
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
        return BlueprintSpec(text, kind, (_whole(named, "N", rest, 1, MOST_ITERATIONS),))
    if kind in SAMPLED and colon:
        count, second, seed = rest.partition(":")
        iterations = _whole(named, "N", count, 1, MOST_ITERATIONS)
        return BlueprintSpec(
            text, kind, (iterations, _whole(named, "SEED", seed, 0, LARGEST_SEED) if second else 0)
        )
    raise ValueError(f"{named} is unknown; expected {FORMS}")


def _several_numbers(named: str, kind: str, count: str, second: str, last: str) -> tuple[float, ...]:
    if kind == DRAWS:
        number = _whole(named, "COUNT", count, 1, MOST_DRAWS)
        return (number, _positive(named, "ALPHA", last) if second else 1.0)
    longest = _whole(named, "N", last, 1, MOST_ITERATIONS) if second else SPREAD_ITERATIONS
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
    tree: HistoryTree,
    specs: str | Sequence[str | BlueprintSpec],
    *,
    seed: Any = 0,
    progress: bool | None = None,
    what: str = "blueprint",
) -> Policy:
    """The profiles that SPECs name, side by side in the given order.

    A lane's label is the SPEC that makes it alone; lanes of a file that holds several are
    `file:PATH#LABEL`. A profile that is named twice counts once. `cfr-spread:COUNT[:N]` is COUNT averages of
    one run of N iterations of CFR, by default 10,000, spread evenly over the logarithm of NashConv;
    `draws:COUNT[:ALPHA]` is COUNT draws that depend on `seed`.

    Args:
      tree: the game's histories.
      specs: one SPEC or several, as text or parsed.
      seed: of `draws`, a whole number ≥ 0.
      progress: as in `solve`.
      what: errors call them, as `model`.

    Raises:
      ValueError: if a SPEC is malformed, there is none, or a file holds no policy of this game.
    """
    specs = [specs] if isinstance(specs, str) else specs
    asked = [parse_blueprint(s, what) if isinstance(s, str) else s for s in specs]
    if not asked:
        raise ValueError(f"{what}: none is given, expected at least one of {FORMS}")
    seed = check_whole_number("seed", seed, 0)
    by_label: dict[str, Policy] = {}
    by_spec: dict[BlueprintSpec, Policy] = {}
    for spec in dict.fromkeys(asked):
        if spec.kind == SPREAD:
            count, longest = (int(number) for number in spec.numbers)
            by_spec[spec] = spread_checkpoints(tree, count, iterations=longest, progress=progress)
        elif spec.kind not in (*ALGORITHMS, *SAMPLED):
            by_spec[spec] = _make(tree, spec, seed, what)
    for algorithm in ALGORITHMS:
        same_run = [spec for spec in dict.fromkeys(asked) if spec.kind == algorithm]
        if same_run:
            by_spec |= _checkpoints(tree, algorithm, same_run, progress)
    for kind, numbers in dict.fromkeys(
        (spec.kind, spec.numbers[1:]) for spec in asked if spec.kind in SAMPLED
    ):
        same_run = [s for s in dict.fromkeys(asked) if (s.kind, s.numbers[1:]) == (kind, numbers)]
        by_spec |= _sampled_checkpoints(tree, same_run, progress, what)
    for spec in asked:
        policy = by_spec[spec]
        for number, label in enumerate(policy.labels):
            by_label.setdefault(label, policy.lane(number))
    return Policy.stack(list(by_label.values()))


def spread_checkpoints(
    tree: HistoryTree, count: int, *, iterations: int = SPREAD_ITERATIONS, progress: bool | None = None
) -> Policy:
    """Averages of one run of CFR, chosen to spread over exploitability; labels `cfr:N`.

    NashConv is looked at after 1, 2, … iterations, each 5 % more than the one before. From the worst to
    the best average, `count` goals lie evenly on a logarithmic scale; the average that is nearest to each and
    was not taken yet is kept. Lanes are in the order of iterations.

    Args:
      tree: the game's histories.
      count: how many.
      iterations: of the run.
      progress: as in `solve`.

    Raises:
      ValueError: if there are fewer averages to look at than `count`.
    """
    from jaxgadget.policy.evaluate import nash_conv
    from jaxgadget.policy.solve import cfr_checkpoints

    last = check_iterations(iterations)
    looked = sorted({*range(1, min(20, last) + 1), last, *_growing(last)})
    if not 1 <= check_whole_number("count", count, 0) <= len(looked):
        raise ValueError(
            f"count={count!r}: expected from 1 to {len(looked)}, as many as averages are looked at in "
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


def _make(tree: HistoryTree, spec: BlueprintSpec, seed: int, what: str) -> Policy:
    if spec.kind == DRAWS:
        count, alpha = int(spec.numbers[0]), spec.numbers[1]
        ending = "" if alpha == 1 else f":{alpha:g}"
        numbers = range(MOST_DRAWS * seed, MOST_DRAWS * seed + count)
        drawn = Policy.stack([Policy.dirichlet(tree, number, alpha) for number in numbers])
        return _relabelled(drawn, *(f"dirichlet:{number}{ending}" for number in numbers))
    if spec.kind == "uniform":
        return Policy.uniform(tree)
    if spec.kind == "geometric":
        return _relabelled(Policy.geometric(tree, spec.numbers[0]), spec.text)
    if spec.kind == "dirichlet":
        return _relabelled(Policy.dirichlet(tree, int(spec.numbers[0]), spec.numbers[1]), spec.text)
    try:
        policy = Policy.load(spec.path, tree)
    except ValueError as error:
        raise ValueError(f"{what} {spec.text!r}: {error}") from error
    if policy.num_lanes == 1:
        return _relabelled(policy, spec.text)
    return _relabelled(policy, *(f"{spec.text}#{label}" for label in policy.labels))


def _checkpoints(
    tree: HistoryTree, algorithm: str, specs: Sequence[BlueprintSpec], progress: bool | None
) -> dict[BlueprintSpec, Policy]:
    from jaxgadget.policy.solve import cfr_checkpoints

    counts = [int(spec.numbers[0]) for spec in specs]
    policy = cfr_checkpoints(tree, counts, algorithm=algorithm, progress=progress)
    return {spec: _relabelled(policy.lane(i), spec.text) for i, spec in enumerate(specs)}


def _sampled_checkpoints(
    tree: HistoryTree, specs: Sequence[BlueprintSpec], progress: bool | None, what: str
) -> dict[BlueprintSpec, Policy]:
    """Those of one algorithm and seed, from one run."""
    algorithm = external_sampling if specs[0].kind == "mccfr" else public_chance_sampling
    counts, seed = [int(spec.numbers[0]) for spec in specs], int(specs[0].numbers[1])
    try:
        policy = algorithm(tree, counts, seed=seed, progress=progress)
    except ValueError as error:
        raise ValueError(f"{what} {specs[0].text!r}: {error}") from error
    return {spec: _relabelled(policy.lane(i), spec.text) for i, spec in enumerate(specs)}


def _relabelled(policy: Policy, *labels: str) -> Policy:
    return Policy(policy.tree, policy.probabilities, labels)
