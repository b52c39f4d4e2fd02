"""The Gibbs sweeps and Metropolis steps behind `linear_regression`: chains given fixed numbers."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.baselines.regression_moments import released_pairs

_JUMPS = 2
"""Metropolis steps for the weights before each sweep."""


class Fit(NamedTuple):
    """What stays fixed along one chain."""

    released: Any
    rows: Any
    noise_variance: Any
    second: Any
    """Second moments of x."""
    root_second: Any
    expected_products: Any
    """Expected sums of the products of x."""
    products: Any
    """Covariance of one record's products of x."""
    root_products: Any
    precision: Any
    """Inverse covariance of the released sums of these products, noise included."""
    regression: Any
    """Coefficients of the true sums of these products on the released ones."""
    proposal_mean: Any
    proposal_root: Any
    prior_mean: Any
    prior_precision: Any
    prior_shape: Any
    prior_scale: Any


class _State(NamedTuple):
    variance: Array
    weights: Array


class _View(NamedTuple):
    """The law of the release given one state: all that the steps need of it."""

    log_density: Array
    combination: Array
    """How x y and y^2 are made of the products of x, up to the error's part."""
    mean: Array
    """Expected sums of x y and y^2."""
    gain: Array
    """Regression of the released x y and y^2 on the released products of x."""
    factor: Array
    """Cholesky factor of what that leaves."""


@partial(jax.jit, static_argnums=(2, 5))
def run_chains(
    keys: Array, fits: Fit, draws: int, warmup: int, thin: int, collapsed: bool
) -> Array:
    """All chains of one group, side by side: fits x draws x (1 + d)."""

    def chain(key: Array, fit: Fit) -> Array:
        key_start, key_run = jax.random.split(key)

        def one(number: Array, carried: tuple[_State, Array]) -> tuple[_State, Array]:
            state, kept = carried
            state = _sweep(jax.random.fold_in(key_run, number), state, fit, collapsed)
            # Warm-up and thinned-out draws are overwritten: one loop, compiled once.
            slot = jnp.maximum(number - warmup, 0) // thin
            return state, kept.at[slot].set(jnp.append(state.variance, state.weights))

        start = _start(key_start, fit), jnp.zeros((draws, 1 + len(fit.prior_mean)))
        return jax.lax.fori_loop(0, warmup + draws * thin, one, start)[1]

    return jax.vmap(chain)(keys, fits)


def _start(key: Array, fit: Fit) -> _State:
    """Weights from the Gaussian near their posterior, variance from the prior.

    (The authors start both from the prior.)
    """
    key_variance, key_weights = jax.random.split(key)
    variance = fit.prior_scale / jax.random.gamma(key_variance, fit.prior_shape)
    normals = jax.random.normal(key_weights, fit.proposal_mean.shape)
    return _State(variance, fit.proposal_mean + fit.proposal_root @ normals)


def _sweep(key: Array, state: _State, fit: Fit, collapsed: bool) -> _State:
    key_jump, key_sums, key_conjugate = jax.random.split(key, 3)
    view = _look(state, fit)
    if collapsed:
        state, view = _jumps(key_jump, state, view, fit)
    sums = _draw_sums(key_sums, state, view, fit)
    return _conjugate(key_conjugate, sums, fit)


def _look(state: _State, fit: Fit) -> _View:
    """Mean and covariance of the released sums given the state, with the true sums integrated out.

    With e = y - w'x independent of x, x y = (x x') w + x e and y^2 = w' x x' w + 2 w'x e + e^2. The
    three kinds of terms are uncorrelated, with covariances C (the products of x), s M (M the second
    moments of x, s the variance of e) and 2 s^2; so, for instance,
    Cov(x_i y, x_j y) = s M_ij + sum_kl w_k w_l Cov(x_i x_k, x_j x_l).
    """
    variance, weights = state
    combination = _combine(weights)
    mean_xy = fit.second @ weights
    errors = _error_covariance(variance, weights, fit.second)
    products = combination @ fit.products
    gain = combination @ fit.regression
    left = fit.rows * (products @ combination.T + errors - products @ gain.T)
    left = left + fit.noise_variance * jnp.eye(len(errors))
    factor = jnp.linalg.cholesky((left + left.T) / 2)
    mean = fit.rows * jnp.append(mean_xy, weights @ mean_xy + variance)
    count = len(fit.expected_products)
    missed = fit.released[count:] - mean
    missed -= gain @ (fit.released[:count] - fit.expected_products)
    whitened = jax.scipy.linalg.solve_triangular(factor, missed, lower=True)
    log_density = -0.5 * jnp.sum(whitened**2) - jnp.sum(jnp.log(jnp.diagonal(factor)))
    return _View(
        log_density=log_density, combination=combination, mean=mean, gain=gain, factor=factor
    )


def _combine(weights: Array) -> Array:
    """The map from products of x to (x x') w and w' x x' w, as a matrix (d + 1) x products."""
    dim = len(weights)
    first, second = released_pairs(dim)
    # Gathers by fixed indices: on a CPU, scatters would cost more than the linear algebra.
    row = np.arange(dim)[:, None]
    partner = np.where(first == row, second, first)
    once = weights[partner] * ((first == row) | (second == row))
    twice = weights[first] * weights[second] * np.where(first == second, 1.0, 2.0)
    return jnp.concatenate([once, twice[None]])


def _error_covariance(variance: Array, weights: Array, second: Array) -> Array:
    """Covariance of x e and 2 w'x e + e^2."""
    crossed = 2 * variance * second @ weights
    last = 2 * weights @ crossed + 2 * variance**2
    top = jnp.concatenate([variance * second, crossed[:, None]], axis=1)
    return jnp.concatenate([top, jnp.append(crossed, last)[None]])


def _jumps(key: Array, state: _State, view: _View, fit: Fit) -> tuple[_State, _View]:
    """Metropolis steps for weights and variance in turn, with the true sums integrated out."""

    def one(number: Array, at: tuple[_State, _View]) -> tuple[_State, _View]:
        return _jump_weights(jax.random.fold_in(key, number), *at, fit)

    state, view = jax.lax.fori_loop(0, _JUMPS, one, (state, view))
    return _jump_variance(jax.random.fold_in(key, _JUMPS), state, view, fit)


def _jump_weights(key: Array, state: _State, view: _View, fit: Fit) -> tuple[_State, _View]:
    """A step that leaves the Gaussian near the posterior unchanged (Crank-Nicolson), any size."""
    key_size, key_step, key_accept = jax.random.split(key, 3)
    size = 10.0 ** -jax.random.uniform(key_size, maxval=2.0)
    normals = fit.proposal_root @ jax.random.normal(key_step, state.weights.shape)
    off = state.weights - fit.proposal_mean
    weights = fit.proposal_mean + jnp.sqrt(1 - size**2) * off + size * normals

    def score(state: _State, view: _View) -> Array:
        whitened = jax.scipy.linalg.solve_triangular(
            fit.proposal_root, state.weights - fit.proposal_mean, lower=True
        )
        return view.log_density + _log_prior(state, fit) + 0.5 * jnp.sum(whitened**2)

    return _accept(key_accept, state, view, state._replace(weights=weights), score, fit)


def _jump_variance(key: Array, state: _State, view: _View, fit: Fit) -> tuple[_State, _View]:
    """A random walk in the log of the variance, with steps of all sizes up to one half."""
    key_size, key_step, key_accept = jax.random.split(key, 3)
    size = 0.5 * 10.0 ** -jax.random.uniform(key_size, maxval=1.5)
    variance = state.variance * jnp.exp(size * jax.random.normal(key_step))

    def score(state: _State, view: _View) -> Array:
        return view.log_density + _log_prior(state, fit)

    return _accept(key_accept, state, view, state._replace(variance=variance), score, fit)


def _log_prior(state: _State, fit: Fit) -> Array:
    """Log prior of the log variance and the weights."""
    off = state.weights - fit.prior_mean
    squares = fit.prior_scale + 0.5 * off @ fit.prior_precision @ off
    power = fit.prior_shape + 0.5 * len(state.weights)
    return -power * jnp.log(state.variance) - squares / state.variance


def _accept(
    key: Array, state: _State, view: _View, proposal: _State, score: Any, fit: Fit
) -> tuple[_State, _View]:
    there = _look(proposal, fit)
    gained = score(proposal, there) - score(state, view)
    # Written so that a NaN is refused.
    accepted = -jax.random.exponential(key) < gained
    old, new = (state, view), (proposal, there)
    return jax.tree.map(lambda a, b: jnp.where(accepted, b, a), old, new)


def _draw_sums(key: Array, state: _State, view: _View, fit: Fit) -> Array:
    """The true sums given state and release: Matheron's rule, as in `exponential_family`.

    Sums and noise are drawn from the model, and moved by the regression on how much they miss the
    release; what is returned is the release less the noise so moved.
    """
    variance, weights = state
    count, dim = len(fit.expected_products), len(weights)
    normals = jax.random.normal(key, (2 * (count + dim + 1),))
    n_products, n_errors, n_square, n_noise = jnp.split(
        normals, np.cumsum([count, dim, 1]).tolist()
    )
    root_rows = jnp.sqrt(fit.rows)
    products = root_rows * fit.root_products @ n_products
    errors = root_rows * jnp.sqrt(variance) * fit.root_second @ n_errors
    square = 2 * weights @ errors + root_rows * jnp.sqrt(2.0) * variance * n_square[0]
    noise = jnp.sqrt(fit.noise_variance) * n_noise
    expected = jnp.concatenate([fit.expected_products, view.mean])
    rest = view.combination @ products + jnp.append(errors, square)
    missed = fit.released - expected - jnp.concatenate([products, rest]) - noise
    lower = jax.scipy.linalg.cho_solve(
        (view.factor, True), missed[count:] - view.gain @ missed[:count]
    )
    upper = fit.precision @ missed[:count] - view.gain.T @ lower
    return fit.released - noise - fit.noise_variance * jnp.concatenate([upper, lower])


def _conjugate(key: Array, sums: Array, fit: Fit) -> _State:
    """Variance and weights given the true sums: the normal-inverse-gamma update."""
    key_variance, key_weights = jax.random.split(key)
    dim = len(fit.prior_mean)
    both = _projected(_as_matrix(sums, fit.rows, dim))
    precision = both[:dim, :dim] + fit.prior_precision
    factor = jnp.linalg.cholesky(precision)
    shifted = fit.prior_precision @ fit.prior_mean
    mean = jax.scipy.linalg.cho_solve((factor, True), both[:dim, dim] + shifted)
    squares = both[dim, dim] + fit.prior_mean @ shifted - mean @ precision @ mean
    # Not below the prior's scale: the projection sees to it, up to rounding.
    scale = fit.prior_scale + 0.5 * jnp.maximum(squares, 0.0)
    variance = scale / jax.random.gamma(key_variance, fit.prior_shape + 0.5 * fit.rows)
    normals = jax.random.normal(key_weights, (dim,))
    step = jax.scipy.linalg.solve_triangular(factor, normals, lower=True, trans=1)
    return _State(variance, mean + jnp.sqrt(variance) * step)


def _as_matrix(sums: Array, rows: Array, dim: int) -> Array:
    """The sums of all products of (x, y) as one symmetric matrix."""
    first, second = released_pairs(dim)
    count = len(first)
    place = np.full((dim + 1, dim + 1), count + dim + 1)  # where 1 * 1 goes: the number of rows
    place[first, second] = place[second, first] = np.arange(count)
    place[dim, :dim] = place[:dim, dim] = count + np.arange(dim)
    place[dim, dim] = count + dim
    return jnp.append(sums, rows)[place]


def _projected(matrix: Array) -> Array:
    """The nearest positive semi-definite matrix: negative eigenvalues become zero."""
    values, vectors = jnp.linalg.eigh(matrix)
    projected = (vectors * jnp.maximum(values, 0.0)) @ vectors.T
    return jnp.where(values[0] < 0, projected, matrix)
