"""What a fit will need of the machine's memory, from public sizes alone, said before it starts."""

from __future__ import annotations

import os
from pathlib import Path

from noisewise._validate import NoisewiseError

_BASE = 2**28
"""Of compiled programs and their compiler, beyond what the process holds already."""
_COPIES = 3
"""Of the encoded rows: as encoded, prepared, and on the device; measured peaks lie below."""
_STREAM = 2**25 * 14
"""Of a fit's randomness, which is drawn some chunks ahead."""
_BLOCKS, _WIDE = 100, 200
_MATRICES, _LARGEST = 300, 1000
"""Of many coordinates: so many matrices at most, and none beyond a thousand coordinates."""
_GIB = 2**30


def refuse_if_too_large(
    count: int, width: int, dim: int, steps: int, draws: int, most: int | None = None
) -> None:
    """Refuse a fit that the machine cannot hold, in one line instead of a crash.

    Args:
        count: Number of rows in memory, as everybody may know it.
        width: Numbers in an encoded row.
        dim: Unconstrained coordinates of the model.
        steps: Of the fit.
        draws: Of the posterior.
        most: Bytes that the user allows, if fewer.
    """
    parts = {
        "rows": 4 * count * width * _COPIES,
        "coordinates": 8 * dim * (dim * (6 + _matrices(dim)) + _BLOCKS),
        "draws": 32 * dim * draws,
        "steps": 64 * steps,
    }
    needed = _BASE + min(_STREAM, 4 * count * steps) + sum(parts.values())
    left = min((size for size in (available_memory(), most) if size is not None), default=None)
    if left is not None and needed > left:
        largest = max(parts, key=lambda name: parts[name])
        raise NoisewiseError(
            f"this fit takes about {needed / _GIB:.1f} GiB of memory and {left / _GIB:.1f} GiB are "
            f"left, most of it for its {largest}: use fewer, or a machine with more"
        )


def _matrices(dim: int) -> int:
    """How many a trace and its posterior take."""
    if dim > _LARGEST:
        return 0
    return _BLOCKS if dim <= _WIDE else _MATRICES


def available_memory() -> int | None:
    """Bytes that this process may still take; None where the system does not say."""
    found = []
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                found.append(1024 * int(line.split()[1]))
    except (OSError, ValueError):
        pass
    try:  # a container's own limit
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        if limit != "max":
            found.append(max(0, int(limit) - used))
    except (OSError, ValueError):
        pass
    if not found and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(found, default=None)
