"""`audit`: attack noisewise's own mechanism."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from noisewise.cli import common


def audit(
    epsilon: Annotated[float, typer.Option(help="What mechanisms are calibrated for.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Likewise.")] = 1e-6,
    mechanisms: Annotated[
        str | None,
        typer.Option(help='Their names or how these begin, separated by ";": "DPVI; bought".'),
    ] = None,
    trials: Annotated[
        int, typer.Option(help="Canaries of every attack; fewer are quicker and show less.")
    ] = 300_000,
    devices: common.NumberOfDevices = "1",
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("audit.html"),
) -> None:
    """Attack the mechanism, by this build on this machine: what is shown of epsilon; no row read.

    Ends with 1 if the claim is refuted.
    """
    with common.one_line_errors():
        from noisewise.audit import audit as run_audit
        from noisewise.mechanism import Budget

        common.check_page(output, ".html")
        names = None if mechanisms is None else [name.strip() for name in mechanisms.split(";")]
        with common.progress_bar("Attacks") as progress:
            found = run_audit(
                budget=Budget(epsilon=epsilon, delta=delta),
                mechanisms=names,
                trials=trials,
                progress=progress,
                devices=common.device_number(devices),
            )
        page = found.report(output)
        _show(found)
        common.out.print(f"\nPage: {page}")
    if found.convicted:
        sys.exit(1)


def _show(found: Any) -> None:
    common.out.print(f"\n{found.verdict.words}", style="bold", highlight=False, markup=False)
    for line in found.verdict.lines:
        common.out.print(f"- {line}", highlight=False, markup=False)
    grid = common.table_of("mechanism", "add-remove", "replace-one", "claimed")
    bounds = found.lower_bounds
    for name in dict.fromkeys(name for name, _ in bounds):
        shown = [bounds.get((name, adjacency)) for adjacency in ("add-remove", "replace-one")]
        cells = ["" if value is None else f"{value:.3f}" for value in shown]
        grid.add_row(common.escaped(name), *cells, f"{found.budget.epsilon:g}")
    common.out.print(grid)
    releases = sum(one.releases for one in found.low_bits)
    off = sum(one.off_grid for one in found.low_bits)
    common.out.print(
        f"low bits: {off:,} of {releases:,} releases off the grid; neighbours' sums: "
        f"{sum(not one.holds for one in found.neighbours)} of {len(found.neighbours)} mechanisms "
        "move by more than is accounted",
        highlight=False,
    )
