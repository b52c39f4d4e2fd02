"""How far a private posterior is from the one without noise: expected Kullback-Leibler divergence.

Theorem 4.1 of the paper bounds it in closed form, but its proof takes the eigenvalues of
L^-1/2 M L^-1/2 to be those of M over those of L, which holds only where the two share eigenvectors
in matching order. So the expectation is computed here by Monte Carlo over the noise, with its
standard error, and the paper's expression beside it for a precision proportional to the identity.
"""

import math
from typing import NamedTuple

import numpy as np

from noisewise._validate import NoisewiseError, fraction, integer_at_least, positive


class ExpectedDivergence(NamedTuple):
    """A Monte Carlo mean and its standard error."""

    mean: float
    standard_error: float


def gaussian_kl(
    mean_q: np.ndarray, precision_q: np.ndarray, mean_p: np.ndarray, precision_p: np.ndarray
) -> float:
    """KL(q || p) of two Gaussians by means and precision matrices.

    Args:
        mean_q: Of q.
        precision_q: Of q.
        mean_p: Of p.
        precision_p: Of p.
    """
    off = np.asarray(mean_p) - mean_q
    trace = np.trace(np.linalg.solve(precision_q, precision_p))
    logs = np.linalg.slogdet(precision_q)[1] - np.linalg.slogdet(precision_p)[1]
    return float(0.5 * (trace + off @ precision_p @ off - len(off) + logs))


def expected_kl(
    eta: np.ndarray,
    precision: np.ndarray,
    noise_eta: float,
    noise_precision: float,
    *,
    ridge: float,
    draws: int = 2000,
    seed: int = 0,
) -> ExpectedDivergence:
    """Expected KL(q || p) over one release as in Defs. 4.1 and 4.2.

    Args:
        eta: Natural mean of q.
        precision: Of q.
        noise_eta: Standard deviation of the independent noise on ``eta``.
        noise_precision: Of the symmetric noise on the precision, upper triangle independent.
        ridge: The precision then gets so much of the identity that this is its least eigenvalue.
        draws: Of the noise.
        seed: Of the draws.
    """
    integer_at_least("draws", draws, 2)
    positive("ridge", ridge, finite=True)
    eta, precision = np.asarray(eta, float), np.asarray(precision, float)
    rng, dim = np.random.default_rng(seed), len(eta)
    mean, upper = np.linalg.solve(precision, eta), np.triu_indices(dim)
    found = np.empty(draws)
    for number in range(draws):
        noise = np.zeros((dim, dim))
        noise[upper] = noise_precision * rng.standard_normal(len(upper[0]))
        noisy = precision + noise + np.triu(noise, 1).T
        if noise_precision:
            noisy += (ridge - np.linalg.eigvalsh(noisy)[0]) * np.eye(dim)
        private = np.linalg.solve(noisy, eta + noise_eta * rng.standard_normal(dim))
        found[number] = gaussian_kl(mean, precision, private, noisy)
    return ExpectedDivergence(float(found.mean()), float(found.std(ddof=1) / math.sqrt(draws)))


def paper_expression(
    eta: np.ndarray,
    precision: np.ndarray,
    noise_eta: float,
    noise_precision: float,
    *,
    ridge: float,
    failure: float = 0.05,
) -> float:
    """The right-hand side of DP-SEP eq. 8 (Theorem 4.1), for precisions proportional to the
    identity.

    NaN where the paper's h is not positive: the expression then says nothing.

    Args:
        eta: Natural mean of q.
        precision: Of q.
        noise_eta: Standard deviation of the independent noise on ``eta``.
        noise_precision: Of the symmetric noise on the precision, upper triangle independent.
        ridge: The precision then gets so much of the identity that this is its least eigenvalue.
        failure: d exp(-M^2/2v), the probability with which the bound on the noise's eigenvalues
            fails; v = d noise^2 for symmetric noise.
    """
    fraction("failure", failure)
    eta, precision = np.asarray(eta, float), np.asarray(precision, float)
    dim, value = len(eta), float(precision[0, 0])
    if not np.allclose(precision, value * np.eye(dim), rtol=1e-9, atol=1e-12 * value):
        raise NoisewiseError(
            "the paper's expression holds for a precision proportional to the identity only: "
            "use expected_kl"
        )
    variance = dim * noise_precision**2
    most = math.sqrt(2 * variance * math.log(dim / failure))
    typical = math.sqrt(2 * variance * math.log(dim))
    low = 1 + (-2 * most - value + ridge) / value
    high = 1 + (2 * most - value + ridge) / value
    if not low > 0:
        return math.nan
    ratio = (low + high - 1 + (value + typical - ridge) / value) / (low * high)
    lift, square = -value + typical + ridge, float(eta @ eta)
    terms = (
        dim * lift / value,
        noise_eta**2 / value * dim * ratio,
        square / value * ratio,
        -square / value,
        square / value**2 * lift,
        dim * math.log(ratio),
    )
    return 0.5 * sum(terms)
