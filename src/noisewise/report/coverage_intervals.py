"""Some simulated fits of one parameter: intervals beside the truth, with and without the noise."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from noisewise.coverage import Coverage
from noisewise.report.figures import COLOURS, NARROW, canvas, draw_both, panel
from noisewise.report.numbers import tick_label

MOST_FITS = 60
_LEVEL = 0.95
_WITHIN = 1.959964
_SPECK = 1 / 12


class Simulated(NamedTuple):
    """One parameter in every fit: the truth, and 95% intervals (lower and upper, by fit)."""

    truth: np.ndarray
    aware: np.ndarray
    unaware: np.ndarray

    def held(self, interval: np.ndarray) -> np.ndarray:
        """Which intervals hold their truths; those of failed fits do not."""
        with np.errstate(invalid="ignore"):
            return (interval[0] <= self.truth) & (self.truth <= interval[1])

    @property
    def around_truth(self) -> bool:
        """Whether intervals are specks on the scale of the truths: then draw them around these."""
        width = np.nanmedian(np.ptp(self.aware, axis=0)) if np.isfinite(self.aware).any() else 0.0
        return bool(width < _SPECK * np.ptp(self.truth))

    def first(self, count: int) -> Simulated:
        """The first fits, whatever became of them, in the order of their truths."""
        order = np.argsort(self.truth[:count], kind="stable")
        return Simulated(*(values[..., :count][..., order] for values in self))


def simulated_intervals(found: Coverage, where: int) -> Simulated:
    """Central 95% intervals of coordinate ``where``, NaN for fits that failed."""
    draws = np.asarray(found.draws[:, :, where], float)
    finite = np.isfinite(found.draws).all((1, 2))
    aware = np.full((2, len(draws)), np.nan)
    if finite.any():
        tail = (1 - _LEVEL) / 2
        aware[:, finite] = np.quantile(draws[finite], [tail, 1 - tail], axis=1)
    mean, reach = found.noise_unaware_mean[:, where], _WITHIN * found.noise_unaware_sd[:, where]
    return Simulated(found.truth[:, where], aware, np.stack([mean - reach, mean + reach]))


def interval_figure(found: Simulated, name: str = "noise-aware") -> str:
    """The intervals, by their name, and plain DPVI's of the same fits on the same scale."""
    some = found.first(MOST_FITS)
    if not np.isfinite(some.aware).any():
        return ""
    aware, unaware = (int(some.held(interval).sum()) for interval in (some.aware, some.unaware))
    words = (
        f"Interval plot of {len(some.truth)} simulated fits: {aware} intervals ({name}) hold "
        f"the truth, and {unaware} of plain DPVI."
    )
    return draw_both("fits", words, lambda width: _draw(some, name, width))


def _draw(some: Simulated, name: str, width: int) -> Figure:
    if width > NARROW:
        figure = canvas(width, 380)
        middle = (46 + width - 8) / 2
        spans = (46, 30, middle - 12, 346), (middle + 12, 30, width - 8, 346)
    else:
        figure = canvas(width, 610)
        spans = (46, 30, 348, 276), (46, 330, 348, 576)
    panels = [panel(figure, *span) for span in spans]
    low, high = _limits(some)
    entries = ((name, "aware", some.aware), ("plain DPVI", "unaware", some.unaware))
    for axes, (whose, role, interval) in zip(panels, entries, strict=True):
        axes.set_ylim(low, high)
        held = some.held(interval)
        _draw_fits(axes, some, interval, held, role)
        axes.set_title(f"{whose}: {held.sum()} of {len(held)} hold the truth", pad=10)
        axes.set_xlim(-1, len(held))
        axes.xaxis.set_major_locator(FixedLocator([]))
        axes.yaxis.set_major_locator(MaxNLocator(6))
        axes.yaxis.set_major_formatter(FuncFormatter(tick_label))
        axes.tick_params(labelcolor=COLOURS["muted"], length=3)
        axes.set_xlabel("simulated fits, by truth")
    if width > NARROW:
        panels[1].tick_params(labelleft=False)
    return figure


def _draw_fits(
    axes: Axes, some: Simulated, interval: np.ndarray, held: np.ndarray, role: str
) -> None:
    """Missed truths differ by colour, width and mark, so that paper shows them as well."""
    place, base = np.arange(len(held)), some.truth if some.around_truth else 0 * some.truth
    lower, upper = interval - base
    truth = some.truth - base
    failed = ~np.isfinite(interval).all(0)
    missed = ~held & ~failed
    axes.vlines(place[held], lower[held], upper[held], color=COLOURS[role], lw=1.5, zorder=1)
    axes.vlines(place[missed], lower[missed], upper[missed], color=COLOURS["ink"], lw=2.8, zorder=2)
    ink, paper = COLOURS["ink"], COLOURS["paper"]
    dot: dict[str, Any] = {"ls": "", "zorder": 3, "mec": ink, "mfc": paper, "mew": 1.0}
    axes.plot(place[held], truth[held], marker="o", ms=3.4, **dot)
    axes.plot(place[missed], truth[missed], marker="D", ms=4.6, **dot)
    axes.plot(place[failed], truth[failed], marker="x", ms=6, **{**dot, "mew": 1.6})
    low, high = axes.get_ylim()
    for beyond, edge, marker in ((lower > high, high, "^"), (upper < low, low, "v")):
        here = place[beyond & missed]
        edges = np.full(len(here), edge)
        axes.plot(here, edges, marker, color=COLOURS["ink"], ms=5, clip_on=False, zorder=4)


def _limits(some: Simulated) -> tuple[float, float]:
    """Everything noise-aware, and of plain DPVI what is not further out than that is wide."""
    base = some.truth if some.around_truth else 0 * some.truth
    inner = np.append((some.aware - base).ravel(), some.truth - base)
    low, high = np.nanmin(inner), np.nanmax(inner)
    unaware = (some.unaware - base)[np.isfinite(some.unaware)]
    reach = high - low
    if unaware.size:
        low = max(min(low, unaware.min()), low - reach)
        high = min(max(high, unaware.max()), high + reach)
    rim = 0.03 * (high - low) or 1.0
    return low - rim, high + rim
