"""Private linear regression as a scikit-learn regressor."""

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from noisewise.estimators.regressor import PrivateRegressor, residuals, target_column


class DPLinearRegression(PrivateRegressor):
    """Linear regression under differential privacy, with error bars that know the noise.

    The prior of the intercept, at the middle of the features' bounds, is around the middle of
    ``target_bounds``; that of the residual sd is around 0.7 times a quarter of their range, within
    a factor of e. Parameters as for `DPLogisticRegression`, but for ``classes``, and with:

    Parameters
    ----------
    prior_scale : float or None
        Prior sd of the intercept, and of every coefficient for a change of half its feature's
        bounds, in the units of y; None is a quarter of the range of ``target_bounds``.
    covariate_share : float or None
        Share of the budget that buys a noisy description of the features, as for `noisewise.fit`.
    target_bounds : (lo, hi)
        Bounds of y, from outside knowledge. Required.
    target_mean : float or None
        A typical value of y, from outside knowledge, around which the intercept's prior is; None is
        the middle of ``target_bounds``.

    Attributes
    ----------
    coef_, intercept_ : ndarray of shape (n_features,) and float
        Posterior means, in the units of X and y.
    coef_draws_, intercept_draws_, noise_draws_ : ndarrays
        Posterior draws of the coefficients (draws x features), the intercept and the residual sd,
        in the units of X and y.
    privacy_, result_, status_, n_iter_
        As for `DPLogisticRegression`.

    Examples
    --------
    Blood pressure by age and weight, whose ranges are common knowledge::

        model = DPLinearRegression(
            epsilon=1.0, bounds=[(18, 100), (30, 200)], target_bounds=(60, 240), clamp=True
        )
        model.fit(people[["age", "weight"]], people["pressure"])
        model.coef_, model.coef_interval(0.95)  # mmHg for a year, for a kg
        model.predict_interval([[50, 80]], noise=True)  # where a new person's would lie
    """

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Spend the budget on a fit to the rows of X and their targets y.

        ``groups`` says whose each row is, where somebody may have up to ``max_rows``: who they are
        of is protected as a whole then, with all rows.
        """
        X, y = self._validated(X, y, y_numeric=True)
        target = target_column("real", self.target_bounds)
        self._fit_private("linear", X, target, y, groups=groups)
        self.noise_draws_ = np.asarray(self.result_.draws["noise"], np.float64)
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
        return self._predictor_interval(X, level, residuals(self.noise_draws_) if noise else 0.0)
