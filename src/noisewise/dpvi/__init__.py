"""Differentially private variational inference: gradient rules, the algorithm, the trace."""

from noisewise.dpvi.algorithm import BLOCKS, Dpvi, DpviNumbers
from noisewise.dpvi.aligned import Aligned
from noisewise.dpvi.assemble import (
    assemble,
    decaying_schedule,
    noise_variance,
    prepared_rows,
)
from noisewise.dpvi.means_only import MeansOnly
from noisewise.dpvi.natural import AlignedNatural, Natural
from noisewise.dpvi.rule import Constants, GradientRule, Point
from noisewise.dpvi.settings import Settings
from noisewise.dpvi.trace import (
    WIDE,
    BlockSums,
    FullTrace,
    Trace,
    TraceStatistics,
    Variability,
    trace_of,
)
from noisewise.dpvi.vanilla import Preconditioned, Vanilla
from noisewise.dpvi.variability import settled_mean, variability_of, variability_run
