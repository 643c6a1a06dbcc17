"""Rules of the repository: layers, no machine-specific paths, strictness, and no skipped tests in CI."""

import ast
import os
import pathlib
import re
import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / "jaxgadget"

# A layer imports from itself and from earlier layers only.
ROOMS = (
    "util",
    "games",
    "core",
    "tree",
    "gadgets",
    "networks",
    "policy",
    "holdem",
    "opponents",
    "values",
    "subgames",
    "learn",
    "exploiters",
    "sweeping",
    "bench",
    "report",
    "explorer",
    "cli",
    "__init__",
    "__main__",
)
LAYERS = {room: level for level, room in enumerate(ROOMS)}
GAMES_MAY_IMPORT = sys.stdlib_module_names | {"_typeshed", "numpy"}  # _typeshed: for type checkers only
HOST_MODULES = {"core.host", "core.components"}
"""Modules of core/ that tree/ imports; NumPy only, as tree/ itself."""
IMPORTS_JAX = {"jax", "jaxlib", "chex", "flax", "optax", "orbax"}
ONLY_INSIDE_FUNCTIONS = {"pyspiel", "open_spiel", "LiteEFG", "highspy"}
NEVER_IMPORTED = {"experiments", "tests"}


def project_files(pattern: str = "*") -> list[pathlib.Path]:
    """Tracked files, or without git all files except those that tools generate."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--", ":(top)"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        files = [ROOT / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        files = []
    if not files:
        left_behind = re.compile(r"(^|/)(\.(?!ci/)[^/]+|build|dist|__pycache__)/")
        files = [p for p in ROOT.rglob("*") if not left_behind.search(p.relative_to(ROOT).as_posix())]
    return sorted(p for p in files if p.is_file() and p.match(pattern))


def package_sources() -> dict[str, str]:
    """Source by module, `games.kuhn` or `cli`; a package is `games.__init__`."""
    sources = {
        ".".join(p.relative_to(PACKAGE).with_suffix("").parts): p.read_text(encoding="utf-8")
        for p in sorted(PACKAGE.rglob("*.py"))
    }
    assert len(sources) > 5, f"the checks below would pass on nothing: {PACKAGE} holds {sorted(sources)}"
    return sources


def imported_names(module: str, node: ast.AST) -> list[str]:
    """Full names that an import statement may bind: `from jaxgadget import tree` is `jaxgadget.tree`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        package = ["jaxgadget", *module.split(".")][: -node.level]
        base = ".".join([*package, base] if base else package)
    return [f"{base}.{alias.name}" for alias in node.names]


def runs_later(node: ast.AST) -> bool:
    """True if importing the module skips the block: a function, or a block for type checkers."""
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING" and not node.orelse
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def import_violations(module: str, source: str) -> list[str]:
    tree = ast.parse(source)
    deferred = {id(node) for outer in ast.walk(tree) if runs_later(outer) for node in ast.walk(outer)}
    own = module.split(".")[0]
    if own not in LAYERS:
        return [f"{module}: give `{own}` a place in ROOMS of tests/test_project.py"]
    found: list[str] = []
    for node in ast.walk(tree):
        for name in imported_names(module, node):
            where = f"jaxgadget/{module.replace('.', '/')}.py:{node.lineno} imports {name}: "
            top, _, rest = name.partition(".")
            if top == "jaxgadget":
                # A name that is no layer is an attribute of the package, whose __init__ imports every layer.
                target = rest.split(".")[0]
                target = target if target in LAYERS else "__init__"
                if target != own and LAYERS[target] >= LAYERS[own]:
                    found.append(where + f"`{own}` stands below `{target}`, which it must not know of")
                elif own == "tree" and target == "core" and ".".join(rest.split(".")[:2]) not in HOST_MODULES:
                    found.append(where + f"tree/ imports {', '.join(sorted(HOST_MODULES))} of core/ only")
            elif top in NEVER_IMPORTED:
                found.append(where + "the package does not know of what stands beside it")
            elif top in ONLY_INSIDE_FUNCTIONS:
                if id(node) not in deferred:
                    found.append(where + "optional or slow to load, so only inside the function that uses it")
            elif own == "games" and top not in GAMES_MAY_IMPORT:
                found.append(where + "games/ imports NumPy and the standard library only")
            elif (own == "tree" or module in HOST_MODULES) and top in IMPORTS_JAX:
                found.append(where + "tree/ does not import JAX, nor do the modules of core/ that it imports")
    return found


def machine_paths(text: str) -> list[str]:
    """Absolute paths specific to one machine."""
    return re.findall(r"(?<![\w.~})])/(?:work|root|home|Users|tmp/dev)/\S*", text)


def test_imports_point_one_way():
    found = [v for module, source in package_sources().items() for v in import_violations(module, source)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("games.kuhn", "import jaxgadget.tree.history", "`games` stands below `tree`"),
        ("games.kuhn", "import scipy.sparse", "NumPy and the standard library only"),
        ("games.openspiel", "import pyspiel", "only inside the function"),
        ("policy", "if not TYPE_CHECKING:\n    import pyspiel", "only inside the function"),
        ("core.lp.program", "class A:\n    from highspy import Highs", "only inside the function"),
        ("tree.history", "from jax import numpy", "does not import JAX"),
        ("core.host", "import jax", "does not import JAX"),
        ("core.cfr", "from jaxgadget.tree.forest import Forest", "`core` stands below `tree`"),
        (
            "tree.history",
            "from jaxgadget.core.cfr import run",
            "core.components, core.host of core/ only",
        ),
        ("tree.history", "from jaxgadget import core", "core.components, core.host of core/ only"),
        ("tree.history", "from jaxgadget import Policy", "`tree` stands below `__init__`"),
        ("policy.floors", "from .. import subgames", "`policy` stands below `subgames`"),
        ("report.tables", "def f():\n    from experiments.common import titled", "what stands beside it"),
        ("helpers", "import numpy", "give `helpers` a place in ROOMS"),
    ],
)
def test_import_rule_notices(module: str, source: str, expected: str):
    (violation,) = import_violations(module, source)
    assert expected in violation


def test_no_file_names_a_place_on_one_machine():
    found: list[str] = []
    for path in project_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # a picture or another binary
            continue
        found += [f"{path.relative_to(ROOT)}: {place}" for place in machine_paths(text)]
    assert not found, "absolute paths that exist on one machine only:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "place", ["work/main/x.py", "tmp/dev/bin", "root/.cache", "home/someone/x", "Users/someone/x"]
)
def test_machine_path_check_notices(place: str):
    assert machine_paths(f'see "/{place}"') == [f'/{place}"']
    assert machine_paths(f"https://example.org/{place} and ../{place} and infoset/{place}") == []


def test_jax_is_strict():
    assert jax.config.jax_numpy_rank_promotion == "raise"
    assert jax.config.jax_numpy_dtype_promotion == "strict"
    with pytest.raises(ValueError, match="rank_promotion"):
        _ = jnp.ones((2, 3)) + jnp.ones(3)
    with pytest.raises(
        jax.errors.TypePromotionError if hasattr(jax.errors, "TypePromotionError") else ValueError
    ):
        _ = jnp.ones(2, jnp.float32) + jnp.ones(2, jnp.int32)


def test_pytest_is_strict(pytestconfig: pytest.Config):
    assert pytestconfig.getini("strict")
    with pytest.raises(UserWarning, match="error"):
        warnings.warn("an error in tests", UserWarning, stacklevel=1)


def run_pytest(folder: pathlib.Path, test: str, *options: str, ci: bool, setup: str = "") -> tuple[int, str]:
    """Run one test file under this project's conftest, in a separate process."""
    (folder / "test_it.py").write_text("import pytest\n" + test, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    script = f"import sys, pytest\n{setup}\nsys.exit(pytest.main(sys.argv[1:]))"
    command = [
        sys.executable,
        "-c",
        script,
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        *options,
        "test_it.py",
    ]
    environment = {k: v for k, v in os.environ.items() if k != "CI" and not k.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": str(ROOT)} | ({"CI": "true"} if ci else {})
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


SKIPS = "@pytest.mark.skip(reason='no time')\ndef test_a(): pass\ndef test_b(): pass\n"


def test_skip_fails_in_ci(tmp_path: pathlib.Path):
    status, output = run_pytest(tmp_path, SKIPS, "-n", "1", ci=True)
    assert status == pytest.ExitCode.TESTS_FAILED, output
    assert "a skipped test is a failure" in output
    assert "test_it.py::test_a: Skipped: no time" in output
    assert "1 passed, 1 skipped" in output.splitlines()[-1]


def test_skip_passes_elsewhere(tmp_path: pathlib.Path):
    status, output = run_pytest(tmp_path, SKIPS, ci=False)
    assert status == pytest.ExitCode.OK, output


def test_missing_openspiel_fails_in_ci(tmp_path: pathlib.Path):
    setup = "sys.modules['pyspiel'] = None"
    status, output = run_pytest(tmp_path, "def test_a(): pass", ci=True, setup=setup)
    assert status == pytest.ExitCode.USAGE_ERROR, output
