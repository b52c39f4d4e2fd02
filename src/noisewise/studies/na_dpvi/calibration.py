"""NA-DPVI Table 3: logistic regression on UCI Adult, calibration of predictions on test rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from noisewise.data import Rows
from noisewise.dpvi import Settings
from noisewise.evaluation import predictive_calibration
from noisewise.mechanism import Budget
from noisewise.models import Target, bind_model, logistic
from noisewise.planning import first_guess
from noisewise.posterior import FitContext, infer_many
from noisewise.studies.core import adult
from noisewise.studies.core.study import Measure, Options, Part
from noisewise.studies.core.table import READINGS, table_cells
from noisewise.studies.na_dpvi.experiments import (
    AUTHORS_NOISE,
    DELTA,
    authors_settings,
    dpvim_settings,
)
from noisewise.trials import Fit, Fitted, fit_table, noise_multipliers, reference_rows, target_for

_BINS = 10
GRID = np.linspace(0, 1, 100)


@dataclass(frozen=True, kw_only=True, eq=False)
class CalibrationMeasure(Measure):
    """One cell of Table 3: means over repeats of the private fit, and their sd. The error is that
    of the curve through ten bins of equal width, over a grid of probabilities."""

    equal_count_rmse: float
    """The same for bins of equal count, weighted by their counts; the floor is this one's."""
    brier: float
    log_score: float

    def details(self) -> dict[str, str]:
        """Another measure of calibration, and proper scores."""
        return {
            "equal-count RMSE": f"{self.equal_count_rmse:.4f}",
            "its floor": f"{self.floor:.4f}",
            "Brier": f"{self.brier:.4f}",
            "log score": f"{self.log_score:.4f}",
            **super().details(),
        }


class _Fits(NamedTuple):
    """Private fits of one table, one a repeat, and the test rows."""

    settings: Settings
    fitted: list[Fitted]
    design: np.ndarray
    """Of the test rows."""
    reference: Any = None

    def probabilities(self, posterior: str, draws: int) -> tuple[np.ndarray, int]:
        """Predictive probabilities (fits x test rows), NA-DPVI eq. 29, and how many fits had not
        settled."""
        traces = [one.trace for one in self.fitted]
        rngs = [np.random.default_rng([7, k]) for k in range(len(traces))]
        outcomes = infer_many(
            posterior,
            traces,
            FitContext.of(self.fitted[0].run, self.settings, self.reference),
            draws,
            rngs,
        )
        wide = np.asarray(self.design, np.float32)
        found = [_sigmoid(wide @ o.draws.T.astype(np.float32)).mean(1) for o in outcomes]
        return np.stack(found), sum(o.status.name == "NOT_CONVERGED" for o in outcomes)


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * values))


def run_cells(part: Part, options: Options, prepared: Any) -> dict[str, CalibrationMeasure]:
    """Every method's calibration on the test rows over private fits of the training rows."""
    column, methods = table_cells(part, options)
    assert options.folder is not None  # the runner checks it
    data = adult.read_adult(options.folder)
    happened = adult.outcome(data.test)
    found: dict[str, CalibrationMeasure] = {}
    if set(methods) & {*READINGS, "naive"}:
        noise = AUTHORS_NOISE.get(column.epsilon)
        fits = _fit_authors(data, _AUTHORS, noise, column.epsilon, options)
        for name in methods:
            if name in READINGS:
                found[name] = _measure(*fits.probabilities(name, options.draws), happened)
        last = np.stack([one.trace.last[: fits.design.shape[1]] for one in fits.fitted])
        found["naive"] = _measure(_sigmoid(last @ fits.design.T), 0, happened)
    if "dpvim" in methods:
        fits = _fit_authors(data, _DPVIM, None, column.epsilon, options)
        found["dpvim"] = _measure(*fits.probabilities("averaged", options.draws), happened)
    if "planned" in methods:
        fits = _fit_planned(data, column.epsilon, options)
        found["planned"] = _measure(*fits.probabilities("analytic", options.draws), happened)
    return {name: found[name] for name in methods}


# From the authors' code; here softplus(u) is the variance, as the paper prints it.
_AUTHORS = authors_settings(
    clip_norm=11.0,
    precondition=550.0,
    initial_free_scale=-6.0,
    step_factor=57**0.5,
    scale_of="variance",
)
# DPVIm's own: clip norm 3, Adam at 1e-3 (DPVIm sec. 4.2, App. F).
_DPVIM = dpvim_settings(clip_norm=3.0, initial_free_scale=-6.0, learning_rate=1e-3)


def _fit_authors(
    data: adult.Adult, settings: Settings, noise: float | None, epsilon: float, options: Options
) -> _Fits:
    train, test = adult.authors_design(data)
    rows: Rows = {"X": train, "y": adult.outcome(data.train)}
    fitted = _fit(target_for(logistic(), rows), rows, settings, noise, epsilon, options)
    return _Fits(settings, fitted, test)


def _fit_planned(data: adult.Adult, epsilon: float, options: Options) -> _Fits:
    """Declared bounds and the quick plan that `fit` makes by itself."""
    schema = adult.declared_schema(data)
    bound = bind_model(logistic(), schema, "income")
    rows, test = (bound.view.encode(adult.declared_arrays(schema, part)) for part in data)
    count = len(rows["y"])
    settings = first_guess(bound, count, Budget(epsilon=epsilon, delta=DELTA))
    fitted = _fit(bound.target, rows, settings, None, epsilon, options)
    return _Fits(settings, fitted, test["X"], reference_rows(bound, count))


def _fit(
    target: Target,
    rows: Rows,
    settings: Settings,
    noise: float | None,
    epsilon: float,
    options: Options,
) -> list[Fitted]:
    if noise is None:
        wanted = [(epsilon, settings.steps)]
        (noise,) = noise_multipliers(settings.sampling_rate, wanted, DELTA).values()
    keys = jax.random.split(jax.random.PRNGKey(options.seed), options.fits)
    return fit_table(target, rows, [Fit(settings, noise, key) for key in keys])


def _measure(probabilities: np.ndarray, unsettled: int, happened: np.ndarray) -> CalibrationMeasure:
    good = np.isfinite(probabilities).all(1)
    curves = np.array([_curve(row, happened) for row in probabilities[good]])
    errors = np.sqrt(np.nanmean((curves - GRID) ** 2, axis=1))
    scores = [predictive_calibration(row, happened, _BINS) for row in probabilities[good]]
    return CalibrationMeasure(
        rmse=float(errors.mean()),
        rmse_sd=float(errors.std()),
        equal_count_rmse=float(np.mean([s.rmse for s in scores])),
        floor=float(np.mean([s.floor for s in scores])),
        brier=float(np.mean([s.brier for s in scores])),
        log_score=float(np.mean([s.log_score for s in scores])),
        fits=len(good),
        failed=int((~good).sum()),
        unsettled=unsettled,
        curve=_over_repeats(np.nanmean, curves),
        curve_sd=_over_repeats(np.nanstd, curves),
    )


def _over_repeats(reduce: Callable[..., Any], curves: np.ndarray) -> np.ndarray:
    """Over the repeats that reach a probability; NaN, and no warning, where none does."""
    reached = np.isfinite(curves).any(0)
    out = np.full(curves.shape[1], np.nan)
    out[reached] = reduce(curves[:, reached], axis=0)
    return out


def _curve(probabilities: np.ndarray, happened: np.ndarray) -> np.ndarray:
    """Share of positives through ten bins of equal width, interpolated; NaN beyond their ends."""
    place = np.minimum((probabilities * _BINS).astype(int), _BINS - 1)
    counts = np.bincount(place, minlength=_BINS)
    kept = counts > 0
    predicted = np.bincount(place, probabilities, _BINS)[kept] / counts[kept]
    observed = np.bincount(place, happened, _BINS)[kept] / counts[kept]
    return np.interp(GRID, predicted, observed, left=np.nan, right=np.nan)
