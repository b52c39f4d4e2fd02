"""One posterior from several contexts that are as plausible as each other: their mixture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noisewise.dpvi import Trace
from noisewise.posterior.context import FitContext
from noisewise.posterior.noise_aware import infer_many
from noisewise.posterior.status import Outcome, Status


def infer_pooled(
    method: str,
    traces: Sequence[Trace],
    contexts: Sequence[FitContext],
    draws: int,
    rngs: Sequence[np.random.Generator],
    side_by_side: int | None = None,
) -> list[Outcome]:
    """`infer_many` under each of the contexts, with an equal part of the draws from each.

    Contexts differ in their reference rows: a noisy covariate shape leaves open what covariates
    are like, and what it leaves open belongs to the error bars. How a fit went is judged under the
    first context, the most plausible one; draws that are no numbers spoil it under any.

    Args:
        method: One of `METHODS`.
        traces: One a fit.
        contexts: What the fits have in common, in each of the ways it may be.
        draws: Of each fit's posterior.
        rngs: A generator a fit.
        side_by_side: Fills the fits' number up, so that one compilation serves groups of any size.
    """
    ends = np.linspace(0, draws, len(contexts) + 1).astype(int)
    each = [
        infer_many(method, traces, context, int(part), rngs, side_by_side)
        for context, part in zip(contexts, np.diff(ends), strict=True)
    ]
    return [_mixture(outcomes) for outcomes in zip(*each, strict=True)]


def _mixture(outcomes: Sequence[Outcome]) -> Outcome:
    first = outcomes[0]
    failed = any(one.status is Status.DIVERGED for one in outcomes)
    return first._replace(
        status=Status.DIVERGED if failed else first.status,
        draws=np.concatenate([one.draws for one in outcomes]),
        noise_unaware=np.concatenate([one.noise_unaware for one in outcomes]),
    )
