"""A plan: settings for a fit, what they were made for, and what to expect of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from noisewise._validate import NoisewiseError, integer_at_least, shown
from noisewise.data import PublicSample, Schema
from noisewise.dpvi import Settings
from noisewise.evaluation import Scores
from noisewise.mechanism import Budget, calibrate, count_cost
from noisewise.models import Mixture, Network, RowView, bind, build_target, model_name, named_model
from noisewise.planning.first_guess import STEPS, design, sampling_rate, sketch
from noisewise.planning.forecast import (
    Forecast,
    PlanError,
    look_elsewhere,
    make_forecast,
    refuse_if_hopeless,
    what_would_work,
)
from noisewise.planning.search import DESIGNS, Ground, learn_recalibration, search

__all__ = ["SIMULATED", "Plan", "plan", "row_view"]

SIMULATED = "simulated from the model's prior and the schema; no row was read"
WITH_SAMPLE = (
    "simulated from the model's prior, the schema and a public sample; no row of the data was read"
)
FITS, RECALIBRATION_FITS = 24, 128


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """Settings for one model, schema, number of rows and budget, with a forecast."""

    settings: Settings
    rows: int
    schema: str
    """Fingerprint of the schema."""
    budget: Budget
    model: str
    forecast: Forecast
    source: str = SIMULATED
    sample: str | None = None
    """Fingerprint of the public sample that covariates came from."""

    def check(self, model: Callable[..., Any], dim: int, sample: PublicSample | None) -> None:
        """Refuse a plan for another model, or for other covariates than will be simulated."""
        if self.model != model_name(model):
            raise NoisewiseError(
                f"the plan is for model {self.model}, not {model_name(model)}: plan again"
            )
        self.settings.check_dimension(dim)
        if self.sample != (None if sample is None else sample.fingerprint()):
            wanted = "without a public sample" if self.sample is None else "with its public sample"
            raise NoisewiseError(
                f"the plan was made {wanted}: pass the same one as public_sample, or plan again"
            )

    def warn_if_it_does_not_fit(self, schema: Schema, rows: int, budget: Budget) -> None:
        """Warn when what is to be fitted is not what was planned for."""
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

    def save(self, path: str | Path) -> Path:
        """Write the plan as TOML: readable, editable, and taken by `fit`."""
        from noisewise.planning.files import write_plan

        return write_plan(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan file."""
        from noisewise.planning.files import read_plan

        return read_plan(Path(path))

    def report(self, path: str | Path) -> Path:
        """Write one HTML page: what to expect, and the privacy-utility curve."""
        from noisewise.report.plan_page import write_plan_page

        return write_plan_page(self, Path(path))


def plan(
    model: Callable[..., Any] | str,
    *,
    like: Schema,
    n: int,
    budget: Budget,
    target: str | None = None,
    features: list[str] | None = None,
    steps: int = STEPS,
    public_sample: PublicSample | None = None,
    fits: int = FITS,
    recalibrate: int = RECALIBRATION_FITS,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """Choose clip norm, step sizes, burn-in and the rest by simulation; touches no row.

    ``n`` is the number of rows to plan for, from public knowledge. If the schema does not declare
    it public, the fit will buy a noisy count for a hundredth of the budget, which is planned for.

    A cheap analytic guess comes first, then whole simulated fits: ``fits`` for each of a few
    designs, then ``recalibrate`` fresh ones with the winner, from which a shift and a stretch per
    coordinate are learned (from as many again, where something seems off) and the forecast is made.
    ``fits=0`` leaves it at the guess, in seconds.

    Covariates are made up from the schema, column by column, or taken from ``public_sample``.

    Raises `PlanError` when nothing works at this budget, with what would.
    """
    integer_at_least("n", n, 2)
    integer_at_least("steps", steps, 10)
    integer_at_least("fits", fits, 0)
    integer_at_least("recalibrate", recalibrate, 0)
    if not isinstance(like, Schema):
        raise NoisewiseError(f"like must be a noisewise.Schema, got {shown(like)}")
    resolved = named_model(model, like, target, features)
    if isinstance(resolved, Mixture):
        raise NoisewiseError(
            "a mixture has no plan: whole simulated fits of it cannot be told apart by the order "
            "of their components; call fit without one, its settings are simulated too"
        )
    if isinstance(resolved, Network):
        raise NoisewiseError("a network has no plan: fit it with method='dp-sep', which needs none")
    view = row_view(resolved, like, target, features, public_sample)
    built = build_target(resolved, view.simulate(np.random.default_rng(0), 4))
    others = count_cost(like.rows, budget)
    # Seconds of arithmetic that need no simulation are done beside it.
    with ThreadPoolExecutor(1) as beside:
        if fits:
            beside.submit(calibrate, budget, sampling_rate(n), steps, others)
        found = sketch(built, view, n, budget)
        refuse_if_hopeless(built, found, budget)
        elsewhere = beside.submit(look_elsewhere, built, found, budget)
        settings, scores = design(built, found, steps=steps), None
        if fits:
            ground = Ground(built, view, found, budget, others)
            settings, scores = _searched(ground, steps, fits, recalibrate, progress)
    return Plan(
        settings=settings,
        rows=n,
        schema=like.fingerprint(),
        budget=budget,
        model=model_name(resolved),
        forecast=make_forecast(built, found, elsewhere.result(), scores, settings.stretch),
        source=SIMULATED if public_sample is None else WITH_SAMPLE,
        sample=None if public_sample is None else public_sample.fingerprint(),
    )


def _searched(
    ground: Ground,
    steps: int,
    fits: int,
    recalibrate: int,
    progress: Callable[[int, int], None] | None,
) -> tuple[Settings, Scores]:
    """The best design of a search, recalibrated, and what fresh fits said of it."""
    total = fits * DESIGNS + recalibrate
    counted = None if progress is None else _scaled(progress, fits, total)
    trial = search(ground, steps=steps, fits=fits, progress=counted)
    if not trial.works:
        advice = what_would_work(ground.target, ground.found, ground.budget)
        raise PlanError(
            f"no design worked at epsilon {ground.budget.epsilon:g} with {ground.found.rows} rows: "
            f"of the best one's {fits} simulated fits {trial.scores.failed} failed and "
            f"{trial.unsettled:.0%} did not settle; {advice}, or narrower priors"
        )
    settings, scores = trial.settings, trial.scores
    if recalibrate:
        settings, scores = learn_recalibration(ground, settings, recalibrate)
    if progress is not None:
        progress(total, total)
    return settings, scores


def row_view(
    model: Callable[..., Any],
    schema: Schema,
    target: str | None,
    features: list[str] | None,
    public_sample: PublicSample | None,
) -> RowView:
    """How columns become the model's arguments, simulated ones from the public sample if any."""
    view = bind(model, schema, target, features)
    if public_sample is None:
        return view
    if not isinstance(public_sample, PublicSample):
        raise NoisewiseError(
            f"public_sample must be a noisewise.PublicSample, got {type(public_sample).__name__}: "
            "wrap rows that are public in one; a Table's are not"
        )
    return replace(view, sample=public_sample.columns)


def _scaled(
    progress: Callable[[int, int], None], fits: int, total: int
) -> Callable[[int, int], None]:
    return lambda done, _: progress(done * fits, total)
