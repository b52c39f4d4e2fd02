"""A fit that is stopped anywhere goes on as if it had not been: nothing is bought or made twice.

Noise from a seed follows the number of the chunk, so a seeded fit that was stopped must end with
the very bits of one that was not. That holds for what is bought, too: bought again, with a seed, it
would be the same, so releases are counted where they are made.
"""

from __future__ import annotations

import importlib
import json
import re
import shutil

import numpy as np
import pytest

import noisewise as nw
from noisewise._validate import NoisewiseError
from noisewise.dpvi import Settings
from noisewise.engine import Checkpoint
from noisewise.mechanism import SecureSource, counting, sums
from people import make_frame, make_schema
from private_copies import copies, private_cells

BUDGET = nw.Budget(epsilon=1.0, delta=1e-6)
STEPS = 12
TABLE = nw.Table(make_frame(), make_schema())
ASKED = {"budget": BUDGET, "steps": STEPS, "draws": 100, "features": ["age", "sex"]}
FITS = {
    "bought": {"model": "logistic", "target": "visited", **ASKED},
    "dp-sep": {"model": "logistic", "target": "visited", "method": "dp-sep", **ASKED},
    "network": {"model": "network(3)", "target": "cost", "method": "dp-sep", **ASKED},
    "mixture": {"model": "mixture", "target": "visits", **ASKED, "features": ["sex"]},
}
SLOW = ("bought", "network", "mixture")
PLAIN = Settings(
    clip_norm=0.5,
    sampling_rate=0.1,
    steps=STEPS,
    contraction_rate=0.05,
    curvature=500 * np.eye(2),
    prior_precision=np.eye(2),
)
QUICK = {
    "model": "logistic",
    "table": TABLE,
    "target": "visited",
    "budget": BUDGET,
    "plan": PLAIN,
    "features": ["age"],
    "covariate_share": 0.0,
    "draws": 100,
}


class Killed(BaseException):
    """As abrupt as a kill: nothing of ours catches it."""


@pytest.fixture
def released(monkeypatch):
    """How often everything was released: bought sums, the count, and chunks of steps."""
    found: list[str] = []
    total, count, chunk = sums._noisy_total, counting.noisy_count, SecureSource.chunk
    monkeypatch.setattr(sums, "_noisy_total", lambda *a: found.append(a[3]) or total(*a))
    certify = importlib.import_module("noisewise.engine.certify")
    monkeypatch.setattr(certify, "noisy_count", lambda *a: found.append("count") or count(*a))
    monkeypatch.setattr(
        SecureSource, "chunk", lambda self, *a: found.append(f"chunk {a[0]}") or chunk(self, *a)
    )
    return found


def killed(monkeypatch, after: int, *, written: bool) -> None:
    """The process ends at the part of this number: right after it lies there, or right before."""
    original, seen = Checkpoint._add, []

    def add(self, about, arrays=None):
        seen.append(about["kind"])
        if len(seen) == after + 1 and not written:
            raise Killed
        found = original(self, about, arrays)
        if len(seen) == after + 1:
            raise Killed
        return found

    monkeypatch.setattr(Checkpoint, "_add", add)


def fit(folder, *, after=None, written=True, **options):
    """The fit, killed at a part or not."""
    with pytest.MonkeyPatch.context() as patch:
        if after is None:
            return nw.fit(**(QUICK | options), checkpoint=folder)
        killed(patch, after, written=written)
        with pytest.raises(Killed):
            nw.fit(**(QUICK | options), checkpoint=folder)
        return None


def same(one: nw.Result, other: nw.Result) -> bool:
    groups = ("draws", "noise_unaware", "trace")
    return one.privacy.releases == other.privacy.releases and all(
        np.array_equal(values, getattr(other, group)[name], equal_nan=True)
        for group in groups
        for name, values in getattr(one, group).items()
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["network", "mixture"])
def test_a_seeded_fit_that_is_killed_on_its_way_ends_with_the_same_bits(name, tmp_path):
    asked = {**QUICK, "plan": None, "covariate_share": None, **FITS[name], "insecure_seed": 3}
    whole, folder = nw.fit(**asked), tmp_path / "fit.checkpoint"
    fit(folder, after=5, written=False, **asked)
    assert same(fit(folder, resume=True, **asked), whole)


@pytest.mark.parametrize(
    "name", ["given", "dp-sep", *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW)]
)
def test_a_seeded_fit_that_is_killed_at_every_part_ends_with_the_same_bits(name, tmp_path):
    asked = {**FITS.get(name, QUICK), "table": TABLE, "insecure_seed": 3}
    whole = nw.fit(**asked)
    folder, stops, written = tmp_path / "fit.checkpoint", 0, True
    for _ in range(100):
        with pytest.MonkeyPatch.context() as patch:
            # A fit that goes on first says so in a part: it is killed at the one after that.
            killed(patch, min(stops, 2 if not written else 1), written=written)
            try:
                found = nw.fit(**asked, checkpoint=folder, resume=stops > 0)
            except Killed:
                stops, written = stops + 1, not written
                continue
        break
    assert stops > whole.request.settings.steps
    assert same(found, whole)
    assert re.match(rf"{stops} times, the last one after \d+ of", found.privacy.sources["resumed"])
    assert "resumed" not in whole.privacy.sources


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("after", [1, 2, 7, STEPS + 1])
def test_what_was_written_down_is_not_released_again(tmp_path, released, after, written):
    folder = tmp_path / "fit.checkpoint"
    fit(folder, after=after, written=written)
    there = sorted(path.name for path in folder.glob("part-*"))
    before = {name: (folder / name).read_bytes() for name in there}
    released.clear()
    result = fit(folder, resume=True)
    steps_there = max(0, len(there) - 2)
    again = [what for what in released if what.startswith("chunk")]
    assert again == [f"chunk {number}" for number in range(steps_there, STEPS)]
    assert ("count" in released) == (len(there) < 2)
    assert {name: (folder / name).read_bytes() for name in there} == before
    assert result.trace["ends"][-1] == STEPS and result.verify().holds


def test_a_bought_description_is_bought_once(tmp_path, released):
    folder = tmp_path / "fit.checkpoint"
    options = {**FITS["bought"], "plan": None, "covariate_share": None}
    fit(folder, after=3, **options)
    bought = [what for what in released if not what.startswith("chunk")]
    assert len(bought) == 3 and "count" in bought
    released.clear()
    fit(folder, resume=True, **options)
    others = [what for what in released if not what.startswith("chunk")]
    assert others == ["sizes of gradients at the fit"]  # bought after the steps


def test_a_finished_fit_is_read_again_and_releases_nothing(tmp_path, released):
    folder = tmp_path / "fit.checkpoint"
    first = fit(folder)
    released.clear()
    again = fit(folder, resume=True)
    assert released == []
    assert np.array_equal(first.trace["means"], again.trace["means"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"budget": nw.Budget(epsilon=2.0, delta=1e-6)}, "budget"),
        ({"model": "probit"}, "model"),
        ({"features": ["visits"]}, "features"),
        ({"plan": Settings.from_dict({**PLAIN.to_dict(), "clip_norm": 0.4})}, "plan"),
        ({"table": nw.Table(make_frame(), make_schema(3000))}, "schema"),
        ({"insecure_seed": 1}, "insecure_seed"),
        ({"target": "visits", "model": "poisson"}, "model, target"),
        ({"draws": 200}, "draws"),
    ],
)
def test_another_fit_is_refused_in_one_line(tmp_path, released, change, said):
    folder = tmp_path / "fit.checkpoint"
    fit(folder, after=4)
    released.clear()
    with pytest.raises(NoisewiseError, match=f"another fit, whose .*{said}") as error:
        fit(folder, resume=True, **change)
    assert "\n" not in str(error.value) and released == []
    fit(folder, resume=True)  # and it is still there for its own


def test_own_models_are_told_apart(tmp_path):
    from numpyro import distributions as dist
    from numpyro import plate, sample

    def made(scale):
        def model(X, y=None):
            w = sample("w", dist.Normal(0, scale).expand([X.shape[1]]).to_event(1))
            with plate("people", X.shape[0]):
                sample("y", dist.Bernoulli(logits=X @ w), obs=y)

        return model

    folder = tmp_path / "fit.checkpoint"
    fit(folder, after=4, model=made(1.0))
    with pytest.raises(NoisewiseError, match="another fit, whose model"):
        fit(folder, resume=True, model=made(2.0))
    assert fit(folder, resume=True, model=made(1.0)).verify().holds


def test_there_must_be_one_to_go_on_with_and_none_to_begin(tmp_path, released):
    folder = tmp_path / "fit.checkpoint"
    with pytest.raises(NoisewiseError, match="there is no checkpoint"):
        fit(folder, resume=True)
    fit(folder, after=4)
    with pytest.raises(NoisewiseError, match="resume=True to go on with it, or delete the folder"):
        fit(folder)
    (tmp_path / "other").mkdir()
    with pytest.raises(NoisewiseError, match="is no checkpoint"):
        fit(tmp_path / "other", resume=True)
    with pytest.raises(NoisewiseError, match="needs the checkpoint"):
        nw.fit(**QUICK, resume=True)


def test_parts_follow_the_number_of_steps(tmp_path):
    """Not the time that they took, which tells how many rows there are."""
    settings = Settings.from_dict({**PLAIN.to_dict(), "steps": 110})
    fit(tmp_path / "long", plan=settings)
    parts = [np.load(path)["about"].tobytes() for path in sorted((tmp_path / "long").iterdir())]
    # 55 chunks of two steps: every third is written, and the last.
    assert [json.loads(part).get("steps") for part in parts[2:]] == [6] * 18 + [2]


def test_a_refused_fit_leaves_none(tmp_path):
    ledger = nw.Ledger.create(tmp_path / "people.db", nw.Budget(epsilon=0.5, delta=1e-6))
    folder = tmp_path / "fit.checkpoint"
    for options in ({"posterior": "exact"}, {"ledger": ledger}):
        with pytest.raises(NoisewiseError):
            fit(folder, **options)
        assert not folder.exists()
    assert ledger.account().entries == ()


def test_two_processes_do_not_go_on_with_one(tmp_path, released):
    """The lock is of the open folder, so that two of one process exclude each other as well."""
    folder = tmp_path / "fit.checkpoint"
    fit(folder, after=4)
    request = json.loads(np.load(folder / "part-000000.npz")["about"].tobytes())["request"]
    held = Checkpoint(folder, request, resume=True)
    released.clear()
    with pytest.raises(NoisewiseError, match="another process"):
        fit(folder, resume=True)
    assert released == []
    held.release()
    fit(folder, resume=True)


def test_a_part_is_never_written_in_anothers_place(tmp_path):
    """Where there are no locks, who comes second with a part stops before it returns anything."""
    folder = tmp_path / "fit.checkpoint"
    fit(folder, after=4)
    request = json.loads(np.load(folder / "part-000000.npz")["about"].tobytes())["request"]
    first, second = (Checkpoint(folder, request, resume=False) for folder in ("a", "b"))
    for one in (first, second):
        one.folder = folder
        one._read()
    first.begin()
    with pytest.raises(NoisewiseError, match="another process"):
        second.begin()


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "gap", "swap"])
def test_a_damaged_part_is_not_gone_on_from(tmp_path, released, damage):
    folder = tmp_path / "fit.checkpoint"
    fit(folder, after=6)
    parts = sorted(folder.glob("part-*"))
    middle = parts[3]
    raw = middle.read_bytes()
    if damage == "gap":
        middle.unlink()
    elif damage == "swap":
        shutil.copy(parts[4], middle)
    else:
        # A bit of an array, not of what zip writes about it.
        place = raw.index(b"\x93NUMPY", len(raw) // 2) + 130
        flipped = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        middle.write_bytes({"flip": flipped, "cut": raw[:-9], "empty": b""}[damage])
    released.clear()
    with pytest.raises(NoisewiseError, match=r"is damaged at part-00000\d") as error:
        fit(folder, resume=True)
    assert "\n" not in str(error.value) and released == []


def test_bits_that_are_flipped_change_nothing_or_are_noticed(tmp_path):
    """Archives have bytes that nothing depends on; 300 flips with a fixed seed."""
    folder = tmp_path / "fit.checkpoint"
    fit(folder, after=6)
    paths, rng = sorted(folder.glob("part-*")), np.random.default_rng(0)
    request = json.loads(np.load(paths[0])["about"].tobytes())["request"]

    def content() -> str:
        found = Checkpoint(folder, request, resume=True)
        found.release()
        return found._digest

    whole, noticed = content(), 0
    for _ in range(300):
        path = paths[rng.integers(len(paths))]
        raw = path.read_bytes()
        place = rng.integers(len(raw))
        path.write_bytes(
            raw[:place] + bytes([raw[place] ^ 1 << rng.integers(8)]) + raw[place + 1 :]
        )
        try:
            assert content() == whole
        except NoisewiseError:
            noticed += 1
        path.write_bytes(raw)
    assert noticed > 150


def test_a_fit_goes_on_under_its_own_reservation(tmp_path):
    ledger = nw.Ledger.create(tmp_path / "people.db", nw.Budget(epsilon=1.2, delta=1e-6))
    folder = tmp_path / "fit.checkpoint"
    # A second reservation would pass the total.
    for number, (after, written) in enumerate([(0, True), (1, True), (2, False), (5, True)]):
        resume = number > 0
        fit(folder, after=after, written=written, ledger=ledger, resume=resume)
        assert len(ledger.account().entries) == (0 if number == 0 else 1)
    result = fit(folder, ledger=ledger, resume=True)
    (entry,) = ledger.account().entries
    assert entry.certificate == result.privacy and entry.releases == result.privacy.releases
    assert result.privacy.sources["resumed"].startswith("4 times, the last one after ")
    assert sum(line["kind"] == "settled" for line in ledger.export()["lines"]) == 1


def test_an_older_copy_is_refused_by_the_ledger(tmp_path, released):
    ledger = nw.Ledger.create(tmp_path / "people.db", nw.Budget(epsilon=1.2, delta=1e-6))
    folder, early, late = (tmp_path / name for name in ("fit.checkpoint", "early", "late"))
    fit(folder, after=0, ledger=ledger)
    shutil.copytree(folder, early)
    fit(folder, after=5, ledger=ledger, resume=True)
    shutil.copytree(folder, late)
    with pytest.raises(NoisewiseError, match=r"older copy.*not finished.*spend twice"):
        fit(early, resume=True, ledger=ledger)
    fit(folder, ledger=ledger, resume=True)
    released.clear()
    with pytest.raises(NoisewiseError, match=r"older copy.*certified.*spend twice"):
        fit(late, resume=True, ledger=ledger)
    assert released == []
    fit(folder, ledger=ledger, resume=True)  # which is finished, and reads what is there


def test_it_holds_no_row_and_no_true_count(tmp_path):
    folder = tmp_path / "fit.checkpoint"
    fit(folder, **{**FITS["bought"], "plan": None, "covariate_share": None})
    frame = make_frame()
    cells = private_cells([frame["age"], frame["cost"]])
    assert copies(cells, {path.name: path.read_bytes() for path in folder.iterdir()}) == []
    for path in folder.glob("part-*"):
        arrays = dict(np.load(path))
        text = arrays.pop("about").tobytes().decode()
        assert not re.search(rf"(?<![\w.]){len(TABLE)}(?![\w.])", text)
        for name, values in arrays.items():
            assert name == "digest" or not np.any(values == len(TABLE)), name
    seen = {name.split("/")[0] for path in folder.glob("part-*") for name in np.load(path).files}
    assert seen == {"about", "digest", "bought", "run", "record", "state"}
