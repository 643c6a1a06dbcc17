"""Blueprints by name: what the command line's `--blueprint SPEC` means.

A SPEC is parsed before any work is done; then all of them are made for a game at once, and
the checkpoints of one algorithm come from one run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from jaxgadget.policy import Policy
from jaxgadget.solve.drive import MOST_ITERATIONS
from jaxgadget.tree.history import HistoryTree

FORMS = "uniform, geometric:R, dirichlet:SEED[:ALPHA], cfr:N, cfr+:N or file:PATH"
"""Every form of a SPEC."""

ALGORITHMS = ("cfr", "cfr+")
"""Whose average policies can be asked for as `ALGORITHM:N`."""

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


def parse_blueprint(text: str) -> BlueprintSpec:
    """Takes a SPEC apart.

    Args:
      text: `uniform`; `geometric:R`, the k-th legal action ∝ R^k; `dirichlet:SEED[:ALPHA]`, rows
        drawn with NumPy's PCG64; `cfr:N` or `cfr+:N`, the average policy after N iterations;
        `file:PATH`, all lanes of a file written by `Policy.save`.

    Raises:
      ValueError: if it has none of these forms, or a number is out of range.
    """
    kind, colon, rest = text.partition(":")
    if text == "uniform":
        return BlueprintSpec(text, kind)
    if kind == "file" and rest:
        return BlueprintSpec(text, kind, path=rest)
    if kind == "geometric" and colon:
        return BlueprintSpec(text, kind, (_positive(text, "R", rest),))
    if kind == "dirichlet" and colon:
        seed, second, alpha = rest.partition(":")
        numbers = (_whole(text, "SEED", seed, 0), _positive(text, "ALPHA", alpha) if second else 1.0)
        return BlueprintSpec(text, kind, numbers)
    if kind in ALGORITHMS and colon:
        return BlueprintSpec(text, kind, (_whole(text, "N", rest, 1, MOST_ITERATIONS),))
    raise ValueError(f"blueprint {text!r} is unknown; expected {FORMS}")


def _whole(text: str, name: str, digits: str, least: int, most: int = 2**64 - 1) -> int:
    value = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 30 else -1
    if least <= value <= most:
        return value
    raise ValueError(
        f"blueprint {text!r}: {name} is {digits!r}, expected a whole number from {least} to {most}"
    )


def _positive(text: str, name: str, number: str) -> float:
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and value > 0:
        return value
    raise ValueError(f"blueprint {text!r}: {name} is {number!r}, expected a positive number, such as 0.5")


def make_blueprints(
    tree: HistoryTree, specs: Sequence[str | BlueprintSpec], *, progress: bool | None = None
) -> Policy:
    """The profiles that SPECs name, side by side in the given order.

    A lane's label is its SPEC; lanes of a file that holds several are `file:PATH#LABEL`. A SPEC
    that is given twice counts once.

    Args:
      tree: the game's histories.
      specs: SPECs, as text or parsed.
      progress: as in `solve`.

    Raises:
      ValueError: if a SPEC is malformed, there is none, or a file holds no policy of this game.
    """
    parsed = dict.fromkeys(parse_blueprint(s) if isinstance(s, str) else s for s in specs)
    if not parsed:
        raise ValueError(f"blueprint: none is given, expected at least one of {FORMS}")
    made = {spec: _make(tree, spec) for spec in parsed if spec.kind not in ALGORITHMS}
    for algorithm in ALGORITHMS:
        mine = [spec for spec in parsed if spec.kind == algorithm]
        if mine:
            made |= _checkpoints(tree, algorithm, mine, progress)
    return Policy.stack([made[spec] for spec in parsed])


def _make(tree: HistoryTree, spec: BlueprintSpec) -> Policy:
    if spec.kind == "uniform":
        return Policy.uniform(tree)
    if spec.kind == "geometric":
        return _relabelled(Policy.geometric(tree, spec.numbers[0]), spec.text)
    if spec.kind == "dirichlet":
        return _relabelled(Policy.dirichlet(tree, int(spec.numbers[0]), spec.numbers[1]), spec.text)
    try:
        policy = Policy.load(spec.path, tree)
    except ValueError as error:
        raise ValueError(f"blueprint {spec.text!r}: {error}") from error
    if policy.num_lanes == 1:
        return _relabelled(policy, spec.text)
    return _relabelled(policy, *(f"{spec.text}#{label}" for label in policy.labels))


def _checkpoints(
    tree: HistoryTree, algorithm: str, specs: Sequence[BlueprintSpec], progress: bool | None
) -> dict[BlueprintSpec, Policy]:
    from jaxgadget.solver import cfr_checkpoints

    counts = [int(spec.numbers[0]) for spec in specs]
    policy = cfr_checkpoints(tree, counts, algorithm=algorithm, progress=progress)
    return {spec: _relabelled(policy.lane(i), spec.text) for i, spec in enumerate(specs)}


def _relabelled(policy: Policy, *labels: str) -> Policy:
    return Policy(policy.tree, policy.probabilities, labels)
