"""Print the test files that a change can reach, nearest first: `python -m tests.reach [commit]`.

A change is the difference to a commit: by default to the point where the branch left `main`, or to the
previous commit if nothing else differs. The distance of a test file is its shortest chain of imports to a
changed file; the files that are named after a changed module, or are changed themselves, come first.
"""

import ast
import collections
import functools
import itertools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent
MAX_FILES = 40  # more could only be collected, not run, in the time of `make check`
ALWAYS = ("tests/test_project.py", "tests/test_public.py")


def git(*arguments: str) -> list[str]:
    """Lines of git's output; none if it fails."""
    done = subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


def changed_files(commit: str | None = None) -> set[str]:
    """Paths that differ from a commit, relative to the root, new files included."""
    new = git("ls-files", "--others", "--exclude-standard")
    for base in (commit,) if commit else (*git("merge-base", "HEAD", "main"), "HEAD~1"):
        if changed := {*git("diff", "--name-only", base), *new}:
            return changed
    return set()


def module_name(path: str) -> str:
    """`jaxgadget/core/cfr.py` is `jaxgadget.core.cfr`, and a package is its folder."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def public_modules() -> dict[str, str]:
    """The module of each name in the public interface of `jaxgadget`."""
    stub = ast.parse((ROOT / "jaxgadget/__init__.pyi").read_text("utf-8"))
    return {
        alias.name: "jaxgadget" + "." * bool(node.module) + (node.module or "").removeprefix("jaxgadget.")
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def imported_modules(path: pathlib.Path, public: dict[str, str]) -> set[str]:
    """Modules, or names in modules, that a file imports, or uses as attributes of `jaxgadget`."""
    imported: set[str] = set()
    aliases = {"jaxgadget"}
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    for node in nodes:
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names if alias.name != "jaxgadget"}
            aliases |= {alias.asname for alias in node.names if alias.name == "jaxgadget" and alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if node.module == "jaxgadget" and alias.name in public:
                    imported.add(public[alias.name])
                else:
                    imported |= {node.module, f"{node.module}.{alias.name}"}
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            imported |= {public[node.attr]} if node.attr in public else set()
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # imported by name on first use
            imported |= set(re.findall(r"jaxgadget(?:\.\w+)+", node.value))
    return imported


@functools.cache
def importers() -> dict[str, set[str]]:
    """The files of the package and of `tests/` except `tests/slow`, by their imports."""
    public = public_modules()
    found: dict[str, set[str]] = collections.defaultdict(set)
    for path in itertools.chain((ROOT / "jaxgadget").rglob("*.py"), (ROOT / "tests").rglob("*.py")):
        if ROOT / "tests/slow" not in path.parents:
            for name in imported_modules(path, public):
                found[name].add(path.relative_to(ROOT).as_posix())
    return found


def reached_tests(changed: set[str]) -> list[str]:
    """Test files outside `tests/slow` that import what changed, nearest first; at most `MAX_FILES`."""
    namesakes = {
        f"tests/{pathlib.Path(path).relative_to('jaxgadget').parent}/test_{pathlib.Path(path).name}"
        for path in changed
        if path.startswith("jaxgadget/")
    }
    distance = {path: 0 for path in changed | namesakes if path.endswith(".py") and (ROOT / path).exists()}
    queue = collections.deque(distance)
    while queue:
        path = queue.popleft()
        for importer in importers().get(module_name(path), ()):
            if importer not in distance:
                distance[importer] = distance[path] + 1
                queue.append(importer)
    tests = {
        path for path in distance if path.startswith("tests/") and "/test_" in path and "/slow/" not in path
    }
    return [*ALWAYS, *sorted(tests - set(ALWAYS), key=lambda path: (distance[path], path))][:MAX_FILES]


if __name__ == "__main__":
    print(*reached_tests(changed_files(*sys.argv[1:2])), sep="\n")
