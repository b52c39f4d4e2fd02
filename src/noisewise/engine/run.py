"""The private loop. Everything that noisewise releases step by step is released here.

Two drivers share one step. `run_secure` takes rows about people and randomness from a cryptographic
generator on the host, streamed in chunks. `run_simulated` takes simulated or public rows and a
seed, wholly on the device, so that many runs go side by side under `jax.vmap`.
"""

import math
import os
import secrets
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec

from noisewise._hosts import Hosts, reaching_others, refuse_unshared
from noisewise.data import PrivateRows, Rows, record_count
from noisewise.engine.algorithm import Run, Step, public_passes
from noisewise.engine.checkpoints import Checkpoint
from noisewise.engine.devices import AXIS, Devices, on_hosts, with_numbers_on_hosts
from noisewise.engine.feeding import feeding
from noisewise.mechanism import Chunk, DeviceSource, Draws, SecureSource, noisy_sum, room_for

_CHUNK_STEPS = 100
_CHUNK_NUMBERS = 2**25
_WORKERS = 4
_DRAWN_TOGETHER = 2**18
"""Numbers of records of a simulated block, up to which its batches are drawn at once."""


class Finished(NamedTuple):
    """What a run ends with: all of it public."""

    state: Any
    records: Any
    """The algorithm's records, block by block: a list from `run_secure`, a leading axis from
    `run_simulated`."""
    kept: Any = None
    """Every step, where the algorithm keeps them."""
    ends: tuple[int, ...] = ()
    """Steps done at the end of every block; of a secure run."""


def _step(
    run: Run,
    rows: Rows,
    state: Any,
    record: Any,
    schedule: Any,
    key: Any,
    draws: Draws,
    across: str | None = None,
) -> Step:
    """One private step: the only place where rows meet an algorithm."""
    algorithm, numbers = run.algorithm, run.numbers
    summed = noisy_sum if across is None else partial(noisy_sum, across=across)
    # GPUs multiply in ten bits otherwise: little beside the noise, but it does not average out.
    with jax.default_matmul_precision("highest"):
        point = algorithm.point(numbers, state, schedule, key)
        contributions = partial(algorithm.contributions, numbers, point)
        released = summed(contributions, rows, draws, numbers.grid, *run.passes)
        found: Step = algorithm.update(numbers, state, record, point, schedule, released)
    return found


@jax.jit
def _run_chunk(
    run: Run, rows: Rows, state: Any, record: Any, keys: Array, chunk: Chunk
) -> Finished:
    """Several steps with randomness from the host, on top of what is recorded of a block so far."""
    return _steps(run, rows, state, record, keys, chunk)


def _steps(
    run: Run,
    rows: Rows,
    state: Any,
    record: Any,
    keys: Array,
    chunk: Chunk,
    across: str | None = None,
) -> Finished:
    def one(carry: tuple[Any, Any], inputs: Any) -> tuple[tuple[Any, Any], Any]:
        schedule, key, offset, size, noise = inputs
        draws = Draws(chunk.indices, offset, size, noise)
        found = _step(run, rows, *carry, schedule, key, draws, across)
        return (found.state, found.record), found.kept

    inputs = (run.schedule, keys, chunk.offset, chunk.size, chunk.noise)
    (state, record), kept = jax.lax.scan(one, (state, record), inputs)
    return Finished(state, record, kept)


@partial(jax.jit, static_argnums=0)
def _run_chunk_on(
    mesh: Mesh, run: Run, rows: Rows, state: Any, record: Any, keys: Array, chunk: Chunk
) -> Finished:
    """`_run_chunk` on devices that hold shares: rows and chunk have a leading axis of devices, and
    all else is alike on all."""

    def own(run: Run, rows: Rows, state: Any, record: Any, keys: Array, chunk: Chunk) -> Finished:
        rows, chunk = jax.tree.map(lambda column: column[0], (rows, chunk))
        return _steps(run, rows, state, record, keys, chunk, AXIS)

    share, alike = PartitionSpec(AXIS), PartitionSpec()
    given = (alike, share, alike, alike, alike, share)
    spread = jax.shard_map(own, mesh=mesh, in_specs=given, out_specs=alike, check_vma=False)
    found: Finished = spread(run, rows, state, record, keys, chunk)
    return found


def run_secure(
    run: Run,
    rows: PrivateRows,
    *,
    insecure_seed: int | None = None,
    progress: Callable[[int], None] | None = None,
    checkpoint: Checkpoint | None = None,
    phase: int = 0,
    count_noise: float = 0.0,
    devices: Devices | None = None,
) -> Finished:
    """One run on rows about people: cryptographic noise and sampling, streamed in chunks.

    Args:
        run: The algorithm and its numbers, all public.
        rows: The records, prepared for the algorithm.
        insecure_seed: Makes the run repeatable, and therefore not private.
        progress: Called with the number of steps done.
        checkpoint: Where steps are written down; those that are there are not made again. Of a run
            that keeps every step, sums alone are.
        phase: Its number, among a fit's runs.
        count_noise: Standard deviation of the public count's own noise, if it has any.
        devices: That share the rows; None where one does it all.
    """
    numbers, seeded = run.numbers, insecure_seed is not None
    refuse_unshared(rows.share)
    hosts = Hosts() if devices is None else devices.hosts
    public_count = int(numbers.public_count)
    if count_noise:
        wide = public_passes(run.algorithm, run.sampling_rate, public_count, count_noise)
        run = replace(run, passes=wide)
    scale = np.asarray(numbers.noise_scale, float)
    drawn_from = rows.true_count if seeded else rows.own_count
    own_scale = scale if hosts.is_first else 0 * scale
    source = SecureSource(drawn_from, run.sampling_rate, own_scale, run.passes, insecure_seed)
    state = run.algorithm.init(numbers, run.start)
    pieces = _pieces(run)
    # What an algorithm draws for itself is public: it needs freshness, not secrecy.
    seed = insecure_seed
    if seed is None:
        seed = hosts.number_of_first(lambda: secrets.randbits(32))
    keys = jax.random.split(jax.random.PRNGKey(seed), len(pieces))
    records: list[Any] = []
    kept: list[Any] = []
    if checkpoint is not None:
        state, records = checkpoint.found(phase, state, run.algorithm.empty_record(state))
    first = len(records)
    done, left = sum(pieces[:first]), range(first, len(pieces))
    ran: Callable[..., Finished] = _run_chunk
    if devices is None:
        feeds = feeding(rows, run, room_for(public_count, count_noise))
    else:
        feeds = devices.feeding(rows, run, count_noise, whole_batches=seeded)
        run, ran = with_numbers_on_hosts(run), partial(_run_chunk_on, devices.mesh)
    with feeds as feed, reaching_others():
        for number, chunk in zip(left, _stream(source, pieces, first), strict=True):
            length, record = pieces[number], run.algorithm.empty_record(state)
            some = jax.tree.map(lambda column: column[done : done + length], run.schedule)  # noqa: B023
            own = jax.random.split(keys[number], length)
            for part in feed(chunk):
                schedule = jax.tree.map(lambda column: column[part.steps], some)  # noqa: B023
                here = replace(run, schedule=schedule, passes=part.passes)
                keys_here = own[part.steps]
                if devices is not None:
                    state, record, keys_here = on_hosts((state, record, keys_here))
                found = ran(here, part.rows, state, record, keys_here, part.chunk)
                # One part at a time: what waits for the device would hold its rows in memory.
                state, record = jax.block_until_ready((found.state, found.records))
                kept.append(jax.device_get(found.kept))
            records.append(jax.device_get(record))
            if checkpoint is not None:
                checkpoint.keep(phase, length, state, records[-1], left=len(pieces) - number - 1)
            done += length
            if progress is not None:
                progress(done)
    every = None
    if kept and kept[0] is not None:
        every = jax.tree.map(lambda *parts: np.concatenate(parts), *kept)
    if devices is not None:
        state = jax.tree.map(jnp.asarray, on_hosts(state))
    return Finished(state, records, every, tuple(np.cumsum(pieces).tolist()))


def _pieces(run: Run) -> list[int]:
    """Lengths of the chunks: as many as the algorithm has blocks, or more to spare memory; by
    public numbers alone, as the number of blocks is part of the result."""
    longest = _CHUNK_NUMBERS // (run.passes.room + run.algorithm.released)
    wanted = min(_CHUNK_STEPS, math.ceil(run.steps / run.algorithm.blocks))
    length = max(1, min(wanted, longest))
    whole, rest = divmod(run.steps, length)
    return [length] * whole + ([rest] if rest else [])


def _stream(source: SecureSource, pieces: list[int], first: int) -> Iterator[Chunk]:
    """Chunks of randomness from ``first`` on, the next ones drawn while the device works on one."""
    workers = min(_WORKERS, max(1, (os.cpu_count() or 1) // 2))
    with ThreadPoolExecutor(max_workers=workers) as pool:
        waiting: deque[Future[Chunk]] = deque()
        for number in range(first, len(pieces)):
            waiting.append(pool.submit(source.chunk, number, pieces[number]))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def block_length(run: Run) -> int:
    """Steps of a block where a simulation is recorded in the algorithm's number of blocks.

    Args:
        run: What is simulated.
    """
    return max(1, run.steps // int(run.algorithm.blocks))


def run_simulated(run: Run, rows: Rows, key: Array, length: int | None = None) -> Finished:
    """One run on simulated rows, wholly on the device: `jax.vmap` it over runs, rows and keys.

    Not for data about people: the noise comes from a seed.

    Args:
        run: The algorithm and its numbers.
        rows: Simulated or public records, prepared for the algorithm.
        key: Decides batches, noise and the algorithm's own draws.
        length: Steps of a recorded block; what does not fill one is left off the end. None is one
            block of all steps.
    """
    algorithm, numbers = run.algorithm, run.numbers
    source = DeviceSource(record_count(rows), run.sampling_rate, run.passes)
    length = run.steps if length is None else length
    blocks = run.steps // length
    schedule = jax.tree.map(
        lambda column: jnp.asarray(column)[: blocks * length].reshape(
            blocks, length, *column.shape[1:]
        ),
        run.schedule,
    )

    def drawn(key: Array) -> tuple[Array, Draws]:
        key_draws = key_point = key
        if algorithm.draws_public_numbers:
            key_draws, key_point = jax.random.split(key)
        return key_point, source.draw(key_draws, jnp.asarray(numbers.noise_scale))

    # A generator takes as long for one step's draws as for many steps' together.
    together = length * run.passes.room <= _DRAWN_TOGETHER

    def one(carry: tuple[Any, Any], inputs: tuple[Any, Any]) -> tuple[tuple[Any, Any], None]:
        schedule, key_or_draws = inputs
        key, draws = key_or_draws if together else drawn(key_or_draws)
        found = _step(run, rows, *carry, schedule, key, draws)
        return (found.state, found.record), None

    def block(state: Any, inputs: tuple[Any, Array]) -> tuple[Any, Any]:
        schedule, key = inputs
        keys = jax.random.split(key, length)
        start = (state, algorithm.empty_record(state))
        of_steps = jax.vmap(drawn)(keys) if together else keys
        (state, record), _ = jax.lax.scan(one, start, (schedule, of_steps))
        return state, record

    keys = key[None] if blocks == 1 else jax.random.split(key, blocks)
    state, records = jax.lax.scan(block, algorithm.init(numbers, run.start), (schedule, keys))
    return Finished(state, records)
