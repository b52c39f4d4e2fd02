"""Settings that served simulated data well: starting points for a fit, none from real data."""

from __future__ import annotations

from noisewise.dpsep.mixture import MixtureSite
from noisewise.dpsep.network import NetworkSite
from noisewise.dpsep.phases import Phase
from noisewise.dpsep.settings import Bounds, SepSettings

__all__ = ["mixture_phases", "network_phases"]


def network_phases(inputs: int, hidden: int = 50, epochs: int = 100) -> tuple[Phase, ...]:
    """One phase for a network whose inputs were whitened and whose target has an sd of about one.

    Chosen at epsilon 1 on four made-up regressions: two sums of random waves of 8 inputs (N = 7373,
    smooth and rough), a noisy one of 11 (N = 1440), and a nearly linear one of 16 (N = 10741). RMSE
    was flat around these values; see docs/dp-sep.md.
    """
    settings = SepSettings(
        bounds=Bounds(mean=0.35, precision=0.5, extra=2.0),
        weights=(1.0, 0.15, 0.1),
        sampling_rate=1 / 8,
        steps=8 * epochs,
        mean_rate=0.8,
        precision_rate=0.04,
        decay_from=0.0,
        last_rate=0.1,
        averaged=0.2,
        floor=2.0,
        wander=0.08,
    )
    return (Phase(NetworkSite(inputs, hidden), settings),)


def mixture_phases(
    components: int, width: int, sd: float, prior_sd: float = 1.0, epochs: int = 50
) -> tuple[Phase, ...]:
    """Three phases for a mixture: components 2.4 sds wide, then 1.6, then as they are.

    Bounds follow from the model: a record's centred gradient is about sqrt(width)/sd long, its
    precision sqrt(width)/sd^2, its eta_s as long as its x over sd^2.
    """
    root = width**0.5
    steps = 20 * epochs

    def phase(factor: float, share: float, rate: float, slow: float, natural: float) -> Phase:
        wide = factor * sd
        count = round(share * steps)
        settings = SepSettings(
            bounds=Bounds(mean=1.25 * root / sd, precision=root / sd**2),
            natural_bounds=Bounds(mean=1.25 * root * prior_sd / sd**2, precision=root / sd**2),
            sampling_rate=1 / 20,
            steps=count,
            natural_steps=round(natural * count),
            mean_rate=rate,
            precision_rate=slow,
        )
        return Phase(MixtureSite(components, width, wide, prior_sd), settings)

    return (
        phase(2.4, 0.3, 0.05, 0.05, 0.5),
        phase(1.6, 0.2, 0.05, 0.02, 0.0),
        phase(1.0, 0.5, 0.02, 0.01, 0.0),
    )
