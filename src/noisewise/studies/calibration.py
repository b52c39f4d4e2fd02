"""Table 3: logistic regression on UCI Adult, calibration of predictions on the test rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from noisewise.dpvi import Settings
from noisewise.evaluation import predictive_calibration
from noisewise.mechanism import Budget
from noisewise.models import Rows, Target, bind, build_target
from noisewise.models.glm import logistic
from noisewise.planning import first_guess, reference_rows
from noisewise.posterior import FitContext, default_method, infer_many
from noisewise.studies.adult import (
    Adult,
    authors_design,
    declared_arrays,
    declared_schema,
    outcome,
    read_adult,
)
from noisewise.studies.experiments import AUTHORS_NOISE, DELTA, STEPS
from noisewise.studies.methods import READINGS
from noisewise.studies.repeats import Repeats, calibrated, fit_repeats

__all__ = ["CalibrationMeasure", "calibration_cell"]

_BINS, _GRID = 10, 100


class CalibrationMeasure(NamedTuple):
    """One cell of Table 3: means over repeats of the private fit, and their sd."""

    rmse: float
    rmse_sd: float
    """Of the curve through ten bins of equal width, over a grid of probabilities."""
    equal_count_rmse: float
    """The same for bins of equal count, weighted by their counts; with its floor."""
    floor: float
    brier: float
    log_score: float
    fits: int
    failed: int
    unsettled: int
    curve: np.ndarray
    curve_sd: np.ndarray
    """Share of positives over the grid: mean and sd over repeats."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in self._asdict().items()
        }


class _Fitted(NamedTuple):
    """A design whose private fits of one table were run, one a seed."""

    target: Target
    repeats: Repeats
    reference: Any = None


def calibration_cell(
    methods: Sequence[str], folder: Path, epsilon: float, fits: int, draws: int, seed: int
) -> dict[str, CalibrationMeasure]:
    """Every method's calibration on the test rows over ``fits`` private fits."""
    data = read_adult(folder)
    happened = outcome(data.test)
    found: dict[str, CalibrationMeasure] = {}
    readings = [name for name in methods if name in READINGS]
    if readings or "naive" in methods:
        noise = AUTHORS_NOISE.get(epsilon)
        fitted = _fit_authors(data, _authors_settings(), epsilon, noise, fits, seed)
        design = authors_design(data)[1]
        for name in readings:
            found[name] = _measure(*_posterior_probabilities(name, fitted, design, draws), happened)
        if "naive" in methods:
            last = np.stack([trace.last[: fitted.target.dim] for trace in fitted.repeats.traces])
            found["naive"] = _measure(_sigmoid(last @ design.T), 0, happened)
    if "dpvim" in methods:
        fitted = _fit_authors(data, _dpvim_settings(), epsilon, None, fits, seed)
        design = authors_design(data)[1]
        probabilities = _posterior_probabilities("averaged", fitted, design, draws)
        found["dpvim"] = _measure(*probabilities, happened)
    if "planned" in methods:
        fitted, design = _fit_planned(data, epsilon, fits, seed)
        probabilities = _posterior_probabilities(None, fitted, design, draws)
        found["planned"] = _measure(*probabilities, happened)
    return {name: found[name] for name in methods}


def _authors_settings() -> Settings:
    """settings.md; here softplus(u) is the variance, as the paper prints it."""
    return Settings(
        rule="preconditioned",
        clip_norm=11.0,
        precondition=550.0,
        initial_free_scale=-6.0,
        step_factor=57**0.5,
        scale_of="variance",
        steps=STEPS,
        guide_draws=10,
        clip_prior=True,
        full_curvature=False,
        paper_priors=True,
    )


def _dpvim_settings() -> Settings:
    """DPVIm's own: clip norm 3, Adam at 1e-3, one draw (DPVIm sec. 4.2, App. F)."""
    return Settings(
        rule="aligned",
        clip_norm=3.0,
        initial_free_scale=-6.0,
        learning_rate=1e-3,
        steps=STEPS,
        guide_draws=1,
        clip_prior=True,
        full_curvature=False,
    )


def _fit_authors(
    data: Adult, settings: Settings, epsilon: float, noise: float | None, fits: int, seed: int
) -> _Fitted:
    rows: Rows = {"X": authors_design(data)[0], "y": outcome(data.train)}
    return _fit(rows, settings, epsilon, noise, fits, seed)


def _fit_planned(data: Adult, epsilon: float, fits: int, seed: int) -> tuple[_Fitted, np.ndarray]:
    """Declared bounds and the quick plan that `fit` makes without being asked."""
    schema = declared_schema(data)
    view = bind(logistic(), schema, "income")
    rows = view.rows(declared_arrays(schema, data.train))
    budget, count = Budget(epsilon=epsilon, delta=DELTA), len(rows["y"])
    target = build_target(logistic(), view.simulate(np.random.default_rng(0), 4))
    settings = first_guess(target, view, count, budget)
    fitted = _fit(rows, settings, epsilon, None, fits, seed)
    reference = reference_rows(target, view, count)
    return fitted._replace(reference=reference), view.rows(declared_arrays(schema, data.test))["X"]


def _fit(
    rows: Rows, settings: Settings, epsilon: float, noise: float | None, fits: int, seed: int
) -> _Fitted:
    target = build_target(logistic(), {name: column[:4] for name, column in rows.items()})
    mechanism = calibrated(settings, epsilon, DELTA, noise)
    found = fit_repeats(target, rows, settings, [mechanism], fits, seed)[0]
    return _Fitted(target, found)


def _posterior_probabilities(
    posterior: str | None, fitted: _Fitted, design: np.ndarray, draws: int
) -> tuple[np.ndarray, int]:
    """Predictive probabilities (fits x test rows, NA-DPVI eq. 29), and number of unsettled fits."""
    assembly, settings, traces = fitted.repeats
    rngs = [np.random.default_rng([7, k]) for k in range(len(traces))]
    outcomes = infer_many(
        posterior or default_method(settings),
        traces,
        FitContext.of(assembly, settings, fitted.reference),
        draws,
        rngs,
    )
    wide = np.asarray(design, np.float32)
    found = [_sigmoid(wide @ o.draws.T.astype(np.float32)).mean(1) for o in outcomes]
    return np.stack(found), sum(o.status.name == "NOT_CONVERGED" for o in outcomes)


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * values))


def _measure(probabilities: np.ndarray, unsettled: int, happened: np.ndarray) -> CalibrationMeasure:
    good = np.isfinite(probabilities).all(1)
    grid = np.linspace(0, 1, _GRID)
    curves = np.array([_curve(row, happened, grid) for row in probabilities[good]])
    errors = np.sqrt(np.nanmean((curves - grid) ** 2, axis=1))
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


def _curve(probabilities: np.ndarray, happened: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Share of positives through ten bins of equal width, interpolated; NaN beyond their ends."""
    place = np.minimum((probabilities * _BINS).astype(int), _BINS - 1)
    counts = np.bincount(place, minlength=_BINS)
    kept = counts > 0
    predicted = np.bincount(place, probabilities, _BINS)[kept] / counts[kept]
    observed = np.bincount(place, happened, _BINS)[kept] / counts[kept]
    return np.interp(grid, predicted, observed, left=np.nan, right=np.nan)
