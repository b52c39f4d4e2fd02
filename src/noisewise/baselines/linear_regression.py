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
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._validate import NoisewiseError, integer_at_least, positive, shown

__all__ = [
    "RegressionPrior",
    "XMoments",
    "gaussian_moments",
    "linear_regression_posterior",
    "regression_sensitivity",
    "regression_statistics",
]

_GROUP = {"cpu": 64, "gpu": 512}
"""Fits in one compiled call: some 100 kB each at 11 weights, plus their draws."""
_JUMPS = 2
"""Metropolis steps for the weights before each sweep."""


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
        """Independent weights around zero; by default na-dpvi eq. (28)."""
        return cls(
            mean=np.zeros(weights),
            precision=positive("precision", precision) * np.eye(weights),
            shape=positive("shape", shape),
            scale=positive("scale", scale),
        )


def regression_sensitivity(weights: int, x_bound: Any, y_bound: float) -> float:
    """Largest L2 norm of a record's statistics, for ``weights`` weights, the intercept's included.

    With v = (x, 1, y), the sum of squared products v_i v_j over i <= j is
    ((sum v_i^2)^2 + sum v_i^4) / 2: it grows in every |v_i|, so it is largest at the bounds. The
    product 1 * 1 is not released. ``x_bound`` is one bound, or one for each column but the last.
    """
    squares = np.square([*_bounds(weights, x_bound), positive("y_bound", y_bound, finite=True)])
    return float(np.sqrt((squares.sum() ** 2 + (squares**2).sum()) / 2 - 1))


def regression_statistics(x: Any, y: Any, x_bound: Any, y_bound: float) -> np.ndarray:
    """Products of the clipped records, rows x k: x x' (upper triangle), x y, y^2.

    The last column of ``x`` is the constant 1. Its product with itself is left out, for its sum is
    the number of rows.
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    if x.ndim != 2 or y.shape != x.shape[:1]:
        raise NoisewiseError(f"x must be rows x columns and y rows, got {x.shape} and {y.shape}")
    if not np.all(x[:, -1] == 1):
        raise NoisewiseError("the last column of x must be the constant 1, for the intercept")
    limits = _bounds(x.shape[1], x_bound)
    x = np.clip(x, -limits, limits)
    y = np.clip(y, -y_bound, y_bound)[:, None]
    first, second = _pairs(x.shape[1])
    return np.concatenate([x[:, first] * x[:, second], x * y, y * y], axis=1)


def _bounds(weights: int, x_bound: Any) -> np.ndarray:
    """A bound for every column of x; the constant's is 1."""
    given = np.atleast_1d(np.asarray(x_bound, float))
    if given.shape not in ((1,), (weights - 1,)) or not np.all((given > 0) & np.isfinite(given)):
        raise NoisewiseError(
            f"x_bound must be one positive number or {weights - 1} of them, got {shown(x_bound)}"
        )
    return np.append(np.broadcast_to(given, (weights - 1,)), 1.0)


class XMoments(NamedTuple):
    """Moments of x, the constant last: E[x_i x_j] (d x d), E[x_i x_j x_k x_l] (d x d x d x d)."""

    second: np.ndarray
    fourth: np.ndarray


def gaussian_moments(mean: np.ndarray, covariance: np.ndarray) -> XMoments:
    """Moments of (x, 1) with Gaussian features, by Isserlis' theorem.

    In terms of second moments M and means m, E[x_i x_j x_k x_l] is the sum of M M over the three
    pairings, less twice m_i m_j m_k m_l.
    """
    mean = np.append(np.asarray(mean, float), 1.0)
    second = np.outer(mean, mean)
    second[:-1, :-1] += covariance
    pairings = sum(
        np.einsum(f"{a},{b}->ijkl", second, second)
        for a, b in (("ij", "kl"), ("ik", "jl"), ("il", "jk"))
    )
    fourth = pairings - 2 * np.einsum("i,j,k,l->ijkl", mean, mean, mean, mean)
    return XMoments(second, fourth)


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

    ``released`` is fits x k: noisy sums of `regression_statistics` over ``rows`` records, with
    Gaussian noise of ``noise_sd`` on each. ``moments`` is ``"noisy"`` or an `XMoments` known to the
    caller. ``collapsed=False`` is the paper's sampler without the Metropolis steps.
    """
    integer_at_least("rows", rows, 1)
    integer_at_least("draws", draws, 1)
    integer_at_least("warmup", warmup, 0)
    integer_at_least("thin", thin, 1)
    positive("noise_sd", noise_sd, finite=True)
    dim = len(prior.mean)
    released = np.asarray(released, float)
    statistics = dim * (dim + 3) // 2
    if released.ndim != 2 or released.shape[1] != statistics or not np.isfinite(released).all():
        raise NoisewiseError(
            f"released must be a finite array of fits x {statistics} sums for {dim} weights, "
            f"got shape {released.shape}"
        )
    if isinstance(moments, str) and moments != "noisy":
        raise NoisewiseError(f"moments must be 'noisy' or an XMoments, got {moments!r}")
    fits = [
        _constants(one, rows, noise_sd, prior, moments if isinstance(moments, XMoments) else None)
        for one in released
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
            chains = _chains(keys, stacked, draws, warmup, thin, collapsed)
            out.append(np.asarray(chains)[: len(group)])
    return np.concatenate(out) if out else np.empty((0, draws, 1 + dim))


def _pairs(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """The products of x with itself that are released: upper triangle without 1 * 1."""
    first, second = np.triu_indices(dim)
    return first[:-1], second[:-1]


class _Fit(NamedTuple):
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


def _constants(
    released: np.ndarray,
    rows: int,
    noise_sd: float,
    prior: RegressionPrior,
    moments: XMoments | None,
) -> _Fit:
    dim = len(prior.mean)
    first, second_index = _pairs(dim)
    second, fourth = _noisy_moments(released, rows, dim) if moments is None else moments
    pairs = second[first, second_index]
    products = fourth[first, second_index][:, first, second_index] - np.outer(pairs, pairs)
    variance = noise_sd**2
    values, vectors = np.linalg.eigh(products)
    values = np.maximum(values, 0.0)

    def function(of_values: np.ndarray) -> np.ndarray:
        return (vectors * of_values) @ vectors.T

    # A Gaussian near the posterior of the weights, from the sums of x y alone.
    usual = prior.scale / (prior.shape - 1) if prior.shape > 1 else prior.scale
    size = usual * (1 + np.trace(second @ np.linalg.inv(prior.precision)))
    size += prior.mean @ second @ prior.mean
    spread = variance * np.eye(dim) + rows * size * second
    slope = rows * np.linalg.solve(spread, second).T
    precision = rows * slope @ second + prior.precision / usual
    covariance = np.linalg.inv((precision + precision.T) / 2)
    centre = slope @ released[len(first) : -1] + prior.precision @ prior.mean / usual
    second_values, second_vectors = np.linalg.eigh(second)
    return _Fit(
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
        proposal_mean=covariance @ centre,
        proposal_root=np.linalg.cholesky(covariance),
        prior_mean=np.asarray(prior.mean, float),
        prior_precision=np.asarray(prior.precision, float),
        prior_shape=float(prior.shape),
        prior_scale=float(prior.scale),
    )


def _noisy_moments(released: np.ndarray, rows: int, dim: int) -> XMoments:
    """Moments of x from the noisy sums; the covariance loses its negative eigenvalues."""
    first, second = _pairs(dim)
    sums = np.zeros((dim, dim))
    sums[first, second] = sums[second, first] = released[: len(first)] / rows
    mean = sums[:-1, -1]
    values, vectors = np.linalg.eigh(sums[:-1, :-1] - np.outer(mean, mean))
    return gaussian_moments(mean, (vectors * np.maximum(values, 0.0)) @ vectors.T)


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
def _chains(keys: Array, fits: _Fit, draws: int, warmup: int, thin: int, collapsed: bool) -> Array:
    """All chains of one group, side by side: fits x draws x (1 + d)."""

    def chain(key: Array, fit: _Fit) -> Array:
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


def _start(key: Array, fit: _Fit) -> _State:
    """Weights from the Gaussian near their posterior, variance from the prior.

    (The authors start both from the prior.)
    """
    key_variance, key_weights = jax.random.split(key)
    variance = fit.prior_scale / jax.random.gamma(key_variance, fit.prior_shape)
    normals = jax.random.normal(key_weights, fit.proposal_mean.shape)
    return _State(variance, fit.proposal_mean + fit.proposal_root @ normals)


def _sweep(key: Array, state: _State, fit: _Fit, collapsed: bool) -> _State:
    key_jump, key_sums, key_conjugate = jax.random.split(key, 3)
    view = _look(state, fit)
    if collapsed:
        state, view = _jumps(key_jump, state, view, fit)
    sums = _draw_sums(key_sums, state, view, fit)
    return _conjugate(key_conjugate, sums, fit)


def _look(state: _State, fit: _Fit) -> _View:
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
    return _View(log_density, combination, mean, gain, factor)


def _combine(weights: Array) -> Array:
    """The map from products of x to (x x') w and w' x x' w, as a matrix (d + 1) x products."""
    dim = len(weights)
    first, second = _pairs(dim)
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


def _jumps(key: Array, state: _State, view: _View, fit: _Fit) -> tuple[_State, _View]:
    """Metropolis steps for weights and variance in turn, with the true sums integrated out."""

    def one(number: Array, at: tuple[_State, _View]) -> tuple[_State, _View]:
        return _jump_weights(jax.random.fold_in(key, number), *at, fit)

    state, view = jax.lax.fori_loop(0, _JUMPS, one, (state, view))
    return _jump_variance(jax.random.fold_in(key, _JUMPS), state, view, fit)


def _jump_weights(key: Array, state: _State, view: _View, fit: _Fit) -> tuple[_State, _View]:
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


def _jump_variance(key: Array, state: _State, view: _View, fit: _Fit) -> tuple[_State, _View]:
    """A random walk in the log of the variance, with steps of all sizes up to one half."""
    key_size, key_step, key_accept = jax.random.split(key, 3)
    size = 0.5 * 10.0 ** -jax.random.uniform(key_size, maxval=1.5)
    variance = state.variance * jnp.exp(size * jax.random.normal(key_step))

    def score(state: _State, view: _View) -> Array:
        return view.log_density + _log_prior(state, fit)

    return _accept(key_accept, state, view, state._replace(variance=variance), score, fit)


def _log_prior(state: _State, fit: _Fit) -> Array:
    """Log prior of the log variance and the weights."""
    off = state.weights - fit.prior_mean
    squares = fit.prior_scale + 0.5 * off @ fit.prior_precision @ off
    power = fit.prior_shape + 0.5 * len(state.weights)
    return -power * jnp.log(state.variance) - squares / state.variance


def _accept(
    key: Array, state: _State, view: _View, proposal: _State, score: Any, fit: _Fit
) -> tuple[_State, _View]:
    there = _look(proposal, fit)
    gained = score(proposal, there) - score(state, view)
    # Written so that a NaN is refused.
    accepted = -jax.random.exponential(key) < gained
    old, new = (state, view), (proposal, there)
    return jax.tree.map(lambda a, b: jnp.where(accepted, b, a), old, new)


def _draw_sums(key: Array, state: _State, view: _View, fit: _Fit) -> Array:
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


def _conjugate(key: Array, sums: Array, fit: _Fit) -> _State:
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
    first, second = _pairs(dim)
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
