"""A study of a real table is entered into a rehearsal's ledger before the table is read."""

from __future__ import annotations

import pytest

import noisewise as nw
from noisewise._validate import NoisewiseError
from noisewise.studies import run_study

TOTAL = nw.Budget(epsilon=3.0, delta=1e-6)


def study(name: str, folder, ledger: nw.Ledger) -> str:
    """What it is refused for; there is no table in the folder."""
    with pytest.raises((NoisewiseError, OSError)) as caught:
        run_study(
            name,
            fits=2,
            epsilons=(0.1,),
            methods=("exact", "naive", "dpvim"),
            data=folder,
            jobs=1,
            ledger=ledger,
        )
    return str(caught.value)


def test_only_a_rehearsal_takes_it(tmp_path):
    ledger = nw.Ledger.create(tmp_path / "people.db", TOTAL)
    assert "known seed can be undone" in study("table3", tmp_path, ledger)
    assert ledger.account().entries == ()


def test_every_fit_is_entered_before_the_table_is_read(tmp_path):
    ledger = nw.Ledger.create(tmp_path / "adult.db", TOTAL, rehearsal=True)
    assert "adult" in study("table3", tmp_path, ledger)  # the files are missed only then
    (entry,) = ledger.account().entries
    assert (entry.what, entry.budget.epsilon) == ("study table3", 0.1)
    # Two fits whose traces are read in two ways, and DPVIm's two.
    assert [release.times for release in entry.releases] == [4]
    assert "simulates its tables" in study("table1", tmp_path, ledger)
