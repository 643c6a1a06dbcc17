"""Names of gadgets, priors and alternative values, and their combinations on the command line."""

import dataclasses
import pathlib
from typing import ClassVar

import numpy as np
import pytest

import jaxgadget
from jaxgadget.gadgets import registry
from jaxgadget.gadgets.prior import NoPrior, Prior, PriorRefusedError
from jaxgadget.gadgets.registry import ALTERNATIVES, GADGETS, PRIORS
from jaxgadget.gadgets.specs import make_gadgets
from jaxgadget.util.registry import find


@pytest.mark.parametrize("table", [GADGETS, PRIORS, ALTERNATIVES])
def test_names_in_the_registry_match_the_classes(table: dict[str, str]) -> None:
    for name in table:
        assert find(table, name, "name")().name == name


@dataclasses.dataclass(frozen=True)
class Timid:
    """A gadget that accepts only small ε and only the prior `uniform`."""

    prior: Prior
    epsilon: float = 0.0
    name: ClassVar[str] = "timid"

    def __post_init__(self) -> None:
        if self.epsilon > 0.1:
            raise ValueError(f"epsilon={self.epsilon}: expected at most 0.1 for the timid gadget")
        if self.prior.name == "blueprint":
            raise PriorRefusedError("timid")


@pytest.fixture
def timid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.GADGETS, "timid", f"{__name__}:Timid")


@pytest.mark.usefixtures("timid")
def test_only_a_refused_prior_becomes_none() -> None:
    made = make_gadgets(["timid"], ["uniform", "blueprint", "none"], [0.1])
    assert made == [Timid(jaxgadget.UniformPrior(), 0.1), Timid(NoPrior(), 0.0)]
    with pytest.raises(ValueError, match="epsilon="):
        make_gadgets(["timid"], ["uniform", "none"], [0.2])


@pytest.mark.usefixtures("timid")
def test_priors_that_all_gadgets_refuse_are_an_error() -> None:
    with pytest.raises(PriorRefusedError, match="timid"):
        make_gadgets(["timid"], ["blueprint"])
    made = make_gadgets(["timid", "resolving"], ["blueprint"], [0.05])
    assert [(gadget.name, gadget.prior.name) for gadget in made] == [
        ("timid", "none"),
        ("resolving", "blueprint"),
    ]


OWN = """
import dataclasses
from typing import ClassVar

import jaxgadget


@dataclasses.dataclass(frozen=True)
class Bold(jaxgadget.Resolving):
    name: ClassVar[str] = "bold"


class Steep(jaxgadget.UniformPrior):
    name = "steep"


def function():
    pass
"""


def test_a_gadget_and_a_prior_of_a_users_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    (made,) = make_gadgets([f"{path}:Bold"], [f"{path}:Steep"], [0.1])
    assert (made.name, made.prior.name, made.epsilon) == ("bold", "steep", 0.1)
    tree = jaxgadget.enumerate_game(jaxgadget.load("kuhn_poker"))
    uniform = jaxgadget.Policy.uniform(tree)
    found, same = (
        jaxgadget.refine(tree, "depth:1", uniform, gadget, iterations=10)
        for gadget in (made, jaxgadget.Resolving(jaxgadget.UniformPrior(), 0.1))
    )
    np.testing.assert_array_equal(found.refined_exploitability, same.refined_exploitability)
    for name, message in (
        ("Timid", "expected a gadget class; classes there: Bold"),
        ("function", "is not a dataclass"),
        ("Bold(x=1)", "is unknown; expected one of unsafe"),
    ):
        with pytest.raises(ValueError, match=message):
            make_gadgets([f"{path}:{name}"], ["none"])
