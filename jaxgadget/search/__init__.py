"""Depth-limited search with value functions over multi-valued states, a wing beside `solve`."""

from jaxgadget.search.checkpoints import load_values
from jaxgadget.search.limited import Search, search
from jaxgadget.search.match import (
    Matches,
    expected_matches,
    play_matches,
    play_players,
    replay,
    replay_players,
    worst_matchup,
)
from jaxgadget.search.nested import Nested, nested_search
from jaxgadget.search.network import NetworkValues
from jaxgadget.search.play import Player, PolicyPlayer
from jaxgadget.search.portfolio import make_portfolio
from jaxgadget.search.ranged import FixedValues, Limit, RangeValues, ResolvedValues
from jaxgadget.search.searcher import SearchPlayer
from jaxgadget.search.training import Training, blueprint_digest, train_value, visited_rmse
from jaxgadget.search.trunk import LimitedTrunk, solve_trunk
from jaxgadget.search.value import ExactValues, OwnValues, ValueFunction

__all__ = [
    "ExactValues",
    "FixedValues",
    "Limit",
    "LimitedTrunk",
    "Matches",
    "Nested",
    "NetworkValues",
    "OwnValues",
    "Player",
    "PolicyPlayer",
    "RangeValues",
    "ResolvedValues",
    "Search",
    "SearchPlayer",
    "Training",
    "ValueFunction",
    "blueprint_digest",
    "expected_matches",
    "load_values",
    "make_portfolio",
    "nested_search",
    "play_matches",
    "play_players",
    "replay",
    "replay_players",
    "search",
    "solve_trunk",
    "train_value",
    "visited_rmse",
    "worst_matchup",
]
