"""scikit-learn's own checks of an estimator, on all three."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from noisewise import Result, Table, fit
from noisewise.dpvi import Settings
from noisewise.estimators import (
    DPGammaRegression,
    DPLinearRegression,
    DPLogisticRegression,
    DPPoissonRegression,
)
from noisewise.models import Glm

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

# The checks' tables have ten to two hundred rows, of unknown bounds: so values are clamped, and
# noise is low, and nothing is bought about features that are not there to be described.
_SMALL: dict[str, Any] = {
    "epsilon": 10.0,
    "bounds": (-10, 10),
    "clamp": True,
    "steps": 200,
    "draws": 100,
    "insecure_seed": 1,
    "covariate_share": 0.0,
}
_LOGISTIC = DPLogisticRegression(**_SMALL)
_POISSON = DPPoissonRegression(**_SMALL, target_bounds=(0, 1000))
_GAMMA = DPGammaRegression(**_SMALL, target_bounds=(0.01, 1000))
_LINEAR = DPLinearRegression(**_SMALL, target_bounds=(-5, 5))

_NOT_COUNTS = "the check's targets are not whole numbers, which a Poisson regression must refuse"
_WITHOUT_COUNTS = (
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_regressor_data_not_an_array",
    "check_regressors_no_decision_function",
    "check_regressors_train",
)


def _fit_unplanned(model: Glm, table: Table, *, steps: int, **asked: Any) -> Result:
    """`noisewise.fit` with settings that suit any small table."""
    coordinates = len(table.schema.names) + (model.family in ("linear", "gamma"))
    settings = Settings(
        clip_norm=0.5,
        sampling_rate=1.0,
        steps=steps,
        contraction_rate=0.05,
        curvature=50 * np.eye(coordinates),
        prior_precision=np.eye(coordinates),
    )
    return fit(model, table, plan=settings, **asked)


@pytest.fixture(autouse=True)
def _no_planning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning is most of a small fit's time and compilation; other tests have it."""
    monkeypatch.setattr("noisewise.estimators.base.fit", _fit_unplanned)


def _expected_failures(estimator: BaseEstimator) -> dict[str, str]:
    if isinstance(estimator, DPPoissonRegression):
        return dict.fromkeys(_WITHOUT_COUNTS, _NOT_COUNTS)
    return {}


@parametrize_with_checks([_LOGISTIC])
def test_scikit_learn_check(estimator: BaseEstimator, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([_POISSON, _LINEAR], expected_failed_checks=_expected_failures)
def test_scikit_learn_check_of_regressors(estimator: BaseEstimator, check: Any) -> None:
    check(estimator)


class _Rounding(DPPoissonRegression):
    """Makes counts of any numbers, so that the checks refused above run as well."""

    def fit(self, X: Any, y: Any) -> Any:
        if np.asarray(y).dtype.kind == "f":
            y = np.rint(y)
        return super().fit(X, y)


class _Positive(DPGammaRegression):
    """Makes positive numbers of any, so that every check runs."""

    def fit(self, X: Any, y: Any, groups: Any = None) -> Any:
        if np.asarray(y).dtype.kind in "fiu":
            y = np.asarray(y, float)
            y = np.where(np.isfinite(y), np.exp(np.clip(y, -3, 3)), y)
        return super().fit(X, y, groups)


def _checks_on_counts() -> list[Any]:
    checks = estimator_checks_generator(_Rounding(**_POISSON.get_params()))
    return [
        pytest.param(estimator, check, id=check.func.__name__)
        for estimator, check in checks
        if check.func.__name__ in _WITHOUT_COUNTS
    ]


@pytest.mark.slow
@parametrize_with_checks([_Positive(**_GAMMA.get_params())])
def test_scikit_learn_check_on_positive_numbers(estimator: BaseEstimator, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "check"), _checks_on_counts())
def test_scikit_learn_check_on_counts(estimator: BaseEstimator, check: Any) -> None:
    check(estimator)


def test_tags() -> None:
    tags = DPLogisticRegression().__sklearn_tags__()
    assert not tags.classifier_tags.multi_class
    assert tags.non_deterministic
    assert not DPLinearRegression(insecure_seed=1).__sklearn_tags__().non_deterministic
    for kind in (DPPoissonRegression, DPGammaRegression):
        assert kind().__sklearn_tags__().target_tags.positive_only
