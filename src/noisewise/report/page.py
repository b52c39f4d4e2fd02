"""One page about a result: for a statistician, and for a privacy officer."""

import math
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import numpy as np
from markupsafe import Markup

from noisewise.mechanism import Certificate
from noisewise.mechanism.accounting import discretisation
from noisewise.posterior import Status
from noisewise.report import effects, figures, words, write_page
from noisewise.report.intervals import Interval, Row, decimals, interval_rows, per_unit_rows
from noisewise.report.numbers import rounded
from noisewise.report.ratios import ratio_groups
from noisewise.report.survival import survival_figure
from noisewise.result import Request, Result


def write_report(result: Result, path: Path) -> Path:
    """Write the page about `result`, whole or not at all; returns its path.

    The page needs nothing besides itself: no network, no scripts, no fonts. Everything on it is
    public or computed from released values, so it may go wherever the result may go.
    """
    return write_page(lambda: fill("template.html.j2", _context(result)), path)


def fill(template: str, context: dict[str, Any]) -> str:
    """A page from one of this folder's templates; the engine escapes whatever a user has named."""
    here = files("noisewise.report")
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(lambda name: here.joinpath(name).read_text("utf-8")),
    )
    style = here.joinpath("style.css").read_text("utf-8")
    return environment.get_template(template).render(style=Markup(style), **context) + "\n"


def _context(result: Result) -> dict[str, Any]:
    naive = result.request.posterior == "naive"
    rows = interval_rows(replace(result, noise_unaware={}) if naive else result)
    parameters = sum(int(np.prod(values.shape[1:])) for values in result.draws.values())
    spent, budget = result.privacy.epsilon_spent, result.privacy.budget
    return {
        "title": words.headline(result),
        "lead": words.lead(result, parameters),
        "private": result.privacy.private,
        "reasons": result.privacy.not_private_because,
        "ok": result.status is Status.OK,
        "status": result.status.value.replace("_", " "),
        "status_words": result.status.words,
        "notes": result.notes,
        "facts": [
            ("epsilon spent", f"{spent:.3f} of {budget.epsilon:g}"),
            ("delta", words.small(budget.delta)),
            (_counted(result.request), f"{result.request.public_count:,}"),
            ("parameters", f"{parameters:,}"),
        ],
        "request": _request(result),
        "intervals": _intervals(result, rows),
        "spent": _spent(result.privacy),
        "trace": _trace(result),
        "check": stand_alone_check(result.privacy),
        "settings": _settings(result.request.settings.to_dict()),
        "software": result.privacy.software,
    }


def _request(result: Result) -> dict[str, Any]:
    request, budget = result.request, result.privacy.budget
    columns, target, rows = request.columns, request.target, request.public_count
    unit = "record" if request.schema.unit is None else request.schema.unit.column
    return {
        "model": request.model,
        "target": target,
        "target_declared": _declared(columns.get(target)) if target in columns else "",
        "posterior": words.POSTERIORS.get(request.posterior, request.posterior),
        "counted": _counted(request),
        "rows": f"{rows:,}",
        "rows_source": result.privacy.sources.get("number of rows", "source not recorded"),
        "features": _features(request),
        "formula": request.formula,
        "priors": request.priors,
        "coefficients": request.network is None,
        "promises": [
            (f"epsilon = {budget.epsilon:g}", words.epsilon_sentence(budget, unit)),
            (f"delta = {words.small(budget.delta)}", words.delta_sentence(budget, rows)),
            (
                f"{budget.adjacency} adjacency",
                words.adjacency_sentence(budget, request.schema.unit),
            ),
        ],
    }


def _counted(request: Request) -> str:
    """What the public count is of."""
    unit = request.schema.unit
    return "rows, as used" if unit is None else f"{unit.column} units, as used"


class _Feature(NamedTuple):
    name: str
    declared: str
    encoding: str
    per_unit: str = ""
    """The coefficient in the column's own unit."""
    wordy: bool = False


def _features(request: Request) -> list[_Feature]:
    """Each encoded column, or, without an encoding, each column that the model takes as it is."""
    columns = request.columns
    if request.formula is not None:
        return _terms(request)
    if request.encoding:
        network = request.network is not None  # which has biases of its own
        shown = [column for column in request.encoding if column["column"] or not network]
        sources = [(column["column"], _is_level(column, columns)) for column in shown]
        # All levels of a category in one line, at its first.
        return [
            _category(str(source), columns[str(source)]) if level else _feature(column, columns)
            for place, (column, (source, level)) in enumerate(zip(shown, sources, strict=True))
            if not level or (source, True) not in sources[:place]
        ]
    return [
        _Feature(name, _declared(columns[name]), "x")
        for name in request.arguments
        if name in columns and name != request.target
    ]


def _of_columns(request: Request, entry: dict[str, Any]) -> str:
    """Declarations of the columns behind one of a formula's."""
    return "; ".join(f"{name}: {_declared(request.columns[name])}" for name in entry["columns"])


def _terms(request: Request) -> list[_Feature]:
    """Each term of a formula in one line, with the declaration of the columns in it."""
    found = {}
    for column in reversed(request.encoding):
        term, weights = str(column["term"]), column.get("original")
        others = sum(each["term"] == term for each in request.encoding) - 1
        if weights is None:
            effects = f"{others + 1} effects, normal around 0 with sd {term}_sigma"
            found[term] = _Feature(term, _of_columns(request, column), effects, wordy=True)
            continue
        own = weights[column["name"]]
        alone = sum(column["name"] in each.get("original", ()) for each in request.encoding) == 1
        found[term] = _Feature(
            term,
            _of_columns(request, column),
            column["encoding"] + (f" and {others} more" if others else ""),
            ("b" if own == 1 else f"b / {1 / own:g}") if alone else "see the effects per unit",
            wordy=True,
        )
    return [found[term] for term in dict.fromkeys(c["term"] for c in request.encoding)]


def _is_level(column: dict[str, Any], columns: dict[str, Any]) -> bool:
    """Whether a column of the design matrix is one level of a category."""
    source = column["column"]
    declared = columns.get(source) or {}
    return declared.get("type") == "category" and str(column["name"]).startswith(f"{source}=")


def _category(name: str, declared: dict[str, Any]) -> _Feature:
    reference, *others = map(str, declared["categories"])
    encoding = f"1 if {others[0]}, otherwise 0 (reference: {reference})"
    if len(others) > 1:
        encoding = f"{len(others)} columns of 0 and 1, one a level (reference: {reference})"
    return _Feature(name, _declared(declared), encoding, "b", wordy=True)


def _feature(column: dict[str, Any], columns: dict[str, Any]) -> _Feature:
    name, source, scale = str(column["name"]), column["column"], float(column["scale"])
    if source is None:
        return _Feature(name, "constant", "1", "b")
    if column.get("missing"):
        declared = _declared(columns.get(source))
        return _Feature(name, declared, "1 if missing, otherwise 0", "b")
    encoding = _affine(float(column["centre"]), scale)
    per_unit = "b" if scale == 1 else f"b / {scale:g}"
    return _Feature(name, _declared(columns.get(source)), encoding, per_unit)


def _affine(centre: float, scale: float) -> str:
    """(x - centre) / scale, as short as it can be said."""
    if centre == 0 and scale == 1:
        return "x"
    moved = "x" if centre == 0 else f"(x {'−' if centre > 0 else '+'} {abs(centre):g})"
    return moved if scale == 1 else f"{moved} / {scale:g}"


def _declared(column: dict[str, Any] | None) -> str:
    """A column's declaration in a few words."""
    if not column:
        return "not declared"
    gaps = "; may be missing" if column.get("missing") else ""
    return _declared_values(column) + gaps


def _declared_values(column: dict[str, Any]) -> str:
    """What its cells may hold."""
    kind = str(column.get("type", "column"))
    bounds, categories = column.get("bounds"), column.get("categories")
    if bounds is not None:
        span = f"{kind} in [{bounds[0]:g}, {bounds[1]:g}]".replace("-", "−")
        guess = f"; guess: mean {column['mean']:g}, sd {column['sd']:g}" if "sd" in column else ""
        return span + guess.replace("-", "−")
    if categories is not None:
        return f"{kind}: {', '.join(map(str, categories))}"
    return "binary, 0 or 1" if kind == "binary" else kind


def _intervals(result: Result, rows: list[Row]) -> dict[str, Any]:
    names = {"naive": "plain DPVI (ignores the noise)", "averaged": "averaged posterior"}
    posterior = result.request.posterior
    name, expectation = names.get(posterior, "noise-aware posterior"), posterior == "dp-sep"
    unaware = "DP-SEP" if expectation else "DPVI"
    widths = [row.width_ratio for row in rows if math.isfinite(row.width_ratio)]
    ratios = ratio_groups(result)
    return {
        "figure": Markup(figures.forest_figure(rows, name, f"plain {unaware}")),
        "naive": posterior == "naive",
        "unaware_name": unaware,
        "expectation": expectation,
        "effects": Markup(effects.effects_figure(result)),
        "most_effects": effects.MOST_EFFECTS,
        "rows": [_line(row) for row in rows],
        "ratios": ratios,
        "unclear": any(group.unclear for group in ratios),
        "survival": Markup(survival_figure(result)),
        "per_unit": [_line(row) for row in per_unit_rows(result)],
        "count": len(rows),
        "plotted": figures.MOST_ROWS,
        "compared": any(row.unaware is not None for row in rows),
        "median_ratio": f"{np.median(widths):.2f}" if widths else "",
    }


def _line(row: Row) -> dict[str, str]:
    digits = decimals(row.aware)
    return {
        "label": row.label,
        "mean": rounded(row.aware.mean, digits),
        "sd": rounded(row.aware.sd, digits),
        "interval": _span(row.aware, digits),
        "noise_unaware": _span(row.unaware, digits),
        "ratio": rounded(row.width_ratio, 2),
    }


def _span(interval: Interval | None, digits: int | None) -> str:
    if interval is None or not (math.isfinite(interval.lower) and math.isfinite(interval.upper)):
        return "n/a"
    return f"{rounded(interval.lower, digits)} to {rounded(interval.upper, digits)}"


def _spent(certificate: Certificate) -> dict[str, Any]:
    share = certificate.epsilon_spent / certificate.budget.epsilon
    on_a_sample = " on a Poisson sample"
    return {
        "sentence": words.spent_sentence(certificate),
        "explained": words.releases_sentence(certificate),
        "percent": f"{100 * min(max(share, 0.0), 1.0):.2f}",
        "releases": [
            {
                "what": release.what,
                "mechanism": f"Gaussian{'' if release.sampling_rate == 1 else on_a_sample}",
                "times": f"{release.times:,}",
                "rate": f"{release.sampling_rate:g}",
                "noise": f"{release.noise_multiplier:.6g}",
            }
            for release in certificate.releases
        ],
        "sources": certificate.sources,
    }


def _trace(result: Result) -> dict[str, Any]:
    means, ends = result.trace.get("means"), result.trace.get("ends")
    settings = result.request.settings.to_dict()
    figure, coordinates = "", 0
    if means is not None and ends is not None:
        figure = figures.trace_figure(means, ends, result.burn_in)
        coordinates = means.shape[-1] if figure else 0
    return {
        "figure": Markup(figure),
        "burn_in": words.burn_in_sentence(result),
        "convergence": words.convergence_sentence(result),
        "tails": words.tails_sentence(result),
        "drawn": min(coordinates, figures.MOST_LINES),
        "expectation": result.request.posterior == "dp-sep",
        "whitened": settings.get("curvature") is not None and settings.get("frame_scale") is None,
        "grey": max(coordinates - figures.MOST_LINES, 0),
        "curvature": _curvature(result),
        "curvature_words": words.curvature_sentence(result),
    }


def _curvature(result: Result) -> dict[str, Any]:
    """Eigenvalues of a curvature matrix, or the values of a vector."""
    found = np.asarray(result.trace.get("curvature", np.nan), float)
    eigen = found.ndim == 2
    if not np.isfinite(found).all() or found.ndim not in (1, 2) or found.size == 0:
        return {"figure": ""}
    values = np.linalg.eigvalsh((found + found.T) / 2) if eigen else found
    relative = result.request.settings.to_dict().get("curvature") is not None
    return {
        "figure": Markup(figures.curvature_figure(values, relative, eigen)),
        "eigen": eigen,
        "relative": relative,
        "low": f"{values.min():.3g}".replace("-", "−"),
        "high": f"{values.max():.3g}".replace("-", "−"),
    }


def stand_alone_check(certificate: Certificate) -> str:
    """A program that recomputes epsilon with dp-accounting alone, from numbers written into it."""
    budget = certificate.budget
    releases = "\n".join(
        f"    ({release.what!r}, {release.noise_multiplier!r}, {release.sampling_rate!r}, "
        f"{release.times!r}),"
        for release in certificate.releases
    )
    relation = "REPLACE_ONE" if budget.adjacency == "replace-one" else "ADD_OR_REMOVE_ONE"
    return f"""\
import dp_accounting
from dp_accounting.pld import PLDAccountant

releases = [  # what, noise multiplier, sampling rate, times
{releases}
]
accountant = PLDAccountant(
    dp_accounting.NeighboringRelation.{relation},
    value_discretization_interval={discretisation(budget.epsilon)!r},
)
for what, noise_multiplier, sampling_rate, times in releases:
    event = dp_accounting.GaussianDpEvent(noise_multiplier)
    if sampling_rate < 1:
        event = dp_accounting.PoissonSampledDpEvent(sampling_rate, event)
    accountant.compose(dp_accounting.SelfComposedDpEvent(event, times))
epsilon = accountant.get_epsilon({budget.delta!r})
print(f"epsilon {{epsilon:.6f}} recomputed, {certificate.epsilon_spent:.6f} claimed")"""


def _settings(settings: dict[str, Any]) -> list[tuple[str, str, str]]:
    meanings = words.SETTING_MEANINGS
    return [(name, _setting(value), meanings.get(name, "")) for name, value in settings.items()]


def _setting(value: Any) -> str:
    """A setting's value; an array by its shape and range, for the result's folder has it whole."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}".replace("-", "−")
    if isinstance(value, (list, np.ndarray)):
        array = np.asarray(value, float)
        shape = " × ".join(map(str, array.shape))
        said = f"{shape} {'entries' if array.ndim == 1 else 'matrix'}"
        if array.size:
            said += f", from {array.min():.3g} to {array.max():.3g}".replace("-", "−")
        return said
    return f"{value:,}" if isinstance(value, int) else str(value)
