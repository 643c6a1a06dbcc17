"""`make check` runs the tests that a change can reach, nearest first."""

import pytest

from tests.reach import ALWAYS, ROOT, reached_tests

MODULES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "jaxgadget").rglob("*.py"))


def test_a_test_of_its_own_comes_first():
    assert reached_tests({"jaxgadget/core/regret.py"})[len(ALWAYS)] == "tests/core/test_regret.py"
    assert reached_tests({"tests/tree/test_cut.py", "README.md"})[len(ALWAYS) :] == ["tests/tree/test_cut.py"]


@pytest.mark.parametrize("module", [module for module in MODULES if not module.endswith("__.py")])
def test_every_module_is_reached_by_some_test(module):
    assert len(reached_tests({module})) > len(ALWAYS)
