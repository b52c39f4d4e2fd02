"""The whole way in one call: a table and a budget in, a noise-aware posterior out."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from noisewise._hosts import Hosts
from noisewise._validate import (
    LARGEST_SEED,
    NoisewiseError,
    Progress,
    integer_at_least,
    one_of,
    shown,
)
from noisewise.data import PublicSample, Table
from noisewise.dpvi import Settings
from noisewise.engine import Devices, certify, public_count, refuse_another_count
from noisewise.engine.memory import refuse_if_too_large
from noisewise.fitting.dpsep import DpSep
from noisewise.fitting.dpvi import Dpvi
from noisewise.fitting.method import Job, Method, Prepared, Reading, nominal_count
from noisewise.fitting.network import NetworkSep
from noisewise.fitting.resuming import begin, open_checkpoint, request_of, settle
from noisewise.mechanism import Budget, Ledger, refuse_double_precision
from noisewise.mechanism.certificate import software_versions
from noisewise.models import Priors, TargetNames, bind_model
from noisewise.planning import Plan
from noisewise.planning.first_guess import STEPS
from noisewise.result import Request, Result


def fit(
    model: Callable[..., Any] | str,
    table: Table,
    *,
    budget: Budget,
    target: TargetNames = None,
    features: list[str] | None = None,
    family: str | None = None,
    priors: Priors | None = None,
    plan: Plan | Settings | None = None,
    steps: int | None = None,
    public_sample: PublicSample | None = None,
    covariate_share: float | None = None,
    misfit_share: float | None = None,
    method: str = "dpvi",
    posterior: str | None = None,
    draws: int = 4000,
    insecure_seed: int | None = None,
    progress: Progress | None = None,
    ledger: Ledger | str | Path | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    devices: int | str | None = None,
) -> Result:
    """Fit a NumPyro model under differential privacy.

    If the schema declares no number of rows, a noisy one is bought with about one percent of the
    budget.

    Args:
        model: A NumPyro model function, ``"logistic"``, ``"probit"``, ``"poisson"``, ``"linear"``,
            ``"network"``, ``"mixture"`` or ``"path/to/model.py:function"``. Its arguments are
            columns of the table by name; ``X`` and ``y`` are the design matrix and the target. Or a
            formula, in R's sense of the operators: ``"visits ~ age * sex + log(income)"``.
        table: The rows, checked against a schema.
        budget: Epsilon and delta, and what they protect.
        target: The column that is ``y`` to the model; of a survival model two, a time and whether
            it is an event's.
        features: The columns that make up ``X``; all but the target if not given.
        family: Of a formula: ``"poisson"``, ``"logistic"``, ... By default what suits the target's
            kind.
        priors: Of a formula's coefficients, by name, on the encoded scale: sds, or
            ``numpyro.distributions.Normal``. Others keep the family's.
        plan: From `noisewise.plan`, or settings of your own. Without one, a quick plan is made by
            simulation first (`noisewise.plan` with ``fits=0``).
        steps: How many, where there is no plan; 4000 unless given, of DP-SEP 400, of a network 800.
        public_sample: Rows of other people that simulated covariates are taken from, in place of
            the schema.
        covariate_share: Share of the budget (in squared signal-to-noise) that buys a noisy
            description of the covariates, so that simulated ones are like the data's: a tenth
            unless given, nothing for models without covariates or with a ``public_sample``. With 0
            they are simulated from the schema alone, and error bars hold only as far as it
            describes them.
        misfit_share: Share of the budget that buys, after the steps, how large gradients are at the
            fit, and with it whether outcomes scatter more than the model says: a fiftieth unless
            given, nothing where covariates are simulated from the schema alone. With 0 a wrong
            model is not noticed.
        method: ``"dpvi"``, or ``"dp-sep"``: stochastic expectation propagation, for linear,
            logistic and probit regressions and networks. A network can only be fitted so.
        posterior: How a DPVI trace is read, by default the noise-aware way. For a mixture it is
            ``"averaged"``, DPVIm's: the noise-aware ones need a unique optimum, and a mixture has
            one for every order of its components.
        draws: How many posterior draws to return.
        insecure_seed: Makes the fit repeatable and therefore not private: for tests only.
        progress: Called with the steps done and their number as the run goes on.
        ledger: The table's ledger, or its path: what the fit spends is written there before it is
            released, and refused if the ledger's total would be passed.
        checkpoint: A folder where what was released is written down as the steps go on, so that a
            fit that was killed can go on. It stays until you delete it, once the result is saved.
        resume: Go on with the fit in that folder: what was released is not released again.
        devices: How many devices of this host share the rows, or ``"all"``; one unless given.
            Several hosts share them where all have called `noisewise.join_hosts` first; then each
            returns the result, and one of them should save it.
    """
    if not isinstance(table, Table):
        raise NoisewiseError(f"table must be a noisewise.Table, got {type(table).__name__}")
    if not isinstance(budget, Budget):
        raise NoisewiseError(f"budget must be a noisewise.Budget, got {shown(budget)}")
    refuse_double_precision()
    hosts, written = Hosts.joined(), ledger is not None
    if not hosts.is_first:
        ledger = None  # it is the first one's to keep
    if ledger is not None:
        ledger = Ledger.of(ledger)
        ledger.account()  # a ledger that cannot be read is said at once
    integer_at_least("draws", draws, 100)
    if steps is not None:
        integer_at_least("steps", steps, 10)
    if insecure_seed is not None:
        integer_at_least("insecure_seed", insecure_seed, 0, LARGEST_SEED)
    if plan is not None and steps is not None:
        raise NoisewiseError("steps is part of the plan: pass one of plan and steps")
    one_of("method", method, ("dpvi", "dp-sep"))
    if isinstance(plan, Settings) and not plan.full_curvature and covariate_share is None:
        covariate_share = 0.0  # neither these settings nor their posterior simulate covariates
    bound = bind_model(
        model, table.schema, target, features, public_sample, family=family, priors=priors
    )
    _refuse_own_rows(public_sample, table)
    table = table.shared_by(hosts)
    count = 0 if table.memory else table.schema.public_count or nominal_count(table) // 2
    refuse_if_too_large(
        count, bound.width, bound.target.dim, steps or STEPS, draws, most=table.memory
    )
    job = Job(
        bound=bound,
        table=table,
        budget=budget,
        draws=draws,
        steps=steps,
        covariate_share=covariate_share,
        misfit_share=misfit_share,
        public_sample=public_sample,
        insecure_seed=insecure_seed,
        progress=progress,
        ledger=ledger,
        hosts=hosts,
        devices=Devices.chosen(devices, hosts),
    )
    how = _method(job, method, plan, posterior)
    if checkpoint is None and resume:
        raise NoisewiseError("resume=True needs the checkpoint of the fit that is to go on")
    request = request_of(job, plan, written, {"method": method, "posterior": posterior})
    kept = {"checkpoint": [checkpoint is not None, resume], "versions": software_versions()}
    hosts.refuse_unlike(
        {name: json.dumps(value) for name, value in (request | kept).items()},
        "call fit with the same arguments on all of them",
    )
    if checkpoint is None:
        return _fit(job, how)
    found = open_checkpoint(checkpoint, hosts, request, resume)
    try:
        return _fit(replace(job, checkpoint=found), how)
    finally:
        found.release()


def _method(job: Job, name: str, plan: Plan | Settings | None, posterior: str | None) -> Method:
    if not isinstance(plan, Plan | Settings | None):
        raise NoisewiseError(
            f"plan must be a noisewise.Plan (Plan.load reads a file) or Settings, got {shown(plan)}"
        )
    if name == "dpvi":
        return Dpvi(plan, posterior)
    shares = (job.covariate_share, job.misfit_share)
    if posterior is not None or shares != (None, None) or isinstance(plan, Settings):
        raise NoisewiseError(
            "posterior, covariate_share, misfit_share and DPVI's settings belong to "
            "method='dpvi': leave them out with method='dp-sep'"
        )
    if job.bound.capabilities.site == "network":
        if plan is not None:
            raise NoisewiseError("a network has no plan: call fit without one")
        return NetworkSep()
    return DpSep(plan)


def _fit(job: Job, method: Method) -> Result:
    """Prepare, run, posterior, result: the same for every method."""
    method.rehearse(job)
    refuse_another_count(job.table)
    job.hosts.gathered(np.zeros(1))  # all hosts have come this far: none has refused
    entry = begin(job)
    # From here on budget is spent: whatever can be refused has been.
    count = public_count(job.table, job.budget, job.insecure_seed, job.bought)
    job.budget.warn_if_delta_is_large(count.value)
    prepared = settle(job, method.prepare(job, count))
    if entry is not None:
        entry.settle((*prepared.releases, *count.releases))
    finished = method.run(job, prepared)
    certificate = certify(
        job.budget,
        prepared.releases,
        settings=prepared.source,
        count=count,
        protects=job.table.schema.protected,
        public_sample=job.public_sample,
        insecure_seed=job.insecure_seed,
        more={
            **dict(prepared.sources),
            **({} if job.devices is None else {"devices": job.devices.words}),
            **({} if entry is None else {"ledger": str(entry)}),
            **({} if job.checkpoint is None else job.checkpoint.history),
        },
    )
    if entry is not None:
        entry.certify(certificate)
    seed = job.insecure_seed
    if seed is None and job.hosts.several:  # of public draws: the same on all hosts
        seed = job.hosts.number_of_first(lambda: secrets.randbits(128))
    rng = np.random.default_rng(seed)
    reading = method.posterior(job, prepared, finished, rng)
    job.hosts.gathered(np.zeros(1))  # nobody leaves before the others are done
    return Result(
        draws=reading.draws,
        noise_unaware=reading.noise_unaware,
        privacy=certificate,
        status=reading.status,
        request=_request(job, method, prepared, reading),
        trace=reading.trace,
        burn_in=reading.burn_in,
        coordinates=job.bound.coordinates,
        nuisance=reading.nuisance,
        notes=(*prepared.notes, *reading.notes),
    )


def _request(job: Job, method: Method, prepared: Prepared, reading: Reading) -> Request:
    view = job.bound.view
    return Request(
        model=job.bound.name,
        method=method.name,
        posterior=reading.posterior,
        target=view.target,
        event=view.event,
        arguments=view.arguments,
        encoding=() if view.encoder is None else tuple(view.encoder.describe()),
        schema=view.schema,
        public_count=prepared.public_count,
        settings=prepared.settings,
        network=reading.network,
        formula=job.bound.formula,
        priors=job.bound.prior_words,
    )


def _refuse_own_rows(public_sample: PublicSample | None, table: Table) -> None:
    own = [] if public_sample is None else table.own_columns(public_sample.columns)
    if own:
        raise NoisewiseError(
            f"column '{own[0]}' of the public sample is the table's own: a public sample is of "
            "other people, about whom nothing needs protecting"
        )
