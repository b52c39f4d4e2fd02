"""From a header or a codebook to a schema: what is taken, and what is never looked at."""

from __future__ import annotations

import gzip
import json
import tomllib

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisewise.data import (
    DataError,
    Schema,
    SchemaError,
    draft_of_file,
    json_schema_text,
    review_schema,
)
from noisewise.data.column import _DECLARABLE
from noisewise.data.header import read_header

SENTINEL = "zebra-sentinel"


def filled_in(text: str) -> str:
    """The draft after a person went over it."""
    answers = {
        "bounds = [?, ?]": "bounds = [0, 9]",
        'categories = ["?", "?"]': 'categories = ["a", "b"]',
    }
    lines = []
    for line in text.splitlines():
        for question, answer in answers.items():
            if line.startswith(f"# {question}"):
                line = answer
        lines.append(line)
    return "\n".join(lines)


def test_a_csv_gives_its_names_and_nothing_else(tmp_path):
    path = tmp_path / "people.csv"
    # What follows the header is no CSV at all: whoever read it would stumble.
    path.write_bytes(b'\xef\xbb\xbfage,"sex, as told",visits\n' + SENTINEL.encode() + b"\xff\x00\n")
    assert [column.name for column in read_header(path)] == ["age", "sex, as told", "visits"]
    text = draft_of_file(path)
    assert SENTINEL not in text and "storage types" not in text and "No value was read" in text
    assert "if that is no header, they are somebody's cells" in text
    assert tomllib.loads(text)["columns"] == {"age": {}, "sex, as told": {}, "visits": {}}
    packed = tmp_path / "people.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert draft_of_file(packed) == text


@pytest.mark.parametrize(
    "first",
    [
        b"31.5,female,3\n",
        b"age,,sex\n",
        b"age,age\n",
        b"",
        b"\xff\xfe\n",
        b'"age,sex\n',
        b"a,1e3\n",
    ],
)
def test_a_first_line_that_is_no_header_is_not_quoted(tmp_path, first):
    path = tmp_path / "people.csv"
    path.write_bytes(first)
    with pytest.raises(DataError, match="not a header") as caught:
        draft_of_file(path)
    assert "31.5" not in str(caught.value) and "female" not in str(caught.value)


def test_a_parquet_file_gives_storage_types_with_every_page_destroyed(tmp_path):
    path = tmp_path / "people.parquet"
    frame = pd.DataFrame(
        {
            "age": [31.5, 64.0],
            "visits": pd.array([1, 2], dtype="uint16"),
            "ward": pd.Categorical([SENTINEL, "b"]),
            "ill": [True, False],
            "name": [SENTINEL, "x"],
            "code": [7, 8],
            "born": pd.to_datetime(["2000-01-01", "2001-01-01"]),
        },
        index=["p", "q"],
    )
    pq.write_table(pa.Table.from_pandas(frame), path, compression="none")
    whole = path.read_bytes()
    text = draft_of_file(path)
    end = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    path.write_bytes(b"PAR1" + b"\x00" * (end - 4) + whole[end:])
    assert draft_of_file(path) == text
    assert SENTINEL not in text and "31.5" not in text and "index" not in text
    declared = tomllib.loads(text)["columns"]
    assert {name: one.get("type") for name, one in declared.items()} == {
        "age": "real",
        "visits": "count",
        "ward": "category",
        "ill": "binary",
        "name": "category",
        "code": None,
        "born": None,
    }


def test_a_draft_that_was_filled_in_is_a_schema(tmp_path):
    table = pa.table({"age": [1.0], "ward": pa.array(["x"]).dictionary_encode(), "ill": [True]})
    pq.write_table(table, tmp_path / "people.parquet")
    (tmp_path / "people.toml").write_text(filled_in(draft_of_file(tmp_path / "people.parquet")))
    schema = Schema.from_toml(tmp_path / "people.toml")
    assert schema.names == ("age", "ward", "ill")
    assert schema["age"].bounds == (0.0, 9.0) and schema["ward"].categories == ("a", "b")


FIELDS = [
    {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120}},
    {"name": "sex", "type": "string", "constraints": {"enum": ["f", "m"]}},
    {"name": "cost", "type": "number", "constraints": {"minimum": 0}, "title": "In euros"},
    {"name": "stage", "type": "integer", "categories": [{"value": 1, "label": "I"}, {"value": 2}]},
    {"name": "ill", "type": "boolean"},
    {"name": "born", "type": "date"},
    {"name": "odd", "type": "number", "constraints": {"minimum": 3, "maximum": 1}},
]
CSVW = [
    {"titles": ["age"], "datatype": {"base": "integer", "minimum": "0", "maximum": "120"}},
    {"titles": {"en": "sex"}, "datatype": {"base": "string", "format": "^(f|m)$"}},
    {"name": "cost", "datatype": {"base": "decimal", "minInclusive": 0}},
    {"name": "stage", "datatype": {"base": "string", "format": "1|2"}},
    {"name": "ill", "datatype": "boolean"},
    {"name": "born", "datatype": "date"},
    {"name": "odd", "datatype": {"base": "double", "minimum": 3, "maximum": 1}},
    {"name": "made", "virtual": True},
]


@pytest.mark.parametrize(
    "description",
    [
        {"resources": [{"name": "people", "schema": {"fields": FIELDS}}]},
        {"fields": FIELDS},
        {"@context": "http://www.w3.org/ns/csvw", "tableSchema": {"columns": CSVW}},
        {"tables": [{"url": "people.csv", "tableSchema": {"columns": CSVW}}]},
    ],
)
def test_codebooks_are_taken_over(tmp_path, description):
    path = tmp_path / "people.json"
    path.write_text(json.dumps(description))
    text = draft_of_file(path)
    assert tomllib.loads(text)["columns"] == {
        "age": {"type": "count", "bounds": [0, 120]},
        "sex": {"type": "category", "categories": ["f", "m"]},
        "cost": {"type": "real"},
        "stage": {"type": "category", "categories": ["1", "2"]},
        "ill": {"type": "binary"},
        "born": {},
        "odd": {"type": "real"},
    }
    assert "its minimum is 0" in text and "'date', which noisewise has no type for" in text
    assert "has bounds [3" in text  # a codebook's slip is said, not written


@pytest.mark.parametrize(
    ("description", "said"),
    [
        ({}, "neither CSVW"),
        ({"resources": [{}, {}]}, "expected one table"),
        ({"resources": [{"schema": "people.json"}]}, "another file"),
        ({"resources": [{"schema": {}}]}, "no list of fields"),
        ({"fields": []}, "empty"),
        ({"fields": [{"type": "number"}]}, "without a name"),
        ({"tableSchema": {"columns": [{"titles": []}]}}, "without a name"),
    ],
)
def test_other_descriptions_are_refused(tmp_path, description, said):
    path = tmp_path / "people.json"
    path.write_text(json.dumps(description))
    with pytest.raises(SchemaError, match=said):
        draft_of_file(path)


def test_a_review_names_every_fault_at_once(tmp_path):
    path = tmp_path / "people.toml"
    path.write_text('[columns.age]\ntype = "real"\n[columns.sex]\n[columns.ill]\ntype = "binary"\n')
    found = review_schema(path)
    assert found.schema is None and len(found.faults) == 2
    assert "'age' has no bounds" in found.faults[0] and "'sex' has no type" in found.faults[1]
    assert any(hint.startswith("ill: no share") for hint in found.hints)
    path.write_text('rows = 1\n[columns.ill]\ntype = "binary"\n')
    assert "rows must be" in review_schema(path).faults[0]
    path.write_text(
        'rows = 90\n[columns.age]\ntype = "real"\nbounds = [0, 900]\nmean = 40\nsd = 10\n'
        '[columns.ward]\ntype = "category"\ncategories = ["a", "b"]\nshares = [0.5, 0.5]\n'
    )
    found = review_schema(path)
    assert found.schema is not None and not found.faults
    assert [hint.split(":")[0] for hint in found.hints] == ["age", "unit"]
    assert "86 sds" in found.hints[0]


def test_the_json_schema_knows_what_may_be_declared():
    column = json.loads(json_schema_text())["$defs"]["column"]
    known = {
        kind["properties"]["type"]["const"]: set(kind["properties"]) - {"type"}
        for kind in column["oneOf"]
    }
    assert known == {kind: set(keys) for kind, keys in _DECLARABLE.items()}


@pytest.mark.parametrize(
    ("declared", "good"),
    [
        ({"type": "real", "bounds": [0, 1]}, True),
        ({"type": "real"}, False),
        ({"type": "real", "bounds": [0, 1], "mean": 0.5}, False),
        ({"type": "real", "bounds": [0, 1], "mean": 0.5, "sd": 0}, False),
        ({"type": "count", "bounds": [0, 5], "mean": 1, "sd": 1}, True),
        ({"type": "binary", "share": 0.3}, True),
        ({"type": "binary", "share": 1}, False),
        ({"type": "binary", "bounds": [0, 1]}, False),
        ({"type": "category", "categories": ["a", 1]}, True),
        ({"type": "category", "categories": ["a"]}, False),
        ({"type": "category", "categories": ["a", "a"]}, False),
        ({"type": "text"}, False),
        ({}, False),
    ],
)
def test_the_json_schema_and_the_library_agree(declared, good):
    jsonschema = pytest.importorskip("jsonschema")
    whole = {"columns": {"x": declared}}
    validator = jsonschema.Draft202012Validator(json.loads(json_schema_text()))
    assert validator.is_valid(whole) == good
    try:
        Schema.from_dict(whole)
        accepted = True
    except SchemaError:
        accepted = False
    assert accepted == good
