"""A checkpoint on several hosts: the first one reads and writes it, the others hold a mirror."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from noisewise.engine.checkpoints import _ABOUT, Checkpoint, _Part, _plain


class Mirror(Checkpoint):
    """A checkpoint as the other hosts of a fit have it, whose first one reads and writes it.

    Args:
        folder: Where it lies for the first.
        request: As `Checkpoint` has it.
        said: `said_to_others` of the first host's.
    """

    def __init__(self, folder: str | Path, request: dict[str, Any], said: bytes) -> None:
        self._said = said
        super().__init__(folder, request, resume=True)

    def _open(self, resume: bool) -> None:
        with np.load(io.BytesIO(self._said), allow_pickle=False) as held:
            content = dict(held)
        for number, about in enumerate(json.loads(content.pop(_ABOUT).tobytes())):
            begin = f"{number}:"
            arrays = {n.removeprefix(begin): a for n, a in content.items() if n.startswith(begin)}
            self._parts.append(_Part(about, arrays))
        if self._parts:
            self._remember()

    def _add(self, about: dict[str, Any], arrays: dict[str, np.ndarray] | None = None) -> _Part:
        part = _Part(_plain(about), arrays or {})
        self._parts.append(part)
        return part

    def _hold(self) -> None:
        """It is the first host's to hold."""


def said_to_others(checkpoint: Checkpoint) -> bytes:
    """All that the first host found in its checkpoint, for the other hosts.

    Args:
        checkpoint: Just opened.
    """
    parts = checkpoint._parts
    content = {f"{n}:{name}": a for n, part in enumerate(parts) for name, a in part.arrays.items()}
    content[_ABOUT] = np.frombuffer(json.dumps([part.about for part in parts]).encode(), np.uint8)
    said = io.BytesIO()
    np.savez(said, **content)  # type: ignore[arg-type]
    return said.getvalue()
