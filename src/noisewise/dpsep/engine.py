"""One step of DP-SEP: rows in, a noisy sum of sites out, and what follows from it.

The state is a function of what was released, so everything here but the sites of a batch is
post-processing. Each step releases the sum over a Poisson batch of (g or eta_s, Lambda_s, extra),
every block clipped to a norm of its own; the joint clip norm is what the mechanism accounts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.dpsep.settings import Rates, SepSettings
from noisewise.dpsep.site import Gaussian, Natural, Rows, Site
from noisewise.mechanism import Grid, Mechanism, Passes

__all__ = [
    "Program",
    "Setting",
    "Spread",
    "State",
    "cavity_of",
    "clipped_blocks",
    "make_setting",
    "read",
    "start",
    "step",
]

Releaser = Callable[[Callable[[Rows], Array]], Array]


@dataclass(frozen=True)
class Program:
    """Everything that shapes the compiled scan."""

    site: Site
    passes: Passes
    clip: bool = True

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of released coordinates: mean, precision, extra."""
        return self.site.family.dim, self.site.family.packed, self.site.extras

    @property
    def released(self) -> int:
        """All of them together."""
        return sum(self.sizes)


class Setting(NamedTuple):
    """The numbers of a run: changing them does not recompile."""

    grid: Grid
    noise_scale: Array
    """Standard deviation of the noise in grid units, per released coordinate."""
    noise: Array | float
    """Standard deviation of the noise on the scaled sum: sigma times the joint clip norm."""
    sampling_rate: float
    rows: float
    bounds: Array
    """Clip norms: (natural, centred) x (mean, precision, extra)."""
    weights: Array
    floor: float
    wander: float


class Spread(NamedTuple):
    """Covariances, as blocks of matrices, that follow from the known noise (see `noise_aware`)."""

    mean: Array
    average_with_mean: Array
    average: Array


class State(NamedTuple):
    """What is known after some steps, all of it from releases."""

    mean: Array
    eta: Array
    """eta_f, the average site's, while the natural form runs."""
    precision: Array
    """Lambda_f, raw: it is made positive definite when read, never in place, so that noise
    averages out."""
    extra: Array
    prior: Natural
    precision_noise: Array
    """Known noise variance of N Lambda_f, per packed entry."""
    extra_variance: Array
    """What noise and sampling do to the extras."""
    averaged: Array
    spread: Spread
    """What noise and sampling do to the mean and to its average."""


def make_setting(
    settings: SepSettings, program: Program, mechanism: Mechanism | None, rows: int
) -> Setting:
    """Grid, noise and clip norms of a run; without a mechanism there is no noise.

    ``rows`` is the public number of records.
    """
    natural = settings.natural_bounds or settings.bounds
    bounds = jnp.asarray([natural, settings.bounds], jnp.float32)
    sigma = 0.0 if mechanism is None else mechanism.multiplier
    norm = settings.clip_norm(program.site.extras)
    none = Grid(norm, 1.0, 1.0)
    grid = none if mechanism is None else mechanism.grid(program.released, rows)
    noise_scale = np.zeros(program.released, np.float32)
    if mechanism is not None:
        noise_scale = mechanism.noise_scale(grid, program.released)
    return Setting(
        grid=grid,
        noise_scale=jnp.asarray(noise_scale),
        noise=sigma * norm,
        sampling_rate=settings.sampling_rate,
        rows=float(rows),
        bounds=bounds,
        weights=jnp.asarray(settings.weights, jnp.float32),
        floor=settings.floor,
        wander=settings.wander,
    )


def start(site: Site, mean: np.ndarray | Array) -> State:
    """No site yet: the prior's precision around a public mean."""
    family = site.family
    mean = jnp.asarray(mean, jnp.float32)
    prior = site.prior(mean, jnp.zeros(family.dim))
    variance = family.diagonal(family.inverse(prior.precision))
    prior = site.prior(mean, variance)
    zero, packed = jnp.zeros(family.dim), jnp.zeros(family.packed)
    still = Spread(*(family.matrices(packed),) * 3)
    extra = site.first_extra()
    return State(mean, zero, packed, extra, prior, packed, jnp.zeros_like(extra), zero, still)


def read(site: Site, setting: Setting, state: State) -> Gaussian:
    """The posterior as it stands: eigenvalues of the precision raised to the larger of the prior's
    and ``floor`` sds of the known noise. A tiny fixed floor instead is what explodes."""
    family = site.family
    raw = state.prior.precision + setting.rows * state.precision
    least = jnp.maximum(
        family.least_eigenvalue(state.prior.precision),
        setting.floor * jnp.sqrt(state.precision_noise),
    )
    precision = family.floored(raw, least)
    return Gaussian(state.mean, precision, family.inverse(precision))


def cavity_of(site: Site, prior: Natural, posterior: Gaussian, rows: float) -> Gaussian:
    """The posterior without one average site: q^(1 - 1/N) p0^(1/N) (dp-sep.txt eq. 4)."""
    family = site.family
    precision = (1 - 1 / rows) * posterior.precision + prior.precision / rows
    eta = (1 - 1 / rows) * family.apply(posterior.precision, posterior.mean) + prior.eta / rows
    return Gaussian(family.solve(precision, eta), precision, family.inverse(precision))


def clipped_blocks(values: list[Array], bounds: Array, weights: Array) -> Array:
    """Every block scaled so that its bound becomes its weight, and clipped to that.

    A record with a value that is not finite stays so: the mechanism makes it nothing.
    """
    scaled = []
    for number, value in enumerate(values):
        if value.shape[-1] == 0:
            continue
        block = value * (weights[number] / bounds[number])
        norms = jnp.sqrt(jnp.sum(block * block, axis=-1, keepdims=True))
        scaled.append(block * jnp.minimum(1.0, weights[number] / norms))
    return jnp.concatenate(scaled, axis=-1)


def _split(program: Program, vector: Array) -> list[Array]:
    first, second, _ = program.sizes
    return [vector[..., :first], vector[..., first : first + second], vector[..., first + second :]]


def _scales(program: Program, setting: Setting, units: Array, centred: Array) -> Array:
    """What a released, scaled coordinate is worth in natural units."""
    if not program.clip:
        return units
    bounds = setting.bounds[centred.astype(int)]
    sizes = np.asarray(program.sizes)
    return units * jnp.repeat(bounds / setting.weights, sizes, total_repeat_length=program.released)


def step(program: Program, setting: Setting, state: State, rate: Rates, release: Releaser) -> State:
    """One step; ``release`` turns a function of a batch into a noisy sum over the drawn records."""
    site, family = program.site, program.site.family
    posterior = read(site, setting, state)
    cavity = cavity_of(site, state.prior, posterior, setting.rows)
    units = site.units(posterior, state.extra, setting.rows)
    centred = rate.centred > 0

    def records(batch: Rows) -> Array:
        sites = site.updates(cavity, state.extra, setting.rows, batch)
        eta = sites.gradient + family.apply(sites.precision, cavity.mean)
        first = jnp.where(centred, sites.gradient, eta)
        values = jnp.concatenate([first, sites.precision, sites.extra], axis=-1) / units
        if not program.clip:
            return values
        bounds = setting.bounds[centred.astype(int)]
        return clipped_blocks(_split(program, values), bounds, setting.weights)

    scales = _scales(program, setting, units, centred)
    drawn = setting.sampling_rate * setting.rows
    first, precision, extra = _split(program, release(records) * scales / drawn)
    # Standard deviation of the noise on N times the mean site, in natural units.
    noise = _split(program, scales * (setting.noise / setting.sampling_rate))
    moved = state._replace(
        eta=jnp.where(centred, state.eta, state.eta + rate.mean * (first - state.eta)),
        precision=state.precision + rate.precision * (precision - state.precision),
        extra=state.extra + rate.extra * (extra - state.extra),
        precision_noise=(1 - rate.precision) ** 2 * state.precision_noise
        + (rate.precision * noise[1]) ** 2,
        extra_variance=_extra_variance(setting, state, rate, noise[2]),
    )
    posterior = read(site, setting, moved)
    calm = _calmed(site, setting, moved, posterior, rate, noise[0])
    natural = family.solve(posterior.precision, moved.prior.eta + setting.rows * moved.eta)
    step_mean = moved.mean + rate.mean * family.solve(
        calm, setting.rows * first + _pull(site, moved, posterior, cavity)
    )
    moved = moved._replace(mean=jnp.where(centred, step_mean, natural))
    return moved._replace(
        averaged=moved.averaged + rate.keep * moved.mean,
        spread=_spread(site, setting, moved, posterior, calm, rate, noise[0]),
        prior=site.prior(moved.mean, family.diagonal(posterior.covariance)),
    )


def _extra_variance(setting: Setting, state: State, rate: Rates, noise: Array) -> Array:
    """Of the running mean of the extras: known noise, and the drawing of batches.

    An extra is half a squared residual, whose second moment is three times its squared mean where
    residuals are Gaussian.
    """
    odds = (1 - setting.sampling_rate) / setting.sampling_rate
    kick = (noise / setting.rows) ** 2 + odds / setting.rows * 3 * state.extra**2
    return (1 - rate.extra) ** 2 * state.extra_variance + rate.extra**2 * kick


def _pull(site: Site, state: State, posterior: Gaussian, cavity: Gaussian) -> Array:
    """What joins N g in the centred step: eta_0 - Lambda_0 m + N Lambda_s (m_c - m).

    At equal rates m + rho Lambda^-1 (N g + pull), with the new Lambda, is damped SEP; N Lambda_s is
    read as Lambda - Lambda_0.
    """
    family, prior = site.family, state.prior
    offset = family.apply(posterior.precision - prior.precision, cavity.mean - state.mean)
    return prior.eta - family.apply(prior.precision, state.mean) + offset


def _calmed(
    site: Site, setting: Setting, state: State, posterior: Gaussian, rate: Rates, noise: Array
) -> Array:
    """The precision by which a step is divided: raised where it is small against the noise.

    Noise alone, at this rate for ever, then spreads a coordinate by sqrt(rho/2) noise/Lambda =
    ``wander`` prior sds at most.
    """
    prior_sd = site.family.least_eigenvalue(state.prior.precision) ** -0.5
    least = jnp.sqrt(rate.mean / 2) * noise / (setting.wander * prior_sd)
    return site.family.floored(posterior.precision, least)


def _spread(
    site: Site,
    setting: Setting,
    state: State,
    posterior: Gaussian,
    calm: Array,
    rate: Rates,
    noise: Array,
) -> Spread:
    """How far noise and sampling have moved the mean, and its average, by now.

    Near the fixed point a step is m <- m - rho P^-1 (Lambda (m - m*) + e). The covariance of e is
    that of the noise, which is known, and that of drawing a batch, (1 - q)/q N times the mean outer
    product of the records' gradients, which where the model holds is (1 - q)/q (Lambda - Lambda_0).
    """
    family, spread = site.family, state.spread
    inverse = family.matrices(family.inverse(calm))
    size = inverse.shape[-1]
    shrink = jnp.eye(size) - rate.mean * inverse @ family.matrices(posterior.precision)
    odds = (1 - setting.sampling_rate) / setting.sampling_rate
    data = family.matrices(posterior.precision - state.prior.precision)
    kicks = noise.reshape(-1, size)[:, :, None] ** 2 * jnp.eye(size) + odds * data
    mean = shrink @ spread.mean @ shrink.mT + rate.mean**2 * inverse @ kicks @ inverse
    carried = spread.average_with_mean @ shrink.mT
    crossed = carried + rate.keep * mean
    average = spread.average + rate.keep * (carried + carried.mT) + rate.keep**2 * mean
    return Spread(mean, crossed, average)
