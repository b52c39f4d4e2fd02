"""Comparisons by name: what the runner looks up for a study of that kind."""

from __future__ import annotations

from noisewise.studies.adult_rules import ADULT
from noisewise.studies.full_rank import FULL_RANK
from noisewise.studies.rules import Comparison
from noisewise.studies.sep_clipping import SEP_CLIPPING
from noisewise.studies.sep_mixture import SEP_MIXTURE
from noisewise.studies.sep_regression import SEP_REGRESSION
from noisewise.studies.sharing_claims import DATA_SHARING

__all__ = ["COMPARISONS"]

COMPARISONS: dict[str, Comparison] = {
    "adult": ADULT,
    "data-sharing": DATA_SHARING,
    "full-rank": FULL_RANK,
    "sep-clipping": SEP_CLIPPING,
    "sep-mixture": SEP_MIXTURE,
    "sep-regression": SEP_REGRESSION,
}
