import pathlib

import numpy as np
import pytest

from jaxgadget import HistoryTree, Policy, cfr_checkpoints, enumerate_game, load, nash_conv
from jaxgadget.policy.blueprints import (
    DEMO_SPECS,
    FORMS,
    make_blueprints,
    parse_blueprint,
)


def assert_same(a: Policy, b: Policy):
    for first, second in zip(a.probabilities, b.probabilities, strict=True):
        np.testing.assert_array_equal(first, second)


def test_each_form(kuhn: HistoryTree):
    specs = ["geometric:0.50", "uniform", "dirichlet:7", "dirichlet:7:2.5"]
    made = make_blueprints(kuhn, specs)
    expected = [
        Policy.geometric(kuhn, 0.5),
        Policy.uniform(kuhn),
        Policy.dirichlet(kuhn, 7),
        Policy.dirichlet(kuhn, 7, 2.5),
    ]
    assert made.labels == tuple(specs), "lanes are called what the user called them"
    assert_same(made, Policy.stack(expected))


def test_checkpoints_come_from_one_run_an_algorithm(kuhn: HistoryTree, monkeypatch: pytest.MonkeyPatch):
    calls: list[tuple[str, list[int]]] = []

    def record(tree: HistoryTree, counts: list[int], *, algorithm: str, progress: bool | None) -> Policy:
        calls.append((algorithm, counts))
        return cfr_checkpoints(tree, counts, algorithm=algorithm, progress=progress)

    monkeypatch.setattr("jaxgadget.policy.solve.cfr_checkpoints", record)
    made = make_blueprints(kuhn, ["cfr:5", "cfr+:3", "uniform", "cfr:2", "cfr+:4"])
    assert calls == [("cfr", [5, 2]), ("cfr+", [3, 4])]
    assert made.labels == ("cfr:5", "cfr+:3", "uniform", "cfr:2", "cfr+:4")
    for label, algorithm, count in [("cfr:2", "cfr", 2), ("cfr+:4", "cfr+", 4)]:
        assert_same(made.lane(label), cfr_checkpoints(kuhn, [count], algorithm=algorithm))


def test_a_file_gives_all_its_lanes(kuhn: HistoryTree, tmp_path: pathlib.Path):
    one, two = tmp_path / "one.npz", tmp_path / "two:lanes.npz"
    Policy.uniform(kuhn).save(one)
    pair = Policy.stack([Policy.geometric(kuhn, 2), Policy.dirichlet(kuhn, 1)])
    pair.save(two)
    made = make_blueprints(kuhn, [f"file:{two}", f"file:{one}"])
    assert made.labels == (f"file:{two}#geometric:2", f"file:{two}#dirichlet:1", f"file:{one}")
    assert_same(made, Policy.stack([pair, Policy.uniform(kuhn)]))


def test_demo_has_about_twenty_of_both_kinds():
    kinds = [parse_blueprint(text).kind for text in DEMO_SPECS]
    assert len(set(DEMO_SPECS)) == len(DEMO_SPECS) == 20
    assert set(kinds) == {"cfr", "dirichlet"}
    assert {"cfr:1", "cfr:1000"} <= set(DEMO_SPECS)


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("steep", FORMS),
        ("uniform:3", FORMS),
        ("file:", FORMS),
        ("cfr+:1.5", "N is '1.5'"),
        ("cfr:99999999999", "from 1 to 2147483647"),
        ("geometric:inf", "R is 'inf'"),
        ("dirichlet:-1", "SEED is '-1'"),
        ("dirichlet:1:", "ALPHA is ''"),
        ("draws", FORMS),
        ("draws:0", "COUNT is '0'"),
        ("cfr-spread:0", "COUNT is '0'"),
    ],
)
def test_malformed(spec: str, complaint: str):
    with pytest.raises(ValueError) as error:
        parse_blueprint(spec)
    assert f"blueprint {spec!r}" in str(error.value)
    assert complaint in str(error.value)


def test_bad_files(kuhn: HistoryTree, tmp_path: pathlib.Path):
    text, other = tmp_path / "text.npz", tmp_path / "other.npz"
    text.write_text("no policy")
    tree = enumerate_game(load("goofspiel(num_cards=3,imp_info=True)"))
    Policy.uniform(tree).save(other)
    for path, complaint in [
        (tmp_path / "missing.npz", "does not exist"),
        (text, "policy file"),
        (other, "not of 'kuhn_poker'"),
    ]:
        with pytest.raises(ValueError, match=complaint) as error:
            make_blueprints(kuhn, ["uniform", f"file:{path}"])
        assert f"file:{path}" in str(error.value)


# --- several at once ----------------------------------------------------------------------


@pytest.mark.slow
def test_a_spread_of_checkpoints_is_even_in_exploitability(kuhn: HistoryTree):
    """On a logarithmic scale, adjacent checkpoints are at most slightly further apart than equal steps."""
    count, last = 8, 400
    made = make_blueprints(kuhn, [f"cfr-spread:{count}:{last}"])
    numbers = [int(label.removeprefix("cfr:")) for label in made.labels]
    assert len(numbers) == count and numbers == sorted(set(numbers)) and last in numbers
    height = np.log(nash_conv(made))
    goals = np.linspace(height.max(), height.min(), count)
    assert np.abs(np.sort(height)[::-1] - goals).max() < 0.5 * (goals[0] - goals[1])
    everything = cfr_checkpoints(kuhn, range(1, last + 1))
    reached = np.log(nash_conv(everything))
    assert height.max() == reached[:20].max() and abs(height.min() - reached.min()) < 0.1


@pytest.mark.parametrize("spec", ["cfr-spread:6:90", "draws:3", "draws:3:0.5"])
def test_labels_are_specs_that_make_a_lane_again(kuhn: HistoryTree, spec: str):
    made = make_blueprints(kuhn, [spec], seed=2)
    assert_same(make_blueprints(kuhn, [spec], seed=2), made)
    for label in made.labels:
        assert_same(make_blueprints(kuhn, [label]), made.lane(label))


def test_draws_depend_on_the_seed_and_nothing_else(kuhn: HistoryTree):
    made = make_blueprints(kuhn, ["draws:2", "uniform"], seed=3)
    assert made.labels == ("dirichlet:3000", "dirichlet:3001", "uniform")
    assert_same(made.lane(1), Policy.dirichlet(kuhn, 3001))
    assert make_blueprints(kuhn, ["draws:4"], seed=3).labels[:2] == made.labels[:2]
    assert make_blueprints(kuhn, ["draws:1:2"], seed=3).labels == ("dirichlet:3000:2",)
    seeds = {label for seed in range(5) for label in make_blueprints(kuhn, ["draws:3"], seed=seed).labels}
    assert len(seeds) == 15, "no draw belongs to two seeds"
