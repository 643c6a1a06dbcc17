"""The notebooks run from top to bottom, assert numbers and show pictures; they are stored without outputs."""

import ast
import os
import pathlib
import re
import tempfile

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode
from traitlets.config import Config

pytestmark = pytest.mark.optimised

FOLDER = pathlib.Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
BARE = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
"""A notebook's metadata, without data of the machine where it last ran."""

OF_TESTS = {"MPLBACKEND", "XLA_FLAGS", "JAX_NUMPY_RANK_PROMOTION", "JAX_NUMPY_DTYPE_PROMOTION"}
"""Variables of the tests; kernels use their own backends and compiler flags."""

SMALLER = {
    "7_values_of_ranges": (
        'jg.train_ranges(tree, "flop")',
        'jg.train_ranges(tree, "flop", config=jg.RangeTrainingConfig(samples=1024, rounds=1, steps=1200))',
    ),
    "10_holdem_rivers": ("solve_rivers(10_000)", "solve_rivers(100)"),
}
"""A part of the two longest notebooks, and one that takes a tenth of its time."""

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: pathlib.Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook: NotebookNode) -> list[NotebookNode]:
    return [output for cell in code(notebook) for output in cell.outputs]


def left_behind(notebook: NotebookNode) -> list[str]:
    """Outputs and counters in a notebook that must not be stored."""
    found = [] if notebook.metadata == BARE else [f"metadata {dict(notebook.metadata)}"]
    for number, cell in enumerate(notebook.cells):
        if cell.metadata:
            found.append(f"cell {number}: metadata {dict(cell.metadata)}")
        if cell.cell_type == "code" and (cell.outputs or cell.execution_count is not None):
            found.append(f"cell {number}: outputs or an execution count")
    return found


def num_asserts(notebook: NotebookNode) -> int:
    trees = [ast.parse(cell.source) for cell in code(notebook)]
    return sum(isinstance(node, ast.Assert) for tree in trees for node in ast.walk(tree))


def broken_links(notebook: NotebookNode) -> list[str]:
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    links = [link for text in texts for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    return [link for link in links if "://" not in link and not (FOLDER / link.partition("#")[0]).is_file()]


def num_pictures(notebook: NotebookNode) -> int:
    return sum("image/png" in output.get("data", {}) for output in outputs(notebook))


def complaints(notebook: NotebookNode) -> list[str]:
    """Text on standard error, mostly warnings."""
    return [output.text for output in outputs(notebook) if output.get("name") == "stderr"]


class Kernels(AsyncKernelManager):
    """Start kernels of this interpreter, whatever other kernels are installed."""

    def _kernel_spec_manager_default(self) -> KernelSpecManager:
        return KernelSpecManager(kernel_dirs=[])


def execute(notebook: NotebookNode, folder: pathlib.Path) -> None:
    """Run all cells in a folder, as `make docs` and users do: with the usual compiler flags, not the tests'.

    The kernel communicates through files, because other processes might take a port in the meantime.
    """
    env = {name: value for name, value in os.environ.items() if name not in OF_TESTS}
    with tempfile.TemporaryDirectory(prefix="jg-") as short:  # names of sockets have a length limit
        connection = {"transport": "ipc", "connection_file": str(pathlib.Path(short) / "kernel.json")}
        NotebookClient(
            notebook,
            timeout=1800,
            kernel_name="python3",
            kernel_manager_class=Kernels,
            config=Config(ConnectionFileMixin=connection),
            resources={"metadata": {"path": str(folder)}},
        ).execute(env=env)


def test_there_are_eleven() -> None:
    numbers = sorted(int(path.name.split("_")[0]) for path in NOTEBOOKS)
    assert numbers == [*range(1, 12)]
    listed = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in NOTEBOOKS if f"]({path.name})" not in listed] == []


@each_notebook
def test_stored_bare(path: pathlib.Path) -> None:
    notebook = read(path)
    assert left_behind(notebook) == []
    assert num_asserts(notebook) > 0
    assert broken_links(notebook) == []


@each_notebook
def test_runs(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    notebook = read(path)
    if path.stem in SMALLER:
        part, smaller = SMALLER[path.stem]
        (cell,) = (cell for cell in code(notebook) if part in cell.source)
        cell.source = cell.source.replace(part, smaller)
    execute(notebook, tmp_path)
    assert num_pictures(notebook) > 0
    assert complaints(notebook) == []
    assert list(tmp_path.iterdir()) == [], "`make docs` runs it among the project's files"
    assert "ipywidgets" not in str(notebook), "the progress bar asks for another package"
