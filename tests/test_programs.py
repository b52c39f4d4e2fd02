"""Where compiled programs are kept, and when they are not."""

import os
import subprocess
import sys
from pathlib import Path
from stat import S_IMODE

import jax
import numpyro
import numpyro.distributions as dist
import pytest

import noisewise
import noisewise as nw
from noisewise import _programs
from noisewise._programs import SWITCH, keep_programs, keep_programs_of_commands
from noisewise._validate import NoisewiseError
from noisewise.fitting.dpvi import Dpvi
from people import make_frame, make_schema

SEEN = """
import os, sys
from noisewise._programs import keep_programs_of_commands
keep_programs_of_commands()
print(os.environ.get("JAX_COMPILATION_CACHE_DIR"))
"""


def run_alone(program, *words, env=None):
    """What it prints in a process of its own."""
    if env is None:
        env = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
        env |= {"PYTHONPATH": str(Path(noisewise.__file__).parents[1]), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def folder_of_a_command(tmp_path, **environment):
    """What a process of its own settles on."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XDG_", "NOISEWISE_"))}
    kept |= {"HOME": str(tmp_path / "home"), **environment}
    kept["PYTHONPATH"] = str(Path(noisewise.__file__).parents[1])
    return run_alone(SEEN, env=kept)


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


NOT_KEPT = """
import sys
from noisewise._programs import keep_programs, not_kept
folder = keep_programs(sys.argv[1])
import jax
def kept(factor, rows):
    jax.jit(lambda x: factor * x)(jax.numpy.zeros(rows))
    return sum(path.name.endswith("-cache") for path in folder.iterdir())
with not_kept():
    first = kept(2.0, 1000)
print(first, kept(3.0, 1000) > 0)
"""


def test_what_is_not_to_be_kept_is_not(tmp_path):
    assert run_alone(NOT_KEPT, str(tmp_path / "programs")) == "0 True"


def test_rehearsals_are_not_kept(monkeypatch):
    """Their simulated tables are about as large as the table: by a power of two, but by its own."""

    class Seen(Exception):
        pass

    def rehearse(self, job):
        raise Seen(jax.config.jax_persistent_cache_min_compile_time_secs)

    def model(age, visited=None):
        w = numpyro.sample("w", dist.Normal(0, 1))
        with numpyro.plate("people", age.shape[0]):
            numpyro.sample("y", dist.Bernoulli(logits=age * w), obs=visited)

    before = jax.config.jax_persistent_cache_min_compile_time_secs
    monkeypatch.setattr(Dpvi, "_rehearse_run", rehearse)
    table = nw.Table(make_frame(), make_schema())
    with pytest.raises(Seen, match="inf"):
        nw.fit(model, table, budget=nw.Budget(epsilon=1.0, delta=1e-6), target="visited")
    assert jax.config.jax_persistent_cache_min_compile_time_secs == before
