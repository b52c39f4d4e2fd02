import dataclasses
import json

import pytest

from noisewise._validate import NoisewiseError
from noisewise.mechanism import Budget, Certificate, Release, calibrate, issue

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
