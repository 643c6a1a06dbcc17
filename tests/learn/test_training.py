"""Training: it learns, is reproducible, survives kills, reports correct errors, and validates arguments."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgadget
from jaxgadget.learn import errors, examples, trainer
from jaxgadget.learn.encoding import decision_histories
from jaxgadget.learn.history_lesson import ERROR_PAIRS, ERRORS_KEY, EVALUATED
from jaxgadget.learn.network import KIND, Architecture, load_values
from jaxgadget.learn.optimiser import CONSTANTS
from jaxgadget.learn.options import TrainingConfig
from jaxgadget.learn.returns import make_simulator, sample_returns
from jaxgadget.learn.trainer import begin
from jaxgadget.learn.training import train_value, visited_rmse
from jaxgadget.networks import checkpoints
from jaxgadget.networks.perceptron import evaluate, initial_weights
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.util.store import read_record, write_record
from jaxgadget.values.histories import ExactValues, OwnValues, blueprint_digest
from tests.solving import configured

GOOFSPIEL = "goofspiel(num_cards=4,imp_info=True,points_order=descending)"
SMALL = {
    "steps": 60,
    "batch_size": 16,
    "width": 16,
    "depth": 1,
    "learning_rate": 1e-2,
    "every": 20,
    "pairs": 2,
}


def make(spec: str) -> tuple[HistoryTree, Policy]:
    """A game with three entries per player that are not symmetric."""
    tree = enumerate_game(jaxgadget.load(spec))
    draws = [Policy.dirichlet(tree, seed).probabilities for seed in range(3)]
    entries = [np.concatenate([draw[player] for draw in draws], axis=1) for player in (0, 1)]
    return tree, Policy(tree, (entries[0], entries[1]), ("a", "b", "c"))


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(errors, "FINAL_DRAWS", 2**12)
    monkeypatch.setattr(errors, "LOG_DRAWS", 2**10)


@pytest.fixture(scope="module")
def kuhn() -> tuple[HistoryTree, Policy]:
    return make("kuhn_poker")


@pytest.fixture(scope="module")
def goofspiel() -> tuple[HistoryTree, Policy]:
    return make(GOOFSPIEL)


def same_weights(first, second) -> bool:
    return jax.tree.all(jax.tree.map(np.array_equal, first.values.weights, second.values.weights))


def rmse(values, tree, portfolio, histories):
    error = values(tree, histories) - ExactValues(portfolio)(tree, histories)
    return np.sqrt(np.mean(error**2))


def test_it_learns(goofspiel):
    tree, portfolio = goofspiel
    found = train_value(
        tree,
        portfolio,
        config=TrainingConfig(steps=600, batch_size=64, width=64, learning_rate=5e-3, heldout=0.1, every=150),
    )
    log, histories = found.log, decision_histories(tree)
    exact = ExactValues(portfolio)(tree, histories)
    is_heldout = np.isin(histories, found.heldout)
    assert is_heldout.sum() == len(found.heldout) == 17
    assert log["loss"].iloc[-1] < log["loss"].iloc[0] / 20
    assert list(log["step"]) == [150, 300, 450, 600]
    assert (log["examples_per_second"] > 0).all()
    assert log["seconds"].is_monotonic_increasing
    assert found.seconds > log["seconds"].iloc[-1]
    assert len(str(found)) < 160 and f"error {found.train_rmse:.3g} training" in str(found)
    # The reported error is correct, and far below that of any single table of K × K numbers.
    constant = exact[~is_heldout].mean(axis=0)
    for share, reported in ((~is_heldout, found.train_rmse), (is_heldout, found.heldout_rmse)):
        np.testing.assert_allclose(
            reported, rmse(found.values, tree, portfolio, histories[share]), rtol=1e-3, atol=1e-6
        )
        assert reported < 0.4 * np.sqrt(np.mean((exact[share] - constant) ** 2))
    assert log["heldout_rmse"].iloc[-1] == found.heldout_rmse
    assert found.train_rmse < 0.02 * found.payoff_range  # 0.0094 to 0.0126 with six seeds


def test_a_seed_decides_everything(kuhn):
    tree, portfolio = kuhn
    first, again, other = (
        train_value(tree, portfolio, targets="sampled", **configured(**SMALL, seed=seed))
        for seed in (1, 1, 2)
    )
    assert same_weights(first, again)
    assert first.log.drop(columns=["seconds", "examples_per_second"]).equals(
        again.log.drop(columns=["seconds", "examples_per_second"])
    )
    assert not same_weights(first, other)


class Killed(BaseException):
    """Raised like a signal: the package does not catch it."""


# --- sampled returns --------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        GOOFSPIEL,
        "leduc_poker(num_ranks=2)",
    ],
)
def test_the_mean_of_sampled_returns_is_the_exact_value(spec):
    tree, portfolio = make(spec)
    histories = np.random.default_rng(0).permutation(np.append(0, decision_histories(tree)))[:20]
    exact = ExactValues(portfolio)(tree, histories)
    count = 1500
    rows, first, second = (part.reshape(-1) for part in np.indices((len(histories), 3, 3)))
    simulator = make_simulator(tree, portfolio)
    at = jnp.asarray(np.repeat(histories[rows], count), jnp.int32)
    entries = (jnp.asarray(np.repeat(first, count)), jnp.asarray(np.repeat(second, count)))
    found = jax.jit(sample_returns)(simulator, at, entries, jax.random.key(0))
    found = np.asarray(found, np.float64).reshape(len(histories), 3, 3, count)
    deviation = (found.mean(axis=3) - exact) / np.maximum(found.std(axis=3) / np.sqrt(count), 1e-9)
    varies = found.std(axis=3) > 0
    np.testing.assert_allclose(found.mean(axis=3)[~varies], exact[~varies], atol=0.05)
    # 180 means in units of their standard error: their maximum and their distribution are those of normals.
    assert varies.mean() > 0.5
    assert np.abs(deviation[varies]).max() < 4.5
    assert 0.8 < np.sqrt(np.mean(deviation[varies] ** 2)) < 1.2


def test_noise_is_taken_off_the_error(kuhn, monkeypatch):
    tree, portfolio = kuhn
    monkeypatch.setattr(errors, "FINAL_DRAWS", 2**19)
    found = train_value(tree, portfolio, targets="sampled", **configured(**SMALL, heldout=0.3))
    histories = decision_histories(tree)
    shape = found.values.shape
    trained = np.setdiff1d(histories, found.heldout)
    for rows, reported in ((trained, found.train_rmse), (found.heldout, found.heldout_rmse)):
        direct = rmse(found.values, tree, portfolio, rows)
        assert 0.85 * direct < reported < 1.15 * direct
        assert reported < 0.75 * np.sqrt(direct**2 + 1)  # returns are ±1 and ±2, so their variance is about 1
    assert shape == Architecture(inputs=12, num_entries=3, width=16, depth=1)


def test_the_formula_of_the_noise(kuhn):
    """MSE − ½ E(r − r′)² is E(v − r)(v − r′), computed from the sampler's own draws."""
    tree, portfolio = kuhn
    run = []
    original = errors.mean_square

    def spy(*args):
        run.append(args)
        return original(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(errors, "mean_square", spy)
        train_value(tree, portfolio, targets="sampled", **configured(**SMALL, heldout=0))
    lesson, weights, *_ = run[-1]
    first, count, rounds = 3, 20, 40  # 800 of the 1,024 places of a batch
    error, noise = original(lesson, weights, *map(jnp.int32, (first, first + count, rounds)))
    key = jax.random.fold_in(jax.random.fold_in(lesson.key, ERRORS_KEY), 0)
    draw = jax.random.randint(jax.random.fold_in(key, 1), (2, EVALUATED, ERROR_PAIRS), 0, 3)
    rows = first + np.arange(EVALUATED) % count
    at = jnp.repeat(lesson.histories[rows], ERROR_PAIRS)
    returns = [
        np.asarray(
            sample_returns(lesson.simulator, at, tuple(draw.reshape(2, -1)), jax.random.fold_in(key, n))
        )
        for n in (2, 3)
    ]
    values = 4 * np.asarray(evaluate(lesson.shape, weights, lesson.encodings[rows].astype(jnp.float32)))
    values = values[np.arange(EVALUATED)[:, None], draw[0], draw[1]].reshape(-1)
    product = ((values - returns[0]) * (values - returns[1]))[: ERROR_PAIRS * count * rounds].mean()
    np.testing.assert_allclose(float(error - noise), product, rtol=1e-4)
    np.testing.assert_allclose(
        float(noise), ((returns[0] - returns[1]) ** 2)[: ERROR_PAIRS * count * rounds].mean() / 2, rtol=1e-5
    )
    assert noise > 0.2


# --- targets, histories, visits ---------------------------------------------------------


def test_own_targets_and_histories(kuhn):
    tree, portfolio = kuhn
    histories = decision_histories(tree)[:6]
    own = OwnValues(lambda t, rows: np.full((len(rows), 3, 3), 1.5), 3)
    found = train_value(
        tree,
        portfolio,
        targets=own,
        histories=histories,
        **configured(**{**SMALL, "steps": 400}, heldout=0.3),
    )
    assert set(found.heldout) < set(histories)
    assert len(found.heldout) == 2
    np.testing.assert_allclose(found.values(tree, np.setdiff1d(histories, found.heldout)), 1.5, atol=0.05)


@pytest.mark.filterwarnings("ignore:.*payoffs lie between")
def test_visited_rmse_weighs_pairs(kuhn):
    tree, portfolio = kuhn
    exact = ExactValues(portfolio)
    off = np.arange(9.0).reshape(3, 3)
    values = OwnValues(lambda t, rows: exact(t, rows) + off, 3)
    histories = decision_histories(tree)[:2]
    weights = np.zeros((2, 3, 3))
    weights[0, 1, 2], weights[1, 0, 1] = 3, 1
    np.testing.assert_allclose(
        visited_rmse(values, exact, tree, histories, weights), np.sqrt((3 * 5**2 + 1 * 1**2) / 4)
    )
    everywhere = visited_rmse(values, exact, tree, histories, np.ones((2, 3, 3)))
    np.testing.assert_allclose(everywhere, np.sqrt(np.mean(off**2)))
    for bad in (np.zeros((2, 3, 3)), np.ones((2, 3)), -np.ones((2, 3, 3)), np.full((2, 3, 3), np.nan)):
        with pytest.raises(ValueError, match="weights"):
            visited_rmse(values, exact, tree, histories, bad)
    with pytest.raises(ValueError, match="at least one leaf"):
        visited_rmse(values, exact, tree, histories[:0], weights[:0])


# --- errors -------------------------------------------------------------------------------


def test_numbers_that_are_not_finite_stop_it(kuhn, tmp_path, monkeypatch):
    """From step 45 on the learning rate overflows; the checkpoint of step 40 remains."""
    pytest.importorskip("orbax.checkpoint")
    tree, portfolio = kuhn
    with pytest.raises(ValueError, match="learning_rate"):
        train_value(tree, portfolio, **configured(**{**SMALL, "learning_rate": 1e30, "steps": 1000}))
    original = trainer.advance

    def poisoned(progress, lesson, until, *, schedule):
        if int(until) > 40:
            lesson = dataclasses.replace(lesson, targets=jnp.full_like(lesson.targets, jnp.nan))
        return original(progress, lesson, until, schedule=schedule)

    with monkeypatch.context() as patch:
        patch.setattr(trainer, "advance", poisoned)
        with pytest.raises(ValueError, match="folder"):
            train_value(tree, portfolio, folder=tmp_path, **configured(**SMALL))
    kept = load_values(tmp_path, tree)
    assert np.isfinite(kept(tree, decision_histories(tree))).all()
    assert same_weights(
        train_value(tree, portfolio, folder=tmp_path, **configured(**SMALL)),
        train_value(tree, portfolio, **configured(**SMALL)),
    )


def test_overflowing_losses_do_not_change_weights(kuhn, monkeypatch):
    """The loss of targets as large as 3e19 overflows, its gradient does not."""
    tree, portfolio = kuhn
    calls = []
    original = trainer.advance

    def spy(progress, lesson, until, *, schedule):
        calls.append((lesson, schedule))
        return original(progress, lesson, until, schedule=schedule)

    monkeypatch.setattr(trainer, "advance", spy)
    train_value(tree, portfolio, **configured(**SMALL))
    lesson, schedule = calls[-1]
    first = begin(initial_weights(lesson.shape, 0), schedule)
    before = original(first, lesson, jnp.int32(3), schedule=schedule)
    weights, moments = jax.device_get((before.weights, before.optimiser))
    bad = dataclasses.replace(lesson, targets=jnp.full_like(lesson.targets, 3e19))
    after = original(before, bad, jnp.int32(50), schedule=schedule)
    assert int(after.step) == 3 and np.isnan(after.loss_sum)
    for kept, expected in ((after.weights, weights), (after.optimiser, moments)):
        assert jax.tree.all(jax.tree.map(np.array_equal, jax.device_get(kept), expected))


def test_another_training_in_the_folder_is_refused(kuhn, goofspiel, tmp_path, monkeypatch):
    pytest.importorskip("orbax.checkpoint")
    tree, portfolio = kuhn
    train_value(tree, portfolio, folder=tmp_path, **configured(**SMALL))
    with pytest.raises(ValueError, match="width"):
        train_value(tree, portfolio, folder=tmp_path, **configured(**{**SMALL, "width": 32}))
    with pytest.raises(ValueError, match="goofspiel"):
        train_value(*goofspiel, folder=tmp_path, **configured(**SMALL))
    first, second = portfolio.probabilities
    for order, message in (([1, 0, 2], "for another blueprint"), ([0, 2, 1], "training portfolio is")):
        other = Policy(tree, (first[:, order], second), portfolio.labels)
        with pytest.raises(ValueError, match=message):
            train_value(tree, other, folder=tmp_path, **configured(**SMALL))
    described = read_record(tmp_path / checkpoints.DESCRIPTION, KIND.file)
    del described["training"]["schedule"]  # as before release 0.2
    write_record(tmp_path / checkpoints.DESCRIPTION, KIND.file, described)
    with pytest.raises(ValueError, match="schedule is None"):
        train_value(tree, portfolio, folder=tmp_path, **configured(**SMALL))
    described["training"]["schedule"] = CONSTANTS["schedule"]
    write_record(tmp_path / checkpoints.DESCRIPTION, KIND.file, described)
    monkeypatch.setitem(CONSTANTS, "second moment", 0.5)
    with pytest.raises(ValueError, match=r"training second moment is 0\.99, not 0\.5"):
        train_value(tree, portfolio, folder=tmp_path, **configured(**SMALL))


def test_other_numbers_from_an_own_function_are_another_training(kuhn, tmp_path):
    pytest.importorskip("orbax.checkpoint")
    tree, portfolio = kuhn

    def own(number):
        return OwnValues(lambda t, rows: np.full((len(rows), 3, 3), number), 3)

    begun, again = (
        train_value(tree, portfolio, folder=tmp_path, targets=own(1.5), **configured(**SMALL)) for _ in "12"
    )
    assert same_weights(again, begun)
    with pytest.raises(ValueError, match="targets"):
        train_value(tree, portfolio, folder=tmp_path, targets=own(-1.5), **configured(**SMALL))


def test_another_machine_causes_a_warning(kuhn, tmp_path, monkeypatch):
    pytest.importorskip("orbax.checkpoint")
    tree, portfolio = kuhn
    train_value(tree, portfolio, folder=tmp_path, **configured(**SMALL))
    monkeypatch.setattr(checkpoints, "describe_device", lambda: "cpu: another, 64 cores")
    with pytest.warns(UserWarning, match="continues with .*another, 64 cores.* last bits") as warned:
        train_value(tree, portfolio, folder=tmp_path, **configured(**SMALL))
    assert [warning.filename for warning in warned] == [__file__], "the caller is warned"


def test_a_network_knows_its_blueprint_and_folder(kuhn, tmp_path):
    pytest.importorskip("orbax.checkpoint")
    tree, portfolio = kuhn
    alone = train_value(tree, portfolio, **configured(**SMALL)).values
    kept = train_value(tree, portfolio, folder=tmp_path, **configured(**SMALL)).values
    loaded = load_values(tmp_path, tree)
    assert alone.blueprint == kept.blueprint == loaded.blueprint == blueprint_digest(portfolio.lane(0))
    assert (alone.name, kept.name, loaded.name) == ("network", str(tmp_path), str(tmp_path))
    first, second = portfolio.probabilities
    for pair in ((first[:, [1]], second[:, [0]]), (first[:, [0]], second[:, [1]])):
        assert blueprint_digest(Policy(tree, pair, ("other",))) != alone.blueprint


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"depth": -1}, "depth="),
        ({"pairs": True}, "pairs="),
        ({"targets": OwnValues(lambda t, h: np.zeros((len(h), 2, 2)), 2)}, "with num_entries = 3"),
        ({"histories": [-1]}, "histories="),
        ({"histories": []}, "at least one"),
    ],
)
def test_bad_settings(kuhn, setting, message):
    tree, portfolio = kuhn
    with pytest.raises(ValueError, match=message):
        train_value(tree, portfolio, **configured(**{**SMALL, **setting}))


def test_a_portfolio_of_another_game_or_too_large_targets(kuhn, goofspiel, monkeypatch):
    with pytest.raises(ValueError, match="goofspiel"):
        train_value(goofspiel[0], kuhn[1], **configured(**SMALL))
    shallow = enumerate_game(kuhn[0].game, depth=1)
    with pytest.raises(ValueError, match="whole game"):
        train_value(shallow, Policy.uniform(shallow), **configured(**SMALL))
    with pytest.raises(ValueError, match="portfolio="):
        train_value(kuhn[0], 7, **configured(**SMALL))
    monkeypatch.setattr(examples, "TARGET_BYTES", 1000)
    with pytest.raises(ValueError, match="targets="):
        train_value(*kuhn, **configured(**SMALL))
    nan = OwnValues(lambda t, rows: np.full((len(rows), 3, 3), np.nan), 3)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="history"):
        train_value(*kuhn, targets=nan, **configured(**SMALL))
