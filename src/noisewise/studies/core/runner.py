"""The one runner: any study, at any size, its parts side by side."""

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax

from noisewise._validate import NoisewiseError, Progress, integer_at_least
from noisewise.mechanism import Ledger
from noisewise.studies.core.lines import Line
from noisewise.studies.core.study import Options, Outcome, Part, Study, StudyResult


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
    progress: Progress | None = None,
    ledger: Ledger | str | Path | None = None,
) -> StudyResult:
    """Run a study as the catalogue has it, or put together by hand.

    Everything is simulated or public, and noise is seeded: nothing here is a private release.

    Args:
        study: what to run, with its budgets and methods.
        fits: simulated data sets or repeats a column; by default the paper's number.
        epochs: length of a fit, in a comparison; by default the study's.
        draws: of every posterior.
        seed: of the simulation and its noise.
        data: the folder of a study's table.
        jobs: processes; by default as many as there are cores.
        keep: where a comparison's finished parts are written to, at once.
        resume: do not run parts again that are there already, from the same options.
        parts: those of a comparison to run, if not all (``starts`` of data-sharing,
            ``d100-density0.8`` of full-rank).
        progress: gets how many parts are done, of how many.
        ledger: of a real table: every fit of it is written there before the table is read. Noise
            is seeded, so only a rehearsal's ledger takes it.
    """
    if study.epochs is None and (epochs is not None or resume or parts):
        raise NoisewiseError(
            f"study {study.name} has no epochs or parts: drop --epochs, --parts and --resume"
        )
    options = Options(
        methods=study.methods,
        columns=study.columns,
        fits=study.fits if fits is None else integer_at_least("fits", fits, study.least_fits),
        epochs=(study.epochs or 0) if epochs is None else integer_at_least("epochs", epochs, 1),
        draws=integer_at_least("draws", draws, 50),
        seed=seed,
        folder=None if data is None else Path(data),
    )
    if study.needs_data and options.folder is None:
        raise NoisewiseError(f"study {study.name} needs {study.needs_data}: --data DIR")
    wanted = _chosen(study, study.parts(options), parts)
    folder = keep / f"{study.name}-parts" if keep and study.epochs is not None else None
    start = time.perf_counter()
    found = _finished(folder, wanted, options) if folder is not None and resume else {}
    waiting = [part for part in wanted if part not in found]
    if ledger is not None:
        _reserve(study, options, waiting, Ledger.of(ledger))
    prepared = study.prepare(options) if waiting else None
    jobs = max(1, min(len(waiting), os.cpu_count() or 1)) if jobs is None else jobs
    work = partial(_run_part, study.run, options, prepared, folder)
    for part, outcome in zip(waiting, _side_by_side(work, waiting, jobs), strict=True):
        found[part] = outcome
        if progress is not None:
            progress(len(found), len(wanted))
    about = {
        "device": ", ".join(sorted({outcome.device for outcome in found.values()})),
        "jobs": jobs,
        "seconds": time.perf_counter() - start,
    }
    return study.result(options, {part: found[part] for part in wanted}, about)


def _reserve(study: Study, options: Options, parts: Sequence[Part], ledger: Ledger) -> None:
    """An entry for every budget: all fits of all parts, those without privacy counted alike."""
    if not study.needs_data:
        raise NoisewiseError(
            f"study {study.name} simulates its tables, so that no ledger is about them: drop ledger"
        )
    total = ledger.account().total
    places = {str(place) for place in range(len(options.columns))}
    for place, column in enumerate(options.columns):
        # A part is of one column where its variant is that column's place, else of all of them.
        here = [part for part in parts if part.variant == str(place) or part.variant not in places]
        if here:
            budget = replace(total, epsilon=column.epsilon)
            what, fits = f"study {study.name}", options.fits * len(here)
            ledger.reserve(budget, what, seeded=True, fits=fits)


def _side_by_side(
    work: Callable[[Part], Outcome], parts: Sequence[Part], jobs: int
) -> Iterator[Outcome]:
    """Parts in order, each as soon as it and those before it are there."""
    if jobs == 1:
        yield from (work(part) for part in parts)
        return
    import joblib

    # Several processes share a GPU: none may take all of its memory at once.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator")
    yield from parallel(joblib.delayed(work)(part) for part in parts)


def _chosen(study: Study, parts: list[Part], variants: Sequence[str]) -> list[Part]:
    known = tuple(dict.fromkeys(part.group for part in parts if part.variant))
    for name in variants:
        if name not in known:
            offered = f"choose from {', '.join(known)}" if known else "it has none: drop --parts"
            raise NoisewiseError(f"study {study.name} has no part '{name}': {offered}")
    return [part for part in parts if not variants or part.group in variants]


def _run_part(
    run: Callable[[Part, Options, Any], Any],
    options: Options,
    prepared: Any,
    folder: Path | None,
    part: Part,
) -> Outcome:
    """In its own process, which also writes it: parts need not wait for those before them."""
    start = time.perf_counter()
    found = run(part, options, prepared)
    outcome = Outcome(found, time.perf_counter() - start, jax.devices()[0].device_kind)
    if folder is not None:
        _save(folder / f"{part.label}.json", _request(part, options), outcome)
    return outcome


def _request(part: Part, options: Options) -> dict[str, Any]:
    """What a saved part must have been run with to be taken up again; which other methods ran
    beside it, and where the data lay, does not matter."""
    chosen = options.named("fits", "epochs", "draws", "seed")
    return {"part": part.label, "epsilons": list(options.epsilons), **chosen}


def _save(path: Path, request: dict[str, Any], outcome: Outcome) -> None:
    """A finished part, so that a run that is cut off loses only what it was at."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [line.to_dict() for line in outcome.found]
    run = {"seconds": outcome.seconds, "device": outcome.device}
    path.write_text(json.dumps({"request": request, "run": run, "lines": lines}, indent=1) + "\n")


def _finished(folder: Path, parts: list[Part], options: Options) -> dict[Part, Outcome]:
    """Parts that were run before with the same options."""
    found = {}
    for part in parts:
        path = folder / f"{part.label}.json"
        plain = json.loads(path.read_text()) if path.exists() else {}
        if plain.get("request") == _request(part, options):
            lines = [Line.from_dict(line) for line in plain["lines"]]
            found[part] = Outcome(lines, **plain["run"])
    return found
