"""Whether the model fits: a small share of the budget buys the sizes of gradients at the fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from noisewise._shapes import Float
from noisewise.covariates import part_of
from noisewise.data import PrivateRows, Rows
from noisewise.fitting.method import Job
from noisewise.mechanism import in_blocks, release_sum
from noisewise.posterior import FitContext, Outcome, Status
from noisewise.posterior.gradient_sizes import (
    SIZES,
    Scatter,
    SimulatedSizes,
    compare_sizes,
    share_for_sizes,
    simulate_sizes,
    size_indicators,
)


class Judged(NamedTuple):
    """A posterior in view of the sizes that were bought."""

    outcome: Outcome
    notes: tuple[str, ...] = ()


def judge(
    job: Job,
    rows: PrivateRows,
    contexts: Sequence[FitContext],
    outcome: Outcome,
    rng: np.random.Generator,
) -> Judged:
    """Buy sizes of gradients, and widen and mark a posterior whose model they contradict.

    What is bought is on the bill already; of a fit that diverged nothing is bought.

    Args:
        job: The fit.
        rows: Prepared for its run.
        contexts: The trace was read with.
        outcome: What it was read as.
        rng: Of what is added to the draws.
    """
    if outcome.status is Status.DIVERGED:
        return Judged(outcome)
    frame = contexts[0].frame
    theta = frame.from_model_exactly(outcome.draws)
    simulated = simulate_sizes(contexts, theta)
    scatter = _bought(job, rows, contexts[0], theta.mean(0), simulated)
    if not scatter.too_much:
        return Judged(outcome)
    information = contexts[0].public_count * simulated.information + contexts[0].prior_precision
    root = np.linalg.inv(np.linalg.cholesky(information)).T
    # Sampling's part of the variance grows; that of the privacy noise stays.
    added = (scatter.inflation - 1) ** 0.5 * rng.standard_normal(theta.shape) @ root.T
    outcome = outcome._replace(draws=frame.to_model_exactly(theta + added))
    if outcome.status is not Status.NOT_CONVERGED:
        outcome = outcome._replace(status=Status.MODEL_MISFIT)
    return Judged(outcome, (scatter.words(),))


def _bought(
    job: Job,
    rows: PrivateRows,
    context: FitContext,
    point: Float[np.ndarray, " dim"],
    simulated: SimulatedSizes,
) -> Scatter:
    """What the noisy histogram of sizes says; a record is in one bin, so it moves it by one."""
    target, frame = context.rule.target, context.frame
    at, edges = jnp.asarray(point, jnp.float32), jnp.asarray(simulated.edges)

    def indicators(block: Rows) -> Rows:
        return {"bins": size_indicators(target, frame, at, edges, block)}

    found = release_sum(
        rows.map(lambda columns: in_blocks(indicators, columns)),
        1.0,
        part_of(job.budget, share_for_sizes(job.bound, job.covariate_share, job.misfit_share)),
        what=SIZES,
        insecure_seed=job.insecure_seed,
        bought=job.bought,
    )
    if job.checkpoint is not None:
        job.checkpoint.keep_bought(SIZES)
    return compare_sizes(simulated, found.total, found.noise_sd, context.public_count)
