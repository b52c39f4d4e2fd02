"""Numbers for tables: few digits, all of which count."""

import math

import numpy as np


def three_digits(value: float) -> str:
    """Three digits that count, trailing zeros kept, so that columns line up.

    >>> three_digits(0.16), three_digits(-12.345), three_digits(100.0), three_digits(math.nan)
    ('0.160', '−12.3', '100', 'n/a')
    """
    if not math.isfinite(value):
        return "n/a"
    return f"{value:#.3g}".rstrip(".").replace("-", "−")


def rounded(value: float, digits: int | None) -> str:
    """Digits after the point, without a minus sign on zero; None is four that count.

    >>> rounded(-0.001, 2), rounded(-0.01, 2), rounded(math.inf, 2), rounded(20180, 0)
    ('0.00', '−0.01', 'n/a', '20,180')
    """
    if not math.isfinite(value):
        return "n/a"
    text = f"{value:.4g}" if digits is None else f"{round(value, digits) + 0.0:,.{digits}f}"
    return text.replace("-", "−")


def percent(share: float) -> str:
    """A share in percent, two digits where it is small.

    >>> percent(0.07), percent(0.5), percent(1.0), percent(0.0961)
    ('7.0%', '50%', '100%', '9.6%')
    """
    return f"{100 * share:#.2g}%" if share < 0.0995 else f"{100 * share:.0f}%"


def percent_range(shares: np.ndarray) -> str:
    """The least and the largest; '' where they read the same.

    >>> percent_range(np.array([0.1, 0.2])), percent_range(np.array([0.2, 0.2]))
    ('10% to 20%', '')
    """
    low, high = percent(float(np.min(shares))), percent(float(np.max(shares)))
    return "" if low == high else f"{low} to {high}"


def tick_label(value: float, _: int) -> str:
    """Tick labels without offsets or mathematics."""
    text = f"{value:,.0f}" if abs(value) >= 1e3 else f"{value:.4g}"
    return text.replace("-", "−")
