"""What a fit released over its last steps, and where: all that a regression's posterior reads."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from noisewise.dpsep.family import Family
from noisewise.dpsep.site import Gaussian, Site


class Window(NamedTuple):
    """What was released over the last steps, and where: means over them.

    Steps as they were count here, whether the mean had settled or not.
    """

    weight: Any
    """Of the steps so far; one in the end."""
    mean: Any
    """Where gradients were taken."""
    dispersion: Any
    """Of those places around their mean, as blocks of matrices."""
    released: Any
    """N times the mean site: gradient, precision and extras, in natural units."""
    noise_variance: Any
    """Known, of the privacy noise on it, per coordinate."""
    covariance: Any
    """Packed: of the cavities."""
    extra: Any
    """Their running mean."""
    extra_square: Any


def empty_window(site: Site) -> Window:
    """Before the first step."""
    family, extra = site.family, jnp.zeros(site.extras)
    zero, packed = jnp.zeros(family.dim), jnp.zeros(family.packed)
    blocks, released = (
        jnp.zeros_like(family.matrices(packed)),
        jnp.concatenate([zero, packed, extra]),
    )
    return Window(jnp.zeros(()), zero, blocks, released, released, packed, extra, extra)


def observed(
    family: Family,
    old: Window,
    cavity: Gaussian,
    extra: Array,
    weight_here: Array,
    released: Array,
    noise: Array,
) -> Window:
    """The window with this step in it, by the share that it has there."""
    weight = old.weight + weight_here
    share = weight_here / jnp.maximum(weight, 1e-9)
    # From the mean so far, not from zero: floats would lose a small dispersion around a far mean.
    off = family.grouped(cavity.mean - old.mean)
    outer = off[..., :, None] * off[..., None, :]
    return Window(
        weight=weight,
        mean=old.mean + share * (cavity.mean - old.mean),
        dispersion=old.dispersion + old.weight * share * outer,
        released=old.released + weight_here * released,
        noise_variance=old.noise_variance + (weight_here * noise) ** 2,
        covariance=old.covariance + weight_here * cavity.covariance,
        extra=old.extra + weight_here * extra,
        extra_square=old.extra_square + weight_here * extra**2,
    )
