"""DP-SEP: Tables 1, 3 to 5, 8 and 9 and Fig. 1."""

from noisewise.studies.dp_sep.mixture import SEP_MIXTURE
from noisewise.studies.dp_sep.regression import SEP_CLIPPING, SEP_REGRESSION

STUDIES = (SEP_MIXTURE, SEP_REGRESSION, SEP_CLIPPING)
