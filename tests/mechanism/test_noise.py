import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noisewise._validate import NoisewiseError
from noisewise.engine.run import _stream
from noisewise.mechanism import (
    Draws,
    Passes,
    Release,
    SecureSource,
    make_grid,
    noisy_sum,
    usual_passes,
)
from noisewise.mechanism.budget import Budget
from noisewise.mechanism.counting import count_release, noisy_count


def test_two_secure_sources_differ_and_two_seeded_ones_agree():
    def noise(seed):
        return SecureSource(100, 0.3, np.full(4, 1000.0), Passes(10, 5), seed).chunk(0, 20).noise

    assert not np.array_equal(noise(None), noise(None))
    assert np.array_equal(noise(5), noise(5))
    assert not np.array_equal(noise(5), noise(6))


def test_chunks_have_keys_of_their_own():
    source = SecureSource(100, 0.3, np.full(4, 1000.0), Passes(10, 5), 5)
    one, two = source.chunk(0, 20), source.chunk(1, 20)
    assert not np.array_equal(one.noise, two.noise)
    assert not np.array_equal(one.size, two.size)
    assert np.array_equal(source.chunk(0, 20).noise, one.noise)


def test_sampling_and_noise_do_not_share_a_stream():
    # Same seed, other noise width: batches must not move.
    one = SecureSource(100, 0.3, np.full(4, 1000.0), Passes(10, 5), 1).chunk(0, 20)
    two = SecureSource(100, 0.3, np.full(9, 1000.0), Passes(10, 5), 1).chunk(0, 20)
    assert np.array_equal(one.size, two.size)
    assert np.array_equal(one.indices, two.indices)


def test_a_batch_is_never_truncated_however_small_the_pass():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 3)).astype(np.float32)
    grid = make_grid(1.0, 3, 500, 1.0)
    chunk = SecureSource(500, 0.4, np.full(3, 100.0), Passes(500, 1), 3).chunk(0, 5)
    for t in range(5):
        drawn = [
            np.asarray(
                noisy_sum(
                    lambda batch: batch,
                    jnp.asarray(rows),
                    Draws(chunk.indices, chunk.offset[t], chunk.size[t], chunk.noise[t]),
                    grid,
                    *Passes(pass_size, 1).enough_for(int(chunk.size[t])),
                )
            )
            for pass_size in (7, 64, 500)
        ]
        assert np.array_equal(drawn[0], drawn[1])
        assert np.array_equal(drawn[0], drawn[2])


def test_every_drawn_index_is_distinct_and_in_range():
    chunk = SecureSource(1000, 0.2, np.ones(1), Passes(300, 1), 0).chunk(0, 50)
    for offset, size in zip(chunk.offset, chunk.size, strict=True):
        batch = chunk.indices[offset : offset + size]
        assert len(set(batch.tolist())) == size
        assert batch.min() >= 0
        assert batch.max() < 1000


def test_each_record_is_included_at_the_sampling_rate():
    """Chi-square over 200 records, 4000 steps, fixed seed: false alarm below 1e-6."""
    from scipy import stats

    chunk = SecureSource(200, 0.05, np.ones(1), Passes(50, 1), 11).chunk(0, 4000)
    counts = np.bincount(chunk.indices[: chunk.size.sum()], minlength=200)
    statistic = ((counts - 200) ** 2 / (4000 * 0.05 * 0.95)).sum()
    assert 1e-6 < stats.chi2.sf(statistic, 200) < 1 - 1e-6


def test_an_empty_batch_is_pure_noise():
    grid = make_grid(2.0, 2, 10, 1.0)
    noise = jnp.array([37, -1200], jnp.int32)
    draws = Draws(jnp.zeros(10, jnp.int32), jnp.int32(0), jnp.int32(0), noise)
    out = noisy_sum(lambda batch: batch + jnp.nan, jnp.ones((10, 2)), draws, grid, 10, 1)
    assert np.allclose(out, np.array([37, -1200]) * 2.0 / grid.points)


def test_full_batches_when_the_rate_is_one():
    chunk = SecureSource(30, 1.0, np.ones(1), Passes(30, 1), None).chunk(0, 3)
    assert chunk.size.tolist() == [30, 30, 30]


def test_a_vanishing_sampling_rate_is_refused():
    with pytest.raises(NoisewiseError, match=r"sampling_rate must be at least 2\*\*-40"):
        SecureSource(30, 1e-13, np.ones(1), Passes(30, 1))


def test_usual_passes_hold_all_but_one_batch_in_a_billion():
    # 500 + 6 sqrt(450) + 6 is 634: two passes of 317 and more, a multiple of 32.
    assert usual_passes(5000, 0.1, 10**9) == (320, 2)
    assert usual_passes(5000, 0.1, 64) == (64, 10)
    assert usual_passes(5000, 0.1, 70) == (64, 10)
    assert usual_passes(10, 1.0, 10**9) == (32, 2)
    assert usual_passes(3000, 1.0, 10**9, count_noise=50.0).room >= 3300
    assert Passes(64, 10).enough_for(700) == (64, 11)
    assert Passes(64, 10).enough_for(5) == (64, 10)


def test_a_freak_batch_gets_its_passes_in_a_run():
    """A rate far above the plan's passes: batches of 60 through passes for 20 lose no record."""
    source = SecureSource(100, 0.6, np.ones(1), Passes(20, 1), 0)
    (chunk,) = _stream(source, [4], 0)
    needed = Passes(20, 1).enough_for(int(chunk.size.max()))
    assert needed.number >= 3
    assert len(chunk.indices) >= chunk.offset[-1] + needed.size * needed.number
    grid = make_grid(1.0, 1, 100, 1.0)
    for t in range(4):
        draws = Draws(chunk.indices, chunk.offset[t], chunk.size[t], np.zeros(1, np.int32))
        total = noisy_sum(lambda batch: batch, 0.5 * jnp.ones((100, 1)), draws, grid, *needed)
        assert float(total[0]) == pytest.approx(0.5 * chunk.size[t])


def test_noisy_row_count_has_its_stated_noise():
    """Chi-square of 300 counts, fixed seeds: false alarm below 1e-6."""
    from scipy import stats

    release = Release(what="rows", noise_multiplier=40.0)
    off = np.array([noisy_count(10_000, release, seed) - 10_000 for seed in range(300)])
    assert 1e-6 < stats.chi2.sf((off**2).sum() / 40.0**2, 300) < 1 - 1e-6
    assert count_release(Budget(epsilon=1.0, delta=1e-6)).noise_multiplier > 10


def test_the_row_count_never_falls_below_two():
    release = Release(what="rows", noise_multiplier=1000.0)
    assert min(noisy_count(2, release, seed) for seed in range(20)) == 2


def test_noise_wraps_instead_of_saturating():
    chunk = SecureSource(10, 0.5, np.full(2, 1e9), Passes(5, 2), 0).chunk(0, 50)
    assert chunk.noise.dtype == np.int32
    assert np.abs(chunk.noise.astype(np.int64)).max() < 2**31
    assert jax.dtypes.canonicalize_dtype(chunk.noise.dtype) == np.int32
