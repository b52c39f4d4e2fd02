"""How much less processor time `noisewise fit` takes in a second process, its programs being kept.

python -m benchmarks.warm_start            # the demo's table, three rounds, about three minutes
python -m benchmarks.warm_start --rounds 1

Each round is a fit with an empty folder for compiled programs and one with what that left behind;
the figure is the ratio of the two's user time, which other work on the machine disturbs less than
the clock.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

from benchmarks.timing import compare
from noisewise._programs import SWITCH
from noisewise.demo import load_table


def main() -> None:
    """Fit the demo's table in new processes, and say what the second of each round saves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_demo(place / "demo.csv")
        round_ = iter(range(2 * options.rounds))

        def fit() -> float:
            number = next(round_)
            return _user_seconds(place, place / f"programs-{number // 2}", place / f"out-{number}")

        found = compare(fit, fit, options.rounds)
    print(
        f"noisewise fit of the demo's table: {found.first:.1f} s of processor with no programs "
        f"kept, {found.second:.1f} s with them: {1 / found.median:.2f} x "
        f"({1 / found.high:.2f} to {1 / found.low:.2f}; {options.rounds} rounds)"
    )


def write_demo(path: Path) -> None:
    """The demo's table as a file, as somebody would have it.

    Args:
        path: Of the CSV file.
    """
    from statsmodels.datasets import randhie

    load_table()  # says what to install where statsmodels is not there
    frame = randhie.load_pandas().data
    frame = frame.assign(visited=(frame["mdvis"] > 0).astype(int)).drop(columns="mdvis")
    frame.to_csv(path, index=False)


def _user_seconds(place: Path, programs: Path, output: Path) -> float:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    environment[SWITCH] = str(programs)
    with resources.as_file(resources.files("noisewise.demo") / "randhie.toml") as schema:
        command = [sys.executable, "-m", "noisewise", "fit", str(place / "demo.csv")]
        command += ["--schema", str(schema), "--target", "visited", "--epsilon", "1"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = subprocess.run([*command, "-o", str(output)], env=environment, capture_output=True)
    if done.returncode:
        raise RuntimeError(done.stderr.decode()[-2000:])
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


if __name__ == "__main__":
    main()
