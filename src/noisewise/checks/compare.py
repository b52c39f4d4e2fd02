"""Two models of one outcome held against each other, for a stated price."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from noisewise._shapes import Float
from noisewise._validate import NoisewiseError, positive
from noisewise.checks.cells import Everybody
from noisewise.checks.check import bound_again, posterior_draws
from noisewise.checks.comparison import Comparison
from noisewise.checks.contributions import Question
from noisewise.checks.outcomes import Outcome, outcome_of
from noisewise.checks.purchase import buy_sums, rehearse_purchase
from noisewise.checks.reference import simulate_reference, simulated_covariates
from noisewise.data import WEIGHT, PublicSample, Rows, Table
from noisewise.mechanism import Budget, Ledger, calibrate, in_blocks
from noisewise.models import BoundModel
from noisewise.result import Result

Model = Callable[..., Any] | str
_DRAWS = 64
"""Posterior draws behind a log score, evenly spaced among the result's."""
_BESIDE = 0.5
"""Weight of a row's squared difference, and of its one, beside the difference."""
_QUANTILES = 1 - np.geomspace(0.2, 1e-4, 30)


@dataclass(frozen=True, eq=False)
class _Side:
    """One of the two."""

    result: Result
    bound: BoundModel
    outcome: Outcome
    draws: Float[np.ndarray, "draws dim"]

    @cached_property
    def thetas(self) -> Float[np.ndarray, "few dim"]:
        """The draws behind the scores."""
        places = np.linspace(0, len(self.draws) - 1, _DRAWS).astype(int)
        return self.draws[places].astype(np.float32)

    @property
    def words(self) -> str:
        """What was fitted."""
        return f"{self.bound.name} by {', '.join(self.result.request.features) or 'nothing'}"

    def scores(self, arguments: Rows) -> Float[np.ndarray, " count"]:
        """Log of the posterior's mean probability of every row's outcome; not a number where it is
        missing."""
        rows = {name: column for name, column in arguments.items() if name != WEIGHT}
        found = in_blocks(
            lambda block: {"scores": _log_scores(self.outcome, self.thetas, block)}, rows
        )["scores"].astype(float)
        weight = arguments.get(WEIGHT)
        return found if weight is None else np.where(np.asarray(weight) > 0, found, np.nan)

    @property
    def argument(self) -> str:
        """What the model calls the outcome."""
        (name,) = self.bound.target.rows.generated
        return name

    def simulated(self, columns: Rows) -> np.ndarray:
        """Outcomes for these rows, in the form of `Table.rows`, at the posterior mean."""
        arguments = self.bound.view.encode(columns)
        given = {n: jnp.asarray(c) for n, c in arguments.items() if n != WEIGHT}
        theta = jnp.asarray(self.draws.mean(0), jnp.float32)
        drawn = self.bound.target.rows.simulate(jax.random.PRNGKey(6), theta, given)
        return np.asarray(drawn[self.argument])

    def scores_with(self, columns: Rows, outcome: np.ndarray) -> Float[np.ndarray, " count"]:
        """`scores` of these rows if they had these outcomes."""
        arguments = self.bound.view.encode(columns)
        kind = arguments[self.argument].dtype
        return self.scores(arguments | {self.argument: outcome.astype(kind)})

    def effective_parameters(self, rows: float) -> float:
        """How many parameters so many rows decide, rather than the prior."""
        asked = Question(
            view=self.bound.view,
            outcome=self.outcome,
            theta=self.draws.mean(0),
            cells=Everybody(),
            bins=0,
        )
        found = simulate_reference(self.bound, asked, simulated_covariates(self.bound))
        information = found.scores.T @ found.scores * (rows / len(found.scores))
        told = np.linalg.pinv(information + found.prior_precision, hermitian=True)
        return float(np.trace(told @ information))


@partial(jax.jit, static_argnums=0)
def _log_scores(outcome: Outcome, thetas: Any, rows: Rows) -> Any:
    found = jax.vmap(outcome.log_probability, (0, None))(thetas, rows)
    return jax.scipy.special.logsumexp(found, axis=0) - math.log(_DRAWS)


def compare(
    first: Result,
    second: Result,
    table: Table,
    *,
    budget: Budget,
    bound: float | None = None,
    first_model: Model | None = None,
    second_model: Model | None = None,
    public_sample: PublicSample | None = None,
    ledger: Ledger | str | Path | None = None,
    insecure_seed: int | None = None,
) -> Comparison:
    """Buy the mean difference of two fits' log scores: which model predicts better?

    Both are of the same outcome and of one table. A row's difference is clipped; what the table's
    people, to whom both were fitted, make the larger model look better by is taken off.

    Args:
        first: Of one fit.
        second: Of another.
        table: The rows that both were fitted to.
        budget: What the comparison may spend, on top of what the fits have spent.
        bound: To which single rows' differences are clipped; planned by simulation from both models
            unless given.
        first_model: Where the first model is a function of yours, that function again.
        second_model: Likewise the second's.
        public_sample: Rows of other people that stand for the covariates.
        ledger: The table's ledger, or its path: what is spent is written there first.
        insecure_seed: Makes the noise repeatable and therefore not private: for tests only.
    """
    book = rehearse_purchase(first, table, budget, ledger, insecure_seed)
    rehearse_purchase(second, table, budget, None, insecure_seed)
    if bound is not None:
        positive("bound", bound, finite=True)
    one = _side(first, first_model, public_sample)
    other = _side(second, second_model, public_sample)
    _refuse_unlike(one, other)
    most_rows = one.bound.view.schema.most_rows
    sensitivity = math.sqrt(1 + 2 * _BESIDE**2) * most_rows
    rows = max(first.request.public_count, 2) * max(1.0, most_rows / 2)
    if bound is None:
        noise = calibrate(budget, 1.0, 1) * sensitivity / rows
        bound = _planned_bound(one, other, noise)
    limit = bound

    def contributions(columns: Rows) -> Rows:
        scores = [side.scores(side.bound.view.encode(columns)) for side in (one, other)]
        differences = scores[0] - scores[1]
        known = np.isfinite(differences)
        share = np.clip(np.where(known, differences, 0.0) / limit, -1.0, 1.0)
        return {"scores": np.column_stack([share, _BESIDE * share**2, _BESIDE * known])}

    bought = buy_sums(
        table,
        contributions,
        sensitivity,
        budget,
        what=f"log scores of {one.outcome.column}",
        bound=f"a difference of log scores clipped to {limit:.3g}, its square and a one",
        ledger=book,
        insecure_seed=insecure_seed,
    )
    count = max(bought.total[2] / _BESIDE, 1.0)
    mean = float(bought.total[0] / count)
    variance = max(float(bought.total[1] / _BESIDE / count) - mean**2, 0.0)
    # The number of rows is noisy as well.
    noise = bought.noise_sd / count * math.sqrt(1 + (mean / _BESIDE) ** 2)
    optimism = (one.effective_parameters(count) - other.effective_parameters(count)) / count
    return Comparison(
        first=one.words,
        second=other.words,
        difference=limit * mean - optimism,
        sampling_sd=limit * math.sqrt(variance / count),
        noise_sd=limit * noise,
        optimism=optimism,
        bound=float(limit),
        rows=float(count),
        privacy=bought.certificate,
    )


def _side(result: Result, model: Model | None, sample: PublicSample | None) -> _Side:
    bound = bound_again(result, model, sample)
    outcome = outcome_of(bound)
    return _Side(result, bound, outcome, posterior_draws(result, bound))


def _refuse_unlike(one: _Side, other: _Side) -> None:
    """Scores can be compared of one outcome, both probabilities or both densities."""
    if one.outcome.column != other.outcome.column:
        raise NoisewiseError(
            f"the fits explain different columns, '{one.outcome.column}' and "
            f"'{other.outcome.column}': compare models of one outcome"
        )
    if one.outcome.counted != other.outcome.counted:
        raise NoisewiseError(
            f"one model gives '{one.outcome.column}' probabilities and the other densities, which "
            "cannot be compared: fit two models for counts, or two for real numbers"
        )


def _planned_bound(one: _Side, other: _Side, noise: float) -> float:
    """The bound at which clipping, if either model is right, and noise do least together.

    Args:
        one: Of the two.
        other: Of the two.
        noise: Sd of the mean difference by noise, in bounds.
    """
    columns, found = simulated_covariates(one.bound).columns, []
    for side in (one, other):
        outcome = side.simulated(columns)
        differences = one.scores_with(columns, outcome) - other.scores_with(columns, outcome)
        found.append(differences[np.isfinite(differences)])
    sizes = np.maximum(np.quantile(np.abs(np.concatenate(found)), _QUANTILES), 1e-6)
    errors = [
        max(float(np.mean(d - np.clip(d, -size, size))) ** 2 for d in found) + (noise * size) ** 2
        for size in sizes
    ]
    return float(sizes[int(np.argmin(errors))])
