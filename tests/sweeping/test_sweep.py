"""Sweeps: rows equal those of `refine`; finished pieces are neither repeated nor mixed with others.

Killed processes are tested in `test_sweep_killed.py`.
"""

import dataclasses
import importlib
import json
import pathlib
import shutil
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pandas.testing import assert_frame_equal

import jaxgadget
from jaxgadget import (
    BlueprintPrior,
    MaxMargin,
    NoPrior,
    OptimalContinuation,
    Policy,
    Resolving,
    UniformPrior,
    Unsafe,
    enumerate_game,
    game_value,
    load,
    make_blueprints,
    read_sweep,
    refine,
    sweep,
)
from jaxgadget.core import memory as planning
from jaxgadget.core.regret import CFR_PLUS
from jaxgadget.gadgets.context import Immediate
from jaxgadget.games.stepwise import Rules, Step
from jaxgadget.sweeping.store import LATER, MANIFEST_FORMAT, SCHEMA, TIMES, Store
from jaxgadget.sweeping.sweep import Workshop
from jaxgadget.util.store import read_record, write_record
from tests.solving import settings, sweeping

KUHN: dict[str, Any] = {
    "games": "kuhn_poker",
    "cuts": "depth:1",
    "blueprints": ["uniform", "draws:2", "cfr:3"],
    "gadgets": ["unsafe", "resolving"],
    "priors": ["none", "uniform"],
    "epsilons": 0.01,
    "players": (0, 1),
    "seeds": (0, 5),
    "iterations": (4, 7),
    "blueprints_at_once": 4,
}
LANES = [("uniform", None), ("cfr:3", None)] + [(f"dirichlet:{k}", k // 1000) for k in (0, 1, 5000, 5001)]


MODULE: Any = importlib.import_module("jaxgadget.sweeping.sweep")  # the package's `sweep` is the function


def timeless(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns=list(TIMES))


def assert_same_rows(found: pd.DataFrame, expected: pd.DataFrame):
    assert_frame_equal(timeless(found), timeless(expected), check_exact=True)


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keys of the pieces that are solved from here on."""
    keys: list[str] = []
    solve = Workshop.solve

    def counted(self: Workshop, piece: Any) -> pd.DataFrame:
        keys.append(piece.key)
        return solve(self, piece)

    monkeypatch.setattr(Workshop, "solve", counted)
    return keys


class Finished(NamedTuple):
    folder: pathlib.Path
    rows: pd.DataFrame


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A finished sweep, not to be modified."""
    folder = tmp_path_factory.mktemp("finished") / "sweep"
    return Finished(folder, sweep(folder, **sweeping(**KUHN)))


@pytest.fixture
def folder(finished: Finished, tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of it."""
    return pathlib.Path(shutil.copytree(finished.folder, tmp_path / "sweep"))


# --- rows ---------------------------------------------------------------------------------


def test_rows_are_those_of_refine(finished: Finished):
    """To the last bit for lanes that are solved together; every column of `refine`."""
    rows = finished.rows
    tree = enumerate_game(load("kuhn_poker"))
    value = game_value(tree)
    gadgets = [Unsafe(), Resolving(NoPrior()), Resolving(UniformPrior(), 0.01)]
    seen = 0
    for (iterations, player, _), part in rows.groupby(["iterations", "player", "piece"]):
        labels = part["blueprint"].unique().tolist()
        profiles = Policy.stack([make_blueprints(tree, [label]) for label in labels])
        more = {"player": player, "iterations": iterations, "value": value}
        found = refine(tree, "depth:1", profiles, gadgets, **settings(**more)).table
        columns = list(found.columns)
        assert_frame_equal(
            part[columns].reset_index(drop=True).astype(object).where(part[columns].notna().to_numpy(), None),
            found.astype(object).where(found.notna(), None),
            check_exact=True,
        )
        assert set(part["game_value_low"]) == {value[0]} and set(part["game_value_high"]) == {value[1]}
        seen += len(part)
    assert seen == len(rows) == 2 * 2 * 3 * len(LANES)


def test_every_column_has_its_content(finished: Finished):
    rows = finished.rows
    assert list(rows) == SCHEMA.names
    assert set(rows["game"]) == {"kuhn_poker"} and set(rows["cut"]) == {"depth:1"}
    assert set(rows["algorithm"]) == {"cfr+"} and set(rows["dtype"]) == {"float32"}
    assert set(rows["subgames"]) == {2} and set(rows["subgames_kept"]) == {0}
    assert rows["alternative"].isna().eq(rows["gadget"] == "unsafe").all()
    assert not rows["auto"].any() and rows["gifts"].isna().all()
    assert rows["jaxgadget"].eq(jaxgadget.__version__).all() and rows["jax"].eq(jax.__version__).all()
    assert rows["device"].str.startswith("cpu: ").all()
    assert (rows[list(TIMES)] >= 0).all(axis=None) and (rows["run_seconds"] > 0).all()
    assert rows["piece_rows"].eq(rows.groupby("piece")["piece"].transform("size")).all()
    assert str(rows["seed"].dtype) == "Int64"


def test_rows_are_in_order_with_seeds(finished: Finished):
    """By iterations, player and block of blueprints; within a piece by gadget, then blueprint."""
    rows = finished.rows
    blocks = [LANES[:3], LANES[3:]]  # at most four at once, of equal size
    settings = {"unsafe": [("none", 0.0)], "resolving": [("none", 0.0), ("uniform", 0.01)]}
    expected = [
        (iterations, player, gadget, prior, epsilon, label, seed)
        for iterations in (4, 7)
        for player in (0, 1)
        for block in blocks
        for gadget, several in settings.items()
        for prior, epsilon in several
        for label, seed in block
    ]
    names = ["iterations", "player", "gadget", "prior", "epsilon", "blueprint", "seed"]
    found = [tuple(None if x is pd.NA else x for x in row) for row in rows[names].astype(object).to_numpy()]
    assert found == expected
    assert rows["piece"].nunique() == 2 * 2 * 2


def test_read_sweep_returns_the_finished_pieces(finished: Finished, folder: pathlib.Path):
    assert_frame_equal(read_sweep(folder), finished.rows, check_exact=True)
    gone = finished.rows["piece"].iloc[0]
    (folder / "pieces" / f"{gone}.parquet").unlink()
    left = finished.rows[finished.rows["piece"] != gone].reset_index(drop=True)
    assert_frame_equal(read_sweep(folder), left, check_exact=True)
    shutil.rmtree(folder / "pieces")
    nothing = read_sweep(folder)
    assert len(nothing) == 0 and list(nothing) == SCHEMA.names
    with pytest.raises(ValueError, match=r"manifest\.json"):
        read_sweep(folder / "games")


def test_linear_programs_and_priors_as_objects(tmp_path: pathlib.Path):
    settings = {"algorithm": "lp", "players": 1, "blueprints": ["geometric:2"], "epsilons": "auto"}
    own = Resolving(BlueprintPrior(clip=0.1), 0.2)
    rows = sweep(
        tmp_path / "lp",
        **sweeping(
            games="kuhn_poker", cuts="depth:1", gadgets=["resolving", own], priors=UniformPrior(), **settings
        ),
    )
    tree = enumerate_game(load("kuhn_poker"))
    gadgets = [Resolving(UniformPrior(), "auto"), own]
    expected = refine(tree, "depth:1", Policy.geometric(tree, 2), gadgets, player=1, algorithm="lp").table
    assert_frame_equal(rows[list(expected)], expected, check_dtype=False, check_exact=True)
    assert rows["auto"].tolist() == [True, False] and rows["prior"].tolist() == [
        "uniform",
        "blueprint, clip 0.1",
    ]
    assert set(rows["dtype"]) == {"float64"} and set(rows["algorithm"]) == {"lp"}
    assert rows["seed"].isna().all()


@dataclasses.dataclass(frozen=True)
class Tilted(UniformPrior):
    """A user-defined prior."""

    share: float = 0.5
    name: ClassVar[str] = "tilted"

    def follow(self, ranges: Any) -> jax.Array:
        return super().follow(ranges) * (2 * self.share)


def test_a_users_own_prior(tmp_path: pathlib.Path, solved: list[str]):
    asked: dict[str, Any] = {"games": {"kuhn_poker": "depth:1"}, "blueprints": "uniform", "iterations": 4}
    asked |= {"gadgets": "resolving", "players": 0, "epsilons": 0.3}
    rows = sweep(
        tmp_path, **sweeping(priors=[Tilted(0.1), Tilted(0.5), Tilted(0.1), UniformPrior()], **asked)
    )
    assert rows["prior"].tolist() == ["tilted, share 0.1", "tilted", "uniform"], "each once"
    refined = rows["refined_exploitability"].tolist()
    assert refined[0] != refined[1] == refined[2]
    assert len(sweep(tmp_path, **sweeping(priors=[Tilted(0.1), Tilted(0.5), UniformPrior()], **asked))) == 3
    assert len(solved) == 1
    asked_now = r"(?s)gadgets: resolving, Tilted, share 0\.1 prior, .* removed.*, share 0\.2 prior, .* added"
    with pytest.raises(ValueError, match=asked_now):
        sweep(tmp_path, **sweeping(priors=[Tilted(0.2), Tilted(0.5), UniformPrior()], **asked))


class Loose(Immediate):
    """A prior that has no stable identity."""

    name = "loose"
    follow = weight = choose = UniformPrior.follow


# --- games --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Pennies(Rules[str]):
    """Each player shows a side of a coin, then the loser may double; a user-defined game."""

    prize: float = 1.0
    depth: int = 1
    name: ClassVar[str] = "own_pennies"
    actions: ClassVar[tuple[str, ...]] = ("heads", "tails")

    def initial_state(self) -> str:
        return ""

    def actors(self, state: str) -> tuple[int, ...]:
        return () if len(state) == 3 else (len(state) % 2,)

    def legal_actions(self, state: str, player: int) -> tuple[int, ...]:
        return (0, 1)

    def step(self, state: str, move: Any) -> Step[str]:
        after = state + "ht"[move]
        if len(after) < 3:
            return Step(after)
        return Step(after, reward=(self.prize if after[0] == after[1] else -1) * (1 + move))

    def cuts(self) -> dict[str, Any]:
        return {"later": lambda histories: histories.num_moves == self.depth}


EFG = """EFG 2 R "pennies" { "a" "b" }
p "" 1 1 "" { "h" "t" } 0
p "" 2 1 "" { "h" "t" } 0
t "" 1 "" { PRIZE, -PRIZE }
t "" 2 "" { -1, 1 }
p "" 2 1 "" { "h" "t" } 0
t "" 3 "" { -1, 1 }
t "" 4 "" { 1, -1 }
"""
FAST: dict[str, Any] = {"blueprints": "uniform", "gadgets": "unsafe", "players": 0, "iterations": 3}


@pytest.fixture
def games(tmp_path: pathlib.Path) -> dict[Any, Any]:
    path = tmp_path / "pennies.efg"
    path.write_text(EFG.replace("PRIZE", "2"))
    return {path: ["depth:1"], Pennies(): ("depth:1", "later")}


def test_games_of_all_kinds(games: dict[Any, Any], tmp_path: pathlib.Path):
    rows = sweep(tmp_path / "many", **sweeping(games=games, **FAST))
    name = load(tmp_path / "pennies.efg").name
    expected = [(name, "depth:1"), ("own_pennies", "depth:1"), ("own_pennies", "later")]
    assert list(zip(rows["game"], rows["cut"], strict=True)) == expected
    assert_frame_equal(sweep(tmp_path / "many", **sweeping(games=games, **FAST)), rows, check_exact=True)
    alone = sweep(tmp_path / "one", **sweeping(games=[Pennies()], cuts=["later"], **FAST))
    assert_same_rows(alone, rows[2:].reset_index(drop=True))


def test_an_efg_file_that_changed(games: dict[Any, Any], tmp_path: pathlib.Path):
    path = tmp_path / "pennies.efg"
    sweep(tmp_path / "sweep", **sweeping(games=path, cuts="depth:1", **FAST))
    path.write_text(EFG.replace("PRIZE", "3"))
    with pytest.raises(ValueError, match=r"pennies\.efg"):
        sweep(tmp_path / "sweep", **sweeping(games=path, cuts="depth:1", **FAST))


def test_only_so_many_histories_are_kept(
    games: dict[Any, Any], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    """Games are enumerated again when their pieces are solved, and the rows are unchanged."""
    expected = sweep(tmp_path / "kept", **sweeping(games=games, **FAST))
    names: list[str] = []

    def counted(game: Any, form: str, **more: Any) -> Any:
        names.append(game.name)
        return enumerate_game(game, **more)

    monkeypatch.setattr("jaxgadget.sweeping.request.lay_out", counted)
    monkeypatch.setattr(MODULE, "MAX_CACHED_NODES", 1)
    assert_same_rows(sweep(tmp_path / "dropped", **sweeping(games=games, **FAST)), expected)
    assert names == 2 * [load(tmp_path / "pennies.efg").name, "own_pennies"]


def test_a_user_defined_game_whose_rules_changed(tmp_path: pathlib.Path, solved: list[str]):
    sweep(tmp_path, **sweeping(games=Pennies(), cuts="later", **FAST))
    assert len(sweep(tmp_path, **sweeping(games=Pennies(), cuts="later", **FAST))) == len(solved) == 1
    for extend in (False, True):
        with pytest.raises(ValueError, match="'own_pennies': its rules"):
            sweep(tmp_path, extend=extend, **sweeping(games=Pennies(prize=2), cuts="later", **FAST))
    with pytest.raises(ValueError, match="later"):
        sweep(tmp_path, **sweeping(games=Pennies(depth=2), cuts="later", **FAST))
    assert (
        len(
            sweep(
                tmp_path,
                extend=True,
                **sweeping(games=Pennies(depth=2), cuts="later", **FAST | {"iterations": [3, 4]}),
            )
        )
        == 2
    )
    assert len(solved) == 3, "nothing is common"


# --- resuming -----------------------------------------------------------------------------


def test_a_finished_sweep_solves_nothing(finished: Finished, folder: pathlib.Path, solved: list[str]):
    assert_frame_equal(sweep(folder, **sweeping(**KUHN)), finished.rows, check_exact=True)
    assert solved == []


def test_only_missing_pieces_are_solved_again(finished: Finished, folder: pathlib.Path, solved: list[str]):
    keys = finished.rows["piece"].unique().tolist()
    rng = np.random.default_rng(0)
    gone = [key for key in keys if rng.random() < 0.3]
    assert 0 < len(gone) < len(keys)
    for key in gone:
        (folder / "pieces" / f"{key}.parquet").unlink()
        (folder / "pieces" / f".{key}.parquet.half").write_bytes(b"PAR1")
    rows = sweep(folder, **sweeping(**KUHN))
    assert solved == gone
    assert_same_rows(rows, finished.rows)
    untouched = ~rows["piece"].isin(gone)
    assert_frame_equal(rows[untouched], finished.rows[untouched], check_exact=True)
    assert not list((folder / "pieces").glob(".*"))


def test_blueprints_that_are_gone_are_made_again(finished: Finished, folder: pathlib.Path, solved: list[str]):
    shutil.rmtree(folder / "games")
    gone = finished.rows["piece"].iloc[-1]
    (folder / "pieces" / f"{gone}.parquet").unlink()
    assert_same_rows(sweep(folder, **sweeping(**KUHN)), finished.rows)
    assert solved == [gone]


def test_blueprints_that_were_exchanged_are_noticed(finished: Finished, folder: pathlib.Path):
    (path,) = (folder / "games").glob("*.npz")
    tree = enumerate_game(load("kuhn_poker"))
    found = Policy.load(path, tree)
    Policy(tree, found.probabilities, found.labels[::-1]).save(path)
    (folder / "pieces" / f"{finished.rows['piece'].iloc[0]}.parquet").unlink()
    with pytest.raises(ValueError, match="sweep"):
        sweep(folder, **sweeping(**KUHN))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"iterations": [4]}, "iterations: 7 removed"),
        ({"players": (1, 0)}, "players: in another order"),
        (
            {"epsilons": 0.1},
            "gadgets: resolving, uniform prior, epsilon 0.01 removed\ngadgets: resolving, uni",
        ),
        ({"blueprints_at_once": 3}, "blueprints_at_once: 4 before, 3 now"),
    ],
)
def test_another_configuration_is_refused(folder: pathlib.Path, change: dict[str, Any], complaint: str):
    """One line per difference, in the words of tables."""
    before = sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*.*") if path.suffix != ".lock")
    with pytest.raises(ValueError, match=rf"has other settings: choose another.*extend=True.*\n{complaint}"):
        sweep(folder, **sweeping(**KUHN | change))
    after = sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*.*") if path.suffix != ".lock")
    assert after == before, "nothing was touched"


def test_extending_keeps_common_pieces(finished: Finished, folder: pathlib.Path, solved: list[str]):
    apart = OptimalContinuation(NoPrior())
    more = KUHN | {"iterations": (7, 9), "players": 1, "gadgets": [apart, "unsafe", "resolving"]}
    rows = sweep(folder, extend=True, **sweeping(**more))
    common = (rows["iterations"] == 7) & (rows["gadget"] != apart.name)
    assert set(solved) == set(rows.loc[~common, "piece"]) and len(solved) == 3 * 2
    index = ["piece", "blueprint", "gadget", "prior"]
    old, kept = finished.rows.set_index(index), rows[common].set_index(index)
    assert old.index.is_unique and len(kept) == len(finished.rows) / 4 == 3 * len(LANES)
    assert_frame_equal(kept, old.loc[kept.index], check_exact=True)
    assert_frame_equal(read_sweep(folder), rows, check_exact=True)
    manifest = json.loads((folder / "manifest-1.json").read_text())
    assert manifest["request"]["iterations"] == [4, 7], "the old one is kept beside"
    solved.clear()
    assert_frame_equal(sweep(folder, extend=True, **sweeping(**KUHN)), finished.rows, check_exact=True)
    assert solved == [] and (folder / "manifest-2.json").exists()


def test_extending_by_blueprints_keeps_whole_blocks(tmp_path: pathlib.Path, solved: list[str]):
    """Four blueprints in blocks of two; two more form another block."""
    asked = FAST | {
        "games": "kuhn_poker",
        "cuts": "depth:1",
        "blueprints": "draws:2",
        "blueprints_at_once": 2,
    }
    before = sweep(tmp_path, **sweeping(seeds=(3, 1), **asked))
    solved.clear()
    rows = sweep(tmp_path, extend=True, **sweeping(seeds=(3, 1, 2), **asked))
    assert rows["seed"].tolist() == [3, 3, 1, 1, 2, 2]
    assert solved == [rows["piece"].iloc[-1]]
    assert_frame_equal(rows[:4], before, check_exact=True)


def test_other_versions_are_never_mixed_silently(finished: Finished, folder: pathlib.Path, solved: list[str]):
    path = folder / "manifest.json"
    manifest = read_record(path, MANIFEST_FORMAT)
    manifest["versions"] |= {"jax": "0.0.1", "device": "abacus"}
    write_record(path, MANIFEST_FORMAT, manifest)
    with pytest.warns(UserWarning, match="other versions"):
        again = sweep(folder, **sweeping(**KUHN))
    assert_frame_equal(again, finished.rows, check_exact=True)  # complete: no mixing is possible
    gone = finished.rows["piece"].iloc[3]
    (folder / "pieces" / f"{gone}.parquet").unlink()
    with pytest.raises(ValueError, match="version"):
        sweep(folder, **sweeping(**KUHN))
    assert solved == []
    assert_same_rows(sweep(folder, extend=True, **sweeping(**KUHN)), finished.rows)
    assert solved == [gone]
    (folder / "pieces" / f"{gone}.parquet").unlink()
    assert len(sweep(folder, **sweeping(**KUHN))) == len(finished.rows), (
        "the manifest knows these versions now"
    )


@pytest.mark.parametrize("base", [Resolving, OptimalContinuation])
def test_indistinguishable_kinds_are_refused(base: type[Any], tmp_path: pathlib.Path):
    """In one batch or in separate batches."""

    def make() -> type[Any]:
        @dataclasses.dataclass(frozen=True)
        class Own(base):
            pass

        return Own

    with pytest.raises(ValueError, match="two kinds have the same"):
        sweep(
            tmp_path,
            **sweeping(games="kuhn_poker", cuts="depth:1", **FAST | {"gadgets": [make()(), make()()]}),
        )
    assert not list((tmp_path / "pieces").iterdir())


def test_a_blueprint_file_that_changed(tmp_path: pathlib.Path):
    tree, path = enumerate_game(load("kuhn_poker")), tmp_path / "own.npz"
    Policy.geometric(tree, 2).save(path)
    asked = FAST | {"blueprints": [f"file:{path}", "uniform"]}
    rows = sweep(tmp_path / "sweep", **sweeping(games="kuhn_poker", cuts="depth:1", **asked))
    assert rows["blueprint"].tolist() == [f"file:{path}", "uniform"]
    Policy.geometric(tree, 3).save(path)
    with pytest.raises(ValueError, match=r"own\.npz"):
        sweep(tmp_path / "sweep", **sweeping(games="kuhn_poker", cuts="depth:1", **asked))
    changed = sweep(tmp_path / "sweep", extend=True, **sweeping(games="kuhn_poker", cuts="depth:1", **asked))
    assert changed["refined_exploitability"][0] != rows["refined_exploitability"][0]
    path.unlink()
    with pytest.raises(ValueError, match=r"own\.npz"):
        sweep(tmp_path / "sweep", **sweeping(games="kuhn_poker", cuts="depth:1", **asked))


# --- damage -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "what",
    [
        "foreign",
        "half",
    ],
)
def test_a_broken_piece_is_named(finished: Finished, folder: pathlib.Path, what: str):
    keys = finished.rows["piece"].unique()
    path, other = (folder / "pieces" / f"{key}.parquet" for key in keys[:2])
    if what == "foreign":
        shutil.copy(other, path)
    elif what == "short":
        pq.write_table(pq.read_table(path).slice(1), path)
    else:
        path.write_bytes(path.read_bytes()[:500] if what == "half" else b"a,b\n1,2\n")
    said = "holds other rows than it should" if what == "foreign" else "is damaged: .*"
    with pytest.raises(ValueError, match=f"{path.name}' {said}; delete it and sweep again"):
        sweep(folder, **sweeping(**KUHN))
    with pytest.raises(ValueError, match=said):
        read_sweep(folder)
    path.unlink()
    assert_same_rows(sweep(folder, **sweeping(**KUHN)), finished.rows)


def test_numbers_that_were_changed_in_a_piece_are_noticed(finished: Finished, folder: pathlib.Path):
    """Only the checksum reveals the change; pieces written by version 0.2 are read."""
    key = finished.rows["piece"].iloc[0]
    path = folder / "pieces" / f"{key}.parquet"
    table = pq.read_table(path)
    column = table.schema.get_field_index("refined_exploitability")
    numbers = pc.add(table.column(column), 1e-3)
    changed = table.set_column(column, table.schema.field(column), numbers)
    pq.write_table(changed, path)
    with pytest.raises(ValueError, match=f"{key}.parquet' is damaged: its checksum does not match its rows"):
        read_sweep(folder)
    pq.write_table(changed.replace_schema_metadata(), path)
    with pytest.raises(
        ValueError, match=f"{key}.parquet' is damaged: its checksum is missing.*; delete it and"
    ):
        read_sweep(folder)
    then = pa.schema([field for field in SCHEMA if field.name not in LATER])
    pq.write_table(pa.Table.from_pandas(table.to_pandas(), schema=then, preserve_index=False), path)
    assert_frame_equal(read_sweep(folder), finished.rows, check_exact=True)
    for name in LATER:  # in the format of release 0.3 and later, with checksums
        newer = pa.schema([*then, SCHEMA.field(name)])
        pq.write_table(pa.Table.from_pandas(table.to_pandas(), schema=newer, preserve_index=False), path)
        with pytest.raises(ValueError, match="its checksum is missing"):
            read_sweep(folder)


def test_a_full_disk_loses_the_piece_in_flight_only(
    finished: Finished, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    gone = finished.rows["piece"].unique().tolist()[:3]
    for key in gone:
        (folder / "pieces" / f"{key}.parquet").unlink()
    written: list[str] = []
    write = pq.write_table

    def full(table: Any, file: Any) -> None:
        if written:
            file.write(b"PAR1")
            raise OSError(28, "No space left on device")
        written.append("one")
        write(table, file)

    with monkeypatch.context() as patch:
        patch.setattr("pyarrow.parquet.write_table", full)
        with pytest.raises(OSError, match="No space left"):
            sweep(folder, **sweeping(**KUHN))
    assert [(folder / "pieces" / f"{key}.parquet").exists() for key in gone] == [True, False, False]
    assert not list(folder.rglob(".*"))
    assert_same_rows(sweep(folder, **sweeping(**KUHN)), finished.rows)


def test_an_interrupt_lets_go_of_everything(
    finished: Finished, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    gone = finished.rows["piece"].iloc[0]
    (folder / "pieces" / f"{gone}.parquet").unlink()

    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MODULE, "refine_subgames", interrupt)
        with pytest.raises(KeyboardInterrupt):
            sweep(folder, **sweeping(**KUHN))
    with Store(folder).lock(gone, wait=False) as ours:
        assert ours
    assert_same_rows(sweep(folder, **sweeping(**KUHN)), finished.rows)


# --- locks of pieces ----------------------------------------------------------------------


def test_a_piece_that_another_process_holds_is_skipped(
    finished: Finished, folder: pathlib.Path, solved: list[str], monkeypatch: pytest.MonkeyPatch
):
    """Another process holds the first of two pieces and has finished it by the time it is needed."""
    taken, other = finished.rows["piece"].unique().tolist()[:2]
    paths = [folder / "pieces" / f"{key}.parquet" for key in (taken, other)]
    there = paths[0].read_bytes()
    for path in paths:
        path.unlink()
    waits: list[float] = []
    with Store(folder).lock(taken, wait=False):

        def done_meanwhile(seconds: float) -> None:
            waits.append(seconds)
            paths[0].write_bytes(there)

        monkeypatch.setattr(MODULE.time, "sleep", done_meanwhile)
        assert_same_rows(sweep(folder, **sweeping(**KUHN)), finished.rows)
    assert solved == [other] and len(waits) == 1


def test_a_holder_whose_claim_expired_does_not_overwrite(
    finished: Finished, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    """Its claim expired while it solved, and another process has written the piece."""
    key = finished.rows["piece"].iloc[0]
    path = folder / "pieces" / f"{key}.parquet"
    theirs = path.read_bytes()
    path.unlink()
    solve = Workshop.solve

    def sleep_and_solve(workshop: Any, piece: Any) -> pd.DataFrame:
        rows = solve(workshop, piece)
        path.write_bytes(theirs)
        return rows.assign(device="another")

    monkeypatch.setattr(Workshop, "solve", sleep_and_solve)
    assert_same_rows(sweep(folder, **sweeping(**KUHN)), finished.rows)
    assert path.read_bytes() == theirs


def test_a_holder_whose_claim_expired_survives_the_new_ones_cleaning(
    finished: Finished, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    """The new holder deletes the old one's temporary file; the old one checks again before it renames."""
    key = finished.rows["piece"].iloc[0]
    path = folder / "pieces" / f"{key}.parquet"
    path.unlink()
    cleared: list[str] = []
    write = pq.write_table

    def clear(table: Any, file: Any) -> None:
        write(table, file)
        if not cleared:
            cleared.extend(entry.name for entry in path.parent.glob(f".{key}*"))
            Store(folder).clean(path.parent, key)

    monkeypatch.setattr("pyarrow.parquet.write_table", clear)
    assert_same_rows(sweep(folder, **sweeping(**KUHN)), finished.rows)
    assert len(cleared) == 1 and path.exists() and not list(path.parent.glob(".*"))


# --- unconstrained arguments --------------------------------------------------------------


def test_pieces_do_not_depend_on_free_memory(
    finished: Finished, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    listed = json.loads((finished.folder / "manifest.json").read_text())["pieces"]
    for number, pages in enumerate((1 << 14, 1 << 30)):
        with monkeypatch.context() as patch:
            patch.setattr(planning.os, "sysconf", lambda name, p=pages: p if "PHYS" in name else 4096)
            patch.setattr(planning, "find_memory", lambda place, ours=0, p=pages: 4096 * p)
            rows = sweep(tmp_path / str(number), **sweeping(**KUHN))
        found = json.loads((tmp_path / str(number) / "manifest.json").read_text())["pieces"]
        assert found == listed
        assert_same_rows(rows, finished.rows)


def test_a_resumed_sweep_keeps_to_the_chunks_of_its_manifest(
    finished: Finished, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    """Another machine would choose other chunks."""
    chunks: list[int] = []
    refine_subgames = MODULE.refine_subgames

    def look(*args: Any) -> Any:
        refinement = refine_subgames(*args)
        chunks.extend(plan.chunk for plan in refinement.plans)
        return refinement

    monkeypatch.setattr(MODULE, "refine_subgames", look)
    monkeypatch.setattr("jaxgadget.sweeping.pieces.suggest_chunk", lambda *args: 1)
    manifest = json.loads((folder / "manifest.json").read_text())
    for piece in manifest["pieces"][-2:]:
        (folder / "pieces" / f"{piece['key']}.parquet").unlink()
    sweep(folder, **sweeping(**KUHN))
    assert chunks == [piece["chunk"] for piece in manifest["pieces"][-2:]] == [9, 9]


# --- bad input ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"games": ["kuhn_poker", "kuhn_poker"]}, "kuhn_poker"),
        ({"cuts": [lambda tree: tree]}, "has no name that identifies it in a resumed sweep"),
        ({"gadgets": [MaxMargin(Loose())]}, "a resumed sweep must tell it from others"),
        ({"players": 2}, "player="),
        ({"algorithm": CFR_PLUS}, "algorithm="),
        ({"dtype": "int8"}, "int8"),
    ],
)
def test_bad_input(tmp_path: pathlib.Path, change: dict[str, Any], complaint: str):
    with pytest.raises(ValueError, match=complaint):
        sweep(tmp_path / "sweep", **sweeping(**KUHN | change))
    assert not (tmp_path / "sweep" / "manifest.json").exists()
