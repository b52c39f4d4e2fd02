"""A schema: the declared columns of a table, and whether its number of rows is public."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from noisewise._files import read_toml
from noisewise._pages import Shown
from noisewise._validate import NoisewiseError, integer_at_least, listed, shown
from noisewise.data.column import Column
from noisewise.data.errors import SchemaError
from noisewise.data.units import ONE_ROW, Unit

_MOST_SHOWN = 8
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Schema(Shown):
    """Everything publicly known about a table: no part of it is computed from rows.

    Attributes:
        columns: The declared columns, in order, with different names.
        rows: The number of rows, if it is **public**. None says that it is private: it will be
            noised, at a cost, wherever it is needed.
        unit: Whose rows are protected together, if somebody may have several; None protects rows.

    >>> schema = Schema.from_dict({
    ...     "rows": 20190,
    ...     "columns": {
    ...         "age": {"type": "real", "bounds": [0, 100], "mean": 45, "sd": 15},
    ...         "visited": {"type": "binary"},
    ...     },
    ... })
    >>> schema.names
    ('age', 'visited')
    >>> schema["age"].bounds
    (0.0, 100.0)
    >>> Schema.from_dict(schema.to_dict()) == schema
    True
    """

    columns: tuple[Column, ...]
    rows: int | None = None
    unit: Unit | None = None

    def __post_init__(self) -> None:
        if isinstance(self.columns, (str, Mapping)) or not hasattr(self.columns, "__iter__"):
            raise SchemaError(f"columns must be a sequence of Column, got {shown(self.columns)}")
        columns = tuple(self.columns)
        if not columns:
            raise SchemaError("the schema declares no column: declare at least one")
        for column in columns:
            if not isinstance(column, Column):
                raise SchemaError(
                    f"columns must be a sequence of Column, got {shown(column)} among them"
                )
        names = [column.name for column in columns]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise SchemaError(
                f"column {shown(twice)} is declared twice: give every column its own name"
            )
        weights = [column.name for column in columns if column.kind == "weight"]
        if len(weights) > 1:
            raise SchemaError(
                f"columns {listed(weights)} are both declared weights: a record has one weight, so "
                "keep one of them"
            )
        if weights and self.unit is not None:
            raise SchemaError(
                f"column {shown(weights[0])} is declared a weight, and units of several rows have "
                "none: keep [unit] or the weight, or make it one row a unit"
            )
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "rows", _checked_rows(self.rows))
        if self.unit is not None:
            self._check_unit(self.unit)

    def _check_unit(self, unit: object) -> None:
        if not isinstance(unit, Unit):
            raise SchemaError(f"unit must be a noisewise.Unit, got {shown(unit)}")
        if unit.column in self.names:
            raise SchemaError(
                f"column {shown(unit.column)} says whose a row is, and is declared as well: "
                "an identifier is no covariate, take it out of the columns"
            )
        if self.rows is not None:
            raise SchemaError(
                "the schema declares rows and a [unit]: units are what is counted then; leave rows "
                "out, and if the number of units is public declare it as count in [unit]"
            )

    @property
    def public_count(self) -> int | None:
        """The number of records that are protected each by itself, if it is public: of rows, or of
        units where there are such."""
        return self.rows if self.unit is None else self.unit.count

    @property
    def most_rows(self) -> int:
        """Rows of a record that is protected: one, or a unit's at most."""
        return 1 if self.unit is None else self.unit.max_rows

    @property
    def protected(self) -> str:
        """What is protected, in words."""
        if self.unit is not None:
            return self.unit.words
        return ONE_ROW

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def weight(self) -> Column | None:
        """The column of survey weights, if there is one."""
        return next((column for column in self.columns if column.kind == "weight"), None)

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise SchemaError(
            f"column {shown(name)} is not in the schema: declared are {listed(self.names)}"
        )

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __repr__(self) -> str:
        said = [column.summary() for column in self.columns[:_MOST_SHOWN]]
        if len(self.columns) > _MOST_SHOWN:
            said.append(f"... ({len(self.columns)} columns in all)")
        count, counted = self.public_count, "rows"
        if self.unit is not None:
            counted = f"{self.unit.column} units of up to {self.unit.max_rows} rows"
        return f"Schema({'; '.join(said)}; {counted}: {'private' if count is None else count})"

    def __len__(self) -> int:
        """The number of columns."""
        return len(self.columns)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    @classmethod
    def from_dict(cls, declared: Mapping[str, Any]) -> Schema:
        """Read `{"rows": ..., "unit": {...}, "columns": {name: {"type": ..., ...}}}`, as in TOML.

        Args:
            declared: As read from TOML or JSON.
        """
        if not isinstance(declared, Mapping):
            raise SchemaError(f"a schema must be a table with columns, got {shown(declared)}")
        unknown = [key for key in declared if key not in ("rows", "unit", "columns")]
        if unknown:
            raise SchemaError(
                f"the schema has unknown keys {listed(unknown)}: expected columns, if public "
                "rows, and [unit] where somebody may have several"
            )
        columns = declared.get("columns")
        if not isinstance(columns, Mapping):
            found = "no columns" if columns is None else f"columns = {shown(columns)}"
            raise SchemaError(
                f"the schema has {found}: expected a table [columns.NAME] for each column"
            )
        read = tuple(Column.from_dict(name, column) for name, column in columns.items())
        unit = None if "unit" not in declared else Unit.from_dict(declared["unit"])
        return cls(read, declared.get("rows"), unit)

    @classmethod
    def from_toml(cls, path: str | PathLike[str]) -> Schema:
        """Read a schema from a TOML file.

        ```toml
        rows = 20190            # only if the number of rows is public
        [columns.age]
        type = "real"
        bounds = [0, 100]
        mean = 45               # mean and sd: from outside knowledge, never from these rows
        sd = 15
        [columns.sex]
        type = "category"
        categories = ["female", "male"]
        [unit]                  # only where somebody may have several rows
        column = "person"       # who a row is about; no declared column
        max_rows = 8
        ```

        Args:
            path: Of the file.
        """
        try:
            declared = read_toml(path, "schema")
        except NoisewiseError as error:
            raise SchemaError(str(error)) from None
        return cls.from_dict(declared)

    def to_dict(self) -> dict[str, Any]:
        """The schema as plain Python values, ready for JSON; `Schema.from_dict` reads it back."""
        rows = {} if self.rows is None else {"rows": self.rows}
        unit = {} if self.unit is None else {"unit": self.unit.to_dict()}
        return rows | unit | {"columns": {column.name: column.to_dict() for column in self.columns}}

    def to_toml(self) -> str:
        """The schema as TOML; `Schema.from_toml` reads it back from a file.

        >>> print(Schema((Column(name="visited", kind="binary", share=0.25),)).to_toml())
        [columns.visited]
        type = "binary"
        share = 0.25
        <BLANKLINE>
        """
        parts = [] if self.rows is None else [f"rows = {self.rows}\n"]
        tables = {} if self.unit is None else {"unit": self.unit.to_dict()}
        tables |= {f"columns.{toml_key(column.name)}": column.to_dict() for column in self.columns}
        for name, declared in tables.items():
            lines = [f"{key} = {toml_value(value)}" for key, value in declared.items()]
            parts.append("\n".join([f"[{name}]", *lines]) + "\n")
        return "\n".join(parts)

    def fingerprint(self) -> str:
        """16 hexadecimal digits that change with any part of the declaration, order included."""
        columns = [[column.name, column.to_dict()] for column in self.columns]
        canonical = json.dumps(
            {"rows": self.rows, "columns": columns}
            | ({} if self.unit is None else {"unit": self.unit.to_dict()}),
            sort_keys=True,
            separators=(",", ":"),
        )
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()[:16]

    def simulate(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Draw a simulated table of `n` rows, columns independent; touches no data.

        Real columns follow the normal with the declared mean and sd, truncated to the bounds, or
        are uniform on the bounds where none are declared; counts likewise, rounded. Categories come
        as integer codes. The arrays have the types and shapes of `Table.rows`.

        Args:
            rng: Where randomness comes from.
            n: Number of rows.

        >>> schema = Schema((Column(name="visits", kind="count", bounds=(0, 3)),))
        >>> schema.simulate(np.random.default_rng(0), 4)["visits"].dtype
        dtype('int64')
        """
        n = integer_at_least("n", n, 1)
        return {column.name: column.simulate(rng, n) for column in self.columns}


def _checked_rows(rows: Any) -> int | None:
    """The public number of rows as a Python integer; a table has at least two."""
    if rows is None:
        return None
    try:
        return integer_at_least("rows", rows, 2)
    except (TypeError, ValueError) as error:
        raise SchemaError(f"{error}: leave rows out if their number is private") from None


def toml_key(name: str) -> str:
    """A name as a key of TOML: bare where it may be."""
    return name if _BARE_KEY.fullmatch(name) else toml_value(name)


def toml_value(value: object) -> str:
    """A string, a number or a list; JSON's strings are TOML's, but for the character DEL."""
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
