"""Searches of `nested` and `match`: their blueprints, and their values at the limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from jaxgadget.cli.command import refuse_unused
from jaxgadget.cli.fields import option, request
from jaxgadget.cli.options import BlueprintOptions, GameOptions
from jaxgadget.gadgets.registry import RANGE_VALUES
from jaxgadget.report.output import working

if TYPE_CHECKING:
    from jaxgadget.policy.policy import Policy
    from jaxgadget.subgames.leaves import OptimalValues
    from jaxgadget.subgames.nested import Nested
    from jaxgadget.tree.history import HistoryTree
    from jaxgadget.values.histories import ValueFunction
    from jaxgadget.values.ranges import RangeValues

EXACT = "exact"
OPTIMAL = "optimal"
END = "end"
RANGES = "ranges"

DEFAULT_ENTRIES = 10
"""K of exact values, and of networks that are trained, by default."""

EPSILON = "0.02"
"""Default probability of mistakes at the gadgets of searches."""

UNUSED = "No search ended before the game did: values at the limit were not used."


@request
class SearchBlueprintOptions(BlueprintOptions):
    """Blueprints of searches.

    Attributes:
      blueprint: a blueprint, as for `refine`; its portfolio is the entries.
    """

    blueprint: tuple[str, ...] = option(("cfr:10",), metavar="SPEC")

    def make(self, game: GameOptions) -> tuple[HistoryTree, Policy]:
        """The game's histories and the blueprints; texts are read before the game is enumerated."""
        from jaxgadget.policy.blueprints import make_blueprints

        specs = self.parse()
        tree, _ = game.enumerate()
        return tree, make_blueprints(tree, specs, progress=True)

    def only(self) -> str:
        """The only blueprint's text; ValueError for several."""
        if len(self.blueprint) != 1:
            raise ValueError(f"--blueprint: {', '.join(self.blueprint)} are several; expected one")
        return self.blueprint[0]

    def make_one(self, game: GameOptions) -> tuple[HistoryTree, Policy]:
        """The game's histories and the only blueprint; ValueError for several."""
        spec = self.only()
        tree, profiles = self.make(game)
        if profiles.num_lanes != 1:
            raise ValueError(f"--blueprint {spec!r} makes {profiles.num_lanes} blueprints; expected one")
        return tree, profiles


@request
class LeafOptions:
    """Limits of searches, and values there.

    Attributes:
      depth: number of moves down to the limit; the least one where that is at own decisions.
      leaf: values at the limit: exact, or the folder of a network that `train-value` made for this blueprint;
        or, for `nested`, `end`, there is no limit, `optimal`, all that lies below is solved with the search,
        or `ranges:DIR`, a network that `train-ranges` made, whose cut is the limit.
      k: strategies that each player chooses from at the limit; the first is the blueprint.
      seed: seed of all random numbers.
    """

    depth: int = option(1, metavar="D", min=1)
    leaf: str = option(EXACT, metavar="exact|DIR|end|optimal|ranges:DIR")
    k: int | None = option(None, metavar="K", min=1, default=f"{DEFAULT_ENTRIES}, or the network's")
    seed: int = option(0, metavar="SEED", min=0)


def _range_values(context: typer.Context, leaf: str, tree: HistoryTree) -> RangeValues | None:
    """The values of ranges that `--leaf ranges:DIR` names; None for others."""
    name, _, folder = leaf.partition(":")
    if name != RANGES or not folder:
        return None
    refuse_unused(context, "with values of ranges at --leaf", "depth", "k", "limit", "step")
    from jaxgadget.learn.range_network import load_ranges

    return load_ranges(folder, tree)


def leaf_values(
    context: typer.Context, tree: HistoryTree, profiles: Policy, options: LeafOptions
) -> RangeValues | OptimalValues | list[ValueFunction] | None:
    """The values at the limit of nested search, of histories one for each blueprint; None without a limit."""
    if options.leaf == END:
        return None
    if options.leaf == OPTIMAL:
        from jaxgadget.subgames.leaves import OptimalValues

        return OptimalValues()
    return _range_values(context, options.leaf, tree) or find_values(tree, profiles, options)


def find_values(tree: HistoryTree, profiles: Policy, options: LeafOptions) -> list[ValueFunction]:
    """The values at the limit for each blueprint."""
    leaf, k = options.leaf, options.k
    from jaxgadget.subgames.portfolio import make_portfolio
    from jaxgadget.values.histories import ExactValues

    if leaf == EXACT:
        with working("portfolios"):
            return [
                ExactValues(
                    make_portfolio(
                        profiles.lane(lane), size=k or DEFAULT_ENTRIES, seed=options.seed, progress=True
                    )
                )
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


def note_unused(searches: Sequence[Nested]) -> str:
    """A note if no search that was counted ended at a leaf."""
    if any(len(visits.histories) for result in searches for visits in result.visits):
        return ""
    return UNUSED if searches[0].depth == 1 else f"{UNUSED} Choose a smaller --depth."


def join(searches: Sequence[Nested]) -> Policy:
    """The searched policy: one player's half beside the blueprint's, or both players' halves."""
    from jaxgadget.policy.policy import Policy

    first, second = searches[0].policy, searches[-1].policy
    return Policy(first.tree, (first.probabilities[0], second.probabilities[1]), first.labels)
