"""Records whose likelihood takes a few numbers that are linear in the coordinates.

A record of a generalised linear model is its linear predictors and the family's own parameters: k
numbers, whatever the number of coordinates. Gradients, their norms and Jacobians are then products
of what is k wide and of each record's k rows; nothing has records and twice the coordinates as its
axes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from noisewise._shapes import Float


class LinearParts(NamedTuple):
    """Of many records: ``offset + rows @ z`` are the parts at z, and ``slopes`` what follows."""

    offset: Float[Array, "records k"]
    rows: Float[Array, "records k dim"]
    outcomes: Array
    """What the likelihood takes besides, records first."""
    weights: Float[Array, " records"] | None
    slopes_of: Callable[[Array, Array], Array]
    """Of one record: from its parts (k) and its outcome to the derivatives (k) of minus its
    log-likelihood."""

    def at(self, points: Float[Array, "records dim"]) -> Float[Array, "records k"]:
        """Parts, each record at its own point."""
        return self.offset + jnp.einsum("nkd,nd->nk", self.rows, points)

    def at_each(self, points: Float[Array, "points dim"]) -> Float[Array, "points records k"]:
        """Parts, all records at every point."""
        return self.offset + jnp.einsum("pd,nkd->pnk", points, self.rows)

    def slopes(self, parts: Float[Array, "records k"]) -> Float[Array, "records k"]:
        """First derivatives, weights included."""
        found = jax.vmap(self.slopes_of)(parts, self.outcomes)
        return found if self.weights is None else self._weighted(found)

    def curvatures(self, parts: Float[Array, "records k"]) -> Float[Array, "records k k"]:
        """Second derivatives, weights included."""
        found = jax.vmap(jax.jacfwd(self.slopes_of))(parts, self.outcomes)
        return found if self.weights is None else self._weighted(found)

    def _weighted(self, found: Array) -> Array:
        assert self.weights is not None
        weight = self.weights.reshape(-1, *[1] * (found.ndim - 1))
        return jnp.where(weight > 0, weight * found, 0.0)

    def gram(self) -> Float[Array, "records k k"]:
        """Products of each record's rows: what norms of gradients take."""
        return jnp.einsum("nkd,nld->nkl", self.rows, self.rows)

    def spread(self, slopes: Float[Array, "records k"]) -> Float[Array, "records dim"]:
        """Gradients by the coordinates from derivatives by the parts."""
        return jnp.einsum("nk,nkd->nd", slopes, self.rows)

    def leading(self, count: int) -> LinearParts:
        """Of the first records alone."""
        weights = None if self.weights is None else self.weights[:count]
        return self._replace(
            offset=self.offset[:count],
            rows=self.rows[:count],
            outcomes=self.outcomes[:count],
            weights=weights,
        )


def gradient_norms(slopes: Array, gram: Array) -> Float[Array, " records"]:
    """Norms of gradients from derivatives by the parts.

    Args:
        slopes: By `LinearParts.slopes`.
        gram: By `LinearParts.gram`.
    """
    squares = jnp.einsum("nk,nkl,nl->n", slopes, gram, slopes)
    return jnp.sqrt(jnp.maximum(squares, 0.0) + 1e-30)


def clipped_curvatures(
    slopes: Float[Array, "records k"],
    curvatures: Float[Array, "records k k"],
    gram: Float[Array, "records k k"],
    clip_norm: Array,
) -> Float[Array, "records k k"]:
    """K, with which the Jacobian of a record's clipped gradient is rows' K rows.

    A gradient beyond the clip norm still turns as the point moves, but no longer grows.

    Args:
        slopes: First derivatives by the parts.
        curvatures: Second ones.
        gram: By `LinearParts.gram`.
        clip_norm: To which gradients are shortened.
    """
    norms = gradient_norms(slopes, gram)[:, None, None]
    along = jnp.einsum("nk,nkl,nlm->nm", slopes, gram, curvatures)
    turned = curvatures - slopes[:, :, None] * along[:, None, :] / norms**2
    found = jnp.where(norms <= clip_norm, curvatures, clip_norm / norms * turned)
    return jnp.where(jnp.isfinite(norms), found, 0.0)
