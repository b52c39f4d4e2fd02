"""Files and folders that are written whole or not at all, where writing was tried beforehand."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR
from typing import Any

from noisewise._validate import NoisewiseError, listed, shown

_PROBE_BYTES = 2**22
"""As much as a usual result takes: a disk with less room is as good as full."""


_LONGEST = 40
_LARGEST_TEXT = 2**26
_LEAST_LIMIT, _EXPANSION = 2**28, 20
"""Bytes that an archive may expand to: so many at least, or so many times its own."""


class OutputError(NoisewiseError):
    """An output that cannot be written."""


def check_writable(path: str | Path, *, folder: bool = False, room: int = _PROBE_BYTES) -> None:
    """Refuse an output that cannot be written, before anything is spent on it: by writing there.

    Args:
        path: Of the output. Folders above it that are missing can be made, and are not left behind.
        folder: Whether it will be a folder.
        room: Bytes that the disk must have left.
    """
    path, made = Path(path), []
    try:
        with suppress(FileNotFoundError):
            if S_ISDIR(path.lstat().st_mode) and not folder:
                raise OutputError(f"{path} is a folder: name a file in it")
        for above in [*reversed(path.parents)]:
            if not above.exists():
                above.mkdir()
                made.append(above)
        with _scratch(path, folder) as scratch, open(_inside(scratch, folder), "wb") as file:
            file.write(bytes(room))
            file.flush()
            os.fsync(file.fileno())
    except (OSError, ValueError) as error:
        if isinstance(error, OutputError):
            raise
        raise _unwritable(path, error) from None
    finally:
        for above in reversed(made):
            with suppress(OSError):
                above.rmdir()


def _inside(scratch: Path, folder: bool) -> Path:
    return scratch / "probe" if folder else scratch


def _unwritable(path: Path, error: Exception) -> OutputError:
    reason = getattr(error, "strerror", None) or error
    return OutputError(f"cannot write {shown(str(path))} ({reason}): choose another place for it")


@contextmanager
def _scratch(path: Path, folder: bool) -> Iterator[Path]:
    """A new place beside ``path``, which is gone afterwards unless it was moved."""
    prefix = f".{path.name[:_LONGEST]}-"
    if folder:
        scratch = Path(tempfile.mkdtemp(prefix=prefix, dir=path.parent))
    else:
        handle, name = tempfile.mkstemp(prefix=prefix, dir=path.parent)
        os.close(handle)
        scratch = Path(name)
    try:
        yield scratch
    finally:
        if folder:
            shutil.rmtree(scratch, ignore_errors=True)
        else:
            scratch.unlink(missing_ok=True)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A scratch file to write; once that went well and lies on the disk it becomes ``path``."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _scratch(path, folder=False) as scratch:
            yield scratch
            _flush(scratch)
            scratch.chmod(0o644)
            scratch.replace(path)
            _flush(path.parent)
    except OSError as error:
        raise _unwritable(path, error) from error


@contextmanager
def whole_folder(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A scratch folder to fill; once that went well and lies on the disk it becomes ``path``.

    With ``overwrite``, what was at ``path`` stays until then.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _scratch(path, folder=True) as scratch:
            yield scratch
            for file in scratch.rglob("*"):
                _flush(file)
            _flush(scratch)
            scratch.chmod(0o755)
            with _scratch(path, folder=True) as aside:
                _swap(scratch, path, aside / "old", overwrite)
            _flush(path.parent)
    except OSError as error:
        raise _unwritable(path, error) from error


def _swap(new: Path, path: Path, aside: Path, overwrite: bool) -> None:
    """The new folder in place of the old one, which comes back if that fails."""
    moved = False
    if overwrite:
        with suppress(FileNotFoundError):
            path.rename(aside)
            moved = True
    try:
        new.rename(path)
    except OSError:
        if moved:
            with suppress(OSError):  # another process was quicker: its folder stays
                aside.rename(path)
        raise


def _flush(path: Path) -> None:
    """Onto the disk, so that no crash afterwards leaves a name without its content."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:  # some file systems cannot flush folders
        if not path.is_dir():
            raise
    finally:
        os.close(handle)


def write_or_rescue(write: Callable[[Path], Path], goal: Path) -> Path:
    """Write to ``goal``; if that fails, to some other place, which the error names.

    What was made cost privacy or hours: it must not be lost because a disk filled up meanwhile.

    Args:
        write: Writes to the path that it is given.
        goal: Where it should go.
    """
    try:
        return write(goal)
    except OutputError as error:
        found = error
    name = "rescued" + goal.suffix
    for place in (goal.parent, Path.cwd(), Path.home(), Path(tempfile.gettempdir())):
        saved = _written_into(place, name, write)
        if saved is not None:
            raise OutputError(f"{found}; it was saved to {saved}") from found
    raise OutputError(f"{found}; nor could it be written to any other place") from found


def _written_into(place: Path, name: str, write: Callable[[Path], Path]) -> Path | None:
    """Into a new folder in this place; None where that fails as well."""
    with suppress(OSError, NoisewiseError):
        free = Path(tempfile.mkdtemp(prefix="noisewise-", dir=place))
        with suppress(OSError, NoisewiseError):
            return write(free / name)
        shutil.rmtree(free, ignore_errors=True)
    return None


def read_text(path: str | os.PathLike[str], what: str) -> str:
    """A small text file of the user's; one line if it cannot be read.

    Args:
        path: Of the file.
        what: It is, for the message.
    """
    try:
        if os.path.getsize(path) > _LARGEST_TEXT:
            raise NoisewiseError(f"{shown(str(path))} is too large to be a {what}")
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
    raise NoisewiseError(f"cannot read the {what} {shown(str(path))} ({reason})") from None


def read_toml(path: str | os.PathLike[str], what: str) -> dict[str, Any]:
    """A TOML file of the user's; one line if it is none."""
    text = read_text(path, what)
    try:
        return tomllib.loads(text)
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError as error:
        reason = " ".join(str(error).split())
    raise NoisewiseError(f"the {what} {shown(str(path))} is not valid TOML: {reason}") from None


def read_json(path: str | os.PathLike[str], what: str) -> dict[str, Any]:
    """A JSON file that holds an object; one line if it does not."""
    text = read_text(path, what)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise NoisewiseError(f"{path} is not valid JSON") from None
    if not isinstance(found, dict):
        raise NoisewiseError(f"{path} is not what noisewise writes")
    return found


def read_arrays(path: str | Path) -> dict[str, Any]:
    """The arrays of an ``.npz`` file, none of which is larger than the file can honestly hold.

    An archive may be damaged, foreign, or made to expand without end: whatever it is, one line.
    """
    import numpy as np

    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > max(_LEAST_LIMIT, _EXPANSION * os.path.getsize(path)):
            raise NoisewiseError(f"it would expand to {size} bytes")
        with np.load(path, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
        strange = [name for name, array in found.items() if not isinstance(array, np.ndarray)]
        if strange:
            raise NoisewiseError(f"it holds other files than arrays, {listed(strange)}")
    except Exception as error:  # zip, zlib, struct, header, memory: each has errors of its own
        reason = " ".join(str(error).split()) or type(error).__name__
        raise NoisewiseError(f"{path} cannot be read as an archive of arrays ({reason})") from error
    return found
