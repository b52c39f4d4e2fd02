"""Studies of gradient rules by name: what the runner looks up for a study of kind ``rules``."""

from __future__ import annotations

from noisewise.studies.adult_rules import ADULT
from noisewise.studies.full_rank import FULL_RANK
from noisewise.studies.rules import Comparison
from noisewise.studies.sharing_claims import DATA_SHARING

__all__ = ["COMPARISONS"]

COMPARISONS: dict[str, Comparison] = {
    "adult": ADULT,
    "data-sharing": DATA_SHARING,
    "full-rank": FULL_RANK,
}
