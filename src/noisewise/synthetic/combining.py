"""Estimates over synthetic tables pooled into one, with an error bar that is true.

A table's estimate q differs from the posterior mean of what it estimates for two reasons: its own
posterior draw (variance V, what is wanted) and its own records (variance u, which a larger table
would not have). So over tables the variance of q is b = V + u, and V is b - u. The mean of m tables
is itself off by b / m. Together, T = (1 + 1/m) b - u: the rule for fully synthetic data of
Raghunathan, Reiter and Rubin (2003), here with V from the posterior behind the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from noisewise._validate import NoisewiseError, Progress, fraction, integer_at_least, positive
from noisewise.synthetic.estimates import Estimates, in_order, read_estimates
from noisewise.synthetic.tables import SyntheticTables

if TYPE_CHECKING:
    import pandas

_LEAST_DF = 1.0


@dataclass(frozen=True, eq=False)
class Combined:
    """Pooled estimates with intervals at one level."""

    table: pandas.DataFrame
    """A line per estimate: estimate, sd, lower, upper, df, between, within."""
    level: float
    copies: int
    adjusted: tuple[str, ...]
    """Estimates whose tables differ by no more than their own records explain: their sd is that of
    a sample of the fit's size, and wants more rows or more copies to be known better."""

    def __repr__(self) -> str:
        title = f"Pooled over {self.copies} synthetic tables, {self.level:.0%} intervals"
        lines = [title, self.table.to_string(float_format=lambda value: f"{value:.4g}")]
        if self.adjusted:
            lines.append(f"sd by the tables' own records only: {', '.join(self.adjusted)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return str(self.table.to_html(float_format=lambda value: f"{value:.4g}"))


def combine(
    tables: Iterable[Any],
    analysis: Callable[[Any], Any] | Sequence[Any],
    *,
    level: float = 0.95,
    bootstrap: int = 20,
    share: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Combined:
    """Run an analysis on every synthetic table and pool what it finds.

    Args:
        tables: What `synthesize` returned, or any frames of your own; or a list of estimates
            already computed.
        analysis: From a table to an estimate with its variance: a pair (estimate, variance), a dict
            of such pairs, a pair of Series (or of a Series and a covariance matrix), or a fitted
            statsmodels result. What comes without variances (a number, a dict or Series of numbers,
            a fitted scikit-learn estimator) gets them from resamples. Where ``tables`` are
            estimates, the list of their variances.
        level: Of the intervals.
        bootstrap: Resamples of each table's rows; over 100 tables, 20 each know the mean variance
            to three percent.
        share: The tables' rows over the fit's, which matters only where the variance would come out
            negative; known for what `synthesize` returned, and otherwise taken for 1.
        seed: Of the resamples.
        progress: Called with tables done and their number.

    >>> combine([1.0, 2.0, 3.0, 4.0], [0.1, 0.1, 0.1, 0.1]).table["estimate"].item()
    2.5
    """
    import pandas

    fraction("level", level)
    integer_at_least("bootstrap", bootstrap, 2)
    if share is None:
        share = tables.share if isinstance(tables, SyntheticTables) else 1.0
    positive("share", share)
    if hasattr(tables, "columns"):
        raise NoisewiseError(
            f"tables must be a sequence of tables, got one {type(tables).__name__}: pooling needs "
            "at least two, as noisewise.synthesize makes them"
        )
    if callable(analysis):
        found = _analysed(tables, analysis, bootstrap, np.random.default_rng(seed), progress)
    else:
        found = _given(list(tables), list(analysis))
    if len(found) < 2:
        raise NoisewiseError(f"expected at least two tables to pool, got {len(found)}")
    names = found[0].names
    found = [in_order(each, names, f"table {i}", "table 0") for i, each in enumerate(found)]
    values = np.stack([each.values for each in found])
    variances = np.stack([np.asarray(each.variances, float) for each in found])
    pooled = pool(values, variances, level=level, share=share)
    columns = ("estimate", "sd", "lower", "upper", "df", "between", "within")
    table = pandas.DataFrame({name: getattr(pooled, name) for name in columns}, index=list(names))
    adjusted = tuple(name for name, odd in zip(names, pooled.adjusted, strict=True) if odd)
    return Combined(table, level, len(found), adjusted)


def _analysed(
    tables: Iterable[Any],
    analysis: Callable[[Any], Any],
    bootstrap: int,
    rng: np.random.Generator,
    progress: Progress | None,
) -> list[Estimates]:
    found: list[Estimates] = []
    for place, table in enumerate(tables):
        name = f"table {place}"
        each = _answer(analysis, table, name)
        if each.variances is None:
            spread = _bootstrapped(table, name, analysis, each, bootstrap, rng)
            each = each._replace(variances=spread)
        found.append(each)
        if progress is not None and isinstance(tables, Sequence):
            progress(place + 1, len(tables))
    return found


def _answer(analysis: Callable[[Any], Any], table: Any, name: str) -> Estimates:
    """What the analysis says of a table; its own errors in one line that names the table."""
    try:
        answer = analysis(table)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise NoisewiseError(
            f"the analysis of {name} failed ({reason}): run it on that table alone to see why"
        ) from error
    return read_estimates(answer)


def _bootstrapped(
    table: Any,
    name: str,
    analysis: Callable[[Any], Any],
    whole: Estimates,
    count: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Variances over resamples of the table's rows, drawn with replacement."""
    if not hasattr(table, "iloc"):
        raise NoisewiseError(
            f"the analysis gives no variances, and a {type(table).__name__} has no rows to "
            "resample: return (estimate, variance)"
        )
    answers = []
    for _ in range(count):
        picked = rng.integers(len(table), size=len(table))
        rows = table.iloc[picked].reset_index(drop=True)
        again = _answer(analysis, rows, f"a resample of {name}")
        answers.append(in_order(again, whole.names, f"a resample of {name}", name).values)
    return np.var(answers, axis=0, ddof=1)


def _given(estimates: list[Any], variances: list[Any]) -> list[Estimates]:
    if len(estimates) != len(variances):
        raise NoisewiseError(
            f"expected a variance for each of {len(estimates)} tables' estimates, got "
            f"{len(variances)}"
        )
    return [read_estimates(pair) for pair in zip(estimates, variances, strict=True)]


@dataclass(frozen=True, eq=False)
class Pool:
    """The numbers behind `Combined`, an entry per estimate."""

    estimate: np.ndarray
    sd: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    df: np.ndarray
    between: np.ndarray
    within: np.ndarray
    adjusted: np.ndarray


def pool(
    values: np.ndarray, variances: np.ndarray, *, level: float = 0.95, share: float = 1.0
) -> Pool:
    """Rubin's rules for fully synthetic data, over the first axis (tables x estimates).

    T = (1 + 1/m) b - u with (m - 1) (1 - u / ((1 + 1/m) b))^2 degrees of freedom, at least one
    (Reiter and Raghunathan 2007). Where T is not positive, ``share`` times u stands in
    for it (Reiter 2002): the sampling variance of a table of the fit's size.
    """
    m = len(values)
    if not np.isfinite(variances).all():
        raise NoisewiseError("the analysis gives variances that are not finite: check its fits")
    estimate, within = values.mean(0), variances.mean(0)
    between = values.var(0, ddof=1)
    spread = (1 + 1 / m) * between
    total = spread - within
    adjusted = ~(total > 0)
    total = np.where(adjusted, share * within, total)
    kept = 1 - within / np.where(adjusted, 1.0, spread)
    df = np.where(adjusted, m - 1, np.maximum((m - 1) * kept**2, _LEAST_DF))
    sd = np.sqrt(total)
    half = stats.t.ppf((1 + level) / 2, df) * sd
    return Pool(
        estimate=estimate,
        sd=sd,
        lower=estimate - half,
        upper=estimate + half,
        df=df,
        between=between,
        within=within,
        adjusted=adjusted,
    )
