"""The DP-SEP paper's Fig. 1: one table, and where each method puts its components."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from noisewise.studies.mixture_tables import (
    COMPONENTS,
    WIDTH,
    MixtureTables,
    Posteriors,
    aligned,
    mixture_tables,
)
from noisewise.studies.rules import label

if TYPE_CHECKING:
    from noisewise.studies.comparison import ComparisonResult

__all__ = ["draw_clusters"]

_COLOURS = np.array(["#d55e00", "#0072b2", "#009e73", "#e69f00"])
_LEVEL = 0.98
_ACROSS = 3
_TABLE = 0


def draw_clusters(result: ComparisonResult, folder: Path) -> list[Path]:
    """Records of the first table coloured by component, with 98% rings of the means' posteriors.

    Shown in the plane in which the true centres are spread most, where the paper shows two of the
    four dimensions. Dotted: the posterior with the known noise added.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    tables = mixture_tables(_TABLE + 1, result.about["seed"])
    plane = _plane(tables.centres[_TABLE])
    found = _posteriors(result, tables)
    plain = [name for name in found if not any(word in name for word in ("noise-aware", "γ"))]
    down = -(-(1 + len(plain)) // _ACROSS)
    figure = Figure(figsize=(2.7 * _ACROSS, 2.5 * down), layout="constrained")
    FigureCanvasAgg(figure)
    places = figure.subplots(down, _ACROSS, sharex=True, sharey=True, squeeze=False).ravel()
    _scatter(places[0], tables, tables.labels[_TABLE], plane)
    places[0].set_title("truth", fontsize=10)
    for axes, name in zip(places[1:], plain, strict=False):
        posterior = found[name]
        _scatter(axes, tables, _nearest(tables.X[_TABLE], posterior.means[_TABLE]), plane)
        _rings(axes, posterior, plane, color="black")
        method, *at = name.split(", ε")
        aware = found.get(", ε".join([f"{method}, noise-aware", *at]))
        if aware is not None:
            _rings(axes, aware, plane, color="black", ls=":")
        axes.set_title(label(name), fontsize=10)
    for axes in places[1 + len(plain) :]:
        axes.remove()
    path = folder / f"{result.study.name}-clusters.png"
    figure.savefig(path, dpi=80)
    return [path]


def _plane(centres: np.ndarray) -> np.ndarray:
    """The two main directions of the centres, as columns."""
    return np.linalg.svd(centres - centres.mean(0))[2][:2].T


def _posteriors(result: ComparisonResult, tables: MixtureTables) -> dict[str, Posteriors]:
    """By line, components in the order of the true centres."""
    found = {}
    for line in result.lines:
        if line.panel != "posteriors":
            continue
        values = line.values[:, _TABLE]
        means, covariances = np.split(values, [COMPONENTS * WIDTH])
        shape = (1, COMPONENTS, WIDTH)
        posterior = Posteriors(means.reshape(shape), covariances.reshape(*shape, WIDTH))
        found[line.name] = aligned(posterior, tables.centres[_TABLE : _TABLE + 1])
    return found


def _nearest(X: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Components are alike in shape and weight, so the likeliest is the nearest."""
    return np.argmin(((X[:, None, :] - means) ** 2).sum(-1), axis=1)


def _scatter(axes: Any, tables: MixtureTables, labels: np.ndarray, plane: np.ndarray) -> None:
    x, y = (tables.X[_TABLE] @ plane).T
    axes.scatter(x, y, c=_COLOURS[labels], s=3, alpha=0.5, lw=0)
    axes.plot(*(tables.centres[_TABLE] @ plane).T, "k+", ms=6)
    # A component that flew away must not shrink the picture of all others.
    axes.set_xlim(x.min() - 0.3, x.max() + 0.3)
    axes.set_ylim(y.min() - 0.3, y.max() + 0.3)


def _rings(axes: Any, posterior: Posteriors, plane: np.ndarray, **style: Any) -> None:
    turns = np.linspace(0, 2 * np.pi, 100)
    circle = np.sqrt(stats.chi2.ppf(_LEVEL, 2)) * np.stack([np.cos(turns), np.sin(turns)])
    for mean, covariance in zip(posterior.means[0], posterior.covariances[0], strict=True):
        values, vectors = np.linalg.eigh(plane.T @ covariance @ plane)
        ring = (mean @ plane)[:, None] + vectors @ (np.sqrt(values)[:, None] * circle)
        axes.plot(*ring, lw=1.2, **style)
