"""``python -m benchmarks [NAME ...] [--quick] [--write]``"""

from __future__ import annotations

import argparse
import sys

from benchmarks import (
    adult_step,
    exact_speed,
    fit_memory,
    gamma_step,
    gpu_fit,
    results,
    rule_step,
    step_floor,
    trace_length,
)

MEASUREMENTS = {
    module.NAME: module
    for module in (
        adult_step,
        gamma_step,
        rule_step,
        step_floor,
        exact_speed,
        trace_length,
        fit_memory,
        gpu_fit,
    )
}


def main() -> None:
    """Measure what was named, or everything; print the table; keep it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MEASUREMENTS))
    parser.add_argument("--quick", action="store_true", help="fewer rounds, shorter chains")
    parser.add_argument(
        "--write",
        action="store_true",
        help="measure nothing; put bench-out/results.json into benchmarks/README.md",
    )
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in MEASUREMENTS]:
        parser.error(f"unknown measurement {unknown[0]!r}: choose from {', '.join(MEASUREMENTS)}")
    if options.write:
        results.write_readme()
        return
    measured = []
    for name in options.names or MEASUREMENTS:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        measured += MEASUREMENTS[name].measure(options.quick)
        results.keep(measured)
    print(f"{results.environment()}\n\n{results.table(measured)}")


if __name__ == "__main__":
    main()
