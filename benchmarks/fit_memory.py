"""Peak memory of a long fit against a short one: each in a process of its own."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

from benchmarks import problems
from benchmarks.figure import Figure, from_ratio
from benchmarks.timing import compare
from noisewise.engine import run_secure

NAME = "memory"
_SHORT, _LONG = 1_000, 100_000
_SAMPLING_RATE = 0.01


def measure(quick: bool) -> list[Figure]:
    """Peak memory of 10^5 steps over that of 10^3."""
    rounds = 1 if quick else 3
    ratio = compare(lambda: _in_subprocess(_LONG), lambda: _in_subprocess(_SHORT), rounds)
    return [
        from_ratio(
            ratio,
            name="fit-memory-by-length",
            measurement=NAME,
            what="fit: peak memory with 100 times as many steps",
            settings=f"{_LONG:,} against {_SHORT:,} steps, d = 114, N = 30,162, "
            f"q = {_SAMPLING_RATE:g}, resident set of a fresh process",
            target=1.2,
            at_least=False,
            sides=f"{ratio.first / 2**20:.0f} MiB, {ratio.second / 2**20:.0f} MiB",
        )
    ]


def _in_subprocess(steps: int) -> float:
    command = [sys.executable, "-m", "benchmarks.fit_memory", str(steps)]
    root = Path(__file__).parent.parent
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return float(done.stdout)


def _fit(steps: int) -> None:
    problem = problems.adult_shaped(_SAMPLING_RATE, steps)
    run_secure(problem.run, problem.rows)


def _peak_bytes() -> int:
    """This process's peak resident set.

    Linux lets a child's ru_maxrss start at its parent's peak, so there VmHWM is read instead.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    _fit(int(sys.argv[1]))
    print(_peak_bytes())
