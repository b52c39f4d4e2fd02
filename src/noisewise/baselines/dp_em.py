"""DP-EM for a mixture of Gaussians with known covariance: Park, Foulds, Choudhary, Welling (2017).

Every iteration releases the expected sufficient statistics of all records, noised; the M step is
post-processing. A record's statistics are its responsibilities and its responsibility-weighted,
length-limited x, clipped jointly, so one norm bounds all that a record can do.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._validate import integer_at_least, positive
from noisewise.mechanism import (
    Budget,
    Certificate,
    Draws,
    Mechanism,
    SecureSource,
    issue,
    noisy_sum,
    usual_passes,
)

__all__ = ["EmFit", "dp_em"]

_LEAST_COUNT = 1.0
_PASS = 2**16


class EmFit(NamedTuple):
    """Means (components x width), their conditional posterior variances, and the certificate."""

    means: np.ndarray
    variances: np.ndarray
    certificate: Certificate


def dp_em(
    X: np.ndarray,
    start: np.ndarray,
    *,
    sd: float,
    radius: float,
    budget: Budget,
    prior_sd: float = 1.0,
    iterations: int = 10,
    insecure_seed: int | None = None,
) -> EmFit:
    """Posterior means of a mixture of N(mu_j, sd^2 I), mu_j ~ N(0, prior_sd^2 I), equal weights.

    Records longer than ``radius``, a public number, are shortened to it. ``start`` (components x
    width) must not come from the data.
    """
    positive("sd", sd, finite=True)
    positive("radius", radius, finite=True)
    integer_at_least("iterations", iterations, 1)
    components, width = start.shape
    # Responsibilities have norm at most 1, and so have they times x over the radius.
    mechanism = Mechanism(clip_norm=math.sqrt(2), sampling_rate=1.0, steps=iterations)
    mechanism = mechanism.calibrate(budget)
    grid = mechanism.grid(components * (1 + width), len(X))
    passes = usual_passes(len(X), 1.0, _PASS)
    scale = mechanism.noise_scale(grid, components * (1 + width))
    chunk = SecureSource(len(X), 1.0, scale, passes, insecure_seed).chunk(0, iterations)
    rows = {"X": jnp.asarray(X, jnp.float32)}

    @jax.jit
    def released(means: Array, offset: Array, size: Array, noise: Array) -> Array:
        def statistics(batch: dict[str, Array]) -> Array:
            return _statistics(batch["X"], means, sd, radius)

        draws = Draws(jnp.asarray(chunk.indices), offset, size, noise)
        return noisy_sum(statistics, rows, draws, grid, *passes)

    means = np.asarray(start, np.float32)
    for number in range(iterations):
        draws = (chunk.offset[number], chunk.size[number], chunk.noise[number])
        total = np.asarray(released(means, *draws), float)
        counts = np.maximum(total[:components], _LEAST_COUNT)
        sums = total[components:].reshape(components, width) * radius
        variances = 1 / (prior_sd**-2 + counts / sd**2)
        means = sums / sd**2 * variances[:, None]
        # A component with next to no records has a mean of noise: no mean is longer than a record.
        lengths = np.linalg.norm(means, axis=1, keepdims=True)
        means = (means * np.minimum(1.0, radius / np.maximum(lengths, 1e-12))).astype(np.float32)
    sources = {"clip norm": "follows from the declared radius", "number of rows": "not released"}
    void = () if insecure_seed is None else ("the noise comes from a seed",)
    releases = (mechanism.release("expected sufficient statistics"),)
    return EmFit(means, variances, issue(budget, releases, sources, void))


def _statistics(X: Array, means: Array, sd: float, radius: float) -> Array:
    """Responsibilities, and responsibilities times x over the radius: batch x (J + J D)."""
    lengths = jnp.linalg.norm(X, axis=1, keepdims=True)
    short = X * jnp.minimum(1.0, radius / jnp.maximum(lengths, 1e-12))
    squares = jnp.sum((short[:, None, :] - means) ** 2, axis=-1)
    shares = jax.nn.softmax(-0.5 * squares / sd**2, axis=-1)
    weighted = shares[:, :, None] * short[:, None, :] / radius
    return jnp.concatenate([shares, weighted.reshape(len(X), -1)], axis=1)
