"""What the scores and the coverage say, in words: are the intervals right, and if not, where?"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from noisewise._validate import NoisewiseError
from noisewise.evaluation.scores import Scores
from noisewise.evaluation.tarp import coverage_rmse, rmse_floor

_FALSE_ALARM = 0.0027
_WIDTH_THAT_MATTERS = 0.05
_SHIFT_THAT_MATTERS = 0.1
_RMSE_FLOORS = 2.55
_NEEDLESS = 1.3


class Verdict(NamedTuple):
    """Whether the intervals are right, one sentence on it, and one line per finding."""

    good: bool
    words: str
    lines: tuple[str, ...]


class _Finding(NamedTuple):
    """Something wrong with one coordinate: ``size`` orders findings of one sort."""

    size: float
    what: str
    where: int


def judge(
    scores: Scores, shares: np.ndarray, labels: Sequence[str], *, baseline: np.ndarray | None = None
) -> Verdict:
    """Judge intervals by z-scores per coordinate and by their joint coverage.

    A coordinate is flagged where its intervals are too narrow or too wide by more than 5%, or
    shifted by more than a tenth of their sd, and that is beyond three standard errors (more, where
    there are many coordinates: chance alone makes one finding of either kind among them all with a
    probability of 0.3%). Too narrow by 40%: they ought to be 40% wider; too wide by 25%: they are
    25% wider than they ought to be.

    Joint coverage is flagged where its RMSE exceeds 2.55 floors (`rmse_floor`), which a perfect
    posterior's does with probability of one in a thousand. Failed fits are always said, and never
    good.

    Args:
        scores: Of all coordinates.
        shares: Of `tarp_shares`.
        labels: The coordinates' names.
        baseline: Sds that one optimal release would allow: an error beyond 1.3 of them, and beyond
            what chance makes of so many fits, is said as well; such intervals can be right.
    """
    shares, labels = np.asarray(shares, float), tuple(map(str, labels))
    _check(scores, shares, labels, baseline)
    found = [*_worst_first(_widths(scores)), *_worst_first(_shifts(scores))]
    blunt = [] if baseline is None else _worst_first(_needless(scores, np.asarray(baseline)))
    suspects = {finding.where for finding in found}
    joint = _joint(shares)
    failures = [f"{scores.failed} of {scores.fits} fits failed"] if scores.failed else []
    lines = [f"{finding.what} in {labels[finding.where]}" for finding in found]
    sharpness = [
        f"{'' if finding.where in suspects else 'calibrated but not sharp: '}"
        f"{finding.what} in {labels[finding.where]}"
        for finding in blunt
    ]
    headlines = [
        f"intervals are {finding.what} in coordinate {labels[finding.where]}" for finding in found
    ]
    wide = [labels[finding.where] for finding in blunt]
    return Verdict(
        good=not (found or joint or failures),
        words=_words([*headlines, *joint], failures, wide, scores.good),
        lines=(*lines, *joint, *failures, *sharpness),
    )


def _widths(scores: Scores) -> Iterator[_Finding]:
    """Too narrow or too wide. Written so that NaN, of a posterior without width, is flagged."""
    for where, z_sd in enumerate(scores.z_sd):
        if not np.isfinite(z_sd) or not z_sd > 0:
            yield _Finding(np.inf, "impossible to judge, for want of finite z-scores,", where)
            continue
        off = max(z_sd, 1 / z_sd) - 1
        if abs(z_sd - 1) > _sigmas(scores) * scores.z_sd_floor and off > _WIDTH_THAT_MATTERS:
            yield _Finding(off, f"too {'narrow' if z_sd > 1 else 'wide'} by {off:.0%}", where)


def _shifts(scores: Scores) -> Iterator[_Finding]:
    """Off to one side, by more than the scatter of these z-scores makes likely.

    Where intervals are too narrow, z-scores scatter more and so does their mean.
    """
    scatter = scores.z_mean_floor * np.fmax(scores.z_sd, 1.0)
    for where, (z_mean, error) in enumerate(zip(scores.z_mean, scatter, strict=True)):
        if np.isfinite(z_mean) and abs(z_mean) > max(_sigmas(scores) * error, _SHIFT_THAT_MATTERS):
            side = "high" if z_mean > 0 else "low"
            what = f"shifted by {abs(z_mean):.2g} of their own sd (too {side})"
            yield _Finding(abs(z_mean), what, where)


def _sigmas(scores: Scores) -> float:
    """Standard errors that the largest of all coordinates' figures seldom exceeds by chance."""
    return float(ndtri(1 - _FALSE_ALARM / 2 / len(scores.z_sd)))


def _needless(scores: Scores, baseline: np.ndarray) -> Iterator[_Finding]:
    chance = _sigmas(scores) / np.sqrt(2 * max(scores.good, 1))
    for where, times in enumerate(scores.error / baseline):
        if times > max(_NEEDLESS, 1 + chance):
            what = f"error {times:.1f} times the single-release sd"
            yield _Finding(times, what, where)


def _joint(shares: np.ndarray) -> list[str]:
    rmse, floor = float(coverage_rmse(shares)), rmse_floor(len(shares))
    if rmse <= _RMSE_FLOORS * floor:
        return []
    return [f"joint coverage is off by {rmse:.3f} (RMSE), where chance explains {floor:.3f}"]


def _worst_first(findings: Iterator[_Finding]) -> list[_Finding]:
    return sorted(findings, key=lambda finding: -finding.size)


def _words(headlines: list[str], failures: list[str], wide: list[str], good: int) -> str:
    """The worst finding, the number of others, and every failure: none may hide in a count."""
    if not headlines:
        words = f"intervals are right to within what {good} simulations can show"
        if wide:
            words += f", but not sharp in coordinate {wide[0]}" + _and_more(wide)
        return "; but ".join([words, *failures])
    return "; ".join([headlines[0] + _and_more(headlines, " finding"), *failures])


def _and_more(items: list[str], noun: str = "") -> str:
    others = len(items) - 1
    plural = "s" if noun and others > 1 else ""
    return f", and {others} more{noun}{plural}" if others else ""


def _check(
    scores: Scores, shares: np.ndarray, labels: tuple[str, ...], baseline: np.ndarray | None
) -> None:
    if shares.shape != (scores.fits,) or not ((shares >= 0) & (shares <= 1)).all():
        raise NoisewiseError(
            f"shares must be one number from 0 to 1 for each of the {scores.fits} fits, "
            f"got the shape {shares.shape}"
        )
    if len(labels) != len(scores.z_sd):
        raise NoisewiseError(
            f"labels must name the {len(scores.z_sd)} coordinates, got {len(labels)} names"
        )
    if baseline is not None:
        limits = np.asarray(baseline, float)
        if limits.shape != scores.error.shape or not (limits > 0).all():
            raise NoisewiseError("baseline must be one positive sd per coordinate")
