"""A model held against the people it was fitted to, for a stated price."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from noisewise._validate import NoisewiseError, integer_at_least, one_of, shown
from noisewise.checks.cells import Cells, Everybody, Groups, PredictionBins
from noisewise.checks.contributions import Question
from noisewise.checks.discrepancy import discrepancy
from noisewise.checks.model_check import KINDS, ModelCheck
from noisewise.checks.outcomes import Outcome, outcome_of
from noisewise.checks.purchase import buy_sums, rehearse_purchase
from noisewise.checks.reference import Covariates, simulate_reference, simulated_covariates
from noisewise.data import PublicSample, Table
from noisewise.mechanism import Budget, Ledger
from noisewise.models import BoundModel, bind_model
from noisewise.posterior import Status
from noisewise.result import Result, fitted_model, refuse_other_latents

_BINS, _NUMBER_BINS = 10, 5


def check(
    result: Result,
    table: Table,
    *,
    budget: Budget,
    kind: str = "calibration",
    by: str | Sequence[str] | None = None,
    bins: int | None = None,
    model: Callable[..., Any] | str | None = None,
    public_sample: PublicSample | None = None,
    ledger: Ledger | str | Path | None = None,
    insecure_seed: int | None = None,
) -> ModelCheck:
    """Buy a noisy table of the people that were fitted, and compare it with what the model says.

    The comparison knows what a fit leaves open: people's chance, the posterior's width, the privacy
    noise of the fit and that of the table. Its p-value is uniform if the model is right.

    Args:
        result: Of a fit of a regression, or of a NumPyro model of yours with one outcome.
        table: The rows that were fitted.
        budget: What the check may spend, on top of what the fit has spent.
        kind: ``"calibration"``: residuals in bins of what is predicted, against a wrong link or a
            curved effect; ``"residuals"``: a histogram of where outcomes lie in their predicted
            distributions, against a wrong family, such as counts that scatter more than Poisson
            ones; ``"groups"``: residuals by the columns ``by``, against an effect left out.
        by: One column or several, whose combinations are the groups.
        bins: Of predictions or of the histogram, 10 unless given; of a number in ``by``, 5.
        model: A ready-made one is found again by its name; a function of yours must be passed again
            (or ``"path/to/model.py:function"``).
        public_sample: Rows of other people that stand for the covariates, in place of the schema's
            declarations: pass the fit's own.
        ledger: The table's ledger, or its path: what is spent is written there first, and refused
            if the ledger's total would be passed.
        insecure_seed: Makes the noise repeatable and therefore not private: for tests only.
    """
    one_of("kind", kind, tuple(KINDS))
    columns = _columns(kind, by)
    default = _NUMBER_BINS if kind == "groups" else _BINS
    size = integer_at_least("bins", default if bins is None else bins, 2, 100)
    book = rehearse_purchase(result, table, budget, ledger, insecure_seed)
    bound = bound_again(result, model, public_sample)
    outcome, draws = outcome_of(bound), posterior_draws(result, bound)
    theta, covariates = draws.mean(0), simulated_covariates(bound)
    question = Question(
        view=bound.view,
        outcome=outcome,
        theta=theta,
        cells=_cells(bound, outcome, theta, kind, columns, size, covariates),
        bins=size if kind == "residuals" else 0,
    )
    reference = simulate_reference(bound, question, covariates)
    bought = buy_sums(
        table,
        question.contributions,
        question.sensitivity,
        budget,
        what=f"{kind} of {outcome.column}",
        bound=f"at most {question.sensitivity:.3g}: {KINDS[kind]}, at the released posterior mean",
        ledger=book,
        insecure_seed=insecure_seed,
    )
    labels = question.cells.labels
    total = bought.total.reshape(len(labels), question.width)
    counts = question.counts(total)
    expectation = reference.expectation(counts, draws)
    if question.bins:
        deviations = total[0] - counts[0] / size
        noise = bought.noise_sd**2 * (np.eye(size) - 1 / size)
        labels = tuple(f"from {k / size:.2g} to {(k + 1) / size:.2g}" for k in range(size))
        predicted, people = (np.arange(size) + 0.5) / size, total[0]
    else:
        deviations = total[:, 1]
        noise = bought.noise_sd**2 * np.eye(len(labels))
        predicted, people = reference.cell_means(len(labels)), counts
    found = discrepancy(deviations, expectation, noise)
    return ModelCheck(
        kind=kind,
        model=bound.name,
        outcome=outcome.column,
        by=columns,
        labels=labels,
        predicted=predicted,
        counts=people,
        count_noise=question.count_noise(bought.noise_sd) if not question.bins else bought.noise_sd,
        deviations=deviations,
        deviation_noise=float(np.sqrt(noise[0, 0])),
        covariance=found.covariance,
        statistic=found.statistic,
        degrees=found.degrees,
        p_value=found.p_value,
        binary=_is_binary(bound, outcome),
        privacy=bought.certificate,
    )


def _is_binary(bound: BoundModel, outcome: Outcome) -> bool:
    column = bound.view.schema[outcome.column]
    return column.kind == "binary" or len(column.categories or ()) == 2


def _columns(kind: str, by: str | Sequence[str] | None) -> tuple[str, ...]:
    columns = (by,) if isinstance(by, str) else tuple(by or ())
    if (kind == "groups") != bool(columns):
        raise NoisewiseError(
            "kind='groups' needs by, the columns that make the groups, and no other kind takes it: "
            f"got kind={kind!r} and by={shown(by)}"
        )
    return columns


def _cells(
    bound: BoundModel,
    outcome: Outcome,
    theta: np.ndarray,
    kind: str,
    by: tuple[str, ...],
    bins: int,
    covariates: Covariates,
) -> Cells:
    """The table's rows, from public numbers alone."""
    if kind == "groups":
        return Groups.of(bound.view.schema, by, covariates.columns, bins)
    if kind == "residuals":
        return Everybody()
    plain = Question(view=bound.view, outcome=outcome, theta=theta, cells=Everybody(), bins=0)
    judged = plain.judge(covariates.columns, covariates.arguments)
    return PredictionBins.of(judged.expected[judged.known], bins)


def bound_again(
    result: Result, model: Callable[..., Any] | str | None, sample: PublicSample | None
) -> BoundModel:
    """The model that was fitted, bound to its schema as it was then.

    Args:
        result: Of the fit.
        model: The model, where it is a function of the user's.
        sample: Public rows that its covariates are simulated from.
    """
    request = result.request
    found = fitted_model(request, model)
    return bind_model(**request.binding(found), public_sample=sample)


def posterior_draws(result: Result, bound: BoundModel) -> np.ndarray:
    """The noise-aware posterior, unconstrained (draws x dim).

    Args:
        result: Of a fit.
        bound: Its model.
    """
    refuse_other_latents(bound.target, result.draws)
    if result.status is Status.DIVERGED:
        raise NoisewiseError(f"this result cannot be checked: {result.status.words}")
    latents = {name: jnp.asarray(v, jnp.float32) for name, v in result.draws.items()}
    draws = np.asarray(bound.target.unconstrain(latents), float)
    if not np.isfinite(draws).all():
        raise NoisewiseError("this result cannot be checked: some of its draws are on a boundary")
    return draws
