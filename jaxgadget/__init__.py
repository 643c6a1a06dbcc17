"""jaxgadget: thousands of subgames of imperfect-information games, solved in one batch.

Load a game, enumerate it, make blueprints, and re-solve every subgame below a cut:

    tree = jaxgadget.enumerate_game(jaxgadget.load("leduc_poker"))
    blueprint = jaxgadget.Policy.uniform(tree)
    print(jaxgadget.refine(tree, "flop", blueprint).table)
"""

from importlib.metadata import version

from jaxgadget.abstraction import lift
from jaxgadget.blueprints import make_blueprints, spread_checkpoints
from jaxgadget.cfr_d import Decomposition, cfr_d
from jaxgadget.compilation import enable_compilation_cache
from jaxgadget.evaluate import (
    BestResponse,
    ProfileValues,
    best_response,
    evaluate_policy,
    exploitability,
    game_value,
    nash_conv,
)
from jaxgadget.exact import Response, best_equilibrium, restricted_nash_response
from jaxgadget.floors import tremble
from jaxgadget.games.abstraction import Abstraction
from jaxgadget.games.registry import list_games, load
from jaxgadget.policy import Policy
from jaxgadget.refine import BothRefined, Refinement, refine, refine_both
from jaxgadget.solve.alternative import ArrayValues, BestResponseValues, BlueprintValues
from jaxgadget.solve.kinds import (
    Full,
    MaxMargin,
    OptimalContinuation,
    ReachMaxMargin,
    ReachResolving,
    Resolving,
    Unsafe,
)
from jaxgadget.solve.prior import ArrayPrior, BlueprintPrior, NoPrior, UniformPrior
from jaxgadget.solver import Solution, cfr_checkpoints, solve
from jaxgadget.sweep import read_sweep, sweep
from jaxgadget.tree.cut import Cut, cut
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree, enumerate_game

__version__ = version("jaxgadget")

__all__ = [
    "Abstraction",
    "ArrayPrior",
    "ArrayValues",
    "BestResponse",
    "BestResponseValues",
    "BlueprintPrior",
    "BlueprintValues",
    "BothRefined",
    "Cut",
    "Decomposition",
    "Forest",
    "Full",
    "HistoryTree",
    "MaxMargin",
    "NoPrior",
    "OptimalContinuation",
    "Policy",
    "ProfileValues",
    "ReachMaxMargin",
    "ReachResolving",
    "Refinement",
    "Resolving",
    "Response",
    "Solution",
    "UniformPrior",
    "Unsafe",
    "best_equilibrium",
    "best_response",
    "build_forest",
    "cfr_checkpoints",
    "cfr_d",
    "cut",
    "enable_compilation_cache",
    "enumerate_game",
    "evaluate_policy",
    "exploitability",
    "game_value",
    "lift",
    "list_games",
    "load",
    "make_blueprints",
    "nash_conv",
    "read_sweep",
    "refine",
    "refine_both",
    "restricted_nash_response",
    "solve",
    "spread_checkpoints",
    "sweep",
    "tremble",
]
