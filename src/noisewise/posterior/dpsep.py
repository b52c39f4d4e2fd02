"""From what DP-SEP released to draws, noise-aware and not, and how the fit went."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple, cast

import jax
import numpy as np

from noisewise._shapes import Float
from noisewise.dpsep import (
    Gaussian,
    GlmSite,
    NoiseSite,
    SepFit,
    SepSettings,
    Site,
    noise_aware,
    noise_unaware,
)
from noisewise.engine import Run
from noisewise.posterior.sep_likelihood import truth_draws
from noisewise.posterior.status import Status, is_usable

_DRIFT = 1.5
"""Most that means may move between the halves of the averaged part, in sds: their posterior's and
those of their scatter within a half. Noise alone moves them by about one, a steady drift by 3.5."""
_SEEN = 100


class SepTrace(NamedTuple):
    """Released means at the end of blocks of steps (blocks x dim), and those steps' numbers."""

    means: Float[np.ndarray, "blocks dim"]
    ends: np.ndarray


class SepDraws(NamedTuple):
    """Draws of the site's coordinates, and of the target's noise sd (zero where it has none)."""

    theta: Float[np.ndarray, "draws dim"]
    noise_sd: Float[np.ndarray, " draws"]


class SepReading(NamedTuple):
    """The posterior that knows the noise, and the one that does not."""

    aware: SepDraws
    unaware: SepDraws


def read_sep(
    site: Site,
    fit: SepFit,
    public_count: int,
    draws: int,
    rng: np.random.Generator,
    variance_inflation: float = 1.0,
) -> SepReading:
    """Draws of both posteriors of any site: the known spread of the mean is added (eq. (36)).

    Args:
        site: Of the last phase.
        fit: What it ended with.
        public_count: Number of records as everybody may know it.
        draws: How many.
        rng: For the draws.
        variance_inflation: Factor on the noise-aware covariance (`dpsep.variance_inflation`).
    """
    aware, certain = noise_aware(site, fit), fit._replace(extra_variance=0.0)
    aware = aware._replace(covariance=variance_inflation * aware.covariance)
    theta = _normals(site, aware, draws, rng)
    noise_sd = _noise_sds(site, fit, public_count, draws, rng)
    unaware = _normals(site, noise_unaware(fit), draws, rng)
    unaware_sd = _noise_sds(site, certain, public_count, draws, rng)
    return SepReading(SepDraws(theta, noise_sd), SepDraws(unaware, unaware_sd))


def read_regression(
    run: Run,
    fit: SepFit,
    covariates: Float[np.ndarray, "records dim"],
    draws: int,
    rng: np.random.Generator,
) -> SepReading:
    """Draws of both posteriors of a regression: the noise-aware one from what simulated records
    would release (eq. (47)).

    Args:
        run: The last phase.
        fit: What it ended with.
        covariates: Simulated or public, as the site takes them.
        draws: How many.
        rng: For simulations and draws.
    """
    site: GlmSite = run.algorithm.site
    count, certain = int(run.numbers.public_count), fit._replace(extra_variance=0.0)
    dim = site.family.dim
    theta = np.full((draws, dim + site.extras), np.nan)
    if all(np.isfinite(np.asarray(part)).all() for part in jax.tree.leaves(fit)):
        with contextlib.suppress(np.linalg.LinAlgError):  # too wild for moments to be matrices
            theta = truth_draws(run, fit, covariates, draws, rng)
    noise_sd = np.exp(theta[:, -1] / 2) if site.extras else np.zeros(draws)
    unaware = _normals(site, noise_unaware(fit), draws, rng)
    unaware_sd = _noise_sds(site, certain, count, draws, rng)
    return SepReading(SepDraws(theta[:, :dim], noise_sd), SepDraws(unaware, unaware_sd))


def sep_status(
    trace: SepTrace,
    settings: SepSettings,
    theta: Float[np.ndarray, "draws dim"],
    observed: Callable[[np.ndarray], np.ndarray] = lambda theta: theta,
) -> Status:
    """Whether the means are finite, and what is observed of them stays over the averaged part.

    Args:
        trace: Means along the last phase.
        settings: Of that phase.
        theta: Draws of the coordinates.
        observed: What must settle, of so many draws of the coordinates: themselves, or what they
            say of simulated inputs, where weights may go on drifting along directions that say
            nothing.
    """
    if not (np.isfinite(trace.means).all() and is_usable(theta)):
        return Status.DIVERGED
    sds = observed(theta[:_SEEN]).std(0)
    late = observed(trace.means[trace.ends > (1 - settings.averaged) * settings.steps])
    first, second = late[: len(late) // 2], late[len(late) // 2 :]
    scatter = (first.var(0) + second.var(0)) / 2
    drift = (second.mean(0) - first.mean(0)) ** 2 / (sds**2 + scatter)
    return Status.OK if np.sqrt(drift.mean()) < _DRIFT else Status.NOT_CONVERGED


def _normals(
    site: Site, posterior: Gaussian, draws: int, rng: np.random.Generator
) -> Float[np.ndarray, "draws dim"]:
    """Draws of the coordinates, block by block of their covariance."""
    blocks = np.asarray(site.family.matrices(posterior.covariance), float)
    if not np.isfinite(blocks).all():
        return np.full((draws, site.family.dim), np.nan)
    values, vectors = np.linalg.eigh(blocks)
    roots = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
    normal = rng.standard_normal((draws, *blocks.shape[:2]))
    spread = np.einsum("kij,dkj->dki", roots, normal).reshape(draws, -1)
    return np.asarray(posterior.mean, float) + spread


def _noise_sds(
    site: Site, fit: SepFit, public_count: int, draws: int, rng: np.random.Generator
) -> Float[np.ndarray, " draws"]:
    """Draws of the target's noise sd: its precision is Gamma given the mean squared residual, which
    is itself known up to the noise of its release."""
    if not site.extras:
        return np.zeros(draws)
    noisy = cast(NoiseSite, site)  # what extras are for
    shape, rate = (np.asarray(part, float) for part in noisy.noise_gamma(fit.extra, public_count))
    off = public_count * np.sqrt(np.asarray(fit.extra_variance, float).ravel()[0]) / noisy.kept
    rates = rate + off * rng.standard_normal(draws)
    return np.sqrt(np.maximum(rates, 0.01 * rate) / rng.gamma(shape, size=draws))
