"""A Parquet dataset: files that hold one table together, read a stretch of rows at a time.

Every file is read by its own types, row group after row group, and of its columns only those that
are declared. Arrow's own messages may quote cells: none of them is passed on.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from noisewise._hosts import stretch_of
from noisewise._validate import shown
from noisewise.data.errors import DataError
from noisewise.data.reading import read_columns, sources_of
from noisewise.data.schema import Schema

_STRETCH = 2**16
"""Rows that are read at a time."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Parquet files in the order of their paths, with what those say (``year=2020/part.parquet``).

    Args:
        fragments: Arrow's, one a file.
        schema: What is declared.
        first: Number of the first row that is read.
        end: And of the one after the last; None is the end of the files.
    """

    fragments: tuple[Any, ...]
    schema: Schema
    first: int = 0
    end: int | None = None

    @classmethod
    def find(
        cls, source: str | PathLike[str], schema: Schema, *, ignore_undeclared: bool
    ) -> Dataset:
        """The files, if all of them have the declared columns.

        Args:
            source: A folder, a file, or a pattern such as ``people/*.parquet``.
            schema: What is declared about their columns.
            ignore_undeclared: Leave columns out that the schema does not declare.
        """
        import pyarrow

        try:
            fragments = _fragments(source)
            for fragment in fragments:
                names = [*fragment.physical_schema.names, *_said_by_path(fragment)]
                sources_of(names, schema, ignore_undeclared=ignore_undeclared)
        except (OSError, pyarrow.ArrowException, UnicodeDecodeError) as error:
            raise _unreadable(source, error) from None
        return cls(fragments, schema)

    def identity(self) -> list[list[Any]]:
        """Paths, sizes and times of the files: another table has others."""
        found = []
        for fragment in self.fragments:
            about = Path(fragment.path).stat()
            found.append([str(fragment.path), about.st_size, about.st_mtime_ns])
        return found if self.end is None else [*found, [self.first, self.end]]

    def listing(self) -> str:
        """Names, sizes and numbers of rows of the files, which hosts compare: as private as they
        are."""
        found = []
        for fragment in self.fragments:
            path = Path(fragment.path)
            found.append(f"{path.name} {path.stat().st_size} {fragment.metadata.num_rows}")
        return "\n".join(found)

    @property
    def whole(self) -> int:
        """Rows of all files, as they themselves say: as private as they are."""
        return sum(fragment.metadata.num_rows for fragment in self.fragments)

    def count(self) -> int:
        """Rows that are read: as private as they are."""
        return (self.whole if self.end is None else self.end) - self.first

    def part(self, number: int, parts: int) -> Dataset:
        """A stretch of the rows: of the other files and row groups nothing is read.

        Args:
            number: Of the part.
            parts: How many there are.
        """
        first, end = stretch_of(self.whole, number, parts)
        return replace(self, first=first, end=end)

    def _own(self) -> Iterator[tuple[Any, int]]:
        """Files with rows that are read, of their row groups those that have some, and the number
        of the first row of these."""
        place = 0
        for fragment in self.fragments:
            about, end = fragment.metadata, self.end
            if end is None:
                yield fragment, place
                place += about.num_rows
                continue
            groups: list[int] = []
            begin = place
            for group in range(about.num_row_groups):
                after = place + about.row_group(group).num_rows
                if after > self.first and place < end:
                    begin = begin if groups else place
                    groups.append(group)
                place = after
            if groups:
                yield fragment.subset(row_group_ids=groups), begin

    def _cut(self, batch: Any, place: int) -> Any:
        """Those of a batch's rows that are read; ``place`` is the number of its first one."""
        if self.end is None:
            return batch
        start, end = max(0, self.first - place), min(batch.num_rows, self.end - place)
        return batch.slice(start, max(0, end - start))

    def stretches(self) -> Iterator[dict[str, np.ndarray]]:
        """The declared columns, as they come, some rows after the others."""
        import pyarrow

        for fragment, begin in self._own():
            place = begin
            try:
                for whole in _batches(fragment, self.schema):
                    batch = self._cut(whole, place)
                    place += whole.num_rows
                    if batch.num_rows:
                        table = pyarrow.Table.from_batches([batch])
                        for name, value in _said_by_path(fragment).items():
                            column = pyarrow.repeat(value, len(table))
                            table = table.append_column(name, column)
                        yield read_columns(table, self.schema, ignore_undeclared=True)
            except (OSError, pyarrow.ArrowException, UnicodeDecodeError) as error:
                raise _unreadable(fragment.path, error) from None


def _fragments(source: str | PathLike[str]) -> tuple[Any, ...]:
    from pyarrow import dataset

    text = str(source)
    files: str | list[str] = text
    if glob.has_magic(text) and not Path(text).exists():
        files = sorted(path for path in glob.glob(text, recursive=True) if Path(path).is_file())
    if not files:
        raise DataError(f"no file is called like {shown(text)}: check the pattern")
    opened = dataset.dataset(files, format="parquet", partitioning="hive")
    found = tuple(sorted(opened.get_fragments(), key=lambda fragment: str(fragment.path)))
    if not found:
        raise DataError(f"there is no Parquet file in {shown(text)}: name the folder of the rows")
    return found


def _said_by_path(fragment: Any) -> dict[str, Any]:
    """Columns whose value is in the path, unless the file has them too."""
    from pyarrow import dataset

    keys = dataset.get_partition_keys(fragment.partition_expression)
    return {n: value for n, value in keys.items() if n not in fragment.physical_schema.names}


def _batches(fragment: Any, schema: Schema) -> Iterator[Any]:
    from pyarrow import dataset

    there = fragment.physical_schema.names
    declared = {name for column in schema for name in (column.name, *column.entry_names)}
    options = dataset.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False)
    scanner = fragment.scanner(
        schema=fragment.physical_schema,
        columns=[name for name in there if name in declared],
        batch_size=_STRETCH,
        batch_readahead=1,
        fragment_readahead=1,
        use_threads=False,
        fragment_scan_options=options,
    )
    found: Iterator[Any] = scanner.to_batches()
    return found


def _unreadable(source: object, error: Exception) -> DataError:
    reason = "it is no Parquet file, or not whole"
    if isinstance(error, FileNotFoundError):
        reason = "no such file"
    elif isinstance(error, PermissionError):
        reason = "it is not yours to read"
    return DataError(f"cannot read {shown(str(source))} ({reason}): check the path, and the file")
