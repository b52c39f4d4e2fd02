"""Named-argument checks, the base of the library's own errors, and the type of progress reports.

Every check returns the value it was given, as a plain Python number or unchanged, so that it can
stand in an assignment. Comparisons are written `not value > 0`, never `value <= 0`: NaN fails both,
and only the first form refuses it.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable
from typing import Any

_LONGEST_SHOWN = 80
_MOST_LISTED = 12
LARGEST = 2**31 - 1
"""Of sizes: the engine counts in 32 bits."""
LARGEST_SEED = 2**63 - 1
Progress = Callable[[int, int], None]
"""Called with what is done, and how much there is to do."""


class NoisewiseError(ValueError):
    """An argument, a schema or a table that cannot be used; the message is one line."""


def shown(value: object) -> str:
    """`repr(value)` on one line, cut short: for messages.

    A frame or an array may be somebody's rows in the wrong place: of those, the type alone is said.

    >>> shown("two\\nlines"), shown(float("nan"))
    ("'two\\\\nlines'", 'nan')
    """
    if _holds_rows(value):
        return f"a {type(value).__name__}"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an integer of thousands of digits, or whatever a foreign class raises
        return f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


def _holds_rows(value: object) -> bool:
    values = value.values() if isinstance(value, dict) else value
    if isinstance(values, str | bytes | int | float | type):
        return False
    if isinstance(value, dict | list | tuple | set):
        return any(map(_holds_rows, values))  # type: ignore[call-overload]
    arrays = ("__array__", "__dataframe__", "__arrow_c_stream__")
    return getattr(value, "ndim", 1) != 0 and any(hasattr(value, name) for name in arrays)


def listed(names: Iterable[object]) -> str:
    """Names for a message: the first few, and how many there are.

    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    every = list(names)
    text = ", ".join(map(shown, every[:_MOST_LISTED]))
    return text if len(every) <= _MOST_LISTED else f"{text}, ... ({len(every)} in all)"


def positive(name: str, value: Any, *, finite: bool = False) -> float:
    """Check that `value` is a number above zero; with `finite=True`, infinity is refused too.

    Infinity passes by default because it is how limits are written: a clip norm of infinity clips
    nothing.

    >>> positive("clip_norm", 2)
    2.0
    >>> positive("clip_norm", float("nan"))
    Traceback (most recent call last):
    ...
    noisewise._validate.NoisewiseError: clip_norm must be a positive number, got nan
    """
    wanted = "a positive finite number" if finite else "a positive number"
    number = _number(name, value, wanted)
    if not number > 0 or (finite and not math.isfinite(number)):
        raise NoisewiseError(f"{name} must be {wanted}, got {shown(value)}")
    return number


def fraction(name: str, value: Any) -> float:
    """Check that `value` lies strictly between 0 and 1.

    >>> fraction("sampling_rate", 0.25)
    0.25
    """
    wanted = "a number strictly between 0 and 1"
    number = _number(name, value, wanted)
    if not 0 < number < 1:
        raise NoisewiseError(f"{name} must be {wanted}, got {shown(value)}")
    return number


def integer_at_least(name: str, value: Any, low: int, high: int = LARGEST) -> int:
    """Check that `value` is a whole number (of an integer type) from `low` to `high`.

    >>> integer_at_least("steps", 10, 1)
    10
    """
    wanted = f"an integer of at least {low}"
    scalar = _scalar(value)
    if isinstance(scalar, bool) or not isinstance(scalar, numbers.Integral):
        raise TypeError(f"{name} must be {wanted}, got {shown(value)}")
    if not int(scalar) >= low:
        raise NoisewiseError(f"{name} must be {wanted}, got {shown(value)}")
    if not int(scalar) <= high:
        raise NoisewiseError(f"{name} must be at most {high}, got {shown(value)}")
    return int(scalar)


def true_or_false(name: str, value: Any) -> bool:
    """Check that `value` is a truth value, and no number or text that could pass for one."""
    if not isinstance(value, bool):
        raise NoisewiseError(f"{name} must be true or false, got {shown(value)}")
    return value


def known_fields(kind: Any, plain: Any) -> dict[str, Any]:
    """Check that `plain`, from a file, has no other entries than the dataclass has fields."""
    if not isinstance(plain, dict):
        raise NoisewiseError(f"expected a table of settings, got {shown(plain)}")
    unknown = [name for name in plain if name not in kind.__dataclass_fields__]
    if unknown:
        raise NoisewiseError(f"unknown entries {listed(unknown)}: drop them")
    return plain


def finite_array(name: str, value: Any, *, above_zero: bool = False) -> Any:
    """Check that `value` is an array of finite numbers, or of positive ones; None passes."""
    import numpy as np

    if value is None:
        return None
    try:
        found = np.asarray(value)
    except (TypeError, ValueError):
        found = np.asarray("ragged")
    if found.dtype.kind not in "fiu":
        raise NoisewiseError(f"{name} must be an array of numbers")
    found = found.astype(float)
    if not np.isfinite(found).all() or (above_zero and not (found > 0).all()):
        wanted = "positive finite" if above_zero else "finite"
        raise NoisewiseError(f"{name} must be an array of {wanted} numbers, and not all are")
    return found


def one_of(name: str, value: Any, options: Iterable[str]) -> str:
    """Check that `value` is one of the named options.

    >>> one_of("adjacency", "add_remove", ("add_remove", "replace_one"))
    'add_remove'
    """
    allowed = tuple(options)
    wanted = f"one of {', '.join(map(repr, allowed))}"
    if not isinstance(value, str):
        raise TypeError(f"{name} must be {wanted}, got {shown(value)}")
    if value not in allowed:
        raise NoisewiseError(f"{name} must be {wanted}, got {shown(value)}")
    return value


def _number(name: str, value: Any, wanted: str) -> float:
    """`value` as a float, or a TypeError: booleans and strings are not numbers here."""
    scalar = _scalar(value)
    if isinstance(scalar, bool) or not isinstance(scalar, numbers.Real):
        raise TypeError(f"{name} must be {wanted}, got {shown(value)}")
    try:
        return float(scalar)
    except OverflowError:  # an integer beyond the floats
        raise NoisewiseError(
            f"{name} must be {wanted} that fits a float, got {shown(value)}"
        ) from None


def _scalar(value: Any) -> Any:
    """The Python scalar inside a NumPy or JAX scalar; anything else unchanged."""
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value
