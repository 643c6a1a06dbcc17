"""Searches of `nested` and `match`: their blueprints, and their values at the limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from jaxgadget.cli.command import refuse_unused
from jaxgadget.cli.fields import option, request
from jaxgadget.cli.options import BlueprintOptions, GameOptions, SeedOptions
from jaxgadget.gadgets.registry import RANGE_VALUES, VALUES
from jaxgadget.report.output import working

if TYPE_CHECKING:
    from jaxgadget.games.machine import StateMachine
    from jaxgadget.learn.critic import NetworkCritic
    from jaxgadget.learn.range_network import RangeNetwork
    from jaxgadget.policy.network import NetworkPolicy
    from jaxgadget.policy.policy import Policy
    from jaxgadget.subgames.leaves import OptimalValues
    from jaxgadget.subgames.nested import Nested
    from jaxgadget.tree.history import HistoryTree
    from jaxgadget.tree.public import Tree
    from jaxgadget.values.histories import ValueFunction
    from jaxgadget.values.ranges import RangeValues

EXACT = "exact"
OPTIMAL = "optimal"
END = "end"

DEFAULT_ENTRIES = 10
"""Default K of exact values and of networks to be trained."""

EPSILON = "0.02"
"""Default probability of mistakes at the gadgets of searches."""

UNUSED = "All searches extended to the end of the game, so values at the limit were not used."


@request
class SearchBlueprintOptions(BlueprintOptions):
    """Blueprints of searches.

    Attributes:
      blueprint: a blueprint, as for `refine`, from which the portfolio of entries is made.
    """

    blueprint: tuple[str, ...] = option(("cfr:10",), metavar="SPEC")

    def only(self) -> str:
        """SPEC of the only blueprint; raises ValueError for several."""
        if len(self.blueprint) != 1:
            raise ValueError(
                f"--blueprint: expected one, not {len(self.blueprint)}: {', '.join(self.blueprint)}"
            )
        return self.blueprint[0]

    @property
    def is_network(self) -> bool:
        """True if the only blueprint is a policy network."""
        kind, _, folder = self.only().partition(":")
        return kind == "file" and is_network_folder(folder)

    def make_one(self, game: GameOptions) -> tuple[HistoryTree, Policy]:
        """The game's histories and the only blueprint; raises ValueError for several."""
        spec = self.only()
        specs = self.parse()  # fails before the game is enumerated
        tree, _ = game.enumerate()
        from jaxgadget.policy.blueprints import make_blueprints

        profiles = make_blueprints(tree, specs, progress=True)
        if profiles.num_lanes != 1:
            raise ValueError(f"--blueprint {spec!r} makes {profiles.num_lanes} blueprints; expected one")
        return tree, profiles

    def load_network(self, game: GameOptions) -> NetworkPolicy:
        """The only blueprint, a policy network, without enumerating the game."""
        spec = self.only()
        kind, _, folder = spec.partition(":")
        if kind != "file" or not folder:
            raise ValueError(
                f"--blueprint {spec!r}: expected file:DIR, a network of `train-policy`, as games without a "
                "tree have no other blueprints"
            )
        from jaxgadget.policy.network import load_policy

        return load_policy(folder, game.load())


@request
class LeafOptions(SeedOptions):
    """Limits of searches and the values there.

    Attributes:
      depth: number of moves down to the limit; the minimum number if the limit is at own decisions.
      leaf: values at the limit: `exact`, or the folder of a network that `train-value` trained for this
        blueprint; or `values:DIR`, a network of `train-ranges`, whose cut is the limit; for `match` also
        the folder of a critic of `train-critic`, for games that are not enumerated; for `nested` also `end`
        (no limit), or `optimal` (the game below the limit is solved together with the search).
      k: number of strategies that each player chooses from at the limit; the first is the blueprint.
    """

    depth: int = option(1, metavar="D", min=1)
    leaf: str = option(EXACT, metavar="exact|DIR|end|optimal|values:DIR")
    k: int | None = option(None, metavar="K", min=1, default=f"{DEFAULT_ENTRIES}, or the network's")

    @property
    def is_of_ranges(self) -> bool:
        """True for `values:DIR`."""
        name, _, folder = self.leaf.partition(":")
        return name in RANGE_VALUES and bool(folder)

    @property
    def is_critic(self) -> bool:
        """True for the folder of a critic."""
        return _is_folder_of("train_critic", self.leaf)

    def load_critic(self, network: NetworkPolicy) -> NetworkCritic:
        """The critic at --leaf; raises ValueError if it is for another network."""
        from jaxgadget.learn.critic import load_critic, policy_digest

        critic = load_critic(self.leaf, network.machine)
        if critic.policy != policy_digest(network):
            raise ValueError(
                f"--leaf {self.leaf!r} was trained for another --blueprint than {network.name!r}; expected "
                "the same network, as the first of the valued strategies is the blueprint"
            )
        if self.k is not None and self.k != critic.num_entries:
            raise ValueError(
                f"--leaf {self.leaf!r} has K = {critic.num_entries}, and --k is {self.k}; expected the same"
            )
        return critic

    def make(
        self, context: typer.Context, tree: Tree, profiles: Policy
    ) -> RangeValues | OptimalValues | list[ValueFunction] | None:
        """Values at the limit of `nested`: those of histories for each blueprint; None without a limit."""
        if self.leaf == END:
            return None
        if self.leaf == OPTIMAL:
            from jaxgadget.subgames.leaves import OptimalValues

            return OptimalValues()
        if self.is_of_ranges:
            self.refuse_for_ranges(context, "limit", "step")
            from jaxgadget.tree.history import check_histories

            return self.load_ranges(check_histories(tree, f"--leaf {self.leaf}"))
        return self.make_histories(tree, profiles)

    def refuse_for_ranges(self, context: typer.Context, *more: str) -> None:
        """Raises ValueError for options that have no effect with values of ranges."""
        if self.is_of_ranges:
            refuse_unused(context, "with values of ranges at --leaf", "depth", "k", *more)

    def load_ranges(self, game: HistoryTree | StateMachine[Any]) -> RangeNetwork:
        """The network of ranges at --leaf; raises ValueError if it is for another game."""
        from jaxgadget.learn.range_network import load_ranges

        return load_ranges(self.leaf.partition(":")[2], game)

    def make_histories(self, tree: Tree, profiles: Policy) -> list[ValueFunction]:
        """Values of histories at the limit, one for each blueprint."""
        if self.leaf == EXACT:
            from jaxgadget.policy.portfolio import make_portfolio
            from jaxgadget.values.histories import ExactValues

            size, blueprints = self.k or DEFAULT_ENTRIES, map(profiles.lane, range(profiles.num_lanes))
            with working("portfolios"):
                return [
                    ExactValues(make_portfolio(blueprint, size=size, seed=self.seed, progress=True))
                    for blueprint in blueprints
                ]
        if not self.leaf:
            raise ValueError("--leaf '': expected exact, the folder of a network, or values:DIR")
        if self.leaf.partition(":")[0] in RANGE_VALUES:
            raise ValueError(f"--leaf {self.leaf!r}: expected values of ranges as {VALUES}:DIR")
        return self._load(tree, profiles)

    def _load(self, tree: Tree, profiles: Policy) -> list[ValueFunction]:
        """Loads the network of `train-value`; raises ValueError if it is for another blueprint."""
        from jaxgadget.learn.network import load_values
        from jaxgadget.tree.history import check_histories
        from jaxgadget.values.histories import blueprint_digest

        leaf, k = self.leaf, self.k
        values = load_values(leaf, check_histories(tree, f"--leaf {leaf}"))
        if k is not None and values.num_entries != k:
            raise ValueError(
                f"--leaf {leaf!r} has K = {values.num_entries}, and --k is {k}; expected the same"
            )
        for lane, label in enumerate(profiles.labels):
            if blueprint_digest(profiles.lane(lane)) != values.blueprint:
                raise ValueError(
                    f"--leaf {leaf!r} was trained for another --blueprint than {label!r}; expected the same, "
                    "as the first of the valued strategies is the blueprint"
                )
        return [values] * profiles.num_lanes


def is_network_folder(folder: str) -> bool:
    """True for the folder of a policy network."""
    return _is_folder_of("train_policy", folder)


def _is_folder_of(writer: str, folder: str) -> bool:
    from jaxgadget.util.folders import find_kind

    kind = find_kind(folder) if folder else None
    return kind is not None and kind.writer == writer


def note_unused(searches: Sequence[Nested]) -> str:
    """Note if no counted search ended at a leaf; empty otherwise."""
    if any(len(visits.histories) for result in searches for visits in result.visits):
        return ""
    return UNUSED if searches[0].depth == 1 else f"{UNUSED} Choose a smaller --depth."


def join(searches: Sequence[Nested]) -> Policy:
    """The policy of the searches: one player's half with the blueprint's other half, or both halves."""
    return searches[0].policy.with_player(1, searches[-1].policy.probabilities[1])
