"""The encoding: linear, per record, fixed by the schema, and undone by what it describes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from noisewise.data import Column, Encoder, Schema, SchemaError

SCHEMA = Schema(
    (
        Column(name="age", kind="real", bounds=(0, 100), mean=45, sd=15),
        Column(name="height", kind="real", bounds=(100, 220)),
        Column(name="visits", kind="count", bounds=(0, 50)),
        Column(name="ill", kind="binary"),
        Column(name="site", kind="category", categories=("a", "b", "c")),
        Column(name="x", kind="real", bounds=(-2, 2), shape=(2,)),
        Column(name="sex", kind="category", categories=("female", "male")),
    )
)
DATA = {
    "age": np.array([60.0, 30.0, 45.0]),
    "height": np.array([100.0, 220.0, 160.0]),
    "visits": np.array([50, 0, 25]),
    "ill": np.array([1, 0, 1], dtype=np.int8),
    "site": np.array([0, 1, 2], dtype=np.int32),
    "x": np.array([[2.0, -2.0], [1.0, 0.0], [0.0, -1.0]]),
    "sex": np.array([1, 0, 1], dtype=np.int32),
}


def test_every_kind_is_encoded() -> None:
    encoder = Encoder(SCHEMA, target="sex")
    encoded = encoder.encode(DATA)
    names = ["intercept", "age", "height", "visits", "ill", "site=b", "site=c", "x[0]", "x[1]"]
    assert encoder.names == names
    expected: list[list[float]] = [
        [1, 1, -1, 1, 1, 0, 0, 1, -1],
        [1, -1, 1, -1, 0, 1, 0, 0.5, 0],
        [1, 0, 0, 0, 1, 0, 1, 0, -0.5],
    ]
    np.testing.assert_allclose(encoded["X"], expected, atol=1e-7)
    assert encoded["X"].dtype == np.float32
    assert encoded["y"].dtype == np.float32
    np.testing.assert_array_equal(encoded["y"], [1, 0, 1])


def test_a_target_of_three_categories_is_its_codes() -> None:
    """As indices, in the declared order; two categories stay the numbers 0 and 1."""
    y = Encoder(SCHEMA, target="site").encode(DATA)["y"]
    assert y.dtype == np.int32 and y.tolist() == [0, 1, 2]
    assert Encoder(SCHEMA, target="sex").encode(DATA)["y"].dtype == np.float32


@pytest.mark.parametrize("target", ["age", "visits", "ill"])
def test_targets_stay_in_their_own_units(target: str) -> None:
    encoder = Encoder(SCHEMA, target)
    np.testing.assert_array_equal(encoder.encode(DATA)["y"], DATA[target])
    assert target not in encoder.names and encoder.target == target


def test_features_choose_and_order() -> None:
    encoder = Encoder(SCHEMA, None, features=["site", "age"], intercept=False)
    assert encoder.names == ["site=b", "site=c", "age"]
    assert encoder.features == ("site", "age")
    encoded = encoder.encode(DATA)
    assert list(encoded) == ["X"]
    np.testing.assert_array_equal(encoded["X"], [[0, 0, 1], [1, 0, -1], [0, 1, 0]])


def test_intercept_alone_and_nothing_at_all() -> None:
    np.testing.assert_array_equal(Encoder(SCHEMA, "ill", []).design(DATA), np.ones((3, 1)))
    with pytest.raises(SchemaError, match="no columns"):
        Encoder(SCHEMA, "ill", [], intercept=False)


def test_new_records_need_no_target() -> None:
    encoder = Encoder(SCHEMA, "ill", ["age"])
    np.testing.assert_array_equal(encoder.design({"age": DATA["age"]}), [[1, 1], [1, -1], [1, 0]])
    with pytest.raises(SchemaError, match="'ill' is to be encoded but is not among the arrays"):
        encoder.encode({"age": DATA["age"]})
    with pytest.raises(SchemaError, match="'age' is to be encoded"):
        encoder.design({"ill": DATA["ill"]})


def test_each_row_depends_on_its_own_record_only() -> None:
    schema = Schema(SCHEMA.columns)
    drawn = schema.simulate(np.random.default_rng(0), 100)
    encoder = Encoder(schema, "visits")
    whole = encoder.encode(drawn)
    chosen = np.array([3, 97, 41])
    part = encoder.encode({name: values[chosen] for name, values in drawn.items()})
    np.testing.assert_array_equal(part["X"], whole["X"][chosen])
    np.testing.assert_array_equal(part["y"], whole["y"][chosen])


def test_feature_bounds_hold_and_are_reached() -> None:
    encoder = Encoder(SCHEMA, "sex")
    lo, hi = encoder.feature_bounds()
    X = encoder.design(SCHEMA.simulate(np.random.default_rng(1), 5000))
    assert lo.shape == hi.shape == (len(encoder.names),)
    assert np.all(lo <= X) and np.all(hi >= X)
    assert (lo[0], hi[0]) == (1, 1)
    np.testing.assert_allclose([lo[1], hi[1]], [-3, 55 / 15], rtol=1e-6)
    ends = {c.name: np.array([np.full(c.shape, b) for b in c.bounds]) for c in SCHEMA if c.bounds}
    ends |= {"ill": np.array([0, 1]), "site": np.array([0, 1])}
    reached = encoder.design(ends)
    numeric = [encoder.names.index(name) for name in ("age", "height", "visits", "x[0]", "x[1]")]
    np.testing.assert_array_equal(reached[0, numeric], lo[numeric])
    np.testing.assert_array_equal(reached[1, numeric], hi[numeric])


def test_describe_puts_coefficients_back_into_original_units() -> None:
    encoder = Encoder(SCHEMA, "ill", ["age", "height", "site"])
    described = encoder.describe()
    assert described[0] == {"name": "intercept", "column": None, "centre": 0.0, "scale": 1.0}
    assert described[1] == {"name": "age", "column": "age", "centre": 45.0, "scale": 15.0}
    assert described[2] == {"name": "height", "column": "height", "centre": 160.0, "scale": 60.0}
    assert described[3]["name"] == "site=b" and described[3]["column"] == "site"
    b = np.array([0.3, -1.0, 2.0, 0.5, -0.5])
    scale = np.array([d["scale"] for d in described])
    centre = np.array([d["centre"] for d in described])
    original = b / scale
    original[0] -= np.sum(b * centre / scale)
    site = np.stack([DATA["site"] == 1, DATA["site"] == 2], axis=1)
    raw = np.column_stack([np.ones(3), DATA["age"], DATA["height"], site])
    np.testing.assert_allclose(encoder.design(DATA) @ b, raw @ original, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"target": "income"}, "target 'income' is not in the schema: choose one of 'age'"),
        ({"target": "x"}, "vector column"),
        ({"target": None, "features": ["income"]}, "feature 'income' is not in the schema"),
        ({"target": "ill", "features": ["age", "ill"]}, "feature 'ill' is the target as well"),
        ({"target": "ill", "features": ["age", "age"]}, "listed twice"),
        ({"target": "ill", "features": "age"}, "list of column names"),
    ],
)
def test_bad_choices_are_refused_in_one_line(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Encoder(SCHEMA, **arguments)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_must_stay_different() -> None:
    binary = Column(name="intercept", kind="binary")
    with pytest.raises(SchemaError, match="two encoded columns would be called 'intercept'"):
        Encoder(Schema((binary,)), None)
    assert Encoder(Schema((binary,)), None, intercept=False).names == ["intercept"]


def test_a_scale_too_small_for_float32_is_refused() -> None:
    tiny = Column(name="z", kind="real", bounds=(0, 1), mean=0.5, sd=1e-300)
    with pytest.raises(SchemaError, match="declare a larger sd"):
        Encoder(Schema((tiny,)), None)
