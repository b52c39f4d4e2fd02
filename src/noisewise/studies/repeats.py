"""Many private fits of one table, side by side: for public and simulated data only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.dpvi import (
    Assembly,
    BlockSums,
    Program,
    Setting,
    Settings,
    Trace,
    assemble,
    run_simulated,
)
from noisewise.mechanism import Budget, DeviceSource, Mechanism
from noisewise.models import Rows, Target

__all__ = ["Repeats", "calibrated", "fit_repeats", "noise_multipliers"]


class Repeats(NamedTuple):
    """Fits of one table at one level of noise, one a seed."""

    assembly: Assembly
    settings: Settings
    traces: list[Trace]


def calibrated(
    settings: Settings, epsilon: float, delta: float, noise: float | None = None
) -> Mechanism:
    """The mechanism of these settings at a budget, or with a ``noise`` multiplier as it is."""
    mechanism = Mechanism(
        clip_norm=settings.clip_norm,
        sampling_rate=settings.sampling_rate,
        steps=settings.steps,
        noise_multiplier=noise,
    )
    if noise is not None:
        return mechanism
    return mechanism.calibrate(Budget(epsilon=epsilon, delta=delta))


def noise_multipliers(
    settings: Settings, epsilons: Sequence[float], delta: float
) -> tuple[float, ...]:
    """Those of several budgets, searched for side by side: half a minute each on one core."""
    import joblib

    jobs = min(len(epsilons), os.cpu_count() or 1)
    found = joblib.Parallel(n_jobs=jobs)(
        joblib.delayed(calibrated)(settings, epsilon, delta) for epsilon in epsilons
    )
    return tuple(mechanism.multiplier for mechanism in found)


def fit_repeats(
    target: Target,
    rows: Rows,
    settings: Settings,
    mechanisms: Sequence[Mechanism],
    fits: int,
    seed: int,
    starts: np.ndarray | None = None,
) -> list[Repeats]:
    """``fits`` private fits of one table for each of the mechanisms, with seeded noise.

    Mechanisms differ in their noise alone, so that one compilation serves them all; repeat k has
    the same seed under each. ``starts`` (fits x dim) are initial means in the unconstrained space,
    where repeats begin at different places. On a GPU all of it runs at once, else one by one.
    """
    count = len(next(iter(rows.values())))
    ready = [assemble(settings, target, mechanism, count, count) for mechanism in mechanisms]
    program, frame = ready[0].program, ready[0].frame
    source = DeviceSource(count, settings.sampling_rate, program.passes)
    keys = jax.random.split(jax.random.PRNGKey(seed), fits)
    initial = np.tile(ready[0].initial, (fits, 1))
    if starts is not None:
        initial[:, : target.dim] = frame.from_model(jnp.asarray(starts, jnp.float32))
    schedule = jnp.asarray(ready[0].block_schedule())
    table = target.prepare(rows, frame)
    every = [(level, repeat) for level in range(len(ready)) for repeat in range(fits)]
    width = 1 if jax.default_backend() == "cpu" else len(every)
    traces: list[list[Trace]] = [[] for _ in ready]
    for first in range(0, len(every), width):
        group = every[first : first + width]
        some = [ready[level].setting for level, _ in group]
        picked = np.array([repeat for _, repeat in group])
        blocks, last = jax.device_get(
            _run_group(
                program,
                source,
                jax.tree.map(lambda *parts: jnp.stack([jnp.asarray(p) for p in parts]), *some),
                table,
                jnp.asarray(initial[picked], jnp.float32),
                schedule,
                keys[picked],
            )
        )
        for place, (level, _) in enumerate(group):
            sums = BlockSums(*(part[place] for part in blocks))
            traces[level].append(Trace(sums, last[place]))
    return [Repeats(one, settings, found) for one, found in zip(ready, traces, strict=True)]


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
        lambda setting, initial, key: run_simulated(
            program, setting, source, table, initial, schedule, key
        )
    )(setting, initial, keys)
