"""Outputs that cannot be written, files that are not what they should be, interrupts, forks."""

from __future__ import annotations

import datetime
import decimal
import io
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

import noisewise as nw
from fuzz.test_fuzz import made_plan, made_result
from noisewise import NoisewiseError, _files
from noisewise._files import check_writable, read_arrays, whole_file, write_or_rescue
from noisewise._validate import listed, shown
from noisewise.cli import app
from noisewise.coverage.groups import Groups
from noisewise.engine import memory
from noisewise.models import bind_model, fingerprint
from noisewise.models.named import named_model
from noisewise.posterior.pooling import _mixture
from noisewise.posterior.status import Outcome, is_usable
from noisewise.result.storage import digest
from people import make_frame, make_schema

RUN = CliRunner()
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(nw.__file__).parents[1])}


@pytest.fixture
def small_files():
    """No file may grow beyond a mebibyte: as good as a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def files(tmp_path):
    pd.DataFrame(make_frame()).to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "people.toml").write_text(make_schema().to_toml())
    (tmp_path / "file").write_text("in the way")
    return tmp_path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def command(files, name, output, *more):
    schema, data = str(files / "people.toml"), str(files / "people.csv")
    first = [data, "--schema", schema] if name == "fit" else [schema, "--rows", "100"]
    usual = ["--epsilon", "1", "--target", "visited", "-o", str(output)]
    return RUN.invoke(app, [name, *first, *usual, *more])


@pytest.mark.parametrize("name", ["fit", "plan", "coverage"])
@pytest.mark.parametrize("place", ["file/out", "x" * 300, "/proc/none/out", "file/deeper/out"])
def test_an_output_that_cannot_be_written_is_noticed_before_anything(
    files, name, place, monkeypatch
):
    def spend(*_, **__):
        raise AssertionError("something was begun")

    monkeypatch.setattr(nw.Schema, "from_toml", spend)
    suffix = {"fit": "", "plan": ".toml", "coverage": ".html"}[name]
    before = names(files)
    found = command(files, name, files / (place + suffix))
    assert found.exit_code == 2, found.output
    assert "cannot write" in found.output and "choose another place" in found.output
    assert found.output.count("\n") == 1
    assert names(files) == before


def test_a_full_disk_is_noticed_before_anything(files, small_files):
    for name, suffix in (("fit", ""), ("plan", ".toml"), ("coverage", ".html")):
        found = command(files, name, files / "deep" / f"out{suffix}")
        assert found.exit_code == 2
        assert "cannot write" in found.output, found.output
    assert not (files / "deep").exists()


def test_tables_that_cannot_be_written_are_not_made(tmp_path):
    made_result().save(tmp_path / "out")
    (tmp_path / "file").write_text("")
    found = RUN.invoke(
        app, ["synthesize", str(tmp_path / "out"), "-o", str(tmp_path / "file" / "x")]
    )
    assert found.exit_code == 2
    assert "cannot write" in found.output


def test_what_cannot_be_written_any_more_is_saved_where_the_message_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result, goal = made_result(), tmp_path / "gone" / "out"
    goal.parent.write_text("in the way by now")
    with pytest.raises(NoisewiseError, match="it was saved to") as caught:
        write_or_rescue(result.save, goal)
    place = Path(str(caught.value).rpartition("saved to ")[2])
    assert nw.Result.load(place).summary().equals(result.summary())


def test_overwriting_keeps_the_old_result_until_the_new_one_is_there(tmp_path, monkeypatch):
    old, folder = made_result(), tmp_path / "out"
    old.save(folder)
    original = Path.rename

    def broken(self, target):
        if Path(target) == folder and self.parent == folder.parent:
            raise OSError(28, "No space left on device")
        return original(self, target)

    monkeypatch.setattr(Path, "rename", broken)
    with pytest.raises(NoisewiseError, match="No space left"):
        old.save(folder, overwrite=True)
    assert names(tmp_path) == ["out"]
    assert nw.Result.load(folder).status is old.status


def test_half_written_files_are_never_seen(tmp_path, monkeypatch):
    plan = made_plan()
    plan.save(tmp_path / "plan.toml")
    text = (tmp_path / "plan.toml").read_text()

    def broken(self, *_, **__):
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", broken)
    with pytest.raises(NoisewiseError, match="No space left"):
        plan.save(tmp_path / "plan.toml")
    assert (tmp_path / "plan.toml").read_text() == text
    assert names(tmp_path) == ["plan.toml"]


def test_two_writers_of_one_output_leave_one_whole_result(tmp_path):
    """Eight at once: one wins, the others are told so in a line, and nothing is left over."""
    said = []

    def save():
        try:
            made.save(tmp_path / "out")
        except NoisewiseError as error:
            said.append(str(error))

    made = made_result()
    threads = [threading.Thread(target=save) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 7
    assert names(tmp_path) == ["out"]
    assert nw.Result.load(tmp_path / "out").status is made.status


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("shift", bad) for bad in ("[nan, 0, 0]", "[inf, 0, 0]", '["a", 0, 0]')),
        *(("stretch", bad) for bad in ("[0, 1, 1]", "[-1, 1, 1]", "[nan, 1, 1]", '"1"')),
        *(("sampling_rate", bad) for bad in ("1e-300", "1e-13", "0.0", '"0.1"', "nan")),
        *(("rows", bad) for bad in ("0", "-5", '"many"', "100.5", "100000000000000000000")),
        ("steps", '"4000"'),
        ("burn_in", '"x"'),
        ("full_curvature", "1"),
        ("curvature_sd", "inf"),
        ("epsilon", '"1"'),
        ("failed", "-1"),
        ("caution", '"very"'),
    ],
)
def test_plan_files_are_checked_field_by_field(tmp_path, field, value):
    path = made_plan().save(tmp_path / "plan.toml")
    assert nw.Plan.load(path).rows == 100
    kept, dropping = [], False
    for line in path.read_text().splitlines():
        if line.startswith(f"{field} = "):
            kept.append(f"{field} = {value}")
            dropping = line.endswith("[")
        elif not dropping:
            kept.append(line)
        dropping = dropping and line != "]"
    path.write_text("\n".join(kept))
    with pytest.raises(NoisewiseError, match=field) as caught:
        nw.Plan.load(path)
    assert "\n" not in str(caught.value)


def test_a_rate_too_small_to_account_for_is_refused_in_no_time():
    from noisewise.mechanism import calibrate

    with pytest.raises(NoisewiseError, match="raise the rate"):
        calibrate(nw.Budget(epsilon=1.0, delta=1e-6), 1e-11, 4000)


def test_error_bars_that_are_no_numbers_or_none_are_never_ok():
    rng = np.random.default_rng(0)
    good = rng.normal(size=(50, 2))
    assert is_usable(good)
    assert not is_usable(good * [1, 0])
    assert not is_usable(np.where(good > 2, np.nan, good))
    one = Outcome(good, good, nw.Status.OK, None, np.eye(2))
    lost = one._replace(draws=good * np.nan, status=nw.Status.DIVERGED)
    assert _mixture([one, one]).status is nw.Status.OK
    assert _mixture([one, lost]).status is nw.Status.DIVERGED


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        (np.full((100, 3), np.nan), "are not all numbers"),
        (np.ones((100, 2)), "not as many"),
        (np.ones((7, 3)), "not equally many"),
        (np.array(["a"] * 100), "are not all numbers"),
        (np.array(3.0), "not equally many"),
    ],
)
def test_an_archive_with_a_right_digest_and_wrong_contents(tmp_path, draws, message):
    folder = made_result().save(tmp_path / "out")
    arrays = {**np.load(folder / "arrays.npz"), "draws/coefficients": draws}
    np.savez_compressed(folder / "arrays.npz", **arrays)
    forge(folder)
    with pytest.raises(NoisewiseError, match=message):
        nw.Result.load(folder)


def forge(folder):
    """Give the files a digest that fits."""
    files = {name: (folder / name).read_bytes() for name in ("result.json", "arrays.npz")}
    (folder / "digest.txt").write_text(f"{digest(files)}\n")


def test_a_zip_bomb_is_not_expanded(tmp_path, monkeypatch):
    folder = made_result().save(tmp_path / "out")
    monkeypatch.setattr(_files, "_LEAST_LIMIT", 2**20)
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(2**21))
    with zipfile.ZipFile(folder / "arrays.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("draws/x.npy", buffer.getvalue())
    forge(folder)
    monkeypatch.setattr(np, "load", None)  # it must not come so far
    with pytest.raises(NoisewiseError, match="would expand to 16777344 bytes"):
        nw.Result.load(folder)
    with pytest.raises(NoisewiseError, match="cannot be read as an archive"):
        read_arrays(folder / "result.json")


class _Run:
    def fingerprint(self):
        return "0" * 16


@pytest.mark.parametrize("content", [b"", b"PK", b"not a group"])
def test_foreign_files_in_a_coverage_folder_get_one_line(tmp_path, content):
    Groups(_Run(), tmp_path)
    assert names(tmp_path) == ["run.json"]
    (tmp_path / "group-0000000.npz").write_bytes(content)
    with pytest.raises(NoisewiseError, match="group-0000000") as caught:
        Groups(_Run(), tmp_path)
    assert "\n" not in str(caught.value)
    np.savez(tmp_path / "group-0000000.npz", numbers=np.arange(3), truth=np.ones(2))
    with pytest.raises(NoisewiseError, match="holds no group of fits"):
        Groups(_Run(), tmp_path)
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(NoisewiseError, match=r"run\.json is not valid JSON"):
        Groups(_Run(), tmp_path)


def test_a_model_with_a_set_has_one_fingerprint_in_every_process(tmp_path):
    (tmp_path / "model.py").write_text(
        "WORDS = {'alpha', 'beta', 'gamma', ('a', frozenset({'b', 'c'}))}\n"
        "def f(X, y=None):\n    return 'x' in WORDS or 'y' in {'p', 'q', 'r'}\n"
    )
    code = (
        "import runpy\n"  # the digest alone: the whole package takes seconds to load
        f"digest = runpy.run_path({fingerprint.__file__!r})['model_digest']\n"
        f"print(digest(runpy.run_path({str(tmp_path / 'model.py')!r})['f']))\n"
    )
    seeds = ("0", "1", "2")
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={**ENVIRONMENT, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in seeds
    }  # fmt: skip
    assert len(found) == 1
    text = (tmp_path / "model.py").read_text()
    (tmp_path / "other.py").write_text(text.replace("alpha", "omega"))
    models = [named_model(f"{tmp_path / name}.py:f") for name in ("model", "other")]
    digests = [fingerprint.model_digest(model) for model in models]
    assert digests[0] != digests[1]


def test_a_fork_after_a_fit_is_refused_in_words():
    bind_model("logistic", make_schema(), "visited")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # no exception may leave it: it is a copy of the test
        try:
            bind_model("logistic", make_schema(), "visited")
            said = "nothing"
        except BaseException as error:
            said = str(error)
        os.write(writer, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert b"'spawn'" in os.read(reader, 1000)


def test_forking_processes_are_refused_for_coverage():
    with pytest.raises(NoisewiseError, match="use backend='loky'"):
        nw.coverage(
            "logistic", schema=make_schema(), rows=100, target="visited", jobs=2,
            budget=nw.Budget(epsilon=1.0, delta=1e-6), backend="multiprocessing",
        )  # fmt: skip


@pytest.mark.parametrize("after", [0.05, 0.6, 2.5])
def test_an_interrupt_ends_in_one_line(files, after):
    """While Python starts there is no telling; from then on, whatever runs."""
    code = (
        "import sys, noisewise.__main__ as m, noisewise._interrupts as i\n"
        "i.watch(); print('ready', flush=True); m.watch = lambda: None\n"
        "sys.argv = ['noisewise', *sys.argv[1:]]; m.main()\n"
    )
    words = ["coverage", str(files / "people.toml"), "--rows", "3000", "--epsilon", "1"]
    words += ["--target", "visited", "-o", str(files / "page.html")]
    with subprocess.Popen(
        [sys.executable, "-c", code, *words], env=ENVIRONMENT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        process.stdout.readline()
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert said.count("stopped:") == 1 and "Traceback" not in said, said
    assert not (files / "page.html").exists()


def test_an_interrupt_that_python_loses_ends_in_one_line():
    """A KeyboardInterrupt in a destructor is swallowed: the watching thread ends the process."""
    code = (
        "import os, signal, time, noisewise._interrupts as i\n"
        "i._GRACE = 0.3; i.watch()\n"
        "class Lost:\n"
        "    def __del__(self):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        for _ in range(1000): pass\n"
        "x = Lost(); del x\n"
        "for _ in range(300): time.sleep(0.1)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, timeout=60
    )
    assert found.returncode == 130
    assert found.stderr == "stopped: nothing half-written is left, and nothing more was released\n"


def test_no_rows_are_left_on_the_disk_by_an_interrupt_that_python_loses(tmp_path):
    """The process ends without unwinding: what deletes the encoded rows does it all the same."""
    pd.DataFrame(make_frame()).to_parquet(tmp_path / "people.parquet")
    (tmp_path / "people.toml").write_text(make_schema().to_toml())
    code = (
        "import os, signal, sys, time, noisewise as nw, noisewise._interrupts as i\n"
        "folder = sys.argv[1]\n"
        "table = nw.Table.open(folder + '/people.parquet', cache=folder + '/cache',\n"
        "    schema=nw.Schema.from_toml(folder + '/people.toml'))\n"
        "assert os.listdir(folder + '/cache')\n"
        "i._GRACE = 0.3; i.watch()\n"
        "signal.signal(signal.SIGINT, lambda *_: None)\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "for _ in range(300): time.sleep(0.1)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=ENVIRONMENT, capture_output=True,
        text=True, timeout=60,
    )  # fmt: skip
    assert found.returncode == 130, found.stderr
    assert not (tmp_path / "cache").exists()


def test_too_little_memory_is_said_beforehand(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2**30)
    schema, budget = make_schema(), nw.Budget(epsilon=1.0, delta=1e-9)
    table = nw.Table(make_frame(), schema)
    asked = {"budget": budget, "target": "visited"}
    with pytest.raises(NoisewiseError, match=r"GiB of memory and 1\.0 GiB are left.*draws"):
        nw.fit("logistic", table, draws=10**8, **asked)
    with pytest.raises(NoisewiseError, match=r"GiB are left.*rows"):
        nw.plan("logistic", schema=schema, rows=10**9, **asked)


def test_available_memory_is_a_number_of_bytes():
    assert 2**20 < memory.available_memory() < 2**50


def test_records_that_contribute_nothing_are_said(tmp_path):
    (tmp_path / "model.py").write_text(
        "import jax.numpy as jnp, numpyro, numpyro.distributions as dist\n"
        "def f(age, visited=None):\n"
        "    w = numpyro.sample('w', dist.Normal(0, 1).expand([2]).to_event(1))\n"
        "    slope = jnp.sqrt(jnp.maximum(age - 47, 0) * w[1] ** 2)\n"
        "    with numpyro.plate('people', age.shape[0]):\n"
        "        eta = w[0] + slope / 6\n"
        "        numpyro.sample('visited', dist.Bernoulli(logits=eta), obs=visited)\n"
    )
    from noisewise.fitting.dpvi import silent_records

    bound = bind_model(f"{tmp_path / 'model.py'}:f", make_schema())
    # Ages are uniform from 18 to 90: 29 of 72 years, with four sds of 500 draws to either side.
    assert abs(bound.silent_share - 29 / 72) < 4 * np.sqrt(0.24 / 500)
    (said,) = silent_records(bound)
    assert "contribute nothing" in said and f"{bound.silent_share:.0%}" in said
    assert silent_records(bind_model("logistic", make_schema(), "visited")) == ()


def test_a_first_row_that_is_no_header_is_not_quoted(tmp_path):
    frame = make_frame()
    rows = pd.DataFrame(frame).assign(age=7182818.25)
    text = rows.to_csv(index=False).replace("age", "7182818.25", 1)
    (tmp_path / "people.csv").write_text(text)
    for call in (
        lambda: nw.Table.read(tmp_path / "people.csv", make_schema()),
        lambda: nw.Table(rows.rename(columns={"age": "7182818.25"}), make_schema()),
    ):
        with pytest.raises(NoisewiseError, match="'age' is declared but not in the data") as caught:
            call()
        assert "7182818" not in str(caught.value)


def test_long_lists_are_shortened_and_rows_in_the_wrong_place_are_not_quoted():
    assert listed(range(5000)).endswith("11, ... (5000 in all)")
    levels = [f"level {k}" for k in range(500)]
    column = nw.Column(name="a", kind="category", categories=levels)
    with pytest.raises(NoisewiseError, match=r"\(500 in all\)") as caught:
        nw.Table({"a": ["x", "y"]}, nw.Schema((column,)))
    assert len(str(caught.value)) < 500
    secret = pd.DataFrame({"a": [7182818.25]})
    for value in (secret, secret["a"], secret.to_numpy(), [secret], {"x": secret}):
        assert "7182818" not in shown(value)
    assert shown(10**5000) == "a int"
    with pytest.raises(NoisewiseError) as caught:
        nw.fit("logistic", nw.Table(make_frame(), make_schema()), budget=secret)
    assert "7182818" not in str(caught.value)


def test_nothing_is_left_of_a_probe(tmp_path):
    check_writable(tmp_path / "a" / "b" / "out", folder=True)
    check_writable(tmp_path / "c.html")
    assert names(tmp_path) == []
    with whole_file(tmp_path / "d" / "e.txt") as scratch:
        scratch.write_text("whole")
    assert names(tmp_path / "d") == ["e.txt"]


CELLS = {
    "signaling": [decimal.Decimal("sNaN"), decimal.Decimal("7182818")],
    "timedelta": [datetime.timedelta(7182818)] * 2,
    "128 bits": pl.Series([7182818 * 10**25, 1], dtype=pl.Int128),
    "no axis": np.array(7182818.25),
}


@pytest.mark.parametrize("cells", CELLS.values(), ids=CELLS)
@pytest.mark.parametrize("frame", [dict, pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("kind", [nw.Table, nw.PublicSample])
def test_foreign_cells_get_one_line_that_does_not_quote_them(cells, frame, kind):
    strange = isinstance(cells, np.ndarray) or cells is CELLS["signaling"]
    if (frame is not dict and strange) or (frame is pd.DataFrame and cells is CELLS["128 bits"]):
        pytest.skip("no such frame")
    schema = nw.Schema((nw.Column(name="a", kind="real", bounds=(0, 1e6)),))
    if (kind, frame) == (nw.PublicSample, pl.DataFrame) and cells is CELLS["128 bits"]:
        assert len(kind(frame({"a": cells}), schema)) == 2  # it is clamped
        return
    with pytest.raises(NoisewiseError) as caught:
        kind(frame({"a": cells}), schema)
    assert "7182818" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("read", [nw.Table.read, nw.PublicSample.read])
def test_a_header_in_latin_1_gets_one_line(tmp_path, read):
    (tmp_path / "t.csv").write_bytes("gr\xf6\xdfe,b\n1,0\n2,1\n".encode("latin-1"))
    with pytest.raises(NoisewiseError, match="can"):
        read(tmp_path / "t.csv", make_schema())


@pytest.mark.parametrize("read", [nw.Schema.from_toml, nw.Plan.load])
def test_deeply_nested_files_get_one_line(tmp_path, read):
    (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(NoisewiseError, match="nested too deeply"):
        read(tmp_path / "deep.toml")


def test_an_empty_list_of_categories_on_a_real_column_is_refused():
    plain = {"columns": {"a": {"type": "real", "bounds": [0, 1], "categories": []}}}
    with pytest.raises(NoisewiseError, match="which a real column does not have"):
        nw.Schema.from_dict(plain)


@pytest.mark.parametrize("epsilon", [1e-320, 1e-300, 1e300])
def test_epsilons_beyond_the_accountant_are_refused(epsilon):
    with pytest.raises(NoisewiseError, match="epsilon must be from 1e-09"):
        nw.Budget(epsilon=epsilon, delta=1e-6)


@pytest.mark.parametrize(
    "option",
    [{"rows": 10**20}, {"simulations": 10**20}, {"seed": -1}, {"seed": 10**30}, {"jobs": 10**20}],
)
def test_absurd_sizes_and_seeds_are_refused_at_once(option):
    asked = {"rows": 100, "budget": nw.Budget(epsilon=1.0, delta=1e-6), "target": "visited"}
    (name,) = option
    with pytest.raises(NoisewiseError, match=f"{name} must be"):
        nw.coverage("logistic", schema=make_schema(), **(asked | option))


def test_a_model_that_changes_y_on_its_way_is_refused():
    def model(X, y=None):
        w = numpyro.sample("w", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
        with numpyro.plate("people", X.shape[0]):
            numpyro.sample("y", dist.Bernoulli(logits=X @ w), obs=None if y is None else y * 1.0)

    with pytest.raises(NoisewiseError, match="changes y on its way"):
        _ = bind_model(model, make_schema(), "visited").target
