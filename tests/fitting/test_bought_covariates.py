"""A fit buys what the schema does not say of its covariates, and says so."""

import sys

import numpy as np
import pytest

import noisewise as nw
from noisewise.baselines import unsafe_posterior
from noisewise.covariates import covariates_cost
from noisewise.models import bind_model

ROWS, RARE = 6000, 12
BUDGET = nw.Budget(epsilon=1.0, delta=1e-6)
SCHEMA = nw.Schema(
    (
        nw.Column(name="age", kind="real", bounds=(0, 100)),
        nw.Column(name="gain", kind="real", bounds=(0, 100_000)),
        nw.Column(name="ward", kind="category", categories=("a", "b", "rare")),
        nw.Column(name="ill", kind="binary"),
    )
)
BOUGHT = {"counts of covariates' values", "products of pairs of covariates"}


def columns(seed=0):
    rng = np.random.default_rng(seed)
    ward = rng.choice(np.array(["a", "b"], dtype="U4"), ROWS, p=[0.7, 0.3])
    ward[:RARE] = "rare"
    age = np.clip(rng.normal(np.where(ward == "a", 40.0, 60.0), 8), 0, 100)
    gain = np.where(rng.random(ROWS) < 0.97, 0.0, rng.uniform(0, 20_000, ROWS))
    logit = -0.5 + 0.02 * (age - 50) + 0.4 * (ward == "b")
    ill = (rng.random(ROWS) < 1 / (1 + np.exp(-logit))).astype(int)
    return {"age": age, "gain": gain, "ward": ward, "ill": ill}


@pytest.fixture(scope="module")
def table():
    return nw.Table(columns(), SCHEMA)


def fitted(table, **more):
    given = {"budget": BUDGET, "target": "ill", "insecure_seed": 5, "draws": 2000}
    return nw.fit("logistic", table, **given | more)


@pytest.fixture(scope="module")
def result(table):
    return fitted(table)


def names(result):
    return {release.what for release in result.privacy.releases}


def test_the_purchase_is_certified_and_within_the_budget(result):
    assert names(result) >= BOUGHT
    assert result.privacy.epsilon_spent <= BUDGET.epsilon
    assert "simulated like the data's" in result.privacy.sources["covariates"]


def test_what_it_costs_is_known_beforehand(result):
    bound = bind_model("logistic", SCHEMA, "ill")
    expected = covariates_cost(bound, BUDGET)
    found = [line for line in result.privacy.releases if line.what in BOUGHT]
    assert tuple(found) == expected


def test_a_level_of_a_dozen_rows_gets_a_dozen_rows_error_bar(table, result):
    """Not sharper than without privacy, nor moved by five sds: the seed is fixed."""
    bound = bind_model("logistic", SCHEMA, "ill")
    unsafe = unsafe_posterior(bound.target, bound.view.private(table))
    sds = np.sqrt(np.diag(unsafe.covariance))
    found = result.summary()
    assert list(found.index) == bound.view.feature_names
    assert (found["sd"].to_numpy() > 0.9 * sds).all()
    assert found["sd"]["ward=rare"] > 0.9 * sds[bound.view.feature_names.index("ward=rare")]
    off = np.abs(found["mean"].to_numpy() - unsafe.mode) / found["sd"].to_numpy()
    assert off.max() < 5


def test_what_contradicts_the_schema_is_said(result, tmp_path):
    assert any(note.startswith("gain: about 9") for note in result.notes)
    page = result.report(tmp_path / "page.html").read_text()
    assert "not as the schema declares them" in page
    again = nw.Result.load(result.save(tmp_path / "out"))
    assert again.notes == result.notes


def test_nothing_is_bought_where_it_is_needless(table):
    switched_off = fitted(table, covariate_share=0, steps=200)
    assert not names(switched_off) & BOUGHT
    assert switched_off.notes == ()
    by_hand = nw.Settings(
        clip_norm=1.0, steps=200, rule="vanilla", full_curvature=False, learning_rate=1e-3
    )
    assert not names(fitted(table, plan=by_hand, posterior="averaged")) & BOUGHT
    public = {name: values[:500] for name, values in columns(1).items() if name != "ill"}
    sample = nw.PublicSample(public, SCHEMA)
    assert not names(fitted(table, public_sample=sample, steps=200)) & BOUGHT


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_bad_share_is_refused_before_anything_is_spent(table, share, monkeypatch):
    monkeypatch.setattr(sys.modules["noisewise.fitting.fit"], "public_count", None)
    with pytest.raises(nw.NoisewiseError, match="covariate_share must be in"):
        fitted(table, covariate_share=share)


def test_a_plan_is_made_anew_for_the_covariates_that_turn_up(table):
    plan = nw.plan("logistic", schema=SCHEMA, rows=ROWS, budget=BUDGET, target="ill", fits=0)
    found = fitted(table, plan=plan)
    assert names(found) >= BOUGHT
    assert "covariates that were bought" in found.privacy.sources["clip norm and settings"]
    assert found.request.settings.steps == plan.settings.steps
    assert not np.allclose(found.request.settings.curvature, plan.settings.curvature)
