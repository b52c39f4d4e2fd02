"""A model that generates whole records, and a result of it made by hand: no fit is needed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import noisewise as nw
from noisewise.mechanism import Certificate, Release, issue
from noisewise.posterior import Status
from noisewise.result import Request

DRAWS, ROWS = 400, 1500
WARDS = ("north, old", "south", "east")


def clinic(ward, visits=None, ill=None, score=None):
    """A ward, and given it a number of visits, an illness and a score of two entries.

    Log odds and geometric counts, as samplers of Dirichlet, Beta and Poisson take long to compile.
    """
    shares = numpyro.sample("log_shares", dist.Normal(0, 1).expand([3]).to_event(1))
    stop = numpyro.sample("log_odds", dist.Normal(0, 1).expand([3]).to_event(1))
    risk = numpyro.sample("risk", dist.Uniform(0, 1))
    with numpyro.plate("people", ward.shape[0]):
        here = numpyro.sample("ward", dist.Categorical(logits=shares), obs=ward)
        numpyro.sample("visits", dist.GeometricLogits(stop[here]), obs=visits)
        numpyro.sample("ill", dist.Bernoulli(risk), obs=ill)
        middle = jnp.stack([0.1 * here, 1.0 - 0.1 * here], axis=-1)
        numpyro.sample("score", dist.Normal(middle, 0.5).to_event(1), obs=score)


SCHEMA = nw.Schema(
    (
        nw.Column(name="visits", kind="count", bounds=(0, 5)),
        nw.Column(name="ward", kind="category", categories=WARDS),
        nw.Column(name="ill", kind="binary"),
        nw.Column(name="score", kind="real", bounds=(-0.3, 1.3), shape=(2,)),
        nw.Column(name="unused", kind="binary"),
    )
)


@cache
def certificate() -> Certificate:
    budget = nw.Budget(epsilon=1.0, delta=1e-6)
    return issue(budget, (Release(what="gradients", noise_multiplier=5.0),), {})


def clinic_draws(spread: float = 1.0) -> dict[str, np.ndarray]:
    """Posterior draws around known values; ``spread`` scales how uncertain they are."""
    rng = np.random.default_rng(0)
    shares, stop = np.array([0.5, 0.3, 0.2]), np.array([0.5, 0.35, 0.25])
    return {
        "log_shares": np.log(shares) + 0.08 * spread * rng.normal(size=(DRAWS, 3)),
        "log_odds": np.log(stop / (1 - stop)) + 0.08 * spread * rng.normal(size=(DRAWS, 3)),
        "risk": 0.25 + 0.02 * spread * rng.normal(size=DRAWS),
    }


def made_result(schema: nw.Schema, **changes: Any) -> nw.Result:
    """A result as a fit of `clinic` would return it."""
    request = Request(
        model="clinic",
        method="dpvi",
        posterior="analytic",
        target=None,
        arguments=("ward", "visits", "ill", "score"),
        encoding=(),
        schema=schema,
        public_count=ROWS,
        settings=nw.Settings(clip_norm=1.0, rule="vanilla", contraction_rate=0.01),
    )
    made: dict[str, Any] = {
        "draws": clinic_draws(),
        "noise_unaware": clinic_draws(0.1),
        "privacy": certificate(),
        "status": Status.OK,
        "request": replace(request, **changes.pop("request", {})),
    }
    return nw.Result(**{**made, **changes})
