"""`noisewise synthesize` as a person uses it: a saved result in, a folder of tables out."""

from __future__ import annotations

import pandas as pd
import pytest
from typer.testing import CliRunner

import noisewise as nw
from noisewise.cli import app
from noisewise.synthetic import marginals
from synthetic.clinic import SCHEMA, made_result

MODEL = "from synthetic.clinic import clinic\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synthesize")
    made_result(SCHEMA).save(folder / "out")
    (folder / "model.py").write_text(MODEL)
    return folder


def synthesize(folder, *options):
    return CliRunner().invoke(app, ["synthesize", str(folder / "out"), *options])


def test_tables_certificate_and_page(folder, monkeypatch):
    monkeypatch.setattr(marginals, "_RELEASED", 32)
    monkeypatch.setattr(marginals, "_LARGE", 1500)
    options = ["--copies", "3", "--seed", "5", "--format", "parquet"]
    outcome = synthesize(folder, *options, "--model", f"{folder / 'model.py'}:clinic")
    assert outcome.exit_code == 0, outcome.output
    made = folder / "out" / "synthetic"
    assert {path.name for path in made.iterdir()} == {
        "README.txt",
        "fidelity.html",
        "privacy.json",
        "schema.toml",
        "tables.json",
        *(f"table-{i}.parquet" for i in (1, 2, 3)),
    }
    assert "3 tables of 1500 rows" in outcome.output
    assert "differential privacy" in outcome.output
    tables = [pd.read_parquet(made / f"table-{i}.parquet") for i in (1, 2, 3)]
    assert 0 < nw.combine(tables, lambda t: t["ill"].mean()).table["estimate"].item() < 1
    nw.Result.load(folder / "out")  # the result beside them is untouched
    again = synthesize(folder)
    assert again.exit_code == 2 and "exists already" in again.output


def test_a_failing_page_does_not_hide_the_tables(folder, monkeypatch):
    def fail(*_, **__):
        raise ValueError("no\nluck")

    monkeypatch.setattr(nw.SyntheticTables, "fidelity", fail)
    goal = folder / "pageless"
    model = f"{folder / 'model.py'}:clinic"
    outcome = synthesize(folder, "--copies", "2", "--model", model, "-o", str(goal))
    assert outcome.exit_code == 2
    said = outcome.output.splitlines()[-1]
    assert f"the tables are saved to {goal}" in said and "(ValueError: no luck)" in said
    assert (goal / "table-2.csv").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "is a function of yours"),
        (["--format", "xlsx"], "format must be one of"),
        (["--covariates", "no.csv"], "cannot read the public sample"),
    ],
)
def test_errors_are_one_line(folder, options, words):
    outcome = synthesize(folder, "-o", str(folder / "other"), *options)
    assert outcome.exit_code == 2
    assert words in " ".join(outcome.output.split())
    assert not (folder / "other").exists()
