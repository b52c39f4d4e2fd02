"""Do 95% intervals of a mixture's shares and coefficients hold, with many visits in the table?

python -m benchmarks.mixture_shares [--tables 30] [--rows 5000] [--epsilon 1] [--steps STEPS]
                                    [--before] [--mean MEAN]

Simulated tables of ward, sex, smoking and visits: visits depend on the others, wards and smoking on
each other. Every table gets one private fit by the ready-made mixture with its own settings, and is
asked for six shares and six coefficients. ``--before`` adds the same fits with the settings that
were used first: no scaling of the gradient's parts, and a clip norm that a quarter of simulated
records exceed, so that records with many visits lose their shares with their residuals.
``--mean`` declares the visits' mean (and, as a schema wants both, an sd of the same size).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.data import Column, Rows, Schema
from noisewise.dpvi import BlockSums, Settings, Trace, assemble
from noisewise.engine import Run, block_length, run_simulated
from noisewise.mechanism import Budget
from noisewise.models import Target, bind_model
from noisewise.planning import mixture_guess
from noisewise.posterior import FitContext, infer

DELTA, DRAWS = 1e-6, 1000
WARDS = ("north", "south", "east", "west")
WARD_SHARES = np.array([0.4, 0.3, 0.2, 0.1])
SEX_SHARE, SMOKERS = 0.52, np.array([0.2, 0.2, 0.45, 0.45])
COEFFICIENTS = np.array([0.6, 0.3, -0.3, 0.6, -0.2, 0.7])
SHARES = np.array([*WARD_SHARES, SEX_SHARE, WARD_SHARES @ SMOKERS])
OLD_CLIP_NORM = 1.885
"""What a quarter of simulated records exceed, for this schema, when no part is scaled."""
HEAD = "| settings | quantity | held | largest bias | its error | its sd | z sds |"


class Fit(NamedTuple):
    """Posterior draws of what is asked for (draws x quantities), and the verdict."""

    shares: np.ndarray
    coefficients: np.ndarray
    status: str


def main() -> None:
    """Two lines a choice of settings: shares and coefficients."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=30)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--mean", type=float)
    parser.add_argument("--before", action="store_true")
    asked = parser.parse_args()
    intervals = 6 * asked.tables
    print(
        f"K = {asked.tables} tables of {asked.rows} rows, epsilon {asked.epsilon:g}: {intervals} "
        f"intervals of each kind. If all hold with chance 0.95 and tables are independent, "
        f"{0.95 * intervals:.0f} are expected to, give or take {_floor(asked.tables):.1f} (one sd; "
        f"six intervals of one table counted as one).\n\n{HEAD}\n|" + " --- |" * 7
    )
    schema = _schema(asked.rows, asked.mean)
    bound = bind_model("mixture", schema, "visits")
    budget = Budget(epsilon=asked.epsilon, delta=DELTA)
    now = mixture_guess(bound, asked.rows, budget, asked.steps)
    choices = {"parts scaled": now}
    if asked.before:
        old = replace(now, frame_scale=None, curvature=None, clip_norm=OLD_CLIP_NORM)
        choices = {"before": old, **choices}
    for name, settings in choices.items():
        fits = list(_fits(bound.target, settings, budget, asked.rows, asked.tables))
        _line(f"{name}, clip norm {settings.clip_norm:.2f}", "shares", fits, SHARES)
        _line("", "coefficients", fits, COEFFICIENTS)
        print(f"{sum(fit.status == 'ok' for fit in fits)} of {len(fits)} fits say ok", flush=True)


def _floor(tables: int) -> float:
    return 6 * float(np.sqrt(tables * 0.95 * 0.05))


def _schema(rows: int, mean: float | None) -> Schema:
    columns = (
        Column(name="ward", kind="category", categories=WARDS),
        Column(name="sex", kind="binary"),
        Column(name="smoker", kind="binary"),
        Column(name="visits", kind="count", bounds=(0, 50), mean=mean, sd=mean),
    )
    return Schema(columns, rows=rows)


def simulate_table(seed: int, rows: int) -> Rows:
    """One table; the truth is at the top of this file."""
    rng = np.random.default_rng(seed)
    ward = rng.choice(len(WARDS), rows, p=WARD_SHARES)
    sex = rng.random(rows) < SEX_SHARE
    smoker = rng.random(rows) < SMOKERS[ward]
    design = np.column_stack([np.ones(rows), ward[:, None] == [1, 2, 3], sex, smoker])
    visits = rng.poisson(np.exp(design @ COEFFICIENTS)).clip(0, 50)
    columns = {"ward": ward, "sex": sex, "smoker": smoker, "visits": visits}
    return {name: column.astype(np.int32) for name, column in columns.items()}


def _fits(
    target: Target, settings: Settings, budget: Budget, rows: int, tables: int
) -> Iterator[Fit]:
    run = assemble(settings, target, settings.mechanism().calibrate(budget), rows)
    frame = run.numbers.constants.frame
    for number in range(tables):
        table = target.prepare(simulate_table(number, rows), frame)
        blocks, last = jax.device_get(_run(run, table, jax.random.PRNGKey(1000 + number)))
        trace, rng = Trace(BlockSums(*blocks), last), np.random.default_rng(number)
        found = infer("averaged", trace, FitContext.of(run, settings), DRAWS, rng)
        yield _asked_for(target, found)


def _asked_for(target: Target, found: Any) -> Fit:
    latents = target.constrain(jnp.asarray(found.draws, jnp.float32))
    weights = np.asarray(latents["weights"])
    columns = [np.asarray(latents[f"{name}_shares"]) for name in ("ward", "sex", "smoker")]
    ward, sex, smoker = (np.einsum("dk,dkl->dl", weights, column) for column in columns)
    shares = np.hstack([ward, sex[:, 1:], smoker[:, 1:]])
    return Fit(shares, np.asarray(latents["coefficients"]), found.status.value)


@jax.jit
def _run(run: Run, table: Rows, key: Array) -> Any:
    found = run_simulated(run, table, key, block_length(run))
    return found.records, found.state.parameters


def _line(name: str, quantity: str, fits: list[Fit], truth: np.ndarray) -> None:
    draws = np.stack([getattr(fit, quantity) for fit in fits])
    low, high = np.quantile(draws, [0.025, 0.975], axis=1)
    held = (low <= truth) & (truth <= high)
    off, sd = draws.mean(1) - truth, draws.std(1)
    worst = int(np.argmax(np.abs(off.mean(0)) / sd.mean(0)))
    spread = (off / sd).std(0)
    cells = [name, quantity, f"{held.sum()} of {held.size}", f"{off.mean(0)[worst]:.4f}"]
    cells += [f"{np.sqrt((off**2).mean(0))[worst]:.4f}", f"{sd.mean(0)[worst]:.4f}"]
    print("| " + " | ".join([*cells, f"{spread.min():.2f} to {spread.max():.2f}"]) + " |")


if __name__ == "__main__":
    main()
