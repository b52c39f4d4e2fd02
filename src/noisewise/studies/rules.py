"""What a comparison is: panels of curves, parts that fill them, claims that are checked on them.

A comparison runs every gradient rule, or other method, over budgets (or dimensions, or starts, or
data sets) with several repeats. Its measurements are lines; the paper's orderings, and goals of
our own, are checked on those lines and can fail (`claims`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from noisewise.studies.comparison import ComparisonResult

__all__ = [
    "RULE_LABELS",
    "Check",
    "Claim",
    "Comparison",
    "Line",
    "Middle",
    "Options",
    "Panel",
    "Part",
    "Place",
    "Printed",
    "Summary",
    "Verdict",
    "joined",
    "label",
    "place_label",
]

Place = float | str
"""Where on the axis: a number (infinity: no privacy), or the name of a data set."""
Middle = Literal["mean", "median"]
Printed = float | tuple[float, float]
"""A figure of the paper's, with the spread that it printed if it did."""

RULE_LABELS = {
    "vanilla": "vanilla",
    "preconditioned": "preconditioned",
    "natural": "natural",
    "aligned": "aligned",
    "aligned_natural": "aligned natural",
}
_LABELS = {
    **RULE_LABELS,
    "ep": "EP",
    "sep": "SEP",
    "adf": "ADF (PBP)",
    "clipped-sep": "clipped SEP",
    "dp-sep": "DP-SEP",
    "dp-em": "DP-EM",
    "vi": "VI",
    "dp-vi": "DP-VI",
    "literal": "Algorithm 3",
    "point": "point estimate",
    "line": "linear regression",
    "private-line": "private linear regression",
}


def label(name: str) -> str:
    """A line's name as people read it; what is derived from a method is "METHOD, words".

    >>> label("aligned_natural, none estimated")
    'aligned natural, none estimated'
    """
    method, *words = name.split(",", 1)
    return ",".join([_LABELS.get(method, method), *words])


def place_label(place: Place) -> str:
    """A place of the axis as people read it.

    >>> [place_label(place) for place in (0.5, float("inf"), "wine")]
    ['0.5', 'no privacy', 'wine']
    """
    if isinstance(place, str):
        return place
    return "no privacy" if np.isinf(place) else f"{place:g}"


class Options(NamedTuple):
    """What a run was asked for; it goes to every process."""

    rules: tuple[str, ...]
    """Methods, where it is not gradient rules that are compared."""
    epsilons: tuple[float, ...]
    fits: int
    """Repeats of every fit, with other noise and another start."""
    epochs: int
    draws: int
    seed: int
    folder: Path | None


class Part(NamedTuple):
    """One process's share of the work: a rule or other method, and a variant where a study has
    several."""

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
    middle: Middle = "mean"
    """Means come with standard errors, medians with quartiles."""
    paper: Mapping[str, Mapping[Place, Printed]] | None = None
    """What the paper printed, by line and place: it stands beside ours in the table."""
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
        values = np.asarray(plain["values"], float)
        return cls(plain["panel"], plain["name"], tuple(plain["x"]), values, plain["dashed"])


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
        # Numbers sort; names are all alike to the sort, which keeps their order.
        x = sorted(values, key=lambda place: 0.0 if isinstance(place, str) else place)
        found.append(some[0]._replace(x=tuple(x), values=np.stack([values[p] for p in x])))
    return found


class Verdict(NamedTuple):
    """Whether a claim held, and the figures that decided it."""

    held: bool | None
    """None where the lines that it speaks of were not run."""
    figures: str


Check = Callable[[Sequence[Line]], Verdict]


class Claim(NamedTuple):
    """An ordering that the paper shows, or a goal, and how to see whether it is there."""

    says: str
    check: Check


@dataclass(frozen=True)
class Comparison:
    """How a comparison is run. Functions are top-level, so that processes can be sent them."""

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
    repeats: str = "repeats"
    """What is repeated: tables, or splits of one, where it is not the noise and the start alone."""
    least_fits: int = 2
    """Fewest repeats that say something: one where a run may be a single split."""
    draw_more: Callable[[ComparisonResult, Path], list[Path]] | None = None
    """Draws figures of the study's own into a folder."""
