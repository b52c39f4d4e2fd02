"""Formulas from a table to a result: the same fit as by columns, and everything after it."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise.data import in_own_terms
from noisewise.models import bind_model
from noisewise.models.target import WEIGHT
from noisewise.planning import guess_settings
from noisewise.report.intervals import per_unit_rows
from people import make_frame, make_schema

BUDGET = nw.Budget(epsilon=1.0, delta=1e-6)
STEPS = 200
FORMULA = "visits ~ age * sex"


@pytest.fixture(scope="module")
def table():
    return nw.Table(make_frame(), make_schema(3000))


@pytest.fixture(scope="module")
def fitted(table):
    return nw.fit(
        FORMULA,
        table,
        budget=BUDGET,
        priors={"age": 0.2, "sex[T.m]": dist.Normal(0.1, 0.3)},
        steps=STEPS,
        insecure_seed=3,
    )


@pytest.mark.slow
def test_a_formula_without_products_is_the_fit_by_columns(table):
    """With one insecure seed every draw agrees, as the encoded rows do bit by bit."""
    how = {"budget": BUDGET, "steps": STEPS, "insecure_seed": 3}
    formula = nw.fit("visits ~ age + sex", table, family="poisson", **how)
    columns = nw.fit("poisson", table, target="visits", features=["age", "sex"], **how)
    assert formula.draws["coefficients"] == pytest.approx(columns.draws["coefficients"], abs=1e-6)
    assert formula.privacy.epsilon_spent == columns.privacy.epsilon_spent
    assert list(formula.summary().index) == ["Intercept", "age", "sex[T.m]"]
    ours, theirs = (each.summary(per_unit=True)["mean"] for each in (formula, columns))
    assert ours.to_numpy() == pytest.approx(theirs.to_numpy())
    assert ours["age"] == pytest.approx(formula.summary()["mean"]["age"] / 36)


def test_what_was_asked_is_in_the_result_and_its_file(fitted, tmp_path):
    found = nw.Result.load(fitted.save(tmp_path / "out"))
    assert found.request.formula == FORMULA and found.request.target == "visits"
    assert found.request.features == ["age", "sex"] and found.request.model == "poisson"
    assert found.request.priors == (
        "age: Normal(0, 0.2)",
        "sex[T.m]: Normal(0.1, 0.3)",
        "every other coefficient: Normal(0, 0.5)",
    )
    assert len(found.verify().reasons) == 1  # the seed; epsilon is as claimed
    assert found.digest == fitted.digest
    assert list(found.posterior["posterior"]["coefficients_dim"]) == [
        "Intercept",
        "age",
        "sex[T.m]",
        "age:sex[T.m]",
    ]


def test_the_report_says_the_formula_its_priors_and_effects_per_unit(fitted, tmp_path):
    page = fitted.report(tmp_path / "page.html").read_text()
    assert "visits ~ age * sex" in page
    assert "sex[T.m]: Normal(0.1, 0.3)" in page and "(age - 54) / 36 x sex[T.m]" in page
    rows = {row.label: row.aware.mean for row in per_unit_rows(fitted)}
    encoded = fitted.summary()["mean"]
    assert rows["age"] == pytest.approx(encoded["age"] / 36)
    assert rows["sex[T.m]"] == pytest.approx(
        encoded["sex[T.m]"] - 54 / 36 * encoded["age:sex[T.m]"]
    )


@pytest.mark.slow
def test_ratios_are_of_columns_that_stand_alone(table):
    """A change of age depends on sex, where the two are multiplied."""
    result = nw.fit(
        "visited ~ cost + C(sex, Treatment('m')) + log1p(visits) * age",
        table,
        budget=BUDGET,
        steps=STEPS,
        insecure_seed=3,
    )
    found = {effect.label: effect for effect in result.effects()}
    level = "C(sex, Treatment('m'))[T.f]"
    assert set(found) == {"cost +10", level}
    assert found[level].change == "sex f instead of m"
    names = result.coordinates["coefficients"]
    cost = result.draws["coefficients"][:, names.index("cost")]
    assert found["cost +10"].draws == pytest.approx(np.exp(cost * 10 / 30), rel=1e-4)
    of_sex = result.draws["coefficients"][:, names.index(level)]
    assert found[level].draws == pytest.approx(np.exp(of_sex), rel=1e-4)


def test_predictions_and_synthetic_tables_find_the_formula_again(fitted):
    """A prediction is the mean of exp of the formula's own predictor at the effects per unit."""
    new = {"age": np.array([30.0, 60.0]), "sex": np.array(["f", "m"])}
    found = fitted.predict(new)
    change = in_own_terms(fitted.request.encoding)
    own = fitted.draws["coefficients"] @ change.T
    design = np.array([[1, 30, 0, 0], [1, 60, 1, 60]])
    assert found["mean"].to_numpy() == pytest.approx(np.exp(own @ design.T).mean(0), rel=1e-3)
    with pytest.warns(UserWarning, match="NOT PRIVATE"):
        tables = nw.synthesize(fitted, copies=2, rows=50, covariates=_covariates())
    assert set(tables[0].columns) == {"age", "sex", "visits"}


def _covariates():
    frame = {name: values[:200] for name, values in make_frame(7).items()}
    return nw.PublicSample(frame, make_schema())


def test_priors_by_name_are_the_models(table):
    bound = bind_model(
        FORMULA, table.schema, priors={"age": 0.2, "sex[T.m]": dist.Normal(0.1, 0.3)}
    )
    drawn = np.asarray(bound.target.sample_prior(jax.random.PRNGKey(0), 4000))
    # Four sds of a mean of 4000 draws, and as much of an sd: false alarms in about 1 of 2000.
    sds = np.array([0.5, 0.2, 0.3, 0.5])
    assert np.abs(drawn.mean(0) - [0, 0, 0.1, 0]).max() < 4 * sds.max() / np.sqrt(4000)
    assert drawn.std(0) == pytest.approx(sds, rel=4 / np.sqrt(8000))


@pytest.mark.parametrize("right", ["0 + sex", "-1 + sex:age + sex", "sex"])
def test_an_intercept_that_is_spread_over_levels_has_the_same_prior(table, right):
    """Cost is about 100 by declaration: everybody's predictor is, before any row is read."""
    bound = bind_model(f"cost ~ {right}", table.schema)
    rows = bound.view.simulate(np.random.default_rng(0), 50)
    means, _ = bound.model.prior(rows["X"].shape[1])
    assert rows["X"] @ means[0] == pytest.approx(100, rel=1e-4)


def test_families_follow_the_target_unless_named(table):
    kinds = {"visits": "poisson", "cost": "linear", "visited": "logistic", "sex": "logistic"}
    for target, family in kinds.items():
        assert bind_model(f"{target} ~ age", table.schema).name == family
    assert bind_model("visits ~ age", table.schema, family="negbin").name == "negative-binomial"
    survival = bind_model("Surv(cost, visited) ~ sex * age", _positive(), family="weibull")
    assert survival.view.targets == ("cost", "visited") and survival.name == "weibull"


def _positive():
    cost = nw.Column(name="cost", kind="real", bounds=(1, 300))
    return nw.Schema(tuple(cost if c.name == "cost" else c for c in make_schema()))


def test_missing_outcomes_are_silent_and_missing_covariates_have_an_indicator():
    age = nw.Column(name="age", kind="real", bounds=(18, 90), missing="allowed")
    cost = nw.Column(name="cost", kind="real", bounds=(0, 300), missing="allowed")
    sex = nw.Column(name="sex", kind="category", categories=("f", "m"))
    bound = bind_model("cost ~ age * sex", nw.Schema((age, cost, sex)))
    rows = {"age": [np.nan, 30.0], "cost": [50.0, np.nan], "sex": [1, 0]}
    found = bound.view.encode({name: np.array(column) for name, column in rows.items()})
    assert bound.view.silencing == ("cost",) and found[WEIGHT].tolist() == [1, 0]
    assert found["X"].tolist() == [[1, 0, 1, 1, 0], [1, pytest.approx(-24 / 36), 0, 0, 0]]
    assert bound.view.feature_names[2] == "age (missing)"
    integrate = nw.Column(
        name="age", kind="real", bounds=(18, 90), missing="allowed", how="integrate"
    )
    with pytest.raises(nw.NoisewiseError, match="declare how = 'indicator'"):
        bind_model("cost ~ age * sex", nw.Schema((integrate, cost, sex)))


@pytest.mark.slow
def test_plan_and_coverage_know_the_formula(table, tmp_path):
    how = {"schema": table.schema, "rows": 3000, "budget": BUDGET}
    plan = nw.plan(FORMULA, fits=0, steps=STEPS, **how)
    assert plan.forecast.labels == ("Intercept", "age", "sex[T.m]", "age:sex[T.m]")
    again = nw.Plan.load(plan.save(tmp_path / "plan.toml"))
    assert again.formula == FORMULA
    with pytest.raises(
        nw.NoisewiseError, match=r"the plan is for the formula 'visits ~ age \* sex'"
    ):
        nw.fit("visits ~ age + sex + cost", table, budget=BUDGET, plan=again)
    found = nw.coverage(FORMULA, plan=again, simulations=10, draws=50, **how)
    assert list(found.labels) == list(plan.forecast.labels) and np.isfinite(found.draws).all()


def test_columns_called_x_and_y_are_columns_like_others():
    """The formula's response is y to the model, whatever else is called so."""
    schema = nw.Schema(
        (
            nw.Column(name="y", kind="real", bounds=(5, 9)),
            nw.Column(name="X", kind="real", bounds=(-1, 1)),
            nw.Column(name="z", kind="real", bounds=(0, 1)),
        )
    )
    for formula, target, other in (("z ~ y + X", "z", "y"), ("y ~ X + z", "y", "z")):
        bound = bind_model(formula, schema)
        rows = schema.simulate(np.random.default_rng(0), 20)
        found = bound.view.encode(rows)
        assert found["y"] == pytest.approx(rows[target], rel=1e-6)
        assert bound.view.bounds("y") == schema[target].bounds
        assert bound.view.source("y") == target and other in bound.view.encoder.features
        guess_settings(bound, 1000, BUDGET, 50)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"target": "visits"}, "leave out target and features"),
        ({"features": ["age"]}, "leave out target and features"),
        (
            {"family": "logistic"},
            "target 'visits' is declared count, but logistic regression needs",
        ),
        ({"family": "network"}, "family must be one of logistic, probit, poisson"),
        ({"family": "weibull"}, "must begin with what it explains, Surv"),
        ({"priors": {"agee": 1}}, "priors names 'agee', which is no coefficient of the formula"),
        ({"priors": {"age": -1}}, "the prior of 'age' must be an sd above 0"),
        ({"priors": {"age": dist.Cauchy()}}, "the prior of 'age' must be an sd above 0"),
        ({"priors": 0.5}, "priors must map"),
        ({"method": "dp-sep", "family": "poisson"}, "method='dp-sep' needs"),
    ],
)
def test_misuse_is_said_before_anything_is_spent(table, tmp_path, how, said):
    ledger = nw.Ledger.create(tmp_path / "ledger.db", BUDGET)
    with pytest.raises(nw.NoisewiseError) as caught:
        nw.fit(FORMULA, table, budget=BUDGET, ledger=ledger, **how)
    assert said in str(caught.value) and ledger.account().spent == 0


def test_family_and_priors_need_a_formula(table):
    for how in ({"family": "poisson"}, {"priors": {"age": 1.0}}):
        with pytest.raises(nw.NoisewiseError, match="family and priors go with a formula"):
            nw.fit("poisson", table, budget=BUDGET, target="visits", **how)


def test_dp_sep_takes_a_formula_with_its_intercept_alone(table):
    assert bind_model("visited ~ age * sex", table.schema).capabilities.site == "logistic"
    for formula, priors in (("visited ~ 0 + sex", None), ("visited ~ sex", {"Intercept": 2.0})):
        can = bind_model(formula, table.schema, priors=priors).capabilities
        assert can.site is None and "DP-SEP knows one prior" in can.because
