"""Labels of categories: 1, 1.0 and "1" are one level, however a file or a frame writes it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

_NUMBER = re.compile(r"(-?(?:0|[1-9]\d*))(?:\.(\d*?)0*)?")


def label_of(value: Any) -> str:
    """A label as text; plain numbers in one way of writing them.

    Text that is not a plain number stays as it is: "01" is not 1, as in codes of places and
    diseases, and neither is "1e0".

    >>> [label_of(value) for value in (1, 1.0, "1", "1.00", "-2.50", "01", "m")]
    ['1', '1', '1', '1', '-2.5', '01', 'm']
    """
    text = value if isinstance(value, str) else str(value)
    found = _NUMBER.fullmatch(text)
    if found is None:
        return text
    whole, decimals = found[1], found[2]
    if not decimals:
        return "0" if whole == "-0" else whole
    return f"{whole}.{decimals}"


def codes_of(values: np.ndarray, categories: Sequence[str]) -> np.ndarray:
    """The place of each value among the categories, int32; -1 for what is none of them.

    Args:
        values: One a row: text, numbers, or Python objects.
        categories: The declared levels.
    """
    lookup = {label_of(category): code for code, category in enumerate(categories)}
    if values.dtype.kind == "f":  # in their own precision: float32's 0.1 is 0.1
        levels, place = np.unique(values, return_inverse=True)
        found = [lookup.get(label_of(text), -1) for text in levels.astype(str).tolist()]
        return np.asarray(found, np.int32)[place]
    seen: dict[Any, int] = {}

    def code(value: Any) -> int:
        text = value if type(value) is str else str(value)
        if text not in seen:
            seen[text] = lookup.get(label_of(text), -1)
        return seen[text]

    return np.fromiter(map(code, values.tolist()), np.int32, count=len(values))
