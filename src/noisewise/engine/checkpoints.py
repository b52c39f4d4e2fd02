"""Checkpoints: what a fit has released so far, on disk, so that one that was killed can go on.

A checkpoint is a folder of numbered parts: what was requested, what was bought before the steps
with the settings that followed, and, every so many chunks of steps, the algorithm's state with the
block sums since the last part. There is no row in it, no key, no noise and no true number of rows.
Parts are only added, each written beside its place, flushed and renamed, under a digest over itself
and all parts before it: what is half-written, damaged or missing in between is never gone on from.

Only what is written or returned is released. Sums that a process had in memory when it was killed
were seen by nobody, so making them again, with fresh randomness, reveals as much as making them
once. What was written is never made again. (An older copy of a folder would be: keep none.)
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from noisewise._files import check_writable, read_arrays, whole_file, whole_folder
from noisewise._validate import NoisewiseError
from noisewise.engine.algorithm import Run, run_leaves, with_leaves

_FORMAT = "noisewise-checkpoint 2"
_ABOUT, _DIGEST = "about", "digest"
PARTS = 25
"""In which a phase is written down, at most: a kill costs a twenty-fifth of it. By number, not by
time: that would follow the table's size."""


class _Part(NamedTuple):
    about: dict[str, Any]
    arrays: dict[str, np.ndarray]


class Settled(NamedTuple):
    """How a fit goes."""

    about: dict[str, Any]
    """Settings and releases, as plain data."""
    runs: Sequence[Run]


class Checkpoint:
    """One fit's checkpoint; opening it writes nothing.

    Args:
        folder: Where it lies, or will lie.
        request: Everything public that decides what the fit releases, by name, as JSON has it.
        resume: Go on with what is there; else there must be nothing.
    """

    def __init__(self, folder: str | Path, request: dict[str, Any], *, resume: bool) -> None:
        self.folder = Path(folder)
        self.bought: dict[str, np.ndarray] = {}
        """Sums that were bought before the steps, by the names of their releases."""
        self._request = {name: _plain(value) for name, value in request.items()}
        self._tokens: tuple[str, ...] = (secrets.token_hex(16),)
        self._settled: _Part | None = None
        self._parts: list[_Part] = []
        self._digest = ""
        self._waiting: list[tuple[int, Any]] = []
        self._held: int | None = None
        self._open(resume)

    def _open(self, resume: bool) -> None:
        if resume:
            self._hold()
            try:
                self._read()
            except BaseException:
                self.release()
                raise
        elif self.folder.exists():
            raise NoisewiseError(
                f"{self.folder} exists already: if a fit was stopped, pass resume=True to go on "
                "with it, or delete the folder to start anew, which spends again"
            )
        else:
            check_writable(self.folder, folder=True)

    @property
    def tokens(self) -> tuple[str, ...]:
        """Random names, one from each time that it was begun or gone on with, the last one first:
        by them a ledger knows the fit again, and tells it from copies of this folder."""
        return self._tokens

    @property
    def steps_done(self) -> int:
        """Steps whose sums are written down."""
        return sum(part.about["steps"] for part in self._kind("steps"))

    @property
    def reached(self) -> int:
        """How far it came: 0 nothing is written that was released, 1 settings, 2 all steps."""
        if self._settled is None:
            return 0
        return 2 if self.steps_done == sum(map(int, self._settled.about["steps"])) else 1

    @property
    def settled(self) -> dict[str, Any] | None:
        """What `settle` was told before the fit was stopped."""
        return None if self._settled is None else dict(self._settled.about)

    @property
    def resumed(self) -> bool:
        """Whether it was there before."""
        return bool(self._kind("resumed"))

    @property
    def history(self) -> dict[str, str]:
        """What a certificate says of it: nothing for a fit that was never stopped."""
        stops = [part.about["after"] for part in self._kind("resumed")]
        if not stops or self._settled is None:
            return {}
        times = "once" if len(stops) == 1 else f"{len(stops)} times, the last one"
        return {
            "resumed": f"{times} after {stops[-1]} of {sum(self._settled.about['steps'])} steps, "
            "from a checkpoint; no step that was written down was made again"
        }

    def begin(self) -> None:
        """Write down what was requested, before anything is spent; or that a fit goes on."""
        if self._parts:
            token = secrets.token_hex(16)
            self._add({"kind": "resumed", "after": self.steps_done, "token": token})
            self._tokens = (token, *self._tokens)
            return
        (token,) = self._tokens
        head = {"kind": "fit", "format": _FORMAT, "token": token, "request": self._request}
        self._add(head)
        self._hold()

    def settle(self, about: dict[str, Any], runs: Sequence[Run]) -> Settled:
        """Write down what was bought and how the fit will go; a fit that goes on gets back the very
        numbers with which it began, which another machine may round otherwise.

        Args:
            about: Settings and releases, as plain data.
            runs: All phases, ready to run.
        """
        leaves = run_leaves(runs)
        steps = [run.steps for run in runs]
        walks = _plain([[*run.passes, run.sampling_rate] for run in runs])
        if self._settled is None:
            about = about | {"kind": "settled", "steps": steps, "walks": walks}
            arrays = {f"bought/{name}": values for name, values in self.bought.items()}
            self._settled = self._add(about, arrays | _numbered("run", leaves))
            return Settled(self._settled.about, runs)
        found = _leaves("run", self._settled.arrays)
        shapes = [np.shape(leaf) for leaf in leaves]
        kept = self._settled.about
        if (kept["steps"], kept["walks"]) != (steps, walks) or [a.shape for a in found] != shapes:
            raise NoisewiseError(
                f"{self.folder} cannot be gone on with: from what was bought, this version of "
                "noisewise or of JAX, or another table, makes another fit; use what it began with"
            )
        return Settled(kept, with_leaves(runs, found))

    def keep_bought(self, name: str) -> None:
        """Write down a sum that was bought after the steps, before anybody sees it.

        Args:
            name: Of its release, as in ``bought``.
        """
        if all(f"bought/{name}" not in part.arrays for part in self._parts):
            self._add({"kind": "bought"}, {f"bought/{name}": self.bought[name]})

    def found(self, phase: int, state: Any, record: Any) -> tuple[Any, list[Any]]:
        """State and records after the chunks of a phase that are written down.

        Args:
            phase: Its number.
            state: At its start.
            record: An empty one.
        """
        records: list[Any] = []
        structure = jax.tree.structure(record)
        for part in self._kind("steps"):
            if part.about["phase"] == phase:
                columns = _leaves("record", part.arrays)
                for place in range(part.about["chunks"]):
                    here = [column[place, ...] for column in columns]
                    records.append(jax.tree.unflatten(structure, here))
                kept = map(jnp.asarray, _leaves("state", part.arrays))
                state = jax.tree.unflatten(jax.tree.structure(state), list(kept))
        return state, records

    def keep(self, phase: int, steps: int, state: Any, record: Any, *, left: int) -> None:
        """Take note of a chunk, and write the chunks since the last part every so often.

        Args:
            phase: Whose chunk it is.
            steps: Its length.
            state: After it.
            record: Of it.
            left: How many chunks the phase has after it; its last one is always written.
        """
        self._waiting.append((steps, record))
        done = sum(
            part.about["chunks"] for part in self._kind("steps") if part.about["phase"] == phase
        )
        every = math.ceil((done + len(self._waiting) + left) / PARTS)
        if left and len(self._waiting) < every:
            return
        lengths, records = zip(*self._waiting, strict=True)
        about = {"kind": "steps", "phase": phase, "steps": sum(lengths), "chunks": len(lengths)}
        columns = [np.stack(some) for some in zip(*map(jax.tree.leaves, records), strict=True)]
        state = jax.tree.leaves(jax.device_get(state))
        self._add(about, _numbered("record", columns) | _numbered("state", state))
        self._waiting = []

    def release(self) -> None:
        """Let other processes use it."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _kind(self, kind: str) -> list[_Part]:
        return [part for part in self._parts if part.about["kind"] == kind]

    def _add(self, about: dict[str, Any], arrays: dict[str, np.ndarray] | None = None) -> _Part:
        part = _Part(_plain(about), arrays or {})
        content = {_ABOUT: np.frombuffer(json.dumps(part.about).encode(), np.uint8), **part.arrays}
        digest = _digest_of(self._digest, content)
        content[_DIGEST] = np.frombuffer(digest.encode(), np.uint8)
        path = self._place(len(self._parts))
        if not self._parts:
            with whole_folder(self.folder) as folder:
                np.savez(folder / path.name, **content)  # type: ignore[arg-type]
        elif not self.folder.is_dir() or path.exists():
            raise _in_use(self.folder)
        else:
            with whole_file(path) as scratch, scratch.open("wb") as file:
                np.savez(file, **content)  # type: ignore[arg-type]
        self._parts.append(part)
        self._digest = digest
        return part

    def _place(self, number: int) -> Path:
        return self.folder / f"part-{number:06d}.npz"

    def _hold(self) -> None:
        """No other process may go on with the same steps meanwhile; a kill lets go."""
        if not self.folder.is_dir():
            raise NoisewiseError(
                f"there is no checkpoint {self.folder} to go on with: leave out resume=True"
            )
        try:
            import fcntl
        except ImportError:  # not on Windows: that no part is written twice still holds
            return
        self._held = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.release()
            raise _in_use(self.folder) from None

    def _read(self) -> None:
        """All parts, if they are whole and of the very fit that is to go on."""
        names = sorted(path.name for path in self.folder.glob("part-*.npz"))
        for number, name in enumerate(names):
            path = self._place(number)
            content = _content(path) if name == path.name else {}
            kept = content.pop(_DIGEST, np.empty(0)).tobytes()
            self._digest = _digest_of(self._digest, content)
            if kept != self._digest.encode():
                raise NoisewiseError(
                    f"{self.folder} is damaged at {name}: what it holds was released, and the fit "
                    "cannot go on; delete the folder to start anew, which spends again"
                )
            about = json.loads(content.pop(_ABOUT).tobytes())
            self._parts.append(_Part(about, content))
        if not self._parts:
            raise NoisewiseError(
                f"{self.folder} is no checkpoint: choose another folder, or leave out resume=True"
            )
        for left in self.folder.glob(".part-*"):  # by a process that was killed while it wrote
            left.unlink(missing_ok=True)
        self._remember()

    def _remember(self) -> None:
        """What the parts say, if they are of the fit that is to go on."""
        self._recognise(self._parts[0].about)
        for part in self._kind("settled"):
            self._settled = part
        for part in (*self._kind("settled"), *self._kind("bought")):
            names = [name for name in part.arrays if name.startswith("bought/")]
            self.bought |= {name.removeprefix("bought/"): part.arrays[name] for name in names}

    def _recognise(self, head: dict[str, Any]) -> None:
        """Refuse another fit's checkpoint."""
        if head["format"] != _FORMAT:
            raise NoisewiseError(
                f"{self.folder} is a checkpoint of the format {head['format']}, this noisewise "
                f"reads {_FORMAT}: go on with the version that wrote it"
            )
        stops = [part.about for part in self._kind("resumed")]
        self._tokens = tuple(about["token"] for about in (*stops[::-1], head))
        found = head["request"]
        others = [n for n in {**self._request, **found} if self._request.get(n) != found.get(n)]
        if others:
            raise NoisewiseError(
                f"{self.folder} is of another fit, whose {', '.join(others)} is not the same: "
                "repeat its own request, or choose another folder for this one"
            )


def remove_checkpoint(folder: Path) -> None:
    """Delete it at one stroke, once what came of it is safe.

    Args:
        folder: Where it lies.
    """
    aside = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
    folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def _in_use(folder: Path) -> NoisewiseError:
    return NoisewiseError(
        f"another process is fitting with the checkpoint {folder}: wait for it, or choose another"
    )


def _content(path: Path) -> dict[str, np.ndarray]:
    try:
        return read_arrays(path)
    except NoisewiseError:
        return {}  # which no digest fits


def _plain(value: Any) -> Any:
    """As it comes back from JSON."""
    return json.loads(json.dumps(value))


def _digest_of(before: str, content: dict[str, np.ndarray]) -> str:
    whole = hashlib.sha256(before.encode())
    for name, values in sorted(content.items()):
        whole.update(f"{name} {values.dtype.str} {values.shape}\n".encode())
        whole.update(np.ascontiguousarray(values).tobytes())
    return whole.hexdigest()


def _numbered(name: str, leaves: Sequence[Any]) -> dict[str, np.ndarray]:
    return {f"{name}/{number:04d}": np.asarray(leaf) for number, leaf in enumerate(leaves)}


def _leaves(name: str, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    return [arrays[found] for found in sorted(arrays) if found.startswith(f"{name}/")]
