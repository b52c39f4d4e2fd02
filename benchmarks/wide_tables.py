"""What a fit of a wide table takes: seconds of processor, seconds, and peak memory.

python -m benchmarks.wide_tables                     # 300, 1000 features; 500 levels
python -m benchmarks.wide_tables --steps 4000 1000  # a thousand features, the usual number of steps

Each in a fresh process, compilation included. Data are simulated: standard normal features, or one
category with levels of one size and a feature.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import numpy as np

import noisewise as nw

ROWS = 20_000
_LEVELS = "levels"


def main() -> None:
    """Fit each table in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", default=["300", "1000", f"500-{_LEVELS}"])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--here", action="store_true", help="in this process")
    options = parser.parse_args()
    for table in options.tables:
        if options.here:
            measure(table, options.steps)
            continue
        command = [sys.executable, "-m", "benchmarks.wide_tables", "--here", table]
        subprocess.run([*command, "--steps", str(options.steps)], check=True)


def measure(name: str, steps: int) -> None:
    """Fit one table and say what it took.

    Args:
        name: A number of features, or of levels.
        steps: Of the fit.
    """
    table = levels(int(name.split("-")[0])) if name.endswith(_LEVELS) else features(int(name))
    start, processor = time.perf_counter(), time.process_time()
    budget = nw.Budget(epsilon=1.0, delta=1e-6)
    nw.fit("logistic", table, budget=budget, target="ill", steps=steps)
    took, used = time.perf_counter() - start, time.process_time() - processor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    what = name.replace("-", " ") if name.endswith(_LEVELS) else f"{name} features"
    print(
        f"logistic, {ROWS:,} rows, {what}, {steps} steps: {used:.0f} s of processor, {took:.0f} s, "
        f"peak {peak:.1f} GiB",
        flush=True,
    )


def features(count: int) -> nw.Table:
    """Standard normal columns.

    Args:
        count: Of them.
    """
    rng = np.random.default_rng(0)
    arrays = {f"x{k}": rng.normal(size=ROWS).clip(-3, 3) for k in range(count)}
    return _table(arrays, [_real(name) for name in arrays])


def levels(count: int) -> nw.Table:
    """A category and one standard normal column.

    Args:
        count: Of the category's levels.
    """
    rng = np.random.default_rng(0)
    ward = nw.Column(name="ward", kind="category", categories=tuple(map(str, range(count))))
    arrays = {"ward": rng.integers(0, count, ROWS).astype(np.int32)}
    return _table(arrays | {"x0": rng.normal(size=ROWS).clip(-3, 3)}, [ward, _real("x0")])


def _real(name: str) -> nw.Column:
    return nw.Column(name=name, kind="real", bounds=(-3, 3))


def _table(arrays: dict[str, np.ndarray], columns: list[nw.Column]) -> nw.Table:
    chance = 1 / (1 + np.exp(-arrays["x0"]))
    outcome = (np.random.default_rng(1).random(ROWS) < chance).astype(np.int8)
    schema = nw.Schema((*columns, nw.Column(name="ill", kind="binary")))
    return nw.Table.from_arrays(arrays | {"ill": outcome}, schema, allow_constant=True)


if __name__ == "__main__":
    main()
