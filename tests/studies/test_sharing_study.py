"""The data-sharing study on a small table: its reference, its parts and its tables."""

from pathlib import Path

import numpy as np
import pytest

import noisewise as nw
from noisewise.studies.core.comparison import ComparisonResult
from noisewise.studies.core.lines import joined
from noisewise.studies.core.study import Column, Options, Part
from noisewise.studies.dpvim import sharing, sharing_tables
from noisewise.studies.dpvim.common import elbo_gradient, find_optimum
from noisewise.studies.dpvim.sharing import DATA_SHARING
from noisewise.studies.dpvim.sharing_tables import poisson_coefficients, regression_cells

ISRAEL = Path(__file__).parents[3] / "shared" / "data" / "israel-covid-tests"
OPTIONS = Options(
    methods=("natural", "aligned"), columns=(Column(1.0),), fits=2, epochs=1, draws=100
)


@pytest.fixture(scope="module")
def small():
    """Three columns, two components, two lengths: a minute of compiling less."""
    patch = pytest.MonkeyPatch()
    patch.setattr(sharing_tables, "COMPONENTS", 2)
    patch.setattr(sharing, "_LENGTH_PARTS", {"2": (2.0,), "1": (1.0,)})
    rng = np.random.default_rng(0)
    schema = nw.Schema(
        (
            nw.Column(name="a", kind="category", categories=("x", "y", "z")),
            nw.Column(name="b", kind="binary"),
            nw.Column(name="t", kind="binary"),
        ),
        rows=900,
    )
    codes = {"a": rng.integers(0, 3, 900), "b": rng.integers(0, 2, 900)}
    codes["t"] = (rng.random(900) < 0.2 + 0.2 * codes["b"]).astype(int)
    table = sharing_tables.SharingTable(schema, "t", codes)
    cells = regression_cells(table.model(), codes)
    noise = {(1.0, steps): 1.0 for steps in (100, 200, 400)}
    yield sharing.Prepared(table, find_optimum(cells), poisson_coefficients(cells)[0], noise)
    patch.undo()


def test_the_reference_is_the_optimum(small):
    cells = regression_cells(small.table.model(), small.table.codes)
    by_mean, by_sd = elbo_gradient(cells, small.optimum)
    assert np.abs(by_mean).max() < 1e-5
    assert np.abs(by_sd).max() < 1e-2  # of 1 / sd, which is ten and more
    off = small.optimum._replace(mean=small.optimum.mean + 0.01)
    assert np.abs(elbo_gradient(cells, off)[0]).max() > 1


def test_cells_are_sufficient_for_the_regression(small):
    import statsmodels.api as sm

    model, codes = small.table.model(), small.table.codes
    design = np.asarray(model.design_matrix([codes["a"], codes["b"]]), float)
    rows = sm.GLM(codes["t"], design, family=sm.families.Poisson()).fit()
    found, variances = poisson_coefficients(regression_cells(model, codes))
    assert np.allclose(found, rows.params, atol=1e-6)
    assert np.allclose(variances, rows.bse**2, rtol=1e-4)


@pytest.fixture(scope="module")
def lines(small):
    parts = [Part("natural", "starts"), Part("aligned", "starts")]
    parts += [Part("aligned", which) for which in ("lengths_2", "lengths_1", "downstream")]
    return joined(line for part in parts for line in DATA_SHARING.run(part, OPTIONS, small))


@pytest.mark.slow
def test_every_panel_of_these_rules_is_filled(lines):
    panels = {line.panel for line in lines}
    wanted = {panel.name for panel in DATA_SHARING.panels}
    assert panels == wanted - {"norms vanilla", "norms preconditioned"}
    by_name = {(line.panel, line.name): line for line in lines}
    for what in ("means", "scales"):
        trace = by_name[f"trace 1 {what}", "aligned"]
        assert np.allclose(trace.values[0], 1)
        assert trace.values.shape == (101, 2)
        assert trace.x[-1] == 1
    clipped = {name for panel, name in by_name if panel == "natural means"}
    assert clipped == {
        *("aligned", "natural", "natural, C = 0.1", "natural, C = 0.01"),
    }
    assert all(np.isfinite(line.values).all() for line in lines)
    assert by_name["norms natural", "means"].values.sum() == pytest.approx(1)


@pytest.mark.slow
def test_the_claims_are_checked_and_written(lines, tmp_path):
    study = DATA_SHARING.with_methods(("natural", "aligned"))
    about = {"fits": 2, "epochs": 1, "seed": 1, "device": "cpu", "seconds": 1.0}
    result = ComparisonResult(study, about, tuple(lines))
    held = [verdict.held for verdict in result.verdicts]
    assert held[:2] == [None, None]  # vanilla was not run
    assert held[5] in (True, False)
    worse = [line._replace(values=line.values + (line.name == "averaged")) for line in result.lines]
    assert list(DATA_SHARING.claims.values())[5](worse).held is False
    for path in result.save(tmp_path):
        assert path.stat().st_size > 1000


def test_the_israeli_table():
    if not ISRAEL.is_dir():
        pytest.skip("the Israeli COVID-19 table is not there: ../shared/data/israel-covid-tests")
    table = sharing_tables.read_israel(ISRAEL)
    assert len(table.codes["positive"]) == 51_814
    assert table.codes["positive"].sum() == 4760
    assert set(table.codes) == set(table.schema.names)
    with pytest.raises(nw.NoisewiseError, match="pass the folder that holds it"):
        sharing_tables.read_israel(ISRAEL.parent)
