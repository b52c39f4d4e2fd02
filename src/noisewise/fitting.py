"""The whole street in one call: a table and a budget in, a noise-aware posterior out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from noisewise._validate import NoisewiseError, integer_at_least, shown
from noisewise.data import PublicSample, Table
from noisewise.dpvi import Assembly, Settings, Trace, assemble, run_secure
from noisewise.mechanism import Budget, Certificate, Mechanism, Release, issue
from noisewise.mechanism.counting import count_release, noisy_count
from noisewise.models import Glm, Mixture, RowView, Target, build_target, model_name, named_model
from noisewise.planning import (
    SIMULATED,
    Plan,
    first_guess,
    mixture_guess,
    reference_rows,
    row_view,
)
from noisewise.posterior import Outcome, check_method, infer
from noisewise.result import Result

__all__ = ["fit"]


@dataclass(frozen=True)
class _RowCount:
    """The number of rows as it may be used, where it came from, and what it cost."""

    public: int
    source: str
    releases: tuple[Release, ...]


def fit(
    model: Callable[..., Any] | str,
    table: Table,
    *,
    budget: Budget,
    target: str | None = None,
    features: list[str] | None = None,
    plan: Plan | Settings | None = None,
    steps: int | None = None,
    public_sample: PublicSample | None = None,
    posterior: str | None = None,
    draws: int = 4000,
    insecure_seed: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Fit a NumPyro model under differential privacy.

    ``model`` is a NumPyro model function, ``"logistic"``, ``"poisson"``, ``"linear"``,
    ``"mixture"`` or ``"path/to/model.py:function"``. Its arguments are columns of the table by
    name; ``X`` and ``y`` are the design matrix and the ``target`` column. Without a ``plan``, a
    quick one is made by simulation first (`noisewise.plan` with ``fits=0``), for ``steps`` steps if
    given; covariates are simulated from the schema, or taken from a ``public_sample``. If the
    schema declares no number of rows, a noisy one is bought with about one percent of the budget.
    ``progress(done, steps)`` is called as the run goes on.

    ``posterior`` is how the trace is read, by default ``"exact"``, the noise-aware one. For a
    mixture it is ``"averaged"``, DPVIm's: the noise-aware ones need a unique optimum, and a
    mixture has one for every order of its components.

    ``insecure_seed`` makes the fit repeatable and therefore not private: for tests only.
    """
    if not isinstance(table, Table):
        raise NoisewiseError(f"table must be a noisewise.Table, got {type(table).__name__}")
    if not isinstance(budget, Budget):
        raise NoisewiseError(f"budget must be a noisewise.Budget, got {shown(budget)}")
    integer_at_least("draws", draws, 100)
    if steps is not None:
        integer_at_least("steps", steps, 10)
    if insecure_seed is not None:
        integer_at_least("insecure_seed", insecure_seed, 0)
    if plan is not None and steps is not None:
        raise NoisewiseError("steps is part of the plan: pass one of plan and steps")
    resolved = named_model(model, table.schema, target, features)
    posterior = _posterior(posterior, resolved)
    view = row_view(resolved, table.schema, target, features, public_sample)
    built = build_target(resolved, view.simulate(np.random.default_rng(0), 4))
    _refuse_before_spending(plan, resolved, built, table, posterior, public_sample)
    count = _row_count(table, budget, insecure_seed)
    if plan is None:
        settings, source = _first_guess(built, view, count.public, budget, steps), SIMULATED
    else:
        settings, source = _planned(plan, table, count.public, budget)
    mechanism = Mechanism(
        clip_norm=settings.clip_norm, sampling_rate=settings.sampling_rate, steps=settings.steps
    ).calibrate(budget, count.releases)
    assembly = assemble(settings, built, mechanism, count.public, len(table))
    # Only now: the number of rows is out, and nothing may be refused any more.
    budget.warn_if_delta_is_large(count.public)
    trace = _run(assembly, table, view, insecure_seed, progress)
    certificate = _certificate(budget, mechanism, count, source, public_sample, insecure_seed)
    rng = np.random.default_rng(insecure_seed)
    reference = reference_rows(built, view, count.public)
    outcome = infer(posterior, trace, assembly, settings, draws, rng, reference)
    asked = _asked(resolved, view, target, settings, posterior, count.public)
    return _result(built, view, trace, outcome, certificate, asked)


def _refuse_before_spending(
    plan: Plan | Settings | None,
    model: Callable[..., Any],
    target: Target,
    table: Table,
    posterior: str,
    public_sample: PublicSample | None,
) -> None:
    """Whatever can be refused, before the first noisy number."""
    if not isinstance(plan, Plan | Settings | None):
        raise NoisewiseError(
            f"plan must be a noisewise.Plan (Plan.load reads a file) or Settings, got {shown(plan)}"
        )
    if isinstance(plan, Plan):
        plan.check(model, target.dim, public_sample)
    settings = plan.settings if isinstance(plan, Plan) else plan
    if settings is not None:
        settings.check_dimension(target.dim)
        _rehearse(settings, target)
    if plan is not None or not isinstance(model, Mixture):
        check_method(posterior, settings)
    if public_sample is not None:
        for name, values in public_sample.columns.items():
            if name in table.schema and np.array_equal(values, table.arrays[name]):
                raise NoisewiseError(
                    f"column '{name}' of the public sample is the table's own: a public sample is "
                    "of other people, about whom nothing needs protecting"
                )


def _rehearse(settings: Settings, target: Target) -> None:
    """Put the fit together for made-up numbers: what does not fit together is refused here."""
    mechanism = Mechanism(
        clip_norm=settings.clip_norm,
        sampling_rate=settings.sampling_rate,
        steps=settings.steps,
        noise_multiplier=1.0,
    )
    try:
        assemble(settings, target, mechanism, 1000, 1000)
    except (ValueError, TypeError) as error:
        if isinstance(error, NoisewiseError):
            raise
        text = " ".join(str(error).split())[:200]
        raise NoisewiseError(f"the settings do not fit this model: {text}") from error


def _posterior(asked: str | None, model: Callable[..., Any]) -> str:
    """How the trace is read: as asked, if the model can be read so, or the model's own way."""
    if not isinstance(model, Mixture):
        return asked or "exact"
    if asked not in (None, "averaged"):
        raise NoisewiseError(
            f"posterior={asked!r} needs a unique optimum, and a mixture has one for every order of "
            "its components: use posterior='averaged'"
        )
    return "averaged"


def _row_count(table: Table, budget: Budget, insecure_seed: int | None) -> _RowCount:
    declared = table.schema.rows
    if declared is not None:
        if declared != len(table):
            raise NoisewiseError(
                f"the schema declares rows = {declared} but the table has another number: correct "
                "it, or leave rows out to have the number noised"
            )
        return _RowCount(declared, "declared public in the schema", ())
    if budget.adjacency == "replace-one":
        return _RowCount(len(table), "public under replace-one adjacency", ())
    release = count_release(budget)
    public = noisy_count(len(table), release, insecure_seed)
    return _RowCount(public, "noised, paid from the budget", (release,))


def _first_guess(
    target: Target, view: RowView, rows: int, budget: Budget, steps: int | None
) -> Settings:
    if isinstance(target.model, Mixture):
        return mixture_guess(target, view, rows, steps)
    if steps is None:
        return first_guess(target, view, rows, budget)
    return first_guess(target, view, rows, budget, steps=steps)


def _planned(
    plan: Plan | Settings, table: Table, rows: int, budget: Budget
) -> tuple[Settings, str]:
    if isinstance(plan, Settings):
        return plan, "set by the caller"
    plan.warn_if_it_does_not_fit(table.schema, rows, budget)
    return plan.settings, plan.source


def _run(
    assembly: Assembly,
    table: Table,
    view: RowView,
    insecure_seed: int | None,
    progress: Callable[[int, int], None] | None,
) -> Trace:
    rows = assembly.program.rule.target.prepare(view.rows(table.arrays), assembly.frame)
    steps = len(assembly.schedule)
    return run_secure(
        assembly.program,
        assembly.setting,
        rows,
        len(table),
        assembly.initial,
        assembly.schedule,
        insecure_seed=insecure_seed,
        progress=None if progress is None else lambda done: progress(done, steps),
    )


def _certificate(
    budget: Budget,
    mechanism: Mechanism,
    count: _RowCount,
    source: str,
    public_sample: PublicSample | None,
    insecure_seed: int | None,
) -> Certificate:
    secure = insecure_seed is None
    sources = {
        "bounds and categories": "declared in the schema",
        "clip norm and settings": source,
        "number of rows": count.source,
        "randomness": "AES-128-CTR keyed by the operating system" if secure else "a known seed",
        "sampling": "Poisson, no batch truncated",
        "noise": "rounded Gaussian on an integer grid",
    }
    if public_sample is not None:
        sources["covariates for simulation"] = (
            f"a sample of {len(public_sample)} rows, {public_sample.fingerprint()}, declared public"
        )
    gradients = mechanism.release("gradients")
    reasons = (
        () if secure else (f"insecure_seed={insecure_seed}: whoever knows it can undo the noise",)
    )
    return issue(budget, (gradients, *count.releases), sources, reasons)


def _asked(
    model: Callable[..., Any],
    view: RowView,
    target: str | None,
    settings: Settings,
    posterior: str,
    rows: int,
) -> dict[str, Any]:
    """What was asked for, as plain data: all of it public."""
    return {
        "model": model_name(model),
        "target": target,
        "arguments": list(view.arguments),
        "encoding": [] if view.encoder is None else view.encoder.describe(),
        "schema": view.schema.to_dict(),
        "rows": rows,
        "posterior": posterior,
        "settings": settings.to_dict(),
    }


def _result(
    target: Target,
    view: RowView,
    trace: Trace,
    outcome: Outcome,
    certificate: Certificate,
    asked: dict[str, Any],
) -> Result:
    def latents(theta: np.ndarray) -> dict[str, np.ndarray]:
        found = target.constrain(jnp.asarray(theta, jnp.float32))
        return {name: np.asarray(value) for name, value in found.items()}

    names = view.feature_names
    coordinates = {}
    if names is not None and isinstance(target.model, Glm):
        coordinates["coefficients"] = names
    elif isinstance(target.model, Mixture) and target.model.design:
        coordinates["coefficients"] = list(target.model.design)
    ends = np.cumsum(np.asarray(trace.blocks.count)).astype(np.int64)
    return Result(
        draws=latents(outcome.draws),
        plain=latents(outcome.plain),
        privacy=certificate,
        status=outcome.status,
        asked=asked,
        trace={
            "means": trace.block_means(),
            "ends": ends,
            "curvature": outcome.curvature,
            **_tails(outcome),
        },
        burn_in=outcome.burn_in.blocks,
        coordinates=coordinates,
    )


def _tails(outcome: Outcome) -> dict[str, np.ndarray]:
    """Tails that were averaged, and both tests of their convergence, by variational parameter."""
    found = outcome.averaged
    if found is None:
        return {}
    return {
        "tail_blocks": found.blocks,
        "tail_slope": found.slope,
        "tail_r_hat": found.r_hat,
        "tail_converged": found.converged,
    }
