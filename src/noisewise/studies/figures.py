"""Figures in the paper's form: curves above, their errors below, a column for each model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from noisewise.evaluation import LEVELS, curve_band
from noisewise.studies.methods import LABELS
from noisewise.studies.result import column_label

if TYPE_CHECKING:
    from noisewise.studies.gradients import GradientsResult
    from noisewise.studies.result import StudyResult

__all__ = ["draw_gradients", "draw_study"]

_COLOURS = {
    "exact": "#0072b2",
    "nuts": "#56b4e9",
    "laplace": "#009e73",
    "naive": "#d55e00",
    "bernstein-sheldon": "#cc79a7",
    "plain-gibbs": "#999999",
    "dpvim": "#e69f00",
    "planned": "#000000",
}
_DOTS = 2000
_BINS = 8


def draw_study(result: StudyResult, path: Path) -> None:
    """Coverage (or calibration) of every method, and its error, with sds over repetitions."""
    columns = result.study.columns
    figure = Figure(figsize=(4.2 * len(columns), 7.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, len(columns), sharex=True, squeeze=False)
    coverage = result.study.kind == "coverage"
    for place, (column, measures) in enumerate(zip(columns, result.measures, strict=True)):
        whole, difference = panels[0, place], panels[1, place]
        whole.set_title(column_label(column), fontsize=11)
        whole.plot([0, 1], [0, 1], "--", color="0.5", lw=1)
        difference.axhline(0, ls="--", color="0.5", lw=1)
        for name, found in measures.items():
            base = LEVELS if coverage else np.linspace(0, 1, len(found.curve))
            style = {"color": _COLOURS[name], "lw": 2.2 if name == "planned" else 1.5}
            whole.plot(base, found.curve, label=LABELS[name], **style)
            difference.plot(base, found.curve - base, **style)
            low, high = found.curve - base - found.curve_sd, found.curve - base + found.curve_sd
            difference.fill_between(base, low, high, color=_COLOURS[name], alpha=0.15, lw=0)
        if coverage:
            band = curve_band(result.about["fits"], LEVELS)
            difference.fill_between(LEVELS, -band, band, color="0.85", lw=0, zorder=0)
        difference.set_xlabel("credible level" if coverage else "predicted probability")
    panels[0, 0].set_ylabel("coverage" if coverage else "share of positives")
    panels[1, 0].set_ylabel("coverage error" if coverage else "calibration error")
    handles, names = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=110)


def draw_gradients(result: GradientsResult, path: Path) -> None:
    """A thinned cloud of noisy gradients over the iterates, and the line; beside it means of bins,
    for in the cloud a slope so much smaller than the noise can hardly be seen."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    cloud, means = figure.subplots(1, 2, sharex=True)
    step = max(1, len(result.parameters) // _DOTS)
    dots = (result.parameters[::step], result.gradients[::step])
    cloud.plot(*dots, ".", color="#56b4e9", ms=3, alpha=0.6, label="noisy gradients")
    bins = np.array_split(np.argsort(result.parameters), _BINS)
    centres = [result.parameters[chosen].mean() for chosen in bins]
    heights = [result.gradients[chosen].mean() for chosen in bins]
    errors = [2 * result.gradients[chosen].std() / len(chosen) ** 0.5 for chosen in bins]
    means.errorbar(
        centres, heights, errors, fmt="o", color="#0072b2", label="means of bins, ± 2 s.e."
    )
    ends = np.array([result.parameters.min(), result.parameters.max()])
    for axes in (cloud, means):
        line = result.slope * (ends - result.optimum)
        axes.plot(ends, line, color="black", lw=2, label="κA (φ − φ*)")
        axes.axvline(result.optimum, color="#d55e00", lw=1.5, label="φ*, posterior mean")
        axes.set_xlabel("φ, mean of the guide")
    cloud.set_ylabel("released gradient")
    first, second = (axes.get_legend_handles_labels() for axes in (cloud, means))
    named = dict(zip(first[1] + second[1], first[0] + second[0], strict=True))
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=110)
