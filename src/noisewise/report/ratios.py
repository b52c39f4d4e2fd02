"""Odds, rates, hazards and times in words that a doctor understands."""

from itertools import groupby
from typing import NamedTuple

import numpy as np

from noisewise.models.families.ratios import Ratio
from noisewise.report.numbers import three_digits
from noisewise.result import Result

_SAME = 0.005
_TWICE = 1.95
_HUGE = 1e4
_UNCLEAR = "no clear difference"


class RatioLine(NamedTuple):
    """One change of a feature."""

    label: str
    """As in ``age +10``."""
    change: str
    """As in "age higher by 10"."""
    ratio: str
    interval: str
    words: str


class RatioGroup(NamedTuple):
    """Ratios of one thing, such as the odds of an illness."""

    name: str
    title: str
    meaning: str
    lines: list[RatioLine]

    @property
    def unclear(self) -> bool:
        """Whether an interval includes no difference."""
        return any(line.words.startswith(_UNCLEAR) for line in self.lines)


def ratio_groups(result: Result) -> list[RatioGroup]:
    """What each change of a feature multiplies, in numbers and in words; none where a model's
    coefficients have no such reading.

    Args:
        result: Of a regression.
    """
    groups = []
    for ratio, found in groupby(result.effects(), lambda effect: effect.ratio):
        lines = []
        for effect in found:
            low, middle, high = np.quantile(effect.draws, [0.025, 0.5, 0.975])
            interval = f"{three_digits(low)} to {three_digits(high)}"
            words = in_words(ratio, middle, low, high)
            lines.append(
                RatioLine(effect.label, effect.change, three_digits(middle), interval, words)
            )
        name = ratio.name[:1].upper() + ratio.name[1:]
        groups.append(RatioGroup(ratio.name, f"{name}: {ratio.of}", ratio.meaning, lines))
    return groups


def in_words(ratio: Ratio, middle: float, low: float, high: float) -> str:
    """A ratio and its interval, as one would tell a patient; where that has 1 in it, it alone.

    Args:
        ratio: Its kind.
        middle: The median.
        low: Where the interval begins.
        high: Where it ends.

    >>> from noisewise.models.families.ratios import ODDS, TIME
    >>> in_words(ODDS, 1.31, 1.12, 1.53)
    '31% higher (12% to 53% higher)'
    >>> in_words(ODDS, 1.05, 0.9, 1.22)
    'no clear difference (10% lower to 22% higher)'
    >>> in_words(TIME, 0.7, 0.62, 0.79)
    '30% shorter (21% to 38% shorter)'
    >>> in_words(ODDS, 2.5, 1.8, 3.5)
    '2.5 times as high (1.8 to 3.5)'
    """
    if low <= 1 <= high:
        return f"{_UNCLEAR} ({_said(ratio, low)} to {_said(ratio, high)})"
    if low > 1 and high >= _TWICE:
        return f"{_times(middle)} times {ratio.times} ({_times(low)} to {_times(high)})"
    said = [_said(ratio, factor) for factor in (middle, low, high)]
    ends = said[1:] if high > 1 else said[:0:-1]  # the smaller change first
    (first, unit), (last, same) = (_parted(end) for end in ends)
    if unit == same and unit:
        return f"{said[0]} ({first} to {last}{unit})"
    return f"{said[0]} ({ends[0]} to {ends[1]})"


def _times(factor: float) -> str:
    if factor > _HUGE:
        return "over 10,000"
    return f"{factor:.2g}" if factor < 100 else f"{factor:,.0f}"


def _said(ratio: Ratio, factor: float) -> str:
    if abs(factor - 1) < _SAME:
        return "the same"
    if factor >= _TWICE:
        return f"{_times(factor)} times {ratio.times}"
    word = ratio.more if factor > 1 else ratio.less
    percent = 100 * abs(factor - 1)
    shown = f"{percent:.0f}" if percent < 99 else f"{min(percent, 99.99):.4g}"
    return f"{shown}% {word}"


def _parted(said: str) -> tuple[str, str]:
    """Number and unit of a saying."""
    number, space, unit = said.partition(" ")
    return number, f"{space}{unit}" if number[0].isdigit() else ""
