"""The public names: they exist, are documented, and are imported lazily."""

import inspect
import subprocess
import sys

import jaxgadget

PROMISED = {
    *("load", "enumerate_game", "cut", "solve", "refine", "best_response", "exploitability", "nash_conv"),
    *("Policy", "Unsafe", "Resolving", "MaxMargin"),
    *("NoPrior", "UniformPrior", "BlueprintPrior", "ArrayPrior"),
    *("search", "nested_search", "solve_trunk", "cfr_d", "sweep", "train_value", "play_matches"),
    *("solve_ranges", "draw_ranges", "train_ranges", "load_ranges", "range_rmse"),
    *("Opponent", "Responses", "respond", "best_nash", "data_biased_response", "mix"),
    *("SolvedRanges", "RangeNetwork", "RangeTraining", "FolderRanges", "ContinuationPrior"),
    *("OpponentLike", "Opponents", "RangePrior"),
    *("Knowledge", "RandomGeneration", "DiverseGeneration"),
    *("AbstractValues", "Answering", "nested_off_tree", "translate_off_tree", "OffTree"),
    *("Spot", "HandRange", "BetMenu", "solve_spots", "evaluate_spot", "resume_spots", "SpotSolution"),
    *("refine_spots", "SpotRefinement", "translate_solution", "Lock", "read_locks", "aggregate_spots"),
    "aggregate_cards",
    *("solve_to_deal", "CheckedDown", "ResolvedDeals", "LimitedSpot", "train_deals", "load_deals"),
}


def test_promised_names_are_there_and_documented():
    assert set(jaxgadget.__all__) >= PROMISED
    assert jaxgadget.__all__ == sorted(jaxgadget.__all__)
    for name in jaxgadget.__all__:
        assert inspect.getdoc(getattr(jaxgadget, name)), name


def test_no_room_hides_a_public_name():
    for name in jaxgadget.__all__:
        assert inspect.ismodule(getattr(jaxgadget, name)) == (name == "report"), name


def test_the_version_is_the_packages():
    assert jaxgadget.__version__.count(".") == 2


def test_nothing_slow_is_imported_before_it_is_used():
    slow = "[name for name in ('jax', 'pandas', 'matplotlib', 'scipy') if name in sys.modules]"
    program = f"import sys, jaxgadget; print({slow})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
