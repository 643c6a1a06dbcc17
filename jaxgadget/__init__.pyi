from . import report as report
from .core.solver import Solver as Solver
from .exploiters.exploit import ExactResponse as ExactResponse
from .exploiters.exploit import Exploitation as Exploitation
from .exploiters.exploit import LearnedResponse as LearnedResponse
from .exploiters.exploit import LookaheadResponse as LookaheadResponse
from .exploiters.exploit import exploit as exploit
from .explorer.page import explore as explore
from .explorer.sweeps import explore_sweep as explore_sweep
from .gadgets.alternative import AbstractValues as AbstractValues
from .gadgets.alternative import ArrayValues as ArrayValues
from .gadgets.alternative import BestResponseValues as BestResponseValues
from .gadgets.alternative import BlueprintValues as BlueprintValues
from .gadgets.alternative import ContinuationValues as ContinuationValues
from .gadgets.generation import DiverseGeneration as DiverseGeneration
from .gadgets.generation import RandomGeneration as RandomGeneration
from .gadgets.prior import ArrayPrior as ArrayPrior
from .gadgets.prior import BlueprintPrior as BlueprintPrior
from .gadgets.prior import ContinuationPrior as ContinuationPrior
from .gadgets.prior import NoPrior as NoPrior
from .gadgets.prior import RangePrior as RangePrior
from .gadgets.prior import UniformPrior as UniformPrior
from .gadgets.root_gadgets import MaxMargin as MaxMargin
from .gadgets.root_gadgets import ReachMaxMargin as ReachMaxMargin
from .gadgets.root_gadgets import ReachResolving as ReachResolving
from .gadgets.root_gadgets import Resolving as Resolving
from .gadgets.root_gadgets import Unsafe as Unsafe
from .gadgets.trunk_gadgets import Full as Full
from .gadgets.trunk_gadgets import OptimalContinuation as OptimalContinuation
from .games.abstraction import Abstraction as Abstraction
from .games.hands import HandsGame as HandsGame
from .games.machine import StateMachine as StateMachine
from .games.machine import StateStrategy as StateStrategy
from .games.menu import MenuAbstraction as MenuAbstraction
from .games.public_state import PublicState as PublicState
from .games.public_state import find_public_state as find_public_state
from .games.public_state import public_observations as public_observations
from .games.registry import list_games as list_games
from .games.registry import load as load
from .games.team import team as team
from .holdem.betting import BetMenu as BetMenu
from .holdem.boards import aggregate_cards as aggregate_cards
from .holdem.boards import aggregate_spots as aggregate_spots
from .holdem.locks import Lock as Lock
from .holdem.locks import read_locks as read_locks
from .holdem.ranges import HandRange as HandRange
from .holdem.solution import SpotSolution as SpotSolution
from .holdem.solution import SpotSolutions as SpotSolutions
from .holdem.solve import evaluate_spot as evaluate_spot
from .holdem.solve import resume_spots as resume_spots
from .holdem.solve import solve_spots as solve_spots
from .holdem.spots import Spot as Spot
from .holdem.translate import translate_solution as translate_solution
from .learn.critic import NetworkCritic as NetworkCritic
from .learn.critic import load_critic as load_critic
from .learn.critic import train_critic as train_critic
from .learn.critic_lesson import VTrace as VTrace
from .learn.deal_network import DealNetwork as DealNetwork
from .learn.deal_network import DealTraining as DealTraining
from .learn.deal_network import load_deals as load_deals
from .learn.deal_network import train_deals as train_deals
from .learn.distillation import Distil as Distil
from .learn.mirror_descent import MirrorDescent as MirrorDescent
from .learn.network import NetworkValues as NetworkValues
from .learn.network import load_values as load_values
from .learn.options import PolicyTrainingConfig as PolicyTrainingConfig
from .learn.options import RangeTrainingConfig as RangeTrainingConfig
from .learn.options import TrainerConfig as TrainerConfig
from .learn.options import TrainingConfig as TrainingConfig
from .learn.policy_training import PolicyTraining as PolicyTraining
from .learn.policy_training import train_policy as train_policy
from .learn.ppo import PPO as PPO
from .learn.range_network import FolderRanges as FolderRanges
from .learn.range_network import RangeNetwork as RangeNetwork
from .learn.range_network import load_ranges as load_ranges
from .learn.range_training import RangeTraining as RangeTraining
from .learn.range_training import range_rmse as range_rmse
from .learn.range_training import train_ranges as train_ranges
from .learn.rnad import RNaD as RNaD
from .learn.training import Training as Training
from .learn.training import train_value as train_value
from .learn.training import visited_rmse as visited_rmse
from .opponents.estimate import estimate_policy as estimate_policy
from .opponents.local_best_response import call_down as call_down
from .opponents.local_best_response import local_best_response as local_best_response
from .opponents.mixtures import mix as mix
from .opponents.opponent import Opponent as Opponent
from .opponents.opponent import OpponentLike as OpponentLike
from .opponents.opponent import Opponents as Opponents
from .opponents.respond import best_nash as best_nash
from .opponents.respond import data_biased_response as data_biased_response
from .opponents.respond import respond as respond
from .opponents.result import Responses as Responses
from .policy.blueprints import make_blueprints as make_blueprints
from .policy.blueprints import spread_checkpoints as spread_checkpoints
from .policy.bots import OpenSpielBot as OpenSpielBot
from .policy.evaluate import BestResponse as BestResponse
from .policy.evaluate import ProfileValues as ProfileValues
from .policy.evaluate import best_response as best_response
from .policy.evaluate import evaluate_policy as evaluate_policy
from .policy.evaluate import exploitability as exploitability
from .policy.evaluate import game_value as game_value
from .policy.evaluate import nash_conv as nash_conv
from .policy.floors import tremble as tremble
from .policy.gambit import write_profile as write_profile
from .policy.lift import lift as lift
from .policy.matches import Matches as Matches
from .policy.matches import expected_matches as expected_matches
from .policy.matches import play_matches as play_matches
from .policy.matches import play_players as play_players
from .policy.matches import replay as replay
from .policy.matches import replay_players as replay_players
from .policy.matches import worst_matchup as worst_matchup
from .policy.network import NetworkPolicy as NetworkPolicy
from .policy.network import load_policy as load_policy
from .policy.player import Player as Player
from .policy.player import PolicyPlayer as PolicyPlayer
from .policy.player import StatePlayer as StatePlayer
from .policy.policy import Policy as Policy
from .policy.policy import as_policy as as_policy
from .policy.portfolio import make_portfolio as make_portfolio
from .policy.positions import StatePositions as StatePositions
from .policy.solve import Solution as Solution
from .policy.solve import cfr_checkpoints as cfr_checkpoints
from .policy.solve import solve as solve
from .policy.translation import TranslatingPlayer as TranslatingPlayer
from .policy.translation import translate as translate
from .subgames.cfr_d import Decomposition as Decomposition
from .subgames.cfr_d import cfr_d as cfr_d
from .subgames.depth_limited import Search as Search
from .subgames.depth_limited import search as search
from .subgames.knowledge import Knowledge as Knowledge
from .subgames.leaves import OptimalValues as OptimalValues
from .subgames.nested import Nested as Nested
from .subgames.nested import nested_search as nested_search
from .subgames.off_tree import Answering as Answering
from .subgames.off_tree import OffTree as OffTree
from .subgames.off_tree import OffTreeLevel as OffTreeLevel
from .subgames.off_tree import nested_off_tree as nested_off_tree
from .subgames.off_tree import translate_off_tree as translate_off_tree
from .subgames.promises import PromiseError as PromiseError
from .subgames.promises import measure_promise as measure_promise
from .subgames.recommended import Recommendation as Recommendation
from .subgames.recommended import recommended as recommended
from .subgames.refine import BothRefined as BothRefined
from .subgames.refine import Refinement as Refinement
from .subgames.refine import refine as refine
from .subgames.refine import refine_both as refine_both
from .subgames.schedule import Lookahead as Lookahead
from .subgames.search_player import SearchPlayer as SearchPlayer
from .subgames.spots import SpotRefinement as SpotRefinement
from .subgames.spots import refine_spots as refine_spots
from .sweeping.grid import SweepGrid as SweepGrid
from .sweeping.sweep import read_sweep as read_sweep
from .sweeping.sweep import sweep as sweep
from .tree.cover import Cover as Cover
from .tree.cover import build_cover as build_cover
from .tree.cut import Cut as Cut
from .tree.cut import cut as cut
from .tree.forest import Forest as Forest
from .tree.forest import build_forest as build_forest
from .tree.gambit import write_efg as write_efg
from .tree.hands import find_hands as find_hands
from .tree.history import HistoryTree as HistoryTree
from .tree.history import enumerate_game as enumerate_game
from .tree.public import PublicTree as PublicTree
from .tree.public import public_tree as public_tree
from .tree.states import enumerate_from as enumerate_from
from .tree.states import public_roots as public_roots
from .tree.states import states_at as states_at
from .util.compilation import enable_compilation_cache as enable_compilation_cache
from .values.deals import CheckedDown as CheckedDown
from .values.deals import DealLimit as DealLimit
from .values.deals import DealValues as DealValues
from .values.deals import LimitedSpot as LimitedSpot
from .values.deals import ResolvedDeals as ResolvedDeals
from .values.deals import solve_to_deal as solve_to_deal
from .values.draws import draw_ranges as draw_ranges
from .values.histories import ExactValues as ExactValues
from .values.histories import OwnValues as OwnValues
from .values.histories import ValueFunction as ValueFunction
from .values.histories import blueprint_digest as blueprint_digest
from .values.ranges import FixedValues as FixedValues
from .values.ranges import Limit as Limit
from .values.ranges import RangeValues as RangeValues
from .values.ranges import ResolvedValues as ResolvedValues
from .values.rollouts import RolloutValues as RolloutValues
from .values.solved import SolvedRanges as SolvedRanges
from .values.solved import solve_ranges as solve_ranges
from .values.trunk import LimitedTrunk as LimitedTrunk
from .values.trunk import solve_trunk as solve_trunk

__version__: str

__all__ = [
    "PPO",
    "AbstractValues",
    "Abstraction",
    "ArrayPrior",
    "ArrayValues",
    "BestResponse",
    "BestResponseValues",
    "BetMenu",
    "BlueprintPrior",
    "BlueprintValues",
    "BothRefined",
    "CheckedDown",
    "ContinuationPrior",
    "ContinuationValues",
    "Cut",
    "DealLimit",
    "DealNetwork",
    "DealTraining",
    "DealValues",
    "Decomposition",
    "Distil",
    "DiverseGeneration",
    "ExactResponse",
    "ExactValues",
    "Exploitation",
    "FixedValues",
    "FolderRanges",
    "Forest",
    "Full",
    "HandRange",
    "HandsGame",
    "HistoryTree",
    "Knowledge",
    "LearnedResponse",
    "Limit",
    "LimitedSpot",
    "LimitedTrunk",
    "Lock",
    "Lookahead",
    "LookaheadResponse",
    "Matches",
    "MaxMargin",
    "MenuAbstraction",
    "MirrorDescent",
    "Nested",
    "NetworkCritic",
    "NetworkPolicy",
    "NetworkValues",
    "NoPrior",
    "OffTree",
    "OffTreeLevel",
    "OpenSpielBot",
    "OptimalContinuation",
    "OptimalValues",
    "OwnValues",
    "Player",
    "Policy",
    "PolicyPlayer",
    "PolicyTraining",
    "PolicyTrainingConfig",
    "ProfileValues",
    "PromiseError",
    "PublicState",
    "PublicTree",
    "RNaD",
    "RandomGeneration",
    "RangeNetwork",
    "RangeTraining",
    "RangeTrainingConfig",
    "RangeValues",
    "ReachMaxMargin",
    "ReachResolving",
    "Refinement",
    "ResolvedDeals",
    "ResolvedValues",
    "Resolving",
    "Responses",
    "RolloutValues",
    "Search",
    "SearchPlayer",
    "Solution",
    "SolvedRanges",
    "Solver",
    "Spot",
    "SpotSolution",
    "SpotSolutions",
    "StateMachine",
    "StatePlayer",
    "StatePositions",
    "StateStrategy",
    "SweepGrid",
    "TrainerConfig",
    "Training",
    "TrainingConfig",
    "TranslatingPlayer",
    "UniformPrior",
    "Unsafe",
    "VTrace",
    "ValueFunction",
    "aggregate_cards",
    "aggregate_spots",
    "as_policy",
    "best_nash",
    "best_response",
    "blueprint_digest",
    "build_forest",
    "call_down",
    "cfr_checkpoints",
    "cfr_d",
    "cut",
    "data_biased_response",
    "draw_ranges",
    "enable_compilation_cache",
    "enumerate_from",
    "enumerate_game",
    "estimate_policy",
    "evaluate_policy",
    "evaluate_spot",
    "expected_matches",
    "exploit",
    "exploitability",
    "explore",
    "explore_sweep",
    "find_hands",
    "find_public_state",
    "game_value",
    "lift",
    "list_games",
    "load",
    "load_critic",
    "load_deals",
    "load_policy",
    "load_ranges",
    "load_values",
    "local_best_response",
    "make_blueprints",
    "make_portfolio",
    "measure_promise",
    "mix",
    "nash_conv",
    "nested_off_tree",
    "nested_search",
    "play_matches",
    "play_players",
    "public_observations",
    "public_roots",
    "public_tree",
    "range_rmse",
    "read_locks",
    "read_sweep",
    "refine",
    "refine_both",
    "replay",
    "replay_players",
    "report",
    "respond",
    "resume_spots",
    "search",
    "solve",
    "solve_ranges",
    "solve_spots",
    "solve_to_deal",
    "solve_trunk",
    "spread_checkpoints",
    "states_at",
    "sweep",
    "team",
    "train_critic",
    "train_deals",
    "train_policy",
    "train_ranges",
    "train_value",
    "translate",
    "translate_off_tree",
    "tremble",
    "visited_rmse",
    "worst_matchup",
    "write_efg",
    "write_profile",
]
