"""What a measurement hands back: one figure against its target."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.timing import Ratio


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measured number, its range over rounds, and what it should be."""

    name: str
    measurement: str
    """The name under which ``python -m benchmarks`` runs it."""
    what: str
    settings: str
    value: float
    low: float
    high: float
    rounds: int
    target: float
    at_least: bool
    """Whether the target is a lower bound; otherwise an upper one."""
    unit: str = "x"
    sides: str = ""
    """Median cost of the two competitors, for orientation: only their ratio is comparable."""

    @property
    def met(self) -> bool:
        """Whether the median meets the target."""
        return self.value >= self.target if self.at_least else self.value <= self.target

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    def row(self) -> str:
        """One line of the Markdown table."""
        bound = "at least" if self.at_least else "at most"
        spread = f"{_short(self.low)} to {_short(self.high)}; {self.rounds}"
        if self.rounds == 1:
            spread = "1"
        cells = [
            self.what,
            self.settings,
            f"{bound} {_short(self.target)} {self.unit}",
            f"**{_short(self.value)} {self.unit}** ({spread})",
            "yes" if self.met else "**no**",
            self.sides,
            f"`python -m benchmarks {self.measurement}`",
        ]
        return "| " + " | ".join(cells) + " |"


HEAD = (
    "| figure | settings | target | measured: median (range; rounds) | met | both sides "
    "| command |\n| --- | --- | --- | --- | --- | --- | --- |"
)


def from_ratio(ratio: Ratio, **fields: Any) -> Figure:
    """A figure whose value is the ratio of two competitors."""
    return Figure(value=ratio.median, low=ratio.low, high=ratio.high, rounds=ratio.rounds, **fields)


def milliseconds(value: float) -> str:
    """Seconds, printed as milliseconds."""
    return f"{_short(1e3 * value)} ms"


def _short(value: float) -> str:
    """Three significant digits, without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
