"""Splines and polynomials of an expression, with knots and norms from what is declared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import Polynomial
from scipy.interpolate import BSpline

from noisewise.data.formulas.expressions import Arrays, Expression, Range


@dataclass(frozen=True)
class Spline(Expression):
    """B-splines between the expression's bounds, as R's ``bs``."""

    text: str
    argument: Expression
    knots: tuple[float, ...]
    """All of them: the bounds, repeated, and the inner ones."""
    degree: int
    first: int
    """The first function that is kept: the others add up to what the intercept says."""

    @property
    def sources(self) -> tuple[str, ...]:
        """See `Expression.sources`."""
        return self.argument.sources

    @property
    def range(self) -> Range:
        """See `Expression.range`: each function lies between 0 and 1."""
        width = len(self.knots) - self.degree - 1 - self.first
        return Range(np.zeros(width), np.ones(width))

    def values(self, arrays: Arrays) -> np.ndarray:
        """See `Expression.values`."""
        knots = np.array(self.knots)
        inside = np.clip(self.argument.values(arrays)[:, 0], knots[0], knots[-1])
        found = BSpline.design_matrix(inside, knots, self.degree)
        dense: np.ndarray = found.toarray()[:, self.first :]
        return dense


@dataclass(frozen=True)
class Powers(Expression):
    """Polynomials of an expression: ``poly``."""

    text: str
    argument: Expression
    centre: float
    half: float
    coefficients: tuple[tuple[float, ...], ...]
    """Of each polynomial, in (x - centre) / half, which lies between -1 and 1."""

    @property
    def sources(self) -> tuple[str, ...]:
        """See `Expression.sources`."""
        return self.argument.sources

    @property
    def _polynomials(self) -> list[Polynomial]:
        return [Polynomial(row) for row in self.coefficients]

    @property
    def range(self) -> Range:
        """See `Expression.range`: extremes lie at the ends or where the slope is 0."""
        ends = []
        for one in self._polynomials:
            turns = one.deriv().roots()
            real = turns.real[(np.abs(turns.imag) < 1e-9) & (np.abs(turns.real) <= 1)]
            at = one(np.concatenate([[-1.0, 1.0], real]))
            ends.append((at.min(), at.max()))
        return Range(*np.array(ends).T)

    def values(self, arrays: Arrays) -> np.ndarray:
        """See `Expression.values`."""
        u = (self.argument.values(arrays)[:, 0] - self.centre) / self.half
        return np.column_stack([one(u) for one in self._polynomials])


def spline(
    text: str,
    argument: Expression,
    inner: np.ndarray,
    ends: tuple[float, float],
    *,
    degree: int,
    whole: bool,
) -> Spline:
    """B-splines with these inner knots.

    Args:
        text: As it is written.
        argument: What they are functions of.
        inner: Knots strictly between the ends.
        ends: Where the splines begin and end.
        degree: Of the pieces.
        whole: Whether to keep the first function, for a formula without an intercept.
    """
    low, high = ends
    knots = (*[low] * (degree + 1), *map(float, inner), *[high] * (degree + 1))
    return Spline(text, argument, knots, degree, 0 if whole else 1)


def powers(text: str, argument: Expression, degree: int) -> Powers:
    """Plain powers of an expression, the first to that degree.

    Args:
        text: As it is written.
        argument: What they are powers of.
        degree: The highest.
    """
    centre, half = _middle(argument)
    x = Polynomial([centre, half])
    return Powers(text, argument, centre, half, tuple(_row(x**k) for k in range(1, degree + 1)))


def orthogonal(text: str, argument: Expression, degree: int, cells: np.ndarray) -> Powers:
    """Polynomials that are uncorrelated, with mean 0 and sd 1, over these values.

    R's have these over the rows, with a sum of squares of 1.

    Args:
        text: As it is written.
        argument: What they are polynomials of.
        degree: The highest.
        cells: Its values as the schema declares them.
    """
    centre, half = _middle(argument)
    u = (cells - centre) / half
    basis = [Polynomial([1.0])]
    for _ in range(degree):
        # Powers of u would be nearly collinear: u times the last one is taken instead, twice.
        found = Polynomial([0.0, 1.0]) * basis[-1]
        for _ in range(2):
            for before in basis:
                found -= before * float(np.mean(found(u) * before(u)))
        basis.append(found / float(np.sqrt(np.mean(found(u) ** 2))))
    return Powers(text, argument, centre, half, tuple(_row(one) for one in basis[1:]))


def _middle(argument: Expression) -> tuple[float, float]:
    low, high = (float(end[0]) for end in argument.range)
    return (low + high) / 2, (high - low) / 2


def _row(one: Polynomial) -> tuple[float, ...]:
    return tuple(map(float, one.coef))
