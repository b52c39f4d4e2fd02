"""The rows of a bought table: bins of what is predicted, groups of people, or everybody."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from noisewise._shapes import Float, Int
from noisewise._validate import NoisewiseError, integer_at_least, listed, shown
from noisewise.data import Column, Rows, Schema, is_gap

_MOST = 200
"""Cells of a table: more would each hold too few people to be told from noise."""


class Cells(Protocol):
    """Which row of the table a record belongs to: by public rules, from the record alone."""

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each."""
        ...

    def place(
        self, columns: Rows, expected: Float[np.ndarray, " count"]
    ) -> Int[np.ndarray, " count"]:
        """The cell of every record.

        Args:
            columns: In the form of `Table.rows`.
            expected: What the model predicts for the records.
        """
        ...


@dataclass(frozen=True, eq=False)
class Everybody:
    """One cell."""

    @property
    def labels(self) -> tuple[str, ...]:
        """See `Cells`."""
        return ("everybody",)

    def place(
        self, columns: Rows, expected: Float[np.ndarray, " count"]
    ) -> Int[np.ndarray, " count"]:
        """See `Cells`."""
        return np.zeros(len(expected), int)


@dataclass(frozen=True, eq=False)
class PredictionBins:
    """Bins of what the model predicts."""

    edges: Float[np.ndarray, " inner"]
    """Between the bins, rising."""

    @classmethod
    def of(cls, expected: Float[np.ndarray, " count"], bins: int) -> PredictionBins:
        """Bins that hold about equally many of these predictions.

        Args:
            expected: Of simulated records, which are public.
            bins: How many, at most: equal predictions share one.
        """
        inner = np.quantile(expected, np.arange(1, bins) / bins)
        return cls(np.unique(inner[inner > expected.min()]))

    @property
    def labels(self) -> tuple[str, ...]:
        """See `Cells`."""
        edges = [f"{edge:.3g}" for edge in self.edges]
        if not edges:
            return ("everybody",)
        between = [f"{low} to {high}" for low, high in itertools.pairwise(edges)]
        return (f"below {edges[0]}", *between, f"{edges[-1]} and more")

    def place(
        self, columns: Rows, expected: Float[np.ndarray, " count"]
    ) -> Int[np.ndarray, " count"]:
        """See `Cells`."""
        return np.searchsorted(self.edges, expected, side="right")


@dataclass(frozen=True, eq=False)
class Groups:
    """People by one column, or by several at once."""

    columns: tuple[Column, ...]
    edges: tuple[Float[np.ndarray, " inner"] | None, ...]
    """Of numbers, where they are cut."""

    @classmethod
    def of(cls, schema: Schema, by: Sequence[str], simulated: Rows, bins: int) -> Groups:
        """Groups by these columns: levels as they are declared, numbers cut into bins.

        Args:
            schema: The table's.
            by: Names of columns.
            simulated: Rows in the form of `Table.rows`, whose quantiles cut numbers.
            bins: How many numbers are cut into.
        """
        for name in by:
            if name not in schema:
                raise NoisewiseError(
                    f"by names {shown(name)}, which is not in the schema: choose of "
                    f"{listed(schema.names)}"
                )
            if schema[name].shape:
                raise NoisewiseError(f"by names '{name}', a vector column: choose another")
        columns = tuple(schema[name] for name in dict.fromkeys(by))
        edges = tuple(_edges(column, simulated[column.name], bins) for column in columns)
        found = cls(columns, edges)
        integer_at_least("number of groups", len(found.labels), 1, _MOST)
        return found

    @property
    def _names(self) -> list[list[str]]:
        """Of every column, those of its groups."""
        return [
            _group_names(column, edges)
            for column, edges in zip(self.columns, self.edges, strict=True)
        ]

    @property
    def labels(self) -> tuple[str, ...]:
        """See `Cells`."""
        return tuple(", ".join(parts) for parts in itertools.product(*self._names))

    def place(
        self, columns: Rows, expected: Float[np.ndarray, " count"]
    ) -> Int[np.ndarray, " count"]:
        """See `Cells`."""
        found = np.zeros(len(expected), int)
        for column, edges, names in zip(self.columns, self.edges, self._names, strict=True):
            values = columns[column.name]
            codes = values if edges is None else np.searchsorted(edges, values, side="right")
            if column.gaps:
                codes = np.where(is_gap(values), len(names) - 1, codes)
            found = found * len(names) + codes.astype(int)
        return found


def _edges(column: Column, simulated: np.ndarray, bins: int) -> np.ndarray | None:
    if column.kind not in ("real", "count"):
        return None
    known = simulated[~is_gap(simulated)] if column.gaps else simulated
    return PredictionBins.of(known, bins).edges


def _group_names(column: Column, edges: np.ndarray | None) -> list[str]:
    if edges is not None:
        names = [f"{column.name} {label}" for label in PredictionBins(edges).labels]
    else:
        names = [f"{column.name}={level}" for level in column.categories or (0, 1)]
    return [*names, f"{column.name} missing"] if column.gaps else names
