"""Tables: every way in gives the same arrays, and no way out gives a value away."""

from __future__ import annotations

import gzip
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noisewise.data
from noisewise.data import Column, DataError, PublicSample, Schema, Table

SCHEMA = Schema(
    (
        Column(name="age", kind="real", bounds=(0, 100)),
        Column(name="visits", kind="count", bounds=(0, 50)),
        Column(name="ill", kind="binary"),
        Column(name="sex", kind="category", categories=("female", "male", "other")),
    )
)
GOOD: dict[str, list[Any]] = {
    "age": [31.5, 64.25, 47.0],
    "visits": [3, 0, 12],
    "ill": [False, True, True],
    "sex": ["male", "female", "male"],
}
X = Schema((Column(name="x", kind="real", bounds=(-1, 1), shape=(2,)),))
SENTINEL = 987654.321
WORD = "zebra-sentinel"


def opened(table: Table) -> dict[str, np.ndarray]:
    return table.rows.unsafe_columns()


def csv_text(data: dict[str, list[Any]]) -> str:
    rows = [",".join(data), *(",".join(map(str, row)) for row in zip(*data.values(), strict=True))]
    return "\n".join(rows) + "\n"


def refused(*args: Any, call: Callable[..., Any] = Table, **options: Any) -> str:
    """The message of the DataError that the call must raise."""
    with pytest.raises(DataError) as caught:
        call(*args, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.__cause__ is None
    return message


def with_column(**changed: Any) -> dict[str, Any]:
    return {**GOOD, **changed}


def check_good(table: Table) -> None:
    arrays = opened(table)
    assert list(arrays) == ["age", "visits", "ill", "sex"]
    assert [a.dtype for a in arrays.values()] == [np.float64, np.int64, np.int8, np.int32]
    np.testing.assert_array_equal(arrays["age"], [31.5, 64.25, 47.0])
    np.testing.assert_array_equal(arrays["visits"], [3, 0, 12])
    np.testing.assert_array_equal(arrays["ill"], [0, 1, 1])
    np.testing.assert_array_equal(arrays["sex"], [1, 0, 1])
    assert len(table) == 3
    assert table.schema is SCHEMA


# --- ways in -----------------------------------------------------------------------------------

FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "dict": dict,
    "dict_of_arrays": lambda data: {name: np.array(values) for name, values in data.items()},
    "dict_of_series": lambda data: {name: pd.Series(values) for name, values in data.items()},
    "pandas": pd.DataFrame,
    "pandas_shuffled_index": lambda data: pd.DataFrame(data, index=[7, 3, 5]),
    "pandas_nullable": lambda data: pd.DataFrame(data).convert_dtypes(),
    "pandas_arrow": lambda data: pd.DataFrame(data).convert_dtypes(dtype_backend="pyarrow"),
    "pandas_category": lambda data: pd.DataFrame(data).astype({"sex": "category"}),
    "pandas_object": lambda data: pd.DataFrame(data).astype(object),
    "polars": pl.DataFrame,
    "polars_category": lambda data: pl.DataFrame(data).with_columns(
        pl.col("sex").cast(pl.Categorical)
    ),
    "polars_decimal": lambda data: pl.DataFrame(data).with_columns(
        pl.col("age").cast(pl.Decimal(8, 2))
    ),
    "polars_unsigned": lambda data: pl.DataFrame(data).with_columns(
        pl.col("visits").cast(pl.UInt64)
    ),
    "pyarrow": pa.table,
    "pyarrow_dictionary": lambda data: pa.table(
        {**data, "sex": pa.array(data["sex"]).dictionary_encode()}
    ),
    "structured": lambda data: pd.DataFrame(data).to_records(index=False),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES.keys())
def test_every_kind_of_frame_gives_the_same_arrays(make: Callable[[dict[str, Any]], Any]) -> None:
    check_good(Table(make(GOOD), SCHEMA))


def test_column_order_follows_the_schema() -> None:
    check_good(Table(dict(reversed(GOOD.items())), SCHEMA))


def test_csv_gzip_and_parquet(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(csv_text(GOOD))
    check_good(Table.read(tmp_path / "a.csv", SCHEMA))
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(csv_text(GOOD).encode()))
    check_good(Table.read(str(tmp_path / "b.csv.gz"), SCHEMA))
    pd.DataFrame(GOOD).to_parquet(tmp_path / "c.parquet")
    check_good(Table.read(tmp_path / "c.parquet", SCHEMA))


def test_csv_is_read_as_declared_not_as_guessed(tmp_path: Path) -> None:
    schema = Schema(
        (
            Column(name="code", kind="category", categories=("01", "02", "NA")),
            Column(name="x", kind="real", bounds=(-10, 10)),
            Column(name="k", kind="count", bounds=(0, 9)),
            Column(name="b", kind="binary"),
        )
    )
    text = '\ufeffcode,x,k,b\r\n01,1, 3,1\r\nNA,-2e-1,4.0,0\r\n"02",+2.5,5,1.0\r\n'
    (tmp_path / "t.csv").write_bytes(text.encode())
    arrays = opened(Table.read(tmp_path / "t.csv", schema))
    np.testing.assert_array_equal(arrays["code"], [0, 2, 1])
    np.testing.assert_array_equal(arrays["x"], [1, -0.2, 2.5])
    np.testing.assert_array_equal(arrays["k"], [3, 4, 5])
    np.testing.assert_array_equal(arrays["b"], [1, 0, 1])


def test_csv_numbers_may_turn_decimal_after_the_first_megabyte(tmp_path: Path) -> None:
    n = 600_000
    (tmp_path / "t.csv").write_text("x\n" + "1\n" * n + "0.5\n")
    schema = Schema((Column(name="x", kind="real", bounds=(0, 1)),))
    values = opened(Table.read(tmp_path / "t.csv", schema))["x"]
    assert len(values) == n + 1 and values[-1] == 0.5


VALUES = np.array([[0.5, -0.5], [0.25, 1.0], [-1.0, 0.0]])
VECTORS: dict[str, Any] = {
    "array": {"x": VALUES},
    "float32": {"x": VALUES.astype(np.float32)},
    "lists": {"x": VALUES.tolist()},
    "spread": {"x[0]": VALUES[:, 0], "x[1]": VALUES[:, 1]},
    "pandas": pd.DataFrame({"x": VALUES.tolist()}),
    "pandas_spread": pd.DataFrame(VALUES, columns=["x[0]", "x[1]"]),
    "polars_array": pl.DataFrame({"x": VALUES}, schema={"x": pl.Array(pl.Float64, 2)}),
    "polars_list": pl.DataFrame({"x": VALUES.tolist()}),
    "pyarrow": pa.table({"x": VALUES.tolist()}),
}


@pytest.mark.parametrize("data", VECTORS.values(), ids=VECTORS.keys())
def test_vector_columns(data: Any) -> None:
    values = opened(Table(data, X))["x"]
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, VALUES)


def test_vector_columns_from_files(tmp_path: Path) -> None:
    pd.DataFrame(VECTORS["spread"]).to_csv(tmp_path / "x.csv", index=False)
    np.testing.assert_array_equal(opened(Table.read(tmp_path / "x.csv", X))["x"], VALUES)
    pq.write_table(VECTORS["pyarrow"], tmp_path / "x.parquet")
    np.testing.assert_array_equal(opened(Table.read(tmp_path / "x.parquet", X))["x"], VALUES)


def test_simulated_arrays_make_a_table_with_codes_as_codes() -> None:
    drawn = SCHEMA.simulate(np.random.default_rng(0), 50)
    table = Table.from_arrays(drawn, SCHEMA)
    for name, values in opened(table).items():
        np.testing.assert_array_equal(values, drawn[name])
        assert values.dtype == drawn[name].dtype
    for bad in (drawn["sex"] + 1, drawn["sex"] - 1, drawn["sex"].astype(float)):
        message = refused({**drawn, "sex": bad}, SCHEMA, call=Table.from_arrays)
        assert "'sex' must hold integer codes from 0 to 2" in message


def test_whole_numbers_and_booleans_match_categories_as_written() -> None:
    schema = Schema((Column(name="c", kind="category", categories=("1", "2")),))
    np.testing.assert_array_equal(opened(Table({"c": [2, 1]}, schema))["c"], [1, 0])
    flags = Schema((Column(name="c", kind="category", categories=("False", "True")),))
    np.testing.assert_array_equal(opened(Table({"c": [True, False]}, flags))["c"], [1, 0])


def test_the_table_owns_its_rows() -> None:
    age = np.array([1.0, 2.0, 3.0])
    table = Table(with_column(age=age), SCHEMA)
    age[:] = 99
    np.testing.assert_array_equal(opened(table)["age"], [1, 2, 3])
    with pytest.raises(ValueError, match="read-only"):
        opened(table)["age"][0] = 5
    opened(table).clear()
    assert len(table) == 3


def test_rows_do_not_travel_by_pickle() -> None:
    table = Table(GOOD, SCHEMA)
    with pytest.raises(TypeError, match="rows about people are not pickled"):
        pickle.dumps(table)
    assert pickle.loads(pickle.dumps(table.schema)) == table.schema


def test_only_numpy_and_scipy_are_imported() -> None:
    # A bare package stands in for noisewise itself, which imports the other rooms as well.
    script = (
        "import sys, types; package = types.ModuleType('noisewise'); "
        f"package.__path__ = [{str(Path(noisewise.data.__file__).parents[1])!r}]; "
        "sys.modules['noisewise'] = package; import noisewise.data; "
        "print([m for m in ('narwhals', 'pyarrow', 'pandas', 'polars', 'jax') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_float32_data_may_touch_the_bounds() -> None:
    schema = Schema((Column(name="x", kind="real", bounds=(0, 0.1)),))
    values = opened(Table({"x": np.array([0.1, 0.05], dtype=np.float32)}, schema))["x"]
    assert values.max() == 0.1


# --- what is refused ---------------------------------------------------------------------------

BAD_COLUMNS: list[tuple[str, Any, str]] = [
    ("age", [1.0, 2.0, SENTINEL], "outside its declared bounds [0, 100]"),
    ("age", [1.0, 2.0, float("nan")], "missing"),
    ("age", [1.0, 2.0, float("inf")], "infinite"),
    ("age", [1.0, None, 3.0], "missing"),
    ("age", np.ma.masked_array([1.0, SENTINEL, 3.0], mask=[False, True, False]), "missing"),
    ("age", ["1", "2", WORD], "does not hold numbers"),
    ("age", np.array([1.0, WORD, 2.0], dtype=object), "does not hold numbers"),
    ("age", np.array([1, 10**400, 2], dtype=object), "infinite"),
    ("age", np.array([1j, 2j, 3j]), "does not hold numbers"),
    ("age", np.array(["2020-01-01"] * 3, dtype="M8[D]"), "does not hold numbers"),
    ("age", [[1.0], [2.0], [3.0]], "one value in each row"),
    ("age", [[1.0], [2.0, 3.0], [4.0]], "cannot be read as an array"),
    ("age", 5.0, "equally long"),
    ("visits", [1, 2, 987654], "outside its declared bounds [0, 50]"),
    ("visits", [1, 2, -1], "outside its declared bounds [0, 50]"),
    ("visits", np.array([1, 2, 2**64 - 1], dtype=np.uint64), "outside its declared bounds"),
    ("visits", [1, 2, 0.321], "not whole"),
    ("visits", [1, 2, float("nan")], "missing"),
    ("ill", [0, 1, 2], "other than 0 and 1"),
    ("ill", [0, 1, 0.5], "other than 0 and 1"),
    ("ill", ["yes", "no", WORD], "declare it a category"),
    ("ill", [0, 1, None], "missing"),
    ("sex", ["male", "female", WORD], "'female', 'male', 'other'"),
    ("sex", ["male", "female", None], "missing"),
    ("sex", [1.0, 2.0, SENTINEL], "'female', 'male', 'other'"),
    ("sex", [1j, 2j, 3j], "neither text nor numbers"),
    ("sex", [0, 1, 987654], "'female', 'male', 'other'"),
    ("age", [31.5, 31.5, 31.5], "one single value in every row: drop it"),
    ("sex", ["male", "male", "male"], "one single value in every row: drop it"),
]


@pytest.mark.parametrize(("name", "values", "reason"), BAD_COLUMNS)
def test_bad_columns_are_named_and_their_values_are_not(
    name: str, values: Any, reason: str
) -> None:
    message = refused(with_column(**{name: values}), SCHEMA)
    assert repr(name) in message
    assert reason in message
    assert "987654" not in message and "zebra" not in message and ".321" not in message


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("age", [1.0, 2.0, SENTINEL], "outside"),
        ("age", [1.0, None, 2.0], "missing"),
        ("age", [1.0, float("nan"), 2.0], "missing"),
        ("age", ["1", "2", WORD], "does not hold numbers"),
        ("visits", [1, None, 2], "missing"),
        ("sex", ["male", "female", WORD], "'female', 'male', 'other'"),
        ("sex", ["male", "female", None], "missing"),
    ],
)
def test_bad_frames(make: Callable[..., Any], name: str, values: Any, reason: str) -> None:
    message = refused(make(with_column(**{name: values})), SCHEMA)
    assert repr(name) in message and reason in message
    assert "987654" not in message and "zebra" not in message


@pytest.mark.parametrize(
    ("name", "cell", "reason"),
    [
        ("age", str(SENTINEL), "outside"),
        ("age", WORD, "declared real but holds text"),
        ("age", "", "missing"),
        ("age", "NaN", "missing"),
        ("age", "-inf", "infinite"),
        ("visits", "0.321", "not whole"),
        ("ill", WORD, "declared binary but holds text"),
        ("sex", WORD, "'female', 'male', 'other'"),
        ("sex", "", "missing"),
    ],
)
def test_bad_csv_cells(tmp_path: Path, name: str, cell: str, reason: str) -> None:
    (tmp_path / "t.csv").write_text(csv_text(with_column(**{name: [*GOOD[name][:2], cell]})))
    message = refused(tmp_path / "t.csv", SCHEMA, call=Table.read)
    assert repr(name) in message and reason in message
    assert "987654" not in message and "zebra" not in message and ".321" not in message


def test_bad_files(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "no.csv", SCHEMA, call=Table.read)
    assert "no such file" in refused(tmp_path / "no.parquet", SCHEMA, call=Table.read)
    assert "expected .csv" in refused(tmp_path / "t.xlsx", SCHEMA, call=Table.read)
    bad = {
        "empty.csv": b"",
        "ragged.csv": f"age,visits,ill,sex\n1,2\n{WORD},2,3,4\n".encode(),
        "latin.csv": "age,visits,ill,sex\n1,2,0,\xe9\n2,3,1,\xe9\n".encode("latin-1"),
        "bad.csv.gz": b"no gzip",
        "bad.parquet": b"no parquet",
    }
    for name, content in bad.items():
        (tmp_path / name).write_bytes(content)
        message = refused(tmp_path / name, SCHEMA, call=Table.read)
        assert name in message and "zebra" not in message


def test_a_first_row_in_place_of_a_header_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"{SENTINEL},2,1,{WORD}\n2,3,0,male\n")
    message = refused(tmp_path / "t.csv", SCHEMA, call=Table.read)
    assert "none of the declared columns" in message and "header" in message
    assert "987654" not in message and "zebra" not in message


def test_undeclared_and_missing_columns(tmp_path: Path) -> None:
    extra = with_column(height=[1, 2, 3])
    wanted = "1 of the data's columns are not declared in the schema (declared are 'age', "
    assert refused(extra, SCHEMA).startswith(wanted)
    check_good(Table(extra, SCHEMA, ignore_undeclared=True))
    (tmp_path / "t.csv").write_text(csv_text(extra))
    pd.DataFrame(extra).to_parquet(tmp_path / "t.parquet")
    for file in ("t.csv", "t.parquet"):
        assert refused(tmp_path / file, SCHEMA, call=Table.read).startswith(wanted)
        check_good(Table.read(tmp_path / file, SCHEMA, ignore_undeclared=True))
    less = {name: values for name, values in GOOD.items() if name != "sex"}
    assert "'sex' is declared but not in the data" in refused(less, SCHEMA)
    other = {name.title() if name == "sex" else name: cells for name, cells in GOOD.items()}
    assert "'sex' is in the data under a name that differs in capitals" in refused(other, SCHEMA)
    assert "'x[1]'" in refused({"x[0]": [0.0, 1.0]}, X)


def test_doubled_columns() -> None:
    doubled = pd.DataFrame([[1.0, 2.0, 3.0, 1.0, 0.5]] * 3, columns=[*GOOD, "age"])
    assert "one of each" in refused(doubled, SCHEMA)
    arrow = pa.Table.from_arrays([pa.array([1.0, 2.0])] * 2, names=["age", "age"])
    assert "one of each" in refused(arrow, Schema((SCHEMA["age"],)))


def test_too_few_rows_and_ragged_columns() -> None:
    for rows in (0, 1):
        few = {name: values[:rows] for name, values in GOOD.items()}
        assert "fewer than two rows" in refused(few, SCHEMA)
        assert "fewer than two rows" in refused(pd.DataFrame(few), SCHEMA)
    message = refused(with_column(visits=[1, 2]), SCHEMA)
    assert message.startswith("columns 'age' and 'visits' are not equally long")


def test_wrong_vector_shapes() -> None:
    for bad in (np.zeros((3, 3)), np.zeros(3), [[0.1], [0.1, 0.2], [0.3]]):
        assert "'x'" in refused({"x": bad}, X)
    lists = pd.DataFrame({"x": [[0.1], [0.1, 0.2], [0.3, 0.4]]})
    assert "array of shape (2,)" in refused(lists, X)


@pytest.mark.parametrize(
    "data", [[1, 2], "people.csv", None, 3.0, pl.LazyFrame(GOOD), np.zeros((3, 2))]
)
def test_what_is_no_table(data: Any) -> None:
    assert "data must be a pandas, polars or pyarrow table" in refused(data, SCHEMA)


def test_a_schema_is_needed() -> None:
    with pytest.raises(TypeError, match="schema must be a Schema, got str"):
        Table(GOOD, "people.toml")  # type: ignore[arg-type]


# --- options -----------------------------------------------------------------------------------


def test_clamp_moves_values_to_the_bounds_and_says_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    data = with_column(age=[-5.0, SENTINEL, 3.0], visits=np.array([60, 2**63, 1], dtype=np.uint64))
    arrays = opened(Table(data, SCHEMA, clamp=True))
    np.testing.assert_array_equal(arrays["age"], [0, 100, 3])
    np.testing.assert_array_equal(arrays["visits"], [50, 50, 1])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "bad",
    [
        {"age": [1.0, 2.0, float("inf")]},
        {"age": [1.0, 2.0, float("nan")]},
        {"visits": [1, 2, 2.5]},
        {"ill": [0, 1, 2]},
        {"sex": ["male", "female", WORD]},
    ],
)
def test_clamp_does_not_help_otherwise(bad: dict[str, Any]) -> None:
    refused(with_column(**bad), SCHEMA, clamp=True)


def test_constant_columns_on_request() -> None:
    table = Table(with_column(age=[5, 5, 5]), SCHEMA, allow_constant=True)
    np.testing.assert_array_equal(opened(table)["age"], [5, 5, 5])
    # A vector column may well hold a column of ones; it is constant when its rows are all the same.
    assert len(Table({"x": np.array([[1, 0.1], [1, 0.2]])}, X)) == 2
    assert "one single value" in refused({"x": np.array([[1, 0.1], [1, 0.1]])}, X)


def test_repr_shows_the_schema_only() -> None:
    table = Table(with_column(age=[1.25, 2.5, 77.75]), SCHEMA)
    assert repr(table) == (
        "Table(age: real in [0, 100]; visits: count in [0, 50]; ill: binary; "
        "sex: category of female, male, other)"
    )
    longer = {name: values * 5 for name, values in GOOD.items()}
    assert repr(Table(longer, SCHEMA)) == repr(table) == str(table)


# --- no message holds a value ------------------------------------------------------------------

CELLS = st.sampled_from([SENTINEL, -SENTINEL, 987654321, WORD, None, float("nan"), float("inf")])


@given(
    name=st.sampled_from(list(GOOD)),
    cells=st.lists(CELLS, min_size=1, max_size=2),
    how=st.sampled_from(["dict", "pandas", "csv"]),
    clamp=st.booleans(),
)
def test_no_message_holds_a_cell(
    name: str,
    cells: list[Any],
    how: str,
    clamp: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    data = with_column(**{name: [*GOOD[name][len(cells) :], *cells]})
    try:
        if how == "csv":
            path = tmp_path_factory.getbasetemp() / "cells.csv"
            path.write_text(csv_text(data))
            Table.read(path, SCHEMA, clamp=clamp)
        else:
            Table(pd.DataFrame(data) if how == "pandas" else data, SCHEMA, clamp=clamp)
    except DataError as error:
        message = str(error)
        assert f"'{name}'" in message
        assert "\n" not in message
        for part in ("987654", "zebra", "sentinel", ".321"):
            assert part not in message
    else:
        assert clamp and name in ("age", "visits")


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_a_public_sample_is_read_as_a_table_is(tmp_path, suffix):
    """Vectors spread over columns, a category called NA, columns that are not declared."""
    country = Column(name="country", kind="category", categories=("NA", "ZA"))
    frame = pd.DataFrame(
        {"x[0]": [0.5, -0.5], "x[1]": [0.25, 1.0], "country": ["NA", "ZA"], "note": ["a", "b"]}
    )
    path = tmp_path / f"sample{suffix}"
    if suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    lacking = Schema((*X, country, Column(name="ill", kind="binary")))
    table = Table.read(path, Schema((*X, country)), ignore_undeclared=True)
    for sample in (PublicSample.read(path, lacking), PublicSample(frame, lacking)):
        assert list(sample.columns) == ["x", "country"]
        for name, values in opened(table).items():
            np.testing.assert_array_equal(sample.columns[name], values)
    assert PublicSample.read(path, lacking).fingerprint() == sample.fingerprint()


def test_a_public_sample_with_part_of_a_vector_is_refused():
    with pytest.raises(DataError, match=r"'x\[1\]' is declared but not in the data"):
        PublicSample({"x[0]": [0.5, -0.5]}, X)
    with pytest.raises(DataError, match="has none of the schema's columns"):
        PublicSample({"y": [0.5, -0.5]}, X)
