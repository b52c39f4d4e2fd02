"""The coverage run: truths from the prior, tables from the model, whole private fits, K times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from noisewise._validate import NoisewiseError, integer_at_least, one_of
from noisewise.data import PublicSample, Schema
from noisewise.dpvi import Settings
from noisewise.mechanism import Budget, count_cost
from noisewise.models import Mixture, Network, build_target, model_name, named_model
from noisewise.planning import Plan, row_view, sketch
from noisewise.planning import plan as make_plan
from noisewise.posterior import METHODS, check_method
from noisewise.validation.groups import Groups, Spec, run_group, split
from noisewise.validation.predictions import check_yes_or_no, predict_new_records
from noisewise.validation.result import Coverage

__all__ = ["coverage"]


def coverage(
    model: Callable[..., Any] | str,
    *,
    like: Schema,
    n: int,
    budget: Budget,
    target: str | None = None,
    features: list[str] | None = None,
    plan: Plan | Settings | None = None,
    simulations: int = 1000,
    draws: int = 500,
    public_sample: PublicSample | None = None,
    posterior: str = "exact",
    test_rows: int = 0,
    seed: int = 0,
    jobs: int = 1,
    backend: str = "loky",
    group: int | None = None,
    folder: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Coverage:
    """Measure whether the error bars are true: simulated tables only, no row is read.

    Parameters are drawn from the prior, a table of ``n`` rows from the model (covariates from the
    schema or a ``public_sample``), the whole private fit is run, and the posterior is compared with
    the truth, ``simulations`` times. Without a ``plan`` one is made first.

    Fits run side by side in groups that fit the device's memory; with ``jobs`` other than 1 groups
    are spread over joblib's ``backend``: processes of this machine (``loky``), or a Dask or Ray
    cluster that is running (``dask``, ``ray``). The outcome depends on the ``seed`` alone, up to
    floating-point rounding, not on the grouping. With a ``folder`` finished groups are kept, and a
    run that was killed goes on where it was.

    ``test_rows`` new records a fit check predictions too, for models of yes or no.
    """
    integer_at_least("simulations", simulations, 10)
    integer_at_least("draws", draws, 50)
    integer_at_least("test_rows", test_rows, 0)
    one_of("posterior", posterior, METHODS)
    resolved = named_model(model, like, target, features)
    if isinstance(resolved, Mixture):
        raise NoisewiseError(
            "coverage cannot be measured for a mixture: its components have no order, so that fits "
            "cannot be compared with the truth latent by latent"
        )
    if isinstance(resolved, Network):
        raise NoisewiseError(
            "coverage cannot be measured for a network, whose weights have no order: "
            "docs/dp-sep.md has what was measured of its predictions"
        )
    view = row_view(resolved, like, target, features, public_sample)
    built = build_target(resolved, view.simulate(np.random.default_rng(0), 4))
    if test_rows:
        check_yes_or_no(built, view)
    if plan is None:
        plan = make_plan(
            resolved,
            like=like,
            n=n,
            budget=budget,
            target=target,
            features=features,
            public_sample=public_sample,
        )
    settings = _checked_settings(plan, resolved, built.dim, like, n, budget, public_sample)
    check_method(posterior, settings)
    others = count_cost(like.rows, budget)
    spec = Spec(resolved, view, settings, n, budget, others, posterior, draws, seed)
    groups = Groups(spec, None if folder is None else Path(folder))
    size = None if group is None else integer_at_least("group", group, 1)
    _fill(groups, spec, simulations, size, jobs, backend, progress)
    found = groups.collect(simulations)
    predictive = None
    if test_rows:
        predictive = predict_new_records(built, view, found, test_rows, seed)
    return Coverage(
        truth=found.truth,
        draws=found.draws,
        plain_mean=found.plain_mean,
        plain_sd=found.plain_sd,
        status=found.status,
        labels=tuple(built.labels),
        single_release_sd=sketch(built, view, n, budget).release_sd,
        about=_about(spec, simulations, public_sample),
        predictive=predictive,
    )


def _checked_settings(
    plan: Plan | Settings,
    model: Callable[..., Any],
    dim: int,
    like: Schema,
    n: int,
    budget: Budget,
    public_sample: PublicSample | None,
) -> Settings:
    """The settings to run, if they are made for this model; a warning if not for these numbers."""
    if isinstance(plan, Settings):
        plan.check_dimension(dim)
        return plan
    plan.check(model, dim, public_sample)
    plan.warn_if_it_does_not_fit(like, n, budget)
    return plan.settings


def _about(spec: Spec, simulations: int, public_sample: PublicSample | None) -> dict[str, Any]:
    """What was run, for the page."""
    return {
        "model": model_name(spec.model),
        "rows": spec.rows,
        "epsilon": spec.budget.epsilon,
        "delta": spec.budget.delta,
        "adjacency": spec.budget.adjacency,
        "simulations": simulations,
        "draws": spec.draws,
        "seed": spec.seed,
        "posterior": spec.posterior,
        "covariates": "from the schema" if public_sample is None else "from the public sample",
        "steps": spec.settings.steps,
        "clip_norm": spec.settings.clip_norm,
        "recalibrated": spec.settings.recalibrates,
    }


def _fill(
    groups: Groups,
    spec: Spec,
    simulations: int,
    size: int | None,
    jobs: int,
    backend: str,
    progress: Callable[[int, int], None] | None,
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
