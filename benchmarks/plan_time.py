"""How long `noisewise plan` takes for the demo's regression, compilation included.

python -m benchmarks.plan_time
"""

from __future__ import annotations

import time
from importlib import resources

import jax

import noisewise as nw


def main() -> None:
    """Plan once, from a cold start, and say how long it took."""
    with resources.as_file(resources.files("noisewise.demo") / "randhie.toml") as path:
        schema = nw.Schema.from_toml(path)
    budget = nw.Budget(epsilon=1.0, delta=1e-6)
    kind = jax.devices()[0].device_kind  # starts the device, which is not planning
    start = time.perf_counter()
    made = nw.plan("logistic", schema=schema, rows=20_190, budget=budget, target="visited")
    took = time.perf_counter() - start
    print(f"plan for the demo's regression on {kind}: {took:.0f} s, {made.forecast.fits} fits last")


if __name__ == "__main__":
    main()
