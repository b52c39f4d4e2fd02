"""Figures about synthetic tables: shares of every column's cells, and how columns go together."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from noisewise.report.figures import COLOURS, NARROW, canvas, draw_both, panel, shortened
from noisewise.synthetic.marginals import ColumnMarginal, PairMarginal

MOST_COLUMNS = 24
_LINE, _TITLE, _AXIS, _LEGEND = 22, 26, 34, 34
_LETTER = 8.5
_TAILS = (0.025, 0.975)
_RING: dict[str, Any] = {"mfc": COLOURS["paper"], "mec": COLOURS["unaware"], "mew": 1.8}


def share_figure(columns: Sequence[ColumnMarginal]) -> str:
    """A panel per column: shares of its cells in the tables, over the posterior's intervals."""
    shown = list(columns[:MOST_COLUMNS])
    words = (
        f"{len(shown)} dot plots, one a column: the share of each of its cells in the synthetic "
        "tables beside the posterior's. The table below has the numbers."
    )
    return draw_both("shares", words, lambda width: _shares(shown, width))


def pair_figure(pairs: Sequence[PairMarginal], names: Sequence[str]) -> str:
    """A square of Cramer's V: the tables' below the diagonal, the posterior's or the real above."""
    if len(names) < 2:
        return ""
    words = (
        f"Grid of {len(names)} by {len(names)} columns: the strength of association of every pair. "
        "The table below has the numbers."
    )
    return draw_both("pairs", words, lambda width: _pairs(pairs, names, width))


def _shares(columns: list[ColumnMarginal], width: int) -> Figure:
    real = any(column.real is not None for column in columns)
    heights: list[float] = [_TITLE + _LINE * len(column.cells.labels) + _AXIS for column in columns]
    places, bottom = _placed(heights, width)
    legend = _LEGEND if width > NARROW else 22 * (3 if real else 2) + 12
    figure = canvas(width, legend + bottom)
    span = width / 2 - 14 if width > NARROW else width
    for column, (left, top) in zip(columns, places, strict=True):
        _draw_column(figure, column, left, legend + top, span)
    _legend(figure, width, legend, real)
    return figure


def _placed(heights: list[float], width: int) -> tuple[list[tuple[float, float]], float]:
    """Left and top of each panel, in one column or in two that grow alike; and the end."""
    ends = [0.0, 0.0] if width > NARROW else [0.0]
    places = []
    for height in heights:
        side = int(np.argmin(ends))
        places.append((side * (width / 2 + 14), ends[side]))
        ends[side] += height + 8
    return places, max(ends)


def _draw_column(
    figure: Figure, column: ColumnMarginal, left: float, top: float, span: float
) -> None:
    room = 0.42 * span - 12
    labels = [shortened(label, room) for label in column.cells.labels]
    start = left + min(room, _LETTER * max(map(len, labels))) + 12
    below = top + _TITLE + _LINE * len(labels)
    axes = panel(figure, start, top + _TITLE, left + span - 20, below)
    title = shortened(column.cells.name, span - 20)
    units: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
    above = (left - start, 9)
    axes.annotate(title, (0, 1), above, weight="bold", annotation_clip=False, **units)
    low, high = np.quantile(column.released, _TAILS, axis=0)
    near, far = np.quantile(column.tables, _TAILS, axis=0)
    y = np.arange(len(labels))
    axes.hlines(y, low, high, color=COLOURS["faint"], lw=11, zorder=1)
    axes.vlines(column.released.mean(0), y - 0.25, y + 0.25, color=COLOURS["muted"], lw=2, zorder=2)
    axes.hlines(y, near, far, color=COLOURS["aware"], lw=1.6, zorder=3)
    middle = column.tables.mean(0)
    axes.plot(middle, y, "o", ms=5, color=COLOURS["aware"], zorder=4, clip_on=False)
    if column.real is not None:
        axes.plot(column.real, y, "D", ms=5.5, zorder=5, clip_on=False, **_RING)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    reach = max(far.max(), high.max(), 0.0 if column.real is None else column.real.max())
    axes.set_xlim(0, 1.04 * max(reach, 1e-6))
    axes.set_yticks(y, labels)
    axes.tick_params(axis="y", length=0, pad=8)
    axes.tick_params(axis="x", length=3, pad=3)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.3g}%"))
    axes.grid(axis="x", color=COLOURS["rule"], lw=0.6, zorder=0)
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)


def _legend(figure: Figure, width: int, height: float, real: bool) -> None:
    """Drawn like the rows themselves."""
    axes = _free_axes(figure, width, height)
    wide = width > NARROW
    entries = ["synthetic tables: mean, 95% of them", "posterior: mean, 95% interval"]
    for place, words in enumerate([*entries, "exact, NOT PRIVATE"][: 3 if real else 2]):
        x, y = (8 + 300 * place, 10) if wide else (8, 10 + 22 * place)
        if place == 0:
            axes.plot([x, x + 36], [y, y], color=COLOURS["aware"], lw=1.6)
            axes.plot(x + 18, y, "o", ms=5, color=COLOURS["aware"])
        elif place == 1:
            axes.plot([x, x + 36], [y, y], color=COLOURS["faint"], lw=11)
            axes.plot([x + 18, x + 18], [y - 5, y + 5], color=COLOURS["muted"], lw=2)
        else:
            axes.plot(x + 18, y, "D", ms=5.5, **_RING)
        axes.text(x + 46, y, words, va="center_baseline", color=COLOURS["ink"])


def _free_axes(figure: Figure, width: float, height: float) -> Axes:
    """Axes without marks whose units are pixels from the figure's top left."""
    axes = panel(figure, 0, 0, width, height)
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    return axes


def _pairs(pairs: Sequence[PairMarginal], names: Sequence[str], width: int) -> Figure:
    count = len(names)
    wide = width > NARROW
    most = 190 if wide else 104
    left = min(most, _LETTER * max(map(len, names)) + 40)
    size = min(46.0, (width - left - 6) / count)
    figure = canvas(width, 24 + size * count + 8)
    axes = _free_axes(figure, width, 24 + size * count + 8)
    place = {name: i for i, name in enumerate(names)}
    values = []
    for pair in pairs:
        i, j = sorted((place[pair.first], place[pair.second]))
        above = float(pair.released.mean()) if pair.real is None else pair.real
        values += [(j, i, float(pair.tables.mean())), (i, j, above)]
    top = max([0.1, *(value for _, _, value in values)])
    for row, column, value in values:
        _square(axes, left + size * column, 24 + size * row, size, value, value / top)
    for i, name in enumerate(names):
        corner = (left + size * i, 24 + size * i)
        axes.add_patch(Rectangle(corner, size, size, color=COLOURS["shade"], lw=0))
        y = 24 + size * (i + 0.5)
        label = shortened(name, left - 40)
        axes.text(left - 8, y, f"{label}  {i + 1}", ha="right", va="center_baseline")
        axes.text(left + size * (i + 0.5), 16, f"{i + 1}", ha="center", color=COLOURS["muted"])
    return figure


def _square(axes: Axes, x: float, y: float, size: float, value: float, strength: float) -> None:
    corner = (x + 0.5, y + 0.5)
    fill, edge = COLOURS["aware"], COLOURS["rule"]
    axes.add_patch(Rectangle(corner, size - 1, size - 1, fc=fill, alpha=0.75 * strength, lw=0))
    axes.add_patch(Rectangle(corner, size - 1, size - 1, fc="none", ec=edge, lw=0.6))
    if size >= 30:
        words = "1" if value > 0.995 else f"{value:.2f}".removeprefix("0")
        middle = (x + size / 2, y + size / 2)
        axes.text(*middle, words, ha="center", va="center_baseline", fontsize=11)
