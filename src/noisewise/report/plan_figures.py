"""The privacy-utility curve: what epsilon and rows buy."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

from noisewise.planning import Plan
from noisewise.report.figures import COLOURS, NARROW, canvas, draw_both, panel
from noisewise.report.numbers import tick_label

_DASHES: tuple[str | tuple[int, tuple[float, ...]], ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)))
_MARKS = ("s", "^", "v", "D")


def utility_figure(plan: Plan, kept: np.ndarray) -> str:
    """Share of the prior sd that is left (epsilons x sizes x coordinates); '' without a table.

    A line per number of rows is the median coordinate; the planned one has the range as a band.
    """
    if kept.size == 0 or not (np.isfinite(kept) & (kept > 0)).all():
        return ""
    words = (
        "Line plot: expected sd over prior sd against epsilon, both on log scales, a line for each "
        f"of {len(plan.forecast.sizes)} numbers of rows; this plan's epsilon "
        f"{plan.budget.epsilon:g} is marked."
    )
    return draw_both("utility", words, lambda width: _utility(plan, kept, width))


def _utility(plan: Plan, kept: np.ndarray, width: int) -> Figure:
    epsilons, sizes = plan.forecast.epsilons, plan.forecast.sizes
    wide = width > NARROW
    plot, top = (310 if wide else 250), 30
    legend = 24 if wide else 24 * len(sizes)
    figure = canvas(width, top + plot + 50 + legend)
    axes = panel(figure, 50, top, width - 14, top + plot)
    axes.set_xscale("log")
    axes.set_yscale("log")
    others = [j for j, size in enumerate(sizes) if size != plan.rows]
    for j, size in enumerate(sizes):
        middle, ours = np.median(kept[:, j], axis=-1), size == plan.rows
        place = 0 if ours else 1 + others.index(j)
        if ours:
            low, high = kept[:, j].min(-1), kept[:, j].max(-1)
            axes.fill_between(epsilons, low, high, color=COLOURS["faint"], alpha=0.55, lw=0)
        axes.plot(
            epsilons,
            middle,
            marker="o" if ours else _MARKS[(place - 1) % len(_MARKS)],
            ms=5,
            ls=_DASHES[place % len(_DASHES)],
            lw=2.6 if ours else 1.5,
            color=COLOURS[f"line{place % 6 + 1}"],
            zorder=3 if ours else 2,
            label=f"{size:,} rows{' (planned)' if ours else ''}",
        )
    _mark_plan(axes, plan, kept)
    axes.set_title("expected sd : prior sd (1 = nothing learned)")
    axes.set_xlabel("epsilon")
    _scales(axes, epsilons, kept)
    shape: dict[str, Any] = {
        "handlelength": 3,
        "labelspacing": 0.4,
        "ncols": len(sizes) if wide else 1,
    }
    axes.legend(*axes.get_legend_handles_labels(), bbox_to_anchor=(0, -46 / plot), **shape)
    return figure


def _mark_plan(axes: Axes, plan: Plan, kept: np.ndarray) -> None:
    epsilons, sizes, epsilon = plan.forecast.epsilons, plan.forecast.sizes, plan.budget.epsilon
    axes.axvline(epsilon, color=COLOURS["ink"], lw=1, ls=":", zorder=1)
    if epsilon not in epsilons or plan.rows not in sizes:  # a plan file may have been edited
        return
    here = float(np.median(kept[epsilons.index(epsilon), sizes.index(plan.rows)]))
    ring: dict[str, Any] = {"mfc": COLOURS["paper"], "mec": COLOURS["ink"], "mew": 2.2}
    axes.plot(epsilon, here, "o", ms=11, zorder=5, **ring)
    side, off = ("right", -10) if epsilon > np.sqrt(min(epsilons) * max(epsilons)) else ("left", 10)
    where: dict[str, Any] = {"xytext": (off, 10), "textcoords": "offset points", "ha": side}
    axes.annotate("this plan", (epsilon, here), color=COLOURS["ink"], zorder=6, **where)


def _scales(axes: Axes, epsilons: tuple[float, ...], kept: np.ndarray) -> None:
    """Log axes with plain numbers: the planned epsilons, and 1, 2 and 5 times powers of ten."""
    low, high = kept.min() / 1.25, max(kept.max() * 1.25, 1.15)
    steps = np.array([1, 2, 5]) if high / low < 300 else np.array([1])
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), 1)
    ticks = np.outer(powers, steps).ravel()
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(FixedLocator([t for t in ticks if low <= t <= high]))
    axes.xaxis.set_major_locator(FixedLocator(_apart(epsilons)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(FixedLocator([]))
        axis.set_minor_formatter(NullFormatter())
        axis.set_major_formatter(FuncFormatter(tick_label))
    axes.tick_params(labelcolor=COLOURS["muted"], length=3)
    axes.grid(axis="y", color=COLOURS["rule"], lw=0.6, zorder=0)
    axes.axhline(1, color=COLOURS["ink"], lw=1, zorder=1)


def _apart(epsilons: tuple[float, ...]) -> list[float]:
    """Those that are far enough from each other to be written side by side."""
    found: list[float] = []
    for value in epsilons:
        if not found or value / found[-1] > 1.5:
            found.append(value)
    return found
