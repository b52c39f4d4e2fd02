"""A private run of DPVI as a trace, shared by the tests of DPVI and of its posteriors."""

from __future__ import annotations

from typing import Any

from noisewise.data import PrivateRows, Rows
from noisewise.dpvi import Trace, trace_of
from noisewise.engine import Run, run_secure


def traced(run: Run, rows: Rows, **more: Any) -> Trace:
    """The trace of a run on prepared rows; ``more`` goes to `run_secure`."""
    return trace_of(run_secure(run, PrivateRows(rows), **more), run)
