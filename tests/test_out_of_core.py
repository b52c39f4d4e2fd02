"""A fit that reads its rows from disk is the fit that holds them in memory, to the last bit.

Not in `engine/`: there programs are compiled in a hurry, and here it matters how they round.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from unittest import mock

import jax
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import noisewise as nw
from engine.algorithms import REPRESENTATIVES, Case, Design, cases
from engine.watching import filled, watched
from noisewise.cli import app
from noisewise.data import PrivateRows, StoredRows
from noisewise.data.files import ColumnWriter
from noisewise.engine import run as driver
from noisewise.engine import run_secure
from noisewise.engine.feeding import _part as parts
from noisewise.mechanism import release_sum
from people import N, make_frame, make_schema

LITTLE = 2**16
"""Bytes of memory that cut every chunk into parts."""


@pytest.fixture(autouse=True, scope="module")
def _compiled_as_in_use():
    """Programs of the engine's own tests were compiled in a hurry, and are not to be met again."""
    jax.clear_caches()


def stored(rows, folder, memory=LITTLE):
    folder.mkdir()
    with ColumnWriter(folder) as writer:
        for part in np.array_split(np.arange(len(next(iter(rows.values())))), 3):
            writer.append({name: np.asarray(column)[part] for name, column in rows.items()})
    return StoredRows(writer.files(), memory)


def doubled(rows):
    """A change that works record by record."""
    return {name: 2 * column for name, column in rows.items()}


def ran(case: Case, rows: PrivateRows):
    run = watched(case, moves=True)
    with mock.patch("noisewise.engine.feeding._part", side_effect=parts) as cut:
        finished = run_secure(run, rows.map(doubled), insecure_seed=5)
    return jax.device_get((finished.kept, finished.state)), cut.call_count


@pytest.mark.parametrize("prepared", [True, False], ids=["prepared", "on the way"])
@pytest.mark.parametrize(
    "name",
    [
        # Half a minute to compile: a whole fit by DPVI is compared below.
        pytest.param(name, marks=pytest.mark.slow if name.startswith("dpvi") else ())
        for name in REPRESENTATIVES
    ],
)
def test_every_release_has_the_bits_that_it_has_in_memory(name, prepared, tmp_path):
    """Also where a chunk of steps is read in parts, and the changes are made to gathered rows."""
    case = cases()[name]
    expected, _ = ran(case, PrivateRows(case.rows))
    with mock.patch("noisewise.engine.feeding._PREPARED_FROM", 1.0 if prepared else np.inf):
        found, number = ran(case, stored(case.rows, tmp_path / "rows"))
    assert number >= 8, "chunks are not cut into parts"
    for one, other in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        assert np.array_equal(one, other)
    assert sorted(path.name[:6] for path in (tmp_path / "rows").iterdir()) == ["column"] * len(
        case.rows
    ), "prepared rows stay behind"


def test_shapes_follow_the_public_count(tmp_path):
    """What is gathered is as long for three records as for forty; numbers of steps, too."""
    case = cases()["dp-em"]
    original, seen = driver._run_chunk, []
    for count in (3, 8, 40):
        shapes = []

        def look(run, rows, state, *more, shapes=shapes):
            shapes.append(jax.tree.map(np.shape, (run.steps, run.passes, rows, more)))
            return original(run, rows, state, *more)

        rows = stored(filled(case.rows, 1.0, count), tmp_path / str(count))
        with mock.patch.object(driver, "_run_chunk", look):
            run_secure(watched(case, Design(rate=0.05)), rows, insecure_seed=0)
        seen.append(shapes)
    assert seen[0] == seen[1] == seen[2]


def test_a_sum_over_stretches_is_the_sum(tmp_path):
    values = np.random.default_rng(0).normal(size=(20_011, 3))
    budget = nw.Budget(epsilon=1.0, delta=1e-6)
    options = {"what": "values", "insecure_seed": 2}
    whole = release_sum(PrivateRows({"values": values}), 1.0, budget, **options)
    rows = stored({"values": values}, tmp_path / "rows")
    assert len(list(rows.unsafe_passes())) == 5
    assert np.array_equal(release_sum(rows, 1.0, budget, **options).total, whole.total)


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """The shared table, as three files."""
    folder = tmp_path_factory.mktemp("people")
    frame = pd.DataFrame(make_frame())
    for number, place in enumerate(np.array_split(np.arange(N), 3)):
        frame.iloc[place].to_parquet(folder / f"part-{number}.parquet", row_group_size=400)
    return folder


def opened(people, tmp_path, schema=None, **options):
    schema = make_schema() if schema is None else schema
    return nw.Table.open(people, schema, cache=tmp_path / "cache", memory="1GiB", **options)


def assert_same(one: nw.Result, other: nw.Result) -> None:
    for name, draws in one.draws.items():
        assert np.array_equal(draws, other.draws[name]), name


def test_a_fit_is_the_fit_in_memory(result, people, tmp_path):
    """With what it buys of the covariates; the shared fit has the same seed."""
    with opened(people, tmp_path) as table:
        found = nw.fit(
            "logistic",
            table,
            budget=nw.Budget(epsilon=1.0, delta=1e-6),
            target="visited",
            features=["age", "sex"],
            steps=1000,
            insecure_seed=1,
        )
    assert_same(result, found)
    assert not (tmp_path / "cache").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("linear", {"target": "cost", "method": "dp-sep", "steps": 60}),
        ("network", {"target": "cost", "method": "dp-sep", "steps": 60}),
        ("mixture(2)", {"steps": 200, "features": ["sex", "visited"]}),
        ("poisson", {"target": "visits", "steps": 200}),
    ],
)
def test_every_method_is_what_it_is_in_memory(model, options, tmp_path):
    """With missing cells, where the method takes them."""
    frame = pd.DataFrame(make_frame())
    schema = make_schema()
    if options.get("method") != "dp-sep":
        gaps = "sex" if "mixture" in model else "age"
        frame.loc[::7, gaps] = None
        columns = [replace(c, missing="allowed") if c.name == gaps else c for c in schema]
        schema = nw.Schema(tuple(columns))
    (tmp_path / "people").mkdir()
    frame.to_parquet(tmp_path / "people" / "all.parquet", row_group_size=1000)
    budget = nw.Budget(epsilon=1.0, delta=1e-6)
    options = options | {"budget": budget, "insecure_seed": 1, "draws": 200}
    expected = nw.fit(model, nw.Table(frame, schema), **options)
    with opened(tmp_path / "people", tmp_path, schema) as table:
        assert_same(expected, nw.fit(model, table, **options))


def test_what_needs_all_rows_says_so(people, tmp_path):
    with opened(people, tmp_path) as table, pytest.raises(nw.NoisewiseError, match=r"Table\.read"):
        table.rows.unsafe_columns()


def test_the_command_line_takes_a_folder(people, tmp_path):
    (tmp_path / "people.toml").write_text(make_schema().to_toml())
    words = ["fit", str(people), "--schema", str(tmp_path / "people.toml"), "--target", "visited"]
    words += ["--features", "age,sex", "--epsilon", "1", "--steps", "1000"]
    words += ["-o", str(tmp_path / "out")]
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 2 and "--cache FOLDER" in refused.stderr
    cache = ["--cache", str(tmp_path / "cache"), "--memory", "1GiB"]
    done = CliRunner().invoke(app, [*words, *cache, "--keep-cache"])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "cache" / "noisewise-cache.json").exists()
    again = CliRunner().invoke(app, [*words, *cache, "--overwrite"])
    assert again.exit_code == 0, again.output
    assert not (tmp_path / "cache").exists()


_PEAK = """
import sys, resource, numpy as np, noisewise as nw
from pathlib import Path
folder = Path(sys.argv[1])
schema = nw.Schema.from_toml(folder / "schema.toml")
with nw.Table.open(folder / sys.argv[2], schema, cache=folder / "cache", memory="1GiB") as table:
    nw.fit("logistic", table, budget=nw.Budget(epsilon=1.0, delta=1e-8), target="ill", steps=50)
lines = Path("/proc/self/status").read_text().splitlines()
print([int(line.split()[1]) for line in lines if line.startswith("VmHWM:")][0])
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="asks Linux for the peak")
def test_memory_does_not_grow_with_the_rows(tmp_path):
    """Ten times as many rows, which take 0.3 GB more in memory as they are encoded alone."""
    schema = nw.Schema(
        (
            *(nw.Column(name=f"x{i}", kind="real", bounds=(0, 1)) for i in range(9)),
            nw.Column(name="ill", kind="binary"),
        )
    )
    (tmp_path / "schema.toml").write_text(schema.to_toml())
    rng = np.random.default_rng(0)
    for name, files in (("few", 1), ("many", 10)):
        (tmp_path / name).mkdir()
        for part in range(files):
            frame = pd.DataFrame(rng.random((400_000, 9)), columns=[f"x{i}" for i in range(9)])
            frame["ill"] = rng.integers(0, 2, len(frame))
            frame.to_parquet(tmp_path / name / f"{part}.parquet", row_group_size=100_000)
    peaks = []
    for name in ("few", "many"):
        done = subprocess.run(
            [sys.executable, "-c", _PEAK, str(tmp_path), name],
            check=True,
            capture_output=True,
            text=True,
        )
        peaks.append(int(done.stdout.split()[-1]) * 1024)
    assert peaks[1] < peaks[0] + 2**27 and peaks[1] < 2**30 + 2**29
