"""The one scan: DPVI from a start to a trace (NA-DPVI Alg. 3)."""

from __future__ import annotations

import math
import os
import secrets
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise.dpvi.rule import Constants, GradientRule
from noisewise.dpvi.trace import BlockSums, FullTrace, Trace, add_step, empty_block
from noisewise.mechanism import Chunk, DeviceSource, Draws, Grid, Passes, SecureSource, noisy_sum
from noisewise.models import Rows

__all__ = [
    "BLOCKS",
    "Program",
    "Setting",
    "pass_size_limit",
    "run_secure",
    "run_simulated",
    "stream_chunks",
]

BLOCKS = 100
_CHUNK_STEPS = 100
_CHUNK_COINS = 2**25
_WORKERS = 4
_PASS_FLOATS = 2**26


@dataclass(frozen=True)
class Program:
    """Everything that shapes the compiled scan; equal programs share their compilation."""

    rule: GradientRule
    draws: int
    passes: Passes
    matrix: int
    """Of so many leading parameters the trace keeps products, for a curvature matrix; or 0."""
    clip_prior: bool = False
    optimiser: Any = None
    """An optax transformation; None is plain gradient descent with ``Setting.step_size``."""


class Setting(NamedTuple):
    """The numbers of a run: changing them does not recompile."""

    constants: Constants
    grid: Grid
    noise_scale: Array
    """Standard deviation of the noise in grid units, per released coordinate."""
    sampling_rate: float
    rows: float
    """The public number of rows; only ``clip_prior`` divides by it."""
    step_size: Array
    """Per parameter; with an optimiser, the share of its move that is made."""
    early: Array
    """Exponent of the schedule's multiplier, per parameter: one follows it, less lags behind."""
    limit: Array
    """Iterates are kept within plus and minus this: a far excursion of the noise must not run away
    to where a model's own prior overflows. Public, so it is post-processing."""


class _State(NamedTuple):
    parameters: Array
    optimiser: Any


def pass_size_limit(dim: int, draws: int) -> int:
    """Most records per pass, so that per-record, per-draw gradients stay within 256 MiB."""
    return max(1, _PASS_FLOATS // (dim * draws))


def _gradient(
    program: Program, setting: Setting, rows: Rows, parameters: Array, key: Array, draws: Draws
) -> Array:
    """The private gradient of the loss times the sampling rate, for every parameter."""
    # GPUs multiply in ten bits otherwise: little beside the noise, but it does not average out.
    with jax.default_matmul_precision("highest"):
        return _exact_gradient(program, setting, rows, parameters, key, draws)


def _exact_gradient(
    program: Program, setting: Setting, rows: Rows, parameters: Array, key: Array, draws: Draws
) -> Array:
    rule, constants = program.rule, setting.constants
    noise = jax.random.normal(key, (program.draws, rule.target.dim))
    public = rule.public_gradient(constants, parameters, noise)

    # The papers' convention: each record carries its N-th part of prior and entropy, as far as
    # those have coordinates among the released.
    share = public / setting.rows if program.clip_prior else 0.0

    def record_gradients(batch: Rows) -> Array:
        return rule.record_gradients(constants, parameters, noise, batch, share)

    released = noisy_sum(record_gradients, rows, draws, setting.grid, *program.passes)
    gradient = rule.complete(constants, parameters, noise, released)
    outside = rule.unclipped_gradient(constants, parameters) if program.clip_prior else public
    return gradient + setting.sampling_rate * outside


def _move(
    program: Program, setting: Setting, state: _State, gradient: Array, multiplier: Array
) -> _State:
    """The optimiser's step: post-processing of what was released."""
    if program.optimiser is None:
        step = setting.step_size * multiplier**setting.early
        moved = state.parameters - step * gradient
        inner = state.optimiser
    else:
        scaled = gradient / setting.sampling_rate
        updates, inner = program.optimiser.update(scaled, state.optimiser, state.parameters)
        moved = state.parameters + setting.step_size * multiplier * updates
    return _State(jnp.clip(moved, -setting.limit, setting.limit), inner)


def _start(program: Program, initial: Array) -> _State:
    return _State(initial, program.optimiser.init(initial) if program.optimiser else ())


@partial(jax.jit, static_argnums=(0, 1))
def _run_chunk(
    program: Program,
    keep_steps: bool,
    setting: Setting,
    rows: Rows,
    state: _State,
    key: Array,
    multipliers: Array,
    chunk: Chunk,
) -> tuple[_State, BlockSums, FullTrace | None]:
    """Several steps with randomness from the host; also their block sums."""

    def step(carry: tuple[_State, BlockSums], inputs: tuple[Array, ...]) -> Any:
        state, sums = carry
        key, multiplier, offset, size, noise = inputs
        draws = Draws(chunk.indices, offset, size, noise)
        gradient = _gradient(program, setting, rows, state.parameters, key, draws)
        sums = add_step(sums, state.parameters, gradient, program.matrix)
        moved = _move(program, setting, state, gradient, multiplier)
        return (moved, sums), FullTrace(state.parameters, gradient) if keep_steps else None

    keys = jax.random.split(key, len(multipliers))
    start = (state, empty_block(state.parameters, program.matrix))
    inputs = (keys, multipliers, chunk.offset, chunk.size, chunk.noise)
    (state, sums), steps = jax.lax.scan(step, start, inputs)
    return state, sums, steps


def run_secure(
    program: Program,
    setting: Setting,
    rows: Rows,
    row_count: int,
    initial: np.ndarray,
    schedule: np.ndarray,
    *,
    insecure_seed: int | None = None,
    keep_steps: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Trace:
    """One fit on real rows: cryptographic noise and sampling, streamed in chunks.

    ``row_count`` is the true number of rows; it shapes arrays and never leaves.
    """
    source = SecureSource(
        row_count,
        setting.sampling_rate,
        np.asarray(setting.noise_scale, float),
        program.passes,
        insecure_seed,
    )
    seed = secrets.randbits(32) if insecure_seed is None else insecure_seed
    state = _start(program, jnp.asarray(initial, jnp.float32))
    sums, kept, done = [], [], 0
    # By the public number: how many blocks there are is part of the result.
    pieces = _pieces(len(schedule), max(1, round(float(setting.rows))))
    # The guide's own draws are public: they need freshness, not secrecy.
    keys = jax.random.split(jax.random.PRNGKey(seed), len(pieces))
    for key, steps, chunk in zip(keys, pieces, stream_chunks(source, pieces), strict=True):
        multipliers = jnp.asarray(schedule[done : done + steps])
        needed = replace(program, passes=program.passes.enough_for(int(chunk.size.max())))
        state, block, full = _run_chunk(
            needed, keep_steps, setting, rows, state, key, multipliers, chunk
        )
        sums.append(jax.device_get(block))
        kept.append(jax.device_get(full))
        done += steps
        if progress is not None:
            progress(done)
    every = None
    if keep_steps:
        every = FullTrace(*(np.concatenate(part) for part in zip(*kept, strict=True)))
    blocks = _join(sums, max(1, math.ceil(len(sums) / BLOCKS)))
    return Trace(blocks, np.asarray(state.parameters), every)


def _pieces(steps: int, rows: int) -> list[int]:
    """Lengths of the chunks: a hundredth of the run, bounded by memory."""
    longest = max(1, min(_CHUNK_STEPS, _CHUNK_COINS // rows))
    length = min(longest, math.ceil(steps / BLOCKS))
    whole, rest = divmod(steps, length)
    return [length] * whole + ([rest] if rest else [])


def stream_chunks(source: SecureSource, pieces: list[int]) -> Iterator[Chunk]:
    """Chunks of randomness in order, the next ones drawn while the device works on this one."""
    workers = min(_WORKERS, max(1, (os.cpu_count() or 1) // 2))
    with ThreadPoolExecutor(max_workers=workers) as pool:
        waiting: deque[Future[Chunk]] = deque()
        for number, steps in enumerate(pieces):
            waiting.append(pool.submit(source.chunk, number, steps))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _join(sums: list[BlockSums], group: int) -> BlockSums:
    """Chunks' sums put together ``group`` at a time, so that there are at most `BLOCKS` blocks."""
    joined = []
    for first in range(0, len(sums), group):
        some = sums[first : first + group]
        base = BlockSums(*(np.asarray(part, np.float64) for part in some[0]))
        for other in some[1:]:
            base = _add(base, BlockSums(*(np.asarray(part, np.float64) for part in other)))
        joined.append(base)
    return BlockSums(*(np.stack(parts) for parts in zip(*joined, strict=True)))


def _add(base: BlockSums, other: BlockSums) -> BlockSums:
    """Sums of two blocks, the second's shifts moved to the first's start."""
    move = other.start - base.start
    squares = other.squares + (2 * other.shift + other.count * move) * move
    if base.shift_shift.ndim == 2:
        first = slice(len(base.shift_shift))
        shift, near, gradient = other.shift[first], move[first], other.gradient[first]
        crossed = np.outer(shift, near)
        shifts = other.shift_shift + crossed + crossed.T + other.count * np.outer(near, near)
        gradients = other.gradient_shift + np.outer(gradient, near)
    else:
        shifts, gradients = squares, other.gradient_shift + other.gradient * move
    return BlockSums(
        base.count + other.count,
        base.start,
        base.shift + other.shift + other.count * move,
        base.gradient + other.gradient,
        base.shift_shift + shifts,
        base.gradient_shift + gradients,
        base.gradient_gradient + other.gradient_gradient,
        base.squares + squares,
    )


def run_simulated(
    program: Program,
    setting: Setting,
    source: DeviceSource,
    rows: Rows,
    initial: Array,
    schedule: Array,
    key: Array,
) -> tuple[BlockSums, Array]:
    """One fit on simulated rows, wholly on the device: `jax.vmap` it over rows and keys.

    ``schedule`` has a row per block. Returns block sums and the last iterate. Not for data about
    people: the noise comes from a seed.
    """

    def step(carry: tuple[_State, BlockSums], inputs: tuple[Array, Array]) -> Any:
        state, sums = carry
        key, multiplier = inputs
        key_draws, key_guide = jax.random.split(key)
        draws = source.draw(key_draws, setting.noise_scale)
        gradient = _gradient(program, setting, rows, state.parameters, key_guide, draws)
        sums = add_step(sums, state.parameters, gradient, program.matrix)
        return (_move(program, setting, state, gradient, multiplier), sums), None

    def block(state: _State, inputs: tuple[Array, Array]) -> tuple[_State, BlockSums]:
        key, multipliers = inputs
        keys = jax.random.split(key, multipliers.shape[0])
        start = (state, empty_block(state.parameters, program.matrix))
        (state, sums), _ = jax.lax.scan(step, start, (keys, multipliers))
        return state, sums

    keys = jax.random.split(key, schedule.shape[0])
    state, blocks = jax.lax.scan(block, _start(program, initial), (keys, schedule))
    return blocks, state.parameters
