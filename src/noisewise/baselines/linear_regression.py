"""Noise-aware Gibbs sampling for Bayesian linear regression: Bernstein and Sheldon (2019).

Released once, with noise: the sums of x x', x y and y^2. The sampler alternates between the true
sums given weights, variance and release, Gaussian by the central limit theorem, and weights and
variance given the true sums, a conjugate normal-inverse-gamma update. The covariance of the sums
needs the second and fourth moments of x (``XMoments``), which the model does not give.

Where this follows the authors' code (github.com/gbernstein6/private_bayesian_regression) of
Gibbs-SS-Noisy, and where not:

- Moments of x. They spend half of epsilon on a noisy release of the fourth moments. Here the
  release is of the sums alone: ``"noisy"`` takes the second moments from the noisy x x', projected,
  and the fourth from them as if x were Gaussian (Isserlis); or the caller knows the moments.
- Sums that no data set has. Like there, the matrix of all products of (x, y) is
  projected onto the positive semi-definite ones (negative eigenvalues become zero). The scale
  in the variance's update is then never below its prior's, so their redraws of small ones are not
  needed.
- Clipping. Like theirs, the sampler takes the sums for those of unclipped records: bounds must
  be wide enough.
- Mixing. A sweep moves the weights by about a non-private posterior sd, which is a hundredth of the
  posterior's where the noise is large: the plain sampler then stays where it starts. So Metropolis
  steps for weights and variance, with the true sums integrated out, go before each sweep
  (``collapsed``).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from noisewise._validate import NoisewiseError, integer_at_least, positive
from noisewise.baselines.regression_moments import XMoments, noisy_moments, released_pairs
from noisewise.baselines.regression_sampler import Fit, run_chains

_GROUP = {"cpu": 64, "gpu": 512}
"""Fits in one compiled call: some 100 kB each at 11 weights, plus their draws."""


@dataclass(frozen=True, kw_only=True)
class RegressionPrior:
    """variance ~ InvGamma(shape, scale), weights ~ N(mean, variance precision^-1).

    a_0, b_0, mu_0 and Lambda_0 in the paper. The last weight is the intercept's.
    """

    mean: np.ndarray
    precision: np.ndarray
    shape: float
    scale: float

    @classmethod
    def standard(
        cls, weights: int, *, shape: float = 20.0, scale: float = 0.5, precision: float = 0.25
    ) -> RegressionPrior:
        """Independent weights around zero; by default NA-DPVI eq. 28."""
        return cls(
            mean=np.zeros(weights),
            precision=positive("precision", precision) * np.eye(weights),
            shape=positive("shape", shape),
            scale=positive("scale", scale),
        )


def linear_regression_posterior(
    released: np.ndarray,
    rows: int,
    noise_sd: float,
    prior: RegressionPrior,
    draws: int,
    rng: np.random.Generator,
    *,
    warmup: int = 500,
    moments: XMoments | str = "noisy",
    thin: int = 1,
    collapsed: bool = True,
) -> np.ndarray:
    """Draws (fits x draws x (1 + d)) of variance and weights given noisy sums.

    Args:
        released: Noisy sums of `regression_statistics` over the records (fits x k).
        rows: Number of records.
        noise_sd: Of the Gaussian noise on each sum.
        prior: Of variance and weights.
        draws: Kept of every chain, one for each sweep, or one for each ``thin`` of them.
        rng: The generator.
        warmup: Sweeps before the first that is kept.
        moments: Of x: ``"noisy"``, or an `XMoments` known to the caller.
        thin: Sweeps for each that is kept.
        collapsed: False is the paper's sampler without the Metropolis steps.
    """
    integer_at_least("rows", rows, 1)
    integer_at_least("draws", draws, 1)
    integer_at_least("warmup", warmup, 0)
    integer_at_least("thin", thin, 1)
    positive("noise_sd", noise_sd, finite=True)
    if isinstance(moments, str) and moments != "noisy":
        raise NoisewiseError(f"moments must be 'noisy' or an XMoments, got {moments!r}")
    dim = len(prior.mean)
    fits = [
        _constants(one, rows, noise_sd, prior, moments if isinstance(moments, XMoments) else None)
        for one in _checked(released, dim)
    ]
    groups = -(-len(fits) // _GROUP["cpu" if jax.default_backend() == "cpu" else "gpu"])
    size = -(-len(fits) // max(groups, 1))
    out = []
    # Sums of squares of thousands of records less their fit: single precision would not do.
    with jax.enable_x64(True):
        for start in range(0, len(fits), size):
            # Filled up with copies of its last fit, every group runs the same compiled program.
            group = fits[start : start + size]
            padded = group + group[-1:] * (size - len(group))
            stacked = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *padded)
            keys = jax.random.split(jax.random.PRNGKey(int(rng.integers(2**31))), size)
            chains = run_chains(keys, stacked, draws, warmup, thin, collapsed)
            out.append(np.asarray(chains)[: len(group)])
    return np.concatenate(out) if out else np.empty((0, draws, 1 + dim))


def _checked(released: np.ndarray, dim: int) -> np.ndarray:
    """The released sums as fits x k, if that is what they are."""
    released = np.asarray(released, float)
    statistics = dim * (dim + 3) // 2
    if released.ndim != 2 or released.shape[1] != statistics or not np.isfinite(released).all():
        raise NoisewiseError(
            f"released must be a finite array of fits x {statistics} sums for {dim} weights, "
            f"got shape {released.shape}"
        )
    return released


def _constants(
    released: np.ndarray,
    rows: int,
    noise_sd: float,
    prior: RegressionPrior,
    moments: XMoments | None,
) -> Fit:
    """All that the sweeps of one fit need and do not change."""
    dim = len(prior.mean)
    first, second_index = released_pairs(dim)
    second, fourth = noisy_moments(released, rows, dim) if moments is None else moments
    pairs = second[first, second_index]
    products = fourth[first, second_index][:, first, second_index] - np.outer(pairs, pairs)
    variance = noise_sd**2
    values, vectors = np.linalg.eigh(products)
    values = np.maximum(values, 0.0)

    def function(of_values: np.ndarray) -> np.ndarray:
        return (vectors * of_values) @ vectors.T

    centre, covariance = _near_posterior(released[len(first) : -1], rows, variance, prior, second)
    second_values, second_vectors = np.linalg.eigh(second)
    return Fit(
        released=released,
        rows=float(rows),
        noise_variance=variance,
        second=second,
        root_second=second_vectors * np.sqrt(np.maximum(second_values, 0.0)),
        expected_products=rows * pairs,
        products=function(values),
        root_products=vectors * np.sqrt(values),
        precision=function(1 / (rows * values + variance)),
        regression=function(rows * values / (rows * values + variance)),
        proposal_mean=centre,
        proposal_root=np.linalg.cholesky(covariance),
        prior_mean=np.asarray(prior.mean, float),
        prior_precision=np.asarray(prior.precision, float),
        prior_shape=float(prior.shape),
        prior_scale=float(prior.scale),
    )


def _near_posterior(
    sums_xy: np.ndarray,
    rows: int,
    noise_variance: float,
    prior: RegressionPrior,
    second: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of a Gaussian near the weights' posterior, from the sums of x y alone."""
    usual = prior.scale / (prior.shape - 1) if prior.shape > 1 else prior.scale
    size = usual * (1 + np.trace(second @ np.linalg.inv(prior.precision)))
    size += prior.mean @ second @ prior.mean
    spread = noise_variance * np.eye(len(second)) + rows * size * second
    slope = rows * np.linalg.solve(spread, second).T
    precision = rows * slope @ second + prior.precision / usual
    covariance = np.linalg.inv((precision + precision.T) / 2)
    return covariance @ (slope @ sums_xy + prior.precision @ prior.mean / usual), covariance
