"""Every method through the same checks: shapes, finiteness, status, and refusals in one line."""

import numpy as np
import pytest

from noisewise._validate import NoisewiseError
from noisewise.dpvi import BlockSums, Trace
from noisewise.posterior import (
    LARGEST_MATRIX,
    METHODS,
    FitContext,
    Status,
    check_method,
    default_method,
    infer,
)
from noisewise.posterior.burn_in import find_burn_in
from posterior.traces import matrix_run, paper_run


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_usable_draws(method):
    if method == "analytic":
        settings, run, trace = matrix_run("beta_bernoulli")
    else:
        settings, run, trace = paper_run("beta_bernoulli")
    found = infer(method, trace, FitContext.of(run, settings), 400, np.random.default_rng(0))
    assert found.draws.shape == (400, 1)
    assert np.isfinite(found.draws).all()
    assert found.status is Status.OK
    assert found.burn_in.blocks >= 20


def test_naive_is_the_last_iterate_and_narrower():
    settings, run, trace = paper_run("beta_bernoulli")
    rng = np.random.default_rng(0)
    naive = infer("naive", trace, FitContext.of(run, settings), 4000, rng)
    aware = infer("exact", trace, FitContext.of(run, settings), 4000, rng)
    assert naive.draws.mean() == pytest.approx(trace.last[0], abs=0.01)
    assert naive.draws.std() < aware.draws.std()


def test_a_diverged_trace_says_so():
    settings, run, trace = paper_run("beta_bernoulli")
    blocks = trace.blocks._replace(shift=np.full_like(trace.blocks.shift, np.inf))
    context = FitContext.of(run, settings)
    found = infer("exact", Trace(blocks, trace.last), context, 100, np.random.default_rng(0))
    assert found.status is Status.DIVERGED
    assert np.isnan(found.draws).all()


def saturating_trace(start, steps=10_000):
    """One coordinate whose gradient saturates ten units from its optimum, as clipping makes it."""
    rng = np.random.default_rng(0)
    phi, parameters, gradients = start, [], []
    for _ in range(steps):
        g = 0.1 * np.clip(phi, -10, 10) + 1.0 * rng.standard_normal()
        parameters.append(phi)
        gradients.append(g)
        phi -= 0.05 * g
    return blocks_of(np.array(parameters)[:, None], np.array(gradients)[:, None])


def blocks_of(phi, g, blocks=100):
    """Block sums of a trace written out."""
    phi, g = (part.reshape(blocks, -1, part.shape[-1]) for part in (phi, g))
    shift = phi - phi[:, :1]
    sums = BlockSums(
        np.full(blocks, float(phi.shape[1])),
        phi[:, 0],
        shift.sum(1),
        g.sum(1),
        (shift**2).sum(1),
        (g * shift).sum(1),
        (g**2).sum(1),
        (shift**2).sum(1),
    )
    return Trace(sums, phi[-1, -1])


def test_burn_in_grows_until_the_gradients_are_linear():
    # From 200 units away the walk takes about 3800 steps of 0.05 to come home.
    found = find_burn_in(saturating_trace(200.0), 0.2)
    assert found.settled
    assert 30 <= found.blocks <= 50
    near = find_burn_in(saturating_trace(5.0), 0.2)
    assert near == (20, True)


def test_a_trace_that_never_arrives_is_not_settled():
    assert not find_burn_in(saturating_trace(380.0), 0.2).settled


def test_iterates_that_gradients_do_not_follow_are_not_ok():
    settings, run, trace = paper_run("beta_bernoulli")
    drift = np.linspace(0, 50, len(trace.blocks.start))[:, None]
    moved = Trace(trace.blocks._replace(start=trace.blocks.start + drift), trace.last)
    found = infer("exact", moved, FitContext.of(run, settings), 100, np.random.default_rng(0))
    assert found.status is not Status.OK


@pytest.mark.parametrize(
    ("run", "method", "message"),
    [
        (
            matrix_run,
            "exact",
            "diagonal curvature only: use posterior='analytic', or settings with",
        ),
        (matrix_run, "nuts", "diagonal curvature only: use posterior='analytic', or settings with"),
        (
            paper_run,
            "analytic",
            "needs a curvature matrix: use posterior='exact', or settings with",
        ),
    ],
)
def test_a_method_that_does_not_suit_the_settings_is_refused(run, method, message):
    settings, run, trace = run("beta_bernoulli")
    context = FitContext.of(run, settings)
    with pytest.raises(NoisewiseError, match=message) as caught:
        infer(method, trace, context, 100, np.random.default_rng(0))
    assert "\n" not in str(caught.value)


def test_the_default_suits_the_settings():
    assert default_method(matrix_run("beta_bernoulli")[0]) == "analytic"
    assert default_method(paper_run("beta_bernoulli")[0]) == "exact"


def test_without_settings_the_plan_to_be_decides():
    check_method(None, None)
    check_method("analytic", None, LARGEST_MATRIX)
    check_method("exact", None, LARGEST_MATRIX + 1)
    with pytest.raises(NoisewiseError, match="use posterior='analytic'"):
        check_method("exact", None, LARGEST_MATRIX)
    with pytest.raises(NoisewiseError, match="use posterior='exact'"):
        check_method("analytic", None, LARGEST_MATRIX + 1)


def test_an_unknown_method_is_refused():
    settings, run, trace = paper_run("beta_bernoulli")
    with pytest.raises(NoisewiseError, match="posterior must be one of"):
        infer("guess", trace, FitContext.of(run, settings), 100, np.random.default_rng(0))


@pytest.mark.parametrize("status", list(Status))
def test_every_status_has_words(status):
    assert len(status.words) > 20
