"""A comparison of gradient rules or other methods over budgets (or dimensions, starts, data sets)
with several repeats: panels of lines, and the paper's orderings and our goals checked on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisewise.studies.core.figures import draw_comparison
from noisewise.studies.core.lines import Check, Line, Panel, Verdict, in_order, joined, place_label
from noisewise.studies.core.study import Options, Outcome, Part, Study, StudyResult
from noisewise.studies.core.words import label, markdown_table

_SHOWN = 12
"""Most places of an axis that a table shows; a trace has hundreds, which the figure shows."""
_HELD = {True: "held", False: "NOT held", None: "not checked"}


@dataclass(frozen=True, kw_only=True)
class Comparison(Study):
    """A study whose parts give lines."""

    panels: tuple[Panel, ...]
    claims: Mapping[str, Check]
    """Orderings that the paper shows, and goals, in words."""
    notes: tuple[str, ...] = ()
    """Sentences under the tables: what was run, and what differs from the paper."""
    repeats: str = "repeats"
    """What is repeated: tables, or splits of one, where it is not the noise and the start alone."""
    draw_more: Callable[[Sequence[Line], int, Path], list[Path]] | None = None
    """Draws figures of the study's own, from lines and seed, into a folder."""

    def result(
        self, options: Options, outcomes: dict[Part, Outcome], about: dict[str, Any]
    ) -> ComparisonResult:
        """Lines of all parts, pieces of one curve joined."""
        chosen = options.named("epsilons", "fits", "epochs", "draws", "seed")
        # Parts of an earlier run count too, so that the times are those of all the work.
        work = {part.label: outcome.seconds for part, outcome in outcomes.items()}
        times = {"seconds": sum(work.values()), "seconds_by_part": work}
        lines = joined(line for outcome in outcomes.values() for line in outcome.found)
        run = {"rules": options.methods, **chosen, "device": about["device"], **times}
        return ComparisonResult(self, run, tuple(lines))


@dataclass(frozen=True, eq=False)
class ComparisonResult(StudyResult):
    """Every line of every panel, with what the run was."""

    study: Comparison
    lines: tuple[Line, ...]

    @property
    def panels(self) -> list[tuple[Panel, list[Line]]]:
        """Those that have lines, with them: parts may have been left out."""
        found = [
            (panel, [line for line in self.lines if line.panel == panel.name])
            for panel in self.study.panels
        ]
        return [(panel, lines) for panel, lines in found if lines]

    @property
    def shown(self) -> list[tuple[Panel, list[Line]]]:
        """Those that text and figure show."""
        return [(panel, lines) for panel, lines in self.panels if panel.shown]

    @property
    def verdicts(self) -> list[Verdict]:
        """One for each of the comparison's claims."""
        return [check(self.lines) for check in self.study.claims.values()]

    def figures(self) -> dict[str, Any]:
        """Verdicts and lines."""
        claims = zip(self.study.claims, self.verdicts, strict=True)
        return {
            "claims": [{"says": words, **found._asdict()} for words, found in claims],
            "panels": [
                {**panel._asdict(), "lines": [line.to_dict() for line in lines]}
                for panel, lines in self.panels
            ],
        }

    def sections(self) -> list[str]:
        """A table for each panel, then what held and what did not."""
        found = zip(self.study.claims, self.verdicts, strict=True)
        claims = [f"- {_HELD[v.held]}: {words} ({v.figures})" for words, v in found]
        tables = [_table(panel, lines) for panel, lines in self.shown]
        notes = [" ".join(self.study.notes)] if self.study.notes else []
        checked = "\n".join(["What was checked:", "", *claims])
        return [*tables, checked, *notes, self._footnote()]

    def draw(self, path: Path) -> None:
        """Every panel."""
        draw_comparison(self.shown, path)

    def save(self, folder: Path) -> list[Path]:
        """What every study saves, and its own figures."""
        files, draw_more = super().save(folder), self.study.draw_more
        return files + (draw_more(self.lines, self.about["seed"], folder) if draw_more else [])

    def _footnote(self) -> str:
        about, repeats = self.about, self.study.repeats
        figures = {
            "mean": f"Means over {about['fits']} {repeats} ± standard errors",
            "median": f"Medians over {about['fits']} {repeats} (quartiles)",
        }
        middles = sorted({panel.middle for panel, _ in self.shown})
        return (
            f"{'; '.join(figures[middle] for middle in middles)}, {about['epochs']} "
            f"epochs, seed {about['seed']}, on {about['device']}: {about['seconds']:.0f} s of "
            "work in all, compilation included."
        )


def _table(panel: Panel, lines: list[Line]) -> str:
    every = in_order(dict.fromkeys(place for line in lines for place in line.x))
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


def _printed(figure: float | tuple[float, float]) -> str:
    figures = figure if isinstance(figure, tuple) else (figure,)
    return " ± ".join(f"{each:g}" for each in figures)
