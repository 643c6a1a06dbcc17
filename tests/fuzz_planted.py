"""Bugs to plant in the package, one at a time, and the check that must find each.

`tests/slow/test_fuzz.py` plants them. Each changes one function or number such that everything still runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import pathlib
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from jaxgadget.core import payoff
from jaxgadget.core.batch import Batch
from jaxgadget.core.host import HandEntries
from jaxgadget.gadgets.alternative import BestResponseValues, PrecomputedValues
from jaxgadget.gadgets.frozen import Frozen
from jaxgadget.gadgets.gadget import Gadget, Perturbed
from jaxgadget.gadgets.prior import UniformPrior
from jaxgadget.games.hands import PublicEnds
from jaxgadget.holdem.spots import Spot
from jaxgadget.networks import checkpoints
from jaxgadget.opponents.games import mixed_games
from jaxgadget.opponents.opponent import Opponents
from jaxgadget.policy.lift import lift
from jaxgadget.policy.policy import Policy
from jaxgadget.subgames import off_tree
from jaxgadget.subgames.abstract import look_up, root_mass, scale_to_reach
from jaxgadget.subgames.off_tree import _Answers
from jaxgadget.tree.forest import Forest
from jaxgadget.util import store
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.players import Bracket
from tests import faults, fuzz, fuzz_fronts
from tests.reference.random_games import Shape, random_hands_shape

Patch = pytest.MonkeyPatch
FEW = 6
"""Number of structures in a bundle."""


class Planted(NamedTuple):
    """A planted bug.

    Attributes:
      plant: inserts the bug, until the patch is undone.
      attack: returns the violations that are found.
      found: statements that must be among them.
    """

    plant: Callable[[Patch], object]
    attack: Callable[[], list[str]]
    found: tuple[str, ...]


def _changed(path: str, change: Callable[[Any], Any]) -> Callable[[Patch], None]:
    """Change the return value of a module's function."""

    def plant(patch: Patch) -> None:
        module, _, name = path.rpartition(".")
        original = getattr(importlib.import_module(module), name)
        patch.setattr(path, lambda *given, **named: change(original(*given, **named)))

    return plant


# Attacks


@functools.cache
def shapes() -> list[Shape]:
    return fuzz.accepted_structures(2000, FEW, fuzz.Findings())[0]


@functools.cache
def bundle() -> fuzz.Bundle:
    """Enumerated before anything is planted."""
    return fuzz.make_bundle(shapes(), 2000)


@functools.cache
def public_menus() -> fuzz.Bundle:
    """Structures with public actions, in which player 0 may leave its menu."""
    return fuzz_fronts.make_menu_bundle(0, FEW, 1, random_hands_shape)[0]


def enumerated() -> list[str]:
    findings, fresh = fuzz.Findings(), fuzz.make_bundle(shapes(), 2000)
    fuzz.examine_tree(fresh, findings)
    fuzz.examine(fuzz.solve_by_programs(fresh, 0, np.random.default_rng(0)), findings, 2)
    return findings.violations


def structured() -> list[str]:
    findings = fuzz.Findings()
    fuzz.accepted_structures(2000, FEW, findings)
    return findings.violations


def refined() -> list[str]:
    findings = fuzz.Findings()
    fuzz.examine(fuzz.solve_by_programs(bundle(), 0, np.random.default_rng(1)), findings, 6)
    return findings.violations


def responded() -> list[str]:
    findings = fuzz.Findings()
    fuzz_fronts.examine_responses(bundle(), 1, findings)
    return findings.violations


def searched_in_private() -> list[str]:
    findings = fuzz.Findings()
    fuzz_fronts.examine_private(bundle(), 0, findings)
    return findings.violations


def adopted_in_turn() -> list[str]:
    findings, known = fuzz.Findings(), fuzz_fronts.jg.Knowledge(combine="in-turn")
    for lane in range(bundle().blueprints.num_lanes):
        fuzz_fronts.examine_in_turn(bundle(), 0, bundle().blueprints.lane(lane), known, findings)
    return findings.violations


def solved_by_hands() -> list[str]:
    findings, fresh = fuzz.Findings(), fuzz_fronts.make_hands_bundle(0, 2)
    fuzz.examine(fuzz_fronts.solve_by_hands(fresh, 0, fuzz_fronts.BY_HANDS, fresh.drawn), findings, 8)
    return findings.violations


def responded_by_hands() -> list[str]:
    findings = fuzz.Findings()
    fuzz_fronts.examine_responses(fuzz_fronts.make_hands_bundle(0, 2), 1, findings, "hands")
    return findings.violations


def answered() -> list[str]:
    findings = fuzz.Findings()
    fuzz_fronts.examine_off_tree(fuzz_fronts.make_menu_bundle(0, 2, 1)[0], 1, findings)
    return findings.violations


def answered_safely() -> list[str]:
    findings = fuzz.Findings()
    fuzz_fronts.examine_off_tree(public_menus(), 1, findings, ["safe"])
    return findings.violations


def dealt() -> list[str]:
    findings = fuzz.Findings()
    fuzz_fronts.examine_spots(0, 1, findings)
    return findings.violations


def _on_files(check: Callable[[str, pathlib.Path], object], kind: str) -> Callable[[], list[str]]:
    def attack() -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(kind, pathlib.Path(folder))
            except AssertionError as error:
                return [str(error)]
        return []

    return attack


# Bugs


def _remove_before_writing(patch: Patch) -> None:
    writer = checkpoints.atomic_writer

    @contextlib.contextmanager
    def removing(path: Any) -> Generator[Any]:
        pathlib.Path(path).unlink(missing_ok=True)
        with writer(path) as file:
            yield file

    patch.setattr(checkpoints, "atomic_writer", removing)


def _scale_promises(patch: Patch) -> None:
    patch.setattr(BestResponseValues, "values", lambda self, ranges: 0.99 * ranges.cbv)


def _halve_promises(patch: Patch) -> None:
    patch.setattr(BestResponseValues, "values", lambda self, ranges: 0.5 * ranges.cbv)


def _scale_certificates(patch: Patch) -> None:
    swept = _Answers._swept
    patch.setattr(_Answers, "_swept", lambda self, after: 0.999 * swept(self, after))


def _promise_without_later_departures(patch: Patch) -> None:
    """The opponent is promised what it gains against translation if it leaves the menu only once more."""

    def values(self: _Answers, forest: Forest, policy: Policy, before: Policy) -> Iterator[Gadget]:
        level = self.setting.level(int(self.setting.left(forest.histories)[forest.cover.roots[0]]))
        looked_up = look_up(lift(before, level), forest, self.setting.player)
        promised = scale_to_reach(looked_up, root_mass(forest, self.setting.player, policy))
        for gadget in self.gadgets:
            assert isinstance(gadget, Perturbed)
            yield dataclasses.replace(gadget, alternative=PrecomputedValues(promised, "once"))

    patch.setattr(_Answers, "_with_numbers", values)


def _unlock_later_answers(patch: Patch) -> None:
    solve = _Answers._solve_forest
    patch.setattr(_Answers, "_solve_forest", lambda self, *given: solve(self, *given[:4]))


def _forget_the_hand_itself(patch: Patch) -> None:
    compatible = Spot.compatible_with
    patch.setattr(
        Spot, "compatible_with", lambda self, weights: np.maximum(compatible(self, weights) - weights, 0)
    )


def _follow_less_often(whole: Any, form: Any, opponents: Opponents, player: int) -> Batch:
    return mixed_games(whole, form, dataclasses.replace(opponents, p=0.9 * opponents.p), player)


def _reverse_scales(groups: Sequence[PublicEnds]) -> tuple[PublicEnds, ...]:
    return tuple(group._replace(scale=group.scale[:, ::-1]) for group in groups)


def _forget_the_last_hand(patch: Patch) -> None:
    multiply = payoff.multiply_hands

    def multiply_others(entries: HandEntries, player: int, x: FloatArray) -> FloatArray:
        hands = entries.hands[1 - player]
        return multiply(entries, player, np.where(np.arange(len(x))[:, None] % hands < hands - 1, x, 0))

    patch.setattr(payoff, "multiply_hands", multiply_others)


def _without_constant(frozen: Frozen) -> Frozen:
    return Frozen(earned=0 * frozen.earned, reached=frozen.reached)


PLANTED: dict[str, Planted] = {
    "chance × 0.9 in the enumeration": Planted(
        _changed("jaxgadget.tree.history._accumulate", lambda found: (found[0], 0.9 * found[1])),
        enumerated,
        ("chance is that of the rules", "the exploitability that is reported is that of a best response"),
    ),
    "two subgames of a cut become one": Planted(
        _changed("jaxgadget.tree.cut.find_components", lambda subgame: subgame // 2),
        structured,
        ("subgames are the components of a cut's roots",),
    ),
    "0.9 of the loss in refine's bound": Planted(
        _changed("jaxgadget.subgames.refine._loss_bound", lambda bound: 0.9 * bound),
        refined,
        ("the bound is its definition",),
    ),
    "half of the bracket left out of the bounds": Planted(
        lambda patch: patch.setattr(Bracket, "half_width", 0.0),
        responded,
        ("responses: the bound is its definition",),
    ),
    "promises × 0.99": Planted(_scale_promises, refined, ("the value is what the strategy guarantees",)),
    "a model followed 0.9 times as often": Planted(
        lambda patch: patch.setattr("jaxgadget.opponents.respond.mixed_games", _follow_less_often),
        responded,
        ("responses: the optimum is at most objective + gap",),
    ),
    "other own infostates left out of private subgames": Planted(
        _changed("jaxgadget.subgames.prepare.find_frozen", _without_constant),
        searched_in_private,
        ("private subgames: linear programs find the optimum",),
    ),
    "whole steps instead of damped ones": Planted(
        _changed("jaxgadget.subgames.knowledge.shares", np.ones_like),
        searched_in_private,
        ("private subgames: the bound of damped steps is its definition",),
    ),
    "ends by hands merged that are not alike": Planted(
        lambda patch: patch.setattr("jaxgadget.tree.hands.SAME_TABLE_DIGITS", 0),
        solved_by_hands,
        ("the exploitability that is reported is that of a best response",),
    ),
    "factors of ends by hands in another order below a cut": Planted(
        _changed("jaxgadget.tree.public.keep_nodes", _reverse_scales),
        solved_by_hands,
        ("the value is what the strategy guarantees",),
    ),
    "a model's last hand left out": Planted(
        _forget_the_last_hand,
        responded_by_hands,
        ("responses by hands: the optimum is at most objective + gap",),
    ),
    "certificates off the menu × 0.999": Planted(
        _scale_certificates, answered, ("off the menu: the certificate is what the strategy guarantees",)
    ),
    "promises off the menu × 0.99": Planted(
        _scale_promises, answered_safely, ("off the menu: the smallest margin is the largest",)
    ),
    "promises off the menu for a single departure": Planted(
        _promise_without_later_departures,
        answered_safely,
        ("off the menu: safe answers keep every promise",),
    ),
    "answers to later departures not locked": Planted(
        _unlock_later_answers, answered_safely, ("off the menu: the smallest margin is the largest",)
    ),
    "safe answers in place of uniform ones": Planted(
        lambda patch: patch.setattr(off_tree, "translate", lambda policy, tree, rule: Policy.uniform(tree)),
        answered_safely,
        ("off the menu: safe answers keep every promise",),
    ),
    "promises to own infostates in turn × 0.5": Planted(
        _halve_promises,
        adopted_in_turn,
        ("private subgames: in turn nothing is lost",),
    ),
    "a uniform prior of rivers that is not": Planted(
        lambda patch: patch.setattr(UniformPrior, "follow", lambda self, ranges: 0 * ranges.opponent + 0.9),
        dealt,
        ("spots: the optimum is at least the value",),
    ),
    "a hand takes its cards from others twice": Planted(
        _forget_the_hand_itself, dealt, ("spots: EVs are those of all pairs of hands",)
    ),
    "checksums that are not compared": Planted(
        lambda patch: patch.setattr(store, "checksum", lambda *_: "0"),
        _on_files(faults.check_changes, "results"),
        ("gives another result",),
    ),
    "files removed before they are written": Planted(
        _remove_before_writing,
        _on_files(faults.check_deaths, "network of histories"),
        ("another result after dying",),
    ),
}
"""Bugs by name. Another one, useless locks, requires processes: `tests/slow/test_faults.py`."""
