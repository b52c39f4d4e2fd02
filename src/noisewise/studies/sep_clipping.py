"""Clip norms of DP-SEP and of clipped SEP (DP-SEP App. E, Tables 8 and 9)."""

from __future__ import annotations

from noisewise.studies.claims import lies_beyond
from noisewise.studies.regression_tables import read_tables
from noisewise.studies.rules import Claim, Comparison, Line, Options, Panel, Part, Place, Printed
from noisewise.studies.sep_regression import Prepared, measured, prepare, split_scores

__all__ = ["SEP_CLIPPING"]

_FACTORS = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0)
_TABLES = ("naval", "kin8nm", "wine")
_RMSE = (
    ((0.0025, 0.0007), (0.079, 0.0020), (0.600, 0.0470)),
    ((0.0026, 0.0006), (0.082, 0.0045), (0.605, 0.0469)),
    ((0.0034, 0.0010), (0.083, 0.0076), (0.608, 0.0482)),
    ((0.0034, 0.0007), (0.085, 0.0061), (0.612, 0.0468)),
    ((0.0038, 0.0005), (0.087, 0.0062), (0.619, 0.0428)),
    ((0.0042, 0.0005), (0.090, 0.0078), (0.636, 0.0353)),
)
"""Table 8, a row for each C: means and sds over five runs."""
_LOG_LIKELIHOOD = (
    ((4.545, 0.2675), (1.116, 0.0195), (-0.903, 0.0651)),
    ((4.535, 0.2253), (1.108, 0.0167), (-0.907, 0.0651)),
    ((4.443, 0.2373), (1.098, 0.0196), (-0.911, 0.0644)),
    ((4.430, 0.2895), (1.093, 0.0215), (-0.915, 0.0621)),
    ((4.360, 0.2927), (1.091, 0.0237), (-0.926, 0.0549)),
    ((4.242, 0.3607), (1.069, 0.0352), (-0.932, 0.0482)),
)
"""Table 9."""
Rows = tuple[tuple[tuple[float, float], ...], ...]


def _name(method: str, factor: float) -> str:
    return f"{method}, C = {factor:g}"


def _paper(rows: Rows) -> dict[str, dict[Place, Printed]]:
    return {
        _name("dp-sep", factor): dict(zip(_TABLES, figures, strict=True))
        for factor, figures in zip(_FACTORS, rows, strict=True)
    }


def _parts(options: Options) -> list[Part]:
    assert options.folder is not None  # the runner checks it
    tables = read_tables(options.folder)
    return [Part(method, table) for table in tables for method in options.rules]


def _run(part: Part, options: Options, prepared: Prepared) -> list[Line]:
    table = prepared.tables[part.variant]
    found = split_scores(part.rule, table, options.epsilons[0], options, prepared, _FACTORS)
    return [
        line
        for factor, scores in zip(_FACTORS, found, strict=True)
        for line in measured(_name(part.rule, factor), table.name, scores)
    ]


SEP_CLIPPING = Comparison(
    panels=(
        Panel("rmse", "Table 8: test RMSE", "table", "RMSE", log_y=True, paper=_paper(_RMSE)),
        Panel(
            "log-likelihood",
            "Table 9: test log-likelihood",
            "table",
            "log-likelihood",
            paper=_paper(_LOG_LIKELIHOOD),
        ),
    ),
    parts=_parts,
    prepare=prepare,
    run=_run,
    claims=(
        Claim(
            "paper: DP-SEP's RMSE at C = 1 is below that at C = 10 on every table",
            lies_beyond("rmse", _name("dp-sep", 1), (_name("dp-sep", 10),)),
        ),
        Claim(
            "paper: DP-SEP's log-likelihood at C = 1 is above that at C = 10 on every table",
            lies_beyond("log-likelihood", _name("dp-sep", 1), (_name("dp-sep", 10),), larger=True),
        ),
        Claim(
            "without noise a larger C loses nothing: clipped SEP's RMSE at C = 10 is below that at "
            "C = 1, or within two standard errors",
            lies_beyond("rmse", _name("clipped-sep", 10), (_name("clipped-sep", 1),), ties=2.0),
        ),
    ),
    notes=(
        "C multiplies the clip norms of the two blocks, gradient and precision, that DP-SEP has by "
        "default; the paper's C clips natural parameters as they are, so only the direction "
        "compares.",
        "Otherwise as in sep-regression.",
    ),
    repeats="splits",
    least_fits=1,
    needs_data="a folder of regression tables (data.txt, index_train.txt, ...)",
)
