"""Compiled programs, kept on disk, so that a second process need not compile them again.

What is kept is code: rows are arguments of every program of ours, and no shape of one follows a
table's true number of rows. Whoever could write into the folder could run code as its owner, so it
is the owner's alone.
"""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from noisewise._validate import NoisewiseError

SWITCH = "NOISEWISE_COMPILATION_CACHE"
"""Environment variable: ``off``, or a folder in place of the usual one."""
_OFF = {"off", "0", "no", "false"}
_JAX = "JAX_COMPILATION_CACHE_DIR"
_SETTINGS = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,  # hundreds of small programs add up
    "jax_persistent_cache_min_entry_size_bytes": -1,
}
_MOST_BYTES = 2**29


def keep_programs_of_commands() -> None:
    """Keep a command's compiled programs in the user's cache folder, unless that is switched off,
    or JAX has a folder of its own; where there is no place for them, go without."""
    wanted = os.environ.get(SWITCH, "").strip()
    if wanted.lower() in _OFF or os.environ.get(_JAX):
        return
    with suppress(NoisewiseError):
        keep_programs(wanted or None)


def keep_programs(folder: str | Path | None = None) -> Path:
    """Keep compiled programs on disk: a fit in another process then starts in half the time.

    It holds for everything that JAX compiles in this process from here on, your own code included:
    a program that has rows as constants would be kept with them. Those of noisewise have none.

    Args:
        folder: Where to; None is the user's cache folder. It is made for its owner alone.

    Returns:
        The folder: one for each kind of processor within the one that was asked for.
    """
    place = _default_folder() if folder is None else Path(folder).expanduser()
    inside = place / _processor()
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        inside.mkdir(exist_ok=True, mode=0o700)
        for each in (place, inside):
            _refuse_others(each)
        _forget_oldest(inside)
    except OSError as error:
        raise NoisewiseError(
            f"compiled programs cannot be kept in {place} ({error.strerror}): name another folder"
        ) from None
    # Also for the processes that this one starts.
    os.environ[_JAX] = str(inside)
    for name, value in _SETTINGS.items():
        os.environ[name.upper()] = str(value)
    if "jax" in sys.modules:
        import jax

        jax.config.update("jax_compilation_cache_dir", str(inside))
        for name, value in _SETTINGS.items():
            jax.config.update(name, value)
    # One that was cut short by a kill is compiled anew, which is all there is to say about it.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation")
    return inside


@contextmanager
def not_kept() -> Iterator[None]:
    """What is compiled meanwhile is not kept: shapes that follow a table's size, if roughly."""
    import jax

    name = "jax_persistent_cache_min_compile_time_secs"
    before = getattr(jax.config, name)
    jax.config.update(name, float("inf"))
    try:
        yield
    finally:
        jax.config.update(name, before)


def _default_folder() -> Path:
    """By the XDG convention; a relative path there is to be ignored."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):
        return Path(named) / "noisewise"
    try:
        return Path.home() / ".cache" / "noisewise"
    except RuntimeError:
        raise NoisewiseError("there is no home folder: name a folder for programs") from None


def _processor() -> str:
    """Programs are compiled for one kind of processor; a home folder may be shared by several."""
    kind = platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        kind += next(line for line in lines if line.startswith(("flags", "Features")))
    return f"programs-{hashlib.sha256(kind.encode()).hexdigest()[:12]}"


def _refuse_others(folder: Path) -> None:
    """Nobody else may write there; our own that was open is closed."""
    if not hasattr(os, "getuid"):
        return
    found = folder.stat()
    if found.st_uid != os.getuid():
        raise NoisewiseError(
            f"the folder {folder} for compiled programs is another user's, who could run code as "
            "you: name a folder of your own"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)


def _forget_oldest(folder: Path) -> None:
    """Keep the folder from growing for ever."""
    files = []
    for path in folder.iterdir():
        with suppress(OSError):  # another process may just have removed it
            found = path.stat()
            files.append((found.st_mtime, found.st_size, path))
    left = sum(size for _, size, _ in files)
    if left <= _MOST_BYTES:
        return
    for _, size, path in sorted(files):
        path.unlink(missing_ok=True)
        left -= size
        if left <= _MOST_BYTES // 2:
            return
