"""Results on disk: a folder with one JSON file and one archive of arrays, under one digest; no
pickles.

The digest is over all bytes of all files, so that any damage to a saved result is noticed. It is no
signature: whoever can write the files can write a digest that fits them.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

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
    files = stored.files
    if stored.signature is not None:
        if stored.signature.digest != digest(files):
            raise ResultFileError("the result was changed since it was signed: sign it again")
        files[_SIGNATURE] = (json.dumps(stored.signature._asdict(), indent=2) + "\n").encode()
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for name, raw in files.items():
            (scratch / name).write_bytes(raw)
        (scratch / _DIGEST).write_text(f"{digest(files)}\n")
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
    names = [name for name in (_JSON, _ARRAYS, _SIGNATURE) if (folder / name).is_file()]
    files = {name: (folder / name).read_bytes() for name in names}
    kept = folder / _DIGEST
    if not kept.is_file() or kept.read_bytes() != f"{digest(files)}\n".encode():
        raise ResultFileError(f"{folder} was changed since it was written: fetch it again")
    groups: dict[str, dict[str, np.ndarray]] = {group: {} for group in GROUPS}
    with np.load(io.BytesIO(files[_ARRAYS]), allow_pickle=False) as arrays:
        for key in arrays.files:
            group, _, name = key.partition("/")
            groups[group][name] = arrays[key]
    try:
        signature = None
        if _SIGNATURE in files:
            signature = Signature(**json.loads(files.pop(_SIGNATURE)))
            if signature.digest != digest(files):
                raise ValueError("its signature is of another result")
        yield Stored(plain, groups, signature)
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
