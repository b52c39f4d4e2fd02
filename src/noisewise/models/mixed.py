"""Mixed models: regressions in which every unit has an intercept, or a slope, of its own.

A unit's own coefficients are Gaussian around the common ones, independent of each other. They are
integrated out inside what the unit contributes: by Gauss-Hermite quadrature around the unit's own
mode, where few nodes do whatever its rows say. So a unit is still one record with one gradient, and
nothing about it but that gradient takes part in a release.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array

from noisewise._validate import NoisewiseError, listed, shown
from noisewise.data import WEIGHT, Encoder, Rows, Schema
from noisewise.models.families import Family
from noisewise.models.families.family import positive_prior
from noisewise.models.frame import Frame
from noisewise.models.glm import Glm
from noisewise.models.ready_made import Capabilities, ReadyMade, TargetNames, single_target
from noisewise.models.target import Target
from noisewise.models.units import UnitTarget

SD = "random_sd"
"""The latent that says how far units differ."""
INTERCEPT = "intercept"
_TEXT = re.compile(r"mixed\(([a-z-]+)((?:, *[^,()]+)*)\)")
_MOST = 2
_NODES = {1: 11, 2: 7}
"""In every direction. Around the mode the integrand is nearly Gaussian, and these are many."""
_NEWTON = 8
_LONGEST = 3.0
"""Of a Newton step, in sds of the random coefficients: a first step may point far out."""
_SD_SHARE, _LOG_SD = 0.5, 0.75


@dataclass(frozen=True)
class MixedGlm(ReadyMade):
    """A regression with coefficients of each unit's own: ``logit p = X b + Z u``, u of the unit.

    Its latents are the regression's and ``random_sd``, how far units differ from each other, with a
    prior LogNormal(log(prior_scale / 2), 0.75).

    Attributes:
        glm: The regression.
        random: Columns of the design matrix whose coefficients differ between units: the intercept,
            one other, or both.
        places: Where these stand in the design matrix; `of` finds them.
    """

    glm: Glm
    random: tuple[str, ...] = (INTERCEPT,)
    places: tuple[int, ...] = (0,)

    capabilities = Capabilities(
        because="random coefficients of units are integrated out by quadrature",
    )

    def __str__(self) -> str:
        """As people write it."""
        names = [str(self.glm), *(name for name in self.random if name != INTERCEPT)]
        return f"mixed({', '.join(names)})"

    @property
    def kind(self) -> Family:
        """The family of the outcomes."""
        return self.glm.kind

    @property
    def target_kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the family can generate."""
        return self.glm.target_kinds

    @property
    def positive_target(self) -> bool:  # type: ignore[override]
        """Whether the target must be above 0."""
        return self.glm.positive_target

    def of(self, schema: Schema, target: TargetNames, features: list[str] | None) -> MixedGlm:
        """The same model, with the places of these columns' coefficients."""
        if schema.unit is None:
            raise NoisewiseError(
                f"{self} has coefficients of each unit's own, and the schema declares no [unit]: "
                "declare whose rows belong together"
            )
        name = single_target(target)
        names = Encoder(schema, name, features).names
        for column in self.random:
            if column not in names:
                raise NoisewiseError(
                    f"{self} names {shown(column)}, which is no column of the design matrix: "
                    f"choose among {listed(names)}"
                )
        places = tuple(names.index(column) for column in self.random)
        return replace(self, glm=self.glm.of(schema, target, features), places=places)

    def coordinates(self, features: list[str] | None) -> dict[str, list[str]]:
        """Coefficients are called as the features are, and sds as what they are of."""
        sds = [f"sd of {name}" for name in self.random]
        return self.glm.coordinates(features) | {SD: sds}

    def __call__(self, X: Any, y: Any = None) -> None:
        """The model of a row whose unit is as units are on average."""
        each = positive_prior(_SD_SHARE * self.glm.prior_scale, _LOG_SD)
        numpyro.sample(SD, each.expand([len(self.random)]).to_event(1))
        self.glm(X, y)

    def of_units(self, target: Target, most_rows: int) -> Target:
        """The target of units: random coefficients are integrated out.

        Args:
            target: Of rows.
            most_rows: Of a unit.
        """
        return MixedTarget(self, target.layout, target.example, target, most_rows)


@dataclass(frozen=True)
class MixedTarget(UnitTarget):
    """A unit's marginal likelihood, its random coefficients integrated out."""

    model: MixedGlm

    @cached_property
    def _grid(self) -> tuple[np.ndarray, np.ndarray]:
        """Nodes of a standard normal (nodes x coefficients), and log weights times the inverse of
        its density, its constant aside."""
        k = len(self.model.places)
        points, weights = np.polynomial.hermite_e.hermegauss(_NODES[k])
        nodes = np.array(list(itertools.product(points, repeat=k)))
        logs = np.array(list(itertools.product(np.log(weights / weights.sum()), repeat=k))).sum(1)
        return nodes.astype(np.float32), (logs + 0.5 * (nodes**2).sum(1)).astype(np.float32)

    def _parts(self, theta: Array) -> tuple[dict[str, Array], list[Array]]:
        latents = self.constrain(theta)
        own = self.model.kind.nuisance(self.model.glm.noise_scale)
        return latents, [latents[name] for name in own]

    def log_likelihood(self, theta: Array, record: Rows) -> Array:
        """log of the integral of p(a unit's rows | theta, u) over N(u; 0, 1)."""
        latents, nuisance = self._parts(theta)
        fixed = record["X"] @ latents["coefficients"]
        spread = record["X"][:, jnp.array(self.model.places)] * latents[SD]
        weight, y = record[WEIGHT], record["y"]

        def row(predictor: Array, y: Array, *nuisance: Array) -> Array:
            found: Array = self.model.kind.likelihood(predictor, *nuisance).log_prob(y)
            return found

        def joint(u: Array) -> Array:
            each = row(fixed + spread @ u, y, *nuisance)
            return jnp.sum(jnp.where(weight > 0, weight * each, 0.0)) - 0.5 * u @ u

        # Where nodes are does not matter to the integral, up to what quadrature leaves: they are
        # taken as given, and no derivative follows the search for the mode.
        stopped = jax.lax.stop_gradient((fixed, spread, weight, y, tuple(nuisance)))
        mode, root, log_root = _mode(row, *stopped)
        nodes, logs = self._grid
        values = jax.vmap(lambda node: joint(mode + root @ node))(jnp.asarray(nodes))
        return jax.nn.logsumexp(values + logs) + log_root

    def prepare(self, rows: Rows, frame: Frame) -> Rows:
        """The arguments in single precision."""
        return {name: jnp.asarray(column, jnp.float32) for name, column in rows.items()}

    def record_moments(
        self, frame: Frame, points: Array, base_normals: Array, batch: Rows
    ) -> tuple[Array, Array]:
        """See `Target.record_moments`: by automatic differentiation of the integral."""
        return Target.record_moments(self, frame, points, base_normals, batch)

    def simulate(self, key: Array, theta: Array, rows: Rows) -> Rows:
        """See `Target.simulate`: every unit's coefficients first, then its rows."""
        latents, nuisance = self._parts(theta)
        key_units, key_rows = jax.random.split(key)
        X = rows["X"]
        u = jax.random.normal(key_units, (len(X), len(self.model.places)))
        with jax.default_matmul_precision("highest"):  # what is drawn here counts as the truth
            own = jnp.einsum("nrk,nk->nr", X[..., jnp.array(self.model.places)], u * latents[SD])
            predictor = X @ latents["coefficients"] + own
        drawn = self.model.kind.likelihood(predictor, *nuisance).sample(key_rows)
        return {**rows, "y": drawn.astype(jnp.asarray(rows["y"]).dtype)}


def _mode(
    row: Any, fixed: Array, spread: Array, weight: Array, y: Array, nuisance: tuple[Array, ...]
) -> tuple[Array, Array, Array]:
    """Where a unit's integrand peaks, the root of its inverse curvature there, and the log of that
    root's determinant."""
    slope = jax.vmap(jax.grad(row), (0, 0, *[None] * len(nuisance)))
    bend = jax.vmap(jax.grad(jax.grad(row)), (0, 0, *[None] * len(nuisance)))

    def at(u: Array) -> tuple[Array, Array]:
        predictor = fixed + spread @ u
        gradient = jnp.where(weight > 0, weight * slope(predictor, y, *nuisance), 0.0) @ spread - u
        # A row that curves the other way counts for nothing: the root must be of something.
        each = jnp.where(weight > 0, weight * jnp.maximum(-bend(predictor, y, *nuisance), 0), 0.0)
        return gradient, jnp.eye(len(u)) + (spread * each[:, None]).T @ spread

    def step(_: int, u: Array) -> Array:
        gradient, curvature = at(u)
        root = _inverse_root(curvature)
        move = root @ (root.T @ gradient)
        length = jnp.sqrt(jnp.sum(move**2) + 1e-12)
        return u + move * jnp.minimum(1.0, _LONGEST / length)

    mode = jax.lax.fori_loop(0, _NEWTON, step, jnp.zeros(spread.shape[1]))
    root = _inverse_root(at(mode)[1])
    return mode, root, jnp.sum(jnp.log(jnp.diagonal(root)))


def _inverse_root(matrix: Array) -> Array:
    """L with L L^T the inverse of a positive matrix of one or two rows: by hand, for XLA's
    factorisations of many tiny matrices are slow and may wait for each other."""
    if matrix.shape == (1, 1):
        return 1 / jnp.sqrt(matrix)
    a, b, c = matrix[0, 0], matrix[0, 1], matrix[1, 1]
    determinant = a * c - b * b
    first = jnp.sqrt(c / determinant)
    below = -b / determinant / first
    return jnp.array([[first, 0.0], [below, 1 / jnp.sqrt(c)]])


def mixed(family: str | Glm, slopes: tuple[str, ...] = (), intercept: bool = True) -> MixedGlm:
    """A regression with coefficients of each unit's own, the schema's `[unit]`.

    Args:
        family: Of the outcomes, by name or as a regression with priors of your own.
        slopes: Columns of the design matrix whose coefficients differ between units.
        intercept: Whether the intercept does.

    >>> str(mixed("logistic", slopes=("age",)))
    'mixed(logistic, age)'
    """
    glm = Glm(family) if isinstance(family, str) else family
    random = ((INTERCEPT,) if intercept else ()) + tuple(slopes)
    if not 1 <= len(random) <= _MOST or len(set(random)) < len(random):
        raise NoisewiseError(
            f"a mixed model has one or two random coefficients, got {listed(random) or 'none'}: "
            "more than two cannot be integrated out by quadrature in reasonable time"
        )
    if glm.kind.predictors > 1 or glm.survival:
        raise NoisewiseError(
            f"a mixed model has one linear predictor and one outcome, and {glm} has several: "
            "use logistic, poisson or another family with one"
        )
    return MixedGlm(glm, random, tuple(range(len(random))))


def mixed_from_text(text: str) -> tuple[str, tuple[str, ...]] | None:
    """The family and the slopes that ``mixed(logistic, age)`` names; None for another text.

    Args:
        text: A model's name.

    >>> mixed_from_text("mixed(logistic, age)")
    ('logistic', ('age',))
    """
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        return None
    slopes = tuple(part.strip() for part in found[2].split(",") if part.strip())
    return found[1], slopes
