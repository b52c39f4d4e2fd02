"""Where figures are kept (bench-out/results.json) and shown (benchmarks/README.md)."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path

import jax

from benchmarks.figure import HEAD, Figure

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench-out" / "results.json"
README = ROOT / "benchmarks" / "README.md"


def environment() -> str:
    """The machine and the versions, in a line."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    device = jax.devices()[0]
    return (
        f"jax {jax.__version__}, Python {platform.python_version()}, {platform.machine()}, "
        f"{cores} cores, device {device.platform} ({device.device_kind})"
    )


def load() -> tuple[str, list[Figure]]:
    """The kept environment and figures."""
    if not RESULTS.exists():
        raise SystemExit(f"{RESULTS} is not there: run python -m benchmarks first")
    plain = json.loads(RESULTS.read_text())
    return plain["environment"], [Figure(**figure) for figure in plain["figures"]]


def keep(measured: list[Figure]) -> list[Figure]:
    """Write the figures, beside earlier ones of the same environment that were not measured now.

    Ratios of different runs may stand side by side; each is of one run.
    """
    here = environment()
    figures = {figure.name: figure for figure in measured}
    if RESULTS.exists():
        where, earlier = load()
        if where == here:
            figures = {figure.name: figure for figure in earlier} | figures
    RESULTS.parent.mkdir(exist_ok=True)
    plain = {"environment": here, "figures": [f.to_dict() for f in figures.values()]}
    RESULTS.write_text(json.dumps(plain, indent=2) + "\n")
    return list(figures.values())


def table(figures: list[Figure]) -> str:
    """A Markdown table."""
    return "\n".join([HEAD, *(figure.row() for figure in figures)])


def write_readme() -> None:
    """Put the kept figures between the markers of the README."""
    where, figures = load()
    write_between(README, "figures", f"{where}.\n\n{table(figures)}")


def write_between(page: Path, name: str, text: str) -> None:
    """Replace what stands between a page's markers of this name."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = page.read_text().partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")
