"""Real covariates to try fits on: read from a folder that the user names, or from wheels.

Bounds and categories are declared and nothing else: no means, no shares. Nothing is downloaded.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from noisewise.data import Column, Schema

__all__ = ["TABLES", "Covariates", "Missing", "read"]


class Missing(Exception):
    """A data set that is not there, with where it was looked for."""


class Covariates(NamedTuple):
    """Covariates in the form of `Table.rows`, and what is declared of them."""

    columns: tuple[Column, ...]
    arrays: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def schema(self, *outcome: Column) -> Schema:
        """The covariates and an outcome."""
        return Schema((*self.columns, *outcome))


_ADULT_COLUMNS = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex "
    "capital-gain capital-loss hours-per-week native-country income"
)
_ADULT = _ADULT_COLUMNS.split()
_ADULT_BOUNDS = {
    "age": (17.0, 90.0),
    "education-num": (1.0, 16.0),
    "capital-gain": (0.0, 100_000.0),
    "capital-loss": (0.0, 5000.0),
    "hours-per-week": (1.0, 99.0),
}


def _rows(path: Path, separator: str) -> list[list[str]]:
    if not path.exists():
        raise Missing(f"{path} is not there: name the folder of the data sets with --data DIR")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [row for row in csv.reader(lines, delimiter=separator, skipinitialspace=True) if row]


def _category(name: str, values: np.ndarray) -> tuple[Column, np.ndarray]:
    """Levels in alphabetical order: public here, as in any code book."""
    levels, codes = np.unique(values, return_inverse=True)
    return Column(name=name, kind="category", categories=tuple(levels)), codes.astype(np.int32)


def _adult(folder: Path, names: tuple[str, ...]) -> Covariates:
    text = np.array(_rows(folder / "adult" / "adult.data.gz", ","))
    columns, arrays = [], {}
    for name in names:
        values = text[:, _ADULT.index(name)]
        if name in _ADULT_BOUNDS:
            columns.append(Column(name=name, kind="real", bounds=_ADULT_BOUNDS[name]))
            arrays[name] = values.astype(float)
        else:
            column, arrays[name] = _category(name, values)
            columns.append(column)
    return Covariates(tuple(columns), arrays)


def _adult_six(folder: Path) -> Covariates:
    names = ("age", "education-num", "hours-per-week", "marital-status", "race", "sex")
    return _adult(folder, names)


def _adult_whole(folder: Path) -> Covariates:
    """What a new user would take: 38 coefficients, wide bounds, levels with seven rows."""
    names = (
        "age workclass education-num marital-status occupation race sex capital-gain capital-loss "
        "hours-per-week"
    )
    return _adult(folder, tuple(names.split()))


def _covid(folder: Path) -> Covariates:
    name = "corona_tested_individuals_ver_006.english.csv.gz"
    header, *rows = _rows(folder / "israel-covid-tests" / name, ",")
    text = np.array(rows)
    columns, arrays = [], {}
    for place, column_name in enumerate(header):
        if column_name not in ("test_date", "corona_result"):
            column, arrays[column_name] = _category(column_name, text[:, place])
            columns.append(column)
    return Covariates(tuple(columns), arrays)


def _rand(folder: Path) -> Covariates:
    try:
        from statsmodels.datasets import randhie
    except ImportError as error:
        raise Missing("RAND ships with statsmodels: pip install statsmodels") from error
    frame = randhie.load_pandas().data
    bounds = {"lncoins": (0, 5), "lpi": (0, 8), "fmde": (0, 9), "physlm": (0, 1), "disea": (0, 60)}
    reals = [Column(name=n, kind="real", bounds=b) for n, b in bounds.items()]
    binary = [Column(name=n, kind="binary") for n in ("idp", "hlthg", "hlthf", "hlthp")]
    arrays = {c.name: frame[c.name].to_numpy(float) for c in reals}
    arrays |= {c.name: frame[c.name].to_numpy(np.int8) for c in binary}
    return Covariates((*reals, *binary), arrays)


TABLES: dict[str, Callable[[Path], Covariates]] = {
    "adult-six": _adult_six,
    "adult": _adult_whole,
    "rand": _rand,
    "covid": _covid,
}


def read(name: str, folder: Path) -> Covariates:
    """One of `TABLES`."""
    return TABLES[name](folder)
