"""One released gradient of DPVI, as the engine's own step makes it."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from noisewise.data import Rows
from noisewise.dpvi import Constants, Dpvi, DpviNumbers
from noisewise.dpvi.algorithm import DpviState
from noisewise.engine import Run
from noisewise.engine.run import _step
from noisewise.mechanism import Draws, Grid, Passes


def numbers_of(
    constants: Constants,
    grid: Grid,
    noise_scale: Array,
    *,
    public_count: int,
    sampling_rate: float = 1.0,
) -> DpviNumbers:
    """Numbers of a run without limits whose steps have size one."""
    return DpviNumbers(
        grid=grid,
        noise_scale=noise_scale,
        sampling_rate=sampling_rate,
        public_count=float(public_count),
        constants=constants,
        step_size=jnp.ones(()),
        warm_up_exponent=jnp.ones(()),
        limit=jnp.asarray(jnp.inf),
    )


@partial(jax.jit, static_argnums=(0, 1))
def one_gradient(
    algorithm: Dpvi,
    passes: Passes,
    numbers: DpviNumbers,
    rows: Rows,
    parameters: Array,
    key: Array,
    draws: Draws,
) -> Array:
    """The gradient of all parameters, completed from what one step released: a block of one step
    records it."""
    run = Run(algorithm, passes, 1.0, numbers, schedule=(), start=parameters)
    state: Any = DpviState(parameters, ())
    schedule = jnp.ones(())
    return _step(
        run, rows, state, algorithm.empty_record(state), schedule, key, draws
    ).record.gradient
