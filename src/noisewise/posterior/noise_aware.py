"""From a released trace to draws of the model's parameters, by one of several methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from noisewise._shapes import Float
from noisewise.dpvi import Settings, Trace, TraceStatistics, Variability
from noisewise.posterior import analytic, exact, laplace, nuts
from noisewise.posterior.averaging import Stationarity, average, group_stationarity
from noisewise.posterior.burn_in import (
    MOST_BURN_IN,
    BurnIn,
    find_burn_in,
    still_climbs,
    within_reach,
)
from noisewise.posterior.context import FitContext
from noisewise.posterior.expected import ExpectedMoments
from noisewise.posterior.expected_many import expect_many
from noisewise.posterior.methods import check_method
from noisewise.posterior.model_prior import UnderGaussianPrior, under_model_prior
from noisewise.posterior.status import NoiseAwarePosterior, Outcome, Status, is_usable
from noisewise.posterior.trace_model import diagonal_model
from noisewise.posterior.variability import shrunk

_DIAGONAL = {"exact": exact, "naive": exact, "nuts": nuts, "laplace": laplace}


class _Kept(NamedTuple):
    """A trace behind its burn-in."""

    burn_in: BurnIn
    statistics: TraceStatistics


def infer(
    method: str, trace: Trace, context: FitContext, draws: int, rng: np.random.Generator
) -> Outcome:
    """Mixture draws of theta (NA-DPVI eq. A7) from the trace alone.

    From the context's reference rows it is simulated what clipping and nonlinearity do to the
    gradients near the fit; without them, nothing is taken off.

    Args:
        method: One of `METHODS`.
        trace: What was released, as sums over blocks of steps.
        context: The public things that the trace is read with.
        draws: How many to return.
        rng: Of the draws.
    """
    return infer_many(method, [trace], context, draws, [rng])[0]


def infer_many(
    method: str,
    traces: Sequence[Trace],
    context: FitContext,
    draws: int,
    rngs: Sequence[np.random.Generator],
    side_by_side: int | None = None,
) -> list[Outcome]:
    """`infer` for many fits of one design, their simulations side by side on the device.

    Args:
        method: One of `METHODS`.
        traces: One of each fit.
        context: What all of them have in common.
        draws: How many to return of each.
        rngs: One for each fit.
        side_by_side: Fills the number of fits up, so that one compilation serves groups of any
            size.
    """
    settings = context.settings
    check_method(method, settings)
    if method == "averaged":
        return [
            _averaged(trace, context, draws, rng) if trace.finite else _diverged(context, draws)
            for trace, rng in zip(traces, rngs, strict=True)
        ]
    # Where scales follow by post-processing, only the means' gradients are noisy observations.
    observed = context.rule.observed
    kept = [_keep(trace.leading(observed), settings) if trace.finite else None for trace in traces]
    expectations: list[ExpectedMoments | None] = [None] * len(kept)
    if context.reference is not None and settings.full_curvature and settings.curvature is not None:
        statistics = [None if part is None else part.statistics for part in kept]
        expectations = expect_many(statistics, context, rngs, side_by_side or len(kept))
    outcomes = []
    for trace, part, expected, rng in zip(traces, kept, expectations, rngs, strict=True):
        try:
            outcomes.append(
                _diverged(context, draws)
                if part is None
                else _outcome(method, trace, part, expected, context, draws, rng)
            )
        except np.linalg.LinAlgError:  # a trace too wild for its moments to be matrices
            outcomes.append(_diverged(context, draws))
    if method == "naive":
        return outcomes
    return _with_model_prior(outcomes, context, rngs, side_by_side or len(kept))


def _with_model_prior(
    outcomes: list[Outcome],
    context: FitContext,
    rngs: Sequence[np.random.Generator],
    width: int,
) -> list[Outcome]:
    """The model's prior brought in where descent was along a Gaussian one; then recalibrated."""
    settings, frame = context.settings, context.frame
    done = [_recalibrated(one, one.draws, settings) for one in outcomes]
    alive = [k for k, one in enumerate(outcomes) if one.moments is not None]
    if not alive:
        return done
    filled = [*alive, *alive[-1:] * (width - len(alive))]
    moments = [outcomes[k].moments for k in filled]
    found = under_model_prior(
        context.rule.target,
        frame,
        context.prior_precision,
        UnderGaussianPrior(
            mean=np.stack([one.mean for one in moments if one is not None]),
            covariance=np.stack([one.covariance for one in moments if one is not None]),
            draws=np.stack([frame.from_model_exactly(outcomes[k].draws) for k in filled]),
        ),
        [np.random.default_rng(rngs[k].integers(2**63)) for k in filled],
    )
    for k, draws in zip(alive, found, strict=False):
        if np.isfinite(draws).all():
            done[k] = _recalibrated(outcomes[k], frame.to_model_exactly(draws), settings)
        else:
            done[k] = done[k]._replace(status=Status.NOT_CONVERGED)
    return done


def _recalibrated(
    outcome: Outcome, theta: Float[np.ndarray, "draws dim"], settings: Settings
) -> Outcome:
    draws = settings.recalibrated(theta)
    status = outcome.status if is_usable(draws) else Status.DIVERGED
    return outcome._replace(draws=draws, status=status)


def _keep(trace: Trace, settings: Settings) -> _Kept:
    # The paper drops a fixed share, whatever the trace looks like.
    most = settings.burn_in if settings.paper_priors else MOST_BURN_IN
    burn_in = find_burn_in(trace, settings.burn_in, most)
    return _Kept(burn_in, trace.statistics(burn_in.blocks))


def _diverged(context: FitContext, draws: int) -> Outcome:
    lost = np.full((draws, context.dim), np.nan)
    return Outcome(
        draws=lost,
        noise_unaware=lost,
        status=Status.DIVERGED,
        burn_in=BurnIn(0, False),
        curvature=np.array(np.nan),
    )


def _outcome(
    method: str,
    trace: Trace,
    kept: _Kept,
    expected: ExpectedMoments | None,
    context: FitContext,
    draws: int,
    rng: np.random.Generator,
) -> Outcome:
    settings, rule, dim = context.settings, context.rule, context.dim
    found = _infer_optimum(method, kept.statistics, expected, context, draws, rng)
    if trace.variability is not None:
        found = _with_variability(found, trace.variability, context)
    settled = kept.burn_in.settled and within_reach(kept.statistics, found.optimum)
    settled = settled and not still_climbs(trace.leading(context.rule.observed))
    averaged, theta = None, None
    # A curvature matrix knows theta's spread, and its correlations, better than a guide's scales.
    if not settings.full_curvature:
        free = found.optimum[:, dim:]
        if found.optimum.shape[1] < len(trace.last):
            averaged = average(trace, settings.slope_threshold, settings.burn_in)
            free, settled = averaged.mean[dim:], settled and bool(averaged.converged[dim:].all())
        theta = rule.draw_theta(found.optimum[:, :dim], free, rng)
    if theta is None:
        theta = found.draw_theta(rng)
    noise_unaware = context.frame.to_model_exactly(_noise_unaware(trace, found, context, rng))
    theta = context.frame.to_model_exactly(theta)  # recalibrated under the model's prior
    status = Status.OK
    if not is_usable(theta):
        status = Status.DIVERGED
    elif not settled:
        status = Status.NOT_CONVERGED
    elif not found.identified:
        status = Status.CURVATURE_UNIDENTIFIED
    moments = None
    if settings.along_gaussian_prior and method != "naive" and status != Status.DIVERGED:
        moments = found.theta_moments()
    return Outcome(
        draws=noise_unaware if method == "naive" else theta,
        noise_unaware=noise_unaware,
        status=status,
        burn_in=kept.burn_in,
        curvature=found.mean_curvature(),
        tail_mean=context.frame.to_model_exactly(kept.statistics.parameters[:dim]),
        moments=moments,
        averaged=averaged,
    )


def _with_variability(
    found: NoiseAwarePosterior, bought: Variability, context: FitContext
) -> NoiseAwarePosterior:
    """The variability that was bought in place of the simulated one, or of the curvature."""
    prior = context.prior_precision
    whole = found.mean_curvature() if found.expected is None else found.expected.variability
    return found._replace(variability=shrunk(bought, np.asarray(whole) - prior) + prior)


def _infer_optimum(
    method: str,
    statistics: TraceStatistics,
    expected: ExpectedMoments | None,
    context: FitContext,
    draws: int,
    rng: np.random.Generator,
) -> NoiseAwarePosterior:
    """Draws of the optimum and the curvature by the named method."""
    if context.settings.full_curvature:
        return analytic.infer(analytic.matrix_model(statistics, expected, context), draws, rng)
    return _DIAGONAL[method].infer(diagonal_model(statistics, context), draws, rng)


def _noise_unaware(
    trace: Trace, found: NoiseAwarePosterior, context: FitContext, rng: np.random.Generator
) -> Float[np.ndarray, "draws dim"]:
    """Plain DPVI's draws: the guide at the last iterate, or the mean curvature's Gaussian there."""
    last, dim = np.asarray(trace.last, float), context.dim
    centre = np.broadcast_to(last[:dim], (len(found.optimum), dim))
    theta = context.rule.draw_theta(centre, last[dim:], rng)
    if theta is None:
        one = np.zeros(len(centre), int)
        mean = found.mean_curvature()[None]
        if found.curvature.ndim == 2:
            mean = np.repeat(mean, len(centre), 0)
        theta = NoiseAwarePosterior(centre, mean, found.identified, which=one).draw_theta(rng)
    return theta


def _averaged(trace: Trace, context: FitContext, draws: int, rng: np.random.Generator) -> Outcome:
    """DPVIm's posterior: the guide at the averages, its variance plus the means' tails'."""
    settings, rule, frame, dim = context.settings, context.rule, context.frame, context.dim
    found = average(trace, settings.slope_threshold, settings.burn_in)
    # Means dispersed like their tails, then the guide's own draw: variances add.
    dispersed = np.sqrt(found.variance[:dim]) * rng.standard_normal((draws, dim))
    theta = rule.draw_theta(found.mean[:dim] + dispersed, found.mean[dim:], rng)
    last = np.asarray(trace.last, float)
    noise_unaware = rule.draw_theta(np.broadcast_to(last[:dim], (draws, dim)), last[dim:], rng)
    # `check_method` refuses rules without scales.
    assert theta is not None and noise_unaware is not None
    theta = settings.recalibrated(frame.to_model_exactly(theta))
    stationarity = _stationarity(trace, context)
    settled = bool(found.converged.all())
    if stationarity is not None:
        settled = all(test.passed for test in stationarity.values())
    status = Status.OK if settled else Status.NOT_CONVERGED
    if not is_usable(theta):
        status = Status.DIVERGED
    return Outcome(
        draws=theta,
        noise_unaware=frame.to_model_exactly(noise_unaware),
        status=status,
        burn_in=BurnIn(trace.block_count - int(found.blocks.min()), bool(found.flat.all())),
        curvature=np.array(np.nan),
        tail_mean=frame.to_model_exactly(found.mean[:dim]),
        averaged=found,
        stationarity=stationarity,
    )


def _stationarity(trace: Trace, context: FitContext) -> dict[str, Stationarity] | None:
    """Of a model whose coordinates are judged together: means and scales of each group."""
    rule, dim = context.rule, context.dim
    groups = rule.target.judged_together()
    if groups is None or rule.parameters != 2 * dim:
        return None
    both = {name: np.append(here, dim + here) for name, here in groups.items()}
    return group_stationarity(trace, context.settings.burn_in, both)
