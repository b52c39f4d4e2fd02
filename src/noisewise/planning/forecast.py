"""What a budget will buy, before it is spent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from noisewise._validate import NoisewiseError, finite_array, integer_at_least
from noisewise.evaluation import Scores
from noisewise.mechanism import Budget
from noisewise.models import Target
from noisewise.planning.first_guess import PriorPredictiveSummary, release_sds

_EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
_SIZES = (0.25, 1.0, 4.0)
_HOPELESS = 0.95
_USEFUL = 0.5
_DOUBLINGS = 40


class PlanError(NoisewiseError):
    """Nothing works at this budget; the message says what would."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Expected error bars per unconstrained coordinate, and over budgets and sizes."""

    labels: tuple[str, ...]
    prior_sd: tuple[float, ...]
    """What is known without data."""
    sd: tuple[float, ...]
    """Expected error bar (root mean square over simulated fits)."""
    single_release_sd: tuple[float, ...]
    """What one optimal release of the same budget would leave: a yardstick."""
    z_mean: tuple[float, ...] = ()
    z_sd: tuple[float, ...] = ()
    """Of simulated fits before recalibration: 0 and 1 where error bars are true."""
    fits: int = 0
    """Simulated fits behind it; none for a first guess, whose sds are analytic."""
    failed: int = 0
    epsilons: tuple[float, ...] = ()
    sizes: tuple[int, ...] = ()
    table: tuple[tuple[tuple[float, ...], ...], ...] = ()
    """Expected sd by epsilon, number of rows and coordinate: scaled from the single release's."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for a file."""
        return {
            "fits": self.fits,
            "failed": self.failed,
            "parameters": [
                {
                    "name": name,
                    "prior_sd": self.prior_sd[i],
                    "expected_sd": self.sd[i],
                    "single_release_sd": self.single_release_sd[i],
                    **({"z_mean": self.z_mean[i], "z_sd": self.z_sd[i]} if self.fits else {}),
                }
                for i, name in enumerate(self.labels)
            ],
            "budgets": [
                {"epsilon": e, "rows": n, "expected_sd": list(self.table[i][j])}
                for i, e in enumerate(self.epsilons)
                for j, n in enumerate(self.sizes)
            ],
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Forecast:
        """Back from `to_dict`."""
        rows, budgets = plain["parameters"], plain["budgets"]
        for cell in (*rows, *budgets):
            numbers = {name: value for name, value in cell.items() if name != "name"}
            for name, value in numbers.items():
                finite_array(name, value)
        epsilons = tuple(dict.fromkeys(cell["epsilon"] for cell in budgets))
        sizes = tuple(dict.fromkeys(cell["rows"] for cell in budgets))
        found = {(cell["epsilon"], cell["rows"]): tuple(cell["expected_sd"]) for cell in budgets}

        def column(name: str) -> tuple[float, ...]:
            return tuple(row[name] for row in rows if name in row)

        return cls(
            labels=tuple(str(row["name"]) for row in rows),
            prior_sd=column("prior_sd"),
            sd=column("expected_sd"),
            single_release_sd=column("single_release_sd"),
            z_mean=column("z_mean"),
            z_sd=column("z_sd"),
            fits=integer_at_least("fits", plain["fits"], 0),
            failed=integer_at_least("failed", plain["failed"], 0),
            epsilons=epsilons,
            sizes=sizes,
            table=tuple(tuple(found[e, n] for n in sizes) for e in epsilons),
        )


class BudgetGrid(NamedTuple):
    """What single releases would leave at other budgets and sizes."""

    epsilons: tuple[float, ...]
    sizes: tuple[int, ...]
    sds: list[list[np.ndarray]]
    """By size, then by epsilon."""


def budget_grid(target: Target, summary: PriorPredictiveSummary, budget: Budget) -> BudgetGrid:
    """The table of single releases that a forecast is scaled from."""
    epsilons = tuple(sorted({*_EPSILONS, budget.epsilon}))
    sizes = tuple(sorted({max(2, round(summary.rows * share)) for share in _SIZES}))
    sds = [_release(target, summary, budget, epsilons, n) for n in sizes]
    return BudgetGrid(epsilons, sizes, sds)


def make_forecast(
    labels: list[str],
    summary: PriorPredictiveSummary,
    grid: BudgetGrid,
    scores: Scores | None,
    stretch: np.ndarray | None,
) -> Forecast:
    """From simulated fits where there are any, else from the single release alone."""
    prior_sd = np.sqrt(np.diag(summary.simulated.prior_covariance))
    sd = summary.release_sd
    if scores is not None:
        sd = scores.reported * (1.0 if stretch is None else stretch)
    # Fits elsewhere are expected to be as far above the single release as they are here.
    ratio = sd / summary.release_sd
    by_epsilon = zip(*grid.sds, strict=True)
    return Forecast(
        labels=tuple(labels),
        prior_sd=_floats(prior_sd),
        sd=_floats(sd),
        single_release_sd=_floats(summary.release_sd),
        z_mean=() if scores is None else _floats(scores.z_mean),
        z_sd=() if scores is None else _floats(scores.z_sd),
        fits=0 if scores is None else scores.fits,
        failed=0 if scores is None else scores.failed,
        epsilons=grid.epsilons,
        sizes=grid.sizes,
        table=tuple(
            tuple(_floats(np.minimum(ratio * cell, prior_sd)) for cell in row) for row in by_epsilon
        ),
    )


def refuse_if_hopeless(target: Target, summary: PriorPredictiveSummary, budget: Budget) -> None:
    """Refuse a budget at which even the best single release would leave the prior as it is."""
    if _learned(summary.release_sd, summary) < _HOPELESS:
        return
    raise PlanError(
        f"epsilon {budget.epsilon:g} with {summary.rows} rows would leave the posterior at the "
        f"prior: {what_would_work(target, summary, budget)}"
    )


def what_would_work(target: Target, summary: PriorPredictiveSummary, budget: Budget) -> str:
    """An epsilon and a number of rows at which the best-known coordinate halves its prior sd."""
    growing = budget.epsilon * 1.5 ** np.arange(1, _DOUBLINGS)
    epsilons = growing[growing < 50].tolist()
    sizes = np.ceil(summary.rows * 1.5 ** np.arange(1, _DOUBLINGS)).astype(int)
    there = _release(target, summary, budget, epsilons, summary.rows)
    epsilon = _first(epsilons, (_learned(sds, summary) for sds in there))
    larger = [n for n in sizes if n < 10**9]
    bigger = (_release(target, summary, budget, [budget.epsilon], n)[0] for n in larger)
    rows = _first(larger, (_learned(sds, summary) for sds in bigger))
    wishes = []
    if epsilon is not None:
        wishes.append(f"epsilon of about {epsilon:.2g}")
    if rows is not None:
        wishes.append(f"about {float(f'{rows:.2g}'):,.0f} rows")
    return "it takes an " + " or ".join(wishes) if wishes else "neither more rows nor budget help"


def _first(candidates: Sequence[Any], kept: Iterable[float]) -> Any:
    """The first candidate with which something useful is learned."""
    useful = (value for value, share in zip(candidates, kept, strict=False) if share < _USEFUL)
    return next(useful, None)


def _learned(sds: np.ndarray, summary: PriorPredictiveSummary) -> float:
    """The least share of its prior sd that any coordinate keeps."""
    return float(np.min(sds / np.sqrt(np.diag(summary.simulated.prior_covariance))))


def _release(
    target: Target,
    summary: PriorPredictiveSummary,
    budget: Budget,
    epsilons: Sequence[float],
    rows: int,
) -> list[np.ndarray]:
    budgets = [replace(budget, epsilon=epsilon) for epsilon in epsilons]
    return release_sds(target, summary.simulated, int(rows), *budgets)


def _floats(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
