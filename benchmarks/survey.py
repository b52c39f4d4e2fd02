"""Do error bars of weighted fits hold for the population that a survey was drawn from?

    python -m benchmarks.survey --fits 80 --json survey.jsonl

Superpopulations: a logistic regression of an outcome on a number and a group of three levels, its
coefficients drawn anew for every survey. People are included with a probability that rises with the
outcome itself and with the number, so that an unweighted fit is wrong; weights are one over it. The
fits are `noisewise.fit` as anybody calls it, without a plan, and the schema declares weights no
better than a user would. Seeded: nothing here is a private release.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import noisewise as nw

DELTA = 1e-6
LEVELS = np.array(["north", "middle", "south"])
COLUMNS: dict[str, Any] = {
    "age": {"type": "real", "bounds": [-4, 4], "mean": 0, "sd": 1},
    "region": {"type": "category", "categories": LEVELS.tolist()},
    "ill": {"type": "binary"},
    "weight": {"type": "weight", "bounds": [1, 12], "mean": 4, "sd": 3},
}
PEOPLE = {name: one for name, one in COLUMNS.items() if name != "weight"}


@dataclass(frozen=True)
class Survey:
    """A sample, and the coefficients of the population behind it."""

    truth: np.ndarray
    columns: dict[str, np.ndarray]


def survey(seed: int, rows: int) -> Survey:
    """People of a population, included with unequal probabilities until there are enough."""
    rng = np.random.default_rng([seed, 41])
    truth = rng.normal(0.0, (0.7, 0.7, 0.5, 0.5))
    count = 10 * rows
    age = np.clip(rng.normal(size=count), -4, 4)
    region = rng.choice(3, count, p=(0.5, 0.3, 0.2))
    shift = truth[0] + truth[1] * age + np.array([0.0, truth[2], truth[3]])[region]
    ill = rng.random(count) < 1 / (1 + np.exp(-shift))
    chance = (0.1 + 0.35 * ill + 0.15 * (age > 0)) * (1 - 0.1 * (region == 2))
    chosen = np.flatnonzero(rng.random(count) < chance)[:rows]
    return Survey(
        truth,
        {
            "age": age[chosen],
            "region": LEVELS[region[chosen]],
            "ill": ill[chosen],
            "weight": 1 / chance[chosen],
        },
    )


def fitted(seed: int, rows: int, epsilon: float, weighted: bool, steps: int) -> dict[str, Any]:
    """One fit: every coefficient's z score and whether its 95% interval holds the truth."""
    made, declared = survey(seed, rows), COLUMNS if weighted else PEOPLE
    schema = nw.Schema.from_dict({"rows": rows, "columns": declared})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = nw.fit(
            "logistic",
            nw.Table(made.columns, schema, ignore_undeclared=True),
            budget=nw.Budget(epsilon=epsilon, delta=DELTA),
            target="ill",
            steps=steps,
            draws=2000,
            insecure_seed=seed,
        )
    draws = result.draws["coefficients"]
    low, high = np.quantile(draws, (0.025, 0.975), axis=0)
    return {
        "seed": seed,
        "weighted": weighted,
        "epsilon": epsilon,
        "rows": rows,
        "held": ((low <= made.truth) & (made.truth <= high)).tolist(),
        "z": ((draws.mean(0) - made.truth) / draws.std(0)).tolist(),
        "sd": draws.std(0).tolist(),
        "status": result.status.value,
    }


def summary(fits: list[dict[str, Any]]) -> str:
    """A line of a table: how often intervals hold, z scores, and what chance makes of so many."""
    held, z = (np.array([one[name] for one in fits], float) for name in ("held", "z"))
    floor = np.sqrt(0.95 * 0.05 / held.size)
    fine = np.mean([one["status"] == "ok" for one in fits])
    return (
        f"| {len(fits)} | {held.mean():.3f} | {floor:.3f} | {z.mean():+.2f} | {z.std():.2f} | "
        f"{fine:.0%} |"
    )


def main() -> None:
    """Fit many surveys and print what intervals held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=80)
    parser.add_argument("--unweighted", type=int, default=0, help="as many without weights")
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--first", type=int, default=0, help="seed of the first survey")
    parser.add_argument("--json", type=Path, help="a file to which every fit is appended")
    asked = parser.parse_args()
    for weighted, count in ((True, asked.fits), (False, asked.unweighted)):
        fits = []
        for seed in range(asked.first, asked.first + count):
            begun = time.time()
            fits.append(fitted(seed, asked.rows, asked.epsilon, weighted, asked.steps))
            fits[-1]["seconds"] = round(time.time() - begun, 1)
            if asked.json is not None:
                with asked.json.open("a") as file:
                    file.write(json.dumps(fits[-1]) + "\n")
        if fits:
            print("weighted" if weighted else "unweighted", summary(fits), flush=True)


if __name__ == "__main__":
    main()
