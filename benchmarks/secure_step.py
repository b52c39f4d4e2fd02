"""The library's step as a real fit takes it: `run_secure`, host noise included."""

from __future__ import annotations

import contextlib
import time

from benchmarks.problems import Problem
from noisewise.engine import run_secure


class _Enough(Exception):
    """Ends a long run once enough of it was timed."""


def seconds_a_step(problem: Problem, chunks: int) -> float:
    """Time a step over ``chunks`` chunks of a run, the first one (start, compilation) left out.

    The run is as long as the settings say and cut short: a shorter one would have smaller chunks.
    """
    ticks: list[tuple[int, float]] = []

    def progress(done: int) -> None:
        ticks.append((done, time.perf_counter()))
        if len(ticks) > chunks:
            raise _Enough

    with contextlib.suppress(_Enough):
        run_secure(problem.run, problem.rows, progress=progress)
    (first_step, first_time), (last_step, last_time) = ticks[0], ticks[-1]
    return (last_time - first_time) / (last_step - first_step)
