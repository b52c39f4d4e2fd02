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
from noisewise.mechanism import Budget, DeviceSource, Mechanism, Release
from noisewise.models import Rows, RowView, Target
from noisewise.posterior import FitContext, Outcome, Reference, default_method, infer_many

__all__ = ["SimulatedFits", "Simulator", "reference_rows", "simulator"]

_REFERENCE_ROWS = (4096, 16_384)
_GROUP_FLOATS = {"cpu": 2**25, "gpu": 2**30}
_GROUPS = {"cpu": (8,), "gpu": (128, 512, 1024)}
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
    tail_mean: np.ndarray
    """Mean iterate behind the burn-in (fits x coordinates); NaN where a fit diverged."""


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
    posterior: str | None = None

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
        posterior = self.posterior or default_method(self.settings)
        (found,) = self.run_all((posterior,), numbers, draws=draws, seed=seed)
        return found

    def run_all(
        self, posteriors: Sequence[str], numbers: Sequence[int], *, draws: int, seed: int
    ) -> list[SimulatedFits]:
        """The same traces read by several posteriors, one `SimulatedFits` each."""
        parts = [
            self._group(posteriors, numbers[first : first + self.group], draws, seed)
            for first in range(0, len(numbers), self.group)
        ]
        return [
            SimulatedFits(*(np.concatenate(field) for field in zip(*groups, strict=True)))
            for groups in zip(*parts, strict=True)
        ]

    def tables(self, numbers: Sequence[int], *, seed: int) -> tuple[np.ndarray, Rows]:
        """The truths and the made-up tables (fits x rows x ...) behind the fits of these numbers,
        for methods that are not fitted here."""
        parts = []
        for first in range(0, len(numbers), self.group):
            some = numbers[first : first + self.group]
            filled, _, covariates = self._made_up(some, seed)
            truth, rows = jax.device_get(_draw_tables(self.target, covariates, _keys(seed, filled)))
            count = len(some)
            parts.append((truth[:count], {name: column[:count] for name, column in rows.items()}))
        truths, tables = zip(*parts, strict=True)
        rows = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
        return np.concatenate(truths).astype(float), rows

    def _made_up(
        self, numbers: Sequence[int], seed: int
    ) -> tuple[list[int], list[np.random.Generator], Rows]:
        """Numbers filled up to a whole group with copies of the last (left out of what comes back),
        their generators and their covariates."""
        width = next(width for width in self._widths() if width >= len(numbers))
        filled = [*numbers, *[numbers[-1]] * (width - len(numbers))]
        generators = [np.random.default_rng([seed, number]) for number in filled]
        tables = [self.view.simulate(rng, self.rows) for rng in generators]
        return filled, generators, {n: np.stack([t[n] for t in tables]) for n in tables[0]}

    def _group(
        self, posteriors: Sequence[str], numbers: Sequence[int], draws: int, seed: int
    ) -> list[SimulatedFits]:
        filled, generators, covariates = self._made_up(numbers, seed)
        ready = self.assembly
        source = DeviceSource(self.rows, self.settings.sampling_rate, ready.program.passes)
        truth, blocks, last = jax.device_get(
            _run_group(
                self.target,
                ready.program,
                source,
                ready.setting,
                covariates,
                jnp.asarray(ready.initial, jnp.float32),
                jnp.asarray(ready.block_schedule()),
                _keys(seed, filled),
            )
        )
        traces = [
            Trace(BlockSums(*(part[k] for part in blocks)), last[k]) for k in range(len(numbers))
        ]
        reference = reference_rows(self.target, self.view, self.rows)
        found = []
        for posterior in posteriors:
            outcomes = infer_many(
                posterior,
                traces,
                FitContext.of(ready, self.settings, reference),
                draws,
                generators[: len(numbers)],
                side_by_side=len(filled),
            )
            found.append(_collected(truth[: len(numbers)], outcomes))
        return found


def _keys(seed: int, numbers: Sequence[int]) -> Array:
    root = jax.random.PRNGKey(seed)
    return jax.vmap(partial(jax.random.fold_in, root))(jnp.asarray(numbers, jnp.uint32))


def _collected(truth: np.ndarray, outcomes: Sequence[Outcome]) -> SimulatedFits:
    return SimulatedFits(
        np.asarray(truth, float),
        np.stack([outcome.draws for outcome in outcomes]).astype(np.float32),
        np.stack([outcome.noise_unaware.mean(0) for outcome in outcomes]),
        np.stack([outcome.noise_unaware.std(0) for outcome in outcomes]),
        np.array([outcome.status.name for outcome in outcomes]),
        np.stack(
            [
                np.full(truth.shape[1], np.nan) if outcome.tail_mean is None else outcome.tail_mean
                for outcome in outcomes
            ]
        ),
    )


def simulator(
    target: Target,
    view: RowView,
    settings: Settings,
    rows: int,
    budget: Budget,
    others: tuple[Release, ...] = (),
    posterior: str | None = None,
    noise_multiplier: float | None = None,
) -> Simulator:
    """A design calibrated to its budget, of which ``others`` take a part.

    ``noise_multiplier`` overrides that, for studies that repeat what others did.
    """
    mechanism = Mechanism(
        clip_norm=settings.clip_norm,
        sampling_rate=settings.sampling_rate,
        steps=settings.steps,
        noise_multiplier=noise_multiplier,
    )
    if noise_multiplier is None:
        mechanism = mechanism.calibrate(budget, others)
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
        truth, records, key_run = _draw_table(target, key, made_up)
        table = target.prepare(records, setting.constants.frame)
        blocks, last = run_simulated(program, setting, source, table, initial, schedule, key_run)
        return truth, blocks, last

    return jax.vmap(one)(keys, covariates)


def _draw_table(target: Target, key: Array, made_up: Rows) -> tuple[Array, Rows, Array]:
    """A truth from the prior, a table given it, and a key for the fit."""
    key_truth, key_rows, key_run = jax.random.split(key, 3)
    truth = target.sample_prior(key_truth, 1)[0]
    return truth, target.simulate(key_rows, truth, made_up), key_run


@partial(jax.jit, static_argnums=0)
def _draw_tables(target: Target, covariates: Rows, keys: Array) -> tuple[Array, Rows]:
    return jax.vmap(lambda key, made_up: _draw_table(target, key, made_up)[:2])(keys, covariates)
