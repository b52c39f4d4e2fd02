"""The exact noise-aware posterior against NUTS over the stored trace, as the paper ran it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks import problems
from benchmarks.figure import Figure, from_ratio, milliseconds
from benchmarks.timing import compare, seconds
from noisewise.dpvi import FullTrace, trace_of
from noisewise.engine import run_secure
from noisewise.posterior import FitContext, exact, nuts
from noisewise.posterior.burn_in import find_burn_in
from noisewise.posterior.trace_model import TraceModel, diagonal_model

NAME = "exact"
_WARMUP, _DRAWS = 1000, 4000


class _Kept(NamedTuple):
    model: TraceModel
    steps: FullTrace


def measure(quick: bool) -> list[Figure]:
    """How many times faster exact is."""
    kept = _kept_trace()
    warmup, draws = (50, 200) if quick else (_WARMUP, _DRAWS)
    scale = (_WARMUP + _DRAWS) / (warmup + draws)

    def chain() -> float:
        # Every call compiles; a chain of two steps costs the compilation and little else.
        compilation = seconds(lambda: _nuts(kept, 1, 1))
        return scale * (seconds(lambda: _nuts(kept, warmup, draws)) - compilation)

    def direct() -> float:
        return seconds(lambda: exact.infer(kept.model, _DRAWS, np.random.default_rng(0)), times=20)

    direct(), _nuts(kept, 1, 1)
    # A whole chain takes minutes, so only its scaled-up part is repeated.
    ratio = compare(chain, direct, 3 if quick else 1)
    ran = f"NUTS {_WARMUP} + {_DRAWS} steps"
    if quick:
        ran += f", scaled from {warmup} + {draws}"
    return [
        from_ratio(
            ratio,
            name="exact-against-nuts",
            measurement=NAME,
            what="exact posterior: how many times faster than NUTS over the stored trace",
            settings=f"10-D regression, trace of {problems.STEPS:,} steps "
            f"({len(kept.steps.parameters):,} kept) x {kept.steps.parameters.shape[1]}, {ran}, "
            f"compilation left out; exact: {_DRAWS} draws",
            target=1000.0,
            at_least=True,
            sides=f"NUTS {ratio.first:.3g} s, exact {milliseconds(ratio.second)}",
        )
    ]


def _nuts(kept: _Kept, warmup: int, draws: int) -> None:
    nuts.infer(kept.model, draws, np.random.default_rng(0), warmup=warmup, steps=kept.steps)


def _kept_trace() -> _Kept:
    problem = problems.ten_dimensional_regression()
    trace = trace_of(run_secure(problem.run, problem.rows, insecure_seed=0), problem.run)
    blocks = find_burn_in(trace, problem.settings.burn_in).blocks
    context = FitContext.of(problem.run, problem.settings)
    model = diagonal_model(trace.statistics(blocks), context)
    first = int(np.asarray(trace.blocks.count)[:blocks].sum())
    assert trace.full is not None
    steps = FullTrace(*(np.asarray(part[first:], float) for part in trace.full))
    return _Kept(model, steps)
