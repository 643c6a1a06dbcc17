"""The document of a page: its numbers are the policy's, and it has the documented form."""

from __future__ import annotations

import json
import math
import pathlib
import re
from importlib import resources
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest

import jaxgadget as jg
from jaxgadget.explorer.document import Document, make_document
from jaxgadget.explorer.nodes import find_nodes
from jaxgadget.explorer.page import report
from jaxgadget.explorer.sources import find_sources
from jaxgadget.explorer.values import find_numbers
from jaxgadget.util.players import sign_of
from tests.cli.commands import run
from tests.trees import tree_of

GOOFSPIEL = "goofspiel(num_cards=3,imp_info=True)"


def check(document: Document) -> None:
    schema = json.loads((resources.files("jaxgadget.explorer") / "schema.json").read_text("utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    for record in (document.header, *map(document.chunk, range(len(document.chunks)))):
        validator.validate(json.loads(json.dumps(record)))


def number(scaled: dict[str, Any], index: int) -> float:
    whole = scaled["n"][index]
    return math.nan if whole is None else scaled["unit"] * whole


def brute_force(tree: jg.HistoryTree, policy: jg.Policy) -> dict[tuple[int, int], tuple[float, float, float]]:
    """By player and infoset: probability of getting there, own reach, and expected payoff, by recursion."""
    children: dict[int, list[int]] = {}
    for history, parent in enumerate(tree.parent.tolist()):
        if history:
            children.setdefault(parent, []).append(history)
    found: dict[tuple[int, int], list[float]] = {}

    def visit(history: int, reach: tuple[float, float], chance: float) -> float:
        if history not in children:
            return float(tree.payoff[history])
        value, own = 0.0, [int(tree.infoset[player, history]) for player in (0, 1)]
        for child in children[history]:
            below, share = list(reach), 1.0
            for player in (0, 1):
                if tree.action[player, child] >= 0:
                    probability = policy.probabilities[player][tree.sequence[player, child] - 1, 0]
                    below[player] *= probability
                    share *= probability
            luck = float(tree.chance[child] / tree.chance[history])
            value += share * luck * visit(child, (below[0], below[1]), chance * luck)
        for player, infoset in enumerate(own):
            if infoset >= 0:
                total = found.setdefault((player, infoset), [0.0, 0.0, 0.0])
                others = chance * reach[1 - player]
                total[0] += others * reach[player]
                total[1] = reach[player]
                total[2] += others * value * sign_of(player)
        return value

    visit(0, (1.0, 1.0), 1.0)
    return {
        key: (joint, own, value / (joint / own) if joint else math.nan)
        for key, (joint, own, value) in found.items()
    }


@pytest.mark.parametrize("game", ["kuhn_poker", GOOFSPIEL, "matching_pennies_twist", "off_tree_coin_toss"])
def test_numbers_are_those_of_explicit_histories(game: str) -> None:
    tree = tree_of(game)
    policy = jg.Policy.dirichlet(tree, 3)
    nodes, expected = find_nodes(tree), brute_force(tree, policy)
    numbers = find_numbers(nodes, policy)
    seen: set[tuple[int, int]] = set()
    for player in (0, 1):
        cells, seat = nodes.cells[player], numbers.seats[player]
        for cell in np.flatnonzero(cells.infoset >= 0).tolist():
            node, infoset = int(cells.node[cell]), int(cells.infoset[cell])
            joint, own, value = expected[player, infoset]
            seen.add((player, infoset))
            assert seat.reach[cell, 0] == pytest.approx(own)
            assert seat.ev[cell, 0] == pytest.approx(value)
            alike = cells.infoset[cells.at(node)]
            if (alike >= 0).all():  # less than what reaches the node if some play ends there
                acting = sum(expected[player, other][0] for other in set(alike.tolist()))
                assert seat.weight[cell, 0] * acting == pytest.approx(joint)
                assert acting <= numbers.reach[node, 0] + 1e-9
            first = int(tree.infosets[player].first_sequence[infoset])
            row = seat.probability[cells.first_slot[cell] : cells.first_slot[cell + 1], 0]
            ids = dict(zip(cells.actions[node], row.tolist(), strict=True))
            count = int(tree.infosets[player].num_actions[infoset])
            for sequence in range(first, first + count):
                action = int(tree.infosets[player].action[sequence])
                assert ids.pop(action) == policy.probabilities[player][sequence - 1, 0]
            assert all(math.isnan(share) for share in ids.values())  # illegal with this private state
            action_ev = seat.action_ev[cells.first_slot[cell] : cells.first_slot[cell + 1], 0]
            assert np.nansum(row * action_ev) == pytest.approx(value)
    assert seen == set(expected)
    ended = np.bincount(nodes.of[tree.terminals], minlength=len(nodes)) > 0
    for node, below in enumerate(nodes.children):  # siblings share what reaches the node above
        if below and not ended[node]:
            assert numbers.reach[list(below), 0].sum() == pytest.approx(numbers.reach[node, 0])
    value = jg.evaluate_policy(policy).value[0]
    if nodes.cells[0].at(0).stop:
        assert numbers.seats[0].mean_ev[0, 0] == pytest.approx(value)


def test_both_layouts_have_the_same_nodes_and_numbers(kuhn: jg.HistoryTree) -> None:
    public = jg.public_tree(kuhn)
    policy = jg.Policy.dirichlet(kuhn, 1)
    ours, theirs = find_nodes(kuhn), find_nodes(public)
    assert ours.label == theirs.label and ours.parent.tolist() == theirs.parent.tolist()
    first, second = find_numbers(ours, policy), find_numbers(theirs, policy.on(public))
    np.testing.assert_allclose(first.reach, second.reach)
    for player in (0, 1):
        assert ours.names(player) == theirs.names(player)
        for name, values in vars(first.seats[player]).items():
            np.testing.assert_allclose(values, vars(second.seats[player])[name], err_msg=name)


def test_a_document_has_its_documented_form_and_the_policys_digits(kuhn: jg.HistoryTree) -> None:
    policies = [jg.Policy.dirichlet(kuhn, 1), jg.Policy.uniform(kuhn)]
    policy, document = jg.Policy.stack(policies), make_document(find_sources(policies))
    check(document)
    (view,) = document.header["views"]
    nodes = find_nodes(kuhn)
    assert [lane["label"] for lane in view["lanes"]] == ["dirichlet:1", "uniform"]
    shown = 0
    for node in range(len(nodes)):
        if nodes.actor[node] == 0:
            assert view["tree"]["chunk"][node] == -1
            continue
        place = view["tree"]["chunk"][node]
        frame = document.chunk(view["frames"][place])[str(node)]
        for lane in range(2):
            values = document.chunk(view["values"][lane][place])[str(node)]
            for player, seat in enumerate(frame["seats"]):
                for row, infostate in enumerate(seat.get("infostates", [])):
                    expected = policy.action_probabilities(infostate, lane, player=player)
                    for column, action in enumerate(seat["actions"]):
                        stored = values["seats"][player]["strategy"]["n"][column][row]
                        assert stored == round(1000 * expected[action["id"]])
                        shown += 1
    assert shown == 2 * sum(rows.shape[0] for rows in policy.probabilities)


def test_a_part_of_the_game_and_some_lanes(kuhn: jg.HistoryTree) -> None:
    policy = jg.Policy.stack([jg.Policy.dirichlet(kuhn, seed) for seed in range(3)])
    (view,) = make_document(find_sources(policy), below=" Pass", depth=1, lanes=["dirichlet:2"]).header[
        "views"
    ]
    names = [view["tree"]["moves"][move] for move in view["tree"]["move"]]
    assert names == ["", "Pass", "Pass", "Bet"] and view["num_omitted"] == 5
    assert view["tree"]["omitted"] == [1, 0, 0, 2]
    assert [lane["label"] for lane in view["lanes"]] == ["dirichlet:2"]
    full = make_document(find_sources(policy))
    document = make_document(find_sources(policy), max_bytes=full.num_bytes - 1, fit=True)
    assert document.header["views"][0]["num_omitted"] > 0 and document.num_bytes < full.num_bytes
    for options, message in (
        ({"below": "Pass, Fold"}, "below='Pass, Fold': 'Fold' is not possible after 'Pass'"),
        ({"lanes": ["cfr"]}, "lanes: 'cfr' is part of no label"),
        ({"max_bytes": 100}, "the page would be larger than"),
        ({"depth": -1}, "depth=-1"),
    ):
        with pytest.raises(ValueError, match=message):
            make_document(find_sources(policy), **options)
    with pytest.raises(ValueError, match="expected a result with strategies"):
        jg.explore(object())


def test_a_page_is_as_large_as_its_limit_allows(kuhn: jg.HistoryTree) -> None:
    """The limit counts all of the page: chunks, the header with the tree, and the page's program."""
    policy = jg.Policy.dirichlet(kuhn, 1)
    page = jg.explore(policy)
    size, header = len(page.html.encode()), len(page.document.packed_header)
    assert jg.explore(policy, max_bytes=size + 500).html == page.html
    smaller = jg.explore(policy, max_bytes=size - header // 2, fit=True)
    assert smaller.num_omitted and len(smaller.html.encode()) <= size - header // 2
    with pytest.raises(ValueError, match="the page would be larger than"):
        jg.explore(policy, max_bytes=size - header // 2)
    with pytest.raises(ValueError, match="the page would be larger than"):
        jg.explore(policy, max_bytes=size - sum(map(len, page.document.chunks)) - header, fit=True)


def test_a_refinement_lists_its_subgames(kuhn: jg.HistoryTree) -> None:
    blueprint, none = jg.Policy.dirichlet(kuhn, 1), jg.NoPrior()
    gadgets = [jg.Resolving(), jg.MaxMargin(none, alternative=jg.BlueprintValues()), jg.Unsafe()]
    refinement = jg.refine(kuhn, "depth:1", blueprint, gadgets, iterations=50, player=1)
    document = refinement.explore().document
    check(document)
    (view,) = document.header["views"]
    pairs = [("blueprint", -1), *[("refined", 0)] * 3]
    assert [(lane["group"], lane["base"]) for lane in view["lanes"]] == pairs
    (refined,) = view["refined"]
    for lane in range(3):
        record = document.chunk(refined["chunks"][str(1 + lane)])
        moves = [view["tree"]["moves"][view["tree"]["move"][row["node"]]] for row in record["subgames"]]
        assert moves == ["Pass", "Bet"] and refined["player"] == 1
        rise = refinement.blueprint_exploitability[lane] - refinement.refined_exploitability[lane]
        # At the first decision the opponent best-responds among both subgames with each private state.
        total = 0.0
        for state in range(3):
            best = [
                max(-roots[state][name] * roots[state]["mass"] for roots in record["roots"])
                for name in ("blueprint", "refined")
            ]
            total += best[0] - best[1]
        assert total == pytest.approx(rise, abs=1e-4)
        response = np.array([[root["response"] for root in roots] for roots in record["roots"]])
        np.testing.assert_array_equal(response.sum(axis=0), 1.0)  # a pure best response enters one of the two
        roots = [root for of_subgame in record["roots"] for root in of_subgame]
        subgame = refinement.forest.roots[0].subgame
        solved = np.concatenate([refinement.entered[subgame == each, lane] for each in (0, 1)])
        if lane == 2:
            assert all(root["entered"] is None and root["promised"] is None for root in roots)
        else:
            np.testing.assert_allclose([root["entered"] for root in roots], solved, atol=1e-4)
            promised = sum(root["reach"] * root["mass"] * root["promised"] for root in roots)
            played = -jg.evaluate_policy(blueprint).value[0]  # the blueprints' own values, or less
            assert promised == pytest.approx(played, abs=1e-4) if lane else promised < played - 1e-3
        for row, at in zip(record["subgames"], record["roots"], strict=True):
            assert row["margin"] == pytest.approx(min(root["margin"] for root in at), abs=1e-4)
            gain = sum(root["reach"] * root["mass"] * (root["refined"] - root["blueprint"]) for root in at)
            assert row["gain"] == pytest.approx(gain, abs=1e-4)
            if lane == 1:  # the opponent picks a card in each subgame
                assert sum(root["entered"] for root in at) == pytest.approx(1, abs=1e-4)


def test_the_page_runs_no_text_of_a_file_and_reads_no_network(kuhn: jg.HistoryTree) -> None:
    label = "</script><script>alert(1)</script>"
    policy = jg.Policy.stack([jg.Policy.uniform(kuhn)])
    page = jg.explore(jg.Policy(kuhn, policy.probabilities, (label,)), title="<b>&")
    assert label not in page.html and "<title>&lt;b&gt;&amp;</title>" in page.html
    assert "default-src 'none'" in page.html and "connect-src" not in page.html
    assert not re.findall(r"https?://(?!www.w3.org/2000/svg)", page.html)
    assert "innerHTML" not in page.html and "eval(" not in page.html
    assert "<iframe srcdoc=" in page._repr_html_()


def test_a_report_has_its_documented_form() -> None:
    rows = pd.DataFrame({"game": ["a", "b"], "refined_exploitability": [0.1, math.nan], "seed": [None, None]})
    document = report(rows, title="Rows").document
    check(document)
    assert document.header["sweep"]["columns"] == ["game", "refined_exploitability"]
    assert document.header["sweep"]["rows"] == [["a", 0.1], ["b", None]]


def test_files_are_explored_by_name(kuhn: jg.HistoryTree, tmp_path: pathlib.Path) -> None:
    jg.Policy.uniform(kuhn).save(tmp_path / "uniform.npz")
    jg.Policy.dirichlet(kuhn, 1).save(tmp_path / "drawn.npz")
    out = tmp_path / "page.html"
    run("explore", tmp_path / "uniform.npz", tmp_path / "drawn.npz", "--out", out, "--compare", "cfr:3")
    assert "kuhn_poker" in out.read_text("utf-8")
    jg.Policy.uniform(jg.public_tree(kuhn)).save(tmp_path / "hands.npz")
    assert run("explore", tmp_path / "hands.npz", "--out", out, "--below", "Pass").exit_code == 0
    missing = run("explore", tmp_path / "missing.npz", "--out", out)
    assert missing.exit_code == 2 and "does not exist; expected a file written by --save" in missing.stderr
