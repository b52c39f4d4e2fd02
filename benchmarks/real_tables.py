"""Real covariates to try fits on: read from a folder that the user names, or from wheels.

Bounds and categories are declared and nothing else: no means, no shares. Nothing is downloaded.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

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


def adult_column(folder: Path, name: str) -> np.ndarray:
    """One of Adult's columns as text, the income's included."""
    text = np.array(_rows(folder / "adult" / "adult.data.gz", ","))
    return text[:, _ADULT.index(name)]


def _adult(folder: Path, names: tuple[str, ...]) -> Covariates:
    columns, arrays = [], {}
    for name in names:
        values = adult_column(folder, name)
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


def _shipped(name: str) -> Any:
    """A data frame that ships with statsmodels."""
    try:
        return import_module(f"statsmodels.datasets.{name}").load_pandas().data
    except ImportError as error:
        raise Missing(f"{name} ships with statsmodels: pip install statsmodels") from error


def _rand(folder: Path) -> Covariates:
    frame = _shipped("randhie")
    bounds = {"lncoins": (0, 5), "lpi": (0, 8), "fmde": (0, 9), "physlm": (0, 1), "disea": (0, 60)}
    reals = [Column(name=n, kind="real", bounds=b) for n, b in bounds.items()]
    binary = [Column(name=n, kind="binary") for n in ("idp", "hlthg", "hlthf", "hlthp")]
    arrays = {c.name: frame[c.name].to_numpy(float) for c in reals}
    arrays |= {c.name: frame[c.name].to_numpy(np.int8) for c in binary}
    return Covariates((*reals, *binary), arrays)


def _fair(folder: Path) -> Covariates:
    """Fair's survey of marriages: 6,366 rows, a few values each, tied closely."""
    frame = _shipped("fair")
    bounds = {"age": (15, 60), "yrs_married": (0, 40), "children": (0, 10), "educ": (5, 25)}
    columns = [Column(name=name, kind="real", bounds=found) for name, found in bounds.items()]
    arrays = {name: frame[name].to_numpy(float) for name in bounds}
    for name in ("rate_marriage", "religious", "occupation", "occupation_husb"):
        column, arrays[name] = _category(name, frame[name].astype(int).astype(str).to_numpy())
        columns.append(column)
    return Covariates(tuple(columns), arrays)


def _anes(folder: Path) -> Covariates:
    """The American national election study of 1996: 944 rows."""
    frame = _shipped("anes96")
    bounds = {"age": (18, 100), "educ": (1, 7), "income": (1, 24), "popul": (0, 10_000)}
    columns = [Column(name=name, kind="real", bounds=found) for name, found in bounds.items()]
    arrays = {name: frame[name].to_numpy(float) for name in bounds}
    column, arrays["PID"] = _category("PID", frame["PID"].astype(int).astype(str).to_numpy())
    return Covariates((*columns, column), arrays)


def _cells(folder: Path) -> Covariates:
    """Cell nuclei of the breast cancer data: 569 rows, radius, perimeter and area nearly copies."""
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError as error:
        raise Missing("cells ships with scikit-learn: pip install scikit-learn") from error
    found = load_breast_cancer()
    bounds = {
        "mean radius": (0, 40),
        "mean texture": (0, 50),
        "mean perimeter": (0, 300),
        "mean area": (0, 4000),
        "mean smoothness": (0, 1),
    }
    places = {str(name): place for place, name in enumerate(found.feature_names)}
    columns = tuple(Column(name=name, kind="real", bounds=both) for name, both in bounds.items())
    return Covariates(columns, {name: found.data[:, places[name]] for name in bounds})


TABLES: dict[str, Callable[[Path], Covariates]] = {
    "adult-six": _adult_six,
    "adult": _adult_whole,
    "rand": _rand,
    "covid": _covid,
    "fair": _fair,
    "anes": _anes,
    "cells": _cells,
}


def read(name: str, folder: Path) -> Covariates:
    """One of `TABLES`."""
    return TABLES[name](folder)
