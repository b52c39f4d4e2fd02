"""What the command line says: its own flags in errors, column types in its help, signs of life."""

from __future__ import annotations

import re
from typing import Annotated

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from noisewise.cli import app, common
from noisewise.models import FAMILIES
from noisewise.models.families import OTHER_NAMES
from people import make_frame, make_schema

RUN = CliRunner()
Option = Annotated[str | None, typer.Option()]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("move values to the bounds with clamp=True", "move values to the bounds with --clamp"),
        ("pass covariates=, a PublicSample", "pass --covariates, a PublicSample"),
        ("pass model=f or model='a.py:f'", "pass --model f or --model 'a.py:f'"),
        ("steps must be an integer", "--steps must be an integer"),
        ("pass the same one as public_sample, or", "pass the same one as --public-sample, or"),
        ("name some in features=, or declare more", "name some in --features, or declare more"),
        ("allow more steps, or a model with clamped steps", None),
        ("response must be 'poisson'", None),
        ("posterior='exact' needs", None),
    ],
)  # fmt: skip
def test_arguments_become_flags(message, said):
    small = typer.Typer()

    def command(
        data: Annotated[str, typer.Argument()],
        clamp: Annotated[bool, typer.Option()] = False,
        covariates: Option = None,
        model: Option = None,
        steps: Option = None,
        public_sample: Option = None,
        features: Annotated[str | None, typer.Option("--features", "-f")] = None,
    ) -> None:
        typer.echo(common.in_flags(message))

    small.command()(common.speaking_flags(command))
    outcome = RUN.invoke(small, ["table"])
    assert outcome.output.strip() == (message if said is None else said)


def test_without_a_command_nothing_is_changed():
    assert common.in_flags("clamp=True") == "clamp=True"


@pytest.fixture
def files(tmp_path):
    frame = pd.DataFrame(make_frame())
    frame.loc[5, "age"] = 1234.5
    frame.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "people.toml").write_text(make_schema().to_toml())
    return tmp_path


def fit(files, *more):
    common_options = ["--schema", str(files / "people.toml"), "--target", "visited"]
    goal = ["--epsilon", "1", "-o", str(files / "out")]
    return RUN.invoke(app, ["fit", str(files / "people.csv"), *common_options, *goal, *more])


def test_fit_names_its_own_flags(files):
    outcome = fit(files)
    assert outcome.exit_code == 2
    assert "with --clamp" in outcome.output and "clamp=True" not in outcome.output
    (files / "out").mkdir()
    outcome = fit(files, "--clamp")
    assert outcome.exit_code == 2 and "or pass --overwrite" in outcome.output
    (files / "out" / "letter.txt").write_text("mine")
    outcome = fit(files, "--clamp", "--overwrite")
    assert outcome.exit_code == 2 and "not overwritten" in outcome.output


@pytest.mark.parametrize("command", ["fit", "plan", "coverage"])
def test_help_names_the_column_types(command):
    shown = re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯─]", " ", RUN.invoke(app, [command, "--help"]).output)
    shown = " ".join(shown.split())
    for kind in ("real", "count", "binary", "category"):
        assert kind in shown


def test_progress_off_a_terminal_is_a_line_now_and_then(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(common.time, "monotonic", lambda: now[0])
    with common.progress_bar("Simulated fits") as progress:
        for done in range(1, 101):
            now[0] += 1.0
            progress(done, 100)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Simulated fits: 10 of 100" and len(lines) == 10


@pytest.mark.parametrize("command", ["fit", "plan", "coverage"])
def test_help_lists_every_family(command):
    short = {name: other for other, name in OTHER_NAMES.items()}
    text = RUN.invoke(app, [command, "--help"], env={"COLUMNS": "400"}).output
    for name in FAMILIES:
        assert name in text or short[name] in text
