"""From a released trace to draws of the model's parameters, by one of several methods."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisewise._validate import NoisewiseError, one_of
from noisewise.dpvi import Assembly, Settings, Trace, TraceStatistics
from noisewise.posterior import exact, laplace, matrix, nuts
from noisewise.posterior.burn_in import BurnIn, find_burn_in, within_reach
from noisewise.posterior.status import NoiseAwarePosterior, Status
from noisewise.posterior.trace_model import Priors, TraceModel, paper_priors, planned_priors

__all__ = ["METHODS", "Outcome", "infer", "trace_model"]

METHODS = ("exact", "nuts", "laplace", "naive")


class Outcome(NamedTuple):
    """Draws of theta in the frame's coordinates, and how it went."""

    draws: np.ndarray
    status: Status
    burn_in: BurnIn
    curvature: np.ndarray
    """Mean curvature over draws."""


def infer(
    method: str,
    trace: Trace,
    assembly: Assembly,
    settings: Settings,
    draws: int,
    rng: np.random.Generator,
) -> Outcome:
    """Mixture draws of theta (na-dpvi.txt eq. A7) from the trace alone."""
    one_of("posterior", method, METHODS)
    if not trace.finite:
        shape = (draws, assembly.program.rule.target.dim)
        return Outcome(np.full(shape, np.nan), Status.DIVERGED, BurnIn(0, False), np.array(np.nan))
    burn_in = find_burn_in(trace, settings.burn_in)
    statistics = trace.statistics(burn_in.blocks)
    way = "exact" if method == "naive" else method
    found = _infer_optimum(way, statistics, assembly, settings, draws, rng)
    mean_curvature = found.curvature.mean(0)
    reached = within_reach(statistics, found.optimum)
    if settings.bend and method != "naive":
        bias = settings.bend * float(np.mean(statistics.diagonal().spread / statistics.steps))
        if settings.prior_precision is not None:
            # No bias takes the optimum out of its prior.
            bias = np.minimum(bias, assembly.frame.prior_sd(settings.prior_precision))
        shock = rng.standard_normal(found.optimum.shape)
        found = found._replace(optimum=found.optimum + bias * shock)
    if method == "naive":
        # Plain DPVI: the last iterate as if it were the optimum.
        last = np.broadcast_to(np.asarray(trace.last, float), (draws, len(trace.last)))
        curvature = np.broadcast_to(mean_curvature, (draws, *mean_curvature.shape))
        found = found._replace(optimum=last, curvature=curvature)
    theta = _theta(assembly, found, rng)
    status = Status.OK
    if not np.isfinite(theta).all():
        status = Status.DIVERGED
    elif not (burn_in.settled and reached):
        status = Status.NOT_CONVERGED
    elif not found.identified:
        status = Status.CURVATURE_UNIDENTIFIED
    return Outcome(theta, status, burn_in, mean_curvature)


def _infer_optimum(
    method: str,
    statistics: TraceStatistics,
    assembly: Assembly,
    settings: Settings,
    draws: int,
    rng: np.random.Generator,
) -> NoiseAwarePosterior:
    """Draws of the optimum and the curvature by the named method."""
    if settings.full_curvature:
        if method != "exact":
            raise NoisewiseError(
                f"posterior='{method}' has a diagonal curvature only: use posterior='exact', or "
                "settings with full_curvature=False"
            )
        return matrix.infer(_matrix_model(statistics, assembly, settings), draws, rng)
    model = trace_model(statistics, assembly, settings)
    return {"exact": exact, "nuts": nuts, "laplace": laplace}[method].infer(model, draws, rng)


def trace_model(statistics: TraceStatistics, assembly: Assembly, settings: Settings) -> TraceModel:
    """The coordinate-wise model of the gradients with the priors that the settings ask for."""
    kappa, noise = assembly.setting.sampling_rate, assembly.noise_variance
    plain = statistics.diagonal()
    if settings.paper_priors or settings.curvature is None:
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
    statistics: TraceStatistics, assembly: Assembly, settings: Settings
) -> matrix.MatrixModel:
    if settings.curvature is None:
        raise NoisewiseError(
            "full_curvature needs a simulated curvature to start from: plan, or use "
            "full_curvature=False"
        )
    dim = assembly.program.rule.target.dim
    return matrix.MatrixModel(
        statistics,
        assembly.setting.sampling_rate,
        assembly.noise_variance,
        np.zeros(dim),
        _prior_precision(assembly, settings),
        settings.curvature_sd,
    )


def _theta(assembly: Assembly, found: NoiseAwarePosterior, rng: np.random.Generator) -> np.ndarray:
    """theta given optimum and curvature: the guide's draw, or N(optimum, A^-1) for means only."""
    drawn = assembly.program.rule.draw_theta(found.optimum, rng)
    if drawn is not None:
        return drawn
    shock = rng.standard_normal(found.optimum.shape)
    if found.curvature.ndim == 2:
        return found.optimum + shock * found.curvature**-0.5
    roots = np.linalg.cholesky(found.curvature)
    return found.optimum + np.linalg.solve(np.swapaxes(roots, -1, -2), shock[..., None])[..., 0]
