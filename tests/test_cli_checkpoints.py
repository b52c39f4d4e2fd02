"""A fit on the command line that is stopped: what is said, what is left, how it goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import kills
import noisewise as nw
from noisewise import _interrupts
from noisewise.cli import app
from noisewise.engine import Checkpoint
from noisewise.mechanism import SecureSource
from people import make_frame, make_schema


@pytest.fixture
def words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(_interrupts._STATE, "said", False)
    pd.DataFrame(make_frame()).to_csv("people.csv", index=False)
    (tmp_path / "people.toml").write_text(make_schema().to_toml())
    asked = ["people.csv", "--schema", "people.toml", "--target", "visited", "--features", "age"]
    return ["fit", *asked, "--epsilon", "1", "--steps", "12", "--covariate-share", "0", "-o", "out"]


def say(monkeypatch, words):
    monkeypatch.setattr(sys, "argv", ["noisewise", *words])
    return CliRunner().invoke(app, words)


def interrupted(monkeypatch, words, kind):
    """Ctrl-C right after the part of this kind is written."""
    original = Checkpoint._add

    def add(self, about, arrays=None):
        found = original(self, about, arrays)
        if about["kind"] == kind:
            raise KeyboardInterrupt
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "_add", add)
        return say(monkeypatch, words)


@pytest.mark.parametrize("kind", ["fit", "steps"])
def test_an_interrupt_names_the_command_to_go_on_which_does(
    words, kind, tmp_path, monkeypatch, capfd
):
    assert interrupted(monkeypatch, words, kind).exit_code == 130
    again = " ".join(["noisewise", *words, "--resume"])
    assert capfd.readouterr().err.splitlines() == [f"{_interrupts._LINE}; go on with: {again}"]
    assert (tmp_path / "out.checkpoint").is_dir() and not (tmp_path / "out").exists()

    refused = say(monkeypatch, words)
    assert refused.exit_code == 2 and len(refused.stderr.splitlines()) == 1
    assert f"go on with it by `{again}`, or delete it to start anew, which" in refused.stderr

    done = say(monkeypatch, [*words, "--resume"])
    assert done.exit_code == 0, done.stderr
    assert "resumed: once after" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "people.csv", "people.toml"]
    assert nw.Result.load("out").verify().holds


def test_an_interrupt_before_anything_was_spent(words, monkeypatch, capfd, tmp_path):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(nw.Table, "read", stop)
    assert say(monkeypatch, words).exit_code == 130
    assert f"; start again with: noisewise {' '.join(words)}\n" in capfd.readouterr().err
    assert not (tmp_path / "out.checkpoint").exists()


def test_a_result_that_cannot_be_saved_leaves_the_checkpoint(words, monkeypatch, tmp_path):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(nw.Result, "save", full)
        assert say(monkeypatch, words).exit_code == 3
    released = []
    monkeypatch.setattr(SecureSource, "chunk", lambda *_: released.append(1))
    done = say(monkeypatch, [*words, "--resume"])
    assert done.exit_code == 0, done.stderr
    assert released == [] and nw.Result.load("out").trace["ends"][-1] == 12


def test_a_checkpoint_beside_a_result_is_not_lost(words, monkeypatch, tmp_path):
    assert say(monkeypatch, words).exit_code == 0
    interrupted(monkeypatch, [*words, "--overwrite"], "steps")
    refused = say(monkeypatch, [*words, "--resume"])
    assert refused.exit_code == 2 and "pass --resume --overwrite" in refused.stderr
    done = say(monkeypatch, [*words, "--resume", "--overwrite"])
    assert done.exit_code == 0 and "resumed: once" in done.stdout
    assert not (tmp_path / "out.checkpoint").exists()


def test_there_is_nothing_to_go_on_with(words, monkeypatch, tmp_path):
    refused = say(monkeypatch, [*words, "--resume"])
    assert refused.exit_code == 2
    assert "there is no checkpoint out.checkpoint to go on with" in refused.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", kills.COMMANDS)
def test_kills_at_random_moments(name):
    """More of them: ``python tests/kills.py 100``. Its forks need a process without JAX at work."""
    program = Path(kills.__file__)
    environment = {**os.environ, "PYTHONPATH": str(Path(nw.__file__).parents[1])}
    command = [sys.executable, str(program), "5", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith(f"{name}: 5 kills")
