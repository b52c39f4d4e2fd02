"""What a step's Poisson batch costs: ``python -m benchmarks.sampling``.

By coins, which touch every record, and by gaps, which touch those that are in: time for each record
that is drawn, and where the first begins to be the cheaper one. Then whole chunks of steps at the
sizes of registries.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from randomgen import AESCounter

from noisewise.mechanism import Passes, SecureSource
from noisewise.mechanism.sampling import RATE_UNIT, by_coins, by_gaps

_CELLS = 2 * 10**7
_ROUNDS = 5
_RATES = (0.001, 0.01, 0.05, 0.1, 0.125, 0.15, 0.2, 0.3)
_TABLES = ((10**5, 0.02), (10**7, 1e-3), (10**8, 1e-4), (10**9, 1e-5))


def main() -> None:
    """Print both tables."""
    bits = AESCounter(key=secrets.randbits(128))
    print(f"ns for each drawn record, best of {_ROUNDS}, {_CELLS:,} records\n")
    print("    rate    coins     gaps")
    for rate in _RATES:
        limit = math.floor(rate * RATE_UNIT)
        cells = min(_CELLS, round(1e6 / rate))
        each = [
            _seconds(partial(way, bits, cells, limit)) / (cells * rate) * 1e9
            for way in (by_coins, by_gaps)
        ]
        print(f"{rate:8g} {each[0]:8.1f} {each[1]:8.1f}")
    print("\nmicroseconds a step, batch and noise of 50 coordinates\n")
    for count, rate in _TABLES:
        room = math.ceil(count * rate * 1.2 / 64) * 32
        source = SecureSource(count, rate, np.full(50, 1e4), Passes(room, 2))
        steps = 20
        seconds = _seconds(partial(source.chunk, 0, steps)) / steps
        print(f"{count:13,} rows, q = {rate:g}: {seconds * 1e6:8.0f}")


def _seconds(work: Callable[[], object]) -> float:
    best = math.inf
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begun)
    return best


if __name__ == "__main__":
    main()
