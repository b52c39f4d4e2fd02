"""What the regressors share: bounds of the target, means on a log scale."""

import math
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtri
from sklearn.base import RegressorMixin

from noisewise._validate import NoisewiseError, positive, shown
from noisewise.data import Column, Schema
from noisewise.estimators.base import PrivateGlm
from noisewise.estimators.declaring import TARGET, required
from noisewise.models import Glm

_LARGEST_LOG_MEAN = 700.0
"""Means beyond e^700 would be infinite: far outside the data, extrapolation says nothing more."""


def target_column(
    kind: str, bounds: Any, mean: float | None = None, sd: float | None = None
) -> Column:
    """The declared target."""
    pair = required("target_bounds", bounds)
    pair = tuple(pair) if isinstance(pair, np.ndarray) else pair
    return Column(name=TARGET, kind=kind, bounds=pair, mean=mean, sd=sd)


def log_mean(predictor: np.ndarray) -> np.ndarray:
    """Log of the mean over draws of what predictors are the log of, without leaving that scale."""
    return logsumexp(predictor, axis=1) - np.log(predictor.shape[1])


def mean_of_log(log_value: np.ndarray) -> np.ndarray:
    """The exponential, kept finite."""
    return np.exp(np.minimum(log_value, _LARGEST_LOG_MEAN))


def residuals(sds: np.ndarray) -> np.ndarray:
    """One residual a draw: evenly spread normal quantiles in a fixed, arbitrary order."""
    order = np.random.default_rng(0).permutation(len(sds))
    return sds * ndtri((order + 0.5) / len(sds))


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRegressor(RegressorMixin, PrivateGlm):
    """A private regression on a target with declared bounds."""

    target_bounds: Any = None
    target_mean: float | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # On the few dozen rows that scores are tested with, privacy noise outweighs the signal.
        tags.regressor_tags.poor_score = True
        return tags

    def _model(self, family: str, schema: Schema) -> Glm:
        model = super()._model(family, schema)
        if self.target_mean is None:
            return model
        low, high = schema[TARGET].bounds or (-np.inf, np.inf)
        mean = self.target_mean
        if not (isinstance(mean, Real) and low <= mean <= high):
            raise NoisewiseError(
                f"target_mean must be a number within target_bounds, got {shown(mean)}"
            )
        if family in ("poisson", "gamma"):
            positive("target_mean", float(mean))
            return replace(model, centre=math.log(mean))
        return replace(model, centre=float(mean))

    def _keep_means(self) -> None:
        """Posterior means, in scikit-learn's shapes."""
        self.coef_ = self.coef_draws_.mean(0)
        self.intercept_ = float(self.intercept_draws_.mean())
