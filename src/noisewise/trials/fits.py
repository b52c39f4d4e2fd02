"""Many private fits of one table, side by side: for public and simulated data only.

Fits may differ in every number that leaves the compiled program as it is: noise, clip norm, start,
length and key. The noise comes from these keys, so nothing here is a private release.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._validate import NoisewiseError
from noisewise.dpvi import (
    Assembly,
    BlockSums,
    Program,
    Setting,
    Settings,
    Trace,
    assemble,
    run_secure,
    run_simulated,
)
from noisewise.mechanism import Budget, DeviceSource, Mechanism
from noisewise.mechanism.accounting import calibrate
from noisewise.models import Rows, Target, build_target

__all__ = [
    "Fit",
    "Fitted",
    "fit_function",
    "fit_table",
    "fit_with_steps",
    "noise_multipliers",
    "target_for",
]

_SHAPING = ("rule", "guide", "guide_draws", "sampling_rate", "clip_prior", "optimiser")
_GROUP_FLOATS = 2**30
"""Most numbers of all batches and gradients that a GPU holds at once."""
_SHAPE_ROWS = 4


class Fit(NamedTuple):
    """One fit to be made."""

    settings: Settings
    noise_multiplier: float
    key: Array
    """Of its batches and its noise."""
    start: np.ndarray | None = None
    """Initial means in the model's unconstrained space; None: the settings' own."""


class Fitted(NamedTuple):
    """What a fit released, and what a posterior needs to read it."""

    trace: Trace
    assembly: Assembly


def target_for(model: Callable[..., Any], rows: Rows) -> Target:
    """The model, ready to be fitted to rows of this shape."""
    return build_target(model, {name: column[:_SHAPE_ROWS] for name, column in rows.items()})


def noise_multipliers(
    sampling_rate: float, wanted: Iterable[tuple[float, int]], delta: float
) -> dict[tuple[float, int], float]:
    """Noise multipliers for pairs of epsilon and number of steps.

    They are searched for side by side: long fits take half a minute each on one core.
    """
    import joblib

    pairs = sorted(set(wanted))
    jobs = min(len(pairs), os.cpu_count() or 1)
    found = joblib.Parallel(n_jobs=jobs)(
        joblib.delayed(calibrate)(Budget(epsilon=epsilon, delta=delta), sampling_rate, steps)
        for epsilon, steps in pairs
    )
    return dict(zip(pairs, found, strict=True))


def fit_table(
    target: Target, rows: Rows, fits: Sequence[Fit], block_steps: int | None = None
) -> list[Fitted]:
    """Fit one table many times.

    On a GPU fits of about a length run at once, as many as it holds, to the end of the longest;
    shorter ones are cut off where they end: their noise was for that length, and nothing after it
    is looked at. On a CPU each runs alone and stops at its end.

    Args:
        target: the model.
        rows: the table, as the model's arguments.
        fits: what to fit. Settings may differ in numbers, not in rule, guide or optimiser.
        block_steps: steps in a block of the traces; by default a hundredth of the first fit's.
    """
    _check_alike(fits)
    ready = [_assembled(target, fit.settings, fit.noise_multiplier, _count(rows)) for fit in fits]
    program, frame = ready[0].program, ready[0].frame
    source = DeviceSource(_count(rows), fits[0].settings.sampling_rate, program.passes)
    table = target.prepare(rows, frame)
    length = block_steps or ready[0].block_schedule().shape[1]
    schedules = [_in_blocks(one.schedule, length) for one in ready]
    initial = np.stack([one.initial for one in ready]).astype(np.float32)
    for place, fit in enumerate(fits):
        if fit.start is not None:
            initial[place, : target.dim] = frame.from_model(jnp.asarray(fit.start, jnp.float32))
    found: dict[int, Fitted] = {}
    for group in _groups([len(schedule) for schedule in schedules], program, rows):
        longest = max(len(schedules[place]) for place in group)
        blocks, last = jax.device_get(
            _run_group(
                program,
                source,
                _stacked([ready[place].setting for place in group]),
                table,
                jnp.asarray(initial[group]),
                jnp.stack([_padded(schedules[place], longest) for place in group]),
                jnp.stack([fits[place].key for place in group]),
            )
        )
        for number, place in enumerate(group):
            sums = BlockSums(*(part[number] for part in blocks))
            trace = _cut(sums, last[number], len(schedules[place]))
            found[place] = Fitted(trace, ready[place])
    return [found[place] for place in range(len(fits))]


def fit_with_steps(
    target: Target, rows: Rows, settings: Settings, noise_multiplier: float, seed: int
) -> Fitted:
    """One fit by the driver that real tables get, with every step in its trace.

    Args:
        target: the model.
        rows: the table, as the model's arguments.
        settings: of the fit.
        noise_multiplier: in units of the clip norm.
        seed: of batches and noise, which makes them insecure.
    """
    count = _count(rows)
    ready = _assembled(target, settings, noise_multiplier, count)
    trace = run_secure(
        ready.program,
        ready.setting,
        target.prepare(rows, ready.frame),
        count,
        ready.initial,
        ready.schedule,
        insecure_seed=seed,
        keep_steps=True,
    )
    return Fitted(trace, ready)


def fit_function(
    target: Target, settings: Settings, noise_multiplier: float, row_count: int
) -> Callable[[Rows, Array, Array], BlockSums]:
    """A fit as a function of rows, initial parameters and key, to be mapped over tables by JAX.

    Args:
        target: the model.
        settings: of the fit, in the model's own coordinates.
        noise_multiplier: in units of the clip norm.
        row_count: rows of every table.
    """
    ready = _assembled(target, settings, noise_multiplier, row_count)
    source = DeviceSource(row_count, settings.sampling_rate, ready.program.passes)
    schedule = jnp.asarray(ready.block_schedule())

    def fit(rows: Rows, initial: Array, key: Array) -> BlockSums:
        table = target.prepare(rows, ready.frame)
        blocks, _ = run_simulated(
            ready.program, ready.setting, source, table, initial, schedule, key
        )
        return blocks

    return fit


def _count(rows: Rows) -> int:
    return len(next(iter(rows.values())))


def _check_alike(fits: Sequence[Fit]) -> None:
    for name in _SHAPING:
        found = {getattr(fit.settings, name) for fit in fits}
        if len(found) > 1:
            raise NoisewiseError(
                f"fits of one table must have the same {name}, got "
                f"{', '.join(sorted(map(str, found)))}: fit them in two calls"
            )


def _assembled(
    target: Target, settings: Settings, noise_multiplier: float, row_count: int
) -> Assembly:
    mechanism = Mechanism(
        clip_norm=settings.clip_norm,
        sampling_rate=settings.sampling_rate,
        steps=settings.steps,
        noise_multiplier=noise_multiplier,
    )
    return assemble(settings, target, mechanism, row_count, row_count)


def _in_blocks(schedule: np.ndarray, length: int) -> np.ndarray:
    """A row for each block; steps that fill no block are left out."""
    return schedule[: length * (len(schedule) // length)].reshape(-1, length)


def _padded(schedule: np.ndarray, blocks: int) -> Array:
    """As many blocks as the longest fit of the group has."""
    more = blocks - len(schedule)
    return jnp.asarray(np.pad(schedule, ((0, more), (0, 0)), constant_values=1))


def _groups(lengths: list[int], program: Program, rows: Rows) -> list[list[int]]:
    """Which fits run together: those of about a length, the longest alone, so that few steps are
    thrown away and few programs compiled; on a CPU each by itself."""
    if jax.default_backend() == "cpu":
        return [[place] for place in range(len(lengths))]
    width = sum(int(np.prod(np.shape(column)[1:], dtype=int)) for column in rows.values())
    most = max(1, _GROUP_FLOATS // (program.passes.size * (width + 4 * program.rule.released)))
    classes = np.ceil(np.log2(max(lengths) / np.array(lengths)) / 2)
    alike = [np.flatnonzero(classes == one).tolist() for one in np.unique(classes)]
    return [some[first : first + most] for some in alike for first in range(0, len(some), most)]


def _stacked(settings: list[Setting]) -> Setting:
    found: Setting = jax.tree.map(
        lambda *parts: jnp.stack([jnp.asarray(part) for part in parts]), *settings
    )
    return found


def _cut(blocks: BlockSums, last: np.ndarray, length: int) -> Trace:
    """The first blocks; the iterate at their end is where the next block starts."""
    if length < len(blocks.start):
        last = blocks.start[length]
    return Trace(BlockSums(*(part[:length] for part in blocks)), last)


@partial(jax.jit, static_argnums=(0, 1))
def _run_group(
    program: Program,
    source: DeviceSource,
    setting: Setting,
    table: Rows,
    initial: Array,
    schedule: Array,
    keys: Array,
) -> tuple[BlockSums, Array]:
    return jax.vmap(
        lambda setting, initial, schedule, key: run_simulated(
            program, setting, source, table, initial, schedule, key
        )
    )(setting, initial, schedule, keys)
