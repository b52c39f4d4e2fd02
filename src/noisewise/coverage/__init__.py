"""Are the error bars true? Whole private fits on simulated tables, compared with their truths."""

from noisewise.coverage.result import Coverage
from noisewise.coverage.runner import coverage
