"""Results on disk: a folder with one JSON file and one archive of arrays; no pickles."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

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
    """Refuse a folder that exists, before anything is spent; overwrite only our own results.

    Args:
        folder: Where a result is to be written.
        overwrite: Accept one of our own results in its place.
    """
    if not folder.exists():
        return
    if not overwrite:
        raise ResultFileError(
            f"{folder} exists already: choose another folder, or pass overwrite=True"
        )
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / _JSON).is_file()):
        raise ResultFileError(f"{folder} is not a noisewise result: not overwritten")


def save(stored: Stored, folder: Path, *, overwrite: bool = False) -> Path:
    """Write into a temporary sibling and rename, so that no half-written result is ever seen."""
    check_free(folder, overwrite=overwrite)
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        arrays = {f"{g}/{n}": a for g in GROUPS for n, a in stored.arrays[g].items()}
        np.savez_compressed(scratch / _ARRAYS, allow_pickle=False, **arrays)
        head = {"format": _FORMAT, "version": _VERSION}
        digest = {"arrays_sha256": _digest(scratch / _ARRAYS)}
        (scratch / _JSON).write_text(json.dumps(head | stored.plain | digest, indent=2) + "\n")
        scratch.chmod(0o755)
        if folder.exists():
            shutil.rmtree(folder)
        scratch.rename(folder)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
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
    with np.load(archive, allow_pickle=False) as arrays:
        for key in arrays.files:
            group, _, name = key.partition("/")
            groups[group][name] = arrays[key]
    try:
        yield Stored(plain, groups)
    except (KeyError, TypeError, ValueError) as error:
        raise ResultFileError(f"{folder / _JSON} is damaged: {error}") from error


def _read_json(folder: Path) -> dict[str, Any]:
    try:
        plain = json.loads((folder / _JSON).read_text())
    except OSError as error:
        raise ResultFileError(
            f"{folder} holds no noisewise result ({_JSON} not readable)"
        ) from error
    except ValueError as error:
        raise ResultFileError(f"{folder / _JSON} is not valid JSON") from error
    if not isinstance(plain, dict) or plain.get("format") != _FORMAT:
        raise ResultFileError(f"{folder / _JSON} was not written by noisewise")
    return plain


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
