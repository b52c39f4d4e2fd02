"""Thirteen further broken mechanisms, run through the engine."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

import jax.numpy as jnp
import numpy as np

from noisewise.engine import run as driver
from noisewise.mechanism import SecureSource, release


def _patched_chunk(change: Callable) -> AbstractContextManager:
    original = SecureSource.chunk

    def chunk(self: Any, number: int, steps: int) -> Any:
        return change(self, original(self, number, steps))

    return mock.patch.object(SecureSource, "chunk", chunk)


def _patched_sum(change: Callable) -> AbstractContextManager:
    original = release.clipped_sum
    return mock.patch.object(
        release, "clipped_sum", lambda g, included, grid: change(original, g, included, grid)
    )


# -- noise -------------------------------------------------------------------------------------


def one_noise_for_a_chunk() -> AbstractContextManager:
    """The first step's noise at every step of a chunk: one look less, and it is gone."""
    return _patched_chunk(
        lambda _, c: c._replace(noise=np.repeat(c.noise[:1], len(c.noise), axis=0))
    )


def coarse_noise() -> AbstractContextManager:
    """Multiples of 256 grid steps: the low bits of the sum go out as they are."""
    return _patched_chunk(lambda _, c: c._replace(noise=c.noise // 256 * 256))


def noise_cut_off() -> AbstractContextManager:
    """No noise beyond two sds: what is further off tells for certain."""

    def change(source: Any, c: Any) -> Any:
        most = (2 * source._noise_scale).astype(np.int32)
        return c._replace(noise=np.clip(c.noise, -most, most))

    return _patched_chunk(change)


def noise_by_the_true_count() -> AbstractContextManager:
    """As loud as the number of records there are asks for."""

    def change(source: Any, c: Any) -> Any:
        factor = max(1, source._true_count) / 8
        return c._replace(noise=(c.noise * factor).astype(np.int32))

    return _patched_chunk(change)


# -- keys --------------------------------------------------------------------------------------


def one_key_for_both() -> AbstractContextManager:
    """Who is drawn and the noise from one stream of bits."""
    original = SecureSource._generators

    def generators(self: Any, number: int) -> Any:
        key = secrets.randbits(128)
        with mock.patch("secrets.randbits", lambda size: key % 2**size):
            return original(self, number)

    return mock.patch.object(SecureSource, "_generators", generators)


@contextmanager
def short_keys() -> Iterator[None]:
    """Keys of 32 bits: all of them can be tried."""
    original = secrets.randbits
    with mock.patch("secrets.randbits", lambda size: original(size) % 2**32):
        yield


# -- sampling ----------------------------------------------------------------------------------


def coins(places: np.ndarray, steps: int, count: int) -> np.ndarray:
    """Who is in which batch: steps x records."""
    found = np.zeros(steps * count, bool)
    found[places] = True
    return found.reshape(steps, count)


def drawn_twice() -> AbstractContextManager:
    """A batch's first record also takes the second one's place."""

    def change(_: Any, c: Any) -> Any:
        indices = c.indices.copy()
        several = c.offset[c.size > 1]
        indices[several + 1] = indices[several]
        return c._replace(indices=indices)

    return _patched_chunk(change)


def first_record_always() -> AbstractContextManager:
    """The first record is in every batch."""
    original = SecureSource._places

    def places(self: Any, sampler: Any, steps: int) -> Any:
        found = coins(original(self, sampler, steps), steps, self._true_count)
        found[:, :1] = True
        return np.flatnonzero(found)

    return mock.patch.object(SecureSource, "_places", places)


# -- clipping ----------------------------------------------------------------------------------


def alone_without_a_clip() -> AbstractContextManager:
    """A record that is alone in its batch goes in as it is."""

    def change(original: Callable, g: Any, included: Any, grid: Any) -> Any:
        inside = jnp.where(included[:, None], jnp.nan_to_num(g, posinf=1e6, neginf=-1e6), 0.0)
        whole = jnp.rint(inside.sum(0) * (grid.points / grid.clip_norm)).astype(jnp.int32)
        return jnp.where(included.sum() == 1, whole, original(g, included, grid))

    return _patched_sum(change)


def centred_over_the_batch() -> AbstractContextManager:
    """The batch's mean is taken off every record: one record moves all others."""

    def change(original: Callable, g: Any, included: Any, grid: Any) -> Any:
        good = jnp.where(included[:, None] & jnp.isfinite(g), g, 0.0)
        mean = good.sum(0) / jnp.maximum(included.sum(), 1)
        return original(g - mean, included, grid)

    return _patched_sum(change)


def scaled_by_the_longest() -> AbstractContextManager:
    """All records of a batch are shortened by the longest one's factor."""

    def change(original: Callable, g: Any, included: Any, grid: Any) -> Any:
        norms = jnp.where(included, jnp.linalg.norm(jnp.nan_to_num(g), axis=1), 0.0)
        factor = jnp.minimum(1.0, grid.clip_norm / jnp.maximum(norms.max(), 1e-30))
        return original(g * factor, included, grid)

    return _patched_sum(change)


def largest_coordinate_clipped() -> AbstractContextManager:
    """The clip norm holds for the largest coordinate, not for the length."""

    def change(original: Callable, g: Any, included: Any, grid: Any) -> Any:
        scaled = jnp.nan_to_num(g) * (grid.points / grid.clip_norm)
        largest = jnp.abs(scaled).max(axis=1, keepdims=True)
        short = scaled * jnp.minimum(1.0, grid.inner_norm / jnp.maximum(largest, 1e-30))
        rounded = jnp.rint(jnp.where(included[:, None], short, 0.0))
        return rounded.astype(jnp.int32).sum(0)

    return _patched_sum(change)


def no_room_for_rounding() -> AbstractContextManager:
    """Clipped to the norm itself; rounding then carries some records beyond it."""
    original = driver._run_chunk

    def run_chunk(run: Any, *rest: Any) -> Any:
        grid = run.numbers.grid
        numbers = run.numbers._replace(grid=grid._replace(inner_norm=grid.points))
        return original(driver.replace(run, numbers=numbers), *rest)

    return mock.patch.object(driver, "_run_chunk", run_chunk)


COMPILED_IN = {
    "alone_without_a_clip",
    "centred_over_the_batch",
    "scaled_by_the_longest",
    "largest_coordinate_clipped",
}
FURTHER: list[Callable[[], AbstractContextManager]] = [
    one_noise_for_a_chunk,
    coarse_noise,
    noise_cut_off,
    noise_by_the_true_count,
    one_key_for_both,
    short_keys,
    drawn_twice,
    first_record_always,
    alone_without_a_clip,
    centred_over_the_batch,
    scaled_by_the_longest,
    largest_coordinate_clipped,
    no_room_for_rounding,
]
