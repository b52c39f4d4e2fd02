"""Tables on disk: the same checks as in memory, and a folder that is its owner's alone."""

from __future__ import annotations

import errno
import gc
import stat
from dataclasses import replace
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import noisewise as nw
from noisewise._validate import NoisewiseError
from noisewise.data.cache import bytes_of
from noisewise.data.errors import DataError

SCHEMA = nw.Schema(
    (
        nw.Column(name="age", kind="real", bounds=(0, 100), missing="allowed"),
        nw.Column(name="level", kind="real", bounds=(0, 1), shape=(2,)),
        nw.Column(name="visits", kind="count", bounds=(0, 50)),
        nw.Column(name="stage", kind="category", categories=("1", "2", "3")),
        nw.Column(name="ill", kind="binary"),
    )
)
COUNT = 90


def frame(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.uniform(0, 100, COUNT)
    age[::5] = np.nan
    return pd.DataFrame(
        {
            "ill": rng.integers(0, 2, COUNT).astype(bool),
            "age": age,
            "level[0]": rng.random(COUNT),
            "level[1]": rng.random(COUNT),
            "visits": rng.poisson(3, COUNT),
            "stage": rng.choice(["1", "2", "3"], COUNT),
            "other": "not to be read",
        }
    )


@pytest.fixture
def people(tmp_path):
    """Files that store the same columns in different types."""
    folder, whole = tmp_path / "people", frame()
    folder.mkdir()
    whole[:30].to_parquet(folder / "a.parquet", row_group_size=7)
    whole[30:40].astype({"stage": "category", "visits": "float64"}).to_parquet(folder / "b.parquet")
    whole[40:].astype({"stage": "int32", "visits": "int16"}).to_parquet(folder / "c.parquet")
    return folder


@pytest.fixture
def opened(tmp_path):
    """Opens tables with a folder of their own, and closes them."""
    tables = []

    def open_table(source, schema=SCHEMA, **options):
        options = {"cache": tmp_path / "cache", "ignore_undeclared": True} | options
        tables.append(nw.Table.open(source, schema, **options))
        return tables[-1]

    yield open_table
    for table in tables:
        table.close()


def columns_of(table: nw.Table) -> dict[str, np.ndarray]:
    passes = list(table.rows.unsafe_passes())
    return {name: np.concatenate([rows[name] for rows in passes]) for name in passes[0]}


def assert_same_columns(one: nw.Table, other: nw.Table) -> None:
    found, expected = columns_of(one), columns_of(other)
    assert list(found) == list(expected)
    for name, values in expected.items():
        assert found[name].dtype == values.dtype
        np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize("pattern", ["people", "people/*.parquet", "people/**/*.parquet"])
def test_it_holds_what_the_table_in_memory_holds(people, opened, tmp_path, pattern):
    expected = nw.Table(frame(), SCHEMA, ignore_undeclared=True)
    found = opened(tmp_path / pattern)
    assert_same_columns(found, expected)
    assert len(found) == COUNT and repr(found) == repr(expected)
    with pytest.raises(TypeError, match="not pickled"):
        found.rows.__reduce__()


def test_a_column_may_be_in_the_path(opened, tmp_path):
    whole = frame()
    for value, rows in whole.groupby("stage"):
        folder = tmp_path / "people" / f"stage={value}"
        folder.mkdir(parents=True)
        rows.drop(columns="stage").to_parquet(folder / "part.parquet")
    in_order = whole.sort_values("stage", kind="stable")
    expected = nw.Table(in_order, SCHEMA, ignore_undeclared=True)
    assert_same_columns(opened(tmp_path / "people"), expected)


def test_rows_are_taken_by_number(people, opened):
    table = opened(people)
    columns = columns_of(table)
    batches = [np.array([0, 3, 89]), np.array([], int), np.array([3, 40])]
    with mock.patch("noisewise.data.files._WINDOW", 64):  # a few records at a time
        found = table.rows.unsafe_taken(batches, 8)
    for name, values in columns.items():
        np.testing.assert_array_equal(found[name][:5], values[np.concatenate(batches).astype(int)])
        assert not found[name][5:].any() and len(found[name]) == 8


def test_the_folder_is_its_owners_alone_and_goes_with_the_table(people, opened, tmp_path):
    cache = tmp_path / "deep" / "cache"
    table = opened(people, cache=cache)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in cache.iterdir()} == {0o600}
    table.close()
    assert not cache.exists()
    with nw.Table.open(people, SCHEMA, cache=cache, ignore_undeclared=True):
        assert cache.exists()
    assert not cache.exists()
    dropped = nw.Table.open(people, SCHEMA, cache=cache, ignore_undeclared=True)
    assert cache.exists()
    del dropped
    gc.collect()
    assert not cache.exists()


def test_prepared_rows_are_in_it_as_long_as_they_are_used(people, opened, tmp_path):
    def halved(rows):
        return {"visits": rows["visits"] / 2}

    rows = opened(people).rows.map(halved)
    with rows.unsafe_prepared() as prepared:
        (folder,) = (tmp_path / "cache").glob("prepared-*")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (found,) = prepared.unsafe_passes()
        np.testing.assert_array_equal(found["visits"], frame()["visits"] / 2)
    assert not folder.exists()


def test_it_may_be_kept_for_the_same_files(people, opened, tmp_path):
    cache = tmp_path / "cache"
    opened(people, keep_cache=True).close()
    about = (cache / "column-0.bin").stat()
    again = opened(people, keep_cache=True)
    assert (cache / "column-0.bin").stat().st_mtime_ns == about.st_mtime_ns
    assert_same_columns(again, nw.Table(frame(), SCHEMA, ignore_undeclared=True))
    again.close()
    frame(1).to_parquet(people / "c.parquet")
    with pytest.raises(NoisewiseError, match="holds the rows of another table"):
        opened(people)
    assert (cache / "column-0.bin").exists(), "what was kept is not deleted unasked"


def test_one_that_was_not_finished_is_made_anew(people, opened, tmp_path):
    opened(people, keep_cache=True).close()
    paper = tmp_path / "cache" / "noisewise-cache.json"
    begun = paper.read_text()[: paper.read_text().index('"columns"')] + '"columns": []}'
    paper.write_text(begun)
    (tmp_path / "cache" / "column-0.bin").write_bytes(b"half")
    assert_same_columns(opened(people), nw.Table(frame(), SCHEMA, ignore_undeclared=True))


def test_folders_of_others_are_refused_and_stay(people, opened, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "letter.txt").write_text("mine")
    with pytest.raises(NoisewiseError, match="holds other things than noisewise's rows"):
        opened(people)
    assert (tmp_path / "cache" / "letter.txt").read_text() == "mine"
    opened(people, cache=tmp_path / "other")
    with pytest.raises(NoisewiseError, match="in use by another fit"):
        opened(people, cache=tmp_path / "other")


def test_a_full_disk_is_one_line_and_leaves_nothing(people, opened, tmp_path):
    full = OSError(errno.ENOSPC, "No space left on device")
    with (
        mock.patch("noisewise.data.files.ColumnWriter._begin", side_effect=full),
        pytest.raises(NoisewiseError, match="No space left on device"),
    ):
        opened(people)
    assert not (tmp_path / "cache").exists()


FAULTS = {
    "values outside its declared bounds": ("age", 117.25),
    "no declared category": ("stage", "117.25"),
    "does not hold numbers": ("visits", "117.25"),
    "values other than 0 and 1": ("ill", 117),
    "not whole": ("visits", 11.725),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_name_the_column_and_no_value(fault, people, opened, tmp_path):
    """In the last row of the last file; the same line as in memory, and nothing stays behind."""
    name, value = FAULTS[fault]
    whole = frame()
    changed = whole[40:].copy()
    if isinstance(value, str):
        changed[name] = changed[name].astype(str)
    else:
        changed[name] = changed[name].astype(float)
    changed.iloc[-1, list(changed).index(name)] = value
    changed.to_parquet(people / "c.parquet")
    with pytest.raises(DataError, match=f"column '{name}' .*{fault}") as found:
        opened(people)
    with pytest.raises(DataError) as expected:
        nw.Table.read(people / "c.parquet", SCHEMA, ignore_undeclared=True)
    assert str(found.value) == str(expected.value)
    assert "117" not in str(found.value) and "11.7" not in str(found.value)
    assert not (tmp_path / "cache").exists()


def test_a_column_that_is_in_some_files_only_is_missed(people, opened):
    """Where gaps are allowed too: its cells would come as missing."""
    frame()[40:].drop(columns="age").to_parquet(people / "c.parquet")
    with pytest.raises(DataError, match="'age' is declared but not in the data"):
        opened(people)


def test_undeclared_columns_are_refused_unless_left_out(people, opened):
    with pytest.raises(DataError, match="1 of the data's columns are not declared"):
        opened(people, ignore_undeclared=False)


def test_columns_of_one_value_are_refused_over_all_files(people, opened):
    whole = frame()
    whole["visits"] = 4
    whole[:40].to_parquet(people / "a.parquet")
    (people / "b.parquet").unlink()
    whole[40:].to_parquet(people / "c.parquet")
    with pytest.raises(DataError, match="'visits' holds one single value"):
        opened(people)
    opened(people, allow_constant=True).close()
    whole["visits"] = np.arange(len(whole)) >= 40  # one value in each file
    for name, part in (("a", whole[:40]), ("c", whole[40:])):
        part.astype({"visits": int}).to_parquet(people / f"{name}.parquet")
    opened(people)


def test_files_that_cannot_be_read_are_one_line(people, opened, tmp_path):
    for source, reason in (
        ("nowhere", "no such file"),
        ("people/*.csv", "no file is called like"),
    ):
        with pytest.raises(DataError, match=reason):
            opened(tmp_path / source)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no Parquet file in"):
        opened(tmp_path / "empty")
    (people / "b.parquet").write_bytes(b"secret,117.25\n" * 40)
    with pytest.raises(DataError, match="not whole") as found:
        opened(people)
    assert "117" not in str(found.value)
    whole = (people / "a.parquet").read_bytes()
    (people / "b.parquet").unlink()
    (people / "a.parquet").write_bytes(whole[:60] + bytes(600) + whole[660:])
    with pytest.raises(DataError, match="cannot read"):
        opened(people)
    frame()[:1].to_parquet(tmp_path / "one.parquet")
    with pytest.raises(DataError, match="fewer than two rows"):
        opened(tmp_path / "one.parquet")


def test_a_public_sample_that_is_the_table_is_found(people, opened):
    table, whole = opened(people), columns_of(nw.Table(frame(), SCHEMA, ignore_undeclared=True))
    assert table.own_columns({"visits": whole["visits"], "age": whole["age"]}) == ["visits", "age"]
    changed = whole["visits"].copy()
    changed[-1] += 1
    assert table.own_columns({"visits": changed, "stage": whole["stage"][1:]}) == []


@pytest.mark.parametrize("wrong", ["much", "-1GiB", "10MiB", 2**20, None])
def test_memory_is_an_amount(wrong):
    with pytest.raises(NoisewiseError, match="memory must be"):
        bytes_of(wrong)


def test_units_are_refused(people, opened):
    """Before a folder is made."""
    unit = nw.Unit(column="other", max_rows=2)
    with pytest.raises(NoisewiseError, match=r"declares a \[unit\]: read it into memory"):
        opened(people, replace(SCHEMA, unit=unit))
