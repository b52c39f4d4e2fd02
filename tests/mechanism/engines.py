"""The mechanism as a black box, from two noise sources, and eleven broken copies of it.

An engine maps a table of per-record gradients to released gradients, step by step. The mutants
break the library's own functions in place, one at a time; `test_mutations.py` shows that the
checks catch each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from noisewise.mechanism import (
    DeviceSource,
    Draws,
    Grid,
    Mechanism,
    Passes,
    SecureSource,
    noise,
    release,
    usual_passes,
)

CLIP, SIGMA = 2.0, 1.5
Engine = Callable[[np.ndarray, int, float, int], np.ndarray]


def _mechanism(rate: float, steps: int) -> Mechanism:
    return Mechanism(clip_norm=CLIP, sampling_rate=rate, steps=steps, noise_multiplier=SIGMA)


def secure_engine() -> Engine:
    """Released gradients (steps x coordinates) through the host's generator.

    A fresh engine compiles anew, so an engine made inside a mutant's context is the mutant.
    """

    @partial(jax.jit, static_argnums=0)
    def run(passes, table, grid, chunk):
        def step(_, inputs):
            draws = Draws(chunk.indices, *inputs)
            return None, release.noisy_sum(lambda batch: batch, table, draws, grid, *passes)

        return jax.lax.scan(step, None, (chunk.offset, chunk.size, chunk.noise))[1]

    def engine(
        gradients: np.ndarray,
        steps: int,
        rate: float,
        seed: int | None,
        public_count: int | None = None,
    ) -> np.ndarray:
        rows, dim = gradients.shape
        mechanism = _mechanism(rate, steps)
        grid = mechanism.grid(dim, public_count or rows)
        passes = usual_passes(public_count or rows, rate, 10**6)
        source = SecureSource(rows, rate, mechanism.noise_scale(grid, dim), passes, seed)
        # Chunks of fifty, as a fit streams them: a generator restarted per chunk would show.
        chunks = [source.chunk(number, 50) for number in range(steps // 50)]
        needed = [passes.enough_for(int(chunk.size.max())) for chunk in chunks]
        table = np.float32(gradients)
        return np.concatenate(
            [np.asarray(run(each, table, grid, c)) for each, c in zip(needed, chunks, strict=True)]
        )

    return engine


def device_engine() -> Engine:
    """The same through the simulations' generator."""

    @partial(jax.jit, static_argnums=0)
    def run(source, table, grid, keys):
        def step(_, key):
            draws = source.draw(key, jnp.full(table.shape[1], SIGMA * grid.points))
            return None, release.noisy_sum(lambda batch: batch, table, draws, grid, len(table), 1)

        return jax.lax.scan(step, None, keys)[1]

    def engine(gradients: np.ndarray, steps: int, rate: float, seed: int) -> np.ndarray:
        rows, dim = gradients.shape
        grid = _mechanism(rate, steps).grid(dim, rows)
        keys = jax.random.split(jax.random.PRNGKey(seed), steps)
        return np.asarray(
            run(DeviceSource(rows, rate, Passes(rows, 1)), np.float32(gradients), grid, keys)
        )

    return engine


# -- mutants -----------------------------------------------------------------------------------


def _patched_chunk(change: Callable) -> contextmanager:
    original = noise.SecureSource.chunk

    def chunk(self, number, steps):
        return change(self, original(self, number, steps))

    return mock.patch.object(noise.SecureSource, "chunk", chunk)


def _patched_sum(change: Callable) -> contextmanager:
    return mock.patch.object(release, "clipped_sum", change)


def _clipped(gradients, included, grid: Grid, factors):
    scaled = gradients * (grid.points / grid.clip_norm)
    rounded = jnp.rint(jnp.where(included[:, None], scaled * factors(scaled), 0.0))
    return jnp.sum(rounded.astype(jnp.int32), axis=0)


def _norm_factor(scaled, grid):
    return jnp.minimum(1.0, grid.inner_norm / jnp.linalg.norm(scaled, axis=1, keepdims=True))


def less_noise() -> contextmanager:
    """Noise divided by sqrt(2)."""
    return _patched_chunk(lambda _, c: c._replace(noise=(c.noise / np.sqrt(2)).astype(np.int32)))


def no_clipping() -> contextmanager:
    """Gradients summed as they are."""
    return _patched_sum(lambda g, i, grid: _clipped(jnp.nan_to_num(g), i, grid, lambda s: 1.0))


def clipping_per_part() -> contextmanager:
    """Each half of the coordinates clipped on its own."""

    def change(g, i, grid):
        half = g.shape[1] // 2
        good = jnp.nan_to_num(g)
        parts = [
            _clipped(part, i, grid, lambda s: _norm_factor(s, grid))
            for part in (good[:, :half], good[:, half:])
        ]
        return jnp.concatenate(parts)

    return _patched_sum(change)


def noise_over_batch_size() -> contextmanager:
    """Noise divided by the drawn batch size."""

    def change(_, c):
        size = np.maximum(c.size, 1)[:, None]
        return c._replace(noise=(c.noise / size).astype(np.int32))

    return _patched_chunk(change)


def normalising_by_drawn_size() -> contextmanager:
    """The release divided by the drawn size over its mean."""
    original = release.noisy_sum

    def change(gradients, rows, draws, grid, pass_size, passes):
        expected = 0.2 * len(jax.tree.leaves(rows)[0])
        total = original(gradients, rows, draws, grid, pass_size, passes)
        return total * expected / jnp.maximum(draws.size, 1)

    return mock.patch.object(release, "noisy_sum", change)


def doubled_sampling_rate() -> contextmanager:
    """Twice as many records as accounted for."""
    original = noise.SecureSource.__init__

    def init(self, rows, rate, *rest):
        original(self, rows, min(2 * rate, 1.0), *rest)

    return mock.patch.object(noise.SecureSource, "__init__", init)


def key_reuse_between_steps() -> contextmanager:
    """Every chunk draws from the first one's keys."""
    original = noise.SecureSource._generators
    return mock.patch.object(noise.SecureSource, "_generators", lambda self, _: original(self, 0))


def same_noise_in_all_coordinates() -> contextmanager:
    """One normal number a step."""
    return _patched_chunk(
        lambda _, c: c._replace(noise=np.repeat(c.noise[:, :1], c.noise.shape[1], axis=1))
    )


def noise_in_one_part_only() -> contextmanager:
    """The second half of the coordinates goes out as it is."""

    def change(_, c):
        part = c.noise.copy()
        part[:, part.shape[1] // 2 :] = 0
        return c._replace(noise=part)

    return _patched_chunk(change)


def unclipped_addition() -> contextmanager:
    """A term from the rows is added after the clip."""
    original = release.clipped_sum

    def change(g, i, grid):
        extra = jnp.where(i[:, None], jnp.nan_to_num(g, posinf=0.0, neginf=0.0), 0.0).sum(0)
        return original(g, i, grid) + (0.01 * extra * grid.points / grid.clip_norm).astype(int)

    return _patched_sum(change)


def nan_through_the_clip() -> contextmanager:
    """A record whose gradient is not a number takes the whole sum with it."""
    original = release.noisy_sum

    def change(gradients, rows, draws, grid, pass_size, passes):
        total = original(gradients, rows, draws, grid, pass_size, passes)
        here = jax.lax.dynamic_slice_in_dim(draws.indices, draws.offset, pass_size)
        included = jnp.arange(pass_size) < draws.size
        batch = jax.tree.map(lambda column: column[here], rows)
        bad = jnp.isnan(gradients(batch)).any(1) & included
        return jnp.where(bad.any(), jnp.nan, total)

    return mock.patch.object(release, "noisy_sum", change)


MUTANTS: list[Callable[[], contextmanager]] = [
    less_noise,
    no_clipping,
    clipping_per_part,
    noise_over_batch_size,
    normalising_by_drawn_size,
    doubled_sampling_rate,
    key_reuse_between_steps,
    same_noise_in_all_coordinates,
    noise_in_one_part_only,
    unclipped_addition,
    nan_through_the_clip,
]


def seeds(count: int) -> Iterator[int]:
    """Fixed seeds: a test that passes today passes tomorrow."""
    return iter(range(1000, 1000 + count))
