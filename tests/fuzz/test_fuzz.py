"""Whatever comes in, out comes a result or one line: no traceback, no cell, nothing half-written.

NOISEWISE_FUZZ says how many inputs of each kind: 300, or 3,350 in all, run with the tests, and by
`make fuzz` 9,000, or 100,000 in all. NOISEWISE_FUZZ_SEED chooses others.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import noisewise as nw
from noisewise import NoisewiseError
from noisewise.cli import app
from noisewise.data import Encoder
from noisewise.dpsep import Bounds, SepSettings
from noisewise.dpvi import Settings
from noisewise.mechanism import Certificate, issue
from noisewise.planning.forecast import Forecast
from noisewise.result import Request

sys.path.insert(0, str(Path(__file__).parent))
import inputs

EACH = int(os.environ.get("NOISEWISE_FUZZ", "300"))
SEED = int(os.environ.get("NOISEWISE_FUZZ_SEED", "0"))
CELLS = re.compile(rf"7182818|{inputs.TEXT}")


def judge(call: Callable[[], Any], what: str, *, private: bool) -> None:
    """A result, or one line of a kind that callers expect, which quotes no cell."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except (NoisewiseError, TypeError) as error:
        said = str(error)
        assert "\n" not in said and len(said) < 2500, f"{what}: {said!r}"
        assert said, what
        assert not (private and CELLS.search(said)), f"{what}: {said!r}"
        if type(error) is TypeError:  # a wrong type in Python: ours names what was expected
            assert re.search(r"must be|got|not|expected", said), f"{what}: {said!r}"


def each(kind: str, maker: Callable[..., Any], folder: Path, *more: Any, private: bool) -> None:
    for number in range(EACH):
        rng = np.random.default_rng([SEED, number, *kind.encode()])
        call = maker(rng, folder, *more)
        judge(call, f"{kind} {number} of seed {SEED}", private=private)


@pytest.mark.parametrize("kind", ["table", "file"])
def test_tables_and_files(kind, tmp_path):
    each(kind, getattr(inputs, kind), tmp_path, private=True)


@pytest.mark.parametrize("kind", ["schema", "budget", "model"])
def test_declarations(kind, tmp_path):
    each(kind, getattr(inputs, kind), tmp_path, private=False)


@pytest.fixture(scope="module")
def plan_text(tmp_path_factory):
    return made_plan().save(tmp_path_factory.mktemp("plan") / "plan.toml").read_text()


def made_plan():
    """A plan as files hold it, without the seconds that one takes."""
    one, square = np.zeros(3), np.eye(3)
    chosen = Settings(
        clip_norm=1.0, steps=100, contraction_rate=0.05, location=one, curvature=square,
        prior_precision=square, shift=one, stretch=one + 1,
    )  # fmt: skip
    names = ("a", "b", "c")
    forecast = Forecast(
        labels=names, prior_sd=(1.0,) * 3, sd=(0.5,) * 3, single_release_sd=(0.4,) * 3,
        epsilons=(1.0,), sizes=(100,), table=(((0.5,) * 3,),),
    )  # fmt: skip
    budget = nw.Budget(epsilon=1.0, delta=1e-6)
    return nw.Plan(
        settings=chosen, rows=100, schema="0" * 16, budget=budget, model="logistic",
        forecast=forecast, choices={"caution": 2.0},
    )  # fmt: skip


def test_plan_files(plan_text, tmp_path):
    each("plan", inputs.plan_file, tmp_path, plan_text, private=False)


def made_result():
    """A result as files hold it, without a fit."""
    budget = nw.Budget(epsilon=1.0, delta=1e-6)
    mechanism = made_plan().settings.mechanism().calibrate(budget)
    encoder = Encoder(inputs.SCHEMA, "ill", ["age", "visits"])
    draws = np.random.default_rng(0).normal(size=(100, 3))
    return nw.Result(
        draws={"coefficients": draws}, noise_unaware={"coefficients": draws}, trace={},
        privacy=issue(budget, (mechanism.release("gradients"),), {"number of rows": "declared"}),
        status=nw.Status.OK, coordinates={"coefficients": encoder.names}, notes=("a note",),
        request=Request(
            model="logistic", method="dpvi", posterior="analytic", target="ill",
            arguments=("X", "y"), encoding=tuple(encoder.describe()), schema=inputs.SCHEMA,
            public_count=100, settings=made_plan().settings,
        ),
    )  # fmt: skip


def test_result_folders(tmp_path):
    whole = made_result().save(tmp_path / "whole")
    files = {path.name: path.read_bytes() for path in whole.iterdir()}
    folder = tmp_path / "out"
    folder.mkdir()
    each("result", inputs.result_folder, folder, files, private=False)


PLAIN = st.recursive(
    st.sampled_from(inputs.JUNK) | st.text(max_size=5) | st.floats() | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=6,
)


@settings(max_examples=EACH, deadline=None, derandomize=SEED == 0,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(
    reader=st.sampled_from([nw.Schema.from_dict, Certificate.from_dict]),
    field=st.sampled_from(["columns", "rows", "budget", "releases", "sources", "x"]),
    plain=PLAIN,
)
def test_plain_data(reader, field, plain):
    for given_data in (plain, {field: plain}, {"columns": {"age": plain}}):
        judge(lambda: reader(given_data), str(given_data)[:200], private=False)  # noqa: B023


@settings(max_examples=EACH, deadline=None, derandomize=SEED == 0,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(data=st.data(), value=PLAIN)
def test_settings_and_requests(data, value):
    """Files' own readers wrap what these raise; they must raise nothing that those do not know."""
    known = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError)
    kind, plain = data.draw(
        st.sampled_from(
            [
                (Settings, made_plan().settings.to_dict()),
                (SepSettings, SepSettings(bounds=Bounds(1.0, 1.0)).to_dict()),
                (Forecast, made_plan().forecast.to_dict()),
                (Request, {"network": None, "settings": {}, "schema": {}}),
            ]
        )
    )
    name = data.draw(st.sampled_from([*plain, "steps", "weights"]))
    with suppress(known):
        kind.from_dict({**plain, name: value})


def test_command_lines(tmp_path, monkeypatch):
    """Nothing is fitted here: a command line that would be is as good as one that was."""

    def stop(*_, **__):
        raise NoisewiseError("nothing more is wanted")

    monkeypatch.setattr(importlib.import_module("noisewise.fitting.fit"), "_fit", stop)
    monkeypatch.setattr(importlib.import_module("noisewise.planning.plan"), "summarise", stop)
    good = tmp_path / "good"
    good.mkdir()
    (good / "people.toml").write_text(inputs.SCHEMA.to_toml())
    rows = "".join(f"{age}.5,{age % 7},{age % 2},{'fm'[age % 2]}\n" for age in range(20, 60))
    cells = f"age,visits,ill,sex\n{rows}"
    (good / "people.csv").write_text(cells)
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    before = set(tmp_path.rglob("*"))
    for number in range(EACH // 6):
        rng = np.random.default_rng([SEED, number, 9])
        spoilt = cells.replace("33.5", "7182818.25") if rng.random() < 0.5 else cells
        (good / "people.csv").write_text(spoilt)
        words = inputs.command(rng, good)
        found = runner.invoke(app, words)
        said = f"{words} {found.output}"
        assert found.exit_code in (0, 1, 2), said
        assert "Traceback" not in found.output, said
        assert "7182818" not in found.output, said
        if "error:" in found.output:
            assert found.output.count("error:") == 1, said
        left = set(tmp_path.rglob("*")) - before
        assert not left, f"{words} left {left}"
        shutil.rmtree(good / "out", ignore_errors=True)
