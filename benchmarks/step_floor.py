"""The Adult-shaped step against its own floor: a gather and two matrix products, nothing else.

The floor reads the drawn records' rows and outcomes, multiplies the rows by the guide's draws and
their transpose by the residuals, and adds that to the parameters, so that nothing is optimised
away. No record is clipped, none is rounded, and there is no noise: what is above the floor is the
price of privacy, the drawing of batches and noise on the host included.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from benchmarks import float_step, problems, secure_step
from benchmarks.figure import Figure, from_ratio, milliseconds
from benchmarks.timing import compare
from noisewise.mechanism import Chunk

NAME = "floor"
_CHUNKS = 4


def measure(quick: bool) -> list[Figure]:
    """How many times its floor a step costs.

    Args:
        quick: Fewer rounds.
    """
    problem = problems.adult_shaped()
    run = build(problem)
    start = jnp.zeros(problem.target.dim)
    chunks = list(float_step.batches(problem, _CHUNKS + 1))

    def floor() -> float:
        parameters, ticks = start, []
        for chunk in chunks:
            parameters = run(parameters, chunk).block_until_ready()
            ticks.append(time.perf_counter())
        return (ticks[-1] - ticks[0]) / (_CHUNKS * float_step.CHUNK_STEPS)

    def ours() -> float:
        return secure_step.seconds_a_step(problem, _CHUNKS)

    ours(), floor()
    ratio = compare(ours, floor, 3 if quick else 9)
    settings = (
        f"{problem.row_count:,} x {problem.target.dim}, q = {problem.settings.sampling_rate:g}, "
        f"{problems.GUIDE_DRAWS} draws, preconditioned rule"
    )
    return [
        from_ratio(
            ratio,
            name="adult-step-against-floor",
            measurement=NAME,
            what="Adult-shaped step: cost over a gather and two matrix products, nothing else",
            settings=settings,
            target=2.5,
            at_least=False,
            sides=f"ours {milliseconds(ratio.first)}, floor {milliseconds(ratio.second)} a step",
        )
    ]


def build(problem: problems.Problem) -> Any:
    """A jitted ``run(parameters, chunk)``: the floor of one chunk of steps.

    Args:
        problem: Whose rows and batches.
    """
    rows = problem.rows.unsafe_columns()
    X, y = jnp.asarray(rows["X"]), jnp.asarray(rows["y"])
    size, draws = problem.run.passes.room, problems.GUIDE_DRAWS
    spread = jnp.linspace(-0.01, 0.01, draws)[:, None]

    @jax.jit
    def run(X: Array, y: Array, parameters: Array, chunk: Chunk) -> Array:
        def one(parameters: Array, offset: Array) -> tuple[Array, None]:
            here = jax.lax.dynamic_slice_in_dim(chunk.indices, offset, size)
            batch, outcomes = X[here], y[here]
            slopes = jax.nn.sigmoid(batch @ (parameters + spread).T) - outcomes[:, None]
            return parameters - 1e-6 * (slopes.mean(1) @ batch), None

        return jax.lax.scan(one, parameters, chunk.offset)[0]

    return lambda parameters, chunk: run(X, y, parameters, chunk)
