"""One page about synthetic tables: do they say what the release says?"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from noisewise._validate import Progress
from noisewise.data import Table
from noisewise.report import fidelity_figures as figures
from noisewise.report import words, write_page
from noisewise.report.numbers import rounded, three_digits
from noisewise.report.page import fill
from noisewise.synthetic.marginals import ColumnMarginal, Fidelity, measure
from noisewise.synthetic.tables import SyntheticTables

_TAILS = (0.025, 0.975)


def write_fidelity_page(
    tables: SyntheticTables,
    path: Path,
    unsafe_data: Table | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write the page about ``tables``, whole or not at all; returns its path.

    It shows nothing but what was made from the release, unless the real table is passed, whose
    exact marginals then make the page NOT PRIVATE.
    """

    def render() -> str:
        found = measure(tables, unsafe_data, progress)
        return fill("fidelity.html.j2", _context(tables, found, unsafe_data is not None))

    return write_page(render, path)


def _context(tables: SyntheticTables, found: Fidelity, unsafe: bool) -> dict[str, Any]:
    budget, origin = tables.privacy.budget, tables.origin
    reasons = list(tables.privacy.not_private_because)
    if unsafe:
        reasons.insert(0, "the real table's exact marginals are on this page, without any noise")
    return {
        "maker": "noisewise synthesize",
        "title": f"Synthetic tables from {origin.model}",
        "lead": (
            f"{len(tables):,} tables of {tables.rows:,} rows, each drawn from one draw of "
            f"{origin.posterior_words}. They are made from what was released under "
            f"({tables.privacy.epsilon_spent:.3g}, {words.small(budget.delta)})-differential "
            "privacy, and cost nothing more."
        ),
        "reasons": reasons,
        "noise_unaware": origin.noise_unaware,
        "caveats": origin.caveats,
        "unsafe": unsafe,
        "facts": [
            ("tables", f"{len(tables):,}"),
            ("rows each", f"{tables.rows:,}"),
            ("columns", f"{len(tables.schema):,}"),
            ("epsilon spent", f"{tables.privacy.epsilon_spent:.3f} of {budget.epsilon:g}"),
        ],
        "sections": [
            ("columns", "Column by column"),
            ("pairs", "Pairs of columns"),
            ("use", "How to use them"),
        ],
        "public": ", ".join(tables.covariates),
        "columns": _columns(found, unsafe),
        "pairs": _pairs(found, unsafe),
    }


def _columns(found: Fidelity, unsafe: bool) -> dict[str, Any]:
    gap = max(float(np.abs(c.tables.mean(0) - c.released.mean(0)).max()) for c in found.columns)
    sentence = (
        "Means over the tables differ from the posterior's by at most "
        f"{rounded(100 * gap, 2)} percentage points."
    )
    if unsafe:
        ends = [np.quantile(column.released, _TAILS, axis=0) for column in found.columns]
        pairs = zip(ends, found.columns, strict=True)
        held = np.concatenate([(low <= c.real) & (c.real <= high) for (low, high), c in pairs])
        sentence += (
            f" Of {len(held)} exact shares, {int(held.sum())} lie within the posterior's 95% "
            "intervals."
        )
    return {
        "sentence": sentence,
        "figure": Markup(figures.share_figure(found.columns)),
        "left_out": max(0, len(found.columns) - figures.MOST_COLUMNS),
        "rows": [row for column in found.columns for row in _lines(column)],
        "moved": [
            (column.cells.name, f"{100 * column.moved:.2g}%")
            for column in found.columns
            if column.moved is not None and column.moved > 5e-4
        ],
    }


def _lines(column: ColumnMarginal) -> list[dict[str, Any]]:
    """Numbers of every cell, and a numeric column's mean and sd."""
    lines = []
    for i, label in enumerate(column.cells.labels):
        real = None if column.real is None else column.real[i]
        cells = _cells(column.tables[:, i], column.released[:, i], real, "{:.1%}".format)
        lines.append({"column": column.cells.name, "what": label, "cells": cells})
    if column.moments is not None:
        ours, theirs, exact = column.moments
        for k, what in enumerate(("mean", "sd")):
            real = None if exact is None else exact[k]
            cells = _cells(ours[:, k], theirs[:, k], real, three_digits)
            lines.append({"column": column.cells.name, "what": what, "cells": cells})
    return lines


def _cells(
    ours: np.ndarray, theirs: np.ndarray, real: float | None, shown: Callable[[float], str]
) -> list[str]:
    cells = []
    for values in (ours, theirs):
        low, high = np.quantile(values, _TAILS)
        cells += [shown(float(values.mean())), f"{shown(float(low))} to {shown(float(high))}"]
    return cells if real is None else [*cells, shown(float(real))]


def _pairs(found: Fidelity, unsafe: bool) -> dict[str, Any]:
    every = len(found.columns)
    return {
        "figure": Markup(figures.pair_figure(found.pairs, found.paired)),
        "above": "in the real table, NOT PRIVATE" if unsafe else "of the posterior",
        "part": "" if len(found.paired) == every else f" The first {len(found.paired)} columns.",
        "rows": [
            {
                "label": f"{pair.first}, {pair.second}",
                "cells": _cells(pair.tables, pair.released, pair.real, partial(rounded, digits=3)),
            }
            for pair in sorted(found.pairs, key=lambda p: -p.tables.mean())
        ],
    }
