"""From what a user has (a frame, a dict of arrays, a file) to one NumPy array per declared column.

Nothing here looks at bounds or categories; that is `checking`. Readers' own error messages quote
cells, so none of them is passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from noisewise._validate import listed, shown
from noisewise.data.column import Column
from noisewise.data.errors import DataError
from noisewise.data.schema import Schema

# How files spell a missing number. Text columns are compared with their categories instead.
_MISSING = ("", "-", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "nat")
_TRUE_OR_FALSE = {"true": "1", "false": "0"}


def read_columns(data: Any, schema: Schema, *, ignore_undeclared: bool) -> dict[str, np.ndarray]:
    """The declared columns of a frame, a dict or a structured array, as they come, by name."""
    names, fetch = _open(data)
    sources = sources_of(names, schema, ignore_undeclared=ignore_undeclared)
    found = {column.name: _gather(column, sources[column.name], fetch) for column in schema}
    return found | {name: fetch(name) for name in _identifiers(schema)}


def _identifiers(schema: Schema) -> tuple[str, ...]:
    """The column that says which unit a row is of, where units are declared."""
    return () if schema.unit is None else (schema.unit.column,)


def column_names(data: Any) -> list[str]:
    """The names of the columns of a frame, a dict or a structured array."""
    return _open(data)[0]


def _open(data: Any) -> tuple[list[Any], Callable[[str], np.ndarray]]:
    """The names of the columns, and a function that fetches one of them."""
    if isinstance(data, Mapping):
        return list(data), lambda name: _array_of(name, data[name])
    if isinstance(data, np.ndarray) and data.dtype.names:
        return list(data.dtype.names), lambda name: _array_of(name, data[name])
    return _open_frame(data)


def read_file(
    path: str | PathLike[str], schema: Schema, *, ignore_undeclared: bool
) -> dict[str, np.ndarray]:
    """The declared columns of a .csv, .csv.gz or .parquet file, chosen by suffix."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes[-1:] == [".csv"] or suffixes[-2:] == [".csv", ".gz"]:
        return _read_csv(str(path), schema, ignore_undeclared=ignore_undeclared)
    if suffixes[-1:] == [".parquet"]:
        return _read_parquet(str(path), schema, ignore_undeclared=ignore_undeclared)
    raise DataError(
        f"cannot tell the format of {shown(str(path))}: expected .csv, .csv.gz or .parquet"
    )


def sources_of(
    names: Sequence[Any], schema: Schema, *, ignore_undeclared: bool
) -> dict[str, tuple[str, ...]]:
    """What makes up each declared column: itself, or `x[0]`, `x[1]`, ... for a vector.

    Args:
        names: Of the data's columns.
        schema: What is declared.
        ignore_undeclared: Whether the data may have other columns, too.
    """
    sources = {
        column.name: (column.name,) if column.name in names else column.entry_names
        for column in schema
    }
    sources |= {name: (name,) for name in _identifiers(schema)}
    used = {name for parts in sources.values() for name in parts}
    if used.isdisjoint(names):
        # Without a header the names are the first row's values: they must not be quoted.
        raise DataError(
            f"none of the declared columns ({listed(schema.names)}) is in the data: "
            "correct the schema, or give the file a header row with commas between the names"
        )
    missing = [name for parts in sources.values() for name in parts if name not in names]
    if missing:
        plain = {str(name).strip().casefold() for name in names}
        if all(name.casefold() in plain for name in missing):
            raise DataError(
                f"{listed(missing)} {_are(missing)} in the data under a name that differs in "
                "capitals or spaces: rename in the data or in the schema"
            )
        raise DataError(
            f"{listed(missing)} {_are(missing)} declared but not in the data: add what is missing"
            ", or take it out of the schema"
        )
    undeclared = sum(name not in used for name in names)
    if undeclared and not ignore_undeclared:
        # Some may be cells of a first row that is no header: they are counted, not quoted.
        raise DataError(
            f"{undeclared} of the data's columns are not declared in the schema (declared are "
            f"{listed(schema.names)}): declare them, or drop them (ignore_undeclared=True)"
        )
    twice = [name for name in used if list(names).count(name) > 1]
    if twice:
        raise DataError(
            f"{listed(sorted(twice))} {_are(twice)} in the data twice: keep one of each"
        )
    return sources


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _gather(
    column: Column, parts: tuple[str, ...], fetch: Callable[[str], np.ndarray]
) -> np.ndarray:
    """One declared column, put together from its parts where a vector came spread over several."""
    if parts == (column.name,):
        return fetch(column.name)
    arrays = [fetch(part) for part in parts]
    if len({array.shape for array in arrays}) != 1 or arrays[0].ndim != 1:
        raise DataError(
            f"columns {listed(parts)} must each hold one value per row and be equally long"
        )
    return np.stack(arrays, axis=1).reshape(len(arrays[0]), *column.shape)


def _array_of(name: str, values: Any) -> np.ndarray:
    """One entry of a dict as an array."""
    if isinstance(values, np.ma.MaskedArray):
        mask, plain = np.ma.getmaskarray(values), values.data
        values = plain
        if mask.any():
            values = plain.astype(object)
            values[mask] = None
    try:
        found = np.asarray(values)
        if found.dtype.kind == "U" and any(isinstance(value, float) for value in values):
            return np.asarray(values, object)  # a NaN beside text has become text
        return found
    except Exception:  # ragged lists, foreign types: whatever the reason is, it may quote values
        raise DataError(
            f"column {shown(name)} cannot be read as an array: expected one value "
            "(or vector) per row"
        ) from None


def _open_frame(data: Any) -> tuple[list[Any], Callable[[str], np.ndarray]]:
    """The names of a data frame's columns, and a function that fetches one of them."""
    import narwhals as nw

    try:
        frame = nw.from_native(data, eager_only=True)
    except TypeError:
        raise DataError(
            "data must be a pandas, polars or pyarrow table (a lazy one: collect it first) or "
            f"a dict of arrays, got {type(data).__name__}"
        ) from None
    except ValueError:  # narwhals on a frame with the same name twice
        several = "the data frame has several columns of one name: keep one of each"
        raise DataError(several) from None
    return list(frame.columns), lambda name: _series_to_array(name, frame[name])


def _series_to_array(name: str, series: Any) -> np.ndarray:
    """One column of a frame as an array; what a frame raises may quote cells, and stays here."""
    try:
        return _array_of(name, _cells_of(name, series))
    except DataError:
        raise
    except Exception:
        raise DataError(
            f"column {shown(name)} cannot be read: its cells are damaged, or of a foreign type"
        ) from None


def _cells_of(name: str, series: Any) -> Any:
    """The cells as NumPy has them, or one by one; empty ones are None or NaN, which `checking`
    refuses or takes as gaps."""
    import narwhals as nw

    if isinstance(series.dtype, nw.Decimal):
        series = series.cast(nw.Float64)
    elif isinstance(series.dtype, (nw.Categorical, nw.Enum)):
        series = series.cast(nw.String)
    if isinstance(series.dtype, (nw.List, nw.Array)):
        return series.to_list()
    try:
        return series.to_numpy()
    except Exception:  # types that NumPy has not, such as integers of 128 bits
        return series.to_list()


def _read_parquet(path: str, schema: Schema, *, ignore_undeclared: bool) -> dict[str, np.ndarray]:
    """The declared columns of a Parquet file; others are not read from disk."""
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            sources = sources_of(
                file.schema_arrow.names, schema, ignore_undeclared=ignore_undeclared
            )
            table = file.read(columns=[name for parts in sources.values() for name in parts])
    except OSError as error:  # first: Arrow's own input errors are OSErrors too
        raise _unreadable(path, error) from None
    except (pyarrow.ArrowException, UnicodeDecodeError):
        raise DataError(
            f"{shown(path)} is not a Parquet file that can be read: write it again"
        ) from None
    return read_columns(table, schema, ignore_undeclared=True)


def _read_csv(path: str, schema: Schema, *, ignore_undeclared: bool) -> dict[str, np.ndarray]:
    """The declared columns of a CSV file.

    Everything is read as text and converted here, column by column: a reader that guesses types
    from the first rows guesses wrong on later ones, and says so by quoting a cell.
    """
    import pyarrow
    from pyarrow import csv

    parse = csv.ParseOptions(newlines_in_values=True)
    try:
        with csv.open_csv(path, parse_options=parse) as reader:
            names = reader.schema.names
        sources = sources_of(names, schema, ignore_undeclared=ignore_undeclared)
        wanted = [name for parts in sources.values() for name in parts]
        convert = csv.ConvertOptions(
            include_columns=wanted, column_types={name: pyarrow.string() for name in wanted}
        )
        table = csv.read_csv(path, parse_options=parse, convert_options=convert)
    except OSError as error:
        raise _unreadable(path, error) from None
    except (pyarrow.ArrowException, UnicodeDecodeError):
        raise DataError(
            f"{shown(path)} is not a CSV file that can be read: expected UTF-8, a header row, "
            "commas, and as many cells in every row"
        ) from None
    found = {
        column.name: _gather(column, sources[column.name], partial(_parsed, column, table))
        for column in schema
    }
    return found | {name: np.asarray(table[name].to_numpy()) for name in _identifiers(schema)}


def _unreadable(path: str, error: OSError) -> DataError:
    """The error for a file that is not there, or not ours to read."""
    reason = "no such file" if isinstance(error, FileNotFoundError) else type(error).__name__
    return DataError(
        f"cannot read {shown(path)} ({reason}): check the path, and that the file is whole"
    )


def _parsed(column: Column, table: Any, name: str) -> np.ndarray:
    """A CSV column's cells as text (categories) or as numbers (everything else)."""
    import pyarrow
    import pyarrow.compute as pc

    cells = table[name]
    missing = pc.is_in(
        pc.utf8_lower(pc.utf8_trim_whitespace(cells)), value_set=pyarrow.array(_MISSING)
    )
    nothing = pyarrow.scalar(None, pyarrow.string())
    if column.categories is not None:
        if column.gaps:
            declared = pc.is_in(cells, value_set=pyarrow.array(column.categories))
            cells = pc.if_else(pc.and_not(missing, declared), nothing, cells)
        return np.asarray(cells.to_numpy())
    cells = pc.if_else(missing, nothing, pc.utf8_trim_whitespace(cells))
    if column.kind == "binary":
        for word, digit in _TRUE_OR_FALSE.items():
            cells = pc.if_else(pc.equal(pc.utf8_lower(cells), word), digit, cells)
    try:
        # Arrow reads "1.5" but not "+1.5".
        return np.asarray(pc.cast(pc.replace_substring_regex(cells, r"^\+", ""), pyarrow.float64()))
    except pyarrow.ArrowInvalid:
        raise DataError(
            f"column {shown(name)} is declared {column.kind} but holds text: correct the file, "
            "or declare it a category"
        ) from None
