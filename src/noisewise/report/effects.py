"""What a network says along each feature, the others at the middle of their bounds."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from noisewise.report.figures import COLOURS, NARROW, canvas, draw_both, panel, shortened
from noisewise.result import Result, network_outputs

MOST_EFFECTS = 12
_POINTS = 41
_LEVEL = 0.9
_ROW, _GAP, _TITLE, _BELOW = 150, 34, 26, 36


def effects_figure(result: Result) -> str:
    """Curves with bands, a panel a feature; '' where the result is not a network's."""
    if result.request.network is None or not np.isfinite(result.draws["first"]).all():
        return ""
    features = len(result.request.encoding) - 1
    curves = [_curve(result, place) for place in range(min(features, MOST_EFFECTS))]
    words = "Line plots: the network's output along each feature, with a 90% band."
    return draw_both("effects", words, lambda width: _draw(curves, width))


def _curve(result: Result, place: int) -> dict[str, Any]:
    """The feature's values in its own units, the median output and a central band."""
    column = result.request.encoding[1 + place]
    bounds = _bounds(result, column)
    low, high = bounds or (0.0, 1.0)
    two = bounds is None  # 0 or 1: a binary column, one category of several, or a gap
    values = np.linspace(low, high, 2 if two else _POINTS)
    encoded = np.tile(_middle(result), (len(values), 1))
    encoded[:, place] = (values - column["centre"]) / column["scale"]
    said = np.concatenate(list(network_outputs(result, encoded)))
    ends = np.quantile(said, [(1 - _LEVEL) / 2, 0.5, (1 + _LEVEL) / 2], axis=1)
    return {"name": column["name"], "x": values, "band": ends}


def _bounds(result: Result, column: dict[str, Any]) -> tuple[float, float] | None:
    """Of the column's values; None where they are 0 and 1."""
    if column.get("missing"):
        return None
    found: tuple[float, float] | None = result.request.columns[column["column"]].get("bounds")
    return found


def _middle(result: Result) -> np.ndarray:
    """The features' encoded values at the middle of their bounds; 0 for those without."""
    middle = []
    for column in result.request.encoding[1:]:
        low, high = _bounds(result, column) or (0.0, 0.0)
        middle.append(((low + high) / 2 - column["centre"]) / column["scale"])
    return np.array(middle)


def _draw(curves: list[dict[str, Any]], width: int) -> Figure:
    across = 1 if width == NARROW else min(3, len(curves))
    down = -(-len(curves) // across)
    figure = canvas(width, down * (_ROW + _TITLE + _BELOW))
    low = min(curve["band"][0].min() for curve in curves)
    high = max(curve["band"][2].max() for curve in curves)
    room = 0.05 * (high - low)
    each = (width - 46) / across
    for number, curve in enumerate(curves):
        row, column = divmod(number, across)
        top = row * (_ROW + _TITLE + _BELOW) + _TITLE
        left = 46 + column * each
        axes = panel(figure, left, top, left + each - _GAP, top + _ROW)
        below, middle, above = curve["band"]
        axes.fill_between(curve["x"], below, above, color=COLOURS["aware"], alpha=0.25, lw=0)
        axes.plot(curve["x"], middle, color=COLOURS["aware"], lw=2)
        axes.set_ylim(low - room, high + room)
        axes.set_title(shortened(curve["name"], each - _GAP))
        axes.tick_params(labelsize=11)
        axes.locator_params(nbins=4)
    return figure
