"""DP-SEP from a table to a posterior: linear, logistic and probit regressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noisewise._validate import NoisewiseError
from noisewise.dpsep import (
    SepDesign,
    SepSettings,
    assemble_phases,
    finish,
    phase_mechanisms,
    refuse_weights,
    sep_design,
)
from noisewise.engine import Finished, PublicCount, run_phases_secure
from noisewise.fitting.method import Job, Prepared, Reading, nominal_count
from noisewise.mechanism import Release, count_cost
from noisewise.planning import Plan
from noisewise.posterior import SepTrace, read_regression, sep_status

_SOURCE = "rules of the model, the declared bounds and simulated rows"


@dataclass(frozen=True)
class DpSep:
    """Stochastic expectation propagation by released sums of sites."""

    plan: Plan | None = None
    name: str = "dp-sep"

    def rehearse(self, job: Job) -> None:
        """Find the site, calibrate and assemble, all before anything is spent."""
        refuse_without_design(job)
        if self.plan is not None:
            self.plan.check(job.bound, self.name, job.public_sample)
        design = self._design(job)
        others = count_cost(job.table.schema.public_count, job.budget)
        mechanisms = phase_mechanisms(design.phases, job.budget, others)
        assemble_phases(design.phases, mechanisms, nominal_count(job.table), design.initial)

    def _design(self, job: Job) -> SepDesign:
        settings = None if self.plan is None else self.plan.settings
        assert settings is None or isinstance(settings, SepSettings)  # `rehearse` has looked
        return sep_design(job.bound, job.steps, settings)

    def prepare(self, job: Job, count: PublicCount) -> Prepared:
        """Bounds from the model and simulated rows; nothing is bought but the steps."""
        design = self._design(job)
        source = _SOURCE
        if self.plan is not None:
            source = self.plan.source
            self.plan.warn_if_it_does_not_fit(job.table.schema, count.value, job.budget)
        mechanisms = phase_mechanisms(design.phases, job.budget, count.releases)
        runs = assemble_phases(design.phases, mechanisms, count.value, design.initial)
        releases: tuple[Release, ...] = tuple(one.release("sites") for one in mechanisms)
        return Prepared(
            runs=runs,
            rows=job.bound.view.private(job.table).map(design.regression.rows),
            releases=releases,
            settings=design.phases[-1].settings,
            source=source,
            count=count,
            details=design,
        )

    def run(self, job: Job, prepared: Prepared) -> Sequence[Finished]:
        """All phases."""
        return run_sep(job, prepared, prepared.settings.steps)

    def posterior(
        self, job: Job, prepared: Prepared, finished: Sequence[Finished], rng: np.random.Generator
    ) -> Reading:
        """Draws given the mean site that was released, against simulated records."""
        design, runs = prepared.details, prepared.runs
        assert isinstance(design, SepDesign)
        regression, fit = design.regression, finish(runs, finished)
        read = read_regression(runs[-1], fit, design.covariates, job.draws, rng)
        trace = sep_trace(finished[-1])
        return Reading(
            draws=regression.latents(*read.aware),
            noise_unaware=regression.latents(*read.unaware),
            status=sep_status(trace, prepared.sep_settings, read.aware.theta),
            posterior=self.name,
            trace=trace._asdict(),
        )


def refuse_without_design(job: Job) -> None:
    """DP-SEP needs a site, and features that an encoder made."""
    job.bound.require(
        "site",
        "method='dp-sep'",
        "use linear, logistic, probit or network, method='dpvi', or write a site "
        "(noisewise.dpsep.Site)",
    )
    refuse_weights(job.bound)
    encoder = job.bound.view.encoder
    if encoder is None or encoder.target is None:
        raise NoisewiseError(
            "method='dp-sep' needs the features encoded: rename the schema's own columns X and y"
        )
    for name in job.bound.view.silencing:
        raise NoisewiseError(
            f"method='dp-sep' takes no missing outcomes, which column '{name}' may have: use "
            "method='dpvi', or declare the column without missing = 'allowed' and drop those rows"
        )


def run_sep(job: Job, prepared: Prepared, total: int) -> Sequence[Finished]:
    """All phases on the table; ``total`` is what the progress bar counts to."""
    progress = job.progress
    on_step = None if progress is None else lambda done: progress(done, total)
    seed = job.insecure_seed
    return run_phases_secure(
        prepared.runs,
        prepared.rows,
        insecure_seed=seed,
        progress=on_step,
        checkpoint=job.checkpoint,
        count_noise=prepared.count.noise_sd,
        devices=job.devices,
    )


def sep_trace(finished: Finished) -> SepTrace:
    """The means that were recorded, and when."""
    return SepTrace(np.stack(finished.records), np.array(finished.ends, np.int64))
