"""Whole runs: secure on rows about people, simulated on the device, and without privacy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noisewise._validate import NoisewiseError
from noisewise.dpsep.engine import Program, Setting, State, make_setting, read, start, step
from noisewise.dpsep.settings import Rates, SepSettings
from noisewise.dpsep.site import Gaussian, Rows, Site
from noisewise.dpvi.run import stream_chunks
from noisewise.mechanism import (
    Chunk,
    DeviceSource,
    Draws,
    Mechanism,
    SecureSource,
    noisy_sum,
    usual_passes,
)

__all__ = ["Assembly", "SepFit", "assemble", "fit_secure", "fit_simulated", "fit_unsafe"]

_CHUNK_STEPS = 100
_CHUNKS = 20
"""At least so many, so that a run can be watched."""
_CHUNK_NUMBERS = 2**24
_PASS_FLOATS = 2**22


class SepFit(NamedTuple):
    """What a run ends with; leading axes where many ran at once. ``covariance`` is packed."""

    mean: Any
    precision: Any
    covariance: Any
    extra: Any
    noise_covariance: Any
    """Packed: how far noise and sampling have spread the mean; see `noise_aware`."""
    extra_variance: Any = 0.0
    """What noise and sampling do to the extras."""


@dataclass(frozen=True, eq=False)
class Assembly:
    """Everything that a run needs but the rows and the noise."""

    program: Program
    setting: Setting
    rates: Rates
    initial: Any


def assemble(
    site: Site,
    settings: SepSettings,
    mechanism: Mechanism | None,
    rows: int,
    row_count: int,
    initial: np.ndarray,
) -> Assembly:
    """Put a run together. ``rows`` is the public number of records; ``row_count`` is the true one,
    which nothing here may follow, not even a shape. No mechanism: no privacy."""
    if mechanism is not None:
        _check(mechanism, settings, site)
    most = max(1, _PASS_FLOATS // (2 * (site.family.dim + site.family.packed)))
    program = Program(
        site=site,
        passes=usual_passes(rows, settings.sampling_rate, most),
        clip=mechanism is not None or math.isfinite(max(settings.bounds)),
    )
    setting = make_setting(settings, program, mechanism, rows)
    return Assembly(program, setting, settings.rates(), np.asarray(initial, np.float32))


def _check(mechanism: Mechanism, settings: SepSettings, site: Site) -> None:
    """The mechanism must account what the settings release."""
    pairs = (
        ("clip_norm", mechanism.clip_norm, settings.clip_norm(site.extras)),
        ("sampling_rate", mechanism.sampling_rate, settings.sampling_rate),
        ("steps", mechanism.steps, settings.steps),
    )
    for name, found, expected in pairs:
        if not math.isclose(found, expected, rel_tol=1e-12):
            raise NoisewiseError(
                f"the mechanism's {name} is {found:g}, the settings say {expected:g}: "
                "make it by settings.mechanism(site.extras)"
            )
    if not all(map(math.isfinite, (*settings.bounds, *(settings.natural_bounds or ())))):
        raise NoisewiseError(f"a private run needs finite bounds, got {settings.bounds}")


def _finish(program: Program, setting: Setting, state: State) -> SepFit:
    """The reported posterior: the averaged mean with the precision as last read."""
    last: Gaussian = read(program.site, setting, state)
    return SepFit(
        state.averaged,
        last.precision,
        last.covariance,
        state.extra,
        program.site.family.pack(state.spread.average),
        state.extra_variance,
    )


@partial(jax.jit, static_argnums=0)
def _run_chunk(
    program: Program, setting: Setting, rows: Rows, state: State, rates: Rates, chunk: Chunk
) -> State:
    """Several steps with randomness from the host."""

    def one(state: State, inputs: Any) -> tuple[State, None]:
        rate, offset, size, noise = inputs
        draws = Draws(chunk.indices, offset, size, noise)
        release = partial(_private, program, setting, rows, draws)
        return step(program, setting, state, rate, release), None

    state, _ = jax.lax.scan(one, state, (rates, chunk.offset, chunk.size, chunk.noise))
    return state


def _private(
    program: Program, setting: Setting, rows: Rows, draws: Draws, records: Callable[[Rows], Array]
) -> Array:
    return noisy_sum(records, rows, draws, setting.grid, *program.passes)


def fit_secure(
    ready: Assembly,
    rows: Rows,
    row_count: int,
    *,
    insecure_seed: int | None = None,
    progress: Callable[[int, np.ndarray], None] | None = None,
) -> SepFit:
    """One fit on real rows: cryptographic noise and batches, streamed in chunks.

    ``progress`` hears the steps done and the mean, which was released, now and then.
    """
    program, setting, rates = ready.program, ready.setting, ready.rates
    scale = np.asarray(setting.noise_scale, float)
    source = SecureSource(row_count, setting.sampling_rate, scale, program.passes, insecure_seed)
    rows = {name: jnp.asarray(column) for name, column in rows.items()}
    state, done = start(program.site, ready.initial), 0
    # By the public number: how often the mean is heard is part of the result.
    pieces = _pieces(len(rates.mean), max(1, round(float(setting.rows))) + program.released)
    for length, chunk in zip(pieces, stream_chunks(source, pieces), strict=True):
        some = Rates(*(jnp.asarray(column[done : done + length]) for column in rates))
        needed = replace(program, passes=program.passes.enough_for(int(chunk.size.max())))
        state = _run_chunk(needed, setting, rows, state, some, chunk)
        done += length
        if progress is not None:
            progress(done, np.asarray(state.mean))
    fit = _finish(program, setting, state)
    return SepFit(*(np.asarray(part) for part in fit))


def _pieces(steps: int, numbers_a_step: int) -> list[int]:
    """Lengths of the chunks, bounded by memory."""
    wanted = min(_CHUNK_STEPS, -(-steps // _CHUNKS))
    length = max(1, min(wanted, _CHUNK_NUMBERS // numbers_a_step))
    whole, rest = divmod(steps, length)
    return [length] * whole + ([rest] if rest else [])


def fit_simulated(ready: Assembly, source: DeviceSource, rows: Rows, key: Array) -> SepFit:
    """One fit wholly on the device, noise from a seed: `jax.vmap` it over rows, starts and keys.

    Not for data about people.
    """
    program, setting = ready.program, ready.setting

    def one(state: State, inputs: tuple[Rates, Array]) -> tuple[State, None]:
        rate, key = inputs
        draws = source.draw(key, setting.noise_scale)
        release = partial(_private, program, setting, rows, draws)
        return step(program, setting, state, rate, release), None

    rates = Rates(*(jnp.asarray(column) for column in ready.rates))
    keys = jax.random.split(key, len(ready.rates.mean))
    state, _ = jax.lax.scan(one, start(program.site, ready.initial), (rates, keys))
    return _finish(program, setting, state)


def fit_unsafe(ready: Assembly, rows: Rows, key: Array | None = None) -> SepFit:
    """SEP without noise, clipped where the bounds are finite: all records at every step, or, with a
    ``key``, a batch of the sampling rate's share of them.

    Sites of a batch move the mean side by side, each weight as if the others stood still. That is
    stable for rates below 2/(the largest eigenvalue of Lambda^-1 H), H the curvature with its
    correlations. A network's weights are strongly correlated: full batches at a rate of 0.3 blow
    up within three steps, many small steps (`network_reference`) do not. The name says it: nothing
    that comes out of here is private.
    """
    program, setting = ready.program, ready.setting
    count = len(next(iter(rows.values())))
    size = count if key is None else max(1, round(setting.sampling_rate * count))

    def one(state: State, inputs: tuple[Rates, Array]) -> tuple[State, None]:
        rate, key = inputs

        def release(records: Callable[[Rows], Array]) -> Array:
            batch = rows
            if size < count:
                drawn = jax.random.randint(key, (size,), 0, count)
                batch = {name: column[drawn] for name, column in rows.items()}
            values = records(batch)
            fine = jnp.all(jnp.isfinite(values), axis=-1, keepdims=True)
            total = jnp.sum(jnp.where(fine, values, 0.0), axis=0)
            return total * (setting.sampling_rate * count / size)

        return step(program, setting, state, rate, release), None

    rates = Rates(*(jnp.asarray(column) for column in ready.rates))
    keys = jax.random.split(jax.random.PRNGKey(0) if key is None else key, len(ready.rates.mean))
    state, _ = jax.lax.scan(one, start(program.site, ready.initial), (rates, keys))
    return _finish(program, setting, state)
