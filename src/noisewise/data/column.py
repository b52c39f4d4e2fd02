"""One declared column: its kind, its bounds, and public guesses of how its values are spread."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from noisewise._validate import listed, shown
from noisewise.data.errors import SchemaError
from noisewise.data.gaps import checked_gaps, with_gaps
from noisewise.data.labels import label_of
from noisewise.data.weights import simulated_weights

# What may be declared for each kind, in the order in which it is written out.
_OF_GAPS = ("missing", "how", "fill", "missing_share")
_DECLARABLE: dict[str, tuple[str, ...]] = {
    "real": ("bounds", "shape", "mean", "sd", *_OF_GAPS),
    "count": ("bounds", "mean", "sd", *_OF_GAPS),
    "binary": ("share", *_OF_GAPS),
    "category": ("categories", "shares", *_OF_GAPS),
    "weight": ("bounds", "mean", "sd"),
}
KINDS = tuple(_DECLARABLE)
_KINDS_TEXT = (
    "'real', 'count' (both with bounds), 'binary' (0 and 1), 'category' (with categories), "
    "'weight' (with bounds)"
)

_LARGEST_COUNT = 2**53  # every integer up to here is exact in float64
_FLAT = 1e6  # a normal this many times wider than the bounds is uniform on them, to rounding


@dataclass(frozen=True, kw_only=True)
class Column:
    """What is publicly known about one column before any row is read.

    `mean`, `sd`, `share` and `shares` are guesses of the marginal distribution, **declared from
    outside knowledge** (a census, an earlier publication, common sense). They are used to scale the
    column and to simulate tables when planning. They are never computed from the data: a mean read
    off the rows and written here would leave the privacy wall without being accounted for. A poor
    guess costs accuracy, not privacy.

    Attributes:
        name: The column's name in the table.
        kind: `"real"`, `"count"` (whole numbers from 0), `"binary"`, `"category"`, or `"weight"`:
            a survey weight, by which what its record says is multiplied.
        bounds: `(lo, hi)`, for real, count and weight columns: every value lies in between, ends
            included.
        categories: The names of all levels, at least two, for category columns. The first is the
            reference.
        shape: `(p,)` makes a real column hold a vector of `p` entries in each row, all with the
            same bounds and the same guesses; `()`, the default, is one value a row.
        mean: Guess of the mean (real, count, weight); needs `sd`. Weights are divided by it, or by
            the middle of their bounds.
        sd: Guess of the standard deviation (real, count, weight); needs `mean`.
        share: Guess of the share of ones (binary).
        shares: Guess of the share of each category, in the order of `categories`; sums to 1.
        missing: `"allowed"` where cells may be missing; None, the default, refuses them.
        how: What a regression does with a missing cell: `"indicator"`, the default, puts `fill` in
            its place and adds a 0/1 column for the gap; `"integrate"` integrates the cell out under
            the declared distribution. A mixture integrates it out under its own.
        fill: The value in place of a gap; by default the declared mean, the middle of the bounds or
            the reference category.
        missing_share: Guess of the share of missing cells, for simulated tables; 0.05 by default.

    >>> Column(name="age", kind="real", bounds=(0, 100), mean=45, sd=15).summary()
    'age: real in [0, 100]'
    """

    name: str
    kind: str
    bounds: tuple[float, float] | None = None
    categories: tuple[str, ...] | None = None
    shape: tuple[int, ...] = ()
    mean: float | None = None
    sd: float | None = None
    share: float | None = None
    shares: tuple[float, ...] | None = None
    missing: str | None = None
    how: str | None = None
    fill: float | str | None = None
    missing_share: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise SchemaError(f"a column's name must be a non-empty string, got {shown(self.name)}")
        if self.kind not in KINDS:
            raise _fault(
                self.name, f"has type {shown(self.kind)}: the type must be one of {_KINDS_TEXT}"
            )
        _refuse_foreign_fields(self)
        checked: dict[str, Any] = {"shape": _checked_shape(self.name, self.shape)}
        if self.kind in ("real", "count", "weight"):
            checked["bounds"] = _checked_bounds(self)
            checked["mean"], checked["sd"] = _checked_moments(self, checked["bounds"])
        elif self.kind == "category":
            checked["categories"] = _checked_categories(self)
            checked["shares"] = _checked_shares(self, len(checked["categories"]))
        elif self.share is not None:
            checked["share"] = _checked_share(self)
        for field, value in checked.items():  # frozen: this is the one place that normalises
            object.__setattr__(self, field, value)
        for field, value in checked_gaps(self).items():
            object.__setattr__(self, field, value)

    def __repr__(self) -> str:
        """What is declared, as it would be written."""
        declared = {"name": self.name, "kind": self.kind} | {
            field: value
            for field in _DECLARABLE[self.kind]
            if (value := getattr(self, field)) not in (None, ())
        }
        return f"Column({', '.join(f'{field}={value!r}' for field, value in declared.items())})"

    @property
    def gaps(self) -> bool:
        """Whether cells may be missing."""
        return self.missing == "allowed"

    @property
    def complete(self) -> Column:
        """The same column without missing cells."""
        if not self.gaps:
            return self
        return replace(self, missing=None, how=None, fill=None, missing_share=None)

    @property
    def entry_names(self) -> tuple[str, ...]:
        """A name for each number in a row: the column's own; `name[0]`, `name[1]`, ... for vectors.

        >>> Column(name="x", kind="real", bounds=(0, 1), shape=(2,)).entry_names
        ('x[0]', 'x[1]')
        """
        if not self.shape:
            return (self.name,)
        return tuple(
            f"{self.name}[{','.join(map(str, index))}]" for index in np.ndindex(self.shape)
        )

    def summary(self) -> str:
        """The declaration in a few words, for people."""
        found = f"{self.name}: {self.kind}"
        if self.bounds is not None:
            vector = f" vector of shape {self.shape}" if self.shape else ""
            found += f"{vector} in [{self.bounds[0]:g}, {self.bounds[1]:g}]"
        if self.categories is not None:
            found += f" of {', '.join(self.categories)}"
        return f"{found}, or missing" if self.gaps else found

    @classmethod
    def from_dict(cls, name: str, declared: Mapping[str, Any]) -> Column:
        """Read a declaration `{"type": ..., "bounds": ..., ...}`; unknown keys are refused.

        Args:
            name: The column's.
            declared: What a schema file says of it.
        """
        if not isinstance(declared, Mapping):
            raise _fault(
                name, f"is declared as {shown(declared)}: expected a table with a type, e.g. 'real'"
            )
        if "type" not in declared:
            raise _fault(name, f"has no type: add type = one of {_KINDS_TEXT}")
        known = {"type"}.union(*_DECLARABLE.values())
        unknown = [key for key in declared if key not in known]
        if unknown:
            raise _fault(
                name, f"has unknown keys {listed(unknown)}: expected {', '.join(sorted(known))}"
            )
        return cls(
            name=name, kind=declared["type"], **{k: v for k, v in declared.items() if k != "type"}
        )

    def to_dict(self) -> dict[str, Any]:
        """The declaration as plain Python values, which `Column.from_dict` reads back."""
        plain: dict[str, Any] = {"type": self.kind}
        for field in _DECLARABLE[self.kind]:
            value = getattr(self, field)
            if value is not None and value != ():
                plain[field] = list(value) if isinstance(value, tuple) else value
        return plain

    def simulate(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw `n` values from the declared marginal, gaps included where cells may be missing;
        category columns as integer codes.

        Args:
            rng: Where randomness comes from.
            n: How many values.
        """
        return with_gaps(self, self._simulate_whole(rng, n), rng)

    def _simulate_whole(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Without gaps."""
        if self.kind == "binary":
            chance = 0.5 if self.share is None else self.share
            return (rng.random(n) < chance).astype(np.int8)
        if self.categories is not None:
            weights = np.asarray(self.shares or np.ones(len(self.categories)))
            return rng.choice(len(weights), size=n, p=weights / weights.sum()).astype(np.int32)
        assert self.bounds is not None  # what is left is a number, which must have them
        lo, hi = self.bounds
        if self.kind == "weight":
            return simulated_weights(self, rng, n)
        if self.kind == "count":
            # Half a unit more on both sides, so that the ends get their full share when rounding.
            drawn = np.rint(self._simulate_real(rng, (n,), lo - 0.5, hi + 0.5))
            return np.asarray(np.clip(drawn, lo, hi), dtype=np.int64)
        return self._simulate_real(rng, (n, *self.shape), lo, hi)

    def _simulate_real(
        self, rng: np.random.Generator, size: tuple[int, ...], lo: float, hi: float
    ) -> np.ndarray:
        """Normal draws truncated to the bounds (inverse distribution function), or uniform ones."""
        if self.mean is None or self.sd is None or self.sd > _FLAT * (hi - lo):
            return np.clip(rng.uniform(lo, hi, size), lo, hi)
        low, high = ndtr((lo - self.mean) / self.sd), ndtr((hi - self.mean) / self.sd)
        drawn = self.mean + self.sd * ndtri(low + (high - low) * rng.random(size))
        return np.asarray(np.clip(drawn, lo, hi))  # the inverse is infinite at 0 and 1


def _fault(name: str, what: str) -> SchemaError:
    """The error for one column, in one line."""
    return SchemaError(f"column {shown(name)} {what}")


def _refuse_foreign_fields(column: Column) -> None:
    """Refuse what this kind of column does not use: it would be silently ignored."""
    for fields in _DECLARABLE.values():
        for field in fields:
            value = getattr(column, field)
            absent = value is None or (field == "shape" and value == ())
            if not absent and field not in _DECLARABLE[column.kind]:
                allowed = ", ".join(_DECLARABLE[column.kind])
                what = f"declares {field}, which a {column.kind} column does not have"
                raise _fault(column.name, f"{what}: expected only {allowed}")


def _finite(value: object) -> float | None:
    """`value` as a finite float; None where it is not one (booleans are not numbers here)."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _checked_shape(name: str, shape: object) -> tuple[int, ...]:
    """The shape as a tuple of positive Python integers."""
    entries = shape if isinstance(shape, (list, tuple)) else (None,)
    if not all(
        isinstance(n, numbers.Integral) and not isinstance(n, bool) and int(n) > 0 for n in entries
    ):
        raise _fault(
            name, f"has shape {shown(shape)}: expected positive integers, e.g. shape = [10]"
        )
    return tuple(int(n) for n in entries)


def _checked_bounds(column: Column) -> tuple[float, float]:
    """Finite bounds in order; for a count, whole numbers from 0."""
    if column.bounds is None:
        raise _fault(column.name, f"has no bounds: a {column.kind} column needs bounds = [lo, hi]")
    pair = column.bounds if isinstance(column.bounds, (list, tuple)) else ()
    ends = [_finite(end) for end in pair]
    if len(ends) != 2 or ends[0] is None or ends[1] is None:
        what = f"has bounds {shown(column.bounds)}: expected two finite numbers, bounds = [lo, hi]"
        raise _fault(column.name, what)
    lo, hi = ends[0], ends[1]
    # Half the range is a scale to divide by, so it must be a positive finite number itself.
    if not 0 < (hi - lo) / 2 < math.inf:
        what = f"has bounds {shown(column.bounds)}: expected lo < hi, a finite range apart"
        raise _fault(column.name, what)
    if column.kind == "weight" and lo < 0:
        what = f"has bounds {shown(column.bounds)}: a weight is 0 or more"
        raise _fault(column.name, what)
    if column.kind != "count":
        return lo, hi
    if not (lo >= 0 and lo.is_integer() and hi.is_integer() and hi <= _LARGEST_COUNT):
        what = f"has bounds {shown(column.bounds)}: a count needs whole numbers from 0 to 2**53"
        raise _fault(column.name, what)
    return int(lo), int(hi)


def _checked_moments(
    column: Column, bounds: tuple[float, float]
) -> tuple[float, float] | tuple[None, None]:
    """Mean and sd, both or neither."""
    if column.mean is None and column.sd is None:
        return None, None
    if column.mean is None or column.sd is None:
        found, absent = ("sd", "mean") if column.mean is None else ("mean", "sd")
        raise _fault(column.name, f"declares {found} without {absent}: declare both, or neither")
    mean, sd = _finite(column.mean), _finite(column.sd)
    if mean is None or not bounds[0] <= mean <= bounds[1]:
        what = f"has mean {shown(column.mean)}: expected a number inside bounds {list(bounds)}"
        raise _fault(column.name, what)
    if column.kind == "weight" and not mean > 0:
        raise _fault(column.name, f"has mean {shown(column.mean)}: expected a number above 0")
    if sd is None or not sd > 0:
        raise _fault(column.name, f"has sd {shown(column.sd)}: expected a positive finite number")
    return mean, sd


def _checked_categories(column: Column) -> tuple[str, ...]:
    """At least two different labels: non-empty text, or numbers, which become text."""
    if column.categories is None:
        raise _fault(
            column.name, 'has no categories: a category column needs categories = ["a", "b", ...]'
        )
    given = column.categories if isinstance(column.categories, (list, tuple)) else ()
    if len(given) < 2 or not all(map(_is_label, given)):
        what = f"has categories {shown(column.categories)}"
        raise _fault(column.name, f"{what}: expected a list of at least two non-empty labels")
    levels = [level if isinstance(level, str) else label_of(level) for level in given]
    same = [label_of(level) for level in levels]
    twice = next((level for level in same if same.count(level) > 1), None)
    if twice is not None:
        raise _fault(column.name, f"lists category {shown(twice)} twice: list every category once")
    return tuple(str(level) for level in levels)


def _is_label(level: object) -> bool:
    """Text, or a finite number; true and false are not taken, as files spell them in many ways."""
    if isinstance(level, str):
        return bool(level)
    return not isinstance(level, bool) and _finite(level) is not None


def _checked_shares(column: Column, levels: int) -> tuple[float, ...] | None:
    """One positive share per category, together 1."""
    if column.shares is None:
        return None
    given = column.shares if isinstance(column.shares, (list, tuple)) else ()
    shares = tuple(share for share in map(_finite, given) if share is not None and share > 0)
    if len(given) != levels or len(shares) != levels or not abs(math.fsum(shares) - 1) <= 1e-6:
        what = f"expected {levels} positive numbers that sum to 1, one for each category"
        raise _fault(column.name, f"has shares {shown(column.shares)}: {what}")
    return shares


def _checked_share(column: Column) -> float:
    """The share of ones, strictly between 0 and 1."""
    share = _finite(column.share)
    if share is None or not 0 < share < 1:
        what = f"has share {shown(column.share)}: expected a number strictly between 0 and 1"
        raise _fault(column.name, what)
    return share
