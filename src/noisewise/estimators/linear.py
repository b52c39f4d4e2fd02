"""Private linear regression as a scikit-learn regressor."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from noisewise.data import Column
from noisewise.estimators.declaring import TARGET, checked_target
from noisewise.estimators.regressor import PrivateRegressor
from noisewise.models import Glm

__all__ = ["DPLinearRegression"]

_NOISE_SCALE = 0.3
"""Prior median of the residual sd, in halves of the target's bounds; within a factor of 7."""


class DPLinearRegression(PrivateRegressor):
    """Linear regression under differential privacy, with error bars that know the noise.

    The target is scaled to [-1, 1] by its declared bounds for the fit, and everything is mapped
    back afterwards. Parameters as for `DPLogisticRegression`, but for ``classes``, and with:

    Parameters
    ----------
    prior_scale : float
        Prior sd of the intercept and of every coefficient, in halves of the target's bounds for a
        change of half its feature's bounds.
    target_bounds : (lo, hi)
        Bounds of y, from outside knowledge. Required.

    Attributes
    ----------
    coef_, intercept_ : ndarray of shape (n_features,) and float
        Posterior means, in the units of X and y.
    coef_draws_, intercept_draws_, noise_draws_ : ndarrays
        Posterior draws of the coefficients (draws x features), the intercept and the residual sd,
        in the units of X and y. The draws in ``result_`` are on the scaled target.
    privacy_, result_, status_, n_iter_
        As for `DPLogisticRegression`.

    Examples
    --------
    >>> DPLinearRegression(bounds=(0, 100), target_bounds=(0, 250))
    DPLinearRegression(bounds=(0, 100), target_bounds=(0, 250))
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Spend the budget on a fit to the rows of X and their targets y."""
        X, y = self._validated(X, y, y_numeric=True)
        declared = self._target_column("real")
        assert declared.bounds is not None
        lo, hi = declared.bounds
        middle, half = lo + (hi - lo) / 2, (hi - lo) / 2
        scaled = (checked_target(declared, y, clamp=self.clamp) - middle) / half
        model = Glm("linear", self.prior_scale, _NOISE_SCALE)
        # Rounding may put an end of the bounds a bit outside [-1, 1].
        target = Column(name=TARGET, kind="real", bounds=(-1, 1))
        source = f"declared by target_bounds ({lo:g}, {hi:g}) and scaled to [-1, 1]"
        self._fit_private(model, X, target, np.clip(scaled, -1, 1), {"target": source})
        self.coef_draws_ = half * self.coef_draws_
        self.intercept_draws_ = middle + half * self.intercept_draws_
        self.noise_draws_ = half * np.asarray(self.result_.draws["noise"], np.float64)
        self._keep_means()
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The posterior mean of the target."""
        return self._new_rows(X) @ self.coef_ + self.intercept_

    def predict_interval(self, X: Any, level: float = 0.95, *, noise: bool = False) -> np.ndarray:
        """Credible intervals of the target's mean, rows x (lower, upper).

        ``noise=True`` gives predictive intervals instead: where a new target would lie.
        """
        check_is_fitted(self, "coef_")
        return self._predictor_interval(X, level, self._residuals() if noise else 0.0)

    def _residuals(self) -> np.ndarray:
        """One residual a draw: evenly spread normal quantiles in a fixed, arbitrary order."""
        count = len(self.noise_draws_)
        order = np.random.default_rng(0).permutation(count)
        return self.noise_draws_ * ndtri((order + 0.5) / count)
