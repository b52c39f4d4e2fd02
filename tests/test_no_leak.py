"""Nothing that is saved, printed, logged, warned of or raised may hold a row, or anything computed
from rows alone: looked for in every form in which a fit ever holds them (see `private_copies`)."""

import dataclasses
import logging
import re
import traceback
import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import noisewise as nw
from noisewise.cli import app
from noisewise.data import PrivateRows
from private_copies import copies, files_under, like, private_cells

ROWS, DRAWS = 137, 100
"""Few, so that chance finds nothing."""
BUDGET = nw.Budget(epsilon=8.0, delta=1e-6)
WARDS = ("north", "south", "east")
PEOPLE = np.arange(ROWS) // 2 + 600_000
"""Whose every row is, where units are protected."""
SCHEMA = nw.Schema(
    (
        nw.Column(name="income", kind="real", bounds=(0, 1e6), mean=4e5, sd=3e5),
        nw.Column(name="level", kind="real", bounds=(-3, 3)),
        nw.Column(name="ward", kind="category", categories=WARDS),
        nw.Column(name="visits", kind="count", bounds=(0, 20)),
        nw.Column(name="ill", kind="binary"),
    )
)


OF_PEOPLE = nw.Schema(SCHEMA.columns, unit=nw.Unit("person", max_rows=2))


def frame_of(seed, rows=ROWS):
    """Cells with all the digits that a double has."""
    rng = np.random.default_rng(seed)
    return {
        "income": rng.uniform(2e5, 9e5, rows),
        "level": rng.uniform(-3, 3, rows),
        "ward": rng.choice(WARDS, rows),
        "visits": rng.poisson(2.0, rows),
        "ill": rng.integers(0, 2, rows),
    }


class Everything:
    """Every form in which rows were held, and every text that came out meanwhile."""

    def __init__(self):
        self.held = []
        self.said = {}

    def cells(self):
        wards = frame_of(0)["ward"]
        return private_cells(self.held, {"ward": wards})

    def says(self, what, text):
        self.said[what] = str(text).encode()


@pytest.fixture(scope="module")
def everything():
    """Whatever a fit puts into private rows, encoded, standardised or whitened, is written down."""
    kept = Everything()
    original = PrivateRows.__init__

    def remembering(self, columns, *more):
        original(self, columns, *more)
        kept.held += [np.asarray(column) for column in self._columns.values()]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PrivateRows, "__init__", remembering)
        yield kept


@pytest.fixture(scope="module")
def table(everything):
    return nw.Table(frame_of(0), SCHEMA)


@pytest.fixture(scope="module")
def saved(everything, table, tmp_path_factory):
    """Everything that can be saved, logged and printed about private fits of the table."""
    folder, log = tmp_path_factory.mktemp("leak"), []

    class Listener(logging.Handler):
        def emit(self, record):
            log.append(self.format(record))

    listener, root = Listener(), logging.getLogger()
    level = root.level
    root.addHandler(listener)
    root.setLevel(logging.DEBUG)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            results = _save_all(everything, table, folder)
    finally:
        root.removeHandler(listener)
        root.setLevel(level)
    # JAX tells how long it took, in nine digits: of thousands some are a short cell's by chance.
    everything.says("log", re.sub(r"\d+\.\d+ sec", "", "\n".join(log)))
    everything.says("warnings", "\n".join(str(w.message) for w in warned))
    return results, folder


def _save_all(everything, table, folder):
    ledger = nw.Ledger.create(folder / "people.db", dataclasses.replace(BUDGET, epsilon=90.0))
    asked = {"budget": BUDGET, "draws": DRAWS, "ledger": ledger}
    plan = nw.plan(
        "logistic", schema=SCHEMA, rows=130, budget=BUDGET, target="ill", fits=0, steps=400
    )
    plan.report(plan.save(folder / "plan.toml").with_suffix(".html"))
    results = {
        "dpvi": nw.fit("logistic", table, target="ill", plan=plan, **asked),
        "dp-sep": nw.fit("linear", table, target="level", method="dp-sep", steps=100, **asked),
        "network": nw.fit("network(5)", table, target="level", method="dp-sep", steps=80, **asked),
    }
    check = results["dpvi"].check(table, budget=BUDGET, ledger=ledger)
    check.save(folder / "check.json")
    everything.says("check in words", f"{check!r}\n{check.frame()}\n{check.privacy}")
    people = nw.Table(frame_of(0) | {"person": PEOPLE}, OF_PEOPLE)
    kept = {
        "steps": 50,
        "draws": DRAWS,
        "features": ["level"],
        "checkpoint": folder / "people.checkpoint",
    }
    results["units"] = nw.fit("logistic", people, target="ill", budget=BUDGET, **kept)
    everything.says("units in words", repr(people))
    for name, result in results.items():
        result.save(folder / name)
        result.report(folder / name / "report.html")
        everything.says(f"{name} in words", f"{result!r}\n{result.summary()}\n{result.privacy}")
    ledger.report(folder / "ledger.html")
    everything.says("ledger in words", ledger.export()["lines"])
    everything.says("plan in words", repr(plan))
    everything.says("table in words", f"{table!r} {table.rows!r} {table.schema!r}")
    nw.coverage(
        "logistic",
        schema=SCHEMA,
        rows=130,
        budget=BUDGET,
        target="ill",
        plan=plan,
        simulations=10,
        draws=50,
        folder=folder / "coverage",
    ).report(folder / "coverage.html")
    public = nw.PublicSample(
        {name: column for name, column in frame_of(1, 50).items() if name != "ill"}, SCHEMA
    )
    tables = nw.synthesize(results["dpvi"], covariates=public, copies=2, rows=20)
    tables.fidelity(tables.save(folder / "synthetic") / "fidelity.html")
    for path in (folder / "synthetic").glob("table-*"):
        path.unlink()  # synthetic cells, and the public sample's
    return results


def test_no_file_holds_a_cell_in_any_form(everything, saved):
    _, folder = saved
    content = files_under(folder)
    assert {path.rpartition("/")[2] for path in content} >= {
        *("result.json", "arrays.npz", "report.html", "plan.toml", "plan.html", "coverage.html"),
        *("group-0000000.npz", "privacy.json", "tables.json", "README.txt", "fidelity.html"),
        *("people.db", "ledger.html", "check.json", "part-000001.npz"),
    }
    cells = everything.cells()
    # Raw, encoded, as the three engines hold them: many hundreds of cells in each form.
    assert len(cells.columns) > 10 and len(cells.eights) > 5000 and len(cells.words) > 10
    found = copies(cells, content)
    assert found == []


def test_chance_finds_nothing_either(everything, saved):
    """Twenty sets of cells that are as close together and belong to nobody: had the files' numbers
    a chance above 0.3 to be taken for a cell's, one of these would be found nearly for sure (all
    but once in a thousand)."""
    content, cells = files_under(saved[1]), everything.cells()
    for seed in range(20):
        found = copies(like(cells, seed), content)
    assert found == []


def test_no_text_holds_a_cell_in_any_form(everything, saved):
    assert len(everything.said["log"]) > 1000  # JAX tells a lot, so the listener did listen
    found = copies(everything.cells(), everything.said)
    assert found == []


def test_planted_cells_would_be_found(everything, saved, tmp_path):
    """The same search finds a cell or a column of each form, put into a copy of a real file."""
    _, folder = saved
    cells, report = everything.cells(), (folder / "dpvi" / "report.html").read_text()
    with np.load(folder / "dpvi" / "arrays.npz") as arrays:
        released = dict(arrays)
    whole = [array for array in everything.held if len(array) == ROWS]
    floats = [array.reshape(ROWS, -1) for array in whole if array.dtype.kind == "f"]
    columns = [column for array in floats for column in array.T if len(np.unique(column)) > 100]
    assert len(columns) > 50
    for column in columns[::6]:
        texts = (repr(float(column[17])), " ".join(f"{cell:.8g}" for cell in column[:30]))
        for text in texts:
            assert copies(cells, {"report": f"{report} {text} ".encode()}), text
        for planted in (column[17:18].astype(float), column[::4].astype(np.float32)):
            np.savez_compressed(tmp_path / "a.npz", **released, planted=planted)
            assert copies(cells, files_under(tmp_path / "a.npz")), planted


def test_no_refusal_quotes_a_cell(everything, table):
    """Each with its whole traceback, of tables and fits that are refused because of one cell."""
    raised = []
    for name, value in (
        ("income", -123456.78912),
        ("level", 3.14159265),
        ("ward", "nowhere"),
        ("visits", 918273),
        ("visits", 3.70912345),
        ("ill", 564738),
    ):
        frame = {key: column.astype(object) for key, column in frame_of(0).items()}
        frame[name][17] = value
        raised.append(_refusal(nw.Table, frame, SCHEMA))
        assert str(value) not in raised[-1]
    declared = nw.Table(frame_of(0), nw.Schema(SCHEMA.columns, rows=ROWS + 1))
    for fitted, changed in (
        (table, {"target": "income"}),
        (table, {"target": "ill", "steps": 3}),
        (table, {"target": "ill", "public_sample": _own_sample()}),
        (declared, {"target": "ill", "steps": 100}),
    ):
        raised.append(_refusal(nw.fit, "logistic", fitted, budget=BUDGET, **changed))
    content = {f"refusal {number}": text.encode() for number, text in enumerate(raised)}
    found = copies(everything.cells(), content)
    assert found == []
    assert not any(re.search(rf"\b{ROWS}\b", text.splitlines()[-1]) for text in raised)


def _own_sample():
    return nw.PublicSample({"income": frame_of(0)["income"]}, SCHEMA)


def _refusal(call, *args, **options):
    try:
        call(*args, **options)
    except nw.NoisewiseError:
        return traceback.format_exc()
    raise AssertionError("it was not refused")


def test_the_command_line_prints_no_cell(everything, table, saved, tmp_path):
    pd.DataFrame(frame_of(0)).to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "people.toml").write_text(SCHEMA.to_toml())
    asked = ["--target", "ill", "--epsilon", "8", "--schema", str(tmp_path / "people.toml")]
    data = ["fit", str(tmp_path / "people.csv"), *asked]
    plan = ["--plan", str(saved[1] / "plan.toml")]
    done = CliRunner().invoke(app, [*data, *plan, "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    refused = CliRunner().invoke(app, [*data, "--steps", "1", "-o", str(tmp_path / "never")])
    assert refused.exit_code == 2
    content = files_under(tmp_path / "out")
    content |= {"said": done.output.encode(), "refused": refused.output.encode()}
    found = copies(everything.cells(), content)
    assert found == []


def test_no_file_or_text_holds_the_number_of_rows(everything, saved, table):
    results, folder = saved
    count = re.compile(rf"(?<![\d.]){len(table)}(?![\d.])")
    for name, result in results.items():
        # Secure noise of sd 6 hits zero once in sixteen runs; then there is nothing to tell apart.
        if result.request.public_count != len(table):
            assert not count.search((folder / name / "result.json").read_text())
    for what in ("table in words", "ledger in words"):
        assert not count.search(everything.said[what].decode())


def test_no_saved_array_has_a_length_that_follows_the_rows(saved, table):
    _, folder = saved
    for archive in folder.rglob("*.npz"):
        with np.load(archive) as arrays:
            assert all(len(table) not in arrays[name].shape for name in arrays.files)


def test_the_noise_itself_is_not_kept(saved):
    """Release minus noise is the raw sum: neither noise nor keys may sit in a result."""
    results, folder = saved
    for name, result in results.items():
        with np.load(folder / name / "arrays.npz") as arrays:
            groups = {entry.split("/")[0] for entry in arrays.files}
        assert groups == {"draws", "noise_unaware", "trace"}
        text = (folder / name / "result.json").read_text()
        assert not re.search(r"key|seed|noise_draw", text.replace("keyed", ""))
        assert not hasattr(result, "noise")
