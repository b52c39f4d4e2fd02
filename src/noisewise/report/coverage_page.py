"""One page about a coverage run: are the error bars true, and if not, where?"""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from noisewise.coverage import Coverage
from noisewise.posterior import Status
from noisewise.report import coverage_figures as figures
from noisewise.report import words, write_page
from noisewise.report.coverage_intervals import interval_figure, simulated_intervals
from noisewise.report.numbers import rounded, three_digits
from noisewise.report.page import fill

MOST_PANELS = 24
_SIGMAS = 3.0


def write_coverage_page(found: Coverage, path: Path) -> Path:
    """Write the page about ``found``, whole or not at all; returns its path.

    It needs nothing besides itself, and holds nothing but simulations: no row was read for it.
    """
    return write_page(lambda: fill("coverage.html.j2", _context(found)), path)


def _context(found: Coverage) -> dict[str, Any]:
    # Where coverage is furthest off, so that no fault stays undrawn.
    off = [-row["coverage_rmse"] for row in found.table()]
    panels = sorted(np.argsort(off, kind="stable")[:MOST_PANELS].tolist())
    labels = [found.labels[i] for i in panels]
    marginal, ranks = found.marginal[:, panels], found.ranks[:, panels]
    verdict, draws = found.verdict, found.draws.shape[1]
    unsettled = int((found.status == Status.NOT_CONVERGED.name).sum())
    some = f"The {len(panels)} of {len(found.labels)} parameters whose coverage is furthest off; "
    some += "the table has all."
    return {
        "maker": "noisewise coverage: are the error bars true?",
        "title": f"{verdict.words[:1].upper()}{verdict.words[1:]}.",
        "lead": _lead(found),
        "good": verdict.good,
        "lines": verdict.lines,
        "facts": _facts(found, unsettled),
        "sections": _sections(found),
        "fits": _fits(found),
        "joint": {
            "figure": Markup(figures.joint_figure(found.shares)),
            "rmse": f"{found.rmse:.3f}",
            "floor": f"{found.floor:.3f}",
            "fits": f"{len(found.truth):,}",
        },
        "marginal": {"figure": Markup(figures.marginal_figure(marginal, labels))},
        "ranks": Markup(figures.rank_figure(ranks, draws, labels)),
        "part": "" if len(panels) == len(found.labels) else some,
        "predictive": _predictive(found),
        "floors": {
            "z_mean": rounded(found.scores.z_mean_floor, 2),
            "z_sd": rounded(found.scores.z_sd_floor, 2),
            "good": f"{found.scores.good:,}",
        },
        "rows": _rows(found),
        "went": _went(found, unsettled),
        "about": [
            (key.replace("_", " "), _value(key, value)) for key, value in found.about.items()
        ],
    }


def _lead(found: Coverage) -> str:
    about = found.about
    tables = f"{len(found.truth):,} tables"
    tables += f" of {about['rows']:,} rows" if "rows" in about else ""
    source = f"model {about['model']}" if "model" in about else "the model"
    how = ""
    if "epsilon" in about and "delta" in about:
        how = f" under ({about['epsilon']:g}, {words.small(about['delta'])})-differential privacy"
    return (
        f"{tables} were simulated from {source} and its priors, and each was fitted{how}. The "
        "truths are known, so the error bars can be checked against them. No row was read."
    )


def _facts(found: Coverage, unsettled: int) -> list[tuple[str, str]]:
    scores = found.scores
    z_sd = scores.z_sd[np.isfinite(scores.z_sd)]
    span = f"{rounded(z_sd.min(), 2)} to {rounded(z_sd.max(), 2)}" if z_sd.size else "n/a"
    return [
        ("joint coverage RMSE", f"{found.rmse:.3f}"),
        ("the same by chance", f"{found.floor:.3f}"),
        ("z sd (1 is right)", span),
        ("fits failed", f"{scores.failed:,} of {scores.fits:,}"),
        ("fits not settled", f"{unsettled:,} of {scores.fits:,}"),
    ]


def _sections(found: Coverage) -> list[tuple[str, str]]:
    names = [
        ("fits", "Fits and truths"),
        ("joint", "Joint coverage"),
        ("marginal", "By parameter"),
        ("ranks", "Ranks"),
        ("predictive", "Predictions"),
        ("table", "Table"),
        ("simulated", "What was simulated"),
    ]
    return [pair for pair in names if found.predictive is not None or pair[0] != "predictive"]


def _fits(found: Coverage) -> dict[str, Any]:
    with np.errstate(divide="ignore"):
        off = np.abs(np.log(found.scores.z_sd))
    where = int(np.argmax(np.nan_to_num(off, nan=np.inf)))
    seen = simulated_intervals(found, where)
    aware, unaware = (f"{seen.held(each).mean():.0%}" for each in (seen.aware, seen.unaware))
    only = len(found.labels) == 1
    # Never call noise-aware what was requested to ignore the noise.
    name = "as requested" if found.about.get("posterior") == "naive" else "noise-aware"
    return {
        "figure": Markup(interval_figure(seen, name)),
        "label": found.labels[where],
        "why": "the only parameter" if only else "the parameter whose widths are furthest off",
        "around": seen.around_truth,
        "failed": found.scores.failed,
        "words": (
            f"Over all {len(seen.truth):,} fits, {aware} of the 95% intervals of "
            f"{found.labels[where]} hold the truth ({name}). Plain DPVI's, which take the last "
            f"noisy iterate for the optimum, do so in {unaware}."
        ),
    }


def _predictive(found: Coverage) -> dict[str, Any] | None:
    if found.predictive is None:
        return None
    return {
        "figure": Markup(figures.predictive_figure(found.predictive)),
        "rmse": rounded(found.predictive.rmse, 4),
        "floor": rounded(found.predictive.floor, 4),
        "brier": rounded(found.predictive.brier, 3),
        "log_score": rounded(found.predictive.log_score, 3),
        "count": f"{int(found.predictive.counts.sum()):,}",
    }


def _rows(found: Coverage) -> list[dict[str, Any]]:
    """The table, with what is beyond three standard errors of right marked."""
    scores, rows, single = found.scores, [], "single_release_sd"
    for row in found.table():
        shifted = abs(row["z_mean"]) > _SIGMAS * scores.z_mean_floor
        stretched = abs(row["z_sd"] - 1) > _SIGMAS * scores.z_sd_floor
        cells = [
            (rounded(row["z_mean"], 2), shifted),
            (rounded(row["z_sd"], 2), stretched),
            (rounded(row["coverage_rmse"], 3), False),
            *((three_digits(row[sd]), False) for sd in ("error", "reported_sd", single)),
            (rounded(row["error"] / row[single], 2), False),
        ]
        unaware = rounded(row["noise_unaware_z_sd"], 2)
        rows.append({"label": row["parameter"], "cells": cells, "noise_unaware": unaware})
    return rows


def _went(found: Coverage, unsettled: int) -> dict[str, Any]:
    scores = found.scores
    sentence = f"None of the {scores.fits:,} fits failed."
    if scores.failed:
        sentence = (
            f"{scores.failed:,} of {scores.fits:,} fits failed: their draws are not finite. They "
            "count as not covered in every coverage curve; z-scores, errors and ranks cannot be "
            "had for them and leave them out."
        )
    if unsettled:
        sentence += f" {unsettled:,} say that they did not settle; they count like all others."
    counts = Counter(map(str, found.status))
    return {
        "sentence": sentence,
        "statuses": [
            {
                "name": name.lower().replace("_", " "),
                "count": f"{count:,} ({count / scores.fits:.1%})",
                "meaning": Status[name].words if name in Status.__members__ else "",
            }
            for name, count in sorted(counts.items(), key=lambda item: -item[1])
        ],
    }


def _value(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return words.small(value)
    return f"{value:,}" if isinstance(value, int) and key != "seed" else str(value)
