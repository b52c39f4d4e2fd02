"""What a model names with `numpyro.deterministic`: computed from draws of its latents.

Only what no record enters: a value per record, or one that follows the covariates, would be of the
simulated records that the model is traced with.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.data import Rows
from noisewise.models.bound import BoundModel
from noisewise.models.ready_made import ReadyMade
from noisewise.models.target import Target

_TOLERANCE = 1e-6
_AT_A_TIME = 1000


def derived_values(bound: BoundModel, theta: np.ndarray) -> dict[str, np.ndarray]:
    """Draws of every deterministic site that follows from the latents alone.

    Args:
        bound: The model; ready-made ones have no such site.
        theta: Draws of the latents, unconstrained (draws x dim).
    """
    if isinstance(bound.model, ReadyMade):
        return {}
    points = jnp.asarray(theta, jnp.float32)
    names = _names(bound, points[0])
    if not names:
        return {}
    example = {name: jnp.asarray(column) for name, column in bound.target.example.items()}
    parts = [
        jax.device_get(_values(bound.target, names, points[start : start + _AT_A_TIME], example))
        for start in range(0, len(points), _AT_A_TIME)
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def _names(bound: BoundModel, point: Array) -> tuple[str, ...]:
    """Sites with the same value whatever the records are, and however many."""
    tables = [
        bound.view.simulate_rows(np.random.default_rng(seed), rows)
        for seed, rows in ((1, 4), (2, 5))
    ]
    ours, others = (_numbers(bound.target, point, table) for table in tables)
    latents = {site.name for site in bound.target.layout.latents}
    return tuple(
        name
        for name, value in ours.items()
        if name in others
        and name not in latents
        and np.shape(value) == np.shape(others[name])
        and np.allclose(value, others[name], rtol=_TOLERANCE, equal_nan=True)
    )


def _numbers(target: Target, point: Array, rows: Rows) -> dict[str, Array]:
    """Values of the deterministic sites that are numbers."""
    found = {}
    for name, site in target.sites(point, rows).items():
        if site["type"] == "deterministic":
            value = jnp.asarray(site["value"])
            if value.dtype.kind in "fiub":
                found[name] = value.astype(jnp.float32)
    return found


@partial(jax.jit, static_argnums=(0, 1))
def _values(target: Target, names: tuple[str, ...], points: Array, rows: Rows) -> dict[str, Array]:
    def one(point: Array) -> dict[str, Array]:
        found = _numbers(target, point, rows)
        return {name: found[name] for name in names}

    return jax.vmap(one)(points)
