"""What a comparison found: tables over repeats, the paper's figures beside them, claims checked on
them, JSON, Markdown and figures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisewise.studies.catalogue import Study
from noisewise.studies.rules import (
    Comparison,
    Line,
    Panel,
    Printed,
    Verdict,
    label,
    place_label,
)
from noisewise.studies.text import markdown_table

__all__ = ["ComparisonResult", "load_part", "save_part"]

_SHOWN = 12
"""Most places of an axis that a table shows; a trace has hundreds, which the figure shows."""


@dataclass(frozen=True, eq=False)
class ComparisonResult:
    """Every line of every panel, with what the run was."""

    study: Study
    comparison: Comparison
    lines: tuple[Line, ...]
    about: dict[str, Any]
    """Options and times."""

    def in_panel(self, panel: Panel) -> list[Line]:
        """The panel's lines."""
        return [line for line in self.lines if line.panel == panel.name]

    @property
    def panels(self) -> list[Panel]:
        """Those to show that have lines: parts may have been left out."""
        return [panel for panel in self._filled if panel.shown]

    @property
    def _filled(self) -> list[Panel]:
        return [panel for panel in self.comparison.panels if self.in_panel(panel)]

    @property
    def verdicts(self) -> list[Verdict]:
        """One for each of the comparison's claims."""
        return [claim.check(self.lines) for claim in self.comparison.claims]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        claims = zip(self.comparison.claims, self.verdicts, strict=True)
        return {
            "study": self.study.name,
            "title": self.study.title,
            "about": self.about,
            "claims": [{"says": claim.says, **found._asdict()} for claim, found in claims],
            "panels": [
                {**panel._asdict(), "lines": [line.to_dict() for line in self.in_panel(panel)]}
                for panel in self._filled
            ],
        }

    def to_markdown(self) -> str:
        """A table for each panel, then what held and what did not."""
        tables = [self._table(panel) for panel in self.panels]
        notes = [" ".join(self.comparison.notes)] if self.comparison.notes else []
        return "\n\n".join(
            [f"### {self.study.title}", *tables, self._claims(), *notes, self._footnote()]
        )

    def save(self, folder: Path) -> list[Path]:
        """``NAME.json``, ``NAME.md``, ``NAME.png`` and the study's own figures in the folder."""
        from noisewise.studies.rule_figures import draw_comparison

        folder.mkdir(parents=True, exist_ok=True)
        data, text, picture = (folder / f"{self.study.name}.{end}" for end in ("json", "md", "png"))
        data.write_text(json.dumps(self.to_dict(), indent=1) + "\n")
        text.write_text(self.to_markdown() + "\n")
        draw_comparison(self, picture)
        draw_more = self.comparison.draw_more
        return [data, text, picture, *(draw_more(self, folder) if draw_more else ())]

    def _table(self, panel: Panel) -> str:
        lines = self.in_panel(panel)
        every = list(dict.fromkeys(place for line in lines for place in line.x))
        # Numbers sort; names stay in their order.
        every.sort(key=lambda place: 0.0 if isinstance(place, str) else place)
        step = -(-len(every) // _SHOWN)
        places = every[::step] if (len(every) - 1) % step == 0 else [*every[::step], every[-1]]
        beside = ": ours [paper's]" if panel.paper else ""
        rows = [[f"{panel.y}, by {panel.x}{beside}", *(place_label(place) for place in places)]]
        for line in lines:
            printed = (panel.paper or {}).get(line.name, {})
            cells = {
                place: line.shown_at(number, panel.middle)
                + (f" [{_printed(printed[place])}]" if place in printed else "")
                for number, place in enumerate(line.x)
            }
            rows.append([label(line.name), *(cells.get(place, "") for place in places)])
        return f"**{panel.title}**\n\n{markdown_table(rows)}"

    def _claims(self) -> str:
        words = {True: "held", False: "NOT held", None: "not checked"}
        found = zip(self.comparison.claims, self.verdicts, strict=True)
        lines = [f"- {words[v.held]}: {claim.says} ({v.figures})" for claim, v in found]
        return "\n".join(["What was checked:", "", *lines])

    def _footnote(self) -> str:
        about, repeats = self.about, self.comparison.repeats
        middles = {panel.middle for panel in self.panels}
        figures = {
            "mean": f"Means over {about['fits']} {repeats} ± standard errors",
            "median": f"Medians over {about['fits']} {repeats} (quartiles)",
        }
        return (
            f"{'; '.join(figures[middle] for middle in sorted(middles))}, {about['epochs']} "
            f"epochs, seed {about['seed']}, on {about['device']}: {about['seconds']:.0f} s of "
            "work in all, compilation included."
        )


def _printed(figure: Printed) -> str:
    if isinstance(figure, tuple):
        return f"{figure[0]:g} ± {figure[1]:g}"
    return f"{figure:g}"


def save_part(path: Path, asked: dict[str, Any], lines: list[Line], run: dict[str, Any]) -> None:
    """A finished part, so that a run that is cut off loses only what it was at."""
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = {"asked": asked, "run": run, "lines": [line.to_dict() for line in lines]}
    path.write_text(json.dumps(plain, indent=1) + "\n")


def load_part(path: Path, asked: dict[str, Any]) -> tuple[list[Line], dict[str, Any]] | None:
    """A part that was run before with the same options; None if there is none."""
    if not path.exists():
        return None
    plain = json.loads(path.read_text())
    if plain["asked"] != asked:
        return None
    return [Line.from_dict(line) for line in plain["lines"]], plain["run"]
