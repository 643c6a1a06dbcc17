"""What holds for every test: strict JAX, no display, reproducible hypothesis, and no skipping in CI.

JAX is set up through the environment, so that the command lines which tests start inherit it, and
tests of `games/` and `tree/` need not import it.
"""

import importlib.util
import os
import pathlib

import hypothesis
import pytest

CACHE = pathlib.Path(__file__).parent.parent / ".cache"
IN_CI = os.environ.get("CI", "").lower() == "true"

os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
os.environ["JAX_NUMPY_DTYPE_PROMOTION"] = "strict"
os.environ["MPLBACKEND"] = "Agg"
os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(CACHE / "hypothesis")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
if not IN_CI:
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE / "jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")

hypothesis.settings.register_profile(
    "jaxgadget", max_examples=25, deadline=None, derandomize=True, database=None, print_blob=True
)
hypothesis.settings.load_profile("jaxgadget")


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
