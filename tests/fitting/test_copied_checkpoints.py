"""Of copies of a checkpoint a ledger lets one go on: two would release the same steps twice."""

from __future__ import annotations

import shutil

import pytest

import noisewise as nw
from fitting.test_checkpoints import QUICK, fit
from noisewise._validate import NoisewiseError
from noisewise.engine import Checkpoint


def test_of_two_copies_one_is_gone_on_with(tmp_path):
    """Copied in the middle of its steps, where the ledger does not see how far it came."""
    ledger = nw.Ledger.create(tmp_path / "people.db", nw.Budget(epsilon=1.2, delta=1e-6))
    folder, copy, late = (tmp_path / name for name in ("fit.checkpoint", "copy", "late"))
    fit(folder, after=5, ledger=ledger)
    shutil.copytree(folder, copy)
    fit(folder, after=2, ledger=ledger, resume=True)
    with pytest.raises(NoisewiseError, match=r"older copy.*not finished.*spend twice"):
        fit(copy, resume=True, ledger=ledger)
    shutil.copytree(folder, late)
    assert fit(late, resume=True, ledger=ledger) is not None
    with pytest.raises(NoisewiseError, match=r"older copy.*certified.*spend twice"):
        fit(folder, resume=True, ledger=ledger)


def test_a_fit_whose_copy_was_gone_on_with_meanwhile_returns_no_result(tmp_path):
    ledger = nw.Ledger.create(tmp_path / "people.db", nw.Budget(epsilon=1.2, delta=1e-6))
    folder, copy = tmp_path / "fit.checkpoint", tmp_path / "copy"
    original, others = Checkpoint._add, []

    def add(self, about, arrays=None):
        part = original(self, about, arrays)
        if about["kind"] == "steps" and not others:
            others.append("begun")
            shutil.copytree(folder, copy)
            others.append(nw.fit(**QUICK, checkpoint=copy, ledger=ledger, resume=True))
        return part

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoint, "_add", add)
        with pytest.raises(NoisewiseError, match=r"copy of this fit's checkpoint.*withheld"):
            nw.fit(**QUICK, checkpoint=folder, ledger=ledger)
    (entry,) = ledger.account().entries
    assert entry.certificate == others[1].privacy
