"""Private Gamma regression as a scikit-learn regressor."""

from typing import Any, Self

import numpy as np

from noisewise._validate import NoisewiseError, shown
from noisewise.data.errors import DataError
from noisewise.estimators.regressor import PrivateRegressor, log_mean, mean_of_log, target_column


class DPGammaRegression(PrivateRegressor):
    """Gamma regression under differential privacy, with error bars that know the noise.

    For positive numbers whose sd grows with their mean, such as costs, amounts and durations that
    are all observed. The log of the mean is linear in the features, as in scikit-learn's
    ``GammaRegressor``, and the shape is inferred. Parameters as for `DPLogisticRegression`, but for
    ``classes``, and with:

    Parameters
    ----------
    prior_scale : float or None
        Prior sd of the log mean's change over half a feature's bounds; None is 0.5.
    covariate_share : float or None
        Share of the budget that buys a noisy description of the features, as for `noisewise.fit`.
    target_bounds : (lo, hi)
        The least and the largest value, from outside knowledge; the least must be above 0.
        Required.
    target_mean : float or None
        A typical value, from outside knowledge, around which the prior of the mean is; None is the
        geometric middle of ``target_bounds``.

    Attributes
    ----------
    coef_, intercept_ : ndarray of shape (n_features,) and float
        Posterior means, of the log mean, in the units of X.
    coef_draws_, intercept_draws_, shape_draws_ : ndarrays
        Posterior draws of the coefficients (draws x features) and the intercept, in the units of X,
        and of the shape: the mean over the sd, squared.
    privacy_, result_, status_, n_iter_
        As for `DPLogisticRegression`.

    Examples
    --------
    What a year of care costs, of which nobody's is below 1 or above 100,000, by age and sex::

        model = DPGammaRegression(
            bounds=[(18, 100), (0, 1)], target_bounds=(1, 100_000), target_mean=3_000, clamp=True
        )
        model.fit(people[["age", "female"]], people["cost"])
        np.exp(model.coef_interval())  # ratios of means for a year of age and for women, with 95%
        model.predict_interval([[70, 1]])  # the mean cost of women of 70
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Spend the budget on a fit to the rows of X and their positive targets y.

        ``groups`` says whose each row is, where somebody may have up to ``max_rows``.
        """
        X, y = self._validated(X, y, y_numeric=True)
        target = target_column("real", self.target_bounds)
        if not (target.bounds or (0.0, 0.0))[0] > 0:
            raise NoisewiseError(
                "target_bounds must begin above 0, as a Gamma's values do, got "
                f"{shown(self.target_bounds)}: give the least value that is recorded, and "
                "clamp=True where some lie below"
            )
        if not np.all(y > 0):
            raise DataError("y must be above 0: for others, a linear model")
        self._fit_private("gamma", X, target, y, groups=groups)
        self.shape_draws_ = np.asarray(self.result_.draws["shape"], np.float64)
        self._keep_means()
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The posterior mean of the target's mean."""
        return mean_of_log(self._over_draws(X, log_mean))

    def predict_interval(self, X: Any, level: float = 0.95) -> np.ndarray:
        """Credible intervals of the target's mean, rows x (lower, upper)."""
        return mean_of_log(self._predictor_interval(X, level))
