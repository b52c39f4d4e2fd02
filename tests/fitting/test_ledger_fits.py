"""Fits that spend from a ledger: written before they happen, whatever becomes of them."""

from __future__ import annotations

import importlib
import re

import numpy as np
import pytest

import noisewise as nw
from noisewise._validate import NoisewiseError
from noisewise.data import PrivateRows
from noisewise.dpvi import Settings
from noisewise.fitting import dpvi
from people import N, make_frame, make_schema

# Few steps with fixed settings: nothing is planned or bought but the number of rows.
SETTINGS = Settings(
    clip_norm=0.5,
    sampling_rate=0.1,
    steps=100,
    contraction_rate=0.05,
    curvature=500 * np.eye(2),
    prior_precision=np.eye(2),
)
BUDGET = nw.Budget(epsilon=0.1, delta=1e-6)


@pytest.fixture
def ledger(tmp_path) -> nw.Ledger:
    return nw.Ledger.create(tmp_path / "people.db", nw.Budget(epsilon=0.2, delta=1e-6))


def fit(table: nw.Table, ledger: nw.Ledger | str, **options) -> nw.Result:
    wanted = {"features": ["age"], "plan": SETTINGS, "covariate_share": 0.0, "budget": BUDGET}
    return nw.fit("logistic", table, target="visited", ledger=ledger, **(wanted | options))


def test_everything_is_written_before_a_row_is_read(table, ledger, monkeypatch):
    states: list[str] = []
    opened = PrivateRows.unsafe_columns

    def reading(rows):
        entries = ledger.account().entries
        states.append("settled" if entries and entries[0].settled else "too early")
        return opened(rows)

    monkeypatch.setattr(PrivateRows, "unsafe_columns", reading)
    monkeypatch.setattr(
        importlib.import_module("noisewise.engine.certify"),
        "noisy_count",
        lambda *args: states.append(f"count after {len(ledger.account().entries)}") or 3000,
    )
    result = fit(table, ledger)
    # The count is bought once the whole budget is reserved, the steps begin once they are settled.
    assert states[0] == "count after 1" and set(states[1:]) == {"settled"}
    (entry,) = ledger.account().entries
    assert entry.releases == result.privacy.releases
    assert entry.certificate == result.privacy
    assert entry.what == "logistic of visited" and entry.schema == table.schema.fingerprint()
    assert result.privacy.sources["ledger"] == "entry 1 of people.db"


def test_a_fit_that_breaks_off_stays_spent(table, ledger, monkeypatch):
    def broken(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(dpvi, "run_secure", broken)
    with pytest.raises(KeyboardInterrupt):
        fit(table, ledger)
    account = ledger.account()
    (entry,) = account.entries
    assert entry.state == "not finished" and account.spent == pytest.approx(0.1, rel=1e-3)


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (N + 1, {}),  # the table has another number of rows
        (None, {"posterior": "exact"}),  # needs a diagonal curvature
        (None, {"insecure_seed": 1}),
        (None, {"budget": nw.Budget(epsilon=0.3, delta=1e-6)}),
    ],
)
def test_a_fit_that_is_refused_leaves_no_entry(ledger, rows, options):
    table = nw.Table(make_frame(), make_schema(rows))
    with pytest.raises(NoisewiseError):
        fit(table, ledger, **options)
    assert ledger.account().entries == ()


def test_a_missing_ledger_is_said_before_anything_else(table, tmp_path):
    with pytest.raises(NoisewiseError, match="there is no ledger"):
        fit(table, str(tmp_path / "none.db"), posterior="exact")


def test_dp_sep_spends_from_it_and_it_holds_no_count(table, ledger):
    options = {"method": "dp-sep", "steps": 20, "plan": None, "covariate_share": None}
    result = fit(table, str(ledger.path), **options)
    (entry,) = ledger.account().entries
    assert [release.what for release in entry.releases] == ["sites", "number of rows"]
    assert entry.certificate == result.privacy
    # Not the true number of rows, nor the noised one.
    numbers = re.findall(r"(?<![\w.])\d+(?![\w.])", str(ledger.export()["lines"]))
    assert not {str(N), str(result.request.public_count)} & set(numbers)
