"""Are the error bars true? Whole private fits on simulated tables, compared with their truths."""

from noisewise.coverage.given_covariates import given_covariates_simulator
from noisewise.coverage.result import Coverage
from noisewise.coverage.runner import coverage
