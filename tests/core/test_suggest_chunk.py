"""How many lanes a sweep solves at once: settled beforehand, by what there is and not by what is free."""

from typing import Any

import pytest

import jaxgadget
from jaxgadget import BlueprintPrior, Forest, MaxMargin, Policy, Resolving, UniformPrior, Unsafe
from jaxgadget.core import memory as planning
from jaxgadget.core.batch import Batch
from jaxgadget.core.devices import HOME
from jaxgadget.core.memory import batch_size, suggest_chunk, whole_memory
from jaxgadget.core.rows import array_bytes
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.games import build_games
from jaxgadget.subgames.prepare import prepare


class Device:
    platform = "gpu"

    def __init__(self, limit: int, used: int = 0):
        self.limit, self.used = limit, used

    def memory_stats(self) -> dict[str, int]:
        return {"bytes_limit": self.limit, "bytes_in_use": self.used}


class Several:
    on_cpu = False

    def __init__(self, *devices: Device):
        self.devices = devices


@pytest.fixture(scope="module")
def leduc() -> Forest:
    tree = jaxgadget.enumerate_game(jaxgadget.load("leduc_poker"))
    return jaxgadget.build_forest(tree, "flop")


def sequences(forest: Forest) -> int:
    return forest.form.num_sequences


def batch_of(forest: Forest, gadget: Gadget) -> Batch:
    prepared = prepare(forest, 0, Policy.uniform(forest.tree), [gadget])
    return build_games(prepared.structure, prepared.ranges, [gadget]).batch


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "find_workers", lambda place: 2 if place.on_cpu else 1)


def test_few_lanes_are_solved_together(leduc: Forest):
    assert [suggest_chunk(sequences(leduc), lanes, "float32") for lanes in (1, 7, 16)] == [1, 7, 16]


@pytest.mark.parametrize("gadget", [Unsafe(), Resolving(UniformPrior())])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_on_a_cpu_a_chunk_keeps_to_the_cache(leduc: Forest, gadget: Gadget, dtype: str):
    """Within what the estimate is off by; and it uses at least half of it."""
    loop, _ = batch_size(batch_of(leduc, gadget), dtype)
    for lanes in (200, 400, 1000, 10_000):
        chunk = suggest_chunk(sequences(leduc), lanes, dtype)
        assert chunk % planning.LANE_STEP == 0
        assert planning.CACHE_BYTES / 3 < chunk * loop.lane < 1.1 * planning.CACHE_BYTES


@pytest.mark.parametrize(("count", "lanes", "chunk"), [(1, 7, 7), (1, 500, 500), (2, 7, 8), (8, 100, 104)])
def test_devices_share_a_chunk(leduc: Forest, count: int, lanes: int, chunk: int):
    place: Any = Several(*[Device(10**11)] * count)
    assert suggest_chunk(sequences(leduc), lanes, "float32", place) == chunk


def test_the_memory_of_devices_is_what_they_have_not_what_is_free(leduc: Forest):
    busy: Any = Several(Device(4000, used=3999), Device(8000))
    idle: Any = Several(Device(4000), Device(8000, used=10))
    assert whole_memory(busy) == whole_memory(idle) == 3000
    assert whole_memory(HOME) is None, "of a CPU nothing is taken into account"


def test_what_is_free_changes_nothing(leduc: Forest, monkeypatch: pytest.MonkeyPatch):
    expected = [suggest_chunk(sequences(leduc), lanes, "float32") for lanes in range(1, 200, 9)]
    monkeypatch.setattr(planning, "find_memory", lambda *args: pytest.fail("nobody may ask"))
    monkeypatch.setattr(planning.os, "sysconf", lambda name: pytest.fail("nobody may ask"))
    assert [suggest_chunk(sequences(leduc), lanes, "float32") for lanes in range(1, 200, 9)] == expected


@pytest.mark.parametrize("gadget", [Unsafe(), Resolving(UniformPrior()), MaxMargin(BlueprintPrior())])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_chunk_fits_the_memory_that_it_is_given(leduc: Forest, gadget: Gadget, dtype: str):
    """The estimate is never too low, and at most twice what is needed."""
    batch = batch_of(leduc, gadget)
    _, size = batch_size(batch, dtype)
    shared = array_bytes((batch.sides, batch.payoff))
    place: Any = Several(Device(10**11))
    for memory in (2 * 10**6, 10**7, 10**8, 10**9):
        chunk = suggest_chunk(sequences(leduc), 10**6, dtype, place, memory)
        assert memory / 2 < shared + size.total(chunk) <= memory


def test_one_lane_a_device_is_the_least(leduc: Forest):
    place: Any = Several(Device(10**9), Device(10**9))
    assert suggest_chunk(sequences(leduc), 100, "float32", memory=1) == 1
    assert suggest_chunk(sequences(leduc), 100, "float32", place, 1) == 2
