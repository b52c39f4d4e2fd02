"""Marginals: cells that partition, Cramer's V, and a comparison that finds a difference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import noisewise as nw
from noisewise import NoisewiseError
from noisewise.synthetic import marginals
from noisewise.synthetic.cells import cut
from noisewise.synthetic.marginals import cramers_v, measure


def coarse_count(cells):
    return len(cells.labels) if cells.coarse is None else len(cells.coarse) + 1


def test_cramers_v_by_scipy_and_corrected():
    rng = np.random.default_rng(0)
    first = rng.integers(0, 3, 500)
    second = np.where(rng.random(500) < 0.5, first, rng.integers(0, 4, 500))
    counts = np.zeros((3, 4))
    np.add.at(counts, (first, second), 1)
    phi = stats.chi2_contingency(counts, correction=False).statistic / 500 - 6 / 499
    least = min(3 - 4 / 499, 4 - 9 / 499) - 1
    assert cramers_v(first, second) == pytest.approx(np.sqrt(phi / least))
    assert cramers_v(first, first) == pytest.approx(1.0)
    # Independent columns: the mean of V without the correction would be about 0.08.
    none = [cramers_v(rng.integers(0, 3, 500), rng.integers(0, 4, 500)) for _ in range(50)]
    assert np.mean(none) < 0.05
    assert cramers_v(np.zeros(10, int), np.arange(10) % 2) == 0.0


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-3, 1.0, 1e5]), st.integers(1, 3000))
def test_cells_partition_every_column(seed, scale, most):
    rng = np.random.default_rng(seed)
    schema = nw.Schema(
        (
            nw.Column(name="r", kind="real", bounds=(-5 * scale, 5 * scale)),
            nw.Column(name="n", kind="count", bounds=(0, most)),
            nw.Column(name="c", kind="category", categories=tuple(map(str, range(30)))),
            nw.Column(name="b", kind="binary"),
        )
    )
    for cells in cut(schema, schema.simulate(rng, 200)):
        values = cells.values(schema.simulate(rng, 300))
        for place, count in (
            (cells.place(values), len(cells.labels)),
            (cells.place_coarsely(values), coarse_count(cells)),
        ):
            assert place.shape == (300,)
            assert 0 <= place.min() <= place.max() < count
        assert 2 <= len(cells.labels) <= 14
        assert len(set(cells.labels)) == len(cells.labels)


def test_labels_of_cells():
    pilot = {"n": np.arange(8), "r": np.linspace(-1.0, 1.0, 101)}
    schema = nw.Schema(
        (
            nw.Column(name="n", kind="count", bounds=(0, 20)),
            nw.Column(name="r", kind="real", bounds=(-9, 9)),
        )
    )
    count, real = cut(schema, pilot)
    assert count.labels == ("0", "1", "2", "3", "4", "5", "6 to 20")
    assert count.place(np.array([0, 5, 6, 20])).tolist() == [0, 5, 6, 6]
    assert real.labels[0] == "below −0.8" and real.labels[-1] == "0.8 and above"
    assert real.place(np.array([-9.0, -0.8, 9.0])).tolist() == [0, 1, len(real.labels) - 1]


@pytest.mark.parametrize(
    ("value", "labels"),
    [
        (0.0, ("0", "above 0")),
        (0.5, ("below 0.5", "0.5", "above 0.5")),
        (9.0, ("below 9", "9")),
    ],
)
def test_a_nearly_constant_real_column(value, labels):
    """One value in all but one row of 200, where both quantiles are that value."""
    schema = nw.Schema((nw.Column(name="r", kind="real", bounds=(0, 9)),))
    pilot = np.append(np.full(199, value), 4.0)
    (cells,) = cut(schema, {"r": pilot})
    assert cells.labels == labels and coarse_count(cells) == len(labels)
    at = labels.index(f"{value:g}")
    assert (cells.place(pilot[:-1]) == at).all()
    assert cells.place(pilot[-1:]) != at == cells.place_coarsely(pilot[:1])
    assert cells.place(np.array([0.0, 9.0])).tolist() == [0, len(labels) - 1]


def test_a_constant_but_for_rounding_and_a_narrow_spread():
    schema = nw.Schema((nw.Column(name="r", kind="real", bounds=(-2000, 2000)),))
    rounded = np.nextafter(np.full(200, 1000.0), np.tile([-np.inf, np.inf], 100))
    (cells,) = cut(schema, {"r": rounded})
    assert cells.labels == ("below 1,000", "1,000", "above 1,000")
    assert set(cells.place(rounded)) == {1}
    for size in (1.0, 1000.0, -2000.0 + 1e-3):
        (cells,) = cut(schema, {"r": size + 1e-4 * np.linspace(0, 1, 200)})
        assert 5 <= len(set(cells.labels)) == len(cells.labels) == len(cells.edges) + 1


def test_a_pile_on_the_lower_bound_has_a_cell_in_pairs():
    schema = nw.Schema((nw.Column(name="r", kind="real", bounds=(0, 9)),))
    values = np.append(np.zeros(180), np.linspace(1, 9, 20))
    (cells,) = cut(schema, {"r": values})
    assert cells.place_coarsely(np.array([0.0, 1.0, 9.0])).tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("value", "labels"),
    [(0, ("0", "1 to 9")), (3, ("0 to 2", "3", "4 to 9")), (9, ("0 to 8", "9"))],
)
def test_a_constant_count(value, labels):
    schema = nw.Schema((nw.Column(name="n", kind="count", bounds=(0, 9)),))
    (cells,) = cut(schema, {"n": np.full(200, value)})
    assert cells.labels == labels
    assert cells.labels[cells.place(np.array([value]))[0]] == str(value)


@pytest.fixture(scope="module")
def small(tables):
    """The measure on fewer and smaller comparison tables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marginals, "_RELEASED", 40)
        patch.setattr(marginals, "_LARGE", tables.rows)
        real = _real_table(tables)
        return measure(tables), measure(tables, real), real


def _real_table(tables: nw.SyntheticTables) -> nw.Table:
    """A 'real' table: as the model has it, but that everyone in the south is ill."""
    drawn = dict(next(tables.further_draws(1, tables.rows)).columns)
    drawn["ill"] = np.where(drawn["ward"] == 1, 1, drawn["ill"])
    return nw.Table.from_arrays(drawn, tables.schema)


def test_shares_add_up_and_agree_with_the_posterior(small, tables):
    found, _, _ = small
    assert [column.cells.name for column in found.columns] == [
        "visits",
        "ward",
        "ill",
        "score[0]",
        "score[1]",
    ]
    for column in found.columns:
        assert column.tables.shape[0] == len(tables) and column.released.shape[0] == 40
        np.testing.assert_allclose(column.tables.sum(1), 1.0)
        np.testing.assert_allclose(column.released.sum(1), 1.0)
        # Same law on both sides: means differ by at most five standard errors. Fixed seeds.
        error = np.hypot(column.tables.std(0) / 30**0.5, column.released.std(0) / 40**0.5)
        assert (abs(column.tables.mean(0) - column.released.mean(0)) <= 5 * error).all()
        assert column.real is None
    assert found.columns[0].moments is not None and found.columns[1].moments is None
    assert found.columns[0].moved == pytest.approx(0.066, abs=0.02)
    assert len(found.pairs) == 10 and found.paired[0] == "visits"
    ward = next(pair for pair in found.pairs if {pair.first, pair.second} == {"visits", "ward"})
    assert ward.tables.mean() == pytest.approx(ward.released.mean(), abs=0.03)
    assert ward.tables.mean() > 0.15


def test_the_real_table_shows_what_the_model_lacks(small):
    _, found, _ = small
    ill = next(column for column in found.columns if column.cells.name == "ill")
    low, high = np.quantile(ill.released, [0.025, 0.975], axis=0)
    assert ill.real is not None and not (low[1] <= ill.real[1] <= high[1])
    pair = next(pair for pair in found.pairs if {pair.first, pair.second} == {"ward", "ill"})
    assert pair.real > 0.5 and pair.tables.mean() < 0.1


def test_the_real_table_must_be_declared_alike(tables, small):
    with pytest.raises(NoisewiseError, match=r"unsafe_data must be a .*Table, got dict"):
        measure(tables, {})
    other = nw.Schema((nw.Column(name="visits", kind="count", bounds=(0, 9)),))
    table = nw.Table({"visits": [1, 2]}, other)
    with pytest.raises(NoisewiseError, match="does not declare column 'visits' as the fit did"):
        measure(tables, table)
