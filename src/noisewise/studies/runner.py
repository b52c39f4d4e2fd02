"""The one runner: any study, at any size."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax

from noisewise._validate import NoisewiseError, integer_at_least, one_of
from noisewise.studies.calibration import calibration_cell
from noisewise.studies.catalogue import STUDIES, Study
from noisewise.studies.experiments import EXPERIMENTS
from noisewise.studies.gradients import GradientsResult, run_gradients
from noisewise.studies.measures import measure_coverage
from noisewise.studies.methods import READINGS, Task, run_methods
from noisewise.studies.result import Measure, StudyResult

__all__ = ["run", "run_study"]


def run_study(
    name: str,
    *,
    fits: int | None = None,
    epsilons: Sequence[float] = (),
    methods: Sequence[str] = (),
    draws: int = 1000,
    seed: int = 1,
    data: str | Path | None = None,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> StudyResult | GradientsResult:
    """Run a study of the paper: its table with its rivals, and noisewise's own defaults.

    ``fits`` is the number of simulated data sets (repeats for ``table3``) a column, by default the
    paper's. ``data`` is the folder of the UCI Adult files, which only ``table3`` needs. Columns
    and methods run side by side in ``jobs`` processes, by default as many as there are cores.
    Everything is simulated or public, and noise is seeded: nothing here is a private release.
    """
    one_of("study", name, tuple(STUDIES))
    study = STUDIES[name].at(tuple(epsilons)).with_methods(tuple(methods))
    return run(study, fits=fits, draws=draws, seed=seed, data=data, jobs=jobs, progress=progress)


def run(
    study: Study,
    *,
    fits: int | None = None,
    draws: int = 1000,
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
    tasks = [
        _Part(study, place, methods, count, draws, seed, folder)
        for place in range(len(study.columns))
        for methods in _groups(study.methods)
    ]
    if jobs is None:
        jobs = min(len(tasks), os.cpu_count() or 1)
    start = time.perf_counter()
    measures: list[dict[str, Measure]] = [{} for _ in study.columns]
    seconds: list[dict[str, float]] = [{} for _ in study.columns]
    devices = set()
    for done, (task, found) in enumerate(zip(tasks, _side_by_side(tasks, jobs), strict=True)):
        measures[task.place] |= found.measures
        seconds[task.place]["+".join(task.methods)] = found.seconds
        devices.add(found.device)
        if progress is not None:
            progress(done + 1, len(tasks))
    about = {
        "fits": count,
        "draws": draws,
        "seed": seed,
        "device": ", ".join(sorted(devices)),
        "jobs": jobs,
        "seconds": time.perf_counter() - start,
        "seconds_by_part": seconds,
    }
    ordered = [{name: found[name] for name in study.methods} for found in measures]
    return StudyResult(study, tuple(ordered), about)


class _Part(NamedTuple):
    """Some methods of one column: what one process does."""

    study: Study
    place: int
    methods: tuple[str, ...]
    fits: int
    draws: int
    seed: int
    folder: Path | None


class _Found(NamedTuple):
    measures: dict[str, Measure]
    seconds: float
    device: str


def _groups(methods: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Methods that read the same traces together, every other one alone."""
    same = tuple(name for name in methods if name in (*READINGS, "naive"))
    return ([same] if same else []) + [(name,) for name in methods if name not in same]


def _side_by_side(tasks: list[_Part], jobs: int) -> Iterator[_Found]:
    """Parts in order, each as soon as it and those before it are there."""
    if jobs == 1:
        yield from (_run_part(task) for task in tasks)
        return
    import joblib

    # Several processes share a GPU: none may take all of its memory at once.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator")
    yield from parallel(joblib.delayed(_run_part)(task) for task in tasks)


def _run_part(part: _Part) -> _Found:
    start = time.perf_counter()
    column = part.study.columns[part.place]
    measures: dict[str, Measure] = {}
    if column.experiment is None:
        assert part.folder is not None  # `run` checks it
        measures |= calibration_cell(
            part.methods, part.folder, column.epsilon, part.fits, part.draws, part.seed
        )
    else:
        numbers = range(part.fits)
        task = Task(EXPERIMENTS[column.experiment], column.epsilon, numbers, part.draws, part.seed)
        fitted = run_methods(part.methods, task)
        measures |= {name: measure_coverage(each, part.seed) for name, each in fitted.items()}
    return _Found(measures, time.perf_counter() - start, jax.devices()[0].device_kind)
