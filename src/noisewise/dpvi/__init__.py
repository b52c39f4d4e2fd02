"""Differentially private variational inference: gradient rules, the scan, the trace."""

from noisewise.dpvi.aligned import Aligned
from noisewise.dpvi.assemble import Assembly, assemble
from noisewise.dpvi.means_only import MeansOnly
from noisewise.dpvi.natural import AlignedNatural, Natural
from noisewise.dpvi.rule import Constants, GradientRule
from noisewise.dpvi.run import Program, Setting, pass_size_limit, run_secure, run_simulated
from noisewise.dpvi.settings import RULES, Settings
from noisewise.dpvi.steps import curvature_step, decaying_schedule, heuristic_step
from noisewise.dpvi.trace import BlockSums, FullTrace, Trace, TraceStatistics, merge
from noisewise.dpvi.vanilla import Preconditioned, Vanilla

__all__ = [
    "RULES",
    "Aligned",
    "AlignedNatural",
    "Assembly",
    "BlockSums",
    "Constants",
    "FullTrace",
    "GradientRule",
    "MeansOnly",
    "Natural",
    "Preconditioned",
    "Program",
    "Setting",
    "Settings",
    "Trace",
    "TraceStatistics",
    "Vanilla",
    "assemble",
    "curvature_step",
    "decaying_schedule",
    "heuristic_step",
    "merge",
    "pass_size_limit",
    "run_secure",
    "run_simulated",
]
