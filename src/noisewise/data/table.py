"""A table: rows that keep to a schema. The one object here that holds people's data."""

from __future__ import annotations

import copy
import hashlib
import secrets
from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np

from noisewise._hosts import Hosts
from noisewise._validate import Progress, shown
from noisewise.data.cache import Cache, bytes_of
from noisewise.data.checking import bounded, same_in_all, single_value
from noisewise.data.dataset import Dataset
from noisewise.data.errors import DataError, SchemaError
from noisewise.data.private import SIZE, PrivateRows, Share, UnitLayout, record_count
from noisewise.data.reading import read_columns, read_file
from noisewise.data.schema import Schema
from noisewise.data.stored import StoredRows
from noisewise.data.units import checked_keep, lay_out

_NAME_ALL = "every host names the whole table, and noisewise shares it out"


class Table:
    """Rows, checked against a schema and held as bounded arrays.

    Args:
        data: A pandas, polars or pyarrow table, a dict of arrays, or a structured NumPy array. A
            vector column is an `(n, p)` array in a dict, and a column of lists, or `p` columns
            `x[0]`, `x[1]`, ..., in a frame.
        schema: What is publicly known. Every column of the data must be declared.
        clamp: Move values outside the declared bounds to the nearer bound, instead of refusing the
            table. How many were moved is not reported anywhere.
        ignore_undeclared: Drop columns that the schema does not declare, instead of refusing the
            table.
        allow_constant: Accept columns that hold one single value in every row.
        keep: Where the schema declares a `[unit]`: keep ``"first"`` or ``"random"`` rows of units
            that have more than its ``max_rows``, instead of refusing the table. **This changes the
            data**: what is estimated is about the rows that are kept.

    Raises:
        DataError: The table does not keep to the schema. The message names the column and the
            declaration, and never a value.

    >>> from noisewise.data import Column
    >>> age = Column(name="age", kind="real", bounds=(0, 100))
    >>> schema = Schema((age, Column(name="ill", kind="binary")))
    >>> table = Table({"age": [31.5, 64.0, 47.2], "ill": [False, True, False]}, schema)
    >>> table
    Table(age: real in [0, 100]; ill: binary)
    >>> table.rows
    PrivateRows(age, ill)
    """

    def __init__(
        self,
        data: Any,
        schema: Schema,
        *,
        clamp: bool = False,
        ignore_undeclared: bool = False,
        allow_constant: bool = False,
        keep: str | None = None,
    ) -> None:
        raw = read_columns(data, _checked_schema(schema), ignore_undeclared=ignore_undeclared)
        self._fill(raw, schema, clamp=clamp, coded=False, allow_constant=allow_constant, keep=keep)

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, Any],
        schema: Schema,
        *,
        allow_constant: bool = False,
        keep: str | None = None,
    ) -> Table:
        """A table from arrays as `Table.rows` holds them: category columns as integer codes.

        This is how simulated arrays become a Table:
        `Table.from_arrays(schema.simulate(rng, n), schema)`.

        Args:
            arrays: By column.
            schema: What is declared about them.
            allow_constant: As for `Table`.
            keep: As for `Table`.
        """
        table = cls.__new__(cls)
        raw = read_columns(dict(arrays), _checked_schema(schema), ignore_undeclared=False)
        table._fill(raw, schema, clamp=False, coded=True, allow_constant=allow_constant, keep=keep)
        return table

    @classmethod
    def read(
        cls,
        path: str | PathLike[str],
        schema: Schema,
        *,
        clamp: bool = False,
        ignore_undeclared: bool = False,
        allow_constant: bool = False,
        keep: str | None = None,
    ) -> Table:
        """Read a `.csv`, `.csv.gz` or `.parquet` file.

        Args:
            path: Of the file.
            schema: What is declared about its columns.
            clamp: As for `Table`.
            ignore_undeclared: Leave columns out that the schema does not declare.
            allow_constant: As for `Table`.
            keep: As for `Table`.
        """
        raw = read_file(path, _checked_schema(schema), ignore_undeclared=ignore_undeclared)
        return cls(raw, schema, clamp=clamp, allow_constant=allow_constant, keep=keep)

    @classmethod
    def open(
        cls,
        source: str | PathLike[str],
        schema: Schema,
        *,
        cache: str | PathLike[str],
        memory: str | int = "4GiB",
        keep_cache: bool = False,
        clamp: bool = False,
        ignore_undeclared: bool = False,
        allow_constant: bool = False,
        progress: Progress | None = None,
    ) -> Table:
        """A table of any number of rows, from Parquet files, that a fit reads from disk.

        The rows are checked and written once, as numbers of the declared types, into the folder
        ``cache``: it holds all of them, so that whatever protects the files has to protect it, too.
        It is made for its owner alone, and deleted by `close`, at the end of a ``with`` block, or
        when the process ends. A process that is killed leaves it there.

        Where several hosts have joined (`noisewise.join_hosts`), every one names all files, reads
        and writes its own part of the rows, and ``cache`` gets the host's number at its end.

        Args:
            source: A folder of Parquet files, one file, or a pattern such as ``people/*.parquet``.
            schema: What is declared about their columns.
            cache: A folder to make, on a disk with room for the encoded rows twice.
            memory: About how much memory a fit may take, 1GiB at least.
            keep_cache: Leave ``cache`` there, for further fits to the same files: opened with the
                same folder, they have not to be encoded again.
            clamp: As for `Table`.
            ignore_undeclared: Leave columns out that the schema does not declare.
            allow_constant: As for `Table`.
            progress: Called with percents, as rows are written.
        """
        limit = bytes_of(memory)
        if _checked_schema(schema).unit is not None:
            raise SchemaError(
                "a table on disk protects one row, and the schema declares a [unit]: read it into "
                "memory with Table.read"
            )
        found = Dataset.find(source, schema, ignore_undeclared=ignore_undeclared)
        share, hosts = None, Hosts.joined()
        if hosts.several:
            hosts.refuse_unlike({"files of the table": found.listing()}, _NAME_ALL)
            found = found.part(hosts.index, hosts.count)
            share = Share(found.first, found.whole)
            cache = f"{cache}-{hosts.index}"
        table = cls.__new__(cls)
        table._schema = schema
        table._cache = Cache(cache, keep=keep_cache)
        try:
            files = table._cache.fill(
                found, clamp=clamp, allow_constant=allow_constant, progress=progress
            )
        except BaseException:
            table.close()
            raise
        table._rows = StoredRows(files, limit, (), share)
        return table

    def shared_by(self, hosts: Hosts) -> Table:
        """This host's part of a table that all hosts hold; one that was opened from files is that
        already.

        Args:
            hosts: Who fits together.
        """
        if not hosts.several or self._rows.share is not None:
            return self
        key = hosts.number_of_first(lambda: secrets.randbits(128)).to_bytes(16, "big")
        digest = hashlib.blake2b(key=key)  # a key of one use: it says nothing to anybody else
        for rows in self._rows.unsafe_passes():
            for name, column in sorted(rows.items()):
                digest.update(f"{name} {column.dtype.str} {column.shape}".encode())
                digest.update(np.ascontiguousarray(column).tobytes())
        hosts.refuse_unlike({"table": digest.hexdigest()}, _NAME_ALL)
        part = copy.copy(self)
        part._rows = self._rows.part(hosts.index, hosts.count)
        return part

    def close(self) -> None:
        """Let go of a table that lies on disk, and delete its folder unless it is to be kept; one
        in memory stays as it is."""
        if self._cache is not None:
            self._cache.close()

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fill(
        self,
        raw: Mapping[str, np.ndarray],
        schema: Schema,
        *,
        clamp: bool,
        coded: bool,
        allow_constant: bool,
        keep: str | None,
    ) -> None:
        """Check the columns one by one and keep them."""
        keep = checked_keep(keep, schema.unit)
        _check_lengths(raw)
        arrays = {c.name: bounded(c, raw[c.name], clamp=clamp, coded=coded) for c in schema}
        for name, values in arrays.items():
            if not allow_constant and same_in_all(schema[name], values, values[:1]):
                raise single_value(name)
        self._schema = schema
        self._rows = PrivateRows(arrays)
        self._cache: Cache | None = None
        if schema.unit is not None:
            layout = lay_out(np.asarray(raw[schema.unit.column]), schema.unit, keep)
            self._rows = PrivateRows(arrays | {SIZE: _sizes(layout, raw)}, layout)

    @property
    def schema(self) -> Schema:
        """What was declared; public."""
        return self._schema

    @property
    def rows(self) -> PrivateRows:
        """The rows, closed: only the mechanism and the engine may open them.

        Inside are read-only arrays by column name: real float64 `(n, *shape)`, count int64, binary
        int8, category int32 codes in the order of the declared categories. Where cells may be
        missing, gaps are NaN in real columns and -1 in others.
        """
        return self._rows

    @property
    def memory(self) -> int | None:
        """Bytes that a fit may take of a table on disk; None of one in memory."""
        return self._rows.memory if isinstance(self._rows, StoredRows) else None

    def own_columns(self, columns: Mapping[str, np.ndarray]) -> list[str]:
        """Names of those columns that are this table's own, cell by cell: to refuse them as a
        public sample.

        Args:
            columns: Of the sample, by name.
        """
        share = self._rows.share
        same, first = set(columns), 0 if share is None else share.first
        for own in self._rows.unsafe_passes():
            here = slice(first, first + record_count(own))
            same = {n for n in same if n in own and _same(columns[n][here], own[n])}
            first = here.stop
            if not same:
                break
        whole = first if share is None else share.whole
        return [name for name in columns if name in same and len(columns[name]) == whole]

    def __len__(self) -> int:
        """The number of rows, or of units where the schema declares such; not public unless the
        schema says so."""
        return self._rows.true_count

    def __repr__(self) -> str:
        columns = "; ".join(column.summary() for column in self._schema)
        unit = "" if self._schema.unit is None else f"; protects {self._schema.unit.words}"
        return f"Table({columns}{unit})"


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    """Cell by cell, gaps included."""
    floats = one.dtype.kind == other.dtype.kind == "f"
    return np.array_equal(one, other, equal_nan=floats)


def _sizes(layout: UnitLayout, raw: Mapping[str, np.ndarray]) -> np.ndarray:
    """On every unit's first row how many of its rows are kept; 0 on others."""
    found = np.zeros(len(next(iter(raw.values()))), np.int64)
    found[layout.places[:, 0]] = layout.filled.sum(axis=1)
    return found


def _checked_schema(schema: object) -> Schema:
    """The schema, if it is one: a path or a dict in its place is a likely slip."""
    if not isinstance(schema, Schema):
        raise TypeError(
            f"schema must be a Schema, got {type(schema).__name__}: "
            "use Schema.from_toml or Schema.from_dict"
        )
    return schema


def _check_lengths(raw: Mapping[str, np.ndarray]) -> None:
    """Columns of one length, and at least two rows: said without saying how many there are."""
    lengths = {name: values.shape[0] if values.ndim else -1 for name, values in raw.items()}
    (first, length), *others = lengths.items()
    for name, other in others:
        if other != length:
            raise DataError(
                f"columns {shown(first)} and {shown(name)} are not equally long: "
                "every column needs a value in each row"
            )
    if 0 <= length < 2:
        raise DataError("the table has fewer than two rows: a private analysis needs many")
