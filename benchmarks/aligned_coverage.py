"""Are noise-aware error bars right on aligned traces, where only the means are released?

python -m benchmarks.aligned_coverage [--fits 2000] [--rows 2000] [--steps 4000]

The same simulated tables for every line: noisewise's own rule, the aligned rule read by the
noise-aware posterior (curvature as a matrix, or coordinate by coordinate with averaged scales),
by DPVIm's averaging, and plainly.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from noisewise.data import Column, Schema
from noisewise.dpvi import Settings
from noisewise.evaluation import rmse_floor
from noisewise.mechanism import Budget
from noisewise.models import bind_model
from noisewise.models.conjugate import beta_bernoulli
from noisewise.models.glm import logistic
from noisewise.planning import first_guess
from noisewise.studies.na_dpvi.coverage import Fits, measure_coverage
from noisewise.trials import simulator

DELTA = 1e-5
_UNIT = float(np.log(np.expm1(1.0)))
"""Free scale of softplus at which a scale is one: the posterior's own, in the whitened frame."""
HEAD = "| model, epsilon | rule | posterior | coverage RMSE | z mean | z sd | error | reported sd |"


def main() -> None:
    """One line a model, rule and posterior."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--draws", type=int, default=500)
    asked = parser.parse_args()
    print(f"K = {asked.fits}, N = {asked.rows}, floor {rmse_floor(asked.fits):.3f}\n\n{HEAD}")
    print("|" + " --- |" * 8)
    coin = Schema((Column(name="x", kind="binary"),), rows=asked.rows)
    features = [Column(name=f"x{i}", kind="real", bounds=(-3, 3), mean=0, sd=1) for i in range(3)]
    people = Schema((*features, Column(name="y", kind="binary")), rows=asked.rows)
    _model("Beta-Bernoulli", beta_bernoulli, coin, None, 0.3, asked)
    _model("logistic, 4 coefficients", logistic(), people, "y", 1.0, asked)


def _model(
    name: str, model: Callable[..., Any], schema: Schema, target: str | None, epsilon: float,
    asked: argparse.Namespace,
) -> None:  # fmt: skip
    bound = bind_model(model, schema, target)
    budget = Budget(epsilon=epsilon, delta=DELTA)
    ours = first_guess(bound, asked.rows, budget, steps=asked.steps)
    lines: tuple[tuple[str, Settings, tuple[str, ...]], ...] = (
        ("means_only", ours, ("analytic", "naive")),
        ("aligned, matrix", _aligned(ours, True), ("analytic", "averaged", "naive")),
        ("aligned, diagonal", _aligned(ours, False), ("exact",)),
    )
    for rule, settings, posteriors in lines:
        ready = simulator(bound, settings, asked.rows, budget)
        found = ready.run_all(posteriors, range(asked.fits), draws=asked.draws, seed=1)
        for posterior, fits in zip(posteriors, found, strict=True):
            measured = measure_coverage(Fits(fits.truth, fits.draws, fits.tail_mean))
            cells = [f"{name}, {epsilon:g}", rule, posterior, f"{measured.rmse:.3f}"]
            cells += [_range(v, 2) for v in (measured.z_mean, measured.z_sd)]
            cells += [_range(v, 4) for v in (measured.error, measured.reported)]
            print("| " + " | ".join(cells) + " |", flush=True)


def _aligned(ours: Settings, matrix: bool) -> Settings:
    """Our own quick plan with aligned gradients instead, the guide beginning at unit scales."""
    return replace(
        ours, rule="aligned", guide_draws=1, full_curvature=matrix, initial_free_scale=_UNIT
    )


def _range(values: np.ndarray, digits: int) -> str:
    low, high = f"{np.min(values):.{digits}f}", f"{np.max(values):.{digits}f}"
    return low if len(values) == 1 else f"{low} to {high}"


if __name__ == "__main__":
    main()
