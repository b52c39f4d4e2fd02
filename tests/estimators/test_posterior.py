"""Coefficients, error bars and predictions of one private fit each, on simulated people.

What docstrings call measured was measured with the plans of an earlier commit (ca710c1).
"""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.special import expit

from noisewise import Status
from noisewise.estimators import DPLinearRegression, DPLogisticRegression, DPPoissonRegression

_ROWS = 20_000
_SEED = 0
_BOUNDS = [(20.0, 80.0), (0.0, 1.0), (-300.0, 100.0)]
_WEIGHTS = np.array([0.02, -0.6, 0.003])
_INTERCEPT = -0.5
_NOISE = 12.0


class _Fitted(NamedTuple):
    estimator: Any
    X: np.ndarray
    mean: np.ndarray
    """The true probability, rate or mean of every row."""
    information: np.ndarray
    """Fisher information of every row about its linear predictor."""
    coefficients: np.ndarray
    intercept: float


@cache
def _fit(family: str, epsilon: float = 1.0) -> _Fitted:
    rng = np.random.default_rng(_SEED)
    low, high = np.array(_BOUNDS).T
    X = rng.uniform(low, high, (_ROWS, 3))
    predictor = X @ _WEIGHTS + _INTERCEPT
    common: dict[str, Any] = {"epsilon": epsilon, "bounds": _BOUNDS, "insecure_seed": _SEED}
    if family == "logistic":
        mean = expit(predictor)
        fitted = DPLogisticRegression(**common).fit(X, rng.random(_ROWS) < mean)
        return _Fitted(fitted, X, mean, mean * (1 - mean), _WEIGHTS, _INTERCEPT)
    if family == "poisson":
        mean = np.exp(predictor)
        counting = DPPoissonRegression(**common, target_bounds=(0, 60))
        return _Fitted(counting.fit(X, rng.poisson(mean)), X, mean, mean, _WEIGHTS, _INTERCEPT)
    mean = 100 + 40 * predictor
    linear = DPLinearRegression(**common, target_bounds=(0, 250), clamp=True)
    y = mean + _NOISE * rng.standard_normal(_ROWS)
    precision = np.full(_ROWS, _NOISE**-2)
    return _Fitted(linear.fit(X, y), X, mean, precision, 40 * _WEIGHTS, 100 + 40 * _INTERCEPT)


@pytest.fixture(
    scope="module",
    params=["logistic", *(pytest.param(n, marks=pytest.mark.slow) for n in ("poisson", "linear"))],
)
def fitted(request: pytest.FixtureRequest) -> _Fitted:
    return _fit(request.param)


def test_the_truth_is_inside_the_intervals(fitted: _Fitted) -> None:
    """All coefficients lie in their own 99.9% intervals, at epsilon 1.

    Four intervals for each of three models: about one choice of seed in a hundred would fail this
    with a perfect posterior. The seed is fixed, so the outcome is too (up to floating point); it is
    zero, not chosen for its outcome. If a change of the engine fails this, look at other seeds
    before changing it.
    """
    found = fitted.estimator
    assert found.status_ is Status.OK
    low, high = found.coef_interval(0.999).T
    assert np.all((low < fitted.coefficients) & (fitted.coefficients < high))
    ends = np.quantile(found.intercept_draws_, [0.0005, 0.9995])
    assert ends[0] < fitted.intercept < ends[1]


def test_error_bars_are_about_those_without_privacy(fitted: _Fitted) -> None:
    """At epsilon 1, twenty thousand rows hide one: the noise adds a few percent to the sds.

    Measured at seeds 0 to 3: 0.9 to 1.2 times those from the Fisher information of the rows.
    """
    ratio, _ = _against_the_ideal(fitted)
    assert np.all((ratio > 0.8) & (ratio < 1.4))


@pytest.mark.parametrize("family", ["logistic", "poisson", "linear"])
def test_error_bars_at_a_tenth_of_the_budget(family: str) -> None:
    """Where noise outweighs sampling, intervals hold the truth, on the wide side.

    Measured at ten seeds: sds are 1.3 to 2.1 (logistic), 3 to 5 (Poisson) and 3 to 5 times (linear)
    those without privacy, and errors have a root mean square of 0.85, 0.7 and 0.4 reported sds. For
    the residual sd of linear it is the other way round, see below.
    """
    fitted = _fit(family, epsilon=0.1)
    assert fitted.estimator.status_ is Status.OK
    ratio, error = _against_the_ideal(fitted)
    assert np.all((ratio > 1) & (ratio < 7))
    assert np.all(np.abs(error) < 3.3)


def test_residual_sd_at_a_tenth_of_the_budget() -> None:
    """A known shortcoming: it comes out some percent too small, more than its error bars say.

    Measured at seeds 0 to 5 with 2000 steps: 4 to 9 percent too small, and in four of the six the
    95% interval missed the truth. So this has a limit for the value, and none for its interval.
    """
    noise = _fit("linear", epsilon=0.1).estimator.noise_draws_
    assert noise.mean() == pytest.approx(_NOISE, rel=0.15)


def _against_the_ideal(fitted: _Fitted) -> tuple[np.ndarray, np.ndarray]:
    """Reported sds over those from the rows' Fisher information; errors in reported sds.

    Of the intercept at the middle of the bounds and of the coefficients for half of them.
    """
    middle, half = np.mean(_BOUNDS, axis=1), np.ptp(_BOUNDS, axis=1) / 2
    design = np.column_stack([np.ones(_ROWS), (fitted.X - middle) / half])
    information = (design * fitted.information[:, None]).T @ design
    ideal = np.sqrt(np.diag(np.linalg.inv(information)))
    slopes = fitted.estimator.coef_draws_
    constant = fitted.estimator.intercept_draws_ + slopes @ middle
    draws = np.column_stack([constant, slopes * half])
    truth = [fitted.intercept + fitted.coefficients @ middle, *(fitted.coefficients * half)]
    return draws.std(0) / ideal, (draws.mean(0) - truth) / draws.std(0)


def test_coefficients_in_the_units_of_the_data(fitted: _Fitted) -> None:
    """Mapped by hand from the encoded draws: `b (x - middle) / half` spelled out."""
    found = fitted.estimator
    encoded = found.result_.draws["coefficients"].astype(np.float64)
    middle, half = np.mean(_BOUNDS, axis=1), np.ptp(_BOUNDS, axis=1) / 2
    slopes = encoded[:, 1:] / half
    constants = encoded[:, 0] - (encoded[:, 1:] * middle / half).sum(1)
    np.testing.assert_allclose(found.coef_draws_, slopes, rtol=1e-12)
    np.testing.assert_allclose(found.intercept_draws_, constants, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.ravel(found.coef_), slopes.mean(0), rtol=1e-12)
    np.testing.assert_allclose(np.ravel(found.intercept_), constants.mean(), rtol=1e-12)


def test_predictions_and_their_intervals(fitted: _Fitted) -> None:
    found, X, mean = fitted.estimator, fitted.X[:2000], fitted.mean[:2000]
    classifier = isinstance(found, DPLogisticRegression)
    predicted = found.predict_proba(X)[:, 1] if classifier else found.predict(X)
    interval = found.predict_interval(X, 0.99)
    assert interval.shape == (2000, 2)
    low, high = interval.T
    assert np.all((low < predicted) & (predicted < high))
    # One posterior stands behind all rows, so their intervals fail together.
    assert np.mean((low < mean) & (mean < high)) > 0.9
    narrow = found.predict_interval(X, 0.5)
    assert np.all((low < narrow[:, 0]) & (narrow[:, 1] < high))


def test_probabilities_are_calibrated(fitted: _Fitted) -> None:
    """Among rows with like predictions, the mean true probability (or rate) is the predicted."""
    found, X = fitted.estimator, fitted.X
    classifier = isinstance(found, DPLogisticRegression)
    predicted = found.predict_proba(X)[:, 1] if classifier else found.predict(X)
    spread = fitted.mean.std()
    for rows in np.array_split(np.argsort(predicted), 10):
        assert abs(predicted[rows].mean() - fitted.mean[rows].mean()) < 0.1 * spread
    if classifier:
        np.testing.assert_array_equal(found.predict(X), predicted > 0.5)


def test_predictions_do_not_depend_on_the_chunks(
    fitted: _Fitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = fitted.X[:50]
    whole = fitted.estimator.predict_interval(X)
    monkeypatch.setattr("noisewise.estimators.base._CHUNK_FLOATS", 7 * 2000)
    np.testing.assert_allclose(fitted.estimator.predict_interval(X), whole, rtol=1e-12)


def test_pickling(fitted: _Fitted) -> None:
    again = pickle.loads(pickle.dumps(fitted.estimator))
    X = fitted.X[:20]
    np.testing.assert_array_equal(again.predict(X), fitted.estimator.predict(X))
    assert again.privacy_ == fitted.estimator.privacy_
    assert again.status_ is fitted.estimator.status_


def test_certificate(fitted: _Fitted) -> None:
    privacy = fitted.estimator.privacy_
    assert privacy is fitted.estimator.result_.privacy
    assert privacy.epsilon_spent <= 1.0
    assert not privacy.private  # the seed is known
    assert {release.what for release in privacy.releases} == {
        "counts of covariates' values",
        "products of pairs of covariates",
        "sizes of gradients at the fit",
        "gradients",
        "number of rows",
    }
    assert fitted.estimator.n_iter_ == fitted.estimator.result_.request.settings.steps


def test_predictive_intervals_hold_new_targets() -> None:
    """Predictive intervals of a linear model hold new targets as often as they say."""
    found = _fit("linear")
    rng = np.random.default_rng(_SEED + 1)
    y = found.mean + _NOISE * rng.standard_normal(_ROWS)
    for level in (0.5, 0.9):
        low, high = found.estimator.predict_interval(found.X, level, noise=True).T
        assert np.mean((low < y) & (y < high)) == pytest.approx(level, abs=0.02)


def test_rates_do_not_overflow() -> None:
    estimator = _fit("poisson").estimator
    far = np.full((2, 3), 1e9) * np.sign(estimator.coef_)
    assert np.all(np.isfinite(estimator.predict(far)))
    assert np.all(np.isfinite(estimator.predict_interval(far)))
    assert np.all(estimator.predict(-far) == 0)
