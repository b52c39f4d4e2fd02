"""Missing cells: declared, read from every kind of table, encoded and simulated."""

import numpy as np
import pytest
from scipy import stats

from noisewise.covariates import covariate_bins
from noisewise.data import Column, DataError, Encoder, Schema, SchemaError, Table

SCHEMA = Schema(
    (
        Column(name="age", kind="real", bounds=(0, 100), mean=45, sd=15, missing="allowed"),
        Column(name="sex", kind="category", categories=("f", "m", "x"), missing="allowed"),
        Column(name="visits", kind="count", bounds=(0, 9), missing="allowed", fill=3),
        Column(name="ill", kind="binary", missing="allowed", missing_share=0.3),
        Column(name="score", kind="real", bounds=(-1, 1), shape=(2,), missing="allowed"),
    )
)
CELLS = {
    "age": [31.5, None, 64.0, 47.0],
    "sex": ["m", "f", None, "x"],
    "visits": [2, 0, None, 9],
    "ill": [None, 1, 0, 1],
    "score[0]": [0.5, None, -1.0, 0.0],
    "score[1]": [0.25, 1.0, None, 0.0],
}
HELD = {
    "age": np.array([31.5, np.nan, 64.0, 47.0]),
    "sex": np.array([1, 0, -1, 2]),
    "visits": np.array([2, 0, -1, 9]),
    "ill": np.array([-1, 1, 0, 1]),
    "score": np.array([[0.5, 0.25], [np.nan, 1.0], [-1.0, np.nan], [0.0, 0.0]]),
}


def frames():
    import pandas
    import polars
    import pyarrow

    pandas_frame = pandas.DataFrame(CELLS)
    masked = {
        name: np.ma.masked_array(
            [("f" if name == "sex" else 0) if v is None else v for v in values],
            mask=[v is None for v in values],
        )
        for name, values in CELLS.items()
    }
    return {
        "dict": CELLS,
        "NaN beside text": CELLS | {"sex": ["m", "f", float("nan"), "x"]},
        "empty text": CELLS | {"sex": np.array(["m", "f", "", "x"])},
        "masked arrays": masked,
        "pandas": pandas_frame,
        "pandas with its own nulls": pandas_frame.convert_dtypes(),
        "polars": polars.DataFrame(CELLS),
        "arrow": pyarrow.table(CELLS),
    }


def held(table: Table) -> dict[str, np.ndarray]:
    return table.rows.unsafe_columns()


@pytest.mark.parametrize("kind", frames())
def test_every_kind_of_table_has_the_same_gaps(kind: str) -> None:
    found = held(Table(frames()[kind], SCHEMA))
    for name, expected in HELD.items():
        np.testing.assert_array_equal(found[name], expected)
        kinds = {"age": np.float64, "sex": np.int32, "visits": np.int64, "ill": np.int8}
        assert found[name].dtype == kinds.get(name, np.float64)


@pytest.mark.parametrize("spelling", ["", "NA", "nan", "NULL"])
def test_files_spell_gaps_in_many_ways(tmp_path, spelling: str) -> None:
    lines = [",".join(CELLS)]
    lines += [
        ",".join(spelling if cell is None else str(cell) for cell in row)
        for row in zip(*CELLS.values(), strict=True)
    ]
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    found = held(Table.read(path, SCHEMA))
    for name, expected in HELD.items():
        np.testing.assert_array_equal(found[name], expected)


def test_a_declared_category_called_na_is_no_gap(tmp_path) -> None:
    country = Column(name="country", kind="category", categories=("NA", "ZA"), missing="allowed")
    path = tmp_path / "people.csv"
    path.write_text("country,x\nNA,1\nZA,2\nn/a,3\n")
    schema = Schema((country, Column(name="x", kind="count", bounds=(0, 9))))
    assert held(Table.read(path, schema))["country"].tolist() == [0, 1, -1]


def test_simulated_arrays_come_back_as_a_table() -> None:
    arrays = SCHEMA.simulate(np.random.default_rng(0), 500)
    found = held(Table.from_arrays(arrays, SCHEMA))
    for name, values in arrays.items():
        np.testing.assert_array_equal(found[name], values)


def test_simulated_tables_have_gaps_at_the_declared_share() -> None:
    """Two-sided binomial tests at 1e-6 each, five columns; the seed is fixed."""
    arrays = SCHEMA.simulate(np.random.default_rng(1), 4000)
    for column in SCHEMA:
        values = arrays[column.name]
        gaps = np.isnan(values) if values.dtype.kind == "f" else values < 0
        share = column.missing_share or 0.05
        assert stats.binomtest(int(gaps.sum()), gaps.size, share).pvalue > 1e-6


def test_a_design_has_fill_values_and_indicators() -> None:
    encoder = Encoder(SCHEMA, "ill")
    names = ["intercept", "age", "age (missing)", "sex=m", "sex=x", "sex (missing)", "visits"]
    names += ["visits (missing)", "score[0]", "score[1]", "score[0] (missing)"]
    assert encoder.names == [*names, "score[1] (missing)"]
    encoded = encoder.encode(HELD)
    expected = [
        [1, -0.9, 0, 1, 0, 0, (2 - 4.5) / 4.5, 0, 0.5, 0.25, 0, 0],
        [1, 0, 1, 0, 0, 0, -1, 0, 0, 1, 1, 0],
        [1, 19 / 15, 0, 0, 0, 1, (3 - 4.5) / 4.5, 1, -1, 0, 0, 1],
        [1, 2 / 15, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0],
    ]
    np.testing.assert_allclose(encoded["X"], expected, atol=1e-6)
    assert np.isfinite(encoded["y"]).all()
    low, high = encoder.feature_bounds()
    assert np.all(low <= encoded["X"]) and np.all(encoded["X"] <= high)
    told = [entry["name"] for entry in encoder.describe() if entry.get("missing")]
    assert told == [name for name in encoder.names if name.endswith("(missing)")]


def test_a_declaration_survives_its_files(tmp_path) -> None:
    path = tmp_path / "people.toml"
    path.write_text(SCHEMA.to_toml())
    assert Schema.from_toml(path) == SCHEMA
    assert Schema.from_dict(SCHEMA.to_dict()).fingerprint() == SCHEMA.fingerprint()


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"missing": "yes"}, "expected 'allowed'"),
        ({"how": "indicator"}, "without missing"),
        ({"missing_share": 0.1}, "without missing"),
        ({"missing": "allowed", "how": "guess"}, "expected 'indicator' or 'integrate'"),
        ({"missing": "allowed", "missing_share": 1}, "strictly between 0 and 1"),
        ({"missing": "allowed", "fill": 101}, "inside"),
        ({"missing": "allowed", "fill": "old"}, "inside"),
        ({"missing": "allowed", "fill": 3, "how": "integrate"}, "drop one of them"),
    ],
)
def test_bad_declarations_are_refused_in_one_line(declared: dict, words: str) -> None:
    with pytest.raises(SchemaError, match=words) as caught:
        Column.from_dict("age", {"type": "real", "bounds": [0, 100], **declared})
    assert "\n" not in str(caught.value)


def test_a_fill_value_of_a_category_is_one_of_them() -> None:
    ward = {"type": "category", "categories": ["a", "b"], "missing": "allowed"}
    assert Encoder(Schema((Column.from_dict("w", ward | {"fill": "b"}),)), None).design(
        {"w": np.array([-1, 0])}
    ).tolist() == [[1, 1, 1], [1, 0, 0]]
    with pytest.raises(SchemaError, match="one of its categories"):
        Column.from_dict("w", ward | {"fill": "c"})


@pytest.mark.parametrize("bad", [float("inf"), 101.0, "old"])
def test_messages_do_not_depend_on_which_cells_are_missing(bad) -> None:
    """An adversary who moves gaps about sees the same refusal, or the same acceptance."""
    said = set()
    for gaps in ((), (1,), (1, 2), (1, 2, 3)):
        ages = np.array([bad, 30.0, 40.0, 50.0], object)
        ages[list(gaps)] = None
        with pytest.raises(DataError) as caught:
            Table({"age": ages}, Schema((SCHEMA["age"],)))
        said.add(str(caught.value))
    assert len(said) == 1


@pytest.mark.parametrize("values", [[5.0] * 4, [None] * 4, [5.0, None, 5.0, None]])
def test_no_column_with_gaps_is_called_constant(values) -> None:
    for name in ("age", "visits"):
        Table({name: values}, Schema((SCHEMA[name],)))


BINS = covariate_bins(SCHEMA, (*SCHEMA.names, "ill (missing)"))


@pytest.mark.parametrize("column", BINS, ids=lambda column: column.name)
def test_a_gap_has_a_state_of_its_own(column) -> None:
    states = np.arange(len(column)).repeat(20)
    values = column.draw(np.random.default_rng(0), states)
    if column.entry is not None:
        values = np.stack([values, values], axis=1)
    assert np.array_equal(column.states({column.column.name: values}), states)
    arrays = SCHEMA.simulate(np.random.default_rng(1), 500)
    values = arrays[column.column.name]
    values = values if column.entry is None else values[:, column.entry]
    gaps = np.isnan(values) if values.dtype.kind == "f" else values < 0
    assert np.array_equal(column.states(arrays) == len(column) - 1, gaps)


def test_gaps_do_not_count_in_a_columns_mean() -> None:
    visits = next(column for column in BINS if column.name == "visits")
    share = np.zeros(len(visits))
    share[[2, 4]], share[-1] = 0.1, 0.8
    assert visits.mean_and_sd(share) == pytest.approx((3.0, 1.0))
