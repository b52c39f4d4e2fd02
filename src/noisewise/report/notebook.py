"""What notebooks show of an object that is the last line of a cell, and a result's plot."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from noisewise.coverage import Coverage
from noisewise.data import Schema
from noisewise.mechanism import Certificate
from noisewise.planning import Plan
from noisewise.report import words
from noisewise.report.intervals import decimals, interval_rows, per_unit_rows
from noisewise.report.numbers import rounded
from noisewise.report.ratios import RatioGroup, ratio_groups
from noisewise.result import Result

_MOST_ROWS = 60
_INCH = 0.32


def show_result(result: Result) -> str:
    """Headline, status, intervals in the columns' own units, and what was spent."""
    encoded, own = interval_rows(result), per_unit_rows(result)
    rows = own + [row for row in encoded if row.latent != "coefficients"] if own else encoded
    lines = []
    for row in rows[:_MOST_ROWS]:
        digits = decimals(row.aware)
        values = (row.aware.mean, row.aware.sd, row.aware.lower, row.aware.upper)
        lines.append((row.label, *(rounded(value, digits) for value in values)))
    parameters = sum(int(np.prod(values.shape[1:])) for values in result.draws.values())
    said = [words.lead(result, parameters), *result.notes]
    label = str(result.summary().index.name)
    if own:
        said.append(
            "Coefficients per original unit of each feature; summary() has those of the encoded "
            "features, summary(per_unit=True) these."
        )
        label = "parameter (per unit)"
    if not result.privacy.private:
        said.insert(0, "NOT PRIVATE: " + "; ".join(result.privacy.not_private_because))
    coefficients = _shown(
        words.headline(result),
        said,
        (label, "mean", "sd", "95% from", "to"),
        lines,
        more=len(rows) - _MOST_ROWS,
    )
    return coefficients + "".join(map(_ratios, ratio_groups(result)))


def _ratios(group: RatioGroup) -> str:
    head = ("change, other features equal", group.name, "95% interval", "in words")
    lines = [line[1:] for line in group.lines[:_MOST_ROWS]]
    return _shown(group.title, [], head, lines, len(group.lines) - _MOST_ROWS)


def show_certificate(certificate: Certificate) -> str:
    """What was spent, release by release."""
    lines = [
        (one.what, f"{one.times:,}", f"{one.sampling_rate:g}", f"{one.noise_multiplier:.6g}")
        for one in certificate.releases
    ]
    head = ("release", "times", "sampling rate", "noise multiplier")
    return _shown("Certificate", [words.spent_sentence(certificate)], head, lines)


def show_plan(plan: Plan) -> str:
    """What to expect of a fit, parameter by parameter."""
    forecast, budget = plan.forecast, plan.budget
    said = (
        f"For {plan.rows:,} rows at epsilon {budget.epsilon:g}, delta {words.small(budget.delta)}: "
        f"{plan.settings.steps:,} steps. "
        + (f"From {forecast.fits} simulated fits." if forecast.fits else "No fit was simulated.")
    )
    z_sds: Sequence[float | None] = forecast.z_sd or [None] * len(forecast.labels)
    columns = (forecast.labels, forecast.prior_sd, forecast.sd, forecast.single_release_sd, z_sds)
    lines = [
        (label, *("" if value is None else f"{value:.3g}" for value in values))
        for label, *values in zip(*columns, strict=True)
    ]
    head = ("parameter", "prior sd", "expected sd", "single-release sd", "z sd")
    return _shown(f"Plan for {plan.model}", [said], head, lines)


def show_coverage(found: Coverage) -> str:
    """The verdict, and each parameter's z-scores."""
    lines = [
        (
            one["parameter"],
            *(f"{one[name]:.3g}" for name in ("z_mean", "z_sd", "error", "reported_sd")),
        )
        for one in found.table()
    ]
    said = [f"{found.verdict.words} ({len(found.truth)} simulated fits)."]
    return _shown("Coverage", said, ("parameter", "z mean", "z sd", "error", "reported sd"), lines)


def show_schema(schema: Schema) -> str:
    """What is declared, a line a column."""
    count, unit = schema.public_count, schema.unit
    rows = "private" if count is None else f"{count:,}, public"
    lines = [(column.name, column.summary().partition(": ")[2]) for column in schema]
    counted = "rows" if unit is None else f"{unit.column} units"
    said = f"Number of {counted}: {rows}; a fit protects {schema.protected}."
    return _shown("Schema", [said], ("column", "declared"), lines)


def plot_result(result: Result) -> Figure:
    """Intervals of all parameters, with and without the privacy noise."""
    rows = [row for row in interval_rows(result) if row.aware.finite][:_MOST_ROWS]
    figure = Figure(figsize=(7, 1.2 + _INCH * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    series: tuple[tuple[str, str, float, Iterable[Any]], ...] = (
        ("noise-aware", "tab:blue", 0.12, [row.aware for row in rows]),
        ("ignores the noise", "tab:orange", -0.12, [row.unaware for row in rows]),
    )
    for name, colour, shift, intervals in series:
        known = [(place, one) for place, one in enumerate(intervals) if one is not None]
        if not known:
            continue
        heights = [-place + shift for place, _ in known]
        ends = [(one.lower, one.upper) for _, one in known]
        axes.hlines(heights, *np.transpose(ends), color=colour)
        axes.plot([one.mean for _, one in known], heights, "o", color=colour, ms=4, label=name)
    axes.axvline(0, color="grey", linewidth=0.8)
    axes.set_yticks([-place for place in range(len(rows))], [row.label for row in rows])
    in_units = "" if result.own_terms is None else ": summary(per_unit=True) has original units"
    encoded = "" if "encoded" not in str(result.summary().index.name) else f", encoded{in_units}"
    axes.set_xlabel(f"95% interval and mean{encoded}")
    axes.set_title(words.headline(result), loc="left")
    if rows:
        axes.legend(loc="best", frameon=False)
    return figure


def _shown(
    title: str,
    said: Sequence[str],
    head: Sequence[str],
    lines: Sequence[Sequence[str]],
    more: int = 0,
) -> str:
    """A heading, sentences and a table; whatever a user has named is escaped."""
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines
    )
    sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in said if sentence)
    rest = f"<p>and {more} more</p>" if more > 0 else ""
    return str(
        Markup(
            f"<div><strong>{escape(title)}</strong>{sentences}<table><thead><tr>{cells}</tr></thead>"
            f"<tbody>{body}</tbody></table>{rest}</div>"
        )
    )
