"""`train-critic`, and `match` in games that are not enumerated."""

from __future__ import annotations

import json
import pathlib

import pytest

from jaxgadget.tree import history
from tests.cli.test_cli_search import run
from tests.policy.test_network import make, write

GAME = "goofspiel(imp_info=True,num_cards=4,points_order=descending)"
TRAIN = ("train-critic", GAME, "--k", 3, "--steps", 4, "--width", 8, "--batch-size", 16)
LEARNED = ("train-critic", GAME, "--continuations", "learned")
MATCH = ("match", GAME, "--matches", 2, "--iterations", 5, "--gadget", "max-margin", "--prior", "none")


@pytest.mark.slow
def test_a_critic_is_trained_and_played_with_without_a_tree(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blueprint, critic = f"file:{tmp_path / 'policy'}", tmp_path / "critic"
    write(tmp_path / "policy", make(GAME))
    trained = run(*TRAIN, "--targets", "vtrace", "--blueprint", blueprint, "--out", critic, "--json", "-")
    assert trained.exit_code == 0, trained.output
    record = json.loads(trained.stdout)
    assert (record["game"], record["k"], record["steps"]) == (GAME, 3, 4)
    assert 0 < record["root_loss"] < 3
    monkeypatch.setattr(history, "_generate", _only_from_public_states(history._generate))
    played = run(*MATCH, "--blueprint", blueprint, "--leaf", critic, "--json", tmp_path / "match.json")
    assert played.exit_code == 0, played.output
    assert "public states were searched" in played.output
    rows = json.loads((tmp_path / "match.json").read_text())["rows"]
    assert {row["row"] for row in rows} == {"max-margin", "blueprint"}
    folder = (
        "--checkpoint",
        tmp_path / "played",
        "--gadget",
        "none",
        "--against",
        "openspiel:uniform_random",
    )
    alone = ("match", GAME, "--matches", 4, "--blueprint", blueprint, *folder, "--json", "-")
    assert json.loads(run(*alone).stdout) == json.loads(run(*alone).stdout)
    assert {row["column"] for row in json.loads(run(*alone).stdout)["rows"]} == {
        "blueprint",
        "openspiel:uniform_random",
    }
    assert (tmp_path / "played" / "part-00000.npz").exists()
    limited = (*MATCH, "--blueprint", blueprint, "--leaf", critic, "--memory-limit", 2000)
    assert "the blueprint was played" in " ".join(run(*limited).output.split())
    monkeypatch.undo()
    other = f"file:{tmp_path / 'another'}"
    write(tmp_path / "another", make(GAME, width=4))
    for arguments, message in (
        ((*MATCH, "--blueprint", "uniform", "--leaf", critic), "expected file:DIR"),
        ((*MATCH, "--blueprint", blueprint, "--leaf", critic, "--k", 5), "K = 3"),
        ((*MATCH, "--blueprint", other, "--leaf", critic), "trained for another"),
        ((*TRAIN, "--blueprint", "uniform", "--out", tmp_path / "other"), "expected file:DIR"),
        ((*LEARNED, "--factor", 2, "--blueprint", blueprint, "--out", tmp_path / "new"), "--factor has no"),
        ((*LEARNED, "--k", 1, "--blueprint", blueprint, "--out", tmp_path / "new"), "num_entries=1"),
        (("nested", GAME, "--blueprint", "uniform", "--leaf", critic), "a critic"),
        ((*alone, "--seed", 1), "seed: 0 before, 1 now"),
        ((*alone, "--depth", 2), "--depth has no effect with --gadget none"),
        ((*MATCH, "--blueprint", blueprint, "--every", 2), "--every has no effect without --checkpoint"),
        ((*alone, "--against", "openspiel:nobody"), "expected a name like"),
    ):
        failed = run(*arguments)
        assert failed.exit_code and message in " ".join(failed.output.split())


def _only_from_public_states(generate):
    """Enumerates nothing but games from a public state."""

    def checked(game, *arguments):
        assert " after [" in game.name
        return generate(game, *arguments)

    return checked
