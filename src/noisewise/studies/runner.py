"""The one runner: any study, at any size."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import jax

from noisewise._validate import NoisewiseError, integer_at_least, one_of
from noisewise.studies.calibration import calibration_cell
from noisewise.studies.catalogue import STUDIES, Column, Study
from noisewise.studies.experiments import EXPERIMENTS
from noisewise.studies.gradients import GradientsResult, run_gradients
from noisewise.studies.measures import measure_coverage
from noisewise.studies.methods import Task, run_methods
from noisewise.studies.result import Measure, StudyResult

__all__ = ["run", "run_study"]


def run_study(
    name: str,
    *,
    fits: int | None = None,
    epsilons: Sequence[float] = (),
    methods: Sequence[str] = (),
    draws: int = 2000,
    seed: int = 1,
    data: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> StudyResult | GradientsResult:
    """Run a study of the paper: its table with its rivals, and noisewise's own defaults.

    ``fits`` is the number of simulated data sets (repeats for ``table3``) a column, by default the
    paper's. ``data`` is the folder of the UCI Adult files, which only ``table3`` needs. Everything
    is simulated or public, and noise is seeded: nothing here is a private release.
    """
    one_of("study", name, tuple(STUDIES))
    study = STUDIES[name].at(tuple(epsilons)).with_methods(tuple(methods))
    return run(study, fits=fits, draws=draws, seed=seed, data=data, progress=progress)


def run(
    study: Study,
    *,
    fits: int | None = None,
    draws: int = 2000,
    seed: int = 1,
    data: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> StudyResult | GradientsResult:
    """The same for a study that was put together by hand."""
    if study.kind == "gradients":
        return run_gradients(study, study.columns[0], draws, seed)
    count = study.fits if fits is None else integer_at_least("fits", fits, 2)
    integer_at_least("draws", draws, 50)
    folder = None if data is None else Path(data)
    if study.kind == "calibration" and folder is None:
        raise NoisewiseError(
            f"study {study.name} needs the folder of UCI's Adult files: --data DIR"
        )
    measures, seconds = [], []
    start = time.perf_counter()
    for place, column in enumerate(study.columns):
        before = time.perf_counter()
        measures.append(_column(study, column, count, draws, seed, folder))
        seconds.append(time.perf_counter() - before)
        if progress is not None:
            progress(place + 1, len(study.columns))
    about = {
        "fits": count,
        "draws": draws,
        "seed": seed,
        "device": jax.devices()[0].device_kind,
        "seconds": time.perf_counter() - start,
        "seconds_by_column": seconds,
    }
    return StudyResult(study, tuple(measures), about)


def _column(
    study: Study, column: Column, fits: int, draws: int, seed: int, folder: Path | None
) -> dict[str, Measure]:
    if column.experiment is None:
        assert folder is not None  # run_study checks it
        return dict(calibration_cell(study.methods, folder, column.epsilon, fits, draws, seed))
    task = Task(EXPERIMENTS[column.experiment], column.epsilon, range(fits), draws, seed)
    found = run_methods(study.methods, task)
    return {name: measure_coverage(each, seed) for name, each in found.items()}
