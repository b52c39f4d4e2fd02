"""Plans: made without a row, refused where nothing works, kept as TOML, taken by fit."""

import warnings

import numpy as np
import pytest

import noisewise as nw
from noisewise import NoisewiseError
from noisewise.models.conjugate import beta_bernoulli, dirichlet_categorical, gamma_exponential
from noisewise.planning import PlanError

BINARY = nw.Schema((nw.Column(name="x", kind="binary"),), rows=2000)
WAITING = nw.Schema((nw.Column(name="x", kind="real", bounds=(0, 20)),), rows=2000)
BUDGET = nw.Budget(epsilon=0.5, delta=1e-5)
FRESH = {"rows": 2000, "budget": BUDGET}
SMALL = {**FRESH, "steps": 1000}


@pytest.fixture(scope="module")
def quick():
    return nw.plan(beta_bernoulli, schema=BINARY, fits=0, **SMALL)


@pytest.mark.parametrize(
    ("model", "schema"),
    [
        (beta_bernoulli, BINARY),
        pytest.param(gamma_exponential, WAITING, marks=pytest.mark.slow),
    ],
)
def test_planned_fits_are_calibrated_and_sharp(model, schema):
    """128 fresh tables: z sd within 0.25 of 1 (four standard errors), mean within 0.35 (four),
    error within 1.35 of the single-release bound (its own error is 6%). A false alarm has a
    probability below 0.1%; the seed is fixed."""
    made = nw.plan(model, schema=schema, fits=16, recalibrate=32, **SMALL)
    found = nw.coverage(
        model, schema=schema, plan=made, simulations=128, draws=200, seed=5, **FRESH
    )
    assert found.scores.failed == 0
    assert abs(found.scores.z_sd[0] - 1) < 0.25
    assert abs(found.scores.z_mean[0]) < 0.35
    assert found.scores.error[0] < 1.35 * found.single_release_sd[0]
    assert made.forecast.sd[0] == pytest.approx(found.scores.reported[0], rel=0.15)
    assert made.forecast.fits == 32


def test_no_row_can_be_read(monkeypatch):
    """With every way to a row closed, planning and coverage go on as ever."""

    def closed(*_args, **_kwargs):
        raise AssertionError("a row was read")

    for way in ("__init__", "_fill", "__len__", "rows"):
        monkeypatch.setattr(nw.Table, way, property(closed) if way == "rows" else closed)
    monkeypatch.setattr("noisewise.data.private.PrivateRows.__init__", closed)
    for reader in ("read_columns", "read_file"):
        monkeypatch.setattr(f"noisewise.data.table.{reader}", closed)
    made = nw.plan(beta_bernoulli, schema=BINARY, fits=4, recalibrate=8, **SMALL)
    found = nw.coverage(beta_bernoulli, schema=BINARY, plan=made, simulations=10, draws=50, **FRESH)
    assert made.forecast.fits == 8 and found.scores.fits == 10


@pytest.mark.parametrize("fits", [0, 4])
def test_an_impossible_budget_is_refused_with_what_would_do(fits):
    budget = nw.Budget(epsilon=0.001, delta=1e-8)
    with pytest.raises(PlanError, match="would leave the posterior at the prior") as caught:
        nw.plan(beta_bernoulli, schema=BINARY, rows=100, budget=budget, fits=fits)
    message = str(caught.value)
    assert "\n" not in message
    assert "epsilon of about" in message and "rows" in message
    # What it names is enough.
    epsilon = float(message.split("epsilon of about ")[1].split()[0])
    better = nw.Budget(epsilon=epsilon, delta=1e-8)
    made = nw.plan(beta_bernoulli, schema=BINARY, rows=100, budget=better, fits=0)
    assert made.forecast.sd[0] < 0.55 * made.forecast.prior_sd[0]


def test_the_forecast_grows_sharper_with_budget_and_rows(quick):
    table = np.array(quick.forecast.table)[..., 0]
    assert (np.diff(table, axis=0) < 0).all()
    assert (np.diff(table, axis=1) < 0).all()


def test_a_plan_survives_its_file(quick, tmp_path):
    again = nw.Plan.load(quick.save(tmp_path / "plan.toml"))
    for name, value in quick.settings.to_dict().items():
        other = again.settings.to_dict()[name]
        if isinstance(value, (list, float)):
            np.testing.assert_allclose(other, value, rtol=1e-7)
        else:
            assert other == value
    assert again.forecast.labels == quick.forecast.labels
    np.testing.assert_allclose(again.forecast.table, quick.forecast.table, rtol=1e-7)
    assert again.budget == quick.budget
    assert "no row was read" in again.source


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", "is not valid TOML"),
        ("a = 1", "is not a plan"),
        ('format = "noisewise-plan"', "'made_for' is missing"),
    ],
)
def test_a_bad_plan_file_gets_one_line(tmp_path, text, message):
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(NoisewiseError, match=message) as caught:
        nw.Plan.load(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(NoisewiseError, match="cannot read the plan"):
        nw.Plan.load(tmp_path / "elsewhere.toml")


def test_fit_takes_a_plan_and_warns_where_it_does_not_fit(quick):
    rng = np.random.default_rng(0)
    table = nw.Table({"x": rng.integers(0, 2, 2000)}, BINARY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = nw.fit(beta_bernoulli, table, budget=BUDGET, plan=quick, insecure_seed=0)
    assert result.request.settings.clip_norm == quick.settings.clip_norm
    assert "no row was read" in result.privacy.sources["clip norm and settings"]
    few = nw.Schema((nw.Column(name="x", kind="binary"),), rows=500)
    smaller = nw.Table({"x": rng.integers(0, 2, 500)}, few)
    other = nw.Budget(epsilon=1.0, delta=1e-5)
    with pytest.warns(UserWarning, match="plan again") as caught:
        nw.fit(beta_bernoulli, smaller, budget=other, plan=quick, insecure_seed=0)
    said = " ".join(str(warning.message) for warning in caught)
    assert "another schema" in said and "2000 rows" in said and "epsilon=0.5" in said


def test_a_plan_for_another_model_is_refused(quick):
    schema = nw.Schema((nw.Column(name="x", kind="category", categories=("a", "b", "c")),))
    table = nw.Table({"x": ["a", "b", "c"] * 100}, schema)
    with pytest.raises(NoisewiseError, match="is for model beta_bernoulli, not dirichlet"):
        nw.fit(dirichlet_categorical, table, budget=BUDGET, plan=quick)


def test_recalibration_moves_and_stretches(quick):
    settings = quick.settings.with_recalibration(np.array([0.5]), np.array([2.0]))
    draws = np.random.default_rng(0).normal(3.0, 0.1, (1000, 1))
    moved = settings.recalibrated(draws)
    assert moved.mean() == pytest.approx(draws.mean() - 0.5 * draws.std())
    assert moved.std() == pytest.approx(2 * draws.std())
    assert quick.settings.recalibrated(draws) is draws


def test_what_was_planned_with_is_kept_and_required():
    """The certificate's provenance: a sample is named, an edit is noticed, another one refused."""
    columns = [nw.Column(name=n, kind="real", bounds=(-3, 3)) for n in "ab"]
    schema = nw.Schema((*columns, nw.Column(name="y", kind="binary")), rows=500)
    rng = np.random.default_rng(0)
    sample = nw.PublicSample({n: rng.uniform(-3, 3, 300) for n in "ab"}, schema)
    options = {"schema": schema, "rows": 500, "budget": BUDGET, "target": "y"}
    made = nw.plan("logistic", fits=0, steps=100, public_sample=sample, **options)
    data = {n: rng.uniform(-3, 3, 500) for n in "ab"} | {"y": rng.integers(0, 2, 500)}
    table = nw.Table(data, schema)
    with pytest.raises(NoisewiseError, match="with its public sample"):
        nw.fit("logistic", table, budget=BUDGET, target="y", plan=made)
    own = nw.PublicSample({n: data[n] for n in "ab"}, schema)
    with pytest.raises(NoisewiseError, match="is the table's own"):
        nw.fit("logistic", table, budget=BUDGET, target="y", public_sample=own)
    found = nw.fit("logistic", table, budget=BUDGET, target="y", plan=made, public_sample=sample)
    assert sample.fingerprint() in found.privacy.sources["covariates for simulation"]
    assert "public sample" in found.privacy.sources["clip norm and settings"]


def test_an_edited_plan_file_says_so(quick, tmp_path):
    path = quick.save(tmp_path / "plan.toml")
    assert "no row was read" in nw.Plan.load(path).source
    lines = path.read_text().splitlines()
    edited = ["clip_norm = 1.5" if line.startswith("clip_norm") else line for line in lines]
    path.write_text("\n".join(edited))
    again = nw.Plan.load(path)
    assert again.settings.clip_norm == 1.5
    assert again.source == "plan file plan.toml, edited by hand"


def test_public_samples_are_not_tables():
    table = nw.Table({"x": [0, 1, 1]}, nw.Schema((nw.Column(name="x", kind="binary"),)))
    with pytest.raises(NoisewiseError, match="a Table's are not"):
        nw.plan(beta_bernoulli, schema=BINARY, fits=0, public_sample=table, **SMALL)
