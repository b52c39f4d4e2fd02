"""Synthetic tables from a result, each from one posterior draw, and estimates pooled over them."""

from noisewise.synthetic.combining import Combined, combine
from noisewise.synthetic.making import synthesize
from noisewise.synthetic.tables import SyntheticTables
