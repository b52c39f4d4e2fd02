import jax
import jax.numpy as jnp
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
    heuristic_step,
    merge,
    run_secure,
    run_simulated,
)
from noisewise.mechanism import DeviceSource, Mechanism
from noisewise.models import build_target, logistic

N, WIDTH = 600, 3


def table(zero=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, WIDTH)).astype(np.float32)
    return {"X": 0 * X if zero else X, "y": rng.integers(0, 2, N).astype(np.float32)}


def assembly(rule="means_only", steps=400, rows=None, full=True, **more):
    rows = rows or table()
    target = build_target(logistic(), {name: column[:4] for name, column in rows.items()})
    own = {"rate": 0.02, "curvature": np.eye(WIDTH) * N / 5} if rule == "means_only" else {}
    own = own or {"step_factor": 1.0}
    if rule == "preconditioned":
        own["precondition"] = 20.0
    settings = Settings(
        clip_norm=0.5, sampling_rate=0.1, steps=steps, rule=rule, full_curvature=full, **own, **more
    )
    mechanism = Mechanism(clip_norm=0.5, sampling_rate=0.1, steps=steps, noise_multiplier=2.0)
    ready = assemble(settings, target, mechanism, N, N)
    return ready, target.prepare(rows, ready.frame)


def run(ready, rows, **more):
    return run_secure(ready.program, ready.setting, rows, N, ready.initial, ready.schedule, **more)


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
    ready, rows = assembly(rule, steps=steps, full=full)
    whole = run(ready, rows, insecure_seed=1, keep_steps=True)
    assert whole.block_count <= 100
    trace = whole.leading(ready.program.rule.observed)
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
    ready, rows = assembly(steps=12_300)
    trace = run(ready, rows, insecure_seed=1)
    assert trace.block_count <= 100
    assert np.asarray(trace.blocks.count).sum() == 12_300
    assert trace.full is None


def test_released_noise_has_the_accounted_variance():
    """All-zero rows: gradient minus the prior's is the noise. Chi-square, fixed seed, 1e-6."""
    ready, rows = assembly(rows=table(zero=True), steps=2000, guide_draws=1)
    trace = run(ready, rows, insecure_seed=5, keep_steps=True)
    # The prior's gradient is linear in the parameters and its draw noise is far below the DP noise.
    factor = np.asarray(ready.frame.factor, float)
    prior = 0.1 * trace.full.parameters.astype(float) @ (factor.T @ factor)
    noise = (trace.full.gradients - prior) / (2.0 * 0.5)
    p = stats.chi2.sf((noise**2).sum(), noise.size)
    assert 1e-6 < p < 1 - 1e-6
    assert np.abs(np.corrcoef(noise.T) - np.eye(WIDTH)).max() < 5 / np.sqrt(len(noise))


def test_seeded_runs_repeat_and_secure_runs_do_not():
    ready, rows = assembly(steps=100)
    assert np.array_equal(
        run(ready, rows, insecure_seed=3).last, run(ready, rows, insecure_seed=3).last
    )
    assert not np.array_equal(run(ready, rows).last, run(ready, rows).last)


def test_progress_counts_up_to_the_last_step():
    ready, rows = assembly(steps=137)
    seen = []
    run(ready, rows, insecure_seed=0, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 137


def test_simulated_runs_vmap_and_match_the_secure_law():
    """Tail means of 40 simulated fits against the optimum: z-scores within five, fixed key."""
    ready, rows = assembly(steps=1000)
    source = DeviceSource(N, 0.1, ready.program.passes)
    schedule = jnp.asarray(ready.schedule.reshape(100, 10))

    def one(key):
        return run_simulated(
            ready.program, ready.setting, source, rows, jnp.zeros(WIDTH), schedule, key
        )

    blocks, last = jax.jit(jax.vmap(one))(jax.random.split(jax.random.PRNGKey(0), 40))
    simulated = Trace(BlockSums(*(np.asarray(b) for b in blocks)), np.asarray(last))
    found = simulated.statistics(50)
    assert found.parameters.shape == (40, WIDTH)
    assert found.spread.shape == (40, WIDTH, WIDTH)
    secure = np.stack(
        [run(ready, rows, insecure_seed=s).statistics(50).parameters for s in range(20)]
    )
    error = np.sqrt(found.parameters.var(0) / 40 + secure.var(0) / 20)
    assert np.abs((found.parameters.mean(0) - secure.mean(0)) / error).max() < 5


def test_any_optax_like_optimiser_can_move_the_parameters():
    from dataclasses import replace

    import optax

    ready, rows = assembly("vanilla", steps=100)
    adam = replace(ready.program, optimiser=optax.adam(1e-3))
    trace = run_secure(adam, ready.setting, rows, N, ready.initial, ready.schedule, insecure_seed=0)
    # Adam moves a coordinate by at most about its learning rate a step.
    assert 0 < np.abs(trace.last - ready.initial).max() < 100 * 1e-3 * 1.5


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
        ({"rate": None}, "exactly one of rate"),
        ({"step_factor": 1.0}, "exactly one of rate"),
        ({"rule": "fast"}, "rule must be one of"),
        ({"curvature": None}, "means_only needs curvature"),
        ({"burn_in": 1.0}, "burn_in must be in"),
        ({"steps": 3}, "steps must be"),
    ],
)
def test_wrong_settings_are_refused(wrong, message):
    good = {"clip_norm": 1.0, "rate": 0.01, "curvature": np.eye(2)}
    with pytest.raises(NoisewiseError, match=message):
        Settings(**{**good, **wrong})


def test_settings_survive_plain_data():
    settings = Settings(clip_norm=1.0, rate=0.01, curvature=np.eye(2), location=np.zeros(2))
    back = Settings.from_dict(settings.to_dict())
    assert back.to_dict() == settings.to_dict()
    assert isinstance(back.curvature, np.ndarray)


def test_the_number_of_blocks_does_not_tell_the_number_of_rows(monkeypatch):
    """Chunks are shortened where memory asks for it, which must go by the public number: with room
    for 1000 coins, 100 rows would make 90 blocks of 450 steps, and 300 rows 75."""
    monkeypatch.setattr("noisewise.dpvi.run._CHUNK_COINS", 1000)
    ready, rows = assembly(steps=450)
    counts = []
    for number in (100, 300):
        some = {name: column[:number] for name, column in rows.items()}
        traced = run_secure(
            ready.program, ready.setting, some, number, ready.initial, ready.schedule
        )
        counts.append(np.asarray(traced.blocks.count).tolist())
    assert counts[0] == counts[1]
