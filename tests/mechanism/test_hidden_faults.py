"""Faults that the law of the releases hides are found, and correct code raises no alarm.

Three of the checks are statistical, each with a false-alarm rate below 1e-6: over twenty seeds,
6e-5 in all; the seeds are fixed, so what passes once passes always.
"""

import math

import numpy as np
import pytest

from mechanism.engines import secure_engine, seeds
from mechanism.hidden_faults import CAUGHT_BY
from noisewise.mechanism import Passes, SecureSource
from noisewise.mechanism.sampling import by_coins


@pytest.fixture(scope="module")
def secure():
    return secure_engine()


@pytest.mark.parametrize("check", CAUGHT_BY.values(), ids=lambda check: check.__name__)
def test_the_mechanism_raises_no_alarm(secure, check):
    for seed in seeds(20):
        check(secure, seed)


@pytest.mark.parametrize("mutant", CAUGHT_BY, ids=lambda mutant: mutant.__name__)
def test_every_hidden_fault_is_found(mutant):
    with mutant():
        engine = secure_engine()
        for seed in seeds(3):
            with pytest.raises(AssertionError):
                CAUGHT_BY[mutant](engine, seed)


class _Coins:
    """A generator that gives one byte for every coin, then one word for every tie."""

    def __init__(self, byte: int, word: int):
        self._next = [np.uint8(byte), np.uint32(word)]

    def random_raw(self, words: int) -> np.ndarray:
        value = self._next.pop(0)
        return np.full(words * 8 // value.itemsize, value).view(np.uint64)


@pytest.mark.parametrize("rate", [0.001, 0.1, 1 / 3, 0.5, 0.999, 2**-40, 1 - 2**-40])
def test_the_coins_rate_is_the_accounted_one_to_forty_bits_and_never_above(rate):
    source = SecureSource(8, rate, np.ones(1), Passes(32, 2), 0)
    most = math.floor(rate * 2**40)  # coins below this number, of 2^40, are in
    assert most / 2**40 <= rate < (most + 1) / 2**40
    for coin, included in ((most - 1, True), (most, False)):
        byte, word = divmod(coin, 2**32)
        assert source._threshold == most
        drawn = by_coins(_Coins(byte, word), 8, source._threshold)
        assert drawn.tolist() == (list(range(8)) if included else []), coin
