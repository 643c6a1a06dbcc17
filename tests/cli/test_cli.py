"""The command line: output, exit codes and errors."""

import itertools
import os
import pathlib
import subprocess
import sys
from typing import Any

import jax
import numpy as np
import pytest
from typer.testing import Result

import jaxgadget
from jaxgadget import HistoryTree, Policy, enumerate_game, load
from tests.cli.commands import run, strict, words

SOLVE_KEYS = """
    game num_histories num_terminals num_infosets algorithm iterations value best_response_values
    nash_conv value_bracket seconds
""".split()
REFINE_KEYS = "game cut num_subgames algorithm iterations game_value seconds rows".split()
ROW_KEYS = """
    player blueprint gadget prior epsilon blueprint_exploitability refined_exploitability
    exploitability_bound gadget_value_sum gadget_value_min gadget_value_max gap_sum gap_max
""".split()
SECONDS = ["build", "compile", "run"]


# --- help, games --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("games",),
        ("sweep", "--plot"),
    ],
)
def test_help_and_complaints_need_no_slow_package(arguments: tuple[str, ...]):
    script = "import sys; from jaxgadget.cli import app; app(sys.argv[1:], standalone_mode=False)"
    slow = "[name for name in ('jax', 'pandas', 'matplotlib', 'scipy', 'pyarrow') if name in sys.modules]"
    command = [
        sys.executable,
        "-c",
        f"try:\n    {script}\nexcept BaseException:\n    pass\nfinally:\n    print({slow})",
    ]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]", done


def test_version(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "true")
    first, packages, device, plugins, compiler = run("--version").stdout.splitlines()
    assert first == f"jaxgadget {jaxgadget.__version__}"
    assert f"jax {jax.__version__}" in packages and device.startswith("device cpu: ")
    assert plugins.startswith("plugins: ") and compiler.startswith("C++ compiler: ")


def test_games_are_listed():
    result = run("games")
    assert result.exit_code == 0
    assert all(entry.name in result.stdout for entry in jaxgadget.list_games())
    assert "num_cards=13" in result.stdout
    assert "openspiel:" in result.stdout


# --- solve --------------------------------------------------------------------------------


def test_solve_json(kuhn: HistoryTree):
    options = ("--algorithm", "cfr", "--iterations", 10, "--dtype", "float64")
    result = run("solve", "kuhn_poker", *options, "--json", "-")
    assert result.exit_code == 0
    assert result.stderr == ""
    record = strict(result.stdout)
    expected = jaxgadget.solve(kuhn, algorithm="cfr", iterations=10)
    assert list(record) == SOLVE_KEYS
    assert list(record["seconds"]) == SECONDS
    assert (record["game"], record["algorithm"], record["iterations"]) == ("kuhn_poker", "cfr", 10)
    assert (record["num_histories"], record["num_terminals"], record["num_infosets"]) == (58, 30, [6, 6])
    assert record["value"] == expected.value
    assert record["best_response_values"] == list(expected.best_response_values)
    assert record["nash_conv"] == expected.nash_conv


def test_solve_table_and_files(kuhn: HistoryTree, tmp_path: pathlib.Path):
    policy, record = tmp_path / "policy.npz", tmp_path / "record.json"
    result = run("solve", "kuhn_poker", "--target-gap", 0.01, "--save", policy, "--json", record)
    assert result.exit_code == 0
    text = words(result.stdout)
    assert "NashConv" in text
    assert "OpenSpiel's exploitability, half of NashConv" in text
    assert str(policy) in result.stdout.replace("\n", "")
    found = strict(record.read_text())
    assert found["nash_conv"] <= 0.01
    assert found["iterations"] < 1000
    saved = Policy.load(policy, kuhn)
    assert saved.labels == (f"cfr+:{found['iterations']}",)
    assert jaxgadget.nash_conv(saved)[0] == pytest.approx(found["nash_conv"], abs=1e-12)
    assert sorted(os.listdir(tmp_path)) == ["policy.npz", "record.json"]


# --- refine -------------------------------------------------------------------------------

EPSILONS = (0.001, 0.1)
SETTINGS = [("unsafe", "none", 0.0)] + [
    (gadget, prior, epsilon)
    for gadget in ("resolving", "max-margin")
    for prior, epsilon in [("none", 0.0), *itertools.product(("uniform", "blueprint"), EPSILONS)]
]
BLUEPRINTS = ("dirichlet:3:0.5", "geometric:0.5")


@pytest.fixture(scope="module")
def refined(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, pathlib.Path]:
    """All settings for two blueprints of Kuhn poker, with every kind of output."""
    folder = tmp_path_factory.mktemp("refine")
    options = [item for text in BLUEPRINTS for item in ("--blueprint", text)]
    options += [item for epsilon in EPSILONS for item in ("--epsilon", str(epsilon))]
    outputs = {"--json": "out.json", "--plot": "out.svg", "--save": "out.npz"}
    for option, name in outputs.items():
        options += [option, str(folder / name)]
    result = run("refine", "kuhn_poker", "--player", 1, "--iterations", 30, *options)
    assert result.exit_code == 0, result.output
    assert sorted(os.listdir(folder)) == sorted(outputs.values()), "nothing else is left"
    return result, folder


def test_refine_json(refined: tuple[Result, pathlib.Path]):
    record = strict((refined[1] / "out.json").read_text())
    assert list(record) == REFINE_KEYS
    assert list(record["seconds"]) == SECONDS
    assert all(isinstance(seconds, float) and seconds >= 0 for seconds in record["seconds"].values())
    assert (record["game"], record["cut"], record["num_subgames"]) == ("kuhn_poker", "depth:1", 2)
    assert (record["algorithm"], record["iterations"]) == ("cfr+", 30)
    low, high = record["game_value"]
    assert low <= -1 / 18 <= high
    assert high - low <= 1e-6 * 4
    assert all(list(row) == ROW_KEYS for row in record["rows"])
    found = [(row["blueprint"], row["gadget"], row["prior"], row["epsilon"]) for row in record["rows"]]
    assert found == [(text, *setting) for text in BLUEPRINTS for setting in SETTINGS]
    for row in record["rows"]:
        assert row["player"] == 1
        assert (row["exploitability_bound"] is None) == (row["gadget"] == "unsafe")
        assert all(isinstance(row[key], float) for key in ROW_KEYS[4:] if key != "exploitability_bound")


def test_refine_saves_policies_that_are_blueprints_again(
    refined: tuple[Result, pathlib.Path], kuhn: HistoryTree
):
    file = refined[1] / "out.npz"
    rows = strict((refined[1] / "out.json").read_text())["rows"]
    low, high = strict((refined[1] / "out.json").read_text())["game_value"]
    policy = Policy.load(file, kuhn)
    assert policy.num_lanes == len(rows)
    found = jaxgadget.exploitability(policy, 1, value=(low, high))
    np.testing.assert_allclose(sorted(found), sorted(r["refined_exploitability"] for r in rows), atol=1e-12)


def spy(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Record the arguments of the library's `refine`, which then raises KeyboardInterrupt."""
    called: dict[str, Any] = {}

    def refine(tree: Any, where: Any, blueprint: Any, gadgets: Any, **options: Any) -> None:
        called.update(tree=tree, cut=where, blueprint=blueprint, gadgets=gadgets, **options)
        raise KeyboardInterrupt

    def specs(tree: Any, specs: Any, *, progress: bool) -> Any:
        assert progress
        return [spec.text for spec in specs]

    monkeypatch.setattr(sys.modules["jaxgadget.subgames.refine"], "refine", refine)
    monkeypatch.setattr(sys.modules["jaxgadget.policy.evaluate"], "game_value", lambda tree: (0.0, 0.0))
    monkeypatch.setattr("jaxgadget.policy.blueprints.make_blueprints", specs)
    return called


def test_the_demo(monkeypatch: pytest.MonkeyPatch):
    called = spy(monkeypatch)
    result = run("refine", "leduc_poker")
    assert called["cut"].name == "flop"
    assert len(called["blueprint"]) == 20
    assert [(gadget.name, gadget.prior.name) for gadget in called["gadgets"]] == [
        ("unsafe", "none"),
        *itertools.product(("resolving", "max-margin"), ("none", "uniform", "blueprint")),
    ]
    assert {gadget.epsilon for gadget in called["gadgets"]} == {0.0, 1e-3}
    solver = called["solver"]
    assert (called["player"], solver.iterations, solver.algorithm) == (0, 2000, "cfr+")
    assert solver.dtype == "float32"
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr.startswith("Interrupted. Nothing was saved; with --checkpoint PATH ")


@pytest.mark.parametrize(
    ("game", "name"), [("kuhn_poker", "depth:1"), ("coin_toss", None), ("leduc_poker", "flop")]
)
def test_cut_by_default(game: str, name: str | None, monkeypatch: pytest.MonkeyPatch):
    called = spy(monkeypatch)
    run("refine", game, "--blueprint", "uniform")
    assert called["cut"].name == (name or next(iter(load(game).cuts())))


# --- errors -------------------------------------------------------------------------------

MALFORMED = 'EFG 2 R "x" { "a" "b" }\nq "" 1\n'
NOT_ZERO_SUM = """EFG 2 R "x" { "a" "b" }
p "" 1 1 "" { "l" "r" } 0
t "" 1 "" { 1, 1 }
t "" 2 "" { -1, 0 }
"""
BAD_INPUT = [
    ("refine kuhn_pokr", "did you mean kuhn_poker"),
    ("solve malformed.efg", "malformed.efg, line 2"),
    ("refine kuhn_poker --cut flop", "cut='flop'"),
    ("refine kuhn_poker --epsilon some", "epsilon='some': expected a number in [0, 1), or 'auto'"),
    (
        "refine kuhn_poker --epsilon 0.5 --prior none",
        "--epsilon has no effect where all gadgets have the prior",
    ),
    (
        "refine kuhn_poker --gifts estimate",
        "--gifts has no effect for unsafe, resolving, max-margin; leave it",
    ),
    ("refine kuhn_poker --spread -1 --gadget resolving", "--spread -1: expected a number >= 0"),
    (
        "refine kuhn_poker --algorithm lp --iterations 5",
        "--iterations has no effect with --algorithm lp; leave",
    ),
    ("refine kuhn_poker --algorithm lp --memory-limit 9", "--memory-limit has no effect with --algorithm lp"),
    ("refine kuhn_poker --time-limit 9", "--time-limit has no effect with --algorithm cfr+, only with lp"),
    ("refine kuhn_poker --rows --json -", "--rows has no effect with --json -, which has all rows"),
    ("solve kuhn_poker --iterations 5 --iterations 6", "'--iterations': given more than once"),
    ("refine kuhn_poker --algorithm lp --target-gap 0.1", "--target-gap 0.1 cannot be combined with"),
    ("refine kuhn_poker --algorithm lp --checkpoint here", "--checkpoint 'here' cannot be combined with"),
    ("solve kuhn_poker --floor 1", "expected a number in [0, 1)"),
    ("solve kuhn_poker --target-gap nan", "--target-gap"),
    ("refine kuhn_poker --player 2", "--player"),
    ("refine kuhn_poker --plot missing/x.png", "--plot: cannot write 'missing/x.png'"),
    ("solve kuhn_poker --save folder", "--save: cannot write 'folder'"),
    ("solve kuhn_poker --json /dev/full", "Error: '/dev/full': No space left on device"),
    ("solve kuhn_poker --save x --json ./x", "--json and --save both name"),
    ("refine kuhn_poker --checkpoint malformed.efg", "--checkpoint: cannot write into 'malformed.efg'"),
    ("refine", "GAME"),
    ("resolve kuhn_poker", "resolve"),
]


@pytest.fixture(scope="module")
def bad_files(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("bad")
    (folder / "malformed.efg").write_text(MALFORMED)
    (folder / "rich.efg").write_text(NOT_ZERO_SUM.replace("1, 1", "1.7e308, -1.7e308"))
    (folder / "own.py").write_text("class Own:\n    def __init__(self, size=1):\n        1 / size\n")
    (folder / "folder").mkdir()
    Policy.uniform(enumerate_game(load("goofspiel(num_cards=3)"))).save(folder / "other.npz")
    return folder


@pytest.mark.parametrize(("command", "complaint"), BAD_INPUT, ids=[command for command, _ in BAD_INPUT])
def test_bad_input(
    command: str, complaint: str, bad_files: pathlib.Path, monkeypatch: pytest.MonkeyPatch, subtests: Any
):
    monkeypatch.chdir(bad_files)
    before = sorted(bad_files.rglob("*"))
    outputs: dict[str, list[str]] = {"-": ["--json", "-"], "files": ["--json", "o.json", "--save", "o.npz"]}
    for name, options in outputs.items():
        if any(option in command for option in ("--json", "--save")):
            options = []
        with subtests.test(name):
            result = run(*command.split(), *options)
            assert result.exit_code == 2, result.output
            assert result.stdout == ""
            assert complaint in words(result.stderr)
            assert "Traceback" not in result.stderr
            assert sorted(bad_files.rglob("*")) == before, "no partial file"


@pytest.mark.parametrize(
    ("command", "reader"),
    [
        ("solve malformed.efg --json ./malformed.efg", "GAME"),
        ("refine own.py:Own --plot own.py", "GAME"),
        ("refine kuhn_poker --blueprint uniform --blueprint file:other.npz --save other.npz", "--blueprint"),
        ("refine kuhn_poker --prior range:file:other.npz --json other.npz", "--prior"),
        ("show kuhn_poker --policy other.npz --json other.npz", "--policy"),
        ("export kuhn_poker other.npz --blueprint file:other.npz --profile x.efg", "--blueprint"),
        ("holdem --spots rich.efg --results rich.efg", "--spots"),
        ("holdem --spots rich.efg --json rich.efg", "--spots"),
    ],
)
def test_input_files_are_not_overwritten(
    command: str, reader: str, bad_files: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(bad_files)
    before = {path: path.read_bytes() for path in bad_files.glob("*.*")}
    result = run(*command.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert f": {reader} reads that file; choose another one\n" in result.stderr
    assert {path: path.read_bytes() for path in bad_files.glob("*.*")} == before


def test_the_library_s_errors_are_one_line(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object, **__: object) -> None:
        raise ValueError("one,\n  two,\nthree")

    monkeypatch.setattr("jaxgadget.policy.solve.solve", fail)
    assert run("solve", "kuhn_poker").stderr == "Error: one, two, three\n"


def test_a_missing_package_is_an_error_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    result = run("solve", "openspiel:kuhn_poker")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "openspiel" in result.stderr.lower()


def run_program(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program with an output encoding that lacks the characters of tables."""
    command = [sys.executable, "-m", "jaxgadget", *arguments]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_as_a_program_of_its_own():
    done = run_program("solve", "kuhn_poker", "--algorithm", "lp", "--json", "-")
    assert (done.returncode, done.stderr) == (0, "")
    assert strict(done.stdout)["algorithm"] == "lp"
    done = run_program("games")
    assert (done.returncode, done.stderr) == (0, "")
    assert "leduc_poker" in done.stdout


# --- bench --------------------------------------------------------------------------------


def test_bench(tmp_path: pathlib.Path):
    file = tmp_path / "bench.json"
    options = (
        "--engine",
        "jaxgadget",
        "--lanes",
        "2,4",
        "--iterations",
        3,
        "--repeats",
        1,
        "--device",
        "cpu",
    )
    result = run("bench", "matching_pennies_twist", *options, "--json", file)
    assert (result.exit_code, result.stderr) == (0, "")
    record = strict(file.read_text())
    assert list(record) == ["device", "devices", "driver", "loop", "versions", "rows"]
    rows = [(row["game"], row["engine"], row["lanes"]) for row in record["rows"]]
    assert rows == [("matching_pennies_twist", "jaxgadget", lanes) for lanes in (2, 4)]
    text = words(result.stdout)
    assert "matching_pennies_twist, cfr+" in text
    assert words(record["device"]) in text
    assert f"Wrote the results to {file}" in text
