"""`jaxgadget train-critic GAME`."""

from __future__ import annotations

import shlex
from typing import Annotated

from jaxgadget.cli.fields import Fields, option, request
from jaxgadget.cli.leaves import DEFAULT_ENTRIES, SearchBlueprintOptions
from jaxgadget.cli.options import GameOptions, Output
from jaxgadget.cli.train import TrainingOptions, keeping_steps

CRITIC_EXAMPLES = """\
Examples:

`jaxgadget train-critic "goofspiel(num_cards=6,imp_info=True)" --blueprint file:policy --k 4 --out critic`

`jaxgadget match "goofspiel(num_cards=6,imp_info=True)" --blueprint file:policy --leaf critic --matches 10`
"""


@request
class CriticOptions:
    """Continuations at the limit of searches.

    Attributes:
      k: number of strategies that each player chooses from at the limit: the blueprint, and the blueprint
        with the probabilities of one class of actions each multiplied by `--factor`; at most one more than
        the game has actions.
      factor: factor of a class of actions.
    """

    k: int = option(DEFAULT_ENTRIES, metavar="K", min=1)
    factor: float = option(10.0, metavar="F")


def train_critic(
    game: GameOptions,
    blueprints: SearchBlueprintOptions,
    options: CriticOptions,
    training: Annotated[
        TrainingOptions,
        Fields("out", "steps", "width", "blocks", "batch_size", "learning_rate", "seed", width=256),
    ],
    output: Output,
) -> None:
    """Train a critic: values of the states of a game too large to enumerate, for search with a network.

    The blueprint is a network, `file:DIR`, from `train-policy`. The values are those of all pairs of
    continuations, learned from games of the blueprint.
    """
    output.check()
    policy = blueprints.load_network(game)
    from jaxgadget.learn.critic import train_critic as train
    from jaxgadget.learn.options import TrainerConfig
    from jaxgadget.report.search import critic_record, critic_table

    config = TrainerConfig(
        steps=training.steps,
        width=training.width,
        depth=training.blocks,
        batch_size=training.batch_size,
        learning_rate=training.learning_rate,
        seed=training.seed,
    )
    with keeping_steps(training.out, training.steps):
        trained = train(
            policy, options.k, factor=options.factor, config=config, folder=training.out, progress=True
        )
    output.write_json(critic_record(trained, training.steps))
    use = ["jaxgadget", "match", game.game, "--blueprint", blueprints.only(), "--leaf", str(training.out)]
    notes = ["The critic is for this game and network alone:", shlex.join(use)]
    output.print((critic_table(trained, training.steps), notes))
