"""One page about an audit: what attacks on the mechanism showed, beside the claim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from noisewise.audit import Audit
from noisewise.report import words, write_page
from noisewise.report.figures import COLOURS, NARROW, canvas, draw_both, panel, shortened
from noisewise.report.numbers import rounded
from noisewise.report.page import fill

_MARKS = {"add-remove": ("o", "aware"), "replace-one": ("D", "unaware")}


def write_audit_page(found: Audit, path: Path) -> Path:
    """Write the page about ``found``, whole or not at all; returns its path.

    It needs nothing besides itself; all records behind it were simulated.
    """
    return write_page(lambda: fill("audit.html.j2", _context(found)), path)


def _context(found: Audit) -> dict[str, Any]:
    verdict, budget = found.verdict, found.budget
    trials = sum(one.trials for one in found.attacks)
    least = min(found.lower_bounds.values())
    figure = _lower_bounds(found)
    return {
        "maker": "noisewise audit: does this build keep what it claims?",
        "title": f"{verdict.words[:1].upper()}{verdict.words[1:]}.",
        "lead": (
            f"Every mechanism was calibrated for ({budget.epsilon:g}, {words.small(budget.delta)})-"
            "differential privacy and attacked by somebody who sees all releases and knows all "
            "records but one. Records were simulated, noise and sampling were real."
        ),
        "good": verdict.good,
        "lines": verdict.lines,
        "facts": [
            ("epsilon claimed", f"{budget.epsilon:g}"),
            ("shown at most", rounded(max(found.lower_bounds.values()), 3)),
            ("and at least", rounded(least, 3)),
            ("canaries", f"{trials:,}"),
        ],
        "sections": [
            ("canaries", "Canaries"),
            *([("bits", "Low bits")] if found.low_bits else []),
            *([("neighbours", "Neighbours' sums")] if found.neighbours else []),
            ("about", "About"),
        ],
        "claim": f"{budget.epsilon:g}",
        "figure": Markup(figure),
        "attacks": _attacks(found),
        "low_bits": [
            (one.name, f"{one.releases:,}", f"{one.off_grid:,}", rounded(one.advantage, 4))
            for one in found.low_bits
        ],
        "neighbours": [
            (one.name, f"{one.sizes}", rounded(one.furthest, 5), f"{one.others:,}")
            for one in found.neighbours
        ],
        "false_alarm": words.small(found.false_alarm),
        "about": [(key, str(value)) for key, value in found.about.items()],
    }


def _attacks(found: Audit) -> list[dict[str, Any]]:
    return [
        {
            "label": one.name,
            "cells": [
                one.adjacency,
                one.how,
                f"{one.noise_multiplier:.4g}",
                f"{one.trials:,}",
                rounded(one.bounds.threshold, 3),
                rounded(one.bounds.gaussian, 3),
            ],
            "above": one.bounds.epsilon > found.budget.epsilon,
        }
        for one in found.attacks
    ]


def _lower_bounds(found: Audit) -> str:
    text = "Dot plot: the epsilon shown of each mechanism under each adjacency, beside the claim."
    return draw_both("audit", text, lambda width: _dots(found, width))


def _dots(found: Audit, width: int) -> Figure:
    bounds, claim = found.lower_bounds, found.budget.epsilon
    names = list(dict.fromkeys(name for name, _ in bounds))
    left, top = (250 if width > NARROW else 150), 30
    height = top + 26 * len(names)
    figure = canvas(width, height + 62)
    axes = panel(figure, left, top, width - 16, height)
    axes.axvline(claim, color=COLOURS["ink"], lw=1.5, ls=(0, (4, 2)))
    for adjacency, (mark, role) in _MARKS.items():
        places = [i for i, name in enumerate(names) if (name, adjacency) in bounds]
        values = [bounds[names[i], adjacency] for i in places]
        axes.plot(values, places, mark, ms=7, color=COLOURS[role], label=adjacency, ls="none")
    axes.set_yticks(range(len(names)), [shortened(name, left - 12) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(0, 1.08 * max(claim, *bounds.values()))
    axes.tick_params(length=0)
    axes.grid(axis="x", color=COLOURS["rule"], lw=0.6, zorder=0)
    axes.set_axisbelow(True)
    axes.set_title("epsilon shown (dashed: claimed)", loc="left", fontsize="medium")
    axes.legend(
        loc="upper left",
        bbox_to_anchor=((16 - left) / (width - 16 - left), -24 / (height - top)),
        borderaxespad=0,
        ncols=2,
        handletextpad=0.2,
    )
    return figure
