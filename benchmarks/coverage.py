"""The coverage table of docs/coverage.md: planned automatically, measured on fresh simulations.

python -m benchmarks.coverage [--simulations 2000] [--only regression] [--plans FOLDER] [--write]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import noisewise as nw
from benchmarks.results import write_between
from noisewise.models.conjugate import (
    beta_bernoulli,
    dirichlet_categorical,
    gamma_exponential,
    normal_regression,
)
from noisewise.models.glm import logistic

ROWS, DELTA, SEED = 5000, 1e-5, 2026
PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"


class Cell(NamedTuple):
    """One line of the table."""

    name: str
    model: Callable[..., Any]
    schema: nw.Schema
    target: str | None
    epsilon: float
    sample: nw.PublicSample | None = None


def cells() -> list[Cell]:
    """Four models at three budgets, and a logistic regression with correlated covariates."""
    standard = [
        nw.Column(name=f"x{i}", kind="real", bounds=(-6, 6), mean=0.0, sd=1.0) for i in range(10)
    ]
    outcome = nw.Column(name="outcome", kind="real", bounds=(-20, 20))
    regression = nw.Schema((*standard, outcome), rows=ROWS)
    independent = nw.PublicSample(_equicorrelated(10, 0.0), regression)
    categories = nw.Column(name="x", kind="category", categories=("a", "b", "c"))
    models = [
        ("Gamma-Exponential", gamma_exponential, _alone(_real("x", 0, 20))),
        ("Beta-Bernoulli", beta_bernoulli, _alone(nw.Column(name="x", kind="binary"))),
        ("Dirichlet-Categorical", dirichlet_categorical, _alone(categories)),
    ]
    budgets = (0.1, 0.3, 1.0)
    found = [Cell(name, model, schema, None, e) for name, model, schema in models for e in budgets]
    found += [
        Cell("10-D regression", normal_regression, regression, "outcome", epsilon, independent)
        for epsilon in budgets
    ]
    ill = nw.Schema((*standard[:8], nw.Column(name="ill", kind="binary")), rows=ROWS)
    correlated = nw.PublicSample(_equicorrelated(8, 0.5), ill)
    return [*found, Cell("logistic, correlated", logistic(), ill, "ill", 1.0, correlated)]


def _alone(column: nw.Column) -> nw.Schema:
    return nw.Schema((column,), rows=ROWS)


def _real(name: str, low: float, high: float) -> nw.Column:
    return nw.Column(name=name, kind="real", bounds=(low, high))


def _equicorrelated(width: int, correlation: float, rows: int = 20_000) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shared = np.sqrt(correlation) * rng.standard_normal((rows, 1))
    values = shared + np.sqrt(1 - correlation) * rng.standard_normal((rows, width))
    return {f"x{i}": np.clip(values[:, i], -6, 6) for i in range(width)}


def planned(cell: Cell, folder: Path | None) -> tuple[nw.Plan, float]:
    """The plan, from its file if there is one: a plan is the same wherever it is made."""
    path = None if folder is None else folder / f"{cell.name}-{cell.epsilon:g}.toml".lower()
    if path is not None and path.exists():
        return nw.Plan.load(path), 0.0
    start = time.perf_counter()
    made = nw.plan(
        cell.model,
        schema=cell.schema,
        rows=ROWS,
        budget=nw.Budget(epsilon=cell.epsilon, delta=DELTA),
        target=cell.target,
        public_sample=cell.sample,
    )
    if path is not None:
        path.parent.mkdir(exist_ok=True)
        made.save(path)
    return made, time.perf_counter() - start


def measured(cell: Cell, plan: nw.Plan, simulations: int) -> str:
    """The cell's line of the table."""
    start = time.perf_counter()
    found = nw.coverage(
        cell.model,
        schema=cell.schema,
        rows=ROWS,
        budget=nw.Budget(epsilon=cell.epsilon, delta=DELTA),
        target=cell.target,
        plan=plan,
        public_sample=cell.sample,
        simulations=simulations,
        seed=SEED,
    )
    took = time.perf_counter() - start
    before = _without_recalibration(found, plan)
    ratio = found.scores.error / found.single_release_sd
    parts = [
        f"{cell.name} | {cell.epsilon:g}",
        _beside(f"{found.rmse:.3f}", f"{before.rmse:.3f}"),
        _beside(_range(found.scores.z_mean), _range(before.scores.z_mean)),
        _beside(_range(found.scores.z_sd), _range(before.scores.z_sd)),
        f"{_range(ratio)}",
        f"{_range(found.noise_unaware_z_sd)}",
        f"{found.scores.failed}",
        _misses(found, ratio),
        f"{took:.0f} s",
    ]
    return f"| {' | '.join(parts)} |"


def _without_recalibration(found: nw.Coverage, plan: nw.Plan) -> nw.Coverage:
    """The same fits as they were before the last step, which is affine and so can be undone."""
    settings = plan.settings
    if settings.shift is None or settings.stretch is None or not settings.recalibrates:
        return found
    mean = found.draws.mean(1, keepdims=True)
    sd = found.draws.std(1, keepdims=True) / settings.stretch
    draws = mean + settings.shift * sd + (found.draws - mean) / settings.stretch
    return replace(found, draws=draws)


def _misses(found: nw.Coverage, ratio: np.ndarray) -> str:
    """Which of the goals are missed."""
    missed = {
        "coverage": found.rmse > 0.02,
        "z mean": np.abs(found.scores.z_mean).max() > 0.1,
        "z sd": found.scores.z_sd.min() < 0.9 or found.scores.z_sd.max() > 1.1,
        "error": ratio.max() > 1.3,
    }
    return ", ".join(name for name, is_so in missed.items() if is_so) or "none"


def _beside(after: str, before: str) -> str:
    """With the figure before recalibration, where that is another."""
    return after if after == before else f"{after} (before {before})"


def _range(values: np.ndarray) -> str:
    low, high = f"{values.min():.2f}", f"{values.max():.2f}"
    return low if low == high else f"{low} to {high}"


def main() -> None:
    """Print the table, and write it into the docs if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulations", type=int, default=2000)
    parser.add_argument("--only", default="", help="part of a model's name")
    parser.add_argument("--plans", type=Path, help="folder of plan files: made, or used if there")
    parser.add_argument("--plan-only", action="store_true")
    parser.add_argument("--write", action="store_true", help="into docs/coverage.md")
    parser.add_argument("--output", type=Path, help="append the lines to this file")
    options = parser.parse_args()
    lines = []
    for cell in cells():
        if options.only.lower() not in f"{cell.name} {cell.epsilon:g}".lower():
            continue
        plan, took = planned(cell, options.plans)
        print(f"planned {cell.name} at {cell.epsilon:g} in {took:.0f} s", flush=True)
        if options.plan_only:
            continue
        lines.append(measured(cell, plan, options.simulations))
        print(lines[-1], flush=True)
        if options.output is not None:
            options.output.write_text("\n".join(lines) + "\n")
    if options.write:
        write_between(PAGE, "coverage", table(lines, options.simulations))


def table(lines: list[str], simulations: int) -> str:
    """The lines under their heading, with the Monte Carlo floors."""
    k = simulations
    return "\n".join(
        [
            f"K = {k} fresh simulated tables a line, N = {ROWS}, delta = {DELTA:g}, seed {SEED}; "
            f"floors: coverage RMSE {np.sqrt(1 / 6 / k):.3f}, z mean {1 / np.sqrt(k):.3f}, z sd "
            f"{1 / np.sqrt(2 * k):.3f}; device: {jax.devices()[0].device_kind}.",
            "",
            "| model | epsilon | coverage RMSE | z mean | z sd | error / single-release sd | plain "
            "DPVI's z sd | failed | goals missed | time |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
            *lines,
        ]
    )


if __name__ == "__main__":
    main()
