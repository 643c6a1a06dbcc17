"""Options from dataclasses: a command is a function of dataclasses, and each of their fields is an option.

The option has the field's name, type and default. Its help is the field's text under `Attributes:` in the
docstring of the class. The field's metadata override these on the command line:

- `flag`: the option's name, such as `--k`; by default derived from the field's name.
- `metavar`: the placeholder of its value in the help.
- `type`: the option's type, if the field also accepts other types.
- `choices`: the accepted values; by default those of a `Literal`.
- `parser`: the function from text to value, for values that are not numbers, text or paths.
- `min`, `max`: bounds of a number.
- `default`: a description of the default, shown instead of its value; empty to show none.
- `help`: a help text that replaces the field's.
- `option`: false for a field that is not an option of any command.
- `argument`: true for a positional argument.
- `prefix`: for a field that is a dataclass, a prefix of its fields' names; by default empty.

An option whose field is a tuple may be repeated; numbers may also be a list with commas, `1,256`. A field
that is a dataclass is replaced by its own fields.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import pathlib
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import typer

METAVARS: dict[object, str] = {int: "N", float: "X", pathlib.Path: "FILE"}
"""Placeholders of values in the help, by type."""

MAX_SHOWN_CHOICES = 3
"""Maximum number of choices shown in the placeholder; more choices are listed in the help text."""

_Made = TypeVar("_Made")


def option(default: Any = dataclasses.MISSING, /, **metadata: Any) -> Any:
    """Creates a field with a default and metadata."""
    return dataclasses.field(default=default, metadata=metadata)


@typing.dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(option, dataclasses.field)
)
def request(kind: type[_Made]) -> type[_Made]:
    """Decorator for a frozen dataclass of options, without `__eq__` and `__repr__`, which are slow."""
    return dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)(kind)


class Fields:
    """Selection of the fields of a dataclass that are options of a command: `Annotated[Class, Fields(…)]`.

    Args:
      only: names of the fields; by default all fields.
      without: names of omitted fields.
      defaults: defaults that differ from those of the class.
    """

    def __init__(self, *only: str, without: tuple[str, ...] = (), **defaults: Any) -> None:
        self.only, self.without, self.defaults = only, without, defaults

    def select(self, kind: type[Any]) -> list[dataclasses.Field[Any]]:
        """The fields of a class that are options; raises TypeError for an unknown name."""
        fields = {
            field.name: field for field in dataclasses.fields(kind) if field.metadata.get("option", True)
        }
        unknown = {*self.only, *self.without, *self.defaults} - {
            each.name for each in dataclasses.fields(kind)
        }
        if unknown:
            raise TypeError(f"{kind.__name__} has no fields {sorted(unknown)}")
        return [
            field
            for name, field in fields.items()
            if name in (self.only or fields) and name not in self.without
        ]


class _Option(NamedTuple):
    """An option of a command.

    Attributes:
      owner: the class with the field.
      field: the field.
      name: the parameter's name, with all prefixes.
      default: the option's default.
      note: a sentence for the help, from the field of the group.
    """

    owner: type[Any]
    field: dataclasses.Field[Any]
    name: str
    default: Any
    note: str


def _flag(field: dataclasses.Field[Any], name: str) -> str:
    """Name of an option on the command line."""
    return field.metadata.get("flag", f"--{name.replace('_', '-')}")


def expand(function: Callable[..., None]) -> Callable[..., None]:
    """Converts a function of dataclasses to a command with one option for each of their fields."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[type[Any], Fields]] = {}
    expanded: set[str] = set()
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        kind, fields = _split(parameter.annotation)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            groups[name] = kind, fields
            options = list(_options(kind, fields))
            parameters += map(_parameter, options)
            expanded |= {option.name for option in options}
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(function)
    def command(**values: Any) -> None:
        made = {name: make(kind, values, fields) for name, (kind, fields) in groups.items()}
        function(**made, **{name: value for name, value in values.items() if name not in expanded})

    signature = inspect.Signature(parameters)
    command.__signature__ = signature  # pyright: ignore[reportAttributeAccessIssue]
    command.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()}
    del command.__wrapped__  # its annotations differ from the command's
    return command


def make(
    kind: type[_Made], values: Mapping[str, Any], fields: Fields | None = None, prefix: str = ""
) -> _Made:
    """Creates a dataclass from the values of its options.

    Args:
      kind: the dataclass.
      values: values by parameter name, including prefixes; values of other parameters are ignored.
      fields: the fields that are options; the others have the defaults of the class.
      prefix: prefix of the parameters' names.

    Raises:
      ValueError: as raised by the class, with the name of the option instead of the field's.
    """
    fields = fields or Fields()
    arguments: dict[str, Any] = dict(fields.defaults)
    flags: dict[str, str] = {}
    for field in fields.select(kind):
        nested = _nested(kind, field)
        if nested is not None:
            group, own = nested
            arguments[field.name] = make(group, values, own, prefix + field.metadata.get("prefix", ""))
            continue
        name = prefix + field.name
        flags[field.name] = _flag(field, name)
        value = values[name]
        if value or value in (0, ""):  # omitted options have the default of the class
            arguments[field.name] = tuple(_flat(value)) if isinstance(value, list) else _plain(value)
    try:
        return kind(**arguments)
    except ValueError as error:
        name, equals, rest = str(error).partition("=")
        if not equals or name not in flags:
            raise
        raise ValueError(f"{flags[name]} {rest}") from error


def _plain(value: Any) -> Any:
    """The text of a choice; other values are returned unchanged."""
    return value.value if isinstance(value, enum.StrEnum) else value


def _flat(values: list[Any]) -> Iterator[Any]:
    """Yields the values of a repeated option, and the elements of those that are lists."""
    for value in values:
        yield from value if isinstance(value, tuple) else (_plain(value),)


def _read_numbers(kind: type[int] | type[float], text: str) -> tuple[int | float, ...]:
    """Parses numbers separated by commas."""
    try:
        return tuple(map(kind, text.split(",")))
    except ValueError:
        name = "an integer" if kind is int else "a number"
        raise typer.BadParameter(f"{text!r}: expected {name}, or several as 1,2") from None


def read_path(text: str) -> pathlib.Path:
    """Parses a path; rejects an empty text, which would mean the working folder."""
    if not text:
        raise typer.BadParameter("'' is not a path; expected one, such as results")
    return pathlib.Path(text)


def names_of(kind: type[Any], fields: Fields | None = None) -> list[str]:
    """Names of a command's parameters for the fields of a dataclass."""
    return [option.name for option in _options(kind, fields or Fields())]


def either(names: typing.Iterable[object]) -> str:
    """`a`, `b` or `c`."""
    return _enumeration([f"`{name}`" for name in names], "or")


def _enumeration(words: list[str], last: str) -> str:
    return f" {last} ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def _split(annotation: Any) -> tuple[Any, Fields]:
    """Splits an annotation into a type and its `Fields`."""
    if typing.get_origin(annotation) is not Annotated:
        return annotation, Fields()
    kind, *more = typing.get_args(annotation)
    return kind, next((each for each in more if isinstance(each, Fields)), Fields())


def _options(kind: type[Any], fields: Fields, prefix: str = "", note: str = "") -> Iterator[_Option]:
    """Yields the options for the fields of a dataclass."""
    for field in fields.select(kind):
        nested = _nested(kind, field)
        if nested is not None:
            group, own = nested
            own_prefix = field.metadata.get("prefix", "")
            yield from _options(
                group, own, prefix + own_prefix, _text(kind, field.name) if own_prefix else note
            )
            continue
        default = fields.defaults.get(field.name, field.default)
        if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        yield _Option(kind, field, prefix + field.name, default, note)


def _nested(kind: type[Any], field: dataclasses.Field[Any]) -> tuple[type[Any], Fields] | None:
    """The dataclass type of a field, and its fields that are options; None if it is not a dataclass."""
    group, fields = _split(_type(kind, field))
    return (group, fields) if isinstance(group, type) and dataclasses.is_dataclass(group) else None


def _type(kind: type[Any], field: dataclasses.Field[Any]) -> Any:
    """The type of a field as an option, without None.

    `typing.get_type_hints` cannot be used: other fields may have types that only type checkers import.
    """
    return _annotation(kind, field.name, field.metadata.get("type", field.type))


@functools.cache
def _annotation(kind: type[Any], name: str, annotation: Any) -> Any:
    """The type in a field's annotation, without None."""
    if isinstance(annotation, str):
        owner = next(base for base in kind.__mro__ if name in inspect.get_annotations(base))
        annotation = eval(annotation, vars(sys.modules[owner.__module__]))
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        (annotation,) = (each for each in typing.get_args(annotation) if each is not types.NoneType)
    return annotation


def _text(kind: type[Any], name: str) -> str:
    """Description of an attribute in the docstring of a class or its bases; empty if there is none."""
    return next((texts[name] for base in kind.__mro__ if name in (texts := _texts(base))), "")


@functools.cache
def _texts(kind: type[Any]) -> dict[str, str]:
    """Descriptions of the attributes in a class's own docstring, capitalised."""
    section = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^  (\w+): (.*(?:\n    .*)*)", section, flags=re.MULTILINE)
    texts = {name: " ".join(text.split()) for name, text in entries}
    return {name: text[0].upper() + text[1:] for name, text in texts.items()}


@functools.cache
def _one_of(choices: tuple[str, ...]) -> Any:
    """Converts choices to a type that typer supports."""
    return enum.StrEnum("Choice", {choice: choice for choice in choices})


@functools.cache
def _parameter(option: _Option) -> inspect.Parameter:
    """Converts an option to a parameter that typer supports."""
    metadata, kind = option.field.metadata, _type(option.owner, option.field)
    repeated = typing.get_origin(kind) is tuple
    if repeated:
        kind = typing.get_args(kind)[0]
    choices = typing.get_args(kind) if typing.get_origin(kind) is Literal else metadata.get("choices", ())
    text = metadata.get("help") or _text(option.owner, option.field.name)
    text = f"{text} {option.note}".strip()
    metavar = METAVARS.get(kind, "TEXT")
    if choices:
        kind = _one_of(choices)
        metavar = "|".join(choices) if len(choices) <= MAX_SHOWN_CHOICES else "NAME"
        if len(choices) > MAX_SHOWN_CHOICES:
            text = f"{text.removesuffix('.')}: {either(choices)}."
    is_list = repeated and kind in (int, float)
    several = "*May be repeated, or a list with commas.*" if is_list else "*May be repeated.*"
    settings: dict[str, Any] = {
        "metavar": None if kind is bool else metadata.get("metavar", metavar),
        "help": f"{text} {several}" if repeated else text,
        "show_default": metadata.get("default", True) or False,
        **{name: metadata[name] for name in ("min", "max", "parser") if name in metadata},
    }
    if kind is pathlib.Path:
        settings["parser"] = read_path
    elif is_list:
        settings["parser"] = functools.partial(_read_numbers, kind)
    default = option.default
    if repeated and default is not dataclasses.MISSING:
        if default:
            settings["show_default"] = _enumeration([str(each) for each in default], "and")
        default = None
    info = (
        typer.Argument(**settings)
        if metadata.get("argument")
        else typer.Option(_flag(option.field, option.name), **settings)
    )
    if default is dataclasses.MISSING:
        default = inspect.Parameter.empty
    annotation: Any = Annotated[list[kind] if repeated else kind | None if default is None else kind, info]
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
