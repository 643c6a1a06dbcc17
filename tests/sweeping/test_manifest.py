"""The request of a sweep in JSON, and its division into pieces."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from jaxgadget import (
    ArrayPrior,
    ArrayValues,
    BlueprintPrior,
    Full,
    MaxMargin,
    NoPrior,
    Opponent,
    Policy,
    ReachResolving,
    Resolving,
    UniformPrior,
    Unsafe,
    build_forest,
    make_blueprints,
)
from jaxgadget.opponents.opponent import list_opponents
from jaxgadget.policy.identity import identity
from jaxgadget.sweeping.pieces import Piece, cut_pieces, piece_key
from jaxgadget.sweeping.request import Request, make_request
from jaxgadget.sweeping.setups import Setup
from jaxgadget.tree.history import HistoryTree
from tests.solving import sweeping


def request(**changes: Any) -> Request:
    asked: dict[str, Any] = {
        "games": "kuhn_poker",
        "cuts": "depth:1",
        "blueprints": ["uniform", "draws:4"],
        "seeds": [0, 1],
        "gadgets": ["unsafe", "resolving", "max-margin"],
        "priors": ["none", "uniform"],
        "epsilons": 0.1,
        "alternatives": "best-response",
        "opponent": None,
        "knowledge": None,
        "players": (0, 1),
        "algorithm": "cfr+",
        "iterations": [10, 20],
        "dtype": "float32",
        "memory_limit": None,
        "blueprints_at_once": 4,
        "max_histories": 1000,
    }
    bundled = sweeping(**asked | changes)
    return make_request(bundled["grid"], bundled["solver"], bundled["blueprints_at_once"])


@pytest.fixture(scope="module")
def setup(kuhn: HistoryTree) -> Setup:
    drawn = [make_blueprints(kuhn, ["draws:4"], seed=seed) for seed in (0, 1)]
    return Setup(kuhn, Policy.stack([Policy.uniform(kuhn), *drawn]), [None, *[0] * 4, *[1] * 4], (-0.1, 0.1))


def pieces(asked: Request, setup: Setup, cut: str = "depth:1") -> list[Piece]:
    return cut_pieces(asked, setup, build_forest(setup.tree, cut), "kuhn_poker", cut)


# --- requests -----------------------------------------------------------------------------


def test_a_request_survives_json():
    own = Resolving(ArrayPrior(np.array([0.5, 0.25])), 0.1)
    asked = request(gadgets=[own, Full()], priors="none", players=0)
    assert json.loads(json.dumps(asked.record)) == asked.record


def test_gadgets_are_there_once():
    """Names with priors and ε, then gadget objects without duplicates."""
    asked = request(
        gadgets=[
            "resolving",
            Unsafe(),
            Resolving(UniformPrior(), 0.1),
            MaxMargin(NoPrior()),
            MaxMargin(NoPrior()),
        ],
        epsilons=[0.1, 0.1],
    )
    expected = [Resolving(NoPrior(), 0.1), Resolving(UniformPrior(), 0.1), Unsafe(), MaxMargin(NoPrior())]
    assert list(asked.gadgets) == expected


# --- identity -----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Mine(UniformPrior):
    share: float = 0.5


class Hidden(Mine):
    """With a hidden attribute that is not a field."""

    def __init__(self, extra: int):
        super().__init__()
        object.__setattr__(self, "extra", extra)


def test_identity_tells_gadgets_apart():
    values = np.arange(3.0)
    different = [
        Unsafe(),
        Resolving(NoPrior()),
        Resolving(UniformPrior()),
        Resolving(UniformPrior(), 0.5),
        Resolving(BlueprintPrior()),
        Resolving(BlueprintPrior(clip=0.5)),
        Resolving(Mine()),
        Resolving(Mine(share=0.25)),
        Resolving(Hidden(1)),
        Resolving(Hidden(2)),
        Resolving(ArrayPrior(values)),
        Resolving(ArrayPrior(values[:2])),
        Resolving(ArrayPrior(values.astype(np.float32))),
        Resolving(ArrayPrior(values, name="other")),
        Resolving(alternative=ArrayValues(values)),
        ReachResolving(gifts="estimate"),
        ReachResolving(gifts="lower-bound"),
        MaxMargin(UniformPrior()),
    ]
    texts = [json.dumps(identity(gadget)) for gadget in different]
    assert len(set(texts)) == len(texts)
    assert identity(Resolving(ArrayPrior(values.copy()))) == identity(Resolving(ArrayPrior(values)))


# --- pieces -------------------------------------------------------------------------------


def test_pieces_cover_everything_once(setup: Setup):
    """Gadgets that share an entry are in one piece; the others by kind."""
    names = ["unsafe", "optimal-continuation", "resolving", "max-margin"]
    asked = request(gadgets=names)
    found = pieces(asked, setup)
    assert len({piece.key for piece in found}) == len(found) == 2 * 2 * 2 * 3
    results = [
        (piece.iterations, piece.player, gadget, blueprint)
        for piece in found
        for gadget in piece.gadgets
        for blueprint in range(*piece.blueprints)
    ]
    assert sum(piece.num_rows for piece in found) == len(results) == len(set(results)) == 2 * 2 * 7 * 9
    assert {piece.blueprints for piece in found} == {(0, 3), (3, 6), (6, 9)}, "of equal size, at most four"
    for piece in found:
        kinds = {asked.gadgets[k].name for k in piece.gadgets}
        assert kinds in ({"optimal-continuation"}, {*names} - {"optimal-continuation"})
        assert Piece.read(json.loads(json.dumps(dataclasses.asdict(piece)))) == piece


def test_a_key_depends_on_every_input_of_the_rows(setup: Setup, kuhn: HistoryTree):
    asked = request()
    forest = build_forest(kuhn, "depth:1")
    piece = pieces(asked, setup)[-1]
    key = piece_key(asked, setup, forest, piece)
    assert key == piece.key
    other = Policy.stack([Policy.geometric(kuhn, 2)] * 9)
    renamed = Policy(kuhn, setup.blueprints.probabilities, tuple("abcdefghi"))
    model, same_name = other.lane(0), Policy(kuhn, Policy.uniform(kuhn).probabilities, other.labels[:1])
    given = [Opponent(model, 0.5), Opponent(model, 0.25), Opponent(same_name, 0.5), Opponent()]
    opponents = [list_opponents(opponent, kuhn) for opponent in given]
    changed = [
        (request(epsilons=0.2), {}),
        (request(algorithm="dcfr"), {}),
        (request(dtype="float64"), {}),
        (request(memory_limit=10**9), {}),
        (asked, {"value": (-0.1, 0.2)}),
        (asked, {"seeds": [None] * 9}),
        (asked, {"blueprints": other}),
        (asked, {"blueprints": renamed}),
        *((asked, {"opponents": against}) for against in opponents),
    ]
    keys = [piece_key(how, setup._replace(**what), forest, piece) for how, what in changed]
    keys.append(piece_key(asked, setup, build_forest(kuhn, "depth:2"), piece))
    for change in (
        {"player": 0},
        {"iterations": 10},
        {"chunk": 16},
        {"blueprints": (0, 3)},
        {"gadgets": (0,)},
    ):
        keys.append(piece_key(asked, setup, forest, dataclasses.replace(piece, **change)))
    assert len({key, *keys}) == 1 + len(keys)


SHARING = ["unsafe", "resolving", "max-margin"]


@pytest.mark.parametrize(
    ("before", "after", "numbers"),
    [
        (SHARING, [*SHARING, Full(UniformPrior(), 0.2)], (0, 1, 2, 3, 4)),
        (["full", *SHARING], ["full", "unsafe", Resolving(UniformPrior(), 0.2)], (0, 1)),
    ],
    ids=["an entry that several share", "an entry of its own"],
)
def test_a_key_does_not_depend_on_the_rest(
    before: list[Any], after: list[Any], numbers: tuple[int, ...], setup: Setup, kuhn: HistoryTree
):
    """Extensions of a sweep therefore keep common pieces."""
    piece = pieces(request(gadgets=before), setup)[0]
    assert piece.gadgets == numbers and piece.blueprints == (0, 3)
    more = request(
        games={"kuhn_poker": ["depth:1", "depth:2"], "coin_toss": "depth:1"},
        cuts=None,
        blueprints=["uniform", "draws:4", "cfr:2"],
        seeds=[0, 1, 2],
        gadgets=after,
        players=0,
        iterations=10,
    )
    changed = setup._replace(
        blueprints=Policy.stack([setup.blueprints, Policy.geometric(kuhn, 2)]), seeds=[*setup.seeds, None]
    )
    assert piece_key(more, changed, build_forest(kuhn, "depth:1"), piece) == piece.key


# --- differences --------------------------------------------------------------------------
