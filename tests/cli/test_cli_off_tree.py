"""`jaxgadget off-tree`."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.cli.off_tree import DEFAULT_METHODS, SOLVING, TRANSLATION
from jaxgadget.policy.translation import RULES
from jaxgadget.subgames import off_tree as library
from jaxgadget.subgames.off_tree import METHODS
from tests.cli.commands import run, run_to_json

GAME = "no_limit_leduc(bets=1/2-1-a,max_raises=1,num_ranks=2,stack=5,suit_isomorphism=True)"
COIN = ("off-tree", "coin_toss", "--menu", "Sell", "--opponent-only", "--blueprint", "uniform")


def test_methods_are_the_library_s() -> None:
    assert SOLVING == METHODS and TRANSLATION == library.TRANSLATION
    assert set(DEFAULT_METHODS) <= {*METHODS, *(f"{TRANSLATION}:{rule}" for rule in RULES)}


def test_a_game_without_some_actions_is_named_as_such() -> None:
    """Its value differs, and the output names the actions off the menu."""
    game = GAME.replace("1/2-1-a", "1/2-1-2-a").replace("num_ranks=2,stack=5", "stack=9")
    asked = (
        *("off-tree", game, "--menu", "1-a", "--blueprint", "uniform", "--algorithm", "lp"),
        *("--method", "translation:nearest"),
    )
    limited, everything = run_to_json(*asked, "--off-tree", "1/2"), run_to_json(*asked)
    assert limited["off_tree"] == ["Bet 1/2"] and everything["off_tree"] is None
    assert abs(limited["game_value"][0] - everything["game_value"][0]) > 1e-3
    assert "whose only actions off the menu are Bet 1/2, for player 0" in " ".join(
        run(*asked, "--off-tree", "1/2").stdout.split()
    )


@pytest.mark.slow
def test_strategies_are_saved_for_the_whole_game(tmp_path: pathlib.Path) -> None:
    """Rows of all methods, found by names of moves; another command reads the file as blueprints."""
    file = tmp_path / "answers.npz"
    rows = run_to_json(
        *("off-tree", GAME, "--menu", "1-a", "--blueprint", "dirichlet:1", "--algorithm", "lp"),
        *("--method", "translation:linear", "--method", "inexpensive", "--gadget", "resolving"),
        *("--prior", "none", "--player", "both", "--save", file),
    )["rows"]
    tree = jg.enumerate_game(jg.load(GAME))
    saved = jg.Policy.load(file, tree)
    assert saved.labels == ("translation:linear | dirichlet:1", "inexpensive | dirichlet:1 | resolving")
    best = jg.evaluate_policy(saved).best_response_values
    for player in (0, 1):
        certificates = [row["certificate"] for row in rows if row["player"] == player]
        np.testing.assert_allclose(-best[player], certificates, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("off-tree", GAME, "--menu", "3-a"), "'Bet 3' is no bet"),
        (("off-tree", "no_limit_leduc(max_raises=2)", "--menu", "1-a"), "none is off the menu"),
        (("off-tree", GAME, "--menu", "1-a", "--off-tree", "1"), "is on the menu"),
        (("off-tree", "kuhn_poker", "--menu", "1-a"), "is no action of kuhn_poker"),
        ((*COIN, "--method", "cheap"), "expected inexpensive, expensive, safe or translation:RULE"),
        ((*COIN, "--method", "inexpensive", "--gadget", "unsafe", "--prior", "none"), "unsafe requires"),
        ((*COIN, "--spread", "wide"), "--spread wide: expected a number >= 0"),
        ((*COIN, "--method", "translation:linear", "--spread", "1"), "--spread has no effect if all"),
        ((*COIN, "--player", "both"), "--opponent-only with --player both"),
    ],
)
def test_bad_input_is_one_line(
    arguments: tuple[str, ...], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors precede the blueprints."""
    monkeypatch.setattr("jaxgadget.policy.blueprints.make_blueprints", None)
    result = run(*arguments)
    assert result.exit_code == 2
    assert text in " ".join(result.stderr.split()), result.stderr
    assert "Traceback" not in result.stderr and not result.stdout.strip()
