"""The coverage run: the same whatever the grouping, resumable, spread over processes."""

import numpy as np
import pytest

import noisewise as nw
from noisewise import NoisewiseError
from noisewise.models.conjugate import beta_bernoulli
from noisewise.models.glm import logistic

SCHEMA = nw.Schema((nw.Column(name="x", kind="binary"),), rows=1000)
BUDGET = nw.Budget(epsilon=1.0, delta=1e-5)


@pytest.fixture(scope="module")
def plan():
    return nw.plan(beta_bernoulli, schema=SCHEMA, rows=1000, budget=BUDGET, fits=0, steps=400)


@pytest.fixture(scope="module")
def run(plan):
    def go(**options):
        asked = {"simulations": 20, "draws": 100, "seed": 3, "group": 10} | options
        return nw.coverage(
            beta_bernoulli, schema=SCHEMA, rows=1000, budget=BUDGET, plan=plan, **asked
        )

    return go


@pytest.fixture(scope="module")
def reference(run):
    return run()


def assert_same(one, two):
    """Up to floating-point rounding, which differs between widths of a vectorised program."""
    np.testing.assert_allclose(one.truth, two.truth, rtol=1e-5)
    sd = two.draws.std(1)
    assert (np.abs(one.draws.mean(1) - two.draws.mean(1)) < 0.02 * sd).all()
    assert list(one.status) == list(two.status)


@pytest.mark.parametrize("group", [1, 20])
def test_grouping_does_not_matter(run, reference, group):
    assert_same(run(group=group), reference)


def test_another_seed_is_another_run(run, reference):
    assert not np.allclose(run(seed=4).truth, reference.truth)


@pytest.mark.slow
def test_processes_give_the_same(run, reference):
    assert_same(run(jobs=2), reference)


def test_a_local_dask_cluster_gives_the_same(run, reference):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as here,
        distributed.Client(here),
    ):
        assert_same(run(jobs=-1, backend="dask"), reference)


@pytest.mark.slow
def test_a_local_ray_cluster_gives_the_same(run, reference):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        assert_same(run(jobs=-1, backend="ray"), reference)
    finally:
        ray.shutdown()


def test_an_unknown_backend_gets_one_line(run):
    with pytest.raises(NoisewiseError, match="joblib cannot use backend='nowhere'"):
        run(jobs=2, backend="nowhere")


def test_a_killed_run_goes_on(run, reference, tmp_path):
    class Killed(Exception):
        pass

    def kill(done, total):
        if done >= 10:
            raise Killed

    # One group is finished when it is killed.

    folder = tmp_path / "groups"
    with pytest.raises(Killed):
        run(folder=folder, progress=kill)
    assert [path.name for path in folder.glob("group-*.npz")] == ["group-0000000.npz"]
    seen = []
    found = run(folder=folder, progress=lambda done, total: seen.append(done))
    assert seen[0] == 10  # what was finished is not run again
    assert_same(found, reference)
    # Fewer of the same are there already; another run's folder is refused.
    assert len(run(simulations=10, folder=folder).truth) == 10
    with pytest.raises(NoisewiseError, match="holds another run's groups"):
        run(seed=9, folder=folder)
    with pytest.raises(NoisewiseError, match="is not empty"):
        run(folder=tmp_path)


def test_what_was_run_is_said(reference):
    assert reference.about["simulations"] == 20
    assert reference.about["covariates"] == "from the schema"
    assert [row["parameter"] for row in reference.table()] == ["probability"]
    assert reference.floor == pytest.approx((1 / 120) ** 0.5)


@pytest.mark.slow
def test_covariates_come_from_the_public_sample():
    """Two features that always agree: only their sum is known, so their errors cancel."""
    columns = [nw.Column(name=n, kind="real", bounds=(-3, 3), mean=0.0, sd=1.0) for n in "ab"]
    schema = nw.Schema((*columns, nw.Column(name="y", kind="binary")), rows=1000)
    same = np.random.default_rng(0).normal(size=2000).clip(-3, 3)
    sample = nw.PublicSample({"a": same, "b": same}, schema)
    options = {"schema": schema, "rows": 1000, "budget": BUDGET, "target": "y"}
    made = nw.plan(logistic(), fits=0, steps=400, public_sample=sample, **options)
    found = nw.coverage(
        logistic(),
        plan=made,
        public_sample=sample,
        simulations=24,
        draws=200,
        test_rows=100,
        **options,
    )
    error = found.draws.mean(1) - found.truth
    assert np.corrcoef(error[:, 1], error[:, 2])[0, 1] < -0.8
    assert found.predictive is not None
    assert found.predictive.rmse < 0.15
