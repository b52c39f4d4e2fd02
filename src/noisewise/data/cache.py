"""A dataset's rows, checked and encoded once, in a folder that its owner named.

The folder is its owner's alone, and so are the files in it. A paper in it says what it holds: what
is not there, or not of noisewise's making, is never written over or deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from noisewise._hosts import Hosts
from noisewise._interrupts import before_any_end
from noisewise._validate import NoisewiseError, Progress, shown
from noisewise.data.checking import bounded, same_in_all, single_value
from noisewise.data.dataset import Dataset
from noisewise.data.errors import DataError
from noisewise.data.files import ColumnFiles, ColumnWriter, Layout, cannot_write

_ABOUT = "noisewise-cache.json"
_FORMAT = "noisewise-cache 1"
_UNITS = {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "": 1}
_LEAST = 2**30


@dataclass
class _Fate:
    """What becomes of the folder: nothing, unless it was filled or used."""

    delete: bool


class Cache:
    """The folder, held against other processes until it is closed.

    Args:
        folder: New, empty, or left by an earlier run.
        keep: Leave it there afterwards.
    """

    def __init__(self, folder: str | PathLike[str], *, keep: bool) -> None:
        self.folder = Path(folder)
        self._keep = keep
        self._fate = _Fate(delete=False)
        held = _hold(self.folder)
        self.close = weakref.finalize(self, _leave, self.folder, held, self._fate)
        """Lets go of the folder, and deletes it unless it is to be kept; as the end of the process
        does, unless it is killed."""
        before_any_end(self.close)

    def fill(
        self,
        dataset: Dataset,
        *,
        clamp: bool,
        allow_constant: bool,
        progress: Progress | None = None,
    ) -> ColumnFiles:
        """The dataset's columns as `Table.rows` holds them, unless they are there already.

        Args:
            dataset: The rows.
            clamp: As for `Table`.
            allow_constant: As for `Table`.
            progress: Called with percents.
        """
        identity = [dataset.schema.to_dict(), clamp, allow_constant, dataset.identity()]
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        about = _read(self.folder)
        if about is not None and about["columns"]:
            if about["of"] != digest:
                raise NoisewiseError(
                    f"the folder {shown(str(self.folder))} holds the rows of another table, or "
                    "checked otherwise: delete it, or name another one"
                )
            self._fate.delete = not self._keep
            layouts = {name: Layout(dtype, tuple(shape)) for name, dtype, shape in about["columns"]}
            return ColumnFiles(self.folder, layouts)
        self._fate.delete = True
        _empty(self.folder)
        _write(self.folder, {"format": _FORMAT, "of": digest, "columns": []})
        files = self._encode(dataset, clamp, allow_constant, progress)
        columns = [[name, *layout] for name, layout in files.layouts.items()]
        _write(self.folder, {"format": _FORMAT, "of": digest, "columns": columns})
        self._fate.delete = not self._keep
        return files

    def _encode(
        self, dataset: Dataset, clamp: bool, allow_constant: bool, progress: Progress | None
    ) -> ColumnFiles:
        """Checked and written, stretch by stretch."""
        schema, total = dataset.schema, max(1, dataset.count())
        if progress is not None:
            progress(0, 100)
        first: Mapping[str, np.ndarray] = {}
        varying: set[str] = set()
        with ColumnWriter(self.folder) as writer:
            for raw in dataset.stretches():
                arrays = {c.name: bounded(c, raw[c.name], clamp=clamp) for c in schema}
                first = first or {name: values[:1] for name, values in arrays.items()}
                varying |= {
                    column.name
                    for column in schema
                    if column.name not in varying
                    and not same_in_all(column, arrays[column.name], first[column.name])
                }
                writer.append(arrays)
                if progress is not None:
                    progress(100 * writer.records // total, 100)
        if dataset.whole < 2 or not writer.records:
            raise DataError("the table has fewer than two rows: a private analysis needs many")
        if dataset.end is not None:
            varying |= _varying_over_hosts(schema.names, first, varying)
        for name in schema.names:
            if not allow_constant and name not in varying:
                raise single_value(name)
        return writer.files()


def _varying_over_hosts(
    names: Sequence[str], first: Mapping[str, np.ndarray], varying: set[str]
) -> set[str]:
    """Columns that have several values, on some host or from one host to another."""
    own = []
    for name in names:
        digest = hashlib.sha256(np.ascontiguousarray(first[name]).tobytes()).digest()
        own.append([int(name in varying), int.from_bytes(digest[:7], "big")])
    every = Hosts.joined().gathered(np.array(own))
    found = every[:, :, 0].any(axis=0) | (every[:, :, 1] != every[:1, :, 1]).any(axis=0)
    return {name for name, several in zip(names, found, strict=True) if several}


def bytes_of(memory: str | int) -> int:
    """An amount of memory, such as ``"2GiB"``, in bytes.

    Args:
        memory: As text with KiB, MiB, GiB or TiB, or as a number of bytes.

    >>> bytes_of("2GiB") == bytes_of(2**31) == bytes_of("2048 MiB")
    True
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]iB|)", str(memory).strip(), re.IGNORECASE)
    if found is None:
        raise NoisewiseError(f"memory must be an amount such as '2GiB', got {shown(memory)}")
    size = int(float(found[1]) * _UNITS[found[2].upper()])
    if size < _LEAST:
        raise NoisewiseError(f"memory must be 1GiB at least, got {shown(memory)}")
    return size


def _hold(folder: Path) -> int | None:
    """The folder for its owner alone, locked where the system can."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        strange = any(folder.iterdir()) and not (folder / _ABOUT).exists()
    except OSError as error:
        raise cannot_write(folder, error) from None
    if strange:
        raise NoisewiseError(
            f"the folder {shown(str(folder))} holds other things than noisewise's rows: name a new "
            "one"
        )
    folder.chmod(0o700)
    try:
        import fcntl
    except ImportError:  # not on Windows
        return None
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        raise NoisewiseError(
            f"the folder {shown(str(folder))} is in use by another fit: name another one"
        ) from None
    return held


def _leave(folder: Path, held: int | None, fate: _Fate) -> None:
    if fate.delete:
        _empty(folder)
        with suppress(OSError):
            (folder / _ABOUT).unlink(missing_ok=True)
            folder.rmdir()
    if held is not None:
        os.close(held)


def _read(folder: Path) -> dict[str, Any] | None:
    """What the folder holds, as its paper says; None where there is none that can be read."""
    try:
        about = json.loads((folder / _ABOUT).read_text())
    except (OSError, ValueError):
        return None
    return about if isinstance(about, dict) and about.get("format") == _FORMAT else None


def _write(folder: Path, about: dict[str, Any]) -> None:
    try:
        scratch = folder / f".{_ABOUT}"
        scratch.write_text(json.dumps(about))
        scratch.chmod(0o600)
        scratch.replace(folder / _ABOUT)
    except OSError as error:
        raise cannot_write(folder, error) from None


def _empty(folder: Path) -> None:
    """Without columns, whole or not."""
    for path in folder.glob("column-*.bin"):
        path.unlink(missing_ok=True)
    for path in folder.glob("prepared-*"):
        shutil.rmtree(path, ignore_errors=True)
    (folder / f".{_ABOUT}").unlink(missing_ok=True)
