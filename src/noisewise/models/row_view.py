"""How a table's columns become a model's arguments, record by record and by public rules only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewise.data import (
    WEIGHT,
    Column,
    Encoder,
    PrivateRows,
    Rows,
    Schema,
    Table,
    completed,
    filled,
    is_gap,
    record_count,
    unit_weight,
)
from noisewise.models.integrated import NODES
from noisewise.models.units import simulated_units

TELLS = "_missing"
"""Ends the name of an argument that says where a column's cells are missing."""


@dataclass(frozen=True, eq=False)
class RowView:
    """How a table's arrays become a model's arguments.

    The same view serves real rows and rows simulated from the schema, so a plan sees just what the
    fit will see.
    """

    schema: Schema
    arguments: tuple[str, ...]
    encoder: Encoder | None = None
    target: str | None = None
    """The column that the model is to explain, where one was named."""
    event: str | None = None
    """The column that says whether the target, a time, is an event's: ``y`` is both."""
    sample: dict[str, np.ndarray] | None = None
    """Arrays of a public sample, from which simulated rows take their covariates."""
    outcomes: tuple[str, ...] = ()
    """Columns without which a record says nothing: where one is missing, it has weight zero."""
    keeps_gaps: bool = False
    """Whether the model takes gaps as they are, and integrates them out."""
    integrating: tuple[str, ...] = ()
    """Features whose gaps are integrated out: ``X`` then has an axis of their possible values."""
    size_shares: np.ndarray | None = None
    """Shares of units with 1, 2, ... rows, where they are known better than from the schema."""

    def private(self, table: Table) -> PrivateRows:
        """The model's arguments from a table's rows, still closed; laid out by unit where the
        schema declares one."""
        return table.rows.map(self.encode).units()

    def encode(self, arrays: Rows) -> Rows:
        """The model's arguments from columns in the form of `Table.rows`, record by record; and the
        records' weights, where not all are one: survey weights over their public unit."""
        found: Rows = {} if self.encoder is None else dict(self.encoder.encode(arrays))
        if self.event is not None:
            happened = filled(self.schema[self.event], arrays[self.event]).astype(np.float32)
            found["y"] = np.stack([found["y"].astype(np.float32), happened], axis=-1)
        for name in self.arguments:
            if name not in found:
                column = self._argument(name, arrays)
                found[name] = column.astype(np.float32 if column.dtype.kind == "f" else np.int32)
        found = {name: found[name] for name in self.arguments} | self._weights(arrays)
        return found | self._integrated(arrays) if self.integrating else found

    def _integrated(self, arrays: Rows) -> Rows:
        """The design matrix for every value that gaps may have, and their probabilities."""
        assert isinstance(self.encoder, Encoder)  # `bind` has looked
        ways = completed([self.schema[name] for name in self.integrating], arrays)
        designs = [self.encoder.design(each) for each in ways.arrays]
        return {"X": np.stack(designs, axis=1), NODES: ways.shares.astype(np.float32)}

    def _argument(self, name: str, arrays: Rows) -> np.ndarray:
        """The column of an argument's name, without gaps if the model cannot take them; or, for
        ``age_missing``, where the column ``age`` has any."""
        if name not in self.schema:
            gaps: np.ndarray = is_gap(arrays[self.source(name)])
            return gaps.astype(np.float32)
        column: np.ndarray = arrays[name]
        return column if self.keeps_gaps else filled(self.schema[name], column)

    def _weights(self, arrays: Rows) -> Rows:
        """A record's survey weight over the public unit, or one; zero where an outcome is missing.
        Nothing if there are no survey weights, and no outcome can be missing."""
        gaps = [
            is_gap(arrays[name]).reshape(len(arrays[name]), -1).any(axis=1)
            for name in self.silencing
        ]
        if self.schema.weight is None:
            return {WEIGHT: (~np.any(gaps, axis=0)).astype(np.float32)} if gaps else {}
        weights = arrays[self.schema.weight.name] / unit_weight(self.schema.weight)
        return {WEIGHT: np.where(np.any(gaps, axis=0), 0.0, weights).astype(np.float32)}

    @property
    def silencing(self) -> tuple[str, ...]:
        """Outcomes whose cells may be missing."""
        return tuple(name for name in self.outcomes if self.schema[name].gaps)

    def simulate(self, rng: np.random.Generator, n: int) -> Rows:
        """Simulated records: rows, or units of rows where the schema declares such; no row of the
        data is looked at."""
        return self.as_records(self.simulate_rows(rng, n * self.schema.most_rows), rng)

    def as_records(self, rows: Rows, rng: np.random.Generator) -> Rows:
        """Simulated rows as they are, or as units of simulated sizes.

        Args:
            rows: The model's arguments, as many as units would have if all were full.
            rng: Of the sizes.
        """
        unit = self.schema.unit
        if unit is None:
            return rows
        shares = unit.shares if self.size_shares is None else self.size_shares
        sizes = np.ones(record_count(rows) // unit.max_rows, np.int64)
        if unit.max_rows > 1:
            sizes += rng.choice(unit.max_rows, size=len(sizes), p=shares)
        return simulated_units(rows, unit.max_rows, sizes)

    def simulate_rows(self, rng: np.random.Generator, n: int) -> Rows:
        """Rows from the schema's declared marginals, or from the public sample: one by one, even
        where the schema declares units."""
        return self.encode(self.simulate_columns(rng, n))

    def simulate_columns(self, rng: np.random.Generator, n: int) -> Rows:
        """The same in the form of `Table.rows`, before it is encoded."""
        arrays: Rows = self.schema.simulate(rng, n)
        if self.sample is not None:
            picked = rng.integers(record_count(self.sample), size=n)
            arrays |= {name: column[picked] for name, column in self.sample.items()}
        return arrays

    def covers(self, generated: frozenset[str]) -> bool:
        """Whether simulated rows have covariates like real ones: all from the public sample, or
        there are none, as every argument is generated by the model, and no outcome is missing; and
        units have as many rows as real ones. Survey weights count as covariates."""
        unit = self.schema.unit
        if unit is not None and not unit.sizes_known and self.size_shares is None:
            return False
        if self.sample is None and self.silencing:
            return False
        weight = [] if self.schema.weight is None else [self.schema.weight.name]
        return {*self.covariates(generated), *weight} <= set(self.sample or ())

    def covariates(self, generated: frozenset[str]) -> list[str]:
        """Columns that a model takes and does not generate, in the schema's order."""
        needed: set[str] = set()
        for argument in set(self.arguments) - generated:
            if argument == "X" and self.encoder is not None:
                needed |= set(self.encoder.features)
            else:
                needed.add(self.source(argument))
        return [name for name in self.schema.names if name in needed]

    @property
    def targets(self) -> tuple[str, ...]:
        """The columns that the model is to explain: none, one, or a time and an event."""
        return tuple(name for name in (self.target, self.event) if name is not None)

    def bounds(self, argument: str) -> tuple[float, float] | None:
        """Declared bounds of an argument in its own units; None where it has none."""
        column = self._column(argument)
        return None if column is None else column.bounds

    def kind(self, argument: str) -> str | None:
        """The kind of column behind an argument; None where there is not one."""
        column = self._column(argument)
        return None if column is None else column.kind

    def source(self, argument: str) -> str:
        """The column behind an argument that is not the design matrix: ``y`` is the target's, and
        ``age_missing`` tells of ``age``."""
        if argument == "y" and self.encoder is not None and self.encoder.target is not None:
            return self.encoder.target
        if argument in self.schema:
            return argument
        return argument.removesuffix(TELLS)

    def _column(self, argument: str) -> Column | None:
        encoder = self.encoder
        name = encoder.target if encoder is not None and argument == "y" else argument
        return self.schema[name] if name is not None and name in self.schema else None

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns of ``X``, where the model takes one."""
        return None if self.encoder is None else self.encoder.names
