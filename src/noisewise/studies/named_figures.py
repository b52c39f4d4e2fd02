"""Figures of methods compared on data sets: a row of panels a measure, a panel a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from noisewise.studies.rules import Line, Panel, Place, label, place_label

if TYPE_CHECKING:
    from noisewise.studies.comparison import ComparisonResult

__all__ = ["draw_named", "is_named"]

_OURS, _PAPERS = "#0072b2", "#d55e00"


def is_named(lines: list[Line]) -> bool:
    """Whether places are names, so that no line can be drawn along them."""
    return all(isinstance(place, str) for line in lines for place in line.x)


def draw_named(result: ComparisonResult) -> Figure:
    """Ours with its spread, and the paper's where it has one; a method a line."""
    panels = result.panels
    lines = [line for panel in panels for line in result.in_panel(panel)]
    names = list(dict.fromkeys(line.name for line in lines))
    places = sorted({place for line in lines for place in line.x}, key=str)
    height = 0.24 * len(names) + 0.8
    figure = Figure(
        figsize=(3.2 * len(places) + 1.4, height * len(panels) + 0.5), layout="constrained"
    )
    grid = figure.subplots(len(panels), len(places), squeeze=False, sharey=True)
    handles: dict[str, Any] = {}
    for row, panel in zip(grid, panels, strict=True):
        for axes, place in zip(row, places, strict=True):
            handles |= _draw(axes, panel, place, result.in_panel(panel), names)
        row[0].set_yticks(range(len(names)), [label(name) for name in names])
        row[0].set_ylim(len(names) - 0.5, -0.5)
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=2, frameon=False
    )
    return figure


def _draw(
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
