"""The simulated models of the NA-DPVI paper: in its coordinates and in ours, with its settings.

The authors' unconstrained coordinates (NA-DPVI App. H.5) are inverse softplus and log ratios, where
NumPyro would take logarithms and break sticks. A latent that is already unconstrained keeps the
model's meaning and fixes the coordinates.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import constraints
from numpyro.distributions.transforms import ParameterFreeTransform, SoftplusTransform

from noisewise.data import Column, PublicSample, Schema
from noisewise.dpvi import Settings
from noisewise.models import conjugate
from noisewise.models.frame import Frame
from noisewise.models.glm import both
from noisewise.models.target import Rows, Target

ROWS, DELTA, STEPS = 5000, 1e-5, 10_000
AUTHORS_NOISE = {0.1: 360.0, 0.3: 117.5, 1.0: 37.8}
"""Noise multipliers of the authors' accountant, up to a sixth above the tight ones."""


def softplus_inverse(value: np.ndarray) -> np.ndarray:
    """u with softplus(u) = value, without overflow."""
    return value + np.log(-np.expm1(-value))


def log_ratios(probabilities: np.ndarray) -> np.ndarray:
    """U_3: logarithms of probabilities over the last one."""
    logs = np.log(np.maximum(probabilities, 1e-12))
    return logs[..., :-1] - logs[..., -1:]


class _LogRatios(ParameterFreeTransform):
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


def _free_positive(prior: Any) -> Any:
    return dist.TransformedDistribution(prior, SoftplusTransform().inv)


def gamma_exponential_softplus(x: Any = None, rows: int = 1) -> None:
    """M1 with rate = softplus(free_rate)."""
    free = numpyro.sample("free_rate", _free_positive(dist.Gamma(8.0, 2.0)))
    with numpyro.plate("records", rows if x is None else x.shape[0]):
        numpyro.sample("x", dist.Exponential(jax.nn.softplus(free)), obs=x)


def dirichlet_categorical_ratios(x: Any = None, rows: int = 1) -> None:
    """M3 with probabilities = softmax(ratios, 0)."""
    prior = dist.TransformedDistribution(dist.Dirichlet(jnp.full(3, 5.0)), _LogRatios())
    ratios = numpyro.sample("ratios", prior)
    logits = jnp.concatenate([ratios, jnp.zeros(1)])
    with numpyro.plate("records", rows if x is None else x.shape[0]):
        numpyro.sample("x", dist.Categorical(logits=logits), obs=x)


@dataclass(frozen=True)
class SoftplusRegression:
    """NA-DPVI eq. 28 with variance = softplus(free_variance); ``X`` has a column of ones."""

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
        self, frame: Frame, points: Array, base_normals: Array, batch: Rows
    ) -> tuple[Array, Array]:
        """See `Target.record_moments`; the authors fit in the model's own coordinates."""
        if frame.factor is not None or frame.scale is not None:
            return super().record_moments(frame, points, base_normals, batch)
        theta, design = frame.to_model(points), batch["X"]
        variance, jacobian = jax.nn.softplus(theta[:, 0]), jax.nn.sigmoid(theta[:, 0])
        residual = design @ theta[:, 1:].T - batch["y"][:, None]
        slope = residual / variance
        by_free = 0.5 * jacobian * (1 / variance - slope**2)
        mean = both(by_free.mean(1, keepdims=True), slope.mean(1, keepdims=True) * design)
        draws = len(points)
        free = by_free @ base_normals[:, :1] / draws
        return mean, both(free, (slope @ base_normals[:, 1:] / draws) * design)


_PAPERS: dict[str, Any] = {"steps": STEPS, "clip_prior": True, "full_curvature": False}


def authors_settings(**settings: Any) -> Settings:
    """The preconditioned rule with the paper's step size, priors and burn-in."""
    return Settings(rule="preconditioned", guide_draws=10, paper_priors=True, **_PAPERS, **settings)


def dpvim_settings(**settings: Any) -> Settings:
    """DPVIm: aligned gradients of one draw."""
    return Settings(rule="aligned", guide_draws=1, **_PAPERS, **settings)


@dataclass(frozen=True, eq=False)
class Experiment:
    """One model, as the authors fitted it and as noisewise would."""

    name: str
    model: Callable[..., Any]
    """In the authors' coordinates, which every figure of a study is in."""
    schema: Schema
    ours: Callable[..., Any]
    """The same model as a user would write it."""
    to_authors: Callable[[dict[str, np.ndarray]], np.ndarray]
    """From our model's latents to the authors' coordinates."""
    settings: dict[str, Any]
    """The authors' own, from their code where the paper leaves them out."""
    target: str | None = None
    sample: PublicSample | None = None
    labels: tuple[str, ...] = ()
    """Of the authors' coordinates."""

    def authors_settings(self) -> Settings:
        """See the function of that name."""
        return authors_settings(**self.settings)

    def dpvim_settings(self) -> Settings:
        """DPVIm: aligned gradients of one draw, with the same clip norm, start and step size.

        The tables' authors do not say what they took. DPVIm's own Adam at 1e-3 hardly leaves the
        start in so many steps, for its steps are as small as the noise is large.
        """
        kept = ("clip_norm", "initial_free_scale", "start", "step_factor")
        return dpvim_settings(**{name: self.settings[name] for name in kept})


def _alone(column: Column) -> Schema:
    return Schema((column,), rows=ROWS)


def _settings(
    clip_norm: float, precondition: float, free_scale: float, start: Any, step_factor: Any = 1.0
) -> dict[str, Any]:
    found = {"clip_norm": clip_norm, "precondition": precondition, "step_factor": step_factor}
    return {**found, "initial_free_scale": free_scale, "start": np.array(start)}


def _standard_normals() -> tuple[Schema, PublicSample]:
    columns = [Column(name=f"x{i}", kind="real", bounds=(-6, 6), mean=0, sd=1) for i in range(10)]
    schema = Schema((*columns, Column(name="outcome", kind="real", bounds=(-20, 20))), rows=ROWS)
    draws = np.random.default_rng(0).standard_normal((20_000, 10)).clip(-6, 6)
    return schema, PublicSample({f"x{i}": draws[:, i] for i in range(10)}, schema)


def _logit(probability: np.ndarray) -> np.ndarray:
    safe = np.clip(probability, 1e-12, 1 - 1e-12)
    return np.log(safe) - np.log1p(-safe)


_REGRESSION, _NORMALS = _standard_normals()
_WEIGHTS = 11

EXPERIMENTS = {
    "gamma-exponential": Experiment(
        name="Gamma-Exponential",
        model=gamma_exponential_softplus,
        schema=_alone(Column(name="x", kind="real", bounds=(0, 20))),
        ours=conjugate.gamma_exponential,
        to_authors=lambda latents: softplus_inverse(latents["rate"])[..., None],
        settings=_settings(2.0, precondition=100.0, free_scale=-4.0, start=[0.0]),
        labels=("rate",),
    ),
    "beta-bernoulli": Experiment(
        name="Beta-Bernoulli",
        model=conjugate.beta_bernoulli,  # NumPyro's coordinate of a probability is its logit
        schema=_alone(Column(name="x", kind="binary")),
        ours=conjugate.beta_bernoulli,
        to_authors=lambda latents: _logit(latents["probability"])[..., None],
        settings=_settings(2.0, precondition=120.0, free_scale=-4.0, start=[0.0]),
        labels=("probability",),
    ),
    "dirichlet-categorical": Experiment(
        name="Dirichlet-Categorical",
        model=dirichlet_categorical_ratios,
        schema=_alone(Column(name="x", kind="category", categories=("a", "b", "c"))),
        ours=conjugate.dirichlet_categorical,
        to_authors=lambda latents: log_ratios(latents["probabilities"]),
        settings=_settings(2**0.5, precondition=100.0, free_scale=-6.0, start=[0.0, 0.0]),
        labels=("ratio[0]", "ratio[1]"),
    ),
    "regression": Experiment(
        name="10-D regression",
        model=SoftplusRegression(),
        schema=_REGRESSION,
        ours=conjugate.normal_regression,
        to_authors=lambda latents: np.concatenate(
            [softplus_inverse(latents["variance"])[..., None], latents["weights"]], -1
        ),
        settings=_settings(
            260.0,
            precondition=1500.0,
            free_scale=-6.0,
            start=[-4.0, *[1.0] * _WEIGHTS],
            # The authors step the variance's mean, which comes first here, 28 times smaller.
            step_factor=np.array([4 / 28, *[4.0] * _WEIGHTS, *[4.0] * (1 + _WEIGHTS)]),
        ),
        target="outcome",
        sample=_NORMALS,
        labels=("variance", *(f"w[{i}]" for i in range(_WEIGHTS))),
    ),
}
"""M1, M2 and M3 of NA-DPVI sec. 4.2 and the regression of sec. 4.3."""
