"""One noisy sum over all rows: the release behind the sufficient-statistic baselines.

The whole budget goes into a single Gaussian release. As everywhere behind the wall, a record is
rounded to integers within its bound, the sum is an integer sum and the noise a rounded Gaussian, so
no low bits of a float give the sum away and the Gaussian accounting holds unchanged.

There is no Laplace release here: pure epsilon needs an exact discrete sampler (a float one leaks in
its tails), and certificates speak of Gaussian releases only. The baselines still accept Laplace
noise for simulations.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from noisewise._hosts import Hosts, refuse_unshared
from noisewise._shapes import Float, Int
from noisewise._validate import NoisewiseError, positive
from noisewise.data import PrivateRows
from noisewise.mechanism.accounting import Release, calibrate
from noisewise.mechanism.budget import Budget
from noisewise.mechanism.clipping import Grid

# Sums are 64-bit here, so the grid can be finer than the fit's 2^16: exact up to 2^43 rows, and a
# squared norm of up to 2^20 coordinates still fits.
_POINTS = 2.0**20
_FLOAT64_UNIT = 2.0**-53


class SumRelease(NamedTuple):
    """A noisy sum, the standard deviation of its noise, and what it cost."""

    total: Float[np.ndarray, " k"]
    noise_sd: float
    release: Release


def release_sum(
    values: PrivateRows | Float[np.ndarray, "count k"],
    sensitivity: float,
    budget: Budget,
    *,
    what: str,
    others: tuple[Release, ...] = (),
    insecure_seed: int | None = None,
    bought: dict[str, np.ndarray] | None = None,
) -> SumRelease:
    """The sum of all records' values plus Gaussian noise.

    A record is a row, or a unit's rows added up, if private rows are of units: then it is that sum
    which is clipped.

    Replacing a record can move the sum twice as far as adding one, and the accountant then asks
    for twice the noise.

    Args:
        values: One row per record; private rows hold them as their only column.
        sensitivity: L2 norm to which rows are clipped: what one record can add or take away.
        budget: All of it goes into this release, or what ``others`` leave of it.
        what: How a certificate names the release.
        others: What else the same data pay for.
        insecure_seed: Makes the noise repeatable, for simulations: whoever knows it can subtract
            the noise.
        bought: Sums that were bought already, by the names of their releases: they are not bought
            again, and what is bought is put among them.
    """
    positive("sensitivity", sensitivity, finite=True)
    noise_multiplier = calibrate(budget, 1.0, 1, others)
    bought = {} if bought is None else bought
    if what not in bought:
        bought[what] = _noisy_total(values, sensitivity, noise_multiplier, what, insecure_seed)
    return SumRelease(
        total=bought[what],
        noise_sd=noise_multiplier * sensitivity,
        release=Release(what=what, noise_multiplier=noise_multiplier),
    )


def _noisy_total(
    values: PrivateRows | Float[np.ndarray, "count k"],
    sensitivity: float,
    noise_multiplier: float,
    what: str,
    insecure_seed: int | None,
) -> Float[np.ndarray, " k"]:
    share = values.share if isinstance(values, PrivateRows) else None
    refuse_unshared(share)
    hosts = Hosts() if share is None else Hosts.joined()
    total, width = np.zeros((), np.int64), 0
    for stretch in _stretches(values):
        if stretch.ndim != 2:
            raise NoisewiseError(
                f"values must be rows x statistics, got {stretch.ndim} dimension(s)"
            )
        width = stretch.shape[1]
        total = total + rounded_rows(stretch, sum_grid(sensitivity, width)).sum(axis=0)
    if hosts.is_first:  # once: what hosts add up has the noise in it already
        normals = _generator(what, insecure_seed).standard_normal(width)
        total = total + np.rint(normals * (noise_multiplier * _POINTS)).astype(np.int64)
    return hosts.total(total) * (sensitivity / _POINTS)


def _stretches(values: PrivateRows | Float[np.ndarray, "count k"]) -> Iterator[np.ndarray]:
    """The values, as many at a time as memory allows: their sum is one of integers."""
    if not isinstance(values, PrivateRows):
        yield np.asarray(values, float)
        return
    for rows in values.unit_sums().unsafe_passes():
        (column,) = rows.values()
        yield np.asarray(column, float)


def sum_grid(sensitivity: float, dim: int) -> Grid:
    """The integer grid of a sum of ``dim`` statistics, as in `mechanism.clipping`."""
    slack = (dim / 2 + 8) * _FLOAT64_UNIT
    return Grid(sensitivity, _POINTS, _POINTS * (1 - slack) - math.sqrt(dim) / 2)


def rounded_rows(values: Float[np.ndarray, "count k"], grid: Grid) -> Int[np.ndarray, "count k"]:
    """Rows as integers, each of L2 norm at most ``grid.points``; one not finite counts as zero.

    A row that rounds to within the bound is kept as it is, so statistics on the bound itself, like
    indicators, are exact; one that does not is clipped far enough inside to round to within it.
    """
    # In one order in memory: how a norm is rounded must not follow from how many records there are.
    values = np.ascontiguousarray(values)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = values * (grid.points / grid.clip_norm)
        norms = np.sqrt(np.sum(scaled * scaled, axis=1))
    scaled = np.where(np.isfinite(norms)[:, None], scaled, 0.0)
    norms = np.where(np.isfinite(norms), norms, 0.0)
    fits = norms <= grid.points
    # Exact integer arithmetic decides: no float can hide an overshoot.
    kept = np.rint(np.where(fits[:, None], scaled, 0.0)).astype(np.int64)
    fits &= np.sum(kept * kept, axis=1) <= int(grid.points) ** 2
    factors = grid.inner_norm / np.maximum(norms, grid.inner_norm)
    clipped = np.rint(scaled * factors[:, None]).astype(np.int64)
    return np.where(fits[:, None], kept, clipped)


def _generator(what: str, insecure_seed: int | None) -> np.random.Generator:
    """AES in counter mode, freshly keyed; with a seed, every sum still has noise of its own."""
    from randomgen import AESCounter

    if insecure_seed is None:
        return np.random.Generator(AESCounter(key=secrets.randbits(128)))
    root = np.random.SeedSequence([insecure_seed, *b"sum of ", *what.encode()])
    return np.random.Generator(AESCounter(root))
