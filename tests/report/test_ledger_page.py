"""The ledger's page says what was spent, by whom, and what is left; nothing of rows."""

from __future__ import annotations

import re

import pytest
from test_report import HOSTILE, Reader

import noisewise as nw
from noisewise.mechanism import Ledger, Release, issue

FIT = nw.Budget(epsilon=0.1, delta=1e-6)


@pytest.fixture
def spent(tmp_path) -> Ledger:
    """Three fits: certified, certified, and one that was not finished."""
    total = nw.Budget(epsilon=0.2, delta=1e-6)
    ledger = Ledger.create(tmp_path / "people.db", total, name=f"clinic {HOSTILE}")
    gradients = Release(what="gradients", noise_multiplier=118.0, sampling_rate=0.1, times=1000)
    for purpose in ("first", HOSTILE, "third"):
        entry = Ledger(ledger.path, purpose, "ann").reserve(FIT, "logistic of visited")
        if purpose != "third":
            entry.settle((gradients,))
            entry.certify(issue(FIT, (gradients,), {"number of rows": "noised"}))
    return ledger


def test_the_page_has_what_was_spent_and_what_is_left(spent, tmp_path):
    page = spent.report(tmp_path / "page.html").read_text("utf-8")
    account = spent.account()
    reader = Reader(page)
    for fact in (f"{account.spent:.3f} of 0.2", f"{account.left:g}"):
        assert fact in reader.text
    assert "1 of the entries has no certificate" in reader.text
    assert "REHEARSAL" not in reader.text.upper()
    assert "gradients: 1000 x Gaussian, noise multiplier 118, rate 0.1" in reader.text
    # One more at 0.1 is beyond the total, and struck through.
    assert re.search(r"<del>0\.2\d\d</del>", page)
    assert page.count("<svg") == 2
    assert HOSTILE not in page  # escaped


def test_an_empty_ledger_and_a_rehearsal_have_pages_too(tmp_path):
    ledger = Ledger.create(tmp_path / "public.db", FIT, rehearsal=True)
    page = ledger.report(tmp_path / "page.html").read_text("utf-8")
    assert "A rehearsal: no guarantee" in page and "Nothing was released yet" in page
    assert "<svg" not in page
