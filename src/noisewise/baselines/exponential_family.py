"""Noise-aware Gibbs sampling for exponential families: Bernstein and Sheldon (2018).

A noisy sum of sufficient statistics is released once. The sampler alternates between the true sum
given parameters and release, Gaussian by the central limit theorem, and the parameters given the
true sum, which is the conjugate update.

Three things differ from the authors' code (github.com/gbernstein6/private_bayesian_expfam):

- A clipped record. The released statistic r(x) and the sufficient statistic t(x) are jointly
  Gaussian in sum, with closed-form moments; the sum of t is drawn given the noisy sum of r. (They
  split the sum into the parts inside and outside the bounds, and treat those as independent.)
- A drawn sum outside its support. They truncate (a truncated normal for Beta-Bernoulli, rejection
  for the others, an error after 100 tries); here rejection for all, and a projection onto the
  support after `_TRIES`.
- Mixing. One sweep moves the parameters by about a non-private posterior sd, so where the noise is
  k times that, the chain needs some k^2 sweeps. A Metropolis step, with a proposal from the prior
  and the true sum integrated out, goes before each sweep (``collapsed``): accepted often exactly
  where the sweeps are slow.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from noisewise._validate import NoisewiseError, integer_at_least, positive

_TRIES = 20
_CANDIDATES = 2000
# Relative size below which a pivot of a covariance is rounding error of zero.
_NO_PIVOT = 1e-11


class RecordMoments(NamedTuple):
    """Mean (fits x 2k) and covariance (fits x 2k x 2k) of one record's (t, r) given parameters."""

    mean: np.ndarray
    covariance: np.ndarray


class ConjugateFamily(Protocol):
    """A likelihood with a conjugate prior, and the statistic of it that is released."""

    @property
    def sensitivity(self) -> float:
        """The largest L2 norm of a record's released statistic."""

    def statistics(self, x: Any) -> np.ndarray:
        """The statistics to release, rows x k, of values clipped to the declared bounds."""

    def moments(self, theta: np.ndarray) -> RecordMoments:
        """Moments of (t, r): the sufficient and the released statistic of a record."""

    def posterior_draw(self, totals: np.ndarray, rows: int, rng: Any) -> np.ndarray:
        """One conjugate draw (fits x parameters) per row of totals; zero rows give the prior."""

    def valid(self, totals: np.ndarray, rows: int) -> np.ndarray:
        """Which totals (fits x k) could be sums of ``rows`` sufficient statistics."""

    def project(self, totals: np.ndarray, rows: int) -> np.ndarray:
        """Totals moved onto the support."""


@dataclass(frozen=True, kw_only=True)
class GammaExponential:
    """M1: rate ~ Gamma(shape, rate), x ~ Exponential(rate); releases min(x, upper)."""

    shape: float = 8.0
    rate: float = 2.0
    upper: float

    def __post_init__(self) -> None:
        for name in ("shape", "rate", "upper"):
            positive(name, getattr(self, name), finite=True)

    @property
    def sensitivity(self) -> float:
        return float(self.upper)

    def statistics(self, x: Any) -> np.ndarray:
        return np.clip(np.asarray(x, float), 0.0, self.upper)[:, None]

    def moments(self, theta: np.ndarray) -> RecordMoments:
        rate = theta[:, 0]
        mean = 1 / rate
        beyond = np.exp(-rate * self.upper)
        mean_r = (1 - beyond) * mean
        square_r = 2 * mean * (mean - beyond * (self.upper + mean))
        # x r = r^2 + upper (x - upper)+, whose last factor has mean P(x > upper) / rate.
        product = square_r + self.upper * beyond * mean
        covariance = np.empty((len(rate), 2, 2))
        covariance[:, 0, 0] = mean**2
        covariance[:, 1, 1] = square_r - mean_r**2
        covariance[:, 0, 1] = covariance[:, 1, 0] = product - mean * mean_r
        return RecordMoments(np.stack([mean, mean_r], axis=1), covariance)

    def posterior_draw(self, totals: np.ndarray, rows: int, rng: Any) -> np.ndarray:
        return rng.standard_gamma(self.shape + rows, totals.shape) / (self.rate + totals)

    def valid(self, totals: np.ndarray, rows: int) -> np.ndarray:
        return totals[:, 0] > 0

    def project(self, totals: np.ndarray, rows: int) -> np.ndarray:
        return np.maximum(totals, 0.0)


@dataclass(frozen=True, kw_only=True)
class BetaBernoulli:
    """M2: probability ~ Beta(a, b), x ~ Bernoulli(probability)."""

    a: float = 10.0
    b: float = 10.0

    def __post_init__(self) -> None:
        positive("a", self.a, finite=True)
        positive("b", self.b, finite=True)

    @property
    def sensitivity(self) -> float:
        return 1.0

    def statistics(self, x: Any) -> np.ndarray:
        return np.clip(np.asarray(x, float), 0.0, 1.0)[:, None]

    def moments(self, theta: np.ndarray) -> RecordMoments:
        variance = theta[:, 0] * (1 - theta[:, 0])
        return _released_whole(theta, variance[:, None, None])

    def posterior_draw(self, totals: np.ndarray, rows: int, rng: Any) -> np.ndarray:
        return rng.beta(self.a + totals, self.b + rows - totals)

    def valid(self, totals: np.ndarray, rows: int) -> np.ndarray:
        return (totals[:, 0] >= 0) & (totals[:, 0] <= rows)

    def project(self, totals: np.ndarray, rows: int) -> np.ndarray:
        return np.clip(totals, 0.0, rows)


@dataclass(frozen=True, kw_only=True)
class DirichletCategorical:
    """M3: probabilities ~ Dirichlet(concentration), x ~ Categorical(probabilities), codes 0, 1, ...

    All counts are released. Their covariance is singular, and drawn counts sum to the rows exactly.
    """

    concentration: tuple[float, ...] = (5.0, 5.0, 5.0)

    def __post_init__(self) -> None:
        if len(self.concentration) < 2:
            raise NoisewiseError("concentration must have two entries at least")
        for value in self.concentration:
            positive("concentration", value, finite=True)

    @property
    def sensitivity(self) -> float:
        return 1.0

    def statistics(self, x: Any) -> np.ndarray:
        codes, kinds = np.asarray(x), len(self.concentration)
        if not np.all(np.isin(codes, np.arange(kinds))):
            raise NoisewiseError(f"x must hold codes 0 to {kinds - 1} only")
        return np.eye(kinds)[codes.astype(int)]

    def moments(self, theta: np.ndarray) -> RecordMoments:
        covariance = -theta[:, :, None] * theta[:, None, :]
        diagonal = np.arange(theta.shape[1])
        covariance[:, diagonal, diagonal] += theta
        return _released_whole(theta, covariance)

    def posterior_draw(self, totals: np.ndarray, rows: int, rng: Any) -> np.ndarray:
        weights = rng.standard_gamma(np.asarray(self.concentration) + totals)
        return weights / weights.sum(axis=1, keepdims=True)

    def valid(self, totals: np.ndarray, rows: int) -> np.ndarray:
        return np.all(totals >= 0, axis=1)

    def project(self, totals: np.ndarray, rows: int) -> np.ndarray:
        counts = np.maximum(totals, 0.0)
        return counts * (rows / counts.sum(axis=1, keepdims=True))


def exponential_family_posterior(
    family: ConjugateFamily,
    released: np.ndarray,
    rows: int,
    noise_sd: float,
    draws: int,
    rng: np.random.Generator,
    *,
    warmup: int = 200,
    collapsed: bool = True,
) -> np.ndarray:
    """Draws (fits x draws x parameters, constrained) from p(theta | released).

    Args:
        family: The model.
        released: Noisy sums of the family's statistics over the records (fits x k).
        rows: Number of records.
        noise_sd: Standard deviation of the noise on every coordinate.
        draws: Kept of every chain, one for each sweep.
        rng: The generator.
        warmup: Sweeps before the first that is kept.
        collapsed: False is the paper's sampler without the Metropolis step.

    >>> family = BetaBernoulli()
    >>> draws = exponential_family_posterior(
    ...     family, np.array([[300.0]]), 1000, 10.0, 500, np.random.default_rng(0))
    >>> draws.shape, round(float(draws.mean()), 1)
    ((1, 500, 1), 0.3)
    """
    integer_at_least("rows", rows, 1)
    integer_at_least("draws", draws, 1)
    integer_at_least("warmup", warmup, 0)
    positive("noise_sd", noise_sd, finite=True)
    released = np.asarray(released, float)
    if released.ndim != 2 or not np.all(np.isfinite(released)):
        raise NoisewiseError("released must be a finite array of fits x statistics")

    at = _Release(family, released, rows, noise_sd**2)
    theta = _start(at, rng)
    kept = []
    for sweep in range(warmup + draws):
        if collapsed:
            theta = _jump(at, theta, rng)
        theta = family.posterior_draw(_draw_totals(at, theta, rng), rows, rng)
        if sweep >= warmup:
            kept.append(theta)
    return np.stack(kept, axis=1)


class _Release(NamedTuple):
    """What was released of every fit, and the variance of the noise on it."""

    family: ConjugateFamily
    released: np.ndarray
    rows: int
    variance: float


def _released_whole(mean: np.ndarray, covariance: np.ndarray) -> RecordMoments:
    """Moments of (t, r) where r = t: nothing is clipped."""
    return RecordMoments(np.tile(mean, (1, 2)), np.tile(covariance, (1, 2, 2)))


def _start(at: _Release, rng: Any) -> np.ndarray:
    """Prior draws picked by their likelihood. (The authors start from any prior draw.)"""
    candidates = at.family.posterior_draw(np.zeros((_CANDIDATES, at.released.shape[1])), 0, rng)
    score = _release_density(at, candidates)
    # One fit at a time: fits x candidates need not fit in memory. Gumbel noise picks in proportion.
    best = [np.argmax(score(row) + rng.gumbel(size=_CANDIDATES)) for row in at.released]
    return candidates[best]


def _release_density(at: _Release, theta: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """log p(released | theta) with the true sum integrated out, as a function of the release."""
    k, rows = at.released.shape[1], at.rows
    moments = at.family.moments(theta)
    total = rows * moments.covariance[:, k:, k:] + at.variance * np.eye(k)
    factor = _semi_cholesky(total)
    log_volume = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)

    def log_density(released: np.ndarray) -> np.ndarray:
        whitened = _forward(factor, released - rows * moments.mean[:, k:])
        return -0.5 * np.sum(whitened**2, axis=1) - log_volume

    return log_density


def _jump(at: _Release, theta: np.ndarray, rng: Any) -> np.ndarray:
    """A Metropolis step from theta to a fresh prior draw: the prior cancels from the ratio."""
    proposal = at.family.posterior_draw(np.zeros(at.released.shape), 0, rng)
    density = _release_density(at, np.concatenate([theta, proposal]))
    now, then = np.split(density(np.tile(at.released, (2, 1))), 2)
    accepted = -rng.standard_exponential(len(theta)) < then - now
    return np.where(accepted[:, None], proposal, theta)


def _draw_totals(at: _Release, theta: np.ndarray, rng: Any) -> np.ndarray:
    """The sum of t given parameters and release."""
    family, rows = at.family, at.rows
    totals = _gaussian_totals(at, theta, rng)
    wrong = ~family.valid(totals, rows)
    for _ in range(_TRIES):
        if not wrong.any():
            return totals
        some = at._replace(released=at.released[wrong])
        totals[wrong] = _gaussian_totals(some, theta[wrong], rng)
        wrong = ~family.valid(totals, rows)
    return np.where(wrong[:, None], family.project(totals, rows), totals)


def _gaussian_totals(at: _Release, theta: np.ndarray, rng: Any) -> np.ndarray:
    """The same without regard to the support, by Matheron's rule.

    A draw of sums and noise from the model is moved by the regression on how much it misses the
    release: exact also where the covariance is singular.
    """
    family, released, rows, variance = at
    fits, k = released.shape
    moments = family.moments(theta)
    covariance = rows * moments.covariance
    normals = rng.standard_normal((fits, 2 * k, 1))
    sums = rows * moments.mean + (_semi_cholesky(covariance) @ normals)[:, :, 0]
    noises = np.sqrt(variance) * rng.standard_normal((fits, k))
    missing = released - sums[:, k:] - noises
    factor = _semi_cholesky(covariance[:, k:, k:] + variance * np.eye(k))
    weights = _backward(factor, _forward(factor, missing))
    return sums[:, :k] + (covariance[:, :k, k:] @ weights[:, :, None])[:, :, 0]


def _semi_cholesky(matrices: np.ndarray) -> np.ndarray:
    """Cholesky factors (fits x k x k) of positive semi-definite matrices: k is small, fits many."""
    rest = matrices.copy()
    factor = np.zeros_like(rest)
    floor = _NO_PIVOT * np.max(np.diagonal(rest, axis1=1, axis2=2), axis=1)
    for j in range(rest.shape[1]):
        pivot = rest[:, j, j]
        scale = np.where(pivot > floor, 1 / np.sqrt(np.maximum(pivot, 1e-300)), 0.0)
        column = rest[:, :, j] * scale[:, None]
        column[:, :j] = 0.0
        factor[:, :, j] = column
        rest -= column[:, :, None] * column[:, None, :]
    return factor


def _forward(factor: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve L x = b, vectorised over fits."""
    x = np.empty_like(right)
    for j in range(right.shape[1]):
        known = np.sum(factor[:, j, :j] * x[:, :j], axis=1)
        x[:, j] = (right[:, j] - known) / factor[:, j, j]
    return x


def _backward(factor: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve L' x = b, vectorised over fits."""
    x = np.empty_like(right)
    for j in reversed(range(right.shape[1])):
        known = np.sum(factor[:, j + 1 :, j] * x[:, j + 1 :], axis=1)
        x[:, j] = (right[:, j] - known) / factor[:, j, j]
    return x
