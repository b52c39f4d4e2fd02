"""What a fitted network says of new records, draw by draw, from the result alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from noisewise._validate import NoisewiseError

if TYPE_CHECKING:
    from noisewise.result.result import Result

_CHUNK_FLOATS = 2**24
"""Draws x rows x hidden units that are held at a time: 64 MiB."""


def network_outputs(result: Result, encoded: np.ndarray) -> Iterator[np.ndarray]:
    """The network's output in the target's units, rows x draws, some rows at a time.

    The target's own noise is not included.

    Args:
        result: Of a network.
        encoded: The features as the fit's encoder makes them, without an intercept: (x - centre) /
            scale of ``result.request.encoding``.
    """
    scaling = result.request.network
    if scaling is None:
        raise NoisewiseError(f"the result is of the model {result.request.model}, not of a network")
    white = (np.asarray(encoded, float) - scaling.input_centre) @ scaling.input_matrix
    first = np.asarray(result.draws["first"], np.float32)
    last = np.asarray(result.draws["last"], np.float32)
    ones = np.column_stack([white, np.ones(len(white))]).astype(np.float32)
    draws, hidden, width = first.shape
    flat = first.reshape(-1, width).T / np.sqrt(width)
    size = max(1, _CHUNK_FLOATS // (draws * hidden))
    for start in range(0, len(ones), size):
        units = np.maximum(ones[start : start + size] @ flat, 0).reshape(-1, draws, hidden)
        said = np.einsum("rdh,dh->rd", units, last[:, :-1]) + last[:, -1]
        yield scaling.output_centre + scaling.output_scale * said / np.sqrt(hidden + 1)
