"""The posterior of a regression given the mean site that a DP-SEP fit released.

The mean of what was released over the observed steps is one Gaussian observation: its mean and
covariance under any truth are those of simulated records (`sep_records`), clipped and taken where
the fit was, plus the known noise. With the prior that is a density of the truth, of few dimensions,
from which draws are made by importance (mathematics.md section 14).
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import jax.numpy as jnp
import numpy as np

from noisewise._shapes import Float
from noisewise.dpsep import GlmSite, RegressionSite, SepFit, Window
from noisewise.engine import Run
from noisewise.posterior.importance import Peak, importance_draws
from noisewise.posterior.sep_covariates import like_the_released
from noisewise.posterior.sep_records import Places, SimulatedRecords, outcome_sites, places_of

_NEWTON_STEPS = 12
_HALVINGS = 6
_MOST_RECORDS = 2000
_SETTLED = 1e-3
"""Gain of log density below which the mode is found."""


class Prior(NamedTuple):
    """Of the truth, coordinate by coordinate."""

    mean: Float[np.ndarray, " truth"]
    precision: Float[np.ndarray, " truth"]


class Observation(NamedTuple):
    """What was released over the observed steps, and what it is compared with."""

    records: SimulatedRecords
    prior: Prior
    rows: float
    batches: float
    """The variance that drawing batches leaves, per variance of one record's part in the sum."""
    released: Float[np.ndarray, " numbers"]
    """N times the mean gradient and extras."""
    noise_variance: Float[np.ndarray, " numbers"]
    simulation: Float[np.ndarray, "numbers numbers"]
    """Covariance of what is simulated in place of the mean."""

    def moments(self, truths: Float[np.ndarray, "truths truth"]) -> tuple[Any, Any]:
        """Mean and covariance of what is released, under each of many truths: eqs. (45), (46)."""
        mean, second = self.records.moments(truths)
        table = second - mean[:, :, None] * mean[:, None, :]
        covariance = self.rows * (table + self.batches * second) + self.simulation
        return self.rows * mean, covariance + np.diag(self.noise_variance)

    def log_density(
        self, truths: Float[np.ndarray, "truths truth"]
    ) -> Float[np.ndarray, " truths"]:
        """Of each of many truths, up to a constant: eq. (47)."""
        mean, covariance = self.moments(truths)
        residual, off = self.released - mean, truths - self.prior.mean
        fine = np.isfinite(covariance).all((1, 2)) & np.isfinite(mean).all(1)
        covariance[~fine] = np.eye(len(self.released))
        solved = np.linalg.solve(covariance, residual[..., None])[..., 0]
        found = -0.5 * (
            np.einsum("ki,ki->k", residual, solved)
            + np.linalg.slogdet(covariance)[1]
            + off**2 @ self.prior.precision
        )
        return np.where(fine, found, -np.inf)


def truth_draws(
    run: Run,
    fit: SepFit,
    covariates: Float[np.ndarray, "records dim"],
    draws: int,
    rng: np.random.Generator,
) -> Float[np.ndarray, "draws truth"]:
    """Draws of the coefficients and, where the site learns the target's noise, of the logarithm of
    its variance.

    Twice the mode is found and records are simulated around it; the second time their covariates
    are made like those of the table, as far as the released precision tells.

    Args:
        run: The last phase.
        fit: What it ended with, all of it finite.
        covariates: Simulated or public.
        draws: How many.
        rng: For simulations and draws.
    """
    site: GlmSite = run.algorithm.site
    window = Window(*(np.asarray(part, float) for part in fit.window))
    places = places_of(window, rng)
    packed = np.asarray(fit.covariance) + np.asarray(fit.noise_covariance)
    covariance = np.asarray(site.family.matrices(jnp.asarray(packed)), float)[0]
    variance = site.noise_variance(jnp.asarray(window.extra, jnp.float32), run.numbers.public_count)
    truth = np.append(window.mean, [np.log(float(variance))] * site.extras)
    X = np.asarray(covariates, np.float32)[: _records(site)]
    seen = _observation(run, window, places, X, truth, covariance)
    peak = _mode(seen, truth)
    X = like_the_released(site.family, X, seen.rows * seen.records.precision(peak.mode), window)
    seen = _observation(run, window, places, X, peak.mode, peak.covariance)
    peak = _mode(seen, peak.mode)
    return importance_draws(seen.log_density, peak, draws, rng)


def _records(site: GlmSite) -> int:
    """How many are simulated, so that products of their values stay below 2^24 numbers."""
    outcomes = site.outcomes(jnp.zeros(1), jnp.ones(1)).shape[1]
    products = (site.family.dim + 2) ** 2
    return max(200, min(_MOST_RECORDS, 2**14 // outcomes, 2**24 // (outcomes * products)))


def _observation(
    run: Run,
    window: Window,
    places: Places,
    X: Float[np.ndarray, "records dim"],
    truth: Float[np.ndarray, " truth"],
    covariance: Float[np.ndarray, "truth truth"],
) -> Observation:
    """Against records simulated around a truth that is known up to a covariance."""
    site: GlmSite = run.algorithm.site
    dim, packed = site.family.dim, site.family.packed
    read = np.append(np.arange(dim), dim + packed + np.arange(site.extras))
    spread = np.einsum("ni,ij,nj->n", X, covariance[:dim, :dim], X)
    noise = float(np.exp(truth[dim])) if site.extras else 1.0
    about = jnp.asarray(X @ truth[:dim], jnp.float32), jnp.asarray(noise + spread, jnp.float32)
    y = site.outcomes(*about)
    sites = outcome_sites(run.algorithm, run.numbers, jnp.asarray(X, jnp.float32), y, places)
    records, rows = SimulatedRecords(site, sites), float(run.numbers.public_count)
    rate, weights = float(run.numbers.sampling_rate), np.asarray(run.schedule.observe, float)
    return Observation(
        records=records,
        prior=_prior(site),
        rows=rows,
        batches=(1 - rate) / rate * float((weights**2).sum()),
        released=window.released[read],
        noise_variance=window.noise_variance[read],
        simulation=rows**2 * records.simulation(truth),
    )


def _prior(site: GlmSite) -> Prior:
    mean, precision = np.zeros(site.family.dim), np.full(site.family.dim, site.prior_scale**-2.0)
    if not site.extras:
        return Prior(mean, precision)
    middle, sd = cast(RegressionSite, site).log_variance_prior
    return Prior(np.append(mean, middle), np.append(precision, sd**-2.0))


def _mode(seen: Observation, start: Float[np.ndarray, " truth"]) -> Peak:
    """By Fisher scoring, every step the best of several lengths."""
    truth, value = start, seen.log_density(start[None])[0]
    lengths = 2.0 ** -np.arange(_HALVINGS)[:, None]
    for _ in range(_NEWTON_STEPS):
        mean, covariance = seen.moments(truth[None])
        slope = seen.rows * seen.records.slope(truth)
        weighted = np.linalg.solve(covariance[0], slope).T
        information = weighted @ slope + np.diag(seen.prior.precision)
        gradient = weighted @ (seen.released - mean[0])
        gradient = gradient - seen.prior.precision * (truth - seen.prior.mean)
        tried = truth + lengths * np.linalg.solve(information, gradient)
        values = seen.log_density(tried)
        best = int(np.argmax(values))
        if not values[best] > value + _SETTLED:
            break
        truth, value = tried[best], values[best]
    return Peak(truth, np.linalg.inv(information))
