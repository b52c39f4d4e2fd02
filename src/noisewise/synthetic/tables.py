"""Synthetic tables: made when they are looked at, saved with the certificate they stand under."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from noisewise._files import whole_folder
from noisewise._pages import write_page_about
from noisewise._validate import NoisewiseError, Progress, one_of
from noisewise.data import Schema, Table
from noisewise.mechanism import Certificate
from noisewise.synthetic.generator import Drawn, Generator
from noisewise.synthetic.origin import Origin, write_origin

if TYPE_CHECKING:
    import pandas

FORMATS = ("csv", "parquet")
Answer = TypeVar("Answer")


class SyntheticTables(Sequence["pandas.DataFrame"]):
    """A sequence of pandas frames, each drawn from one posterior draw when it is needed.

    Columns have the schema's types: real columns are floats and counts whole numbers within their
    bounds, binary columns 0 and 1, categories pandas categoricals with all declared levels, vector
    columns spread over ``x[0]``, ``x[1]``, ... The same index gives the same table every time.
    """

    def __init__(
        self,
        generator: Generator,
        thetas: np.ndarray,
        copies: int,
        *,
        rows: int,
        seed: int,
        origin: Origin,
    ) -> None:
        self._generator = generator
        self._thetas = thetas
        self._copies = copies
        self._group = generator.group(rows)
        self._kept: tuple[int, list[Drawn]] | None = None
        self.schema: Schema = generator.schema
        # Columns that come from public rows, not from the model.
        self.covariates = generator.covariates
        self.rows, self.seed, self.origin = rows, seed, origin

    @property
    def privacy(self) -> Certificate:
        """The fit's certificate: the tables are made from what it covers, and cost nothing more."""
        return self.origin.privacy

    @property
    def share(self) -> float:
        """A table's rows over the fit's."""
        return self.rows / self.origin.rows

    def __len__(self) -> int:
        return self._copies

    @overload
    def __getitem__(self, index: int) -> pandas.DataFrame: ...
    @overload
    def __getitem__(self, index: slice) -> list[pandas.DataFrame]: ...
    def __getitem__(self, index: int | slice) -> pandas.DataFrame | list[pandas.DataFrame]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self.frame(range(len(self))[index])  # IndexError and negative numbers as a list's

    def frame(self, place: int) -> pandas.DataFrame:
        """One table, counted from 0.

        Args:
            place: Of the table, counted from 0.
        """
        return frame_of(self.schema, self.drawn(place).columns)

    def __iter__(self) -> Iterator[pandas.DataFrame]:
        return (self[i] for i in range(len(self)))

    def to_list(self) -> list[pandas.DataFrame]:
        """All tables at once, in memory."""
        return list(self)

    def map(
        self, function: Callable[[pandas.DataFrame], Answer], *, progress: Progress | None = None
    ) -> list[Answer]:
        """The function's answer for each table; one table is in memory at a time.

        Args:
            function: Takes a data frame.
            progress: Called with the tables done and their number.
        """
        answers = []
        for done, table in enumerate(self, start=1):
            answers.append(function(table))
            if progress is not None:
                progress(done, len(self))
        return answers

    def drawn(self, place: int) -> Drawn:
        """One table as arrays, with the shares of values that were moved to bounds.

        Tables are always drawn in the same groups, the last of which is kept, so that going
        through all of them draws each once.

        Args:
            place: Of the table, counted from 0.
        """
        first = place // self._group * self._group
        if self._kept is None or self._kept[0] != first:
            numbers = range(first, first + self._group)
            # The last group is filled up with copies of the last draw, for equal shapes.
            places = [min(number, self._copies - 1) for number in numbers]
            thetas = self._thetas[places]
            self._kept = first, self._generator.draw(thetas, self.rows, self.seed, numbers)
        return self._kept[1][place - first]

    def further_draws(self, count: int, rows: int) -> Iterator[Drawn]:
        """Tables from posterior draws that no table here has used, as far as there are any.

        Args:
            count: How many tables at most.
            rows: Of each.
        """
        group = self._generator.group(rows)
        # Numbers behind all of ours: where draws have to be used again, the records are new.
        start = self._copies + self._group
        for first in range(0, count, group):
            places = -1 - np.arange(first, first + group) % len(self._thetas)
            numbers = range(start + first, start + first + group)
            drawn = self._generator.draw(self._thetas[places], rows, self.seed, numbers)
            yield from drawn[: count - first]

    def save(
        self, folder: str | Path, *, format: str = "csv", progress: Progress | None = None
    ) -> Path:
        """Write every table into a new folder, whole or not at all, with the certificate.

        ``privacy.json`` is the certificate of the fit, ``schema.toml`` declares the columns, and
        ``README.txt`` says what this is and how to analyse it.

        Args:
            folder: A new one.
            format: ``"csv"`` or ``"parquet"``.
            progress: Called with the tables done and their number.
        """
        one_of("format", format, FORMATS)
        folder = Path(folder)
        if folder.exists():
            raise NoisewiseError(f"{folder} exists already: choose another folder for the tables")
        with whole_folder(folder) as scratch:
            self._write(scratch, format, progress)
        return folder

    def _write(self, folder: Path, format: str, progress: Progress | None) -> None:
        digits = len(str(len(self)))
        for number, table in enumerate(self, start=1):
            write = table.to_csv if format == "csv" else table.to_parquet
            write(folder / f"table-{number:0{digits}d}.{format}", index=False)
            if progress is not None:
                progress(number, len(self))
        texts = {
            "privacy.json": json.dumps(self.privacy.to_dict(), indent=2) + "\n",
            "schema.toml": self.schema.to_toml(),
            "README.txt": self._readme(),
        }
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        write_origin(folder, self.origin, format, len(self), self.rows, self.covariates)

    @staticmethod
    def load(folder: str | Path) -> SyntheticTables:
        """Tables that `save` or `noisewise synthesize` wrote, with their certificate and caveats.

        The posterior behind them is not in the folder, so that they have no fidelity page.

        Args:
            folder: Where they lie.
        """
        from noisewise.synthetic.saved import load_tables

        return load_tables(Path(folder))

    def _readme(self) -> str:
        budget = self.privacy.budget
        warnings = "".join(f"{line}\n" for line in self.origin.warnings)
        public = ", ".join(self.covariates)
        covariates = f" From public rows: {public}." if public else ""
        sample = f"covariates: {self.origin.sample}\n" if self.origin.sample else ""
        return (
            f"{warnings}{len(self)} synthetic tables of {self.rows} rows, drawn by noisewise from "
            f"model '{self.origin.model}', each from one draw of {self.origin.posterior_words}."
            f"{covariates}\n{sample}"
            f"They follow from a fit under ({self.privacy.epsilon_spent:.4g}, {budget.delta:g})-"
            f"differential privacy, {budget.adjacency} adjacency, and stand under its certificate, "
            "privacy.json, at no further cost.\n"
            "Run an analysis on every table and pool the answers (noisewise.combine): one table "
            "alone, or all in one, gives wrong error bars.\n"
        )

    def fidelity(
        self,
        path: str | Path,
        *,
        unsafe_data: Table | None = None,
        progress: Progress | None = None,
    ) -> Path:
        """Write one page that holds the tables' marginals against the posterior they came from.

        Args:
            path: Of the page.
            unsafe_data: The real table. Its exact marginals are drawn beside: such a page is NOT
                PRIVATE, says so, and is for the holder of the data alone.
            progress: Called with the tables done and their number.
        """
        return write_page_about(self, path, unsafe_data=unsafe_data, progress=progress)

    def __repr__(self) -> str:
        names = ", ".join(self.schema.names)
        lines = [f"SyntheticTables({len(self)} tables of {self.rows} rows: {names})"]
        return "\n".join([*lines, *self.origin.warnings])


def frame_of(schema: Schema, columns: dict[str, np.ndarray]) -> pandas.DataFrame:
    """Arrays in the form of `Table.rows` as a frame with the declared labels."""
    import pandas

    found: dict[str, Any] = {}
    for column in schema:
        values = columns[column.name]
        if column.categories is not None:
            found[column.name] = pandas.Categorical.from_codes(values, list(column.categories))
        elif column.shape:
            flat = values.reshape(len(values), -1)
            found |= {name: flat[:, i] for i, name in enumerate(column.entry_names)}
        else:  # narrow integers overflow in a user's arithmetic
            found[column.name] = values.astype(np.int64) if values.dtype.kind == "i" else values
    return pandas.DataFrame(found)
