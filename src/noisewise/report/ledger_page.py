"""One page about a ledger: what was spent on a table, by whom, and what is left."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.dates import date2num, num2date
from matplotlib.figure import Figure

from noisewise.mechanism import Account, Ledger
from noisewise.mechanism.account import FURTHER, Entry
from noisewise.report import words, write_page
from noisewise.report.figures import COLOURS, NARROW, canvas, draw_both, panel
from noisewise.report.numbers import percent, three_digits
from noisewise.report.page import fill

_EPSILONS = (0.1, 0.3, 1.0)
_ROOM = 1.08


def write_ledger_page(ledger: Ledger, path: Path) -> Path:
    """Write the page about ``ledger``, whole or not at all; returns its path.

    It shows what the file holds: who spent what, when, for what. No row, and no number of rows.
    """
    return write_page(lambda: fill("ledger.html.j2", _context(ledger.account())), path)


def _context(account: Account) -> dict[str, Any]:
    total, entries = account.total, account.entries
    unfinished = sum(entry.certificate is None for entry in entries)
    return {
        "maker": "noisewise ledger",
        "title": f"The ledger of {account.name}",
        "lead": _lead(account),
        "rehearsal": account.rehearsal,
        "unfinished": unfinished,
        "facts": [
            ("epsilon spent", f"{account.spent:.3f} of {total.epsilon:g}"),
            ("delta", words.small(total.delta)),
            ("left for one more fit", f"{account.left:g}"),
            ("entries", f"{len(entries):,}"),
        ],
        "sections": [
            ("time", "Budget over time"),
            ("further", "Further fits"),
            ("entries", "Every release"),
            ("account", "How it is accounted"),
        ],
        "share": f"{min(1.0, account.spent / total.epsilon):.2%}",
        "figure": Markup(_figure(account)),
        "further": _further(account),
        "fits": FURTHER,
        "entries": [_entry(entry) for entry in entries],
        "rows_public": any(_rows_public(entry) for entry in entries),
        "adjacency": words.adjacency_sentence(total, account.unit),
        "about": [
            ("total", f"epsilon {total.epsilon:g}, delta {words.small(total.delta)}"),
            ("adjacency", total.adjacency),
            ("who may spend", ", ".join(account.spenders) or "whoever can write the file"),
            ("opened", _minute(account.opened)),
            ("digest of all lines", account.digest),
        ],
    }


def _lead(account: Account) -> str:
    total = account.total
    share = percent(account.spent / total.epsilon) if account.spent else "Nothing"
    left = "Nothing is left." if not account.left else f"A fit at {account.left:g} is left."
    return (
        f"{share} of the total epsilon {total.epsilon:g} is spent, everything composed at delta "
        f"{words.small(total.delta)} under {total.adjacency} adjacency. {left}"
    )


def _further(account: Account) -> list[dict[str, Any]]:
    """What further fits would bring the total to, by their epsilon."""
    used = {entry.budget.epsilon for entry in account.entries[-3:]}
    chosen = sorted(used | set(_EPSILONS))
    return [
        {
            "epsilon": f"{epsilon:g}",
            "cells": [
                (three_digits(after), after > account.total.epsilon)
                for after in (account.after_fits(epsilon, fits) for fits in FURTHER)
            ],
            "left": f"{account.fits_left(epsilon):,}",
        }
        for epsilon in chosen
        if epsilon <= account.total.epsilon
    ]


def _entry(entry: Entry) -> dict[str, Any]:
    releases = [
        f"{one.what}: {one.times:,} x Gaussian, noise multiplier {one.noise_multiplier:.4g}"
        + ("" if one.sampling_rate == 1 else f", rate {one.sampling_rate:g}")
        for one in entry.releases
    ]
    certificate = entry.certificate
    return {
        "number": entry.number,
        "time": _minute(entry.time),
        "spender": entry.spender,
        "purpose": entry.purpose or "not said",
        "what": entry.what,
        "epsilon": f"{entry.budget.epsilon:g}",
        "delta": words.small(entry.budget.delta),
        "state": entry.state,
        "done": certificate is not None,
        "releases": releases,
        "schema": entry.schema,
        "certificate": "" if certificate is None else str(certificate),
    }


def _rows_public(entry: Entry) -> bool:
    """Whether a fit took a declared number of rows for public."""
    found = entry.certificate
    return found is not None and "for tables of this size" in found.sources.get(
        "number of rows", ""
    )


def _minute(time: str) -> str:
    return f"{time[:16].replace('T', ' ')} UTC"


def _figure(account: Account) -> str:
    """Epsilon spent over time, below the total; '' before the first entry."""
    path = account.over_time()
    if not path:
        return ""
    said = (
        f"Step plot: epsilon spent over time, from 0 to {account.spent:.3g}, below the total of "
        f"{account.total.epsilon:g}."
    )
    return draw_both("ledger", said, lambda width: _steps(account, path, width))


def _steps(account: Account, path: list[tuple[str, float]], width: int) -> Figure:
    plot, top = (260 if width > NARROW else 200), 30
    figure = canvas(width, top + plot + 40)
    axes = panel(figure, 40, top, width - 24, top + plot)
    total = account.total.epsilon
    times = date2num([datetime.fromisoformat(time) for time in (account.opened, *dict(path))])
    spent = [0.0, *dict(path).values()]
    axes.fill_between(times, spent, step="post", color=COLOURS["faint"], alpha=0.4, lw=0)
    axes.step(times, spent, where="post", color=COLOURS["aware"], lw=2.4)
    axes.plot(times[1:], spent[1:], "o", color=COLOURS["aware"], ms=5, clip_on=False, zorder=3)
    axes.axhline(total, color=COLOURS["ink"], lw=1.2, ls=(0, (5, 2)))
    axes.annotate(
        f"total {total:g}",
        (0, total),
        xycoords=("axes fraction", "data"),
        xytext=(6, -4),
        textcoords="offset points",
        va="top",
        color=COLOURS["ink"],
    )
    axes.set_ylim(0, _ROOM * max(total, *spent))
    span = max(times[-1] - times[0], 5 / 1440)
    axes.set_xlim(times[0] - 0.01 * span, times[0] + _ROOM * span)
    ticks = np.linspace(times[0], times[0] + span, 5 if width > NARROW else 3)
    form = "%Y-%m-%d" if span > 3 else "%d %b %H:%M"
    axes.set_xticks(ticks, [num2date(tick).strftime(form) for tick in ticks])
    axes.grid(axis="y", color=COLOURS["rule"], lw=0.6, zorder=0)
    axes.tick_params(labelcolor=COLOURS["muted"], length=3)
    axes.set_title("epsilon spent, everything composed", loc="left", fontsize="medium")
    return figure
