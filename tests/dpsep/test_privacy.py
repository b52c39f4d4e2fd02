"""What one record can do, and what is accounted for."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsep.regressions import WIDTH, N, site, table
from noisewise._validate import NoisewiseError
from noisewise.data import PrivateRows
from noisewise.dpsep import (
    Bounds,
    Diagonal,
    MixtureSite,
    NetworkSite,
    Phase,
    ProbitSite,
    SepSettings,
    assemble,
    assemble_phases,
    fit_secure,
    literal_certificate,
)
from noisewise.dpsep.settings import Rates
from noisewise.engine import certify, run_phases_secure
from noisewise.mechanism import Budget, Draws, Mechanism, noisy_sum

ROWS = 5
SITES = {
    "probit": (ProbitSite(2), ("X", "y"), 2),
    "mixture": (MixtureSite(2, 2, 0.5), ("X",), 2),
    "network": (NetworkSite(2, 3), ("X", "y"), 2),
}
VALUES = st.one_of(
    st.floats(-3, 3, width=32),
    st.sampled_from([0.0, 1e4, -1e4, 1e18, -1e18, 3e38, float("inf"), float("nan")]),
)


def plan_of(bound):
    return SepSettings(
        bounds=Bounds(0.7, 1.3, 0.4),
        natural_bounds=Bounds(bound, 2.0, 0.4),
        natural_steps=1,
        sampling_rate=0.5,
        steps=2,
    )


@jax.jit
def one_step(run, rate, rows, count):
    """A noiseless release over the first ``count`` records, and the state after it."""
    algorithm, numbers = run.algorithm, run.numbers
    state = algorithm.init(numbers, run.start)
    point = algorithm.point(numbers, state, rate, None)
    still = jnp.zeros(algorithm.released, jnp.int32)
    draws = Draws(jnp.arange(2 * ROWS) % ROWS, jnp.int32(0), count, still)
    contributions = partial(algorithm.contributions, numbers, point)
    total = noisy_sum(contributions, rows, draws, numbers.grid, ROWS, 1)
    return total, algorithm.update(numbers, state, None, point, rate, total).state


def mechanism_of(name):
    return replace(Phase(SITES[name][0], plan_of(1.0)).mechanism, noise_multiplier=1.0)


def released(name, rows, count, mean, centred, bound):
    a_site, columns, _ = SITES[name]
    run = assemble(Phase(a_site, plan_of(bound)), mechanism_of(name), ROWS, jnp.asarray(mean))
    rate = Rates(*(jnp.asarray(column[int(centred)]) for column in run.schedule))
    total, after = one_step(run, rate, {key: rows[key] for key in columns}, count)
    return np.asarray(total, float), mechanism_of(name), after


@pytest.mark.parametrize("name", SITES)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data())
def test_one_record_moves_a_release_by_at_most_what_is_accounted(name, data):
    """With and without its last record, whatever it is: in both forms, all blocks together."""
    a_site, _, width = SITES[name]
    rng = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    rows = {
        "X": rng.standard_normal((ROWS, width)).astype(np.float32),
        "y": rng.integers(0, 2, ROWS).astype(np.float32),
    }
    rows["X"][-1] = [data.draw(VALUES) for _ in range(width)]
    rows["y"][-1] = data.draw(VALUES)
    mean = rng.standard_normal(a_site.family.dim).astype(np.float32)
    centred, bound = data.draw(st.booleans()), data.draw(st.sampled_from([0.01, 1.0, 50.0]))
    both, mechanism, after = released(name, rows, ROWS, mean, centred, bound)
    fewer, _, _ = released(name, rows, ROWS - 1, mean, centred, bound)
    assert np.linalg.norm(both - fewer) <= mechanism.clip_norm * (1 + 1e-6)
    assert all(np.isfinite(part).all() for part in (both, after.mean, after.precision))


def test_a_block_does_not_drown_another():
    """A record with an enormous gradient still says its part of the precision."""
    rows = {"X": np.ones((ROWS, 2), np.float32), "y": np.zeros(ROWS, np.float32)}
    calm = released("probit", rows, ROWS, np.zeros(2), True, 1.0)[0]
    loud = released("probit", rows, ROWS, np.full(2, 40.0, np.float32), True, 1.0)[0]
    assert np.linalg.norm(loud[:2]) == pytest.approx(ROWS, rel=1e-3)  # clipped to its weight, 1
    assert np.linalg.norm(loud[2:]) > 0.5 * np.linalg.norm(calm[2:])


def phase(steps=40):
    plan = SepSettings(bounds=Bounds(5.0, 10.0), steps=steps, sampling_rate=0.1)
    return Phase(site(), plan)


def test_secure_fits_are_accounted_and_only_seeded_ones_repeat():
    budget = Budget(epsilon=1.0, delta=1e-5)
    phases = (phase(40), phase(20))
    mechanisms = tuple(replace(one.mechanism, noise_multiplier=4.0) for one in phases)
    runs, rows = assemble_phases(phases, mechanisms, N, np.zeros(WIDTH)), PrivateRows(table())
    seen = []
    fits = [
        fit_secure(runs, rows, insecure_seed=seed, progress=seen.append)
        for seed in (3, 3, None, None)
    ]
    first, again, secure, other = (fit.mean for fit in fits)
    assert np.array_equal(first, again)
    assert not np.array_equal(secure, other)
    once = len(seen) // 4
    assert seen[:once] == sorted(seen[:once]) and seen[-1] == 60
    every = [run_phases_secure(runs, rows, insecure_seed=3) for _ in range(2)]
    for one, two in zip(*every, strict=True):
        assert len(one.records) == 20 and np.array_equal(one.records, two.records)
    releases = tuple(one.release("sites") for one in mechanisms)
    paper = certify(budget, releases, settings="by hand", count="declared")
    assert paper.private and paper.verify().holds
    assert paper.epsilon_spent <= 1.0 and sum(line.times for line in paper.releases) == 60
    seeded = certify(budget, releases, settings="by hand", count="declared", insecure_seed=3)
    assert not seeded.private


def test_a_mechanism_that_accounts_something_else_is_refused():
    wrong = Mechanism(clip_norm=1.0, sampling_rate=0.1, steps=40, noise_multiplier=2.0)
    with pytest.raises(NoisewiseError, match="clip_norm is 1, the settings say"):
        assemble(phase(), wrong, N, np.zeros(WIDTH))
    open_ended = SepSettings(bounds=Bounds(float("inf"), 1.0), steps=40, sampling_rate=0.1)
    boundless = Phase(site(), open_ended)
    right = replace(boundless.mechanism, noise_multiplier=2.0)
    with pytest.raises(NoisewiseError, match="needs finite bounds"):
        assemble(boundless, right, N, np.zeros(WIDTH))


def test_the_papers_algorithm_spends_more_than_it_says():
    """At the noise that the paper's accounting asks for at epsilon 1 (1.37: N = 1000, T = 100)."""
    budget = Budget(epsilon=1.0, delta=1e-5)
    paper = literal_certificate(Diagonal(5), budget, 1.37, epochs=100)
    assert not paper.private
    assert "not the 1 of the budget" in paper.not_private_because[0]
    assert all(reason.startswith("not private") for reason in paper.verify().reasons)
    # sqrt(2 T)/sigma = 10.3: epsilon is about mu^2/2 + 4.27 mu, less a little.
    assert 90 < paper.epsilon_spent < 98
    four = literal_certificate(MixtureSite(4, 4, 0.5).family, budget, 1.37, epochs=100)
    assert four.epsilon_spent > 2 * paper.epsilon_spent
