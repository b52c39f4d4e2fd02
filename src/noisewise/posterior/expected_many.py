"""Expected moments around many fits, each optimum moved a few times by what is found.

Where a released gradient is not the one expected of an optimum, the optimum was elsewhere: Newton's
method with the simulated sensitivity as its slope (mathematics.md eq. (19)). Truths are perturbed
as far as they are not known (eq. (18)), which moves what is found: squared residuals of a
regression hold the uncertainty of all weights together.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from noisewise._shapes import Float
from noisewise.data import Rows
from noisewise.dpvi import WIDE, TraceStatistics
from noisewise.models import Frame, Target
from noisewise.posterior.context import FitContext, Reference
from noisewise.posterior.expected import (
    ExpectedMoments,
    RecordMoments,
    SimulationPoint,
    balanced_perturbations,
    expected_moments,
    joined,
    optimum_prior,
    simulate,
)
from noisewise.posterior.mean_shift import limited_to_one_sd

_ROUNDS = (64, 8, 1)
"""Of every round, the share of the lots of records that is simulated: one in so many."""
_REACH = 4.0
"""How far from the mean iterate the optimum is looked for, in sds of where gradients were taken."""


class _Released(NamedTuple):
    """What was released of several fits, behind their burn-in."""

    steps: Float[np.ndarray, " fits"]
    mean_iterate: Float[np.ndarray, "fits dim"]
    mean_gradient: Float[np.ndarray, "fits dim"]
    """Of all records: mean released gradient over the sampling rate."""
    dispersion: Float[np.ndarray, "fits dim dim"]
    """Covariance of the points where gradients were taken: iterates, and the guide's draws."""


def expect_many(
    statistics: Sequence[TraceStatistics | None],
    context: FitContext,
    rngs: Sequence[np.random.Generator],
    width: int,
) -> list[ExpectedMoments | None]:
    """What is expected around every fit that has statistics; ``width`` fills their number up, so
    that one compilation serves groups of any size."""
    alive = [(i, part) for i, part in enumerate(statistics) if part is not None]
    results: list[ExpectedMoments | None] = [None] * len(statistics)
    if not alive:
        return results
    places = [i for i, _ in alive] + [alive[-1][0]] * (width - len(alive))
    released = _gathered([part for _, part in alive], width, context)
    dim = released.mean_iterate.shape[1]
    perturbations = {i: balanced_perturbations(rngs[i], dim) for i, _ in alive}
    seeds = {i: int(rngs[i].integers(2**31)) for i, _ in alive}
    found = _newton(
        released,
        context,
        np.stack([perturbations[i] for i in places]),
        jax.vmap(jax.random.PRNGKey)(np.array([seeds[i] for i in places])),
    )
    for place, (i, _) in enumerate(alive):
        results[i] = ExpectedMoments(*(part[place] for part in found))
    return results


def _newton(
    released: _Released,
    context: FitContext,
    normals: Float[np.ndarray, "fits perturbations dim"],
    keys: Any,
) -> ExpectedMoments:
    """Moments around the optimum of every fit, which is moved between simulations."""
    assert context.reference is not None  # `infer_many` asks for moments only where it is there
    centre, prior = released.mean_iterate, context.prior_precision
    reach = _REACH * np.sqrt(np.diagonal(released.dispersion, axis1=1, axis2=2))
    none = np.zeros_like(released.dispersion)
    point = SimulationPoint(
        optimum=centre,
        mean_iterate=centre,
        iterate_perturbations=normals @ np.linalg.cholesky(released.dispersion).mT,
        truth_perturbations=np.zeros_like(normals),
        inverse_sensitivity=none,
        shared_inverse_sensitivity=none,
        inverse_curvature=none,
    )
    for lots in _lots_by_round(context.reference.lots):
        moments = _simulated(context, context.reference, point, keys, lots)
        found = expected_moments(moments, context.public_count, prior, centre, point.optimum)
        inverse = np.linalg.inv(found.sensitivity)
        information = released.steps[:, None, None] * _step_information(found, context)
        covariance = np.linalg.inv(information + optimum_prior(found.sensitivity, prior).precision)
        # The rest of the information is the prior's, whose mean is the frame's zero.
        release_share = covariance @ information
        excess = (found.mean_gradient - released.mean_gradient)[..., None]
        moved = (release_share @ (point.optimum[..., None] + inverse @ excess))[..., 0]
        sandwich = inverse @ found.variability @ inverse
        point = point._replace(
            optimum=np.clip(moved, centre - reach, centre + reach),
            truth_perturbations=normals @ np.linalg.cholesky(covariance + sandwich).mT,
            inverse_sensitivity=inverse,
            shared_inverse_sensitivity=release_share @ inverse,
            inverse_curvature=np.linalg.inv(found.curvature),
        )
    return found._replace(
        log_determinant_gradient=limited_to_one_sd(found.log_determinant_gradient, covariance),
        mean_shift=limited_to_one_sd(found.mean_shift, inverse),
    )


def _lots_by_round(lots: int) -> list[int]:
    """The first rounds only have to come near; the last one says where the optimum is."""
    return [max(1, lots // share) for share in _ROUNDS]


def _simulated(
    context: FitContext, reference: Reference, point: SimulationPoint, keys: Any, lots: int
) -> RecordMoments:
    """Moments of so many lots of records, one after the other on the device."""
    narrow = SimulationPoint(*(jnp.asarray(part, jnp.float32) for part in point))
    found: RecordMoments | None = None
    for lot in range(lots):
        simulated = _simulate_many(
            context.rule.target,
            context.frame,
            context.clip_norm,
            reference.lot(lot),
            narrow,
            keys if lot == 0 else jax.vmap(partial(jax.random.fold_in, data=lot))(keys),
        )
        moments = RecordMoments(*(np.asarray(part, float) for part in simulated))
        found = moments if found is None else joined(found, moments)
    assert found is not None  # there is one lot at least
    return found


def _gathered(statistics: list[TraceStatistics], width: int, context: FitContext) -> _Released:
    filled = [*statistics, *statistics[-1:] * (width - len(statistics))]
    mean = np.stack([part.parameters for part in filled])
    gradient = np.stack([part.gradient for part in filled]) / context.sampling_rate
    dispersion = np.stack([part.spread / part.steps for part in filled])
    dim = mean.shape[1]
    jitter = 1e-9 * np.trace(dispersion, axis1=1, axis2=2)[:, None, None] + 1e-12
    dispersion = dispersion + jitter * np.eye(dim) + np.diag(context.guide_variance[:dim])
    return _Released(np.array([float(part.steps) for part in filled]), mean, gradient, dispersion)


def _step_information(
    found: ExpectedMoments, context: FitContext
) -> Float[np.ndarray, "fits dim dim"]:
    """kappa^2 M W^-1 M: the information of one step's gradient about the optimum, eq. (17)."""
    kappa = float(context.sampling_rate)
    sampled = kappa * (1 - kappa) * np.diagonal(found.variability, axis1=1, axis2=2)
    variance = context.noise_variance[: sampled.shape[1]] + sampled
    information: np.ndarray = (
        kappa**2 * (found.sensitivity / variance[:, None, :]) @ found.sensitivity
    )
    return information


@partial(jax.jit, static_argnums=0)
def _simulate_many(
    target: Target,
    frame: Frame,
    clip_norm: Any,
    covariates: Rows,
    points: SimulationPoint,
    keys: Any,
) -> RecordMoments:
    def one(point: SimulationPoint, key: Any) -> RecordMoments:
        return simulate(target, frame, clip_norm, covariates, point, key)

    with jax.default_matmul_precision("highest"):  # as in the fit
        if target.dim > WIDE:  # matrices of one fit at a time
            return jax.lax.map(lambda each: one(*each), (points, keys))
        return jax.vmap(one)(points, keys)
