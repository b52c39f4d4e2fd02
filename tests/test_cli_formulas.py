"""Formulas on the command line."""

import pandas as pd
import pytest
from typer.testing import CliRunner

import noisewise as nw
from noisewise.cli import app
from people import make_frame, make_schema

RUN = CliRunner()
HOW = ["--epsilon", "1", "--formula", "visits ~ age * sex"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("formulas")
    pd.DataFrame(make_frame()).to_csv(folder / "people.csv", index=False)
    (folder / "people.toml").write_text(make_schema(3000).to_toml())
    return folder


def fit(files, *more):
    schema, out = str(files / "people.toml"), str(files / "out")
    return RUN.invoke(app, ["fit", str(files / "people.csv"), "--schema", schema, "-o", out, *more])


def test_a_plan_and_a_fit_by_formula(files):
    options = [*HOW, "--family", "poisson", "--prior", "age:sex[T.m]=0.2"]
    plan = str(files / "plan.toml")
    about = [str(files / "people.toml"), "--rows", "3000", "--fits", "0", "--steps", "200"]
    made = RUN.invoke(app, ["plan", *about, *options, "-o", plan])
    assert made.exit_code == 0, made.output
    assert nw.Plan.load(plan).formula == "visits ~ age * sex"
    assert "age:sex[T.m]" in made.output and "prior sd" in made.output
    assert "Single-release sd: a yardstick" in made.output
    done = fit(files, *options, "--plan", plan, "--insecure-seed", "1")
    assert done.exit_code == 0, done.output
    assert "age:sex[T.m]" in done.output
    result = nw.Result.load(files / "out")
    assert result.request.formula == "visits ~ age * sex"
    assert "age:sex[T.m]: Normal(0, 0.2)" in result.request.priors


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([*HOW, "--model", "poisson"], "give --family in place of --model"),
        ([*HOW, "--target", "visits"], "leave out target and features"),
        ([*HOW, "--prior", "age"], "--prior must be NAME=SD"),
        ([*HOW, "--prior", "agee=1"], "names 'agee', which is no coefficient"),
        (["--epsilon", "1", "--formula", "visits"], "has no ~ in it"),
        (["--epsilon", "1", "--family", "poisson", "--target", "visits"], "go with a formula"),
        (["--epsilon", "1", "--formula", "visits ~ scale(age)"], "declare mean and sd of 'age'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(files, options, said):
    found = RUN.invoke(
        app, ["plan", str(files / "people.toml"), "--rows", "3000", "--fits", "0", *options]
    )
    assert found.exit_code == 2
    assert said in " ".join(found.output.split())
