"""Do error bars hold where cells are missing? Covariates by their indicator, and outcomes.

    python -m benchmarks.missing_cells --fits 60

Logistic regressions on two independent numbers and a group, coefficients drawn anew for every
table. In "covariate" a fifth of one number's cells is missing at random; in "outcome" a third of
the outcomes is, more often where a covariate is high; "both" has both. The coefficient of the
indicator is not judged: no true value belongs to it. The fits are `noisewise.fit` without a plan,
and the share of gaps is left undeclared, so that plans take it to be 0.05. Seeded: nothing here is
a private release.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import noisewise as nw
from benchmarks.survey import DELTA, LEVELS, summary

CASES = ("covariate", "outcome", "both")
JUDGED = ["intercept", "age", "income", "region=middle", "region=south"]


def table(seed: int, rows: int, case: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """True coefficients, and columns with gaps."""
    rng = np.random.default_rng([seed, 43])
    truth = rng.normal(0.0, (0.7, 0.7, 0.7, 0.5, 0.5))
    age, income = np.clip(rng.normal(size=(2, rows)), -4, 4)
    region = rng.choice(3, rows, p=(0.5, 0.3, 0.2))
    shift = truth[0] + truth[1] * age + truth[2] * income
    shift = shift + np.array([0.0, truth[3], truth[4]])[region]
    ill = (rng.random(rows) < 1 / (1 + np.exp(-shift))).astype(float)
    if case != "covariate":
        ill[rng.random(rows) < np.where(income > 0, 0.45, 0.2)] = np.nan
    if case != "outcome":
        age[rng.random(rows) < 0.2] = np.nan
    return truth, {"age": age, "income": income, "region": LEVELS[region], "ill": ill}


def columns(case: str) -> dict[str, Any]:
    """The schema's declarations."""
    number = {"type": "real", "bounds": [-4, 4], "mean": 0, "sd": 1}
    allowed = {"missing": "allowed"}
    return {
        "age": number | (allowed if case != "outcome" else {}),
        "income": number,
        "region": {"type": "category", "categories": LEVELS.tolist()},
        "ill": {"type": "binary"} | (allowed if case != "covariate" else {}),
    }


def fitted(seed: int, rows: int, epsilon: float, case: str, steps: int) -> dict[str, Any]:
    """One fit: z scores of the judged coefficients and whether their 95% intervals hold."""
    truth, cells = table(seed, rows, case)
    schema = nw.Schema.from_dict({"rows": rows, "columns": columns(case)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = nw.fit(
            "logistic",
            nw.Table(cells, schema),
            budget=nw.Budget(epsilon=epsilon, delta=DELTA),
            target="ill",
            steps=steps,
            draws=2000,
            insecure_seed=seed,
        )
    places = [result.coordinates["coefficients"].index(name) for name in JUDGED]
    draws = result.draws["coefficients"][:, places]
    low, high = np.quantile(draws, (0.025, 0.975), axis=0)
    return {
        "seed": seed,
        "case": case,
        "epsilon": epsilon,
        "rows": rows,
        "held": ((low <= truth) & (truth <= high)).tolist(),
        "z": ((draws.mean(0) - truth) / draws.std(0)).tolist(),
        "status": result.status.value,
    }


def main() -> None:
    """Fit many tables of every kind and print what intervals held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=60)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--json", type=Path, help="a file to which every fit is appended")
    asked = parser.parse_args()
    for case in asked.cases:
        fits = []
        for seed in range(asked.fits):
            begun = time.time()
            fits.append(fitted(seed, asked.rows, asked.epsilon, case, asked.steps))
            if asked.json is not None:
                with asked.json.open("a") as file:
                    said = fits[-1] | {"seconds": round(time.time() - begun, 1)}
                    file.write(json.dumps(said) + "\n")
        print(case, summary(fits), flush=True)


if __name__ == "__main__":
    main()
