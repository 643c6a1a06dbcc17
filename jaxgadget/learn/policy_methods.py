"""Methods of `train_policy` by name."""

from __future__ import annotations

from typing import Any

from jaxgadget.learn.distillation import Distil
from jaxgadget.learn.mirror_descent import MirrorDescent
from jaxgadget.learn.policy_lesson import PolicyMethod
from jaxgadget.learn.ppo import PPO
from jaxgadget.learn.rnad import RNaD

METHODS: dict[str, Any] = {"distil": Distil, "mmd": MirrorDescent, "ppo": PPO, "rnad": RNaD}


def make_method(name: str, **settings: Any) -> PolicyMethod:
    """Creates a method by name; omitted settings have the method's defaults."""
    return METHODS[name](**settings)
