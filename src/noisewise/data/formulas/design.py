"""A formula's design matrix: record by record, and by the schema alone."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from noisewise._validate import shown
from noisewise.data.encoding import Encoder, checked_target
from noisewise.data.errors import SchemaError
from noisewise.data.formulas.coding import Category, coded
from noisewise.data.formulas.compiling import compile_factor
from noisewise.data.formulas.declared import moments
from noisewise.data.formulas.expressions import COMPARISONS, Binary, Cells, Expression, Level
from noisewise.data.formulas.parsing import parse
from noisewise.data.formulas.terms import Contrast, Encoded, Number, Part, Product, encode
from noisewise.data.gaps import indicator_name, is_gap
from noisewise.data.schema import Schema

_MOST_COLUMNS = 2000


class FormulaEncoder(Encoder):
    """The encoding that a formula describes, fixed by the schema alone, so that it costs no
    privacy.

    The columns span what R's and statsmodels' do for the same formula, under the same names. Each
    number is moved and scaled as `Encoder` does it, by declared mean and sd or by the bounds, so
    that encoded columns are of about unit size; `describe` says what the encoded coefficients are
    in the formula's own terms. A column of the table whose cells may be missing has its fill value
    in place of gaps, and a 0/1 column after the first term that has it says where they are.

    Args:
        formula: Such as ``visits ~ age * sex``.
        schema: The declared columns.

    >>> from noisewise.data import Column
    >>> schema = Schema((
    ...     Column(name="age", kind="real", bounds=(0, 100), mean=45, sd=15),
    ...     Column(name="sex", kind="category", categories=("f", "m")),
    ...     Column(name="visits", kind="count", bounds=(0, 50)),
    ... ))
    >>> encoder = FormulaEncoder("visits ~ age * sex", schema)
    >>> encoder.names
    ['Intercept', 'age', 'sex[T.m]', 'age:sex[T.m]']
    >>> encoder.design({"age": np.array([60.0, 30.0]), "sex": np.array([1, 0])}).tolist()
    [[1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 0.0, -0.0]]
    """

    def __init__(self, formula: str, schema: Schema) -> None:
        parsed = parse(formula, schema)
        self.schema, self.formula = schema, " ".join(formula.split())
        self.outcome = parsed.outcome
        self.target = checked_target(schema, parsed.outcome[0])
        texts = dict.fromkeys(text for term in parsed.terms for text in term)
        factors = {text: compile_factor(text, schema) for text in texts}
        columns = _columns(parsed.terms, factors, schema)
        self.features = tuple(dict.fromkeys(s for each in columns for s in each.sources))
        for name in self.outcome:
            if name in self.features:
                raise SchemaError(
                    f"'{name}' is on both sides of the formula: take it out of the right one"
                )
        self._encoding = encode(columns)
        self._check()

    @property
    def names(self) -> list[str]:
        """The names of the coefficients, as R and statsmodels write them."""
        return [each.product.label for each in self._encoding.columns]

    @property
    def constant(self) -> tuple[float, ...] | None:
        """Coefficients that make a predictor of 1 for everybody; None where there are none."""
        return self._encoding.constant

    def design(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """See `Encoder.design`."""
        for name in self.features:
            if name not in arrays:
                raise SchemaError(f"column {name!r} is in the formula but not in the arrays")
        count = len(next(iter(arrays.values()), np.empty(0)))
        found = np.ones((count, len(self._encoding.columns)), np.float32)
        known: dict[str, np.ndarray] = {}
        for k, each in enumerate(self._encoding.columns):
            found[:, k] = self._values(each, arrays, known)
        return found

    def _values(
        self, each: Encoded, arrays: Mapping[str, np.ndarray], known: dict[str, np.ndarray]
    ) -> np.ndarray:
        if each.product.missing is not None:
            name, entry = each.product.missing
            gaps = is_gap(np.asarray(arrays[name]))
            found: np.ndarray = gaps.reshape(len(gaps), -1)[:, entry].astype(np.float64)
            return found
        value = np.ones(())
        for part in each.product.parts:
            text = part.factor.text
            if isinstance(part, Number):
                if text not in known:
                    known[text] = part.factor.values(arrays)
                centre, scale = each.move(part)
                value = value * ((known[text][:, part.place] - centre) / scale)
            else:
                if text not in known:
                    known[text] = part.factor.codes(arrays)
                value = value * part.weights[known[text]]
        return value

    def describe(self) -> list[dict[str, Any]]:
        """Name, source columns and encoding of each column of the design matrix.

        ``term`` is the formula's term that it belongs to. ``original`` says what the encoded
        coefficient adds to the formula's own, by their names: those are per unit, at 0 of all else.
        ``level`` and ``reference`` are those of a category that is a term of its own.
        """
        names = self.names
        return [
            {
                "name": names[k],
                "term": each.product.term,
                "column": each.product.sources[0] if len(each.product.sources) == 1 else None,
                "columns": list(each.product.sources),
                "encoding": _words(each),
                "original": {
                    names[j]: weight
                    for j, weight in enumerate(self._encoding.original[:, k].tolist())
                    if weight
                },
            }
            | ({} if each.product.missing is None else {"missing": True})
            | _level(each.product)
            for k, each in enumerate(self._encoding.columns)
        ]

    def feature_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """See `Encoder.feature_bounds`."""
        ends = np.array([_ends(each) for each in self._encoding.columns]).T
        return ends[0].astype(np.float32), ends[1].astype(np.float32)

    def __repr__(self) -> str:
        return f"FormulaEncoder({self.formula!r})"

    def _check(self) -> None:
        """Names must differ, and numbers fit single precision."""
        names = self.names
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise SchemaError(
                f"two columns of the formula would be called {shown(twice)}: rename one"
            )
        for each in self._encoding.columns:
            if not max(map(abs, _ends(each))) <= float(np.finfo(np.float32).max):
                raise SchemaError(
                    f"'{each.product.label}' in the formula is too large within the declared "
                    "bounds for single precision: declare narrower bounds or a larger sd"
                )


def _columns(
    terms: tuple[tuple[str, ...], ...],
    factors: Mapping[str, Expression | Category],
    schema: Schema,
) -> tuple[Product, ...]:
    """All columns, in the terms' order; gaps after the first term that has them."""
    kinds = [
        (
            frozenset(text for text in term if isinstance(factors[text], Expression)),
            tuple(text for text in term if isinstance(factors[text], Category)),
        )
        for term in terms
    ]
    found: list[Product] = []
    told: set[str] = set()
    for term, blocks in zip(terms, coded(kinds), strict=True):
        for block in blocks:
            choices = [
                _parts(factors[text], block.get(text), schema)
                for text in term
                if isinstance(factors[text], Expression) or text in block
            ]
            _refuse_many(len(found) + int(np.prod([len(choice) for choice in choices])))
            # The first factor's columns change fastest, as in R.
            found += [Product(parts[::-1]) for parts in product(*reversed(choices))]
        for text in term:
            for name in _sources(factors[text]):
                if schema[name].gaps and name not in told:
                    told.add(name)
                    found += [
                        Product((), missing=(name, entry), name=indicator_name(label))
                        for entry, label in enumerate(schema[name].entry_names)
                    ]
    if not found:
        raise SchemaError("the formula has no terms on its right side: name a column, or 1")
    return tuple(found)


def _sources(factor: Expression | Category) -> tuple[str, ...]:
    return factor.sources if isinstance(factor, Expression) else (factor.column.name,)


def _refuse_many(count: int) -> None:
    if count > _MOST_COLUMNS:
        raise SchemaError(
            f"the formula has more than {_MOST_COLUMNS} columns: drop products of categories with "
            "many levels"
        )


def _parts(factor: Expression | Category, whole: bool | None, schema: Schema) -> list[Part]:
    """The columns of one factor."""
    if isinstance(factor, Category):
        coding = factor.contrasts(bool(whole))
        return [Contrast(factor, label, weights) for label, weights in coding.items()]
    low, high = factor.range
    centre, scale = low + (high - low) / 2, (high - low) / 2
    known = moments(factor, schema)
    if known is not None:
        centre, scale = known
    if _is_yes_or_no(factor):
        centre, scale = np.zeros_like(low), np.ones_like(low)
    for place, end in enumerate(high):
        if not (end > low[place] and scale[place] > 0):
            raise SchemaError(
                f"{factor.labels[place]} in the formula is the same for everybody by the schema: "
                "leave it out"
            )
    return [
        Number(factor, place, float(centre[place]), float(scale[place]))
        for place in range(len(low))
    ]


def _is_yes_or_no(factor: Expression) -> bool:
    """Whether it is 0 or 1, and stays as it is."""
    if isinstance(factor, Cells):
        return factor.column.kind == "binary"
    return isinstance(factor, Level) or (isinstance(factor, Binary) and factor.sign in COMPARISONS)


def _ends(each: Encoded) -> tuple[float, float]:
    """Least and greatest value of an encoded column."""
    low, high = (0.0, 1.0) if each.product.missing is not None else (1.0, 1.0)
    for part in each.product.parts:
        if isinstance(part, Number):
            centre, scale = each.move(part)
            ends = [(end[part.place] - centre) / scale for end in part.factor.range]
        else:
            ends = [float(part.weights.min()), float(part.weights.max())]
        every = [one * other for one in (low, high) for other in ends]
        low, high = min(every), max(every)
    return float(low), float(high)


def _level(column: Product) -> dict[str, str]:
    """The level and the reference that a category's contrast compares, where it is all there is."""
    only = column.parts[0] if len(column.parts) == 1 else None
    start = "" if only is None else f"{only.factor.text}[T."
    if not isinstance(only, Contrast) or not only.label.startswith(start):
        return {}
    reference = only.factor.levels[only.factor.base]
    return {"level": only.label[len(start) : -1], "reference": reference}


def _words(each: Encoded) -> str:
    """How a column is computed, for people."""
    if each.product.missing is not None:
        return "1 if missing, otherwise 0"
    said = []
    for part in each.product.parts:
        centre, scale = each.move(part) if isinstance(part, Number) else (0.0, 1.0)
        sign = "-" if centre > 0 else "+"
        moved = f"({part.label} {sign} {abs(centre):g})" if centre else part.label
        said.append(moved if scale == 1 else f"{moved} / {scale:g}")
    return " x ".join(said) or "1"
