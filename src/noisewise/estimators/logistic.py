"""Private logistic regression as a scikit-learn classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from noisewise._validate import NoisewiseError, shown
from noisewise.data import Column
from noisewise.data.errors import DataError
from noisewise.estimators.base import PrivateGlm
from noisewise.estimators.declaring import TARGET


@dataclass(kw_only=True, eq=False, repr=False)
class DPLogisticRegression(ClassifierMixin, PrivateGlm):
    """Binary logistic regression under differential privacy, with error bars that know the noise.

    Sample weights are not supported: they would let one record count for many. A scaler before it
    in a pipeline, fitted to the same rows, gives their means and sds away without noise: declare
    ``bounds`` instead. ``fit`` warns of it, and the certificate then says NOT PRIVATE.

    Parameters
    ----------
    epsilon, delta : float
        The privacy budget of one fit. A second fit on the same people, for instance in
        cross-validation or a grid search, spends it again: pass a ``ledger``.
    adjacency : {"add-remove", "replace-one"}
        What one person's data means; see `noisewise.Budget`.
    bounds : (lo, hi) or list of (lo, hi)
        Bounds of all features, or of each, from outside knowledge. Required.
    clamp : bool
        Move values outside the bounds to the nearer bound, also when predicting, instead of
        refusing them.
    prior_scale : float or None
        Prior sd of the intercept, and of every coefficient for a change of half its feature's
        bounds; the intercept is that at the middle of the bounds. None is 1.
    covariate_share : float or None
        Share of the budget that buys a noisy description of the features, as for `noisewise.fit`.
    steps : int or None
        Gradient steps; None is the plan's default.
    max_rows : int or None
        The most rows that one of the ``groups`` of `fit` may have; ``rows`` then is the number of
        groups.
    rows : int or None
        The number of rows, if it is public; None has it noised, for about a hundredth of the
        budget.
    draws : int
        Posterior draws.
    insecure_seed : int or None
        Makes the fit repeatable and **not private**: for tests only.
    ledger : noisewise.Ledger or path or None
        The table's ledger: what every fit spends is written there before it is released, fits of
        copies included, and one that would pass its total is refused.
    classes : sequence of two labels or None
        The label set, from outside knowledge. With None the labels are read from y without noise,
        and the certificate says that the result is **not private**.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels, sorted.
    coef_, intercept_ : ndarrays of shape (1, n_features) and (1,)
        Posterior means, in the units of X.
    coef_draws_, intercept_draws_ : ndarrays of shape (draws, n_features) and (draws,)
        Posterior draws, in the units of X.
    privacy_ : noisewise.Certificate
        What was spent, on what.
    result_ : noisewise.Result
        The whole result, which can be saved and reported.
    status_ : noisewise.Status
        Whether the fit settled.
    n_iter_ : int
        Gradient steps taken.

    Examples
    --------
    Illness by age and sex (0 or 1), with bounds from common knowledge::

        model = DPLogisticRegression(epsilon=1.0, bounds=[(0, 110), (0, 1)], classes=["no", "yes"])
        model.fit(people[["age", "female"]], people["ill"])
        print(model.privacy_)  # what it cost
        model.coef_, model.coef_interval(0.95)  # log odds for a year, and for women
        model.predict_interval([[70, 1]])  # the probability that women of 70 are ill
    """

    classes: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        # On the few dozen rows that scores are tested with, privacy noise outweighs the signal.
        tags.classifier_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Spend the budget on a fit to the rows of X and their labels y.

        ``groups`` says whose each row is, where somebody may have up to ``max_rows``: who they are
        of is protected as a whole then, with all rows.
        """
        X, y = self._validated(X, y)
        labels = self._labels(y)
        second = y == labels[1]
        if not np.all(second | (y == labels[0])):
            raise DataError("y has labels that are not among the declared classes: declare both")
        found = self.classes is None
        source = "the labels found in y" if found else "declared by classes"
        because = ("its labels were read from y without noise: declare classes",) if found else ()
        target = Column(name=TARGET, kind="binary")
        sources = {"label set": source}
        self._fit_private("logistic", X, target, second, sources, because, groups=groups)
        self.classes_ = labels
        self.coef_ = self.coef_draws_.mean(0, keepdims=True)
        self.intercept_ = self.intercept_draws_.mean(keepdims=True)
        return self

    def _labels(self, y: np.ndarray) -> np.ndarray:
        """The two labels, declared or found."""
        if self.classes is not None:
            declared = np.unique(np.asarray(self.classes))
            if len(declared) != 2:
                raise NoisewiseError(f"classes must be two labels, got {shown(self.classes)}")
            return declared
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind != "binary":
            raise DataError(
                f"Only binary classification is supported. The type of the target is {kind}."
            )
        found = np.unique(y)
        if len(found) != 2:
            raise DataError("y holds one class only: declare both labels with classes=")
        return found

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class, averaged over the posterior; rows x classes."""
        second = self._over_draws(X, lambda predictor: expit(predictor).mean(1))
        return np.column_stack([1 - second, second])

    def predict(self, X: Any) -> np.ndarray:
        """The label with the larger posterior mean probability."""
        likely = self.predict_proba(X).argmax(1)
        return self.classes_[likely]

    def predict_interval(self, X: Any, level: float = 0.95) -> np.ndarray:
        """Credible intervals of the second class's probability, rows x (lower, upper)."""
        return expit(self._predictor_interval(X, level))
