"""One page about a plan: what the budget will buy, before it is spent."""

from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from noisewise.dpsep import SepSettings
from noisewise.dpvi import Settings
from noisewise.planning import Forecast, Plan
from noisewise.report import words, write_page
from noisewise.report.numbers import percent, percent_range, rounded, three_digits
from noisewise.report.page import fill
from noisewise.report.plan_figures import utility_figure

_SEVERAL = "Lines: the median parameter. Band: the range over parameters with the planned rows."
_LEVEL = "Where a line is level, a larger epsilon buys little: only rows do."


_MEANINGS = {
    "clip norm": "The most that one record's gradient may weigh; longer ones are shortened to it.",
    "clip norms": "The most that one record's site may weigh, by its mean, precision and residual.",
    "steps": "So many noisy {released} are released.",
    "sampling rate": "Each record's chance to be in a step's batch: {batch} a step.",
    "learning rate": "Of the optimiser, {optimiser}.",
    "step factor": "The paper's factor on the step size.",
    "contraction rate": "The share of the distance to the optimum that a step removes, as "
    "simulated: the run is {constants} time constants long.",
    "initial step multiplier": "The first steps are larger by this factor, which falls to 1 by the "
    "end of burn-in.",
    "burn-in": "At least this share of the run is dropped, more while gradients are not linear.",
    "recalibration shift": "Simulated fits were off by this many reported sds on average; it is "
    "taken off.",
    "recalibration stretch": "Simulated errors were this many reported sds wide; error bars are "
    "multiplied by it.",
}


def write_plan_page(plan: Plan, path: Path) -> Path:
    """Write the page about ``plan``, whole or not at all; returns its path.

    It needs nothing besides itself, and shows nothing of the data: no row was read for it.
    """
    return write_page(lambda: fill("plan.html.j2", _context(plan)), path)


def _context(plan: Plan) -> dict[str, Any]:
    budget, forecast = plan.budget, plan.forecast
    failed = f"{forecast.failed:,} of {forecast.fits:,} simulated fits failed."
    return {
        "maker": "noisewise plan",
        "title": f"A plan for {plan.model}",
        "lead": (
            f"Settings and a forecast for {plan.rows:,} rows under ({budget.epsilon:g}, "
            f"{words.small(budget.delta)})-differential privacy. No row was read: everything here "
            "is simulated, and costs no privacy."
        ),
        "failed": failed if forecast.failed else "",
        "facts": [
            ("epsilon", f"{budget.epsilon:g}"),
            ("delta", words.small(budget.delta)),
            ("rows", f"{plan.rows:,}"),
            ("parameters", f"{len(forecast.labels):,}"),
        ],
        "sections": [
            ("forecast", "What to expect"),
            ("utility", "Privacy and utility"),
            ("settings", "Settings"),
        ],
        "forecast": _forecast(plan),
        "utility": _utility(plan),
        "made_for": [
            ("model", plan.model),
            ("rows", f"{plan.rows:,}"),
            ("budget", f"epsilon {budget.epsilon:g}, delta {words.small(budget.delta)}"),
            ("adjacency", budget.adjacency),
            ("schema's fingerprint", plan.schema),
            ("source", plan.source),
        ],
        "settings": _settings(plan),
    }


def _forecast(plan: Plan) -> dict[str, Any]:
    forecast, rows = plan.forecast, []
    for i, label in enumerate(forecast.labels):
        prior, expected = forecast.prior_sd[i], forecast.sd[i]
        cells = [
            three_digits(prior),
            three_digits(expected),
            percent(expected / prior),
            three_digits(forecast.single_release_sd[i]),
        ]
        if forecast.fits:
            cells += [rounded(forecast.z_mean[i], 2), rounded(forecast.z_sd[i], 2)]
        rows.append({"label": label, "cells": cells})
    good = max(forecast.fits - forecast.failed, 1)
    return {
        "words": _expectation(forecast),
        "rows": rows,
        "simulated": bool(forecast.fits),
        "recalibrated": getattr(plan.settings, "shift", None) is not None,
        "z_mean_floor": f"{good**-0.5:.2f}",
        "z_sd_floor": f"{(2 * good) ** -0.5:.2f}",
    }


def _expectation(forecast: Forecast) -> str:
    kept = np.array(forecast.sd) / np.array(forecast.prior_sd)
    one = len(kept) == 1
    much = f"{percent(float(np.median(kept)))} of what {'it is' if one else 'they are'}"
    who = "The error bar is" if one else "Error bars are"
    span = percent_range(kept)
    span = f" (median; {span})" if span else ""
    source = (
        f"Behind this are {forecast.fits:,} simulated fits, of which {forecast.failed:,} failed."
        if forecast.fits
        else "This is an analytic first guess: no fit was simulated."
    )
    return f"{who} expected to shrink to {much} without data{span}. {source}"


def _utility(plan: Plan) -> dict[str, Any]:
    forecast = plan.forecast
    sds, prior = np.array(forecast.table, float), np.array(forecast.prior_sd)
    if not sds.size:
        return {"figure": "", "lines": []}
    kept = sds / prior
    # The table has the planned number of rows; a file edited by hand may not.
    ours = forecast.sizes.index(plan.rows) if plan.rows in forecast.sizes else 0
    return {
        "figure": Markup(utility_figure(plan, kept)),
        "caption": _LEVEL if len(prior) == 1 else f"{_SEVERAL} {_LEVEL}",
        "several": len(prior) > 1,
        "sizes": [f"{size:,}" for size in forecast.sizes],
        "lines": [
            {
                "epsilon": f"{epsilon:g}",
                "cells": [
                    (_cell(kept[i, j]), epsilon == plan.budget.epsilon and size == plan.rows)
                    for j, size in enumerate(forecast.sizes)
                ],
            }
            for i, epsilon in enumerate(forecast.epsilons)
        ],
        "source": (
            "Elsewhere than here it is scaled as the single-release sd, not simulated."
            if forecast.fits
            else "All of it is the single-release sd, not simulated."
        ),
        "planned_rows": f"{forecast.sizes[ours]:,}",
        "parameters": [
            (label, [three_digits(sd) for sd in sds[:, ours, k]])
            for k, label in enumerate(forecast.labels)
        ],
    }


def _cell(kept: np.ndarray) -> str:
    """The median, and the range where there is one."""
    middle = percent(float(np.median(kept)))
    span = percent_range(kept)
    return f"{middle} ({span})" if span else middle


def _settings(plan: Plan) -> list[tuple[str, str, str]]:
    """Name, value and a sentence each, of what people ask about."""
    settings = plan.settings
    numbers = {
        "batch": f"about {settings.sampling_rate * plan.rows:,.0f} rows",
        "released": "gradients" if isinstance(settings, Settings) else "sums of sites",
        "constants": f"{(getattr(settings, 'contraction_rate', None) or 0) * settings.steps:,.0f}",
        "optimiser": getattr(settings, "optimiser", ""),
    }
    return [
        (name, value, _MEANINGS[name].format(**numbers))
        for name, value in _values(settings).items()
    ]


def _values(settings: Settings | SepSettings) -> dict[str, str]:
    values = {"steps": f"{settings.steps:,}", "sampling rate": f"{settings.sampling_rate:g}"}
    if isinstance(settings, SepSettings):
        return {**values, "clip norms": ", ".join(map(three_digits, settings.bounds))}
    values = {"clip norm": three_digits(settings.clip_norm), **values}
    if settings.learning_rate is not None:
        values["learning rate"] = three_digits(settings.learning_rate)
    elif settings.contraction_rate is not None:
        values["contraction rate"] = three_digits(settings.contraction_rate)
    else:
        values["step factor"] = _span(np.atleast_1d(np.asarray(settings.step_factor, float)))
    values["initial step multiplier"] = three_digits(settings.initial_step_multiplier)
    values["burn-in"] = f"{settings.burn_in:.0%}"
    if settings.shift is not None and settings.stretch is not None:
        values["recalibration shift"] = _span(settings.shift)
        values["recalibration stretch"] = _span(settings.stretch)
    return values


def _span(values: np.ndarray) -> str:
    """One value, or the range of several."""
    low, high = three_digits(float(values.min())), three_digits(float(values.max()))
    return low if low == high else f"{low} to {high}"
