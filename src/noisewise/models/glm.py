"""Generalised linear models, ready-made, with per-record gradients in closed form.

A record's gradient is its row times a residual, so averaging over guide draws averages residuals:
no array ever has records, draws and coordinates as its three axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array

from noisewise._validate import one_of, positive
from noisewise.data import Rows, Schema
from noisewise.models.families import FAMILIES, Family
from noisewise.models.frame import Frame
from noisewise.models.linear_parts import LinearParts
from noisewise.models.ready_made import Capabilities, ReadyMade, TargetNames, listed_targets
from noisewise.models.target import WEIGHT, Target, weighted, weights_of


class OwnPrior(NamedTuple):
    """The normal prior of one column's coefficient, on the encoded scale."""

    place: int
    mean: float | None
    """None is what it would be without it."""
    sd: float


@dataclass(frozen=True)
class Glm(ReadyMade):
    """An ordinary NumPyro model: call it with a design matrix ``X`` and a target ``y``.

    Priors: every coefficient Normal(0, prior_scale), the first one, an intercept, around
    ``centre`` with an sd of ``intercept_scale``, if that is given, those of ``own`` as they
    say; the family's own parameters around ``noise_scale``, as `Family.nuisance` says. For
    ``linear`` that is the residual standard deviation ``noise``, LogNormal(log noise_scale, 0.5).
    """

    family: str
    prior_scale: float = 1.0
    noise_scale: float = 1.0
    centre: float | tuple[float, ...] = 0.0
    """A number for each linear predictor, where there are several."""
    intercept_scale: float | None = None
    form: Family | None = None
    """The family with what it takes from the target's declaration; None is without that."""
    constant: tuple[float, ...] | None = (1.0,)
    """Coefficients, others 0, that make the predictor 1 for everybody, as the first one does if it
    is an intercept; None where the columns of ``X`` cannot make that."""
    own: tuple[OwnPrior, ...] = ()
    """Priors of single coefficients."""

    def __post_init__(self) -> None:
        one_of("family", self.family, FAMILIES)
        positive("prior_scale", self.prior_scale)
        positive("noise_scale", self.noise_scale)
        if self.form is None:
            object.__setattr__(self, "form", FAMILIES[self.family])

    def __str__(self) -> str:
        """Its family, as people write it."""
        return self.family + self.kind.suffix

    @property
    def kind(self) -> Family:
        """The family as an object."""
        assert self.form is not None  # it is filled in
        return self.form

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """Closed-form gradients; DP-SEP's sites are those with a Gaussian integral."""
        usual = self.constant is not None and not any(self.constant[1:]) and not self.own
        return Capabilities(
            closed_form_gradients=True,
            site=self.kind.site if usual else None,
            because="" if usual else "DP-SEP knows one prior for all coefficients and an intercept",
        )

    @property
    def target_type(self) -> type[Target]:
        """Where the frame's blocks are those of the coefficients and of the rest, the design matrix
        is turned into it once, not at every step."""
        return JointGlmTarget if self.kind.joint else GlmTarget

    @property
    def target_kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the family can generate."""
        return self.kind.kinds

    @property
    def fewest_levels(self) -> int:  # type: ignore[override]
        """Of a category that is the target."""
        return self.kind.levels_from

    @property
    def positive_target(self) -> bool:  # type: ignore[override]
        """Whether the target must be above 0."""
        return self.kind.positive

    @property
    def survival(self) -> bool:  # type: ignore[override]
        """Whether the target is a time and an event."""
        return self.kind.survival

    def of(self, schema: Schema, target: TargetNames, features: list[str] | None) -> Glm:
        """The same priors, for this target's levels or times."""
        columns = [schema[name] for name in listed_targets(target) if name in schema]
        return replace(self, form=self.kind.of(*columns[:2])) if columns else self

    def coordinates(self, features: list[str] | None) -> dict[str, list[str]]:
        """Coefficients are called as the features are."""
        return {} if features is None else self.kind.coordinates(features)

    def __call__(self, X: Any, y: Any = None) -> None:
        count, width = self.kind.predictors, X.shape[1]
        means, sds = self._prior(width)
        prior = dist.Normal(means.reshape(-1), sds.reshape(-1)).to_event(1)
        coefficients = numpyro.sample("coefficients", prior).reshape(count, width)
        own = self.kind.nuisance(self.noise_scale).items()
        nuisance = [numpyro.sample(name, prior) for name, prior in own]
        predictor = X @ coefficients.T if count > 1 else X @ coefficients[0]
        with numpyro.plate("records", X.shape[0]):
            numpyro.sample("y", self.likelihood(predictor, *nuisance), obs=y)

    def _prior(self, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Means and sds of the coefficients' priors, predictors x columns of ``X``."""
        constant = np.zeros(width)
        constant[: len(self.constant or ())] = self.constant or ()
        means = np.outer(np.broadcast_to(self.centre, self.kind.predictors), constant)
        first = self.prior_scale if self.intercept_scale is None else self.intercept_scale
        sds = np.broadcast_to(np.where(constant != 0, first, self.prior_scale), means.shape).copy()
        for prior in self.own:
            sds[:, prior.place] = prior.sd
            if prior.mean is not None:
                means[:, prior.place] = prior.mean
        return means, sds

    def prior_words(self, features: list[str] | None) -> tuple[str, ...]:
        """See `ReadyMade.prior_words`."""
        if features is None:
            return ()
        means, sds = self._prior(len(features))
        names = self.coordinates(features)["coefficients"]
        said: dict[str, list[str]] = {}
        for name, mean, sd in zip(names, means.reshape(-1), sds.reshape(-1), strict=True):
            said.setdefault(f"Normal({mean:.4g}, {sd:.4g})", []).append(name)
        *few, (usual, most) = sorted(said.items(), key=lambda each: len(each[1]))
        lines = [f"{_listed(own)}: {prior}" for prior, own in few]
        lines.append(f"{'every other coefficient' if few else _listed(most)}: {usual}")
        nuisance = self.kind.nuisance(self.noise_scale).items()
        return (*lines, *(f"{name}: {_in_words(prior)}" for name, prior in nuisance))

    def likelihood(self, predictor: Any, *nuisance: Any) -> dist.Distribution:
        """The distribution of a record given its linear predictor.

        Args:
            predictor: Of every record; where there are several, they are the last axis.
            nuisance: The family's own parameters, in the order in which they are sampled.
        """
        return self.kind.likelihood(predictor, *nuisance)


def _listed(names: list[str]) -> str:
    """A few names, and how many more."""
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more


def _in_words(prior: dist.Distribution) -> str:
    """A distribution with its numbers, such as ``LogNormal(-0.36, 0.5)``."""
    base = prior.base_dist if isinstance(prior, dist.Independent) else prior
    numbers = [np.ravel(getattr(base, name)) for name in base.arg_constraints]
    said = [", ".join(f"{x:.3g}" for x in np.unique(each)) for each in numbers]
    return f"{type(base).__name__}({'; '.join(said)})"


def logistic(prior_scale: float = 1.0) -> Glm:
    """Logistic regression.

    Args:
        prior_scale: Prior sd of every coefficient.
    """
    return Glm("logistic", prior_scale)


def probit(prior_scale: float = 1.0) -> Glm:
    """Probit regression."""
    return Glm("probit", prior_scale)


def poisson(prior_scale: float = 1.0) -> Glm:
    """Poisson regression with a log link.

    Args:
        prior_scale: Prior sd of every coefficient.
    """
    return Glm("poisson", prior_scale)


def linear(prior_scale: float = 1.0, noise_scale: float = 1.0) -> Glm:
    """Linear regression with unknown residual standard deviation.

    Args:
        prior_scale: Prior sd of every coefficient.
        noise_scale: Prior median of the residual sd.
    """
    return Glm("linear", prior_scale, noise_scale)


_MOST_PARTS, _MOST_PART_NUMBERS = 8, 4096


def regression_parts(kind: Family, dim: int, frame: Frame, rows: Rows) -> LinearParts | None:
    """Linear predictors, then the family's own parameters, of every record; None where they are so
    many that the model itself takes less memory.

    Args:
        kind: The family.
        dim: Number of coordinates.
        frame: In whose coordinates they are linear.
        rows: Design matrix, outcomes, and weights if there are any.
    """
    design = jnp.asarray(rows["X"], jnp.float32)
    count, width = kind.predictors, design.shape[1]
    own = dim - count * width
    if count + own > _MOST_PARTS and (count + own) * dim > _MOST_PART_NUMBERS:
        return None
    by_model = jnp.zeros((len(design), count + own, dim))
    for k in range(count):
        by_model = by_model.at[:, k, k * width : (k + 1) * width].set(design)
    by_model = by_model.at[:, count:, count * width :].set(jnp.eye(own))

    def slopes_of(parts: Array, outcome: Array) -> Array:
        predictor = parts[:count].reshape((1, 1, count) if count > 1 else (1, 1))
        found = kind.slopes(predictor, outcome[None, None], parts[count:, None])
        both = [found.predictor.reshape(count), *(each.reshape(1) for each in found.nuisance)]
        return jnp.concatenate(both)

    with jax.default_matmul_precision("highest"):  # GPUs would round the table itself
        offset, turned = by_model @ frame.location, frame.gradient(by_model)
    outcomes = jnp.asarray(rows["y"], jnp.float32)
    return LinearParts(offset, turned, outcomes, weights_of(rows).get(WEIGHT), slopes_of)


@dataclass(frozen=True)
class GlmTarget(Target):
    """A `Glm` with closed-form gradients, equal to the generic ones to float accuracy."""

    model: Glm

    @property
    def width(self) -> int:
        """Number of coefficients."""
        return self.layout.latents[0].size

    def block_sizes(self) -> tuple[int, ...]:
        """Coefficients, and the family's own parameters: a frame must not mix the two."""
        return (self.width,) if self.dim == self.width else (self.width, self.dim - self.width)

    def prepare(self, rows: Rows, frame: Frame) -> Rows:
        """Design matrix and offsets in the frame's coordinates: once, not at every step."""
        design = jnp.asarray(rows["X"], jnp.float32)
        with jax.default_matmul_precision("highest"):  # GPUs would round the table itself
            offset = design @ frame.location[: self.width]
            if frame.factor is not None:
                design = design @ frame.factor[: self.width, : self.width]
        outcome = jnp.asarray(rows["y"], jnp.float32)
        return {"X": design, "offset": offset, "y": outcome} | weights_of(rows)

    def linear_parts(self, frame: Frame, rows: Rows) -> LinearParts | None:
        """See `Target.linear_parts`."""
        return regression_parts(self.model.kind, self.dim, frame, rows)

    def record_moments(
        self, frame: Frame, points: Array, base_normals: Array, batch: Rows
    ) -> tuple[Array, Array]:
        """See `Target.record_moments`; batch x draws and batch x coordinates are all there is."""
        design, width, draws = batch["X"], self.width, points.shape[0]
        predictor = batch["offset"][:, None] + design @ points[:, :width].T
        nuisance = frame.to_model(points)[:, width:].T
        slope, own = self.model.kind.slopes(predictor, batch["y"][:, None], nuisance)
        mean = slope.mean(1, keepdims=True) * design
        scale = (slope @ base_normals[:, :width] / draws) * design
        if self.dim == width:
            mean, scale = weighted(batch, mean, scale)
            return mean, scale
        turn = None if frame.factor is None else frame.factor[width:, width:]
        own_mean, own_scale = _turned(own, turn, base_normals[:, width:])
        mean, scale = weighted(batch, both(mean, own_mean), both(scale, own_scale))
        return mean, scale


def _turned(own: Sequence[Array], factor: Array | None, normals: Array) -> tuple[Array, Array]:
    """Slopes by the family's own parameters in the frame: their means over draws, and those of
    their products with the normals."""
    if factor is not None:
        columns = range(len(own))
        own = [sum((own[i] * factor[i, j] for i in columns), jnp.zeros(())) for j in columns]
    means = jnp.stack([slope.mean(1) for slope in own], axis=1)
    scales = jnp.stack([slope @ normals[:, j] for j, slope in enumerate(own)], axis=1)
    return means, scales / len(normals)


def both(left: Array, right: Array) -> Array:
    """Coefficients' columns, then the others'."""
    return jnp.concatenate([left, right], axis=1)


@dataclass(frozen=True)
class JointGlmTarget(Target):
    """A `Glm` in frames that mix all coordinates: several linear predictors, or parameters of the
    family's own that the data tie to the intercept.

    Gradients are turned into the frame, not the design matrix: a batch x coordinates product with
    the frame's factor at every step.
    """

    model: Glm

    @property
    def predictors(self) -> int:
        """Linear predictors of a record."""
        return self.model.kind.predictors

    def prepare(self, rows: Rows, frame: Frame) -> Rows:
        """The arguments in single precision."""
        found = {name: jnp.asarray(rows[name], jnp.float32) for name in ("X", "y")}
        return found | weights_of(rows)

    def linear_parts(self, frame: Frame, rows: Rows) -> LinearParts | None:
        """See `Target.linear_parts`."""
        return regression_parts(self.model.kind, self.dim, frame, rows)

    def record_moments(
        self, frame: Frame, points: Array, base_normals: Array, batch: Rows
    ) -> tuple[Array, Array]:
        """See `Target.record_moments`; nothing has records, draws and coordinates as its axes."""
        design, count, theta = batch["X"], self.predictors, frame.to_model(points)
        size = self.layout.latents[0].size
        each = theta[:, :size].reshape(len(theta), count, size // count)
        with jax.default_matmul_precision("highest"):  # the frame's location is in it
            predictor = jnp.einsum("np,dkp->ndk", design, each)
        given = predictor if count > 1 else predictor[..., 0]
        found = self.model.kind.slopes(given, batch["y"][:, None], theta[:, size:].T)
        by_predictor = found.predictor.reshape(predictor.shape)
        slopes = [by_predictor[..., k] for k in range(count)] + list(found.nuisance)
        mean = frame.gradient(self._spread(design, {k: s.mean(1) for k, s in enumerate(slopes)}))
        ones, scale = jnp.ones(len(design)), jnp.zeros_like(mean)
        for k, slope in enumerate(slopes):
            turned = frame.gradient(self._spread(design, {k: ones}))
            scale += turned * (slope @ base_normals / len(points))
        mean, scale = weighted(batch, mean, scale)
        return mean, scale

    def _spread(self, design: Array, weights: Mapping[int, Array]) -> Array:
        """Gradients by the model's coordinates from those by the predictors, then by the family's
        own parameters; those that are not named are 0."""
        zero, count = jnp.zeros(len(design)), self.predictors
        own = range(count, count + self.dim - self.layout.latents[0].size)
        rows = [weights.get(k, zero)[:, None] * design for k in range(count)]
        return jnp.concatenate([*rows, *(weights.get(k, zero)[:, None] for k in own)], axis=1)
