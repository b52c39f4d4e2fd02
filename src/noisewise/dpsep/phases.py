"""Fits in phases: a site and how it is run, several times over, under one budget."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._validate import NoisewiseError
from noisewise.data import PrivateRows, Rows
from noisewise.dpsep.algorithm import DpSep, SepFit, SepNumbers
from noisewise.dpsep.settings import SepSettings
from noisewise.dpsep.site import Site
from noisewise.engine import (
    Finished,
    Run,
    calibrate_phases,
    release_numbers,
    run_phases_secure,
    run_phases_simulated,
)
from noisewise.mechanism import Budget, Grid, Mechanism, Passes, Release

_Site = TypeVar("_Site", bound=Site, covariant=True)


class Phase(NamedTuple, Generic[_Site]):
    """A site and how it is run."""

    site: _Site
    settings: SepSettings

    @property
    def mechanism(self) -> Mechanism:
        """What accounts for it, once it is calibrated."""
        return self.settings.mechanism(self.site.extras)


def phase_mechanisms(
    phases: Sequence[Phase[Site]], budget: Budget, others: tuple[Release, ...] = ()
) -> tuple[Mechanism, ...]:
    """The phases' mechanisms with the least noise that keeps all of them, and ``others``, within
    the budget.

    Args:
        phases: Sites and settings.
        budget: For all of it.
        others: What else the same data pay for.
    """
    return calibrate_phases([phase.mechanism for phase in phases], budget, others)


def assemble(
    phase: Phase[Site], mechanism: Mechanism | None, public_count: int, initial: Any
) -> Run:
    """One phase ready to run.

    Args:
        phase: The site and its settings.
        mechanism: Calibrated; None is no privacy.
        public_count: The number of rows as everybody may know it.
        initial: Mean to begin with: public.
    """
    site, settings = phase
    algorithm = DpSep(site, clip=mechanism is not None or math.isfinite(max(settings.bounds)))
    norm = settings.clip_norm(site.extras)
    passes, grid, scale = Passes(1, 1), Grid(norm, 1.0, 1.0), np.zeros(algorithm.released)
    if mechanism is not None:
        _check(mechanism, phase)
        passes, grid, scale = release_numbers(algorithm, mechanism, public_count)
    numbers = SepNumbers(
        grid=grid,
        noise_scale=jnp.asarray(scale, jnp.float32),
        sampling_rate=settings.sampling_rate,
        public_count=float(public_count),
        bounds=jnp.asarray([settings.natural_bounds or settings.bounds, settings.bounds]),
        weights=jnp.asarray(settings.weights, jnp.float32),
        floor=settings.floor,
        max_dispersion=settings.max_dispersion,
    )
    return Run(
        algorithm=algorithm,
        passes=passes,
        sampling_rate=settings.sampling_rate,
        numbers=numbers,
        schedule=settings.rates(),
        start=initial,
    )


def _check(mechanism: Mechanism, phase: Phase[Site]) -> None:
    """The mechanism must account what the settings release."""
    settings, right = phase.settings, phase.mechanism
    for name in ("clip_norm", "sampling_rate", "steps"):
        found, expected = getattr(mechanism, name), getattr(right, name)
        if not math.isclose(found, expected, rel_tol=1e-12):
            raise NoisewiseError(
                f"the mechanism's {name} is {found:g}, the settings say {expected:g}: "
                "take it from phase.mechanism"
            )
    if not all(map(math.isfinite, (*settings.bounds, *(settings.natural_bounds or ())))):
        raise NoisewiseError(f"a private run needs finite bounds, got {settings.bounds}")


def assemble_phases(
    phases: Sequence[Phase[Site]], mechanisms: Sequence[Mechanism], public_count: int, initial: Any
) -> list[Run]:
    """All phases ready to run; the first starts at ``initial``, the others where the last ended.

    Args:
        phases: Sites and settings.
        mechanisms: One a phase, calibrated.
        public_count: The number of rows as everybody may know it.
        initial: Mean to begin with: public.
    """
    pairs = zip(phases, mechanisms, strict=True)
    return [assemble(phase, mechanism, public_count, initial) for phase, mechanism in pairs]


def scale_noise(run: Run, factor: Array | float) -> Run:
    """The run with its noise times a factor of at most one: one compilation then serves many
    budgets. (The mechanism's own noise decides how coarse the grid must be.)

    Args:
        run: One phase.
        factor: What its noise is multiplied by.
    """
    numbers = run.numbers._replace(noise_scale=factor * run.numbers.noise_scale)
    return replace(run, numbers=numbers)


def finish(runs: Sequence[Run], finished: Sequence[Finished]) -> SepFit:
    """What the last phase reports.

    Args:
        runs: The phases.
        finished: What each ended with.
    """
    fit: SepFit = runs[-1].algorithm.finish(runs[-1].numbers, finished[-1].state)
    return fit


def fit_secure(
    runs: Sequence[Run],
    rows: PrivateRows,
    *,
    insecure_seed: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> SepFit:
    """All phases on rows about people.

    Args:
        runs: From `assemble_phases`.
        rows: Records as the site takes them.
        insecure_seed: Makes the fit repeatable, and therefore not private.
        progress: Called with steps done, of all phases together.
    """
    finished = run_phases_secure(runs, rows, insecure_seed=insecure_seed, progress=progress)
    found: SepFit = jax.tree.map(np.asarray, finish(runs, finished))
    return found


def fit_simulated(runs: Sequence[Run], rows: Rows, key: Array) -> SepFit:
    """All phases on simulated rows, on the device: `jax.vmap` it over runs, tables and keys.

    Args:
        runs: From `assemble_phases`.
        rows: Simulated or public records as the site takes them.
        key: Of batches and noise.
    """
    return finish(runs, run_phases_simulated(runs, rows, key))
