"""DPVI from a table to a posterior."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import jax.numpy as jnp
import numpy as np

from noisewise._programs import not_kept
from noisewise._validate import NoisewiseError
from noisewise.covariates import (
    KnownCovariates,
    as_declared,
    covariates_cost,
    know_covariates,
    share_to_spend,
)
from noisewise.data import unit_weight
from noisewise.dpvi import (
    Settings,
    assemble,
    prepared_rows,
    settled_mean,
    trace_of,
    variability_of,
    variability_run,
)
from noisewise.engine import Finished, PublicCount, Run, run_secure
from noisewise.fitting.method import Job, Prepared, Reading, nominal_count
from noisewise.fitting.misfit import Judged, judge
from noisewise.mechanism import Release, count_cost
from noisewise.models import BoundModel, derived_values
from noisewise.planning import SIMULATED, SIMULATED_BOUGHT, Plan, guess_settings
from noisewise.posterior import (
    LARGEST_MATRIX,
    FitContext,
    Outcome,
    Status,
    check_method,
    default_method,
    infer_pooled,
    refuse_weights_without_matrix,
    sizes_cost,
    variability_cost,
    variability_mechanism,
)
from noisewise.trials import reference_rows, refuse_if_it_diverges


@dataclass(frozen=True)
class Dpvi:
    """Variational inference by released gradients, and the noise-aware reading of their trace."""

    plan: Plan | Settings | None
    chosen_posterior: str | None
    name: str = "dpvi"

    @property
    def _settings(self) -> Settings | None:
        found = self.plan.settings if isinstance(self.plan, Plan) else self.plan
        assert found is None or isinstance(found, Settings)  # `rehearse` has looked
        return found

    def rehearse(self, job: Job) -> None:
        """Plan, posterior and model must fit together; a planned run is assembled once, and that of
        a model without closed-form gradients is begun on simulated tables."""
        plan = self.plan
        refuse_weights_without_matrix(job.bound, self._settings)
        self._check_posterior(job.bound)
        share_to_spend(job.bound, job.covariate_share)  # refuses a bad one
        target = job.bound.target
        for note in silent_records(job.bound):
            warnings.warn(note, stacklevel=4)
        if isinstance(plan, Plan):
            plan.check(job.bound, self.name, job.public_sample)
        settings = self._settings
        if settings is not None:
            settings.check_dimension(target.dim)
            _assemble_once(job, settings)
        if settings is not None or job.bound.capabilities.unique_optimum:
            check_method(self.chosen_posterior, settings, target.dim)
        if not job.bound.capabilities.closed_form_gradients:
            with not_kept():
                self._rehearse_run(job)

    def _rehearse_run(self, job: Job) -> None:
        """The fit as it would be if covariates were as declared; a fit that buys their shape makes
        its settings anew. Clipped gradients cannot run away beside those of a Gaussian prior, which
        planned fits with a curvature matrix have: only other runs are begun."""
        count, bound = job.table.schema.public_count or nominal_count(job.table), job.bound
        bought = covariates_cost(bound, job.budget, job.covariate_share)
        bound = as_declared(bound, bought, count) if bought else bound
        settings = self._settings or guess_settings(bound, count, job.budget, job.steps)
        by_hand = isinstance(self.plan, Settings)
        if not settings.along_gaussian_prior and (by_hand or bound.target.dim > LARGEST_MATRIX):
            refuse_if_it_diverges(bound, _assemble_once(job, settings), count)

    def _check_posterior(self, bound: BoundModel) -> None:
        """Whether the model can be read as requested."""
        bound.require("averaged_posterior", "DPVI", "fit it with method='dp-sep'")
        if self.chosen_posterior not in (None, "averaged"):
            purpose, instead = f"posterior={self.chosen_posterior!r}", "use posterior='averaged'"
            bound.require("unique_optimum", purpose, instead)

    def prepare(self, job: Job, count: PublicCount) -> Prepared:
        """Settings from the plan, or from a quick simulation."""
        known = know_covariates(
            job.bound,
            job.table,
            count.value,
            job.budget,
            share=job.covariate_share,
            insecure_seed=job.insecure_seed,
            bought=job.bought,
            # Only a curvature matrix is read with other shapes.
            likeliest=job.bound.target.dim > LARGEST_MATRIX,
        )
        source = "set by the caller"
        if isinstance(self.plan, Plan):
            source = self.plan.source
            self.plan.warn_if_it_does_not_fit(job.table.schema, count.value, job.budget)
            if known.releases:
                source += "; scales from the covariates that were bought"
        if self.plan is None:
            source = SIMULATED if not known.releases else SIMULATED_BOUGHT
        settings = self._settings_for(job, known, count.value)
        more = (*_sizes_cost(job, settings), *variability_cost(job.bound, job.budget))
        others = (*known.releases, *more, *count.releases)
        mechanism = settings.mechanism().calibrate(job.budget, others)
        target = job.bound.target
        run = assemble(settings, target, mechanism, count.value)
        products = variability_mechanism(job.bound, settings.clip_norm, job.budget)
        return Prepared(
            runs=[run] if products is None else [run, variability_run(run, products)],
            rows=job.bound.view.private(job.table).map(partial(prepared_rows, target, run)),
            releases=(*known.releases, mechanism.release("gradients"), *more),
            settings=settings,
            source=source,
            count=count,
            covariates=known.bounds,
            sources=(*known.sources, *_weights_source(job.bound)),
            notes=(*silent_records(job.bound), *known.notes),
        )

    def _settings_for(self, job: Job, known: KnownCovariates, rows: int) -> Settings:
        """Those of the plan or the caller, in view of what was bought; or a quick guess."""
        if job.settings_before is not None:
            return Settings.from_dict(job.settings_before)
        if isinstance(self.plan, Plan) and known.releases:
            return self.plan.redesigned(known.bounds[0], rows)
        found = self._settings
        return found or guess_settings(known.bounds[0], rows, job.budget, job.steps)

    def run(self, job: Job, prepared: Prepared) -> Sequence[Finished]:
        """One run, and where records have weights, a release where it ended."""
        run, *after = prepared.runs
        progress = job.progress
        on_step = None if progress is None else lambda done: progress(done, run.steps)
        descent = run_secure(
            run,
            prepared.rows,
            insecure_seed=job.insecure_seed,
            progress=on_step,
            checkpoint=job.checkpoint,
            count_noise=prepared.count.noise_sd,
            devices=job.devices,
        )
        if not after:
            return [descent]
        seed = None if job.insecure_seed is None else job.insecure_seed ^ 1  # noise of its own
        products = run_secure(
            after[0].starting_at(settled_mean(trace_of(descent, run).blocks)),
            prepared.rows,
            insecure_seed=seed,
            checkpoint=job.checkpoint,
            phase=1,
            count_noise=prepared.count.noise_sd,
            devices=job.devices,
        )
        return [descent, products]

    def posterior(
        self, job: Job, prepared: Prepared, finished: Sequence[Finished], rng: np.random.Generator
    ) -> Reading:
        """The trace, read by the chosen posterior."""
        (run, *after), settings = prepared.runs, prepared.settings
        assert isinstance(settings, Settings)
        trace = trace_of(finished[0], run)
        if after:
            found = variability_of(after[0], finished[1].state.total)
            trace = replace(trace, variability=found)
        method = self._method(job.bound, settings)
        # Only a curvature matrix is read with simulated covariates.
        known = prepared.covariates if settings.full_curvature else prepared.covariates[:1]
        references = [reference_rows(one, prepared.public_count) for one in known]
        contexts = [FitContext.of(run, settings, reference) for reference in references]
        (outcome,) = infer_pooled(method, [trace], contexts, job.draws, [rng])
        judged = Judged(outcome)
        if _sizes_cost(job, settings):
            judged = judge(job, prepared.rows, contexts, outcome, rng)
        outcome = judged.outcome
        ends = np.cumsum(np.asarray(trace.blocks.count)).astype(np.int64)
        latents = _latents(job.bound, outcome.draws)
        overflown = not all(np.isfinite(values).all() for values in latents.values())
        return Reading(
            draws=latents,
            noise_unaware=_latents(job.bound, outcome.noise_unaware),
            status=Status.DIVERGED if overflown else outcome.status,
            posterior=method,
            trace={
                "means": trace.block_means(),
                "ends": ends,
                "curvature": outcome.curvature,
                **_tails(outcome),
            },
            burn_in=outcome.burn_in.blocks,
            notes=judged.notes,
        )

    def _method(self, bound: BoundModel, settings: Settings) -> str:
        default = default_method(settings) if bound.capabilities.unique_optimum else "averaged"
        return self.chosen_posterior or default


def silent_records(bound: BoundModel) -> tuple[str, ...]:
    """A sentence about records that contribute nothing, if simulated ones do so."""
    share = bound.silent_share
    if not share > 0:
        return ()
    return (
        f"the model's gradient is not a number for {share:.0%} of the records that the schema "
        "simulates: such records contribute nothing, and the posterior is of the others; mend the "
        "model, or declare narrower bounds",
    )


def _weights_source(bound: BoundModel) -> tuple[tuple[str, str], ...]:
    """What the certificate says of survey weights."""
    weight = bound.view.schema.weight
    if weight is None:
        return ()
    assert weight.bounds is not None
    low, high = weight.bounds
    return (
        (
            "survey weights",
            f"weighted: column '{weight.name}', declared in [{low:g}, {high:g}], over "
            f"{unit_weight(weight):g}; gradients are multiplied by it before they are clipped",
        ),
    )


def _assemble_once(job: Job, settings: Settings) -> Run:
    """Put the fit together for a nominal number of rows: what does not fit together is refused."""
    count, schema = nominal_count(job.table), job.table.schema
    others = (
        *covariates_cost(job.bound, job.budget, job.covariate_share),
        *_sizes_cost(job, settings),
        *variability_cost(job.bound, job.budget),
        *count_cost(schema.public_count, job.budget),
    )
    try:
        mechanism = settings.mechanism().calibrate(job.budget, others)
        return assemble(settings, job.bound.target, mechanism, count)
    except (ValueError, TypeError) as error:
        if isinstance(error, NoisewiseError):
            raise
        text = " ".join(str(error).split())[:200]
        raise NoisewiseError(f"the settings do not fit this model: {text}") from error


def _sizes_cost(job: Job, settings: Settings) -> tuple[Release, ...]:
    """What comparing sizes of gradients will release: they are simulated as the trace is."""
    if not settings.full_curvature or settings.curvature is None:
        return ()
    return sizes_cost(job.bound, job.budget, job.covariate_share, job.misfit_share)


def _latents(bound: BoundModel, theta: np.ndarray) -> dict[str, np.ndarray]:
    found = bound.target.constrain(jnp.asarray(theta, jnp.float32))
    # What has names of its own is what people look for: it comes first.
    order = sorted(found, key=lambda name: name not in bound.coordinates)
    named = {name: np.asarray(found[name]) for name in order}
    return named | derived_values(bound, theta)


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
        **{f"stationarity_{k}": np.array(v) for k, v in (outcome.stationarity or {}).items()},
    }
