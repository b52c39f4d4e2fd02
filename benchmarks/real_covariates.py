"""Do error bars hold on real covariates? Outcomes are simulated from the model, covariates are not.

    python -m benchmarks.real_covariates --data DIR --table adult-six --covariates bought --fits 32

Truths come from the prior, outcomes from the truth on a random part of a real table. Fits are
planned and read with covariates simulated from the schema ("schema"), from a shape bought with a
share of the budget ("bought", or "marginals" without pairs), or taken from the whole real table as
if it were a public sample ("public"). Eight fits at a time share one part of the table and one
purchase. Seeded: nothing here is a private release.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.real_tables import TABLES, Covariates, Missing, read
from noisewise.covariates import CovariateShape, buy_shape, covariate_columns
from noisewise.data import Column, Table
from noisewise.dpvi import BlockSums, Trace
from noisewise.mechanism import Budget, DeviceSource, Release
from noisewise.models import RowView, Target, bind, build_target, named_model
from noisewise.planning import first_guess
from noisewise.planning.trials import Simulator, _keys, _run_group, reference_rows, simulator
from noisewise.posterior import infer_many

GROUP, DRAWS, POOL = 8, 400, 32_768
OUTCOMES = {
    "logistic": Column(name="outcome", kind="binary"),
    "poisson": Column(name="outcome", kind="count", bounds=(0, 50)),
    "linear": Column(name="outcome", kind="real", bounds=(-10.0, 10.0)),
}


@dataclass(frozen=True)
class Case:
    """What is tried."""

    table: str
    model: str
    rows: int
    epsilon: float
    covariates: str
    share: float
    doubts: int
    distrust: float
    read: str
    steps: int


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--table", default="adult-six", choices=TABLES)
    parser.add_argument("--model", default="logistic", choices=OUTCOMES)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    kinds = ("schema", "marginals", "bought", "public")
    parser.add_argument("--covariates", default="bought", choices=kinds)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--doubts", type=int, default=0, help="perturbed shapes to read with, too")
    parser.add_argument("--distrust", type=float, default=0.1, help="of simulated clipping bias")
    ways = ("own", "public", "unlike")
    parser.add_argument("--read", default="own", choices=ways, help="what the trace is read with")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--fits", type=int, default=32)
    parser.add_argument("--json", type=Path, help="append the result to this file")
    given = vars(parser.parse_args())
    data, fits, out = given.pop("data"), given.pop("fits"), given.pop("json")
    case = Case(**given)
    try:
        covariates = read(case.table, data)
    except Missing as missing:
        print(f"SKIPPED {case.table}: {missing}")
        return
    started = time.time()
    found = run(case, covariates, fits) | {"seconds": round(time.time() - started)}
    print(text(found))
    if out is not None:
        with out.open("a") as lines:
            lines.write(json.dumps(found) + "\n")


def run(case: Case, covariates: Covariates, fits: int) -> dict[str, Any]:
    """So many fits, in groups, and their scores."""
    schema = covariates.schema(OUTCOMES[case.model])
    model = named_model(case.model, schema, "outcome", None)
    view = bind(model, schema, "outcome")
    target = build_target(model, view.simulate(np.random.default_rng(0), 4))
    budget = Budget(epsilon=case.epsilon, delta=1e-6)
    rows = min(case.rows, len(covariates))
    parts = []
    for first in range(0, fits, GROUP):
        rng = np.random.default_rng([11, first])
        chosen = rng.permutation(len(covariates))[:rows]
        arrays = {name: column[chosen] for name, column in covariates.arrays.items()}
        arrays["outcome"] = schema["outcome"].simulate(rng, rows)
        ready = _Ready.make(case, target, view, covariates, arrays, rows, budget, first)
        parts.append(ready.fits(case, view.rows(arrays), first))
    truth, mean, sd, low, high, status = (np.concatenate(part) for part in zip(*parts, strict=True))
    return _scores(case, view, truth[:fits], mean[:fits], sd[:fits], low[:fits], high[:fits]) | {
        "status": dict(Counter(status[:fits].tolist()))
    }


@dataclass(frozen=True, eq=False)
class _Ready:
    """A planned fit, and the views whose rows its trace is read with."""

    simulator: Simulator
    views: list[RowView]

    @classmethod
    def make(
        cls,
        case: Case,
        target: Target,
        view: RowView,
        covariates: Covariates,
        arrays: dict[str, np.ndarray],
        rows: int,
        budget: Budget,
        seed: int,
    ) -> _Ready:
        releases: tuple[Release, ...] = ()
        views = [view]
        if case.covariates == "public":
            views = [replace(view, sample=covariates.arrays)]
        elif case.covariates in ("marginals", "bought"):
            table = Table.from_arrays(arrays, view.schema, allow_constant=True)
            shape = buy_shape(
                table,
                covariate_columns(view, target.generated),
                rows,
                budget,
                share=case.share,
                pairs=case.covariates == "bought",
                insecure_seed=seed,
            )
            releases = shape.releases
            views = [_like(view, shape)]
            rng = np.random.default_rng([12, seed])
            views += [_like(view, shape.perturbed(rng)) for _ in range(case.doubts)]
        sys.modules["noisewise.planning.first_guess"]._DISTRUST = case.distrust  # type: ignore
        settings = first_guess(target, views[0], rows, budget, steps=case.steps)
        ready = simulator(target, views[0], settings, rows, budget, releases)
        if case.read == "public":
            views = [replace(view, sample=covariates.arrays)]
        return cls(ready, views)

    def fits(self, case: Case, rows: dict[str, np.ndarray], first: int) -> tuple[np.ndarray, ...]:
        """Truths, posterior means, sds and 95% intervals, and statuses of a group of fits."""
        ready = self.simulator.assembly
        source = DeviceSource(
            self.simulator.rows, self.simulator.settings.sampling_rate, ready.program.passes
        )
        numbers = list(range(first, first + GROUP))
        covariates = {name: np.stack([column] * GROUP) for name, column in rows.items()}
        truth, blocks, last = jax.device_get(
            _run_group(
                self.simulator.target,
                ready.program,
                source,
                ready.setting,
                covariates,
                jnp.asarray(ready.initial, jnp.float32),
                jnp.asarray(ready.block_schedule()),
                _keys(5, numbers),
            )
        )
        traces = [Trace(BlockSums(*(part[k] for part in blocks)), last[k]) for k in range(GROUP)]
        draws, status = [], None
        for view in self.views:
            reference = reference_rows(self.simulator.target, view, self.simulator.rows)
            if case.read == "unlike":
                reference = reference._replace(alike=False)
            outcomes = infer_many(
                "exact",
                traces,
                ready,
                self.simulator.settings,
                DRAWS,
                [np.random.default_rng([6, number]) for number in numbers],
                reference,
                side_by_side=GROUP,
            )
            draws.append(np.stack([outcome.draws for outcome in outcomes]))
            status = status or [outcome.status.name for outcome in outcomes]
        pooled = np.concatenate(draws, axis=1)
        low, high = np.quantile(pooled, (0.025, 0.975), axis=1)
        return np.asarray(truth), pooled.mean(1), pooled.std(1), low, high, np.array(status)


def _like(view: RowView, shape: CovariateShape) -> RowView:
    """A view whose simulated rows are the shape's: they take a public sample's place."""
    return replace(view, sample=shape.simulate(np.random.default_rng(3), POOL))


def _scores(
    case: Case,
    view: RowView,
    truth: np.ndarray,
    mean: np.ndarray,
    sd: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> dict[str, Any]:
    with np.errstate(all="ignore"):
        z = (mean - truth) / sd
    inside = np.mean((low <= truth) & (truth <= high), axis=0)
    names = list(view.feature_names or [])
    names += [f"other {k}" for k in range(truth.shape[1] - len(names))]
    by_name = {
        name: [float(value) for value in column]
        for name, *column in zip(
            names,
            z.mean(0),
            z.std(0, ddof=1),
            inside,
            np.sqrt(np.mean((mean - truth) ** 2, axis=0)),
            np.sqrt(np.mean(sd**2, axis=0)),
            strict=True,
        )
    }
    return vars(case) | {"fits": len(truth), "coordinates": by_name}


def text(found: dict[str, Any]) -> str:
    """A line for the whole, and the coordinates that are furthest off."""
    table = np.array(list(found["coordinates"].values()))
    z_mean, z_sd, inside, error, sd = table.T
    off = np.argsort(-np.abs(np.log(np.maximum(z_sd, 1e-3))) - np.abs(z_mean))
    names = list(found["coordinates"])
    keys = [field.name for field in fields(Case)]
    whole, reported = np.sqrt(np.mean(error**2)), np.sqrt(np.mean(sd**2))
    lines = [
        " ".join(f"{key}={found[key]}" for key in [*keys, "fits"]),
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
