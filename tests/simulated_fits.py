"""Many simulated private fits at once, to test error bars: tables from the prior, no real row."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from noisewise.data import Schema
from noisewise.dpvi import BlockSums, Trace, assemble, run_simulated
from noisewise.mechanism import Budget, DeviceSource, Mechanism
from noisewise.models import bind, build_target
from noisewise.planning import first_guess
from noisewise.posterior import infer


class Scores(NamedTuple):
    """Per fit and unconstrained coordinate: posterior mean minus truth, and posterior sd."""

    error: np.ndarray
    sd: np.ndarray

    @property
    def z(self) -> np.ndarray:
        return self.error / self.sd


def simulated_scores(
    model: Any, schema: Schema, budget: Budget, *, rows: int, steps: int, fits: int, seed: int
) -> Scores:
    """Draw a truth from the prior and a table from the model, fit privately, compare; ``fits``
    times, vmapped. Planned by the first guess, with no hand-set number."""
    view = bind(model, schema, None)
    target = build_target(model, view.simulate(np.random.default_rng(0), 4))
    settings = first_guess(target, view, rows, budget, steps=steps)
    mechanism = Mechanism(
        clip_norm=settings.clip_norm, sampling_rate=settings.sampling_rate, steps=steps
    ).calibrate(budget)
    ready = assemble(settings, target, mechanism, rows, rows)
    source = DeviceSource(rows, settings.sampling_rate, ready.program.passes)
    schedule = jnp.asarray(ready.schedule.reshape(100, -1))
    key_truth, key_fits = jax.random.split(jax.random.PRNGKey(seed))
    truth = target.sample_prior(key_truth, fits)
    made_up = {
        n: jnp.asarray(c) for n, c in view.simulate(np.random.default_rng(seed), rows).items()
    }

    @jax.jit
    @jax.vmap
    def run(key: jax.Array, theta: jax.Array) -> tuple:
        key_rows, key_run = jax.random.split(key)
        table = target.prepare(target.simulate(key_rows, theta, made_up), ready.frame)
        start = jnp.asarray(ready.initial, jnp.float32)
        return run_simulated(ready.program, ready.setting, source, table, start, schedule, key_run)

    blocks, last = jax.device_get(run(jax.random.split(key_fits, fits), truth))
    rng = np.random.default_rng(seed)
    error, sd = [], []
    for k in range(fits):
        trace = Trace(BlockSums(*(part[k] for part in blocks)), last[k])
        draws = infer("exact", trace, ready, settings, 1000, rng).draws
        theta = np.asarray(ready.frame.to_model(jnp.asarray(draws, jnp.float32)))
        error.append(theta.mean(0) - np.asarray(truth[k]))
        sd.append(theta.std(0))
    return Scores(np.array(error), np.array(sd))


def main() -> None:
    """Print the README's coverage table: python tests/simulated_fits.py [fits]."""
    import sys

    from noisewise.data import Column
    from noisewise.models.conjugate import (
        beta_bernoulli,
        dirichlet_categorical,
        gamma_exponential,
    )

    fits = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    models = {
        gamma_exponential: Column(name="x", kind="real", bounds=(0, 20)),
        beta_bernoulli: Column(name="x", kind="binary"),
        dirichlet_categorical: Column(name="x", kind="category", categories=("a", "b", "c")),
    }
    for model, column in models.items():
        for epsilon in (0.1, 1.0):
            scores = simulated_scores(
                model,
                Schema((column,)),
                Budget(epsilon=epsilon, delta=1e-5),
                rows=5000,
                steps=5000,
                fits=fits,
                seed=20,
            )
            figures = (
                scores.z.mean(0),
                scores.z.std(0),
                np.sqrt((scores.error**2).mean(0)),
                scores.sd.mean(0),
            )
            cells = (" ".join(f"{value:.3f}" for value in figure) for figure in figures)
            print(f"| {model.__name__} | {epsilon} | {fits} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
