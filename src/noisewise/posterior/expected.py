"""What the model itself expects of the gradients near the fit: their mean, slopes and spread.

Records are made up from the model at the fitted parameters, with covariates from the schema: what
was released goes in, no row does. The linear model of the trace is exact only for gradients that
are neither clipped nor bent over the region where the iterates wander. How far they are from that
can be simulated, and taken off.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import chdtri

from noisewise.models import Frame, Rows, Target
from noisewise.posterior.asymmetry import (
    curvature_slope,
    finite,
    response_slope,
    scatter_slope,
)

__all__ = [
    "JACOBIAN_RECORDS",
    "Expected",
    "Moments",
    "Surroundings",
    "balanced_moves",
    "expected",
    "optimum_prior",
    "simulate",
]

_MOVES = 32
JACOBIAN_RECORDS = 2048
_LEAST_GAIN = 1e-3


class Surroundings(NamedTuple):
    """Where the iterates were, in the frame's coordinates: released quantities only."""

    optimum: Array
    """Best guess of the optimum so far."""
    centre: Array
    """Mean of the iterates."""
    moves: Array
    """Moves away from it to where gradients were taken: iterates wander, and the guide draws."""
    doubts: Array
    """Moves away from it as far as the truth is not known; opposite ones are added to both."""
    inverse_response: Array
    """M^-1, as far as it is known beforehand; without it, slopes by the truth are zero."""
    inverse_heard: Array
    """The same, times the share of what is known that the release says; the prior says the rest."""
    inverse_curvature: Array
    """A^-1, likewise."""


class Expected(NamedTuple):
    """Moments of the clipped gradients of all rows together, prior included."""

    curvature: Any
    """A: mean slope of the gradient by the iterates, over their wander."""
    response: Any
    """M: minus the slope of the gradient by the truth, E[psi u^T] over records, which says how much
    a release knows. Without clipping or wander it is the curvature; clipping flattens A more."""
    scatter: Any
    """B: covariance, over tables, of the gradient at the truth. M^-1 B M^-1 is theta's around the
    optimum; again the inverse curvature where nothing is clipped."""
    gradient: Any
    """Mean gradient over the iterates if the optimum were the one simulated: A times their way from
    it in the linear model, and what bending and clipping change in that."""
    gradient_error: Any
    """Its variance by Monte Carlo, a coordinate each: what finitely many made-up records leave."""
    lean: Any
    """Slope of log(|M| / |A|) by the truth: where M is smaller, a release excludes less."""
    skew: Any
    """M times how far theta's mean is beside the optimum, given the rows alone."""
    optimum: Any
    """For which all this was simulated."""


class Moments(NamedTuple):
    """What is simulated, a record's share: psi is a record's clipped gradient, averaged over where
    gradients were taken, and u its plain one at the truth."""

    psi: Any
    """Mean of psi."""
    u: Any
    """Mean of u."""
    psi_u: Any
    """E[psi u^T]."""
    psi_psi: Any
    """Covariance of psi."""
    u_u: Any
    """Covariance of u."""
    bend: Any
    """Mean slope of psi by the iterates."""
    response_slope: Any
    heard_slope: Any
    """The slope of log |M|, with M^-1 and with as much of it as the release says."""
    curvature_slope: Any
    scatter_slope: Any
    records: Any
    """How many were made up."""


_Parts = TypeVar("_Parts", Moments, Expected)


@partial(jax.jit, static_argnums=0)
def simulate(
    target: Target,
    frame: Frame,
    clip_norm: Array,
    covariates: Rows,
    around: Surroundings,
    key: Array,
) -> Moments:
    """Make up records at the optimum, and take their clipped gradients where the iterates were.

    Moves come in opposite pairs, so that little is left to Monte Carlo. ``covariates`` are made-up
    rows; their observed arguments are drawn anew. Nothing is solved or inverted in here: with that,
    XLA's thread pool waited for itself for ever (jaxlib 0.10.2, two cores, 51 coordinates).
    """
    truths, records = _made_up(target, frame, covariates, around, key)
    points = around.centre + jnp.concatenate([around.moves, -around.moves])

    def gradient(point: Array, record: Rows) -> Array:
        return jax.grad(lambda at: -target.log_likelihood(frame.to_model(at), record))(point)

    def clipped(point: Array, record: Rows) -> Array:
        found = gradient(point, record)
        norm = jnp.sqrt(jnp.sum(found**2) + 1e-30)
        bounded = found * jnp.minimum(1.0, clip_norm / norm)
        return jnp.where(jnp.isfinite(norm), bounded, 0.0)

    def add(total: Array, point: Array) -> tuple[Array, None]:
        return total + jax.vmap(clipped, (None, 0))(point, records), None

    u = finite(jax.vmap(gradient)(truths, records))
    total, _ = jax.lax.scan(add, jnp.zeros_like(u), points)
    psi = total / len(points)
    some = min(JACOBIAN_RECORDS, len(u))
    chosen = jax.tree.map(lambda column: column[:some], records)
    # Truths take turns from record to record, points from round to round of them.
    at = points[jnp.arange(some) // (2 * len(around.doubts)) % len(points)]
    bends = jax.vmap(jax.jacfwd(clipped))(at, chosen)
    off_psi, off_u = psi - psi.mean(0), u - u.mean(0)
    inverse = around.inverse_response
    return Moments(
        psi.mean(0),
        u.mean(0),
        psi.T @ u / len(u),
        off_psi.T @ off_psi / len(u),
        off_u.T @ off_u / len(u),
        bends.mean(0),
        response_slope(gradient, truths, records, psi, u, inverse),
        response_slope(gradient, truths, records, psi, u, around.inverse_heard),
        curvature_slope(bends, u[:some], around.inverse_curvature),
        scatter_slope(psi, u, inverse),
        jnp.array(float(len(u))),
    )


def expected(
    found: Moments,
    rows: float,
    prior_precision: np.ndarray,
    centre: np.ndarray,
    optimum: np.ndarray,
) -> Expected:
    """From a record's share to all ``rows``, with the prior; leading axes are fits.

    What goes along with u, whose mean is zero, is taken off the mean gradient (a control variate).
    """
    found = _without_infinities(found)
    response = optimum_prior(rows * _symmetric(found.psi_u) + prior_precision, prior_precision)[0]
    curvature = optimum_prior(rows * _symmetric(found.bend) + prior_precision, prior_precision)[0]
    dim = response.shape[-1]
    level = np.trace(found.u_u, axis1=-2, axis2=-1)[..., None, None] / dim
    cross = found.psi_u - found.psi[..., :, None] * found.u[..., None, :]
    along = np.linalg.solve(found.u_u + (1e-6 * level + 1e-30) * np.eye(dim), _turned(cross))
    left = found.psi - (_turned(along) @ found.u[..., None])[..., 0]
    variance = np.einsum("...ii->...i", found.psi_psi) - np.einsum(
        "...ij,...ji->...i", cross, along
    )
    way = (prior_precision @ (centre - optimum)[..., None])[..., 0]
    scatter = rows * found.psi_psi + prior_precision
    excluded = scatter @ np.linalg.solve(response, rows * found.response_slope[..., None])
    freedom = np.maximum(1.0, found.records[..., None] - 1 - dim)
    every = Expected(
        curvature,
        response,
        scatter,
        rows * left + way,
        rows**2 * np.maximum(variance, 0.0) / freedom,
        rows * (found.heard_slope - found.curvature_slope),
        rows * found.scatter_slope - excluded[..., 0],
        optimum,
    )
    return _without_infinities(every)


def _without_infinities(parts: _Parts) -> _Parts:
    """Zero for what is beyond floats: such a fit is lost anyway, and must not take others along."""
    return type(parts)(*(np.nan_to_num(part, posinf=0.0, neginf=0.0) for part in parts))


def _turned(matrix: np.ndarray) -> np.ndarray:
    return np.swapaxes(matrix, -1, -2)


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    return 0.5 * (matrix + _turned(matrix))


def _made_up(
    target: Target, frame: Frame, covariates: Rows, around: Surroundings, key: Array
) -> tuple[Array, Rows]:
    """Records, each with the truth that it was drawn at: truths around the optimum take turns."""
    rows = len(next(iter(covariates.values())))
    some = around.doubts[: max(1, rows // 2)]
    truths = around.optimum + jnp.concatenate([some, -some])
    turns = rows // len(truths)
    grouped = {
        name: jnp.swapaxes(
            column[: turns * len(truths)].reshape(turns, len(truths), *column.shape[1:]), 0, 1
        )
        for name, column in covariates.items()
    }
    drawn = jax.vmap(lambda key, truth, table: target.simulate(key, frame.to_model(truth), table))(
        jax.random.split(key, len(truths)), truths, grouped
    )
    records = {
        name: jnp.swapaxes(column, 0, 1).reshape(-1, *column.shape[2:])
        for name, column in drawn.items()
    }
    return jnp.tile(truths, (turns, 1)), records


def balanced_moves(rng: np.random.Generator, dim: int) -> np.ndarray:
    """Standard normal moves, balanced: random rotations of the axes, made to have a second moment
    of exactly one, for bias grows with it. In few dimensions lengths differ about as normal ones'
    do: a clipped gradient bends differently near and far."""
    turns = np.linalg.qr(rng.standard_normal((-(-_MOVES // dim), dim, dim)))[0].reshape(-1, dim)
    count = len(turns)
    squares = chdtri(dim, 1 - (rng.permutation(count) + 0.5) / count)
    moves = np.sqrt(squares)[:, None] * turns
    root = np.linalg.cholesky(moves.T @ moves / count)
    return np.asarray(np.linalg.solve(root, moves.T).T)


def optimum_prior(
    curvature: np.ndarray, prior_precision: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Curvatures raised to at least the prior's, and the optimum's prior precision given each.

    Data only add to the prior's precision P. And theta's prior covariance P^-1 is the optimum's,
    over data sets, plus A^-1 for theta around it: so the optimum's is P^-1 - A^-1, and where data
    say nothing the posterior is the prior, not wider.
    """
    root = np.linalg.cholesky(prior_precision)
    inverse = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(inverse @ curvature @ inverse.T)
    values = np.maximum(values, 1 + _LEAST_GAIN)[..., None, :]
    turned = root @ vectors
    back = np.swapaxes(turned, -1, -2)
    return (turned * values) @ back, (turned * (values / (values - 1))) @ back
