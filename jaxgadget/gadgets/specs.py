"""Gadgets by name, as for the command line's `--gadget`, `--prior` and `--epsilon`."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from jaxgadget.gadgets.alternative import Alternative, AlternativeRefusedError, BestResponseValues
from jaxgadget.gadgets.gadget import AUTO, DEFAULT_EPSILON, Epsilon, Gadget, check_epsilon
from jaxgadget.gadgets.generation import Generation
from jaxgadget.gadgets.prior import NoPrior, Prior, PriorRefusedError
from jaxgadget.gadgets.registry import (
    ALTERNATIVES,
    CONTINUATION,
    GADGETS,
    GENERATIONS,
    PRIORS,
    RANGE_VALUES,
)
from jaxgadget.util.arguments import read_number
from jaxgadget.util.registry import find


def make_gadgets(
    names: Sequence[str],
    priors: Sequence[str | Prior],
    epsilons: Sequence[Epsilon | str] | None = None,
    alternatives: Sequence[Alternative] = (BestResponseValues(),),
    settings: Mapping[str, Any] | None = None,
) -> list[Gadget]:
    """Creates all combinations of the arguments, without duplicates; prior `none` has no ε.

    Args:
      names: names of gadgets.
      priors: names of priors, or priors.
      epsilons: numbers in [0, 1), or `auto`, also as strings; by default 1e-3.
      alternatives: alternative values, for gadgets that accept them.
      settings: further arguments; each gadget receives those that are among its fields.

    Raises:
      ValueError: for an invalid ε, an unknown name, arguments that a gadget rejects, or if all gadgets reject
        all priors, or all alternative values.
    """
    parsed = [_epsilon(text) for text in epsilons or [DEFAULT_EPSILON]]
    classes = {name: _find_gadget(name) for name in names}
    prior_objects = [find(PRIORS, prior, "prior")() if isinstance(prior, str) else prior for prior in priors]
    gadgets: dict[str, Gadget] = {}
    refused: dict[str, PriorRefusedError] = {}
    for name, make in classes.items():
        fields = {field.name for field in dataclasses.fields(make)}
        own = {key: value for key, value in (settings or {}).items() if key in fields}
        offers = [{"alternative": a} for a in alternatives] if "alternative" in fields else [{}]
        for offer, prior, epsilon in itertools.product(offers, prior_objects, parsed):
            try:
                gadget = make(prior, epsilon, **offer, **own)
            except PriorRefusedError as error:
                refused[name] = error
                gadget = make(NoPrior(), **offer, **own)
            except AlternativeRefusedError:
                if len(offers) > 1:
                    continue  # this gadget has no alternative values
                raise
            gadgets.setdefault(f"{name} {offer} {_setting(gadget)}", gadget)
    if (
        refused
        and len(refused) == len(classes)
        and not any(isinstance(prior, NoPrior) for prior in prior_objects)
    ):
        raise next(iter(refused.values()))
    return list(gadgets.values())


def _find_gadget(name: str) -> Any:
    """A gadget's class, by its name or as `path.py:Class`."""
    kind = find(GADGETS, name, "gadget")
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise ValueError(
            f"gadget {name!r}: {kind!r} is not a dataclass; expected one with name, prior, epsilon and "
            "tables(ranges), such as a subclass of jaxgadget.Resolving"
        )
    return kind


def make_alternative(text: str) -> Alternative:
    """Alternative values by name; `continuation:N` takes a number of iterations, `values:DIR` a folder.

    Raises:
      ValueError: for an unknown name, or an invalid number.
    """
    name, colon, count = text.partition(":")
    if not colon and name in ALTERNATIVES:
        return find(ALTERNATIVES, name, "alternative")()
    if name in RANGE_VALUES and count:
        return find(ALTERNATIVES, CONTINUATION, "alternative")(find(RANGE_VALUES, name, "values")(count))
    if name != CONTINUATION or not re.fullmatch("[0-9]{1,10}", count):
        raise ValueError(
            f"alternative {text!r}: expected one of {', '.join(ALTERNATIVES)}, {CONTINUATION}:N or values:DIR"
        )
    return find(ALTERNATIVES, CONTINUATION, "alternative")(int(count))


def make_generation(text: str) -> Generation:
    """A generation by name: `diverse:N`, or `random:N[:DRAWS[:SEED]]`.

    Raises:
      ValueError: for an unknown name or invalid numbers.
    """
    name, *numbers = text.split(":")
    make = find(GENERATIONS, name, "generation")
    most = len(dataclasses.fields(make))
    if not 1 <= len(numbers) <= most or not all(re.fullmatch("[0-9]{1,10}", number) for number in numbers):
        raise ValueError(
            f"generation {text!r}: expected whole numbers, as in diverse:3, random:3:20 (3 infostates, 20 "
            "draws) or random:3:20:1 (seed 1)"
        )
    try:
        return make(*map(int, numbers))
    except ValueError as error:
        raise ValueError(f"generation {text!r}: {error}") from error


def _setting(gadget: Gadget) -> str:
    return "" if isinstance(gadget.prior, NoPrior) else f"{gadget.prior} {gadget.epsilon}"


def _epsilon(text: Epsilon | str) -> Epsilon:
    """Parses `auto` or a number in [0, 1); raises ValueError otherwise."""
    if not isinstance(text, str):
        check_epsilon(text)
        return text
    if text == AUTO:
        return AUTO
    value = read_number(text)
    if value is None:
        raise ValueError(f"epsilon={text!r}: expected a number in [0, 1), or 'auto'")
    check_epsilon(value)
    return value
