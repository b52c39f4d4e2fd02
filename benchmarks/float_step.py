"""The library's own DPVI step with float noise: what the integer grid and its sum cost.

Same gradients, same Poisson batches streamed from the same source, as much room for them; but
gradients are clipped and summed as floats and the noise is `jax.random.normal`. Not private in the
strict sense: float noise gives the sum away in its low bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from benchmarks.problems import NOISE_MULTIPLIER, Problem
from noisewise.dpvi import Point
from noisewise.engine.run import _stream
from noisewise.mechanism import Chunk, SecureSource

CHUNK_STEPS = 100


def build(problem: Problem) -> Any:
    """A jitted ``run(parameters, key, chunk)``: the steps of one chunk of batches."""
    algorithm, numbers = problem.run.algorithm, problem.run.numbers
    rule, constants, rows = algorithm.rule, numbers.constants, problem.rows.unsafe_columns()
    clip_norm, size = problem.settings.clip_norm, problem.run.passes.room

    def step(parameters: Array, inputs: tuple[Array, ...], indices: Array) -> tuple[Array, None]:
        key, offset, drawn = inputs
        key_guide, key_noise = jax.random.split(key)
        shocks = jax.random.normal(key_guide, (algorithm.draws, rule.target.dim))
        at = Point(constants, parameters, shocks)
        share = rule.public_gradient(at)[: rule.released] / numbers.public_count
        here = jax.lax.dynamic_slice_in_dim(indices, offset, size)
        batch = jax.tree.map(lambda column: column[here], rows)
        gradients = rule.record_gradients(at, batch, share)
        norms = jnp.sqrt(jnp.sum(gradients * gradients, axis=1))
        factors = jnp.minimum(1.0, clip_norm / norms) * (jnp.arange(size) < drawn)
        noise = NOISE_MULTIPLIER * clip_norm * jax.random.normal(key_noise, (rule.released,))
        total = jnp.sum(gradients * factors[:, None], axis=0) + noise
        gradient = rule.complete(at, total)
        return parameters - numbers.step_size * gradient, None

    @jax.jit
    def run(parameters: Array, key: Array, chunk: Chunk) -> Array:
        keys = jax.random.split(key, len(chunk.offset))

        def one(parameters: Array, inputs: tuple[Array, ...]) -> tuple[Array, None]:
            return step(parameters, inputs, chunk.indices)

        return jax.lax.scan(one, parameters, (keys, chunk.offset, chunk.size))[0]

    return run


def batches(problem: Problem, chunks: int) -> Iterator[Chunk]:
    """Chunks of Poisson batches, the next one drawn while the device works on this one."""
    run = problem.run
    scale = np.asarray(run.numbers.noise_scale, float)
    source = SecureSource(problem.row_count, run.sampling_rate, scale, run.passes)
    yield from _stream(source, [CHUNK_STEPS] * chunks, 0)
