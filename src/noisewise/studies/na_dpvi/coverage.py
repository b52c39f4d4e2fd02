"""NA-DPVI Tables 1 and 2: every method on simulated tables, and how well its posteriors cover."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from noisewise import baselines, evaluation
from noisewise.dpvi import Settings
from noisewise.evaluation import LEVELS
from noisewise.mechanism import Budget
from noisewise.mechanism.accounting import calibrate
from noisewise.models import bind_model
from noisewise.planning import plan
from noisewise.studies.core.study import Measure, Options, Part
from noisewise.studies.core.table import READINGS, table_cells
from noisewise.studies.na_dpvi import experiments
from noisewise.studies.na_dpvi.experiments import AUTHORS_NOISE, ROWS, Experiment, softplus_inverse
from noisewise.trials import SimulatedFits, Simulator, simulator

REPETITIONS = 20
_UPPER = 2.0
"""Where the rival clips M1's records: its sampler knows of the clipping."""
_COVARIATE_BOUND, _OUTCOME_BOUND = 4.0, 5.0
_TABLES = 128


class Fits(NamedTuple):
    """A method's posteriors of many simulated tables, in the authors' coordinates."""

    truth: np.ndarray
    """Fits x coordinates."""
    draws: np.ndarray
    """Fits x draws x coordinates; NaN where a fit failed."""
    centre: np.ndarray
    """What reference points are drawn around: the mean of the noisy iterates, or the posterior's
    where a method has none."""
    unsettled: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class CoverageMeasure(Measure):
    """One cell of a coverage table. Repetitions redraw reference points on the same fits, as the
    paper did: not the uncertainty over data sets, which is the floor's business."""

    z_mean: np.ndarray
    z_sd: np.ndarray
    error: np.ndarray
    reported: np.ndarray

    def details(self) -> dict[str, str]:
        """Over coordinates."""
        return {
            "z mean": _range(self.z_mean, 2),
            "z sd": _range(self.z_sd, 2),
            "error": _range(self.error, 3),
            "reported sd": _range(self.reported, 3),
            **super().details(),
        }


def _range(values: np.ndarray, digits: int) -> str:
    """All coordinates' range; one number where there is one coordinate."""
    low, high = np.min(values), np.max(values)
    if len(values) == 1:
        return f"{low:.{digits}f}"
    return f"{low:.{digits}f} to {high:.{digits}f}"


def measure_coverage(found: Fits, seed: int = 0, levels: np.ndarray = LEVELS) -> CoverageMeasure:
    """TARP as in NA-DPVI App. H.4: Euclidean, unscaled, reference points within four posterior sds.

    The paper's code dropped failed fits; here they count as not covered.
    """
    shares = repeated_shares(found, seed)
    curves = evaluation.coverage_curve(shares, levels)
    errors = evaluation.coverage_rmse(shares, levels)
    scores = evaluation.score(found.truth, found.draws)
    return CoverageMeasure(
        rmse=float(np.mean(errors)),
        rmse_sd=float(np.std(errors)),
        floor=evaluation.rmse_floor(len(found.truth)),
        **scores._asdict(),
        unsettled=found.unsettled,
        curve=curves.mean(1),
        curve_sd=curves.std(1),
    )


def repeated_shares(found: Fits, seed: int) -> np.ndarray:
    """`tarp_shares` for every repetition's reference points at once (fits x repetitions).

    Draws are moved to the centre and squared distances multiplied out, so that all repetitions of
    a fit are one matrix product.
    """
    rngs = [np.random.default_rng([seed, repetition]) for repetition in range(REPETITIONS)]
    zero, one = np.zeros_like(found.truth), np.ones_like(found.truth)
    offsets = np.stack([evaluation.draw_references(zero, one, rng) for rng in rngs], 1)
    shares = np.ones((len(found.truth), REPETITIONS))
    for fit, (truth, draws, centre) in enumerate(zip(*found[:3], strict=True)):
        if not (np.isfinite(draws).all() and np.isfinite(centre).all()):
            continue  # a failed fit covers nothing: its share stays one
        some = np.asarray(draws, float) - centre
        references = offsets[fit] * some.std(0)
        # |x - r|^2 - |r|^2, for draws and for the truth
        distance = (some**2).sum(1)[:, None] - 2 * some @ references.T
        away = truth - centre
        radius = away @ away - 2 * references @ away
        shares[fit] = (distance < radius).mean(0)
    return shares


class _Task(NamedTuple):
    """What a method works on."""

    experiment: Experiment
    budget: Budget
    options: Options

    @property
    def numbers(self) -> range:
        """Of the simulated tables."""
        return range(self.options.fits)

    def simulated(self, settings: Settings, noise: float | None) -> Simulator:
        """Tables of the authors' model, and fits of it."""
        model = self.experiment.model
        return experiment_simulator(self.experiment, model, settings, self.budget, noise)

    def tables(self) -> Simulator:
        """The same tables for methods that are not fitted by the simulator: any noise will do."""
        return self.simulated(self.experiment.authors_settings(), 1.0)

    def fits(self, settings: Settings, posteriors: Sequence[str]) -> list[SimulatedFits]:
        """At the noise of the authors' accountant, read in every one of these ways."""
        ready = self.simulated(settings, AUTHORS_NOISE.get(self.budget.epsilon))
        options = self.options
        each = ready.run_all(posteriors, self.numbers, draws=options.draws, seed=options.seed)
        return list(each)


def experiment_simulator(
    experiment: Experiment,
    model: Callable[..., Any],
    settings: Settings,
    budget: Budget,
    noise_multiplier: float | None = None,
) -> Simulator:
    """Simulated tables of an experiment by a model, the authors' or ours, and private fits of them.

    ``noise_multiplier`` overrides the budget, as the authors' accountant did.
    """
    about = (experiment.schema, experiment.target, None, experiment.sample)
    bound = bind_model(model, *about)
    return simulator(bound, settings, ROWS, budget, noise_multiplier=noise_multiplier)


def run_cells(part: Part, options: Options, prepared: Any) -> dict[str, CoverageMeasure]:
    """Every method on the same simulated tables (our own model draws its own)."""
    column, methods = table_cells(part, options)
    budget = Budget(epsilon=column.epsilon, delta=experiments.DELTA)
    task = _Task(experiments.EXPERIMENTS[column.model], budget, options)
    found: dict[str, Fits] = {}
    if set(methods) & {*READINGS, "naive"}:
        found |= _na_dpvi([name for name in methods if name in READINGS] or ["exact"], task)
    found |= {name: rival(task) for name, rival in _RIVALS.items() if name in methods}
    return {name: measure_coverage(found[name], options.seed) for name in methods}


def _na_dpvi(readings: list[str], task: _Task) -> dict[str, Fits]:
    """The paper's posteriors, all of the same traces, and the naive one."""
    each = task.fits(task.experiment.authors_settings(), readings)
    found = {name: _as_is(fits) for name, fits in zip(readings, each, strict=True)}
    return {**found, "naive": _naive(each[0], task)}


def _as_is(fits: SimulatedFits) -> Fits:
    unsettled = int(np.sum(fits.status == "NOT_CONVERGED"))
    return Fits(fits.truth, fits.draws, fits.tail_mean, unsettled)


def _naive(fits: SimulatedFits, task: _Task) -> Fits:
    """The guide at the last iterate, which is Gaussian, as if that were the optimum."""
    rng = np.random.default_rng([task.options.seed, 2])
    shock = rng.standard_normal((len(fits.truth), task.options.draws, fits.truth.shape[1]))
    draws = fits.noise_unaware_mean[:, None] + fits.noise_unaware_sd[:, None] * shock
    return Fits(fits.truth, draws, fits.tail_mean)


def _dpvim(task: _Task) -> Fits:
    """Aligned gradients, the averaged tail and its variance (DPVIm sec. 3)."""
    (fits,) = task.fits(task.experiment.dpvim_settings(), ("averaged",))
    return _as_is(fits)


def _planned(task: _Task) -> Fits:
    """noisewise's own plan, from simulated fits but without recalibration, and its posterior, in
    the authors' coordinates. The plan's tables are not these."""
    experiment = task.experiment
    planned = plan(
        experiment.ours,
        schema=experiment.schema,
        rows=ROWS,
        budget=task.budget,
        target=experiment.target,
        public_sample=experiment.sample,
        recalibrate=0,
    )
    assert isinstance(planned.settings, Settings)  # DPVI's
    ready = experiment_simulator(experiment, experiment.ours, planned.settings, task.budget)
    fits = ready.run(task.numbers, draws=task.options.draws, seed=task.options.seed)

    def moved(theta: np.ndarray) -> np.ndarray:
        latents = ready.bound.target.constrain(jnp.asarray(theta, jnp.float32))
        return experiment.to_authors({n: np.asarray(v, float) for n, v in latents.items()})

    truth, draws, centre, unsettled = _as_is(fits)
    return Fits(moved(truth), moved(draws), moved(centre), unsettled)


def _bernstein_sheldon(task: _Task, collapsed: bool = True) -> Fits:
    """One Gaussian release of the sufficient statistics with the whole budget, and Gibbs.

    ``collapsed`` adds steps with the true sums integrated out; without them it is the published
    sampler, which hardly moves where the noise is large.
    """
    if task.experiment.target is not None:
        return _gibbs_regression(task, collapsed)
    family, to_authors = _FAMILIES[task.experiment.name]
    truth, tables = task.tables().tables(task.numbers, seed=task.options.seed)
    sums = np.stack([family.statistics(x).sum(0) for x in tables["x"]])
    rng = np.random.default_rng([task.options.seed, 1])
    noise_sd = calibrate(task.budget, 1.0, 1, ()) * family.sensitivity
    released = sums + noise_sd * rng.standard_normal(sums.shape)
    theta = baselines.exponential_family_posterior(
        family, released, ROWS, noise_sd, task.options.draws, rng, collapsed=collapsed
    )
    draws = to_authors(theta)
    return Fits(truth, draws, draws.mean(1))


def _gibbs_regression(task: _Task, collapsed: bool) -> Fits:
    """Gibbs-SS-Noisy: records clipped to declared bounds, moments from the noisy release itself."""
    ready = task.tables()
    bounds = (_COVARIATE_BOUND, _OUTCOME_BOUND)
    parts = []
    for first in range(0, len(task.numbers), _TABLES):  # all of X at once would be large
        some = task.numbers[first : first + _TABLES]
        truths, tables = ready.tables(some, seed=task.options.seed)
        for truth, design, outcome in zip(truths, tables["X"], tables["y"], strict=True):
            # The rival wants the column of ones last; ours has it first.
            turned = np.roll(design, -1, axis=1)
            sums = baselines.regression_statistics(turned, outcome, *bounds).sum(0)
            parts.append((truth, sums))
    truth, sums = (np.stack(column) for column in zip(*parts, strict=True))
    rng = np.random.default_rng([task.options.seed, 1])
    width = truth.shape[1] - 1
    sensitivity = baselines.regression_sensitivity(width, *bounds)
    noise_sd = calibrate(task.budget, 1.0, 1, ()) * sensitivity
    released = sums + noise_sd * rng.standard_normal(sums.shape)
    prior = baselines.RegressionPrior.standard(width, shape=20.0, scale=0.5, precision=0.25)
    theta = baselines.linear_regression_posterior(
        released, ROWS, noise_sd, prior, task.options.draws, rng, collapsed=collapsed
    )
    free = softplus_inverse(np.maximum(theta[..., :1], 1e-12))
    draws = np.concatenate([free, np.roll(theta[..., 1:], 1, axis=-1)], -1)
    return Fits(truth, draws, draws.mean(1))


_FAMILIES: dict[str, tuple[Any, Callable[[np.ndarray], np.ndarray]]] = {
    "Gamma-Exponential": (baselines.GammaExponential(upper=_UPPER), softplus_inverse),
    "Beta-Bernoulli": (baselines.BetaBernoulli(), lambda p: np.log(p) - np.log1p(-p)),
    "Dirichlet-Categorical": (baselines.DirichletCategorical(), experiments.log_ratios),
}
"""The rival's models, and the way from its parameters to the authors' coordinates."""
_RIVALS: dict[str, Callable[[_Task], Fits]] = {
    "dpvim": _dpvim,
    "bernstein-sheldon": _bernstein_sheldon,
    "plain-gibbs": partial(_bernstein_sheldon, collapsed=False),
    "planned": _planned,
}
