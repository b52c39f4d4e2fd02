"""Are the error bars right? Arrays of simulated fits in, figures and a verdict out."""

from noisewise.evaluation.errors import mpae
from noisewise.evaluation.predictive import PredictiveCalibration, predictive_calibration
from noisewise.evaluation.ranks import rank_histogram, sbc_ranks, uniformity
from noisewise.evaluation.scores import Scores, score
from noisewise.evaluation.tarp import (
    LEVELS,
    coverage_curve,
    coverage_rmse,
    curve_band,
    draw_references,
    marginal_shares,
    rmse_floor,
    tarp_shares,
)
from noisewise.evaluation.verdict import Verdict, judge
