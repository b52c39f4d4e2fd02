"""What shifts the mean of a posterior that is not symmetric: derivatives of the moments.

The linear model of the trace has its mean at the optimum c. To second order in the posterior's sd
the mean is beside it, because sensitivity M, variability B and curvature A change with the truth
(mathematics.md eq. (23)). Derivatives by the truth come from simulated records by the score
(eq. (26)). The shifts add up over coordinates: 0.2 sds along the coefficients of a logistic
regression with nine of them.
"""

from collections.abc import Callable

import numpy as np
from jax import Array

from noisewise._shapes import Float


def log_sensitivity_gradient(
    along: Callable[[Float[Array, "records dim"]], Float[Array, "records dim"]],
    psi: Float[Array, "records dim"],
    u: Float[Array, "records dim"],
    inverse: Float[Array, "dim dim"],
) -> Float[Array, " dim"]:
    """tr(M^-1 d_j M) / N, the gradient of log |M| by the truth; ``inverse`` is M^-1, and ``along``
    how records' gradients at the truth change along a direction for each.

    With the release share times M^-1 for it, it is the first term of eq. (24).
    """
    weighted = psi @ inverse.T
    return (along(weighted) - (weighted * u).sum(1, keepdims=True) * u).mean(0)


def log_curvature_gradient(
    traces: Float[Array, " records"], u: Float[Array, "records dim"]
) -> Float[Array, " dim"]:
    """tr(A^-1 d_j A) / N, the gradient of log |A| by the truth, from the traces of A^-1 times each
    record's Jacobian."""
    # The mean of u is zero: what is proportional to it is the simulation's own error.
    return -((traces - traces.mean())[:, None] * u).mean(0)


def variability_gradient(
    psi: Float[Array, "records dim"],
    u: Float[Array, "records dim"],
    inverse: Float[Array, "dim dim"],
) -> Float[Array, " dim"]:
    """b / N of eq. (23): the derivatives of B by the truth, contracted with M^-1."""
    centred = psi - psi.mean(0)
    return -(centred * ((centred @ inverse) * u).sum(1, keepdims=True)).mean(0)


def limited_to_one_sd(
    gradient: Float[np.ndarray, "fits dim"], covariance: Float[np.ndarray, "fits dim dim"]
) -> Float[np.ndarray, "fits dim"]:
    """Log-density gradients, shortened where they would shift a coordinate by more than one sd.

    An expansion says nothing of so far away.
    """
    shift = np.abs((covariance @ gradient[..., None])[..., 0])
    sds = np.sqrt(np.einsum("...ii->...i", covariance))
    return np.asarray(gradient / np.maximum(1.0, (shift / sds).max(-1, keepdims=True)))
