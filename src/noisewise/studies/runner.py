"""The one runner: any study, at any size."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

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
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> StudyResult | GradientsResult:
    """Run a study of the paper: its table with its rivals, and noisewise's own defaults.

    ``fits`` is the number of simulated data sets (repeats for ``table3``) a column, by default the
    paper's. ``data`` is the folder of the UCI Adult files, which only ``table3`` needs. Columns run
    side by side in ``jobs`` processes, as many as there are columns and cores by default.
    Everything is simulated or public, and noise is seeded: nothing here is a private release.
    """
    one_of("study", name, tuple(STUDIES))
    study = STUDIES[name].at(tuple(epsilons)).with_methods(tuple(methods))
    return run(study, fits=fits, draws=draws, seed=seed, data=data, jobs=jobs, progress=progress)


def run(
    study: Study,
    *,
    fits: int | None = None,
    draws: int = 2000,
    seed: int = 1,
    data: str | Path | None = None,
    jobs: int | None = None,
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
    if jobs is None:
        jobs = min(len(study.columns), os.cpu_count() or 1)
    start = time.perf_counter()
    arguments = [(study, column, count, draws, seed, folder) for column in study.columns]
    measures, seconds, devices = [], [], set()
    for done, (found, took, device) in enumerate(_side_by_side(arguments, jobs)):
        measures.append(found)
        seconds.append(took)
        devices.add(device)
        if progress is not None:
            progress(done + 1, len(arguments))
    about = {
        "fits": count,
        "draws": draws,
        "seed": seed,
        "device": ", ".join(sorted(devices)),
        "jobs": jobs,
        "seconds": time.perf_counter() - start,
        "seconds_by_column": seconds,
    }
    return StudyResult(study, tuple(measures), about)


_Column = tuple[dict[str, Measure], float, str]


def _side_by_side(arguments: list[Any], jobs: int) -> Iterator[_Column]:
    """Columns in order, each as soon as it and those before it are there."""
    if jobs == 1:
        yield from (_column(*one) for one in arguments)
        return
    import joblib

    # Several processes share a GPU: none may take all of its memory at once.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator")
    yield from parallel(joblib.delayed(_column)(*one) for one in arguments)


def _column(
    study: Study, column: Column, fits: int, draws: int, seed: int, folder: Path | None
) -> _Column:
    """A column's measures, the seconds it took and the device it ran on."""
    start = time.perf_counter()
    measures: dict[str, Measure] = {}
    if column.experiment is None:
        assert folder is not None  # `run` checks it
        measures |= calibration_cell(study.methods, folder, column.epsilon, fits, draws, seed)
    else:
        task = Task(EXPERIMENTS[column.experiment], column.epsilon, range(fits), draws, seed)
        fitted = run_methods(study.methods, task)
        measures |= {name: measure_coverage(each, seed) for name, each in fitted.items()}
    return measures, time.perf_counter() - start, jax.devices()[0].device_kind
