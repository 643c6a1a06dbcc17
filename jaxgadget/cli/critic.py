"""`jaxgadget train-critic GAME`."""

from __future__ import annotations

import shlex
from typing import Annotated, Literal

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
    """Continuations at the limit of searches, and targets of their values.

    Attributes:
      k: number of strategies that each player chooses from at the limit; the first is the blueprint.
      continuations: the other strategies: `biased` multiplies the blueprint's probabilities of one class of
        actions each by `--factor`, for at most one more strategy than the game has actions; `learned` moves
        the blueprint in directions of its own improvement, which are learned along with the critic.
      factor: for biased: factor of the probabilities of a class of actions.
      targets: with `branch`, each game yields a target for one value of one state; with `vtrace`, as in
        SePoT, for all values of all its states, with importance weights.
    """

    k: int = option(DEFAULT_ENTRIES, metavar="K", min=1)
    continuations: Literal["biased", "learned"] = "biased"
    factor: float | None = option(None, metavar="F", default="10")
    targets: Literal["branch", "vtrace"] = "branch"


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
    """Train a critic, which values states of a game too large to enumerate, for search with a network.

    The blueprint is a network, `file:DIR`, from `train-policy`. The values are those of all pairs of
    continuations, learned from games of the blueprint.
    """
    output.check()
    if options.continuations == "learned" and options.factor is not None:
        raise ValueError("--factor has no effect with --continuations learned; leave it out")
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
            policy,
            options.k,
            continuations=options.continuations,
            factor=options.factor,
            targets=options.targets,
            config=config,
            folder=training.out,
            progress=True,
        )
    output.write_json(critic_record(trained, training.steps))
    use = ["jaxgadget", "match", game.game, "--blueprint", blueprints.only(), "--leaf", str(training.out)]
    notes = ["The critic is for this game and network only:", shlex.join(use)]
    output.print((critic_table(trained, training.steps), notes))
