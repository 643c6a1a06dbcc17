"""Networks of ranges at a deal: what they learn, resuming, and folders that do not fit."""

import dataclasses
import pathlib
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from jaxgadget.holdem.betting import BetMenu
from jaxgadget.holdem.spots import Spot
from jaxgadget.learn import deal_network
from jaxgadget.learn.deal_network import (
    DEFAULT,
    describe_deals,
    draw_deal_ranges,
    load_deals,
    solve_deals,
    train_deals,
)
from jaxgadget.util.precision import precision
from jaxgadget.values.deals import CheckedDown, DealLimit, solve_to_deal
from tests.values.test_deals import HALF, NEVER, TURN, solved

SPOT = dataclasses.replace(TURN, river_menus=HALF)
SMALL = dataclasses.replace(DEFAULT, samples=24, iterations=30, steps=60, width=16, heldout=0.25, every=20)
KEPT = ("ranges", "values", "opposing", "gap", "mass")


def train(folder: pathlib.Path | None = None, spot: Spot = SPOT, **changes: Any) -> Any:
    return train_deals(spot, config=dataclasses.replace(SMALL, **changes), folder=folder, progress=False)


@pytest.mark.slow
def test_solved_ranges_have_small_gaps_and_are_read_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = DealLimit.of(SPOT)
    ranges = draw_deal_ranges(limit, CheckedDown(), 20, np.random.default_rng(0))
    found = solve_deals(limit, ranges, 150, folder=tmp_path, progress=False)
    assert 0 <= found["gap"].min() and found["gap"].max() < 0.03 and found["mass"].min() > 0
    for own in found["ranges"]:
        sums = own.reshape(len(limit.nodes), -1, 20).sum(axis=1)
        np.testing.assert_allclose(sums, 1, rtol=1e-12)
        assert not own.reshape(len(limit.nodes), -1, 20)[:, limit.hands < 0].any()

    def refuse(*args: Any) -> Any:
        raise AssertionError

    (tmp_path / "shard-00001.npz").unlink()
    monkeypatch.setattr(deal_network, "_resolved", refuse)
    with pytest.raises(AssertionError):
        solve_deals(limit, ranges, 150, folder=tmp_path, progress=False)
    monkeypatch.undo()
    again = solve_deals(limit, ranges, 150, folder=tmp_path, progress=False)
    for name in KEPT:
        np.testing.assert_array_equal(found[name], again[name])
    with pytest.raises(ValueError, match="another request"):
        solve_deals(limit, ranges, 151, folder=tmp_path, progress=False)


def test_deals_are_known_by_the_betting_after_them() -> None:
    """Not by their menus: chips and shares of the pot may be the same, and donk bets are not."""
    chips = dataclasses.replace(SPOT, river_menus=BetMenu(bets="5c", raises=()))
    same, double = DealLimit.of(SPOT), DealLimit.of(dataclasses.replace(chips, pot=20, stack=40))
    assert same.trees[0] == DealLimit.of(chips).trees[0] != double.trees[0]
    donks = (BetMenu(bets=(0.5,), raises=(), donks=()), HALF)
    called = DealLimit.of(dataclasses.replace(SPOT, river_menus=donks))
    lines = [called.spot.street_betting.line(node) for node in called.nodes.tolist()]
    by_line = dict(zip(lines, called.trees, strict=True))
    assert by_line["bet 5, call"] != by_line["check, bet 5, call"]


@pytest.mark.slow
def test_a_network_learns_values_without_later_bets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equities are linear in the ranges; a short training explains most of their variance."""
    spot = dataclasses.replace(TURN, river_menus=NEVER)
    trained = train(spot=spot, iterations=1, samples=96, steps=1500, width=32)
    limit = DealLimit.of(spot)
    ranges = draw_deal_ranges(limit, CheckedDown(), 12, np.random.default_rng(5))
    known = solve_deals(limit, ranges, 1, progress=False)
    spread = float(np.std(known["values"][0] / np.maximum(known["opposing"][0], 1e-9)))
    assert trained.heldout_rmse < 0.35 * spread
    with precision(np.float64):
        found = trained.values(limit)(tuple(jnp.asarray(x) for x in known["ranges"]))
    correlation = np.corrcoef(np.ravel(found[0]), np.ravel(known["values"][0]))[0, 1]
    assert correlation > 0.95
    network, equities = (
        solve_to_deal(spot, values, iterations=200) for values in (trained.values, CheckedDown())
    )
    exploitability = solved(spot, 50, locks=network.locks()).unlocked_exploitability
    assert exploitability < 0.01 * spot.pot
    assert network.game_values[0] == pytest.approx(equities.game_values[0], abs=0.005)


@pytest.mark.slow
def test_a_training_is_resumed_and_other_folders_are_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("orbax.checkpoint")
    whole = train()
    stopped = RuntimeError("stopped")

    def stop(self: Any, values: Any, round_idx: int) -> None:
        if round_idx == 1:
            raise stopped
        add(self, values, round_idx)

    add = deal_network._DealData.add  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(deal_network._DealData, "add", stop)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(RuntimeError, match="stopped"):
        train(tmp_path)
    monkeypatch.undo()
    with pytest.warns(UserWarning, match="not finished"):
        solve_to_deal(SPOT, load_deals(tmp_path, SPOT), iterations=2)
    resumed = train(tmp_path)
    assert resumed.values.fingerprint == whole.values.fingerprint
    assert (resumed.heldout_rmse, resumed.samples) == (whole.heldout_rmse, 36)
    loaded = load_deals(tmp_path, SPOT)
    assert loaded.fingerprint == whole.values.fingerprint and loaded.error == whole.heldout_rmse
    assert train(tmp_path).values.fingerprint == whole.values.fingerprint  # finished: nothing is trained
    for other, message in (
        (dataclasses.replace(SPOT, board="Td9d8sKc"), "is a network for 8s9dTdQc without"),
        (dataclasses.replace(SPOT, river_menus=NEVER), "was not trained for the bets"),
        (dataclasses.replace(SPOT, remove=("check, check, check, bet 5",)), "was not trained for the bets"),
        (dataclasses.replace(SPOT, stack=7), "was not trained for the bets"),
        (dataclasses.replace(SPOT, rake=0.05), "rake"),
    ):
        with pytest.raises(ValueError, match=message):
            load_deals(tmp_path, other)
    wider = dataclasses.replace(SPOT, oop="AA,JTs,A7s,K7s,AJs")
    with pytest.warns(UserWarning, match="was not trained with .*; its values may be wrong"):
        solve_to_deal(wider, loaded, iterations=2)  # other ranges on the same board
    own, other = DealLimit.of(SPOT), DealLimit.of(wider)
    common = np.isin(own.hands, other.hands) & (own.hands >= 0)
    place = np.searchsorted(other.hands[other.hands >= 0], own.hands[common])
    features = [
        np.asarray(describe_deals(limit, loaded.trees).features[0])[:, hands]
        for limit, hands in ((own, common), (other, place))
    ]
    np.testing.assert_array_equal(features[0], features[1])  # do not depend on the ranges
    with pytest.raises(ValueError, match="holds another training: of 60 steps"):
        train(tmp_path, steps=61)
    with pytest.raises(ValueError, match="infostates"):
        train(network="padded")
