"""A bought shape: its price, its noise, and that simulated rows are like the table's."""

import numpy as np
import pytest

from noisewise._validate import NoisewiseError
from noisewise.covariates import buy_shape, covariate_bins, covariate_columns, shape_cost
from noisewise.covariates.budget import part_of
from noisewise.covariates.dependence import _moments
from noisewise.covariates.marginals import release_marginals
from noisewise.covariates.pairs import make_features, release_pairs
from noisewise.data import Column, PrivateRows, Schema, Table
from noisewise.mechanism import Budget, Mechanism, Release, SumRelease, issue
from noisewise.models import bind, logistic

SCHEMA = Schema(
    (
        Column(name="age", kind="real", bounds=(17, 90)),
        Column(name="gain", kind="real", bounds=(0, 100_000)),
        Column(name="status", kind="category", categories=("single", "married", "widowed", "rare")),
        Column(name="sex", kind="binary"),
        Column(name="ill", kind="binary"),
    )
)
COLUMNS = ("age", "gain", "status", "sex")
ROWS = 20_000
BUDGET = Budget(epsilon=1.0, delta=1e-6)
GENEROUS = Budget(epsilon=50.0, delta=1e-6)


def people(rows=ROWS, seed=0):
    """Age goes with status, few have gains, and next to nobody the last level."""
    rng = np.random.default_rng(seed)
    status = rng.choice(4, size=rows, p=[0.4, 0.52, 0.0795, 0.0005])
    age = np.clip(rng.normal(np.array([28.0, 44.0, 62.0, 40.0])[status], 9), 17, 90)
    gain = np.where(rng.random(rows) < 0.92, 0.0, np.minimum(1e5, 3000 * rng.pareto(1.2, rows)))
    sex = (rng.random(rows) < np.where(status == 1, 0.85, 0.45)).astype(np.int8)
    return {
        "age": age,
        "gain": gain,
        "status": status.astype(np.int32),
        "sex": sex,
        "ill": rng.integers(0, 2, rows).astype(np.int8),
    }


@pytest.fixture(scope="module")
def table():
    return Table.from_arrays(people(), SCHEMA)


@pytest.fixture(scope="module")
def shape(table):
    return buy_shape(table, COLUMNS, ROWS, BUDGET, share=0.1, insecure_seed=3)


@pytest.fixture(scope="module")
def simulated(shape):
    return shape.simulate(np.random.default_rng(1), ROWS)


def test_a_shape_costs_its_share(shape):
    noise = np.array([release.noise_multiplier for release in shape.releases])
    whole = Mechanism(clip_norm=1.0, sampling_rate=1.0, steps=1).calibrate(BUDGET).multiplier
    # Squared signal-to-noise adds up; pessimistic accounting may take a little more noise.
    assert (whole**2 / noise**2).sum() == pytest.approx(0.1, rel=0.01)
    left = Mechanism(clip_norm=1.0, sampling_rate=1.0, steps=1).calibrate(BUDGET, shape.releases)
    spent = issue(BUDGET, (*shape.releases, left.release("fit")), {}).epsilon_spent
    assert spent <= BUDGET.epsilon * (1 + 1e-6)
    assert left.multiplier == pytest.approx(whole / np.sqrt(0.9), rel=0.01)


def test_one_record_moves_the_releases_by_no_more_than_is_accounted(monkeypatch):
    seen = []

    def record(rows, sensitivity, budget, *, what, insecure_seed, bought):
        (values,) = rows.unsafe_columns().values()
        seen.append((values, sensitivity))
        release = Release(what=what, noise_multiplier=1.0)
        return SumRelease(values.sum(0), sensitivity, release)

    monkeypatch.setattr("noisewise.covariates.marginals.release_sum", record)
    bins = covariate_bins(SCHEMA, COLUMNS)
    rows = PrivateRows(people())
    marginals = release_marginals(rows, bins, BUDGET, insecure_seed=0)
    ((values, sensitivity),) = seen
    assert np.linalg.norm(values, axis=1).max() <= sensitivity * (1 + 1e-12)
    # Products are clipped by the release itself; few have to be.
    monkeypatch.setattr("noisewise.covariates.pairs.release_sum", record)
    release_pairs(rows, bins, marginals, ROWS, BUDGET, insecure_seed=0)
    values, sensitivity = seen[-1]
    assert np.mean(np.linalg.norm(values, axis=1) > sensitivity) < 0.1


def test_noisy_counts_are_unbiased_with_the_stated_noise(table):
    bins = covariate_bins(SCHEMA, COLUMNS)
    part, columns = part_of(BUDGET, 0.05), table.rows.unsafe_columns()
    truth = np.concatenate([np.bincount(b.states(columns), minlength=len(b)) for b in bins])
    z = []
    for seed in range(20):
        found = release_marginals(table.rows, bins, part, insecure_seed=seed)
        z.append((np.concatenate(found.counts) - truth) / found.noise_sd)
    z = np.concatenate(z)
    # Some 1900 normals, seeded: mean and sd within four standard errors (one in 8000).
    assert abs(z.mean()) < 4 / np.sqrt(len(z))
    assert abs(z.std() - 1) < 4 / np.sqrt(2 * len(z))


def test_simulated_rows_have_the_tables_marginals(table, simulated):
    real = table.rows.unsafe_columns()
    assert simulated["age"].mean() == pytest.approx(real["age"].mean(), abs=1.0)
    assert simulated["age"].std() == pytest.approx(real["age"].std(), rel=0.05)
    assert np.mean(simulated["gain"] == 0) == pytest.approx(0.92, abs=0.015)
    shares = np.bincount(simulated["status"], minlength=4) / ROWS
    assert shares == pytest.approx(np.bincount(real["status"], minlength=4) / ROWS, abs=0.012)
    assert shares[3] < 0.01


def test_simulated_rows_go_together_as_the_tables_do(table, simulated):
    def correlations(arrays):
        columns = [arrays["age"], arrays["status"] == 0, arrays["status"] == 2, arrays["sex"]]
        return np.corrcoef(np.stack(columns).astype(float))

    assert correlations(simulated) == pytest.approx(
        correlations(table.rows.unsafe_columns()), abs=0.07
    )
    assert abs(correlations(table.rows.unsafe_columns())[0, 1]) > 0.5


def test_with_hardly_any_noise_the_moments_are_met(table):
    shape = buy_shape(table, COLUMNS, ROWS, GENEROUS, share=0.5, insecure_seed=0)
    assert shape.marginals.noise_sd < 1
    # Means of 16,384 products within [-1, 1], of which the sd is at most 0.5: four standard errors.
    features = shape.pairs.features
    assert _moments(features, shape.states) == pytest.approx(shape.pairs.moments, abs=0.016)
    columns = table.rows.unsafe_columns()
    age, scores = shape.bins[0].states(columns), features.tables[0][:, 0]
    for level in range(3):
        simulated = scores[shape.states[shape.states[:, 2] == level, 0]].mean()
        real = scores[age[columns["status"] == level]].mean()
        # The smallest level has 1,300 simulated rows with a sd of 0.6 or so, and couplings as many.
        assert simulated == pytest.approx(real, abs=0.1)


def test_noise_alone_leaves_columns_independent():
    rng = np.random.default_rng(5)
    arrays = SCHEMA.simulate(rng, 2000)
    shape = buy_shape(
        Table.from_arrays(arrays, SCHEMA), COLUMNS, 2000, BUDGET, share=0.05, insecure_seed=1
    )
    found = shape.simulate(rng, 20_000)
    columns = np.stack([found["age"], found["status"] == 1, found["sex"]]).astype(float)
    off = np.corrcoef(columns)[np.triu_indices(3, 1)]
    # The moments' own noise would be correlations of about 0.15.
    assert np.abs(off).max() < 0.15


def test_a_perturbed_shape_differs_as_much_as_the_noise(shape):
    rng = np.random.default_rng(2)
    status = 2
    draws = np.array([shape.perturbed(rng).shares[status] for _ in range(200)])
    noise = shape.marginals.noise_sd / ROWS
    spread = draws.std(0)
    # Two hundred draws: a sd is known to 5%; levels that everybody knows of move by the noise.
    assert spread[:2] == pytest.approx(noise, rel=0.35)
    assert (draws >= 0).all()
    # Ten rows under noise of some forty: anything between nobody and a few dozens.
    assert draws[:, 3].max() > 0.5 * noise
    assert draws[:, 3].min() == 0
    other = shape.perturbed(rng).simulate(rng, 5000)
    assert np.corrcoef(other["age"], other["status"] == 0)[0, 1] < -0.3


def test_rows_come_in_the_tables_form(shape, simulated, table):
    assert tuple(simulated) == COLUMNS
    for name in COLUMNS:
        assert simulated[name].dtype == table.rows.unsafe_columns()[name].dtype
    rows = simulated | {"ill": np.zeros(ROWS, np.int8)}
    assert len(Table.from_arrays(rows, SCHEMA, allow_constant=True)) == ROWS
    again = shape.simulate(np.random.default_rng(1), ROWS)
    assert all(np.array_equal(again[name], simulated[name]) for name in COLUMNS)


def test_a_single_column_has_no_pairs_and_one_release_takes_the_whole_share(table):
    shape = buy_shape(table, ("age",), ROWS, BUDGET, share=0.1, insecure_seed=0)
    assert len(shape.releases) == 1
    assert shape_cost(SCHEMA, ("age",), BUDGET, 0.1) == shape.releases
    assert shape.simulate(np.random.default_rng(0), ROWS)["age"].mean() == pytest.approx(39, abs=2)


def test_columns_of_a_model_are_found():
    view = bind(logistic(), SCHEMA, "ill")
    assert covariate_columns(view, frozenset({"y"})) == COLUMNS
    with pytest.raises(NoisewiseError, match="no covariates"):
        buy_shape(Table.from_arrays(people(100), SCHEMA), (), 100, BUDGET)


def test_what_contradicts_the_schema_is_said(table):
    declared = {
        "age": Column(name="age", kind="real", bounds=(17, 90), mean=70, sd=10),
        "sex": Column(name="sex", kind="binary", share=0.1),
    }
    schema = Schema(tuple(declared.get(column.name, column) for column in SCHEMA))
    arrays = table.rows.unsafe_columns()
    found = buy_shape(Table.from_arrays(arrays, schema), COLUMNS, ROWS, BUDGET, insecure_seed=0)
    text = " ".join(found.contradictions())
    assert "age: mean about 3" in text or "age: mean about 4" in text
    assert "sex=1: share about 0.6" in text
    assert "gain: about 92% of rows are at 0" in text
    assert "status" not in text
    assert "noise of sd" in found.describe()["covariates"]


def test_closely_tied_columns_do_not_lose_their_marginals():
    rng = np.random.default_rng(0)
    first = rng.integers(0, 4, ROWS).astype(np.int32)
    names = ("a", "b", "c", "d")
    tied = [Column(name=n, kind="category", categories=names) for n in ("one", "two")]
    reals = [Column(name=n, kind="real", bounds=(0, 1)) for n in ("x", "y")]
    schema = Schema((*tied, *reals))
    x = rng.random(ROWS)
    arrays = {"one": first, "two": first, "x": x, "y": np.clip(x + rng.normal(0, 0.02, ROWS), 0, 1)}
    table = Table.from_arrays(arrays, schema)
    shape = buy_shape(table, schema.names, ROWS, BUDGET, insecure_seed=0)
    found = shape.simulate(rng, ROWS)
    assert np.mean(found["one"] == found["two"]) > 0.95
    assert np.corrcoef(found["x"], found["y"])[0, 1] > 0.9
    assert np.bincount(found["one"]) / ROWS == pytest.approx(np.full(4, 0.25), abs=0.02)


def test_features_are_bounded():
    bins = covariate_bins(SCHEMA, COLUMNS)
    shares = tuple(np.full(len(column), 1 / len(column)) for column in bins)
    features = make_features(shares, bins, 0.0)
    for column, feature in zip(bins, features.tables, strict=True):
        most = 4.0 if column.ordered else 1.0
        assert np.linalg.norm(feature, axis=1).max() <= most + 1e-12
