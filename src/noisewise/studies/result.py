"""What a study found, beside what the paper printed: JSON, Markdown and a figure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from noisewise.studies.calibration import CalibrationMeasure
from noisewise.studies.catalogue import Column, Study
from noisewise.studies.experiments import EXPERIMENTS
from noisewise.studies.measures import CoverageMeasure
from noisewise.studies.methods import LABELS
from noisewise.studies.text import markdown_table

__all__ = ["Measure", "StudyResult", "column_label"]

Measure = CoverageMeasure | CalibrationMeasure


def column_label(column: Column) -> str:
    """A column's heading."""
    name = "UCI Adult" if column.experiment is None else EXPERIMENTS[column.experiment].name
    return f"{name}, ε = {column.epsilon:g}"


def _coordinates(column: Column) -> list[str]:
    """Names of the coordinates that z-scores and errors are given for; Adult has none."""
    return [] if column.experiment is None else list(EXPERIMENTS[column.experiment].labels)


@dataclass(frozen=True, eq=False)
class StudyResult:
    """Measures by column and method, with what the run was."""

    study: Study
    measures: tuple[dict[str, Measure], ...]
    """One for each of the study's columns."""
    about: dict[str, Any]
    """Settings and times: fits, draws, seed, device, seconds a column."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "study": self.study.name,
            "title": self.study.title,
            "about": self.about,
            "columns": [
                {
                    "label": column_label(column),
                    "epsilon": column.epsilon,
                    "coordinates": _coordinates(column),
                    "paper": column.paper,
                    "ours": {name: found.to_dict() for name, found in measures.items()},
                }
                for column, measures in zip(self.study.columns, self.measures, strict=True)
            ],
        }

    def to_markdown(self) -> str:
        """Two tables: the paper's own measure beside its figures, then what that one hides."""
        return "\n\n".join(
            [f"### {self.study.title}", self._headline(), self._details(), self._footnote()]
        )

    def save(self, folder: Path) -> list[Path]:
        """``NAME.json``, ``NAME.md`` and ``NAME.png`` in the folder."""
        from noisewise.studies.figures import draw_study

        folder.mkdir(parents=True, exist_ok=True)
        data, text, picture = (folder / f"{self.study.name}.{end}" for end in ("json", "md", "png"))
        data.write_text(json.dumps(self.to_dict(), indent=1) + "\n")
        text.write_text(self.to_markdown() + "\n")
        draw_study(self, picture)
        return [data, text, picture]

    def _headline(self) -> str:
        columns = self.study.columns
        lines = [["RMSE: ours (paper)", *(column_label(column) for column in columns)]]
        for name in self.study.methods:
            cells = []
            for column, measures in zip(columns, self.measures, strict=True):
                found = measures[name]
                cell = f"{found.rmse:.3f} ± {found.rmse_sd:.3f}"
                if name in column.paper:
                    mean, sd = column.paper[name]
                    cell += f" ({mean:.3f} ± {sd:.3f})"
                cells.append(cell)
            lines.append([LABELS[name], *cells])
        return markdown_table(lines)

    def _details(self) -> str:
        rows = []
        for column, measures in zip(self.study.columns, self.measures, strict=True):
            for name in self.study.methods:
                found = measures[name]
                rows.append([column_label(column), LABELS[name], *_detail_cells(found)])
        heads = _COVERAGE_HEADS if self.study.kind == "coverage" else _CALIBRATION_HEADS
        return markdown_table([["", "method", *heads], *rows])

    def _footnote(self) -> str:
        floors = {f"{found.floor:.3f}" for measures in self.measures for found in measures.values()}
        about = self.about
        return (
            f"K = {about['fits']} fits a column, {about['draws']} draws each, seed "
            f"{about['seed']}, on {about['device']}: {about['seconds']:.0f} s in all, compilation "
            "included. "
            f"Monte Carlo floor of the RMSE: {' to '.join(sorted(floors))}."
        )


_COVERAGE_HEADS = ("z mean", "z sd", "error", "reported sd", "failed", "not settled")
_CALIBRATION_HEADS = (
    "equal-count RMSE",
    "its floor",
    "Brier",
    "log score",
    "failed",
    "not settled",
)


def _detail_cells(found: Measure) -> list[str]:
    if isinstance(found, CalibrationMeasure):
        figures = [
            f"{value:.4f}"
            for value in (found.equal_count_rmse, found.floor, found.brier, found.log_score)
        ]
    else:
        figures = [
            _range(values, digits)
            for values, digits in (
                (found.z_mean, 2),
                (found.z_sd, 2),
                (found.error, 3),
                (found.reported, 3),
            )
        ]
    return [*figures, str(found.failed), str(found.unsettled)]


def _range(values: np.ndarray, digits: int) -> str:
    """All coordinates' range; one number where there is one coordinate."""
    low, high = np.min(values), np.max(values)
    if len(values) == 1:
        return f"{low:.{digits}f}"
    return f"{low:.{digits}f} to {high:.{digits}f}"
