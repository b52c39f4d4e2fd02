"""One fit on many devices and hosts is the fit on one device, to the last bit, with its noise once.

Not in `engine/`: there programs are compiled in a hurry, and here it matters how they round.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

import noisewise
from engine.algorithms import RATE, cases
from noisewise._hosts import stretch_of
from noisewise.cli import app
from noisewise.data import PrivateRows, UnitLayout
from noisewise.mechanism import passes_of_share, usual_passes
from people import N, make_frame

HERE = Path(__file__).parent
PATHS = os.pathsep.join([str(Path(noisewise.__file__).parents[1]), str(HERE)])
FALSE_ALARM = 1e-6
ROUNDED_OTHERWISE = {
    *("dpvi of a NumPyro model", "dpvi of a network"),
    *("dp-sep mixture", "dp-sep mixture, natural form"),
}
"""By XLA, in a program for several devices: it divides by a shared number where it multiplies by
its inverse in a program for one."""
DPVI, DP_SEP, DP_EM = "dpvi vanilla, clipped prior", "dp-sep logistic", "dp-em"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def started(task: str, *words: str, devices: int = 1, hosts: int = 1) -> list[subprocess.Popen]:
    """One process a host."""
    address = f"127.0.0.1:{free_port()}"
    flags = f"--xla_force_host_platform_device_count={devices}"
    environment = os.environ | {"PYTHONPATH": PATHS, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    return [
        subprocess.Popen(
            [
                *(sys.executable, str(HERE / "sharing.py"), task),
                *(address, f"{index}/{hosts}", *words),
            ],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(hosts)
    ]


def told(task: str, *words: str, devices: int = 1, hosts: int = 1) -> list[dict]:
    """What every host found."""
    found = []
    for process in started(task, *words, devices=devices, hosts=hosts):
        out, error = process.communicate(timeout=600)
        assert process.returncode == 0, error
        found.append(json.loads(out.splitlines()[-1]))
    return found


def test_eight_devices_release_the_bits_of_one_and_its_noise_once():
    """And it would show if every device added the noise, or none."""
    (found,) = told("one_host", DP_EM, devices=8)
    assert found["identity"] == {DP_EM: True}
    assert found["noise"] == {"as it is": 1.0, "everywhere": 8.0, "nowhere": 0.0}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dpvi", "dp-sep"])
def test_every_algorithm_releases_the_bits_of_one_device(kind):
    names = [name for name in cases() if name.startswith(kind) and name not in ROUNDED_OTHERWISE]
    (found,) = told("identity", *names, devices=8)
    assert found == dict.fromkeys(names, True)


@pytest.mark.slow
@pytest.mark.parametrize("name", [DPVI, DP_SEP, DP_EM])
def test_two_hosts_release_the_bits_of_one_device(name):
    for found in told("identity", name, devices=2, hosts=2):
        assert found == {name: True}


@pytest.mark.slow
def test_without_a_seed_hosts_draw_their_own_rows_and_one_adds_noise():
    """Records of two hosts are drawn with the rate, independently, and the noise has its variance;
    false alarms below 1e-5."""
    one, other = told("sampling", DP_EM, hosts=2)
    assert one == other, "hosts have seen different releases"
    for name, rate in (("first", RATE), ("last", RATE), ("both", RATE**2)):
        assert stats.binomtest(one[name], 2000, rate).pvalue > FALSE_ALARM, name
    assert one["others"] == 0
    low, high = stats.chi2.isf([1 - FALSE_ALARM / 2, FALSE_ALARM / 2], one["numbers"])
    assert low < one["squares"] < high


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("dp-sep",), ("open",)], ids=" ".join)
def test_a_fit_on_two_hosts_is_the_fit_on_one(words, tmp_path):
    """With what it buys: the number of rows, and the covariates' shape; from memory and disk."""
    (tmp_path / "data").mkdir()
    for number, rows in enumerate(np.array_split(np.arange(N), 3)):
        part = pd.DataFrame(make_frame()).iloc[rows]
        part.to_parquet(tmp_path / "data" / f"part-{number}.parquet", row_group_size=400)
    told("fit", str(tmp_path), *words)
    expected = dict(np.load(tmp_path / "draws-0.npz"))
    first, _ = told("fit", str(tmp_path), *words, devices=2, hosts=2)
    assert first["sources"]["devices"].startswith("2 hosts, 2 devices on each")
    for index in (0, 1):
        found = np.load(tmp_path / f"draws-{index}.npz")
        assert all(np.array_equal(found[name], draws) for name, draws in expected.items())


@pytest.mark.slow
def test_where_a_host_dies_the_others_end_and_the_fit_goes_on(tmp_path):
    told("fit", str(tmp_path))
    expected = dict(np.load(tmp_path / "draws-0.npz"))
    first, other = started("fit", str(tmp_path), "checkpoint", "dies 1", hosts=2)
    out, _ = first.communicate(timeout=300)
    other.communicate(timeout=300)
    assert other.returncode == -signal.SIGKILL
    assert first.returncode == 0
    assert "another host of this fit has ended" in json.loads(out.splitlines()[-1])["refused"]
    first, _ = told("fit", str(tmp_path), "checkpoint", "resume", hosts=2)
    assert first["sources"]["resumed"].startswith("once after ")
    assert "after 0 of" not in first["sources"]["resumed"]
    found = np.load(tmp_path / "draws-0.npz")
    assert all(np.array_equal(found[name], draws) for name, draws in expected.items())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "what"), [("unlike 1", "steps"), ("another 1", "table")], ids=["steps", "table"]
)
def test_hosts_that_were_asked_for_different_fits_refuse(word, what, tmp_path):
    for found in told("fit", str(tmp_path), word, hosts=2):
        assert f"hosts of one fit do not have the same {what}:" in found["refused"]


@pytest.mark.slow
def test_an_audit_attacks_what_devices_run():
    """And it convicts where they add half of the noise."""
    (found,) = told("audit", "DP-EM", devices=8)
    sound, broken = found["as it is"], found["with half the noise"]
    assert not sound["convicted"]
    assert sound["neighbours"]
    assert sound["about"].startswith("8 devices")
    assert broken["convicted"]


@pytest.mark.slow
def test_several_hosts_release_nothing_by_themselves():
    for found in told("guards", hosts=2):
        assert set(found) == {"sum", "count", "steps"}
        assert all("each would spend by itself" in said for said in found.values())


SCHEMA = """
[columns.age]
type = "real"
bounds = [18, 90]

[columns.visited]
type = "binary"
"""


def files(folder: Path) -> tuple[Path, Path]:
    frame = make_frame()
    pd.DataFrame({name: frame[name] for name in ("age", "visited")}).to_csv(
        folder / "people.csv", index=False
    )
    (folder / "people.toml").write_text(SCHEMA)
    return folder / "people.csv", folder / "people.toml"


@pytest.mark.slow
def test_commands_on_two_hosts_leave_one_result(tmp_path):
    people, schema = files(tmp_path)
    address = f"127.0.0.1:{free_port()}"
    command = [
        *(sys.executable, "-m", "noisewise", "fit", str(people), "--schema", str(schema)),
        *("--target", "visited", "--epsilon", "1", "--steps", "100", "-o", str(tmp_path / "out")),
    ]
    hosts = [
        subprocess.Popen(
            [*command, "--hosts", f"{address},{index}/2"],
            env=os.environ | {"PYTHONPATH": PATHS, "JAX_PLATFORMS": "cpu"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    (first, _), (other, error) = (host.communicate(timeout=300) for host in hosts)
    assert [host.returncode for host in hosts] == [0, 0], error
    assert "Saved to" in first
    assert "Saved" not in other
    result = noisewise.Result.load(tmp_path / "out")
    assert result.verify().holds
    assert result.privacy.sources["devices"].startswith("2 hosts, 1 device on each")
    assert not (tmp_path / "out.checkpoint").exists()


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--hosts", "four"), "node1:7000,0/4"),
        (("--hosts", "node1:7000,4/4"), "node1:7000,0/4"),
        (("--devices", "some"), "--devices is a whole number or all"),
        (("--devices", "999"), "devices is 999 and JAX has"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(option, said, tmp_path):
    people, schema = files(tmp_path)
    command = ["fit", str(people), "--schema", str(schema), "--target", "visited"]
    command += ["--epsilon", "1", "-o", str(tmp_path / "out"), *option]
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 2
    assert said in " ".join(found.stderr.split())
    assert not (tmp_path / "out.checkpoint").exists()


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [7, 40, 41])
def test_parts_are_the_whole(count, parts):
    cuts = [stretch_of(count, number, parts) for number in range(parts)]
    assert cuts[0][0] == 0
    assert cuts[-1][1] == count
    assert all(one[1] == other[0] for one, other in itertools.pairwise(cuts))
    lengths = [end - start for start, end in cuts]
    assert max(lengths) - min(lengths) <= 1


def test_parts_of_units_keep_a_unit_together():
    layout = UnitLayout(
        np.array([[0, 1], [2, 2], [3, 4]]), np.array([[1, 1], [1, 0], [1, 1]], bool)
    )
    rows = PrivateRows({"x": np.arange(5.0)}, layout)
    parts = [rows.part(number, 2) for number in range(2)]
    assert [part.own_count for part in parts] == [1, 2]
    assert {part.true_count for part in parts} == {3}
    sums = [part.unit_sums().unsafe_columns()["x"].tolist() for part in parts]
    assert sums == [[1.0], [2.0, 7.0]]
    assert parts[1].map(lambda columns: columns).units().share == parts[1].share


def test_a_share_takes_passes_of_the_same_size():
    whole = usual_passes(10**6, 0.1, 4096)
    share = passes_of_share(whole, 10**6, 0.1, 8)
    assert share.size == whole.size
    assert whole.number / 8 <= share.number <= whole.number / 8 + 2
    assert passes_of_share(usual_passes(4000, 0.1, 10**9), 4000, 0.1, 8).number == 2
