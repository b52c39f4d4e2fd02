"""Do error bars of hierarchical models hold? Group intercepts and their scale, and a horseshoe.

    python -m benchmarks.hierarchical --fits 100 --json out.jsonl

Fifteen group intercepts with a scale of several priors, written centred and standardised, and a
horseshoe of ten coefficients; 5000 rows, epsilon 1, delta 1e-6, settings of a quick plan. Truths
come from the prior, covariates from the schema, and a tenth of the budget is taken off as if their
shape had been bought. z is scored over all fits and over those whose status is ok.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist

from noisewise.covariates import as_declared, covariates_cost
from noisewise.data import Column, Schema
from noisewise.mechanism import Budget
from noisewise.models import BoundModel, bind_model
from noisewise.planning import guess_settings
from noisewise.trials import SimulatedFits, simulator

GROUPS, COEFFICIENTS, ROWS, DRAWS = 15, 10, 5000, 400
BUDGET = Budget(epsilon=1.0, delta=1e-6)
SCALES: dict[str, Callable[[], Any]] = {
    "HalfNormal": lambda: dist.HalfNormal(1.0),
    "HalfCauchy": lambda: dist.HalfCauchy(0.5),
    "Exponential": lambda: dist.Exponential(1.0),
    "Gamma": lambda: dist.Gamma(2.0, 2.0),
    "LogNormal": lambda: dist.LogNormal(-0.5, 0.5),
}
FORMS = ("centred", "standardised")
OUTCOMES = {
    "yes-or-no": Column(name="y", kind="binary"),
    "real": Column(name="y", kind="real", bounds=(-10.0, 10.0)),
}
Model = Callable[..., None]


def intercepts(scale: str, form: str, outcome: str) -> Model:
    """Fifteen group intercepts."""

    def model(ward: Any, y: Any = None) -> None:
        m = numpyro.sample("m", dist.Normal(0, 1))
        s = numpyro.sample("s", SCALES[scale]())
        if form == "centred":
            a = numpyro.sample("a", dist.Normal(m, s).expand([GROUPS]).to_event(1))
        else:
            a = m + s * numpyro.sample("a", dist.Normal(0, 1).expand([GROUPS]).to_event(1))
        _observe(a[ward], y, outcome)

    return model


def horseshoe(form: str, outcome: str) -> Model:
    """Ten coefficients, most of them near zero."""

    def model(X: Any, y: Any = None) -> None:
        t = numpyro.sample("t", dist.HalfCauchy(0.1))
        local = numpyro.sample("l", dist.HalfCauchy(1.0).expand([X.shape[1]]).to_event(1))
        if form == "centred":
            w = numpyro.sample("w", dist.Normal(0, t * local).to_event(1))
        else:
            w = numpyro.sample("w", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1)) * t * local
        _observe(X @ w, y, outcome)

    return model


def _observe(mean: Any, y: Any, outcome: str) -> None:
    made = dist.Bernoulli(logits=mean) if outcome == "yes-or-no" else dist.Normal(mean, 1.0)
    with numpyro.plate("people", len(mean)):
        numpyro.sample("y", made, obs=y)


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = (*SCALES, "horseshoe")
    parser.add_argument("--priors", nargs="+", default=kinds, choices=kinds)
    parser.add_argument("--forms", nargs="+", default=FORMS, choices=FORMS)
    parser.add_argument("--outcomes", nargs="+", default=list(OUTCOMES), choices=OUTCOMES)
    parser.add_argument("--fits", type=int, default=100)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--json", type=Path, help="append results to this file")
    given = parser.parse_args()
    for prior, form, outcome in itertools.product(given.priors, given.forms, given.outcomes):
        started = time.time()
        found = run(prior, form, outcome, given.fits, given.steps)
        found["seconds"] = round(time.time() - started)
        print(text(found), flush=True)
        if given.json is not None:
            with given.json.open("a") as lines:
                lines.write(json.dumps(found) + "\n")


def run(prior: str, form: str, outcome: str, fits: int, steps: int) -> dict[str, Any]:
    """So many fits of a case, and their scores."""
    covariates = [Column(name="ward", kind="category", categories=tuple(map(str, range(GROUPS))))]
    model = None if prior == "horseshoe" else intercepts(prior, form, outcome)
    if model is None:
        model = horseshoe(form, outcome)
        names = [f"x{k}" for k in range(COEFFICIENTS)]
        covariates = [
            Column(name=name, kind="real", bounds=(-4.0, 4.0), mean=0.0, sd=1.0) for name in names
        ]
    bound = bind_model(model, Schema((*covariates, OUTCOMES[outcome])), "y")
    others = covariates_cost(bound, BUDGET)
    bound = as_declared(bound, others, ROWS)
    settings = guess_settings(bound, ROWS, BUDGET, steps)
    ready = simulator(bound, settings, ROWS, BUDGET, others)
    found = ready.run(range(fits), draws=DRAWS, seed=3)
    ok = found.status == "OK"
    return {
        "prior": prior,
        "form": form,
        "outcome": outcome,
        "fits": fits,
        "steps": steps,
        "status": dict(Counter(found.status.tolist())),
        "all": _scores(bound, found, np.ones(fits, bool)),
        "ok": _scores(bound, found, ok),
    }


def _scores(bound: BoundModel, fits: SimulatedFits, kept: np.ndarray) -> dict[str, list[float]]:
    """Mean and sd of z, and the share of 95% intervals that hold, by coordinate; those of a vector
    are taken together."""
    truth, draws = fits.truth[kept], np.asarray(fits.draws, float)[kept]
    if not len(truth):
        return {}
    z = (draws.mean(1) - truth) / draws.std(1)
    low, high = np.quantile(draws, (0.025, 0.975), axis=1)
    inside = (low <= truth) & (truth <= high)
    sites = np.array([label.partition("[")[0] for label in bound.target.labels])
    found = {}
    for name in dict.fromkeys(sites.tolist()):
        own = sites == name
        found[name] = [float(part) for part in (z[:, own].mean(), z[:, own].std())]
        found[name].append(float(inside[:, own].mean()))
    return found


def text(found: dict[str, Any]) -> str:
    """A line for the case and one for every latent."""
    keys = ("prior", "form", "outcome", "fits", "steps")
    lines = [" ".join(f"{k}={found[k]}" for k in keys) + f" {found['status']} {found['seconds']} s"]
    for kind in ("all", "ok"):
        parts = (
            f"{name}: z {z:.2f} +- {sd:.2f}, holds {holds:.3f}"
            for name, (z, sd, holds) in found[kind].items()
        )
        lines.append(f"  {kind}: " + "; ".join(parts))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
