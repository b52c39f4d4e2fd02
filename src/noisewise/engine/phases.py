"""Runs in phases, each starting where the last one ended, under one budget.

Where a phase ends was released, so handing it over costs nothing. A mixture needs phases: started
anywhere, a fit with the true, small sd often puts two components on one cluster. A first phase with
a wider sd sees clusters as clouds, spreads the components over them, and hands over (deterministic
annealing).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import jax
from jax import Array

from noisewise._validate import NoisewiseError
from noisewise.data import PrivateRows, Rows
from noisewise.engine.run import Finished, Run, device_source, run_secure, run_simulated
from noisewise.mechanism import Budget, Mechanism, Release, calibrate


def calibrate_phases(
    mechanisms: Sequence[Mechanism], budget: Budget, others: tuple[Release, ...] = ()
) -> tuple[Mechanism, ...]:
    """The phases' mechanisms, all with the least noise multiplier that keeps everything together,
    ``others`` included, within the budget."""
    rates = {mechanism.sampling_rate for mechanism in mechanisms}
    if len(rates) != 1:
        raise NoisewiseError(f"phases must share one sampling rate, got {sorted(rates)}")
    steps = sum(mechanism.steps for mechanism in mechanisms)
    noise = calibrate(budget, rates.pop(), steps, others)
    return tuple(replace(mechanism, noise_multiplier=noise) for mechanism in mechanisms)


def run_phases_secure(
    runs: Sequence[Run],
    rows: PrivateRows,
    *,
    insecure_seed: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Finished]:
    """All phases on rows about people; see `run_secure`. ``progress`` hears steps of all phases."""
    finished: list[Finished] = []
    done = 0
    for number, run in enumerate(runs):
        seed = None if insecure_seed is None else 1000 * insecure_seed + number
        counted = None if progress is None else _after(progress, done)
        begun = run if not finished else run.starting_at(_end(runs[number - 1], finished[-1]))
        finished.append(run_secure(begun, rows, insecure_seed=seed, progress=counted))
        done += run.steps
    return finished


def run_phases_simulated(
    runs: Sequence[Run], rows: Rows, key: Array, lengths: Sequence[int | None] | None = None
) -> list[Finished]:
    """All phases on simulated rows, on the device: `jax.vmap` it over runs, tables and keys."""
    count = len(next(iter(rows.values())))
    finished: list[Finished] = []
    for number, (run, one_key) in enumerate(
        zip(runs, jax.random.split(key, len(runs)), strict=True)
    ):
        begun = run if not finished else run.starting_at(_end(runs[number - 1], finished[-1]))
        length = None if lengths is None else lengths[number]
        source = device_source(run, count)
        finished.append(run_simulated(begun, source, rows, one_key, length))
    return finished


def _end(run: Run, finished: Finished) -> object:
    return run.algorithm.handover(run.numbers, finished.state)


def _after(progress: Callable[[int], None], done: int) -> Callable[[int], None]:
    return lambda steps: progress(done + steps)
