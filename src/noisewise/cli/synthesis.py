"""`synthesize`: tables from a saved result, with the certificate and a page about them."""

from pathlib import Path
from typing import Annotated

import typer

from noisewise._files import check_writable, write_or_rescue
from noisewise.cli.common import ResultFolder, one_line_errors, out, progress_bar


def synthesize(
    folder: ResultFolder,
    copies: Annotated[
        int, typer.Option(help="Tables, each from one posterior draw; pool analyses over them.")
    ] = 100,
    rows: Annotated[
        int | None, typer.Option(help="Rows of a table; else the fit's public number.")
    ] = None,
    format: Annotated[str, typer.Option(help="csv or parquet.")] = "csv",
    model: Annotated[
        str | None,
        typer.Option(help="path/to/model.py:function, where the fit was of a model of yours."),
    ] = None,
    covariates: Annotated[
        Path | None,
        typer.Option(help="PUBLIC rows with a regression's covariates: .csv or .parquet."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Makes the tables repeatable; needs no secrecy.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="New folder (FOLDER/synthetic).")
    ] = None,
) -> None:
    """Synthetic tables that carry the posterior's uncertainty, at no further privacy cost."""
    with one_line_errors():
        from noisewise._validate import NoisewiseError, one_of
        from noisewise.data import PublicSample
        from noisewise.result import Result
        from noisewise.synthetic import synthesize as make_tables
        from noisewise.synthetic.tables import FORMATS

        one_of("format", format, FORMATS)
        result = Result.load(folder)
        goal = folder / "synthetic" if output is None else output
        check_writable(goal, folder=True)
        if goal.exists():
            raise NoisewiseError(f"{goal} exists already: choose another folder with -o")
        schema = result.request.schema
        tables = make_tables(
            result,
            copies=copies,
            rows=rows,
            model=model,
            covariates=None if covariates is None else PublicSample.read(covariates, schema),
            seed=seed,
        )
        with progress_bar("Synthetic tables") as progress:
            progress(0, copies)  # the first one takes longest: the model is compiled
            write_or_rescue(
                lambda place: tables.save(place, format=format, progress=progress), goal
            )
        try:
            with progress_bar("Fidelity page") as progress:
                progress(0, copies)
                page = tables.fidelity(goal / "fidelity.html", progress=progress)
        except Exception as error:  # whatever it is, the tables are there and must not seem lost
            raise NoisewiseError(
                f"the tables are saved to {goal}, with the certificate, but the page about them "
                f"could not be made ({type(error).__name__}: {' '.join(str(error).split())})"
            ) from error
        out.print(repr(tables), highlight=False, markup=False)
        out.print(str(tables.privacy), highlight=False, markup=False)
        out.print(
            f"\nSaved to {goal}, with the certificate; open {page}\n"
            "Pool an analysis over all tables: noisewise.combine(tables, analysis)",
            highlight=False,
        )
