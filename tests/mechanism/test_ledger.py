"""The ledger: composed by PLD, never overspent, never silently damaged."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

import noisewise as nw
from noisewise._validate import NoisewiseError
from noisewise.mechanism import Ledger, Release, calibrate, issue
from noisewise.mechanism.accounting import epsilon_spent, gaussian_limit, merged

DELTA = 1e-6
FIT = nw.Budget(epsilon=0.1, delta=DELTA)
"""Small, for privacy losses on short grids."""


@pytest.fixture
def ledger(tmp_path) -> Ledger:
    return Ledger.create(tmp_path / "people.db", nw.Budget(epsilon=0.2, delta=DELTA))


def refusal(call, *args, **options) -> str:
    with pytest.raises(NoisewiseError) as caught:
        call(*args, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_releases_are_composed_and_their_epsilons_not_added(ledger):
    for _ in range(3):
        ledger.reserve(FIT, "a fit")
    spent = ledger.account().spent
    # Three Gaussian releases are exactly one with the root of three times the signal.
    signal = 3**0.5 * gaussian_limit(0.1, DELTA)
    assert gaussian_limit(spent, DELTA) == pytest.approx(signal, rel=1e-4)
    assert 0.179 < spent < 0.18


def test_merging_changes_no_cost():
    steps = Release(what="steps", noise_multiplier=20.0, sampling_rate=0.1, times=200)
    more = dataclasses.replace(steps, times=100)
    count = Release(what="count", noise_multiplier=200.0)
    shape = Release(what="shape", noise_multiplier=100.0, times=2)
    releases = (steps, count, more, shape)
    assert len(merged(releases)) == 2
    apart, together = (
        epsilon_spent(some, DELTA, "add-remove") for some in (releases, merged(releases))
    )
    assert together == pytest.approx(apart, rel=1e-4)


def test_what_would_pass_the_total_is_refused_with_what_is_left(ledger):
    for _ in range(3):
        ledger.reserve(FIT, "a fit")
    before = ledger.account()
    said = refusal(ledger.reserve, FIT, "a fourth")
    assert "allows epsilon 0.2 in all" in said and "0.18 is spent" in said
    assert f"at most epsilon {before.left:g} is left" in said
    assert ledger.account() == before
    # What it says is left is left, and a hair more is not.
    too_much = dataclasses.replace(FIT, epsilon=1.01 * before.left)
    refusal(ledger.reserve, too_much, "too much")
    ledger.reserve(dataclasses.replace(FIT, epsilon=before.left), "the rest")
    assert 0.199 < ledger.account().spent <= 0.2


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_one_fit_may_spend_all_of_it(tmp_path, adjacency):
    total = nw.Budget(epsilon=0.1, delta=DELTA, adjacency=adjacency)
    ledger = Ledger.create(tmp_path / "people.db", total)
    assert ledger.account().left == 0.1
    entry = ledger.reserve(total, "a fit")
    noise = calibrate(total, 0.1, 1000)
    steps = Release(what="steps", noise_multiplier=noise, sampling_rate=0.1, times=1000)
    entry.settle((steps,))
    account = ledger.account()
    assert account.entries[0].releases == (steps,) and account.entries[0].settled
    assert account.spent == pytest.approx(0.1, abs=1e-4)
    assert account.left == 0 and "nothing is left" in refusal(ledger.reserve, total, "another")


@pytest.mark.parametrize(("rate", "steps"), [(1.0, 50), (0.1, 100), (0.1, 4000), (0.004, 4000)])
def test_what_is_reserved_bounds_what_a_fit_releases(tmp_path, rate, steps):
    """However it is sampled, beside other fits it costs no more than one Gaussian of its budget."""
    ledger = Ledger.create(tmp_path / "people.db", nw.Budget(epsilon=0.9, delta=DELTA))
    ledger.reserve(FIT, "another fit")
    entry = ledger.reserve(FIT, "a fit")
    reserved = ledger.account().spent
    noise = calibrate(FIT, rate, steps)
    entry.settle((Release(what="s", noise_multiplier=noise, sampling_rate=rate, times=steps),))
    assert ledger.account().spent <= reserved * (1 + 1e-4)


def test_a_settlement_beyond_the_total_is_refused_and_the_reservation_stays(ledger):
    entry = ledger.reserve(FIT, "a fit")
    before = ledger.account()
    little_noise = Release(what="steps", noise_multiplier=10.0)
    assert "more than was reserved" in refusal(entry.settle, (little_noise,))
    assert ledger.account() == before


def test_forecasts_are_what_fits_then_cost(ledger):
    ledger.reserve(FIT, "a fit")
    account = ledger.account()
    half = nw.Budget(epsilon=0.05, delta=DELTA)
    fits = account.fits_left(0.05)
    expected = account.after_fits(0.05, fits)
    assert expected <= 0.2 < account.after_fits(0.05, fits + 1)
    ledger.reserve(half, "some fits", fits=fits)
    assert ledger.account().spent == pytest.approx(expected, rel=1e-3)
    refusal(ledger.reserve, half, "one more")


def test_the_way_there_ends_where_it_is(ledger):
    for epsilon in (0.03, 0.05, 0.1):
        ledger.reserve(nw.Budget(epsilon=epsilon, delta=DELTA), "a fit")
    account = ledger.account()
    path = [spent for _, spent in account.over_time()]
    assert len(path) == 3 and path == sorted(path)
    assert path[0] == pytest.approx(0.03, rel=1e-3)
    assert path[-1] == pytest.approx(account.spent, rel=1e-3)
    assert [spent for _, spent in account.over_time(most=2)] == pytest.approx([path[1], path[2]])


def test_only_spenders_may_spend(tmp_path):
    path = tmp_path / "people.db"
    Ledger.create(path, FIT, spenders=("ann", "bob"))
    assert "'eve' may not spend" in refusal(Ledger(path, spender="eve").reserve, FIT, "a fit")
    Ledger(path, "the first paper", "ann").reserve(FIT, "a fit", schema="abc")
    (entry,) = Ledger(path).account().entries
    assert (entry.spender, entry.purpose, entry.schema) == ("ann", "the first paper", "abc")


@pytest.mark.parametrize(
    ("changes", "options", "words"),
    [
        ({"adjacency": "replace-one"}, {}, "kept under add-remove adjacency"),
        ({"delta": 1e-5}, {}, "is above the 1e-06 of the whole ledger"),
        ({}, {"seeded": True}, "known seed can be undone"),
    ],
)
def test_what_cannot_be_accounted_for_is_refused(ledger, changes, options, words):
    said = refusal(ledger.reserve, dataclasses.replace(FIT, **changes), "a fit", **options)
    assert words in said
    assert ledger.account().entries == ()


def test_a_rehearsal_takes_seeded_fits(tmp_path):
    ledger = Ledger.create(tmp_path / "public.db", FIT, rehearsal=True)
    ledger.reserve(FIT, "a fit", seeded=True)
    assert ledger.account().rehearsal


def test_a_ledger_is_never_overwritten(ledger):
    before = ledger.path.read_bytes()
    assert "never overwritten" in refusal(Ledger.create, ledger.path, FIT)
    assert ledger.path.read_bytes() == before
    assert [path.name for path in ledger.path.parent.iterdir()] == ["people.db"]


def test_what_is_no_ledger_is_said_in_one_line(tmp_path):
    assert "there is no ledger" in refusal(Ledger(tmp_path / "none.db").account)
    (tmp_path / "text.db").write_text("hello " * 1000)
    assert "damaged or no ledger" in refusal(Ledger(tmp_path / "text.db").account)
    sqlite3.connect(tmp_path / "other.db").executescript("CREATE TABLE a (b);").close()
    assert "is no ledger" in refusal(Ledger(tmp_path / "other.db").account)
    assert "cannot make the ledger" in refusal(Ledger.create, tmp_path / "no" / "people.db", FIT)
    assert "ledger must be" in refusal(Ledger.of, 3)


def test_lines_are_only_ever_added(ledger):
    ledger.reserve(FIT, "a fit")
    connection = sqlite3.connect(ledger.path)
    for change in ("DELETE FROM lines WHERE number = 2", "UPDATE lines SET body = '{}'"):
        with pytest.raises(sqlite3.IntegrityError, match="only added to"):
            connection.execute(change)
    connection.close()


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM lines WHERE number = 3",
        "DELETE FROM lines WHERE number = 2",
        """UPDATE lines SET body = replace(body, '"epsilon": 0.1', '"epsilon": 0.01')""",
        "UPDATE lines SET time = '2020-01-01T00:00:00+00:00' WHERE number = 2",
        "UPDATE lines SET number = 7 WHERE number = 3",
    ],
)
def test_changed_and_missing_lines_are_noticed(ledger, change):
    for _ in range(2):
        ledger.reserve(FIT, "a fit")
    connection = sqlite3.connect(ledger.path)
    connection.executescript(f"DROP TRIGGER no_update; DROP TRIGGER no_delete; {change};")
    connection.close()
    assert "damaged" in refusal(ledger.account)
    assert "damaged" in refusal(ledger.reserve, FIT, "another fit")


def test_no_flipped_bit_changes_what_was_spent(ledger):
    """300 flips, fixed seed: the account is as before, or one line says that it is damaged."""
    release = Release(what="gradients", noise_multiplier=200.0, sampling_rate=0.1, times=1000)
    for _ in range(3):
        entry = ledger.reserve(FIT, "a fit")
        entry.settle((release,))
        entry.certify(issue(FIT, (release,), {}))
    whole, before = ledger.path.read_bytes(), ledger.account()
    rng = np.random.default_rng(0)
    noticed = 0
    used = np.flatnonzero(np.frombuffer(whole, np.uint8))  # of the rest, most is empty pages
    for place, bit in zip(rng.choice(used, 300), rng.integers(0, 8, 300), strict=True):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(bit)
        ledger.path.write_bytes(flipped)
        with contextlib.suppress(NoisewiseError):
            assert ledger.account() == before
            continue
        refusal(ledger.account)
        noticed += 1
    assert noticed > 200  # the others are in SQLite's own statements, such as names of triggers


def test_the_export_has_every_line(ledger):
    release = Release(what="gradients", noise_multiplier=200.0, sampling_rate=0.1, times=1000)
    entry = ledger.reserve(FIT, "a fit")
    entry.settle((release,))
    entry.certify(issue(FIT, (release,), {}))
    plain = json.loads(json.dumps(ledger.export()))
    assert [line["kind"] for line in plain["lines"]] == [
        "opened",
        "reserved",
        "settled",
        "certified",
    ]
    settled = plain["lines"][2]["body"]
    assert "PoissonSampledDpEvent" in settled["event"] and "GaussianDpEvent" in settled["event"]
    assert plain["lines"][3]["body"]["certificate"]["budget"]["epsilon"] == 0.1
    assert re.fullmatch(r"[0-9a-f]{64}", plain["digest"])


_RACE = """
import os, sys
from noisewise.mechanism import Budget, Ledger
from noisewise.mechanism.accounting import calibrate

budget = Budget(epsilon=0.1, delta=1e-6)
calibrate(budget, 1.0, 1)  # everything loaded and known: they set off together
ledger, (gate, go) = Ledger(sys.argv[1]), os.pipe()
racers = []
for racer in range(8):
    pid = os.fork()
    if not pid:
        os.close(go)
        os.read(gate, 1)  # until the gate is closed
        try:
            ledger.reserve(budget, f"racer {racer}")
        except ValueError as error:
            os._exit(3 if "at most epsilon" in str(error) else 4)
        os._exit(0)
    racers.append(pid)
os.close(go)
print(*(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in racers))
"""


def test_eight_racing_processes_never_overspend(ledger):
    """Each wants 0.1, and three of them are 0.18 of 0.2: five are refused, whoever comes first."""
    done = subprocess.run(
        [sys.executable, "-c", _RACE, str(ledger.path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert sorted(done.stdout.split()) == ["0"] * 3 + ["3"] * 5
    account = ledger.account()
    assert [entry.number for entry in account.entries] == [1, 2, 3]
    assert account.spent < 0.2
