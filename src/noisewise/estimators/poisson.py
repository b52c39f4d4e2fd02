"""Private Poisson regression as a scikit-learn regressor."""

from typing import Any, Self

import numpy as np

from noisewise.data.errors import DataError
from noisewise.estimators.regressor import PrivateRegressor, log_mean, mean_of_log, target_column


class DPPoissonRegression(PrivateRegressor):
    """Poisson regression under differential privacy, with error bars that know the noise.

    The log of the rate is linear in the features. The target is counts, whole numbers from 0: for
    anything else, such as counts divided by an exposure, a Poisson model's error bars would be
    wrong. Parameters as for `DPLogisticRegression`, but for ``classes``, and with:

    Parameters
    ----------
    prior_scale : float or None
        Prior sd of the log rate at the middle of the features' bounds, and of its change over half
        a feature's bounds; None is 0.5.
    covariate_share : float or None
        Share of the budget that buys a noisy description of the features, as for `noisewise.fit`.
    target_bounds : (lo, hi)
        The least and the largest count, from outside knowledge. Required.
    target_mean : float or None
        A typical count, from outside knowledge: the prior of the log rate is around its log. None
        is 1.

    Attributes
    ----------
    coef_, intercept_ : ndarray of shape (n_features,) and float
        Posterior means, of the log rate, in the units of X.
    coef_draws_, intercept_draws_ : ndarrays of shape (draws, n_features) and (draws,)
        Posterior draws, in the units of X.
    privacy_, result_, status_, n_iter_
        As for `DPLogisticRegression`.

    Examples
    --------
    Visits a year, of which nobody has more than 50, by age and distance in km::

        model = DPPoissonRegression(bounds=[(18, 100), (0, 60)], target_bounds=(0, 50), clamp=True)
        model.fit(people[["age", "distance"]], people["visits"])
        np.exp(model.coef_interval())  # rate ratios for a year of age and for a km, with 95%
        model.predict_interval([[70, 5]])  # the rate of 70-year-olds at 5 km
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Spend the budget on a fit to the rows of X and their counts y.

        ``groups`` says whose each row is, where somebody may have up to ``max_rows``: who they are
        of is protected as a whole then, with all rows.
        """
        X, y = self._validated(X, y, y_numeric=True)
        target = target_column("count", self.target_bounds)
        if not np.all((y >= 0) & (y == np.rint(y))):
            raise DataError("y must be counts, whole numbers from 0: for others, a linear model")
        self._fit_private("poisson", X, target, y, groups=groups)
        self._keep_means()
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The posterior mean of the rate."""
        return mean_of_log(self._over_draws(X, log_mean))

    def predict_interval(self, X: Any, level: float = 0.95) -> np.ndarray:
        """Credible intervals of the rate, rows x (lower, upper)."""
        return mean_of_log(self._predictor_interval(X, level))
