"""Numbers that a formula makes of a record: each with its range, known from the schema."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from noisewise.data.column import Column
from noisewise.data.errors import SchemaError
from noisewise.data.gaps import filled

Arrays = Mapping[str, np.ndarray]


class Range(NamedTuple):
    """The least and the greatest value of every column."""

    low: np.ndarray
    high: np.ndarray


class Expression:
    """Columns of numbers computed record by record.

    What one record's values are depends on that record and on the schema, never on another record:
    this is why a formula costs no privacy.
    """

    text: str

    @property
    def sources(self) -> tuple[str, ...]:
        """Columns of the table that it reads."""
        raise NotImplementedError

    @property
    def range(self) -> Range:
        """Bounds of its values."""
        raise NotImplementedError

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each of its columns."""
        width = len(self.range.low)
        return (
            (self.text,) if width == 1 else tuple(f"{self.text}[{i}]" for i in range(1, width + 1))
        )

    @property
    def affine(self) -> tuple[float, float]:
        """Intercept and slope, if it is a straight line in the cells of one column; slope 0 if it
        is not."""
        return 0.0, 0.0

    def values(self, arrays: Arrays) -> np.ndarray:
        """Records x columns, in double precision.

        Args:
            arrays: In the form of `Table.rows`.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Cells(Expression):
    """A column's cells, gaps filled as declared."""

    text: str
    column: Column

    @property
    def sources(self) -> tuple[str, ...]:
        """See `Expression.sources`."""
        return (self.column.name,)

    @property
    def range(self) -> Range:
        """See `Expression.range`."""
        low, high = self.column.bounds or (0.0, 1.0)
        width = len(self.column.entry_names)
        return Range(np.full(width, float(low)), np.full(width, float(high)))

    @property
    def labels(self) -> tuple[str, ...]:
        """See `Expression.labels`."""
        entries = self.column.entry_names
        return tuple(f"{self.text}{entry.removeprefix(self.column.name)}" for entry in entries)

    @property
    def affine(self) -> tuple[float, float]:
        """See `Expression.affine`."""
        return 0.0, 1.0

    def values(self, arrays: Arrays) -> np.ndarray:
        """See `Expression.values`."""
        cells = filled(self.column, np.asarray(arrays[self.column.name]))
        return cells.astype(np.float64).reshape(len(cells), -1)


@dataclass(frozen=True)
class Constant(Expression):
    """A number."""

    text: str
    value: float

    @property
    def sources(self) -> tuple[str, ...]:
        """See `Expression.sources`."""
        return ()

    @property
    def range(self) -> Range:
        """See `Expression.range`."""
        return Range(np.array([self.value]), np.array([self.value]))

    @property
    def affine(self) -> tuple[float, float]:
        """See `Expression.affine`."""
        return self.value, 0.0

    def values(self, arrays: Arrays) -> np.ndarray:
        """See `Expression.values`."""
        return np.full((1, 1), self.value)


@dataclass(frozen=True)
class Level(Expression):
    """Whether a category has a certain level: ``sex == 'female'``."""

    text: str
    column: Column
    level: int
    equal: bool

    @property
    def sources(self) -> tuple[str, ...]:
        """See `Expression.sources`."""
        return (self.column.name,)

    @property
    def range(self) -> Range:
        """See `Expression.range`."""
        return Range(np.zeros(1), np.ones(1))

    def values(self, arrays: Arrays) -> np.ndarray:
        """See `Expression.values`."""
        codes = filled(self.column, np.asarray(arrays[self.column.name]))
        return ((codes == self.level) == self.equal).astype(np.float64)[:, None]


@dataclass(frozen=True)
class Binary(Expression):
    """Two expressions and what is between them: arithmetic, or a comparison."""

    text: str
    sign: str
    left: Expression
    right: Expression

    @property
    def sources(self) -> tuple[str, ...]:
        """See `Expression.sources`."""
        return tuple(dict.fromkeys((*self.left.sources, *self.right.sources)))

    @cached_property
    def range(self) -> Range:
        """See `Expression.range`: by interval arithmetic."""
        left, right = self.left.range, self.right.range
        if self.sign in COMPARISONS:
            return Range(np.zeros_like(left.low), np.ones_like(left.low))
        if self.sign == "**":
            return _power(self, left, right)
        if self.sign == "/" and ((right.low <= 0) & (right.high >= 0)).any():
            raise SchemaError(
                f"{self.text} in the formula divides by {self.right.text}, which may be 0 by the "
                "schema: declare bounds without 0, or add a number to it"
            )
        ends = [
            ARITHMETIC[self.sign](one, other)
            for one in (left.low, left.high)
            for other in (right.low, right.high)
        ]
        return Range(np.min(ends, axis=0), np.max(ends, axis=0))

    @property
    def affine(self) -> tuple[float, float]:
        """See `Expression.affine`."""
        (a, b), (c, d) = self.left.affine, self.right.affine
        fixed = not self.right.sources
        if not fixed and self.left.sources:
            return 0.0, 0.0
        if self.sign in "+-":
            turn = 1 if self.sign == "+" else -1
            return a + turn * c, b + turn * d
        if self.sign == "*":
            return a * c, b * c + a * d
        return (a / c, b / c) if self.sign == "/" and fixed else (0.0, 0.0)

    def values(self, arrays: Arrays) -> np.ndarray:
        """See `Expression.values`."""
        left, right = self.left.values(arrays), self.right.values(arrays)
        act = (ARITHMETIC | COMPARISONS)[self.sign]
        return np.asarray(act(left, right), np.float64)


@dataclass(frozen=True)
class Function(Expression):
    """An elementwise function of an expression."""

    text: str
    name: str
    argument: Expression

    @property
    def sources(self) -> tuple[str, ...]:
        """See `Expression.sources`."""
        return self.argument.sources

    @cached_property
    def range(self) -> Range:
        """See `Expression.range`: all functions but the absolute value are increasing."""
        low, high = self.argument.range
        self._check(float(low.min()))
        if self.name == "abs":
            ends = np.abs(low), np.abs(high)
            least = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(*ends))
            return Range(least, np.maximum(*ends))
        with np.errstate(over="ignore"):
            found = Range(FUNCTIONS[self.name](low), FUNCTIONS[self.name](high))
        if not np.isfinite(found.high).all():
            raise SchemaError(
                f"{self.text} in the formula is beyond all numbers within the declared bounds: "
                "scale the column down first"
            )
        return found

    def _check(self, least: float) -> None:
        """Refuse values for which there is no logarithm or root."""
        start, open_end = _DOMAINS.get(self.name, (-np.inf, False))
        if least > start or (least == start and not open_end):
            return
        wanted = f"above {start:g}" if open_end else f"{start:g} or more"
        instead = ", or write log1p" if self.name == "log" and least == 0 else ""
        raise SchemaError(
            f"{self.text} in the formula needs {self.argument.text} to be {wanted}, and by the "
            f"schema it may be {least:g}: declare bounds accordingly{instead}"
        )

    def values(self, arrays: Arrays) -> np.ndarray:
        """See `Expression.values`."""
        return np.asarray(FUNCTIONS[self.name](self.argument.values(arrays)), np.float64)


@dataclass(frozen=True)
class Shifted(Expression):
    """``center`` and ``scale``: (x - centre) / scale by declared numbers."""

    text: str
    argument: Expression
    centre: float
    scale: float

    @property
    def sources(self) -> tuple[str, ...]:
        """See `Expression.sources`."""
        return self.argument.sources

    @property
    def range(self) -> Range:
        """See `Expression.range`."""
        low, high = self.argument.range
        return Range((low - self.centre) / self.scale, (high - self.centre) / self.scale)

    @property
    def affine(self) -> tuple[float, float]:
        """See `Expression.affine`."""
        a, b = self.argument.affine
        return (a - self.centre) / self.scale, b / self.scale

    def values(self, arrays: Arrays) -> np.ndarray:
        """See `Expression.values`."""
        return (self.argument.values(arrays) - self.centre) / self.scale


def _power(of: Binary, left: Range, right: Range) -> Range:
    """Powers by a fixed number."""
    if of.right.sources:
        raise SchemaError(
            f"{of.text} in the formula has a column as its exponent: only numbers are taken"
        )
    power = float(right.low[0])
    if not power.is_integer() and (left.low < 0).any():
        raise SchemaError(
            f"{of.text} in the formula needs {of.left.text} to be 0 and more, and by the schema it "
            "may be less: declare bounds accordingly"
        )
    around = (left.low <= 0) & (left.high >= 0)
    if power < 0 and around.any():
        raise SchemaError(
            f"{of.text} in the formula divides by {of.left.text}, which may be 0 by the schema: "
            "declare bounds without 0, or add a number to it"
        )
    ends = left.low**power, left.high**power
    even = power.is_integer() and power % 2 == 0 and power > 0
    least = np.where(around & even, 0.0, np.minimum(*ends))
    return Range(least, np.maximum(*ends))


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "expm1": np.expm1,
    "abs": np.abs,
}
_DOMAINS = {
    "log": (0.0, True),
    "log2": (0.0, True),
    "log10": (0.0, True),
    "log1p": (-1.0, True),
    "sqrt": (0.0, False),
}
"""Where arguments begin, and whether without that end."""
