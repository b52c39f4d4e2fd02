"""Work on a whole table in blocks of one size, so that its own size shapes no computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._shapes import Shaped

_BLOCK = 4096


def in_blocks(
    function: Callable[[dict[str, Any]], dict[str, Any]], rows: dict[str, Shaped[Any, "count ..."]]
) -> dict[str, Shaped[Array, "count ..."]]:
    """A function of rows that treats each by itself, with the same rounding whatever their number.

    A matrix product over the whole table rounds by the table's size, so that one record more would
    move the low bits of all the others, and with them an integer sum (see `noisy_sum`).

    Args:
        function: From columns to columns, record by record.
        rows: Columns of the whole table, by name.
    """
    count = len(next(iter(rows.values())))
    parts = []
    for first in range(0, max(1, count), _BLOCK):
        here = {name: np.asarray(column)[first : first + _BLOCK] for name, column in rows.items()}
        short = _BLOCK - min(_BLOCK, count - first)
        filled = {
            name: np.pad(column, [(0, short)] + [(0, 0)] * (column.ndim - 1))
            for name, column in here.items()
        }
        parts.append(jax.tree.map(np.asarray, function(filled)))
    return {
        name: jnp.asarray(np.concatenate([part[name] for part in parts])[:count])
        for name in parts[0]
    }
