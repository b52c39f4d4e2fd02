"""What comparisons measure: lines in panels, and claims that are checked on them and can fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from noisewise.studies.core.words import label

Place = float | str
"""Where on the axis: a number (infinity: no privacy), or the name of a data set."""
Middle = Literal["mean", "median"]
PaperFigures = Mapping[str, Mapping[Place, float | tuple[float, float]]]
"""The paper's figures by line and place, with the spread that it printed if it did."""


def place_label(place: Place) -> str:
    """A place of the axis as people read it.

    >>> [place_label(place) for place in (0.5, float("inf"), "wine")]
    ['0.5', 'no privacy', 'wine']
    """
    if isinstance(place, str):
        return place
    return "no privacy" if np.isinf(place) else f"{place:g}"


class Panel(NamedTuple):
    """One panel of the figure, and one table of the text."""

    name: str
    title: str
    x: str
    """What the axis is. Where lines have one place only, repeats are drawn side by side."""
    y: str
    log_x: bool = False
    log_y: bool = False
    middle: Middle = "mean"
    """Means come with standard errors, medians with quartiles."""
    paper: PaperFigures | None = None
    """They stand beside ours in the table."""
    shown: bool = True
    """Otherwise its lines are in the JSON alone, for a figure that the study draws itself."""


class Summary(NamedTuple):
    """A line over its repeats, at every place."""

    centre: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Line(NamedTuple):
    """One curve of a panel, every repeat of it."""

    panel: str
    name: str
    """A method, or what a baseline is called."""
    x: tuple[Place, ...]
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

    def summary(self, middle: Middle) -> Summary:
        """Mean and one standard error to both sides, or median and quartiles."""
        if middle == "mean":
            return Summary(self.mean, self.mean - self.error, self.mean + self.error)
        low, centre, high = np.quantile(self.values, (0.25, 0.5, 0.75), axis=1)
        return Summary(centre, low, high)

    def shown_at(self, place: int, middle: Middle) -> str:
        """The figures of one place as people read them."""
        if self.values.shape[1] == 1:
            return f"{self.values[place, 0]:.3g}"
        if middle == "mean":
            return f"{self.mean[place]:.3g} ± {self.error[place]:.2g}"
        centre, low, high = (each[place] for each in self.summary(middle))
        return f"{centre:.2g} ({low:.2g} to {high:.2g})"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            **self._asdict(),
            "x": list(self.x),
            "values": self.values.tolist(),
            "mean": self.mean.tolist(),
            "standard_error": self.error.tolist(),
            "median": self.summary("median").centre.tolist(),
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Line:
        """Back from `to_dict`."""
        known = {name: plain[name] for name in ("panel", "name", "dashed")}
        return cls(x=tuple(plain["x"]), values=np.asarray(plain["values"], float), **known)


def joined(lines: Iterable[Line]) -> list[Line]:
    """Pieces of the same curve, from several parts, put together in the order of the axis.

    A place that several parts have, such as a baseline's, counts once. Names stay in their order.
    """
    pieces: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        pieces.setdefault((line.panel, line.name), []).append(line)
    found = []
    for some in pieces.values():
        values: dict[Place, np.ndarray] = {}
        for line in some:
            for place, repeats in zip(line.x, line.values, strict=True):
                values.setdefault(place, repeats)
        x = in_order(values)
        found.append(some[0]._replace(x=tuple(x), values=np.stack([values[p] for p in x])))
    return found


def in_order(places: Iterable[Place]) -> list[Place]:
    """Numbers sort; names are all alike to the sort, which keeps their order."""
    return sorted(places, key=lambda place: 0.0 if isinstance(place, str) else place)


class Verdict(NamedTuple):
    """Whether a claim held, and the figures that decided it."""

    held: bool | None
    """None where the lines that it speaks of were not run."""
    figures: str


Check = Callable[[Sequence[Line]], Verdict]
"""How to see whether an ordering that the paper shows is there, or a goal is met."""


def lies_beyond(
    panel: str,
    better: str,
    others: tuple[str, ...],
    *,
    larger: bool = False,
    ties: float = 0.0,
    middle: Middle = "mean",
) -> Check:
    """A check that one line is better than each of the others at every place of the axis.

    Args:
        panel: where the lines are.
        better: the line that should be below the others.
        others: those that it is compared with, itself left out.
        larger: it should be above them instead.
        ties: within that many standard errors of the difference counts as well.
        middle: what of the repeats is compared.
    """

    def check(lines: Sequence[Line]) -> Verdict:
        found = {name: _find(lines, panel, name) for name in dict.fromkeys((better, *others))}
        missing = [name for name, line in found.items() if line is None]
        if missing:
            return _not_run(missing)
        one, *rest = (line for line in found.values() if line is not None)
        sign = 1 if larger else -1
        centre = one.summary(middle).centre
        gaps = np.stack([sign * (centre - line.summary(middle).centre) for line in rest])
        good = gaps + ties * np.stack([np.hypot(one.error, line.error) for line in rest]) > 0
        # The closest call says most; a NaN (a failed fit) is closer than any number.
        closest = np.argmin(np.where(np.isnan(gaps), -np.inf, gaps))
        which, place = (int(each) for each in np.unravel_index(closest, gaps.shape))
        figures = (
            f"{int(good.sum())} of {good.size} comparisons; closest {_figure(one, place, middle)} "
            f"against {_figure(rest[which], place, middle)}"
        )
        return Verdict(bool(good.all()), figures)

    return check


def stays_above(panel: str, name: str, level: float) -> Check:
    """A check that the line is above a level at every place of the axis."""

    def check(lines: Sequence[Line]) -> Verdict:
        if (line := _find(lines, panel, name)) is None:
            return _not_run([name])
        place = int(np.argmin(line.mean))
        return Verdict(bool((line.mean > level).all()), f"lowest {_figure(line, place, 'mean')}")

    return check


def reaches(
    panel: str, name: str, goals: Mapping[Place, float], *, middle: Middle = "mean"
) -> Check:
    """A check that the line is at most its goals, wherever there is one and it was run."""

    def check(lines: Sequence[Line]) -> Verdict:
        line = _find(lines, panel, name)
        places = [] if line is None else [n for n, place in enumerate(line.x) if place in goals]
        if line is None or not places:
            return _not_run([name])
        levels = np.array([goals[line.x[place]] for place in places])
        good = line.summary(middle).centre[places] <= levels
        figures = [
            f"{_figure(line, place, middle)} for {level:g}"
            for place, level in zip(places, levels, strict=True)
        ]
        return Verdict(bool(good.all()), "; ".join(figures))

    return check


def _not_run(names: list[str]) -> Verdict:
    return Verdict(None, f"not run: {', '.join(label(name) for name in names)}")


def _find(lines: Sequence[Line], panel: str, name: str) -> Line | None:
    return next((line for line in lines if (line.panel, line.name) == (panel, name)), None)


def _figure(line: Line, place: int, middle: Middle) -> str:
    where = f" at {place_label(line.x[place])}" if len(line.x) > 1 else ""
    return f"{label(line.name)}{where} {line.shown_at(place, middle)}"
