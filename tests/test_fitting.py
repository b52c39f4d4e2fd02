import importlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise._validate import NoisewiseError
from people import N, make_frame, make_schema

STEPS = 1000
"""As many as the shared fit has: the noise of a budget is found once, in seconds, for all fits that
ask for it, and sooner for a thousand steps than for a hundred, whose losses spread wider."""
ACCOUNT = importlib.import_module("noisewise.engine.certify")


def test_a_private_fit_recovers_what_made_the_data(result):
    """Within five of its own sds of the truth, and not needlessly wide; fixed seed."""
    summary = result.summary()
    truth = {"intercept": -0.4, "age": 0.8, "sex=m": 0.5}
    for name, value in truth.items():
        row = summary.loc[name]
        assert abs(row["mean"] - value) < 5 * row["sd"]
        assert row["sd"] < 0.5
    assert result.status is nw.Status.OK


def test_posterior_is_what_arviz_reads(result):
    import arviz_stats

    tree = result.posterior
    draws = tree["posterior"]["coefficients"]
    assert draws.dims == ("chain", "draw", "coefficients_dim")
    assert draws.shape == (4, 1000, 3)
    assert list(draws.coords["coefficients_dim"].values) == ["intercept", "age", "sex=m"]
    summary = arviz_stats.summary(tree, round_to="none")
    assert (summary["r_hat"].astype(float) < 1.02).all()


def test_arviz_plots_takes_it_as_it_is(result):
    import arviz_plots

    drawn = arviz_plots.plot_forest(result.posterior, backend="matplotlib")
    assert "figure" in drawn.viz


def test_the_certificate_holds_and_names_every_release(result):
    # The seed is the only thing against it.
    (reason,) = result.privacy.verify().reasons
    assert "insecure_seed=1" in reason
    assert [release.what for release in result.privacy.releases] == [
        "counts of covariates' values",
        "products of pairs of covariates",
        "gradients",
        "sizes of gradients at the fit",
        "number of rows",
    ]
    assert result.privacy.epsilon_spent <= 1.0
    assert not result.privacy.private
    assert "insecure_seed=1" in str(result.privacy)


def test_without_a_seed_it_is_private_and_never_the_same_twice(table, budget):
    options = {"budget": budget, "target": "visited", "features": ["age"], "steps": STEPS}
    one, two = (nw.fit("logistic", table, **options) for _ in range(2))
    assert one.privacy.private and one.privacy.verify().holds
    assert not np.array_equal(one.draws["coefficients"], two.draws["coefficients"])


def test_a_seeded_fit_repeats(table, budget):
    options = {"budget": budget, "target": "visited", "features": ["age"], "steps": STEPS}
    one, two = (nw.fit("logistic", table, insecure_seed=4, **options) for _ in range(2))
    assert np.array_equal(one.draws["coefficients"], two.draws["coefficients"])


def test_declared_rows_cost_nothing_and_wrong_ones_are_refused(frame, budget):
    options = {"budget": budget, "target": "visited", "features": ["age"], "steps": STEPS}
    options["covariate_share"] = 0
    declared = nw.Table(frame, make_schema(rows=N))
    result = nw.fit("logistic", declared, insecure_seed=0, **options)
    assert [release.what for release in result.privacy.releases] == ["gradients"]
    assert result.request.public_count == N
    # Add-remove cannot be about a number that is public: the certificate says what it is about.
    assert result.privacy.sources["number of rows"].endswith("for tables of this size")
    wrong = nw.Table(frame, make_schema(rows=N + 1))
    with pytest.raises(NoisewiseError, match="another number") as caught:
        nw.fit("logistic", wrong, **options)
    assert not re.search(rf"\b{N}\b", str(caught.value))


def test_noised_rows_are_near_but_not_the_count(table, budget):
    options = {"budget": budget, "target": "visited", "features": ["age"], "steps": STEPS}
    seen = {nw.fit("logistic", table, **options).request.public_count for _ in range(3)}
    assert len(seen) > 1
    assert all(abs(rows - N) < 400 for rows in seen)


def test_replace_one_has_twice_the_noise(table):
    noise = {}
    for adjacency in ("add-remove", "replace-one"):
        budget = nw.Budget(epsilon=1.0, delta=1e-6, adjacency=adjacency)
        result = nw.fit(
            "logistic", table, budget=budget, target="visited", features=["age"], steps=STEPS
        )
        (steps,) = (line for line in result.privacy.releases if line.what == "gradients")
        noise[adjacency] = steps.noise_multiplier
        assert result.privacy.budget.adjacency == adjacency
    # Twice in the limit of many steps; a thousand fall a little short, and where one may be added
    # or removed, the number of rows takes its share.
    assert noise["replace-one"] / noise["add-remove"] == pytest.approx(1.98, rel=0.01)


@pytest.mark.parametrize(("model", "target"), [("poisson", "visits"), ("linear", "cost")])
def test_the_other_families_fit(table, budget, model, target):
    result = nw.fit(
        model,
        table,
        budget=budget,
        target=target,
        features=["age", "sex"],
        steps=STEPS,
        insecure_seed=2,
    )
    summary = result.summary()
    assert np.isfinite(summary.to_numpy()).all()
    # Both grow with age; ten sds of doubt would be a broken fit.
    assert summary.loc["age", "upper"] > 0


def constrained(age, sex, visits=None, visited=None):
    """Positive, unit-interval, simplex and vector latents in one model."""
    share = numpyro.sample("share", dist.Beta(2.0, 2.0))
    rate = numpyro.sample("rate", dist.Gamma(4.0, 4.0))
    mix = numpyro.sample("mix", dist.Dirichlet(3.0 * jnp.ones(2)))
    slope = numpyro.sample("slope", dist.Normal(0, 0.3).expand([2]).to_event(1))
    years = (age - 54.0) / 36.0
    with numpyro.plate("people", age.shape[0]):
        numpyro.sample("sex", dist.Categorical(probs=mix), obs=sex)
        numpyro.sample("visited", dist.Bernoulli(probs=share), obs=visited)
        log_rate = jnp.log(rate) + slope[0] * years + slope[1] * sex
        numpyro.sample("visits", dist.Poisson(jnp.exp(log_rate)), obs=visits)


@pytest.mark.slow
def test_any_constrained_latents_come_back_in_their_own_space(table, frame, budget):
    result = nw.fit(constrained, table, budget=budget, steps=STEPS, insecure_seed=0)
    draws = result.draws
    assert ((draws["share"] > 0) & (draws["share"] < 1)).all()
    assert (draws["rate"] > 0).all()
    assert np.allclose(draws["mix"].sum(-1), 1, atol=1e-5)
    assert draws["slope"].shape == (4000, 2)
    summary = result.summary()
    truth = {"share": frame["visited"].mean(), "mix[1]": (frame["sex"] == "m").mean()}
    for name, value in truth.items():
        # Five of its own sds, and usefully narrow; fixed seed.
        assert abs(summary.loc[name, "mean"] - value) < 5 * summary.loc[name, "sd"]
        assert summary.loc[name, "sd"] < 0.1


@pytest.mark.slow
def test_a_model_beyond_reason_ends_in_a_status_and_not_in_nan(table, budget):
    def wild(age, visits=None):
        share = numpyro.sample("share", dist.Beta(2.0, 2.0))
        level = numpyro.sample("level", dist.Normal(0, 5).expand([3]).to_event(1))
        with numpyro.plate("people", age.shape[0]):
            eta = level[0] + level[1] * age * share + level[2] * age**2
            numpyro.sample("visits", dist.Poisson(jnp.exp(jnp.clip(eta, -9, 9))), obs=visits)

    result = nw.fit(wild, table, budget=budget, steps=STEPS, insecure_seed=0)
    assert result.status is not nw.Status.OK or np.isfinite(result.summary().to_numpy()).all()


def test_a_plan_is_used_and_a_misfit_is_warned_of(table, schema, budget):
    asked = {"budget": budget, "target": "visited", "features": ["age"], "steps": STEPS}
    plan = nw.plan("logistic", schema=schema, rows=N, fits=2, recalibrate=4, **asked)
    options = {"budget": budget, "target": "visited", "features": ["age"], "plan": plan}
    result = nw.fit("logistic", table, insecure_seed=0, covariate_share=0, **options)
    assert result.request.settings.clip_norm == plan.settings.clip_norm
    # With covariates as they were bought, the plan's choices make settings of their own.
    shaped = nw.fit("logistic", table, insecure_seed=0, **options)
    assert shaped.request.settings.clip_norm != plan.settings.clip_norm
    assert shaped.request.settings.steps == plan.settings.steps
    other = nw.Table(make_frame(), make_schema(rows=N))
    with pytest.warns(UserWarning, match="another schema"):
        nw.fit("logistic", other, insecure_seed=0, **options)


@pytest.mark.slow
def test_planning_cannot_read_a_row(schema, budget, monkeypatch):
    def forbidden(self):
        raise AssertionError("a row was read")

    monkeypatch.setattr(nw.Table, "rows", property(forbidden))
    monkeypatch.setattr("noisewise.data.private.PrivateRows.unsafe_columns", forbidden)
    asked = {"budget": budget, "target": "visited", "steps": STEPS}
    plan = nw.plan("logistic", schema=schema, rows=1000, fits=2, recalibrate=4, **asked)
    assert plan.settings.clip_norm > 0


@pytest.mark.parametrize(
    "posterior", ["exact", pytest.param("nuts", marks=pytest.mark.slow), "laplace", "naive"]
)
def test_every_posterior_through_the_front_door(table, budget, posterior):
    settings = nw.Settings(
        clip_norm=2.0,
        rule="preconditioned",
        precondition=20.0,
        steps=STEPS,
        guide_draws=2,
        step_factor=1.0,
        full_curvature=False,
    )
    result = nw.fit(
        "logistic",
        table,
        budget=budget,
        target="visited",
        features=["age"],
        plan=settings,
        posterior=posterior,
        draws=200,
        insecure_seed=0,
    )
    assert result.draws["coefficients"].shape == (200, 2)
    assert result.privacy.sources["clip norm and settings"] == "set by the caller"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"table": {"age": [1]}}, "table must be a noisewise.Table"),
        ({"budget": 1.0}, "budget must be a noisewise.Budget"),
        ({"target": None}, "no target was named"),
        ({"target": "salary"}, "salary"),
        ({"target": "cost"}, "declared real, but logistic regression needs binary or category"),
        ({"features": ["visited"]}, "visited"),
        ({"features": ["height"]}, "height"),
        ({"model": "tobit"}, "neither logistic, probit, poisson, linear, negative-binomial"),
        ({"model": "logit"}, "do you mean 'logistic'?"),
        ({"model": "Poisson"}, "do you mean 'poisson'?"),
        ({"model": "visited + age"}, "no formula, which has a ~ in it"),
        ({"model": "nowhere/model.py:f"}, "does not exist"),
        ({"model": 3}, "model must be a NumPyro model or a name"),
        ({"posterior": "best"}, "posterior must be one of"),
        ({"draws": 3}, "draws must be"),
        ({"steps": 3}, "steps must be"),
    ],
)
def test_bad_requests_get_one_line(table, budget, change, message):
    asked = {"model": "logistic", "table": table, "budget": budget, "target": "visited", **change}
    with pytest.raises(NoisewiseError) as caught:
        nw.fit(asked.pop("model"), asked.pop("table"), **asked)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_that_asks_for_what_is_not_there(table, budget):
    def model(height, visited=None):
        w = numpyro.sample("w", dist.Normal(0, 1))
        with numpyro.plate("people", height.shape[0]):
            numpyro.sample("visited", dist.Bernoulli(logits=w * height), obs=visited)

    with pytest.raises(NoisewiseError, match="model argument 'height' is not a column"):
        nw.fit(model, table, budget=budget)


def test_large_delta_warns(frame):
    with pytest.warns(UserWarning, match="not well below 1/rows"):
        nw.fit(
            "logistic",
            nw.Table(frame, make_schema(rows=N)),
            budget=nw.Budget(epsilon=1.0, delta=1e-3),
            target="visited",
            features=["age"],
            steps=STEPS,
        )


def _by_hand(**changed):
    asked = {"clip_norm": 2.0, "rule": "vanilla", "steps": STEPS, "full_curvature": False}
    return nw.Settings(**{**asked, "step_factor": 1.0, **changed})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 5}, "steps must be"),
        ({"steps": "many"}, "steps must be"),
        ({"insecure_seed": -1}, "insecure_seed must be"),
        ({"plan": "plan.toml"}, "plan must be a noisewise.Plan"),
        ({"plan": lambda: _by_hand(start=np.zeros(5))}, "start is for 5"),
        ({"plan": lambda: _by_hand(step_factor=np.ones(3))}, "settings do not fit this model"),
        ({"plan": lambda: _by_hand(curvature=np.ones(2))}, "curvature is for 2 unconstrained"),
        ({"plan": lambda: _by_hand(sampling_rate=2.0)}, "sampling_rate must be"),
        ({"plan": lambda: _by_hand(scale_map="cube")}, "scale_map must be one of"),
        ({"plan": lambda: _by_hand(precondition="slope")}, "is for rule preconditioned"),
    ],
)
def test_what_cannot_work_is_refused_before_the_first_noisy_number(
    frame, schema, budget, monkeypatch, change, message
):
    def spent(*_):
        raise AssertionError("the number of rows was noised before the refusal")

    monkeypatch.setattr(ACCOUNT, "noisy_count", spent)
    unknown = nw.Schema(schema.columns)
    assert unknown.rows is None

    def ask():
        asked = {name: value() if callable(value) else value for name, value in change.items()}
        nw.fit(
            "logistic",
            nw.Table(frame, unknown),
            budget=budget,
            target="visited",
            features=["age"],
            **asked,
        )

    with pytest.raises((NoisewiseError, TypeError), match=message):
        ask()


def test_a_request_that_can_work_does_get_to_the_first_noisy_number(table, budget, monkeypatch):
    """So that what the tests before and after this one wait for is what would happen."""

    class Spent(Exception):
        pass

    def spent(*_):
        raise Spent

    monkeypatch.setattr(ACCOUNT, "noisy_count", spent)
    with pytest.raises(Spent):
        nw.fit("logistic", table, budget=budget, target="visited", steps=STEPS)


def test_double_precision_is_refused_before_the_first_noisy_number(table, budget, monkeypatch):
    monkeypatch.setattr(ACCOUNT, "noisy_count", lambda *_: pytest.fail("it was noised"))
    with jax.enable_x64(True), pytest.raises(NoisewiseError, match="in double precision"):
        nw.fit("logistic", table, budget=budget, target="visited", features=["age"], steps=STEPS)


def test_released_scales_have_priors_of_their_own(table, budget):
    """A simulated curvature is the means': with it, a rule that releases scales too must not use
    it for them, nor fail after the budget is spent."""
    result = nw.fit(
        "logistic",
        table,
        budget=budget,
        target="visited",
        features=["age"],
        plan=_by_hand(curvature=50 * np.eye(2), prior_precision=np.eye(2)),
        draws=100,
        insecure_seed=0,
    )
    assert np.isfinite(result.draws["coefficients"]).all()
