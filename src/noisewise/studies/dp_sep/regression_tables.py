"""Tables of regressions with given splits, in the format of Hernandez-Lobato and Adams (2015).

A table is a folder with ``data.txt``, ``index_features.txt``, ``index_target.txt`` and a line of
row numbers for every split in ``index_train.txt`` and ``index_test.txt``, each of them as it is or
as ``.gz``. Private methods must not look at the data for its range: ``bounds.txt`` declares it, two
lines of lower and upper bounds, one number for each column of ``data.txt``.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from noisewise._validate import NoisewiseError
from noisewise.data import PrivateRows
from noisewise.dpsep import Whitening, buy_whitening, scale_by_bounds
from noisewise.mechanism import Budget, Release

_SHORT = {"naval-propulsion-plant": "naval", "wine-quality-red": "wine"}
_INPUT_ROUNDS = 4
_TARGET_ROUNDS = 2
_QUARTER_TURN = 1.5708
_DECLARED = {
    # Joint angles up to a quarter turn; the arm's reach.
    "kin8nm": ([-_QUARTER_TURN] * 8 + [0], [_QUARTER_TURN] * 8 + [1.5]),
    # Round figures that red wines stay within; quality is graded from 0 to 10.
    "wine": (
        [4, 0, 0, 0, 0, 0, 0, 0.985, 2.5, 0, 8, 0],
        [16, 2, 1, 16, 0.7, 80, 300, 1.005, 4.5, 2.5, 15, 10],
    ),
    # What a frigate's gas turbine can do, in round figures; the decay's domain is in the table's
    # own description.
    "naval": (
        [1, 3, 0, 1300, 6500, 0, 0, 400, 280, 500, 1, 0.99, 5, 1, 0, 0, 0.95, 0.95],
        [9.3, 27, 75000, 3600, 9800, 650, 650, 1200, 300, 800, 5, 1.01, 25, 1.1, 100, 2, 1, 1],
    ),
}


@dataclass(frozen=True, eq=False)
class RegressionTable:
    """A public table, its splits, and declared bounds of inputs and target."""

    name: str
    X: np.ndarray
    y: np.ndarray
    train: list[np.ndarray]
    test: list[np.ndarray]
    low: np.ndarray
    """Of the inputs; of the target last."""
    high: np.ndarray


class Split(NamedTuple):
    """One split on a scale for networks, and the way back."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    """In the table's own unit."""
    centre: float = 0.0
    unit: float = 1.0
    """The table's target is centre + unit times the scaled one."""
    releases: tuple[Release, ...] = ()
    """What the scaling cost."""


def read_tables(folder: Path) -> dict[str, RegressionTable]:
    """Every table in a folder's folders, by name; or the folder's own, if it is one."""
    places = [folder] if _is_table(folder) else sorted(p for p in folder.glob("*") if _is_table(p))
    if not places:
        raise NoisewiseError(
            f"no table found in {folder}: expected folders with data.txt, index_features.txt, "
            "index_target.txt, index_train.txt and index_test.txt (or .gz of them)"
        )
    tables = [_read(place) for place in places]
    return {table.name: table for table in tables}


def _is_table(folder: Path) -> bool:
    needed = ("data", "index_features", "index_target", "index_train", "index_test")
    return all(_file(folder, name) is not None for name in needed)


def _file(folder: Path, name: str) -> Path | None:
    found = (folder / f"{name}.txt", folder / f"{name}.txt.gz")
    return next((path for path in found if path.exists()), None)


def _read(folder: Path) -> RegressionTable:
    def load(name: str) -> np.ndarray:
        path = _file(folder, name)
        assert path is not None  # `_is_table` has seen it
        return np.loadtxt(path, ndmin=2)  # opens .gz by itself

    name = _SHORT.get(folder.name, folder.name)
    data = load("data")
    columns = np.append(load("index_features").ravel(), load("index_target").ravel()).astype(int)
    low, high = (bound[columns] for bound in _bounds(folder, name, data.shape[1]))
    return RegressionTable(
        name=name,
        X=data[:, columns[:-1]],
        y=data[:, columns[-1]],
        train=list(load("index_train").astype(int)),
        test=list(load("index_test").astype(int)),
        low=low,
        high=high,
    )


def _bounds(folder: Path, name: str, columns: int) -> tuple[np.ndarray, np.ndarray]:
    path = _file(folder, "bounds")
    if path is not None:
        found = np.loadtxt(path, ndmin=2)
    elif name in _DECLARED:
        found = np.array(_DECLARED[name], float)
    else:
        raise NoisewiseError(
            f"the range of {name} is not declared: write {folder / 'bounds.txt'}, two lines of "
            f"lower and upper bounds for its {columns} columns"
        )
    if found.shape != (2, columns):
        shape = " x ".join(map(str, found.shape))
        raise NoisewiseError(f"bounds of {name} must be 2 lines of {columns} numbers, got {shape}")
    return found[0], found[1]


def standardised_split(table: RegressionTable, number: int) -> Split:
    """By the training rows' own moments, as in the paper: NOT PRIVATE."""
    train = table.train[number]
    X, y = table.X[train], table.y[train]
    spread = X.std(0)
    # A constant column tells nothing; it stays at zero.
    scaled = (table.X - X.mean(0)) / np.where(spread > 0, spread, 1.0)
    centre, unit = float(y.mean()), float(y.std())
    found = _split(table, number, scaled, (table.y - centre) / unit)
    return found._replace(centre=centre, unit=unit)


def private_split(table: RegressionTable, number: int, budget: Budget, seed: int) -> Split:
    """By declared bounds, then by second moments bought from the budget; the noise is seeded."""
    train = table.train[number]
    X = scale_by_bounds(table.X, table.low[:-1], table.high[:-1])
    y = scale_by_bounds(table.y, table.low[-1], table.high[-1])[:, None]

    def bought(what: str, values: np.ndarray, rounds: int) -> Whitening:
        rows, about = PrivateRows({"X": values[train]}), (values.shape[1], len(train), budget)
        return buy_whitening(rows, *about, rounds=rounds, what=what, insecure_seed=seed)

    inputs, target = bought("inputs", X, _INPUT_ROUNDS), bought("target", y, _TARGET_ROUNDS)
    middle = float(table.low[-1] + table.high[-1]) / 2
    step = float(table.high[-1] - table.low[-1]) / np.sqrt(12)
    return _split(table, number, inputs(X), target(y)[:, 0])._replace(
        centre=middle + step * float(target.centre[0]),
        unit=step / float(target.matrix[0, 0]),
        releases=inputs.releases + target.releases,
    )


def _split(table: RegressionTable, number: int, X: np.ndarray, y: np.ndarray) -> Split:
    """Training and test rows of a scaled table."""
    train, test, wide = table.train[number], table.test[number], X.astype(np.float32)
    return Split(wide[train], y[train].astype(np.float32), X_test=wide[test], y_test=table.y[test])
