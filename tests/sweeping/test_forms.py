"""Sweeps by hands: the rows equal those in the histories, apart from the column of the form."""

import json
import pathlib
from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.policy.identity import fingerprint
from jaxgadget.sweeping.store import SCHEMA, TIMES, Store
from tests.solving import sweeping

KUHN: dict[str, Any] = {
    "games": "kuhn_poker",
    "cuts": "depth:1",
    "blueprints": ["uniform", "draws:2", "cfr:3"],
    "gadgets": ["unsafe", "resolving", "max-margin"],
    "priors": "uniform",
    "epsilons": 0.01,
    "opponent": jg.Opponent("uniform", (0.0, 0.5)),
    "players": (0, 1),
    "iterations": 20,
    "algorithm": "cfr+",
    "dtype": "float64",
}
DIFFERENT = {"form", "piece", *TIMES}


def test_rows_by_hands_are_those_by_histories(tmp_path: pathlib.Path) -> None:
    by_histories = jg.sweep(tmp_path / "histories", **sweeping(**KUHN))
    by_hands = jg.sweep(tmp_path / "hands", **sweeping(**KUHN, form="hands"))
    assert set(by_histories["form"]) == {"histories"} and set(by_hands["form"]) == {"hands"}
    assert len(by_hands) == len(by_histories) == 3 * 2 * 4 * 2
    for name in SCHEMA.names:
        if name in DIFFERENT:
            continue
        expected, column = by_histories[name], by_hands[name]
        if column.dtype == np.float64:
            np.testing.assert_allclose(column, expected, rtol=0, atol=1e-9, err_msg=name)
        else:
            assert column.equals(expected), name
    assert jg.read_sweep(tmp_path / "hands").equals(by_hands)


def test_a_folder_has_one_form(tmp_path: pathlib.Path) -> None:
    few = KUHN | {"blueprints": "uniform", "gadgets": "resolving", "opponent": None, "players": 0}
    rows = jg.sweep(tmp_path / "s", **sweeping(**few))
    with pytest.raises(ValueError, match="has other settings") as caught:
        jg.sweep(tmp_path / "s", **sweeping(**few, form="hands"))
    assert caught.value.__notes__ == ["form: histories before, hands now"]
    extended = jg.sweep(tmp_path / "s", **sweeping(**few, form="hands"), extend=True)
    assert extended["form"].tolist() == ["hands"] and rows["form"].tolist() == ["histories"]
    with pytest.raises(ValueError, match="form='hand'"):
        jg.sweep(tmp_path / "t", **sweeping(**few, form="hand"))


def test_fingerprints_by_hands_are_of_the_rules() -> None:
    kuhn = jg.public_tree(jg.load("kuhn_poker"))
    assert fingerprint(kuhn) == fingerprint(jg.public_tree(jg.load("kuhn_poker")))
    kuhn.nodes.first_child, kuhn.nodes.slot  # noqa: B018  # cached values are no rules
    again = jg.public_tree(jg.load("kuhn_poker"))
    leduc = jg.public_tree(jg.load("leduc_poker"))
    assert len({fingerprint(tree) for tree in (kuhn, again, leduc)}) == 2
    coin_toss = jg.enumerate_game(jg.load("coin_toss"))
    assert fingerprint(jg.public_tree(coin_toss)) != fingerprint(coin_toss)


def test_a_sweep_of_version_0_4_is_read_but_not_added_to(tmp_path: pathlib.Path) -> None:
    few = KUHN | {"blueprints": "uniform", "gadgets": "resolving", "opponent": None, "players": 0}
    rows = jg.sweep(tmp_path, **sweeping(**few))
    store = Store(tmp_path)
    manifest = store.manifest()
    assert manifest is not None
    request = json.loads(json.dumps(manifest.request).replace("root_gadgets", "two_level"))
    assert request != manifest.request
    store.settle(manifest._replace(request=request))
    for extend in (False, True):
        with pytest.raises(ValueError, match=r"was written by version 0\.4"):
            jg.sweep(tmp_path, **sweeping(**few), extend=extend)
    assert jg.read_sweep(tmp_path).equals(rows)
