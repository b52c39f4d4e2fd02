"""Variational families."""

from noisewise.guides.diagonal import DiagonalGuide
from noisewise.guides.full_rank import FullRankGuide
from noisewise.guides.guide import Guide
