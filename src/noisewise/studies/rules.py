"""What a study of gradient rules is: panels of curves, parts that fill them, the paper's claims.

A comparison runs every rule over budgets (or dimensions, or starts) with several repeats. Its
measurements are lines; the paper's orderings are checked on those lines and can fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "RULE_LABELS",
    "Check",
    "Claim",
    "Comparison",
    "Line",
    "Options",
    "Panel",
    "Part",
    "Verdict",
    "joined",
    "label",
    "lies_beyond",
    "stays_above",
]

RULE_LABELS = {
    "vanilla": "vanilla",
    "preconditioned": "preconditioned",
    "natural": "natural",
    "aligned": "aligned",
    "aligned_natural": "aligned natural",
}


def label(name: str) -> str:
    """A line's name as people read it; what is derived from a rule is "RULE, words".

    >>> label("aligned_natural, none estimated")
    'aligned natural, none estimated'
    """
    rule, *words = name.split(",", 1)
    return ",".join([RULE_LABELS.get(rule, rule), *words])


class Options(NamedTuple):
    """What a run was asked for; it goes to every process."""

    rules: tuple[str, ...]
    epsilons: tuple[float, ...]
    fits: int
    """Repeats of every fit, with other noise and another start."""
    epochs: int
    draws: int
    seed: int
    folder: Path | None


class Part(NamedTuple):
    """One process's share of the work: a rule, and a variant where a study has several."""

    rule: str
    variant: str = ""

    @property
    def label(self) -> str:
        """As files and times are called."""
        return f"{self.rule}-{self.variant}" if self.variant else self.rule

    @property
    def group(self) -> str:
        """As the user names it: pieces of one variant differ behind an underscore."""
        return self.variant.split("_")[0]


class Panel(NamedTuple):
    """One panel of the figure, and one table of the text."""

    name: str
    title: str
    x: str
    """What the axis is. Where lines have one place only, repeats are drawn side by side."""
    y: str
    log_x: bool = False
    log_y: bool = False


class Line(NamedTuple):
    """One curve of a panel, every repeat of it."""

    panel: str
    name: str
    """A rule, or what a baseline is called."""
    x: tuple[float, ...]
    values: np.ndarray
    """Places on the axis x repeats; NaN where a fit failed."""
    dashed: bool = False

    @property
    def mean(self) -> np.ndarray:
        """Over repeats; a failed one makes it NaN, which no claim survives."""
        return self.values.mean(1)

    @property
    def error(self) -> np.ndarray:
        """Standard error of the mean over repeats; zero for a single one."""
        count = self.values.shape[1]
        if count < 2:
            return np.zeros(len(self.x))
        return self.values.std(1, ddof=1) / count**0.5

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            **self._asdict(),
            "x": list(self.x),
            "values": self.values.tolist(),
            "mean": self.mean.tolist(),
            "standard_error": self.error.tolist(),
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Line:
        """Back from `to_dict`."""
        values = np.asarray(plain["values"], float)
        return cls(plain["panel"], plain["name"], tuple(plain["x"]), values, plain["dashed"])


def joined(lines: Iterable[Line]) -> list[Line]:
    """Pieces of the same curve, from several parts, put together in the order of the axis.

    A place that several parts have, such as a baseline's, counts once.
    """
    pieces: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        pieces.setdefault((line.panel, line.name), []).append(line)
    found = []
    for some in pieces.values():
        x = np.concatenate([np.asarray(line.x, float) for line in some])
        values = np.concatenate([line.values for line in some])
        places, first = np.unique(x, return_index=True)
        found.append(some[0]._replace(x=tuple(places.tolist()), values=values[first]))
    return found


class Verdict(NamedTuple):
    """Whether a claim held, and the figures that decided it."""

    held: bool | None
    """None where the lines that it speaks of were not run."""
    figures: str


Check = Callable[[Sequence[Line]], Verdict]


class Claim(NamedTuple):
    """An ordering that the paper shows, and how to see whether it is there."""

    says: str
    check: Check


@dataclass(frozen=True)
class Comparison:
    """How a study of rules is run. Functions are top-level, so that processes can be sent them."""

    panels: tuple[Panel, ...]
    parts: Callable[[Options], list[Part]]
    prepare: Callable[[Options], Any]
    """Once, before the parts: the table, the reference optimum, noise multipliers."""
    run: Callable[[Part, Options, Any], list[Line]]
    claims: tuple[Claim, ...]
    notes: tuple[str, ...] = ()
    """Sentences under the tables: what was run, and what differs from the paper."""
    needs_data: str | None = None
    """What ``--data`` must name, where the study cannot do without."""


def lies_beyond(
    panel: str, better: str, others: tuple[str, ...], *, larger: bool = False, ties: float = 0.0
) -> Check:
    """``better`` below (with ``larger``, above) each of the others at every place of the axis.

    With ``ties``, within that many standard errors of the difference counts as well.
    """

    def check(lines: Sequence[Line]) -> Verdict:
        found = {name: _find(lines, panel, name) for name in (better, *others)}
        missing = [name for name, line in found.items() if line is None]
        if missing:
            return _not_run(missing)
        one, *rest = (line for line in found.values() if line is not None)
        gaps = np.stack([_gaps(one, line, larger) for line in rest])
        good = gaps + ties * np.stack([_spread(one, line) for line in rest]) > 0
        # The closest call says most; a NaN (a failed fit) is closer than any number.
        closest = np.argmin(np.where(np.isnan(gaps), -np.inf, gaps))
        which, place = (int(each) for each in np.unravel_index(closest, gaps.shape))
        figures = (
            f"{int(good.sum())} of {good.size} comparisons; closest {_figure(one, place)} against "
            f"{_figure(rest[which], place)}"
        )
        return Verdict(bool(good.all()), figures)

    return check


def stays_above(panel: str, name: str, level: float) -> Check:
    """The line is above a level at every place of the axis."""

    def check(lines: Sequence[Line]) -> Verdict:
        line = _find(lines, panel, name)
        if line is None:
            return _not_run([name])
        place = int(np.argmin(line.mean))
        return Verdict(bool((line.mean > level).all()), f"lowest {_figure(line, place)}")

    return check


def _not_run(names: list[str]) -> Verdict:
    return Verdict(None, f"not run: {', '.join(label(name) for name in names)}")


def _find(lines: Sequence[Line], panel: str, name: str) -> Line | None:
    return next((line for line in lines if (line.panel, line.name) == (panel, name)), None)


def _gaps(one: Line, other: Line, larger: bool) -> np.ndarray:
    """How far ``one`` is on the good side."""
    return one.mean - other.mean if larger else other.mean - one.mean


def _spread(one: Line, other: Line) -> np.ndarray:
    """Standard error of the difference."""
    return np.hypot(one.error, other.error)


def _figure(line: Line, place: int) -> str:
    where = f" at {line.x[place]:g}" if len(line.x) > 1 else ""
    return f"{label(line.name)}{where} {line.mean[place]:.3g} ± {line.error[place]:.2g}"
