"""From private rows to the columns that a chunk of steps reads: all of them, or those drawn.

Rows in memory go to the device once. Of rows on disk those that some steps drew are gathered in the
order of the draws, as long as memory allows, while the device works on the steps before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from noisewise.data import PrivateRows, Rows, StoredRows
from noisewise.engine.algorithm import Run
from noisewise.mechanism import Chunk, Passes

_SHARE = 16
"""Of the memory that may be taken, gathered records are one part in this; several such parts are
under way at a time, in several copies."""
_PREPARED_FROM = 1.0
"""Times that a record is drawn, from which it pays to prepare all of them once."""


class Part(NamedTuple):
    """Some steps of a chunk, and rows that their draws are numbers of."""

    rows: Rows
    chunk: Chunk
    steps: slice
    """Which of the chunk's steps."""
    passes: Passes
    """How their batches are walked."""


Feed = Callable[[Chunk], Iterator[Part]]
"""From a chunk of draws to its parts in their order."""


@contextmanager
def feeding(rows: PrivateRows, run: Run, room: int) -> Iterator[Feed]:
    """How the run's steps come by their rows.

    Args:
        rows: The records, prepared for the algorithm.
        run: Whose steps they are for.
        room: Records that arrays of the whole table have room for: public.
    """
    if not isinstance(rows, StoredRows):
        whole = rows.unsafe_columns()
        columns = {name: jnp.asarray(held_in(column, room)) for name, column in whole.items()}

        def at_once(chunk: Chunk) -> Iterator[Part]:
            yield Part(columns, chunk, slice(len(chunk.size)), _enough(run, chunk))

        yield at_once
        return
    with prepared(rows, run) as ready:
        record_bytes = ready.record_bytes()

        def gathered(chunk: Chunk) -> Iterator[Part]:
            read = partial(_part, ready, run.passes, chunk, _enough(run, chunk))
            fitting = ready.memory // _SHARE // (run.passes.room * record_bytes)
            return read_ahead(read, len(chunk.size), fitting)

        yield gathered


@contextmanager
def prepared(rows: StoredRows, run: Run) -> Iterator[StoredRows]:
    """Rows on disk with their changes made, where that pays.

    Args:
        rows: The records.
        run: That draws them.
    """
    with ExitStack() as stack:
        if run.steps * run.sampling_rate > _PREPARED_FROM:
            rows = stack.enter_context(rows.unsafe_prepared())
        yield rows


def _enough(run: Run, chunk: Chunk) -> Passes:
    return run.passes.enough_for(int(chunk.size.max()))


def held_in(column: Any, room: int) -> np.ndarray:
    """The column with room for a public number of records: those that are not there are never
    drawn. (From an axis of length one XLA does not gather, so that the program, and the low bits of
    its results, would be other ones; no room is as small.)

    Args:
        column: Records first.
        room: For how many; twice that, and again, where there are more.
    """
    while room < len(column):
        room *= 2
    own = np.asarray(column)
    held = np.zeros((room, *own.shape[1:]), own.dtype)
    held[: len(own)] = own
    return held


def read_ahead(read: Callable[[slice], Part], steps: int, fitting: int) -> Iterator[Part]:
    """Parts of as many steps as memory allows, the next one read ahead. By public numbers alone,
    as they are shapes of compiled code; and of two steps at least where the chunk has them, as a
    loop of one would be dissolved into the program around it, and round otherwise.

    Args:
        read: Some steps' part.
        steps: Of the chunk.
        fitting: For how many memory has room.
    """
    number = max(1, min(math.ceil(steps / max(1, fitting)), steps // 2))
    spans = [slice(some[0], some[-1] + 1) for some in np.array_split(np.arange(steps), number)]
    with ThreadPoolExecutor(max_workers=1) as reader:
        ahead = reader.submit(read, spans[0])
        for following in [*spans[1:], None]:
            part = ahead.result()
            if following is not None:
                ahead = reader.submit(read, following)
            yield part


def _part(rows: StoredRows, usual: Passes, chunk: Chunk, passes: Passes, span: slice) -> Part:
    """The rows that these steps drew, batch after batch."""
    offset, size = chunk.offset[span], chunk.size[span]
    batches = [chunk.indices[a : a + n] for a, n in zip(offset, size, strict=True)]
    whole = usual.room * len(size)
    room = whole * max(1, math.ceil(int(size.sum()) / whole)) + passes.room
    numbers = np.arange(room, dtype=np.int32)
    here = Chunk(numbers, offset - offset[0], size, chunk.noise[span])
    return Part(rows.unsafe_taken(batches, room), here, span, passes)
