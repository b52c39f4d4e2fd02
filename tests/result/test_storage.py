import json

import numpy as np
import pytest

import noisewise as nw
from noisewise._validate import NoisewiseError


def test_a_result_survives_saving(result, tmp_path):
    folder = result.save(tmp_path / "deep" / "out")
    back = nw.Result.load(folder)
    assert back.privacy == result.privacy
    assert back.status is result.status
    assert back.request.to_dict() == json.loads(json.dumps(result.request.to_dict()))
    for group in ("draws", "noise_unaware", "trace"):
        ours, theirs = getattr(result, group), getattr(back, group)
        assert ours.keys() == theirs.keys()
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert back.summary().equals(result.summary())
    assert sorted(p.name for p in folder.iterdir()) == ["arrays.npz", "result.json"]


def test_an_existing_folder_is_not_touched(result, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep")
    with pytest.raises(NoisewiseError, match="exists already"):
        result.save(tmp_path / "out")
    with pytest.raises(NoisewiseError, match="is not a noisewise result: not overwritten"):
        result.save(tmp_path / "out", overwrite=True)
    assert (tmp_path / "out" / "mine.txt").read_text() == "keep"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out"]


def test_our_own_result_may_be_overwritten_when_asked(result, tmp_path):
    result.save(tmp_path / "out")
    result.save(tmp_path / "out", overwrite=True)
    assert nw.Result.load(tmp_path / "out").status is result.status


def test_a_failed_save_leaves_nothing(result, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", broken)
    with pytest.raises(NoisewiseError, match="disk full"):
        result.save(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def damage_json(folder):
    (folder / "result.json").write_text("{")


def foreign(folder):
    (folder / "result.json").write_text('{"format": "something else"}')


def future(folder):
    plain = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**plain, "version": 99}))


def missing_key(folder):
    plain = json.loads((folder / "result.json").read_text())
    del plain["privacy"]
    (folder / "result.json").write_text(json.dumps(plain))


def changed_arrays(folder):
    raw = bytearray((folder / "arrays.npz").read_bytes())
    raw[len(raw) // 2] ^= 1
    (folder / "arrays.npz").write_bytes(bytes(raw))


def no_arrays(folder):
    (folder / "arrays.npz").unlink()


def no_json(folder):
    (folder / "result.json").unlink()


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (damage_json, "is not valid JSON"),
        (foreign, "was not written by noisewise"),
        (future, "has result version 99"),
        (missing_key, "is damaged"),
        (changed_arrays, "was changed since it was written"),
        (no_arrays, "is missing or was changed"),
        (no_json, "holds no noisewise result"),
    ],
)
def test_corrupt_and_foreign_results_are_refused(result, tmp_path, harm, message):
    folder = result.save(tmp_path / "out")
    harm(folder)
    with pytest.raises(NoisewiseError) as caught:
        nw.Result.load(folder)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
