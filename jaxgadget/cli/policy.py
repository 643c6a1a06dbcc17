"""`jaxgadget train-policy GAME`."""

from __future__ import annotations

import dataclasses
import pathlib
import shlex
from typing import TYPE_CHECKING, Annotated, Any, Literal

from jaxgadget.cli.fields import Fields, option, request
from jaxgadget.cli.options import GameOptions, PlotOutput, SeedOptions
from jaxgadget.cli.train import keeping_steps

if TYPE_CHECKING:
    from jaxgadget.learn.policy_lesson import PolicyMethod

POLICY_EXAMPLES = """\
Examples:

`jaxgadget train-policy leduc_poker --method distil --target cfr+:1000 --out leduc-policy`

`jaxgadget train-policy "liars_dice(dice_sides=4)" --eta 2 --plot curve.png --out dice-policy`

`jaxgadget refine leduc_poker --cut flop --blueprint file:leduc-policy`
"""

OF_METHOD = {
    "distil": ("target",),
    "mmd": ("eta", "alpha", "inner"),
    "ppo": ("minibatches", "epochs", "entropy", "final_entropy", "divergence", "clip"),
    "rnad": ("regularisation", "swap", "threshold", "target_rate"),
}
"""Options that only one method has."""

DEFAULT = "depends on the method"
"""Text shown as the default of options whose default depends on the method."""


@request
class PolicyTrainingOptions(SeedOptions):
    """Settings of policy training.

    Attributes:
      out: folder of checkpoints and the log; the same command resumes the training.
      steps: number of training steps.
      width: number of units of each layer of the network.
      blocks: number of residual blocks of the network, of two layers each; `depth` in Python.
      batch_size: number of infosets in a training step; for ppo the number of decisions, for rnad of games.
      learning_rate: maximum learning rate; it rises during the first 2 % of the steps, then falls.
      average: approximate share of the last training steps over which the network's weights are averaged; 0
        for no averaging.
    """

    out: pathlib.Path = dataclasses.field(metadata={"metavar": "DIR"})
    steps: int | None = option(None, min=1, default=DEFAULT)
    width: int = option(128, min=1)
    blocks: int = option(1, min=0)
    batch_size: int | None = option(None, min=1, default=DEFAULT)
    learning_rate: float | None = option(None, metavar="R", default=DEFAULT)
    average: float | None = option(None, metavar="SHARE", min=0, max=1, default=DEFAULT)


@request
class MethodOptions:
    """The training method, and settings that only some methods have.

    Attributes:
      method: `mmd` is magnetic mirror descent with exact values, `ppo` the same with sampled games, `rnad`
        R-NaD, also sampled; `distil` learns the probabilities of `--target`.
      target: for distil: the strategy to learn, a SPEC as for `--blueprint` of other commands.
      eta: for mmd: step size of the first iteration; that of iteration t is η / √t.
      alpha: for mmd: weight of the uniform policy in the first iteration; that of iteration t is α / √t.
      inner: for mmd: number of training steps per iteration.
      minibatches: for ppo: number of training steps in an epoch over the decisions of a batch of games.
      epochs: for ppo: number of epochs before new games.
      entropy: for ppo: weight of the entropy in the first step.
      final_entropy: for ppo: weight of the entropy in the last step.
      divergence: for ppo: weight of the divergence from the policy that played.
      clip: for ppo: maximum change of the probability ratio that the objective rewards.
      regularisation: for rnad: weight of the reward transformation.
      swap: for rnad: number of training steps between updates of the regularisation policy.
      threshold: for rnad: largest absolute logit that NeuRD increases.
      target_rate: for rnad: share of the weights that the target network takes over in each step.
    """

    method: Literal["mmd", "distil", "ppo", "rnad"] = "mmd"
    target: str | None = option(None, metavar="SPEC", default="")
    eta: float | None = option(None, metavar="η", default=DEFAULT)
    alpha: float | None = option(None, metavar="α", default=DEFAULT)
    inner: int | None = option(None, min=1, default=DEFAULT)
    minibatches: int | None = option(None, min=1, default=DEFAULT)
    epochs: int | None = option(None, min=1, default=DEFAULT)
    entropy: float | None = option(None, min=0, default=DEFAULT)
    final_entropy: float | None = option(None, min=0, default=DEFAULT)
    divergence: float | None = option(None, min=0, default=DEFAULT)
    clip: float | None = option(None, min=0, default=DEFAULT)
    regularisation: float | None = option(None, min=0, default=DEFAULT)
    swap: int | None = option(None, min=1, default=DEFAULT)
    threshold: float | None = option(None, min=0, default=DEFAULT)
    target_rate: float | None = option(None, metavar="SHARE", min=0, max=1, default=DEFAULT)

    def make(self) -> PolicyMethod:
        """The method.

        Raises:
          ValueError: for an option of another method, or without a target to distil.
        """
        settings = {name: value for name, value in vars(self).items() if value is not None}
        del settings["method"]
        for name in settings:
            if name not in OF_METHOD[self.method]:
                flag = name.replace("_", "-")
                raise ValueError(f"--{flag} has no effect with --method {self.method}; leave it out")
        if self.method == "distil" and self.target is None:
            raise ValueError("--method distil needs a --target, such as cfr+:1000")
        if self.target is not None:
            from jaxgadget.policy.blueprints import parse_blueprint

            parse_blueprint(self.target, "target")
        from jaxgadget.learn.policy_methods import make_method

        return make_method(self.method, **settings)


@request
class CurveOutput(PlotOutput):
    """Files to write.

    Attributes:
      plot: draw NashConv, or the loss if it is unknown, over the training, as .png, .svg or .pdf.
    """


def train_policy(
    game: Annotated[GameOptions, Fields(max_histories=2_000_000)],
    method: MethodOptions,
    training: PolicyTrainingOptions,
    output: CurveOutput,
) -> None:
    """Train a network to play a game: a blueprint for all commands, `--blueprint file:DIR`.

    NashConv, the sum of both players' gains by best responses, is exact; it is unknown for games with more
    than `--max-histories` histories.
    """
    output.check()
    made = method.make()
    from jaxgadget.learn.policy_training import train_policy as train
    from jaxgadget.report import search as report

    given: dict[str, Any] = {name: value for name, value in vars(training).items() if value is not None}
    del given["out"]
    config = dataclasses.replace(made.config, depth=given.pop("blocks"), **given)
    with keeping_steps(training.out, config.steps):
        trained = train(
            game.load(),
            made,
            config=config,
            folder=training.out,
            max_histories=game.max_histories,
            progress=True,
        )
    if output.plot is not None:
        from jaxgadget.report.plots import save_picture
        from jaxgadget.report.training import draw_policy_training

        figure = draw_policy_training(trained.log).get_figure(root=True)
        if figure is not None:
            save_picture(figure, output.plot)
    output.write_json(report.policy_record(trained, made.name, config.steps))
    use = ["jaxgadget", "refine", game.game, "--blueprint", f"file:{training.out}"]
    notes = ["The network is a blueprint for this game:", shlex.join(use)]
    output.print((report.policy_table(trained, made.name), notes))
