"""A small linear regression, its exact posterior, and ways to run it, shared by the tests here."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from noisewise.dpsep import Bounds, LinearSite, Phase, SepSettings, assemble

N, WIDTH, NOISE = 200, 3, 0.7
NO_CLIP = Bounds(math.inf, math.inf, math.inf)


def table(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, WIDTH)).astype(np.float32)
    y = X @ np.array([0.5, -1.0, 0.3]) + NOISE * rng.standard_normal(N)
    return {"X": X, "y": y.astype(np.float32)}


def exact(rows: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and precision of the posterior under N(0, I) weights."""
    X, y = rows["X"].astype(float), rows["y"].astype(float)
    precision = np.eye(WIDTH) + X.T @ X / NOISE**2
    return np.linalg.solve(precision, X.T @ y / NOISE**2), precision


def site() -> LinearSite:
    return LinearSite(WIDTH, 1.0, NOISE)


def matrix(packed) -> np.ndarray:
    return np.asarray(site().family.matrices(jnp.asarray(packed)), float)[..., 0, :, :]


def quiet(steps: int, natural: bool, **more):
    """A run without noise or clipping."""
    settings = SepSettings(
        bounds=NO_CLIP,
        natural_bounds=NO_CLIP,
        natural_steps=steps if natural else 0,
        sampling_rate=1.0,
        steps=steps,
        mean_rate=0.5,
        precision_rate=0.5,
        decay_from=1.0,
        averaged=1 / steps,
        floor=0.0,
        **more,
    )
    return lambda a_site, rows, initial: assemble(
        Phase(a_site, settings), None, len(rows["y"]), initial
    )
