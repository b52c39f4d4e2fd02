"""What was bought about covariates in words, and where it contradicts what was declared."""

from __future__ import annotations

import numpy as np

from noisewise.covariates.bins import Bins
from noisewise.data import indicator_name

_SURE = 4.0
"""Noise sds that a difference must have; of a hundred comparisons, one in 150 times by chance."""
_FAR, _FACTOR = 0.5, 1.5
"""What matters: means half a declared sd apart, sds and shares apart by half."""
_PILED = 0.9


def contradictions(
    bins: tuple[Bins, ...], shares: tuple[np.ndarray, ...], noise: float
) -> tuple[str, ...]:
    """One sentence for each column that is not as declared; ``noise`` is the sd of a share."""
    found: list[str] = []
    for column, share in zip(bins, shares, strict=True):
        if column.column.gaps:
            found += _gaps(column, share, noise)
        if not column.told:
            continue
        share = column.present(share)
        if not column.ordered:
            found += _levels(column, share, noise)
            continue
        found += _moments(column, share, noise)
        if column.spread_is_hidden(share, noise):
            found.append(
                f"{column.name}: people differ less than the noise shows, in bounds "
                f"[{column.low[0]:g}, {column.high[-1]:g}], so that its coefficient's error bar is "
                "not to be trusted: declare narrower bounds, or pass a public_sample"
            )
    return tuple(found)


def _gaps(column: Bins, share: np.ndarray, noise: float) -> list[str]:
    """Whether many more or fewer cells are missing than was guessed."""
    declared = column.column.missing_share
    if declared is None or abs(share[-1] - declared) <= _SURE * noise:
        return []
    if 1 / _FACTOR < share[-1] / declared < _FACTOR:
        return []
    name = column.name.removesuffix(indicator_name(""))
    return [f"{name}: share of missing cells about {share[-1]:.2g}, declared {declared:.2g}"]


def _moments(column: Bins, share: np.ndarray, noise: float) -> list[str]:
    declared, (mean, sd) = column.column, column.mean_and_sd(share)
    if declared.mean is None or declared.sd is None:
        place = int(np.argmax(share))
        narrow = column.high[place] - column.low[place] < 1e-3 * (column.high[-1] - column.low[0])
        if share[place] < _PILED or not narrow:
            return []
        where = f"{column.low[place]:g}"
        return [
            f"{column.name}: about {share[place]:.0%} of rows are at {where} in bounds "
            f"[{column.low[0]:g}, {column.high[-1]:g}]: declare mean and sd, or narrower bounds"
        ]
    error = noise * float(np.linalg.norm(column.middle - mean))
    off = abs(mean - declared.mean)
    if off > _FAR * declared.sd and off > _SURE * error:
        return [f"{column.name}: mean about {mean:.3g}, declared {declared.mean:g}"]
    if not 1 / _FACTOR < sd / declared.sd < _FACTOR:
        return [f"{column.name}: sd about {sd:.3g}, declared {declared.sd:g}"]
    return []


def _levels(column: Bins, share: np.ndarray, noise: float) -> list[str]:
    declared = column.column
    if declared.share is not None:
        expected = np.array([1 - declared.share, declared.share])
    elif declared.shares is not None:
        expected = np.asarray(declared.shares)
    else:
        return []
    names = declared.categories or ("0", "1")
    off = np.abs(share - expected) > _SURE * noise
    off &= (share > _FACTOR * expected) | (share < expected / _FACTOR)
    return [
        f"{column.name}={names[k]}: share about {share[k]:.2g}, declared {expected[k]:.2g}"
        for k in np.flatnonzero(off)
    ]
