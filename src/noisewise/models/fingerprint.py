"""A digest of a model's code that is the same in every process."""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle


class _Canonical(pickle._Pickler):
    """cloudpickle's pickles with sets in an order of their own, not in that of their hashes.

    Hashes of text change from process to process. The pickler that is written in Python asks
    `reducer_override` about sets, too; the one in C does not.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self._cloud = cloudpickle.Pickler(io.BytesIO(), protocol=5)
        self.dispatch_table = self._cloud.dispatch_table

    def reducer_override(self, value: Any) -> Any:
        """How a set, or a function of the user's, is taken apart."""
        if type(value) in (set, frozenset):
            return type(value), (sorted(value, key=_canonical),)
        return self._cloud.reducer_override(value)


def _canonical(value: Any) -> bytes:
    file = io.BytesIO()
    _Canonical(file).dump(value)
    return file.getvalue()


def model_digest(model: Callable[..., Any]) -> str:
    """Changes with the model's code and with what it refers to.

    Args:
        model: A NumPyro model; of one in an importable module, it is the name that counts.
    """
    return hashlib.sha256(_canonical(model)).hexdigest()
