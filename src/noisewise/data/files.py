"""Columns of records in files: written stretch by stretch, read by stretches or by numbers.

A file holds one column, record after record, and nothing else. What is read is held in memory only
as long as it is used: a map of a whole file would count as this process's memory.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from noisewise._files import OutputError
from noisewise._validate import shown
from noisewise.data.private import Rows, record_count

_WINDOW = 2**27
"""Bytes of a file that are mapped at a time."""
_DONE_WITH = getattr(mmap, "MADV_DONTNEED", None)


class Layout(NamedTuple):
    """How a column's records lie in its file."""

    dtype: str
    shape: tuple[int, ...]
    """Of one record."""

    @property
    def record_bytes(self) -> int:
        """What a record takes."""
        return np.dtype(self.dtype).itemsize * math.prod(self.shape)


class ColumnFiles:
    """Columns in a folder, to be read.

    Args:
        folder: Where they lie.
        layouts: How, by name, in the order of the files' numbers.
    """

    def __init__(self, folder: Path, layouts: Mapping[str, Layout]) -> None:
        self.folder = folder
        self.layouts = dict(layouts)

    def __len__(self) -> int:
        (layout, *_) = self.layouts.values()
        return os.path.getsize(_place(self.folder, 0)) // layout.record_bytes

    @property
    def record_bytes(self) -> int:
        """What a record takes in all files together."""
        return sum(layout.record_bytes for layout in self.layouts.values())

    def stretch(self, first: int, count: int) -> Rows:
        """Records one after another, fewer at the end.

        Args:
            first: Number of the first one.
            count: How many.
        """
        found = {}
        for number, (name, layout) in enumerate(self.layouts.items()):
            values = np.fromfile(
                _place(self.folder, number),
                dtype=layout.dtype,
                count=count * math.prod(layout.shape),
                offset=first * layout.record_bytes,
            )
            found[name] = values.reshape(-1, *layout.shape)
        return found

    def taken(self, batches: list[np.ndarray], room: int) -> Rows:
        """Records by their numbers, batch after batch; zeros after the last one.

        Args:
            batches: Numbers of records, those of a batch in order.
            room: Length of the columns.
        """
        return {
            name: _taken(_place(self.folder, number), layout, batches, room)
            for number, (name, layout) in enumerate(self.layouts.items())
        }

    def remove(self) -> None:
        """Delete the files; the folder stays."""
        for number in range(len(self.layouts)):
            _place(self.folder, number).unlink(missing_ok=True)


class ColumnWriter:
    """Columns of a new table, written stretch by stretch: `with` closes the files.

    Args:
        folder: Where they go: it is there, and holds no columns yet.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._layouts: dict[str, Layout] = {}
        self._files: list[Any] = []
        self.records = 0
        """Written so far."""

    def append(self, rows: Mapping[str, np.ndarray]) -> None:
        """Records after those that were written before.

        Args:
            rows: The same columns every time, in the same types.
        """
        try:
            if not self._layouts:
                self._begin(rows)
            for (name, layout), file in zip(self._layouts.items(), self._files, strict=True):
                values = np.ascontiguousarray(rows[name])
                assert Layout(values.dtype.str, values.shape[1:]) == layout
                file.write(values.data.cast("B") if values.size else b"")
        except OSError as error:
            raise cannot_write(self._folder, error) from None
        self.records += record_count(rows)

    def _begin(self, rows: Mapping[str, np.ndarray]) -> None:
        for number, (name, values) in enumerate(rows.items()):
            self._layouts[name] = Layout(values.dtype.str, values.shape[1:])
            handle = os.open(
                _place(self._folder, number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600
            )
            self._files.append(os.fdopen(handle, "wb"))

    def files(self) -> ColumnFiles:
        """What was written, once the files are closed."""
        return ColumnFiles(self._folder, self._layouts)

    def __enter__(self) -> ColumnWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            for file in self._files:
                file.close()
        except OSError as fault:
            raise cannot_write(self._folder, fault) from None


def cannot_write(folder: Path, error: OSError) -> OutputError:
    """The error for a disk that is full, or not ours.

    Args:
        folder: On that disk.
        error: What the system said.
    """
    return OutputError(
        f"cannot write rows into the folder {shown(str(folder))} ({error.strerror or error}): "
        "choose another place for it"
    )


def _place(folder: Path, number: int) -> Path:
    return folder / f"column-{number}.bin"


def _taken(path: Path, layout: Layout, batches: list[np.ndarray], room: int) -> np.ndarray:
    """One column's records; a window of its file after the other is mapped."""
    found = np.zeros((room, *layout.shape), layout.dtype)
    window = max(1, _WINDOW // layout.record_bytes)
    start = 0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        whole = np.frombuffer(mapped, layout.dtype).reshape(-1, *layout.shape)
        for numbers in batches:
            ends = np.searchsorted(numbers, np.arange(window, len(whole) + window, window))
            first = 0
            for end in ends:
                if end > first:
                    out = found[start + first : start + end]
                    np.take(whole, numbers[first:end], axis=0, out=out, mode="clip")
                    if _DONE_WITH is not None:
                        mapped.madvise(_DONE_WITH)
                first = end
            start += len(numbers)
        del whole  # it holds the map open
    return found
