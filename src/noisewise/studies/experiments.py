"""The simulated models of the NA-DPVI paper: its settings, ours, and coordinates for both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from noisewise.data import Column, PublicSample, Schema
from noisewise.dpvi import Settings
from noisewise.models.conjugate import (
    beta_bernoulli,
    dirichlet_categorical,
    gamma_exponential,
    normal_regression,
)
from noisewise.studies.models import (
    SoftplusRegression,
    beta_bernoulli_logit,
    dirichlet_categorical_ratios,
    gamma_exponential_softplus,
    log_ratios,
    softplus_inverse,
)

__all__ = ["AUTHORS_NOISE", "DELTA", "EXPERIMENTS", "ROWS", "STEPS", "Experiment"]

ROWS, DELTA, STEPS = 5000, 1e-5, 10_000
AUTHORS_NOISE = {0.1: 360.0, 0.3: 117.5, 1.0: 37.8}
"""Noise multipliers of the authors' accountant, up to a sixth above the tight ones."""


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
    """What settings.md lists for it."""
    target: str | None = None
    sample: PublicSample | None = None
    labels: tuple[str, ...] = field(default=())

    def authors_settings(self) -> Settings:
        """The preconditioned rule with the paper's step size, priors and burn-in."""
        return Settings(
            rule="preconditioned",
            steps=STEPS,
            guide_draws=10,
            clip_prior=True,
            full_curvature=False,
            paper_priors=True,
            **self.settings,
        )

    def dpvim_settings(self) -> Settings:
        """DPVIm: aligned gradients of one draw, with the same clip norm, start and step size.

        The tables' authors do not say what they took. DPVIm's own Adam at 1e-3 hardly leaves the
        start in so many steps, for its steps are as small as the noise is large.
        """
        kept = ("clip_norm", "initial_free_scale", "start", "step_factor")
        return Settings(
            rule="aligned",
            steps=STEPS,
            guide_draws=1,
            clip_prior=True,
            full_curvature=False,
            **{name: self.settings[name] for name in kept},
        )


def _alone(column: Column) -> Schema:
    return Schema((column,), rows=ROWS)


def _standard_normals() -> tuple[Schema, PublicSample]:
    columns = [Column(name=f"x{i}", kind="real", bounds=(-6, 6), mean=0, sd=1) for i in range(10)]
    schema = Schema((*columns, Column(name="outcome", kind="real", bounds=(-20, 20))), rows=ROWS)
    draws = np.random.default_rng(0).standard_normal((20_000, 10)).clip(-6, 6)
    return schema, PublicSample({f"x{i}": draws[:, i] for i in range(10)}, schema)


_REGRESSION, _NORMALS = _standard_normals()
_WEIGHTS = 11

EXPERIMENTS = {
    "gamma-exponential": Experiment(
        name="Gamma-Exponential",
        model=gamma_exponential_softplus,
        schema=_alone(Column(name="x", kind="real", bounds=(0, 20))),
        ours=gamma_exponential,
        to_authors=lambda latents: softplus_inverse(latents["rate"])[..., None],
        settings={
            "clip_norm": 2.0,
            "precondition": 100.0,
            "initial_free_scale": -4.0,
            "step_factor": 1.0,
            "start": np.zeros(1),
        },
        labels=("rate",),
    ),
    "beta-bernoulli": Experiment(
        name="Beta-Bernoulli",
        model=beta_bernoulli_logit,
        schema=_alone(Column(name="x", kind="binary")),
        ours=beta_bernoulli,
        to_authors=lambda latents: _logit(latents["probability"])[..., None],
        settings={
            "clip_norm": 2.0,
            "precondition": 120.0,
            "initial_free_scale": -4.0,
            "step_factor": 1.0,
            "start": np.zeros(1),
        },
        labels=("probability",),
    ),
    "dirichlet-categorical": Experiment(
        name="Dirichlet-Categorical",
        model=dirichlet_categorical_ratios,
        schema=_alone(Column(name="x", kind="category", categories=("a", "b", "c"))),
        ours=dirichlet_categorical,
        to_authors=lambda latents: log_ratios(latents["probabilities"]),
        settings={
            "clip_norm": 2**0.5,
            "precondition": 100.0,
            "initial_free_scale": -6.0,
            "step_factor": 1.0,
            "start": np.zeros(2),
        },
        labels=("ratio[0]", "ratio[1]"),
    ),
    "regression": Experiment(
        name="10-D regression",
        model=SoftplusRegression(),
        schema=_REGRESSION,
        ours=normal_regression,
        to_authors=lambda latents: np.concatenate(
            [softplus_inverse(latents["variance"])[..., None], latents["weights"]], -1
        ),
        settings={
            "clip_norm": 260.0,
            "precondition": 1500.0,
            "initial_free_scale": -6.0,
            # The authors step the variance's mean, which comes first here, 28 times smaller.
            "step_factor": np.array([4 / 28, *[4.0] * _WEIGHTS, *[4.0] * (1 + _WEIGHTS)]),
            "start": np.array([-4.0, *[1.0] * _WEIGHTS]),
        },
        target="outcome",
        sample=_NORMALS,
        labels=("variance", *(f"w[{i}]" for i in range(_WEIGHTS))),
    ),
}
"""M1, M2 and M3 of sec. 4.2 and the regression of sec. 4.3."""


def _logit(probability: np.ndarray) -> np.ndarray:
    safe = np.clip(probability, 1e-12, 1 - 1e-12)
    return np.log(safe) - np.log1p(-safe)
