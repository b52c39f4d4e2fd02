"""DPVIm's posterior: converged tails found, averaged, and their variance added."""

from dataclasses import replace

import numpy as np
import pytest

from noisewise._validate import NoisewiseError
from noisewise.dpvi import BlockSums, Settings, Trace, assemble
from noisewise.mechanism import Mechanism
from noisewise.posterior import FitContext, Status, average, infer
from noisewise.posterior.averaging import group_stationarity
from posterior.traces import ROWS, data, paper_run
from tracing import traced

STEPS, MEMORY, SD = 20_000, 50.0, 0.03


def ou(centre, rng, steps=STEPS, memory=MEMORY, sd=SD):
    """Stationary iterates that forget in ``memory`` steps (DPVIm eq. 21)."""
    keep = np.exp(-1 / memory)
    shocks = rng.normal(size=(steps, len(centre))) * sd * np.sqrt(1 - keep**2)
    path = np.empty((steps, len(centre)))
    path[0] = rng.normal(size=len(centre)) * sd
    for t in range(1, steps):
        path[t] = keep * path[t - 1] + shocks[t]
    return np.asarray(centre) + path


def as_trace(path, blocks=100, full=False, uneven=False):
    """Block sums of a path, with a last block that is shorter if ``uneven``."""
    length = len(path) // blocks
    pieces = [path[first : first + length] for first in range(0, len(path), length)]
    if uneven:
        pieces[-1] = pieces[-1][: length // 3]
    shifts = [piece - piece[:1] for piece in pieces]
    squares = [shift.T @ shift if full else (shift**2).sum(0) for shift in shifts]
    zero = np.zeros((len(pieces), path.shape[1]))
    sums = BlockSums(
        np.array([float(len(piece)) for piece in pieces]),
        np.stack([piece[0] for piece in pieces]),
        np.stack([shift.sum(0) for shift in shifts]),
        zero,
        np.stack(squares),
        np.zeros_like(np.stack(squares)),
        zero,
        np.stack([(shift**2).sum(0) for shift in shifts]),
    )
    return Trace(sums, pieces[-1][-1])


def test_noise_alone_is_stationary_and_a_distance_from_the_optimum_is_not():
    """Plain noise: 40 groups of 10 with fixed seed. The largest of 40 statistics exceeds the limit
    in 4% of seeds, here it does not. A mean gradient of two standard errors makes a statistic of
    about 5."""
    rng = np.random.default_rng(3)
    steps, groups = 4000, {f"{k}": np.arange(10 * k, 10 * k + 10) for k in range(40)}
    gradients = 7.0 * rng.normal(size=(steps, 400))
    gradients[:, :10] += 2 * 7.0 / np.sqrt(steps / 2)
    path = np.zeros((steps, 400))
    trace = as_trace(path)
    pieces = gradients.reshape(100, -1, 400)
    sums = trace.blocks._replace(gradient=pieces.sum(1), gradient_gradient=(pieces**2).sum(1))
    found = group_stationarity(Trace(sums, trace.last), 0.5, groups)
    assert found["0"].statistic > found["0"].limit
    assert not found["0"].passed
    others = [test for name, test in found.items() if name != "0"]
    assert all(test.passed for test in others)
    assert abs(np.mean([test.statistic for test in others]) - 1) < 0.3


@pytest.mark.parametrize("full", [False, True])
def test_a_stationary_trace_gives_its_mean_and_variance(full):
    """Twelve parameters, 200 memories each: errors within five standard errors, fixed seed."""
    centre = np.linspace(-2, 3, 12)
    found = average(as_trace(ou(centre, np.random.default_rng(0)), full=full), 0.05)
    assert (found.blocks == 100).all()
    assert found.converged.all()
    # An OU mean has variance 2 sd^2 memory / steps; its sample variance errs by sqrt(2 memory/n).
    error = SD * np.sqrt(2 * MEMORY / STEPS)
    assert np.abs(found.mean - centre).max() < 5 * error
    assert np.abs(found.variance / SD**2 - 1).max() < 5 * np.sqrt(2 * MEMORY / STEPS)


def test_moments_are_those_of_the_steps_also_with_uneven_blocks():
    path = ou([0.5, -1.0], np.random.default_rng(1), steps=3000)
    trace = as_trace(path, uneven=True)
    kept = int(trace.blocks.count.sum())
    found = average(trace, np.inf)
    assert np.allclose(found.mean, path[:kept].mean(0), rtol=1e-10)
    assert np.allclose(found.variance, path[:kept].var(0), rtol=1e-8)
    one = 50 * 30  # half of the blocks
    halves = path[:kept][:one], path[:kept][one:]
    within = np.mean([half.var(0) for half in halves], 0)
    between = np.var([half.mean(0) for half in halves], axis=0, ddof=1)
    assert np.allclose(found.r_hat, np.sqrt(1 + between / within), rtol=1e-8)


def test_the_slope_is_that_of_a_straight_line():
    time = np.linspace(0, 1, STEPS)[:, None]
    found = average(as_trace(np.array([[2.0, -0.3]]) * time), 0.01)
    # The shortest tail is a tenth of the run, so the line falls by a tenth along it.
    assert not found.flat.any()
    assert (found.blocks == 10).all()
    assert np.allclose(found.slope, [0.2, -0.03], rtol=1e-3)


def test_the_longest_flat_tail_is_found_parameter_by_parameter():
    """One parameter is home at once; the other approaches for two fifths of the run."""
    path = ou([1.0, 1.0], np.random.default_rng(2), sd=0.01)
    approach = np.linspace(3, 0, int(0.4 * STEPS))
    path[: len(approach), 1] += approach
    found = average(as_trace(path), 0.05)
    assert found.blocks[0] == 100
    assert 55 <= found.blocks[1] <= 60
    assert found.converged.all()
    assert found.mean[1] == pytest.approx(1.0, abs=0.005)
    assert found.variance[1] == pytest.approx(1e-4, rel=0.5)


def test_least_share_is_dropped():
    path = ou([1.0], np.random.default_rng(2), sd=0.01)
    assert average(as_trace(path), 0.05, burn_in=0.33).blocks == 67
    assert average(as_trace(path), 0.05, burn_in=0.97).blocks == 4


def test_split_r_hat_flags_what_the_slope_cannot_see():
    """A slow, small drift: below the threshold as a slope, far beyond the iterates' own spread."""
    path = ou([0.0, 0.0], np.random.default_rng(3), sd=0.002)
    path[:, 1] += np.linspace(0, 0.04, STEPS)
    found = average(as_trace(path), 0.05)
    assert found.flat.all()
    assert found.r_hat[0] < 1.1 < 1.5 < found.r_hat[1]
    assert found.converged.tolist() == [True, False]


def test_a_parameter_that_never_moves_agrees_with_itself():
    found = average(as_trace(np.ones((1000, 1))), 0.05)
    assert found.r_hat.tolist() == [1.0]
    assert found.variance.tolist() == [0.0]


def test_the_tails_variance_is_added_to_the_guides():
    settings, run, trace = paper_run("beta_bernoulli")
    found = infer("averaged", trace, FitContext.of(run, settings), 40_000, np.random.default_rng(0))
    tail = found.averaged
    scale = float(run.algorithm.rule.guide.scale(tail.mean[1:])[0])
    expected = np.sqrt(scale**2 + tail.variance[0])
    assert found.status is Status.OK
    # Forty thousand draws: five standard errors.
    assert found.draws.mean() == pytest.approx(tail.mean[0], abs=5 * expected / 200)
    assert found.draws.std() == pytest.approx(expected, rel=5 / np.sqrt(80_000))
    assert found.noise_unaware.std() == pytest.approx(
        float(run.algorithm.rule.guide.scale(trace.last[1:])[0]), rel=5 / np.sqrt(80_000)
    )


def test_a_drifting_trace_is_not_converged():
    settings, run, trace = paper_run("beta_bernoulli")
    drift = np.linspace(0, 50, len(trace.blocks.start))[:, None]
    moved = Trace(trace.blocks._replace(start=trace.blocks.start + drift), trace.last)
    found = infer("averaged", moved, FitContext.of(run, settings), 100, np.random.default_rng(0))
    assert found.status is Status.NOT_CONVERGED
    assert found.burn_in == (len(trace.blocks.start) * 9 // 10, False)


def test_rules_and_posteriors_that_do_not_go_together_get_one_line():
    settings, run, trace = paper_run("beta_bernoulli")
    rng = np.random.default_rng(0)
    matrix = replace(settings, full_curvature=True)
    bare = Settings(clip_norm=1.0, contraction_rate=0.01, curvature=np.eye(1))
    with pytest.raises(NoisewiseError, match="needs a rule that fits scales"):
        infer("averaged", trace, FitContext.of(run, bare), 100, rng)
    with pytest.raises(NoisewiseError, match="rule preconditioned has a diagonal curvature only"):
        infer("analytic", trace, FitContext.of(run, matrix), 100, rng)


@pytest.mark.parametrize("rule", ["aligned", "aligned_natural", "natural"])
def test_noise_aware_posteriors_read_dpvims_traces(rule):
    """Beta-Bernoulli at little noise: within five of its own sds of the exact posterior's mean."""
    model, rows = data("beta_bernoulli")
    target = build(model, rows)
    natural = rule.endswith("natural")
    settings = Settings(
        clip_norm=0.01 if natural else 1.0,
        rule=rule,
        steps=4000,
        full_curvature=False,
        initial_free_scale=-3.0,
        learning_rate=2e-3,
    )
    mechanism = Mechanism(
        clip_norm=settings.clip_norm, sampling_rate=0.1, steps=4000, noise_multiplier=4.0
    )
    run = assemble(settings, target, mechanism, ROWS)
    trace = traced(run, target.prepare(rows, run.numbers.constants.frame), insecure_seed=0)
    ones = rows["x"].sum()
    truth = np.log((10 + ones) / (10 + ROWS - ones))
    sd = np.sqrt(1 / (10 + ones) + 1 / (10 + ROWS - ones))
    for method in ("exact", "averaged", "naive"):
        found = infer(method, trace, FitContext.of(run, settings), 4000, np.random.default_rng(0))
        assert found.status is not Status.DIVERGED
        assert abs(found.draws.mean() - truth) < 5 * found.draws.std()
        assert 0.5 * sd < found.draws.std() < 3 * sd


def build(model, rows):
    from noisewise.models import build_target

    return build_target(model, {key: column[:4] for key, column in rows.items()})
