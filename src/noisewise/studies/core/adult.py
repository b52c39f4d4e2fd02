"""UCI Adult, from a folder that the user names: as the authors prepared it, and as declared.

The data are public. The authors scale columns by the table's own moments, which is not private;
that way is kept for the comparison, and every table says so. Our own rows use declared bounds.
"""

import gzip
from pathlib import Path
from typing import NamedTuple

import numpy as np

from noisewise._validate import NoisewiseError
from noisewise.data import Column, Schema

_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
    *("relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week"),
    *("native-country", "income"),
)
_DROPPED = ("education-num", "relationship", "native-country")
DROPPED_BY_DPVIM = ("education-num",)
_DECLARED = {
    "age": ((16.0, 90.0), 40.0, 13.0),
    "fnlwgt": ((1e4, 1e6), 2e5, 1e5),
    "capital-gain": ((0.0, 20_000.0), 500.0, 2500.0),
    "capital-loss": ((0.0, 3000.0), 100.0, 400.0),
    "hours-per-week": ((0.0, 100.0), 40.0, 12.0),
}
"""Bounds, mean and sd of continuous columns: round guesses of what a census would find."""
_TARGET = "income"
ADULT_FILES = "the folder of UCI's Adult files"
"""What studies need."""
_FILES = ("adult.data", "adult.test")


class Adult(NamedTuple):
    """Training and test rows without missing values, columns by name, as text or numbers."""

    train: dict[str, np.ndarray]
    test: dict[str, np.ndarray]


def read_adult(folder: Path, dropped: tuple[str, ...] = _DROPPED) -> Adult:
    """The two files of the UCI repository, plain or gzipped, without the ``dropped`` columns."""
    return Adult(*(_read(folder, name, dropped) for name in _FILES))


def _read(folder: Path, name: str, dropped: tuple[str, ...]) -> dict[str, np.ndarray]:
    for path, opener in ((folder / name, open), (folder / f"{name}.gz", gzip.open)):
        if path.exists():
            with opener(path, "rt") as lines:
                rows = [line.strip().rstrip(".").split(", ") for line in lines]
            break
    else:
        raise NoisewiseError(f"{folder} has no {name} or {name}.gz: name {ADULT_FILES}, --data DIR")
    whole = [row for row in rows if len(row) == len(_COLUMNS) and "?" not in row]
    columns = dict(zip(_COLUMNS, np.array(whole).T, strict=True))
    numbers = {n: columns[n].astype(float) for n in _DECLARED}
    return {n: numbers.get(n, columns[n]) for n in _COLUMNS if n not in dropped}


def _names(found: Adult) -> list[str]:
    return [name for name in found.train if name != _TARGET]


def outcome(columns: dict[str, np.ndarray]) -> np.ndarray:
    """One where the income is above 50,000."""
    return (columns[_TARGET] == ">50K").astype(np.float32)


def authors_design(found: Adult) -> tuple[np.ndarray, np.ndarray]:
    """Design matrices of training and test rows, 57 columns, as the authors' code makes them.

    Categories one-hot with none dropped, continuous columns z-scored by each table's OWN moments
    (the paper says scaled to (0, 1)), a column of ones. Not private: for comparison only.
    """
    return _design(found, found.train, False), _design(found, found.test, False)


def dpvim_design(found: Adult) -> np.ndarray:
    """Design matrix of the training rows as DPVIm's authors make it: 96 columns.

    Of `read_adult(folder, DROPPED_BY_DPVIM)`: only education's number is left out. Categories
    one-hot without the largest, continuous columns z-scored by the table's own moments, which is
    not private: for comparison only.
    """
    return _design(found, found.train, True)


def _design(found: Adult, columns: dict[str, np.ndarray], drop_largest: bool) -> np.ndarray:
    parts = []
    for name in _names(found):
        values = columns[name]
        if name in _DECLARED:
            parts.append(((values - values.mean()) / values.std())[:, None])
            continue
        known, counts = np.unique(found.train[name], return_counts=True)
        if drop_largest:
            known = np.delete(known, counts.argmax())
        parts.append(values[:, None] == known)
    parts.append(np.ones((len(columns[_TARGET]), 1)))
    return np.concatenate(parts, 1).astype(np.float32)


def declared_schema(found: Adult) -> Schema:
    """Bounds for continuous columns, the code book's categories for the rest."""
    columns = []
    for name in _names(found):
        if name in _DECLARED:
            bounds, mean, sd = _DECLARED[name]
            columns.append(Column(name=_tidy(name), kind="real", bounds=bounds, mean=mean, sd=sd))
        else:
            known = tuple(str(value) for value in np.unique(found.train[name]))
            columns.append(Column(name=_tidy(name), kind="category", categories=known))
    return Schema((*columns, Column(name=_TARGET, kind="binary")), rows=len(found.train[_TARGET]))


def declared_arrays(schema: Schema, columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Columns as a `Table` would hold them: numbers clipped to bounds, categories as codes."""
    arrays: dict[str, np.ndarray] = {_TARGET: outcome(columns).astype(int)}
    for name, values in columns.items():
        if name in _DECLARED:
            arrays[_tidy(name)] = np.clip(values, *schema[_tidy(name)].bounds or (-np.inf, np.inf))
        elif name != _TARGET:
            known = list(schema[_tidy(name)].categories or ())
            arrays[_tidy(name)] = np.searchsorted(known, values)
    return arrays


def _tidy(name: str) -> str:
    return name.replace("-", "_")
