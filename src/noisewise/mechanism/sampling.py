"""Poisson sampling: independent coins of one exact rate, at a cost that grows with the batch.

The rate is ``threshold / 2^40``. Two ways to toss so many coins have exactly that law:

**Coins.** Forty random bits for each record, which is in where they make a number below the
threshold. One byte decides all but one case in 256; only those get the other 32 bits.

**Gaps.** Between the records that are in, count those that are not. For independent coins of rate p
these gaps are independent, with P(gap >= g) = (1 - p)^g for g = 0, 1, ..., and a sequence of such
gaps, laid end to end, is a sequence of such coins: that is what a Bernoulli process is. So records
are independent, in pairs, in batch sizes and in whatever else. A gap is found from a uniform U in
(0, 1), as the largest g with (1 - p)^g > U; then P(gap >= g) = P(U < (1 - p)^g) = (1 - p)^g.
No record that is left out is touched.

What U is, and the comparison, are exact. U is an endless string of bits, of which the first 64 are
drawn. They almost always settle the gap, which `_gaps` finds in double precision, with a margin for
every error on the way: where log(U) / log(1 - p) lies within the margin of a whole number, or U
below 2^-24, `_exact_gap` compares U with (1 - p)^g in integers, with as many more bits of both as
it takes. The one thing that is taken on trust is that the platform's logarithm is right to one part
in 2^48, sixteen times the error that C libraries allow themselves (a test compares it with exact
ones).
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from noisewise._shapes import Int

RATE_UNIT = 2**40
"""Rates are multiples of one over this."""
_WORD = 2**32
_STEP = 2**8
_COINS_FROM = RATE_UNIT // 32 * 3
"""From this rate on coins cost less than gaps (benchmarks/sampling.py)."""
_LEAST_WORD = 2**40
_MARGIN = 2.0**-39
"""Of -log(U): 2^-40 for the bits that are not drawn yet, at U >= 2^-24, and less than 2^-41 for
roundings: -log(U) is below 45, and the logarithms and their quotient are each right to 2^-48."""


class Bits(Protocol):
    """A generator of random 64-bit words."""

    def random_raw(self, size: int) -> Any:
        """This many words."""


def sampled_places(bits: Bits, cells: int, threshold: int) -> Int[np.ndarray, " places"]:
    """Which of so many records are in, in order: each independently, with ``threshold / 2^40``.

    Args:
        bits: Where randomness comes from.
        cells: How many coins there are: records times steps.
        threshold: The rate times 2^40.
    """
    if threshold == RATE_UNIT:
        return np.arange(cells)
    if threshold >= _COINS_FROM:
        return by_coins(bits, cells, threshold)
    return by_gaps(bits, cells, threshold)


def by_coins(bits: Bits, cells: int, threshold: int) -> Int[np.ndarray, " places"]:
    """`sampled_places` by a coin for each record.

    Args:
        bits: Where randomness comes from.
        cells: How many coins there are.
        threshold: The rate times 2^40.
    """
    high, low = divmod(threshold, _WORD)
    if high == _STEP:
        return np.arange(cells)
    coins = bits.random_raw(cells // 8 + 1).view(np.uint8)[:cells]
    included = coins < high
    ties = np.flatnonzero(coins == high)
    more = bits.random_raw(len(ties) // 2 + 1).view(np.uint32)[: len(ties)]
    included[ties] = more < low
    return np.flatnonzero(included)


def by_gaps(bits: Bits, cells: int, threshold: int) -> Int[np.ndarray, " places"]:
    """`sampled_places` by the gaps between records that are in.

    Args:
        bits: Where randomness comes from.
        cells: How many coins there are.
        threshold: The rate times 2^40, below 2^40.
    """
    parts = [np.empty(0, np.int64)]
    last = -1
    while last < cells:
        mean = (cells - 1 - last) * (threshold / RATE_UNIT)
        enough = math.ceil(mean + 6 * math.sqrt(mean)) + 8
        parts.append(last + np.cumsum(_gaps(bits, enough, threshold, cells) + 1))
        last = int(parts[-1][-1])
    places = np.concatenate(parts)
    return places[: np.searchsorted(places, cells)]


def _gaps(bits: Bits, number: int, threshold: int, most: int) -> Int[np.ndarray, " number"]:
    """Independent gaps; one that is longer than ``most`` is cut to it, as it leads past the end."""
    words = bits.random_raw(number)
    per_record = math.log1p(-threshold / RATE_UNIT)
    with np.errstate(divide="ignore"):  # a word of zero bits: decided below
        gaps = np.log(words * 2.0**-64)
    gaps /= per_record
    np.minimum(gaps, float(most), out=gaps)
    doubtful = np.abs(gaps - np.rint(gaps)) <= _MARGIN / -per_record
    doubtful &= gaps < most
    doubtful |= words < _LEAST_WORD
    found = gaps.astype(np.int64)
    for place in np.flatnonzero(doubtful):
        found[place] = _exact_gap(int(words[place]), bits, threshold, most)
    return found


def _exact_gap(word: int, bits: Bits, threshold: int, most: int) -> int:
    """The gap that belongs to a uniform number with these first 64 bits, at most ``most``."""
    uniform = _Uniform(word, bits)
    low, high = 0, most + 1  # (1 - p)^low is above the number, as 1 is
    while high - low > 1:
        middle = (low + high) // 2
        if uniform.below_power(RATE_UNIT - threshold, middle):
            low = middle
        else:
            high = middle
    return low


class _Uniform:
    """A uniform number in (0, 1), known to as many bits as were needed so far."""

    def __init__(self, word: int, bits: Bits) -> None:
        self._known, self._places, self._bits = word, 64, bits

    def below_power(self, base: int, exponent: int) -> bool:
        """Whether it is below ``(base / 2^40) ** exponent``: decided by integers alone."""
        while True:
            digits = self._places + 64
            least, most = _power(base, exponent, digits)
            if (self._known + 1) << 64 <= least:
                return True
            if self._known << 64 >= most:
                return False
            self._known = (self._known << 64) | int(self._bits.random_raw(1)[0])
            self._places += 64


def _power(base: int, exponent: int, digits: int) -> tuple[int, int]:
    """Bounds on ``(base / 2^40) ** exponent`` in units of ``2^-digits``."""
    one = 1 << digits
    low = high = one
    square_low = square_high = base << (digits - 40)
    while exponent:
        if exponent & 1:
            low = low * square_low >> digits
            high = -(-high * square_high >> digits)
        square_low = square_low * square_low >> digits
        square_high = -(-square_high * square_high >> digits)
        exponent >>= 1
    return low, high
