"""Tables keep to the schema, carry the posterior's spread, and refuse what they cannot do."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import noisewise as nw
from noisewise import NoisewiseError
from noisewise.mechanism import Certificate
from noisewise.posterior import Status
from synthetic.clinic import DRAWS, ROWS, WARDS, clinic, made_result


def test_a_table_keeps_to_the_schema(tables, clinic_schema):
    table = tables[0]
    assert list(table) == ["visits", "ward", "ill", "score[0]", "score[1]"]
    assert len(tables) == 30 and len(table) == tables.rows == ROWS
    assert tuple(table["ward"].cat.categories) == WARDS
    assert set(table["ill"]) == {0, 1}
    assert table["visits"].dtype == table["ill"].dtype == np.int64
    # What the model generates reaches beyond all bounds, so some values must lie on them.
    assert (table["visits"].min(), table["visits"].max()) == (0, 5)
    for name in ("score[0]", "score[1]"):
        assert (table[name].min(), table[name].max()) == (-0.3, 1.3)
    kept = nw.Schema(tuple(c for c in clinic_schema if c.name != "unused"))
    assert tables.schema == kept
    nw.Table(table, kept)  # refuses whatever does not keep to it


def test_one_posterior_draw_a_table(tables, clinic_result):
    """Shares of the wards over tables: the posterior's variance plus that of a table's records.

    The sum of three squared sds over 30 tables has a relative standard error of about 0.2; the
    bounds are five of them. The naive tables have the records' variance only. Fixed seeds.
    """
    spread = _share_variance(tables)
    draws = np.exp(clinic_result.draws["log_shares"])
    draws /= draws.sum(1, keepdims=True)
    records = (draws.mean(0) * (1 - draws.mean(0))).sum() / ROWS
    posterior = draws.var(0).sum()
    assert posterior > 1.2 * records
    assert spread == pytest.approx(posterior + records, rel=1.0)
    naive = nw.synthesize(clinic_result, model=clinic, copies=30, noise_unaware=True, seed=3)
    assert _share_variance(naive) < 0.7 * spread
    assert "ignores the privacy noise" in repr(naive)
    asked = replace(clinic_result, request=replace(clinic_result.request, posterior="naive"))
    assert "ignores the privacy noise" in repr(nw.synthesize(asked, model=clinic, copies=2))


def _share_variance(tables: nw.SyntheticTables) -> float:
    shares = tables.map(lambda table: table["ward"].value_counts(normalize=True).sort_index())
    return float(np.var(shares, axis=0, ddof=1).sum())


def test_means_are_the_models(tables, clinic_result):
    """Five standard errors of the mean over 30 tables and the posterior together."""
    found = np.array(tables.map(lambda t: t.groupby("ward", observed=False)["ill"].mean()))
    risk = clinic_result.draws["risk"]
    error = np.hypot(found.std(0) / np.sqrt(30), risk.std() / np.sqrt(30))
    assert (abs(found.mean(0) - risk.mean()) < 5 * error).all()


def test_tables_are_repeatable_and_different(tables, clinic_result):
    again = nw.synthesize(clinic_result, model=clinic, copies=30, seed=3)
    pd.testing.assert_frame_equal(again[17], tables[17])
    pd.testing.assert_frame_equal(again[-1], list(tables)[29])
    assert [len(table) for table in tables[2:5]] == [ROWS] * 3
    assert not tables[0].equals(tables[1])
    other = nw.synthesize(clinic_result, model=clinic, copies=30, seed=4)
    assert not other[0].equals(tables[0])
    unseeded = [nw.synthesize(clinic_result, model=clinic, copies=2).seed for _ in range(2)]
    assert unseeded[0] != unseeded[1]
    with pytest.raises(IndexError):
        tables[30]


def test_large_tables_are_drawn_in_groups(clinic_result):
    """More tables than a group holds: the same as were drawn one by one from the front."""
    few = nw.synthesize(clinic_result, model=clinic, copies=7, rows=60_000, seed=1)
    assert few._group < len(few)
    backwards = [few[place]["visits"].sum() for place in reversed(range(7))]
    assert [table["visits"].sum() for table in few] == backwards[::-1]
    assert len(set(backwards)) == 7


def test_what_is_compared_with_comes_from_other_draws(tables):
    others = list(tables.further_draws(5, ROWS))
    assert len(others) == 5
    assert all(len(drawn.columns["ward"]) == ROWS for drawn in others)
    assert others[0].moved.keys() == {"visits", "ward", "ill", "score"}
    # More than 5 visits: 0.5 * 0.5^6 + 0.3 * 0.65^6 + 0.2 * 0.75^6 = 0.066, within ten sds.
    assert abs(others[0].moved["visits"] - 0.066) < 0.08 and others[0].moved["visits"] > 0
    assert others[0].moved["ill"] == 0


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_saved_tables_read_back(tables, tmp_path, format):
    seen = []
    folder = tables.save(
        tmp_path / "deep" / "synthetic", format=format, progress=lambda *done: seen.append(done)
    )
    assert seen[-1] == (30, 30)
    names = sorted(path.name for path in folder.iterdir())
    assert names[0] == "README.txt" and names[-2] == f"table-30.{format}" and len(names) == 34
    schema = nw.Schema.from_toml(folder / "schema.toml")
    assert schema == tables.schema
    nw.Table.read(folder / f"table-01.{format}", schema)
    read = pd.read_csv if format == "csv" else pd.read_parquet
    pd.testing.assert_frame_equal(
        read(folder / f"table-01.{format}").astype({"ward": tables[0]["ward"].dtype}), tables[0]
    )
    certificate = Certificate.from_dict(json.loads((folder / "privacy.json").read_text()))
    assert certificate == tables.privacy and certificate.verify().holds
    readme = (folder / "README.txt").read_text()
    assert readme.startswith("30 synthetic tables") and "certificate" in readme
    assert "one draw of the noise-aware posterior" in readme and "covariates:" not in readme
    with pytest.raises(NoisewiseError, match="exists already"):
        tables.save(folder)
    with pytest.raises(NoisewiseError, match="format must be one of"):
        tables.save(tmp_path / "other", format="xlsx")
    assert not (tmp_path / "other").exists()


def test_what_is_not_private_says_so(clinic_result, tmp_path):
    reason = "insecure_seed=1: whoever knows it can undo the noise"
    open_secret = replace(
        clinic_result, privacy=replace(clinic_result.privacy, not_private_because=(reason,))
    )
    with pytest.warns(UserWarning, match="NOT PRIVATE: insecure_seed=1"):
        tables = nw.synthesize(open_secret, model=clinic, copies=2, seed=0)
    assert repr(tables).endswith(f"NOT PRIVATE: {reason}")
    readme = (tables.save(tmp_path / "out") / "README.txt").read_text()
    assert readme.startswith(f"NOT PRIVATE: {reason}\n")


def test_a_doubtful_fit_warns_and_a_failed_one_is_refused(clinic_result):
    with pytest.warns(UserWarning, match="the trace still drifts"):
        nw.synthesize(replace(clinic_result, status=Status.NOT_CONVERGED), model=clinic, copies=2)
    with pytest.raises(NoisewiseError, match="the iterates ran away"):
        nw.synthesize(replace(clinic_result, status=Status.DIVERGED), model=clinic)
    broken = {name: np.full_like(values, np.nan) for name, values in clinic_result.draws.items()}
    with pytest.raises(NoisewiseError, match="not all numbers"):
        nw.synthesize(replace(clinic_result, draws=broken), model=clinic)


@pytest.mark.filterwarnings("ignore:these tables are NOT PRIVATE")
def test_a_regression_takes_its_covariates_from_public_rows(result, frame, schema, tmp_path):
    """The shared logistic fit of 'visited' on age and sex."""
    with pytest.raises(NoisewiseError, match="does not generate 'age', 'sex': pass covariates="):
        nw.synthesize(result)
    public = {name: frame[name][:50] for name in ("age", "sex")}
    with pytest.raises(NoisewiseError, match="does not generate 'sex'"):
        nw.synthesize(result, covariates=nw.PublicSample({"age": public["age"]}, schema))
    with pytest.raises(NoisewiseError, match=r"must be a .*PublicSample, got dict"):
        nw.synthesize(result, covariates=public)
    covariates = nw.PublicSample(public, schema)
    tables = nw.synthesize(result, covariates=covariates, copies=3, rows=400, seed=0)
    table = tables[0]
    assert list(table) == ["age", "sex", "visited"] and tables.covariates == ["age", "sex"]
    readme = (tables.save(tmp_path / "out") / "README.txt").read_text()
    named = f"covariates: a sample of 50 rows, {covariates.fingerprint()}, declared public"
    assert named in readme.splitlines()
    written = json.loads((tmp_path / "out" / "privacy.json").read_text())["sources"]
    assert written["covariates of the synthetic tables"] == f"age, sex: {named[12:]}"
    pairs = set(zip(public["age"], public["sex"], strict=True))
    assert set(zip(table["age"], table["sex"], strict=True)) <= pairs  # whole rows, not columns
    # Ages decide the outcome as in the posterior: -0.4 + 0.8 (age - 54) / 36 + 0.5 [sex = m].
    old, young = (table["visited"][table["age"] > 54], table["visited"][table["age"] <= 54])
    assert old.mean() > young.mean()


def test_ready_made_models_are_found_again(clinic_schema):
    """A mixture by its name alone."""
    names = ["ill", "unused"]
    kept = nw.Schema(tuple(column for column in clinic_schema if column.name in names))
    rng = np.random.default_rng(1)
    draws = {
        "weights": rng.dirichlet([5, 5], 50),
        "unused_shares": rng.dirichlet([5, 5], (50, 2)),
        "ill_shares": rng.dirichlet([5, 5], (50, 2)),
    }
    request = {"model": "mixture(components=2)", "arguments": tuple(names)}
    result = made_result(kept, draws=draws, noise_unaware=draws, request=request)
    table = nw.synthesize(result, copies=2, seed=0)[0]
    assert list(table) == names and len(table) == ROWS


def test_the_model_must_be_the_one_that_was_fitted(clinic_result, clinic_schema):
    with pytest.raises(NoisewiseError, match="'clinic' is a function of yours"):
        nw.synthesize(clinic_result)
    # A result that someone else wrote must not get to run a file here.
    request = replace(clinic_result.request, model="evil.py:clinic")
    elsewhere = replace(clinic_result, request=request)
    with pytest.raises(NoisewiseError, match="is a function of yours"):
        nw.synthesize(elsewhere)
    with pytest.raises(NoisewiseError, match="model is 'another', but the result is of"):
        nw.synthesize(clinic_result, model=named("another"))
    fewer = {name: clinic_result.draws[name] for name in ("risk", "log_odds")}
    with pytest.raises(NoisewiseError, match="the model has latents"):
        nw.synthesize(replace(clinic_result, draws=fewer), model=clinic)
    public = nw.PublicSample({"ward": ["south"]}, clinic_schema)
    with pytest.raises(NoisewiseError, match="generates every column itself"):
        nw.synthesize(clinic_result, model=clinic, covariates=public)


def named(name: str):
    def found(ward, visits=None, ill=None, score=None):
        return clinic(ward, visits, ill, score)

    found.__name__ = name
    return found


def test_arguments_are_checked(clinic_result):
    with pytest.raises(NoisewiseError, match=f"at most the result's {DRAWS} posterior draws"):
        nw.synthesize(clinic_result, model=clinic, copies=DRAWS + 1)
    with pytest.raises(NoisewiseError, match="copies must be an integer of at least 2"):
        nw.synthesize(clinic_result, model=clinic, copies=1)
    with pytest.raises(NoisewiseError, match="reads a saved one"):
        nw.synthesize("out")


def test_doubts_travel_with_the_tables(clinic_result, tmp_path):
    """A fit that did not settle says so in the files that go out, not only on the terminal."""
    request = replace(clinic_result.request, posterior="averaged")
    doubtful = replace(clinic_result, status=Status.NOT_CONVERGED, request=request)
    with pytest.warns(UserWarning, match="drifts"):
        tables = nw.synthesize(doubtful, model=clinic, copies=2, seed=1)
    said = (tables.save(tmp_path / "out") / "README.txt").read_text()
    assert "The fit did not go well: the trace still drifts" in said
    assert "takes nothing off for clipping" in said
