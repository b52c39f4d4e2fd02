"""Units of privacy: what may be declared, and how a table's rows become units."""

import json

import numpy as np
import pytest

import noisewise as nw
from noisewise.data import SIZE, WEIGHT, DataError, PrivateRows, SchemaError, StoredRows
from noisewise.data.files import ColumnWriter
from noisewise.data.private import UnitLayout

AGE = nw.Column(name="age", kind="real", bounds=(0, 100))
ILL = nw.Column(name="ill", kind="binary")
UNIT = nw.Unit("person", max_rows=3)
SCHEMA = nw.Schema((AGE, ILL), unit=UNIT)
PEOPLE = {"person": [7, 3, 7, 9, 3, 7], "age": [1.0, 2, 3, 4, 5, 6], "ill": [0, 1, 0, 1, 0, 1]}


def units(table: nw.Table) -> dict[str, np.ndarray]:
    return table.rows.unsafe_columns()


def test_rows_are_laid_out_by_unit_in_the_order_of_first_rows():
    table = nw.Table(PEOPLE, SCHEMA)
    found = units(table)
    assert found[WEIGHT].tolist() == [[1, 1, 1], [1, 1, 0], [1, 0, 0]]
    there = found[WEIGHT] > 0
    assert found["age"][there].tolist() == [1, 3, 6, 2, 5, 4]
    assert len(table) == table.rows.true_count == 3
    assert SIZE not in found


def test_places_without_a_row_hold_a_value_of_the_units_own():
    """Another unit's would move when that one leaves the table."""
    found = units(nw.Table(PEOPLE, SCHEMA))["age"]
    assert set(found[1]) == {2.0, 5.0}
    assert set(found[2]) == {4.0}


def test_changes_are_row_by_row_and_sums_by_unit():
    rows = nw.Table(PEOPLE, SCHEMA).rows.map(lambda c: {"twice": 2 * c["age"]})
    assert rows.unit_sums().unsafe_columns()["twice"].tolist() == [20, 14, 8]


@pytest.mark.parametrize(
    "identifiers",
    [
        ["b", "a", "b", "c", "a", "b"],
        np.array([2.5, 1.5, 2.5, 9.0, 1.5, 2.5]),
        np.array(["b", 1, "b", 2, 1, "b"], object),
        np.array(
            ["2020-01-02", "2020-01-01", "2020-01-02", "2021-01-01"]
            + ["2020-01-01"] * 1
            + ["2020-01-02"],
            "datetime64[D]",
        ),
    ],
)
def test_identifiers_are_numbers_text_or_dates(identifiers):
    found = units(nw.Table(PEOPLE | {"person": identifiers}, SCHEMA))
    assert found[WEIGHT].sum(1).tolist() == [3, 2, 1]


@pytest.mark.parametrize(
    "identifiers",
    [
        ["b", "a", "b", "", "a", "b"],
        [2.5, 1.5, 2.5, np.nan, 1.5, 2.5],
        np.array(["b", "a", "b", None, "a", "b"], object),
    ],
)
def test_rows_of_nobody_are_refused(identifiers):
    with pytest.raises(DataError, match="'person' has empty cells: every row needs its unit"):
        nw.Table(PEOPLE | {"person": identifiers}, SCHEMA)


def test_units_of_more_rows_are_refused_without_saying_whose():
    short = nw.Schema((AGE, ILL), unit=nw.Unit("person", max_rows=2))
    with pytest.raises(DataError) as refusal:
        nw.Table(PEOPLE, short)
    assert "more rows than the declared max_rows = 2" in str(refusal.value)
    assert "7" not in str(refusal.value)


def test_first_rows_are_kept_on_request():
    short = nw.Schema((AGE, ILL), unit=nw.Unit("person", max_rows=2))
    found = units(nw.Table(PEOPLE, short, keep="first"))
    assert found["age"][found[WEIGHT] > 0].tolist() == [1, 3, 2, 5, 4]


def test_random_rows_are_kept_on_request():
    """Every row of a unit of 40 as often: 400 tables keep two each, 20 times a row on average; that
    one is kept never (probability 1e-9 each) or above 50 times (1e-8) is a false alarm in 1e6."""
    many = {"person": [1] * 40 + [2], "age": np.arange(41.0), "ill": [0, 1] * 20 + [0]}
    short = nw.Schema((AGE, ILL), unit=nw.Unit("person", max_rows=2))
    kept = [units(nw.Table(many, short, keep="random"))["age"][0] for _ in range(400)]
    counts = np.bincount(np.concatenate(kept).astype(int), minlength=40)
    assert counts.sum() == 800
    assert (counts > 0).all() and (counts < 50).all()


def test_keep_is_refused_without_units():
    with pytest.raises(nw.NoisewiseError, match="declare a \\[unit\\]"):
        nw.Table({"age": [1.0, 2], "ill": [0, 1]}, nw.Schema((AGE, ILL)), keep="first")
    with pytest.raises(nw.NoisewiseError, match="keep must be"):
        nw.Table(PEOPLE, SCHEMA, keep="last")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_have_the_identifier_as_a_column(tmp_path, kind):
    import pyarrow
    from pyarrow import csv, parquet

    write = csv.write_csv if kind == "csv" else parquet.write_table
    write(pyarrow.table(PEOPLE), tmp_path / f"people.{kind}")
    found = units(nw.Table.read(tmp_path / f"people.{kind}", SCHEMA))
    assert found[WEIGHT].sum(1).tolist() == [3, 2, 1]


def test_a_table_without_the_identifier_is_refused():
    with pytest.raises(DataError, match="'person' is declared but not in the data"):
        nw.Table({n: c for n, c in PEOPLE.items() if n != "person"}, SCHEMA)


def test_a_public_sample_that_is_the_tables_own_is_recognised():
    table = nw.Table(PEOPLE, SCHEMA)
    assert table.own_columns({"age": np.array(PEOPLE["age"])}) == ["age"]
    assert table.own_columns({"age": np.array(PEOPLE["age"]) + 1}) == []


def test_declarations_survive_files(tmp_path):
    unit = nw.Unit("person", max_rows=3, sizes=(0.5, 0.25, 0.25), count=900)
    schema = nw.Schema((AGE, ILL), unit=unit)
    path = tmp_path / "people.toml"
    path.write_text(schema.to_toml())
    assert nw.Schema.from_toml(path) == schema
    assert nw.Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    assert schema.public_count == 900
    assert nw.Schema((AGE, ILL)).fingerprint() != schema.fingerprint() != SCHEMA.fingerprint()


@pytest.mark.parametrize(
    ("unit", "fault"),
    [
        ({"column": "person"}, "no 'max_rows'"),
        ({"column": "person", "max_rows": 3, "rows": 2}, "unknown keys 'rows'"),
        ({"column": "person", "max_rows": 0}, "max_rows must be an integer of at least 1"),
        ({"column": "person", "max_rows": 3, "sizes": [0.5, 0.5]}, "expected 3 shares"),
        ({"column": "person", "max_rows": 2, "sizes": [0.9, 0.5]}, "sum to 1"),
        ({"column": "person", "max_rows": 2, "count": 1}, "count must be"),
        ({"column": "age", "max_rows": 3}, "an identifier is no covariate"),
        ("person", "must be a table with column and max_rows"),
    ],
)
def test_faults_of_declarations_are_one_line(unit, fault):
    declared = SCHEMA.to_dict() | {"unit": unit}
    with pytest.raises(SchemaError, match=fault.replace("[", "\\[")) as found:
        nw.Schema.from_dict(declared)
    assert "\n" not in str(found.value)


def test_rows_and_units_are_not_counted_both():
    with pytest.raises(SchemaError, match="declare it as count"):
        nw.Schema((AGE, ILL), rows=100, unit=UNIT)


@pytest.mark.filterwarnings("error")
def test_numpy_says_nothing_of_private_rows(tmp_path):
    """A warning of one cell would be a line in somebody's log, without noise."""

    def change(columns):
        logarithms = np.log(columns["x"])
        return {"x": logarithms - logarithms}

    x = np.array([0.0, 1.0, -1.0])
    rows = PrivateRows({"x": x})
    assert np.isnan(rows.map(change).unsafe_columns()["x"]).tolist() == [True, False, True]
    (found,) = rows.wide(change, 1).unsafe_passes()
    assert np.isnan(found["x"][0])
    with ColumnWriter(tmp_path) as writer:
        writer.append({"x": x})
    (found,) = StoredRows(writer.files(), 2**30).map(change).unsafe_passes()
    assert np.isnan(found["x"][0])
    both = UnitLayout(np.array([[0, 1]]), np.array([[True, True]]))
    total = PrivateRows({"x": np.array([np.inf, -np.inf])}, both).unit_sums()
    assert np.isnan(total.unsafe_columns()["x"][0])
