"""Results on disk: a folder with one JSON file and one archive of arrays, under one digest; no
pickles.

The digest is over all bytes of all files, so that any damage to a saved result is noticed. It is no
signature: whoever can write the files can write a digest that fits them.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from noisewise._files import check_writable, read_arrays, read_json, whole_folder
from noisewise._validate import NoisewiseError
from noisewise.result.signature import Signature

_FORMAT = "noisewise-result"
_VERSION = 3
_JSON, _ARRAYS, _SIGNATURE = "result.json", "arrays.npz", "signature.json"
_DIGEST = "digest.txt"
GROUPS = ("draws", "noise_unaware", "trace")


class Stored(NamedTuple):
    """A result as files hold it."""

    plain: dict[str, Any]
    arrays: dict[str, dict[str, np.ndarray]]
    """By group and name."""
    signature: Signature | None = None

    @property
    def files(self) -> dict[str, bytes]:
        """The same bytes wherever and whenever it is saved, but for the signature."""
        plain = {"format": _FORMAT, "version": _VERSION} | self.plain
        arrays = {f"{g}/{n}": a for g in GROUPS for n, a in self.arrays[g].items()}
        text = json.dumps(plain, indent=2) + "\n"
        return {_JSON: text.encode(), _ARRAYS: _archive(arrays)}


class ResultFileError(NoisewiseError):
    """A folder that cannot be read as a result, or written as one."""


def check_free(folder: Path, *, overwrite: bool = False) -> None:
    """Refuse a folder that exists or cannot be written, before anything is spent; overwrite only
    our own results.

    Args:
        folder: Where a result is to be written.
        overwrite: Accept one of our own results in its place.
    """
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
    files = stored.files
    if stored.signature is not None:
        if stored.signature.digest != digest(files):
            raise ResultFileError("the result was changed since it was signed: sign it again")
        files[_SIGNATURE] = (json.dumps(stored.signature._asdict(), indent=2) + "\n").encode()
    with whole_folder(folder, overwrite=overwrite) as scratch:
        for name, raw in files.items():
            (scratch / name).write_bytes(raw)
        (scratch / _DIGEST).write_text(f"{digest(files)}\n")
    return folder


@contextmanager
def reading(folder: Path) -> Iterator[Stored]:
    """What the folder holds; one clear line if it is no result, was changed, or does not fit."""
    plain = _read_json(folder)
    if plain.get("version") != _VERSION:
        raise ResultFileError(
            f"{folder} has result version {plain.get('version')!r}, this noisewise reads {_VERSION}"
        )
    names = [name for name in (_JSON, _ARRAYS, _SIGNATURE) if (folder / name).is_file()]
    files = {name: (folder / name).read_bytes() for name in names}
    kept = folder / _DIGEST
    if not kept.is_file() or kept.read_bytes() != f"{digest(files)}\n".encode():
        raise ResultFileError(f"{folder} was changed since it was written: fetch it again")
    groups: dict[str, dict[str, np.ndarray]] = {group: {} for group in GROUPS}
    try:
        for key, array in read_arrays(folder / _ARRAYS).items():
            group, _, name = key.partition("/")
            groups[group][name] = array
        signature = None
        if _SIGNATURE in files:
            signature = Signature(**json.loads(files.pop(_SIGNATURE)))
            if signature.digest != digest(files):
                raise ValueError("its signature is of another result")
        yield Stored(plain, groups, signature)
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


def digest(files: dict[str, bytes]) -> str:
    """Over the bytes of all files, each under its name."""
    whole = hashlib.sha256()
    for name, raw in files.items():
        whole.update(f"{name} {hashlib.sha256(raw).hexdigest()}\n".encode())
    return whole.hexdigest()


def _archive(arrays: dict[str, np.ndarray]) -> bytes:
    """A NumPy archive whose bytes follow from the arrays alone: no date, nothing compressed."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, array in arrays.items():
            part, about = io.BytesIO(), zipfile.ZipInfo(f"{name}.npy")
            about.create_system = 3  # else it would say where it was written
            np.lib.format.write_array(part, np.asarray(array, order="C"), allow_pickle=False)
            archive.writestr(about, part.getvalue())
    return whole.getvalue()
