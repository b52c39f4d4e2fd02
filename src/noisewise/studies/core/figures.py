"""Figures of comparisons: panels of lines."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from noisewise.studies.core.lines import Line, Panel, Place, place_label
from noisewise.studies.core.words import label

_RULE_COLOURS = {
    "vanilla": "#d55e00",
    "preconditioned": "#cc79a7",
    "natural": "#0072b2",
    "aligned": "#009e73",
    "aligned_natural": "#56b4e9",
}
_OTHER_COLOURS = (
    *("#000000", "#e69f00", "#999999", "#009e73", "#0072b2", "#d55e00", "#cc79a7", "#56b4e9"),
    *("#8c564b", "#f0e442", "#6a3d9a", "#b2df8a", "#fb9a99", "#17becf", "#525252", "#bcbd22"),
)
_OURS, _PAPERS = "#0072b2", "#d55e00"
_MOST_BARS = 20
"""Points of a line beyond which its errors are a band."""
_ACROSS = 4


def new_figure(width: float, height: float) -> Any:
    """A figure that needs no screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def place_legend(figure: Any, handles: Mapping[str, Any], columns: int) -> None:
    """One for all panels, below them."""
    style = {"loc": "outside lower center", "ncols": columns, "frameon": False}
    figure.legend(list(handles.values()), list(handles), **style)


def draw_comparison(panels: Sequence[tuple[Panel, list[Line]]], path: Path) -> None:
    """Means or medians over repeats with their spread, a panel for each measure.

    Where an axis has one place, every repeat is drawn; where places are names, so that no line can
    be drawn along them, a panel for each name.
    """
    lines = [line for _, some in panels for line in some]
    named = all(isinstance(place, str) for line in lines for place in line.x)
    figure = _draw_named(panels, lines) if named else _draw_panels(panels, lines)
    figure.savefig(path, dpi=110)


def _draw_panels(panels: Sequence[tuple[Panel, list[Line]]], lines: list[Line]) -> Any:
    down = -(-len(panels) // _ACROSS)
    across = -(-len(panels) // down)
    figure = new_figure(3.6 * across, 3.3 * down + 0.6)
    places = figure.subplots(down, across, squeeze=False).ravel()
    colours = _colours(lines)
    handles: dict[str, Any] = {}
    for axes, (panel, some) in zip(places, panels, strict=False):
        draw = _draw_repeats if all(len(line.x) == 1 for line in some) else _draw_curves
        handles |= draw(axes, panel, some, colours)
        axes.set_title(panel.title, fontsize=10)
        axes.set_ylabel(panel.y)
        if panel.log_y:
            axes.set_yscale("log")
    for axes in places[len(panels) :]:
        axes.remove()
    place_legend(figure, handles, columns=5)
    return figure


def _colours(lines: list[Line]) -> dict[str, str]:
    """A rule's own; what is derived from a rule ("aligned, ...") has the rule's; others in turn."""
    found, others = {}, iter(_OTHER_COLOURS * len(lines))
    for name in dict.fromkeys(line.name for line in lines):
        rule = name.split(",")[0]
        found[name] = _RULE_COLOURS[rule] if rule in _RULE_COLOURS else next(others)
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
        marker = "" if line.dashed else "."
        handles[label(line.name)] = axes.errorbar(
            line.x, centre, (centre - low, high - centre), capsize=2, marker=marker, **style
        )
    axes.set_xlabel(panel.x)
    if panel.log_x:
        axes.set_xscale("log")
        every = sorted({x for line in lines for x in line.x if line.x != (np.inf,)}, key=float)
        if len(every) <= 6:
            axes.set_xticks(every, [place_label(place) for place in every])
            axes.minorticks_off()
    return handles


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


def _draw_named(panels: Sequence[tuple[Panel, list[Line]]], lines: list[Line]) -> Any:
    """Ours with its spread, and the paper's where it has one; a method a line."""
    names = list(dict.fromkeys(line.name for line in lines))
    places = sorted({place for line in lines for place in line.x}, key=str)
    height = 0.24 * len(names) + 0.8
    figure = new_figure(3.2 * len(places) + 1.4, height * len(panels) + 0.5)
    grid = figure.subplots(len(panels), len(places), squeeze=False, sharey=True)
    handles: dict[str, Any] = {}
    for row, (panel, some) in zip(grid, panels, strict=True):
        for axes, place in zip(row, places, strict=True):
            handles |= _draw_place(axes, panel, place, some, names)
        row[0].set_yticks(range(len(names)), [label(name) for name in names])
        row[0].set_ylim(len(names) - 0.5, -0.5)
    place_legend(figure, handles, columns=2)
    return figure


def _draw_place(
    axes: Any, panel: Panel, place: Place, lines: list[Line], names: list[str]
) -> dict[str, Any]:
    handles: dict[str, Any] = {}
    for line in lines:
        if place not in line.x:
            continue
        at, row = line.x.index(place), names.index(line.name)
        centre, low, high = (part[at] for part in line.summary(panel.middle))
        handles["ours"] = axes.errorbar(
            centre, row, xerr=[[centre - low], [high - centre]], fmt="o", ms=4, color=_OURS
        )
        printed = (panel.paper or {}).get(line.name, {}).get(place)
        if printed is not None:
            value = printed[0] if isinstance(printed, tuple) else printed
            (handles["the paper's"],) = axes.plot(value, row, "D", ms=4, mfc="none", color=_PAPERS)
    axes.set_title(f"{place_label(place)}: {panel.y}", fontsize=10)
    axes.grid(axis="y", lw=0.4, color="#dddddd")
    axes.tick_params(labelsize=9)
    return handles
