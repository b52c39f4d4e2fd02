"""Checks that a comparison's claims are made of: orderings of lines, levels, goals to reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from noisewise.studies.rules import Check, Line, Middle, Place, Verdict, label, place_label

__all__ = ["lies_beyond", "reaches", "stays_above"]


def lies_beyond(
    panel: str,
    better: str,
    others: tuple[str, ...],
    *,
    larger: bool = False,
    ties: float = 0.0,
    middle: Middle = "mean",
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
        gaps = np.stack([_gaps(one, line, larger, middle) for line in rest])
        good = gaps + ties * np.stack([_spread(one, line) for line in rest]) > 0
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
    """The line is above a level at every place of the axis."""

    def check(lines: Sequence[Line]) -> Verdict:
        line = _find(lines, panel, name)
        if line is None:
            return _not_run([name])
        place = int(np.argmin(line.mean))
        return Verdict(bool((line.mean > level).all()), f"lowest {_figure(line, place, 'mean')}")

    return check


def reaches(
    panel: str,
    name: str,
    goals: Mapping[Place, float],
    *,
    larger: bool = False,
    middle: Middle = "mean",
) -> Check:
    """The line is at most (with ``larger``, at least) at its goal, wherever there is one and it was
    run."""

    def check(lines: Sequence[Line]) -> Verdict:
        line = _find(lines, panel, name)
        places = [] if line is None else [n for n, place in enumerate(line.x) if place in goals]
        if line is None or not places:
            return _not_run([name])
        levels = np.array([goals[line.x[place]] for place in places])
        found = line.summary(middle).centre[places]
        good = found >= levels if larger else found <= levels
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


def _gaps(one: Line, other: Line, larger: bool, middle: Middle) -> np.ndarray:
    """How far ``one`` is on the good side."""
    first, second = one.summary(middle).centre, other.summary(middle).centre
    return first - second if larger else second - first


def _spread(one: Line, other: Line) -> np.ndarray:
    """Standard error of the difference."""
    return np.hypot(one.error, other.error)


def _figure(line: Line, place: int, middle: Middle) -> str:
    where = f" at {place_label(line.x[place])}" if len(line.x) > 1 else ""
    return f"{label(line.name)}{where} {line.shown_at(place, middle)}"
