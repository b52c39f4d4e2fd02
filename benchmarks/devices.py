"""What several devices and hosts do for a step: measured on this machine, and passes beyond.

`python -m benchmarks.devices --devices 1 2 --hosts 2` times a small and a large step on so many
virtual devices of one thread each, in processes of their own, and on so many processes that are
joined on this machine. Ratios are to one device. A machine with fewer idle cores than devices shows
what sharing costs, not what it saves; the table of passes is arithmetic, and the same everywhere.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import noisewise as nw

_STEPS, _CHUNKS = 2000, 20
_SIZES = {"small": 30_000, "large": 300_000}
"""Rows, of which a step draws a tenth: a logistic regression on 57 columns, ten guide draws."""
_FEATURES = 57


class _Enough(Exception):
    """Ends a run once enough of it was timed."""


def _measured(size: str, devices: int) -> float:
    """Seconds a step; the first chunk, with its compilation, is left out."""
    import numpy as np

    from noisewise._hosts import Hosts
    from noisewise.data import PrivateRows
    from noisewise.dpvi import Settings, assemble
    from noisewise.engine import Devices, run_secure
    from noisewise.mechanism import Mechanism
    from noisewise.models import build_target
    from noisewise.models.glm import logistic

    rng, rows = np.random.default_rng(0), _SIZES[size]
    X = rng.standard_normal((rows, _FEATURES), np.float32)
    data = {"X": X, "y": rng.integers(0, 2, rows).astype(np.float32)}
    settings = Settings(
        rule="vanilla",
        guide_draws=10,
        clip_norm=5.0,
        learning_rate=1e-3,
        full_curvature=False,
        steps=_STEPS,
        sampling_rate=0.1,
    )
    target = build_target(logistic(), {name: column[:4] for name, column in data.items()})
    mechanism = Mechanism(clip_norm=5.0, sampling_rate=0.1, steps=_STEPS, noise_multiplier=10.0)
    run = assemble(settings, target, mechanism, rows)
    prepared = PrivateRows(target.prepare(data, run.numbers.constants.frame))
    hosts = Hosts.joined()
    if hosts.several:
        prepared = prepared.part(hosts.index, hosts.count)
    ticks: list[tuple[int, float]] = []

    def progress(done: int) -> None:
        ticks.append((done, time.perf_counter()))
        if len(ticks) > _CHUNKS:  # on all hosts at the same one
            raise _Enough

    with suppress(_Enough):
        run_secure(run, prepared, progress=progress, devices=Devices.chosen(devices, hosts))
    (first_step, first_time), (last_step, last_time) = ticks[0], ticks[-1]
    return (last_time - first_time) / (last_step - first_step)


def measure(size: str, devices: int, hosts: int) -> float:
    """Seconds a step, in processes of their own.

    Args:
        size: Of the step.
        devices: Of every host.
        hosts: Processes that are joined.
    """
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    flags = f"--xla_force_host_platform_device_count={devices} --xla_cpu_multi_thread_eigen=false"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "benchmarks.devices", "--measure", size]
    command += ["--devices", str(devices)]
    started = [
        subprocess.Popen(
            [*command, "--join", f"127.0.0.1:{port},{index}/{hosts}"],
            cwd=Path(__file__).parent.parent,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in range(hosts)
    ]
    said = [process.communicate()[0].splitlines()[-1] for process in started]
    return float(json.loads(said[0]))


def passes_table(devices: list[int]) -> list[str]:
    """How many passes each device makes of a step, and how many times fewer that is.

    Args:
        devices: Numbers of devices.
    """
    from noisewise.engine.algorithm import _PASS_FLOATS
    from noisewise.mechanism import passes_of_share, usual_passes

    lines = []
    for batch in (4_000, 40_000, 400_000):
        for floats in (100, 1_000, 10_000):
            count = 100 * batch
            whole = usual_passes(count, 0.01, _PASS_FLOATS // floats)
            cells = []
            for number in devices:
                share = passes_of_share(whole, count, 0.01, number)
                passes = whole.number if number == 1 else share.number
                cells.append(f"{number}: {passes} ({whole.number / passes:.1f})")
            lines.append(f"{batch} records of {floats} floats, passes: " + ", ".join(cells))
    return lines


def main() -> None:
    """Print a line for every size and number of devices, then the passes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--measure", choices=list(_SIZES), help=argparse.SUPPRESS)
    parser.add_argument("--join", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure is not None:
        address, _, place = given.join.partition(",")
        index, count = map(int, place.split("/"))
        if count > 1:
            nw.join_hosts(address, index, count)
        print("\n" + json.dumps(_measured(given.measure, given.devices[0])))
        return
    for size in _SIZES:
        one = measure(size, 1, 1)
        for devices, hosts in [*((k, 1) for k in given.devices), (1, given.hosts)]:
            found = measure(size, devices, hosts)
            print(
                f"{size} step, {hosts} host(s) of {devices} device(s): {1e3 * found:.2f} ms, "
                f"{one / found:.2f} times as fast as one device",
                flush=True,
            )
    print("\n".join(passes_table([1, 2, 4, 8, 16])))


if __name__ == "__main__":
    main()
