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

from noisewise._validate import NoisewiseError

__all__ = ["Chunk", "DeviceSource", "Draws", "SecureSource", "physical_batch"]

_WORD = 2**32


class Draws(NamedTuple):
    """One step's randomness: which records are in the batch, and the noise on the grid."""

    indices: Array
    """Record numbers; this step's are the ``size`` entries from ``offset`` on."""
    offset: Array
    size: Array
    noise: Array


class Chunk(NamedTuple):
    """`Draws` for several steps: offsets, sizes and noise have a leading axis of steps."""

    indices: Any
    offset: Any
    size: Any
    noise: Any


def physical_batch(rows: int, sampling_rate: float, most: int) -> int:
    """Records handled in one pass: four standard deviations above the mean, so that a second
    pass is rare; at most ``most`` (memory), in which case every step takes several passes."""
    mean = rows * sampling_rate
    wanted = mean + 4 * math.sqrt(mean * (1 - sampling_rate)) + 1
    return max(1, min(rows, most, math.ceil(wanted)))


class SecureSource:
    """Poisson batches and grid noise from a cryptographic generator.

    ``insecure_seed`` makes the draws repeatable, for tests and studies; whoever knows the seed can
    subtract the noise, so the certificate then says that the result is not private.
    """

    def __init__(
        self,
        rows: int,
        sampling_rate: float,
        noise_scale: np.ndarray,
        pad: int,
        insecure_seed: int | None = None,
    ) -> None:
        from randomgen import AESCounter

        # Two generators with 128-bit keys of their own: who is in the batch, and the noise.
        if insecure_seed is None:
            keys = [secrets.randbits(128), secrets.randbits(128)]
            self._sampler, noise_bits = (AESCounter(key=key) for key in keys)
        else:
            roots = np.random.SeedSequence(insecure_seed).spawn(2)
            self._sampler, noise_bits = (AESCounter(root) for root in roots)
        self._noise = np.random.Generator(noise_bits)
        self._rows = rows
        self._noise_scale = noise_scale
        self._pad = pad
        # Rounded down: the true inclusion rate is never above the accounted one.
        self._threshold = math.floor(sampling_rate * _WORD)
        if self._threshold < 1:
            raise NoisewiseError(f"sampling_rate must be at least 2**-32, got {sampling_rate:g}")
        mean = rows * sampling_rate
        self._mean, self._variance = mean, mean * (1 - sampling_rate)

    def _batch(self) -> np.ndarray:
        if self._threshold == _WORD:
            return np.arange(self._rows, dtype=np.int32)
        words = self._sampler.random_raw((self._rows + 1) // 2).view(np.uint32)[: self._rows]
        return np.flatnonzero(words < np.uint32(self._threshold)).astype(np.int32)

    def chunk(self, steps: int) -> Chunk:
        """Fresh draws for the next ``steps`` steps; no batch is ever truncated."""
        batches = [self._batch() for _ in range(steps)]
        size = np.array([len(batch) for batch in batches], dtype=np.int32)
        offset = np.concatenate([[0], np.cumsum(size[:-1])]).astype(np.int32)
        # A constant length keeps one compiled program; a rare longer chunk gets a longer array.
        usual = steps * self._mean + 8 * math.sqrt(steps * self._variance) + 8 + self._pad
        length = max(math.ceil(usual), int(size.sum()) + self._pad)
        indices = np.zeros(length, dtype=np.int32)
        indices[: size.sum()] = np.concatenate(batches)
        normals = self._noise.standard_normal((steps, len(self._noise_scale)))
        noise = _wrapped_integers(np.rint(normals * self._noise_scale))
        return Chunk(indices, offset, size, noise)


def _wrapped_integers(values: np.ndarray) -> np.ndarray:
    """To 32-bit integers with wrap-around, the arithmetic that the sum uses too."""
    return values.astype(np.int64).astype(np.int32)


class DeviceSource(NamedTuple):
    """The same law from a JAX key, for simulations: not for data about people."""

    rows: int
    sampling_rate: float
    pad: int

    def draw(self, key: Array, noise_scale: Array) -> Draws:
        """One step's draws. Batches come from geometric gaps between included records."""
        key_batch, key_noise = jax.random.split(key)
        normals = jax.random.normal(key_noise, noise_scale.shape)
        noise = jnp.rint(normals * noise_scale).astype(jnp.int32)
        if self.sampling_rate == 1.0:
            everyone = jnp.arange(self.rows + self.pad, dtype=jnp.int32) % self.rows
            return Draws(everyone, jnp.int32(0), jnp.int32(self.rows), noise)
        mean = self.rows * self.sampling_rate
        most = math.ceil(mean + 10 * math.sqrt(mean) + 10)
        uniforms = jax.random.uniform(key_batch, (most,), minval=1e-12)
        gaps = jnp.floor(jnp.log(uniforms) / math.log1p(-self.sampling_rate))
        gaps = jnp.minimum(gaps, float(self.rows)).astype(jnp.int32) + 1
        places = jnp.cumsum(gaps) - 1
        size = jnp.sum(places < self.rows).astype(jnp.int32)
        indices = jnp.concatenate([places, jnp.zeros(self.pad, jnp.int32)])
        return Draws(jnp.minimum(indices, self.rows - 1), jnp.int32(0), size, noise)
