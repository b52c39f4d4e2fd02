"""Figures of methods compared, in the DPVIm paper's form: a panel for each measure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from noisewise.studies.named_figures import draw_named, is_named
from noisewise.studies.rules import Line, Panel, label, place_label

if TYPE_CHECKING:
    from noisewise.studies.comparison import ComparisonResult

__all__ = ["draw_comparison"]

_MOST_BARS = 20
"""Points of a line beyond which its errors are a band."""
_COLOURS = {
    "vanilla": "#d55e00",
    "preconditioned": "#cc79a7",
    "natural": "#0072b2",
    "aligned": "#009e73",
    "aligned_natural": "#56b4e9",
}
_OTHERS = (
    "#000000",
    "#e69f00",
    "#999999",
    "#009e73",
    "#0072b2",
    "#d55e00",
    "#cc79a7",
    "#56b4e9",
    "#8c564b",
    "#f0e442",
    "#6a3d9a",
    "#b2df8a",
    "#fb9a99",
    "#17becf",
    "#525252",
    "#bcbd22",
)
_ACROSS = 4


def draw_comparison(result: ComparisonResult, path: Path) -> None:
    """Means or medians over repeats with their spread; every repeat where there is one place."""
    figure = draw_named(result) if is_named(list(result.lines)) else _draw_panels(result)
    FigureCanvasAgg(figure)
    figure.savefig(path, dpi=110)


def _draw_panels(result: ComparisonResult) -> Figure:
    panels = result.panels
    down = -(-len(panels) // _ACROSS)
    across = -(-len(panels) // down)
    figure = Figure(figsize=(3.6 * across, 3.3 * down + 0.6), layout="constrained")
    places = figure.subplots(down, across, squeeze=False).ravel()
    colours = _colours([line for panel in panels for line in result.in_panel(panel)])
    handles: dict[str, Any] = {}
    for axes, panel in zip(places, panels, strict=False):
        lines = result.in_panel(panel)
        draw = _draw_repeats if all(len(line.x) == 1 for line in lines) else _draw_curves
        handles |= draw(axes, panel, lines, colours)
        axes.set_title(panel.title, fontsize=10)
        axes.set_ylabel(panel.y)
        if panel.log_y:
            axes.set_yscale("log")
    for axes in places[len(panels) :]:
        axes.remove()
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=5, frameon=False
    )
    return figure


def _colours(lines: list[Line]) -> dict[str, str]:
    """A rule's own; what is derived from a rule ("aligned, ...") has the rule's; others in turn."""
    found, others = {}, iter(_OTHERS * len(lines))
    for name in dict.fromkeys(line.name for line in lines):
        rule = name.split(",")[0]
        found[name] = _COLOURS[rule] if rule in _COLOURS else next(others)
    return found


def _draw_curves(
    axes: Any, panel: Panel, lines: list[Line], colours: dict[str, str]
) -> dict[str, Any]:
    handles = {}
    for line in lines:
        centre, low, high = line.summary(panel.middle)
        style = {"color": colours[line.name], "ls": "--" if line.dashed else "-", "lw": 1.5}
        if line.x == (np.inf,):  # no privacy: the same whatever the budget
            handles[label(line.name)] = axes.axhline(centre[0], **style | {"ls": "--", "lw": 1.2})
            continue
        if len(line.x) > _MOST_BARS:
            handles[label(line.name)] = axes.plot(line.x, centre, **style)[0]
            axes.fill_between(line.x, low, high, color=colours[line.name], alpha=0.15, lw=0)
            continue
        handles[label(line.name)] = axes.errorbar(
            line.x, centre, (centre - low, high - centre), capsize=2, marker=_marker(line), **style
        )
    axes.set_xlabel(panel.x)
    if panel.log_x:
        axes.set_xscale("log")
        every = sorted({x for line in lines for x in line.x if line.x != (np.inf,)}, key=float)
        if len(every) <= 6:
            axes.set_xticks(every, [place_label(place) for place in every])
            axes.minorticks_off()
    return handles


def _marker(line: Line) -> str:
    return "" if line.dashed else "."


def _draw_repeats(
    axes: Any, panel: Panel, lines: list[Line], colours: dict[str, str]
) -> dict[str, Any]:
    """Every repeat a dot, its line's middle a bar; baselines go all across."""
    handles: dict[str, Any] = {}
    names: list[str] = []
    for line in lines:
        colour, middle = colours[line.name], line.summary(panel.middle).centre[0]
        if line.dashed:
            handles[label(line.name)] = axes.axhline(middle, color=colour, ls="--", lw=1.2)
            continue
        values = line.values[0]
        place = len(names) + np.linspace(-0.15, 0.15, len(values))
        handles[label(line.name)] = axes.plot(place, values, "o", color=colour, ms=4, alpha=0.6)[0]
        axes.plot([len(names) - 0.25, len(names) + 0.25], [middle] * 2, color=colour, lw=2)
        names.append(label(line.name))
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.6, len(names) - 0.4)
    return handles
