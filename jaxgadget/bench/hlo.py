"""Parsers of XLA's output for a GPU: optimised HLO, PTX, and the sequence of launches.

The optimised HLO of a GPU lists the launches (each instruction of a computation that is not fused is a
kernel, a copy or a library call) with their inputs and outputs. PTX lists the instructions of a kernel.
"""

from __future__ import annotations

import collections
import dataclasses
import graphlib
import itertools
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

ITEM_BYTES = {
    **dict.fromkeys(("pred", "s8", "u8", "f8e4m3fn", "f8e5m2"), 1),
    **dict.fromkeys(("s16", "u16", "f16", "bf16"), 2),
    **dict.fromkeys(("s32", "u32", "f32"), 4),
    **dict.fromkeys(("s64", "u64", "f64", "c64"), 8),
    "c128": 16,
}
"""Bytes of an element by HLO's name of its type."""

NOT_LAUNCHED = frozenset(
    "parameter constant get-tuple-element tuple bitcast after-all opt-barrier copy-done async-done "
    "partition-id replica-id".split()
)
"""Operations that only name or rearrange buffers, or wait for another operation's launch."""

MOST_AROUND_BLOCK = 2
"""Number of launches outside the inner loop of a block of iterations, which count its iterations."""

_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,]*)\]")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%([\w.\-]+) = (.*)$")
_COMPUTATION = re.compile(r"^(ENTRY )?%([\w.\-]+) \(.*\) -> .* \{$")
_NAME = re.compile(r"%([\w.\-]+)")
_CALLED = re.compile(r"(?:calls|to_apply|called_computation)=%([\w.\-]+)")
_BRANCHES = re.compile(r"(?:branch_computations=\{([^}]*)\}|(?:true|false)_computation=(%[\w.\-]+))")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_THUNK = re.compile(r"^(\s*)\d+: (k\w+)\s.*?\]\s*(\S*)")
_ENTRY = re.compile(r"\.visible \.entry (\w+)\(")
_ADDITION = re.compile(r"(?<![.\w])(?:add|fma|max|min)\.(?:[a-z]+\.)*f(?:32|64|32x2)\b")
_ATOMIC = re.compile(r"\b(?:atom|red)\.[\w.:]*\b(?:cas|b?f(?:16|32|64)(?:x2)?)\b")  # cas: emulates others
_LABEL = re.compile(r"^(\$?[\w$]+):", re.MULTILINE)
_LEAVES = re.compile(r"^\s*(?:bra(?:\.uni)?\s+\S+|ret);\s*\Z", re.MULTILINE)
_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+(\$?[\w$]+);")
_THREADS = re.compile(r"\.reqntid (\d+)(?:, (\d+))?(?:, (\d+))?")


class Instruction(NamedTuple):
    """An instruction of HLO.

    Attributes:
      name: its name, unique in the module.
      shape: shape of its result.
      operation: name of the operation, such as `fusion` or `while`.
      operands: names of the operands.
      attributes: text after the operands.
      is_root: True for the result of its computation.
    """

    name: str
    shape: str
    operation: str
    operands: tuple[str, ...]
    attributes: str
    is_root: bool

    @property
    def bytes(self) -> int:
        """Number of bytes of the result."""
        return sum(count * ITEM_BYTES.get(kind, 0) for kind, count in _arrays(self.shape))

    @property
    def elements(self) -> int:
        """Number of elements of the result; for a tuple, of all its arrays."""
        return sum(count for _, count in _arrays(self.shape))

    @property
    def called(self) -> str | None:
        """The computation that a fusion or a call runs."""
        match = _CALLED.search(self.attributes)
        return None if match is None else match[1]

    @property
    def branches(self) -> list[str]:
        """The computations of a conditional."""
        return [name for match in _BRANCHES.finditer(self.attributes) for name in _NAME.findall(match[0])]

    @property
    def body(self) -> str:
        """The body of a loop."""
        return self._computation("body")

    @property
    def condition(self) -> str:
        """The condition of a loop."""
        return self._computation("condition")

    @property
    def trips(self) -> int | None:
        """Number of times that a loop runs; None if XLA does not know."""
        match = _TRIPS.search(self.attributes)
        return None if match is None else int(match[1])

    def _computation(self, role: str) -> str:
        match = re.search(rf"{role}=%([\w.\-]+)", self.attributes)
        if match is None:
            raise ValueError(f"{self.name}: expected a {role} in {self.attributes!r}")
        return match[1]


Computation = dict[str, Instruction]
"""Instructions in the order of execution, by name."""


class Module(NamedTuple):
    """An HLO module.

    Attributes:
      computations: the computations by name.
      entry: name of the computation that is run.
    """

    computations: dict[str, Computation]
    entry: str


def parse_module(text: str) -> Module:
    """Parses an optimised and scheduled module, as `Compiled.as_text` returns it."""
    computations: dict[str, Computation] = {}
    current: Computation = {}
    entry = ""
    for line in text.splitlines():
        heading = _COMPUTATION.match(line)
        if heading is not None:
            current = computations.setdefault(heading[2], {})
            entry = heading[2] if heading[1] else entry
        elif (match := _INSTRUCTION.match(line)) is not None:
            shape, rest = _split_shape(match[3])
            operation, rest = rest.split("(", 1)
            end = _closing(rest, 1)
            inside = rest[:end]
            operands = () if operation == "constant" else tuple(_NAME.findall(inside))
            current[match[2]] = Instruction(
                match[2], shape, operation, operands, rest[end + 1 :], bool(match[1])
            )
    if not entry:
        raise ValueError("text of a compiled program: expected an ENTRY computation")
    return Module(computations, entry)


def _split_shape(text: str) -> tuple[str, str]:
    """The shape at the beginning of an instruction, and the rest."""
    if not text.startswith("("):
        shape, rest = text.split(" ", 1)
        return shape, rest
    end = _closing(text[1:], 1) + 1
    return text[: end + 1], text[end + 1 :].lstrip()


def _closing(text: str, depth: int) -> int:
    """Position of the parenthesis that closes `depth` open ones."""
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return position
    raise ValueError(f"{text[:80]!r}: expected a closing parenthesis")


def _arrays(shape: str) -> Iterator[tuple[str, int]]:
    """Type and number of elements of each array of a shape."""
    for kind, sizes in _ARRAY.findall(shape):
        count = 1
        for size in filter(None, sizes.split(",")):
            count *= int(size)
        yield kind, count


def fusion_traffic(computation: Computation) -> tuple[float, float]:
    """Estimates the bytes that a fused computation reads and writes.

    In the model, the demand for elements is propagated from results to operands: a gather or a slice demands
    as many elements as it returns, any other operation a proportional share of its operands. Elements that
    are demanded several times are read once, as if they stayed in a cache.
    """
    demand: dict[str, float] = collections.defaultdict(float)
    read = written = 0.0
    for each in computation.values():
        if not each.is_root:
            continue
        demand[each.name] = max(each.elements, 1)
        results = [computation[name] for name in each.operands] if each.operation == "tuple" else [each]
        for result in results:
            demand[result.name] = max(result.elements, 1)
            in_place = result.operation == "dynamic-update-slice"
            written += (computation[result.operands[1]] if in_place else result).bytes
    for each in reversed(computation.values()):
        size = max(each.elements, 1)
        needed = min(demand[each.name], size)
        if each.operation == "parameter":
            read += each.bytes * needed / size
        if each.operation in ("parameter", "tuple", "constant") or not needed:
            continue
        for position, name in enumerate(each.operands):
            operand = computation[name].elements
            if position == 0 and each.operation in ("gather", "dynamic-slice", "slice"):
                demand[name] += needed
            elif not (position == 0 and each.operation == "dynamic-update-slice"):
                demand[name] += operand * needed / size
    return read, written


@dataclasses.dataclass(frozen=True)
class Work:
    """Launches and bytes of one run of a computation.

    Attributes:
      launches: number of kernels, copies and calls of libraries.
      moved_bytes: bytes that they read and write.
      seconds: minimum time in the model of `measure`.
    """

    launches: float = 0
    moved_bytes: float = 0
    seconds: float = 0

    def __add__(self, other: Work) -> Work:
        return Work(
            self.launches + other.launches,
            self.moved_bytes + other.moved_bytes,
            self.seconds + other.seconds,
        )

    def times(self, number: int) -> Work:
        """The work of several runs."""
        return Work(number * self.launches, number * self.moved_bytes, number * self.seconds)


def measure(module: Module, name: str, launch_seconds: float, bandwidth: float) -> Work:
    """The work of one run of a computation, without loops whose number of trips XLA does not know.

    Args:
      module: the module.
      name: name of the computation.
      launch_seconds: minimum time of a launch; a launch takes this, or the time to move its bytes if longer.
      bandwidth: bandwidth of the device's memory, in bytes per second.
    """
    computation = module.computations[name]

    def of(called: str) -> Work:
        return measure(module, called, launch_seconds, bandwidth)

    total = Work()
    for each in computation.values():
        if each.operation in NOT_LAUNCHED:
            continue
        if each.operation == "while":
            if each.trips is not None:
                total += (of(each.body) + of(each.condition)).times(each.trips)
        elif each.operation == "conditional":
            total += max(map(of, each.branches), key=lambda work: work.seconds)
        elif each.operation in ("call", "async-start") and each.called is not None:
            total += of(each.called)
        else:
            read, written = _traffic(module, computation, each)
            moved = read + written
            total += Work(1, moved, max(launch_seconds, moved / bandwidth))
    return total


def _traffic(module: Module, computation: Computation, each: Instruction) -> tuple[float, float]:
    """Bytes that a launched instruction reads and writes."""
    if each.operation == "fusion" and each.called is not None:
        return fusion_traffic(module.computations[each.called])
    operands = [computation[name] for name in each.operands]
    if each.operation == "dynamic-update-slice":  # in place
        return operands[1].bytes, operands[1].bytes
    return sum(operand.bytes for operand in operands), each.bytes


def find_iteration(module: Module) -> str | None:
    """The body of the loop that iterates: an innermost one without a known number of trips.

    The one that moves most bytes if there are several; None if there is no such loop. If a body only contains
    a loop with a known number of trips, it is a block of iterations, and that loop's body is the iteration.
    """

    def inside(name: str) -> list[str]:
        bodies: list[str] = []
        for each in module.computations[name].values():
            if each.operation == "while":
                deeper = inside(each.body)
                bodies += deeper or ([each.body] if each.trips is None else [])
            elif each.operation == "conditional":
                bodies += [body for branch in each.branches for body in inside(branch)]
            elif each.operation == "call" and each.called is not None:
                bodies += inside(each.called)
        return bodies

    body = max(inside(module.entry), key=lambda name: measure(module, name, 0, 1).moved_bytes, default=None)
    if body is None:
        return None
    loops = [each for each in module.computations[body].values() if each.operation == "while"]
    if len(loops) == 1 and loops[0].trips is not None:
        block = (measure(module, loops[0].body, 0, 1) + measure(module, loops[0].condition, 0, 1)).launches
        if measure(module, body, 0, 1).launches - loops[0].trips * block <= MOST_AROUND_BLOCK:
            return loops[0].body
    return body


def reachable(module: Module, name: str) -> Iterator[Instruction]:
    """Yields all instructions that a run of a computation executes, including fused ones and inner loops."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        for each in module.computations[current].values():
            yield each
            if each.operation == "while":
                waiting += [each.body, each.condition]
            waiting += each.branches
            if each.called is not None:
                waiting.append(each.called)


class Thunk(NamedTuple):
    """A launch in XLA's sequence of thunks.

    Attributes:
      kind: XLA's name of its kind, such as `kCustomKernel`, `kCopy` or `kWhile`.
      kernel: name of the kernel.
      enclosing: kinds of the thunks around it.
    """

    kind: str
    kernel: str
    enclosing: tuple[str, ...]


def parse_thunks(text: str) -> list[Thunk]:
    """Parses a dumped sequence of thunks, in which indentation shows nesting."""
    thunks: list[Thunk] = []
    around: list[tuple[int, str]] = []
    for line in text.splitlines():
        match = _THUNK.match(line)
        if match is None:
            continue
        indent = len(match[1])
        while around and around[-1][0] >= indent:
            around.pop()
        thunks.append(Thunk(match[2], match[3], tuple(kind for _, kind in around)))
        around.append((indent, match[2]))
    return thunks


class PtxKernel(NamedTuple):
    """Contents of a kernel's PTX.

    Attributes:
      threads: number of threads of a block.
      atomics: number of atomic instructions on floating-point numbers, or that may emulate such.
      additions: number of additions, maxima and minima of floating-point numbers; infinite in a kernel that
        has some and loops.
    """

    threads: int
    atomics: int
    additions: float


def parse_ptx(text: str) -> dict[str, PtxKernel]:
    """The kernels of a PTX module, by name."""
    parts = _ENTRY.split(text)[1:]
    kernels: dict[str, PtxKernel] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        match = _THREADS.search(body)
        threads = 1
        for size in filter(None, match.groups() if match is not None else ()):
            threads *= int(size)
        additions = len(_ADDITION.findall(body))
        kernels[name] = PtxKernel(
            threads if match is not None else 0,
            len(_ATOMIC.findall(body)),
            math.inf if additions and _has_loop(body) else additions,
        )
    return kernels


def _has_loop(body: str) -> bool:
    """True if control flow of a kernel may return to an instruction."""
    first, *labelled = _LABEL.split(body)
    blocks = {"": first, **dict(zip(labelled[::2], labelled[1::2], strict=True))}
    names = list(blocks)
    successors = {name: _BRANCH.findall(text) for name, text in blocks.items()}
    for name, after in itertools.pairwise(names):
        if not _LEAVES.search(blocks[name]):
            successors[name].append(after)
    try:
        tuple(graphlib.TopologicalSorter(successors).static_order())
    except graphlib.CycleError:
        return True
    return False
