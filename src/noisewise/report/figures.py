"""The page's figures, as inline SVG whose text stays text and whose colours follow the page.

Matplotlib draws with stand-in colours, one per role, and each is then replaced by a CSS variable,
so that one drawing serves light mode, dark mode and paper. Every figure is drawn twice, wide and
narrow: a wide one shrunk to a phone could not be read.
"""

import io
import re
import unicodedata
import warnings
from collections.abc import Callable
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter

from noisewise.report.intervals import Interval, Row
from noisewise.report.numbers import tick_label

MOST_ROWS = 40
MOST_LINES = 12

WIDE, NARROW = 900, 356
_HUES = 6
_FONT_SIZE = 12.5
_ROLES = ("ink", "muted", "rule", "paper", "shade", "aware", "unaware", "faint")
COLOURS = {
    role: f"#0000{i + 1:02x}"
    for i, role in enumerate((*_ROLES, *(f"line{hue + 1}" for hue in range(_HUES))))
}


def forest_figure(rows: list[Row], name: str, plain: str = "plain DPVI") -> str:
    """Both posteriors, by their names, a panel per latent; '' if none is finite."""
    shown = [row for row in rows[:MOST_ROWS] if row.aware.finite]
    if not shown:
        return ""
    words = "Forest plot: the 95% and 50% intervals of the table below."
    return draw_both("forest", words, lambda width: _forest(shown, (name, plain), width))


def trace_figure(means: np.ndarray, ends: np.ndarray, burn_in: int) -> str:
    """Block means over steps, burn-in shaded; '' if there is nothing finite to draw."""
    usable = means.ndim == 2 and len(means) == len(ends) and means.size > 0
    if not usable or not np.isfinite(means).any():
        return ""
    words = "Line plot: block means of the iterates over steps, with the burn-in shaded."
    return draw_both("trace", words, lambda width: _trace(means, ends, burn_in, width))


def curvature_figure(values: np.ndarray, relative: bool, eigen: bool) -> str:
    """Estimated curvature by direction or coordinate, from 1 where that is what was simulated."""
    if values.size == 0 or not np.isfinite(values).all():
        return ""
    words = "Dot plot: the estimated curvature relative to the simulated one."
    return draw_both("curvature", words, lambda width: _curvature(values, relative, eigen, width))


def draw_both(name: str, words: str, draw: Callable[[int], Figure]) -> str:
    """The figure for screens and paper, and for phones; the style sheet shows one of them."""
    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "text.parse_math": False,  # a column may be called $x$
        "text.usetex": False,
        "font.size": _FONT_SIZE,
        "text.color": COLOURS["ink"],
        "axes.edgecolor": COLOURS["rule"],
        "axes.labelcolor": COLOURS["muted"],
        "xtick.color": COLOURS["rule"],
        "ytick.color": COLOURS["rule"],
        "xtick.labelcolor": COLOURS["muted"],
        "ytick.labelcolor": COLOURS["ink"],
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.unicode_minus": True,
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "axes.titlelocation": "left",
        "axes.titlesize": "medium",
        "legend.frameon": False,
        "legend.loc": "upper left",
        "legend.borderaxespad": 0,
        "legend.borderpad": 0,
        "lines.solid_capstyle": "butt",
    }
    with matplotlib.rc_context(), warnings.catch_warnings():
        # Names may use letters that matplotlib's own font lacks; the reader's browser has others.
        warnings.filterwarnings("ignore", message="Glyph")
        matplotlib.rcdefaults()  # not whatever style the caller's notebook has set
        matplotlib.rcParams.update(style)
        wide, narrow = (
            _inline(draw(width), f"{name}-{width}", kind, words)
            for width, kind in ((WIDE, "wide"), (NARROW, "narrow"))
        )
    return wide + narrow


def _inline(figure: Figure, prefix: str, kind: str, words: str) -> str:
    """The SVG element alone: no XML header, no metadata, ids of its own, colours by role."""
    sink = io.StringIO()
    FigureCanvasSVG(figure).print_svg(
        sink, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type"))
    )
    svg = sink.getvalue()
    view_box = re.search(r'viewBox="([^"]*)"', svg)
    assert view_box is not None
    width = view_box[1].split()[2]
    body = svg[svg.index(">", svg.index("<svg")) + 1 :]
    # The style element sets line joins for the whole document: the page's own style sheet does.
    body = re.sub(r"<(metadata|style).*?</\1>", "", body, flags=re.DOTALL)
    body = re.sub(r"<[^<>]+>", lambda tag: _retouched(tag[0], prefix), body)
    head = f'<svg class="{kind}" viewBox="{view_box[1]}" style="max-width: {float(width):g}px"'
    return f'{head} role="img" aria-label="{words}">{body}'


def _retouched(tag: str, prefix: str) -> str:
    """One tag of the drawing: ids prefixed, colours by role, the page's font. Text is not a tag."""
    tag = re.sub(r' id="', f' id="{prefix}-', tag)
    tag = re.sub(r'(url\(#|href="#)', rf"\1{prefix}-", tag)
    tag = re.sub(r"font: ([0-9.]+px)[^;\"]*", r"font-size: \1", tag)
    tag = re.sub(r"font-family: [^;\"]*;? ?", "", tag)
    for role, stand_in in COLOURS.items():
        tag = tag.replace(stand_in, f"var(--{role})")
    return tag


def canvas(width: int, height: float) -> Figure:
    """An empty figure of so many pixels."""
    return Figure(figsize=(width / 72, height / 72))


def panel(figure: Figure, left: float, top: float, right: float, bottom: float) -> Axes:
    """Axes placed by pixels from the figure's left and top edges."""
    width, height = figure.get_size_inches() * 72
    return figure.add_axes(
        (left / width, 1 - bottom / height, (right - left) / width, (bottom - top) / height)
    )


def _extent(label: str) -> float:
    """About how many pixels wide a label is in a wide font; readers' fonts are not known here."""
    return _FONT_SIZE * sum(
        1.0
        if unicodedata.east_asian_width(c) in "WF" or c in "mwMW@%"
        else 0.75
        if c.isupper()
        else 0.42
        if c in "ijl.,:;|!'[]()/ "
        else 0.62
        for c in label
    )


def shortened(label: str, room: float) -> str:
    """A label that fits, ending in an ellipsis where it was cut; the table has it in full.

    >>> shortened("occupation=managerial", 100)
    'occupation=…'
    """
    line = " ".join(label.split())
    if _extent(line) <= room:
        return line
    while line and _extent(line) > room - _FONT_SIZE:
        line = line[:-1]
    return line + "…"


_LINE, _GAP, _TITLE, _AXIS = 27, 14, 26, 30


def _forest(rows: list[Row], names: tuple[str, str], width: int) -> Figure:
    latents = list(dict.fromkeys(row.latent for row in rows))
    groups = [[row for row in rows if row.latent == latent] for latent in latents]
    titled = len(groups) > 1
    # A latent with one scalar bears its own name already.
    titles = [titled and [row.label for row in group] != [group[0].latent] for group in groups]
    heights = [len(group) * _LINE + _AXIS + _GAP for group in groups]
    compared = any(row.unaware is not None for row in rows)
    legend = 48 if compared and width == NARROW else 30
    figure = canvas(width, legend + sum(heights) - _GAP + _TITLE * sum(titles))
    labels = {id(row): shortened(row.label, 260 if width > NARROW else 124) for row in rows}
    left = 12 + max(map(_extent, labels.values()))
    top = float(legend)
    for group, height, title in zip(groups, heights, titles, strict=True):
        if title:
            y = 1 - (top + 15) / (72 * figure.get_figheight())
            figure.text(0, y, shortened(group[0].latent, width - 20), va="baseline", weight="bold")
            top += _TITLE
        axes = panel(figure, left, top, width - 12, top + len(group) * _LINE)
        _draw_group(axes, group, [labels[id(row)] for row in group], width)
        top += height
    _forest_legend(figure, left, width, names, compared)
    return figure


def _draw_group(axes: Axes, group: list[Row], labels: list[str], width: int) -> None:
    mark = 1.0 if width > NARROW else 0.6
    for place, row in enumerate(group):
        if place % 2 == 0:
            axes.axhspan(place - 0.5, place + 0.5, color=COLOURS["shade"], lw=0, zorder=0)
        _draw_interval(axes, place - 0.15, row.aware, "aware", mark)
        if row.unaware is not None and row.unaware.finite:
            _draw_interval(axes, place + 0.21, row.unaware, "unaware", mark)
    low, high = axes.get_xlim()
    if low <= 0 <= high:
        axes.axvline(0, color=COLOURS["muted"], lw=1, zorder=1)
    axes.set_ylim(len(group) - 0.5, -0.5)
    axes.set_yticks(range(len(group)), labels)
    axes.tick_params(axis="y", length=0, pad=8)
    axes.tick_params(axis="x", length=4, pad=4)
    axes.xaxis.set_major_locator(MaxNLocator(6 if width > NARROW else 4))
    axes.xaxis.set_major_formatter(FuncFormatter(tick_label))
    axes.spines["left"].set_visible(False)


def _draw_interval(axes: Axes, y: float, interval: Interval, role: str, mark: float) -> None:
    colour = COLOURS[role]
    thin, thick, size = (1.6, 6.0, 6.5) if role == "aware" else (1.3, 3.6, 4.6)
    marker = "o" if role == "aware" else "D"
    axes.plot([interval.lower, interval.upper], [y, y], color=colour, lw=thin, zorder=2)
    axes.plot([interval.lower_half, interval.upper_half], [y, y], color=colour, lw=thick, zorder=3)
    dot: dict[str, Any] = {"ms": mark * size, "mfc": COLOURS["paper"], "mec": colour, "mew": 1.5}
    axes.plot(interval.mean, y, marker, zorder=4, clip_on=False, **dot)


def _forest_legend(
    figure: Figure, left: float, width: int, names: tuple[str, str], compared: bool
) -> None:
    """Drawn like the rows themselves: thin 95%, thick 50%, a dot for the mean."""
    one_line = width > NARROW
    start = left if one_line else 0
    second = (start + 205, 10) if one_line else (0, 28)
    entries = [("aware", names[0], (start, 10))]
    if compared:
        entries.append(("unaware", f"{names[1]} (ignores the noise)", second))
    axes = panel(figure, 0, 0, width, 40)
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(40, 0)
    for role, words, (x, y) in entries:
        shown = Interval(x + 18, 0, lower=x, upper=x + 36, lower_half=x + 9, upper_half=x + 27)
        _draw_interval(axes, y, shown, role, 1.0 if one_line else 0.6)
        axes.text(x + 44, y, words, va="center_baseline", color=COLOURS["ink"])


def _trace(means: np.ndarray, ends: np.ndarray, burn_in: int, width: int) -> Figure:
    wide = width > NARROW
    order = np.argsort(-np.ptp(np.where(np.isfinite(means), means, 0.0), axis=0), kind="stable")
    bold = sorted(order[:MOST_LINES])
    per_row = 6 if wide else 3
    legend = 20 * -(-len(bold) // per_row)
    top, plot = 26, 300 if wide else 240
    figure = canvas(width, top + plot + 52 + legend)
    axes = panel(figure, 50, top, width - 24, top + plot)
    starts = np.concatenate([[0], ends[:-1]])
    middle = (starts + ends) / 2
    for coordinate in order[MOST_LINES:]:
        axes.plot(middle, means[:, coordinate], color=COLOURS["faint"], lw=0.7, zorder=1)
    for place, coordinate in enumerate(bold):
        colour = COLOURS[f"line{place % _HUES + 1}"]
        style: dict[str, Any] = {"ls": "-" if place < _HUES else (0, (4, 1.5)), "color": colour}
        label = f"{coordinate + 1}"
        axes.plot(middle, means[:, coordinate], lw=1.5, zorder=2, label=label, **style)
    axes.set_xlim(0, ends[-1])
    if 0 < burn_in <= len(ends):
        _mark_burn_in(figure, axes, int(ends[burn_in - 1]), int(ends[-1]))
    axes.xaxis.set_major_locator(MaxNLocator(6 if wide else 4, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_formatter(FuncFormatter(tick_label))
    axes.tick_params(labelcolor=COLOURS["muted"])
    axes.grid(axis="y", color=COLOURS["rule"], lw=0.6, zorder=0)
    axes.set_xlabel("step")
    lines, names = axes.get_legend_handles_labels()
    down = np.arange(-(-len(bold) // per_row) * per_row).reshape(-1, per_row).T.ravel()
    across = down[down < len(bold)]  # matplotlib fills columns first
    entries = [lines[i] for i in across], [names[i] for i in across]
    axes.legend(*entries, bbox_to_anchor=(0, -52 / plot), handlelength=1.8, ncols=per_row)
    return figure


def _mark_burn_in(figure: Figure, axes: Axes, end: int, last: int) -> None:
    axes.axvspan(0, end, color=COLOURS["shade"], lw=0, zorder=0)
    axes.axvline(end, color=COLOURS["ink"], lw=1.2, zorder=3)
    late = end > last / 2
    axes.annotate(
        f"burn-in ends at step {end:,}",
        (end, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 8),
        textcoords="offset points",
        ha="right" if late else "left",
        color=COLOURS["ink"],
    )


def _curvature(values: np.ndarray, relative: bool, eigen: bool, width: int) -> Figure:
    wide = width > NARROW
    width = min(width, 620)
    shown = np.sort(values)[::-1] if eigen else values
    plot = 170
    figure = canvas(width, plot + 62)
    axes = panel(figure, 50, 10, width - 12, 10 + plot)
    base = 1.0 if relative else 0.0
    place = np.arange(1, len(shown) + 1)
    small = len(shown) > (80 if wide else 30)
    axes.vlines(place, base, shown, color=COLOURS["aware"], lw=0.8 if small else 2, zorder=1)
    axes.plot(place, shown, "o", color=COLOURS["aware"], ms=2.5 if small else 6, zorder=2)
    if relative:
        axes.axhline(1, color=COLOURS["ink"], lw=1, zorder=3)
    if relative and (shown > 0).all():
        _log_axis(axes, shown)
    else:
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_formatter(FuncFormatter(tick_label))
    axes.set_xlim(0.4, len(shown) + 0.6)
    axes.xaxis.set_major_locator(MaxNLocator(min(10, len(shown)), integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.tick_params(labelcolor=COLOURS["muted"])
    axes.grid(axis="y", color=COLOURS["rule"], lw=0.6, zorder=0)
    axes.set_xlabel("eigenvalue, from the largest" if eigen else "coordinate")
    return figure


def _log_axis(axes: Axes, values: np.ndarray) -> None:
    """Twice and half as much are equally far from 1: ticks at powers of 2, or of larger bases."""
    axes.set_yscale("log")
    low, high = min(values.min() / 1.25, 0.5), max(values.max() * 1.25, 2.0)
    base = next((b for b in (2.0, 10.0) if np.log(high / low) / np.log(b) <= 7), 1000.0)
    first, last = np.ceil(np.log(low) / np.log(base)), np.floor(np.log(high) / np.log(base))
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(FixedLocator((base ** np.arange(first, last + 1)).tolist()))
    axes.yaxis.set_minor_locator(FixedLocator([]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
