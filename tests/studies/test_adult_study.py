"""DPVIm's Adult experiment on a small simulated table. Seeds are fixed."""

from pathlib import Path

import numpy as np
import pytest

from noisewise.dpvi import BlockSums, Trace
from noisewise.studies.core.adult import DROPPED_BY_DPVIM, dpvim_design, read_adult
from noisewise.studies.core.study import Column, Options, Part
from noisewise.studies.dpvim.adult import ADULT, Prepared, adult_settings, noise_errors
from noisewise.studies.dpvim.common import RULES, Logistic, find_optimum

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "adult"
here = pytest.mark.skipif(not FOLDER.exists(), reason="UCI Adult is not in ../shared/data/adult")


@here
def test_the_design_is_the_authors():
    design = dpvim_design(read_adult(FOLDER, DROPPED_BY_DPVIM))
    assert design.shape == (30_162, 96)
    assert np.linalg.matrix_rank(design.T.astype(float) @ design) == 96
    np.testing.assert_array_equal(design[:, -1], 1)
    # None of the largest categories is left: no indicator holds for most rows but the ones.
    binary = [column for column in design.T[:-1] if set(np.unique(column)) == {0.0, 1.0}]
    assert len(binary) == 90
    assert max(column.mean() for column in binary) < 0.5


@pytest.fixture(scope="module")
def prepared():
    rng = np.random.default_rng(0)
    design = rng.normal(size=(2000, 3)).astype(np.float32)
    outcome = (rng.random(2000) < 1 / (1 + np.exp(-design @ [1.0, -0.5, 0.3]))).astype(np.float32)
    optimum = find_optimum(Logistic(design.astype(float), outcome))
    return Prepared({"X": design, "y": outcome}, optimum, {(2.0, 6000): 0.5, (1.0, 6000): 0.6})


def test_a_small_run_approaches_the_reference(prepared):
    """6000 steps with noise that hardly counts. The start is an l2 error of 1.1 in the means and
    1.6 in the sds away; no more than a tenth and a quarter of it are to be left."""
    options = Options(
        methods=("aligned",), columns=(Column(2.0), Column(1.0)), fits=2, epochs=60, draws=100
    )
    found = ADULT.run(Part("aligned"), options, prepared)
    lines = {(line.panel, line.name): line for line in found}
    assert (lines["means", "aligned"].values < 0.11).all()
    assert (lines["scales", "aligned"].values < 0.4).all()
    assert lines["scales' noise", "aligned"].values.shape == (2, 2)
    assert lines["scales' noise", "aligned, none estimated"].dashed


def test_settings_are_the_papers():
    found = {rule: adult_settings(rule, 4000) for rule in RULES}
    assert {settings.steps for settings in found.values()} == {400_000}
    assert found["preconditioned"].by_slope
    assert found["natural"].clip_norm == found["aligned_natural"].clip_norm == 0.1


def simulated_trace(rng, drift):
    """100 blocks of 50 independent N(level, sd) iterates of four parameters, the last drifting."""
    sd = np.array([0.1, 0.2, 0.3, 0.1])
    steps = sd * rng.standard_normal((100, 50, 4))
    steps[..., 3] += np.linspace(0, drift, 5000).reshape(100, 50)
    shift = steps - steps[:, :1]
    zero = np.zeros((100, 4))
    squares = (shift**2).sum(1)
    sums = BlockSums(
        count=np.full(100, 50.0),
        start=steps[:, 0],
        shift=shift.sum(1),
        gradient=zero,
        shift_shift=squares,
        gradient_shift=zero,
        gradient_gradient=zero,
        squares=squares,
    )
    return Trace(sums, steps[-1, -1])


def test_noise_is_read_from_converged_tails():
    """Means' sds are 0.1 and 0.2, scales' 0.3 and one that drifts and must not count. Over 200
    repeats an sd is known to 5%, so the MSE is about 0.0025 of the baseline and the baseline known
    to 10%; limits are four times an sd's error, beyond one in 10^4."""
    rng = np.random.default_rng(0)
    found = noise_errors([simulated_trace(rng, 5.0) for _ in range(200)]).mean(-1)
    assert found[0, 1] == pytest.approx((0.1**2 + 0.2**2) / 2, rel=0.4)
    assert found[1, 1] == pytest.approx(0.3**2, rel=0.4)
    assert (found[:, 0] < 0.04 * found[:, 1]).all()


def test_where_nothing_converged_there_is_no_figure():
    rng = np.random.default_rng(0)
    traces = [simulated_trace(rng, 5.0) for _ in range(3)]
    assert np.isnan(noise_errors(traces, threshold=1e-9)).all()
