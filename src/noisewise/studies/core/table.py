"""A table of measures: methods down, columns across, the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from noisewise.evaluation import curve_band
from noisewise.studies.core.figures import new_figure, place_legend
from noisewise.studies.core.study import Column, Measure, Options, Outcome, Part, Study, StudyResult
from noisewise.studies.core.words import label, markdown_table

_METHOD_COLOURS = {
    "exact": "#0072b2",
    "nuts": "#56b4e9",
    "laplace": "#009e73",
    "naive": "#d55e00",
    "bernstein-sheldon": "#cc79a7",
    "plain-gibbs": "#999999",
    "dpvim": "#e69f00",
    "planned": "#000000",
}


class Axes(NamedTuple):
    """What a table's curves are along, what they are of, and what their distance from the diagonal
    is called."""

    x: str
    y: str
    error: str


READINGS = ("exact", "nuts", "laplace")
"""Posteriors that read one and the same trace of the authors' DPVI."""


def table_parts(options: Options) -> list[Part]:
    """A column for each method; methods that read the same traces together, and first, for they
    take longest and no process should end alone with them."""
    same = [name for name in options.methods if name in (*READINGS, "naive")]
    groups = ["+".join(same)] if same else []
    groups += [name for name in options.methods if name not in same]
    places = range(len(options.columns))
    return [Part(group, str(place)) for group in groups for place in places]


def table_cells(part: Part, options: Options) -> tuple[Column, list[str]]:
    """The column and the methods that `table_parts` put into the part."""
    return options.columns[int(part.variant)], part.method.split("+")


@dataclass(frozen=True, kw_only=True)
class Table(Study):
    """A study whose parts give measures by method."""

    levels: np.ndarray
    """That curves are given at."""
    axes: Axes
    chance: bool = False
    """Whether the band is known that chance alone has around the curves."""

    def result(
        self, options: Options, outcomes: dict[Part, Outcome], about: dict[str, Any]
    ) -> TableResult:
        """Measures in the order of the study's methods."""
        measures: list[dict[str, Measure]] = [{} for _ in options.columns]
        seconds: list[dict[str, float]] = [{} for _ in options.columns]
        for part, outcome in outcomes.items():
            measures[int(part.variant)] |= outcome.found
            seconds[int(part.variant)][part.method] = outcome.seconds
        ordered = [{name: found[name] for name in options.methods} for found in measures]
        chosen = options.named("fits", "draws", "seed")
        return TableResult(self, {**chosen, **about, "seconds_by_part": seconds}, tuple(ordered))


@dataclass(frozen=True, eq=False)
class TableResult(StudyResult):
    """Measures by column and method, with what the run was."""

    study: Table
    measures: tuple[Mapping[str, Measure], ...]
    """One for each of the study's columns."""

    @property
    def _columns(self) -> list[tuple[Column, Mapping[str, Measure]]]:
        return list(zip(self.study.columns, self.measures, strict=True))

    def figures(self) -> dict[str, Any]:
        """Measures by column and method."""
        return {
            "columns": [
                {
                    "label": column.heading,
                    "epsilon": column.epsilon,
                    "coordinates": list(column.coordinates),
                    "paper": column.paper,
                    "ours": {name: found.to_dict() for name, found in measures.items()},
                }
                for column, measures in self._columns
            ],
        }

    def sections(self) -> list[str]:
        """Two tables: the paper's own measure beside its figures, then what that one hides."""
        return [self._headline(), self._details(), self._footnote()]

    def draw(self, path: Path) -> None:
        """Every method's curve above, its error below with sds over repetitions, a column each."""
        study, levels = self.study, self.study.levels
        figure = new_figure(4.2 * len(study.columns), 7.2)
        panels = figure.subplots(2, len(study.columns), sharex=True, squeeze=False)
        for (whole, difference), (column, found) in zip(panels.T, self._columns, strict=True):
            whole.set_title(column.heading, fontsize=11)
            whole.plot([0, 1], [0, 1], "--", color="0.5", lw=1)
            difference.axhline(0, ls="--", color="0.5", lw=1)
            for name, one in found.items():
                colour, off = _METHOD_COLOURS[name], one.curve - levels
                style = {"color": colour, "lw": 2.2 if name == "planned" else 1.5}
                whole.plot(levels, one.curve, label=label(name), **style)
                difference.plot(levels, off, **style)
                low, high = off - one.curve_sd, off + one.curve_sd
                difference.fill_between(levels, low, high, color=colour, alpha=0.15, lw=0)
            if study.chance:
                band = curve_band(self.about["fits"], levels)
                difference.fill_between(levels, -band, band, color="0.85", lw=0, zorder=0)
            difference.set_xlabel(study.axes.x)
        panels[0, 0].set_ylabel(study.axes.y)
        panels[1, 0].set_ylabel(study.axes.error)
        handles, names = panels[0, 0].get_legend_handles_labels()
        place_legend(figure, dict(zip(names, handles, strict=True)), columns=4)
        figure.savefig(path, dpi=110)

    def _headline(self) -> str:
        lines = [["RMSE: ours (paper)", *(column.heading for column in self.study.columns)]]
        for name in self.study.methods:
            cells = []
            for column, measures in self._columns:
                cells.append(_spread(measures[name].rmse, measures[name].rmse_sd))
                if name in column.paper:
                    cells[-1] += f" ({_spread(*column.paper[name])})"
            lines.append([label(name), *cells])
        return markdown_table(lines)

    def _details(self) -> str:
        rows = [
            {"": column.heading, "method": label(name), **measures[name].details()}
            for column, measures in self._columns
            for name in self.study.methods
        ]
        return markdown_table([list(rows[0]), *(list(row.values()) for row in rows)])

    def _footnote(self) -> str:
        floors = {f"{found.floor:.3f}" for measures in self.measures for found in measures.values()}
        about = self.about
        return (
            f"K = {about['fits']} fits a column, {about['draws']} draws each, seed "
            f"{about['seed']}, on {about['device']}: {about['seconds']:.0f} s in all, compilation "
            "included. "
            f"Monte Carlo floor of the RMSE: {' to '.join(sorted(floors))}."
        )


def _spread(mean: float, sd: float) -> str:
    return f"{mean:.3f} ± {sd:.3f}"
