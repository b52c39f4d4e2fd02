"""`demo`: a private fit of real health data, beside what it would be without privacy."""

from pathlib import Path
from typing import Annotated, Any

import typer

from noisewise._files import check_writable
from noisewise.cli import common

_PAGE = Path("demo-report.html")


def demo(
    epsilon: common.Epsilon = 1.0,
    delta: common.Delta = 1e-6,
    output: Annotated[Path, typer.Option("--output", "-o", help="The report.")] = _PAGE,
) -> None:
    """A private logistic regression on real health data that ship with statsmodels."""
    with common.one_line_errors():
        check_writable(output)
        from noisewise import demo as example
        from noisewise.mechanism import Budget

        common.out.print(
            "RAND Health Insurance Experiment: who visited a doctor in a year?\n"
            f"Private logistic regression, epsilon {epsilon:g}, delta {delta:g}."
        )
        with common.progress_bar("Private fit") as progress:
            budget = Budget(epsilon=epsilon, delta=delta)
            result, rows = example.run(budget, progress)
        path = result.report(output)
        _show_comparison(rows)
        common.out.print()
        common.out.print(str(result.privacy), highlight=False, markup=False)
        common.out.print(f"\nStatus: {result.status.words}.\nReport: {path}")


def _show_comparison(rows: list[Any]) -> None:
    common.out.print("\nCoefficients: mean and 95% interval")
    grid = common.table_of()
    grid.add_column("", no_wrap=True)
    grid.add_column("private,\nnoise-aware", style="bold", no_wrap=True)
    grid.add_column("plain DPVI\nNOT FOR RELEASE", style="dim", no_wrap=True)
    grid.add_column("non-private\nNOT FOR RELEASE", style="dim", no_wrap=True)
    for row in rows:
        cells = [f"{mean:5.2f} [{low:5.2f},{high:5.2f}]" for low, mean, high in row[1:]]
        grid.add_row(row.name, *map(common.escaped, cells))
    common.out.print(grid)
    common.out.print("Plain DPVI ignores the noise; non-private comes from the raw rows.\n")
    for label, field in (("noise-aware", "noise_aware"), ("plain DPVI", "noise_unaware")):
        intervals = [(getattr(row, field), row.unsafe_non_private[1]) for row in rows]
        held = sum(low <= estimate <= high for (low, _, high), estimate in intervals)
        common.out.print(
            f"{label} intervals that hold the non-private estimate: {held} of {len(rows)}"
        )
