"""Shared by the experiments of this folder: games, and networks trained by any method."""

from __future__ import annotations

import dataclasses
import pathlib

from experiments.common import LIARS_DICE, titled
from experiments.study import Settings
from jaxgadget import load
from jaxgadget.learn.critic import NetworkCritic, train_critic
from jaxgadget.learn.mirror_descent import MirrorDescent
from jaxgadget.learn.options import TrainerConfig
from jaxgadget.learn.policy_lesson import PolicyMethod
from jaxgadget.learn.policy_training import PolicyTraining, train_policy
from jaxgadget.learn.ppo import PPO
from jaxgadget.learn.rnad import RNaD
from jaxgadget.policy.network import NetworkPolicy

HERE = pathlib.Path(__file__).parent

KUHN, LEDUC = "kuhn_poker", "leduc_poker"


def goofspiel(cards: int) -> str:
    """Goofspiel with descending prizes."""
    return f"goofspiel(imp_info=True,num_cards={cards},points_order=descending)"


def liars_dice(sides: int) -> str:
    """Liar's Dice with two dice a player."""
    return f"liars_dice(dice_sides={sides},numdice=2)"


GOOFSPIEL_4 = goofspiel(4)

SMALL, SMALL_STEPS = goofspiel(3), 16
"""Game and training steps of smoke tests, the same ones for all programs that they share."""

WIDTH = 64
"""Units of a layer of networks; they have two layers."""

PARTS = 10
"""Checkpoints of a training, and points of its curve."""

PACE = {
    KUHN: (1.0, 1.0),
    LEDUC: (1.0, 5.0),
    LIARS_DICE: (2.0, 1.0),
    GOOFSPIEL_4: (2.0, 1.0),
    SMALL: (2.0, 1.0),
}
"""η and α of mirror descent, of tables and of networks: those of Sokota et al. (2023), and of the guide."""


MOST_ITERATIONS = 6_000
"""Maximum number of iterations of mirror descent; the small steps of later ones need more training."""


def method_of(name: str, game: str, steps: int) -> PolicyMethod:
    """The method of training `MMD`, `PPO` or `R-NaD`, for a number of training steps."""
    if name == "MMD":
        eta, alpha = PACE[game]
        return MirrorDescent(eta=eta, alpha=alpha, inner=max(50, -(-steps // MOST_ITERATIONS)))
    return PPO() if name == "PPO" else RNaD()


def folder_of(settings: Settings, kind: str, game: str, steps: int) -> pathlib.Path:
    """Folder of a network among the finished pieces."""
    return settings.work / f"{kind}-{titled(game)}-{steps}".replace(" ", "-")


def train(settings: Settings, game: str, method: str, steps: int) -> PolicyTraining:
    """A trained network; a training that was finished or interrupted goes on in its folder."""
    how = method_of(method, game, steps)
    return train_policy(
        load(game),
        how,
        config=dataclasses.replace(how.config, steps=steps, width=WIDTH, every=-(-steps // PARTS)),
        folder=folder_of(settings, method, game, steps),
        progress=False,
    )


def critic_of(settings: Settings, policy: NetworkPolicy, entries: int, steps: int) -> NetworkCritic:
    """A trained critic of a network, with K `entries`, or as many as the game's actions allow."""
    folder = folder_of(settings, f"critic-of-{pathlib.Path(policy.name).name}", policy.machine.name, steps)
    size = min(entries, policy.machine.num_actions + 1)
    config = TrainerConfig(steps=steps, width=2 * WIDTH, every=steps)
    return train_critic(policy, size, config=config, folder=folder, progress=False).critic
