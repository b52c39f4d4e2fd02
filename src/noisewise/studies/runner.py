"""The one runner: any study, at any size."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax

from noisewise._validate import NoisewiseError, integer_at_least, one_of
from noisewise.studies.calibration import calibration_cell
from noisewise.studies.catalogue import STUDIES, Study
from noisewise.studies.comparison import ComparisonResult, load_part, save_part
from noisewise.studies.comparisons import COMPARISONS
from noisewise.studies.experiments import EXPERIMENTS
from noisewise.studies.gradients import GradientsResult, run_gradients
from noisewise.studies.measures import measure_coverage
from noisewise.studies.methods import READINGS, Task, run_methods
from noisewise.studies.result import Measure, StudyResult
from noisewise.studies.rules import Line, Options, Part, joined

__all__ = ["run", "run_study"]

AnyResult = StudyResult | GradientsResult | ComparisonResult
Work = TypeVar("Work")
Outcome = TypeVar("Outcome")


def run_study(
    name: str,
    *,
    epsilons: Sequence[float] = (),
    methods: Sequence[str] = (),
    **options: Any,
) -> AnyResult:
    """Run a study of a paper: its table or figure with its rivals, and noisewise's own defaults.

    ``epsilons`` and ``methods`` (gradient rules, where those are compared) replace the paper's;
    `run` says what else can be set.
    """
    one_of("study", name, tuple(STUDIES))
    study = STUDIES[name].at(tuple(epsilons)).with_methods(tuple(methods))
    return run(study, **options)


def run(
    study: Study,
    *,
    fits: int | None = None,
    epochs: int | None = None,
    draws: int = 1000,
    seed: int = 1,
    data: str | Path | None = None,
    jobs: int | None = None,
    keep: Path | None = None,
    resume: bool = False,
    parts: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> AnyResult:
    """Run a study as the catalogue has it, or put together by hand.

    ``fits`` is the number of simulated data sets or repeats a column, by default the paper's;
    ``epochs`` the length of a fit, in a comparison. ``data`` is the folder of a study's
    table. Parts run side by side in ``jobs`` processes, by default as many as there are cores.
    In a comparison, finished parts are written to ``keep`` at once, and with ``resume``
    those that are there already, from the same options, are not run again; ``parts`` names those
    to run, if not all (``starts`` of data-sharing, ``d100-density0.8`` of full-rank).
    Everything is simulated or public, and noise is seeded: nothing here is a private release.
    """
    if study.kind != "comparison" and (epochs is not None or resume or parts):
        raise NoisewiseError(
            f"study {study.name} has no epochs or parts: drop --epochs, --parts and --resume"
        )
    if study.kind == "gradients":
        return run_gradients(study, study.columns[0], draws, seed)
    least = COMPARISONS[study.name].least_fits if study.kind == "comparison" else 2
    count = study.fits if fits is None else integer_at_least("fits", fits, least)
    integer_at_least("draws", draws, 50)
    folder = None if data is None else Path(data)
    if study.kind == "comparison":
        length = study.epochs if epochs is None else integer_at_least("epochs", epochs, 1)
        assert length is not None  # every comparison of the catalogue has its paper's
        budgets = tuple(column.epsilon for column in study.columns)
        options = Options(study.methods, budgets, count, length, draws, seed, folder)
        return _run_comparison(study, options, tuple(parts), jobs, keep, resume, progress)
    return _run_table(study, count, draws, seed, folder, jobs, progress)


def _run_table(
    study: Study,
    count: int,
    draws: int,
    seed: int,
    folder: Path | None,
    jobs: int | None,
    progress: Callable[[int, int], None] | None,
) -> StudyResult:
    if study.kind == "calibration" and folder is None:
        raise NoisewiseError(
            f"study {study.name} needs the folder of UCI's Adult files: --data DIR"
        )
    # The group that takes longest first in every column, so that no process ends alone with it.
    tasks = [
        _Part(study, place, methods, count, draws, seed, folder)
        for methods in _groups(study.methods)
        for place in range(len(study.columns))
    ]
    jobs = _processes(jobs, len(tasks))
    start = time.perf_counter()
    measures: list[dict[str, Measure]] = [{} for _ in study.columns]
    seconds: list[dict[str, float]] = [{} for _ in study.columns]
    devices = set()
    for done, (task, found) in enumerate(
        zip(tasks, _side_by_side(_run_part, tasks, jobs), strict=True)
    ):
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


def _processes(jobs: int | None, tasks: int) -> int:
    return max(1, min(tasks, os.cpu_count() or 1)) if jobs is None else jobs


def _side_by_side(
    work: Callable[[Work], Outcome], tasks: Sequence[Work], jobs: int
) -> Iterator[Outcome]:
    """Parts in order, each as soon as it and those before it are there."""
    if jobs == 1:
        yield from (work(task) for task in tasks)
        return
    import joblib

    # Several processes share a GPU: none may take all of its memory at once.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator")
    yield from parallel(joblib.delayed(work)(task) for task in tasks)


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


class _Outcome(NamedTuple):
    """A part's lines, and where and how long they were made."""

    lines: list[Line]
    run: dict[str, Any]


def _run_comparison(
    study: Study,
    options: Options,
    variants: tuple[str, ...],
    jobs: int | None,
    keep: Path | None,
    resume: bool,
    progress: Callable[[int, int], None] | None,
) -> ComparisonResult:
    comparison = COMPARISONS[study.name]
    if comparison.needs_data and options.folder is None:
        raise NoisewiseError(f"study {study.name} needs {comparison.needs_data}: --data DIR")
    parts = _chosen(study, comparison.parts(options), variants)
    folder = keep / f"{study.name}-parts" if keep else None
    found: dict[Part, _Outcome] = {}
    if folder is not None and resume:
        before = {part: load_part(_path(folder, part), _asked(part, options)) for part in parts}
        found = {part: _Outcome(*known) for part, known in before.items() if known is not None}
    waiting = [part for part in parts if part not in found]
    prepared = comparison.prepare(options) if waiting else None
    work = partial(_run_comparison_part, study.name, options, prepared, folder)
    outcomes = _side_by_side(work, waiting, _processes(jobs, len(waiting)))
    for part, outcome in zip(waiting, outcomes, strict=True):
        found[part] = outcome
        if progress is not None:
            progress(len(found), len(parts))
    about = {
        **{name: value for name, value in options._asdict().items() if name != "folder"},
        "device": ", ".join(sorted({outcome.run["device"] for outcome in found.values()})),
        "seconds": sum(outcome.run["seconds"] for outcome in found.values()),
        "seconds_by_part": {part.label: found[part].run["seconds"] for part in parts},
    }
    lines = joined(line for part in parts for line in found[part].lines)
    return ComparisonResult(study, comparison, tuple(lines), about)


def _chosen(study: Study, parts: list[Part], variants: tuple[str, ...]) -> list[Part]:
    known = tuple(dict.fromkeys(part.group for part in parts if part.variant))
    for name in variants:
        if name not in known:
            offered = f"choose from {', '.join(known)}" if known else "it has none: drop --parts"
            raise NoisewiseError(f"study {study.name} has no part '{name}': {offered}")
    return [part for part in parts if not variants or part.group in variants]


def _asked(part: Part, options: Options) -> dict[str, Any]:
    """What a saved part must have been asked for to be taken up again; which other rules ran
    beside it, and where the data lay, does not matter."""
    kept = ("fits", "epochs", "draws", "seed")
    return {
        "part": part.label,
        "epsilons": list(options.epsilons),
        **{name: getattr(options, name) for name in kept},
    }


def _path(folder: Path, part: Part) -> Path:
    return folder / f"{part.label}.json"


def _run_comparison_part(
    name: str, options: Options, prepared: Any, folder: Path | None, part: Part
) -> _Outcome:
    """In its own process, which also writes it: parts need not wait for those before them."""
    start = time.perf_counter()
    lines = COMPARISONS[name].run(part, options, prepared)
    device = jax.devices()[0].device_kind
    run = {"seconds": time.perf_counter() - start, "device": device}
    if folder is not None:
        save_part(_path(folder, part), _asked(part, options), lines, run)
    return _Outcome(lines, run)
