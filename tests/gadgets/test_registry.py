"""Names of gadgets, priors and alternative values, and what the command line makes of them together."""

import dataclasses
from typing import ClassVar

import pytest

import jaxgadget
from jaxgadget.gadgets import registry
from jaxgadget.gadgets.prior import NoPrior, Prior, PriorRefusedError
from jaxgadget.gadgets.registry import ALTERNATIVES, GADGETS, PRIORS
from jaxgadget.gadgets.specs import make_gadgets
from jaxgadget.util.registry import find


@pytest.mark.parametrize("table", [GADGETS, PRIORS, ALTERNATIVES])
def test_every_name_is_that_of_what_it_stands_for(table: dict[str, str]) -> None:
    for name in table:
        assert find(table, name, "name")().name == name


@dataclasses.dataclass(frozen=True)
class Timid:
    """A gadget that knows only small ε, and no prior but `uniform`."""

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
