"""What DPVIm's studies share: their settings, and the optimum that private fits aim at.

The optimum is that of the ELBO with a diagonal Gaussian guide, without batch, draw, clip or noise.
Every expectation in its gradient is one-dimensional, for a record's predictor is Gaussian, so
Newton's method finds it to double precision.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from noisewise._validate import NoisewiseError
from noisewise.data import Rows
from noisewise.dpvi import Settings, Trace
from noisewise.models import Target
from noisewise.studies.core.study import Options
from noisewise.trials import Fit, Fitted, fit_table, noise_multipliers

RULES = ("vanilla", "preconditioned", "natural", "aligned", "aligned_natural")
RATE = 0.01
SLOPE = 0.05
"""A tail whose drift is below this has converged (DPVIm sec. 4.3)."""
_NODES = 24
_ROUNDS = 200
_TOLERANCE = 1e-6


def softplus(free: np.ndarray) -> np.ndarray:
    """Sds of a guide from its free parameters: log(1 + exp(free)), without overflow."""
    return np.logaddexp(0.0, free)


def fit_steps(epochs: float) -> int:
    """In so many epochs."""
    return round(epochs / RATE)


def rule_settings(
    rule: str, *, clip_norm: float, initial_sd: float, epochs: float, guide: str = "diagonal"
) -> Settings:
    """DPVIm App. F: Adam at 1e-3, sampling rate 0.01, one draw, the prior inside the clip."""
    return Settings(
        rule=rule,
        guide=guide,
        clip_norm=clip_norm,
        precondition="slope" if rule == "preconditioned" else 1.0,
        sampling_rate=RATE,
        steps=fit_steps(epochs),
        guide_draws=1,
        learning_rate=1e-3,
        initial_free_scale=float(initial_sd + np.log(-np.expm1(-initial_sd))),
        clip_prior=True,
        full_curvature=False,
        slope_threshold=SLOPE,
    )


Noise = dict[tuple[float, int], float]
"""Noise multipliers by epsilon and number of steps, which are all that they depend on."""


def budgets_noise(options: Options, rows: int) -> Noise:
    """Of every budget at the study's length, with delta 1/N."""
    wanted = [(epsilon, fit_steps(options.epochs)) for epsilon in options.epsilons]
    return noise_multipliers(RATE, wanted, delta=1 / rows)


def fit_budgets(
    target: Target,
    rows: Rows,
    settings: Settings,
    options: Options,
    noise: Noise,
    starts: np.ndarray,
) -> list[list[Trace]]:
    """Traces of private fits by budget, repeat by repeat, from initial means (repeats x dim)."""
    keys = jax.random.split(jax.random.PRNGKey(options.seed), options.fits)
    fits = [
        Fit(settings, noise[epsilon, settings.steps], key, start)
        for epsilon in options.epsilons
        for key, start in zip(keys, starts, strict=True)
    ]
    return by_repeats(fit_table(target, rows, fits), options.fits)


def by_repeats(found: Sequence[Fitted], repeats: int) -> list[list[Trace]]:
    """Traces of so many fits each."""
    traces = [fitted.trace for fitted in found]
    return [traces[first : first + repeats] for first in range(0, len(traces), repeats)]


class Optimum(NamedTuple):
    """Means and standard deviations of the guide."""

    mean: np.ndarray
    sd: np.ndarray


class Logistic(NamedTuple):
    """y ~ Bernoulli(sigmoid(X w)); expectations are by quadrature."""

    design: np.ndarray
    """Records x coefficients."""
    outcome: np.ndarray

    def start(self) -> np.ndarray:
        """No effects."""
        return np.zeros(self.design.shape[1])

    def expectations(self, at: Optimum) -> tuple[np.ndarray, np.ndarray]:
        """Per record, the outcome less its expectation, and the curvature by the predictor."""
        centre, spread = self.design @ at.mean, np.sqrt(self.design**2 @ at.sd**2)
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        expected, slope = np.zeros(len(centre)), np.zeros(len(centre))
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            probability = 0.5 * (1 + np.tanh(0.5 * (centre + node * spread)))
            expected += weight * probability
            slope += weight * probability * (1 - probability)
        return self.outcome - expected, slope

    def falls(self, at: Optimum, move: np.ndarray) -> bool:
        """Whether a move of the means is too far: never, for the curvature is bounded."""
        return False


class Cells(NamedTuple):
    """y ~ Poisson(exp(X w)) on categories, rows alike put together: sufficient for the regression.

    E[exp(x w)] of a Gaussian w is exp(x m + x^2 s^2 / 2). In the mixture the regression's
    likelihood has no parameter in common with the rest, so its optimum is its part of the
    mixture's, whatever the components do.
    """

    design: np.ndarray
    """Cells x coefficients."""
    rows: np.ndarray
    """How many records have these categories."""
    total: np.ndarray
    """The sum of their counts."""

    def start(self) -> np.ndarray:
        """The mean rate in the intercept, no effects."""
        mean = np.zeros(self.design.shape[1])
        mean[0] = np.log(max(self.total.sum(), 0.5) / self.rows.sum())
        return mean

    def _rates(self, at: Optimum) -> np.ndarray:
        """Expected counts of the cells."""
        return self.rows * np.exp(self.design @ at.mean + 0.5 * (self.design**2 @ at.sd**2))

    def expectations(self, at: Optimum) -> tuple[np.ndarray, np.ndarray]:
        """Per cell; a count's variance is its expectation."""
        rate = self._rates(at)
        return self.total - rate, rate

    def falls(self, at: Optimum, move: np.ndarray) -> bool:
        """Whether a move of the means is too far: the ELBO falls."""
        return self._elbo(Optimum(at.mean + move, at.sd)) < self._elbo(at)

    def _elbo(self, at: Optimum) -> float:
        with np.errstate(over="ignore"):
            rates = self._rates(at).sum()
        return float(self.total @ (self.design @ at.mean) - rates - 0.5 * at.mean @ at.mean)


def find_optimum(regression: Logistic | Cells) -> Optimum:
    """Maximise the ELBO of a regression, w ~ N(0, I), q(w) = N(mean, diag(sd^2)).

    Newton steps in the means, halved while the ELBO falls; the sds follow from the curvature,
    sd_j^-2 = 1 + sum_i x_ij^2 E[curvature], which is the stationarity of the ELBO in them.
    """
    wide = regression.design
    at = Optimum(regression.start(), np.full(wide.shape[1], 0.1))
    for _ in range(_ROUNDS):
        residual, curvature = regression.expectations(at)
        gradient = wide.T @ residual - at.mean
        sd = (1 + curvature @ wide**2) ** -0.5
        if np.abs(gradient).max() < _TOLERANCE and np.abs(sd / at.sd - 1).max() < _TOLERANCE:
            return at
        hessian = (wide * curvature[:, None]).T @ wide + np.eye(len(at.mean))
        move = np.linalg.solve(hessian, gradient)
        while regression.falls(at, move) and abs(move).max() > 1e-12:
            move = move / 2
        at = Optimum(at.mean + move, sd)
    raise NoisewiseError(
        f"the non-private optimum was not found in {_ROUNDS} rounds: the table may be degenerate"
    )


def elbo_gradient(regression: Logistic | Cells, at: Optimum) -> Optimum:
    """Gradient of the ELBO by means and sds: zero at the optimum."""
    residual, curvature = regression.expectations(at)
    wide = regression.design
    sd = 1 / at.sd - at.sd * (1 + curvature @ wide**2)
    return Optimum(wide.T @ residual - at.mean, sd)
