"""User-defined classes by name: `module:Class` or `path.py:Class`, with parameters in parentheses."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import os
import pathlib
import re
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any, NamedTuple

_SUFFIX = ".py"
_FORM = "expected module:Class or path.py:Class, optionally with parameters in parentheses"

_added = set[str]()
"""Folders that this process added to `sys.path` for files that it ran; other processes lack them."""

run_files = dict[str, ModuleType]()
"""Modules of files that this process ran, by name; other processes cannot import them."""


class OwnSpec(NamedTuple):
    """A parsed specification: module or file, class name, and the text between the parentheses."""

    where: str
    member: str
    parameters: str


def parse_own(spec: str) -> OwnSpec | None:
    """Parses a specification; returns None if it has another form."""
    match = re.fullmatch(r"\s*(.+?)\s*:\s*([^\W\d]\w*)\s*(?:\((.*)\))?\s*", spec, re.DOTALL)
    if match is None:
        return None
    where, member, parameters = match.groups(default="")
    is_module = all(part.isidentifier() for part in where.split("."))
    return OwnSpec(where, member, parameters) if where.lower().endswith(_SUFFIX) or is_module else None


def resolve(where: str) -> str:
    """A file's absolute path, or the name of a module that other processes can import."""
    if where.lower().endswith(_SUFFIX):
        return os.path.abspath(os.path.expanduser(where))
    top, file = where.partition(".")[0], pathlib.Path.cwd() / f"{where}{_SUFFIX}"
    ours = {str(pathlib.Path.cwd()), *_added}
    elsewhere = [folder for folder in sys.path if folder and folder not in ours]
    if top in sys.builtin_module_names or PathFinder.find_spec(top, elsewhere) or not file.is_file():
        return where
    return str(file)


def find_member(label: str, where: str, member: str, expected: str) -> Callable[..., Any]:
    """Imports a user's class or function.

    A file is run on every call; its folder is appended to `sys.path` for its imports. A module that is only
    in the working folder is treated as a file (`resolve`).

    Args:
      label: kind and specification, for errors.
      where: resolved module or file.
      member: name of the class or function.
      expected: kind of class, for errors, such as `game class`.

    Raises:
      ValueError: if the file, module or class is missing, or the user's code raises an exception.
    """
    return _find_maker(label, where, _import(label, where), member, expected)


def _import(label: str, where: str) -> ModuleType:
    is_file = where.lower().endswith(_SUFFIX)
    if is_file and not os.path.isfile(where):
        raise ValueError(f"{label}: file {where!r} not found; {_FORM}")
    try:
        return _run_file(where) if is_file else importlib.import_module(where)
    except ModuleNotFoundError as error:
        if not is_file and error.name and f"{where}.".startswith(f"{error.name}."):
            raise ValueError(
                f"{label}: module {error.name!r} not found; {_FORM}, such as {where}{_SUFFIX}:Class "
                "for a file, or set PYTHONPATH"
            ) from error
        raise ValueError(
            f"{label}: importing {where!r} raised {describe_error(error)}; correct it"
        ) from error
    except (Exception, SystemExit) as error:
        raise ValueError(
            f"{label}: importing {where!r} raised {describe_error(error)}; correct it"
        ) from error


def _run_file(path: str) -> ModuleType:
    name = f"{pathlib.Path(path).stem}_{hashlib.sha256(path.encode()).hexdigest()[:16]}"
    loader = SourceFileLoader(name, path)
    module_spec = importlib.util.spec_from_loader(name, loader)
    assert module_spec is not None  # never None for a file loader
    if (folder := os.path.dirname(path)) not in sys.path:
        sys.path.append(folder)
        _added.add(folder)
    module = sys.modules[name] = importlib.util.module_from_spec(module_spec)  # dataclasses look it up there
    try:  # not `exec_module`, which may use stale bytecode of a file that was just changed
        exec(loader.source_to_code(loader.get_data(path), path), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    run_files[name] = module
    return module


def _find_maker(label: str, where: str, module: ModuleType, member: str, expected: str) -> Callable[..., Any]:
    maker = getattr(module, member, None)
    if callable(maker):
        return maker
    classes = [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    available = ", ".join(difflib.get_close_matches(member, classes) or classes) or "no class"
    problem = "has no class" if maker is None else f"defines {maker!r}, which is not a class, as"
    raise ValueError(
        f"{label}: {where!r} {problem} {member!r}; expected a {expected}; classes there: {available}"
    )


def describe_error(error: BaseException) -> str:
    """The kind and message of an error."""
    return f"{type(error).__name__}: {error}"
