"""Groups of options that commands share; each converts its options to the library's objects.

This module does not import JAX, so that help and errors appear at once.
"""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
import time
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import typer

from jaxgadget.cli.command import OUTPUTS, is_given, refuse_unused
from jaxgadget.cli.fields import option, request
from jaxgadget.core.registry import RULES
from jaxgadget.core.solver import LP, Solver
from jaxgadget.gadgets.registry import (
    BEST_RESPONSE,
    CONTINUATION,
    DEFAULT_GADGETS,
    DEFAULT_PRIORS,
    RANGE,
    RANGE_VALUES,
)
from jaxgadget.games.game import DEFAULT_MAX_HISTORIES
from jaxgadget.report.names import INFINITE
from jaxgadget.report.output import STANDARD_OUTPUT, check_outputs, show, warn, working, write_json
from jaxgadget.tree.tree import Form
from jaxgadget.util.arguments import read_number

if TYPE_CHECKING:
    from rich.console import RenderableType

    from jaxgadget.core.regret import Rule
    from jaxgadget.gadgets.alternative import Alternative
    from jaxgadget.gadgets.gadget import Gadget
    from jaxgadget.gadgets.prior import Prior
    from jaxgadget.games.game import Game
    from jaxgadget.opponents.opponent import Beyond, Opponent
    from jaxgadget.policy.blueprints import BlueprintSpec
    from jaxgadget.policy.policy import Policy
    from jaxgadget.subgames.knowledge import Knowledge
    from jaxgadget.tree.history import HistoryTree
    from jaxgadget.tree.public import Tree
    from jaxgadget.tree.tree import TreeGame

MODEL = "--model"
"""Name of a model's SPEC in errors."""
RANGE_OF = f"--prior {RANGE}:SPEC"
"""Name in errors of the SPEC of a model whose range is a prior."""


@request
class SizeOptions:
    """The limit of a game's size.

    Attributes:
      max_histories: maximum number of histories; larger games are rejected.
    """

    max_histories: int = option(DEFAULT_MAX_HISTORIES, min=1)


@request
class FormOptions(SizeOptions):
    """The layout of a game.

    Attributes:
      form: layout of the game. `hands` requires a game in which private hands are dealt first and all later
        moves are public. For kuhn_poker, leduc_poker and liars_dice it enumerates no histories; for other
        games it derives the hands from the histories.
    """

    form: Form = "histories"

    def check_form(self, context: typer.Context, games: Iterable[Game]) -> None:
        """Raises ValueError for `--max-histories` if no game is enumerated by histories."""
        from jaxgadget.games.hands import DealsHands

        games = list(games)
        if self.form == "hands" and all(isinstance(game, DealsHands) for game in games):
            names = ", ".join(game.name for game in games)
            refuse_unused(context, f"with --form hands for {names}, which lists none", "max_histories")


@request
class GameOptions(SizeOptions):
    """A game and the limit of its size.

    Attributes:
      game: a name from `jaxgadget games`, with parameters in parentheses; `openspiel:NAME(…)`; a Gambit file
        ending in `.efg`; or a user-defined class, `path.py:Class(…)` or `module:Class(…)`.
    """

    game: str = option(argument=True, metavar="GAME")

    def load(self) -> Game:
        """The game's rules."""
        from jaxgadget.games.registry import load

        return load(self.game)

    def enumerate(self) -> tuple[HistoryTree, float]:
        """Enumerates the game's histories; returns the tree and the time taken, in seconds."""
        from jaxgadget.tree.history import enumerate_game

        began = time.perf_counter()
        tree = enumerate_game(self.load(), max_histories=self.max_histories, progress=True)
        return tree, time.perf_counter() - began


@request
class TreeOptions(GameOptions, FormOptions):
    """A game, its layout and the limit of its size."""

    def lay_out(self, context: typer.Context, memory_limit: int | None = None) -> tuple[Tree, float]:
        """Lays the game out; returns the tree and the time taken, in seconds.

        Args:
          context: context of the command.
          memory_limit: as in `jaxgadget.tree.public.lay_out`.

        Raises:
          ValueError: as `jaxgadget.tree.public.lay_out` and `check_form`.
        """
        if self.form == "histories":
            return self.enumerate()
        from jaxgadget.tree.public import lay_out

        began = time.perf_counter()
        with working(f"laying out {self.game}"):
            rules = self.load()
            self.check_form(context, [rules])
            tree = lay_out(rules, self.form, max_histories=self.max_histories, memory_limit=memory_limit)
        return tree, time.perf_counter() - began


@request
class CutOptions:
    """A cut.

    Attributes:
      cut: start of the subgames: `depth:D`, after D moves of the players, or a named cut of the game, such as
        `flop` in Leduc.
    """

    cut: str | None = option(None, metavar="CUT", default="the game's first named cut, otherwise depth:1")

    def of(self, game: TreeGame) -> str:
        """The cut's name for a game."""
        return first_cut(game) if self.cut is None else self.cut


@request
class SeedOptions:
    """The seed of a command.

    Attributes:
      seed: seed of all random numbers.
    """

    seed: int = option(0, metavar="SEED", min=0)


@request
class PlayerOptions:
    """The resolving players, in turn.

    Attributes:
      player: the resolving player; the other is the opponent.
    """

    player: Literal["0", "1", "both"] = "0"

    @property
    def players(self) -> tuple[int, ...]:
        """The selected players."""
        return (0, 1) if self.player == "both" else (int(self.player),)


@request
class BlueprintOptions:
    """Blueprints.

    Attributes:
      blueprint: a strategy of both players: `uniform`; `geometric:R`, the k-th legal action ∝ R^k;
        `dirichlet:SEED[:ALPHA]`, drawn at random; `cfr:N` or `cfr+:N`, the average after N iterations;
        `mccfr:N[:SEED]` or `pcs:N[:SEED]`, the same with sampling; `file:PATH`, all strategies in a file
        written by `--save`, or the network in a folder of `train-policy`.
    """

    blueprint: tuple[str, ...] = option(
        (), metavar="SPEC", default="12 checkpoints of CFR and 8 Dirichlet draws"
    )

    def parse(self) -> list[BlueprintSpec]:
        """Parses the blueprints' SPECs; by default those of the demo.

        Raises:
          ValueError: for an invalid SPEC.
        """
        from jaxgadget.policy.blueprints import DEMO_SPECS, parse_blueprint

        return [parse_blueprint(text) for text in self.blueprint or DEMO_SPECS]


@request
class GadgetOptions:
    """Gadgets: the product of names, priors, epsilons and alternative values.

    Attributes:
      gadget: the gadget by which the opponent enters a subgame: `unsafe`, `resolving`, `max-margin`,
        `reach-resolving`, `reach-max-margin`, `full` or `optimal-continuation`; or a class of your own,
        `path.py:Class` or `module:Class`.
      prior: distribution of the opponent's mistakes at the gadget: `none`, `uniform`, `blueprint`, or
        `range`, the range of the blueprint's opponent; `range:SPEC` is the range of a model, as for
        `--blueprint`; or a class of your own. The unsafe gadget accepts only `none`.
      epsilon: probability of such mistakes, at least 0 and below 1; `auto`, with `--algorithm lp`, finds one
        that is small enough to leave the value unchanged.
      alternative: values promised to the opponent outside a subgame: `best-response`, its value of a best
        response to the blueprint, which is safe; `blueprint`, its value if both follow the blueprint, which
        is an estimate; `continuation`, its value against the optimal continuation, which is solved first by
        linear programs, or by N iterations with `continuation:N`, and which determines the safety; or
        `values:DIR`, the estimate of a network of `train-ranges`.
      spread: for resolving gadgets, the uncertainty of promised values: the standard deviation in units of
        payoff, or `best-response`, their distance from a best response to the blueprint. The opponent learns
        the draw before it enters. Not available with `--algorithm lp`.
      gifts: for reach gadgets, measure of the opponent's mistakes on the path to a subgame: `lower-bound`,
        which is safe, or `estimate`.
      scale_gifts: scale gifts up; safe only for a single subgame (`--infostate`).
    """

    gadget: tuple[str, ...] = option(DEFAULT_GADGETS, metavar="NAME")
    prior: tuple[str, ...] = option(DEFAULT_PRIORS, metavar="NAME")
    epsilon: tuple[str, ...] = option(("0.001",), metavar="E")
    alternative: tuple[str, ...] = option((BEST_RESPONSE,), metavar="NAME")
    spread: str | None = option(None, metavar="S")
    gifts: Literal["lower-bound", "estimate"] = "lower-bound"
    scale_gifts: bool = False

    def make(self, context: typer.Context) -> list[Gadget]:
        """Creates the gadgets.

        Raises:
          ValueError: as `make_gadgets`, with the names of the options; for a network whose training is
            unfinished; or for an option that none of the gadgets has.
        """
        from jaxgadget.gadgets.alternative import AlternativeRefusedError
        from jaxgadget.gadgets.specs import make_gadgets

        settings = {"gifts": self.gifts, "scaled": self.scale_gifts, "spread": read_spread(self.spread)}
        alternatives = list(dict.fromkeys(self.alternative))
        promises = [_make_alternative(text) for text in alternatives]
        priors = [_make_prior(text) for text in self.prior]
        try:
            gadgets = make_gadgets(self.gadget, priors, self.epsilon, promises, settings)
        except AlternativeRefusedError:
            raise ValueError(
                f"--alternative {', '.join(alternatives)} has no effect with --gadget optimal-continuation: "
                "play never leaves that one, so there is nothing to promise; leave one of the two out"
            ) from None
        _check_gadgets(context, gadgets)
        return gadgets


@request
class ModelOptions:
    """Models of the opponent.

    Attributes:
      model: assumed strategy of the opponent in the whole game, as for `--blueprint`.
      p: probability that the opponent follows the model, from 0 to 1; otherwise it adapts. Each probability
        is combined with each `--model`.
    """

    model: tuple[str, ...] = option((), metavar="SPEC", default="none: the opponent adapts")
    p: tuple[float, ...] = option((), metavar="P", default="")

    def parse(self) -> list[BlueprintSpec]:
        """Parses the models' SPECs.

        Raises:
          ValueError: for an invalid SPEC, models without probabilities, or probabilities without models.
        """
        from jaxgadget.policy.blueprints import parse_blueprint

        if self.p and not self.model:
            raise ValueError(
                f"--p {self.p[0]:g}: expected --model with it, the strategy that the opponent may play"
            )
        if self.model and not self.p:
            raise ValueError(
                f"--model {self.model[0]}: expected --p with it, the probability of following the model"
            )
        for probability in self.p:
            if not 0 <= probability <= 1:
                raise ValueError(f"--p {probability:g}: expected a number from 0 to 1")
        return [parse_blueprint(spec, MODEL) for spec in self.model]


def make_models(tree: Tree, specs: Sequence[BlueprintSpec]) -> Policy:
    """Loads the models of `--model`, one lane each; raises ValueError for models of another game."""
    from jaxgadget.policy.blueprints import make_blueprints

    return make_blueprints(tree, specs, progress=True, argument=MODEL)


def make_opponent(
    tree: Tree, specs: Sequence[BlueprintSpec], p: Sequence[float], beyond: Beyond = "rational"
) -> Opponent | None:
    """Combines every model with every probability; None if there is no model."""
    from jaxgadget.opponents.opponent import Opponent

    return Opponent(make_models(tree, specs), list(p), beyond) if specs else None


@request
class KnowledgeSettings:
    """Settings of re-solving based on a player's knowledge.

    Attributes:
      unfrozen: with `--order`, solve for all own infostates of a subgame, instead of freezing some to the
        blueprint; not safe.
      generate: with `--order`, the opponent's infostates to consider: `diverse:N`, N infostates with the most
        diverse values, or `random:N[:DRAWS[:SEED]]`; not safe.
      combine: with `--order`, method of combining the strategies of own infostates: at order 1 all but
        `together` are safe; at higher orders none is. `one-by-one` takes a solve for each infostate.
      follow: with `--order`, assumption of a later search about the player's own play: the result of its
        previous search, or the results of the searches from all own infostates.
    """

    unfrozen: bool = False
    generate: str | None = option(None, metavar="SPEC", default="all")
    combine: Literal["damped", "in-turn", "one-by-one", "together"] = "damped"
    follow: Literal["believed", "assembled"] = "believed"

    def make(self, context: typer.Context, order: str | None) -> Knowledge | None:
        """Creates the knowledge of an order; None without an order.

        Raises:
          ValueError: for invalid values; the message names the options.
        """
        if order is None:
            refuse_unused(context, "without --order", "unfrozen", "generate", "combine", "follow")
            return None
        from jaxgadget.gadgets.specs import make_generation
        from jaxgadget.subgames.knowledge import Knowledge

        if order != INFINITE and not (order.isdecimal() and len(order) < 10 and int(order) % 2 == 1):
            raise ValueError(f"--order {order}: expected 1, 3, 5, … or {INFINITE}, common knowledge")
        if is_given(context, "model"):
            raise ValueError(
                f"--order {order} cannot be combined with --model: frozen strategies have no values against "
                "models; leave one of the two out"
            )
        return Knowledge(
            order=math.inf if order == INFINITE else int(order),
            unfrozen=self.unfrozen,
            generate=None if self.generate is None else make_generation(self.generate),
            combine=self.combine,
            follow=self.follow,
        )


@request
class KnowledgeOptions(KnowledgeSettings):
    """Re-solving based on a player's knowledge.

    Attributes:
      order: re-solve or search from each own infostate separately, based on the player's knowledge up to an
        order: 1, 3, 5, …, or `inf` for common knowledge.
    """

    order: str | None = option(None, metavar="K", default="common knowledge")


@request
class Output:
    """Files to write.

    Attributes:
      json: write the results as JSON; `-` writes them to standard output, without tables.
    """

    json: str | None = option(None, metavar="FILE")

    @property
    def to_standard_output(self) -> bool:
        """True if standard output contains only JSON."""
        return self.json == STANDARD_OUTPUT

    @property
    def files(self) -> dict[str, str | pathlib.Path]:
        """Output files, by option."""
        return {name: path for name, path in vars(self).items() if name in OUTPUTS and path is not None}

    def check(self, folder: pathlib.Path | None = None, **files: pathlib.Path | None) -> None:
        """Raises ValueError unless all files can be written and have different paths.

        Args:
          folder: folder of `--checkpoint`.
          files: further files, by option.
        """
        check_outputs({f"--{name}": path for name, path in (self.files | files).items()}, folder=folder)

    def print(self, *tables: tuple[RenderableType, Iterable[str]], warnings: Iterable[str] = ()) -> None:
        """Prints tables with notes, and the paths of written files; with `--json -` only warnings.

        Args:
          tables: tables, each with the notes below it.
          warnings: lines for standard error if standard output contains only JSON.
        """
        if self.to_standard_output:
            for warning in warnings:
                warn(warning)
            return
        files = [f"Wrote the {OUTPUTS[name]} to {os.fspath(path)}" for name, path in self.files.items()]
        for number, (table, notes) in enumerate(tables, 1):
            show(table, [*notes, *(files if number == len(tables) else [])])

    def write_json(self, record: dict[str, Any]) -> None:
        """Writes a record if `--json` names a file."""
        if self.json is not None:
            write_json(self.json, record)


@request
class SavedOutput(Output):
    """Files to write.

    Attributes:
      save: write the strategies to a file, which `--blueprint file:FILE` reads.
      explore: write a page to look at the strategies, an HTML file; see `jaxgadget explore`.
    """

    save: pathlib.Path | None = None
    explore: pathlib.Path | None = None

    def write_page(self, result: Any) -> None:
        """Writes a page of a result, or of several, if `--explore` names a file."""
        write_page(result, self.explore)

    def save_defined(self, policy: Policy, failures: Collection[int]) -> Self:
        """Writes the lanes that did not fail; returns the output, without `save` if there are none."""
        if self.save is None:
            return self
        lanes = [policy.lane(lane) for lane in range(policy.num_lanes) if lane not in failures]
        if not lanes:
            return dataclasses.replace(self, save=None)
        policy.stack(lanes).save(self.save)
        return self


def write_page(result: Any, path: pathlib.Path | None) -> None:
    """Writes a page of a result, or of several, if there is a path."""
    if path is not None:
        from jaxgadget.explorer.page import explore

        page = explore(result, fit=True)
        page.save(path)
        if page.num_omitted:
            warn(
                f"{path} has the first moves of the game only, as all would take more than 30 MB; in Python, "
                "result.explore(below=…, lanes=…) selects others."
            )


@request
class PlotOutput(Output):
    """Files to write.

    Attributes:
      plot: draw the results, as .png, .svg or .pdf.
    """

    plot: pathlib.Path | None = None


def first_cut(game: TreeGame) -> str:
    """The default cut of a game: its first named cut, or else after one move of the players."""
    return next(iter(game.cuts()), "depth:1")


def form_record(tree: Tree) -> dict[str, str]:
    """Entry of a record with the layout, empty for history form."""
    return {} if tree.layout == "histories" else {"form": tree.layout}


def check_solver(context: typer.Context, solver: Solver) -> None:
    """Raises ValueError for options that the algorithm does not have."""
    if solver.algorithm == LP:
        refuse_unused(context, "with --algorithm lp", "iterations", "dtype", "memory_limit", "spread")
    else:
        refuse_unused(context, f"with --algorithm {solver.algorithm}, only with lp", "time_limit")


def read_spread(text: str | None) -> float | str | None:
    """Parses `--spread`, a number or a name; raises ValueError for other texts."""
    if text is None or text == BEST_RESPONSE:
        return text
    number = read_number(text)
    if number is None or number < 0:
        raise ValueError(f"--spread {text}: expected a number >= 0 in units of payoff, or {BEST_RESPONSE}")
    return number


def _check_gadgets(context: typer.Context, gadgets: Sequence[Gadget]) -> None:
    """Raises ValueError for options that none of the gadgets has."""
    from jaxgadget.gadgets.prior import NoPrior

    if all(isinstance(gadget.prior, NoPrior) for gadget in gadgets):
        refuse_unused(context, "where all gadgets have the prior none", "epsilon")
    names = ", ".join(dict.fromkeys(gadget.name for gadget in gadgets))
    settings = set().union(*map(vars, gadgets))
    options = {"alternative": "alternative", "spread": "spread", "gifts": "gifts", "scaled": "scale_gifts"}
    for setting, name in options.items():
        if setting not in settings:
            refuse_unused(context, f"for {names}", name)


def _make_prior(text: str) -> str | Prior:
    """Parses `--prior`: returns a name unchanged, or the range of models that are loaded later."""
    from jaxgadget.opponents.range_prior import RangeOfSpec
    from jaxgadget.policy.blueprints import parse_blueprint

    name, colon, spec = text.partition(":")
    return RangeOfSpec(spec=parse_blueprint(spec, RANGE_OF)) if name == RANGE and colon else text


def make_range_priors(tree: Tree, gadgets: Sequence[Gadget]) -> list[Gadget]:
    """Replaces SPECs of `--prior range:SPEC` by the ranges of their models; raises as `make_models`."""
    from jaxgadget.opponents.range_prior import make_ranges

    return make_ranges(tree, gadgets, argument=RANGE_OF)


def _make_alternative(text: str) -> Alternative:
    """Parses `--alternative`."""
    from jaxgadget.gadgets.specs import make_alternative
    from jaxgadget.util.registry import find

    name, _, argument = text.partition(":")
    if name in RANGE_VALUES and argument and find(RANGE_VALUES, name, "values")(argument).error is None:
        raise ValueError(
            f"--alternative {text!r}: the training in {argument!r} is not finished, so the error of its "
            "network is unknown; continue it with the same `jaxgadget train-ranges` command"
        )
    if name == CONTINUATION and argument and not argument.strip("0"):
        raise ValueError(f"--alternative {text!r}: expected {CONTINUATION}:N with at least 1 iteration")
    return make_alternative(text)


@dataclasses.dataclass(frozen=True, kw_only=True)
class IterativeSolver(Solver):
    """Settings of an iterative solver, without linear programs.

    Attributes:
      algorithm: regret-matching rule.
    """

    algorithm: str | Rule | None = dataclasses.field(
        default="dcfr", metadata={"type": str, "choices": tuple(RULES)}
    )


def positive_number(text: str) -> float:
    """Parses a finite number above 0."""
    number = read_number(text)
    if number is None or number <= 0:
        raise typer.BadParameter(f"{text!r}: expected a number above 0, such as 0.5")
    return number
