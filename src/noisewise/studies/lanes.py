"""Private fits of one table that differ in start, noise, clip norm or length, side by side.

What `repeats` does for repeats, for everything that does not change the compiled program. For
public and simulated data only: the noise comes from a seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.dpvi import BlockSums, Program, Setting, Settings, Trace, assemble, run_simulated
from noisewise.mechanism import DeviceSource, Mechanism
from noisewise.models import Rows, Target
from noisewise.studies.repeats import calibrated

__all__ = ["Lane", "fit_lanes", "noise_for"]


class Lane(NamedTuple):
    """One fit."""

    settings: Settings
    mechanism: Mechanism
    start: np.ndarray
    """Initial means, unconstrained."""
    blocks: int
    """Its length, in blocks of steps."""
    seed: int


def noise_for(
    settings: Settings, wanted: Iterable[tuple[float, int]], delta: float
) -> dict[tuple[float, int], float]:
    """Noise multipliers for pairs of epsilon and number of steps, searched for side by side."""
    import os
    from dataclasses import replace

    import joblib

    pairs = sorted(set(wanted))
    jobs = min(len(pairs), os.cpu_count() or 1)
    found = joblib.Parallel(n_jobs=jobs)(
        joblib.delayed(calibrated)(replace(settings, steps=steps), epsilon, delta)
        for epsilon, steps in pairs
    )
    return {pair: mechanism.multiplier for pair, mechanism in zip(pairs, found, strict=True)}


def fit_lanes(target: Target, rows: Rows, lanes: Sequence[Lane], block_steps: int) -> list[Trace]:
    """The trace of every lane, in blocks of ``block_steps`` steps.

    On a GPU lanes of about a length run at once, to the end of the longest, and shorter ones are
    cut off where they end: their noise was for that length, and nothing after it is looked at. On
    a CPU each runs alone and stops at its end.
    """
    count = len(next(iter(rows.values())))
    ready = [assemble(lane.settings, target, lane.mechanism, count, count) for lane in lanes]
    program, frame = ready[0].program, ready[0].frame
    source = DeviceSource(count, lanes[0].mechanism.sampling_rate, program.passes)
    table = target.prepare(rows, frame)
    initial = np.stack([one.initial for one in ready])
    initial[:, : target.dim] = np.stack([lane.start for lane in lanes])
    traces: list[Trace | None] = [None] * len(lanes)
    for group in _groups([lane.blocks for lane in lanes]):
        blocks, last = jax.device_get(
            _run_group(
                program,
                source,
                _stacked([ready[place].setting for place in group]),
                table,
                jnp.asarray(initial[group], jnp.float32),
                jnp.ones((max(lanes[place].blocks for place in group), block_steps)),
                jnp.stack([jax.random.PRNGKey(lanes[place].seed) for place in group]),
            )
        )
        for number, place in enumerate(group):
            sums = BlockSums(*(part[number] for part in blocks))
            traces[place] = _cut(sums, last[number], lanes[place].blocks)
    return [trace for trace in traces if trace is not None]


def _groups(lengths: list[int]) -> list[list[int]]:
    """Which lanes run together: those of about a length, the longest alone, so that few steps are
    thrown away and few programs compiled; on a CPU each by itself."""
    if jax.default_backend() == "cpu":
        return [[place] for place in range(len(lengths))]
    keys = np.ceil(np.log2(max(lengths) / np.array(lengths)) / 2)
    return [np.flatnonzero(keys == key).tolist() for key in np.unique(keys)]


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
        lambda setting, initial, key: run_simulated(
            program, setting, source, table, initial, schedule, key
        )
    )(setting, initial, keys)
