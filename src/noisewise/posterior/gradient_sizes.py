"""Whether outcomes scatter more than the model says: sizes of gradients against simulated ones.

A record's gradient at the fit is as large as the record is surprising. Where counts or residuals
scatter more than the model says, more of them are large than in simulated tables, clipping takes
more from them than is simulated, and the estimates move. So a fit buys a histogram of sizes, whose
bins are quantiles of the simulated ones (mathematics.md section 18).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._shapes import Float
from noisewise._validate import NoisewiseError, shown
from noisewise.covariates import part_of, share_to_spend
from noisewise.data import Rows, record_count
from noisewise.mechanism import Budget, Release, calibrate
from noisewise.models import BoundModel, Frame, Target
from noisewise.posterior.context import FitContext
from noisewise.posterior.methods import LARGEST_MATRIX

SIZES = "sizes of gradients at the fit"
"""As certificates call what is bought."""
_SHARE = 0.02

_QUANTILES = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.98, 0.995)
_TRUTHS = 64
_RECORDS = 1024
"""That are simulated at each of the truths."""
_LARGE = 0.02
"""What counts as large: gradients that the model expects of so many people, or fewer."""
_SLACK = (0.1, 0.25)
"""Relative sds of both measures that no trial of ours rules out, for a model that is right."""
_SURE = 3.5
_LEAST_INFLATION = 1.0


def share_for_sizes(
    bound: BoundModel, covariate_share: float | None, wanted: float | None = None
) -> float:
    """The share of the budget that buys sizes of gradients; zero where there is nothing to compare
    them with: of covariates simulated from the schema alone, they say little.

    Args:
        bound: The model.
        covariate_share: As for `fit`.
        wanted: The user's own share; None is the default.
    """
    if wanted is not None and not 0 <= wanted < 1:
        raise NoisewiseError(f"misfit_share must be in [0, 1), got {shown(wanted)}")
    if bound.weighted:  # how weights go with outcomes, and so with sizes, nothing says
        if wanted:
            raise NoisewiseError(
                "misfit_share compares records with simulated ones, which survey weights make "
                "unlike: leave it out"
            )
        return 0.0
    known = bound.simulable or bound.approximate or share_to_spend(bound, covariate_share) > 0
    readable = bound.capabilities.unique_optimum and bound.target.dim <= LARGEST_MATRIX
    if not (known and readable and bound.target.has_covariates):
        return 0.0
    return _SHARE if wanted is None else wanted


def sizes_cost(
    bound: BoundModel,
    budget: Budget,
    covariate_share: float | None = None,
    wanted: float | None = None,
) -> tuple[Release, ...]:
    """What buying sizes of gradients will release: known before anything is bought.

    Args:
        bound: The model.
        budget: Of the whole fit.
        covariate_share: As for `fit`.
        wanted: The user's own share; None is the default.
    """
    share = share_for_sizes(bound, covariate_share, wanted)
    if not share:
        return ()
    noise = calibrate(part_of(budget, share), 1.0, 1)
    return (Release(what=SIZES, noise_multiplier=noise),)


class SimulatedSizes(NamedTuple):
    """Sizes of gradients in simulated tables, at one point."""

    edges: Float[np.ndarray, " edges"]
    """Of the histogram's bins: one more bin than edges."""
    shares: Float[np.ndarray, "shapes truths bins"]
    """Of records by bin, for every description of the covariates and every truth."""
    records: int
    """Rows of covariates behind each of the descriptions."""
    squares: Float[np.ndarray, " bins"]
    """Mean square of a bin's clipped gradients over that of the clip norm."""
    information: Float[np.ndarray, "dim dim"]
    """Mean outer product of a record's gradient, before the clip."""


class Measure(NamedTuple):
    """One number from a histogram, as bought and as the model expects it."""

    bought: float
    bought_sd: float
    """Of the noise that was paid for, and of who happens to be in the table."""
    expected: float
    expected_sd: float
    """Of truths, covariates and simulation."""

    @property
    def excess(self) -> float:
        """How far the bought one is above the expected one, in sds."""
        both = float(np.hypot(self.bought_sd, self.expected_sd))
        return (self.bought - self.expected) / max(both, 1e-12)


class Scatter(NamedTuple):
    """What the sizes say about the model."""

    squares: Measure
    """Mean square of clipped gradients, over that of the clip norm."""
    large: Measure
    """Share of people with large gradients."""

    @property
    def too_much(self) -> bool:
        """Whether outcomes scatter more than the model can explain."""
        return max(self.squares.excess, self.large.excess) > _SURE

    @property
    def inflation(self) -> float:
        """How many times as much a sum of clipped gradients varies over tables as is expected."""
        return max(_LEAST_INFLATION, self.squares.bought / self.squares.expected)

    def words(self) -> str:
        """What was found, and what to do about it."""
        found = max(0.0, self.large.bought)
        return (
            f"outcomes scatter more than the model says: {found:.1%} of people (bought, give or "
            f"take {self.large.bought_sd:.1%}) have gradients as large as it expects of "
            f"{self.large.expected:.1%}. Clipping cuts these, which moves the estimates, and their "
            "intervals may miss; choose a model with more scatter (negative-binomial in place of "
            "poisson, student in place of linear), or Settings with a larger clip_norm"
        )


def simulate_sizes(
    contexts: Sequence[FitContext], theta: Float[np.ndarray, "draws dim"]
) -> SimulatedSizes:
    """Sizes at the mean of a posterior's draws, of records simulated at some of the draws.

    Args:
        contexts: The first one's quantiles are the edges.
        theta: The posterior's draws in the frame's coordinates.
    """
    point = jnp.asarray(theta.mean(0), jnp.float32)
    some = theta[np.linspace(0, len(theta) - 1, _TRUTHS).astype(int)]
    tables = [context.reference.rows for context in contexts if context.reference is not None]
    found = [
        _simulated_sizes(
            contexts[0].rule.target,
            contexts[0].frame,
            point,
            jnp.asarray(some, jnp.float32),
            rows,
            jax.random.PRNGKey(number),
        )
        for number, rows in enumerate(tables)
    ]
    sizes = [np.asarray(one.sizes, float) for one in found]
    edges = np.unique(np.quantile(sizes[0], _QUANTILES).astype(np.float32))
    bins = len(edges) + 1
    shares = np.stack([[_shares(each, edges) for each in one] for one in sizes])
    places = np.searchsorted(edges, sizes[0].ravel())
    squares = np.minimum(sizes[0].ravel() / float(contexts[0].clip_norm), 1.0) ** 2
    filled = np.maximum(np.bincount(places, minlength=bins), 1)
    return SimulatedSizes(
        edges=edges,
        shares=shares,
        records=record_count(tables[0]),
        squares=np.bincount(places, squares, bins) / filled,
        information=np.asarray(found[0].information, float),
    )


def compare_sizes(
    simulated: SimulatedSizes,
    bought: Float[np.ndarray, " bins"],
    noise_sd: float,
    rows: float,
) -> Scatter:
    """The bought histogram against the simulated one.

    Args:
        simulated: By `simulate_sizes`.
        bought: Noisy counts by bin.
        noise_sd: Of the noise in every count.
        rows: The public number of rows.
    """
    usual = simulated.shares[0].mean(0)
    # The last bins that together hold as few as are called large; one at least.
    above = np.cumsum(usual[::-1])[::-1] <= _LARGE * 1.05
    large = above if above.any() else np.arange(len(usual)) == len(usual) - 1
    weights = (simulated.squares, large.astype(float))
    measures = [
        _measure(simulated, bought / rows, weight, noise_sd / rows, rows, slack)
        for weight, slack in zip(weights, _SLACK, strict=True)
    ]
    return Scatter(*measures)


def _measure(
    simulated: SimulatedSizes,
    shares: Float[np.ndarray, " bins"],
    weight: Float[np.ndarray, " bins"],
    noise: float,
    rows: float,
    slack: float,
) -> Measure:
    each = simulated.shares @ weight  # shapes x truths
    by_shape = each.mean(1)
    expected = float(by_shape[0])
    usual = simulated.shares[0].mean(0)
    within = float(usual @ weight**2 - (usual @ weight) ** 2)
    # Truths differ by what records they were given, too.
    between_truths = max(0.0, float(each[0].var(ddof=1)) - within / _RECORDS)
    between_shapes = float(np.mean((by_shape[1:] - expected) ** 2)) if len(by_shape) > 1 else 0.0
    found = float(shares @ weight)
    # The last term: the number of rows may itself be a noisy one.
    sampled = noise**2 * (weight @ weight) + within / rows + (noise * found) ** 2
    spread = within / simulated.records + between_truths + between_shapes + (slack * expected) ** 2
    return Measure(found, float(np.sqrt(sampled)), expected, float(np.sqrt(spread)))


def _shares(
    sizes: Float[np.ndarray, " records"], edges: Float[np.ndarray, " edges"]
) -> Float[np.ndarray, " bins"]:
    """Shares of sizes by bin; one on an edge is below it, as in `size_indicators`."""
    return np.bincount(np.searchsorted(edges, sizes), minlength=len(edges) + 1) / len(sizes)


@partial(jax.jit, static_argnums=0)
def size_indicators(
    target: Target, frame: Frame, point: Array, edges: Array, prepared: Rows
) -> Float[Array, "records bins"]:
    """Which bin each record's gradient is in: one 1 a record, all else 0.

    Args:
        target: The model.
        frame: Whose coordinates the gradient is by.
        point: Where it is taken, in these.
        edges: Of the bins.
        prepared: Records by `Target.prepare`.
    """
    sizes = _sizes(target, frame, point, prepared)
    return jax.nn.one_hot(jnp.sum(sizes[:, None] > edges, 1), len(edges) + 1)


def _gradients(
    target: Target, frame: Frame, point: Array, prepared: Rows
) -> Float[Array, "records dim"]:
    """By the frame's coordinates; one that is no number contributes nothing to a fit."""
    found = target.record_moments(frame, point[None], jnp.zeros((1, target.dim)), prepared)[0]
    return jnp.where(jnp.isfinite(found).all(1, keepdims=True), found, 0.0)


def _sizes(target: Target, frame: Frame, point: Array, prepared: Rows) -> Float[Array, " records"]:
    return jnp.linalg.norm(_gradients(target, frame, point, prepared), axis=1)


class _Simulated(NamedTuple):
    sizes: Float[Array, "truths records"]
    information: Float[Array, "dim dim"]


@partial(jax.jit, static_argnums=0)
def _simulated_sizes(
    target: Target,
    frame: Frame,
    point: Array,
    truths: Float[Array, "truths dim"],
    covariates: Rows,
    key: Array,
) -> _Simulated:
    """Every truth has records of its own, with covariates drawn from all there are."""
    count = record_count(covariates)

    def one(inputs: tuple[Array, Array]) -> _Simulated:
        key, truth = inputs
        which = jax.random.randint(jax.random.fold_in(key, 1), (_RECORDS,), 0, count)
        table = {name: column[which] for name, column in covariates.items()}
        drawn = target.simulate(key, frame.to_model(truth), table)
        found = _gradients(target, frame, point, target.prepare(drawn, frame))
        return _Simulated(jnp.linalg.norm(found, axis=1), found.T @ found / len(found))

    with jax.default_matmul_precision("highest"):
        found = jax.lax.map(one, (jax.random.split(key, len(truths)), truths))
    return _Simulated(found.sizes, found.information.mean(0))
