"""The noise-aware posterior with a curvature matrix, where coordinates are correlated.

    g_t ~ N(kappa A (phi_t - phi*), W),    A symmetric and positive definite

Given the trace, the gradients are linear regression with known noise, quadratic in A. A's posterior
is Laplace's approximation in its logarithm (`curvature_matrix`), the optimum given A is Gaussian
exactly (mathematics.md eqs. (16) and (17)). How far A may be from what is expected is itself judged
by the evidence of the trace. No Markov chain, no cost in steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisewise._shapes import Float
from noisewise.dpvi import WIDE, TraceStatistics
from noisewise.posterior.context import FitContext, Reference
from noisewise.posterior.curvature_matrix import (
    CurvaturePosterior,
    Regression,
    curvature_posterior,
    symmetric_root,
)
from noisewise.posterior.expected import ExpectedMoments, optimum_prior
from noisewise.posterior.status import NoiseAwarePosterior, OptimumGiven, products_by_matrix

_NARROW, _WIDER = 0.1, (0.35, 1.5)
"""Widths of the curvature's prior: without covariates the first; with them the trace chooses, and
where covariates are only like the real ones it decides alone, in all directions."""
_SHIFT_SD = 0.5
"""Relative sd of the shift by clipping and nonlinearity where covariates are only like the real
ones: it depends on more than was bought."""
_MOST_NOISE = 0.015
"""Of a share of people: with more, intervals were seen to hold two thirds of truths."""
_CURVATURE_DRAWS = 1000
_LEAST_OF_WIDE, _DRAWS_A_CURVATURE = 8, 160
"""Of many coordinates every factor takes seconds, and each coordinate sees so many directions that
curvatures hardly differ to it: one then serves many draws."""
_WELL_KNOWN, _WELL_KNOWN_OF_WIDE = 0.2, 0.35
"""Widths up to which a curvature counts as identified. Of many coordinates it is the finite number
of people that makes it wider, in all directions alike."""
_DECISIVE = np.log(100)
"""Log evidence that it takes to give up what representative records expect: chance makes some."""


class MatrixModel(NamedTuple):
    """Statistics with matrices, what is known of the noise, and priors.

    Coordinates are the frame's, in which the curvature is of order one.
    """

    statistics: TraceStatistics
    sampling_rate: float
    noise_variance: Float[np.ndarray, " dim"]
    """(sigma C / beta)^2 per coordinate."""
    prior_mean: Float[np.ndarray, " dim"]
    prior_precision: Float[np.ndarray, "dim dim"]
    """P, the inverse prior covariance of theta."""
    expected_curvature: Float[np.ndarray, "dim dim"]
    """The centre of A's prior."""
    log_curvature_sds: tuple[float, ...]
    """Prior sds of the log-eigenvalues of A around the expected one's, of which the trace picks."""
    expected: ExpectedMoments | None = None
    """What clipping and nonlinearity are expected to do; None is nothing."""
    share_noise: float = 0.0
    """Of the covariates' description, if they are known by one."""


def matrix_model(
    statistics: TraceStatistics, expected: ExpectedMoments | None, context: FitContext
) -> MatrixModel:
    """The model of the gradients with the priors that settings and simulation ask for.

    Moments of covariates that are not representative centre A's prior and are not used further
    (mathematics.md section 9).
    """
    dim, reference = context.dim, context.reference
    centre, trusted = np.eye(dim), None
    widths: tuple[float, ...] = (context.settings.curvature_sd,)
    if expected is not None and reference is not None:
        centre = np.asarray(expected.curvature)
        trusted = expected if reference.covariates_representative else None
        widths = (_narrowest_width(dim, expected, context.public_count, reference),)
        if reference.share_noise:
            # A few directions may be off by far more than all others: no one width but the widest
            # suits both, and evidence, which counts directions, would take a narrow one.
            widths = _WIDER[-1:]
        elif context.rule.target.has_covariates:
            widths += tuple(width for width in _WIDER if width > widths[0])
    return MatrixModel(
        statistics=statistics,
        sampling_rate=context.sampling_rate,
        noise_variance=context.noise_variance,
        prior_mean=np.zeros(dim),
        prior_precision=context.prior_precision,
        expected_curvature=centre,
        log_curvature_sds=widths,
        expected=trusted,
        share_noise=0.0 if reference is None else reference.share_noise,
    )


def _narrowest_width(
    dim: int, expected: ExpectedMoments, rows: float, reference: Reference
) -> float:
    """A tenth for the model, and the Monte Carlo error of the simulated curvature."""
    sampled = 1 / float(expected.jacobian_records)
    if dim > WIDE:  # of few coordinates these are small beside the tenth
        sampled += 1 / rows + 1 / reference.covariate_rows
    return float(np.hypot(_NARROW, np.sqrt(dim * sampled)))


def infer(model: MatrixModel, draws: int, rng: np.random.Generator) -> NoiseAwarePosterior:
    """Draws from p(phi*, M | trace), with the sensitivity M that goes with every curvature."""
    variance = total_variance(model)
    tried = _curvature_posteriors(model, variance)
    best = max(tried, key=lambda found: found.evidence)
    if model.expected is not None and best.evidence < tried[0].evidence + _DECISIVE:
        best = tried[0]
    count = max(min(draws, 100), min(draws // 4, _CURVATURE_DRAWS))
    if len(variance) > WIDE:
        count = min(count, max(_LEAST_OF_WIDE, draws // _DRAWS_A_CURVATURE))
    curvature = best.draw(count, rng)
    # A trace that rejects the expected curvature casts doubt on all that was expected.
    if best is not tried[0]:
        model = model._replace(expected=None)
    sensitivity, prior = optimum_prior(_sensitivities(model, curvature), model.prior_precision)
    chosen = rng.permutation(np.arange(draws) % count)
    shift_sd = _SHIFT_SD if model.share_noise else 0.0
    shift_factor = 1 + shift_sd * rng.standard_normal((count, 1))
    given = _optimum(model, variance, sensitivity, prior, shift_factor)
    inverse_roots = np.linalg.inv(np.linalg.cholesky(given.precision).mT)
    shock = rng.standard_normal((draws, len(variance)))
    return NoiseAwarePosterior(
        optimum=given.mean[chosen] + products_by_matrix(inverse_roots, chosen, shock),
        curvature=sensitivity,
        identified=bool(
            model.share_noise < _MOST_NOISE
            and (best.log_sd <= _well_known(len(variance)) or best.prior_share < 0.5)
        ),
        expected=model.expected,
        given=given,
        which=chosen,
    )


def _well_known(dim: int) -> float:
    return _WELL_KNOWN if dim <= WIDE else _WELL_KNOWN_OF_WIDE


def _curvature_posteriors(
    model: MatrixModel, variance: Float[np.ndarray, " dim"]
) -> list[CurvaturePosterior]:
    """One for every width of the prior, from narrow to wide, each started at the one before."""
    root = symmetric_root(model.expected_curvature)
    tried: list[CurvaturePosterior] = []
    for log_sd in sorted(model.log_curvature_sds):
        regression = Regression(
            weight=1 / variance,
            spread=model.sampling_rate**2 * model.statistics.spread,
            cross=model.sampling_rate * model.statistics.cross,
            expected_root=root,
            log_sd=log_sd,
        )
        start = tried[-1].log if tried else np.zeros_like(root)
        tried.append(curvature_posterior(regression, start))
        if tried[-1].evidence < tried[0].evidence:
            break  # a wider prior only loses from here on
    return tried


def total_variance(model: MatrixModel) -> Float[np.ndarray, " dim"]:
    """W: the residual variance of a least-squares fit, at least the known noise's.

    Thousands of steps pin it to a percent or two, so it is plugged in.
    """
    stats = model.statistics
    explained = np.einsum("ij,ij->i", stats.cross, stats.slopes())
    freedom = max(float(stats.steps) - len(stats.parameters) - 1, 1.0)
    return np.maximum((stats.power - explained) / freedom, model.noise_variance)


def _sensitivities(
    model: MatrixModel, curvature: Float[np.ndarray, "many dim dim"]
) -> Float[np.ndarray, "many dim dim"]:
    """M for every A, in the proportion that is expected of the two: mathematics.md eq. (20)."""
    if model.expected is None or model.share_noise > _MOST_NOISE:
        return curvature
    inverse = np.linalg.inv(np.linalg.cholesky(model.expected_curvature))
    proportion = inverse @ np.asarray(model.expected.sensitivity) @ inverse.T
    roots = np.linalg.cholesky(curvature)
    return roots @ proportion @ roots.mT


def _optimum(
    model: MatrixModel,
    variance: Float[np.ndarray, " dim"],
    sensitivity: Float[np.ndarray, "many dim dim"],
    prior: Float[np.ndarray, "many dim dim"],
    shift_factor: Float[np.ndarray, "many 1"],
) -> OptimumGiven:
    """The optimum given each M, from the mean gradient alone: eqs. (16), (17) and (24).

    ``shift_factor`` is how many times the simulated shift by clipping and nonlinearity is real.
    """
    stats, n, kappa = model.statistics, float(model.statistics.steps), model.sampling_rate
    expected = model.expected
    if expected is None:
        known = sensitivity @ stats.parameters
    else:
        # Where the line through the mean iterate, of the simulated slope, meets zero; the truth is
        # beside it by as much, whatever the slope.
        offset = stats.parameters - expected.optimum
        bias = np.asarray(expected.mean_gradient) - expected.sensitivity @ offset
        shift = np.linalg.solve(expected.sensitivity, bias)
        known = (sensitivity @ (stats.parameters + shift * shift_factor)[..., None])[..., 0]
        variance = variance + n * kappa**2 * np.asarray(expected.mean_gradient_variance)
    weighted = n * kappa * sensitivity / variance
    precision = kappa * weighted @ sensitivity + prior
    eta = (weighted @ (kappa * known - stats.gradient)[..., None])[..., 0]
    eta = eta + prior @ model.prior_mean
    if expected is not None:
        eta = eta - np.asarray(expected.log_determinant_gradient)
    mean = np.linalg.solve(precision, eta[..., None])[..., 0]
    return OptimumGiven(mean, precision, sensitivity)
