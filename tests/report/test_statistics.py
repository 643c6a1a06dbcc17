import numpy as np
import pandas as pd
import pytest
from scipy import stats

from jaxgadget.report import paired_t_tests

FIRST, SECOND = "resolving, no prior", "max-margin, no prior"


def table(first: list[float], second: list[float]) -> pd.DataFrame:
    rows = [
        {"game": "g", "blueprint": f"cfr:{k}", "gadget": gadget, "prior": "none", "epsilon": 0.0, "value": x}
        for gadget, values in (("resolving", first), ("max-margin", second))
        for k, x in enumerate(values)
    ]
    return pd.DataFrame(rows)


def test_by_hand():
    # Differences −1, −2, −3: mean −2, deviation 1, t = −2·√3; with 2 degrees of freedom Student's
    # distribution is ½ + t / (2·√(2 + t²)).
    likely = paired_t_tests(table([1, 2, 3], [2, 4, 6]), value="value")
    better = 0.5 + 2 * np.sqrt(3) / (2 * np.sqrt(2 + 12))
    assert list(likely.index) == list(likely.columns) == [FIRST, SECOND]
    assert likely.loc[FIRST, SECOND] == pytest.approx(better, abs=1e-12)
    assert likely.loc[SECOND, FIRST] == pytest.approx(1 - better, abs=1e-12)
    assert np.isnan(np.diag(likely)).all()


def test_equals_scipys_and_does_not_mind_the_order_of_rows():
    rng = np.random.default_rng(5)
    settings = [("unsafe", "none", 0.0), ("resolving", "uniform", 0.01), ("resolving", "uniform", 0.1)]
    values = rng.gamma(2.0, size=(3, 2, 12)) * [[[1.0]], [[1.3]], [[0.6]]]
    rows = [
        {
            "player": player,
            "blueprint": k,
            "gadget": gadget,
            "prior": prior,
            "epsilon": epsilon,
            "refined_exploitability": values[i, player, k],
        }
        for i, (gadget, prior, epsilon) in enumerate(settings)
        for player in (0, 1)
        for k in range(12)
    ]
    frame = pd.DataFrame(rows)
    likely = paired_t_tests(frame)
    names = ["unsafe", "resolving, uniform prior, ε = 0.01", "resolving, uniform prior, ε = 0.1"]
    assert list(likely.index) == names
    for i in range(3):
        for j in range(3):
            if i != j:
                test = stats.ttest_rel(values[i].ravel(), values[j].ravel(), alternative="less")
                assert likely.iloc[i, j] == pytest.approx(1 - test.pvalue, abs=1e-12)
    shuffled = paired_t_tests(frame.sample(frac=1, random_state=0)).loc[names, names]
    np.testing.assert_allclose(shuffled, likely, atol=1e-12)


@pytest.mark.parametrize(("shift", "better"), [(0.0, 0.5), (-0.25, 1.0), (0.25, 0.0)])
def test_equal_differences(shift: float, better: float):
    likely = paired_t_tests(table([1 + shift, 2 + shift], [1, 2]), value="value")
    assert likely.loc[FIRST, SECOND] == better
    assert likely.loc[SECOND, FIRST] == 1 - better
