"""One cell of every experiment's table is recomputed and compared with the stored data.

Stored data that the current code does not reproduce are stale: recompute that experiment (move its file in
`data/` away, then run `python -m experiments STUDY NAME`), and correct the README that quotes it.

All numbers of a row are compared except times and memory. Linear programs agree up to rounding, CFR up to the
effect of another summation order over many iterations. A linear program may have many solutions with
different exploitabilities; these are compared, too, since tables show them: they are HiGHS's, and another
version may require new data.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.__main__ import STUDIES
from experiments.common import GOOFSPIEL, LIARS_DICE, tree_of
from experiments.continuation import closing
from experiments.decomposition import figure4
from experiments.holdem import figures
from experiments.knowledge import common as knowledge
from experiments.knowledge import generation
from experiments.nested import large
from experiments.nested.common import gadgets as nested_gadgets
from experiments.off_tree.common import leduc
from experiments.opponents import common as opponents
from experiments.performance import grid
from experiments.refinements.common import sweep_grid
from experiments.refinements.sensitivity import LargestPrior
from experiments.study import Experiment, Settings, Study
from jaxgadget import (
    BlueprintPrior,
    ExactValues,
    MaxMargin,
    NoPrior,
    OptimalContinuation,
    Policy,
    ReachMaxMargin,
    ReachResolving,
    ResolvedValues,
    Resolving,
    UniformPrior,
    Unsafe,
)
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.policy.blueprints import make_blueprints

pytestmark = pytest.mark.optimised

EXACT, ITERATED = 1e-9, 1e-3
"""Tolerances, absolute and relative, of linear programs and of regret matching.

Another summation order changes regrets by rounding, which iterations amplify, in these cells up to 6e-4.
"""

ROW_NUMBERS = frozenset(
    (
        "epsilon p noise seed player depth step entries iterations num_deals considered below above buckets "
        "hands action horizon game trunk_iterations subgame_iterations resolve_iterations"
    ).split()
)
"""Numeric columns that identify a row, in addition to all columns of names."""

MACHINE = ("seconds", "bytes", "memory", "GiB", "prepared", "jaxgadget", "jax", "python", "device", "dtype")
"""Parts of the names of columns that depend on the machine and versions."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """A part of an experiment's table, and the changes that reduce the experiment to it.

    Attributes:
      key: items of the key of the piece that is computed; the first match counts.
      changes: other values of attributes of the experiment's module, or of others by full name.
      tolerance: the largest difference of numbers, absolute and relative to the stored one.
      without: columns that are ignored.
      results: columns of `ROW_NUMBERS` or `MACHINE` that are results here.
      rows: values of columns, one or a list, that select the rows to compare; all by default.
    """

    key: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    tolerance: float = EXACT
    without: Sequence[str] = ()
    results: Sequence[str] = ()
    rows: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])


def sweep_of(**smaller: Any) -> dict[str, Any]:
    """Changes to an experiment that is a sweep: other arguments of its grid."""

    def smaller_grid(settings: Settings, name: str, games: Any, **given: Any) -> pd.DataFrame:
        return sweep_grid(settings, name, **{"games": games, **given, **smaller})

    return {"sweep_grid": smaller_grid}


NARROW = "167 × 246 hands"
LEDUC: dict[str, Any] = {"games": {"leduc_poker": ("flop",)}, "players": (0,)}
CHECKPOINT = "cfr:55"
FEW: tuple[Gadget, ...] = (Resolving(BlueprintPrior()), MaxMargin(NoPrior()))
BEST = OptimalContinuation(NoPrior())

every_method = closing._methods  # pyright: ignore[reportPrivateUsage]


def exact_methods(*given: Any) -> list[tuple[str, str, Gadget]]:
    """Methods of `continuation/closing` without a network, random numbers or a thousand iterations."""
    sources = ("best response", "exact", "iterations")
    return [
        (source, method, gadget)
        for source, method, gadget in every_method(*given)
        if source in sources and "continuation" not in method and not method.startswith("1000")
    ]


def one_blueprint(settings: Settings, game: str) -> Policy:
    """Instead of all blueprints of `continuation`."""
    return make_blueprints(tree_of(game), [CHECKPOINT])


def not_run(problem: Any) -> Callable[[int], None]:
    """Instead of a loop whose iterations are timed."""
    return lambda count: None


NO_SEARCHES = pd.DataFrame({"game": [], "step": [], "quantity": [], "value": []})
MEASURED = 362
"""Iterations of all subgames in the time of a network's trunk, which `continuation/play` measured."""


CELLS: dict[str, Cell] = {
    "refinements/figure2": Cell(
        changes=sweep_of(**LEDUC, blueprints="draws:1", gadgets=(*FEW, BEST)), tolerance=ITERATED
    ),
    "refinements/figure3": Cell(
        changes=sweep_of(**LEDUC, gadgets=FEW, iterations=(10, 100)), tolerance=ITERATED
    ),
    "refinements/figure19": Cell(
        changes=sweep_of(**LEDUC, blueprints="draws:1", gadgets=(*FEW, BEST)), without=["iterations"]
    ),
    "refinements/sensitivity": Cell(
        changes=sweep_of(
            games=LEDUC["games"],
            blueprints="draws:1",
            gadgets=(
                Resolving(BlueprintPrior(), 0.1),
                MaxMargin(BlueprintPrior(0.1)),
                Resolving(LargestPrior()),
            ),
        ),
        tolerance=ITERATED,
    ),
    "refinements/reach": Cell(
        changes=sweep_of(
            **LEDUC, blueprints="draws:1", gadgets=(ReachResolving(UniformPrior()), ReachMaxMargin(NoPrior()))
        ),
        tolerance=ITERATED,
    ),
    "refinements/larger": Cell(
        changes=sweep_of(
            games={"leduc_poker(num_ranks=5)": ("flop",)}, blueprints="draws:1", gadgets=FEW[:1]
        ),
        tolerance=ITERATED,
    ),
    "refinements/claims": Cell(),
    "refinements/figures14_17": Cell(),
    "refinements/figure18": Cell(),
    "refinements/closing": Cell(),
    "convergence/lanes": Cell(
        key={"case": "goofspiel4", "player": 1, "gadget": "max-margin", "method": "CFR+ linear"},
        tolerance=ITERATED,
        without=["gap_iterations", "loss_iterations"],
        rows={"strategy": "average"},
    ),
    "decomposition/figure3": Cell(
        key={"iterations": 100}, changes={"EQUILIBRIA": {"dcfr": ("dcfr", 20_000, None)}}, tolerance=ITERATED
    ),
    "decomposition/figure4": Cell(
        changes={"OURS": figure4.Grid((("cfr", 125, (25,)),), 20_000)},
        tolerance=ITERATED,
    ),
    "decomposition/figure5": Cell(
        key={"iterations": 50}, changes={"EQUILIBRIA": (("pcfr+", 20_000),)}, tolerance=ITERATED
    ),
    "continuation/speed": Cell(
        key={"game": LIARS_DICE},
        changes={"LANES": (1,), "ALONE": 1},
        tolerance=1e-6,
        without=["per_second"],
        rows={"call": "all subgames", "lanes": 1},
    ),
    "continuation/closing": Cell(
        key={"game": "leduc_poker", "player": 0},
        changes={
            "blueprints": one_blueprint,
            "network": lambda *given: 1,
            "_methods": exact_methods,
            "_promised": lambda *given: {"delta": np.nan, "theorem2_bound": np.nan},
        },
        tolerance=ITERATED,
        without=["delta", "theorem2_bound"],
    ),
    "continuation/play": Cell(
        key={"game": "leduc_poker", "player": 0},
        changes={
            "blueprints": one_blueprint,
            "network": lambda *given: ResolvedValues(1),
            "TRUNK_ITERATIONS": (50,),
            "_seconds": lambda run, iterations: float(MEASURED if iterations == 50 else iterations),
        },
        tolerance=ITERATED,
        without=["network"],
        results=["iterations"],
    ),
    "continuation/trunks": Cell(
        key={"game": "leduc_poker"},
        changes={"network": lambda *given: ResolvedValues(1)},
        tolerance=2e-4,
        rows={"values": "exact"},
    ),
    "continuation/nested": Cell(
        key={"game": "leduc_poker", "player": 0},
        changes={
            "BLUEPRINTS": ("uniform",),
            "ENTRIES": (1,),
            "ITERATIONS": (100,),
            "network": lambda settings, game, cut: ExactValues(Policy.uniform(tree_of(game))),
        },
        tolerance=ITERATED,
        rows={"values": "1 entries, exact"},
    ),
    "holdem/figures": Cell(changes={"SOLVED": {NARROW: figures.SOLVED[NARROW]}}, tolerance=ITERATED),
    "holdem/rivers": Cell(changes={"NUMBER": 1}, tolerance=0.01, without=["first", "last", "iterations"]),
    "holdem/many_rivers": Cell(
        changes={"NUMBER": 1}, tolerance=0.01, without=["first", "last", "iterations"]
    ),
    "holdem/flops": Cell(
        key={"board": "monotone", "ranges": "narrow"},
        tolerance=0.01,
        without=["exploitability", "check", "seconds", "last_seconds", "bytes_before", "peak_bytes"],
    ),
    "holdem/cost": Cell(
        key={"hands": "167 × 246"},
        changes={"SECONDS": 0.0, "loop_of": not_run, "operators_of": not_run},
        without=["least", "median"],
        rows={"hands": "167 × 246"},
    ),
    "holdem/gadgets": Cell(
        key={"spot": "Ks8h3d3c"},
        changes={"GADGETS": (Unsafe(),)},
        tolerance=ITERATED,
        rows={"blueprint": 5, "player": 0, "gadget": ["blueprint", "unsafe", "optimal continuation"]},
    ),
    "knowledge/pennies": Cell(key={"num_deals": 6, "known": "order 1", "combine": "together"}),
    "knowledge/sizes": Cell(key={"game": knowledge.liars_dice(4)}),
    "knowledge/cut": Cell(
        key={"game": knowledge.dark_hex(2, 2, "classical"), "known": "order 1", "combine": "in-turn"},
        changes={"BLUEPRINTS": ("cfr:3", knowledge.EQUILIBRIUM)},
        tolerance=ITERATED,
    ),
    "knowledge/proposition": Cell(changes={"MAX_HANDS": 3}),
    "knowledge/generation": Cell(
        key={"way": "diverse"},
        changes={"FULL": generation.Effort(("cfr:10",), generation.GADGETS[2:], 8, 500)},
        tolerance=ITERATED,
    ),
    "knowledge/nested": Cell(
        key={"way": "order 1, believed", "until": "next decision"},
        changes={"BLUEPRINTS": ("cfr:3",)},
        tolerance=ITERATED,
    ),
    "knowledge/larger_cut": Cell(
        key={"known": "order 1", "combine": "together"},
        changes={"BLUEPRINTS": ("cfr:3", knowledge.EQUILIBRIUM)},
        tolerance=ITERATED,
    ),
    "knowledge/larger_generation": Cell(
        key={"way": "diverse", "considered": 1},
        changes={
            "experiments.knowledge.generation.LARGE": generation.Effort(
                ("cfr:10",), generation.GADGETS[3:], 4, 200
            )
        },
        tolerance=ITERATED,
    ),
    "knowledge/cost": Cell(
        changes={
            "LANES": 1,
            "TURNS": 1,
            "cfr": SimpleNamespace(start=lambda *given: None, run=lambda *given, **more: None),
        },
        without=["least", "median"],
    ),
    "nested/theorem": Cell(key={"depth": 2}, tolerance=ITERATED),
    "nested/exploitability": Cell(
        key={"blueprint": "cfr:3"},
        changes={"experiments.nested.common.gadgets": lambda: nested_gadgets()[3:4]},
        tolerance=ITERATED,
    ),
    "nested/effort": Cell(
        key={"iterations": 100},
        changes={"experiments.nested.common.gadgets": lambda: nested_gadgets()[3:4]},
        tolerance=ITERATED,
    ),
    "nested/noise": Cell(
        changes={"SHARES": (1e-2,), "SEEDS": 1, "gadgets": lambda: nested_gadgets()[2:4]}, tolerance=ITERATED
    ),
    "nested/network": Cell(
        key={"game": "leduc_poker", "blueprint": "dirichlet:0"},
        changes={"STEPS": 1, "gadgets": lambda: nested_gadgets()[3:4]},
        tolerance=ITERATED,
        without=["network", "steps", "searches", "train_rmse", "heldout_rmse", "visited_rmse"],
    ),
    "nested/matches": Cell(
        key={"game": GOOFSPIEL},
        changes={"gadgets": lambda: nested_gadgets()[3:5], "MATCHES": 100},
        tolerance=ITERATED,
        without=[
            *("matches", "win_rate", "win_rate_first", "win_rate_second", "ci95"),
            *("mean_return", "mean_return_first", "mean_return_second", "return_ci95"),
        ],
    ),
    "nested/large": Cell(
        changes={
            "GAMES": large.GAMES[:1],
            "apart": lambda settings, do, *given: do(*given),
            "search": lambda *given: NO_SEARCHES,
        },
        tolerance=1e-6,
        rows={"quantity": ["histories", "terminals", "NashConv", "value at least", "value at most"]},
    ),
    "off_tree/games": Cell(
        key={"method": "inexpensive"},
        changes={
            "GAMES": (leduc(stack=7),),
            "experiments.off_tree.common.BLUEPRINTS": ("cfr:10",),
            "experiments.off_tree.common.all_gadgets": lambda method: list(FEW),
        },
        tolerance=ITERATED,
    ),
    "off_tree/menus": Cell(
        key={"method": "translation:linear"}, changes={"experiments.off_tree.common.BLUEPRINTS": ("cfr:10",)}
    ),
    "off_tree/values": Cell(),
    "off_tree/epsilons": Cell(
        key={"method": "inexpensive"},
        changes={"SPECS": ("cfr:100",), "gadgets": lambda epsilons: [Resolving(UniformPrior(), 0.1)]},
        tolerance=ITERATED,
    ),
    "off_tree/estimates": Cell(
        key={"game": leduc(raises=1)}, changes={"BLUEPRINTS": ("cfr:10",)}, tolerance=ITERATED
    ),
    "off_tree/iterates": Cell(
        key={"game": leduc(raises=1)}, changes={"SPECS": ("cfr:10",)}, tolerance=ITERATED
    ),
    "off_tree/spreads": Cell(
        key={"game": leduc(raises=1)}, changes={"SPECS": ("cfr:10",), "SPREADS": (0.1,)}, tolerance=ITERATED
    ),
    "off_tree/large": Cell(key={"method": "translation:linear"}, tolerance=1e-5),
    "off_tree/cost": Cell(
        key={"gadget": "resolving"},
        changes={"TURNS": 0, "ITERATIONS": 1},
        without=["build", "compile", "run"],
        rows={"turn": 0},
    ),
    "opponents/table1": Cell(
        key={"game": opponents.goofspiel(4)},
        changes={"GAMES": {opponents.goofspiel(4): 1}, "KEPT": {}},
    ),
    "opponents/breaker": Cell(changes={"NUM_P": 2}),
    "opponents/siblings": Cell(),
    "opponents/tradeoff": Cell(changes={"EVERY_P": (0.5, 1.0)}, tolerance=ITERATED),
    "opponents/approximate": Cell(
        key={"below": 50}, changes={"MODELS": ("cfr:3",), "EVERY_P": (0.5,)}, tolerance=ITERATED
    ),
    "opponents/gains": Cell(
        key={"method": "CDBR, own 1"}, changes={"CFR_MODELS": ("cfr:3",), "DRAWN_MODELS": ("dirichlet:0",)}
    ),
    "opponents/local": Cell(key={"method": "LBR"}, changes={"MODELS": ("cfr:21", "cfr:34")}),
    "opponents/network": Cell(
        key={"method": "CDBR, solved"}, changes={"MODELS": ("cfr:3",)}, tolerance=ITERATED
    ),
    "opponents/gadgets": Cell(
        key={"way": "resolving", "prior": "uniform"}, changes={"MODELS": ("cfr:3",), "EVERY_P": (0.1,)}
    ),
    "opponents/steps": Cell(
        key={"game": opponents.LEDUC, "way": "full, branch by branch"}, changes={"EVERY_P": (0.3,)}
    ),
    "opponents/rounds": Cell(changes={"NUM_P": 2}),
    "opponents/large": Cell(changes={"METHODS": {}}, tolerance=ITERATED),
    "opponents/speed": Cell(
        tolerance=1e-5, without=["milliseconds_a_lane"], rows={"way": ["one batch", "one by one"]}
    ),
    "opponents/larger": Cell(
        key={"method": "best Nash"},
        changes={"best_nash": lambda *given, **more: SimpleNamespace(exploitability=0, gap=0, gain=0)},
        without=["exploitability", "gap", "gain"],
    ),
    "policy_networks/training": Cell(key={"method": "table, MMD"}, tolerance=ITERATED),
    "performance/grid": Cell(
        changes={"time_grid": functools.partial(grid.time_grid, grid.GRID[:1])},
        tolerance=5e-5,
        without=["build", "compile", "run", "wall"],
    ),
    "performance/profile": Cell(
        changes={"DEFAULT_GAMES": ("leduc_poker",), "measure": lambda *given: (0.0,) * 4},
        tolerance=1e-5,
        without=["us", "flops", "bytes", "gigabytes_per_second"],
        results=["bytes_once"],
        rows={"lanes": 64},
    ),
}
"""By study and experiment."""

TIMES = "all its numbers are times, rates, memory of compiled programs, or sizes that were asked for"

LEFT_OUT = {
    **{
        f"policy_networks/{name}": "training its networks takes minutes, and their weights depend on rounding"
        for name in ("search", "matches")
    },
    "continuation/guard": TIMES,
    "holdem/leaves": "the network's ranges and training take half an hour",
    "continuation/networks": "training takes 93 s of processor time, and its errors depend on rounding",
    "nested/throughput": TIMES,
    "nested/paper_sizes": "listing the smaller game takes two minutes and 5 GB, solving it by hands 40 s",
    "nested/by_hands": "a blueprint takes a minute and 4 GB, a search seven and 9 GB",
    **{f"performance/{name}": TIMES for name in ("machine", "peers", "lanes", "sharing", "machines")},
}
"""Experiments without a recomputed cell, with the reason."""


def stored() -> dict[str, tuple[Study, Experiment]]:
    """Experiments whose data are in the repository, by study and name."""
    found: dict[str, tuple[Study, Experiment]] = {}
    for name in STUDIES:
        study: Study | None = getattr(importlib.import_module(f"experiments.{name}.__main__"), "STUDY", None)
        for experiment in study.experiments if study else ():
            if study and study.settings().data(experiment.NAME) is not None:
                found[f"{name}/{experiment.NAME}"] = study, experiment
    return found


STORED = stored()

LONGEST = {
    *(
        "continuation/nested",
        "continuation/trunks",
        "holdem/flops",
        "holdem/gadgets",
        "knowledge/cut",
        "knowledge/larger_generation",
        "knowledge/nested",
    ),
    *(
        "nested/effort",
        "nested/matches",
        "nested/network",
        "off_tree/cost",
        "off_tree/large",
        "opponents/speed",
    ),
    "performance/grid",
}
"""Cells that take half of the time of all."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnePiece(Settings):
    """Settings of an experiment that compute a single piece and write no data.

    Attributes:
      key: items of the piece's key.
      kept: additional data that the experiment stores, by name.
    """

    key: Mapping[str, Any]
    kept: dict[str, pd.DataFrame] = dataclasses.field(default_factory=dict[str, pd.DataFrame])

    def gather(
        self,
        name: str,
        keys: Iterable[Mapping[str, Any]],
        compute: Callable[[dict[str, Any]], pd.DataFrame],
    ) -> pd.DataFrame:
        """The rows of the first piece whose key agrees with `key`."""
        piece = next(
            key for key in keys if all(key.get(name, value) == value for name, value in self.key.items())
        )
        return compute(dict(piece))

    def keep(self, name: str, frame: pd.DataFrame) -> None:
        """Record data that an experiment stores itself."""
        self.kept[name] = frame


def test_every_stored_experiment_has_a_cell_or_a_reason():
    assert not set(CELLS) & set(LEFT_OUT)
    assert set(CELLS) | set(LEFT_OUT) == set(STORED)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.longest) if name in LONGEST else name for name in CELLS]
)
def test_cell_is_reproduced(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path):
    cell, (study, experiment) = CELLS[name], STORED[name]
    for attribute, value in cell.changes.items():
        if "." in attribute:
            monkeypatch.setattr(attribute, value)
        else:
            monkeypatch.setattr(experiment, attribute, value)
    settings = OnePiece(
        folder=study.folder, work=tmp_path / "work", progress=False, ending=study.ending, key=cell.key
    )
    found = {experiment.NAME: experiment.compute(settings)} | settings.kept
    copies = Settings(folder=tmp_path, work=tmp_path, ending=study.ending)
    for table, frame in found.items():
        copies.keep(table, frame)  # so that both were serialised
        compare(copies.data_of(table, name), settings.data_of(table, name), cell)


def compare(computed: pd.DataFrame, data: pd.DataFrame, cell: Cell) -> None:
    """Assert that every computed row occurs in the data."""
    assert set(data) <= set(computed)
    computed = computed[list(data)]
    for column, value in cell.rows.items():
        if column in computed:
            values = value if isinstance(value, list) else [value]
            computed, data = computed[computed[column].isin(values)], data[data[column].isin(values)]
    empty = [name for name in computed if computed[name].isna().all()]
    data = data[data[empty].isna().all(axis=1)]
    left_out = [
        name
        for name in computed
        if name in cell.without or (name not in cell.results and any(part in str(name) for part in MACHINE))
    ]
    computed = computed.drop(columns=[*empty, *left_out])
    data = data[list(computed)]
    numbers = [
        name for name in computed.select_dtypes("number") if name in cell.results or name not in ROW_NUMBERS
    ]
    names = [name for name in computed if name not in numbers]
    if names:
        both = computed.merge(data, on=names, how="left", validate="one_to_one", suffixes=("", " stored"))
    else:
        both = computed.join(data, rsuffix=" stored")
    assert len(both) == len(computed) > 0
    assert numbers
    for name in numbers:
        ours, theirs = (both[column].to_numpy(float, na_value=np.nan) for column in (name, f"{name} stored"))
        np.testing.assert_allclose(ours, theirs, rtol=cell.tolerance, atol=cell.tolerance, err_msg=name)
