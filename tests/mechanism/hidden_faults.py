"""Seven broken mechanisms whose releases have the right law, or nearly so, and what shows them.

The nine mutants that survived an earlier suite, where the fault is the mechanism's:

====================================  ==============================================
noise added in floats after scaling   `the_release_lies_on_the_grid`
keys from ``random``                  `keys_come_from_the_operating_system`
noise from PCG64                      `noise_and_batches_come_from_aes`
inclusion rate rounded up to 1/256    `rare_records_are_drawn_at_their_rate`
batches truncated in both runs        `no_batch_is_truncated`
an empty batch that includes a record `empty_batches_are_pure_noise`
``verify`` ignoring the budget        `certificates_keep_to_the_budget`
====================================  ==============================================

(The other two, a grid from the true number of rows and normalisation by it, are a driver's: see
`engine.mutants`, where these are run through the engine, too.) A check takes a way to run steps of
any algorithm, ``run(gradients, steps, rate, seed, public_count)``, and raises AssertionError when
it finds a fault; statistical ones reject a correct mechanism with probability below
``FALSE_ALARM``. A mutant is a context in which a freshly compiled ``run`` is broken.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable
from contextlib import contextmanager
from types import SimpleNamespace
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from mechanism.engines import CLIP, SIGMA
from noisewise.mechanism import Budget, Certificate, Release, issue, noise, release

FALSE_ALARM = 1e-6
DIM, RATE = 6, 0.2
Run = Callable[..., np.ndarray]


def _half_the_clip(rows: int) -> np.ndarray:
    """Gradients that count records: half the clip norm each, in the first coordinate."""
    gradients = np.zeros((rows, DIM))
    gradients[:, 0] = CLIP / 2
    return gradients


def _counted(released: np.ndarray) -> np.ndarray:
    return released[:, 0] / (CLIP / 2)


def _count_sd(rows: int, rate: float, steps: int) -> float:
    """Of the mean count over all the steps: sampling, and the noise."""
    return math.sqrt((rows * rate * (1 - rate) + (2 * SIGMA) ** 2) / steps)


# -- checks ------------------------------------------------------------------------------------


def the_release_lies_on_the_grid(run: Run, seed: int) -> None:
    """Integers times the grid's step: low bits of floats would give the sum away."""
    gradients = np.random.default_rng(seed).normal(size=(40, DIM))
    steps = run(gradients, 50, RATE, seed) * (2.0**16 / CLIP)  # both powers of two: exact
    assert np.array_equal(steps, np.rint(steps)), "the release is off the grid"


def keys_come_from_the_operating_system(run: Run, seed: int) -> None:
    """The operating system's bits decide every step's noise; generators with a state do not."""

    def noise_of(bits: int) -> np.ndarray:
        random.seed(seed)
        np.random.seed(seed)
        with mock.patch("secrets.randbits", lambda size: bits % 2**size):
            return run(np.zeros((40, DIM)), 50, RATE, None)

    first, other = noise_of(seed), noise_of(seed + 1)
    assert (first != other).any(axis=1).all(), "the keys are not the operating system's"
    assert np.array_equal(first, noise_of(seed)), "something else than the keys decides"


def noise_and_batches_come_from_aes(run: Run, seed: int) -> None:
    """With another generator in AES's place, and the same keys, every draw is another one."""

    def released(gradients: np.ndarray, salt: int) -> np.ndarray:
        def in_its_place(root: object = None, *, key: int = 0) -> np.random.PCG64:
            return np.random.PCG64(np.random.SeedSequence([salt, key]))

        bits = mock.patch("secrets.randbits", lambda size: seed % 2**size)
        with bits, mock.patch("randomgen.AESCounter", in_its_place):
            return run(gradients, 50, RATE, None)

    nobody, everybody = np.zeros((40, DIM)), _half_the_clip(40)
    first, other = released(nobody, 1), released(nobody, 2)
    assert (first != other).any(axis=1).all(), "the noise does not come from AES"
    sizes = _counted(released(everybody, 1) - first), _counted(released(everybody, 2) - other)
    assert not np.array_equal(*sizes), "the batches do not come from AES"


def rare_records_are_drawn_at_their_rate(run: Run, seed: int) -> None:
    """At a rate of one in a thousand, where a few bits too few would show."""
    rows, rate, steps = 1000, 0.001, 2000
    mean = _counted(run(_half_the_clip(rows), steps, rate, seed)).mean()
    off = (mean - rows * rate) / _count_sd(rows, rate, steps)
    assert abs(off) < stats.norm.isf(FALSE_ALARM / 2), "rare records are not drawn at their rate"


def empty_batches_are_pure_noise(run: Run, seed: int) -> None:
    """Two records at one in a thousand: nearly every batch is empty, and counts nobody."""
    rows, rate, steps = 2, 0.001, 2000
    mean = _counted(run(_half_the_clip(rows), steps, rate, seed)).mean()
    off = (mean - rows * rate) / _count_sd(rows, rate, steps)
    assert abs(off) < stats.norm.isf(FALSE_ALARM / 2), "an empty batch is not pure noise"


def no_batch_is_truncated(run: Run, seed: int) -> None:
    """Ten times as many rows as the public number says: every batch is far beyond the usual."""
    rows, rate, steps = 1000, 0.5, 500
    mean = _counted(run(_half_the_clip(rows), steps, rate, seed, public_count=100)).mean()
    off = (mean - rows * rate) / _count_sd(rows, rate, steps)
    assert abs(off) < stats.norm.isf(FALSE_ALARM / 2), "batches are truncated"


def certificates_keep_to_the_budget(run: Run, seed: int) -> None:
    """An honest claim above the budget does not verify; one within it does."""
    steps = Release(what="gradients", noise_multiplier=5.0)
    generous = issue(Budget(epsilon=2.0, delta=1e-6), (steps,), {})
    assert generous.verify().holds, "an honest certificate does not verify"
    stingy = Budget(epsilon=generous.epsilon_spent / 2, delta=1e-6)
    beyond = dataclasses.replace(generous, budget=stingy)
    assert not beyond.verify().holds, "a certificate beyond its budget verifies"


# -- mutants -----------------------------------------------------------------------------------


def noise_added_in_floats() -> contextmanager:
    """The sum is scaled, then a float Gaussian is added to it."""
    original = release.noisy_sum

    def change(gradients, rows, draws, grid, *passes):
        silent = draws._replace(noise=jnp.zeros_like(draws.noise))
        key = jax.random.PRNGKey(draws.noise[0])
        fine = draws.noise + jax.random.uniform(key, draws.noise.shape)
        unit = grid.clip_norm / grid.points
        return original(gradients, rows, silent, grid, *passes) + fine * unit

    return mock.patch.object(release, "noisy_sum", change)


def keys_from_random() -> contextmanager:
    """Keys from Python's Mersenne twister."""
    return mock.patch.object(noise, "secrets", SimpleNamespace(randbits=random.getrandbits))


def noise_from_pcg64() -> contextmanager:
    """A statistical generator for the noise, well seeded; its state can be worked out."""
    original = noise.SecureSource._generators

    def change(self, number):
        sampler, _ = original(self, number)
        root = noise.secrets.randbits(128) if self._seed is None else [self._seed, number]
        return sampler, np.random.Generator(np.random.PCG64(root))

    return mock.patch.object(noise.SecureSource, "_generators", change)


def rate_rounded_up() -> contextmanager:
    """One byte decides who is in: the rate is the next multiple of 1/256."""
    original = noise.SecureSource.__init__

    def init(self, rows, rate, *rest):
        original(self, rows, math.ceil(rate * 256) / 256, *rest)

    return mock.patch.object(noise.SecureSource, "__init__", init)


def truncated_batches() -> contextmanager:
    """What the usual passes do not take is left out."""
    return mock.patch.object(noise.Passes, "enough_for", lambda self, largest: self)


def empty_batches_take_one() -> contextmanager:
    """Where nobody was drawn, somebody is taken."""
    original = noise.SecureSource.chunk

    def change(self, number, steps):
        chunk = original(self, number, steps)
        return chunk._replace(size=np.maximum(chunk.size, 1))

    return mock.patch.object(noise.SecureSource, "chunk", change)


def verify_without_the_budget() -> contextmanager:
    """Epsilon is compared with the claim alone."""
    return mock.patch.object(
        Certificate,
        "_excesses",
        lambda self, found: [] if found <= self.epsilon_spent * 1.000001 else ["above the claim"],
    )


CAUGHT_BY: dict[Callable[[], contextmanager], Callable[[Run, int], None]] = {
    noise_added_in_floats: the_release_lies_on_the_grid,
    keys_from_random: keys_come_from_the_operating_system,
    noise_from_pcg64: noise_and_batches_come_from_aes,
    rate_rounded_up: rare_records_are_drawn_at_their_rate,
    truncated_batches: no_batch_is_truncated,
    empty_batches_take_one: empty_batches_are_pure_noise,
    verify_without_the_budget: certificates_keep_to_the_budget,
}
