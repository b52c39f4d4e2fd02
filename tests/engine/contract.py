"""What every algorithm's releases must be like, whichever driver made them.

A check takes a way to look (`watching.secure` or `watching.simulated`) and a case, and raises
AssertionError when it finds a fault. Every statistical statement rejects correct code with
probability below ``FALSE_ALARM``; all the others are exact.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple
from unittest import mock

import jax
import numpy as np
from randomgen import AESCounter
from scipy import stats

from engine.algorithms import COUNT, RATE, REPRESENTATIVES, STEPS, Case, Design
from engine.watching import PIECE, Seen, alone, filled, secure, silent, watched, with_record
from noisewise.data import PrivateRows, Rows
from noisewise.engine import Finished, Run, run_secure

FALSE_ALARM = 1e-6
CROWD = 400
Look = Callable[[Run, Rows, int | None], Seen]


class Parts(NamedTuple):
    """A run's releases taken apart: noise, who was in which batch, what each contributed."""

    noise: np.ndarray
    included: np.ndarray
    contributions: np.ndarray


def taken_apart(look: Look, run: Run, case: Case, seed: int) -> Parts:
    """By looking at the same randomness with no record speaking, and with one at a time."""
    noise = look(run, silent(case.rows), seed).released
    included = np.zeros((run.steps, COUNT), bool)
    contributions = np.zeros((COUNT, noise.shape[1]), np.int64)
    for place in range(COUNT):
        found = look(run, alone(case.rows, place), seed).released - noise
        included[:, place] = found.any(axis=1)
        assert included[:, place].any(), "a record is never drawn"
        contributions[place] = found[included[:, place]][0]
    return Parts(noise, included, contributions)


def releases_are_sums_of_the_records_own_contributions(
    look: Look, run: Run, case: Case, seed: int
) -> Parts:
    """To the last bit, the noise taken off: whoever else is drawn moves no record's contribution,
    and an empty batch is pure noise."""
    parts = taken_apart(look, run, case, seed)
    found = look(run, case.rows, seed).released - parts.noise
    expected = parts.included @ parts.contributions
    assert np.array_equal(found, expected), "a release is not the sum of its records' contributions"
    return parts


def noise_has_the_right_law(run: Run, parts: Parts) -> None:
    """Variance in every coordinate, Gaussian, independent over coordinates and steps."""
    scale = np.asarray(run.numbers.noise_scale, float)
    noise = parts.noise / scale
    steps, dim = noise.shape
    each = FALSE_ALARM / 2 / dim
    low, high = stats.chi2.isf([1 - each, each], steps)
    squares = (noise**2).sum(0)
    assert ((squares > low) & (squares < high)).all(), "noise variance is off"
    assert stats.kstest(noise.ravel(), "norm").pvalue > FALSE_ALARM, "noise is not Gaussian"
    largest = np.abs(noise).max()
    as_large = (1 - 2 * stats.norm.sf(largest)) ** noise.size
    assert FALSE_ALARM < 2 * as_large < 2 - FALSE_ALARM, "noise has other tails"
    if dim > 1:
        pairs = np.corrcoef(noise.T)[np.triu_indices(dim, 1)]
        t = stats.t.isf(FALSE_ALARM / 2 / len(pairs), steps - 2)
        assert np.abs(pairs).max() < t / np.sqrt(steps - 2 + t**2), "coordinates share noise"
    for lag in (1, PIECE):
        products = (noise[lag:] * noise[:-lag]).ravel()
        off = products.sum() / np.sqrt(len(products))
        assert abs(off) < stats.norm.isf(FALSE_ALARM / 8), "noise repeats"


def low_bits_of_the_noise_are_even(parts: Parts) -> None:
    """The last four bits, which would show in the release as they were in the sum."""
    counts = np.bincount(parts.noise.ravel() % 16, minlength=16)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM, "low bits of the noise are uneven"


def batches_are_poisson(run: Run, parts: Parts) -> None:
    """Every record independently with the sampling rate: binomial counts of who was drawn, of pairs
    drawn together, and of empty batches; and nobody more often where he was drawn before."""
    rate, included = run.sampling_rate, parts.included
    steps, count = included.shape
    _binomial(included.sum(), steps * count, rate, 1, "inclusion rate is off")
    for place in range(count):
        _binomial(included[:, place].sum(), steps, rate, count, "a record's rate is off")
    pairs = np.transpose(np.triu_indices(count, 1))
    for one, other in pairs:
        together = (included[:, one] & included[:, other]).sum()
        _binomial(together, steps, rate**2, len(pairs), "records are drawn together")
    empty = (~included.any(axis=1)).sum()
    _binomial(empty, steps, (1 - rate) ** count, 1, "empty batches have another rate")
    off = (included - rate) / np.sqrt(rate * (1 - rate))
    for lag in (1, PIECE):
        products = (off[lag:] * off[:-lag]).ravel()
        z = products.sum() / np.sqrt(len(products))
        assert abs(z) < stats.norm.isf(FALSE_ALARM / 8), "batches repeat"


def _binomial(found: int, trials: int, rate: float, many: int, fault: str) -> None:
    assert stats.binomtest(int(found), trials, rate).pvalue > FALSE_ALARM / many, fault


def one_record_moves_a_release_by_at_most_the_clip_norm(
    look: Look, case: Case, seed: int, parts: Parts, factor: float = 1.0, label: str = ""
) -> None:
    """Whatever it is. In integers: added or removed by ``points``, replaced by twice that, and the
    others in its batch are as they were, even if they are as bad. With a large ``factor`` the
    algorithm's own bounds do not help: the engine's must do."""
    run = watched(case, factor=factor, label=label)
    points, included = int(run.numbers.grid.points), parts.included
    by_itself = [(included[:, place] & (included.sum(axis=1) == 1)) for place in range(COUNT)]
    own: list[np.ndarray] = []
    tables = [case.rows, *adversaries(case.rows)]
    for rows in tables if factor == 1 else tables[:3]:
        found = look(run, rows, seed).released - parts.noise
        contributions = np.array([found[steps][0] for steps in by_itself])
        assert np.array_equal(found, included @ contributions), "a record moves more than itself"
        own.extend(contributions)
    every = np.array(own, object)
    assert max((every**2).sum(axis=1)) <= points**2, "one record more moves the sum too much"
    between = every[:, None] - every[None]
    assert (between**2).sum(axis=-1).max() <= (2 * points) ** 2, "a replacement moves it too much"
    reached = (every**2).sum(axis=1).max() > (0.99 * points) ** 2
    assert reached or factor == 1, "the bound has not been tried"


def adversaries(rows: Rows) -> Iterator[Rows]:
    """Tables of records that a bound has to hold for: cells huge, tiny, infinite, not a number,
    all alike or mixed; and records that are just long."""
    largest = float(np.finfo(np.float32).max)
    sizes = np.array([1e-30, 30.0, 1e3, 1e18, largest, np.inf, np.nan, -np.inf], np.float32)
    assert len(sizes) == COUNT
    rng = np.random.default_rng(0)
    yield {name: np.full(column.shape[::-1], sizes).T.copy() for name, column in rows.items()}
    for _ in range(2):
        signs = {name: rng.choice([-1, 1], column.shape) for name, column in rows.items()}
        yield {
            name: np.float32(signs[name] * rng.choice(sizes, column.shape))
            for name, column in rows.items()
        }
        yield {
            name: np.float32(signs[name] * 10 ** rng.uniform(0, 4, column.shape))
            for name, column in rows.items()
        }


# -- what the state may depend on --------------------------------------------------------------


def same(one: Seen, other: Seen) -> bool:
    """Same releases and same state, bit for bit."""
    equal = jax.tree.map(lambda a, b: np.array_equal(a, b, equal_nan=True), one, other)
    return bool(jax.tree.all(equal))


def the_state_follows_from_what_was_released(case: Case, seed: int, label: str = "") -> None:
    """Other rows with the same sums end in the same state, to the last bit: records that say
    nothing for different reasons, any number of them, one, none at all."""
    run = watched(case, moves=True, label=label)
    nothing = secure(run, silent(case.rows), seed)
    assert np.all(nothing.released.any(axis=1)), "there is no noise"
    assert same(nothing, secure(run, filled(case.rows, np.inf), seed)), "infinite cells show"
    larger = (40,) if case.name in REPRESENTATIVES else ()  # another shape: compiled anew
    for count in (0, 1, *larger):
        assert same(nothing, secure(run, silent(case.rows, count), seed)), "the true count shows"


def nobody_shows_before_he_is_drawn(case: Case, seed: int, parts: Parts, label: str = "") -> None:
    """Another record in the place of one: the state that a run has reached just before that one is
    drawn for the first time is the same, and so is all that was released till then."""
    firsts = parts.included.argmax(axis=0)
    huge = {name: np.full(column.shape[1:], 1e4) for name, column in case.rows.items()}
    for place in np.argsort(firsts)[-3:]:
        first = int(firsts[place])
        assert first > 0, "drawn at once: take another seed"
        run = watched(case, moves=np.arange(STEPS) < first, label=label)
        one, other = (
            secure(run, rows, seed) for rows in (case.rows, with_record(case.rows, place, huge))
        )
        before = [Seen(seen.released[:first], seen.state) for seen in (one, other)]
        assert same(*before), "a record shows before it is drawn"
        assert not np.array_equal(one.released, other.released), "it does not show when it is drawn"
        start = run.algorithm.init(run.numbers, run.start)
        assert not same(Seen(before[0].released, jax.device_get(start)), before[0]), "nothing moves"


# -- seeds and keys ----------------------------------------------------------------------------


def only_seeded_runs_repeat(case: Case, seed: int, label: str = "") -> None:
    """With a seed to the last bit; without one no step's noise comes again."""
    run = watched(case, moves=True, label=label)
    assert same(*(secure(run, case.rows, seed) for _ in range(2))), "a seeded run does not repeat"
    first, again = (secure(run, silent(case.rows), None).released for _ in range(2))
    assert (first != again).any(axis=1).all(), "noise comes again"
    assert (first != secure(run, silent(case.rows), seed).released).any(axis=1).all()


def keys_come_from_the_operating_system(case: Case, seed: int, label: str = "") -> None:
    """Its bits decide every step; generators with a state do not."""
    run = watched(case, moves=True, label=label)

    def ran(bits: int) -> Seen:
        random.seed(seed)
        np.random.seed(seed)
        with mock.patch("secrets.randbits", lambda size: bits % 2**size):
            return secure(run, silent(case.rows), None)

    first, other = ran(seed), ran(seed + 1)
    assert (first.released != other.released).any(axis=1).all(), "keys are not the system's"
    assert same(first, ran(seed)), "something else than the keys decides"


def no_key_comes_twice(case: Case, seed: int, label: str = "") -> None:
    """Two of 128 bits for every chunk: who is drawn, and the noise."""
    run, keys = watched(case, moves=True, label=label), []

    def remembered(*, key: int) -> AESCounter:
        keys.append(key)
        return AESCounter(key=key)

    with mock.patch("randomgen.AESCounter", remembered):
        secure(run, silent(case.rows), None)
    assert len(set(keys)) == len(keys) == 2 * STEPS // PIECE, "a key comes twice"
    assert max(keys) > 2**100, "keys are short"  # eight of full length are with chance 1e-67


def noise_and_batches_come_from_aes(case: Case, seed: int, label: str = "") -> None:
    """With another generator in AES's place, and the same keys, every draw is another one."""
    run = watched(case, label=label)

    def ran(rows: Rows, salt: int) -> np.ndarray:
        def in_its_place(root: object = None, *, key: int = 0) -> np.random.PCG64:
            return np.random.PCG64(np.random.SeedSequence([salt, key]))

        bits = mock.patch("secrets.randbits", lambda size: seed % 2**size)
        with bits, mock.patch("randomgen.AESCounter", in_its_place):
            return secure(run, rows, None).released

    first, other = (ran(silent(case.rows), salt) for salt in (1, 2))
    assert (first != other).any(axis=1).all(), "the noise does not come from AES"
    drawn = [(ran(case.rows, salt) - noise).any(axis=1) for salt, noise in ((1, first), (2, other))]
    assert not np.array_equal(*drawn), "the batches do not come from AES"


# -- sizes -------------------------------------------------------------------------------------


def shapes_follow_the_public_count(case: Case, label: str = "") -> None:
    """Chunks, passes, places and blocks are the same for every true count, also where memory cuts
    chunks short; nothing is computed."""
    run = watched(case, label=label)
    seen: list = []

    def look(run: Run, rows: Rows, state: object, *more: object) -> Finished:
        seen.append((run.passes, run.steps, jax.tree.map(np.shape, (rows, more[-1]))))
        return Finished(state, np.zeros(1))

    shapes = []
    for count in (1, 8, 12):
        seen.clear()
        with (
            mock.patch("noisewise.engine.run._run_chunk", look),
            mock.patch("noisewise.engine.run._CHUNK_NUMBERS", 200),
        ):
            found = run_secure(run, PrivateRows(filled(case.rows, 1.0, count)), insecure_seed=0)
        assert len(seen) > 4, "chunks are not cut short"
        shapes.append([*seen, len(found.records), found.ends])
    assert all(shape == shapes[0] for shape in shapes), "shapes tell the true count"


def crowds_are_counted_in_full(case: Case, seed: int, parts: Parts, label: str = "") -> None:
    """Fifty times as many records as the public number says: every batch is beyond the usual
    passes, and none is cut. And at one in a thousand, where a few bits too few would show."""
    records = {name: np.repeat(column[:1], CROWD, axis=0) for name, column in case.rows.items()}
    one = parts.contributions[0]
    for rate in (RATE, 0.001):
        run = watched(case, Design(rate=rate), label=label, moveless=True)
        noise = secure(run, silent(case.rows, CROWD), seed).released
        found = secure(run, records, seed).released - noise
        sizes = found @ one // (one @ one)
        assert np.array_equal(found, np.outer(sizes, one)), "a crowd is more than its records"
        _binomial(sizes.sum(), CROWD * STEPS, rate, 2, "a crowd is not counted in full")


def every_check(
    case: Case, seed: int, label: str = "", whole: bool = False
) -> Iterator[Callable[[], object]]:
    """All of them on the secure driver, in an order in which they can be called; crowds are for
    representatives, or where the whole is asked for."""
    run = watched(case, label=label)
    parts = releases_are_sums_of_the_records_own_contributions(secure, run, case, seed)
    yield lambda: noise_has_the_right_law(run, parts)
    yield lambda: low_bits_of_the_noise_are_even(parts)
    yield lambda: batches_are_poisson(run, parts)
    yield lambda: shapes_follow_the_public_count(case, label)
    yield lambda: only_seeded_runs_repeat(case, seed, label)
    yield lambda: keys_come_from_the_operating_system(case, seed, label)
    yield lambda: no_key_comes_twice(case, seed, label)
    yield lambda: noise_and_batches_come_from_aes(case, seed, label)
    for factor in (1.0, 1e4):
        yield lambda factor=factor: one_record_moves_a_release_by_at_most_the_clip_norm(
            secure, case, seed, parts, factor, label
        )
    yield lambda: nobody_shows_before_he_is_drawn(case, seed, parts, label)
    yield lambda: the_state_follows_from_what_was_released(case, seed, label)
    if whole or case.name in REPRESENTATIVES:
        yield lambda: crowds_are_counted_in_full(case, seed, parts, label)


def fault(case: Case, seed: int, label: str = "", whole: bool = False) -> str | None:
    """The first that the checks find."""
    try:
        for check in every_check(case, seed, label, whole):
            check()
    except AssertionError as error:
        return str(error).split("\n")[0]
    return None
