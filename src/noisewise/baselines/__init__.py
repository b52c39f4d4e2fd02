"""Rivals and yardsticks."""

from noisewise.baselines.dp_em import dp_em
from noisewise.baselines.exponential_family import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    exponential_family_posterior,
)
from noisewise.baselines.linear_regression import RegressionPrior, linear_regression_posterior
from noisewise.baselines.network_rivals import (
    dp_vi_settings,
    network_guide,
    network_target,
    unsafe_point_estimate,
    unsafe_vi,
    vi_start,
)
from noisewise.baselines.non_private import unsafe_posterior
from noisewise.baselines.private_line import private_line
from noisewise.baselines.regression_moments import (
    XMoments,
    gaussian_moments,
    regression_sensitivity,
    regression_statistics,
)
