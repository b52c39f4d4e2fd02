"""What the model expects around fits, each optimum moved a few times by what is found.

Where a released gradient is not the one expected of an optimum, the optimum was elsewhere: Newton's
method with the simulated response as its slope. Records are made up around the optimum as far as
the truth is not known, which moves what is found: squared residuals of a regression hold the doubt
about all weights together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from noisewise.dpvi import Assembly, TraceStatistics
from noisewise.models import Frame, Rows, Target
from noisewise.posterior.asymmetry import within_one_sd
from noisewise.posterior.expected import (
    Expected,
    Moments,
    Surroundings,
    balanced_moves,
    expected,
    optimum_prior,
    simulate,
)

__all__ = ["expect_many"]

_ROUNDS = 3
_REACH = 4.0
"""How far from the mean iterate the optimum is looked for, in sds of where gradients were taken."""


class _Fits(NamedTuple):
    """What was released of several fits, behind their burn-in."""

    steps: np.ndarray
    mean: np.ndarray
    gradient: np.ndarray
    """Of all rows: mean released gradient over the sampling rate."""
    spread: np.ndarray
    """Covariance of the points where gradients were taken: iterates, and the guide's draws."""


def expect_many(
    statistics: Sequence[TraceStatistics | None],
    assembly: Assembly,
    prior: np.ndarray,
    covariates: Rows,
    rngs: Sequence[np.random.Generator],
    width: int,
) -> list[Expected | None]:
    """What is expected around every fit that has statistics; ``width`` fills their number up, so
    that one compilation serves groups of any size."""
    alive = [(i, part) for i, part in enumerate(statistics) if part is not None]
    results: list[Expected | None] = [None] * len(statistics)
    if not alive:
        return results
    places = [i for i, _ in alive] + [alive[-1][0]] * (width - len(alive))
    fits = _gathered([part for _, part in alive], width, assembly)
    dim = fits.mean.shape[1]
    turns = {i: balanced_moves(rngs[i], dim) for i, _ in alive}
    directions = np.stack([turns[i] for i in places])
    seeds = {i: int(rngs[i].integers(2**31)) for i, _ in alive}
    keys = jax.vmap(jax.random.PRNGKey)(np.array([seeds[i] for i in places]))
    reach = _REACH * np.sqrt(np.diagonal(fits.spread, axis1=1, axis2=2))
    moves = directions @ _turned(np.linalg.cholesky(fits.spread))
    optimum, doubts = fits.mean, np.zeros_like(moves)
    inverses = (np.zeros_like(fits.spread),) * 3
    for _ in range(_ROUNDS):
        parts = (optimum, fits.mean, moves, doubts, *inverses)
        around = Surroundings(*(jnp.asarray(part, jnp.float32) for part in parts))
        found = _simulated(
            assembly.program.rule.target,
            assembly.frame,
            assembly.setting.grid.clip_norm,
            covariates,
            around,
            keys,
        )
        moments = Moments(*(np.asarray(part, float) for part in found))
        many = expected(moments, float(assembly.setting.rows), prior, fits.mean, optimum)
        inverse = np.linalg.inv(many.response)
        # The optimum as far as the release says, and its prior, whose mean is the frame's zero.
        told = fits.steps[:, None, None] * _information(many, assembly)
        unknown = np.linalg.inv(told + optimum_prior(many.response, prior)[1])
        heard = unknown @ told
        excess = (many.gradient - fits.gradient)[..., None]
        moved = (heard @ (optimum[..., None] + inverse @ excess))[..., 0]
        optimum = np.clip(moved, fits.mean - reach, fits.mean + reach)
        around_it = inverse @ many.scatter @ inverse
        doubts = directions @ _turned(np.linalg.cholesky(unknown + around_it))
        inverses = (inverse, heard @ inverse, np.linalg.inv(many.curvature))
    many = many._replace(
        lean=within_one_sd(many.lean, unknown), skew=within_one_sd(many.skew, inverse)
    )
    for place, (i, _) in enumerate(alive):
        results[i] = Expected(*(part[place] for part in many))
    return results


def _turned(matrices: np.ndarray) -> np.ndarray:
    return np.swapaxes(matrices, -1, -2)


def _gathered(statistics: list[TraceStatistics], width: int, assembly: Assembly) -> _Fits:
    filled = [*statistics, *statistics[-1:] * (width - len(statistics))]
    mean = np.stack([part.parameters for part in filled])
    gradient = np.stack([part.gradient for part in filled]) / assembly.setting.sampling_rate
    spread = np.stack([part.spread / part.steps for part in filled])
    dim = mean.shape[1]
    jitter = 1e-9 * np.trace(spread, axis1=1, axis2=2)[:, None, None] + 1e-12
    drawn = np.asarray(assembly.setting.constants.fixed_scale, float)[:dim] ** 2
    spread = spread + jitter * np.eye(dim) + np.diag(drawn)
    return _Fits(np.array([float(part.steps) for part in filled]), mean, gradient, spread)


def _information(expected: Expected, assembly: Assembly) -> np.ndarray:
    """kappa^2 M W^-1 M: what one step's gradient says of the optimum, for every fit."""
    kappa = float(assembly.setting.sampling_rate)
    sampled = kappa * (1 - kappa) * np.diagonal(expected.scatter, axis1=1, axis2=2)
    variance = assembly.noise_variance[: sampled.shape[1]] + sampled
    told: np.ndarray = kappa**2 * (expected.response / variance[:, None, :]) @ expected.response
    return told


@partial(jax.jit, static_argnums=0)
def _simulated(
    target: Target,
    frame: Frame,
    clip_norm: Any,
    covariates: Rows,
    around: Surroundings,
    keys: Any,
) -> Moments:
    def one(around: Surroundings, key: Any) -> Moments:
        return simulate(target, frame, clip_norm, covariates, around, key)

    with jax.default_matmul_precision("highest"):  # as in the fit
        return jax.vmap(one)(around, keys)
