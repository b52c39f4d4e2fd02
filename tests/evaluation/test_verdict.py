"""The verdict: right posteriors pass, wrong ones are named, failures are always said."""

import re

import numpy as np
import pytest

from evaluation.toy import simulate, spoil
from noisewise._validate import NoisewiseError
from noisewise.evaluation import (
    Scores,
    coverage_rmse,
    judge,
    rmse_floor,
    score,
    tarp_shares,
    verdict,
)

LABELS = ("scale", "weights[3]")
EVEN = (np.arange(1000) + 0.5) / 1000


def judged(toy, draws=None, **options):
    draws = toy.draws if draws is None else draws
    shares = tarp_shares(toy.truth, draws, toy.references(np.random.default_rng(99)))
    return judge(score(toy.truth, draws), shares, LABELS, **options)


def scores(z_mean=(0.0, 0.0), z_sd=(1.0, 1.0), error=(1.0, 1.0), failed=0):
    figures = (np.array(values, float) for values in (z_mean, z_sd, error, error))
    return Scores(*figures, fits=1000, failed=failed)


def test_joint_coverage_is_flagged_once_in_a_thousand():
    """20,000 perfect sets of 200 shares: 20 flagged, with an sd of 4.5.

    7 to 36 is what a rate of 0.1% gives but for one time in 1000 (Poisson).
    """
    rng = np.random.default_rng(0)
    rmse = np.concatenate([coverage_rmse(rng.random((200, 2000))) for _ in range(10)])
    flagged = (rmse > verdict._RMSE_FLOORS * rmse_floor(200)).sum()
    assert 7 <= flagged <= 36


@pytest.mark.parametrize("seed", range(3))
def test_the_perfect_posterior_passes(seed):
    """False alarm: four figures at 0.3% and the joint one at 0.1%, 1.2% a seed."""
    found = judged(simulate(seed, fits=1000))
    assert found.good and not found.lines
    assert found.words == "intervals are right to within what 1000 simulations can show"


def test_too_narrow_by_half_is_said_with_its_percentage():
    """z_sd is 2, known to 0.045: 82% to 118% is four standard errors (0.006% a coordinate)."""
    found = judged(simulate(0, fits=1000, narrow=2.0))
    assert not found.good
    narrow = [re.fullmatch(r"too narrow by (\d+)% in (.*)", line) for line in found.lines[:2]]
    assert {match[2] for match in narrow} == set(LABELS)
    assert all(82 <= int(match[1]) <= 118 for match in narrow)
    assert re.match(r"intervals are too narrow by \d+% in coordinate ", found.words)
    assert found.words.endswith(", and 2 more findings")
    assert "joint coverage is off" in found.lines[-1]


def test_too_wide_by_half_is_said_with_its_percentage():
    """z_sd is 0.5, known to 0.011: 83% to 119% is about four standard errors."""
    found = judged(simulate(1, fits=1000, narrow=0.5))
    wide = [re.fullmatch(r"too wide by (\d+)% in (.*)", line) for line in found.lines[:2]]
    assert not found.good and all(83 <= int(match[1]) <= 119 for match in wide)


@pytest.mark.parametrize(("shift", "side"), [(1.0, "high"), (-1.0, "low")])
def test_shifted_by_an_sd_is_said(shift, side):
    """z_mean is one, known to 0.032: it prints as 0.87 to 1.1 but for 0.006% a coordinate."""
    found = judged(simulate(2, fits=1000, shift=shift))
    assert not found.good
    shifts = [re.match(rf"shifted by (\S+) of their own sd \(too {side}\)", x) for x in found.lines]
    assert sum(match is not None for match in shifts) == 2
    assert all(0.87 <= float(match[1]) <= 1.13 for match in shifts if match)


def test_a_prior_passed_off_as_posterior_is_found_by_joint_coverage_alone():
    """Its z-scores are right: a false alarm among those has a probability of 1.1%."""
    found = judged(simulate(3, fits=1000, prior=True))
    assert not found.good and len(found.lines) == 1
    assert found.words.startswith("joint coverage is off by 0.2")


def test_failed_fits_are_never_good_and_always_said():
    """The good ones are right: false alarm 1.2%; three failures cannot be seen in coverage."""
    toy = simulate(0, fits=1000)
    found = judged(toy, spoil(toy.draws, [1, 2, 3]))
    assert not found.good and found.lines == ("3 of 1000 fits failed",)
    assert found.words == (
        "intervals are right to within what 997 simulations can show; but 3 of 1000 fits failed"
    )
    many = judged(toy, spoil(toy.draws, range(200)))
    assert many.words.startswith("joint coverage is off")
    assert many.words.endswith("; 200 of 1000 fits failed")
    none = judged(toy, np.full_like(toy.draws, np.nan))
    assert not none.good and "1000 of 1000 fits failed" in none.lines
    assert "impossible to judge" in none.words


def test_a_posterior_without_width_is_not_good():
    toy = simulate(0, fits=100)
    found = judged(toy, np.zeros_like(toy.draws))
    assert not found.good and "impossible to judge" in found.words


def test_the_words_of_the_rules():
    found = judge(scores(z_sd=(0.8, 1.4), z_mean=(0.4, 0.0)), EVEN, LABELS)
    assert found.lines == (
        "too narrow by 40% in weights[3]",
        "too wide by 25% in scale",
        "shifted by 0.4 of their own sd (too high) in scale",
    )
    assert found.words == (
        "intervals are too narrow by 40% in coordinate weights[3], and 2 more findings"
    )
    one = judge(scores(z_sd=(1.4, 1.4)), EVEN, LABELS)
    assert one.words.endswith(", and 1 more finding")


def test_what_is_small_or_within_chance_is_not_flagged():
    """With two coordinates 3.2 standard errors are 0.072 and 0.101 with 1000 fits; with 100, 0.23
    and 0.32."""
    assert judge(scores(z_sd=(1.06, 0.94), z_mean=(0.099, -0.099)), EVEN, LABELS).good
    assert not judge(scores(z_sd=(1.08, 1.0)), EVEN, LABELS).good
    assert not judge(scores(z_mean=(-0.11, 0.0)), EVEN, LABELS).good
    few = scores(z_sd=(1.2, 0.8), z_mean=(0.29, -0.29))._replace(fits=100)
    assert judge(few, EVEN[::10], LABELS).good
    many = scores(z_sd=(1.049, 0.953), z_mean=(0.09, -0.09))._replace(fits=100_000)
    assert judge(many, (np.arange(100_000) + 0.5) / 100_000, LABELS).good


def test_a_shift_must_exceed_the_scatter_of_narrow_intervals():
    """Five times too narrow, their mean of 1000 z-scores has a standard error of 0.16."""
    found = judge(scores(z_sd=(5.0, 1.0), z_mean=(0.3, 0.0)), EVEN, LABELS)
    assert found.lines == ("too narrow by 400% in scale",)


def test_needless_width_is_said_and_yet_good():
    found = judge(scores(error=(0.2, 0.3)), EVEN, LABELS, baseline=np.array([0.1, 0.25]))
    assert found.good
    assert found.lines == (
        "calibrated but not sharp: error 2.0 times the single-release sd in scale",
    )
    assert found.words == (
        "intervals are right to within what 1000 simulations can show, "
        "but not sharp in coordinate scale"
    )


def test_what_is_not_calibrated_is_not_called_so():
    found = judge(scores(z_sd=(2.0, 1.0)), EVEN, LABELS, baseline=np.array([0.5, 2.0]))
    assert not found.good
    assert found.lines[1] == "error 2.0 times the single-release sd in scale"


@pytest.mark.parametrize(
    ("shares", "labels", "baseline", "message"),
    [
        (EVEN[1:], LABELS, None, "for each of the 1000 fits"),
        (np.full(1000, np.nan), LABELS, None, "shares must be one number from 0 to 1"),
        (EVEN, ("scale",), None, "labels must name the 2 coordinates, got 1"),
        (EVEN, LABELS, [1.0, np.nan], "baseline must be"),
    ],
)
def test_what_does_not_fit_is_refused(shares, labels, baseline, message):
    with pytest.raises(NoisewiseError, match=message):
        judge(scores(), shares, labels, baseline=baseline)
