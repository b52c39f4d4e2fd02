"""Do error bars hold where people have several rows, and are protected whole?

    python -m benchmarks.units --fits 200 [--people 5000] [--epsilon 1] [--group 10]
    python -m benchmarks.units --model "mixed(logistic)" --steps 1000 --people 3000 --fits 60

People have 1 to 8 rows, most of them few, which nobody declared; sex is one person's in all of
them, age goes up by a year. Truths come from the prior, outcomes from the truth; what fits know of
covariates and of numbers of rows they buy, as `nw.fit` does. A group of fits shares one table and
one purchase. Seeded: nothing here is a private release.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np

from noisewise.coverage import Coverage, given_covariates_simulator
from noisewise.data import Column, Rows, Schema, Unit
from noisewise.mechanism import Budget
from noisewise.models import bind_model
from noisewise.trials import SimulatedFits

MOST = 8
DRAWS, DELTA = 400, 1e-6
SCHEMA = Schema(
    (
        Column(name="age", kind="real", bounds=(18, 108)),
        Column(name="sex", kind="category", categories=("f", "m")),
        Column(name="ward", kind="category", categories=("a", "b", "c")),
        Column(name="ill", kind="binary"),
    ),
    unit=Unit("person", MOST),
)


def people(rng: np.random.Generator, count: int) -> Rows:
    """A registry: one to eight rows each, half of the people one or two."""
    shares = 0.7 ** np.arange(MOST)
    sizes = 1 + rng.choice(MOST, size=count, p=shares / shares.sum())
    person = np.repeat(np.arange(count), sizes)
    visit = np.arange(len(person)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return {
        "person": person,
        "age": rng.uniform(18, 100, count)[person] + visit,
        "sex": rng.integers(2, size=count)[person].astype(np.int32),
        "ward": rng.choice(3, size=len(person), p=(0.7, 0.2, 0.1)).astype(np.int32),
        "ill": rng.integers(2, size=len(person)).astype(np.int8),
    }


def main() -> None:
    """Run and print a line a coefficient."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--people", type=int, default=5000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--group", type=int, default=10, help="fits that share one table")
    parser.add_argument("--model", default="logistic", help="or mixed(logistic)")
    parser.add_argument("--steps", type=int, help="of a fit, where not as many as usual")
    given = parser.parse_args()
    bound = bind_model(given.model, SCHEMA, "ill")
    budget, parts = Budget(epsilon=given.epsilon, delta=DELTA), []
    for first in range(0, given.fits, given.group):
        arrays = people(np.random.default_rng([11, first]), given.people)
        ready = given_covariates_simulator(bound, arrays, budget, seed=first, steps=given.steps)
        numbers = list(range(first, min(first + given.group, given.fits)))
        parts.append(ready.run(numbers, draws=DRAWS, seed=5))
        print(f"{numbers[-1] + 1} of {given.fits}", flush=True)
    fits = SimulatedFits(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    nothing = np.full(len(bound.labels), np.nan)
    found = Coverage.of(fits, tuple(bound.labels), nothing, {"seed": 5})
    floors = found.scores
    print(
        f"K = {len(fits.truth)}, {given.people} people, epsilon {given.epsilon:g}; floors: "
        f"coverage RMSE {found.floor:.3f}, z mean {floors.z_mean_floor:.3f}, "
        f"z sd {floors.z_sd_floor:.3f}; "
        f"joint coverage RMSE {found.rmse:.3f}; {dict(Counter(fits.status.tolist()))}"
    )
    low, high = np.quantile(fits.draws, (0.025, 0.975), axis=1)
    inside = np.mean((low <= fits.truth) & (fits.truth <= high), axis=0)
    for row, held in zip(found.table(), inside, strict=True):
        print(
            f"{row['parameter']}: coverage RMSE {row['coverage_rmse']:.3f}, 95% intervals hold "
            f"{held:.3f}, z mean {row['z_mean']:.2f}, z sd {row['z_sd']:.2f}, error "
            f"{row['error']:.3f}, reported {row['reported_sd']:.3f}"
        )


if __name__ == "__main__":
    main()
