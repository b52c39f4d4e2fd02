"""DP-SEP through `nw.fit`: a table in, a result with certificate, report and status out."""

import json
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

import noisewise as nw
from noisewise.data import PrivateRows
from noisewise.dpsep import (
    Bounds,
    LinearSite,
    Phase,
    SepFit,
    SepSettings,
    assemble,
    fit_secure,
    whitening_cost,
)
from noisewise.fitting.method import Job
from noisewise.fitting.network import _purchases, _target_scale
from noisewise.models import Network, bind_model
from noisewise.posterior import SepTrace, Status, read_sep, sep_status
from noisewise.result import network_outputs

BUDGET = nw.Budget(epsilon=2.0, delta=1e-6)
ROWS = 3000
AGE, SEX = nw.Column(name="age", kind="real", bounds=(20, 80)), nw.Column(name="sex", kind="binary")
SAMPLE = nw.PublicSample(
    {"age": np.array([30.0, 40.0]), "sex": np.array([0, 1])}, nw.Schema((AGE, SEX))
)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    age, sex = rng.uniform(20, 80, ROWS), rng.integers(0, 2, ROWS)
    predictor = -0.4 + 0.9 * (age - 50) / 30 + 0.6 * sex
    data = {
        "age": age,
        "sex": sex,
        "ill": (rng.random(ROWS) < 1 / (1 + np.exp(-predictor))).astype(int),
        "pressure": 1120 + 20 * predictor + rng.normal(0, 8, ROWS),
        "visits": rng.poisson(2, ROWS),
    }
    schema = nw.Schema(
        (
            AGE,
            SEX,
            nw.Column(name="ill", kind="binary"),
            nw.Column(name="pressure", kind="real", bounds=(1000, 1200)),
            nw.Column(name="visits", kind="count", bounds=(0, 20)),
        )
    )
    return nw.Table(data, schema)


def fitted(model, table, target, **more):
    return nw.fit(
        model,
        table,
        budget=BUDGET,
        target=target,
        features=["age", "sex"],
        method="dp-sep",
        insecure_seed=3,
        **more,
    )


@pytest.fixture(scope="module")
def linear(table):
    return fitted("linear", table, "pressure")


@pytest.fixture(scope="module")
def network(table):
    return fitted("network(hidden=5)", table, "pressure", steps=40, draws=200)


def test_a_linear_fit_is_in_the_targets_units(linear):
    """Within 4.5 sds of the truth, one fixed seed: four right intervals miss that once in 10^5."""
    found = linear.summary()
    truth = {"intercept": 1112.0, "age": 18.0, "sex": 12.0, "noise": 8.0}
    for name, value in truth.items():
        assert abs(found["mean"][name] - value) < 4.5 * found["sd"][name]
        assert found["sd"][name] < 4
    assert linear.status is Status.OK
    unaware = linear.summary(noise_unaware=True)
    assert (unaware["sd"] < found["sd"]).all()


@pytest.mark.parametrize(("model", "factor"), [("logistic", 1.0), ("probit", 0.6)])
def test_binary_fits_find_the_truth(model, factor, table):
    """As above; a probit's coefficients are about 0.6 of a logistic's, to within a tenth."""
    found = fitted(model, table, "ill").summary()
    for name, value in {"intercept": -0.4, "age": 0.9, "sex": 0.6}.items():
        near = 4.5 * found["sd"][name] + 0.1 * abs(value) * (model == "probit")
        assert abs(found["mean"][name] - factor * value) < near


def test_the_certificate_counts_everything(linear, network):
    for result in (linear, network):
        (reason,) = result.privacy.verify().reasons
        assert "insecure_seed" in reason
        whats = [release.what for release in result.privacy.releases]
        assert "number of rows" in " ".join(whats)
        assert "sites" in whats
    assert len(linear.privacy.releases) == 2
    bought = [r.what for r in network.privacy.releases if r.what.startswith("second moments")]
    assert len(bought) == 6
    assert sum("target" in what for what in bought) == 2


def test_a_declared_target_is_not_bought():
    column = nw.Column(name="pressure", kind="real", bounds=(1000, 1200), mean=1120, sd=15)
    schema = nw.Schema((nw.Column(name="sex", kind="binary"), column))
    sex, pressure = np.arange(10) % 2, np.linspace(1100, 1150, 10)
    job = Job(
        bound=bind_model(Network(2), schema, "pressure"),
        table=nw.Table({"sex": sex, "pressure": pressure}, schema),
        budget=BUDGET,
        draws=100,
        steps=None,
        public_sample=None,
        covariate_share=0.0,
        misfit_share=None,
        insecure_seed=None,
        progress=None,
    )
    assert _target_scale(job, PrivateRows({}), 10) == (1120.0, 25.0)
    assert _purchases(job) == whitening_cost(BUDGET)  # of the inputs alone


def test_a_network_is_saved_reported_and_read_back(network, tmp_path):
    folder = network.save(tmp_path / "result")
    loaded = nw.Result.load(folder)
    assert list(loaded.summary().index) == ["noise"]  # weights say nothing one by one
    points = np.array([[-0.5, 0.0], [0.5, 1.0]])
    said = [np.concatenate(list(network_outputs(r, points))) for r in (network, loaded)]
    assert np.array_equal(*said)
    assert said[0].shape == (2, 200)
    page = loaded.report(tmp_path / "page.html").read_text()
    assert "Neural network of pressure" in page
    assert 'id="effects' in page
    assert "Plain DP-SEP" in page
    written = json.loads((folder / "result.json").read_text())["request"]["network"]
    assert len(written["input_centre"]) == 2


def test_the_network_sees_the_slope(network):
    """Truth at the two points: 1103 and 1133 (20 times -0.85 and 0.65); a flat network fails."""
    low, high = np.concatenate(list(network_outputs(network, np.array([[-0.5, 0.0], [0.5, 1.0]]))))
    assert 10 < high.mean() - low.mean() < 40


def test_a_network_predicts_new_records(network):
    encoding = network.request.encoding[1:]
    encoded = np.array([[-0.5, 0.0], [0.5, 1.0]])
    names = [column["column"] for column in encoding]
    own = {
        column["column"]: encoded[:, k] * column["scale"] + column["centre"]
        for k, column in enumerate(encoding)
    }
    said = np.concatenate(list(network_outputs(network, encoded)))
    found = network.predict({name: own[name] for name in names})
    np.testing.assert_allclose(found["mean"], said.mean(1), rtol=1e-4)
    wider = network.predict(own, kind="outcome", seed=1)
    assert ((wider["upper"] - wider["lower"]) > (found["upper"] - found["lower"])).all()


@pytest.mark.parametrize(
    ("model", "more", "words"),
    [
        ("poisson", {"target": "visits"}, "needs a site of the model, and the model poisson"),
        (
            "mixture(2)",
            {"features": ["sex"], "target": "ill"},
            "a site of the model, and a mixture",
        ),
        ("linear", {"posterior": "exact"}, "belong to method='dpvi'"),
        ("linear", {"method": "vi"}, "method must be"),
        ("network", {"method": "dpvi"}, "many equal optima"),
        ("network", {"features": []}, "feature"),
        ("network", {"target": "ill"}, "declared binary"),
        ("network", {"public_sample": SAMPLE}, "drop the public_sample"),
    ],
)
def test_what_cannot_be_fitted_is_refused_before_spending(model, more, words, table, monkeypatch):
    def spent(*_, **__):
        raise AssertionError("something was bought")

    monkeypatch.setattr(import_module("noisewise.fitting.fit"), "public_count", spent)
    asked = {"target": "pressure", "features": ["age", "sex"], "method": "dp-sep"} | more
    with pytest.raises(nw.NoisewiseError, match=words):
        nw.fit(model, table, budget=BUDGET, **asked)


def test_the_shape_of_the_trace_does_not_tell_the_number_of_rows(monkeypatch):
    """With room for 1000 numbers, 100 rows would be heard every 5 steps, and 300 rows every 3."""
    monkeypatch.setattr("noisewise.engine.run._CHUNK_NUMBERS", 1000)
    phase = Phase(LinearSite(1), SepSettings(bounds=Bounds(1.0, 1.0), steps=100))
    mechanism = replace(phase.mechanism, noise_multiplier=1.0)
    run = assemble(phase, mechanism, 150, np.zeros(1))
    heard = {100: [], 300: []}
    for rows, ends in heard.items():
        table = {"X": np.ones((rows, 1), np.float32), "y": np.zeros(rows, np.float32)}
        fit_secure([run], PrivateRows(table), progress=ends.append)
    assert heard[100] == heard[300]


def test_a_state_that_is_not_finite_is_a_status_not_a_crash():
    site = LinearSite(3)
    nan, nothing = np.full(site.family.packed, np.nan, np.float32), np.zeros(0)
    fit = SepFit(np.zeros(3), nan, nan, nothing, nan, nothing)
    found = read_sep(site, fit, 100, 5, np.random.default_rng(0))
    assert np.isnan(found.aware.theta).all() and np.isnan(found.unaware.theta).all()
    settings = SepSettings(bounds=Bounds(1.0, 1.0))
    trace = SepTrace(np.zeros((20, 3)), np.arange(20, 401, 20))
    assert sep_status(trace, settings, found.aware.theta) is Status.DIVERGED


def watched(means):
    settings = SepSettings(bounds=Bounds(1.0, 1.0), steps=len(means), averaged=0.5)
    theta = np.random.default_rng(0).normal(0, 0.1, (400, 3))
    return sep_status(SepTrace(means, np.arange(1, len(means) + 1)), settings, theta)


def test_the_status_tells_noise_from_drift():
    """Fixed seed. Pure noise moves halves by about 0.6 of the limit's unit, a drift by 3.5."""
    noise = np.random.default_rng(1).normal(0, 0.3, (40, 3))
    assert watched(noise) is Status.OK
    drift = noise * 0.01 + np.linspace(0, 5, 40)[:, None]
    assert watched(drift) is Status.NOT_CONVERGED
    assert watched(np.full((40, 3), np.nan)) is Status.DIVERGED
