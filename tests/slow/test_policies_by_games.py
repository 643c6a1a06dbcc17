"""Policies that learn by games against themselves come close to equilibria."""

import dataclasses

import pytest

from jaxgadget.games.goofspiel import Goofspiel
from jaxgadget.games.kuhn import KuhnPoker
from jaxgadget.games.machine import StateMachine
from jaxgadget.learn.policy_lesson import PolicyMethod
from jaxgadget.learn.policy_training import train_policy
from jaxgadget.learn.ppo import PPO
from jaxgadget.learn.rnad import RNaD

pytestmark = pytest.mark.optimised


@pytest.mark.parametrize(
    ("machine", "method", "most"),
    [
        (Goofspiel(num_cards=3, imp_info=True), PPO(), 0.15),  # the uniform policy has a NashConv of 1.33
        (KuhnPoker(), RNaD(), 0.1),  # of 0.92
    ],
    ids=lambda each: getattr(each, "name", each),
)
def test_nash_conv_after_a_few_thousand_steps(machine: StateMachine, method: PolicyMethod, most: float):
    config = dataclasses.replace(method.config, steps=6000, width=64, every=3000)
    assert train_policy(machine, method, config=config, progress=False).nash_conv < most
