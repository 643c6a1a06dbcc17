"""`jaxgadget train-value GAME`, `train-ranges GAME`, `nested GAME` and `match GAME`."""

from __future__ import annotations

import contextlib
import math
import pathlib
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from jaxgadget.cli import options
from jaxgadget.cli.command import (
    check_algorithm,
    check_gadgets,
    check_models,
    keeping,
    make_knowledge,
    refuse_unused,
)
from jaxgadget.cli.prepare import enumerate_named, exit_if_undefined, first_cut, save_defined
from jaxgadget.cli.search_options import (
    BLUEPRINT,
    BatchSize,
    Beyond,
    BeyondName,
    Blocks,
    Blueprint,
    Blueprints,
    Depth,
    Entries,
    Epsilon,
    ErrorIterations,
    Follow,
    Gadget,
    HeldOut,
    LabelIterations,
    Leaf,
    LeafEntries,
    LearningRate,
    LimitName,
    LimitOption,
    Matches,
    MatchPlot,
    NestedGadget,
    NestedPlot,
    NetworkName,
    OneEpsilon,
    Order,
    Out,
    Plot,
    RangeBatch,
    RangeHeldOut,
    RangeNetworkOption,
    RangesCut,
    RangeSteps,
    Rounds,
    Samples,
    SearchIterations,
    Seed,
    Step,
    Steps,
    Targets,
    TargetsName,
    Width,
)
from jaxgadget.gadgets.registry import RANGE_VALUES
from jaxgadget.games.game import DEFAULT_MAX_HISTORIES
from jaxgadget.report.output import STANDARD_OUTPUT, check_outputs, show, warn, working, write_json, written

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from jaxgadget.gadgets.gadget import Gadget as GadgetGame
    from jaxgadget.learn.range_training import RangeTraining
    from jaxgadget.learn.training import Training
    from jaxgadget.opponents.opponent import Opponent
    from jaxgadget.policy.policy import Policy
    from jaxgadget.searching.nested import Nested
    from jaxgadget.searching.optimal import OptimalValues
    from jaxgadget.tree.history import HistoryTree
    from jaxgadget.values.histories import ValueFunction
    from jaxgadget.values.ranges import RangeValues

TRAIN_EXAMPLES = """\
Examples:

`jaxgadget train-value leduc_poker --blueprint cfr:10 --out leduc-values`

`jaxgadget train-value "goofspiel(num_cards=4,imp_info=True)" --k 5 --steps 2000 --out values --json -`
"""

RANGES_EXAMPLES = """\
Examples:

`jaxgadget train-ranges leduc_poker --cut flop --out leduc-ranges`

`jaxgadget refine leduc_poker --cut flop --alternative values:leduc-ranges --gadget resolving`
"""

NESTED_EXAMPLES = """\
Examples:

`jaxgadget nested leduc_poker --blueprint cfr:10 --gadget resolving --prior blueprint`

`jaxgadget nested leduc_poker --blueprint cfr:10 --leaf leduc-values --depth 1 --player 1 --json -`

`jaxgadget nested leduc_poker --leaf ranges:leduc-ranges --gadget resolving`

`jaxgadget nested "goofspiel(num_cards=4,imp_info=True)" --leaf end --order 1 --gadget resolving`

`jaxgadget nested leduc_poker --model uniform --p 0.5 --p 1 --leaf optimal --limit moves --algorithm lp`
"""

MATCH_EXAMPLES = """\
Examples:

`jaxgadget match kuhn_poker --blueprint cfr:5 --matches 2000`

`jaxgadget match "liars_dice(dice_sides=3)" --blueprint uniform --gadget resolving --json -`
"""

EXACT = "exact"
OPTIMAL = "optimal"
END = "end"
RANGES = "ranges"
ENTRIES = 10
"""K of exact values, and of networks that are trained, if nothing is said."""
UNUSED = "No search ended before the game did: values at the limit were not used."


def train_value(
    game: options.Game,
    out: Out,
    blueprint: Blueprint = None,
    k: Entries = ENTRIES,
    steps: Steps = 10_000,
    targets: Targets = TargetsName.EXACT,
    width: Width = 512,
    blocks: Blocks = 1,
    batch_size: BatchSize = 256,
    learning_rate: LearningRate = 3e-3,
    heldout: HeldOut = 0.02,
    seed: Seed = 0,
    depth: Depth = 1,
    iterations: ErrorIterations = 200,
    plot: Plot = None,
    max_histories: options.MaxHistories = DEFAULT_MAX_HISTORIES,
    json: options.Json = None,
) -> None:
    """Train a network that predicts what histories are worth under every pair of continuation strategies.

    These are made from the blueprint, so the network is for that one only.
    Errors are given over the histories trained on, over those held out, and over the leaves that nested
    search with the network visits (resolving with blueprint prior, both players, so many ITERATIONS each).
    """
    check_outputs({"--json": json, "--plot": plot})
    tree, profile = _prepare(game, [spec := _only(blueprint)], max_histories, allow_several=False)
    from jaxgadget.learn.training import train_value as train
    from jaxgadget.report import search as report
    from jaxgadget.searching.portfolio import make_portfolio

    with working("portfolio"):
        portfolio = make_portfolio(profile, size=k, seed=seed, progress=True)

    with _keeping_steps(out, steps):
        training = train(
            tree,
            portfolio,
            folder=out,
            steps=steps,
            targets=targets.value,
            seed=seed,
            width=width,
            depth=blocks,
            batch_size=batch_size,
            learning_rate=learning_rate,
            heldout=heldout,
            show_progress=True,
        )
    _draw_training(training, plot)
    try:
        error = _visited_error(tree, profile, portfolio, training.values, depth, iterations)
    except ValueError as problem:  # what was trained is told all the same
        warn(f"The error over leaves that search visits is not known: {problem}")
        error = math.nan
    if json is not None:
        write_json(json, report.training_record(training, error, steps))
    if json != STANDARD_OUTPUT:
        use = ["jaxgadget", "nested", game, "--leaf", str(out), "--blueprint", spec, "--k", str(k)]
        notes = ["The network is for this game and blueprint alone:", shlex.join(use)]
        notes += written(results=json, picture=plot)
        show(report.training_table(training, error, steps), notes)


def _keeping_steps(out: pathlib.Path, steps: int) -> contextlib.AbstractContextManager[None]:
    """An interrupt inside is told which checkpoint the folder keeps."""
    from jaxgadget.learn.checkpoints import last_step

    def describe() -> str:
        step = last_step(out)
        return "" if step is None else f"{str(out)!r} keeps the checkpoint of step {step} of {steps}"

    return keeping(describe)


def _draw_training(training: Training | RangeTraining, plot: pathlib.Path | None) -> None:
    """Draws the curves if that was asked for."""
    if plot is not None:
        from jaxgadget.report.training import draw_training

        _save(draw_training(training.log, payoff_range=training.payoff_range), plot)


def train_ranges(
    game: options.Game,
    out: Out,
    cut: RangesCut = None,
    samples: Samples = 8192,
    rounds: Rounds = 2,
    steps: RangeSteps = 10_000,
    network: RangeNetworkOption = NetworkName.PADDED,
    width: Width = 128,
    blocks: Blocks = 1,
    batch_size: RangeBatch = 64,
    learning_rate: LearningRate = 2e-3,
    iterations: LabelIterations = 300,
    heldout: RangeHeldOut = 0.05,
    seed: Seed = 0,
    plot: Plot = None,
    max_histories: options.MaxHistories = DEFAULT_MAX_HISTORIES,
    json: options.Json = None,
) -> None:
    """Train a network that predicts what subgames are worth for any ranges of both players.

    It belongs to a game and a cut, not to a blueprint: `refine --alternative values:DIR` and
    `nested --leaf ranges:DIR` use it with any.
    """
    check_outputs({"--json": json, "--plot": plot})
    tree, _ = enumerate_named(game, max_histories)
    from jaxgadget.learn.range_training import describe_kept
    from jaxgadget.learn.range_training import train_ranges as train
    from jaxgadget.report import search as report

    with keeping(lambda: describe_kept(out, steps)):
        training = train(
            tree,
            first_cut(tree.game) if cut is None else cut,
            folder=out,
            samples=samples,
            rounds=rounds,
            steps=steps,
            batch_size=batch_size,
            network=network.value,
            width=width,
            depth=blocks,
            learning_rate=learning_rate,
            seed=seed,
            iterations=iterations,
            heldout=heldout,
            show_progress=True,
        )
    _draw_training(training, plot)
    if json is not None:
        write_json(json, report.ranges_record(training, steps))
    if json != STANDARD_OUTPUT:
        use = ["jaxgadget", "refine", game, "--cut", training.values.cut, "--alternative", f"values:{out}"]
        search = ["jaxgadget", "nested", game, "--leaf", f"{RANGES}:{out}"]
        notes = [*report.ranges_notes(training), "Use it after any blueprint:"]
        notes += [shlex.join(use), shlex.join(search)]
        show(report.ranges_table(training, steps), [*notes, *written(results=json, picture=plot)])


def _visited_error(
    tree: HistoryTree,
    profile: Policy,
    portfolio: Policy,
    values: ValueFunction,
    depth: int,
    iterations: int,
) -> float:
    """Root mean squared error where nested search with these values ends, both players.

    Raises:
      ValueError: if there is no such search, or none ends before the game does.
    """
    from jaxgadget.gadgets.two_level import Resolving
    from jaxgadget.learn.training import visited_rmse
    from jaxgadget.searching.nested import nested_search
    from jaxgadget.values.histories import ExactValues

    visits = [
        nested_search(
            tree,
            profile,
            Resolving(),
            values=values,
            player=player,
            depth=depth,
            iterations=iterations,
            value=tree.payoff_bounds,  # exploitabilities are not asked for
            progress=True,
        ).visits[0]
        for player in (0, 1)
    ]
    from numpy import concatenate

    histories, weights = (concatenate(parts) for parts in zip(*visits, strict=True))
    if not len(histories):
        raise ValueError(f"no search ends before the game does at depth {depth}; choose a smaller --depth")
    return visited_rmse(values, ExactValues(portfolio), tree, histories, weights)


def nested(
    context: typer.Context,
    game: options.Game,
    player: options.Player = options.PlayerName.FIRST,
    depth: Depth = 1,
    k: LeafEntries = None,
    leaf: Leaf = EXACT,
    limit: LimitOption = LimitName.OWN,
    step: Step = None,
    blueprint: Blueprints = None,
    model: options.Model = None,
    p: options.Follows = None,
    beyond: Beyond = BeyondName.RATIONAL,
    order: Order = None,
    unfrozen: options.Unfrozen = False,
    follow: Follow = options.FollowName.BELIEVED,
    gadget: NestedGadget = None,
    prior: options.Prior = None,
    epsilon: Epsilon = None,
    algorithm: options.Algorithm = options.CFR_PLUS,
    iterations: SearchIterations = 3000,
    time_limit: options.TimeLimit = None,
    dtype: options.Dtype = options.DtypeName.FLOAT32,
    seed: Seed = 0,
    plot: NestedPlot = None,
    save: options.Save = None,
    max_histories: options.MaxHistories = DEFAULT_MAX_HISTORIES,
    json: options.Json = None,
) -> None:
    """Search again at every own decision, to a depth limit or the end, and tell how exploitable that play is.

    The policy that comes out is assembled in the whole game, so its exploitability is exact.
    Seconds include compiling: the first search of every shape does that (Leduc: about half a minute).

    With a model of the opponent, who follows it with probability P, play is a continual depth-limited
    response: what it gains over the game's value against the model is told beside how exploitable it is.
    """
    if leaf == OPTIMAL:
        refuse_unused(context, "with optimal values at --leaf", "k", "seed")
    elif leaf == END:
        refuse_unused(context, "with --leaf end", "k", "seed", "depth", "limit")
    elif leaf != EXACT:
        refuse_unused(context, "with a network at --leaf", "seed")
    if algorithm == options.LP and order is not None:
        raise ValueError(
            f"--algorithm lp and --order {order}: searches from own infostates are by CFR; leave one out"
        )
    if algorithm == options.LP and leaf != OPTIMAL:
        raise ValueError(
            "--algorithm lp: linear programs need optimal values; expected --leaf optimal beside it"
        )
    check_algorithm(context, algorithm)
    check_models(model, p)
    if not model:
        refuse_unused(context, "without --model", "beyond")
    check_outputs({"--json": json, "--save": save, "--plot": plot})
    gadgets = None
    if gadget or not (model or leaf == OPTIMAL):
        check_gadgets(context, gadgets := _gadgets(gadget, prior, epsilon))
    else:
        refuse_unused(context, "without --gadget, where levels are searched jointly", "prior", "epsilon")
    opponents = _opponents(model, p, beyond)
    knowledge = make_knowledge(context, order, unfrozen=unfrozen, follow=follow.value)
    if knowledge is not None and (leaf == OPTIMAL or leaf.startswith(f"{RANGES}:")):
        raise ValueError(
            f"--order {order} with --leaf {leaf}: these values are of public states, of which searches from "
            f"own infostates have parts; expected --leaf {EXACT}, {END} or a network that train-value made"
        )
    tree, profiles = _prepare(game, blueprint or [BLUEPRINT], max_histories)
    from jaxgadget.policy.evaluate import nash_conv
    from jaxgadget.report import search as report
    from jaxgadget.report.tables import constant_note

    values = _leaf_values(context, tree, profiles, leaf, k, seed)
    if opponents is not None:
        opponents = opponents(tree)
    players = [0, 1] if player is options.PlayerName.BOTH else [int(player)]
    searching: dict[str, Any] = {"iterations": iterations, "dtype": dtype.value, "progress": True}
    searching |= {"algorithm": algorithm, "time_limit": time_limit, "opponent": opponents}
    searching |= {"knowledge": knowledge, **({"step": step} if leaf == END else {})}
    ends = leaf == END or leaf.startswith(f"{RANGES}:")
    searching |= {} if ends else {"depth": depth, "limit": limit.value, "step": step}
    searches: list[Nested] = []
    from jaxgadget.searching.nested import nested_search

    for number in players:
        searches.append(nested_search(tree, profiles, gadgets, values=values, player=number, **searching))
        searching["value"] = searches[0].game_value
    joined = _join(searches)
    together = nash_conv(joined) if len(searches) > 1 else None
    failures = {lane for result in searches for lane in result.failures}
    if together is not None:
        together[list(failures)] = math.nan
    if save is not None:
        save = save_defined(joined, failures, save)
    if plot is not None:
        _draw_nested(searches, plot)
    if json is not None:
        write_json(json, report.nested_records(searches, together))
    unused = "" if searches[0].schedule is None or leaf in (OPTIMAL, END) else _note_unused(searches)
    reasons = [why for result in searches for why in result.failures.values()]
    total = sum(result.policy.num_lanes for result in searches)
    if json == STANDARD_OUTPUT:
        for note in (constant_note(tree), unused):
            warn(note)
        exit_if_undefined(reasons, total)
        return
    more = [] if together is None else [report.together_note(joined.labels, together)]
    last = [*more, unused, *written(results=json, picture=plot, strategies=save)]
    for result in searches:
        notes = [constant_note(tree), *report.nested_notes(result)]
        show(report.nested_table(result), [*notes, *(last if result is searches[-1] else [])])
    exit_if_undefined(reasons, total)


def _draw_nested(searches: Sequence[Nested], path: pathlib.Path) -> None:
    """The exploitability of nested search against its blueprint's, both players' if both searched."""
    import pandas as pd

    from jaxgadget.report.plots import draw_picture

    first, (low, high) = searches[0], searches[0].game_value
    table = pd.concat([result.table for result in searches], ignore_index=True)
    table = table.rename(columns={"nested_exploitability": "refined_exploitability"})
    limit = f"depth {first.depth}, K = {first.num_entries}" if first.depth is not None else first.leaf
    title = f"{first.policy.tree.game.name}, nested search, {limit}"
    draw_picture(table, path, title=title, resolution=(high - low) / 2, after="Nested")


def _note_unused(searches: Sequence[Nested]) -> str:
    """What to say if no search that was counted ended at a leaf."""
    if any(len(visits.histories) for result in searches for visits in result.visits):
        return ""
    return UNUSED if searches[0].depth == 1 else f"{UNUSED} Choose a smaller --depth."


def _join(searches: Sequence[Nested]) -> Policy:
    """What was searched for: one player's half beside the blueprint's, or both players' halves."""
    from jaxgadget.policy.policy import Policy

    first, second = searches[0].policy, searches[-1].policy
    return Policy(first.tree, (first.probabilities[0], second.probabilities[1]), first.labels)


def match(
    context: typer.Context,
    game: options.Game,
    blueprint: Blueprint = None,
    gadget: Gadget = None,
    prior: options.Prior = None,
    epsilon: OneEpsilon = 0.02,
    depth: Depth = 1,
    k: LeafEntries = None,
    leaf: Leaf = EXACT,
    iterations: SearchIterations = 3000,
    matches: Matches = 1000,
    seed: Seed = 0,
    plot: MatchPlot = None,
    max_histories: options.MaxHistories = DEFAULT_MAX_HISTORIES,
    json: options.Json = None,
) -> None:
    """Play nested search with every gadget and prior against every other, seats swapped, chance shared.

    The blueprint itself plays too.
    """
    check_outputs({"--json": json, "--plot": plot})
    check_gadgets(context, gadgets := _gadgets(gadget, prior, [epsilon]))
    spec = _only(blueprint)
    tree, profile = _prepare(game, [spec], max_histories, allow_several=False)
    from jaxgadget.play.match import play_matches
    from jaxgadget.report import search as report

    values = _find_values(tree, profile, leaf, k, seed)
    searching = {"depth": depth, "iterations": iterations}
    policy, unused, reasons = _assemble(tree, profile, gadgets, values, searching)
    with working(f"playing {matches} matches of each pair"):
        frame = play_matches(policy, matches=matches, seed=seed).frame
    if plot is not None:
        from jaxgadget.report.matches import match_picture
        from jaxgadget.report.plots import save_picture

        save_picture(match_picture(frame, title=tree.game.name), plot)
    if json is not None:
        said = {"seed": seed, "blueprint": spec, **searching, "k": values[0].num_entries, "leaf": leaf}
        write_json(json, report.match_record(tree.game.name, frame) | said | {"epsilon": epsilon})
    if json == STANDARD_OUTPUT:
        warn(unused)
    else:
        notes = [
            "± is half of a 95 % confidence interval; a match is two games, one in each seating. Mean "
            "return: in units of payoff; first and second: the row's win rate as player 0 and as player 1.",
            unused,
        ]
        show(report.match_table(frame), [*notes, *written(results=json, picture=plot)])
    exit_if_undefined(reasons, 2 * len(gadgets))


def _assemble(
    tree: HistoryTree,
    profile: Policy,
    gadgets: Sequence[GadgetGame],
    values: Sequence[ValueFunction],
    searching: dict[str, Any],
) -> tuple[Policy, str, list[str]]:
    """Both players' assembled policies, a lane a gadget, and the blueprint.

    Gadgets whose search fails do not play.

    Returns:
      The policies, what to say about them, and why searches failed.
    """
    from jaxgadget.gadgets.gadget import describe
    from jaxgadget.policy.policy import Policy
    from jaxgadget.searching.nested import nested_search

    bracket = tree.payoff_bounds  # exploitabilities are not asked for
    searches = [
        nested_search(
            tree, profile, gadgets, values=values, player=player, value=bracket, progress=True, **searching
        )
        for player in (0, 1)
    ]
    searched = Policy(tree, _join(searches).probabilities, tuple(describe(gadget) for gadget in gadgets))
    failures = {lane for result in searches for lane in result.failures}
    players = [searched.lane(lane) for lane in range(len(gadgets)) if lane not in failures]
    plain = Policy(tree, profile.probabilities, ("blueprint",))
    reasons = [why for result in searches for why in result.failures.values()]
    return Policy.stack([*players, plain]), _note_unused(searches), reasons


def _save(ax: Axes, path: pathlib.Path) -> None:
    """Writes the picture that axes are in."""
    from jaxgadget.report.plots import save_picture

    figure = ax.get_figure(root=True)
    if figure is not None:
        save_picture(figure, path)


def _gadgets(
    names: Sequence[str] | None, priors: Sequence[str] | None, epsilons: Sequence[float] | None
) -> list[GadgetGame]:
    from jaxgadget.gadgets.registry import DEFAULT_GADGETS, DEFAULT_PRIORS
    from jaxgadget.gadgets.specs import make_gadgets
    from jaxgadget.searching.nested import EPSILON

    return make_gadgets(names or DEFAULT_GADGETS, priors or DEFAULT_PRIORS, epsilons or [EPSILON])


def _only(blueprint: Sequence[str] | None) -> str:
    """The only blueprint asked for."""
    if blueprint and len(blueprint) > 1:
        raise ValueError(f"--blueprint: {', '.join(blueprint)} are several; expected one")
    return blueprint[0] if blueprint else BLUEPRINT


def _prepare(
    game: str, specs: Sequence[str], max_histories: int, *, allow_several: bool = True
) -> tuple[HistoryTree, Policy]:
    """The game's histories and the blueprints, or the only one."""
    from jaxgadget.policy.blueprints import make_blueprints, parse_blueprint

    parsed = [parse_blueprint(spec) for spec in specs]
    tree, _ = enumerate_named(game, max_histories)
    profiles = make_blueprints(tree, parsed, progress=True)
    if not allow_several and profiles.num_lanes != 1:
        raise ValueError(f"--blueprint {specs[0]!r} makes {profiles.num_lanes} blueprints; expected one")
    return tree, profiles


def _opponents(
    models: Sequence[str] | None, numbers: Sequence[float] | None, beyond: BeyondName
) -> Callable[[HistoryTree], Opponent] | None:
    """What makes the opponents of a game, their specs checked; None if nobody follows a model."""
    if not models:
        return None
    from jaxgadget.opponents.opponent import Opponent
    from jaxgadget.policy.blueprints import make_blueprints, parse_blueprint

    specs = [parse_blueprint(text) for text in models]

    def made(tree: HistoryTree) -> Opponent:
        return Opponent(make_blueprints(tree, specs, progress=True), list(numbers or ()), beyond.value)

    return made


def _range_values(context: typer.Context, leaf: str, tree: HistoryTree) -> RangeValues | None:
    """The values of ranges that `--leaf ranges:DIR` names; None for others."""
    name, _, folder = leaf.partition(":")
    if name != RANGES or not folder:
        return None
    refuse_unused(context, "with values of ranges at --leaf", "depth", "k", "limit", "step")
    from jaxgadget.learn.range_network import load_ranges

    return load_ranges(folder, tree)


def _leaf_values(
    context: typer.Context, tree: HistoryTree, profiles: Policy, leaf: str, k: int | None, seed: int
) -> RangeValues | OptimalValues | list[ValueFunction] | None:
    """The values at the limit of nested search, of histories one for each blueprint; None without a limit."""
    if leaf == END:
        return None
    if leaf == OPTIMAL:
        from jaxgadget.searching.optimal import OptimalValues

        return OptimalValues()
    return _range_values(context, leaf, tree) or _find_values(tree, profiles, leaf, k, seed)


def _find_values(
    tree: HistoryTree, profiles: Policy, leaf: str, k: int | None, seed: int
) -> list[ValueFunction]:
    """The values at the limit for each blueprint."""
    from jaxgadget.searching.portfolio import make_portfolio
    from jaxgadget.values.histories import ExactValues

    if leaf == EXACT:
        with working("portfolios"):
            return [
                ExactValues(make_portfolio(profiles.lane(lane), size=k or ENTRIES, seed=seed, progress=True))
                for lane in range(profiles.num_lanes)
            ]
    if not leaf:
        raise ValueError("--leaf '': expected exact, the folder of a network, or ranges:DIR")
    if leaf.partition(":")[0] in (RANGES, *RANGE_VALUES):
        raise ValueError(
            f"--leaf {leaf!r}: values of ranges are for `nested` alone, with a folder: ranges:DIR"
        )
    from jaxgadget.learn.network import load_values
    from jaxgadget.values.histories import blueprint_digest

    values = load_values(leaf, tree)
    if k is not None and values.num_entries != k:
        raise ValueError(f"--leaf {leaf!r} has K = {values.num_entries}, and --k is {k}; expected the same")
    for lane, label in enumerate(profiles.labels):
        if blueprint_digest(profiles.lane(lane)) != values.blueprint:
            raise ValueError(
                f"--leaf {leaf!r} was trained for another --blueprint than {label!r}; expected the same, as "
                "it is the first of the strategies that the values are for"
            )
    return [values] * profiles.num_lanes
