"""Several hosts that fit together: processes of one program, joined by `jax.distributed`.

All of them run the same lines. What they say to one another goes through the few functions here:
sums of integers, which are exact in any order; what the first host alone has drawn or read; and
whether all of them were asked for the same. It is not for other eyes: all sums but the
first host's cross the network before noise is in them, so it has to be as closed as the rows.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewise._validate import NoisewiseError, shown

_LEAVING_SECONDS, _LAST_SECONDS = 15, 2
_UNIT = 1024
"""What is said is filled up to multiples of so many numbers: a program is compiled for each."""


class HostLostError(NoisewiseError):
    """Another host has ended, or cannot be reached."""

    def __init__(self) -> None:
        super().__init__(
            "another host of this fit has ended or cannot be reached, and no more is released: see "
            "what it said; to go on from the checkpoint, start all hosts again and resume"
        )


@dataclass(frozen=True)
class Hosts:
    """How many hosts there are, and which one this is."""

    index: int = 0
    count: int = 1

    @classmethod
    def joined(cls) -> Hosts:
        """Those that this process has joined; it alone where it has joined none."""
        import jax

        if not jax.distributed.is_initialized():
            return cls()
        return cls(jax.process_index(), jax.process_count())

    @property
    def is_first(self) -> bool:
        """Whether it is this one that draws noise, writes files and keeps the ledger."""
        return self.index == 0

    @property
    def several(self) -> bool:
        """Whether there are others."""
        return self.count > 1

    def gathered(self, values: np.ndarray) -> np.ndarray:
        """Everybody's integers of 64 bits, one row a host.

        Args:
            values: This host's, as many as the others have.
        """
        own = np.ascontiguousarray(values, np.int64)
        if not self.several:
            return own[None]
        from jax.experimental import multihost_utils

        with reaching_others():  # JAX has 32 bits
            halves = multihost_utils.process_allgather(own.reshape(-1).view(np.int32))
        return np.ascontiguousarray(halves).view(np.int64).reshape(self.count, *own.shape)

    def total(self, values: np.ndarray) -> np.ndarray:
        """The sum of everybody's integers: exact, whatever the order.

        Args:
            values: This host's.
        """
        found: np.ndarray = self.gathered(values).sum(axis=0)
        return found

    def greatest(self, value: int) -> int:
        """The largest of everybody's numbers.

        Args:
            value: This host's.
        """
        return int(self.gathered(np.array([value])).max())

    def from_first(self, said: bytes) -> bytes:
        """What the first host says.

        Args:
            said: By this host; of others than the first it is not heard.
        """
        if not self.several:
            return said
        from jax.experimental import multihost_utils

        length = int(self.gathered(np.array([len(said)]))[0, 0])
        held = np.zeros(-(-max(1, length) // (4 * _UNIT)) * _UNIT, np.int32)
        if self.is_first:
            held.view(np.uint8)[:length] = np.frombuffer(said, np.uint8)
        with reaching_others():
            heard = np.asarray(multihost_utils.broadcast_one_to_all(held))
        return heard.tobytes()[:length]

    def number_of_first(self, draw: Callable[[], int]) -> int:
        """A number, below 2^128, that the first host draws and all get.

        Args:
            draw: Only the first one's is called.
        """
        said = draw().to_bytes(16, "big") if self.is_first else b""
        return int.from_bytes(self.from_first(said), "big")

    def refuse_unlike(self, asked: Mapping[str, str], instead: str) -> None:
        """Refuse, on every host, what is not the same on all of them.

        Args:
            asked: Texts or digests by name, the same names on every host.
            instead: What to do.
        """
        import hashlib

        digests = [hashlib.sha256(f"{n}\n{text}".encode()).digest() for n, text in asked.items()]
        own = np.frombuffer(b"".join(digests), np.int64).reshape(len(asked), -1)
        every = self.gathered(own)
        same = (every == every[:1]).all(axis=(0, 2))
        others = [name for name, alike in zip(asked, same, strict=True) if not alike]
        if others:
            raise NoisewiseError(
                f"hosts of one fit do not have the same {', '.join(others)}: {instead}"
            )


@contextlib.contextmanager
def reaching_others() -> Iterator[None]:
    """What JAX says of a host that has gone, as one line of ours."""
    try:
        yield
    except NoisewiseError:
        raise
    except (RuntimeError, ValueError) as error:  # of which kind depends on when it is noticed
        if Hosts.joined().several:
            raise HostLostError from error
        raise


def refuse_unshared(share: object) -> None:
    """Refuse to release on one of several hosts what all of them would release: they would spend as
    many times.

    Args:
        share: Which of the records these are, if others have the others.
    """
    if share is None and Hosts.joined().several:
        raise NoisewiseError(
            "several hosts have joined, and each would spend by itself: noisewise.fit shares a "
            "table among them; do this on one host alone"
        )


def stretch_of(count: int, number: int, parts: int) -> tuple[int, int]:
    """First record of a part, and the one after its last: parts are as equal as can be.

    Args:
        count: Of all records.
        number: Of the part.
        parts: How many there are.

    >>> [stretch_of(10, number, 3) for number in range(3)]
    [(0, 3), (3, 6), (6, 10)]
    """
    return count * number // parts, count * (number + 1) // parts


def join_hosts(
    address: str | None = None, index: int | None = None, count: int | None = None
) -> Hosts:
    """Make this process one of several hosts that fit together: the first thing in a program.

    Under Slurm's ``srun`` or Open MPI's ``mpirun`` nothing has to be passed. Every host runs the
    same program, names the same table and calls the same functions; each works on its own part.

    Args:
        address: Of the first host, with a port that is free there: ``"node1:7000"``.
        index: Which host this is: 0, 1, ...
        count: How many there are.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # else the service behind it talks
    import jax

    for name, value in (
        ("jax_cpu_collectives_implementation", "gloo"),
        ("jax_enable_recoverability", True),  # else JAX aborts the others where one host dies
        ("jax_enable_preemption_service", False),
    ):
        with contextlib.suppress(AttributeError):  # an option that this JAX has not
            jax.config.update(name, value)
    try:
        jax.distributed.initialize(address, count, index)
    except (RuntimeError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())[:150]
        raise NoisewiseError(
            f"this host cannot join the others ({reason}): name address, index and count, or start "
            "it by srun or mpirun, before anything else is computed"
        ) from error
    atexit.register(_leave_together)
    return Hosts.joined()


def _leave_together() -> None:
    """Wait for the others at the end: where the first host is gone, JAX aborts them, as it has the
    service by which they leave. Not for long, as one of them may have died."""
    with contextlib.suppress(Exception):
        from jax._src import distributed

        client: Any = distributed.global_state.client
        client.wait_at_barrier("noisewise: all have come to the end", 1000 * _LEAVING_SECONDS)
        if Hosts.joined().is_first:
            time.sleep(_LAST_SECONDS)


def hosts_named(text: str | None) -> Hosts:
    """Those that a command line names: nobody, ``auto``, or ``ADDRESS:PORT,INDEX/COUNT``.

    Args:
        text: As it was given.
    """
    if text is None:
        return Hosts()
    if text == "auto":
        return join_hosts()
    found = re.fullmatch(r"(\S+:\d+),(\d+)/(\d+)", text)
    if found is None or not int(found[2]) < int(found[3]):
        raise NoisewiseError(
            "hosts are named by 'auto', under srun or mpirun, or as ADDRESS:PORT,INDEX/COUNT such "
            f"as node1:7000,0/4 on the first of four, got {shown(text)}"
        )
    return join_hosts(found[1], int(found[2]), int(found[3]))
