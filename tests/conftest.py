"""Setup of all tests: strict JAX, no display, reproducible hypothesis, and no skipped tests in CI.

JAX is configured through the environment, so that child processes inherit the settings and tests of `games/`
and `tree/` need not import JAX.
"""

import gc
import importlib.metadata
import importlib.util
import os
import pathlib
import sys
import time
from typing import Any

import hypothesis
import pytest

CACHE = pathlib.Path(__file__).parent.parent / ".cache"
IN_CI = os.environ.get("CI", "").lower() == "true"

os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
os.environ["JAX_NUMPY_DTYPE_PROMOTION"] = "strict"
os.environ["MPLBACKEND"] = "Agg"
os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(CACHE / "hypothesis")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
if importlib.metadata.version("jaxlib").startswith("0.10."):  # XLA aborts at unknown flags
    # reduces the processor time that Leduc's `refine` takes to compile by a third
    os.environ.setdefault(
        "XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    )
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")

hypothesis.settings.register_profile(
    "jaxgadget", max_examples=25, deadline=None, derandomize=True, database=None, print_blob=True
)
hypothesis.settings.load_profile("jaxgadget")


@pytest.fixture(autouse=True, scope="module")
def optimisation(request: pytest.FixtureRequest) -> None:
    """Disable LLVM's optimisations, except in modules marked `optimised` and the processes that they start.

    Most tests compile longer than they compute; unoptimised, a program compiles in half the time.
    """
    unoptimised = not _is_optimised(request.node)
    if unoptimised:
        os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "true"
    else:
        os.environ.pop("JAX_DISABLE_MOST_OPTIMIZATIONS", None)
    if "jax" not in sys.modules:
        return
    import jax

    from jaxgadget.util.compilation import drop_many_programs

    if jax.config.read("jax_disable_most_optimizations") != unoptimised:
        jax.config.update("jax_disable_most_optimizations", unoptimised)
        jax.clear_caches()
    drop_many_programs()


def _is_optimised(node: pytest.Item | pytest.Collector) -> bool:
    return node.get_closest_marker("optimised") is not None


SLOW = pathlib.Path(__file__).parent / "slow"


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark all tests in `slow/` as slow, in addition to tests that are marked individually.

    Optimised modules run last, because switching the flags drops every compiled program.
    """
    for item in items:
        if SLOW in item.path.parents:
            item.add_marker(pytest.mark.slow)
    if config.getoption("seconds") is None:  # otherwise in the order in which the files are given
        items.sort(key=_is_optimised)


COLLECTED = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seconds", type=float, help="skip tests that would start later (`make check`)")


def pytest_runtest_setup(item: pytest.Item) -> None:
    limit = item.config.getoption("seconds")
    if limit is not None and time.monotonic() - item.config.stash[COLLECTED] > limit:
        pytest.skip("out of time: these are further from the change, and in `make test`")


@pytest.fixture(scope="module")
def kuhn() -> Any:
    """The histories of Kuhn poker."""
    from tests import trees

    return trees.kuhn()


@pytest.fixture(scope="module")
def leduc() -> Any:
    """The histories of Leduc poker."""
    from tests import trees

    return trees.tree_of("leduc_poker")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Collect garbage less often: cycle detection takes 5 % of the time, as tracing creates many objects."""
    session.config.stash[COLLECTED] = time.monotonic()
    gc.freeze()
    gc.set_threshold(20_000, 20, 10)


def pytest_configure() -> None:
    if IN_CI and importlib.util.find_spec("pyspiel") is None:
        raise pytest.UsageError(
            "CI=true, but OpenSpiel is missing, so what is compared with it would go untested: "
            "install the extra `openspiel`"
        )


def _skipped(config: pytest.Config) -> list[pytest.TestReport]:
    """Tests that were skipped although CI forbids it; under xdist the controller counts them."""
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
