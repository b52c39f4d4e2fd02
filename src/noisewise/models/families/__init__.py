"""Families of regressions, a file each: a likelihood, and its slopes in closed form."""

from noisewise.models.families.family import Family, Priors, Slopes
from noisewise.models.families.gamma import Gamma
from noisewise.models.families.linear import Linear
from noisewise.models.families.logistic import Logistic
from noisewise.models.families.lognormal import LogNormal
from noisewise.models.families.negative_binomial import NegativeBinomial
from noisewise.models.families.ordinal import Ordinal
from noisewise.models.families.piecewise_exponential import PiecewiseExponential
from noisewise.models.families.poisson import Poisson
from noisewise.models.families.probit import Probit
from noisewise.models.families.softmax import Softmax
from noisewise.models.families.student import Student
from noisewise.models.families.survival import Survival
from noisewise.models.families.weibull import Weibull

FAMILIES: dict[str, Family] = {
    "logistic": Logistic(),
    "probit": Probit(),
    "poisson": Poisson(),
    "linear": Linear(),
    "negative-binomial": NegativeBinomial(),
    "softmax": Softmax(),
    "ordinal": Ordinal(),
    "student": Student(),
    "gamma": Gamma(),
    "lognormal": LogNormal(),
    "weibull": Weibull(),
    "piecewise-exponential": PiecewiseExponential(),
}
"""By the names that people write."""
OTHER_NAMES = {"negbin": "negative-binomial", "multinomial": "softmax", "ordered": "ordinal"}
