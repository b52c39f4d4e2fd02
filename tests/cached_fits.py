"""Every fit path once on a tiny table with sentinel cells, for the compilation cache to keep.

The folder gets the cache, and ``rows.npz``: the rows in every form in which they were held. Rows
must be arguments of compiled programs: a constant would be written into the cache, for good.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import noisewise as nw
from noisewise.__main__ import main as command_line
from noisewise._programs import SWITCH
from noisewise.baselines import (
    dp_em,
    network_target,
    private_line,
    unsafe_point_estimate,
    unsafe_posterior,
    unsafe_vi,
    vi_start,
)
from noisewise.data import PrivateRows
from noisewise.dpsep import (
    LogisticSite,
    NetworkSite,
    adf_in_batches,
    assemble,
    ep,
    ep_in_batches,
    fit_unsafe,
    network_reference,
    one_at_a_time,
    random_passes,
)
from noisewise.models import bind_model

ROWS = 61
BUDGET = nw.Budget(epsilon=8.0, delta=1e-6)
KEY = jax.random.PRNGKey(0)
SCHEMA = nw.Schema(
    (
        nw.Column(name="income", kind="real", bounds=(0, 10)),
        nw.Column(name="level", kind="real", bounds=(-3, 3)),
        nw.Column(name="visits", kind="count", bounds=(0, 20)),
        nw.Column(name="ward", kind="category", categories=("a", "b", "c")),
        nw.Column(name="ill", kind="binary"),
    )
)
held: list[np.ndarray] = []


def drawn(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "income": rng.uniform(0, 10, ROWS),
        "level": rng.uniform(-3, 3, ROWS),
        "visits": rng.poisson(2.0, ROWS),
        "ward": rng.choice(["a", "b", "c"], ROWS),
        "ill": rng.integers(0, 2, ROWS),
    }


def matrix(width: int, seed: int) -> dict[str, np.ndarray]:
    """Rows of a reference: a design matrix and a target."""
    rng = np.random.default_rng([seed, 1])
    rows = {
        "X": rng.standard_normal((ROWS, width)).astype(np.float32),
        "y": rng.integers(0, 2, ROWS).astype(np.float32),
    }
    held.extend(rows.values())
    return rows


def fit(model: Any, seed: int = 0, **options: Any) -> nw.Result:
    asked = {"budget": BUDGET, "draws": 100, "steps": 100, "insecure_seed": 0}
    return nw.fit(model, nw.Table(drawn(seed), SCHEMA), **{**asked, **options})


def own_model(level: Any, income: Any, visits: Any = None) -> None:
    slope = numpyro.sample("slope", dist.Normal(0, 0.3).expand([2]).to_event(1))
    with numpyro.plate("people", level.shape[0]):
        rate = jnp.exp(0.1 * slope[0] * level + 0.1 * slope[1] * income)
        numpyro.sample("visits", dist.Poisson(rate), obs=visits)


def by_hand() -> nw.Settings:
    return nw.Settings(
        clip_norm=1.0, rule="aligned", learning_rate=0.01, steps=100, full_curvature=False
    )


def non_private() -> None:
    table, target = nw.Table(drawn(1), SCHEMA), bind_model("logistic", SCHEMA, "ill")
    unsafe_posterior(target.target, target.view.private(table))


def one_by_one() -> None:
    rows, site = matrix(3, 0), LogisticSite(3)
    order, start = random_passes(ROWS, 1, 0), np.zeros(3)
    for way in (one_at_a_time, ep):
        jax.block_until_ready(way(site, rows, order, initial=start))


def in_batches() -> None:
    rows, site = matrix(3, 1), LogisticSite(3)
    for way in (ep_in_batches, adf_in_batches):
        jax.block_until_ready(way(site, rows, np.zeros(3), KEY, epochs=2, batch=5))


def without_noise() -> None:
    rows, phase = matrix(2, 2), network_reference(2, hidden=3, epochs=1)
    run = assemble(phase, None, ROWS, NetworkSite(2, 3).start(0))
    for key in (None, KEY):
        jax.block_until_ready(fit_unsafe(run, rows, key).mean)


def rivals() -> None:
    rows, start = matrix(2, 3), NetworkSite(2, 3).start(0)
    target = network_target(3, 2)
    jax.block_until_ready(unsafe_vi(target, rows, vi_start(start), KEY, epochs=1))
    weights = jnp.asarray(start, jnp.float32)
    jax.block_until_ready(unsafe_point_estimate(NetworkSite(2, 3), rows, weights, KEY, epochs=1))
    private_line(rows["X"], rows["y"], BUDGET, clip_norm=5.0, insecure_seed=0)


def em() -> None:
    X, start = matrix(2, 4)["X"], np.array([[1.0, 0.0], [-1.0, 0.0]])
    dp_em(X, start, sd=0.5, radius=3.0, budget=BUDGET, public_count=ROWS, insecure_seed=0)


def estimators() -> None:
    import pandas as pd

    from noisewise import estimators as ready_made

    people = pd.DataFrame(drawn(2))
    X, common = people[["level", "income"]], {"epsilon": 8.0, "delta": 1e-6, "steps": 100}
    common |= {"bounds": [(-3, 3), (0, 10)], "draws": 100, "insecure_seed": 0}
    ready_made.DPLogisticRegression(**common).fit(X, people["ill"]).predict_proba(X)
    counts = ready_made.DPPoissonRegression(target_bounds=(0, 20), **common)
    counts.fit(X, people["visits"]).predict(X)
    line = ready_made.DPLinearRegression(target_bounds=(0, 20), **common)
    line.fit(X, people["visits"]).predict(X)


def command() -> None:
    """`noisewise fit` of a file, which keeps its programs where it always does."""
    programs = Path(jax.config.values["jax_compilation_cache_dir"])
    folder = programs.parent
    jax.config.update("jax_compilation_cache_dir", None)
    people = drawn(3)
    with open(folder / "people.csv", "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(people)
        lines.writerows(zip(*people.values(), strict=True))
    (folder / "people.toml").write_text(SCHEMA.to_toml())
    os.environ[SWITCH] = str(programs)
    asked = "--model logistic --target ill --epsilon 8 --steps 100 --insecure-seed 0"
    files = [str(folder / "people.csv"), "--schema", str(folder / "people.toml")]
    sys.argv = ["noisewise", "fit", *files, *asked.split(), "-o", str(folder / "out")]
    try:
        command_line()
    except SystemExit as end:
        if end.code not in (None, 0, 1):  # 1 is a fit that has diverged
            raise


def careless() -> None:
    """What must not be done, so that the search is known to work."""
    X = jnp.asarray(matrix(3, 9)["X"])
    jax.jit(lambda weights: jnp.tanh(X @ weights))(jnp.ones(3)).block_until_ready()


WAYS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: fit("logistic", target="ill"),
    "own model": lambda: fit(own_model, plan=by_hand(), posterior="averaged", steps=None),
    "mixture": lambda: fit("mixture(2)", target="visits", features=["ward", "ill"]),
    "dp-sep logistic": lambda: fit("logistic", target="ill", method="dp-sep"),
    "network": lambda: fit("network(3)", target="level", method="dp-sep"),
    "dp-em": em,
    "without privacy": non_private,
    "one by one": one_by_one,
    "in batches": in_batches,
    "without noise": without_noise,
    "rivals": rivals,
    "estimators": estimators,
    "command": command,
    "careless": careless,
}


def main(folder: Path, ways: list[str]) -> None:
    """Run them; keep the rows in all their forms beside the cache."""
    jax.config.update("jax_compilation_cache_dir", str(folder / "cache"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    remember(held)
    for way in ways:
        WAYS[way]()
    np.savez(folder / "rows.npz", *held)


def remember(held: list[np.ndarray]) -> None:
    """Whatever is put into private rows from here on."""
    original = PrivateRows.__init__

    def remembering(self: PrivateRows, columns: Any, *more: Any) -> None:
        original(self, columns, *more)
        held.extend(np.asarray(column) for column in self._columns.values())

    PrivateRows.__init__ = remembering  # type: ignore[method-assign]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
