"""From named columns to a design matrix: record by record, and by public numbers only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewise._validate import listed, shown
from noisewise.data.column import Column
from noisewise.data.errors import SchemaError
from noisewise.data.gaps import filled, indicator_name, is_gap
from noisewise.data.schema import Schema

_INTERCEPT = "intercept"


@dataclass(frozen=True)
class _DesignColumn:
    """One column of the design matrix: `(values - centre) / scale`, between `lo` and `hi`."""

    name: str
    column: str | None
    centre: float = 0.0
    scale: float = 1.0
    lo: float = 0.0
    hi: float = 1.0
    missing: bool = False
    """Whether it says where the column's cells are missing."""


class Encoder:
    """A linear encoding of each record, fixed by the schema alone, so that it costs no privacy.

    Real and count columns become `(x - mean) / sd` with the declared guesses, or, without them,
    `(x - midpoint) / half-range` of the bounds, which lies in [-1, 1]. Binary columns stay 0 and 1.
    A category column becomes one 0/1 column for each category but the first, the reference. A
    vector column is spread over `x[0]`, `x[1]`, ... The first column, `intercept`, is all ones.
    A column whose cells may be missing has its declared fill value in place of gaps, and a further
    0/1 column that says where they are, `age (missing)`.

    Args:
        schema: The declared columns.
        target: The column to predict, or None. It is not scaled: real and count targets stay in
            their own units, a category target becomes its code: 0, 1, ... in the declared order.
        features: The columns to encode, in this order; by default every column but the target and
            the survey weight, in the schema's.
        intercept: Whether to put a column of ones first.

    >>> from noisewise.data import Column
    >>> schema = Schema((
    ...     Column(name="age", kind="real", bounds=(0, 100), mean=45, sd=15),
    ...     Column(name="sex", kind="category", categories=("female", "male")),
    ...     Column(name="visits", kind="count", bounds=(0, 50)),
    ... ))
    >>> encoder = Encoder(schema, target="visits")
    >>> encoder.names
    ['intercept', 'age', 'sex=male']
    >>> people = {"age": np.array([60.0, 30.0]), "sex": np.array([1, 0])}
    >>> encoder.design(people).tolist()
    [[1.0, 1.0, 1.0], [1.0, -1.0, 0.0]]
    """

    formula: str | None = None
    """What it was made from, where that was a formula."""

    def __init__(
        self,
        schema: Schema,
        target: str | None,
        features: Sequence[str] | None = None,
        intercept: bool = True,
    ) -> None:
        self.schema = schema
        self.target = checked_target(schema, target)
        self.features = _checked_features(schema, target, features)
        self._intercept = bool(intercept)
        self._design = _design_columns([schema[name] for name in self.features], self._intercept)

    @property
    def names(self) -> list[str]:
        """The names of the design matrix's columns, e.g. `age`, `sex=male`, `x[0]`."""
        return [column.name for column in self._design]

    def encode(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Encode arrays in the form of `Table.rows` or `Schema.simulate`.

        Returns `X`, float32 of shape `(n, len(names))`, and, where there is a target, `y` of shape
        `(n,)`: float32, or int32 for codes of more than two categories. Row `i` depends on record
        `i` only: what comes in as private rows goes out as private rows.
        """
        encoded = {"X": self.design(arrays)}
        if self.target is not None:
            target = self.schema[self.target]
            # Codes of more than two levels are indices to a model, and floats cannot index.
            kind = np.int32 if len(target.categories or ()) > 2 else np.float32
            encoded["y"] = filled(target, _fetched(arrays, self.target)).astype(kind)
        return encoded

    def design(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """The design matrix alone: for new records, whose target is not known."""
        first = next(iter(arrays.values()), np.empty(0))
        X = np.ones((len(first), len(self._design)), dtype=np.float32)
        at = int(self._intercept)
        for name in self.features:
            values = _unscaled(self.schema[name], _fetched(arrays, name))
            block = self._design[at : at + values.shape[1]]
            centre, scale = np.array([[c.centre, c.scale] for c in block]).T
            X[:, at : at + len(block)] = (values - centre) / scale
            at += len(block)
        return X

    def describe(self) -> list[dict[str, Any]]:
        """Name, source column, centre and scale of each column of the design matrix.

        The encoded value is `(original - centre) / scale`, so a coefficient `b` is `b / scale` in
        original units, and the intercept loses the sum of `b * centre / scale`. The intercept's own
        column is None. Columns that say where another's cells are missing are marked so.
        """
        return [
            {"name": c.name, "column": c.column, "centre": c.centre, "scale": c.scale}
            | ({"missing": True} if c.missing else {})
            for c in self._design
        ]

    def feature_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The lowest and highest value each column of the design matrix can take, float32."""
        lo = np.array([column.lo for column in self._design], dtype=np.float32)
        hi = np.array([column.hi for column in self._design], dtype=np.float32)
        return lo, hi

    def __repr__(self) -> str:
        return f"Encoder(target={self.target!r}, names={self.names})"


def source_columns(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The table's columns behind a column of the design matrix; none behind the intercept.

    Args:
        entry: Of `Encoder.describe`.
    """
    if "columns" in entry:
        return tuple(entry["columns"])
    return () if entry["column"] is None else (entry["column"],)


def in_own_terms(encoding: Sequence[Mapping[str, Any]]) -> np.ndarray | None:
    """The matrix that takes encoded coefficients to those per original unit, at 0 of all else.

    None where there is no such thing: a design that is moved to its centres, without an intercept.

    Args:
        encoding: As `Encoder.describe` has it.

    >>> age = {"name": "age", "column": "age", "centre": 50.0, "scale": 10.0}
    >>> ones = {"name": "intercept", "column": None, "centre": 0.0, "scale": 1.0}
    >>> in_own_terms([ones, age]).tolist()
    [[1.0, -5.0], [0.0, 0.1]]
    """
    if any("original" in entry for entry in encoding):
        names = [entry["name"] for entry in encoding]
        return np.array(
            [[entry["original"].get(name, 0.0) for entry in encoding] for name in names]
        )
    scale = np.array([entry["scale"] for entry in encoding], float)
    centre = np.array([entry["centre"] for entry in encoding], float)
    found = np.diag(1 / scale)
    intercepts = [place for place, entry in enumerate(encoding) if entry["column"] is None]
    if intercepts:
        found[intercepts[0]] -= centre / scale
    return None if centre.any() and not intercepts else found


def checked_target(schema: Schema, target: str | None) -> str | None:
    """The target, if it is one number per record.

    Args:
        schema: The declared columns.
        target: A name, or None.
    """
    if target is None:
        return None
    if target not in schema:
        raise SchemaError(
            f"target {shown(target)} is not in the schema: choose one of {listed(schema.names)}"
        )
    column = schema[target]
    _refuse_weight(column, "target")
    if column.shape:
        raise SchemaError(
            f"target {target!r} is a vector column: choose a column with one value per row"
        )
    return target


def _checked_features(
    schema: Schema, target: str | None, features: Sequence[str] | None
) -> tuple[str, ...]:
    """The feature names, declared, different from each other and from the target."""
    if features is None:
        return tuple(c.name for c in schema if c.name != target and c.kind != "weight")
    if isinstance(features, str):
        raise SchemaError(
            f"features must be a list of column names, got {shown(features)}: write [{features!r}]"
        )
    chosen = tuple(features)
    for name in chosen:
        if name not in schema:
            raise SchemaError(
                f"feature {shown(name)} is not in the schema: choose among {listed(schema.names)}"
            )
        _refuse_weight(schema[name], "feature")
        if name == target:
            raise SchemaError(
                f"feature {name!r} is the target as well: take it out of the features"
            )
        if chosen.count(name) > 1:
            raise SchemaError(f"feature {name!r} is listed twice: list it once")
    return chosen


def _refuse_weight(column: Column, purpose: str) -> None:
    """A survey weight says how much a record counts, and nothing of the person."""
    if column.kind == "weight":
        raise SchemaError(
            f"{purpose} {column.name!r} is declared a weight: choose another column, or declare it "
            "real to have it explain something"
        )


def _design_columns(columns: Sequence[Column], intercept: bool) -> tuple[_DesignColumn, ...]:
    """All columns of the design matrix, with names of their own."""
    design = [_DesignColumn(_INTERCEPT, None, lo=1.0)] if intercept else []
    for column in columns:
        design += _encoded(column)
    if not design:
        raise SchemaError("the encoding has no columns: name a feature, or keep the intercept")
    names = [column.name for column in design]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SchemaError(
            f"two encoded columns would be called {shown(twice)}: rename one in the schema"
        )
    return tuple(design)


def _encoded(column: Column) -> list[_DesignColumn]:
    """The columns of the design matrix that one column of the table becomes."""
    found = _encoded_values(column)
    if column.gaps and column.how != "integrate":
        names = map(indicator_name, column.entry_names)
        found += [_DesignColumn(name, column.name, missing=True) for name in names]
    return found


def _encoded_values(column: Column) -> list[_DesignColumn]:
    """Those that hold its values."""
    if column.kind == "binary":
        return [_DesignColumn(column.name, column.name)]
    if column.categories is not None:
        return [_DesignColumn(f"{column.name}={x}", column.name) for x in column.categories[1:]]
    assert column.bounds is not None
    lo, hi = column.bounds
    if column.mean is not None and column.sd is not None:
        centre, scale = column.mean, column.sd
    else:
        centre, scale = lo + (hi - lo) / 2, (hi - lo) / 2
    low, high = (lo - centre) / scale, (hi - centre) / scale
    if not max(-low, high) <= float(np.finfo(np.float32).max):
        raise SchemaError(
            f"column {column.name!r} has sd {scale:g}, too small for bounds [{lo:g}, {hi:g}] "
            "in float32: declare a larger sd"
        )
    return [
        _DesignColumn(name, column.name, centre=centre, scale=scale, lo=low, hi=high)
        for name in column.entry_names
    ]


def _fetched(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """One column of the arrays."""
    if name not in arrays:
        raise SchemaError(f"column {name!r} is to be encoded but is not among the arrays: add it")
    return np.asarray(arrays[name])


def _unscaled(column: Column, values: np.ndarray) -> np.ndarray:
    """The values as `(n, width)` float64: one-hot without the reference, or an entry each; then 0/1
    for gaps, where there may be any."""
    whole = filled(column, values)
    if column.categories is not None:
        found = np.asarray(whole[:, None] == np.arange(1, len(column.categories)), np.float64)
    else:
        found = whole.astype(np.float64).reshape(len(values), len(column.entry_names))
    if not column.gaps or column.how == "integrate":
        return found
    gaps = is_gap(values).reshape(len(values), len(column.entry_names))
    return np.concatenate([found, gaps], axis=1)
