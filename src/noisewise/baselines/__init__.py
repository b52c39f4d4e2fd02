"""Rivals and yardsticks."""

from noisewise.baselines.non_private import UnsafePosterior, unsafe_posterior

__all__ = ["UnsafePosterior", "unsafe_posterior"]
