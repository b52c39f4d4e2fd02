"""The problems that are timed: data of the papers' shapes, and a DPVI run assembled on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from noisewise.data import PrivateRows
from noisewise.dpvi import Settings, assemble
from noisewise.engine import Run
from noisewise.models import Target, build_target
from noisewise.models.conjugate import gamma_exponential, normal_regression
from noisewise.models.glm import logistic

NOISE_MULTIPLIER = 37.33
"""Epsilon 1 at delta 1e-5 with q = 0.1 and 10^4 steps."""
GUIDE_DRAWS = 10
STEPS = 10_000


@dataclass(frozen=True, eq=False)
class Problem:
    """A model, its rows, and the run that the authors' settings make of them."""

    target: Target
    settings: Settings
    run: Run
    rows: PrivateRows
    """As the run wants them: prepared for the frame, on the device."""
    data: dict[str, np.ndarray]
    """As the model wants them."""

    @property
    def row_count(self) -> int:
        """Number of records."""
        return len(next(iter(self.data.values())))


def adult_shaped(sampling_rate: float = 0.1, steps: int = STEPS) -> Problem:
    """Logistic regression on 30,162 rows of 57 columns: UCI Adult's shape, simulated values."""
    rng = np.random.default_rng(0)
    X = _one_hot_like(rng, 30_162, 57)
    chance = 1 / (1 + np.exp(-X @ rng.normal(size=57) * 0.5))
    y = (rng.random(len(X)) < chance).astype(np.float32)
    settings = _paper_settings(
        clip_norm=11.0,
        precondition=550.0,
        initial_free_scale=-6.0,
        step_factor=57**0.5,
        sampling_rate=sampling_rate,
        steps=steps,
        start=np.zeros(57),
    )
    return _problem(logistic(), {"X": X, "y": y}, settings)


def gamma(steps: int = STEPS) -> Problem:
    """Gamma-Exponential on 5000 rows: two variational parameters."""
    x = np.random.default_rng(0).exponential(0.25, 5000).astype(np.float32)
    settings = _paper_settings(
        clip_norm=2.0,
        precondition=100.0,
        initial_free_scale=-4.0,
        step_factor=1.0,
        steps=steps,
        start=np.zeros(1),
    )
    return _problem(gamma_exponential, {"x": x}, settings)


def ten_dimensional_regression(steps: int = STEPS) -> Problem:
    """The paper's regression: ten covariates, an intercept and a variance, 5000 rows; every step is
    kept."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(5000, 10)), np.ones((5000, 1))], 1).astype(np.float32)
    variance = 0.5 / 19
    weights = rng.normal(size=11) * 2 * variance**0.5
    y = (X @ weights + rng.normal(size=5000) * variance**0.5).astype(np.float32)
    settings = _paper_settings(
        clip_norm=260.0,
        precondition=1500.0,
        initial_free_scale=-6.0,
        # Variance first, then the weights; the authors step the variance's mean 28 times smaller.
        step_factor=np.array([4 / 28, *[4.0] * 11, *[4.0] * 12]),
        steps=steps,
        start=np.array([-4.0, *[1.0] * 11]),
    )
    return _problem(normal_regression, {"X": X, "y": y}, settings, keep_steps=True)


def with_rule(rule: str) -> Problem:
    """The Adult-shaped regression by a rule of DPVIm: one draw, Adam, its clip norms."""
    rng = np.random.default_rng(0)
    X = _one_hot_like(rng, 30_162, 57)
    data = {"X": X, "y": rng.integers(0, 2, len(X)).astype(np.float32)}
    settings = Settings(
        rule=rule,
        clip_norm=0.1 if "natural" in rule else 3.0,
        precondition="slope" if rule == "preconditioned" else 1.0,
        learning_rate=1e-3,
        clip_prior=True,
        full_curvature=False,
        steps=STEPS,
    )
    return _problem(logistic(), data, settings)


def wide_regression(guide: str) -> Problem:
    """Logistic regression on 200 columns by aligned gradients, with either guide."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 200)).astype(np.float32)
    data = {"X": X, "y": rng.integers(0, 2, len(X)).astype(np.float32)}
    settings = Settings(
        rule="aligned",
        guide=guide,
        clip_norm=3.0,
        learning_rate=1e-3,
        clip_prior=True,
        full_curvature=False,
        steps=STEPS,
    )
    return _problem(logistic(), data, settings)


def _one_hot_like(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """A column of ones, four z-scored columns, and seven one-hot groups: Adult's encoding."""
    continuous = 4
    groups = np.array_split(np.arange(columns - continuous - 1), 7)
    one_hot = np.zeros((rows, columns - continuous - 1), np.float32)
    for group in groups:
        one_hot[np.arange(rows), rng.choice(group, rows)] = 1.0
    parts = [np.ones((rows, 1)), rng.normal(size=(rows, continuous)), one_hot]
    return np.concatenate(parts, axis=1).astype(np.float32)


def _paper_settings(**options: Any) -> Settings:
    return Settings(
        rule="preconditioned",
        guide_draws=GUIDE_DRAWS,
        clip_prior=True,
        full_curvature=False,
        paper_priors=True,
        **options,
    )


def _problem(
    model: Any, data: dict[str, np.ndarray], settings: Settings, keep_steps: bool = False
) -> Problem:
    target = build_target(model, {name: column[:4] for name, column in data.items()})
    count = len(next(iter(data.values())))
    mechanism = replace(settings.mechanism(), noise_multiplier=NOISE_MULTIPLIER)
    run = assemble(settings, target, mechanism, count, keep_steps=keep_steps)
    rows = PrivateRows(target.prepare(data, run.numbers.constants.frame))
    return Problem(target, settings, run, rows, data)
