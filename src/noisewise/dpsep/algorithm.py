"""DP-SEP as an algorithm of the engine: a step releases a noisy sum of sites.

Each step releases the sum over a Poisson batch of (g or eta_s, Lambda_s, extra), every block
clipped to a norm of its own; the joint clip norm is what the mechanism accounts.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._shapes import Float
from noisewise.data import Rows
from noisewise.dpsep.settings import Rates
from noisewise.dpsep.site import Gaussian, Natural, Site, SiteUpdates
from noisewise.dpsep.window import Window, empty_window, observed
from noisewise.engine import Step
from noisewise.mechanism import Grid

_FLOATS_PER_ENTRY = 32
"""What a record's site needs on its way, for every entry of it."""


class SepNumbers(NamedTuple):
    """The numbers of a run: changing them does not recompile. The first four are the engine's."""

    grid: Grid
    noise_scale: Array
    sampling_rate: float
    public_count: float
    bounds: Array
    """Clip norms: (natural, centred) x (mean, precision, extra)."""
    weights: Array
    floor: float
    max_dispersion: float

    @property
    def noise_sd(self) -> Array:
        """Standard deviation of the privacy noise on the scaled sum, per released coordinate."""
        return self.noise_scale * (self.grid.clip_norm / self.grid.points)


class SepFit(NamedTuple):
    """What a run ends with; leading axes where many ran at once. ``covariance`` is packed."""

    mean: Any
    precision: Any
    covariance: Any
    extra: Any
    noise_covariance: Any
    """Packed: how far noise and sampling have spread the mean; see `noise_aware`."""
    extra_variance: Any = 0.0
    """What noise and sampling do to the extras."""
    precision_variance: Any = 0.0
    """Packed: of the known noise on the precision."""
    window: Any = None
    """`Window`: what the observed steps released, and where they were."""


class Spread(NamedTuple):
    """Covariances, as blocks of matrices, that follow from the known noise (see `noise_aware`)."""

    mean: Array
    average_with_mean: Array
    average: Array


class SepState(NamedTuple):
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
    window: Window


def read(site: Site, numbers: SepNumbers, state: SepState) -> Gaussian:
    """The posterior as it stands: eigenvalues of the precision raised to the larger of the prior's
    and ``floor`` sds of the known noise. A tiny fixed floor instead is what explodes."""
    family = site.family
    raw = state.prior.precision + numbers.public_count * state.precision
    least = jnp.maximum(
        family.least_eigenvalue(state.prior.precision),
        numbers.floor * jnp.sqrt(state.precision_noise),
    )
    precision = family.floored(raw, least)
    return Gaussian(state.mean, precision, family.inverse(precision))


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


class _Point(NamedTuple):
    """Where sites are computed: public."""

    posterior: Gaussian
    cavity: Gaussian
    units: Array
    """Scale of every released coordinate."""
    extra: Array
    centred: Array
    """Whether g is released, not eta_s."""


@dataclass(frozen=True)
class DpSep:
    """Stochastic expectation propagation by released sums of sites."""

    site: Site
    clip: bool = True
    """Off only where nothing is private and no bound is wanted."""

    blocks = 20
    draws_public_numbers = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of released coordinates: of the mean, the precision and the extras."""
        return self.site.family.dim, self.site.family.packed, self.site.extras

    @property
    def released(self) -> int:
        """All of them together."""
        return sum(self.sizes)

    @property
    def pass_floats(self) -> int:
        """Several arrays of a site's size."""
        return _FLOATS_PER_ENTRY * (self.site.family.dim + self.site.family.packed)

    def init(self, numbers: SepNumbers, start_mean: Any) -> SepState:
        """No site yet: the prior's precision around a public mean."""
        site, family = self.site, self.site.family
        mean = jnp.asarray(start_mean, jnp.float32)
        prior = site.prior(mean, jnp.zeros(family.dim))
        prior = site.prior(mean, family.diagonal(family.inverse(prior.precision)))
        zero, packed, extra = jnp.zeros(family.dim), jnp.zeros(family.packed), site.first_extra()
        return SepState(
            mean=mean,
            eta=zero,
            precision=packed,
            extra=extra,
            prior=prior,
            precision_noise=packed,
            extra_variance=jnp.zeros_like(extra),
            averaged=zero,
            spread=Spread(*(family.matrices(packed),) * 3),
            window=empty_window(site),
        )

    def empty_record(self, state: SepState) -> Array:
        """Of a block the last mean is recorded."""
        return state.mean

    def point(self, numbers: SepNumbers, state: SepState, schedule: Rates, key: Any) -> _Point:
        """The cavity: the posterior without one average site, q^(1 - 1/N) p0^(1/N) (DP-SEP eq. 4);
        and the units in which sites are clipped."""
        family, share, prior = self.site.family, 1 / numbers.public_count, state.prior
        posterior = read(self.site, numbers, state)
        precision = (1 - share) * posterior.precision + share * prior.precision
        eta = (1 - share) * family.apply(posterior.precision, posterior.mean) + share * prior.eta
        return _Point(
            posterior=posterior,
            cavity=Gaussian(family.solve(precision, eta), precision, family.inverse(precision)),
            units=self.site.units(posterior, state.extra, numbers.public_count),
            extra=state.extra,
            centred=schedule.centred > 0,
        )

    def contributions(
        self, numbers: SepNumbers, point: _Point, batch: Rows
    ) -> Float[Array, "batch released"]:
        """The records' sites in public units, each block clipped to its own norm."""
        family, cavity = self.site.family, point.cavity
        sites = self.site.updates(cavity, point.extra, numbers.public_count, batch)
        eta = sites.gradient + family.apply(sites.precision, cavity.mean)
        first = jnp.where(point.centred, sites.gradient, eta)
        values = jnp.concatenate([first, sites.precision, sites.extra], axis=-1) / point.units
        if not self.clip:
            return values
        bounds = numbers.bounds[point.centred.astype(int)]
        return clipped_blocks(self._split(values), bounds, numbers.weights)

    def clipped_sites(
        self,
        numbers: SepNumbers,
        mean: Array,
        covariance: Array,
        extra: Array,
        batch: Rows,
    ) -> SiteUpdates:
        """Records' centred sites as they would be released at a cavity, in natural units.

        Args:
            numbers: Of the run.
            mean: Of the cavity.
            covariance: Of the cavity, packed.
            extra: The extras' running mean.
            batch: Simulated records.
        """
        precision = self.site.family.inverse(covariance)
        cavity = Gaussian(mean, precision, covariance)
        units = self.site.units(cavity, extra, numbers.public_count)
        point = _Point(cavity, cavity, units, extra, jnp.array(True))
        values = self.contributions(numbers, point, batch)
        return SiteUpdates(*self._split(values * self._scales(numbers, point)))

    def update(
        self,
        numbers: SepNumbers,
        state: SepState,
        record: Array,
        point: _Point,
        schedule: Rates,
        released: Float[Array, " released"],
    ) -> Step:
        """Running means of the sites, and a step of the mean (DP-SEP Alg. 2, damped)."""
        site, family, rate, centred = self.site, self.site.family, schedule, point.centred
        scales = self._scales(numbers, point)
        drawn = numbers.sampling_rate * numbers.public_count
        sums = released * scales / drawn
        first, precision, extra = self._split(sums)
        # Standard deviation of the noise on N times the mean site, in natural units.
        noise_sds = scales * (numbers.noise_sd / numbers.sampling_rate)
        noise = self._split(noise_sds)
        moved = state._replace(
            eta=jnp.where(centred, state.eta, state.eta + rate.mean * (first - state.eta)),
            precision=state.precision + rate.precision * (precision - state.precision),
            extra=state.extra + rate.extra * (extra - state.extra),
            precision_noise=(1 - rate.precision) ** 2 * state.precision_noise
            + (rate.precision * noise[1]) ** 2,
            extra_variance=_extra_variance(numbers, state, rate, noise[2]),
        )
        posterior = read(site, numbers, moved)
        damped = _damped_precision(site, numbers, moved, posterior, rate, noise[0])
        count = numbers.public_count
        natural = family.solve(posterior.precision, moved.prior.eta + count * moved.eta)
        gradient = count * first + _public_gradient(site, moved, posterior, point.cavity)
        step_mean = moved.mean + rate.mean * family.solve(damped, gradient)
        moved = moved._replace(mean=jnp.where(centred, step_mean, natural))
        moved = moved._replace(
            averaged=moved.averaged + rate.keep * moved.mean,
            spread=_spread(site, numbers, moved, posterior, damped, rate, noise[0]),
            window=observed(
                family,
                state.window,
                point.cavity,
                state.extra,
                rate.observe,
                count * sums,
                noise_sds,
            ),
            prior=site.prior(moved.mean, family.diagonal(posterior.covariance)),
        )
        return Step(moved, moved.mean)

    def handover(self, numbers: SepNumbers, state: SepState) -> Array:
        """The averaged mean."""
        return state.averaged

    def finish(self, numbers: SepNumbers, state: SepState) -> SepFit:
        """The reported posterior: the averaged mean with the precision as last read."""
        last = read(self.site, numbers, state)
        return SepFit(
            mean=state.averaged,
            precision=last.precision,
            covariance=last.covariance,
            extra=state.extra,
            noise_covariance=self.site.family.pack(state.spread.average),
            extra_variance=state.extra_variance,
            precision_variance=state.precision_noise,
            window=state.window,
        )

    def _split(self, vector: Array) -> list[Array]:
        return jnp.split(vector, np.cumsum(self.sizes)[:-1], axis=-1)

    def _scales(self, numbers: SepNumbers, point: _Point) -> Array:
        """What a released, scaled coordinate is worth in natural units."""
        if not self.clip:
            return point.units
        wide = numbers.bounds[point.centred.astype(int)] / numbers.weights
        sizes = np.asarray(self.sizes)
        return point.units * jnp.repeat(wide, sizes, total_repeat_length=self.released)


def _extra_variance(numbers: SepNumbers, state: SepState, rate: Rates, noise: Array) -> Array:
    """Of the running mean of the extras: known noise, and the drawing of batches.

    An extra is half a squared residual, whose second moment is three times its squared mean where
    residuals are Gaussian.
    """
    count, odds = numbers.public_count, (1 - numbers.sampling_rate) / numbers.sampling_rate
    innovation = (noise / count) ** 2 + 3 * odds / count * state.extra**2
    return (1 - rate.extra) ** 2 * state.extra_variance + rate.extra**2 * innovation


def _public_gradient(site: Site, state: SepState, posterior: Gaussian, cavity: Gaussian) -> Array:
    """What joins N g in the centred step: eta_0 - Lambda_0 m + N Lambda_s (m_c - m).

    At equal rates m + rho Lambda^-1 (N g + this), with the new Lambda, is damped SEP; N Lambda_s is
    read as Lambda - Lambda_0.
    """
    family, prior = site.family, state.prior
    offset = family.apply(posterior.precision - prior.precision, cavity.mean - state.mean)
    return prior.eta - family.apply(prior.precision, state.mean) + offset


def _damped_precision(
    site: Site, numbers: SepNumbers, state: SepState, posterior: Gaussian, rate: Rates, noise: Array
) -> Array:
    """The precision by which a step is divided: raised where it is small against the noise.

    Noise alone, at this rate for ever, then spreads a coordinate by sqrt(rho/2) noise/Lambda =
    ``max_dispersion`` prior sds at most.
    """
    prior_sd = site.family.least_eigenvalue(state.prior.precision) ** -0.5
    least = jnp.sqrt(rate.mean / 2) * noise / (numbers.max_dispersion * prior_sd)
    return site.family.floored(posterior.precision, least)


def _spread(
    site: Site,
    numbers: SepNumbers,
    state: SepState,
    posterior: Gaussian,
    damped: Array,
    rate: Rates,
    noise: Array,
) -> Spread:
    """How far noise and sampling have moved the mean, and its average, by now: mathematics.md eqs.
    (34) and (35).

    Near the fixed point a step is m <- m - rho P^-1 (Lambda (m - m*) + e). The covariance of e is
    that of the noise, which is known, and that of drawing a batch, (1 - q)/q N times the mean outer
    product of the records' gradients, which where the model holds is (1 - q)/q (Lambda - Lambda_0).
    """
    family, spread = site.family, state.spread
    inverse = family.matrices(family.inverse(damped))
    size = inverse.shape[-1]
    shrink = jnp.eye(size) - rate.mean * inverse @ family.matrices(posterior.precision)
    odds = (1 - numbers.sampling_rate) / numbers.sampling_rate
    data = family.matrices(posterior.precision - state.prior.precision)
    innovation = noise.reshape(-1, size)[:, :, None] ** 2 * jnp.eye(size) + odds * data
    mean = shrink @ spread.mean @ shrink.mT + rate.mean**2 * inverse @ innovation @ inverse
    carried = spread.average_with_mean @ shrink.mT
    crossed = carried + rate.keep * mean
    average = spread.average + rate.keep * (carried + carried.mT) + rate.keep**2 * mean
    return Spread(mean, crossed, average)
