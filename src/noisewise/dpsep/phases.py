"""Fits in phases, each starting from the mean that the last one released, under one budget.

A mixture needs it: started anywhere, a fit with the true, small sd often puts two components on one
cluster. A first phase with a wider sd sees clusters as clouds, spreads the components over them,
and hands over (deterministic annealing). Handing over a released mean costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from noisewise._validate import NoisewiseError
from noisewise.dpsep.run import SepFit, assemble, fit_secure, fit_simulated
from noisewise.dpsep.settings import SepSettings
from noisewise.dpsep.site import Rows, Site
from noisewise.mechanism import (
    Budget,
    Certificate,
    DeviceSource,
    Mechanism,
    Release,
    calibrate,
    issue,
)

__all__ = [
    "Phase",
    "certificate",
    "fit_phases_secure",
    "fit_phases_simulated",
    "phase_mechanisms",
]


class Phase(NamedTuple):
    """A site and how it is run."""

    site: Site
    settings: SepSettings


def phase_mechanisms(
    phases: tuple[Phase, ...], budget: Budget, others: tuple[Release, ...] = ()
) -> tuple[Mechanism, ...]:
    """One mechanism per phase, all with the least noise multiplier that keeps everything together,
    ``others`` included, within the budget."""
    rates = {phase.settings.sampling_rate for phase in phases}
    if len(rates) != 1:
        raise NoisewiseError(f"phases must share one sampling rate, got {sorted(rates)}")
    steps = sum(phase.settings.steps for phase in phases)
    noise = calibrate(budget, rates.pop(), steps, others)
    return tuple(
        replace(phase.settings.mechanism(phase.site.extras), noise_multiplier=noise)
        for phase in phases
    )


def certificate(
    budget: Budget,
    mechanisms: tuple[Mechanism, ...],
    others: tuple[Release, ...] = (),
    *,
    insecure_seed: int | None = None,
) -> Certificate:
    """What all phases, and whatever was bought before, have spent."""
    releases = tuple(
        mechanism.release(f"sites, phase {number + 1}")
        for number, mechanism in enumerate(mechanisms)
    )
    sources = {
        "clip norms": "settings, none from data: each block of a site has one, all are accounted",
        "noise": "AES in counter mode, keyed by the operating system",
        "number of rows": "as passed: it must be public, or bought and among the releases",
    }
    void: tuple[str, ...] = ()
    if insecure_seed is not None:
        sources["noise"] = "a seed"
        void = ("the noise comes from a seed that somebody may know",)
    return issue(budget, (*others, *releases), sources, void)


def fit_phases_secure(
    phases: tuple[Phase, ...],
    mechanisms: tuple[Mechanism, ...],
    table: Rows,
    rows: int,
    initial: np.ndarray,
    *,
    insecure_seed: int | None = None,
    progress: Callable[[int, np.ndarray], None] | None = None,
) -> SepFit:
    """All phases on real rows. ``rows`` is their public number; ``progress`` hears the steps done
    and the mean that was released."""
    count, done = len(next(iter(table.values()))), 0
    for number, (phase, mechanism) in enumerate(zip(phases, mechanisms, strict=True)):
        ready = assemble(phase.site, phase.settings, mechanism, rows, count, initial)
        seed = None if insecure_seed is None else 1000 * insecure_seed + number
        heard = None if progress is None else _after(progress, done)
        fit = fit_secure(ready, table, count, insecure_seed=seed, progress=heard)
        initial, done = fit.mean, done + phase.settings.steps
    return fit


def _after(
    progress: Callable[[int, np.ndarray], None], done: int
) -> Callable[[int, np.ndarray], None]:
    return lambda steps, mean: progress(done + steps, mean)


def fit_phases_simulated(
    phases: tuple[Phase, ...],
    mechanisms: tuple[Mechanism, ...],
    table: Rows,
    initial: Array,
    key: Array,
    noise_factor: Array | float = 1.0,
) -> SepFit:
    """All phases on simulated rows, on the device: `jax.vmap` it over tables, starts and keys.

    ``noise_factor``, at most one, multiplies the mechanisms' noise: one compilation then serves
    many budgets. (The mechanisms' own noise decides how coarse the grid must be.)
    """
    count = len(next(iter(table.values())))
    keys = jax.random.split(key, len(phases))
    for phase, mechanism, one_key in zip(phases, mechanisms, keys, strict=True):
        still = np.zeros(phase.site.family.dim)
        ready = assemble(phase.site, phase.settings, mechanism, count, count, still)
        source = DeviceSource(count, phase.settings.sampling_rate, ready.program.passes)
        setting = ready.setting._replace(
            noise_scale=noise_factor * ready.setting.noise_scale,
            noise=noise_factor * ready.setting.noise,
        )
        ready = replace(ready, setting=setting, initial=initial)
        fit = fit_simulated(ready, source, table, one_key)
        initial = fit.mean
    return fit
