"""Many private fits of one table, side by side: for public and simulated data only.

Fits may differ in every number that leaves the compiled program as it is: noise, clip norm, start,
length and key. The noise comes from these keys, so nothing here is a private release.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._validate import NoisewiseError
from noisewise.data import PrivateRows, Rows, record_count
from noisewise.dpvi import BlockSums, Settings, Trace, assemble, trace_of
from noisewise.engine import Run, block_length, run_secure, run_simulated
from noisewise.mechanism import Budget, calibrate
from noisewise.models import Target, build_target

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
    run: Run


def target_for(model: Callable[..., Any], rows: Rows) -> Target:
    """The model, ready to be fitted to rows of this shape.

    Args:
        model: A NumPyro model.
        rows: The table, as the model's arguments.
    """
    return build_target(model, {name: column[:_SHAPE_ROWS] for name, column in rows.items()})


def noise_multipliers(
    sampling_rate: float, wanted: Iterable[tuple[float, int]], delta: float
) -> dict[tuple[float, int], float]:
    """Noise multipliers for pairs of epsilon and number of steps.

    They are searched for side by side: long fits take half a minute each on one core.

    Args:
        sampling_rate: Of the Poisson batches.
        wanted: Pairs of epsilon and number of steps.
        delta: Of every budget.
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
        target: The model.
        rows: The table, as the model's arguments.
        fits: What to fit. Settings may differ in numbers, not in rule, guide or optimiser.
        block_steps: Steps in a block of the traces; by default a hundredth of the first fit's.
    """
    runs = [_assembled(target, fit, record_count(rows)) for fit in fits]
    if any((run.algorithm, run.passes) != (runs[0].algorithm, runs[0].passes) for run in runs):
        raise NoisewiseError(
            "fits of one table must have the same rule, guide, optimiser and sampling rate: fit "
            "them in several calls"
        )
    table = target.prepare(rows, runs[0].numbers.constants.frame)
    length = block_steps or block_length(runs[0])
    found: dict[int, Fitted] = {}
    for group in _groups([run.steps // length for run in runs], runs[0], rows):
        longest = max(runs[place].steps for place in group)
        stacked = _stacked([runs[place] for place in group], longest)
        keys = jnp.stack([fits[place].key for place in group])
        blocks, last = jax.device_get(_run_group(stacked, table, keys, length))
        for number, place in enumerate(group):
            sums = BlockSums(*(part[number] for part in blocks))
            trace = _cut(sums, last[number], runs[place].steps // length)
            found[place] = Fitted(trace, runs[place])
    return [found[place] for place in range(len(fits))]


def fit_with_steps(
    target: Target, rows: Rows, settings: Settings, noise_multiplier: float, seed: int
) -> Fitted:
    """One fit by the driver that real tables get, with every step in its trace.

    Args:
        target: The model.
        rows: The table, as the model's arguments.
        settings: Of the fit.
        noise_multiplier: In units of the clip norm.
        seed: Of batches and noise, which makes them insecure.
    """
    mechanism = settings.mechanism(noise_multiplier)
    run = assemble(settings, target, mechanism, record_count(rows), keep_steps=True)
    table = PrivateRows(target.prepare(rows, run.numbers.constants.frame))
    return Fitted(trace_of(run_secure(run, table, insecure_seed=seed), run), run)


def fit_function(
    target: Target, settings: Settings, noise_multiplier: float, count: int
) -> Callable[[Rows, Array, Array], BlockSums]:
    """A fit as a function of rows, initial parameters and key, to be mapped over tables by JAX.

    Args:
        target: The model.
        settings: Of the fit, in the model's own coordinates.
        noise_multiplier: In units of the clip norm.
        count: Rows of every table.
    """
    run = assemble(settings, target, settings.mechanism(noise_multiplier), count)

    def fit(rows: Rows, initial: Array, key: Array) -> BlockSums:
        table = target.prepare(rows, run.numbers.constants.frame)
        found = run_simulated(run.starting_at(initial), table, key, block_length(run))
        sums: BlockSums = found.records
        return sums

    return fit


def _assembled(target: Target, fit: Fit, count: int) -> Run:
    run = assemble(fit.settings, target, fit.settings.mechanism(fit.noise_multiplier), count)
    if fit.start is None:
        return run
    start, frame = np.array(run.start), run.numbers.constants.frame
    start[: target.dim] = frame.from_model(jnp.asarray(fit.start, jnp.float32))
    return run.starting_at(start)


def _groups(lengths: list[int], run: Run, rows: Rows) -> list[list[int]]:
    """Which fits run together: those of about a length, the longest alone, so that few steps are
    thrown away and few programs compiled; on a CPU each by itself."""
    if jax.default_backend() == "cpu":
        return [[place] for place in range(len(lengths))]
    width = sum(int(np.prod(np.shape(column)[1:], dtype=int)) for column in rows.values())
    most = max(1, _GROUP_FLOATS // (run.passes.size * (width + 4 * run.algorithm.released)))
    classes = np.ceil(np.log2(max(lengths) / np.array(lengths)) / 2)
    alike = [np.flatnonzero(classes == one).tolist() for one in np.unique(classes)]
    return [some[first : first + most] for some in alike for first in range(0, len(some), most)]


def _stacked(runs: list[Run], steps: int) -> Run:
    """The runs along a new first axis, each filled up to so many steps."""
    filled = [
        replace(run, schedule=np.pad(run.schedule, (0, steps - run.steps), constant_values=1))
        for run in runs
    ]
    found: Run = jax.tree.map(lambda *parts: jnp.stack([jnp.asarray(p) for p in parts]), *filled)
    return found


def _cut(blocks: BlockSums, last: np.ndarray, length: int) -> Trace:
    """The first blocks; the iterate at their end is where the next block starts."""
    if length < len(blocks.start):
        last = blocks.start[length]
    return Trace(BlockSums(*(part[:length] for part in blocks)), last)


@partial(jax.jit, static_argnums=3)
def _run_group(runs: Run, table: Rows, keys: Array, length: int) -> tuple[BlockSums, Array]:
    """Runs side by side: their numbers, schedules and starts have a leading axis."""

    def one(run: Run, key: Array) -> tuple[BlockSums, Array]:
        found = run_simulated(run, table, key, length)
        return found.records, found.state.parameters

    return jax.vmap(one)(runs, keys)
