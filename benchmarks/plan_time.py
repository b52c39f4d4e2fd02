"""What planning and fitting cost from a cold start, compilation included.

python -m benchmarks.plan_time                          # a plan for the demo's regression
python -m benchmarks.plan_time --table adult --data DIR  # 38 coefficients
python -m benchmarks.plan_time --table adult --data DIR --what fit

Seconds of processor time say more than the clock's, on a machine that does other work as well.
DIR holds UCI's Adult, in ``adult/adult.data.gz``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import jax
import numpy as np

import noisewise as nw
from benchmarks import real_tables
from noisewise.demo import load_table

BUDGET = nw.Budget(epsilon=1.0, delta=1e-6)


def main() -> None:
    """Plan or fit once, and say how long it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", choices=("demo", "adult"), default="demo")
    parser.add_argument("--what", choices=("plan", "fit"), default="plan")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    options = parser.parse_args()
    table, target = (load_table(), "visited") if options.table == "demo" else adult(options.data)
    kind = jax.devices()[0].device_kind  # starts the device, which is neither
    start, processor = time.perf_counter(), time.process_time()
    if options.what == "plan":
        rows = len(table)
        made = nw.plan("logistic", schema=table.schema, rows=rows, budget=BUDGET, target=target)
        found = f"{made.forecast.fits} fits last, mean expected sd {np.mean(made.forecast.sd):.3g}"
    else:
        fitted = nw.fit("logistic", table, budget=BUDGET, target=target)
        found = f"status {fitted.status.value}"
    took, used = time.perf_counter() - start, time.process_time() - processor
    print(
        f"{options.what} of {options.table}'s regression on {kind}: {used:.0f} s of processor, "
        f"{took:.0f} s; {found}"
    )


def adult(folder: Path) -> tuple[nw.Table, str]:
    """Adult as a new user would declare it: 32,561 rows, 38 coefficients.

    Args:
        folder: Of the data sets.
    """
    found = real_tables.read("adult", folder)
    outcome = nw.Column(name="income", kind="binary")
    lines = real_tables.adult_column(folder, "income")
    arrays = found.arrays | {"income": np.char.startswith(lines, ">50K").astype(np.int8)}
    return nw.Table.from_arrays(arrays, found.schema(outcome), allow_constant=True), "income"


if __name__ == "__main__":
    main()
