"""What an analyst finds in synthetic tables, against the original one (DPVIm App. I)."""

from __future__ import annotations

import numpy as np

from noisewise.models import Mixture, Rows
from noisewise.studies.poisson_optimum import Cells
from noisewise.synthetic.combining import pool
from noisewise.synthetic.generator import Generator

__all__ = ["downstream_rmse", "poisson_coefficients", "regression_cells"]

_TOGETHER = 10
"""Tables drawn at once: a matter of memory."""


def regression_cells(model: Mixture, columns: Rows) -> Cells:
    """The table as the regression of its target sees it, rows alike put together."""
    assert model.target is not None
    codes = [np.asarray(columns[each.name]) for each in model.features]
    # One number for every combination: sorting those is ten times as fast as sorting rows.
    alike = np.ravel_multi_index(codes, [int(column.max()) + 1 for column in codes])
    _, first, place, rows = np.unique(
        alike, return_index=True, return_inverse=True, return_counts=True
    )
    design = np.asarray(model.design_matrix([column[first] for column in codes]), float)
    total = np.bincount(place, weights=np.asarray(columns[model.target], float))
    return Cells(design, rows.astype(float), total)


def poisson_coefficients(cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and their variances by statsmodels, from cells: the same as from rows."""
    import statsmodels.api as sm

    fitted = sm.GLM(
        cells.total, cells.design, family=sm.families.Poisson(), offset=np.log(cells.rows)
    ).fit()
    return np.asarray(fitted.params), np.asarray(fitted.bse) ** 2


def downstream_rmse(
    generator: Generator, thetas: np.ndarray, rows: int, original: np.ndarray, seed: int
) -> float:
    """Draw a table of so many rows at every theta, regress in each, pool by Rubin's rules; the
    root mean square of the pooled coefficients minus the ``original`` ones."""
    model = generator.target.model
    assert isinstance(model, Mixture)
    found = []
    for first in range(0, len(thetas), _TOGETHER):
        some = np.asarray(thetas[first : first + _TOGETHER], np.float32)
        numbers = range(first, first + len(some))
        for drawn in generator.draw(some, rows, seed, numbers):
            found.append(poisson_coefficients(regression_cells(model, drawn.columns)))
    estimates, variances = (np.stack(part) for part in zip(*found, strict=True))
    return float(np.sqrt(np.mean((pool(estimates, variances).estimate - original) ** 2)))
