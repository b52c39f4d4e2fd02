"""Settings that served simulated data well: starting points for a fit, none from real data."""

import math
from dataclasses import replace

import numpy as np

from noisewise.dpsep.glm import GlmSite
from noisewise.dpsep.mixture import MixtureSite
from noisewise.dpsep.network import NetworkSite
from noisewise.dpsep.phases import Phase
from noisewise.dpsep.settings import Bounds, SepSettings
from noisewise.dpsep.site import kept_share

EPOCH_STEPS = 8
"""Steps of a network in which every record is drawn once, by expectation."""
NETWORK_TARGET_SD = 0.6
"""What `network_phases` likes its target's sd to be: the best of four on simulated regressions."""
_RESIDUAL = 2.0
"""Clip of half a squared residual, in noise variances."""
_REFERENCE_STEPS = 300
_MIXTURE_PHASES = (
    (2.4, 0.3, 0.5, 0.05, 0.05),
    (1.6, 0.2, 0.0, 0.05, 0.02),
    (1.0, 0.5, 0.0, 0.02, 0.01),
)
"""Components' width in sds, share of the steps, of them natural, rates of mean and precision."""
_ROWS_PER_UNIT = 100
_LEAST_UNITS = 5


def glm_phases(site: GlmSite, design: np.ndarray, steps: int = 400) -> tuple[Phase[GlmSite], ...]:
    """One phase for a generalised linear model.

    A record's gradient is |x| times its residual, which is at most one in a logistic regression and
    hardly above two noise sds, or two, in the others; its precision is |x|^2 times at most a
    quarter, or one; half its squared residual is below two noise variances but for one record in
    twenty. |x| is what nineteen of twenty simulated records stay below. The mean moves slowly, a
    run being a dozen of its time constants: where curvature depends on the mean, its dispersion
    makes a bias.

    Args:
        site: The model.
        design: Simulated or public covariates, records x columns.
        steps: Of the fit.
    """
    site = site.clipped_at(_RESIDUAL)
    lengths = np.linalg.norm(np.asarray(design, float), axis=1)
    length = float(np.quantile(lengths, 0.95))
    settings = SepSettings(
        bounds=Bounds(site.usual_residual * length, site.usual_weight * length**2, _RESIDUAL),
        weights=(1.0, 0.5, 0.3),
        sampling_rate=0.1,
        steps=steps,
        mean_rate=min(1.0, 12 / steps),
        precision_rate=min(1.0, 4 / steps),
        extra_rate=min(1.0, 8 / steps),
        decay_from=1.0,
        averaged=0.5,
        floor=1.0,
        max_dispersion=0.5,
    )
    return (Phase(site, settings),)


def network_units(rows: int, epsilon: float, most: int = 50) -> int:
    """How many hidden units a private network can carry: one for every 100 rows at epsilon 1.

    Noise falls on every weight alike, so that what few rows cannot teach is better left out.

    Args:
        rows: Of the table, as everybody may know it.
        epsilon: Of the budget.
        most: Never more than these.

    >>> network_units(1440, 1.0), network_units(7373, 1.0), network_units(500, 0.5)
    (14, 50, 5)
    """
    return max(_LEAST_UNITS, min(most, round(rows * epsilon / _ROWS_PER_UNIT)))


def network_phases(
    inputs: int, hidden: int = 50, epochs: int = 100
) -> tuple[Phase[NetworkSite], ...]:
    """One phase for a network whose inputs were whitened and whose target has an sd of about
    `NETWORK_TARGET_SD`.

    Chosen at epsilon 1 on four simulated regressions: two sums of random waves of 8 inputs (N =
    7373, smooth and rough), a noisy one of 11 (N = 1440), and a nearly linear one of 16 (N =
    10741). RMSE was flat around these values; see docs/dp-sep.md.

    Args:
        inputs: How many.
        hidden: Units.
        epochs: Passes over the table, by expectation.
    """
    settings = SepSettings(
        bounds=Bounds(mean=0.35, precision=0.5, extra=_RESIDUAL),
        weights=(1.0, 0.15, 0.1),
        sampling_rate=1 / EPOCH_STEPS,
        steps=EPOCH_STEPS * epochs,
        mean_rate=0.8,
        precision_rate=0.04,
        decay_from=0.0,
        last_rate=0.1,
        averaged=0.2,
        floor=2.0,
        max_dispersion=0.08,
    )
    return (Phase(NetworkSite(inputs, hidden, kept=kept_share(_RESIDUAL)), settings),)


def network_reference(
    inputs: int, hidden: int = 50, epochs: int = 40, bounds: Bounds | None = None
) -> Phase[NetworkSite]:
    """SEP of the same network without privacy, for `fit_unsafe` with a key.

    A step takes a 300th of the records and moves a 300th of the way, so that an epoch does what one
    of SEP does (gamma = N), in steps small enough for weights as correlated as a network's.

    Args:
        inputs: How many.
        hidden: Units.
        epochs: Passes over the table, by expectation.
        bounds: Clip norms; None clips nothing.
    """
    small = 1 / _REFERENCE_STEPS
    site = NetworkSite(inputs, hidden)
    if bounds is not None:
        site = replace(site, kept=kept_share(bounds.extra))
    settings = SepSettings(
        bounds=Bounds(math.inf, math.inf, math.inf) if bounds is None else bounds,
        sampling_rate=small,
        steps=_REFERENCE_STEPS * epochs,
        mean_rate=small,
        precision_rate=small,
        decay_from=0.5,
        last_rate=0.1,
        averaged=0.1,
        floor=0.0,
        max_dispersion=math.inf,
    )
    return Phase(site, settings)


def mixture_phases(
    components: int, width: int, sd: float, prior_sd: float = 1.0, epochs: int = 50
) -> tuple[Phase[MixtureSite], ...]:
    """Three phases for a mixture: components 2.4 sds wide, then 1.6, then as they are.

    Bounds follow from the model: a record's centred gradient is about sqrt(width)/sd long, its
    precision sqrt(width)/sd^2, its eta_s as long as its x over sd^2.

    Args:
        components: How many.
        width: Coordinates of a record.
        sd: Of a component, known.
        prior_sd: Of the components' means.
        epochs: Passes over the table, by expectation, all phases together.
    """
    root, phases = width**0.5, []
    for factor, share, natural, mean_rate, precision_rate in _MIXTURE_PHASES:
        steps = round(share * 20 * epochs)
        settings = SepSettings(
            bounds=Bounds(mean=1.25 * root / sd, precision=root / sd**2),
            natural_bounds=Bounds(mean=1.25 * root * prior_sd / sd**2, precision=root / sd**2),
            sampling_rate=1 / 20,
            steps=steps,
            natural_steps=round(natural * steps),
            mean_rate=mean_rate,
            precision_rate=precision_rate,
        )
        phases.append(Phase(MixtureSite(components, width, factor * sd, prior_sd), settings))
    return tuple(phases)
