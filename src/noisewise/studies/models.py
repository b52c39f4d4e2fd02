"""The papers' models where they differ from noisewise's own.

NA-DPVI's are in its own unconstrained coordinates (App. H.5): NumPyro would take logarithms and
break sticks; the authors took inverse softplus and log ratios. A latent that is already
unconstrained keeps the model's meaning and fixes the coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import constraints
from numpyro.distributions.transforms import SoftplusTransform, Transform

from noisewise.models.frame import Frame
from noisewise.models.glm import Glm, both
from noisewise.models.target import Rows, Target

__all__ = [
    "GammaNoiseRegression",
    "SoftplusRegression",
    "beta_bernoulli_logit",
    "dirichlet_categorical_ratios",
    "gamma_exponential_softplus",
    "log_ratios",
    "softplus",
    "softplus_inverse",
]


def softplus(value: np.ndarray) -> np.ndarray:
    """log(1 + exp(value)), without overflow."""
    return np.logaddexp(0.0, value)


def softplus_inverse(value: np.ndarray) -> np.ndarray:
    """u with softplus(u) = value, without overflow."""
    return value + np.log(-np.expm1(-value))


def log_ratios(probabilities: np.ndarray) -> np.ndarray:
    """U_3: logarithms of probabilities over the last one."""
    logs = np.log(np.maximum(probabilities, 1e-12))
    return logs[..., :-1] - logs[..., -1:]


class _LogRatios(Transform):
    """The same as a transform of NumPyro's, from the simplex to all of R^(k-1)."""

    domain = constraints.simplex
    codomain = constraints.real_vector

    def __call__(self, x: Array) -> Array:
        logs = jnp.log(x)
        return logs[..., :-1] - logs[..., -1:]

    def _inverse(self, y: Array) -> Array:
        return jax.nn.softmax(jnp.concatenate([y, jnp.zeros_like(y[..., :1])], -1), -1)

    def log_abs_det_jacobian(self, x: Array, y: Array, intermediates: Any = None) -> Array:
        return -jnp.log(x).sum(-1)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:-1], shape[-1] - 1)

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:-1], shape[-1] + 1)

    def tree_flatten(self) -> Any:
        return (), ((), {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _LogRatios)

    def __hash__(self) -> int:
        return hash(_LogRatios)


def _free_positive(prior: Any) -> Any:
    return dist.TransformedDistribution(prior, SoftplusTransform().inv)


def gamma_exponential_softplus(x: Any = None, rows: int = 1) -> None:
    """M1 with rate = softplus(free_rate)."""
    free = numpyro.sample("free_rate", _free_positive(dist.Gamma(8.0, 2.0)))
    with numpyro.plate("records", rows if x is None else x.shape[0]):
        numpyro.sample("x", dist.Exponential(jax.nn.softplus(free)), obs=x)


def beta_bernoulli_logit(x: Any = None, rows: int = 1) -> None:
    """M2; NumPyro's coordinate of a probability is its logit already."""
    probability = numpyro.sample("probability", dist.Beta(10.0, 10.0))
    with numpyro.plate("records", rows if x is None else x.shape[0]):
        numpyro.sample("x", dist.Bernoulli(probs=probability), obs=x)


def dirichlet_categorical_ratios(x: Any = None, rows: int = 1) -> None:
    """M3 with probabilities = softmax(ratios, 0)."""
    prior = dist.TransformedDistribution(dist.Dirichlet(jnp.full(3, 5.0)), _LogRatios())
    ratios = numpyro.sample("ratios", prior)
    logits = jnp.concatenate([ratios, jnp.zeros(1)])
    with numpyro.plate("records", rows if x is None else x.shape[0]):
        numpyro.sample("x", dist.Categorical(logits=logits), obs=x)


@dataclass(frozen=True)
class SoftplusRegression:
    """NA-DPVI eq. 28, variance = softplus(free_variance); ``X`` carries its own column of ones."""

    def __call__(self, X: Any, y: Any = None) -> None:
        free = numpyro.sample("free_variance", _free_positive(dist.InverseGamma(20.0, 0.5)))
        variance = jax.nn.softplus(free)
        spread = 2.0 * variance**0.5
        weights = numpyro.sample("weights", dist.Normal(0, spread).expand([X.shape[1]]).to_event(1))
        with numpyro.plate("records", X.shape[0]):
            numpyro.sample("y", dist.Normal(X @ weights, variance**0.5), obs=y)

    @property
    def target_type(self) -> type[Target]:
        """Ten draws a record, for ten thousand steps: closed forms pay."""
        return _SoftplusRegressionTarget


class _SoftplusRegressionTarget(Target):
    """As in `GlmTarget`, a record's gradient by the weights is its row times a residual."""

    def record_moments(
        self, frame: Frame, points: Array, noise: Array, batch: Rows
    ) -> tuple[Array, Array]:
        """See `Target.record_moments`; the authors fit in the model's own coordinates."""
        if frame.factor is not None or frame.scale is not None:
            return super().record_moments(frame, points, noise, batch)
        theta, design = frame.to_model(points), batch["X"]
        variance, bent = jax.nn.softplus(theta[:, 0]), jax.nn.sigmoid(theta[:, 0])
        residual = design @ theta[:, 1:].T - batch["y"][:, None]
        slope = residual / variance
        by_free = 0.5 * bent * (1 / variance - slope**2)
        mean = both(by_free.mean(1, keepdims=True), slope.mean(1, keepdims=True) * design)
        draws = len(points)
        free = by_free @ noise[:, :1] / draws
        return mean, both(free, (slope @ noise[:, 1:] / draws) * design)


@dataclass(frozen=True)
class GammaNoiseRegression(Glm):
    """DPVIm's linear regression (eqs. J.1 to J.3): weights N(0, I), sd of the noise
    Gamma(0.1, 0.1). A record's gradient is that of `Glm`, in closed form."""

    family: str = "linear"

    def __call__(self, X: Any, y: Any = None) -> None:
        weights = numpyro.sample("weights", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
        noise = numpyro.sample("noise", dist.Gamma(0.1, 0.1))
        with numpyro.plate("records", X.shape[0]):
            numpyro.sample("y", self.likelihood(X @ weights, noise), obs=y)
