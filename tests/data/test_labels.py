"""1, 1.0 and "1" are one level, from every source and in every declaration."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from noisewise.data import Column, DataError, Schema, SchemaError, Table

STAGE = Schema((Column(name="stage", kind="category", categories=("1", "2", "2.5")),))


def codes(data, schema=STAGE):
    return Table(data, schema).rows.unsafe_columns()["stage"].tolist()


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.0, 2.5],
        ["1", "2.0", "2.50"],
        np.array([1, 2, 2.5], np.float32),
        np.array([1, "2", 2.5], dtype=object),
        pd.Categorical([1.0, 2.0, 2.5]),
    ],
)
def test_numbers_are_levels_however_they_are_written(values):
    assert codes(pd.DataFrame({"stage": values})) == [0, 1, 2]


def test_a_csv_written_from_floats_is_read(tmp_path):
    pd.DataFrame({"stage": [1.0, 2.0, 2.5]}).to_csv(tmp_path / "p.csv", index=False)
    table = Table.read(tmp_path / "p.csv", STAGE)
    assert table.rows.unsafe_columns()["stage"].tolist() == [0, 1, 2]


def test_numbers_may_be_declared():
    declared = {"columns": {"stage": {"type": "category", "categories": [1, 2.0, 2.5]}}}
    schema = Schema.from_dict(declared)
    assert schema["stage"].categories == ("1", "2", "2.5")
    assert codes({"stage": np.array([2, 1])}, schema) == [1, 0]


@pytest.mark.parametrize("levels", [("1", "1.0"), (1, "1"), ("a", "a"), (True, False), ("a", None)])
def test_one_level_is_declared_once_and_has_a_name(levels):
    with pytest.raises(SchemaError, match=r"twice|non-empty labels"):
        Column(name="x", kind="category", categories=levels)


@pytest.mark.parametrize("values", [[1.0, np.nan], [1.0, np.inf], ["01", "1"], ["1e0", "2"]])
def test_what_is_no_level_stays_refused(values):
    with pytest.raises(DataError, match="no declared category") as caught:
        codes({"stage": np.array(values)})
    assert "01" not in str(caught.value)


def test_codes_with_leading_zeros_are_levels_of_their_own():
    places = Schema((Column(name="stage", kind="category", categories=("01", "1")),))
    assert codes({"stage": np.array(["01", "1", "01"])}, places) == [0, 1, 0]
