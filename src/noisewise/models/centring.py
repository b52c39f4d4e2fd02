"""Latents of hierarchical models in their two forms, and the way from one to the other.

``a ~ Normal(m, s)`` (centred) and ``a = m + s * raw, raw ~ Normal(0, 1)`` are one prior. The
likelihood is nearly quadratic in the first, and has a curved ridge in the second: gradients are
released and read in the centred form, however the model was written. A sampler finds its way
through the prior's funnel, where s is small, in the standardised form: it takes turns between both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpyro import handlers
from numpyro.distributions import biject_to

from noisewise.data import Rows
from noisewise.models.inspection import Site
from noisewise.models.target import Target

_PROBE = np.linspace(-3, 3, 7)
_CHANGE = 0.5
_TOLERANCE = 1e-4


class Centring(NamedTuple):
    """A standardised latent that matters only as its location plus its scales times itself."""

    site: str
    scales: tuple[str, ...]
    locations: tuple[str, ...] = ()


@dataclass(frozen=True)
class CentredTarget(Target):
    """A model whose standardised latents are inferred in their centred form."""

    centrings: tuple[Centring, ...] = ()

    def constrain(self, theta: Array) -> dict[str, Array]:
        """See `Target.constrain`."""
        found = super().constrain(theta)
        for one in self.centrings:
            found[one.site] = (found[one.site] - self._location(one, found)) / self._scale(
                one, found
            )
        return found

    def unconstrain(self, latents: dict[str, Array]) -> Array:
        """See `Target.unconstrain`."""
        found = {name: jnp.asarray(value) for name, value in latents.items()}
        for one in self.centrings:
            found[one.site] = self._location(one, found) + self._scale(one, found) * found[one.site]
        return super().unconstrain(found)

    def _scale(self, one: Centring, latents: dict[str, Any]) -> Any:
        return reduce(jnp.multiply, (self._aligned(one, n, latents[n]) for n in one.scales))

    def _location(self, one: Centring, latents: dict[str, Any]) -> Any:
        return sum((self._aligned(one, n, latents[n]) for n in one.locations), jnp.zeros(()))

    def _aligned(self, one: Centring, name: str, value: Any) -> Any:
        """With as many axes as the centred site has, behind those of draws."""
        shapes = {site.name: site.shape for site in self.layout.latents}
        own, missing = shapes[name], len(shapes[one.site]) - len(shapes[name])
        lead = value.shape[: value.ndim - len(own)]
        return value.reshape(*lead, *[1] * missing, *own)

    def _log_determinant(self, theta: Array) -> Array:
        return super()._log_determinant(theta) - self.log_scales(super().constrain(theta))

    def log_scales(self, latents: dict[str, Any]) -> Array:
        """Log determinant of the way from the standardised form to the centred one."""
        total = jnp.zeros(())
        for one in self.centrings:
            log_scale = jnp.log(self._scale(one, latents))
            total += jnp.sum(jnp.broadcast_to(log_scale, latents[one.site].shape))
        return total


def centred(target: Target, rows: Rows) -> Target:
    """The target with standardised latents in their centred form, as far as it has any.

    A latent is one if nothing changes where it is divided by a number that a positive latent is
    multiplied by, for these simulated rows; another real latent is its location if nothing changes
    where a shift of one makes up for a shift of the other.
    """
    if type(target) is not Target:
        return target  # ready-made models have closed forms for their own coordinates
    dependent = dependent_sites(target)
    real = [s for s in target.layout.latents if _is_real(s) and s.name not in dependent]
    positive = [site for site in target.layout.latents if _is_positive(site)]
    pairs = [(a, s) for a in real for s in positive if _broadcasts(s, a)]
    if not pairs:
        return target
    same = _Invariance(target, rows)
    found = []
    for site in real:
        scales = tuple(s.name for a, s in pairs if a is site and same.under_scaling(site, s))
        if scales:
            one = _with(target, Centring(site.name, scales))
            others = (s for s in real if s is not site and _broadcasts(s, site))
            shifts = tuple(s.name for s in others if same.under_shift(one, site, s))
            found.append(Centring(site.name, scales, shifts))
    return _with(target, *found) if found else target


def _with(target: Target, *centrings: Centring) -> CentredTarget:
    return CentredTarget(target.model, target.layout, target.example, centrings)


class _Invariance:
    """What the likelihood of simulated rows does not notice."""

    def __init__(self, target: Target, rows: Rows) -> None:
        self._target, self._rng = target, np.random.default_rng(0)
        free = jnp.asarray(_CHANGE * self._rng.standard_normal(target.dim), jnp.float32)
        drawn = jax.jit(target.simulate)(jax.random.PRNGKey(0), free, rows)
        self._base = target.constrain(free)
        self._each = jax.jit(
            lambda latents: jax.vmap(target.log_likelihood, (None, 0))(
                target.unconstrain(latents), drawn
            )
        )
        self._before = self._each(self._base)

    def _changes(self, latents: dict[str, Any]) -> bool:
        off = jnp.abs(self._each(self._base | latents) - self._before)
        return not bool(jnp.all(off <= _TOLERANCE * (1 + jnp.abs(self._before))))

    def under_scaling(self, site: Site, scale: Site) -> bool:
        factor = np.exp(_CHANGE * self._rng.standard_normal(scale.shape))
        raw, wide = self._base[site.name] / factor, self._base[scale.name] * factor
        return self._changes({site.name: raw}) and not self._changes(
            {site.name: raw, scale.name: wide}
        )

    def under_shift(self, one: CentredTarget, site: Site, location: Site) -> bool:
        shift = _CHANGE * self._rng.standard_normal(location.shape)
        raw = self._base[site.name] - shift / one._scale(one.centrings[0], self._base)
        moved = self._base[location.name] + shift
        return self._changes({site.name: raw}) and not self._changes(
            {site.name: raw, location.name: moved}
        )


def _is_real(site: Site) -> bool:
    return site.unconstrained_shape == site.shape and bool(np.allclose(_probed(site), _PROBE))


def _is_positive(site: Site) -> bool:
    return site.unconstrained_shape == site.shape and bool((_probed(site) > 0).all())


def _probed(site: Site) -> np.ndarray:
    """What the site's bijector makes of a few numbers, in its first coordinate."""
    column = jnp.asarray(_PROBE).reshape(-1, *[1] * len(site.shape))
    free = jnp.broadcast_to(column, (len(_PROBE), *site.shape))
    return np.asarray(biject_to(site.support)(free)).reshape(len(_PROBE), -1)[:, 0]


def _broadcasts(one: Site, other: Site) -> bool:
    shape, wide = one.shape, other.shape
    return len(shape) <= len(wide) and shape == wide[len(wide) - len(shape) :]


class Standardised(NamedTuple):
    """A point in the standardised coordinates, as the model has it."""

    theta: Array
    log_determinant: Array
    """Of the map from the standardised coordinates to theta."""


@lru_cache(maxsize=32)
def dependent_sites(target: Target) -> frozenset[str]:
    """Real latents of location-scale families with parameters that other latents decide."""
    traces = [
        handlers.trace(handlers.seed(target.model, jax.random.PRNGKey(seed))).get_trace(
            **target.example
        )
        for seed in (0, 1)
    ]
    found = set()
    for site in target.layout.latents:
        first, second = (_location_scale(trace[site.name]["fn"]) for trace in traces)
        if first is None or second is None or not _is_real(site):
            continue
        if not all(np.allclose(a, b) for a, b in zip(first, second, strict=True)):
            found.add(site.name)
    return frozenset(found)


def has_two_forms(target: Target) -> bool:
    """Whether standardised coordinates are others than the target's own.

    Args:
        target: The model's density.
    """
    return bool(dependent_sites(target)) or isinstance(target.rows, CentredTarget)


def standardise(target: Target, theta: Array) -> Array:
    """Unconstrained latents, all in their standardised form.

    Args:
        target: The model's density.
        theta: Unconstrained latents, in the target's own form.
    """
    sites = target.sites(theta, target.example)
    latents = {site.name: sites[site.name]["value"] for site in target.layout.latents}
    for name in dependent_sites(target):
        location, scale = _location_scale(sites[name]["fn"]) or (0.0, 1.0)
        latents[name] = (latents[name] - location) / scale
    return Target.unconstrain(target, latents)


def unstandardise(target: Target, raw: Array) -> Standardised:
    """The inverse of `standardise`: latents in the order in which the model samples them.

    Args:
        target: The model's density.
        raw: What `standardise` returned.
    """
    given, dependent = Target.constrain(target, raw), dependent_sites(target)
    total = jnp.zeros(())

    def value(site: dict[str, Any]) -> Any:
        nonlocal total
        name = site["name"]
        if name not in dependent:
            return given.get(name)
        location, scale = _location_scale(site["fn"]) or (0.0, 1.0)
        total += jnp.sum(jnp.broadcast_to(jnp.log(scale), given[name].shape))
        return location + scale * given[name]

    seeded = handlers.seed(target.model, jax.random.PRNGKey(0))
    sites = handlers.trace(handlers.substitute(seeded, substitute_fn=value)).get_trace(
        **target.example
    )
    latents = {site.name: sites[site.name]["value"] for site in target.layout.latents}
    if isinstance(target.rows, CentredTarget):
        total += target.rows.log_scales(latents)
    return Standardised(target.unconstrain(latents), total)


def _location_scale(function: Any) -> tuple[Any, Any] | None:
    while hasattr(function, "base_dist"):
        if hasattr(function, "transforms"):
            return None  # a transformed one: its location is not that of the latent
        function = function.base_dist
    if hasattr(function, "loc") and hasattr(function, "scale"):
        return function.loc, function.scale
    return None
