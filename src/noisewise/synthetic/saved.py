"""Synthetic tables read back from a folder: same frames, same certificate, same caveats."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisewise._validate import NoisewiseError
from noisewise.data import Schema
from noisewise.synthetic.generator import Drawn
from noisewise.synthetic.origin import Saved, read_origin
from noisewise.synthetic.tables import FORMATS, SyntheticTables

if TYPE_CHECKING:
    import pandas

_NO_POSTERIOR = (
    "these tables were read from files, which hold no posterior to compare them with: make the "
    "page with noisewise.synthesize(result).fidelity(...)"
)


def load_tables(folder: Path) -> SavedTables:
    """The tables in the folder; files are read when they are needed."""
    about = read_origin(folder)
    if about.format not in FORMATS:
        raise NoisewiseError(f"{folder} holds files of format {about.format!r}, not {FORMATS}")
    paths = sorted(folder.glob(f"table-*.{about.format}"))
    if len(paths) != about.copies:
        raise NoisewiseError(
            f"{folder} holds {len(paths)} tables, and {about.copies} were written: pooling some of "
            "them would be another analysis; copy the folder whole"
        )
    return SavedTables(paths, Schema.from_toml(folder / "schema.toml"), about)


class SavedTables(SyntheticTables):
    """`SyntheticTables` whose frames come from files; the posterior behind them is not there."""

    def __init__(self, paths: list[Path], schema: Schema, about: Saved) -> None:
        self._paths, self.schema, self.covariates = paths, schema, about.covariates
        self._copies, self.rows, self.origin = about.copies, about.rows, about.origin

    def frame(self, place: int) -> pandas.DataFrame:
        """One file, with the declared types."""
        import pandas

        path, kinds = self._paths[place], _kinds(self.schema)
        if path.suffix == ".parquet":
            found = pandas.read_parquet(path)
        else:
            # A category may well be called NA.
            found = pandas.read_csv(path, dtype=kinds, keep_default_na=False)
        if list(found.columns) != list(kinds):
            raise NoisewiseError(f"{path} has other columns than schema.toml declares")
        for column in self.schema:
            if column.categories is not None:
                levels = pandas.CategoricalDtype(list(column.categories))
                found[column.name] = found[column.name].astype(levels)
        return found

    def drawn(self, place: int) -> Drawn:
        """Not to be had from files."""
        raise NoisewiseError(_NO_POSTERIOR)

    def further_draws(self, count: int, rows: int) -> Iterator[Drawn]:
        """Not to be had from files."""
        raise NoisewiseError(_NO_POSTERIOR)

    def fidelity(self, path: str | Path, **options: Any) -> Path:
        """Not to be had from files."""
        raise NoisewiseError(_NO_POSTERIOR)


def _kinds(schema: Schema) -> dict[str, Any]:
    """A pandas type for every column of a file."""
    kinds = {"real": "float64", "count": "int64", "binary": "int64", "category": "str"}
    return {name: kinds[column.kind] for column in schema for name in column.entry_names}
