"""What was bought about covariates, and simulated rows that are like the real ones."""

from noisewise.covariates.bins import Bins, covariate_bins
from noisewise.covariates.budget import part_of
from noisewise.covariates.known import KnownCovariates, know_covariates
from noisewise.covariates.shape import (
    SHARE,
    CovariateShape,
    buy_shape,
    covariate_columns,
    shape_cost,
)
from noisewise.covariates.spending import as_declared, covariates_cost, shaped, share_to_spend
