"""A NumPyro model as a `Target`: what inference needs to know about it, and nothing else.

Per-record log-likelihood, log-prior, and the bijectors between the latents' own space and the
unconstrained one, with their log-determinants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpyro import handlers
from numpyro.distributions import biject_to

from noisewise.data import WEIGHT, Rows
from noisewise.models.frame import Frame
from noisewise.models.inspection import Layout, log_probability
from noisewise.models.linear_parts import LinearParts


@dataclass(frozen=True)
class Target:
    """A model whose records are independent given its latents.

    ``theta`` below is the flat vector of all latents in the unconstrained space, in the order in
    which the model samples them. Equal targets share compiled programs, so equality is by model
    and shapes.
    """

    model: Callable[..., Any]
    layout: Layout
    example: Rows = field(compare=False, repr=False)
    """One simulated record, to trace the model with where only its prior matters."""

    @property
    def dim(self) -> int:
        """Number of unconstrained coordinates."""
        return sum(site.size for site in self.layout.latents)

    @property
    def rows(self) -> Target:
        """The same model of single rows, where a record has several."""
        return self

    @property
    def rows_each(self) -> int:
        """Rows that a record has, at most."""
        return 1

    @property
    def record_width(self) -> int:
        """Numbers that a record has."""
        return self.rows_each * sum(int(np.prod(shape)) for _, shape, _ in self.layout.signature)

    @property
    def labels(self) -> list[str]:
        """A name for each unconstrained coordinate."""
        return [label for site in self.layout.latents for label in site.labels()]

    @property
    def generated(self) -> frozenset[str]:
        """Arguments that the model draws itself: the others are covariates."""
        return frozenset(argument for argument, _ in self.layout.observed_arguments)

    @property
    def has_covariates(self) -> bool:
        """Whether the model takes columns that it does not generate."""
        return any(name not in self.generated for name, _, _ in self.layout.signature)

    # -- between the two spaces -------------------------------------------------------------

    def _split(self, theta: Array) -> dict[str, Array]:
        lead, places = theta.shape[:-1], self.layout.places
        return {
            site.name: theta[..., places[site.name]].reshape(lead + site.unconstrained_shape)
            for site in self.layout.latents
        }

    def constrain(self, theta: Array) -> dict[str, Array]:
        """Latents by name in their own space; leading axes of ``theta`` are kept."""
        parts = self._split(theta)
        return {
            site.name: biject_to(site.support)(parts[site.name]) for site in self.layout.latents
        }

    def unconstrain(self, latents: dict[str, Array]) -> Array:
        """The flat unconstrained vector of the named latents: the inverse of `constrain`."""
        flat = []
        for site in self.layout.latents:
            value = jnp.asarray(latents[site.name])
            free = biject_to(site.support).inv(value)
            lead = free.shape[: free.ndim - len(site.unconstrained_shape)]
            flat.append(free.reshape((*lead, site.size)))
        return jnp.concatenate(flat, axis=-1)

    def _log_determinant(self, theta: Array) -> Array:
        parts, total = self._split(theta), jnp.zeros(())
        for site in self.layout.latents:
            bijector, free = biject_to(site.support), parts[site.name]
            total += jnp.sum(bijector.log_abs_det_jacobian(free, bijector(free)))
        return total

    # -- densities --------------------------------------------------------------------------

    def sites(self, theta: Array, rows: Rows) -> dict[str, Any]:
        """NumPyro's trace of the model with these latents."""
        substituted = handlers.substitute(self.model, data=self.constrain(theta))
        # A key is needed only where the model itself asks for one; nothing random is used.
        seeded = handlers.seed(substituted, jax.random.PRNGKey(0))
        return handlers.trace(seeded).get_trace(**arguments_of(rows))

    def log_likelihood(self, theta: Array, record: Rows) -> Array:
        """log p(record | theta): one record, its arrays without the axis of records; times its
        weight, where it has one."""
        weight = record.get(WEIGHT)
        if weight is not None:
            # What is selected has no gradient in what is not: not even one that is not a number.
            theta = jnp.where(weight > 0, theta, jax.lax.stop_gradient(theta))
        sites = self.sites(theta, jax.tree.map(lambda column: column[None], record))
        found = log_probability(sites, self.layout.observed)
        return found if weight is None else jnp.where(weight > 0, weight * found, 0.0)

    def log_prior(self, theta: Array) -> Array:
        """log p(theta) in the unconstrained space: with the bijectors' log-determinants."""
        sites = self.sites(theta, self.example)
        names = tuple(site.name for site in self.layout.latents)
        return log_probability(sites, names) + self._log_determinant(theta)

    # -- gradients --------------------------------------------------------------------------

    def prepare(self, rows: Rows, frame: Frame) -> Rows:
        """Rows as `record_moments` wants them; here as they are."""
        return {name: jnp.asarray(column) for name, column in rows.items()}

    def linear_parts(self, frame: Frame, rows: Rows) -> LinearParts | None:
        """The few numbers, linear in the frame's coordinates, that a record's likelihood takes;
        None where it is not of that kind."""
        return None

    def record_moments(
        self, frame: Frame, points: Array, base_normals: Array, batch: Rows
    ) -> tuple[Array, Array]:
        """Per-record gradients of the loss, averaged over draws.

        ``points`` (draws x dim) are guide draws in the frame's coordinates, ``base_normals`` the
        standard normals behind them. Returns, per record, the mean gradient and the mean of
        gradient times normals, which is the gradient of a diagonal guide's scales; what a rule does
        not use costs nothing, the compiler drops it.
        """

        def loss(point: Array, record: Rows) -> Array:
            return -self.log_likelihood(frame.to_model(point), record)

        def one(record: Rows) -> tuple[Array, Array]:
            gradients = jax.vmap(jax.grad(loss), (0, None))(points, record)
            return gradients.mean(0), (gradients * base_normals).mean(0)

        return jax.vmap(one)(batch)

    def prior_moments(
        self, frame: Frame, points: Array, base_normals: Array
    ) -> tuple[Array, Array]:
        """The same for minus the log-prior: no record is involved."""
        gradients = jax.vmap(jax.grad(lambda point: -self.log_prior(frame.to_model(point))))(points)
        return gradients.mean(0), (gradients * base_normals).mean(0)

    # -- simulation -------------------------------------------------------------------------

    def sample_prior(self, key: Array, count: int) -> Array:
        """Draws from the prior, unconstrained (count x dim)."""

        def one(key: Array) -> Array:
            sites = handlers.trace(handlers.seed(self.model, key)).get_trace(**self.example)
            return self.unconstrain({s.name: sites[s.name]["value"] for s in self.layout.latents})

        return jax.vmap(one)(jax.random.split(key, count))

    def simulate(self, key: Array, theta: Array, rows: Rows) -> Rows:
        """The rows with their observed arguments drawn anew from the model given ``theta``."""
        free = handlers.uncondition(handlers.substitute(self.model, data=self.constrain(theta)))
        with jax.default_matmul_precision("highest"):  # what is drawn here counts as the truth
            sites = handlers.trace(handlers.seed(free, key)).get_trace(**arguments_of(rows))
        drawn = {
            argument: sites[site]["value"].astype(jnp.asarray(rows[argument]).dtype)
            for argument, site in self.layout.observed_arguments
        }
        return {**rows, **drawn}

    def judged_together(self) -> dict[str, np.ndarray] | None:
        """Groups of coordinates by name that are judged as wholes, because their members have no
        meaning of their own; None where every coordinate has one."""
        return None

    def block_sizes(self) -> tuple[int, ...]:
        """Sizes of coordinate groups that a frame may mix; here all of them."""
        return (self.dim,)


def arguments_of(rows: Rows) -> Rows:
    """The model's own arguments: rows without their weights.

    Args:
        rows: Columns by name.
    """
    return {name: column for name, column in rows.items() if name != WEIGHT}


def weights_of(rows: Rows) -> Rows:
    """The rows' weights alone, in single precision; nothing where rows have none.

    Args:
        rows: Columns by name.
    """
    return {WEIGHT: jnp.asarray(rows[WEIGHT], jnp.float32)} if WEIGHT in rows else {}


def without_survey_weights(rows: Rows) -> Rows:
    """The rows as the model itself generates them: every record that says anything counts once.

    Args:
        rows: Columns by name.
    """
    if WEIGHT not in rows:
        return rows
    return rows | {WEIGHT: jnp.where(rows[WEIGHT] > 0, 1.0, 0.0)}


def survey_weights(rows: Rows) -> Any:
    """The factor on every record's gradient; one where rows have no weights, or a weight is 0 and
    nothing is multiplied.

    Args:
        rows: Columns by name.
    """
    if WEIGHT not in rows:
        return np.ones(())
    weight = np.asarray(rows[WEIGHT], float)
    return np.where(weight > 0, weight, 1.0)


def weighted(batch: Rows, *moments: Array) -> tuple[Array, ...]:
    """Per-record moments (records x coordinates) times the records' weights, if they have any.

    Args:
        batch: As `Target.prepare` makes it.
        moments: Of records of weight 0 they need not be numbers.
    """
    if WEIGHT not in batch:
        return moments
    weight = batch[WEIGHT][:, None]
    return tuple(jnp.where(weight > 0, weight * each, 0.0) for each in moments)
