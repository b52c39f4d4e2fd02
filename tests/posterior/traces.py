"""Traces for the posterior's tests: from the paper's models, and simulated."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import jax.numpy as jnp
import numpy as np

from noisewise.dpvi import Settings, Trace, assemble
from noisewise.engine import Run
from noisewise.mechanism import Mechanism
from noisewise.models import Target, build_target
from noisewise.models.conjugate import (
    beta_bernoulli,
    dirichlet_categorical,
    gamma_exponential,
    normal_regression,
)
from tracing import traced

ROWS, STEPS = 5000, 10_000

# The authors' settings (clip norm, beta of the scales, initial u); see docs on reproducing them.
PAPER = {
    "gamma_exponential": {"clip_norm": 2.0, "precondition": 100.0, "initial_free_scale": -4.0},
    "beta_bernoulli": {"clip_norm": 2.0, "precondition": 120.0, "initial_free_scale": -4.0},
    "dirichlet_categorical": {
        "clip_norm": 2**0.5,
        "precondition": 100.0,
        "initial_free_scale": -6.0,
    },
    "normal_regression": {
        "clip_norm": 260.0,
        "precondition": 1500.0,
        "initial_free_scale": -6.0,
        # Variance first, then the weights; the authors step the variance's mean 28 times smaller.
        "step_factor": np.array([4 / 28, *[4.0] * 11, *[4.0] * 12]),
        "start": np.array([-4.0, *[1.0] * 11]),
    },
}


def data(name: str, seed: int = 0) -> tuple:
    """A model of the paper and a data set from it."""
    rng = np.random.default_rng(seed)
    if name == "gamma_exponential":
        return gamma_exponential, {"x": rng.exponential(0.25, ROWS).astype(np.float32)}
    if name == "beta_bernoulli":
        return beta_bernoulli, {"x": rng.binomial(1, 0.4, ROWS).astype(np.float32)}
    if name == "dirichlet_categorical":
        return dirichlet_categorical, {"x": rng.choice(3, ROWS, p=[0.2, 0.3, 0.5]).astype(np.int32)}
    X = np.concatenate([rng.normal(size=(ROWS, 10)), np.ones((ROWS, 1))], 1).astype(np.float32)
    variance = 0.5 / 19
    w = rng.normal(size=11) * 2 * variance**0.5
    y = X @ w + rng.normal(size=ROWS) * variance**0.5
    return normal_regression, {"X": X, "y": y.astype(np.float32)}


@lru_cache(maxsize=8)
def paper_run(name: str, keep_steps: bool = False) -> tuple[Settings, Run, Trace]:
    """A DPVI run with the paper's rule and settings at epsilon 1 (noise multiplier 37.33)."""
    model, rows = data(name)
    target = build_target(model, {key: column[:4] for key, column in rows.items()})
    options = {"step_factor": 1.0, "start": np.zeros(target.dim), **PAPER[name]}
    settings = Settings(
        rule="preconditioned",
        steps=STEPS,
        guide_draws=10,
        clip_prior=True,
        full_curvature=False,
        paper_priors=True,
        **options,
    )
    return settings, *_run(settings, target, rows, 37.33, keep_steps)


@lru_cache(maxsize=8)
def matrix_run(name: str) -> tuple[Settings, Run, Trace]:
    """A means-only run of a model with one parameter, in a frame whitened by hand."""
    model, rows = data(name)
    target = build_target(model, {key: column[:4] for key, column in rows.items()})
    settings = Settings(
        clip_norm=0.03,
        steps=4000,
        contraction_rate=0.02,
        curvature=ROWS * 0.24 * np.eye(1),
        prior_precision=np.eye(1),
        location=np.zeros(1),
    )
    return settings, *_run(settings, target, rows, 20.0)


def _run(
    settings: Settings,
    target: Target,
    rows: dict,
    noise_multiplier: float,
    keep_steps: bool = False,
) -> tuple[Run, Trace]:
    mechanism = Mechanism(
        clip_norm=settings.clip_norm,
        sampling_rate=0.1,
        steps=settings.steps,
        noise_multiplier=noise_multiplier,
    )
    run = assemble(settings, target, mechanism, ROWS, keep_steps=keep_steps)
    prepared = target.prepare(rows, run.numbers.constants.frame)
    return run, traced(run, prepared, insecure_seed=0)


def linear_trace(
    curvature: np.ndarray,
    optimum: np.ndarray,
    noise: np.ndarray,
    rate: float,
    steps: int,
    seed: int,
    kappa: float = 0.1,
) -> tuple[np.ndarray, np.ndarray]:
    """A trace from the linear model itself: parameters and gradients (steps x parameters)."""
    rng = np.random.default_rng(seed)
    phi = np.array(optimum, float)
    parameters, gradients = [], []
    for _ in range(steps):
        g = kappa * curvature @ (phi - optimum) + noise * rng.standard_normal(len(phi))
        parameters.append(phi)
        gradients.append(g)
        phi = phi - rate / kappa * g
    return np.array(parameters), np.array(gradients)


def unclipped(
    target: Target, rows: int, noise: float, steps: int = 1000, kappa: float = 1e-3, **more: object
) -> tuple[Settings, Run]:
    """A design in the model's own coordinates that clips nothing and whose guide is a point. Its
    mean gradient of all rows is known up to ``noise``; sampling adds next to no variance."""
    dim = target.dim
    settings = Settings(
        rule="means_only",
        clip_norm=1e3,
        sampling_rate=kappa,
        steps=steps,
        contraction_rate=0.01,
        curvature=np.eye(dim),
        location=np.zeros(dim),
        **more,
    )
    mechanism = Mechanism(
        clip_norm=settings.clip_norm,
        sampling_rate=kappa,
        steps=steps,
        noise_multiplier=kappa * noise * np.sqrt(steps) / settings.clip_norm,
    )
    run = assemble(settings, target, mechanism, rows)
    fixed = run.numbers.constants._replace(fixed_scale=jnp.full(dim, 1e-6))
    return settings, replace(run, numbers=run.numbers._replace(constants=fixed))
