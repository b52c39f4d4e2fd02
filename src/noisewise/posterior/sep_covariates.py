"""Simulated covariates made like a table's, as far as the precision that DP-SEP released tells.

Covariates from a schema have independent columns. The released precision says how far a table's are
from that, with known noise: what the noise explains is not believed (mathematics.md eq. (48)).
"""

import jax.numpy as jnp
import numpy as np

from noisewise._shapes import Float
from noisewise.dpsep import Family, Window

_LEAST = 1e-3
"""Of the simulated precision, which no direction goes below."""


def like_the_released(
    family: Family,
    X: Float[np.ndarray, "records dim"],
    expected: Float[np.ndarray, " packed"],
    window: Window,
) -> Float[np.ndarray, "records dim"]:
    """The covariates under a linear map that makes their expected precision the believed one.

    Args:
        family: Of the site: one full matrix.
        X: Simulated or public covariates.
        expected: Precision that they make all records' sites add up to, packed.
        window: What the fit released.
    """
    here = slice(family.dim, family.dim + family.packed)
    noise, off = float(window.noise_variance[here].mean()), window.released[here] - expected
    excess = max(float((off**2).mean()) - noise, 0.0)
    believed = expected + excess / (excess + noise) * off
    old, new = (np.asarray(family.matrices(jnp.asarray(p)), float)[0] for p in (expected, believed))
    root = _power(old, 0.5)
    inverse = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(inverse @ new @ inverse)
    positive = root @ (vectors * np.maximum(values, _LEAST)) @ vectors.T @ root
    # Of all maps between the two, the symmetric one is the nearest to none.
    return np.asarray(X @ (inverse @ _power(root @ positive @ root, 0.5) @ inverse))


def _power(matrix: Float[np.ndarray, "dim dim"], power: float) -> Float[np.ndarray, "dim dim"]:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 1e-9 * values[-1]) ** power) @ vectors.T)
