import dataclasses
import json

import pytest

from noisewise._validate import NoisewiseError
from noisewise.mechanism import Budget, Certificate, Release, calibrate, issue, verify_run
from noisewise.mechanism.certificate import KNOWN_SEED, NOISED_COUNT
from noisewise.mechanism.counting import count_release

BUDGET = Budget(epsilon=1.0, delta=1e-5)


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    noise = calibrate(BUDGET, 0.1, 1000)
    release = Release(what="gradients", noise_multiplier=noise, sampling_rate=0.1, times=1000)
    return issue(BUDGET, (release,), {"bounds": "declared in the schema"})


def test_an_honest_certificate_verifies(certificate):
    check = certificate.verify()
    assert check.holds
    assert check.epsilon_recomputed == pytest.approx(1.0, rel=1e-4)
    assert check.epsilon_by_renyi > check.epsilon_recomputed
    assert certificate.private


def refused(certificate: Certificate, reason: str, **changes) -> bool:
    """Whether the changed certificate fails for this one reason, and says so."""
    found = dataclasses.replace(certificate, **changes).verify()
    return not found.holds and len(found.reasons) == 1 and reason in str(found)


def test_a_seeded_fit_does_not_verify(certificate):
    assert refused(certificate, "insecure_seed=3", not_private_because=("insecure_seed=3",))
    # Nor does one whose seed was struck out of the reasons alone.
    assert refused(certificate, "known seed", sources={"randomness": KNOWN_SEED})


def test_an_empty_list_of_releases_does_not_verify(certificate):
    assert refused(certificate, "no release", releases=())
    assert refused(certificate, "no release", releases=(), epsilon_spent=0.0)


def test_more_than_the_budget_does_not_verify(certificate):
    """The claim is honest, the budget is not kept."""
    half = dataclasses.replace(BUDGET, epsilon=0.5)
    assert refused(certificate, "above the budget's 0.5", budget=half)
    assert refused(certificate, "above the budget's 1", epsilon_spent=2.0)


def test_a_claim_that_is_no_number_does_not_verify(certificate):
    assert not dataclasses.replace(certificate, epsilon_spent=float("nan")).verify().holds


def test_a_noised_row_count_must_be_paid_for(certificate):
    sources = {"number of rows": NOISED_COUNT}
    assert refused(certificate, "no release pays for it", sources=sources)
    count = count_release(BUDGET)
    noise = calibrate(BUDGET, 0.1, 1000, (count,))
    steps = dataclasses.replace(certificate.releases[0], noise_multiplier=noise)
    assert issue(BUDGET, (steps, count), sources).verify().holds


def test_a_certificate_must_account_for_the_run_that_it_came_with(certificate):
    run = {"steps": 1000, "sampling_rate": 0.1, "declared_rows": 5000}
    assert verify_run(certificate, **run).holds
    for change, reason in (
        ({"steps": 2000}, "no release accounts for 2000 steps at sampling rate 0.1"),
        ({"sampling_rate": 0.2}, "no release accounts for 1000 steps at sampling rate 0.2"),
        ({"declared_rows": None}, "the number of rows was neither declared nor paid for"),
    ):
        found = verify_run(certificate, **{**run, **change})
        assert not found.holds
        assert found.reasons == (reason,)
    paid = dataclasses.replace(certificate, releases=(*certificate.releases, count_release(BUDGET)))
    assert "is public, and a release pays for it" in verify_run(paid, **run).reasons[-1]


def test_under_replace_one_the_row_count_is_free():
    budget = dataclasses.replace(BUDGET, adjacency="replace-one")
    release = Release(what="gradients", noise_multiplier=calibrate(budget, 1.0, 1))
    found = verify_run(issue(budget, (release,), {}), steps=1, sampling_rate=1, declared_rows=None)
    assert found.holds


def test_less_noise_than_claimed_does_not_verify(certificate):
    release = certificate.releases[0]
    weaker = dataclasses.replace(release, noise_multiplier=release.noise_multiplier * 0.9)
    assert not dataclasses.replace(certificate, releases=(weaker,)).verify().holds


def test_a_forgotten_release_does_not_verify(certificate):
    more = (*certificate.releases, Release(what="a second look", noise_multiplier=5.0))
    assert not dataclasses.replace(certificate, releases=more).verify().holds


def test_it_survives_json_and_carries_the_event(certificate):
    back = Certificate.from_dict(json.loads(json.dumps(certificate.to_dict())))
    assert back.verify().holds
    assert back.event() == certificate.event()
    assert "SelfComposed" in repr(back.event())


def test_the_text_says_what_was_spent(certificate):
    text = str(certificate)
    assert "1e-05" in text
    assert "add-remove" in text
    assert "NOT PRIVATE" not in text
    seeded = dataclasses.replace(certificate, not_private_because=("a known seed",))
    assert str(seeded).startswith("NOT PRIVATE: a known seed")
    assert not seeded.private


@pytest.mark.parametrize("damage", ["budget", "releases", "epsilon_spent"])
def test_a_damaged_certificate_is_refused(certificate, damage):
    plain = certificate.to_dict()
    del plain[damage]
    with pytest.raises(NoisewiseError, match="not a privacy certificate"):
        Certificate.from_dict(plain)
