"""What a study of gradient rules found: tables of means over repeats, the paper's orderings checked
on them, JSON, Markdown and a figure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisewise.studies.catalogue import Study
from noisewise.studies.rules import Comparison, Line, Panel, Verdict, label
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
        """Those that have lines: parts may have been left out."""
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
                for panel in self.panels
            ],
        }

    def to_markdown(self) -> str:
        """A table for each panel, then what held and what did not."""
        tables = [self._table(panel) for panel in self.panels]
        notes = [" ".join(self.comparison.notes)] if self.comparison.notes else []
        return "\n\n".join(
            [f"### {self.study.title}", *tables, self._orderings(), *notes, self._footnote()]
        )

    def save(self, folder: Path) -> list[Path]:
        """``NAME.json``, ``NAME.md`` and ``NAME.png`` in the folder."""
        from noisewise.studies.rule_figures import draw_comparison

        folder.mkdir(parents=True, exist_ok=True)
        data, text, picture = (folder / f"{self.study.name}.{end}" for end in ("json", "md", "png"))
        data.write_text(json.dumps(self.to_dict(), indent=1) + "\n")
        text.write_text(self.to_markdown() + "\n")
        draw_comparison(self, picture)
        return [data, text, picture]

    def _table(self, panel: Panel) -> str:
        lines = self.in_panel(panel)
        every = sorted({place for line in lines for place in line.x})
        step = -(-len(every) // _SHOWN)
        places = every[::step] if (len(every) - 1) % step == 0 else [*every[::step], every[-1]]
        rows = [[f"{panel.y}, by {panel.x}", *(f"{place:g}" for place in places)]]
        for line in lines:
            cells = dict(zip(line.x, zip(line.mean, line.error, strict=True), strict=True))
            shown = [
                f"{cells[place][0]:.3g} ± {cells[place][1]:.2g}" if place in cells else ""
                for place in places
            ]
            rows.append([label(line.name), *shown])
        return f"**{panel.title}**\n\n{markdown_table(rows)}"

    def _orderings(self) -> str:
        words = {True: "held", False: "NOT held", None: "not checked"}
        found = zip(self.comparison.claims, self.verdicts, strict=True)
        lines = [f"- {words[v.held]}: {claim.says} ({v.figures})" for claim, v in found]
        return "\n".join(["The paper's orderings:", "", *lines])

    def _footnote(self) -> str:
        about = self.about
        return (
            f"Means over {about['fits']} repeats ± standard errors, {about['epochs']} epochs, seed "
            f"{about['seed']}, on {about['device']}: {about['seconds']:.0f} s of work in all, "
            "compilation included."
        )


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
