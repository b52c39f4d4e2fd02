"""NA-DPVI Table 3: logistic regression on UCI Adult, calibration of predictions on test rows."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
from noisewise.studies.core.adult import Adult
from noisewise.studies.core.study import Measure, Options, Part
from noisewise.studies.core.table import table_cells
from noisewise.studies.na_dpvi import experiments
from noisewise.studies.na_dpvi.experiments import DELTA
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
        context = FitContext.of(self.fitted[0].run, self.settings, self.reference)
        outcomes = infer_many(posterior, traces, context, draws, rngs)
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
    fits: dict[str, _Fits] = {}
    for name in methods:
        source = name if name in _FITS else "authors"
        if source not in fits:
            fits[source] = _FITS[source](data, column.epsilon, options)
        if name == "naive":
            design = fits[source].design
            last = [one.trace.last[: design.shape[1]] for one in fits[source].fitted]
            chances, unsettled = _sigmoid(np.stack(last) @ design.T), 0
        else:
            posterior = _POSTERIORS.get(name, name)
            chances, unsettled = fits[source].probabilities(posterior, options.draws)
        found[name] = _measure(chances, unsettled, happened)
    return found


# From the authors' code; here softplus(u) is the variance, as the paper prints it.
_AUTHORS = experiments.authors_settings(
    clip_norm=11.0,
    precondition=550.0,
    initial_free_scale=-6.0,
    step_factor=57**0.5,
    scale_of="variance",
)
# DPVIm's own: clip norm 3, Adam at 1e-3 (DPVIm sec. 4.2, App. F).
_DPVIM = experiments.dpvim_settings(clip_norm=3.0, initial_free_scale=-6.0, learning_rate=1e-3)


def _fit_as_prepared(
    settings: Settings, noises: dict[float, float], data: Adult, epsilon: float, options: Options
) -> _Fits:
    """On the authors' design; noise multipliers by epsilon, where they are not the tight ones."""
    train, test = adult.authors_design(data)
    rows: Rows = {"X": train, "y": adult.outcome(data.train)}
    noise, target = noises.get(epsilon), target_for(logistic(), rows)
    return _Fits(settings, _fit(target, rows, settings, noise, epsilon, options), test)


def _fit_planned(data: Adult, epsilon: float, options: Options) -> _Fits:
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


_FITS: dict[str, Callable[[Adult, float, Options], _Fits]] = {
    "authors": partial(_fit_as_prepared, _AUTHORS, experiments.AUTHORS_NOISE),
    "dpvim": partial(_fit_as_prepared, _DPVIM, {}),
    "planned": _fit_planned,
}
_POSTERIORS = {"dpvim": "averaged", "planned": "analytic"}


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
