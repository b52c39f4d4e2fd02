"""Gradients of simulated records, their slopes, and what clipping makes of them.

Two ways to the same numbers: record by record through the model, or, where a record is a few
numbers that are linear in the coordinates, through those.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from noisewise._shapes import Float
from noisewise.data import Rows
from noisewise.models import Frame, Target
from noisewise.models.linear_parts import LinearParts, clipped_curvatures, gradient_norms

_JACOBIAN_NUMBERS = 2**25
_ITERATES_TOGETHER = 16


class Jacobians(NamedTuple):
    """Of some records' clipped gradients by the point where they are taken."""

    mean: Float[Array, "dim dim"]
    traces: Float[Array, " records"]
    """Of every record's product with the given matrix."""


class RecordGradients(Protocol):
    """Of minus the log-likelihood of many records, by the frame's coordinates."""

    def at(self, points: Float[Array, "records dim"]) -> Float[Array, "records dim"]:
        """Each record's own gradient at its own point; zero where it is not a number."""

    def along(
        self, points: Float[Array, "records dim"], directions: Float[Array, "records dim"]
    ) -> Float[Array, "records dim"]:
        """How each record's gradient changes along its own direction."""

    def clipped_mean(
        self, iterates: Float[Array, "iterates dim"], clip_norm: Array
    ) -> Float[Array, "records dim"]:
        """Each record's clipped gradient, averaged over where it was taken."""

    def clipped_jacobians(
        self,
        points: Float[Array, "some dim"],
        clip_norm: Array,
        matrix: Float[Array, "dim dim"],
    ) -> Jacobians:
        """Of the first records, each at its own point; traces are of products with ``matrix``."""


def record_gradients(target: Target, frame: Frame, rows: Rows) -> RecordGradients:
    """The quicker way that there is.

    Args:
        target: The model.
        frame: In whose coordinates gradients are.
        rows: The records, simulated or public.
    """
    parts = target.linear_parts(frame, rows)
    return _OneByOne(target, frame, rows) if parts is None else _ByParts(parts)


class _OneByOne(NamedTuple):
    target: Target
    frame: Frame
    rows: Rows

    def _gradient(self, point: Array, record: Rows) -> Array:
        return jax.grad(lambda z: -self.target.log_likelihood(self.frame.to_model(z), record))(
            point
        )

    def _clipped(self, clip_norm: Array, point: Array, record: Rows) -> Array:
        found = self._gradient(point, record)
        norm = jnp.sqrt(jnp.sum(found**2) + 1e-30)
        bounded = found * jnp.minimum(1.0, clip_norm / norm)
        return jnp.where(jnp.isfinite(norm), bounded, 0.0)

    def at(self, points: Array) -> Array:
        return finite(jax.vmap(self._gradient)(points, self.rows))

    def along(self, points: Array, directions: Array) -> Array:
        def derivative(point: Array, record: Rows, direction: Array) -> Array:
            return jax.jvp(lambda z: self._gradient(z, record), (point,), (direction,))[1]

        return finite(jax.vmap(derivative)(points, self.rows, directions))

    def clipped_mean(self, iterates: Array, clip_norm: Array) -> Array:
        def add(total: Array, iterate: Array) -> tuple[Array, None]:
            here = jax.vmap(self._clipped, (None, None, 0))(clip_norm, iterate, self.rows)
            return total + here, None

        count = len(next(iter(self.rows.values())))
        total, _ = jax.lax.scan(add, jnp.zeros((count, iterates.shape[1])), iterates)
        return total / len(iterates)

    def clipped_jacobians(self, points: Array, clip_norm: Array, matrix: Array) -> Jacobians:
        slope = jax.vmap(jax.jacfwd(self._clipped, argnums=1), (None, 0, 0))
        some = jax.tree.map(lambda column: column[: len(points)], self.rows)

        def add(total: Array, group: tuple[Array, Rows]) -> tuple[Array, Array]:
            found = slope(clip_norm, *group)
            return total + found.sum(0), jnp.einsum("kij,ji->k", found, matrix)

        # A record's Jacobian is a matrix: of many coordinates few are held at a time.
        together = divisor(len(points), max(1, _JACOBIAN_NUMBERS // points.shape[1] ** 2))
        groups = jax.tree.map(
            lambda column: column.reshape(-1, together, *column.shape[1:]), (points, some)
        )
        total, traces = jax.lax.scan(add, jnp.zeros_like(matrix), groups)
        return Jacobians(total / len(points), traces.reshape(-1))


class _ByParts(NamedTuple):
    parts: LinearParts

    def at(self, points: Array) -> Array:
        return finite(self.parts.spread(self.parts.slopes(self.parts.at(points))))

    def along(self, points: Array, directions: Array) -> Array:
        curvatures = self.parts.curvatures(self.parts.at(points))
        turned = jnp.einsum("nkd,nd->nk", self.parts.rows, directions)
        return finite(self.parts.spread(jnp.einsum("nkl,nl->nk", curvatures, turned)))

    def clipped_mean(self, iterates: Array, clip_norm: Array) -> Array:
        gram = self.parts.gram()

        def bounded(parts: Array) -> Array:
            slopes = self.parts.slopes(parts)
            norms = gradient_norms(slopes, gram)[:, None]
            short = slopes * jnp.minimum(1.0, clip_norm / norms)
            return jnp.where(jnp.isfinite(norms), short, 0.0)

        def add(total: Array, some: Array) -> tuple[Array, None]:
            return total + jax.vmap(bounded)(self.parts.at_each(some)).sum(0), None

        # The records' numbers are read once for several iterates.
        together = divisor(len(iterates), _ITERATES_TOGETHER)
        groups = iterates.reshape(-1, together, iterates.shape[1])
        total, _ = jax.lax.scan(add, jnp.zeros_like(self.parts.offset), groups)
        return self.parts.spread(total / len(iterates))

    def clipped_jacobians(self, points: Array, clip_norm: Array, matrix: Array) -> Jacobians:
        some = self.parts.leading(len(points))
        places = some.at(points)
        slopes, curvatures = some.slopes(places), some.curvatures(places)
        bent = clipped_curvatures(slopes, curvatures, some.gram(), clip_norm)
        turned = jnp.einsum("nkl,nle->nke", bent, some.rows)
        mean = jnp.einsum("nkd,nke->de", some.rows, turned) / len(points)
        return Jacobians(mean, jnp.einsum("nke,nke->n", turned @ matrix, some.rows))


def divisor(count: int, most: int) -> int:
    """The largest number up to ``most`` that divides ``count``.

    Args:
        count: What is divided into groups of one size.
        most: Of a group.
    """
    return next(size for size in range(min(count, most), 0, -1) if count % size == 0)


def finite(values: Any) -> Array:
    """Zero for what is not a finite number."""
    return jnp.where(jnp.isfinite(values), values, 0.0)
