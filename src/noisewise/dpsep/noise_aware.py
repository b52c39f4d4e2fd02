"""DP-SEP that knows its own noise.

Plain DP-SEP reports N(m, Lambda^-1) as if m were the fixed point. It is the fixed point plus what
noise and sampling did to it, whose covariance is known: the noise's law is public, and so is every
step that it went through (`algorithm._spread`). Both uncertainties add: N(m, Lambda^-1 + that).
"""

import numpy as np
from scipy import stats

from noisewise._validate import fraction
from noisewise.dpsep.algorithm import SepFit
from noisewise.dpsep.site import Gaussian, Site


def noise_unaware(fit: SepFit) -> Gaussian:
    """The posterior as DP-SEP reports it.

    Args:
        fit: What a run ended with.
    """
    return Gaussian(fit.mean, fit.precision, fit.covariance)


def noise_aware(site: Site, fit: SepFit) -> Gaussian:
    """The posterior with the known spread of its mean added.

    For fits that end in centred steps: in the natural form noise of Lambda multiplies m as well,
    which is not counted.

    Args:
        site: Of the last phase.
        fit: What it ended with.
    """
    covariance = fit.covariance + fit.noise_covariance
    return Gaussian(fit.mean, site.family.inverse(covariance), covariance)


def linear_interval(
    site: Site, posterior: Gaussian, X: np.ndarray, level: float = 0.9
) -> tuple[np.ndarray, np.ndarray]:
    """Central intervals of the linear predictors x'w: lower and upper ends, one per row of X.

    Args:
        site: Of the fit.
        posterior: By `noise_aware` or `noise_unaware`.
        X: Rows of covariates.
        level: Probability of the intervals.
    """
    fraction("level", level)
    covariance = np.asarray(site.family.matrices(posterior.covariance), float)[..., 0, :, :]
    middle = np.asarray(X, float) @ np.asarray(posterior.mean, float)
    spread = np.sqrt(np.einsum("ni,ij,nj->n", X, covariance, X))
    half = stats.norm.ppf(0.5 + level / 2) * spread
    return middle - half, middle + half
