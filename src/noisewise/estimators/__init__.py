"""Private regressions as scikit-learn estimators, over the same engine as `noisewise.fit`."""

try:
    import sklearn
except ImportError:
    raise ImportError(
        "noisewise.estimators needs scikit-learn: pip install noisewise[sklearn]"
    ) from None

from noisewise.estimators.gamma import DPGammaRegression
from noisewise.estimators.linear import DPLinearRegression
from noisewise.estimators.logistic import DPLogisticRegression
from noisewise.estimators.network import DPBayesianNeuralNetwork
from noisewise.estimators.poisson import DPPoissonRegression

__all__ = [
    "DPBayesianNeuralNetwork",
    "DPGammaRegression",
    "DPLinearRegression",
    "DPLogisticRegression",
    "DPPoissonRegression",
]
