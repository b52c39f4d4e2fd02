"""The whole street in one call: a table and a budget in, a noise-aware posterior out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from noisewise._validate import NoisewiseError, integer_at_least, one_of, shown
from noisewise.account import certified, row_count
from noisewise.data import PublicSample, Table
from noisewise.dpvi import Assembly, Settings, Trace, assemble, run_secure
from noisewise.mechanism import Budget, Certificate, Mechanism, in_blocks, refuse_double_precision
from noisewise.models import (
    Glm,
    Mixture,
    Network,
    RowView,
    Target,
    build_target,
    model_name,
    named_model,
)
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
from noisewise.sep_fitting import fit_sep

__all__ = ["fit"]


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
    method: str = "dpvi",
    posterior: str | None = None,
    draws: int = 4000,
    insecure_seed: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Fit a NumPyro model under differential privacy.

    ``model`` is a NumPyro model function, ``"logistic"``, ``"probit"``, ``"poisson"``,
    ``"linear"``, ``"network"``, ``"mixture"`` or ``"path/to/model.py:function"``. Its arguments are
    columns of the table by name; ``X`` and ``y`` are the design matrix and the ``target`` column.
    Without a ``plan``, a quick one is made by simulation first (`noisewise.plan` with ``fits=0``),
    for ``steps`` steps if given; covariates are simulated from the schema, or taken from a
    ``public_sample``. If the schema declares no number of rows, a noisy one is bought with about
    one percent of the budget.
    ``progress(done, steps)`` is called as the run goes on.

    ``posterior`` is how the trace is read, by default ``"exact"``, the noise-aware one. For a
    mixture it is ``"averaged"``, DPVIm's: the noise-aware ones need a unique optimum, and a
    mixture has one for every order of its components.

    ``method="dp-sep"`` fits linear, logistic and probit regressions and networks by stochastic
    expectation propagation instead (`noisewise.dpsep`), without a plan; ``steps`` are 400, of a
    network 800. A network can only be fitted so.

    ``insecure_seed`` makes the fit repeatable and therefore not private: for tests only.
    """
    if not isinstance(table, Table):
        raise NoisewiseError(f"table must be a noisewise.Table, got {type(table).__name__}")
    if not isinstance(budget, Budget):
        raise NoisewiseError(f"budget must be a noisewise.Budget, got {shown(budget)}")
    refuse_double_precision()
    integer_at_least("draws", draws, 100)
    if steps is not None:
        integer_at_least("steps", steps, 10)
    if insecure_seed is not None:
        integer_at_least("insecure_seed", insecure_seed, 0)
    if plan is not None and steps is not None:
        raise NoisewiseError("steps is part of the plan: pass one of plan and steps")
    one_of("method", method, ("dpvi", "dp-sep"))
    resolved = named_model(model, table.schema, target, features)
    view = row_view(resolved, table.schema, target, features, public_sample)
    _refuse_own_rows(public_sample, table)
    if method == "dp-sep":
        if plan is not None or posterior is not None:
            raise NoisewiseError(
                "plan and posterior belong to method='dpvi': leave them out with method='dp-sep'"
            )
        return fit_sep(
            resolved,
            table,
            budget=budget,
            view=view,
            steps=steps,
            draws=draws,
            public_sample=public_sample,
            insecure_seed=insecure_seed,
            progress=progress,
        )
    posterior = _posterior(posterior, resolved)
    built = build_target(resolved, view.simulate(np.random.default_rng(0), 4))
    _refuse_before_spending(plan, resolved, built, posterior, public_sample)
    count = row_count(table, budget, insecure_seed)
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
    releases = (mechanism.release("gradients"),)
    certificate = certified(budget, releases, count, source, public_sample, insecure_seed)
    rng = np.random.default_rng(insecure_seed)
    reference = reference_rows(built, view, count.public)
    outcome = infer(posterior, trace, assembly, settings, draws, rng, reference)
    asked = _asked(resolved, view, target, settings, posterior, count.public)
    return _result(built, view, trace, outcome, certificate, asked)


def _refuse_before_spending(
    plan: Plan | Settings | None,
    model: Callable[..., Any],
    target: Target,
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


def _refuse_own_rows(public_sample: PublicSample | None, table: Table) -> None:
    columns = {} if public_sample is None else public_sample.columns
    for name, values in columns.items():
        if name in table.schema and np.array_equal(values, table.arrays[name]):
            raise NoisewiseError(
                f"column '{name}' of the public sample is the table's own: a public sample is of "
                "other people, about whom nothing needs protecting"
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
    if isinstance(model, Network):
        raise NoisewiseError(
            "a network has many equal optima, which no reading of a DPVI trace can tell apart: fit "
            "it with method='dp-sep'"
        )
    if not isinstance(model, Mixture):
        return asked or "exact"
    if asked not in (None, "averaged"):
        raise NoisewiseError(
            f"posterior={asked!r} needs a unique optimum, and a mixture has one for every order of "
            "its components: use posterior='averaged'"
        )
    return "averaged"


def _first_guess(
    target: Target, view: RowView, rows: int, budget: Budget, steps: int | None
) -> Settings:
    if isinstance(target.model, Mixture):
        return mixture_guess(target, view, rows, budget, steps)
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
    target = assembly.program.rule.target
    rows = in_blocks(lambda block: target.prepare(block, assembly.frame), view.rows(table.arrays))
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
        # What has names of its own is what people look for: it comes first.
        order = sorted(found, key=lambda name: name not in coordinates)
        return {name: np.asarray(found[name]) for name in order}

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
        **{f"pull_{name}": np.array(pull) for name, pull in (outcome.pulls or {}).items()},
    }
