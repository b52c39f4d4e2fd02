"""What the estimators share: one private fit, its draws in the data's units, predictions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from noisewise._validate import NoisewiseError, fraction
from noisewise.data import Column, Schema, Table
from noisewise.data.errors import DataError
from noisewise.estimators.declaring import (
    TARGET,
    Groups,
    feature_columns,
    groups_of,
    in_original_units,
)
from noisewise.estimators.pipelines import choosing_search, fitted_steps
from noisewise.fitting import fit
from noisewise.mechanism import Budget, Ledger
from noisewise.models import Glm, glm_for
from noisewise.posterior import Status
from noisewise.result import Result

_HARMLESS = (
    *(
        "X has ",
        "The feature names",
        "Feature names",
        "Input X contains",
        "Input y contains",
        "Input contains",
    ),
    *("Sparse data", "This ", "Unsupported sparse", "A sparse matrix", "Unknown label type"),
)
_IN_OUR_WORDS = {
    "could not convert": "X or y holds text that is not numbers: encode it first",
    "inconsistent numbers": "X and y are not equally long: every row needs a target value",
    "Expected 2D array": (
        "Expected 2D array as X, rows by features. Reshape your data: X.reshape(-1, 1) makes a "
        "table of a single feature"
    ),
    "Complex data": "Complex data not supported: X and y must be real numbers",
    "y should be a 1d array": "y should be a 1d array, with one target value a row",
    "feature(s)": "X holds 0 feature(s) (shape=(, 0)) while a minimum of 1 is required.",
    "sample(s)": "X has 1 sample or none: a private fit needs many rows",
}
_UNUSABLE = "X and y must be arrays of numbers: X rows by features, y one value a row"
_CHUNK_FLOATS = 2**22  # draws x rows held at a time when predicting: 32 MiB


class _Family:
    """An estimator and its copies, as cross-validation makes them: how many there are, and how
    often one of them was fitted without a ledger."""

    def __init__(self) -> None:
        self.copies = self.fits = 0


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(BaseEstimator):
    """One private fit of a table that is made from X and y: what all estimators share.

    What was done to X and y before is not accounted for: a scaler or an encoder in a pipeline that
    is fitted to the same rows gives their means, sds or categories away without noise. ``fit``
    warns of those that it can see, and its certificate says that the result is not private. Declare
    ``bounds`` instead, or use steps that learn nothing (``FunctionTransformer``, an encoder with
    ``categories`` declared).

    A dataclass writes the constructor that scikit-learn wants, a parameter an attribute.
    """

    epsilon: float = 1.0
    delta: float = 1e-6
    adjacency: str = "add-remove"
    bounds: Any = None
    clamp: bool = False
    rows: int | None = None
    draws: int = 2000
    insecure_seed: int | None = None
    ledger: Any = None

    def __sklearn_clone__(self) -> Any:
        """A copy that counts with this estimator's other copies."""
        copy = super().__sklearn_clone__()
        family = self.__dict__.setdefault("_family", _Family())
        family.copies += 1
        copy._family, copy._number = family, family.copies
        return copy

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.insecure_seed is None
        return tags

    def _validated(self, X: Any, y: Any, **checks: Any) -> tuple[np.ndarray, np.ndarray]:
        """X and y by scikit-learn's rules; also sets `n_features_in_` and `feature_names_in_`."""
        with _quoting_nothing():
            return validate_data(self, X, y, ensure_min_samples=2, **checks)

    def _fit_result(
        self,
        model: Callable[[Schema], Any],
        X: np.ndarray,
        target: Column,
        y: np.ndarray,
        sources: dict[str, str] | None = None,
        not_private_because: tuple[str, ...] = (),
        groups: Groups | None = None,
        **options: Any,
    ) -> Result:
        """One private fit; ``sources`` is what its certificate should say besides, and
        ``not_private_because`` what voids it.

        Only public quantities and what `fit` released are kept: never a row.
        """
        names = getattr(self, "feature_names_in_", None)
        columns = feature_columns(self.bounds, names, X.shape[1])
        data = {column.name: X[:, i] for i, column in enumerate(columns)}
        schema = Schema((*columns, target), rows=self.rows)
        if groups is not None:
            schema = Schema((*columns, target), unit=groups.unit)
            data[groups.unit.column] = groups.identifiers
        # Constant features pass: that one is constant is not public, and scikit-learn's users
        # expect a fit on whatever columns the steps before in a pipeline leave.
        table = Table(data | {target.name: y}, schema, clamp=self.clamp, allow_constant=True)
        steps = fitted_steps(self)
        if steps:
            why = f"{', '.join(steps)} before it learned from the same rows without noise"
            not_private_because += (why,)
        self._refuse_what_no_ledger_accounts_for(not_private_because)
        search = choosing_search()
        if search is not None:
            chose = f"{search} chose its parameters by scores of the same rows without noise"
            not_private_because += (chose,)
        before = self._fits_before()
        result = fit(
            model(schema),
            table,
            budget=Budget(epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency),
            target=TARGET,
            draws=self.draws,
            insecure_seed=self.insecure_seed,
            ledger=self.ledger,
            **options,
        )
        self._family.fits += self.ledger is None
        for reason in not_private_because:
            warnings.warn(
                f"this fit is NOT PRIVATE: {reason}; declare bounds, categories and classes, and "
                "choose by noisewise.plan, which reads no row",
                stacklevel=4,
            )
        certificate = replace(
            result.privacy,
            sources=result.privacy.sources | (sources or {}) | before,
            not_private_because=(*result.privacy.not_private_because, *not_private_because),
        )
        self.result_ = replace(result, privacy=certificate)
        self.privacy_ = certificate
        self.status_ = result.status
        self.n_iter_ = result.request.settings.steps
        if result.status is not Status.OK:
            warnings.warn(result.status.words, ConvergenceWarning, stacklevel=4)
        return self.result_

    def _refuse_what_no_ledger_accounts_for(self, reasons: tuple[str, ...]) -> None:
        """A ledger says what all releases cost together, and these have no cost that it could add
        up; as with a known seed, only a rehearsal takes them."""
        if self.ledger is None or not reasons or Ledger.of(self.ledger).account().rehearsal:
            return
        raise NoisewiseError(
            f"the fit would not be private ({'; '.join(reasons)}), which no ledger can account "
            "for: declare bounds, categories and classes instead, or leave ledger out"
        )

    def _fits_before(self) -> dict[str, str]:
        """What the certificate says of earlier fits that no ledger has, and a warning before the
        next one is made.

        Other processes fit copies that this one does not hear of, but their numbers tell: the first
        copy of a search is never fitted itself.
        """
        family = self.__dict__.setdefault("_family", _Family())
        before = max(family.fits, getattr(self, "_number", 0) - 2)
        if self.ledger is not None or not before:
            return {}
        said = (
            f"{before} before this one, by the same estimator or its copies, without a ledger: if "
            "they were of the same people, what each spent adds up"
        )
        warnings.warn(f"other fits: {said}; pass ledger= to account for all of them", stacklevel=5)
        return {"other fits": said}

    def _new_rows(self, X: Any) -> np.ndarray:
        """Rows to predict for."""
        check_is_fitted(self, "result_")
        with _quoting_nothing():
            X = validate_data(self, X, reset=False, dtype=np.float64)
        if not self.clamp:
            return X
        declared = self.result_.request.schema
        pairs = [column.bounds for column in declared if column.name != TARGET]
        return np.clip(X, *np.array(pairs).T)


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateGlm(PrivateEstimator):
    """A generalised linear model fitted under differential privacy: the estimators' base."""

    prior_scale: float | None = None
    covariate_share: float | None = None
    steps: int | None = None
    max_rows: int | None = None

    def _fit_private(
        self,
        family: str,
        X: np.ndarray,
        target: Column,
        y: np.ndarray,
        sources: dict[str, str] | None = None,
        not_private_because: tuple[str, ...] = (),
        *,
        groups: Any = None,
    ) -> None:
        """One private fit, and its draws in the units of X."""
        result = self._fit_result(
            lambda schema: self._model(family, schema),
            X,
            target,
            y,
            sources,
            not_private_because,
            groups=groups_of(groups, self.max_rows, self.rows),
            steps=self.steps,
            covariate_share=self.covariate_share,
        )
        units = in_original_units(result.draws["coefficients"], result.request.encoding)
        self.intercept_draws_, self.coef_draws_ = units

    def _model(self, family: str, schema: Schema) -> Glm:
        """The regression with its priors as the target was declared, or as requested."""
        return glm_for(family, schema[TARGET], self.prior_scale)

    def coef_interval(self, level: float = 0.95) -> np.ndarray:
        """Central credible intervals of the coefficients, features x (lower, upper)."""
        check_is_fitted(self, "coef_")
        return np.quantile(self.coef_draws_, tails(level), axis=0).T

    def _over_draws(self, X: Any, reduce: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """``reduce`` of the linear predictors (rows x draws), a bounded number of rows at a time.

        New rows are treated as the fit's: with ``clamp=True``, moved to the bounds.
        """
        X = self._new_rows(X)
        size = max(1, _CHUNK_FLOATS // len(self.intercept_draws_))
        parts = [
            reduce(X[first : first + size] @ self.coef_draws_.T + self.intercept_draws_)
            for first in range(0, len(X), size)
        ]
        return np.concatenate(parts)

    def _predictor_interval(
        self, X: Any, level: float, residuals: np.ndarray | float = 0.0
    ) -> np.ndarray:
        """Central intervals of the linear predictors plus residuals, rows x (lower, upper)."""
        ends = tails(level)
        return self._over_draws(
            X, lambda predictor: np.quantile(predictor + residuals, ends, axis=1).T
        )


def tails(level: float) -> list[float]:
    """The two probabilities that a central interval lies between."""
    fraction("level", level)
    return [(1 - level) / 2, (1 + level) / 2]


@contextmanager
def _quoting_nothing() -> Iterator[None]:
    """Only those messages of scikit-learn and NumPy pass that quote no cell and count no rows."""
    try:
        yield
    except ValueError as error:
        text = str(error)
        if text.startswith(_HARMLESS):
            raise DataError(text.splitlines()[0]) from None
        words = (words for part, words in _IN_OUR_WORDS.items() if part in text)
        raise DataError(next(words, _UNUSABLE)) from None
