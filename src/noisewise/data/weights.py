"""Survey weights: what a column of them declares, and what a record's log density is multiplied by.

A weight is divided by a public number, the declared mean or the middle of the bounds: the mean of
the rows is nobody's to know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

if TYPE_CHECKING:
    from noisewise.data.column import Column


def unit_weight(column: Column) -> float:
    """The weight of a record that counts once: the declared mean, or the middle of the bounds.

    Args:
        column: Of kind weight.
    """
    assert column.bounds is not None  # a column of weights has them
    low, high = column.bounds
    return column.mean if column.mean is not None else low + (high - low) / 2


def simulated_weights(column: Column, rng: np.random.Generator, n: int) -> np.ndarray:
    """Weights as they are declared: log-normal within the bounds, with the declared mean and sd
    before it is cut off there; uniform on the bounds where none are declared.

    Args:
        column: Of kind weight.
        rng: Where randomness comes from.
        n: How many.
    """
    assert column.bounds is not None
    low, high = column.bounds
    if column.mean is None or column.sd is None:
        return np.asarray(rng.uniform(low, high, n))
    spread = np.sqrt(np.log1p((column.sd / column.mean) ** 2))
    centre = np.log(column.mean) - spread**2 / 2
    with np.errstate(divide="ignore"):  # of a lower bound of 0
        first, last = ndtr((np.log([low, high]) - centre) / spread)
    drawn = np.exp(centre + spread * ndtri(first + (last - first) * rng.random(n)))
    return np.asarray(np.clip(drawn, low, high))
