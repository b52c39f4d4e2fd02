"""Latents of location-scale families in their other form: standardised by what they depend on.

``a ~ Normal(m, s)`` and ``a = m + s * raw, raw ~ Normal(0, 1)`` are one prior. Where s is small the
first is a funnel that a sampler hardly enters, where data say much the second is a narrow ridge:
going back and forth between both finds its way in either case.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpyro import handlers
from numpyro.distributions import biject_to

from noisewise.models.target import Target

_PROBE = np.linspace(-3, 3, 7)


class Standardised(NamedTuple):
    """A point in the standardised coordinates, as the model has it."""

    theta: Array
    log_determinant: Array
    """Of the map from the standardised coordinates to theta."""


@lru_cache(maxsize=32)
def dependent_sites(target: Target) -> frozenset[str]:
    """Real latents with a location or scale that other latents decide."""
    traces = [_prior_sites(target, jax.random.PRNGKey(seed)) for seed in (0, 1)]
    found = set()
    for site in target.layout.latents:
        first, second = (_location_scale(trace[site.name]["fn"]) for trace in traces)
        if first is None or second is None or site.unconstrained_shape != site.shape:
            continue
        probe = np.broadcast_to(_PROBE.reshape(-1, *[1] * len(site.shape)), (7, *site.shape))
        free = bool(np.allclose(biject_to(site.support)(jnp.asarray(probe)), probe))
        if free and not all(np.allclose(a, b) for a, b in zip(first, second, strict=True)):
            found.add(site.name)
    return frozenset(found)


def standardise(target: Target, theta: Array) -> Array:
    """Unconstrained latents with the dependent ones freed of their location and scale."""
    sites, chosen = target.sites(theta, target.example), dependent_sites(target)
    latents = {site.name: sites[site.name]["value"] for site in target.layout.latents}
    for name in chosen:
        location, scale = _location_scale(sites[name]["fn"]) or (0.0, 1.0)
        latents[name] = (latents[name] - location) / scale
    return target.unconstrain(latents)


def unstandardise(target: Target, raw: Array) -> Standardised:
    """The inverse of `standardise`: latents in the order in which the model samples them."""
    given, chosen = target.constrain(raw), dependent_sites(target)
    log_scales: list[Any] = []

    def value(site: dict[str, Any]) -> Any:
        name = site["name"]
        if name not in chosen:
            return given.get(name)
        location, scale = _location_scale(site["fn"]) or (0.0, 1.0)
        log_scales.append(jnp.sum(jnp.broadcast_to(jnp.log(scale), given[name].shape)))
        return location + scale * given[name]

    seeded = handlers.seed(target.model, jax.random.PRNGKey(0))
    sites = handlers.trace(handlers.substitute(seeded, substitute_fn=value)).get_trace(
        **target.example
    )
    latents = {site.name: sites[site.name]["value"] for site in target.layout.latents}
    return Standardised(target.unconstrain(latents), sum(log_scales, jnp.zeros(())))


def _prior_sites(target: Target, key: Array) -> dict[str, Any]:
    return handlers.trace(handlers.seed(target.model, key)).get_trace(**target.example)


def _location_scale(function: Any) -> tuple[Any, Any] | None:
    while hasattr(function, "base_dist"):
        if hasattr(function, "transforms"):
            return None  # a transformed one: its location is not that of the latent
        function = function.base_dist
    if hasattr(function, "loc") and hasattr(function, "scale"):
        return function.loc, function.scale
    return None
