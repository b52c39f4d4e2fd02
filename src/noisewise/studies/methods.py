"""Every method of the coverage tables: from an experiment and a budget to simulated fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from noisewise.baselines import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    RegressionPrior,
    exponential_family_posterior,
    linear_regression_posterior,
    regression_sensitivity,
    regression_statistics,
)
from noisewise.mechanism import Budget
from noisewise.mechanism.accounting import calibrate
from noisewise.models import Target, build_target
from noisewise.planning import SimulatedFits, Simulator, plan, row_view, simulator
from noisewise.studies.experiments import AUTHORS_NOISE, DELTA, ROWS, Experiment
from noisewise.studies.measures import Fits
from noisewise.studies.models import log_ratios, softplus_inverse

__all__ = ["LABELS", "READINGS", "Task", "run_methods"]

LABELS = {
    "exact": "NA-DPVI (exact)",
    "nuts": "NA-DPVI (NUTS)",
    "laplace": "NA-DPVI (Laplace)",
    "naive": "Naive (last iterate)",
    "bernstein-sheldon": "Bernstein & Sheldon",
    "plain-gibbs": "Bernstein & Sheldon, plain Gibbs",
    "dpvim": "DPVIm",
    "planned": "noisewise, planned",
}
READINGS = ("exact", "nuts", "laplace")
"""Posteriors that read one and the same trace of the authors' DPVI."""
_UPPER = 2.0
"""Where the rival clips M1's records: its sampler knows of the clipping."""
_COVARIATE_BOUND, _OUTCOME_BOUND = 4.0, 5.0
_TABLES = 128


class Task(NamedTuple):
    """What a method is asked for."""

    experiment: Experiment
    epsilon: float
    numbers: Sequence[int]
    draws: int
    seed: int

    @property
    def budget(self) -> Budget:
        """The paper's delta throughout."""
        return Budget(epsilon=self.epsilon, delta=DELTA)


def run_methods(methods: Sequence[str], task: Task) -> dict[str, Fits]:
    """Fits of every named method on the same made-up tables (our own model draws its own)."""
    found: dict[str, Fits] = {}
    readings = [name for name in methods if name in READINGS]
    if "naive" in methods and not readings:
        readings = ["exact"]
    if readings:
        settings = task.experiment.authors_settings()
        ready = _simulator(task, task.experiment.model, settings, AUTHORS_NOISE.get(task.epsilon))
        each = ready.run_all(readings, task.numbers, draws=task.draws, seed=task.seed)
        found.update((name, _as_is(fits)) for name, fits in zip(readings, each, strict=True))
        found["naive"] = _naive(each[0], task)
    for name, method in _OTHERS.items():
        if name in methods:
            found[name] = method(task)
    return {name: found[name] for name in methods}


def _simulator(
    task: Task, model: Callable[..., Any], settings: Any, noise_multiplier: float | None = None
) -> Simulator:
    target, view = _target(task.experiment, model)
    return simulator(target, view, settings, ROWS, task.budget, noise_multiplier=noise_multiplier)


def _target(experiment: Experiment, model: Callable[..., Any]) -> tuple[Target, Any]:
    view = row_view(model, experiment.schema, experiment.target, None, experiment.sample)
    return build_target(model, view.simulate(np.random.default_rng(0), 4)), view


def _as_is(fits: SimulatedFits) -> Fits:
    unsettled = int(np.sum(fits.status == "NOT_CONVERGED"))
    return Fits(fits.truth, fits.draws, fits.tail_mean, unsettled)


def _naive(fits: SimulatedFits, task: Task) -> Fits:
    """The guide at the last iterate, which is Gaussian, as if that were the optimum."""
    rng = np.random.default_rng([task.seed, 2])
    shock = rng.standard_normal((len(fits.truth), task.draws, fits.truth.shape[1]))
    draws = fits.plain_mean[:, None] + fits.plain_sd[:, None] * shock
    return Fits(fits.truth, draws, fits.tail_mean)


def _dpvim(task: Task) -> Fits:
    """Aligned gradients, the averaged tail and its variance (DPVIm sec. 3)."""
    noise = AUTHORS_NOISE.get(task.epsilon)
    ready = _simulator(task, task.experiment.model, task.experiment.dpvim_settings(), noise)
    (fits,) = ready.run_all(("averaged",), task.numbers, draws=task.draws, seed=task.seed)
    return _as_is(fits)


def _planned(task: Task) -> Fits:
    """noisewise's own plan, from simulated fits but without recalibration, and its posterior, in
    the authors' coordinates. The plan's tables are not these."""
    experiment = task.experiment
    made = plan(
        experiment.ours,
        like=experiment.schema,
        n=ROWS,
        budget=task.budget,
        target=experiment.target,
        public_sample=experiment.sample,
        recalibrate=0,
    )
    ready = _simulator(task, experiment.ours, made.settings)
    fits = ready.run(task.numbers, draws=task.draws, seed=task.seed)

    def moved(theta: np.ndarray) -> np.ndarray:
        latents = ready.target.constrain(jnp.asarray(theta, jnp.float32))
        wide = {name: np.asarray(value, float) for name, value in latents.items()}
        return task.experiment.to_authors(wide)

    unsettled = int(np.sum(fits.status == "NOT_CONVERGED"))
    return Fits(moved(fits.truth), moved(fits.draws), moved(fits.tail_mean), unsettled)


def _bernstein_sheldon(task: Task, collapsed: bool = True) -> Fits:
    """One Gaussian release of the sufficient statistics with the whole budget, and Gibbs.

    ``collapsed`` adds steps with the true sums integrated out; without them it is the published
    sampler, which hardly moves where the noise is large.
    """
    if task.experiment.target is not None:
        return _gibbs_regression(task, collapsed)
    family = _FAMILIES[task.experiment.name]
    truth, tables = _simulator(
        task, task.experiment.model, task.experiment.authors_settings(), 1.0
    ).tables(task.numbers, seed=task.seed)
    sums = np.stack([family.statistics(x).sum(0) for x in tables["x"]])
    rng = np.random.default_rng([task.seed, 1])
    noise_sd = calibrate(task.budget, 1.0, 1, ()) * family.sensitivity
    released = sums + noise_sd * rng.standard_normal(sums.shape)
    theta = exponential_family_posterior(
        family, released, ROWS, noise_sd, task.draws, rng, collapsed=collapsed
    )
    draws = _TO_AUTHORS[task.experiment.name](theta)
    return Fits(truth, draws, draws.mean(1))


def _gibbs_regression(task: Task, collapsed: bool) -> Fits:
    """Gibbs-SS-Noisy: records clipped to declared bounds, moments from the noisy release itself."""
    ready = _simulator(task, task.experiment.model, task.experiment.authors_settings(), 1.0)
    bounds = (_COVARIATE_BOUND, _OUTCOME_BOUND)
    parts = []
    for first in range(0, len(task.numbers), _TABLES):  # all of X at once would be large
        truths, tables = ready.tables(task.numbers[first : first + _TABLES], seed=task.seed)
        for truth, design, outcome in zip(truths, tables["X"], tables["y"], strict=True):
            # The rival wants the column of ones last; ours has it first.
            turned = np.roll(design, -1, axis=1)
            parts.append((truth, regression_statistics(turned, outcome, *bounds).sum(0)))
    truth, sums = (np.stack(column) for column in zip(*parts, strict=True))
    rng = np.random.default_rng([task.seed, 1])
    width = truth.shape[1] - 1
    noise_sd = calibrate(task.budget, 1.0, 1, ()) * regression_sensitivity(width, *bounds)
    released = sums + noise_sd * rng.standard_normal(sums.shape)
    prior = RegressionPrior.standard(width, shape=20.0, scale=0.5, precision=0.25)
    theta = linear_regression_posterior(
        released, ROWS, noise_sd, prior, task.draws, rng, collapsed=collapsed
    )
    free = softplus_inverse(np.maximum(theta[..., :1], 1e-12))
    draws = np.concatenate([free, np.roll(theta[..., 1:], 1, axis=-1)], -1)
    return Fits(truth, draws, draws.mean(1))


_FAMILIES: dict[str, Any] = {
    "Gamma-Exponential": GammaExponential(upper=_UPPER),
    "Beta-Bernoulli": BetaBernoulli(),
    "Dirichlet-Categorical": DirichletCategorical(),
}
_TO_AUTHORS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Gamma-Exponential": softplus_inverse,
    "Beta-Bernoulli": lambda p: np.log(p) - np.log1p(-p),
    "Dirichlet-Categorical": log_ratios,
}
_OTHERS: dict[str, Callable[[Task], Fits]] = {
    "dpvim": _dpvim,
    "bernstein-sheldon": _bernstein_sheldon,
    "plain-gibbs": partial(_bernstein_sheldon, collapsed=False),
    "planned": _planned,
}
