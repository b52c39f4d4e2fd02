"""What a fitted network says of new records, draw by draw, from the result alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from noisewise._validate import NoisewiseError
from noisewise.result import Result

__all__ = ["is_network", "network_outputs"]

_CHUNK_FLOATS = 2**24
"""Draws x rows x hidden units that are held at a time: 64 MiB."""


def is_network(result: Result) -> bool:
    """Whether the result is of a network, whose inputs' whitening it holds."""
    return "inputs" in result.asked and {"first", "last"} <= set(result.draws)


def network_outputs(result: Result, encoded: np.ndarray) -> Iterator[np.ndarray]:
    """The network's output in the target's units, rows x draws, some rows at a time.

    ``encoded`` has the features as the fit's encoder makes them, without an intercept: (x - centre)
    / scale of ``result.asked["encoding"]``. Noise is not included.
    """
    if not is_network(result):
        raise NoisewiseError(
            f"the result is of the model {result.asked.get('model')}, not of a network"
        )
    inputs, output = result.asked["inputs"], result.asked["output"]
    white = (np.asarray(encoded, float) - inputs["centre"]) @ np.asarray(inputs["matrix"])
    first = np.asarray(result.draws["first"], np.float32)
    last = np.asarray(result.draws["last"], np.float32)
    ones = np.column_stack([white, np.ones(len(white))]).astype(np.float32)
    draws, hidden, width = first.shape
    flat = first.reshape(-1, width).T / np.sqrt(width)
    size = max(1, _CHUNK_FLOATS // (draws * hidden))
    for start in range(0, len(ones), size):
        units = np.maximum(ones[start : start + size] @ flat, 0).reshape(-1, draws, hidden)
        said = np.einsum("rdh,dh->rd", units, last[:, :-1]) + last[:, -1]
        yield output["centre"] + output["scale"] * said / np.sqrt(hidden + 1)
