"""Do DP-SEP's intervals hold? Simulated regressions and networks, plain and noise-aware.

    python -m benchmarks.sep_coverage [--fits K] [--network-fits K]

Truths come from the prior, tables from the truth, everything is fitted by the presets that
`noisewise.fit(..., method="dp-sep")` uses. Seeded: nothing here is a private release.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.dpsep import (
    NETWORK_TARGET_SD,
    GlmSite,
    LogisticSite,
    NetworkSite,
    ProbitSite,
    RegressionSite,
    SepFit,
    assemble_phases,
    fit_simulated,
    glm_phases,
    network_phases,
    phase_mechanisms,
    variance_inflation,
)
from noisewise.engine import Run
from noisewise.mechanism import Budget
from noisewise.posterior import read_regression

ROWS, WIDTH, LEVEL, Z, DRAWS = 2000, 5, 0.9, 1.6449, 1000
NETWORK_ROWS, NETWORK_INPUTS, NEW = 7000, 4, 200
NOISE = 0.3 * NETWORK_TARGET_SD
SITES: dict[str, GlmSite] = {
    "linear": RegressionSite(WIDTH, 1.0, 0.7),
    "logistic": LogisticSite(WIDTH),
    "probit": ProbitSite(WIDTH),
}


def _covariates(key: Array, rows: int) -> Array:
    return jax.random.uniform(key, (rows, WIDTH), minval=-1, maxval=1).at[:, 0].set(1)


def _target(name: str, predictor: Array, key: Array) -> Array:
    key, other = jax.random.split(key)
    if name == "linear":
        sd = 0.7 * jnp.exp(0.5 * jax.random.normal(other))
        return predictor + sd * jax.random.normal(key, predictor.shape)
    cdf = jax.nn.sigmoid if name == "logistic" else jax.scipy.stats.norm.cdf
    return (jax.random.uniform(key, predictor.shape) < cdf(predictor)).astype(jnp.float32)


def _many(one: Callable[[Array], Any], fits: int, batch: int) -> Any:
    """Batches of fits side by side, ten times as many on a GPU."""
    batch *= 1 if jax.default_backend() == "cpu" else 10
    run = jax.jit(jax.vmap(one))
    keys = jax.random.split(jax.random.PRNGKey(0), fits)
    parts = [run(keys[first : first + batch]) for first in range(0, fits, batch)]
    return jax.tree.map(lambda *leaves: np.concatenate([np.asarray(x) for x in leaves]), *parts)


def regression(name: str, epsilon: float, fits: int) -> dict[str, Any]:
    """Shares of 90% intervals of the coefficients that hold the truth."""
    site = SITES[name]
    phases = glm_phases(site, np.asarray(_covariates(jax.random.PRNGKey(9), 2000)))
    mechanisms = phase_mechanisms(phases, Budget(epsilon=epsilon, delta=1e-5))
    runs = assemble_phases(phases, mechanisms, ROWS, jnp.zeros(WIDTH))

    def one(key: Array) -> tuple[Array, SepFit]:
        keys = jax.random.split(key, 4)
        weights = jax.random.normal(keys[0], (WIDTH,))
        X = _covariates(keys[1], ROWS)
        rows = {"X": X, "y": _target(name, X @ weights, keys[2])}
        return weights, fit_simulated(runs, rows, keys[3])

    truth, found = _many(one, fits, 50)
    plain = np.sqrt(np.asarray(site.family.diagonal(jnp.asarray(found.covariance))))
    aware = _aware_draws(runs[-1], found, fits)
    low, high = np.quantile(aware, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], axis=1)
    scores = (aware.mean(1) - truth) / aware.std(1)
    return {
        "model": name,
        "epsilon": epsilon,
        "plain": float((np.abs(found.mean - truth) < Z * plain).mean()),
        "aware": float(((low < truth) & (truth < high)).mean()),
        "z mean": float(scores.mean()),
        "z sd": float(scores.std()),
        "plain rmse": float(np.sqrt(((found.mean - truth) ** 2).mean())),
        "rmse": float(np.sqrt(((aware.mean(1) - truth) ** 2).mean())),
        "floor": float(np.sqrt(LEVEL * (1 - LEVEL) / (fits * WIDTH))),
        "fits": fits,
    }


def _aware_draws(run: Run, found: SepFit, fits: int) -> np.ndarray:
    """Draws of the coefficients of every fit, read one by one on the host."""
    known = np.asarray(_covariates(jax.random.PRNGKey(9), 2000))
    each = (jax.tree.map(lambda part, k=k: part[k], found) for k in range(fits))
    return np.stack(
        [
            read_regression(run, fit, known, DRAWS, np.random.default_rng(k)).aware.theta
            for k, fit in enumerate(each)
        ]
    )


def network(epsilon: float, fits: int) -> dict[str, Any]:
    """A smooth truth of four inputs: 90% intervals of its mean, and of new targets."""
    phases = network_phases(NETWORK_INPUTS)
    mechanisms = phase_mechanisms(phases, Budget(epsilon=epsilon, delta=1e-5))
    site = phases[-1].site
    assert isinstance(site, NetworkSite)
    runs = assemble_phases(phases, mechanisms, NETWORK_ROWS, site.start(0))

    def truth(X: Array, waves: Array) -> Array:
        return NETWORK_TARGET_SD * jnp.sin(X @ waves).sum(1) / jnp.sqrt(2.0)

    def one(key: Array) -> Any:
        keys = jax.random.split(key, 7)
        waves = 0.5 * jax.random.normal(keys[0], (NETWORK_INPUTS, 4))
        X, new = (
            jax.random.normal(k, (n, NETWORK_INPUTS))
            for k, n in zip(keys[1:3], (NETWORK_ROWS, NEW), strict=True)
        )
        y = truth(X, waves) + NOISE * jax.random.normal(keys[3], (NETWORK_ROWS,))
        fresh = truth(new, waves) + NOISE * jax.random.normal(keys[4], (NEW,))
        fit = fit_simulated(runs, {"X": X, "y": y}, keys[5])
        noise = site.noise_variance(fit.extra, NETWORK_ROWS)
        aware = fit.covariance + fit.noise_covariance
        factor = variance_inflation(runs, site, fit, NETWORK_ROWS, keys[6])
        said = [
            jax.vmap(lambda x, v=variance: site.output(fit.mean, v, x))(new)
            for variance in (fit.covariance, aware, factor * aware)
        ]
        return [
            jnp.mean(jnp.abs(goal - one.mean) < Z * jnp.sqrt(one.variance + extra))
            for one in said
            for goal, extra in ((truth(new, waves), 0.0), (fresh, noise))
        ]

    found = [float(np.mean(part)) for part in _many(one, fits, 8)]
    names = [
        f"{what}, {how}"
        for how in ("plain", "aware", "refitted")
        for what in ("mean", "new target")
    ]
    return {"model": "network", "epsilon": epsilon, "fits": fits} | dict(
        zip(names, found, strict=True)
    )


def main() -> None:
    """A line of JSON for every cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=400)
    parser.add_argument("--network-fits", type=int, default=16)
    asked = parser.parse_args()
    for name in SITES:
        for epsilon in (1.0, 0.3):
            begun = time.perf_counter()
            line = regression(name, epsilon, asked.fits)
            print(json.dumps(line | {"seconds": round(time.perf_counter() - begun)}), flush=True)
    if asked.network_fits:
        print(json.dumps(network(1.0, asked.network_fits)), flush=True)


if __name__ == "__main__":
    main()
