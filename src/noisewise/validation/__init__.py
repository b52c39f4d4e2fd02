"""Are the error bars true? Whole private fits on made-up tables, compared with their truths."""

from noisewise.validation.result import Coverage
from noisewise.validation.runner import coverage

__all__ = ["Coverage", "coverage"]
