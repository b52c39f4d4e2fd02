"""What commands share: options, consoles, tables, progress, one-line errors."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table as Grid

from noisewise._validate import NoisewiseError

out, err = Console(), Console(stderr=True)

Epsilon = Annotated[float, typer.Option(help="Privacy budget epsilon: smaller is more private.")]
Delta = Annotated[float, typer.Option(help="Privacy budget delta: well below 1 / rows.")]
Model = Annotated[
    str, typer.Option(help="logistic, poisson, linear, mixture, or path/to/model.py:function.")
]
Target = Annotated[str | None, typer.Option(help="The column that the model explains.")]
Features = Annotated[
    str | None, typer.Option(help="Columns of X, separated by commas (all but the target).")
]
Adjacency = Annotated[str, typer.Option(help="add-remove or replace-one.")]
PublicRows = Annotated[
    Path | None, typer.Option(help="PUBLIC rows with the schema's covariates: .csv or .parquet.")
]


@contextmanager
def one_line_errors() -> Iterator[None]:
    """What went wrong in one line, and exit code 2; warnings in one line too."""

    def warn(message: Warning | str, *_: Any, **__: Any) -> None:
        err.print(f"warning: {message}", style="yellow", highlight=False, markup=False)

    original = warnings.showwarning
    warnings.showwarning = warn
    try:
        yield
    except NoisewiseError as error:
        err.print(f"error: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        sys.exit(2)
    finally:
        warnings.showwarning = original


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on a terminal; silence elsewhere."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("Planning on simulated data", total=None)

        def update(done: int, steps: int) -> None:
            bar.update(task, description=title, completed=done, total=steps)

        yield update


def check_page(path: Path, suffix: str) -> None:
    """Refuse an output that could not be written, before hours of simulation."""
    if path.suffix != suffix:
        raise NoisewiseError(f"the output {path} must end in {suffix}")
    if not path.parent.is_dir():
        raise NoisewiseError(f"the folder {path.parent} of the output does not exist")


def listed(names: str | None) -> list[str] | None:
    return names.split(",") if names else None


def read_public_sample(path: Path | None, schema: Any) -> Any:
    from noisewise.data import PublicSample

    return None if path is None else PublicSample.read(path, schema)


def table_of(*headings: str) -> Grid:
    """An empty table in the one look that all commands have."""
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        grid.add_column(heading)
    return grid


def escaped(text: str) -> str:
    return text.replace("[", "\\[")
