import jax
import numpy as np
import pytest
from scipy import stats

from noisewise._validate import NoisewiseError
from noisewise.dpvi import (
    BlockSums,
    Settings,
    Trace,
    assemble,
    decaying_schedule,
)
from noisewise.dpvi.assemble import heuristic_step
from noisewise.dpvi.trace import merge
from noisewise.engine import run_simulated
from noisewise.mechanism import Mechanism
from noisewise.models import build_target, logistic
from tracing import traced

N, WIDTH = 600, 3


def table(zero=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, WIDTH)).astype(np.float32)
    return {"X": 0 * X if zero else X, "y": rng.integers(0, 2, N).astype(np.float32)}


def ready(rule="means_only", steps=400, rows=None, full=True, keep_steps=False, **more):
    rows = rows or table()
    target = build_target(logistic(), {name: column[:4] for name, column in rows.items()})
    own = {"step_factor": 1.0}
    if rule == "means_only":
        own = {"contraction_rate": 0.02, "curvature": np.eye(WIDTH) * N / 5}
    if rule == "preconditioned":
        own["precondition"] = 20.0
    settings = Settings(
        clip_norm=0.5, sampling_rate=0.1, steps=steps, rule=rule, full_curvature=full, **own, **more
    )
    mechanism = Mechanism(clip_norm=0.5, sampling_rate=0.1, steps=steps, noise_multiplier=2.0)
    run = assemble(settings, target, mechanism, N, keep_steps=keep_steps)
    return run, target.prepare(rows, run.numbers.constants.frame)


@pytest.mark.parametrize(
    ("rule", "full", "steps"),
    [
        ("means_only", False, 437),
        ("means_only", True, 437),
        ("preconditioned", False, 437),
        ("vanilla", False, 437),
        # A matrix of the means, which alone are observed; and blocks of several chunks, joined.
        ("aligned", True, 437),
        ("aligned", True, 10_300),
        ("aligned", False, 10_300),
    ],
)
def test_block_sums_are_the_full_traces_statistics(rule, full, steps):
    run, rows = ready(rule, steps=steps, full=full, keep_steps=True)
    whole = traced(run, rows, insecure_seed=1)
    assert whole.block_count <= 100
    trace = whole.leading(run.algorithm.rule.observed)
    for burn_in in (0, 30):
        stats_ = trace.statistics(burn_in)
        first = int(np.asarray(trace.blocks.count)[:burn_in].sum())
        phi = trace.full.parameters[first:].astype(float)
        g = trace.full.gradients[first:].astype(float)
        off, slope = phi - phi.mean(0), g - g.mean(0)
        assert stats_.steps == len(phi)
        assert np.allclose(stats_.parameters, phi.mean(0), rtol=1e-5, atol=1e-6)
        assert np.allclose(stats_.gradient, g.mean(0), rtol=1e-4, atol=1e-5 * np.abs(g).max())
        spread = off.T @ off if full else (off**2).sum(0)
        cross = slope.T @ off if full else (slope * off).sum(0)
        assert np.allclose(stats_.spread, spread, rtol=1e-4, atol=1e-4 * np.abs(spread).max())
        assert np.allclose(stats_.cross, cross, rtol=1e-3, atol=1e-3 * np.abs(cross).max())
        assert np.allclose(stats_.power, (slope**2).sum(0), rtol=1e-4)
    starts = np.concatenate([[0], np.cumsum(whole.blocks.count)]).astype(int)
    for block in (0, whole.block_count - 1):
        path = whole.full.parameters[starts[block] : starts[block + 1]].astype(float)
        assert np.allclose(whole.blocks.squares[block], ((path - path[0]) ** 2).sum(0), rtol=1e-4)


def test_long_runs_keep_at_most_a_hundred_blocks():
    run, rows = ready(steps=12_300)
    trace = traced(run, rows, insecure_seed=1)
    assert trace.block_count <= 100
    assert np.asarray(trace.blocks.count).sum() == 12_300
    assert trace.full is None


def test_released_noise_has_the_accounted_variance():
    """All-zero rows: gradient minus the prior's is the noise. Chi-square, fixed seed, 1e-6."""
    run, rows = ready(rows=table(zero=True), steps=2000, guide_draws=1, keep_steps=True)
    trace = traced(run, rows, insecure_seed=5)
    # The prior's gradient is linear in the parameters and its draw noise is far below the DP noise.
    factor = np.asarray(run.numbers.constants.frame.factor, float)
    prior = 0.1 * trace.full.parameters.astype(float) @ (factor.T @ factor)
    noise = (trace.full.gradients - prior) / (2.0 * 0.5)
    p = stats.chi2.sf((noise**2).sum(), noise.size)
    assert 1e-6 < p < 1 - 1e-6
    assert np.abs(np.corrcoef(noise.T) - np.eye(WIDTH)).max() < 5 / np.sqrt(len(noise))


def test_seeded_runs_repeat_and_secure_runs_do_not():
    run, rows = ready(steps=100)
    first, again = (traced(run, rows, insecure_seed=3).last for _ in range(2))
    assert np.array_equal(first, again)
    assert not np.array_equal(traced(run, rows).last, traced(run, rows).last)


def test_progress_counts_up_to_the_last_step():
    run, rows = ready(steps=137)
    seen = []
    traced(run, rows, insecure_seed=0, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 137


def test_simulated_runs_vmap_and_match_the_secure_law():
    """Tail means of 40 simulated fits against the optimum: z-scores within five, fixed key."""
    run, rows = ready(steps=1000)
    keys = jax.random.split(jax.random.PRNGKey(0), 40)
    finished = jax.jit(jax.vmap(lambda key: run_simulated(run, rows, key, 10)))(keys)
    simulated = Trace(jax.device_get(finished.records), np.asarray(finished.state.parameters))
    assert simulated.blocks.count.shape == (40, 100)
    found = simulated.statistics(50)
    assert found.parameters.shape == (40, WIDTH)
    assert found.spread.shape == (40, WIDTH, WIDTH)
    secure = np.stack(
        [traced(run, rows, insecure_seed=s).statistics(50).parameters for s in range(20)]
    )
    error = np.sqrt(found.parameters.var(0) / 40 + secure.var(0) / 20)
    assert np.abs((found.parameters.mean(0) - secure.mean(0)) / error).max() < 5


def test_any_optax_like_optimiser_can_move_the_parameters():
    from dataclasses import replace

    import optax

    run, rows = ready("vanilla", steps=100)
    adam = replace(run, algorithm=replace(run.algorithm, optimiser=optax.adam(1e-3)))
    trace = traced(adam, rows, insecure_seed=0)
    # Adam moves a coordinate by at most about its learning rate a step.
    assert 0 < np.abs(trace.last - run.start).max() < 100 * 1e-3 * 1.5


def test_the_papers_step_size():
    assert heuristic_step(307.5, 2.0, 10_000, 2) == pytest.approx(
        np.sqrt(2) / (307.5 * 2.0 * np.sqrt(20_000))
    )


def test_the_schedule_falls_to_one():
    schedule = decaying_schedule(1000, 10.0, 0.2)
    assert schedule[0] == pytest.approx(10.0)
    assert (np.diff(schedule[:200]) < 0).all()
    assert (schedule[200:] == 1).all()


def test_merging_one_block_is_that_block():
    one = BlockSums(
        np.array([2.0]),
        np.array([[1.0]]),
        np.array([[3.0]]),
        np.array([[4.0]]),
        np.array([[5.0]]),
        np.array([[6.0]]),
        np.array([[10.0]]),
        np.array([[5.0]]),
    )
    found = merge(one)
    assert found.parameters.tolist() == [2.5]
    assert found.gradient.tolist() == [2.0]
    assert found.spread.tolist() == [5.0 - 4.5]
    assert found.cross.tolist() == [6.0 - 6.0]
    assert found.power.tolist() == [2.0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"clip_norm": float("nan")}, "clip_norm must be"),
        ({"contraction_rate": None}, "exactly one of contraction_rate"),
        ({"step_factor": 1.0}, "exactly one of contraction_rate"),
        ({"rule": "fast"}, "rule must be one of"),
        ({"curvature": None}, "means_only needs curvature"),
        ({"burn_in": 1.0}, "burn_in must be in"),
        ({"steps": 3}, "steps must be"),
    ],
)
def test_wrong_settings_are_refused(wrong, message):
    good = {"clip_norm": 1.0, "contraction_rate": 0.01, "curvature": np.eye(2)}
    with pytest.raises(NoisewiseError, match=message):
        Settings(**{**good, **wrong})


def test_settings_survive_plain_data():
    settings = Settings(
        clip_norm=1.0, contraction_rate=0.01, curvature=np.eye(2), location=np.zeros(2)
    )
    back = Settings.from_dict(settings.to_dict())
    assert back.to_dict() == settings.to_dict()
    assert isinstance(back.curvature, np.ndarray)


def test_the_number_of_blocks_does_not_tell_the_number_of_rows(monkeypatch):
    """Chunks are shortened where memory asks for it, which must go by the public number: with room
    for 1000 numbers, 100 rows would make 90 blocks of 450 steps, and 300 rows 75."""
    monkeypatch.setattr("noisewise.engine.run._CHUNK_NUMBERS", 1000)
    run, rows = ready(steps=450)
    counts = []
    for number in (100, 300):
        some = {name: column[:number] for name, column in rows.items()}
        counts.append(np.asarray(traced(run, some).blocks.count).tolist())
    assert counts[0] == counts[1]
