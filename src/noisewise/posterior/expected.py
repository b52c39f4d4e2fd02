"""What the model expects of the gradients near the fit: mean, Jacobian, sensitivity, variability.

Records are simulated from the model at the fitted parameters, with covariates from the schema or a
public sample: what was released goes in, no row does. The trace model is exact only for gradients
that are neither clipped nor nonlinear over the dispersion of the iterates. How far they are from
that can be simulated, and taken off (mathematics.md section 7).
"""

from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import chdtri

from noisewise._shapes import Float
from noisewise.data import Rows
from noisewise.dpvi import WIDE
from noisewise.models import Frame, Target, without_survey_weights
from noisewise.posterior.mean_shift import (
    log_curvature_gradient,
    log_sensitivity_gradient,
    variability_gradient,
)
from noisewise.posterior.record_gradients import record_gradients

_PERTURBATIONS = 32
_JACOBIAN_RECORDS, _A_COORDINATE = 2048, 40
"""Records whose Jacobians are averaged: so many, and so many for each coordinate, of those that
there are."""
_LEAST_GAIN = 1e-3


class SimulationPoint(NamedTuple):
    """Where the iterates were, in the frame's coordinates: released quantities only."""

    optimum: Float[Any, "*fits dim"]
    """c, the best guess of the optimum so far."""
    mean_iterate: Float[Any, "*fits dim"]
    iterate_perturbations: Float[Any, "*fits points dim"]
    """From the mean iterate to where gradients were taken: iterates, and the guide's draws."""
    truth_perturbations: Float[Any, "*fits truths dim"]
    """From the optimum as far as the truth is not known, eq. (18). Opposite ones are added to
    both kinds."""
    inverse_sensitivity: Float[Any, "*fits dim dim"]
    """M^-1, as far as it is known beforehand; without it, its derivatives count as zero."""
    shared_inverse_sensitivity: Float[Any, "*fits dim dim"]
    """The release share, eq. (19), times M^-1."""
    inverse_curvature: Float[Any, "*fits dim dim"]
    """A^-1, likewise."""


class ExpectedMoments(NamedTuple):
    """Moments of the clipped gradients of all records together, prior included."""

    curvature: Float[Any, "*fits dim dim"]
    """A, eq. (12): mean Jacobian of the gradient by the iterates, over their dispersion."""
    sensitivity: Float[Any, "*fits dim dim"]
    """M, eq. (13): minus the slope of the gradient by the truth, which says how much information a
    release carries. Without clipping or dispersion it is A; clipping flattens A more."""
    variability: Float[Any, "*fits dim dim"]
    """B, eq. (14): covariance of the gradient over tables. M^-1 B M^-1 is theta's around the
    optimum; the inverse curvature where nothing is clipped."""
    mean_gradient: Float[Any, "*fits dim"]
    """G, eq. (15): mean gradient over the iterates if the optimum were the one simulated."""
    mean_gradient_variance: Float[Any, "*fits dim"]
    """Its Monte Carlo variance: what finitely many simulated records leave."""
    log_determinant_gradient: Float[Any, "*fits dim"]
    """l of eq. (24), of log |M| / |A| by the truth: where M is smaller, a release excludes less."""
    mean_shift: Float[Any, "*fits dim"]
    """h of eq. (25): M times the shift of theta's mean from the optimum, given the rows alone."""
    optimum: Float[Any, "*fits dim"]
    """c, for which all this was simulated."""
    jacobian_records: Float[Any, "*fits"]
    """From so many the curvature was simulated."""


class RecordMoments(NamedTuple):
    """What is simulated, per record. psi is a record's clipped gradient, averaged over where
    gradients were taken, and u its score: the unclipped one at the truth, without a weight."""

    psi_mean: Float[Any, "*fits dim"]
    u_mean: Float[Any, "*fits dim"]
    psi_u: Float[Any, "*fits dim dim"]
    """E[psi u^T]."""
    psi_covariance: Float[Any, "*fits dim dim"]
    u_covariance: Float[Any, "*fits dim dim"]
    jacobian: Float[Any, "*fits dim dim"]
    """Mean slope of psi by the iterates."""
    log_sensitivity_gradient: Float[Any, "*fits dim"]
    shared_log_sensitivity_gradient: Float[Any, "*fits dim"]
    """With M^-1, and with the release share times it."""
    log_curvature_gradient: Float[Any, "*fits dim"]
    variability_gradient: Float[Any, "*fits dim"]
    records: Float[Any, "*fits"]
    """How many were simulated."""
    jacobian_records: Float[Any, "*fits"]
    """Of how many the Jacobian was taken."""


_OF_JACOBIANS = ("jacobian", "log_curvature_gradient")


class OptimumPrior(NamedTuple):
    """Curvatures that are at least the prior's, and the optimum's prior precision given each."""

    curvature: Float[np.ndarray, "*many dim dim"]
    precision: Float[np.ndarray, "*many dim dim"]


_Moments = TypeVar("_Moments", RecordMoments, ExpectedMoments)


@partial(jax.jit, static_argnums=0)
def simulate(
    target: Target,
    frame: Frame,
    clip_norm: Array,
    covariates: Rows,
    point: SimulationPoint,
    key: Array,
) -> RecordMoments:
    """Simulate records at the optimum, and take their clipped gradients where the iterates were.

    Perturbations come in opposite pairs, so that little is left to Monte Carlo. ``covariates`` are
    simulated rows; their observed arguments are drawn anew. Nothing is solved or inverted in here:
    with that, XLA's thread pool waited for itself for ever (jaxlib 0.10.2, two cores, 51
    coordinates).
    """
    truths, records = _simulated_records(target, frame, covariates, point, key)
    iterates = point.mean_iterate + jnp.concatenate(
        [point.iterate_perturbations, -point.iterate_perturbations]
    )

    of_records = record_gradients(target, frame, records)
    # A record's score is of the model that it was drawn from, which knows no weights.
    scores = record_gradients(target, frame, without_survey_weights(records))
    u = scores.at(truths)
    psi = of_records.clipped_mean(iterates, clip_norm)
    some = min(max(_JACOBIAN_RECORDS, _A_COORDINATE * u.shape[1]), len(u))
    # Truths take turns from record to record, iterates from round to round of them.
    turns = jnp.arange(some) // (2 * len(point.truth_perturbations)) % len(iterates)
    jacobians = of_records.clipped_jacobians(iterates[turns], clip_norm, point.inverse_curvature)
    centred_psi, centred_u = psi - psi.mean(0), u - u.mean(0)
    along = partial(scores.along, truths)
    of_log_sensitivity = partial(log_sensitivity_gradient, along, psi, u)
    return RecordMoments(
        psi_mean=psi.mean(0),
        u_mean=u.mean(0),
        psi_u=psi.T @ u / len(u),
        psi_covariance=centred_psi.T @ centred_psi / len(u),
        u_covariance=centred_u.T @ centred_u / len(u),
        jacobian=jacobians.mean,
        log_sensitivity_gradient=of_log_sensitivity(point.inverse_sensitivity),
        shared_log_sensitivity_gradient=of_log_sensitivity(point.shared_inverse_sensitivity),
        log_curvature_gradient=log_curvature_gradient(jacobians.traces, u[:some]),
        variability_gradient=variability_gradient(psi, u, point.inverse_sensitivity),
        records=jnp.array(float(len(u))),
        jacobian_records=jnp.array(float(some)),
    )


def joined(one: RecordMoments, other: RecordMoments) -> RecordMoments:
    """Moments of both lots of records together.

    Args:
        one: In double precision, as there may be many lots.
        other: Of records of its own.
    """
    share = other.records / (one.records + other.records)
    of_jacobians = other.jacobian_records / (one.jacobian_records + other.jacobian_records)

    def mean(name: str) -> np.ndarray:
        left, right = getattr(one, name), getattr(other, name)
        weight = of_jacobians if name in _OF_JACOBIANS else share
        return np.asarray(left + _times(weight, right - left))

    def between(name: str) -> np.ndarray:
        off = getattr(other, name) - getattr(one, name)
        return np.asarray(_times(share * (1 - share), off[..., :, None] * off[..., None, :]))

    found = one._replace(**{name: mean(name) for name in RecordMoments._fields})
    return found._replace(
        psi_covariance=found.psi_covariance + between("psi_mean"),
        u_covariance=found.u_covariance + between("u_mean"),
        records=one.records + other.records,
        jacobian_records=one.jacobian_records + other.jacobian_records,
    )


def _times(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A weight for each fit."""
    return np.asarray(weights).reshape(-1, *[1] * (np.ndim(values) - 1)) * values


def expected_moments(
    found: RecordMoments,
    rows: float,
    prior_precision: Float[np.ndarray, "dim dim"],
    mean_iterate: Float[np.ndarray, "*fits dim"],
    optimum: Float[np.ndarray, "*fits dim"],
) -> ExpectedMoments:
    """From one record to all ``rows``, with the prior: eqs. (12) to (15), (24) and (25).

    The regression of psi on u, whose mean is zero, is taken off the mean gradient (a control
    variate).
    """
    found = _without_infinities(found)
    sensitivity, curvature = (
        optimum_prior(rows * _symmetrised(each) + prior_precision, prior_precision).curvature
        for each in (found.psi_u, found.jacobian)
    )
    variability = rows * found.psi_covariance + prior_precision
    dim = sensitivity.shape[-1]
    level = np.trace(found.u_covariance, axis1=-2, axis2=-1)[..., None, None] / dim
    cross = found.psi_u - found.psi_mean[..., :, None] * found.u_mean[..., None, :]
    slopes = np.linalg.solve(found.u_covariance + (1e-6 * level + 1e-30) * np.eye(dim), cross.mT)
    mean = found.psi_mean - (slopes.mT @ found.u_mean[..., None])[..., 0]
    variance = np.einsum("...ii->...i", found.psi_covariance) - np.einsum(
        "...ij,...ji->...i", cross, slopes
    )
    of_prior = (prior_precision @ (mean_iterate - optimum)[..., None])[..., 0]
    of_log_sensitivity = rows * found.log_sensitivity_gradient[..., None]
    excluded = (variability @ np.linalg.solve(sensitivity, of_log_sensitivity))[..., 0]
    freedom = np.maximum(1.0, found.records[..., None] - 1 - dim)
    return _without_infinities(
        ExpectedMoments(
            curvature=curvature,
            sensitivity=sensitivity,
            variability=variability,
            mean_gradient=rows * mean + of_prior,
            mean_gradient_variance=rows**2 * np.maximum(variance, 0.0) / freedom,
            log_determinant_gradient=rows
            * (found.shared_log_sensitivity_gradient - found.log_curvature_gradient),
            mean_shift=rows * found.variability_gradient - excluded,
            optimum=optimum,
            jacobian_records=found.jacobian_records,
        )
    )


def _without_infinities(moments: _Moments) -> _Moments:
    """Zero for what is beyond floats: such a fit is lost anyway, and must not take others along."""
    return type(moments)(*(np.nan_to_num(part, posinf=0.0, neginf=0.0) for part in moments))


def _symmetrised(matrix: np.ndarray) -> np.ndarray:
    return 0.5 * (matrix + matrix.mT)


def _simulated_records(
    target: Target, frame: Frame, covariates: Rows, point: SimulationPoint, key: Array
) -> tuple[Float[Array, "records dim"], Rows]:
    """Records, each with the truth that it was drawn at: truths around the optimum take turns."""
    rows = len(next(iter(covariates.values())))
    some = point.truth_perturbations[: max(1, rows // 2)]
    truths = point.optimum + jnp.concatenate([some, -some])
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


def balanced_perturbations(
    rng: np.random.Generator, dim: int
) -> Float[np.ndarray, "perturbations dim"]:
    """Standard normal perturbations, balanced: random rotations of the axes, made to have a second
    moment of exactly one, for bias grows with it. In few dimensions their lengths differ about as
    normal ones' do: a clipped gradient is nonlinear in another way near than far."""
    count = -(-_PERTURBATIONS // dim)
    axes = np.linalg.qr(rng.standard_normal((count, dim, dim)))[0].reshape(-1, dim)
    squares = chdtri(dim, 1 - (rng.permutation(len(axes)) + 0.5) / len(axes))
    found = np.sqrt(squares)[:, None] * axes
    root = np.linalg.cholesky(found.T @ found / len(found))
    return np.asarray(np.linalg.solve(root, found.T).T)


def optimum_prior(
    curvature: Float[np.ndarray, "*many dim dim"], prior_precision: Float[np.ndarray, "dim dim"]
) -> OptimumPrior:
    """Curvatures raised to at least the prior's, and the optimum's prior precision given each.

    Data only add to the prior's precision P. And theta's prior covariance P^-1 is the optimum's,
    over tables, plus A^-1 for theta around it: so the optimum's is P^-1 - A^-1 (eq. (17)), and
    where data say nothing the posterior is the prior, not wider.
    """
    root = np.linalg.cholesky(prior_precision)
    if len(root) > WIDE:
        gained = curvature - prior_precision
        try:  # nothing is to be raised: factors are a tenth of the work of eigenvectors
            np.linalg.cholesky(gained - _LEAST_GAIN * prior_precision)
            more = prior_precision @ np.linalg.solve(
                gained, np.broadcast_to(prior_precision, gained.shape)
            )
            return OptimumPrior(curvature, prior_precision + 0.5 * (more + more.mT))
        except np.linalg.LinAlgError:
            pass
    inverse = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(inverse @ curvature @ inverse.T)
    values = np.maximum(values, 1 + _LEAST_GAIN)[..., None, :]
    basis = root @ vectors
    return OptimumPrior((basis * values) @ basis.mT, (basis * (values / (values - 1))) @ basis.mT)
