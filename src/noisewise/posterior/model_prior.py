"""The model's own prior in place of the Gaussian one that a trace was made and read under.

Descent along the gradient of a prior that is not Gaussian runs away (that of a group scale grows
as exp(-2 log s)), and a posterior that takes it for Gaussian is wrong. But the prior is public: it
needs no descent. So the trace is made and read under a Gaussian prior N(0, P^-1) of about the same
spread, and its draws are then moved to

    p(z | trace) ~ q(z) (pi(z) / N(z; 0, P^-1))

with the prior pi (mathematics.md eq. (40)), through powers of the ratio from 0 to 1 (sequential
Monte Carlo): reweighted, resampled and moved by Hamiltonian steps, in turns in the model's
coordinates and in standardised ones (`models.centring`). No row is involved, nothing is spent.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.models import Frame, Target, has_two_forms, standardise, unstandardise

if TYPE_CHECKING:
    from jaxtyping import Float

_NEGLIGIBLE = 0.05
"""Sd of the log ratio, over the draws, that moves nothing by more than this share of an sd."""
_LEFT = 0.6
"""Effective share of the draws that reweighting must leave."""
_MOST_ROUNDS, _LAST_ROUNDS = 60, 4
_LEAPFROG, _MOVES = 8, 2
_ACCEPTED = 0.7
_SHRINKAGE = 10.0
_LEAST_DRAWS = 400
_IMPOSSIBLE = 1e30


class UnderGaussianPrior(NamedTuple):
    """Posteriors under the Gaussian prior, in the frame's coordinates."""

    mean: Float[np.ndarray, "fits dim"]
    covariance: Float[np.ndarray, "fits dim dim"]
    draws: Float[np.ndarray, "fits draws dim"]


class _Density(NamedTuple):
    """Of a tempered posterior, up to a constant: arguments of compiled code."""

    location: Any
    factor: Any
    inverse_factor: Any
    """Of the frame."""
    prior_precision: Any
    mean: Any
    precision: Any
    power: Any


class _Moved(NamedTuple):
    draws: Array
    log_ratio: Array
    accepted: Array


def under_model_prior(
    target: Target,
    frame: Frame,
    prior_precision: Float[np.ndarray, "dim dim"],
    found: UnderGaussianPrior,
    rngs: list[np.random.Generator],
) -> Float[np.ndarray, "fits draws dim"]:
    """Draws under the model's prior; not a number where the way there was not found.

    Args:
        target: The model.
        frame: The coordinates of ``found``.
        prior_precision: Of the Gaussian prior, in the frame; its mean is the frame's zero.
        found: What a trace says under that prior.
        rngs: One for each fit.
    """
    factor = frame.matrix()
    density = _Density(
        location=np.asarray(frame.location, np.float32),
        factor=factor.astype(np.float32),
        inverse_factor=np.linalg.inv(factor).astype(np.float32),
        prior_precision=prior_precision.astype(np.float32),
        mean=found.mean.astype(np.float32),
        precision=np.linalg.inv(_no_wider(found.covariance, prior_precision)).astype(np.float32),
        power=np.zeros(len(rngs), np.float32),
    )
    count = found.draws.shape[1]
    copies = -(-_LEAST_DRAWS // count)
    draws = np.tile(found.draws, (1, copies, 1)).astype(np.float32)
    ratio = np.asarray(_log_ratios(target, density, draws), float)
    if (np.where(np.isfinite(ratio), ratio, 1e3 * _NEGLIGIBLE).std(1) < _NEGLIGIBLE).all():
        return found.draws
    forms = (False, True) if has_two_forms(target) else (False,)
    log_step = np.full((len(forms), len(rngs)), np.log(0.5))
    power, last = np.zeros(len(rngs)), 0
    for _ in range(_MOST_ROUNDS):
        power, weights = _next_powers(power, ratio)
        draws = _resampled(draws, weights, rngs)
        density = density._replace(power=power.astype(np.float32))
        for place, standardised in enumerate(forms):
            keys = np.stack([rng.integers(2**32, size=2, dtype=np.uint32) for rng in rngs])
            step = np.exp(log_step[place]).astype(np.float32)
            moved = _move(target, standardised, density, jnp.asarray(draws), step, keys)
            draws, accepted = np.asarray(moved.draws), np.asarray(moved.accepted, float)
            log_step[place] += accepted - _ACCEPTED
        ratio = np.asarray(moved.log_ratio, float)
        last += bool((power == 1).all())
        if last == _LAST_ROUNDS:
            break
    kept = zip(draws.astype(float), rngs, strict=True)
    chosen = np.stack([each[rng.permutation(len(each))[:count]] for each, rng in kept])
    chosen[power < 1] = np.nan
    return chosen


def _no_wider(
    covariance: Float[np.ndarray, "fits dim dim"], prior_precision: Float[np.ndarray, "dim dim"]
) -> Float[np.ndarray, "fits dim dim"]:
    """No direction is known less than beforehand."""
    root = np.linalg.cholesky(prior_precision)
    values, vectors = np.linalg.eigh(root.T @ covariance @ root)
    basis = np.linalg.inv(root.T) @ vectors
    return (basis * np.clip(values, 1e-9, 1.0)[:, None, :]) @ basis.mT


def _next_powers(
    power: Float[np.ndarray, " fits"], ratio: Float[np.ndarray, "fits draws"]
) -> tuple[Float[np.ndarray, " fits"], Float[np.ndarray, "fits draws"]]:
    """The largest powers up to 1 that leave enough draws effective, and the weights."""
    ratio = np.where(np.isfinite(ratio), ratio, -_IMPOSSIBLE)
    ratio = ratio - ratio.max(1, keepdims=True)
    low, high = np.zeros_like(power), 1 - power
    step = high
    for _ in range(30):
        weights = np.exp(step[:, None] * ratio)
        share = weights.sum(1) ** 2 / (weights**2).sum(1) / ratio.shape[1]
        low, high = np.where(share >= _LEFT, step, low), np.where(share >= _LEFT, high, step)
        step = np.where(low == 1 - power, low, (low + high) / 2)
    weights = np.exp(low[:, None] * ratio)
    return power + low, weights / weights.sum(1, keepdims=True)


def _resampled(
    draws: Float[np.ndarray, "fits draws dim"],
    weights: Float[np.ndarray, "fits draws"],
    rngs: list[np.random.Generator],
) -> Float[np.ndarray, "fits draws dim"]:
    """Systematic resampling."""
    count = draws.shape[1]
    kept = []
    for each, weight, rng in zip(draws, weights, rngs, strict=True):
        places = np.searchsorted(np.cumsum(weight), (np.arange(count) + rng.random()) / count)
        kept.append(each[np.minimum(places, count - 1)])
    return np.stack(kept)


def _log_ratio(target: Target, density: _Density, z: Array) -> Array:
    """log pi(z) - log N(z; 0, P^-1)."""
    theta = density.location + density.factor @ z
    found = target.log_prior(theta) + 0.5 * z @ density.prior_precision @ z
    return jnp.where(jnp.isnan(found), -jnp.inf, found)


def _log_density(target: Target, density: _Density, z: Array) -> Array:
    off = z - density.mean
    gaussian = -0.5 * off @ density.precision @ off
    return gaussian + density.power * _log_ratio(target, density, z)


_OVER_FITS = _Density(None, None, None, None, 0, 0, 0)
"""Axes of the fits."""


@partial(jax.jit, static_argnums=0)
def _log_ratios(target: Target, density: _Density, draws: Array) -> Array:
    def one(density: _Density, draws: Array) -> Array:
        return jax.vmap(partial(_log_ratio, target, density))(draws)

    return jax.vmap(one, (_OVER_FITS, 0))(density, draws)


def _move(
    target: Target, standardised: bool, density: _Density, draws: Array, step: Any, keys: Any
) -> _Moved:
    """A few Hamiltonian moves of every draw, in directions scaled by the draws' own covariance."""
    raw = _to_raw(target, density, draws) if standardised else draws
    wide = np.asarray(raw, float)
    centred = wide - wide.mean(1, keepdims=True)
    covariance = centred.mT @ centred / centred.shape[1]
    level = np.einsum("fii->fi", covariance)[:, None, :] * np.eye(wide.shape[2])
    share = _SHRINKAGE / (_SHRINKAGE + wide.shape[1])
    level = (1 - share) * covariance + share * level + 1e-10 * np.eye(wide.shape[2])
    roots = np.linalg.cholesky(level).astype(np.float32)
    found: _Moved = _hamiltonian(target, standardised, density, raw, roots, step, keys)
    return found


@partial(jax.jit, static_argnums=0)
def _to_raw(target: Target, density: _Density, draws: Array) -> Array:
    def one(z: Array) -> Array:
        return standardise(target, density.location + density.factor @ z)

    return jax.vmap(jax.vmap(one))(draws)


@partial(jax.jit, static_argnums=(0, 1))
def _hamiltonian(
    target: Target,
    standardised: bool,
    density: _Density,
    points: Array,
    roots: Array,
    steps: Array,
    keys: Array,
) -> _Moved:
    def place(density: _Density, point: Array) -> tuple[Array, Array]:
        """In the frame, and the log determinant of the way there."""
        if not standardised:
            return point, jnp.zeros(())
        found = unstandardise(target, point)
        return density.inverse_factor @ (found.theta - density.location), found.log_determinant

    def one(density: _Density, points: Array, root: Array, step: Array, key: Array) -> _Moved:
        def log_density(point: Array) -> Array:
            z, log_determinant = place(density, point)
            return _log_density(target, density, z) + log_determinant

        both = jax.value_and_grad(log_density)

        def move(point: Array, key: Array) -> tuple[Array, Array]:
            key_momentum, key_step, key_accept = jax.random.split(key, 3)
            momentum = jax.random.normal(key_momentum, point.shape)
            # Steps of many sizes: what is narrow somewhere needs small ones there.
            size = step * 0.1 ** (jax.random.uniform(key_step) ** 2)

            def leap(carry: tuple[Array, Array, Array], _: None) -> tuple[Any, None]:
                point, momentum, slope = carry
                momentum = momentum + 0.5 * size * root.T @ slope
                point = point + size * root @ momentum
                slope = jax.grad(log_density)(point)
                return (point, momentum + 0.5 * size * root.T @ slope, slope), None

            before, slope = both(point)
            (there, end, _), _ = jax.lax.scan(leap, (point, momentum, slope), None, _LEAPFROG)
            gain = log_density(there) - before - 0.5 * (end @ end - momentum @ momentum)
            chance = jnp.where(jnp.isfinite(gain), jnp.exp(jnp.minimum(gain, 0.0)), 0.0)
            taken = jax.random.uniform(key_accept) < chance
            return jnp.where(taken, there, point), chance

        def every(points: Array, key: Array) -> tuple[Array, Array]:
            points, chance = jax.vmap(move)(points, jax.random.split(key, len(points)))
            return points, chance.mean()

        points, accepted = jax.lax.scan(every, points, jax.random.split(key, _MOVES))
        z = jax.vmap(lambda point: place(density, point)[0])(points)
        ratio = jax.vmap(partial(_log_ratio, target, density))(z)
        return _Moved(z, ratio, accepted.mean())

    with jax.default_matmul_precision("highest"):
        return jax.vmap(one, (_OVER_FITS, 0, 0, 0, 0))(density, points, roots, steps, keys)
