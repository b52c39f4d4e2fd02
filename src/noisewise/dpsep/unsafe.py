"""SEP without privacy, by the very steps of the private fit: a reference."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from noisewise.data import Rows, record_count
from noisewise.dpsep.algorithm import SepFit
from noisewise.dpsep.settings import Rates
from noisewise.engine import Run


def fit_unsafe(run: Run, rows: Rows, key: Array | None = None) -> SepFit:
    """SEP without noise, clipped where the bounds are finite: all records at every step, or, with a
    ``key``, a batch of the sampling rate's share of them.

    Sites of a batch move the mean side by side, each weight as if the others stood still. That is
    stable for rates below 2/(the largest eigenvalue of Lambda^-1 H), H the curvature with its
    correlations. A network's weights are strongly correlated: full batches at a rate of 0.3 blow
    up within three steps, many small steps (`network_reference`) do not. The name says it: nothing
    that comes out of here is private.

    Args:
        run: By `assemble`, without a mechanism.
        rows: Simulated or public records.
        key: Of batches; None takes all records at every step.
    """
    algorithm, numbers = run.algorithm, run.numbers
    rows = {name: jnp.asarray(column) for name, column in rows.items()}
    count = record_count(rows)
    size = count if key is None else max(1, round(numbers.sampling_rate * count))

    def one(state: Any, inputs: tuple[Rates, Array]) -> tuple[Any, None]:
        schedule, key = inputs
        batch = rows
        if size < count:
            drawn = jax.random.randint(key, (size,), 0, count)
            batch = {name: column[drawn] for name, column in rows.items()}
        point = algorithm.point(numbers, state, schedule, None)
        values = algorithm.contributions(numbers, point, batch)
        fine = jnp.all(jnp.isfinite(values), axis=-1, keepdims=True)
        total = jnp.sum(jnp.where(fine, values, 0.0), axis=0)
        released = total * (numbers.sampling_rate * count / size)
        return algorithm.update(numbers, state, None, point, schedule, released).state, None

    schedule = jax.tree.map(jnp.asarray, run.schedule)
    keys = jax.random.split(jax.random.PRNGKey(0) if key is None else key, run.steps)
    state, _ = jax.lax.scan(one, algorithm.init(numbers, run.start), (schedule, keys))
    fit: SepFit = algorithm.finish(numbers, state)
    return fit
