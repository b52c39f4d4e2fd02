import numpy as np
import pytest

from noisewise._validate import NoisewiseError
from noisewise.data import PrivateRows
from noisewise.dpsep import buy_whitening, scale_by_bounds, whitening_cost
from noisewise.mechanism import Budget, issue

BUDGET = Budget(epsilon=1.0, delta=1e-5)


def bought(X, **more):
    return buy_whitening(PrivateRows({"X": X}), X.shape[1], len(X), BUDGET, **more)


def narrow(rows=10_000, seed=0):
    """Three columns that are nearly copies; what sets them apart has a thousandth of the variance,
    and one column that is constant."""
    rng = np.random.default_rng(seed)
    common = rng.uniform(-1.7, 1.7, rows)
    apart = 0.04 * rng.standard_normal((rows, 3))
    return np.column_stack([common[:, None] + apart, np.full(rows, 0.3)])


def test_narrow_directions_come_out_as_wide_as_wide_ones():
    """Epsilon 1; noise is some standard deviations below the limits asserted, over seeds."""
    X = narrow()
    whitening = bought(X, insecure_seed=1)
    before = np.linalg.eigvalsh(np.cov(X[:, :3].T))
    assert before[-1] / before[0] > 1000
    after = np.linalg.eigvalsh(np.cov(whitening(X).T))
    assert after[-1] < 2
    assert (after[1:] > 0.2).all()  # the three directions that vary
    assert after[0] < 0.01  # the constant is never blown up
    assert np.abs(whitening(X).mean(0)).max() < 0.5


def test_few_rows_keep_their_scale():
    """Noise hides most directions of ten short columns of 1500 rows; their mean square is about one
    all the same (0.43 without the last factor). Three fixed seeds; over 200 it was 0.7 to 2.3."""
    X = 0.4 * np.random.default_rng(0).standard_normal((1500, 10))
    for seed in range(3):
        found = bought(X, insecure_seed=seed)(X)
        assert 0.6 < np.mean(found**2) < 2.5


def test_what_it_costs_is_in_the_ledger():
    whitening = bought(narrow(500), rounds=3)
    assert len(whitening.releases) == 3
    assert whitening.releases == whitening_cost(BUDGET, rounds=3)  # known before it is bought
    spent = issue(BUDGET, whitening.releases, {})
    assert spent.verify().holds
    assert spent.epsilon_spent < 0.3


def test_bounds_scale_and_clip():
    scaled = scale_by_bounds(np.array([[0.0], [10.0], [99.0]]), [0.0], [10.0])
    assert scaled[:, 0] == pytest.approx([-np.sqrt(3), np.sqrt(3), np.sqrt(3)])
    with pytest.raises(NoisewiseError, match="above its lower bound"):
        scale_by_bounds(np.ones((2, 1)), [1.0], [1.0])
