"""The papers' tables and figures, re-run: a config each, one runner."""

from noisewise.studies.catalogue import STUDIES, Study
from noisewise.studies.comparison import ComparisonResult
from noisewise.studies.result import StudyResult
from noisewise.studies.runner import run_study

__all__ = ["STUDIES", "ComparisonResult", "Study", "StudyResult", "run_study"]
