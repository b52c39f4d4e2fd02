"""A whole Adult-shaped fit on a GPU: the one absolute time."""

from __future__ import annotations

import jax
import numpy as np

from benchmarks import problems
from benchmarks.figure import Figure
from benchmarks.timing import seconds
from noisewise.engine import run_secure

NAME = "gpu"


def measure(quick: bool) -> list[Figure]:
    """Seconds for 10^4 steps after compilation; nothing where there is no GPU."""
    if jax.default_backend() != "gpu":
        return []
    problem = problems.adult_shaped()

    def fit() -> None:
        run_secure(problem.run, problem.rows)

    fit()
    times = [seconds(fit) for _ in range(3 if quick else 9)]
    return [
        Figure(
            name="gpu-fit",
            measurement=NAME,
            what="Adult-shaped fit on a GPU, secure host noise included",
            settings=f"{problem.row_count:,} x {problem.target.dim}, q = 0.1, "
            f"{problems.GUIDE_DRAWS} draws, {problems.STEPS:,} steps, compilation left out",
            value=float(np.median(times)),
            low=min(times),
            high=max(times),
            rounds=len(times),
            target=1.0,
            at_least=False,
            unit="s",
            sides=jax.devices()[0].device_kind,
        )
    ]
