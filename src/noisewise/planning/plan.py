"""A plan: settings for a fit, what they were made for, and what to expect of it."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from noisewise._pages import Shown, write_page_about
from noisewise._validate import (
    NoisewiseError,
    Progress,
    integer_at_least,
    one_of,
    positive,
    shown,
)
from noisewise.covariates import as_declared, covariates_cost
from noisewise.data import PublicSample, Schema
from noisewise.dpsep import SepSettings, sep_design
from noisewise.dpvi import Settings
from noisewise.engine.memory import refuse_if_too_large
from noisewise.evaluation import Scores
from noisewise.mechanism import Budget, Release, calibrate, count_cost
from noisewise.models import BoundModel, Priors, TargetNames, bind_model
from noisewise.planning import files
from noisewise.planning.duration import Counted
from noisewise.planning.first_guess import STEPS, design, first_guess, sampling_rate, summarise
from noisewise.planning.forecast import (
    Forecast,
    PlanError,
    budget_grid,
    make_forecast,
    refuse_if_hopeless,
    what_would_work,
)
from noisewise.planning.mixture_guess import mixture_guess
from noisewise.planning.search import (
    SearchContext,
    Trial,
    judge,
    learn_recalibration,
    search,
)
from noisewise.posterior import refuse_weights_without_matrix, sizes_cost, variability_cost
from noisewise.trials import sep_simulator

SIMULATED = "simulated from the model's prior and the schema; no row was read"
SIMULATED_BOUGHT = (
    "simulated from the model's prior and the description of the covariates that was bought"
)
WITH_SAMPLE = (
    "simulated from the model's prior, the schema and a public sample; no row of the data was read"
)
_BUDGET = ("epsilon", "delta", "adjacency")
FITS, RECALIBRATION_FITS = 24, 128
_DRAWS = 400
_SETTINGS: dict[str, type[Settings] | type[SepSettings]] = {"dpvi": Settings, "dp-sep": SepSettings}


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan(Shown):
    """Settings for one model, schema, number of rows and budget, with a forecast."""

    settings: Settings | SepSettings
    rows: int
    schema: str
    """Fingerprint of the schema."""
    budget: Budget
    model: str
    forecast: Forecast
    formula: str | None = None
    method: str = "dpvi"
    choices: dict[str, float] = field(default_factory=dict)
    """What the search chose of `design`'s options: a fit that buys its covariates' shape makes its
    settings anew with them."""
    source: str = SIMULATED
    sample: str | None = None
    """Fingerprint of the public sample that covariates came from."""

    def check(self, bound: BoundModel, method: str, sample: PublicSample | None) -> None:
        """Refuse a plan for another model or method, or for other covariates than will be
        simulated.

        Args:
            bound: The model that is to be fitted.
            method: ``"dpvi"`` or ``"dp-sep"``.
            sample: Where its covariates are simulated from, if not from the schema.
        """
        if self.model != bound.name:
            raise NoisewiseError(
                f"the plan is for model {self.model}, not {bound.name}: plan again"
            )
        if self.formula != bound.formula:
            made = "no formula" if self.formula is None else f"the formula '{self.formula}'"
            raise NoisewiseError(f"the plan is for {made}: plan again for this one")
        if self.method != method:
            found = f"method='{self.method}', not '{method}'"
            raise NoisewiseError(f"the plan is for {found}: plan again")
        if isinstance(self.settings, Settings):
            self.settings.check_dimension(bound.target.dim)
        if self.sample != (None if sample is None else sample.fingerprint()):
            wanted = "without a public sample" if self.sample is None else "with its public sample"
            raise NoisewiseError(
                f"the plan was made {wanted}: pass the same one as public_sample, or plan again"
            )

    def warn_if_it_does_not_fit(self, schema: Schema, rows: int, budget: Budget) -> None:
        """Warn when what is to be fitted is not what was planned for.

        Args:
            schema: The table's.
            rows: The public number of rows.
            budget: What the fit may spend.
        """
        if self.schema != schema.fingerprint():
            warnings.warn("the plan was made for another schema: plan again", stacklevel=3)
        if not 0.8 < rows / self.rows < 1.25:
            warnings.warn(
                f"the plan was made for {self.rows} rows, the table has about {rows}: plan again",
                stacklevel=3,
            )
        same = np.isclose([self.budget.epsilon, self.budget.delta], [budget.epsilon, budget.delta])
        if self.budget.adjacency != budget.adjacency or not same.all():
            warnings.warn(
                f"the plan was made for {self.budget}, this fit has {budget}: plan again",
                stacklevel=3,
            )

    def redesigned(self, bound: BoundModel, rows: int) -> Settings:
        """The plan's choices for covariates as they turned out to be.

        Args:
            bound: The model, with covariates as far as they are known.
            rows: The public number of rows.
        """
        summary = summarise(bound, rows, self.budget)
        return design(bound.target, summary, steps=self.settings.steps, **self.choices)

    def save(self, path: str | Path) -> Path:
        """Write the plan as TOML: readable, editable, and taken by `fit`.

        Args:
            path: Of the file.
        """
        return files.write_plan(self._sections(), Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan file.

        Args:
            path: Of what `save` wrote.
        """
        with files.reading(Path(path)) as found:
            made_for = found.made_for
            method = one_of("method", made_for.get("method", "dpvi"), _SETTINGS)
            return cls(
                settings=_SETTINGS[method].from_dict(found.settings),
                rows=integer_at_least("rows", made_for["rows"], 2),
                schema=str(made_for["schema"]),
                budget=Budget(**{name: made_for[name] for name in _BUDGET}),
                model=str(made_for["model"]),
                method=method,
                formula=made_for.get("formula"),
                forecast=Forecast.from_dict(found.forecast),
                choices=_checked_choices(made_for.get("choices", {})),
                source=found.source,
                sample=made_for.get("public_sample"),
            )

    def _sections(self) -> files.Sections:
        made_for = {
            "model": self.model,
            "method": self.method,
            "rows": self.rows,
            "schema": self.schema,
            **{name: getattr(self.budget, name) for name in _BUDGET},
            "source": self.source,
            "choices": self.choices,
            **({} if self.formula is None else {"formula": self.formula}),
            **({} if self.sample is None else {"public_sample": self.sample}),
        }
        return files.Sections(made_for, self.forecast.to_dict(), self.settings.to_dict())

    def __repr__(self) -> str:
        budget, sds = self.budget, self.forecast.sd
        fits = f"{self.forecast.fits} simulated fits" if self.forecast.fits else "no simulated fit"
        return (
            f"Plan(for {self.model}, {self.rows} rows, epsilon {budget.epsilon:g}, delta "
            f"{budget.delta:g}, {budget.adjacency} adjacency: {self.settings.steps} steps; "
            f"expected sds {min(sds):.3g} to {max(sds):.3g} for {len(sds)} parameters, from {fits})"
        )

    def report(self, path: str | Path) -> Path:
        """Write one HTML page: what to expect, and the privacy-utility curve.

        Args:
            path: Of the page.
        """
        return write_page_about(self, path)


def plan(
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
    steps: int | None = None,
    public_sample: PublicSample | None = None,
    covariate_share: float | None = None,
    fits: int = FITS,
    recalibrate: int = RECALIBRATION_FITS,
    progress: Progress | None = None,
) -> Plan:
    """Choose clip norm, step sizes, burn-in and the rest by simulation; touches no row.

    A cheap analytic guess comes first, then whole simulated fits: ``fits`` for each of a few
    designs, then ``recalibrate`` fresh ones with the winner, from which a shift and a stretch per
    coordinate are learned (from as many again, where something seems off) and the forecast is made.

    Args:
        model: As for `fit`.
        schema: What is publicly known of the table.
        rows: Number of rows to plan for, from public knowledge. If the schema does not declare it,
            the fit will buy a noisy count for a hundredth of the budget, which is planned for.
        budget: What the fit may spend.
        target: The column that is ``y`` to the model; of a survival model two, a time and whether
            it is an event's.
        features: The columns that make up ``X``.
        family: Of a formula, as for `fit`.
        priors: Of a formula's coefficients, as for `fit`.
        method: ``"dpvi"`` or ``"dp-sep"``, whose settings are not searched for: its plan is a
            forecast.
        steps: Of the fit; 4000 unless given, of DP-SEP 400.
        public_sample: Rows of other people that covariates are taken from; else they are simulated
            from the schema, column by column.
        covariate_share: As for `fit`, which will spend it; simulated fits have covariates as the
            schema declares them.
        fits: Simulated fits of each design; 0 leaves it at the guess, in seconds.
        recalibrate: Simulated fits that judge the winner.
        progress: Called with fits done and how many there may be at most, after every few of them.

    Raises:
        PlanError: Nothing works at this budget; the message says what would.
    """
    integer_at_least("rows", rows, 2)
    integer_at_least("fits", fits, 0)
    integer_at_least("recalibrate", recalibrate, 0)
    one_of("method", method, ("dpvi", "dp-sep"))
    steps = None if steps is None else integer_at_least("steps", steps, 10)
    if not isinstance(schema, Schema):
        raise NoisewiseError(f"schema must be a noisewise.Schema, got {shown(schema)}")
    bound = bind_model(model, schema, target, features, public_sample, family=family, priors=priors)
    bound.require("ordered_latents", "plan", "call fit without one, its settings need none")
    if method == "dpvi":
        refuse_weights_without_matrix(bound, None)
    simulated = rows if fits or method == "dp-sep" else 2
    refuse_if_too_large(simulated, bound.width, bound.target.dim, steps or STEPS, _DRAWS)
    bought = covariates_cost(bound, budget, covariate_share) if method == "dpvi" else ()
    more: tuple[Release, ...] = ()
    if method == "dpvi":
        sizes = sizes_cost(bound, budget, covariate_share)
        more = (*sizes, *variability_cost(bound, budget))
    others = (*bought, *more, *count_cost(schema.public_count, budget))
    bound = as_declared(bound, bought, rows) if bought else bound
    # Seconds of arithmetic that need no simulation are done beside it.
    with ThreadPoolExecutor(1) as beside:
        if fits and method == "dpvi":
            beside.submit(calibrate, budget, sampling_rate(rows), steps or STEPS, others)
        summary = summarise(bound, rows, budget)
        refuse_if_hopeless(bound.target, summary, budget)
        grid = beside.submit(budget_grid, bound.target, summary, budget)
        counted = Counted(fits, recalibrate, progress)
        context = SearchContext(bound, summary, budget, others, counted.more)
        if method == "dp-sep":
            found = _forecast_sep(context, steps, fits or FITS)
        else:
            found = _searched(context, steps or STEPS, fits, recalibrate)
        counted.finish()
    stretch = found.settings.stretch if isinstance(found.settings, Settings) else None
    return Plan(
        settings=found.settings,
        rows=rows,
        schema=schema.fingerprint(),
        budget=budget,
        model=bound.name,
        formula=bound.formula,
        method=method,
        choices=found.choices,
        forecast=make_forecast(bound.labels, summary, grid.result(), found.scores, stretch),
        source=SIMULATED if public_sample is None else WITH_SAMPLE,
        sample=None if public_sample is None else public_sample.fingerprint(),
    )


def guess_settings(
    bound: BoundModel, public_count: int, budget: Budget, steps: int | None
) -> Settings:
    """Settings without a single simulated fit, in seconds: what `fit` does without a plan.

    Args:
        bound: The model.
        public_count: The number of rows as everybody may know it.
        budget: What the fit may spend.
        steps: Of the fit; None is the model's usual number.
    """
    if not bound.capabilities.unique_optimum:
        return mixture_guess(bound, public_count, budget, steps)
    return first_guess(bound, public_count, budget, steps=steps or STEPS)


def _checked_choices(choices: dict[str, Any]) -> dict[str, float]:
    """Options of `design` as a file has them: numbers, by names that it knows."""
    known = inspect.signature(design).parameters
    for name, value in choices.items():
        if name not in known or name in ("target", "summary", "steps"):
            raise NoisewiseError(f"choices has no {shown(name)}: drop it")
        positive(name, value, finite=True)
    return dict(choices)


class Searched(NamedTuple):
    """Settings, what simulated fits say of them, and the options that made them."""

    settings: Settings | SepSettings
    scores: Scores | None
    choices: dict[str, float]


def _searched(context: SearchContext, steps: int, fits: int, recalibrate: int) -> Searched:
    """The best design of a search, recalibrated, and what fresh fits said of it."""
    if not fits:
        return Searched(design(context.bound.target, context.summary, steps=steps), None, {})
    trial = search(context, steps=steps, fits=fits)
    if not trial.works:
        raise _nothing_works(context, trial)
    settings, scores = trial.settings, trial.scores
    if recalibrate:
        settings, scores = learn_recalibration(context, settings, recalibrate)
    return Searched(settings, scores, trial.choices)


def _forecast_sep(context: SearchContext, steps: int | None, fits: int) -> Searched:
    """DP-SEP's own settings, and what simulated fits say of them."""
    instead = "use linear, logistic or probit, or method='dpvi'"
    context.bound.require("site", "method='dp-sep'", instead)
    bound, rows = context.bound, context.summary.rows
    found = sep_design(bound, steps)
    ready = sep_simulator(bound, found, rows, context.budget, context.others)
    trial = judge(context, ready, found.phases[-1].settings, range(fits))
    if not trial.works:
        raise _nothing_works(context, trial)
    return Searched(trial.settings, trial.scores, {})


def _nothing_works(context: SearchContext, trial: Trial) -> PlanError:
    advice = what_would_work(context.bound.target, context.summary, context.budget)
    return PlanError(
        f"no design worked at epsilon {context.budget.epsilon:g} with {context.summary.rows} rows: "
        f"of the best one's {trial.scores.fits} simulated fits {trial.scores.failed} failed and "
        f"{trial.unsettled:.0%} did not settle; {advice}, or narrower priors"
    )
