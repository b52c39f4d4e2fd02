"""The NA-DPVI paper's tables and figures, re-run: a config each, one runner."""

from noisewise.studies.catalogue import STUDIES, Study
from noisewise.studies.result import StudyResult
from noisewise.studies.runner import run_study

__all__ = ["STUDIES", "Study", "StudyResult", "run_study"]
