"""Every method alike: prepare, run, posterior, result."""

from noisewise.fitting.fit import fit

__all__ = ["fit"]
