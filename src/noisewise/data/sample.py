"""A public sample: rows of people about whom nothing needs protecting."""

from __future__ import annotations

import hashlib
from os import PathLike
from pathlib import Path
from typing import Any

from noisewise._validate import listed, shown
from noisewise.data.checking import bounded
from noisewise.data.errors import DataError
from noisewise.data.private import Rows, record_count
from noisewise.data.reading import column_names, read_columns, read_file
from noisewise.data.schema import Schema


class PublicSample:
    """Rows that are public, from which simulations take their covariates.

    For planning and coverage it matters how covariates are distributed, and above all how they go
    together, which a schema does not say. A survey's public-use file or last decade's published
    register will do. Every row is taken for public: **never pass rows of the table to be
    protected.** Columns that the sample lacks are simulated from the schema; others are ignored.

    >>> from noisewise.data import Column
    >>> schema = Schema((Column(name="age", kind="real", bounds=(0, 100)),))
    >>> PublicSample({"age": [31.5, 64.0, 47.2]}, schema)
    PublicSample(3 rows: age)
    """

    def __init__(self, data: Any, schema: Schema) -> None:
        shared = _shared(schema, column_names(data))
        self.columns = open_columns("the public sample", data, shared, clamp=True)

    @classmethod
    def read(cls, path: str | PathLike[str], schema: Schema) -> PublicSample:
        """Read a `.csv`, `.csv.gz` or `.parquet` file.

        Args:
            path: Of the file.
            schema: The table's; columns that it does not declare are ignored.
        """
        shared = _shared(schema, _names_in(path))
        return cls(read_file(path, shared, ignore_undeclared=True), shared)

    def fingerprint(self) -> str:
        """16 hexadecimal digits that change with any value."""
        digest = hashlib.sha256()
        for name, values in self.columns.items():
            digest.update(name.encode())
            digest.update(values.tobytes())
        return digest.hexdigest()[:16]

    def __len__(self) -> int:
        return record_count(self.columns)

    def __repr__(self) -> str:
        return f"PublicSample({len(self)} rows: {', '.join(self.columns)})"


def open_columns(words: str, data: Any, schema: Schema, *, clamp: bool) -> Rows:
    """Columns that need no protection, checked against a schema; others are ignored.

    Args:
        words: What the data are, for messages.
        data: A frame, a dictionary of arrays, or the path of a file.
        schema: The columns wanted.
        clamp: Move values outside of bounds to the nearer bound, instead of refusing them.
    """
    read = read_file if isinstance(data, (str, PathLike)) else read_columns
    raw = read(data, schema, ignore_undeclared=True)
    lengths = {values.shape[:1] for values in raw.values()}
    if len(lengths) != 1 or lengths <= {(), (0,)}:
        raise DataError(f"{words}'s columns must be equally long, and not empty")
    return {column.name: bounded(column, raw[column.name], clamp=clamp) for column in schema}


def _names_in(path: str | PathLike[str]) -> list[str]:
    """The names of a file's columns."""
    import pyarrow
    from pyarrow import csv, parquet

    text = str(path)
    try:
        if Path(text).suffix.lower() == ".parquet":
            return list(parquet.read_schema(text).names)
        with csv.open_csv(text, parse_options=csv.ParseOptions(newlines_in_values=True)) as reader:
            return list(reader.schema.names)
    except (OSError, UnicodeDecodeError, pyarrow.ArrowException) as error:
        raise DataError(
            f"cannot read the public sample {shown(text)} ({type(error).__name__}): give a "
            ".csv, .csv.gz or .parquet file"
        ) from None


def _shared(schema: Schema, names: list[str]) -> Schema:
    """The part of the schema that the sample has columns for, a vector's also as `x[0]`, `x[1]`."""
    found = set(names)
    columns = tuple(c for c in schema if c.name in found or found.intersection(c.entry_names))
    if not columns:
        raise DataError(
            f"the public sample has none of the schema's columns: expected some of "
            f"{listed(schema.names)}"
        )
    return Schema(columns)
