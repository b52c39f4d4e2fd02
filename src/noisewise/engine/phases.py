"""Runs in phases, each starting where the last one ended, under one budget.

Where a phase ends was released, so handing it over costs nothing. A mixture needs phases: started
anywhere, a fit with the true, small sd often puts two components on one cluster. A first phase with
a wider sd sees clusters as clouds, spreads the components over them, and hands over (deterministic
annealing).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import jax
from jax import Array

from noisewise._validate import NoisewiseError
from noisewise.data import PrivateRows, Rows
from noisewise.engine.checkpoints import Checkpoint
from noisewise.engine.devices import Devices
from noisewise.engine.run import Finished, Run, run_secure, run_simulated
from noisewise.mechanism import Budget, Mechanism, Release, calibrate


def calibrate_phases(
    mechanisms: Sequence[Mechanism], budget: Budget, others: tuple[Release, ...] = ()
) -> tuple[Mechanism, ...]:
    """The phases' mechanisms, all with the least noise multiplier that keeps everything together,
    ``others`` included, within the budget.

    Args:
        mechanisms: One a phase, of one sampling rate.
        budget: For all of it.
        others: What else the same data pay for.
    """
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
    checkpoint: Checkpoint | None = None,
    count_noise: float = 0.0,
    devices: Devices | None = None,
) -> list[Finished]:
    """All phases on rows about people; see `run_secure`.

    Args:
        runs: The phases.
        rows: The records, prepared for the algorithm.
        insecure_seed: Makes the runs repeatable, and therefore not private.
        progress: Called with the steps done, of all phases together.
        checkpoint: Where steps are written down; those that are there are not made again.
        count_noise: Standard deviation of the public count's own noise, if it has any.
        devices: That share the rows; None where one does it all.
    """
    finished: list[Finished] = []
    done = 0

    def counted(steps: int) -> None:
        if progress is not None:
            progress(done + steps)

    for number, run in enumerate(runs):
        seed = None if insecure_seed is None else 1000 * insecure_seed + number
        begun = _begun(runs, finished)
        finished.append(
            run_secure(
                begun,
                rows,
                insecure_seed=seed,
                progress=counted,
                checkpoint=checkpoint,
                phase=number,
                count_noise=count_noise,
                devices=devices,
            )
        )
        done += run.steps
    return finished


def run_phases_simulated(
    runs: Sequence[Run], rows: Rows, key: Array, lengths: Sequence[int | None] | None = None
) -> list[Finished]:
    """All phases on simulated rows, on the device: `jax.vmap` it over runs, tables and keys.

    Args:
        runs: The phases.
        rows: Simulated or public records, prepared for the algorithm.
        key: Of all their randomness.
        lengths: Of every phase's blocks, see `run_simulated`.
    """
    finished: list[Finished] = []
    keys = jax.random.split(key, len(runs))
    for number, length in enumerate(lengths or [None] * len(runs)):
        begun = _begun(runs, finished)
        finished.append(run_simulated(begun, rows, keys[number], length))
    return finished


def _begun(runs: Sequence[Run], finished: Sequence[Finished]) -> Run:
    """The next phase, from where the last one ended."""
    run = runs[len(finished)]
    if not finished:
        return run
    before = runs[len(finished) - 1]
    return run.starting_at(before.algorithm.handover(before.numbers, finished[-1].state))
