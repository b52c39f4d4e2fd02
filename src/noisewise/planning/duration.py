"""How far a plan is, and how long it will take, from its first simulated fits."""

from __future__ import annotations

import time
from collections.abc import Callable

from noisewise._validate import Progress
from noisewise.planning.search import DESIGNS

_MINUTE = 60.0
_MOST_SECONDS = 90.0


class Counted:
    """Simulated fits as they are done, for whoever watches.

    Args:
        fits: Of each design; a search may stop before it has tried all of them.
        recalibrate: That judge the winner; as many again where something seems off.
        progress: Called with fits done and how many there may be at most.
    """

    def __init__(self, fits: int, recalibrate: int, progress: Progress | None) -> None:
        self._done, self._progress = 0, progress
        self._total = fits * DESIGNS + 2 * recalibrate if fits else 0

    def more(self, fits: int) -> None:
        """So many more are done."""
        self._done += fits
        self._total = max(self._total, self._done)
        if self._progress is not None:
            self._progress(self._done, self._total)

    def finish(self) -> None:
        """There will be no more."""
        if self._progress is not None and self._done:
            self._progress(self._total, self._total)


class Pace:
    """Says once how long a plan will take: from the pace of its second group of fits, as the first
    one compiles the program.

    Args:
        fits: Of each design.
        recalibrate: That judge the winner.
        clock: Seconds, from anywhere.
    """

    def __init__(
        self, fits: int, recalibrate: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._least, self._most = fits + recalibrate, DESIGNS * fits + 2 * recalibrate
        self._clock, self._said = clock, False
        self._before: tuple[int, float] | None = None

    def estimate(self, done: int) -> str | None:
        """A sentence, once there is one to say.

        Args:
            done: Simulated fits so far.
        """
        now = self._clock()
        if self._before is None:
            self._before = (done, now)
            return None
        if self._said or done <= self._before[0]:
            return None
        self._said = True
        each = (now - self._before[1]) / (done - self._before[0])
        least, most = (max(0, count - done) * each for count in (self._least, self._most))
        return (
            f"{self._least} to {self._most} simulated fits at {each:.2g} s each: about "
            f"{_span(least, most)} to go"
        )


def _span(least: float, most: float) -> str:
    """Two times in words, in the unit that suits the longer."""
    if most < _MOST_SECONDS:
        return f"{least:.0f} to {most:.0f} seconds"
    return f"{max(least / _MINUTE, 1):.0f} to {most / _MINUTE:.0f} minutes"
