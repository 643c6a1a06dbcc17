"""Commands that accept a public tree; `tests/tree/test_public.py` compares results with the histories."""

import json
import pathlib

import pytest

from tests.cli.commands import run, run_to_json

KUHN = ("kuhn_poker", "--blueprint", "uniform", "--gadget", "resolving", "--iterations", 3)


@pytest.mark.parametrize(
    "command",
    [
        ("refine", *KUHN),
        ("respond", "kuhn_poker", "--model", "uniform", "--p", 0.3, "--iterations", 3),
        ("nested", *KUHN, "--leaf", "end"),
    ],
)
def test_commands_accept_the_form(command: tuple[object, ...]) -> None:
    by_hands = run_to_json(*command, "--form", "hands")
    assert by_hands.pop("form") == "hands" and by_hands["rows"]


@pytest.mark.slow
def test_a_sweep_by_hands(tmp_path: pathlib.Path) -> None:
    asked = ("--game", "kuhn_poker", "--blueprint", "uniform", "--gadget", "unsafe", "--iterations", 3)
    result = run("sweep", tmp_path / "s", *asked, "--form", "hands", "--json", "-")
    assert result.exit_code == 0, result.stderr
    assert {row["form"] for row in json.loads(result.stdout)["rows"]} == {"hands"}
    refused = run("sweep", tmp_path / "s", *asked, "--form", "hands", "--max-histories", 9)
    assert refused.exit_code == 2
    assert "--max-histories has no effect with --form hands for kuhn_poker" in refused.stderr


@pytest.mark.parametrize(
    "arguments",
    [("refine", "goofspiel(num_cards=3)"), ("refine", "kuhn_poker", "--order", 1)],
)
def test_options_without_a_form_by_hands_are_refused(arguments: tuple[object, ...]) -> None:
    result = run(*arguments, "--form", "hands", "--blueprint", "uniform", "--gadget", "resolving")
    assert result.exit_code == 2 and result.stderr.startswith("Error: ") and not result.stdout
