"""`make check` runs the tests that a change can reach, nearest first."""

from tests.reach import ALWAYS, ROOT, reached_tests


def test_a_test_of_its_own_comes_first():
    assert reached_tests({"jaxgadget/core/regret.py"})[len(ALWAYS)] == "tests/core/test_regret.py"
    assert reached_tests({"tests/tree/test_cut.py", "README.md"})[len(ALWAYS) :] == ["tests/tree/test_cut.py"]


def test_every_module_is_reached_by_some_test():
    modules = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "jaxgadget").rglob("*.py"))
    unreached = [
        module
        for module in modules
        if not module.endswith("__.py") and len(reached_tests({module})) <= len(ALWAYS)
    ]
    assert not unreached
