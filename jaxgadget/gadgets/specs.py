"""Gadgets by name: what the command line's `--gadget`, `--prior` and `--epsilon` mean together."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from jaxgadget.gadgets.gadget import AUTO, DEFAULT_EPSILON, Epsilon, Gadget, check_epsilon
from jaxgadget.gadgets.kinds import GADGETS
from jaxgadget.gadgets.prior import PRIORS, NoPrior, Prior

DEFAULT_GADGETS = ("unsafe", "resolving", "max-margin")
"""What is solved if nothing is asked for."""


def make_gadgets(
    names: Sequence[str],
    priors: Sequence[str | Prior],
    epsilons: Sequence[Epsilon | str] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> list[Gadget]:
    """The product, each once: prior `none` has no ε, and some gadgets know no other prior.

    Args:
      names: of gadgets.
      priors: their names, or priors.
      epsilons: numbers in [0, 1), or `auto`, also as they were typed; by default 1e-3.
      settings: other arguments; each gadget takes those that it knows.

    Raises:
      ValueError: for an ε that is neither, a name that is unknown, or if the only gadgets asked for refuse
        all priors.
    """
    several = [DEFAULT_EPSILON] if not epsilons else [_epsilon(text) for text in epsilons]
    _check_names("gadget", names, GADGETS)
    _check_names("prior", [prior for prior in priors if isinstance(prior, str)], PRIORS)
    found: dict[str, Gadget] = {}
    refused: dict[str, ValueError] = {}
    for name in names:
        kind = GADGETS[name]
        known = {field.name for field in dataclasses.fields(kind)}
        more = {key: value for key, value in (settings or {}).items() if key in known}
        for prior, epsilon in itertools.product(priors, several):
            try:
                gadget = kind(PRIORS[prior]() if isinstance(prior, str) else prior, epsilon, **more)
            except ValueError as error:
                refused[name] = error
                gadget = kind(NoPrior(), **more)
            found.setdefault(f"{name} {_setting(gadget)}", gadget)
    plain = any(prior == NoPrior.name or isinstance(prior, NoPrior) for prior in priors)
    if len(refused) == len(set(names)) and not plain:
        raise next(iter(refused.values()))
    return list(found.values())


def _setting(gadget: Gadget) -> str:
    return "" if isinstance(gadget.prior, NoPrior) else f"{gadget.prior} {gadget.epsilon}"


def _check_names(what: str, names: Sequence[str], known: Mapping[str, object]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{what} {name!r} is unknown; expected one of {', '.join(known)}")


def _epsilon(text: Epsilon | str) -> Epsilon:
    """`auto` or a number in [0, 1)."""
    if not isinstance(text, str):
        check_epsilon(text)
        return text
    if text == AUTO:
        return AUTO
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"epsilon={text!r}: expected a number in [0, 1), or 'auto'") from None
    check_epsilon(number)
    return number
