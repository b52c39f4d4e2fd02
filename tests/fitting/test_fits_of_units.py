"""Fits of units: one person more or less, with all rows, moves what is released by one bound.

Sensitivities are compared without noise, exactly; whatever breaks them is caught by the same check
(`MUTANTS`). Fits with one insecure seed are compared with those of rows to float accuracy.
"""

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from unittest import mock

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import noisewise as nw
from noisewise.audit.neighbours import _SIGN, _Signed
from noisewise.baselines.non_private import unsafe_posterior
from noisewise.covariates import covariate_bins, marginals, pairs
from noisewise.data import PrivateRows
from noisewise.dpvi import Settings, assemble, prepared_rows
from noisewise.engine import run_secure
from noisewise.mechanism import Mechanism, sums
from noisewise.models import bind_model, bound, identity_frame, ready_made

COLUMNS = (
    nw.Column(name="age", kind="real", bounds=(0, 100)),
    nw.Column(name="ward", kind="category", categories=("a", "b", "c")),
    nw.Column(name="ill", kind="binary"),
)
MOST = 5
SCHEMA = nw.Schema(COLUMNS, unit=nw.Unit("person", MOST))
BUDGET = nw.Budget(epsilon=1.0, delta=1e-6)
FEW = 20
AMPLE = nw.Budget(epsilon=1e4, delta=1e-6)
"""So few people would be hidden in the noise of less, and nothing but counts asked of them."""


def people(count: int, most: int = MOST, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(count), 1 + rng.integers(most, size=count))
    rng.shuffle(person)
    rows = len(person)
    age, ward = rng.uniform(0, 100, rows), rng.integers(3, size=rows)
    eta = -0.4 + 0.8 * (age - 50) / 50 + 0.5 * (ward == 1)
    ill = (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(int)
    names = np.array(["a", "b", "c"])
    return {"person": person, "age": age, "ward": names[ward], "ill": ill}


def own_model(X, y=None):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
    with numpyro.plate("rows", X.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=X @ w), obs=y)


# -- how far one unit moves what is released ---------------------------------------------------


def gradient_moves(one_more: dict, model="logistic") -> float:
    """How far the sum of gradients moves with a unit more, in clip norms."""
    found = []
    for frame in (people(FEW), one_more):
        table = nw.Table(frame, SCHEMA)
        at = bind_model(model, SCHEMA, "ill")
        mechanism = Mechanism(clip_norm=0.5, sampling_rate=1.0, steps=10, noise_multiplier=1.0)
        chosen = Settings(
            steps=10, clip_norm=0.5, full_curvature=False, learning_rate=0.01, rule="aligned"
        )
        run = assemble(chosen, at.target, mechanism, FEW + 1)
        rows = at.view.private(table).map(partial(prepared_rows, at.target, run))
        silent = run.numbers._replace(noise_scale=jnp.zeros(run.algorithm.released))
        watched = replace(run, algorithm=_Signed(run.algorithm), numbers=silent)
        rows = rows.map(lambda c: c | {_SIGN: np.ones(len(next(iter(c.values()))), np.float32)})
        found.append(run_secure(watched, rows).kept[0].astype(float))
    return float(np.linalg.norm(found[1] - found[0]) / 0.5) * (1 - 1e-6)  # in single precision


class _Silence:
    """Noise that is none."""

    def standard_normal(self, size: int) -> np.ndarray:
        return np.zeros(size)


def purchase_moves(one_more: dict) -> list[float]:
    """How far bought counts and products move, in the sensitivities that are accounted for."""
    tables = [nw.Table(frame, SCHEMA) for frame in (people(FEW), one_more)]
    found = covariate_bins(SCHEMA, ("age", "ward"))
    how = {"unit": SCHEMA.unit}
    with mock.patch.object(sums, "_generator", return_value=_Silence()):
        counts = [marginals.release_marginals(t.rows, found, AMPLE, **how) for t in tables]
        both = [
            pairs.release_pairs(t.rows, found, counts[0], 3.0 * FEW, AMPLE, **how) for t in tables
        ]
    sizes = [each.sizes * MOST for each in counts]
    moved = [
        np.concatenate(
            [
                *(b - a for a, b in zip(*(c.counts for c in counts), strict=True)),
                sizes[1] - sizes[0],
            ]
        ),
        (both[1].moments - both[0].moments)[np.triu_indices(len(both[0].moments))] * 3.0 * FEW,
    ]
    accounted = [
        counts[0].noise_sd / counts[0].release.noise_multiplier,
        both[0].noise_sd * 3.0 * FEW / both[0].release.noise_multiplier,
    ]
    return [float(np.linalg.norm(m) / a) for m, a in zip(moved, accounted, strict=True)]


def with_one_more(rows: list[tuple[float, str, int]]) -> dict[str, np.ndarray]:
    """The same people and one unit more, who comes last."""
    frame = people(FEW)
    age, ward, ill = zip(*rows, strict=True)
    more = {"person": [FEW] * len(rows), "age": age, "ward": ward, "ill": ill}
    return {name: np.concatenate([column, more[name]]) for name, column in frame.items()}


ROW = st.tuples(st.floats(0, 100), st.sampled_from("abc"), st.integers(0, 1))
UNITS = st.lists(ROW, min_size=1, max_size=MOST)
WORST = [(0.0, "c", 1)] * MOST


@settings(max_examples=25, deadline=None, derandomize=True)
@given(UNITS)
def test_a_unit_moves_gradients_by_at_most_the_clip_norm(rows):
    assert gradient_moves(with_one_more(rows)) <= 1


@pytest.mark.parametrize("model", ["logistic", own_model])
def test_a_units_rows_are_added_up_inside_the_clip(model):
    """The worst unit takes up all of the bound, and no more."""
    assert 0.99 < gradient_moves(with_one_more(WORST), model) <= 1


@settings(max_examples=60, deadline=None, derandomize=True)
@given(UNITS)
def test_a_unit_moves_purchases_by_at_most_their_sensitivity(rows):
    assert max(purchase_moves(with_one_more(rows))) <= 1 + 1e-9


def test_sensitivities_of_purchases_are_tight():
    counts, products = purchase_moves(with_one_more(WORST))
    assert min(counts, products) > 0.99


@contextmanager
def rows_are_records():
    """Sampled, clipped and counted row by row, whoever they are about."""

    def flat(self):
        return PrivateRows(self._columns)

    with (
        mock.patch.object(PrivateRows, "units", flat),
        mock.patch.object(bound, "of_units", lambda target, most: target),
        mock.patch.object(ready_made, "of_units", lambda target, most: target),
    ):
        yield


@contextmanager
def rows_are_clipped_one_by_one():
    """The bound of a unit, on each of its rows."""

    def flat(self):
        return PrivateRows(self._columns)

    with (
        mock.patch.object(PrivateRows, "unit_sums", flat),
        mock.patch.object(pairs.Features, "weights", lambda self, features: np.ones(len(features))),
    ):
        yield


@contextmanager
def sensitivity_of_a_row():
    """Counts with the bound of a row, in which a unit's sum is not clipped."""
    with (
        mock.patch.object(marginals, "marginals_sensitivity", lambda columns, unit: columns**0.5),
        mock.patch.object(
            sums,
            "rounded_rows",
            lambda values, grid: np.rint(values * (grid.points / grid.clip_norm)).astype(np.int64),
        ),
    ):
        yield


MUTANTS = {
    rows_are_records: lambda: gradient_moves(with_one_more(WORST)),
    rows_are_clipped_one_by_one: lambda: max(purchase_moves(with_one_more(WORST))),
    sensitivity_of_a_row: lambda: max(purchase_moves(with_one_more(WORST))),
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_broken_units_are_caught(mutant):
    with mutant():
        moved = MUTANTS[mutant]()
    assert not moved <= 1 + 1e-9


# -- fits --------------------------------------------------------------------------------------


def fitted(model, frame, schema, **how):
    table = nw.Table(frame, schema)
    how = {"budget": BUDGET, "target": "ill", "steps": 200, "draws": 200} | how
    return nw.fit(model, table, insecure_seed=5, **how)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["logistic", own_model])
def test_a_unit_of_one_row_is_a_row(model):
    """The same fit, purchases included, to float accuracy."""
    frame = people(2000, most=1)
    rows = {name: column for name, column in frame.items() if name != "person"}
    by_row = fitted(model, rows, nw.Schema(COLUMNS))
    by_unit = fitted(model, frame, nw.Schema(COLUMNS, unit=nw.Unit("person", 1)))
    for name, draws in by_row.draws.items():
        np.testing.assert_allclose(by_unit.draws[name], draws, rtol=1e-4, atol=1e-5)
    assert by_unit.privacy.releases == by_row.privacy.releases
    assert "one person with its row" in str(by_unit.privacy)
    assert "a person with several rows is protected for one of them only" in str(by_row.privacy)


@pytest.mark.slow
def test_units_are_fitted_as_the_rows_that_they_have():
    """With hardly any noise the posterior is that of all rows: within half of its sds, three times
    what 4000 noisy steps leave here; the seed is fixed."""
    frame = people(3000)
    budget = nw.Budget(epsilon=200.0, delta=1e-6)
    result = fitted("logistic", frame, SCHEMA, budget=budget, steps=2000)
    rows = {name: column for name, column in frame.items() if name != "person"}
    schema = nw.Schema(COLUMNS)
    at = bind_model("logistic", schema, "ill")
    true = unsafe_posterior(at.target, at.view.private(nw.Table(rows, schema)))
    found = result.draws["coefficients"]
    sds = np.sqrt(np.diag(true.covariance))
    assert (np.abs(found.mean(0) - true.mode) < 0.5 * sds).all()
    np.testing.assert_allclose(found.std(0), sds, rtol=0.2)


@pytest.fixture(scope="module")
def result():
    return fitted("logistic", people(1500), SCHEMA, steps=60)


def test_units_are_counted_noised_and_named(result, tmp_path):
    certificate = result.privacy
    assert abs(result.request.public_count - 1500) < 500  # noise of sd 42
    assert certificate.sources["protects"] == "one person with all its rows, up to 5"
    assert "rows of a unit" in certificate.sources
    assert not result.verify().holds  # for the seed alone
    assert len(result.verify().reasons) == 1 + ("known seed" in str(result.verify()))
    page = result.report(tmp_path / "page.html").read_text()
    assert "one person with all its rows, up to 5" in page
    assert "Every person is protected as a whole" in page
    loaded = nw.Result.load(result.save(tmp_path / "result"))
    assert loaded.request.schema == SCHEMA


def test_a_certificate_for_rows_does_not_cover_units(result):
    sources = result.privacy.sources | {"protects": nw.Schema(COLUMNS).protected}
    other = replace(result, privacy=replace(result.privacy, sources=sources))
    assert any("it protects one row" in reason for reason in other.verify().reasons)


@pytest.mark.slow
def test_a_ledger_is_about_one_unit(tmp_path):
    ledger = nw.Ledger.create(tmp_path / "l.db", nw.Budget(epsilon=9, delta=1e-6), rehearsal=True)
    fitted("logistic", people(1000), SCHEMA, ledger=ledger)
    rows = {name: column for name, column in people(1000).items() if name != "person"}
    with pytest.raises(nw.NoisewiseError, match="protects 'person' and this would protect single"):
        fitted("logistic", rows, nw.Schema(COLUMNS), ledger=ledger)
    assert ledger.account().unit == "person"


def test_a_declared_number_of_units_has_to_be_right():
    wrong = nw.Schema(COLUMNS, unit=nw.Unit("person", MOST, count=999))
    with pytest.raises(nw.NoisewiseError, match=r"\[unit\] count = 999"):
        fitted("logistic", people(1000), wrong)


@pytest.mark.parametrize("model", ["mixture", "network"])
def test_models_that_know_no_units_refuse(model):
    with pytest.raises(nw.NoisewiseError, match="protects single rows only"):
        fitted(
            model,
            people(100),
            SCHEMA,
            features=["ward"],
            target="age" if model == "network" else None,
        )


def test_methods_that_know_no_units_refuse():
    with pytest.raises(nw.NoisewiseError, match="method='dp-sep' protects single rows only"):
        fitted("logistic", people(100), SCHEMA, method="dp-sep", steps=None)
    with pytest.raises(nw.NoisewiseError, match="stress=True protects single rows only"):
        nw.coverage("logistic", schema=SCHEMA, rows=99, budget=BUDGET, target="ill", stress=True)


def test_simulated_units_have_the_declared_sizes():
    """Of 4000 units, within five sds of each share (false alarms: 1e-6); the seed is fixed."""
    unit = nw.Unit("person", 4, sizes=(0.1, 0.2, 0.3, 0.4))
    view = bind_model("logistic", nw.Schema(COLUMNS, unit=unit), "ill").view
    simulated = view.simulate(np.random.default_rng(0), 4000)
    shares = np.bincount(simulated["(weight)"].sum(1).astype(int), minlength=5)[1:] / 4000
    np.testing.assert_allclose(shares, unit.shares, atol=5 * 0.5 / 4000**0.5)


def test_a_units_gradient_is_the_sum_of_its_rows():
    at = bind_model("linear", nw.Schema(COLUMNS, unit=SCHEMA.unit), "age")
    simulated = at.view.simulate(np.random.default_rng(0), 30)
    frame = identity_frame(at.target.dim)
    point = np.random.default_rng(1).standard_normal((3, at.target.dim)).astype(np.float32)
    found = at.target.record_moments(frame, point, point, at.target.prepare(simulated, frame))
    flat = {name: c.reshape(-1, *c.shape[2:]) for name, c in simulated.items()}
    rows = at.target.rows
    each = rows.record_moments(frame, point, point, rows.prepare(flat, frame))
    for of_units, of_rows in zip(found, each, strict=True):
        summed = np.asarray(of_rows).reshape(30, MOST, -1).sum(1)
        np.testing.assert_allclose(np.asarray(of_units), summed, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_a_mixed_model_is_fitted(tmp_path):
    """Its page has a title of its own; what it says is benchmarks/units.py's to measure."""
    result = fitted("mixed(logistic)", people(300, most=2), SCHEMA, features=["age"], steps=30)
    assert set(result.draws) == {"coefficients", "random_sd"}
    assert (result.draws["random_sd"] > 0).all()
    assert "Mixed logistic regression of ill" in result.report(tmp_path / "page.html").read_text()


def test_checks_know_no_units(result):
    with pytest.raises(nw.NoisewiseError, match="do not know whole units yet"):
        result.check(nw.Table(people(300), SCHEMA), budget=BUDGET)
