"""Do error bars hold on real covariates? Outcomes are simulated from the model, covariates are not.

    python -m benchmarks.real_covariates --tables adult-six rand --fits 96 --json out.jsonl

Truths come from the prior, outcomes from the truth on a random part of a real table. Fits are
planned and read with covariates simulated from the schema ("schema"), from a shape bought with a
share of the budget ("bought", what `nw.fit` does), or taken from the whole real table as if it were
a public sample ("public"). A group of fits shares one part of the table and one purchase. Bounds
and categories are declared and nothing else. Seeded: nothing here is a private release.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist

from benchmarks.real_tables import TABLES, Covariates, Missing, read
from noisewise.coverage import given_covariates_simulator
from noisewise.data import Column, Rows
from noisewise.mechanism import Budget
from noisewise.models import BoundModel, bind_model
from noisewise.trials import SimulatedFits, Simulator

DRAWS, DELTA = 400, 1e-6
OUTCOMES = {
    "logistic": Column(name="outcome", kind="binary"),
    "poisson": Column(name="outcome", kind="count", bounds=(0, 50)),
    "linear": Column(name="outcome", kind="real", bounds=(-10.0, 10.0)),
    "student": Column(name="outcome", kind="real", bounds=(-10.0, 10.0)),
}


def student(X: Any, y: Any = None) -> None:
    """A model of one's own: a regression with heavy tails."""
    w = numpyro.sample("w", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
    s = numpyro.sample("s", dist.LogNormal(-0.5, 0.3))
    with numpyro.plate("people", X.shape[0]):
        numpyro.sample("y", dist.StudentT(4.0, X @ w, s), obs=y)


@dataclass(frozen=True)
class Case:
    """What is tried."""

    table: str
    model: str
    epsilon: float
    covariates: str
    rows: int = 20_000
    share: float = 0.1


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--tables", nargs="+", default=["adult-six"], choices=TABLES)
    parser.add_argument("--models", nargs="+", default=["logistic"], choices=OUTCOMES)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    kinds = ("schema", "bought", "public")
    parser.add_argument("--covariates", nargs="+", default=["bought"], choices=kinds)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--fits", type=int, default=32)
    parser.add_argument("--group", type=int, default=8, help="fits that share one purchase")
    parser.add_argument("--json", type=Path, help="append results to this file")
    given = parser.parse_args()
    every = itertools.product(given.tables, given.models, given.epsilons, given.covariates)
    for table, model, epsilon, kind in every:
        case = Case(table, model, epsilon, kind, given.rows, given.share)
        try:
            covariates = read(table, given.data)
        except Missing as missing:
            print(f"SKIPPED {table}: {missing}", flush=True)
            continue
        started = time.time()
        found = run(case, covariates, given.fits, given.group)
        found["seconds"] = round(time.time() - started)
        print(text(found), flush=True)
        if given.json is not None:
            with given.json.open("a") as lines:
                lines.write(json.dumps(found) + "\n")


def run(case: Case, covariates: Covariates, fits: int, group: int) -> dict[str, Any]:
    """So many fits, in groups, and their scores."""
    schema = covariates.schema(OUTCOMES[case.model])
    model = student if case.model == "student" else case.model
    bound = bind_model(model, schema, "outcome")
    rows = min(case.rows, len(covariates))
    parts = []
    for first in range(0, fits, group):
        rng = np.random.default_rng([11, first])
        chosen = rng.permutation(len(covariates))[:rows]
        arrays = {name: column[chosen] for name, column in covariates.arrays.items()}
        arrays["outcome"] = schema["outcome"].simulate(rng, rows)
        ready = _simulator(case, bound, covariates, arrays, first)
        numbers = range(first, min(first + group, fits))
        parts.append(ready.run(list(numbers), draws=DRAWS, seed=5))
    whole = SimulatedFits(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    return _scores(case, bound, whole)


def _simulator(
    case: Case, bound: BoundModel, covariates: Covariates, arrays: Rows, seed: int
) -> Simulator:
    """Fits as `nw.fit` would make them of this part of the table, all with its covariates."""
    if case.covariates == "public":
        bound = bound.with_covariates(covariates.arrays)
    return given_covariates_simulator(
        bound,
        arrays,
        Budget(epsilon=case.epsilon, delta=DELTA),
        seed=seed,
        share=case.share if case.covariates == "bought" else 0.0,
    )


def _scores(case: Case, bound: BoundModel, fits: SimulatedFits) -> dict[str, Any]:
    truth, draws = fits.truth, np.asarray(fits.draws, float)
    mean, sd = draws.mean(1), draws.std(1)
    low, high = np.quantile(draws, (0.025, 0.975), axis=1)
    with np.errstate(all="ignore"):
        z = (mean - truth) / sd
    inside = np.mean((low <= truth) & (truth <= high), axis=0)
    names = list(bound.view.feature_names or [])
    names += [f"other {k}" for k in range(truth.shape[1] - len(names))]
    columns = zip(
        names,
        z.mean(0),
        z.std(0, ddof=1),
        inside,
        np.sqrt(np.mean((mean - truth) ** 2, axis=0)),
        np.sqrt(np.mean(sd**2, axis=0)),
        strict=True,
    )
    by_name = {name: [float(value) for value in column] for name, *column in columns}
    status = dict(Counter(fits.status.tolist()))
    return vars(case) | {"fits": len(truth), "coordinates": by_name, "status": status}


def text(found: dict[str, Any]) -> str:
    """A line for the whole, and the coordinates that are furthest off."""
    table = np.array(list(found["coordinates"].values()))
    z_mean, z_sd, inside, error, sd = table.T
    off = np.argsort(-np.abs(np.log(np.maximum(z_sd, 1e-3))) - np.abs(z_mean))
    names = list(found["coordinates"])
    keys = ("table", "model", "rows", "epsilon", "covariates", "share", "fits")
    whole, reported = np.sqrt(np.mean(error**2)), np.sqrt(np.mean(sd**2))
    lines = [
        " ".join(f"{key}={found[key]}" for key in keys),
        f"  95% intervals hold {inside.mean():.3f} (worst {inside.min():.2f}); "
        f"z sd {z_sd.min():.2f} to {z_sd.max():.2f}, z mean {z_mean.min():.2f} to "
        f"{z_mean.max():.2f}; error {whole:.3f}, reported {reported:.3f}; {found['status']}; "
        f"{found['seconds']} s",
    ]
    lines += [
        f"    {names[k]}: z mean {z_mean[k]:.2f}, z sd {z_sd[k]:.2f}, holds {inside[k]:.2f}, error "
        f"{error[k]:.3f}, sd {sd[k]:.3f}"
        for k in off[:6]
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
