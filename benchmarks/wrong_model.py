"""How often is a wrong model noticed, and a right one suspected?

    python -m benchmarks.wrong_model --tables rand adult-six --models poisson logistic --fits 20

Whole fits (`nw.fit`, seeded) on real covariates. Right: truths from the prior, outcomes from the
model. Wrong: rates times gamma variables of mean 1 and variance --scatter, or residuals of
Student's t with --degrees of freedom. A right model may be suspected in one fit of twenty. For
every fit the largest distance from the truth is shown, in reported sds: of fits in which nothing
was noticed, and of all. ``--real`` fits the visits of RAND beside their quasi-Poisson estimates,
with sandwich sds.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

import noisewise as nw
from benchmarks.real_tables import TABLES, Covariates, read
from noisewise.data import Column, Rows, Schema, Table
from noisewise.models import BoundModel, bind_model

DELTA = 1e-6
OUTCOMES = {
    "logistic": Column(name="outcome", kind="binary"),
    "poisson": Column(name="outcome", kind="count", bounds=(0, 2000)),
    "linear": Column(name="outcome", kind="real", bounds=(-60.0, 60.0), sd=2.0, mean=0.0),
}
WRONG = ("poisson", "linear")


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--tables", nargs="+", default=["rand"], choices=TABLES)
    parser.add_argument("--models", nargs="+", default=["poisson"], choices=OUTCOMES)
    parser.add_argument("--kinds", nargs="+", default=["right", "wrong"])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--scatter", type=float, default=1.0)
    parser.add_argument("--degrees", type=float, default=3.0)
    parser.add_argument("--fits", type=int, default=20)
    parser.add_argument("--real", action="store_true")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    if given.real:
        real(given)
        return
    for table in given.tables:
        covariates = read(table, given.data)
        for model in given.models:
            for kind in given.kinds:
                if kind == "right" or model in WRONG:
                    print(line(covariates, table, model, kind, given), flush=True)


def line(covariates: Covariates, table: str, model: str, kind: str, given: Any) -> str:
    """So many fits of one kind."""
    schema = covariates.schema(OUTCOMES[model])
    bound = bind_model(model, schema, "outcome")
    started, statuses, noticed, furthest = time.time(), [], [], []
    for seed in range(given.fits):
        rng = np.random.default_rng([17, seed])
        chosen = rng.permutation(len(covariates))[: given.rows]
        arrays = {name: column[chosen] for name, column in covariates.arrays.items()}
        truth, arrays["outcome"] = outcomes(bound, arrays, kind, given, seed)
        found = fit(model, arrays, schema, given, seed)
        statuses.append(found.status.value)
        noticed.append(any("scatter" in note for note in found.notes))
        draws = np.asarray(found.draws["coefficients"])
        z = np.abs(draws.mean(0) - truth[: draws.shape[1]]) / draws.std(0)
        furthest.append(float(z.max()))
    unnoticed = [z for z, seen in zip(furthest, noticed, strict=True) if not seen]
    return (
        f"{table} {model} {kind} epsilon={given.epsilon:g} rows={len(chosen)}: noticed "
        f"{sum(noticed)} of {given.fits}; furthest {np.round(np.sort(unnoticed), 1).tolist()} "
        "where not, "
        f"{np.round(np.sort(furthest), 1).tolist()} in all; "
        f"{ {s: statuses.count(s) for s in set(statuses)} }; {time.time() - started:.0f} s"
    )


def outcomes(
    bound: BoundModel, arrays: Rows, kind: str, given: Any, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """A truth, and what it makes of these people."""
    column, rng = OUTCOMES[bound.name], np.random.default_rng([19, seed])
    truth = np.asarray(bound.target.sample_prior(jax.random.PRNGKey(seed), 1)[0])
    rows = next(iter(arrays.values())).shape[0]
    encoded = bound.view.encode({**arrays, "outcome": np.ones(rows)})
    predictor = np.asarray(encoded["X"], float) @ truth[: encoded["X"].shape[1]]
    if column.kind == "binary":
        return truth, (rng.random(rows) < 1 / (1 + np.exp(-predictor))).astype(np.int8)
    if column.kind == "count":
        rate = np.exp(np.minimum(predictor, np.log(1000.0)))
        if kind == "wrong":
            rate = rate * rng.gamma(1 / given.scatter, given.scatter, rows)
        return truth, np.minimum(rng.poisson(rate), column.bounds[1]).astype(np.int64)
    residual = rng.standard_normal(rows)
    if kind == "wrong":
        residual = rng.standard_t(given.degrees, rows)
    sd = float(np.asarray(bound.target.constrain(truth)["noise"]))
    return truth, np.clip(predictor + sd * residual, *column.bounds)


def fit(model: str, arrays: Rows, schema: Schema, given: Any, seed: int) -> nw.Result:
    """As a user would, but seeded."""
    return nw.fit(
        model,
        Table.from_arrays(arrays, schema),
        budget=nw.Budget(epsilon=given.epsilon, delta=DELTA),
        target="outcome",
        steps=given.steps,
        insecure_seed=seed,
    )


def real(given: Any) -> None:
    """RAND's visits: private Poisson fits, and the quasi-Poisson estimates with sandwich sds."""
    import statsmodels.api as sm
    from statsmodels.datasets import randhie

    covariates = read("rand", given.data)
    outcome = randhie.load_pandas().data["mdvis"].to_numpy(np.int64)
    schema = covariates.schema(Column(name="outcome", kind="count", bounds=(0, 100)))
    arrays = {**covariates.arrays, "outcome": outcome}
    design = np.asarray(bind_model("poisson", schema, "outcome").view.encode(arrays)["X"], float)
    exact = sm.GLM(outcome, design, family=sm.families.Poisson()).fit(cov_type="HC0")
    for seed in range(given.fits):
        found = fit("poisson", arrays, schema, given, seed)
        draws = np.asarray(found.draws["coefficients"])
        z = (draws.mean(0) - exact.params) / np.hypot(draws.std(0), exact.bse)
        print(f"{found.status.value}: {np.round(z, 1).tolist()} sds off", flush=True)


if __name__ == "__main__":
    main()
