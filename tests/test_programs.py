"""Where compiled programs are kept, and when they are not."""

import os
import subprocess
import sys
from pathlib import Path
from stat import S_IMODE

import pytest

import noisewise
from noisewise import _programs
from noisewise._programs import SWITCH, keep_programs, keep_programs_of_commands
from noisewise._validate import NoisewiseError

SEEN = """
import os, sys
from noisewise._programs import keep_programs_of_commands
keep_programs_of_commands()
print(os.environ.get("JAX_COMPILATION_CACHE_DIR"))
"""


def folder_of_a_command(tmp_path, **environment):
    """What a process of its own settles on."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XDG_", "NOISEWISE_"))}
    kept |= {"HOME": str(tmp_path / "home"), **environment}
    kept["PYTHONPATH"] = str(Path(noisewise.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", SEEN], env=kept, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, "home/.cache/noisewise"),
        ({"XDG_CACHE_HOME": "{}/caches"}, "caches/noisewise"),
        ({"XDG_CACHE_HOME": "relative"}, "home/.cache/noisewise"),
        ({SWITCH: "{}/own"}, "own"),
    ],
)
def test_commands_keep_programs_where_only_their_user_may_look(tmp_path, environment, place):
    given = {name: value.format(tmp_path) for name, value in environment.items()}
    found = Path(folder_of_a_command(tmp_path, **given))
    assert found.parent == tmp_path / place
    assert S_IMODE(found.stat().st_mode) == S_IMODE(found.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("word", ["off", "OFF", "0"])
def test_it_can_be_switched_off(tmp_path, word):
    assert folder_of_a_command(tmp_path, **{SWITCH: word}) == "None"
    assert not (tmp_path / "home").exists()


def test_a_folder_of_jax_is_left_alone(tmp_path):
    assert folder_of_a_command(tmp_path, JAX_COMPILATION_CACHE_DIR="mine") == "mine"


def test_commands_go_without_where_there_is_no_place(tmp_path):
    (tmp_path / "file").write_text("")
    assert folder_of_a_command(tmp_path, **{SWITCH: str(tmp_path / "file")}) == "None"


def test_bad_folders_are_refused_in_a_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(NoisewiseError, match=r"cannot be kept in .*: name another folder"):
        keep_programs(tmp_path / "file" / "inside")
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(NoisewiseError, match="is another user's, who could run code as you"):
        keep_programs(tmp_path / "theirs")


def test_an_open_folder_is_closed(tmp_path):
    tmp_path.chmod(0o777)
    _programs._refuse_others(tmp_path)
    assert S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_the_oldest_programs_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(_programs, "_MOST_BYTES", 100)
    for age in range(12):
        path = tmp_path / f"program-{age:02}"
        path.write_bytes(bytes(10))
        os.utime(path, (1000 - age, 1000 - age))
    _programs._forget_oldest(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"program-{k:02}" for k in range(5)]


def test_a_command_says_nothing_of_a_place_that_it_does_not_have(monkeypatch):
    """A command must not fail for want of a cache."""

    def refuse(folder):
        raise NoisewiseError("no")

    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setattr(_programs, "keep_programs", refuse)
    keep_programs_of_commands()
