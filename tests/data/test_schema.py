"""Columns and schemas: what may be declared, how it is written down, what is simulated from it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import truncnorm

from noisewise._validate import NoisewiseError
from noisewise.data import Column, Schema, SchemaError

PEOPLE = """
rows = 20190            # public
[columns.age]
type = "real"
bounds = [0, 100]
mean = 45
sd = 15
[columns.sex]
type = "category"
categories = ["female", "male"]
[columns.visited]
type = "binary"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "people.toml"
    path.write_text(text, encoding="utf-8")
    return path


# --- columns -----------------------------------------------------------------------------------


def test_declarations_are_normalised_to_plain_values() -> None:
    age = Column(name="age", kind="real", bounds=[np.int64(0), 100], mean=45, sd=np.float32(15))  # type: ignore[arg-type]
    assert age.bounds == (0.0, 100.0)
    assert (type(age.mean), type(age.sd)) == (float, float)
    count = Column(name="k", kind="count", bounds=(0, 7.0))
    assert count.bounds == (0, 7)
    assert count.bounds is not None and type(count.bounds[1]) is int
    assert hash(age) != hash(count)


NAN, INF = math.nan, math.inf
BAD_COLUMNS: list[tuple[dict[str, Any], str]] = [
    ({"kind": "text"}, "type"),
    ({"kind": ["real"]}, "type"),
    ({"kind": "real"}, "has no bounds"),
    ({"kind": "count"}, "has no bounds"),
    ({"kind": "real", "bounds": (0, NAN)}, "two finite numbers"),
    ({"kind": "real", "bounds": (0, INF)}, "two finite numbers"),
    ({"kind": "real", "bounds": (0, 10**400)}, "two finite numbers"),
    ({"kind": "real", "bounds": (False, True)}, "two finite numbers"),
    ({"kind": "real", "bounds": (0, 1, 2)}, "two finite numbers"),
    ({"kind": "real", "bounds": "01"}, "two finite numbers"),
    ({"kind": "real", "bounds": ("0", "1")}, "two finite numbers"),
    ({"kind": "real", "bounds": (1, 1)}, "lo < hi"),
    ({"kind": "real", "bounds": (2, 1)}, "lo < hi"),
    ({"kind": "real", "bounds": (-1e308, 1e308)}, "finite range"),
    ({"kind": "count", "bounds": (-1, 3)}, "whole numbers"),
    ({"kind": "count", "bounds": (0, 2.5)}, "whole numbers"),
    ({"kind": "count", "bounds": (0, 2**60)}, "whole numbers"),
    ({"kind": "real", "bounds": (0, 1), "mean": 0.5}, "mean without sd"),
    ({"kind": "real", "bounds": (0, 1), "sd": 0.5}, "sd without mean"),
    ({"kind": "real", "bounds": (0, 1), "mean": 2, "sd": 1}, "inside bounds"),
    ({"kind": "real", "bounds": (0, 1), "mean": NAN, "sd": 1}, "inside bounds"),
    ({"kind": "real", "bounds": (0, 1), "mean": 0.5, "sd": 0}, "positive finite"),
    ({"kind": "real", "bounds": (0, 1), "mean": 0.5, "sd": NAN}, "positive finite"),
    ({"kind": "real", "bounds": (0, 1), "mean": 0.5, "sd": INF}, "positive finite"),
    ({"kind": "real", "bounds": (0, 1), "shape": (0,)}, "positive integers"),
    ({"kind": "real", "bounds": (0, 1), "shape": (2.0,)}, "positive integers"),
    ({"kind": "real", "bounds": (0, 1), "shape": 3}, "positive integers"),
    ({"kind": "real", "bounds": (0, 1), "share": 0.5}, "does not have"),
    ({"kind": "count", "bounds": (0, 1), "shape": (2,)}, "does not have"),
    ({"kind": "binary", "bounds": (0, 1)}, "does not have"),
    ({"kind": "binary", "share": 0}, "between 0 and 1"),
    ({"kind": "binary", "share": 1}, "between 0 and 1"),
    ({"kind": "binary", "share": NAN}, "between 0 and 1"),
    ({"kind": "category"}, "has no categories"),
    ({"kind": "category", "categories": ("a",)}, "at least two"),
    ({"kind": "category", "categories": "ab"}, "at least two"),
    ({"kind": "category", "categories": ("a", None)}, "at least two"),
    ({"kind": "category", "categories": ("a", "")}, "at least two"),
    ({"kind": "category", "categories": ("a", "b", "a")}, "twice"),
    ({"kind": "category", "categories": ("a", "b"), "shares": (1.0,)}, "sum to 1"),
    ({"kind": "category", "categories": ("a", "b"), "shares": (0.5, 0.6)}, "sum to 1"),
    ({"kind": "category", "categories": ("a", "b"), "shares": (1.0, 0.0)}, "sum to 1"),
    ({"kind": "category", "categories": ("a", "b"), "shares": (NAN, 0.5)}, "sum to 1"),
]


@pytest.mark.parametrize(("declared", "reason"), BAD_COLUMNS)
def test_bad_declarations_are_refused_in_one_line(declared: dict[str, Any], reason: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Column(name="age", **declared)
    message = str(caught.value)
    assert message.startswith("column 'age' ")
    assert reason in message
    assert ": " in message
    assert "\n" not in message


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_column_needs_a_name(name: Any) -> None:
    with pytest.raises(SchemaError, match="non-empty string"):
        Column(name=name, kind="binary")


def test_entry_names_of_scalars_vectors_and_matrices() -> None:
    assert Column(name="x", kind="binary").entry_names == ("x",)
    matrix = Column(name="x", kind="real", bounds=(0, 1), shape=(2, 2))
    assert matrix.entry_names == ("x[0,0]", "x[0,1]", "x[1,0]", "x[1,1]")
    assert matrix.summary() == "x: real vector of shape (2, 2) in [0, 1]"


# --- schemas -----------------------------------------------------------------------------------


def test_toml_is_read(tmp_path: Path) -> None:
    schema = Schema.from_toml(write(tmp_path, PEOPLE))
    assert schema.rows == 20190
    assert schema.names == ("age", "sex", "visited")
    assert schema["age"] == Column(name="age", kind="real", bounds=(0, 100), mean=45, sd=15)
    assert schema["sex"].categories == ("female", "male")
    assert [column.kind for column in schema] == ["real", "category", "binary"]
    assert "sex" in schema and "height" not in schema
    assert len(schema) == 3


BAD_TOML = [
    ("", "no columns"),
    ("columns = 3", "columns = 3"),
    ("[columns]", "no column"),
    ("rowz = 3\n[columns.a]\ntype = 'binary'", "'rowz'"),
    ("rows = 1\n[columns.a]\ntype = 'binary'", "rows must be an integer of at least 2"),
    ("rows = 2.0\n[columns.a]\ntype = 'binary'", "rows must be an integer of at least 2"),
    ("rows = true\n[columns.a]\ntype = 'binary'", "rows must be an integer of at least 2"),
    ("[columns]\na = 'binary'", "column 'a' is declared as 'binary'"),
    ("[columns.a]\nbounds = [0, 1]", "column 'a' has no type"),
    ("[columns.a]\ntype = 'binary'\nbound = 3", "column 'a' has unknown keys 'bound'"),
    ("[columns.a]\ntype = 'binary'\nname = 'b'", "column 'a' has unknown keys 'name'"),
    ("[columns.a]\ntype = 'real'", "column 'a' has no bounds"),
    ("[columns.a\ntype = 'real'", "not valid TOML"),
    ("[columns.a]\n[columns.a]", "not valid TOML"),
]


@pytest.mark.parametrize(("text", "reason"), BAD_TOML)
def test_bad_toml_is_refused_in_one_line(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.from_toml(write(tmp_path, text))
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_and_binary_files_are_schema_errors(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="cannot read the schema"):
        Schema.from_toml(tmp_path / "nowhere.toml")
    with pytest.raises(SchemaError, match="cannot read the schema"):
        Schema.from_toml(tmp_path)
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SchemaError, match="not UTF-8"):
        Schema.from_toml(tmp_path / "b.toml")
    (tmp_path / "b.toml").write_text("a = ")
    with pytest.raises(SchemaError, match="not valid TOML"):
        Schema.from_toml(tmp_path / "b.toml")


def test_schema_refuses_no_columns_and_doubles() -> None:
    a = Column(name="a", kind="binary")
    for columns in [(), (a, a), ("a",), "a", 3, {"a": a}]:
        with pytest.raises(SchemaError):
            Schema(columns)  # type: ignore[arg-type]
    assert Schema([a]).columns == (a,)  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="'b' is not in the schema: declared are 'a'"):
        Schema((a,))["b"]
    assert issubclass(SchemaError, NoisewiseError) and issubclass(SchemaError, ValueError)


# --- round trips -------------------------------------------------------------------------------

NAMES = st.text(min_size=1, max_size=8)
NUMBERS = st.floats(-1e9, 1e9, allow_nan=False)


@st.composite
def real_columns(draw: st.DrawFn, name: str) -> Column:
    lo, hi = sorted(draw(st.lists(NUMBERS, min_size=2, max_size=2, unique=True)))
    if not (hi - lo) / 2 > 0:  # two neighbouring subnormals
        hi = lo + 1.0
    guess: dict[str, Any] = {}
    if draw(st.booleans()):
        guess = {"mean": draw(st.floats(lo, hi)), "sd": draw(st.floats(1e-9, 1e9))}
    shape = tuple(draw(st.lists(st.integers(1, 5), max_size=2)))
    return Column(name=name, kind="real", bounds=(lo, hi), shape=shape, **guess)


@st.composite
def columns(draw: st.DrawFn) -> Column:
    name = draw(NAMES)
    kind = draw(st.sampled_from(["real", "count", "binary", "category"]))
    if kind == "real":
        return draw(real_columns(name))
    if kind == "count":
        lo = draw(st.integers(0, 1000))
        return Column(name=name, kind="count", bounds=(lo, lo + draw(st.integers(1, 10**12))))
    if kind == "binary":
        share = draw(st.none() | st.floats(0.001, 0.999))
        return Column(name=name, kind="binary", share=share)
    levels = tuple(draw(st.lists(NAMES, min_size=2, max_size=5, unique=True)))
    shares = draw(st.sampled_from([None, tuple(1 / len(levels) for _ in levels)]))
    return Column(name=name, kind="category", categories=levels, shares=shares)


SCHEMAS = st.builds(
    Schema,
    st.lists(columns(), min_size=1, max_size=5, unique_by=lambda column: column.name).map(tuple),
    st.none() | st.integers(2, 2**31 - 1),
)


@given(schema=SCHEMAS)
def test_toml_and_dict_round_trip(schema: Schema, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = write(tmp_path_factory.getbasetemp(), schema.to_toml())
    assert Schema.from_toml(path) == schema
    assert Schema.from_dict(schema.to_dict()) == schema
    assert Schema.from_toml(path).fingerprint() == schema.fingerprint()


@pytest.mark.parametrize("name", ["a\nb", 'quo"te', "a.b", "[x]", "\x7f", "\x00", "ü😀", "\r\n"])
def test_awkward_names_survive_toml(tmp_path: Path, name: str) -> None:
    schema = Schema((Column(name=name, kind="category", categories=(name, "b")),))
    assert Schema.from_toml(write(tmp_path, schema.to_toml())) == schema


def test_fingerprint_sees_every_part_and_the_order() -> None:
    a, b = Column(name="a", kind="binary"), Column(name="b", kind="binary")
    other = Column(name="a", kind="binary", share=0.4)
    schemas = [Schema((a, b)), Schema((b, a)), Schema((other, b)), Schema((a, b), rows=9)]
    prints = {schema.fingerprint() for schema in schemas}
    assert len(prints) == 4
    assert all(len(digits) == 16 and int(digits, 16) >= 0 for digits in prints)
    assert Schema((a, b)).fingerprint() == Schema((a, b)).fingerprint()


# --- simulation --------------------------------------------------------------------------------


@given(schema=SCHEMAS, seed=st.integers(0, 2**32 - 1))
def test_simulated_tables_keep_to_the_schema(schema: Schema, seed: int) -> None:
    drawn = schema.simulate(np.random.default_rng(seed), 7)
    types = {"real": np.float64, "count": np.int64, "binary": np.int8, "category": np.int32}
    assert tuple(drawn) == schema.names
    for column in schema:
        values = drawn[column.name]
        assert values.dtype == types[column.kind]
        assert values.shape == (7, *column.shape)
        lo, hi = column.bounds or (0, len(column.categories or "01") - 1)
        assert np.all((values >= lo) & (values <= hi))


def test_simulated_marginals_are_the_declared_ones() -> None:
    n = 200_000
    schema = Schema(
        (
            Column(name="age", kind="real", bounds=(18, 60), mean=25, sd=15),
            Column(name="flat", kind="real", bounds=(-1, 3), shape=(2,)),
            Column(name="wide", kind="real", bounds=(0, 1), mean=0.5, sd=1e300),
            Column(name="kids", kind="count", bounds=(0, 2)),
            Column(name="visits", kind="count", bounds=(0, 50), mean=20, sd=4),
            Column(name="ill", kind="binary", share=0.1),
            Column(
                name="site", kind="category", categories=("a", "b", "c"), shares=(0.7, 0.2, 0.1)
            ),
        )
    )
    drawn = schema.simulate(np.random.default_rng(1), n)
    exact = truncnorm((18 - 25) / 15, (60 - 25) / 15, loc=25, scale=15)
    quantiles = np.quantile(drawn["age"], [0.1, 0.5, 0.9])
    np.testing.assert_allclose(quantiles, exact.ppf([0.1, 0.5, 0.9]), atol=0.25)
    np.testing.assert_allclose(drawn["flat"].mean(axis=0), 1.0, atol=0.02)
    np.testing.assert_allclose(drawn["wide"].std(), np.sqrt(1 / 12), atol=0.005)
    np.testing.assert_allclose(np.bincount(drawn["kids"]) / n, 1 / 3, atol=0.01)
    np.testing.assert_allclose([drawn["visits"].mean(), drawn["visits"].std()], [20, 4], atol=0.05)
    np.testing.assert_allclose(drawn["ill"].mean(), 0.1, atol=0.005)
    np.testing.assert_allclose(np.bincount(drawn["site"]) / n, [0.7, 0.2, 0.1], atol=0.01)


def test_simulation_is_reproducible_and_checks_n() -> None:
    schema = Schema((Column(name="x", kind="real", bounds=(0, 1)),))
    first, second = (schema.simulate(np.random.default_rng(3), 5)["x"] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    with pytest.raises(ValueError, match="n must be"):
        schema.simulate(np.random.default_rng(3), 0)


def test_declarations_are_shown_by_what_they_declare():
    column = Column(name="age", kind="count", bounds=(0, 90), missing="allowed", fill=40)
    assert eval(repr(column)) == column
    assert repr(Column(name="ill", kind="binary")) == "Column(name='ill', kind='binary')"
    schema = Schema((Column(name="ill", kind="binary"),), rows=50)
    assert repr(schema) == "Schema(ill: binary; rows: 50)"
    many = repr(Schema(tuple(Column(name=f"x{i}", kind="binary") for i in range(40))))
    assert "(40 columns in all); rows: private" in many and len(many) < 200
