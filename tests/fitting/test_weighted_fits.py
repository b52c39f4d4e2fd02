"""Fits of tables with survey weights."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from benchmarks.survey import fitted

import noisewise as nw
from noisewise.dpvi import Variability, assemble, prepared_rows, trace_of
from noisewise.engine import run_secure
from noisewise.mechanism import Mechanism
from noisewise.models import bind_model
from noisewise.planning import guess_settings
from noisewise.posterior import FitContext, Reference, infer
from noisewise.posterior.variability import WHAT, shrunk

AGE = nw.Column(name="age", kind="real", bounds=(-4, 4), mean=0, sd=1)
ILL = nw.Column(name="ill", kind="binary")
WARD = nw.Column(name="ward", kind="category", categories=("a", "b"))
ONE = nw.Column(name="w", kind="weight", bounds=(0, 2))
WEIGHT = nw.Column(name="w", kind="weight", bounds=(1, 9), mean=3, sd=2)
BUDGET = nw.Budget(epsilon=1.0, delta=1e-6)
VANILLA = nw.Settings(clip_norm=1, rule="vanilla", full_curvature=False, learning_rate=0.1)


def cells(rows, seed=0):
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(size=rows), -4, 4)
    return {"age": age, "ill": rng.random(rows) < 1 / (1 + np.exp(-age)), "w": np.ones(rows)}


def own(age, ill=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("people", age.shape[0]):
        numpyro.sample("ill", dist.Bernoulli(logits=slope * age), obs=ill)


@pytest.mark.parametrize("model", ["logistic", pytest.param(own, marks=pytest.mark.slow)])
def test_a_weight_of_one_everywhere_is_the_fit_without_weights(model) -> None:
    """Releases and draws, at the same noise: to float accuracy."""
    count, found = 400, []
    target = "ill" if model == "logistic" else None
    plain = bind_model(model, nw.Schema((AGE, ILL)), target)
    settings = guess_settings(plain, count, nw.Budget(epsilon=8, delta=1e-5), 60)
    for columns in ((AGE, ILL), (AGE, ILL, ONE)):
        schema = nw.Schema(columns)
        bound = bind_model(model, schema, target)
        table = nw.Table(cells(count), schema, ignore_undeclared=True)
        mechanism = Mechanism(
            clip_norm=settings.clip_norm,
            sampling_rate=settings.sampling_rate,
            steps=60,
            noise_multiplier=1.0,
        )
        run = assemble(settings, bound.target, mechanism, count)
        rows = bound.view.private(table).map(lambda a: prepared_rows(bound.target, run, a))  # noqa: B023
        trace = trace_of(run_secure(run, rows, insecure_seed=1), run)
        # The same covariates, once with weights of one beside them.
        simulated = bound.view.encode(cells(1024, seed=1))
        reference = Reference(simulated, covariates_representative=True)
        context = FitContext.of(run, settings, reference)
        outcome = infer("analytic", trace, context, 200, np.random.default_rng(0))
        found.append((trace.block_means(), outcome.draws))
    for one, other in zip(*found, strict=True):
        assert np.isfinite(one).all()
        assert np.allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_weighted_fit_says_so_and_pays_for_what_it_buys(tmp_path) -> None:
    schema = nw.Schema((AGE, ILL, WEIGHT), rows=600)
    asked = {"budget": BUDGET, "target": "ill", "steps": 40, "draws": 200}
    people = nw.Table(cells(600), schema)
    result = nw.fit("logistic", people, checkpoint=tmp_path / "fit", **asked)
    assert [one.what for one in result.privacy.releases].count(WHAT) == 1
    assert result.privacy.verify().holds
    assert "column 'w', declared in [1, 9], over 3" in result.privacy.sources["survey weights"]
    assert set(result.draws) == {"coefficients"}
    assert list(result.summary().index) == ["intercept", "age"]
    # Whoever goes on with a fit that is done buys nothing again.
    again = nw.fit("logistic", people, checkpoint=tmp_path / "fit", resume=True, **asked)
    assert "after 41 of 41 steps" in again.privacy.sources["resumed"]
    assert np.array_equal(again.trace["means"], result.trace["means"])


@pytest.mark.parametrize(
    ("model", "columns", "how", "said"),
    [
        ("mixture(2)", (WARD, ILL, WEIGHT), {"target": None}, "survey weights, which column 'w'"),
        ("logistic", (AGE, ILL, WEIGHT), {"method": "dp-sep"}, "takes no survey weights"),
        ("network", (AGE, ILL, WEIGHT), {"method": "dp-sep", "target": "age"}, "no survey weights"),
        (
            "logistic",
            (AGE, ILL, WEIGHT),
            {"plan": VANILLA},
            "need rule='means_only' and full_curvature=True",
        ),
    ],
)
def test_what_knows_no_weights_refuses_them_before_anything_is_spent(
    model, columns, how, said, tmp_path
) -> None:
    schema = nw.Schema(columns)
    table = nw.Table.from_arrays(schema.simulate(np.random.default_rng(0), 100), schema)
    ledger = tmp_path / "ledger.db"
    nw.Ledger.create(ledger, nw.Budget(epsilon=10, delta=1e-5))
    with pytest.raises(nw.NoisewiseError, match=said) as refused:
        nw.fit(model, table, **({"budget": BUDGET, "target": "ill", "ledger": ledger} | how))
    assert "\n" not in str(refused.value)
    assert nw.Ledger(ledger).account().spent == 0


def test_what_was_bought_is_believed_as_far_as_its_noise_lets_it() -> None:
    expected = np.array([[2.0, 0.3], [0.3, 1.0]])
    truth = 1.7 * expected + np.array([[0.2, -0.1], [-0.1, 0.3]])
    assert np.allclose(shrunk(Variability(truth, 1e-9), expected), truth, rtol=1e-6)
    nothing = shrunk(Variability(np.full((2, 2), 1e3), 1e9), expected)
    assert np.allclose(nothing, expected, rtol=1e-2)
    # In between it is nearer than either: mean squared errors of 500 draws, seed fixed; the gap is
    # many standard errors wide.
    rng, sd, errors = np.random.default_rng(0), 0.5, []
    for _ in range(500):
        noise = sd * rng.standard_normal((2, 2))
        bought = truth + (noise + noise.T) / 2
        found = shrunk(Variability(bought, sd), expected)
        assert (np.linalg.eigvalsh(found) > 0).all()
        errors.append([np.sum((each - truth) ** 2) for each in (found, bought, expected)])
    mean = np.mean(errors, axis=0)
    assert mean[0] < 0.9 * mean[1]
    assert mean[0] < 0.9 * mean[2]


@pytest.mark.slow
def test_intervals_hold_for_the_population_behind_a_survey() -> None:
    """Twelve surveys of `benchmarks.survey`, whose inclusion depends on the outcome. Under
    calibration the sum of 48 squared z scores is nearly chi-squared: limits of its 1e-4 quantiles
    at both ends (false alarm 2e-4; seeds are fixed). Without weights they are far off."""
    z = np.concatenate([fitted(seed, 4000, 1.0, True, 2000)["z"] for seed in range(12)])
    low, high = 19.75, 93.22
    assert low < np.sum(z**2) < high
    wrong = np.concatenate([fitted(seed, 4000, 1.0, False, 2000)["z"] for seed in range(3)])
    assert np.sum(wrong**2) > 10 * high
