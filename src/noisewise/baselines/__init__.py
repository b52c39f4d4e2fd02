"""Rivals and yardsticks."""

from noisewise.baselines.exponential_family import (
    BetaBernoulli,
    ConjugateFamily,
    DirichletCategorical,
    GammaExponential,
    exponential_family_posterior,
)
from noisewise.baselines.linear_regression import RegressionPrior, linear_regression_posterior
from noisewise.baselines.non_private import UnsafePosterior, unsafe_posterior
from noisewise.baselines.regression_moments import (
    XMoments,
    gaussian_moments,
    regression_sensitivity,
    regression_statistics,
)

__all__ = [
    "BetaBernoulli",
    "ConjugateFamily",
    "DirichletCategorical",
    "GammaExponential",
    "RegressionPrior",
    "UnsafePosterior",
    "XMoments",
    "exponential_family_posterior",
    "gaussian_moments",
    "linear_regression_posterior",
    "regression_sensitivity",
    "regression_statistics",
    "unsafe_posterior",
]
