"""Results on disk: a folder with one JSON file and one archive of arrays; no pickles."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from noisewise._files import check_writable, read_arrays, read_json, whole_folder
from noisewise._validate import NoisewiseError

_FORMAT = "noisewise-result"
_VERSION = 2
_JSON, _ARRAYS = "result.json", "arrays.npz"
GROUPS = ("draws", "noise_unaware", "trace")


class Stored(NamedTuple):
    """A result as files hold it."""

    plain: dict[str, Any]
    arrays: dict[str, dict[str, np.ndarray]]
    """By group and name."""


class ResultFileError(NoisewiseError):
    """A folder that cannot be read as a result, or written as one."""


def check_free(folder: Path, *, overwrite: bool = False) -> None:
    """Refuse a folder that exists or cannot be written, before anything is spent; overwrite only
    our own results."""
    check_writable(folder, folder=True)
    if not folder.exists():
        return
    if not overwrite:
        raise ResultFileError(
            f"{folder} exists already: choose another folder, or pass overwrite=True"
        )
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / _JSON).is_file()):
        raise ResultFileError(f"{folder} is not a noisewise result: not overwritten")


def save(stored: Stored, folder: Path, *, overwrite: bool = False) -> Path:
    """Whole or not at all: no half-written result is ever seen."""
    check_free(folder, overwrite=overwrite)
    with whole_folder(folder, overwrite=overwrite) as scratch:
        arrays = {f"{g}/{n}": a for g in GROUPS for n, a in stored.arrays[g].items()}
        np.savez_compressed(scratch / _ARRAYS, allow_pickle=False, **arrays)
        head = {"format": _FORMAT, "version": _VERSION}
        digest = {"arrays_sha256": _digest(scratch / _ARRAYS)}
        (scratch / _JSON).write_text(json.dumps(head | stored.plain | digest, indent=2) + "\n")
    return folder


@contextmanager
def reading(folder: Path) -> Iterator[Stored]:
    """What the folder holds; one clear line if it is no result, was changed, or does not fit."""
    plain = _read_json(folder)
    if plain.get("version") != _VERSION:
        raise ResultFileError(
            f"{folder} has result version {plain.get('version')!r}, this noisewise reads {_VERSION}"
        )
    archive = folder / _ARRAYS
    if not archive.is_file() or _digest(archive) != plain.get("arrays_sha256"):
        raise ResultFileError(f"{archive} is missing or was changed since it was written")
    groups: dict[str, dict[str, np.ndarray]] = {group: {} for group in GROUPS}
    try:
        for key, array in read_arrays(archive).items():
            group, _, name = key.partition("/")
            groups[group][name] = array
        yield Stored(plain, groups)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        reason = " ".join(str(error).split())
        raise ResultFileError(f"the result {folder} is damaged: {reason}") from error


def _read_json(folder: Path) -> dict[str, Any]:
    try:
        found = (folder / _JSON).is_file()
    except (OSError, ValueError):  # a name that is too long, or none at all
        found = False
    if not found:
        raise ResultFileError(f"{folder} holds no noisewise result ({_JSON} not readable)")
    plain = read_json(folder / _JSON, "result")
    if plain.get("format") != _FORMAT:
        raise ResultFileError(f"{folder / _JSON} was not written by noisewise")
    return plain


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
