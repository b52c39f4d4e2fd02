"""``noisewise predict``: what a saved fit expects of new records."""

from pathlib import Path
from typing import Annotated

import typer

from noisewise._files import check_writable, whole_file
from noisewise._validate import NoisewiseError
from noisewise.cli import common


def predict(
    folder: common.ResultFolder,
    data: Annotated[Path, typer.Argument(help="New records: .csv, .csv.gz or .parquet.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The predictions, a .csv file.")
    ] = Path("predictions.csv"),
    kind: Annotated[
        str, typer.Option(help="mean (or probabilities), or outcome: where one would lie.")
    ] = "mean",
    level: Annotated[float, typer.Option(help="Probability of the intervals.")] = 0.95,
    model: Annotated[
        str | None, typer.Option(help="path/to/model.py:function, where it has moved.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of simulated outcomes.")] = 0,
    clamp: Annotated[
        bool, typer.Option(help="Clamp values outside their bounds instead of refusing them.")
    ] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace an earlier file.")] = False,
) -> None:
    """Predict new records by a saved result: a mean and an interval for each; spends nothing.

    A line for each record, in their order. Predictions follow from what was released and from the
    new records, so they say as much about these as the records themselves.
    """
    with common.one_line_errors():
        from noisewise.result import Result

        if output.exists() and not overwrite:
            raise NoisewiseError(f"{output} exists already: name another, or pass --overwrite")
        check_writable(output)
        found = Result.load(folder).predict(
            data, model=model, kind=kind, level=level, seed=seed, clamp=clamp
        )
        found.columns = ["_".join(c) if isinstance(c, tuple) else c for c in found.columns]
        with whole_file(output) as scratch:
            found.to_csv(scratch, index=False)
        common.out.print(f"Wrote {output}: {len(found)} records")
