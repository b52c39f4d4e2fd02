"""Figures about coverage: curves with the band that chance explains, ranks, and predictions.

Differences from what is right are drawn beside the curves, for a good curve hides its diagonal.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from noisewise import evaluation
from noisewise.evaluation import LEVELS, PredictiveCalibration
from noisewise.report.figures import COLOURS, NARROW, canvas, draw_both, panel, shortened
from noisewise.report.numbers import tick_label

_FAILED = -1
_SIGMAS = 2.0
_FITS_PER_BIN = 10


def joint_figure(shares: np.ndarray) -> str:
    """Coverage of all coordinates together against the credible level."""
    curve = evaluation.coverage_curve(shares)
    band = evaluation.curve_band(len(shares), width=_SIGMAS)
    words = (
        "Line plot: share of fits covered against the credible level, and its difference from the "
        f"level, at most {np.abs(curve - LEVELS).max():.3f}, with the band that chance explains."
    )
    return draw_both("joint", words, lambda width: _joint(curve, band, width))


def marginal_figure(marginal: np.ndarray, labels: Sequence[str]) -> str:
    """Coverage minus level, a small panel per coordinate, all on one scale."""
    off = evaluation.coverage_curve(marginal) - LEVELS[:, None]
    rmse = np.atleast_1d(evaluation.coverage_rmse(marginal))
    band = evaluation.curve_band(len(marginal), width=_SIGMAS)
    words = (
        f"{len(labels)} small line plots: coverage minus credible level for each parameter, with "
        "the band that chance explains. The table has the root mean squares."
    )
    return draw_both("marginal", words, lambda width: _marginal(off, rmse, band, labels, width))


def rank_figure(ranks: np.ndarray, draws: int, labels: Sequence[str]) -> str:
    """Histograms of the truths' ranks among the draws; '' without a good fit."""
    good = int((ranks[:, 0] != _FAILED).sum())
    if not good:
        return ""
    bins = int(np.clip(good // _FITS_PER_BIN, 2, min(20, draws + 1)))
    counts = evaluation.rank_histogram(ranks, draws, bins)
    words = (
        f"{len(labels)} histograms: ranks of the truth among the posterior's draws for each "
        "parameter, with the band of heights that chance explains."
    )
    return draw_both("ranks", words, lambda width: _ranks(counts, good, labels, width))


def predictive_figure(found: PredictiveCalibration) -> str:
    """What happened against what was predicted, bin by bin."""
    words = (
        "Dot plot: share of cases that happened against their predicted probability, and the "
        f"difference, root mean square {found.rmse:.4f}; bars show what chance explains."
    )
    return draw_both("predictive", words, lambda width: _predictive(found, width))


def _joint(curve: np.ndarray, band: np.ndarray, width: int) -> Figure:
    figure, whole, difference = _pair(width, "share of fits covered", "share covered − level")
    for axes, base, values in ((whole, LEVELS, curve), (difference, 0 * LEVELS, curve - LEVELS)):
        _draw_band(axes, LEVELS, base, band)
        axes.plot(LEVELS, values, "o-", color=COLOURS["aware"], lw=2, ms=4, zorder=3)
        axes.set_xlabel("credible level")
    _symmetric(difference, max(np.abs(curve - LEVELS).max(), 1.5 * band.max()))
    return figure


def _predictive(found: PredictiveCalibration, width: int) -> Figure:
    titles = "share that happened", "share that happened − predicted"
    figure, whole, difference = _pair(width, *titles)
    chance = _SIGMAS * np.sqrt(found.predicted * (1 - found.predicted) / found.counts)
    off = found.observed - found.predicted
    whole.plot([0, 1], [0, 1], "--", color=COLOURS["ink"], lw=1, zorder=2)
    difference.axhline(0, ls="--", color=COLOURS["ink"], lw=1, zorder=2)
    both = (whole, found.predicted, found.observed), (difference, 0 * off, off)
    for axes, base, values in both:
        bars = (found.predicted, base - chance, base + chance)
        axes.vlines(*bars, color=COLOURS["faint"], lw=7, zorder=1)
        axes.plot(found.predicted, values, "o", color=COLOURS["aware"], ms=6, zorder=3)
        axes.set_xlabel("predicted probability")
    _symmetric(difference, max(np.abs(off).max(), 1.5 * chance.max()))
    return figure


class _Pair(NamedTuple):
    figure: Figure
    whole: Axes
    difference: Axes


def _pair(width: int, *titles: str) -> _Pair:
    """A square panel from 0 to 1, and one for differences: side by side, or one below the other."""
    if width > NARROW:
        figure = canvas(width, 346)
        whole = panel(figure, 46, 26, 316, 296)
        difference = panel(figure, 410, 26, width - 14, 296)
    else:
        figure = canvas(width, 566)
        whole = panel(figure, 46, 26, width - 40, 296)
        difference = panel(figure, 58, 376, width - 14, 516)
    for axes, title in zip((whole, difference), titles, strict=True):
        axes.set_title(title)
        axes.set_xlim(0, 1)
        _quiet_ticks(axes)
        axes.xaxis.set_major_locator(FixedLocator(np.arange(0, 1.1, 0.25).tolist()))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.grid(axis="y", color=COLOURS["rule"], lw=0.6, zorder=0)
    whole.set_ylim(0, 1)
    whole.yaxis.set_major_locator(FixedLocator(np.arange(0, 1.1, 0.25).tolist()))
    return _Pair(figure, whole, difference)


def _draw_band(axes: Axes, x: np.ndarray, base: np.ndarray, half: np.ndarray) -> None:
    """What chance explains, around a dashed line of what is right."""
    shade: dict[str, Any] = {"color": COLOURS["faint"], "alpha": 0.55, "lw": 0}
    axes.fill_between(x, base - half, base + half, zorder=1, **shade)
    axes.plot(x, base, "--", color=COLOURS["ink"], lw=1, zorder=2)


def _symmetric(axes: Axes, reach: float) -> None:
    axes.set_ylim(-1.12 * reach, 1.12 * reach)


def _quiet_ticks(axes: Axes) -> None:
    axes.tick_params(labelcolor=COLOURS["muted"], length=3)
    axes.xaxis.set_major_formatter(FuncFormatter(tick_label))
    axes.yaxis.set_major_formatter(FuncFormatter(tick_label))


_TITLE, _GAP = 24, 20


def _small_panels(
    labels: Sequence[str], notes: Sequence[str], height: float, words: str, width: int
) -> tuple[Figure, list[Axes]]:
    """A panel per label, its note at the right; numbers only at the outer edges."""
    columns = min(max(len(labels), 2), 4 if width > NARROW else 2)
    lines = -(-len(labels) // columns)
    left, span = 46, (width - 46 - 10 + _GAP) / columns
    figure = canvas(width, lines * (_TITLE + height) + (lines - 1) * 10 + 48)
    panels = []
    for place, (label, note) in enumerate(zip(labels, notes, strict=True)):
        line, column = divmod(place, columns)
        top = _TITLE + line * (_TITLE + height + 10)
        start = left + column * span
        axes = panel(figure, start, top, start + span - _GAP, top + height)
        room = span - _GAP - (9.0 * len(note) if note else 0)
        axes.set_title(shortened(label, room), pad=5)
        axes.set_title(note, loc="right", pad=5, color=COLOURS["muted"])
        _quiet_ticks(axes)
        lowest = place + columns >= len(labels)
        axes.tick_params(labelleft=column == 0, labelbottom=lowest)
        if lowest:
            axes.set_xlabel(words)
        panels.append(axes)
    return figure, panels


def _marginal(
    off: np.ndarray, rmse: np.ndarray, band: np.ndarray, labels: Sequence[str], width: int
) -> Figure:
    notes = [f"{value:.3f}" for value in rmse]
    figure, panels = _small_panels(labels, notes, 96, "credible level", width)
    reach = max(np.abs(off).max(), 1.5 * band.max())
    for axes, curve in zip(panels, off.T, strict=True):
        _draw_band(axes, LEVELS, 0 * LEVELS, band)
        axes.plot(LEVELS, curve, color=COLOURS["aware"], lw=1.8, zorder=3)
        axes.set_xlim(0, 1)
        axes.xaxis.set_major_locator(FixedLocator([0, 0.5, 1]))
        axes.yaxis.set_major_locator(MaxNLocator(4, symmetric=True))
        _symmetric(axes, reach)
    return figure


def _ranks(counts: np.ndarray, good: int, labels: Sequence[str], width: int) -> Figure:
    figure, panels = _small_panels(labels, [""] * len(labels), 84, "rank of the truth", width)
    share = 1 / len(counts)
    edges = np.linspace(0, 1, len(counts) + 1)
    right, chance = good * share, _SIGMAS * np.sqrt(good * share * (1 - share))
    for axes, bars in zip(panels, counts.T, strict=True):
        # Behind the bars' outlines, so that both can be seen on paper.
        axes.axhspan(right - chance, right + chance, color=COLOURS["faint"], alpha=0.55, lw=0)
        axes.axhline(right, ls="--", color=COLOURS["ink"], lw=1, zorder=2)
        axes.stairs(bars, edges, color=COLOURS["aware"], lw=1.8, zorder=3)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.08 * max(counts.max(), right + chance))
        axes.xaxis.set_major_locator(FixedLocator([0, 0.5, 1]))
        axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    return figure
