"""Broken mechanisms and broken drivers, run through the engine.

The mechanism's mutants are those of `mechanism.engines`, `mechanism.hidden_faults` and
`more_mutants`; the driver's own are here. All of them break the library's functions in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from engine import more_mutants
from mechanism.engines import MUTANTS
from mechanism.hidden_faults import CAUGHT_BY, verify_without_the_budget
from noisewise.engine import run as driver
from noisewise.mechanism import SecureSource, release

Mutant = Callable[[], AbstractContextManager]


@contextmanager
def in_the_engine(mutant: Mutant) -> Iterator[None]:
    """The mutant, also where the engine has a name of its own for what it breaks."""
    late = mock.patch.object(driver, "noisy_sum", lambda *given: release.noisy_sum(*given))
    with mutant(), late:
        yield


# -- the driver's own --------------------------------------------------------------------------


@contextmanager
def _knowing_the_true_count(change: Callable[[list[int]], dict[str, Any]]) -> Iterator[None]:
    """The driver with functions that know how many records there are: the last of a list."""
    counts: list[int] = []

    class Source(SecureSource):
        def __init__(self, true_count: int, *rest: Any) -> None:
            super().__init__(true_count, *rest)
            counts.append(true_count)

    with mock.patch.multiple(driver, SecureSource=Source, **change(counts)):
        yield


def _with_room(run: Any, count: int) -> Any:
    return replace(run, passes=run.passes._replace(number=max(1, count)))


def chunks_by_the_true_count() -> AbstractContextManager:
    """Memory is shared out by the number of records there are."""
    original = driver._pieces
    return _knowing_the_true_count(
        lambda counts: {"_pieces": lambda run: original(_with_room(run, counts[-1]))}
    )


def _patched_chunk(change: Callable) -> AbstractContextManager:
    original = driver._run_chunk

    def run_chunk(counts: list[int], run: Any, *rest: Any) -> Any:
        return original(replace(run, numbers=change(run.numbers, counts[-1])), *rest)

    return _knowing_the_true_count(lambda counts: {"_run_chunk": partial(run_chunk, counts)})


def grid_by_the_true_count() -> AbstractContextManager:
    """As wide as the table's own number of records needs it."""
    return _patched_chunk(
        lambda numbers, count: numbers._replace(
            grid=numbers.grid._replace(points=numbers.grid.points / (1 if count > 4 else 2))
        )
    )


def normalising_by_the_true_count() -> AbstractContextManager:
    """Means are sums over the number of records there are."""
    return _patched_chunk(
        lambda numbers, count: numbers._replace(public_count=float(max(1, count)))
    )


def _patched_step(change: Callable) -> AbstractContextManager:
    original = driver._step

    def step(run: Any, rows: Any, state: Any, *rest: Any) -> Any:
        found = original(run, rows, state, *rest)
        seen = sum(jnp.sum(jnp.nan_to_num(column, posinf=0.0)) for column in rows.values())
        return change(found, seen)

    return mock.patch.object(driver, "_step", step)


def rows_in_the_state() -> AbstractContextManager:
    """After the release, something of the rows themselves is added."""

    def change(found: Any, seen: Any) -> Any:
        moved = jax.tree.map(
            lambda part: part + (1e-3 * seen).astype(part.dtype) if part.size else part, found.state
        )
        return found._replace(state=moved)

    return _patched_step(change)


def no_batch_drawn_twice() -> AbstractContextManager:
    """Who was drawn before is not drawn again: batches without replacement."""
    original = SecureSource._places

    def places(self: Any, sampler: Any, steps: int) -> Any:
        found = more_mutants.coins(original(self, sampler, steps), steps, self._true_count)
        found[1:] &= ~found[:-1]
        return np.flatnonzero(found)

    return mock.patch.object(SecureSource, "_places", places)


def everybody_or_nobody() -> AbstractContextManager:
    """One coin for a whole batch: every record at the right rate, all together."""
    original = SecureSource._places

    def places(self: Any, sampler: Any, steps: int) -> Any:
        found = more_mutants.coins(original(self, sampler, steps), steps, self._true_count)
        found[:] = found[:, :1]
        return np.flatnonzero(found)

    return mock.patch.object(SecureSource, "_places", places)


OF_THE_MECHANISM = [*MUTANTS, *(one for one in CAUGHT_BY if one is not verify_without_the_budget)]
OF_THE_DRIVER: list[Mutant] = [
    chunks_by_the_true_count,
    grid_by_the_true_count,
    normalising_by_the_true_count,
    rows_in_the_state,
    no_batch_drawn_twice,
    everybody_or_nobody,
]
EVERY = [*OF_THE_MECHANISM, *OF_THE_DRIVER, *more_mutants.FURTHER]
COMPILED_IN = {
    "no_clipping",
    "clipping_per_part",
    "normalising_by_drawn_size",
    "unclipped_addition",
    "nan_through_the_clip",
    "noise_added_in_floats",
    "rows_in_the_state",
    *more_mutants.COMPILED_IN,
}
"""Those that are part of a compiled program: they need one of their own."""


def harmless(mutant: Mutant, name: str) -> bool:
    """DP-EM divides by no number of records but those it has released, products of gradients are
    divided by none, and DPVI shares the prior out among records only where it is clipped with them.
    """
    indifferent = name in ("dp-em", "products of gradients")
    indifferent |= name.startswith("dpvi") and "clipped prior" not in name
    return mutant is normalising_by_the_true_count and indifferent
