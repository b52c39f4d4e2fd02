"""A folder of synthetic tables read back: frames, certificate and doubts are what they were."""

from __future__ import annotations

import json
from dataclasses import replace

import pandas as pd
import pytest

import noisewise as nw
from noisewise import NoisewiseError
from noisewise.posterior import Status
from synthetic.clinic import clinic


@pytest.fixture(scope="module")
def doubtful(clinic_result):
    request = replace(clinic_result.request, posterior="averaged")
    result = replace(clinic_result, request=request, status=Status.NOT_CONVERGED)
    with pytest.warns(UserWarning, match="the trace still drifts"):
        return nw.synthesize(result, model=clinic, copies=3, rows=200, seed=1)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_what_was_saved_comes_back(doubtful, tmp_path, format):
    folder = doubtful.save(tmp_path / "out", format=format)
    read = nw.SyntheticTables.load(folder)
    assert len(read) == 3 and read.rows == 200 and read.schema == doubtful.schema
    for ours, theirs in zip(read, doubtful, strict=True):
        pd.testing.assert_frame_equal(ours, theirs)
    pd.testing.assert_frame_equal(read[-1], doubtful[2])
    assert read.privacy == doubtful.privacy and read.origin == doubtful.origin
    assert repr(read) == repr(doubtful) and "did not go well" in repr(read)
    assert read.share == doubtful.share and read.covariates == []
    pooled = [nw.combine(t, lambda t: t["ill"].mean(), seed=2).table for t in (read, doubtful)]
    pd.testing.assert_frame_equal(*pooled)
    again = read.save(tmp_path / "again")
    assert len(nw.SyntheticTables.load(again)) == 3


def test_a_page_needs_the_posterior(doubtful, tmp_path):
    read = nw.SyntheticTables.load(doubtful.save(tmp_path / "out"))
    with pytest.raises(NoisewiseError, match=r"noisewise.synthesize\(result\).fidelity") as caught:
        read.fidelity(tmp_path / "page.html")
    assert "\n" not in str(caught.value) and not (tmp_path / "page.html").exists()


def test_damaged_folders_get_one_line(doubtful, tmp_path):
    with pytest.raises(NoisewiseError, match="holds no synthetic tables"):
        nw.SyntheticTables.load(tmp_path)
    folder = doubtful.save(tmp_path / "out")
    (folder / "table-2.csv").unlink()
    with pytest.raises(NoisewiseError, match="holds 2 tables, and 3 were written"):
        nw.SyntheticTables.load(folder)
    about = json.loads((folder / "tables.json").read_text())
    (folder / "tables.json").write_text(json.dumps({**about, "status": "splendid"}))
    with pytest.raises(NoisewiseError, match="is damaged"):
        nw.SyntheticTables.load(folder)
    (folder / "tables.json").write_text("{")
    with pytest.raises(NoisewiseError, match="not valid JSON"):
        nw.SyntheticTables.load(folder)


def test_one_table_is_not_pooled(doubtful):
    with pytest.raises(NoisewiseError, match="got one DataFrame") as caught:
        nw.combine(doubtful[0], lambda t: t["ill"].mean())
    assert "\n" not in str(caught.value)
