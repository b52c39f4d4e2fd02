"""How far parameters are from where they should be, relative to where they began."""

import numpy as np

from noisewise._validate import NoisewiseError


def mpae(iterates: np.ndarray, initial: np.ndarray, optimum: np.ndarray) -> np.ndarray:
    """Mean proportional absolute error (DPVIm eq. 23) over the last axis, the parameters'.

    0 is the optimum, 1 is no nearer to it than at the start.

    Args:
        iterates: Parameters; leading axes (fits, steps) are kept.
        initial: Where they began, with the same leading axes or none.
        optimum: Where they should be.

    >>> float(mpae(np.array([1.0, 3.0]), np.array([2.0, 2.0]), np.array([0.0, 4.0])))
    0.5
    """
    start, goal = np.asarray(initial, float), np.asarray(optimum, float)
    way = np.abs(start - goal)
    if not (way > 0).all():
        raise NoisewiseError(
            "a parameter starts at its optimum (or is not a number), so its proportional error is "
            "not defined: start elsewhere, or leave it out"
        )
    return np.mean(np.abs(np.asarray(iterates, float) - goal) / way, axis=-1)
