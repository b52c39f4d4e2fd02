"""Missing covariates that are integrated out: their values, as probable as they are declared.

A column of levels is summed over them; numbers are integrated over their declared distribution by
Gauss-Legendre quadrature on the scale of its quantiles.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from noisewise._validate import shown
from noisewise.data.column import Column
from noisewise.data.errors import SchemaError
from noisewise.data.gaps import is_gap

_POINTS = 8
"""Of a normal's variance they make 0.97; a chance on the scale of a logit is right to 1e-4."""
_MOST = 64


class Nodes(NamedTuple):
    """What a missing cell may be, in the form of `Table.rows`, and with which probability."""

    values: np.ndarray
    shares: np.ndarray


class Completed(NamedTuple):
    """Columns without gaps, once for every combination of nodes, and how probable each is."""

    arrays: list[dict[str, np.ndarray]]
    shares: np.ndarray
    """Records x combinations; of a complete record the first one's is 1."""


def nodes_of(column: Column) -> Nodes:
    """The declared distribution of a column as a few values.

    Args:
        column: One that is declared ``how = "integrate"``.
    """
    if column.shape:
        raise SchemaError(
            f"column {shown(column.name)} is a vector, and how = 'integrate' takes single values: "
            "declare how = 'indicator', or columns of their own"
        )
    if column.kind == "binary":
        share = 0.5 if column.share is None else column.share
        return Nodes(np.arange(2, dtype=np.int8), np.array([1 - share, share]))
    if column.categories is not None:
        levels = len(column.categories)
        shares = np.full(levels, 1 / levels) if column.shares is None else np.array(column.shares)
        return Nodes(np.arange(levels, dtype=np.int32), shares / shares.sum())
    assert column.bounds is not None  # numbers have them
    places, halves = np.polynomial.legendre.leggauss(_POINTS)
    at, (low, high) = (places + 1) / 2, column.bounds
    if column.mean is None or column.sd is None:
        return Nodes(low + (high - low) * at, halves / 2)
    first, last = ndtr((np.array([low, high]) - column.mean) / column.sd)
    values = column.mean + column.sd * ndtri(first + (last - first) * at)
    return Nodes(np.clip(values, low, high), halves / 2)


def completed(columns: Sequence[Column], arrays: Mapping[str, np.ndarray]) -> Completed:
    """Every way to fill the gaps of these columns: record by record, as many for each.

    Args:
        columns: Those that are integrated out.
        arrays: All columns, in the form of `Table.rows`.
    """
    nodes = [nodes_of(column) for column in columns]
    ways = list(itertools.product(*(range(len(each.values)) for each in nodes)))
    if len(ways) > _MOST:
        raise SchemaError(
            f"columns {', '.join(shown(column.name) for column in columns)} have {len(ways)} "
            f"combinations of values to integrate over, and {_MOST} are the most: declare "
            "how = 'indicator' for some"
        )
    gaps = {column.name: is_gap(arrays[column.name]) for column in columns}
    filled, shares = [], []
    for way in ways:
        here, share = dict(arrays), np.ones(len(next(iter(gaps.values()))))
        for column, each, place in zip(columns, nodes, way, strict=True):
            missing, values = gaps[column.name], arrays[column.name]
            # Counts may be integrated over numbers between them.
            here[column.name] = np.where(missing, each.values[place], values)
            share = share * np.where(missing, each.shares[place], float(place == 0))
        filled.append(here)
        shares.append(share)
    return Completed(filled, np.stack(shares, axis=1))
