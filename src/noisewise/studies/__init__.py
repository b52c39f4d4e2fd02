"""The papers' tables and figures, re-run: a config each, one runner.

`STUDIES` is the catalogue. Each paper has a folder with its studies, and `core` what they share;
imports go from `core` to the papers to the catalogue, and never back.
"""

from collections.abc import Sequence
from typing import Any

from noisewise._validate import one_of
from noisewise.studies import dp_sep, dpvim, na_dpvi
from noisewise.studies.core.runner import run
from noisewise.studies.core.study import Study, StudyResult

STUDIES: dict[str, Study] = {
    study.name: study for paper in (na_dpvi, dpvim, dp_sep) for study in paper.STUDIES
}


def run_study(
    name: str, *, epsilons: Sequence[float] = (), methods: Sequence[str] = (), **options: Any
) -> StudyResult:
    """Run a study of a paper: its table or figure with its rivals, and noisewise's own defaults.

    Args:
        name: a key of `STUDIES`.
        epsilons: budgets instead of the paper's.
        methods: methods (or gradient rules, where those are compared) instead of the study's.
        options: what else `run` takes.
    """
    one_of("study", name, tuple(STUDIES))
    return run(STUDIES[name].at(tuple(epsilons)).with_methods(tuple(methods)), **options)
