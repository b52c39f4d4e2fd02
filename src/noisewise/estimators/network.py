"""A private Bayesian neural network as a scikit-learn regressor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from noisewise._validate import NoisewiseError, integer_at_least
from noisewise.dpsep import EPOCH_STEPS
from noisewise.estimators.base import PrivateEstimator, tails
from noisewise.estimators.regressor import residuals, target_column
from noisewise.models import Network
from noisewise.result import network_outputs


@dataclass(kw_only=True, eq=False, repr=False)
class DPBayesianNeuralNetwork(RegressorMixin, PrivateEstimator):
    """A one-hidden-layer Bayesian neural network under differential privacy, fitted by DP-SEP.

    For regressions that are not linear. Its inputs are whitened, and its target standardised where
    no ``target_mean`` and ``target_sd`` are given, by small releases from the same budget. Needs
    thousands of rows at epsilon 1; with fewer, `DPLinearRegression` predicts better.

    Parameters
    ----------
    epsilon, delta, adjacency, bounds, clamp, rows, draws, insecure_seed, ledger
        As for `DPLogisticRegression`.
    hidden : int
        Number of ReLU units.
    epochs : int
        Passes over the table, by expectation: steps take batches of an eighth.
    target_bounds : (lo, hi)
        Bounds of y, from outside knowledge. Required.
    target_mean, target_sd : float or None
        Mean and sd of y, both from outside knowledge: then they need not be bought.

    Attributes
    ----------
    noise_draws_ : ndarray of shape (draws,)
        Posterior draws of the residual sd, in the units of y.
    privacy_, result_, status_, n_iter_
        As for `DPLogisticRegression`.

    Examples
    --------
    Blood pressure by age and weight, not only along straight lines::

        model = DPBayesianNeuralNetwork(
            epsilon=1.0, bounds=[(18, 100), (30, 200)], target_bounds=(60, 240), clamp=True
        )
        model.fit(people[["age", "weight"]], people["pressure"])
        mean, sd = model.predict([[50, 80]], return_std=True)
        model.predict_interval([[50, 80]], level=0.9, noise=True)
    """

    hidden: int = 50
    epochs: int = 100
    draws: int = 500
    target_bounds: Any = None
    target_mean: float | None = None
    target_sd: float | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # On the few dozen rows that scores are tested with, privacy noise outweighs the signal.
        tags.regressor_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Spend the budget on a fit to the rows of X and their targets y."""
        integer_at_least("epochs", self.epochs, 2)
        if (self.target_mean is None) != (self.target_sd is None):
            raise NoisewiseError("target_mean and target_sd go together: give both, or neither")
        model = Network(self.hidden)
        X, y = self._validated(X, y, y_numeric=True)
        target = target_column("real", self.target_bounds, self.target_mean, self.target_sd)
        steps = self.epochs * EPOCH_STEPS
        self._fit_result(lambda schema: model, X, target, y, method="dp-sep", steps=steps)
        self.noise_draws_ = np.asarray(self.result_.draws["noise"], np.float64)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The posterior mean of the target; with ``return_std`` also the sd of a new target."""
        parts = [(said.mean(1), said.var(1)) for said in self._outputs(X)]
        mean, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
        if not return_std:
            return mean
        return mean, np.sqrt(variance + np.mean(self.noise_draws_**2))

    def predict_interval(self, X: Any, level: float = 0.95, *, noise: bool = False) -> np.ndarray:
        """Credible intervals of the target's mean, rows x (lower, upper).

        ``noise=True`` gives predictive intervals instead: where a new target would lie.
        """
        ends = tails(level)
        target_noise = residuals(self.noise_draws_) if noise else 0.0
        parts = [np.quantile(said + target_noise, ends, axis=1).T for said in self._outputs(X)]
        return np.concatenate(parts)

    def _outputs(self, X: Any) -> Any:
        rows = self._new_rows(X)
        encoding = self.result_.request.encoding[1:]
        centre, scale = (np.array([c[name] for c in encoding]) for name in ("centre", "scale"))
        return network_outputs(self.result_, (rows - centre) / scale)
