"""How to bound a mixture's gradients, so that no part of a record is lost for the sake of another.

A record's gradient is clipped as a whole. Its parts are of different sizes: shares of categories
have gradients below one, counts and the regression have residuals, which are ten times that for
some records. Such records' shares would be clipped away with their residuals, and whatever goes
with many visits, say, would be fitted too rare. So every part is scaled by the clip norm that it
would need alone, and the regression is whitened, which also makes its coefficients independent, as
the guide takes them to be. All of it comes from simulated records; no row is read.
"""

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.data import Rows
from noisewise.mechanism import Budget
from noisewise.models import Mixture, RowView, Target, identity_frame
from noisewise.planning.mixture_tables import simulate_table
from noisewise.planning.single_release import least_noise

_SEED = 0
_TABLES, _RECORDS = 16, 4096
_BIAS = 0.3
"""Most that clipping may move the mean gradient, in sds of what moves it anyway: at 0.3, a 95%
interval still holds in 94 of 100 cases."""
_TYPICAL = 0.75
"""Over simulated truths, the quantile of the clip norms that they need."""
_CANDIDATES = 40
_RIDGE = 1e-3


class Bounds(NamedTuple):
    """A clip norm, and the coordinates in which it is one for all parts."""

    clip_norm: float
    frame_scale: np.ndarray
    """Of the components' coordinates: one for shares and weights, others for rates of counts."""
    curvature: np.ndarray | None
    """Of the regression's coordinates, which come last; None without a regression."""


def bound_gradients(target: Target, view: RowView, rows: int, budget: Budget) -> Bounds:
    """Scales and clip norm for ``rows`` records, by simulation from the prior."""
    tables = _gradients(target, view)
    shares, counts, regression = _parts(target)
    noise = least_noise(budget) / rows

    def needed(parts: Iterable[np.ndarray]) -> float:
        norms = [_least_clip_norm(part, rows, noise) for part in parts]
        return float(np.quantile(norms, _TYPICAL))

    unit = needed(table[:, shares] for table in tables)
    scale = np.ones(target.dim - len(regression))
    for place in counts:
        scale[place] = unit / needed(table[:, place] for table in tables)
    curvature, turned = None, np.zeros((0, 0))
    if len(regression):
        curvature = _second_moment([table[:, regression] for table in tables])
        white = np.linalg.inv(np.linalg.cholesky(curvature)).T
        widest = needed(table[:, regression] @ white for table in tables)
        curvature, turned = curvature * (widest / unit) ** 2, white * (unit / widest)
    first = len(scale)
    whole = (np.hstack([t[:, :first] * scale, t[:, first:] @ turned]) for t in tables)
    return Bounds(needed(whole), scale, curvature)


def _least_clip_norm(gradients: np.ndarray, rows: int, noise: float) -> float:
    """The least clip norm whose bias is small beside the luck of the rows and the noise.

    ``noise`` is the sd of the noise of a mean gradient, for a clip norm of one. The mean of these
    gradients is zero at the truth behind them, so what clipping leaves of it is bias.
    """
    norms = np.linalg.norm(gradients, axis=1)
    largest = max(float(norms.max(initial=0.0)), 1e-6)
    candidates = largest * np.geomspace(0.02, 1.0, _CANDIDATES)
    lost = np.minimum(1.0, candidates[:, None] / np.maximum(norms, 1e-30)) - 1
    bias = lost @ gradients / len(gradients)
    size = np.linalg.norm(bias, axis=1)
    along = gradients @ (bias / np.maximum(size, 1e-30)[:, None]).T
    luck = (along**2).mean(0) / rows
    small = size <= _BIAS * np.sqrt(luck + (noise * candidates) ** 2)
    # From the top, for a small norm may seem unbiased by accident.
    big_enough = len(candidates) - int(np.argmin(np.append(small[::-1], False)))
    return float(candidates[min(big_enough, len(candidates) - 1)])


def _second_moment(parts: list[np.ndarray]) -> np.ndarray:
    """Mean of the records' outer products, every simulated table counting alike, of mean trace."""
    each = np.stack([part.T @ part / len(part) for part in parts])
    traces = np.maximum(np.trace(each, axis1=1, axis2=2), 1e-30)
    shape = (each / traces[:, None, None]).mean(0)
    return shape + _RIDGE * np.trace(shape) / len(shape) * np.eye(len(shape))


class _Parts(NamedTuple):
    """Coordinates of weights and shares, of every count's rates, and of the regression."""

    shares: np.ndarray
    counts: list[np.ndarray]
    regression: np.ndarray


def _parts(target: Target) -> _Parts:
    model = target.model
    assert isinstance(model, Mixture)
    rates = {f"{feature.name}_rate" for feature in model.features if not feature.levels}
    here = {name: np.arange(target.dim)[place] for name, place in target.layout.places.items()}
    nothing = np.zeros(0, int)
    regression = nothing if model.target is None else here.pop("coefficients")
    counts = [here.pop(name) for name in list(here) if name in rates]
    return _Parts(np.concatenate(list(here.values())), counts, regression)


def _gradients(target: Target, view: RowView) -> list[np.ndarray]:
    """For simulated truths, their records' gradients (records x coordinates).

    Records that the schema rules out are left aside, for wide priors of a log rate make many, and
    so are truths that make hardly anything else.
    """
    rng = np.random.default_rng(_SEED)
    model = target.model
    assert isinstance(model, Mixture)
    tables = [simulate_table(model, view.schema, rng, _RECORDS) for _ in range(_TABLES)]
    usual = [table for table in tables if table.allowed.mean() > 0.5]
    # A schema that rules out nearly everything the prior makes says nothing of what is usual.
    found = []
    for table in usual or tables:
        gradients = np.asarray(_at_the_truth(target, table.latents, table.rows))
        kept = table.allowed if usual else np.ones(len(gradients), bool)
        found.append(gradients[kept & np.isfinite(gradients).all(axis=1)])
    return found


@partial(jax.jit, static_argnums=0)
def _at_the_truth(target: Target, latents: Rows, rows: Rows) -> Array:
    frame, truth = identity_frame(target.dim), target.unconstrain(latents)
    none = jnp.zeros((1, target.dim))
    return target.record_moments(frame, truth[None], none, target.prepare(rows, frame))[0]
