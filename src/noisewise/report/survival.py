"""Survival curves along each feature, with bands that include the privacy noise."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from noisewise.data import Column
from noisewise.report.figures import COLOURS, NARROW, canvas, draw_both, panel, shortened
from noisewise.report.numbers import tick_label
from noisewise.result import Result, curves, survival_family

_MOST_PANELS, _MOST_LEVELS = 9, 4
_LEVEL = 0.95
_ROW, _GAP, _TITLE, _BELOW = 150, 46, 26, 54
_SMALL = 11
_HUES = ("line1", "line2", "line3", "line4")


def survival_figure(result: Result) -> str:
    """Curves, a panel a feature; '' where the result is not about times to an event."""
    finite = all(np.isfinite(values).all() for values in result.draws.values())
    if not finite or survival_family(result.request, result.coordinates) is None:
        return ""
    panels = []
    for name in result.request.features:
        values = _compared(result.request.schema[name])
        if values:
            panels.append(_panel(result, name, values))
    words = "Line plots: the chance to be without the event over time, along each feature."
    shown = panels[:_MOST_PANELS]
    time = str(result.request.target)
    return draw_both("survival", words, lambda width: _draw(shown, time, width)) if shown else ""


def _compared(column: Column) -> list[Any]:
    """Two values of a number, one sd or a quarter of the range about the middle; 0 and 1; levels.

    Nothing of a vector.
    """
    if column.shape:
        return []
    if column.kind == "binary":
        return [0, 1]
    if column.categories is not None:
        return list(column.categories[:_MOST_LEVELS])
    low, high = column.bounds or (0.0, 1.0)
    middle = (low + high) / 2 if column.mean is None else column.mean
    reach = (high - low) / 4 if column.sd is None else column.sd
    ends = np.clip([middle - reach, middle + reach], low, high)
    if column.kind == "count":
        return np.rint(ends).tolist()
    return np.clip([float(f"{end:.3g}") for end in ends], low, high).tolist()


def _panel(result: Result, name: str, values: list[Any]) -> dict[str, Any]:
    found = curves(result.request, result.draws, result.coordinates, {name: values}, None)
    ends = np.quantile(found.draws, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=1)
    labels = [f"{value:g}" if isinstance(value, float | int) else str(value) for value in values]
    return {
        "name": name,
        "x": found.times,
        "labels": labels,
        "mean": found.draws.mean(1),
        "low": ends[0],
        "high": ends[1],
    }


def _draw(panels: list[dict[str, Any]], time: str, width: int) -> Figure:
    across = 1 if width == NARROW else min(3, len(panels))
    down = -(-len(panels) // across)
    each_row = _ROW + _TITLE + _BELOW
    figure = canvas(width, down * each_row)
    each = (width - 46) / across
    for number, found in enumerate(panels):
        row, column = divmod(number, across)
        top, left = row * each_row + _TITLE, 46 + column * each
        axes = panel(figure, left, top, left + each - _GAP, top + _ROW)
        for place, label in enumerate(found["labels"]):
            colour, line = COLOURS[_HUES[place]], ("-", "--", "-.", ":")[place]
            low, high = found["low"][place], found["high"][place]
            axes.fill_between(found["x"], low, high, color=colour, alpha=0.2, lw=0)
            axes.plot(found["x"], found["mean"][place], color=colour, lw=2, ls=line, label=label)
        axes.set_ylim(0, 1.02)
        axes.set_xlim(0, found["x"][-1])
        axes.set_title(shortened(found["name"], each - _GAP))
        axes.set_xlabel(shortened(time, each - _GAP), fontsize=_SMALL)
        axes.tick_params(labelsize=_SMALL)
        axes.locator_params(nbins=4)
        axes.xaxis.set_major_formatter(FuncFormatter(tick_label))
        axes.legend(loc="lower left", fontsize=_SMALL, borderaxespad=0.6)
    return figure
