"""The coverage run: truths from the prior, tables from the model, whole private fits, K times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from noisewise._files import check_writable
from noisewise._validate import (
    LARGEST_SEED,
    NoisewiseError,
    Progress,
    integer_at_least,
    one_of,
)
from noisewise.covariates import as_declared, covariates_cost
from noisewise.coverage.groups import Groups, Spec, run_group, split
from noisewise.coverage.predictions import check_yes_or_no, predict_new_records
from noisewise.coverage.result import Coverage
from noisewise.data import PublicSample, Schema
from noisewise.dpsep import SepSettings
from noisewise.dpvi import Settings
from noisewise.engine.memory import refuse_if_too_large
from noisewise.mechanism import Budget, Release, count_cost
from noisewise.models import BoundModel, Priors, RowView, TargetNames, bind_model
from noisewise.planning import Plan, summarise
from noisewise.planning import plan as make_plan
from noisewise.posterior import (
    METHODS,
    check_method,
    default_method,
    refuse_weights_without_matrix,
    sizes_cost,
    variability_cost,
)
from noisewise.trials import STRESSES, SimulatedFits

AS_DECLARED = "as the schema declares"
_LEAST_STRESSED = 50
_MOST_JOBS = 4096
_WIDEST = 8
"""Fits side by side at least."""


def coverage(
    model: Callable[..., Any] | str,
    *,
    schema: Schema,
    rows: int,
    budget: Budget,
    target: TargetNames = None,
    features: list[str] | None = None,
    family: str | None = None,
    priors: Priors | None = None,
    method: str = "dpvi",
    plan: Plan | Settings | None = None,
    stress: bool = False,
    simulations: int = 1000,
    draws: int = 500,
    public_sample: PublicSample | None = None,
    covariate_share: float | None = None,
    posterior: str | None = None,
    test_rows: int = 0,
    seed: int = 0,
    jobs: int = 1,
    backend: str = "loky",
    group: int | None = None,
    folder: str | Path | None = None,
    progress: Progress | None = None,
) -> Coverage:
    """Measure whether the error bars are true: simulated tables only, no row is read.

    Parameters are drawn from the prior, a table from the model (covariates from the schema or a
    public sample), the whole private fit is run, and the posterior is compared with the truth.

    Args:
        model: As for `fit`.
        schema: What is publicly known of the table.
        rows: Number of rows of every simulated table.
        budget: What every fit spends.
        target: The column that is ``y`` to the model; of a survival model two, a time and whether
            it is an event's.
        features: The columns that make up ``X``.
        family: Of a formula, as for `fit`.
        priors: Of a formula's coefficients, as for `fit`.
        method: ``"dpvi"`` or ``"dp-sep"``.
        plan: For the fits; without one a plan is made first.
        stress: Try tables that are unlike what the schema suggests, too (rare levels, piles at a
            bound, tied numbers): fits buy their covariates' shape there. A quarter of
            ``simulations`` for each; see `Coverage.stressed`.
        simulations: How many fits.
        draws: Posterior draws of each.
        public_sample: Rows of other people that covariates are taken from.
        covariate_share: As for `fit`; simulated tables have covariates as the schema declares them.
        posterior: How DPVI's traces are read; as for `fit`.
        test_rows: So many new records a fit check predictions too, for models of yes or no.
        seed: The outcome depends on it alone, up to floating-point rounding, not on the grouping.
        jobs: With more than one, groups of fits are spread over joblib's ``backend``.
        backend: Processes of this machine (``loky``), or a cluster that is running (``dask``,
            ``ray``).
        group: Fits side by side; None is what the device's memory holds.
        folder: Where finished groups are kept: a run that was killed goes on where it was.
        progress: Called with fits done and their number.
    """
    integer_at_least("rows", rows, 2)
    integer_at_least("simulations", simulations, 10)
    integer_at_least("draws", draws, 50)
    integer_at_least("test_rows", test_rows, 0)
    integer_at_least("seed", seed, 0, LARGEST_SEED)
    one_of("method", method, ("dpvi", "dp-sep"))
    _check_processes(jobs, backend)
    if folder is not None:
        check_writable(Path(folder) / "probe")
    if posterior is not None:
        one_of("posterior", posterior, METHODS)
    bound = bind_model(model, schema, target, features, public_sample, family=family, priors=priors)
    bound.require(
        "ordered_latents",
        "coverage",
        "look at what is estimated from it, as docs/synthetic-data.md and docs/dp-sep.md do",
    )
    if test_rows:
        check_yes_or_no(bound.target, bound.view)
    if stress:
        _refuse_stress(bound, plan, method)
    if plan is None:
        plan = make_plan(
            bound.model if bound.formula is None else model,
            schema=schema,
            rows=rows,
            budget=budget,
            target=target,
            features=features,
            family=family,
            priors=priors,
            method=method,
            public_sample=public_sample,
            covariate_share=covariate_share,
        )
    settings = _checked_settings(plan, bound, method, rows, budget, public_sample)
    most = draws * min(simulations, _WIDEST)
    refuse_if_too_large(rows, bound.width, bound.target.dim, settings.steps, most)
    if isinstance(settings, Settings):
        check_method(posterior, settings)
        refuse_weights_without_matrix(bound, settings)
    bought = covariates_cost(bound, budget, covariate_share) if method == "dpvi" else ()
    more: tuple[Release, ...] = ()
    if method == "dpvi":
        sizes = sizes_cost(bound, budget, covariate_share)
        more = (*sizes, *variability_cost(bound, budget))
    view = bound.view
    bound = as_declared(bound, bought, rows) if bought else bound
    spec = Spec(
        model=bound.model,
        view=bound.view,
        share_noise=bound.share_noise,
        settings=settings,
        plan=plan if isinstance(plan, Plan) else None,
        stress=None,
        covariate_share=covariate_share,
        rows=rows,
        budget=budget,
        others=(*bought, *more, *count_cost(schema.public_count, budget)),
        posterior=posterior,
        draws=draws,
        seed=seed,
    )
    size = None if group is None else integer_at_least("group", group, 1)
    kept = None if folder is None else Path(folder)
    parts = {AS_DECLARED: _Part(spec, simulations, kept)}
    if stress:
        parts |= _stressed_parts(parts[AS_DECLARED], view)
    found = _run(parts, size, jobs, backend, progress)
    predictive = None
    if test_rows:
        fits = found[AS_DECLARED]
        predictive = predict_new_records(bound.target, bound.view, fits, test_rows, seed)
    labels, release_sd = tuple(bound.labels), summarise(bound, rows, budget).release_sd
    results = {}
    for name, fits in found.items():
        about = _about(spec, bound.name, len(fits.truth), public_sample)
        results[name] = Coverage.of(fits, labels, release_sd, about | {"tables": name})
    return replace(results.pop(AS_DECLARED), predictive=predictive, stressed=results)


class _Part(NamedTuple):
    """Fits of one kind of table."""

    spec: Spec
    simulations: int
    folder: Path | None


def _stressed_parts(declared: _Part, view: RowView) -> dict[str, _Part]:
    """Fits of tables that are unlike what the schema suggests, and buy their covariates' shape."""
    count = max(_LEAST_STRESSED, declared.simulations // len(STRESSES))
    found = {}
    for name in STRESSES:
        spec = replace(declared.spec, view=view, share_noise=0.0, stress=name, token=uuid4().hex)
        folder = declared.folder
        beside = None if folder is None else folder.with_name(f"{folder.name} {name}")
        found[name] = _Part(spec, count, beside)
    return found


def _run(
    parts: dict[str, _Part], size: int | None, jobs: int, backend: str, progress: Progress | None
) -> dict[str, SimulatedFits]:
    """All fits of all parts, with one count of progress."""
    total, before, found = sum(part.simulations for part in parts.values()), 0, {}

    def shifted(before: int, done: int, _: int) -> None:
        if progress is not None:
            progress(before + done, total)

    for name, part in parts.items():
        groups = Groups(part.spec, part.folder)
        _fill(groups, part.spec, part.simulations, size, jobs, backend, partial(shifted, before))
        found[name], before = groups.collect(part.simulations), before + part.simulations
    return found


def _refuse_stress(bound: BoundModel, plan: Any, method: str) -> None:
    bound.require_rows("stress=True")
    if method != "dpvi" or bound.simulable or not isinstance(plan, Plan | None):
        raise NoisewiseError(
            "stress=True is for fits by DPVI that buy what covariates are like, with a Plan or "
            "none: leave out public_sample, method and Settings"
        )


def _check_processes(jobs: int, backend: str) -> None:
    integer_at_least("jobs", jobs, -_MOST_JOBS, _MOST_JOBS)
    if not jobs:
        raise NoisewiseError(
            "jobs must not be 0: give the number of processes, or -1 for all cores"
        )
    if backend == "multiprocessing":
        raise NoisewiseError(
            "backend='multiprocessing' forks this process, and a fork of one that runs JAX hangs: "
            "use backend='loky', which starts processes of its own"
        )


def _checked_settings(
    plan: Plan | Settings,
    bound: BoundModel,
    method: str,
    rows: int,
    budget: Budget,
    public_sample: PublicSample | None,
) -> Settings | SepSettings:
    """The settings to run, if they are made for this model; a warning if not for these numbers."""
    if isinstance(plan, Settings):
        plan.check_dimension(bound.target.dim)
        return plan
    plan.check(bound, method, public_sample)
    plan.warn_if_it_does_not_fit(bound.view.schema, rows, budget)
    return plan.settings


def _about(
    spec: Spec, name: str, simulations: int, public_sample: PublicSample | None
) -> dict[str, Any]:
    """What was run, for the page."""
    settings = spec.settings
    about: dict[str, Any] = {
        "model": name,
        "rows": spec.rows,
        "epsilon": spec.budget.epsilon,
        "delta": spec.budget.delta,
        "adjacency": spec.budget.adjacency,
        "simulations": simulations,
        "draws": spec.draws,
        "seed": spec.seed,
        "covariates": "from the schema" if public_sample is None else "from the public sample",
        "steps": settings.steps,
    }
    if isinstance(settings, Settings):
        return about | {
            "posterior": spec.posterior or default_method(settings),
            "clip_norm": settings.clip_norm,
            "recalibrated": settings.recalibrates,
        }
    return about | {"posterior": "dp-sep"}


def _fill(
    groups: Groups,
    spec: Spec,
    simulations: int,
    size: int | None,
    jobs: int,
    backend: str,
    progress: Progress | None,
) -> None:
    """Run every simulated fit that is not there yet; by default as many at once as memory holds."""
    missing = sorted(set(range(simulations)) - groups.done())
    if progress is not None:
        progress(simulations - len(missing), simulations)
    parts = list(split(missing, size or spec.simulator().group))
    for numbers, fits in _finished(spec, parts, jobs, backend):
        groups.add(numbers, fits)
        if progress is not None:
            progress(min(len(groups.done()), simulations), simulations)


def _finished(spec: Spec, groups: list[list[int]], jobs: int, backend: str) -> Iterator[Any]:
    """Groups as they finish: here one after the other, or by joblib's backend."""
    if jobs == 1:
        yield from (run_group(spec, numbers) for numbers in groups)
        return
    import joblib

    if backend == "ray":
        _register_ray()
    try:
        with joblib.parallel_config(backend=backend, n_jobs=jobs):
            yield from _in_parallel(spec, groups)
    except NoisewiseError:
        raise
    except ValueError as error:
        # joblib: an unknown backend, or a cluster that is not running.
        reason = " ".join(str(error).split())[:300]
        raise NoisewiseError(
            f"joblib cannot use backend={backend!r} with jobs={jobs}: {reason}"
        ) from error


def _in_parallel(spec: Spec, groups: list[list[int]]) -> Iterator[Any]:
    """Groups as they finish; Ray's backend hands over lists only, so it gets a few at a time."""
    import joblib

    tasks = [joblib.delayed(run_group)(spec, numbers) for numbers in groups]
    if joblib.parallel.get_active_backend()[0].supports_return_generator:
        yield from joblib.Parallel(return_as="generator_unordered")(tasks)
        return
    few = joblib.effective_n_jobs()
    for first in range(0, len(tasks), few):
        yield from joblib.Parallel()(tasks[first : first + few])


def _register_ray() -> None:
    try:
        from ray.util.joblib import register_ray
    except ImportError:
        raise NoisewiseError("backend='ray' needs Ray: pip install 'noisewise[ray]'") from None
    register_ray()
