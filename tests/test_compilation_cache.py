"""JAX may keep compiled programs on disk: no row may be a constant of one (see `cached_fits`)."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from jax._src import compilation_cache

import noisewise
from cached_fits import WAYS
from private_copies import copies, private_cells

QUICK = ("command", "one by one")


@pytest.fixture
def cached(tmp_path):
    """Run ways to fit in a process of their own; the cells in all forms, and the programs."""

    def run(*ways):
        program = Path(__file__).with_name("cached_fits.py")
        paths = [str(Path(noisewise.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        # The cache of the tests would hide what was compiled before.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
        environment |= {"PYTHONPATH": os.pathsep.join(paths), "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, str(program), str(tmp_path), *ways]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        with np.load(tmp_path / "rows.npz") as rows:
            cells = private_cells([rows[name] for name in rows.files])
        programs = {
            path.name: compilation_cache.decompress_executable(path.read_bytes())
            for path in (tmp_path / "cache").rglob("*-cache")
        }
        return cells, programs

    return run


def found(cells, programs):
    return sorted({line.split("-")[0] for line in copies(cells, programs)})


def test_rows_are_no_constants_of_quick_programs(cached):
    cells, programs = cached(*QUICK)
    assert len(cells.eights) > 1000 and len(programs) > 10
    assert any("run_chunk" in name for name in programs)
    assert found(cells, programs) == []


def test_a_careless_program_is_found(cached):
    cells, programs = cached("careless")
    assert found(cells, programs) != []


@pytest.mark.slow
@pytest.mark.parametrize("way", [way for way in WAYS if way not in (*QUICK, "careless")])
def test_rows_are_no_constants_of_any_program(cached, way):
    cells, programs = cached(way)
    # DP-EM takes eight programs, the others more: that the cache was written at all.
    assert len(cells.eights) > 500 and len(programs) > 5
    assert found(cells, programs) == []
