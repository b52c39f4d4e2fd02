"""Poisson sampling has the accounted law, whichever way the coins are tossed.

Statistical checks each have a false-alarm rate below 1e-6 and fixed seeds, so what passes once
passes always.
"""

import itertools
import math
from decimal import Decimal, localcontext
from unittest import mock

import numpy as np
import pytest
from randomgen import AESCounter
from scipy import stats

from noisewise.mechanism import Passes, SecureSource, sampling
from noisewise.mechanism.sampling import RATE_UNIT, by_coins, by_gaps, sampled_places

WAYS = {"coins": by_coins, "gaps": by_gaps}
RATES = (1e-6, 0.003, 0.11, 0.5, 0.97)
CELLS = {1e-6: 10**8, 0.003: 10**6}


def generator(seed=0):
    return AESCounter(np.random.SeedSequence(seed))


def threshold(rate):
    return math.floor(rate * RATE_UNIT)


class Words:
    """A generator that gives these words."""

    def __init__(self, *words):
        self._left = list(words)

    def random_raw(self, size):
        found, self._left = self._left[:size], self._left[size:]
        assert len(found) == size
        return np.array(found, np.uint64)


def exact_gap(word, rate):
    """By logarithms of sixty digits; None where 64 bits do not settle it."""
    with localcontext() as context:
        context.prec = 60
        whole = (1 - Decimal(threshold(rate)) / RATE_UNIT).ln()
        ends = [int((Decimal(end) / 2**64).ln() / whole) for end in (word, word + 1)]
    return ends[0] if ends[0] == ends[1] else None


@pytest.mark.parametrize("rate", [2**-39, 1e-9, 1e-5, 0.01, 0.1, 0.7, 1 - 2**-40])
def test_gaps_are_those_of_their_uniform_numbers(rate):
    """In double precision where that settles it, in integers where not: small words and near ties
    among them."""
    words = generator(1).random_raw(150).tolist()
    words += [2**k + 5 for k in range(1, 63, 4)] + [1, 2**64 - 1]
    ties = [(1 - threshold(rate) / RATE_UNIT) ** g for g in (1, 2, 3, 50)]
    words += [int(tie * 2**64) + off for tie in ties for off in (-(2**13), 2**13) if tie > 0.01]
    words = [w for w in words if 0 < w < 2**64 and exact_gap(w, rate) is not None]
    assert len(words) > 100
    wanted = [exact_gap(word, rate) for word in words]
    most = 2**60
    found = sampling._gaps(Words(*words), len(words), threshold(rate), most)
    assert found.tolist() == [min(gap, most) for gap in wanted]
    for word, gap in zip(words, wanted, strict=True):
        assert sampling._exact_gap(word, Words(), threshold(rate), most) == min(gap, most)
        assert sampling._exact_gap(word, Words(), threshold(rate), 1) == min(gap, 1)


@pytest.mark.parametrize("power", [1, 2, 7])
def test_a_tie_of_64_bits_is_decided_by_the_next_ones(power):
    """P(gap >= g) is (1 - p)^g to 128 bits: one more in the last place is on the other side."""
    limit = threshold(1 / 3)
    exact = (RATE_UNIT - limit) ** power * 2**128 // RATE_UNIT**power
    for number, gap in ((exact - 1, power), (exact + 1, power - 1)):
        words = divmod(number, 2**64)
        assert sampling._gaps(Words(*words), 1, limit, 10**6)[0] == gap
    undecided = (exact // 2**64, exact % 2**64, 0)
    assert sampling._gaps(Words(*undecided), 1, limit, 10**6)[0] in (power, power - 1)


def test_the_logarithm_is_as_exact_as_the_margin_takes_it_to_be():
    words = np.concatenate([generator(2).random_raw(3000), 2 ** np.arange(40, 64, dtype=np.uint64)])
    uniforms = words * 2.0**-64
    near_one = 1 - np.geomspace(1e-15, 0.5, 500)
    values = np.concatenate([uniforms, near_one])
    with localcontext() as context:
        context.prec = 40
        for value, logarithm in zip(values, np.log(values), strict=True):
            exact = Decimal(float(value)).ln()
            assert abs(Decimal(float(logarithm)) - exact) <= abs(exact) * Decimal(2) ** -48
        for rate in (2**-40, 1e-12, 1e-6, 0.01, 0.12):
            exact = (1 - Decimal(rate)).ln()
            assert abs(Decimal(math.log1p(-rate)) - exact) <= abs(exact) * Decimal(2) ** -48


def test_doubts_are_settled_as_often_as_they_should_be():
    """Few draws need integers, and with all of them sent there nothing changes."""
    with mock.patch.object(sampling, "_exact_gap", side_effect=sampling._exact_gap) as exact:
        places = by_gaps(generator(3), 10**8, threshold(1e-4))
        assert exact.call_count < 10
    with mock.patch.object(sampling, "_MARGIN", 1.0):
        slowly = by_gaps(generator(3), 10**7, threshold(1e-4))
    first = np.searchsorted(places, 10**7)
    # Draws are asked for in another number, not in another order.
    assert np.array_equal(slowly, places[:first])


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("way", WAYS)
def test_the_share_that_is_in(way, rate):
    """Binomial test."""
    cells = CELLS.get(rate, 10**5) if way == "gaps" else 10**6
    found = WAYS[way](generator(4), cells, threshold(rate))
    assert np.all(np.diff(found) > 0) and (len(found) == 0 or 0 <= found[0] <= found[-1] < cells)
    assert stats.binomtest(len(found), cells, rate).pvalue > 1e-6


def batches(way, rate, rows, steps, seed):
    """steps x rows coins."""
    coins = np.zeros(rows * steps, bool)
    coins[WAYS[way](generator(seed), rows * steps, threshold(rate))] = True
    return coins.reshape(steps, rows)


@pytest.mark.parametrize("rate", [0.02, 0.2, 0.5])
@pytest.mark.parametrize("way", WAYS)
def test_every_record_is_in_at_the_rate_the_first_and_the_last_too(way, rate):
    """Chi-square over records, and a binomial test of both ends."""
    coins = batches(way, rate, 60, 6000, 5)
    counts = coins.sum(0)
    statistic = ((counts - 6000 * rate) ** 2 / (6000 * rate * (1 - rate))).sum()
    assert 1e-6 < stats.chi2.sf(statistic, 60) < 1 - 1e-6
    for end in (0, -1):
        assert stats.binomtest(int(counts[end]), 6000, rate).pvalue > 1e-6


@pytest.mark.parametrize("rate", [0.02, 0.2, 0.5])
@pytest.mark.parametrize("way", WAYS)
def test_records_are_independent_in_pairs(way, rate):
    """Chi-square over all pairs of 40 records in a step, and over steps 1 to 3 apart. Products of
    centred coins are uncorrelated where coins are independent, so the sum is a chi-square's to the
    central limit; 20 sds of room in the tail would miss nothing that matters: correlations of 0.02
    would raise it by 60."""
    steps = 8000
    coins = batches(way, rate, 40, steps, 6) - rate
    unit = rate * (1 - rate)
    inside = coins.T @ coins / (unit * math.sqrt(steps))
    pairs = inside[np.triu_indices(40, 1)] ** 2
    assert 1e-6 < stats.chi2.sf(pairs.sum(), len(pairs)) < 1 - 1e-6
    for lag in (1, 2, 3):
        across = (coins[lag:].T @ coins[:-lag] / (unit * math.sqrt(steps - lag))) ** 2
        assert 1e-6 < stats.chi2.sf(across.sum(), across.size) < 1 - 1e-6


@pytest.mark.parametrize(("rate", "rows"), [(0.002, 3000), (0.1, 64), (0.5, 20)])
@pytest.mark.parametrize("way", WAYS)
def test_batch_sizes_are_binomial_in_both_tails(way, rate, rows):
    """Chi-square over sizes, and binomial tests of the lowest and highest hundredth."""
    steps = 4000
    sizes = batches(way, rate, rows, steps, 7).sum(1)
    law = stats.binom(rows, rate)
    edges = np.unique(law.ppf(np.linspace(0, 1, 9)[1:-1]))
    chances = np.diff(np.concatenate([[0], law.cdf(edges), [1]]))
    seen = np.bincount(np.searchsorted(edges, sizes), minlength=len(chances))
    assert stats.chisquare(seen, steps * chances).pvalue > 1e-6
    low, high = law.ppf(0.01), law.ppf(0.99)
    for count, chance in (
        ((sizes <= low).sum(), law.cdf(low)),
        ((sizes > high).sum(), law.sf(high)),
    ):
        assert stats.binomtest(int(count), steps, chance).pvalue > 1e-6


def test_every_small_table_is_drawn_as_often_as_it_should_be():
    """All 16 subsets of four records, by both ways: chi-square."""
    for way, rate in itertools.product(WAYS, (0.1, 0.4)):
        coins = batches(way, rate, 4, 20_000, 8)
        subsets = np.bincount(coins @ np.array([1, 2, 4, 8]), minlength=16)
        sizes = np.array([bin(number).count("1") for number in range(16)])
        wanted = 20_000 * rate**sizes * (1 - rate) ** (4 - sizes)
        together = wanted >= 5  # rarer subsets as one
        seen = np.append(subsets[together], subsets[~together].sum())
        wanted = np.append(wanted[together], wanted[~together].sum())
        keep = wanted > 0
        assert stats.chisquare(seen[keep], wanted[keep]).pvalue > 1e-6


def test_everybody_and_hardly_anybody():
    assert sampled_places(Words(), 5, RATE_UNIT).tolist() == [0, 1, 2, 3, 4]
    assert len(sampled_places(generator(9), 1000, 1)) == 0  # 1e-9
    assert len(sampled_places(generator(9), 1000, RATE_UNIT - 1)) == 1000  # 1e-9
    assert len(sampled_places(generator(9), 0, threshold(0.01))) == 0


def test_work_grows_with_the_batch_not_with_the_table():
    """A step on ten billion rows asks for as many random words as it has records, and a few."""
    asked = []

    class Counting:
        def random_raw(self, size):
            asked.append(size)
            return generator(10).random_raw(size)

    places = sampled_places(Counting(), 10**10, threshold(1e-7))
    assert 900 < len(places) < 1100
    assert sum(asked) < 1300


@pytest.mark.parametrize("rate", [1e-4, 0.05, 0.3])
def test_chunks_lengths_are_public(rate):
    """Whatever is drawn, and however many rows there are."""
    passes = Passes(32, 100)
    lengths = {
        len(SecureSource(count, rate, np.ones(1), passes, seed).chunk(0, 20).indices)
        for count, seed in itertools.product((100, 1000, 2000), range(3))
    }
    assert len(lengths) == 1
