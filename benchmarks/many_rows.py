"""A fit of many rows from disk, in a process of its own: time and peak memory.

`python -m benchmarks.many_rows --folder FOLDER --rows 1000000 100000000` writes Parquet files of
ten columns into the folder, keeps them for the next run, and deletes the encoded rows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import noisewise as nw
from benchmarks.fit_memory import _peak_bytes

_PER_FILE = 2_000_000
_FEATURES = 6
_LEVELS = ("none", "some", "more", "most")
_SCHEMA = nw.Schema(
    (
        *(nw.Column(name=f"x{i}", kind="real", bounds=(-6, 6)) for i in range(_FEATURES)),
        nw.Column(name="stage", kind="category", categories=_LEVELS),
        nw.Column(name="visits", kind="count", bounds=(0, 50)),
        nw.Column(name="smoker", kind="binary"),
        nw.Column(name="ill", kind="binary"),
    )
)


def write_dataset(folder: Path, rows: int) -> None:
    """Simulated people, a file for every two million; what is there already stays.

    Args:
        folder: Where the files go.
        rows: How many people.
    """
    import pyarrow
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, rows, _PER_FILE)):
        path = folder / f"part-{number:04}.parquet"
        if path.exists():
            continue
        rng, n = np.random.default_rng([rows, number]), min(_PER_FILE, rows - first)
        x = np.clip(rng.standard_normal((n, _FEATURES), np.float32), -6, 6)
        columns = {f"x{i}": x[:, i] for i in range(_FEATURES)}
        stage, smoker = rng.integers(0, 4, n, np.int8), rng.integers(0, 2, n, np.int8)
        eta = -0.5 + 0.4 * x[:, 0] - 0.3 * x[:, 1] + 0.5 * smoker + 0.2 * stage
        ill = (rng.random(n, np.float32) < 1 / (1 + np.exp(-eta))).astype(np.int8)
        more = {"visits": np.minimum(rng.poisson(2.0, n), 50).astype(np.int16)}
        more |= {"smoker": smoker, "ill": ill}
        levels = pyarrow.DictionaryArray.from_arrays(stage, pyarrow.array(_LEVELS))
        table = pyarrow.table(columns | {"stage": levels} | more)
        parquet.write_table(table, path, row_group_size=500_000, compression="none")


def measure(source: Path, cache: Path, memory: str, share: float | None) -> dict[str, float]:
    """Seconds and peak memory of a fit in a process of its own.

    Args:
        source: Of the files.
        cache: A folder for the encoded rows.
        memory: As `Table.open` takes it; ``"all"`` is a table in memory.
        share: Of the budget for the covariates' shape.
    """
    command = [sys.executable, "-m", "benchmarks.many_rows", "--measure", str(source)]
    command += ["--cache", str(cache), "--memory", memory]
    command += [] if share is None else ["--covariate-share", str(share)]
    root = Path(__file__).parent.parent
    done = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _measured(source: Path, cache: Path, memory: str, share: float | None) -> dict[str, float]:
    began = time.perf_counter()
    if memory == "all":
        import pyarrow.dataset

        rows = pyarrow.dataset.dataset(source).to_table()
        table = nw.Table(rows, _SCHEMA)
        del rows
    else:
        table = nw.Table.open(source, _SCHEMA, cache=cache, memory=memory)
    opened, stepped = time.perf_counter(), 0.0

    def first_step(done: int, steps: int) -> None:
        nonlocal stepped
        stepped = stepped or time.perf_counter()

    budget = nw.Budget(epsilon=1.0, delta=1e-10)
    with table:
        nw.fit(
            "logistic",
            table,
            budget=budget,
            target="ill",
            covariate_share=share,
            progress=first_step,
        )
    ended = time.perf_counter()
    return {
        "open": opened - began,
        "until the first steps": stepped - opened,
        "steps and posterior": ended - stepped,
        "peak GiB": _peak_bytes() / 2**30,
    }


def main() -> None:
    """Print a line for every number of rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="for the files and the encoded rows")
    parser.add_argument("--rows", type=int, nargs="+", default=[10**6, 10**7])
    parser.add_argument("--memory", default="2GiB")
    parser.add_argument("--covariate-share", type=float)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--cache", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure is not None:
        found = _measured(given.measure, given.cache, given.memory, given.covariate_share)
        print(json.dumps(found))
        return
    if given.folder is None:
        parser.error("--folder is needed: it gets the files and the encoded rows")
    for rows in given.rows:
        source = given.folder / f"rows-{rows}"
        write_dataset(source, rows)
        found = measure(source, given.folder / "cache", given.memory, given.covariate_share)
        print(f"{rows:.0e} rows:", ", ".join(f"{k} {v:.2f}" for k, v in found.items()), flush=True)


if __name__ == "__main__":
    main()
