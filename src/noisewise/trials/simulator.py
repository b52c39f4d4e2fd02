"""Whole private fits on simulated tables, many at once: what plans and coverage are made of.

A truth is drawn from the prior, covariates from the schema (or a public sample), records from the
model; the fit is the very one that data would get, with seeded noise. No row is read.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._shapes import Float
from noisewise.data import Rows
from noisewise.dpsep import SepDesign, assemble_phases, phase_mechanisms
from noisewise.dpvi import WIDE, Settings
from noisewise.engine import Run
from noisewise.mechanism import Budget, Release
from noisewise.models import BoundModel, Target
from noisewise.posterior import variability_mechanism
from noisewise.trials.designs import (
    Design,
    DpviTrial,
    SepTrial,
    SimulatedPosterior,
    TableFit,
    dpvi_trial,
)

_GROUP_FLOATS = {"cpu": 2**25, "gpu": 2**30}
_GROUPS = {"cpu": (8,), "gpu": (128, 512, 1024)}
"""Widths of groups, few so that little is compiled; a device's cores are busy from these on."""
_AHEAD = 2
"""Groups that the device works on while the host reads an earlier one."""


class SimulatedFits(NamedTuple):
    """Many fits beside their truths, and how each went."""

    truth: Float[np.ndarray, "fits dim"]
    draws: Float[np.ndarray, "fits draws dim"]
    noise_unaware_mean: Float[np.ndarray, "fits dim"]
    noise_unaware_sd: Float[np.ndarray, "fits dim"]
    """Of the posterior that ignores the noise."""
    status: np.ndarray
    """`Status` names, one a fit."""
    tail_mean: Float[np.ndarray, "fits dim"]
    """Mean iterate behind the burn-in; NaN where a fit diverged."""


class _Tables(NamedTuple):
    """What a group of fits is of: numbers filled up to a whole group with copies of the last."""

    generators: list[np.random.Generator]
    covariates: Rows
    keys: Array


class _Begun(NamedTuple):
    """A group that the device works on: the number of fits without what fills it up."""

    fits: int
    generators: list[np.random.Generator]
    found: tuple[Any, Any]
    """Truths, and what was released, once they are there."""


@dataclass(frozen=True, eq=False)
class Simulator:
    """One design, ready to be tried on simulated tables."""

    bound: BoundModel
    design: Design
    public_count: int
    covariates: Callable[[np.random.Generator, int], Rows] | None = None
    """Where tables take their covariates from; None is where the model's simulated rows do."""

    @property
    def group(self) -> int:
        """Most fits side by side that fit the device's memory."""
        return self._widths()[-1]

    def _widths(self) -> list[int]:
        kind = "cpu" if jax.default_backend() == "cpu" else "gpu"
        width = self.bound.width
        batch = max(run.passes.size for run in self.design.runs) * self.bound.target.dim * 4
        floats = self.public_count * max(width, 1) * 2 + batch + self._trace_floats()
        most = max(1, int(_GROUP_FLOATS[kind] // floats))
        return [min(width, most) for width in _GROUPS[kind]]

    def _trace_floats(self) -> int:
        """Of a fit's blocks, where each of them has large matrices."""
        dim = self.bound.target.dim
        if dim <= WIDE or not isinstance(self.design, DpviTrial):
            return 0
        algorithm = self.design.run.algorithm
        return 2 * algorithm.blocks * int(algorithm.matrix) ** 2

    def run(
        self,
        numbers: Sequence[int],
        *,
        draws: int,
        seed: int,
        on_fits: Callable[[int], None] | None = None,
    ) -> SimulatedFits:
        """The fits of these numbers: each depends on its number and the seed alone."""
        (found,) = self.run_all((None,), numbers, draws=draws, seed=seed, on_fits=on_fits)
        return found

    def run_all(
        self,
        posteriors: Sequence[str | None],
        numbers: Sequence[int],
        *,
        draws: int,
        seed: int,
        on_fits: Callable[[int], None] | None = None,
    ) -> list[SimulatedFits]:
        """The same traces read by several posteriors, one `SimulatedFits` each; ``on_fits`` is
        called with how many more fits are done."""
        groups = [numbers[k : k + self.group] for k in range(0, len(numbers), self.group)]
        parts: list[list[SimulatedFits]] = []
        waiting: deque[_Begun] = deque()
        for number in range(len(groups) + _AHEAD):
            if number < len(groups):
                waiting.append(self._begin(groups[number], seed))
            if number >= min(_AHEAD, len(groups)) and waiting:
                begun = waiting.popleft()
                parts.append(self._finish(begun, posteriors, draws))
                if on_fits is not None:
                    on_fits(begun.fits)
        return [
            SimulatedFits(*(np.concatenate(field) for field in zip(*groups, strict=True)))
            for groups in zip(*parts, strict=True)
        ]

    def tables(self, numbers: Sequence[int], *, seed: int) -> tuple[np.ndarray, Rows]:
        """The truths and the simulated tables (fits x rows x ...) behind the fits of these numbers,
        for methods that are not fitted here."""
        parts = []
        for first in range(0, len(numbers), self.group):
            some = numbers[first : first + self.group]
            drawn = self._tables(some, seed)
            found = _run_group(self.bound.target, _no_fit, (), drawn.covariates, drawn.keys)
            parts.append(_first(jax.device_get(found), len(some)))
        truth, rows = jax.tree.map(lambda *each: np.concatenate(each), *parts)
        return truth.astype(float), rows

    def _tables(self, numbers: Sequence[int], seed: int) -> _Tables:
        width = next(width for width in self._widths() if width >= len(numbers))
        filled = [*numbers, *[numbers[-1]] * (width - len(numbers))]
        generators = [np.random.default_rng([seed, number]) for number in filled]
        simulate = self.covariates or self.bound.view.simulate
        tables = [simulate(rng, self.public_count) for rng in generators]
        covariates = {n: np.stack([t[n] for t in tables]) for n in tables[0]}
        root = jax.random.PRNGKey(seed)
        keys = jax.vmap(partial(jax.random.fold_in, root))(jnp.asarray(filled, jnp.uint32))
        return _Tables(generators, covariates, keys)

    def _begin(self, numbers: Sequence[int], seed: int) -> _Begun:
        """Fits of these numbers, which the device goes on with while others are read."""
        drawn, runs = self._tables(numbers, seed), self.design.runs
        fit_table: TableFit = self.design.fit_table
        found = _run_group(self.bound.target, fit_table, runs, drawn.covariates, drawn.keys)
        return _Begun(len(numbers), drawn.generators, found)

    def _finish(
        self, begun: _Begun, posteriors: Sequence[str | None], draws: int
    ) -> list[SimulatedFits]:
        truth, released = jax.device_get(begun.found)
        count, width = begun.fits, len(begun.generators)
        each = [jax.tree.map(lambda part: part[k], released) for k in range(count)]  # noqa: B023
        generators = begun.generators[:count]
        return [
            _collected(truth[:count], self.design.read(each, draws, generators, width, posterior))
            for posterior in posteriors
        ]


def _first(tree: Any, count: int) -> Any:
    return jax.tree.map(lambda part: part[:count], tree)


def _collected(truth: np.ndarray, found: Sequence[SimulatedPosterior]) -> SimulatedFits:
    return SimulatedFits(
        truth=np.asarray(truth, float),
        draws=np.stack([one.draws for one in found]).astype(np.float32),
        noise_unaware_mean=np.stack([one.noise_unaware.mean(0) for one in found]),
        noise_unaware_sd=np.stack([one.noise_unaware.std(0) for one in found]),
        status=np.array([one.status.name for one in found]),
        tail_mean=np.stack([one.tail_mean for one in found]),
    )


def simulator(
    bound: BoundModel,
    settings: Settings,
    public_count: int,
    budget: Budget,
    others: tuple[Release, ...] = (),
    *,
    posterior: str | None = None,
    noise_multiplier: float | None = None,
) -> Simulator:
    """DPVI with these settings, calibrated to its budget.

    Args:
        bound: The model.
        settings: How it is fitted.
        public_count: Number of rows of every simulated table.
        budget: What a fit may spend.
        others: What else a fit releases: it takes a part of the budget.
        posterior: How traces are read; None is the default.
        noise_multiplier: In place of the calibrated one, for studies that repeat what others did.
    """
    mechanism = settings.mechanism(noise_multiplier)
    if noise_multiplier is None:
        mechanism = mechanism.calibrate(budget, others)
    variability = variability_mechanism(bound, settings.clip_norm, budget)
    design = dpvi_trial(bound, settings, mechanism, public_count, posterior, variability)
    return Simulator(bound, design, public_count)


def sep_simulator(
    bound: BoundModel,
    design: SepDesign,
    public_count: int,
    budget: Budget,
    others: tuple[Release, ...] = (),
) -> Simulator:
    """DP-SEP of this design, calibrated to its budget.

    Args:
        bound: The model.
        design: How it is fitted.
        public_count: Number of rows of every simulated table.
        budget: What a fit may spend.
        others: What else a fit releases: it takes a part of the budget.
    """
    mechanisms = phase_mechanisms(design.phases, budget, others)
    runs = assemble_phases(design.phases, mechanisms, public_count, design.initial)
    return Simulator(bound, SepTrial(bound, design, tuple(runs), public_count), public_count)


@partial(jax.jit, static_argnums=(0, 1))
def _run_group(
    target: Target, fit_table: TableFit, runs: tuple[Run, ...], covariates: Rows, keys: Array
) -> tuple[Array, Any]:
    """Truths, and what the fits of their tables release."""

    def one(key: Array, simulated: Rows) -> tuple[Array, Any]:
        key_truth, key_rows, key_run = jax.random.split(key, 3)
        truth = target.sample_prior(key_truth, 1)[0]
        records = target.simulate(key_rows, truth, simulated)
        return truth, fit_table(runs, records, key_run)

    return jax.vmap(one)(keys, covariates)


def _no_fit(runs: Sequence[Run], rows: Rows, key: Array) -> Rows:
    """The table itself, for methods that are not fitted here."""
    return rows
