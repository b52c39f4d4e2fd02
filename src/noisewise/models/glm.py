"""Generalised linear models, ready-made, with per-record gradients in closed form.

A record's gradient is its row times a residual, so averaging over guide draws averages residuals:
no array ever has records, draws and coordinates as its three axes.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.scipy.stats import norm

from noisewise._validate import one_of, positive
from noisewise.data import Rows
from noisewise.models.frame import Frame
from noisewise.models.ready_made import Capabilities, ReadyMade
from noisewise.models.target import Target, weighted, weights_of

FAMILIES = ("logistic", "probit", "poisson", "linear")
_TARGET_KINDS = {
    "logistic": ("binary", "category"),
    "probit": ("binary", "category"),
    "poisson": ("count",),
    "linear": ("real", "count"),
}


@dataclass(frozen=True)
class Glm(ReadyMade):
    """An ordinary NumPyro model: call it with a design matrix ``X`` and a target ``y``.

    Priors: every coefficient Normal(0, prior_scale), the first one, an intercept, around
    ``centre``; for ``linear`` also the residual standard deviation ``noise``, LogNormal(log
    noise_scale, 0.5).
    """

    family: str
    prior_scale: float = 1.0
    noise_scale: float = 1.0
    centre: float = 0.0

    def __post_init__(self) -> None:
        one_of("family", self.family, FAMILIES)
        positive("prior_scale", self.prior_scale)
        positive("noise_scale", self.noise_scale)

    def __str__(self) -> str:
        """Its family."""
        return self.family

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """Closed-form gradients; DP-SEP's sites are those with a Gaussian integral."""
        site = None if self.family == "poisson" else self.family
        return Capabilities(closed_form_gradients=True, site=site)

    @property
    def target_kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the family can generate."""
        return _TARGET_KINDS[self.family]

    def coordinates(self, features: list[str] | None) -> dict[str, list[str]]:
        """Coefficients are called as the features are."""
        return {} if features is None else {"coefficients": features}

    def __call__(self, X: Any, y: Any = None) -> None:
        means = jnp.zeros(X.shape[1]).at[0].set(self.centre)
        prior = dist.Normal(means, self.prior_scale).to_event(1)
        coefficients = numpyro.sample("coefficients", prior)
        noise = None
        if self.family == "linear":
            noise = numpyro.sample("noise", dist.LogNormal(jnp.log(self.noise_scale), 0.5))
        with numpyro.plate("records", X.shape[0]):
            numpyro.sample("y", self.likelihood(X @ coefficients, noise), obs=y)

    def likelihood(self, predictor: Any, noise: Any = None) -> dist.Distribution:
        """The distribution of a record given its linear predictor."""
        if self.family == "logistic":
            return dist.Bernoulli(logits=predictor)
        if self.family == "probit":
            # The log odds from log Phi on both sides: no probability is rounded to 0 or 1.
            return dist.Bernoulli(logits=norm.logcdf(predictor) - norm.logcdf(-predictor))
        if self.family == "poisson":
            return dist.Poisson(jnp.exp(predictor))
        return dist.Normal(predictor, noise)


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


def _loss_slopes(family: str, predictor: Array, y: Array, log_noise: Array) -> tuple[Array, Array]:
    """Derivatives of minus the log-likelihood: by the linear predictor, by the log noise."""
    if family == "logistic":
        return jax.nn.sigmoid(predictor) - y, jnp.zeros(())
    if family == "probit":
        sign = 2 * y - 1
        ratio = jnp.exp(norm.logpdf(predictor) - norm.logcdf(sign * predictor))
        return -sign * ratio, jnp.zeros(())
    if family == "poisson":
        return jnp.exp(predictor) - y, jnp.zeros(())
    precision = jnp.exp(-2 * log_noise)
    residual = predictor - y
    return residual * precision, 1 - residual * residual * precision


@dataclass(frozen=True)
class GlmTarget(Target):
    """A `Glm` with closed-form gradients, equal to the generic ones to float accuracy."""

    model: Glm

    @property
    def width(self) -> int:
        """Number of coefficients."""
        return self.layout.latents[0].size

    def block_sizes(self) -> tuple[int, ...]:
        """Coefficients, and the log noise of a linear model: a frame must not mix the two."""
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

    def record_moments(
        self, frame: Frame, points: Array, base_normals: Array, batch: Rows
    ) -> tuple[Array, Array]:
        """See `Target.record_moments`; batch x draws and batch x coordinates are all there is."""
        design, width, draws = batch["X"], self.width, points.shape[0]
        predictor = batch["offset"][:, None] + design @ points[:, :width].T
        log_noise = frame.to_model(points)[:, width:].T if self.dim > width else jnp.zeros((1, 1))
        y = batch["y"][:, None]
        slope, noise_slope = _loss_slopes(self.model.family, predictor, y, log_noise)
        mean = slope.mean(1, keepdims=True) * design
        scale = (slope @ base_normals[:, :width] / draws) * design
        if self.dim == width:
            mean, scale = weighted(batch, mean, scale)
            return mean, scale
        if frame.factor is not None:
            noise_slope = noise_slope * frame.factor[width, width]
        last_mean = noise_slope.mean(1, keepdims=True)
        last_scale = noise_slope @ base_normals[:, width:] / draws
        mean, scale = weighted(batch, both(mean, last_mean), both(scale, last_scale))
        return mean, scale


def both(left: Array, right: Array) -> Array:
    """Coefficients' columns, then the noise's."""
    return jnp.concatenate([left, right], axis=1)
