"""One- and two-way marginals of synthetic tables, beside those of the posterior behind them.

The posterior's are of large tables, each from a posterior draw that no synthetic table has used: so
the two agree but for chance, and the spread over the posterior's is what the release leaves open.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from noisewise._validate import NoisewiseError, Progress
from noisewise.data import Table
from noisewise.synthetic.cells import Cells, cut
from noisewise.synthetic.generator import Drawn
from noisewise.synthetic.tables import SyntheticTables

_RELEASED, _LARGE = 200, 20_000
_PILOT = 5
_MOST_PAIRED = 16


@dataclass(frozen=True, eq=False)
class ColumnMarginal:
    """Shares of one column's cells, a row per table."""

    cells: Cells
    tables: np.ndarray
    released: np.ndarray
    real: np.ndarray | None
    """Exact shares in the real table: NOT PRIVATE."""
    moments: tuple[np.ndarray, np.ndarray, np.ndarray | None] | None
    """Means and sds (a row per table) of a numeric column: tables, released, real."""
    moved: float | None
    """Share of generated values that lay outside the declaration; None for covariates."""


@dataclass(frozen=True, eq=False)
class PairMarginal:
    """How strongly two columns go together: Cramer's V, one number a table."""

    first: str
    second: str
    tables: np.ndarray
    released: np.ndarray
    real: float | None


@dataclass(frozen=True, eq=False)
class Fidelity:
    """All marginals, and how many tables they are from."""

    columns: list[ColumnMarginal]
    pairs: list[PairMarginal]
    paired: list[str]
    """Names of the columns that pairs were made of, the first ones where there are many."""


class _Counts(NamedTuple):
    """What one table says."""

    shares: list[np.ndarray]
    moments: list[tuple[float, float]]
    association: np.ndarray


def measure(
    tables: SyntheticTables, unsafe_data: Table | None = None, progress: Progress | None = None
) -> Fidelity:
    """Look at every table once; with ``unsafe_data``, also at the real one."""
    rows = None if unsafe_data is None else _real_columns(tables, unsafe_data)
    pilot = [drawn.columns for drawn in tables.further_draws(_PILOT, _LARGE)]
    pooled = {name: np.concatenate([each[name] for each in pilot]) for name in pilot[0]}
    cells = cut(tables.schema, pooled)
    total, done = len(tables) + _RELEASED, 0
    moved: list[dict[str, float]] = []

    def look(source: Iterable[Drawn]) -> list[_Counts]:
        nonlocal done
        found = []
        for drawn in source:
            found.append(_look(cells, drawn.columns))
            moved.append(drawn.moved)
            done += 1
            if progress is not None:
                progress(done, total)
        return found

    ours = look(tables.drawn(place) for place in range(len(tables)))
    theirs = look(tables.further_draws(_RELEASED, _LARGE))
    real = None if rows is None else _look(cells, rows)
    return Fidelity(
        _columns(cells, ours, theirs, real, moved),
        _pairs(cells, ours, theirs, real),
        [each.name for each in cells[:_MOST_PAIRED]],
    )


def _real_columns(tables: SyntheticTables, table: Table) -> dict[str, np.ndarray]:
    """The real table's columns, if they are declared as the synthetic ones are."""
    if not isinstance(table, Table):
        raise NoisewiseError(
            f"unsafe_data must be a noisewise.Table, got {type(table).__name__}: wrap the rows in "
            "one, with the schema of the fit"
        )
    if table.schema.unit is not None:
        raise NoisewiseError("unsafe_data declares a [unit]: leave it out of this table's schema")
    for column in tables.schema:
        if column.name not in table.schema or table.schema[column.name] != column:
            raise NoisewiseError(
                f"unsafe_data does not declare column '{column.name}' as the fit did: use the "
                "schema of the fit"
            )
    return table.rows.unsafe_columns()


def _look(cells: list[Cells], columns: dict[str, np.ndarray]) -> _Counts:
    values = [each.values(columns) for each in cells]
    shares = [
        np.bincount(each.place(column), minlength=len(each.labels)) / len(column)
        for each, column in zip(cells, values, strict=True)
    ]
    moments = [
        (float(column.mean()), float(column.std())) if each.numeric else (np.nan, np.nan)
        for each, column in zip(cells, values, strict=True)
    ]
    paired = list(zip(cells, values, strict=True))[:_MOST_PAIRED]
    coarse = [each.place_coarsely(column) for each, column in paired]
    association = [cramers_v(*pair) for pair in itertools.combinations(coarse, 2)]
    return _Counts(shares, moments, np.array(association))


def cramers_v(first: np.ndarray, second: np.ndarray) -> float:
    """Cramer's V of two columns of codes, corrected for chance.

    Uncorrected, V of independent columns grows as tables shrink; Bergsma's (2013) correction makes
    tables of different sizes comparable. From 0 (independent) to 1 (one says the other).

    >>> cramers_v(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    1.0
    """
    n, rows, columns = len(first), first.max() + 1, second.max() + 1
    counts = np.bincount(first * columns + second, minlength=rows * columns).reshape(rows, columns)
    counts = counts[counts.sum(1) > 0][:, counts.sum(0) > 0]
    r, k = counts.shape
    if min(r, k) < 2:
        return 0.0
    expected = np.outer(counts.sum(1), counts.sum(0)) / n
    phi = ((counts - expected) ** 2 / expected).sum() / n
    phi = max(0.0, phi - (r - 1) * (k - 1) / (n - 1))
    least = min(r - (r - 1) ** 2 / (n - 1), k - (k - 1) ** 2 / (n - 1)) - 1
    return float(np.sqrt(min(1.0, phi / least))) if least > 0 else 0.0


def _columns(
    cells: list[Cells],
    ours: list[_Counts],
    theirs: list[_Counts],
    real: _Counts | None,
    moved: list[dict[str, float]],
) -> list[ColumnMarginal]:
    found = []
    for i, each in enumerate(cells):
        moments = None
        if each.numeric:
            exact = None if real is None else np.array(real.moments[i])
            pair = [np.array([counts.moments[i] for counts in side]) for side in (ours, theirs)]
            moments = (pair[0], pair[1], exact)
        outside = [shares[each.column] for shares in moved if each.column in shares]
        found.append(
            ColumnMarginal(
                cells=each,
                tables=np.stack([counts.shares[i] for counts in ours]),
                released=np.stack([counts.shares[i] for counts in theirs]),
                real=None if real is None else real.shares[i],
                moments=moments,
                moved=float(np.mean(outside)) if outside else None,
            )
        )
    return found


def _pairs(
    cells: list[Cells], ours: list[_Counts], theirs: list[_Counts], real: _Counts | None
) -> list[PairMarginal]:
    tables = np.stack([counts.association for counts in ours])
    released = np.stack([counts.association for counts in theirs])
    names = itertools.combinations([each.name for each in cells[:_MOST_PAIRED]], 2)
    return [
        PairMarginal(
            first=first,
            second=second,
            tables=tables[:, k],
            released=released[:, k],
            real=None if real is None else float(real.association[k]),
        )
        for k, (first, second) in enumerate(names)
    ]
