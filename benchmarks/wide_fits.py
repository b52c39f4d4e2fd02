"""Errors, error bars, time and memory of fits of many coordinates.

python -m benchmarks.wide_fits                                   # 500 features, 50,000 rows
python -m benchmarks.wide_fits --features 1000 --correlation 0   # a thousand independent ones

Logistic regressions on simulated tables. Truths come from the prior, and columns are as the public
sample of other people has them: every two correlated by ``--correlation``. Few fits are
made, for each has hundreds of coefficients: z, the error over the reported sd, is pooled over these
(they are not independent: the sd of z is known less well than so many say). The bound is what one
optimal release of the same budget would leave (mathematics.md eq. (30)), at the truth and with the
table's own covariates. Time beyond the steps is that of everything before the first step and behind
the last.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import NamedTuple

import numpy as np

import noisewise as nw
from benchmarks.fit_memory import _peak_bytes
from benchmarks.many_row_errors import logistic_bound
from noisewise.models.glm import logistic


class Problem(NamedTuple):
    """A table, what it was drawn from, and what is public."""

    table: nw.Table
    sample: nw.PublicSample
    truth: np.ndarray
    design: np.ndarray


class Measured(NamedTuple):
    """Of one fit."""

    z: np.ndarray
    error: np.ndarray
    bound: np.ndarray
    status: str
    beyond_steps: float
    steps: float
    processor: float


def main() -> None:
    """Print a line for every fit, and one for all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", type=int, default=500)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--fits", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--correlation", type=float, default=0.5)
    parser.add_argument("--sample", type=int, default=20_000, help="people in the public sample")
    parser.add_argument("--prior-scale", type=float, default=0.1)
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    budget = nw.Budget(epsilon=given.epsilon, delta=1e-6)
    every = []
    for seed in range(given.fits):
        found = problem(given, seed)
        every.append(measured(found, budget, given.prior_scale, given.steps, seed))
        print(f"fit {seed + 1}: {_words(every[-1:])}", flush=True)
    print(
        f"logistic, {given.features} features correlated by {given.correlation:g}, {given.rows:,} "
        f"rows, a public sample of {given.sample:,}, epsilon {given.epsilon:g}, {given.steps} "
        f"steps, {given.fits} fits: {_words(every)}"
    )


def _words(every: list[Measured]) -> str:
    z = np.concatenate([one.z for one in every])
    error = np.concatenate([one.error for one in every])
    bound = np.concatenate([one.bound for one in every])
    statuses = sorted({one.status for one in every})
    return (
        f"z sd {z.std():.3f}, z mean {z.mean():+.3f}, 95% intervals hold "
        f"{np.mean(np.abs(z) < 1.96):.1%}, error over bound "
        f"{np.sqrt(np.mean(error**2) / np.mean(bound**2)):.2f}, {', '.join(statuses)}; "
        f"{np.mean([one.beyond_steps for one in every]):.0f} s beyond "
        f"{np.mean([one.steps for one in every]):.0f} s of steps, "
        f"{np.mean([one.processor for one in every]):.0f} s of processor in all, peak "
        f"{_peak_bytes() / 2**30:.1f} GiB"
    )


def problem(given: argparse.Namespace, seed: int) -> Problem:
    """A simulated table and a public sample of other people: standard normal columns, cut at 6.

    Args:
        given: The options.
        seed: Of everything.
    """
    rng = np.random.default_rng([31, seed])
    features, rows, correlation = given.features, given.rows, given.correlation
    names = [f"x{k}" for k in range(features)]
    columns = [
        nw.Column(name=name, kind="real", bounds=(-6, 6), mean=0.0, sd=1.0) for name in names
    ]
    schema = nw.Schema((*columns, nw.Column(name="ill", kind="binary")), rows=rows)

    def draw(count: int) -> np.ndarray:
        shared = correlation**0.5 * rng.standard_normal((count, 1))
        own = (1 - correlation) ** 0.5 * rng.standard_normal((count, features), np.float32)
        return np.clip(shared.astype(np.float32) + own, -6, 6)

    x, truth = draw(rows), given.prior_scale * rng.standard_normal(features + 1)
    predictor = truth[0] + x @ truth[1:]
    ill = (rng.random(rows) < 1 / (1 + np.exp(-predictor))).astype(np.int8)
    arrays = {name: x[:, k].astype(float) for k, name in enumerate(names)}
    others = draw(given.sample)
    return Problem(
        table=nw.Table.from_arrays({**arrays, "ill": ill}, schema),
        sample=nw.PublicSample({name: others[:, k] for k, name in enumerate(names)}, schema),
        truth=truth,
        design=np.column_stack([np.ones(rows, np.float32), x]),
    )


def measured(
    found: Problem, budget: nw.Budget, prior_scale: float, steps: int, seed: int
) -> Measured:
    """One fit.

    Args:
        found: What is fitted.
        budget: What the fit may spend.
        prior_scale: Of the model.
        steps: Of the fit.
        seed: Of its noise.
    """
    times: list[float] = []
    done: list[int] = []

    def progress(number: int, _: int) -> None:
        times.append(time.perf_counter())
        done.append(number)

    began, used = time.perf_counter(), time.process_time()
    result = nw.fit(
        logistic(prior_scale),
        found.table,
        budget=budget,
        target="ill",
        steps=steps,
        public_sample=found.sample,
        insecure_seed=seed,
        progress=progress,
    )
    took, used = time.perf_counter() - began, time.process_time() - used
    # The first chunk is compiled, too: what steps take is seen from the second one on.
    stepping = (times[-1] - times[0]) * steps / (done[-1] - done[0])
    draws = np.asarray(result.draws["coefficients"], float)
    error = draws.mean(0) - found.truth
    return Measured(
        z=error / draws.std(0),
        error=error,
        bound=logistic_bound(found.design, found.truth, len(found.design), budget, prior_scale),
        status=result.status.value,
        beyond_steps=took - stepping,
        steps=stepping,
        processor=used,
    )


if __name__ == "__main__":
    main()
