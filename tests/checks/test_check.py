"""`nw.check` as a user calls it."""

import json
from dataclasses import replace

import numpy as np
import pytest

import noisewise as nw
from people import N, make_frame, make_schema

BUDGET = nw.Budget(epsilon=1.0, delta=1e-6)


@pytest.fixture(scope="module")
def found(result, table) -> nw.ModelCheck:
    return result.check(table, budget=BUDGET, insecure_seed=3)


def test_a_right_model_is_not_contradicted(found):
    """One fixed seed; under the model a p-value is below 0.001 once in a thousand."""
    assert found.p_value > 0.001
    assert found.degrees == len(found.labels) == 10
    assert "nothing contradicts it" in found.words
    # Counts are those of the table, up to their noise: 10 of them, at 5 sds of their sum.
    assert abs(found.counts.sum() - N) < 5 * found.count_noise * 10**0.5
    assert found.frame().shape == (10, 5)


def test_only_its_own_budget_is_spent_and_certified(found):
    (release,) = found.privacy.releases
    assert release.what == "calibration of visited"
    assert found.privacy.verify().epsilon_recomputed <= 1 + 1e-6
    assert found.privacy.verify().reasons == (
        "not private: insecure_seed=3: whoever knows it can undo the noise",
    )


def test_a_check_without_a_seed_is_private(result, table):
    one, other = (nw.check(result, table, budget=BUDGET, kind="residuals") for _ in range(2))
    assert one.privacy.verify().holds
    assert (one.counts != other.counts).all()


def test_the_ledger_has_the_check(result, table, tmp_path):
    path = tmp_path / "people.db"
    nw.Ledger.create(path, nw.Budget(epsilon=1.2, delta=1e-6))
    nw.check(result, table, budget=BUDGET, kind="groups", by="sex", ledger=path)
    (entry,) = nw.Ledger(path).account().entries
    assert entry.certificate is not None
    assert entry.what == "groups of visited"
    assert nw.Ledger(path).account().spent == pytest.approx(1.0, abs=1e-3)
    with pytest.raises(nw.NoisewiseError, match="allows epsilon"):
        nw.check(result, table, budget=BUDGET, kind="groups", by="sex", ledger=path)
    assert len(nw.Ledger(path).account().entries) == 1


def test_saved_and_read_back(found, tmp_path):
    path = found.save(tmp_path / "check.json")
    back = nw.ModelCheck.load(path)
    assert back.words == found.words
    assert np.array_equal(back.covariance, found.covariance)
    plain = json.loads(path.read_text())
    path.write_text(json.dumps(plain | {"counts": [1.0]}))
    with pytest.raises(nw.NoisewiseError, match="is damaged: its arrays do not fit"):
        nw.ModelCheck.load(path)
    path.write_text("{}")
    with pytest.raises(nw.NoisewiseError, match="no check that this noisewise wrote"):
        nw.ModelCheck.load(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "colour"}, "kind must be one of"),
        ({"kind": "groups"}, "kind='groups' needs by"),
        ({"by": "sex"}, "no other kind takes it"),
        ({"kind": "groups", "by": "height"}, "not in the schema"),
        ({"kind": "groups", "by": ["age", "cost", "visits", "sex"], "bins": 20}, "groups must be"),
        ({"bins": 1}, "bins must be"),
        ({"budget": 1.0}, "budget must be a noisewise.Budget"),
        ({"table": {"age": [1]}}, "table must be a noisewise.Table"),
        ({"result": "out"}, "result must be a noisewise.Result"),
        ({"model": "poisson"}, "pass the one that was fitted"),
    ],
)
def test_bad_input_is_refused_in_one_line_before_anything_is_spent(
    result, table, options, message, tmp_path
):
    path = tmp_path / "people.db"
    nw.Ledger.create(path, BUDGET)
    given = {"result": result, "table": table, "budget": BUDGET, "ledger": path} | options
    with pytest.raises((nw.NoisewiseError, TypeError), match=message) as caught:
        nw.check(given.pop("result"), given.pop("table"), **given)
    assert "\n" not in str(caught.value)
    assert nw.Ledger(path).account().entries == ()


def test_another_schema_is_refused(result):
    other = nw.Table(make_frame(), make_schema(rows=N))
    with pytest.raises(nw.NoisewiseError, match="not the one that was fitted"):
        nw.check(result, other, budget=BUDGET)


def test_a_mixture_has_no_outcome_to_check(result, table):
    request = replace(
        result.request, model="mixture", target=None, encoding=(), arguments=("sex", "visits")
    )
    mixture = replace(result, request=request)
    with pytest.raises(nw.NoisewiseError, match="a check needs a unique optimum"):
        nw.check(mixture, table, budget=BUDGET)
