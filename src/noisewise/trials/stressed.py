"""Simulated columns that are within a schema, and unlike what it suggests."""

from collections.abc import Callable

import numpy as np

from noisewise.data import Column, Rows, Schema

_COMMON = 0.95
"""Share of people who have a category's first level, and correlation of tied numbers."""
_AT_THE_BOUND = 0.9
_TAIL = 0.03
"""Mean distance from the bound, of the others, as a share of the bounds' width."""


def _rare_levels(column: Column, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One level is nearly everybody's."""
    if column.kind not in ("binary", "category"):
        return values
    return np.where(rng.random(len(values)) < _COMMON, np.zeros_like(values), values)


def _piles(column: Column, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Nearly everybody is at the lower bound, the others in a heavy tail close to it."""
    if column.bounds is None:
        return values
    low, high = column.bounds
    tail = np.minimum(low + _TAIL * (high - low) * rng.standard_exponential(values.shape), high)
    piled = np.where(rng.random(values.shape) < _AT_THE_BOUND, low, tail)
    return piled.astype(values.dtype)


def _unchanged(column: Column, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return values


def _tied(arrays: Rows, schema: Schema, rng: np.random.Generator) -> Rows:
    """Numbers have nearly the same ranks in every column."""
    n = len(next(iter(arrays.values())))
    common, tied = rng.standard_normal((n, 1)), dict(arrays)
    for column in schema:
        if column.bounds is None:
            continue
        flat = arrays[column.name].reshape(n, -1)
        own = _COMMON * common + (1 - _COMMON**2) ** 0.5 * rng.standard_normal(flat.shape)
        ranks = np.argsort(np.argsort(own, axis=0), axis=0)
        found = np.take_along_axis(np.sort(flat, axis=0), ranks, axis=0)
        tied[column.name] = found.reshape(arrays[column.name].shape)
    return tied


_KINDS: dict[str, tuple[Callable[..., np.ndarray], ...]] = {
    "rare levels": (_rare_levels,),
    "piles at a bound": (_piles,),
    "tied numbers": (_unchanged,),
    "all of these": (_rare_levels, _piles),
}
_TIED = ("tied numbers", "all of these")
STRESSES = tuple(_KINDS)
"""Ways in which a table may be unlike what its schema suggests."""


def stressed_columns(schema: Schema, stress: str, rng: np.random.Generator, n: int) -> Rows:
    """A simulated table under one of `STRESSES`, in the form of `Table.rows`.

    Args:
        schema: What is declared; bounds and categories hold.
        stress: Its name.
        rng: The generator.
        n: Rows.
    """
    arrays = schema.simulate(rng, n)
    for change in _KINDS[stress]:
        arrays = {column.name: change(column, arrays[column.name], rng) for column in schema}
    return _tied(arrays, schema, rng) if stress in _TIED else arrays
