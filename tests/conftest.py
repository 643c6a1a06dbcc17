"""What holds for every test: strict JAX, no display, reproducible hypothesis, and no skipping in CI.

JAX is set up through the environment, so that the command lines which tests start inherit it, and
tests of `games/` and `tree/` need not import it.
"""

import gc
import importlib.metadata
import importlib.util
import os
import pathlib
import sys

import hypothesis
import pytest

CACHE = pathlib.Path(__file__).parent.parent / ".cache"
IN_CI = os.environ.get("CI", "").lower() == "true"

os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
os.environ["JAX_NUMPY_DTYPE_PROMOTION"] = "strict"
os.environ["MPLBACKEND"] = "Agg"
os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(CACHE / "hypothesis")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
if importlib.metadata.version("jaxlib").startswith("0.10."):  # XLA ends a process at a flag it does not know
    # A `refine` of Leduc's subgames then takes two thirds of the processor time to compile.
    os.environ.setdefault(
        "XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    )
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")

# What these say is about numbers, not about compiled code, and most of their time is compiling: without
# LLVM's optimisations that takes half as long. `make demo` compiles as users do, without XLA_FLAGS too.
UNOPTIMISED = {
    "test_abstraction",
    "test_against_reference",
    "test_beliefs",
    "test_blueprints",
    "test_by_hand",
    "test_certificates",
    "test_cfr_d",
    "test_cli",
    "test_cli_export",
    "test_cli_holdem",
    "test_cli_knowledge",
    "test_cli_off_tree",
    "test_cli_opponents",
    "test_cli_progress",
    "test_cli_ranges",
    "test_cli_respond",
    "test_cli_search",
    "test_cli_sweep",
    "test_command",
    "test_continual",
    "test_continuation",
    "test_convergence_study",
    "test_decomposition",
    "test_deep_games",
    "test_documented_programs",
    "test_driver",
    "test_entry",
    "test_evaluate",
    "test_exact",
    "test_exactly",
    "test_experiments_cfr_d",
    "test_experiments_decomposition",
    "test_experiments_knowledge",
    "test_experiments_nested",
    "test_experiments_performance",
    "test_experiments_refinements",
    "test_form",
    "test_frozen",
    "test_further_cases",
    "test_fuzz",
    "test_gadgets",
    "test_gambit",
    "test_guard",
    "test_isomorphism",
    "test_knowledge",
    "test_limited",
    "test_local",
    "test_lp",
    "test_mixing",
    "test_nested",
    "test_network",
    "test_off_tree",
    "test_operators",
    "test_opponents",
    "test_optimal",
    "test_papers",
    "test_portfolio",
    "test_problem",
    "test_program",
    "test_project",
    "test_promises",
    "test_range_network",
    "test_range_training",
    "test_ranged",
    "test_ranges",
    "test_respond",
    "test_rounding",
    "test_searcher",
    "test_sharding",
    "test_shards",
    "test_solve",
    "test_solved",
    "test_solver",
    "test_spots",
    "test_subgame",
    "test_sweep",
    "test_tables",
    "test_trainer",
    "test_training",
    "test_translate",
    "test_treeplex",
    "test_trunk",
    "test_workers",
}

hypothesis.settings.register_profile(
    "jaxgadget", max_examples=25, deadline=None, derandomize=True, database=None, print_blob=True
)
hypothesis.settings.load_profile("jaxgadget")


@pytest.fixture(autouse=True, scope="module")
def optimisation(request: pytest.FixtureRequest) -> None:
    """Compiles for a module as `UNOPTIMISED` says, in processes that it starts, too.

    Nothing compiled otherwise is used, nor kept for long.
    """
    wanted = request.module.__name__.rpartition(".")[2] in UNOPTIMISED
    if wanted:
        os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "true"
    else:
        os.environ.pop("JAX_DISABLE_MOST_OPTIMIZATIONS", None)
    if "jax" not in sys.modules:
        return
    import jax

    from jaxgadget.util.compilation import drop_many_programs

    if jax.config.read("jax_disable_most_optimizations") != wanted:
        jax.config.update("jax_disable_most_optimizations", wanted)
        jax.clear_caches()
    drop_many_programs()


SLOW = pathlib.Path(__file__).parent / "slow"


@pytest.hookimpl(tryfirst=True)  # before `-m` looks for marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of `slow/` is slow, besides tests that are marked so by themselves.

    Modules that are compiled alike come one after the other: a change throws away what was compiled.
    """
    for item in items:
        if SLOW in item.path.parents:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: item.path.stem not in UNOPTIMISED)


def pytest_collection_finish() -> None:
    """JAX traces with many small objects: by default a twentieth of the time is a search for cycles."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 10)


def pytest_configure() -> None:
    if IN_CI and importlib.util.find_spec("pyspiel") is None:
        raise pytest.UsageError(
            "CI=true, but OpenSpiel is missing, so what is compared with it would go untested: "
            "install the extra `openspiel`"
        )


def _skipped(config: pytest.Config) -> list[pytest.TestReport]:
    """What was skipped and may not be. Under xdist it is the controller that counts."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if not IN_CI or reporter is None or hasattr(config, "workerinput"):
        return []
    return reporter.stats.get("skipped", [])


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _skipped(session.config) and session.exitstatus in (
        pytest.ExitCode.OK,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    ):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    skipped = _skipped(config)
    if skipped:
        terminalreporter.section("CI=true: a skipped test is a failure", red=True)
        for report in skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            terminalreporter.write_line(f"{report.nodeid}: {reason}")
