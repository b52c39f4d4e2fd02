"""DPVIm: Figs. 1 to 3, 5 and 6, where gradient rules are compared."""

from noisewise.studies.dpvim.adult import ADULT
from noisewise.studies.dpvim.full_rank import FULL_RANK
from noisewise.studies.dpvim.sharing import DATA_SHARING

STUDIES = (ADULT, DATA_SHARING, FULL_RANK)
