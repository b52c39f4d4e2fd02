"""Checks of a mechanism as a black box: each raises AssertionError when it finds a fault.

Every statistical check rejects a correct mechanism with probability below ``FALSE_ALARM``.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from mechanism.engines import CLIP, SIGMA, Engine

FALSE_ALARM = 1e-6
ROWS, DIM, STEPS, RATE = 40, 6, 2000, 0.2


def _z_limit() -> float:
    return float(stats.norm.isf(FALSE_ALARM / 2))


def noise_has_the_right_law(engine: Engine, seed: int) -> None:
    """On records without gradients the release is the noise: variance, shape, independence."""
    noise = engine(np.zeros((ROWS, DIM)), STEPS, RATE, seed) / (SIGMA * CLIP)
    ratio = (noise**2).sum(0)
    low, high = stats.chi2.ppf([FALSE_ALARM / 2 / DIM, 1 - FALSE_ALARM / 2 / DIM], STEPS)
    assert ((ratio > low) & (ratio < high)).all(), "noise variance is off"
    assert stats.kstest(noise.ravel(), "norm").pvalue > FALSE_ALARM, "noise is not Gaussian"
    limit = stats.norm.isf(FALSE_ALARM / 2 / DIM**2) / np.sqrt(STEPS)
    across = np.corrcoef(noise.T) - np.eye(DIM)
    assert np.abs(across).max() < limit, "noise is correlated across coordinates"
    for lag in (1, 2, 50):
        shifted = (noise[lag:] * noise[:-lag]).mean(0)
        assert np.abs(shifted).max() < limit * np.sqrt(STEPS / (STEPS - lag)), "noise repeats"


def batches_have_the_right_size(engine: Engine, seed: int) -> None:
    """Equal gradients count records: mean and variance of the batch size follow the rate."""
    value = 0.5 * CLIP
    gradients = np.zeros((ROWS, DIM))
    gradients[:, 0] = value
    counts = engine(gradients, STEPS, RATE, seed)[:, 0] / value
    noise = (SIGMA * CLIP / value) ** 2
    variance = ROWS * RATE * (1 - RATE) + noise
    off = (counts.mean() - ROWS * RATE) / np.sqrt(variance / STEPS)
    assert abs(off) < _z_limit(), "inclusion rate is off"
    spread = counts.var() / variance - 1
    assert abs(spread) < 1.2 * _z_limit() * np.sqrt(2 / STEPS), "batch sizes do not vary as Poisson"


CANARIES = {
    "huge": np.array([1e6, -1e6, 3e5, 1e6, 1e6, -2e6]),
    "beyond float": np.full(DIM, 3e38),
    "not a number": np.array([np.nan, 1, 1, 1, 1, 1]),
    "infinite": np.array([np.inf, 1, 1, 1, 1, 1]),
    "one coordinate": np.array([0, 0, 50.0, 0, 0, 0]),
    "both parts": np.array([9.0, 0, 0, 0, 9.0, 0]),
    "tiny": np.full(DIM, 1e-3),
}


def one_record_moves_it_by_at_most_the_clip_norm(engine: Engine, seed: int) -> None:
    """Same randomness with and without a record: the release may move by the clip norm."""
    rng = np.random.default_rng(seed)
    without = rng.normal(size=(ROWS, DIM))
    without[7] = 0.0
    base = engine(without, 50, RATE, seed)
    for name, canary in CANARIES.items():
        with_it = without.copy()
        with_it[7] = canary
        moved = engine(with_it, 50, RATE, seed) - base
        assert np.isfinite(moved).all(), f"the {name} record breaks the release"
        # Float32 output: its resolution at this magnitude is far below a thousandth.
        assert np.linalg.norm(moved, axis=1).max() <= CLIP * 1.001, f"the {name} record leaks"


def small_gradients_pass_unchanged(engine: Engine, seed: int) -> None:
    """Below the clip norm a record counts in full: the mean release is rate times the sum."""
    rng = np.random.default_rng(seed)
    gradients = rng.normal(size=(ROWS, DIM))
    gradients *= 0.9 * CLIP / np.linalg.norm(gradients, axis=1).max()
    released = engine(gradients, STEPS, RATE, seed)
    expected = RATE * gradients.sum(0)
    variance = RATE * (1 - RATE) * (gradients**2).sum(0) + (SIGMA * CLIP) ** 2
    off = (released.mean(0) - expected) / np.sqrt(variance / STEPS)
    assert np.abs(off).max() < stats.norm.isf(FALSE_ALARM / 2 / DIM), "the mean release is off"


ALL = (
    noise_has_the_right_law,
    batches_have_the_right_size,
    one_record_moves_it_by_at_most_the_clip_norm,
    small_gradients_pass_unchanged,
)


def faults(engine: Engine, seed: int) -> list[str]:
    """What the checks find."""
    found = []
    for check in ALL:
        try:
            check(engine, seed)
        except AssertionError as error:
            found.append(str(error))
    return found
