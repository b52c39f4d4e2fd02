"""Variational families."""

from noisewise.guides.diagonal import DiagonalGuide

__all__ = ["DiagonalGuide"]
