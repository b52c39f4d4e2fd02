"""A study end to end, small: the paper's row, its rivals and ours on the same tables."""

import json
from dataclasses import replace

import numpy as np
import pytest

from noisewise import NoisewiseError
from noisewise.studies import STUDIES, run, run_study

FITS = 24


@pytest.fixture(scope="module")
def result():
    """Beta-Bernoulli alone: the cheapest of the paper's models."""
    study = STUDIES["table1"]
    small = replace(study, columns=study.columns[1:2])
    return run(small, fits=FITS, draws=400, seed=1, jobs=1)


@pytest.mark.slow
def test_every_method_of_the_table_is_there(result):
    (measures,) = result.measures
    assert list(measures) == list(STUDIES["table1"].methods)
    assert all(found.fits == FITS and found.failed == 0 for found in measures.values())


@pytest.mark.slow
def test_noise_aware_rows_cover_and_naive_does_not(result):
    """At 24 fits the floor is 0.083 and a right posterior's RMSE exceeds twice that in fewer than
    one run in a thousand; the naive row is at 0.27 with 500 fits. The seed is fixed."""
    (measures,) = result.measures
    for name in ("exact", "bernstein-sheldon", "planned"):
        assert measures[name].rmse < 2 * measures[name].floor
    assert measures["naive"].rmse > 2 * measures["naive"].floor
    assert measures["naive"].z_sd[0] > 3


@pytest.mark.slow
def test_our_own_row_is_sharper_than_the_papers(result):
    """Its error is 0.043 against 0.079 with many fits; of 24 each, a ratio above 1 is rare."""
    (measures,) = result.measures
    assert measures["planned"].error[0] < measures["exact"].error[0]
    assert measures["planned"].reported[0] < measures["exact"].reported[0]


@pytest.mark.slow
def test_files_hold_what_was_measured(result, tmp_path):
    data, text, picture = result.save(tmp_path)
    plain = json.loads(data.read_text())
    assert plain["columns"][0]["paper"]["naive"] == [0.273, 0.007]
    ours = plain["columns"][0]["ours"]["naive"]["rmse"]
    assert ours == pytest.approx(result.measures[0]["naive"].rmse)
    table = text.read_text()
    assert f"{ours:.3f}" in table
    assert "(0.273 ± 0.007)" in table
    assert "Monte Carlo floor of the RMSE: 0.083" in table
    assert picture.stat().st_size > 10_000


@pytest.mark.slow
def test_processes_give_the_same(result):
    study = STUDIES["table1"].with_methods(("bernstein-sheldon",))
    small = replace(study, columns=study.columns[1:2])
    two = run(small, fits=FITS, draws=400, seed=1, jobs=2)
    found, known = two.measures[0]["bernstein-sheldon"], result.measures[0]["bernstein-sheldon"]
    assert found.rmse == pytest.approx(known.rmse, abs=1e-6)
    assert two.about["jobs"] == 2


def test_other_budgets_and_methods():
    study = STUDIES["table2"].at((0.3, 2.0)).with_methods(("exact", "nuts"))
    assert [column.epsilon for column in study.columns] == [0.3, 2.0]
    assert study.columns[0].paper["exact"] == (0.035, 0.011)
    assert study.columns[1].paper == {}
    with pytest.raises(NoisewiseError, match="has no method 'magic': choose from exact"):
        STUDIES["table1"].with_methods(("magic",))


def test_mistakes_get_one_line():
    with pytest.raises(NoisewiseError, match="study must be one of 'table1'"):
        run_study("table9")
    with pytest.raises(NoisewiseError, match="needs the folder of UCI's Adult files: --data DIR"):
        run_study("table3")


def test_figure_one_is_a_line_through_the_optimum(tmp_path):
    found = run_study("figure1", draws=500)
    line = found.line
    assert abs(line.optimum - np.log(np.expm1(4.0))) < 5 * line.optimum_sd
    assert line.slope == pytest.approx(line.least_squares_slope, rel=0.5)
    assert [path.suffix for path in found.save(tmp_path)] == [".json", ".md", ".png"]
