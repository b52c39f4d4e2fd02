"""A factor of a formula, from text to what computes it: columns and state are the schema's."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from noisewise._validate import listed, shown
from noisewise.data.column import Column
from noisewise.data.errors import SchemaError
from noisewise.data.formulas import bases
from noisewise.data.formulas.coding import Category
from noisewise.data.formulas.declared import declared_cells, moments
from noisewise.data.formulas.expressions import (
    FUNCTIONS,
    Binary,
    Cells,
    Constant,
    Expression,
    Function,
    Level,
    Shifted,
)
from noisewise.data.formulas.parsing import Quoted, expression
from noisewise.data.schema import Schema

_MOST_LEVELS = 100
_MOST_DEGREES = 10
_SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "**",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_LISTED = "I, C, center, scale, bs, poly, " + ", ".join(FUNCTIONS)


def compile_factor(text: str, schema: Schema) -> Expression | Category:
    """What computes a factor of a term, record by record.

    Args:
        text: Of the factor, as the parser writes it.
        schema: Whose columns it names.
    """
    if text in schema:
        return _column(text, schema[text])
    return _Compiler(text, expression(text), schema).factor()


def _column(text: str, column: Column) -> Expression | Category:
    if column.categories is not None:
        return Category(text, column, column.categories)
    return Cells(text, column)


class _Compiler:
    """One factor's text on its way."""

    def __init__(self, text: str, quoted: Quoted, schema: Schema) -> None:
        self.text, self.tree, self.names, self.schema = text, quoted.tree, quoted.names, schema
        self.calls: dict[str, Callable[[str, ast.Call], Expression]] = {
            "I": self._as_is,
            "center": self._center,
            "scale": self._scale,
            "standardize": self._scale,
            "bs": self._spline,
            "poly": self._powers,
        }

    def factor(self) -> Expression | Category:
        """The whole of it."""
        if isinstance(self.tree, ast.Call) and self._name(self.tree.func) == "C":
            return self._category(self.tree)
        found = self._expression(self.tree)
        if not found.sources:
            raise SchemaError(f"{shown(self.text)} in the formula names no column")
        return replace(found, text=self.text)  # type: ignore[type-var]

    def _expression(self, node: ast.expr) -> Expression:
        text = self._text(node)
        if text in self.schema:
            found = _column(text, self.schema[text])
            if isinstance(found, Category):
                raise SchemaError(
                    f"{self.text} in the formula needs numbers, and '{text}' is a category: "
                    f"compare it with a level, as in I({text} == {found.levels[-1]!r})"
                )
            return found
        value = getattr(node, "value", None)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return Constant(text, float(value))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
            sign = "-" if isinstance(node.op, ast.USub) else "+"
            return Binary(text, sign, Constant("0", 0.0), self._expression(node.operand))
        if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
            return self._binary(text, _SIGNS[type(node.op)], node.left, node.right)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _SIGNS:
            return self._comparison(text, node)
        if isinstance(node, ast.Call):
            return self._call(text, node)
        if isinstance(node, ast.Name | ast.Attribute):
            raise SchemaError(
                f"'{text}' in the formula is not in the schema: its columns are "
                f"{listed(self.schema.names)}"
            )
        raise SchemaError(
            f"{text} in the formula is not understood: write columns, numbers, + - * / **, "
            f"comparisons and {_LISTED}"
        )

    def _binary(self, text: str, sign: str, left: ast.expr, right: ast.expr) -> Expression:
        one, other = self._expression(left), self._expression(right)
        widths = {len(one.range.low), len(other.range.low)} - {1}
        if len(widths) > 1:
            raise SchemaError(f"{text} in the formula combines vectors of different lengths")
        return Binary(text, sign, one, other)

    def _comparison(self, text: str, node: ast.Compare) -> Expression:
        """Of numbers, or of a category with one of its levels."""
        sign, other = _SIGNS[type(node.ops[0])], node.comparators[0]
        name = self._text(node.left)
        if name not in self.schema or self.schema[name].categories is None:
            return self._binary(text, sign, node.left, other)
        column = self.schema[name]
        assert column.categories is not None  # it was just looked for
        value = getattr(other, "value", None)
        if sign not in ("==", "!=") or str(value) not in column.categories:
            raise SchemaError(
                f"{text} in the formula: the category '{name}' is compared by == or != with one "
                f"of {listed(column.categories)}, in quotes"
            )
        return Level(text, column, column.categories.index(str(value)), sign == "==")

    def _call(self, text: str, node: ast.Call) -> Expression:
        name = self._name(node.func)
        if name in self.calls:
            return self.calls[name](text, node)
        if name in FUNCTIONS:
            return Function(text, name, self._argument(text, node, 1))
        if name == "C":
            raise SchemaError(f"{self.text} in the formula: C() is a factor of its own")
        raise SchemaError(
            f"function {name} in the formula is not known, or would look at several rows at once: "
            f"use {_LISTED}"
        )

    def _argument(self, text: str, node: ast.Call, most: int) -> Expression:
        """The first argument, of ``most`` without a name."""
        if not 1 <= len(node.args) <= most or (most == 1 and node.keywords):
            raise SchemaError(f"{text} in the formula has the wrong number of arguments")
        return self._expression(node.args[0])

    def _as_is(self, text: str, node: ast.Call) -> Expression:
        return replace(self._argument(text, node, 1), text=text)  # type: ignore[type-var]

    def _center(self, text: str, node: ast.Call) -> Expression:
        argument = self._argument(text, node, 1)
        return Shifted(text, argument, self._moments(text, argument)[0], 1.0)

    def _scale(self, text: str, node: ast.Call) -> Expression:
        argument = self._argument(text, node, 1)
        return Shifted(text, argument, *self._moments(text, argument))

    def _moments(self, text: str, argument: Expression) -> tuple[float, float]:
        """Declared mean and sd; what others read off the rows."""
        found = moments(argument, self.schema)
        if found is None or not argument.sources:
            raise SchemaError(
                f"{text} in the formula needs the mean and sd of {argument.text}, which would have "
                f"to be read off the rows: declare mean and sd of {listed(argument.sources)} in "
                "the schema"
            )
        mean, sd = float(found.mean[0]), float(found.sd[0])
        if np.ptp(found.mean) or np.ptp(found.sd) or not sd > 0:
            raise SchemaError(f"{text} in the formula needs one number a row that varies")
        return mean, sd

    def _spline(self, text: str, node: ast.Call) -> Expression:
        argument = self._single(text, self._argument(text, node, 2))
        given = self._options(
            text,
            node,
            ("df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound"),
            positional="df",
        )
        degree, whole = given.get("degree", 3), bool(given.get("include_intercept", False))
        _whole_number(text, "degree", degree, 1, _MOST_DEGREES)
        if ("df" in given) == ("knots" in given):
            raise SchemaError(
                f"{text} in the formula needs either df, the number of its columns, or knots"
            )
        least, most = (float(end[0]) for end in argument.range)
        low, high = given.get("lower_bound", least), given.get("upper_bound", most)
        if not (low <= least and most <= high):
            raise SchemaError(
                f"{text} in the formula has bounds narrower than the schema's, [{least:g}, "
                f"{most:g}]: leave them out"
            )
        if "knots" in given:
            inner = np.atleast_1d(np.asarray(given["knots"], float))
        else:
            count = given["df"] - degree - whole
            _whole_number(text, "df", given["df"], degree + whole, _MOST_LEVELS)
            cells = argument.values(declared_cells(self.schema, argument.sources))[:, 0]
            inner = np.quantile(cells, np.linspace(0, 1, count + 2)[1:-1])
        if not (np.diff(np.concatenate([[low], inner, [high]])) > 0).all():
            raise SchemaError(
                f"{text} in the formula needs knots that rise strictly between the bounds "
                f"[{low:g}, {high:g}]: give fewer, or others by knots="
            )
        ends = (float(low), float(high))
        return bases.spline(text, argument, inner, ends, degree=degree, whole=whole)

    def _powers(self, text: str, node: ast.Call) -> Expression:
        argument = self._single(text, self._argument(text, node, 2))
        given = self._options(text, node, ("degree", "raw"), positional="degree")
        degree = given.get("degree", 1)
        _whole_number(text, "degree", degree, 1, _MOST_DEGREES)
        if given.get("raw", False):
            return bases.powers(text, argument, degree)
        cells = argument.values(declared_cells(self.schema, argument.sources))[:, 0]
        if len(np.unique(cells)) <= degree:
            raise SchemaError(f"{text} in the formula has fewer different values than it needs")
        return bases.orthogonal(text, argument, degree, cells)

    def _single(self, text: str, argument: Expression) -> Expression:
        if len(argument.range.low) != 1 or not argument.sources:
            raise SchemaError(f"{text} in the formula needs a column of one number a row")
        return argument

    def _options(
        self, text: str, node: ast.Call, known: tuple[str, ...], positional: str
    ) -> dict[str, Any]:
        """Arguments besides the first: numbers, lists of numbers, True and False."""
        given = dict(zip([positional], node.args[1:], strict=False))
        for keyword in node.keywords:
            if keyword.arg not in known or keyword.arg in given:
                raise SchemaError(
                    f"{text} in the formula has an argument {keyword.arg!r}: expected "
                    f"{listed(known)}, each once"
                )
            given[keyword.arg] = keyword.value
        try:
            return {name: ast.literal_eval(value) for name, value in given.items()}
        except ValueError:
            raise SchemaError(f"{text} in the formula: arguments must be numbers") from None

    def _category(self, node: ast.Call) -> Category:
        """``C(ward)``, ``C(ward, Treatment('b'))`` or ``C(ward, Sum)``."""
        name = self._text(node.args[0]) if node.args else ""
        if name not in self.schema or len(node.args) > 2 or node.keywords:
            raise SchemaError(
                f"{self.text} in the formula: C() takes a column and, if need be, "
                "Treatment('level') or Sum"
            )
        column = self.schema[name]
        found = Category(self.text, column, _levels(self.text, column))
        return found if len(node.args) < 2 else self._contrast(found, node.args[1])

    def _contrast(self, found: Category, node: ast.expr) -> Category:
        call = isinstance(node, ast.Call)
        name = self._text(node.func if isinstance(node, ast.Call) else node)
        given = (
            [*node.args, *(k.value for k in node.keywords)] if isinstance(node, ast.Call) else []
        )
        if name in ("Sum", "contr.sum") and not given:
            return replace(found, sums=True)
        if name in ("Treatment", "contr.treatment") and len(given) <= 1:
            if not call or not given:
                return found
            level = str(getattr(given[0], "value", None))
            if level in found.levels:
                return replace(found, base=found.levels.index(level))
            raise SchemaError(
                f"{self.text} in the formula: the reference must be one of {listed(found.levels)}"
            )
        raise SchemaError(f"{self.text} in the formula: contrasts are Treatment('level') or Sum")

    def _name(self, node: ast.expr) -> str:
        """A function's name; ``np.log`` is ``log``."""
        return self._text(node).removeprefix("np.").removeprefix("numpy.")

    def _text(self, node: ast.expr) -> str:
        """As it was written, with backquoted names in place."""
        text = ast.unparse(node)
        for stands, name in self.names.items():
            text = name if text == stands else text.replace(stands, f"`{name}`")
        return text


def _levels(text: str, column: Column) -> tuple[str, ...]:
    """Of a category, or the whole numbers that a column may be."""
    if column.categories is not None:
        return column.categories
    if column.kind == "binary":
        return ("0", "1")
    if column.kind == "real" or column.bounds is None:
        raise SchemaError(
            f"{text} in the formula needs the levels of '{column.name}', which would have to be "
            "read off the rows: declare it a category, or a count with narrow bounds"
        )
    low, high = map(int, column.bounds)
    if high - low >= _MOST_LEVELS:
        raise SchemaError(
            f"{text} in the formula would have {high - low + 1} levels by the declared bounds: "
            "declare it a category, or narrower bounds"
        )
    return tuple(str(value) for value in range(low, high + 1))


def _whole_number(text: str, name: str, value: Any, low: int, high: int) -> None:
    if not (isinstance(value, int) and not isinstance(value, bool) and low <= value <= high):
        raise SchemaError(
            f"{text} in the formula needs {name} to be a whole number from {low} to {high}"
        )
