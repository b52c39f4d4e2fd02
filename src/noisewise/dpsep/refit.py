"""How far a network's fit is off, by fitting what it says once more.

A network's weights are correlated, its posterior here is not, so the spread of its output is
understated, and by how much depends on the table. That can be seen without a row: simulated targets
from the fitted network at standard normal inputs, which whitened ones resemble, are fitted in the
same way with the same noise. The error of that fit is known, and so is what it reports of it
(a parametric bootstrap, all of it post-processing).
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import Array

from noisewise.dpsep.algorithm import SepFit
from noisewise.dpsep.network import NetworkSite
from noisewise.dpsep.noise_aware import noise_aware, noise_unaware
from noisewise.dpsep.phases import fit_simulated
from noisewise.engine import Run

_POINTS = 500


def variance_inflation(
    runs: Sequence[Run], site: NetworkSite, fit: SepFit, public_count: int, key: Array
) -> Array:
    """Mean squared error of a simulated table's noise-aware fit over the variance that it reports.

    At least one: luck in a single simulated table should not make intervals narrower.

    Args:
        runs: Those that made the fit.
        site: The network.
        fit: What they ended with.
        public_count: Rows of the simulated table.
        key: Of the table and of its fit's noise.
    """
    key_x, key_y, key_new, key_fit = jax.random.split(key, 4)
    fitted = noise_unaware(jax.tree.map(jnp.asarray, fit))
    X = jax.random.normal(key_x, (public_count, site.inputs))
    sd = jnp.sqrt(site.noise_variance(jnp.asarray(fit.extra), public_count))
    y = site.predict(fitted, X).mean + sd * jax.random.normal(key_y, (public_count,))
    again = fit_simulated(runs, {"X": X, "y": y}, key_fit)
    new = jax.random.normal(key_new, (_POINTS, site.inputs))
    found = site.predict(noise_aware(site, again), new)
    error = jnp.mean((found.mean - site.predict(fitted, new).mean) ** 2)
    return jnp.maximum(error / jnp.mean(found.variance), 1.0)
