"""What the schema says of an expression's distribution: in place of what others read off rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from noisewise.data.column import Column
from noisewise.data.formulas.expressions import Arrays, Expression
from noisewise.data.schema import Schema

_POINTS = 4001
_DRAWS = 4096


class Moments(NamedTuple):
    """Of every column of an expression."""

    mean: np.ndarray
    sd: np.ndarray


def declared_cells(schema: Schema, sources: tuple[str, ...]) -> Arrays:
    """Cells of these columns as they are declared: evenly spaced quantiles of one column, draws
    with a fixed seed of several.

    Args:
        schema: What is declared.
        sources: Names of columns.
    """
    columns = [schema[name].complete for name in sources]
    if len(columns) == 1 and not columns[0].shape:
        return {sources[0]: _quantiles(columns[0])}
    return Schema(tuple(columns)).simulate(np.random.default_rng(0), _DRAWS)


def is_declared(schema: Schema, sources: tuple[str, ...]) -> bool:
    """Whether a mean and an sd are declared for all of these columns that are numbers.

    Args:
        schema: What is declared.
        sources: Names of columns.
    """
    return all(schema[name].bounds is None or schema[name].sd is not None for name in sources)


def moments(found: Expression, schema: Schema) -> Moments | None:
    """Mean and sd under what is declared; None where the schema does not declare them.

    Args:
        found: The expression.
        schema: What is declared.
    """
    if not is_declared(schema, found.sources):
        return None
    start, slope = found.affine
    if slope and len(found.sources) == 1 and schema[found.sources[0]].bounds is not None:
        column = schema[found.sources[0]]
        assert column.mean is not None  # `is_declared` has looked
        assert column.sd is not None
        width = np.ones(len(found.range.low))
        return Moments((start + slope * column.mean) * width, abs(slope) * column.sd * width)
    values = found.values(declared_cells(schema, found.sources))
    return Moments(values.mean(0), values.std(0))


def _quantiles(column: Column) -> np.ndarray:
    """Of the distribution that `Column.simulate` draws from."""
    level = (np.arange(_POINTS) + 0.5) / _POINTS
    if column.kind == "binary":
        return (level > 1 - (0.5 if column.share is None else column.share)).astype(np.int8)
    if column.categories is not None:
        weights = np.asarray(column.shares or np.ones(len(column.categories)))
        return np.searchsorted(np.cumsum(weights / weights.sum())[:-1], level).astype(np.int32)
    assert column.bounds is not None  # what is left is real or count, which must have them
    low, high = column.bounds
    half = 0.5 if column.kind == "count" else 0.0
    start, end = low - half, high + half
    if column.mean is None or column.sd is None:
        found = start + (end - start) * level
    else:
        below, above = ndtr((np.array([start, end]) - column.mean) / column.sd)
        found = column.mean + column.sd * ndtri(below + (above - below) * level)
    found = np.clip(np.rint(found) if half else found, low, high)
    return found.astype(np.int64) if half else found
