"""What a sweep is asked for, in JSON, and how it is cut into pieces."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from jaxgadget import (
    ArrayPrior,
    ArrayValues,
    BlueprintPrior,
    BlueprintValues,
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
    enumerate_game,
    load,
    make_blueprints,
)
from jaxgadget.gadgets.gadget import describe
from jaxgadget.opponents.opponent import list_opponents
from jaxgadget.sweeping.identity import differences, fingerprint, identity, label
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
def kuhn() -> HistoryTree:
    return enumerate_game(load("kuhn_poker"))


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


def test_numpy_numbers_are_numbers():
    numpy = request(seeds=np.arange(2), players=np.arange(2), iterations=np.array([10, 20]), dtype=np.float32)
    assert json.dumps(numpy.record) == json.dumps(request(players=[0, 1]).record)


def test_seeds_matter_only_to_draws():
    assert request(blueprints="uniform").record == request(blueprints="uniform", seeds=7).record
    assert request().record != request(seeds=7).record


def test_gadgets_are_there_once():
    """Names with priors and ε, then gadgets as they are; what has been named already is left out."""
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


def test_linear_programs_have_one_number_of_iterations():
    asked = request(algorithm="lp")
    assert list(asked.solvers) == [0] and asked.exact and not request().exact


# --- identity -----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Mine(UniformPrior):
    share: float = 0.5


class Hidden(Mine):
    """With something that no field says."""

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


def test_identity_of_containers_and_numbers():
    assert identity((1, "a", None, True, np.float64(0.5), np.int64(3))) == [1, "a", None, True, 0.5, 3]
    assert identity(frozenset("ba")) == ["a", "b"]
    for nameless in (lambda: 0, object(), UniformPrior):
        with pytest.raises(ValueError, match="a sweep must tell it from others"):
            identity(nameless)


def test_a_fingerprint_sees_rules_and_names(kuhn: HistoryTree):
    again = enumerate_game(load("kuhn_poker"))
    assert again is not kuhn and fingerprint(again) == fingerprint(kuhn)
    payoff = kuhn.payoff.copy()
    payoff[..., -1] += 1
    for change in ({"payoff": payoff}, {"infostate": kuhn.infostate + 1}, {"chance": kuhn.chance * 0.5}):
        assert fingerprint(dataclasses.replace(kuhn, cache={}, **change)) != fingerprint(kuhn)
    vars(again).update(infoset_names=kuhn.infoset_names[::-1])
    again.cache.clear()
    assert fingerprint(again) != fingerprint(kuhn)


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


def test_linear_programs_have_a_gadget_a_piece(setup: Setup):
    """They are solved one after the other in any case, and this loses less when interrupted."""
    asked = request(algorithm="lp", iterations=10, dtype="float64")
    found = pieces(asked, setup)
    assert len({piece.key for piece in found}) == len(found) == 2 * 5 * 3
    for player in (0, 1):
        covered = [(piece.gadgets, piece.blueprints) for piece in found if piece.player == player]
        assert sorted(covered) == [((k,), (b, b + 3)) for k in range(5) for b in (0, 3, 6)]


def test_a_key_depends_on_what_the_rows_depend_on(setup: Setup, kuhn: HistoryTree):
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
    """So that extending keeps what both have in common."""
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


def test_chunks_keep_to_a_memory_limit(setup: Setup):
    wide = setup._replace(blueprints=Policy.stack([setup.blueprints] * 40), seeds=setup.seeds * 40)
    sizes = {}
    for limit in (None, 10**9, 40_000):
        asked = request(blueprints_at_once=1000, iterations=10, memory_limit=limit)
        sizes[limit] = {piece.chunk for piece in pieces(asked, wide)}
    assert sizes[None] == sizes[10**9] and max(sizes[40_000]) < min(sizes[None])


@pytest.mark.parametrize("change", [{"gadgets": (9,)}, {"blueprints": (8, 12)}, {"iterations": 11}])
def test_pieces_of_another_request(setup: Setup, change: dict[str, Any]):
    asked = request()
    piece = dataclasses.replace(pieces(asked, setup)[0], **change)
    with pytest.raises(ValueError, match="piece"):
        piece_key(asked, setup, build_forest(setup.tree, "depth:1"), piece)


@pytest.mark.parametrize("record", [{}, {"gadgets": 3, "blueprints": 4}, {"gadgets": [], "blueprints": []}])
def test_pieces_that_are_none(record: dict[str, Any]):
    with pytest.raises(ValueError, match="describes no piece of a sweep"):
        Piece.read(record)


# --- differences --------------------------------------------------------------------------


def test_differences_in_words():
    old = {"a": 1, "b": [1, 2], "c": {"x": 1, "y": [1]}, "d": [1, 2], "same": [0]}
    new = {"a": 2, "b": [2, 3], "c": {"x": 1, "y": [2]}, "d": [2, 1], "same": [0], "e": "new"}
    assert differences(old, new) == [
        "a: 1 then, 2 now",
        "b: 1 only then",
        "b: 3 only now",
        "c: y: 1 only then",
        "c: y: 2 only now",
        "d: in another order",
        "e: none then, new now",
    ]
    assert differences(old, old) == []
    assert differences({"f": None}, {"f": [1, 2]}) == ["f: 1 only now", "f: 2 only now"]
    assert differences({"f": [1]}, {}) == ["f: 1 only then"]


def test_a_folder_whose_network_was_trained_again_is_told_in_words():
    """Digests would tell nobody anything."""

    def gadget(fingerprint: str) -> dict[str, Any]:
        source = {"class": "a.Folder", "folder": "network", "fingerprint": fingerprint}
        return {"class": "jaxgadget.gadgets.root_gadgets.Resolving", "name": "resolving", "source": source}

    (line,) = differences({"gadgets": [gadget("0" * 64)]}, {"gadgets": [gadget("1" * 64)]})
    assert line == (
        "gadgets: resolving, source Folder, folder network is not what it was: its folder holds another "
        "network now"
    )
    (line,) = differences({"b": [{"class": "a.B", "prior": None}]}, {"b": [{"class": "a.B"}]})
    assert line == "b: B is not what it was"


@pytest.mark.parametrize(
    ("gadget", "said"),
    [
        (Unsafe(), "unsafe"),
        (Resolving(NoPrior()), "resolving"),
        (Resolving(UniformPrior(), 0.01), "resolving, uniform prior, epsilon 0.01"),
        (MaxMargin(epsilon="auto"), "max-margin, blueprint prior, epsilon auto"),
        (Resolving(BlueprintPrior(clip=0.5)), "resolving, blueprint, clip 0.5 prior, epsilon 0.001"),
        (
            ReachResolving(NoPrior(), alternative=BlueprintValues(), gifts="estimate", scaled=True),
            "reach-resolving, alternative blueprint, gifts estimate, scaled True",
        ),
        (Resolving(Mine(0.25), 0.5), "resolving, Mine, share 0.25 prior, epsilon 0.5"),
    ],
)
def test_a_label_is_what_tables_call_a_gadget(gadget: Any, said: str):
    """Not what JSON has of it; of gadgets of the package it begins as in labels of policies."""
    record = json.loads(json.dumps(identity(gadget)))
    assert label(record) == said
    if not isinstance(gadget.prior, Mine) and not isinstance(gadget, ReachResolving):
        assert label(record) == describe(gadget)


def test_labels_tell_arrays_apart():
    values = np.arange(3.0)
    one, two = (label(identity(Resolving(ArrayPrior(array)))) for array in (values, values + 1))
    assert one != two and one.startswith("resolving, array, values array ")


def test_sweeps_that_were_begun_before_there_were_spreads_go_on():
    """A gadget without one is what it was; one with a spread is told apart."""
    usual = identity(Resolving())
    assert set(usual) == {"class", "prior", "epsilon", "alternative"}
    assert identity(Resolving(spread=0.1)) == usual | {"spread": 0.1}
    assert identity(Resolving(spread=0.1)) != identity(Resolving(spread=0.2))
