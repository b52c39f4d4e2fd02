"""Whole private fits on made-up tables, many at once: what plans and coverage are made of.

A truth is drawn from the prior, covariates from the schema (or a public sample), records from the
model; the fit is the very one that data would get, with seeded noise. No row is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
from noisewise.dpvi.run import BLOCKS
from noisewise.mechanism import Budget, DeviceSource, Mechanism, Release
from noisewise.models import Rows, RowView, Target
from noisewise.posterior import Reference, infer_many

__all__ = ["SimulatedFits", "Simulator", "reference_rows", "simulator"]

_REFERENCE_ROWS = (4096, 16_384)
_GROUP_FLOATS = {"cpu": 2**25, "gpu": 2**30}
_GROUPS = {"cpu": (8,), "gpu": (128, 1024)}
"""Widths of groups, few so that little is compiled; a device's cores are busy from these on."""


class SimulatedFits(NamedTuple):
    """Truths (fits x coordinates), draws (fits x draws x coordinates), and how each fit went."""

    truth: np.ndarray
    draws: np.ndarray
    plain_mean: np.ndarray
    plain_sd: np.ndarray
    """Plain DPVI's posterior, the noise ignored (fits x coordinates)."""
    status: np.ndarray
    """`Status` names, one a fit."""


def reference_rows(target: Target, view: RowView, rows: int) -> Reference:
    """Made-up rows for `infer` to simulate from: the same for every fit, so that it is repeatable.

    Of a table's own size within limits: the simulated bias must be known better than the fit.
    """
    count = int(np.clip(rows, *_REFERENCE_ROWS))
    found = view.simulate(np.random.default_rng(1), count)
    made_up = {name: jnp.asarray(column) for name, column in found.items()}
    return Reference(made_up, view.covers(target.generated))


@dataclass(frozen=True, eq=False)
class Simulator:
    """One design, ready to be tried."""

    target: Target
    view: RowView
    settings: Settings
    assembly: Assembly
    rows: int
    posterior: str = "exact"

    @property
    def group(self) -> int:
        """Most fits side by side that fit the device's memory."""
        return self._widths()[-1]

    def _widths(self) -> list[int]:
        kind = "cpu" if jax.default_backend() == "cpu" else "gpu"
        width = sum(np.prod(shape, dtype=int) for _, shape, _ in self.target.layout.signature)
        batch = self.assembly.program.passes.size * self.target.dim * 4
        floats = self.rows * max(int(width), 1) * 2 + batch
        most = max(1, int(_GROUP_FLOATS[kind] // floats))
        return [min(width, most) for width in _GROUPS[kind]]

    def run(self, numbers: Sequence[int], *, draws: int, seed: int) -> SimulatedFits:
        """The fits of these numbers: each depends on its number and the seed alone."""
        parts = [
            self._group(numbers[first : first + self.group], draws, seed)
            for first in range(0, len(numbers), self.group)
        ]
        return SimulatedFits(*(np.concatenate(field) for field in zip(*parts, strict=True)))

    def _group(self, numbers: Sequence[int], draws: int, seed: int) -> SimulatedFits:
        # Filled up with copies of the last fit, which are left out of what comes back.
        width = next(width for width in self._widths() if width >= len(numbers))
        filled = [*numbers, *[numbers[-1]] * (width - len(numbers))]
        generators = [np.random.default_rng([seed, number]) for number in filled]
        tables = [self.view.simulate(rng, self.rows) for rng in generators]
        covariates = {name: np.stack([table[name] for table in tables]) for name in tables[0]}
        root = jax.random.PRNGKey(seed)
        keys = jax.vmap(partial(jax.random.fold_in, root))(jnp.asarray(filled, jnp.uint32))
        ready = self.assembly
        source = DeviceSource(self.rows, self.settings.sampling_rate, ready.program.passes)
        # Blocks of equal length; what does not divide is left off the end of a simulation.
        length = max(1, len(ready.schedule) // BLOCKS)
        schedule = ready.schedule[: length * (len(ready.schedule) // length)].reshape(-1, length)
        truth, blocks, last = jax.device_get(
            _run_group(
                self.target,
                ready.program,
                source,
                ready.setting,
                covariates,
                jnp.asarray(ready.initial, jnp.float32),
                jnp.asarray(schedule),
                keys,
            )
        )
        traces = [
            Trace(BlockSums(*(part[k] for part in blocks)), last[k]) for k in range(len(numbers))
        ]
        outcomes = infer_many(
            self.posterior,
            traces,
            ready,
            self.settings,
            draws,
            generators[: len(numbers)],
            reference_rows(self.target, self.view, self.rows),
            side_by_side=width,
        )
        return SimulatedFits(
            np.asarray(truth[: len(numbers)], float),
            np.stack([outcome.draws for outcome in outcomes]).astype(np.float32),
            np.stack([outcome.plain.mean(0) for outcome in outcomes]),
            np.stack([outcome.plain.std(0) for outcome in outcomes]),
            np.array([outcome.status.name for outcome in outcomes]),
        )


def simulator(
    target: Target,
    view: RowView,
    settings: Settings,
    rows: int,
    budget: Budget,
    others: tuple[Release, ...] = (),
    posterior: str = "exact",
) -> Simulator:
    """A design calibrated to its budget, of which ``others`` take a part."""
    mechanism = Mechanism(
        clip_norm=settings.clip_norm, sampling_rate=settings.sampling_rate, steps=settings.steps
    ).calibrate(budget, others)
    assembly = assemble(settings, target, mechanism, rows, rows)
    return Simulator(target, view, settings, assembly, rows, posterior)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _run_group(
    target: Target,
    program: Program,
    source: DeviceSource,
    setting: Setting,
    covariates: Rows,
    initial: Array,
    schedule: Array,
    keys: Array,
) -> tuple[Array, BlockSums, Array]:
    def one(key: Array, made_up: Rows) -> tuple[Array, BlockSums, Array]:
        key_truth, key_rows, key_run = jax.random.split(key, 3)
        truth = target.sample_prior(key_truth, 1)[0]
        records = target.simulate(key_rows, truth, made_up)
        table = target.prepare(records, setting.constants.frame)
        blocks, last = run_simulated(program, setting, source, table, initial, schedule, key_run)
        return truth, blocks, last

    return jax.vmap(one)(keys, covariates)
