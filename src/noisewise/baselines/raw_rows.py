"""A table's rows as they are: for comparisons that only the holder of the data may see."""

from __future__ import annotations

import numpy as np

from noisewise.data import Table

__all__ = ["unsafe_columns"]


def unsafe_columns(table: Table) -> dict[str, np.ndarray]:
    """The table's own arrays, by column. Whatever is computed from them is NOT PRIVATE."""
    return table.arrays
