"""Work on a whole table in blocks of one size, so that its own size shapes no computation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from noisewise._shapes import Shaped

_BLOCK = 4096
_LEAST_UNIT = 32
_FINENESS = 5
"""Bits of a room's size that count: at most a sixteenth more than is needed."""
_COUNT_SDS = 10
_BLOCK_NUMBERS = 2**22


def in_blocks(
    function: Callable[[dict[str, Any]], dict[str, Any]], rows: dict[str, Shaped[Any, "count ..."]]
) -> dict[str, Shaped[np.ndarray, "count ..."]]:
    """A function of rows that treats each by itself, with the same rounding whatever their number.

    A matrix product over the whole table rounds by the table's size, so that one record more would
    move the low bits of all the others, and with them an integer sum (see `noisy_sum`).

    Args:
        function: From columns to columns, record by record.
        rows: Columns of the whole table, by name.
    """
    count = len(next(iter(rows.values())))
    widest = max(math.prod(np.shape(column)[1:]) for column in rows.values())
    size = max(1, min(_BLOCK, _BLOCK_NUMBERS // max(1, widest)))
    parts = []
    for first in range(0, max(1, count), size):
        here = {name: np.asarray(column)[first : first + size] for name, column in rows.items()}
        short = size - min(size, count - first)
        # In one order in memory, too: sums go along it.
        filled = {
            name: np.ascontiguousarray(np.pad(column, [(0, short)] + [(0, 0)] * (column.ndim - 1)))
            for name, column in here.items()
        }
        parts.append(jax.tree.map(np.asarray, function(filled)))
    return {name: np.concatenate([part[name] for part in parts])[:count] for name in parts[0]}


def room_for(public_count: int, count_noise: float = 0.0) -> int:
    """Records that arrays of the whole table have room for, so that no compiled program, which may
    be kept on disk, has the true number of rows for a shape.

    Round, so that tables of nearly one size share their programs. A table that is larger all the
    same, by more than ten sds of the count's noise, gets rooms twice as large.

    Args:
        public_count: The number of rows, declared or noised.
        count_noise: Standard deviation of the public count's own noise, if it has any.
    """
    most = max(1, public_count) + math.ceil(_COUNT_SDS * count_noise)
    unit = max(_LEAST_UNIT, 2 ** (most.bit_length() - _FINENESS))
    return math.ceil(most / unit) * unit
