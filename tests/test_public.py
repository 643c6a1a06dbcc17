"""A snapshot of the public names and their signatures: a change of them is seen in the diff.

After a change that is meant, write it again:

    python -m tests.test_public > tests/data/public_api.txt
"""

import dataclasses
import inspect
import pathlib

import jaxgadget

SNAPSHOT = pathlib.Path(__file__).parent / "data" / "public_api.txt"
PROMISED = {  # by the issue that asked for the package
    *("load", "enumerate_game", "cut", "solve", "refine", "best_response", "exploitability", "nash_conv"),
    *("Policy", "Unsafe", "Resolving", "MaxMargin"),
    *("NoPrior", "UniformPrior", "BlueprintPrior", "ArrayPrior"),
}


def describe(name: str, value: object) -> list[str]:
    """A line for a function; for a class its signature, then its attributes and methods."""
    if not inspect.isclass(value):
        return [f"{name}{inspect.signature(value)}" if callable(value) else f"{name}: {type(value).__name__}"]
    lines = [f"class {name}{inspect.signature(value)}"]
    fields = {field.name for field in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
    for member in sorted(fields | {key for base in value.__mro__[:-1] for key in vars(base)}):
        if member.startswith("_"):
            continue
        found = inspect.getattr_static(value, member, None)
        if isinstance(found, staticmethod | classmethod):
            kind = type(found).__name__
            lines.append(f"  {kind} {name}.{member}{inspect.signature(getattr(value, member))}")
        elif inspect.isfunction(found):
            lines.append(f"  {name}.{member}{inspect.signature(found)}")
        else:
            lines.append(f"  {name}.{member}")
    return lines


def public_api() -> list[str]:
    return [line for name in jaxgadget.__all__ for line in describe(name, getattr(jaxgadget, name))]


def test_public_names_and_signatures_are_the_snapshots():
    expected = SNAPSHOT.read_text(encoding="utf-8").splitlines()
    found = public_api()
    assert found == expected, (
        "if the change is meant: python -m tests.test_public > tests/data/public_api.txt"
    )


def test_the_snapshot_shows_more_than_names():
    lines = public_api()
    assert any(line.startswith("solve(tree: 'HistoryTree', *, algorithm:") for line in lines)
    assert any(line.startswith("  Policy.save(self, path:") for line in lines)
    assert any(line.startswith("  staticmethod Policy.load(path:") for line in lines)
    assert "  Solution.nash_conv" in lines and "  Policy.num_lanes" in lines
    assert " at 0x" not in "\n".join(lines)  # the same in every run


def test_promised_names_are_there_and_documented():
    assert set(jaxgadget.__all__) >= PROMISED
    assert jaxgadget.__all__ == sorted(jaxgadget.__all__)
    for name in jaxgadget.__all__:
        assert inspect.getdoc(getattr(jaxgadget, name)), name


def test_the_version_is_the_packages():
    assert jaxgadget.__version__.count(".") == 2


if __name__ == "__main__":
    print("\n".join(public_api()))
