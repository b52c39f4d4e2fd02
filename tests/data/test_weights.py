"""Columns of survey weights: what may be declared, read and simulated."""

import numpy as np
import pytest

import noisewise as nw
from noisewise.data import DataError, Encoder, SchemaError, review_schema, unit_weight
from noisewise.models import bind_model
from noisewise.models.target import WEIGHT

AGE = nw.Column(name="age", kind="real", bounds=(0, 100))
ILL = nw.Column(name="ill", kind="binary")
PLAIN = nw.Column(name="w", kind="weight", bounds=(0.5, 20))
GUESSED = nw.Column(name="w", kind="weight", bounds=(0.5, 20), mean=4, sd=3)
SCHEMA = nw.Schema((AGE, ILL, PLAIN))


def test_a_schema_with_weights_is_written_and_read_back(tmp_path) -> None:
    path = tmp_path / "people.toml"
    path.write_text(nw.Schema((AGE, ILL, GUESSED)).to_toml())
    found = nw.Schema.from_toml(path)
    assert found.weight == GUESSED
    assert review_schema(path).schema == found
    assert nw.Schema((AGE, ILL)).weight is None


def test_a_check_says_what_weights_are_divided_by(tmp_path) -> None:
    path = tmp_path / "people.toml"
    path.write_text(SCHEMA.to_toml())
    assert any("divided by 10.25" in hint for hint in review_schema(path).hints)
    assert unit_weight(PLAIN) == 10.25
    assert unit_weight(GUESSED) == 4


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"bounds": (-1, 2)}, "a weight is 0 or more"),
        ({}, "has no bounds"),
        ({"bounds": (0, 2), "mean": 0, "sd": 1}, "expected a number above 0"),
        ({"bounds": (0, 2), "mean": 1}, "declares mean without sd"),
        ({"bounds": (0, 2), "missing": "allowed"}, "which a weight column does not have"),
    ],
)
def test_bad_declarations_are_refused(declared, said) -> None:
    with pytest.raises(SchemaError, match=said):
        nw.Column(name="w", kind="weight", **declared)


def test_a_record_has_one_weight() -> None:
    other = nw.Column(name="v", kind="weight", bounds=(0, 1))
    with pytest.raises(SchemaError, match="a record has one weight"):
        nw.Schema((AGE, PLAIN, other))


def test_weights_outside_their_bounds_are_refused_or_clamped_and_never_quoted() -> None:
    """An adversary's weights cannot get past the bounds that were declared."""
    cells = {"age": [1.0, 2.0, 3.0], "ill": [0, 1, 1], "w": [1.0, 777.5, 0.0]}
    with pytest.raises(DataError, match="'w'") as refused:
        nw.Table(cells, SCHEMA)
    assert "777" not in str(refused.value)
    clamped = nw.Table(cells, SCHEMA, clamp=True).rows.unsafe_columns()["w"]
    assert clamped.tolist() == [1.0, 20.0, 0.5]
    with pytest.raises(DataError, match="'w'"):
        nw.Table(cells | {"w": [1.0, np.nan, 1.0]}, SCHEMA, clamp=True)


def test_equal_weights_are_no_reason_to_refuse_a_table() -> None:
    nw.Table({"age": [1.0, 2.0], "ill": [0, 1], "w": [1.0, 1.0]}, SCHEMA)


def test_simulated_weights_are_uniform_or_log_normal_as_declared() -> None:
    """Means of 40,000 draws within five standard errors (chance 6e-7 each; fixed seed)."""
    rng, n = np.random.default_rng(0), 40_000
    plain = PLAIN.simulate(rng, n)
    assert abs(plain.mean() - 10.25) < 5 * 19.5 / np.sqrt(12 * n)
    wide = nw.Column(name="w", kind="weight", bounds=(0, 1e6), mean=4, sd=3)
    found = wide.simulate(rng, n)
    assert abs(found.mean() - 4) < 5 * 3 / np.sqrt(n)
    spread = np.log1p((3 / 4) ** 2)
    assert abs(np.log(found).var() / spread - 1) < 5 * np.sqrt(2 / n)
    cut = GUESSED.simulate(rng, n)
    assert cut.min() >= 0.5
    assert cut.max() <= 20


def test_weights_explain_nothing() -> None:
    assert Encoder(SCHEMA, "ill").names == ["intercept", "age"]
    with pytest.raises(SchemaError, match="feature 'w' is declared a weight"):
        Encoder(SCHEMA, "ill", ["age", "w"])
    with pytest.raises(SchemaError, match="target 'w' is declared a weight"):
        Encoder(SCHEMA, "w")

    def model(age, w, ill=None):
        raise AssertionError("it is refused before it is called")

    with pytest.raises(nw.NoisewiseError, match="argument 'w' is declared a weight"):
        bind_model(model, SCHEMA)


def test_a_record_counts_by_its_weight_over_the_public_unit_and_not_without_an_outcome() -> None:
    ill = nw.Column(name="ill", kind="binary", missing="allowed")
    bound = bind_model("logistic", nw.Schema((AGE, ill, GUESSED)), "ill")
    arrays = {"age": np.array([1.0, 2.0]), "ill": np.array([1, -1]), "w": np.array([2.0, 8.0])}
    assert bound.view.encode(arrays)[WEIGHT].tolist() == [0.5, 0.0]
    assert bound.weighted
