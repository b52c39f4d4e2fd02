"""A correct build is cleared with nearly all of epsilon shown; broken ones are convicted.

Randomness is real here, as in every audit, so these tests have a chance to fail. A correct build is
convicted with probability 1e-5 at most (`FALSE_ALARM`). What is shown of epsilon 1 by 300,000
canaries has a mean of 0.88 and an sd of 0.014: less than 0.8 is more than five sds off. What
is shown of a broken build by 60,000 is at least six sds above 1. In all, below 2e-5.
"""

from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from unittest import mock

import jax
import numpy as np
import pytest

import noisewise as nw
from engine.mutants import in_the_engine
from mechanism.engines import (
    clipping_per_part,
    doubled_sampling_rate,
    less_noise,
    no_clipping,
    noise_in_one_part_only,
    noise_over_batch_size,
)
from mechanism.hidden_faults import noise_added_in_floats
from noisewise.audit.attacked import Attacked, Setup, algorithms
from noisewise.audit.bounds import Bounds, lower_bounds
from noisewise.audit.canaries import Game, needed_steps, play
from noisewise.audit.low_bits import in_single_precision, read_low_bits
from noisewise.audit.neighbours import compare_neighbours
from noisewise.audit.purchases import attack_counts, attack_sums
from noisewise.engine import feeding
from noisewise.engine import run as driver
from noisewise.mechanism import Budget, calibrate, counting, release, sums

ALPHA = 1e-7
"""Of one statement here; of fewer than a hundred."""
BUDGET = Budget(epsilon=1.0, delta=1e-6)
EVERYBODY, BY_COINS = (1.0, 1), (0.5, 8)
NOISE = {
    (EVERYBODY, "add-remove"): 4.2247,
    (EVERYBODY, "replace-one"): 8.4494,
    (BY_COINS, "add-remove"): 6.3246,
    (BY_COINS, "replace-one"): 11.9388,
}
"""As calibrated, rounded up: finding them takes a quarter of a minute."""


@cache
def algorithm(name: str) -> Attacked:
    return next(one for one in algorithms() if one.name == name)


def played(rate: float, steps: int, trials: int, adjacency: str = "add-remove"):
    attacked, noise = algorithm("DP-EM"), NOISE[(rate, steps), adjacency]
    game = Game(noise, rate, steps, adjacency == "replace-one")
    total = needed_steps(game, attacked.released, trials)
    run = attacked.assemble(Setup(total, rate, noise, attacked.released))
    return run, game, play(run, game)


def shown(game: Game, seen) -> Bounds:
    return lower_bounds(seen.absent, seen.present, game.scale, BUDGET.delta, ALPHA)


def epsilon_of(rate: float, steps: int, trials: int, adjacency: str = "add-remove") -> float:
    return shown(*played(rate, steps, trials, adjacency)[1:]).epsilon


# -- a correct build ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("game", "adjacency"), NOISE)
def test_the_noise_is_what_calibration_finds(game, adjacency):
    noise = calibrate(replace(BUDGET, adjacency=adjacency), *game)
    assert noise <= NOISE[game, adjacency] < noise + 1e-4


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_correct_build_shows_nearly_all_of_epsilon_and_no_more(adjacency):
    assert 0.8 <= epsilon_of(*EVERYBODY, 300_000, adjacency) <= 1.0
    # By coins the accounting has some room at this delta, and the attack is shorter.
    assert 0.5 <= epsilon_of(*BY_COINS, 60_000, adjacency) <= 1.0


@pytest.mark.parametrize(
    ("adjacency", "trials", "least"),
    [
        ("add-remove", 60_000, 0.6),
        pytest.param("add-remove", 300_000, 0.8, marks=pytest.mark.slow),
        pytest.param("replace-one", 300_000, 0.8, marks=pytest.mark.slow),
    ],
)
def test_bought_sums_show_nearly_all_of_epsilon_and_no_more(adjacency, trials, least):
    found = attack_sums(replace(BUDGET, adjacency=adjacency), trials)
    assert least <= shown(*found).epsilon <= 1.0


def test_bought_counts_show_part_of_epsilon_and_no_more():
    assert 0.2 <= shown(*attack_counts(BUDGET, 10_000)).epsilon <= 1.0


@pytest.mark.slow
def test_the_whole_audit_of_one_mechanism():
    parts = []
    found = nw.audit(
        mechanisms=["DP-EM", "bought sums"],
        trials=20_000,
        progress=lambda done, total: parts.append((done, total)),
    )
    assert parts == [(0, 2), (1, 2), (2, 2)]
    assert not found.convicted and found.verdict.good
    assert set(found.lower_bounds) == {
        (name, adjacency)
        for name in ("DP-EM", "bought sums")
        for adjacency in ("add-remove", "replace-one")
    }
    assert all(0.2 < epsilon < 1 for epsilon in found.lower_bounds.values())
    assert len(found.verdict.lines) == 4  # so few canaries show less than they could
    assert len(found.attacks) == 6
    assert [one.off_grid for one in found.low_bits] == [0, 0]
    (neighbours,) = found.neighbours
    assert 0.5 < neighbours.furthest <= 1 and neighbours.others == 0


def test_an_audit_refuses_what_it_does_not_know():
    with pytest.raises(nw.NoisewiseError, match=r"no mechanism begins with 'DQ'.*DP-EM; bought"):
        nw.audit(mechanisms=["DP", "DQ"])
    with pytest.raises(nw.NoisewiseError, match="trials must be an integer of at least 1000"):
        nw.audit(trials=10)


# -- broken builds -----------------------------------------------------------------------------


def less_noise_in_purchases():
    """Noise of sums and counts divided by sqrt(2)."""

    class Quieter(np.random.Generator):
        def standard_normal(self, *size):
            return super().standard_normal(*size) / np.sqrt(2)

    def generator(what, insecure_seed):
        return Quieter(np.random.PCG64())

    return mock.patch.multiple(sums, _generator=generator), mock.patch.object(
        counting.np.random, "Generator", Quieter
    )


@pytest.mark.parametrize(
    ("mutant", "game", "adjacency"),
    [
        (less_noise, EVERYBODY, "add-remove"),
        (less_noise, EVERYBODY, "replace-one"),
        (less_noise, BY_COINS, "add-remove"),
        (doubled_sampling_rate, BY_COINS, "add-remove"),
        (doubled_sampling_rate, BY_COINS, "replace-one"),
        (noise_over_batch_size, EVERYBODY, "add-remove"),
        (noise_in_one_part_only, EVERYBODY, "add-remove"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_less_noise_and_more_sampling_are_convicted(mutant, game, adjacency):
    with in_the_engine(mutant):
        assert epsilon_of(*game, 60_000, adjacency) > 1


@pytest.mark.slow
def test_less_noise_in_what_is_bought_is_convicted():
    for_sums, for_counts = less_noise_in_purchases()
    with for_sums:
        assert shown(*attack_sums(BUDGET, 60_000)).epsilon > 1
    with for_counts:
        assert shown(*attack_counts(BUDGET, 50_000)).epsilon > 1


@contextmanager
def compiled_anew(mutant):
    """With programs of its own, which hold the mutant."""
    original = driver._run_chunk.__wrapped__
    anew = jax.jit(lambda *given: original(*given))
    with in_the_engine(mutant), mock.patch.object(driver, "_run_chunk", anew):
        yield


@pytest.mark.parametrize("mutant", [no_clipping, clipping_per_part])
def test_a_clip_that_is_none_is_convicted(mutant):
    with compiled_anew(mutant):
        # Parts of a Dirac canary are the whole of it; neighbours' sums see those.
        if mutant is no_clipping:
            assert epsilon_of(*EVERYBODY, 20_000) > 5
        else:
            assert not compare_neighbours(algorithm("DPVI, vanilla"), [31]).holds


def test_noise_in_floats_shows_in_the_low_bits():
    with compiled_anew(noise_added_in_floats):
        run, _, seen = played(*EVERYBODY, 5000)
    unit = in_single_precision(run.numbers.grid)
    found = read_low_bits("floats", seen.silence, seen.speech, unit, ALPHA)
    assert found.off_grid > 0.9 * found.releases and not found.holds


def coarse_noise():
    """Multiples of 256 grid steps: the right law, to all looks, but for the last eight bits."""
    original = driver.SecureSource.chunk

    def chunk(self, number, steps):
        found = original(self, number, steps)
        return found._replace(noise=found.noise // 256 * 256)

    return mock.patch.object(driver.SecureSource, "chunk", chunk)


def test_coarse_noise_shows_in_the_low_bits_alone():
    with in_the_engine(coarse_noise):
        run, game, seen = played(*EVERYBODY, 20_000)
    assert shown(game, seen).epsilon <= 1
    unit = in_single_precision(run.numbers.grid)
    found = read_low_bits("coarse", seen.silence, seen.speech, unit, ALPHA)
    assert found.off_grid == 0 and found.advantage > 0.9


@contextmanager
def rounding_by_the_true_count():
    """Tables are on the device in their own length, and the last bits of contributions follow from
    it, as where a compiler is given another shape."""
    original = release._batch_sum

    def batch_sum(gradients, rows, *rest):
        factor = 1 + 2.0**-22 * (len(jax.tree.leaves(rows)[0]) % 7)
        return original(lambda batch: factor * gradients(batch), rows, *rest)

    with (
        mock.patch.object(feeding, "held_in", lambda column, room: np.asarray(column)),
        mock.patch.object(release, "_batch_sum", batch_sum),
    ):
        yield


def test_others_that_move_with_one_record_are_found():
    with compiled_anew(rounding_by_the_true_count):
        found = compare_neighbours(algorithm("DP-EM"), [819])
    assert found.others > 0 and not found.holds


@pytest.mark.slow
def test_a_convicted_build_says_so():
    with in_the_engine(less_noise):
        found = nw.audit(mechanisms=["DP-EM"], trials=60_000)
    assert found.convicted and not found.verdict.good
    assert any("epsilon is at least 1." in line for line in found.verdict.lines)
