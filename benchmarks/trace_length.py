"""The exact posterior's time and memory do not grow with the number of steps."""

from __future__ import annotations

import tracemalloc

import numpy as np

from benchmarks.figure import Figure, from_ratio, milliseconds
from benchmarks.timing import compare, seconds
from noisewise.dpvi import BLOCKS, BlockSums, Trace
from noisewise.posterior import exact
from noisewise.posterior.trace_model import TraceModel, paper_priors

NAME = "length"
_SHORT, _LONG = 1_000, 100_000
_COORDINATES, _DRAWS = 24, 4000
_SAMPLING_RATE = 0.1
_NOISE = 10.0


def measure(quick: bool) -> list[Figure]:
    """Time and peak memory after 10^5 steps over those after 10^3."""
    short, long = _synthetic_trace(_SHORT), _synthetic_trace(_LONG)
    settings = f"{_LONG:,} against {_SHORT:,} steps, {_COORDINATES} coordinates, {_DRAWS} draws"
    _infer(short), _infer(long)
    time = compare(
        lambda: seconds(lambda: _infer(long), times=10),
        lambda: seconds(lambda: _infer(short), times=10),
        10 if quick else 30,
    )
    memory = compare(lambda: _peak_bytes(long), lambda: _peak_bytes(short), 3)
    return [
        from_ratio(
            time,
            name="exact-time-by-length",
            measurement=NAME,
            what="exact posterior: time after a trace 100 times as long",
            settings=settings,
            target=1.2,
            at_least=False,
            sides=f"{milliseconds(time.first)}, {milliseconds(time.second)}",
        ),
        from_ratio(
            memory,
            name="exact-memory-by-length",
            measurement=NAME,
            what="exact posterior: peak memory after a trace 100 times as long (tracemalloc)",
            settings=settings,
            target=1.01,
            at_least=False,
            sides=f"{memory.first / 2**20:.3g} MiB, {memory.second / 2**20:.3g} MiB",
        ),
    ]


def _infer(trace: Trace) -> None:
    """From released block sums to draws: everything that happens after the scan."""
    statistics = trace.statistics(burn_in=BLOCKS // 5)
    noise_variance = np.full(_COORDINATES, _NOISE**2)
    priors = paper_priors(statistics, _SAMPLING_RATE, noise_variance)
    model = TraceModel(statistics, _SAMPLING_RATE, noise_variance, priors)
    exact.infer(model, _DRAWS, np.random.default_rng(0))


def _peak_bytes(trace: Trace) -> float:
    tracemalloc.start()
    try:
        _infer(trace)
        return float(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def _synthetic_trace(steps: int) -> Trace:
    """Block sums of the linear model itself: curvature 100, twenty time constants."""
    rng = np.random.default_rng(0)
    curvature, rate = 100.0, 20 / steps
    phi, parameters, gradients = np.zeros(_COORDINATES), [], []
    for shock in rng.standard_normal((steps, _COORDINATES)):
        gradient = _SAMPLING_RATE * curvature * phi + _NOISE * shock
        parameters.append(phi)
        gradients.append(gradient)
        phi = phi - rate / (_SAMPLING_RATE * curvature) * gradient
    shape = (BLOCKS, steps // BLOCKS, _COORDINATES)
    phis, released = (np.reshape(part, shape) for part in (parameters, gradients))
    shifts = phis - phis[:, :1]
    blocks = BlockSums(
        count=np.full(BLOCKS, float(shape[1])),
        start=phis[:, 0],
        shift=shifts.sum(1),
        gradient=released.sum(1),
        shift_shift=(shifts**2).sum(1),
        gradient_shift=(released * shifts).sum(1),
        gradient_gradient=(released**2).sum(1),
        squares=(shifts**2).sum(1),
    )
    return Trace(blocks, phi)
