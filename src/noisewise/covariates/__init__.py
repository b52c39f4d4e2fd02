"""What was bought about covariates, and simulated rows that are like the real ones."""

from noisewise.covariates.bins import Bins, covariate_bins
from noisewise.covariates.shape import SHARE, CovariateShape, buy_shape, covariate_columns

__all__ = [
    "SHARE",
    "Bins",
    "CovariateShape",
    "buy_shape",
    "covariate_bins",
    "covariate_columns",
]
