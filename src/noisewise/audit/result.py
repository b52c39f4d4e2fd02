"""What an audit found, and what it says."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from noisewise._pages import write_page_about
from noisewise.audit.bounds import Bounds
from noisewise.audit.low_bits import LowBits
from noisewise.audit.neighbours import Neighbours
from noisewise.evaluation import Verdict
from noisewise.mechanism import Budget

_FOUND = 0.8


class Attack(NamedTuple):
    """An attack by canaries, and what it showed."""

    name: str
    """Of the mechanism."""
    adjacency: str
    sampling_rate: float
    steps: int
    noise_multiplier: float
    trials: int
    """With a canary; there are about as many without."""
    bounds: Bounds

    @property
    def how(self) -> str:
        """The mechanism's numbers in words."""
        if self.steps == 1 and self.sampling_rate == 1.0:
            return "everybody, once"
        return f"rate {self.sampling_rate:g}, {self.steps} steps"


@dataclass(frozen=True)
class Audit:
    """Attacks on noisewise's own mechanism, by the build and on the machine at hand."""

    budget: Budget
    """What every mechanism was calibrated for: the claim. Both adjacencies were attacked."""
    attacks: tuple[Attack, ...]
    low_bits: tuple[LowBits, ...]
    neighbours: tuple[Neighbours, ...]
    false_alarm: float
    """Chance that a correct build is convicted, all attacks together."""
    about: dict[str, Any] = field(default_factory=dict)
    """Machine, software, time."""

    @property
    def lower_bounds(self) -> dict[tuple[str, str], float]:
        """By mechanism and adjacency: the epsilon that has been shown."""
        found: dict[tuple[str, str], float] = {}
        for one in self.attacks:
            key = one.name, one.adjacency
            found[key] = max(found.get(key, 0.0), one.bounds.epsilon)
        return found

    @property
    def convicted(self) -> bool:
        """Whether the claim is refuted."""
        return bool(self._convictions())

    def _convictions(self) -> list[str]:
        claim = self.budget.epsilon
        reasons = [
            f"{one.name}, {one.adjacency}, {one.how}: epsilon is at least "
            f"{one.bounds.epsilon:.3g}, above the {claim:g} that is claimed."
            for one in self.attacks
            if one.bounds.epsilon > claim
        ]
        reasons += [
            f"{one.name}: low bits give the sum away ({one.off_grid:,} of {one.releases:,} "
            f"releases off the grid; an advantage of at least {one.advantage:.2g})."
            for one in self.low_bits
            if not one.holds
        ]
        return reasons + [
            f"{one.name}: a record moves a sum by {one.furthest:.4f} of what is accounted, and "
            f"other records' part of it by {one.others:,} grid steps."
            for one in self.neighbours
            if not one.holds
        ]

    @property
    def verdict(self) -> Verdict:
        """The answer in words: guilty or not, and how hard was tried."""
        reasons, claim = self._convictions(), self.budget.epsilon
        if reasons:
            return Verdict(False, "this build does not keep what it claims", tuple(reasons))
        weak = [
            f"{name}, {adjacency}: the attack showed {found:.3g} of epsilon {claim:g} only."
            for (name, adjacency), found in self.lower_bounds.items()
            if found < _FOUND * claim
        ]
        words = "no attack got beyond the claim, and all came near it"
        if weak:
            words = "no attack got beyond the claim; not all came near it"
        return Verdict(True, words, tuple(weak))

    def report(self, path: str | Path) -> Path:
        """Write one HTML page.

        Args:
            path: Of the page.
        """
        return write_page_about(self, path)
