"""Where the randomness that privacy rests on comes from.

Two sources behind one interface, `Draws`: `SecureSource` (AES in counter mode on the host, keyed
from the operating system, streamed in chunks into the scan) for data about people, and
`DeviceSource` (JAX's generator, seeded, inside the scan, vmappable over many fits) for simulations.
Both have the same law: every record is in a batch independently with the sampling rate, and the
noise is a rounded Gaussian on the integer grid.
"""

from __future__ import annotations

import math
import secrets
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._shapes import Float, Int
from noisewise._validate import NoisewiseError
from noisewise.mechanism.sampling import RATE_UNIT, sampled_places

LEAST_PASSES = 2
_LANES = 32
"""Pass sizes are multiples of this, so that no record falls into the shorter loop that a compiler
adds for what its vector instructions leave over, and that may round differently."""


class Draws(NamedTuple):
    """One step's randomness: which records are in the batch, and the privacy noise."""

    indices: Int[Array, " places"]
    """Record numbers; this step's are the ``size`` entries from ``offset`` on."""
    offset: Int[Array, ""]
    size: Int[Array, ""]
    noise: Int[Array, " dim"]
    """In grid steps."""


class Chunk(NamedTuple):
    """`Draws` for several steps: offsets, sizes and noise have a leading axis of steps."""

    indices: Int[Any, " places"]
    offset: Int[Any, " steps"]
    size: Int[Any, " steps"]
    noise: Int[Any, "steps dim"]


class Passes(NamedTuple):
    """How a batch is walked: ``number`` passes of ``size`` records; a rare larger one gets more."""

    size: int
    number: int

    @property
    def room(self) -> int:
        """Records that all the passes take together."""
        return self.size * self.number

    def enough_for(self, largest: int) -> Passes:
        """As many passes as the largest batch takes, at least the usual number."""
        return self._replace(number=max(self.number, math.ceil(largest / self.size)))


def usual_passes(
    public_count: int, sampling_rate: float, most: int, count_noise: float = 0.0
) -> Passes:
    """Passes for batches up to six standard deviations above the mean (one in a billion is larger).

    They follow public numbers only: see `noisy_sum`.

    Args:
        public_count: The number of rows, declared or noised; never the table's own.
        sampling_rate: Of the Poisson batches.
        most: Records per pass that memory allows.
        count_noise: Standard deviation of the public count's own noise, if it has any.
    """
    usual = _usual_batch(public_count + math.ceil(6 * count_noise), sampling_rate)
    lanes = math.ceil(usual / (LEAST_PASSES * _LANES))
    size = _LANES * max(1, min(most // _LANES, lanes))
    return Passes(size, max(LEAST_PASSES, math.ceil(usual / size)))


def passes_of_share(passes: Passes, public_count: int, sampling_rate: float, shares: int) -> Passes:
    """As many of the very same passes as one of several devices takes for the records it holds:
    what a record adds is rounded by the pass's size, and must not follow from who adds it.

    Args:
        passes: Of a device that holds all records.
        public_count: The number of rows, declared or noised; never the table's own.
        sampling_rate: Of the Poisson batches.
        shares: How many devices hold the records.
    """
    usual = _usual_batch(math.ceil(public_count / shares) + 1, sampling_rate)
    return Passes(passes.size, max(LEAST_PASSES, math.ceil(usual / passes.size)))


def _usual_batch(count: int, sampling_rate: float) -> int:
    """Records of a batch, six standard deviations above the mean."""
    mean = count * sampling_rate
    return min(count, math.ceil(mean + 6 * math.sqrt(mean * (1 - sampling_rate)) + 6))


class SecureSource:
    """Poisson batches and grid noise from a cryptographic generator, chunk by chunk.

    Every chunk has fresh keys of its own, so chunks may be drawn in any order and side by side.
    ``insecure_seed`` makes the draws repeatable, for tests and studies; whoever knows the seed can
    subtract the noise, so the certificate then says that the result is not private.

    Args:
        true_count: The table's own number of rows: who can be drawn. It leaves in no way.
        sampling_rate: Every record's chance of being in a batch.
        noise_scale: Standard deviations of the noise, in grid steps.
        passes: How batches are walked.
        insecure_seed: See above.
    """

    def __init__(
        self,
        true_count: int,
        sampling_rate: float,
        noise_scale: Float[np.ndarray, " dim"],
        passes: Passes,
        insecure_seed: int | None = None,
    ) -> None:
        self._true_count = true_count
        self._noise_scale = noise_scale
        self._passes = passes
        self._seed = insecure_seed
        # Rounded down: the true inclusion rate is never above the accounted one.
        self._threshold = math.floor(sampling_rate * RATE_UNIT)
        if self._threshold < 1:
            raise NoisewiseError(f"sampling_rate must be at least 2**-40, got {sampling_rate:g}")

    def _generators(self, number: int) -> tuple[Any, np.random.Generator]:
        """Two generators with 128-bit keys of their own: who is in the batch, and the noise."""
        from randomgen import AESCounter

        if self._seed is None:
            sampler, noise = (AESCounter(key=secrets.randbits(128)) for _ in range(2))
        else:
            roots = np.random.SeedSequence([self._seed, number]).spawn(2)
            sampler, noise = (AESCounter(root) for root in roots)
        return sampler, np.random.Generator(noise)

    def _places(self, sampler: Any, steps: int) -> Int[np.ndarray, " places"]:
        """Who is in the batches: numbers of records, each step's counted on from the last one's."""
        return sampled_places(sampler, steps * self._true_count, self._threshold)

    def chunk(self, number: int, steps: int) -> Chunk:
        """Fresh draws for some steps; no batch is ever truncated.

        Args:
            number: Of the chunk; with a seed, the same number gives the same draws.
            steps: How many steps it is for.
        """
        sampler, noise_generator = self._generators(number)
        places = self._places(sampler, steps)
        ends = np.searchsorted(places, self._true_count * np.arange(1, steps + 1))
        offset = np.concatenate([[0], ends[:-1]])
        size = ends - offset
        # A constant and public length keeps one compiled program; a rare longer chunk gets a
        # multiple of it. Behind the last batch, room for its passes to read on.
        needed = self._passes.enough_for(int(size.max()))
        usual = steps * self._passes.room
        length = usual * max(1, math.ceil(len(places) / usual)) + needed.room
        indices = np.zeros(length, dtype=np.int32)
        indices[: len(places)] = places - np.repeat(self._true_count * np.arange(steps), size)
        normals = noise_generator.standard_normal((steps, len(self._noise_scale)))
        noise = _wrapped_integers(np.rint(normals * self._noise_scale))
        return Chunk(indices, offset.astype(np.int32), size.astype(np.int32), noise)


def _wrapped_integers(values: Float[np.ndarray, "steps dim"]) -> Int[np.ndarray, "steps dim"]:
    """To 32-bit integers with wrap-around, the arithmetic that the sum uses too."""
    return values.astype(np.int64).astype(np.int32)


class DeviceSource(NamedTuple):
    """The same law from a JAX key, for simulations: not for data about people."""

    rows: int
    """Simulated ones, so that their number is no secret."""
    sampling_rate: float
    passes: Passes

    def draw(self, key: Array, noise_scale: Float[Array, " dim"]) -> Draws:
        """One step's draws. Batches come from geometric gaps between included records.

        Args:
            key: A fresh JAX key.
            noise_scale: Standard deviations of the noise, in grid steps.
        """
        key_batch, key_noise = jax.random.split(key)
        normals = jax.random.normal(key_noise, noise_scale.shape)
        noise = jnp.rint(normals * noise_scale).astype(jnp.int32)
        if self.sampling_rate == 1.0:
            everyone = jnp.arange(self.rows + self.passes.room, dtype=jnp.int32) % self.rows
            return Draws(everyone, jnp.int32(0), jnp.int32(self.rows), noise)
        # As many as the passes take: a batch beyond six sds would be cut, once in a billion steps
        # of a simulation.
        uniforms = jax.random.uniform(key_batch, (self.passes.room,), minval=1e-12)
        gaps = jnp.floor(jnp.log(uniforms) / math.log1p(-self.sampling_rate))
        gaps = jnp.minimum(gaps, float(self.rows)).astype(jnp.int32) + 1
        places = jnp.cumsum(gaps) - 1
        size = jnp.sum(places < self.rows).astype(jnp.int32)
        return Draws(jnp.minimum(places, self.rows - 1), jnp.int32(0), size, noise)
