"""`noisewise schema`: begin one, see what it lacks and what that costs."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from noisewise.cli import app
from people import make_frame, make_schema

RUN = CliRunner()


def run(*args):
    return RUN.invoke(app, ["schema", *map(str, args)])


def test_new_then_check(tmp_path):
    frame = pd.DataFrame(make_frame())
    frame.to_csv(tmp_path / "people.csv", index=False)
    outcome = run("new", tmp_path / "people.csv", "-o", tmp_path / "people.toml")
    assert outcome.exit_code == 0 and "no value was read" in " ".join(outcome.output.split())
    assert run("new", tmp_path / "people.csv", "-o", tmp_path / "people.toml").exit_code == 2
    outcome = run("check", tmp_path / "people.toml")
    assert outcome.exit_code == 1 and outcome.output.count("has no type") == frame.shape[1]
    (tmp_path / "people.toml").write_text(make_schema().to_toml())
    outcome = run("check", tmp_path / "people.toml")
    assert outcome.exit_code == 0 and "age: no mean and sd" in outcome.output
    assert "--rows and --target" in outcome.output


@pytest.mark.parametrize("name", ["wards.csv", "wards.csv.gz"])
def test_a_schema_is_named_as_its_source(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(make_frame()).to_csv(name, index=False)
    outcome = run("new", name)
    assert outcome.exit_code == 0 and "Made wards.toml from" in outcome.output
    assert (tmp_path / "wards.toml").exists()


def test_json_is_the_schema_of_schemas():
    assert json.loads(run("json").output)["title"] == "noisewise schema"


@pytest.mark.parametrize("text", ["age", "age=1", "age=a:b", "cost=0:900", "nobody=0:1"])
def test_bounds_to_compare_with_are_checked(tmp_path, text):
    (tmp_path / "people.toml").write_text(make_schema(rows=2000).to_toml())
    outcome = run("check", tmp_path / "people.toml", "--target", "visited", "--narrower", text)
    assert outcome.exit_code == 2 and outcome.output.count("error:") == 1
