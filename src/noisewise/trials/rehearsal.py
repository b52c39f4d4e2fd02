"""A fit tried on simulated tables before anything is spent: does it run away?

Half of the tables are as the schema declares, the others are stressed (`trials.stressed`), and
their counts scatter more than the model says. Only the beginning
of the run is made, in the simulated driver; no row is read.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._validate import NoisewiseError
from noisewise.data import Rows
from noisewise.engine import Run, run_simulated
from noisewise.models import BoundModel, Target
from noisewise.trials.stressed import STRESSES, stressed_columns

_STEPS = 300
_LEAST_ROWS, _FLOATS = 1000, 2**21
_TOO_MANY = 0.5
_AT_THE_LIMIT = 0.98


def refuse_if_it_diverges(bound: BoundModel, run: Run, count: int) -> None:
    """Refuse, in one line, a fit that runs away on simulated tables.

    Args:
        bound: The model.
        run: The very run that the data would get, assembled for ``count`` rows.
        count: Rows of a simulated table, or fewer, to spare memory.
    """
    count = min(count, max(_LEAST_ROWS, _FLOATS // max(bound.width, 1)))
    short = replace(run, schedule=run.schedule[:_STEPS])
    tables = []
    for seed, stress in enumerate(STRESSES):
        plain, stressed = (np.random.default_rng([source, seed]) for source in (17, 18))
        tables.append(bound.view.simulate(plain, count))
        rows_in_all = count * bound.view.schema.most_rows
        columns = stressed_columns(bound.view.schema, stress, stressed, rows_in_all)
        tables.append(bound.view.as_records(bound.view.encode(columns), stressed))
    rows = {name: np.stack([table[name] for table in tables]) for name in tables[0]}
    counts = tuple(
        (name, *bounds)
        for name in sorted(bound.target.generated)
        if bound.view.event is None
        and bound.view.kind(name) == "count"
        and (bounds := bound.view.bounds(name)) is not None
    )
    keys = jax.random.split(jax.random.PRNGKey(17), len(tables))
    scatter = jnp.arange(len(tables)) % 2 == 1
    finite = np.asarray(_begin(bound.target, counts, short, rows, scatter, keys))
    if np.mean(~finite) >= _TOO_MANY:
        raise NoisewiseError(
            f"rehearsal: {np.sum(~finite)} of {len(finite)} simulated fits ran away within "
            f"{short.steps} steps; nothing was spent: give latents priors of order one, log-normal "
            "for scales"
        )


@partial(jax.jit, static_argnums=(0, 1))
def _begin(
    target: Target, counts: tuple[Any, ...], run: Run, rows: Rows, scatter: Array, keys: Array
) -> Array:
    """Whether iterates stay finite and within their limits, table by table: side by side they would
    compile longer."""

    def one(inputs: tuple[Rows, Array, Array]) -> Array:
        table, scatter, key = inputs
        key_truth, key_rows, key_scatter, key_run = jax.random.split(key, 4)
        table = target.simulate(key_rows, target.sample_prior(key_truth, 1)[0], table)
        for name, low, high in counts:
            drawn = jax.random.exponential(key_scatter, table[name].shape)
            factor = jnp.where(scatter, drawn, 1.0)
            scattered = jnp.clip(jnp.rint(table[name] * factor), low, high)
            table[name] = scattered.astype(table[name].dtype)
        prepared = target.prepare(table, run.numbers.constants.frame)
        parameters = run_simulated(run, prepared, key_run).state.parameters
        return (jnp.abs(parameters) < _AT_THE_LIMIT * run.numbers.limit).all()

    return jax.lax.map(one, (rows, scatter, keys))
