"""Checks of a fitted model: noisy tables of people beside what the model says of them."""

from noisewise.checks.check import check
from noisewise.checks.compare import compare
from noisewise.checks.comparison import Comparison
from noisewise.checks.model_check import ModelCheck
