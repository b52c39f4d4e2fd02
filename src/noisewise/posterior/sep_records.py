"""What simulated records contribute to a DP-SEP fit, for any truth.

A record's clipped site depends on its covariates and its outcome, and the truth decides how likely
each outcome is. So sites are computed once, for simulated covariates with every outcome they may
have, averaged over where the fit took them; under any truth their mean and covariance are sums with
other weights (mathematics.md eqs. (44) and (45)). No row is read.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._shapes import Float
from noisewise.dpsep import DpSep, GlmSite, SepNumbers, Window
from noisewise.posterior.expected import balanced_perturbations

_TRUTHS_AT_ONCE = 32
_STEP = 1e-3
"""For differences, in units of a prior of about one."""


class Places(NamedTuple):
    """Where a fit took its sites: released."""

    means: Float[Any, "places dim"]
    covariance: Float[Any, " packed"]
    """Of the cavities."""
    extras: Float[Any, "places extras"]


class OutcomeSites(NamedTuple):
    """Clipped sites of simulated records, for every outcome that they may have."""

    X: Float[Any, "records dim"]
    y: Float[Any, "records outcomes"]
    values: Float[Any, "records outcomes numbers"]
    """Gradient and extras, averaged over the places."""
    precision: Float[Any, "records outcomes packed"]


class SiteMoments(NamedTuple):
    """Of one record's values, under each of some truths."""

    mean: Float[np.ndarray, "truths numbers"]
    second: Float[np.ndarray, "truths numbers numbers"]


class SimulatedRecords:
    """Sums over simulated records' outcomes, with the weights that truths give them.

    The sums are matrix products on the host: compiled for many truths at once they came out wrong
    in trials (jaxlib 0.10.2 on a CPU), for a reason that was not found.
    """

    def __init__(self, site: GlmSite, sites: OutcomeSites) -> None:
        self._site, self._X = site, np.asarray(sites.X, float)
        self._y = np.asarray(sites.y)
        self._values = np.asarray(sites.values)
        self._precision = np.asarray(sites.precision).reshape(self._y.size, -1)
        flat = self._values.reshape(self._y.size, -1)
        row, column = np.triu_indices(flat.shape[1])
        self._products = np.concatenate([flat, flat[:, row] * flat[:, column]], axis=1)
        self._upper = row, column

    def _weights(
        self, truths: Float[np.ndarray, "truths truth"]
    ) -> Float[np.ndarray, "truths records outcomes"]:
        """Probabilities of the outcomes, and of the record. A truth is the coefficients and, where
        the site learns the target's noise, the logarithm of its variance."""
        dim = self._X.shape[1]
        variances = np.exp(truths[:, dim]) if self._site.extras else np.ones(len(truths))
        logs = np.empty((len(truths), *self._y.shape), np.float32)
        for log, truth, variance in zip(logs, truths[:, :dim], variances, strict=True):
            predictor = (self._X @ truth).astype(np.float32)[:, None]
            log[:] = _log_likelihood(self._site, predictor, self._y, np.float32(variance))
        found = np.exp(logs - logs.max(-1, keepdims=True))
        return found / (found.sum(-1, keepdims=True) * len(self._X))

    def moments(self, truths: Float[np.ndarray, "truths truth"]) -> SiteMoments:
        """Under each of many truths."""
        sums = np.concatenate(
            [
                self._weights(some).reshape(len(some), -1) @ self._products
                for some in np.array_split(truths, -(-len(truths) // _TRUTHS_AT_ONCE))
            ]
        ).astype(float)
        row, column = self._upper
        size = self._values.shape[-1]
        second = np.empty((len(truths), size, size))
        second[:, row, column] = second[:, column, row] = sums[:, size:]
        return SiteMoments(sums[:, :size], second)

    def slope(self, truth: Float[np.ndarray, " truth"]) -> Float[np.ndarray, "numbers truth"]:
        """Of the mean of the values, by the truth."""
        steps = _STEP * np.eye(len(truth))
        high, low = (self.moments(truth + sign * steps).mean for sign in (1, -1))
        return np.asarray((high - low).T / (2 * _STEP))

    def simulation(
        self, truth: Float[np.ndarray, " truth"]
    ) -> Float[np.ndarray, "numbers numbers"]:
        """Covariance of that mean which simulating so few covariates leaves."""
        each = np.einsum("rk,rkn->rn", self._weights(truth[None])[0], self._values, dtype=float)
        off = each - each.mean(0)
        return np.asarray(off.T @ off)

    def precision(self, truth: Float[np.ndarray, " truth"]) -> Float[np.ndarray, " packed"]:
        """Mean precision of a site."""
        return np.asarray(self._weights(truth[None]).reshape(-1) @ self._precision, float)


@partial(jax.jit, static_argnums=0)
def _log_likelihood(site: GlmSite, predictor: Array, y: Array, variance: Array) -> Array:
    return site.log_likelihood(predictor, y, variance)


def places_of(window: Window, rng: np.random.Generator) -> Places:
    """Places with the mean and the covariance of those where sites were taken, in opposite pairs;
    the extras are log-normal's, high and low by turns.

    Args:
        window: What the fit released.
        rng: For the directions.
    """
    dim = len(window.mean)
    dispersion = np.asarray(window.dispersion, float)[0]
    dispersion = dispersion + (1e-9 * np.trace(dispersion) + 1e-12) * np.eye(dim)
    half = rng.permutation(balanced_perturbations(rng, dim))
    normals = np.concatenate([half, -half])
    square = np.maximum(window.extra**2, 1e-30)
    log_variance = np.log(np.maximum(window.extra_square / square, 1.0))
    turns = np.resize([1.0, -1.0], len(half))
    signs = np.concatenate([turns, turns])[:, None]
    extras = window.extra * np.exp(signs * np.sqrt(log_variance) - log_variance / 2)
    means = window.mean + normals @ np.linalg.cholesky(dispersion).T
    found = (means, window.covariance, extras)
    return Places(*(jnp.asarray(part, jnp.float32) for part in found))


@partial(jax.jit, static_argnums=0)
def outcome_sites(
    algorithm: DpSep, numbers: SepNumbers, X: Array, y: Array, places: Places
) -> OutcomeSites:
    """Sites of simulated covariates X with each of their outcomes y."""
    records, outcomes = y.shape
    batch = {"X": jnp.repeat(X, outcomes, axis=0), "y": y.reshape(-1)}

    def at(mean: Array, extra: Array) -> tuple[Array, Array]:
        sites = algorithm.clipped_sites(numbers, mean, places.covariance, extra, batch)
        return jnp.concatenate([sites.gradient, sites.extra], axis=1), sites.precision

    def add(total: Any, place: tuple[Array, Array]) -> tuple[Any, None]:
        return jax.tree.map(lambda old, new: old + finite(new), total, at(*place)), None

    shapes = jax.eval_shape(at, places.means[0], places.extras[0])
    zero = jax.tree.map(lambda each: jnp.zeros(each.shape, each.dtype), shapes)
    total, _ = jax.lax.scan(add, zero, (places.means, places.extras))
    values, precision = (
        (part / len(places.means)).reshape(records, outcomes, -1) for part in total
    )
    return OutcomeSites(X, y, values, precision)


def finite(values: Array) -> Array:
    """As the mechanism has it: what is no number counts as nothing."""
    return jnp.where(jnp.isfinite(values), values, 0.0)
