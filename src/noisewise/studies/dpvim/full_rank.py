"""DPVIm Fig. 6 (sec. 4.4, App. J): full-rank guides for a linear regression on correlated data."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from noisewise._validate import NoisewiseError, integer_at_least
from noisewise.guides import FullRankGuide
from noisewise.models.glm import Glm
from noisewise.studies.core.comparison import Comparison
from noisewise.studies.core.lines import Line, Panel, lies_beyond
from noisewise.studies.core.study import Column, Options, Part
from noisewise.studies.dpvim.common import Noise, budgets_noise, fit_budgets, rule_settings
from noisewise.trials import target_for

_ROWS = 10_000
_CLIP_NORM = 0.2
_START_RADIUS = 2.0
_VARIANTS = {
    f"d{dim}-density{density:g}": (dim, density) for density in (0.8, 0.2) for dim in (100, 200)
}
"""Dimension and density by the names of parts."""
_NODES = 32
_LEAST_EIGENVALUE = 0.05
_STRENGTH = (8.0, 10.0)
"""alpha and beta of a correlation's Beta distribution."""
_SD_SPREAD = 0.2


@dataclass(frozen=True)
class GammaNoiseRegression(Glm):
    """DPVIm eqs. J.1 to J.3: weights N(0, I), sd of the noise Gamma(0.1, 0.1).

    A record's gradient is that of `Glm`, in closed form.
    """

    family: str = "linear"

    def __call__(self, X: Any, y: Any = None) -> None:
        weights = numpyro.sample("weights", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
        noise = numpyro.sample("noise", dist.Gamma(0.1, 0.1))
        with numpyro.plate("records", X.shape[0]):
            numpyro.sample("y", self.likelihood(X @ weights, noise), obs=y)


class RegressionTables(NamedTuple):
    """Training and test rows of one simulated regression."""

    train: dict[str, np.ndarray]
    test: dict[str, np.ndarray]
    weights: np.ndarray


def correlation_matrix(dim: int, density: float, rng: np.random.Generator) -> np.ndarray:
    """DPVIm Algorithm J.1, made positive definite.

    The algorithm's matrix has a share ``density`` of non-zero correlations of about 0.44 with
    random signs, and is far from positive definite: its least eigenvalue falls like minus the
    square root of the correlations in a row. All of them are therefore shrunk by one factor, the
    largest that leaves a least eigenvalue of 0.05. That keeps the zeros, and so the density,
    exactly, the signs and the ratios too; what it gives up is strength, which no matrix with such
    signs could have.
    """
    integer_at_least("dim", dim, 2)
    if not 0 <= density <= 1:
        raise NoisewiseError(f"density must be in [0, 1], got {density!r}")
    rows, columns = np.tril_indices(dim, -1)
    some = rng.choice(len(rows), round(density * len(rows)), replace=False)
    strengths = rng.beta(*_STRENGTH, len(some)) * rng.choice((-1.0, 1.0), len(some))
    off_diagonal = np.zeros((dim, dim))
    off_diagonal[rows[some], columns[some]] = strengths
    off_diagonal += off_diagonal.T
    least = np.linalg.eigvalsh(off_diagonal)[0]
    shrink = 1.0 if least >= _LEAST_EIGENVALUE - 1 else (1 - _LEAST_EIGENVALUE) / -least
    return np.eye(dim) + shrink * off_diagonal


def regression_tables(
    dim: int, density: float, rows: int, rng: np.random.Generator
) -> RegressionTables:
    """Covariates N(0, D C D) with sds D = exp(N(0, 0.2^2)), weights N(0, I), noise of sd 1; as many
    rows of training as of test. ``density`` is the share of correlations C that are not zero."""
    sds = np.exp(_SD_SPREAD * rng.standard_normal(dim))
    root = sds[:, None] * np.linalg.cholesky(correlation_matrix(dim, density, rng))
    weights = rng.standard_normal(dim)

    def table() -> dict[str, np.ndarray]:
        X = rng.standard_normal((rows, dim)) @ root.T
        y = X @ weights + rng.standard_normal(rows)
        return {"X": X.astype(np.float32), "y": y.astype(np.float32)}

    return RegressionTables(table(), table(), weights)


def variant_tables(variant: str, seed: int) -> RegressionTables:
    """The same for every rule and repeat."""
    dim, density = _VARIANTS[variant]
    rng = np.random.default_rng([seed, dim, round(1000 * density)])
    return regression_tables(dim, density, _ROWS, rng)


def _parts(options: Options) -> list[Part]:
    return [Part(rule, variant) for variant in _VARIANTS for rule in options.methods]


def _prepare(options: Options) -> Noise:
    return budgets_noise(options, _ROWS)


def _run(part: Part, options: Options, noise: Noise) -> list[Line]:
    tables = variant_tables(part.variant, options.seed)
    # DPVIm App. F and J.
    fixed: dict[str, Any] = {"clip_norm": _CLIP_NORM, "initial_sd": 0.1, "guide": "full_rank"}
    settings = rule_settings(part.method, epochs=options.epochs, **fixed)
    target = target_for(GammaNoiseRegression(), tables.train)
    rng = np.random.default_rng([options.seed, 2])
    starts = rng.uniform(-_START_RADIUS, _START_RADIUS, (options.fits, target.dim))
    levels = fit_budgets(target, tables.train, settings, options, noise, starts)
    scores = [
        [predictive_log_likelihood(*_moments(trace.last), tables.test) for trace in traces]
        for traces in levels
    ]
    best = predictive_log_likelihood(*laplace_guide(tables.train), tables.test)
    flat = np.full((len(levels), 1), best)
    ours = Line(panel=part.variant, name=part.method, x=options.epsilons, values=np.array(scores))
    return [ours, ours._replace(name="non-private", values=flat, dashed=True)]


def _moments(parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of a fitted guide, which has d (d + 3) / 2 parameters."""
    dim = (math.isqrt(9 + 8 * len(parameters)) - 3) // 2
    factor = np.asarray(FullRankGuide(dim).factor(jnp.asarray(parameters[dim:])), float)
    return np.asarray(parameters[:dim], float), factor @ factor.T


def laplace_guide(train: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance that a guide would have without privacy, up to terms of order 1/N.

    The exact posterior of the weights at the maximum-likelihood noise, and the Fisher information
    2 N of the noise's logarithm.
    """
    X, y = np.asarray(train["X"], float), np.asarray(train["y"], float)
    rows, dim = X.shape
    residual = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
    variance = residual @ residual / rows
    covariance = np.zeros((dim + 1, dim + 1))
    covariance[:dim, :dim] = np.linalg.inv(X.T @ X / variance + np.eye(dim))
    covariance[dim, dim] = 1 / (2 * rows)
    mean = covariance[:dim, :dim] @ (X.T @ y) / variance
    return np.append(mean, 0.5 * np.log(variance)), covariance


def predictive_log_likelihood(
    mean: np.ndarray, covariance: np.ndarray, test: dict[str, np.ndarray]
) -> float:
    """Mean over test rows of log E_q[N(y | x'w, sigma)], with (w, log sigma) ~ N(mean, covariance).

    Given the noise, weights are Gaussian and integrate out; what remains is one-dimensional, and
    done by quadrature instead of Monte Carlo. NaN for a guide that is not finite.
    """
    if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
        return float("nan")
    X, y = np.asarray(test["X"], float), np.asarray(test["y"], float)
    noise_sd = np.sqrt(covariance[-1, -1])
    regression = covariance[:-1, -1] / noise_sd  # of the weights on the noise's logarithm
    given = covariance[:-1, :-1] - np.outer(regression, regression)
    spread = np.einsum("ij,jk,ik->i", X, given, X, optimize=True)
    residual, moved = y - X @ mean[:-1], X @ regression
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    logs = np.full(len(y), -np.inf)
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        variance = spread + np.exp(2 * (mean[-1] + noise_sd * node))
        square = (residual - moved * node) ** 2 / variance
        logs = np.logaddexp(logs, np.log(weight) - 0.5 * (square + np.log(2 * np.pi * variance)))
    return float(logs.mean())


_WORDS = {name: f"d = {dim}, density {density:g}" for name, (dim, density) in _VARIANTS.items()}


FULL_RANK = Comparison(
    name="full-rank",
    title="DPVIm, Fig. 6: full-rank guides for a linear regression",
    columns=(Column(1.0),),
    methods=("vanilla", "aligned"),
    more_methods=("preconditioned",),
    fits=50,
    epochs=1000,
    panels=tuple(
        Panel(name, f"Fig. 6: {words}", x="ε", y="predictive log-likelihood")
        for name, words in _WORDS.items()
    ),
    parts=_parts,
    prepare=_prepare,
    run=_run,
    claims={
        f"aligned is above vanilla at {words}": lies_beyond(
            name, "aligned", ("vanilla",), larger=True
        )
        for name, words in _WORDS.items()
    },
    notes=(
        f"{_ROWS:,} training and as many test rows, the same for every repeat; δ = 1/N.",
        "Algorithm J.1's matrix is not positive definite: all of its correlations are shrunk by "
        "one factor, the largest that leaves a least eigenvalue of 0.05, which keeps density and "
        "signs.",
        "Guides start without correlations, at sds of 0.1 and means uniform within ± 2 (NumPyro's "
        "defaults; the paper does not say).",
        "Log-likelihoods are means over test rows; weights are integrated out exactly, the noise's "
        "logarithm by quadrature.",
        "Non-private: the exact posterior at the maximum-likelihood noise.",
    ),
)
