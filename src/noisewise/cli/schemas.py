"""`schema`: from a header or a codebook to a schema, and what it still lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from noisewise._files import whole_file
from noisewise._validate import NoisewiseError, shown
from noisewise.cli import common

schema = typer.Typer(
    help="A schema file: begin one from a header or a codebook, and see what it lacks.",
    no_args_is_help=True,
)
_WORTH_SAYING = 1.05
_Narrower = Annotated[
    list[str] | None,
    typer.Option(help="Bounds to compare a column's with, as age=0:90; may be repeated."),
]


def new(
    source: Annotated[
        Path,
        typer.Argument(
            help="The table (.csv, .csv.gz, .parquet), or its description (.json): CSVW, a "
            "Frictionless data package or table schema."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The schema file; named as the source unless given."),
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an earlier file.")] = False,
) -> None:
    """Begin a schema: names and types, with comments on what to fill in; no value is read."""
    with common.one_line_errors():
        from noisewise.data import draft_of_file

        if output is None:
            output = Path(source.name.removesuffix(".gz")).with_suffix(".toml")
        common.check_page(output, ".toml")
        if output.exists() and not overwrite:
            raise NoisewiseError(f"{output} exists already: name another, or pass --overwrite")
        text = draft_of_file(source)
        with whole_file(output) as place:
            place.write_text(text, encoding="utf-8")
        suffix = source.suffix.lower()
        read = "the names of its columns were read, and how they are stored; no value was"
        if suffix == ".json":
            read = "its types, bounds and categories were taken; no data file was read"
        elif suffix != ".parquet":
            read = "its first line was taken for the names of its columns; no value was read"
        common.out.print(
            f"Made {output} from {source}: {read}.\n"
            f"Next: fill in what is marked with a question mark, then noisewise schema check "
            f"{output}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def check(
    file: Annotated[Path, typer.Argument(help="The schema file, complete or not.")],
    rows: Annotated[
        int | None, typer.Option(help="Number of rows, to simulate what declarations cost.")
    ] = None,
    target: common.Target = None,
    model: common.Model = "logistic",
    epsilon: common.Epsilon = 1.0,
    delta: common.Delta = 1e-6,
    covariate_share: common.CovariateShare = None,
    narrower: _Narrower = None,
) -> None:
    """Say what is missing and, given --rows and --target, what declarations cost; reads no row."""
    with common.one_line_errors():
        from noisewise.data import review_schema

        found = review_schema(file)
        _print(f"{file} is incomplete:" if found.faults else f"{file} can be used.")
        for line in found.faults:
            _print(f"- {line}", style="red")
        if found.hints:
            _print("\nLeft open, which is allowed:")
        for line in found.hints:
            _print(f"- {line}")
        if found.schema is None:
            raise typer.Exit(1)
        rows = found.schema.public_count if rows is None else rows
        if rows is None or target is None:
            if narrower:
                raise NoisewiseError("--narrower is tried by simulation: add --rows and --target")
            _print("\nWith --rows and --target, what this costs is simulated.")
            return
        _show_costs(
            found.schema,
            rows,
            target,
            model=model,
            budget=(epsilon, delta),
            covariate_share=covariate_share,
            narrower=dict(map(_read_bounds, narrower or ())),
        )


def json_schema() -> None:
    """Print the JSON Schema of schema files, by which editors complete and check them."""
    from noisewise.data import json_schema_text

    typer.echo(json_schema_text())


def _show_costs(
    declared: Any, rows: int, target: str, *, budget: tuple[float, float], **options: Any
) -> None:
    from noisewise.mechanism import Budget
    from noisewise.planning import declaration_costs

    whole = Budget(epsilon=budget[0], delta=budget[1])
    with common.progress_bar("Columns") as progress:
        costs = declaration_costs(declared, rows, whole, target, progress=progress, **options)
    _print(
        f"\nWhat it costs at epsilon {budget[0]:g} and {rows} rows, each column alone, simulated:"
    )
    dear = [cost for cost in costs if cost.ratio > _WORTH_SAYING or cost.hidden or cost.nothing]
    for cost in dear:
        _print(f"- {cost.words}")
    if cheap := [f"{cost.column} ({cost.instead})" for cost in costs if cost not in dear]:
        _print(f"- nothing, even if values lie closer together: {', '.join(cheap)}")
    if not costs:
        _print("- nothing: no covariate has wide bounds or undeclared shares")


def _read_bounds(text: str) -> tuple[str, tuple[float, float]]:
    name, _, ends = text.rpartition("=")
    low, _, high = ends.partition(":")
    try:
        return name, (float(low), float(high))
    except ValueError:
        raise NoisewiseError(f"--narrower must be like age=0:90, got {shown(text)}") from None


def _print(text: str, **style: Any) -> None:
    common.out.print(text, highlight=False, markup=False, soft_wrap=True, **style)


for _command, _name in ((new, "new"), (check, "check"), (json_schema, "json")):
    schema.command(_name)(common.speaking_flags(_command))
