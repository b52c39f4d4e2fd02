"""The audit's page says what was shown, and shouts where it is too much."""

from __future__ import annotations

import dataclasses

import pytest
from test_browser import looked_at, needs_browser
from test_report import HOSTILE, Reader

from noisewise.audit import Attack, Audit
from noisewise.audit.bounds import Bounds
from noisewise.audit.low_bits import LowBits
from noisewise.audit.neighbours import Neighbours
from noisewise.mechanism import Budget


def _attack(name: str, adjacency: str, shown: float, rate: float = 1.0, steps: int = 1) -> Attack:
    return Attack(
        name=name,
        adjacency=adjacency,
        sampling_rate=rate,
        steps=steps,
        noise_multiplier=4.2247,
        trials=300_000,
        bounds=Bounds(gaussian=shown, threshold=shown / 2),
    )


CLEARED = Audit(
    budget=Budget(epsilon=1.0, delta=1e-6),
    attacks=(
        _attack("DP-EM", "add-remove", 0.9),
        _attack("DP-EM", "add-remove", 0.81, 0.5, 8),
        _attack("DP-EM", "replace-one", 0.88),
        _attack("bought sums", "add-remove", 0.91),
    ),
    low_bits=(LowBits("DP-EM", 600_000, 0, 0.0),),
    neighbours=(Neighbours("DP-EM", 2, 0.99991, 0),),
    false_alarm=1e-5,
    about={"device": "cpu", "seconds": 12.5},
)


@pytest.fixture
def page(tmp_path):
    def written(**changes) -> str:
        found = dataclasses.replace(CLEARED, **changes)
        return found.report(tmp_path / "audit.html").read_text("utf-8")

    return written


def test_a_cleared_build_and_how_hard_was_tried(page):
    found = page()
    text = Reader(found).text
    assert "No attack got beyond the claim, and all came near it." in text
    assert "DP-EM add-remove everybody, once 4.225 300,000 0.450 0.900" in text
    assert "DP-EM add-remove rate 0.5, 8 steps 4.225 300,000 0.405 0.810" in text
    assert "shown at most 0.910 and at least 0.880" in text
    assert "DP-EM 600,000 0 0.0000" in text and "DP-EM 2 0.99991 0" in text
    assert "with probability 1e-5" in text
    assert "banner caution" not in found and "<script" not in found
    assert found.count('<svg class="wide"') == 1


def test_a_conviction_is_the_headline(page):
    attacks = (*CLEARED.attacks, _attack("DPVI, vanilla", "add-remove", 1.31, 0.5, 8))
    bits = (LowBits("DP-EM", 600_000, 17, 0.0), LowBits("DPVI, vanilla", 10, 0, 0.5))
    found = page(
        attacks=attacks, low_bits=bits, neighbours=(Neighbours("DP-SEP, linear", 2, 1.0125, 818),)
    )
    text = Reader(found).text
    assert "This build does not keep what it claims." in text
    assert (
        "DPVI, vanilla, add-remove, rate 0.5, 8 steps: epsilon is at least 1.31, above the 1"
        in text
    )
    assert "DP-EM: low bits give the sum away (17 of 600,000 releases off the grid" in text
    assert "DPVI, vanilla: low bits give the sum away" in text and "at least 0.5" in text
    assert "DP-SEP, linear: a record moves a sum by 1.0125" in text and "by 818 grid" in text
    assert "<strong>1.310</strong>" in found and found.count("banner caution") == 1


def test_a_weak_attack_is_called_weak(page):
    text = Reader(page(attacks=(_attack("DP-EM", "add-remove", 0.5),))).text
    assert "No attack got beyond the claim; not all came near it." in text
    assert "DP-EM, add-remove: the attack showed 0.5 of epsilon 1 only." in text


def test_parts_that_were_not_tried_are_left_out(page):
    found = page(low_bits=(), neighbours=(), attacks=(_attack(HOSTILE, "add-remove", 0.9),))
    assert 'id="bits"' not in found and 'id="neighbours"' not in found
    assert HOSTILE not in found and HOSTILE in Reader(found).text


@needs_browser
@pytest.mark.parametrize(("width", "drawing"), [(1280, "wide"), (390, "narrow")])
def test_the_page_fits_its_window(page, tmp_path, width, drawing):
    seen = looked_at(tmp_path, page(), width)
    assert seen["needed"] <= width, "the page scrolls sideways"
    assert seen["figures"] == [drawing]
    assert seen["headings"] == ["Canaries", "Low bits", "Neighbours' sums", "About"]
    assert seen["cut"] == []
