"""From a released trace to draws of the model's parameters, by one of several methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from noisewise.dpvi import Assembly, Settings, Trace, TraceStatistics
from noisewise.models import Rows
from noisewise.posterior import exact, laplace, matrix, nuts
from noisewise.posterior.averaging import Averaged, Pull, average, group_pulls
from noisewise.posterior.burn_in import MOST_BURN_IN, BurnIn, find_burn_in, within_reach
from noisewise.posterior.expected import JACOBIAN_RECORDS, Expected
from noisewise.posterior.expected_many import expect_many
from noisewise.posterior.methods import METHODS, check_method
from noisewise.posterior.status import NoiseAwarePosterior, Status
from noisewise.posterior.trace_model import Priors, TraceModel, paper_priors, planned_priors

__all__ = ["METHODS", "Outcome", "Reference", "infer", "infer_many", "trace_model"]

_NARROW, _WIDER = 0.1, (0.35, 1.5)
"""Widths of the curvature's prior: without covariates the first; with them the trace chooses."""


class Outcome(NamedTuple):
    """Draws of theta in the model's unconstrained space, and how it went."""

    draws: np.ndarray
    plain: np.ndarray
    """Plain DPVI's draws: around the last iterate as if it were the optimum."""
    status: Status
    burn_in: BurnIn
    curvature: np.ndarray
    """Mean curvature over draws."""
    tail_mean: np.ndarray | None = None
    """Mean iterate behind the burn-in, in the model's unconstrained space; None if it diverged."""
    averaged: Averaged | None = None
    """Every parameter's tail and its tests, where a posterior rests on them."""
    pulls: dict[str, Pull] | None = None
    """Of a mixture, which is judged by them: whether its groups' gradients still pull."""


class Reference(NamedTuple):
    """Made-up rows of the model's arguments, for simulating the model at the fit."""

    rows: Rows
    alike: bool
    """Whether their covariates are like the data's: there are none, or they come from a public
    sample. If not, they say what curvature to expect, for the trace to correct, and no more."""


class _Kept(NamedTuple):
    """A trace behind its burn-in."""

    burn_in: BurnIn
    statistics: TraceStatistics


def infer(
    method: str,
    trace: Trace,
    assembly: Assembly,
    settings: Settings,
    draws: int,
    rng: np.random.Generator,
    reference: Reference | None = None,
) -> Outcome:
    """Mixture draws of theta (na-dpvi.txt eq. A7) from the trace alone.

    From the ``reference`` rows it is simulated what clipping and bending do to the gradients near
    the fit; without it, nothing is taken off.
    """
    return infer_many(method, [trace], assembly, settings, draws, [rng], reference)[0]


def infer_many(
    method: str,
    traces: Sequence[Trace],
    assembly: Assembly,
    settings: Settings,
    draws: int,
    rngs: Sequence[np.random.Generator],
    reference: Reference | None = None,
    side_by_side: int | None = None,
) -> list[Outcome]:
    """`infer` for many fits of one assembly, their simulations side by side on the device.

    ``side_by_side`` fills their number up, so that one compilation serves groups of any size.
    """
    check_method(method, settings)
    if method == "averaged":
        return [
            _averaged(trace, assembly, settings, draws, rng)
            if trace.finite
            else _diverged(assembly, draws)
            for trace, rng in zip(traces, rngs, strict=True)
        ]
    # Where scales follow by post-processing, only the means' gradients are noisy observations.
    observed = assembly.program.rule.observed
    kept = [_keep(trace.leading(observed), settings) if trace.finite else None for trace in traces]
    expectations: list[Expected | None] = [None] * len(kept)
    if reference is not None and settings.full_curvature and settings.curvature is not None:
        expectations = expect_many(
            [None if part is None else part.statistics for part in kept],
            assembly,
            _prior_precision(assembly, settings),
            reference.rows,
            rngs,
            side_by_side or len(kept),
        )
    outcomes = []
    for trace, part, expected, rng in zip(traces, kept, expectations, rngs, strict=True):
        model = None if expected is None or reference is None else (expected, reference.alike)
        try:
            outcomes.append(
                _diverged(assembly, draws)
                if part is None
                else _outcome(method, trace, part, model, assembly, settings, draws, rng)
            )
        except np.linalg.LinAlgError:  # a trace too wild for its moments to be matrices
            outcomes.append(_diverged(assembly, draws))
    return outcomes


def _keep(trace: Trace, settings: Settings) -> _Kept:
    # The paper drops a fixed share, whatever the trace looks like.
    most = settings.burn_in if settings.paper_priors else MOST_BURN_IN
    burn_in = find_burn_in(trace, settings.burn_in, most)
    return _Kept(burn_in, trace.statistics(burn_in.blocks))


def _diverged(assembly: Assembly, draws: int) -> Outcome:
    lost = np.full((draws, assembly.program.rule.target.dim), np.nan)
    return Outcome(lost, lost, Status.DIVERGED, BurnIn(0, False), np.array(np.nan))


def _outcome(
    method: str,
    trace: Trace,
    kept: _Kept,
    expected: tuple[Expected, bool] | None,
    assembly: Assembly,
    settings: Settings,
    draws: int,
    rng: np.random.Generator,
) -> Outcome:
    way = "exact" if method == "naive" else method
    found = _infer_optimum(way, kept.statistics, expected, assembly, settings, draws, rng)
    seen = within_reach(kept.statistics, found.optimum)
    rule = assembly.program.rule
    dim = rule.target.dim
    averaged, free = None, found.optimum[:, dim:]
    if not settings.full_curvature and found.optimum.shape[1] < len(trace.last):
        averaged = average(trace, settings.slope_threshold, settings.burn_in)
        free, seen = averaged.mean[dim:], seen and bool(averaged.converged[dim:].all())
    # A curvature matrix knows theta's spread, and its correlations, better than a guide's scales.
    theta = None
    if not settings.full_curvature:
        theta = rule.draw_theta(found.optimum[:, :dim], free, rng)
    if theta is None:
        theta = _curved(found, expected[0] if expected and found.believed else None, rng)
    mean_curvature = found.curvature.mean(0)
    last = np.asarray(trace.last, float)
    centre = np.broadcast_to(last[:dim], (draws, dim))
    plain = rule.draw_theta(centre, last[dim:], rng)
    if plain is None:
        curvature = np.broadcast_to(mean_curvature, (draws, *mean_curvature.shape))
        plain = _curved(found._replace(optimum=centre, curvature=curvature), None, rng)
    status = Status.OK
    if not np.isfinite(theta).all():
        status = Status.DIVERGED
    elif not (kept.burn_in.settled and seen):
        status = Status.NOT_CONVERGED
    elif not found.identified:
        status = Status.CURVATURE_UNIDENTIFIED
    plain = assembly.frame.to_model_exactly(plain)
    theta = settings.recalibrated(assembly.frame.to_model_exactly(theta))
    shown = plain if method == "naive" else theta
    middle = assembly.frame.to_model_exactly(kept.statistics.parameters[:dim])
    return Outcome(shown, plain, status, kept.burn_in, mean_curvature, middle, averaged)


def _averaged(
    trace: Trace, assembly: Assembly, settings: Settings, draws: int, rng: np.random.Generator
) -> Outcome:
    """DPVIm's posterior: the guide at the averages, its variance plus the means' tails'."""
    rule, frame = assembly.program.rule, assembly.frame
    dim = rule.target.dim
    found = average(trace, settings.slope_threshold, settings.burn_in)
    # Means that wander like their tails, then the guide's own draw: variances add.
    wander = np.sqrt(found.variance[:dim]) * rng.standard_normal((draws, dim))
    theta = rule.draw_theta(found.mean[:dim] + wander, found.mean[dim:], rng)
    last = np.asarray(trace.last, float)
    plain = rule.draw_theta(np.broadcast_to(last[:dim], (draws, dim)), last[dim:], rng)
    assert theta is not None and plain is not None  # `check_method` refuses rules without scales
    theta = settings.recalibrated(frame.to_model_exactly(theta))
    pulls = _pulls(trace, assembly, settings)
    settled = bool(found.converged.all())
    if pulls is not None:
        settled = all(pull.strength < pull.limit for pull in pulls.values())
    status = Status.OK if settled else Status.NOT_CONVERGED
    if not np.isfinite(theta).all():
        status = Status.DIVERGED
    return Outcome(
        theta,
        frame.to_model_exactly(plain),
        status,
        BurnIn(trace.block_count - int(found.blocks.min()), bool(found.flat.all())),
        np.array(np.nan),
        frame.to_model_exactly(found.mean[:dim]),
        found,
        pulls,
    )


def _pulls(trace: Trace, assembly: Assembly, settings: Settings) -> dict[str, Pull] | None:
    """Of a model whose coordinates are judged together: means and scales of each group."""
    rule = assembly.program.rule
    groups = rule.target.judged_together()
    if groups is None or rule.parameters != 2 * rule.target.dim:
        return None
    both = {name: np.append(here, rule.target.dim + here) for name, here in groups.items()}
    return group_pulls(trace, settings.burn_in, both)


def _infer_optimum(
    method: str,
    statistics: TraceStatistics,
    expected: tuple[Expected, bool] | None,
    assembly: Assembly,
    settings: Settings,
    draws: int,
    rng: np.random.Generator,
) -> NoiseAwarePosterior:
    """Draws of the optimum and the curvature by the named method."""
    if settings.full_curvature:
        return matrix.infer(_matrix_model(statistics, expected, assembly, settings), draws, rng)
    model = trace_model(statistics, assembly, settings)
    return {"exact": exact, "nuts": nuts, "laplace": laplace}[method].infer(model, draws, rng)


def trace_model(statistics: TraceStatistics, assembly: Assembly, settings: Settings) -> TraceModel:
    """The coordinate-wise model of the gradients with the priors that the settings ask for."""
    kappa, noise = assembly.setting.sampling_rate, assembly.noise_variance
    plain = statistics.diagonal()
    # Simulation has a curvature of the means to offer, none of released scales.
    released_scales = assembly.program.rule.observed > assembly.program.rule.target.dim
    if settings.paper_priors or settings.curvature is None or released_scales:
        return TraceModel(plain, kappa, noise, paper_priors(plain, kappa, noise))
    return TraceModel(plain, kappa, noise, _simulated_priors(assembly, settings))


def _simulated_priors(assembly: Assembly, settings: Settings) -> Priors:
    dim = assembly.program.rule.target.dim
    precision = _prior_precision(assembly, settings)
    # What clipped gradients of a Poisson sample can add at most.
    kappa = assembly.setting.sampling_rate
    most = np.sqrt(kappa * (1 - kappa) * assembly.setting.rows) * assembly.setting.grid.clip_norm
    return planned_priors(
        np.zeros(dim),
        np.sqrt(np.diag(np.linalg.inv(precision))),
        np.ones(dim),
        settings.curvature_sd,
        np.full(dim, max(float(most), 1e-6 * float(assembly.setting.grid.clip_norm))),
    )


def _prior_precision(assembly: Assembly, settings: Settings) -> np.ndarray:
    """The model's prior in the frame's coordinates: what is known of the optimum beforehand."""
    dim = assembly.program.rule.target.dim
    if settings.prior_precision is None:
        return np.eye(dim) * 1e-6
    return assembly.frame.precision(settings.prior_precision)


def _matrix_model(
    statistics: TraceStatistics,
    expected: tuple[Expected, bool] | None,
    assembly: Assembly,
    settings: Settings,
) -> matrix.MatrixModel:
    target = assembly.program.rule.target
    dim = target.dim
    centre, believed = np.eye(dim), None
    widths: tuple[float, ...] = (settings.curvature_sd,)
    if expected is not None:
        centre, believed = np.asarray(expected[0].curvature), expected[0] if expected[1] else None
        # A tenth for the model, and the Monte Carlo error of the simulated curvature.
        narrow = float(np.hypot(_NARROW, np.sqrt(dim / JACOBIAN_RECORDS)))
        widths = (
            (narrow, *(w for w in _WIDER if w > narrow)) if target.has_covariates else (narrow,)
        )
    return matrix.MatrixModel(
        statistics,
        assembly.setting.sampling_rate,
        assembly.noise_variance,
        np.zeros(dim),
        _prior_precision(assembly, settings),
        centre,
        widths,
        believed,
    )


def _curved(
    found: NoiseAwarePosterior, expected: Expected | None, rng: np.random.Generator
) -> np.ndarray:
    """theta given optimum and curvature: N(optimum, A^-1).

    Where clipping is expected to matter, A^-1 becomes the sandwich M^-1 B M^-1, and where things
    are not symmetric, the mean is beside the optimum.
    """
    shock = rng.standard_normal(found.optimum.shape)
    if found.curvature.ndim == 2:
        return found.optimum + shock * found.curvature**-0.5
    roots = np.linalg.cholesky(found.curvature)
    if expected is not None:
        inverse = np.linalg.inv(np.linalg.cholesky(expected.response))
        shock = shock @ np.linalg.cholesky(inverse @ expected.scatter @ inverse.T).T
        beside = np.linalg.solve(roots, np.broadcast_to(expected.skew, shock.shape)[..., None])
        shock = shock + beside[..., 0]
    return found.optimum + np.linalg.solve(np.swapaxes(roots, -1, -2), shock[..., None])[..., 0]
