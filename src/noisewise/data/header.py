"""Names and storage types of a file's columns, without a look at any cell.

A CSV file gives its header line alone; a Parquet file the schema in its footer. Footers also hold
numbers that were computed from rows (their count, minima and maxima): those are not read.
"""

from __future__ import annotations

import csv
import gzip
import re
from os import PathLike
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from noisewise._validate import shown
from noisewise.data.errors import DataError

_LONGEST_HEADER = 2**20
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
_INDEX = re.compile(r"__index_level_\d+__")


class StoredColumn(NamedTuple):
    """A column as a file keeps it."""

    name: str
    storage: str | None
    """`float`, `integer`, `whole` (unsigned), `boolean`, `text`, `labels` (a dictionary), `date`,
    `vector`, or what else the file calls it; None where the file does not say."""


def read_header(path: str | PathLike[str]) -> tuple[StoredColumn, ...]:
    """The columns of a .csv, .csv.gz or .parquet file, in order; no value is read.

    Args:
        path: Of the file.

    Raises:
        DataError: The file cannot be read, or its first line is no header: what stands there may
            be a person's cells, and is not quoted.
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    try:
        if suffixes[-1:] == [".parquet"]:
            return _of_parquet(str(path))
        if suffixes[-1:] == [".csv"]:
            with open(path, "rb") as file:
                return _of_csv(file, str(path))
        if suffixes[-2:] == [".csv", ".gz"]:
            with gzip.open(path, "rb") as packed:
                return _of_csv(cast(IO[bytes], packed), str(path))
    except (OSError, EOFError) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else type(error).__name__
        raise DataError(
            f"cannot read {shown(str(path))} ({reason}): check the path, and that the file is whole"
        ) from None
    raise DataError(
        f"cannot tell the format of {shown(str(path))}: expected .csv, .csv.gz or .parquet"
    )


def _of_csv(file: IO[bytes], path: str) -> tuple[StoredColumn, ...]:
    line = file.readline(_LONGEST_HEADER)
    try:
        names = next(csv.reader([line.decode("utf-8-sig")], strict=True))
    except (UnicodeDecodeError, StopIteration, csv.Error):
        raise _no_header(path) from None
    if not names or not all(name.strip() for name in names) or len(set(names)) < len(names):
        raise _no_header(path)
    if any(_NUMBER.fullmatch(name) for name in names):
        raise _no_header(path)
    return tuple(StoredColumn(name, None) for name in names)


def _no_header(path: str) -> DataError:
    return DataError(
        f"the first line of {shown(path)} is not a header (expected UTF-8 and, between commas, "
        "names that are no numbers, not empty and all different): add a header line"
    )


def _of_parquet(path: str) -> tuple[StoredColumn, ...]:
    import pyarrow
    from pyarrow import parquet

    try:
        found = parquet.read_schema(path)
    except pyarrow.ArrowInvalid:
        raise DataError(
            f"{shown(path)} is not a Parquet file that can be read: write it again"
        ) from None
    # pandas keeps its index as columns of these names: they are no part of the table.
    kept = [field for field in found if not _INDEX.fullmatch(field.name)]
    return tuple(StoredColumn(field.name, _storage(field.type)) for field in kept)


def _storage(kind: Any) -> str:
    from pyarrow import types

    if types.is_boolean(kind):
        return "boolean"
    if types.is_unsigned_integer(kind):
        return "whole"
    if types.is_integer(kind):
        return "integer"
    if types.is_floating(kind) or types.is_decimal(kind):
        return "float"
    if types.is_dictionary(kind):
        return "labels"
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    if types.is_temporal(kind):
        return "date"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return "vector"
    return str(kind)
