"""Errors and error bars of fits of very many rows, on simulated tables.

python -m benchmarks.many_row_errors --rows 1000000 --fits 24
python -m benchmarks.many_row_errors --rows 10000000 --fits 8 --only bernoulli

Truths come from the prior, covariates of the logistic regression (five coefficients) from a public
sample, and whole fits are made with the settings that a fit without a plan gets. With millions of
rows what is left of the error is little, and what the simulation at the fit does not know of the
bias by clipping may be most of it. The bound is what one optimal release of the same budget would
leave (mathematics.md eq. (30)), at each truth.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import noisewise as nw
from noisewise.models import BoundModel, bind_model
from noisewise.models.conjugate import beta_bernoulli, gamma_exponential
from noisewise.models.glm import logistic
from noisewise.planning import guess_settings
from noisewise.planning.single_release import least_noise
from noisewise.trials import simulator

SEED, SAMPLE = 2026, 20_000
_QUANTILES = (0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999, 1.0)
_LARGEST = np.geomspace(0.5, 20.0, 60)
"""Clip norms that are tried for an exponential's gradient."""


class Problem(NamedTuple):
    """A model, and the sds that the best single release would leave at a truth."""

    name: str
    bound: BoundModel
    single_release: Callable[[np.ndarray, int, nw.Budget], np.ndarray]


def problems() -> list[Problem]:
    """Two models without covariates, and a regression with a public sample."""
    binary = nw.Schema((nw.Column(name="x", kind="binary"),))
    times = nw.Schema((nw.Column(name="x", kind="real", bounds=(0, 20)),))
    names = [f"x{k}" for k in range(4)]
    columns = [
        nw.Column(name=name, kind="real", bounds=(-6, 6), mean=0.0, sd=1.0) for name in names
    ]
    schema = nw.Schema((*columns, nw.Column(name="ill", kind="binary")))
    rng = np.random.default_rng(0)
    shared = np.sqrt(0.5) * rng.standard_normal((SAMPLE, 1))
    x = np.clip(shared + np.sqrt(0.5) * rng.standard_normal((SAMPLE, 4)), -6, 6)
    sample = nw.PublicSample({name: x[:, k] for k, name in enumerate(names)}, schema)
    design = np.column_stack([np.ones(SAMPLE), x])

    def of_logistic(truth: np.ndarray, rows: int, budget: nw.Budget) -> np.ndarray:
        return logistic_bound(design, truth, rows, budget, 1.0)

    regression = bind_model(logistic(), schema, "ill", public_sample=sample)
    return [
        Problem("bernoulli", bind_model(beta_bernoulli, binary, None), _bernoulli_bound),
        Problem("exponential", bind_model(gamma_exponential, times, None), _exponential_bound),
        Problem("logistic", regression, of_logistic),
    ]


def _bernoulli_bound(truth: np.ndarray, rows: int, budget: nw.Budget) -> np.ndarray:
    """Eq. (31)."""
    chance = 1 / (1 + np.exp(-truth))
    information = rows * chance * (1 - chance)
    noise = np.maximum(chance, 1 - chance) * least_noise(budget)
    return np.asarray(np.sqrt(1 / information + (noise / information) ** 2))


def _exponential_bound(truth: np.ndarray, rows: int, budget: nw.Budget) -> np.ndarray:
    """Of a log rate, whatever it is: the gradient is one minus a standard exponential."""
    t = np.linspace(0, 60, 200_001)
    weight = np.exp(-t) / np.exp(-t).sum()
    found = []
    for clip_norm in _LARGEST:
        psi = np.clip(t - 1, -clip_norm, clip_norm)
        sensitivity = rows * (weight @ (psi * (t - 1)))
        variability = rows * (weight @ psi**2 - (weight @ psi) ** 2)
        noise = (clip_norm * least_noise(budget)) ** 2
        found.append(np.sqrt(variability + noise) / sensitivity)
    return np.full(truth.shape, min(found))


def logistic_bound(
    design: np.ndarray, truth: np.ndarray, rows: int, budget: nw.Budget, prior_scale: float
) -> np.ndarray:
    """Of every coefficient of a logistic regression.

    Args:
        design: Rows of covariates like the table's, with a column of ones.
        truth: Coefficients.
        rows: Of the table.
        budget: Of the release.
        prior_scale: Sd of the coefficients beforehand.
    """
    x, each = np.asarray(design, float), rows / len(design)
    chance = 1 / (1 + np.exp(-(x @ truth)))
    # In coordinates in which the information is the identity, as a fit's are.
    precision = np.eye(x.shape[1]) / prior_scale**2
    information = each * (x * (chance * (1 - chance))[:, None]).T @ x + precision
    factor = np.linalg.inv(np.linalg.cholesky(information)).T
    x, precision = x @ factor, factor.T @ precision @ factor
    norms, best = np.linalg.norm(x, axis=1), None
    for clip_norm in np.quantile(norms * np.maximum(chance, 1 - chance), _QUANTILES):
        # Of a yes and of a no: sizes of the slope, and what clipping leaves of them.
        slopes = np.stack([1 - chance, chance])
        kept = slopes * np.minimum(1.0, clip_norm / (slopes * norms))
        share = np.stack([chance, 1 - chance])
        sensitivity = each * (x * (share * kept * slopes).sum(0)[:, None]).T @ x
        variability = each * (x * (share * kept**2).sum(0)[:, None]).T @ x
        noise = (clip_norm * least_noise(budget)) ** 2 * np.eye(len(precision))
        known = sensitivity @ np.linalg.solve(variability + noise, sensitivity)
        covariance = factor @ np.linalg.inv(precision + known) @ factor.T
        if best is None or np.trace(covariance) < np.trace(best):
            best = covariance
    assert best is not None
    return np.asarray(np.sqrt(np.diag(best)))


def line(found: Problem, rows: int, budget: nw.Budget, fits: int, steps: int) -> str:
    """What so many fits of one model say.

    Args:
        found: The model.
        rows: Of every simulated table.
        budget: Of every fit.
        fits: How many.
        steps: Of each.
    """
    began = time.perf_counter()
    settings = guess_settings(found.bound, rows, budget, steps)
    ready = simulator(found.bound, settings, rows, budget)
    fitted = ready.run(range(fits), draws=2000, seed=SEED)
    error = fitted.draws.mean(1) - fitted.truth
    z = error / fitted.draws.std(1)
    bound = np.stack([found.single_release(truth, rows, budget) for truth in fitted.truth])
    ratio = np.sqrt(np.mean((error / bound) ** 2))
    counts = [f"{np.sum(fitted.status == name)} {name}" for name in sorted(set(fitted.status))]
    floor = 1 / np.sqrt(2 * z.size)
    return (
        f"{found.name}, {rows:,} rows, epsilon {budget.epsilon:g}, {steps} steps, K = {fits}, seed "
        f"{SEED}: error over bound {ratio:.2f}, z sd {np.sqrt(np.mean(z**2)):.2f} (floor "
        f"{floor:.2f}), z mean {z.mean():+.2f}, {', '.join(counts)}; "
        f"{(time.perf_counter() - began) / fits:.0f} s a fit"
    )


def main() -> None:
    """Print a line for every model."""
    parser: Any = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10**6)
    parser.add_argument("--fits", type=int, default=24)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--only", default="", help="part of a model's name")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    budget = nw.Budget(epsilon=given.epsilon, delta=1e-8)
    for found in problems():
        if given.only in found.name:
            print(line(found, given.rows, budget, given.fits, given.steps), flush=True)


if __name__ == "__main__":
    main()
